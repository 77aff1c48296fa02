//! The methods of [`Tensor`](crate::Tensor), by family.
//!
//! A method checks what it is given, works out the result's shape and dtype, and appends nodes to the graph. It computes
//! nothing itself, and it asks the planner for nothing, except where the shape of its result depends on values.

// Documentation shows the methods of tensors in this order.
mod creation;

mod join;
mod padding;

pub(crate) mod assign;
mod indexing;
mod scatter;

mod arithmetic;
mod complex;
mod elementwise;

mod reductions;
mod scan;

mod quantile;
mod sorting;

mod matmul;

mod einsum;
mod linalg;

mod fft;

mod neural;

mod attention;
mod conv;
mod pool;
mod random;

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
