//! Hyperbolic functions and their inverses, for f32 and f64 alike, with the contract of [`super::single`].

use super::precision::{Precision, number, odd};
use crate::simd::{Float, Simd};

/// Half of cosh a, half of sinh a for a >= 1, 0 <= a <= `COSH_MAX`.
#[inline(always)]
fn halves<T: Precision, S: Simd>(s: S, a: T::V<S>) -> (T::V<S>, T::V<S>) {
    // e^a / 4 = p + p q and e^-a / 4; the large part p is added last.
    let (p, q) = T::exp_parts::<S>(s, a);
    let low = number::<T, S>(s, 0.0625) / q.madd(p, p);
    (p + q.madd(p, low), p + q.madd(p, -low))
}

/// cosh x, 2 ulp.
#[inline(always)]
pub fn cosh<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    // `min` gives its second operand for NaN.
    let (c, _) = halves::<T, S>(s, T::splat(s, T::COSH_MAX).min(x.abs()));
    c + c
}

/// sinh x, 2 ulp.
#[inline(always)]
pub fn sinh<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let a = T::splat(s, T::COSH_MAX).min(x.abs());
    let (_, h) = halves::<T, S>(s, a);
    let small = odd::<T, S>(s, a, a * a, T::SINH);
    T::V::<S>::select(a.lt(number::<T, S>(s, 1.0)), small, h + h) | x.sign_bit()
}

/// ln(w + low + one) + more ln 2, for positive w + one up to a quarter of the largest number and small `low`.
#[inline(always)]
fn log_of_sum<T: Precision, S: Simd>(s: S, w: T::V<S>, low: T::V<S>, one: T::V<S>, more: T::V<S>) -> T::V<S> {
    let ((n, _), inverse) = (T::split::<S>(s, w + one), T::inverse::<S>(s, w + one));
    // What the sum loses to rounding is still here; the slope of the logarithm is nearly 1 - f.
    let f = inverse.madd(w, inverse.madd(one, number::<T, S>(s, -1.0)));
    let low = inverse * low;
    let rest = T::log_rest::<S>(s, f) + f.neg_madd(low, low);
    let n = n + more;
    let rest = n.madd(T::splat(s, T::LN2[1]), rest);
    n.madd(T::splat(s, T::LN2[0]), f + rest)
}

/// asinh x, 2 ulp.
#[inline(always)]
pub fn asinh<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let (a, one, zero) = (x.abs(), number::<T, S>(s, 1.0), number::<T, S>(s, 0.0));
    // ln(1 + w), w = a + a^2 / (1 + sqrt(1 + a^2)); of a large a it is ln 2a.
    let large = T::splat(s, T::SQUARE_ALONE).lt(a);
    let square = a * a;
    let rest = square / (one + (square + one).sqrt());
    let w = a + rest;
    let low = T::V::<S>::select(large, zero, (a - w) + rest);
    // An eighth of a large a, since its double may be none.
    let w = T::V::<S>::select(large, a * number::<T, S>(s, 0.125), w);
    let (offset, more) = (T::V::<S>::select(large, zero, one), T::V::<S>::select(large, number::<T, S>(s, 4.0), zero));
    let y = log_of_sum::<T, S>(s, w, low, offset, more) | x.sign_bit();
    // Infinities and NaN.
    T::V::<S>::select(a.lt(number::<T, S>(s, f64::INFINITY)), y, x)
}

/// acosh x, 2 ulp; NaN below 1.
#[inline(always)]
pub fn acosh<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let (one, zero) = (number::<T, S>(s, 1.0), number::<T, S>(s, 0.0));
    // ln(1 + w), w = t + sqrt(t^2 + 2t), t = x - 1; of a large x it is ln 2x.
    let large = T::splat(s, T::SQUARE_ALONE).lt(x);
    let t = x - one;
    let root = t.madd(t, t + t).sqrt();
    let w = t + root;
    let low = T::V::<S>::select(large, zero, (root - w) + t);
    let w = T::V::<S>::select(large, x * number::<T, S>(s, 0.125), w);
    let (offset, more) = (T::V::<S>::select(large, zero, one), T::V::<S>::select(large, number::<T, S>(s, 4.0), zero));
    let y = log_of_sum::<T, S>(s, w, low, offset, more);
    let y = T::V::<S>::select(x.lt(number::<T, S>(s, f64::INFINITY)), y, x);
    T::V::<S>::select(one.le(x), y, number::<T, S>(s, f64::NAN))
}

/// atanh x, 2 ulp; infinite at -1 and 1, NaN beyond.
#[inline(always)]
pub fn atanh<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let (a, one, half) = (x.abs(), number::<T, S>(s, 1.0), number::<T, S>(s, 0.5));
    let small = odd::<T, S>(s, a, a * a, T::ATANH);
    // ln(1 + 2a / (1 - a)) / 2, in which only the quotient is rounded.
    let zero = number::<T, S>(s, 0.0);
    let large = log_of_sum::<T, S>(s, (a + a) / (one - a), zero, one, zero) * half;
    let y = T::V::<S>::select(a.lt(half), small, large);
    let y = T::V::<S>::select(a.eq(one), number::<T, S>(s, f64::INFINITY), y);
    T::V::<S>::select(a.le(one), y | x.sign_bit(), number::<T, S>(s, f64::NAN))
}
