// Angles, magnitudes and hyperbolic functions of f32, of which the functions of c64 are made.

// The angle of (x, y) from the positive x axis, from -pi to pi; 4 ulp beyond the error of a division.
fn atan2_f32(y: f32, x: f32) -> f32 {
    if (is_nan_f32(x) || is_nan_f32(y)) {
        return nan_f32();
    }
    let left = (bitcast<u32>(x) >> 31u) != 0u;
    var ax = abs(x);
    var ay = abs(y);
    if (is_inf_f32(x) || is_inf_f32(y)) {
        // Only which of them is infinite counts.
        ax = select(0.0f, 1.0f, is_inf_f32(x));
        ay = select(0.0f, 1.0f, is_inf_f32(y));
    }
    // Away from the ends of the range, where sums overflow and quotients vanish.
    let most = select(ax, ay, ay > ax);
    let raised = select(1.0f, 1.2676506e30f, most < 1e-20f);
    let scale = select(raised, 0.25f, most > 8e37f);
    let high = most * scale;
    let low = select(ay, ax, ay > ax) * scale;
    // Beyond the angle pi/8, by the angle that is missing to pi/4.
    let beyond = low > (high * 0.41421357f);
    let top = select(low, low - high, beyond);
    let bottom = select(high, low + high, beyond);
    let t = select(top / bottom, 0.0f, is_zero_f32(bottom));
    let v = t * t;
    let v2 = v * v;
    let p0 = fma(0.19999978f, v, -0.33333334f);
    let p1 = fma(0.110713445f, v, -0.1428415f);
    let p2 = fma(0.050477363f, v, -0.0862452f);
    let p = fma(fma(p2, v2, p1), v2, p0);
    let rest = fma(t * v, p, t);
    var angle = select(rest, 0.7853982f + (rest + -2.1855694e-8f), beyond);
    if (ay > ax) {
        angle = 1.5707964f - (angle - -4.371139e-8f);
    }
    if (left) {
        angle = 3.1415927f - (angle - -8.742278e-8f);
    }
    return copy_sign_f32(angle, y);
}

// sqrt(x^2 + y^2) without overflow on the way, 1 ulp beyond the error of a square root.
fn hypot_f32(x: f32, y: f32) -> f32 {
    if (is_inf_f32(x) || is_inf_f32(y)) {
        return inf_f32();
    }
    if (is_nan_f32(x) || is_nan_f32(y)) {
        return nan_f32();
    }
    let ax = abs(x);
    let ay = abs(y);
    let most = select(ax, ay, ay > ax);
    if (most > 1e18f) {
        let a = ax * 8.271806e-25f;
        let b = ay * 8.271806e-25f;
        return sqrt(fma(a, a, b * b)) * 1.2089258e24f;
    }
    if (most < 1e-12f) {
        let a = ax * 1.2676506e30f;
        let b = ay * 1.2676506e30f;
        return sqrt(fma(a, a, b * b)) * 7.888609e-31f;
    }
    return sqrt(fma(ax, ax, ay * ay));
}

// (e^x + e^-x) / 2, 3 ulp.
fn cosh_f32(x: f32) -> f32 {
    let e = exp_scaled_f32(abs(x), -1);
    return e + (0.25f / e);
}

// (e^x - e^-x) / 2, 4 ulp.
fn sinh_f32(x: f32) -> f32 {
    let a = abs(x);
    if (a < 1.0f) {
        let m = expm1_f32(a);
        let y = 0.5f * (m + (m / (m + 1.0f)));
        return copy_sign_f32(select(y, a, a < 1e-4f), x);
    }
    let e = exp_scaled_f32(a, -1);
    return copy_sign_f32(e - (0.25f / e), x);
}
