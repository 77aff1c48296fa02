//! Portable SIMD, chosen at run time.
//!
//! A kernel is written once, generic over a token [`Simd`], and entered through [`vectorize`] (or, for the fixed block
//! kernels of [`crate::math`], through one function per instruction set whose address is kept in an interpreter's
//! instruction). All code below the entry must be `#[inline(always)]`, so that it is compiled with the entry's target
//! features; code that is not inlined is still right, only slow (every operation becomes a call). So vector code does not
//! go through closures that library functions call (`array::from_fn`, iterator adaptors): plain loops instead.
//!
//! Soundness: a token exists only where its instruction set does ([`Isa`] is checked when a kernel is entered or
//! resolved), and a vector can be made only from a token or from another vector, so the arithmetic itself is safe.
//! Only loads and stores through raw pointers are `unsafe`.
//!
//! ```ignore
//! struct Sum<'a>(&'a [f32]);
//! impl WithSimd for Sum<'_> {
//!     type Output = f32;
//!     #[inline(always)]
//!     fn run<S: Simd>(self, s: S) -> f32 {
//!         let mut acc = s.f32(0.0);
//!         // ... acc = acc + s.load_f32(chunk) ...
//!         acc.sum()
//!     }
//! }
//! let total = vectorize(Isa::detect(), Sum(&data));
//! ```

mod isa;
mod portable;
mod vector;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use isa::Isa;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use portable::Portable;
pub use vector::{Float, Int, MAX_LANES, Mask, Real, Simd};

/// The one of these statics that belongs to an instruction set, if there is one for it and this machine has it.
macro_rules! of_isa {
    ($isa:expr, $avx512:ident, $avx2:ident, $neon:ident) => {
        match $isa {
            isa if !isa.is_available() => None,
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Isa::Avx512 => Some(&$avx512),
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Isa::Avx2 => Some(&$avx2),
            #[cfg(target_arch = "aarch64")]
            $crate::simd::Isa::Neon => Some(&$neon),
            _ => None,
        }
    };
}
pub(crate) use of_isa;

/// A computation that is generic over the instruction set.
pub trait WithSimd {
    /// What it gives back.
    type Output;

    /// Computes with the vectors of `S`. Implementations must be `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// Runs `kernel` with the vectors of `isa`, or with portable ones where this machine lacks `isa`.
#[inline]
pub fn vectorize<K: WithSimd>(isa: Isa, kernel: K) -> K::Output {
    match isa.or_portable() {
        // SAFETY: `or_portable` returns an instruction set only where the machine has it.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512::enter(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::enter(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => unsafe { neon::enter(kernel) },
        _ => kernel.run(Portable::new()),
    }
}

#[cfg(test)]
mod tests;
