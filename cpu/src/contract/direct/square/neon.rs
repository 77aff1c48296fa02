//! Squares of accumulators by vectors of AArch64.

use core::arch::aarch64::*;

use crate::contract::packed::Chain;
use crate::epilogue_chain::finish_rows;
use crate::simd::{Neon, Simd};

/// Rows and columns of a square.
pub(super) const SIDE: usize = 4;

/// Whether the machine has these vectors.
pub(super) fn available() -> bool {
    true
}

/// Four rows of four elements, transposed.
///
/// # Safety
/// `from` is readable for four elements at four multiples of `wide`, `to` writable so by `stride`.
#[allow(clippy::needless_range_loop)] // As below.
#[target_feature(enable = "neon")]
pub(super) unsafe fn transpose(from: *const f32, wide: isize, to: *mut f32, stride: isize) {
    // SAFETY: the caller's.
    unsafe {
        let transposed = transposed(from, wide);
        for i in 0..SIDE {
            vst1q_f32(to.wrapping_offset(i as isize * stride), transposed[i]);
        }
    }
}

/// Four accumulators of each pixel become results of a chain, from this row and column on: squares of four pixels up to `whole`, of which the last one
/// may begin inside the one before it, so as to end with the last of all `pixels`.
///
/// # Safety
/// There are four pixels at least, `from` is readable for four elements at as many multiples of `wide`, and the chain has all these elements.
#[allow(clippy::needless_range_loop)] // By iterators, vectors would pass through memory.
#[target_feature(enable = "neon")]
pub(super) unsafe fn finish(
    from: *const f32,
    wide: isize,
    (whole, pixels): (usize, usize),
    chain: &Chain,
    row: usize,
    col: usize,
) {
    for p in (0..whole).step_by(SIDE) {
        let p = p.min(pixels - SIDE);
        // SAFETY: the caller's.
        unsafe {
            let token = Neon::new_unchecked();
            let transposed = transposed(from.wrapping_offset(p as isize * wide), wide);
            let mut acc = [[token.f32(0.0)]; SIDE];
            for i in 0..SIDE {
                acc[i][0] = token.vector(transposed[i]);
            }
            finish_rows(token, acc, chain, row, col + p);
        }
    }
}

/// # Safety
/// `from` is readable for four elements at four multiples of `wide`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn transposed(from: *const f32, wide: isize) -> [float32x4_t; SIDE] {
    let mut r = [vdupq_n_f32(0.0); SIDE];
    for (i, r) in r.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *r = unsafe { vld1q_f32(from.wrapping_offset(i as isize * wide)) };
    }
    // Pairs of rows, element by element, then pairs of those.
    let (a, b) = (vtrn1q_f32(r[0], r[1]), vtrn2q_f32(r[0], r[1]));
    let (c, d) = (vtrn1q_f32(r[2], r[3]), vtrn2q_f32(r[2], r[3]));
    let low = |x, y| vreinterpretq_f32_f64(vtrn1q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
    let high = |x, y| vreinterpretq_f32_f64(vtrn2q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
    [low(a, c), low(b, d), high(a, c), high(b, d)]
}
