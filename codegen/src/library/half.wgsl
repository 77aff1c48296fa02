// f16 and bf16 by their bits, which lie in the low half of a word; f32 holds their values.

// The value of an f16; exact.
fn f16_to_f32(bits: u32) -> f32 {
    let sign = (bits & 0x8000u) << 16u;
    let size = bits & 0x7fffu;
    if (size < 0x0400u) {
        // Zero or subnormal: a whole number of 2^-24.
        return bitcast<f32>(sign | bitcast<u32>(f32(size) * 5.9604645e-8f));
    }
    // Infinities and NaN have the largest exponent in both.
    let bias = select(0x38000000u, 0x70000000u, size >= 0x7c00u);
    return bitcast<f32>(sign | ((size << 13u) + bias));
}

// The nearest f16, halves to even; infinite from 65520 on, NaN stays NaN.
fn f32_to_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    if (size >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    if (size >= 0x38800000u) {
        let even = (size >> 13u) & 1u;
        return sign | (((size - 0x38000000u) + (0x0fffu + even)) >> 13u);
    }
    // Subnormal, a whole number of 2^-24: m 2^(e - 150), of which 126 - e bits are cut off.
    let cut = 126u - (size >> 23u);
    if (cut > 24u) {
        return sign;
    }
    let m = (size & 0x007fffffu) | 0x00800000u;
    let whole = m >> cut;
    let rest = m - (whole << cut);
    let middle = 1u << (cut - 1u);
    let up = (rest > middle) || ((rest == middle) && ((whole & 1u) != 0u));
    return sign | (whole + select(0u, 1u, up));
}

// The value of a bf16; exact.
fn bf16_to_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

// The nearest bf16, halves to even; NaN stays NaN.
fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if (is_nan_f32(x)) {
        return (bits >> 16u) | 0x0040u;
    }
    return (bits + (0x7fffu + ((bits >> 16u) & 1u))) >> 16u;
}

// x rounded to an f16.
fn round_f16(x: f32) -> f32 {
    return f16_to_f32(f32_to_f16(x));
}

// x rounded to a bf16.
fn round_bf16(x: f32) -> f32 {
    return bf16_to_f32(f32_to_bf16(x));
}

// x as an f32 rounded to odd: rounding this to a half type gives what rounding x itself gives.
fn u32_to_odd(x: u32) -> f32 {
    if (x < 0x01000000u) {
        return f32(x);
    }
    return f32((x & 0xffffff00u) | select(0u, 0x100u, (x & 0xffu) != 0u));
}

// See u32_to_odd.
fn i32_to_odd(x: i32) -> f32 {
    let size = u32_to_odd(u32(abs_i32(x)));
    return select(size, -size, x < 0);
}

// The nearest f16 of x, halves to even.
fn i32_to_f16(x: i32) -> u32 {
    return f32_to_f16(i32_to_odd(x));
}

// The nearest f16 of x, halves to even.
fn u32_to_f16(x: u32) -> u32 {
    return f32_to_f16(u32_to_odd(x));
}

// The nearest bf16 of x, halves to even.
fn i32_to_bf16(x: i32) -> u32 {
    return f32_to_bf16(i32_to_odd(x));
}

// The nearest bf16 of x, halves to even.
fn u32_to_bf16(x: u32) -> u32 {
    return f32_to_bf16(u32_to_odd(x));
}
