//! AVX2 with FMA: 6 rows of two 256-bit vectors leave four of the sixteen registers for operands.

pub(in crate::contract::packed) use f32_kernels::F32;
pub(in crate::contract::packed) use f64_kernels::F64;
pub(in crate::contract::packed) use i32_dot4::I32_DOT4;
pub(in crate::contract::packed) use i32_kernels::I32;
pub(in crate::contract::packed) use i32_pairs::I32_PAIRS;

mod f32_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use core::arch::x86_64::*;

    /// The first `n` (1 to 8) lanes of a vector.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_masked(p: *const f32, n: usize) -> __m256 {
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane);
        // SAFETY: lanes outside the mask are not accessed; the caller vouches for the others.
        unsafe { _mm256_maskload_ps(p, mask) }
    }

    simd_kernels! {
        table F32, element f32, vector __m256, lanes 8, feature "avx2,fma",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_ps(), splat |p: *const f32| _mm256_broadcast_ss(&*p), load _mm256_loadu_ps,
        load_masked load_masked, store _mm256_storeu_ps, fma _mm256_fmadd_ps, add _mm256_add_ps,
    }
}

mod f64_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use core::arch::x86_64::*;

    /// The first `n` (1 to 4) lanes of a vector.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_masked(p: *const f64, n: usize) -> __m256d {
        let lane = _mm256_setr_epi64x(0, 1, 2, 3);
        let mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), lane);
        // SAFETY: lanes outside the mask are not accessed; the caller vouches for the others.
        unsafe { _mm256_maskload_pd(p, mask) }
    }

    simd_kernels! {
        table F64, element f64, vector __m256d, lanes 4, feature "avx2,fma",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_pd(), splat |p: *const f64| _mm256_broadcast_sd(&*p), load _mm256_loadu_pd,
        load_masked load_masked, store _mm256_storeu_pd, fma _mm256_fmadd_pd, add _mm256_add_pd,
    }
}

mod i32_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use core::arch::x86_64::*;

    /// The first `n` (1 to 8) lanes of a vector.
    #[target_feature(enable = "avx2")]
    unsafe fn load_masked(p: *const i32, n: usize) -> __m256i {
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane);
        // SAFETY: lanes outside the mask are not accessed; the caller vouches for the others.
        unsafe { _mm256_maskload_epi32(p, mask) }
    }

    simd_kernels! {
        table I32, element i32, vector __m256i, lanes 8, feature "avx2",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_si256(), splat |p: *const i32| _mm256_set1_epi32(*p),
        load |p: *const i32| _mm256_loadu_si256(p.cast()), load_masked load_masked,
        store |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x),
        fma |x, y, acc| _mm256_add_epi32(acc, _mm256_mullo_epi32(x, y)), add _mm256_add_epi32,
    }
}

mod i32_dot4 {
    //! Four 8-bit integers at a time, those of A without sign and those of B with one: one instruction of AVX-VNNI multiplies them
    //! and adds the products to the sum, exactly.

    use super::super::{Kernels, MicroTile, Reading};
    use crate::contract::packed::MicroKernel;
    use core::arch::x86_64::*;

    simd_kernels! {
        packed I32_DOT4, heads true, unit MicroKernel::Avx2Dot4.dot4_block() + 1,
        element i32, vector __m256i, lanes 8, feature "avx2,avxvnni",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_si256(), splat |p: *const i32| _mm256_set1_epi32(*p),
        load |p: *const i32| _mm256_loadu_si256(p.cast()), store |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x),
        fma |x, y, acc| _mm256_dpbusd_avx_epi32(acc, x, y), add _mm256_add_epi32,
    }
}

mod i32_pairs {
    //! Pairs of 16-bit integers: one instruction multiplies both and adds the products, exactly.

    use super::super::{Kernels, MicroTile, Reading};
    use core::arch::x86_64::*;

    simd_kernels! {
        packed I32_PAIRS, heads false, unit 8, element i32, vector __m256i, lanes 8, feature "avx2",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_si256(), splat |p: *const i32| _mm256_set1_epi32(*p),
        load |p: *const i32| _mm256_loadu_si256(p.cast()), store |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x),
        fma |x, y, acc| _mm256_add_epi32(acc, _mm256_madd_epi16(x, y)), add _mm256_add_epi32,
    }
}
