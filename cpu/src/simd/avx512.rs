//! AVX-512 F, BW, DQ, VL: 512-bit vectors, comparisons into mask registers.

use super::WithSimd;
use super::vector::{Float, Int, MAX_LANES, Mask, Simd};
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// Proof that the machine has AVX-512 F, BW, DQ and VL, and all that [`super::Avx2`] proves.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// Makes the token.
    ///
    /// # Safety
    /// [`super::Isa::Avx512`] is available.
    #[inline(always)]
    pub unsafe fn new_unchecked() -> Avx512 {
        Avx512(())
    }
}

/// Runs `kernel` compiled for AVX-512.
///
/// # Safety
/// [`super::Isa::Avx512`] is available.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

/// Sixteen lanes of f32.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F32x16(__m512);
/// Eight lanes of f64.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F64x8(__m512d);
/// Sixteen lanes of i32.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct I32x16(__m512i);
/// Eight lanes of i64.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct I64x8(__m512i);
/// A bit for each of sixteen lanes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct M16(__mmask16);
/// A bit for each of eight lanes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct M8(__mmask8);

/// Evaluates intrinsics on values of this module's types.
macro_rules! avx512 {
    ($e:expr) => {
        // SAFETY: values of this module's types are made from a token, which exists only where AVX-512 does.
        unsafe { $e }
    };
}

macro_rules! binary {
    ($v:ident: $($trait:ident $method:ident $intrinsic:ident),+) => {$(
        impl $trait for $v {
            type Output = $v;
            #[inline(always)]
            fn $method(self, other: $v) -> $v {
                $v(avx512!($intrinsic(self.0, other.0)))
            }
        }
    )+};
}

binary!(F32x16: Add add _mm512_add_ps, Sub sub _mm512_sub_ps, Mul mul _mm512_mul_ps, Div div _mm512_div_ps,
    BitAnd bitand _mm512_and_ps, BitOr bitor _mm512_or_ps, BitXor bitxor _mm512_xor_ps);
binary!(F64x8: Add add _mm512_add_pd, Sub sub _mm512_sub_pd, Mul mul _mm512_mul_pd, Div div _mm512_div_pd,
    BitAnd bitand _mm512_and_pd, BitOr bitor _mm512_or_pd, BitXor bitxor _mm512_xor_pd);
binary!(I32x16: Add add _mm512_add_epi32, Sub sub _mm512_sub_epi32, BitAnd bitand _mm512_and_si512,
    BitOr bitor _mm512_or_si512, BitXor bitxor _mm512_xor_si512);
binary!(I64x8: Add add _mm512_add_epi64, Sub sub _mm512_sub_epi64, BitAnd bitand _mm512_and_si512,
    BitOr bitor _mm512_or_si512, BitXor bitxor _mm512_xor_si512);

macro_rules! mask {
    ($v:ident) => {
        impl BitAnd for $v {
            type Output = $v;
            #[inline(always)]
            fn bitand(self, other: $v) -> $v {
                $v(self.0 & other.0)
            }
        }
        impl BitOr for $v {
            type Output = $v;
            #[inline(always)]
            fn bitor(self, other: $v) -> $v {
                $v(self.0 | other.0)
            }
        }
        impl Not for $v {
            type Output = $v;
            #[inline(always)]
            fn not(self) -> $v {
                $v(!self.0)
            }
        }
        impl Mask for $v {
            #[inline(always)]
            fn bits(self) -> u32 {
                u32::from(self.0)
            }
        }
    };
}

mask!(M16);
mask!(M8);

macro_rules! int {
    ($v:ident, $elem:ty, $mask:ident, $sll:ident, $srl:ident, $eq:ident, $gt:ident, $blend:ident) => {
        impl Int for $v {
            type Elem = $elem;
            type Mask = $mask;
            #[inline(always)]
            fn shl<const N: u32>(self) -> Self {
                $v(avx512!($sll::<N>(self.0)))
            }
            #[inline(always)]
            fn shr<const N: u32>(self) -> Self {
                $v(avx512!($srl::<N>(self.0)))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> $mask {
                $mask(avx512!($eq(self.0, other.0)))
            }
            #[inline(always)]
            fn gt(self, other: Self) -> $mask {
                $mask(avx512!($gt(self.0, other.0)))
            }
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                $v(avx512!($blend(mask.0, no.0, yes.0)))
            }
            #[inline(always)]
            unsafe fn load(ptr: *const $elem) -> Self {
                // SAFETY: the caller's promise.
                $v(unsafe { _mm512_loadu_si512(ptr.cast()) })
            }
            #[inline(always)]
            unsafe fn store(self, ptr: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { _mm512_storeu_si512(ptr.cast(), self.0) }
            }
        }
    };
}

int!(
    I32x16,
    i32,
    M16,
    _mm512_slli_epi32,
    _mm512_srli_epi32,
    _mm512_cmpeq_epi32_mask,
    _mm512_cmpgt_epi32_mask,
    _mm512_mask_blend_epi32
);
int!(
    I64x8,
    i64,
    M8,
    _mm512_slli_epi64,
    _mm512_srli_epi64,
    _mm512_cmpeq_epi64_mask,
    _mm512_cmpgt_epi64_mask,
    _mm512_mask_blend_epi64
);

macro_rules! float {
    ($v:ident, $elem:ty, $bits:ident, $mask:ident, $lanes:literal, $set1:ident, $fmadd:ident, $fnmadd:ident, $min:ident, $max:ident,
     $sqrt:ident, $and:ident, $andnot:ident, $xor:ident, $round:ident, $cmp:ident, $blend:ident, $to_bits:ident,
     $from_bits:ident, $load:ident, $store:ident, $stream:ident, $sum:ident, $sign_mask:ident,
     $load_lanes:ident, $store_lanes:ident, $bits_of_mask:ty, $scale:ident) => {
        impl Neg for $v {
            type Output = $v;
            #[inline(always)]
            fn neg(self) -> $v {
                $v(avx512!($xor(self.0, $set1(-0.0))))
            }
        }

        impl Float for $v {
            type Elem = $elem;
            type Bits = $bits;
            type Mask = $mask;
            const LANES: usize = $lanes;
            const SCALES: bool = true;

            #[inline(always)]
            fn scale(self, n: Self) -> Self {
                $v(avx512!($scale(self.0, n.0)))
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                $v(avx512!($fmadd(self.0, b.0, c.0)))
            }
            #[inline(always)]
            fn neg_mul_add(self, b: Self, c: Self) -> Self {
                $v(avx512!($fnmadd(self.0, b.0, c.0)))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                $v(avx512!($min(self.0, other.0)))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $v(avx512!($max(self.0, other.0)))
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $v(avx512!($sqrt(self.0)))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $v(avx512!($andnot($set1(-0.0), self.0)))
            }
            #[inline(always)]
            fn sign_bit(self) -> Self {
                $v(avx512!($and(self.0, $set1(-0.0))))
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $v(avx512!($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $v(avx512!($round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $v(avx512!($round::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn round(self) -> Self {
                $v(avx512!($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn lt(self, other: Self) -> $mask {
                $mask(avx512!($cmp::<_CMP_LT_OQ>(self.0, other.0)))
            }
            #[inline(always)]
            fn le(self, other: Self) -> $mask {
                $mask(avx512!($cmp::<_CMP_LE_OQ>(self.0, other.0)))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> $mask {
                $mask(avx512!($cmp::<_CMP_EQ_OQ>(self.0, other.0)))
            }
            #[inline(always)]
            fn is_negative(self) -> $mask {
                $mask(avx512!($sign_mask($to_bits(self.0))))
            }
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                $v(avx512!($blend(mask.0, no.0, yes.0)))
            }
            #[inline(always)]
            fn to_bits(self) -> $bits {
                $bits(avx512!($to_bits(self.0)))
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                $v(avx512!($from_bits(bits.0)))
            }
            #[inline(always)]
            fn sum(self) -> $elem {
                avx512!($sum(self.0))
            }
            #[inline(always)]
            unsafe fn load(ptr: *const $elem) -> Self {
                // SAFETY: the caller's promise.
                $v(unsafe { $load(ptr) })
            }
            #[inline(always)]
            unsafe fn store(self, ptr: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { $store(ptr, self.0) }
            }
            #[inline(always)]
            unsafe fn stream(self, ptr: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { $stream(ptr, self.0) }
            }
            #[inline(always)]
            unsafe fn load_lanes(ptr: *const $elem, lanes: u32, fill: Self) -> Self {
                // SAFETY: the caller's promise; memory of other lanes is not touched.
                $v(unsafe { $load_lanes(fill.0, lanes as $bits_of_mask, ptr) })
            }
            #[inline(always)]
            unsafe fn store_partial(self, ptr: *mut $elem, n: usize) {
                // SAFETY: the caller's promise; memory of other lanes is not touched.
                unsafe { $store_lanes(ptr, ((1u32 << n.min($lanes)) - 1) as $bits_of_mask, self.0) }
            }
            #[inline(always)]
            fn to_array(self) -> [$elem; MAX_LANES] {
                let mut array = [0.0; MAX_LANES];
                // SAFETY: the array has at least as many elements as the vector.
                unsafe { self.store(array.as_mut_ptr()) };
                let first = array[0];
                array[$lanes..].fill(first);
                array
            }
        }
    };
}

float!(
    F32x16,
    f32,
    I32x16,
    M16,
    16,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_fnmadd_ps,
    _mm512_min_ps,
    _mm512_max_ps,
    _mm512_sqrt_ps,
    _mm512_and_ps,
    _mm512_andnot_ps,
    _mm512_xor_ps,
    _mm512_roundscale_ps,
    _mm512_cmp_ps_mask,
    _mm512_mask_blend_ps,
    _mm512_castps_si512,
    _mm512_castsi512_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_stream_ps,
    _mm512_reduce_add_ps,
    _mm512_movepi32_mask,
    _mm512_mask_loadu_ps,
    _mm512_mask_storeu_ps,
    u16,
    _mm512_scalef_ps
);
float!(
    F64x8,
    f64,
    I64x8,
    M8,
    8,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm512_fnmadd_pd,
    _mm512_min_pd,
    _mm512_max_pd,
    _mm512_sqrt_pd,
    _mm512_and_pd,
    _mm512_andnot_pd,
    _mm512_xor_pd,
    _mm512_roundscale_pd,
    _mm512_cmp_pd_mask,
    _mm512_mask_blend_pd,
    _mm512_castpd_si512,
    _mm512_castsi512_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_stream_pd,
    _mm512_reduce_add_pd,
    _mm512_movepi64_mask,
    _mm512_mask_loadu_pd,
    _mm512_mask_storeu_pd,
    u8,
    _mm512_scalef_pd
);

/// The upper halves of 32-bit lanes, rounded to nearest even, as sixteen bf16. NaN stays NaN.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn f32_to_bf16(x: __m512) -> __m256i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    let chosen = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x0040_0000));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(chosen))
}

impl Simd for Avx512 {
    type F32 = F32x16;
    type F64 = F64x8;
    type I32 = I32x16;
    type I64 = I64x8;
    type M32 = M16;
    type M64 = M8;
    const VECTORS: usize = 4;

    #[inline]
    unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output {
        // SAFETY: the caller's.
        unsafe { enter(kernel) }
    }

    #[inline(always)]
    fn f32(self, x: f32) -> F32x16 {
        F32x16(avx512!(_mm512_set1_ps(x)))
    }
    #[inline(always)]
    fn f64(self, x: f64) -> F64x8 {
        F64x8(avx512!(_mm512_set1_pd(x)))
    }
    #[inline(always)]
    fn i32(self, x: i32) -> I32x16 {
        I32x16(avx512!(_mm512_set1_epi32(x)))
    }
    #[inline(always)]
    fn i64(self, x: i64) -> I64x8 {
        I64x8(avx512!(_mm512_set1_epi64(x)))
    }
    #[inline(always)]
    fn f32_to_i32(self, x: F32x16) -> I32x16 {
        I32x16(avx512!(_mm512_cvtps_epi32(x.0)))
    }
    #[inline(always)]
    fn i32_to_f32(self, x: I32x16) -> F32x16 {
        F32x16(avx512!(_mm512_cvtepi32_ps(x.0)))
    }
    #[inline(always)]
    fn mul_low(self, a: I64x8, b: I64x8) -> I64x8 {
        I64x8(avx512!(_mm512_mul_epu32(a.0, b.0)))
    }
    #[inline(always)]
    fn shr_by(self, a: I64x8, by: u32) -> I64x8 {
        I64x8(avx512!(_mm512_srl_epi64(a.0, _mm_cvtsi64_si128(i64::from(by)))))
    }
    #[inline(always)]
    fn interleave(self, a: I64x8, b: I64x8) -> [I64x8; 2] {
        avx512!({
            let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
            let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
            [I64x8(_mm512_permutex2var_epi64(a.0, low, b.0)), I64x8(_mm512_permutex2var_epi64(a.0, high, b.0))]
        })
    }
    #[inline(always)]
    fn phases(self, a: F32x16, b: F32x16) -> [F32x16; 2] {
        avx512!({
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            [F32x16(_mm512_permutex2var_ps(a.0, even, b.0)), F32x16(_mm512_permutex2var_ps(a.0, odd, b.0))]
        })
    }
    #[inline(always)]
    fn next<const N: i32>(self, a: F32x16, b: F32x16) -> F32x16 {
        let (a, b) = avx512!((_mm512_castps_si512(a.0), _mm512_castps_si512(b.0)));
        F32x16(avx512!(_mm512_castsi512_ps(match N {
            1 => _mm512_alignr_epi32::<1>(b, a),
            2 => _mm512_alignr_epi32::<2>(b, a),
            _ => _mm512_alignr_epi32::<3>(b, a),
        })))
    }
    #[inline(always)]
    fn before<const N: i32>(self, a: F32x16, b: F32x16) -> F32x16 {
        let (a, b) = avx512!((_mm512_castps_si512(a.0), _mm512_castps_si512(b.0)));
        F32x16(avx512!(_mm512_castsi512_ps(match N {
            1 => _mm512_alignr_epi32::<15>(b, a),
            2 => _mm512_alignr_epi32::<14>(b, a),
            _ => _mm512_alignr_epi32::<13>(b, a),
        })))
    }
    #[inline(always)]
    unsafe fn load_four(self, ptr: *const f32) -> F32x16 {
        // SAFETY: the caller's promise.
        F32x16(unsafe { _mm512_broadcast_f32x4(_mm_loadu_ps(ptr)) })
    }
    #[inline(always)]
    unsafe fn load_f16(self, ptr: *const u16) -> F32x16 {
        // SAFETY: the caller's promise: sixteen readable elements.
        F32x16(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(ptr.cast())) })
    }
    #[inline(always)]
    unsafe fn store_f16(self, x: F32x16, ptr: *mut u16) {
        // SAFETY: the caller's promise: sixteen writable elements.
        unsafe { _mm256_storeu_si256(ptr.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.0)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, ptr: *const u16) -> F32x16 {
        // SAFETY: the caller's promise: sixteen readable elements.
        F32x16(unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(ptr.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        })
    }
    #[inline(always)]
    unsafe fn store_bf16(self, x: F32x16, ptr: *mut u16) {
        // SAFETY: the caller's promise: sixteen writable elements.
        unsafe { _mm256_storeu_si256(ptr.cast(), f32_to_bf16(x.0)) }
    }
    #[inline(always)]
    fn stream_fence(self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }
}
