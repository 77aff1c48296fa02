//! A query's two passes over keys and values that lie row by row, in the type in which scores are computed: each is read once, in
//! its order, and all sums stay in registers.

use super::tile::Score;
use crate::prefetch::prefetch;
use crate::simd::{Float, Simd, WithSimd};

/// Keys whose scores are computed together: sums that do not wait for each other.
const TOGETHER: usize = 8;
/// Rows from those that are read to those that are prefetched: some kilobytes, as many as are on their way from memory at once.
const AHEAD: usize = 2 * TOGETHER;
/// Keys after which sums of values begin anew, to be added to those before.
const LEVEL: usize = 256;

/// The products of a query with each key.
pub(super) struct Products<'a, T> {
    pub query: &'a [T],
    /// The first key, and elements from each to the next.
    pub keys: (*const T, isize),
    /// One for each key.
    pub scores: &'a mut [T],
}

impl<T: Score> Products<'_, T> {
    /// The scores of `N` keys from one on.
    ///
    /// # Safety
    /// They exist, as long as the query.
    #[inline(always)]
    unsafe fn some<S: Simd, const N: usize>(&mut self, s: S, key: usize) {
        let (lanes, zero) = (T::V::<S>::LANES, T::splat(s, T::ZERO));
        let (d, (first, line)) = (self.query.len(), self.keys);
        let whole = d - d % lanes;
        let query = self.query.as_ptr();
        let mut sums = [zero; N];
        // SAFETY: the caller's promise; what is prefetched is not read.
        unsafe {
            let mut at = 0;
            while at < whole {
                let x = T::V::<S>::load(query.add(at));
                for (i, sum) in sums.iter_mut().enumerate() {
                    let row = first.wrapping_offset((key + i) as isize * line).wrapping_add(at);
                    prefetch::<false>(row.wrapping_offset(AHEAD as isize * line).cast());
                    *sum = T::V::<S>::load(row).mul_add(x, *sum);
                }
                at += lanes;
            }
            if at < d {
                let x = T::V::<S>::load_partial(query.add(at), d - at, zero);
                for (i, sum) in sums.iter_mut().enumerate() {
                    let row = first.wrapping_offset((key + i) as isize * line).wrapping_add(at);
                    *sum = T::V::<S>::load_partial(row, d - at, zero).mul_add(x, *sum);
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                *self.scores.get_unchecked_mut(key + i) = sum.sum();
            }
        }
    }
}

/// Made where as many keys as scores exist, each as long as the query.
impl<T: Score> WithSimd for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let keys = self.scores.len();
        let mut key = 0;
        // SAFETY: the maker vouches for the keys.
        unsafe {
            while key + TOGETHER <= keys {
                self.some::<S, TOGETHER>(s, key);
                key += TOGETHER;
            }
            while key < keys {
                self.some::<S, 1>(s, key);
                key += 1;
            }
        }
    }
}

/// The sums of values, each times its share.
pub(super) struct Mix<'a, T> {
    pub shares: &'a [T],
    /// The first value, and elements from each to the next.
    pub values: (*const T, isize),
    /// One for each element of a value.
    pub sums: &'a mut [T],
}

impl<T: Score> Mix<'_, T> {
    /// `N` vectors of sums from an element on, the last of `last` lanes.
    ///
    /// # Safety
    /// They exist.
    #[inline(always)]
    unsafe fn some<S: Simd, const N: usize>(&mut self, s: S, at: usize, last: usize) {
        let (lanes, zero) = (T::V::<S>::LANES, T::splat(s, T::ZERO));
        let (first, line) = self.values;
        let mut all = [zero; N];
        // SAFETY: the caller's promise; what is prefetched is not read.
        unsafe {
            let mut key = 0;
            while key < self.shares.len() {
                let end = self.shares.len().min(key + LEVEL);
                let mut sums = [zero; N];
                while key < end {
                    let share = T::splat(s, *self.shares.get_unchecked(key));
                    let row = first.wrapping_offset(key as isize * line).wrapping_add(at);
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let from = row.wrapping_add(i * lanes);
                        prefetch::<false>(from.wrapping_offset(AHEAD as isize * line).cast());
                        let x = if i + 1 < N || last == lanes {
                            T::V::<S>::load(from)
                        } else {
                            T::V::<S>::load_partial(from, last, zero)
                        };
                        *sum = x.mul_add(share, *sum);
                    }
                    key += 1;
                }
                for (all, sum) in all.iter_mut().zip(sums) {
                    *all = *all + sum;
                }
            }
            for (i, sum) in all.into_iter().enumerate() {
                let lanes = if i + 1 < N { lanes } else { last };
                sum.store_partial(self.sums.as_mut_ptr().add(at + i * T::V::<S>::LANES), lanes);
            }
        }
    }
}

/// Made where as many values as shares exist, each as long as the sums.
impl<T: Score> WithSimd for Mix<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let (lanes, e) = (T::V::<S>::LANES, self.sums.len());
        let mut at = 0;
        // SAFETY: the maker vouches for the values.
        unsafe {
            while at + 8 * lanes <= e {
                self.some::<S, 8>(s, at, lanes);
                at += 8 * lanes;
            }
            if at + 4 * lanes <= e {
                self.some::<S, 4>(s, at, lanes);
                at += 4 * lanes;
            }
            if at + 2 * lanes <= e {
                self.some::<S, 2>(s, at, lanes);
                at += 2 * lanes;
            }
            while at < e {
                self.some::<S, 1>(s, at, lanes.min(e - at));
                at += lanes;
            }
        }
    }
}
