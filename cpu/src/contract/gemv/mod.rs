//! A matrix times a vector, m or n of the contraction being 1, or a few vectors ([`few`]).
//!
//! Each element of the matrix is used once, so that memory decides and nothing is packed. Chosen wherever both operands lie in memory with
//! strides of which one is 1 ([`recognise`]); all dtypes. Error bound: `(k + 2) * eps * sum |a| |b|`.

mod few;
mod halves;
mod kernel;
mod narrow;
mod recognise;

pub(super) use few::{FAMILY as FEW, FewWay};
pub(crate) use kernel::Gemv;
pub use narrow::Narrow;
pub(super) use recognise::{FAMILY, GemvWay};
