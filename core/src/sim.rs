//! `sim`: a device that wraps another one, with a virtual clock and faults on demand. For tests.
//!
//! Work is done by the wrapped device; memory is given out as if the host could not address it, so that every value has to be
//! moved there and back as with a real accelerator. [`Faults`] says what shall go wrong and when; the clock adds up what the
//! cost model says that launches and copies would have taken.

mod recording;
mod stream;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::backend::{
    Backend, BackendStream, Binding, Bindings, Captured, DeviceFamily, Kernel, Launch, MemoryAt, Opening, Priority,
    Support,
};
use crate::cache::stable_hash;
use crate::error::{Error, ErrorKind, Fault, Result};
use crate::event::Event;
use crate::how::{Candidate, DeviceProfile, Schedule, Variant, cost};
use crate::memory::{MemoryKind, RawMemory, StreamId};
use crate::what::Op;

/// The calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Taking memory.
    Alloc,
    /// Compiling a kernel.
    Compile,
    /// Queueing a kernel.
    Launch,
    /// Queueing a copy.
    Copy,
    /// Making a stream.
    Stream,
    /// Measuring the device.
    Measure,
    /// Recording launches, for the first time or again. Only on a device whose streams queue.
    Capture,
    /// Queueing recorded launches.
    Replay,
}

const CALLS: usize = Call::Replay as usize + 1;

/// Where the failure of queued work shows first. Waiting for events and streams shows it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// When an event recorded behind it is waited for or asked.
    Wait,
    /// When the next event is recorded.
    Record,
}

/// What shall go wrong. Numbers count from 1 since the last [`Sim::set`]; `None` never fails.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The allocation that finds no memory, and all after it.
    pub out_of_memory_at: Option<u64>,
    /// The compilation that fails.
    pub compile_error_at: Option<u64>,
    /// The launch at which the device is lost.
    pub lost_at_launch: Option<u64>,
    /// The copy that fails.
    pub copy_error_at: Option<u64>,
    /// The calls of a kind that fail, without loss of the device. Those between them and after them succeed.
    pub errors_at: Option<(Call, Range<u64>)>,
    /// The call at which the device is lost.
    pub lost_at: Option<(Call, u64)>,
    /// The launch or copy that is taken and fails later: it and all that follows is not done, the device is lost, and nobody
    /// learns of it before the moment given. On a device whose streams do not queue, it fails at once.
    pub late_at: Option<(Call, u64, Late)>,
    /// The launch from which on no event completes until the next [`Sim::set`]. Only on a device whose streams queue.
    pub hang_at_launch: Option<u64>,
    /// How long every copy takes in real time: those of one stream one after the other, those of several at once. On a device whose
    /// streams queue, whoever queues the copy does not wait.
    pub copy_delay: Duration,
}

#[derive(Default)]
struct State {
    faults: Faults,
    counts: [u64; CALLS],
    lost: bool,
    /// How often the device was repaired: what was queued in an earlier life says nothing of this one.
    life: u64,
    /// Queued work has failed, and this is when it shows.
    doomed: Option<Late>,
    hanging: bool,
    /// Events that somebody awaits while the device hangs.
    awaited: Vec<Event>,
    clock: Duration,
}

#[derive(Default)]
struct Controls {
    state: Mutex<State>,
    changed: Condvar,
}

/// The controls of a simulated device. Cheap to clone; clones control the same device.
#[derive(Clone, Default)]
pub struct Sim(Arc<Controls>);

impl Sim {
    /// Controls for a device without faults.
    pub fn new() -> Sim {
        Sim::default()
    }

    /// Sets what shall go wrong, and counts from 0 again. A lost device stays lost; one that hangs goes on.
    pub fn set(&self, faults: Faults) {
        let awaited = {
            let mut s = self.state();
            let (lost, life, doomed, clock) = (s.lost, s.life, s.doomed, s.clock);
            std::mem::replace(&mut *s, State { faults, lost, life, doomed, clock, ..State::default() }).awaited
        };
        self.0.changed.notify_all();
        for event in awaited {
            if self.state().doomed.is_some() { event.fail(self.lose()) } else { event.signal() }
        }
    }

    /// The virtual time that has passed.
    pub fn clock(&self) -> Duration {
        self.state().clock
    }

    /// How many calls of a kind there were since the last [`Sim::set`].
    pub fn calls(&self, call: Call) -> u64 {
        self.state().counts[call as usize]
    }

    /// How many launches there were since the last [`Sim::set`].
    pub fn launches(&self) -> u64 {
        self.calls(Call::Launch)
    }

    /// How many copies there were since the last [`Sim::set`].
    pub fn copies(&self) -> u64 {
        self.calls(Call::Copy)
    }

    /// Makes the device usable again after a loss: what opening it again finds.
    pub fn repair(&self) {
        let mut s = self.state();
        (s.lost, s.doomed) = (false, None);
        s.life += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    fn alive(&self) -> Result<()> {
        if self.state().lost { Err(lost()) } else { Ok(()) }
    }

    /// The device is lost by what was queued earlier.
    fn lose(&self) -> Error {
        self.state().lost = true;
        stream::lost_late()
    }

    /// Waits as long as the device hangs, but not beyond `end`; whether it hangs no more.
    fn wait_while_hanging(&self, end: Option<Instant>) -> bool {
        let mut s = self.state();
        while s.hanging {
            match end {
                Some(end) if self.0.changed.wait_until(&mut s, end).timed_out() => return !s.hanging,
                Some(_) => {}
                None => self.0.changed.wait(&mut s),
            }
        }
        true
    }

    /// Counts a call; says whether its work is to be done, or what goes wrong.
    fn enter(&self, call: Call, bytes: usize, queued: bool) -> Result<bool> {
        self.alive()?;
        let mut s = self.state();
        s.counts[call as usize] += 1;
        let n = s.counts[call as usize];
        let f = &s.faults;
        let short = match call {
            Call::Alloc => f.out_of_memory_at.is_some_and(|from| n >= from),
            Call::Compile => f.compile_error_at == Some(n),
            Call::Copy => f.copy_error_at == Some(n),
            _ => false,
        };
        let fails = short || f.errors_at.as_ref().is_some_and(|(kind, range)| *kind == call && range.contains(&n));
        let late = f.late_at.filter(|(kind, at, _)| *kind == call && *at == n).map(|(.., when)| when);
        let gone = f.lost_at == Some((call, n)) || call == Call::Launch && f.lost_at_launch == Some(n);
        let hangs = call == Call::Launch && f.hang_at_launch == Some(n) && queued;
        if gone || late.is_some() && !queued {
            s.lost = true;
            return Err(lost());
        }
        s.doomed = s.doomed.or(late);
        s.hanging |= hangs;
        if fails {
            return Err(failure(call, bytes));
        }
        Ok(s.doomed.is_none())
    }

    fn pass(&self, seconds: f64) {
        let mut s = self.state();
        s.clock += Duration::try_from_secs_f64(seconds).unwrap_or_default();
    }
}

fn lost() -> Error {
    Error::device_lost("the simulated device was told to get lost").with_code(-1)
}

/// The error of a call that fails without loss of the device.
fn failure(call: Call, bytes: usize) -> Error {
    match call {
        Call::Alloc => {
            let fault = Fault::OutOfMemory { device: "sim".into(), bytes, in_use: 0, reserved: 0 };
            Error::new(ErrorKind::OutOfMemory, fault)
        }
        Call::Compile => Error::compile("the simulated compiler was told to fail").with_code(-3),
        Call::Copy => Error::launch("the simulated copy was told to fail").with_code(-2),
        Call::Launch => Error::launch("the simulated launch was told to fail").with_code(-4),
        Call::Stream => Error::launch("the simulated stream was told to fail").with_code(-5),
        Call::Measure => Error::launch("the simulated measurement was told to fail").with_code(-6),
        Call::Capture => Error::launch("the simulated capture was told to fail").with_code(-7),
        Call::Replay => Error::launch("the simulated replay was told to fail").with_code(-8),
    }
}

/// The family of a simulated device, `sim`, over a device of another family; `sim:1` and so on are further ones, which reach
/// one another's memory, under controls of their own ([`SimFamily::beside`]) or under the same.
pub struct SimFamily {
    inner: Arc<dyn DeviceFamily>,
    name: String,
    sim: Sim,
    beside: Vec<Sim>,
    queued: bool,
    speed: f64,
    refuses: Refuses,
}

/// The reason for which an operation is refused, if it is.
type Refuses = Arc<dyn Fn(&Op) -> Option<String> + Send + Sync>;

impl SimFamily {
    /// Wraps the device of that name.
    pub fn new(inner: impl DeviceFamily, name: &str, sim: &Sim) -> SimFamily {
        SimFamily {
            inner: Arc::new(inner),
            name: name.into(),
            sim: sim.clone(),
            beside: Vec::new(),
            queued: false,
            speed: 1.0,
            refuses: Arc::new(|_| None),
        }
    }

    /// Claims to be so many times as fast as the wrapped device, in all that the cost model looks at.
    pub fn with_speed(self, factor: f64) -> SimFamily {
        SimFamily { speed: factor, ..self }
    }

    /// Controls of its own for the next device: `sim:1`, then `sim:2`, ...
    pub fn beside(mut self, sim: &Sim) -> SimFamily {
        self.beside.push(sim.clone());
        self
    }

    /// Streams that queue: work is over when its event says so, as on an accelerator.
    pub fn queued(self) -> SimFamily {
        SimFamily { queued: true, ..self }
    }

    /// Refuses the operations for which this gives a reason.
    pub fn refusing(self, reason: impl Fn(&Op) -> Option<String> + Send + Sync + 'static) -> SimFamily {
        SimFamily { refuses: Arc::new(reason), ..self }
    }
}

impl DeviceFamily for SimFamily {
    fn list(&self) -> Result<Vec<String>> {
        let further = (1..=self.beside.len()).map(|i| format!("sim:{i}"));
        Ok(std::iter::once("sim".to_string()).chain(further).collect())
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    fn open(&self, name: &str) -> Opening {
        let (inner, wrapped, sim, name) = (self.inner.clone(), self.name.clone(), self.control(name), name.to_string());
        let (speed, refuses, queued) = (self.speed, self.refuses.clone(), self.queued);
        Box::pin(async move {
            if name != "sim" && !name.starts_with("sim:") {
                return Err(Error::no_device(format!("there is no device {name:?}; the simulated one is called sim")));
            }
            sim.alive()?;
            let backend: Arc<dyn Backend> =
                Arc::new(SimBackend { inner: inner.open(&wrapped).await?, sim, queued, speed, refuses });
            Ok(backend)
        })
    }
}

impl SimFamily {
    /// The controls of the device of that name.
    fn control(&self, name: &str) -> Sim {
        let number = name.strip_prefix("sim:").and_then(|n| n.parse::<usize>().ok());
        number.and_then(|n| self.beside.get(n.wrapping_sub(1))).unwrap_or(&self.sim).clone()
    }
}

struct SimBackend {
    inner: Arc<dyn Backend>,
    sim: Sim,
    queued: bool,
    speed: f64,
    refuses: Refuses,
}

/// The wrapped device's memory behind a piece of simulated memory.
fn unwrap(memory: &RawMemory) -> Result<&RawMemory> {
    let inner = memory.owner.as_ref().and_then(|o| o.downcast_ref::<RawMemory>());
    inner.ok_or_else(|| Error::internal("memory of another device was given to sim"))
}

impl Backend for SimBackend {
    fn profile(&self) -> DeviceProfile {
        let mut profile = self.inner.profile();
        profile.description = format!("simulated {}", profile.description);
        profile.levels.iter_mut().for_each(|l| l.bandwidth *= self.speed);
        profile.rates.iter_mut().for_each(|(_, rate)| *rate *= self.speed);
        profile.launch /= self.speed;
        profile.transfer.bandwidth *= self.speed;
        profile.transfer.latency /= self.speed;
        profile
    }

    fn measure(&self) -> Result<DeviceProfile> {
        self.sim.enter(Call::Measure, 0, self.queued)?;
        // Simulated rates are estimates by nature: nothing to measure.
        Ok(DeviceProfile { measured: true, ..self.profile() })
    }

    fn alloc(&self, bytes: usize, kind: MemoryKind) -> Result<RawMemory> {
        self.sim.enter(Call::Alloc, bytes, self.queued)?;
        let inner = self.inner.alloc(bytes, kind)?;
        // Unified memory is the one kind that the host may address.
        let host = if kind == MemoryKind::Unified { inner.host } else { None };
        Ok(RawMemory { address: inner.address, bytes, host, owner: Some(Arc::new(inner)) })
    }

    fn free(&self, memory: RawMemory) {
        if let Ok(inner) = unwrap(&memory) {
            self.inner.free(inner.clone());
        }
    }

    fn import(&self, _host: &RawMemory) -> Option<RawMemory> {
        None
    }

    fn copy(&self, from: MemoryAt<'_>, to: MemoryAt<'_>, bytes: usize, stream: &dyn BackendStream) -> Result<()> {
        if !self.sim.enter(Call::Copy, bytes, self.queued)? {
            return Ok(());
        }
        let delay = self.sim.state().faults.copy_delay;
        match stream.as_any().downcast_ref::<stream::SimStream>() {
            Some(queue) if !delay.is_zero() => queue.delay(delay)?,
            _ => std::thread::sleep(delay),
        }
        let transfer = self.profile().transfer;
        self.sim.pass(transfer.latency + bytes as f64 / transfer.bandwidth.max(1.0));
        fn inside(at: MemoryAt<'_>) -> Result<MemoryAt<'_>> {
            Ok(match at {
                MemoryAt::Here(memory, offset) => MemoryAt::Here(unwrap(memory)?, offset),
                // What another simulated device has is memory of a wrapped device, too.
                MemoryAt::Peer(memory, offset) => MemoryAt::Host(unwrap(memory)?, offset),
                host => host,
            })
        }
        self.inner.copy(inside(from)?, inside(to)?, bytes, stream::wrapped(stream))
    }

    fn stream(&self, id: StreamId, priority: Priority) -> Result<Arc<dyn BackendStream>> {
        self.sim.enter(Call::Stream, 0, self.queued)?;
        let inner = self.inner.stream(id, priority)?;
        Ok(if self.queued { Arc::new(stream::SimStream::new(inner, self.sim.clone())) } else { inner })
    }

    fn peer(&self, other: &DeviceProfile) -> Support {
        match other.description.starts_with("simulated ") {
            true => Support::Native,
            false => Support::No("it is no simulated device".into()),
        }
    }

    fn supports(&self, op: &Op) -> Support {
        match (self.refuses)(op) {
            Some(reason) => Support::No(reason),
            None => self.inner.supports(op),
        }
    }

    fn variants(&self, op: &Op) -> Vec<Candidate> {
        self.inner.variants(op)
    }

    fn compile(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        self.sim.enter(Call::Compile, 0, self.queued)?;
        self.kernel(op, variant)
    }

    fn capture(
        &self,
        stream: &dyn BackendStream,
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Box<dyn Captured>>> {
        recording::capture(&self.sim, stream, work)
    }

    fn load(&self, op: &Op, variant: &Variant, bytes: &[u8]) -> Result<Arc<dyn Kernel>> {
        self.sim.alive()?;
        let kernel = self.kernel(op, variant)?;
        if kernel.bytes().as_deref() == Some(bytes) {
            Ok(kernel)
        } else {
            Err(Error::compile("another kernel's binary"))
        }
    }
}

impl SimBackend {
    fn kernel(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        let inner = self.inner.compile(op, variant)?;
        Ok(Arc::new(SimKernel {
            inner,
            backend: self.inner.clone(),
            variant: variant.clone(),
            profile: Arc::new(self.profile()),
            sim: self.sim.clone(),
        }))
    }
}

struct SimKernel {
    inner: Arc<dyn Kernel>,
    backend: Arc<dyn Backend>,
    variant: Variant,
    profile: Arc<DeviceProfile>,
    sim: Sim,
}

impl Kernel for SimKernel {
    fn bytes(&self) -> Option<Vec<u8>> {
        // A stand-in for a binary that tells one kernel from another.
        Some(stable_hash(format!("{} {}", self.variant, self.inner.text()).as_bytes()).to_le_bytes().to_vec())
    }

    fn text(&self) -> String {
        self.inner.text()
    }

    fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Arc<dyn Launch>> {
        let all = self.backend.variants(op);
        let this = all.iter().find(|c| c.variant == self.variant && c.schedule == *schedule);
        let seconds = cost(op, this.map(|c| &c.traffic), &self.profile).seconds;
        Ok(Arc::new(SimLaunch { inner: self.inner.prepare(op, schedule)?, seconds, sim: self.sim.clone() }))
    }
}

#[derive(Clone)]
struct SimLaunch {
    inner: Arc<dyn Launch>,
    seconds: f64,
    sim: Sim,
}

impl Launch for SimLaunch {
    fn workspace(&self) -> usize {
        self.inner.workspace()
    }

    fn run(&self, bindings: &Bindings<'_>, stream: &dyn BackendStream) -> Result<()> {
        let own = stream.as_any().downcast_ref::<stream::SimStream>();
        if let Some(own) = own
            && let Some(list) = own.recording.lock().as_mut()
        {
            list.push(recording::Recorded::new(self, bindings));
            return self.sim.alive();
        }
        if !self.sim.enter(Call::Launch, 0, own.is_some())? {
            return Ok(());
        }
        self.queue(bindings, stream)
    }
}

impl SimLaunch {
    /// Lets the wrapped device do it.
    fn queue(&self, bindings: &Bindings<'_>, stream: &dyn BackendStream) -> Result<()> {
        fn inside<'a>(b: &Binding<'a>) -> Result<Binding<'a>> {
            Ok(Binding { memory: unwrap(b.memory)?, ..*b })
        }
        let inputs = bindings.inputs.iter().map(inside).collect::<Result<Vec<_>>>()?;
        let outputs = bindings.outputs.iter().map(inside).collect::<Result<Vec<_>>>()?;
        let workspace = bindings.workspace.as_ref().map(inside).transpose()?;
        let bindings = Bindings { inputs: &inputs, outputs: &outputs, workspace, ..*bindings };
        self.inner.run(&bindings, stream::wrapped(stream))?;
        self.sim.pass(self.seconds);
        Ok(())
    }
}
