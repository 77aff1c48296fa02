//! AVX-512: 14 rows of two 512-bit vectors leave four of the thirty-two registers for operands.

pub(in crate::contract::packed) use bf16_pairs::BF16_PAIRS;
pub(in crate::contract::packed) use f32_kernels::F32;
pub(in crate::contract::packed) use f64_kernels::F64;
pub(in crate::contract::packed) use i32_dot4::I32_DOT4;
pub(in crate::contract::packed) use i32_kernels::I32;
pub(in crate::contract::packed) use i32_pairs::I32_PAIRS;
pub(in crate::contract::packed) use i32_pairs_vnni::I32_PAIRS_VNNI;
pub(in crate::contract::packed) use i64_kernels::I64;

/// The first lanes of vectors, for edges; lanes beyond are not accessed.
mod masked {
    use core::arch::x86_64::*;

    macro_rules! masked {
        ($($load:ident $store:ident $t:ty, $v:ty, $mask:ty, $load_with:ident, $store_with:ident;)*) => {$(
            /// # Safety
            /// `p` is readable for `n` elements, 1 to all lanes.
            #[inline]
            #[target_feature(enable = "avx512f")]
            pub unsafe fn $load(p: *const $t, n: usize) -> $v {
                // SAFETY: lanes outside the mask are not accessed; the caller vouches for the others.
                unsafe { $load_with((0xffff_u32 >> (16 - n)) as $mask, p) }
            }

            /// # Safety
            /// `p` is writable for `n` elements, 1 to all lanes.
            #[inline]
            #[target_feature(enable = "avx512f")]
            pub unsafe fn $store(p: *mut $t, n: usize, x: $v) {
                // SAFETY: as above.
                unsafe { $store_with(p, (0xffff_u32 >> (16 - n)) as $mask, x) };
            }
        )*};
    }
    masked! {
        load_f32 store_f32 f32, __m512, __mmask16, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps;
        load_f64 store_f64 f64, __m512d, __mmask8, _mm512_maskz_loadu_pd, _mm512_mask_storeu_pd;
        load_i32 store_i32 i32, __m512i, __mmask16, _mm512_maskz_loadu_epi32, _mm512_mask_storeu_epi32;
        load_i64 store_i64 i64, __m512i, __mmask8, _mm512_maskz_loadu_epi64, _mm512_mask_storeu_epi64;
    }
}

mod f32_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        table F32, element f32, vector __m512, lanes 16, feature "avx512f",
        rows 14 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], vectors 2 [1 2],
        zero _mm512_setzero_ps(), splat |p: *const f32| _mm512_set1_ps(*p), load _mm512_loadu_ps,
        load_masked masked::load_f32, store _mm512_storeu_ps, store_masked masked::store_f32, fma _mm512_fmadd_ps, add _mm512_add_ps,
    }
}

mod f64_kernels {
    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        table F64, element f64, vector __m512d, lanes 8, feature "avx512f",
        rows 14 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], vectors 2 [1 2],
        zero _mm512_setzero_pd(), splat |p: *const f64| _mm512_set1_pd(*p), load _mm512_loadu_pd,
        load_masked masked::load_f64, store _mm512_storeu_pd, store_masked masked::store_f64, fma _mm512_fmadd_pd, add _mm512_add_pd,
    }
}

mod i32_kernels {
    //! Products take a register until they are added, so that fewer rows are left.

    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        table I32, element i32, vector __m512i, lanes 16, feature "avx512f",
        rows 12 [1 2 3 4 5 6 7 8 9 10 11 12], vectors 2 [1 2],
        zero _mm512_setzero_si512(), splat |p: *const i32| _mm512_set1_epi32(*p),
        load |p: *const i32| _mm512_loadu_si512(p.cast()), load_masked masked::load_i32,
        store |p: *mut i32, x| _mm512_storeu_si512(p.cast(), x), store_masked masked::store_i32,
        fma |x, y, acc| _mm512_add_epi32(acc, _mm512_mullo_epi32(x, y)), add _mm512_add_epi32,
    }
}

mod i64_kernels {
    //! As for 32 bits; AVX-512 DQ multiplies 64.

    use super::super::{Kernels, Lines, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        table I64, element i64, vector __m512i, lanes 8, feature "avx512f,avx512dq",
        rows 12 [1 2 3 4 5 6 7 8 9 10 11 12], vectors 2 [1 2],
        zero _mm512_setzero_si512(), splat |p: *const i64| _mm512_set1_epi64(*p),
        load |p: *const i64| _mm512_loadu_si512(p.cast()), load_masked masked::load_i64,
        store |p: *mut i64, x| _mm512_storeu_si512(p.cast(), x), store_masked masked::store_i64,
        fma |x, y, acc| _mm512_add_epi64(acc, _mm512_mullo_epi64(x, y)), add _mm512_add_epi64,
    }
}

mod i32_dot4 {
    //! Four 8-bit integers at a time, those of A without sign and those of B with one: one instruction of AVX512-VNNI multiplies them
    //! and adds the products to the sum, exactly.

    use super::super::{Kernels, MicroTile, Reading};
    use super::masked;
    use crate::contract::packed::MicroKernel;
    use core::arch::x86_64::*;

    simd_kernels! {
        packed I32_DOT4, heads true, unit MicroKernel::Avx512Dot4.dot4_block() + 1,
        element i32, vector __m512i, lanes 16, feature "avx512f,avx512vnni",
        rows 14 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], vectors 2 [1 2],
        zero _mm512_setzero_si512(), splat |p: *const i32| _mm512_set1_epi32(*p),
        load |p: *const i32| _mm512_loadu_si512(p.cast()), load_masked masked::load_i32, store |p: *mut i32, x| _mm512_storeu_si512(p.cast(), x), store_masked masked::store_i32,
        fma |x, y, acc| _mm512_dpbusd_epi32(acc, x, y), add _mm512_add_epi32,
    }
}

mod i32_pairs_vnni {
    //! Pairs of 16-bit integers: one instruction of AVX512-VNNI multiplies both and adds the products to the sum, exactly.

    use super::super::{Kernels, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        packed I32_PAIRS_VNNI, heads false, unit 8,
        element i32, vector __m512i, lanes 16, feature "avx512f,avx512vnni",
        rows 14 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], vectors 2 [1 2],
        zero _mm512_setzero_si512(), splat |p: *const i32| _mm512_set1_epi32(*p),
        load |p: *const i32| _mm512_loadu_si512(p.cast()), load_masked masked::load_i32, store |p: *mut i32, x| _mm512_storeu_si512(p.cast(), x), store_masked masked::store_i32,
        fma |x, y, acc| _mm512_dpwssd_epi32(acc, x, y), add _mm512_add_epi32,
    }
}

mod i32_pairs {
    //! Pairs of 16-bit integers: one instruction multiplies both and adds the products, exactly. The
    //! next adds that to the sum, from a register that rows cannot have.

    use super::super::{Kernels, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    simd_kernels! {
        packed I32_PAIRS, heads false, unit 8, element i32, vector __m512i, lanes 16, feature "avx512f,avx512bw",
        rows 12 [1 2 3 4 5 6 7 8 9 10 11 12], vectors 2 [1 2],
        zero _mm512_setzero_si512(), splat |p: *const i32| _mm512_set1_epi32(*p),
        load |p: *const i32| _mm512_loadu_si512(p.cast()), load_masked masked::load_i32, store |p: *mut i32, x| _mm512_storeu_si512(p.cast(), x), store_masked masked::store_i32,
        fma |x, y, acc| _mm512_add_epi32(acc, _mm512_madd_epi16(x, y)), add _mm512_add_epi32,
    }
}

mod bf16_pairs {
    //! Pairs of bf16: one instruction multiplies both and adds the products to f32. It takes subnormal numbers for zeros
    //! and makes zeros of subnormal accumulators; whoever uses it knows that there are none.

    use super::super::{Kernels, MicroTile, Reading};
    use super::masked;
    use core::arch::x86_64::*;

    /// The bits of a vector as pairs.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn pairs(x: __m512) -> __m512bh {
        // SAFETY: both are 64 bytes of any bits.
        unsafe { std::mem::transmute(x) }
    }

    simd_kernels! {
        packed BF16_PAIRS, heads false, unit 8, element f32, vector __m512, lanes 16, feature "avx512f,avx512bf16",
        rows 14 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], vectors 2 [1 2],
        zero _mm512_setzero_ps(), splat |p: *const f32| _mm512_castsi512_ps(_mm512_set1_epi32(*p.cast::<i32>())),
        load _mm512_loadu_ps, load_masked masked::load_f32, store _mm512_storeu_ps, store_masked masked::store_f32, fma |x, y, acc| _mm512_dpbf16_ps(acc, pairs(x), pairs(y)),
        add _mm512_add_ps,
    }
}
