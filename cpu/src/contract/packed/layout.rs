//! Operands that are packed ahead of time and used many times: a model's weights.

use super::blocking::{Blocking, Isa, Shape};
use super::kernel::kernels;
use super::source::{PackBlock, PackSource, Prepacked};
use super::{Element, Side};
use crate::shared::Shared;
use crate::workers::Workers;

/// Elements that one task packs, about: what lies in another core's cache arrives slowly, but at every core at the same time.
pub(super) const PIECE: usize = 1 << 13;
/// What depths are cut at within a block: a multiple of every instruction set's unit.
const DEPTHS: usize = 64;

/// How an operand is packed as a whole: for one side, instruction set and block of K.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PackedLayout {
    /// Rows (for B: columns) of the operand.
    pub rows: usize,
    /// Depth of the operand.
    pub depth: usize,
    /// Rows of a micro-panel.
    pub panel: usize,
    /// Depth of a block.
    pub kc: usize,
}

impl PackedLayout {
    /// The layout that a product of this shape and blocking reads without packing again.
    pub fn new<T: Element>(side: Side, isa: Isa, shape: Shape, blocking: &Blocking) -> PackedLayout {
        let table = kernels::<T>(isa);
        let (rows, panel) = match side {
            Side::A => (shape.m, table.mr),
            Side::B => (shape.n, table.nr()),
        };
        PackedLayout { rows, depth: shape.k, panel, kc: table.kc(shape.k, blocking.kc) }
    }

    /// Rows with those that fill the last panel.
    pub(crate) fn padded_rows(&self) -> usize {
        self.rows.next_multiple_of(self.panel)
    }

    /// Elements of the packed operand.
    pub fn elements(&self) -> usize {
        self.padded_rows() * self.depth
    }

    /// Packs the first products of `source` into as many times [`PackedLayout::elements`] elements of `dst`; false if there are fewer,
    /// or if the source is smaller than that.
    pub fn pack<T: Element>(
        &self,
        source: &dyn PackSource<T>,
        products: usize,
        workers: &Workers,
        dst: &mut [T],
    ) -> bool {
        let elements = self.elements();
        let Some(dst) = elements.checked_mul(products).and_then(|all| dst.get_mut(..all)) else { return false };
        if !source.covers(products, self.rows, self.depth) {
            return false;
        }
        for (b, dst) in dst.chunks_exact_mut(elements.max(1)).enumerate() {
            self.write(source, b, 0, workers, dst);
        }
        true
    }

    /// Packs rows of one product, from `first` on as many as the layout has, into `dst`, which has [`PackedLayout::elements`]. The
    /// source has them.
    pub(crate) fn write<T: Element>(
        &self,
        source: &dyn PackSource<T>,
        batch: usize,
        first: usize,
        workers: &Workers,
        dst: &mut [T],
    ) {
        let PackedLayout { rows, depth, panel, kc } = *self;
        let padded = self.padded_rows();
        let dst = Shared(dst[..self.elements()].as_mut_ptr());
        // Pieces are whole panels, or parts of one, which are neighbours, too.
        let each = PIECE.div_ceil((panel * kc).max(1));
        let pieces = (padded / panel).div_ceil(each);
        let part = if each > 1 { kc } else { (PIECE / panel.max(1)).next_multiple_of(DEPTHS).min(kc) };
        let parts = kc.div_ceil(part.max(1));
        workers.run(depth.div_ceil(kc) * pieces * parts, &|i| {
            let (block, row, k) = (i / parts / pieces * kc, i / parts % pieces * each * panel, i % parts * part);
            let whole = kc.min(depth - block);
            if k >= whole {
                return;
            }
            let rows = (each * panel).min(rows - row);
            let at = padded * block + row * whole + k * panel;
            let block = PackBlock { batch, row: first + row, rows, k: block + k, depth: part.min(whole - k), panel };
            // SAFETY: each task has its own piece of the layout, for which there is room.
            let piece = unsafe { std::slice::from_raw_parts_mut(dst.at(at), block.len()) };
            source.pack(&block, piece);
        });
    }
}

/// An operand packed before; all products of a batch share it.
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
        // Reached only when a product needs another panel or block of K than this was packed for.
        let PackedLayout { panel, kc, depth, .. } = self.layout;
        for (p, out) in dst.chunks_exact_mut((block.panel * block.depth).max(1)).enumerate() {
            for (q, out) in out.chunks_exact_mut(block.panel).enumerate() {
                for (i, o) in out.iter_mut().enumerate() {
                    let r = p * block.panel + i;
                    *o = T::ZERO;
                    if r < block.rows {
                        let (r, k) = (block.row + r, block.k + q);
                        let start = k / kc * kc;
                        let here = kc.min(depth - start);
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

    fn covers(&self, _: usize, rows: usize, depth: usize) -> bool {
        self.layout.rows >= rows && self.layout.depth >= depth
    }

    fn same_for_batch(&self) -> bool {
        true
    }

    fn prepacked(&self, _: usize) -> Option<Prepacked<T>> {
        let PackedLayout { rows, depth, panel, kc } = self.layout;
        Some(Prepacked { base: self.data.as_ptr(), panel, kc, rows, depth, padded_rows: self.layout.padded_rows() })
    }
}
