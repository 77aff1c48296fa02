//! Vector maths and block kernels: the arithmetic floor of the CPU device.
//!
//! Two ways to use it:
//!
//! 1. **Interpreters** resolve a kernel once and call it for every block:
//!
//!    ```ignore
//!    let isa = Isa::detect();
//!    let tanh: BlockFn = math::unary(isa, Unary::Tanh, DType::F32).ok_or(...)?;
//!    let add: BlockFn = math::binary(isa, Binary::Add, DType::F32, Form::VS)?; // block + single value
//!    // for each block; operands that a kernel does not have are null
//!    unsafe { tanh(dst, a, null(), null(), n) };
//!    unsafe { add(dst, a, &raw const scalar as *const u8, null(), n) };
//!    ```
//!
//!    All kernels have the one type [`BlockFn`] `unsafe fn(dst, a, b, c, n)` on `u8` pointers. Any `n` is allowed, any
//!    element alignment, and in place (`dst == a`, or `b`, or `c`) where element sizes agree.
//!
//! 2. **Fused kernels** (rows, softmax, ...) are generic over [`Simd`](crate::simd::Simd), call
//!    [`single`]`::exp(s, x)` or [`double`]`::exp(s, x)` on vectors, and are entered through
//!    [`vectorize`](crate::simd::vectorize).
//!
//! Error bounds: every function is within 2 ulp of the exact value over its whole range, for f32 and f64, with the
//! special values of IEEE 754 / C99; `Pow` of f64 and sine, cosine and tangent of f64 beyond 1e5 are the platform's. What an
//! operation means for each type is said at [`Unary`](millstream_core::Unary), [`Binary`](millstream_core::Binary) and [`Reduce`](millstream_core::Reduce).

pub mod coefficients;
pub mod double;
pub mod single;

mod block;
mod hyperbolic;
mod inverse;
mod logs;
mod pow;
mod precision;
mod trig;

pub use block::{BlockFn, FmaForm, Form, ReduceOp};
pub use block::{
    arg_reduce, binary, cast, compare, exp_less, fma, random, random_run, reduce, select, stacked, streaming,
    streaming_copy, unary,
};

#[cfg(test)]
mod tests;
