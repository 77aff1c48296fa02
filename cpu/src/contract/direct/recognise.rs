//! Contractions of which one operand is read in place, element by element: which ones, what they cost, and where their numbers lie.

use std::ops::Range;

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, Family, Tile, Traffic, Variant};
use millstream_core::what::{ImageSide, WindowAxis, elements};
use millstream_core::{Access, DType, Expr, Op, Result};

use super::{Border, Direct, Filters, ImageReading, Sets};
use crate::contract::cached::CachedForm;
use crate::contract::gemm_isa;
use crate::contract::operand::as_stored;
use crate::contract::packed::{Micro, Side};
use crate::contract::view::View;
use crate::contract::way::{Asked, InPlace, Parts, Ran, Way, bytes_of, numbers};

/// The family of this kernel.
pub(in crate::contract) const FAMILY: Family = Family::new("direct");
/// Entries beyond which tables would take more memory than they are worth.
const MOST_ENTRIES: usize = 1 << 20;
/// Columns of a matrix of which the last vectors of a GEMM's panels would be mostly empty.
const NARROW: usize = 256;
/// K indices from which on such a matrix is worth another way.
const LEAST_K: usize = 256;
/// Elements whose multiples lie in the same set of L1, and planes that are too few to crowd it.
const CROWDING: isize = 1024;
const FEW_PLANES: usize = 4;

/// A contraction that is computed so.
pub(in crate::contract) struct DirectWay {
    kernel: Direct,
    /// The operand that is not packed.
    image: InPlace,
    /// Matrices of the batch after which filters are the same again.
    matrices: usize,
}

/// Indices of a group of dimensions.
fn size(op: &Op, group: Range<usize>) -> usize {
    elements(&op.dims[group])
}

/// Whether planes of an image lie so far apart that their elements crowd a few sets of L1.
fn crowds(access: &Access, op: &Op, channels: &[usize]) -> bool {
    let crowded = |d: usize| access.strides[d] != 0 && access.strides[d] % CROWDING == 0;
    channels.iter().any(|&d| op.dims[d] > FEW_PLANES && crowded(d))
}

/// The operand's view of an operation, with these rows.
fn view_of(asked: &Asked<'_>, access: &Access, rows: Range<usize>) -> View {
    let (op, c) = (asked.op, asked.contract);
    View::new(access, &op.dims, 0..c.m, rows, c.k..op.dims.len())
}

/// The input that is an image, or a matrix that need not be packed, and whether it is the left operand.
fn image(asked: &Asked<'_>) -> Option<(usize, bool)> {
    let (op, c, isa) = (asked.op, asked.contract, asked.machine.isa);
    // Filters that are the same for every matrix of the batch. Narrow panels of those that do not lie one after the other, as those of a
    // convolution do, are left to the packed GEMM: nobody has measured them here.
    let filters = as_stored::<f32>(&c.rhs, c.acc).and_then(|i| op.inputs.get(i)).filter(|a| a.is_plain());
    let filters = filters.is_some_and(|a| {
        let same = (0..c.m).all(|d| op.dims[d] == 1 || a.ignores(d));
        let scattered = view_of(asked, a, c.n..c.k).col.single() != Some(1);
        same && !(scattered && Direct::is_narrow(isa))
    });
    // An operand that is one input, stored as it is summed, but no matrix in memory that a GEMM packs well.
    let windows = |expr: &Expr, rows: Range<usize>| -> Option<usize> {
        let i = as_stored::<f32>(expr, c.acc)?;
        let access = op.inputs.get(i).filter(|a| a.dtype == DType::F32)?;
        let view = view_of(asked, access, rows.clone());
        let (row, col) = match (view.is_plain(), view.row.single(), view.col.single()) {
            (true, Some(row), Some(col)) => (row, col),
            _ => return Some(i),
        };
        let (columns, panel) = (view.row.size, Micro::new(gemm_isa(isa))?.panel());
        let well = if rows.start == c.m {
            // Rows with contiguous K need not be packed at all. Measured: narrow panels read long ones too often.
            col != 1 || !filters || Direct::is_narrow(isa) && view.col.size >= LEAST_K
        } else {
            // Where columns are few, an empty part of the last panel counts.
            let narrow = columns < NARROW && columns > panel && columns % panel != 0;
            !narrow || view.col.size < LEAST_K || row != 1
        };
        (!well).then_some(i)
    };
    let guarded = |i: &usize| !op.inputs[*i].is_plain();
    // Of two, the one with a border is the image.
    match (windows(&c.lhs, c.m..c.n), windows(&c.rhs, c.n..c.k)) {
        (Some(i), r) if guarded(&i) || r.is_none() => Some((i, true)),
        (_, Some(i)) => Some((i, false)),
        _ => None,
    }
}

/// Which elements of windows exist, where those that do not count as zero and can be left out.
fn sets(asked: &Asked<'_>, access: &Access, pixels: &Range<usize>, axes: &[WindowAxis]) -> Option<Sets> {
    if access.fill.get() != Some(0.0f32) {
        return None;
    }
    let coordinates = |axis: &WindowAxis| -> Option<_> {
        let along = Access::new(DType::F32, &axis.coefficients(asked.op.dims.len()));
        let along = view_of(asked, &along, pixels.clone());
        let list = |list: Vec<isize>, before: isize| -> Option<Vec<i32>> {
            list.into_iter().map(|x| i32::try_from(x - before).ok()).collect()
        };
        let (pixels, taps) = (list(along.row.offsets(), axis.before)?, list(along.col.offsets(), 0)?);
        Some((pixels, taps, i32::try_from(axis.size).ok()?))
    };
    let padded = axes.iter().filter(|axis| axis.is_padded());
    Sets::new(&padded.map(coordinates).collect::<Option<Vec<_>>>()?)
}

impl DirectWay {
    /// The contraction, if one operand is an image with windows, or a matrix that need not be packed, and this machine has kernels for
    /// it.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<DirectWay> {
        let (op, c, machine) = (asked.op, asked.contract, asked.machine);
        if c.acc != DType::F32 || !Direct::available(machine.isa) {
            return None;
        }
        let (input, pixels_are_rows) = image(asked)?;
        let (pixels, channels) = if pixels_are_rows { (c.m..c.n, c.n..c.k) } else { (c.n..c.k, c.m..c.n) };
        let access = &op.inputs[input];
        // Where pixels are not neighbours and no two windows share an element, a copy of what is read makes them neighbours.
        let moves = |d: usize| op.dims[d] > 1 && access.strides[d] != 0;
        let inner = pixels.clone().filter(|&d| moves(d)).map(|d| access.strides[d].abs()).min();
        let reads = (c.m..op.dims.len()).filter(|&d| moves(d)).fold(1, |n: usize, d| n.saturating_mul(op.dims[d]));
        let mut own = op.dims.to_vec();
        own[..c.m].fill(1);
        let single = !pixels_are_rows && access.distinct(&own) >= reads;
        let sparse = inner.is_some_and(|s| s > 1) && single;
        let (pixel_count, k_len) = (size(op, pixels.clone()), size(op, c.k..op.dims.len()));
        let of_batch = size(op, 0..c.m);
        if pixel_count.saturating_add(k_len).saturating_add(of_batch) > MOST_ENTRIES {
            return None;
        }
        let plain = view_of(asked, access, pixels.clone());
        let filters = as_stored::<f32>(if pixels_are_rows { &c.rhs } else { &c.lhs }, c.acc);
        let same = |d: usize| op.dims[d] == 1 || filters.is_some_and(|i| op.inputs[i].ignores(d));
        let matrices = size(op, (0..c.m).find(|&d| !same(d)).unwrap_or(c.m)..c.m);
        let way = |reading: ImageReading, strides: &[isize]| {
            let walked = view_of(asked, &Access::new(DType::F32, strides), pixels.clone());
            let tables = (walked.row.offsets(), walked.col.offsets());
            let batches = (plain.batch.offsets(), matrices == 1);
            let on = (machine.isa, asked.threads, &machine.topology);
            Direct::new(on, batches, size(op, channels.clone()), pixels_are_rows, tables, reading)
        };
        let direct = if access.is_plain() && single && reads == pixel_count * k_len {
            way(ImageReading::Tiles, &access.strides)
        } else if access.is_plain() && !sparse {
            way(ImageReading::InPlace, &access.strides)
        } else {
            let windows = asked.windows(if pixels_are_rows { ImageSide::Left } else { ImageSide::Right });
            let axes = if access.is_plain() { &[][..] } else { &windows?.axes };
            let sets = sets(asked, access, &pixels, axes);
            let copied = match Border::new(access, &op.dims, c.m..op.dims.len(), axes) {
                None if !access.is_plain() => None,
                None => way(ImageReading::InPlace, &access.strides),
                Some((border, strides)) => way(ImageReading::Border(border, sets.clone()), &strides),
            };
            let badly = sparse || windows.is_some_and(|w| crowds(access, op, &w.channels));
            let inside = sets.filter(|_| !badly || copied.is_none());
            let inside = inside.and_then(|sets| way(ImageReading::Inside(sets), &access.strides));
            let rate = machine.reference.rate(DType::F32);
            let seconds = |direct: &Direct| {
                let copying = direct.copy_elements().map_or(0.0, |elements| 1e-9 * machine.walks.image_copy(elements));
                2.0 * direct.occupied() as f64 / rate + copying
            };
            inside.into_iter().chain(copied).min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
        };
        let image = InPlace::new(input, access, &op.dims)?;
        Some(DirectWay { kernel: direct?, image, matrices })
    }
}

impl Way for DirectWay {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let direct = &self.kernel;
        let (registers, near, far) = direct.blocks();
        let block = |(channels, pixels, k): (usize, usize, usize)| match direct.pixels_are_rows {
            true => Block { m: pixels, n: channels, k },
            false => Block { m: channels, n: pixels, k },
        };
        // There are kernels for any number of pixels, and of vectors of channels.
        let edges = if direct.pixels_are_rows { (1, direct.lanes()) } else { (direct.lanes(), 1) };
        let filters = if direct.is_matrix() { asked.beside_matrix(Side::B) } else { 0 };
        let traffic = Traffic {
            tile: Tile::new([registers, near, far].map(block)),
            copied: (direct.copied() + direct.transposed()).saturating_add(filters),
            computed: Some(direct.computed()),
            tasks: Some(direct.tasks()),
            edges: Some(edges),
            ..Traffic::default()
        };
        vec![Candidate::new(Variant::plain(FAMILY), traffic)]
    }

    fn workspace(&self) -> usize {
        bytes_of(self.kernel.scratch())
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let Some(image) = self.image.first(bindings)? else { return Ok(Ran::ODD) };
        let Some(scratch) = numbers(room, self.kernel.scratch()) else { return Ok(Ran::ROOM) };
        let workers = &parts.machine.workers;
        let (operand, side) = if self.kernel.pixels_are_rows { (&parts.rhs, Side::B) } else { (&parts.lhs, Side::A) };
        let (layout, source) = (self.kernel.layout(), operand.source::<f32>(bindings)?);
        let how = (gemm_isa(parts.machine.isa), side, None);
        let matrices = if source.same_for_batch() { 1 } else { self.matrices };
        let form = operand.packed_once(bindings, &*source, how, (layout, matrices), workers)?;
        let filters = match form.as_ref().and_then(CachedForm::elements) {
            Some(packed) => Filters::Packed(packed),
            None => Filters::Source(&*source),
        };
        parts.epilogue.with_output(bindings, |out| {
            // SAFETY: every element that guards allow lies in the operand's memory, as was checked; the caller of the launch keeps
            // it alive and unwritten. The output is this contraction's.
            unsafe { self.kernel.run(workers, image, &filters, out, scratch) };
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        let from = match self.kernel.copied() {
            0 => "in place".to_string(),
            copied => format!("a copy of {copied} bytes"),
        };
        format!("input {} is read element by element, {from}\n", self.image.input)
    }
}
