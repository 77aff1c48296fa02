//! Composition of layouts: reading a value through a view of a view.

use millstream_core::what::{Dims, Strides, elements, row_major};
use millstream_core::{Guard, Layout, Result};
use smallvec::SmallVec;

/// Whether a layout shows a value whole and in order.
pub(crate) fn is_whole(layout: &Layout) -> bool {
    layout.offset() == 0 && layout.is_contiguous()
}

/// The layout of an input as seen through a view of the value that reads it.
///
/// A value of shape `shape` reads its input at `inner(i)` for its index `i`. Somebody reads the value itself at the
/// row-major positions that `outer` gives for an index `j`. The result maps `j` straight to the input; `None` where that
/// is not an affine map.
pub(crate) fn compose(inner: &Layout, shape: &[usize], outer: &Layout) -> Result<Option<Layout>> {
    // A row without elements has a value of the row all the same, and reads what belongs to it.
    if let Some(rows) = rows_of(outer).filter(|_| !inner.is_empty()) {
        let Some(found) = compose(inner, shape, &rows)? else { return Ok(None) };
        let still = |(&own, &s): (&isize, &isize)| if own == 0 { 0 } else { s };
        let strides: Strides = outer.strides().iter().zip(found.strides()).map(still).collect();
        return Layout::new(outer.shape(), &strides, found.offset()).map(Some);
    }
    if outer.is_empty() || inner.is_empty() {
        return Ok(Some(Layout::new(outer.shape(), &row_major(outer.shape()), inner.offset())?));
    }
    // The same index space: nothing to do.
    if outer.shape() == shape && outer.offset() == 0 && outer.is_contiguous() {
        return Ok(Some(inner.clone()));
    }
    // Read whole and in order, in another shape.
    if outer.offset() == 0 && outer.len() == elements(shape) && outer.is_contiguous() {
        return inner.reshape(outer.shape());
    }
    // The input lies in one line: positions translate by one factor.
    if let Some(stride) = line(inner) {
        let strides: Strides = outer.strides().iter().map(|&s| s * stride).collect();
        let offset = inner.offset() as isize + outer.offset() as isize * stride;
        return Layout::new(outer.shape(), &strides, offset as usize).map(Some);
    }
    let Some(at) = Coordinates::of(shape, outer) else { return Ok(None) };
    let strides: Strides = at.steps.iter().map(|&(axis, step)| step * inner.strides()[axis]).collect();
    let offset = inner.offset() as isize + at.start.iter().zip(inner.strides()).map(|(&i, &s)| i * s).sum::<isize>();
    Layout::new(outer.shape(), &strides, offset as usize).map(Some)
}

/// Of an empty layout whose sizes of 0 are all repetitions: one repetition each.
fn rows_of(outer: &Layout) -> Option<Layout> {
    let sizes = || outer.shape().iter().zip(outer.strides());
    if !outer.is_empty() || sizes().any(|(&n, &s)| n == 0 && s != 0) {
        return None;
    }
    let shape: Dims = sizes().map(|(&n, _)| n.max(1)).collect();
    Layout::new(&shape, outer.strides(), outer.offset()).ok()
}

/// Row-major positions in a shape, taken apart into coordinates.
pub(crate) struct Coordinates {
    /// The coordinates of index 0.
    pub start: SmallVec<[isize; 6]>,
    /// For each dimension of the view: the axis that a step along it moves, and how far. A dimension without steps moves
    /// the first axis by 0.
    pub steps: SmallVec<[(usize, isize); 6]>,
    /// The sizes of the view's dimensions.
    extents: Dims,
    /// The smallest and the largest coordinate of each axis.
    low: SmallVec<[isize; 6]>,
    high: SmallVec<[isize; 6]>,
}

impl Coordinates {
    /// Each step of `outer` must move one coordinate, and none may overflow.
    pub fn of(shape: &[usize], outer: &Layout) -> Option<Coordinates> {
        let rows = row_major(shape);
        let mut start: SmallVec<[isize; 6]> = SmallVec::new();
        let mut rest = outer.offset() as isize;
        for (&r, &n) in rows.iter().zip(shape) {
            let at = if n <= 1 { 0 } else { rest / r };
            rest -= at * r;
            start.push(at);
        }
        if rest != 0 || shape.is_empty() {
            return None;
        }
        let (mut low, mut high) = (start.clone(), start.clone());
        let mut steps = SmallVec::new();
        for (&n, &s) in outer.shape().iter().zip(outer.strides()) {
            if n <= 1 || s == 0 {
                steps.push((0, 0));
                continue;
            }
            let axis = (0..shape.len()).find(|&a| shape[a] > 1 && rows[a] <= s.abs())?;
            if s % rows[axis] != 0 {
                return None;
            }
            let step = s / rows[axis];
            let reach = step * (n as isize - 1);
            low[axis] += reach.min(0);
            high[axis] += reach.max(0);
            steps.push((axis, step));
        }
        let inside = (0..shape.len()).all(|a| low[a] >= 0 && high[a] < shape[a].max(1) as isize);
        inside.then_some(Coordinates { start, steps, extents: outer.shape().into(), low, high })
    }

    /// The smallest and the largest index of an axis.
    pub fn reach(&self, axis: usize) -> (usize, usize) {
        (self.low[axis] as usize, self.high[axis] as usize)
    }

    /// The dimension of the view that walks an axis past an index, and where it does: up to there all indices of the axis are
    /// on one side of it, from there on the other. `None` if several dimensions walk the axis, or none reaches the index.
    pub fn meets(&self, axis: usize, index: usize) -> Option<(usize, usize)> {
        let mut walks = (0..self.steps.len()).filter(|&d| self.steps[d].0 == axis && self.steps[d].1 != 0);
        let (dim, None) = (walks.next()?, walks.next()) else { return None };
        let (step, away) = (self.steps[dim].1, index as isize - self.start[axis]);
        // Upwards the first step that reaches the index, downwards the first below it.
        let at = if step > 0 { (away + step - 1) / step } else { away / step + 1 };
        (at > 0 && (at as usize) < self.extents[dim]).then_some((dim, at as usize))
    }

    /// The same positions in a value of shape `shape` that begins at `before`, as row-major positions in it; all must lie in
    /// it.
    pub fn from(&self, before: &[usize], shape: &[usize]) -> Result<Layout> {
        let rows = row_major(shape);
        let strides: Strides = self.steps.iter().map(|&(axis, step)| step * rows[axis]).collect();
        let first = self.start.iter().zip(before).zip(&rows).map(|((&at, &before), &row)| (at - before as isize) * row);
        Layout::new(&self.extents, &strides, first.sum::<isize>() as usize)
    }
}

/// How an input is read that has padding around it: an affine map with guards over the dimensions of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guarded {
    /// Elements from the start of the input's memory to that of index 0; negative where guards forbid that element.
    pub base: isize,
    pub strides: Strides,
    pub guards: SmallVec<[Guard; 0]>,
}

/// Like [`compose`] for a value of shape `shape` that is its input (seen through `inner`) from `before` on along each
/// axis and padding elsewhere. Axes along which the view never leaves the input have no guard.
pub(crate) fn through_padding(inner: &Layout, before: &[usize], shape: &[usize], outer: &Layout) -> Option<Guarded> {
    let rank = outer.rank();
    if outer.is_empty() || shape.is_empty() {
        return Some(Guarded {
            base: inner.offset() as isize,
            strides: Strides::from_elem(0, rank),
            guards: SmallVec::new(),
        });
    }
    let at = Coordinates::of(shape, outer)?;
    let mut base = inner.offset() as isize;
    let mut guards = SmallVec::new();
    for (a, &before) in before.iter().enumerate() {
        let (shift, limit) = (before as isize, inner.shape()[a]);
        base += (at.start[a] - shift) * inner.strides()[a];
        if at.low[a] < shift || at.high[a] >= shift + limit as isize {
            let coefficients = at.steps.iter().map(|&(axis, step)| if axis == a { step } else { 0 }).collect();
            guards.push(Guard { coefficients, offset: at.start[a] - shift, limit });
        }
    }
    let strides = at.steps.iter().map(|&(axis, step)| step * inner.strides()[axis]).collect();
    Some(Guarded { base, strides, guards })
}

/// If the layout's elements lie in row-major order at one constant distance: that distance.
fn line(layout: &Layout) -> Option<isize> {
    let mut dims = layout.shape().iter().zip(layout.strides()).rev().filter(|(n, _)| **n != 1);
    let Some((&n, &stride)) = dims.next() else { return Some(0) };
    let mut next = stride * n as isize;
    for (&n, &s) in dims {
        if s != next {
            return None;
        }
        next = s * n as isize;
    }
    Some(stride)
}

/// One value a row: row-major over the axes that are not reduced, the same along those that are.
pub(crate) fn row_layout(domain: &[usize], axes: &[usize]) -> Result<Layout> {
    let mut strides: Strides = Strides::from_elem(0, domain.len());
    let mut next = 1isize;
    for d in (0..domain.len()).rev() {
        if !axes.contains(&d) {
            strides[d] = next;
            next = next.saturating_mul(domain[d].max(1) as isize);
        }
    }
    Layout::new(domain, &strides, 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Layouts over a shape as views make them.
    fn view(shape: &[usize], steps: &[(u8, u16)]) -> Layout {
        let mut layout = Layout::contiguous(shape).unwrap();
        for &(kind, seed) in steps {
            let rank = layout.rank();
            if rank == 0 {
                break;
            }
            let axis = seed as usize % rank;
            let size = layout.shape()[axis];
            layout = match kind % 5 {
                0 => layout.flip(axis).unwrap(),
                1 => {
                    let mut order: Vec<_> = (0..rank).collect();
                    order.rotate_left(axis);
                    layout.permute(&order).unwrap()
                }
                2 if size > 1 => layout.slice(axis, 1, size - 1, 1).unwrap(),
                3 => {
                    let mut shape = vec![2];
                    shape.extend_from_slice(layout.shape());
                    layout.broadcast(&shape).unwrap()
                }
                4 => match layout.reshape(&[layout.len()]).unwrap() {
                    Some(flat) => flat,
                    None => layout,
                },
                _ => layout,
            };
        }
        layout
    }

    proptest! {
        #[test]
        fn composing_reads_the_same_elements(
            base in prop::collection::vec(1usize..4, 1..4),
            first in prop::collection::vec((any::<u8>(), any::<u16>()), 0..4),
            second in prop::collection::vec((any::<u8>(), any::<u16>()), 0..4),
        ) {
            let inner = view(&base, &first);
            let shape = inner.shape().to_vec();
            let outer = view(&shape, &second);
            if let Some(both) = compose(&inner, &shape, &outer).unwrap() {
                let through: Vec<usize> = inner.positions().collect();
                let expected: Vec<usize> = outer.positions().map(|p| through[p]).collect();
                prop_assert_eq!(both.positions().collect::<Vec<_>>(), expected);
                prop_assert_eq!(both.shape(), outer.shape());
            }
        }
    }

    proptest! {
        #[test]
        fn reading_through_padding_finds_the_input_or_the_fill(
            base in prop::collection::vec(1usize..4, 1..4),
            first in prop::collection::vec((any::<u8>(), any::<u16>()), 0..3),
            second in prop::collection::vec((any::<u8>(), any::<u16>()), 0..4),
            amounts in prop::collection::vec((0usize..3, 0usize..3), 6),
        ) {
            let inner = view(&base, &first);
            let before: Vec<usize> = amounts.iter().map(|a| a.0).take(inner.rank()).collect();
            let sizes = inner.shape().iter().zip(&amounts);
            let shape: Vec<usize> = sizes.map(|(n, a)| n + a.0 + a.1).collect();
            // The padded value element by element: the offset in the input's memory, or none.
            let padded: Vec<Option<isize>> = Layout::contiguous(&shape).unwrap().positions().map(|p| {
                let mut rest = p;
                let mut at = inner.offset() as isize;
                for a in (0..shape.len()).rev() {
                    let i = (rest % shape[a]).checked_sub(before[a]).filter(|&i| i < inner.shape()[a])?;
                    at += i as isize * inner.strides()[a];
                    rest /= shape[a];
                }
                Some(at)
            }).collect();
            let outer = view(&shape, &second);
            if let Some(g) = through_padding(&inner, &before, &shape, &outer) {
                let access = millstream_core::Access {
                    base: g.base, guards: g.guards, ..millstream_core::Access::new(millstream_core::DType::F32, &g.strides)
                };
                let indices = Layout::contiguous(outer.shape()).unwrap();
                for (p, flat) in outer.positions().zip(indices.positions()) {
                    let mut rest = flat;
                    let mut index = vec![0; outer.rank()];
                    for d in (0..outer.rank()).rev() {
                        index[d] = rest % outer.shape()[d];
                        rest /= outer.shape()[d];
                    }
                    prop_assert_eq!(access.position(&index), padded[p]);
                }
            }
        }
    }

    #[test]
    fn transposes_and_slices_of_strided_inputs_compose() {
        let inner = Layout::contiguous(&[6, 8]).unwrap().slice(1, 0, 4, 2).unwrap();
        let outer = Layout::contiguous(&[6, 4]).unwrap().permute(&[1, 0]).unwrap().slice(0, 1, 3, 1).unwrap();
        let both = compose(&inner, &[6, 4], &outer).unwrap().unwrap();
        assert_eq!((both.shape(), both.strides(), both.offset()), (&[3, 6][..], &[2, 8][..], 2));
    }
}
