// Angles and magnitudes of f64; see polar.wgsl.

// The angle of (x, y) from the positive x axis, from -pi to pi, 2 ulp.
fn atan2_f64(y: f64, x: f64) -> f64 {
    if (is_nan_f64(x) || is_nan_f64(y)) {
        return nan_f64();
    }
    var ax = abs(x);
    var ay = abs(y);
    if (is_inf_f64(x) || is_inf_f64(y)) {
        // Only which of them is infinite counts.
        ax = select(0.0lf, 1.0lf, is_inf_f64(x));
        ay = select(0.0lf, 1.0lf, is_inf_f64(y));
    }
    // Away from the ends of the range.
    let most = select(ax, ay, ay > ax);
    let raised = select(1.0lf, 4.149515568880993e180lf, most < 1e-150lf);
    let scale = select(raised, 0.25lf, most > 4e307lf);
    let high = most * scale;
    let low = select(ay, ax, ay > ax) * scale;
    var angle = 0.0lf;
    if (!is_zero_f64(high)) {
        angle = atan_core_f64(low / high);
    }
    if (ay > ax) {
        angle = 1.5707963267948966lf - (angle - 6.123233995736766e-17lf);
    }
    if ((bitcast<u64>(x) >> 63u) != 0lu) {
        angle = 3.141592653589793lf - (angle - 1.2246467991473532e-16lf);
    }
    return copy_sign_f64(angle, y);
}

// sqrt(x^2 + y^2) without overflow on the way, 1.5 ulp; infinite if either is, even beside NaN.
fn hypot_f64(x: f64, y: f64) -> f64 {
    if (is_inf_f64(x) || is_inf_f64(y)) {
        return inf_f64();
    }
    if (is_nan_f64(x) || is_nan_f64(y)) {
        return nan_f64();
    }
    let ax = abs(x);
    let ay = abs(y);
    let most = select(ax, ay, ay > ax);
    // To where squares neither overflow nor vanish.
    let large = most > 1e150lf;
    let small = most < 1e-140lf;
    let down = 2.409919865102884e-181lf;
    let up = 4.149515568880993e180lf;
    let by = select(select(1.0lf, down, large), up, small);
    let a = ax * by;
    let b = ay * by;
    let back = select(select(1.0lf, 4.149515568880993e180lf, large), 2.409919865102884e-181lf, small);
    return root_f64(fma(a, a, b * b)) * back;
}
