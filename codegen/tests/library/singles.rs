//! Functions of f32.

use millstream_core::what::{acosh, asinh, atanh};

use crate::host::{Host, Manner};
use crate::support::{Random, SPECIAL, map32, sigmoid, sign, ulps32};

type Function = fn(f64) -> f64;

/// Name, function, error with fusing, without, and on a loose device.
const FUNCTIONS: [(&str, Function, [f64; 3]); 28] = [
    ("exp_f32", f64::exp, [1.0, 1.5, 1.5]),
    ("expm1_f32", f64::exp_m1, [2.0, 2.0, 2.0]),
    ("log_f32", f64::ln, [2.0, 2.0, 2.0]),
    ("log1p_f32", f64::ln_1p, [2.0, 2.0, 2.0]),
    ("sin_f32", f64::sin, [2.0, 2.0, 2.0]),
    ("cos_f32", f64::cos, [2.0, 2.0, 2.0]),
    ("tanh_f32", f64::tanh, [2.0, 2.0, 4.0]),
    ("erf_f32", millstream_core::what::erf, [2.0, 2.0, 2.0]),
    ("sigmoid_f32", sigmoid, [2.0, 2.0, 4.0]),
    ("tan_f32", f64::tan, [3.0, 3.0, 3.5]),
    ("asin_f32", f64::asin, [2.0, 2.0, 2.0]),
    ("acos_f32", f64::acos, [2.0, 2.0, 2.0]),
    ("atan_f32", f64::atan, [2.0, 2.0, 2.0]),
    ("sinh_f32", f64::sinh, [2.0, 2.0, 2.0]),
    ("cosh_f32", f64::cosh, [2.0, 2.0, 4.0]),
    ("asinh_f32", asinh, [2.0, 2.0, 4.0]),
    ("acosh_f32", acosh, [2.0, 2.0, 2.0]),
    ("atanh_f32", atanh, [2.0, 2.0, 2.0]),
    ("exp2_f32", f64::exp2, [1.5, 1.5, 1.5]),
    ("log2_f32", f64::log2, [2.0, 2.0, 2.0]),
    ("log10_f32", f64::log10, [2.0, 2.0, 2.0]),
    ("rsqrt_f32", |x| 1.0 / x.sqrt(), [2.0, 2.0, 4.0]),
    ("recip_f32", |x| 1.0 / x, [0.5, 0.5, 2.5]),
    ("round_f32", f64::round_ties_even, [0.0; 3]),
    ("sign_f32", sign, [0.0; 3]),
    ("round_f16", |x| half::f16::from_f32(x as f32).to_f64(), [0.0; 3]),
    ("round_bf16", |x| half::bf16::from_f32(x as f32).to_f64(), [0.0; 3]),
    ("keep_f32", |x| x, [0.0; 3]),
];

fn inputs(random: &mut Random, count: usize) -> Vec<f32> {
    let mut list = SPECIAL.to_vec();
    // Near the multiples of pi/2, where sine and cosine vanish.
    list.extend((1..4000).map(|n| (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32));
    list.extend((0..2000).map(|_| (random.between(0.0, 1e6).round() * std::f64::consts::FRAC_PI_2) as f32));
    list.extend((0..count).map(|_| random.f32()));
    list
}

fn accuracy(manner: Manner) {
    let Some(host) = Host::new(manner) else { return };
    let mut random = Random::new();
    let input = inputs(&mut random, 200_000);
    for (name, function, bounds) in FUNCTIONS {
        let got = map32(&host, name, &input);
        let mut worst = (0.0, 0.0f32, 0.0f32);
        for (&x, &y) in input.iter().zip(&got) {
            let mut error = ulps32(function(x.into()), y, manner);
            if manner == Manner::Loose && x.abs() < f32::MIN_POSITIVE {
                error = error.min(ulps32(function(f64::from(0f32.copysign(x))), y, manner));
            }
            if error > worst.0 {
                worst = (error, x, y);
            }
        }
        let (error, x, y) = worst;
        println!("{manner:?} {name}: {error:.3} ulp at {x:e}");
        let bound = bounds[manner as usize];
        assert!(error <= bound, "{manner:?} {name}({x:e}) = {y:e}, not {:e}: {error} ulp", function(x.into()));
    }
}

#[test]
fn functions_of_f32_keep_their_bounds_where_products_are_fused() {
    accuracy(Manner::Fused);
}

#[test]
fn functions_of_f32_keep_their_bounds_where_nothing_is_fused() {
    accuracy(Manner::Split);
}

#[test]
fn functions_of_f32_keep_their_bounds_on_loose_devices() {
    accuracy(Manner::Loose);
}

fn pairs(random: &mut Random) -> Vec<(f32, f32)> {
    let mut list = Vec::new();
    for a in SPECIAL {
        list.extend(SPECIAL.iter().map(|&b| (a, b)));
    }
    for _ in 0..100_000 {
        list.push((random.f32(), random.f32()));
        // Powers of moderate size.
        let x = random.between(-20.0, 20.0).exp2() as f32;
        list.push((x, (random.between(-150.0, 150.0) / f64::from(x.log2())) as f32));
        let near = random.between(0.9, 1.1) as f32;
        list.push((near, (random.between(-150.0, 150.0) / f64::from(near).log2()) as f32));
        // Nearly whole quotients.
        let b = random.f32();
        list.push(((f64::from(b) * random.between(-1e4, 1e4).round()) as f32, b));
    }
    list
}

fn map2(host: &Host, name: &str, input: &[(f32, f32)]) -> Vec<f32> {
    let words: Vec<u64> = input.iter().flat_map(|(a, b)| [a.to_bits().into(), b.to_bits().into()]).collect();
    host.call(name, &words).into_iter().map(|w| f32::from_bits(w as u32)).collect()
}

fn rem(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

fn next_after(a: f32, b: f32) -> f32 {
    match a.partial_cmp(&b) {
        None => f32::NAN,
        Some(std::cmp::Ordering::Equal) => b,
        Some(std::cmp::Ordering::Less) => a.next_up(),
        Some(std::cmp::Ordering::Greater) => a.next_down(),
    }
}

fn floor_div(a: f32, b: f32) -> f64 {
    let (a, b) = (f64::from(a), f64::from(b));
    let q = a / b;
    if !q.is_finite() || b == 0.0 || a.is_infinite() {
        return q;
    }
    if b.is_infinite() {
        return if a != 0.0 && (a < 0.0) != (b < 0.0) { -1.0 } else { 0.0 };
    }
    // A quotient of two f32 is not nearer to a whole number than an f64 shows, unless it is one.
    let r = a % b;
    let whole = ((a - r) / b).round();
    if r != 0.0 && (r < 0.0) != (b < 0.0) { whole - 1.0 } else { whole }
}

#[test]
fn operations_on_two_f32_are_right_however_the_device_rounds() {
    for manner in [Manner::Fused, Manner::Split, Manner::Loose] {
        let Some(host) = Host::new(manner) else { return };
        let mut random = Random::new();
        let input = pairs(&mut random);
        let check = |name: &str, bound: f64, want: &dyn Fn(f32, f32) -> f64| {
            let mut worst = 0.0;
            for (&(a, b), &y) in input.iter().zip(&map2(&host, name, &input)) {
                let mut error = ulps32(want(a, b), y, manner);
                if manner == Manner::Loose {
                    let flush = |x: f32| if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x };
                    error = error.min(ulps32(want(flush(a), flush(b)), y, manner));
                    if matches!(name, "rem_f32" | "fmod_f32")
                        && (want(a, b) - f64::from(y)).abs() <= f32::MIN_POSITIVE.into()
                    {
                        error = 0.0;
                    }
                }
                if error > worst {
                    worst = error;
                }
                assert!(error <= bound, "{manner:?} {name}({a:e}, {b:e}) = {y:e}, not {:e}: {error}", want(a, b));
            }
            println!("{manner:?} {name}: {worst:.3} ulp");
        };
        let nan = |a: f32, b: f32| a.is_nan() || b.is_nan();
        check("min_f32", 0.0, &|a, b| if nan(a, b) { f64::NAN } else { a.min(b).into() });
        check("max_f32", 0.0, &|a, b| if nan(a, b) { f64::NAN } else { a.max(b).into() });
        check("pow_f32", 2.0, &|a, b| f64::from(a).powf(b.into()));
        check("atan2_f32", if manner == Manner::Loose { 3.0 } else { 2.0 }, &|a, b| f64::from(a).atan2(b.into()));
        check("hypot_f32", 2.0, &|a, b| f64::from(a).hypot(b.into()));
        check("copy_sign_f32", 0.0, &|a, b| if a.is_nan() { f64::NAN } else { a.copysign(b).into() });
        check("fmod_f32", 0.0, &|a, b| f64::from(a) % f64::from(b));
        check("nextafter_f32", 0.0, &|a, b| next_after(a, b).into());
        check("floor_div_f32", if manner == Manner::Loose { 2.5 } else { 1.0 }, &floor_div);
        check("rem_f32", 0.5, &|a, b| {
            if b.is_infinite() && a.is_finite() {
                return if a != 0.0 && (a < 0.0) != (b < 0.0) { b.into() } else { a.into() };
            }
            rem(a.into(), b.into())
        });
    }
}
