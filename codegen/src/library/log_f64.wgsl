// The natural logarithm of f64.

// (2 atanh z - 2 z) / (z v), v = z^2.
fn log_series_f64(v: f64) -> f64 {
    let v2 = v * v;
    let a0 = fma(0.3999999999941107lf, v, 0.6666666666666735lf);
    let a1 = fma(0.22222198475434735lf, v, 0.2857142874326814lf);
    let a2 = fma(0.15313902518574465lf, v, 0.18183569768334903lf);
    return fma(fma(fma(0.14797514978601423lf, v2, a2), v2, a1), v2, a0);
}

// ln(1 + f) + n ln(2), sqrt(1/2) <= 1 + f < sqrt(2).
fn log_parts_f64(f: f64, n: f64) -> f64 {
    // ln(1 + f) = 2 atanh z, z = f / (2 + f), 2 atanh z = 2 z + z R(z^2); with f^2/2 = h it is f - (h - z (h + R)), in
    // which h is the largest correction and nearly exact.
    let z = f / (f + 2.0lf);
    let v = z * z;
    let p = log_series_f64(v);
    let h = (f * f) * 0.5lf;
    let low = fma(z, fma(p, v, h), n * 5.497923018708371e-14lf);
    return fma(n, 0.6931471805598903lf, f - (h - low));
}

// ln x, 2 ulp.
fn log_f64(x: f64) -> f64 {
    var bits = bitcast<u64>(x);
    var shift = 1023;
    // Zero, subnormal, negative, infinite or NaN.
    if ((bits < 0x0010000000000000lu) || (bits >= 0x7ff0000000000000lu)) {
        if (is_zero_f64(x)) {
            return -inf_f64();
        }
        if (bits == 0x7ff0000000000000lu) {
            return x;
        }
        if (bits > 0x7ff0000000000000lu) {
            return nan_f64();
        }
        // A subnormal number: x 2^1074 is a whole number.
        bits = bitcast<u64>(f64(bits));
        shift = 2097;
    }
    let moved = bits + 0x00095f619980c433lu;
    let n = f64(i32(u32(moved >> 52u)) - shift);
    let m = bitcast<f64>((moved & 0x000ffffffffffffflu) + 0x3fe6a09e667f3bcdlu);
    return log_parts_f64(m - 1.0lf, n);
}

// ln(1 + x), 2 ulp.
fn log1p_f64(x: f64) -> f64 {
    // The usual values are those with -1 < x < 2^1022; beyond, 1 + x is x.
    let bits = bitcast<u64>(x);
    if ((bits >= 0xbff0000000000000lu) || ((bits >= 0x7fd0000000000000lu) && (bits < 0x8000000000000000lu))) {
        if (bits == 0xbff0000000000000lu) {
            return -inf_f64();
        }
        return log_f64(x);
    }
    let moved = bitcast<u64>(keep_f64(x + 1.0lf)) + 0x00095f619980c433lu;
    let e = i32(u32(moved >> 52u));
    // 1 + f = (1 + x) / 2^n without the rounding error of 1 + x.
    let inverse = pow2_f64(1023 - e);
    let f = fma(inverse, x, inverse - 1.0lf);
    let y = log_parts_f64(f, f64(e - 1023));
    // What is tiny is its own logarithm, with its sign.
    return select(y, x, abs(x) < 5.551115123125783e-17lf);
}
