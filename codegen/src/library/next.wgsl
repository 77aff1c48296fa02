// The number next to another, by bits: sign and magnitude.

// The bits next to a in the direction of b, which are not NaN; `sign` is the bit of the sign.
fn next_bits(a: u32, b: u32, sign: u32) -> u32 {
    let size_a = a & (sign - 1u);
    let size_b = b & (sign - 1u);
    let negative = (a & sign) != 0u;
    if ((a == b) || ((size_a | size_b) == 0u)) {
        return b;
    }
    if (size_a == 0u) {
        return (b & sign) | 1u;
    }
    // Away from zero where b has the same sign and is larger in size.
    let away = (((b & sign) != 0u) == negative) && (size_b > size_a);
    return select(a - 1u, a + 1u, away);
}

// The f32 next to a in the direction of b; b where they are equal.
fn nextafter_f32(a: f32, b: f32) -> f32 {
    if (is_nan_f32(a) || is_nan_f32(b)) {
        return nan_f32();
    }
    return bitcast<f32>(next_bits(bitcast<u32>(a), bitcast<u32>(b), 0x80000000u));
}

// The f16 next to a in the direction of b.
fn nextafter_f16(a: f32, b: f32) -> f32 {
    if (is_nan_f32(a) || is_nan_f32(b)) {
        return nan_f32();
    }
    return f16_to_f32(next_bits(f32_to_f16(a), f32_to_f16(b), 0x8000u));
}

// The bf16 next to a in the direction of b.
fn nextafter_bf16(a: f32, b: f32) -> f32 {
    if (is_nan_f32(a) || is_nan_f32(b)) {
        return nan_f32();
    }
    return bf16_to_f32(next_bits(f32_to_bf16(a), f32_to_bf16(b), 0x8000u));
}
