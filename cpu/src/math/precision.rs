//! What f32 and f64 functions differ in, so that the rest is written once for both.

use super::coefficients::{double, single};
use super::{double as d, single as f};
use crate::simd::{Float, Int, Real, Simd};

/// f32 or f64 with its constants and the few steps that go by bits.
pub trait Precision: Real {
    /// pi as a sum.
    const PI: [Self; 2];
    /// tan r = r + r^3 P(r^2), |r| <= pi/4.
    const TAN: &'static [Self];
    /// atan t = t + t^3 P(t^2), |t| <= 1.
    const ATAN: &'static [Self];
    /// asin s = s + s^3 P(s^2), |s| <= 1/2.
    const ASIN: &'static [Self];
    /// sinh x = x + x^3 P(x^2), |x| <= 1.
    const SINH: &'static [Self];
    /// atanh x = x + x^3 P(x^2), |x| <= 1/2.
    const ATANH: &'static [Self];
    /// ln 2 as a sum whose first part has products with exponents that are exact.
    const LN2: [Self; 2];
    /// log10 2, likewise.
    const LOG10_2: [Self; 2];
    /// The smallest positive normal number.
    const NORMAL: Self;
    /// Times 2^`LIFT_BITS` subnormal numbers are normal.
    const LIFT_BITS: i32;
    /// From it on 1 + x^2 is x^2, and 1 / x^2 is below an ulp of the logarithm of x.
    const SQUARE_ALONE: Self;
    /// Squares of numbers up to 2^`ROOT_BITS` are finite, of those down to its inverse normal.
    const ROOT_BITS: i32;
    /// Above it cosh x is infinite.
    const COSH_MAX: Self;
    /// Beyond these 2^x is 0 or infinite.
    const EXP2_RANGE: [Self; 2];

    /// u = 2^n m, sqrt(1/2) <= m < sqrt(2), for positive normal u: gives n and m.
    fn split<S: Simd>(s: S, u: Self::V<S>) -> (Self::V<S>, Self::V<S>);
    /// 2^-n for the n of [`split`](Precision::split), for u up to a quarter of the largest number.
    fn inverse<S: Simd>(s: S, u: Self::V<S>) -> Self::V<S>;
    /// ln(1 + f) - f, sqrt(1/2) <= 1 + f < sqrt(2).
    fn log_rest<S: Simd>(s: S, f: Self::V<S>) -> Self::V<S>;
    /// e^a = 2^n (1 + q), for 0 <= a <= `COSH_MAX`: gives 2^(n - 2) and q.
    fn exp_parts<S: Simd>(s: S, a: Self::V<S>) -> (Self::V<S>, Self::V<S>);
    /// 2^x for x within `EXP2_RANGE`.
    fn exp2_within<S: Simd>(s: S, x: Self::V<S>) -> Self::V<S>;
}

impl Precision for f32 {
    const PI: [f32; 2] = single::PI_SUM;
    const TAN: &'static [f32] = &single::TAN;
    const ATAN: &'static [f32] = &single::ATAN;
    const ASIN: &'static [f32] = &single::ASIN;
    const SINH: &'static [f32] = &single::SINH;
    const ATANH: &'static [f32] = &single::ATANH;
    const LN2: [f32; 2] = [single::LN2_HI, single::LN2_LO];
    const LOG10_2: [f32; 2] = [single::LOG10_2_HI, single::LOG10_2_LO];
    const NORMAL: f32 = f32::MIN_POSITIVE;
    const LIFT_BITS: i32 = 23;
    const SQUARE_ALONE: f32 = 8192.0;
    const ROOT_BITS: i32 = 60;
    const COSH_MAX: f32 = single::COSH_MAX;
    const EXP2_RANGE: [f32; 2] = [single::EXP2_MIN, single::EXP2_MAX];

    #[inline(always)]
    fn split<S: Simd>(s: S, u: S::F32) -> (S::F32, S::F32) {
        let moved = u.to_bits() + s.i32(0x3f80_0000 - single::SQRT_HALF_BITS);
        let n = S::F32::from_bits(moved.shr::<23>() | s.i32(0x4b00_0000)) - s.f32(8_388_608.0 + 127.0);
        (n, S::F32::from_bits((moved & s.i32(0x007f_ffff)) + s.i32(single::SQRT_HALF_BITS)))
    }
    #[inline(always)]
    fn inverse<S: Simd>(s: S, u: S::F32) -> S::F32 {
        let e = (u.to_bits() + s.i32(0x3f80_0000 - single::SQRT_HALF_BITS)).shr::<23>();
        S::F32::from_bits((s.i32(254) - e).shl::<23>())
    }
    #[inline(always)]
    fn log_rest<S: Simd>(s: S, f: S::F32) -> S::F32 {
        let f2 = f * f;
        f2.neg_madd(s.f32(0.5), f::poly(s, f, f2, &single::LOG) * f * f2)
    }
    #[inline(always)]
    fn exp_parts<S: Simd>(s: S, a: S::F32) -> (S::F32, S::F32) {
        let (t, _, r) = f::reduce(s, a, 125.0);
        let r2 = r * r;
        (f::pow2::<S>(t), f::poly(s, r, r2, &single::EXP).madd(r2, r))
    }
    #[inline(always)]
    fn exp2_within<S: Simd>(s: S, x: S::F32) -> S::F32 {
        let t = x + s.f32(single::ROUND + 254.0);
        let n = t - s.f32(single::ROUND + 254.0);
        f::exp_scaled(s, t, n, (x - n) * s.f32(std::f32::consts::LN_2))
    }
}

impl Precision for f64 {
    const PI: [f64; 2] = double::PI_SUM;
    const TAN: &'static [f64] = &double::TAN;
    const ATAN: &'static [f64] = &double::ATAN;
    const ASIN: &'static [f64] = &double::ASIN;
    const SINH: &'static [f64] = &double::SINH;
    const ATANH: &'static [f64] = &double::ATANH;
    const LN2: [f64; 2] = [double::LN2_HI, double::LN2_LO];
    const LOG10_2: [f64; 2] = [double::LOG10_2_HI, double::LOG10_2_LO];
    const NORMAL: f64 = f64::MIN_POSITIVE;
    const LIFT_BITS: i32 = 52;
    const SQUARE_ALONE: f64 = 268_435_456.0;
    const ROOT_BITS: i32 = 500;
    const COSH_MAX: f64 = double::COSH_MAX;
    const EXP2_RANGE: [f64; 2] = [double::EXP2_MIN, double::EXP2_MAX];

    #[inline(always)]
    fn split<S: Simd>(s: S, u: S::F64) -> (S::F64, S::F64) {
        let moved = u.to_bits() + s.i64(double::ONE_BITS - double::SQRT_HALF_BITS);
        let n = S::F64::from_bits(moved.shr::<52>() | s.i64(double::TWO52_BITS)) - s.f64(double::TWO52 + 1023.0);
        (n, S::F64::from_bits((moved & s.i64(double::MANTISSA)) + s.i64(double::SQRT_HALF_BITS)))
    }
    #[inline(always)]
    fn inverse<S: Simd>(s: S, u: S::F64) -> S::F64 {
        let e = (u.to_bits() + s.i64(double::ONE_BITS - double::SQRT_HALF_BITS)).shr::<52>();
        S::F64::from_bits((s.i64(2046) - e).shl::<52>())
    }
    #[inline(always)]
    fn log_rest<S: Simd>(s: S, f: S::F64) -> S::F64 {
        // See `double::log_parts`.
        let z = f / (f + s.f64(2.0));
        let v = z * z;
        let h = f * f * s.f64(0.5);
        z * (h + d::poly(s, v, v * v, &double::LOG) * v) - h
    }
    #[inline(always)]
    fn exp_parts<S: Simd>(s: S, a: S::F64) -> (S::F64, S::F64) {
        let (t, _, r) = d::reduce(s, a, 1021.0);
        let r2 = r * r;
        (d::pow2::<S>(t), d::poly(s, r, r2, &double::EXP).madd(r2, r))
    }
    #[inline(always)]
    fn exp2_within<S: Simd>(s: S, x: S::F64) -> S::F64 {
        let t = x + s.f64(double::ROUND + 2046.0);
        let n = t - s.f64(double::ROUND + 2046.0);
        d::exp_scaled(s, t, n, (x - n) * s.f64(std::f64::consts::LN_2))
    }
}

/// A yes or no for each lane of a vector of `T`.
pub type MaskOf<T, S> = <<T as Real>::V<S> as Float>::Mask;

/// The number in every lane.
#[inline(always)]
pub fn number<T: Real, S: Simd>(s: S, x: f64) -> T::V<S> {
    T::splat(s, T::from_f64(x))
}

/// x + x^3 P(v), where v = x^2.
#[inline(always)]
pub fn odd<T: Real, S: Simd>(s: S, x: T::V<S>, v: T::V<S>, c: &'static [T]) -> T::V<S> {
    (x * v).madd(poly::<T, S>(s, v, v * v, c), x)
}

/// r - n c, and what it loses to rounding.
#[inline(always)]
pub fn minus_product<V: Float>(r: V, n: V, c: V) -> (V, V) {
    let p = n * c;
    let lost = n.mul_add(c, -p);
    let y = r - p;
    let back = y - r;
    (y, (r - (y - back)) - (p + back) - lost)
}

/// tan(r + low), or -1 / tan(r + low) where `shifted`; |r| <= pi/4, and `low` is what r lost to rounding.
#[inline(always)]
pub fn tangent<T: Precision, S: Simd>(s: S, r: T::V<S>, low: T::V<S>, shifted: <T::V<S> as Float>::Mask) -> T::V<S> {
    let one = number::<T, S>(s, 1.0);
    let v = r * r;
    let rest = r * v * poly::<T, S>(s, v, v * v, T::TAN);
    let y = r + rest;
    let rest = y.madd(y, one).madd(low, rest);
    let y = r + rest;
    // The reciprocal, too, sees what y lost.
    let lost = (r - y) + rest;
    let inverse = -one / y;
    T::V::<S>::select(shifted, (inverse * inverse).madd(lost, inverse), y)
}

/// c[0] + x c[1] + x^2 c[2] + ..., where x2 = x^2, by pairs as in [`super::single`].
#[inline(always)]
pub fn poly<T: Real, S: Simd>(s: S, x: T::V<S>, x2: T::V<S>, c: &'static [T]) -> T::V<S> {
    let mut i = (c.len() - 1) & !1;
    let mut sum = pair(s, x, c, i);
    while i > 0 {
        i -= 2;
        sum = sum.madd(x2, pair(s, x, c, i));
    }
    sum
}

/// c[i] + x c[i + 1].
#[inline(always)]
fn pair<T: Real, S: Simd>(s: S, x: T::V<S>, c: &'static [T], i: usize) -> T::V<S> {
    if i + 1 < c.len() { T::splat(s, c[i + 1]).madd(x, T::splat(s, c[i])) } else { T::splat(s, c[i]) }
}
