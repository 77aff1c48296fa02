//! Reductions over axes and running reductions along one.

use millstream_core::what::Dims;
use millstream_core::{DType, Reduce, Result};
use smallvec::SmallVec;

use super::operation::{Fusion, Key, Operation, like, refuses};
use crate::Tensor;

/// A reduction over these axes of the input (sorted); they stay as size 1.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    pub reduce: Reduce,
    pub axes: SmallVec<[usize; 4]>,
}

impl Operation for Reduction {
    fn name(&self) -> &'static str {
        self.reduce.name()
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let (mut shape, of) = like(inputs, 0)?;
        self.axes.iter().for_each(|&a| shape[a] = 1);
        Ok((shape, self.reduce.result(of).ok_or_else(|| refuses(self.name(), of))?))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Reduction(&self.axes)
    }

    fn key(&self, key: &mut Key) {
        // Ranks are at most 64, so that a set of axes fits one word.
        key.push(self.reduce as u64);
        key.push(self.axes.iter().fold(0u64, |set, &a| set | 1 << a));
    }
}

/// A running reduction along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    pub reduce: Reduce,
    pub axis: usize,
}

impl Operation for Scan {
    fn name(&self) -> &'static str {
        match self.reduce {
            Reduce::Prod => "cumprod",
            Reduce::Max => "cummax",
            Reduce::Min => "cummin",
            _ => "cumsum",
        }
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let (shape, of) = like(inputs, 0)?;
        if self.reduce.result(of) != Some(of) {
            return Err(refuses(self.name(), of));
        }
        Ok((shape, of))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Alone
    }

    fn key(&self, key: &mut Key) {
        key.push((self.axis as u64) << 8 | self.reduce as u64);
    }
}
