//! How a tensor's elements lie in memory: shape, strides, offset.
//!
//! A [`Layout`] makes reshape, permute, slice, broadcast and flip free: each gives another layout over the same memory.
//! All numbers count elements. Strides may be negative (flip) or zero (broadcast). A layout never addresses outside the
//! span that its constructor was checked for: views only ever shrink or repeat it.

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// Sizes of dimensions, outermost first.
pub type Dims = SmallVec<[usize; 6]>;
/// Strides in elements, outermost first.
pub type Strides = SmallVec<[isize; 6]>;

/// The most dimensions that a tensor can have.
pub const MAX_RANK: usize = 64;

/// Shape, strides and offset, in elements.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Dims,
    strides: Strides,
    offset: usize,
}

// By hand, because the derived one goes element by element, and every view and every operation clones layouts.
impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Layout {
        Layout {
            shape: Dims::from_slice(&self.shape),
            strides: Strides::from_slice(&self.strides),
            offset: self.offset,
        }
    }
}

impl Layout {
    /// Row-major, without gaps. Fails when the number of elements overflows.
    pub fn contiguous(shape: &[usize]) -> Result<Layout> {
        count(shape)?;
        Ok(Layout { shape: Dims::from_slice(shape), strides: row_major(shape), offset: 0 })
    }

    /// A layout given part by part. Fails when an element would lie before the start of memory or the size overflows.
    ///
    /// ```
    /// use millstream_core::Layout;
    /// let reversed = Layout::new(&[3], &[-1], 2)?;
    /// assert_eq!(reversed.span(), 0..3);
    /// assert!(Layout::new(&[3], &[-1], 1).is_err());
    /// # Ok::<(), millstream_core::Error>(())
    /// ```
    pub fn new(shape: &[usize], strides: &[isize], offset: usize) -> Result<Layout> {
        count(shape)?;
        if shape.len() != strides.len() {
            return Err(Error::shape(format!(
                "a shape of {} and strides of {} dimensions",
                shape.len(),
                strides.len()
            )));
        }
        if count(shape)? > 0 {
            let overflow = || Error::shape(format!("shape {shape:?} with strides {strides:?} cannot be addressed"));
            let (mut low, mut high) = (offset as i128, offset as i128);
            for (&n, &s) in shape.iter().zip(strides) {
                let reach = (n as i128 - 1) * s as i128;
                low += reach.min(0);
                high += reach.max(0);
            }
            if low < 0 || high > isize::MAX as i128 {
                return Err(overflow());
            }
        }
        Ok(Layout { shape: shape.into(), strides: strides.into(), offset })
    }

    /// The sizes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The strides.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Where the element with all indices 0 lies.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements. Never overflows: every constructor checked it.
    pub fn len(&self) -> usize {
        elements(&self.shape)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the elements lie row-major without gaps (sizes of 1 may have any stride).
    pub fn is_contiguous(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut expected = 1isize;
        for (&n, &s) in self.shape.iter().zip(&self.strides).rev() {
            if n != 1 {
                if s != expected {
                    return false;
                }
                expected *= n as isize;
            }
        }
        true
    }

    /// The element range of memory that the layout touches.
    pub fn span(&self) -> std::ops::Range<usize> {
        if self.is_empty() {
            return self.offset..self.offset;
        }
        let (mut low, mut high) = (self.offset as isize, self.offset as isize);
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            let reach = (n as isize - 1) * s;
            low += reach.min(0);
            high += reach.max(0);
        }
        low as usize..high as usize + 1
    }

    /// The same elements in another shape, if that needs no copy; `None` if it does. Fails when the sizes differ.
    pub fn reshape(&self, shape: &[usize]) -> Result<Option<Layout>> {
        let wanted = count(shape)?;
        if wanted != self.len() {
            return Err(Error::shape(format!(
                "{} elements of shape {:?} cannot take the shape {shape:?}, which has {wanted}",
                self.len(),
                &self.shape[..]
            )));
        }
        if self.is_contiguous() {
            return Ok(Some(Layout { shape: Dims::from_slice(shape), strides: row_major(shape), offset: self.offset }));
        }
        // Walk both shapes from the inside, matching groups of equal size; each group of ours must have one common stride.
        let mut strides: Strides = SmallVec::from_elem(0, shape.len());
        let mut old = self.shape.iter().zip(&self.strides).rev().filter(|(n, _)| **n != 1).peekable();
        let mut new = shape.len();
        while let Some((&n, &s)) = old.next() {
            let (mut have, mut reach) = (n, s * n as isize);
            let mut stride = s;
            let mut need = 1;
            while need < have || (new > 0 && shape[new - 1] == 1) {
                if new == 0 {
                    break;
                }
                new -= 1;
                strides[new] = stride;
                need *= shape[new];
                stride *= shape[new] as isize;
                while need > have {
                    match old.peek() {
                        Some(&(&n2, &s2)) if s2 == reach => {
                            have *= n2;
                            reach = s2 * n2 as isize;
                            old.next();
                        }
                        _ => return Ok(None),
                    }
                }
            }
            if need != have {
                return Ok(None);
            }
        }
        Ok(Some(Layout { shape: shape.into(), strides, offset: self.offset }))
    }

    /// The dimensions in another order.
    pub fn permute(&self, order: &[usize]) -> Result<Layout> {
        let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, self.rank());
        let valid = order.len() == self.rank()
            && order.iter().all(|&a| a < seen.len() && !std::mem::replace(&mut seen[a], true));
        if !valid {
            return Err(Error::argument(format!("{order:?} is not an order of {} dimensions", self.rank())));
        }
        Ok(Layout {
            shape: order.iter().map(|&a| self.shape[a]).collect(),
            strides: order.iter().map(|&a| self.strides[a]).collect(),
            offset: self.offset,
        })
    }

    /// `len` elements of one dimension, beginning at `start`, `step` apart; a negative step walks backwards.
    pub fn slice(&self, axis: usize, start: usize, len: usize, step: isize) -> Result<Layout> {
        let Some(&size) = self.shape.get(axis) else { return Err(Error::axis(axis as isize, self.rank())) };
        let last = start as i128 + (len as i128 - 1) * step as i128;
        if step == 0 || (len > 0 && (start >= size || last < 0 || last >= size as i128)) {
            return Err(Error::argument(format!(
                "a slice of {len} elements from {start} by {step} leaves axis {axis}, which has {size}"
            )));
        }
        let mut out = self.clone();
        out.shape[axis] = len;
        if len > 0 {
            out.offset = (self.offset as isize + start as isize * self.strides[axis]) as usize;
        }
        // A dimension of at most one element has no meaningful stride, and step * stride may overflow for it.
        out.strides[axis] = if len > 1 { self.strides[axis] * step } else { 0 };
        Ok(out)
    }

    /// The dimension backwards.
    pub fn flip(&self, axis: usize) -> Result<Layout> {
        let Some(&size) = self.shape.get(axis) else { return Err(Error::axis(axis as isize, self.rank())) };
        self.slice(axis, size.saturating_sub(1), size, -1)
    }

    /// Repeats dimensions of size 1, and adds outer ones, to reach the shape.
    pub fn broadcast(&self, shape: &[usize]) -> Result<Layout> {
        count(shape)?;
        let Some(added) = shape.len().checked_sub(self.rank()) else {
            return Err(Error::shapes_differ(&self.shape, shape));
        };
        let mut strides: Strides = SmallVec::from_elem(0, shape.len());
        for (axis, (&n, &s)) in self.shape.iter().zip(&self.strides).enumerate() {
            match shape[added + axis] {
                m if m == n => strides[added + axis] = s,
                _ if n == 1 => {}
                _ => return Err(Error::shapes_differ(&self.shape, shape)),
            }
        }
        Ok(Layout { shape: shape.into(), strides, offset: self.offset })
    }

    /// The same layout from another starting element.
    pub fn with_offset(mut self, offset: usize) -> Layout {
        self.offset = offset;
        self
    }

    /// The positions of all elements in row-major order. For tests and the reference: it is slow.
    pub fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        let mut index: Dims = SmallVec::from_elem(0, self.rank());
        let mut left = self.len();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let at: isize = index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s).sum();
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
            Some((self.offset as isize + at) as usize)
        })
    }
}

/// The number of elements of a shape, or an error when it (or any size up to 16 bytes an element) overflows.
///
/// For a part of a shape, too, whose other sizes may be 0 and so hide that these multiply to too much.
pub fn count(shape: &[usize]) -> Result<usize> {
    if shape.len() > MAX_RANK {
        return Err(Error::shape(format!("{} dimensions; at most {MAX_RANK} are possible", shape.len())));
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|&n| n <= isize::MAX as usize / 16)
        .ok_or_else(|| Error::too_large(shape))
}

/// The strides of a shape that lies row-major without gaps.
pub fn row_major(shape: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(0, shape.len());
    let mut next = 1isize;
    for (s, &n) in strides.iter_mut().zip(shape).rev() {
        *s = next;
        // Only a shape without elements can overflow, and nobody follows its strides.
        next = next.saturating_mul(n.max(1) as isize);
    }
    strides
}

/// The number of elements of a shape that some constructor has checked. A size of 0 makes it 0, whatever the others are.
pub fn elements(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().product() }
}

/// The shape to which both are broadcast.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Result<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let added = long.len() - short.len();
    let mut out: Dims = long.into();
    for (o, &n) in out[added..].iter_mut().zip(short) {
        if *o == 1 {
            *o = n;
        } else if n != *o && n != 1 {
            return Err(Error::shapes_differ(a, b));
        }
    }
    count(&out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(layout: &Layout) -> Vec<usize> {
        layout.positions().collect()
    }

    /// A random view of a random contiguous tensor.
    fn views() -> impl Strategy<Value = (Layout, usize)> {
        (prop::collection::vec(0usize..5, 0..5), prop::collection::vec((0usize..5, any::<u16>()), 0..6)).prop_map(
            |(shape, steps)| {
                let mut layout = Layout::contiguous(&shape).unwrap();
                let memory = layout.len();
                for (kind, seed) in steps {
                    let rank = layout.rank();
                    let axis = if rank == 0 { 0 } else { seed as usize % rank };
                    layout = match kind {
                        0 if rank > 0 => layout.flip(axis).unwrap(),
                        1 if rank > 1 => {
                            let mut order: Vec<_> = (0..rank).collect();
                            order.rotate_left(axis);
                            layout.permute(&order).unwrap()
                        }
                        2 if rank > 0 && layout.shape()[axis] > 0 => {
                            let size = layout.shape()[axis];
                            let start = (seed as usize / 8) % size;
                            let step = 1 + (seed as usize / 64) % 3;
                            let len = (size - start).div_ceil(step);
                            layout.slice(axis, start, len, step as isize).unwrap()
                        }
                        3 => {
                            let mut shape = vec![2];
                            shape.extend_from_slice(layout.shape());
                            layout.broadcast(&shape).unwrap()
                        }
                        _ => layout,
                    };
                }
                (layout, memory)
            },
        )
    }

    proptest! {
        #[test]
        fn views_stay_inside_the_memory((layout, memory) in views()) {
            for p in layout.positions() {
                prop_assert!(p < memory);
                prop_assert!(layout.span().contains(&p));
            }
            prop_assert_eq!(at(&layout).len(), layout.len());
        }

        #[test]
        fn reshape_keeps_every_element_in_its_place((layout, _) in views(), seed in any::<u32>()) {
            // Factor the number of elements anew.
            let mut left = layout.len();
            let mut shape = Vec::new();
            let mut seed = seed as usize;
            if left > 0 {
                while left > 1 {
                    let divisors: Vec<_> = (1..=left).filter(|d| left % d == 0).collect();
                    let d = divisors[seed % divisors.len()];
                    seed /= 3;
                    shape.push(d);
                    left /= d;
                    if shape.len() > 6 { shape.push(left); break; }
                }
            } else {
                shape = vec![3, 0];
            }
            if let Some(view) = layout.reshape(&shape).unwrap() {
                prop_assert_eq!(view.shape(), &shape[..]);
                prop_assert_eq!(at(&view), at(&layout));
            } else {
                prop_assert!(!layout.is_contiguous());
            }
        }

        #[test]
        fn flipping_twice_changes_nothing((layout, _) in views(), axis in 0usize..6) {
            if axis < layout.rank() {
                let twice = layout.flip(axis).unwrap().flip(axis).unwrap();
                prop_assert_eq!(at(&twice), at(&layout));
            }
        }
    }

    #[test]
    fn a_transposed_matrix_splits_and_joins_only_where_it_can() {
        let t = Layout::contiguous(&[4, 6]).unwrap().permute(&[1, 0]).unwrap();
        assert!(t.reshape(&[24]).unwrap().is_none());
        let split = t.reshape(&[2, 3, 4]).unwrap().unwrap();
        assert_eq!(split.strides(), &[3, 1, 6]);
        let joined =
            Layout::contiguous(&[2, 3, 4]).unwrap().permute(&[2, 0, 1]).unwrap().reshape(&[4, 6]).unwrap().unwrap();
        assert_eq!(joined.strides(), &[1, 4]);
        let ones = t.reshape(&[1, 6, 1, 4, 1]).unwrap().unwrap();
        assert_eq!(at(&ones), at(&t));
    }

    #[test]
    fn sizes_that_overflow_are_errors() {
        assert!(Layout::contiguous(&[usize::MAX, 2]).is_err());
        for shape in [[usize::MAX, usize::MAX, 0], [0, usize::MAX, usize::MAX]] {
            let none = Layout::contiguous(&shape).unwrap();
            assert_eq!((none.len(), none.is_contiguous(), none.span()), (0, true, 0..0));
            assert!(none.reshape(&[3, 0]).unwrap().is_some());
        }
        assert!(Layout::contiguous(&[1]).unwrap().broadcast(&[usize::MAX, 3]).is_err());
        assert!(Layout::new(&[2, 2], &[isize::MAX, 1], 5).is_err());
        assert!(broadcast_shapes(&[1 << 40, 1], &[1, 1 << 40]).is_err());
    }

    #[test]
    fn slices_outside_are_errors() {
        let v = Layout::contiguous(&[5]).unwrap();
        assert!(v.slice(0, 3, 3, 1).is_err());
        assert!(v.slice(0, 0, 1, 0).is_err());
        assert!(v.slice(1, 0, 1, 1).is_err());
        assert!(v.slice(0, 4, 3, isize::MIN).is_err());
        assert_eq!(at(&v.slice(0, 4, 3, -2).unwrap()), [4, 2, 0]);
        assert_eq!(v.slice(0, 99, 0, 1).unwrap().len(), 0);
    }

    #[test]
    fn shapes_broadcast_as_numpy_does() {
        assert_eq!(&broadcast_shapes(&[3, 1], &[2, 1, 4]).unwrap()[..], [2, 3, 4]);
        assert_eq!(&broadcast_shapes(&[0], &[1]).unwrap()[..], [0]);
        assert!(broadcast_shapes(&[2], &[3]).is_err());
    }
}
