//! Matmuls so small that L1 holds them: both operands are read in place, nothing is packed.
//!
//! Chosen for at most [`MOST`] multiply-adds of matrices whose memory the micro-kernels can read. Error bound and grouping of sums: those of
//! the packed GEMM, whose micro-kernels these are.

use std::marker::PhantomData;

use millstream_core::Result;
use millstream_core::backend::Bindings;
use millstream_core::how::{Candidate, ContractSizes, Family, Schedule};

use super::dispatch::AccElement;
use super::gemm_isa;
use super::packed::{Blocking, edges, execute, tile, unpacked, workspace_bytes};
use super::way::{Asked, Parts, Ran, Way};

/// The family of this kernel.
pub(super) const FAMILY: Family = Family::new("small");
/// Multiply-adds of one matrix of the batch, at most.
const MOST: usize = 40 * 40 * 40;

/// A matmul that is not packed.
pub(super) struct SmallWay<T> {
    shape: ContractSizes,
    blocking: Blocking,
    workspace: usize,
    /// It is computed as its transpose.
    transposed: bool,
    sum: PhantomData<fn() -> T>,
}

impl<T: AccElement> SmallWay<T> {
    /// The contraction, if it is small and micro-kernels can read both operands.
    pub(super) fn recognise(asked: &Asked<'_>) -> Option<SmallWay<T>> {
        let (shape, machine) = (asked.sizes, asked.machine);
        let ContractSizes { m, n, k, .. } = shape;
        if m.min(n) < 2 || k == 0 || m.saturating_mul(n).saturating_mul(k) > MOST {
            return None;
        }
        let [Some(a), Some(b)] = asked.matrices::<T>() else { return None };
        if [a, b].iter().any(|matrix| matrix.dtype != T::DTYPE) {
            return None;
        }
        let isa = gemm_isa(machine.isa);
        let blocking = Blocking::for_caches::<T>(&machine.topology, isa, shape);
        let strides = [a, b].map(|matrix| Some((matrix.row, matrix.col)));
        // A result whose rows are contiguous along m is computed as its transpose.
        let (shape_read, strides) =
            if asked.is_transposed() { (shape.transposed(), [strides[1], strides[0]]) } else { (shape, strides) };
        if unpacked::<T>(isa, shape_read, blocking.kc, strides) != [true; 2] {
            return None;
        }
        let blocking = blocking.spread(shape, asked.threads);
        let workspace = workspace_bytes::<T>(isa, shape, &blocking, true, asked.threads);
        Some(SmallWay { shape, blocking, workspace, transposed: asked.is_transposed(), sum: PhantomData })
    }
}

impl<T: AccElement> Way for SmallWay<T> {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let machine = asked.machine;
        let isa = gemm_isa(machine.isa);
        let blocking = Blocking::for_caches::<T>(&machine.topology, isa, self.shape);
        let mut candidate = Candidate::scheduled(FAMILY, tile(blocking, self.shape));
        candidate.schedule = Schedule::default();
        candidate.traffic.edges = Some(edges::<T>(isa, self.shape));
        vec![candidate]
    }

    fn workspace(&self) -> usize {
        self.workspace
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let (a, b) = (parts.lhs.source::<T>(bindings)?, parts.rhs.source::<T>(bindings)?);
        let no_transpose = self.transposed && parts.epilogue.plain::<T>(bindings)?.is_none();
        if no_transpose || a.direct(0).is_none() || b.direct(0).is_none() {
            return Ok(Ran::ODD);
        }
        let isa = gemm_isa(parts.machine.isa);
        execute(parts, bindings, (isa, self.shape, self.blocking), (&*a, &*b), room)?;
        Ok(Ran::Done)
    }

    fn describe(&self) -> String {
        let Blocking { mr, nr, mc, nc, kc } = self.blocking;
        format!("both operands are read in place: registers {mr} x {nr}, tasks {mc} x {nc}, K {kc}\n")
    }
}
