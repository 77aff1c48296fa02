//! One entry per instruction set for every block kernel.

use super::BlockFn;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Isa, Portable, Simd};

/// A block kernel, generic over the instruction set. Implementors are types without values.
pub trait Block {
    /// Computes the block; must be `#[inline(always)]`.
    ///
    /// # Safety
    /// As for [`BlockFn`].
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx512<B: Block>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: `resolve` gives this function only where the machine has AVX-512; the rest is the caller's promise.
    unsafe { B::run(Avx512::new_unchecked(), dst, a, b, c, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<B: Block>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: `resolve` gives this function only where the machine has AVX2; the rest is the caller's promise.
    unsafe { B::run(Avx2::new_unchecked(), dst, a, b, c, n) }
}

#[cfg(target_arch = "aarch64")]
unsafe fn neon<B: Block>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: AArch64 always has Advanced SIMD; the rest is the caller's promise.
    unsafe { B::run(crate::simd::Neon::new_unchecked(), dst, a, b, c, n) }
}

unsafe fn portable<B: Block>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { B::run(Portable::new(), dst, a, b, c, n) }
}

/// The kernel `B` compiled for `isa`, or the portable one where the machine lacks `isa`.
pub fn resolve<B: Block>(isa: Isa) -> BlockFn {
    match isa.or_portable() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<B>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<B>,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => neon::<B>,
        _ => portable::<B>,
    }
}

/// As [`resolve`], for kernels that the compiler vectorises and that gain nothing from the widest vectors: there are
/// thousands of them, so each is compiled for one instruction set less.
pub fn resolve_scalar<B: Block>(isa: Isa) -> BlockFn {
    match isa.or_portable() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => avx2::<B>,
        _ => portable::<B>,
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn avx2_swapped<B: Block>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: `resolve_swapped` gives this function only where the machine has AVX2; the rest is the caller's promise.
    unsafe { avx2::<B>(dst, b, a, c, n) }
}

unsafe fn portable_swapped<B: Block>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { portable::<B>(dst, b, a, c, n) }
}

/// As [`resolve_scalar`], with `a` and `b` exchanged: a jump to a kernel that exists anyway.
pub fn resolve_swapped<B: Block>(isa: Isa) -> BlockFn {
    match isa.or_portable() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => avx2_swapped::<B>,
        _ => portable_swapped::<B>,
    }
}

/// Whether an operand is a block or a single value, as a type.
pub trait Operand {
    /// True for a block.
    const BLOCK: bool;
}

/// A block.
pub struct V;
/// A single value.
pub struct C;

impl Operand for V {
    const BLOCK: bool = true;
}

impl Operand for C {
    const BLOCK: bool = false;
}
