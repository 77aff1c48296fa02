// Complex numbers of two f32. What happens to infinities inside a formula is not promised.

// -a.
fn neg_c64(a: c64) -> c64 {
    return c64(-a.x, -a.y);
}

// a + b.
fn add_c64(a: c64, b: c64) -> c64 {
    return c64(a.x + b.x, a.y + b.y);
}

// a - b.
fn sub_c64(a: c64, b: c64) -> c64 {
    return c64(a.x - b.x, a.y - b.y);
}

// a b.
fn mul_c64(a: c64, b: c64) -> c64 {
    return c64((a.x * b.x) - (a.y * b.y), (a.x * b.y) + (a.y * b.x));
}

// a / b with the divisor scaled by its larger part, so that squares neither overflow nor vanish (Smith's method).
fn div_c64(a: c64, b: c64) -> c64 {
    if (abs(b.y) <= abs(b.x)) {
        let r = b.y / b.x;
        let d = fma(b.y, r, b.x);
        return c64(fma(a.y, r, a.x) / d, fma(-a.x, r, a.y) / d);
    }
    let r = b.x / b.y;
    let d = fma(b.x, r, b.y);
    return c64(fma(a.x, r, a.y) / d, fma(a.y, r, -a.x) / d);
}

// 1 / a.
fn recip_c64(a: c64) -> c64 {
    return div_c64(c64(1.0f, 0.0f), a);
}

// Whether both parts are equal.
fn eq_c64(a: c64, b: c64) -> bool {
    return (a.x == b.x) && (a.y == b.y);
}

// Whether a part differs.
fn ne_c64(a: c64, b: c64) -> bool {
    return (a.x != b.x) || (a.y != b.y);
}

// The modulus, 1 ulp beyond the error of a square root.
fn abs_c64(a: c64) -> f32 {
    return hypot_f32(a.x, a.y);
}

// Whether both parts are zero.
fn is_zero_c64(a: c64) -> bool {
    return is_zero_f32(a.x) && is_zero_f32(a.y);
}

// e^a.
fn exp_c64(a: c64) -> c64 {
    let e = exp_f32(a.x);
    if (is_zero_f32(a.y)) {
        return c64(e, a.y);
    }
    if (is_inf_f32(a.x) && (a.x < 0.0f)) {
        return c64(0.0f, 0.0f);
    }
    let angle = reduce_angle_f32(a.y);
    let n = u32(angle.y);
    return c64(e * sin_quadrant_f32(n + 1u, angle.x), e * sin_quadrant_f32(n, angle.x));
}

// The natural logarithm; its imaginary part from -pi to pi.
fn log_c64(a: c64) -> c64 {
    return c64(log_f32(hypot_f32(a.x, a.y)), atan2_f32(a.y, a.x));
}

// The square root with a real part that is not negative.
fn sqrt_c64(a: c64) -> c64 {
    if (is_zero_c64(a)) {
        return c64(0.0f, a.y);
    }
    if (is_inf_f32(a.y)) {
        return c64(inf_f32(), a.y);
    }
    let m = 0.5f * hypot_f32(a.x, a.y);
    let t = sqrt(fma(0.5f, abs(a.x), m));
    let s = (0.5f * abs(a.y)) / t;
    if ((bitcast<u32>(a.x) >> 31u) != 0u) {
        return c64(s, copy_sign_f32(t, a.y));
    }
    return c64(t, copy_sign_f32(s, a.y));
}

// The sine.
fn sin_c64(a: c64) -> c64 {
    let angle = reduce_angle_f32(a.x);
    let n = u32(angle.y);
    let s = sin_quadrant_f32(n, angle.x) * cosh_f32(a.y);
    return c64(s, sin_quadrant_f32(n + 1u, angle.x) * sinh_f32(a.y));
}

// The cosine.
fn cos_c64(a: c64) -> c64 {
    let angle = reduce_angle_f32(a.x);
    let n = u32(angle.y);
    let c = sin_quadrant_f32(n + 1u, angle.x) * cosh_f32(a.y);
    return c64(c, sin_quadrant_f32(n, angle.x) * -sinh_f32(a.y));
}

// The hyperbolic tangent.
fn tanh_c64(a: c64) -> c64 {
    let angle = reduce_angle_f32(a.y);
    let n = u32(angle.y);
    let s = sin_quadrant_f32(n, angle.x);
    let c = sin_quadrant_f32(n + 1u, angle.x);
    if (abs(a.x) > 10.0f) {
        // The real part is 1 to the last bit.
        let decay = exp_f32(-2.0f * abs(a.x));
        return c64(copy_sign_f32(1.0f, a.x), (4.0f * decay) * (s * c));
    }
    // sinh x cosh x + i sin y cos y, over sinh^2 x + cos^2 y.
    let h = sinh_f32(a.x);
    let d = fma(h, h, c * c);
    return c64((h * cosh_f32(a.x)) / d, (s * c) / d);
}

// a^b = e^(b log a); 1 for b = 0, else 0 for a = 0.
fn pow_c64(a: c64, b: c64) -> c64 {
    if (is_zero_c64(b)) {
        return c64(1.0f, 0.0f);
    }
    if (is_zero_c64(a)) {
        return c64(0.0f, 0.0f);
    }
    return exp_c64(mul_c64(b, log_c64(a)));
}
