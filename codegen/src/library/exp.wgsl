// The exponential function of f32 and its relatives.

// log2(e).
const LOG2_E_F32 = 1.442695f;
// ln(2) with its low 9 bits cleared, so that n LN2_HI is exact for |n| < 512.
const LN2_HI_F32 = 0.69314575f;
// ln(2) - LN2_HI.
const LN2_LO_F32 = 1.4286068e-6f;
// 1.5 * 2^23: added to |x| < 2^22 it leaves x rounded to an integer in the low bits of the sum.
const ROUND_F32 = 12582912.0f;

// e^r - 1 for |r| <= ln(2)/2, to 2^-28 of e^r.
fn exp_core_f32(r: f32) -> f32 {
    let r2 = r * r;
    let a = fma(0.16666517f, r, 0.49999994f);
    let b = fma(0.008369131f, r, 0.041668106f);
    let p = fma(fma(0.0013836435f, r2, b), r2, a);
    return fma(p, r2, r);
}

// e^x 2^k for |k| <= 4, 1 ulp; the result may leave the range where e^x alone would not, and the other way round.
fn exp_scaled_f32(x: f32, k: i32) -> f32 {
    let low = select(x, -107.0f, x < -107.0f);
    let y = select(low, 92.0f, low > 92.0f);
    let t = keep_f32(fma(y, LOG2_E_F32, ROUND_F32));
    let n = t - ROUND_F32;
    let r = fma(-n, LN2_LO_F32, keep_f32(fma(-n, LN2_HI_F32, y)));
    let q = exp_core_f32(r);
    // 2^n in two factors, so that n = 128 works and subnormal results round once.
    let e = (bitcast<i32>(t) - 0x4b400000) + k;
    let part = e >> 1u;
    let scale = pow2_f32(part);
    return keep_nan_f32(fma(q, scale, scale) * pow2_f32(e - part), x);
}

// e^x, 1 ulp.
fn exp_f32(x: f32) -> f32 {
    return exp_scaled_f32(x, 0);
}

// e^x - 1, 2 ulp.
fn expm1_f32(x: f32) -> f32 {
    let low = select(x, -17.5f, x < -17.5f);
    let y = select(low, 89.0f, low > 89.0f);
    let t = keep_f32(fma(y, LOG2_E_F32, ROUND_F32));
    let n = t - ROUND_F32;
    let r = fma(-n, LN2_LO_F32, keep_f32(fma(-n, LN2_HI_F32, y)));
    let r2 = r * r;
    let a = fma(0.16666539f, r, 0.49999997f);
    let b = fma(0.008367058f, r, 0.041667745f);
    let s = fma(fma(0.0013839382f, r2, b), r2, a) * r2;
    // With half of 2^n, since 2^128 is not finite.
    let part = pow2_f32((bitcast<i32>(t) - 0x4b400000) - 1);
    let h = fma(part, s, fma(part, r, part - 0.5f));
    // Half of a subnormal is not exact, and the sum of signed zeros is +0.
    let tiny = abs(x) < 2.9802322e-8f;
    return keep_nan_f32(select(h + h, x, tiny), x);
}

// a / b for 1 <= b < 2^60, 1 ulp where the device's division is exact. CUDA has a shorter way of its own.
fn ratio_f32(a: f32, b: f32) -> f32 {
    return a / b;
}

// tanh x, 2 ulp; 4 where a division has an error of 2.5.
fn tanh_f32(x: f32) -> f32 {
    // With h = (e^2a - 1) / 2, tanh a = h / (h + 1). 2a = n ln(2) + 2r, and n is 0 a little longer than rounding
    // would have it, since the cancellation in h is worst just above.
    let size = abs(x);
    let a = select(size, 9.02f, size > 9.02f);
    let t = keep_f32(keep_f32(fma(a, 2.88539f, -0.1f)) + ROUND_F32);
    let n = t - ROUND_F32;
    let r = fma(-n, 7.143034e-7f, keep_f32(fma(-n, 0.34657288f, a)));
    let r2 = r * r;
    let c = fma(0.6666644f, r, 1.0000004f);
    let d = fma(0.13366258f, r, 0.33325797f);
    let s = fma(fma(0.047451206f, r2, d), r2, c) * r2;
    let p = pow2_f32(bitcast<i32>(t) - 0x4b400000);
    let h = fma(p, s, fma(p, r, fma(p, 0.5f, -0.5f)));
    // Where h is small h - h y is as good as y = h / (h + 1), where it is large 1 - 1 / (h + 1) is, and both damp the
    // errors of the division and of h + 1.
    let large = h > 4.0f;
    let y = ratio_f32(select(h, 1.0f, large), h + 1.0f);
    let z = select(select(y, 1.0f - y, large), fma(-y, h, h), h < 0.6f);
    return keep_nan_f32(copy_sign_f32(z, x), x);
}

// 1 / (1 + e^-x), 2 ulp; 4 where a division has an error of 2.5.
fn sigmoid_f32(x: f32) -> f32 {
    // e^-|x| never overflows, and carries the subnormal results of very negative x.
    let e = exp_scaled_f32(-abs(x), 0);
    // With z = e / (1 + e) it is 1 - z for positive x and e (1 - z) = z for negative.
    let z = ratio_f32(e, e + 1.0f);
    let w = select(1.0f, e, x < 0.0f);
    return keep_nan_f32(fma(-z, w, w), x);
}
