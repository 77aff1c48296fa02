// The error function of f64.

// erf a for 0 <= a < 1: a + a P(a^2).
fn erf_small_f64(a: f64) -> f64 {
    let u = a * a;
    let u2 = u * u;
    let a0 = fma(-0.3761263890318375lf, u, 0.1283791670955126lf);
    let a1 = fma(-0.026866170645072334lf, u, 0.11283791670954854lf);
    let a2 = fma(-0.0008548326978402144lf, u, 0.00522397762477518lf);
    let a3 = fma(-1.4925593187694311e-5lf, u, 0.00012055331024043654lf);
    let a4 = fma(-1.6349967729204277e-7lf, u, 1.6460967541061765e-6lf);
    let a5 = fma(-1.1364096343224348e-9lf, u, 1.4657483191623832e-8lf);
    let p_upper = fma(fma(fma(5.942548120968251e-11lf, u2, a5), u2, a4), u2, a3);
    let p = fma(fma(fma(p_upper, u2, a2), u2, a1), u2, a0);
    return fma(p, a, a);
}

// erf a for 1 <= a <= 6: 1 - e^-g, g = P(a - 2.25).
fn erf_large_f64(a: f64) -> f64 {
    let c = a - 2.25lf;
    let c2 = c * c;
    let a0 = fma(4.882913810544551lf, c, 6.527459896365818lf);
    let a1 = fma(0.013312548394268693lf, c, 0.9348675668781244lf);
    let a2 = fma(0.0005548409091023492lf, c, -0.002771336832185804lf);
    let a3 = fma(1.6603897683964933e-5lf, c, -0.00010263778884701444lf);
    let a4 = fma(7.20939286137669e-8lf, c, -2.0482848656426045e-6lf);
    let a5 = fma(-2.662363070565786e-8lf, c, 6.161863569169493e-8lf);
    let a6 = fma(-1.5667946881406028e-9lf, c, 7.351447052939687e-9lf);
    let a7 = fma(-2.2905558129750733e-11lf, c, 2.475286476068422e-10lf);
    let a8 = fma(3.3342979552697626e-12lf, c, -2.5096417188024757e-12lf);
    let a9 = fma(1.7871145126230988e-13lf, c, -1.3036599079497769e-12lf);
    let g_upper = fma(fma(fma(fma(a9, c2, a8), c2, a7), c2, a6), c2, a5);
    let g = fma(fma(fma(fma(fma(g_upper, c2, a4), c2, a3), c2, a2), c2, a1), c2, a0);
    let t = keep_f64(fma(-g, LOG2_E_F64, ROUND_F64));
    let n = t - ROUND_F64;
    let r = fma(-n, LN2_LO_F64, fma(-n, LN2_HI_F64, -g));
    let q = exp_core_f64(r);
    let p = pow2_f64(low_int_f64(t));
    return fma(-p, q, 1.0lf - p);
}

// erf x, 2 ulp.
fn erf_f64(x: f64) -> f64 {
    let size = abs(x);
    let a = select(size, 6.0lf, size > 6.0lf);
    var y = 0.0lf;
    if (a < 1.0lf) {
        y = erf_small_f64(a);
        // Of what is tiny the product may be subnormal.
        y = select(y, a * 1.1283791670955126lf, a < 1e-200lf);
    } else {
        y = erf_large_f64(a);
    }
    return keep_nan_f64(copy_sign_f64(y, x), x);
}
