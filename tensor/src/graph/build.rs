//! Appending to the graph: how methods of [`Tensor`] make nodes.
//!
//! This is the only module that makes a pending node of an operation. It asks the planner for nothing but one trigger, where
//! too much waits.

use std::cell::Cell;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use millstream_core::what::Dims;
use millstream_core::{Buffer, DType, Device, Error, HostFunction, HostOperand, Layout, Result};
use smallvec::SmallVec;

use super::{HostGroup, HostOutput, Inputs, Kind, Node, Waiting, below};
use crate::Tensor;
use crate::compiled::is_tracing;

/// The operation that people called, and where, while others make it up.
type Call = (&'static str, &'static Location<'static>);

thread_local! {
    static CALL: Cell<Option<Call>> = const { Cell::new(None) };
}

/// While it lives, operations speak in the name of the outermost call.
struct Scope {
    before: Option<Call>,
}

impl Scope {
    fn enter(op: &'static str, location: &'static Location<'static>) -> Scope {
        let before = CALL.get();
        CALL.set(before.or(Some((op, location))));
        Scope { before }
    }

    fn current() -> Option<Call> {
        CALL.get()
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        CALL.set(self.before);
    }
}

impl Tensor {
    pub(crate) fn leaf(
        made: Result<(Layout, Buffer, Device)>,
        dtype: DType,
        op: &'static str,
        location: &'static Location<'static>,
    ) -> Tensor {
        match made {
            Ok((layout, buffer, device)) => {
                let node = Node::ready(Ok(buffer), layout.shape().into(), dtype, Some(device), location);
                Tensor { node, layout }
            }
            Err(error) => Tensor::failed(error.in_op(op).at(location)),
        }
    }

    /// A tensor that carries an error.
    pub(crate) fn failed(error: Error) -> Tensor {
        let location = error.location().unwrap_or(Location::caller());
        let node = Node::ready(Err(error), Dims::new(), DType::F32, None, location);
        // invariant: an empty shape always has a layout
        let layout = Layout::contiguous(&[]).unwrap_or_else(|_| unreachable!());
        Tensor { node, layout }
    }

    /// Makes a tensor of others by public methods: what goes wrong there is said in the name of this operation, at its caller.
    #[track_caller]
    pub(crate) fn composed(op: &'static str, make: impl FnOnce() -> Tensor) -> Tensor {
        let scope = Scope::enter(op, Location::caller());
        let made = make();
        drop(scope);
        made
    }

    /// Makes a tensor from a fallible description; an error is given the operation's name and the caller's location.
    #[track_caller]
    pub(crate) fn build(op: &'static str, make: impl FnOnce() -> Result<Tensor>) -> Tensor {
        let (op, location) = Scope::current().unwrap_or((op, Location::caller()));
        match make() {
            Ok(mut tensor) => {
                // The caller's location does not reach through the closure: give it to what the closure made.
                if let Some(node) = Arc::get_mut(&mut tensor.node) {
                    node.location = location;
                }
                tensor
            }
            // An error with a location came with an operand.
            Err(error) if error.location().is_some() => Tensor::failed(error.through(op)),
            Err(error) => Tensor::failed(error.in_op(op).at(location)),
        }
    }

    /// A new node over inputs, seen whole. An input's error is passed on; where too much waits, the inputs are computed first.
    #[track_caller]
    pub(crate) fn new_node(operation: impl Into<Kind>, inputs: Inputs) -> Result<Tensor> {
        let kind = operation.into();
        let mut device = None;
        for input in &inputs {
            if let Some(error) = input.node.error() {
                return Err(error.clone());
            }
            // Where inputs live on several devices, the first that is not the host is where the work goes.
            if let Some(d) = &input.node.device
                && device.as_ref().is_none_or(|have: &Device| have.is_host() && !d.is_host())
            {
                device = Some(d.clone());
            }
        }
        let (shape, dtype) = kind.result(&inputs)?;
        let layout = Layout::contiguous(&shape)?;
        // While a function is compiled, nothing is computed.
        let below = if is_tracing() { Waiting::default() } else { below(&inputs)? };
        let node = Node::waiting(kind, shape, dtype, device, inputs, Location::caller(), below);
        Ok(Tensor { node, layout })
    }

    /// The outputs of a function that only the host computes. Views are copied first.
    pub(crate) fn host(
        function: HostFunction,
        inputs: &[&Tensor],
        location: &'static Location<'static>,
    ) -> Result<SmallVec<[Tensor; 4]>> {
        let same = |(t, o): (&&Tensor, &HostOperand)| t.dtype() == o.dtype && t.sizes() == &o.shape[..];
        for input in inputs {
            input.check()?;
        }
        if inputs.len() != function.inputs.len() || !inputs.iter().zip(&function.inputs).all(same) {
            return Err(Error::internal(format!("{function:?}: the inputs are others")));
        }
        let inputs: Inputs = inputs.iter().map(|t| t.dense()).collect();
        let group = Arc::new(HostGroup { function: Arc::new(function), nodes: OnceLock::new() });
        let mut outputs: SmallVec<[Tensor; 4]> = SmallVec::new();
        for i in 0..group.function.outputs.len() {
            let mut output = Tensor::new_node(HostOutput { group: group.clone(), output: i as u8 }, inputs.clone())?;
            if let Some(node) = Arc::get_mut(&mut output.node) {
                node.location = location;
            }
            outputs.push(output);
        }
        let _ = group.nodes.set(outputs.iter().map(|t| Arc::downgrade(&t.node)).collect());
        Ok(outputs)
    }
}
