// The inverse circular functions of f64; see inverse.wgsl.

// atan t for 0 <= t <= 1.
fn atan_core_f64(t: f64) -> f64 {
    let v = t * t;
    let v2 = v * v;
    let c0 = fma(0.1999999999995175lf, v, -0.3333333333333307lf);
    let c1 = fma(0.11111111007342679lf, v, -0.14285714282588136lf);
    let c2 = fma(0.07692279888889407lf, v, -0.090909070078019lf);
    let c3 = fma(0.05880529805022188lf, v, -0.06666404422875005lf);
    let c4 = fma(0.04722348356335762lf, v, -0.05253526771338995lf);
    let c5 = fma(0.03664316418578264lf, v, -0.04219243664279017lf);
    let c6 = fma(0.02198709551275285lf, v, -0.029905758130621934lf);
    let c7 = fma(0.007197899850220401lf, v, -0.013902597462193512lf);
    let c8 = fma(0.0008315619632007323lf, v, -0.0028856166963479465lf);
    let c9 = fma(1.3230046603951886e-05lf, v, -0.00015221162520550534lf);
    let h0 = fma(fma(fma(c9, v2, c8), v2, c7), v2, c6);
    let h1 = fma(fma(fma(h0, v2, c5), v2, c4), v2, c3);
    let p = fma(fma(fma(h1, v2, c2), v2, c1), v2, c0);
    return fma(t * v, p, t);
}

// atan x, 2 ulp.
fn atan_f64(x: f64) -> f64 {
    let a = abs(x);
    var y = 0.0lf;
    if (a > 1.0lf) {
        // pi/2 - atan(1 / a), which is pi/2 from the limit on.
        let b = select(a, 1e18lf, a > 1e18lf);
        y = 1.5707963267948966lf - (atan_core_f64(quotient_f64(1.0lf, b)) - 6.123233995736766e-17lf);
    } else {
        y = atan_core_f64(a);
    }
    return keep_nan_f64(copy_sign_f64(y, x), x);
}

// asin t - t for 0 <= t <= 1/2, where v = t^2.
fn asin_rest_f64(t: f64, v: f64) -> f64 {
    let v2 = v * v;
    let c0 = fma(0.07499999999970863lf, v, 0.1666666666666676lf);
    let c1 = fma(0.03038194270965154lf, v, 0.04464285717456482lf);
    let c2 = fma(0.017351612735563415lf, v, 0.02237221494229123lf);
    let c3 = fma(0.011398970878577193lf, v, 0.013980812726528846lf);
    let c4 = fma(0.003707483015947898lf, v, 0.01077994827262076lf);
    let c5 = fma(-0.020995773126327864lf, v, 0.0217049892051446lf);
    let h0 = fma(fma(fma(0.03262666912076133lf, v2, c5), v2, c4), v2, c3);
    let p = fma(fma(fma(h0, v2, c2), v2, c1), v2, c0);
    return (t * v) * p;
}

// asin x, 2 ulp; NaN outside of -1 to 1.
fn asin_f64(x: f64) -> f64 {
    let a = abs(x);
    if (is_nan_f64(x) || (a > 1.0lf)) {
        return nan_f64();
    }
    if (a <= 0.5lf) {
        return copy_sign_f64(a + asin_rest_f64(a, a * a), x);
    }
    // pi/2 - 2 asin t, with what the first difference loses.
    let v = fma(a, -0.5lf, 0.5lf);
    let t = root_f64(v);
    let high = 1.5707963267948966lf;
    let y = keep_f64(high - (t + t));
    let lost = keep_f64(high - y) - (t + t);
    let rest = asin_rest_f64(t, v);
    return copy_sign_f64(y + (lost - ((rest + rest) - 6.123233995736766e-17lf)), x);
}

// acos x, 2 ulp; NaN outside of -1 to 1.
fn acos_f64(x: f64) -> f64 {
    let a = abs(x);
    if (is_nan_f64(x) || (a > 1.0lf)) {
        return nan_f64();
    }
    if (a <= 0.5lf) {
        let y = copy_sign_f64(a + asin_rest_f64(a, a * a), x);
        return 1.5707963267948966lf - (y - 6.123233995736766e-17lf);
    }
    let v = fma(a, -0.5lf, 0.5lf);
    let t = root_f64(v);
    let half = t + asin_rest_f64(t, v);
    let y = half + half;
    return select(y, 3.141592653589793lf - (y - 1.2246467991473532e-16lf), x < 0.0lf);
}
