//! The names of operand forms and reductions. Operations and element types are core's.

use millstream_core::DType;

/// A block kernel.
///
/// `n` is the number of elements. `dst`, `a`, `b`, `c` point to elements of the types that the resolving function
/// states; an operand that the kernel does not have may be dangling or null, a single-value operand points to one element.
///
/// # Safety
/// `dst` is writable for `n` results, each operand is readable for its elements, all are aligned to their element. An
/// operand that is a block either does not overlap `dst` or is exactly `dst` with elements of the same size (in
/// place); a single value may lie anywhere.
pub type BlockFn = unsafe fn(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);

/// The unsigned integer of a signed one's width: where an operation does not see the sign, one kernel serves both.
pub(super) const fn without_sign(dtype: DType) -> DType {
    match dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        other => other,
    }
}

/// Which of two operands are blocks (V) and which single values (S).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Both are blocks.
    VV,
    /// `a` is a block, `b` a single value.
    VS,
    /// `a` is a single value, `b` a block.
    SV,
}

/// Which operands of `a * b + c` are blocks (V) and which single values (S).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FmaForm {
    /// All are blocks.
    VVV,
    /// `b` is a single value.
    VSV,
    /// `c` is a single value.
    VVS,
    /// `b` and `c` are single values.
    VSS,
}

/// A reduction of a block of floats to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum, 0 for none, in several interleaved partial sums on two levels: up to 64 Ki elements its error is that of
    /// fewer than 200 additions.
    Sum,
    /// The sum of the products of two blocks, likewise.
    SumProducts,
    /// The largest, NaN if one is NaN; negative infinity for none.
    Max,
    /// The smallest, NaN if one is NaN; infinity for none.
    Min,
}
