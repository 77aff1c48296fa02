//! Running sums, products, largest and smallest elements along a dimension.
//!
//! Rows are independent and shared among the workers. Where the rows lie side by side (a scan down columns), many are walked
//! at once, so that memory is read along its lines. f32 and narrower are accumulated in f64, f64 with compensation, so that
//! the error does not grow with the length.

use std::sync::Arc;

use half::{bf16, f16};
use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::{Body, DType, Dims, Error, Op, Reduce, Result};
use num_complex::Complex;
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::program::{Operand, bases, seek, step};
use crate::stream::{CpuLaunch, Run};

/// Rows that are walked together where they lie side by side.
const LANES: usize = 64;
/// Elements that make a task.
const TASK: usize = 64 << 10;

/// A scan compiled for the CPU.
pub(crate) struct ScanKernel {
    machine: Arc<Machine>,
    walk: Walker,
    text: String,
}

/// Walks some rows: input, output, the rows' distances, the elements' distances (all in bytes), rows, elements.
type Walker = unsafe fn(*const u8, *mut u8, [isize; 2], [isize; 2], usize, usize);

impl ScanKernel {
    pub(crate) fn new(op: &Op, machine: Arc<Machine>) -> Result<ScanKernel> {
        let Body::Scan { reduce, .. } = op.body else {
            return Err(Error::internal(format!("a {} operation is no scan", op.name())));
        };
        let dtype = op.inputs[0].dtype;
        let walk = walker(dtype, reduce)
            .ok_or_else(|| Error::internal(format!("the CPU has no running {} of {dtype}", reduce.name())))?;
        let text = format!("running {} of {dtype}, up to {LANES} rows side by side\n", reduce.name());
        Ok(ScanKernel { machine, walk, text })
    }
}

impl Kernel for ScanKernel {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn prepare(&self, op: &Op) -> Result<Arc<dyn Launch>> {
        let inner = if let Body::Scan { inner, .. } = op.body { inner } else { 0 };
        let operands = [Operand::new(&op.inputs[0]), Operand::new(&op.outputs[0])];
        let elements = op.dims[inner..].iter().product();
        let size = op.inputs[0].dtype.size() as isize;
        // Rows that are neighbours in memory while the elements of a row are not are walked together.
        let beside = inner.checked_sub(1).filter(|&d| {
            let far = op.dims.len() > inner && operands[0].strides[inner].abs() > size;
            far && operands[0].strides[d] == size && op.dims[d] > 1
        });
        let outer: SmallVec<[usize; 6]> = (0..inner).filter(|&d| Some(d) != beside).collect();
        let side = beside.map_or(1, |d| op.dims[d]);
        Ok(Arc::new(CpuLaunch(Arc::new(Scan {
            machine: self.machine.clone(),
            walk: self.walk,
            steps: operands.each_ref().map(|o| o.strides.get(inner).copied().unwrap_or(0)),
            across: operands.each_ref().map(|o| beside.map_or(0, |d| o.strides[d])),
            pieces: side.div_ceil(LANES),
            groups: outer.iter().map(|&d| op.dims[d]).product(),
            dims: op.dims.clone(),
            empty: op.dims.contains(&0),
            operands,
            outer,
            side,
            elements,
        }))))
    }
}

struct Scan {
    machine: Arc<Machine>,
    walk: Walker,
    operands: [Operand; 2],
    dims: Dims,
    empty: bool,
    /// Dimensions that are walked by a counter.
    outer: SmallVec<[usize; 6]>,
    groups: usize,
    /// Rows side by side, and how many pieces of at most `LANES` they make.
    side: usize,
    pieces: usize,
    across: [isize; 2],
    elements: usize,
    steps: [isize; 2],
}

impl Run for Scan {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        if self.empty {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        let (from, to) = (bases[0], bases[1]);
        let all = self.groups * self.pieces;
        let each = (TASK / (self.elements * self.side.min(LANES)).max(1)).max(1);
        self.machine.workers.run(all.div_ceil(each), &|t| {
            let (from, to) = (&from, &to);
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            let first = t * each;
            seek(&mut index, &self.dims, &self.outer, first / self.pieces);
            let mut piece = first % self.pieces;
            for _ in first..all.min(first + each) {
                let lane = (piece * LANES) as isize;
                let rows = (self.side - piece * LANES).min(LANES);
                let at = |o: usize| self.operands[o].offset(&index) + lane * self.across[o];
                let (from, to) = (from.first.wrapping_offset(at(0)), to.first.wrapping_offset(at(1)));
                // SAFETY: the dispatcher checked both operands against the index space.
                unsafe { (self.walk)(from, to, self.across, self.steps, rows, self.elements) };
                piece += 1;
                if piece == self.pieces {
                    piece = 0;
                    step(&mut index, &self.dims, &self.outer);
                }
            }
        });
        Ok(())
    }
}

const SUM: u8 = 0;
const PROD: u8 = 1;
const MAX: u8 = 2;
const MIN: u8 = 3;

/// An element and what it is accumulated in.
trait Item: Copy {
    type Total: Copy;
    fn first(self) -> Self::Total;
    fn join<const OP: u8>(total: Self::Total, x: Self) -> Self::Total;
    fn result(total: Self::Total) -> Self;
}

unsafe fn walk<T: Item, const OP: u8>(
    from: *const u8,
    to: *mut u8,
    across: [isize; 2],
    steps: [isize; 2],
    rows: usize,
    elements: usize,
) {
    // SAFETY: the caller promises `rows` times `elements` elements at these distances.
    unsafe {
        let read = |r: usize, i: usize| {
            from.offset(r as isize * across[0] + i as isize * steps[0]).cast::<T>().read_unaligned()
        };
        let write = |r: usize, i: usize, x: T| {
            to.offset(r as isize * across[1] + i as isize * steps[1]).cast::<T>().write_unaligned(x);
        };
        if rows == 1 {
            let mut total = read(0, 0).first();
            write(0, 0, T::result(total));
            for i in 1..elements {
                total = T::join::<OP>(total, read(0, i));
                write(0, i, T::result(total));
            }
            return;
        }
        let mut totals = [read(0, 0).first(); LANES];
        for (r, total) in totals[..rows].iter_mut().enumerate() {
            *total = read(r, 0).first();
            write(r, 0, T::result(*total));
        }
        for i in 1..elements {
            for (r, total) in totals[..rows].iter_mut().enumerate() {
                *total = T::join::<OP>(*total, read(r, i));
                write(r, i, T::result(*total));
            }
        }
    }
}

macro_rules! integers {
    ($($t:ty),+) => {$(
        impl Item for $t {
            type Total = $t;
            fn first(self) -> $t {
                self
            }
            fn join<const OP: u8>(total: $t, x: $t) -> $t {
                match OP {
                    SUM => total.wrapping_add(x),
                    PROD => total.wrapping_mul(x),
                    MAX => total.max(x),
                    _ => total.min(x),
                }
            }
            fn result(total: $t) -> $t {
                total
            }
        }
    )+};
}
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// The larger or smaller; NaN if either is.
fn extreme<const OP: u8>(a: f64, b: f64) -> f64 {
    let a_wins = if OP == MAX { a > b } else { a < b };
    if a.is_nan() || (a_wins && !b.is_nan()) { a } else { b }
}

fn real<const OP: u8>(total: f64, x: f64) -> f64 {
    match OP {
        SUM => total + x,
        PROD => total * x,
        _ => extreme::<OP>(total, x),
    }
}

macro_rules! floats {
    ($($t:ty, $to:expr, $from:expr);+) => {$(
        impl Item for $t {
            type Total = f64;
            fn first(self) -> f64 {
                $to(self)
            }
            fn join<const OP: u8>(total: f64, x: $t) -> f64 {
                real::<OP>(total, $to(x))
            }
            fn result(total: f64) -> $t {
                $from(total)
            }
        }
    )+};
}
// A sum in f64 that is rounded to f32 first keeps what a running sum in f32 would have as its best.
floats!(f32, f64::from, |x| x as f32; f16, |x: f16| x.to_f64(), |x| f16::from_f32(x as f32); bf16, |x: bf16| x.to_f64(), |x| bf16::from_f32(x as f32));

/// A sum, and what its additions lost.
#[derive(Clone, Copy)]
struct Compensated {
    high: f64,
    low: f64,
}

impl Compensated {
    fn add(self, x: f64) -> Compensated {
        let high = self.high + x;
        let lost = if self.high.abs() >= x.abs() { (self.high - high) + x } else { (x - high) + self.high };
        Compensated { high, low: self.low + lost }
    }

    fn value(self) -> f64 {
        if self.high.is_finite() { self.high + self.low } else { self.high }
    }
}

impl Item for f64 {
    type Total = Compensated;
    fn first(self) -> Compensated {
        Compensated { high: self, low: 0.0 }
    }
    fn join<const OP: u8>(total: Compensated, x: f64) -> Compensated {
        match OP {
            SUM => total.add(x),
            _ => Compensated { high: real::<OP>(total.high, x), low: 0.0 },
        }
    }
    fn result(total: Compensated) -> f64 {
        total.value()
    }
}

impl Item for Complex<f32> {
    type Total = Complex<f64>;
    fn first(self) -> Complex<f64> {
        Complex::new(self.re.into(), self.im.into())
    }
    fn join<const OP: u8>(total: Complex<f64>, x: Complex<f32>) -> Complex<f64> {
        if OP == SUM { total + x.first() } else { total * x.first() }
    }
    fn result(total: Complex<f64>) -> Complex<f32> {
        Complex::new(total.re as f32, total.im as f32)
    }
}

impl Item for Complex<f64> {
    type Total = [Compensated; 2];
    fn first(self) -> [Compensated; 2] {
        [self.re.first(), self.im.first()]
    }
    fn join<const OP: u8>(total: [Compensated; 2], x: Complex<f64>) -> [Compensated; 2] {
        if OP == SUM { [total[0].add(x.re), total[1].add(x.im)] } else { (Self::result(total) * x).first() }
    }
    fn result(total: [Compensated; 2]) -> Complex<f64> {
        Complex::new(total[0].value(), total[1].value())
    }
}

fn of<T: Item>(reduce: Reduce) -> Option<Walker> {
    match reduce {
        Reduce::Sum => Some(walk::<T, SUM>),
        Reduce::Prod => Some(walk::<T, PROD>),
        Reduce::Max => Some(walk::<T, MAX>),
        Reduce::Min => Some(walk::<T, MIN>),
        Reduce::ArgMax | Reduce::ArgMin => None,
    }
}

fn walker(dtype: DType, reduce: Reduce) -> Option<Walker> {
    match dtype {
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
    }
}
