//! npz archives.
#![no_main]

#[path = "../checks/archives.rs"]
mod archives;

use libfuzzer_sys::fuzz_target;
use millstream::Tensor;

/// What Deflate packs into a byte at the most: an archive that is refused may have unpacked an entry before.
const RATIO: usize = 1032;

fuzz_target!(|data: &[u8]| millstream_fuzz::watched(data, || {
    archives::check(Tensor::from_npz_bytes(data)).unwrap_or(RATIO * data.len())
}));
