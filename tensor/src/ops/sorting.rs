//! Sorting, searching and sets, computed on the host.

use std::panic::Location;

use millstream_core::what::{Dims, count};
use millstream_core::{DType, Error, HostFunction, Reduce, Result};
use millstream_host as host;
use smallvec::SmallVec;

use crate::Tensor;
use crate::arguments::{Axes, Integer};
use crate::ops::reductions::{Keep, reductions};
use crate::plan::{self, Trigger};

pub use millstream_host::{Order, Side};

/// # Sorting, searching and sets
///
/// Computed on the host. One order holds for all: `false` before `true`, the two zeros equal, NaN larger than every number, complex numbers
/// by their real part first. All results are exact.
impl Tensor {
    /// The outputs of a host function, of which there are `N`.
    pub(crate) fn host_outputs<const N: usize>(
        function: HostFunction,
        inputs: &[&Tensor],
        location: &'static Location<'static>,
    ) -> Result<[Tensor; N]> {
        let outputs = Tensor::host(function, inputs, location)?;
        outputs.into_vec().try_into().map_err(|_| Error::internal("a host function has another number of outputs"))
    }

    /// This axis last, as rows of a matrix; the inverse is [`Tensor::rows_back`]. A scalar is one row of one element.
    pub(crate) fn as_rows(&self, axis: impl Integer) -> Result<(Tensor, Vec<usize>)> {
        let axis = if self.rank() == 0 { 0 } else { self.axis(axis)? };
        let order: Vec<usize> =
            (0..self.rank()).filter(|&d| d != axis).chain((self.rank() > 0).then_some(axis)).collect();
        let n = self.sizes().get(axis).copied().unwrap_or(1);
        let rest: Dims = order.iter().filter(|&&d| d != axis).map(|&d| self.sizes()[d]).collect();
        let rows = count(&rest)?;
        let moved = self.permute(&order).reshape([rows, n]);
        moved.check()?;
        Ok((moved, order))
    }

    /// Rows as they were before [`Tensor::as_rows`] of a tensor of this shape; their length may be another one.
    pub(crate) fn rows_back(&self, order: &[usize], shape: &[usize]) -> Tensor {
        let n = self.sizes().last().copied().unwrap_or(1);
        let mut sizes: Dims = order.iter().map(|&d| shape[d]).collect();
        if let Some(last) = sizes.last_mut() {
            *last = n;
        }
        let mut back = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            back[old] = new;
        }
        self.reshape(&sizes).permute(&back)
    }

    /// Sorted values and indices along an axis.
    fn sorted(
        &self,
        op: &'static str,
        axis: impl Integer,
        order: Order,
        location: &'static Location<'static>,
    ) -> [Tensor; 2] {
        Tensor::build_many(op, location, || {
            self.check()?;
            let (rows, moved) = self.as_rows(axis)?;
            let function = host::sort(self.dtype(), rows.sizes()[0], rows.sizes()[1], order)?;
            let [values, indices] = Tensor::host_outputs(function, &[&rows], location)?;
            Ok([values.rows_back(&moved, self.sizes()), indices.rows_back(&moved, self.sizes())])
        })
    }

    /// The elements sorted along an axis. NaN counts as larger than every number: it comes
    /// last in ascending order. The sort is stable, so that the two zeros keep their order.
    ///
    /// ```
    /// use millstream::{Order, Tensor};
    /// let x = Tensor::from_slice(&[3.0f32, f32::NAN, 1.0]);
    /// assert_eq!(x.sort(0, Order::Ascending).to_vec::<f32>()?[..2], [1.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, axis: impl Integer, order: Order) -> Tensor {
        let [values, _] = self.sorted("sort", axis, order, Location::caller());
        values
    }

    /// Where the elements in sorted order are (i64), along an axis; see [`Tensor::sort`]. Equal elements stay in their order.
    ///
    /// ```
    /// use millstream::{Order, Tensor};
    /// let x = Tensor::from_slice(&[3, 1, 2, 1]);
    /// assert_eq!(x.argsort(0, Order::Ascending).to_vec::<i64>()?, [1, 3, 2, 0]);
    /// assert_eq!(x.argsort(0, Order::Descending).to_vec::<i64>()?, [0, 2, 1, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, axis: impl Integer, order: Order) -> Tensor {
        let [_, indices] = self.sorted("argsort", axis, order, Location::caller());
        indices
    }

    /// The first `k` elements along an axis in this order, and where they are (i64): the largest, largest first, in descending order.
    /// NaN counts as larger than every number; of equal elements the earlier one comes first.
    ///
    /// ```
    /// use millstream::{Order, Tensor};
    /// let (values, indices) = Tensor::from_slice(&[3, 9, 4, 9]).topk(3, 0, Order::Descending);
    /// assert_eq!(values.to_vec::<i32>()?, [9, 9, 4]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 3, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, axis: impl Integer, order: Order) -> (Tensor, Tensor) {
        let location = Location::caller();
        let [values, indices] = Tensor::build_many("topk", location, || {
            self.check()?;
            let (rows, moved) = self.as_rows(axis)?;
            let function = host::topk(self.dtype(), rows.sizes()[0], rows.sizes()[1], k, order)?;
            let [values, indices] = Tensor::host_outputs(function, &[&rows], location)?;
            Ok([values.rows_back(&moved, self.sizes()), indices.rows_back(&moved, self.sizes())])
        });
        (values, indices)
    }

    /// For each of `values`, the index (i64) in this ascending one-dimensional tensor before which it would have to be inserted
    /// to keep the order: before equal elements, or behind them.
    ///
    /// ```
    /// use millstream::{Side, Tensor};
    /// let sorted = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 5.0]);
    /// let x = Tensor::from_slice(&[2.0f32, 0.0, 9.0]);
    /// assert_eq!(sorted.searchsorted(&x, Side::Left).to_vec::<i64>()?, [1, 0, 4]);
    /// assert_eq!(sorted.searchsorted(&x, Side::Right).to_vec::<i64>()?, [3, 0, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, side: Side) -> Tensor {
        let location = Location::caller();
        let [indices] = Tensor::build_many("searchsorted", location, || {
            self.check()?;
            values.check()?;
            if self.rank() != 1 {
                return Err(Error::shape(format!("the sorted tensor needs 1 dimension, not {}", self.rank())));
            }
            let dtype = self.dtype().promote(values.dtype())?;
            let (sorted, flat) = (self.cast(dtype), values.cast(dtype).reshape([values.len()]));
            let function = host::searchsorted(dtype, sorted.len(), flat.len(), side);
            let [indices] = Tensor::host_outputs(function, &[&sorted, &flat], location)?;
            Ok([indices.reshape(values.sizes())])
        });
        indices
    }

    /// True where the element is among those of `test`. NaN is equal to nothing.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[1, 2, 3]);
    /// assert_eq!(x.isin(&Tensor::from_slice(&[3, 1])).to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn isin(&self, test: &Tensor) -> Tensor {
        let location = Location::caller();
        let [found] = Tensor::build_many("isin", location, || {
            self.check()?;
            test.check()?;
            let dtype = self.dtype().promote(test.dtype())?;
            let (x, among) = (self.cast(dtype).reshape([self.len()]), test.cast(dtype).reshape([test.len()]));
            let function = host::isin(dtype, x.len(), among.len());
            let [found] = Tensor::host_outputs(function, &[&x, &among], location)?;
            Ok([found.reshape(self.sizes())])
        });
        found
    }

    /// Where the element is not zero.
    #[track_caller]
    fn truth(&self) -> Tensor {
        if self.dtype() == DType::Bool { self.clone() } else { self.ne(0) }
    }

    /// The number in a tensor of one, computed now because a shape depends on it, and together with what was counted: computed
    /// again, it might be rounded otherwise.
    fn count_now(&self, counted: &[&Tensor]) -> Result<usize> {
        let all: SmallVec<[&Tensor; 2]> = counted.iter().copied().chain([self]).collect();
        plan::trigger(&all, Trigger::Shape)?;
        self.item::<i64>().map(|n| n as usize)
    }

    /// The indices of the elements that are not zero: for each dimension one tensor (i64), in row-major order of the elements.
    /// Computes now, because the shape depends on the values.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[0, 7, 8, 0]);
    /// let indices = x.nonzero()?;
    /// assert_eq!(indices[0].to_vec::<i64>()?, [0, 1]);
    /// assert_eq!(indices[1].to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        let make = || {
            self.check()?;
            if self.rank() == 0 {
                return Err(Error::shape("a tensor without dimensions has no indices"));
            }
            let truth = self.truth();
            let count = truth.count_nonzero(..).count_now(&[&truth])?;
            let outputs = Tensor::host(host::nonzero(self.sizes(), count), &[&truth], location)?;
            Ok(outputs.into_vec())
        };
        make().map_err(|e: Error| e.in_op("nonzero").at(location))
    }

    /// The elements where a bool tensor is true, in row-major order. The mask's shape is that of the first dimensions of this
    /// tensor; the others stay: the result has the shape `[count, others..]`. Computes now, because the shape depends on the
    /// values.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[5, -3, 8]);
    /// assert_eq!(x.mask(&x.gt(0)).to_vec::<i32>()?, [5, 8]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn mask(&self, mask: &Tensor) -> Tensor {
        let location = Location::caller();
        let [picked] = Tensor::build_many("mask", location, || {
            self.check()?;
            mask.check()?;
            if mask.dtype() != DType::Bool {
                return Err(Error::dtype(format!("a mask holds bool, not {}", mask.dtype()))
                    .suggest("compare it first, for example with ne(0)"));
            }
            let Some(others) = self.sizes().strip_prefix(mask.sizes()) else {
                return Err(Error::shape(format!(
                    "a mask of shape {:?} for a tensor of shape {:?}",
                    mask.sizes(),
                    self.sizes()
                )));
            };
            let (rows, row) = (mask.len(), count(others)?);
            let count = mask.count_nonzero(..).count_now(&[mask])?;
            let function = host::mask(self.dtype(), rows, row, count);
            let (x, flat) = (self.reshape([rows, row]), mask.reshape([rows]));
            let [picked] = Tensor::host_outputs(function, &[&x, &flat], location)?;
            let shape: SmallVec<[usize; 6]> = [count].into_iter().chain(others.iter().copied()).collect();
            Ok([picked.reshape(&shape)])
        });
        picked
    }

    /// The outputs of `unique`, cut to their length.
    fn unique(&self, op: &'static str, location: &'static Location<'static>) -> [Tensor; 4] {
        Tensor::build_many(op, location, || {
            self.check()?;
            let flat = self.reshape([self.len()]);
            let function = host::unique(self.dtype(), self.len())?;
            let [values, first, inverse, counts, total] = Tensor::host_outputs(function, &[&flat], location)?;
            let count = total.count_now(&[])?;
            let cut = |t: Tensor| t.slice(0, ..count);
            Ok([cut(values), cut(first), inverse.reshape(self.sizes()), cut(counts)])
        })
    }

    /// The distinct elements in ascending order; where each occurs first in row-major order (i64); for each element the index of
    /// its value among the distinct ones (i64), in the shape of this tensor; and how often each occurs (i64). Every NaN is distinct, the
    /// two zeros are not. Computes now, because the shape depends on the values.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (values, first, inverse, counts) = Tensor::from_slice(&[4, 2, 4]).unique_all();
    /// assert_eq!(values.to_vec::<i32>()?, [2, 4]);
    /// assert_eq!(first.to_vec::<i64>()?, [1, 0]);
    /// assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1]);
    /// assert_eq!(counts.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_all(&self) -> (Tensor, Tensor, Tensor, Tensor) {
        let [values, first, inverse, counts] = self.unique("unique_all", Location::caller());
        (values, first, inverse, counts)
    }

    /// The distinct elements and how often each occurs; see [`Tensor::unique_all`].
    #[track_caller]
    pub fn unique_counts(&self) -> (Tensor, Tensor) {
        let [values, _, _, counts] = self.unique("unique_counts", Location::caller());
        (values, counts)
    }

    /// The distinct elements, and for each element the index of its value among them; see [`Tensor::unique_all`].
    #[track_caller]
    pub fn unique_inverse(&self) -> (Tensor, Tensor) {
        let [values, _, inverse, _] = self.unique("unique_inverse", Location::caller());
        (values, inverse)
    }

    /// The distinct elements; see [`Tensor::unique_all`].
    #[track_caller]
    pub fn unique_values(&self) -> Tensor {
        let [values, _, _, _] = self.unique("unique_values", Location::caller());
        values
    }
}

reductions! {
    //! # Counts

    /// How many elements are not zero (i64), over axes.
    ///
    /// ```
    /// use millstream::Tensor;
    /// assert_eq!(Tensor::from_slice(&[0.0f32, 2.0, f32::NAN]).count_nonzero(..).item::<i64>()?, 2);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    count_nonzero, count_nonzero_keepdim: |x; axes, keep| x.truth().cast(DType::I64).reduce(Reduce::Sum, axes, keep);
}
