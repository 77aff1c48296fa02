//! How tensors are shown to people: what they are, not their elements, which may have to be computed first.

use std::fmt;

use crate::Tensor;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node.value() {
            Some(Err(error)) => write!(f, "Tensor(error: {error})"),
            Some(Ok(_)) => write!(f, "Tensor({}, {:?})", self.dtype(), self.shape()),
            None => write!(f, "Tensor({}, {:?}, pending {})", self.dtype(), self.shape(), self.node.kind.name()),
        }
    }
}
