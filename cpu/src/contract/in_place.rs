//! Contractions of which one operand is read where it lies: see [`crate::direct`]. This finds out which ones, and makes their
//! tables.

use std::ops::Range;

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Tile, Variant};
use millstream_core::{Access, Body, DType, Expr, Op, Result};

use super::operand::{Operand, as_stored, find, is_aligned, origin, packed};
use super::product_isa;
use super::view::{View, reach};
use crate::backend::Machine;
use crate::direct::{Border, Direct, Filters};
use crate::gemm::{Output, Side};
use crate::simd::Isa;

/// The family of these kernels.
pub(super) const FAMILY: &str = "direct";
/// Entries beyond which tables would take more memory than they are worth.
const MOST_ENTRIES: usize = 1 << 20;
/// Columns of a matrix of which the last vectors of a product's panels would be mostly empty.
const NARROW: usize = 64;
/// Depths from which on such a matrix is worth another way.
const LEAST_DEEP: usize = 256;
/// The alignment of scratch memory: whole vectors.
const ALIGN: usize = 64;

/// A contraction that reads one operand where it lies.
pub(super) struct InPlace {
    direct: Direct,
    /// The input that is read so, and its element of index 0.
    input: usize,
    base: isize,
    /// The elements that it may read, from the binding's first.
    reach: (isize, isize),
}

impl InPlace {
    /// The contraction, if one operand is an image with windows and this machine has kernels for it.
    pub(super) fn new(op: &Op, isa: Isa) -> Option<InPlace> {
        let Body::Contract(c) = &op.body else { return None };
        if c.acc != DType::F32 || isa != Isa::Avx2 || !Direct::available() {
            return None;
        }
        // An operand that is one input, stored as it is summed, but no matrix in memory.
        let windows = |expr: &Expr, rows: Range<usize>| -> Option<usize> {
            let i = as_stored::<f32>(expr, c.acc)?;
            let access = op.inputs.get(i).filter(|a| a.dtype == DType::F32)?;
            let view = View::new(access, &op.dims, 0..c.m, rows.clone(), c.k..op.dims.len());
            let matrix = view.is_plain() && view.row.single().is_some() && view.depth.single().is_some();
            // A product packs a matrix well, but for one of so few columns that an empty part of the last panel counts.
            let (columns, panel) = (view.row.size, NARROW / 4);
            let narrow = columns < NARROW && columns > panel && columns % panel != 0 && rows.start == c.n;
            let narrow = narrow && view.depth.size >= LEAST_DEEP;
            (!matrix || narrow && view.row.single() == Some(1)).then_some(i)
        };
        let guarded = |i: &usize| !op.inputs[*i].is_plain();
        let (left, right) = (windows(&c.lhs, c.m..c.n), windows(&c.rhs, c.n..c.k));
        // Of two, the one with a border is the image.
        let (input, places_are_rows) = match (left, right) {
            (Some(i), r) if guarded(&i) || r.is_none() => (i, true),
            (_, Some(i)) => (i, false),
            _ => return None,
        };
        let (places, channels) = if places_are_rows { (c.m..c.n, c.n..c.k) } else { (c.n..c.k, c.m..c.n) };
        let access = &op.inputs[input];
        // Where places are not neighbours and no two windows share an element, a copy of what is read makes them neighbours.
        let apart = |d: usize| op.dims[d] > 1 && access.strides[d] != 0;
        let inner = places.clone().filter(|&d| apart(d)).map(|d| access.strides[d].abs()).min();
        let reads: usize = (c.m..op.dims.len()).filter(|&d| apart(d)).map(|d| op.dims[d]).product();
        let mut own = op.dims.to_vec();
        own[..c.m].fill(1);
        let sparse = inner.is_some_and(|s| s > 1) && !places_are_rows && access.distinct(&own) >= reads;
        let bordered = if access.is_plain() && !sparse {
            None
        } else {
            match Border::new(access, &op.dims, c.m..op.dims.len()) {
                None if !access.is_plain() => return None,
                bordered => bordered,
            }
        };
        let (border, strides) = bordered.map_or((None, access.strides.to_vec()), |(b, s)| (Some(b), s));
        let walked = Access::new(DType::F32, &strides);
        let size = |range: Range<usize>| op.dims[range].iter().product::<usize>();
        let (of_places, of_depths, of_batch) = (size(places.clone()), size(c.k..op.dims.len()), size(0..c.m));
        if of_places.saturating_add(of_depths).saturating_add(of_batch) > MOST_ENTRIES {
            return None;
        }
        let view = View::new(&walked, &op.dims, 0..c.m, places.clone(), c.k..op.dims.len());
        let batches = View::new(access, &op.dims, 0..c.m, places, c.k..op.dims.len()).batch.offsets();
        let reach = reach(access, &op.dims)?;
        let direct =
            Direct::new(batches, size(channels), places_are_rows, view.row.offsets(), view.depth.offsets(), border)?;
        Some(InPlace { direct, input, base: access.base, reach })
    }

    /// This way to compute it, for the cost model.
    pub(super) fn variant(&self) -> Variant {
        let (registers, near, far) = self.direct.blocks();
        let block = |(channels, places, k): (usize, usize, usize)| match self.direct.places_are_rows {
            true => Block { m: places, n: channels, k },
            false => Block { m: channels, n: places, k },
        };
        let blocks = [registers, near, far].into_iter().map(block).collect();
        Variant { family: FAMILY, tile: Tile { blocks }, copied: self.direct.copied(), products: None }
    }

    /// Bytes of all windows, each written out.
    pub(super) fn windows(&self) -> u64 {
        let d = &self.direct;
        let elements = (d.batch as u64).saturating_mul(d.places.len() as u64).saturating_mul(d.depths.len() as u64);
        elements.saturating_mul(size_of::<f32>() as u64)
    }

    /// Bytes of scratch memory.
    pub(super) fn workspace(&self) -> usize {
        self.direct.scratch() * size_of::<f32>() + ALIGN
    }

    /// Computes it, if the memory allows it.
    pub(super) fn run(
        &self,
        machine: &Machine,
        bindings: &Bindings<'_>,
        (lhs, rhs): (&Operand, &Operand),
        out: &Output<'_, f32>,
        room: &mut [u8],
    ) -> Result<bool> {
        let origin = origin(find(bindings.inputs, self.input)?, DType::F32)?;
        let (low, high) = self.reach;
        let inside = -origin.before <= low && high < origin.after;
        let skip = room.as_ptr().align_offset(ALIGN);
        let elements = self.direct.scratch();
        if !inside || !is_aligned(origin.base, DType::F32) || room.len() < skip + elements * size_of::<f32>() {
            return Ok(false);
        }
        // SAFETY: the room has these bytes from the aligned place on; any bytes are numbers.
        let scratch = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().add(skip).cast::<f32>(), elements) };
        let operand = if self.direct.places_are_rows { rhs } else { lhs };
        let source = operand.source::<f32>(bindings)?;
        let (layout, side) = (self.direct.layout(), if self.direct.places_are_rows { Side::B } else { Side::A });
        let kept = if self.direct.batch == 1 || source.same_for_batch() {
            operand.kept(bindings, &*source, (product_isa(machine.isa), side), layout, &machine.workers)?
        } else {
            None
        };
        let filters = match kept.as_ref().and_then(|form| packed(form, &layout)) {
            Some(packed) => Filters::Packed(packed),
            None => Filters::Source(&*source),
        };
        let image = origin.base.cast::<f32>().wrapping_offset(self.base);
        // SAFETY: every element that guards allow lies in the operand's memory, as was checked; the caller of the launch keeps
        // it alive and unwritten. The output is this contraction's.
        unsafe { self.direct.run(&machine.workers, image, &filters, out, scratch) };
        Ok(true)
    }

    /// What is done, in a few words.
    pub(super) fn describe(&self) -> String {
        let copied = self
            .direct
            .border
            .as_ref()
            .map_or(String::new(), |b| format!(", copied with its border ({} elements)", b.elements()));
        format!("input {} is read where it lies{copied}\n", self.input)
    }
}
