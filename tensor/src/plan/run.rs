//! Running a plan: bind memory and numbers, queue each step on its device's stream, publish the results.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use millstream_core::{
    Binding, Bindings, Buffer, Device, Error, Event, MemoryKind, Mode, Record, RecordKind, Resident, Result, Scalar,
    Storage, Stream,
};
use smallvec::SmallVec;

use super::instance::{self, Instance, Runnable};
use super::memory::{Copy, Launch, Operand, Plan, Slot, Step};
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

/// Runs a plan. On an error nothing was published, and the graph can be evaluated again.
pub(crate) fn run(plan: &Runnable, given: &Given<'_>, on: On<'_>) -> Result<()> {
    // Everything is brought and allocated before the first launch, so that running out of memory leaves nothing half done.
    let mut leaves: SmallVec<[Resident; 8]> = SmallVec::new();
    for &(leaf, device) in &plan.leaves {
        let Some(Ok(buffer)) = given.leaves[leaf].value() else { return Err(Error::internal("a leaf has no value")) };
        let stream = on.stream(device);
        let resident = buffer.on(&on.devices[device], stream)?;
        if let Some(ready) = &resident.ready {
            stream.depend(ready)?;
        }
        leaves.push(resident);
    }
    let mut outputs: SmallVec<[Arc<Storage>; 2]> = SmallVec::new();
    for output in &plan.outputs {
        let stream = on.stream(output.device);
        outputs.push(match output.over.map(|leaf| &leaves[leaf].storage) {
            // Nobody else has it any more, but what was queued before may still be reading.
            Some(storage) => {
                storage.after_uses(stream)?;
                storage.clone()
            }
            None => Storage::alloc(&on.devices[output.device], output.bytes, MemoryKind::Device, stream)?,
        });
    }
    let run = Run { given, leaves: &leaves, outputs: &outputs, plan, on };
    let instance = plan.instances.take(&run)?;
    let arenas = match &instance {
        Some(instance) => instance.arenas.clone(),
        None => instance::arenas(plan, on)?,
    };
    let launched = run.queue(&arenas, instance.as_ref());

    // Even after a failed step, earlier ones may still run: their memory stays until they are through.
    let mut done: SmallVec<[Option<Event>; 1]> = SmallVec::new();
    for device in 0..on.devices.len() {
        let stream = on.stream(device);
        done.push(if stream.is_synchronous() { None } else { Some(stream.record()?) });
    }
    for (device, event) in done.iter().enumerate() {
        let Some(event) = event else { continue };
        for storage in leaves.iter().map(|r| &r.storage).chain(&outputs).chain(arenas.iter().flatten()) {
            storage.used_on(on.stream(device), event);
        }
    }
    launched?;
    if let Some(instance) = instance {
        plan.instances.put(instance, on, &done);
    }
    for ((output, node), storage) in plan.outputs.iter().zip(&given.results).zip(outputs) {
        let device = &on.devices[output.device];
        let buffer = match output.over.and_then(|leaf| given.leaves[plan.leaves[leaf].0].value()) {
            Some(Ok(buffer)) => {
                // From here on, not before, replicas elsewhere are stale: had it failed, they could have served again.
                buffer.write(device, on.stream(output.device))?;
                buffer.clone()
            }
            _ => Buffer::from_storage(storage, output.bytes, Mode::Automatic),
        };
        let done = &done[output.device];
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
    pub on: On<'a>,
}

impl Run<'_, '_> {
    /// Queues everything: what is captured in one call, the rest step by step.
    fn queue(&self, arenas: &Arenas, instance: Option<&Instance>) -> Result<()> {
        // For each device, the last copy that another device's stream does with its memory.
        let mut foreign: SmallVec<[Option<Event>; 2]> = SmallVec::from_elem(None, self.on.devices.len());
        for (i, run) in self.plan.runs.iter().enumerate() {
            match &self.plan.steps[run.start] {
                Step::Copy(copy) => self.copy(copy, arenas, &mut foreign)?,
                Step::Launch(Launch { device, .. }) => {
                    let stream = self.on.stream(*device);
                    self.order(*device, foreign[*device].take())?;
                    match instance.and_then(|x| x.captured(i)) {
                        Some(captured) => self.on.devices[*device].replay(captured, run.len(), stream)?,
                        None => self.launch(run.clone(), stream, arenas)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets later work of a device begin behind an event. Where its stream cannot wait for that, the host does; the profile
    /// then says so.
    fn order(&self, device: usize, event: Option<Event>) -> Result<()> {
        let Some(event) = event else { return Ok(()) };
        let profiler = self.on.devices[device].profiler();
        let started = (profiler.is_on() && !event.is_complete()).then(Instant::now);
        self.on.stream(device).depend(&event)?;
        if let Some(started) = started
            && event.is_complete()
        {
            profiler.record(Record {
                name: "wait".into(),
                kind: RecordKind::Move,
                device: self.on.devices[device].name().into(),
                stream: self.on.stream(device).id().0,
                seconds: started.elapsed().as_secs_f64(),
                note: "the host waited for another device".into(),
                ..Record::at(profiler, started)
            });
        }
        Ok(())
    }

    /// Queues a copy behind all that both devices did so far, and what they do later behind the copy.
    fn copy(&self, copy: &Copy, arenas: &Arenas, foreign: &mut [Option<Event>]) -> Result<()> {
        let devices = self.on.devices;
        let ((a, _), (b, _)) = (copy.from, copy.to);
        let worker = if Storage::copier(&devices[a], &devices[b]).same(&devices[b]) { b } else { a };
        let (queue, other) = (self.on.stream(worker), a + b - worker);
        self.order(worker, foreign[worker].take())?;
        self.order(worker, foreign[other].take())?;
        if !self.on.stream(other).is_synchronous() {
            self.order(worker, Some(self.on.stream(other).record()?))?;
        }
        let started = devices[worker].profiler().is_on().then(Instant::now);
        let ((from, at), (to, to_at)) = (self.end(copy.from, arenas)?, self.end(copy.to, arenas)?);
        from.copy(at, to, to_at, copy.bytes, queue)?;
        if !queue.is_synchronous() {
            foreign[other] = Some(queue.record()?);
        }
        if let Some(started) = started {
            let profiler = devices[worker].profiler();
            profiler.record(Record {
                name: "copy".into(),
                kind: RecordKind::Move,
                device: devices[b].name().into(),
                stream: queue.id().0,
                seconds: started.elapsed().as_secs_f64(),
                bytes: copy.bytes as u64,
                note: format!("{} -> {}", devices[a].name(), devices[b].name()),
                ..Record::at(profiler, started)
            });
        }
        Ok(())
    }

    /// One end of a copy: the memory, and the byte in it.
    fn end<'b>(&'b self, (device, slot): (usize, Slot), arenas: &'b Arenas) -> Result<(&'b Storage, usize)> {
        match slot {
            Slot::Leaf(_) => Err(Error::internal("a leaf is copied by a plan")),
            Slot::Output(n) => Ok((&self.outputs[n], 0)),
            Slot::Arena(at, _) => {
                let arena = arenas[device].as_deref();
                Ok((arena.ok_or_else(|| Error::internal("a plan without an arena uses it"))?, at))
            }
        }
    }

    /// Queues launches on one device.
    pub fn launch(&self, steps: Range<usize>, stream: &Stream, arenas: &Arenas) -> Result<()> {
        for step in &self.plan.steps[steps] {
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
            let bindings = Bindings { inputs: &inputs, outputs: &results, params: &params, workspace };
            device.launch(&prepared, &bindings, stream)?;
        }
        Ok(())
    }

    /// Where inputs and outputs lie on a device, and how long they are.
    pub fn memory(&self) -> SmallVec<[(usize, u64, usize); 8]> {
        let at = |s: &Storage| s.memory().address + s.offset() as u64;
        let length = |leaf: usize| self.given.leaves[leaf].value().and_then(|v| v.as_ref().ok()).map_or(0, Buffer::len);
        let leaves = self.leaves.iter().zip(&self.plan.leaves).map(|(r, &(leaf, d))| (d, at(&r.storage), length(leaf)));
        let outputs = self.outputs.iter().zip(&self.plan.outputs).map(|(s, o)| (o.device, at(s), o.bytes));
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
