//! One value of any element type, as launch parameters and constants carry it.

use std::fmt;
use std::hash::{Hash, Hasher};

use half::{bf16, f16};
use num_complex::Complex;

use super::dtype::{DType, Element, Kind};

/// One value of any element type. Equality and hash are those of its bits.
#[derive(Clone, Copy)]
pub struct Scalar {
    dtype: DType,
    bits: [u64; 2],
}

impl Scalar {
    /// The value of a Rust element.
    pub fn new<T: Element>(value: T) -> Scalar {
        let mut bits = [0u64; 2];
        // SAFETY: T is one of the sealed element types: plain data of at most 16 bytes.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), bits.as_mut_ptr().cast(), size_of::<T>())
        };
        Scalar { dtype: T::DTYPE, bits }
    }

    /// Zero (or false) of this type.
    pub fn zero(dtype: DType) -> Scalar {
        Scalar { dtype, bits: [0; 2] }
    }

    /// One (or true) of this type.
    pub fn one(dtype: DType) -> Scalar {
        Scalar::from_f64(1.0, dtype)
    }

    /// The smallest value of the type: what a maximum starts from (-inf for floats, false for bool). Zero for complex types.
    pub fn lowest(dtype: DType) -> Scalar {
        match dtype {
            DType::I8 => Scalar::new(i8::MIN),
            DType::I16 => Scalar::new(i16::MIN),
            DType::I32 => Scalar::new(i32::MIN),
            DType::I64 => Scalar::new(i64::MIN),
            d if d.is_float() => Scalar::from_f64(f64::NEG_INFINITY, d),
            d => Scalar::zero(d),
        }
    }

    /// The largest value of the type: what a minimum starts from (inf for floats, true for bool). Zero for complex types.
    pub fn highest(dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::new(true),
            DType::I8 => Scalar::new(i8::MAX),
            DType::I16 => Scalar::new(i16::MAX),
            DType::I32 => Scalar::new(i32::MAX),
            DType::I64 => Scalar::new(i64::MAX),
            DType::U8 => Scalar::new(u8::MAX),
            DType::U16 => Scalar::new(u16::MAX),
            DType::U32 => Scalar::new(u32::MAX),
            DType::U64 => Scalar::new(u64::MAX),
            d if d.is_float() => Scalar::from_f64(f64::INFINITY, d),
            d => Scalar::zero(d),
        }
    }

    /// The number in this type, by the rules of a cast: saturating for integers, rounded for floats.
    pub fn from_f64(value: f64, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::new(value != 0.0),
            DType::I8 => Scalar::new(value as i8),
            DType::I16 => Scalar::new(value as i16),
            DType::I32 => Scalar::new(value as i32),
            DType::I64 => Scalar::new(value as i64),
            DType::U8 => Scalar::new(value as u8),
            DType::U16 => Scalar::new(value as u16),
            DType::U32 => Scalar::new(value as u32),
            DType::U64 => Scalar::new(value as u64),
            DType::F16 => Scalar::new(f16::from_f32(to_odd(value))),
            DType::BF16 => Scalar::new(bf16::from_f32(to_odd(value))),
            DType::F32 => Scalar::new(value as f32),
            DType::F64 => Scalar::new(value),
            DType::C64 => Scalar::new(Complex::new(value as f32, 0.0)),
            DType::C128 => Scalar::new(Complex::new(value, 0.0)),
        }
    }

    /// The integer in this type: exact where it fits, wrapping where not, rounded for floats.
    pub fn from_int(value: impl Into<i128>, dtype: DType) -> Scalar {
        let value = value.into();
        match dtype {
            DType::I8 => Scalar::new(value as i8),
            DType::I16 => Scalar::new(value as i16),
            DType::I32 => Scalar::new(value as i32),
            DType::I64 => Scalar::new(value as i64),
            DType::U8 => Scalar::new(value as u8),
            DType::U16 => Scalar::new(value as u16),
            DType::U32 => Scalar::new(value as u32),
            DType::U64 => Scalar::new(value as u64),
            DType::Bool => Scalar::new(value != 0),
            _ => Scalar::from_f64(value as f64, dtype),
        }
    }

    /// The whole number in this type; `None` where it is an integer type that does not hold it.
    pub fn whole(value: impl Into<i128>, dtype: DType) -> Option<Scalar> {
        let value = value.into();
        let scalar = Scalar::from_int(value, dtype);
        let held = match dtype {
            DType::U64 => i128::from(scalar.bits[0]),
            _ => i128::from(scalar.to_i64()),
        };
        let integer = matches!(dtype.kind(), Kind::Signed | Kind::Unsigned);
        (!integer || held == value).then_some(scalar)
    }

    /// The number in this type, without its fraction where that is an integer type; `None` where such a type does not hold it.
    pub fn within(value: f64, dtype: DType) -> Option<Scalar> {
        let integer = matches!(dtype.kind(), Kind::Signed | Kind::Unsigned);
        // The highest ones of 64 bits round up to what lies above them.
        let (low, above) = (Scalar::lowest(dtype).to_f64(), Scalar::highest(dtype).to_f64() + 1.0);
        (!integer || value.trunc() >= low && value.trunc() < above).then(|| Scalar::from_f64(value, dtype))
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The value's bytes, from the lowest on; those beyond the type's size are 0.
    pub fn bits(&self) -> [u64; 2] {
        self.bits
    }

    /// The value as a Rust element, if that is its type.
    pub fn get<T: Element>(&self) -> Option<T> {
        (T::DTYPE == self.dtype).then(|| {
            let mut value = T::default();
            // SAFETY: `new` (or `zero`) stored a valid T of this dtype in the first bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(self.bits.as_ptr().cast::<u8>(), (&raw mut value).cast(), size_of::<T>())
            };
            value
        })
    }

    /// The bytes of the value, as they stand in memory; as many as the type's size count.
    pub fn bytes(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.bits[0].to_ne_bytes());
        out[8..].copy_from_slice(&self.bits[1].to_ne_bytes());
        out
    }

    /// The value as an f64: the real part of complex numbers, rounded where a 64-bit integer does not fit.
    pub fn to_f64(&self) -> f64 {
        match self.dtype {
            DType::F16 => f16::from_bits(self.bits[0] as u16).to_f64(),
            DType::BF16 => bf16::from_bits(self.bits[0] as u16).to_f64(),
            DType::F32 | DType::C64 => f64::from(f32::from_bits(self.bits[0] as u32)),
            DType::F64 | DType::C128 => f64::from_bits(self.bits[0]),
            DType::U64 => self.bits[0] as f64,
            _ => self.to_i64() as f64,
        }
    }

    /// The value as an i64: truncated and saturating for floats, wrapping for u64.
    pub fn to_i64(&self) -> i64 {
        match self.dtype {
            DType::I8 => i64::from(self.bits[0] as i8),
            DType::I16 => i64::from(self.bits[0] as i16),
            DType::I32 => i64::from(self.bits[0] as i32),
            d if matches!(d.kind(), Kind::Float | Kind::Complex) => self.to_f64() as i64,
            _ => self.bits[0] as i64,
        }
    }
}

/// The number as an f32 that any narrower type rounds as it would round the number itself: what does not fit leaves an odd last
/// bit, so that nothing is rounded twice.
pub fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || !near.is_finite() {
        return near;
    }
    let toward_zero = if f64::from(near).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(toward_zero | 1)
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.dtype == other.dtype && self.bits == other.bits
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dtype.hash(state);
        self.bits.hash(state);
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            DType::Bool => write!(f, "{}", self.bits[0] != 0),
            DType::U64 => write!(f, "{}", self.bits[0]),
            DType::C64 => write!(
                f,
                "{}",
                Complex::new(f32::from_bits(self.bits[0] as u32), f32::from_bits((self.bits[0] >> 32) as u32))
            ),
            DType::C128 => write!(f, "{}", Complex::new(f64::from_bits(self.bits[0]), f64::from_bits(self.bits[1]))),
            DType::F32 => write!(f, "{:?}", f32::from_bits(self.bits[0] as u32)),
            d if d.is_float() => write!(f, "{:?}", self.to_f64()),
            _ => write!(f, "{}", self.to_i64()),
        }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}_{}", self.dtype)
    }
}

macro_rules! from {
    ($($t:ty),*) => { $(impl From<$t> for Scalar { fn from(value: $t) -> Scalar { Scalar::new(value) } })* };
}
from!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_round_trip() {
        assert_eq!(Scalar::new(-3i8).to_i64(), -3);
        assert_eq!(Scalar::new(f16::from_f32(1.5)).to_f64(), 1.5);
        assert_eq!(Scalar::new(u64::MAX).get::<u64>(), Some(u64::MAX));
        assert_eq!(Scalar::new(Complex::new(1.0f64, -2.0)).get::<Complex<f64>>(), Some(Complex::new(1.0, -2.0)));
        assert_eq!(Scalar::new(1.0f32).get::<f64>(), None);
        assert_eq!(Scalar::new(Complex::new(1.0f32, 2.0)).to_string(), "1+2i");
    }

    #[test]
    fn conversions_saturate_and_wrap_as_casts_do() {
        assert_eq!(Scalar::from_f64(300.0, DType::U8).get::<u8>(), Some(255));
        assert_eq!(Scalar::from_f64(f64::NAN, DType::I32).get::<i32>(), Some(0));
        assert_eq!(Scalar::from_int(-1, DType::U8).get::<u8>(), Some(255));
    }
}
