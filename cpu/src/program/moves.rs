//! Kernels that move elements as they are, and those that round to a half type's precision but stay f32.
//!
//! Arithmetic is [`crate::math`]'s. All are [`BlockFn`]s; pointers need no alignment.

use half::{bf16, f16};
use millstream_core::DType;
use millstream_core::what::to_odd;
use num_complex::Complex;

use crate::math::BlockFn;

/// `dst[i] = *a` for elements of this many bytes.
pub(crate) fn splat(size: usize) -> Option<BlockFn> {
    macro_rules! of {
        ($t:ty) => {{
            unsafe fn run(dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
                // SAFETY: the caller promises one element at `a` and `n` at `dst`.
                unsafe {
                    let x = a.cast::<$t>().read_unaligned();
                    for i in 0..n {
                        dst.cast::<$t>().add(i).write_unaligned(x);
                    }
                }
            }
            Some(run as BlockFn)
        }};
    }
    match size {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        8 => of!(u64),
        16 => of!([u64; 2]),
        _ => None,
    }
}

/// `dst[i] = a[i]` for elements of this many bytes.
pub(crate) fn copy(size: usize) -> Option<BlockFn> {
    macro_rules! of {
        ($n:literal) => {{
            unsafe fn run(dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
                // SAFETY: the caller promises `n` elements at each pointer; a copy onto itself is allowed.
                unsafe { std::ptr::copy(a, dst, n * $n) }
            }
            Some(run as BlockFn)
        }};
    }
    match size {
        1 => of!(1),
        2 => of!(2),
        4 => of!(4),
        8 => of!(8),
        16 => of!(16),
        _ => None,
    }
}

/// The real part as an f64, for rounding.
trait Real: Copy {
    fn real(self) -> f64;
}

macro_rules! reals {
    ($($t:ty),+) => {$(
        impl Real for $t {
            fn real(self) -> f64 {
                self as f64
            }
        }
    )+};
}
reals!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

impl Real for Complex<f32> {
    fn real(self) -> f64 {
        self.re.into()
    }
}

impl Real for Complex<f64> {
    fn real(self) -> f64 {
        self.re
    }
}

unsafe fn rounded<T: Real, const BRAIN: bool>(dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
    for i in 0..n {
        // SAFETY: the caller promises `n` elements at each pointer.
        unsafe {
            // Rounding to odd first, so that both roundings together are one.
            let x = to_odd(a.cast::<T>().add(i).read_unaligned().real());
            let y = if BRAIN { bf16::from_f32(x).to_f32() } else { f16::from_f32(x).to_f32() };
            dst.cast::<f32>().add(i).write_unaligned(y);
        }
    }
}

/// The value rounded to a half type, held as f32. `from` is a dtype as it is computed with.
pub(crate) fn round_to(from: DType, half: DType) -> Option<BlockFn> {
    macro_rules! of {
        ($t:ty) => {
            match half {
                DType::F16 => Some(rounded::<$t, false> as BlockFn),
                DType::BF16 => Some(rounded::<$t, true> as BlockFn),
                _ => None,
            }
        };
    }
    match from.compute() {
        DType::Bool | DType::U8 => of!(u8),
        DType::I8 => of!(i8),
        DType::I16 => of!(i16),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        DType::U16 => of!(u16),
        DType::U32 => of!(u32),
        DType::U64 => of!(u64),
        DType::F32 => of!(f32),
        DType::F64 => of!(f64),
        DType::C64 => of!(Complex<f32>),
        DType::C128 => of!(Complex<f64>),
        DType::F16 | DType::BF16 => None,
    }
}
