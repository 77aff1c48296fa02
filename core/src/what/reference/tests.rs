use half::f16;
use num_complex::Complex;
use smallvec::SmallVec;

use super::*;
use crate::what::{ExprBuilder, Guard, Reduce};

/// The results of a map over contiguous inputs of one length.
fn map(inputs: &[HostTensor], build: impl FnOnce(&mut ExprBuilder, &[Id]) -> Id) -> Vec<Expected> {
    let n = inputs[0].len();
    let mut b = ExprBuilder::new();
    let ids: Vec<Id> = inputs.iter().enumerate().map(|(i, t)| b.input(i as u16, t.dtype)).collect();
    let out = build(&mut b, &ids);
    let dtype = b.dtype(out);
    let accesses = inputs.iter().map(|t| Access::new(t.dtype, &[1])).collect();
    let op = Op::map(&[n], accesses, vec![Access::new(dtype, &[1])], b.finish(&[out])).unwrap();
    evaluate(&op, inputs, &[], Tolerance::CPU).unwrap().remove(0)
}

fn unary_of<T: crate::what::Element>(op: Unary, values: &[T]) -> Vec<Expected> {
    map(&[HostTensor::from_slice(values)], |b, x| b.unary(op, x[0]).unwrap())
}

fn binary_of<T: crate::what::Element>(op: Binary, x: &[T], y: &[T]) -> Vec<Expected> {
    map(&[HostTensor::from_slice(x), HostTensor::from_slice(y)], |b, v| b.binary(op, v[0], v[1]).unwrap())
}

fn ints(all: &[Expected]) -> Vec<i128> {
    all.iter()
        .map(|e| match (e.value, e.bound) {
            (Exact::Int(v), 0.0) => v,
            other => panic!("{other:?} is no certain integer"),
        })
        .collect()
}

fn floats(all: &[Expected]) -> Vec<f64> {
    all.iter().map(|e| if let Exact::Float(v) = e.value { v } else { panic!("{:?} is no float", e.value) }).collect()
}

#[test]
fn integer_arithmetic_wraps() {
    assert_eq!(ints(&binary_of(Binary::Add, &[127i8, -128], &[1, -1])), [-128, 127]);
    assert_eq!(ints(&binary_of(Binary::Mul, &[u64::MAX, 1 << 63], &[u64::MAX, 2])), [1, 0]);
    assert_eq!(ints(&binary_of(Binary::Sub, &[0u8], &[1])), [255]);
    assert_eq!(ints(&unary_of(Unary::Neg, &[i32::MIN, 5])), [i128::from(i32::MIN), -5]);
    assert_eq!(ints(&unary_of(Unary::Abs, &[i8::MIN, -5])), [-128, 5]);
    assert_eq!(ints(&unary_of(Unary::Neg, &[1u16])), [65535]);
    assert_eq!(ints(&unary_of(Unary::Not, &[0u8, 0xf0])), [255, 15]);
    assert_eq!(ints(&unary_of(Unary::Not, &[true, false])), [0, 1]);
    assert_eq!(ints(&unary_of(Unary::Sign, &[-9i64, 0, 3])), [-1, 0, 1]);
}

#[test]
fn integer_division_rounds_down_and_knows_zero() {
    let (x, y) = ([7, -7, 7, -7, 5, i32::MIN], [2, 2, -2, -2, 0, -1]);
    assert_eq!(ints(&binary_of(Binary::FloorDiv, &x, &y)), [3, -4, -4, 3, 0, i128::from(i32::MIN)]);
    assert_eq!(ints(&binary_of(Binary::Rem, &x, &y)), [1, 1, -1, -1, 0, 0]);
}

#[test]
fn integer_powers_and_shifts() {
    assert_eq!(
        ints(&binary_of(Binary::Pow, &[3, 2, 2, 1, -1, -1, 0], &[4, 31, -1, -5, -3, -2, 0])),
        [81, i128::from(i32::MIN), 0, 1, -1, 1, 1]
    );
    assert_eq!(
        ints(&binary_of(Binary::Pow, &[3u64], &[u64::MAX])),
        [i128::from(3u64.wrapping_pow(u32::MAX).wrapping_mul(0) + pow_mod(3, u64::MAX))]
    );
    assert_eq!(ints(&binary_of(Binary::Shl, &[1i8, 1, 1, -1], &[7, 8, -1, 1])), [-128, 0, 0, -2]);
    assert_eq!(ints(&binary_of(Binary::Shr, &[-128i8, -1, 64, 64], &[1, 100, 100, -3])), [-64, -1, 0, 0]);
    assert_eq!(ints(&binary_of(Binary::Shr, &[u8::MAX, 255], &[4, 8])), [15, 0]);
}

fn pow_mod(base: u64, mut n: u64) -> u64 {
    let (mut r, mut s) = (1u64, base);
    while n > 0 {
        if n & 1 == 1 {
            r = r.wrapping_mul(s);
        }
        s = s.wrapping_mul(s);
        n >>= 1;
    }
    r
}

#[test]
fn truth_values_add_as_or_and_multiply_as_and() {
    let (x, y) = ([false, false, true, true], [false, true, false, true]);
    assert_eq!(ints(&binary_of(Binary::Add, &x, &y)), [0, 1, 1, 1]);
    assert_eq!(ints(&binary_of(Binary::Mul, &x, &y)), [0, 0, 0, 1]);
    assert_eq!(ints(&binary_of(Binary::Xor, &x, &y)), [0, 1, 1, 0]);
    assert_eq!(ints(&binary_of(Binary::Lt, &x, &y)), [0, 1, 0, 0]);
}

#[test]
fn nan_goes_through_min_and_max_but_not_through_comparisons() {
    let (x, y) = ([f32::NAN, 1.0, 2.0], [1.0, f32::NAN, 3.0]);
    let max = floats(&binary_of(Binary::Max, &x, &y));
    assert!(max[0].is_nan() && max[1].is_nan() && max[2] == 3.0);
    assert_eq!(ints(&binary_of(Binary::Le, &x, &y)), [0, 0, 1]);
    assert_eq!(ints(&binary_of(Binary::Ne, &x, &y)), [1, 1, 1]);
    assert!(floats(&unary_of(Unary::Sign, &[f32::NAN]))[0].is_nan());
}

#[test]
fn infinities_follow_ieee() {
    let inf = f32::INFINITY;
    let sums = binary_of(Binary::Sub, &[inf, inf, 1.0], &[inf, 1.0, inf]);
    assert!(sums[0].accepts(Scalar::new(f32::NAN)).is_ok() && sums[0].accepts(Scalar::new(0f32)).is_err());
    assert!(sums[1].accepts(Scalar::new(inf)).is_ok() && sums[1].accepts(Scalar::new(f32::MAX)).is_err());
    assert!(sums[2].accepts(Scalar::new(inf)).is_err() && sums[2].accepts(Scalar::new(-inf)).is_ok());
    let products = binary_of(Binary::Mul, &[f32::MAX, 1e30, 0.0], &[f32::MAX, 1e8, inf]);
    assert_eq!(floats(&products)[0], f64::INFINITY);
    assert!(products[1].bound < 1e32 && products[1].accepts(Scalar::new(1e38f32)).is_ok());
    assert!(floats(&products)[2].is_nan());
    assert_eq!(floats(&binary_of(Binary::Div, &[1f32, -1.0], &[0.0, 0.0])), [f64::INFINITY, f64::NEG_INFINITY]);
}

#[test]
fn a_product_that_overflows_may_be_saved_by_a_fused_addition() {
    let t = |v: f32| HostTensor::from_slice(&[v]);
    let fma = |a: f32, b: f32, c: f32| {
        map(&[t(a), t(b), t(c)], |e, x| {
            let p = e.binary(Binary::Mul, x[0], x[1]).unwrap();
            e.binary(Binary::Add, p, x[2]).unwrap()
        })[0]
    };
    assert_eq!(fma(f32::MAX, 1.5, -f32::MAX).bound, f64::INFINITY);
    assert_eq!(fma(1e30, 1e30, f32::NEG_INFINITY).bound, f64::INFINITY);
    let certain = fma(1e30, 1e30, -f32::MAX);
    assert_eq!((certain.value, certain.bound), (Exact::Float(f64::INFINITY), 0.0));
}

#[test]
fn rounding_decides_nothing_where_operands_are_exact() {
    let floor = unary_of(Unary::Floor, &[1.5f32, -1.5, 2.0]);
    assert_eq!(floats(&floor), [1.0, -2.0, 2.0]);
    assert!(floor.iter().all(|e| e.bound == 0.0));
    assert_eq!(floats(&unary_of(Unary::Round, &[0.5f32, 1.5, 2.5, -0.5])), [0.0, 2.0, 2.0, 0.0]);
    // 1 + 2 is exact, so the comparison with 3 is certain.
    let eq = map(&[HostTensor::from_slice(&[1f32]), HostTensor::from_slice(&[2f32])], |b, x| {
        let s = b.binary(Binary::Add, x[0], x[1]).unwrap();
        let three = b.constant(Scalar::new(3f32));
        b.binary(Binary::Eq, s, three).unwrap()
    });
    assert_eq!(ints(&eq), [1]);
}

#[test]
fn rounding_that_may_decide_a_branch_is_covered() {
    let chosen = map(&[HostTensor::from_slice(&[0.1f32])], |b, x| {
        let s = b.binary(Binary::Mul, x[0], x[0]).unwrap();
        let limit = b.constant(Scalar::new(0.1f32 * 0.1f32));
        let c = b.binary(Binary::Lt, s, limit).unwrap();
        let (one, five) = (b.constant(Scalar::new(1f32)), b.constant(Scalar::new(5f32)));
        b.select(c, one, five).unwrap()
    })[0];
    assert!(chosen.accepts(Scalar::new(1f32)).is_ok() && chosen.accepts(Scalar::new(5f32)).is_ok());
    assert!(chosen.accepts(Scalar::new(6f32)).is_err());
    // floor(10 * 0.1), where the product is not exact: 0 or 1 here, not 2.
    let floor = map(&[HostTensor::from_slice(&[0.1f32])], |b, x| {
        let ten = b.constant(Scalar::new(10f32));
        let p = b.binary(Binary::Mul, x[0], ten).unwrap();
        b.unary(Unary::Floor, p).unwrap()
    })[0];
    assert!(floor.accepts(Scalar::new(0f32)).is_ok() && floor.accepts(Scalar::new(1f32)).is_ok());
    assert!(floor.accepts(Scalar::new(3f32)).is_err());
    // The logarithm of the greatest number is 128 or a little less: the remainder of its square is 0 or almost 128, which has no arc sine.
    let arc = map(&[HostTensor::from_slice(&[f32::MAX])], |b, x| {
        let log = b.unary(Unary::Log2, x[0]).unwrap();
        let square = b.binary(Binary::Mul, log, log).unwrap();
        let rest = b.binary(Binary::Fmod, square, log).unwrap();
        b.unary(Unary::Asin, rest).unwrap()
    })[0];
    assert!(arc.accepts(Scalar::new(0f32)).is_ok() && arc.accepts(Scalar::new(f32::NAN)).is_ok());
}

#[test]
fn functions_are_held_to_their_units_in_the_last_place() {
    let e = unary_of(Unary::Exp, &[1f32])[0];
    let good = std::f32::consts::E;
    assert!(e.accepts(Scalar::new(good)).is_ok());
    assert!(e.accepts(Scalar::new(good.next_up())).is_ok());
    assert!(e.accepts(Scalar::new(f32::from_bits(good.to_bits() + 5))).is_err());
    assert!(floats(&unary_of(Unary::Log, &[-1f32]))[0].is_nan());
    assert_eq!(floats(&unary_of(Unary::Log, &[0f32])), [f64::NEG_INFINITY]);
    assert_eq!(floats(&unary_of(Unary::Exp, &[200f32, -200.0]))[0], f64::INFINITY);
    assert_eq!(floats(&unary_of(Unary::Sqrt, &[9f32])), [3.0]);
}

#[test]
fn half_types_compute_in_f32_and_round_once_at_the_store() {
    // (1 + 2^-10) * (1 + 2^-10) - 1 in f16 steps would lose the square; in f32 nothing is lost before the store.
    let x = f16::from_f32(1.0 + 1.0 / 1024.0);
    let out = map(&[HostTensor::from_slice(&[x])], |b, i| {
        let p = b.binary(Binary::Mul, i[0], i[0]).unwrap();
        let one = b.constant(Scalar::new(f16::ONE));
        b.binary(Binary::Sub, p, one).unwrap()
    })[0];
    let exact = 2.0 / 1024.0 + 1.0 / 1024.0 / 1024.0;
    assert_eq!(out.value, Exact::Float(f16::from_f64(exact).to_f64()));
    assert_eq!(out.bound, 0.0);
    assert_eq!(floats(&binary_of(Binary::Add, &[f16::MAX], &[f16::MAX])), [f64::INFINITY]);
}

#[test]
fn casts_truncate_saturate_and_wrap() {
    let cast = |t: HostTensor, to: DType| map(&[t], |b, x| b.cast(x[0], to));
    let f = [300.7f32, -3.9, f32::NAN, f32::INFINITY];
    assert_eq!(ints(&cast(HostTensor::from_slice(&f), DType::U8)), [255, 0, 0, 255]);
    assert_eq!(ints(&cast(HostTensor::from_slice(&f), DType::I8)), [127, -3, 0, 127]);
    assert_eq!(ints(&cast(HostTensor::from_slice(&f), DType::Bool)), [1, 1, 1, 1]);
    assert_eq!(ints(&cast(HostTensor::from_slice(&[300i32, -1]), DType::U8)), [44, 255]);
    assert_eq!(ints(&cast(HostTensor::from_slice(&[-1i64]), DType::U64)), [i128::from(u64::MAX)]);
    assert_eq!(floats(&cast(HostTensor::from_slice(&[true, false]), DType::F16)), [1.0, 0.0]);
    assert_eq!(floats(&cast(HostTensor::from_slice(&[1.0f64 + 1e-9]), DType::F32)), [1.0]);
    assert_eq!(floats(&cast(HostTensor::from_slice(&[1e6f32]), DType::F16)), [f64::INFINITY]);
    // A little above a tie is no tie, however little; from f64 a rounding on the way may hide that.
    let tie = 1.0f64 + 1.0 / 256.0;
    let above = [tie as f32, (tie as f32).next_up(), (tie as f32).next_down()];
    assert_eq!(floats(&cast(HostTensor::from_slice(&above), DType::BF16)), [1.0, 1.0 + 1.0 / 128.0, 1.0]);
    let above = cast(HostTensor::from_slice(&[tie.next_up(), tie.next_down()]), DType::BF16);
    assert!(above[0].accepts(Scalar::new(half::bf16::from_f32(1.0 + 1.0 / 128.0))).is_ok());
    // Rounded once: by way of f64 the tie would fall to the other side.
    let v = (1i64 << 53) + (1 << 29) + 1;
    assert_eq!(floats(&cast(HostTensor::from_slice(&[v]), DType::F32)), [f64::from(v as f32)]);
    assert_eq!(floats(&cast(HostTensor::from_slice(&[Complex::new(2f32, 7.0)]), DType::F32)), [2.0]);
    let c = cast(HostTensor::from_slice(&[2f64]), DType::C64)[0];
    assert_eq!((c.value, c.bound), (Exact::Complex(Complex::new(2.0, 0.0)), 0.0));
    assert!(cast(HostTensor::from_slice(&[f64::MAX]), DType::I64)[0].accepts(Scalar::new(i64::MAX)).is_ok());
}

#[test]
fn complex_numbers_multiply_and_have_a_modulus() {
    let (x, y) = (Complex::new(1f32, 2.0), Complex::new(3f32, -1.0));
    let p = binary_of(Binary::Mul, &[x], &[y])[0];
    assert!(p.accepts(Scalar::new(Complex::new(5f32, 5.0))).is_ok());
    assert!(p.accepts(Scalar::new(Complex::new(5.00001f32, 5.0))).is_err());
    let q = binary_of(Binary::Div, &[x], &[y])[0];
    assert!(q.accepts(Scalar::new(Complex::new(0.1f32, 0.7))).is_ok());
    let m = unary_of(Unary::Abs, &[Complex::new(3f64, 4.0)])[0];
    assert!(m.accepts(Scalar::new(5f64)).is_ok());
    assert_eq!(ints(&binary_of(Binary::Eq, &[x, x], &[x, y])), [1, 0]);
    for (op, want) in [
        (Unary::Exp, x.exp()),
        (Unary::Log, x.ln()),
        (Unary::Sqrt, x.sqrt()),
        (Unary::Sin, x.sin()),
        (Unary::Cos, x.cos()),
        (Unary::Tanh, x.tanh()),
        (Unary::Recip, x.inv()),
    ] {
        let e = unary_of(op, &[x])[0];
        assert!(e.accepts(Scalar::new(want)).is_ok(), "{}: {:?}", op.name(), e.accepts(Scalar::new(want)));
        assert!(e.accepts(Scalar::new(want * 1.0001)).is_err(), "{}: {:e}", op.name(), e.bound);
    }
}

#[test]
fn float_division_to_integers_rounds_down() {
    let (x, y) = ([7f32, -7.0, 7.5, -1.0], [2f32, 2.0, -2.0, 0.0]);
    assert_eq!(floats(&binary_of(Binary::FloorDiv, &x, &y)), [3.0, -4.0, -4.0, f64::NEG_INFINITY]);
    let rem = floats(&binary_of(Binary::Rem, &x, &y));
    assert_eq!(&rem[..3], [1.0, 1.0, -0.5]);
    assert!(rem[3].is_nan());
}

#[test]
fn guards_fill_and_flipped_layouts_count_from_their_offset() {
    let mut b = ExprBuilder::new();
    let (x, y) = (b.input(0, DType::I32), b.input(1, DType::I32));
    let s = b.binary(Binary::Add, x, y).unwrap();
    let padded = Access {
        base: -1,
        guards: SmallVec::from_vec(vec![Guard { coefficients: [1].as_slice().into(), offset: -1, limit: 3 }]),
        fill: Scalar::new(100i32),
        ..Access::new(DType::I32, &[1])
    };
    let op = Op::map(
        &[5],
        vec![padded, Access::new(DType::I32, &[-1])],
        vec![Access::new(DType::I32, &[-2])],
        b.finish(&[s]),
    )
    .unwrap();
    let inputs = [HostTensor::from_slice(&[1, 2, 3]), HostTensor::from_slice(&[10, 20, 30, 40, 50]).with_offset(4)];
    let out = evaluate(&op, &inputs, &[], Tolerance::CPU).unwrap().remove(0);
    assert_eq!(ints(&out), [150, 41, 32, 23, 110]);
    assert_eq!(out.iter().map(|e| e.position).collect::<Vec<_>>(), [0, -2, -4, -6, -8]);
    // Without the offset the reads leave the input: an error, not a panic.
    let inputs = [inputs[0].clone(), inputs[1].clone().with_offset(0)];
    assert!(evaluate(&op, &inputs, &[], Tolerance::CPU).is_err());
}

#[test]
fn parameters_and_indices_are_read() {
    let mut b = ExprBuilder::new();
    let p = b.param(0, DType::I64);
    let i = b.push(Node::Index(0), DType::I64);
    let j = b.push(Node::Index(1), DType::I64);
    let ij = b.binary(Binary::Mul, i, j).unwrap();
    let s = b.binary(Binary::Add, ij, p).unwrap();
    let op = Op::map(&[2, 3], vec![], vec![Access::new(DType::I64, &[3, 1])], b.finish(&[s])).unwrap();
    let out = evaluate(&op, &[], &[Scalar::new(7i64)], Tolerance::CPU).unwrap();
    assert_eq!(ints(&out[0]), [7, 7, 7, 7, 8, 9]);
    assert!(evaluate(&op, &[], &[], Tolerance::CPU).is_err());
    assert!(evaluate(&op, &[], &[Scalar::new(7i32)], Tolerance::CPU).is_err());
}

/// One row program over `rows` rows of contiguous elements, with one output a row for each result.
pub(super) fn rows(input: HostTensor, rows: usize, reductions: &[Reduce]) -> Vec<Vec<Expected>> {
    let n = input.len() / rows;
    let mut b = ExprBuilder::new();
    let x = b.input(0, input.dtype);
    let results: Vec<Id> = reductions.iter().map(|&r| b.reduce(r, x).unwrap()).collect();
    let outputs = results.iter().map(|&r| Access::new(b.dtype(r), &[1, 0])).collect();
    let access = Access::new(input.dtype, &[n as isize, 1]);
    let op = Op::rows(&[rows, n], 1, vec![access], outputs, b.finish(&results)).unwrap();
    evaluate(&op, &[input], &[], Tolerance::CPU).unwrap()
}

#[test]
fn reductions_of_integers_are_exact() {
    let all = [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min, Reduce::ArgMax, Reduce::ArgMin];
    let out = rows(HostTensor::from_slice(&[100i8, 100, -3, -3, 7, 7]), 2, &all);
    let values: Vec<Vec<i128>> = out.iter().map(|o| ints(o)).collect();
    assert_eq!(values, [[-59, 11], [-48, 109], [100, 7], [-3, -3], [0, 1], [2, 0]]);
}

#[test]
fn empty_rows_give_the_identity() {
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let all = [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::ArgMax];
    let results: Vec<Id> = all.iter().map(|&r| b.reduce(r, x).unwrap()).collect();
    let outputs = results.iter().map(|&r| Access::new(b.dtype(r), &[1, 0])).collect();
    let op = Op::rows(&[2, 0], 1, vec![Access::new(DType::F32, &[0, 1])], outputs, b.finish(&results)).unwrap();
    let out = evaluate(&op, &[HostTensor::zeros(DType::F32, 0)], &[], Tolerance::CPU).unwrap();
    assert_eq!(floats(&out[0]), [0.0, 0.0]);
    assert_eq!(floats(&out[1]), [1.0, 1.0]);
    assert_eq!(floats(&out[2]), [f64::NEG_INFINITY; 2]);
    assert_eq!(ints(&out[3]), [0, 0]);
}

#[test]
fn argmax_takes_the_first_of_equals_and_the_first_nan() {
    let out = rows(HostTensor::from_slice(&[1f32, 3.0, 3.0, 2.0]), 1, &[Reduce::ArgMax, Reduce::ArgMin]);
    assert_eq!((ints(&out[0]), ints(&out[1])), (vec![1], vec![0]));
    let out = rows(HostTensor::from_slice(&[1f32, f32::NAN, 9.0, f32::NAN]), 1, &[Reduce::ArgMin, Reduce::Max]);
    assert_eq!(ints(&out[0]), [1]);
    assert!(floats(&out[1])[0].is_nan());
    // Values that rounding may exchange decide nothing.
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let e = b.unary(Unary::Exp, x).unwrap();
    let r = b.reduce(Reduce::ArgMax, e).unwrap();
    let access = vec![Access::new(DType::F32, &[1])];
    let op = Op::rows(&[2], 0, access, vec![Access::new(DType::I64, &[0])], b.finish(&[r])).unwrap();
    let near = HostTensor::from_slice(&[1f32, 1f32.next_up()]);
    assert_eq!(evaluate(&op, &[near], &[], Tolerance::CPU).unwrap()[0][0].bound, f64::INFINITY);
}

#[test]
fn float_sums_know_their_error() {
    let out = rows(HostTensor::from_slice(&[1e8f32, 1.0, -1e8]), 1, &[Reduce::Sum]).remove(0)[0];
    assert_eq!(out.value, Exact::Float(1.0));
    assert!(out.accepts(Scalar::new(0f32)).is_ok(), "summed in order the 1 is lost");
    assert!(out.accepts(Scalar::new(100f32)).is_err());
    let out = rows(HostTensor::from_slice(&[f32::INFINITY, 1.0, f32::NEG_INFINITY]), 1, &[Reduce::Sum]).remove(0)[0];
    assert!(out.accepts(Scalar::new(f32::NAN)).is_ok() && out.accepts(Scalar::new(0f32)).is_err());
    let out = rows(HostTensor::from_slice(&[f32::MAX, f32::MAX]), 1, &[Reduce::Sum]).remove(0)[0];
    assert_eq!((out.value, out.bound), (Exact::Float(f64::INFINITY), 0.0));
}

#[test]
fn a_softmax_writes_elements_and_a_sum_for_each_row() {
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let m = b.reduce(Reduce::Max, x).unwrap();
    let d = b.binary(Binary::Sub, x, m).unwrap();
    let e = b.unary(Unary::Exp, d).unwrap();
    let s = b.reduce(Reduce::Sum, e).unwrap();
    let y = b.binary(Binary::Div, e, s).unwrap();
    let expr = b.finish(&[y, s]);
    let access = || Access::new(DType::F32, &[1, 2]);
    let outputs = vec![access(), Access::new(DType::F32, &[1, 0])];
    let op = Op::rows(&[2, 2], 1, vec![access()], outputs, expr).unwrap();
    // Columns are the rows here: (0, 0) and (0, ln 3).
    let input = HostTensor::from_slice(&[0f32, 0.0, 0.0, 3f32.ln()]);
    let out = evaluate(&op, &[input], &[], Tolerance::CPU).unwrap();
    assert_eq!(out[0].iter().map(|e| e.position).collect::<Vec<_>>(), [0, 2, 1, 3]);
    for (e, want) in out[0].iter().zip([0.5f32, 0.5, 0.25, 0.75]) {
        assert!(e.accepts(Scalar::new(want)).is_ok(), "{e:?}");
        assert!(e.bound < 1e-6);
    }
    assert!(out[1][1].accepts(Scalar::new(4f32 / 3.0)).is_ok());
}

/// `a[m, k] * b[k, n] + 1`, summed in `acc`.
fn matmul(a: HostTensor, b: HostTensor, m: usize, n: usize, k: usize, acc: DType) -> Vec<Expected> {
    let operand = |i: u16, dtype| {
        let mut e = ExprBuilder::new();
        let x = e.input(i, dtype);
        e.finish(&[x])
    };
    let mut e = ExprBuilder::new();
    let (value, one) = (e.push(Node::Acc, acc), e.constant(Scalar::one(acc)));
    let sum = e.binary(Binary::Add, value, one).unwrap();
    let (ki, ni) = (k as isize, n as isize);
    let contract = Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: operand(0, a.dtype),
        rhs: operand(1, b.dtype),
        acc,
        epilogue: e.finish(&[sum]),
        accuracy: Default::default(),
    };
    let inputs = vec![Access::new(a.dtype, &[ki, 0, 1]), Access::new(b.dtype, &[0, 1, ni])];
    let op = Op::contract(&[m, n, k], inputs, vec![Access::new(acc, &[ni, 1, 0])], contract).unwrap();
    evaluate(&op, &[a, b], &[], Tolerance::CPU).unwrap().remove(0)
}

#[test]
fn contractions_sum_products_and_apply_the_epilogue() {
    let (a, b) = ([1i32, 2, 3, 4], [5i32, 6, 7, 8]);
    let out = matmul(HostTensor::from_slice(&a), HostTensor::from_slice(&b), 2, 2, 2, DType::I32);
    assert_eq!(ints(&out), [20, 23, 44, 51]);
    let f = |v: &[i32]| HostTensor::from_slice(&v.iter().map(|&x| f16::from_f32(x as f32)).collect::<Vec<_>>());
    let out = matmul(f(&a), f(&b), 2, 2, 2, DType::F32);
    assert_eq!(floats(&out), [20.0, 23.0, 44.0, 51.0]);
    let out =
        matmul(HostTensor::from_slice(&[true, false]), HostTensor::from_slice(&[false, true]), 1, 1, 2, DType::Bool);
    assert_eq!(ints(&out), [1], "or with one");
}

#[test]
fn a_contraction_over_nothing_is_zero_before_the_epilogue() {
    let empty = || HostTensor::zeros(DType::F32, 0);
    let out = matmul(empty(), empty(), 2, 3, 0, DType::F32);
    assert_eq!(floats(&out), [1.0; 6]);
    assert!(out.iter().all(|e| e.bound == 0.0));
    assert!(matmul(empty(), empty(), 0, 3, 2, DType::F32).is_empty());
}

#[test]
fn very_deep_expressions_do_not_recurse() {
    let out = map(&[HostTensor::from_slice(&[1i64])], |b, x| {
        let mut v = x[0];
        for i in 0..100_000i64 {
            let c = b.constant(Scalar::new(i));
            v = b.binary(Binary::Add, v, c).unwrap();
        }
        v
    });
    assert_eq!(ints(&out), [1 + 100_000 * 99_999 / 2]);
}

#[test]
fn elements_outside_a_host_tensor_are_none_or_errors() {
    let mut t = HostTensor::from_slice(&[1u8, 2]);
    assert_eq!((t.get(1), t.get(2)), (Some(Scalar::new(2u8)), None));
    assert_eq!(t.get(usize::MAX), None);
    assert!(t.set(2, Scalar::new(1u8)).is_err() && t.set(0, Scalar::new(1i8)).is_err());
    assert!(t.set(0, Scalar::new(9u8)).is_ok());
    assert_eq!(t.with_offset(1).at(-1), Some(Scalar::new(9u8)));
}
