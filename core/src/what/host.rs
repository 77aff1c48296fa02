//! Host functions: operations that only the CPU computes, by plain Rust code rather than by a kernel of expressions.
//!
//! Sorting, factorizations, Fourier transforms: what a device family would gain little from having of its own. A function
//! reads and writes whole operands, contiguous and row-major, and may have several outputs. Every other device answers that it
//! does not support it, so that the planner places it on the host and says so.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::access::Access;
use super::dtype::DType;
use super::layout::{Dims, elements};
use super::op::{Body, Op};
use crate::error::{Error, Result};

/// The code of a host function. Whatever it depends on beside its operands is in [`HostRun::words`].
pub trait HostRun: Send + Sync + 'static {
    /// The name for people: `svd`. It also tells functions apart.
    fn name(&self) -> &'static str;

    /// All that tells this function from others of its name and operands: axes, modes, numbers.
    fn words(&self) -> SmallVec<[u64; 4]> {
        SmallVec::new()
    }

    /// Computes. The slices hold the bytes of the operands, aligned for their dtypes, in the order of
    /// [`HostFunction::inputs`] and [`HostFunction::outputs`]; an output that nobody wants is `None`. Every byte of the other
    /// outputs must be written. Results may not depend on how `fork` shares out its tasks.
    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()>;
}

/// Runs independent tasks, on as many threads as the device has.
pub trait Fork: Sync {
    /// Calls `f(0)` to `f(tasks - 1)`, in any order, and returns when all are complete.
    fn run(&self, tasks: usize, f: &(dyn Fn(usize) + Sync));
}

/// Tasks one after the other on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Fork for Serial {
    fn run(&self, tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(f);
    }
}

/// An operand of a host function: contiguous elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostOperand {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: Dims,
}

impl HostOperand {
    /// An operand of this dtype and shape.
    pub fn new(dtype: DType, shape: &[usize]) -> HostOperand {
        HostOperand { dtype, shape: shape.into() }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        elements(&self.shape)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }
}

/// A host function with its operands. Two are equal if their names, words and operands are.
#[derive(Clone)]
pub struct HostFunction {
    /// What is read.
    pub inputs: Vec<HostOperand>,
    /// What is written.
    pub outputs: Vec<HostOperand>,
    /// Arithmetic operations in all, for the cost model.
    pub flop: u64,
    words: SmallVec<[u64; 4]>,
    code: Arc<dyn HostRun>,
}

impl HostFunction {
    /// A function over these operands.
    pub fn new(code: impl HostRun, inputs: Vec<HostOperand>, outputs: Vec<HostOperand>, flop: u64) -> HostFunction {
        HostFunction { inputs, outputs, flop, words: code.words(), code: Arc::new(code) }
    }

    /// The name for people.
    pub fn name(&self) -> &'static str {
        self.code.name()
    }

    /// What tells it from others of its name and operands.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Computes, after checking that the slices are those of the operands.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let fits = |o: &HostOperand, len: usize, at: *const u8| {
            len == o.bytes() && (len == 0 || at.addr().is_multiple_of(alignment(o.dtype)))
        };
        let right = inputs.len() == self.inputs.len()
            && outputs.len() == self.outputs.len()
            && inputs.iter().zip(&self.inputs).all(|(b, o)| fits(o, b.len(), b.as_ptr()))
            && outputs.iter().zip(&self.outputs).all(|(b, o)| b.as_ref().is_none_or(|b| fits(o, b.len(), b.as_ptr())));
        if !right {
            return Err(Error::internal(format!("{}: operands of other sizes than it was made for", self.name())));
        }
        self.code.run(inputs, outputs, fork)
    }
}

/// The alignment that a host function may count on.
pub fn alignment(dtype: DType) -> usize {
    match dtype {
        // Complex numbers are pairs.
        DType::C64 | DType::C128 => dtype.size() / 2,
        _ => dtype.size(),
    }
}

impl PartialEq for HostFunction {
    fn eq(&self, other: &HostFunction) -> bool {
        self.name() == other.name()
            && self.words == other.words
            && self.inputs == other.inputs
            && self.outputs == other.outputs
    }
}

impl Eq for HostFunction {}

impl Hash for HostFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name(), &self.words, &self.inputs, &self.outputs).hash(state);
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |operands: &[HostOperand]| {
            operands.iter().map(|o| format!("{}{:?}", o.dtype, &o.shape[..])).collect::<Vec<_>>().join(", ")
        };
        write!(f, "{}({}) -> {}", self.name(), list(&self.inputs), list(&self.outputs))
    }
}

/// A host function as the body of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostBody {
    /// The function.
    pub function: Arc<HostFunction>,
    /// The function's outputs that the operation writes, in order; the others are not wanted.
    pub wanted: SmallVec<[u8; 4]>,
}

impl Op {
    /// A host function of which these outputs are wanted (in ascending order).
    ///
    /// The index space has one dimension for each operand, inputs first, along which only that operand moves.
    pub fn host(function: Arc<HostFunction>, wanted: &[u8]) -> Result<Op> {
        if !wanted.windows(2).all(|w| w[0] < w[1]) || wanted.iter().any(|&o| o as usize >= function.outputs.len()) {
            return Err(Error::internal(format!("{}: there are no outputs {wanted:?}", function.name())));
        }
        let outputs = wanted.iter().map(|&o| &function.outputs[o as usize]);
        let operands: Vec<&HostOperand> = function.inputs.iter().chain(outputs).collect();
        let dims: Dims = operands.iter().map(|o| o.len()).collect();
        let mut accesses: Vec<Access> = (0..operands.len())
            .map(|i| {
                let strides: Vec<isize> = (0..operands.len()).map(|d| isize::from(d == i)).collect();
                Access::new(operands[i].dtype, &strides)
            })
            .collect();
        let written = accesses.split_off(function.inputs.len());
        let body = Body::Host(HostBody { function, wanted: wanted.into() });
        let op = Op::new(dims, accesses, written, body);
        op.check()?;
        Ok(op)
    }
}
