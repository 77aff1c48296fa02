//! The steps of a [`crate::contract::packed::Chain`] on accumulators in registers, and ahead of them.
//!
//! What kernels use while they have accumulators must be inlined, whether crates are optimised together or not: a call spills all of them.

use crate::contract::packed::{Chain, ChainOp, ChainOperand, ChainStep};
use crate::prefetch::prefetch;
use crate::simd::{Float, Simd};

/// Elements of a cache line.
pub(crate) const LINE: usize = 64 / size_of::<f32>();

/// Prefetches `count` lines, `stride` elements from one to the next; the elements need not be readable.
#[inline(always)]
pub(crate) fn fetch<const NEAR: bool>(from: *const f32, stride: isize, count: usize) {
    for i in 0..count {
        prefetch::<NEAR>(from.wrapping_offset(i as isize * stride).cast());
    }
}

/// As [`fetch`], for pieces of `wide` elements, of which most begin inside a line, unless they are aligned.
#[inline(always)]
pub(crate) fn fetch_pieces<const NEAR: bool>(from: *const f32, stride: isize, count: usize, wide: usize) {
    for at in (0..wide).step_by(LINE) {
        fetch::<NEAR>(from.wrapping_add(at), stride, count);
    }
    if !(from as usize).is_multiple_of(LINE * size_of::<f32>()) || stride % LINE as isize != 0 {
        fetch::<NEAR>(from.wrapping_add(wide - 1), stride, count);
    }
}

/// Prefetches the lines on which a chain's results for so many rows of `wide` columns, and what they are made of, lie.
#[inline(always)]
pub(crate) fn prefetch_results<const NEAR: bool>(
    chain: &Chain,
    (row, col): (usize, usize),
    (rows, wide): (usize, usize),
) {
    // Not by the list itself, whose iterator is a call.
    for step in chain.steps.iter() {
        // What is the same for all rows is near.
        if let ChainOperand::Elements(base, by) = step.with
            && by != 0
        {
            fetch_pieces::<NEAR>(element(base, by, row, col), by, rows, wide);
        }
    }
    fetch_pieces::<NEAR>(element(chain.to, chain.row, row, col), chain.row, rows, wide);
}

/// An operand's element for this row and column.
#[inline(always)]
pub(crate) fn element(base: *const f32, by: isize, row: usize, col: usize) -> *const f32 {
    base.wrapping_offset(row as isize * by).wrapping_add(col)
}

/// The result of one element, written.
///
/// # Safety
/// The chain has the element, whose result nobody else uses.
pub(crate) unsafe fn single(chain: &Chain, sum: f32, row: usize, col: usize) {
    let mut x = sum;
    for step in chain.steps.iter() {
        // SAFETY: the caller's.
        let w = unsafe {
            match step.with {
                ChainOperand::Value(value) => value,
                ChainOperand::Rows(base, by) => *element(base, by, row, 0),
                ChainOperand::Elements(base, by) => *element(base, by, row, col),
            }
        };
        x = match step.what {
            ChainOp::Add => x + w,
            ChainOp::Sub => x - w,
            ChainOp::Mul => x * w,
            // As the vector instructions: NaN where either is, and of two zeros the operand.
            ChainOp::Max if x > w || x.is_nan() => x,
            ChainOp::Min if x < w || x.is_nan() => x,
            ChainOp::Max | ChainOp::Min => w,
        };
    }
    // SAFETY: the caller's.
    unsafe { element(chain.to, chain.row, row, col).cast_mut().write(x) };
}

/// `x = f(x, operand)` for all accumulators.
macro_rules! each {
    ($s:ident, $acc:ident, $with:expr, $row:ident, $after:ident, $col:ident, |$x:ident, $w:ident| $e:expr) => {
        match $with {
            ChainOperand::Value(value) => {
                let $w = $s.f32(value);
                for r in 0..R {
                    for v in 0..V {
                        let $x = $acc[r][v];
                        $acc[r][v] = $e;
                    }
                }
            }
            ChainOperand::Rows(base, by) => {
                let base = element(base, by, $row, 0);
                for r in 0..R {
                    let $w = $s.f32(*base.wrapping_offset($after[r] as isize * by));
                    for v in 0..V {
                        let $x = $acc[r][v];
                        $acc[r][v] = $e;
                    }
                }
            }
            ChainOperand::Elements(base, by) => {
                let base = element(base, by, $row, $col);
                for r in 0..R {
                    for v in 0..V {
                        let row = base.wrapping_offset($after[r] as isize * by);
                        let $w = S::F32::load(row.wrapping_add(v * S::F32::LANES));
                        let $x = $acc[r][v];
                        $acc[r][v] = $e;
                    }
                }
            }
        }
    };
}

/// The steps on accumulators of `R` rows by `V` vectors of columns, from this row and column on.
///
/// # Safety
/// The steps have all these elements.
#[allow(clippy::needless_range_loop)] // Closures would not be compiled for the instruction set.
#[inline(always)]
pub(crate) unsafe fn apply<S: Simd, const R: usize, const V: usize>(
    s: S,
    acc: [[S::F32; V]; R],
    steps: &[ChainStep],
    row: usize,
    col: usize,
) -> [[S::F32; V]; R] {
    let mut after = [0; R];
    for r in 0..R {
        after[r] = r;
    }
    // SAFETY: passed on.
    unsafe { apply_rows(s, acc, steps, (row, after), col) }
}

/// The steps on accumulators of rows by `V` vectors of columns, from this column on: of this row, and how many after it each one is.
///
/// # Safety
/// The steps have all these elements.
#[allow(clippy::needless_range_loop)] // Closures would not be compiled for the instruction set.
#[inline(always)]
pub(crate) unsafe fn apply_rows<S: Simd, const R: usize, const V: usize>(
    s: S,
    mut acc: [[S::F32; V]; R],
    steps: &[ChainStep],
    (row, after): (usize, [usize; R]),
    col: usize,
) -> [[S::F32; V]; R] {
    for step in steps {
        // SAFETY: the caller's.
        unsafe {
            match step.what {
                ChainOp::Add => each!(s, acc, step.with, row, after, col, |x, w| x + w),
                ChainOp::Sub => each!(s, acc, step.with, row, after, col, |x, w| x - w),
                ChainOp::Mul => each!(s, acc, step.with, row, after, col, |x, w| x * w),
                ChainOp::Max => each!(s, acc, step.with, row, after, col, |x, w| x.max_nan(w)),
                ChainOp::Min => each!(s, acc, step.with, row, after, col, |x, w| x.min_nan(w)),
            }
        }
    }
    acc
}

/// A chain's results for rows of one vector each, from this row and column on.
///
/// # Safety
/// The chain has all these elements, whose results nobody else uses.
#[allow(clippy::needless_range_loop)] // By iterators, vectors would pass through memory.
#[inline(always)]
pub(crate) unsafe fn finish_rows<S: Simd, const R: usize>(
    s: S,
    acc: [[S::F32; 1]; R],
    chain: &Chain,
    row: usize,
    col: usize,
) {
    // SAFETY: the caller's.
    unsafe {
        let done = apply(s, acc, &chain.steps, row, col);
        for i in 0..R {
            done[i][0].store(element(chain.to, chain.row, row + i, col).cast_mut());
        }
    }
}
