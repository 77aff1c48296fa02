//! The steps of a [`crate::gemm::Chain`] on sums in registers, and ahead of them.

use crate::gemm::{Chain, Link, LinkOp, LinkWith};

/// Elements of a cache line.
const LINE: usize = 64 / size_of::<f32>();

/// Asks for `count` lines, `apart` elements from one to the next; the elements need not be readable. They are wanted in the
/// first-level cache if `NEAR`, else in the second.
#[inline]
pub(crate) fn fetch<const NEAR: bool>(from: *const f32, apart: isize, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for i in 0..count {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let at = from.wrapping_offset(i as isize * apart).cast();
        // SAFETY: SSE is part of x86-64; an address that cannot be read is ignored.
        unsafe { if NEAR { _mm_prefetch::<_MM_HINT_T0>(at) } else { _mm_prefetch::<_MM_HINT_T1>(at) } };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, apart, count);
}

/// As [`fetch`], for pieces that are as long as a line: most of them lie on two, unless they are aligned.
#[inline]
pub(crate) fn fetch_pieces<const NEAR: bool>(from: *const f32, apart: isize, count: usize) {
    fetch::<NEAR>(from, apart, count);
    if !(from as usize).is_multiple_of(LINE * size_of::<f32>()) || apart % LINE as isize != 0 {
        fetch::<NEAR>(from.wrapping_add(LINE - 1), apart, count);
    }
}

/// An operand's element for this row and column.
#[inline(always)]
pub(crate) fn place(base: *const f32, by: isize, row: usize, col: usize) -> *const f32 {
    base.wrapping_offset(row as isize * by).wrapping_add(col)
}

/// The result of one element, written.
///
/// # Safety
/// The chain has the element, whose result nobody else uses.
pub(crate) unsafe fn single(chain: &Chain, sum: f32, row: usize, col: usize) {
    let mut x = sum;
    for link in &chain.links {
        // SAFETY: the caller's.
        let w = unsafe {
            match link.with {
                LinkWith::Value(value) => value,
                LinkWith::Rows(base, by) => *place(base, by, row, 0),
                LinkWith::Elements(base, by) => *place(base, by, row, col),
            }
        };
        x = match link.what {
            LinkOp::Add => x + w,
            LinkOp::Sub => x - w,
            LinkOp::Mul => x * w,
            // As the vector instructions: NaN where either is, and of two zeros the operand.
            LinkOp::Max if x > w || x.is_nan() => x,
            LinkOp::Min if x < w || x.is_nan() => x,
            LinkOp::Max | LinkOp::Min => w,
        };
    }
    // SAFETY: the caller's.
    unsafe { place(chain.to, chain.row, row, col).cast_mut().write(x) };
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2 {
    use core::arch::x86_64::*;

    use super::{Link, LinkOp, LinkWith, place};

    const LANES: usize = 8;

    /// `x = f(x, operand)` for all sums.
    macro_rules! each {
        ($sums:ident, $with:expr, $row:ident, $col:ident, |$x:ident, $w:ident| $e:expr) => {
            match $with {
                LinkWith::Value(value) => {
                    let $w = _mm256_set1_ps(value);
                    for r in 0..R {
                        for v in 0..V {
                            let $x = $sums[r][v];
                            $sums[r][v] = $e;
                        }
                    }
                }
                LinkWith::Rows(base, by) => {
                    let base = place(base, by, $row, 0);
                    for r in 0..R {
                        let $w = _mm256_broadcast_ss(&*base.wrapping_offset(r as isize * by));
                        for v in 0..V {
                            let $x = $sums[r][v];
                            $sums[r][v] = $e;
                        }
                    }
                }
                LinkWith::Elements(base, by) => {
                    let base = place(base, by, $row, $col);
                    for r in 0..R {
                        for v in 0..V {
                            let $w = _mm256_loadu_ps(base.wrapping_offset(r as isize * by).wrapping_add(v * LANES));
                            let $x = $sums[r][v];
                            $sums[r][v] = $e;
                        }
                    }
                }
            }
        };
    }

    /// The steps on sums of `R` rows by `V` vectors of columns, from this row and column on.
    ///
    /// # Safety
    /// AVX2 is present; the links have all these elements.
    #[allow(clippy::needless_range_loop)] // Closures would not be compiled for the instruction set.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) unsafe fn apply<const R: usize, const V: usize>(
        mut sums: [[__m256; V]; R],
        links: &[Link],
        row: usize,
        col: usize,
    ) -> [[__m256; V]; R] {
        for link in links {
            // SAFETY: the caller's.
            unsafe {
                match link.what {
                    LinkOp::Add => each!(sums, link.with, row, col, |x, w| _mm256_add_ps(x, w)),
                    LinkOp::Sub => each!(sums, link.with, row, col, |x, w| _mm256_sub_ps(x, w)),
                    LinkOp::Mul => each!(sums, link.with, row, col, |x, w| _mm256_mul_ps(x, w)),
                    // The instruction gives the operand if either is NaN, so only a NaN in the value is left to bring back.
                    LinkOp::Max => each!(sums, link.with, row, col, |x, w| {
                        _mm256_blendv_ps(_mm256_max_ps(x, w), x, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
                    }),
                    LinkOp::Min => each!(sums, link.with, row, col, |x, w| {
                        _mm256_blendv_ps(_mm256_min_ps(x, w), x, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
                    }),
                }
            }
        }
        sums
    }
}
