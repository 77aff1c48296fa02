//! Matmuls of a vector with lines of integers narrower than their accumulators, which are widened in registers.

use crate::contract::packed::{Element, MicroKernel, Widen};
use crate::prefetch::prefetch;
use crate::simd::{Simd, WithSimd, vectorize};

/// Some lines of adjacent elements.
///
/// The safety contract: `first` is readable at `i * line + j` elements for `count` lines `i` and `j < n`.
#[derive(Clone, Copy)]
pub(super) struct NarrowLines {
    pub first: *const u8,
    /// Elements from one line to the next.
    pub line: isize,
    pub count: usize,
    /// Elements of a line.
    pub n: usize,
    /// Bytes from each element to one that is needed later, which kernels prefetch; 0 for none.
    pub ahead: isize,
}

type With<T> = unsafe fn(MicroKernel, &NarrowLines, x: *const T, out: *mut T);

/// How lines of a stored type are multiplied with a vector of `T`.
#[derive(Clone, Copy, Debug)]
pub struct Narrow<T> {
    /// Adds to a sum for each line its dot product with the vector, of `n` elements.
    pub(super) dots: With<T>,
    /// Adds to `n` accumulators the lines, each scaled by its element of the vector.
    pub(super) scaled: With<T>,
}

impl<T: Element> Narrow<T> {
    /// For lines of `S`.
    pub(in crate::contract) fn of<S: Widen<T>>() -> Narrow<T> {
        Narrow { dots: dots::<S, T>, scaled: scaled::<S, T> }
    }
}

/// # Safety
/// The contract of [`NarrowLines`] with lines of `S`; `x` is readable for `n` elements, `out` writable for as many as lines.
unsafe fn dots<S: Widen<T>, T: Element>(isa: MicroKernel, lines: &NarrowLines, x: *const T, out: *mut T) {
    vectorize(isa.vectors(), Dots { lines, first: lines.first.cast::<S>(), x, out });
}

/// # Safety
/// The contract of [`NarrowLines`] with lines of `S`; `x` is readable for as many elements as lines, `out` writable for `n`.
unsafe fn scaled<S: Widen<T>, T: Element>(isa: MicroKernel, lines: &NarrowLines, x: *const T, out: *mut T) {
    vectorize(isa.vectors(), Scaled { lines, first: lines.first.cast::<S>(), x, out });
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches what is needed `ahead` bytes after an element, once for each cache line; 0 for nothing.
#[inline(always)]
pub(super) fn prefetch_later<S>(from: *const S, j: usize, ahead: isize) {
    if ahead != 0 && (j * size_of::<S>()).is_multiple_of(LINE) {
        prefetch::<false>(from.wrapping_add(j).cast::<u8>().wrapping_offset(ahead));
    }
}

/// Elements taken at once: loops of a fixed length become a few vector instructions.
const SOME: usize = 32;

/// Made by [`dots`] alone.
struct Dots<'a, S, T> {
    lines: &'a NarrowLines,
    first: *const S,
    x: *const T,
    out: *mut T,
}

impl<S: Widen<T>, T: Element> WithSimd for Dots<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Simd>(self, _: V) {
        let count = self.lines.count;
        let mut i = 0;
        // SAFETY: the maker vouches for all lines and the vector, and for a sum for each line.
        unsafe {
            while i + 4 <= count {
                self.some::<4>(i);
                i += 4;
            }
            while i < count {
                self.some::<1>(i);
                i += 1;
            }
        }
    }
}

impl<S: Widen<T>, T: Element> Dots<'_, S, T> {
    /// So many lines from one on.
    ///
    /// # Safety
    /// They exist.
    #[inline(always)]
    unsafe fn some<const R: usize>(&self, first: usize) {
        let NarrowLines { line, n, ahead, .. } = *self.lines;
        let mut lines = [self.first; R];
        for (i, at) in lines.iter_mut().enumerate() {
            *at = self.first.wrapping_offset((first + i) as isize * line);
        }
        let (mut acc, mut j) = ([[T::ZERO; SOME]; R], 0);
        // SAFETY: the caller's.
        unsafe {
            while j + SOME <= n {
                let x = *self.x.add(j).cast::<[T; SOME]>();
                for i in 0..R {
                    prefetch_later(lines[i], j, ahead);
                    let some = *lines[i].add(j).cast::<[S; SOME]>();
                    for l in 0..SOME {
                        acc[i][l] = acc[i][l].add(some[l].widen().mul(x[l]));
                    }
                }
                j += SOME;
            }
            for i in 0..R {
                let mut sum = *self.out.add(first + i);
                for j in j..n {
                    sum = sum.add((*lines[i].add(j)).widen().mul(*self.x.add(j)));
                }
                for part in acc[i] {
                    sum = sum.add(part);
                }
                *self.out.add(first + i) = sum;
            }
        }
    }
}

/// Made by [`scaled`] alone.
struct Scaled<'a, S, T> {
    lines: &'a NarrowLines,
    first: *const S,
    x: *const T,
    out: *mut T,
}

impl<S: Widen<T>, T: Element> WithSimd for Scaled<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Simd>(self, _: V) {
        let NarrowLines { line, count, n, .. } = *self.lines;
        let whole = n / SOME * SOME;
        // SAFETY: the maker vouches for all lines, for an element of the vector for each, and for n accumulators.
        unsafe {
            let mut i = 0;
            while i + 8 <= count {
                self.some::<8>(i, whole);
                i += 8;
            }
            while i < count {
                self.some::<1>(i, whole);
                i += 1;
            }
            for j in whole..n {
                let mut sum = *self.out.add(j);
                for i in 0..count {
                    let number = *self.first.wrapping_offset(i as isize * line).add(j);
                    sum = sum.add(number.widen().mul(*self.x.add(i)));
                }
                *self.out.add(j) = sum;
            }
        }
    }
}

impl<S: Widen<T>, T: Element> Scaled<'_, S, T> {
    /// Adds so many lines from one on, as far as `whole`, a multiple of [`SOME`].
    ///
    /// # Safety
    /// They exist, and so do as many elements of each.
    #[inline(always)]
    unsafe fn some<const R: usize>(&self, first: usize, whole: usize) {
        // SAFETY: the caller's.
        unsafe {
            let x = *self.x.add(first).cast::<[T; R]>();
            let mut lines = [self.first; R];
            for (i, at) in lines.iter_mut().enumerate() {
                *at = self.first.wrapping_offset((first + i) as isize * self.lines.line);
            }
            for j in (0..whole).step_by(SOME) {
                let mut acc = *self.out.add(j).cast::<[T; SOME]>();
                for i in 0..R {
                    prefetch_later(lines[i], j, self.lines.ahead);
                    let some = *lines[i].add(j).cast::<[S; SOME]>();
                    for l in 0..SOME {
                        acc[l] = acc[l].add(some[l].widen().mul(x[i]));
                    }
                }
                *self.out.add(j).cast::<[T; SOME]>() = acc;
            }
        }
    }
}
