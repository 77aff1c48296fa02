//! Casts between all element types.

use super::each::{Each, Fn1};
use super::entry::{Block, resolve, resolve_scalar};
use super::kinds::without_sign;
use super::{BlockFn, DType};
use crate::simd::{Float, Isa, Simd};
use num_complex::Complex;
use std::marker::PhantomData;

/// A byte that is 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bool(u8);

/// A value of one type as another.
trait To<R> {
    fn to(self) -> R;
}

struct Cast<A, R>(PhantomData<(A, R)>);

impl<A: Copy + To<R>, R: Copy> Fn1 for Cast<A, R> {
    type A = A;
    type R = R;
    #[inline(always)]
    fn f(a: A) -> R {
        a.to()
    }
}

macro_rules! by_as {
    ($($a:ty => $($r:ty),+;)+) => {$($(
        impl To<$r> for $a {
            #[inline(always)]
            fn to(self) -> $r {
                self as $r
            }
        }
    )+)+};
}

// Float to i64, u32 and u64 has no vector instruction here; `as` saturates and makes NaN 0.
by_as! {
    i8 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i16 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i32 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i64 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u8 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u16 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u32 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u64 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    f32 => i64, u32, u64, f32, f64;
    f64 => i64, u32, u64, f32, f64;
}

macro_rules! saturating {
    ($a:ty => $($r:ty),+) => {$(
        impl To<$r> for $a {
            #[inline(always)]
            fn to(self) -> $r {
                // Limited as a float first, so that the conversion is the vector one.
                let x = if self.is_nan() { 0.0 } else { self };
                let x = if x < <$r>::MIN as $a { <$r>::MIN as $a } else { x };
                let x = if x > <$r>::MAX as $a { <$r>::MAX as $a } else { x };
                // SAFETY: x lies within the type, which lies within i32.
                unsafe { x.to_int_unchecked::<i32>() as $r }
            }
        }
    )+};
}

saturating!(f32 => i8, i16, u8, u16);
saturating!(f64 => i8, i16, i32, u8, u16);

impl To<i32> for f32 {
    #[inline(always)]
    fn to(self) -> i32 {
        // The largest f32 below 2^31.
        const TOP: f32 = 2_147_483_520.0;
        let x = if self.is_nan() { 0.0 } else { self };
        let x = if x < -2_147_483_648.0 { -2_147_483_648.0 } else { x };
        let limited = if x > TOP { TOP } else { x };
        // SAFETY: `limited` lies within i32.
        let i = unsafe { limited.to_int_unchecked::<i32>() };
        if x > TOP { i32::MAX } else { i }
    }
}

macro_rules! bools {
    ($($t:ty),+) => {$(
        impl To<Bool> for $t {
            #[inline(always)]
            fn to(self) -> Bool {
                Bool(u8::from(self != 0 as $t))
            }
        }
    )+};
}

bools!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

impl To<Bool> for Bool {
    #[inline(always)]
    fn to(self) -> Bool {
        self
    }
}

/// A value as f32, from which rounding to f16 or bf16 gives what rounding the value itself gives.
trait Narrow {
    fn narrow(self) -> f32;
}

macro_rules! exact {
    ($($t:ty),+) => {$(
        impl Narrow for $t {
            #[inline(always)]
            fn narrow(self) -> f32 {
                self.to()
            }
        }
    )+};
}

exact!(i8, i16, u8, u16, f32);

impl Narrow for f64 {
    /// Rounds to odd: an inexact f32 has its last bit set, so it can be neither a half way case nor cross one.
    #[inline(always)]
    fn narrow(self) -> f32 {
        let y = self as f32;
        let wide = f64::from(y);
        let down = u32::from(wide.abs() > self.abs());
        let odd = u32::from(wide != self);
        let rounded = f32::from_bits((y.to_bits() - down) | odd);
        if self.is_nan() { y } else { rounded }
    }
}

macro_rules! narrow_int {
    ($($t:ty),+) => {$(
        impl Narrow for $t {
            #[inline(always)]
            fn narrow(self) -> f32 {
                (self as f64).narrow()
            }
        }
    )+};
}

narrow_int!(i32, u32);

macro_rules! narrow_wide_int {
    ($($t:ty),+) => {$(
        impl Narrow for $t {
            #[inline(always)]
            fn narrow(self) -> f32 {
                // Of large values the low bits count only as being there or not.
                let low = self & 0xffff;
                let sticky = (self & !0xffff) | if low != 0 { 0x8000 } else { 0 };
                let small = self >> 48 == 0 || self >> 48 == !0;
                (if small { self as f64 } else { sticky as f64 }).narrow()
            }
        }
    )+};
}

narrow_wide_int!(i64, u64);

/// f16 or bf16.
trait Half {
    /// # Safety
    /// `F32::LANES` elements can be read.
    unsafe fn load<S: Simd>(s: S, p: *const u16) -> S::F32;
    /// # Safety
    /// `F32::LANES` elements can be written.
    unsafe fn store<S: Simd>(s: S, x: S::F32, p: *mut u16);
}

struct F16;
struct Bf16;

impl Half for F16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u16) -> S::F32 {
        // SAFETY: the caller's promise.
        unsafe { s.load_f16(p) }
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(s: S, x: S::F32, p: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe { s.store_f16(x, p) }
    }
}

impl Half for Bf16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u16) -> S::F32 {
        // SAFETY: the caller's promise.
        unsafe { s.load_bf16(p) }
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(s: S, x: S::F32, p: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe { s.store_bf16(x, p) }
    }
}

/// Elements that pass through f32 at a time; a multiple of every vector's lanes.
const CHUNK: usize = 64;

/// A half type to `R`.
struct FromHalf<H, R>(PhantomData<(H, R)>);

impl<H: Half, R: Copy> Block for FromHalf<H, R>
where
    f32: To<R>,
{
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let (dst, a) = (dst.cast::<R>(), a.cast::<u16>());
        let lanes = S::F32::LANES;
        let mut wide = [0f32; CHUNK];
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each pointer; `i + m` stays within them, `j + lanes` within a chunk.
        unsafe {
            while i < n {
                let m = CHUNK.min(n - i);
                let mut j = 0;
                while j + lanes <= m {
                    H::load(s, a.add(i + j)).store(wide.as_mut_ptr().add(j));
                    j += lanes;
                }
                if j < m {
                    let mut rest = [0u16; CHUNK];
                    std::ptr::copy_nonoverlapping(a.add(i + j), rest.as_mut_ptr(), m - j);
                    H::load(s, rest.as_ptr()).store(wide.as_mut_ptr().add(j));
                }
                for (j, x) in wide[..m].iter().enumerate() {
                    dst.add(i + j).write_unaligned((*x).to());
                }
                i += m;
            }
        }
    }
}

/// `A` to a half type.
struct ToHalf<A, H>(PhantomData<(A, H)>);

impl<A: Copy + Narrow, H: Half> Block for ToHalf<A, H> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let (dst, a) = (dst.cast::<u16>(), a.cast::<A>());
        let lanes = S::F32::LANES;
        let mut wide = [0f32; CHUNK];
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each pointer; `i + m` stays within them, `j + lanes` within a chunk.
        unsafe {
            while i < n {
                let m = CHUNK.min(n - i);
                for (j, x) in wide[..m].iter_mut().enumerate() {
                    *x = a.add(i + j).read_unaligned().narrow();
                }
                let mut j = 0;
                while j + lanes <= m {
                    H::store(s, S::F32::load(wide.as_ptr().add(j)), dst.add(i + j));
                    j += lanes;
                }
                if j < m {
                    let mut rest = [0u16; CHUNK];
                    H::store(s, S::F32::load(wide.as_ptr().add(j)), rest.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(rest.as_ptr(), dst.add(i + j), m - j);
                }
                i += m;
            }
        }
    }
}

/// f16 to bf16 or back.
struct HalfToHalf<H, G>(PhantomData<(H, G)>);

impl<H: Half, G: Half> Block for HalfToHalf<H, G> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let (dst, a) = (dst.cast::<u16>(), a.cast::<u16>());
        let lanes = S::F32::LANES;
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each pointer; `i + lanes` stays within them or within a chunk.
        unsafe {
            while i + lanes <= n {
                G::store(s, H::load(s, a.add(i)), dst.add(i));
                i += lanes;
            }
            if i < n {
                let mut rest = [0u16; CHUNK];
                std::ptr::copy_nonoverlapping(a.add(i), rest.as_mut_ptr(), n - i);
                G::store(s, H::load(s, rest.as_ptr()), rest.as_mut_ptr());
                std::ptr::copy_nonoverlapping(rest.as_ptr(), dst.add(i), n - i);
            }
        }
    }
}

/// Complex to and from everything, through f64 parts, in which every other type's value or its rounding is right.
struct ComplexTo<A, R>(PhantomData<(A, R)>);

impl<A: Copy + To<f64>, R: Copy> Fn1 for ComplexTo<Complex<A>, R>
where
    f64: To<R>,
{
    type A = Complex<A>;
    type R = R;
    #[inline(always)]
    fn f(a: Complex<A>) -> R {
        let re: f64 = a.re.to();
        re.to()
    }
}

/// To a complex type with imaginary part 0.
struct ToComplex<A, R>(PhantomData<(A, R)>);

impl<A: Copy + To<R>, R: Copy + From<u8>> Fn1 for ToComplex<A, R> {
    type A = A;
    type R = Complex<R>;
    #[inline(always)]
    fn f(a: A) -> Complex<R> {
        Complex::new(a.to(), R::from(0))
    }
}

/// Between complex types.
struct ComplexToComplex<A, R>(PhantomData<(A, R)>);

impl<A: Copy + To<R>, R: Copy> Fn1 for ComplexToComplex<A, R> {
    type A = Complex<A>;
    type R = Complex<R>;
    #[inline(always)]
    fn f(a: Complex<A>) -> Complex<R> {
        Complex::new(a.re.to(), a.im.to())
    }
}

/// Whether a complex number is not 0.
struct ComplexToBool<A>(PhantomData<A>);

impl<A: Copy + To<f64>> Fn1 for ComplexToBool<A> {
    type A = Complex<A>;
    type R = Bool;
    #[inline(always)]
    fn f(a: Complex<A>) -> Bool {
        let (re, im): (f64, f64) = (a.re.to(), a.im.to());
        Bool(u8::from(re != 0.0 || im != 0.0))
    }
}

/// The real part, kept in its type, or rounded to a half type.
struct ComplexToHalf<A, H>(PhantomData<(A, H)>);

impl<A: Copy + Narrow, H: Half> Block for ComplexToHalf<A, H> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let (dst, a) = (dst.cast::<u16>(), a.cast::<Complex<A>>());
        // SAFETY: the caller promises `n` elements at each pointer; a vector is at most a chunk.
        unsafe {
            for i in 0..n {
                let mut rest = [0u16; CHUNK];
                H::store(s, s.f32(a.add(i).read_unaligned().re.narrow()), rest.as_mut_ptr());
                dst.add(i).write_unaligned(rest[0]);
            }
        }
    }
}

/// A half type as a complex number.
struct HalfToComplex<H, R>(PhantomData<(H, R)>);

impl<H: Half, R: Copy + From<u8>> Block for HalfToComplex<H, R>
where
    f32: To<R>,
{
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let (dst, a) = (dst.cast::<Complex<R>>(), a.cast::<u16>());
        // SAFETY: the caller promises `n` elements at each pointer; a vector is at most a chunk.
        unsafe {
            for i in 0..n {
                let x = H::load(s, [a.add(i).read_unaligned(); CHUNK].as_ptr()).to_array()[0];
                dst.add(i).write_unaligned(Complex::new(x.to(), R::from(0)));
            }
        }
    }
}

/// To integers and bools: their bits do not depend on the sign of the result's type.
fn to_bits<A>(isa: Isa, to: DType) -> Option<BlockFn>
where
    A: Copy + To<u8> + To<u16> + To<u32> + To<u64>,
{
    Some(match without_sign(to) {
        DType::U8 => resolve_scalar::<Each<Cast<A, u8>>>(isa),
        DType::U16 => resolve_scalar::<Each<Cast<A, u16>>>(isa),
        DType::U32 => resolve_scalar::<Each<Cast<A, u32>>>(isa),
        DType::U64 => resolve_scalar::<Each<Cast<A, u64>>>(isa),
        _ => return None,
    })
}

/// From an integer or bool to another integer: wrapping, so that a narrower result does not depend on the operand's sign.
fn int_to_int(isa: Isa, from: DType, to: DType) -> Option<BlockFn> {
    let from = if to.size() <= from.size() { without_sign(from) } else { from };
    match from {
        DType::Bool | DType::U8 => to_bits::<u8>(isa, to),
        DType::U16 => to_bits::<u16>(isa, to),
        DType::U32 => to_bits::<u32>(isa, to),
        DType::U64 => to_bits::<u64>(isa, to),
        DType::I8 => to_bits::<i8>(isa, to),
        DType::I16 => to_bits::<i16>(isa, to),
        DType::I32 => to_bits::<i32>(isa, to),
        DType::I64 => to_bits::<i64>(isa, to),
        _ => None,
    }
}

/// To bool.
fn to_bool(isa: Isa, from: DType) -> Option<BlockFn> {
    Some(match without_sign(from) {
        DType::Bool => resolve_scalar::<Each<Cast<Bool, Bool>>>(isa),
        DType::U8 => resolve_scalar::<Each<Cast<u8, Bool>>>(isa),
        DType::U16 => resolve_scalar::<Each<Cast<u16, Bool>>>(isa),
        DType::U32 => resolve_scalar::<Each<Cast<u32, Bool>>>(isa),
        DType::U64 => resolve_scalar::<Each<Cast<u64, Bool>>>(isa),
        DType::F16 => resolve::<FromHalf<F16, Bool>>(isa),
        DType::BF16 => resolve::<FromHalf<Bf16, Bool>>(isa),
        DType::F32 => resolve_scalar::<Each<Cast<f32, Bool>>>(isa),
        DType::F64 => resolve_scalar::<Each<Cast<f64, Bool>>>(isa),
        DType::C64 => resolve_scalar::<Each<ComplexToBool<f32>>>(isa),
        DType::C128 => resolve_scalar::<Each<ComplexToBool<f64>>>(isa),
        _ => return None,
    })
}

/// From a float to an integer.
fn float_to_int<A>(isa: Isa, to: DType) -> Option<BlockFn>
where
    A: Copy + To<i8> + To<i16> + To<i32> + To<i64> + To<u8> + To<u16> + To<u32> + To<u64>,
{
    Some(match to {
        DType::I8 => resolve_scalar::<Each<Cast<A, i8>>>(isa),
        DType::I16 => resolve_scalar::<Each<Cast<A, i16>>>(isa),
        DType::I32 => resolve_scalar::<Each<Cast<A, i32>>>(isa),
        DType::I64 => resolve_scalar::<Each<Cast<A, i64>>>(isa),
        _ => return to_bits::<A>(isa, to),
    })
}

/// To floats and complex numbers.
fn to_float<A>(isa: Isa, to: DType) -> Option<BlockFn>
where
    A: Copy + Narrow + To<f32> + To<f64>,
{
    Some(match to {
        DType::F32 => resolve_scalar::<Each<Cast<A, f32>>>(isa),
        DType::F64 => resolve_scalar::<Each<Cast<A, f64>>>(isa),
        DType::F16 => resolve::<ToHalf<A, F16>>(isa),
        DType::BF16 => resolve::<ToHalf<A, Bf16>>(isa),
        DType::C64 => resolve_scalar::<Each<ToComplex<A, f32>>>(isa),
        DType::C128 => resolve_scalar::<Each<ToComplex<A, f64>>>(isa),
        _ => return None,
    })
}

fn from_half<H: Half>(isa: Isa, to: DType) -> Option<BlockFn> {
    Some(match to {
        DType::Bool => return None,
        DType::I8 => resolve::<FromHalf<H, i8>>(isa),
        DType::I16 => resolve::<FromHalf<H, i16>>(isa),
        DType::I32 => resolve::<FromHalf<H, i32>>(isa),
        DType::I64 => resolve::<FromHalf<H, i64>>(isa),
        DType::U8 => resolve::<FromHalf<H, u8>>(isa),
        DType::U16 => resolve::<FromHalf<H, u16>>(isa),
        DType::U32 => resolve::<FromHalf<H, u32>>(isa),
        DType::U64 => resolve::<FromHalf<H, u64>>(isa),
        DType::F32 => resolve::<FromHalf<H, f32>>(isa),
        DType::F64 => resolve::<FromHalf<H, f64>>(isa),
        DType::F16 => resolve::<HalfToHalf<H, F16>>(isa),
        DType::BF16 => resolve::<HalfToHalf<H, Bf16>>(isa),
        DType::C64 => resolve::<HalfToComplex<H, f32>>(isa),
        DType::C128 => resolve::<HalfToComplex<H, f64>>(isa),
    })
}

fn from_complex<A>(isa: Isa, to: DType) -> Option<BlockFn>
where
    A: Copy + Narrow + To<f32> + To<f64>,
{
    Some(match to {
        DType::Bool => return None,
        DType::I8 => resolve_scalar::<Each<ComplexTo<Complex<A>, i8>>>(isa),
        DType::I16 => resolve_scalar::<Each<ComplexTo<Complex<A>, i16>>>(isa),
        DType::I32 => resolve_scalar::<Each<ComplexTo<Complex<A>, i32>>>(isa),
        DType::I64 => resolve_scalar::<Each<ComplexTo<Complex<A>, i64>>>(isa),
        DType::U8 => resolve_scalar::<Each<ComplexTo<Complex<A>, u8>>>(isa),
        DType::U16 => resolve_scalar::<Each<ComplexTo<Complex<A>, u16>>>(isa),
        DType::U32 => resolve_scalar::<Each<ComplexTo<Complex<A>, u32>>>(isa),
        DType::U64 => resolve_scalar::<Each<ComplexTo<Complex<A>, u64>>>(isa),
        DType::F32 => resolve_scalar::<Each<ComplexTo<Complex<A>, f32>>>(isa),
        DType::F64 => resolve_scalar::<Each<ComplexTo<Complex<A>, f64>>>(isa),
        DType::F16 => resolve::<ComplexToHalf<A, F16>>(isa),
        DType::BF16 => resolve::<ComplexToHalf<A, Bf16>>(isa),
        DType::C64 => resolve_scalar::<Each<ComplexToComplex<A, f32>>>(isa),
        DType::C128 => resolve_scalar::<Each<ComplexToComplex<A, f64>>>(isa),
    })
}

/// See [`super::cast`].
pub fn cast(isa: Isa, from: DType, to: DType) -> Option<BlockFn> {
    if to == DType::Bool {
        return to_bool(isa, from);
    }
    match from {
        DType::F16 => from_half::<F16>(isa, to),
        DType::BF16 => from_half::<Bf16>(isa, to),
        DType::C64 => from_complex::<f32>(isa, to),
        DType::C128 => from_complex::<f64>(isa, to),
        DType::F32 if to.is_integer() => float_to_int::<f32>(isa, to),
        DType::F64 if to.is_integer() => float_to_int::<f64>(isa, to),
        _ if to.is_integer() => int_to_int(isa, from, to),
        DType::Bool | DType::U8 => to_float::<u8>(isa, to),
        DType::U16 => to_float::<u16>(isa, to),
        DType::U32 => to_float::<u32>(isa, to),
        DType::U64 => to_float::<u64>(isa, to),
        DType::I8 => to_float::<i8>(isa, to),
        DType::I16 => to_float::<i16>(isa, to),
        DType::I32 => to_float::<i32>(isa, to),
        DType::I64 => to_float::<i64>(isa, to),
        DType::F32 => to_float::<f32>(isa, to),
        DType::F64 => to_float::<f64>(isa, to),
    }
}
