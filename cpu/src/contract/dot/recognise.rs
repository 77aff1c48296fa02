//! Matmuls of narrow types: which ones, what they cost, and where their numbers lie.

use std::marker::PhantomData;

use millstream_core::backend::Bindings;
use millstream_core::how::{Candidate, ContractSizes, Family, Traffic, Variant};
use millstream_core::{DType, Result};

use crate::contract::dispatch::{AccElement, Extent, How};
use crate::contract::packed::{Blocking, MicroKernel, Side, copied, edges, execute_cached, tile, workspace_bytes};
use crate::contract::way::{Asked, Parts, Ran, Way};

/// The family of these kernels.
pub(in crate::contract) const FAMILY: Family = Family::new("dot");
/// Fewer multiply-adds than this, or so short a K, are not worth looking at the numbers first.
const LEAST: (usize, usize) = (32 * 32 * 32, 8);

/// A matmul of several narrow numbers at a time.
pub(in crate::contract) struct DotWay<T> {
    isa: MicroKernel,
    /// What the operands are stored as.
    dtypes: [DType; 2],
    /// The size in numbers, and in groups of them.
    shape: ContractSizes,
    grouped: ContractSizes,
    blocking: Blocking,
    workspace: usize,
    sum: PhantomData<fn() -> T>,
}

impl<T: AccElement> DotWay<T> {
    /// The contraction, if its operands are matrices of narrow numbers for which the machine has instructions.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<DotWay<T>> {
        let (shape, machine, threads) = (asked.sizes, asked.machine, asked.threads);
        let [Some(a), Some(b)] = asked.matrices::<T>() else { return None };
        let isa = T::together(a.dtype, b.dtype, machine.isa)?;
        let ContractSizes { m, n, k, .. } = shape;
        if m == 1 || n == 1 || k < LEAST.1 || m.saturating_mul(n).saturating_mul(k) < LEAST.0 {
            return None;
        }
        let grouped = ContractSizes { k: isa.packed_k(k), ..shape };
        let blocking = Blocking::for_caches::<T>(&machine.topology, isa, grouped).spread(grouped, threads);
        let workspace = workspace_bytes::<T>(isa, grouped, &blocking, false, threads);
        Some(DotWay { isa, dtypes: [a.dtype, b.dtype], shape, grouped, blocking, workspace, sum: PhantomData })
    }
}

impl<T: AccElement> Way for DotWay<T> {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let numbers = Blocking { kc: self.blocking.kc.saturating_mul(self.isa.together()), ..self.blocking };
        let traffic = Traffic {
            tile: tile(numbers, self.shape),
            copied: copied::<T>(asked, numbers.kc),
            edges: Some(edges::<T>(self.isa, self.shape)),
            ..Traffic::default()
        };
        vec![Candidate::new(Variant::plain(FAMILY), traffic)]
    }

    fn workspace(&self) -> usize {
        self.workspace
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let ContractSizes { batch, m, n, k } = self.shape;
        let extent = |rows| Extent { batch, rows, k_len: k, workers: &parts.machine.workers };
        let how = |side, other| How { isa: self.isa, side, other };
        let a = parts.lhs.grouped::<T>(bindings, how(Side::A, self.dtypes[1]), extent(m))?;
        let b = parts.rhs.grouped::<T>(bindings, how(Side::B, self.dtypes[0]), extent(n))?;
        let (Some(a), Some(b)) = (a, b) else {
            return Ok(Ran::Refused("narrow numbers were multiplied one at a time: odd addresses, or unfit values"));
        };
        execute_cached(parts, bindings, (self.isa, self.grouped, self.blocking), (&*a, &*b), room)?;
        Ok(Ran::Done)
    }

    fn describe(&self) -> String {
        let (Blocking { mr, nr, mc, nc, kc }, numbers, isa) = (self.blocking, self.isa.together(), self.isa);
        format!("{numbers} at a time by {isa:?}: registers {mr} x {nr}, tasks {mc} x {nc}, K {numbers} x {kc}\n")
    }
}
