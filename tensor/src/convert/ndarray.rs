//! Arrays of the `ndarray` crate.

use millstream_core::{Element, Error, Result};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::Tensor;

/// A tensor with a copy of an array's elements, in its shape.
impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Tensor {
    #[track_caller]
    fn from(array: &ArrayBase<S, D>) -> Tensor {
        match array.as_slice() {
            Some(values) => Tensor::from_shape(array.shape(), values),
            None => Tensor::from_vec(array.iter().copied().collect(), array.shape()),
        }
    }
}

/// # Other crates' arrays
impl Tensor {
    /// The elements as an array of the `ndarray` crate; `into_dimensionality` makes its rank a type. With the feature `ndarray`.
    ///
    /// ```
    /// use millstream::Tensor;
    /// use ndarray::{Ix2, array};
    /// let a = array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let x = Tensor::from(&a) * 2.0;
    /// let b = x.to_ndarray::<f32>()?.into_dimensionality::<Ix2>().unwrap();
    /// assert_eq!(b, &a + &a);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let elements = self.to_vec::<T>()?;
        ArrayD::from_shape_vec(IxDyn(self.sizes()), elements)
            .map_err(|e| Error::shape(format!("no ndarray has the shape {:?}: {e}", self.sizes())))
    }
}
