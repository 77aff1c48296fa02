//! Logarithms and powers of other bases, for f32 and f64 alike, with the contract of [`super::single`].

use super::precision::{Precision, number};
use crate::simd::{Float, Mask, Simd};

/// A base: how ln(1 + f) = f + y and the exponent n of 2 become the logarithm.
trait LogBase {
    /// Computes it; must be `#[inline(always)]`.
    fn finish<T: Precision, S: Simd>(s: S, n: T::V<S>, f: T::V<S>, y: T::V<S>) -> T::V<S>;
}

struct Two;
struct Ten;

impl LogBase for Two {
    #[inline(always)]
    fn finish<T: Precision, S: Simd>(s: S, n: T::V<S>, f: T::V<S>, y: T::V<S>) -> T::V<S> {
        // f log2(e) = f + f (log2(e) - 1), of which the first is exact.
        let scale = std::f64::consts::LOG2_E;
        let rest = f.madd(number::<T, S>(s, scale - 1.0), y * number::<T, S>(s, scale));
        n + (f + rest)
    }
}

impl LogBase for Ten {
    #[inline(always)]
    fn finish<T: Precision, S: Simd>(s: S, n: T::V<S>, f: T::V<S>, y: T::V<S>) -> T::V<S> {
        // f log10(e) = f / 2 + f (log10(e) - 1/2), of which the first is exact.
        let scale = std::f64::consts::LOG10_E;
        let rest = n.madd(T::splat(s, T::LOG10_2[1]), y * number::<T, S>(s, scale));
        let rest = f.madd(number::<T, S>(s, scale - 0.5), rest);
        n.madd(T::splat(s, T::LOG10_2[0]), f.madd(number::<T, S>(s, 0.5), rest))
    }
}

/// The logarithm of a positive normal x, whose exponent counts `less` less.
#[inline(always)]
fn normal<B: LogBase, T: Precision, S: Simd>(s: S, x: T::V<S>, less: f64) -> T::V<S> {
    let (n, m) = T::split::<S>(s, x);
    let f = m - number::<T, S>(s, 1.0);
    B::finish::<T, S>(s, n - number::<T, S>(s, less), f, T::log_rest::<S>(s, f))
}

#[inline(always)]
fn log<B: LogBase, T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let y = normal::<B, T, S>(s, x, 0.0);
    let (zero, inf, least) = (number::<T, S>(s, 0.0), number::<T, S>(s, f64::INFINITY), T::splat(s, T::NORMAL));
    // Zero, subnormal, negative, infinite or NaN.
    let usual = least.le(x) & x.lt(inf);
    if (!usual).any() {
        let lifted = x * number::<T, S>(s, 2f64.powi(T::LIFT_BITS));
        let y = T::V::<S>::select(x.lt(least), normal::<B, T, S>(s, lifted, T::LIFT_BITS.into()), y);
        let y = T::V::<S>::select(x.eq(zero), number::<T, S>(s, f64::NEG_INFINITY), y);
        let y = T::V::<S>::select(x.eq(inf), x, y);
        // Negative or NaN.
        return T::V::<S>::select(zero.le(x), y, number::<T, S>(s, f64::NAN));
    }
    y
}

/// log2 x, 2 ulp; exact for powers of 2.
#[inline(always)]
pub fn log2<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    log::<Two, T, S>(s, x)
}

/// log10 x, 2 ulp.
#[inline(always)]
pub fn log10<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    log::<Ten, T, S>(s, x)
}

/// 2^x, 1 ulp; exact for whole x.
#[inline(always)]
pub fn exp2<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let [low, high] = T::EXP2_RANGE;
    // `min` and `max` give their second operand for NaN.
    T::exp2_within::<S>(s, T::splat(s, low).max(T::splat(s, high).min(x)))
}
