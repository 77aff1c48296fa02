// Sine and cosine of f32, over the whole range of f32, without 64-bit arithmetic.

// The upper half of the product of two words.
fn mul_high_u32(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let lh = al * bh;
    let hl = ah * bl;
    let mid = (((al * bl) >> 16u) + (lh & 0xffffu)) + (hl & 0xffffu);
    return ((ah * bh) + (lh >> 16u)) + ((hl >> 16u) + (mid >> 16u));
}

// Word i of the binary digits of 1 / pi, where word 0 is the part before the point.
fn inv_pi_word(i: u32) -> u32 {
    var w = 0u;
    w = select(w, 0x517cc1b7u, i == 1u);
    w = select(w, 0x27220a94u, i == 2u);
    w = select(w, 0xfe13abe8u, i == 3u);
    w = select(w, 0xfa9a6ee0u, i == 4u);
    w = select(w, 0x6db14accu, i == 5u);
    w = select(w, 0x9e21c820u, i == 6u);
    w = select(w, 0xff28b1d5u, i == 7u);
    return w;
}

// x = n pi/2 + r for |x| >= 2^12: gives r, to 2^-27 of it, and n modulo 4 (Payne and Hanek: of x / pi only the digits
// around the point are computed). NaN for infinities and NaN.
fn reduce_huge_angle_f32(x: f32) -> c64 {
    let bits = bitcast<u32>(x);
    let field = (bits >> 23u) & 0xffu;
    if (field == 0xffu) {
        return c64(nan_f32(), 0.0f);
    }
    // |x| = m 2^e, -11 <= e <= 104; 96 digits of 1 / pi from 2^(1 - e) on: those before give even multiples of pi.
    let m = (bits & 0x007fffffu) | 0x00800000u;
    let start = field - 119u;
    let word = start >> 5u;
    let left = start & 31u;
    let right = 31u - left;
    let d1 = inv_pi_word(word + 1u);
    let d2 = inv_pi_word(word + 2u);
    let w0 = (inv_pi_word(word) << left) | ((d1 >> 1u) >> right);
    let w1 = (d1 << left) | ((d2 >> 1u) >> right);
    let w2 = (d2 << left) | ((inv_pi_word(word + 3u) >> 1u) >> right);
    // |x| / pi modulo 2, in units of 2^-95.
    var t2 = m * w2;
    let low = m * w1;
    var t1 = low + mul_high_u32(m, w2);
    var t0 = ((m * w0) + mul_high_u32(m, w1)) + select(0u, 1u, t1 < low);
    let n = (t0 + 0x20000000u) >> 30u;
    // What is left beyond the nearest half: its size and sign.
    t0 = t0 - (n << 30u);
    let below = (t0 >> 31u) != 0u;
    if (below) {
        t2 = 0u - t2;
        t1 = (0u - t1) - select(0u, 1u, t2 != 0u);
        t0 = (0u - t0) - select(0u, 1u, (t1 | t2) != 0u);
    }
    // At least 25 bits of it in t0.
    var e = -31;
    if (t0 == 0u) {
        t0 = t1;
        t1 = t2;
        e = e - 32;
    }
    if (t0 < 0x10000u) {
        t0 = (t0 << 16u) | (t1 >> 16u);
        t1 = t1 << 16u;
        e = e - 16;
    }
    if (t0 < 0x1000000u) {
        t0 = (t0 << 8u) | (t1 >> 24u);
        t1 = t1 << 8u;
        e = e - 8;
    }
    // Times pi: the product of the upper 12 bits of both is exact.
    let high = f32(t0 & 0xfff00000u);
    let rest = fma(f32(t1), 2.3283064e-10f, f32(t0 & 0x000fffffu));
    let y = fma(high, 3.140625f, fma(high, 0.0009676536f, rest * 3.1415927f)) * pow2_f32(e);
    let negative = (bits >> 31u) != 0u;
    let quarter = select(n, 0u - n, negative) & 3u;
    return c64(select(y, -y, below != negative), f32(quarter));
}

// x = n pi/2 + r, |r| <= pi/4: gives r and n modulo 4.
fn reduce_angle_f32(x: f32) -> c64 {
    if ((bitcast<u32>(x) & 0x7fffffffu) >= 0x45c00000u) {
        return reduce_huge_angle_f32(x);
    }
    // Below 6144 n has 12 bits, and so have the parts of pi/2 but for the last.
    let t = keep_f32(fma(x, 0.63661975f, 12582912.0f));
    let n = t - 12582912.0f;
    let a = keep_f32(fma(-n, 0.0004837513f, keep_f32(fma(-n, 1.5703125f, x))));
    let b = keep_f32(fma(-n, 7.5495336e-8f, a));
    // What the last step lost, and the small parts.
    let lost = keep_f32(fma(-n, 7.5495336e-8f, keep_f32(a - b)));
    let r = b + fma(-n, 6.123234e-17f, keep_f32(fma(-n, 2.563283e-12f, lost)));
    return c64(r, f32(bitcast<u32>(t) & 3u));
}

// sin(n pi/2 + r) for |r| <= pi/4.
fn sin_quadrant_f32(n: u32, r: f32) -> f32 {
    let r2 = r * r;
    let r4 = r2 * r2;
    let s = fma(r * r2, fma(-1.9517896e-4f, r4, fma(0.008332187f, r2, -0.16666655f)), r);
    let c = fma(r4, fma(2.4432327e-5f, r4, fma(-0.001388731f, r2, 0.041666646f)), fma(r2, -0.5f, 1.0f));
    let y = select(s, c, (n & 1u) != 0u);
    return bitcast<f32>(bitcast<u32>(y) ^ ((n & 2u) << 30u));
}

// sin x, 2 ulp.
fn sin_f32(x: f32) -> f32 {
    let angle = reduce_angle_f32(x);
    let y = sin_quadrant_f32(u32(angle.y), angle.x);
    // The sum of signed zeros is +0.
    return keep_nan_f32(select(y, x, is_zero_f32(x)), x);
}

// cos x, 2 ulp.
fn cos_f32(x: f32) -> f32 {
    let angle = reduce_angle_f32(x);
    return keep_nan_f32(sin_quadrant_f32(u32(angle.y) + 1u, angle.x), x);
}

// tan x, 3 ulp.
fn tan_f32(x: f32) -> f32 {
    let angle = reduce_angle_f32(x);
    let r = angle.x;
    let v = r * r;
    let v2 = v * v;
    let c0 = fma(0.13332672f, v, 0.3333335f);
    let c1 = fma(0.02128277f, v, 0.054059446f);
    let c2 = fma(8.385933e-5f, v, 0.010837704f);
    let p = fma(fma(fma(0.0043803686f, v2, c2), v2, c1), v2, c0);
    let y = fma(r * v, p, r);
    // Shifted by a quarter it is -1 / y.
    if ((u32(angle.y) & 1u) != 0u) {
        return keep_nan_f32(-quotient_f32(1.0f, y), x);
    }
    // The sum of signed zeros is +0.
    return keep_nan_f32(select(y, x, is_zero_f32(x)), x);
}
