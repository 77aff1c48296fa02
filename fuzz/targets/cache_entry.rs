//! Entries of the disk cache: as they come, and with the checksum that their bytes should have.
#![no_main]

#[path = "../checks/cache_entry.rs"]
mod cache_entry;

use std::hash::Hasher;

use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash64;

fuzz_target!(|data: &[u8]| {
    cache_entry::check(data);
    if let Some((content, _)) = data.split_last_chunk::<8>() {
        // The seed is the version of the format.
        let mut hash = XxHash64::with_seed(1);
        hash.write(content);
        let whole = [content, &hash.finish().to_le_bytes()].concat();
        cache_entry::check(&whole);
    }
});
