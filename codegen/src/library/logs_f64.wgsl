// Logarithms and powers of f64 with the bases 2 and 10; see logs.wgsl.

// ln(1 + f) - f, sqrt(1/2) <= 1 + f < sqrt(2).
fn log_rest_f64(f: f64) -> f64 {
    let z = f / (f + 2.0lf);
    let v = z * z;
    let h = (f * f) * 0.5lf;
    return (z * fma(log_series_f64(v), v, h)) - h;
}

// x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for finite x > 0: gives f and n.
fn log_split_f64(x: f64) -> c128 {
    var bits = bitcast<u64>(x);
    var shift = 1023;
    if (bits < 0x0010000000000000lu) {
        // A subnormal number, by its bits: x 2^1074 is a whole number.
        bits = bitcast<u64>(f64(bits));
        shift = 2097;
    }
    let moved = bits + 0x00095f619980c433lu;
    let n = f64(i32(u32(moved >> 52u)) - shift);
    let m = bitcast<f64>((moved & 0x000ffffffffffffflu) + 0x3fe6a09e667f3bcdlu);
    return c128(m - 1.0lf, n);
}

// log2 x, 2 ulp; exact for powers of 2.
fn log2_f64(x: f64) -> f64 {
    // Zero, negative, infinite or NaN.
    if (is_zero_f64(x) || (bitcast<u64>(x) >= 0x7ff0000000000000lu)) {
        return log_f64(x);
    }
    let parts = log_split_f64(x);
    let f = parts.x;
    // f log2(e) = f + f (log2(e) - 1), of which the first is exact.
    let rest = fma(f, 0.4426950408889634lf, log_rest_f64(f) * 1.4426950408889634lf);
    return parts.y + (f + rest);
}

// log10 x, 2 ulp.
fn log10_f64(x: f64) -> f64 {
    if (is_zero_f64(x) || (bitcast<u64>(x) >= 0x7ff0000000000000lu)) {
        return log_f64(x);
    }
    let parts = log_split_f64(x);
    let f = parts.x;
    let n = parts.y;
    // f log10(e) = f / 2 + f (log10(e) - 1/2), of which the first is exact, as is n times the upper part of log10(2).
    let rest = fma(n, 1.42050232272661e-13lf, log_rest_f64(f) * 0.4342944819032518lf);
    let small = fma(f, -0.06570551809674818lf, rest);
    return fma(n, 0.30102999566383914lf, fma(f, 0.5lf, small));
}

// 2^x, 1 ulp; exact for whole x.
fn exp2_f64(x: f64) -> f64 {
    let low = select(x, -1076.0lf, x < -1076.0lf);
    let y = select(low, 1024.5lf, low > 1024.5lf);
    let t = keep_f64(y + ROUND_F64);
    let n = t - ROUND_F64;
    let q = exp_core_f64((y - n) * 0.6931471805599453lf);
    let e = low_int_f64(t);
    let part = e >> 1u;
    let scale = pow2_f64(part);
    return keep_nan_f64(fma(q, scale, scale) * pow2_f64(e - part), x);
}
