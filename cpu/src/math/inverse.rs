//! The inverse circular functions, for f32 and f64 alike, with the contract of [`super::single`].

use super::precision::{MaskOf, Precision, number, odd, poly};
use crate::simd::{Float, Mask, Simd};

/// atan x, 2 ulp.
#[inline(always)]
pub fn atan<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let (a, one) = (x.abs(), number::<T, S>(s, 1.0));
    let beyond = one.lt(a);
    // Beyond 1 it is pi/2 - atan(1 / a).
    let t = T::V::<S>::select(beyond, one, a) / T::V::<S>::select(beyond, a, one);
    quadrants::<T, S>(s, t, beyond) | x.sign_bit()
}

/// atan t, or pi/2 - atan t where `beyond`; 0 <= t <= 1.
#[inline(always)]
fn quadrants<T: Precision, S: Simd>(s: S, t: T::V<S>, beyond: MaskOf<T, S>) -> T::V<S> {
    let y = odd::<T, S>(s, t, t * t, T::ATAN);
    let half = number::<T, S>(s, 0.5);
    let (high, low) = (T::splat(s, T::PI[0]) * half, T::splat(s, T::PI[1]) * half);
    T::V::<S>::select(beyond, high - (y - low), y)
}

/// The angle of (x, y) from the positive x axis, from -pi to pi, 2 ulp.
#[inline(always)]
pub fn atan2<T: Precision, S: Simd>(s: S, y: T::V<S>, x: T::V<S>) -> T::V<S> {
    let (ax, ay) = (x.abs(), y.abs());
    let (zero, one, inf) = (number::<T, S>(s, 0.0), number::<T, S>(s, 1.0), number::<T, S>(s, f64::INFINITY));
    let beyond = ax.lt(ay);
    let (most, least) = (T::V::<S>::select(beyond, ay, ax), T::V::<S>::select(beyond, ax, ay));
    let t = least / most;
    // Of two zeros and of two infinities the quotient is none.
    let t = T::V::<S>::select((ax + ay).eq(zero), zero, t);
    let t = T::V::<S>::select(most.eq(inf) & least.eq(inf), one, t);
    let angle = quadrants::<T, S>(s, t, beyond);
    let left = T::splat(s, T::PI[0]) - (angle - T::splat(s, T::PI[1]));
    T::V::<S>::select(x.is_negative(), left, angle) | y.sign_bit()
}

/// asin t as t and the rest, t = a for a <= 1/2; beyond, t = sqrt((1 - a) / 2). Also whether it is beyond.
#[inline(always)]
fn half_angle<T: Precision, S: Simd>(s: S, a: T::V<S>) -> (T::V<S>, T::V<S>, MaskOf<T, S>) {
    let half = number::<T, S>(s, 0.5);
    let beyond = half.lt(a);
    let v = T::V::<S>::select(beyond, a.neg_madd(half, half), a * a);
    let t = T::V::<S>::select(beyond, v.sqrt(), a);
    (t, t * v * poly::<T, S>(s, v, v * v, T::ASIN), beyond)
}

/// asin x, 2 ulp; NaN outside of -1 to 1.
#[inline(always)]
pub fn asin<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let (t, rest, beyond) = half_angle::<T, S>(s, x.abs());
    let half = number::<T, S>(s, 0.5);
    let (high, low) = (T::splat(s, T::PI[0]) * half, T::splat(s, T::PI[1]) * half);
    let y = high - (t + t);
    // And what the difference loses to rounding.
    let lost = (high - y) - (t + t);
    let y = y + (lost - ((rest + rest) - low));
    T::V::<S>::select(beyond, y, t + rest) | x.sign_bit()
}

/// acos x, 2 ulp; NaN outside of -1 to 1.
#[inline(always)]
pub fn acos<T: Precision, S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
    let (t, rest, beyond) = half_angle::<T, S>(s, x.abs());
    let (p, half) = (t + rest, number::<T, S>(s, 0.5));
    let (high, low) = (T::splat(s, T::PI[0]), T::splat(s, T::PI[1]));
    let inside = high * half - ((p | x.sign_bit()) - low * half);
    let outside = T::V::<S>::select(x.is_negative(), high - ((p + p) - low), p + p);
    T::V::<S>::select(beyond, outside, inside)
}

/// sqrt(x^2 + y^2) without overflow on the way, 1 ulp; infinite if either is, even beside NaN.
#[inline(always)]
pub fn hypot<T: Precision, S: Simd>(s: S, x: T::V<S>, y: T::V<S>) -> T::V<S> {
    let (ax, ay) = (x.abs(), y.abs());
    let usual = number::<T, S>(s, 2f64.powi(-T::ROOT_BITS)).lt(ax + ay)
        & (ax + ay).lt(number::<T, S>(s, 2f64.powi(T::ROOT_BITS)));
    let h = ax.madd(ax, ay * ay).sqrt();
    if (!usual).any() {
        // Brought to where squares neither overflow nor vanish.
        let large = number::<T, S>(s, 1.0).lt(ax) | number::<T, S>(s, 1.0).lt(ay);
        let (lower, raise) = (T::ROOT_BITS * 6 / 5, T::ROOT_BITS * 3 / 2);
        let (down, up) = (number::<T, S>(s, 2f64.powi(-lower)), number::<T, S>(s, 2f64.powi(raise)));
        let by = T::V::<S>::select(large, down, up);
        let (up, down) = (number::<T, S>(s, 2f64.powi(lower)), number::<T, S>(s, 2f64.powi(-raise)));
        let back = T::V::<S>::select(large, up, down);
        let (x, y) = (ax * by, ay * by);
        let scaled = x.madd(x, y * y).sqrt() * back;
        let inf = number::<T, S>(s, f64::INFINITY);
        let h = T::V::<S>::select(usual, h, scaled);
        return T::V::<S>::select(ax.eq(inf) | ay.eq(inf), inf, h);
    }
    h
}
