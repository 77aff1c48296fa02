//! Which kernel computes a node.

use millstream_core::{Binary, DType, Error, Result, Unary};

use super::moves;
use crate::math::{self, BlockFn, FmaForm, Form};
use crate::simd::Isa;

/// A kernel and which of its operands may be single values.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// The kernel.
    pub f: BlockFn,
    /// Whether the form that was asked for exists; if not, `f` takes blocks only.
    pub exact: bool,
}

fn missing(what: &str, dtype: DType) -> Error {
    Error::internal(format!("the CPU has no kernel for {what} of {dtype}"))
}

/// `dst[i] = op(a[i])`.
pub(crate) fn unary(isa: Isa, op: Unary, dtype: DType) -> Result<BlockFn> {
    math::unary(isa, op, dtype.compute()).ok_or_else(|| missing(op.name(), dtype))
}

/// `dst[i] = op(a[i], b[i])` on operands of `dtype`; `form` says which operand is a single value.
pub(crate) fn binary(isa: Isa, op: Binary, dtype: DType, form: Form) -> Result<Found> {
    // What is next to a half is another half, though both are held as f32.
    let of = if op == Binary::NextAfter { dtype } else { dtype.compute() };
    let find = |form: Form| math::binary(isa, op, of, form).or_else(|| math::compare(isa, op, of, form));
    if let Some(f) = find(form) {
        return Ok(Found { f, exact: true });
    }
    find(Form::VV).map(|f| Found { f, exact: form == Form::VV }).ok_or_else(|| missing(op.name(), dtype))
}

/// Folds eight rows at once into an accumulator, where there is such a kernel: see [`math::stacked`].
pub(crate) fn stacked(isa: Isa, op: Binary, dtype: DType) -> Option<BlockFn> {
    math::stacked(isa, op, dtype)
}

/// As [`binary`] in exactly this form, written past the caches, where there is such a kernel.
pub(crate) fn streaming(isa: Isa, op: Binary, dtype: DType, form: Form) -> Option<BlockFn> {
    math::streaming(isa, op, dtype, form)
}

/// `dst[i] = if a[i] { b[i] } else { c[i] }`.
pub(crate) fn select(isa: Isa, dtype: DType, form: Form) -> Result<Found> {
    let of = dtype.compute();
    if let Some(f) = math::select(isa, of, form) {
        return Ok(Found { f, exact: true });
    }
    math::select(isa, of, Form::VV)
        .map(|f| Found { f, exact: form == Form::VV })
        .ok_or_else(|| missing("select", dtype))
}

/// `dst[i] = a[i] * b[i] + c[i]`, where it is one instruction.
pub(crate) fn fma(isa: Isa, dtype: DType, form: FmaForm) -> Option<BlockFn> {
    math::fma(isa, dtype.compute(), form)
}

/// Converts between types as they are computed with, `to` being no half type.
pub(crate) fn cast(isa: Isa, from: DType, to: DType) -> Result<BlockFn> {
    math::cast(isa, from.compute(), to).ok_or_else(|| missing("cast", from))
}

/// Rounds to a half type's precision; the result is held as f32.
pub(crate) fn round_to(from: DType, half: DType) -> Result<BlockFn> {
    moves::round_to(from, half).ok_or_else(|| missing("cast", from))
}

/// Memory of a half type to f32.
pub(crate) fn widen(isa: Isa, half: DType) -> Result<BlockFn> {
    math::cast(isa, half, DType::F32).ok_or_else(|| missing("widening", half))
}

/// f32 to memory of a half type.
pub(crate) fn narrow(isa: Isa, half: DType) -> Result<BlockFn> {
    math::cast(isa, DType::F32, half).ok_or_else(|| missing("narrowing", half))
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
