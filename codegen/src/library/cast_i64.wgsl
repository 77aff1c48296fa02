// Between f32, the half types and integers of 64 bits.

// x as an i64: truncated and saturated, NaN gives 0.
fn f32_to_i64(x: f32) -> i64 {
    if (is_nan_f32(x)) {
        return 0li;
    }
    if (x >= 9223372036854775808.0f) {
        return 0x7fffffffffffffffli;
    }
    if (x <= -9223372036854775808.0f) {
        return i64(0x8000000000000000lu);
    }
    return i64(x);
}

// x as a u64: truncated and saturated, NaN gives 0.
fn f32_to_u64(x: f32) -> u64 {
    if (is_nan_f32(x) || (x <= 0.0f)) {
        return 0lu;
    }
    if (x >= 18446744073709551616.0f) {
        return 0xfffffffffffffffflu;
    }
    return u64(x);
}

// x as an f32 rounded to odd: rounding this to a half type gives what rounding x itself gives.
fn u64_to_odd(x: u64) -> f32 {
    var rest = x;
    var scale = 1.0f;
    // What is shifted out remains as a lowest bit that is set.
    while (rest >= 0x1000000lu) {
        rest = (rest >> 8u) | select(0lu, 1lu, (rest & 0xfflu) != 0lu);
        scale = scale * 256.0f;
    }
    return f32(u32(rest)) * scale;
}

// See u64_to_odd.
fn i64_to_odd(x: i64) -> f32 {
    let size = u64_to_odd(u64(abs_i64(x)));
    return select(size, -size, x < 0li);
}

// The nearest f16 of x, halves to even.
fn i64_to_f16(x: i64) -> u32 {
    return f32_to_f16(i64_to_odd(x));
}

// The nearest f16 of x, halves to even.
fn u64_to_f16(x: u64) -> u32 {
    return f32_to_f16(u64_to_odd(x));
}

// The nearest bf16 of x, halves to even.
fn i64_to_bf16(x: i64) -> u32 {
    return f32_to_bf16(i64_to_odd(x));
}

// The nearest bf16 of x, halves to even.
fn u64_to_bf16(x: u64) -> u32 {
    return f32_to_bf16(u64_to_odd(x));
}
