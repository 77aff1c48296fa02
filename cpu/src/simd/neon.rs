//! Advanced SIMD of AArch64: 128-bit vectors. Every AArch64 machine has it, so it is part of the base features.

use super::WithSimd;
use super::vector::{Float, Int, MAX_LANES, Mask, Simd};
use std::arch::aarch64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// Proof that the machine has Advanced SIMD.
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

impl Neon {
    /// Makes the token.
    ///
    /// # Safety
    /// [`super::Isa::Neon`] is available.
    #[inline(always)]
    pub unsafe fn new_unchecked() -> Neon {
        Neon(())
    }

    /// What intrinsics made.
    #[inline(always)]
    pub fn vector(self, x: float32x4_t) -> F32x4 {
        F32x4(x)
    }
}

/// Runs `kernel` compiled for Advanced SIMD.
///
/// # Safety
/// [`super::Isa::Neon`] is available.
#[target_feature(enable = "neon")]
pub unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output {
    kernel.run(Neon(()))
}

/// Four lanes of f32.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F32x4(float32x4_t);
/// Two lanes of f64.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F64x2(float64x2_t);
/// Four lanes of i32.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct I32x4(int32x4_t);
/// Two lanes of i64.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct I64x2(int64x2_t);
/// Four lanes of all ones or all zeros.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct M32x4(uint32x4_t);
/// Two lanes of all ones or all zeros.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct M64x2(uint64x2_t);

/// Evaluates intrinsics on values of this module's types.
macro_rules! neon {
    ($e:expr) => {
        // SAFETY: AArch64 has Advanced SIMD.
        unsafe { $e }
    };
}

macro_rules! binary {
    ($v:ident: $($trait:ident $method:ident $intrinsic:ident),+) => {$(
        impl $trait for $v {
            type Output = $v;
            #[inline(always)]
            fn $method(self, other: $v) -> $v {
                $v(neon!($intrinsic(self.0, other.0)))
            }
        }
    )+};
}

binary!(F32x4: Add add vaddq_f32, Sub sub vsubq_f32, Mul mul vmulq_f32, Div div vdivq_f32);
binary!(F64x2: Add add vaddq_f64, Sub sub vsubq_f64, Mul mul vmulq_f64, Div div vdivq_f64);
binary!(I32x4: Add add vaddq_s32, Sub sub vsubq_s32, BitAnd bitand vandq_s32, BitOr bitor vorrq_s32, BitXor bitxor veorq_s32);
binary!(I64x2: Add add vaddq_s64, Sub sub vsubq_s64, BitAnd bitand vandq_s64, BitOr bitor vorrq_s64, BitXor bitxor veorq_s64);
binary!(M32x4: BitAnd bitand vandq_u32, BitOr bitor vorrq_u32);
binary!(M64x2: BitAnd bitand vandq_u64, BitOr bitor vorrq_u64);

/// Bitwise operations of floats, through integers.
macro_rules! bitwise {
    ($v:ident: $($trait:ident $method:ident),+) => {$(
        impl $trait for $v {
            type Output = $v;
            #[inline(always)]
            fn $method(self, other: $v) -> $v {
                $v::from_bits(self.to_bits().$method(other.to_bits()))
            }
        }
    )+};
}

bitwise!(F32x4: BitAnd bitand, BitOr bitor, BitXor bitxor);
bitwise!(F64x2: BitAnd bitand, BitOr bitor, BitXor bitxor);

impl Not for M32x4 {
    type Output = M32x4;
    #[inline(always)]
    fn not(self) -> M32x4 {
        M32x4(neon!(vmvnq_u32(self.0)))
    }
}

impl Not for M64x2 {
    type Output = M64x2;
    #[inline(always)]
    fn not(self) -> M64x2 {
        M64x2(neon!(veorq_u64(self.0, vdupq_n_u64(u64::MAX))))
    }
}

impl Mask for M32x4 {
    #[inline(always)]
    fn bits(self) -> u32 {
        const BITS: [u32; 4] = [1, 2, 4, 8];
        neon!(vaddvq_u32(vandq_u32(self.0, vld1q_u32(BITS.as_ptr()))))
    }
    #[inline(always)]
    fn any(self) -> bool {
        neon!(vmaxvq_u32(self.0)) != 0
    }
}

impl Mask for M64x2 {
    #[inline(always)]
    fn bits(self) -> u32 {
        neon!((vgetq_lane_u64::<0>(self.0) & 1 | vgetq_lane_u64::<1>(self.0) & 2) as u32)
    }
}

macro_rules! int {
    ($v:ident, $elem:ty, $mask:ident, $shl:ident, $shl_unsigned:ident, $dup:ident, $unsigned:ident, $signed:ident,
     $eq:ident, $gt:ident, $select:ident, $load:ident, $store:ident) => {
        impl Int for $v {
            type Elem = $elem;
            type Mask = $mask;
            #[inline(always)]
            fn shl<const N: u32>(self) -> Self {
                // The amount is a constant, so this becomes the immediate form.
                $v(neon!($shl(self.0, $dup(N as $elem))))
            }
            #[inline(always)]
            fn shr<const N: u32>(self) -> Self {
                // A negative amount shifts right.
                $v(neon!($signed($shl_unsigned($unsigned(self.0), $dup(-(N as $elem))))))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> $mask {
                $mask(neon!($eq(self.0, other.0)))
            }
            #[inline(always)]
            fn gt(self, other: Self) -> $mask {
                $mask(neon!($gt(self.0, other.0)))
            }
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                $v(neon!($select(mask.0, yes.0, no.0)))
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
        }
    };
}

int!(
    I32x4,
    i32,
    M32x4,
    vshlq_s32,
    vshlq_u32,
    vdupq_n_s32,
    vreinterpretq_u32_s32,
    vreinterpretq_s32_u32,
    vceqq_s32,
    vcgtq_s32,
    vbslq_s32,
    vld1q_s32,
    vst1q_s32
);
int!(
    I64x2,
    i64,
    M64x2,
    vshlq_s64,
    vshlq_u64,
    vdupq_n_s64,
    vreinterpretq_u64_s64,
    vreinterpretq_s64_u64,
    vceqq_s64,
    vcgtq_s64,
    vbslq_s64,
    vld1q_s64,
    vst1q_s64
);

macro_rules! float {
    ($v:ident, $elem:ty, $bits:ident, $mask:ident, $lanes:literal, $dup:ident, $fma:ident, $fms:ident, $min:ident, $max:ident,
     $sqrt:ident, $abs:ident, $neg:ident, $floor:ident, $ceil:ident, $trunc:ident, $round:ident, $lt:ident, $le:ident,
     $eq:ident, $select:ident, $to_bits:ident, $from_bits:ident, $negative:ident, $load:ident, $store:ident, $sum:ident) => {
        impl Neg for $v {
            type Output = $v;
            #[inline(always)]
            fn neg(self) -> $v {
                $v(neon!($neg(self.0)))
            }
        }

        impl Float for $v {
            type Elem = $elem;
            type Bits = $bits;
            type Mask = $mask;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                $v(neon!($fma(c.0, self.0, b.0)))
            }
            #[inline(always)]
            fn neg_mul_add(self, b: Self, c: Self) -> Self {
                $v(neon!($fms(c.0, self.0, b.0)))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                $v(neon!($min(self.0, other.0)))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $v(neon!($max(self.0, other.0)))
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $v(neon!($sqrt(self.0)))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $v(neon!($abs(self.0)))
            }
            #[inline(always)]
            fn sign_bit(self) -> Self {
                self & $v(neon!($dup(-0.0)))
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $v(neon!($floor(self.0)))
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $v(neon!($ceil(self.0)))
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $v(neon!($trunc(self.0)))
            }
            #[inline(always)]
            fn round(self) -> Self {
                $v(neon!($round(self.0)))
            }
            #[inline(always)]
            fn lt(self, other: Self) -> $mask {
                $mask(neon!($lt(self.0, other.0)))
            }
            #[inline(always)]
            fn le(self, other: Self) -> $mask {
                $mask(neon!($le(self.0, other.0)))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> $mask {
                $mask(neon!($eq(self.0, other.0)))
            }
            #[inline(always)]
            fn is_negative(self) -> $mask {
                $mask(neon!($negative($to_bits(self.0))))
            }
            #[inline(always)]
            fn select(mask: $mask, yes: Self, no: Self) -> Self {
                $v(neon!($select(mask.0, yes.0, no.0)))
            }
            #[inline(always)]
            fn to_bits(self) -> $bits {
                $bits(neon!($to_bits(self.0)))
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                $v(neon!($from_bits(bits.0)))
            }
            #[inline(always)]
            fn sum(self) -> $elem {
                neon!($sum(self.0))
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
                // There is no intrinsic for a store past the caches.
                // SAFETY: the caller's promise.
                unsafe { $store(ptr, self.0) }
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
    F32x4,
    f32,
    I32x4,
    M32x4,
    4,
    vdupq_n_f32,
    vfmaq_f32,
    vfmsq_f32,
    vminq_f32,
    vmaxq_f32,
    vsqrtq_f32,
    vabsq_f32,
    vnegq_f32,
    vrndmq_f32,
    vrndpq_f32,
    vrndq_f32,
    vrndnq_f32,
    vcltq_f32,
    vcleq_f32,
    vceqq_f32,
    vbslq_f32,
    vreinterpretq_s32_f32,
    vreinterpretq_f32_s32,
    vcltzq_s32,
    vld1q_f32,
    vst1q_f32,
    vaddvq_f32
);
float!(
    F64x2,
    f64,
    I64x2,
    M64x2,
    2,
    vdupq_n_f64,
    vfmaq_f64,
    vfmsq_f64,
    vminq_f64,
    vmaxq_f64,
    vsqrtq_f64,
    vabsq_f64,
    vnegq_f64,
    vrndmq_f64,
    vrndpq_f64,
    vrndq_f64,
    vrndnq_f64,
    vcltq_f64,
    vcleq_f64,
    vceqq_f64,
    vbslq_f64,
    vreinterpretq_s64_f64,
    vreinterpretq_f64_s64,
    vcltzq_s64,
    vld1q_f64,
    vst1q_f64,
    vaddvq_f64
);

impl Simd for Neon {
    type F32 = F32x4;
    type F64 = F64x2;
    type I32 = I32x4;
    type I64 = I64x2;
    type M32 = M32x4;
    type M64 = M64x2;
    const VECTORS: usize = 4;

    #[inline]
    unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output {
        // SAFETY: the caller's.
        unsafe { enter(kernel) }
    }

    #[inline(always)]
    fn f32(self, x: f32) -> F32x4 {
        F32x4(neon!(vdupq_n_f32(x)))
    }
    #[inline(always)]
    fn f64(self, x: f64) -> F64x2 {
        F64x2(neon!(vdupq_n_f64(x)))
    }
    #[inline(always)]
    fn i32(self, x: i32) -> I32x4 {
        I32x4(neon!(vdupq_n_s32(x)))
    }
    #[inline(always)]
    fn i64(self, x: i64) -> I64x2 {
        I64x2(neon!(vdupq_n_s64(x)))
    }
    #[inline(always)]
    fn f32_to_i32(self, x: F32x4) -> I32x4 {
        I32x4(neon!(vcvtnq_s32_f32(x.0)))
    }
    #[inline(always)]
    fn i32_to_f32(self, x: I32x4) -> F32x4 {
        F32x4(neon!(vcvtq_f32_s32(x.0)))
    }
    #[inline(always)]
    fn mul_low(self, a: I64x2, b: I64x2) -> I64x2 {
        I64x2(neon!({
            let low = vmull_u32(vmovn_u64(vreinterpretq_u64_s64(a.0)), vmovn_u64(vreinterpretq_u64_s64(b.0)));
            vreinterpretq_s64_u64(low)
        }))
    }
    #[inline(always)]
    fn shr_by(self, a: I64x2, by: u32) -> I64x2 {
        // A shift left by a negative number is one to the right.
        I64x2(neon!(vreinterpretq_s64_u64(vshlq_u64(vreinterpretq_u64_s64(a.0), vdupq_n_s64(-i64::from(by))))))
    }
    #[inline(always)]
    fn interleave(self, a: I64x2, b: I64x2) -> [I64x2; 2] {
        neon!([I64x2(vzip1q_s64(a.0, b.0)), I64x2(vzip2q_s64(a.0, b.0))])
    }
    #[inline(always)]
    fn phases(self, a: F32x4, b: F32x4) -> [F32x4; 2] {
        neon!([F32x4(vuzp1q_f32(a.0, b.0)), F32x4(vuzp2q_f32(a.0, b.0))])
    }
    #[inline(always)]
    fn next<const N: i32>(self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(neon!(match N {
            1 => vextq_f32::<1>(a.0, b.0),
            2 => vextq_f32::<2>(a.0, b.0),
            _ => vextq_f32::<3>(a.0, b.0),
        }))
    }
    #[inline(always)]
    fn before<const N: i32>(self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(neon!(match N {
            1 => vextq_f32::<3>(a.0, b.0),
            2 => vextq_f32::<2>(a.0, b.0),
            _ => vextq_f32::<1>(a.0, b.0),
        }))
    }
    #[inline(always)]
    unsafe fn load_four(self, ptr: *const f32) -> F32x4 {
        // SAFETY: the caller's promise.
        F32x4(unsafe { vld1q_f32(ptr) })
    }
    #[inline(always)]
    unsafe fn load_f16(self, ptr: *const u16) -> F32x4 {
        // SAFETY: the caller's promise: four readable elements.
        F32x4(unsafe { vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(ptr))) })
    }
    #[inline(always)]
    unsafe fn store_f16(self, x: F32x4, ptr: *mut u16) {
        // SAFETY: the caller's promise: four writable elements.
        unsafe { vst1_u16(ptr, vreinterpret_u16_f16(vcvt_f16_f32(x.0))) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, ptr: *const u16) -> F32x4 {
        // SAFETY: the caller's promise: four readable elements.
        F32x4(unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(ptr))) })
    }
    #[inline(always)]
    unsafe fn store_bf16(self, x: F32x4, ptr: *mut u16) {
        // SAFETY: the caller's promise: four writable elements.
        unsafe {
            let bits = vreinterpretq_u32_f32(x.0);
            let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
            let rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
            let quiet = vorrq_u32(bits, vdupq_n_u32(0x0040_0000));
            let chosen = vbslq_u32(vceqq_f32(x.0, x.0), rounded, quiet);
            vst1_u16(ptr, vshrn_n_u32::<16>(chosen));
        }
    }
    #[inline(always)]
    fn stream_fence(self) {}
}
