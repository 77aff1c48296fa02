//! What the values of kernels are called: register types, storage types, literals.
//!
//! A kernel computes in nine register types. Narrow integers live in 32 bits and are wrapped after each operation; half types
//! live in f32. What lies in memory keeps its own size; a language that lacks a type reads and writes words of 32 bits.

use millstream_core::{DType, Scalar};
use num_complex::Complex;

/// The type in which a dtype is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Register {
    Bool,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    C64,
    C128,
}

impl Register {
    pub(crate) fn of(dtype: DType) -> Register {
        match dtype {
            DType::Bool => Register::Bool,
            DType::I8 | DType::I16 | DType::I32 => Register::I32,
            DType::U8 | DType::U16 | DType::U32 => Register::U32,
            DType::I64 => Register::I64,
            DType::U64 => Register::U64,
            DType::F16 | DType::BF16 | DType::F32 => Register::F32,
            DType::F64 => Register::F64,
            DType::C64 => Register::C64,
            DType::C128 => Register::C128,
        }
    }

    /// Its name in kernel text.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Register::Bool => "bool",
            Register::I32 => "i32",
            Register::U32 => "u32",
            Register::I64 => "i64",
            Register::U64 => "u64",
            Register::F32 => "f32",
            Register::F64 => "f64",
            Register::C64 => "c64",
            Register::C128 => "c128",
        }
    }

    /// Its name in memory that a group shares, where a truth value is a word.
    pub(crate) const fn shared(self) -> &'static str {
        match self {
            Register::Bool => "u32",
            other => other.name(),
        }
    }

    /// A value as it is stored in shared memory.
    pub(crate) fn put(self, value: &str) -> String {
        if self == Register::Bool { format!("select(0u, 1u, {value})") } else { value.into() }
    }

    /// A value from shared memory.
    pub(crate) fn get(self, at: String) -> String {
        if self == Register::Bool { format!("({at} != 0u)") } else { at }
    }

    /// Words of 32 bits that one value takes in scratch memory.
    pub(crate) const fn words(self) -> usize {
        match self {
            Register::Bool | Register::I32 | Register::U32 | Register::F32 => 1,
            Register::I64 | Register::U64 | Register::F64 | Register::C64 => 2,
            Register::C128 => 4,
        }
    }

    pub(crate) const fn is_complex(self) -> bool {
        matches!(self, Register::C64 | Register::C128)
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Register::F32 | Register::F64)
    }

    /// Zero, as a literal.
    pub(crate) const fn zero(self) -> &'static str {
        match self {
            Register::Bool => "false",
            Register::I32 => "0",
            Register::U32 => "0u",
            Register::I64 => "0li",
            Register::U64 => "0lu",
            Register::F32 => "0.0f",
            Register::F64 => "0.0lf",
            Register::C64 => "c64(0.0f, 0.0f)",
            Register::C128 => "c128(0.0lf, 0.0lf)",
        }
    }

    /// One, as a literal.
    pub(crate) const fn one(self) -> &'static str {
        match self {
            Register::Bool => "true",
            Register::I32 => "1",
            Register::U32 => "1u",
            Register::I64 => "1li",
            Register::U64 => "1lu",
            Register::F32 => "1.0f",
            Register::F64 => "1.0lf",
            Register::C64 => "c64(1.0f, 0.0f)",
            Register::C128 => "c128(1.0lf, 0.0lf)",
        }
    }
}

/// The width of a narrow integer type in bits and whether it is signed; `None` for all other types.
pub(crate) fn narrow(dtype: DType) -> Option<(u32, bool)> {
    match dtype {
        DType::I8 => Some((8, true)),
        DType::I16 => Some((16, true)),
        DType::U8 => Some((8, false)),
        DType::U16 => Some((16, false)),
        _ => None,
    }
}

/// How many elements of this dtype share a word of 32 bits where the language has no such type: 4, 2, or 1 if it has.
pub(crate) const fn packed(dtype: DType) -> usize {
    match dtype {
        DType::Bool | DType::I8 | DType::U8 => 4,
        DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
        _ => 1,
    }
}

/// The bits of a packed element in a word of 32.
pub(crate) fn pack(dtype: DType, value: &str) -> String {
    match dtype {
        DType::Bool => format!("select(0u, 1u, {value})"),
        DType::I8 => format!("(bitcast<u32>({value}) & 255u)"),
        DType::I16 => format!("(bitcast<u32>({value}) & 65535u)"),
        DType::F16 | DType::BF16 => format!("f32_to_{dtype}({value})"),
        _ => value.into(),
    }
}

/// A constant as a literal of its register type.
pub(crate) fn literal(value: Scalar) -> String {
    let integer = |v: i64| match Register::of(value.dtype()) {
        Register::I32 if v == i64::from(i32::MIN) => "bitcast<i32>(0x80000000u)".into(),
        Register::I32 if v < 0 => format!("({v})"),
        Register::I32 => format!("{v}"),
        Register::U32 => format!("{v}u"),
        _ if v == i64::MIN => "bitcast<i64>(0x8000000000000000lu)".into(),
        _ if v < 0 => format!("({v}li)"),
        _ => format!("{v}li"),
    };
    match value.dtype() {
        DType::Bool => value.get::<bool>().unwrap_or_default().to_string(),
        DType::U64 => format!("{}lu", value.get::<u64>().unwrap_or_default()),
        DType::F64 => double(value.to_f64()),
        DType::F16 | DType::BF16 | DType::F32 => single(value.to_f64() as f32),
        DType::C64 => {
            let c = value.get::<Complex<f32>>().unwrap_or_default();
            format!("c64({}, {})", single(c.re), single(c.im))
        }
        DType::C128 => {
            let c = value.get::<Complex<f64>>().unwrap_or_default();
            format!("c128({}, {})", double(c.re), double(c.im))
        }
        _ => integer(value.to_i64()),
    }
}

fn single(v: f32) -> String {
    // The languages cannot write infinities and NaN, and may drop the sign of a zero or flush a subnormal.
    if !v.is_normal() && v.to_bits() != 0 {
        return format!("bitcast<f32>({:#x}u + zero_word())", v.to_bits());
    }
    if v.is_sign_negative() { format!("({v:?}f)") } else { format!("{v:?}f") }
}

fn double(v: f64) -> String {
    if !v.is_normal() && v.to_bits() != 0 {
        return format!("bitcast<f64>({:#x}lu + u64(zero_word()))", v.to_bits());
    }
    if v.is_sign_negative() { format!("({v:?}lf)") } else { format!("{v:?}lf") }
}

/// A value of a dtype from the words of 32 bits that hold its bits.
pub(crate) fn from_words(dtype: DType, word: impl Fn(usize) -> String) -> String {
    let long = |first: usize| format!("(u64({}) | (u64({}) << 32u))", word(first), word(first + 1));
    match dtype {
        DType::Bool => format!("(({} & 255u) != 0u)", word(0)),
        DType::I8 => format!("wrap_i8(bitcast<i32>({}))", word(0)),
        DType::I16 => format!("wrap_i16(bitcast<i32>({}))", word(0)),
        DType::U8 => format!("({} & 255u)", word(0)),
        DType::U16 => format!("({} & 65535u)", word(0)),
        DType::I32 => format!("bitcast<i32>({})", word(0)),
        DType::U32 => word(0),
        DType::I64 => format!("bitcast<i64>({})", long(0)),
        DType::U64 => long(0),
        DType::F16 => format!("f16_to_f32({} & 65535u)", word(0)),
        DType::BF16 => format!("bf16_to_f32({} & 65535u)", word(0)),
        DType::F32 => format!("bitcast<f32>({})", word(0)),
        DType::F64 => format!("bitcast<f64>({})", long(0)),
        DType::C64 => format!("c64(bitcast<f32>({}), bitcast<f32>({}))", word(0), word(1)),
        DType::C128 => format!("c128(bitcast<f64>({}), bitcast<f64>({}))", long(0), long(2)),
    }
}

/// The words of 32 bits that hold a register's bits, as expressions.
pub(crate) fn to_words(register: Register, value: &str) -> Vec<String> {
    let long = |bits: String| vec![format!("u32({bits})"), format!("u32({bits} >> 32u)")];
    match register {
        Register::Bool => vec![format!("select(0u, 1u, {value})")],
        Register::U32 => vec![value.into()],
        Register::I32 | Register::F32 => vec![format!("bitcast<u32>({value})")],
        Register::U64 => long(value.into()),
        Register::I64 | Register::F64 => long(format!("bitcast<u64>({value})")),
        Register::C64 => vec![format!("bitcast<u32>({value}.x)"), format!("bitcast<u32>({value}.y)")],
        Register::C128 => ["x", "y"].iter().flat_map(|p| long(format!("bitcast<u64>({value}.{p})"))).collect(),
    }
}

/// The dtype whose bits a register's words are, for [`from_words`].
pub(crate) const fn register_dtype(register: Register) -> DType {
    match register {
        Register::Bool => DType::Bool,
        Register::I32 => DType::I32,
        Register::U32 => DType::U32,
        Register::I64 => DType::I64,
        Register::U64 => DType::U64,
        Register::F32 => DType::F32,
        Register::F64 => DType::F64,
        Register::C64 => DType::C64,
        Register::C128 => DType::C128,
    }
}
