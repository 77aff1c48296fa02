//! Indexing as in NumPy: `x.i((.., 1..))`.

use std::panic::Location;

use millstream_core::{DType, Error, Result};
use smallvec::SmallVec;

use crate::arguments::{Index, IntoIndex, Part};
use crate::{Operand, Tensor};

/// A tensor of indices or a mask, and the axis of the view where it stands.
type Lookup = (usize, Tensor);

/// # Indexing
impl Tensor {
    /// Part of the tensor, as `x[...]` of NumPy: integers (negative ones from the end) drop their axis, ranges and
    /// [`step`](crate::step) cut it, [`NewAxis`](crate::NewAxis) adds one, [`Ellipsis`](crate::Ellipsis) stands for whole axes,
    /// and tensors of integers, lists, or masks pick elements. Axes that are not mentioned stay whole.
    ///
    /// Clippy takes `1..-1` (all but the first and the last) for an empty range: `#![allow(clippy::reversed_empty_ranges)]`.
    ///
    /// Without tensors and lists the result is a view. With them elements are gathered: tensors broadcast together, and their axes stand
    /// where the first of them stood, or in front if other parts lie between them. A mask is computed now, because the shape of the
    /// result depends on it.
    ///
    /// ```
    /// use millstream::{Ellipsis, NewAxis, Tensor, step};
    /// let x = Tensor::arange(0, 12).reshape([3, 4]);
    /// assert_eq!(x.i((-1, ..)).to_vec::<i64>()?, [8, 9, 10, 11]);
    /// assert_eq!(x.i((.., 1..3)).shape(), [3, 2]);
    /// assert_eq!(x.i((0, step(.., -1))).to_vec::<i64>()?, [3, 2, 1, 0]);
    /// assert_eq!(x.i((Ellipsis, NewAxis, 0)).shape(), [3, 1]);
    /// assert_eq!(x.i(([2, 0], 1)).to_vec::<i64>()?, [9, 1]);
    /// assert_eq!(x.i(&x.gt(9)).to_vec::<i64>()?, [10, 11]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn i(&self, index: impl IntoIndex) -> Tensor {
        let parts = index.parts();
        Tensor::composed("i", || {
            Tensor::build("i", || {
                let (view, lookups) = self.indexed(&parts)?;
                if lookups.is_empty() { Ok(view) } else { view.looked_up(lookups) }
            })
        })
    }

    /// Assigns to part of the tensor: `x[...] = value` of NumPy, with the index of [`Tensor::i`]. The value is broadcast.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let mut x = Tensor::new([[1, 2], [3, 4]]);
    /// x.set((.., 0), 7)?;
    /// x.set(&x.eq(4), 0)?;
    /// assert_eq!(x.to_vec::<i32>()?, [7, 2, 7, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::assign`]; also an index that does not fit the tensor.
    #[track_caller]
    pub fn set<'a>(&mut self, index: impl IntoIndex, value: impl Into<Operand<'a>>) -> Result<()> {
        let (location, parts, value) = (Location::caller(), index.parts(), value.into());
        if parts.iter().any(|p| matches!(p.0, Part::Tensor(_))) {
            let new = Tensor::composed("set", || Tensor::build("set", || self.replaced(&parts, &value)));
            new.check()?;
            *self = new;
            return Ok(());
        }
        self.assign_at(|x| Tensor::build_at("set", location, || x.indexed(&parts).map(|(view, _)| view)), value)
    }

    /// The view by all parts that are no tensors, and the tensors with the axes of the view where they stand.
    fn indexed(&self, parts: &[Index]) -> Result<(Tensor, SmallVec<[Lookup; 2]>)> {
        self.check()?;
        let consumed = |part: &Index| match &part.0 {
            Part::NewAxis | Part::Ellipsis => 0,
            Part::Tensor(t) if t.dtype() == DType::Bool => t.rank(),
            _ => 1,
        };
        let (used, rank): (usize, _) = (parts.iter().map(consumed).sum(), self.rank());
        if used > rank {
            return Err(Error::argument(format!("{used} indices for a tensor of {rank} dimensions")));
        }
        if parts.iter().filter(|p| matches!(p.0, Part::Ellipsis)).count() > 1 {
            return Err(Error::argument("an index with two ellipses"));
        }
        let gathers = parts.iter().any(|p| matches!(p.0, Part::Tensor(_)));
        let (mut view, mut axis, mut lookups) = (self.clone(), 0, SmallVec::new());
        for part in parts {
            match &part.0 {
                Part::At(index) if gathers => {
                    // Beside tensors an integer is one of them; its range is known now.
                    view.select(axis, *index).check()?;
                    lookups.push((axis, Tensor::scalar(*index as i64)));
                    axis += 1;
                }
                Part::At(index) => view = view.select(axis, *index),
                Part::Span(span) => {
                    view = view.slice(axis, *span);
                    axis += 1;
                }
                Part::NewAxis => {
                    view = view.unsqueeze(axis);
                    axis += 1;
                }
                Part::Ellipsis => axis += rank - used,
                // A mask without dimensions: all or nothing of an axis of one more.
                Part::Tensor(t) if t.dtype() == DType::Bool && t.rank() == 0 => {
                    t.check()?;
                    view = view.unsqueeze(axis);
                    lookups.push((axis, t.reshape([1])));
                    axis += 1;
                }
                Part::Tensor(t) => {
                    t.check()?;
                    lookups.push((axis, t.clone()));
                    axis += consumed(part);
                }
            }
            view.check()?;
        }
        Ok((view, lookups))
    }

    /// Tensors of indices alone, masks as the indices of their elements, each with its axis.
    fn index_lists(&self, lookups: SmallVec<[Lookup; 2]>) -> Result<SmallVec<[Lookup; 2]>> {
        let mut lists = SmallVec::new();
        for (axis, t) in lookups {
            if t.dtype() != DType::Bool {
                t.check_indices()?;
                lists.push((axis, t));
                continue;
            }
            if t.sizes() != &self.sizes()[axis..axis + t.rank()] {
                let here = &self.sizes()[axis..axis + t.rank()];
                return Err(Error::shape(format!("a mask of shape {:?} for axes of {here:?}", t.sizes())));
            }
            lists.extend(t.nonzero()?.into_iter().enumerate().map(|(i, list)| (axis + i, list)));
        }
        Ok(lists)
    }

    /// Elements at the indices that tensors hold.
    fn looked_up(&self, lookups: SmallVec<[Lookup; 2]>) -> Result<Tensor> {
        if let [(0, mask)] = &lookups[..]
            && mask.dtype() == DType::Bool
        {
            return Ok(self.mask(mask));
        }
        let lists = self.index_lists(lookups)?;
        let axes: SmallVec<[usize; 4]> = lists.iter().map(|l| l.0).collect();
        let together = axes.windows(2).all(|w| w[1] == w[0] + 1);
        let rest = (0..self.rank()).filter(|d| !axes.contains(d));
        let order: Vec<usize> = axes.iter().copied().chain(rest).collect();
        let found = self.permute(&order).index(lists.iter().map(|l| &l.1));
        found.check()?;
        if !together || axes[0] == 0 {
            return Ok(found);
        }
        // The new axes move to where the first tensor stood.
        let new = found.rank() + axes.len() - self.rank();
        let before = new..new + axes[0];
        let order: Vec<usize> = before.clone().chain(0..new).chain(before.end..found.rank()).collect();
        Ok(found.permute(&order))
    }

    /// The tensor with other values where tensors of indices or masks say.
    fn replaced(&self, parts: &[Index], value: &Operand<'_>) -> Result<Tensor> {
        self.check()?;
        if let [Index(Part::Tensor(mask))] = parts
            && mask.dtype() == DType::Bool
            && mask.sizes() == self.sizes()
            && !matches!(value, Operand::Tensor(t) if t.rank() > 0)
        {
            let value = self.assignable(value.clone(), self.sizes())?;
            return Ok(mask.where_(&value, self));
        }
        // The numbers of the elements, indexed as the elements are.
        let numbers = Tensor::arange(0, self.len() as i64).reshape(self.sizes());
        let (view, lookups) = numbers.indexed(parts)?;
        let at = view.looked_up(lookups)?;
        let value = self.assignable(value.clone(), at.sizes())?;
        let flat = self.reshape(-1).index_put([&at.reshape(-1)], &value.reshape(-1));
        Ok(flat.reshape(self.sizes()))
    }
}
