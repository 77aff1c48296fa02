// f64 to integers, truncated and saturated, where NaN gives 0; and to the half types, rounded once.

// x limited to [low, high], as an i32; the limits lie within i32.
fn f64_to_i32_within(x: f64, low: f64, high: f64) -> i32 {
    if (is_nan_f64(x)) {
        return 0;
    }
    let y = select(x, low, x < low);
    return i32(select(y, high, y > high));
}

// x as an i8.
fn f64_to_i8(x: f64) -> i32 {
    return f64_to_i32_within(x, -128.0lf, 127.0lf);
}

// x as an i16.
fn f64_to_i16(x: f64) -> i32 {
    return f64_to_i32_within(x, -32768.0lf, 32767.0lf);
}

// x as an i32.
fn f64_to_i32(x: f64) -> i32 {
    return f64_to_i32_within(x, -2147483648.0lf, 2147483647.0lf);
}

// x as a u8.
fn f64_to_u8(x: f64) -> u32 {
    return u32(f64_to_i32_within(x, 0.0lf, 255.0lf));
}

// x as a u16.
fn f64_to_u16(x: f64) -> u32 {
    return u32(f64_to_i32_within(x, 0.0lf, 65535.0lf));
}

// x as a u32.
fn f64_to_u32(x: f64) -> u32 {
    if (is_nan_f64(x) || (x <= 0.0lf)) {
        return 0u;
    }
    if (x >= 4294967295.0lf) {
        return 4294967295u;
    }
    return u32(x);
}

// x as an i64.
fn f64_to_i64(x: f64) -> i64 {
    if (is_nan_f64(x)) {
        return 0li;
    }
    if (x >= 9223372036854775808.0lf) {
        return 0x7fffffffffffffffli;
    }
    if (x <= -9223372036854775808.0lf) {
        return i64(0x8000000000000000lu);
    }
    return i64(x);
}

// x as a u64.
fn f64_to_u64(x: f64) -> u64 {
    if (is_nan_f64(x) || (x <= 0.0lf)) {
        return 0lu;
    }
    if (x >= 18446744073709551616.0lf) {
        return 0xfffffffffffffffflu;
    }
    return u64(x);
}

// Whether x is not zero; true for NaN.
fn f64_to_bool(x: f64) -> bool {
    return !is_zero_f64(x);
}

// x as an f32 rounded to odd: an inexact one has its last bit set, so it can be neither a half way case nor cross one.
fn f64_to_odd(x: f64) -> f32 {
    let bits = size_bits_f64(x);
    let sign = u32(bitcast<u64>(x) >> 32u) & 0x80000000u;
    if (bits > 0x7ff0000000000000lu) {
        return nan_f32();
    }
    if (bits == 0x7ff0000000000000lu) {
        return bitcast<f32>(sign | 0x7f800000u);
    }
    // Too large: the largest f32 is odd. Too small even for a subnormal of the half types: the smallest one.
    if (bits >= 0x47f0000000000000lu) {
        return bitcast<f32>(sign | 0x7f7fffffu);
    }
    if (bits < 0x36a0000000000000lu) {
        return bitcast<f32>(sign | select(0u, 1u, bits != 0lu));
    }
    if (bits >= 0x3810000000000000lu) {
        let odd = select(0u, 1u, (bits & 0x1ffffffflu) != 0lu);
        return bitcast<f32>(sign | (u32((bits - 0x3800000000000000lu) >> 29u) | odd));
    }
    // Subnormal, a whole number of 2^-149: m 2^(e - 1075), of which 926 - e bits are cut off.
    let cut = 926u - u32(bits >> 52u);
    let m = (bits & 0x000ffffffffffffflu) | 0x0010000000000000lu;
    let whole = m >> cut;
    return bitcast<f32>(sign | (u32(whole) | select(0u, 1u, (whole << cut) != m)));
}

// The nearest f16 of x, halves to even.
fn f64_to_f16(x: f64) -> u32 {
    return f32_to_f16(f64_to_odd(x));
}

// The nearest bf16 of x, halves to even.
fn f64_to_bf16(x: f64) -> u32 {
    return f32_to_bf16(f64_to_odd(x));
}
