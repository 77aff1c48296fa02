//! Running a plan: bind memory and numbers, launch each step, publish the results.

use std::sync::Arc;

use millstream_core::{
    Binding, Bindings, Buffer, Device, Error, MemoryKind, Mode, Resident, Result, Scalar, Storage, Stream,
};
use smallvec::SmallVec;

use super::instance;
use super::make::{Operand, Plan, Slot};
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
}

/// Runs a plan on a stream. On an error nothing was published, and the graph can be evaluated again.
pub(crate) fn run(plan: &Plan, given: &Given<'_>, device: &Device, stream: &Stream) -> Result<()> {
    // Everything is brought and allocated before the first launch, so that running out of memory leaves nothing half done.
    let mut leaves: SmallVec<[Resident; 8]> = SmallVec::new();
    for leaf in given.leaves {
        let Some(Ok(buffer)) = leaf.value() else { return Err(Error::internal("a leaf has no value")) };
        let resident = buffer.on(device, stream)?;
        if let Some(ready) = &resident.ready {
            stream.depend(ready)?;
        }
        leaves.push(resident);
    }
    let mut outputs: SmallVec<[Arc<Storage>; 2]> = SmallVec::new();
    for output in &plan.outputs {
        outputs.push(match output.over.map(|leaf| &leaves[leaf].storage) {
            // Nobody else has it any more, but what was queued before may still be reading.
            Some(storage) => {
                storage.after_uses(stream)?;
                storage.clone()
            }
            None => Storage::alloc(device, output.bytes, MemoryKind::Device, stream)?,
        });
    }
    let run = Run { given, leaves: &leaves, outputs: &outputs, plan };
    let instance = plan.instances.take(&run, device, stream)?;
    let (launched, arena) = match &instance {
        Some(instance) => (instance.replay(plan, device, stream), instance.arena.clone()),
        None => {
            let arena = instance::arena(plan, device, stream)?;
            (run.launch(device, stream, arena.as_deref()), arena)
        }
    };

    let done = if stream.is_synchronous() {
        launched?;
        None
    } else {
        // Even after a failed step, earlier ones may still run: their memory stays until they are through.
        let done = stream.record()?;
        for storage in leaves.iter().map(|r| &r.storage).chain(&outputs).chain(&arena) {
            storage.used_on(stream, &done);
        }
        launched?;
        if let Some(instance) = instance {
            plan.instances.put(instance, stream, &done);
        }
        Some(done)
    };
    for ((output, node), storage) in plan.outputs.iter().zip(&given.results).zip(outputs) {
        let buffer = match output.over.and_then(|leaf| given.leaves[leaf].value()) {
            Some(Ok(buffer)) => {
                // From here on, not before, replicas elsewhere are stale: had it failed, they could have served again.
                buffer.write(device, stream)?;
                buffer.clone()
            }
            _ => Buffer::from_storage(storage, output.bytes, Mode::Automatic),
        };
        if done.is_some() || output.over.is_some() {
            buffer.written(device, done.clone());
        }
        node.fulfil(buffer);
    }
    Ok(())
}

/// A plan with the memory and numbers of one run.
pub(crate) struct Run<'a, 'g> {
    given: &'a Given<'g>,
    leaves: &'a [Resident],
    outputs: &'a [Arc<Storage>],
    pub plan: &'a Plan,
}

impl Run<'_, '_> {
    /// Queues every step.
    pub fn launch(&self, device: &Device, stream: &Stream, arena: Option<&Storage>) -> Result<()> {
        for step in &self.plan.steps {
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
            let bindings = Bindings { inputs: &inputs, outputs: &results, params: &params, workspace };
            device.launch(&prepared, &bindings, stream)?;
        }
        Ok(())
    }

    /// Where inputs and outputs lie, and how long they are.
    pub fn memory(&self) -> SmallVec<[(u64, usize); 8]> {
        let at = |s: &Storage, bytes: usize| (s.memory().address + s.offset() as u64, bytes);
        let lengths = self.given.leaves.iter().map(|l| l.value().and_then(|v| v.as_ref().ok()).map_or(0, Buffer::len));
        let leaves = self.leaves.iter().zip(lengths).map(|(r, bytes)| at(&r.storage, bytes));
        let outputs = self.outputs.iter().zip(&self.plan.outputs).map(|(s, o)| at(s, o.bytes));
        leaves.chain(outputs).collect()
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
        let (storage, bytes, kept): (&'b Storage, usize, _) = match operand.slot {
            Slot::Leaf(leaf) => {
                let Some(Ok(buffer)) = self.given.leaves[leaf].value() else {
                    return Err(Error::internal("a leaf has no value"));
                };
                (&self.leaves[leaf].storage, buffer.len(), self.leaves[leaf].kept.as_ref())
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
        Ok(Binding { memory: storage.memory(), offset: offset as usize, start, end: start + bytes, kept })
    }
}

fn in_arena(arena: Option<&Storage>, offset: usize, bytes: usize) -> Result<Binding<'_>> {
    let arena = arena.ok_or_else(|| Error::internal("a plan without an arena uses it"))?;
    let start = arena.offset() + offset;
    Ok(Binding { memory: arena.memory(), offset: start, start, end: start + bytes, kept: None })
}
