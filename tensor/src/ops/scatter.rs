//! Scattering: elements put at indices that other tensors hold, computed on the host.
//!
//! The counterpart of lookups. Values are taken in their row-major order, so that results do not depend on the device or on
//! the number of threads.

use std::panic::Location;

use millstream_core::what::{Dims, broadcast_shapes, count};
use millstream_core::{DType, Error, Result};
use millstream_host::{self as host, Indexed, Put, ScatterShape};

use crate::Tensor;
use crate::arguments::Integer;

/// # Scattering
///
/// The counterpart of looking up: values put or added at indices that other tensors hold, computed on the host. They are taken in their
/// row-major order, so that results do not depend on the device or on the number of threads.
impl Tensor {
    /// The tensor with `values` put along an axis at `indices`, one for each value: along the other axes a value stays where it is. Indices
    /// and values broadcast together; along the other axes they are as long as the tensor, or 1. Of several values for one index the last
    /// stays. A negative index counts from the end; one out of range is an error at the read. The inverse of [`Tensor::take_along_axis`].
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 3], &[0, 0, 0, 0, 0, 0]);
    /// let indices = Tensor::from_shape(&[2, 1], &[2, 0]);
    /// assert_eq!(x.scatter(1, &indices, &Tensor::from_slice(&[7])).to_vec::<i32>()?, [0, 0, 7, 7, 0, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter(&self, axis: impl Integer, indices: &Tensor, values: &Tensor) -> Tensor {
        self.put_along(axis, indices, values, Put::Last, Location::caller())
    }

    /// Like [`Tensor::scatter`], with values added to what is there, one after the other in their order. Integers wrap; half types are
    /// summed in f32 and rounded once.
    ///
    /// ```
    /// use millstream::{DType, Tensor};
    /// let indices = Tensor::from_slice(&[1, 0, 1, -1]);
    /// let counts = Tensor::zeros(3, DType::I64).scatter_add(0, &indices, &Tensor::ones(4, DType::I64));
    /// assert_eq!(counts.to_vec::<i64>()?, [1, 2, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_add(&self, axis: impl Integer, indices: &Tensor, values: &Tensor) -> Tensor {
        self.put_along(axis, indices, values, Put::Sum, Location::caller())
    }

    /// The tensor with `values` at these indices of the first axes, one tensor of indices for each axis; they broadcast together, and
    /// values to them and the remaining axes. Of several values for one index the last stays: `x[i, j] = values` of NumPy. A negative
    /// index counts from the end; one out of range is an error at the read.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 6).reshape(&[2, 3]);
    /// let (i, j) = (Tensor::from_slice(&[0, 1]), Tensor::from_slice(&[2, 0]));
    /// assert_eq!(x.index_put([&i, &j], &Tensor::from_slice(&[8i64, 9])).to_vec::<i64>()?, [0, 1, 8, 9, 4, 5]);
    /// assert_eq!(x.index_put([&i], &Tensor::scalar(7i64)).to_vec::<i64>()?, [7; 6]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn index_put<T: AsRef<Tensor>>(&self, indices: impl IntoIterator<Item = T>, values: &Tensor) -> Tensor {
        self.put_at(indices, values, Put::Last, Location::caller())
    }

    /// Like [`Tensor::index_put`], with values added to what is there: `np.add.at(x, (i, j), values)`. See [`Tensor::scatter_add`].
    #[track_caller]
    pub fn index_add<T: AsRef<Tensor>>(&self, indices: impl IntoIterator<Item = T>, values: &Tensor) -> Tensor {
        self.put_at(indices, values, Put::Sum, Location::caller())
    }

    /// An error unless values of this tensor can be put into one of that dtype without losing anything.
    fn check_puttable(&self, into: DType) -> Result<()> {
        self.check()?;
        if into.promote(self.dtype())? != into {
            return Err(Error::dtype(format!("{} into a tensor of {into}", self.dtype()))
                .suggest("cast the values if what is lost does not matter"));
        }
        Ok(())
    }

    fn put_along(
        &self,
        axis: impl Integer,
        indices: &Tensor,
        values: &Tensor,
        put: Put,
        location: &'static Location<'static>,
    ) -> Tensor {
        let [out] = Tensor::build_many("scatter", location, || {
            self.check()?;
            indices.check_indices()?;
            values.check_puttable(self.dtype())?;
            let axis = self.axis(axis)?;
            let given = broadcast_shapes(indices.sizes(), values.sizes())?;
            if given.len() != self.rank() {
                return Err(Error::shapes_differ(self.sizes(), &given).suggest("both need the same number of axes"));
            }
            let mut shape: Dims = self.sizes().into();
            shape[axis] = given[axis];
            let (indices, values) =
                (indices.cast(DType::I64).broadcast(&shape), values.cast(self.dtype()).broadcast(&shape));
            indices.check()?;
            let (outer, n, inner) = self.around(axis, axis + 1)?;
            let sizes = ScatterShape { outer, n, inner, k: shape[axis], indices: Indexed::Elements };
            let three = [outer, sizes.k, inner];
            let function = host::scatter(self.dtype(), sizes, put);
            let inputs = [&self.reshape([outer, n, inner]), &indices.reshape(three), &values.reshape(three)];
            let [out] = Tensor::host_outputs(function, &inputs, location)?;
            Ok([out.reshape(self.sizes())])
        });
        out
    }

    fn put_at<T: AsRef<Tensor>>(
        &self,
        indices: impl IntoIterator<Item = T>,
        values: &Tensor,
        put: Put,
        location: &'static Location<'static>,
    ) -> Tensor {
        let indices: Vec<T> = indices.into_iter().collect();
        let indices: Vec<&Tensor> = indices.iter().map(T::as_ref).collect();
        let [out] = Tensor::build_many("index_put", location, || {
            self.check()?;
            values.check_puttable(self.dtype())?;
            if indices.is_empty() || indices.len() > self.rank() {
                let count = indices.len();
                return Err(Error::argument(format!("indices for {count} axes of a tensor that has {}", self.rank())));
            }
            let mut common = Dims::new();
            for p in &indices {
                p.check_indices()?;
                common = broadcast_shapes(&common, p.sizes())?;
            }
            let (_, n, inner) = self.around(0, indices.len())?;
            let k = count(&common)?;
            let wide = indices.iter().map(|p| p.cast(DType::I64).broadcast(&common).reshape(k));
            let of_axes = Tensor::stack(wide, 0);
            let rest = &self.sizes()[indices.len()..];
            let shape: Dims = common.iter().chain(rest).copied().collect();
            let values = values.cast(self.dtype()).broadcast(&shape).reshape([1, k, inner]);
            values.check()?;
            let lengths = self.sizes()[..indices.len()].into();
            let sizes = ScatterShape { outer: 1, n, inner, k, indices: Indexed::Axes(lengths) };
            let function = host::scatter(self.dtype(), sizes, put);
            let [out] = Tensor::host_outputs(function, &[&self.reshape([1, n, inner]), &of_axes, &values], location)?;
            Ok([out.reshape(self.sizes())])
        });
        out
    }

    /// The number of elements before, in and behind these axes.
    fn around(&self, first: usize, end: usize) -> Result<(usize, usize, usize)> {
        let shape = self.sizes();
        Ok((count(&shape[..first])?, count(&shape[first..end])?, count(&shape[end..])?))
    }
}
