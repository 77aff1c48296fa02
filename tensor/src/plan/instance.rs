//! Captured plans: a plan that is run often is queued in one call, where the device has that. For several steps this saves a
//! call each; for a single one, too, since a driver queues what it has seen before for less than a launch that is new to it.
//!
//! An instance owns the memory of its intermediate values, so that only inputs and outputs move between two runs. Threads
//! that run one plan at the same time get instances of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use millstream_core::backend::{Captured, Moved};
use millstream_core::{Device, Event, Idea, MemoryKind, Priority, Result, Scalar, Storage, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::make::Plan;
use super::run::Run;

/// How often a plan of several steps runs step by step before it is captured.
const RUNS_BEFORE: u32 = 3;
/// The same for a plan of one step, which gains some microseconds each time for a capture that takes a hundred.
const RUNS_BEFORE_ONE: u32 = 20;
/// How many instances of a plan are kept.
const MOST: usize = 8;

/// The captured instances of a plan that are not in use.
#[derive(Default)]
pub(crate) struct Instances {
    runs: AtomicU32,
    impossible: AtomicBool,
    idle: Mutex<Vec<Instance>>,
}

/// A captured plan with the memory it works on.
pub(crate) struct Instance {
    captured: Box<dyn Captured>,
    pub arena: Option<Arc<Storage>>,
    /// Where inputs and outputs lay when it was captured.
    memory: SmallVec<[(u64, usize); 8]>,
    /// What else its launches depend on: where each edge begins, and the numbers.
    offsets: SmallVec<[usize; 8]>,
    params: SmallVec<[Scalar; 8]>,
    last: Option<(Stream, Event)>,
}

impl Instances {
    /// An instance for this run, ready to be queued; `None` if the plan is to run step by step.
    pub fn take(&self, run: &Run<'_, '_>, device: &Device, stream: &Stream) -> Result<Option<Instance>> {
        let plan = run.plan;
        // A captured plan is one thing to the device: whoever profiles wants to see its steps.
        let seen = device.profiler().is_on();
        let alone = plan.steps.is_empty() || stream.is_synchronous() || seen || !device.has(Idea::Capture);
        if alone || self.impossible.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let before = if plan.steps.len() == 1 { RUNS_BEFORE_ONE } else { RUNS_BEFORE };
        if self.runs.fetch_add(1, Ordering::Relaxed) < before {
            self.runs.fetch_min(u32::MAX / 2, Ordering::Relaxed);
            return Ok(None);
        }
        let idle = self.idle.lock().pop();
        let Some(mut instance) = idle else { return self.make(run, device, stream) };
        if let Some((last, event)) = &instance.last
            && last.id() != stream.id()
        {
            stream.depend(event)?;
        }
        if instance.adapt(run, device)? {
            return Ok(Some(instance));
        }
        self.idle.lock().push(instance);
        Ok(None)
    }

    fn make(&self, run: &Run<'_, '_>, device: &Device, stream: &Stream) -> Result<Option<Instance>> {
        let arena = arena(run.plan, device, stream)?;
        let captured = with_stream(device, |private| {
            device.capture(private, &mut || run.launch(device, private, arena.as_deref()))
        })?;
        let Some(captured) = captured else {
            self.impossible.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        let (memory, offsets, params) = (run.memory(), run.offsets(), run.params());
        Ok(Some(Instance { captured, arena, memory, offsets, params, last: None }))
    }

    /// Takes an instance back whose last run is complete with this event.
    pub fn put(&self, mut instance: Instance, stream: &Stream, done: &Event) {
        instance.last = Some((stream.clone(), done.clone()));
        let mut idle = self.idle.lock();
        if idle.len() < MOST {
            idle.push(instance);
        }
    }
}

impl Instance {
    /// Queues the launches.
    pub fn replay(&self, plan: &Plan, device: &Device, stream: &Stream) -> Result<()> {
        device.replay(&*self.captured, plan.steps.len(), stream)
    }

    /// Makes the launches work on the memory and numbers of this run; false where launching the plan's only step anew costs less.
    fn adapt(&mut self, run: &Run<'_, '_>, device: &Device) -> Result<bool> {
        let (memory, offsets, params) = (run.memory(), run.offsets(), run.params());
        let same_numbers = self.params == params && self.offsets == offsets;
        if same_numbers && self.memory == memory {
            return Ok(true);
        }
        let moved: SmallVec<[Moved; 8]> = self
            .memory
            .iter()
            .zip(&memory)
            .filter(|(a, b)| a != b)
            .map(|(&(from, bytes), &(to, _))| Moved { from, bytes, to })
            .collect();
        // Two values that lie in one place cannot be told apart by their address.
        let clear = (0..self.memory.len()).all(|i| {
            let (from, bytes) = self.memory[i];
            self.memory[..i].iter().all(|&(f, b)| from + bytes as u64 <= f || f + b as u64 <= from)
        });
        if !(same_numbers && clear && self.captured.rebind(&moved)?) {
            if run.plan.steps.len() == 1 {
                return Ok(false);
            }
            let arena = self.arena.as_deref();
            let captured = &mut *self.captured;
            with_stream(device, |private| {
                device.recapture(captured, private, &mut || run.launch(device, private, arena))
            })?;
        }
        (self.memory, self.offsets, self.params) = (memory, offsets, params);
        Ok(true)
    }
}

/// Memory for the intermediate values of a plan.
pub(crate) fn arena(plan: &Plan, device: &Device, stream: &Stream) -> Result<Option<Arc<Storage>>> {
    match plan.arena {
        0 => Ok(None),
        bytes => Storage::alloc(device, bytes, MemoryKind::Device, stream).map(Some),
    }
}

/// Calls `f` with a stream that nobody else uses meanwhile: what is captured must not mix with other threads' work.
fn with_stream<R>(device: &Device, f: impl FnOnce(&Stream) -> Result<R>) -> Result<R> {
    let private = device.take_stream(Priority::Normal)?;
    let result = f(&private);
    device.return_stream(private);
    result
}
