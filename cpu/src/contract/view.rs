//! An operand as one side of a contraction sees it: three axes, each walked in affine runs: batch, row and
//! column. Columns are K for an operand, n for a result.
//!
//! Every group of dimensions becomes an [`Axis`]: runs of `inner` steps with one stride, and a table of where each run
//! begins. Guards are cut the same way, so that for a run the indices at which all guards hold are one range, found by
//! a few divisions rather than by a test for each element. That is how a convolution's padding costs nothing inside
//! the image.

use std::ops::Range;

use millstream_core::{Access, DType, Scalar};
use smallvec::SmallVec;

use super::dispatch::AccElement;
use crate::shared::Shared;

/// Dimensions that an access walks as one: size, stride, coefficients of the guards.
type AxisPart = (usize, isize, SmallVec<[isize; 2]>);

/// One group of dimensions as an access walks it.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Steps along the whole axis.
    pub(super) size: usize,
    /// Steps of one run.
    pub(super) inner: usize,
    /// Elements to go for one step inside a run.
    pub(super) step: isize,
    /// Where each run begins, in elements.
    outer: Vec<isize>,
    /// For each guard: its coordinate's change for a step inside a run, and its value where each run begins.
    guards: SmallVec<[(isize, Vec<isize>); 2]>,
}

impl Axis {
    fn new(access: &Access, dims: &[usize], group: Range<usize>) -> Axis {
        let mut parts: Vec<AxisPart> = Vec::new();
        // Without a single index there is nothing to tabulate, however many there would be along its dimensions.
        let empty = dims[group.clone()].contains(&0);
        let group = if empty { 0..0 } else { group };
        for d in group.clone().rev().filter(|&d| dims[d] != 1) {
            let coefficients: SmallVec<[isize; 2]> = access.guards.iter().map(|g| g.coefficients[d]).collect();
            let stride = access.strides[d];
            if let Some((size, step, inner)) = parts.last_mut() {
                let n = *size as isize;
                if stride == *step * n && coefficients.iter().zip(&*inner).all(|(c, i)| *c == i * n) {
                    *size *= dims[d];
                    continue;
                }
            }
            parts.push((dims[d], stride, coefficients));
        }
        let size = if empty { 0 } else { dims[group].iter().product() };
        let (inner, step, coefficients) =
            parts.first().cloned().unwrap_or_else(|| (1, 0, access.guards.iter().map(|_| 0).collect()));
        // parts[1..] are the outer dimensions, innermost first.
        let table = |of: &dyn Fn(&AxisPart) -> isize| {
            let mut table = vec![0isize];
            for part in parts.iter().skip(1) {
                // Each further dimension repeats what there is, shifted: the table stays in row-major order.
                let once = std::mem::take(&mut table);
                let shift = of(part);
                table.reserve(once.len() * part.0);
                for i in 0..part.0 {
                    table.extend(once.iter().map(|o| o + i as isize * shift));
                }
            }
            table
        };
        let guards = (0..access.guards.len()).map(|g| (coefficients[g], table(&|p| p.2[g]))).collect();
        Axis { size, inner: inner.max(1), step, outer: table(&|p| p.1), guards }
    }

    /// If the whole axis is one run: its stride.
    pub(super) fn single(&self) -> Option<isize> {
        (self.outer.len() == 1).then_some(self.step)
    }

    /// Whether the operand is the same all along the axis.
    pub(super) fn is_constant(&self) -> bool {
        self.single() == Some(0) && self.guards.iter().all(|(c, _)| *c == 0)
    }

    /// An index as run and step.
    pub(super) fn axis_index(&self, i: usize) -> AxisIndex {
        match self.outer.len() {
            1 => AxisIndex { run: 0, at: i },
            _ => AxisIndex { run: i / self.inner, at: i % self.inner },
        }
    }

    /// The index after this one.
    pub(super) fn next(&self, axis_index: AxisIndex) -> AxisIndex {
        match axis_index.at + 1 {
            at if at < self.inner || self.outer.len() == 1 => AxisIndex { at, ..axis_index },
            _ => AxisIndex { run: axis_index.run + 1, at: 0 },
        }
    }

    fn offset_at(&self, axis_index: AxisIndex) -> isize {
        self.outer.get(axis_index.run).copied().unwrap_or(0) + axis_index.at as isize * self.step
    }

    fn coordinate_at(&self, guard: usize, axis_index: AxisIndex) -> isize {
        let (coefficient, outer) = &self.guards[guard];
        outer.get(axis_index.run).copied().unwrap_or(0) + axis_index.at as isize * coefficient
    }

    /// Elements from index 0 to index `i`.
    pub(super) fn offset(&self, i: usize) -> isize {
        self.offset_at(self.axis_index(i))
    }

    /// The offsets of all indices.
    pub(super) fn offsets(&self) -> Vec<isize> {
        (0..self.size).map(|i| self.offset(i)).collect()
    }

    /// The runs of `len` indices from `start` on.
    pub(super) fn runs(&self, start: usize, len: usize) -> Runs {
        let mut runs = Runs::new();
        let mut done = 0;
        while done < len {
            let axis_index = self.axis_index(start + done);
            let left = if self.outer.len() == 1 { len } else { self.inner - axis_index.at };
            let count = left.min(len - done);
            let coordinates = (0..self.guards.len()).map(|g| self.coordinate_at(g, axis_index)).collect();
            runs.push(StripRun { at: done, len: count, offset: self.offset_at(axis_index), coordinates });
            done += count;
        }
        runs
    }
}

/// An index of an axis: which run, and the step in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisIndex {
    run: usize,
    at: usize,
}

/// A part of a strip that lies in one run of its axis.
pub(super) struct StripRun {
    /// Where it begins in the strip.
    pub(super) at: usize,
    pub(super) len: usize,
    /// Elements to its first index.
    pub(super) offset: isize,
    /// The guards' coordinates at its first index.
    coordinates: SmallVec<[isize; 2]>,
}

pub(super) type Runs = SmallVec<[StripRun; 8]>;

/// Along which axis a strip of elements runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Rows: m for the left operand, n for the right one.
    Row,
    /// The summed dimensions (n for a result).
    Col,
}

/// An access cut into the three axes of one side.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The element type in memory.
    pub(super) dtype: DType,
    pub(super) base: isize,
    pub(super) batch: Axis,
    pub(super) row: Axis,
    pub(super) col: Axis,
    /// Offset and limit of each guard.
    guards: SmallVec<[(isize, isize); 2]>,
    fill: Scalar,
}

impl View {
    /// Cuts an access by three ranges of dimensions.
    pub(super) fn new(
        access: &Access,
        dims: &[usize],
        batch: Range<usize>,
        row: Range<usize>,
        col: Range<usize>,
    ) -> View {
        View {
            dtype: access.dtype,
            base: access.base,
            batch: Axis::new(access, dims, batch),
            row: Axis::new(access, dims, row),
            col: Axis::new(access, dims, col),
            guards: access.guards.iter().map(|g| (g.offset, isize::try_from(g.limit).unwrap_or(isize::MAX))).collect(),
            fill: access.fill,
        }
    }

    /// Whether every index has an element.
    pub(super) fn is_plain(&self) -> bool {
        self.guards.is_empty()
    }

    /// What a read gives where a guard does not hold, if `T` is the view's type.
    pub(super) fn fill<T: AccElement>(&self) -> Option<T> {
        self.fill.get::<T>()
    }

    /// The axis and the other one.
    pub(super) fn axes(&self, along: Along) -> (&Axis, &Axis) {
        match along {
            Along::Row => (&self.row, &self.col),
            Along::Col => (&self.col, &self.row),
        }
    }

    /// The elements of a strip as they lie in memory, if they lie there one after the other: the distance of the first
    /// from index 0.
    pub(super) fn contiguous(
        &self,
        along: Along,
        batch: usize,
        other_index: usize,
        start: usize,
        len: usize,
    ) -> Option<isize> {
        let (axis, other) = self.axes(along);
        let one_run = axis.single().is_some() || start % axis.inner + len <= axis.inner;
        (self.is_plain() && one_run && (axis.step == 1 || len == 1))
            .then(|| self.base + self.batch.offset(batch) + other.offset(other_index) + axis.offset(start))
    }
}

/// The coordinates of every row and of every column, and the limit, of each guard.
pub(super) type Guards = Vec<(Vec<i32>, Vec<i32>, i32)>;

/// A view as tables: the offset of every row and column, and of every guard its coordinates and its limit.
pub(super) struct Tables {
    pub(super) rows: Vec<isize>,
    pub(super) cols: Vec<isize>,
    pub(super) guards: Guards,
    /// The least and the largest offset from index 0 that any index has at which all guards hold, or a bound on them.
    reach: (isize, isize),
}

impl Tables {
    /// Entries beyond which tables would take more memory than they are worth.
    const MOST: usize = 1 << 20;

    /// The tables of a view, if guards do not depend on the batch and numbers are of a usual size.
    pub(super) fn new(view: &View, access: &Access, dims: &[usize]) -> Option<Tables> {
        let guards = Tables::guards(view)?;
        Some(Tables { rows: view.row.offsets(), cols: view.col.offsets(), guards, reach: reach(access, dims)? })
    }

    /// Of every guard its coordinates and its limit, under the same conditions.
    pub(super) fn guards(view: &View) -> Option<Guards> {
        let fits =
            view.row.size.saturating_add(view.col.size) <= Tables::MOST && view.row.size > 0 && view.col.size > 0;
        if !fits || view.batch.guards.iter().any(|(c, outer)| *c != 0 || outer.iter().any(|&o| o != 0)) {
            return None;
        }
        let table = |axis: &Axis, g: usize, offset: isize| -> Option<Vec<i32>> {
            let mut axis_index = axis.axis_index(0);
            let mut list = Vec::with_capacity(axis.size);
            for _ in 0..axis.size {
                // Half of what fits, so that the sum of two does.
                let value = axis.coordinate_at(g, axis_index) + offset;
                list.push(i32::try_from(value).ok().filter(|v| v.abs() < i32::MAX / 2)?);
                axis_index = axis.next(axis_index);
            }
            Some(list)
        };
        let mut guards = Vec::new();
        for (g, &(offset, limit)) in view.guards.iter().enumerate() {
            guards.push((table(&view.row, g, 0)?, table(&view.col, g, offset)?, i32::try_from(limit).ok()?));
        }
        Some(guards)
    }

    /// Whether everything that the view reads lies in this memory.
    pub(super) fn inside(&self, origin: Origin) -> bool {
        -origin.before <= self.reach.0 && self.reach.1 < origin.after
    }
}

/// A bound on the offsets at which an access reads: of each guarded coordinate only the values that its guard allows count.
pub(crate) fn reach(access: &Access, dims: &[usize]) -> Option<(isize, isize)> {
    let mut strides: SmallVec<[isize; 8]> = access.strides.iter().copied().collect();
    let (mut low, mut high) = (access.base, access.base);
    for (g, guard) in access.guards.iter().enumerate() {
        let alone = |d: usize| access.guards.iter().enumerate().all(|(h, o)| h == g || o.coefficients[d] == 0);
        // A step of this coordinate is worth so many elements, by a dimension that moves no other one.
        let by = (0..dims.len()).find(|&d| dims[d] > 1 && guard.coefficients[d] != 0 && alone(d));
        let Some(worth) = by.map(|d| access.strides[d] / guard.coefficients[d]) else { continue };
        for (stride, c) in strides.iter_mut().zip(&guard.coefficients) {
            *stride -= worth * c;
        }
        let far = worth.checked_mul(isize::try_from(guard.limit).ok()?.saturating_sub(1).max(0))?;
        let start = worth.checked_mul(guard.offset)?;
        low = low.checked_sub(start)?.checked_add(far.min(0))?;
        high = high.checked_sub(start)?.checked_add(far.max(0))?;
    }
    for (&n, &stride) in dims.iter().zip(&strides) {
        let far = stride.checked_mul(isize::try_from(n).ok()?.saturating_sub(1))?;
        low = low.checked_add(far.min(0))?;
        high = high.checked_add(far.max(0))?;
    }
    Some((low, high))
}

/// The memory that a view reads: where index 0 lies, and how far one may go from there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The element of index 0.
    pub(super) base: Shared<u8>,
    /// Elements before it that belong to the operand.
    pub(super) before: isize,
    /// Elements from it on that belong to the operand.
    pub(super) after: isize,
}

/// Where a strip lies: which matrix, and the index on the other axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) along: Along,
    pub(super) batch: usize,
    pub(super) other: usize,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Elements that a load may write behind a strip's last one.
pub(super) const SLACK: usize = 8;

/// Writes the elements of a strip one after the other to `out`, as they are in memory; the fill value where a guard does
/// not hold.
///
/// # Safety
/// `out` is writable for `strip.len` elements of the view's dtype; the strip lies inside the view; plain views lie
/// wholly in the origin's memory.
pub(super) unsafe fn load_strip(view: &View, origin: Origin, strip: Strip, out: *mut u8) {
    // SAFETY: passed on.
    unsafe { load_strips(view, origin, strip, Several { count: 1, stride: 0, slack: false }, out, |_| ()) };
}

/// Strips for several indices of the other axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Several {
    /// How many.
    pub(super) count: usize,
    /// Elements from where one is written to where the next is.
    pub(super) stride: usize,
    /// Whether [`SLACK`] elements may be written behind each.
    pub(super) slack: bool,
}

/// Writes several strips, one for each index of the other axis from the strip's own on, and calls `each` after each.
///
/// # Safety
/// As for [`load_strip`] for every strip and the memory where it goes, with what `several` allows.
pub(super) unsafe fn load_strips(
    view: &View,
    origin: Origin,
    strip: Strip,
    several: Several,
    out: *mut u8,
    each: impl FnMut(usize),
) {
    // SAFETY: passed on.
    unsafe {
        match view.dtype.size() {
            1 => load::<u8>(view, origin, strip, several, out.cast(), each),
            2 => load::<u16>(view, origin, strip, several, out.cast(), each),
            4 => load::<u32>(view, origin, strip, several, out.cast(), each),
            8 => load::<u64>(view, origin, strip, several, out.cast(), each),
            _ => load::<u128>(view, origin, strip, several, out.cast(), each),
        }
    }
}

/// # Safety
/// As for [`load_strips`], `W` having the size of the view's dtype.
unsafe fn load<W: Copy>(
    view: &View,
    origin: Origin,
    strip: Strip,
    several: Several,
    out: *mut W,
    mut each: impl FnMut(usize),
) {
    let (axis, other) = view.axes(strip.along);
    let batch = view.batch.axis_index(strip.batch);
    let fixed = view.base + view.batch.offset_at(batch);
    let guards: SmallVec<[isize; 2]> =
        view.guards.iter().enumerate().map(|(g, guard)| guard.0 + view.batch.coordinate_at(g, batch)).collect();
    let fill = view.fill.bytes();
    // SAFETY: a scalar's bytes are those of an element.
    let fill = unsafe { fill.as_ptr().cast::<W>().read_unaligned() };
    let base = origin.base.0.cast::<W>().cast_const();
    let runs = axis.runs(strip.start, strip.len);
    let mut at_other = other.axis_index(strip.other);
    for c in 0..several.count {
        let out = out.wrapping_add(c * several.stride);
        let fixed = fixed + other.offset_at(at_other);
        for run in &runs {
            let first = fixed + run.offset;
            let valid = if view.guards.is_empty() {
                0..run.len
            } else {
                let mut range = 0..run.len as isize;
                for (g, &(_, limit)) in view.guards.iter().enumerate() {
                    let at = guards[g] + other.coordinate_at(g, at_other) + run.coordinates[g];
                    range = intersect(range, at, axis.guards[g].0, limit);
                }
                inside_memory(range, first, axis.step, origin)
            };
            // Reading some elements too many is allowed where they belong to the operand, and where writing them is.
            let end = first + valid.end as isize;
            let roomy = several.slack && axis.step == 1 && end + SLACK as isize <= origin.after;
            // SAFETY: `valid` lies in the run, the run in the strip; the elements it names exist: by the caller's promise
            // for plain views, by `inside_memory` for guarded ones.
            unsafe {
                let to = out.add(run.at);
                let from = base.wrapping_offset(first + valid.start as isize * axis.step);
                pluck(from, axis.step, to.add(valid.start), valid.len(), roomy);
                if valid.len() < run.len {
                    for j in (0..valid.start).chain(valid.end..run.len) {
                        to.add(j).write_unaligned(fill);
                    }
                }
            }
        }
        each(c);
        at_other = other.next(at_other);
    }
}

/// Copies `n` elements that lie `step` apart.
///
/// # Safety
/// They are readable, and `to` is writable for `n` elements; if `roomy`, both for [`SLACK`] elements more (`step` is 1).
#[inline(always)]
unsafe fn pluck<W: Copy>(from: *const W, step: isize, to: *mut W, n: usize, roomy: bool) {
    // SAFETY: passed on; `roomy` allows whole pieces.
    unsafe {
        match step {
            1 if roomy => {
                for j in (0..n).step_by(SLACK) {
                    to.add(j).cast::<[W; SLACK]>().write_unaligned(from.add(j).cast::<[W; SLACK]>().read_unaligned());
                }
            }
            1 => std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), n * size_of::<W>()),
            0 if n > 0 => {
                let value = from.read_unaligned();
                for j in 0..n {
                    to.add(j).write_unaligned(value);
                }
            }
            // A step that the compiler knows becomes vector moves.
            2 => {
                for j in 0..n {
                    to.add(j).write_unaligned(from.add(2 * j).read_unaligned());
                }
            }
            step => {
                for j in 0..n {
                    to.add(j).write_unaligned(from.wrapping_offset(j as isize * step).read_unaligned());
                }
            }
        }
    }
}

/// The part of `range` in which `0 <= at + i * by < limit`.
fn intersect(range: Range<isize>, at: isize, by: isize, limit: isize) -> Range<isize> {
    // The first i at which at + i * by reaches `value`, for by > 0.
    let reaches =
        |at: isize, by: isize, value: isize| (value - at).div_euclid(by) + ((value - at).rem_euclid(by) != 0) as isize;
    let (low, high) = match by {
        0 if (0..limit).contains(&at) => return range,
        0 => return 0..0,
        // The usual case without a division.
        1 => (-at, limit - at),
        by if by > 0 => (reaches(at, by, 0), reaches(at, by, limit)),
        // Mirrored: limit - 1 - at grows.
        by => (reaches(limit - 1 - at, -by, 0), reaches(limit - 1 - at, -by, limit)),
    };
    let (start, end) = (range.start.max(low), range.end.min(high));
    if start < end { start..end } else { 0..0 }
}

/// The part of a guarded run that lies in the operand's memory: all of it, if the guards say the truth.
fn inside_memory(range: Range<isize>, first: isize, step: isize, origin: Origin) -> Range<usize> {
    let lowest = first.min(first + (range.end - 1) * step).min(first + range.start * step);
    let highest = first.max(first + (range.end - 1) * step).max(first + range.start * step);
    if range.is_empty() {
        return 0..0;
    }
    if -origin.before <= lowest && highest < origin.after {
        return range.start as usize..range.end as usize;
    }
    let inside = intersect(range, first + origin.before, step, origin.before + origin.after);
    inside.start as usize..inside.end as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_core::{Guard, Scalar};

    /// x[c, h + r - 1, w + s - 1] of a 2 x 3 x 4 image with a 3 x 3 window: rows are (h, w), columns are (c, r, s).
    fn window() -> (Access, [usize; 5]) {
        let guard =
            |coefficients: [isize; 5], limit| Guard { coefficients: coefficients.as_slice().into(), offset: -1, limit };
        let access = Access {
            base: -5,
            fill: Scalar::new(7.0f32),
            guards: [guard([1, 0, 0, 1, 0], 3), guard([0, 1, 0, 0, 1], 4)].into_iter().collect(),
            ..Access::new(DType::F32, &[4, 1, 12, 4, 1])
        };
        (access, [3, 4, 2, 3, 3])
    }

    #[test]
    fn strips_of_a_padded_window_equal_the_positions_one_by_one() {
        let (access, dims) = window();
        let data: Vec<f32> = (0..24).map(|i| i as f32 + 100.0).collect();
        let origin = Origin { base: Shared::read(data.as_ptr().cast()), before: 0, after: 24 };
        let view = View::new(&access, &dims, 0..0, 0..2, 2..5);
        let unravel = |mut i: usize, sizes: &[usize]| {
            let mut at = vec![0; sizes.len()];
            for d in (0..sizes.len()).rev() {
                at[d] = i % sizes[d];
                i /= sizes[d];
            }
            at
        };
        for along in [Along::Row, Along::Col] {
            let (total, others) = if along == Along::Row { (12, 18) } else { (18, 12) };
            for other in 0..others {
                for start in 0..total {
                    let len = (total - start).min(1 + (other * 7 + start) % 9);
                    let mut out = vec![0f32; len];
                    let strip = Strip { along, batch: 0, other, start, len };
                    // SAFETY: the strip lies inside the view, and `out` has its length.
                    unsafe { load_strip(&view, origin, strip, out.as_mut_ptr().cast()) };
                    for (i, &got) in out.iter().enumerate() {
                        let (row, col) = if along == Along::Row { (start + i, other) } else { (other, start + i) };
                        let index = [unravel(row, &dims[..2]), unravel(col, &dims[2..])].concat();
                        let expected = access.position(&index).map_or(7.0, |p| data[p as usize]);
                        assert_eq!(got, expected, "{along:?} row {row} col {col}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_reach_of_a_padded_window_is_the_image() {
        let (access, dims) = window();
        assert_eq!(reach(&access, &dims), Some((0, 23)));
        let view = View::new(&access, &dims, 0..0, 0..2, 2..5);
        let tables = Tables::new(&view, &access, &dims).unwrap();
        let data = [0f32; 24];
        let origin = Origin { base: Shared::read(data.as_ptr().cast()), before: 0, after: 24 };
        assert!(tables.inside(origin) && !tables.inside(Origin { after: 23, ..origin }));
        // Every index at which all guards hold lies in the reach, whatever the access.
        let mut other = access.clone();
        other.strides[0] += 1;
        let (low, high) = reach(&other, &dims).unwrap();
        for i in 0..dims.iter().product::<usize>() {
            let mut rest = i;
            let mut index = [0; 5];
            for d in (0..5).rev() {
                index[d] = rest % dims[d];
                rest /= dims[d];
            }
            assert!(other.position(&index).is_none_or(|p| (low..=high).contains(&p)));
        }
    }

    #[test]
    fn a_range_is_cut_where_the_coordinate_leaves_its_limits() {
        for by in -3isize..=3 {
            for at in -9isize..9 {
                for limit in 0..6 {
                    let range = intersect(2..8, at, by, limit);
                    let expected: Vec<_> = (2..8).filter(|i| (0..limit).contains(&(at + i * by))).collect();
                    assert_eq!(range.collect::<Vec<_>>(), expected, "{at} + i * {by} < {limit}");
                }
            }
        }
    }

    #[test]
    fn a_guard_that_lies_cannot_make_a_read_leave_the_memory() {
        let mut access = Access::new(DType::F32, &[1]);
        access.guards = [Guard { coefficients: [0].as_slice().into(), offset: 0, limit: 1 }].into_iter().collect();
        let data = [1.0f32, 2.0, 3.0];
        let view = View::new(&access, &[6], 0..0, 0..1, 1..1);
        let mut out = [9f32; 6];
        let origin = Origin { base: Shared::read(data.as_ptr().cast()), before: 0, after: 3 };
        let strip = Strip { along: Along::Row, batch: 0, other: 0, start: 0, len: 6 };
        // SAFETY: `out` has the strip's length; the origin tells how far the memory goes.
        unsafe { load_strip(&view, origin, strip, out.as_mut_ptr().cast()) };
        assert_eq!(out, [1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn dimensions_that_one_access_walks_as_one_become_a_single_run() {
        let access = Access::new(DType::F32, &[12, 4, 1, 0]);
        let view = View::new(&access, &[2, 3, 4, 5], 0..1, 1..3, 3..4);
        assert_eq!((view.batch.single(), view.row.single(), view.col.single()), (Some(12), Some(1), Some(0)));
        assert!(view.col.is_constant() && !view.row.is_constant());
        let access = Access::new(DType::F32, &[12, 1, 3, 0]);
        let view = View::new(&access, &[2, 3, 4, 5], 0..1, 1..3, 3..4);
        assert_eq!(view.row.single(), None);
        assert_eq!(view.row.offsets(), [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
    }
}
