//! Millstream's CUDA devices.
//!
//! The driver, the compiler NVRTC and cuBLASLt are loaded at run time: the same binary runs on machines with and without a
//! GPU. [`CudaFamily`] lists and opens devices; everything else goes through core's `Backend`. What CUDA has beyond that
//! contract is here too: all [`CudaProperties`] of a device, and [`CudaGraph`]s of captured launches.
//!
//! | where                   | what                                                                   |
//! |-------------------------|------------------------------------------------------------------------|
//! | `sys`                   | the vendor's functions, loaded by name                                 |
//! | `error`                 | every status as an error with a kind and advice                        |
//! | `context`               | one opened device, and whether it still lives                          |
//! | `stream` `event` `gate` `watch` | order: queues, moments, waiting for the host, waiting for the device |
//! | `memory` `staging`      | memory, and copies through pinned pieces                               |
//! | `compile` `module` `kernel` | text to machine code to launches                                   |
//! | `cublas`                | matmuls by the vendor's library                                        |
//! | `graph`                 | lists of launches that run as one                                      |
//! | `measure`               | what the device really gives                                           |

mod backend;
mod compile;
mod context;
mod cublas;
mod error;
mod event;
mod gate;
mod graph;
mod kernel;
mod measure;
mod memory;
mod module;
mod nvtx;
mod profile;
mod programs;
mod properties;
mod staging;
mod stream;
mod sys;
mod watch;

pub use backend::{Cublas, CudaBackend, CudaFamily, CudaOptions};
pub use compile::{Binary, CompileOptions, compile, nvrtc_version};
pub use graph::{CudaGraph, Recaptured};
pub use measure::Measurements;
#[doc(hidden)]
pub use programs::programs;
pub use properties::CudaProperties;
