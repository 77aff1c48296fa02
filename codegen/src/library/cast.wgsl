// f32 to integers of 32 bits and less: truncated and saturated, NaN gives 0.

// x limited to [low, high], as an i32; the limits lie within i32.
fn f32_to_i32_within(x: f32, low: f32, high: f32) -> i32 {
    if (is_nan_f32(x)) {
        return 0;
    }
    let y = select(x, low, x < low);
    return i32(select(y, high, y > high));
}

// x as an i8.
fn f32_to_i8(x: f32) -> i32 {
    return f32_to_i32_within(x, -128.0f, 127.0f);
}

// x as an i16.
fn f32_to_i16(x: f32) -> i32 {
    return f32_to_i32_within(x, -32768.0f, 32767.0f);
}

// x as a u8.
fn f32_to_u8(x: f32) -> u32 {
    return u32(f32_to_i32_within(x, 0.0f, 255.0f));
}

// x as a u16.
fn f32_to_u16(x: f32) -> u32 {
    return u32(f32_to_i32_within(x, 0.0f, 65535.0f));
}

// x as an i32.
fn f32_to_i32(x: f32) -> i32 {
    if (is_nan_f32(x)) {
        return 0;
    }
    if (x >= 2147483648.0f) {
        return 2147483647;
    }
    // The largest f32 below 2^31.
    return f32_to_i32_within(x, -2147483648.0f, 2147483520.0f);
}

// x as a u32.
fn f32_to_u32(x: f32) -> u32 {
    if (is_nan_f32(x) || (x <= 0.0f)) {
        return 0u;
    }
    if (x >= 4294967296.0f) {
        return 4294967295u;
    }
    return u32(x);
}

// Whether x is not zero; true for NaN.
fn f32_to_bool(x: f32) -> bool {
    return !is_zero_f32(x);
}
