//! What tests of all crates share: devices that must be there, and a list of what was left out.
//!
//! `MILLSTREAM_REQUIRE_DEVICES` names what a test run must have, with commas between: families of devices, and `nvrtc`. What is
//! missing otherwise is left out, and said: in the test's output, and in the file that `MILLSTREAM_LEFT_OUT` names, which
//! `scripts/test` prints at its end.

mod damage;

use std::fmt::Display;
use std::io::Write;

pub use damage::Damage;

/// Whether a device, or its whole family, must be there.
pub fn is_required(name: &str) -> bool {
    required().iter().any(|r| r == name || Some(r.as_str()) == name.split(':').next())
}

/// What must be there.
fn required() -> Vec<String> {
    let text = std::env::var("MILLSTREAM_REQUIRE_DEVICES").unwrap_or_default();
    text.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect()
}

/// Leaves a device out.
///
/// # Panics
/// If it is required.
pub fn missing(name: &str, reason: &dyn Display) {
    assert!(!is_required(name), "{name} is required here: {reason}");
    left_out(&format!("{name}: {reason}"));
}

/// Looks whether every required device is among these.
///
/// # Panics
/// If one is not.
pub fn expect_all(names: &[&str]) {
    for family in required().iter().filter(|r| *r != "nvrtc") {
        let there = names.iter().any(|name| name == family || name.split(':').next() == Some(family));
        assert!(there, "{family} is required here; there are {names:?}");
    }
}

/// Says that something is not tested.
pub fn left_out(what: &str) {
    let what = what.lines().next().unwrap_or_default();
    println!("left out: {what}");
    if let Some(path) = std::env::var_os("MILLSTREAM_LEFT_OUT") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // A line in one write: tests append at the same time.
        let written = file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
        assert!(written.is_ok(), "what is left out cannot be noted: {written:?}");
    }
}
