//! Running sums, products, largest and smallest elements along a dimension.
//!
//! Rows are independent and shared among the workers. Where rows are adjacent (a scan down columns), many are walked
//! at once, so that memory is read along its lines. Few long rows are cut into chunks, by shape alone: the total of each chunk is
//! accumulated from nothing, and what is before the chunk is joined to each of its results. On one thread that takes one pass;
//! on several, a thread first finds its chunk's total, adds it to what the chunks before have told, and goes through
//! the chunk again, which is in its cache, while the next chunk's thread has what it needs.
//!
//! Short rows that lie one behind the other are walked as one, or several at once.
//!
//! Running products of floats are not grouped in any way: each row is one chain.
//!
//! - `items`: what is accumulated in what. `walks`: along rows and across adjacent ones. `vectors`: along rows with AVX-512.

mod items;
#[cfg(target_arch = "x86_64")]
mod vectors;
mod walks;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::{bf16, f16};
use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::how::Schedule;
use millstream_core::{Body, DType, Dims, Error, Op, Reduce, Result};
use num_complex::Complex;
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::program::{Base, Operand, bases, fence, seek, step};
use crate::shared::Shared;
use crate::simd::Isa;
use crate::stream::{CpuLaunch, Run};
use items::{Item, MAX, MIN, PROD, SUM};
use walks::{Carry, LANES, MOST_SHORT, RowPart, Rows, Walk, WalkAlong, WalkWriting};

/// Bytes of a chunk of a long row: a part of an L2 cache.
const CHUNK: usize = 256 << 10;
/// So many rows are not cut.
const MANY: usize = 16;
/// The least adjacent rows that one task walks together, if there are more.
const NARROW: usize = 64;

/// A scan compiled for the CPU.
pub(crate) struct ScanKernel {
    machine: Arc<Machine>,
    walks: WalkTable,
    /// Whether elements must be taken one after the other: products of floats that are grouped otherwise may leave the range of
    /// numbers where those of the definition do not.
    in_order: bool,
    text: String,
}

/// The ways to walk rows of one dtype.
#[derive(Clone, Copy)]
struct WalkTable {
    along: WalkAlong,
    beside: Walk,
    strided: Walk,
    short: Walk,
    nothing: Carry,
    merge: fn(&Carry, &Carry) -> Carry,
}

impl ScanKernel {
    pub(crate) fn new(op: &Op, machine: Arc<Machine>) -> Result<ScanKernel> {
        let Body::Scan { reduce, .. } = op.body else {
            return Err(Error::internal(format!("a {} operation is no scan", op.name())));
        };
        let dtype = op.inputs[0].dtype;
        let walks = walks_of(dtype, reduce, machine.isa)
            .ok_or_else(|| Error::internal(format!("the CPU has no running {} of {dtype}", reduce.name())))?;
        let text = format!("running {} of {dtype}, up to {LANES} adjacent rows\n", reduce.name());
        let in_order = reduce == Reduce::Prod && !dtype.is_integer() && dtype != DType::Bool;
        Ok(ScanKernel { machine, walks, in_order, text })
    }
}

impl Kernel for ScanKernel {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        let inner = if let Body::Scan { inner, .. } = op.body { inner } else { 0 };
        let operands = [Operand::new(&op.inputs[0]), Operand::new(&op.outputs[0])];
        let elements: usize = op.dims[inner..].iter().product();
        let size = op.inputs[0].dtype.size();
        let steps = operands.each_ref().map(|o| o.strides.get(inner).copied().unwrap_or(size as isize));
        let unit = |step: isize| step == size as isize;
        // Rows that are neighbours in the input, best in the output, too, while the elements of a row are not: walked together.
        let beside = (0..inner)
            .filter(|&d| op.dims[d] > 1 && steps[0].unsigned_abs() > size && unit(operands[0].strides[d]))
            .max_by_key(|&d| (unit(operands[1].strides[d]), op.dims[d]));
        let outer: SmallVec<[usize; 6]> = (0..inner).filter(|&d| Some(d) != beside).collect();
        let side = beside.map_or(1, |d| op.dims[d]);
        let lanes = side.div_ceil(MANY).next_multiple_of(NARROW).min(LANES);
        let groups: usize = outer.iter().map(|&d| op.dims[d]).product();
        let chunk = CHUNK / size;
        // Whether rows lie one behind the other.
        let dense = |o: &Operand| {
            let mut next = (elements * size) as isize;
            (0..inner).rev().all(|d| {
                let fits = op.dims[d] <= 1 || o.strides[d] == next;
                next *= op.dims[d] as isize;
                fits
            })
        };
        let short = elements <= MOST_SHORT && groups > 1 && operands.iter().all(dense);
        let form = match steps {
            _ if beside.is_some() => RowForm::Beside,
            [from, to] if unit(from) && unit(to) && short => RowForm::Short,
            _ if self.in_order => RowForm::Strided,
            [from, to] if unit(from) && unit(to) && groups < MANY && elements > 2 * chunk => RowForm::Chunks(chunk),
            [from, to] if unit(from) && unit(to) => RowForm::Along,
            _ => RowForm::Strided,
        };
        // Results that no cache holds are written past the caches, if all begin with a line.
        let aligned = |d: &usize| operands[1].strides[*d] % 64 == 0;
        let lines = match form {
            RowForm::Short => true,
            RowForm::Beside => {
                outer.iter().all(aligned) && steps[1] % 64 == 0 && beside.is_some_and(|d| unit(operands[1].strides[d]))
            }
            _ => outer.iter().all(aligned),
        };
        Ok(Arc::new(CpuLaunch(Arc::new(Scan {
            machine: self.machine.clone(),
            walks: self.walks,
            row_strides: operands.each_ref().map(|o| beside.map_or(0, |d| o.strides[d])),
            pieces: side.div_ceil(lanes),
            streams: lines && op.output_len(0) * size > self.machine.topology.l3().size,
            dims: op.dims.clone(),
            empty: op.dims.contains(&0),
            operands,
            outer,
            groups,
            form,
            side,
            lanes,
            elements,
            steps,
        }))))
    }
}

/// How rows lie.
#[derive(Clone, Copy)]
enum RowForm {
    /// Side by side.
    Beside,
    /// One after the other.
    Along,
    /// One behind the other without gaps, and short.
    Short,
    /// One after the other, few, cut into chunks of so many elements.
    Chunks(usize),
    /// Anyhow.
    Strided,
}

struct Scan {
    machine: Arc<Machine>,
    walks: WalkTable,
    operands: [Operand; 2],
    dims: Dims,
    empty: bool,
    form: RowForm,
    streams: bool,
    /// Dimensions that are walked by a counter.
    outer: SmallVec<[usize; 6]>,
    groups: usize,
    /// Adjacent rows, how many are walked together, and how many pieces that makes.
    side: usize,
    lanes: usize,
    pieces: usize,
    row_strides: [isize; 2],
    elements: usize,
    steps: [isize; 2],
}

impl Run for Scan {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        if self.empty {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        let streams = self.streams && (bases[1].first.0 as usize).is_multiple_of(64);
        if let RowForm::Chunks(chunk) = self.form {
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            for _ in 0..self.groups {
                self.chunks(&bases, &index, chunk, streams);
                step(&mut index, &self.dims, &self.outer);
            }
            return Ok(());
        }
        if let RowForm::Short = self.form {
            self.short(&bases, streams);
            return Ok(());
        }
        let all = self.groups * self.pieces;
        let each = (self.machine.task / (self.elements * self.side.min(self.lanes)).max(1)).max(1);
        self.machine.workers.run(all.div_ceil(each), &|t| {
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            let first = t * each;
            seek(&mut index, &self.dims, &self.outer, first / self.pieces);
            let mut piece = first % self.pieces;
            for _ in first..all.min(first + each) {
                self.piece(&bases, &index, piece * self.lanes, streams);
                piece += 1;
                if piece == self.pieces {
                    piece = 0;
                    step(&mut index, &self.dims, &self.outer);
                }
            }
            if streams {
                fence();
            }
        });
        Ok(())
    }
}

impl Scan {
    /// Where a row begins on both sides.
    fn at(&self, bases: &[Base], index: &[usize], lane: usize) -> (*const u8, *mut u8) {
        let at = |o: usize| {
            let offset = self.operands[o].offset(index) + lane as isize * self.row_strides[o];
            bases[o].first.offset(offset)
        };
        (at(0), at(1))
    }

    /// Rows from this index and lane on, those that are walked together.
    fn piece(&self, bases: &[Base], index: &[usize], lane: usize, streams: bool) {
        let (from, to) = self.at(bases, index, lane);
        let rows = Rows {
            isa: self.machine.isa,
            from,
            to,
            row_strides: self.row_strides,
            steps: self.steps,
            rows: (self.side - lane).min(self.lanes),
            elements: self.elements,
            streams,
        };
        // SAFETY: the dispatcher checked both operands against the index space; the instruction set is the machine's.
        unsafe {
            match self.form {
                RowForm::Beside => (self.walks.beside)(&rows),
                RowForm::Strided => (self.walks.strided)(&rows),
                RowForm::Short => (self.walks.short)(&rows),
                RowForm::Along | RowForm::Chunks(_) => {
                    let writing = if streams { WalkWriting::Stream } else { WalkWriting::Plain };
                    let part = RowPart { from, to, elements: self.elements, writing };
                    (self.walks.along)(&part, &mut self.walks.nothing.clone());
                }
            }
        }
    }

    /// Short rows without gaps, some to a task.
    fn short(&self, bases: &[Base], streams: bool) {
        let (from, to) = (bases[0].first, bases[1].first);
        let row = self.elements * self.operands[0].dtype.size();
        // So that every task's results begin with a line.
        let each = (self.machine.task / self.elements).max(1).next_multiple_of(64);
        self.machine.workers.run(self.groups.div_ceil(each), &|t| {
            let rows = Rows {
                isa: self.machine.isa,
                from: from.at(t * each * row),
                to: to.at(t * each * row),
                row_strides: [row as isize; 2],
                steps: self.steps,
                rows: each.min(self.groups - t * each),
                elements: self.elements,
                streams,
            };
            // SAFETY: the dispatcher checked both operands against the index space; the instruction set is the machine's.
            unsafe { (self.walks.short)(&rows) };
            if streams {
                fence();
            }
        });
    }

    /// A long row, by all threads.
    fn chunks(&self, bases: &[Base], index: &[usize], chunk: usize, streams: bool) {
        let (from, to) = self.at(bases, index, 0);
        let (from, to) = (Shared::read(from), Shared(to));
        let size = self.operands[0].dtype.size();
        let count = self.elements.div_ceil(chunk);
        let part = |c: usize, writing: WalkWriting| RowPart {
            from: from.at(c * chunk * size),
            to: to.at(c * chunk * size),
            elements: chunk.min(self.elements - c * chunk),
            writing,
        };
        let writing = if streams { WalkWriting::Stream } else { WalkWriting::Plain };
        let threads = self.machine.workers.threads();
        let mut carry = self.walks.nothing;
        if threads == 1 {
            for c in 0..count {
                // SAFETY: the dispatcher checked both operands against the index space; the instruction set is the machine's.
                unsafe { (self.walks.along)(&part(c, writing), &mut carry) };
            }
        } else {
            // Chunks are taken in their order, so whoever waits for the one before waits for a thread that is at work on it.
            let (next, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let carry = Shared(&raw mut carry);
            self.machine.workers.run(threads.min(count), &|_| {
                loop {
                    let c = next.fetch_add(1, Ordering::Relaxed);
                    if c >= count {
                        break;
                    }
                    let mut total = self.walks.nothing;
                    // SAFETY: as above; nothing is written.
                    unsafe { (self.walks.along)(&part(c, WalkWriting::Nothing), &mut total) };
                    wait(&told, c);
                    // SAFETY: between the counts `c` and `c + 1` the carry is this chunk's alone.
                    let mut before = unsafe { *carry.at(0) };
                    // SAFETY: as above.
                    unsafe { *carry.at(0) = (self.walks.merge)(&before, &total) };
                    told.store(c + 1, Ordering::Release);
                    // SAFETY: as above; chunks are disjoint.
                    unsafe { (self.walks.along)(&part(c, writing), &mut before) };
                }
                if streams {
                    fence();
                }
            });
        }
        if streams {
            fence();
        }
    }
}

/// Waits until so many chunks have told what comes behind them.
fn wait(told: &AtomicUsize, chunks: usize) {
    let mut spins = 0u32;
    while told.load(Ordering::Acquire) < chunks {
        spins += 1;
        // The thread that is waited for may have lost its core.
        if spins.is_multiple_of(1 << 10) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

fn of<T: Item>(reduce: Reduce) -> Option<WalkTable> {
    fn walks<T: Item, const OP: u8>() -> WalkTable {
        WalkTable {
            along: walks::along::<T, OP>,
            beside: walks::beside::<T, OP>,
            strided: walks::strided::<T, OP>,
            short: walks::short::<T, OP>,
            nothing: Carry::of(T::identity::<OP>()),
            merge: |a, b| {
                // SAFETY: the carries of these walks are totals of `T`.
                unsafe { Carry::of(T::merge::<OP>(a.get(), b.get())) }
            },
        }
    }
    match reduce {
        Reduce::Sum => Some(walks::<T, SUM>()),
        Reduce::Prod => Some(walks::<T, PROD>()),
        Reduce::Max => Some(walks::<T, MAX>()),
        Reduce::Min => Some(walks::<T, MIN>()),
        Reduce::ArgMax | Reduce::ArgMin => None,
    }
}

/// Walks along rows by vectors, where this instruction set has some.
fn vectors_of(dtype: DType, reduce: Reduce, isa: Isa) -> Option<WalkAlong> {
    #[cfg(target_arch = "x86_64")]
    if isa.or_portable() == Isa::Avx512 {
        macro_rules! by {
            ($t:ty, $lost:literal) => {
                match reduce {
                    Reduce::Sum => Some(vectors::walk::<$t, SUM, $lost>()),
                    Reduce::Prod => Some(vectors::walk::<$t, PROD, false>()),
                    Reduce::Max => Some(vectors::walk::<$t, MAX, false>()),
                    Reduce::Min => Some(vectors::walk::<$t, MIN, false>()),
                    Reduce::ArgMax | Reduce::ArgMin => None,
                }
            };
        }
        return match dtype {
            DType::F32 => by!(f32, false),
            DType::F64 => by!(f64, true),
            DType::I64 => by!(i64, false),
            _ => None,
        };
    }
    let _ = (dtype, reduce, isa);
    None
}

/// The same over short rows. Products of floats are one chain, and sums of f64 are compensated.
fn short_vectors_of(dtype: DType, reduce: Reduce, isa: Isa) -> Option<Walk> {
    #[cfg(target_arch = "x86_64")]
    if isa.or_portable() == Isa::Avx512 {
        return match (dtype, reduce) {
            (DType::F32, Reduce::Sum) => Some(vectors::short_walk::<f32, SUM>()),
            (DType::F32, Reduce::Max) => Some(vectors::short_walk::<f32, MAX>()),
            (DType::F32, Reduce::Min) => Some(vectors::short_walk::<f32, MIN>()),
            (DType::F64, Reduce::Max) => Some(vectors::short_walk::<f64, MAX>()),
            (DType::F64, Reduce::Min) => Some(vectors::short_walk::<f64, MIN>()),
            (DType::I64, Reduce::Sum) => Some(vectors::short_walk::<i64, SUM>()),
            (DType::I64, Reduce::Prod) => Some(vectors::short_walk::<i64, PROD>()),
            (DType::I64, Reduce::Max) => Some(vectors::short_walk::<i64, MAX>()),
            (DType::I64, Reduce::Min) => Some(vectors::short_walk::<i64, MIN>()),
            _ => None,
        };
    }
    let _ = (dtype, reduce, isa);
    None
}

fn walks_of(dtype: DType, reduce: Reduce, isa: Isa) -> Option<WalkTable> {
    let mut walks = match dtype {
        // Truth values are 0 or 1.
        DType::Bool | DType::U8 => of::<u8>(reduce),
        DType::I8 => of::<i8>(reduce),
        DType::I16 => of::<i16>(reduce),
        DType::I32 => of::<i32>(reduce),
        DType::I64 => of::<i64>(reduce),
        DType::U16 => of::<u16>(reduce),
        DType::U32 => of::<u32>(reduce),
        DType::U64 => of::<u64>(reduce),
        DType::F16 => of::<f16>(reduce),
        DType::BF16 => of::<bf16>(reduce),
        DType::F32 => of::<f32>(reduce),
        DType::F64 => of::<f64>(reduce),
        DType::C64 => of::<Complex<f32>>(reduce),
        DType::C128 => of::<Complex<f64>>(reduce),
    }?;
    if let Some(along) = vectors_of(dtype, reduce, isa) {
        walks.along = along;
    }
    if let Some(short) = short_vectors_of(dtype, reduce, isa) {
        walks.short = short;
    }
    if (dtype, reduce) == (DType::F64, Reduce::Sum) {
        walks.beside = walks::beside_compensated;
    }
    Some(walks)
}
