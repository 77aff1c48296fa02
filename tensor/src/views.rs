//! Views: the same value in another layout.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Layout, Result};
use smallvec::SmallVec;

use crate::Tensor;
use crate::arguments::{Axes, Integer, NewShape, Span, axis_of};
use crate::graph::{Cast, Copy, attempt, one};

/// # Views
///
/// The same value in another layout: none of these copies, except a reshape that no layout can express. An axis is an integer of any
/// type, and a negative one counts from the end.
impl Tensor {
    /// The value through another layout of the same memory.
    #[track_caller]
    fn view(&self, op: &'static str, layout: impl FnOnce(&Layout) -> Result<Layout>) -> Tensor {
        Tensor::build(op, || {
            self.check()?;
            Ok(Tensor { layout: layout(&self.layout)?, node: self.node.clone() })
        })
    }

    /// The elements in another shape, of which one size may be left out. Copies only where the layout forces it, and then as
    /// part of the next kernel.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 6).reshape([2, 3]);
    /// assert_eq!(x.shape(), [2, 3]);
    /// assert_eq!(x.reshape((3, ())).shape(), [3, 2]);
    /// assert_eq!(x.reshape([-1, 1]).shape(), [6, 1]);
    /// assert!(x.reshape(4).check().is_err());
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<NewShape>) -> Tensor {
        let shape = shape.into();
        Tensor::build("reshape", || {
            self.check()?;
            let shape = shape.sizes_of(self.len())?;
            match self.layout.reshape(&shape)? {
                Some(layout) => Ok(Tensor { layout, node: self.node.clone() }),
                None => {
                    let copy = self.copy();
                    let layout = Layout::contiguous(&shape)?;
                    Ok(Tensor { layout, node: copy.node })
                }
            }
        })
    }

    /// The dimensions in another order.
    #[track_caller]
    pub fn permute(&self, order: impl Into<Axes>) -> Tensor {
        let order = order.into();
        self.view("permute", |l| {
            let order = order.of(l.rank())?;
            l.permute(&order)
        })
    }

    /// The last two dimensions exchanged.
    #[track_caller]
    pub fn transpose(&self) -> Tensor {
        self.view("transpose", |l| {
            let rank = l.rank();
            if rank < 2 {
                return Err(Error::shape(format!("a tensor of {rank} dimensions has no two to exchange")));
            }
            let mut order: SmallVec<[usize; 6]> = (0..rank).collect();
            order.swap(rank - 1, rank - 2);
            l.permute(&order)
        })
    }

    /// A range of one dimension: `1..`, `..-1`, `pos..pos + n`, or with a step by [`step`](crate::step). As in Python, negative
    /// bounds count from the end, bounds beyond it are cut, and a negative step walks backwards.
    ///
    /// ```
    /// use millstream::{Tensor, step};
    /// let x = Tensor::arange(0, 5);
    /// assert_eq!(x.slice(0, 1..-1).to_vec::<i64>()?, [1, 2, 3]);
    /// assert_eq!(x.slice(0, step(.., -2)).to_vec::<i64>()?, [4, 2, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, axis: impl Integer, range: impl Into<Span>) -> Tensor {
        let (axis, range) = (axis.number(), range.into());
        Tensor::build("slice", || {
            self.check()?;
            let axis = self.axis(axis)?;
            let (start, len, step) = range.on(self.sizes()[axis])?;
            Ok(Tensor { layout: self.layout.slice(axis, start, len, step)?, node: self.node.clone() })
        })
    }

    /// One index of a dimension, which is dropped; negative ones count from the end.
    #[track_caller]
    pub fn select(&self, axis: impl Integer, index: impl Integer) -> Tensor {
        let (axis, index) = (axis.number(), index.number());
        Tensor::build("select", || {
            self.check()?;
            let a = self.axis(axis)?;
            let n = self.sizes()[a];
            let at = if index < 0 { index.saturating_add(n as isize) } else { index };
            if at < 0 || at as usize >= n {
                return Err(Error::index(index as i128, n, None));
            }
            let one = self.layout.slice(a, at as usize, 1, 1)?;
            let mut shape: Dims = one.shape().into();
            shape.remove(a);
            let mut strides: SmallVec<[isize; 6]> = one.strides().into();
            strides.remove(a);
            Ok(Tensor { layout: Layout::new(&shape, &strides, one.offset())?, node: self.node.clone() })
        })
    }

    /// The views along the first axis, in turn.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([[1, 2], [3, 4]]);
    /// for (i, row) in x.rows()?.enumerate() {
    ///     assert_eq!(row.to_vec::<i32>()?, [2 * i as i32 + 1, 2 * i as i32 + 2]);
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor without dimensions, or an error that the tensor carries.
    #[track_caller]
    pub fn rows(&self) -> Result<impl ExactSizeIterator<Item = Tensor> + '_> {
        attempt("rows", || {
            self.check()?;
            let n = self.sizes()[self.axis(0)?];
            Ok((0..n).map(|i| self.select(0, i)))
        })
    }

    /// Repeats dimensions of size 1, and adds outer ones, to reach the shape.
    #[track_caller]
    pub fn broadcast(&self, shape: impl Into<NewShape>) -> Tensor {
        let shape = shape.into();
        self.view("broadcast", |l| l.broadcast(&shape.sizes()?))
    }

    /// Dimensions backwards.
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.view("flip", |l| axes.of(l.rank())?.iter().try_fold(l.clone(), |l, &axis| l.flip(axis)))
    }

    /// A new dimension of size 1 before this axis.
    #[track_caller]
    pub fn unsqueeze(&self, axis: impl Integer) -> Tensor {
        let axis = axis.number();
        Tensor::build("unsqueeze", || {
            self.check()?;
            let at = axis_of(axis, self.rank() + 1)?;
            let mut shape: Dims = self.sizes().into();
            let mut strides: SmallVec<[isize; 6]> = self.layout.strides().into();
            shape.insert(at, 1);
            strides.insert(at, 0);
            Ok(Tensor { layout: Layout::new(&shape, &strides, self.layout.offset())?, node: self.node.clone() })
        })
    }

    /// Without these dimensions, which must have size 1; `..` drops all that have.
    ///
    /// ```
    /// use millstream::{DType, Tensor};
    /// let x = Tensor::zeros([1, 3, 1], DType::F32);
    /// assert_eq!(x.squeeze(-1).shape(), [1, 3]);
    /// assert_eq!(x.squeeze(..).shape(), [3]);
    /// assert!(x.squeeze(1).check().is_err());
    /// ```
    #[track_caller]
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        Tensor::build("squeeze", || {
            self.check()?;
            let (mut list, sizes) = (axes.of(self.rank())?, self.sizes());
            match list.iter().find(|&&a| sizes[a] != 1) {
                Some(a) if axes.is_list() => {
                    return Err(Error::shape(format!("axis {a} of shape {sizes:?} does not have size 1")));
                }
                _ => list.retain(|a| sizes[*a] == 1),
            }
            let left = || (0..self.rank()).filter(|a| !list.contains(a));
            let shape: Dims = left().map(|a| sizes[a]).collect();
            let strides: SmallVec<[isize; 6]> = left().map(|a| self.layout.strides()[a]).collect();
            Ok(Tensor { layout: Layout::new(&shape, &strides, self.layout.offset())?, node: self.node.clone() })
        })
    }

    /// A copy with the elements row-major in memory of its own.
    #[track_caller]
    pub fn copy(&self) -> Tensor {
        Tensor::build("copy", || Tensor::new_node(Copy, one(self)))
    }

    /// The tensor itself where its elements lie row-major without gaps, else a copy of which that is true.
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        if self.layout.is_contiguous() { self.clone() } else { self.copy() }
    }

    /// The elements in another dtype: floats are truncated and saturate toward integers, integers wrap, nonzero is true.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        if self.dtype() == dtype || self.node.error().is_some() {
            return self.clone();
        }
        Tensor::build("cast", || Tensor::new_node(Cast { to: dtype }, one(self)))
    }
}
