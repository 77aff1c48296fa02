//! How an operation reads or writes an operand: an affine map from the operation's index space to elements.
//!
//! An operand's element for the index `i` lies at `base + sum(i[d] * strides[d])` elements from the start of its binding.
//! Where a [`Guard`] does not hold there is no such element: a read gives the access's fill value. With guards and
//! overlapping strides the same map expresses padding, pooling windows and the im2col of a convolution, so no operation
//! ever needs a padded or unfolded copy.

use smallvec::SmallVec;

use super::dtype::DType;
use super::layout::{Dims, Layout, Strides, elements};
use super::scalar::Scalar;

/// Indices of all dimensions but the longest beyond which those that a guard allows are not counted.
const MOST_COUNTED: usize = 1 << 12;

/// The affine map of one operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The element type in memory.
    pub dtype: DType,
    /// Elements from the start of the binding to the element of index 0; negative only where guards forbid that element.
    pub base: isize,
    /// For each dimension of the index space, the elements to go for one step along it.
    pub strides: Strides,
    /// Conditions under which the element exists. Empty for a plain access. Outputs have none.
    pub guards: SmallVec<[Guard; 0]>,
    /// What a read gives where a guard does not hold. Products with a zero that is read so may be left out of a sum, whatever the other
    /// factor is.
    pub fill: Scalar,
}

/// A condition on the index: `0 <= offset + sum(i[d] * coefficients[d]) < limit`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// For each dimension of the index space, its share in the coordinate that is checked.
    pub coefficients: Strides,
    /// The coordinate at index 0.
    pub offset: isize,
    /// The first coordinate that is too large.
    pub limit: usize,
}

impl Guard {
    /// Whether the condition holds at this index.
    pub fn holds(&self, index: &[usize]) -> bool {
        let at = self.offset + index.iter().zip(&self.coefficients).map(|(&i, &c)| i as isize * c).sum::<isize>();
        at >= 0 && (at as usize) < self.limit
    }

    /// At how many indices of those of these dimensions that move it the condition holds; `None` where counting would take long.
    fn count(&self, dims: &[usize]) -> Option<usize> {
        let mut moving: SmallVec<[(usize, isize); 4]> =
            dims.iter().copied().zip(self.coefficients.iter().copied()).filter(|(_, by)| *by != 0).collect();
        moving.sort_unstable();
        let Some((most, by)) = moving.pop() else { return Some(usize::from(self.holds(&[]))) };
        let others = moving.iter().fold(1, |n: usize, (size, _)| n.saturating_mul(*size));
        if others > MOST_COUNTED {
            return None;
        }
        let (step, limit) = (by.unsigned_abs(), isize::try_from(self.limit).unwrap_or(isize::MAX));
        // Steps along the longest dimension that stay below a bound, of a coordinate that grows.
        let below = |c: isize, bound: isize| bound.saturating_sub(c).max(0).unsigned_abs().div_ceil(step).min(most);
        // Backwards, the same coordinates come in the other order.
        let least = by.min(0).saturating_mul(most as isize - 1);
        let holding = |c: isize| below(c, limit) - below(c, 0);
        let count = (0..others).map(|mut i| {
            let mut at = self.offset.saturating_add(least);
            for &(size, by) in &moving {
                at = at.saturating_add(((i % size) as isize).saturating_mul(by));
                i /= size;
            }
            holding(at)
        });
        Some(count.fold(0, usize::saturating_add))
    }
}

impl Access {
    /// A plain access with these strides.
    pub fn new(dtype: DType, strides: &[isize]) -> Access {
        Access { dtype, base: 0, strides: strides.into(), guards: SmallVec::new(), fill: Scalar::zero(dtype) }
    }

    /// The access that walks a layout. The layout's offset is not part of it: offsets are launch parameters.
    pub fn of(dtype: DType, layout: &Layout) -> Access {
        Access::new(dtype, layout.strides())
    }

    /// Whether every index has an element.
    pub fn is_plain(&self) -> bool {
        self.guards.is_empty()
    }

    /// Whether the operand is the same along this dimension, whatever the index.
    pub fn ignores(&self, dim: usize) -> bool {
        self.strides[dim] == 0 && self.guards.iter().all(|g| g.coefficients[dim] == 0)
    }

    /// The position of an index relative to the start of the binding, or `None` where a guard does not hold.
    pub fn position(&self, index: &[usize]) -> Option<isize> {
        self.guards
            .iter()
            .all(|g| g.holds(index))
            .then(|| self.base + index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s).sum::<isize>())
    }

    /// How many distinct elements a walk over these dimensions touches, at most. What "least bytes" counts.
    pub fn distinct(&self, dims: &[usize]) -> usize {
        let mut product = 1usize;
        let mut reach = 0usize;
        for (d, &n) in dims.iter().enumerate() {
            if n == 0 {
                return 0;
            }
            if self.strides[d] != 0 {
                product = product.saturating_mul(n);
                reach = reach.saturating_add((n - 1).saturating_mul(self.strides[d].unsigned_abs()));
            }
        }
        let inside = self
            .guards
            .iter()
            .fold(usize::MAX, |p, g| if p == usize::MAX { g.limit } else { p.saturating_mul(g.limit) });
        let through = if self.is_plain() { usize::MAX } else { self.unguarded(dims).saturating_mul(inside) };
        product.min(reach.saturating_add(1)).min(through)
    }

    /// How many indices of these dimensions have an element, at most: exact where no dimension occurs in two guards and windows are of a
    /// usual size.
    pub fn existing(&self, dims: &[usize]) -> usize {
        let in_guards = |d: usize| self.guards.iter().filter(|g| g.coefficients[d] != 0).count();
        let all = elements(dims);
        if all == 0 || (0..dims.len()).any(|d| in_guards(d) > 1) {
            return all;
        }
        let free = (0..dims.len()).filter(|&d| in_guards(d) == 0).map(|d| Some(dims[d]));
        let mut counts = self.guards.iter().map(|g| g.count(dims)).chain(free);
        counts.try_fold(1, |n: usize, count| Some(n.saturating_mul(count?))).unwrap_or(all)
    }

    /// The product of the sizes of dimensions that move the access but occur in no guard.
    fn unguarded(&self, dims: &[usize]) -> usize {
        (0..dims.len())
            .filter(|&d| self.strides[d] != 0 && self.guards.iter().all(|g| g.coefficients[d] == 0))
            .fold(1usize, |p, d| p.saturating_mul(dims[d]))
    }
}

/// Joins and drops dimensions of an index space that all accesses walk as one; returns the new sizes.
///
/// Dimensions of size 1 go; an outer dimension joins the next inner one when for every access (and guard) a step along
/// it equals a whole walk along the inner one. Only dimensions inside one of the given groups join: `fixed` lists the
/// first dimension of every group (for `Rows`, where the inner dimensions begin). The number of dimensions of each group
/// may become 0. `keep` forbids any change to a dimension (an expression uses its index).
pub fn collapse(dims: &mut Dims, accesses: &mut [&mut Access], groups: &mut [usize], keep: impl Fn(usize) -> bool) {
    let mut original: SmallVec<[usize; 6]> = (0..dims.len()).collect();
    let mut d = dims.len();
    while d > 0 {
        d -= 1;
        let remove = |dims: &mut Dims,
                      accesses: &mut [&mut Access],
                      groups: &mut [usize],
                      original: &mut SmallVec<[usize; 6]>,
                      at: usize| {
            dims.remove(at);
            original.remove(at);
            for a in accesses.iter_mut() {
                a.strides.remove(at);
                for g in a.guards.iter_mut() {
                    g.coefficients.remove(at);
                }
            }
            for g in groups.iter_mut().filter(|g| **g > at) {
                *g -= 1;
            }
        };
        if dims[d] == 1 && !keep(original[d]) {
            remove(dims, accesses, groups, &mut original, d);
            continue;
        }
        let inner = d + 1;
        if inner < dims.len() && !groups.contains(&inner) && !keep(original[d]) && !keep(original[inner]) {
            let n = dims[inner] as isize;
            let joins = accesses.iter().all(|a| {
                a.strides[d] == a.strides[inner].saturating_mul(n)
                    && a.guards.iter().all(|g| g.coefficients[d] == g.coefficients[inner].saturating_mul(n))
            });
            if joins {
                dims[inner] = dims[inner].saturating_mul(dims[d]);
                remove(dims, accesses, groups, &mut original, d);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_cuts_off_the_padding() {
        // x[i - 1] for i in 0..5 over 3 elements.
        let access = Access {
            base: -1,
            guards: [Guard { coefficients: [1].as_slice().into(), offset: -1, limit: 3 }].into_iter().collect(),
            ..Access::new(DType::F32, &[1])
        };
        let seen: Vec<_> = (0..5).map(|i| access.position(&[i])).collect();
        assert_eq!(seen, [None, Some(0), Some(1), Some(2), None]);
        assert_eq!(access.distinct(&[5]), 3);
    }

    #[test]
    fn indices_in_the_padding_have_no_element() {
        // Windows of 3 x 2 over 5 x 4 with a border of one, stride 1 and 2, for each of 7 channels.
        let guard = |coefficients: [isize; 5], offset, limit| Guard {
            coefficients: coefficients.as_slice().into(),
            offset,
            limit,
        };
        let dims = [5, 3, 7, 3, 2];
        let mut access = Access::new(DType::F32, &[4, 2, 20, 4, 1]);
        access.guards = [guard([1, 0, 0, 1, 0], -1, 5), guard([0, 2, 0, 0, 1], -1, 4)].into_iter().collect();
        let index = |i: usize| [i / 126, i / 42 % 3, i / 6 % 7, i / 2 % 3, i % 2];
        let there = |a: &Access| (0..630).filter(|&i| a.position(&index(i)).is_some()).count();
        assert_eq!(access.existing(&dims), there(&access));
        assert!(there(&access) < 630 && Access::new(DType::F32, &[4, 2, 20, 4, 1]).existing(&dims) == 630);
        // Backwards, too.
        let mut back = access.clone();
        back.guards[0] = guard([-1, 0, 0, 2, 0], 3, 4);
        back.guards[1] = guard([0, -2, 0, 0, -1], 4, 3);
        assert_eq!(back.existing(&dims), there(&back));
        assert_eq!(access.existing(&[5, 0, 7, 3, 2]), 0);
        // A dimension that moves two guards: a bound.
        access.guards[1].coefficients[0] = 1;
        assert_eq!(access.existing(&dims), 630);
    }

    #[test]
    fn contiguous_dimensions_become_one() {
        let mut dims: Dims = [2, 1, 3, 4].as_slice().into();
        let (mut a, mut b) = (Access::new(DType::F32, &[12, 12, 4, 1]), Access::new(DType::F32, &[0, 0, 0, 0]));
        collapse(&mut dims, &mut [&mut a, &mut b], &mut [], |_| false);
        assert_eq!(&dims[..], [24]);
        assert_eq!((&a.strides[..], &b.strides[..]), (&[1isize][..], &[0isize][..]));
    }

    #[test]
    fn groups_and_kept_dimensions_do_not_join() {
        let mut dims: Dims = [2, 3, 4].as_slice().into();
        let mut a = Access::new(DType::F32, &[12, 4, 1]);
        let mut groups = [2];
        collapse(&mut dims, &mut [&mut a], &mut groups, |_| false);
        assert_eq!((&dims[..], groups), (&[6usize, 4][..], [1]));

        let mut dims: Dims = [2, 3, 4].as_slice().into();
        let mut a = Access::new(DType::F32, &[12, 4, 1]);
        collapse(&mut dims, &mut [&mut a], &mut [], |d| d == 1);
        assert_eq!(&dims[..], [2, 3, 4]);
    }

    #[test]
    fn windows_touch_each_element_once() {
        // A sliding window of 3 over 10 elements.
        let access = Access::new(DType::F32, &[1, 1]);
        assert_eq!(access.distinct(&[8, 3]), 10);
        assert_eq!(Access::new(DType::F32, &[0, 1]).distinct(&[8, 3]), 3);
    }
}
