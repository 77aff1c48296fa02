//! Tensors made of others: joined, repeated, shifted, taken apart.

use millstream_core::what::{Dims, count};
use millstream_core::{DType, Error, Result};
use smallvec::SmallVec;

use crate::Tensor;
use crate::arguments::{Axes, Integer, Integers};
use crate::graph::{Concat, Inputs, attempt};
use crate::ops::creation::indices;

/// # Joining, repeating, taking apart
///
/// A joined tensor is written part by part, each part computed straight into the result. Taking apart and most rearranging only makes
/// views.
impl Tensor {
    /// The tensors one after the other along an axis. All other sizes must agree; dtypes are promoted.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (a, b) = (Tensor::from_slice(&[1.0f32, 2.0]), Tensor::from_slice(&[3.0f32]));
    /// assert_eq!(Tensor::concat([&a, &b], 0).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn concat<T: AsRef<Tensor>>(tensors: impl IntoIterator<Item = T>, axis: impl Integer) -> Tensor {
        let tensors: SmallVec<[T; 4]> = tensors.into_iter().collect();
        let tensors: SmallVec<[&Tensor; 4]> = tensors.iter().map(T::as_ref).collect();
        Tensor::build("concat", || {
            let Some((&first, rest)) = tensors.split_first() else {
                return Err(Error::argument("concat needs at least one tensor"));
            };
            first.check()?;
            let at = first.axis(axis)?;
            let mut dtype = first.dtype();
            let shape = first.sizes();
            for t in rest {
                t.check()?;
                let fits = t.rank() == shape.len() && (0..shape.len()).all(|d| d == at || t.sizes()[d] == shape[d]);
                if !fits {
                    return Err(Error::shapes_differ(first.sizes(), t.sizes())
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
    /// assert_eq!(Tensor::stack([&a, &b], 1).to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn stack<T: AsRef<Tensor>>(tensors: impl IntoIterator<Item = T>, axis: impl Integer) -> Tensor {
        let tensors: SmallVec<[T; 4]> = tensors.into_iter().collect();
        Tensor::composed("stack", || {
            let parts = tensors.iter().map(|t| t.as_ref().unsqueeze(axis));
            Tensor::concat(parts.collect::<Vec<_>>(), axis)
        })
    }

    /// The views along an axis, one for each index; the axis goes. The inverse of [`Tensor::stack`].
    ///
    /// # Errors
    /// An axis that does not exist, or an error that the tensor carries.
    #[track_caller]
    pub fn unstack(&self, axis: impl Integer) -> Result<Vec<Tensor>> {
        attempt("unstack", || {
            self.check()?;
            let n = self.sizes()[self.axis(axis)?];
            Ok((0..n).map(|i| self.select(axis, i)).collect())
        })
    }

    /// Views of so many neighbouring indices each along an axis. The sizes must add up to the axis.
    ///
    /// # Errors
    /// Sizes that do not add up, an axis that does not exist, or an error that the tensor carries.
    #[track_caller]
    pub fn split(&self, sizes: &[usize], axis: impl Integer) -> Result<Vec<Tensor>> {
        attempt("split", || {
            self.check()?;
            let n = self.sizes()[self.axis(axis)?];
            if sizes.iter().try_fold(0usize, |sum, &s| sum.checked_add(s)) != Some(n) {
                return Err(Error::argument(format!(
                    "sizes {sizes:?} do not add up to the {n} of axis {}",
                    axis.number()
                ))
                .in_op("split"));
            }
            let mut start = 0;
            Ok(sizes
                .iter()
                .map(|&s| {
                    let part = self.slice(axis, start..start + s);
                    start += s;
                    part
                })
                .collect())
        })
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
    pub fn repeat(&self, times: usize, axis: impl Integer) -> Tensor {
        Tensor::build("repeat", || {
            self.check()?;
            let at = self.axis(axis)?;
            let mut wide: Dims = self.sizes().into();
            wide.insert(at + 1, times);
            let mut shape: Dims = self.sizes().into();
            shape[at] = many(shape[at], times)?;
            let x = self.unsqueeze(at + 1);
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
            let size = |d: usize| (d + self.rank()).checked_sub(rank).map_or(1, |i| self.sizes()[i]);
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
    /// assert_eq!(x.roll(2, 0).to_vec::<i64>()?, [3, 4, 0, 1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Into<Integers>, axes: impl Into<Axes>) -> Tensor {
        let (Integers(shifts), axes) = (shifts.into(), axes.into());
        Tensor::build("roll", || {
            self.check()?;
            let axes = axes.of(self.rank())?;
            if shifts.len() != axes.len() {
                return Err(Error::argument(format!("{} shifts for {} axes", shifts.len(), axes.len()))
                    .suggest("give one shift for each axis"));
            }
            let mut out = self.clone();
            for (&shift, &axis) in shifts.iter().zip(&axes) {
                let n = self.sizes()[axis] as isize;
                let cut = if n == 0 { 0 } else { n - shift.rem_euclid(n) };
                if cut != n && cut != 0 {
                    out = Tensor::concat([out.slice(axis, cut..), out.slice(axis, ..cut)], axis);
                }
            }
            Ok(out)
        })
    }

    /// One axis moved to another position; the others keep their order.
    #[track_caller]
    pub fn moveaxis(&self, from: impl Integer, to: impl Integer) -> Tensor {
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
    pub fn swapaxes(&self, a: impl Integer, b: impl Integer) -> Tensor {
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
    pub fn flatten(&self, first: impl Integer, last: impl Integer) -> Tensor {
        Tensor::build("flatten", || {
            self.check()?;
            if self.rank() == 0 {
                return Ok(self.reshape([1]));
            }
            let (first, last) = (self.axis(first)?, self.axis(last)?);
            if first > last {
                return Err(Error::argument(format!("axis {first} does not come before axis {last}")));
            }
            let mut shape: Dims = self.sizes()[..first].into();
            shape.push(count(&self.sizes()[first..=last])?);
            shape.extend_from_slice(&self.sizes()[last + 1..]);
            Ok(self.reshape(&shape))
        })
    }

    /// Tensors broadcast to one common shape; views, no copies.
    ///
    /// # Errors
    /// Shapes that do not broadcast, or an error that one of the tensors carries.
    #[track_caller]
    pub fn broadcast_all<T: AsRef<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Result<Vec<Tensor>> {
        let tensors: Vec<T> = tensors.into_iter().collect();
        attempt("broadcast_all", || {
            let tensors: Vec<&Tensor> = tensors.iter().map(T::as_ref).collect();
            let mut shape = Dims::new();
            for t in &tensors {
                t.check()?;
                shape = millstream_core::what::broadcast_shapes(&shape, t.sizes())?;
            }
            Ok(tensors.iter().map(|t| t.broadcast(&shape)).collect())
        })
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
