//! Matrices times vectors: which ones, what they cost, and where their numbers lie.

use std::marker::PhantomData;

use millstream_core::Result;
use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, ContractSizes, Family, Tile, Traffic, Variant};

use super::Gemv;
use crate::contract::dispatch::AccElement;
use crate::contract::gemm_isa;
use crate::contract::packed::{Blocking, carve};
use crate::contract::way::{Asked, Parts, Ran, Way};

/// The family of this kernel.
pub(in crate::contract) const FAMILY: Family = Family::new("gemv");

/// A matrix times a vector.
pub(in crate::contract) struct GemvWay<T> {
    gemv: Gemv,
    shape: ContractSizes,
    sum: PhantomData<fn() -> T>,
}

impl<T: AccElement> GemvWay<T> {
    /// The contraction, if one operand is a vector and both lie in memory as this kernel reads them.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<GemvWay<T>> {
        let shape = asked.sizes;
        let [Some(a), Some(b)] = asked.matrices::<T>() else { return None };
        let gemv = Gemv::of_strides::<T>(gemm_isa(asked.machine.isa), shape, [a, b].map(|m| (m.row, m.col)))?;
        Some(GemvWay { gemv, shape, sum: PhantomData })
    }
}

impl<T: AccElement> Way for GemvWay<T> {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let (ContractSizes { m, n, .. }, machine) = (self.shape, asked.machine);
        let fitted = Blocking::for_caches::<T>(&machine.topology, gemm_isa(machine.isa), self.shape);
        // Nothing is rounded up to a register block.
        let (m, n) = (if m == 1 { 1 } else { fitted.mc }, if n == 1 { 1 } else { fitted.nc });
        let block = |m, n, k| Block { m, n, k };
        let blocks = [block(1, 1, 1), block(m, n, fitted.kc)];
        vec![Candidate::new(Variant::plain(FAMILY), Traffic { tile: Tile::new(blocks), ..Traffic::default() })]
    }

    fn workspace(&self) -> usize {
        crate::contract::packed::room_for::<T>(self.gemv.elements())
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let (a, b) = (parts.lhs.source::<T>(bindings)?, parts.rhs.source::<T>(bindings)?);
        // What is not aligned is no longer a matrix in memory.
        if a.stored(0).is_none() || b.stored(0).is_none() {
            return Ok(Ran::ODD);
        }
        let Ok(acc) = carve::<T>(room, self.gemv.elements()) else { return Ok(Ran::ROOM) };
        let isa = gemm_isa(parts.machine.isa);
        parts.epilogue.with_output(bindings, |out| {
            self.gemv.run(isa, &*a, &*b, out, &parts.machine.workers, acc);
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        "the matrix is read once, in place\n".into()
    }
}
