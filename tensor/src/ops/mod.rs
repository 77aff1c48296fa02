//! The methods of [`Tensor`](crate::Tensor), by family.
//!
//! A method checks what it is given, works out the result's shape and dtype, and appends nodes to the graph. It computes
//! nothing itself, and it asks the planner for nothing, except where the shape of its result depends on values.

mod arithmetic;
mod assign;
mod attention;
mod complex;
mod conv;
mod creation;
mod einsum;
mod elementwise;
mod fft;
mod indexing;
mod join;
mod linalg;
mod matmul;
mod neural;
mod padding;
mod pool;
mod quantile;
mod random;
mod reductions;
mod scan;
mod scatter;
mod sorting;

pub use arithmetic::Operand;
pub use attention::AttentionOptions;
pub use conv::{Channels, Conv};
pub use creation::Indexing;
pub use elementwise::Tolerance;
pub use fft::FftNorm;
pub use linalg::MatrixNorm;
pub use neural::{Interpolation, Reduction};
pub use padding::{Padding, Sizes};
pub use pool::Pool;
pub use random::Generator;
pub use sorting::{Order, Side};
