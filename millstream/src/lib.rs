//! One tensor program on every processor.
//!
//! ```
//! use millstream::Tensor;
//!
//! let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
//! let y = (&x * 0.5).tanh().sum(1);
//! assert_eq!(y.shape(), [2]);
//! println!("{y}\n{}", y.explain()?);
//! # Ok::<(), millstream::Error>(())
//! ```
//!
//! This crate brings together the tensors, the machinery below them ([`core`]) and the devices. Each family of devices is a
//! cargo feature; the CPU is always there. The features `ndarray` and `image` add conversions of the arrays and images of these crates.
//! [`guide`] is the place to begin.

pub use half::{bf16, f16};
pub use millstream_core as core;
pub use millstream_core::{
    Accuracy, Binary, Buffer, DType, Device, DeviceKind, DeviceProfile, Element, Error, ErrorKind, Event, Idea, Layout,
    Mode, Profiler, Reduce, Result, Runtime, Scalar, Sharing, Stream, Unary,
};
pub use millstream_cpu as cpu;
#[cfg(feature = "cuda")]
pub use millstream_cuda as cuda;
pub use millstream_tensor::{
    AttentionOptions, Axes, Cancel, Channels, Compiled, CompiledMany, Compression, Conv, Ellipsis, Exported, Extent,
    FftNorm, Generator, Index, Indexing, Integer, Integers, Interpolation, IntoDevice, IntoIndex, MatrixNorm, Nested,
    NewAxis, NewShape, Operand, Order, Padding, Pipeline, Pool, RawTensor, Reduction, Shape, Side, Sizes, Span, Tensor,
    Tolerance, around_evaluation, compile, compile_all, compile_many, default_runtime, interruptible, pipeline, step,
};
#[cfg(feature = "wgpu")]
pub use millstream_wgpu as wgpu;
pub use num_complex::Complex;

mod settings;

pub use settings::{empty_cache, set_memory_limit, set_threads};

#[doc = include_str!("../guide.md")]
pub mod guide {}

use std::panic::Location;

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

/// Devices of the default runtime, by `Device::best()`, `Device::auto()` and `Device::named("cuda:0")`.
///
/// ```
/// use millstream::{Device, Devices, Tensor};
/// let x = Tensor::from_slice(&[1.0f32, 2.0]).to("cpu");
/// assert_eq!((&x + &x).to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait Devices: Sized {
    /// The fastest device of this machine by the cost model.
    #[track_caller]
    fn best() -> Result<Self>;

    /// The device that stands for all: each computation goes where it is done the soonest, its moves included.
    #[track_caller]
    fn auto() -> Result<Self>;

    /// The device of that name: `cpu`, `cuda:0`, `vulkan:0`, ... It is strict: what fails there fails.
    ///
    /// # Errors
    /// A name that no device of this machine has; the error lists those that there are.
    #[track_caller]
    fn named(name: &str) -> Result<Self>;
}

impl Devices for Device {
    fn best() -> Result<Device> {
        found("best", default_runtime().and_then(Runtime::best))
    }

    fn auto() -> Result<Device> {
        found("auto", default_runtime().and_then(Runtime::auto))
    }

    fn named(name: &str) -> Result<Device> {
        found("named", default_runtime().and_then(|r| r.device(name)))
    }
}

/// A device, or an error of this call.
#[track_caller]
fn found(op: &'static str, device: Result<Device>) -> Result<Device> {
    let location = Location::caller();
    device.map_err(|e| e.in_op(op).at(location))
}

/// The runtime of tensors that name no device. The tensor crate declares it; see there.
#[unsafe(no_mangle)]
extern "Rust" fn __millstream_default_runtime() -> Runtime {
    settings::applied(runtime()).build()
}
