//! Stored profiles of devices.
#![no_main]

#[path = "../checks/profile.rs"]
mod profile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| drop(profile::check(data)));
