//! Appending to the graph: how methods of [`Tensor`] make nodes.
//!
//! This is the only module that makes a pending node of an operation. It asks the planner for nothing but two triggers: where
//! too much waits, and where others may write to what is read ([`super::volatile`]).

use std::cell::Cell;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use millstream_core::what::Dims;
use millstream_core::{Buffer, DType, Device, Error, HostFunction, HostOperand, Layout, Result};
use smallvec::SmallVec;

use super::volatile::{self, is_volatile, snapshot};
use super::{HostGroup, HostOutput, Inputs, Kind, Node, Waiting, below};
use crate::Tensor;
use crate::compiled::is_tracing;

/// The operation that people called, and where.
#[derive(Clone, Copy)]
struct Call {
    op: &'static str,
    location: &'static Location<'static>,
    /// Whether this is that call itself, not one that it makes.
    outermost: bool,
}

thread_local! {
    static CALL: Cell<Option<Call>> = const { Cell::new(None) };
}

/// While it lives, operations speak in the name of the outermost call.
struct Scope {
    before: Option<Call>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CALL.set(self.before);
    }
}

/// Does what a public method does. Where it calls others, these speak in its name. Functions that people pass in are not called
/// inside.
fn called<R>(op: &'static str, location: &'static Location<'static>, make: impl FnOnce(Call) -> R) -> R {
    let before = CALL.get();
    let call = before.map_or(Call { op, location, outermost: true }, |c| Call { outermost: false, ..c });
    CALL.set(Some(call));
    let scope = Scope { before };
    let made = make(call);
    drop(scope);
    made
}

/// What a public method does that gives a result at once: an error that has no place yet is one of this call.
#[track_caller]
pub(crate) fn attempt<T>(op: &'static str, make: impl FnOnce() -> Result<T>) -> Result<T> {
    called(op, Location::caller(), |call| make().map_err(|e| call.placed(e)))
}

impl Call {
    /// An error that has no place yet is one of this call.
    fn placed(self, error: Error) -> Error {
        if error.location().is_some() { error } else { error.in_op(self.op).at(self.location) }
    }

    /// An error at the end of this call: one with another place came with an operand, and goes through the outermost call.
    fn passed_on(self, error: Error) -> Error {
        let error = self.placed(error);
        let own = error.location() == Some(self.location) && error.op() == Some(self.op);
        if own || !self.outermost { error } else { error.through(self.op) }
    }
}

/// Where the work goes whose inputs live on two devices: to the first that is not the host. The profile says so once for each call.
#[cold]
#[track_caller]
fn meeting(first: &Device, second: &Device, name: &str) -> Device {
    let to = if first.is_host() { second } else { first };
    let (call, here) = (CALL.get(), Location::caller());
    let (op, at) = call.map_or((name, here), |c| (c.op, c.location));
    // `auto` is no place, but a choice among all.
    if first.candidates().is_empty() && second.candidates().is_empty() {
        to.profiler().warn(format!(
            "tensors of several devices meet in {op} at {}:{}: {} and {}; it is computed on {}, to which the others are copied",
            at.file(),
            at.line(),
            first.name(),
            second.name(),
            to.name()
        ));
    }
    to.clone()
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
        called(op, Location::caller(), |call| {
            let reading = volatile::Call::enter();
            let made = make();
            let ended = reading.leave([&made]);
            match ended.err().or_else(|| made.node.error().cloned()) {
                Some(error) => Tensor::failed(call.passed_on(error)),
                None => made,
            }
        })
    }

    /// Makes a tensor from a fallible description; an error is given the operation's name and the caller's location, also one of
    /// the public methods that the description calls.
    #[track_caller]
    pub(crate) fn build(op: &'static str, make: impl FnOnce() -> Result<Tensor>) -> Tensor {
        Tensor::build_at(op, Location::caller(), make)
    }

    /// The same for a call that was made there.
    pub(crate) fn build_at(
        op: &'static str,
        location: &'static Location<'static>,
        make: impl FnOnce() -> Result<Tensor>,
    ) -> Tensor {
        called(op, location, |call| {
            let reading = volatile::Call::enter();
            let made = make().and_then(|mut tensor| {
                // The caller's location does not reach through the closure: give it to what the closure made.
                if let Some(node) = Arc::get_mut(&mut tensor.node) {
                    node.location = call.location;
                }
                reading.leave([&tensor])?;
                Ok(tensor)
            });
            made.unwrap_or_else(|error| Tensor::failed(call.passed_on(error)))
        })
    }

    /// Several tensors from a fallible description; an error goes into each of them.
    pub(crate) fn build_many<const N: usize>(
        op: &'static str,
        location: &'static Location<'static>,
        make: impl FnOnce() -> Result<[Tensor; N]>,
    ) -> [Tensor; N] {
        called(op, location, |call| {
            let reading = volatile::Call::enter();
            let made = make().and_then(|tensors| reading.leave(&tensors).map(|()| tensors));
            made.unwrap_or_else(|error| {
                let error = call.passed_on(error);
                std::array::from_fn(|_| Tensor::failed(error.clone()))
            })
        })
    }

    /// A new node over inputs, seen whole. An input's error is passed on; where too much waits, the inputs are computed first.
    #[track_caller]
    pub(crate) fn new_node(operation: impl Into<Kind>, mut inputs: Inputs) -> Result<Tensor> {
        let kind = operation.into();
        let mut device = None;
        let mut volatile = false;
        for input in &inputs {
            match input.node.value() {
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok(buffer)) => volatile |= buffer.is_volatile(),
                None => {}
            }
            if let Some(d) = &input.node.device {
                match &device {
                    Some(have) if d.same(have) => (),
                    Some(have) => device = Some(meeting(have, d, kind.name())),
                    None => device = Some(d.clone()),
                }
            }
        }
        let (shape, dtype) = kind.result(&inputs)?;
        let layout = Layout::contiguous(&shape)?;
        // While a function is compiled, nothing of it is computed; what it holds is that of this time.
        let tracing = is_tracing();
        if tracing && volatile {
            for input in inputs.iter_mut().filter(|t| is_volatile(t)) {
                *input = snapshot(input)?;
            }
        }
        let below = if tracing { Waiting::default() } else { below(&inputs)? };
        let node = Node::waiting(kind, shape, dtype, device, inputs, Location::caller(), below);
        let tensor = Tensor { node, layout };
        if volatile && !tracing {
            volatile::made(&tensor)?;
        }
        Ok(tensor)
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
        let reading = volatile::Call::enter();
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
        reading.leave(&outputs)?;
        Ok(outputs)
    }
}
