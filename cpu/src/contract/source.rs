//! Operands that are not plain matrices, packed through their views.
//!
//! A [`Strips`] gives an operand's elements in strips: along its rows, or along K, whichever is contiguous in
//! memory. [`StripSource`] turns strips into micro-panels: strips along the rows are already in the panels' order, those along
//! K are collected in L1 and transposed from there.

use std::mem::MaybeUninit;

use millstream_core::how::Walks;
use smallvec::SmallVec;

use super::view::{Along, Axis, Origin, SLACK, Several, Strip, Tables, View, load_strips};
use crate::contract::packed::{Batch, Element, GuardTable, PackBlock, PackSource, Strided};

/// Something that yields strips of an operand as `T`.
pub(super) trait Strips<T>: Sync {
    /// Along which axis strips are cheap.
    fn along(&self) -> Along;

    /// Writes several strips, one for each index of the other axis from the strip's own on, and calls `each` after each.
    ///
    /// # Safety
    /// Strips lie inside the operand; `out` is writable for each, at the addresses and with the slack that `several` names.
    unsafe fn load(&self, strip: Strip, several: Several, out: *mut T, each: &mut dyn FnMut(usize));

    /// Whether all matrices of the batch share the operand.
    fn same_for_batch(&self) -> bool;
}

/// An input as it is, element by element through its view.
pub(super) struct Plucked<'a> {
    pub(super) view: &'a View,
    pub(super) origin: Origin,
    /// Along which axis strips are cheap.
    pub(super) along: Along,
}

impl<T: Element> Strips<T> for Plucked<'_> {
    fn along(&self) -> Along {
        self.along
    }

    unsafe fn load(&self, strip: Strip, several: Several, out: *mut T, each: &mut dyn FnMut(usize)) {
        // SAFETY: passed on; the maker saw to it that the view's dtype is that of `T`.
        unsafe { load_strips(self.view, self.origin, strip, several, out.cast(), each) };
    }

    fn same_for_batch(&self) -> bool {
        self.view.batch.is_constant()
    }
}

/// An input that the matmul packs by tables, which it does without a detour for some types.
pub(super) struct Tabled<'a, T> {
    pub(super) tables: &'a Tables,
    pub(super) view: &'a View,
    /// All that the tables reach lies in this memory.
    pub(super) origin: Origin,
    pub(super) fill: T,
}

/// Guards beyond which packing by tables has no advantage.
pub(super) const TABLED_GUARDS: usize = 3;

impl<T: Element> PackSource<T> for Tabled<'_, T> {
    fn pack(&self, block: &PackBlock, dst: &mut [T]) {
        let guards: SmallVec<[GuardTable<'_>; TABLED_GUARDS]> = self
            .tables
            .guards
            .iter()
            .map(|(rows, cols, extent)| GuardTable { rows, k_offsets: cols, extent: *extent })
            .collect();
        let base = self
            .origin
            .base
            .0
            .cast_const()
            .cast::<T>()
            .wrapping_offset(self.view.base + self.view.batch.offset(block.batch));
        let Tables { rows, cols, .. } = self.tables;
        // SAFETY: the maker has checked that the tables' reach, all matrices included, lies in the origin's memory, that it
        // is aligned, and that the view's dtype is that of `T`; the launch's caller keeps it alive and unwritten.
        let source =
            unsafe { crate::contract::packed::Gathered::from_raw(base, rows, cols, Batch::SAME, &guards, self.fill) };
        source.pack(block, dst);
    }

    fn covers(&self, batch: usize, rows: usize, k_len: usize) -> bool {
        self.view.batch.size >= batch && self.tables.rows.len() >= rows && self.tables.cols.len() >= k_len
    }

    fn same_for_batch(&self) -> bool {
        self.view.batch.is_constant()
    }
}

/// The axis along which strips of these views cost the least.
pub(super) fn cheaper<'a>(walks: &Walks, views: impl Iterator<Item = &'a View>) -> Along {
    let cost = |axis: &Axis| walks.packed(axis.step, axis.inner);
    let (mut row, mut col) = (0.0, walks.pack_transposed);
    for view in views {
        row += cost(&view.row);
        col += cost(&view.col);
    }
    if col < row { Along::Col } else { Along::Row }
}

/// Bytes of the buffer in which strips are collected: a part of any L1.
const BUFFER: usize = 16 << 10;

type Buffer = [MaybeUninit<u64>; BUFFER / 8];

/// An operand that is packed strip by strip.
pub(super) struct StripSource<S>(pub(super) S);

impl<T: Element, S: Strips<T>> PackSource<T> for StripSource<S> {
    fn pack(&self, block: &PackBlock, dst: &mut [T]) {
        if dst.len() < block.len() || block.panel == 0 {
            return;
        }
        match self.0.along() {
            Along::Row => self.pack_rows(block, dst),
            Along::Col => self.pack_cols(block, dst),
        }
    }

    fn same_for_batch(&self) -> bool {
        self.0.same_for_batch()
    }
}

impl<S> StripSource<S> {
    fn pack_rows<T: Element>(&self, block: &PackBlock, dst: &mut [T])
    where
        S: Strips<T>,
    {
        let PackBlock { batch, row, rows, k, k_len, panel } = *block;
        let mut buffer: Buffer = [const { MaybeUninit::uninit() }; BUFFER / 8];
        let buffer = buffer.as_mut_ptr().cast::<T>();
        // Whole panels at a time, with room for what a load writes beyond them.
        let most = (BUFFER / size_of::<T>()).saturating_sub(SLACK) / panel * panel;
        if most == 0 {
            return;
        }
        let mut first = 0;
        while first < rows {
            let len = most.min(rows - first);
            let padded = len.next_multiple_of(panel);
            let strip = Strip { along: Along::Row, batch, other: k, start: row + first, len };
            let to = dst.as_mut_ptr().wrapping_add(first * k_len);
            let mut each = |d: usize| {
                // SAFETY: the buffer holds `most` elements and more, of which `len` have just been written; it is aligned to 8
                // bytes, as much as any element needs. `dst` has the block's length: whole panels of this K.
                unsafe {
                    for i in len..padded {
                        buffer.add(i).write(T::ZERO);
                    }
                    deal(std::slice::from_raw_parts(buffer, padded), panel, panel * k_len, to.add(d * panel));
                }
            };
            // SAFETY: the buffer has room for the strip and the slack. The driver asks only for rows and K indices of the operand.
            unsafe { self.0.load(strip, Several { count: k_len, stride: 0, slack: true }, buffer, &mut each) };
            first += len;
        }
    }

    fn pack_cols<T: Element>(&self, block: &PackBlock, dst: &mut [T])
    where
        S: Strips<T>,
    {
        let PackBlock { batch, row, rows, k, k_len, panel } = *block;
        let mut buffer: Buffer = [const { MaybeUninit::uninit() }; BUFFER / 8];
        let buffer = buffer.as_mut_ptr().cast::<T>();
        let most = (BUFFER / size_of::<T>()).saturating_sub(SLACK) / panel;
        if most == 0 {
            return;
        }
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            let first = p * panel;
            let have = panel.min(rows.saturating_sub(first));
            let mut d = 0;
            while d < k_len {
                let len = most.min(k_len - d);
                let strip = Strip { along: Along::Col, batch, other: row + first, start: k + d, len };
                // SAFETY: the buffer holds `panel` rows of `most` elements and the slack. The driver asks only for rows and K indices
                // of the operand.
                unsafe { self.0.load(strip, Several { count: have, stride: len, slack: true }, buffer, &mut |_| ()) };
                // SAFETY: the rows just written, read within their bounds.
                let collected = unsafe { Strided::<T>::from_raw(buffer, len as isize, 1, Batch::SAME) };
                let part = PackBlock { batch: 0, row: 0, rows: have, k: 0, k_len: len, panel };
                collected.pack(&part, &mut out[d * panel..(d + len) * panel]);
                d += len;
            }
        }
    }
}

/// Writes each `panel` elements of `from` `stride` elements from each other.
///
/// # Safety
/// `to` is writable at `p * stride ..+ panel` for each panel `p` of `from`.
unsafe fn deal<T: Copy>(from: &[T], panel: usize, stride: usize, to: *mut T) {
    /// # Safety
    /// As above, `N` being the panel.
    unsafe fn fixed<T: Copy, const N: usize>(from: &[T], stride: usize, to: *mut T) {
        for (p, part) in from.as_chunks::<N>().0.iter().enumerate() {
            // SAFETY: passed on.
            unsafe { to.add(p * stride).cast::<[T; N]>().write(*part) };
        }
    }
    // SAFETY: passed on. A size that the compiler knows makes a copy a few vector moves.
    unsafe {
        match panel {
            4 => fixed::<T, 4>(from, stride, to),
            6 => fixed::<T, 6>(from, stride, to),
            8 => fixed::<T, 8>(from, stride, to),
            12 => fixed::<T, 12>(from, stride, to),
            14 => fixed::<T, 14>(from, stride, to),
            16 => fixed::<T, 16>(from, stride, to),
            24 => fixed::<T, 24>(from, stride, to),
            32 => fixed::<T, 32>(from, stride, to),
            48 => fixed::<T, 48>(from, stride, to),
            _ => {
                for (p, part) in from.chunks_exact(panel).enumerate() {
                    std::ptr::copy_nonoverlapping(part.as_ptr(), to.add(p * stride), panel);
                }
            }
        }
    }
}
