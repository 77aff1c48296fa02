//! f32 sine, cosine and tangent, over the whole range of f32.

use super::coefficients::single as k;
use super::precision::{minus_product, tangent};
use super::single::poly;
use crate::simd::{Float, Int, Mask, Simd};

/// sin x, 2 ulp.
#[inline(always)]
pub fn sin<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (n, r) = reduce(s, x);
    // The sum of signed zeros is +0.
    S::F32::select(x.eq(s.f32(0.0)), x, quadrant(s, n, r))
}

/// cos x, 2 ulp.
#[inline(always)]
pub fn cos<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (n, r) = reduce(s, x);
    quadrant(s, n + s.i32(1), r)
}

/// tan x, 2 ulp.
#[inline(always)]
pub fn tan<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (n, r, low) = reduce_both(s, x);
    let shifted = S::F32::from_bits(n.shl::<31>()).is_negative();
    S::F32::select(x.eq(s.f32(0.0)), x, tangent::<f32, S>(s, r, low, shifted))
}

/// x = n pi/2 + r, |r| <= pi/4; of n only the low bits are right.
#[inline(always)]
fn reduce<S: Simd>(s: S, x: S::F32) -> (S::I32, S::F32) {
    let t = x.madd(s.f32(2.0 * k::INV_PI), s.f32(k::ROUND));
    let n = t - s.f32(k::ROUND);
    let mut r = n.neg_mul_add(s.f32(0.5 * k::PI[0]), x);
    r = n.neg_mul_add(s.f32(0.5 * k::PI[1]), r);
    r = n.neg_mul_add(s.f32(0.5 * k::PI[2]), r);
    let huge = !x.abs().le(s.f32(k::TRIG_MAX));
    if huge.any() {
        let (t, r, _) = reduce_huge(x, huge.bits(), t, r, r);
        return (t.to_bits(), r);
    }
    (t.to_bits(), r)
}

/// As [`reduce`], with what r lost to rounding.
#[inline(always)]
fn reduce_both<S: Simd>(s: S, x: S::F32) -> (S::I32, S::F32, S::F32) {
    let t = x.madd(s.f32(2.0 * k::INV_PI), s.f32(k::ROUND));
    let n = t - s.f32(k::ROUND);
    // The first difference is exact.
    let first = n.neg_mul_add(s.f32(0.5 * k::PI[0]), x);
    let (r, low) = minus_product(first, n, s.f32(0.5 * k::PI[1]));
    let low = n.neg_mul_add(s.f32(0.5 * k::PI[2]), low);
    let huge = !x.abs().le(s.f32(k::TRIG_MAX));
    if huge.any() {
        let (t, r, low) = reduce_huge(x, huge.bits(), t, r, low);
        return (t.to_bits(), r, low);
    }
    (t.to_bits(), r, low)
}

/// sin(n pi/2 + r).
#[inline(always)]
fn quadrant<S: Simd>(s: S, n: S::I32, r: S::F32) -> S::F32 {
    let r2 = r * r;
    let r4 = r2 * r2;
    let sin = (r * r2).madd(poly(s, r2, r4, &k::SIN), r);
    let cos = r4.madd(poly(s, r2, r4, &k::COS), r2.madd(s.f32(-0.5), s.f32(1.0)));
    let odd = S::F32::from_bits(n.shl::<31>()).is_negative();
    let sign = (n & s.i32(2)).shl::<30>();
    S::F32::select(odd, cos, sin) ^ S::F32::from_bits(sign)
}

/// Puts the quadrant, angle and its rest of each lane in `mask` into `t`, `r` and `low`.
#[cold]
#[inline(never)]
fn reduce_huge<V: Float<Elem = f32>>(x: V, mask: u32, t: V, r: V, low: V) -> (V, V, V) {
    let (x, mut t, mut r, mut low) = (x.to_array(), t.to_array(), r.to_array(), low.to_array());
    for (i, &x) in x.iter().enumerate() {
        if mask & (1 << i) != 0 {
            (t[i], r[i], low[i]) = reduce_one(x);
        }
    }
    // SAFETY: `x` exists, so the machine has its instruction set; the arrays hold any vector.
    unsafe { (V::load(t.as_ptr()), V::load(r.as_ptr()), V::load(low.as_ptr())) }
}

/// x = n pi/2 + r + low as (t, r, low), where the low bits of t hold n modulo 4 (Payne and Hanek: of x / pi only the bits around
/// the point are computed). NaN for infinity and NaN.
fn reduce_one(x: f32) -> (f32, f32, f32) {
    if !x.is_finite() {
        return (k::ROUND, f32::NAN, f32::NAN);
    }
    let bits = x.to_bits();
    // x = m 2^e, -7 <= e <= 104 for what is huge.
    let m = u128::from(bits & 0x007f_ffff | 0x0080_0000);
    let e = (bits >> 23 & 0xff) as i32 - 150;
    // 96 digits of 1 / pi, from 2^-e on: those before give even multiples of pi.
    let (start, lift) = ((e - 1).max(0) as usize, (1 - e).clamp(0, 127));
    let digit = |i: usize| u128::from(k::INV_PI_WORDS.get(i).copied().unwrap_or(0));
    let (word, bit) = (start / 32, start % 32);
    let window = (digit(word) << 96 | digit(word + 1) << 64 | digit(word + 2) << 32 | digit(word + 3)) << bit >> 32;
    // x / pi modulo 2, in units of 2^-95.
    let turn = ((m * window) >> lift) % (1 << 96);
    let n = (turn + (1 << 93)) >> 94;
    let rest = turn as i128 - (n << 94) as i128;
    let exact = rest as f64 * (std::f64::consts::PI / (1u128 << 95) as f64);
    let (n, r) = (n as f32, exact as f32);
    let low = (exact - f64::from(r)) as f32;
    if x < 0.0 { (k::ROUND - n, -r, -low) } else { (k::ROUND + n, r, low) }
}
