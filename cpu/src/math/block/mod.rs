//! Block kernels: one operation over a block of elements, behind one function type.
//!
//! An interpreter resolves each instruction once ([`unary`], [`binary`], ...) and keeps the [`BlockFn`]; running a
//! block is then one indirect call, without a match on operation, type or instruction set. Every function here
//! returns `None` where the operation has no meaning for the type (sine of an integer) or where the type is carried
//! as another one (f16 and bf16 are carried as f32 and only [`cast`], but for [`Binary::NextAfter`]).

mod cast;
mod compare;
mod complex;
mod divide;
mod divmod;
mod each;
mod entry;
mod float;
mod int;
mod kinds;
mod next;
mod random;
mod reduce;

pub use kinds::{BlockFn, FmaForm, Form, ReduceOp};

use crate::simd::Isa;
use millstream_core::{Binary, DType, Unary};

/// `dst[i] = op(a[i])`.
pub fn unary(isa: Isa, op: Unary, elem: DType) -> Option<BlockFn> {
    float::unary(isa, op, elem).or_else(|| int::unary(isa, op, elem)).or_else(|| complex::unary(isa, op, elem))
}

/// `dst[i] = op(a[i], b[i])`; `form` says which operand is a single value.
pub fn binary(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    float::binary(isa, op, elem, form)
        .or_else(|| int::binary(isa, op, elem, form))
        .or_else(|| complex::binary(isa, op, elem, form))
        .or_else(|| next::binary(isa, op, elem, form))
}

/// As [`binary`], but written past the caches, for the operations that wait for memory alone. A fence must follow before
/// another thread reads; `dst` is aligned to its elements and is neither `a` nor `b`.
pub fn streaming(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    float::streaming(isa, op, elem, form)
}

/// `dst[i] = e^(a[i] - b)` for a single value `b` of floats: rounded as the two operations are, but in one pass.
pub fn exp_less(isa: Isa, elem: DType) -> Option<BlockFn> {
    float::exp_less(isa, elem)
}

/// `dst[i]` is `op` of `a[i]` and eight rows of `b`, joined pair by pair, for sums, products and extremes of floats. `c` is two i64: the bytes
/// from row to row, and those from each element to one that is needed later, which the kernel prefetches; 0 for none. Eight rows at
/// once keep memory busier than one, and touch `dst` less often.
pub fn stacked(isa: Isa, op: Binary, elem: DType) -> Option<BlockFn> {
    float::stacked(isa, op, elem)
}

/// `dst[i] = a[i]` for elements of this many bytes, written past the caches: as [`streaming`].
pub fn streaming_copy(isa: Isa, size: usize) -> Option<BlockFn> {
    float::streaming_copy(isa, size)
}

/// `dst[i] = a[i] * b[i] + c[i]`, rounded once for floats; `form` says which operands are single values.
pub fn fma(isa: Isa, elem: DType, form: FmaForm) -> Option<BlockFn> {
    float::fma(isa, elem, form).or_else(|| int::fma(isa, elem, form)).or_else(|| complex::fma(isa, elem, form))
}

/// `dst[i] = op(a[i], b[i])` as bools (bytes 0 and 1); `form` says which operand is a single value.
pub fn compare(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    compare::compare(isa, op, elem, form)
}

/// `dst[i] = if a[i] { b[i] } else { c[i] }`; `a` is a block of bools, `b`, `c` and `dst` are of `elem`; `form` says
/// which of `b` (first letter) and `c` (second letter) is a single value.
pub fn select(isa: Isa, elem: DType, form: Form) -> Option<BlockFn> {
    compare::select(isa, elem, form)
}

/// `dst[i] = a[i]` converted, for every pair of types: float to integer truncates and saturates, NaN becomes 0;
/// integer to integer wraps; to bool is `!= 0`; to f16, bf16, f32 rounds to nearest even; real to complex has imaginary
/// part 0; complex to real keeps the real part. Of types of different sizes not in place.
pub fn cast(isa: Isa, from: DType, to: DType) -> Option<BlockFn> {
    cast::cast(isa, from, to)
}

/// `*dst = op(a[0], a[1], ...)`: one value of `elem`, which is f32 or f64. The other factors of `SumProducts` are `b`.
pub fn reduce(isa: Isa, op: ReduceOp, elem: DType) -> Option<BlockFn> {
    reduce::reduce(isa, op, elem)
}

/// `*dst = op(a[0], a[1], ...)` for `Max` and `Min`, and 16 bytes behind it, as a u64, the index of the first element that has this
/// value, or of the first NaN; 0 for none.
pub fn arg_reduce(isa: Isa, op: ReduceOp, elem: DType) -> Option<BlockFn> {
    reduce::arg_reduce(isa, op, elem)
}

/// `dst[i]` is the random word of number `a[i]` under the key `b[i]`, `c[i]`, or under one key for all; every element is a u32.
pub fn random(isa: Isa, one_key: bool) -> BlockFn {
    random::random(isa, one_key)
}

/// `dst[i]` is the random word of number `*a + i`, wrapping, under the key `*b`, `*c`; all are u32.
pub fn random_run(isa: Isa) -> BlockFn {
    random::random_run(isa)
}
