//! Reductions, and what is made of them.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Kind as Family, Layout, Reduce};

use crate::Tensor;
use crate::arguments::{Axes, Integer};
use crate::graph::{Reduction, one};

/// Whether reduced axes stay, with size 1, or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The reduced axes go.
    No,
    /// The reduced axes stay with size 1, so that the result broadcasts against the input.
    Yes,
}

/// A reduction in two forms: one in which the reduced axes go, and one in which they stay with size 1.
macro_rules! reductions {
    ($(#![$head:meta])* $($(#[$doc:meta])* $name:ident, $keepdim:ident: |$x:ident $(, $more:ident: $of:ty)*; $axes:ident, $keep:ident| $make:expr;)*) => {
        $(#[$head])*
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&self $(, $more: $of)*, axes: impl Into<Axes>) -> Tensor {
                let ($x, $axes, $keep) = (self, &axes.into(), Keep::No);
                Tensor::composed(stringify!($name), || $make)
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] with the reduced axes kept, of size 1.")]
            #[track_caller]
            pub fn $keepdim(&self $(, $more: $of)*, axes: impl Into<Axes>) -> Tensor {
                let ($x, $axes, $keep) = (self, &axes.into(), Keep::Yes);
                Tensor::composed(stringify!($keepdim), || $make)
            })*
        }
    };
}
pub(crate) use reductions;

impl Tensor {
    #[track_caller]
    pub(crate) fn reduce(&self, op: Reduce, axes: &Axes, keep: Keep) -> Tensor {
        Tensor::build(op.name(), || {
            self.check()?;
            let list = axes.sorted(self.rank())?;
            if list.is_empty() {
                // Each element by itself.
                return Ok(self.unsqueeze(-1).reduce(op, &Axes::from(-1), Keep::No));
            }
            let shape = self.sizes();
            if list.iter().any(|&a| shape[a] == 0) && !matches!(op, Reduce::Sum | Reduce::Prod) {
                return Err(Error::shape(format!("the {} of no elements (axes {list:?} of {shape:?})", op.name())));
            }
            let left: Dims = (0..self.rank()).filter(|a| !list.contains(a)).map(|a| shape[a]).collect();
            let mut out = Tensor::new_node(Reduction { reduce: op, axes: list }, one(self))?;
            if keep == Keep::No {
                out.layout = Layout::contiguous(&left)?;
            }
            Ok(out)
        })
    }

    /// Integers and bool as 64-bit integers, as sums and products use them.
    #[track_caller]
    pub(crate) fn widened(&self) -> Tensor {
        match self.dtype().kind() {
            Family::Bool | Family::Signed => self.cast(DType::I64),
            Family::Unsigned => self.cast(DType::U64),
            _ => self.clone(),
        }
    }

    /// Integers and bool as f32, as means use them.
    #[track_caller]
    pub(crate) fn as_float(&self) -> Tensor {
        match self.dtype().kind() {
            Family::Bool | Family::Signed | Family::Unsigned => self.cast(DType::F32),
            _ => self.clone(),
        }
    }

    /// How many elements one result of a reduction over these axes takes in; wrong axes are found by the reduction itself.
    fn elements_of(&self, axes: &Axes) -> f64 {
        axes.of(self.rank()).map_or(0.0, |list| list.iter().map(|&a| self.sizes()[a] as f64).product())
    }

    /// Truth values reduced; of no elements the reduction's own neutral one.
    #[track_caller]
    fn truths(&self, op: Reduce, empty: Reduce, axes: &Axes, keep: Keep) -> Tensor {
        if self.is_empty() && self.check().is_ok() {
            return self.cast(DType::I64).reduce(empty, axes, keep).ne(0);
        }
        self.cast(DType::Bool).reduce(op, axes, keep)
    }

    #[track_caller]
    fn variance(&self, correction: f64, axes: &Axes, keep: Keep) -> Tensor {
        let x = self.as_float();
        let deviation = &x - x.mean_over(axes, Keep::Yes);
        let deviation = if x.dtype().is_complex() { deviation.abs() } else { deviation };
        let degrees = (self.elements_of(axes) - correction).max(0.0);
        if matches!(self.dtype(), DType::I64 | DType::U64) {
            // The sum of their squares may be beyond f32. Powers of two round nothing.
            const SMALL: f64 = 1.0 / (1u64 << 32) as f64;
            return (deviation * SMALL).square().reduce(Reduce::Sum, axes, keep) / degrees / (SMALL * SMALL);
        }
        deviation.square().reduce(Reduce::Sum, axes, keep) / degrees
    }

    #[track_caller]
    fn mean_over(&self, axes: &Axes, keep: Keep) -> Tensor {
        self.as_float().reduce(Reduce::Sum, axes, keep) / self.elements_of(axes)
    }
}

reductions! {
    //! # Reductions
    //!
    //! Axes are one, a list, a range, or all by `..`. Each has a form that keeps the reduced axes with size 1, so that its result broadcasts
    //! against what was reduced. How a sum is grouped depends on shapes alone: results do not depend on the number of threads.

    /// The sum over axes: `1`, `[0, 1]`, or `..` for all. Integers are summed in 64 bits, half types in f32.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum(0).to_vec::<f32>()?, [4.0, 6.0]);
    /// assert_eq!(x.sum_keepdim(-1).shape(), [2, 1]);
    /// assert_eq!(x.sum(..).item::<f32>()?, 10.0);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    sum, sum_keepdim: |x; axes, keep| x.widened().reduce(Reduce::Sum, axes, keep);
    /// The product. Integers are multiplied in 64 bits.
    prod, prod_keepdim: |x; axes, keep| x.widened().reduce(Reduce::Prod, axes, keep);
    /// The largest element; NaN if there is one.
    max, max_keepdim: |x; axes, keep| x.reduce(Reduce::Max, axes, keep);
    /// The smallest element; NaN if there is one.
    min, min_keepdim: |x; axes, keep| x.reduce(Reduce::Min, axes, keep);
    /// Where the largest element is: the row-major index within the reduced axes; the first of equals, or the first NaN.
    argmax, argmax_keepdim: |x; axes, keep| x.reduce(Reduce::ArgMax, axes, keep);
    /// Where the smallest element is: the row-major index within the reduced axes; the first of equals, or the first NaN.
    argmin, argmin_keepdim: |x; axes, keep| x.reduce(Reduce::ArgMin, axes, keep);
    /// Whether any element is true (not 0).
    any, any_keepdim: |x; axes, keep| x.truths(Reduce::Max, Reduce::Sum, axes, keep);
    /// Whether all elements are true (not 0).
    all, all_keepdim: |x; axes, keep| x.truths(Reduce::Min, Reduce::Prod, axes, keep);
    /// The mean; of no elements, NaN. Integers as f32.
    mean, mean_keepdim: |x; axes, keep| x.mean_over(axes, keep);
    /// The variance around the mean, divided by the number of elements; of complex numbers that of the distances from the mean,
    /// a real number. See [`Tensor::var_corrected`] for that of a sample.
    var, var_keepdim: |x; axes, keep| x.variance(0.0, axes, keep);
    /// The variance around the mean, divided by the number of elements less `correction`, which is 1 for a sample.
    var_corrected, var_corrected_keepdim: |x, correction: f64; axes, keep| x.variance(correction, axes, keep);
    /// The standard deviation: the square root of [`Tensor::var`].
    std, std_keepdim: |x; axes, keep| x.variance(0.0, axes, keep).sqrt();
    /// The square root of [`Tensor::var_corrected`].
    std_corrected, std_corrected_keepdim: |x, correction: f64; axes, keep| x.variance(correction, axes, keep).sqrt();
}

/// # Softmax and layer norm
///
/// One kernel each, with what is computed before and after.
impl Tensor {
    /// `exp(x) / sum(exp(x))` along an axis, safe for large elements.
    #[track_caller]
    pub fn softmax(&self, axis: impl Integer) -> Tensor {
        let (axis, x) = (axis.number(), self.as_float());
        if x.is_empty() {
            return Tensor::build("softmax", || x.axis(axis).map(|_| x.clone()));
        }
        Tensor::composed("softmax", || {
            let e = (&x - x.max_keepdim(axis)).exp();
            &e / e.sum_keepdim(axis)
        })
    }

    /// The logarithm of [`Tensor::softmax`].
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Integer) -> Tensor {
        let (axis, x) = (axis.number(), self.as_float());
        if x.is_empty() {
            return Tensor::build("log_softmax", || x.axis(axis).map(|_| x.clone()));
        }
        Tensor::composed("log_softmax", || {
            let shifted = &x - x.max_keepdim(axis);
            &shifted - shifted.exp().sum_keepdim(axis).log()
        })
    }

    /// Rows along axes brought to mean 0 and variance 1; `epsilon` is added to the variance. `-1` are the rows of the last axis,
    /// `1..` those of all axes but the first.
    ///
    /// Scale and shift by multiplying and adding: that fuses into the same kernel.
    #[track_caller]
    pub fn layernorm(&self, axes: impl Into<Axes>, epsilon: f64) -> Tensor {
        let axes = axes.into();
        Tensor::composed("layernorm", || {
            let x = self.as_float();
            let centred = &x - x.mean_over(&axes, Keep::Yes);
            let variance = centred.square().mean_over(&axes, Keep::Yes);
            &centred * (variance + epsilon).rsqrt()
        })
    }
}
