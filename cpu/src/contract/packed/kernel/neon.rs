//! NEON: 8 rows of three 128-bit vectors leave eight of the thirty-two registers for operands.

pub(in crate::contract::packed) use f32_kernels::F32;
pub(in crate::contract::packed) use f64_kernels::F64;
pub(in crate::contract::packed) use i32_dot4::I32_DOT4;
pub(in crate::contract::packed) use i32_kernels::I32;

/// The first lanes of vectors, for edges; lanes beyond are not accessed.
mod masked {
    use core::arch::aarch64::*;

    macro_rules! masked {
        ($($load:ident $store:ident $t:ty, $v:ty, $zero:expr, $lanes:literal, $load_with:ident, $store_with:ident;)*) => {$(
            /// # Safety
            /// `p` is readable for `n` elements, 1 to all lanes.
            #[inline]
            #[target_feature(enable = "neon")]
            pub unsafe fn $load(p: *const $t, n: usize) -> $v {
                let mut lanes = [$zero; $lanes];
                for (i, lane) in lanes.iter_mut().enumerate().take(n) {
                    // SAFETY: the caller vouches for the first `n` elements.
                    *lane = unsafe { *p.add(i) };
                }
                // SAFETY: an array of all lanes is readable.
                unsafe { $load_with(lanes.as_ptr()) }
            }

            /// # Safety
            /// `p` is writable for `n` elements, 1 to all lanes.
            #[inline]
            #[target_feature(enable = "neon")]
            pub unsafe fn $store(p: *mut $t, n: usize, x: $v) {
                let mut lanes = [$zero; $lanes];
                // SAFETY: an array of all lanes is writable.
                unsafe { $store_with(lanes.as_mut_ptr(), x) };
                for (i, &lane) in lanes.iter().enumerate().take(n) {
                    // SAFETY: the caller vouches for the first `n` elements.
                    unsafe { p.add(i).write(lane) };
                }
            }
        )*};
    }
    masked! {
        load_f32 store_f32 f32, float32x4_t, 0.0, 4, vld1q_f32, vst1q_f32;
        load_f64 store_f64 f64, float64x2_t, 0.0, 2, vld1q_f64, vst1q_f64;
        load_i32 store_i32 i32, int32x4_t, 0, 4, vld1q_s32, vst1q_s32;
    }
}

mod f32_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::aarch64::*;

    simd_kernels! {
        table F32, element f32, vector float32x4_t, lanes 4, feature "neon",
        rows 8 [1 2 3 4 5 6 7 8], vectors 3 [1 2 3],
        zero vdupq_n_f32(0.0), splat |p: *const f32| vld1q_dup_f32(p), load |p: *const f32| vld1q_f32(p),
        load_masked masked::load_f32, store |p: *mut f32, x| vst1q_f32(p, x), store_masked masked::store_f32, fma |x, y, acc| vfmaq_f32(acc, x, y), add vaddq_f32,
    }
}

mod f64_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::aarch64::*;

    simd_kernels! {
        table F64, element f64, vector float64x2_t, lanes 2, feature "neon",
        rows 8 [1 2 3 4 5 6 7 8], vectors 3 [1 2 3],
        zero vdupq_n_f64(0.0), splat |p: *const f64| vld1q_dup_f64(p), load |p: *const f64| vld1q_f64(p),
        load_masked masked::load_f64, store |p: *mut f64, x| vst1q_f64(p, x), store_masked masked::store_f64, fma |x, y, acc| vfmaq_f64(acc, x, y), add vaddq_f64,
    }
}

mod i32_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::aarch64::*;

    simd_kernels! {
        table I32, element i32, vector int32x4_t, lanes 4, feature "neon",
        rows 8 [1 2 3 4 5 6 7 8], vectors 3 [1 2 3],
        zero vdupq_n_s32(0), splat |p: *const i32| vld1q_dup_s32(p), load |p: *const i32| vld1q_s32(p),
        load_masked masked::load_i32, store |p: *mut i32, x| vst1q_s32(p, x), store_masked masked::store_i32, fma |x, y, acc| vmlaq_s32(acc, x, y), add vaddq_s32,
    }
}

mod i32_dot4 {
    //! Four 8-bit integers at a time, all with a sign: one instruction multiplies them and adds the products to the sum, exactly.

    use super::super::{Kernels, MicroTile, Reading};
    use super::masked;
    use crate::contract::packed::MicroKernel;
    use core::arch::aarch64::*;

    /// The standard library's own function for this is not stable.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    fn dot(x: int32x4_t, y: int32x4_t, mut acc: int32x4_t) -> int32x4_t {
        // SAFETY: the instruction is part of the feature, and works on registers alone.
        unsafe {
            core::arch::asm!(
                "sdot {acc:v}.4s, {x:v}.16b, {y:v}.16b",
                acc = inout(vreg) acc, x = in(vreg) x, y = in(vreg) y,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        acc
    }

    simd_kernels! {
        packed I32_DOT4, heads true, unit MicroKernel::NeonDot4.dot4_block() + 1,
        element i32, vector int32x4_t, lanes 4, feature "neon,dotprod",
        rows 8 [1 2 3 4 5 6 7 8], vectors 3 [1 2 3],
        zero vdupq_n_s32(0), splat |p: *const i32| vld1q_dup_s32(p), load |p: *const i32| vld1q_s32(p), load_masked masked::load_i32,
        store |p: *mut i32, x| vst1q_s32(p, x), store_masked masked::store_i32, fma |x, y, acc| dot(x, y, acc), add vaddq_s32,
    }
}
