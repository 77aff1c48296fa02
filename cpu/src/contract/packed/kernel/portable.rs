//! Micro-kernels in plain Rust, for any element type. The compiler vectorises them as far as it can; on x86-64 they are
//! also compiled for AVX2, which matters for integers.

use super::{Kernels, Lines, MicroKernelFn, MicroTile, VectorKernels};
use crate::contract::packed::Element;

/// Rows of a portable tile.
const MR: usize = 4;
/// Columns of a portable tile.
const NR: usize = 8;

/// Tables of portable kernels for `T`.
pub(in crate::contract::packed) struct PortableKernels<T>(std::marker::PhantomData<T>);

impl<T: Element> PortableKernels<T> {
    const LIST: &'static [MicroKernelFn<T>] = &[kernel::<T>];
    /// For every processor.
    pub const TABLE: &'static Kernels<T> = &table(
        &[&[Self::LIST]],
        VectorKernels {
            dots: [dots::<T, 8>, dots::<T, 4>, dots::<T, 1>],
            scaled: [scaled::<T, 8>, scaled::<T, 4>, scaled::<T, 1>],
        },
    );

    #[cfg(target_arch = "x86_64")]
    const LIST_AVX2: &'static [MicroKernelFn<T>] = &[kernel_avx2::<T>];
    /// The same, compiled for AVX2.
    #[cfg(target_arch = "x86_64")]
    pub const TABLE_AVX2: &'static Kernels<T> = &table(
        &[&[Self::LIST_AVX2]],
        VectorKernels {
            dots: [dots_avx2::<T, 8>, dots_avx2::<T, 4>, dots_avx2::<T, 1>],
            scaled: [scaled_avx2::<T, 8>, scaled_avx2::<T, 4>, scaled_avx2::<T, 1>],
        },
    );
}

const fn table<T>(table: &'static [&'static [&'static [MicroKernelFn<T>]]], vector: VectorKernels<T>) -> Kernels<T> {
    Kernels {
        mr: MR,
        lanes: NR,
        vectors: 1,
        strided: false,
        unit: 8,
        heads: false,
        state: None,
        vector: Some(vector),
        table,
    }
}

/// # Safety
/// The contract of [`MicroTile`]; both operands packed.
unsafe fn kernel<T: Element>(t: &MicroTile<T>) {
    // SAFETY: the contract is the same.
    unsafe { body(t) }
}

/// # Safety
/// The contract of [`MicroTile`]; both operands packed; AVX2 and FMA are present.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn kernel_avx2<T: Element>(t: &MicroTile<T>) {
    // SAFETY: the contract is the same.
    unsafe { body(t) }
}

/// # Safety
/// The contract of [`MicroTile`]; both operands packed in panels of [`MR`] rows and [`NR`] columns.
#[inline(always)]
unsafe fn body<T: Element>(t: &MicroTile<T>) {
    let mut acc = [[T::ZERO; NR]; MR];
    let (mut a, mut b) = (t.a, t.b);
    for _ in 0..t.k {
        // SAFETY: panels hold MR and NR elements for each K index, missing rows as zeros.
        let (x, y) = unsafe { (&*a.cast::<[T; MR]>(), &*b.cast::<[T; NR]>()) };
        for i in 0..MR {
            for j in 0..NR {
                acc[i][j] = acc[i][j].add(x[i].mul(y[j]));
            }
        }
        a = a.wrapping_add(MR);
        b = b.wrapping_add(NR);
    }
    for (i, row) in acc.iter().enumerate().take(t.rows) {
        // SAFETY: the contract gives `rows` rows of the lanes of one vector.
        let out = unsafe { std::slice::from_raw_parts_mut(t.c.offset(i as isize * t.c_row), t.tail) };
        for (o, &x) in out.iter_mut().zip(row) {
            *o = if t.add { o.add(x) } else { x };
        }
    }
}

/// Separate accumulators of a dot product; two vectors of 32-bit elements.
const LANES: usize = 16;

/// # Safety
/// As [`dots`]; AVX2 and FMA are present.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn dots_avx2<T: Element, const R: usize>(m: &Lines<T>, x: *const T, out: *mut T) {
    // SAFETY: the contract is the same.
    unsafe { dots::<T, R>(m, x, out) }
}

/// # Safety
/// The contract of [`Lines`] for R lines and of [`super::DotsKernel`].
#[inline(always)]
unsafe fn dots<T: Element, const R: usize>(m: &Lines<T>, x: *const T, out: *mut T) {
    for i in 0..R {
        let line = m.first.wrapping_offset(i as isize * m.line);
        // SAFETY: the line and the vector have n elements.
        let (line, x) = unsafe { (std::slice::from_raw_parts(line, m.n), std::slice::from_raw_parts(x, m.n)) };
        let mut acc = [T::ZERO; LANES];
        for (line, x) in line.chunks(LANES).zip(x.chunks(LANES)) {
            for ((acc, &a), &x) in acc.iter_mut().zip(line).zip(x) {
                *acc = acc.add(a.mul(x));
            }
        }
        // SAFETY: there is a sum for each line.
        unsafe { *out.add(i) = acc.into_iter().fold(T::ZERO, |sum, x| sum.add(x)) };
    }
}

/// # Safety
/// As [`scaled`]; AVX2 and FMA are present.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn scaled_avx2<T: Element, const R: usize>(m: &Lines<T>, x: *const T, out: *mut T) {
    // SAFETY: the contract is the same.
    unsafe { scaled::<T, R>(m, x, out) }
}

/// # Safety
/// The contract of [`Lines`] for R lines and of [`super::ScaledKernel`].
#[inline(always)]
unsafe fn scaled<T: Element, const R: usize>(m: &Lines<T>, x: *const T, out: *mut T) {
    let line = |i: usize| m.first.wrapping_offset(i as isize * m.line);
    // SAFETY: there are n accumulators, R lines of n elements, and R elements of the vector.
    let (out, lines, x) = unsafe {
        let lines: [&[T]; R] = std::array::from_fn(|i| std::slice::from_raw_parts(line(i), m.n));
        (std::slice::from_raw_parts_mut(out, m.n), lines, &*x.cast::<[T; R]>())
    };
    for (j, sum) in out.iter_mut().enumerate() {
        let mut acc = [*sum, T::ZERO];
        for i in 0..R {
            acc[i % 2] = acc[i % 2].add(lines[i][j].mul(x[i]));
        }
        *sum = acc[0].add(acc[1]);
    }
}
