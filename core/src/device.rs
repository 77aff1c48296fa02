//! Devices as the rest of Millstream sees them: a backend with its pool, dispatcher and streams.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::backend::{Backend, Bindings, Captured, Priority, Support};
use crate::check::Notes;
use crate::dispatcher::{DispatchStatistics, Dispatcher, Prepared, Site, Work};
use crate::error::{Error, ErrorKind, ErrorLog, Result};
use crate::how::{Candidate, CandidateRole, Cost, DeviceKind, DeviceProfile, cost};
use crate::memory::{MemoryKind, RawMemory};
use crate::pool::{Pool, PoolConfig, Source};
use crate::profiler::Profiler;
use crate::runtime::{Attachment, Idea, Shared};
use crate::stream::Stream;
use crate::what::Op;

/// A processor that computes. Cheap to clone; clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    id: u64,
    name: String,
    backend: Arc<dyn Backend>,
    profile: RwLock<Arc<DeviceProfile>>,
    identity: String,
    kind: DeviceKind,
    pool: Arc<Pool>,
    dispatcher: Dispatcher,
    notes: Notes,
    stream: Stream,
    idle: Mutex<Vec<Stream>>,
    shared: Arc<Shared>,
    /// The host; `None` on the host itself.
    host: Option<Device>,
    lost: AtomicBool,
    /// The devices that this one stands for; empty for a device of its own.
    candidates: Vec<Device>,
}

/// The backend's memory, as the pool asks for it.
struct Memory {
    name: String,
    backend: Arc<dyn Backend>,
}

// No fence: whoever queues work on a stream records that use of each block (`Storage::used_on`).
impl Source for Memory {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn alloc(&self, bytes: usize, kind: MemoryKind) -> Result<RawMemory> {
        self.backend.alloc(bytes, kind)
    }

    fn free(&self, memory: RawMemory) {
        self.backend.free(memory);
    }
}

impl Device {
    pub(crate) fn new(
        name: &str,
        backend: Arc<dyn Backend>,
        host: Option<Device>,
        shared: Arc<Shared>,
    ) -> Result<Device> {
        Device::make(name, backend, host, shared, Vec::new())
    }

    /// A device that computes nothing itself: whoever evaluates on it chooses one of these.
    pub(crate) fn standing_for(
        name: &str,
        candidates: Vec<Device>,
        host: Device,
        shared: Arc<Shared>,
    ) -> Result<Device> {
        Device::make(name, host.backend().clone(), Some(host), shared, candidates)
    }

    fn make(
        name: &str,
        backend: Arc<dyn Backend>,
        host: Option<Device>,
        shared: Arc<Shared>,
        candidates: Vec<Device>,
    ) -> Result<Device> {
        let mut profile = backend.profile();
        let identity =
            format!("{name}/{}/{}/{}/{}", profile.description, profile.driver, profile.architecture, profile.units);
        if let Some(measured) = shared.disk.get(profile_key(&identity).as_bytes()) {
            profile = profile.with_stored_rates(&measured);
        }
        shared.tell_disk_trouble();
        let config = PoolConfig {
            limit: shared.memory_limit,
            max_segment: usize::try_from(profile.max_binding).unwrap_or(usize::MAX),
            alignment: profile.offset_alignment.max(64),
            ..PoolConfig::default()
        };
        let source = Box::new(Memory { name: name.into(), backend: backend.clone() });
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Device(Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            identity,
            kind: profile.kind,
            profile: RwLock::new(Arc::new(profile)),
            pool: Pool::new(source, config),
            dispatcher: Dispatcher::new(),
            notes: Notes::default(),
            stream: Stream::new(&*backend, Priority::Normal)?,
            idle: Mutex::new(Vec::new()),
            backend,
            shared,
            host,
            lost: AtomicBool::new(false),
            candidates,
        })))
    }

    /// Its name: `cpu`, `cuda:0`, ...
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A number that no other device of the process has or will have.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Its family.
    pub fn kind(&self) -> DeviceKind {
        self.0.kind
    }

    /// What it is and can do.
    pub fn profile(&self) -> Arc<DeviceProfile> {
        self.0.profile.read().clone()
    }

    /// Measures its limits, keeps them on disk, and gives the completed profile. Done before: gives that one.
    pub fn measure(&self) -> Result<Arc<DeviceProfile>> {
        if self.profile().measured { Ok(self.profile()) } else { self.measure_again() }
    }

    /// Measures its limits, even if that was done before.
    pub fn measure_again(&self) -> Result<Arc<DeviceProfile>> {
        Ok(self.keep_profile(self.guard(self.0.backend.measure())?))
    }

    /// Measures its limits once more and keeps the better of each number: for a limit that was beaten, which must have been measured
    /// while something else ran on the machine.
    pub fn measure_better(&self) -> Result<Arc<DeviceProfile>> {
        let (before, now) = (self.profile(), self.guard(self.0.backend.measure())?);
        Ok(self.keep_profile(if before.measured { now.better(&before) } else { now }))
    }

    /// Uses this profile from now on, here and in later programs.
    fn keep_profile(&self, profile: DeviceProfile) -> Arc<DeviceProfile> {
        let profile = Arc::new(profile);
        if let Ok(text) = serde_json::to_vec(&*profile) {
            // The cache tells its own failures; the measurement stands without it.
            let _ = self.0.shared.disk.put(profile_key(&self.0.identity).as_bytes(), &text);
            self.0.shared.tell_disk_trouble();
        }
        *self.0.profile.write() = profile.clone();
        profile
    }

    /// Seconds of one small launch and the wait for it by bare driver calls; `None` where work is finished within the call.
    pub fn launch_floor(&self) -> Result<Option<f64>> {
        self.guard(self.alive().and_then(|()| self.0.backend.launch_floor()))
    }

    /// Whether both are the same device.
    pub fn same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The devices among which each computation chooses, for the device `auto`; empty for every other.
    pub fn candidates(&self) -> &[Device] {
        &self.0.candidates
    }

    /// Whether this is the host's processor.
    pub fn is_host(&self) -> bool {
        self.0.host.is_none()
    }

    /// The host's processor.
    pub fn host(&self) -> Device {
        self.0.host.clone().unwrap_or_else(|| self.clone())
    }

    /// The stream on which work goes unless another is asked for.
    pub fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// A stream of its own; give it back with [`Device::return_stream`] so that it can be used again.
    pub fn take_stream(&self, priority: Priority) -> Result<Stream> {
        let mut idle = self.0.idle.lock();
        if let Some(i) = idle.iter().position(|s| s.priority() == priority) {
            return Ok(idle.swap_remove(i));
        }
        drop(idle);
        self.guard(Stream::new(&*self.0.backend, priority))
    }

    /// Gives a stream back to the device's pool of streams.
    pub fn return_stream(&self, stream: Stream) {
        let mut idle = self.0.idle.lock();
        if idle.len() < 16 {
            idle.push(stream);
        }
    }

    /// The memory pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.0.pool
    }

    /// The runtime's profiler.
    pub fn profiler(&self) -> &Profiler {
        &self.0.shared.profiler
    }

    /// The runtime's error log.
    pub fn errors(&self) -> &ErrorLog {
        &self.0.shared.errors
    }

    /// Whether this idea is in use (all are, unless a benchmark switched one off).
    pub fn has(&self, idea: Idea) -> bool {
        self.0.shared.ideas.has(idea)
    }

    /// Which of an operation's ways is taken, in the order of the cost model ([`crate::Runtime::set_rank`]).
    pub fn rank(&self) -> usize {
        self.0.shared.rank.load(Ordering::Relaxed)
    }

    /// Counts of launches, hits, compiles, errors.
    pub fn statistics(&self) -> DispatchStatistics {
        self.0.dispatcher.statistics()
    }

    /// Whether the device is gone.
    pub fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Whether it computes this operation itself, or why not.
    pub fn supports(&self, op: &Op) -> Support {
        self.0.backend.supports(op)
    }

    /// Seconds by which this way to compute an operation is compared with others: those of [`Cost`], or those of the backend's
    /// reference profile, if it has one ([`crate::Backend::reference_profile`]).
    pub fn compared(&self, op: &Op, candidate: &Candidate) -> f64 {
        match self.0.backend.reference_profile() {
            Some(profile) => cost(op, Some(&candidate.traffic), profile).seconds,
            None => cost(op, Some(&candidate.traffic), &self.profile()).seconds,
        }
    }

    /// The cheapest way to compute an operation here, by the cost model.
    pub fn choose(&self, op: &Op) -> Result<(Candidate, Cost)> {
        if let Support::No(reason) = self.supports(op) {
            return Err(Error::unsupported(format!("{} on {}: {reason}", op.name(), self.name())));
        }
        let profile = self.profile();
        let mut variants = self.0.backend.variants(op);
        if !self.has(Idea::Library) && variants.iter().any(|v| v.role != CandidateRole::Library) {
            variants.retain(|v| v.role != CandidateRole::Library);
        }
        if !self.has(Idea::Tile) {
            variants.truncate(1);
        } else {
            variants.retain(|v| v.role != CandidateRole::Fixed);
        }
        if variants.len() > 1 {
            let mut priced: Vec<_> = variants.into_iter().map(|v| (self.compared(op, &v), v)).collect();
            // The first of equals is the cheapest.
            priced.sort_by(|a, b| a.0.total_cmp(&b.0));
            variants = priced.into_iter().map(|(_, v)| v).collect();
        }
        let rank = self.rank();
        let distinct = |&i: &usize| !variants[..i].iter().any(|v| v.is_same_as(&variants[i]));
        let at = if rank == 0 { 0 } else { (0..variants.len()).filter(distinct).nth(rank).unwrap_or(0) };
        let chosen = (at < variants.len()).then(|| variants.swap_remove(at));
        let chosen =
            chosen.ok_or_else(|| Error::internal(format!("{} offers no way to compute {}", self.name(), op.name())))?;
        let cost = cost(op, Some(&chosen.traffic), &profile);
        Ok((chosen, cost))
    }

    /// The prepared form of a step: from the ring, or made now.
    pub fn prepare(&self, work: &Arc<Work>) -> Result<Arc<Prepared>> {
        self.guard(self.alive().and_then(|()| self.0.dispatcher.prepare(&self.site(), work)))
    }

    /// Queues a prepared step.
    pub fn launch(&self, prepared: &Prepared, bindings: &Bindings<'_>, stream: &Stream) -> Result<()> {
        self.guard(self.0.dispatcher.launch(&self.site(), prepared, bindings, stream))
    }

    /// Records the launches that `work` queues on the stream, without running them; `None` where the device cannot.
    pub fn capture(&self, stream: &Stream, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn Captured>>> {
        self.guard(self.alive().and_then(|()| self.0.backend.capture(stream.handle(), work)))
    }

    /// Takes captured launches again, with other scalars, offsets and memory.
    pub fn recapture(
        &self,
        captured: &mut dyn Captured,
        stream: &Stream,
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.guard(self.alive().and_then(|()| captured.recapture(stream.handle(), work)))
    }

    /// Queues so many captured launches.
    pub fn replay(&self, captured: &dyn Captured, launches: usize, stream: &Stream) -> Result<()> {
        self.guard(self.alive().and_then(|()| self.0.dispatcher.replay(&self.site(), captured, launches, stream)))
    }

    /// Compiles what these steps will need, in parallel.
    pub fn compile(&self, works: &[Arc<Work>]) -> Result<()> {
        self.guard(self.alive().and_then(|()| self.0.dispatcher.compile(&self.site(), works)))
    }

    /// What the layer above keeps for all devices of the runtime (its plans), made at the first call.
    pub fn attachment<T: Attachment + Default>(&self) -> Result<&T> {
        let held: &dyn Any = &**self.0.shared.attachment.get_or_init(|| Box::new(T::default()));
        held.downcast_ref().ok_or_else(|| Error::internal("a runtime has one attachment, of one type"))
    }

    /// Whether values go from this device to the other in one copy, or why they go through the host.
    pub fn reaches(&self, other: &Device) -> Support {
        match self.is_host() || other.is_host() || self.same(other) {
            true => Support::Native,
            false => other.0.backend.peer(&self.profile()),
        }
    }

    /// Predicted seconds to bring so many bytes from this device to another.
    pub fn seconds_to(&self, other: &Device, bytes: usize) -> f64 {
        let own = |d: &Device| {
            let transfer = d.profile().transfer;
            transfer.latency + bytes as f64 / transfer.bandwidth
        };
        // Where neither is the host, the way leads through it, unless one copy does it.
        match (self.is_host(), other.is_host()) {
            _ if self.same(other) => 0.0,
            (true, _) => own(other),
            (false, true) => own(self),
            (false, false) if self.reaches(other) == Support::Native => own(self).max(own(other)),
            (false, false) => own(self) + own(other),
        }
    }

    pub(crate) fn notes(&self) -> &Notes {
        &self.0.notes
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.0.backend
    }

    /// Passes a result on; a lost device is remembered as lost.
    pub(crate) fn guard<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(e) = &result
            && e.kind() == ErrorKind::DeviceLost
        {
            self.0.lost.store(true, Ordering::Relaxed);
            self.0.dispatcher.clear();
        }
        result
    }

    fn alive(&self) -> Result<()> {
        if self.is_lost() {
            return Err(Error::device_lost(format!("{} was lost earlier", self.name())));
        }
        Ok(())
    }

    fn site(&self) -> Site<'_> {
        Site {
            backend: &*self.0.backend,
            device: &self.0.name,
            identity: &self.0.identity,
            disk: &self.0.shared.disk,
            profiler: &self.0.shared.profiler,
            ideas: &self.0.shared.ideas,
            owner: self,
        }
    }
}

fn profile_key(identity: &str) -> String {
    format!("profile 2 {} {identity}", env!("CARGO_PKG_VERSION"))
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.same(other)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}
