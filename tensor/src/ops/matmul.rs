//! Matmuls.

use millstream_core::what::{Dims, broadcast_shapes};
use millstream_core::{Accuracy, Error};

use crate::Tensor;
use crate::graph::{Contraction, Inputs, Role, Roles};

/// # Matmuls
impl Tensor {
    /// Matrix multiplication over the last two dimensions, with the others broadcast, as in NumPy: a vector on the left is a row,
    /// on the right a column, and the added dimension goes again. Half types are summed in f32, integers wrap.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let a = Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    /// let x = Tensor::from_slice(&[1.0f32, 1.0]);
    /// assert_eq!(a.matmul(&x).to_vec::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        Tensor::build("matmul", || {
            self.check()?;
            other.check()?;
            if self.rank() == 0 || other.rank() == 0 {
                return Err(
                    Error::shape("matmul needs vectors or matrices, not single numbers").suggest("multiply with *")
                );
            }
            let dtype = self.dtype().promote(other.dtype())?;
            let (mut a, mut b) = (self.cast(dtype), other.cast(dtype));
            let (row, column) = (a.rank() == 1, b.rank() == 1);
            if row {
                a = a.unsqueeze(0);
            }
            if column {
                b = b.unsqueeze(1);
            }
            let (ar, br) = (a.rank(), b.rank());
            let (m, k) = (a.sizes()[ar - 2], a.sizes()[ar - 1]);
            let (k2, n) = (b.sizes()[br - 2], b.sizes()[br - 1]);
            if k != k2 {
                return Err(Error::shapes_differ(self.sizes(), other.sizes())
                    .suggest("the last size of the left operand must be the last but one of the right"));
            }
            let batch = broadcast_shapes(&a.sizes()[..ar - 2], &b.sizes()[..br - 2])?;
            let with = |x: usize, y: usize| batch.iter().copied().chain([x, y]).collect::<Dims>();
            let inputs = Inputs::from_buf([
                Tensor { layout: a.layout.broadcast(&with(m, k))?, node: a.node },
                Tensor { layout: b.layout.broadcast(&with(k, n))?, node: b.node },
            ]);
            let mut roles = Roles::from_elem(Role::Batch, batch.len());
            roles.extend([Role::M, Role::N]);
            let mut out = Tensor::new_node(Contraction { roles, accuracy: Accuracy::Full }, inputs)?;
            if column {
                out = out.squeeze(-1);
            }
            if row {
                out = out.squeeze(if column { -1 } else { -2 });
            }
            Ok(out)
        })
    }
}
