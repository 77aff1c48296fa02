//! Operands that are packed ahead of time and used many times: a model's weights.

use millstream_core::how::ContractSizes;

use super::blocking::{Blocking, MicroKernel};
use super::kernel::kernels;
use super::source::{PackBlock, PackSource, Prepacked};
use super::{Element, Side};
use crate::shared::Shared;
use crate::workers::Workers;

/// Elements that one task packs, about: what lies in another core's cache arrives slowly, but at every core at the same time.
pub(super) const PIECE: usize = 1 << 13;
/// What K indices are cut at within a block: a multiple of every instruction set's unit.
const K_UNIT: usize = 64;

/// How an operand is packed as a whole: for one side, instruction set and block of K.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PackedLayout {
    /// Rows (for B: columns) of the operand.
    pub rows: usize,
    /// K of the operand.
    pub k: usize,
    /// Rows of a micro-panel.
    pub panel: usize,
    /// K of a block.
    pub kc: usize,
}

impl PackedLayout {
    /// The layout that a matmul of this shape and blocking reads without packing again.
    pub fn new<T: Element>(side: Side, isa: MicroKernel, shape: ContractSizes, blocking: &Blocking) -> PackedLayout {
        let table = kernels::<T>(isa);
        let (rows, panel) = match side {
            Side::A => (shape.m, table.mr),
            Side::B => (shape.n, table.nr()),
        };
        PackedLayout { rows, k: shape.k, panel, kc: table.kc(shape.k, blocking.kc) }
    }

    /// Rows with those that fill the last panel.
    pub(crate) fn padded_rows(&self) -> usize {
        self.rows.next_multiple_of(self.panel)
    }

    /// Elements of the packed operand.
    pub fn elements(&self) -> usize {
        self.padded_rows() * self.k
    }

    /// Packs the first matrices of `source` into as many times [`PackedLayout::elements`] elements of `dst`; false if there are fewer,
    /// or if the source is smaller than that.
    pub fn pack<T: Element>(
        &self,
        source: &dyn PackSource<T>,
        matrices: usize,
        workers: &Workers,
        dst: &mut [T],
    ) -> bool {
        let elements = self.elements();
        let Some(dst) = elements.checked_mul(matrices).and_then(|all| dst.get_mut(..all)) else { return false };
        if !source.covers(matrices, self.rows, self.k) {
            return false;
        }
        for (b, dst) in dst.chunks_exact_mut(elements.max(1)).enumerate() {
            self.write(source, b, 0, workers, dst);
        }
        true
    }

    /// Packs rows of one matrix, from `first` on as many as the layout has, into `dst`, which has [`PackedLayout::elements`]. The
    /// source has them.
    pub(crate) fn write<T: Element>(
        &self,
        source: &dyn PackSource<T>,
        batch: usize,
        first: usize,
        workers: &Workers,
        dst: &mut [T],
    ) {
        let PackedLayout { rows, k: k_len, panel, kc } = *self;
        let padded = self.padded_rows();
        let dst = Shared(dst[..self.elements()].as_mut_ptr());
        // Pieces are whole panels, or parts of one, which are neighbours, too.
        let each = PIECE.div_ceil((panel * kc).max(1));
        let pieces = (padded / panel).div_ceil(each);
        let part = if each > 1 { kc } else { (PIECE / panel.max(1)).next_multiple_of(K_UNIT).min(kc) };
        let parts = kc.div_ceil(part.max(1));
        workers.run(k_len.div_ceil(kc) * pieces * parts, &|i| {
            let (block, row, k) = (i / parts / pieces * kc, i / parts % pieces * each * panel, i % parts * part);
            let whole = kc.min(k_len - block);
            if k >= whole {
                return;
            }
            let rows = (each * panel).min(rows - row);
            let at = padded * block + row * whole + k * panel;
            let block = PackBlock { batch, row: first + row, rows, k: block + k, k_len: part.min(whole - k), panel };
            // SAFETY: each task has its own piece of the layout, for which there is room.
            let piece = unsafe { std::slice::from_raw_parts_mut(dst.at(at), block.len()) };
            source.pack(&block, piece);
        });
    }
}

/// An operand packed before; all matrices of a batch share it.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a, T> {
    data: &'a [T],
    layout: PackedLayout,
}

impl<'a, T: Element> Packed<'a, T> {
    /// What [`PackedLayout::pack`] wrote. `None` if `data` has fewer elements than the layout.
    pub fn new(data: &'a [T], layout: PackedLayout) -> Option<Packed<'a, T>> {
        (data.len() >= layout.elements() && layout.panel > 0 && layout.kc > 0).then_some(Packed { data, layout })
    }
}

impl<T: Element> PackSource<T> for Packed<'_, T> {
    fn pack(&self, block: &PackBlock, dst: &mut [T]) {
        // Reached only when a matmul needs another panel or block of K than this was packed for.
        let PackedLayout { panel, kc, k: k_len, .. } = self.layout;
        for (p, out) in dst.chunks_exact_mut((block.panel * block.k_len).max(1)).enumerate() {
            for (q, out) in out.chunks_exact_mut(block.panel).enumerate() {
                for (i, o) in out.iter_mut().enumerate() {
                    let r = p * block.panel + i;
                    *o = T::ZERO;
                    if r < block.rows {
                        let (r, k) = (block.row + r, block.k + q);
                        let start = k / kc * kc;
                        let here = kc.min(k_len - start);
                        let at = self.layout.padded_rows() * start
                            + r / panel * panel * here
                            + (k - start) * panel
                            + r % panel;
                        *o = self.data[at];
                    }
                }
            }
        }
    }

    fn covers(&self, _: usize, rows: usize, k_len: usize) -> bool {
        self.layout.rows >= rows && self.layout.k >= k_len
    }

    fn same_for_batch(&self) -> bool {
        true
    }

    fn prepacked(&self, _: usize) -> Option<Prepacked<T>> {
        let PackedLayout { rows, k: k_len, panel, kc } = self.layout;
        Some(Prepacked { base: self.data.as_ptr(), panel, kc, rows, k: k_len, padded_rows: self.layout.padded_rows() })
    }
}
