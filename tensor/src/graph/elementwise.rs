//! Operations on each element: the result at an index needs the inputs at that index only.

use millstream_core::what::Dims;
use millstream_core::{Binary, DType, Result, Unary};

use super::operation::{Key, Operation, like, refuses};
use crate::Tensor;

/// The input's elements in row-major order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy;

impl Operation for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        like(inputs, 0)
    }
}

/// The elements in another dtype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    pub to: DType,
}

impl Operation for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        Ok((like(inputs, 0)?.0, self.to))
    }
}

impl Operation for Unary {
    fn name(&self) -> &'static str {
        Unary::name(*self)
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let (shape, of) = like(inputs, 0)?;
        Ok((shape, Unary::result(*self, of).ok_or_else(|| refuses(Unary::name(*self), of))?))
    }

    fn key(&self, key: &mut Key) {
        key.push(*self as u64);
    }

    fn flop(&self) -> u64 {
        Unary::flop(*self)
    }
}

impl Operation for Binary {
    fn name(&self) -> &'static str {
        Binary::name(*self)
    }

    fn arity(&self) -> usize {
        2
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let (shape, of) = like(inputs, 0)?;
        Ok((shape, Binary::result(*self, of).ok_or_else(|| refuses(Binary::name(*self), of))?))
    }

    fn key(&self, key: &mut Key) {
        key.push(*self as u64);
    }

    fn flop(&self) -> u64 {
        Binary::flop(*self)
    }
}

/// The second input where the first is true, else the third.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Select;

impl Operation for Select {
    fn name(&self) -> &'static str {
        "where"
    }

    fn arity(&self) -> usize {
        3
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        like(inputs, 1)
    }

    fn flop(&self) -> u64 {
        1
    }
}
