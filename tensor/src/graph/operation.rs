//! What every graph operation answers, in one trait.
//!
//! An operation is plain data: it holds no input and no result. The passes of the planner and the nodes ask it through
//! [`Operation`]. The files beside this one hold the operations by family; [`Kind`](super::Kind) lists them.

use std::sync::Arc;

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Result, Scalar};
use smallvec::SmallVec;

use super::HostGroup;
use crate::Tensor;

/// The words of a graph's structure, by which plans are found.
pub(crate) type Key = SmallVec<[u64; 128]>;

/// The numbers of an operation.
pub(crate) type Params = SmallVec<[Scalar; 2]>;

/// All that the graph and the planner ask of an operation.
pub(crate) trait Operation {
    /// The name for people.
    fn name(&self) -> &'static str;

    /// How many inputs it takes.
    fn arity(&self) -> usize {
        1
    }

    /// The shape and dtype of its result over these inputs, which are as many as it takes. Methods of `Tensor` convert and
    /// broadcast operands before; what the rule refuses is the user's mistake where it depends on dtypes, else theirs.
    fn result(&self, inputs: &[Tensor]) -> Result<(Dims, DType)>;

    /// Which operations it is computed together with.
    fn fusion(&self) -> Fusion<'_> {
        Fusion::Elementwise
    }

    /// Whether a value that the program holds is worth its memory where this goes into it.
    fn is_expensive(&self) -> bool {
        !matches!(self.fusion(), Fusion::Free | Fusion::Elementwise)
    }

    /// Whether the shapes of its inputs follow from its own.
    fn input_shapes(&self) -> InputShapes {
        match self.fusion() {
            Fusion::Elementwise => InputShapes::Result,
            _ => InputShapes::Own,
        }
    }

    /// Appends what tells it from others of its kind, so that no two lists of words mean the same. Numbers that are
    /// parameters, and the offset, are not structure.
    fn key(&self, _key: &mut Key) {}

    /// The numbers that a plan is given at each run.
    fn params(&self) -> Params {
        Params::new()
    }

    /// The element of its result at which it begins to write, if a plan is given that at each run.
    fn offset(&self) -> Option<usize> {
        None
    }

    /// Simple operations for each element of its result, where it is computed together with others.
    fn flop(&self) -> u64 {
        0
    }
}

/// Which operations an operation is computed together with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fusion<'a> {
    /// It costs nothing: every reader has it anew, and it has no memory unless it is wanted itself.
    Free,
    /// One value for each index of the result; joins maps, row programs and the epilogues of contractions.
    Elementwise,
    /// Reduces these axes of its input; joins element-wise operations and reductions of the same rows.
    Reduction(&'a [usize]),
    /// A contraction; element-wise operations after it are its epilogue.
    Contraction,
    /// Each part of its result is written by an operation of its own.
    Parts,
    /// One output of this call of a host function; joins the call's other outputs only.
    Host(&'a Arc<HostGroup>),
    /// It joins nothing, and reads only what is in memory.
    Alone,
}

/// Whether the shapes of an operation's inputs follow from its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputShapes {
    /// Each input has the shape of the result.
    Result,
    /// They have shapes of their own.
    Own,
}

/// The rule of operations whose result is like one of their inputs.
pub(super) fn like(inputs: &[Tensor], n: usize) -> Result<(Dims, DType)> {
    let input = inputs.get(n).ok_or_else(|| Error::internal("an operation without its inputs"))?;
    Ok((input.sizes().into(), input.dtype()))
}

/// The error of an operation that a dtype does not have.
pub(super) fn refuses(name: &str, dtype: DType) -> Error {
    Error::dtype(format!("{name} does not take {dtype}"))
}
