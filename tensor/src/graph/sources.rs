//! Operations without inputs: numbers, ranges, random words, and what stands for a value.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Result, Scalar};
use smallvec::smallvec;

use super::operation::{Fusion, Key, Operation, Params};
use crate::Tensor;

/// The value was there from the start, or is an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf;

impl Operation for Leaf {
    fn name(&self) -> &'static str {
        "leaf"
    }

    fn arity(&self) -> usize {
        0
    }

    fn result(&self, _: &[Tensor]) -> Result<(Dims, DType)> {
        Err(Error::internal("a leaf has its shape from its value"))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Alone
    }
}

/// Stands for an argument of a function that is being compiled; it has no value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input;

impl Operation for Input {
    fn name(&self) -> &'static str {
        "argument"
    }

    fn arity(&self) -> usize {
        0
    }

    fn result(&self, _: &[Tensor]) -> Result<(Dims, DType)> {
        Err(Error::internal("an argument has its shape from its call"))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Alone
    }
}

/// One number. Its shape is empty; it is broadcast to any other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub value: Scalar,
}

impl Operation for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn arity(&self) -> usize {
        0
    }

    fn result(&self, _: &[Tensor]) -> Result<(Dims, DType)> {
        Ok((Dims::new(), self.value.dtype()))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Free
    }

    fn key(&self, key: &mut Key) {
        // Masks are made with minus infinity: attention is recognised by it.
        key.push(u64::from(self.value.dtype().is_float() && self.value.to_f64() == f64::NEG_INFINITY));
    }

    fn params(&self) -> Params {
        smallvec![self.value]
    }
}

/// `start + step * i` for the element `i` of a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iota {
    pub start: Scalar,
    pub step: Scalar,
    pub len: usize,
}

impl Operation for Iota {
    fn name(&self) -> &'static str {
        "arange"
    }

    fn arity(&self) -> usize {
        0
    }

    fn result(&self, _: &[Tensor]) -> Result<(Dims, DType)> {
        Ok((Dims::from_slice(&[self.len]), self.start.dtype()))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Free
    }

    fn params(&self) -> Params {
        smallvec![self.start, self.step]
    }
}

/// A random word for each element, by its row-major number, under a key of two words.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    pub key: [u32; 2],
    pub shape: Dims,
}

impl Operation for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn arity(&self) -> usize {
        0
    }

    fn result(&self, _: &[Tensor]) -> Result<(Dims, DType)> {
        Ok((self.shape.clone(), DType::U32))
    }

    fn params(&self) -> Params {
        self.key.map(Scalar::new).into()
    }

    fn is_expensive(&self) -> bool {
        true
    }

    fn flop(&self) -> u64 {
        // Many more than computing again could pay for.
        100
    }
}
