//! One tensor program on every processor.
//!
//! ```
//! use millstream::{Keep, Tensor};
//!
//! let x = Tensor::from_shape(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let y = (&x * 0.5).tanh().sum(&[1], Keep::No);
//! assert_eq!(y.shape(), [2]);
//! println!("{:?}\n{}", y.to_vec::<f32>()?, y.explain()?);
//! # Ok::<(), millstream::Error>(())
//! ```
//!
//! This crate brings together the tensors, the machinery below them ([`core`]) and the devices. Each family of devices is a
//! cargo feature; the CPU is always there.

pub use millstream_core as core;
pub use millstream_core::{
    Binary, Buffer, DType, Device, DeviceKind, DeviceProfile, Element, Error, ErrorKind, Event, Idea, Layout, Mode,
    Profiler, Reduce, Result, Runtime, Scalar, Stream, Unary,
};
pub use millstream_cpu as cpu;
#[cfg(feature = "cuda")]
pub use millstream_cuda as cuda;
pub use millstream_tensor::{Keep, Operand, Tensor, default_runtime};
#[cfg(feature = "wgpu")]
pub use millstream_wgpu as wgpu;

use millstream_core::runtime::RuntimeBuilder;
use millstream_cpu::{CpuFamily, CpuOptions};

/// A runtime to be, with every family of devices that this build has. Add families or settings, then build it.
pub fn runtime() -> RuntimeBuilder {
    let builder = Runtime::builder().family(CpuFamily::new(CpuOptions::default()));
    #[cfg(feature = "cuda")]
    let builder = builder.family(cuda::CudaFamily::default());
    #[cfg(feature = "wgpu")]
    let builder = wgpu::WgpuFamily::native().into_iter().fold(builder, RuntimeBuilder::family);
    builder
}

/// The runtime of tensors that name no device. The tensor crate declares it; see there.
#[unsafe(no_mangle)]
extern "Rust" fn __millstream_default_runtime() -> Runtime {
    runtime().build()
}
