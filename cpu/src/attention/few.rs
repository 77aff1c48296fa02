//! A few queries, as a model has that writes word by word: keys and values are read once for each, in place.

use millstream_core::how::ContractSizes;
use millstream_core::{DType, Error, Result, Unary};

use super::memory::TaskMemory;
use super::passes::{Mix, Products};
use super::tile::Score;
use super::{Attend, Stored};
use crate::contract::gemm_isa;
use crate::contract::gemv::Gemv;
use crate::contract::packed::{Blocking, Gemm, Output, PackSource, Plain, Strided};
use crate::math::{self, BlockFn, FmaForm, ReduceOp};
use crate::program::Base;
use crate::simd::{Isa, vectorize};
use crate::workers::Workers;

/// Queries up to which this is quicker than packing keys and values. Measured.
pub(super) const FEW: usize = 6;

/// What turns scores into shares, in the instruction set of the machine.
pub(super) struct Kernels {
    most: BlockFn,
    /// `a * b + c`, of which `b` and `c` are single values.
    line: BlockFn,
    exp: BlockFn,
    sum: BlockFn,
}

impl Kernels {
    pub(super) fn new(isa: Isa, elem: DType) -> Result<Kernels> {
        let missing = || Error::internal("the CPU lacks a kernel for attention");
        Ok(Kernels {
            most: math::reduce(isa, ReduceOp::Max, elem).ok_or_else(missing)?,
            line: math::fma(isa, elem, FmaForm::VSS).ok_or_else(missing)?,
            exp: math::unary(isa, Unary::Exp, elem).ok_or_else(missing)?,
            sum: math::reduce(isa, ReduceOp::Sum, elem).ok_or_else(missing)?,
        })
    }
}

impl<S: Stored<T>, T: Score> Attend<S, T> {
    /// Whether keys and values lie row by row in the type of scores, for one of several in the batch.
    fn lies_by_rows(&self) -> bool {
        let is_same = size_of::<S>() == size_of::<T>();
        is_same && self.batches > 1 && [(0, 2), (1, 2), (2, 3)].into_iter().all(|(o, dim)| self.stride(o, dim) == 1)
    }

    /// All queries of one of the batch.
    pub(super) fn few(&self, bases: &[Base], scale: T, batch: usize) -> Result<()> {
        if self.lies_by_rows() { self.by_rows(bases, scale, batch) } else { self.by_matmuls(bases, scale, batch) }
    }

    /// The same where keys and values lie row by row.
    fn by_rows(&self, bases: &[Base], scale: T, batch: usize) -> Result<()> {
        let ([m, n, d, e], isa) = (self.sizes, self.machine.isa);
        let index = self.index(batch);
        let at = |o: usize| bases[o].first.offset(self.operands[o].offset(&index));
        let (mut near_keys, mut near_values, mut near_queries) = (Vec::new(), Vec::new(), Vec::new());
        // SAFETY: the dispatcher checked the operands against the index space, and nobody writes them meanwhile.
        let [(queries, query_line), (keys, key_line), (values, value_line)] = unsafe {
            [
                self.aligned(at(0), 0, [0, 2], [m, d], &mut near_queries),
                self.aligned(at(1), 1, [1, 2], [n, d], &mut near_keys),
                self.aligned(at(2), 2, [1, 3], [n, e], &mut near_values),
            ]
        };
        let (queries, keys, values) = (queries.cast::<T>(), keys.cast::<T>(), values.cast::<T>());
        for query in 0..m {
            let mut memory = TaskMemory::take();
            let [scores, sums] = memory.parts::<T, 2>([self.seen(query), e])?;
            let first = queries.wrapping_offset(query as isize * query_line[0]);
            // SAFETY: as above: stored elements of this size are scores, and contiguous.
            let row = unsafe { std::slice::from_raw_parts(first, d) };
            vectorize(isa, Products { query: row, keys: (keys, key_line[0]), scores: &mut *scores });
            let total = self.shares(scores, query, scale, at(3.min(self.operands.len() - 1)));
            vectorize(isa, Mix { shares: &*scores, values: (values, value_line[0]), sums: &mut *sums });
            self.divide(sums, total);
            self.write(at(self.operands.len() - 1), query, sums.iter().copied());
        }
        Ok(())
    }

    /// Divides sums of values by that of the shares.
    fn divide(&self, sums: &mut [T], total: T) {
        for sum in sums {
            *sum = if self.hides() && total == T::ZERO { T::ZERO } else { sum.over(total) };
        }
    }

    /// The same by matmuls of one row each.
    fn by_matmuls(&self, bases: &[Base], scale: T, batch: usize) -> Result<()> {
        let [m, n, d, e] = self.sizes;
        let index = self.index(batch);
        let at = |o: usize| bases[o].first.offset(self.operands[o].offset(&index));
        // A single one runs its matmuls on all threads, one of several on its own.
        let alone = (self.batches > 1).then(|| Workers::new(1));
        let workers = alone.as_ref().unwrap_or(&self.machine.workers);
        let (mut near_keys, mut near_values, mut near_query) = (Vec::new(), Vec::new(), Vec::new());
        // SAFETY: the dispatcher checked the operands against the index space, and nobody writes them meanwhile.
        let [keys, values] = unsafe {
            [
                self.strided(at(1), 1, [1, 2], [n, d], &mut near_keys),
                self.strided(at(2), 2, [3, 1], [e, n], &mut near_values),
            ]
        };
        for query in 0..m {
            let seen = self.seen(query);
            let first = at(0).wrapping_offset(query as isize * self.operands[0].strides[self.batch.len()]);
            // SAFETY: as above.
            let row = unsafe { self.strided(first, 0, [0, 2], [1, d], &mut near_query) };
            let mut memory = TaskMemory::take();
            let [scores, acc] = memory.parts::<T, 2>([seen, e])?;
            self.matmul(ContractSizes::matmul(1, seen, d), &row, &keys, scores, workers)?;
            let total = self.shares(scores, query, scale, at(3.min(self.operands.len() - 1)));
            let shares: Strided<'_, T> = Strided::dense_a(scores, 1, 1, seen).ok_or_else(broken)?;
            self.matmul(ContractSizes::matmul(1, e, seen), &shares, &values, acc, workers)?;
            self.divide(acc, total);
            self.write(at(self.operands.len() - 1), query, acc.iter().copied());
        }
        Ok(())
    }

    /// One row by a matrix.
    fn matmul(
        &self,
        shape: ContractSizes,
        a: &dyn PackSource<T>,
        b: &dyn PackSource<T>,
        out: &mut [T],
        workers: &Workers,
    ) -> Result<()> {
        let isa = gemm_isa(self.machine.isa);
        let blocking = Blocking::for_caches::<T>(&self.machine.topology, isa, shape);
        let out = Output::Plain(Plain::dense(out, 1, 1, shape.n).ok_or_else(broken)?);
        if let Some(gemv) = Gemv::new(isa, shape, a, b) {
            gemv.run(isa, a, b, &out, workers, &mut vec![T::ZERO; gemv.elements()]);
            return Ok(());
        }
        let gemm = Gemm { isa, shape, a, b, out, blocking };
        let mut room = vec![0u8; gemm.workspace(workers.threads())];
        gemm.run(workers, &mut room).map_err(|why| Error::internal(format!("attention: {why}")))
    }

    /// Turns the scores of a query into shares, not yet divided by their sum, which is returned.
    fn shares(&self, scores: &mut [T], query: usize, mut scale: T, mask: *const u8) -> T {
        if self.multiplies(scale) {
            scores.iter_mut().for_each(|x| *x = x.mul(scale));
            scale = T::ONE;
        }
        if self.body.mask {
            let (o, at) = (&self.operands[3], self.batch.len());
            let row = mask.wrapping_offset(query as isize * o.strides[at]);
            for (j, x) in scores.iter_mut().enumerate() {
                let at_score = row.wrapping_offset(j as isize * o.strides[at + 1]);
                // SAFETY: the dispatcher checked the mask against the index space.
                unsafe {
                    if o.dtype != DType::Bool {
                        *x = x.add(at_score.cast::<S>().read_unaligned().widen());
                    } else if at_score.read() == 0 {
                        *x = T::LOWEST;
                    }
                }
            }
        }
        let k = &self.kernels;
        let (p, n) = (scores.as_mut_ptr().cast::<u8>(), scores.len());
        let none = std::ptr::null();
        let (mut most, mut sum) = (T::ZERO, T::ZERO);
        // SAFETY: there are as many scores of the kernels' type, and single values; kernels work in place.
        unsafe { (k.most)((&raw mut most).cast(), p, none, none, n) };
        // Where every key is seen, scores of minus infinity are no sign of the contrary: their shares are NaN.
        if most == T::LOWEST && self.hides() {
            scores.fill(T::ZERO);
            return T::ZERO;
        }
        let shift = T::ZERO.less(most.mul(scale));
        // SAFETY: as above.
        unsafe {
            (k.line)(p, p, (&raw const scale).cast(), (&raw const shift).cast(), n);
            (k.exp)(p, p, none, none, n);
            (k.sum)((&raw mut sum).cast(), p, none, none, n);
        }
        sum
    }
}

fn broken() -> Error {
    Error::internal("an operand of attention is too small")
}
