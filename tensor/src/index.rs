//! Views: the same value in another layout. None of them copies, except a reshape that no layout can express.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Layout, Result};
use smallvec::SmallVec;

use crate::Tensor;
use crate::graph::{Cast, Copy, one};

impl Tensor {
    /// The value through another layout of the same memory.
    #[track_caller]
    fn view(&self, op: &'static str, layout: impl FnOnce(&Layout) -> Result<Layout>) -> Tensor {
        Tensor::build(op, || {
            self.check()?;
            Ok(Tensor { layout: layout(&self.layout)?, node: self.node.clone() })
        })
    }

    /// The elements in another shape. Copies only where the layout forces it, and then as part of the next kernel.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 6).reshape(&[2, 3]);
    /// assert_eq!(x.shape(), [2, 3]);
    /// assert!(x.reshape(&[4]).check().is_err());
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: &[usize]) -> Tensor {
        Tensor::build("reshape", || {
            self.check()?;
            match self.layout.reshape(shape)? {
                Some(layout) => Ok(Tensor { layout, node: self.node.clone() }),
                None => {
                    let copy = self.copy();
                    let layout = Layout::contiguous(shape)?;
                    Ok(Tensor { layout, node: copy.node })
                }
            }
        })
    }

    /// The dimensions in another order.
    #[track_caller]
    pub fn permute(&self, order: &[usize]) -> Tensor {
        self.view("permute", |l| l.permute(order))
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

    /// Every `step`-th element of one dimension from `start` up to but without `stop`. As in Python, negative bounds count
    /// from the end, bounds beyond it are cut, and a negative step walks backwards.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 5);
    /// assert_eq!(x.slice(0, 1, -1, 2).to_vec::<i64>()?, [1, 3]);
    /// assert_eq!(x.slice(0, -1, isize::MIN, -2).to_vec::<i64>()?, [4, 2, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, axis: isize, start: isize, stop: isize, step: isize) -> Tensor {
        Tensor::build("slice", || {
            self.check()?;
            let axis = self.axis(axis)?;
            if step == 0 {
                return Err(Error::argument("a slice needs a step other than 0"));
            }
            let n = self.shape()[axis] as isize;
            let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
            let bound = |b: isize| (if b < 0 { b.saturating_add(n) } else { b }).clamp(low, high);
            // A stop below -n of a backward slice means "to the very front".
            let (from, to) = (bound(start), if step < 0 && stop < -n { -1 } else { bound(stop) });
            let distance = if step > 0 { to - from } else { from - to };
            let len = if distance <= 0 { 0 } else { (distance as usize).div_ceil(step.unsigned_abs()) };
            Ok(Tensor { layout: self.layout.slice(axis, from.max(0) as usize, len, step)?, node: self.node.clone() })
        })
    }

    /// One index of a dimension, which is dropped.
    #[track_caller]
    pub fn select(&self, axis: isize, index: isize) -> Tensor {
        Tensor::build("select", || {
            self.check()?;
            let a = self.axis(axis)?;
            let n = self.shape()[a];
            let at = if index < 0 { index + n as isize } else { index };
            if at < 0 || at as usize >= n {
                return Err(Error::argument(format!("index {index} is out of range for axis {axis} of {n}")));
            }
            let one = self.layout.slice(a, at as usize, 1, 1)?;
            let mut shape: Dims = one.shape().into();
            shape.remove(a);
            let mut strides: SmallVec<[isize; 6]> = one.strides().into();
            strides.remove(a);
            Ok(Tensor { layout: Layout::new(&shape, &strides, one.offset())?, node: self.node.clone() })
        })
    }

    /// Repeats dimensions of size 1, and adds outer ones, to reach the shape.
    #[track_caller]
    pub fn broadcast(&self, shape: &[usize]) -> Tensor {
        self.view("broadcast", |l| l.broadcast(shape))
    }

    /// A dimension backwards.
    #[track_caller]
    pub fn flip(&self, axis: isize) -> Tensor {
        Tensor::build("flip", || {
            self.check()?;
            Ok(Tensor { layout: self.layout.flip(self.axis(axis)?)?, node: self.node.clone() })
        })
    }

    /// A new dimension of size 1 before this axis.
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> Tensor {
        Tensor::build("unsqueeze", || {
            self.check()?;
            let rank = self.rank() as isize;
            let at = if axis < 0 { axis + rank + 1 } else { axis };
            if !(0..=rank).contains(&at) {
                return Err(Error::axis(axis, self.rank() + 1));
            }
            let mut shape: Dims = self.shape().into();
            let mut strides: SmallVec<[isize; 6]> = self.layout.strides().into();
            shape.insert(at as usize, 1);
            strides.insert(at as usize, 0);
            Ok(Tensor { layout: Layout::new(&shape, &strides, self.layout.offset())?, node: self.node.clone() })
        })
    }

    /// Without this dimension, which must have size 1.
    #[track_caller]
    pub fn squeeze(&self, axis: isize) -> Tensor {
        Tensor::build("squeeze", || {
            self.check()?;
            let a = self.axis(axis)?;
            if self.shape()[a] != 1 {
                return Err(Error::shape(format!("axis {axis} of shape {:?} does not have size 1", self.shape())));
            }
            Ok(self.select(axis, 0))
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
