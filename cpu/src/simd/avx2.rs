//! AVX2 with FMA and F16C: 256-bit vectors.

use super::WithSimd;
use super::vector::{Float, Int, MAX_LANES, Mask, Simd};
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// Proof that the machine has AVX2, FMA, F16C, BMI1, BMI2, LZCNT and POPCNT.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// Makes the token.
    ///
    /// # Safety
    /// [`super::Isa::Avx2`] is available.
    #[inline(always)]
    pub unsafe fn new_unchecked() -> Avx2 {
        Avx2(())
    }

    /// What intrinsics made.
    #[inline(always)]
    pub fn vector(self, x: __m256) -> F32x8 {
        F32x8(x)
    }
}

/// Runs `kernel` compiled for AVX2.
///
/// # Safety
/// [`super::Isa::Avx2`] is available.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// Eight lanes of f32.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F32x8(__m256);
/// Four lanes of f64.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F64x4(__m256d);
/// Eight lanes of i32.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct I32x8(__m256i);
/// Four lanes of i64.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct I64x4(__m256i);
/// Eight lanes of all ones or all zeros.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct M32x8(__m256);
/// Four lanes of all ones or all zeros.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct M64x4(__m256d);

/// Evaluates intrinsics on values of this module's types.
macro_rules! avx2 {
    ($e:expr) => {
        // SAFETY: values of this module's types are made from a token, which exists only where AVX2, FMA and F16C do.
        unsafe { $e }
    };
}

macro_rules! binary {
    ($v:ident: $($trait:ident $method:ident $intrinsic:ident),+) => {$(
        impl $trait for $v {
            type Output = $v;
            #[inline(always)]
            fn $method(self, other: $v) -> $v {
                $v(avx2!($intrinsic(self.0, other.0)))
            }
        }
    )+};
}

binary!(F32x8: Add add _mm256_add_ps, Sub sub _mm256_sub_ps, Mul mul _mm256_mul_ps, Div div _mm256_div_ps,
    BitAnd bitand _mm256_and_ps, BitOr bitor _mm256_or_ps, BitXor bitxor _mm256_xor_ps);
binary!(F64x4: Add add _mm256_add_pd, Sub sub _mm256_sub_pd, Mul mul _mm256_mul_pd, Div div _mm256_div_pd,
    BitAnd bitand _mm256_and_pd, BitOr bitor _mm256_or_pd, BitXor bitxor _mm256_xor_pd);
binary!(I32x8: Add add _mm256_add_epi32, Sub sub _mm256_sub_epi32, BitAnd bitand _mm256_and_si256,
    BitOr bitor _mm256_or_si256, BitXor bitxor _mm256_xor_si256);
binary!(I64x4: Add add _mm256_add_epi64, Sub sub _mm256_sub_epi64, BitAnd bitand _mm256_and_si256,
    BitOr bitor _mm256_or_si256, BitXor bitxor _mm256_xor_si256);
binary!(M32x8: BitAnd bitand _mm256_and_ps, BitOr bitor _mm256_or_ps);
binary!(M64x4: BitAnd bitand _mm256_and_pd, BitOr bitor _mm256_or_pd);

impl Not for M32x8 {
    type Output = M32x8;
    #[inline(always)]
    fn not(self) -> M32x8 {
        M32x8(avx2!(_mm256_xor_ps(self.0, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))))
    }
}

impl Not for M64x4 {
    type Output = M64x4;
    #[inline(always)]
    fn not(self) -> M64x4 {
        M64x4(avx2!(_mm256_xor_pd(self.0, _mm256_castsi256_pd(_mm256_set1_epi32(-1)))))
    }
}

impl Mask for M32x8 {
    #[inline(always)]
    fn bits(self) -> u32 {
        avx2!(_mm256_movemask_ps(self.0)) as u32
    }
}

impl Mask for M64x4 {
    #[inline(always)]
    fn bits(self) -> u32 {
        avx2!(_mm256_movemask_pd(self.0)) as u32
    }
}

macro_rules! int {
    ($v:ident, $elem:ty, $mask:ident, $sll:ident, $srl:ident, $eq:ident, $gt:ident, $to_mask:ident, $from_mask:ident) => {
        impl Int for $v {
            type Elem = $elem;
            type Mask = $mask;
            #[inline(always)]
            fn shl<const N: u32>(self) -> Self {
                // The count is a constant, so this becomes the immediate form.
                $v(avx2!($sll(self.0, _mm_cvtsi32_si128(N as i32))))
            }
            #[inline(always)]
            fn shr<const N: u32>(self) -> Self {
                $v(avx2!($srl(self.0, _mm_cvtsi32_si128(N as i32))))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> $mask {
                $mask(avx2!($to_mask($eq(self.0, other.0))))
            }
            #[inline(always)]
            fn gt(self, other: Self) -> $mask {
                $mask(avx2!($to_mask($gt(self.0, other.0))))
            }
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                $v(avx2!(_mm256_blendv_epi8(no.0, yes.0, $from_mask(mask.0))))
            }
            #[inline(always)]
            unsafe fn load(ptr: *const $elem) -> Self {
                // SAFETY: the caller's promise.
                $v(unsafe { _mm256_loadu_si256(ptr.cast()) })
            }
            #[inline(always)]
            unsafe fn store(self, ptr: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { _mm256_storeu_si256(ptr.cast(), self.0) }
            }
        }
    };
}

int!(
    I32x8,
    i32,
    M32x8,
    _mm256_sll_epi32,
    _mm256_srl_epi32,
    _mm256_cmpeq_epi32,
    _mm256_cmpgt_epi32,
    _mm256_castsi256_ps,
    _mm256_castps_si256
);
int!(
    I64x4,
    i64,
    M64x4,
    _mm256_sll_epi64,
    _mm256_srl_epi64,
    _mm256_cmpeq_epi64,
    _mm256_cmpgt_epi64,
    _mm256_castsi256_pd,
    _mm256_castpd_si256
);

macro_rules! float {
    ($v:ident, $elem:ty, $bits:ident, $mask:ident, $lanes:literal, $set1:ident, $fmadd:ident, $fnmadd:ident, $min:ident, $max:ident,
     $sqrt:ident, $and:ident, $andnot:ident, $xor:ident, $round:ident, $cmp:ident, $blendv:ident, $to_bits:ident,
     $from_bits:ident, $load:ident, $store:ident, $stream:ident, $sum:ident, $negative:ident,
     $load_lanes:ident, $spread:ident) => {
        impl Neg for $v {
            type Output = $v;
            #[inline(always)]
            fn neg(self) -> $v {
                $v(avx2!($xor(self.0, $set1(-0.0))))
            }
        }

        impl Float for $v {
            type Elem = $elem;
            type Bits = $bits;
            type Mask = $mask;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                $v(avx2!($fmadd(self.0, b.0, c.0)))
            }
            #[inline(always)]
            fn neg_mul_add(self, b: Self, c: Self) -> Self {
                $v(avx2!($fnmadd(self.0, b.0, c.0)))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                $v(avx2!($min(self.0, other.0)))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $v(avx2!($max(self.0, other.0)))
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $v(avx2!($sqrt(self.0)))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $v(avx2!($andnot($set1(-0.0), self.0)))
            }
            #[inline(always)]
            fn sign_bit(self) -> Self {
                $v(avx2!($and(self.0, $set1(-0.0))))
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $v(avx2!($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $v(avx2!($round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $v(avx2!($round::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn round(self) -> Self {
                $v(avx2!($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)))
            }
            #[inline(always)]
            fn lt(self, other: Self) -> $mask {
                $mask(avx2!($cmp::<_CMP_LT_OQ>(self.0, other.0)))
            }
            #[inline(always)]
            fn le(self, other: Self) -> $mask {
                $mask(avx2!($cmp::<_CMP_LE_OQ>(self.0, other.0)))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> $mask {
                $mask(avx2!($cmp::<_CMP_EQ_OQ>(self.0, other.0)))
            }
            #[inline(always)]
            fn is_negative(self) -> $mask {
                // Blends and `movemask` look at the sign bit only, but `not` and `and` of a mask are lane-wide.
                $mask(avx2!($from_bits($negative(self.to_bits().0))))
            }
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                $v(avx2!($blendv(no.0, yes.0, mask.0)))
            }
            #[inline(always)]
            fn to_bits(self) -> $bits {
                $bits(avx2!($to_bits(self.0)))
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                $v(avx2!($from_bits(bits.0)))
            }
            #[inline(always)]
            fn sum(self) -> $elem {
                avx2!($sum(self.0))
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
                // SAFETY: of `ptr`, only the caller's lanes are touched.
                unsafe {
                    let mask = $spread(lanes);
                    $v($blendv(fill.0, $load_lanes(ptr, mask), $from_bits(mask)))
                }
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
    F32x8,
    f32,
    I32x8,
    M32x8,
    8,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_fnmadd_ps,
    _mm256_min_ps,
    _mm256_max_ps,
    _mm256_sqrt_ps,
    _mm256_and_ps,
    _mm256_andnot_ps,
    _mm256_xor_ps,
    _mm256_round_ps,
    _mm256_cmp_ps,
    _mm256_blendv_ps,
    _mm256_castps_si256,
    _mm256_castsi256_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_stream_ps,
    sum_f32,
    negative_epi32,
    _mm256_maskload_ps,
    spread_epi32
);
float!(
    F64x4,
    f64,
    I64x4,
    M64x4,
    4,
    _mm256_set1_pd,
    _mm256_fmadd_pd,
    _mm256_fnmadd_pd,
    _mm256_min_pd,
    _mm256_max_pd,
    _mm256_sqrt_pd,
    _mm256_and_pd,
    _mm256_andnot_pd,
    _mm256_xor_pd,
    _mm256_round_pd,
    _mm256_cmp_pd,
    _mm256_blendv_pd,
    _mm256_castpd_si256,
    _mm256_castsi256_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_stream_pd,
    sum_f64,
    negative_epi64,
    _mm256_maskload_pd,
    spread_epi64
);

/// Lanes of ones where the lane's bit is set.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn spread_epi32(lanes: u32) -> __m256i {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(lanes as i32), bits), bits)
}

/// The same for lanes of 64 bits.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn spread_epi64(lanes: u32) -> __m256i {
    let bits = _mm256_setr_epi64x(1, 2, 4, 8);
    _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(i64::from(lanes)), bits), bits)
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn sum_f32(x: __m256) -> f32 {
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn sum_f64(x: __m256d) -> f64 {
    let x = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
    _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn negative_epi32(x: __m256i) -> __m256i {
    _mm256_srai_epi32::<31>(x)
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn negative_epi64(x: __m256i) -> __m256i {
    _mm256_cmpgt_epi64(_mm256_setzero_si256(), x)
}

/// The upper halves of 32-bit lanes, rounded to nearest even, as eight bf16. NaN stays NaN.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn f32_to_bf16(x: __m256) -> __m128i {
    let bits = _mm256_castps_si256(x);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
    let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
    let high = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
    let packed = _mm256_packus_epi32(high, high);
    _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(packed))
}

impl Simd for Avx2 {
    type F32 = F32x8;
    type F64 = F64x4;
    type I32 = I32x8;
    type I64 = I64x4;
    type M32 = M32x8;
    type M64 = M64x4;
    const VECTORS: usize = 2;

    #[inline]
    unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output {
        // SAFETY: the caller's.
        unsafe { enter(kernel) }
    }

    #[inline(always)]
    fn f32(self, x: f32) -> F32x8 {
        F32x8(avx2!(_mm256_set1_ps(x)))
    }
    #[inline(always)]
    fn f64(self, x: f64) -> F64x4 {
        F64x4(avx2!(_mm256_set1_pd(x)))
    }
    #[inline(always)]
    fn i32(self, x: i32) -> I32x8 {
        I32x8(avx2!(_mm256_set1_epi32(x)))
    }
    #[inline(always)]
    fn i64(self, x: i64) -> I64x4 {
        I64x4(avx2!(_mm256_set1_epi64x(x)))
    }
    #[inline(always)]
    fn f32_to_i32(self, x: F32x8) -> I32x8 {
        I32x8(avx2!(_mm256_cvtps_epi32(x.0)))
    }
    #[inline(always)]
    fn i32_to_f32(self, x: I32x8) -> F32x8 {
        F32x8(avx2!(_mm256_cvtepi32_ps(x.0)))
    }
    #[inline(always)]
    fn mul_low(self, a: I64x4, b: I64x4) -> I64x4 {
        I64x4(avx2!(_mm256_mul_epu32(a.0, b.0)))
    }
    #[inline(always)]
    fn shr_by(self, a: I64x4, by: u32) -> I64x4 {
        I64x4(avx2!(_mm256_srl_epi64(a.0, _mm_cvtsi64_si128(i64::from(by)))))
    }
    #[inline(always)]
    fn interleave(self, a: I64x4, b: I64x4) -> [I64x4; 2] {
        avx2!({
            let (even, odd) = (_mm256_unpacklo_epi64(a.0, b.0), _mm256_unpackhi_epi64(a.0, b.0));
            let (low, high) =
                (_mm256_permute2x128_si256::<0x20>(even, odd), _mm256_permute2x128_si256::<0x31>(even, odd));
            [I64x4(low), I64x4(high)]
        })
    }
    #[inline(always)]
    fn phases(self, a: F32x8, b: F32x8) -> [F32x8; 2] {
        avx2!({
            // Halves of `a` and `b` lie in turn.
            let sort = |x| _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(x)));
            [
                F32x8(sort(_mm256_shuffle_ps::<0b10_00_10_00>(a.0, b.0))),
                F32x8(sort(_mm256_shuffle_ps::<0b11_01_11_01>(a.0, b.0))),
            ]
        })
    }
    #[inline(always)]
    fn next<const N: i32>(self, a: F32x8, b: F32x8) -> F32x8 {
        avx2!({
            // The halves in the middle of both; then each half is taken with the one after it.
            let (a, b) = (_mm256_castps_si256(a.0), _mm256_castps_si256(b.0));
            let middle = _mm256_permute2x128_si256::<0x21>(a, b);
            F32x8(_mm256_castsi256_ps(match N {
                1 => _mm256_alignr_epi8::<4>(middle, a),
                2 => _mm256_alignr_epi8::<8>(middle, a),
                _ => _mm256_alignr_epi8::<12>(middle, a),
            }))
        })
    }
    #[inline(always)]
    fn before<const N: i32>(self, a: F32x8, b: F32x8) -> F32x8 {
        avx2!({
            let (a, b) = (_mm256_castps_si256(a.0), _mm256_castps_si256(b.0));
            let middle = _mm256_permute2x128_si256::<0x21>(a, b);
            F32x8(_mm256_castsi256_ps(match N {
                1 => _mm256_alignr_epi8::<12>(b, middle),
                2 => _mm256_alignr_epi8::<8>(b, middle),
                _ => _mm256_alignr_epi8::<4>(b, middle),
            }))
        })
    }
    #[inline(always)]
    unsafe fn load_four(self, ptr: *const f32) -> F32x8 {
        // SAFETY: the caller's promise.
        F32x8(unsafe {
            let four = _mm256_castps128_ps256(_mm_loadu_ps(ptr));
            _mm256_permute2f128_ps::<0>(four, four)
        })
    }
    #[inline(always)]
    unsafe fn load_f16(self, ptr: *const u16) -> F32x8 {
        // SAFETY: the caller's promise: eight readable elements.
        F32x8(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(ptr.cast())) })
    }
    #[inline(always)]
    unsafe fn store_f16(self, x: F32x8, ptr: *mut u16) {
        // SAFETY: the caller's promise: eight writable elements.
        unsafe { _mm_storeu_si128(ptr.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.0)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, ptr: *const u16) -> F32x8 {
        // SAFETY: the caller's promise: eight readable elements.
        F32x8(unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(ptr.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        })
    }
    #[inline(always)]
    unsafe fn store_bf16(self, x: F32x8, ptr: *mut u16) {
        // SAFETY: the caller's promise: eight writable elements.
        unsafe { _mm_storeu_si128(ptr.cast(), f32_to_bf16(x.0)) }
    }
    #[inline(always)]
    fn stream_fence(self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }
}
