//! The dispatcher: the one door through which operations reach a device.
//!
//! Each device has one. A launch is looked up in the ring of prepared launches; a miss resolves the kernel (memory, disk,
//! compiler) and prepares it. Bindings are checked against the operation's reach before anything is queued, so that no
//! kernel can touch memory that is not the operand's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use smallvec::SmallVec;

use crate::backend::{Backend, Binding, Bindings, Captured, Kernel, Launch, NoteAt};
use crate::cache::{DiskCache, KernelCache, KernelStatistics, Origin};
use crate::error::{Error, Result};
use crate::how::{Candidate, Variant, cost};
use crate::memory::StreamId;
use crate::profiler::{Profiler, Record, RecordKind};
use crate::ring::{Hit, Ring};
use crate::runtime::{Idea, Ideas};
use crate::stream::Stream;
use crate::what::{Access, Body, Gather, Op, Outside};

/// An operation and the way to compute it: what a plan step asks for.
#[derive(Debug)]
pub struct Work {
    op: Op,
    candidate: Candidate,
    key: u64,
    name: String,
}

/// What a way costs is no part of what it is.
impl PartialEq for Work {
    fn eq(&self, other: &Work) -> bool {
        self.op == other.op && self.candidate.is_same_as(&other.candidate) && self.name == other.name
    }
}

impl Eq for Work {}

impl Work {
    /// Binds an operation to a way to compute it under a name for people.
    pub fn new(op: Op, candidate: Candidate, name: impl Into<String>) -> Arc<Work> {
        use std::hash::{Hash, Hasher};
        let mut h = rustc_hash::FxHasher::default();
        op.launch_key().hash(&mut h);
        (&candidate.variant, &candidate.schedule).hash(&mut h);
        Arc::new(Work { key: h.finish(), op, candidate, name: name.into() })
    }

    /// The operation.
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// The way to compute it.
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The name for people.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A launch with everything resolved but memory and scalars.
pub struct Prepared {
    work: Arc<Work>,
    kernel: Arc<dyn Kernel>,
    launch: Arc<dyn Launch>,
    /// For each input and output: the first and the last-plus-one byte it reaches, relative to its element of index 0.
    reach: SmallVec<[(isize, isize); 4]>,
    workspace: usize,
    notes: bool,
}

impl Prepared {
    /// Bytes of scratch memory that a run needs.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Whether a run should be given a note ([`crate::check`]) for what it finds wrong.
    pub fn notes(&self) -> bool {
        self.notes
    }

    /// The kernel as a person would read it.
    pub fn text(&self) -> String {
        self.kernel.text()
    }

    fn check(&self, bindings: &Bindings<'_>) -> Result<()> {
        let op = &self.work.op;
        let counts = (bindings.inputs.len(), bindings.outputs.len());
        if counts != (op.inputs.len(), op.outputs.len()) || bindings.params.len() < op.params() {
            return Err(Error::internal(format!("{}: the number of operands or parameters is wrong", self.work.name)));
        }
        for (binding, &(low, high)) in bindings.inputs.iter().chain(bindings.outputs).zip(&self.reach) {
            let at = binding.offset as isize;
            // An operand without elements may begin anywhere.
            let inside = low == high || binding.start as isize <= at + low && at + high <= binding.end as isize;
            if !inside || binding.end > binding.memory.bytes {
                return Err(Error::internal(format!(
                    "{}: an operand reaches bytes {}..{} of an allocation of {}..{}",
                    self.work.name,
                    at + low,
                    at + high,
                    binding.start,
                    binding.end
                )));
            }
        }
        if bindings.note.is_some_and(|n| n.offset.saturating_add(NoteAt::BYTES) > n.memory.bytes) {
            return Err(Error::internal(format!("{}: the note lies outside its memory", self.work.name)));
        }
        match bindings.workspace {
            Some(w) if w.end.saturating_sub(w.offset) >= self.workspace => Ok(()),
            None if self.workspace == 0 => Ok(()),
            _ => Err(Error::internal(format!("{}: the workspace is too small", self.work.name))),
        }
    }
}

/// The bytes an access reaches from its element of index 0. Guarded accesses check every position themselves.
///
/// An index space without elements reads nothing; but an output that ignores the empty dimensions (a sum of nothing) is
/// written all the same.
///
/// `alone` says that this holds for the operand: an output, or any operand of a host function.
fn reach(access: &Access, dims: &[usize], alone: bool) -> (isize, isize) {
    let skipped = |d: usize| alone && access.ignores(d);
    if !access.is_plain() || (0..dims.len()).any(|d| dims[d] == 0 && !skipped(d)) {
        return (0, 0);
    }
    let size = access.dtype.size() as isize;
    let (mut low, mut high) = (access.base, access.base);
    for d in (0..dims.len()).filter(|&d| !skipped(d)) {
        let far = (dims[d] as isize - 1).saturating_mul(access.strides[d]);
        low = low.saturating_add(far.min(0));
        high = high.saturating_add(far.max(0));
    }
    (low.saturating_mul(size), high.saturating_add(1).saturating_mul(size))
}

/// The bytes that an operation's input reaches. A table is reached wherever a lookup may lead.
fn input_reach(op: &Op, input: usize) -> (isize, isize) {
    let access = &op.inputs[input];
    let (mut low, mut high) = reach(access, &op.dims, matches!(op.body, Body::Host(_)));
    if let (Body::Gather(Gather { lookups, .. }), 0, true) = (&op.body, input, high > low) {
        if lookups.iter().any(|l| l.size == 0) {
            // Every index is out of range: nothing is read.
            return (0, 0);
        }
        let size = access.dtype.size() as isize;
        for l in lookups {
            let far = (l.size as isize - 1).saturating_mul(l.stride).saturating_mul(size);
            low = low.saturating_add(far.min(0));
            high = high.saturating_add(far.max(0));
        }
    }
    (low, high)
}

/// What a dispatcher has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DispatchStatistics {
    /// Launches.
    pub launches: u64,
    /// Launches found prepared in the ring.
    pub ring_hits: u64,
    /// Launches that failed.
    pub errors: u64,
    /// Fewest bytes that the launches had to move, in all.
    pub bytes: u64,
    /// The kernel cache's counts.
    pub kernels: KernelStatistics,
}

/// Launches operations on one device.
pub struct Dispatcher {
    ring: Ring<Prepared>,
    kernels: KernelCache,
    launches: AtomicU64,
    misses: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
}

/// What a dispatcher needs of its device.
pub(crate) struct Site<'a> {
    pub backend: &'a dyn Backend,
    pub device: &'a str,
    pub identity: &'a str,
    pub disk: &'a DiskCache,
    pub profiler: &'a Profiler,
    pub ideas: &'a Ideas,
    pub owner: &'a crate::device::Device,
}

impl Dispatcher {
    pub(crate) fn new() -> Dispatcher {
        Dispatcher {
            ring: Ring::new(),
            kernels: KernelCache::default(),
            launches: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// The prepared form of this work, from the ring if it is there.
    pub(crate) fn prepare(&self, site: &Site<'_>, work: &Arc<Work>) -> Result<Arc<Prepared>> {
        if !site.ideas.has(Idea::Ring) {
            self.misses.fetch_add(1, Ordering::Relaxed);
            return self.make(site, work);
        }
        let (prepared, hit) = self.ring.get_or_push_with(work.key, || self.make(site, work))?;
        if hit == Hit::Miss {
            self.misses.fetch_add(1, Ordering::Relaxed);
        } else if !Arc::ptr_eq(&prepared.work, work) && prepared.work.as_ref() != work.as_ref() {
            // Two launches with one 64-bit key: the later one goes without the ring.
            self.misses.fetch_add(1, Ordering::Relaxed);
            return self.make(site, work);
        }
        Ok(prepared)
    }

    fn make(&self, site: &Site<'_>, work: &Arc<Work>) -> Result<Arc<Prepared>> {
        let started = Instant::now();
        let (kernel, origin) =
            self.kernels.get_or_compile(&work.op, &work.candidate.variant, site.backend, site.identity, site.disk)?;
        if let Some(trouble) = site.disk.take_warning() {
            site.profiler.warn(trouble);
        }
        if origin != Origin::Memory && site.profiler.is_on() {
            site.profiler.record(Record {
                name: work.name.as_str().into(),
                kind: RecordKind::Compile,
                device: site.device.into(),
                seconds: started.elapsed().as_secs_f64(),
                note: format!("{origin:?}"),
                ..Record::at(site.profiler, started)
            });
        }
        let launch = kernel.prepare(&work.op, &work.candidate.schedule)?;
        let op = &work.op;
        Ok(Arc::new(Prepared {
            reach: (0..op.inputs.len())
                .map(|i| input_reach(op, i))
                .chain(op.outputs.iter().map(|a| reach(a, &op.dims, true)))
                .collect(),
            workspace: launch.workspace(),
            notes: matches!(&op.body, Body::Gather(g) if g.outside == Outside::Error) && launch.notes(),
            work: work.clone(),
            kernel,
            launch,
        }))
    }

    /// Queues a launch. Everything is checked first; on an error nothing was queued.
    pub(crate) fn launch(
        &self,
        site: &Site<'_>,
        prepared: &Prepared,
        bindings: &Bindings<'_>,
        stream: &Stream,
    ) -> Result<()> {
        self.launches.fetch_add(1, Ordering::Relaxed);
        let profiled = site.profiler.is_on().then(Instant::now);
        // On a queueing stream the device's own clock tells the time; a stream that is being captured takes no events.
        let timed = profiled.is_some() && !stream.is_synchronous();
        let before = if timed { stream.record_timed().ok() } else { None };
        let run = || {
            prepared.check(bindings)?;
            prepared.launch.run(bindings, stream.handle())
        };
        let work = &prepared.work;
        run().map_err(|e| {
            self.errors.fetch_add(1, Ordering::Relaxed);
            e.through(format!("{} on {}", work.name, site.device))
        })?;
        if let Some(reason) = prepared.launch.fallback() {
            site.profiler.warn(format!("{} did not run as {}: {reason}", work.name, work.candidate.label()));
        }
        if let Some(started) = profiled {
            let seconds = started.elapsed().as_secs_f64();
            let cost = cost(&work.op, Some(&work.candidate.traffic), &site.owner.profile());
            self.bytes.fetch_add(cost.bytes, Ordering::Relaxed);
            let synchronous = stream.is_synchronous();
            let record = Record {
                name: work.name.as_str().into(),
                kind: if synchronous { RecordKind::Step } else { RecordKind::Queued },
                device: site.device.into(),
                stream: stream_number(stream.id()),
                seconds,
                bytes: cost.bytes,
                flop: cost.flop,
                limit_fraction: synchronous.then_some(cost.floor / seconds),
                note: work.candidate.label(),
                ..Record::at(site.profiler, started)
            };
            match before.map(|before| (before, stream.record_timed())) {
                Some((before, Ok(after))) => site.profiler.record_between(record, before, after, cost.floor),
                _ => site.profiler.record(record),
            }
        }
        Ok(())
    }

    /// Queues captured launches. Each counts as one found prepared.
    pub(crate) fn replay(
        &self,
        site: &Site<'_>,
        captured: &dyn Captured,
        launches: usize,
        stream: &Stream,
    ) -> Result<()> {
        self.launches.fetch_add(launches as u64, Ordering::Relaxed);
        let profiled = site.profiler.is_on().then(Instant::now);
        captured.replay(stream.handle()).map_err(|e| {
            self.errors.fetch_add(1, Ordering::Relaxed);
            e.through(format!("a captured plan on {}", site.device))
        })?;
        if let Some(started) = profiled {
            site.profiler.record(Record {
                name: "replay".into(),
                kind: RecordKind::Queued,
                device: site.device.into(),
                stream: stream_number(stream.id()),
                seconds: started.elapsed().as_secs_f64(),
                note: format!("{launches} captured launches"),
                ..Record::at(site.profiler, started)
            });
        }
        Ok(())
    }

    /// Compiles what these will need, in parallel.
    pub(crate) fn compile(&self, site: &Site<'_>, works: &[Arc<Work>]) -> Result<()> {
        let list: Vec<(&Op, &Variant)> = works.iter().map(|w| (&w.op, &w.candidate.variant)).collect();
        self.kernels.compile_all(&list, site.backend, site.identity, site.disk)
    }

    /// What was done so far. `bytes` counts only launches made while the profiler was on.
    pub fn statistics(&self) -> DispatchStatistics {
        let launches = self.launches.load(Ordering::Relaxed);
        DispatchStatistics {
            launches,
            ring_hits: launches.saturating_sub(self.misses.load(Ordering::Relaxed)),
            errors: self.errors.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            kernels: self.kernels.statistics(),
        }
    }

    /// Forgets prepared launches and kernels, as after the loss of a device.
    pub fn clear(&self) {
        self.ring.clear();
        self.kernels.clear();
    }
}

fn stream_number(id: StreamId) -> u64 {
    id.0
}

/// A binding for the whole of an allocation's part, beginning at its first byte plus `offset`.
pub fn bind<'a>(memory: &'a crate::memory::RawMemory, start: usize, bytes: usize, offset: usize) -> Binding<'a> {
    Binding { memory, offset: start + offset, start, end: start + bytes, pack_cache: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what::DType;

    #[test]
    fn the_reach_covers_negative_strides_and_empty_sums() {
        let back = Access::new(DType::F32, &[-1, 10]);
        assert_eq!(reach(&back, &[4, 3], false), (-12, 84));
        let row = Access::new(DType::F32, &[1, 0]);
        assert_eq!(reach(&row, &[5, 0], true), (0, 20));
        assert_eq!(reach(&row, &[5, 0], false), (0, 0));
        assert_eq!(reach(&row, &[0, 5], true), (0, 0));
    }
}
