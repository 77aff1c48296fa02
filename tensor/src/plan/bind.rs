//! A plan bound to the memory and numbers of one run: what its steps are launched from, one by one or to be captured.

use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use millstream_core::backend::NoteAt;
use millstream_core::{
    Binding, Bindings, Buffer, Check, Device, Error, MemoryKind, Resident, Result, Scalar, Storage, Stream, interrupt,
};
use smallvec::SmallVec;

use super::memory::{Operand, Plan, Slot, Step};
use crate::graph::Node;

/// What a plan is run with.
pub(crate) struct Given<'a> {
    /// Values that are there.
    pub leaves: &'a [Arc<Node>],
    /// For each edge to a leaf: the leaf, and the element it begins at.
    pub edges: &'a [(usize, usize)],
    /// The numbers.
    pub params: &'a [Scalar],
    /// The nodes that get the results, in the order of the plan's outputs.
    pub results: SmallVec<[&'a Arc<Node>; 2]>,
    /// Where each captured node was called for.
    pub calls: Calls<'a>,
}

/// Where each captured node was called for.
#[derive(Clone, Copy)]
pub(crate) enum Calls<'a> {
    /// As the nodes say.
    Nodes(&'a [Arc<Node>]),
    /// The nodes themselves are gone.
    Listed(&'a [&'static Location<'static>]),
}

impl Calls<'_> {
    /// The place of the call that a node was made by.
    pub fn location(&self, node: usize) -> Option<&'static Location<'static>> {
        match self {
            Calls::Nodes(nodes) => nodes.get(node).map(|n| n.location),
            Calls::Listed(list) => list.get(node).copied(),
        }
    }

    /// An error of what computes a node, with the place of its call.
    fn place(&self, node: usize, error: Error) -> Error {
        match self.location(node) {
            Some(location) => error.at(location),
            None => error,
        }
    }
}

/// For each device of a plan, the memory of its intermediate values.
pub(crate) type Arenas = SmallVec<[Option<Arc<Storage>>; 1]>;

/// The devices of one run, and the stream that each works on: the first on the given one, the others on their own.
#[derive(Clone, Copy)]
pub(crate) struct On<'a> {
    pub devices: &'a [Device],
    pub stream: &'a Stream,
}

impl<'a> On<'a> {
    pub fn stream(&self, device: usize) -> &'a Stream {
        if device == 0 { self.stream } else { self.devices[device].stream() }
    }
}

/// Memory for the intermediate values of a plan on each device.
pub(crate) fn arenas(plan: &Plan, on: On<'_>) -> Result<Arenas> {
    let mut arenas = Arenas::new();
    for (device, &bytes) in plan.arenas.iter().enumerate() {
        arenas.push(match bytes {
            0 => None,
            _ => Some(Storage::alloc(&on.devices[device], bytes, MemoryKind::Device, on.stream(device))?),
        });
    }
    Ok(arenas)
}

/// For each device of a plan, what its lookups note; `None` for devices that look nothing up, or tell at once what is wrong.
pub(crate) type Notes = SmallVec<[Option<Arc<Check>>; 1]>;

/// Notes for the lookups of a run.
pub(crate) fn notes(plan: &Plan, given: &Given<'_>, on: On<'_>) -> Result<Notes> {
    let mut notes = Notes::new();
    for (device, checked) in plan.checked.iter().enumerate() {
        let looked = |&s: &usize| match &plan.steps[s] {
            Step::Launch(l) => Some((l.work.clone(), given.calls.location(l.node))),
            Step::Copy(_) => None,
        };
        notes.push(match checked.is_empty() {
            true => None,
            false => Some(Check::new(&on.devices[device], checked.iter().filter_map(looked).collect())?),
        });
    }
    Ok(notes)
}

/// A plan with the memory and numbers of one run.
pub(crate) struct BoundPlan<'a, 'g> {
    pub given: &'a Given<'g>,
    pub leaves: &'a [Resident],
    pub outputs: &'a [Arc<Storage>],
    pub notes: &'a [Option<Arc<Check>>],
    pub plan: &'a Plan,
    pub on: On<'a>,
}

impl BoundPlan<'_, '_> {
    /// Queues launches on one device.
    pub fn launch(&self, steps: Range<usize>, stream: &Stream, arenas: &Arenas) -> Result<()> {
        // What is overwritten in place could not be computed again.
        if self.plan.outputs.iter().any(|o| o.over.is_some()) {
            return interrupt::whole(|| self.launch_steps(steps, stream, arenas));
        }
        self.launch_steps(steps, stream, arenas)
    }

    fn launch_steps(&self, steps: Range<usize>, stream: &Stream, arenas: &Arenas) -> Result<()> {
        for step in &self.plan.steps[steps] {
            interrupt::check()?;
            let Step::Launch(step) = step else { return Err(Error::internal("a copy among launches")) };
            let (device, arena) = (&self.on.devices[step.device], arenas[step.device].as_deref());
            let prepared = device.prepare(&step.work)?;
            let mut inputs: SmallVec<[Binding<'_>; 6]> = SmallVec::new();
            for operand in &step.inputs {
                inputs.push(self.bind(operand, arena)?);
            }
            let mut results: SmallVec<[Binding<'_>; 2]> = SmallVec::new();
            for operand in &step.outputs {
                results.push(self.bind(operand, arena)?);
            }
            let mut params: SmallVec<[Scalar; 6]> = SmallVec::new();
            for &p in &step.params {
                let value = p.of(self.given.params);
                params.push(value.ok_or_else(|| Error::internal("a parameter is missing"))?);
            }
            let workspace = step.workspace.map(|(offset, bytes)| in_arena(arena, offset, bytes)).transpose()?;
            let note = step.call.zip(self.notes[step.device].as_ref()).map(|(call, check)| check.note(call));
            let bindings = Bindings { inputs: &inputs, outputs: &results, params: &params, workspace, note };
            let launched = device.launch(&prepared, &bindings, stream);
            launched.map_err(|e| self.given.calls.place(step.node, e))?;
        }
        Ok(())
    }

    /// Where inputs, outputs and notes lie on a device, and how long they are.
    pub fn memory(&self) -> SmallVec<[(usize, u64, usize); 8]> {
        let at = |s: &Storage| s.memory().address + s.offset() as u64;
        let length = |leaf: usize| self.given.leaves[leaf].value().and_then(|v| v.as_ref().ok()).map_or(0, Buffer::len);
        let leaves = self.leaves.iter().zip(&self.plan.leaves).map(|(r, &(leaf, d))| (d, at(&r.storage), length(leaf)));
        let outputs = self.outputs.iter().zip(&self.plan.outputs).map(|(s, o)| (o.device, at(s), o.bytes));
        let notes = self.notes.iter().enumerate().filter_map(|(d, check)| check.as_ref().map(|c| (d, c.note(0))));
        let notes = notes.map(|(d, n)| (d, n.memory.address + n.offset as u64, NoteAt::BYTES));
        leaves.chain(outputs).chain(notes).collect()
    }

    /// Where each edge to a leaf begins.
    pub fn offsets(&self) -> SmallVec<[usize; 8]> {
        self.given.edges.iter().map(|e| e.1).collect()
    }

    /// The numbers.
    pub fn params(&self) -> SmallVec<[Scalar; 8]> {
        self.given.params.iter().copied().collect()
    }

    fn bind<'b>(&'b self, operand: &Operand, arena: Option<&'b Storage>) -> Result<Binding<'b>> {
        let edge = operand.edge.map_or(0, |e| self.given.edges[e].1);
        let (storage, bytes, pack_cache): (&'b Storage, usize, _) = match operand.slot {
            Slot::Leaf(leaf) => {
                let Some(Ok(buffer)) = self.given.leaves[self.plan.leaves[leaf].0].value() else {
                    return Err(Error::internal("a leaf has no value"));
                };
                (&self.leaves[leaf].storage, buffer.len(), self.leaves[leaf].pack_cache.as_ref())
            }
            Slot::Output(n) => (&self.outputs[n], self.plan.outputs[n].bytes, None),
            Slot::Arena(offset, bytes) => {
                let mut binding = in_arena(arena, offset, bytes)?;
                let elements = edge as isize + operand.offset;
                binding.offset = (binding.offset as isize + elements * operand.size as isize) as usize;
                return Ok(binding);
            }
        };
        let start = storage.offset();
        let elements = edge as isize + operand.offset;
        let offset = start as isize + elements * operand.size as isize;
        Ok(Binding { memory: storage.memory(), offset: offset as usize, start, end: start + bytes, pack_cache })
    }
}

fn in_arena(arena: Option<&Storage>, offset: usize, bytes: usize) -> Result<Binding<'_>> {
    let arena = arena.ok_or_else(|| Error::internal("a plan without an arena uses it"))?;
    let start = arena.offset() + offset;
    Ok(Binding { memory: arena.memory(), offset: start, start, end: start + bytes, pack_cache: None })
}
