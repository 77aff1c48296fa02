//! Lazy tensors and the planner that turns them into few, fused kernels.
//!
//! Programs use these through the `millstream` crate, which brings the devices.

mod assign;
mod attention;
mod compiled;
mod complex;
mod conv;
mod create;
mod einsum;
mod elementwise;
mod fft;
mod files;
mod index;
mod join;
mod linalg;
mod matmul;
mod neural;
mod node;
mod npy;
mod ops;
mod pad;
mod plan;
mod pool;
mod quantile;
mod random;
mod reduce;
mod scan;
mod scatter;
mod sorting;
mod tensor;
mod views;

use std::sync::OnceLock;

use millstream_core::{Result, Runtime};

pub use attention::AttentionOptions;
pub use compiled::{Compiled, compile, compile_all};
pub use conv::{Channels, Conv};
pub use create::Indexing;
pub use fft::FftNorm;
pub use files::Compression;
pub use linalg::MatrixNorm;
pub use neural::{Interpolation, Reduction};
pub use ops::Operand;
pub use pad::{Padding, Sizes};
pub use pool::Pool;
pub use random::Generator;
pub use reduce::Keep;
pub use sorting::Side;
pub use tensor::Tensor;

#[cfg(test)]
use millstream as _;

unsafe extern "Rust" {
    /// Makes the runtime that tensors use which name no device. The `millstream` crate defines it, because it is the one
    /// that knows the backends; this crate only knows their contract.
    safe fn __millstream_default_runtime() -> Runtime;
}

/// The runtime that tensors use which name no device.
pub fn default_runtime() -> Result<&'static Runtime> {
    static DEFAULT: OnceLock<Runtime> = OnceLock::new();
    Ok(DEFAULT.get_or_init(__millstream_default_runtime))
}
