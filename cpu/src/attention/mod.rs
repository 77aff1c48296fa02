//! Attention: scores of a few queries at a time, which stay in the caches.
//!
//! A task takes some queries of one of the batch. It packs the keys and values once, then for each block of queries multiplies
//! with the keys, turns the scores into shares, and multiplies those with the values. Only the scores of one block are ever in
//! memory. How the work is cut depends on the shape alone.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use half::{bf16, f16};
use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::{Attention, Body, DType, Dims, Error, ErrorKind, Fault, Op, Result, Scalar};
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::contract::product_isa;
use crate::gemm::{
    Batch, Blocking, Element, Gemm, Output, Packed, PackedLayout, Plain, Shape, Side, Strided, Widen, workspace_bytes,
};
use crate::math::{self, BlockFn, Elem, FmaForm, ReduceOp, UnaryOp};
use crate::program::{Base, Operand, bases, seek};
use crate::simd::Isa;
use crate::stream::{CpuLaunch, Run};
use crate::workers::Workers;

/// Queries that share packed keys and values.
const QUERIES: usize = 256;
/// The most queries of a block.
const ROWS: usize = 128;
/// Scores that are in memory at a time: they stay in a second-level cache.
const SCORES: usize = 64 << 10;

/// Bytes of scratch memory that a thread keeps for its next task: fresh memory would cost a page fault every few thousand
/// bytes.
const KEPT: usize = 4 << 20;

/// A task's scratch memory.
struct Memory(Vec<Line>);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]); // Read as numbers.

thread_local! {
    static ROOM: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

impl Memory {
    /// What the last task of this thread left, or nothing.
    fn take() -> Memory {
        Memory(ROOM.take())
    }

    /// Parts of so many numbers, whose values are anything.
    fn parts<T: Score, const N: usize>(&mut self, sizes: [usize; N]) -> Result<[&mut [T]; N]> {
        let each = size_of::<Line>() / size_of::<T>();
        let lines = sizes.map(|n| n.div_ceil(each));
        let wanted = lines.iter().fold(0usize, |sum, n| sum.saturating_add(*n));
        let bytes = wanted.saturating_mul(size_of::<Line>());
        let fault = || Fault::OutOfMemory { device: "cpu".into(), bytes, in_use: 0, reserved: 0 };
        if self.0.len() < wanted {
            // What is there is of no use: it need not move.
            self.0 = Vec::new();
            self.0.try_reserve_exact(wanted).map_err(|_| Error::new(ErrorKind::OutOfMemory, fault()))?;
            self.0.resize(wanted, Line([0; 64]));
        }
        let mut rest = &mut self.0[..];
        let mut at = 0;
        Ok(sizes.map(|n| {
            let (part, more) = std::mem::take(&mut rest).split_at_mut(lines[at]);
            (rest, at) = (more, at + 1);
            // SAFETY: scores are f32 or f64, for which these lines have room and are aligned, and any bytes are numbers.
            unsafe { std::slice::from_raw_parts_mut(part.as_mut_ptr().cast::<T>(), n) }
        }))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.0.len() * size_of::<Line>() <= KEPT {
            ROOM.set(std::mem::take(&mut self.0));
        }
    }
}

/// Attention compiled for the CPU.
pub(crate) struct AttentionKernel {
    machine: Arc<Machine>,
}

impl AttentionKernel {
    pub(crate) fn new(machine: Arc<Machine>) -> AttentionKernel {
        AttentionKernel { machine }
    }
}

impl Kernel for AttentionKernel {
    fn text(&self) -> String {
        "attention: keys and values packed, then blocks of queries: scores, shares, sums of values\n".into()
    }

    fn prepare(&self, op: &Op) -> Result<Arc<dyn Launch>> {
        let machine = self.machine.clone();
        Ok(Arc::new(CpuLaunch(match op.outputs[0].dtype {
            DType::F32 => Arc::new(Attend::<f32, f32>::new(op, machine)?),
            DType::F64 => Arc::new(Attend::<f64, f64>::new(op, machine)?),
            DType::F16 => Arc::new(Attend::<f16, f32>::new(op, machine)?),
            DType::BF16 => Arc::new(Attend::<bf16, f32>::new(op, machine)?),
            other => return Err(Error::internal(format!("the CPU has no attention in {other}"))),
        })))
    }
}

/// A type in which scores are computed.
trait Score: Element + PartialOrd {
    const LOWEST: Self;
    const ONE: Self;
    const ELEM: Elem;
    fn of(scalar: &Scalar) -> Self;
    fn less(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
}

macro_rules! scores {
    ($($t:ty, $elem:ident);+) => {$(
        impl Score for $t {
            const LOWEST: $t = <$t>::NEG_INFINITY;
            const ONE: $t = 1.0;
            const ELEM: Elem = Elem::$elem;
            fn of(scalar: &Scalar) -> $t {
                scalar.to_f64() as $t
            }
            fn less(self, other: $t) -> $t {
                self - other
            }
            fn over(self, other: $t) -> $t {
                self / other
            }
        }
    )+};
}
scores!(f32, F32; f64, F64);

/// A type in memory: read as a score's type, written from it.
trait Stored<T>: Widen<T> {
    fn narrow(value: T) -> Self;
}

impl Stored<f32> for f32 {
    fn narrow(value: f32) -> f32 {
        value
    }
}

impl Stored<f64> for f64 {
    fn narrow(value: f64) -> f64 {
        value
    }
}

impl Stored<f32> for f16 {
    fn narrow(value: f32) -> f16 {
        f16::from_f32(value)
    }
}

impl Stored<f32> for bf16 {
    fn narrow(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

/// What turns scores into shares, in the instruction set of the machine.
struct Kernels {
    most: BlockFn,
    /// `a * b + c`, of which `b` and `c` are single values.
    line: BlockFn,
    exp: BlockFn,
    sum: BlockFn,
}

impl Kernels {
    fn new(isa: Isa, elem: Elem) -> Result<Kernels> {
        let missing = || Error::internal("the CPU lacks a kernel for attention");
        Ok(Kernels {
            most: math::reduce(isa, ReduceOp::Max, elem).ok_or_else(missing)?,
            line: math::fma(isa, elem, FmaForm::VSS).ok_or_else(missing)?,
            exp: math::unary(isa, UnaryOp::Exp, elem).ok_or_else(missing)?,
            sum: math::reduce(isa, ReduceOp::Sum, elem).ok_or_else(missing)?,
        })
    }
}

struct Attend<S, T> {
    machine: Arc<Machine>,
    kernels: Kernels,
    body: Attention,
    operands: Vec<Operand>,
    dims: Dims,
    batch: SmallVec<[usize; 6]>,
    batches: usize,
    /// Queries, keys, d, e.
    sizes: [usize; 4],
    /// Queries of a block.
    rows: usize,
    types: PhantomData<fn(S) -> T>,
}

impl<S: Stored<T>, T: Score> Attend<S, T> {
    fn new(op: &Op, machine: Arc<Machine>) -> Result<Attend<S, T>> {
        let Body::Attention(body) = op.body else {
            return Err(Error::internal(format!("a {} operation is no attention", op.name())));
        };
        let at = op.dims.len() - 4;
        let sizes = [0, 1, 2, 3].map(|i| op.dims[at + i]);
        Ok(Attend {
            kernels: Kernels::new(machine.isa, T::ELEM)?,
            body,
            operands: op.inputs.iter().chain(&op.outputs).map(Operand::new).collect(),
            batch: (0..at).collect(),
            batches: op.dims[..at].iter().product(),
            dims: op.dims.clone(),
            rows: (SCORES / sizes[1].max(1)).clamp(8, ROWS),
            sizes,
            machine,
            types: PhantomData,
        })
    }

    /// Elements from one index of a dimension (queries 0, keys 1, d 2, e 3) to the next.
    fn stride(&self, operand: usize, dim: usize) -> isize {
        let o = &self.operands[operand];
        o.strides[self.batch.len() + dim] / o.dtype.size() as isize
    }

    /// Where the elements of an operand lie along two of its dimensions, from `first` on, and their strides; a copy in `room`
    /// where `first` is no address for them: foreign memory may begin anywhere.
    ///
    /// # Safety
    /// So many elements are readable along both dimensions.
    unsafe fn aligned(
        &self,
        first: *const u8,
        operand: usize,
        dims: [usize; 2],
        [rows, depth]: [usize; 2],
        room: &mut Vec<S>,
    ) -> (*const S, [isize; 2]) {
        let (first, strides) = (first.cast::<S>(), dims.map(|dim| self.stride(operand, dim)));
        if first.is_aligned() {
            return (first, strides);
        }
        room.clear();
        for (row, column) in (0..rows).flat_map(|row| (0..depth).map(move |column| (row, column))) {
            let place = row as isize * strides[0] + column as isize * strides[1];
            // SAFETY: the caller's.
            room.push(unsafe { first.wrapping_offset(place).read_unaligned() });
        }
        (room.as_ptr(), [depth as isize, 1])
    }

    /// Some queries of one of the batch.
    fn task(&self, bases: &[Base], scale: T, task: usize) -> Result<()> {
        let [m, n, d, e] = self.sizes;
        let chunks = m.div_ceil(QUERIES);
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        seek(&mut index, &self.dims, &self.batch, task / chunks);
        let at = |o: usize| bases[o].first.wrapping_offset(self.operands[o].offset(&index));
        let last = self.operands.len() - 1;
        let first = task % chunks * QUERIES;
        let end = m.min(first + QUERIES);
        // Keys that the last of these queries sees.
        let n = if self.body.causal { n.min((end + n).saturating_sub(m)) } else { n };
        let (out, down, along) = (at(last).cast::<S>(), self.stride(last, 0), self.stride(last, 3));
        let write = |query: usize, values: &[T], total: T| {
            let row = out.wrapping_offset(query as isize * down);
            let share = |x: T| S::narrow(if total == T::ZERO { T::ZERO } else { x.over(total) });
            // SAFETY: the dispatcher checked the output against the index space; each task writes its own queries.
            unsafe {
                // A loop of its own, because the compiler makes vectors of it.
                if along == 1 {
                    values.iter().enumerate().for_each(|(c, &x)| row.add(c).write_unaligned(share(x)));
                } else {
                    let place = |c: usize| row.offset(c as isize * along);
                    values.iter().enumerate().for_each(|(c, &x)| place(c).write_unaligned(share(x)));
                }
            }
        };
        if n == 0 {
            let nothing = vec![T::ZERO; e];
            (first..end).for_each(|query| write(query, &nothing, T::ZERO));
            return Ok(());
        }
        let isa = product_isa(self.machine.isa);
        let (scoring, summing) = (Shape::new(self.rows, n, d), Shape::new(self.rows, e, n));
        let (caches, workers) = (&self.machine.topology, &self.machine.workers);
        // A single task runs its products on all threads, one of several on its own.
        let alone = (self.batches * chunks > 1).then(|| Workers::new(1));
        let workers = alone.as_ref().unwrap_or(workers);
        let cut = |shape: Shape| Blocking::for_caches::<T>(caches, isa, shape).spread(shape, workers.threads());
        let blocks = [cut(scoring), cut(summing)];
        let layouts = [
            PackedLayout::new::<T>(Side::B, isa, scoring, &blocks[0]),
            PackedLayout::new::<T>(Side::B, isa, summing, &blocks[1]),
        ];
        let spare =
            [0, 1].map(|i| workspace_bytes::<T>(isa, [scoring, summing][i], &blocks[i], true, workers.threads()));
        let spare = spare[0].max(spare[1]).div_ceil(size_of::<T>());
        let mut memory = Memory::take();
        let sizes = [layouts[0].elements(), layouts[1].elements(), self.rows * n, self.rows * e, spare];
        let [packed_keys, packed_values, scores, sums, room] = memory.parts::<T, 5>(sizes)?;
        let packed = [packed_keys, packed_values];
        let broken = || Error::internal("an operand of attention is too small");
        let mut copy = Vec::new();
        for (i, (dims, sizes)) in [([1, 2], [n, d]), ([3, 1], [e, n])].into_iter().enumerate() {
            // SAFETY: the dispatcher checked the operand against the index space, and nobody writes it meanwhile.
            let source = unsafe {
                let (base, [row, depth]) = self.aligned(at(i + 1), i + 1, dims, sizes, &mut copy);
                Strided::from_raw(base, row, depth, Batch::Stride(0))
            };
            if !layouts[i].pack::<T>(&source, 1, workers, packed[i]) {
                return Err(broken());
            }
        }
        let [keys, values] = [0, 1].map(|i| Packed::new(&*packed[i], layouts[i]));
        let (keys, values) = (keys.ok_or_else(broken)?, values.ok_or_else(broken)?);
        // SAFETY: numbers are bytes, and any bytes are numbers.
        let room = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<u8>(), size_of_val(room)) };
        let mut totals = [T::ZERO; ROWS];
        let failed = |why: crate::gemm::GemmError| Error::internal(format!("attention: {why}"));
        for start in (first..end).step_by(self.rows) {
            let rows = self.rows.min(end - start);
            let q = at(0).cast::<S>().wrapping_offset(start as isize * self.stride(0, 0));
            // SAFETY: as for keys and values.
            let queries = unsafe {
                let (base, [row, depth]) = self.aligned(q.cast(), 0, [0, 2], [rows, d], &mut copy);
                Strided::from_raw(base, row, depth, Batch::Stride(0))
            };
            let out = Plain::dense(scores, 1, rows, n).ok_or_else(broken)?;
            let shape = Shape::new(rows, n, d);
            Gemm { isa, shape, a: &queries, b: &keys, out: Output::Plain(out), blocking: blocks[0] }
                .run(workers, room)
                .map_err(failed)?;
            for (r, (row, total)) in scores.chunks_mut(n).zip(&mut totals).take(rows).enumerate() {
                *total = self.shares(row, start + r, scale, at(3.min(last)));
            }
            let shares = Strided::dense_a(scores, 1, rows, n).ok_or_else(broken)?;
            let out = Plain::dense(sums, 1, rows, e).ok_or_else(broken)?;
            let shape = Shape::new(rows, e, n);
            Gemm { isa, shape, a: &shares, b: &values, out: Output::Plain(out), blocking: blocks[1] }
                .run(workers, room)
                .map_err(failed)?;
            sums.chunks(e).take(rows).enumerate().for_each(|(r, row)| write(start + r, row, totals[r]));
        }
        Ok(())
    }

    /// Turns the scores of a query into shares, not yet divided by their sum, which is returned.
    fn shares(&self, scores: &mut [T], query: usize, mut scale: T, mask: *const u8) -> T {
        let rises = scale > T::ZERO;
        if self.body.mask || !rises {
            scores.iter_mut().for_each(|x| *x = x.mul(scale));
            scale = T::ONE;
        }
        if self.body.mask {
            self.masked(scores, query, mask);
        }
        if self.body.causal {
            // The last query has the place of the last key.
            let [m, n, ..] = self.sizes;
            let seen = (query + n + 1).saturating_sub(m).min(scores.len());
            scores[seen..].fill(T::LOWEST);
        }
        let k = &self.kernels;
        let (p, n) = (scores.as_mut_ptr().cast::<u8>(), scores.len());
        let none = std::ptr::null();
        let (mut most, mut sum) = (T::ZERO, T::ZERO);
        // SAFETY: there are as many scores of the kernels' type, and single values; kernels work in place.
        unsafe { (k.most)((&raw mut most).cast(), p, none, none, n) };
        // Where every key is seen, scores of minus infinity are no sign of the contrary: their shares are NaN.
        if most == T::LOWEST && (self.body.mask || self.body.causal) {
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

    fn masked(&self, scores: &mut [T], query: usize, mask: *const u8) {
        let (o, at) = (&self.operands[3], self.batch.len());
        let row = mask.wrapping_offset(query as isize * o.strides[at]);
        for (j, x) in scores.iter_mut().enumerate() {
            let place = row.wrapping_offset(j as isize * o.strides[at + 1]);
            // SAFETY: the dispatcher checked the mask against the index space.
            unsafe {
                if o.dtype == DType::Bool {
                    if place.read() == 0 {
                        *x = T::LOWEST;
                    }
                } else {
                    *x = x.add(place.cast::<S>().read_unaligned().widen());
                }
            }
        }
    }
}

impl<S: Stored<T>, T: Score> Run for Attend<S, T> {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let [m, _, _, e] = self.sizes;
        if self.batches == 0 || m == 0 || e == 0 {
            return Ok(());
        }
        let scale = bindings.params.first().ok_or_else(|| Error::internal("the scale of attention is missing"))?;
        let (scale, bases) = (T::of(scale), bases(bindings, &self.operands)?);
        let failure = parking_lot::Mutex::new(None);
        self.machine.workers.run(self.batches * m.div_ceil(QUERIES), &|t| {
            if let Err(error) = self.task(&bases, scale, t) {
                failure.lock().get_or_insert(error);
            }
        });
        failure.into_inner().map_or(Ok(()), Err)
    }
}
