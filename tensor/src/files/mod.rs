//! Files of tensors: `.npy`, `.npz` and `.safetensors`.
//!
//! What is said of `.npy` files holds for all: a file is never believed, memory is only taken for bytes that are there, and
//! writing puts a whole file instead of the old one or none at all.
//!
//! `load_...` reads: what happens to the file afterwards does not matter. `map_...` lets tensors lie in the file, and is `unsafe`:
//! the caller promises that nobody changes or cuts the file while they live.

pub(crate) mod input;
mod mapped;
pub(crate) mod npy;
mod npz;
pub(crate) mod safetensors;
mod zip;

pub use npz::Compression;
