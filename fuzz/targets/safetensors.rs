//! safetensors files.
#![no_main]

#[path = "../checks/archives.rs"]
mod archives;

use libfuzzer_sys::fuzz_target;
use millstream::Tensor;

fuzz_target!(|data: &[u8]| millstream_fuzz::watched(data, || {
    archives::check(Tensor::from_safetensors_bytes(data)).unwrap_or(0)
}));
