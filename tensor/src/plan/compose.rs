//! Composition of layouts: reading a value through a view of a view.

use millstream_core::what::{Strides, elements, row_major};
use millstream_core::{Layout, Result};
use smallvec::SmallVec;

/// The layout of an input as seen through a view of the value that reads it.
///
/// A value of shape `shape` reads its input at `inner(i)` for its index `i`. Somebody reads the value itself at the
/// row-major positions that `outer` gives for an index `j`. The result maps `j` straight to the input; `None` where that
/// is not an affine map.
pub(crate) fn compose(inner: &Layout, shape: &[usize], outer: &Layout) -> Result<Option<Layout>> {
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
    // Take positions apart into coordinates of `shape`: each step of `outer` must move one coordinate, and none may overflow.
    let rows = row_major(shape);
    let mut start: SmallVec<[isize; 6]> = SmallVec::new();
    let mut rest = outer.offset() as isize;
    for (&r, &n) in rows.iter().zip(shape) {
        let at = if n <= 1 { 0 } else { rest / r };
        rest -= at * r;
        start.push(at);
    }
    if rest != 0 {
        return Ok(None);
    }
    let mut low = start.clone();
    let mut high = start.clone();
    let mut strides = Strides::new();
    for (&n, &s) in outer.shape().iter().zip(outer.strides()) {
        if n <= 1 || s == 0 {
            strides.push(0);
            continue;
        }
        let Some(axis) = (0..shape.len()).find(|&a| shape[a] > 1 && rows[a] <= s.abs()) else { return Ok(None) };
        if s % rows[axis] != 0 {
            return Ok(None);
        }
        let step = s / rows[axis];
        let reach = step * (n as isize - 1);
        low[axis] += reach.min(0);
        high[axis] += reach.max(0);
        strides.push(step * inner.strides()[axis]);
    }
    if (0..shape.len()).any(|a| low[a] < 0 || high[a] >= shape[a].max(1) as isize) {
        return Ok(None);
    }
    let offset = inner.offset() as isize + start.iter().zip(inner.strides()).map(|(&i, &s)| i * s).sum::<isize>();
    Layout::new(outer.shape(), &strides, offset as usize).map(Some)
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

    #[test]
    fn transposes_and_slices_of_strided_inputs_compose() {
        let inner = Layout::contiguous(&[6, 8]).unwrap().slice(1, 0, 4, 2).unwrap();
        let outer = Layout::contiguous(&[6, 4]).unwrap().permute(&[1, 0]).unwrap().slice(0, 1, 3, 1).unwrap();
        let both = compose(&inner, &[6, 4], &outer).unwrap().unwrap();
        assert_eq!((both.shape(), both.strides(), both.offset()), (&[3, 6][..], &[2, 8][..], 2));
    }
}
