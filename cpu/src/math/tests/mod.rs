//! Accuracy against higher precision, block kernels against scalar definitions, on every instruction set of the machine.

mod accuracy;
mod blocks;
mod casts;
mod divide;
mod pairs;
mod random;
mod reference;
mod timing;

use super::BlockFn;
use std::ptr::null;

/// Fresh random numbers; the seed is in the name of a failing assertion.
pub struct Random {
    state: u64,
    pub seed: u64,
}

impl Random {
    pub fn new() -> Random {
        let nanos =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
        let seed = nanos | 1;
        Random { state: seed, seed }
    }

    pub fn bits(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }
}

/// Runs a kernel of one operand on slices.
pub fn run1<A, R>(f: BlockFn, a: &[A], dst: &mut [R]) {
    assert!(a.len() >= dst.len());
    // SAFETY: both slices have `dst.len()` elements and do not overlap.
    unsafe { f(dst.as_mut_ptr().cast(), a.as_ptr().cast(), null(), null(), dst.len()) }
}

/// Runs a kernel of two operands on slices, or on one value as a slice of length one.
pub fn run2<A, R>(f: BlockFn, a: &[A], b: &[A], dst: &mut [R]) {
    // SAFETY: the test gives slices of `dst.len()` elements, or of one for a single value; none overlaps `dst`.
    unsafe { f(dst.as_mut_ptr().cast(), a.as_ptr().cast(), b.as_ptr().cast(), null(), dst.len()) }
}

/// Runs a kernel of three operands.
pub fn run3<A, B, R>(f: BlockFn, a: &[A], b: &[B], c: &[B], dst: &mut [R]) {
    // SAFETY: as for `run2`.
    unsafe { f(dst.as_mut_ptr().cast(), a.as_ptr().cast(), b.as_ptr().cast(), c.as_ptr().cast(), dst.len()) }
}
