//! Millstream's Vulkan, Metal, DX12 and OpenGL devices, all through the `wgpu` crate.
//!
//! There is one [`WgpuFamily`] for each graphics API. A device has one queue: its streams order work, they do not overlap.
//! A stream gathers launches and copies and hands them to the driver in one submission when somebody records an event or
//! waits. Kernels are WGSL from `millstream-codegen`; every buffer is bound whole and writable, because `wgpu` tracks
//! usage by buffer while the pool cuts many tensors from one.
//!
//! Nothing here panics because of a driver: what `wgpu` reports, and what it would panic about, becomes a typed error.

mod backend;
mod bind;
mod event;
mod family;
mod gpu;
mod kernel;
mod measure;
mod memory;
mod open;
mod profile;
mod staging;
mod stream;
#[cfg(test)]
mod tests;
mod timer;
mod transfer;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod vulkan;

pub use backend::WgpuBackend;
pub use family::{Api, WgpuFamily};
