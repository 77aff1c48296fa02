//! Tensors made of others: joined, repeated, shifted, taken apart.
//!
//! A joined tensor is written part by part, each part computed straight into the result. Taking apart and most rearranging
//! only makes views.

use millstream_core::what::{Dims, count};
use millstream_core::{DType, Error, Result};
use smallvec::SmallVec;

use crate::Tensor;
use crate::graph::{Concat, Inputs};
use crate::ops::creation::indices;

impl Tensor {
    /// The tensors one after the other along an axis. All other sizes must agree; dtypes are promoted.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (a, b) = (Tensor::from_slice(&[1.0f32, 2.0]), Tensor::from_slice(&[3.0f32]));
    /// assert_eq!(Tensor::concat(&[&a, &b], 0).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn concat(tensors: &[&Tensor], axis: isize) -> Tensor {
        Tensor::build("concat", || {
            let Some((&first, rest)) = tensors.split_first() else {
                return Err(Error::argument("concat needs at least one tensor"));
            };
            first.check()?;
            let at = first.axis(axis)?;
            let mut dtype = first.dtype();
            let shape = first.shape();
            for t in rest {
                t.check()?;
                let fits = t.rank() == shape.len() && (0..shape.len()).all(|d| d == at || t.shape()[d] == shape[d]);
                if !fits {
                    return Err(Error::shapes_differ(first.shape(), t.shape())
                        .suggest("only the sizes along the axis of the concatenation may differ"));
                }
                dtype = dtype.promote(t.dtype())?;
            }
            if rest.is_empty() {
                return Ok(first.clone());
            }
            let inputs: Inputs = tensors.iter().map(|t| t.cast(dtype)).collect();
            Tensor::new_node(Concat { axis: at, parts: tensors.len() }, inputs)
        })
    }

    /// Tensors of one shape side by side along a new axis.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (a, b) = (Tensor::from_slice(&[1, 2]), Tensor::from_slice(&[3, 4]));
    /// assert_eq!(Tensor::stack(&[&a, &b], 1).to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], axis: isize) -> Tensor {
        let parts: Vec<Tensor> = tensors.iter().map(|t| t.unsqueeze(axis)).collect();
        let parts: Vec<&Tensor> = parts.iter().collect();
        match tensors.first() {
            // The new axis counts from the end of the result.
            Some(t) if axis < 0 => Tensor::concat(&parts, axis + t.rank() as isize + 1),
            _ => Tensor::concat(&parts, axis),
        }
    }

    /// The views along an axis, one for each index; the axis goes. The inverse of [`Tensor::stack`].
    ///
    /// # Errors
    /// An axis that does not exist, or an error that the tensor carries.
    pub fn unstack(&self, axis: isize) -> Result<Vec<Tensor>> {
        self.check()?;
        let n = self.shape()[self.axis(axis)?];
        Ok((0..n as isize).map(|i| self.select(axis, i)).collect())
    }

    /// Views of so many neighbouring indices each along an axis. The sizes must add up to the axis.
    ///
    /// # Errors
    /// Sizes that do not add up, an axis that does not exist, or an error that the tensor carries.
    pub fn split(&self, sizes: &[usize], axis: isize) -> Result<Vec<Tensor>> {
        self.check()?;
        let n = self.shape()[self.axis(axis)?];
        if sizes.iter().try_fold(0usize, |sum, &s| sum.checked_add(s)) != Some(n) {
            return Err(
                Error::argument(format!("sizes {sizes:?} do not add up to the {n} of axis {axis}")).in_op("split")
            );
        }
        let mut start = 0isize;
        Ok(sizes
            .iter()
            .map(|&s| {
                let part = self.slice(axis, start, start + s as isize, 1);
                start += s as isize;
                part
            })
            .collect())
    }

    /// Each element so many times in a row along an axis.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[1, 2]);
    /// assert_eq!(x.repeat(2, 0).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(&self, times: usize, axis: isize) -> Tensor {
        Tensor::build("repeat", || {
            self.check()?;
            let at = self.axis(axis)?;
            let mut wide: Dims = self.shape().into();
            wide.insert(at + 1, times);
            let mut shape: Dims = self.shape().into();
            shape[at] = many(shape[at], times)?;
            let x = self.unsqueeze(at as isize + 1);
            Ok(x.broadcast(&wide).reshape(&shape))
        })
    }

    /// The whole tensor again and again: so many times along each axis. A list shorter than the shape counts for the last
    /// axes; a longer one adds axes in front.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[1, 2]);
    /// assert_eq!(x.tile(&[2]).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// assert_eq!(x.tile(&[2, 1]).shape(), [2, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, times: &[usize]) -> Tensor {
        Tensor::build("tile", || {
            self.check()?;
            let rank = self.rank().max(times.len());
            let size = |d: usize| (d + self.rank()).checked_sub(rank).map_or(1, |i| self.shape()[i]);
            let count = |d: usize| (d + times.len()).checked_sub(rank).map_or(1, |i| times[i]);
            let (mut thin, mut wide, mut shape) = (Dims::new(), Dims::new(), Dims::new());
            for d in 0..rank {
                thin.extend([1, size(d)]);
                wide.extend([count(d), size(d)]);
                shape.push(many(size(d), count(d))?);
            }
            Ok(self.reshape(&thin).broadcast(&wide).reshape(&shape))
        })
    }

    /// Elements shifted by so many indices along axes; what leaves at one end comes in at the other.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 5);
    /// assert_eq!(x.roll(&[2], &[0]).to_vec::<i64>()?, [3, 4, 0, 1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: &[isize], axes: &[isize]) -> Tensor {
        Tensor::build("roll", || {
            self.check()?;
            if shifts.len() != axes.len() {
                return Err(Error::argument(format!("{} shifts for {} axes", shifts.len(), axes.len()))
                    .suggest("give one shift for each axis"));
            }
            let mut out = self.clone();
            for (&shift, &axis) in shifts.iter().zip(axes) {
                let n = self.shape()[self.axis(axis)?] as isize;
                let cut = if n == 0 { 0 } else { n - shift.rem_euclid(n) };
                if cut != n && cut != 0 {
                    out = Tensor::concat(&[&out.slice(axis, cut, n, 1), &out.slice(axis, 0, cut, 1)], axis);
                }
            }
            Ok(out)
        })
    }

    /// One axis moved to another position; the others keep their order.
    #[track_caller]
    pub fn moveaxis(&self, from: isize, to: isize) -> Tensor {
        Tensor::build("moveaxis", || {
            self.check()?;
            let (from, to) = (self.axis(from)?, self.axis(to)?);
            let mut order: SmallVec<[usize; 6]> = (0..self.rank()).filter(|&d| d != from).collect();
            order.insert(to, from);
            Ok(self.permute(&order))
        })
    }

    /// Two axes exchanged.
    #[track_caller]
    pub fn swapaxes(&self, a: isize, b: isize) -> Tensor {
        Tensor::build("swapaxes", || {
            self.check()?;
            let (a, b) = (self.axis(a)?, self.axis(b)?);
            let mut order: SmallVec<[usize; 6]> = (0..self.rank()).collect();
            order.swap(a, b);
            Ok(self.permute(&order))
        })
    }

    /// Neighbouring axes as one, from the first to the last given, both included.
    #[track_caller]
    pub fn flatten(&self, first: isize, last: isize) -> Tensor {
        Tensor::build("flatten", || {
            self.check()?;
            if self.rank() == 0 {
                return Ok(self.reshape(&[1]));
            }
            let (first, last) = (self.axis(first)?, self.axis(last)?);
            if first > last {
                return Err(Error::argument(format!("axis {first} does not come before axis {last}")));
            }
            let mut shape: Dims = self.shape()[..first].into();
            shape.push(count(&self.shape()[first..=last])?);
            shape.extend_from_slice(&self.shape()[last + 1..]);
            Ok(self.reshape(&shape))
        })
    }

    /// Tensors broadcast to one common shape; views, no copies.
    ///
    /// # Errors
    /// Shapes that do not broadcast, or an error that one of the tensors carries.
    pub fn broadcast_all(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
        let mut shape = Dims::new();
        for t in tensors {
            t.check()?;
            shape = millstream_core::what::broadcast_shapes(&shape, t.shape())?;
        }
        Ok(tensors.iter().map(|t| t.broadcast(&shape)).collect())
    }

    /// Truth values as a tensor: 1 at the index, 0 elsewhere, along a new last axis of `classes`. An index out of range gives
    /// zeros only.
    ///
    /// ```
    /// use millstream::{DType, Tensor};
    /// let x = Tensor::from_slice(&[2i64, 0]);
    /// assert_eq!(x.one_hot(3, DType::F32).to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Tensor {
        Tensor::build("one_hot", || {
            self.check()?;
            let classes = indices(classes);
            Ok(self.cast(DType::I64).unsqueeze(-1).eq(&classes).cast(dtype))
        })
    }
}

/// A size so many times, if that is a size.
pub(crate) fn many(size: usize, times: usize) -> Result<usize> {
    size.checked_mul(times).ok_or_else(|| Error::shape(format!("{size} elements {times} times are too many")))
}
