//! Error bounds and special values of the maths functions.

use super::reference::{self, Dd, Scaled};
use super::{Random, run1, run2};
use crate::math::{Form, binary, unary};
use crate::simd::Isa;
use millstream_core::{Binary, DType, Unary};

/// The bound that the functions promise.
const BOUND: f64 = 2.0;

/// An operation and its reference.
type Case<R> = (Unary, fn(f64) -> R);

/// Functions of f32 with a reference whose error is far below an f32's.
const SINGLE: [Case<f64>; 25] = [
    (Unary::Exp, f64::exp),
    (Unary::Expm1, f64::exp_m1),
    (Unary::Log, f64::ln),
    (Unary::Log1p, f64::ln_1p),
    (Unary::Tanh, f64::tanh),
    (Unary::Sigmoid, sigmoid),
    (Unary::Sin, f64::sin),
    (Unary::Cos, f64::cos),
    (Unary::Erf, erf),
    (Unary::Rsqrt, rsqrt),
    (Unary::Sqrt, f64::sqrt),
    (Unary::Recip, f64::recip),
    (Unary::Abs, f64::abs),
    (Unary::Tan, f64::tan),
    (Unary::Asin, f64::asin),
    (Unary::Acos, f64::acos),
    (Unary::Atan, f64::atan),
    (Unary::Sinh, f64::sinh),
    (Unary::Cosh, f64::cosh),
    (Unary::Asinh, f64::asinh),
    (Unary::Acosh, acosh),
    (Unary::Atanh, f64::atanh),
    (Unary::Exp2, f64::exp2),
    (Unary::Log2, f64::log2),
    (Unary::Log10, f64::log10),
];

/// The standard library's loses all digits near 1.
fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    if (1.0..2.0).contains(&x) { (t + (t * (t + 2.0)).sqrt()).ln_1p() } else { x.acosh() }
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn erf(x: f64) -> f64 {
    let Dd(high, low) = reference::erf(x);
    (high + low).copysign(x)
}

fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// The distance of an f32 from an exact value, in units in the last place of an f32 of that size.
fn ulps(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.is_nan() || near.is_nan() || got.is_infinite() || near.is_infinite() {
        return if got == near || (got.is_nan() && near.is_nan()) { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((near.abs().to_bits() >> 23) as i32).max(1) - 150;
    (f64::from(got) - want).abs() / 2f64.powi(exponent)
}

fn check_single(op: Unary, f: fn(f64) -> f64, x: &[f32], seed: u64) {
    for isa in Isa::available() {
        let kernel = unary(isa, op, DType::F32).unwrap();
        let mut y = vec![0f32; x.len()];
        run1(kernel, x, &mut y);
        let mut worst = (0.0, 0.0);
        for (&x, &y) in x.iter().zip(&y) {
            let want = f(f64::from(x));
            let error = ulps(y, want);
            if error > worst.0 {
                worst = (error, x);
            }
            assert!(error <= BOUND, "{op:?} on {isa:?}: {x:e} gives {y:e}, not {want:e}: {error} ulp (seed {seed})");
            if !want.is_nan() {
                assert_eq!(
                    y.is_sign_negative(),
                    want.is_sign_negative(),
                    "{op:?} on {isa:?}: the sign of {y} for {x:e}"
                );
            }
        }
        println!("{op:?} on {isa:?}: {:.3} ulp at {:e}", worst.0, worst.1);
    }
}

#[test]
fn f32_functions_are_within_two_ulp_for_random_arguments_of_every_size() {
    let mut random = Random::new();
    let seed = random.seed;
    for (op, f) in SINGLE {
        let mut x: Vec<f32> = (0..40_000).map(|_| f32::from_bits(random.bits() as u32)).collect();
        // Where most functions are curved.
        x.extend((0..40_000).map(|_| (random.unit() * 20.0 - 10.0) as f32));
        x.extend((0..20_000).map(|_| (random.unit() * 240.0 - 120.0) as f32));
        x.extend((0..20_000).map(|_| (random.unit() * 2.0 - 1.0) as f32));
        check_single(op, f, &x, seed);
    }
}

#[test]
fn f32_functions_are_within_two_ulp_for_every_f16_and_bf16() {
    let mut x: Vec<f32> = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32()).collect();
    x.extend((0..=u16::MAX).map(|bits| half::bf16::from_bits(bits).to_f32()));
    for (op, f) in SINGLE {
        check_single(op, f, &x, 0);
    }
}

#[test]
fn f32_functions_are_right_at_the_edges() {
    let mut x = Vec::new();
    for edge in [
        0.0,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        1.0,
        2.0,
        0.5,
        f32::MAX,
        f32::INFINITY,
        88.722_84,
        89.0,
        103.972_08,
        104.0,
        87.336_55,
        17.328_68,
        9.02,
        3.95,
        0.95,
        std::f32::consts::LN_2 / 2.0,
        std::f32::consts::FRAC_PI_4,
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::PI,
        1.0e5,
        8.507_059e37,
        std::f32::consts::SQRT_2,
        std::f32::consts::FRAC_1_SQRT_2,
        89.415_986,
        89.5,
        128.0,
        150.0,
        8192.0,
        1.8e19,
    ] {
        // And its neighbours.
        for step in -40..=40 {
            let near = f32::from_bits((edge.to_bits() as i32 + step).max(0) as u32);
            x.extend([near, -near]);
        }
    }
    x.extend([f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)]);
    for (op, f) in SINGLE {
        check_single(op, f, &x, 0);
    }
}

#[test]
fn sine_and_cosine_of_huge_f32_keep_their_bound() {
    let mut random = Random::new();
    let seed = random.seed;
    // Exponents from 2^16 to 2^127.
    let x: Vec<f32> = (0..30_000)
        .map(|_| {
            let exponent = 143 + random.below(112) as u32;
            let mantissa = random.bits() as u32 & 0x807f_ffff;
            f32::from_bits(exponent << 23 | mantissa)
        })
        .collect();
    check_single(Unary::Sin, f64::sin, &x, seed);
    check_single(Unary::Cos, f64::cos, &x, seed);
}

#[test]
fn f64_functions_are_within_two_ulp_of_a_hundred_bit_reference() {
    let functions: [Case<Scaled>; 22] = [
        (Unary::Exp, |x| reference::exp(Dd::from(x))),
        (Unary::Expm1, |x| if x.abs() < 1e-290 { Dd::from(x).into() } else { reference::expm1(Dd::from(x)) }),
        (Unary::Log, |x| reference::log(x).into()),
        (Unary::Log1p, |x| reference::log1p(x).into()),
        (Unary::Tanh, |x| reference::tanh(x).into()),
        (Unary::Sigmoid, reference::sigmoid),
        (Unary::Sin, |x| if x.abs() < 1e-150 { Dd::from(x).into() } else { reference::sin(x, 0).into() }),
        (Unary::Cos, |x| reference::sin(x, 1).into()),
        (Unary::Erf, |x| reference::erf(x).into()),
        (Unary::Rsqrt, |x| reference::rsqrt(x).into()),
        (Unary::Tan, |x| reference::tan(x).into()),
        (Unary::Asin, |x| reference::asin(x).into()),
        (Unary::Acos, |x| reference::acos(x).into()),
        (Unary::Atan, |x| reference::atan(x).into()),
        (Unary::Sinh, reference::sinh),
        (Unary::Cosh, reference::cosh),
        (Unary::Asinh, |x| reference::asinh(x).into()),
        (Unary::Acosh, |x| reference::acosh(x).into()),
        (Unary::Atanh, |x| reference::atanh(x).into()),
        (Unary::Exp2, reference::exp2),
        (Unary::Log2, |x| reference::log2(x).into()),
        (Unary::Log10, |x| reference::log10(x).into()),
    ];
    let mut random = Random::new();
    let seed = random.seed;
    for (op, f) in functions {
        // Beyond, sine, cosine and tangent are the platform's.
        let limit = if matches!(op, Unary::Sin | Unary::Cos | Unary::Tan) { 1e5 } else { f64::INFINITY };
        let mut x: Vec<f64> = (0..2_000).map(|_| f64::from_bits(random.bits())).collect();
        x.extend((0..3_000).map(|_| random.unit() * 2.0 - 1.0));
        x.extend((0..3_000).map(|_| random.unit() * 12.0 - 6.0));
        x.extend((0..1_500).map(|_| random.unit() * 1500.0 - 750.0));
        x.extend((0..500).map(|_| random.unit() * 2e5 - 1e5));
        // Close to 1, where some have a zero, a pole or an edge.
        x.extend((0..1_000).map(|_| 1.0 + (random.unit() - 0.5) * 2f64.powi(-(random.below(52) as i32))));
        x.retain(|x| x.abs() <= limit);
        let want: Vec<Scaled> = x.iter().map(|&x| f(x)).collect();
        for isa in Isa::available() {
            let kernel = unary(isa, op, DType::F64).unwrap();
            let mut y = vec![0f64; x.len()];
            run1(kernel, &x, &mut y);
            let mut worst = (0.0, 0.0);
            for ((&x, &y), want) in x.iter().zip(&y).zip(&want) {
                let error = want.ulps(y);
                if error > worst.0 {
                    worst = (error, x);
                }
                assert!(
                    error <= BOUND,
                    "{op:?} on {isa:?}: {x:e} gives {y:e}, not {want:?}: {error} ulp (seed {seed})"
                );
            }
            println!("{op:?} f64 on {isa:?}: {:.3} ulp at {:e}", worst.0, worst.1);
        }
    }
}

#[test]
fn f64_functions_are_right_at_special_values() {
    let tiny = f64::from_bits(1);
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases: [(Unary, &[(f64, f64)]); 10] = [
        (Unary::Exp, &[(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (nan, nan), (710.0, inf), (-746.0, 0.0)]),
        (Unary::Exp, &[(-745.0, tiny), (709.782_712_893_384, 1.797_693_134_862_273_2e308)]),
        (Unary::Expm1, &[(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0), (nan, nan), (tiny, tiny)]),
        (Unary::Log, &[(0.0, -inf), (-0.0, -inf), (-1.0, nan), (inf, inf), (1.0, 0.0), (nan, nan), (-inf, nan)]),
        (Unary::Log1p, &[(-1.0, -inf), (-0.0, -0.0), (-2.0, nan), (inf, inf), (nan, nan), (tiny, tiny)]),
        (Unary::Tanh, &[(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (tiny, tiny), (50.0, 1.0)]),
        (Unary::Sigmoid, &[(0.0, 0.5), (inf, 1.0), (-inf, 0.0), (nan, nan)]),
        (Unary::Sin, &[(0.0, 0.0), (-0.0, -0.0), (inf, nan), (nan, nan), (tiny, tiny), (-tiny, -tiny)]),
        (Unary::Cos, &[(0.0, 1.0), (-0.0, 1.0), (-inf, nan), (nan, nan)]),
        (Unary::Erf, &[(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (7.0, 1.0)]),
    ];
    for isa in Isa::available() {
        for (op, cases) in cases {
            let kernel = unary(isa, op, DType::F64).unwrap();
            for &(x, want) in cases {
                let mut y = [0f64];
                run1(kernel, &[x], &mut y);
                let same = y[0].to_bits() == want.to_bits() || (y[0].is_nan() && want.is_nan());
                assert!(same, "{op:?} on {isa:?}: {x:e} gives {:e}, not {want:e}", y[0]);
            }
        }
    }
}

#[test]
fn sine_and_cosine_of_huge_f64_agree_with_the_platform() {
    let mut random = Random::new();
    let x: Vec<f64> = (0..2000).map(|_| 1e5 * 10f64.powf(random.unit() * 300.0)).collect();
    for isa in Isa::available() {
        for (op, f) in [(Unary::Sin, f64::sin as fn(f64) -> f64), (Unary::Cos, f64::cos)] {
            let mut y = vec![0.0; x.len()];
            run1(unary(isa, op, DType::F64).unwrap(), &x, &mut y);
            for (&x, &y) in x.iter().zip(&y) {
                assert_eq!(y, f(x), "{op:?} of {x:e}");
            }
        }
    }
}

#[test]
fn f32_powers_are_within_two_ulp() {
    let mut random = Random::new();
    let seed = random.seed;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 0..100_000 {
        let (x, y) = match i % 4 {
            0 => (f32::from_bits(random.bits() as u32), f32::from_bits(random.bits() as u32)),
            // Results over the whole range.
            1 => {
                let x = f32::from_bits(random.bits() as u32 & 0x7fff_ffff);
                (x, ((random.unit() * 300.0 - 150.0) / f64::from(x).log2()) as f32)
            }
            2 => ((random.unit() * 8.0 - 4.0) as f32, random.below(41) as f32 - 20.0),
            // Bases near 1 with large exponents.
            _ => {
                let x = 1.0 + (random.unit() - 0.5) as f32 * 2f32.powi(-(random.below(20) as i32));
                (x, ((random.unit() * 300.0 - 150.0) / f64::from(x).log2()) as f32)
            }
        };
        a.push(x);
        b.push(y);
    }
    for isa in Isa::available() {
        let mut dst = vec![0f32; a.len()];
        run2(binary(isa, Binary::Pow, DType::F32, Form::VV).unwrap(), &a, &b, &mut dst);
        for i in 0..a.len() {
            let want = f64::from(a[i]).powf(f64::from(b[i]));
            let error = ulps(dst[i], want);
            assert!(
                error <= BOUND,
                "{:e}^{:e} on {isa:?} is {:e}, not {want:e}: {error} (seed {seed})",
                a[i],
                b[i],
                dst[i]
            );
        }
    }
}

#[test]
fn powers_of_special_values_are_those_of_c99() {
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        2.5,
        -2.5,
        1e10,
        -1e10,
        16_777_215.0,
        16_777_217.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::MAX,
    ];
    for isa in Isa::available() {
        let single = binary(isa, Binary::Pow, DType::F32, Form::SV).unwrap();
        let double = binary(isa, Binary::Pow, DType::F64, Form::SV).unwrap();
        let wide: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
        for &x in &values {
            let mut y = vec![0f32; values.len()];
            run2(single, &[x], &values, &mut y);
            let mut z = vec![0f64; values.len()];
            run2(double, &[f64::from(x)], &wide, &mut z);
            for (i, &exponent) in values.iter().enumerate() {
                let want = f64::from(x).powf(f64::from(exponent));
                assert!(ulps(y[i], want) <= BOUND, "{x:e}^{exponent:e} on {isa:?} is {:e}, not {want:e}", y[i]);
                if !want.is_nan() {
                    assert_eq!(y[i].is_sign_negative(), want.is_sign_negative(), "{x:e}^{exponent:e}");
                }
                assert!(z[i] == want || (z[i].is_nan() && want.is_nan()), "f64 {x:e}^{exponent:e} on {isa:?}");
            }
        }
    }
}

/// Every f32 there is, which takes minutes: `cargo test --release every_f32 -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn f32_functions_are_within_two_ulp_for_every_f32() {
    for (op, f) in SINGLE {
        let isa = Isa::detect();
        let kernel = unary(isa, op, DType::F32).unwrap();
        let (mut x, mut y) = (vec![0f32; 1 << 16], vec![0f32; 1 << 16]);
        let (mut worst, mut at) = (0.0, 0.0);
        for high in 0..1 << 16 {
            for (low, x) in x.iter_mut().enumerate() {
                *x = f32::from_bits(high << 16 | low as u32);
            }
            run1(kernel, &x, &mut y);
            for (&x, &y) in x.iter().zip(&y) {
                let error = ulps(y, f(f64::from(x)));
                if error > worst {
                    (worst, at) = (error, x);
                }
            }
        }
        println!("{op:?} on {isa:?}: at most {worst:.3} ulp, at {at:e}");
        assert!(worst <= BOUND);
    }
}
