//! Nodes: the values of the lazy graph.
//!
//! A node stands for a contiguous, row-major value that is either still to be computed (its kind and inputs say how), or
//! there, or an error. It is immutable but for that one step. Views are not nodes: a [`Tensor`] is a node and a layout over it.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use millstream_core::what::Dims;
use millstream_core::{Buffer, DType, Device, Error, Result};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{Kind, Leaf, Waiting};
use crate::Tensor;

/// Inputs of a node: tensors, that is, nodes seen through layouts.
pub(crate) type Inputs = SmallVec<[Tensor; 2]>;

/// A single input.
pub(crate) fn one(tensor: &Tensor) -> Inputs {
    let mut inputs = Inputs::new();
    inputs.push(tensor.clone());
    inputs
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
    /// Whether it was computed on the way to another value, and not kept.
    computed: AtomicBool,
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
        let waiting = below.and_one();
        Arc::new(Node {
            kind,
            shape,
            dtype,
            device,
            waiting,
            location,
            value: OnceLock::new(),
            computed: AtomicBool::new(false),
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
            kind: Leaf.into(),
            shape,
            dtype,
            device,
            waiting: Waiting::default(),
            location,
            value: OnceLock::from(value),
            computed: AtomicBool::new(false),
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

    /// Whether it was computed before, on the way to another value, and not kept.
    pub fn was_computed(&self) -> bool {
        self.computed.load(Ordering::Relaxed)
    }

    /// Notes that it was computed on the way to another value.
    pub fn note_computed(&self) {
        self.computed.store(true, Ordering::Relaxed);
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
