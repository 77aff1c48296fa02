use proptest::prelude::*;

use super::tests::rows;
use super::*;
use crate::what::{ExprBuilder, Reduce};

/// A device with f32 arithmetic: nodes in order, functions off by up to a unit in the last place as `noise` says,
/// products fused into the additions they feed where `fuse` is set.
fn naive(expr: &Expr, inputs: &[f32], fuse: bool, mut noise: u64) -> f32 {
    let mut values: Vec<f32> = Vec::new();
    for &(node, _) in expr.nodes() {
        let get = |id: Id| values[id.at()];
        let product = |id: Id| match expr.node(id) {
            Node::Binary(Binary::Mul, a, b) if fuse => Some((get(a), get(b))),
            _ => None,
        };
        let v = match node {
            Node::Input(i) => inputs[i as usize],
            Node::Const(s) => s.to_f64() as f32,
            Node::Unary(u, a) => {
                let x = get(a);
                match u {
                    Unary::Neg => -x,
                    Unary::Abs => x.abs(),
                    Unary::Sign => {
                        if x == 0.0 || x.is_nan() {
                            x
                        } else {
                            x.signum()
                        }
                    }
                    Unary::Floor => x.floor(),
                    Unary::Ceil => x.ceil(),
                    Unary::Trunc => x.trunc(),
                    Unary::Round => x.round_ties_even(),
                    Unary::Sqrt => x.sqrt(),
                    Unary::Recip => 1.0 / x,
                    _ => {
                        let d = f64::from(x);
                        let y = match u {
                            Unary::Rsqrt => 1.0 / d.sqrt(),
                            Unary::Exp => d.exp(),
                            Unary::Expm1 => d.exp_m1(),
                            Unary::Log => d.ln(),
                            Unary::Log1p => d.ln_1p(),
                            Unary::Sin => d.sin(),
                            Unary::Cos => d.cos(),
                            Unary::Tan => d.tan(),
                            Unary::Asin => d.asin(),
                            Unary::Acos => d.acos(),
                            Unary::Atan => d.atan(),
                            Unary::Sinh => d.sinh(),
                            Unary::Cosh => d.cosh(),
                            Unary::Asinh => asinh(d),
                            Unary::Acosh => acosh(d),
                            Unary::Atanh => atanh(d),
                            Unary::Exp2 => d.exp2(),
                            Unary::Log2 => d.log2(),
                            Unary::Log10 => d.log10(),
                            Unary::Tanh => d.tanh(),
                            Unary::Erf => erf(d),
                            _ => functions::sigmoid(d),
                        } as f32;
                        noise = noise.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        let off = x.is_infinite() || y == 0.0 || y.abs() < 1e-37 || !y.is_finite();
                        if off { y } else { f32::from_bits((y.to_bits() as i32 + (noise % 3) as i32 - 1) as u32) }
                    }
                }
            }
            Node::Binary(op, a, b) => {
                let (x, y) = (get(a), get(b));
                match op {
                    Binary::Add => match (product(a), product(b)) {
                        (Some((p, q)), _) => p.mul_add(q, y),
                        (_, Some((p, q))) => p.mul_add(q, x),
                        _ => x + y,
                    },
                    Binary::Sub => match (product(a), product(b)) {
                        (Some((p, q)), _) => p.mul_add(q, -y),
                        (_, Some((p, q))) => (-p).mul_add(q, x),
                        _ => x - y,
                    },
                    Binary::Mul => x * y,
                    Binary::Div => x / y,
                    Binary::FloorDiv => (x / y).floor(),
                    Binary::Rem => {
                        let r = x % y;
                        if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
                    }
                    Binary::Pow => f64::from(x).powf(y.into()) as f32,
                    Binary::Atan2 => f64::from(x).atan2(y.into()) as f32,
                    Binary::Hypot => f64::from(x).hypot(y.into()) as f32,
                    Binary::CopySign => x.copysign(y),
                    Binary::Fmod => x % y,
                    _ if x.is_nan() || y.is_nan() => f32::NAN,
                    Binary::Min => x.min(y),
                    Binary::Max => x.max(y),
                    // Comparisons, as the number a select reads.
                    Binary::Lt => f32::from(x < y),
                    Binary::Le => f32::from(x <= y),
                    _ => f32::from(x == y),
                }
            }
            Node::Select(c, a, b) => {
                if get(c) == 1.0 {
                    get(a)
                } else {
                    get(b)
                }
            }
            _ => unreachable!(),
        };
        values.push(v);
    }
    values[expr.outputs()[0].at()]
}

/// An expression of three f32 inputs from random words.
fn random_expression(words: &[u32]) -> Expr {
    let mut b = ExprBuilder::new();
    let mut ids: Vec<Id> = (0..3).map(|i| b.input(i, DType::F32)).collect();
    ids.push(b.constant(Scalar::new(0.5f32)));
    ids.push(b.constant(Scalar::new(-3f32)));
    for w in words {
        let pick = |shift: u32| ids[ids.len() - 1 - ((w >> shift) as usize & 0xff) % ids.len().min(6)];
        let (x, y, z) = (pick(0), pick(8), pick(16));
        let unary: Vec<Unary> = Unary::ALL.iter().copied().filter(|&u| u.result(DType::F32).is_some()).collect();
        let arithmetic = [
            Binary::Add,
            Binary::Sub,
            Binary::Mul,
            Binary::Mul,
            Binary::Add,
            Binary::Div,
            Binary::Min,
            Binary::Max,
            Binary::FloorDiv,
            Binary::Rem,
            Binary::Pow,
            Binary::Atan2,
            Binary::Hypot,
            Binary::CopySign,
            Binary::Fmod,
        ];
        let choice = (w >> 24) as usize;
        ids.push(match choice % 4 {
            0 => b.unary(unary[choice / 4 % unary.len()], x).unwrap(),
            1 | 2 => b.binary(arithmetic[choice / 4 % arithmetic.len()], x, y).unwrap(),
            _ => {
                let c = [Binary::Lt, Binary::Le, Binary::Lt][choice / 4 % 3];
                let c = b.binary(c, x, y).unwrap();
                b.select(c, z, y).unwrap()
            }
        });
    }
    let last = ids[ids.len() - 1];
    b.finish(&[last])
}

fn some_float() -> impl Strategy<Value = f32> {
    prop_oneof![
        6 => -4f32..4.0,
        2 => -1000f32..1000.0,
        1 => (-30i32..30).prop_map(|e| 2f32.powi(e)),
        1 => proptest::sample::select(vec![0.0f32, -0.0, 1.0, -1.0, 2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 0.5, -2.5]),
    ]
}

/// Few enough to be quick; raise it to search longer.
const CASES: u32 = 3000;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn naive_f32_arithmetic_lies_within_the_bound(
        words in prop::collection::vec(any::<u32>(), 1..8),
        inputs in prop::array::uniform3(some_float()),
        fuse: bool,
        noise: u64,
    ) {
        let expr = random_expression(&words);
        let got = naive(&expr, &inputs, fuse, noise);
        let access = || Access::new(DType::F32, &[0]);
        let op = Op::map(&[1], vec![access(), access(), access()], vec![access()], expr.clone()).unwrap();
        let tensors = inputs.map(|v| HostTensor::from_slice(&[v]));
        let want = evaluate(&op, &tensors, &[], Tolerance::CPU).unwrap()[0][0];
        if let Err(why) = want.accepts(Scalar::new(got)) {
            return Err(TestCaseError::fail(format!("{why}\n{expr:?}")));
        }
    }

    #[test]
    fn sums_in_any_order_lie_within_the_bound(values in prop::collection::vec(some_float(), 1..400), split in 1usize..64) {
        let want = rows(HostTensor::from_slice(&values), 1, &[Reduce::Sum, Reduce::Prod]);
        let forward = values.iter().fold(0f32, |s, v| s + v);
        let blocks: f32 = values.chunks(split).map(|c| c.iter().rev().fold(0f32, |s, v| s + v)).fold(0f32, |s, v| v + s);
        for got in [forward, blocks] {
            prop_assert!(want[0][0].accepts(Scalar::new(got)).is_ok(), "{:?}", want[0][0].accepts(Scalar::new(got)));
        }
        let forward = values.iter().fold(1f32, |p, v| p * v);
        let blocks: f32 = values.chunks(split).map(|c| c.iter().rev().fold(1f32, |s, v| s * v)).product();
        for got in [forward, blocks] {
            prop_assert!(want[1][0].accepts(Scalar::new(got)).is_ok(), "{:?}", want[1][0].accepts(Scalar::new(got)));
        }
    }
}

#[test]
fn bounds_are_useful_not_only_safe() {
    // Of random expressions on ordinary numbers, most results are determined, and closely.
    let mut determined = 0;
    let mut rng = 1u64;
    for _ in 0..500 {
        let mut next = || {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 32) as u32
        };
        let words: Vec<u32> = (0..4).map(|_| next()).collect();
        let inputs = [next(), next(), next()].map(|w| w as f32 / 2f32.powi(31) + 0.25);
        let access = || Access::new(DType::F32, &[0]);
        let op = Op::map(&[1], vec![access(), access(), access()], vec![access()], random_expression(&words)).unwrap();
        let want = evaluate(&op, &inputs.map(|v| HostTensor::from_slice(&[v])), &[], Tolerance::CPU).unwrap()[0][0];
        let Exact::Float(v) = want.value else { panic!() };
        determined +=
            usize::from(v.is_nan() || v.is_infinite() && want.bound == 0.0 || want.bound <= 1e-4 * v.abs().max(1e-3));
    }
    assert!(determined > 450, "only {determined} of 500");
}
