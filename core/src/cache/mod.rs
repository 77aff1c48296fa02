//! What need not be made twice: kernels in memory, and small files that outlive the process.
//!
//! - [`KernelCache`] holds the compiled kernels of one device. Each is made once, whoever asks and however often.
//! - [`DiskCache`] keeps kernel binaries and measured device profiles between runs. Nothing that happens to its folder can
//!   fail a computation: at worst everything is made anew.
//! - [`stable_hash`] names its files. It is the same in every build and on every platform.

mod class;
mod disk;
#[cfg(test)]
mod disk_tests;
mod folder;
mod hash;
#[cfg(test)]
mod kernel_tests;
mod kernels;

pub use class::KernelClass;
pub use disk::{DiskCache, DiskStatistics, DiskStatus};
pub use hash::stable_hash;
pub use kernels::{KernelCache, KernelStatistics, Made, Origin};
