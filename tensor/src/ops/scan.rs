//! Running reductions along an axis.

use millstream_core::Reduce;

use crate::Tensor;
use crate::arguments::Integer;
use crate::graph::{Scan, one};

/// # Running sums, products and extremes
impl Tensor {
    #[track_caller]
    fn scan(&self, name: &'static str, reduce: Reduce, axis: impl Integer) -> Tensor {
        Tensor::build(name, || {
            self.check()?;
            Tensor::new_node(Scan { reduce, axis: self.axis(axis)? }, one(self))
        })
    }

    /// The sum of each element and all before it along an axis. Integers are summed in 64 bits, floats blockwise or wider, so
    /// that the error does not grow with the length as that of a plain loop does.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.cumsum(0).to_vec::<f32>()?, [1.0, 3.0, 6.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, axis: impl Integer) -> Tensor {
        self.widened().scan("cumsum", Reduce::Sum, axis)
    }

    /// The product of each element and all before it along an axis. Integers are multiplied in 64 bits.
    #[track_caller]
    pub fn cumprod(&self, axis: impl Integer) -> Tensor {
        self.widened().scan("cumprod", Reduce::Prod, axis)
    }

    /// The largest of each element and all before it along an axis; NaN from the first NaN on.
    #[track_caller]
    pub fn cummax(&self, axis: impl Integer) -> Tensor {
        self.scan("cummax", Reduce::Max, axis)
    }

    /// The smallest of each element and all before it along an axis; NaN from the first NaN on.
    #[track_caller]
    pub fn cummin(&self, axis: impl Integer) -> Tensor {
        self.scan("cummin", Reduce::Min, axis)
    }

    /// The difference of each element and the one before it along an axis, which is one shorter.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[1.0f32, 4.0, 9.0]);
    /// assert_eq!(x.diff(0).to_vec::<f32>()?, [3.0, 5.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self, axis: impl Integer) -> Tensor {
        Tensor::composed("diff", || self.slice(axis, 1..) - self.slice(axis, ..-1))
    }
}
