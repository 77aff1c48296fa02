// Quotients of f64 rounded down and their remainders, by whole numbers; see divide.wgsl.

// The mantissa of x as a whole number m, |x| = m 2^(e - 1075), where e is what exponent_f64 gives.
fn mantissa_f64(x: f64) -> u64 {
    let bits = size_bits_f64(x);
    return select((bits & 0x000ffffffffffffflu) | 0x0010000000000000lu, bits, bits < 0x0010000000000000lu);
}

// See mantissa_f64.
fn exponent_f64(x: f64) -> i32 {
    let field = u32((bitcast<u64>(x) >> 52u) & 0x7fflu);
    return select(i32(field), 1, field == 0u);
}

// The remainder of |a| by |b| in units of the last place of b, for finite |a| >= |b| > 0.
fn rem_units_f64(a: f64, b: f64) -> u64 {
    let mb = mantissa_f64(b);
    var left = exponent_f64(a) - exponent_f64(b);
    var r = mantissa_f64(a) % mb;
    // Eleven bits of the quotient at a time.
    while (left >= 11) {
        r = (r << 11u) % mb;
        left = left - 11;
    }
    return (r << u32(left)) % mb;
}

// a - b floor(a / b): the remainder with the sign of b; rounded once at most. NaN for a zero divisor and infinite a.
fn rem_f64(a: f64, b: f64) -> f64 {
    let sa = size_bits_f64(a);
    let sb = size_bits_f64(b);
    if ((sa >= 0x7ff0000000000000lu) || (sb > 0x7ff0000000000000lu) || (sb == 0lu)) {
        return nan_f64();
    }
    let unlike = ((bitcast<u64>(a) ^ bitcast<u64>(b)) >> 63u) != 0lu;
    if (sa >= sb) {
        // Of unlike signs, what is missing to b.
        let units = rem_units_f64(a, b);
        let floored = select(units, mantissa_f64(b) - units, unlike && (units != 0lu));
        return copy_sign_f64(scale_f64(f64(floored), exponent_f64(b) - 1075), b);
    }
    if (sa == 0lu) {
        return copy_sign_f64(a, b);
    }
    return select(a, a + b, unlike);
}

// a - b trunc(a / b): the remainder with the sign of a; exact. NaN for a zero divisor and infinite a.
fn fmod_f64(a: f64, b: f64) -> f64 {
    let sa = size_bits_f64(a);
    let sb = size_bits_f64(b);
    if ((sa >= 0x7ff0000000000000lu) || (sb > 0x7ff0000000000000lu) || (sb == 0lu)) {
        return nan_f64();
    }
    if (sa < sb) {
        return a;
    }
    return copy_sign_f64(scale_f64(f64(rem_units_f64(a, b)), exponent_f64(b) - 1075), a);
}

// a / b rounded down; exact below 2^53, beyond that rounded once more. Infinite where the quotient is.
fn floor_div_f64(a: f64, b: f64) -> f64 {
    let sa = size_bits_f64(a);
    let sb = size_bits_f64(b);
    let unlike = ((bitcast<u64>(a) ^ bitcast<u64>(b)) >> 63u) != 0lu;
    if ((sa > 0x7ff0000000000000lu) || (sb > 0x7ff0000000000000lu)) {
        return nan_f64();
    }
    if (sa == 0x7ff0000000000000lu) {
        if (sb == 0x7ff0000000000000lu) {
            return nan_f64();
        }
        return select(inf_f64(), -inf_f64(), unlike);
    }
    if (sb == 0lu) {
        if (sa == 0lu) {
            return nan_f64();
        }
        return select(inf_f64(), -inf_f64(), unlike);
    }
    if (sa == 0lu) {
        return select(0.0lf, -0.0lf, unlike);
    }
    if (sa < sb) {
        return select(0.0lf, -1.0lf, unlike);
    }
    let ma = mantissa_f64(a);
    let mb = mantissa_f64(b);
    var left = exponent_f64(a) - exponent_f64(b);
    var q = ma / mb;
    var r = ma % mb;
    // Large quotients are whole as they stand.
    if ((left > 53) || (q >= (1lu << u32(63 - min(left, 53))))) {
        let large = scale_f64(f64(ma) / f64(mb), left);
        return select(large, -large, unlike);
    }
    while (left > 0) {
        let step = min(left, 11);
        r = r << u32(step);
        q = (q << u32(step)) + (r / mb);
        r = r % mb;
        left = left - step;
    }
    if (unlike && (r != 0lu)) {
        q = q + 1lu;
    }
    return select(f64(q), -f64(q), unlike);
}
