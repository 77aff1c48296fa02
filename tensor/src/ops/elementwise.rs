//! Functions of single elements that are made of others: tests, parts of complex numbers, activations, other names.

use millstream_core::{Binary, DType, Error, Kind as Family, Scalar, Unary};

use crate::Tensor;
use crate::ops::arithmetic::Operand;

/// How near is near: by default `1e-5` relatively and `1e-8` absolutely, and NaN near nothing, as in NumPy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    relative: f64,
    absolute: f64,
    nan_equal: bool,
}

impl Tolerance {
    /// A relative tolerance and one in addition.
    pub fn new(relative: f64, absolute: f64) -> Tolerance {
        Tolerance { relative, absolute, nan_equal: false }
    }

    /// The same, with NaN near NaN.
    pub fn equal_nan(self) -> Tolerance {
        Tolerance { nan_equal: true, ..self }
    }
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance::new(1e-5, 1e-8)
    }
}

/// # Functions made of others: tests, complex parts, activations
///
/// They cost no kernel of their own: what they are made of fuses. Error bounds are those of their parts; where a formula would lose
/// digits the function says what it does instead. Integers are taken as f32 where the result is a fraction.
impl Tensor {
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.dtype().kind(), Family::Bool | Family::Signed | Family::Unsigned)
    }

    /// True where the element is neither infinite nor NaN; of a complex number, both parts.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[1.0f32, f32::INFINITY, f32::NAN]);
    /// assert_eq!(x.isfinite().to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn isfinite(&self) -> Tensor {
        Tensor::composed("isfinite", || match self.dtype() {
            d if d.is_complex() => self.real().isfinite().and(&self.imag().isfinite()),
            _ if self.is_whole() => self.eq(self),
            _ => self.abs().lt(f64::INFINITY),
        })
    }

    /// True where the element is infinite; of a complex number, either part.
    #[track_caller]
    pub fn isinf(&self) -> Tensor {
        Tensor::composed("isinf", || match self.dtype() {
            d if d.is_complex() => self.real().isinf().or(&self.imag().isinf()),
            _ if self.is_whole() => self.ne(self),
            _ => self.abs().eq(f64::INFINITY),
        })
    }

    /// True where the sign is negative, also of -0; nothing is said about NaN.
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        Tensor::composed("signbit", || match self.dtype().kind() {
            Family::Float => self.ones_like().copysign(self).lt(0.0),
            Family::Bool => self.ne(self),
            _ => self.lt(0),
        })
    }

    /// The real part; of a real tensor, the tensor itself.
    #[track_caller]
    pub fn real(&self) -> Tensor {
        self.cast(self.dtype().real())
    }

    /// The imaginary part; of a real tensor, zeros.
    #[track_caller]
    pub fn imag(&self) -> Tensor {
        if self.dtype().is_complex() { self.unary(Unary::Imag) } else { self.zeros_like() }
    }

    /// The complex conjugate; of a real tensor, the tensor itself.
    #[track_caller]
    pub fn conj(&self) -> Tensor {
        Tensor::composed("conj", || {
            if self.dtype().is_complex() { Tensor::complex(&self.real(), &-self.imag()) } else { self.same() }
        })
    }

    /// The complex numbers of these real and imaginary parts: c128 if one of them is f64, else c64.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let z = Tensor::complex(&Tensor::from_slice(&[3.0f32]), &Tensor::from_slice(&[4.0f32]));
    /// assert_eq!(z.abs().to_vec::<f32>()?, [5.0]);
    /// assert_eq!(z.conj().imag().to_vec::<f32>()?, [-4.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn complex(real: &Tensor, imaginary: &Tensor) -> Tensor {
        real.binary(Binary::Complex, imaginary)
    }

    /// The complex numbers of these moduli and angles in radians.
    #[track_caller]
    pub fn polar(modulus: &Tensor, angle: &Tensor) -> Tensor {
        Tensor::composed("polar", || Tensor::complex(&(modulus * angle.cos()), &(modulus * angle.sin())))
    }

    /// The cube root, which every number has: that of a negative one is negative. Integers count as f32. Within 2 units in the last
    /// place on the CPU, 4 on GPUs.
    ///
    /// ```
    /// use millstream::Tensor;
    /// assert_eq!(Tensor::from_slice(&[27.0f64, -8.0, 0.0]).cbrt().to_vec::<f64>()?, [3.0, -2.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn cbrt(&self) -> Tensor {
        Tensor::composed("cbrt", || {
            if matches!(self.dtype(), DType::F16 | DType::BF16) {
                return self.cast(DType::F32).cbrt().cast(self.dtype());
            }
            let x = self.as_float();
            if x.dtype().is_complex() {
                return Tensor::build("cbrt", || Err(Error::dtype("cbrt does not take complex numbers")));
            }
            // A power is near enough for one step of Newton's method to make it exact but for rounding.
            let size = x.abs();
            let near = size.pow(1.0 / 3.0);
            let root = &near - (&near - &size / near.square()) / 3.0;
            x.isfinite().and(&x.ne(0)).where_(&root.copysign(&x), &x)
        })
    }

    /// The angle of a complex number in radians, from -pi to pi, within 2 units in the last place of its parts' angle; of a real
    /// number 0, or pi where it is negative.
    #[track_caller]
    pub fn angle(&self) -> Tensor {
        Tensor::composed("angle", || self.imag().atan2(&self.real()))
    }

    /// The tensor itself.
    #[track_caller]
    pub fn positive(&self) -> Tensor {
        self.same()
    }

    /// `log(exp(x) + exp(y))` without overflow.
    #[track_caller]
    pub fn logaddexp<'a>(&self, other: impl Into<Operand<'a>>) -> Tensor {
        Tensor::composed("logaddexp", || {
            let x = self.as_float();
            let y = other.into().beside(x.dtype()).as_float();
            let most = x.maximum(&y);
            let sum = &most + (-(&x - &y).abs()).exp().log1p();
            // Of two equal infinities the difference is none.
            most.isinf().where_(&most, &sum)
        })
    }

    /// `x && y` of what is not 0.
    #[track_caller]
    pub fn logical_and<'a>(&self, other: impl Into<Operand<'a>>) -> Tensor {
        Tensor::composed("logical_and", || self.cast(DType::Bool).and(&other.into().truth()))
    }

    /// `x || y` of what is not 0.
    #[track_caller]
    pub fn logical_or<'a>(&self, other: impl Into<Operand<'a>>) -> Tensor {
        Tensor::composed("logical_or", || self.cast(DType::Bool).or(&other.into().truth()))
    }

    /// True where exactly one is not 0.
    #[track_caller]
    pub fn logical_xor<'a>(&self, other: impl Into<Operand<'a>>) -> Tensor {
        Tensor::composed("logical_xor", || self.cast(DType::Bool).xor(&other.into().truth()))
    }

    /// True where the element is 0.
    #[track_caller]
    pub fn logical_not(&self) -> Tensor {
        Tensor::composed("logical_not", || self.cast(DType::Bool).not())
    }

    /// The remainder with the dividend's sign, as C's `fmod` and Rust's `%`; always exact. Integers by 0 give 0.
    #[track_caller]
    pub fn fmod<'a>(&self, other: impl Into<Operand<'a>>) -> Tensor {
        Tensor::composed("fmod", || {
            let other = other.into().held(self.dtype());
            if !self.is_whole() || !other.is_whole() {
                return self.binary(Binary::Fmod, &other);
            }
            // From the remainder with the divisor's sign.
            let r = self.rem(&other);
            let unlike = self.lt(0).ne(&other.lt(0)).and(&r.ne(0));
            unlike.where_(&(&r - &other), &r)
        })
    }

    /// `x + weight (end - x)`.
    #[track_caller]
    pub fn lerp<'a, 'b>(&self, end: impl Into<Operand<'a>>, weight: impl Into<Operand<'b>>) -> Tensor {
        Tensor::composed("lerp", || {
            let x = self.as_float();
            let way = &end.into().beside(x.dtype()) - &x;
            &x + way * &weight.into().beside(x.dtype())
        })
    }

    /// NaN replaced by `nan`, infinities by the given numbers, or by the largest and the lowest finite ones of the dtype.
    #[track_caller]
    pub fn nan_to_num(&self, nan: f64, positive: Option<f64>, negative: Option<f64>) -> Tensor {
        Tensor::composed("nan_to_num", || {
            if self.dtype().is_complex() {
                let part = |x: Tensor| x.nan_to_num(nan, positive, negative);
                return Tensor::complex(&part(self.real()), &part(self.imag()));
            }
            if self.is_whole() {
                return self.same();
            }
            let most = match self.dtype() {
                DType::F16 => 65504.0,
                DType::BF16 => 3.389_531_389_251_535_5e38,
                DType::F32 => f64::from(f32::MAX),
                _ => f64::MAX,
            };
            let x = self.isnan().where_(nan, self);
            let x = self.eq(f64::INFINITY).where_(positive.unwrap_or(most), &x);
            self.eq(f64::NEG_INFINITY).where_(negative.unwrap_or(-most), &x)
        })
    }

    /// `|x - y|`; of integers exact, in the unsigned type of their width.
    #[track_caller]
    pub(crate) fn distance(&self, other: &Tensor) -> Tensor {
        if !self.is_whole() || !other.is_whole() {
            return (self - other).abs();
        }
        let number = |t: &Tensor| if t.dtype() == DType::Bool { t.cast(DType::U8) } else { t.clone() };
        let (x, y) = (number(self), number(other));
        // The difference wraps in the signed type, to the bits of the true one.
        let gap = x.maximum(&y) - x.minimum(&y);
        let unsigned = match gap.dtype() {
            DType::I8 => DType::U8,
            DType::I16 => DType::U16,
            DType::I32 => DType::U32,
            DType::I64 => DType::U64,
            other => other,
        };
        gap.cast(unsigned)
    }

    /// True where `|x - y| <= absolute + relative |y|`, where both are equal, or, if NaNs are to be equal, where both are NaN.
    #[track_caller]
    pub fn isclose<'a>(&self, other: impl Into<Operand<'a>>, tolerance: Tolerance) -> Tensor {
        let other = other.into();
        Tensor::composed("isclose", || {
            if let Some((edge, beyond, number)) = other.outside(self.dtype()) {
                // The dtype holds no such number: its distance is that from the nearest one of the dtype, and the rest.
                let far = self.distance(&Tensor::scalar(edge)).cast(DType::F64) + beyond;
                return far.le(number.abs() * tolerance.relative + tolerance.absolute);
            }
            let other = &other.beside(self.dtype());
            let whole = self.is_whole() && other.is_whole();
            let wide = if self.dtype().size().max(other.dtype().size()) > 2 { DType::F64 } else { DType::F32 };
            let float = |t: &Tensor| if whole { t.cast(wide) } else { t.clone() };
            let bound = float(other).abs() * tolerance.relative + tolerance.absolute;
            let near = float(&self.distance(other)).le(&bound);
            // Infinities are close to nothing but themselves.
            let near = near & other.isfinite() | self.eq(other);
            if tolerance.nan_equal { near | self.isnan() & other.isnan() } else { near }
        })
    }

    /// Whether all elements are close to each other, as a tensor of one bool; see [`Tensor::isclose`].
    ///
    /// ```
    /// use millstream::{Tensor, Tolerance};
    /// let x = Tensor::new([1.0f32, 2.0]);
    /// assert!(x.allclose(&(&x + 1e-7), Tolerance::default()).item::<bool>()?);
    /// assert!(!x.allclose(&(&x + 0.1), Tolerance::new(1e-3, 1e-3)).item::<bool>()?);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn allclose<'a>(&self, other: impl Into<Operand<'a>>, tolerance: Tolerance) -> Tensor {
        Tensor::composed("allclose", || self.isclose(other, tolerance).all(..))
    }

    /// `log(1 + exp(x))` without overflow.
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        Tensor::composed("softplus", || {
            let x = self.as_float();
            x.maximum(0) + (-x.abs()).exp().log1p()
        })
    }

    /// `log(sigmoid(x))` without underflow.
    #[track_caller]
    pub fn log_sigmoid(&self) -> Tensor {
        Tensor::composed("log_sigmoid", || {
            let x = self.as_float();
            x.minimum(0) - (-x.abs()).exp().log1p()
        })
    }

    /// `x`, or `alpha (exp(x) - 1)` where x is negative.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        Tensor::composed("elu", || {
            let x = self.as_float();
            x.gt(0.0).where_(&x, &(x.minimum(0).expm1() * alpha))
        })
    }

    /// The scaled [`Tensor::elu`] of self-normalizing networks.
    #[track_caller]
    pub fn selu(&self) -> Tensor {
        Tensor::composed("selu", || self.elu(1.673_263_242_354_377_2) * 1.050_700_987_355_480_5)
    }

    /// `x`, or `slope x` where x is negative.
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        Tensor::composed("leaky_relu", || {
            let x = self.as_float();
            x.lt(0.0).where_(&(&x * slope), &x)
        })
    }

    /// `min(max(x, 0), 6)`.
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        Tensor::composed("relu6", || self.clip(0, 6))
    }

    /// `min(max(x + 3, 0), 6) / 6`.
    #[track_caller]
    pub fn hard_sigmoid(&self) -> Tensor {
        Tensor::composed("hard_sigmoid", || (self.as_float() + 3.0).relu6() / 6.0)
    }

    /// `x * hard_sigmoid(x)`.
    #[track_caller]
    pub fn hard_swish(&self) -> Tensor {
        Tensor::composed("hard_swish", || self * self.hard_sigmoid())
    }

    /// `x * tanh(softplus(x))`.
    #[track_caller]
    pub fn mish(&self) -> Tensor {
        Tensor::composed("mish", || self * self.softplus().tanh())
    }

    /// `x / (1 + |x|)`.
    #[track_caller]
    pub fn softsign(&self) -> Tensor {
        Tensor::composed("softsign", || {
            let x = self.as_float();
            &x / (x.abs() + 1.0)
        })
    }

    /// The Gaussian error linear unit by the hyperbolic tangent: `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    #[track_caller]
    pub fn gelu_tanh(&self) -> Tensor {
        Tensor::composed("gelu_tanh", || {
            let x = self.as_float();
            let inner = (&x + x.square() * &x * 0.044_715) * (2.0 / std::f64::consts::PI).sqrt();
            &x * 0.5 * (inner.tanh() + 1.0)
        })
    }

    /// `log(x / (1 - x))`.
    #[track_caller]
    pub fn logit(&self) -> Tensor {
        Tensor::composed("logit", || {
            let x = self.as_float();
            let rest = 1.0 - &x;
            // Around 1/2 both logarithms cancel: the quotient is 1 and a little, which is exact here.
            let near = ((&x + &x - 1.0) / &rest).log1p();
            let far = x.log() - (-&x).log1p();
            x.gt(0.25).and(&x.lt(0.75)).where_(&near, &far)
        })
    }

    /// Degrees as radians.
    #[track_caller]
    pub fn deg2rad(&self) -> Tensor {
        Tensor::composed("deg2rad", || self.as_float() * (std::f64::consts::PI / 180.0))
    }

    /// Radians as degrees.
    #[track_caller]
    pub fn rad2deg(&self) -> Tensor {
        Tensor::composed("rad2deg", || self.as_float() * (180.0 / std::f64::consts::PI))
    }

    /// Zeros of the same shape and dtype.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(Scalar::zero(self.dtype()))
    }

    /// Ones of the same shape and dtype.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(Scalar::one(self.dtype()))
    }

    /// One number everywhere, in the same shape.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Tensor {
        match self.check() {
            Ok(()) => Tensor::full(self.sizes(), value),
            Err(_) => self.clone(),
        }
    }
}

macro_rules! aliases {
    ($(#![$head:meta])* $($(#[$doc:meta])* $name:ident $method:ident),* $(,)?) => {
        $(#[$head])*
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name<'a>(&self, other: impl Into<Operand<'a>>) -> Tensor {
                let other = other.into();
                Tensor::composed(stringify!($name), || self.$method(other))
            })*
        }
    };
}

aliases! {
    //! # Other names

    /// [`Tensor::floor_div`] under the name of NumPy and PyTorch.
    floor_divide floor_div,
    /// [`Tensor::rem`] under the name of NumPy and PyTorch.
    remainder rem,
    /// [`Tensor::and`] under the name of NumPy and PyTorch.
    bitwise_and and,
    /// [`Tensor::or`] under the name of NumPy and PyTorch.
    bitwise_or or,
    /// [`Tensor::xor`] under the name of NumPy and PyTorch.
    bitwise_xor xor,
    /// [`Tensor::shl`] under the name of NumPy and PyTorch.
    bitwise_left_shift shl,
    /// [`Tensor::shr`] under the name of NumPy and PyTorch.
    bitwise_right_shift shr,
}

impl Tensor {
    /// [`Tensor::recip`] under the name of NumPy and PyTorch.
    #[track_caller]
    pub fn reciprocal(&self) -> Tensor {
        Tensor::composed("reciprocal", || self.recip())
    }

    /// [`Tensor::not`] under the name of the Python Array API.
    #[track_caller]
    pub fn bitwise_invert(&self) -> Tensor {
        Tensor::composed("bitwise_invert", || self.not())
    }
}
