//! What one way to compute an operation moves and computes.
//!
//! A backend states it for the cost model. It is part of no key: two candidates that differ only here are the same kernel.

use super::variant::Tile;
use crate::what::{Body, Op, elements};

/// What a way to compute an operation costs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Traffic {
    /// The blocks that each level holds; none where the operation's own bytes and arithmetic say all.
    pub tile: Tile,
    /// Parts into which K is cut, each computed by groups of its own; 0 as 1.
    pub splits: usize,
    /// Bytes that are copied before the arithmetic begins: an image with its border, the
    /// windows of a convolution as a matrix.
    pub copied: u64,
    /// Elements that are transposed on the way to the arithmetic, or from it to the result.
    pub transposed: u64,
    /// Matmuls of few numbers that begin one after the other, where a batch has many.
    pub matrices: u64,
    /// Planes of a depthwise convolution, each of which begins anew.
    pub planes: u64,
    /// The matmuls that are computed, where they are others than the operation says.
    pub matmuls: Option<ContractSizes>,
    /// Multiply-adds that are computed in all, where they are not as many as the operation says: fewer where those with the zeros of padding are
    /// left out, more where the dtype's rate is that of instructions which the kernel does not use.
    pub computed: Option<u64>,
    /// Tasks for each matrix of the batch, where the largest block is not what one task computes; all tasks, for attention.
    pub tasks: Option<usize>,
    /// Rows and columns that kernels for edges come in, where those cost less than whole register blocks.
    pub edges: Option<(usize, usize)>,
    /// How often each element of the inputs is read from memory; 0 as 1.
    pub reads: usize,
    /// Further launches, each of which needs what the one before wrote.
    pub dependent: usize,
    /// How far the kernel hides what it moves behind its arithmetic.
    pub overlap: Overlap,
    /// Which units multiply.
    pub arithmetic: Arithmetic,
}

/// Which units of a device multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// Those that do all arithmetic.
    #[default]
    Ordinary,
    /// Units for matmuls of small tiles, where the device has them for the dtype.
    Matrix,
    /// The same units, given what they multiply by warps, from registers: see [`super::DeviceProfile::warp_rates`].
    Warps,
}

/// How far a kernel hides what it moves behind its arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// As far as the device does by itself.
    #[default]
    Ordinary,
    /// Wholly: every level is read while the units multiply, as the kernels of a vendor's library are tuned to.
    Full,
}

/// The sizes of a contraction, each group of dimensions taken as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContractSizes {
    /// Independent matmuls.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Multiply-adds of each result.
    pub k: usize,
}

impl ContractSizes {
    /// Those of a single matmul.
    pub fn matmul(m: usize, n: usize, k: usize) -> ContractSizes {
        ContractSizes { batch: 1, m, n, k }
    }

    /// Those of the transposed matmul.
    #[must_use]
    pub fn transposed(self) -> ContractSizes {
        ContractSizes { m: self.n, n: self.m, ..self }
    }

    /// Those of an operation, if it is a contraction.
    pub fn of(op: &Op) -> Option<ContractSizes> {
        let Body::Contract(c) = &op.body else { return None };
        let size = |range: std::ops::Range<usize>| elements(&op.dims[range]);
        Some(ContractSizes { batch: size(0..c.m), m: size(c.m..c.n), n: size(c.n..c.k), k: size(c.k..op.dims.len()) })
    }
}
