//! Contractions of which one operand is read where it lies: see [`crate::direct`]. This finds out which ones, and makes their
//! tables.

use std::ops::Range;

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, Family, Tile, Traffic, Variant};
use millstream_core::what::{self, ImageSide, elements};
use millstream_core::{Access, Body, DType, Expr, Op, Result};

use super::operand::{Operand, as_stored, find, is_aligned, origin, packed};
use super::product_isa;
use super::view::{Tables, View, reach};
use crate::backend::Machine;
use crate::columns::{self, Columns, Part, Right, Windows};
use crate::direct::{Border, Direct, Filters, Reading, Sets};
use crate::gemm::{Micro, Output, Side};
use crate::simd::Isa;

/// The families of these kernels.
pub(super) const DIRECT: Family = Family::new("direct");
pub(super) const COLUMNS: Family = Family::new("columns");
/// Entries beyond which tables would take more memory than they are worth.
const MOST_ENTRIES: usize = 1 << 20;
/// Columns of a matrix of which the last vectors of a product's panels would be mostly empty.
const NARROW: usize = 256;
/// Depths from which on such a matrix is worth another way.
const LEAST_DEEP: usize = 256;
/// Elements of a left operand that columns are multiplied with: it is packed as a whole, where a product would pack a part at a time.
const MOST_LEFT: usize = 1 << 19;
/// Elements whose multiples lie in the same set of the first-level cache, and planes that are too few to crowd it.
const CROWDING: isize = 1024;
const FEW_PLANES: usize = 4;
/// Elements that a task copies of an image: as many as leave room in a second-level cache, and at most.
const COPIED: usize = 1 << 15;
const MOST_COPIED: usize = 1 << 17;
/// The alignment of scratch memory: whole vectors.
const ALIGN: usize = 64;

/// A contraction that reads one operand where it lies.
pub(super) struct InPlace {
    way: Way,
    /// The input that is read so, and its element of index 0.
    input: usize,
    base: isize,
    /// The elements that it may read, from the binding's first.
    reach: (isize, isize),
    /// Products after which filters are the same again.
    products: usize,
}

enum Way {
    /// Windows of an image, the rows of a matrix, or the columns of a narrow one, by vectors of channels.
    Direct(Direct),
    /// A matrix by vectors of its columns.
    Columns(Columns),
}

/// Indices of a group of dimensions.
fn size(op: &Op, group: Range<usize>) -> usize {
    elements(&op.dims[group])
}

/// Strides of both operands from row to row and from depth to depth, of those that are matrices in memory.
pub(super) fn strides(op: &Op) -> [Option<(isize, isize)>; 2] {
    let Body::Contract(c) = &op.body else { return [None; 2] };
    [(&c.lhs, c.m..c.n), (&c.rhs, c.n..c.k)].map(|(expr, rows)| {
        let access = op.inputs.get(as_stored::<f32>(expr, c.acc)?).filter(|a| a.dtype == DType::F32 && a.is_plain())?;
        let view = View::new(access, &op.dims, 0..c.m, rows, c.k..op.dims.len());
        Some((view.row.single()?, view.depth.single()?))
    })
}

/// Whether planes of an image lie so far apart that their elements crowd a few sets of the first-level cache.
fn crowds(access: &Access, op: &Op, channels: &[usize]) -> bool {
    let apart = |d: usize| access.strides[d] != 0 && access.strides[d] % CROWDING == 0;
    channels.iter().any(|&d| op.dims[d] > FEW_PLANES && apart(d))
}

/// The windows of an image with a border: each task copies those rows of it that it needs, such that places a stride apart become neighbours.
fn windows_of(access: &Access, op: &Op, shape: &what::Windows, (isa, threads): (Isa, usize)) -> Option<Windows> {
    let Body::Contract(c) = &op.body else { return None };
    // Two dimensions of places: lines, and places of a line.
    let mut lines = shape.axes.iter().filter_map(|axis| Some((axis.output?, axis.guard?, axis)));
    let (Some(a), Some(b), 2) = (lines.next(), lines.next(), c.k - c.n) else { return None };
    let by = |d: usize| access.strides[d].abs();
    let ((outer, outer_guard, _), (inner, inner_guard, line)) = if by(a.0) >= by(b.0) { (a, b) } else { (b, a) };
    let stride = line.stride;
    let moving = c.n..op.dims.len();
    // As few lines for each task as leave some for every thread, and as their copy stays near; but several, so that the image is known
    // to move from one to the next.
    let all = op.dims[outer];
    let mut tasks = columns::tasks(threads);
    let mut dims = op.dims.to_vec();
    let (border, strides) = loop {
        dims[outer] = all.div_ceil(tasks).max(2);
        let (border, strides) = Border::in_phases(access, &dims, moving.clone(), stride)?;
        if dims[outer] == 2 || border.elements() <= COPIED {
            break (border, strides);
        }
        tasks *= 2;
    };
    // Windows that are so high, or images of so many planes, that each task would copy much for few lines.
    if border.elements() > MOST_COPIED {
        return None;
    }
    let phases = border.phases();
    if !border.is_second(outer_guard) || stride > 1 && phases.guard != inner_guard {
        return None;
    }
    let view =
        |strides: &[isize]| View::new(&Access::new(DType::F32, strides), &dims, 0..c.m, c.n..c.k, c.k..op.dims.len());
    let usual = view(&strides);
    let (mut places, mut depths) = (usual.row.offsets(), usual.depth.offsets());
    if stride > 1 {
        // Coordinates along the axis that has another order.
        let along = view(&access.guards[inner_guard].coefficients);
        for (offset, x) in places.iter_mut().zip(along.row.offsets()) {
            if x < 0 || x % stride as isize != 0 {
                return None;
            }
            *offset += x / stride as isize - x;
        }
        for (offset, x) in depths.iter_mut().zip(along.depth.offsets()) {
            let x = Some(phases.first + x).filter(|x| *x >= 0)?;
            *offset += phases.at(x) - x;
        }
    }
    let part = Part { border, apart: access.guards[outer_guard].coefficients[outer], tasks: tasks.min(all) };
    Windows::copied(isa, op.dims[inner], &places, &depths, part)
}

impl InPlace {
    /// The contraction by a family of these kernels on so many threads, if it is one of them and can be computed so.
    pub(super) fn of(
        family: &Family,
        op: &Op,
        readings: &[what::Windows],
        (isa, threads): (Isa, usize),
    ) -> Option<InPlace> {
        match () {
            () if *family == DIRECT => InPlace::direct(op, readings, isa, threads),
            () if *family == COLUMNS => InPlace::columns(op, readings, isa, threads),
            () => None,
        }
    }

    /// The contraction, if its right operand is a matrix whose columns lie side by side, or can be copied so, and this machine has
    /// kernels for it.
    pub(super) fn columns(op: &Op, readings: &[what::Windows], isa: Isa, threads: usize) -> Option<InPlace> {
        let Body::Contract(c) = &op.body else { return None };
        if c.acc != DType::F32 || !Columns::available(isa) {
            return None;
        }
        let (left, input) = (as_stored::<f32>(&c.lhs, c.acc)?, as_stored::<f32>(&c.rhs, c.acc)?);
        // Filters that are others for each product are better packed by a product that takes the whole batch at once.
        let left = op.inputs.get(left)?;
        if (0..c.m).any(|d| op.dims[d] > 1 && !left.ignores(d)) || size(op, 0..c.m) > MOST_ENTRIES {
            return None;
        }
        // The left operand is packed as a whole.
        if size(op, c.m..c.n).saturating_mul(size(op, c.k..op.dims.len())) > MOST_LEFT {
            return None;
        }
        let access = op.inputs.get(input).filter(|a| a.dtype == DType::F32)?;
        let view = |strides: &[isize]| {
            View::new(&Access::new(DType::F32, strides), &op.dims, 0..c.m, c.n..c.k, c.k..op.dims.len())
        };
        let sizes = (size(op, c.m..c.n), size(op, c.n..c.k), size(op, c.k..op.dims.len()));
        let rows = |strides: &[isize]| {
            let view = view(strides);
            view.depth.single().filter(|_| view.row.single() == Some(1))
        };
        let plain = Some(&access.strides[..]).filter(|_| access.is_plain());
        let right = match plain.and_then(rows) {
            Some(apart) => Right::Rows(apart, None),
            None => {
                let few = Windows::available(isa) && sizes.1.saturating_add(sizes.2) <= MOST_ENTRIES;
                let in_place = |strides: &[isize]| {
                    let view = view(strides);
                    Windows::in_place(isa, &view.row.offsets(), &view.depth.offsets())
                };
                match (plain.filter(|_| few).and_then(in_place), plain) {
                    (Some(windows), _) => Right::Windows(windows),
                    (None, None) if !few => return None,
                    (None, None) => {
                        let shape = readings.iter().find(|w| w.side == ImageSide::Right)?;
                        Right::Windows(windows_of(access, op, shape, (isa, threads))?)
                    }
                    (None, Some(_)) => {
                        // Places that are apart, each read once.
                        let moving = c.m..op.dims.len();
                        let apart = |d: &usize| op.dims[*d] > 1 && access.strides[*d] != 0;
                        let reads = moving.clone().filter(apart).fold(1, |n: usize, d| n.saturating_mul(op.dims[d]));
                        let (border, found) = Border::new(access, &op.dims, moving)?;
                        let apart = rows(&found)?;
                        let mut own = op.dims.to_vec();
                        own[..c.m].fill(1);
                        if access.distinct(&own) < reads || reads < sizes.1.saturating_mul(sizes.2) {
                            return None;
                        }
                        Right::Rows(apart, Some(border))
                    }
                }
            }
        };
        let columns = Columns::new((isa, threads), sizes, view(&access.strides).batch.offsets(), right)?;
        let reach = reach(access, &op.dims)?;
        Some(InPlace { way: Way::Columns(columns), input, base: access.base, reach, products: 1 })
    }

    /// The contraction, if one operand is an image with windows, or a matrix that need not be packed, and this machine has kernels for
    /// it.
    pub(super) fn direct(op: &Op, readings: &[what::Windows], isa: Isa, threads: usize) -> Option<InPlace> {
        let Body::Contract(c) = &op.body else { return None };
        if c.acc != DType::F32 || !Direct::available(isa) {
            return None;
        }
        let view = |access: &Access, rows: Range<usize>| View::new(access, &op.dims, 0..c.m, rows, c.k..op.dims.len());
        // Filters that are the same for every product. Narrow panels of those that do not lie one after the other, as those of a
        // convolution do, are left to the packed product: nobody has measured them here.
        let filters = as_stored::<f32>(&c.rhs, c.acc).and_then(|i| op.inputs.get(i)).filter(|a| a.is_plain());
        let filters = filters.is_some_and(|a| {
            let same = (0..c.m).all(|d| op.dims[d] == 1 || a.ignores(d));
            let apart = view(a, c.n..c.k).depth.single() != Some(1);
            same && !(apart && Direct::is_narrow(isa))
        });
        // An operand that is one input, stored as it is summed, but no matrix in memory that a product packs well.
        let windows = |expr: &Expr, rows: Range<usize>| -> Option<usize> {
            let i = as_stored::<f32>(expr, c.acc)?;
            let access = op.inputs.get(i).filter(|a| a.dtype == DType::F32)?;
            let view = view(access, rows.clone());
            let (row, depth) = match (view.is_plain(), view.row.single(), view.depth.single()) {
                (true, Some(row), Some(depth)) => (row, depth),
                _ => return Some(i),
            };
            let (columns, panel) = (view.row.size, Micro::new(product_isa(isa))?.panel());
            let well = if rows.start == c.m {
                // Rows with their depths side by side need not be packed at all. Measured: narrow panels read long ones too often.
                depth != 1 || !filters || Direct::is_narrow(isa) && view.depth.size >= LEAST_DEEP
            } else {
                // Where columns are few, an empty part of the last panel counts.
                let narrow = columns < NARROW && columns > panel && columns % panel != 0;
                !narrow || view.depth.size < LEAST_DEEP || row != 1
            };
            (!well).then_some(i)
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
        let reads = (c.m..op.dims.len()).filter(|&d| apart(d)).fold(1, |n: usize, d| n.saturating_mul(op.dims[d]));
        let mut own = op.dims.to_vec();
        own[..c.m].fill(1);
        let single = !places_are_rows && access.distinct(&own) >= reads;
        let sparse = inner.is_some_and(|s| s > 1) && single;
        let (of_places, of_depths) = (size(op, places.clone()), size(op, c.k..op.dims.len()));
        let of_batch = size(op, 0..c.m);
        if of_places.saturating_add(of_depths).saturating_add(of_batch) > MOST_ENTRIES {
            return None;
        }
        let plain = view(access, places.clone());
        let filters = as_stored::<f32>(if places_are_rows { &c.rhs } else { &c.lhs }, c.acc);
        let same = |d: usize| op.dims[d] == 1 || filters.is_some_and(|i| op.inputs[i].ignores(d));
        let products = size(op, (0..c.m).find(|&d| !same(d)).unwrap_or(c.m)..c.m);
        let way = |reading: Reading, strides: &[isize]| {
            let walked = view(&Access::new(DType::F32, strides), places.clone());
            let tables = (walked.row.offsets(), walked.depth.offsets());
            let batches = (plain.batch.offsets(), products == 1);
            Direct::new((isa, threads), batches, size(op, channels.clone()), places_are_rows, tables, reading)
        };
        let direct = if access.is_plain() && single && reads == of_places * of_depths {
            way(Reading::Tiles, &access.strides)
        } else if access.is_plain() && !sparse {
            way(Reading::InPlace, &access.strides)
        } else {
            // What does not exist and counts as zero is left out.
            let zero = !access.is_plain() && access.fill.get() == Some(0.0f32);
            let guards = if zero { Tables::guards(&plain) } else { None };
            let sets = guards.and_then(|guards| Sets::new(&guards));
            let copied = match Border::new(access, &op.dims, c.m..op.dims.len()) {
                None if !access.is_plain() => None,
                None => way(Reading::InPlace, &access.strides),
                Some((border, strides)) => way(Reading::Border(border, sets.clone()), &strides),
            };
            let shape = readings.iter().find(|w| w.pixels_are_rows() == places_are_rows);
            let badly = sparse || shape.is_some_and(|w| crowds(access, op, &w.channels));
            let inside = sets.filter(|_| !badly || copied.is_none());
            let inside = inside.and_then(|sets| way(Reading::Inside(sets), &access.strides));
            inside.into_iter().chain(copied).min_by_key(Direct::effort)
        };
        let reach = reach(access, &op.dims)?;
        Some(InPlace { way: Way::Direct(direct?), input, base: access.base, reach, products })
    }

    /// This way to compute it, for the cost model.
    pub(super) fn candidate(&self) -> Candidate {
        let (family, copied, tasks) = match &self.way {
            Way::Direct(direct) => (DIRECT, direct.copied() + direct.turned(), Some(direct.tasks())),
            Way::Columns(columns) => (COLUMNS, columns.copied(), None),
        };
        let blocks = match &self.way {
            Way::Direct(direct) => {
                let (registers, near, far) = direct.blocks();
                let block = |(channels, places, k): (usize, usize, usize)| match direct.places_are_rows {
                    true => Block { m: places, n: channels, k },
                    false => Block { m: channels, n: places, k },
                };
                [registers, near, far].into_iter().map(block).collect()
            }
            Way::Columns(columns) => columns.blocks().into_iter().map(|(m, n, k)| Block { m, n, k }).collect(),
        };
        // There are kernels for any number of places or rows, and of vectors; with one vector of columns they mostly wait for sums.
        let edges = match &self.way {
            Way::Direct(direct) if direct.places_are_rows => (1, direct.lanes()),
            Way::Direct(direct) => (direct.lanes(), 1),
            Way::Columns(columns) => (1, 2 * columns.lanes()),
        };
        let computed = match &self.way {
            Way::Direct(direct) => direct.computed(),
            Way::Columns(_) => None,
        };
        let (tile, edges) = (Tile { blocks }, Some(edges));
        let traffic = Traffic { tile, copied, computed, tasks, edges, ..Traffic::default() };
        Candidate::new(Variant::plain(family), traffic)
    }

    /// Whether the operand is a matrix in memory, whose rows another product may read where they lie, too.
    pub(super) fn is_matrix(&self) -> bool {
        matches!(&self.way, Way::Direct(direct) if direct.is_matrix())
    }

    /// Whether columns are the places of windows.
    pub(super) fn has_windows(&self) -> bool {
        matches!(&self.way, Way::Columns(columns) if columns.has_windows())
    }

    /// Bytes of the operand that the packed product would copy: all windows, each written out.
    pub(super) fn windows(&self) -> u64 {
        let elements = match &self.way {
            Way::Direct(d) => (d.batch as u64).saturating_mul(d.places as u64).saturating_mul(d.depths as u64),
            Way::Columns(c) => (c.batches.len() as u64).saturating_mul(c.n as u64).saturating_mul(c.k as u64),
        };
        elements.saturating_mul(size_of::<f32>() as u64)
    }

    /// Elements of scratch memory.
    fn scratch(&self) -> usize {
        match &self.way {
            Way::Direct(direct) => direct.scratch(),
            Way::Columns(columns) => columns.scratch(),
        }
    }

    /// Bytes of scratch memory.
    pub(super) fn workspace(&self) -> usize {
        self.scratch() * size_of::<f32>() + ALIGN
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
        let binding = find(bindings.inputs, self.input)?;
        let origin = origin(binding, DType::F32)?;
        let (low, high) = self.reach;
        let inside = -origin.before <= low && high < origin.after;
        let skip = room.as_ptr().align_offset(ALIGN);
        let elements = self.scratch();
        if !inside || !is_aligned(origin.base, DType::F32) || room.len() < skip + elements * size_of::<f32>() {
            return Ok(false);
        }
        // SAFETY: the room has these bytes from the aligned place on; any bytes are numbers.
        let scratch = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().add(skip).cast::<f32>(), elements) };
        // The operand that is packed.
        let (layout, is_left) = match &self.way {
            Way::Direct(d) => (d.layout(), !d.places_are_rows),
            Way::Columns(columns) => (columns.layout(), true),
        };
        let (operand, side) = if is_left { (lhs, Side::A) } else { (rhs, Side::B) };
        let source = operand.source::<f32>(bindings)?;
        let how = (product_isa(machine.isa), side, None);
        let products = if source.same_for_batch() { 1 } else { self.products };
        let kept = operand.kept(bindings, &*source, how, (layout, products), &machine.workers)?;
        let filters = match kept.as_ref().and_then(|form| packed(form, &layout, products)) {
            Some(packed) => Filters::Packed(packed),
            None => Filters::Source(&*source),
        };
        // Columns that are kept need not be copied.
        let columns = match &self.way {
            Way::Columns(c) if c.batches.len() == 1 => c.right_layout(),
            _ => None,
        };
        let columns = match columns {
            Some(layout) => {
                let (how, source) = ((product_isa(machine.isa), Side::B, None), rhs.source::<f32>(bindings)?);
                rhs.kept(bindings, &*source, how, (layout, 1), &machine.workers)?.map(|form| (form, layout))
            }
            None => None,
        };
        let columns = columns.as_ref().and_then(|(form, layout)| packed(form, layout, 1));
        let image = origin.base.cast::<f32>().wrapping_offset(self.base);
        // SAFETY: every element that guards allow lies in the operand's memory, as was checked; the caller of the launch keeps
        // it alive and unwritten. The output is this contraction's.
        unsafe {
            match &self.way {
                Way::Direct(direct) => direct.run(&machine.workers, image, &filters, out, scratch),
                Way::Columns(way) => way.run(&machine.workers, image, columns, &filters, out, scratch),
            }
        };
        Ok(true)
    }

    /// What is done, in a few words.
    pub(super) fn describe(&self) -> String {
        let (copied, how) = match &self.way {
            Way::Direct(direct) => (direct.copied(), "element by element".to_string()),
            Way::Columns(columns) => (columns.copied(), format!("{} columns at a time", columns.panel())),
        };
        let from = if copied > 0 { format!("a copy of {copied} bytes") } else { "where it lies".to_string() };
        format!("input {} is read {how}, {from}\n", self.input)
    }
}
