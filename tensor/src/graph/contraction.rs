//! Contractions: matmul, einsum and convolutions.

use millstream_core::what::Dims;
use millstream_core::{Accuracy, DType, Error, Result};
use smallvec::SmallVec;

use super::operation::{Fusion, Key, Operation};
use crate::Tensor;

/// The most dimensions of a contraction's result: the key holds two bits of each.
const MOST: usize = 32;

/// What a dimension of a contraction's result belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Both operands have it.
    Batch,
    /// The left operand has it.
    M,
    /// The right operand has it.
    N,
}

/// The role of each dimension of a contraction's result.
pub(crate) type Roles = SmallVec<[Role; 6]>;

/// The sum over k of `[batch.., m.., k..]` times `[batch.., k.., n..]`, both of one dtype. The groups may have any number of
/// dimensions each; the result's dimensions are those of batch, m and n in the order that the roles say, within a group in
/// that of the operands.
#[derive(Clone, Debug)]
pub(crate) struct Contraction {
    pub roles: Roles,
    pub accuracy: Accuracy,
}

impl Operation for Contraction {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn arity(&self) -> usize {
        2
    }

    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)> {
        let [left, right] = inputs else { return Err(Error::internal("a contraction without its operands")) };
        let (roles, dtype) = (&self.roles, left.dtype());
        if roles.len() > MOST {
            let rank = roles.len();
            return Err(Error::shape(format!("a contraction with {rank} dimensions; at most {MOST} are possible")));
        }
        if dtype == DType::Bool {
            return Err(Error::dtype("contractions do not take bool").suggest("cast to an integer or float type first"));
        }
        let count = |role: Role| roles.iter().filter(|r| **r == role).count();
        let (batch, m, n) = (count(Role::Batch), count(Role::M), count(Role::N));
        let (a, b) = (left.sizes(), right.sizes());
        let fits = a.len() >= batch + m && b.len() + m == a.len() + n && dtype == right.dtype();
        if !fits || a[..batch] != b[..batch] || a[batch + m..] != b[batch..b.len() - n] {
            return Err(Error::internal(format!("the contraction of {a:?} and {b:?} as {roles:?}")));
        }
        let (mut shared, mut rows, mut columns) = (a.iter(), a[batch..].iter(), b[b.len() - n..].iter());
        let size = |role: &Role| match role {
            Role::Batch => shared.next(),
            Role::M => rows.next(),
            Role::N => columns.next(),
        };
        Ok((roles.iter().filter_map(size).copied().collect(), dtype))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Contraction
    }

    fn key(&self, key: &mut Key) {
        key.push(self.accuracy as u64);
        key.push(self.roles.iter().fold(0u64, |set, &r| set << 2 | (r as u64 + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(roles: &[Role], left: &[usize], right: &[usize]) -> Result<Dims> {
        let contraction = Contraction { roles: roles.into(), accuracy: Accuracy::Full };
        let operands = [left, right].map(|shape| Tensor::zeros(shape, DType::F32));
        contraction.result(&operands).map(|(shape, _)| shape)
    }

    #[test]
    fn roles_say_the_order_of_the_result() -> Result<()> {
        let roles = [Role::N, Role::Batch, Role::M, Role::N];
        assert_eq!(shape_of(&roles, &[2, 3, 5], &[2, 5, 7, 11])?[..], [7, 2, 3, 11]);
        Ok(())
    }

    #[test]
    fn operands_that_differ_in_k_or_batch_are_refused() {
        let roles = [Role::Batch, Role::M, Role::N];
        assert!(shape_of(&roles, &[2, 3, 5], &[2, 4, 7]).is_err());
        assert!(shape_of(&roles, &[2, 3, 5], &[1, 5, 7]).is_err());
        assert!(shape_of(&roles, &[2], &[2, 7]).is_err());
    }
}
