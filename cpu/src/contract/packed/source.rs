//! Where operands come from. Both A and B are read as rows by K: B's "rows" are its columns.

use std::any::TypeId;
use std::marker::PhantomData;

use millstream_core::DType;

use super::pack::{BlockStrides, pack_strided};
use super::{Element, MicroKernel, Narrow, Widen};

/// A block of an operand that is to be packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackBlock {
    /// Which matrix of the batch.
    pub batch: usize,
    /// First row.
    pub row: usize,
    /// Rows; not necessarily a multiple of `panel`.
    pub rows: usize,
    /// First index of K.
    pub k: usize,
    /// Indices of K.
    pub k_len: usize,
    /// Rows of a micro-panel.
    pub panel: usize,
}

impl PackBlock {
    /// Elements of the packed block: whole panels.
    pub fn len(&self) -> usize {
        self.rows.div_ceil(self.panel) * self.panel * self.k_len
    }

    /// Whether the block has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An operand that lies in memory as the matmul's own type, so that it can be read without packing.
#[derive(Clone, Copy, Debug)]
pub struct Direct<T> {
    /// Element (0, 0).
    pub base: *const T,
    /// Elements from one row to the next.
    pub row: isize,
    /// Elements from one K index to the next.
    pub k: isize,
}

/// An operand that lies in memory with strides, as the matmul's own type or as one that is widened while it is read.
#[derive(Clone, Copy, Debug)]
pub struct Stored<T> {
    /// Element (0, 0).
    pub base: *const u8,
    /// Bytes of an element.
    pub size: usize,
    /// Elements from one row to the next.
    pub row: isize,
    /// Elements from one K index to the next.
    pub k: isize,
    /// Writes so many adjacent elements as `T`, which must be readable and writable; `None` if they are `T`.
    pub widen: Option<unsafe fn(MicroKernel, *const u8, *mut T, usize)>,
    /// How lines of such elements are multiplied without that, where it is quicker.
    pub narrow: Option<Narrow<T>>,
}

/// An operand that is packed already, for every row and K index.
#[derive(Clone, Copy, Debug)]
pub struct Prepacked<T> {
    /// The block of K at `k0` starts at `padded_rows * k0`; in it are all panels, as [`PackSource::pack`] makes them.
    pub base: *const T,
    /// Rows of a panel.
    pub panel: usize,
    /// K of a block; the last one may be shorter.
    pub kc: usize,
    /// Rows that were packed.
    pub rows: usize,
    /// K that was packed.
    pub k: usize,
    /// Rows, rounded up to whole panels.
    pub padded_rows: usize,
}

/// An operand: something that can write blocks of itself as micro-panels of `T`.
pub trait PackSource<T>: Sync {
    /// Writes the block. Panel `p` holds rows `row + p * panel` and on; its element `(r, k)` goes to
    /// `dst[p * panel * k_len + k * panel + r]`; rows past the block's last are zero. `dst` has `block.len()` elements with
    /// unspecified contents. Several threads call at the same time.
    fn pack(&self, block: &PackBlock, dst: &mut [T]);

    /// Whether every row below `rows` and K index below `k_len` of every matrix below `batch` exists. The driver asks first.
    fn covers(&self, batch: usize, rows: usize, k_len: usize) -> bool {
        let _ = (batch, rows, k_len);
        true
    }

    /// Whether all matrices of the batch share it, so that it is packed once.
    fn same_for_batch(&self) -> bool {
        false
    }

    /// The operand in memory, if it lies there with strides. Whoever returns it vouches that every covered element is
    /// readable through it as long as the source lives.
    fn stored(&self, batch: usize) -> Option<Stored<T>> {
        let _ = batch;
        None
    }

    /// The same, if it is stored as `T`.
    fn direct(&self, batch: usize) -> Option<Direct<T>> {
        let Stored { base, row, k, .. } = self.stored(batch).filter(|s| s.widen.is_none())?;
        Some(Direct { base: base.cast(), row, k })
    }

    /// The operand in packed form, if it is stored so. Whoever returns it vouches for the layout and that it lives as long
    /// as the source.
    fn prepacked(&self, batch: usize) -> Option<Prepacked<T>> {
        let _ = batch;
        None
    }
}

/// Where each matrix of a batch starts, in elements from the base.
#[derive(Clone, Copy, Debug)]
pub enum Batch<'a> {
    /// At equal distances; 0 means that all share one.
    Stride(isize),
    /// Anywhere.
    Table(&'a [isize]),
}

impl Batch<'_> {
    /// All matrices of the batch are one.
    pub const SAME: Batch<'static> = Batch::Stride(0);

    pub(in crate::contract) fn offset(&self, batch: usize) -> isize {
        match self {
            Batch::Stride(s) => s.wrapping_mul(batch as isize),
            Batch::Table(t) => t.get(batch).copied().unwrap_or(0),
        }
    }

    pub(in crate::contract) fn covers(&self, batch: usize) -> bool {
        match self {
            Batch::Stride(_) => true,
            Batch::Table(t) => t.len() >= batch,
        }
    }

    pub(in crate::contract) fn same(&self) -> bool {
        matches!(self, Batch::Stride(0))
    }
}

/// A matrix in memory with any strides, stored as `S`; read as `S` itself or as a wider type.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a, S> {
    pub(in crate::contract) base: *const S,
    pub(in crate::contract) row: isize,
    pub(in crate::contract) k: isize,
    pub(in crate::contract) batch: Batch<'a>,
    life: PhantomData<&'a [S]>,
}

// SAFETY: it only reads, and the constructors demand that nobody writes during the lifetime.
unsafe impl<S: Sync> Sync for Strided<'_, S> {}
// SAFETY: as above.
unsafe impl<S: Sync> Send for Strided<'_, S> {}

impl<'a, S: Copy> Strided<'a, S> {
    /// A matrix whose element `(b, r, k)` is at `base + batch(b) + r * row + k * k_stride`, in elements. For A, `row` is the
    /// stride between rows; for B it is the stride between columns, and `k` the one between rows.
    ///
    /// # Safety
    /// For the lifetime, every element of the operand must be readable and not written by anybody.
    pub unsafe fn from_raw(base: *const S, row: isize, k: isize, batch: Batch<'a>) -> Strided<'a, S> {
        Strided { base, row, k, batch, life: PhantomData }
    }

    /// Where an element is.
    #[inline(always)]
    pub(in crate::contract) fn at(&self, batch: usize, row: usize, k: usize) -> *const S {
        let offset = self.batch.offset(batch) + row as isize * self.row + k as isize * self.k;
        self.base.wrapping_offset(offset)
    }

    /// A dense row-major `A[batch, m, k]`. `None` if `data` is too short.
    pub fn dense_a(data: &'a [S], batch: usize, m: usize, k: usize) -> Option<Strided<'a, S>> {
        let each = m.checked_mul(k)?;
        let enough = data.len() >= each.checked_mul(batch)?;
        // SAFETY: the slice holds every element and is borrowed for the lifetime.
        enough.then(|| unsafe { Strided::from_raw(data.as_ptr(), k as isize, 1, Batch::Stride(each as isize)) })
    }

    /// A dense row-major `B[batch, k, n]`. `None` if `data` is too short.
    pub fn dense_b(data: &'a [S], batch: usize, k: usize, n: usize) -> Option<Strided<'a, S>> {
        let each = n.checked_mul(k)?;
        let enough = data.len() >= each.checked_mul(batch)?;
        // SAFETY: the slice holds every element and is borrowed for the lifetime.
        enough.then(|| unsafe { Strided::from_raw(data.as_ptr(), 1, n as isize, Batch::Stride(each as isize)) })
    }
}

/// A matrix in memory with any strides, of elements that a dtype names.
#[derive(Clone, Copy, Debug)]
pub(in crate::contract) struct Untyped<'a>(DType, Strided<'a, u8>);

impl<'a> Untyped<'a> {
    /// As [`Strided::from_raw`], with strides in elements.
    ///
    /// # Safety
    /// As there, and `base` is aligned for the dtype.
    pub(in crate::contract) unsafe fn from_raw(
        dtype: DType,
        base: *const u8,
        row: isize,
        k: isize,
        batch: Batch<'a>,
    ) -> Untyped<'a> {
        // SAFETY: the caller's; nothing reads it before its type is known.
        Untyped(dtype, unsafe { Strided::from_raw(base, row, k, batch) })
    }

    /// What its elements are.
    pub(in crate::contract) fn dtype(&self) -> DType {
        self.0
    }

    /// The same, if this is the type of its elements.
    pub(in crate::contract) fn typed<S: millstream_core::Element>(&self) -> Option<Strided<'a, S>> {
        let Untyped(dtype, Strided { base, row, k, batch, .. }) = *self;
        // SAFETY: the maker vouched for elements of this dtype.
        (dtype == S::DTYPE).then(|| unsafe { Strided::from_raw(base.cast(), row, k, batch) })
    }
}

pub(super) fn same_type<S: 'static, T: 'static>() -> bool {
    TypeId::of::<S>() == TypeId::of::<T>()
}

impl<S: Widen<T>, T: Element> PackSource<T> for Strided<'_, S> {
    fn pack(&self, block: &PackBlock, dst: &mut [T]) {
        let base = self.at(block.batch, block.row, block.k);
        let strides = BlockStrides { row: self.row, k: self.k };
        // SAFETY: the maker vouched for every element of the operand, and the block is inside it.
        unsafe {
            if same_type::<S, T>() {
                pack_strided(base.cast::<T>(), strides, block.rows, block.k_len, block.panel, dst);
            } else {
                pack_widened(base, strides, block, dst);
            }
        }
    }

    fn covers(&self, batch: usize, _: usize, _: usize) -> bool {
        self.batch.covers(batch)
    }

    fn same_for_batch(&self) -> bool {
        self.batch.same()
    }

    fn stored(&self, batch: usize) -> Option<Stored<T>> {
        Some(Stored {
            base: self.base.wrapping_offset(self.batch.offset(batch)).cast(),
            size: size_of::<S>(),
            row: self.row,
            k: self.k,
            widen: (!same_type::<S, T>()).then_some(widen::<S, T>),
            narrow: S::lines(),
        })
    }
}

/// [`Widen::widen_run`] of elements at an address.
///
/// # Safety
/// `n` elements of S are readable there, and as many of T are writable.
unsafe fn widen<S: Widen<T>, T: Element>(isa: MicroKernel, from: *const u8, to: *mut T, n: usize) {
    // SAFETY: the caller's.
    let (from, to) =
        unsafe { (std::slice::from_raw_parts(from.cast::<S>(), n), std::slice::from_raw_parts_mut(to, n)) };
    S::widen_run(isa, from, to);
}

/// Widens through a small buffer in L1, then packs from there.
///
/// # Safety
/// `base` is readable at `r * strides.row + k * strides.k` for the block's rows and K indices.
unsafe fn pack_widened<S: Widen<T>, T: Element>(
    base: *const S,
    strides: BlockStrides,
    block: &PackBlock,
    dst: &mut [T],
) {
    const ROWS: usize = 32;
    const K_PART: usize = 64;
    let PackBlock { rows, k_len, panel, .. } = *block;
    if strides.k == 1 && panel <= ROWS {
        let mut buffer = [T::ZERO; ROWS * K_PART];
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            let have = panel.min(rows - p * panel);
            for k in (0..k_len).step_by(K_PART) {
                let part = K_PART.min(k_len - k);
                for r in 0..have {
                    // SAFETY: the row and its K indices k to k + part are in the block, and K is contiguous.
                    let from = unsafe {
                        let row = base.wrapping_offset((p * panel + r) as isize * strides.row).add(k);
                        std::slice::from_raw_parts(row, part)
                    };
                    S::widen_slice(from, &mut buffer[r * K_PART..][..part]);
                }
                let strides = BlockStrides { row: K_PART as isize, k: 1 };
                // SAFETY: the buffer holds `have` rows of `part` K indices.
                unsafe {
                    pack_strided(buffer.as_ptr(), strides, have, part, panel, &mut out[k * panel..][..part * panel])
                };
            }
        }
    } else if strides.row == 1 {
        let mut buffer = [T::ZERO; ROWS * K_PART];
        let run = (buffer.len() / panel).max(1) * panel;
        for k in 0..k_len {
            for first in (0..rows).step_by(run) {
                let have = run.min(rows - first);
                // SAFETY: rows are adjacent, and these are in the block at index k of K.
                let from = unsafe {
                    std::slice::from_raw_parts(base.wrapping_offset(k as isize * strides.k).add(first), have)
                };
                let wide = &mut buffer[..have.next_multiple_of(panel)];
                S::widen_slice(from, wide);
                wide[have..].fill(T::ZERO);
                for (p, part) in wide.chunks_exact(panel).enumerate() {
                    dst[(first / panel + p) * panel * k_len + k * panel..][..panel].copy_from_slice(part);
                }
            }
        }
    } else {
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            for (k, out) in out.chunks_exact_mut(panel).enumerate() {
                for (r, o) in out.iter_mut().enumerate() {
                    let row = p * panel + r;
                    let at = base.wrapping_offset(row as isize * strides.row + k as isize * strides.k);
                    // SAFETY: the element is in the block.
                    *o = if row < rows { unsafe { *at }.widen() } else { T::ZERO };
                }
            }
        }
    }
}
