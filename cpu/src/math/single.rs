//! f32 functions on vectors. Each says its error bound; the tests hold it on every instruction set.
//!
//! Contract of all: at most 2 ulp; NaN gives NaN; infinities, signed zeros and subnormal inputs and results are as in
//! IEEE 754 / C99; no f64 arithmetic, except in the argument reduction of huge angles.

pub use super::pow::pow_f32 as pow;
pub use super::trig::{cos, sin, tan};

use super::coefficients::single as k;
use crate::simd::{Float, Int, Mask, Simd};

/// c[0] + x c[1] + x^2 c[2] + ..., where x2 = x^2. Pairs first: a shorter chain than Horner's keeps more vectors in
/// flight.
#[inline(always)]
pub(super) fn poly<S: Simd, const N: usize>(s: S, x: S::F32, x2: S::F32, c: &[f32; N]) -> S::F32 {
    let mut i = (N - 1) & !1;
    let mut sum = pair(s, x, c, i);
    while i > 0 {
        i -= 2;
        sum = sum.madd(x2, pair(s, x, c, i));
    }
    sum
}

/// c[i] + x c[i + 1]. Not a closure, which is only inlined into a kernel with vector features when the optimiser likes to.
#[inline(always)]
fn pair<S: Simd, const N: usize>(s: S, x: S::F32, c: &[f32; N], i: usize) -> S::F32 {
    if i + 1 < N { s.f32(c[i + 1]).madd(x, s.f32(c[i])) } else { s.f32(c[i]) }
}

/// x = n ln(2) + r, |r| <= ln(2)/2: gives (t, n, r), where the low bits of t hold n + bias.
#[inline(always)]
pub(super) fn reduce<S: Simd>(s: S, x: S::F32, bias: f32) -> (S::F32, S::F32, S::F32) {
    let t = x.madd(s.f32(k::LOG2_E), s.f32(k::ROUND + bias));
    let n = t - s.f32(k::ROUND + bias);
    let r = n.neg_madd(s.f32(k::LN2_HI), x);
    (t, n, n.neg_madd(s.f32(k::LN2_LO), r))
}

/// 2^n from t, whose low bits hold n + 127, -126 <= n <= 127.
#[inline(always)]
pub(super) fn pow2<S: Simd>(t: S::F32) -> S::F32 {
    S::F32::from_bits(t.to_bits().shl::<23>())
}

/// e^x, 1 ulp.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F32) -> S::F32 {
    exp_below(s, s.f32(k::EXP_MAX).min(x))
}

/// e^x for x <= EXP_MAX or NaN.
#[inline(always)]
pub(crate) fn exp_below<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // `min` and `max` give their second operand for NaN.
    let x = s.f32(k::EXP_MIN).max(x);
    let (t, n, r) = reduce(s, x, 254.0);
    exp_scaled(s, t, n, r)
}

/// 2^n e^r for |r| <= ln(2)/2, where the low bits of t hold n + 254.
#[inline(always)]
pub(super) fn exp_scaled<S: Simd>(s: S, t: S::F32, n: S::F32, r: S::F32) -> S::F32 {
    let r2 = r * r;
    let q = poly(s, r, r2, &k::EXP).madd(r2, r);
    if S::F32::SCALES {
        return (q + s.f32(1.0)).scale(n);
    }
    // 2^n in two factors, so that n = 128 works and subnormal results round once.
    let half = n.madd(s.f32(0.5), s.f32(k::ROUND + 127.0));
    let rest = S::F32::from_bits((t.to_bits() - half.to_bits()).shl::<23>());
    let half = pow2::<S>(half);
    q.madd(half, half) * rest
}

/// e^x - 1, 2 ulp.
#[inline(always)]
pub fn expm1<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let y = s.f32(k::EXP_MAX).min(s.f32(k::EXPM1_MIN).max(x));
    // With half of 2^n, since 2^128 is not finite.
    let (t, _, r) = reduce(s, y, 126.0);
    let r2 = r * r;
    let q = poly(s, r, r2, &k::EXPM1).madd(r2, r);
    let half = pow2::<S>(t);
    let h = half.madd(q, half - s.f32(0.5));
    // Half of a subnormal is not exact, and the sum of signed zeros is +0.
    S::F32::select(x.abs().lt(s.f32(k::EXPM1_TINY)), x, h + h)
}

/// tanh x, 2 ulp.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // With h = (e^2a - 1) / 2, tanh a = h / (h + 1). 2a = n ln(2) + 2r, and n is 0 a little longer than rounding
    // would have it, since the cancellation in h is worst just above.
    let a = s.f32(k::TANH_MAX).min(x.abs());
    let bias = s.f32(k::ROUND + 127.0);
    let t = a.madd(s.f32(2.0 * k::LOG2_E), s.f32(k::TANH_SHIFT)) + bias;
    let n = t - bias;
    // One part of ln(2) is enough: where n is large, tanh is flat.
    let r = n.neg_mul_add(s.f32(0.5 * std::f32::consts::LN_2), a);
    let r2 = r * r;
    let q = poly(s, r, r2, &k::TANH).madd(r2, r);
    let p = pow2::<S>(t);
    let (half, one) = (s.f32(0.5), s.f32(1.0));
    let h = p.madd(q, p.madd(half, -half));
    let y = h / (h + one);
    // h - h y is as good and damps the errors of the division and of h + 1 where h is small.
    let small = h.lt(s.f32(k::TANH_SMALL));
    S::F32::select(small, y.neg_mul_add(h, h), y) | x.sign_bit()
}

/// 1 / (1 + e^-x), 2 ulp.
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // e^-|x| never overflows, and carries the subnormal results of very negative x.
    let e = exp_below(s, x | s.f32(-0.0));
    let one = s.f32(1.0);
    // With z = e / (1 + e) it is 1 - z for positive x and e (1 - z) = z for negative.
    let z = e / (e + one);
    let w = S::F32::select(x.is_negative(), e, one);
    z.neg_mul_add(w, w)
}

/// ln x for positive normal x: the reduction and polynomial without special cases.
#[inline(always)]
fn log_normal<S: Simd>(s: S, x: S::F32, exponent_bias: f32) -> S::F32 {
    let ix = x.to_bits() + s.i32(0x3f80_0000 - k::SQRT_HALF_BITS);
    // The exponent becomes a float by putting it below 2^23.
    let n = S::F32::from_bits(ix.shr::<23>() | s.i32(0x4b00_0000)) - s.f32(8_388_608.0 + exponent_bias);
    let m = S::F32::from_bits((ix & s.i32(0x007f_ffff)) + s.i32(k::SQRT_HALF_BITS));
    log_parts(s, m - s.f32(1.0), n)
}

/// ln(1 + f) + n ln(2), sqrt(1/2) <= 1 + f < sqrt(2).
#[inline(always)]
fn log_parts<S: Simd>(s: S, f: S::F32, n: S::F32) -> S::F32 {
    let f2 = f * f;
    let p = poly(s, f, f2, &k::LOG) * f;
    let y = n.madd(s.f32(k::LN2_LO), p * f2);
    let y = f2.neg_madd(s.f32(0.5), y);
    n.madd(s.f32(k::LN2_HI), f + y)
}

/// ln x, 2 ulp.
#[inline(always)]
pub fn log<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let y = log_normal(s, x, 127.0);
    // Zero, subnormal, negative, infinite or NaN: as unsigned integers these lie outside the normal numbers.
    let odd = (x.to_bits() + s.i32(0x7f80_0000)).gt(s.i32(0x7eff_ffff ^ i32::MIN));
    if odd.any() {
        let tiny = log_normal(s, x * s.f32(8_388_608.0), 127.0 + 23.0);
        let y = S::F32::select(x.lt(s.f32(f32::MIN_POSITIVE)), tiny, y);
        let y = S::F32::select(x.eq(s.f32(0.0)), s.f32(f32::NEG_INFINITY), y);
        let y = S::F32::select(x.eq(s.f32(f32::INFINITY)), x, y);
        // Negative or NaN.
        return S::F32::select(s.f32(0.0).le(x), y, s.f32(f32::NAN));
    }
    y
}

/// ln(1 + x), 2 ulp.
#[inline(always)]
pub fn log1p<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let ix = (x + s.f32(1.0)).to_bits() + s.i32(0x3f80_0000 - k::SQRT_HALF_BITS);
    let e = ix.shr::<23>();
    let n = S::F32::from_bits(e | s.i32(0x4b00_0000)) - s.f32(8_388_608.0 + 127.0);
    // 1 + f = (1 + x) / 2^n without the rounding error of 1 + x.
    let inverse = S::F32::from_bits((s.i32(254) - e).shl::<23>());
    let f = inverse.madd(x, inverse - s.f32(1.0));
    let y = log_parts(s, f, n) | x.sign_bit();
    // The usual values are those with -1 < x < 2^126.
    let usual = s.f32(-1.0).lt(x) & x.lt(s.f32(8.507_059e37));
    if (!usual).any() {
        // 1 + x is x here.
        let big = log(s, x);
        let y = S::F32::select(usual, y, big);
        return S::F32::select(x.eq(s.f32(-1.0)), s.f32(f32::NEG_INFINITY), y);
    }
    y
}

/// The square root, correctly rounded.
#[inline(always)]
pub fn sqrt<S: Simd>(_: S, x: S::F32) -> S::F32 {
    x.sqrt()
}

/// 1 / x, correctly rounded.
#[inline(always)]
pub fn recip<S: Simd>(s: S, x: S::F32) -> S::F32 {
    s.f32(1.0) / x
}

/// 1 / sqrt(x), 2 ulp.
#[inline(always)]
pub fn rsqrt<S: Simd>(s: S, x: S::F32) -> S::F32 {
    s.f32(1.0) / x.sqrt()
}

/// The error function, 2 ulp.
#[inline(always)]
pub fn erf<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let a = s.f32(k::ERF_MAX).min(x.abs());
    let u = a * a;
    let small = poly(s, u, u * u, &k::ERF).madd(a, a);
    // 1 - e^-g.
    let g = poly(s, a, u, &k::ERF_TAIL);
    let (t, _, r) = reduce(s, -g, 127.0);
    let r2 = r * r;
    let q = poly(s, r, r2, &k::EXP).madd(r2, r);
    let p = pow2::<S>(t);
    let large = p.neg_madd(q, s.f32(1.0) - p);
    S::F32::select(a.lt(s.f32(k::ERF_SMALL)), small, large) | x.sign_bit()
}
