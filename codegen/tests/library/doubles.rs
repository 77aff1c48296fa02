//! Functions of f64, against those of the platform, whose own error is about one unit.

use millstream_core::what::{acosh, asinh, atanh};

use crate::host::{Host, Manner};
use crate::support::{Random, SPECIAL, WIDE_SPECIAL, map64, sigmoid, sign, ulps64};

type Function = fn(f64) -> f64;

const FUNCTIONS: [(&str, Function, f64); 26] = [
    ("exp_f64", f64::exp, 2.0),
    ("expm1_f64", f64::exp_m1, 4.0),
    ("log_f64", f64::ln, 2.0),
    ("log1p_f64", f64::ln_1p, 4.0),
    ("sin_f64", f64::sin, 3.0),
    ("cos_f64", f64::cos, 3.0),
    ("tanh_f64", f64::tanh, 4.0),
    ("erf_f64", millstream_core::what::erf, 4.0),
    ("sigmoid_f64", sigmoid, 4.0),
    ("tan_f64", f64::tan, 4.0),
    ("asin_f64", f64::asin, 2.0),
    ("acos_f64", f64::acos, 2.0),
    ("atan_f64", f64::atan, 3.0),
    ("sinh_f64", f64::sinh, 3.0),
    ("cosh_f64", f64::cosh, 3.0),
    ("asinh_f64", asinh, 4.0),
    ("acosh_f64", acosh, 4.0),
    ("atanh_f64", atanh, 4.0),
    ("exp2_f64", f64::exp2, 2.0),
    ("log2_f64", f64::log2, 2.0),
    ("log10_f64", f64::log10, 3.0),
    ("rsqrt_f64", |x| 1.0 / x.sqrt(), 2.0),
    ("recip_f64", |x| 1.0 / x, 0.0),
    ("round_f64", f64::round_ties_even, 0.0),
    ("sign_f64", sign, 0.0),
    ("keep_f64", |x| x, 0.0),
];

fn accuracy(manner: Manner) {
    let Some(host) = Host::new(manner) else { return };
    let mut random = Random::new();
    let mut input: Vec<f64> = SPECIAL.iter().map(|&x| x.into()).chain(WIDE_SPECIAL).collect();
    input.extend((1..4000).map(|n| f64::from(n) * std::f64::consts::FRAC_PI_2));
    input.extend((0..2000).map(|_| random.between(0.0, 1e9).round() * std::f64::consts::FRAC_PI_2));
    input.extend((0..100_000).map(|_| random.f64()));
    for (name, function, bound) in FUNCTIONS {
        let got = map64(&host, name, &input);
        let mut worst = (0.0, 0.0, 0.0);
        for (&x, &y) in input.iter().zip(&got) {
            let error = ulps64(function(x), y);
            if error > worst.0 {
                worst = (error, x, y);
            }
        }
        let (error, x, y) = worst;
        println!("{manner:?} {name}: {error} ulp at {x:e}");
        assert!(error <= bound, "{manner:?} {name}({x:e}) = {y:e}, not {:e}: {error} ulp", function(x));
    }
}

#[test]
fn functions_of_f64_keep_their_bounds_where_products_are_fused() {
    accuracy(Manner::Fused);
}

#[test]
fn functions_of_f64_keep_their_bounds_where_nothing_is_fused() {
    accuracy(Manner::Split);
}

fn floor_div(a: f64, b: f64) -> f64 {
    if b == 0.0 || a.is_infinite() || a.is_nan() || b.is_nan() {
        return a / b;
    }
    if b.is_infinite() {
        return if a != 0.0 && (a < 0.0) != (b < 0.0) { -1.0 } else { 0.0 };
    }
    let r = a % b;
    let whole = (a - r) / b;
    let whole = if whole.abs() < 2f64.powi(53) { whole.round() } else { whole };
    if r != 0.0 && (r < 0.0) != (b < 0.0) { whole - 1.0 } else { whole }
}

fn rem(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

#[test]
fn operations_on_two_f64_are_right_however_the_device_rounds() {
    for manner in [Manner::Fused, Manner::Split] {
        let Some(host) = Host::new(manner) else { return };
        let mut random = Random::new();
        let mut input = Vec::new();
        let special = || SPECIAL.iter().map(|&x| f64::from(x)).chain(WIDE_SPECIAL);
        for a in special() {
            input.extend(special().map(|b| (a, b)));
        }
        for _ in 0..50_000 {
            input.push((random.f64(), random.f64()));
            let x = random.between(-20.0, 20.0).exp2();
            input.push((x, random.between(-1080.0, 1030.0) / x.log2()));
            let near = random.between(0.9, 1.1);
            input.push((near, random.between(-1080.0, 1030.0) / near.log2()));
            let b = random.f64();
            input.push((b * random.between(-1e4, 1e4).round(), b));
        }
        let words: Vec<u64> = input.iter().flat_map(|(a, b)| [a.to_bits(), b.to_bits()]).collect();
        let check = |name: &str, bound: f64, want: &dyn Fn(f64, f64) -> f64| {
            let mut worst = 0.0f64;
            for (&(a, b), w) in input.iter().zip(host.call(name, &words)) {
                let (want, got) = (want(a, b), f64::from_bits(w));
                // Either zero will do.
                let error = if want == got { 0.0 } else { ulps64(want, got) };
                assert!(error <= bound, "{manner:?} {name}({a:e}, {b:e}) = {got:e}, not {want:e}: {error}");
                worst = worst.max(error);
            }
            println!("{manner:?} {name}: {worst} ulp");
        };
        let nan = |a: f64, b: f64| a.is_nan() || b.is_nan();
        check("min_f64", 0.0, &|a, b| if nan(a, b) { f64::NAN } else { a.min(b) });
        check("max_f64", 0.0, &|a, b| if nan(a, b) { f64::NAN } else { a.max(b) });
        check("pow_f64", 2.0, &f64::powf);
        check("atan2_f64", 3.0, &f64::atan2);
        check("hypot_f64", 2.0, &f64::hypot);
        check("fmod_f64", 0.0, &|a, b| a % b);
        check("nextafter_f64", 0.0, &|a, b| match a.partial_cmp(&b) {
            None => f64::NAN,
            Some(std::cmp::Ordering::Equal) => b,
            Some(std::cmp::Ordering::Less) => a.next_up(),
            Some(std::cmp::Ordering::Greater) => a.next_down(),
        });
        check("floor_div_f64", 2.0, &floor_div);
        check("rem_f64", 0.0, &rem);
    }
}
