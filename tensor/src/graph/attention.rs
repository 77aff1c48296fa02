//! Attention.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Result, Scalar};
use smallvec::smallvec;

use super::operation::{Fusion, Key, Operation, Params};
use crate::Tensor;

/// Attention of queries `[.., m, d]`, keys `[.., n, d]`, values `[.., n, e]` and perhaps a mask `[.., m, n]`, with this scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    pub scale: Scalar,
    pub causal: bool,
    pub mask: bool,
}

impl Operation for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn arity(&self) -> usize {
        3 + usize::from(self.mask)
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let [q, _, v, ..] = inputs else { return Err(Error::internal("attention without its operands")) };
        let mut shape: Dims = q.sizes().into();
        if let (Some(last), Some(&e)) = (shape.last_mut(), v.sizes().last()) {
            *last = e;
        }
        Ok((shape, q.dtype()))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Alone
    }

    fn key(&self, key: &mut Key) {
        key.push(u64::from(self.causal) << 1 | u64::from(self.mask));
    }

    fn params(&self) -> Params {
        smallvec![self.scale]
    }
}
