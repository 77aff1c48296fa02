//! Element types and the rules by which two of them meet.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};
use num_complex::Complex;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum DType {
    /// True or false, one byte each, 0 or 1.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE 754 half precision; computed in f32.
    F16,
    /// The upper half of an f32; computed in f32.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// A pair of f32: real, imaginary.
    C64,
    /// A pair of f64: real, imaginary.
    C128,
}

/// The family of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Truth values.
    Bool,
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Floating point numbers.
    Float,
    /// Complex numbers.
    Complex,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// Bytes of one element in memory.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The family.
    pub const fn kind(self) -> Kind {
        match self {
            DType::Bool => Kind::Bool,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Kind::Unsigned,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Kind::Signed,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Kind::Float,
            DType::C64 | DType::C128 => Kind::Complex,
        }
    }

    /// Whether this is a floating point type.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Whether this is a signed or unsigned integer type.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// Whether this is a complex type.
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), Kind::Complex)
    }

    /// The type in which values of this type are held while a kernel computes: f32 for the half types, itself otherwise.
    pub const fn compute(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The type of a complex number's parts; the type itself for others.
    pub const fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The unit roundoff times two (the distance from 1 to the next number) for float and complex types, 0 for exact ones.
    pub fn epsilon(self) -> f64 {
        match self {
            DType::F16 => f64::from(f16::EPSILON),
            DType::BF16 => f64::from(bf16::EPSILON),
            DType::F32 | DType::C64 => f64::from(f32::EPSILON),
            DType::F64 | DType::C128 => f64::EPSILON,
            _ => 0.0,
        }
    }

    /// The short name: `f32`, `bool`, `c64`, ...
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
        }
    }

    /// The type that holds the result of an operation on both: the promotion rules of the Python Array API standard, and
    /// beyond them, integers and floats give the float type, f16 and bf16 give f32.
    ///
    /// `u64` with a signed type has no common type and is an error; nothing is converted to a float behind the user's back.
    ///
    /// ```
    /// use millstream_core::DType;
    /// assert_eq!(DType::U8.promote(DType::I8)?, DType::I16);
    /// assert_eq!(DType::I64.promote(DType::F32)?, DType::F32);
    /// assert!(DType::U64.promote(DType::I8).is_err());
    /// # Ok::<(), millstream_core::Error>(())
    /// ```
    pub fn promote(self, other: DType) -> Result<DType> {
        let (low, high) = if self.kind() <= other.kind() { (self, other) } else { (other, self) };
        if low == high || low == DType::Bool {
            return Ok(high);
        }
        Ok(match (low.kind(), high.kind()) {
            (a, b) if a == b => match (low, high) {
                (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
                _ if low.size() >= high.size() => low,
                _ => high,
            },
            (Kind::Unsigned, Kind::Signed) => match low.size().max(high.size()) {
                _ if low.size() < high.size() => high,
                1 => DType::I16,
                2 => DType::I32,
                4 => DType::I64,
                _ => {
                    return Err(Error::dtype(format!("{low} and {high} have no common integer type"))
                        .suggest("cast one of them, for example with cast(DType::I64)"));
                }
            },
            (_, Kind::Complex) if low == DType::F64 => DType::C128,
            _ => high,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<DType> {
        DType::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| {
            let names: Vec<_> = DType::ALL.iter().map(|d| d.name()).collect();
            Error::dtype(format!("there is no dtype {text:?}")).suggest(format!("one of {}", names.join(", ")))
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that can be a tensor's element. Sealed: it is exactly the types of [`DType`].
pub trait Element: sealed::Sealed + Copy + Send + Sync + Default + PartialEq + fmt::Debug + 'static {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}

elements! {
    bool => Bool, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64, Complex<f32> => C64, Complex<f64> => C128,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(a.promote(a).ok(), Some(a));
            for b in DType::ALL {
                assert_eq!(a.promote(b).ok(), b.promote(a).ok(), "{a} {b}");
            }
        }
    }

    #[test]
    fn promotion_follows_the_array_api() {
        use DType::*;
        for (a, b, c) in [
            (U8, I8, I16),
            (U16, I8, I32),
            (U32, I64, I64),
            (U8, I64, I64),
            (F16, BF16, F32),
            (F32, F64, F64),
            (F64, C64, C128),
            (F32, C64, C64),
            (Bool, I8, I8),
            (I64, F16, F16),
        ] {
            assert_eq!(a.promote(b).ok(), Some(c), "{a} {b}");
        }
        assert!(U64.promote(I64).is_err());
    }

    #[test]
    fn names_parse_back() {
        for d in DType::ALL {
            assert_eq!(d.name().parse::<DType>().ok(), Some(d));
        }
        assert!("float".parse::<DType>().is_err());
    }
}
