//! x^y, with the special cases of C99.

use super::coefficients::single as k;
use super::single::{poly, pow2};
use crate::simd::{Float, Int, Mask, Simd};

/// x^y of f64, as exact as the platform's: lane by lane.
#[inline(always)]
pub fn pow_f64<S: Simd>(_: S, x: S::F64, y: S::F64) -> S::F64 {
    x.patch2(y, !0, x, f64::powf)
}

/// x^y of f32, 2 ulp.
#[inline(always)]
pub fn pow_f32<S: Simd>(s: S, x: S::F32, y: S::F32) -> S::F32 {
    let a = x.abs();
    let (high, low) = log2(s, a);
    // z = y log2 a as a sum; where it is out of range its low part may be anything.
    let limit = s.f32(200.0);
    let product = y * high;
    let zh = limit.min((-limit).max(product));
    let low = y.mul_add(low, y.mul_add(high, -product));
    let zl = S::F32::select(product.abs().lt(limit), low, s.f32(0.0));
    // 2^z = 2^n e^(r ln 2), the factor 2^n in two parts as in exp.
    let t = zh + s.f32(k::ROUND + 254.0);
    let n = t - s.f32(k::ROUND + 254.0);
    let r = ((zh - n) + zl) * s.f32(std::f32::consts::LN_2);
    let r2 = r * r;
    let q = poly(s, r, r2, &k::EXP).madd(r2, r);
    let half = n.madd(s.f32(0.5), s.f32(k::ROUND + 127.0));
    let rest = S::F32::from_bits((t.to_bits() - half.to_bits()).shl::<23>());
    let half = pow2::<S>(half);
    let p = q.madd(half, half) * rest;
    // Of a negative base only whole powers exist, odd ones are negative.
    let negative = x.lt(s.f32(0.0));
    let whole = y.eq(y.trunc());
    let h = y * s.f32(0.5);
    let even = h.eq(h.trunc());
    let sign = S::F32::select(negative & !even, s.f32(-0.0), s.f32(0.0));
    let p = S::F32::select(negative & !whole, s.f32(f32::NAN), p) ^ sign;
    // Zero, subnormal, infinite or NaN bases; infinite or NaN powers.
    let usual = s.f32(f32::MIN_POSITIVE).le(a) & a.lt(s.f32(f32::INFINITY)) & y.abs().lt(s.f32(f32::INFINITY));
    if (!usual).any() { x.patch2(y, (!usual).bits(), p, f32::powf) } else { p }
}

/// log2 a for positive normal a as an unevaluated sum, right to about 2^-34 of its value.
#[inline(always)]
fn log2<S: Simd>(s: S, a: S::F32) -> (S::F32, S::F32) {
    let one = s.f32(1.0);
    // a = 2^n m, sqrt(1/2) <= m < sqrt(2).
    let ix = a.to_bits() + s.i32(0x3f80_0000 - k::SQRT_HALF_BITS);
    let n = S::F32::from_bits(ix.shr::<23>() | s.i32(0x4b00_0000)) - s.f32(8_388_608.0 + 127.0);
    let m = S::F32::from_bits((ix & s.i32(0x007f_ffff)) + s.i32(k::SQRT_HALF_BITS));
    // z = (m - 1) / (m + 1) as zh + zl, where dl is what m + 1 lost.
    let f = m - one;
    let d = m + one;
    let dl = m - (d - one);
    let inverse = one / d;
    let zh = f * inverse;
    let zl = zh.neg_mul_add(dl, zh.neg_mul_add(d, f)) * inverse;
    // v = z^2.
    let vh = zh * zh;
    let vl = (zh + zh).mul_add(zl, zh.mul_add(zh, -vh));
    // log2 m = z K (1 + v (1/3 + c)), K = 2 / ln 2, c = v P(v): all but c as sums.
    let c = poly(s, vh, vh * vh, &k::POW) * vh;
    let third = s.f32(k::THIRD[0]);
    let wh = third + c;
    let wl = (third - wh) + c + s.f32(k::THIRD[1]);
    let (ph, pl) = multiply::<S>((vh, vl), (wh, wl));
    let gh = one + ph;
    let gl = (one - gh) + ph + pl;
    let g = multiply::<S>((zh, zl), (gh, gl));
    let (bh, bl) = multiply::<S>(g, (s.f32(k::TWO_LOG2_E[0]), s.f32(k::TWO_LOG2_E[1])));
    // n is 0 or larger than the rest.
    let high = n + bh;
    (high, (n - high) + bh + bl)
}

/// The product of two unevaluated sums.
#[inline(always)]
fn multiply<S: Simd>(a: (S::F32, S::F32), b: (S::F32, S::F32)) -> (S::F32, S::F32) {
    let high = a.0 * b.0;
    let low = a.0.mul_add(b.1, a.1.mul_add(b.0, a.0.mul_add(b.0, -high)));
    (high, low)
}
