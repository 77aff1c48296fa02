//! What the targets share: a limit on the memory that an input takes.

#[path = "../../millstream/examples/shared/heap.rs"]
mod heap;

/// What the pool of the CPU and the text of an error may take whatever the input is.
const ALWAYS: usize = 4 << 20;

/// Runs a reader of files; it may take twice the bytes of the honest form of what it was given: those that it says, at least
/// those of the input.
///
/// # Panics
/// If it takes more.
pub fn watched(input: &[u8], read: impl FnOnce() -> usize) {
    let before = heap::reset_peak();
    let honest = read().max(input.len());
    let most = heap::peak().saturating_sub(before);
    assert!(most <= 2 * honest + ALWAYS, "{most} bytes for an input of {} bytes, {honest} in honest form", input.len());
}
