// Angles and magnitudes of f32.

// The angle of (x, y) from the positive x axis, from -pi to pi, 2 ulp.
fn atan2_f32(y: f32, x: f32) -> f32 {
    if (is_nan_f32(x) || is_nan_f32(y)) {
        return nan_f32();
    }
    var ax = abs(x);
    var ay = abs(y);
    if (is_inf_f32(x) || is_inf_f32(y)) {
        // Only which of them is infinite counts.
        ax = select(0.0f, 1.0f, is_inf_f32(x));
        ay = select(0.0f, 1.0f, is_inf_f32(y));
    }
    // Away from the ends of the range.
    let most = select(ax, ay, ay > ax);
    let raised = select(1.0f, 1.2676506e30f, most < 1e-20f);
    let scale = select(raised, 0.25f, most > 8e37f);
    let high = most * scale;
    let low = select(ay, ax, ay > ax) * scale;
    var angle = 0.0f;
    if (!is_zero_f32(high)) {
        // What is small, itself or beside the other, is lifted, so that no part of the quotient vanishes.
        let small = low < 1e-15f || low < high * 1e-25f;
        let q = quotient_f32(select(low, low * 1.1529215e18f, small), high);
        angle = atan_core_f32(select(q, q * 8.6736174e-19f, small));
    }
    if (ay > ax) {
        angle = 1.5707964f - (angle - -4.371139e-8f);
    }
    if ((bitcast<u32>(x) >> 31u) != 0u) {
        angle = 3.1415927f - (angle - -8.742278e-8f);
    }
    return copy_sign_f32(angle, y);
}

// sqrt(x^2 + y^2) without overflow on the way, 1.5 ulp; infinite if either is, even beside NaN.
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
    // To where squares neither overflow nor vanish.
    let large = most > 1e18f;
    let small = most < 1e-12f;
    let down = 8.271806e-25f;
    let up = 1.2676506e30f;
    let by = select(select(1.0f, down, large), up, small);
    let a = ax * by;
    let b = ay * by;
    let back = select(select(1.0f, 1.2089258e24f, large), 7.888609e-31f, small);
    return root_f32(fma(a, a, b * b)) * back;
}
