// The exponential function of f64 and its relatives; see exp.wgsl.

// log2(e).
const LOG2_E_F64 = 1.4426950408889634lf;
// ln(2) with its low 11 bits cleared.
const LN2_HI_F64 = 0.6931471805598903lf;
// ln(2) - LN2_HI.
const LN2_LO_F64 = 5.497923018708371e-14lf;
// 1.5 * 2^52.
const ROUND_F64 = 6755399441055744.0lf;

// e^r - 1 for |r| <= ln(2)/2, to 2^-56 of e^r.
fn exp_core_f64(r: f64) -> f64 {
    let r2 = r * r;
    let a0 = fma(0.1666666666666641lf, r, 0.5000000000000011lf);
    let a1 = fma(0.008333333333495483lf, r, 0.04166666666652917lf);
    let a2 = fma(0.00019841269505027436lf, r, 0.001388888894392793lf);
    let a3 = fma(2.7557587136672582e-6lf, r, 2.480149275734197e-5lf);
    let a4 = fma(2.5000023569522553e-8lf, r, 2.7630380531851376e-7lf);
    let p = fma(fma(fma(fma(a4, r2, a3), r2, a2), r2, a1), r2, a0);
    return fma(p, r2, r);
}

// e^x 2^k for |k| <= 4, 1 ulp; the result may leave the range where e^x alone would not, and the other way round.
fn exp_scaled_f64(x: f64, k: i32) -> f64 {
    let low = select(x, -749.0lf, x < -749.0lf);
    let y = select(low, 713.0lf, low > 713.0lf);
    let t = keep_f64(fma(y, LOG2_E_F64, ROUND_F64));
    let n = t - ROUND_F64;
    let r = fma(-n, LN2_LO_F64, fma(-n, LN2_HI_F64, y));
    let q = exp_core_f64(r);
    // 2^n in two factors, so that n = 1024 works and subnormal results round once.
    let e = low_int_f64(t) + k;
    let part = e >> 1u;
    let scale = pow2_f64(part);
    return keep_nan_f64(fma(q, scale, scale) * pow2_f64(e - part), x);
}

// e^x, 1 ulp.
fn exp_f64(x: f64) -> f64 {
    return exp_scaled_f64(x, 0);
}

// e^x - 1, 2 ulp.
fn expm1_f64(x: f64) -> f64 {
    let low = select(x, -38.0lf, x < -38.0lf);
    let y = select(low, 710.0lf, low > 710.0lf);
    let t = keep_f64(fma(y, LOG2_E_F64, ROUND_F64));
    let n = t - ROUND_F64;
    let r = fma(-n, LN2_LO_F64, fma(-n, LN2_HI_F64, y));
    let r2 = r * r;
    let a0 = fma(0.16666666666666677lf, r, 0.5lf);
    let a1 = fma(0.008333333333321608lf, r, 0.041666666666666505lf);
    let a2 = fma(0.00019841269886205636lf, r, 0.001388888888896291lf);
    let a3 = fma(2.7557244106000195e-6lf, r, 2.480158717182312e-5lf);
    let a4 = fma(2.510908091456841e-8lf, r, 2.7557402952565565e-7lf);
    let p_upper = fma(fma(2.0875326770765097e-9lf, r2, a4), r2, a3);
    let p = fma(fma(fma(p_upper, r2, a2), r2, a1), r2, a0);
    let s = p * r2;
    // With half of 2^n, since 2^1024 is not finite.
    let part = pow2_f64(low_int_f64(t) - 1);
    let h = fma(part, s, fma(part, r, part - 0.5lf));
    // Half of a subnormal is not exact, and the sum of signed zeros is +0.
    let tiny = abs(x) < 5.551115123125783e-17lf;
    return keep_nan_f64(select(h + h, x, tiny), x);
}

// tanh x, 2 ulp.
fn tanh_f64(x: f64) -> f64 {
    // With h = (e^2a - 1) / 2, tanh a = h / (h + 1); see the f32 function.
    let size = abs(x);
    let a = select(size, 19.1lf, size > 19.1lf);
    let t = keep_f64(fma(a, 2.8853900817779268lf, -0.1lf) + ROUND_F64);
    let n = t - ROUND_F64;
    let r = fma(-n, 2.7489615093541855e-14lf, fma(-n, 0.34657359027994515lf, a));
    let r2 = r * r;
    let a0 = fma(0.6666666666666664lf, r, 1.0lf);
    let a1 = fma(0.13333333333346384lf, r, 0.33333333333334336lf);
    let a2 = fma(0.012698412681924945lf, r, 0.04444444444179022lf);
    let a3 = fma(0.0007054679860022795lf, r, 0.0031746034707947138lf);
    let a4 = fma(2.5662436826186286e-5lf, r, 0.00014107855982189185lf);
    let c_upper = fma(fma(4.556173179441035e-6lf, r2, a4), r2, a3);
    let c = fma(fma(fma(c_upper, r2, a2), r2, a1), r2, a0);
    let s = c * r2;
    let p = pow2_f64(low_int_f64(t));
    let h = fma(p, s, fma(p, r, fma(p, 0.5lf, -0.5lf)));
    let large = h > 4.0lf;
    let y = select(h, 1.0lf, large) / (h + 1.0lf);
    let z = select(select(y, 1.0lf - y, large), fma(-y, h, h), h < 0.6lf);
    return keep_nan_f64(copy_sign_f64(z, x), x);
}

// 1 / (1 + e^-x), 2 ulp.
fn sigmoid_f64(x: f64) -> f64 {
    // e^-|x| never overflows, and carries the subnormal results of very negative x.
    let e = exp_scaled_f64(-abs(x), 0);
    // With z = e / (1 + e) it is 1 - z for positive x and e (1 - z) = z for negative.
    let z = e / (e + 1.0lf);
    let w = select(1.0lf, e, x < 0.0lf);
    return keep_nan_f64(fma(-z, w, w), x);
}
