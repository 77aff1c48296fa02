//! Arithmetic, comparisons and functions of single elements.

use half::{bf16, f16};
use millstream_core::what::broadcast_shapes;
use millstream_core::{Binary, DType, Error, Kind as Family, Result, Scalar, Unary};
use num_complex::Complex;

use crate::Tensor;
use crate::graph::{Inputs, Select, one};
use crate::ops::complex;

/// What can stand beside a tensor in an operation: another tensor, or a plain number of any primitive type.
#[derive(Clone)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A fraction: takes the other operand's dtype if that is a float type.
    Float(f64),
    /// A whole number: takes the other operand's dtype.
    Int(i128),
    /// A truth value.
    Bool(bool),
    /// A complex number: takes the other operand's dtype if that is a complex type.
    Complex(Complex<f64>),
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Operand<'a> {
        Operand::Tensor(tensor)
    }
}

macro_rules! operands {
    ($($rust:ty, |$value:ident| $operand:expr;)*) => {
        $(impl From<$rust> for Operand<'_> {
            fn from($value: $rust) -> Self {
                $operand
            }
        })*
    };
}
operands! {
    f64, |v| Operand::Float(v);
    f32, |v| Operand::Float(v.into());
    f16, |v| Operand::Float(v.into());
    bf16, |v| Operand::Float(v.into());
    i8, |v| Operand::Int(v.into());
    i16, |v| Operand::Int(v.into());
    i32, |v| Operand::Int(v.into());
    i64, |v| Operand::Int(v.into());
    i128, |v| Operand::Int(v);
    isize, |v| Operand::Int(v as i128);
    u8, |v| Operand::Int(v.into());
    u16, |v| Operand::Int(v.into());
    u32, |v| Operand::Int(v.into());
    u64, |v| Operand::Int(v.into());
    usize, |v| Operand::Int(v as i128);
    bool, |v| Operand::Bool(v);
    Complex<f32>, |v| Operand::Complex(Complex::new(v.re.into(), v.im.into()));
    Complex<f64>, |v| Operand::Complex(v);
}

/// Whether a dtype holds this number; floats hold all, rounded.
fn fits(number: i128, dtype: DType) -> bool {
    Scalar::whole(number, dtype).is_some()
}

fn unfit(number: i128, dtype: DType) -> Error {
    Error::argument(format!("{number} does not fit in {dtype}")).suggest("cast the tensor to a wider type first")
}

/// The whole number in a dtype; an error where it does not fit.
pub(crate) fn whole_number(number: i128, dtype: DType) -> Result<Scalar> {
    Scalar::whole(number, dtype).ok_or_else(|| unfit(number, dtype))
}

impl Operand<'_> {
    /// The operand as a tensor beside values of this dtype; an error where the dtype does not hold it.
    #[track_caller]
    pub(crate) fn held(&self, dtype: DType) -> Tensor {
        match *self {
            Operand::Int(v) if !fits(v, dtype) => Tensor::build("number", || Err(unfit(v, dtype))),
            _ => self.beside(dtype),
        }
    }

    /// The operand as the left side of an operation with values of this dtype, by the rules of `Tensor::beyond`.
    #[track_caller]
    fn before(&self, op: Binary, dtype: DType) -> Tensor {
        match *self {
            Operand::Int(v) if op == Binary::Div && !fits(v, dtype) => Tensor::scalar(v as f32),
            _ if op == Binary::Rem => self.held(dtype),
            _ => self.beside(dtype),
        }
    }

    /// Of a whole number that an integer dtype does not hold: the value of the dtype that is nearest to it, how far it lies beyond that,
    /// and the number.
    pub(crate) fn outside(&self, dtype: DType) -> Option<(Scalar, f64, f64)> {
        let &Operand::Int(v) = self else { return None };
        if dtype == DType::Bool || fits(v, dtype) {
            return None;
        }
        let bits = 8 * dtype.size() as u32;
        let (least, most) = match dtype.kind() {
            Family::Unsigned => (0, (1i128 << bits) - 1),
            _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        };
        let edge = if v > most { most } else { least };
        Some((Scalar::from_int(edge, dtype), v.abs_diff(edge) as f64, v as f64))
    }

    /// The operand as truth values.
    #[track_caller]
    pub(crate) fn truth(&self) -> Tensor {
        match *self {
            Operand::Tensor(t) => t.cast(DType::Bool),
            Operand::Float(v) => Tensor::scalar(v != 0.0),
            Operand::Int(v) => Tensor::scalar(v != 0),
            Operand::Bool(v) => Tensor::scalar(v),
            Operand::Complex(v) => Tensor::scalar(v != Complex::ZERO),
        }
    }

    /// The operand as a tensor beside values of this dtype; whole numbers wrap.
    #[track_caller]
    pub(crate) fn beside(&self, dtype: DType) -> Tensor {
        match *self {
            Operand::Tensor(t) => t.clone(),
            ref number => Tensor::scalar(number.scalar(dtype)),
        }
    }

    /// A number beside values of this dtype; whole ones wrap. Of a tensor, nothing.
    pub(crate) fn scalar(&self, dtype: DType) -> Scalar {
        match *self {
            Operand::Tensor(_) => Scalar::zero(dtype),
            Operand::Float(v) if matches!(dtype.kind(), Family::Float | Family::Complex) => Scalar::from_f64(v, dtype),
            Operand::Float(v) => Scalar::new(v as f32),
            Operand::Int(v) if dtype == DType::Bool => Scalar::new(v as i64),
            Operand::Int(v) => Scalar::from_int(v, dtype),
            Operand::Bool(v) => Scalar::new(v),
            Operand::Complex(v) if matches!(dtype, DType::F64 | DType::C128) => Scalar::new(v),
            Operand::Complex(v) => Scalar::new(Complex::new(v.re as f32, v.im as f32)),
        }
    }
}

/// # Choices and bounds
impl Tensor {
    #[track_caller]
    pub(crate) fn unary(&self, op: Unary) -> Tensor {
        Tensor::build(op.name(), || {
            self.check()?;
            let of = self.dtype();
            let exact = matches!(of.kind(), Family::Signed | Family::Unsigned | Family::Bool);
            match op.result(of) {
                Some(_) if of.is_complex() => Ok(complex::settled(op, self, Tensor::new_node(op, one(self))?)),
                Some(_) => Tensor::new_node(op, one(self)),
                // Integers are whole.
                None if exact && matches!(op, Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round) => {
                    Ok(self.same())
                }
                None if exact && op.result(DType::F32).is_some() && op != Unary::Neg => {
                    Ok(self.cast(DType::F32).unary(op))
                }
                None => of
                    .is_complex()
                    .then(|| complex::unary(op, self))
                    .flatten()
                    .ok_or_else(|| Error::dtype(format!("{} does not take {of}", op.name()))),
            }
        })
    }

    #[track_caller]
    pub(crate) fn binary<'a>(&self, op: Binary, other: impl Into<Operand<'a>>) -> Tensor {
        match other.into() {
            Operand::Tensor(other) => self.pair(op, other),
            Operand::Int(v) if self.check().is_ok() && !fits(v, self.dtype()) => self.beyond(op, v),
            number => self.pair(op, &number.beside(self.dtype())),
        }
    }

    /// An operation with a number that this integer dtype does not hold. Comparisons, bounds and fractions have an answer; sums,
    /// products and bitwise operations wrap as their results do; for others it is an error.
    #[track_caller]
    fn beyond(&self, op: Binary, number: i128) -> Tensor {
        let above = number > 0;
        let all = |truth: bool| Tensor::full(self.sizes(), truth);
        match op {
            Binary::Eq => all(false),
            Binary::Ne => all(true),
            Binary::Lt | Binary::Le => all(above),
            Binary::Gt | Binary::Ge => all(!above),
            Binary::Min if above => self.same(),
            Binary::Max if !above => self.same(),
            Binary::Add | Binary::Sub | Binary::Mul | Binary::And | Binary::Or | Binary::Xor => {
                self.pair(op, &Tensor::scalar(Scalar::from_int(number, self.dtype())))
            }
            // Such a shift leaves no bit.
            Binary::Shl | Binary::Shr if above => self.pair(op, &Tensor::scalar(Scalar::from_int(64, self.dtype()))),
            Binary::Div | Binary::Atan2 | Binary::Hypot | Binary::CopySign | Binary::NextAfter => {
                self.pair(op, &Tensor::scalar(number as f32))
            }
            _ => Tensor::build(op.name(), || Err(unfit(number, self.dtype()))),
        }
    }

    #[track_caller]
    fn pair(&self, op: Binary, other: &Tensor) -> Tensor {
        Tensor::build(op.name(), || {
            self.check()?;
            other.check()?;
            // The common case first: nothing to convert, nothing to broadcast.
            if self.dtype() == other.dtype() && self.sizes() == other.sizes() && op.result(self.dtype()).is_some() {
                let inputs = Inputs::from_buf([self.clone(), other.clone()]);
                return Tensor::new_node(op, inputs);
            }
            let mut of =
                if self.dtype() == other.dtype() { self.dtype() } else { self.dtype().promote(other.dtype())? };
            // Of integers these are fractions, and of halves complex numbers have parts in f32.
            let fraction = matches!(
                op,
                Binary::Div | Binary::Atan2 | Binary::Hypot | Binary::CopySign | Binary::NextAfter | Binary::Complex
            );
            if fraction && op.result(of).is_none() && !of.is_complex() {
                of = DType::F32;
            }
            let (a, b) = (self.cast(of), other.cast(of));
            let shape = broadcast_shapes(a.sizes(), b.sizes())?;
            let inputs = Inputs::from_buf([
                Tensor { layout: a.layout.broadcast(&shape)?, node: a.node },
                Tensor { layout: b.layout.broadcast(&shape)?, node: b.node },
            ]);
            Tensor::new_node(op, inputs)
        })
    }

    /// Elements of `a` where this bool tensor is true, of `b` where it is not.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[-1.0f32, 2.0]);
    /// assert_eq!(x.gt(0.0).where_(&x, 0.0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn where_<'a, 'b>(&self, a: impl Into<Operand<'a>>, b: impl Into<Operand<'b>>) -> Tensor {
        let (a, b) = (a.into(), b.into());
        // A number beside a tensor takes the tensor's dtype; two numbers meet as f32 or i64.
        let of = match (&a, &b) {
            (Operand::Tensor(t), _) | (_, Operand::Tensor(t)) => t.dtype(),
            (Operand::Complex(_), _) | (_, Operand::Complex(_)) => DType::C64,
            (Operand::Float(_), _) | (_, Operand::Float(_)) => DType::F32,
            (Operand::Bool(_), Operand::Bool(_)) => DType::Bool,
            _ => DType::I64,
        };
        Tensor::build("where", || {
            let (a, b) = (a.held(of), b.held(of));
            for t in [self, &a, &b] {
                t.check()?;
            }
            if self.dtype() != DType::Bool {
                return Err(Error::dtype(format!("where needs a bool condition, not {}", self.dtype()))
                    .suggest("compare it first, for example with ne(0)"));
            }
            let dtype = a.dtype().promote(b.dtype())?;
            let shape = broadcast_shapes(self.sizes(), &broadcast_shapes(a.sizes(), b.sizes())?)?;
            let inputs = [self.clone(), a.cast(dtype), b.cast(dtype)]
                .into_iter()
                .map(|t| Ok(Tensor { layout: t.layout.broadcast(&shape)?, node: t.node }))
                .collect::<Result<Inputs>>()?;
            Tensor::new_node(Select, inputs)
        })
    }

    /// `max(x, 0)`.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        Tensor::composed("relu", || self.maximum(0))
    }

    /// The Gaussian error linear unit, `x/2 * (1 + erf(x / sqrt(2)))`.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        Tensor::composed("gelu", || {
            let half = self * 0.5;
            &half + &half * (self * std::f64::consts::FRAC_1_SQRT_2).erf()
        })
    }

    /// `x * sigmoid(x)`.
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        Tensor::composed("silu", || self * self.sigmoid())
    }

    /// `x * x`.
    #[track_caller]
    pub fn square(&self) -> Tensor {
        Tensor::composed("square", || self * self)
    }

    /// The tensor with elements below `low` raised to it and above `high` lowered to it. For one bound alone there are
    /// [`Tensor::maximum`] and [`Tensor::minimum`].
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([-1.0f32, 0.5, 3.0]);
    /// assert_eq!(x.clip(0.0, 1.0).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[doc(alias = "clamp")]
    #[track_caller]
    pub fn clip<'a, 'b>(&self, low: impl Into<Operand<'a>>, high: impl Into<Operand<'b>>) -> Tensor {
        Tensor::composed("clip", || self.maximum(low).minimum(high))
    }

    /// True where the element is not a number.
    #[track_caller]
    #[doc(alias = "is_nan")]
    pub fn isnan(&self) -> Tensor {
        Tensor::composed("isnan", || self.ne(self))
    }
}

/// What a function promises, as a sentence of its documentation; the test below holds it against the operation's own bound.
macro_rules! promise {
    (exact) => {
        "Exact."
    };
    (once) => {
        "Exact for integers; of floats rounded once at most."
    };
    (rounded) => {
        "Rounded correctly on the CPU and through CUDA; through shading languages within 2.5 units in the last place."
    };
    (two) => {
        "Within 2 units in the last place on the CPU, 4 on GPUs."
    };
}

/// The bound of a promise.
#[cfg(test)]
macro_rules! bound {
    (exact) => {
        0.0
    };
    (once) => {
        0.0
    };
    (rounded) => {
        0.5
    };
    (two) => {
        2.0
    };
}

macro_rules! unary {
    ($(#![$head:meta])* $($(#[$doc:meta])* $name:ident => $op:ident $promise:ident),* $(,)?) => {
        $(#[$head])*
        impl Tensor {
            $($(#[$doc])*
            ///
            #[doc = promise!($promise)]
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.unary(Unary::$op)
            })*
        }

        #[cfg(test)]
        const UNARY: &[(Unary, f64)] = &[$((Unary::$op, bound!($promise))),*];
    };
}

unary! {
    //! # Functions of one number
    //!
    //! Functions of floats take integers as f32, and half types are computed in f32. Bool, integers and, where there is a formula, complex numbers
    //! are taken, too; what a function does not take is an error.

    /// `-x`.
    neg => Neg exact,
    /// The magnitude.
    abs => Abs exact,
    /// -1, 0 or 1.
    sign => Sign exact,
    /// Logical not of bool, bitwise not of integers.
    not => Not exact,
    /// The square root.
    sqrt => Sqrt rounded,
    /// `1 / sqrt(x)`.
    rsqrt => Rsqrt two,
    /// `1 / x`.
    recip => Recip rounded,
    /// e to the power of x.
    exp => Exp two,
    /// `exp(x) - 1`, exact near 0.
    expm1 => Expm1 two,
    /// The natural logarithm.
    log => Log two,
    /// `log(1 + x)`, exact near 0.
    log1p => Log1p two,
    /// The sine of radians.
    sin => Sin two,
    /// The cosine of radians.
    cos => Cos two,
    /// The tangent of radians.
    tan => Tan two,
    /// The angle in radians whose sine it is; NaN outside of -1 to 1.
    asin => Asin two,
    /// The angle in radians whose cosine it is; NaN outside of -1 to 1.
    acos => Acos two,
    /// The angle in radians whose tangent it is.
    atan => Atan two,
    /// The hyperbolic sine.
    sinh => Sinh two,
    /// The hyperbolic cosine.
    cosh => Cosh two,
    /// The inverse hyperbolic sine.
    asinh => Asinh two,
    /// The inverse hyperbolic cosine; NaN below 1.
    acosh => Acosh two,
    /// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
    atanh => Atanh two,
    /// 2 to the power of x.
    exp2 => Exp2 two,
    /// The logarithm to the base 2; exact for powers of 2.
    log2 => Log2 two,
    /// The logarithm to the base 10.
    log10 => Log10 two,
    /// The hyperbolic tangent.
    tanh => Tanh two,
    /// The error function.
    erf => Erf two,
    /// `1 / (1 + exp(-x))`.
    sigmoid => Sigmoid two,
    /// Toward minus infinity.
    floor => Floor exact,
    /// Toward plus infinity.
    ceil => Ceil exact,
    /// Toward zero.
    trunc => Trunc exact,
    /// To nearest, halves to even.
    round => Round exact,
}

macro_rules! binary {
    ($(#![$head:meta])* $($(#[$doc:meta])* $name:ident => $op:ident $promise:ident),* $(,)?) => {
        $(#[$head])*
        impl Tensor {
            $($(#[$doc])*
            ///
            #[doc = promise!($promise)]
            #[track_caller]
            pub fn $name<'a>(&self, other: impl Into<Operand<'a>>) -> Tensor {
                self.binary(Binary::$op, other)
            })*
        }

        #[cfg(test)]
        const BINARY: &[(Binary, f64)] = &[$((Binary::$op, bound!($promise))),*];
    };
}

binary! {
    //! # Functions of two numbers and comparisons
    //!
    //! Operators work between tensors, and between a tensor and a number on either side: `+ - * / % & | ^ << >>`, unary `-` and `!`, and the
    //! assignments `+=` and so on. Two tensors are broadcast together as in NumPy and meet in the dtype of [`DType::promote`]. A plain
    //! number takes the tensor's dtype; a fraction with an integer tensor gives f32. On the left of an operator stand numbers of the types `f64`,
    //! `i64`, `bool`, `f16`, `bf16` and `Complex`, those of literals among them: what is another type is converted first, `f64::from(rate) * &x`.
    //!
    //! What integers do:
    //! - `+`, `-`, `*` and negation wrap around, as does a sum in 64 bits.
    //! - `/` gives a fraction, in f32; by 0 it is infinite or NaN. [`Tensor::floor_div`] stays in integers.
    //! - [`Tensor::floor_div`] and `%` ([`Tensor::rem`]) by 0 give 0. The least number of a signed type divided by -1 is itself.
    //! - `%` has the divisor's sign, as in Python; [`Tensor::fmod`] has the dividend's, as in Rust.
    //! - `<<` and `>>` by the width or more shift all bits out: they give 0, or -1 where a negative number is shifted right.
    //! - A number that the tensor's integer type does not hold is compared as what it is, and wraps in sums, products and bitwise operations; elsewhere
    //!   it is an error.

    /// The quotient rounded toward minus infinity; integers divided by 0 give 0.
    floor_div => FloorDiv once,
    /// The remainder with the divisor's sign; by 0, integers give 0.
    rem => Rem once,
    /// The power.
    pow => Pow two,
    /// The angle of the point (`other`, x) from the positive x axis, from -pi to pi.
    atan2 => Atan2 two,
    /// `sqrt(x^2 + y^2)` without overflow on the way; infinite if either is, even beside NaN.
    hypot => Hypot two,
    /// The magnitude with the sign of `other`.
    copysign => CopySign exact,
    /// The number of the dtype that is next to x in the direction of `other`; `other` where they are equal.
    nextafter => NextAfter exact,
    /// The smaller of each pair; NaN if either is.
    minimum => Min exact,
    /// The larger of each pair; NaN if either is.
    maximum => Max exact,
    /// Bitwise and; logical for bool.
    and => And exact,
    /// Bitwise or; logical for bool.
    or => Or exact,
    /// Bitwise exclusive or; logical for bool.
    xor => Xor exact,
    /// Shifted left; by the width or more gives 0.
    shl => Shl exact,
    /// Shifted right, with the sign for signed integers.
    shr => Shr exact,
    /// True where equal.
    eq => Eq exact,
    /// True where not equal.
    ne => Ne exact,
    /// True where less.
    lt => Lt exact,
    /// True where less or equal.
    le => Le exact,
    /// True where greater.
    gt => Gt exact,
    /// True where greater or equal.
    ge => Ge exact,
}

/// Binary operators between tensors and numbers on either side, and the assignments that go with them.
macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $op:ident),* $(,)?) => {
        $(operators!(@of $trait $method $op &Tensor);
        operators!(@of $trait $method $op Tensor);
        // Of the primitive numbers one float and one integer: with more the compiler could not tell the type of `1.0 - &x` where
        // a method of the result is called.
        operators!(@number $trait $method $op f64 i64 bool f16 bf16 Complex<f32> Complex<f64>);
        impl<'a, O: Into<Operand<'a>>> std::ops::$assign<O> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: O) {
                *self = self.binary(Binary::$op, other);
            }
        }
        impl std::ops::$assign<Tensor> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: Tensor) {
                *self = self.binary(Binary::$op, &other);
            }
        })*
    };
    (@of $trait:ident $method:ident $op:ident $left:ty) => {
        impl<'a, O: Into<Operand<'a>>> std::ops::$trait<O> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor {
                self.binary(Binary::$op, other)
            }
        }
        impl std::ops::$trait<Tensor> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                self.binary(Binary::$op, &other)
            }
        }
    };
    (@number $trait:ident $method:ident $op:ident $($number:ty)*) => {
        $(impl std::ops::$trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                Operand::from(self).before(Binary::$op, other.dtype()).pair(Binary::$op, other)
            }
        }
        impl std::ops::$trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                self.$method(&other)
            }
        })*
    };
}
operators! {
    Add add AddAssign add_assign Add,
    Sub sub SubAssign sub_assign Sub,
    Mul mul MulAssign mul_assign Mul,
    Div div DivAssign div_assign Div,
    Rem rem RemAssign rem_assign Rem,
    BitAnd bitand BitAndAssign bitand_assign And,
    BitOr bitor BitOrAssign bitor_assign Or,
    BitXor bitxor BitXorAssign bitxor_assign Xor,
    Shl shl ShlAssign shl_assign Shl,
    Shr shr ShrAssign shr_assign Shr,
}

macro_rules! prefixes {
    ($($trait:ident $method:ident $op:ident),*) => {
        $(impl std::ops::$trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                self.unary(Unary::$op)
            }
        }
        impl std::ops::$trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                self.unary(Unary::$op)
            }
        })*
    };
}
prefixes!(Neg neg Neg, Not not Not);

/// The sum or product of tensors, elementwise; of none the number 0 or 1.
macro_rules! folds {
    ($($trait:ident $method:ident $op:ident $neutral:expr),*) => {
        $(impl<T: AsRef<Tensor>> std::iter::$trait<T> for Tensor {
            fn $method<I: Iterator<Item = T>>(tensors: I) -> Tensor {
                let mut all: Option<Tensor> = None;
                for tensor in tensors {
                    all = Some(match all {
                        Some(all) => all.binary(Binary::$op, tensor.as_ref()),
                        None => tensor.as_ref().clone(),
                    });
                }
                all.unwrap_or_else(|| Tensor::scalar($neutral))
            }
        })*
    };
}
folds!(Sum sum Add 0.0f32, Product product Mul 1.0f32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_states_its_bound() {
        for &(op, bound) in UNARY {
            assert_eq!(op.ulp(), bound, "{}", op.name());
        }
        for &(op, bound) in BINARY {
            assert_eq!(op.ulp(), bound, "{}", op.name());
        }
        // The others are operators, or methods of other files.
        let listed = UNARY.len() + BINARY.len();
        let elsewhere = ["imag", "add", "sub", "mul", "div", "fmod", "complex"];
        assert_eq!(listed + elsewhere.len(), Unary::ALL.len() + Binary::ALL.len());
    }
}
