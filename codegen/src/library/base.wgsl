// What every f32 function rests on: special values, tests by bits, and guards against what a shader compiler may assume
// (that there are no NaNs or infinities, that sums may be reordered).

// Positive infinity.
fn inf_f32() -> f32 {
    return bitcast<f32>(0x7f800000u + zero_word());
}

// A quiet NaN.
fn nan_f32() -> f32 {
    return bitcast<f32>(0x7fc00000u + zero_word());
}

// Whether x is NaN.
fn is_nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// Whether x is an infinity.
fn is_inf_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

// Whether x is +0 or -0; subnormal numbers are not, even where arithmetic takes them for zero.
fn is_zero_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0u;
}

// x as it is, but opaque to a compiler that would merge the operations before with those after.
fn keep_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero_word());
}

// y, or x where x is NaN.
fn keep_nan_f32(y: f32, x: f32) -> f32 {
    return bitcast<f32>(select(bitcast<u32>(y), bitcast<u32>(x), is_nan_f32(x)));
}

// The magnitude of x with the sign of s; exact.
fn copy_sign_f32(x: f32, s: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(s) & 0x80000000u));
}

// The upper 12 of the 24 bits of x: the product of two such is exact.
fn head_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// 2^n for -126 <= n <= 127; exact.
fn pow2_f32(n: i32) -> f32 {
    return bitcast<f32>(u32(n + 127) << 23u);
}

// x 2^n for -252 <= n <= 254; rounded once if the result is subnormal and |x| >= 1.
fn scale_f32(x: f32, n: i32) -> f32 {
    let part = n >> 1u;
    return (x * pow2_f32(part)) * pow2_f32(n - part);
}

// The smaller; NaN if either is.
fn min_f32(a: f32, b: f32) -> f32 {
    return keep_nan_f32(keep_nan_f32(select(b, a, a < b), b), a);
}

// The larger; NaN if either is.
fn max_f32(a: f32, b: f32) -> f32 {
    return keep_nan_f32(keep_nan_f32(select(b, a, a > b), b), a);
}

// -1, 0 or 1; zeros and NaN as they are.
fn sign_f32(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let one = (bits & 0x80000000u) | 0x3f800000u;
    return bitcast<f32>(select(one, bits, is_zero_f32(x) || is_nan_f32(x)));
}

// x rounded to an integer, halves to even; exact.
fn round_f32(x: f32) -> f32 {
    // From 2^23 on all numbers are whole.
    if ((bitcast<u32>(x) & 0x7fffffffu) >= 0x4b000000u) {
        return x;
    }
    let a = abs(x);
    let low = floor(a);
    let rest = a - low;
    let odd = (u32(low) & 1u) != 0u;
    let up = (rest > 0.5f) || ((rest == 0.5f) && odd);
    return copy_sign_f32(select(low, low + 1.0f, up), x);
}

// 1 / x; the error of a division.
fn recip_f32(x: f32) -> f32 {
    return 1.0f / x;
}

// 1 / sqrt(x), 2 ulp, though a square root and a division may have more.
fn rsqrt_f32(x: f32) -> f32 {
    let y = 1.0f / sqrt(x);
    // A step of Newton's method, for positive normal numbers.
    let rest = fma(-(x * y), y, 1.0f);
    let normal = (bitcast<u32>(x) - 0x00800000u) < 0x7f000000u;
    return select(y, fma(0.5f * y, rest, y), normal);
}

// a / b, 1 ulp however a device divides, for numbers of moderate size. CUDA divides exactly.
fn quotient_f32(a: f32, b: f32) -> f32 {
    let q = a / b;
    // a - q b by halves, whose products are exact.
    let qh = head_f32(q);
    let ql = keep_f32(q - qh);
    let bh = head_f32(b);
    let bl = keep_f32(b - bh);
    let upper = keep_f32(keep_f32(a - (qh * bh)) - (qh * bl));
    let rest = keep_f32(upper - (ql * bh)) - (ql * bl);
    return q + (rest / b);
}

// sqrt(x), 1 ulp however a device takes roots, for numbers of moderate size and zero. CUDA takes exact ones.
fn root_f32(x: f32) -> f32 {
    let s = sqrt(x);
    let high = head_f32(s);
    let low = keep_f32(s - high);
    let upper = keep_f32(keep_f32(x - (high * high)) - ((high + high) * low));
    let rest = upper - (low * low);
    return select(s + ((0.5f * rest) / s), 0.0f, is_zero_f32(x));
}
