//! The sums of a band: vectors of results, one load and one multiply-add for each tap.

#![allow(clippy::needless_range_loop)] // Indices of rows and vectors; iterators would be closures here.

use crate::simd::{Float, Isa, Kernel, Simd};

/// Elements of a vector: whole ones are read and written.
pub(super) fn lanes(isa: Isa) -> usize {
    struct Lanes;
    impl Kernel for Lanes {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::F32::LANES
        }
    }
    crate::simd::vectorize(isa, Lanes)
}

/// Rows of results of one filter.
///
/// The safety contract: `copy` is readable at `r * row + taps[t] + c` for each row `r` of `rows`, tap `t` and column `c` below `columns`
/// rounded up to whole vectors; `to` is writable at `r * pitch + c` for the same. `filter` has as many elements as `taps`.
pub(super) struct Band<'a> {
    pub copy: *const f32,
    pub row: usize,
    pub taps: &'a [usize],
    pub filter: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub to: *mut f32,
    pub pitch: usize,
}

impl Kernel for Band<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let lanes = S::F32::LANES;
        let mut column = 0;
        if self.filter.len() == NINE && self.taps.len() == NINE && self.rows >= 2 && self.is_three_rows() {
            while column < self.columns {
                // SAFETY: the contract, which whoever makes a `Band` promises.
                unsafe {
                    let row = self.three::<S, 4>(s, column, 0);
                    let row = self.three::<S, 2>(s, column, row);
                    self.down::<S, 1, 1>(s, column, row);
                }
                column += lanes;
            }
            return;
        }
        // SAFETY: the contract, which whoever makes a `Band` promises: `columns` is rounded up to no more than whole vectors.
        unsafe {
            while column + 3 * lanes < self.columns {
                self.down::<S, 1, 4>(s, column, 0);
                column += 4 * lanes;
            }
            while column + lanes < self.columns {
                let row = self.down::<S, 2, 2>(s, column, 0);
                self.down::<S, 1, 2>(s, column, row);
                column += 2 * lanes;
            }
            if column < self.columns {
                let row = self.down::<S, 4, 1>(s, column, 0);
                self.down::<S, 1, 1>(s, column, row);
            }
        }
    }
}

/// Taps of a filter of 3 x 3.
const NINE: usize = 9;

impl Band<'_> {
    /// Whether the taps are three rows of three, each row as far from the next as results' rows are.
    fn is_three_rows(&self) -> bool {
        (3..NINE).all(|t| self.taps[t] == self.taps[t - 3] + self.row)
    }

    /// As [`Band::down`] for 3 x 3 taps at neighbouring rows and one vector: what is loaded serves up to three rows of results.
    ///
    /// # Safety
    /// As for [`Band::down`]; [`Band::is_three_rows`].
    #[inline(always)]
    unsafe fn three<S: Simd, const R: usize>(&self, s: S, column: usize, row: usize) -> usize {
        let zero = s.f32(0.0);
        let mut w = [zero; NINE];
        for t in 0..NINE {
            w[t] = s.f32(self.filter[t]);
        }
        let at = [self.taps[0], self.taps[1], self.taps[2]];
        let mut row = row;
        while row + R <= self.rows {
            let mut from = self.copy.wrapping_add(row * self.row + column);
            let mut sums = [zero; R];
            for i in 0..R + 2 {
                for t in 0..3 {
                    // SAFETY: the contract: tap `t` of a row that one of these results reads.
                    let x = unsafe { S::F32::load(from.wrapping_add(at[t])) };
                    for r in 0..R {
                        if r <= i && i < r + 3 {
                            sums[r] = x.madd(w[3 * (i - r) + t], sums[r]);
                        }
                    }
                }
                from = from.wrapping_add(self.row);
            }
            for r in 0..R {
                // SAFETY: the contract.
                unsafe { sums[r].store(self.to.wrapping_add((row + r) * self.pitch + column)) };
            }
            row += R;
        }
        row
    }

    /// Some columns of all rows from `row` on, R rows of V vectors at a time; gives the first row that was left over.
    ///
    /// # Safety
    /// The contract of [`Band`] for these columns.
    #[inline(always)]
    unsafe fn down<S: Simd, const R: usize, const V: usize>(&self, s: S, column: usize, row: usize) -> usize {
        let lanes = S::F32::LANES;
        let mut row = row;
        while row + R <= self.rows {
            let from = self.copy.wrapping_add(row * self.row + column);
            let mut sums = [[s.f32(0.0); V]; R];
            for t in 0..self.taps.len().min(self.filter.len()) {
                let w = s.f32(self.filter[t]);
                let from = from.wrapping_add(self.taps[t]);
                for r in 0..R {
                    for v in 0..V {
                        // SAFETY: the contract.
                        let x = unsafe { S::F32::load(from.wrapping_add(r * self.row + v * lanes)) };
                        sums[r][v] = x.madd(w, sums[r][v]);
                    }
                }
            }
            for r in 0..R {
                for v in 0..V {
                    let to = self.to.wrapping_add((row + r) * self.pitch + column + v * lanes);
                    // SAFETY: the contract.
                    unsafe { sums[r][v].store(to) };
                }
            }
            row += R;
        }
        row
    }
}
