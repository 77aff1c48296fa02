//! Small arrays that the compiler turns into the target's base vectors (SSE2 on x86-64, simd128 on wasm where enabled).

use super::WithSimd;
use super::vector::{Float, Int, MAX_LANES, Mask, Simd};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// The token of the portable vectors; every machine has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portable;

impl Portable {
    /// Makes the token.
    #[inline(always)]
    pub fn new() -> Portable {
        Portable
    }
}

/// `N` lanes of `T`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Lanes<T, const N: usize>([T; N]);

/// `N` lanes of all ones or all zeros.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Yes<T, const N: usize>([T; N]);

type F32x4 = Lanes<f32, 4>;
type F64x2 = Lanes<f64, 2>;
type I32x4 = Lanes<i32, 4>;
type I64x2 = Lanes<i64, 2>;

/// `[f(0), f(1), ...]`, unrolled by the compiler. Not `array::from_fn`, whose inner functions are not always inlined.
#[inline(always)]
fn each<T: Copy, const N: usize>(f: impl Fn(usize) -> T) -> [T; N] {
    let mut all = [f(0); N];
    let mut i = 1;
    while i < N {
        all[i] = f(i);
        i += 1;
    }
    all
}

macro_rules! binary {
    ($v:ty: $($trait:ident $method:ident |$a:ident, $b:ident| $e:expr),+) => {$(
        impl $trait for $v {
            type Output = $v;
            #[inline(always)]
            fn $method(self, other: $v) -> $v {
                Lanes(each(|i| {
                    let ($a, $b) = (self.0[i], other.0[i]);
                    $e
                }))
            }
        }
    )+};
}

binary!(F32x4: Add add |a, b| a + b, Sub sub |a, b| a - b, Mul mul |a, b| a * b, Div div |a, b| a / b,
    BitAnd bitand |a, b| f32::from_bits(a.to_bits() & b.to_bits()),
    BitOr bitor |a, b| f32::from_bits(a.to_bits() | b.to_bits()),
    BitXor bitxor |a, b| f32::from_bits(a.to_bits() ^ b.to_bits()));
binary!(F64x2: Add add |a, b| a + b, Sub sub |a, b| a - b, Mul mul |a, b| a * b, Div div |a, b| a / b,
    BitAnd bitand |a, b| f64::from_bits(a.to_bits() & b.to_bits()),
    BitOr bitor |a, b| f64::from_bits(a.to_bits() | b.to_bits()),
    BitXor bitxor |a, b| f64::from_bits(a.to_bits() ^ b.to_bits()));
binary!(I32x4: Add add |a, b| a.wrapping_add(b), Sub sub |a, b| a.wrapping_sub(b),
    BitAnd bitand |a, b| a & b, BitOr bitor |a, b| a | b, BitXor bitxor |a, b| a ^ b);
binary!(I64x2: Add add |a, b| a.wrapping_add(b), Sub sub |a, b| a.wrapping_sub(b),
    BitAnd bitand |a, b| a & b, BitOr bitor |a, b| a | b, BitXor bitxor |a, b| a ^ b);

macro_rules! mask {
    ($t:ty, $n:literal) => {
        impl BitAnd for Yes<$t, $n> {
            type Output = Self;
            #[inline(always)]
            fn bitand(self, other: Self) -> Self {
                Yes(each(|i| self.0[i] & other.0[i]))
            }
        }

        impl BitOr for Yes<$t, $n> {
            type Output = Self;
            #[inline(always)]
            fn bitor(self, other: Self) -> Self {
                Yes(each(|i| self.0[i] | other.0[i]))
            }
        }

        impl Not for Yes<$t, $n> {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Yes(each(|i| !self.0[i]))
            }
        }

        impl Mask for Yes<$t, $n> {
            #[inline(always)]
            fn bits(self) -> u32 {
                let bits: [u32; $n] = each(|i| ((self.0[i] & 1) as u32) << i);
                bits.iter().sum()
            }
        }
    };
}

mask!(i32, 4);
mask!(i64, 2);

macro_rules! int {
    ($elem:ty, $unsigned:ty, $n:literal) => {
        impl Int for Lanes<$elem, $n> {
            type Elem = $elem;
            type Mask = Yes<$elem, $n>;
            #[inline(always)]
            fn shl<const N: u32>(self) -> Self {
                Lanes(each(|i| self.0[i] << N))
            }
            #[inline(always)]
            fn shr<const N: u32>(self) -> Self {
                Lanes(each(|i| ((self.0[i] as $unsigned) >> N) as $elem))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> Yes<$elem, $n> {
                Yes(each(|i| -((self.0[i] == other.0[i]) as $elem)))
            }
            #[inline(always)]
            fn gt(self, other: Self) -> Yes<$elem, $n> {
                Yes(each(|i| -((self.0[i] > other.0[i]) as $elem)))
            }
            #[inline(always)]
            fn select(mask: Yes<$elem, $n>, yes: Self, no: Self) -> Self {
                Lanes(each(|i| (yes.0[i] & mask.0[i]) | (no.0[i] & !mask.0[i])))
            }
            #[inline(always)]
            unsafe fn load(ptr: *const $elem) -> Self {
                // SAFETY: the caller's promise.
                Lanes(unsafe { ptr.cast::<[$elem; $n]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, ptr: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { ptr.cast::<[$elem; $n]>().write_unaligned(self.0) }
            }
        }
    };
}

int!(i32, u32, 4);
int!(i64, u64, 2);

/// A fused multiply-add of f32 without the instruction: the product is exact in f64, and the sum is rounded to odd, so
/// that rounding it again to f32 gives what rounding once does.
#[inline(always)]
fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let s = p + c;
    let t = s - p;
    let lost = (p - (s - t)) + (c - t);
    // Away from zero if what was lost has the sign of the sum, else towards it; a NaN is neither.
    let inexact = lost.abs() > 0.0;
    let up = (lost > 0.0) == (s > 0.0);
    let bits = s.to_bits();
    let odd = if up { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact && bits & 1 == 0 { odd } else { bits }) as f32
}

#[inline(always)]
fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

macro_rules! float {
    ($elem:ty, $int:ty, $n:literal, $fma:ident) => {
        impl Neg for Lanes<$elem, $n> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Lanes(each(|i| -self.0[i]))
            }
        }

        impl Float for Lanes<$elem, $n> {
            type Elem = $elem;
            type Bits = Lanes<$int, $n>;
            type Mask = Yes<$int, $n>;
            const LANES: usize = $n;

            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                Lanes(each(|i| $fma(self.0[i], b.0[i], c.0[i])))
            }
            #[inline(always)]
            fn neg_mul_add(self, b: Self, c: Self) -> Self {
                Lanes(each(|i| $fma(-self.0[i], b.0[i], c.0[i])))
            }
            #[inline(always)]
            fn madd(self, b: Self, c: Self) -> Self {
                Lanes(each(|i| self.0[i] * b.0[i] + c.0[i]))
            }
            #[inline(always)]
            fn neg_madd(self, b: Self, c: Self) -> Self {
                Lanes(each(|i| c.0[i] - self.0[i] * b.0[i]))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Lanes(each(|i| if self.0[i] < other.0[i] { self.0[i] } else { other.0[i] }))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Lanes(each(|i| if self.0[i] > other.0[i] { self.0[i] } else { other.0[i] }))
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                Lanes(each(|i| self.0[i].sqrt()))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                Lanes(each(|i| self.0[i].abs()))
            }
            #[inline(always)]
            fn sign_bit(self) -> Self {
                Lanes(each(|i| (0.0 as $elem).copysign(self.0[i])))
            }
            #[inline(always)]
            fn floor(self) -> Self {
                Lanes(each(|i| self.0[i].floor()))
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                Lanes(each(|i| self.0[i].ceil()))
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                Lanes(each(|i| self.0[i].trunc()))
            }
            #[inline(always)]
            fn round(self) -> Self {
                Lanes(each(|i| self.0[i].round_ties_even()))
            }
            #[inline(always)]
            fn lt(self, other: Self) -> Yes<$int, $n> {
                Yes(each(|i| -((self.0[i] < other.0[i]) as $int)))
            }
            #[inline(always)]
            fn le(self, other: Self) -> Yes<$int, $n> {
                Yes(each(|i| -((self.0[i] <= other.0[i]) as $int)))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> Yes<$int, $n> {
                Yes(each(|i| -((self.0[i] == other.0[i]) as $int)))
            }
            #[inline(always)]
            fn is_negative(self) -> Yes<$int, $n> {
                Yes(each(|i| -(self.0[i].is_sign_negative() as $int)))
            }
            #[inline(always)]
            fn select(mask: Yes<$int, $n>, yes: Self, no: Self) -> Self {
                let (yes, no) = (yes.to_bits(), no.to_bits());
                Self::from_bits(Lanes(each(|i| (yes.0[i] & mask.0[i]) | (no.0[i] & !mask.0[i]))))
            }
            #[inline(always)]
            fn to_bits(self) -> Self::Bits {
                Lanes(each(|i| self.0[i].to_bits() as $int))
            }
            #[inline(always)]
            fn from_bits(bits: Self::Bits) -> Self {
                Lanes(each(|i| <$elem>::from_bits(bits.0[i] as _)))
            }
            #[inline(always)]
            fn sum(self) -> $elem {
                let half = $n / 2;
                let low: $elem = self.0[..half].iter().sum();
                let high: $elem = self.0[half..].iter().sum();
                low + high
            }
            #[inline(always)]
            unsafe fn load(ptr: *const $elem) -> Self {
                // SAFETY: the caller's promise.
                Lanes(unsafe { ptr.cast::<[$elem; $n]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, ptr: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { ptr.cast::<[$elem; $n]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn stream(self, ptr: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { self.store(ptr) }
            }
            #[inline(always)]
            fn to_array(self) -> [$elem; MAX_LANES] {
                each(|i| self.0[if i < $n { i } else { 0 }])
            }
        }
    };
}

float!(f32, i32, 4, fma_f32);
float!(f64, i64, 2, fma_f64);

impl Simd for Portable {
    type F32 = F32x4;
    type F64 = F64x2;
    type I32 = I32x4;
    type I64 = I64x2;
    type M32 = Yes<i32, 4>;
    type M64 = Yes<i64, 2>;
    const VECTORS: usize = 1;

    #[inline]
    unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output {
        kernel.run(Portable::new())
    }

    #[inline(always)]
    fn f32(self, x: f32) -> F32x4 {
        Lanes([x; 4])
    }
    #[inline(always)]
    fn f64(self, x: f64) -> F64x2 {
        Lanes([x; 2])
    }
    #[inline(always)]
    fn i32(self, x: i32) -> I32x4 {
        Lanes([x; 4])
    }
    #[inline(always)]
    fn i64(self, x: i64) -> I64x2 {
        Lanes([x; 2])
    }
    #[inline(always)]
    fn f32_to_i32(self, x: F32x4) -> I32x4 {
        Lanes(each(|i| x.0[i].round_ties_even() as i32))
    }
    #[inline(always)]
    fn i32_to_f32(self, x: I32x4) -> F32x4 {
        Lanes(each(|i| x.0[i] as f32))
    }
    #[inline(always)]
    fn mul_low(self, a: I64x2, b: I64x2) -> I64x2 {
        let low = |x: i64| u64::from(x as u32);
        Lanes(each(|i| low(a.0[i]).wrapping_mul(low(b.0[i])) as i64))
    }
    #[inline(always)]
    fn shr_by(self, a: I64x2, by: u32) -> I64x2 {
        Lanes(each(|i| (a.0[i] as u64).wrapping_shr(by) as i64))
    }
    #[inline(always)]
    fn interleave(self, a: I64x2, b: I64x2) -> [I64x2; 2] {
        [Lanes([a.0[0], b.0[0]]), Lanes([a.0[1], b.0[1]])]
    }
    #[inline(always)]
    fn phases(self, a: F32x4, b: F32x4) -> [F32x4; 2] {
        [Lanes([a.0[0], a.0[2], b.0[0], b.0[2]]), Lanes([a.0[1], a.0[3], b.0[1], b.0[3]])]
    }
    #[inline(always)]
    fn next<const N: i32>(self, a: F32x4, b: F32x4) -> F32x4 {
        let n = N as usize;
        Lanes(each(|i| if i + n < 4 { a.0[i + n] } else { b.0[i + n - 4] }))
    }
    #[inline(always)]
    fn before<const N: i32>(self, a: F32x4, b: F32x4) -> F32x4 {
        let n = N as usize;
        Lanes(each(|i| if i < n { a.0[i + 4 - n] } else { b.0[i - n] }))
    }
    #[inline(always)]
    unsafe fn load_four(self, ptr: *const f32) -> F32x4 {
        // SAFETY: the caller's promise.
        unsafe { F32x4::load(ptr) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, ptr: *const u16) -> F32x4 {
        // SAFETY: the caller's promise: four readable elements.
        let bits = unsafe { ptr.cast::<[u16; 4]>().read_unaligned() };
        Lanes(each(|i| half::f16::from_bits(bits[i]).to_f32()))
    }
    #[inline(always)]
    unsafe fn store_f16(self, x: F32x4, ptr: *mut u16) {
        // SAFETY: the caller's promise: four writable elements.
        unsafe { ptr.cast::<[u16; 4]>().write_unaligned(each(|i| half::f16::from_f32(x.0[i]).to_bits())) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, ptr: *const u16) -> F32x4 {
        // SAFETY: the caller's promise: four readable elements.
        let bits = unsafe { ptr.cast::<[u16; 4]>().read_unaligned() };
        Lanes(each(|i| half::bf16::from_bits(bits[i]).to_f32()))
    }
    #[inline(always)]
    unsafe fn store_bf16(self, x: F32x4, ptr: *mut u16) {
        // SAFETY: the caller's promise: four writable elements.
        unsafe { ptr.cast::<[u16; 4]>().write_unaligned(each(|i| half::bf16::from_f32(x.0[i]).to_bits())) }
    }
    #[inline(always)]
    fn stream_fence(self) {}
}
