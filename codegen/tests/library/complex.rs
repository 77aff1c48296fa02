//! Complex numbers: the modulus of the difference, relative to the size of what the formulas are made of.

use num_complex::Complex;

use crate::host::{Host, Manner};
use crate::support::{Random, ulps32, ulps64};

type Z = Complex<f64>;
type Unary = (&'static str, fn(Z) -> Z, fn(Z) -> f64);
type Binary = (&'static str, fn(Z, Z) -> Z, fn(Z, Z) -> f64);

fn tanh(z: Z) -> Z {
    if z.re.abs() > 20.0 {
        return Z::new(1f64.copysign(z.re), 4.0 * (-2.0 * z.re.abs()).exp() * z.im.sin() * z.im.cos());
    }
    let (h, c) = (z.re.sinh(), z.im.cos());
    let d = h * h + c * c;
    Z::new(h * z.re.cosh() / d, z.im.sin() * c / d)
}

type Precision = (&'static str, f64, fn(f64) -> u64, fn(u64) -> f64);

/// Name, function, and the size its error is relative to.
const UNARY: [Unary; 8] = [
    ("neg", |z| -z, |_| 0.0),
    ("recip", |z| z.inv(), |z| z.inv().norm()),
    ("exp", |z| z.exp(), |z| z.re.exp()),
    ("log", |z| z.ln(), |z| z.ln().norm() + 1.0),
    ("sqrt", |z| z.sqrt(), |z| z.sqrt().norm()),
    ("sin", |z| z.sin(), |z| z.im.cosh()),
    ("cos", |z| z.cos(), |z| z.im.cosh()),
    ("tanh", tanh, |z| tanh(z).norm()),
];

const BINARY: [Binary; 5] = [
    ("add", |a, b| a + b, |a, b| a.norm() + b.norm()),
    ("sub", |a, b| a - b, |a, b| a.norm() + b.norm()),
    ("mul", |a, b| a * b, |a, b| a.norm() * b.norm()),
    ("div", |a, b| a / b, |a, b| (a / b).norm()),
    ("pow", |a, b| (b * a.ln()).exp(), |a, b| (b * a.ln()).exp().norm() * (1.0 + b.norm() * (1.0 + a.ln().norm()))),
];

fn number(random: &mut Random) -> Z {
    let size = match random.word() % 3 {
        0 => random.between(-8.0, 8.0).exp2(),
        1 => 1.0,
        _ => 4.0,
    };
    let part = |random: &mut Random| match random.word() % 8 {
        0 => 0.0,
        1 => 1.0,
        _ => random.between(-1.0, 1.0),
    };
    let (re, im) = (part(random), part(random));
    // As f32, so that both precisions can be given it.
    Z::new(f64::from((re * size) as f32), f64::from((im * size) as f32))
}

/// The precisions: name, unit roundoff, and how a number is written and read.
fn precisions() -> [Precision; 2] {
    [
        ("c64", f64::from(f32::EPSILON) / 2.0, |x| (x as f32).to_bits().into(), |w| f32::from_bits(w as u32).into()),
        ("c128", f64::EPSILON / 2.0, f64::to_bits, f64::from_bits),
    ]
}

#[test]
fn functions_of_complex_numbers_keep_their_bounds() {
    for manner in [Manner::Fused, Manner::Split, Manner::Loose] {
        let Some(host) = Host::new(manner) else { return };
        let mut random = Random::new();
        let input: Vec<(Z, Z)> = (0..30_000).map(|_| (number(&mut random), number(&mut random))).collect();
        // In units of roundoff; the references have an error of their own in f64.
        let limit = |name: &str| match name {
            "neg" | "add" | "sub" | "mul" => 3.0,
            _ => 16.0,
        };
        for (kind, unit, write, read) in precisions() {
            let check = |name: &str, width: usize, want: &dyn Fn(Z, Z) -> (Z, f64)| {
                let words: Vec<u64> = input
                    .iter()
                    .flat_map(|(a, b)| [a.re, a.im, b.re, b.im].into_iter().take(2 * width).map(write))
                    .collect();
                let mut worst = (0.0, Z::default(), Z::default());
                for (&(a, b), got) in input.iter().zip(host.call(&format!("{name}_{kind}"), &words).chunks_exact(2)) {
                    let (want, scale) = want(a, b);
                    if !want.is_finite() || want.norm() > 1e30 || (want.norm() < 1e-30 && scale < 1e-30) {
                        continue;
                    }
                    let got = Z::new(read(got[0]), read(got[1]));
                    let error = (got - want).norm() / (unit * scale.max(f64::from(f32::MIN_POSITIVE)));
                    assert!(error <= limit(name), "{manner:?} {name}_{kind}({a}, {b}) = {got}, not {want}: {error}");
                    if error > worst.0 {
                        worst = (error, a, b);
                    }
                }
                println!("{manner:?} {name}_{kind}: {:.2} roundoffs at {}, {}", worst.0, worst.1, worst.2);
            };
            for (name, function, scale) in UNARY {
                check(name, 1, &|a, _| (function(a), scale(a)));
            }
            for (name, function, scale) in BINARY {
                check(name, 2, &|a, b| {
                    if name == "pow" && (b == Z::ZERO || a == Z::ZERO) {
                        return (if b == Z::ZERO { Z::ONE } else { Z::ZERO }, 1.0);
                    }
                    (function(a, b), scale(a, b))
                });
            }
        }
    }
}

#[test]
fn moduli_neither_overflow_nor_vanish_on_the_way() {
    let Some(host) = Host::new(Manner::Split) else { return };
    let mut random = Random::new();
    let mut single: Vec<(f32, f32)> = (0..50_000).map(|_| (random.f32(), random.f32())).collect();
    single.extend([(3e38, 1e38), (3e-45, 4e-45), (f32::INFINITY, f32::NAN), (f32::NAN, 1.0), (0.0, -0.0)]);
    let words: Vec<u64> = single.iter().flat_map(|(x, y)| [x.to_bits().into(), y.to_bits().into()]).collect();
    for (&(x, y), w) in single.iter().zip(host.call("abs_c64", &words)) {
        let (want, got) = (f64::from(x).hypot(y.into()), f32::from_bits(w as u32));
        assert!(ulps32(want, got, Manner::Split) <= 1.5, "|({x:e}, {y:e})| = {got:e}, not {want:e}");
    }
    let double: Vec<(f64, f64)> = (0..50_000).map(|_| (random.f64(), random.f64())).collect();
    let words: Vec<u64> = double.iter().flat_map(|(x, y)| [x.to_bits(), y.to_bits()]).collect();
    for (&(x, y), w) in double.iter().zip(host.call("abs_c128", &words)) {
        let (want, got) = (x.hypot(y), f64::from_bits(w));
        assert!(ulps64(want, got) <= 2.0, "|({x:e}, {y:e})| = {got:e}, not {want:e}");
    }
}

#[test]
fn angles_are_right_in_every_direction() {
    for manner in [Manner::Split, Manner::Loose] {
        let Some(host) = Host::new(manner) else { return };
        let mut random = Random::new();
        let single: Vec<(f32, f32)> = (0..100_000).map(|_| (random.f32(), random.f32())).collect();
        let words: Vec<u64> = single.iter().flat_map(|(y, x)| [y.to_bits().into(), x.to_bits().into()]).collect();
        let mut worst = 0.0f64;
        for (&(y, x), w) in single.iter().zip(host.call("atan2_f32", &words)) {
            let subnormal = |x: f32| x != 0.0 && x.abs() < f32::MIN_POSITIVE;
            if manner == Manner::Loose && (subnormal(x) || subnormal(y)) {
                continue;
            }
            let (want, got) = (f64::from(y).atan2(x.into()), f32::from_bits(w as u32));
            let error = ulps32(want, got, manner);
            assert!(error <= if manner == Manner::Loose { 3.0 } else { 2.0 }, "{y:e}, {x:e}: {got:e}, not {want:e}");
            worst = worst.max(error);
        }
        println!("{manner:?} atan2_f32: {worst:.2} ulp");
    }
    let Some(host) = Host::new(Manner::Split) else { return };
    let mut random = Random::new();
    let double: Vec<(f64, f64)> = (0..100_000).map(|_| (random.f64(), random.f64())).collect();
    let words: Vec<u64> = double.iter().flat_map(|(y, x)| [y.to_bits(), x.to_bits()]).collect();
    let mut worst = 0.0f64;
    for (&(y, x), w) in double.iter().zip(host.call("atan2_f64", &words)) {
        let (want, got) = (y.atan2(x), f64::from_bits(w));
        assert!(ulps64(want, got) <= 4.0, "{y:e}, {x:e}: {got:e}, not {want:e}");
        worst = worst.max(ulps64(want, got));
    }
    println!("atan2_f64: {worst:.2} ulp");
}

#[test]
fn complex_numbers_are_equal_if_both_parts_are() {
    let Some(host) = Host::new(Manner::Fused) else { return };
    for (kind, _, write, _) in precisions() {
        for (a, b, equal) in [
            ([1.0, 2.0], [1.0, 2.0], true),
            ([1.0, 2.0], [1.0, 3.0], false),
            ([0.0, 2.0], [1.0, 2.0], false),
            ([0.0, -0.0], [-0.0, 0.0], true),
            ([f64::NAN, 0.0], [f64::NAN, 0.0], false),
        ] {
            let words = [a[0], a[1], b[0], b[1]].map(write);
            assert_eq!(host.call(&format!("eq_{kind}"), &words), [u64::from(equal)], "{a:?} {b:?}");
            assert_eq!(host.call(&format!("ne_{kind}"), &words), [u64::from(!equal)], "{a:?} {b:?}");
        }
    }
}
