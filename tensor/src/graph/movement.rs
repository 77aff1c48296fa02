//! Operations that move elements: padding, joining, assigning to a part, lookups by index.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Layout, Lookup, Outside, Result, Scalar};
use smallvec::SmallVec;

use super::operation::{Fusion, InputShapes, Key, Operation, like};
use crate::Tensor;

/// The input with `fill` around it: so many elements before and after it along each axis.
#[derive(Clone, Debug)]
pub(crate) struct Pad {
    pub before: Dims,
    pub after: Dims,
    pub fill: Scalar,
}

impl Operation for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let (shape, dtype) = like(inputs, 0)?;
        let sum = |((&n, &low), &high): ((&usize, &usize), &usize)| n.checked_add(low)?.checked_add(high);
        let padded: Option<Dims> = shape.iter().zip(&self.before).zip(&self.after).map(sum).collect();
        Ok((padded.ok_or_else(|| Error::too_large(&shape))?, dtype))
    }

    fn input_shapes(&self) -> InputShapes {
        InputShapes::Own
    }

    fn key(&self, key: &mut Key) {
        // What lies around is part of how memory is read, and so of the operation.
        key.extend(self.before.iter().map(|&n| n as u64));
        key.extend_from_slice(&self.fill.bits());
    }
}

/// So many inputs one after the other along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concat {
    pub axis: usize,
    pub parts: usize,
}

impl Operation for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn arity(&self) -> usize {
        self.parts
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let (mut shape, dtype) = like(inputs, 0)?;
        let sum = inputs.iter().try_fold(0usize, |sum, t| sum.checked_add(t.sizes()[self.axis]));
        shape[self.axis] = sum.ok_or_else(|| Error::shape("the concatenation has too many elements"))?;
        Ok((shape, dtype))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Parts
    }

    fn is_expensive(&self) -> bool {
        false
    }

    fn key(&self, key: &mut Key) {
        key.push((self.axis as u64) << 32 | self.parts as u64);
    }
}

/// The first input with the second in place of the elements at these row-major positions, which are all different.
#[derive(Clone, Debug)]
pub(crate) struct Assign {
    pub region: Layout,
}

impl Operation for Assign {
    fn name(&self) -> &'static str {
        "assign"
    }

    fn arity(&self) -> usize {
        2
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        like(inputs, 0)
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Parts
    }

    fn key(&self, key: &mut Key) {
        // Where it begins is no structure: a region that moves through a tensor finds its plan again.
        key.push(self.region.rank() as u64);
        key.extend(self.region.strides().iter().map(|&s| s as u64));
    }

    fn offset(&self) -> Option<usize> {
        Some(self.region.offset())
    }
}

/// Elements of the first input's memory, moved along one axis of it for each further input.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub lookups: SmallVec<[Lookup; 2]>,
    pub outside: Outside,
}

impl Operation for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn arity(&self) -> usize {
        self.lookups.len() + 1
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        like(inputs, 0)
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Alone
    }

    fn key(&self, key: &mut Key) {
        key.push((self.outside as u64) << 32 | self.lookups.len() as u64);
        for lookup in &self.lookups {
            key.extend([lookup.stride as u64, lookup.size as u64]);
        }
    }
}
