//! Integers and truth values: exact, in i128, wrapped to the dtype.

use super::value::Whole;
use crate::what::{Binary, DType, Kind, Unary};

/// The integer in this dtype, wrapped; a truth value for bool.
pub(super) fn wrap(v: i128, dtype: DType) -> i128 {
    match dtype {
        DType::Bool => (v != 0).into(),
        DType::I8 => (v as i8).into(),
        DType::I16 => (v as i16).into(),
        DType::I32 => (v as i32).into(),
        DType::U8 => (v as u8).into(),
        DType::U16 => (v as u16).into(),
        DType::U32 => (v as u32).into(),
        DType::U64 => (v as u64).into(),
        _ => (v as i64).into(),
    }
}

/// The integer in this dtype, saturated.
pub(super) fn saturate(v: f64, dtype: DType) -> i128 {
    match dtype {
        DType::Bool => (v != 0.0).into(),
        DType::I8 => (v as i8).into(),
        DType::I16 => (v as i16).into(),
        DType::I32 => (v as i32).into(),
        DType::U8 => (v as u8).into(),
        DType::U16 => (v as u16).into(),
        DType::U32 => (v as u32).into(),
        DType::U64 => (v as u64).into(),
        _ => (v as i64).into(),
    }
}

fn bits(dtype: DType) -> u32 {
    dtype.size() as u32 * 8
}

pub(super) fn unary(op: Unary, a: Whole, of: DType) -> Whole {
    if a.e > 0.0 {
        return Whole::unknown(of);
    }
    let v = match op {
        Unary::Neg => -a.v,
        Unary::Abs => a.v.abs(),
        Unary::Sign => a.v.signum(),
        Unary::Not if of == DType::Bool => (a.v == 0).into(),
        Unary::Not => !a.v,
        _ => return Whole::unknown(of),
    };
    Whole::new(wrap(v, of))
}

pub(super) fn binary(op: Binary, a: Whole, b: Whole, of: DType) -> Whole {
    let boolean = of == DType::Bool;
    if a.e > 0.0 || b.e > 0.0 {
        // One operand alone may decide.
        let sure = |x: i128| (a.e == 0.0 && a.v == x) || (b.e == 0.0 && b.v == x);
        return match op {
            Binary::And | Binary::Mul if sure(0) => Whole::new(0),
            Binary::Min if boolean && sure(0) => Whole::new(0),
            Binary::Or | Binary::Add | Binary::Max if boolean && sure(1) => Whole::new(1),
            _ => Whole::unknown(of),
        };
    }
    let (a, b) = (a.v, b.v);
    let v = match op {
        Binary::Add if boolean => a | b,
        Binary::Mul if boolean => a & b,
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::FloorDiv if b == 0 => 0,
        Binary::FloorDiv => floor_div(a, b),
        Binary::Rem if b == 0 => 0,
        Binary::Rem => a - floor_div(a, b) * b,
        Binary::Pow => pow(a, b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl if (0..i128::from(bits(of))).contains(&b) => a.wrapping_shl(b as u32),
        Binary::Shl => 0,
        Binary::Shr if (0..i128::from(bits(of))).contains(&b) => a >> b,
        Binary::Shr if of.kind() == Kind::Signed && a < 0 => -1,
        Binary::Shr => 0,
        _ => return Whole::unknown(of),
    };
    Whole::new(wrap(v, of))
}

fn floor_div(a: i128, b: i128) -> i128 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

/// By squaring; wrapping at 128 bits and then at the dtype's is wrapping at the dtype's.
fn pow(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i128, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}
