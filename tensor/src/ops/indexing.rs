//! Gathering: elements at indices that other tensors hold.
//!
//! Indices are integers of any type. A negative one counts from the end of its axis.

use millstream_core::what::{Dims, Strides, broadcast_shapes};
use millstream_core::{Error, Layout, Lookup, Outside, Result};
use smallvec::SmallVec;

use crate::Tensor;
use crate::arguments::Integer;
use crate::graph::{Gather, Inputs};

/// # Looking up
///
/// Elements at indices that other tensors hold, which are integers of any type; a negative one counts from the end of its axis.
impl Tensor {
    /// An error unless these are indices.
    pub(crate) fn check_indices(&self) -> Result<()> {
        self.check()?;
        if self.dtype().is_integer() {
            return Ok(());
        }
        Err(Error::dtype(format!("indices are integers, not {}", self.dtype()))
            .suggest("cast them, for example to i64"))
    }

    /// A lookup: `shape` and `strides` say how the table itself moves along the result, `indices` lie like the result, one for
    /// each of `axes`.
    fn look_up(
        &self,
        (shape, strides): (Dims, Strides),
        indices: &[Tensor],
        axes: &[usize],
        outside: Outside,
    ) -> Result<Tensor> {
        let table = Tensor { layout: Layout::new(&shape, &strides, self.layout.offset())?, node: self.node.clone() };
        let lookups: SmallVec<[Lookup; 2]> =
            axes.iter().map(|&a| Lookup { stride: self.layout.strides()[a], size: self.sizes()[a] }).collect();
        let mut inputs = Inputs::new();
        inputs.push(table);
        inputs.extend(indices.iter().cloned());
        Tensor::new_node(Gather { lookups, outside }, inputs)
    }

    /// The slices of an axis at these indices. The axis becomes the axes of `indices`. A negative index counts from the end.
    ///
    /// An index out of range is an error at the read, and at that of everything that was computed from it. Of several, the CPU names the
    /// first, a GPU any.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// let y = x.take(&Tensor::from_slice(&[2i64, 0, -1]), 0);
    /// assert_eq!(y.to_vec::<f32>()?, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    /// let error = x.take(&Tensor::new([0, 3]), 0).eval().unwrap_err();
    /// assert!(error.to_string().contains("index 3 is out of range for an axis of 3"));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, indices: &Tensor, axis: impl Integer) -> Tensor {
        self.slices_at("take", indices, axis, Outside::Error)
    }

    /// Like [`Tensor::take`], where an index out of range gives NaN for floats and complex numbers, 0 for other types.
    #[track_caller]
    pub fn take_unchecked(&self, indices: &Tensor, axis: impl Integer) -> Tensor {
        self.slices_at("take_unchecked", indices, axis, Outside::Fill)
    }

    #[track_caller]
    fn slices_at(&self, op: &'static str, indices: &Tensor, axis: impl Integer, outside: Outside) -> Tensor {
        Tensor::build(op, || {
            self.check()?;
            indices.check_indices()?;
            let axis = self.axis(axis)?;
            let (mut shape, mut strides, mut thin) = (Dims::new(), Strides::new(), Dims::new());
            for d in 0..self.rank() {
                if d == axis {
                    shape.extend_from_slice(indices.sizes());
                    strides.extend(indices.sizes().iter().map(|_| 0));
                    thin.extend_from_slice(indices.sizes());
                } else {
                    shape.push(self.sizes()[d]);
                    strides.push(self.layout.strides()[d]);
                    thin.push(1);
                }
            }
            let indices = indices.reshape(&thin).broadcast(&shape);
            indices.check()?;
            self.look_up((shape, strides), &[indices], &[axis], outside)
        })
    }

    /// The elements of an axis at these indices, with an index for each element of the result. All other axes broadcast. Indices
    /// are as in [`Tensor::take`].
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([[1.0f32, 9.0, 3.0], [8.0, 5.0, 6.0]]);
    /// let best = x.argmax_keepdim(1);
    /// assert_eq!(x.take_along_axis(&best, 1).to_vec::<f32>()?, [9.0, 8.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn take_along_axis(&self, indices: &Tensor, axis: impl Integer) -> Tensor {
        self.elements_at("take_along_axis", indices, axis, Outside::Error)
    }

    /// Like [`Tensor::take_along_axis`], where an index out of range gives NaN for floats and complex numbers, 0 for other types.
    #[track_caller]
    pub fn take_along_axis_unchecked(&self, indices: &Tensor, axis: impl Integer) -> Tensor {
        self.elements_at("take_along_axis_unchecked", indices, axis, Outside::Fill)
    }

    #[track_caller]
    fn elements_at(&self, op: &'static str, indices: &Tensor, axis: impl Integer, outside: Outside) -> Tensor {
        Tensor::build(op, || {
            self.check()?;
            indices.check_indices()?;
            let axis = self.axis(axis)?;
            if indices.rank() != self.rank() {
                return Err(
                    Error::shapes_differ(self.sizes(), indices.sizes()).suggest("both need the same number of axes")
                );
            }
            let mut other: Dims = self.sizes().into();
            other[axis] = 1;
            let mut thin: Dims = indices.sizes().into();
            thin[axis] = 1;
            let mut shape = broadcast_shapes(&other, &thin)?;
            let mut strides: Strides =
                (0..shape.len()).map(|d| if other[d] == 1 { 0 } else { self.layout.strides()[d] }).collect();
            shape[axis] = indices.sizes()[axis];
            strides[axis] = 0;
            let indices = indices.broadcast(&shape);
            indices.check()?;
            self.look_up((shape, strides), &[indices], &[axis], outside)
        })
    }

    /// The elements at these indices of the first axes, one tensor of indices for each; they broadcast together. The result has
    /// their axes, then the tensor's remaining ones: `x[i, j]` of NumPy. Indices are as in [`Tensor::take`].
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 12).reshape(&[3, 4]);
    /// let (i, j) = (Tensor::from_slice(&[0, 2]), Tensor::from_slice(&[3, 1]));
    /// assert_eq!(x.index([&i, &j]).to_vec::<i64>()?, [3, 9]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn index<T: AsRef<Tensor>>(&self, indices: impl IntoIterator<Item = T>) -> Tensor {
        self.all_at("index", indices, Outside::Error)
    }

    /// Like [`Tensor::index`], where an index out of range gives NaN for floats and complex numbers, 0 for other types.
    #[track_caller]
    pub fn index_unchecked<T: AsRef<Tensor>>(&self, indices: impl IntoIterator<Item = T>) -> Tensor {
        self.all_at("index_unchecked", indices, Outside::Fill)
    }

    #[track_caller]
    fn all_at<T: AsRef<Tensor>>(
        &self,
        op: &'static str,
        indices: impl IntoIterator<Item = T>,
        outside: Outside,
    ) -> Tensor {
        let indices: SmallVec<[T; 2]> = indices.into_iter().collect();
        let indices: SmallVec<[&Tensor; 2]> = indices.iter().map(T::as_ref).collect();
        Tensor::build(op, || {
            self.check()?;
            let rank = self.rank();
            if indices.is_empty() || indices.len() > rank {
                return Err(Error::argument(format!("indices for {} axes of a tensor that has {rank}", indices.len())));
            }
            let mut common = Dims::new();
            for p in &indices {
                p.check_indices()?;
                common = broadcast_shapes(&common, p.sizes())?;
            }
            let rest = &self.sizes()[indices.len()..];
            let shape: Dims = common.iter().chain(rest).copied().collect();
            let own = &self.layout.strides()[indices.len()..];
            let strides: Strides = common.iter().map(|_| 0).chain(own.iter().copied()).collect();
            let mut wide = Vec::with_capacity(indices.len());
            for p in &indices {
                let thin: Dims = p.sizes().iter().copied().chain(rest.iter().map(|_| 1)).collect();
                let p = p.reshape(&thin).broadcast(&shape);
                p.check()?;
                wide.push(p);
            }
            let axes: SmallVec<[usize; 4]> = (0..indices.len()).collect();
            self.look_up((shape, strides), &wide, &axes, outside)
        })
    }

    /// The rows of this table at these indices: [`Tensor::take`] along the first axis.
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor) -> Tensor {
        self.take(indices, 0)
    }
}
