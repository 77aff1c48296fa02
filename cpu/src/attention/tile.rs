//! Scores of some keys for as many queries as a panel has columns: a query in each lane, so that nothing crosses lanes.

use crate::contract::packed::Element;
use crate::math::{double, single};
use crate::simd::{Float, Mask, Real, Simd, WithSimd};
use millstream_core::DType;

/// A type in which scores are computed.
pub(super) trait Score: Element + Real {
    const LOWEST: Self;
    const ONE: Self;
    const ELEM: DType;

    fn less(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;

    /// e^x for x <= 0 or NaN; must be `#[inline(always)]`.
    fn exp<S: Simd>(s: S, x: Self::V<S>) -> Self::V<S>;
}

macro_rules! scores {
    ($($t:ident, $elem:ident, $functions:ident);+) => {$(
        impl Score for $t {
            const LOWEST: $t = $t::NEG_INFINITY;
            const ONE: $t = 1.0;
            const ELEM: DType = DType::$elem;

            fn less(self, other: $t) -> $t {
                self - other
            }

            fn over(self, other: $t) -> $t {
                self / other
            }

            #[inline(always)]
            fn exp<S: Simd>(s: S, x: Self::V<S>) -> Self::V<S> {
                $functions::exp_below(s, x)
            }
        }
    )+};
}
scores!(f32, F32, single; f64, F64, double);

/// What is known of a panel's queries after some of their keys: a number for each.
pub(super) struct Known<'a, T> {
    /// The largest score.
    pub most: &'a mut [T],
    /// The sum of the shares, which are `exp(score - most)`.
    pub total: &'a mut [T],
}

/// Turns scores of further keys into shares of the largest score, and takes what was summed before to the same measure.
pub(super) struct Shares<'a, T> {
    /// Queries contiguous, key after key.
    pub scores: &'a mut [T],
    /// Lanes of a key, and those that count.
    pub width: usize,
    pub queries: usize,
    /// Scores are to be multiplied with it; more than 0.
    pub scale: T,
    pub known: Known<'a, T>,
    /// Sums of values: queries contiguous, dimension after dimension; empty if there are none yet.
    pub acc: &'a mut [T],
}

/// Keys that are looked at together, so that their accumulators do not wait for each other.
const WAYS: usize = 4;

impl<T: Score> WithSimd for Shares<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Shares { scores, width, queries, scale, known, acc } = self;
        let lanes = T::V::<S>::LANES;
        let keys = scores.len() / width;
        let whole = keys - keys % WAYS;
        let (zero, lowest, scale) = (T::splat(s, T::ZERO), T::splat(s, T::LOWEST), T::splat(s, scale));
        assert!(width.is_multiple_of(lanes) && queries <= width);
        assert!(known.most.len() >= width && known.total.len() >= width);
        for lane in (0..queries).step_by(lanes) {
            // A vector from `lane` on is within the width of each key, each dimension, and what is known.
            let at = scores[lane..].as_mut_ptr();
            let (seen, sum) = (known.most[lane..].as_mut_ptr(), known.total[lane..].as_mut_ptr());
            // SAFETY: see above.
            let (before, total) = unsafe { (T::V::<S>::load(seen), T::V::<S>::load(sum)) };
            // `max` gives its second operand for NaN, which comes back with the sum.
            let mut most = [before; WAYS];
            for key in (0..whole).step_by(WAYS) {
                for (way, most) in most.iter_mut().enumerate() {
                    // SAFETY: see above.
                    *most = unsafe { T::V::<S>::load(at.add((key + way) * width)) }.max(*most);
                }
            }
            for key in whole..keys {
                // SAFETY: see above.
                most[0] = unsafe { T::V::<S>::load(at.add(key * width)) }.max(most[0]);
            }
            let most = most[0].max(most[1]).max(most[2].max(most[3]));
            // Where no key was seen yet, all shares are zero.
            let shift = T::V::<S>::select(most.eq(lowest), zero, zero - most * scale);
            let mut part = [zero; WAYS];
            for key in (0..whole).step_by(WAYS) {
                for (way, part) in part.iter_mut().enumerate() {
                    // SAFETY: see above.
                    *part = *part + unsafe { share(s, at.add((key + way) * width), scale, shift) };
                }
            }
            for key in whole..keys {
                // SAFETY: see above.
                part[0] = part[0] + unsafe { share(s, at.add(key * width), scale, shift) };
            }
            let part = (part[0] + part[1]) + (part[2] + part[3]);
            let less = T::exp(s, before.mul_add(scale, shift));
            // SAFETY: see above.
            unsafe {
                most.store(seen);
                total.mul_add(less, part).store(sum);
            }
            if (!less.eq(T::splat(s, T::ONE))).any() {
                for acc in acc.chunks_exact_mut(width) {
                    let at = acc[lane..].as_mut_ptr();
                    // SAFETY: see above.
                    unsafe { (T::V::<S>::load(at) * less).store(at) };
                }
            }
        }
    }
}

/// Turns a vector of scores into shares.
///
/// # Safety
/// It is readable and writable.
#[inline(always)]
unsafe fn share<S: Simd, T: Score>(s: S, at: *mut T, scale: T::V<S>, shift: T::V<S>) -> T::V<S> {
    // SAFETY: the caller's.
    unsafe {
        let share = T::exp(s, T::V::<S>::load(at).mul_add(scale, shift));
        share.store(at);
        share
    }
}

/// Multiplies scores, and adds what a mask says.
pub(super) struct Masked<'a, T> {
    pub scores: &'a mut [T],
    pub scale: T,
    /// A number for each score, or none at all.
    pub added: &'a [T],
    /// Where it is minus infinity, so is the score, whatever it was.
    pub replaces: bool,
}

impl<T: Score> WithSimd for Masked<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Masked { scores, scale, added, replaces } = self;
        let lanes = T::V::<S>::LANES;
        let (scale, lowest) = (T::splat(s, scale), T::splat(s, T::LOWEST));
        assert!(scores.len().is_multiple_of(lanes) && (added.is_empty() || added.len() >= scores.len()));
        for i in (0..scores.len()).step_by(lanes) {
            let at = scores[i..].as_mut_ptr();
            // SAFETY: there are as many scores, and numbers if there are any, from `i` on.
            unsafe {
                let mut score = T::V::<S>::load(at) * scale;
                if !added.is_empty() {
                    let added = T::V::<S>::load(added[i..].as_ptr());
                    score = if replaces { T::V::<S>::select(added.eq(lowest), lowest, score) } else { score + added };
                }
                score.store(at);
            }
        }
    }
}

/// Divides sums of values by those of the shares.
pub(super) struct Divide<'a, T> {
    /// Queries contiguous, dimension after dimension.
    pub acc: &'a mut [T],
    pub width: usize,
    pub total: &'a [T],
    /// Keys may be hidden: where no share is more than 0, none was seen, and results are 0.
    pub hides: bool,
}

impl<T: Score> WithSimd for Divide<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Divide { acc, width, total, hides } = self;
        let zero = T::splat(s, T::ZERO);
        assert!(width.is_multiple_of(T::V::<S>::LANES) && total.len() >= width);
        for lane in (0..width).step_by(T::V::<S>::LANES) {
            // SAFETY: a vector from `lane` on is within the width.
            let total = unsafe { T::V::<S>::load(total[lane..].as_ptr()) };
            let nothing = total.eq(zero);
            for acc in acc.chunks_exact_mut(width) {
                let at = acc[lane..].as_mut_ptr();
                // SAFETY: as above.
                unsafe {
                    let mean = T::V::<S>::load(at) / total;
                    (if hides { T::V::<S>::select(nothing, zero, mean) } else { mean }).store(at);
                }
            }
        }
    }
}
