//! Micro-kernels in plain Rust, for any element type. The compiler vectorises them as far as it can; on x86-64 they are
//! also compiled for AVX2, which matters for integers.

use super::{Kernel, Kernels, Tile};
use crate::gemm::Element;

/// Rows of a portable tile.
const MR: usize = 4;
/// Columns of a portable tile.
const NR: usize = 8;

/// Tables of portable kernels for `T`.
pub(in crate::gemm) struct Portable<T>(std::marker::PhantomData<T>);

impl<T: Element> Portable<T> {
    const LIST: &'static [Kernel<T>] = &[kernel::<T>];
    /// For every processor.
    pub const TABLE: &'static Kernels<T> = &table(&[&[Self::LIST]]);

    #[cfg(target_arch = "x86_64")]
    const LIST_AVX2: &'static [Kernel<T>] = &[kernel_avx2::<T>];
    /// The same, compiled for AVX2.
    #[cfg(target_arch = "x86_64")]
    pub const TABLE_AVX2: &'static Kernels<T> = &table(&[&[Self::LIST_AVX2]]);
}

const fn table<T>(table: &'static [&'static [&'static [Kernel<T>]]]) -> Kernels<T> {
    Kernels { mr: MR, lanes: NR, vectors: 1, strided: false, unit: 8, state: None, dots: None, table }
}

/// # Safety
/// The contract of [`Tile`]; both operands packed.
unsafe fn kernel<T: Element>(t: &Tile<T>) {
    // SAFETY: the contract is the same.
    unsafe { body(t) }
}

/// # Safety
/// The contract of [`Tile`]; both operands packed; AVX2 and FMA are present.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn kernel_avx2<T: Element>(t: &Tile<T>) {
    // SAFETY: the contract is the same.
    unsafe { body(t) }
}

/// # Safety
/// The contract of [`Tile`]; both operands packed in panels of [`MR`] rows and [`NR`] columns.
#[inline(always)]
unsafe fn body<T: Element>(t: &Tile<T>) {
    let mut acc = [[T::ZERO; NR]; MR];
    let (mut a, mut b) = (t.a, t.b);
    for _ in 0..t.k {
        // SAFETY: panels hold MR and NR elements for each of k depths, missing rows as zeros.
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
        // SAFETY: the contract gives `rows` rows of one vector of NR elements.
        let out = unsafe { &mut *t.c.offset(i as isize * t.c_row).cast::<[T; NR]>() };
        for (o, &x) in out.iter_mut().zip(row) {
            *o = if t.add { o.add(x) } else { x };
        }
    }
}
