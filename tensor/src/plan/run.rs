//! Running a plan: bring and allocate its memory, queue each step on its device's stream, publish the results.

use std::sync::Arc;
use std::time::Instant;

use millstream_core::{
    Buffer, Check, Checks, Error, Event, MemoryKind, Mode, Record, RecordKind, Resident, Result, Storage, interrupt,
};
use smallvec::SmallVec;

use super::bind::{Arenas, BoundPlan, Given, On, arenas, notes};
use super::instance::{Instance, Runnable};
use super::memory::{Copy, Launch, Slot, Step};

/// Runs a plan. On an error nothing was published, and the graph can be evaluated again.
pub(crate) fn run(plan: &Runnable, given: &Given<'_>, on: On<'_>) -> Result<()> {
    interrupt::check()?;
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
            None => {
                let storage = Storage::alloc(&on.devices[output.device], output.bytes, MemoryKind::Device, stream)?;
                if let Some(place) = given.calls.location(output.node) {
                    storage.made_at(place);
                }
                storage
            }
        });
    }
    let notes = notes(plan, given, on)?;
    let run = BoundPlan { given, leaves: &leaves, outputs: &outputs, notes: &notes, plan, on };
    let instance = plan.instances.take(&run)?;
    let arenas = match &instance {
        Some(instance) => instance.arenas.clone(),
        None => arenas(plan, on)?,
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
    for (check, event) in notes.iter().zip(&done) {
        if let (Some(check), Some(event)) = (check, event) {
            check.queued(event);
        }
    }
    launched?;
    let own: SmallVec<[Arc<Check>; 1]> = notes.into_iter().flatten().collect();
    let checks = Checks::join(&own, leaves.iter().map(|r| &r.checks));
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
        if !checks.is_empty() {
            buffer.depends_on(checks.clone());
        }
        node.fulfil(buffer);
    }
    Ok(())
}

impl BoundPlan<'_, '_> {
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
}
