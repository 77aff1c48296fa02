//! What flows through a pipeline, and functions over it in the one form that stages have.

use millstream_core::{Error, Result};

use crate::Tensor;

/// What an item consists of: a tensor, an array of tensors, or a list of them.
pub trait Item: Sized + sealed::Sealed {
    /// Its tensors.
    #[doc(hidden)]
    fn into_tensors(self) -> Vec<Tensor>;

    /// An item of these tensors; `None` if they are not as many as it has.
    #[doc(hidden)]
    fn from_tensors(tensors: Vec<Tensor>) -> Option<Self>;
}

/// What a pipeline is fed with: an item, or the error in place of one.
pub trait Source<I>: sealed::Sealed {
    /// The item.
    #[doc(hidden)]
    fn item(self) -> Result<I>;
}

mod sealed {
    use crate::Tensor;

    /// Only what this module names is an item.
    pub trait Sealed {}
    impl Sealed for Tensor {}
    impl<const N: usize> Sealed for [Tensor; N] {}
    impl Sealed for Vec<Tensor> {}
    impl<I, E> Sealed for Result<I, E> {}
}

impl Item for Tensor {
    fn into_tensors(self) -> Vec<Tensor> {
        vec![self]
    }

    fn from_tensors(mut tensors: Vec<Tensor>) -> Option<Tensor> {
        if tensors.len() == 1 { tensors.pop() } else { None }
    }
}

impl<const N: usize> Item for [Tensor; N] {
    fn into_tensors(self) -> Vec<Tensor> {
        self.into()
    }

    fn from_tensors(tensors: Vec<Tensor>) -> Option<[Tensor; N]> {
        tensors.try_into().ok()
    }
}

impl Item for Vec<Tensor> {
    fn into_tensors(self) -> Vec<Tensor> {
        self
    }

    fn from_tensors(tensors: Vec<Tensor>) -> Option<Vec<Tensor>> {
        Some(tensors)
    }
}

impl Source<Tensor> for Tensor {
    fn item(self) -> Result<Tensor> {
        Ok(self)
    }
}

impl<const N: usize> Source<[Tensor; N]> for [Tensor; N] {
    fn item(self) -> Result<[Tensor; N]> {
        Ok(self)
    }
}

impl Source<Vec<Tensor>> for Vec<Tensor> {
    fn item(self) -> Result<Vec<Tensor>> {
        Ok(self)
    }
}

impl<I, E: Into<Error>> Source<I> for std::result::Result<I, E> {
    fn item(self) -> Result<I> {
        self.map_err(Into::into)
    }
}

/// A function of one tensor, as one of lists.
pub(super) fn single<'f>(
    function: impl Fn(&Tensor) -> Tensor + Send + Sync + 'f,
) -> impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f {
    move |inputs| match inputs {
        [x] => Ok(vec![function(x)]),
        _ => Err(number(1, inputs.len())),
    }
}

/// A function of several tensors, as one of lists.
pub(super) fn array<'f, const N: usize, const M: usize>(
    function: impl Fn([&Tensor; N]) -> [Tensor; M] + Send + Sync + 'f,
) -> impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f {
    move |inputs| match inputs.try_into() {
        Ok(inputs) => Ok(function(inputs).into()),
        Err(_) => Err(number(N, inputs.len())),
    }
}

fn number(wanted: usize, given: usize) -> Error {
    Error::argument(format!("a stage takes {wanted} tensors and was given {given}"))
}

/// The tensor as one that shows all of a value, row-major: what travels on is what is wanted.
pub(super) fn whole(tensor: &Tensor) -> Tensor {
    let all = tensor.node.shape.iter().product::<usize>();
    if tensor.layout.is_contiguous() && tensor.len() == all { tensor.clone() } else { tensor.copy() }
}
