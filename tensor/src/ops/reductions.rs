//! Reductions, and what is made of them. No axes means all axes.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Kind as Family, Layout, Reduce};
use smallvec::SmallVec;

use crate::Tensor;
use crate::graph::{Reduction, one};

/// Whether reduced axes stay, with size 1, or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keep {
    /// The reduced axes go.
    #[default]
    No,
    /// The reduced axes stay with size 1, so that the result broadcasts against the input.
    Yes,
}

impl Tensor {
    #[track_caller]
    fn reduce(&self, op: Reduce, axes: &[isize], keep: Keep) -> Tensor {
        Tensor::build(op.name(), || {
            self.check()?;
            let list = self.axes(axes)?;
            let shape = self.shape();
            if list.iter().any(|&a| shape[a] == 0) && !matches!(op, Reduce::Sum | Reduce::Prod) {
                return Err(Error::shape(format!(
                    "the {} of no elements (axes {axes:?} of shape {shape:?})",
                    op.name()
                )));
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
    fn elements(&self, axes: &[isize]) -> f64 {
        self.axes(axes).map_or(0.0, |list| list.iter().map(|&a| self.shape()[a] as f64).product())
    }

    /// The sum. Integers are summed in 64 bits, half types in f32.
    ///
    /// ```
    /// use millstream::{Keep, Tensor};
    /// let x = Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.sum(&[0], Keep::No).to_vec::<f32>()?, [4.0, 6.0]);
    /// assert_eq!(x.sum(&[], Keep::No).item::<f32>()?, 10.0);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self, axes: &[isize], keep: Keep) -> Tensor {
        self.widened().reduce(Reduce::Sum, axes, keep)
    }

    /// The product. Integers are multiplied in 64 bits.
    #[track_caller]
    pub fn prod(&self, axes: &[isize], keep: Keep) -> Tensor {
        self.widened().reduce(Reduce::Prod, axes, keep)
    }

    /// The largest element; NaN if there is one.
    #[track_caller]
    pub fn max(&self, axes: &[isize], keep: Keep) -> Tensor {
        self.reduce(Reduce::Max, axes, keep)
    }

    /// The smallest element; NaN if there is one.
    #[track_caller]
    pub fn min(&self, axes: &[isize], keep: Keep) -> Tensor {
        self.reduce(Reduce::Min, axes, keep)
    }

    /// Where the largest element is: the row-major index within the reduced axes; the first of equals, or the first NaN.
    #[track_caller]
    pub fn argmax(&self, axes: &[isize], keep: Keep) -> Tensor {
        self.reduce(Reduce::ArgMax, axes, keep)
    }

    /// Where the smallest element is: the row-major index within the reduced axes; the first of equals, or the first NaN.
    #[track_caller]
    pub fn argmin(&self, axes: &[isize], keep: Keep) -> Tensor {
        self.reduce(Reduce::ArgMin, axes, keep)
    }

    /// Whether any element is true (not 0).
    #[track_caller]
    pub fn any(&self, axes: &[isize], keep: Keep) -> Tensor {
        if self.is_empty() && self.check().is_ok() {
            return self.cast(DType::I64).reduce(Reduce::Sum, axes, keep).ne(0);
        }
        self.cast(DType::Bool).reduce(Reduce::Max, axes, keep)
    }

    /// Whether all elements are true (not 0).
    #[track_caller]
    pub fn all(&self, axes: &[isize], keep: Keep) -> Tensor {
        if self.is_empty() && self.check().is_ok() {
            return self.cast(DType::I64).reduce(Reduce::Prod, axes, keep).ne(0);
        }
        self.cast(DType::Bool).reduce(Reduce::Min, axes, keep)
    }

    /// The mean; of no elements, NaN. Integers as f32.
    #[track_caller]
    pub fn mean(&self, axes: &[isize], keep: Keep) -> Tensor {
        self.as_float().reduce(Reduce::Sum, axes, keep) / self.elements(axes)
    }

    /// The variance around the mean, divided by the number of elements less `correction`; of complex numbers that of the
    /// distances from the mean, a real number.
    #[track_caller]
    pub fn var(&self, axes: &[isize], correction: usize, keep: Keep) -> Tensor {
        let x = self.as_float();
        let deviation = &x - x.mean(axes, Keep::Yes);
        let deviation = if x.dtype().is_complex() { deviation.abs() } else { deviation };
        deviation.square().reduce(Reduce::Sum, axes, keep) / (self.elements(axes) - correction as f64).max(0.0)
    }

    /// The standard deviation: the square root of [`Tensor::var`].
    #[track_caller]
    pub fn std(&self, axes: &[isize], correction: usize, keep: Keep) -> Tensor {
        self.var(axes, correction, keep).sqrt()
    }

    /// `exp(x) / sum(exp(x))` along an axis, safe for large elements.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Tensor {
        let x = self.as_float();
        if x.is_empty() {
            return Tensor::build("softmax", || x.axis(axis).map(|_| x.clone()));
        }
        let e = (&x - x.max(&[axis], Keep::Yes)).exp();
        &e / e.sum(&[axis], Keep::Yes)
    }

    /// The logarithm of [`Tensor::softmax`].
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Tensor {
        let x = self.as_float();
        if x.is_empty() {
            return Tensor::build("log_softmax", || x.axis(axis).map(|_| x.clone()));
        }
        let shifted = &x - x.max(&[axis], Keep::Yes);
        &shifted - shifted.exp().sum(&[axis], Keep::Yes).log()
    }

    /// Rows along the last `axes` axes brought to mean 0 and variance 1; `epsilon` is added to the variance.
    ///
    /// Scale and shift by multiplying and adding: that fuses into the same kernel.
    #[track_caller]
    pub fn layernorm(&self, axes: usize, epsilon: f64) -> Tensor {
        let rank = self.rank();
        if self.check().is_ok() && (axes == 0 || axes > rank) {
            return Tensor::build("layernorm", || {
                Err(Error::argument(format!("layernorm over {axes} axes of a tensor of {rank} dimensions")))
            });
        }
        let list: SmallVec<[isize; 4]> = (1..=axes as isize).map(|a| -a).collect();
        let x = self.as_float();
        let centred = &x - x.mean(&list, Keep::Yes);
        let variance = centred.square().mean(&list, Keep::Yes);
        &centred * (variance + epsilon).rsqrt()
    }
}
