//! Nodes: the values of the lazy graph.
//!
//! A node stands for a contiguous, row-major value that is either still to be computed (its kind and inputs say how), or
//! there, or an error. It is immutable but for that one step. Views are not nodes: a [`Tensor`] is a node and a layout over it.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use millstream_core::what::Dims;
use millstream_core::{Buffer, DType, Device, Error, Event, Result};
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
    below: Mutex<Below>,
}

/// What a value is computed from.
struct Below {
    /// Emptied when the value is there, so that what only it needed is freed.
    inputs: Inputs,
    /// Set while somebody may overwrite the first input to compute the value; complete when that is over.
    claim: Option<Event>,
}

impl Below {
    fn new(inputs: Inputs) -> Mutex<Below> {
        Mutex::new(Below { inputs, claim: None })
    }
}

/// What became of an attempt to claim a node's first input.
pub(crate) enum Claim {
    /// The caller may overwrite it until it calls [`Node::unclaim`].
    Made,
    /// It is not the caller's alone.
    Refused,
    /// The node has its value, or another thread computes it: its inputs are nobody's to look at.
    Lost,
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
            below: Below::new(inputs),
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
        if let Ok(buffer) = &value {
            buffer.made_at(location);
        }
        Arc::new(Node {
            kind: Leaf.into(),
            shape,
            dtype,
            device,
            waiting: Waiting::default(),
            location,
            value: OnceLock::from(value),
            computed: AtomicBool::new(false),
            below: Below::new(Inputs::new()),
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
            let Below { inputs, claim } =
                std::mem::replace(&mut *self.below.lock(), Below { inputs: Inputs::new(), claim: None });
            if let Some(over) = claim {
                over.signal();
            }
            release(inputs);
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
        f(&self.below.lock().inputs)
    }

    /// As [`Node::with_inputs`], for who is going to read what they hold; the event to wait for if another thread may be
    /// overwriting that.
    pub fn with_unclaimed_inputs<R>(&self, f: impl FnOnce(&[Tensor]) -> R) -> std::result::Result<R, Event> {
        let below = self.below.lock();
        match &below.claim {
            Some(over) => Err(over.clone()),
            None => Ok(f(&below.inputs)),
        }
    }

    /// Claims the first input, to overwrite it, if nobody else has it as far as `alone` can see. Others reach it through this node
    /// only, and not before the claim is over.
    pub fn claim(&self, alone: impl FnOnce(&Tensor) -> bool) -> Claim {
        let mut below = self.below.lock();
        match below.inputs.first() {
            Some(_) if below.claim.is_some() => Claim::Lost,
            None => Claim::Lost,
            Some(first) if alone(first) => {
                below.claim = Some(Event::new());
                Claim::Made
            }
            Some(_) => Claim::Refused,
        }
    }

    /// Ends the caller's claim. What was written meanwhile is what whoever computes the node writes again.
    pub fn unclaim(&self) {
        if let Some(over) = self.below.lock().claim.take() {
            over.signal();
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}{:?}", self.kind.name(), self.dtype, &self.shape[..])
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        release(std::mem::take(&mut self.below.get_mut().inputs));
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
            stack.extend(std::mem::take(&mut node.below.get_mut().inputs));
        }
    }
}
