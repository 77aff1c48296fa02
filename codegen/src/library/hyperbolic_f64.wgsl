// Hyperbolic functions of f64 and their inverses; see hyperbolic.wgsl.

// (e^a + sign e^-a) / 2 for a >= 0, 2 ulp; with sign -1 for a >= 1.
fn cosh_sinh_f64(a: f64, sign: f64) -> f64 {
    let y = select(a, 710.5lf, a > 710.5lf);
    let t = keep_f64(fma(y, LOG2_E_F64, ROUND_F64));
    let n = t - ROUND_F64;
    let r = fma(-n, LN2_LO_F64, keep_f64(fma(-n, LN2_HI_F64, y)));
    let q = exp_core_f64(r);
    // e^a / 4 = p + p q; the large part p is added last.
    let p = pow2_f64(low_int_f64(t) - 2);
    let low = sign * (0.0625lf / fma(q, p, p));
    let h = p + fma(q, p, low);
    return h + h;
}

// cosh x, 2 ulp; 4 where a division has an error of 2.5.
fn cosh_f64(x: f64) -> f64 {
    return keep_nan_f64(cosh_sinh_f64(abs(x), 1.0lf), x);
}

// sinh x, 2 ulp.
fn sinh_f64(x: f64) -> f64 {
    let a = abs(x);
    var y = a;
    if (a < 1.0lf) {
        let v = a * a;
        let v2 = v * v;
    let c0 = fma(0.008333333333332912lf, v, 0.16666666666666669lf);
    let c1 = fma(2.755731910675638e-06lf, v, 0.0001984126984159341lf);
    let c2 = fma(1.6056659158858535e-10lf, v, 2.5052130998813605e-08lf);
    let p = fma(fma(fma(7.776600402582697e-13lf, v2, c2), v2, c1), v2, c0);
        y = fma(a * v, p, a);
    } else {
        y = cosh_sinh_f64(a, -1.0lf);
    }
    return keep_nan_f64(copy_sign_f64(y, x), x);
}

// ln(w + low + one) + more ln 2, for positive w + one up to a quarter of the largest number and small low.
fn log_of_sum_f64(w: f64, low: f64, one: f64, more: f64) -> f64 {
    let moved = bitcast<u64>(keep_f64(w + one)) + 0x00095f619980c433lu;
    let e = i32(u32(moved >> 52u));
    let inverse = pow2_f64(1023 - e);
    // What the sum loses to rounding is still here; the slope of the logarithm is nearly 1 - f.
    let f = fma(inverse, w, keep_f64(fma(inverse, one, -1.0lf)));
    let n = f64(e - 1023) + more;
    let part = inverse * low;
    let rest = log_rest_f64(f) + fma(-f, part, part);
    return fma(n, LN2_HI_F64, f + fma(n, LN2_LO_F64, rest));
}

// asinh x, 2 ulp.
fn asinh_f64(x: f64) -> f64 {
    let a = abs(x);
    if (is_nan_f64(x) || is_inf_f64(x)) {
        return x;
    }
    if (a > 268435456.0lf) {
        // ln 2a, by way of an eighth of a, since 2a may be none.
        return copy_sign_f64(log_of_sum_f64(a * 0.125lf, 0.0lf, 0.0lf, 4.0lf), x);
    }
    // ln(1 + w), w = a + a^2 / (1 + sqrt(1 + a^2)).
    let square = a * a;
    let rest = square / (1.0lf + sqrt(square + 1.0lf));
    let w = keep_f64(a + rest);
    let y = log_of_sum_f64(w, keep_f64(a - w) + rest, 1.0lf, 0.0lf);
    // What is tiny is its own result.
    return copy_sign_f64(select(y, x, a < 1e-9lf), x);
}

// acosh x, 2 ulp; NaN below 1.
fn acosh_f64(x: f64) -> f64 {
    if (is_nan_f64(x) || (x < 1.0lf)) {
        return nan_f64();
    }
    if (is_inf_f64(x)) {
        return x;
    }
    if (x > 268435456.0lf) {
        return log_of_sum_f64(x * 0.125lf, 0.0lf, 0.0lf, 4.0lf);
    }
    // ln(1 + w), w = t + sqrt(t^2 + 2t), t = x - 1.
    let t = x - 1.0lf;
    let root = root_f64(fma(t, t, t + t));
    let w = keep_f64(t + root);
    return log_of_sum_f64(w, keep_f64(root - w) + t, 1.0lf, 0.0lf);
}

// atanh x, 2 ulp; infinite at -1 and 1, NaN beyond.
fn atanh_f64(x: f64) -> f64 {
    let a = abs(x);
    if (is_nan_f64(x) || (a > 1.0lf)) {
        return nan_f64();
    }
    if (a == 1.0lf) {
        return copy_sign_f64(inf_f64(), x);
    }
    if (a < 0.5lf) {
        let v = a * a;
        let v2 = v * v;
    let c0 = fma(0.20000000000018558lf, v, 0.3333333333333328lf);
    let c1 = fma(0.11111111257507354lf, v, 0.14285714283394899lf);
    let c2 = fma(0.07692439811972462lf, v, 0.09090903618686232lf);
    let c3 = fma(0.059073083300392175lf, v, 0.06664497596628158lf);
    let c4 = fma(0.05951270744378109lf, v, 0.05058971081020717lf);
    let c5 = fma(0.17447966404406687lf, v, -0.005141982750868397lf);
    let c6 = fma(0.24073536409560473lf, v, -0.19547952988957346lf);
    let h0 = fma(fma(fma(c6, v2, c5), v2, c4), v2, c3);
    let p = fma(fma(fma(h0, v2, c2), v2, c1), v2, c0);
        return copy_sign_f64(fma(a * v, p, a), x);
    }
    // ln(1 + 2a / (1 - a)) / 2, in which only the quotient is rounded.
    let w = quotient_f64(a + a, 1.0lf - a);
    return copy_sign_f64(0.5lf * log_of_sum_f64(w, 0.0lf, 1.0lf, 0.0lf), x);
}
