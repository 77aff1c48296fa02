//! Loops over scalar functions that the compiler vectorises: integers, comparisons, selections, casts, complex numbers.
//!
//! A chunk is read whole, computed, and written whole, so that the compiler sees independent values even in place;
//! chunks are small enough to stay in registers.

use super::entry::{Block, Operand};
use crate::simd::Simd;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements of a chunk.
pub const CHUNK: usize = 32;

/// A function of one value.
pub trait Fn1 {
    /// The operand.
    type A: Copy;
    /// The result.
    type R: Copy;
    /// Computes it; must be `#[inline(always)]`.
    fn f(a: Self::A) -> Self::R;
}

/// A function of two values.
pub trait Fn2 {
    /// The first operand.
    type A: Copy;
    /// The second operand.
    type B: Copy;
    /// The result.
    type R: Copy;
    /// Computes it; must be `#[inline(always)]`.
    fn f(a: Self::A, b: Self::B) -> Self::R;
}

/// `dst = F(a)`.
pub struct Each<F>(PhantomData<F>);
/// `dst = F(a, b)`.
pub struct Zip<F, A, B>(PhantomData<(F, A, B)>);
/// `dst = a ? b : c` for elements that are moved as `T`.
pub struct Choose<T, B, C>(PhantomData<(T, B, C)>);
/// `dst = a * b + c` with two roundings: for types without a fused one.
pub struct MulAdd<T, B, C>(PhantomData<(T, B, C)>);

/// The chunk at `i` of a block, or the single value in every lane.
#[inline(always)]
unsafe fn chunk<T: Copy, F: Operand>(p: *const T, i: usize) -> [T; CHUNK] {
    // SAFETY: the caller promises `i + CHUNK` elements at a block, one at a single value.
    unsafe { if F::BLOCK { p.add(i).cast::<[T; CHUNK]>().read_unaligned() } else { [p.read_unaligned(); CHUNK] } }
}

/// The element at `i` of a block, or the single value.
#[inline(always)]
unsafe fn at<T: Copy, F: Operand>(p: *const T, i: usize) -> T {
    // SAFETY: the caller promises `i + 1` elements at a block, one at a single value.
    unsafe { p.add(if F::BLOCK { i } else { 0 }).read_unaligned() }
}

/// Writes `f(0), f(1), ...` to a chunk.
///
/// # Safety
/// `dst` is writable for a chunk.
#[inline(always)]
pub unsafe fn write<R: Copy>(dst: *mut R, f: impl Fn(usize) -> R) {
    let mut r = [const { MaybeUninit::<R>::uninit() }; CHUNK];
    for (j, r) in r.iter_mut().enumerate() {
        r.write(f(j));
    }
    // SAFETY: the caller promises CHUNK writable elements.
    unsafe { dst.cast::<[MaybeUninit<R>; CHUNK]>().write_unaligned(r) }
}

impl<F: Fn1> Block for Each<F> {
    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let (dst, a) = (dst.cast::<F::R>(), a.cast::<F::A>());
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each pointer; `i` stays within them.
        unsafe {
            while i + CHUNK <= n {
                let x = a.add(i).cast::<[F::A; CHUNK]>().read_unaligned();
                write(dst.add(i), |j| F::f(x[j]));
                i += CHUNK;
            }
            while i < n {
                dst.add(i).write_unaligned(F::f(a.add(i).read_unaligned()));
                i += 1;
            }
        }
    }
}

impl<F: Fn2, A: Operand, B: Operand> Block for Zip<F, A, B> {
    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        let (dst, a, b) = (dst.cast::<F::R>(), a.cast::<F::A>(), b.cast::<F::B>());
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each block and one at each single value; `i` stays within them.
        unsafe {
            while i + CHUNK <= n {
                let (x, y) = (chunk::<F::A, A>(a, i), chunk::<F::B, B>(b, i));
                write(dst.add(i), |j| F::f(x[j], y[j]));
                i += CHUNK;
            }
            while i < n {
                dst.add(i).write_unaligned(F::f(at::<F::A, A>(a, i), at::<F::B, B>(b, i)));
                i += 1;
            }
        }
    }
}

impl<T: Copy, B: Operand, C: Operand> Block for Choose<T, B, C> {
    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        let (dst, b, c) = (dst.cast::<T>(), b.cast::<T>(), c.cast::<T>());
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each block and one at each single value; `i` stays within them.
        unsafe {
            while i + CHUNK <= n {
                let q = a.add(i).cast::<[u8; CHUNK]>().read_unaligned();
                let (x, y) = (chunk::<T, B>(b, i), chunk::<T, C>(c, i));
                write(dst.add(i), |j| if q[j] != 0 { x[j] } else { y[j] });
                i += CHUNK;
            }
            while i < n {
                let (x, y) = (at::<T, B>(b, i), at::<T, C>(c, i));
                dst.add(i).write_unaligned(if *a.add(i) != 0 { x } else { y });
                i += 1;
            }
        }
    }
}

impl<T: MulAddElem, B: Operand, C: Operand> Block for MulAdd<T, B, C> {
    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        let (dst, a, b, c) = (dst.cast::<T>(), a.cast::<T>(), b.cast::<T>(), c.cast::<T>());
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each block and one at each single value; `i` stays within them.
        unsafe {
            while i + CHUNK <= n {
                let x = a.add(i).cast::<[T; CHUNK]>().read_unaligned();
                let (y, z) = (chunk::<T, B>(b, i), chunk::<T, C>(c, i));
                write(dst.add(i), |j| T::mul_add(x[j], y[j], z[j]));
                i += CHUNK;
            }
            while i < n {
                let (y, z) = (at::<T, B>(b, i), at::<T, C>(c, i));
                dst.add(i).write_unaligned(T::mul_add(a.add(i).read_unaligned(), y, z));
                i += 1;
            }
        }
    }
}

/// A type of [`MulAdd`].
pub trait MulAddElem: Copy {
    /// a * b + c.
    fn mul_add(a: Self, b: Self, c: Self) -> Self;
}
