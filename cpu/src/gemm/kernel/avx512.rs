//! AVX-512: 14 rows of two 512-bit vectors leave four of the thirty-two registers for operands.

pub(in crate::gemm) use f32_kernels::F32;
pub(in crate::gemm) use f64_kernels::F64;

mod f32_kernels {
    use super::super::{Dots, Kernels, Reading, Tile};
    use core::arch::x86_64::*;

    /// The first `n` (1 to 16) lanes of a vector.
    #[target_feature(enable = "avx512f")]
    unsafe fn load_masked(p: *const f32, n: usize) -> __m512 {
        // SAFETY: lanes outside the mask are not accessed; the caller vouches for the others.
        unsafe { _mm512_maskz_loadu_ps((0xffff_u32 >> (16 - n)) as __mmask16, p) }
    }

    simd_kernels! {
        table F32, element f32, vector __m512, lanes 16, feature "avx512f",
        rows 14 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], vectors 2 [1 2],
        zero _mm512_setzero_ps(), splat |p: *const f32| _mm512_set1_ps(*p), load _mm512_loadu_ps,
        load_masked load_masked, store _mm512_storeu_ps, fma _mm512_fmadd_ps, add _mm512_add_ps,
        prefetch _mm_prefetch::<_MM_HINT_T0>,
    }
}

mod f64_kernels {
    use super::super::{Dots, Kernels, Reading, Tile};
    use core::arch::x86_64::*;

    /// The first `n` (1 to 8) lanes of a vector.
    #[target_feature(enable = "avx512f")]
    unsafe fn load_masked(p: *const f64, n: usize) -> __m512d {
        // SAFETY: lanes outside the mask are not accessed; the caller vouches for the others.
        unsafe { _mm512_maskz_loadu_pd((0xff_u32 >> (8 - n)) as __mmask8, p) }
    }

    simd_kernels! {
        table F64, element f64, vector __m512d, lanes 8, feature "avx512f",
        rows 14 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], vectors 2 [1 2],
        zero _mm512_setzero_pd(), splat |p: *const f64| _mm512_set1_pd(*p), load _mm512_loadu_pd,
        load_masked load_masked, store _mm512_storeu_pd, fma _mm512_fmadd_pd, add _mm512_add_pd,
        prefetch _mm_prefetch::<_MM_HINT_T0>,
    }
}
