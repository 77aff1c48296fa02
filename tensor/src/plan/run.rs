//! Running a plan: bind memory and numbers, launch each step, publish the results.

use std::sync::Arc;

use millstream_core::{
    Binding, Bindings, Buffer, Device, Error, MemoryKind, Mode, Resident, Result, Scalar, Storage, Stream,
};
use smallvec::SmallVec;

use super::capture::Capture;
use super::make::{Operand, Plan, Slot};

/// Runs a plan on a stream. On an error nothing was published, and the graph can be evaluated again.
pub(crate) fn run(plan: &Plan, capture: &Capture, device: &Device, stream: &Stream) -> Result<()> {
    // Everything is brought and allocated before the first launch, so that running out of memory leaves nothing half done.
    let mut leaves: SmallVec<[Resident; 8]> = SmallVec::new();
    for leaf in &capture.leaves {
        let Some(Ok(buffer)) = leaf.value() else { return Err(Error::internal("a leaf has no value")) };
        let resident = buffer.on(device, stream)?;
        if let Some(ready) = &resident.ready {
            stream.depend(ready)?;
        }
        leaves.push(resident);
    }
    let mut outputs: SmallVec<[Arc<Storage>; 2]> = SmallVec::new();
    for output in &plan.outputs {
        outputs.push(Storage::alloc(device, output.bytes, MemoryKind::Device, stream)?);
    }
    let arena = match plan.arena {
        0 => None,
        bytes => Some(Storage::alloc(device, bytes, MemoryKind::Device, stream)?),
    };

    let run = Run { capture, leaves: &leaves, outputs: &outputs, arena: arena.as_deref(), plan };
    let launched = plan.steps.iter().try_for_each(|step| {
        let prepared = device.prepare(&step.work)?;
        let mut inputs: SmallVec<[Binding<'_>; 6]> = SmallVec::new();
        for operand in &step.inputs {
            inputs.push(run.bind(operand)?);
        }
        let mut results: SmallVec<[Binding<'_>; 2]> = SmallVec::new();
        for operand in &step.outputs {
            results.push(run.bind(operand)?);
        }
        let mut params: SmallVec<[Scalar; 6]> = SmallVec::new();
        for &p in &step.params {
            params.push(*capture.params.get(p as usize).ok_or_else(|| Error::internal("a parameter is missing"))?);
        }
        let workspace = step.workspace.map(|(offset, bytes)| run.in_arena(offset, bytes)).transpose()?;
        let bindings = Bindings { inputs: &inputs, outputs: &results, params: &params, workspace };
        device.launch(&prepared, &bindings, stream)
    });

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
        Some(done)
    };
    for (output, storage) in plan.outputs.iter().zip(outputs) {
        let buffer = Buffer::from_storage(storage, output.bytes, Mode::Automatic);
        if done.is_some() {
            buffer.written(device, done.clone());
        }
        capture.nodes[output.node].fulfil(buffer);
    }
    Ok(())
}

struct Run<'a> {
    capture: &'a Capture,
    leaves: &'a [Resident],
    outputs: &'a [Arc<Storage>],
    arena: Option<&'a Storage>,
    plan: &'a Plan,
}

impl<'a> Run<'a> {
    fn bind(&self, operand: &Operand) -> Result<Binding<'a>> {
        let (storage, bytes): (&'a Storage, usize) = match operand.slot {
            Slot::Leaf(leaf) => {
                let Some(Ok(buffer)) = self.capture.leaves[leaf].value() else {
                    return Err(Error::internal("a leaf has no value"));
                };
                (&self.leaves[leaf].storage, buffer.len())
            }
            Slot::Output(n) => (&self.outputs[n], self.plan.outputs[n].bytes),
            Slot::Arena(offset, bytes) => {
                let mut binding = self.in_arena(offset, bytes)?;
                binding.offset = (binding.offset as isize + operand.offset * operand.size as isize) as usize;
                return Ok(binding);
            }
        };
        let edge = operand.edge.map_or(0, |e| self.capture.edges[e].1);
        let start = storage.offset();
        let elements = edge as isize + operand.offset;
        let offset = start as isize + elements * operand.size as isize;
        Ok(Binding { memory: storage.memory(), offset: offset as usize, start, end: start + bytes })
    }

    fn in_arena(&self, offset: usize, bytes: usize) -> Result<Binding<'a>> {
        let arena = self.arena.ok_or_else(|| Error::internal("a plan without an arena uses it"))?;
        let start = arena.offset() + offset;
        Ok(Binding { memory: arena.memory(), offset: start, start, end: start + bytes })
    }
}
