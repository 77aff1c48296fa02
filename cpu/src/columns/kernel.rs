//! The micro-kernel: a few rows by one or two vectors of columns, which stay in registers from the first product to the result.

use crate::gemm::Link;

/// Elements of a vector.
pub(super) const LANES: usize = 8;
/// Columns of a panel: two vectors.
pub(super) const PANEL: usize = 16;
/// Rows of a panel of the left operand: with two vectors of columns, 12 sums in registers.
pub(super) const ROWS: usize = 6;

/// A cache line of a panel of columns.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub [f32; PANEL]);

/// What the kernel reads and writes.
///
/// The safety contract: `left` is readable for `k * ROWS` elements for each panel of rows, `right` for `k` lines; `from`, if it is not null, is readable and `to`
/// writable for the tile's vectors in each of its rows, and so are
/// the operands of its links readable.
pub(super) struct Tile {
    pub k: usize,
    pub left: *const f32,
    pub right: *const Line,
    /// Sums to add, rows one line apart; null where there are none.
    pub from: *const f32,
    pub to: *mut f32,
    pub apart: isize,
    /// The tile's first row and column, for its links.
    pub row: usize,
    pub col: usize,
}

/// Whether this machine has the kernel.
pub(super) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Computes a tile of `rows` rows and one vector of columns, or two: at most [`ROWS`] rows, or [`ROWS`] times two of one vector, which
/// then are two panels one after the other.
///
/// # Safety
/// [`available`], and the contract of [`Tile`].
pub(super) unsafe fn run(tile: &Tile, links: &[Link], rows: usize, two: bool) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: passed on.
    unsafe {
        match (rows, two) {
            (1, true) => avx2::tile::<1, 2>(tile, links),
            (2, true) => avx2::tile::<2, 2>(tile, links),
            (3, true) => avx2::tile::<3, 2>(tile, links),
            (4, true) => avx2::tile::<4, 2>(tile, links),
            (5, true) => avx2::tile::<5, 2>(tile, links),
            (_, true) => avx2::tile::<6, 2>(tile, links),
            (1, false) => avx2::tile::<1, 1>(tile, links),
            (2, false) => avx2::tile::<2, 1>(tile, links),
            (3, false) => avx2::tile::<3, 1>(tile, links),
            (4, false) => avx2::tile::<4, 1>(tile, links),
            (5, false) => avx2::tile::<5, 1>(tile, links),
            (6, false) => avx2::tile::<6, 1>(tile, links),
            (_, false) => avx2::tile::<{ 2 * ROWS }, 1>(tile, links),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (tile, links, rows, two);
}

/// Copies `to.len()` pieces of `width` elements, `apart` elements from one to the next, to lines of their own; the rest of a line is zero.
///
/// # Safety
/// [`available`]; each piece is readable.
pub(super) unsafe fn pack(from: *const f32, apart: isize, width: usize, to: &mut [Line]) {
    #[cfg(target_arch = "x86_64")]
    if width == PANEL {
        // SAFETY: the caller's.
        unsafe { avx2::pack(from, apart, to) };
        return;
    }
    for (q, line) in to.iter_mut().enumerate() {
        let from = from.wrapping_offset(q as isize * apart);
        *line = Line([0.0; PANEL]);
        for (i, x) in line.0.iter_mut().take(width).enumerate() {
            // SAFETY: the caller's.
            *x = unsafe { from.add(i).read() };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::*;

    use super::{LANES, Line, Link, ROWS, Tile};
    use crate::links::avx2::apply;

    /// # Safety
    /// AVX2 and FMA are present; the contract of [`Tile`] for `R` rows and `V` vectors.
    #[allow(clippy::needless_range_loop)] // Closures would not be compiled for the instruction set.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn tile<const R: usize, const V: usize>(t: &Tile, links: &[Link]) {
        let mut sums = [[_mm256_setzero_ps(); V]; R];
        let (mut left, mut right) = (t.left, t.right);
        let panel = t.k * ROWS;
        for _ in 0..t.k {
            // SAFETY: the contract; `k` steps are taken.
            unsafe {
                let mut columns = [_mm256_setzero_ps(); V];
                for v in 0..V {
                    columns[v] = _mm256_load_ps(right.cast::<f32>().add(v * LANES));
                }
                for r in 0..R {
                    let x = _mm256_broadcast_ss(&*left.add(r / ROWS * panel + r % ROWS));
                    for v in 0..V {
                        sums[r][v] = _mm256_fmadd_ps(x, columns[v], sums[r][v]);
                    }
                }
                left = left.add(ROWS);
                right = right.add(1);
            }
        }
        // SAFETY: the contract.
        unsafe {
            if !t.from.is_null() {
                for r in 0..R {
                    for v in 0..V {
                        sums[r][v] =
                            _mm256_add_ps(sums[r][v], _mm256_loadu_ps(t.from.add(r * super::PANEL + v * LANES)));
                    }
                }
            }
            sums = apply(sums, links, t.row, t.col);
            for r in 0..R {
                for v in 0..V {
                    _mm256_storeu_ps(t.to.wrapping_offset(r as isize * t.apart).add(v * LANES), sums[r][v]);
                }
            }
        }
    }

    /// # Safety
    /// AVX2 is present; a line is readable at each of as many multiples of `apart` as there are lines.
    #[target_feature(enable = "avx2")]
    pub unsafe fn pack(from: *const f32, apart: isize, to: &mut [Line]) {
        let mut from = from;
        for line in to {
            // SAFETY: the caller's.
            unsafe {
                let (low, high) = (_mm256_loadu_ps(from), _mm256_loadu_ps(from.wrapping_add(LANES)));
                _mm256_store_ps(line.0.as_mut_ptr(), low);
                _mm256_store_ps(line.0.as_mut_ptr().add(LANES), high);
            }
            from = from.wrapping_offset(apart);
        }
    }
}
