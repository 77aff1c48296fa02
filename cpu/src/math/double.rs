//! f64 functions on vectors, with the contract of [`super::single`] and the same algorithms.

use super::coefficients::double as k;
use super::precision::{minus_product, tangent};
use crate::simd::{Float, Int, Mask, Simd};

pub use super::pow::pow_f64 as pow;

/// c[0] + x c[1] + x^2 c[2] + ..., where x2 = x^2.
#[inline(always)]
pub(super) fn poly<S: Simd, const N: usize>(s: S, x: S::F64, x2: S::F64, c: &[f64; N]) -> S::F64 {
    let mut i = (N - 1) & !1;
    let mut sum = pair(s, x, c, i);
    while i > 0 {
        i -= 2;
        sum = sum.madd(x2, pair(s, x, c, i));
    }
    sum
}

/// c[i] + x c[i + 1]; a function for the reason given in [`super::single`].
#[inline(always)]
fn pair<S: Simd, const N: usize>(s: S, x: S::F64, c: &[f64; N], i: usize) -> S::F64 {
    if i + 1 < N { s.f64(c[i + 1]).madd(x, s.f64(c[i])) } else { s.f64(c[i]) }
}

/// x = n ln(2) + r, |r| <= ln(2)/2: gives (t, n, r), where the low bits of t hold n + bias.
#[inline(always)]
pub(super) fn reduce<S: Simd>(s: S, x: S::F64, bias: f64) -> (S::F64, S::F64, S::F64) {
    let t = x.madd(s.f64(k::LOG2_E), s.f64(k::ROUND + bias));
    let n = t - s.f64(k::ROUND + bias);
    let r = n.neg_madd(s.f64(k::LN2_HI), x);
    (t, n, n.neg_madd(s.f64(k::LN2_LO), r))
}

/// 2^n from t, whose low bits hold n + 1023, -1022 <= n <= 1023.
#[inline(always)]
pub(super) fn pow2<S: Simd>(t: S::F64) -> S::F64 {
    S::F64::from_bits(t.to_bits().shl::<52>())
}

/// e^x, 1 ulp.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F64) -> S::F64 {
    exp_below(s, s.f64(k::EXP_MAX).min(x))
}

/// e^x for x <= EXP_MAX or NaN.
#[inline(always)]
pub(crate) fn exp_below<S: Simd>(s: S, x: S::F64) -> S::F64 {
    // `min` and `max` give their second operand for NaN.
    let x = s.f64(k::EXP_MIN).max(x);
    let (t, n, r) = reduce(s, x, 2046.0);
    exp_scaled(s, t, n, r)
}

/// 2^n e^r for |r| <= ln(2)/2, where the low bits of t hold n + 2046.
#[inline(always)]
pub(super) fn exp_scaled<S: Simd>(s: S, t: S::F64, n: S::F64, r: S::F64) -> S::F64 {
    let r2 = r * r;
    let q = poly(s, r, r2, &k::EXP).madd(r2, r);
    if S::F64::SCALES {
        return (q + s.f64(1.0)).scale(n);
    }
    // 2^n in two factors, so that n = 1024 works and subnormal results round once.
    let half = n.madd(s.f64(0.5), s.f64(k::ROUND + 1023.0));
    let rest = S::F64::from_bits((t.to_bits() - half.to_bits()).shl::<52>());
    let half = pow2::<S>(half);
    q.madd(half, half) * rest
}

/// e^x - 1, 2 ulp.
#[inline(always)]
pub fn expm1<S: Simd>(s: S, x: S::F64) -> S::F64 {
    let y = s.f64(k::EXP_MAX).min(s.f64(k::EXPM1_MIN).max(x));
    // With half of 2^n, since 2^1024 is not finite.
    let (t, _, r) = reduce(s, y, 1022.0);
    let r2 = r * r;
    let q = poly(s, r, r2, &k::EXPM1).madd(r2, r);
    let half = pow2::<S>(t);
    let h = half.madd(q, half - s.f64(0.5));
    // Half of a subnormal is not exact, and the sum of signed zeros is +0.
    S::F64::select(x.abs().lt(s.f64(k::EXPM1_TINY)), x, h + h)
}

/// tanh x, 2 ulp.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F64) -> S::F64 {
    // With h = (e^2a - 1) / 2, tanh a = h / (h + 1); see the f32 function.
    let a = s.f64(k::TANH_MAX).min(x.abs());
    let bias = s.f64(k::ROUND + 1023.0);
    let t = a.madd(s.f64(2.0 * k::LOG2_E), s.f64(k::TANH_SHIFT)) + bias;
    let n = t - bias;
    let r = n.neg_madd(s.f64(0.5 * k::LN2_HI), a);
    let r = n.neg_madd(s.f64(0.5 * k::LN2_LO), r);
    let r2 = r * r;
    let q = poly(s, r, r2, &k::TANH).madd(r2, r);
    let p = pow2::<S>(t);
    let (half, one) = (s.f64(0.5), s.f64(1.0));
    let h = p.madd(q, p.madd(half, -half));
    let y = h / (h + one);
    // h - h y is as good and damps the errors of the division and of h + 1 where h is small.
    let small = h.lt(s.f64(k::TANH_SMALL));
    S::F64::select(small, y.neg_mul_add(h, h), y) | x.sign_bit()
}

/// 1 / (1 + e^-x), 2 ulp.
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F64) -> S::F64 {
    // e^-|x| never overflows, and carries the subnormal results of very negative x.
    let e = exp_below(s, x | s.f64(-0.0));
    let one = s.f64(1.0);
    // With z = e / (1 + e) it is 1 - z for positive x and e (1 - z) = z for negative.
    let z = e / (e + one);
    let w = S::F64::select(x.is_negative(), e, one);
    z.neg_mul_add(w, w)
}

/// ln x for positive normal x: the reduction and polynomial without special cases.
#[inline(always)]
fn log_normal<S: Simd>(s: S, x: S::F64, exponent_bias: f64) -> S::F64 {
    let ix = x.to_bits() + s.i64(k::ONE_BITS - k::SQRT_HALF_BITS);
    // The exponent becomes a float by putting it below 2^52.
    let n = S::F64::from_bits(ix.shr::<52>() | s.i64(k::TWO52_BITS)) - s.f64(k::TWO52 + exponent_bias);
    let m = S::F64::from_bits((ix & s.i64(k::MANTISSA)) + s.i64(k::SQRT_HALF_BITS));
    log_parts(s, m - s.f64(1.0), n)
}

/// ln(1 + f) + n ln(2), sqrt(1/2) <= 1 + f < sqrt(2).
#[inline(always)]
fn log_parts<S: Simd>(s: S, f: S::F64, n: S::F64) -> S::F64 {
    // ln(1 + f) = 2 atanh z = f - z (f - R), z = f / (2 + f), 2 atanh z = 2 z + z R(z^2); with f^2/2 = h it is
    // f - (h - z (h + R)), in which h is the largest correction and nearly exact.
    let z = f / (f + s.f64(2.0));
    let v = z * z;
    let r = poly(s, v, v * v, &k::LOG) * v;
    let h = f * f * s.f64(0.5);
    let low = z.madd(h + r, n * s.f64(k::LN2_LO));
    n.madd(s.f64(k::LN2_HI), f - (h - low))
}

/// ln x, 2 ulp.
#[inline(always)]
pub fn log<S: Simd>(s: S, x: S::F64) -> S::F64 {
    let y = log_normal(s, x, 1023.0);
    // Zero, subnormal, negative, infinite or NaN.
    let usual = s.f64(f64::MIN_POSITIVE).le(x) & x.lt(s.f64(f64::INFINITY));
    if (!usual).any() {
        let tiny = log_normal(s, x * s.f64(k::TWO52), 1023.0 + 52.0);
        let y = S::F64::select(x.lt(s.f64(f64::MIN_POSITIVE)), tiny, y);
        let y = S::F64::select(x.eq(s.f64(0.0)), s.f64(f64::NEG_INFINITY), y);
        let y = S::F64::select(x.eq(s.f64(f64::INFINITY)), x, y);
        // Negative or NaN.
        return S::F64::select(s.f64(0.0).le(x), y, s.f64(f64::NAN));
    }
    y
}

/// ln(1 + x), 2 ulp.
#[inline(always)]
pub fn log1p<S: Simd>(s: S, x: S::F64) -> S::F64 {
    let ix = (x + s.f64(1.0)).to_bits() + s.i64(k::ONE_BITS - k::SQRT_HALF_BITS);
    let e = ix.shr::<52>();
    let n = S::F64::from_bits(e | s.i64(k::TWO52_BITS)) - s.f64(k::TWO52 + 1023.0);
    // 1 + f = (1 + x) / 2^n without the rounding error of 1 + x.
    let inverse = S::F64::from_bits((s.i64(2046) - e).shl::<52>());
    let f = inverse.madd(x, inverse - s.f64(1.0));
    let y = log_parts(s, f, n) | x.sign_bit();
    // The usual values are those with -1 < x < 2^1022.
    let usual = s.f64(-1.0).lt(x) & x.lt(s.f64(k::TWO1022));
    if (!usual).any() {
        // 1 + x is x here.
        let y = S::F64::select(usual, y, log(s, x));
        return S::F64::select(x.eq(s.f64(-1.0)), s.f64(f64::NEG_INFINITY), y);
    }
    y
}

/// sin x, 2 ulp.
#[inline(always)]
pub fn sin<S: Simd>(s: S, x: S::F64) -> S::F64 {
    let (n, r) = reduce_angle(s, x);
    let y = quadrant(s, n, r);
    let usual = x.abs().le(s.f64(k::TRIG_MAX));
    let y = if (!usual).any() { x.patch((!usual).bits(), y, f64::sin) } else { y };
    // The sum of signed zeros is +0.
    S::F64::select(x.eq(s.f64(0.0)), x, y)
}

/// cos x, 2 ulp.
#[inline(always)]
pub fn cos<S: Simd>(s: S, x: S::F64) -> S::F64 {
    let (n, r) = reduce_angle(s, x);
    let y = quadrant(s, n + s.i64(1), r);
    let usual = x.abs().le(s.f64(k::TRIG_MAX));
    if (!usual).any() { x.patch((!usual).bits(), y, f64::cos) } else { y }
}

/// tan x, 2 ulp.
#[inline(always)]
pub fn tan<S: Simd>(s: S, x: S::F64) -> S::F64 {
    let t = x.madd(s.f64(2.0 * k::INV_PI), s.f64(k::ROUND));
    let n = t - s.f64(k::ROUND);
    // As for sine and cosine, with what is lost to rounding.
    let r = n.neg_mul_add(s.f64(0.5 * k::PI[0]), x);
    let (r, low) = minus_product(r, n, s.f64(0.5 * k::PI[1]));
    let low = n.neg_mul_add(s.f64(0.5 * k::PI[2]), low);
    let shifted = S::F64::from_bits(t.to_bits().shl::<63>()).is_negative();
    let y = tangent::<f64, S>(s, r, low, shifted);
    let usual = x.abs().le(s.f64(k::TRIG_MAX));
    let y = if (!usual).any() { x.patch((!usual).bits(), y, f64::tan) } else { y };
    S::F64::select(x.eq(s.f64(0.0)), x, y)
}

/// x = n pi/2 + r, |r| <= pi/4, |x| <= TRIG_MAX; of n only the low bits are right.
#[inline(always)]
fn reduce_angle<S: Simd>(s: S, x: S::F64) -> (S::I64, S::F64) {
    let t = x.madd(s.f64(2.0 * k::INV_PI), s.f64(k::ROUND));
    let n = t - s.f64(k::ROUND);
    let r = n.neg_mul_add(s.f64(0.5 * k::PI[0]), x);
    let r = n.neg_mul_add(s.f64(0.5 * k::PI[1]), r);
    (t.to_bits(), n.neg_mul_add(s.f64(0.5 * k::PI[2]), r))
}

/// sin(n pi/2 + r).
#[inline(always)]
fn quadrant<S: Simd>(s: S, n: S::I64, r: S::F64) -> S::F64 {
    let r2 = r * r;
    let r4 = r2 * r2;
    let sin = (r * r2).madd(poly(s, r2, r4, &k::SIN), r);
    let cos = r4.madd(poly(s, r2, r4, &k::COS), r2.madd(s.f64(-0.5), s.f64(1.0)));
    let odd = S::F64::from_bits(n.shl::<63>()).is_negative();
    let sign = (n & s.i64(2)).shl::<62>();
    S::F64::select(odd, cos, sin) ^ S::F64::from_bits(sign)
}

/// The error function, 2 ulp.
#[inline(always)]
pub fn erf<S: Simd>(s: S, x: S::F64) -> S::F64 {
    let a = s.f64(k::ERF_MAX).min(x.abs());
    let u = a * a;
    let small = poly(s, u, u * u, &k::ERF).madd(a, a);
    // 1 - e^-g.
    let c = a - s.f64(k::ERF_CENTRE);
    let g = poly(s, c, c * c, &k::ERF_TAIL);
    let (t, _, r) = reduce(s, -g, 1023.0);
    let r2 = r * r;
    let q = poly(s, r, r2, &k::EXP).madd(r2, r);
    let p = pow2::<S>(t);
    let large = p.neg_madd(q, s.f64(1.0) - p);
    S::F64::select(a.lt(s.f64(k::ERF_SMALL)), small, large) | x.sign_bit()
}

/// The square root, correctly rounded.
#[inline(always)]
pub fn sqrt<S: Simd>(_: S, x: S::F64) -> S::F64 {
    x.sqrt()
}

/// 1 / x, correctly rounded.
#[inline(always)]
pub fn recip<S: Simd>(s: S, x: S::F64) -> S::F64 {
    s.f64(1.0) / x
}

/// 1 / sqrt(x), 2 ulp.
#[inline(always)]
pub fn rsqrt<S: Simd>(s: S, x: S::F64) -> S::F64 {
    s.f64(1.0) / x.sqrt()
}
