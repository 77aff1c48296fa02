//! Functions of single elements.

use millstream::{Operand, Tensor};
use pyo3::prelude::*;

use crate::array::Made;
use crate::convert::{Arg, X, pair};
use crate::error::R;
use crate::functions::add;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident |$x:ident| $make:expr;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /))]
        pub fn $name(x: X) -> Made {
            let $x = &x.0;
            Made($make)
        })*

        fn register_unary(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

unary! {
    /// The magnitude of each element.
    abs |x| x.abs();
    /// The angle in radians whose cosine it is.
    acos |x| x.acos();
    /// The inverse hyperbolic cosine.
    acosh |x| x.acosh();
    /// The angle of a complex number in radians.
    angle |x| x.angle();
    /// The angle in radians whose sine it is.
    asin |x| x.asin();
    /// The inverse hyperbolic sine.
    asinh |x| x.asinh();
    /// The angle in radians whose tangent it is.
    atan |x| x.atan();
    /// The inverse hyperbolic tangent.
    atanh |x| x.atanh();
    /// Bitwise not; of bool, logical not.
    bitwise_invert |x| x.not();
    /// The cube root.
    cbrt |x| x.cbrt();
    /// Rounded toward plus infinity.
    ceil |x| x.ceil();
    /// The complex conjugate.
    conj |x| x.conj();
    /// The cosine of radians.
    cos |x| x.cos();
    /// The hyperbolic cosine.
    cosh |x| x.cosh();
    /// Degrees as radians.
    deg2rad |x| x.deg2rad();
    /// The error function.
    erf |x| x.erf();
    /// e to the power of x.
    exp |x| x.exp();
    /// 2 to the power of x.
    exp2 |x| x.exp2();
    /// `exp(x) - 1`, exact near 0.
    expm1 |x| x.expm1();
    /// Rounded toward minus infinity.
    floor |x| x.floor();
    /// The imaginary part.
    imag |x| x.imag();
    /// True where the element is finite.
    isfinite |x| x.isfinite();
    /// True where the element is infinite.
    isinf |x| x.isinf();
    /// True where the element is not a number.
    isnan |x| x.isnan();
    /// The natural logarithm.
    log |x| x.log();
    /// The logarithm to the base 10.
    log10 |x| x.log10();
    /// `log(1 + x)`, exact near 0.
    log1p |x| x.log1p();
    /// The logarithm to the base 2.
    log2 |x| x.log2();
    /// True where the element is 0.
    logical_not |x| x.logical_not();
    /// `-x`.
    negative |x| -x;
    /// The array itself.
    positive |x| x.positive();
    /// Radians as degrees.
    rad2deg |x| x.rad2deg();
    /// The real part.
    real |x| x.real();
    /// `1 / x`.
    reciprocal |x| x.recip();
    /// `1 / sqrt(x)`.
    rsqrt |x| x.rsqrt();
    /// -1, 0 or 1; of complex numbers, x / |x|.
    sign |x| if x.dtype().is_float() { x.sign() + 0.0 } else { x.sign() };
    /// True where the sign bit is set.
    signbit |x| x.signbit();
    /// The sine of radians.
    sin |x| x.sin();
    /// The hyperbolic sine.
    sinh |x| x.sinh();
    /// The square root.
    sqrt |x| x.sqrt();
    /// `x * x`.
    square |x| x.square();
    /// The tangent of radians.
    tan |x| x.tan();
    /// The hyperbolic tangent.
    tanh |x| x.tanh();
    /// Rounded toward zero.
    trunc |x| x.trunc();
}

/// What an operation makes of a whole number on the left that the integers on the right do not hold.
#[derive(Clone, Copy)]
pub enum Beyond {
    /// It wraps, as the result does.
    Wraps,
    /// It is a fraction.
    Fraction,
    /// What the operation gives with the operands exchanged.
    Exchanged(fn(&Tensor, Operand<'_>) -> Tensor),
    /// An error.
    Refused,
}

/// An operation on two operands.
#[derive(Clone, Copy)]
pub struct Pair {
    pub make: fn(&Tensor, Operand<'_>) -> Tensor,
    pub beyond: Beyond,
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $beyond:expr, |$x:ident, $y:ident| $make:expr;)*) => {
        /// The operations themselves.
        #[allow(non_upper_case_globals)]
        pub mod op {
            use super::*;
            use super::Beyond::*;

            $(pub const $name: Pair = Pair { make: |$x, $y| $make, beyond: $beyond };)*
        }

        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x1, x2, /))]
        pub fn $name(x1: Arg, x2: Arg) -> R<Made> {
            pair(x1, x2, op::$name)
        })*

        fn register_binary(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

/// The product of matrices; of a number there is none.
fn product(x: &Tensor, y: &Operand<'_>) -> Tensor {
    match y {
        Operand::Tensor(y) => x.matmul(y),
        _ => x.matmul(&Tensor::scalar(0.0f32)),
    }
}

binary! {
    /// `x1 + x2`.
    add Wraps, |x, y| x + y;
    /// The angle of the point (`x2`, `x1`) in radians.
    atan2 Fraction, |x, y| x.atan2(y);
    /// Bitwise and; of bool, logical and.
    bitwise_and Wraps, |x, y| x.and(y);
    /// Shifted left.
    bitwise_left_shift Refused, |x, y| x.shl(y);
    /// Bitwise or; of bool, logical or.
    bitwise_or Wraps, |x, y| x.or(y);
    /// Shifted right, with the sign.
    bitwise_right_shift Refused, |x, y| x.shr(y);
    /// Bitwise exclusive or; of bool, logical exclusive or.
    bitwise_xor Wraps, |x, y| x.xor(y);
    /// The magnitude of `x1` with the sign of `x2`.
    copysign Fraction, |x, y| x.copysign(y);
    /// `x1 / x2`, always a fraction.
    divide Fraction, |x, y| x / y;
    /// True where equal.
    equal Exchanged(|y, x| y.eq(x)), |x, y| x.eq(y);
    /// The quotient rounded toward minus infinity.
    floor_divide Refused, |x, y| x.floor_div(y);
    /// The remainder with the sign of `x1`.
    fmod Refused, |x, y| x.fmod(y);
    /// True where `x1` is greater.
    greater Exchanged(|y, x| y.lt(x)), |x, y| x.gt(y);
    /// True where `x1` is greater or equal.
    greater_equal Exchanged(|y, x| y.le(x)), |x, y| x.ge(y);
    /// `sqrt(x1**2 + x2**2)` without overflow.
    hypot Fraction, |x, y| x.hypot(y);
    /// True where `x1` is less.
    less Exchanged(|y, x| y.gt(x)), |x, y| x.lt(y);
    /// True where `x1` is less or equal.
    less_equal Exchanged(|y, x| y.ge(x)), |x, y| x.le(y);
    /// `log(exp(x1) + exp(x2))` without overflow.
    logaddexp Refused, |x, y| x.logaddexp(y);
    /// Logical and of what is not 0.
    logical_and Exchanged(|y, x| y.logical_and(x)), |x, y| x.logical_and(y);
    /// Logical or of what is not 0.
    logical_or Exchanged(|y, x| y.logical_or(x)), |x, y| x.logical_or(y);
    /// True where exactly one is not 0.
    logical_xor Exchanged(|y, x| y.logical_xor(x)), |x, y| x.logical_xor(y);
    /// The product of matrices, vectors and batches of them.
    matmul Refused, |x, y| product(x, &y);
    /// The larger of each pair.
    maximum Exchanged(|y, x| y.maximum(x)), |x, y| x.maximum(y);
    /// The smaller of each pair.
    minimum Exchanged(|y, x| y.minimum(x)), |x, y| x.minimum(y);
    /// `x1 * x2`.
    multiply Wraps, |x, y| x * y;
    /// The next number of the dtype in the direction of `x2`.
    nextafter Fraction, |x, y| x.nextafter(y);
    /// True where not equal.
    not_equal Exchanged(|y, x| y.ne(x)), |x, y| x.ne(y);
    /// The power.
    pow Refused, |x, y| x.pow(y);
    /// The remainder with the sign of `x2`.
    remainder Refused, |x, y| x.rem(y);
    /// `x1 - x2`.
    subtract Wraps, |x, y| x - y;
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_unary(module)?;
    register_binary(module)
}
