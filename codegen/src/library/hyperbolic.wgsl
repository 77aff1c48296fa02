// Hyperbolic functions of f32 and their inverses.

// (e^a + sign e^-a) / 2 for a >= 0, 2 ulp; with sign -1 for a >= 1.
fn cosh_sinh_f32(a: f32, sign: f32) -> f32 {
    let y = select(a, 89.5f, a > 89.5f);
    let t = keep_f32(fma(y, LOG2_E_F32, ROUND_F32));
    let n = t - ROUND_F32;
    let r = fma(-n, LN2_LO_F32, keep_f32(fma(-n, LN2_HI_F32, y)));
    let q = exp_core_f32(r);
    // e^a / 4 = p + p q; the large part p is added last.
    let p = pow2_f32((bitcast<i32>(t) - 0x4b400000) - 2);
    let low = sign * (0.0625f / fma(q, p, p));
    let h = p + fma(q, p, low);
    return h + h;
}

// cosh x, 2 ulp; 4 where a division has an error of 2.5.
fn cosh_f32(x: f32) -> f32 {
    return keep_nan_f32(cosh_sinh_f32(abs(x), 1.0f), x);
}

// sinh x, 2 ulp.
fn sinh_f32(x: f32) -> f32 {
    let a = abs(x);
    var y = a;
    if (a < 1.0f) {
        let v = a * a;
        let v2 = v * v;
    let c0 = fma(0.0083333105f, v, 0.16666667f);
    let c1 = fma(2.782212e-6f, v, 0.00019842896f);
    let p = fma(c1, v2, c0);
        y = fma(a * v, p, a);
    } else {
        y = cosh_sinh_f32(a, -1.0f);
    }
    return keep_nan_f32(copy_sign_f32(y, x), x);
}

// ln(w + low + one) + more ln 2, for positive w + one up to a quarter of the largest number and small low.
fn log_of_sum_f32(w: f32, low: f32, one: f32, more: f32) -> f32 {
    let moved = bitcast<u32>(keep_f32(w + one)) + 0x004afb0du;
    let e = i32(moved >> 23u);
    let inverse = pow2_f32(127 - e);
    // What the sum loses to rounding is still here; the slope of the logarithm is nearly 1 - f.
    let f = fma(inverse, w, keep_f32(fma(inverse, one, -1.0f)));
    let n = f32(e - 127) + more;
    let part = inverse * low;
    let rest = log_rest_f32(f) + fma(-f, part, part);
    return fma(n, LN2_HI_F32, f + fma(n, LN2_LO_F32, rest));
}

// asinh x, 2 ulp.
fn asinh_f32(x: f32) -> f32 {
    let a = abs(x);
    if (is_nan_f32(x) || is_inf_f32(x)) {
        return x;
    }
    if (a > 8192.0f) {
        // ln 2a, by way of an eighth of a, since 2a may be none.
        return copy_sign_f32(log_of_sum_f32(a * 0.125f, 0.0f, 0.0f, 4.0f), x);
    }
    // ln(1 + w), w = a + a^2 / (1 + sqrt(1 + a^2)).
    let square = a * a;
    let rest = square / (1.0f + sqrt(square + 1.0f));
    let w = keep_f32(a + rest);
    let y = log_of_sum_f32(w, keep_f32(a - w) + rest, 1.0f, 0.0f);
    // What is tiny is its own result.
    return copy_sign_f32(select(y, x, a < 1e-5f), x);
}

// acosh x, 2 ulp; NaN below 1.
fn acosh_f32(x: f32) -> f32 {
    if (is_nan_f32(x) || (x < 1.0f)) {
        return nan_f32();
    }
    if (is_inf_f32(x)) {
        return x;
    }
    if (x > 8192.0f) {
        return log_of_sum_f32(x * 0.125f, 0.0f, 0.0f, 4.0f);
    }
    // ln(1 + w), w = t + sqrt(t^2 + 2t), t = x - 1.
    let t = x - 1.0f;
    let root = root_f32(fma(t, t, t + t));
    let w = keep_f32(t + root);
    return log_of_sum_f32(w, keep_f32(root - w) + t, 1.0f, 0.0f);
}

// atanh x, 2 ulp; infinite at -1 and 1, NaN beyond.
fn atanh_f32(x: f32) -> f32 {
    let a = abs(x);
    if (is_nan_f32(x) || (a > 1.0f)) {
        return nan_f32();
    }
    if (a == 1.0f) {
        return copy_sign_f32(inf_f32(), x);
    }
    if (a < 0.5f) {
        let v = a * a;
        let v2 = v * v;
    let c0 = fma(0.19999622f, v, 0.33333337f);
    let c1 = fma(0.10929401f, v, 0.14297815f);
    let c2 = fma(0.01696122f, v, 0.10524456f);
    let p = fma(fma(fma(0.18513627f, v2, c2), v2, c1), v2, c0);
        return copy_sign_f32(fma(a * v, p, a), x);
    }
    // ln(1 + 2a / (1 - a)) / 2, in which only the quotient is rounded.
    let w = quotient_f32(a + a, 1.0f - a);
    return copy_sign_f32(0.5f * log_of_sum_f32(w, 0.0f, 1.0f, 0.0f), x);
}
