// The inverse circular functions of f32.

// atan t for 0 <= t <= 1.
fn atan_core_f32(t: f32) -> f32 {
    let v = t * t;
    let v2 = v * v;
    let c0 = fma(0.1999853f, v, -0.333333f);
    let c1 = fma(0.10951187f, v, -0.14264043f);
    let c2 = fma(0.057912596f, v, -0.08400679f);
    let c3 = fma(0.010892815f, v, -0.031135248f);
    let h0 = fma(fma(fma(-0.0017889651f, v2, c3), v2, c2), v2, c1);
    let p = fma(h0, v2, c0);
    return fma(t * v, p, t);
}

// atan x, 2 ulp.
fn atan_f32(x: f32) -> f32 {
    let a = abs(x);
    var y = 0.0f;
    if (a > 1.0f) {
        // pi/2 - atan(1 / a), which is pi/2 from the limit on.
        let b = select(a, 1e9f, a > 1e9f);
        y = 1.5707964f - (atan_core_f32(quotient_f32(1.0f, b)) - -4.371139e-8f);
    } else {
        y = atan_core_f32(a);
    }
    return keep_nan_f32(copy_sign_f32(y, x), x);
}

// asin t - t for 0 <= t <= 1/2, where v = t^2.
fn asin_rest_f32(t: f32, v: f32) -> f32 {
    let v2 = v * v;
    let c0 = fma(0.07500522f, v, 0.1666666f);
    let c1 = fma(0.031839523f, v, 0.044513352f);
    let c2 = fma(0.03770212f, v, 0.014312173f);
    let p = fma(fma(c2, v2, c1), v2, c0);
    return (t * v) * p;
}

// asin x, 2 ulp; NaN outside of -1 to 1.
fn asin_f32(x: f32) -> f32 {
    let a = abs(x);
    if (is_nan_f32(x) || (a > 1.0f)) {
        return nan_f32();
    }
    if (a <= 0.5f) {
        return copy_sign_f32(a + asin_rest_f32(a, a * a), x);
    }
    // pi/2 - 2 asin t, with what the first difference loses.
    let v = fma(a, -0.5f, 0.5f);
    let t = root_f32(v);
    let high = 1.5707964f;
    let y = keep_f32(high - (t + t));
    let lost = keep_f32(high - y) - (t + t);
    let rest = asin_rest_f32(t, v);
    return copy_sign_f32(y + (lost - ((rest + rest) - -4.371139e-8f)), x);
}

// acos x, 2 ulp; NaN outside of -1 to 1.
fn acos_f32(x: f32) -> f32 {
    let a = abs(x);
    if (is_nan_f32(x) || (a > 1.0f)) {
        return nan_f32();
    }
    if (a <= 0.5f) {
        let y = copy_sign_f32(a + asin_rest_f32(a, a * a), x);
        return 1.5707964f - (y - -4.371139e-8f);
    }
    let v = fma(a, -0.5f, 0.5f);
    let t = root_f32(v);
    let half = t + asin_rest_f32(t, v);
    let y = half + half;
    return select(y, 3.1415927f - (y - -8.742278e-8f), x < 0.0f);
}
