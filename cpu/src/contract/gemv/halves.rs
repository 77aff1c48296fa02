//! Matmuls of a vector with lines of 16-bit floats, which are widened in registers.

#![allow(clippy::needless_range_loop)] // Indices of chains of accumulators; iterators would be closures here.

use half::{bf16, f16};

use super::narrow::{Narrow, NarrowLines, prefetch_later};
use crate::contract::packed::{MicroKernel, Widen};
use crate::simd::{Float, Simd, WithSimd, vectorize};

/// A 16-bit float.
pub(in crate::contract) trait HalfLine: Widen<f32> {
    /// Reads a vector; must be `#[inline(always)]`.
    ///
    /// # Safety
    /// So many elements are readable.
    unsafe fn load<V: Simd>(v: V, from: *const Self) -> V::F32;
}

impl HalfLine for f16 {
    #[inline(always)]
    unsafe fn load<V: Simd>(v: V, from: *const f16) -> V::F32 {
        // SAFETY: the caller's.
        unsafe { v.load_f16(from.cast()) }
    }
}

impl HalfLine for bf16 {
    #[inline(always)]
    unsafe fn load<V: Simd>(v: V, from: *const bf16) -> V::F32 {
        // SAFETY: the caller's.
        unsafe { v.load_bf16(from.cast()) }
    }
}

impl Narrow<f32> {
    /// For lines of a 16-bit float.
    pub(in crate::contract) fn of_halves<S: HalfLine>() -> Narrow<f32> {
        Narrow { dots: dots::<S>, scaled: scaled::<S> }
    }
}

/// # Safety
/// The contract of [`NarrowLines`] with lines of `S`; `x` is readable for `n` elements, `out` writable for as many as lines.
unsafe fn dots<S: HalfLine>(isa: MicroKernel, lines: &NarrowLines, x: *const f32, out: *mut f32) {
    vectorize(isa.vectors(), Dots { lines, first: lines.first.cast::<S>(), x, out });
}

/// # Safety
/// The contract of [`NarrowLines`] with lines of `S`; `x` is readable for as many elements as lines, `out` writable for `n`.
unsafe fn scaled<S: HalfLine>(isa: MicroKernel, lines: &NarrowLines, x: *const f32, out: *mut f32) {
    vectorize(isa.vectors(), Scaled { lines, first: lines.first.cast::<S>(), x, out });
}

/// Lines that are read together.
const MANY: usize = 8;
/// Made by [`dots`] alone.
struct Dots<'a, S> {
    lines: &'a NarrowLines,
    first: *const S,
    x: *const f32,
    out: *mut f32,
}

impl<S: HalfLine> WithSimd for Dots<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<V: Simd>(self, v: V) {
        let count = self.lines.count;
        let mut i = 0;
        // SAFETY: the maker vouches for all lines and the vector, and for a sum for each line.
        unsafe {
            while i + MANY <= count {
                self.some::<V, MANY>(v, i);
                i += MANY;
            }
            while i < count {
                self.some::<V, 1>(v, i);
                i += 1;
            }
        }
    }
}

impl<S: HalfLine> Dots<'_, S> {
    /// So many lines from one on.
    ///
    /// # Safety
    /// They exist.
    #[inline(always)]
    unsafe fn some<V: Simd, const R: usize>(&self, v: V, first: usize) {
        let NarrowLines { line, n, ahead, .. } = *self.lines;
        let mut lines = [self.first; R];
        for (i, at) in lines.iter_mut().enumerate() {
            *at = self.first.wrapping_offset((first + i) as isize * line);
        }
        let lanes = V::F32::LANES;
        // Few lines have two accumulators each, so that additions overlap.
        let chains = if R == 1 { 2 } else { 1 };
        let (mut acc, mut j) = ([[v.f32(0.0); 2]; R], 0);
        // SAFETY: the caller's.
        unsafe {
            while j + chains * lanes <= n {
                for c in 0..chains {
                    let at = j + c * lanes;
                    let x = V::F32::load(self.x.add(at));
                    for i in 0..R {
                        prefetch_later(lines[i], at, ahead);
                        acc[i][c] = S::load(v, lines[i].add(at)).mul_add(x, acc[i][c]);
                    }
                }
                j += chains * lanes;
            }
            for i in 0..R {
                let mut sum = *self.out.add(first + i) + (acc[i][0] + acc[i][1]).sum();
                for j in j..n {
                    sum += (*lines[i].add(j)).widen() * *self.x.add(j);
                }
                *self.out.add(first + i) = sum;
            }
        }
    }
}

/// Made by [`scaled`] alone.
struct Scaled<'a, S> {
    lines: &'a NarrowLines,
    first: *const S,
    x: *const f32,
    out: *mut f32,
}

impl<S: HalfLine> WithSimd for Scaled<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<V: Simd>(self, v: V) {
        let NarrowLines { line, count, n, .. } = *self.lines;
        let whole = n - n % V::F32::LANES;
        // SAFETY: the maker vouches for all lines, for an element of the vector for each, and for n accumulators.
        unsafe {
            let mut i = 0;
            while i + MANY <= count {
                self.some::<V, MANY>(v, i, whole);
                i += MANY;
            }
            while i < count {
                self.some::<V, 1>(v, i, whole);
                i += 1;
            }
            for j in whole..n {
                let mut sum = *self.out.add(j);
                for i in 0..count {
                    sum += (*self.first.wrapping_offset(i as isize * line).add(j)).widen() * *self.x.add(i);
                }
                *self.out.add(j) = sum;
            }
        }
    }
}

impl<S: HalfLine> Scaled<'_, S> {
    /// Adds so many lines from one on, as far as `whole`, a multiple of a vector.
    ///
    /// # Safety
    /// They exist, and so do as many elements of each.
    #[inline(always)]
    unsafe fn some<V: Simd, const R: usize>(&self, v: V, first: usize, whole: usize) {
        let NarrowLines { line, ahead, .. } = *self.lines;
        // SAFETY: the caller's.
        unsafe {
            let (mut lines, mut x) = ([self.first; R], [v.f32(0.0); R]);
            for i in 0..R {
                lines[i] = self.first.wrapping_offset((first + i) as isize * line);
                x[i] = v.f32(*self.x.add(first + i));
            }
            for j in (0..whole).step_by(V::F32::LANES) {
                // Two chains, so that the additions overlap.
                let mut acc = [V::F32::load(self.out.add(j)), v.f32(0.0)];
                for i in 0..R {
                    prefetch_later(lines[i], j, ahead);
                    acc[i % 2] = S::load(v, lines[i].add(j)).mul_add(x[i], acc[i % 2]);
                }
                (acc[0] + acc[1]).store(self.out.add(j));
            }
        }
    }
}
