//! Block kernels of complex numbers: scalar code, since they are seldom what a program waits for.

use super::each::{Each, Fn1, Fn2, MulAdd, MulAddElem, Zip};
use super::entry::{C, V, resolve_scalar};
use super::{Binary, BlockFn, DType, FmaForm, Form, Unary};
use crate::simd::Isa;
use num_complex::Complex;
use std::marker::PhantomData;

/// The functions of a complex type.
trait Number: MulAddElem {
    type Real: Copy;
    fn imag(z: Self) -> Self::Real;
    fn join(re: Self::Real, im: Self::Real) -> Self;
    fn unary(op: u8, z: Self) -> Self;
    fn abs(z: Self) -> Self::Real;
    fn log(z: Self) -> Self;
    fn binary(op: u8, a: Self, b: Self) -> Self;
}

macro_rules! number {
    ($($t:ty),+) => {$(
        impl MulAddElem for Complex<$t> {
            #[inline(always)]
            fn mul_add(a: Self, b: Self, c: Self) -> Self {
                a * b + c
            }
        }

        impl Number for Complex<$t> {
            type Real = $t;
            #[inline(always)]
            fn imag(z: Self) -> $t {
                z.im
            }
            #[inline(always)]
            fn join(re: $t, im: $t) -> Self {
                Complex::new(re, im)
            }
            #[inline(always)]
            fn unary(op: u8, z: Self) -> Self {
                const ONE: Complex<$t> = Complex::new(1.0, 0.0);
                match op {
                    NEG => -z,
                    SIGN => {
                        let r = Number::abs(z);
                        if r == 0.0 { Complex::new(0.0, 0.0) } else { z / r }
                    }
                    SQRT => z.sqrt(),
                    RSQRT => divide(ONE, z.sqrt()),
                    RECIP => divide(ONE, z),
                    EXP => z.exp(),
                    EXPM1 => {
                        // e^z - 1 without the cancellation near 0: e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y/2).
                        let (e, h) = (z.re.exp_m1(), (z.im * 0.5).sin());
                        Complex::new(e * z.im.cos() - 2.0 * h * h, (e + 1.0) * z.im.sin())
                    }
                    LOG => Number::log(z),
                    LOG1P => {
                        // |1 + z|^2 = 1 + (2x + x^2 + y^2), but 1 + x is exact where that sum cancels.
                        let (x, y) = (z.re, z.im);
                        let near = x < -0.5 && x > -2.0;
                        let re = if near { (1.0 + x).hypot(y).ln() } else { 0.5 * (x * (x + 2.0) + y * y).ln_1p() };
                        Complex::new(re, y.atan2(1.0 + x))
                    }
                    SIN => z.sin(),
                    COS => z.cos(),
                    // Where cosh would overflow, the real part is 1 to the last bit long since.
                    TANH if z.re.abs() > 40.0 => Complex::new((1.0 as $t).copysign(z.re), 0.0),
                    // sinh x cosh x + i sin y cos y, over sinh^2 x + cos^2 y, which keeps its digits near the poles.
                    TANH => {
                        let (h, (s, c)) = (z.re.sinh(), z.im.sin_cos());
                        let d = h * h + c * c;
                        Complex::new(h * z.re.cosh() / d, s * c / d)
                    }
                    // The other sign where e^-z would overflow.
                    _ if z.re < 0.0 => {
                        let e = z.exp();
                        divide(e, ONE + e)
                    }
                    _ => divide(ONE, ONE + (-z).exp()),
                }
            }
            #[inline(always)]
            fn abs(z: Self) -> $t {
                z.re.hypot(z.im)
            }
            #[inline(always)]
            fn log(z: Self) -> Self {
                let (x, y) = (z.re.abs(), z.im.abs());
                let (a, b) = if x < y { (y, x) } else { (x, y) };
                // Near |z| = 1 the rounded modulus has lost what the logarithm shows.
                let near = a > 0.5 && a < 2.0;
                let re = if near { 0.5 * ((a - 1.0) * (a + 1.0) + b * b).ln_1p() } else { x.hypot(y).ln() };
                Complex::new(re, z.im.atan2(z.re))
            }
            #[inline(always)]
            fn binary(op: u8, a: Self, b: Self) -> Self {
                match op {
                    ADD => a + b,
                    SUB => a - b,
                    MUL => a * b,
                    DIV => divide(a, b),
                    _ if b.re == 0.0 && b.im == 0.0 => Complex::new(1.0, 0.0),
                    _ if a.re == 0.0 && a.im == 0.0 => Complex::new(0.0, 0.0),
                    _ => {
                        let wide = |z: Self| Complex::new(f64::from(z.re), f64::from(z.im));
                        let z = power(wide(a), wide(b));
                        Complex::new(z.re as $t, z.im as $t)
                    }
                }
            }
        }
    )+};
}

number!(f32, f64);

/// a^b of what is not 0, in f64 for both types: the logarithm's error grows with the exponent.
#[inline(always)]
fn power(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    let l = Number::log(a);
    // The power of a positive real number is rounded once.
    let real = a.im == 0.0 && a.re > 0.0 && b.im == 0.0;
    let size = if real { a.re.powf(b.re) } else { (b.re * l.re - b.im * l.im).exp() };
    let (sine, cosine) = (b.im * l.re + b.re * l.im).sin_cos();
    Complex::new(size * cosine, size * sine)
}

/// a / b with the divisor scaled by its larger part, so that squares neither overflow nor vanish (Smith's method).
#[inline(always)]
fn divide<T>(a: Complex<T>, b: Complex<T>) -> Complex<T>
where
    T: Copy + PartialOrd + std::ops::Add<Output = T> + std::ops::Sub<Output = T> + std::ops::Mul<Output = T>,
    T: std::ops::Div<Output = T> + std::ops::Neg<Output = T> + Default,
{
    let size = |x: T| if x < T::default() { -x } else { x };
    if size(b.im) <= size(b.re) {
        let r = b.im / b.re;
        let d = b.re + b.im * r;
        Complex::new((a.re + a.im * r) / d, (a.im - a.re * r) / d)
    } else {
        let r = b.re / b.im;
        let d = b.re * r + b.im;
        Complex::new((a.re * r + a.im) / d, (a.im * r - a.re) / d)
    }
}

const NEG: u8 = 0;
const SIGN: u8 = 1;
const SQRT: u8 = 2;
const RSQRT: u8 = 3;
const RECIP: u8 = 4;
const EXP: u8 = 5;
const EXPM1: u8 = 6;
const LOG: u8 = 7;
const LOG1P: u8 = 8;
const SIN: u8 = 9;
const COS: u8 = 10;
const TANH: u8 = 11;
const SIGMOID: u8 = 12;

const ADD: u8 = 0;
const SUB: u8 = 1;
const MUL: u8 = 2;
const DIV: u8 = 3;
const POW: u8 = 4;

struct UnaryBlock<T, const OP: u8>(PhantomData<T>);
struct BinaryBlock<T, const OP: u8>(PhantomData<T>);
struct Abs<T>(PhantomData<T>);
struct Imag<T>(PhantomData<T>);
struct Join<T>(PhantomData<T>);

impl<T: Number, const OP: u8> Fn1 for UnaryBlock<T, OP> {
    type A = T;
    type R = T;
    #[inline(always)]
    fn f(a: T) -> T {
        T::unary(OP, a)
    }
}

impl<T: Number> Fn1 for Abs<T> {
    type A = T;
    type R = T::Real;
    #[inline(always)]
    fn f(a: T) -> T::Real {
        T::abs(a)
    }
}

impl<T: Number> Fn1 for Imag<T> {
    type A = T;
    type R = T::Real;
    #[inline(always)]
    fn f(a: T) -> T::Real {
        T::imag(a)
    }
}

impl<T: Number> Fn2 for Join<T> {
    type A = T::Real;
    type B = T::Real;
    type R = T;
    #[inline(always)]
    fn f(a: T::Real, b: T::Real) -> T {
        T::join(a, b)
    }
}

impl<T: Number, const OP: u8> Fn2 for BinaryBlock<T, OP> {
    type A = T;
    type B = T;
    type R = T;
    #[inline(always)]
    fn f(a: T, b: T) -> T {
        T::binary(OP, a, b)
    }
}

fn unary_of<T: Number>(isa: Isa, op: Unary) -> Option<BlockFn> {
    Some(match op {
        Unary::Neg => resolve_scalar::<Each<UnaryBlock<T, NEG>>>(isa),
        Unary::Abs => resolve_scalar::<Each<Abs<T>>>(isa),
        Unary::Imag => resolve_scalar::<Each<Imag<T>>>(isa),
        Unary::Sign => resolve_scalar::<Each<UnaryBlock<T, SIGN>>>(isa),
        Unary::Sqrt => resolve_scalar::<Each<UnaryBlock<T, SQRT>>>(isa),
        Unary::Rsqrt => resolve_scalar::<Each<UnaryBlock<T, RSQRT>>>(isa),
        Unary::Recip => resolve_scalar::<Each<UnaryBlock<T, RECIP>>>(isa),
        Unary::Exp => resolve_scalar::<Each<UnaryBlock<T, EXP>>>(isa),
        Unary::Expm1 => resolve_scalar::<Each<UnaryBlock<T, EXPM1>>>(isa),
        Unary::Log => resolve_scalar::<Each<UnaryBlock<T, LOG>>>(isa),
        Unary::Log1p => resolve_scalar::<Each<UnaryBlock<T, LOG1P>>>(isa),
        Unary::Sin => resolve_scalar::<Each<UnaryBlock<T, SIN>>>(isa),
        Unary::Cos => resolve_scalar::<Each<UnaryBlock<T, COS>>>(isa),
        Unary::Tanh => resolve_scalar::<Each<UnaryBlock<T, TANH>>>(isa),
        Unary::Sigmoid => resolve_scalar::<Each<UnaryBlock<T, SIGMOID>>>(isa),
        _ => return None,
    })
}

/// See [`super::unary`].
pub fn unary(isa: Isa, op: Unary, elem: DType) -> Option<BlockFn> {
    match elem {
        DType::C64 => unary_of::<Complex<f32>>(isa, op),
        DType::C128 => unary_of::<Complex<f64>>(isa, op),
        _ => None,
    }
}

/// A kernel of two operands in this form.
pub(super) fn zip<F: Fn2>(isa: Isa, form: Form) -> BlockFn {
    match form {
        Form::VV => resolve_scalar::<Zip<F, V, V>>(isa),
        Form::VS => resolve_scalar::<Zip<F, V, C>>(isa),
        Form::SV => resolve_scalar::<Zip<F, C, V>>(isa),
    }
}

fn binary_of<T: Number>(isa: Isa, op: Binary, form: Form) -> Option<BlockFn> {
    Some(match op {
        Binary::Add => zip::<BinaryBlock<T, ADD>>(isa, form),
        Binary::Sub => zip::<BinaryBlock<T, SUB>>(isa, form),
        Binary::Mul => zip::<BinaryBlock<T, MUL>>(isa, form),
        Binary::Div => zip::<BinaryBlock<T, DIV>>(isa, form),
        Binary::Pow => zip::<BinaryBlock<T, POW>>(isa, form),
        _ => return None,
    })
}

/// See [`super::binary`].
pub fn binary(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    match elem {
        DType::F32 if op == Binary::Complex => Some(zip::<Join<Complex<f32>>>(isa, form)),
        DType::F64 if op == Binary::Complex => Some(zip::<Join<Complex<f64>>>(isa, form)),
        DType::C64 => binary_of::<Complex<f32>>(isa, op, form),
        DType::C128 => binary_of::<Complex<f64>>(isa, op, form),
        _ => None,
    }
}

fn fma_of<T: MulAddElem>(isa: Isa, form: FmaForm) -> BlockFn {
    match form {
        FmaForm::VVV => resolve_scalar::<MulAdd<T, V, V>>(isa),
        FmaForm::VSV => resolve_scalar::<MulAdd<T, C, V>>(isa),
        FmaForm::VVS => resolve_scalar::<MulAdd<T, V, C>>(isa),
        FmaForm::VSS => resolve_scalar::<MulAdd<T, C, C>>(isa),
    }
}

/// See [`super::fma`].
pub fn fma(isa: Isa, elem: DType, form: FmaForm) -> Option<BlockFn> {
    match elem {
        DType::C64 => Some(fma_of::<Complex<f32>>(isa, form)),
        DType::C128 => Some(fma_of::<Complex<f64>>(isa, form)),
        _ => None,
    }
}
