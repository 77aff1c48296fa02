// x^y of f64, with the special cases of C99; see pow.wgsl. First parts have 26 bits.

// log2 of a positive normal number, given by its bits, times 2^(1023 - shift): gives a first part of 26 bits and the
// rest, right to about 2^-65.
fn log2_parts_f64(bits: u64, shift: i32) -> c128 {
    // a = 2^n m, sqrt(1/2) <= m < sqrt(2).
    let moved = bits + 0x00095f619980c433lu;
    let n = f64(i32(u32(moved >> 52u)) - shift);
    let m = bitcast<f64>((moved & 0x000ffffffffffffflu) + 0x3fe6a09e667f3bcdlu);
    // z = (m - 1) / (m + 1) = zh + zl; m + 1 = dh + dl exactly, since its first part has 26 bits.
    let f = m - 1.0lf;
    let d = m + 1.0lf;
    let dh = head_f64(d);
    let dl = keep_f64(1.0lf - dh) + m;
    let inverse = 1.0lf / d;
    let zh = head_f64(f * inverse);
    let zl = (keep_f64(f - (zh * dh)) - (zh * dl)) * inverse;
    // v = z^2 = vh + vl; vh is exact.
    let vh = zh * zh;
    let vl = ((zh + zh) + zl) * zl;
    // log2 m = K z (1 + v/3 + c), K = 2 / ln 2, c = v^2 P(v).
    let v = vh + vl;
    let v2 = v * v;
    let a0 = fma(0.14285714285714282lf, v, 0.2lf);
    let a1 = fma(0.09090909089822495lf, v, 0.11111111111114234lf);
    let a2 = fma(0.06666648198981917lf, v, 0.07692307881454075lf);
    let a3 = fma(0.05228097555200746lf, v, 0.05883409510814777lf);
    let p = fma(fma(fma(fma(0.0538181075750563lf, v2, a3), v2, a2), v2, a1), v2, a0);
    let c = v2 * p;
    // v/3 = gh + gl to 78 bits.
    let uh = head_f64(vh);
    let ul = keep_f64(vh - uh) + vl;
    let gh = uh * 0.3333333283662796lf;
    let gl = fma(uh, 4.967053731282552e-9lf, ul * 0.3333333333333333lf) + c;
    // w = 1 + v/3 + c = wh + wl.
    let wh = head_f64((1.0lf + gh) + gl);
    let wl = keep_f64(keep_f64(1.0lf - wh) + gh) + gl;
    // z w = ph + pl.
    let qh = zh * wh;
    let ql = fma(zh, wl, zl * (wh + wl));
    let ph = head_f64(qh + ql);
    let pl = keep_f64(qh - ph) + ql;
    // Times K.
    let bh = ph * 2.885390043258667lf;
    let bl = fma(ph, 3.851925982253235e-8lf, pl * 2.8853900817779268lf);
    // n is 0 or larger than the rest.
    let high = head_f64((n + bh) + bl);
    let low = keep_f64(keep_f64(n - high) + bh) + bl;
    return c128(high, low);
}

// Whether y is an odd whole number.
fn is_odd_f64(y: f64) -> bool {
    let a = abs(y);
    if (a >= 9007199254740992.0lf) {
        return false;
    }
    return (floor(a) == a) && ((u64(a) & 1lu) != 0lu);
}

// |x|^y for finite |x| > 0 and |y| > 0 that is not NaN, by the bits of |x|.
fn pow_positive_f64(bits: u64, y: f64) -> f64 {
    var word = bits;
    var shift = 1023;
    if (bits < 0x0010000000000000lu) {
        word = bitcast<u64>(f64(bits));
        shift = 2097;
    }
    let log = log2_parts_f64(word, shift);
    // Beyond 2^65 the result is 0, 1 or infinite as at 2^65.
    let below = select(y, -36893488147419103232.0lf, y < -36893488147419103232.0lf);
    let e = select(below, 36893488147419103232.0lf, below > 36893488147419103232.0lf);
    // z = y log2 |x| = zh + zl.
    let eh = head_f64(e);
    let el = keep_f64(e - eh);
    var zh = eh * log.x;
    var zl = fma(eh, log.y, el * (log.x + log.y));
    if (abs(zh) > 1100.0lf) {
        zh = select(-1100.0lf, 1100.0lf, zh > 0.0lf);
        zl = 0.0lf;
    }
    // 2^z = 2^n e^(r ln 2), the factor 2^n in two parts as in exp.
    let t = keep_f64(zh + 6755399441055744.0lf);
    let n = t - 6755399441055744.0lf;
    let q = exp_core_f64((keep_f64(zh - n) + zl) * 0.6931471805599453lf);
    let k = low_int_f64(t);
    let part = k >> 1u;
    let scale = pow2_f64(part);
    return fma(q, scale, scale) * pow2_f64(k - part);
}

// x^y, 2 ulp.
fn pow_f64(x: f64, y: f64) -> f64 {
    let size = size_bits_f64(x);
    let negative = bitcast<u64>(x) != size;
    if (is_zero_f64(y) || (bitcast<u64>(x) == 0x3ff0000000000000lu)) {
        return 1.0lf;
    }
    if (is_nan_f64(x) || is_nan_f64(y)) {
        return nan_f64();
    }
    let rising = (bitcast<u64>(y) >> 63u) == 0lu;
    var r = 0.0lf;
    if (is_inf_f64(y)) {
        if (size == 0x3ff0000000000000lu) {
            return 1.0lf;
        }
        // Infinite if the base's size and the power lie on the same side.
        return select(0.0lf, inf_f64(), (size > 0x3ff0000000000000lu) == rising);
    }
    if ((size == 0lu) || (size == 0x7ff0000000000000lu)) {
        r = select(0.0lf, inf_f64(), (size != 0lu) == rising);
    } else {
        if (negative && (floor(y) != y)) {
            return nan_f64();
        }
        r = pow_positive_f64(size, y);
    }
    // Of a negative base only whole powers exist, odd ones are negative.
    if (negative && is_odd_f64(y)) {
        return -r;
    }
    return r;
}
