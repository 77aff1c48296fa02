//! Lazy tensors and the planner that turns them into few, fused kernels.
//!
//! Programs use these through the `millstream` crate, which brings the devices.

// Documentation shows the methods of tensors in the order of these modules.
mod tensor;

mod index;
mod views;

mod ops;

mod files;

mod exchange;

mod convert;

mod arguments;
mod cancel;
mod compiled;
mod display;
mod graph;
mod nested;
pub mod pipeline;
mod plan;

use std::sync::OnceLock;

use millstream_core::{Result, Runtime};

pub use arguments::{
    Axes, Ellipsis, Extent, Index, Integer, Integers, IntoDevice, IntoIndex, NewAxis, NewShape, Shape, Span, step,
};
pub use cancel::{Cancel, interruptible};
pub use compiled::{Compiled, CompiledMany, compile, compile_all, compile_many};
pub use exchange::{Exported, RawTensor};
pub use files::Compression;
pub use nested::Nested;
pub use ops::{
    AttentionOptions, Channels, Conv, FftNorm, Generator, Indexing, Interpolation, MatrixNorm, Operand, Order, Padding,
    Pool, Reduction, Side, Sizes, Tolerance,
};
pub use pipeline::Pipeline;
pub use plan::around_evaluation;
pub use tensor::Tensor;

#[cfg(test)]
use millstream as _;

unsafe extern "Rust" {
    /// Makes the runtime that tensors use which name no device. The `millstream` crate defines it, because it is the one
    /// that knows the backends; this crate only knows their contract.
    ///
    /// A symbol rather than a registration: a program's first act may be to make a tensor, and nothing of `millstream` has run before that to
    /// register anything. None, or two of them, is an error of the linker instead of one at run time.
    safe fn __millstream_default_runtime() -> Runtime;
}

/// The runtime that tensors use which name no device.
pub fn default_runtime() -> Result<&'static Runtime> {
    static DEFAULT: OnceLock<Runtime> = OnceLock::new();
    Ok(DEFAULT.get_or_init(__millstream_default_runtime))
}
