// What every f64 function rests on; see base.wgsl.

// Positive infinity.
fn inf_f64() -> f64 {
    return bitcast<f64>(0x7ff0000000000000lu + u64(zero_word()));
}

// A quiet NaN.
fn nan_f64() -> f64 {
    return bitcast<f64>(0x7ff8000000000000lu + u64(zero_word()));
}

// The bits of |x|.
fn size_bits_f64(x: f64) -> u64 {
    return bitcast<u64>(x) & 0x7ffffffffffffffflu;
}

// Whether x is NaN.
fn is_nan_f64(x: f64) -> bool {
    return size_bits_f64(x) > 0x7ff0000000000000lu;
}

// Whether x is an infinity.
fn is_inf_f64(x: f64) -> bool {
    return size_bits_f64(x) == 0x7ff0000000000000lu;
}

// Whether x is +0 or -0.
fn is_zero_f64(x: f64) -> bool {
    return size_bits_f64(x) == 0lu;
}

// x as it is, but opaque to a compiler that would merge the operations before with those after.
fn keep_f64(x: f64) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) ^ u64(zero_word()));
}

// y, or x where x is NaN.
fn keep_nan_f64(y: f64, x: f64) -> f64 {
    return bitcast<f64>(select(bitcast<u64>(y), bitcast<u64>(x), is_nan_f64(x)));
}

// The magnitude of x with the sign of s; exact.
fn copy_sign_f64(x: f64, s: f64) -> f64 {
    return bitcast<f64>(size_bits_f64(x) | (bitcast<u64>(s) & 0x8000000000000000lu));
}

// The upper 26 of the 53 bits of x: the product of two such is exact.
fn head_f64(x: f64) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) & 0xfffffffff8000000lu);
}

// 2^n for -1022 <= n <= 1023; exact.
fn pow2_f64(n: i32) -> f64 {
    return bitcast<f64>(u64(u32(n + 1023)) << 52u);
}

// x 2^n for -2044 <= n <= 2046; rounded once if the result is subnormal and |x| >= 1.
fn scale_f64(x: f64, n: i32) -> f64 {
    let part = n >> 1u;
    return (x * pow2_f64(part)) * pow2_f64(n - part);
}

// The integer that the sum of a small number and 1.5 * 2^52 holds in its low bits.
fn low_int_f64(t: f64) -> i32 {
    return i32(u32(bitcast<u64>(t) & 0xfffffffflu));
}

// The smaller; NaN if either is.
fn min_f64(a: f64, b: f64) -> f64 {
    return keep_nan_f64(keep_nan_f64(select(b, a, a < b), b), a);
}

// The larger; NaN if either is.
fn max_f64(a: f64, b: f64) -> f64 {
    return keep_nan_f64(keep_nan_f64(select(b, a, a > b), b), a);
}

// -1, 0 or 1; zeros and NaN as they are.
fn sign_f64(x: f64) -> f64 {
    let bits = bitcast<u64>(x);
    let one = (bits & 0x8000000000000000lu) | 0x3ff0000000000000lu;
    return bitcast<f64>(select(one, bits, is_zero_f64(x) || is_nan_f64(x)));
}

// x rounded toward zero; exact.
fn trunc_f64(x: f64) -> f64 {
    return copy_sign_f64(floor(abs(x)), x);
}

// x rounded to an integer, halves to even; exact.
fn round_f64(x: f64) -> f64 {
    // From 2^52 on all numbers are whole.
    if (size_bits_f64(x) >= 0x4330000000000000lu) {
        return x;
    }
    let a = abs(x);
    let low = floor(a);
    let rest = a - low;
    let odd = (u64(low) & 1lu) != 0lu;
    let up = (rest > 0.5lf) || ((rest == 0.5lf) && odd);
    return copy_sign_f64(select(low, low + 1.0lf, up), x);
}

// 1 / x; the error of a division.
fn recip_f64(x: f64) -> f64 {
    return 1.0lf / x;
}

// 1 / sqrt(x), 2 ulp, though a square root and a division may have more.
fn rsqrt_f64(x: f64) -> f64 {
    let y = 1.0lf / sqrt(x);
    // A step of Newton's method, for positive normal numbers.
    let rest = fma(-(x * y), y, 1.0lf);
    let normal = (bitcast<u64>(x) - 0x0010000000000000lu) < 0x7fe0000000000000lu;
    return select(y, fma(0.5lf * y, rest, y), normal);
}

// a / b.
fn quotient_f64(a: f64, b: f64) -> f64 {
    return a / b;
}

// sqrt(x).
fn root_f64(x: f64) -> f64 {
    return sqrt(x);
}
