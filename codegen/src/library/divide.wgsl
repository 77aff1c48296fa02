// Quotients of f32 rounded down and their remainders, by whole numbers: exact, however a device divides.

// The mantissa of x as a whole number m, |x| = m 2^(e - 150), where e is what exponent_f32 gives.
fn mantissa_f32(x: f32) -> u32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    return select((bits & 0x007fffffu) | 0x00800000u, bits, bits < 0x00800000u);
}

// See mantissa_f32.
fn exponent_f32(x: f32) -> i32 {
    let field = (bitcast<u32>(x) >> 23u) & 0xffu;
    return select(i32(field), 1, field == 0u);
}

// The remainder of |a| by |b| in units of the last place of b, for finite |a| >= |b| > 0.
fn rem_units_f32(a: f32, b: f32) -> u32 {
    let mb = mantissa_f32(b);
    var left = exponent_f32(a) - exponent_f32(b);
    var r = mantissa_f32(a) % mb;
    // Eight bits of the quotient at a time.
    while (left >= 8) {
        r = (r << 8u) % mb;
        left = left - 8;
    }
    return (r << u32(left)) % mb;
}

// a - b floor(a / b): the remainder with the sign of b; rounded once at most. NaN for a zero divisor and infinite a.
fn rem_f32(a: f32, b: f32) -> f32 {
    let sa = bitcast<u32>(a) & 0x7fffffffu;
    let sb = bitcast<u32>(b) & 0x7fffffffu;
    if ((sa >= 0x7f800000u) || (sb > 0x7f800000u) || (sb == 0u)) {
        return nan_f32();
    }
    let unlike = ((bitcast<u32>(a) ^ bitcast<u32>(b)) >> 31u) != 0u;
    if (sa >= sb) {
        // Of unlike signs, what is missing to b.
        let units = rem_units_f32(a, b);
        let floored = select(units, mantissa_f32(b) - units, unlike && (units != 0u));
        return copy_sign_f32(scale_f32(f32(floored), exponent_f32(b) - 150), b);
    }
    if (sa == 0u) {
        return copy_sign_f32(a, b);
    }
    return select(a, a + b, unlike);
}

// a - b trunc(a / b): the remainder with the sign of a; exact. NaN for a zero divisor and infinite a.
fn fmod_f32(a: f32, b: f32) -> f32 {
    let sa = bitcast<u32>(a) & 0x7fffffffu;
    let sb = bitcast<u32>(b) & 0x7fffffffu;
    if ((sa >= 0x7f800000u) || (sb > 0x7f800000u) || (sb == 0u)) {
        return nan_f32();
    }
    if (sa < sb) {
        return a;
    }
    return copy_sign_f32(scale_f32(f32(rem_units_f32(a, b)), exponent_f32(b) - 150), a);
}

// a / b rounded down; exact below 2^24, beyond that rounded once more. Infinite where the quotient is.
fn floor_div_f32(a: f32, b: f32) -> f32 {
    let sa = bitcast<u32>(a) & 0x7fffffffu;
    let sb = bitcast<u32>(b) & 0x7fffffffu;
    let unlike = ((bitcast<u32>(a) ^ bitcast<u32>(b)) >> 31u) != 0u;
    if ((sa > 0x7f800000u) || (sb > 0x7f800000u)) {
        return nan_f32();
    }
    if (sa == 0x7f800000u) {
        if (sb == 0x7f800000u) {
            return nan_f32();
        }
        return select(inf_f32(), -inf_f32(), unlike);
    }
    if (sb == 0u) {
        if (sa == 0u) {
            return nan_f32();
        }
        return select(inf_f32(), -inf_f32(), unlike);
    }
    if (sa == 0u) {
        return select(0.0f, -0.0f, unlike);
    }
    if (sa < sb) {
        return select(0.0f, -1.0f, unlike);
    }
    let ma = mantissa_f32(a);
    let mb = mantissa_f32(b);
    var left = exponent_f32(a) - exponent_f32(b);
    var q = ma / mb;
    var r = ma % mb;
    // Large quotients are whole as they stand.
    if ((left > 24) || (q >= (1u << u32(31 - min(left, 24))))) {
        let large = scale_f32(f32(ma) / f32(mb), left);
        return select(large, -large, unlike);
    }
    while (left > 0) {
        let step = min(left, 8);
        r = r << u32(step);
        q = (q << u32(step)) + (r / mb);
        r = r % mb;
        left = left - step;
    }
    if (unlike && (r != 0u)) {
        q = q + 1u;
    }
    return select(f32(q), -f32(q), unlike);
}
