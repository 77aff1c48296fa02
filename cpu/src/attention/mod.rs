//! Attention: scores of a few queries at a time, which stay in the caches.
//!
//! A task takes some queries of one of the batch and packs them as columns, a query in each lane. Then, for some keys at a time, which
//! it packs as rows with their values, it goes through the panels of queries: the micro-kernel gives the scores of these keys, those
//! become shares of the largest score so far, and a second matmul adds up the values. Only the scores of one panel for one block of
//! keys are ever in memory. How sums are grouped depends on the shape alone.
//!
//! `tile`: scores of a panel. `few`: a few queries, by `passes` over keys and values in place.

mod few;
mod memory;
mod passes;
mod tile;

use std::marker::PhantomData;
use std::sync::Arc;

use half::{bf16, f16};
use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::how::Schedule;
use millstream_core::{Attention, Body, DType, Dims, Error, Op, Result};
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::contract::gemm_isa;
use crate::contract::packed::{Batch, PackBlock, PackSource, Panel, Panels, Strided, Widen, even};
use crate::program::{Base, Operand, bases, seek};
use crate::simd::vectorize;
use crate::stream::{CpuLaunch, Run};
use few::{FEW, Kernels};
use memory::TaskMemory;
use tile::{Divide, Known, Masked, Score, Shares};

/// The most keys of a block: their scores for a panel of queries stay near, and sums over them are long.
const KEYS: usize = 576;
/// Queries that share packed keys and values, at most.
const QUERIES: usize = 512;
/// Tasks for each thread that let fast ones take over what slow ones would finish late.
const TASKS_EACH: usize = 4;

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
        "attention: blocks of keys and values packed, then panels of queries: scores, shares, sums of values\n".into()
    }

    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
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

struct Attend<S, T: 'static> {
    machine: Arc<Machine>,
    panels: Panels<T>,
    kernels: Kernels,
    body: Attention,
    operands: Vec<Operand>,
    dims: Dims,
    batch: SmallVec<[usize; 6]>,
    batches: usize,
    /// Queries, keys, d, e.
    sizes: [usize; 4],
    /// Keys of a block, whole panels.
    keys: usize,
    /// Queries of a task, whole panels.
    queries: usize,
    types: PhantomData<fn(S) -> T>,
}

impl<S: Stored<T>, T: Score> Attend<S, T> {
    fn new(op: &Op, machine: Arc<Machine>) -> Result<Attend<S, T>> {
        let Body::Attention(body) = op.body else {
            return Err(Error::internal(format!("a {} operation is no attention", op.name())));
        };
        let at = op.dims.len() - 4;
        let sizes = [0, 1, 2, 3].map(|i| op.dims[at + i]);
        let [m, n, d, e] = sizes;
        let batches: usize = op.dims[..at].iter().product();
        let panels = Panels::new(gemm_isa(machine.isa))
            .ok_or_else(|| Error::internal("the CPU lacks a kernel for attention"))?;
        // Packed keys and values have half of L2.
        let room = machine.topology.l2().size / 2 / ((d + e) * size_of::<T>()).max(1);
        let keys = even(n, room.min(KEYS).max(4 * panels.rows()), panels.rows());
        // How sums are grouped depends on the keys alone, so that queries may be cut for the threads.
        let width = panels.columns();
        let tasks = if machine.workers.threads() > 1 { machine.workers.threads() * TASKS_EACH } else { 1 };
        let each = m.div_ceil(tasks.div_ceil(batches.max(1)));
        let queries = even(m, each.min(QUERIES), width);
        Ok(Attend {
            panels,
            kernels: Kernels::new(machine.isa, T::ELEM)?,
            body,
            operands: op.inputs.iter().chain(&op.outputs).map(Operand::new).collect(),
            batch: (0..at).collect(),
            batches,
            dims: op.dims.clone(),
            sizes,
            keys,
            queries,
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
        [rows, cols]: [usize; 2],
        room: &mut Vec<S>,
    ) -> (*const S, [isize; 2]) {
        let (first, strides) = (first.cast::<S>(), dims.map(|dim| self.stride(operand, dim)));
        if first.is_aligned() {
            return (first, strides);
        }
        room.clear();
        for (row, column) in (0..rows).flat_map(|row| (0..cols).map(move |column| (row, column))) {
            let offset = row as isize * strides[0] + column as isize * strides[1];
            // SAFETY: the caller's.
            room.push(unsafe { first.wrapping_offset(offset).read_unaligned() });
        }
        (room.as_ptr(), [cols as isize, 1])
    }

    /// An operand as rows by columns along two of its dimensions, from `first` on.
    ///
    /// # Safety
    /// As for [`Attend::aligned`], and nobody writes the elements meanwhile.
    unsafe fn strided<'a>(
        &self,
        first: *const u8,
        operand: usize,
        dims: [usize; 2],
        sizes: [usize; 2],
        room: &'a mut Vec<S>,
    ) -> Strided<'a, S> {
        // SAFETY: the caller's.
        unsafe {
            let (base, [row, col]) = self.aligned(first, operand, dims, sizes, room);
            Strided::from_raw(base, row, col, Batch::SAME)
        }
    }

    /// Packs so many rows of an operand into whole panels.
    ///
    /// # Safety
    /// As for [`Attend::strided`].
    unsafe fn pack(
        &self,
        first: *const u8,
        operand: usize,
        dims: [usize; 2],
        [rows, cols]: [usize; 2],
        panel: usize,
        dst: &mut [T],
    ) {
        let mut copy = Vec::new();
        // SAFETY: the caller's.
        let source = unsafe { self.strided(first, operand, dims, [rows, cols], &mut copy) };
        let block = PackBlock { batch: 0, row: 0, rows, k: 0, k_len: cols, panel };
        source.pack(&block, &mut dst[..block.len()]);
    }

    /// The index of one of the batch.
    fn index(&self, batch: usize) -> SmallVec<[usize; 6]> {
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        seek(&mut index, &self.dims, &self.batch, batch);
        index
    }

    /// Writes the results of a query.
    fn write(&self, out: *mut u8, query: usize, values: impl Iterator<Item = T>) {
        let last = self.operands.len() - 1;
        let (down, along) = (self.stride(last, 0), self.stride(last, 3));
        let row = out.cast::<S>().wrapping_offset(query as isize * down);
        for (c, value) in values.enumerate() {
            // SAFETY: the dispatcher checked the output against the index space; each task writes its own queries.
            unsafe { row.wrapping_offset(c as isize * along).write_unaligned(S::narrow(value)) };
        }
    }

    /// Whether a query may see no key at all, which gives zeros.
    fn hides(&self) -> bool {
        self.body.mask || self.body.causal || self.sizes[1] == 0
    }

    /// Whether scores are multiplied before anything else: a mask is added to them then, and by a negative number the largest would
    /// become the smallest.
    fn multiplies(&self, scale: T) -> bool {
        self.body.mask || scale.partial_cmp(&T::ZERO) != Some(std::cmp::Ordering::Greater)
    }

    /// How many keys a query sees.
    fn seen(&self, query: usize) -> usize {
        let [m, n, ..] = self.sizes;
        // The last query sees all keys.
        if self.body.causal { (query + n + 1).saturating_sub(m).min(n) } else { n }
    }

    /// Some queries of one of the batch.
    fn task(&self, bases: &[Base], scale: T, task: usize) -> Result<()> {
        let [m, _, d, e] = self.sizes;
        let (isa, panels) = (self.machine.isa, &self.panels);
        let (height, width) = (panels.rows(), panels.columns());
        let chunks = m.div_ceil(self.queries);
        let index = self.index(task / chunks);
        let at = |o: usize| bases[o].first.offset(self.operands[o].offset(&index));
        let along = |o: usize, dim: usize, n: usize| {
            let step = self.operands[o].strides[self.batch.len() + dim];
            at(o).wrapping_offset(n as isize * step)
        };
        let first = task % chunks * self.queries;
        let end = m.min(first + self.queries);
        let count = (end - first).div_ceil(width);
        let mut memory = TaskMemory::take();
        let parts = [self.keys * d, e.next_multiple_of(height) * self.keys, self.keys * width];
        let [known, masks] = [count * width, if self.body.mask { 2 * parts[2] } else { 0 }];
        let parts = [parts[0], parts[1], parts[2], known * d, known * e, known, known, masks];
        let [keys, values, scores, queries, acc, most, total, masks] = memory.parts::<T, 8>(parts)?;
        most.fill(T::LOWEST);
        total.fill(T::ZERO);
        // SAFETY: the dispatcher checked the operand against the index space, and nobody writes it meanwhile.
        unsafe { self.pack(along(0, 0, first), 0, [0, 2], [end - first, d], width, queries) };
        let seen = self.seen(end - 1);
        for from in (0..seen).step_by(self.keys) {
            let n = self.keys.min(seen - from);
            // SAFETY: as for the queries.
            unsafe {
                self.pack(along(1, 1, from), 1, [1, 2], [n, d], height, keys);
                self.pack(along(2, 1, from), 2, [3, 1], [e, n], height, values);
            }
            for panel in 0..count {
                let query = first + panel * width;
                let some = width.min(end - query);
                let n = n.min(self.seen(query + some - 1).saturating_sub(from));
                if n == 0 {
                    continue;
                }
                let scores = &mut scores[..n * width];
                let acc = &mut acc[panel * width * e..][..width * e];
                for row in (0..n).step_by(height) {
                    let (a, b) = (keys[row * d..].as_ptr(), queries[panel * width * d..].as_ptr());
                    let of = Panel { k: d, a, b, c: scores[row * width..].as_mut_ptr(), add: false };
                    // SAFETY: panels of keys and queries are `d` deep, and there are scores for whole panels of queries.
                    unsafe { panels.run(&of, height.min(n - row), some) };
                }
                let mask = at(3.min(self.operands.len() - 1));
                let scale = self.hide(scores, [query, some, from], scale, mask, masks);
                let here = panel * width..(panel + 1) * width;
                let known = Known { most: &mut most[here.clone()], total: &mut total[here] };
                let before: &mut [T] = if from > 0 { acc } else { &mut [] };
                vectorize(isa, Shares { scores, width, queries: some, scale, known, acc: before });
                for row in (0..e).step_by(height) {
                    let (a, b) = (values[row * self.keys.min(seen - from)..].as_ptr(), scores.as_ptr());
                    let of = Panel { k: n, a, b, c: acc[row * width..].as_mut_ptr(), add: from > 0 };
                    // SAFETY: panels of values and scores are at least `n` deep, and there are accumulators for whole panels of queries.
                    unsafe { panels.run(&of, height.min(e - row), some) };
                }
            }
        }
        for panel in 0..count {
            let (query, total) = (first + panel * width, &total[panel * width..][..width]);
            let acc = &mut acc[panel * width * e..][..width * e];
            vectorize(isa, Divide { acc, width, total, hides: self.hides() });
            for lane in 0..width.min(end - query) {
                let values = acc.iter().skip(lane).step_by(width).copied();
                self.write(at(self.operands.len() - 1), query + lane, values);
            }
        }
        Ok(())
    }

    /// Makes scores that are not seen minus infinity, and adds what the mask says. Gives what scores have yet to be multiplied with. They
    /// are those of some queries, from one on, for keys from one on; there is twice as much room where there is a mask.
    fn hide(&self, scores: &mut [T], [query, some, key]: [usize; 3], scale: T, mask: *const u8, room: &mut [T]) -> T {
        let (isa, width) = (self.machine.isa, self.panels.columns());
        let mut rest = scale;
        if self.multiplies(scale) {
            let added: &[T] = if self.body.mask {
                let (transposed, rows) = room.split_at_mut(room.len() / 2);
                let (o, at) = (&self.operands[3], self.batch.len());
                let [down, along] = [0, 1].map(|dim| o.strides[at + dim]);
                let first = mask.wrapping_offset(query as isize * down + key as isize * along);
                let block = PackBlock { batch: 0, row: 0, rows: some, k: 0, k_len: scores.len() / width, panel: width };
                let transposed = &mut transposed[..block.len()];
                if o.dtype == DType::Bool {
                    for (lane, row) in rows.chunks_exact_mut(block.k_len).enumerate().take(some) {
                        let bytes = first.wrapping_offset(lane as isize * down);
                        for (j, x) in row.iter_mut().enumerate() {
                            // SAFETY: the dispatcher checked the mask against the index space.
                            let seen = unsafe { bytes.wrapping_offset(j as isize * along).read() } != 0;
                            *x = if seen { T::ZERO } else { T::LOWEST };
                        }
                    }
                    // SAFETY: the rows were written just now.
                    let rows = unsafe { Strided::<T>::from_raw(rows.as_ptr(), block.k_len as isize, 1, Batch::SAME) };
                    rows.pack(&block, transposed);
                } else {
                    let mut near = Vec::new();
                    // SAFETY: the dispatcher checked the mask against the index space.
                    let rows = unsafe { self.strided(first, 3, [0, 1], [some, block.k_len], &mut near) };
                    rows.pack(&block, transposed);
                }
                transposed
            } else {
                &[]
            };
            let replaces = self.body.mask && self.operands[3].dtype == DType::Bool;
            vectorize(isa, Masked { scores, scale, added, replaces });
            rest = T::ONE;
        }
        // Keys that the first query does not see are hidden from as many queries as come before.
        for (j, scores) in scores.chunks_exact_mut(width).enumerate().skip(self.seen(query).saturating_sub(key)) {
            let hidden = (query..query + some).take_while(|&query| self.seen(query) <= key + j).count();
            scores[..hidden].fill(T::LOWEST);
        }
        rest
    }
}

impl<S: Stored<T>, T: Score> Run for Attend<S, T> {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let [m, _, _, e] = self.sizes;
        if self.batches == 0 || m == 0 || e == 0 {
            return Ok(());
        }
        let scale = bindings.params.first().ok_or_else(|| Error::internal("the scale of attention is missing"))?;
        let (scale, bases) = (T::from_f64(scale.to_f64()), bases(bindings, &self.operands)?);
        let failure = parking_lot::Mutex::new(None);
        let note = |done: Result<()>| {
            if let Err(error) = done {
                failure.lock().get_or_insert(error);
            }
        };
        if m <= FEW && self.batches > 1 {
            self.machine.workers.run(self.batches, &|batch| note(self.few(&bases, scale, batch)));
        } else if m <= FEW {
            note(self.few(&bases, scale, 0));
        } else {
            let tasks = self.batches * m.div_ceil(self.queries);
            self.machine.workers.run(tasks, &|task| note(self.task(&bases, scale, task)));
        }
        failure.into_inner().map_or(Ok(()), Err)
    }
}
