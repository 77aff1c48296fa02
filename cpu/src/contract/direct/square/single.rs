//! Squares of a single sum, where there are no vectors.

use crate::contract::packed::Chain;
use crate::epilogue_chain::single;

/// Rows and columns of a square.
pub(super) const SIDE: usize = 1;

/// Whether the machine has these vectors.
pub(super) fn available() -> bool {
    true
}

/// Copies an element.
///
/// # Safety
/// `from` is readable, `to` writable.
pub(super) unsafe fn transpose(from: *const f32, _: isize, to: *mut f32, _: isize) {
    // SAFETY: the caller's.
    unsafe { to.write(from.read()) };
}

/// The accumulators of pixels become results of a chain, from this row and column on.
///
/// # Safety
/// `from` is readable at so many multiples of `wide`; the chain has these elements.
pub(super) unsafe fn finish(
    from: *const f32,
    wide: isize,
    (whole, _): (usize, usize),
    chain: &Chain,
    row: usize,
    col: usize,
) {
    for p in 0..whole {
        // SAFETY: the caller's.
        unsafe { single(chain, from.wrapping_offset(p as isize * wide).read(), row, col + p) };
    }
}
