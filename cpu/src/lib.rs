//! The CPU as a device of Millstream: every operation in every dtype, the device of last resort.
//!
//! Programs use it through [`CpuFamily`], which a runtime opens like any other family; nothing above this crate knows
//! what is inside.
//!
//! - `backend`, `stream`, `memory`: core's contract over threads and plain memory.
//! - `profile`, `measure`: what the machine is, and what it gives.
//! - `simd`: vectors of the instruction sets, chosen at run time.
//! - `workers`, `topology`: fork-join threads; caches and cores.
//! - `math`: functions over blocks of elements. `program`: expressions as register programs of them.
//! - `map`, `rows`: element-wise operations and row programs. `contract`: contractions of any form, a folder for each way to
//!   compute them. `gather`, `scan`, `attention`: what their names say.

mod attention;
mod backend;
pub mod contract;
mod epilogue_chain;
mod gather;
mod host;
mod map;
pub mod math;
mod measure;
mod memory;
mod prefetch;
mod profile;
mod program;
mod rows;
mod scan;
mod shared;
pub mod simd;
mod stream;
pub mod topology;
pub mod workers;

pub use backend::{CpuBackend, CpuFamily, CpuOptions};
pub use simd::Isa;
