// Sine and cosine of f64, over the whole range of f64; see trig.wgsl.

// The upper half of the product of two long words.
fn mul_high_u64(a: u64, b: u64) -> u64 {
    let al = a & 0xfffffffflu;
    let ah = a >> 32u;
    let bl = b & 0xfffffffflu;
    let bh = b >> 32u;
    let lh = al * bh;
    let hl = ah * bl;
    let mid = (((al * bl) >> 32u) + (lh & 0xfffffffflu)) + (hl & 0xfffffffflu);
    return ((ah * bh) + (lh >> 32u)) + ((hl >> 32u) + (mid >> 32u));
}

// Long word i of the binary digits of 1 / pi, where word 0 is the part before the point.
fn inv_pi_long_word(i: u32) -> u64 {
    var w = 0lu;
    w = select(w, 0x517cc1b727220a94lu, i == 1u);
    w = select(w, 0xfe13abe8fa9a6ee0lu, i == 2u);
    w = select(w, 0x6db14acc9e21c820lu, i == 3u);
    w = select(w, 0xff28b1d5ef5de2b0lu, i == 4u);
    w = select(w, 0xdb92371d2126e970lu, i == 5u);
    w = select(w, 0x0324977504e8c90elu, i == 6u);
    w = select(w, 0x7f0ef58e5894d39flu, i == 7u);
    w = select(w, 0x74411afa975da242lu, i == 8u);
    w = select(w, 0x74ce38135a2fbf20lu, i == 9u);
    w = select(w, 0x9cc8eb1cc1a99cfalu, i == 10u);
    w = select(w, 0x4e422fc5defc941dlu, i == 11u);
    w = select(w, 0x8ffc4bffef02cc07lu, i == 12u);
    w = select(w, 0xf79788c5ad05368flu, i == 13u);
    w = select(w, 0xb69b3f6793e584dblu, i == 14u);
    w = select(w, 0xa7a31fb34f2ff516lu, i == 15u);
    w = select(w, 0xba93dd63f5f2f8bdlu, i == 16u);
    w = select(w, 0x9e839cfbc5294975lu, i == 17u);
    w = select(w, 0x35fdafd88fc6ae84lu, i == 18u);
    w = select(w, 0x2b0198237e3db5d5lu, i == 19u);
    return w;
}

// x = n pi/2 + r for |x| >= 2^19: gives r, to 2^-60 of it, and n modulo 4. NaN for infinities and NaN.
fn reduce_huge_angle_f64(x: f64) -> c128 {
    let bits = bitcast<u64>(x);
    let field = u32((bits >> 52u) & 0x7fflu);
    if (field == 0x7ffu) {
        return c128(nan_f64(), 0.0lf);
    }
    // |x| = m 2^e, -33 <= e <= 971; 192 digits of 1 / pi from 2^(1 - e) on: those before give even multiples of pi.
    let m = (bits & 0x000ffffffffffffflu) | 0x0010000000000000lu;
    let start = field - 1012u;
    let word = start >> 6u;
    let left = start & 63u;
    let right = 63u - left;
    let d1 = inv_pi_long_word(word + 1u);
    let d2 = inv_pi_long_word(word + 2u);
    let w0 = (inv_pi_long_word(word) << left) | ((d1 >> 1u) >> right);
    let w1 = (d1 << left) | ((d2 >> 1u) >> right);
    let w2 = (d2 << left) | ((inv_pi_long_word(word + 3u) >> 1u) >> right);
    // |x| / pi modulo 2, in units of 2^-191.
    var t2 = m * w2;
    let low = m * w1;
    var t1 = low + mul_high_u64(m, w2);
    var t0 = ((m * w0) + mul_high_u64(m, w1)) + select(0lu, 1lu, t1 < low);
    let n = u32((t0 + 0x2000000000000000lu) >> 62u);
    // What is left beyond the nearest half: its size and sign.
    t0 = t0 - (u64(n) << 62u);
    let below = (t0 >> 63u) != 0lu;
    if (below) {
        t2 = 0lu - t2;
        t1 = (0lu - t1) - select(0lu, 1lu, t2 != 0lu);
        t0 = (0lu - t0) - select(0lu, 1lu, (t1 | t2) != 0lu);
    }
    // At least 57 bits of it in t0.
    var e = -63;
    if (t0 == 0lu) {
        t0 = t1;
        t1 = t2;
        e = e - 64;
    }
    if (t0 < 0x100000000lu) {
        t0 = (t0 << 32u) | (t1 >> 32u);
        t1 = t1 << 32u;
        e = e - 32;
    }
    if (t0 < 0x1000000000000lu) {
        t0 = (t0 << 16u) | (t1 >> 48u);
        t1 = t1 << 16u;
        e = e - 16;
    }
    if (t0 < 0x100000000000000lu) {
        t0 = (t0 << 8u) | (t1 >> 56u);
        t1 = t1 << 8u;
        e = e - 8;
    }
    // Times pi: the product of the upper 26 bits of both is exact.
    let high = f64(t0 & 0xffffffc000000000lu);
    let rest = fma(f64(t1), 5.421010862427522e-20lf, f64(t0 & 0x0000003ffffffffflu));
    let product = fma(high, 3.178650954705639e-8lf, rest * 3.141592653589793lf);
    let y = fma(high, 3.1415926218032837lf, product) * pow2_f64(e);
    let negative = (bits >> 63u) != 0lu;
    let quarter = select(n, 0u - n, negative) & 3u;
    return c128(select(y, -y, below != negative), f64(quarter));
}

// x = n pi/2 + r, |r| <= pi/4: gives r and n modulo 4.
fn reduce_angle_f64(x: f64) -> c128 {
    if (size_bits_f64(x) >= 0x412e848000000000lu) {
        return reduce_huge_angle_f64(x);
    }
    // Below 10^6 n has 20 bits, and the parts of pi/2 have 33 but for the last.
    let t = keep_f64(fma(x, 0.6366197723675814lf, 6755399441055744.0lf));
    let n = t - 6755399441055744.0lf;
    let a = fma(-n, 1.5707963267341256lf, x);
    let b = fma(-n, 6.077100506303966e-11lf, a);
    // What the last step lost, and the small part.
    let lost = fma(-n, 6.077100506303966e-11lf, keep_f64(a - b));
    let r = b + fma(-n, 2.0222662487959506e-21lf, lost);
    return c128(r, f64(low_int_f64(t) & 3));
}

// sin(n pi/2 + r) for |r| <= pi/4.
fn sin_quadrant_f64(n: u32, r: f64) -> f64 {
    let r2 = r * r;
    let r4 = r2 * r2;
    var y = 0.0lf;
    if ((n & 1u) == 0u) {
        let a0 = fma(0.008333333333322005lf, r2, -0.1666666666666663lf);
        let a1 = fma(2.75573135877962e-6lf, r2, -0.00019841269829496053lf);
        let a2 = fma(1.5895906045244625e-10lf, r2, -2.5050742332945515e-8lf);
        let p = fma(fma(a2, r4, a1), r4, a0);
        y = fma(r * r2, p, r);
    } else {
        let a0 = fma(-0.0013888888888872895lf, r2, 0.041666666666666595lf);
        let a1 = fma(-2.7557314148526135e-7lf, r2, 2.4801587288747814e-5lf);
        let a2 = fma(-1.1358309911729284e-11lf, r2, 2.0875696560504473e-9lf);
        let p = fma(fma(a2, r4, a1), r4, a0);
        y = fma(r4, p, fma(r2, -0.5lf, 1.0lf));
    }
    return select(y, -y, (n & 2u) != 0u);
}

// sin x, 2 ulp.
fn sin_f64(x: f64) -> f64 {
    let angle = reduce_angle_f64(x);
    let y = sin_quadrant_f64(u32(angle.y), angle.x);
    // The sum of signed zeros is +0.
    return keep_nan_f64(select(y, x, is_zero_f64(x)), x);
}

// cos x, 2 ulp.
fn cos_f64(x: f64) -> f64 {
    let angle = reduce_angle_f64(x);
    return keep_nan_f64(sin_quadrant_f64(u32(angle.y) + 1u, angle.x), x);
}

// tan x, 3 ulp.
fn tan_f64(x: f64) -> f64 {
    let angle = reduce_angle_f64(x);
    let r = angle.x;
    let v = r * r;
    let v2 = v * v;
    let c0 = fma(0.13333333333325342lf, v, 0.3333333333333338lf);
    let c1 = fma(0.021869488399325475lf, v, 0.053968253972903064lf);
    let c2 = fma(0.0035921008858844383lf, v, 0.008863237922093974lf);
    let c3 = fma(0.0005888647663596852lf, v, 0.0014560455053101464lf);
    let c4 = fma(8.355816351694963e-05lf, v, 0.00024375081751892974lf);
    let c5 = fma(-2.5642807428482537e-05lf, v, 6.722611616431719e-05lf);
    let c6 = fma(-2.428075361661838e-05lf, v, 4.8646581342277616e-05lf);
    let h0 = fma(fma(fma(9.80090887304223e-06lf, v2, c6), v2, c5), v2, c4);
    let h1 = fma(fma(fma(h0, v2, c3), v2, c2), v2, c1);
    let p = fma(h1, v2, c0);
    let y = fma(r * v, p, r);
    // Shifted by a quarter it is -1 / y.
    if ((u32(angle.y) & 1u) != 0u) {
        return keep_nan_f64(-quotient_f64(1.0lf, y), x);
    }
    // The sum of signed zeros is +0.
    return keep_nan_f64(select(y, x, is_zero_f64(x)), x);
}
