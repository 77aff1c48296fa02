//! Squares of accumulators by vectors of AVX2.

use core::arch::x86_64::*;

use crate::contract::packed::Chain;
use crate::epilogue_chain::finish_rows;
use crate::simd::{Avx2, Isa, Simd};

/// Rows and columns of a square.
pub(super) const SIDE: usize = 8;

/// Whether the machine has these vectors.
pub(super) fn available() -> bool {
    // AVX-512 is known by that name only where AVX2 is, too.
    matches!(Isa::detect(), Isa::Avx2 | Isa::Avx512)
}

/// Eight rows of eight elements, transposed.
///
/// # Safety
/// AVX2 is present; `from` is readable for eight elements at eight multiples of `wide`, `to` writable so by `stride`.
#[allow(clippy::needless_range_loop)] // As below.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn transpose(from: *const f32, wide: isize, to: *mut f32, stride: isize) {
    // SAFETY: the caller's.
    unsafe {
        let transposed = transposed(from, wide);
        for i in 0..SIDE {
            _mm256_storeu_ps(to.wrapping_offset(i as isize * stride), transposed[i]);
        }
    }
}

/// Eight accumulators of each pixel become results of a chain, from this row and column on: squares of eight pixels up to `whole`, of which the last one
/// may begin inside the one before it, so as to end with the last of all `pixels`.
///
/// # Safety
/// AVX2 is present; there are eight pixels at least, `from` is readable for eight elements at as many multiples of `wide`, and the chain has all
/// these elements.
#[allow(clippy::needless_range_loop)] // By iterators, vectors would pass through memory.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn finish(
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
            let token = Avx2::new_unchecked();
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
/// AVX2 is present; `from` is readable for eight elements at eight multiples of `wide`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn transposed(from: *const f32, wide: isize) -> [__m256; SIDE] {
    // Four columns of two rows in one vector, the later row in its upper half: what remains is to transpose four by four in each half.
    let load = |row: usize, column: usize| {
        let at = |row: usize| from.wrapping_offset(row as isize * wide).wrapping_add(column);
        // SAFETY: the caller's.
        let (low, high) = unsafe { (_mm_loadu_ps(at(row)), _mm_loadu_ps(at(row + 4))) };
        _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
    };
    let mut done = [_mm256_setzero_ps(); SIDE];
    for column in [0, 4] {
        let [a, b, c, d] = [load(0, column), load(1, column), load(2, column), load(3, column)];
        let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (low2, high2) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        done[column] = _mm256_shuffle_ps::<0b01_00_01_00>(low, low2);
        done[column + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(low, low2);
        done[column + 2] = _mm256_shuffle_ps::<0b01_00_01_00>(high, high2);
        done[column + 3] = _mm256_shuffle_ps::<0b11_10_11_10>(high, high2);
    }
    done
}
