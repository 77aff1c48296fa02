// Logarithms and powers of f32 with the bases 2 and 10.

// ln(1 + f) - f, sqrt(1/2) <= 1 + f < sqrt(2).
fn log_rest_f32(f: f32) -> f32 {
    let f2 = f * f;
    return fma(f2, -0.5f, log_series_f32(f, f2) * f2);
}

// x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for finite x > 0: gives f and n.
fn log_split_f32(x: f32) -> c64 {
    var bits = bitcast<u32>(x);
    var shift = 127;
    if (bits < 0x00800000u) {
        // A subnormal number, by its bits: x 2^149 is a whole number.
        bits = bitcast<u32>(f32(bits));
        shift = 276;
    }
    let moved = bits + 0x004afb0du;
    let n = f32(i32(moved >> 23u) - shift);
    let m = bitcast<f32>((moved & 0x007fffffu) + 0x3f3504f3u);
    return c64(m - 1.0f, n);
}

// log2 x, 2 ulp; exact for powers of 2.
fn log2_f32(x: f32) -> f32 {
    // Zero, negative, infinite or NaN.
    if (is_zero_f32(x) || (bitcast<u32>(x) >= 0x7f800000u)) {
        return log_f32(x);
    }
    let parts = log_split_f32(x);
    let f = parts.x;
    // f log2(e) = f + f (log2(e) - 1), of which the first is exact.
    let rest = fma(f, 0.44269505f, log_rest_f32(f) * 1.442695f);
    return parts.y + (f + rest);
}

// log10 x, 2 ulp.
fn log10_f32(x: f32) -> f32 {
    if (is_zero_f32(x) || (bitcast<u32>(x) >= 0x7f800000u)) {
        return log_f32(x);
    }
    let parts = log_split_f32(x);
    let f = parts.x;
    let n = parts.y;
    // f log10(e) = f / 2 + f (log10(e) - 1/2), of which the first is exact, as is n times the upper part of log10(2).
    let rest = fma(n, 4.605039e-6f, log_rest_f32(f) * 0.4342945f);
    let small = fma(f, -0.06570552f, rest);
    return fma(n, 0.3010254f, fma(f, 0.5f, small));
}

// 2^x, 1 ulp; exact for whole x.
fn exp2_f32(x: f32) -> f32 {
    let low = select(x, -151.0f, x < -151.0f);
    let y = select(low, 128.5f, low > 128.5f);
    let t = keep_f32(y + ROUND_F32);
    let n = t - ROUND_F32;
    let q = exp_core_f32((y - n) * 0.6931472f);
    let e = bitcast<i32>(t) - 0x4b400000;
    let part = e >> 1u;
    let scale = pow2_f32(part);
    return keep_nan_f32(fma(q, scale, scale) * pow2_f32(e - part), x);
}
