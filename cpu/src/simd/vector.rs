//! The traits that every instruction set implements: a token, vectors of floats, vectors of integers, masks.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::WithSimd;

/// The most lanes that any vector here has; a stack buffer of this many elements holds any vector.
pub const MAX_LANES: usize = 16;

/// A lane-wise yes or no.
pub trait Mask: Copy + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// Bit i is lane i; the bits past the last lane are 0.
    fn bits(self) -> u32;
    /// Whether some lane is set.
    #[inline(always)]
    fn any(self) -> bool {
        self.bits() != 0
    }
}

/// A vector of `i32` or `i64`, seen as bits. Arithmetic wraps.
pub trait Int:
    Copy + Add<Output = Self> + Sub<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// The lane's type.
    type Elem: Copy;
    /// The result of a comparison.
    type Mask: Mask;

    /// Shifts left by `N`, 0 < N < width.
    fn shl<const N: u32>(self) -> Self;
    /// Shifts right by `N`, 0 < N < width, filling with zeros.
    fn shr<const N: u32>(self) -> Self;
    /// `self == other`.
    fn eq(self, other: Self) -> Self::Mask;
    /// `self > other`, signed.
    fn gt(self, other: Self) -> Self::Mask;
    /// `mask ? yes : no`.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// Reads a whole vector.
    ///
    /// # Safety
    /// The machine has the vector's instruction set; `ptr` is readable for all lanes. No alignment is needed.
    unsafe fn load(ptr: *const Self::Elem) -> Self;
    /// Writes a whole vector.
    ///
    /// # Safety
    /// `ptr` is writable for all lanes. No alignment is needed.
    unsafe fn store(self, ptr: *mut Self::Elem);
}

/// A vector of `f32` or `f64`.
pub trait Float:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
{
    /// The lane's type.
    type Elem: Copy + PartialOrd;
    /// The integers of the same width.
    type Bits: Int<Mask = Self::Mask>;
    /// The result of a comparison.
    type Mask: Mask;
    /// How many lanes there are, at most `MAX_LANES`.
    const LANES: usize;

    /// `self * b + c` rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `c - self * b` rounded once.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// `self * b + c`, rounded once where that costs nothing, else twice: for polynomials and exact products.
    #[inline(always)]
    fn madd(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
    /// `c - self * b`, rounded once where that costs nothing, else twice.
    #[inline(always)]
    fn neg_madd(self, b: Self, c: Self) -> Self {
        self.neg_mul_add(b, c)
    }
    /// `self < other ? self : other`: `other` where either is NaN (on AArch64: NaN where either is NaN).
    fn min(self, other: Self) -> Self;
    /// `self > other ? self : other`: `other` where either is NaN (on AArch64: NaN where either is NaN).
    fn max(self, other: Self) -> Self;
    /// Whether [`Float::scale`] is an instruction.
    const SCALES: bool = false;
    /// `self * 2^n` for whole `n` or NaN, rounded once, also where the result is subnormal or infinite; only where [`Float::SCALES`].
    #[inline(always)]
    fn scale(self, n: Self) -> Self {
        debug_assert!(Self::SCALES);
        let _ = n;
        self
    }
    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Clears the sign.
    fn abs(self) -> Self;
    /// The sign bit alone.
    fn sign_bit(self) -> Self;
    /// Rounds down.
    fn floor(self) -> Self;
    /// Rounds up.
    fn ceil(self) -> Self;
    /// Rounds towards zero.
    fn trunc(self) -> Self;
    /// Rounds to nearest, halves to even.
    fn round(self) -> Self;
    /// `self < other`, false for NaN.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`, false for NaN.
    fn le(self, other: Self) -> Self::Mask;
    /// `self == other`, false for NaN.
    fn eq(self, other: Self) -> Self::Mask;
    /// `mask ? yes : no`.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// The bits as integers.
    fn to_bits(self) -> Self::Bits;
    /// Integers as bits.
    fn from_bits(bits: Self::Bits) -> Self;

    /// Adds all lanes, as a balanced tree.
    fn sum(self) -> Self::Elem;

    /// Reads a whole vector.
    ///
    /// # Safety
    /// The machine has the vector's instruction set; `ptr` is readable for all lanes. No alignment is needed.
    unsafe fn load(ptr: *const Self::Elem) -> Self;
    /// Writes a whole vector.
    ///
    /// # Safety
    /// `ptr` is writable for all lanes. No alignment is needed.
    unsafe fn store(self, ptr: *mut Self::Elem);
    /// Writes a whole vector past the caches. A fence ([`Simd::stream_fence`]) must follow before another thread reads.
    ///
    /// # Safety
    /// `ptr` is writable for all lanes and aligned to the whole vector's size.
    unsafe fn stream(self, ptr: *mut Self::Elem);

    /// Reads the first `n` lanes; the others come from `fill`.
    ///
    /// # Safety
    /// `ptr` is readable for `n` lanes.
    #[inline(always)]
    unsafe fn load_partial(ptr: *const Self::Elem, n: usize, fill: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::load_lanes(ptr, (1 << n.min(Self::LANES)) - 1, fill) }
    }
    /// Reads the lanes whose bits are set, of which `ptr` is lane 0; the others come from `fill`.
    ///
    /// # Safety
    /// `ptr` is readable for those lanes.
    #[inline(always)]
    unsafe fn load_lanes(ptr: *const Self::Elem, lanes: u32, fill: Self) -> Self {
        let mut buffer = fill.to_array();
        // SAFETY: the caller promises readable elements; the buffer has one for each lane.
        unsafe {
            for i in 0..Self::LANES {
                if lanes & (1 << i) != 0 {
                    *buffer.get_unchecked_mut(i) = *ptr.wrapping_add(i);
                }
            }
            Self::load(buffer.as_ptr())
        }
    }
    /// Writes the first `n` lanes.
    ///
    /// # Safety
    /// `ptr` is writable for `n` lanes.
    #[inline(always)]
    unsafe fn store_partial(self, ptr: *mut Self::Elem, n: usize) {
        let buffer = self.to_array();
        let n = n.min(Self::LANES);
        // SAFETY: the caller promises `n` writable elements; the buffer has at least that many.
        unsafe {
            for i in 0..n {
                *ptr.add(i) = *buffer.get_unchecked(i);
            }
        }
    }
    /// The lanes in a stack buffer; what follows the last lane repeats the first.
    fn to_array(self) -> [Self::Elem; MAX_LANES];

    /// `f(self)` lane by lane where `mask` is set, else the lane of `usual`: the slow path of a vector function.
    ///
    /// `f` is `fn` and not a closure so that it stays out of line.
    #[cold]
    #[inline(never)]
    fn patch(self, mask: u32, usual: Self, f: fn(Self::Elem) -> Self::Elem) -> Self {
        let from = self.to_array();
        let mut to = usual.to_array();
        for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
            if mask & (1 << i) != 0 {
                *to = f(from);
            }
        }
        // SAFETY: `self` exists, so the machine has the instruction set; the buffer holds `MAX_LANES` elements.
        unsafe { Self::load(to.as_ptr()) }
    }

    /// `f(self, other)` lane by lane where `mask` is set, else the lane of `usual`.
    #[cold]
    #[inline(never)]
    fn patch2(self, other: Self, mask: u32, usual: Self, f: fn(Self::Elem, Self::Elem) -> Self::Elem) -> Self {
        let (a, b) = (self.to_array(), other.to_array());
        let mut to = usual.to_array();
        for (i, to) in to.iter_mut().enumerate() {
            if mask & (1 << i) != 0 {
                *to = f(a[i], b[i]);
            }
        }
        // SAFETY: `self` exists, so the machine has the instruction set; the buffer holds `MAX_LANES` elements.
        unsafe { Self::load(to.as_ptr()) }
    }

    /// Lanes whose sign bit is set.
    fn is_negative(self) -> Self::Mask;

    /// The larger, NaN where either is NaN.
    #[inline(always)]
    fn max_nan(self, other: Self) -> Self {
        // `max` gives `other` if either is NaN, so only a NaN in `self` is left to bring back.
        Self::select(self.eq(self), self.max(other), self)
    }
    /// The smaller, NaN where either is NaN.
    #[inline(always)]
    fn min_nan(self, other: Self) -> Self {
        Self::select(self.eq(self), self.min(other), self)
    }
}

/// The token of an instruction set: whoever holds one may use its vectors.
pub trait Simd: Copy + Send + Sync + 'static {
    /// Vectors of f32.
    type F32: Float<Elem = f32, Bits = Self::I32, Mask = Self::M32>;
    /// Vectors of f64.
    type F64: Float<Elem = f64, Bits = Self::I64, Mask = Self::M64>;
    /// Vectors of i32, as many lanes as `F32`.
    type I32: Int<Elem = i32, Mask = Self::M32>;
    /// Vectors of i64, as many lanes as `F64`.
    type I64: Int<Elem = i64, Mask = Self::M64>;
    /// Masks of 32-bit lanes.
    type M32: Mask;
    /// Masks of 64-bit lanes.
    type M64: Mask;
    /// Vectors of f32 in a row of accumulators: six such rows, and what is added to them, fit the registers.
    const VECTORS: usize;

    /// Runs `kernel` compiled for this instruction set.
    ///
    /// # Safety
    /// The machine has it.
    unsafe fn enter<K: WithSimd>(kernel: K) -> K::Output;

    /// `x` in every lane.
    fn f32(self, x: f32) -> Self::F32;
    /// `x` in every lane.
    fn f64(self, x: f64) -> Self::F64;
    /// `x` in every lane.
    fn i32(self, x: i32) -> Self::I32;
    /// `x` in every lane.
    fn i64(self, x: i64) -> Self::I64;
    /// Rounds to the nearest i32, halves to even. The input must be within i32.
    fn f32_to_i32(self, x: Self::F32) -> Self::I32;
    /// Converts, rounding to nearest.
    fn i32_to_f32(self, x: Self::I32) -> Self::F32;
    /// The products of the low halves of 64-bit lanes, taken as unsigned; what the high halves hold means nothing.
    fn mul_low(self, a: Self::I64, b: Self::I64) -> Self::I64;
    /// Shifts 64-bit lanes right by `by`, less than 64, filling with zeros.
    fn shr_by(self, a: Self::I64, by: u32) -> Self::I64;
    /// The lanes of both in turn: `a0 b0 a1 b1 ...`, as two vectors.
    fn interleave(self, a: Self::I64, b: Self::I64) -> [Self::I64; 2];
    /// Of the lanes of `a`, then of `b`, those of even indices, and those of odd ones.
    fn phases(self, a: Self::F32, b: Self::F32) -> [Self::F32; 2];
    /// The lanes of `a` from `N` on, then the first `N` of `b`; `N` is 1, 2 or 3.
    fn next<const N: i32>(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The last `N` lanes of `a`, then those of `b` but for its last `N`; `N` is 1, 2 or 3.
    fn before<const N: i32>(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// Four elements, again and again.
    ///
    /// # Safety
    /// `ptr` is readable for four elements.
    unsafe fn load_four(self, ptr: *const f32) -> Self::F32;

    /// Reads f16 as f32.
    ///
    /// # Safety
    /// `ptr` is readable for `F32::LANES` elements.
    unsafe fn load_f16(self, ptr: *const u16) -> Self::F32;
    /// Writes f32 as f16, rounded to nearest even.
    ///
    /// # Safety
    /// `ptr` is writable for `F32::LANES` elements.
    unsafe fn store_f16(self, x: Self::F32, ptr: *mut u16);
    /// Reads bf16 as f32.
    ///
    /// # Safety
    /// `ptr` is readable for `F32::LANES` elements.
    unsafe fn load_bf16(self, ptr: *const u16) -> Self::F32;
    /// Writes f32 as bf16, rounded to nearest even.
    ///
    /// # Safety
    /// `ptr` is writable for `F32::LANES` elements.
    unsafe fn store_bf16(self, x: Self::F32, ptr: *mut u16);

    /// Orders streaming stores before what follows.
    fn stream_fence(self);
}

/// f32 or f64: lets a kernel be written once for both.
pub trait Real: Copy + PartialOrd + Send + Sync + 'static {
    /// Its vector.
    type V<S: Simd>: Float<Elem = Self>;
    /// `x` in every lane.
    fn splat<S: Simd>(s: S, x: Self) -> Self::V<S>;
    /// Converts.
    fn from_f64(x: f64) -> Self;
}

impl Real for f32 {
    type V<S: Simd> = S::F32;
    #[inline(always)]
    fn splat<S: Simd>(s: S, x: f32) -> S::F32 {
        s.f32(x)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
}

impl Real for f64 {
    type V<S: Simd> = S::F64;
    #[inline(always)]
    fn splat<S: Simd>(s: S, x: f64) -> S::F64 {
        s.f64(x)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
}
