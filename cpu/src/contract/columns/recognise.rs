//! Contractions whose right operand is taken some columns at a time, in place: which ones, what they cost, and where their numbers lie.

use std::ops::Range;

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, Family, Tile, Traffic, Variant};
use millstream_core::what::{ImageSide, Windows, elements};
use millstream_core::{Access, DType, Op, Result};

use super::{Columns, ImagePart, PixelLines, Right};
use crate::contract::cached::CachedForm;
use crate::contract::direct::{Border, Filters};
use crate::contract::gemm_isa;
use crate::contract::operand::as_stored;
use crate::contract::packed::Side;
use crate::contract::view::View;
use crate::contract::way::{Asked, InPlace, Parts, Ran, Way, bytes_of, numbers};

/// The family of this kernel.
pub(in crate::contract) const FAMILY: Family = Family::new("columns");
/// Entries beyond which tables would take more memory than they are worth.
const MOST_ENTRIES: usize = 1 << 20;

/// A contraction that is computed so.
pub(in crate::contract) struct ColumnsWay {
    kernel: Columns,
    /// The operand that is not packed.
    right: InPlace,
}

/// Indices of a group of dimensions.
fn size(op: &Op, group: Range<usize>) -> usize {
    elements(&op.dims[group])
}

/// The windows of an image with a border: each task copies those rows of it that it needs, such that pixels a stride apart become neighbours.
fn windows_of(access: &Access, windows: &Windows, asked: &Asked<'_>) -> Option<PixelLines> {
    let (op, c, isa) = (asked.op, asked.contract, asked.machine.isa);
    // Two dimensions of pixels: lines, and pixels of a line.
    let is_padded = |i: &usize| windows.axes[*i].is_padded() && windows.axes[*i].output.is_some();
    let mut padded = (0..windows.axes.len()).filter(is_padded);
    let (Some(a), Some(b), 2) = (padded.next(), padded.next(), c.k - c.n) else { return None };
    let by = |i: usize| windows.axes[i].step.unsigned_abs() * windows.axes[i].stride;
    let (outer, inner) = if by(a) >= by(b) { (a, b) } else { (b, a) };
    let (lines, line) = (windows.axes[outer], windows.axes[inner]);
    let (outer_dim, stride) = (lines.output?, line.stride);
    let moving = c.n..op.dims.len();
    // As few lines for each task as leave some for every thread, and as their copy stays near; but several, so that the image is known
    // to move from one to the next.
    let mut tasks = super::tasks(asked.threads);
    let l2 = asked.machine.topology.l2().size / size_of::<f32>();
    let (mut dims, mut axes) = (op.dims.to_vec(), windows.axes.clone());
    let (border, strides) = loop {
        let some = lines.outputs.div_ceil(tasks).max(2);
        (dims[outer_dim], axes[outer]) = (some, lines.with_outputs(some));
        let (border, strides) = Border::in_phases(access, &dims, moving.clone(), &axes, stride)?;
        if some == 2 || border.elements() <= l2 / 8 {
            break (border, strides);
        }
        tasks *= 2;
    };
    // Windows that are so high, or images of so many planes, that each task would copy much for few lines.
    if border.elements() > l2 / 2 || !border.is_image(outer, inner) {
        return None;
    }
    let view =
        |strides: &[isize]| View::new(&Access::new(DType::F32, strides), &dims, 0..c.m, c.n..c.k, c.k..op.dims.len());
    let usual = view(&strides);
    let (mut pixels, mut k_offsets) = (usual.row.offsets(), usual.col.offsets());
    if stride > 1 {
        // Coordinates along the axis that has another order.
        let along = view(&line.coefficients(dims.len()));
        let phases = border.phases();
        for (offset, x) in pixels.iter_mut().zip(along.row.offsets()) {
            *offset += x / stride as isize - x;
        }
        for (offset, x) in k_offsets.iter_mut().zip(along.col.offsets()) {
            *offset += phases.at(x) - x;
        }
    }
    let part = ImagePart { border, stride: lines.stride, tasks: tasks.min(lines.outputs) };
    PixelLines::copied(isa, line.outputs, &pixels, &k_offsets, part)
}

impl ColumnsWay {
    /// The contraction, if its right operand is a matrix whose columns are contiguous, or can be copied so, and this machine has
    /// kernels for it.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<ColumnsWay> {
        let (op, c, isa) = (asked.op, asked.contract, asked.machine.isa);
        if c.acc != DType::F32 || !Columns::available(isa) {
            return None;
        }
        let (left, input) = (as_stored::<f32>(&c.lhs, c.acc)?, as_stored::<f32>(&c.rhs, c.acc)?);
        // Filters that are others for each matrix are better packed by the GEMM, which takes the whole batch at once.
        let left = op.inputs.get(left)?;
        if (0..c.m).any(|d| op.dims[d] > 1 && !left.ignores(d)) || size(op, 0..c.m) > MOST_ENTRIES {
            return None;
        }
        // The left operand is packed as a whole, where the packed GEMM would pack a part at a time.
        let most = 2 * asked.machine.topology.l2().size / size_of::<f32>();
        if size(op, c.m..c.n).saturating_mul(size(op, c.k..op.dims.len())) > most {
            return None;
        }
        let access = op.inputs.get(input).filter(|a| a.dtype == DType::F32)?;
        let view = |strides: &[isize]| {
            View::new(&Access::new(DType::F32, strides), &op.dims, 0..c.m, c.n..c.k, c.k..op.dims.len())
        };
        let sizes = (size(op, c.m..c.n), size(op, c.n..c.k), size(op, c.k..op.dims.len()));
        let rows = |strides: &[isize]| {
            let view = view(strides);
            view.col.single().filter(|_| view.row.single() == Some(1))
        };
        let plain = Some(&access.strides[..]).filter(|_| access.is_plain());
        let right = match plain.and_then(rows) {
            Some(stride) => Right::Rows(stride, None),
            None => {
                let few = PixelLines::available(isa) && sizes.1.saturating_add(sizes.2) <= MOST_ENTRIES;
                let in_memory = |strides: &[isize]| {
                    let view = view(strides);
                    PixelLines::in_memory(isa, &view.row.offsets(), &view.col.offsets())
                };
                match (plain.filter(|_| few).and_then(in_memory), plain) {
                    (Some(windows), _) => Right::Windows(windows),
                    (None, None) if !few => return None,
                    (None, None) => {
                        let windows = asked.windows(ImageSide::Right)?;
                        Right::Windows(windows_of(access, windows, asked)?)
                    }
                    (None, Some(_)) => {
                        // Pixels with gaps between them, each read once.
                        let moving = c.m..op.dims.len();
                        let moves = |d: &usize| op.dims[*d] > 1 && access.strides[*d] != 0;
                        let reads = moving.clone().filter(moves).fold(1, |n: usize, d| n.saturating_mul(op.dims[d]));
                        let (border, found) = Border::new(access, &op.dims, moving, &[])?;
                        let stride = rows(&found)?;
                        let mut own = op.dims.to_vec();
                        own[..c.m].fill(1);
                        if access.distinct(&own) < reads || reads < sizes.1.saturating_mul(sizes.2) {
                            return None;
                        }
                        Right::Rows(stride, Some(border))
                    }
                }
            }
        };
        let caches = &asked.machine.topology;
        let columns = Columns::new((isa, asked.threads, caches), sizes, view(&access.strides).batch.offsets(), right)?;
        Some(ColumnsWay { kernel: columns, right: InPlace::new(input, access, &op.dims)? })
    }
}

impl Way for ColumnsWay {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let columns = &self.kernel;
        let tile = Tile::new(columns.blocks().into_iter().map(|(m, n, k)| Block { m, n, k }));
        // There are kernels for any number of rows, and of vectors; with one vector of columns they mostly wait for accumulators.
        let edges = Some((1, 2 * columns.lanes()));
        let traffic = Traffic {
            tile,
            copied: columns.copied().saturating_add(asked.beside_matrix(Side::A)),
            edges,
            ..Traffic::default()
        };
        vec![Candidate::new(Variant::plain(FAMILY), traffic)]
    }

    fn workspace(&self) -> usize {
        bytes_of(self.kernel.scratch())
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let Some(right) = self.right.first(bindings)? else { return Ok(Ran::ODD) };
        let Some(scratch) = numbers(room, self.kernel.scratch()) else { return Ok(Ran::ROOM) };
        let (workers, isa) = (&parts.machine.workers, gemm_isa(parts.machine.isa));
        let (layout, source) = (self.kernel.layout(), parts.lhs.source::<f32>(bindings)?);
        let form = parts.lhs.packed_once(bindings, &*source, (isa, Side::A, None), (layout, 1), workers)?;
        let filters = match form.as_ref().and_then(CachedForm::elements) {
            Some(packed) => Filters::Packed(packed),
            None => Filters::Source(&*source),
        };
        // Columns that are cached need not be copied.
        let columns = match self.kernel.right_layout().filter(|_| self.kernel.batches.len() == 1) {
            Some(layout) => {
                let source = parts.rhs.source::<f32>(bindings)?;
                parts.rhs.packed_once(bindings, &*source, (isa, Side::B, None), (layout, 1), workers)?
            }
            None => None,
        };
        let columns = columns.as_ref().and_then(CachedForm::elements);
        parts.epilogue.with_output(bindings, |out| {
            // SAFETY: every element that guards allow lies in the operand's memory, as was checked; the caller of the launch keeps
            // it alive and unwritten. The output is this contraction's.
            unsafe { self.kernel.run(workers, right, columns, &filters, out, scratch) };
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        let from = match self.kernel.copied() {
            0 => "in place".to_string(),
            copied => format!("a copy of {copied} bytes"),
        };
        format!("input {} is read {} columns at a time, {from}\n", self.right.input, self.kernel.panel())
    }
}
