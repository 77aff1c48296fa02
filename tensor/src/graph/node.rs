//! Nodes: the values of the lazy graph.
//!
//! A node stands for a contiguous, row-major value that is either still to be computed (its kind and inputs say how), or
//! there, or an error. It is immutable but for that one step. Views are not nodes: a [`Tensor`] is a node and a layout over it.

use std::panic::Location;
use std::sync::{Arc, OnceLock, Weak};

use millstream_core::what::Dims;
use millstream_core::{
    Accuracy, Binary, Buffer, DType, Device, Error, HostFunction, Layout, Lookup, Reduce, Result, Scalar, Unary,
};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::Tensor;

/// How a node's value comes from its inputs.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// It does not: the value was there from the start, or is an error.
    Leaf,
    /// One number everywhere.
    Fill(Scalar),
    /// `start + step * i` for the element of row-major number `i`.
    Iota { start: Scalar, step: Scalar },
    /// The input's elements in row-major order.
    Copy,
    /// An operation on each element.
    Unary(Unary),
    /// An operation on each pair.
    Binary(Binary),
    /// The second input where the first is true, else the third.
    Select,
    /// The elements in the node's dtype.
    Cast,
    /// A reduction over these axes of the input (sorted); they stay as size 1.
    Reduce(Reduce, SmallVec<[usize; 4]>),
    /// The sum over k of `[batch.., m.., k..]` times `[batch.., k.., n..]`: products of matrices, contractions of tensors and
    /// convolutions. The groups may have any number of dimensions each; the node's dimensions are those of batch, m and n,
    /// in the order that the roles say.
    Contract(Roles, Accuracy),
    /// The input with `fill` around it: so many elements before it along each axis, as many after it as the shape has room.
    Pad { before: Dims, fill: Scalar },
    /// One output of a function that only the host computes.
    Host(Arc<HostGroup>, u8),
    /// So many inputs one after the other along an axis.
    Concat { axis: usize, parts: usize },
    /// The first input with the second in place of the elements at these row-major positions, which are all different.
    Assign(Layout),
    /// Elements of the first input's memory, moved along one axis of it for each further input.
    Gather(SmallVec<[Lookup; 2]>),
    /// A running reduction along an axis.
    Scan { reduce: Reduce, axis: usize },
    /// Attention of queries, keys, values and perhaps a mask, with this scale.
    Attention { scale: Scalar, causal: bool, mask: bool },
    /// A random word for each element, by its row-major number, under a key of two words.
    Random([u32; 2]),
    /// Stands for an argument of a function that is being compiled; it has no value.
    Input,
}

/// The outputs of one call of a host function: nodes with the same inputs, computed together.
#[derive(Debug)]
pub(crate) struct HostGroup {
    pub function: Arc<HostFunction>,
    /// One for each output; those that nobody holds any more are not computed.
    pub nodes: OnceLock<Vec<Weak<Node>>>,
}

impl HostGroup {
    /// The outputs that somebody holds and that are still to be computed.
    pub fn waiting(&self) -> impl Iterator<Item = Arc<Node>> + '_ {
        self.nodes.get().into_iter().flatten().filter_map(Weak::upgrade).filter(|n| n.value().is_none())
    }
}

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

impl Kind {
    /// The name for people.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Leaf => "leaf",
            Kind::Fill(_) => "fill",
            Kind::Iota { .. } => "arange",
            Kind::Copy => "copy",
            Kind::Unary(u) => u.name(),
            Kind::Binary(b) => b.name(),
            Kind::Select => "where",
            Kind::Cast => "cast",
            Kind::Reduce(r, _) => r.name(),
            Kind::Contract(..) => "contract",
            Kind::Pad { .. } => "pad",
            Kind::Host(group, _) => group.function.name(),
            Kind::Concat { .. } => "concat",
            Kind::Assign(_) => "assign",
            Kind::Gather(_) => "gather",
            Kind::Scan { reduce: Reduce::Prod, .. } => "cumprod",
            Kind::Scan { reduce: Reduce::Max, .. } => "cummax",
            Kind::Scan { reduce: Reduce::Min, .. } => "cummin",
            Kind::Scan { .. } => "cumsum",
            Kind::Attention { .. } => "attention",
            Kind::Random(_) => "random",
            Kind::Input => "argument",
        }
    }
}

/// Inputs of a node: tensors, that is, nodes seen through layouts.
pub(crate) type Inputs = SmallVec<[Tensor; 2]>;

/// A single input.
pub(crate) fn one(tensor: &Tensor) -> Inputs {
    let mut inputs = Inputs::new();
    inputs.push(tensor.clone());
    inputs
}

/// What waits below a node, itself included, at the time it is made; what several nodes share counts for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// The longest way down to a value that is there.
    pub depth: u32,
    /// Operations.
    pub nodes: u64,
    /// Bytes of values that are there and are read.
    pub bytes: u64,
}

impl Waiting {
    /// What waits below a node over these inputs.
    pub fn below(inputs: &[Tensor]) -> Waiting {
        let mut sum = Waiting::default();
        for Tensor { node, .. } in inputs {
            match node.value() {
                Some(value) => sum.bytes += value.as_ref().map_or(0, |b| b.len() as u64),
                None => {
                    sum.depth = sum.depth.max(node.waiting.depth);
                    sum.nodes = sum.nodes.saturating_add(node.waiting.nodes);
                    sum.bytes = sum.bytes.saturating_add(node.waiting.bytes);
                }
            }
        }
        sum
    }
}

/// One value of the graph.
pub(crate) struct Node {
    pub kind: Kind,
    pub shape: Dims,
    pub dtype: DType,
    pub device: Option<Device>,
    /// What waits with it when it is made.
    pub waiting: Waiting,
    pub location: &'static Location<'static>,
    value: OnceLock<Result<Buffer>>,
    /// Emptied when the value is there, so that what only it needed is freed.
    inputs: Mutex<Inputs>,
}

impl Node {
    /// A value to be computed.
    pub fn pending(
        kind: Kind,
        shape: Dims,
        dtype: DType,
        device: Option<Device>,
        inputs: Inputs,
        location: &'static Location<'static>,
    ) -> Arc<Node> {
        let waiting = Waiting::below(&inputs);
        Node::waiting(kind, shape, dtype, device, inputs, location, waiting)
    }

    /// A value to be computed, of which it is known what waits below it.
    pub fn waiting(
        kind: Kind,
        shape: Dims,
        dtype: DType,
        device: Option<Device>,
        inputs: Inputs,
        location: &'static Location<'static>,
        below: Waiting,
    ) -> Arc<Node> {
        let waiting = Waiting { depth: below.depth + 1, nodes: below.nodes.saturating_add(1), bytes: below.bytes };
        Arc::new(Node {
            kind,
            shape,
            dtype,
            device,
            waiting,
            location,
            value: OnceLock::new(),
            inputs: Mutex::new(inputs),
        })
    }

    /// A value that is there, or an error.
    pub fn ready(
        value: Result<Buffer>,
        shape: Dims,
        dtype: DType,
        device: Option<Device>,
        location: &'static Location<'static>,
    ) -> Arc<Node> {
        Arc::new(Node {
            kind: Kind::Leaf,
            shape,
            dtype,
            device,
            waiting: Waiting::default(),
            location,
            value: OnceLock::from(value),
            inputs: Mutex::new(Inputs::new()),
        })
    }

    /// The value, if it is there.
    pub fn value(&self) -> Option<&Result<Buffer>> {
        self.value.get()
    }

    /// The error, if that is what the node is.
    pub fn error(&self) -> Option<&Error> {
        self.value.get().and_then(|v| v.as_ref().err())
    }

    /// Gives the node its value. The first value stays; inputs are let go.
    pub fn fulfil(&self, buffer: Buffer) {
        if self.value.set(Ok(buffer)).is_ok() {
            release(std::mem::take(&mut *self.inputs.lock()));
        }
    }

    /// Looks at the inputs; they are empty once the value is there.
    pub fn with_inputs<R>(&self, f: impl FnOnce(&[Tensor]) -> R) -> R {
        f(&self.inputs.lock())
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}{:?}", self.kind.name(), self.dtype, &self.shape[..])
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        release(std::mem::take(self.inputs.get_mut()));
    }
}

/// Lets inputs go without recursion, however deep the graph below them is.
fn release(mut inputs: Inputs) {
    // Mostly others hold them too: then letting go is one count less.
    inputs.retain(|tensor| Arc::strong_count(&tensor.node) == 1);
    if inputs.is_empty() {
        return;
    }
    let mut stack: Vec<Tensor> = inputs.into_iter().collect();
    while let Some(tensor) = stack.pop() {
        if let Some(mut node) = Arc::into_inner(tensor.node) {
            stack.extend(std::mem::take(node.inputs.get_mut()));
        }
    }
}
