//! Which kernel computes a node.

use millstream_core::{Binary, DType, Error, Result, Unary};

use super::moves;
use crate::math::{self, BinaryOp, BlockFn, CompareOp, Elem, FmaForm, Form, UnaryOp};
use crate::simd::Isa;

/// A kernel and which of its operands may be single values.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// The kernel.
    pub f: BlockFn,
    /// Whether the form that was asked for exists; if not, `f` takes blocks only.
    pub exact: bool,
}

/// The element type in memory.
pub(crate) fn elem(dtype: DType) -> Elem {
    match dtype {
        DType::Bool => Elem::Bool,
        DType::I8 => Elem::I8,
        DType::I16 => Elem::I16,
        DType::I32 => Elem::I32,
        DType::I64 => Elem::I64,
        DType::U8 => Elem::U8,
        DType::U16 => Elem::U16,
        DType::U32 => Elem::U32,
        DType::U64 => Elem::U64,
        DType::F16 => Elem::F16,
        DType::BF16 => Elem::Bf16,
        DType::F32 => Elem::F32,
        DType::F64 => Elem::F64,
        DType::C64 => Elem::C64,
        DType::C128 => Elem::C128,
    }
}

fn missing(what: &str, dtype: DType) -> Error {
    Error::internal(format!("the CPU has no kernel for {what} of {dtype}"))
}

/// `dst[i] = op(a[i])`.
pub(crate) fn unary(isa: Isa, op: Unary, dtype: DType) -> Result<BlockFn> {
    let name = match op {
        Unary::Neg => UnaryOp::Neg,
        Unary::Abs => UnaryOp::Abs,
        Unary::Sign => UnaryOp::Sign,
        Unary::Not => UnaryOp::Not,
        Unary::Sqrt => UnaryOp::Sqrt,
        Unary::Rsqrt => UnaryOp::Rsqrt,
        Unary::Recip => UnaryOp::Recip,
        Unary::Exp => UnaryOp::Exp,
        Unary::Expm1 => UnaryOp::Expm1,
        Unary::Log => UnaryOp::Log,
        Unary::Log1p => UnaryOp::Log1p,
        Unary::Sin => UnaryOp::Sin,
        Unary::Cos => UnaryOp::Cos,
        Unary::Tan => UnaryOp::Tan,
        Unary::Asin => UnaryOp::Asin,
        Unary::Acos => UnaryOp::Acos,
        Unary::Atan => UnaryOp::Atan,
        Unary::Sinh => UnaryOp::Sinh,
        Unary::Cosh => UnaryOp::Cosh,
        Unary::Asinh => UnaryOp::Asinh,
        Unary::Acosh => UnaryOp::Acosh,
        Unary::Atanh => UnaryOp::Atanh,
        Unary::Exp2 => UnaryOp::Exp2,
        Unary::Log2 => UnaryOp::Log2,
        Unary::Log10 => UnaryOp::Log10,
        Unary::Tanh => UnaryOp::Tanh,
        Unary::Erf => UnaryOp::Erf,
        Unary::Sigmoid => UnaryOp::Sigmoid,
        Unary::Floor => UnaryOp::Floor,
        Unary::Ceil => UnaryOp::Ceil,
        Unary::Trunc => UnaryOp::Trunc,
        Unary::Round => UnaryOp::Round,
        Unary::Imag => UnaryOp::Imag,
    };
    math::unary(isa, name, elem(dtype.compute())).ok_or_else(|| missing(op.name(), dtype))
}

enum Name {
    Value(BinaryOp),
    Truth(CompareOp),
}

fn name(op: Binary) -> Name {
    match op {
        Binary::Add => Name::Value(BinaryOp::Add),
        Binary::Sub => Name::Value(BinaryOp::Sub),
        Binary::Mul => Name::Value(BinaryOp::Mul),
        Binary::Div => Name::Value(BinaryOp::Div),
        Binary::FloorDiv => Name::Value(BinaryOp::FloorDiv),
        Binary::Rem => Name::Value(BinaryOp::Rem),
        Binary::Pow => Name::Value(BinaryOp::Pow),
        Binary::Atan2 => Name::Value(BinaryOp::Atan2),
        Binary::Hypot => Name::Value(BinaryOp::Hypot),
        Binary::CopySign => Name::Value(BinaryOp::CopySign),
        Binary::NextAfter => Name::Value(BinaryOp::NextAfter),
        Binary::Fmod => Name::Value(BinaryOp::Fmod),
        Binary::Complex => Name::Value(BinaryOp::Complex),
        Binary::Min => Name::Value(BinaryOp::Min),
        Binary::Max => Name::Value(BinaryOp::Max),
        Binary::And => Name::Value(BinaryOp::And),
        Binary::Or => Name::Value(BinaryOp::Or),
        Binary::Xor => Name::Value(BinaryOp::Xor),
        Binary::Shl => Name::Value(BinaryOp::Shl),
        Binary::Shr => Name::Value(BinaryOp::Shr),
        Binary::Eq => Name::Truth(CompareOp::Eq),
        Binary::Ne => Name::Truth(CompareOp::Ne),
        Binary::Lt => Name::Truth(CompareOp::Lt),
        Binary::Le => Name::Truth(CompareOp::Le),
        Binary::Gt => Name::Truth(CompareOp::Gt),
        Binary::Ge => Name::Truth(CompareOp::Ge),
    }
}

/// `dst[i] = op(a[i], b[i])` on operands of `dtype`; `form` says which operand is a single value.
pub(crate) fn binary(isa: Isa, op: Binary, dtype: DType, form: Form) -> Result<Found> {
    // What is next to a half is another half, though both are held as f32.
    let of = elem(if op == Binary::NextAfter { dtype } else { dtype.compute() });
    let find = |form: Form| match name(op) {
        Name::Value(v) => math::binary(isa, v, of, form),
        Name::Truth(c) => math::compare(isa, c, of, form),
    };
    if let Some(f) = find(form) {
        return Ok(Found { f, exact: true });
    }
    find(Form::VV).map(|f| Found { f, exact: form == Form::VV }).ok_or_else(|| missing(op.name(), dtype))
}

/// Folds eight rows at once into an accumulator, where there is such a kernel: see [`math::stacked`].
pub(crate) fn stacked(isa: Isa, op: Binary, dtype: DType) -> Option<BlockFn> {
    match name(op) {
        Name::Value(v) => math::stacked(isa, v, elem(dtype)),
        Name::Truth(_) => None,
    }
}

/// As [`binary`] in exactly this form, written past the caches, where there is such a kernel.
pub(crate) fn streaming(isa: Isa, op: Binary, dtype: DType, form: Form) -> Option<BlockFn> {
    match name(op) {
        Name::Value(v) => math::streaming(isa, v, elem(dtype), form),
        Name::Truth(_) => None,
    }
}

/// `dst[i] = if a[i] { b[i] } else { c[i] }`.
pub(crate) fn select(isa: Isa, dtype: DType, form: Form) -> Result<Found> {
    let of = elem(dtype.compute());
    if let Some(f) = math::select(isa, of, form) {
        return Ok(Found { f, exact: true });
    }
    math::select(isa, of, Form::VV)
        .map(|f| Found { f, exact: form == Form::VV })
        .ok_or_else(|| missing("select", dtype))
}

/// `dst[i] = a[i] * b[i] + c[i]`, where it is one instruction.
pub(crate) fn fma(isa: Isa, dtype: DType, form: FmaForm) -> Option<BlockFn> {
    math::fma(isa, elem(dtype.compute()), form)
}

/// Converts between types as they are computed with, `to` being no half type.
pub(crate) fn cast(isa: Isa, from: DType, to: DType) -> Result<BlockFn> {
    math::cast(isa, elem(from.compute()), elem(to)).ok_or_else(|| missing("cast", from))
}

/// Rounds to a half type's precision; the result is held as f32.
pub(crate) fn round_to(from: DType, half: DType) -> Result<BlockFn> {
    moves::round_to(from, half).ok_or_else(|| missing("cast", from))
}

/// Memory of a half type to f32.
pub(crate) fn widen(isa: Isa, half: DType) -> Result<BlockFn> {
    math::cast(isa, elem(half), Elem::F32).ok_or_else(|| missing("widening", half))
}

/// f32 to memory of a half type.
pub(crate) fn narrow(isa: Isa, half: DType) -> Result<BlockFn> {
    math::cast(isa, Elem::F32, elem(half)).ok_or_else(|| missing("narrowing", half))
}

/// One value into every element.
pub(crate) fn splat(size: usize) -> Result<BlockFn> {
    moves::splat(size).ok_or_else(|| Error::internal(format!("no element has {size} bytes")))
}

/// Copies elements past the caches.
pub(crate) fn streaming_copy(isa: Isa, size: usize) -> Result<BlockFn> {
    math::streaming_copy(isa, size).ok_or_else(|| Error::internal(format!("no element has {size} bytes")))
}

/// Copies elements.
pub(crate) fn copy(size: usize) -> Result<BlockFn> {
    moves::copy(size).ok_or_else(|| Error::internal(format!("no element has {size} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_that_exists_has_a_kernel() {
        for isa in Isa::available() {
            for dtype in DType::ALL {
                for &op in Unary::ALL {
                    assert!(op.result(dtype).is_none() || unary(isa, op, dtype).is_ok(), "{} {dtype}", op.name());
                }
                for &op in Binary::ALL {
                    let found = binary(isa, op, dtype, Form::VV);
                    assert!(op.result(dtype).is_none() || found.is_ok(), "{} {dtype}", op.name());
                }
                assert!(select(isa, dtype, Form::VV).is_ok(), "{dtype}");
                for to in DType::ALL {
                    let found = if to.compute() == to { cast(isa, dtype, to) } else { round_to(dtype, to) };
                    assert!(found.is_ok(), "{dtype} to {to}");
                }
            }
        }
    }
}
