//! Formulas of einsum, read and planned.
#![no_main]

#[path = "../checks/einsum.rs"]
mod einsum;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| drop(einsum::check(data)));
