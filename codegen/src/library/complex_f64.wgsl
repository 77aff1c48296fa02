// Complex numbers of two f64. What happens to infinities inside a formula is not promised.

// -a.
fn neg_c128(a: c128) -> c128 {
    return c128(-a.x, -a.y);
}

// a + b.
fn add_c128(a: c128, b: c128) -> c128 {
    return c128(a.x + b.x, a.y + b.y);
}

// a - b.
fn sub_c128(a: c128, b: c128) -> c128 {
    return c128(a.x - b.x, a.y - b.y);
}

// a b.
fn mul_c128(a: c128, b: c128) -> c128 {
    return c128((a.x * b.x) - (a.y * b.y), (a.x * b.y) + (a.y * b.x));
}

// a / b with the divisor scaled by its larger part, so that squares neither overflow nor vanish (Smith's method).
fn div_c128(a: c128, b: c128) -> c128 {
    if (abs(b.y) <= abs(b.x)) {
        let r = b.y / b.x;
        let d = fma(b.y, r, b.x);
        return c128(fma(a.y, r, a.x) / d, fma(-a.x, r, a.y) / d);
    }
    let r = b.x / b.y;
    let d = fma(b.x, r, b.y);
    return c128(fma(a.x, r, a.y) / d, fma(a.y, r, -a.x) / d);
}

// 1 / a.
fn recip_c128(a: c128) -> c128 {
    return div_c128(c128(1.0lf, 0.0lf), a);
}

// Whether both parts are equal.
fn eq_c128(a: c128, b: c128) -> bool {
    return (a.x == b.x) && (a.y == b.y);
}

// Whether a part differs.
fn ne_c128(a: c128, b: c128) -> bool {
    return (a.x != b.x) || (a.y != b.y);
}

// The modulus, 1 ulp beyond the error of a square root.
fn abs_c128(a: c128) -> f64 {
    return hypot_f64(a.x, a.y);
}

// Whether both parts are zero.
fn is_zero_c128(a: c128) -> bool {
    return is_zero_f64(a.x) && is_zero_f64(a.y);
}

// e^a.
fn exp_c128(a: c128) -> c128 {
    let e = exp_f64(a.x);
    if (is_zero_f64(a.y)) {
        return c128(e, a.y);
    }
    if (is_inf_f64(a.x) && (a.x < 0.0lf)) {
        return c128(0.0lf, 0.0lf);
    }
    let angle = reduce_angle_f64(a.y);
    let n = u32(angle.y);
    return c128(e * sin_quadrant_f64(n + 1u, angle.x), e * sin_quadrant_f64(n, angle.x));
}

// The natural logarithm; its imaginary part from -pi to pi.
fn log_c128(a: c128) -> c128 {
    return c128(log_f64(hypot_f64(a.x, a.y)), atan2_f64(a.y, a.x));
}

// The square root with a real part that is not negative.
fn sqrt_c128(a: c128) -> c128 {
    if (is_zero_c128(a)) {
        return c128(0.0lf, a.y);
    }
    if (is_inf_f64(a.y)) {
        return c128(inf_f64(), a.y);
    }
    let m = 0.5lf * hypot_f64(a.x, a.y);
    let t = sqrt(fma(0.5lf, abs(a.x), m));
    let s = (0.5lf * abs(a.y)) / t;
    if ((bitcast<u64>(a.x) >> 63u) != 0lu) {
        return c128(s, copy_sign_f64(t, a.y));
    }
    return c128(t, copy_sign_f64(s, a.y));
}

// The sine.
fn sin_c128(a: c128) -> c128 {
    let angle = reduce_angle_f64(a.x);
    let n = u32(angle.y);
    let s = sin_quadrant_f64(n, angle.x) * cosh_f64(a.y);
    return c128(s, sin_quadrant_f64(n + 1u, angle.x) * sinh_f64(a.y));
}

// The cosine.
fn cos_c128(a: c128) -> c128 {
    let angle = reduce_angle_f64(a.x);
    let n = u32(angle.y);
    let c = sin_quadrant_f64(n + 1u, angle.x) * cosh_f64(a.y);
    return c128(c, sin_quadrant_f64(n, angle.x) * -sinh_f64(a.y));
}

// The hyperbolic tangent.
fn tanh_c128(a: c128) -> c128 {
    let angle = reduce_angle_f64(a.y);
    let n = u32(angle.y);
    let s = sin_quadrant_f64(n, angle.x);
    let c = sin_quadrant_f64(n + 1u, angle.x);
    if (abs(a.x) > 20.0lf) {
        // The real part is 1 to the last bit.
        let decay = exp_f64(-2.0lf * abs(a.x));
        return c128(copy_sign_f64(1.0lf, a.x), (4.0lf * decay) * (s * c));
    }
    // sinh x cosh x + i sin y cos y, over sinh^2 x + cos^2 y.
    let h = sinh_f64(a.x);
    let d = fma(h, h, c * c);
    return c128((h * cosh_f64(a.x)) / d, (s * c) / d);
}

// a^b = e^(b log a); 1 for b = 0, else 0 for a = 0.
fn pow_c128(a: c128, b: c128) -> c128 {
    if (is_zero_c128(b)) {
        return c128(1.0lf, 0.0lf);
    }
    if (is_zero_c128(a)) {
        return c128(0.0lf, 0.0lf);
    }
    return exp_c128(mul_c128(b, log_c128(a)));
}
