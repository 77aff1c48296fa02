//! Prefetching: hints that never fault, whatever the address.
//!
//! Kernels call these while they hold accumulators in registers, so that all are inlined.

/// Prefetches the cache line of an address: to L1 if `NEAR`, else to L2.
#[inline(always)]
pub(crate) fn prefetch<const NEAR: bool>(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of x86-64; an address that cannot be read is ignored.
        unsafe { if NEAR { _mm_prefetch::<_MM_HINT_T0>(at.cast()) } else { _mm_prefetch::<_MM_HINT_T1>(at.cast()) } };
    }
    // Elsewhere the processor's own prefetcher follows lines and panels well enough.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches so many bytes to L2.
#[inline(always)]
pub(crate) fn prefetch_bytes(from: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        prefetch::<false>(from.wrapping_add(at));
    }
}
