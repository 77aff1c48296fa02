// The error function of f32.

// erf x, 2 ulp.
fn erf_f32(x: f32) -> f32 {
    let size = abs(x);
    let a = select(size, 3.95f, size > 3.95f);
    let u = a * a;
    var y = 0.0f;
    if (a < 0.95f) {
        // a + a P(a^2).
        let u2 = u * u;
        let p0 = fma(-0.3761263f, u, 0.12837917f);
        let p1 = fma(-0.02685574f, u, 0.11283626f);
        let p2 = fma(-8.0508046e-4f, u, 0.0051924605f);
        y = fma(fma(fma(fma(8.002782e-5f, u2, p2), u2, p1), u2, p0), a, a);
        // Of what is tiny the product above may be taken for zero.
        y = select(y, a * 1.1283792f, a < 1e-30f);
    } else {
        // 1 - e^-g, g = P(a).
        let p0 = fma(1.1274816f, a, 2.4307655e-4f);
        let p1 = fma(0.10364958f, a, 0.6375062f);
        let p2 = fma(0.0030095985f, a, -0.022091987f);
        let g = fma(fma(fma(-1.925313e-4f, u, p2), u, p1), u, p0);
        let t = keep_f32(fma(-g, LOG2_E_F32, ROUND_F32));
        let n = t - ROUND_F32;
        let r = fma(-n, LN2_LO_F32, keep_f32(fma(-n, LN2_HI_F32, -g)));
        let q = exp_core_f32(r);
        let p = pow2_f32(bitcast<i32>(t) - 0x4b400000);
        y = fma(-p, q, 1.0f - p);
    }
    return keep_nan_f32(copy_sign_f32(y, x), x);
}
