// Angles, magnitudes and hyperbolic functions of f64, of which the functions of c128 are made.

// The angle of (x, y) from the positive x axis, from -pi to pi; 4 ulp beyond the error of a division.
fn atan2_f64(y: f64, x: f64) -> f64 {
    if (is_nan_f64(x) || is_nan_f64(y)) {
        return nan_f64();
    }
    let left = (bitcast<u64>(x) >> 63u) != 0lu;
    var ax = abs(x);
    var ay = abs(y);
    if (is_inf_f64(x) || is_inf_f64(y)) {
        // Only which of them is infinite counts.
        ax = select(0.0lf, 1.0lf, is_inf_f64(x));
        ay = select(0.0lf, 1.0lf, is_inf_f64(y));
    }
    // Away from the ends of the range, where sums overflow and quotients vanish.
    let most = select(ax, ay, ay > ax);
    let raised = select(1.0lf, 4.149515568880993e180lf, most < 1e-150lf);
    let scale = select(raised, 0.25lf, most > 4e307lf);
    let high = most * scale;
    let low = select(ay, ax, ay > ax) * scale;
    // Beyond the angle pi/8, by the angle that is missing to pi/4.
    let beyond = low > (high * 0.41421357lf);
    let top = select(low, low - high, beyond);
    let bottom = select(high, low + high, beyond);
    let t = select(top / bottom, 0.0lf, is_zero_f64(bottom));
    let v = t * t;
    let v2 = v * v;
    let p0 = fma(0.19999999999999993lf, v, -0.3333333333333333lf);
    let p1 = fma(0.11111111110754082lf, v, -0.14285714285711512lf);
    let p2 = fma(0.07692306734642303lf, v, -0.09090909066971314lf);
    let p3 = fma(0.058819248144534424lf, v, -0.06666641989928918lf);
    let p4 = fma(0.04719367881728647lf, v, -0.052580373028164366lf);
    let p5 = fma(0.03063316224194981lf, v, -0.0410432655905283lf);
    let upper = fma(fma(fma(-0.013915657148793118lf, v2, p5), v2, p4), v2, p3);
    let p = fma(fma(fma(upper, v2, p2), v2, p1), v2, p0);
    let rest = fma(t * v, p, t);
    var angle = select(rest, 0.7853981633974483lf + (rest + 3.061616997868383e-17lf), beyond);
    if (ay > ax) {
        angle = 1.5707963267948966lf - (angle - 6.123233995736766e-17lf);
    }
    if (left) {
        angle = 3.141592653589793lf - (angle - 1.2246467991473532e-16lf);
    }
    return copy_sign_f64(angle, y);
}

// sqrt(x^2 + y^2) without overflow on the way, 1 ulp beyond the error of a square root.
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
    if (most > 1e150lf) {
        let a = ax * 2.409919865102884e-181lf;
        let b = ay * 2.409919865102884e-181lf;
        return sqrt(fma(a, a, b * b)) * 4.149515568880993e180lf;
    }
    if (most < 1e-140lf) {
        let a = ax * 4.149515568880993e180lf;
        let b = ay * 4.149515568880993e180lf;
        return sqrt(fma(a, a, b * b)) * 2.409919865102884e-181lf;
    }
    return sqrt(fma(ax, ax, ay * ay));
}

// (e^x + e^-x) / 2, 3 ulp.
fn cosh_f64(x: f64) -> f64 {
    let e = exp_scaled_f64(abs(x), -1);
    return e + (0.25lf / e);
}

// (e^x - e^-x) / 2, 4 ulp.
fn sinh_f64(x: f64) -> f64 {
    let a = abs(x);
    if (a < 1.0lf) {
        let m = expm1_f64(a);
        let y = 0.5lf * (m + (m / (m + 1.0lf)));
        return copy_sign_f64(select(y, a, a < 1e-9lf), x);
    }
    let e = exp_scaled_f64(a, -1);
    return copy_sign_f64(e - (0.25lf / e), x);
}
