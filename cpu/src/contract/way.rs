//! The one trait of all ways to compute a contraction, and what they are given.
//!
//! A way's recogniser looks at an operation ([`Asked`]) once, when candidates are listed or a kernel is prepared, and refuses what the way cannot compute.
//! What it has accepted, it computes, unless the memory of a launch forbids that (odd addresses): then it says why, the packed GEMM computes it, and the
//! profile has the reason.

use std::sync::Arc;

use millstream_core::backend::{Binding, Bindings};
use millstream_core::how::{Candidate, ContractSizes};
use millstream_core::what::{ImageSide, Windows};
use millstream_core::{Access, Contract, DType, Op, Result};

use super::dispatch::AccElement;
use super::epilogue::Epilogue;
use super::operand::{Operand, as_stored, find, is_aligned, origin};
use super::packed::Side;
use super::view::{View, reach};
use crate::backend::Machine;

/// An operation that somebody wants to compute, for recognisers.
pub(super) struct Asked<'a> {
    pub(super) op: &'a Op,
    pub(super) contract: &'a Contract,
    pub(super) sizes: ContractSizes,
    pub(super) machine: &'a Machine,
    /// How many threads it would be cut for.
    pub(super) threads: usize,
}

impl<'a> Asked<'a> {
    pub(super) fn new(op: &'a Op, machine: &'a Machine, threads: usize) -> Option<Asked<'a>> {
        let millstream_core::Body::Contract(contract) = &op.body else { return None };
        Some(Asked { op, contract, sizes: ContractSizes::of(op)?, machine, threads })
    }

    /// It as a convolution over this operand.
    pub(super) fn windows(&self, side: ImageSide) -> Option<&Windows> {
        self.op.windows().iter().find(|w| w.side == side)
    }

    /// Both operands, where they are matrices in memory that are read as `T`.
    pub(super) fn matrices<T: AccElement>(&self) -> [Option<StoredMatrix>; 2] {
        let (op, c) = (self.op, self.contract);
        [(&c.lhs, c.m..c.n), (&c.rhs, c.n..c.k)].map(|(expr, rows)| {
            // Truth values are counted: they must be 0 or 1 first, which only a program sees to.
            let input = as_stored::<T>(expr, c.acc).filter(|_| c.acc != DType::Bool)?;
            let access = op.inputs.get(input).filter(|a| a.is_plain())?;
            let view = View::new(access, &op.dims, 0..c.m, rows, c.k..op.dims.len());
            Some(StoredMatrix { dtype: access.dtype, row: view.row.single()?, col: view.col.single()? })
        })
    }

    /// Whether the result is a matrix in memory whose columns are contiguous and whose rows are not.
    pub(super) fn is_transposed(&self) -> bool {
        let (op, c) = (self.op, self.contract);
        let result = op.outputs.first().filter(|_| c.epilogue.is_acc());
        result.is_some_and(|a| {
            let view = View::new(a, &op.dims, 0..c.m, c.m..c.n, c.n..c.k);
            view.row.single() == Some(1) && view.col.single().is_some_and(|col| col != 1)
        })
    }

    /// Bytes of so many numbers for each matrix of the batch.
    pub(super) fn bytes<T>(&self, a: usize, b: usize) -> u64 {
        [self.sizes.batch, a, b].iter().fold(size_of::<T>() as u64, |n, &by| n.saturating_mul(by as u64))
    }

    /// Bytes of an operand in f32 that is packed whatever the way, where both are matrices. Beside an image filters are few, and mostly in the pack
    /// cache.
    pub(super) fn beside_matrix(&self, side: Side) -> u64 {
        let (rows, k) = (if side == Side::A { self.sizes.m } else { self.sizes.n }, self.sizes.k);
        if self.matrices::<f32>().iter().all(Option::is_some) { self.bytes::<f32>(rows, k) } else { 0 }
    }

    /// How many times faster the rate of the operands' dtypes is than that of single numbers of `T`: the cost model counts with the former.
    pub(super) fn faster<T: AccElement>(&self) -> f64 {
        let [Some(a), Some(b)] = self.matrices::<T>() else { return 1.0 };
        let rate = |dtype| self.machine.reference.rate(dtype);
        (rate(a.dtype).min(rate(b.dtype)) / rate(T::DTYPE)).max(1.0)
    }
}

/// A matrix in memory: what its elements are stored as, and its strides from row to row and along K.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredMatrix {
    pub(super) dtype: DType,
    pub(super) row: isize,
    pub(super) col: isize,
}

/// What all ways to compute an operation share: its operands and what becomes of its accumulators.
pub(super) struct Parts {
    pub(super) machine: Arc<Machine>,
    pub(super) lhs: Operand,
    pub(super) rhs: Operand,
    pub(super) epilogue: Epilogue,
}

/// How a run ended.
pub(super) enum Ran {
    /// The results are in memory.
    Done,
    /// The addresses or the numbers of this launch forbid this way, for this reason. Nothing was written.
    Refused(&'static str),
}

impl Ran {
    pub(super) const ODD: Ran = Ran::Refused("an operand lies at an odd address, or beyond its memory");
    pub(super) const ROOM: Ran = Ran::Refused("the workspace is too small");
}

/// A way to compute one operation, which its recogniser has accepted.
pub(super) trait Way: Send + Sync + 'static {
    /// It for the cost model, with its own traffic, whatever other ways there are.
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate>;

    /// Bytes of scratch memory.
    fn workspace(&self) -> usize;

    /// Computes it, with the scratch memory of the launch.
    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran>;

    /// What is done, in a few words.
    fn describe(&self) -> String;
}

/// An input in f32 that is read in place.
pub(super) struct InPlace {
    pub(super) input: usize,
    /// The element of index 0, and those that may be read, from the binding's first.
    base: isize,
    reach: (isize, isize),
}

impl InPlace {
    pub(super) fn new(input: usize, access: &Access, dims: &[usize]) -> Option<InPlace> {
        Some(InPlace { input, base: access.base, reach: reach(access, dims)? })
    }

    /// Its binding and where its first element lies, if all that may be read lies in the binding, aligned.
    pub(super) fn find<'a, 'b>(&self, bindings: &'a Bindings<'b>) -> Result<(&'a Binding<'b>, Option<*const f32>)> {
        let binding = find(bindings.inputs, self.input)?;
        let origin = origin(binding, DType::F32)?;
        let inside = -origin.before <= self.reach.0 && self.reach.1 < origin.after;
        Ok((binding, (inside && is_aligned(origin.base.0, DType::F32)).then_some(origin.base.0.cast_const().cast())))
    }

    /// The element of index 0, under the same conditions.
    pub(super) fn first(&self, bindings: &Bindings<'_>) -> Result<Option<*const f32>> {
        Ok(self.find(bindings)?.1.map(|at| at.wrapping_offset(self.base)))
    }
}

/// The part of scratch memory that holds so many numbers, from the first cache line on.
pub(super) fn numbers(room: &mut [u8], elements: usize) -> Option<&mut [f32]> {
    let skip = room.as_ptr().align_offset(ALIGN);
    if room.len() < skip.checked_add(elements.checked_mul(size_of::<f32>())?)? {
        return None;
    }
    // SAFETY: the room has these bytes from the aligned address on; any bytes are numbers.
    Some(unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().add(skip).cast::<f32>(), elements) })
}

/// Bytes of scratch memory of which [`numbers`] finds so many, wherever it begins.
pub(super) fn bytes_of(elements: usize) -> usize {
    elements * size_of::<f32>() + ALIGN
}

/// The alignment of scratch memory: whole vectors.
const ALIGN: usize = 64;
