//! Block kernels against scalar definitions: every type, operation, form and awkward length, in place and not.

use super::{Random, run1, run2, run3};
use crate::math::{BlockFn, FmaForm, Form, ReduceOp};
use crate::math::{binary, compare, fma, reduce, select, unary};
use crate::simd::Isa;
use millstream_core::{Binary, DType, Unary};
use num_complex::Complex;
use std::fmt::Debug;
use std::ptr::null;

const LENGTHS: [usize; 11] = [0, 1, 2, 7, 8, 15, 31, 32, 33, 100, 257];
const FORMS: [Form; 3] = [Form::VV, Form::VS, Form::SV];

/// A number of the test: random values with the awkward ones among them, and equality that knows NaN.
trait Value: Copy + Debug {
    const ELEM: DType;
    fn random(random: &mut Random) -> Self;
    fn same(self, other: Self) -> bool;
}

macro_rules! integer_value {
    ($($t:ty, $elem:ident;)+) => {$(
        impl Value for $t {
            const ELEM: DType = DType::$elem;
            fn random(random: &mut Random) -> $t {
                match random.below(8) {
                    0 => 0,
                    1 => <$t>::MIN,
                    2 => <$t>::MAX,
                    3 => (0 as $t).wrapping_sub(1),
                    4 => random.below(70) as $t,
                    5 => (random.below(40) as $t).wrapping_sub(20),
                    _ => random.bits() as $t,
                }
            }
            fn same(self, other: $t) -> bool {
                self == other
            }
        }
    )+};
}

integer_value! { i8, I8; i16, I16; i32, I32; i64, I64; u8, U8; u16, U16; u32, U32; u64, U64; }

macro_rules! float_value {
    ($($t:ty, $elem:ident;)+) => {$(
        impl Value for $t {
            const ELEM: DType = DType::$elem;
            fn random(random: &mut Random) -> $t {
                match random.below(12) {
                    0 => 0.0,
                    1 => -0.0,
                    2 => <$t>::INFINITY,
                    3 => <$t>::NEG_INFINITY,
                    4 => <$t>::NAN,
                    5 => <$t>::MIN_POSITIVE / 4.0,
                    6 => random.below(100) as $t - 50.0,
                    7 => <$t>::from_bits(random.bits() as _),
                    _ => ((random.unit() - 0.5) * 100.0) as $t,
                }
            }
            fn same(self, other: $t) -> bool {
                self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
            }
        }
    )+};
}

float_value! { f32, F32; f64, F64; }

macro_rules! complex_value {
    ($($t:ty, $elem:ident;)+) => {$(
        impl Value for Complex<$t> {
            const ELEM: DType = DType::$elem;
            fn random(random: &mut Random) -> Self {
                Complex::new((random.unit() * 8.0 - 4.0) as $t, (random.unit() * 8.0 - 4.0) as $t)
            }
            fn same(self, other: Self) -> bool {
                let bound = 64.0 * <$t>::EPSILON * (1.0 + other.norm());
                (self - other).norm() <= bound || self == other
            }
        }
    )+};
}

complex_value! { f32, C64; f64, C128; }

fn values<T: Value>(random: &mut Random, n: usize) -> Vec<T> {
    (0..n).map(|_| T::random(random)).collect()
}

/// Checks a unary kernel at every length, from an odd element on, and in place.
fn check1<T: Value, R: Value>(name: &str, kernel: BlockFn, f: impl Fn(T) -> R, in_place: bool) {
    let mut random = Random::new();
    for n in LENGTHS {
        let a = values::<T>(&mut random, n + 1);
        let mut dst = values::<R>(&mut random, n + 2);
        let guard = dst[n + 1];
        run1(kernel, &a[1..], &mut dst[1..=n]);
        for i in 0..n {
            let want = f(a[i + 1]);
            assert!(dst[i + 1].same(want), "{name} of {:?} is {:?}, not {want:?}", a[i + 1], dst[i + 1]);
        }
        assert!(dst[n + 1].same(guard), "{name} wrote past the end");
        if in_place {
            let mut both = a.clone();
            // SAFETY: in place, `n + 1` elements of one size.
            unsafe { kernel(both.as_mut_ptr().cast(), both.as_ptr().cast(), null(), null(), n + 1) };
            // SAFETY: `in_place` is true only where R is T.
            let both = unsafe { std::slice::from_raw_parts(both.as_ptr().cast::<R>(), n + 1) };
            for (&a, &r) in a.iter().zip(both) {
                assert!(r.same(f(a)), "{name} in place of {a:?} is {r:?}");
            }
        }
    }
}

/// Checks a binary kernel in one form.
fn check2<T: Value, R: Value>(name: &str, form: Form, kernel: BlockFn, f: impl Fn(T, T) -> R, in_place: bool) {
    let mut random = Random::new();
    for n in LENGTHS {
        let (a, b) = (values::<T>(&mut random, n + 1), values::<T>(&mut random, n + 1));
        let at = |i: usize| match form {
            Form::VV => (a[i], b[i]),
            Form::VS => (a[i], b[0]),
            Form::SV => (a[0], b[i]),
        };
        let mut dst = values::<R>(&mut random, n + 2);
        let guard = dst[n + 1];
        run2(kernel, &a, &b, &mut dst[..=n]);
        for (i, r) in dst[..=n].iter().enumerate() {
            let (x, y) = at(i);
            let want = f(x, y);
            assert!(r.same(want), "{name} {form:?} of {x:?} and {y:?} is {r:?}, not {want:?}");
        }
        assert!(dst[n + 1].same(guard), "{name} wrote past the end");
        if in_place {
            let mut both = if form == Form::SV { b.clone() } else { a.clone() };
            let p = both.as_mut_ptr();
            let (x, y) = if form == Form::SV { (a.as_ptr(), p.cast_const()) } else { (p.cast_const(), b.as_ptr()) };
            // SAFETY: in place, `n + 1` elements of one size.
            unsafe { kernel(p.cast(), x.cast(), y.cast(), null(), n + 1) };
            // SAFETY: `in_place` is true only where R is T.
            let both = unsafe { std::slice::from_raw_parts(both.as_ptr().cast::<R>(), n + 1) };
            for (i, r) in both.iter().enumerate() {
                let (x, y) = at(i);
                assert!(r.same(f(x, y)), "{name} {form:?} in place of {x:?} and {y:?} is {r:?}");
            }
        }
    }
}

fn floor_div(a: i128, b: i128) -> i128 {
    if b == 0 { 0 } else { a.div_euclid(b) - i128::from(a.rem_euclid(b) != 0 && b < 0) }
}

fn power(a: i128, b: i128, wrap: impl Fn(i128) -> i128) -> i128 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 => 1 - 2 * (b & 1),
            _ => 0,
        };
    }
    let (mut result, mut base, mut b) = (1i128, a, b);
    while b > 0 {
        if b & 1 == 1 {
            result = wrap(i128::wrapping_mul(result, base));
        }
        // Only the low 64 bits count.
        base = wrap(base.wrapping_mul(base));
        b >>= 1;
    }
    result
}

/// What an integer operation means, in i128.
fn integer(op: Binary, a: i128, b: i128, bits: u32, wrap: impl Fn(i128) -> i128) -> Option<i128> {
    let amount = b & ((1i128 << bits) - 1);
    Some(wrap(match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Pow => power(a, b, &wrap),
        Binary::FloorDiv => floor_div(a, b),
        Binary::Rem => {
            if b == 0 {
                0
            } else {
                a - floor_div(a, b) * b
            }
        }
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl if amount >= i128::from(bits) => 0,
        Binary::Shl => a << amount,
        Binary::Shr => a >> amount.min(126),
        // Of floats only.
        _ => return None,
    }))
}

macro_rules! integers {
    ($($name:ident $t:ty;)+) => {$(
        #[test]
        fn $name() {
            let elem = <$t as Value>::ELEM;
            for isa in Isa::available() {
                for op in Binary::ALL.iter().copied() {
                    for form in FORMS {
                        let Some(kernel) = binary(isa, op, elem, form) else {
                            assert!(integer(op, 1, 1, 8, |x| x).is_none(), "{op:?} of {elem:?} is missing");
                            continue;
                        };
                        let name = format!("{op:?} of {elem:?} on {isa:?}");
                        let f = |a: $t, b: $t| integer(op, a as i128, b as i128, <$t>::BITS, |x| x as $t as i128).unwrap() as $t;
                        check2::<$t, $t>(&name, form, kernel, f, true);
                    }
                }
                for op in Unary::ALL.iter().copied() {
                    let Some(kernel) = unary(isa, op, elem) else { continue };
                    let f = |a: $t| {
                        let a = a as i128;
                        (match op {
                            Unary::Neg => -a,
                            Unary::Abs => a.abs(),
                            Unary::Sign => a.signum(),
                            Unary::Not => !a,
                            _ => a,
                        }) as $t
                    };
                    check1::<$t, $t>(&format!("{op:?} of {elem:?} on {isa:?}"), kernel, f, true);
                }
                for op in COMPARISONS {
                    for form in FORMS {
                        let kernel = compare(isa, op, elem, form).unwrap();
                        check2::<$t, u8>(&format!("{op:?} of {elem:?}"), form, kernel, |a, b| holds(op, &a, &b), false);
                    }
                }
            }
        }
    )+};
}

integers! {
    i8_blocks_compute_what_is_stated i8;
    i16_blocks_compute_what_is_stated i16;
    i32_blocks_compute_what_is_stated i32;
    i64_blocks_compute_what_is_stated i64;
    u8_blocks_compute_what_is_stated u8;
    u16_blocks_compute_what_is_stated u16;
    u32_blocks_compute_what_is_stated u32;
    u64_blocks_compute_what_is_stated u64;
}

const COMPARISONS: [Binary; 6] = [Binary::Eq, Binary::Ne, Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge];

fn holds<T: PartialOrd>(op: Binary, a: &T, b: &T) -> u8 {
    u8::from(match op {
        Binary::Eq => a == b,
        Binary::Ne => a != b,
        Binary::Lt => a < b,
        Binary::Le => a <= b,
        Binary::Gt => a > b,
        Binary::Ge => a >= b,
        _ => unreachable!("{op:?} is no comparison"),
    })
}

macro_rules! floats {
    ($($name:ident $t:ident;)+) => {$(
        #[test]
        fn $name() {
            let elem = <$t as Value>::ELEM;
            for isa in Isa::available() {
                for form in FORMS {
                    let check = |op: Binary, f: &dyn Fn($t, $t) -> $t| {
                        let kernel = binary(isa, op, elem, form).unwrap();
                        check2::<$t, $t>(&format!("{op:?} of {elem:?} on {isa:?}"), form, kernel, f, true);
                    };
                    check(Binary::Add, &|a, b| a + b);
                    check(Binary::Sub, &|a, b| a - b);
                    check(Binary::Mul, &|a, b| a * b);
                    check(Binary::Div, &|a, b| a / b);
                    // Of zeros of both signs either may win.
                    let nan = |a: $t, b: $t, c: $t| if a.is_nan() || b.is_nan() { <$t>::NAN } else { c };
                    let positive = |x: $t| if x == 0.0 { 0.0 } else { x };
                    for (op, max) in [(Binary::Max, true), (Binary::Min, false)] {
                        let kernel = binary(isa, op, elem, form).unwrap();
                        let mut random = Random::new();
                        let (a, b) = (values::<$t>(&mut random, 100), values::<$t>(&mut random, 100));
                        let mut dst = vec![0.0; 100];
                        run2(kernel, &a, &b, &mut dst);
                        for i in 0..100 {
                            let x = if form == Form::SV { a[0] } else { a[i] };
                            let y = if form == Form::VS { b[0] } else { b[i] };
                            let want = nan(x, y, if max { x.max(y) } else { x.min(y) });
                            assert!(positive(dst[i]).same(positive(want)), "{op:?} of {x} and {y} is {}", dst[i]);
                        }
                    }
                    check(Binary::Rem, &|a, b| {
                        let r = a % b;
                        if r == 0.0 {
                            (0.0 as $t).copysign(b)
                        } else if (r < 0.0) != (b < 0.0) {
                            r + b
                        } else {
                            r
                        }
                    });
                    check(Binary::FloorDiv, &|a, b| {
                        if b == 0.0 || a.is_infinite() {
                            return a / b;
                        }
                        let r = a % b;
                        let mut q = (a - r) / b;
                        if r != 0.0 && (r < 0.0) != (b < 0.0) {
                            q -= 1.0;
                        }
                        let whole = q.floor();
                        let whole = if q - whole > 0.5 { whole + 1.0 } else { whole };
                        if q == 0.0 { (0.0 as $t).copysign(a / b) } else { whole }
                    });
                    for op in COMPARISONS {
                        let kernel = compare(isa, op, elem, form).unwrap();
                        check2::<$t, u8>(&format!("{op:?} of {elem:?}"), form, kernel, |a, b| holds(op, &a, &b), false);
                    }
                }
                let check = |op: Unary, f: &dyn Fn($t) -> $t| {
                    let kernel = unary(isa, op, elem).unwrap();
                    check1::<$t, $t>(&format!("{op:?} of {elem:?} on {isa:?}"), kernel, f, true);
                };
                check(Unary::Neg, &|x| -x);
                check(Unary::Abs, &|x| x.abs());
                check(Unary::Sign, &|x| if x == 0.0 || x.is_nan() { x } else { x.signum() });
                check(Unary::Sqrt, &|x| x.sqrt());
                check(Unary::Recip, &|x| 1.0 / x);
                check(Unary::Floor, &|x| x.floor());
                check(Unary::Ceil, &|x| x.ceil());
                check(Unary::Trunc, &|x| x.trunc());
                check(Unary::Round, &|x| x.round_ties_even());
                assert!(unary(isa, Unary::Not, elem).is_none());
            }
        }
    )+};
}

floats! {
    f32_blocks_compute_what_is_stated f32;
    f64_blocks_compute_what_is_stated f64;
}

#[test]
fn whole_quotients_of_floats_are_exact() {
    // a = q b + r with everything representable: where a division that rounds up would give q + 1.
    let mut random = Random::new();
    for isa in Isa::available() {
        let (rem, div) = (
            binary(isa, Binary::Rem, DType::F32, Form::VV).unwrap(),
            binary(isa, Binary::FloorDiv, DType::F32, Form::VV).unwrap(),
        );
        let b: Vec<f32> = (0..5000).map(|_| (random.unit() * 10.0 + 0.001) as f32).collect();
        let a: Vec<f32> = b.iter().map(|b| (b * (1 + random.below(1 << 20)) as f32).next_down()).collect();
        let (mut r, mut q) = (vec![0f32; 5000], vec![0f32; 5000]);
        run2(rem, &a, &b, &mut r);
        run2(div, &a, &b, &mut q);
        for i in 0..5000 {
            assert_eq!(r[i], a[i] % b[i], "{} % {}", a[i], b[i]);
            let exact = (f64::from(a[i]) - f64::from(r[i])) / f64::from(b[i]);
            assert_eq!(q[i], exact.round() as f32, "{} // {}", a[i], b[i]);
        }
    }
}

#[test]
fn fused_multiply_add_rounds_once_in_every_form() {
    let mut random = Random::new();
    for isa in Isa::available() {
        for form in [FmaForm::VVV, FmaForm::VSV, FmaForm::VVS, FmaForm::VSS] {
            for n in LENGTHS {
                let n = n + 1;
                let make = |random: &mut Random| (0..n).map(|_| random.unit() - 0.5).collect::<Vec<f64>>();
                let (a, b, c) = (make(&mut random), make(&mut random), make(&mut random));
                let pick = |x: &[f64], single: bool, i: usize| x[if single { 0 } else { i }];
                let (sb, sc) =
                    (matches!(form, FmaForm::VSV | FmaForm::VSS), matches!(form, FmaForm::VVS | FmaForm::VSS));
                let mut dst = vec![0f64; n];
                run3(fma(isa, DType::F64, form).unwrap(), &a, &b, &c, &mut dst);
                for i in 0..n {
                    assert_eq!(dst[i], a[i].mul_add(pick(&b, sb, i), pick(&c, sc, i)), "{form:?} on {isa:?}");
                }
                let narrow = |x: &[f64]| x.iter().map(|&x| (x * 1000.0) as i16).collect::<Vec<i16>>();
                let (a, b, c) = (narrow(&a), narrow(&b), narrow(&c));
                let mut dst = vec![0i16; n];
                run3(fma(isa, DType::I16, form).unwrap(), &a, &b, &c, &mut dst);
                for i in 0..n {
                    let (y, z) = (b[if sb { 0 } else { i }], c[if sc { 0 } else { i }]);
                    assert_eq!(dst[i], a[i].wrapping_mul(y).wrapping_add(z));
                }
            }
        }
    }
}

#[test]
fn select_takes_from_the_side_that_its_bool_names() {
    fn check<T: Value>(isa: Isa) {
        let mut random = Random::new();
        for form in FORMS {
            let kernel = select(isa, T::ELEM, form).unwrap();
            for n in LENGTHS {
                let n = n + 1;
                let q: Vec<u8> = (0..n).map(|_| random.below(2) as u8).collect();
                let (b, c) = (values::<T>(&mut random, n), values::<T>(&mut random, n));
                let mut dst = values::<T>(&mut random, n);
                run3(kernel, &q, &b, &c, &mut dst);
                for i in 0..n {
                    let (x, y) = (b[if form == Form::SV { 0 } else { i }], c[if form == Form::VS { 0 } else { i }]);
                    assert!(dst[i].same(if q[i] != 0 { x } else { y }), "{form:?} of {:?} on {isa:?}", T::ELEM);
                }
            }
        }
    }
    for isa in Isa::available() {
        check::<u8>(isa);
        check::<i16>(isa);
        check::<f32>(isa);
        check::<f64>(isa);
        check::<Complex<f64>>(isa);
    }
}

#[test]
fn bools_have_logic_and_no_arithmetic_that_leaves_them() {
    for isa in Isa::available() {
        let table = |op| {
            let mut dst = [9u8; 4];
            run2(binary(isa, op, DType::Bool, Form::VV).unwrap(), &[0u8, 0, 1, 1], &[0, 1, 0, 1], &mut dst);
            dst
        };
        assert_eq!(table(Binary::Add), [0, 1, 1, 1]);
        assert_eq!(table(Binary::Or), [0, 1, 1, 1]);
        assert_eq!(table(Binary::Max), [0, 1, 1, 1]);
        assert_eq!(table(Binary::Mul), [0, 0, 0, 1]);
        assert_eq!(table(Binary::And), [0, 0, 0, 1]);
        assert_eq!(table(Binary::Min), [0, 0, 0, 1]);
        assert_eq!(table(Binary::Xor), [0, 1, 1, 0]);
        assert!(binary(isa, Binary::Sub, DType::Bool, Form::VV).is_none());
        let mut dst = [9u8; 2];
        run1(unary(isa, Unary::Not, DType::Bool).unwrap(), &[0u8, 1], &mut dst);
        assert_eq!(dst, [1, 0]);
    }
}

#[test]
fn float_reductions_match_a_wide_sum_and_keep_nan() {
    let mut random = Random::new();
    for isa in Isa::available() {
        for n in [0, 1, 5, 8, 63, 64, 65, 1000, 4099, 20000] {
            let a: Vec<f32> = (0..n).map(|_| (random.unit() - 0.25) as f32).collect();
            let b: Vec<f32> = (0..n).map(|_| (random.unit() - 0.25) as f32).collect();
            let value = |op, a: &[f32]| {
                let mut got = [0f32];
                // SAFETY: the blocks have `a.len()` elements, the result is one f32.
                unsafe {
                    let kernel = reduce(isa, op, DType::F32).unwrap();
                    kernel(got.as_mut_ptr().cast(), a.as_ptr().cast(), b.as_ptr().cast(), null(), a.len());
                }
                got[0]
            };
            let sum: f64 = a.iter().map(|&x| f64::from(x)).sum();
            let products = || a.iter().zip(&b).map(|(&x, &y)| f64::from(x) * f64::from(y));
            let (dot, dot_size) = (products().sum::<f64>(), products().map(f64::abs).sum::<f64>());
            let size: f64 = a.iter().map(|&x| f64::from(x.abs())).sum();
            assert!((f64::from(value(ReduceOp::Sum, &a)) - sum).abs() <= 1e-6 * size);
            assert!((f64::from(value(ReduceOp::SumProducts, &a)) - dot).abs() <= 1e-6 * dot_size);
            let max = a.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let min = a.iter().copied().fold(f32::INFINITY, f32::min);
            assert_eq!(value(ReduceOp::Max, &a), max);
            assert_eq!(value(ReduceOp::Min, &a), min);
            if n > 2 {
                let mut with_nan = a.clone();
                with_nan[random.below(n as u64) as usize] = f32::NAN;
                assert!(value(ReduceOp::Max, &with_nan).is_nan() && value(ReduceOp::Min, &with_nan).is_nan());
                assert!(value(ReduceOp::Sum, &with_nan).is_nan());
            }
        }
    }
}

#[test]
fn complex_blocks_agree_with_the_textbook() {
    fn check<T>(isa: Isa, one: Complex<T>)
    where
        Complex<T>: Value + std::ops::Div<Output = Complex<T>>,
        T: Value + num_complex::ComplexFloat + Copy,
        Complex<T>: num_complex::ComplexFloat<Real = T>,
    {
        use num_complex::ComplexFloat;
        type Z<T> = Complex<T>;
        let elem = <Z<T> as Value>::ELEM;
        for form in FORMS {
            let zip = |op| binary(isa, op, elem, form).unwrap();
            check2::<Z<T>, Z<T>>("add", form, zip(Binary::Add), |a, b| a + b, true);
            check2::<Z<T>, Z<T>>("sub", form, zip(Binary::Sub), |a, b| a - b, true);
            check2::<Z<T>, Z<T>>("mul", form, zip(Binary::Mul), |a, b| a * b, true);
            check2::<Z<T>, Z<T>>("div", form, zip(Binary::Div), |a, b| a / b, true);
        }
        let map = |op| unary(isa, op, elem).unwrap();
        check1::<Z<T>, Z<T>>("neg", map(Unary::Neg), |z| -z, true);
        check1::<Z<T>, Z<T>>("exp", map(Unary::Exp), |z| z.exp(), true);
        check1::<Z<T>, Z<T>>("log", map(Unary::Log), |z| z.ln(), true);
        check1::<Z<T>, Z<T>>("sqrt", map(Unary::Sqrt), |z| z.sqrt(), true);
        check1::<Z<T>, Z<T>>("sin", map(Unary::Sin), |z| z.sin(), true);
        check1::<Z<T>, Z<T>>("expm1", map(Unary::Expm1), |z| z.exp() - one, true);
        check1::<Z<T>, Z<T>>("log1p", map(Unary::Log1p), |z| (z + one).ln(), true);
        check1::<Z<T>, T>("abs", map(Unary::Abs), |z| z.abs(), false);
    }
    for isa in Isa::available() {
        check::<f32>(isa, Complex::new(1.0, 0.0));
        check::<f64>(isa, Complex::new(1.0, 0.0));
    }
}
