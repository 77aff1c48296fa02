//! AVX2 with FMA: 6 rows of two 256-bit vectors leave four of the sixteen registers for operands.

pub(in crate::contract::packed) use f32_kernels::F32;
pub(in crate::contract::packed) use f64_kernels::F64;
pub(in crate::contract::packed) use i32_dot4::I32_DOT4;
pub(in crate::contract::packed) use i32_kernels::I32;
pub(in crate::contract::packed) use i32_pairs::I32_PAIRS;

/// The first lanes of vectors, for edges; lanes beyond are not accessed.
mod masked {
    use core::arch::x86_64::*;

    /// The first `n` lanes of 4 bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn first_4(n: usize) -> __m256i {
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }

    /// The first `n` lanes of 8 bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn first_8(n: usize) -> __m256i {
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3))
    }

    macro_rules! masked {
        ($($load:ident $store:ident $t:ty, $v:ty, $first:ident, $load_with:ident, $store_with:ident;)*) => {$(
            /// # Safety
            /// `p` is readable for `n` elements, 1 to all lanes.
            #[inline]
            #[target_feature(enable = "avx2")]
            pub unsafe fn $load(p: *const $t, n: usize) -> $v {
                // SAFETY: lanes outside the mask are not accessed; the caller vouches for the others.
                unsafe { $load_with(p, $first(n)) }
            }

            /// # Safety
            /// `p` is writable for `n` elements, 1 to all lanes.
            #[inline]
            #[target_feature(enable = "avx2")]
            pub unsafe fn $store(p: *mut $t, n: usize, x: $v) {
                // SAFETY: as above.
                unsafe { $store_with(p, $first(n), x) };
            }
        )*};
    }
    masked! {
        load_f32 store_f32 f32, __m256, first_4, _mm256_maskload_ps, _mm256_maskstore_ps;
        load_f64 store_f64 f64, __m256d, first_8, _mm256_maskload_pd, _mm256_maskstore_pd;
        load_i32 store_i32 i32, __m256i, first_4, _mm256_maskload_epi32, _mm256_maskstore_epi32;
    }
}

mod f32_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        table F32, element f32, vector __m256, lanes 8, feature "avx2,fma",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_ps(), splat |p: *const f32| _mm256_broadcast_ss(&*p), load _mm256_loadu_ps,
        load_masked masked::load_f32, store _mm256_storeu_ps, store_masked masked::store_f32, fma _mm256_fmadd_ps, add _mm256_add_ps,
    }
}

mod f64_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        table F64, element f64, vector __m256d, lanes 4, feature "avx2,fma",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_pd(), splat |p: *const f64| _mm256_broadcast_sd(&*p), load _mm256_loadu_pd,
        load_masked masked::load_f64, store _mm256_storeu_pd, store_masked masked::store_f64, fma _mm256_fmadd_pd, add _mm256_add_pd,
    }
}

mod i32_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        table I32, element i32, vector __m256i, lanes 8, feature "avx2",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_si256(), splat |p: *const i32| _mm256_set1_epi32(*p),
        load |p: *const i32| _mm256_loadu_si256(p.cast()), load_masked masked::load_i32,
        store |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x), store_masked masked::store_i32,
        fma |x, y, acc| _mm256_add_epi32(acc, _mm256_mullo_epi32(x, y)), add _mm256_add_epi32,
    }
}

mod i32_dot4 {
    //! Four 8-bit integers at a time, those of A without sign and those of B with one: one instruction of AVX-VNNI multiplies them
    //! and adds the products to the sum, exactly.

    use super::super::{Kernels, MicroTile, Reading};
    use super::masked;
    use crate::contract::packed::MicroKernel;
    use core::arch::x86_64::*;

    simd_kernels! {
        packed I32_DOT4, heads true, unit MicroKernel::Avx2Dot4.dot4_block() + 1,
        element i32, vector __m256i, lanes 8, feature "avx2,avxvnni",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_si256(), splat |p: *const i32| _mm256_set1_epi32(*p),
        load |p: *const i32| _mm256_loadu_si256(p.cast()), load_masked masked::load_i32, store |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x), store_masked masked::store_i32,
        fma |x, y, acc| _mm256_dpbusd_avx_epi32(acc, x, y), add _mm256_add_epi32,
    }
}

mod i32_pairs {
    //! Pairs of 16-bit integers: one instruction multiplies both and adds the products, exactly.

    use super::super::{Kernels, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        packed I32_PAIRS, heads false, unit 8, element i32, vector __m256i, lanes 8, feature "avx2",
        rows 6 [1 2 3 4 5 6], vectors 2 [1 2],
        zero _mm256_setzero_si256(), splat |p: *const i32| _mm256_set1_epi32(*p),
        load |p: *const i32| _mm256_loadu_si256(p.cast()), load_masked masked::load_i32, store |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x), store_masked masked::store_i32,
        fma |x, y, acc| _mm256_add_epi32(acc, _mm256_madd_epi16(x, y)), add _mm256_add_epi32,
    }
}
