// x^y of f32, with the special cases of C99. No product is relied on to be fused: sums of two parts have a first part
// of 12 bits, so that products of first parts are exact.

// log2 of a positive normal number, given by its bits, times 2^(127 - shift): gives a first part of 12 bits and the
// rest, right to about 2^-34.
fn log2_parts_f32(bits: u32, shift: i32) -> c64 {
    // a = 2^n m, sqrt(1/2) <= m < sqrt(2).
    let moved = bits + 0x004afb0du;
    let n = f32(i32(moved >> 23u) - shift);
    let m = bitcast<f32>((moved & 0x007fffffu) + 0x3f3504f3u);
    // z = (m - 1) / (m + 1) = zh + zl; m + 1 = dh + dl exactly, since its first part has 12 bits.
    let f = m - 1.0f;
    let d = m + 1.0f;
    let dh = head_f32(d);
    let dl = keep_f32(1.0f - dh) + m;
    let inverse = 1.0f / d;
    let zh = head_f32(f * inverse);
    let zl = (keep_f32(f - (zh * dh)) - (zh * dl)) * inverse;
    // v = z^2 = vh + vl; vh is exact.
    let vh = zh * zh;
    let vl = ((zh + zh) + zl) * zl;
    // log2 m = K z (1 + v/3 + c), K = 2 / ln 2, c = v^2 P(v).
    let v = vh + vl;
    let c = (v * v) * fma(0.11709884f, v * v, fma(0.14273544f, v, 0.20000076f));
    // v/3 = gh + gl to 36 bits.
    let uh = head_f32(vh);
    let ul = keep_f32(vh - uh) + vl;
    let gh = uh * 0.33325195f;
    let gl = fma(uh, 8.138021e-5f, ul * 0.33333334f) + c;
    // w = 1 + v/3 + c = wh + wl.
    let wh = head_f32((1.0f + gh) + gl);
    let wl = keep_f32(keep_f32(1.0f - wh) + gh) + gl;
    // z w = ph + pl.
    let qh = zh * wh;
    let ql = fma(zh, wl, zl * (wh + wl));
    let ph = head_f32(qh + ql);
    let pl = keep_f32(qh - ph) + ql;
    // Times K.
    let bh = ph * 2.8847656f;
    let bl = fma(ph, 0.0006244568f, pl * 2.88539f);
    // n is 0 or larger than the rest.
    let high = head_f32((n + bh) + bl);
    let low = keep_f32(keep_f32(n - high) + bh) + bl;
    return c64(high, low);
}

// Whether y is an odd whole number.
fn is_odd_f32(y: f32) -> bool {
    let a = abs(y);
    if (a >= 16777216.0f) {
        return false;
    }
    return (floor(a) == a) && ((u32(a) & 1u) != 0u);
}

// |x|^y for finite |x| > 0 and |y| > 0 that is not NaN, by the bits of |x|.
fn pow_positive_f32(bits: u32, y: f32) -> f32 {
    var word = bits;
    var shift = 127;
    if (bits < 0x00800000u) {
        word = bitcast<u32>(f32(bits));
        shift = 276;
    }
    let log = log2_parts_f32(word, shift);
    // Beyond 2^34 the result is 0, 1 or infinite as at 2^34.
    let below = select(y, -17179869184.0f, y < -17179869184.0f);
    let e = select(below, 17179869184.0f, below > 17179869184.0f);
    // z = y log2 |x| = zh + zl.
    let eh = head_f32(e);
    let el = keep_f32(e - eh);
    var zh = eh * log.x;
    var zl = fma(eh, log.y, el * (log.x + log.y));
    if (abs(zh) > 200.0f) {
        zh = select(-200.0f, 200.0f, zh > 0.0f);
        zl = 0.0f;
    }
    // 2^z = 2^n e^(r ln 2), the factor 2^n in two parts as in exp.
    let t = keep_f32(zh + 12582912.0f);
    let n = t - 12582912.0f;
    let q = exp_core_f32((keep_f32(zh - n) + zl) * 0.6931472f);
    let k = bitcast<i32>(t) - 0x4b400000;
    let part = k >> 1u;
    let scale = pow2_f32(part);
    return fma(q, scale, scale) * pow2_f32(k - part);
}

// x^y, 2 ulp.
fn pow_f32(x: f32, y: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    let negative = bitcast<u32>(x) != size;
    if (is_zero_f32(y) || (bitcast<u32>(x) == 0x3f800000u)) {
        return 1.0f;
    }
    if (is_nan_f32(x) || is_nan_f32(y)) {
        return nan_f32();
    }
    let rising = (bitcast<u32>(y) >> 31u) == 0u;
    var r = 0.0f;
    if (is_inf_f32(y)) {
        if (size == 0x3f800000u) {
            return 1.0f;
        }
        // Infinite if the base's size and the power lie on the same side.
        return select(0.0f, inf_f32(), (size > 0x3f800000u) == rising);
    }
    if ((size == 0u) || (size == 0x7f800000u)) {
        r = select(0.0f, inf_f32(), (size != 0u) == rising);
    } else {
        if (negative && (floor(y) != y)) {
            return nan_f32();
        }
        r = pow_positive_f32(size, y);
    }
    // Of a negative base only whole powers exist, odd ones are negative.
    if (negative && is_odd_f32(y)) {
        return -r;
    }
    return r;
}
