//! Squares of a single sum, where there are no vectors.

use crate::gemm::Chain;
use crate::links::single;

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
pub(super) unsafe fn turn(from: *const f32, _: isize, to: *mut f32, _: isize) {
    // SAFETY: the caller's.
    unsafe { to.write(from.read()) };
}

/// A sum becomes the result of a chain, at this row and column.
///
/// # Safety
/// `from` is readable; the chain has the element.
pub(super) unsafe fn finish(from: *const f32, _: isize, chain: &Chain, row: usize, col: usize) {
    // SAFETY: the caller's.
    unsafe { single(chain, from.read(), row, col) };
}
