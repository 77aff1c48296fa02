//! Captured plans: a plan that is run often is queued in one call, where the device has that. For several steps this saves a
//! call each; for a single one, too, since a driver queues what it has seen before for less than a launch that is new to it.
//!
//! An instance owns the memory of its intermediate values, so that only inputs and outputs move between two runs. Threads
//! that run one plan at the same time get instances of their own.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use millstream_core::backend::{Captured, Moved};
use millstream_core::{Device, Event, Idea, Priority, Result, Scalar, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::bind::{Arenas, BoundPlan, On, arenas};
use super::memory::{Plan, Step};

/// How often a plan of several steps runs step by step before it is captured.
const RUNS_BEFORE: u32 = 3;
/// The same for a plan of one step, which gains some microseconds each time for a capture that takes a hundred.
const RUNS_BEFORE_ONE: u32 = 20;
/// How many instances of a plan are kept.
const MOST: usize = 8;

/// A plan with its captured instances: what a runtime keeps.
pub(crate) struct Runnable {
    pub plan: Plan,
    pub instances: Instances,
}

impl Runnable {
    pub fn new(plan: Plan) -> Runnable {
        Runnable { plan, instances: Instances::default() }
    }
}

impl std::ops::Deref for Runnable {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

/// The captured instances of a plan that are not in use.
#[derive(Default)]
pub(crate) struct Instances {
    runs: AtomicU32,
    impossible: AtomicBool,
    idle: Mutex<Vec<Instance>>,
}

/// A captured plan with the memory it works on.
pub(crate) struct Instance {
    /// For each run of the plan's steps, its captured launches; `None` where it goes step by step.
    captured: SmallVec<[Option<Box<dyn Captured>>; 1]>,
    pub arenas: Arenas,
    /// Where inputs and outputs lay when it was captured.
    memory: SmallVec<[(usize, u64, usize); 8]>,
    /// What else its launches depend on: where each edge begins, and the numbers.
    offsets: SmallVec<[usize; 8]>,
    params: SmallVec<[Scalar; 8]>,
    last: SmallVec<[(Stream, Event); 1]>,
}

impl Instances {
    /// An instance for this run, ready to be queued; `None` if the plan is to run step by step.
    pub fn take(&self, run: &BoundPlan<'_, '_>) -> Result<Option<Instance>> {
        let (plan, on) = (run.plan, run.on);
        // A captured plan is one thing to the device: whoever profiles wants to see its steps.
        let main = &on.devices[0];
        let alone = plan.steps.is_empty() || (0..on.devices.len()).all(|d| on.stream(d).is_synchronous());
        // What is captured keeps what it writes to its note.
        let alone = alone || run.notes.iter().flatten().any(|check| !check.can_be_captured());
        if alone || main.profiler().is_on() || !main.has(Idea::Capture) || self.impossible.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let before = if plan.steps.len() == 1 { RUNS_BEFORE_ONE } else { RUNS_BEFORE };
        if self.runs.fetch_add(1, Ordering::Relaxed) < before {
            self.runs.fetch_min(u32::MAX / 2, Ordering::Relaxed);
            return Ok(None);
        }
        let idle = self.idle.lock().pop();
        let Some(mut instance) = idle else { return self.make(run) };
        for (last, event) in &instance.last {
            let others = (0..on.devices.len()).map(|d| on.stream(d)).filter(|s| s.id() != last.id());
            others.into_iter().try_for_each(|stream| stream.depend(event))?;
        }
        if instance.adapt(run)? {
            return Ok(Some(instance));
        }
        self.idle.lock().push(instance);
        Ok(None)
    }

    fn make(&self, run: &BoundPlan<'_, '_>) -> Result<Option<Instance>> {
        let (plan, on) = (run.plan, run.on);
        let arenas = arenas(plan, on)?;
        let mut captured: SmallVec<[Option<Box<dyn Captured>>; 1]> = SmallVec::new();
        for steps in &plan.runs {
            captured.push(match &plan.steps[steps.start] {
                Step::Launch(l) if !on.stream(l.device).is_synchronous() => {
                    let device = &on.devices[l.device];
                    with_stream(device, |private| {
                        device.capture(private, &mut || run.launch(steps.clone(), private, &arenas))
                    })?
                }
                _ => None,
            });
        }
        if captured.iter().all(Option::is_none) {
            self.impossible.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let (memory, offsets, params) = (run.memory(), run.offsets(), run.params());
        Ok(Some(Instance { captured, arenas, memory, offsets, params, last: SmallVec::new() }))
    }

    /// Takes an instance back whose last run is complete on each device with these events.
    pub fn put(&self, mut instance: Instance, on: On<'_>, done: &[Option<Event>]) {
        let event = |(d, e): (usize, &Option<Event>)| e.clone().map(|e| (on.stream(d).clone(), e));
        instance.last = done.iter().enumerate().filter_map(event).collect();
        let mut idle = self.idle.lock();
        if idle.len() < MOST {
            idle.push(instance);
        }
    }
}

impl Instance {
    /// The captured launches of one of the plan's runs.
    pub fn captured(&self, run: usize) -> Option<&dyn Captured> {
        self.captured.get(run).and_then(Option::as_deref)
    }

    /// Makes the launches work on the memory and numbers of this run; false where launching the plan's only step anew costs less.
    fn adapt(&mut self, run: &BoundPlan<'_, '_>) -> Result<bool> {
        let (memory, offsets, params) = (run.memory(), run.offsets(), run.params());
        let same_numbers = self.params == params && self.offsets == offsets;
        if same_numbers && self.memory == memory {
            return Ok(true);
        }
        // Two values that lie at one address cannot be distinguished by their address.
        let clear = (0..self.memory.len()).all(|i| {
            let (device, from, bytes) = self.memory[i];
            let disjoint =
                |&(d, f, b): &(usize, u64, usize)| d != device || from + bytes as u64 <= f || f + b as u64 <= from;
            self.memory[..i].iter().all(disjoint)
        });
        for (captured, steps) in self.captured.iter_mut().zip(&run.plan.runs) {
            let (Some(captured), Step::Launch(l)) = (captured, &run.plan.steps[steps.start]) else { continue };
            let moved: SmallVec<[Moved; 8]> = self
                .memory
                .iter()
                .zip(&memory)
                .filter(|(a, b)| a != b && a.0 == l.device)
                .map(|(&(_, from, bytes), &(_, to, _))| Moved { from, bytes, to })
                .collect();
            if same_numbers && clear && captured.rebind(&moved)? {
                continue;
            }
            if run.plan.steps.len() == 1 {
                return Ok(false);
            }
            let (device, arenas) = (&run.on.devices[l.device], &self.arenas);
            with_stream(device, |private| {
                device.recapture(&mut **captured, private, &mut || run.launch(steps.clone(), private, arenas))
            })?;
        }
        (self.memory, self.offsets, self.params) = (memory, offsets, params);
        Ok(true)
    }
}

/// Calls `f` with a stream that nobody else uses meanwhile: what is captured must not mix with other threads' work.
fn with_stream<R>(device: &Device, f: impl FnOnce(&Stream) -> Result<R>) -> Result<R> {
    let private = device.take_stream(Priority::Normal)?;
    let result = f(&private);
    device.return_stream(private);
    result
}
