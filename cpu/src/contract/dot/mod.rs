//! Matmuls of narrow types by instructions that multiply two or four numbers at a time and add the products: VNNI, AVX512-BF16, NEON's
//! dot products, AMX.
//!
//! Panels hold groups of neighbours along K as one element ([`dot4`], [`pairs`]); the rest is the packed GEMM's driver. Chosen for bytes,
//! 16-bit integers and bf16 where the machine has such instructions and there is enough to multiply. Integers are exact; bf16 has the bound of the
//! packed GEMM, and numbers so small that these instructions would take them for zero are left to it.

mod dot4;
mod pairs;
mod recognise;

pub use dot4::{Byte, Dot4};
pub use pairs::{Half, Paired, Pairs};
pub(super) use recognise::{DotWay, FAMILY};
