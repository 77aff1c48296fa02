//! The types that matmuls are computed in.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;

use super::kernel::{Kernels, PortableKernels};
use super::{MicroKernel, Narrow};
use crate::simd::{Float, Simd, WithSimd, vectorize};

/// A type that a matmul is accumulated in. Integers wrap.
///
/// Narrower ones are not among them: they are widened while they are packed, see [`Widen`], and of sums of narrow integers the lower bits
/// are taken.
pub trait Element: Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    /// The neutral element of addition. All its bytes are zero.
    const ZERO: Self;

    /// Sum; integers wrap.
    fn add(self, other: Self) -> Self;

    /// The product; integers wrap.
    fn mul(self, other: Self) -> Self;

    /// Whether micro-kernels exist for this instruction set, apart from what the machine has. Sets that have none of
    /// their own use portable ones, but for several numbers at a time.
    fn has_kernels(isa: MicroKernel) -> bool {
        isa.together() == 1
    }

    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn kernels(isa: MicroKernel) -> &'static Kernels<Self> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx2 | MicroKernel::Avx512 => PortableKernels::<Self>::TABLE_AVX2,
            _ => PortableKernels::<Self>::TABLE,
        }
    }
}

/// A stored type that can be read as the type `T` of a matmul: exactly, but for integers that wrap.
pub trait Widen<T>: Copy + Send + Sync + 'static {
    /// The same value; of an integer that does not fit, the same bits.
    fn widen(self) -> T;

    /// Widens as many elements as both slices have.
    #[inline(always)]
    fn widen_slice(from: &[Self], to: &mut [T]) {
        for (t, &f) in to.iter_mut().zip(from) {
            *t = f.widen();
        }
    }

    /// As [`Widen::widen_slice`], with the vectors of an instruction set, if the machine has it.
    fn widen_run(isa: MicroKernel, from: &[Self], to: &mut [T]) {
        vectorize(isa.vectors(), WidenSlice(from, to));
    }

    /// How lines of it are multiplied with a vector, where they need not be widened first.
    fn lines() -> Option<Narrow<T>> {
        None
    }
}

/// Widens the first slice into the second.
struct WidenSlice<'a, S, T>(&'a [S], &'a mut [T]);

impl<S: Widen<T>, T> WithSimd for WidenSlice<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Simd>(self, _: V) {
        S::widen_slice(self.0, self.1);
    }
}

impl<T: Element> Widen<T> for T {
    #[inline(always)]
    fn widen(self) -> T {
        self
    }

    #[inline(always)]
    fn widen_slice(from: &[T], to: &mut [T]) {
        let n = from.len().min(to.len());
        to[..n].copy_from_slice(&from[..n]);
    }
}

impl Widen<f32> for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    fn widen_slice(from: &[f16], to: &mut [f32]) {
        // This one uses the processor's conversion where there is one.
        let n = from.len().min(to.len());
        from[..n].convert_to_f32_slice(&mut to[..n]);
    }

    fn widen_run(isa: MicroKernel, from: &[f16], to: &mut [f32]) {
        vectorize(isa.vectors(), Halves(from, to));
    }

    fn lines() -> Option<Narrow<f32>> {
        Some(Narrow::of_halves::<f16>())
    }
}

/// As [`WidenSlice`]; here the compiler does not find the processor's conversion by itself.
struct Halves<'a>(&'a [f16], &'a mut [f32]);

impl WithSimd for Halves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Simd>(self, v: V) {
        let lanes = V::F32::LANES;
        let n = self.0.len().min(self.1.len());
        let whole = n / lanes * lanes;
        for i in (0..whole).step_by(lanes) {
            // SAFETY: both slices have a vector's elements from here on.
            unsafe { v.load_f16(self.0.as_ptr().add(i).cast()).store(self.1.as_mut_ptr().add(i)) };
        }
        f16::widen_slice(&self.0[whole..n], &mut self.1[whole..n]);
    }
}

impl Widen<f32> for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    fn lines() -> Option<Narrow<f32>> {
        Some(Narrow::of_halves::<bf16>())
    }
}

macro_rules! widen {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl Widen<$to> for $from {
            #[inline(always)]
            fn widen(self) -> $to {
                <$to>::from(self)
            }
        }
    )*)*};
}
widen! {
    f16 => f64;
    bf16 => f64;
    f32 => f64;
}

macro_rules! widen_integers {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl Widen<$to> for $from {
            #[inline(always)]
            fn widen(self) -> $to {
                self as $to
            }

            fn lines() -> Option<Narrow<$to>> {
                Some(Narrow::of::<$from>())
            }
        }
    )*)*};
}
widen_integers! {
    i8 => i32, i64;
    u8 => i32, i64;
    i16 => i32, i64;
    u16 => i32, i64;
    i32 => i64;
    u32 => i32, i64;
    u64 => i64;
}

macro_rules! float_element {
    ($t:ty, $avx2:ident, $avx512:ident, $neon:ident, [$($pairs:pat => $table:expr),*]) => {
        impl Element for $t {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            fn has_kernels(isa: MicroKernel) -> bool {
                match isa {
                    $(#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                    $pairs => true,)*
                    _ => isa.together() == 1,
                }
            }

            #[allow(private_interfaces)]
            fn kernels(isa: MicroKernel) -> &'static Kernels<Self> {
                match isa {
                    $(#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                    $pairs => &$table,)*
                    #[cfg(target_arch = "x86_64")]
                    MicroKernel::Avx2 => &super::kernel::$avx2,
                    #[cfg(target_arch = "x86_64")]
                    MicroKernel::Avx512 => &super::kernel::$avx512,
                    #[cfg(target_arch = "aarch64")]
                    MicroKernel::Neon => &super::kernel::$neon,
                    _ => PortableKernels::<Self>::TABLE,
                }
            }
        }
    };
}
float_element!(f32, AVX2_F32, AVX512_F32, NEON_F32, [
    MicroKernel::Avx512Bf16 => super::kernel::AVX512_BF16_PAIRS,
    MicroKernel::Amx => super::kernel::amx::BF16_PAIRS
]);
float_element!(f64, AVX2_F64, AVX512_F64, NEON_F64, []);

impl Element for i32 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    fn has_kernels(isa: MicroKernel) -> bool {
        !matches!(isa, MicroKernel::Avx512Bf16 | MicroKernel::Amx)
    }

    #[allow(private_interfaces)]
    fn kernels(isa: MicroKernel) -> &'static Kernels<Self> {
        #[cfg(target_arch = "x86_64")]
        use super::kernel::{
            AVX2_I32, AVX2_I32_DOT4, AVX2_I32_PAIRS, AVX512_I32, AVX512_I32_DOT4, AVX512_I32_PAIRS,
            AVX512_I32_PAIRS_VNNI,
        };
        match isa {
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx2 => &AVX2_I32,
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512 => &AVX512_I32,
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx2Pairs => &AVX2_I32_PAIRS,
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512Pairs if is_x86_feature_detected!("avx512vnni") => &AVX512_I32_PAIRS_VNNI,
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512Pairs => &AVX512_I32_PAIRS,
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx2Dot4 => &AVX2_I32_DOT4,
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512Dot4 => &AVX512_I32_DOT4,
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            MicroKernel::AmxDot4 { signed: [a, b] } => &super::kernel::amx::I32_DOT4[usize::from(a)][usize::from(b)],
            #[cfg(target_arch = "aarch64")]
            MicroKernel::Neon => &super::kernel::NEON_I32,
            #[cfg(target_arch = "aarch64")]
            MicroKernel::NeonDot4 => &super::kernel::NEON_I32_DOT4,
            _ => PortableKernels::<Self>::TABLE,
        }
    }
}

impl Element for i64 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    #[allow(private_interfaces)]
    fn kernels(isa: MicroKernel) -> &'static Kernels<Self> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512 if is_x86_feature_detected!("avx512dq") => &super::kernel::AVX512_I64,
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx2 | MicroKernel::Avx512 => PortableKernels::<Self>::TABLE_AVX2,
            _ => PortableKernels::<Self>::TABLE,
        }
    }
}

macro_rules! complex_element {
    ($($t:ty)*) => {$(
        impl Element for Complex<$t> {
            const ZERO: Self = Complex { re: 0.0, im: 0.0 };

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}
complex_element!(f32 f64);
