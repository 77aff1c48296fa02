//! npy files.
#![no_main]

#[path = "../checks/npy.rs"]
mod npy;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| millstream_fuzz::watched(data, || npy::check(data).unwrap_or(0)));
