//! Functions of two numbers: angles, magnitudes, remainders, signs, neighbours.

use super::reference::{self, Scaled};
use super::{Random, run2};
use crate::math::{Form, binary};
use crate::simd::Isa;
use millstream_core::{Binary, DType};

/// The bound that the functions promise.
const BOUND: f64 = 2.0;

const SPECIAL: [f64; 15] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.5,
    -2.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-45,
    -1e-45,
    3e38,
    -3e38,
    1e-38,
    1e19,
];

fn pairs(random: &mut Random) -> Vec<(f64, f64)> {
    let mut list = Vec::new();
    for a in SPECIAL {
        list.extend(SPECIAL.map(|b| (a, b)));
    }
    for _ in 0..40_000 {
        list.push((random.unit() * 8.0 - 4.0, random.unit() * 8.0 - 4.0));
        let size = |random: &mut Random| 2f64.powf(random.unit() * 250.0 - 125.0) * (random.unit() - 0.5).signum();
        list.push((size(random), size(random)));
        // Close to each other, where angles change their formula.
        let x = size(random);
        list.push((x * (1.0 + (random.unit() - 0.5) * 1e-3), x));
    }
    list
}

fn ulps32(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.is_nan() || near.is_nan() || got.is_infinite() || near.is_infinite() {
        return if got == near || (got.is_nan() && near.is_nan()) { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((near.abs().to_bits() >> 23) as i32).max(1) - 150;
    (f64::from(got) - want).abs() / 2f64.powi(exponent)
}

fn next_after(a: f32, b: f32) -> f32 {
    match a.partial_cmp(&b) {
        None => f32::NAN,
        Some(std::cmp::Ordering::Equal) => b,
        Some(std::cmp::Ordering::Less) => a.next_up(),
        Some(std::cmp::Ordering::Greater) => a.next_down(),
    }
}

type Case = (Binary, f64, fn(f32, f32) -> f64);

#[test]
fn functions_of_two_f32_keep_their_bounds() {
    let cases: [Case; 5] = [
        (Binary::Atan2, BOUND, |a, b| f64::from(a).atan2(b.into())),
        (Binary::Hypot, BOUND, |a, b| f64::from(a).hypot(b.into())),
        (Binary::Fmod, 0.0, |a, b| (a % b).into()),
        (Binary::CopySign, 0.0, |a, b| a.copysign(b).into()),
        (Binary::NextAfter, 0.0, |a, b| next_after(a, b).into()),
    ];
    let mut random = Random::new();
    let seed = random.seed;
    let (a, b): (Vec<f32>, Vec<f32>) = pairs(&mut random).into_iter().map(|(a, b)| (a as f32, b as f32)).unzip();
    for isa in Isa::available() {
        for (op, bound, want) in cases {
            let mut y = vec![0f32; a.len()];
            run2(binary(isa, op, DType::F32, Form::VV).unwrap(), &a, &b, &mut y);
            for i in 0..a.len() {
                let want = want(a[i], b[i]);
                let error = ulps32(y[i], want);
                let what =
                    format!("{op:?}({:e}, {:e}) on {isa:?} is {:e}, not {want:e} (seed {seed})", a[i], b[i], y[i]);
                assert!(error <= bound, "{what}: {error} ulp");
                assert!(want.is_nan() || y[i].is_sign_negative() == want.is_sign_negative(), "{what}: the sign");
            }
        }
    }
}

#[test]
fn functions_of_two_f64_keep_their_bounds() {
    let mut random = Random::new();
    let seed = random.seed;
    let (a, b): (Vec<f64>, Vec<f64>) = pairs(&mut random).into_iter().step_by(7).unzip();
    for isa in Isa::available() {
        let run = |op| {
            let mut y = vec![0f64; a.len()];
            run2(binary(isa, op, DType::F64, Form::VV).unwrap(), &a, &b, &mut y);
            y
        };
        let (angles, sizes, rests) = (run(Binary::Atan2), run(Binary::Hypot), run(Binary::Fmod));
        for i in 0..a.len() {
            let (x, y) = (a[i], b[i]);
            let plain = |x: f64| x.is_finite() && x != 0.0;
            let (angle, size): (Scaled, Scaled) = if plain(x) && plain(y) {
                (reference::atan2(x, y).into(), reference::hypot(x, y).into())
            } else {
                (reference::Dd::from(x.atan2(y)).into(), reference::Dd::from(x.hypot(y)).into())
            };
            let error = angle.ulps(angles[i]);
            assert!(error <= BOUND, "atan2({x:e}, {y:e}) on {isa:?} is {:e}: {error} (seed {seed})", angles[i]);
            let error = size.ulps(sizes[i]);
            assert!(error <= BOUND, "hypot({x:e}, {y:e}) on {isa:?} is {:e}: {error} (seed {seed})", sizes[i]);
            let same = rests[i] == x % y || (rests[i].is_nan() && (x % y).is_nan());
            assert!(same, "fmod({x:e}, {y:e}) on {isa:?} is {:e}, not {:e} (seed {seed})", rests[i], x % y);
        }
    }
}

#[test]
fn magnitudes_of_f64_neither_overflow_nor_vanish() {
    let cases = [(3e307, 4e307, 5e307), (3e-320, 4e-320, 5e-320), (1e300, 1e-300, 1e300), (-6e200, 8e200, 1e201)];
    for isa in Isa::available() {
        for (a, b, want) in cases {
            let mut y = [0f64];
            run2(binary(isa, Binary::Hypot, DType::F64, Form::VV).unwrap(), &[a], &[b], &mut y);
            assert!((y[0] / want - 1.0).abs() < 1e-3, "hypot({a:e}, {b:e}) on {isa:?} is {:e}", y[0]);
        }
    }
}

#[test]
fn the_next_half_is_a_half() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    for isa in Isa::available() {
        let kernel = binary(isa, Binary::NextAfter, DType::F16, Form::VS).unwrap();
        let x: Vec<f32> = bits.iter().map(|&b| half::f16::from_bits(b).to_f32()).collect();
        let mut y = vec![0f32; x.len()];
        run2(kernel, &x, &[f32::INFINITY], &mut y);
        for (&b, &y) in bits.iter().zip(&y) {
            let x = half::f16::from_bits(b);
            let want = match b {
                _ if x.is_nan() || b == 0x7c00 => x,
                0x8000 => half::f16::from_bits(1),
                _ if b & 0x8000 != 0 => half::f16::from_bits(b - 1),
                _ => half::f16::from_bits(b + 1),
            };
            assert!(y == want.to_f32() || (y.is_nan() && x.is_nan()), "after {x} comes {y} on {isa:?}, not {want}");
        }
    }
}
