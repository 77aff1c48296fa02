// The natural logarithm of f32.

// (ln(1 + f) - f + f2 / 2) / f2, sqrt(1/2) <= 1 + f < sqrt(2), f2 = f^2.
fn log_series_f32(f: f32, f2: f32) -> f32 {
    let a = fma(-0.25000826f, f, 0.3333333f);
    let b = fma(-0.16623214f, f, 0.20001265f);
    let c = fma(-0.13160494f, f, 0.14200692f);
    let d = fma(-0.07644014f, f, 0.127696f);
    return fma(fma(fma(d, f2, c), f2, b), f2, a) * f;
}

// ln(1 + f) + n ln(2), sqrt(1/2) <= 1 + f < sqrt(2).
fn log_parts_f32(f: f32, n: f32) -> f32 {
    let f2 = f * f;
    let p = log_series_f32(f, f2);
    // n LN2_LO, then the square's half, then n LN2_HI, whose product is exact.
    let y = fma(f2, -0.5f, fma(n, 1.4286068e-6f, p * f2));
    return fma(n, 0.69314575f, f + y);
}

// ln x, 2 ulp.
fn log_f32(x: f32) -> f32 {
    var bits = bitcast<u32>(x);
    var shift = 127;
    // Zero, subnormal, negative, infinite or NaN.
    if ((bits < 0x00800000u) || (bits >= 0x7f800000u)) {
        if (is_zero_f32(x)) {
            return -inf_f32();
        }
        if (bits == 0x7f800000u) {
            return x;
        }
        if (bits > 0x7f800000u) {
            return nan_f32();
        }
        // A subnormal number, by its bits, since arithmetic may take it for zero: x 2^149 is a whole number.
        bits = bitcast<u32>(f32(bits));
        shift = 276;
    }
    let moved = bits + 0x004afb0du;
    let n = f32(i32(moved >> 23u) - shift);
    let m = bitcast<f32>((moved & 0x007fffffu) + 0x3f3504f3u);
    return log_parts_f32(m - 1.0f, n);
}

// ln(1 + x), 2 ulp.
fn log1p_f32(x: f32) -> f32 {
    // The usual values are those with -1 < x < 2^126; beyond, 1 + x is x.
    let bits = bitcast<u32>(x);
    if ((bits >= 0xbf800000u) || ((bits >= 0x7e800000u) && (bits < 0x80000000u))) {
        if (bits == 0xbf800000u) {
            return -inf_f32();
        }
        return log_f32(x);
    }
    let moved = bitcast<u32>(keep_f32(x + 1.0f)) + 0x004afb0du;
    let e = i32(moved >> 23u);
    // 1 + f = (1 + x) / 2^n without the rounding error of 1 + x.
    let inverse = bitcast<f32>(u32(254 - e) << 23u);
    let f = fma(inverse, x, inverse - 1.0f);
    let y = log_parts_f32(f, f32(e - 127));
    // What is tiny is its own logarithm, with its sign.
    return select(y, x, abs(x) < 2.9802322e-8f);
}
