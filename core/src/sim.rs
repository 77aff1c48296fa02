//! `sim`: a device that wraps another one, with a virtual clock and faults on demand. For tests.
//!
//! Work is done by the wrapped device; memory is given out as if the host could not address it, so that every value has to be
//! moved there and back as with a real accelerator. [`Faults`] says what shall go wrong and when; the clock adds up what the
//! cost model says that launches and copies would have taken.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::{
    Backend, BackendStream, Binding, Bindings, Family, Kernel, Launch, Opening, Place, Priority, Support,
};
use crate::cache::stable_hash;
use crate::error::{Error, ErrorKind, Fault, Result};
use crate::how::{Candidate, DeviceProfile, Schedule, Variant, cost};
use crate::memory::{MemoryKind, RawMemory, StreamId};
use crate::what::Op;

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
    /// How long every copy takes in real time.
    pub copy_delay: Duration,
}

#[derive(Default)]
struct State {
    faults: Faults,
    allocations: u64,
    compiles: u64,
    launches: u64,
    copies: u64,
    lost: bool,
    clock: Duration,
}

/// The controls of a simulated device. Cheap to clone; clones control the same device.
#[derive(Clone, Default)]
pub struct Sim(Arc<Mutex<State>>);

impl Sim {
    /// Controls for a device without faults.
    pub fn new() -> Sim {
        Sim::default()
    }

    /// Sets what shall go wrong, and counts from 0 again. A lost device stays lost.
    pub fn set(&self, faults: Faults) {
        let mut s = self.0.lock();
        let (lost, clock) = (s.lost, s.clock);
        *s = State { faults, lost, clock, ..State::default() };
    }

    /// The virtual time that has passed.
    pub fn clock(&self) -> Duration {
        self.0.lock().clock
    }

    /// How many launches there were since the last [`Sim::set`].
    pub fn launches(&self) -> u64 {
        self.0.lock().launches
    }

    /// How many copies there were since the last [`Sim::set`].
    pub fn copies(&self) -> u64 {
        self.0.lock().copies
    }

    /// Makes the device usable again after a loss: what opening it again finds.
    pub fn repair(&self) {
        self.0.lock().lost = false;
    }

    fn alive(&self) -> Result<()> {
        if self.0.lock().lost { Err(lost()) } else { Ok(()) }
    }

    fn pass(&self, seconds: f64) {
        let mut s = self.0.lock();
        s.clock += Duration::try_from_secs_f64(seconds).unwrap_or_default();
    }
}

fn lost() -> Error {
    Error::device_lost("the simulated device was told to get lost").with_code(-1)
}

/// The family of a simulated device, `sim`, over a device of another family; `sim:1` and so on are further ones under the same
/// controls, which reach one another's memory.
pub struct SimFamily {
    inner: Arc<dyn Family>,
    name: String,
    sim: Sim,
    speed: f64,
    refuses: Refuses,
}

/// The reason for which an operation is refused, if it is.
type Refuses = Arc<dyn Fn(&Op) -> Option<String> + Send + Sync>;

impl SimFamily {
    /// Wraps the device of that name.
    pub fn new(inner: impl Family, name: &str, sim: &Sim) -> SimFamily {
        SimFamily {
            inner: Arc::new(inner),
            name: name.into(),
            sim: sim.clone(),
            speed: 1.0,
            refuses: Arc::new(|_| None),
        }
    }

    /// Claims to be so many times as fast as the wrapped device, in all that the cost model looks at.
    pub fn with_speed(self, factor: f64) -> SimFamily {
        SimFamily { speed: factor, ..self }
    }

    /// Refuses the operations for which this gives a reason.
    pub fn refusing(self, reason: impl Fn(&Op) -> Option<String> + Send + Sync + 'static) -> SimFamily {
        SimFamily { refuses: Arc::new(reason), ..self }
    }
}

impl Family for SimFamily {
    fn list(&self) -> Result<Vec<String>> {
        Ok(vec!["sim".into()])
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    fn open(&self, name: &str) -> Opening {
        let (inner, wrapped, sim, name) = (self.inner.clone(), self.name.clone(), self.sim.clone(), name.to_string());
        let (speed, refuses) = (self.speed, self.refuses.clone());
        Box::pin(async move {
            if name != "sim" && !name.starts_with("sim:") {
                return Err(Error::no_device(format!("there is no device {name:?}; the simulated one is called sim")));
            }
            sim.alive()?;
            let backend: Arc<dyn Backend> =
                Arc::new(SimBackend { inner: inner.open(&wrapped).await?, sim, speed, refuses });
            Ok(backend)
        })
    }
}

struct SimBackend {
    inner: Arc<dyn Backend>,
    sim: Sim,
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
        self.sim.alive()?;
        // Simulated rates are estimates by nature: nothing to measure.
        Ok(DeviceProfile { measured: true, ..self.profile() })
    }

    fn alloc(&self, bytes: usize, kind: MemoryKind) -> Result<RawMemory> {
        self.sim.alive()?;
        {
            let mut s = self.sim.0.lock();
            s.allocations += 1;
            if s.faults.out_of_memory_at.is_some_and(|n| s.allocations >= n) {
                let fault = Fault::OutOfMemory { device: "sim".into(), bytes, in_use: 0, reserved: 0 };
                return Err(Error::new(ErrorKind::OutOfMemory, fault));
            }
        }
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

    fn copy(&self, from: Place<'_>, to: Place<'_>, bytes: usize, stream: &dyn BackendStream) -> Result<()> {
        self.sim.alive()?;
        let delay = {
            let mut s = self.sim.0.lock();
            s.copies += 1;
            if s.faults.copy_error_at == Some(s.copies) {
                return Err(Error::launch("the simulated copy was told to fail").with_code(-2));
            }
            s.faults.copy_delay
        };
        std::thread::sleep(delay);
        let transfer = self.profile().transfer;
        self.sim.pass(transfer.latency + bytes as f64 / transfer.bandwidth.max(1.0));
        fn inside(place: Place<'_>) -> Result<Place<'_>> {
            Ok(match place {
                Place::Here(memory, offset) => Place::Here(unwrap(memory)?, offset),
                // What another simulated device has is memory of a wrapped device, too.
                Place::Peer(memory, offset) => Place::Host(unwrap(memory)?, offset),
                host => host,
            })
        }
        self.inner.copy(inside(from)?, inside(to)?, bytes, stream)
    }

    fn stream(&self, id: StreamId, priority: Priority) -> Result<Arc<dyn BackendStream>> {
        self.sim.alive()?;
        self.inner.stream(id, priority)
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
        self.sim.alive()?;
        {
            let mut s = self.sim.0.lock();
            s.compiles += 1;
            if s.faults.compile_error_at == Some(s.compiles) {
                return Err(Error::compile("the simulated compiler was told to fail").with_code(-3));
            }
        }
        self.kernel(op, variant)
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
        self.sim.alive()?;
        {
            let mut s = self.sim.0.lock();
            s.launches += 1;
            if s.faults.lost_at_launch == Some(s.launches) {
                s.lost = true;
                return Err(lost());
            }
        }
        fn inside<'a>(b: &Binding<'a>) -> Result<Binding<'a>> {
            Ok(Binding { memory: unwrap(b.memory)?, ..*b })
        }
        let inputs = bindings.inputs.iter().map(inside).collect::<Result<Vec<_>>>()?;
        let outputs = bindings.outputs.iter().map(inside).collect::<Result<Vec<_>>>()?;
        let workspace = bindings.workspace.as_ref().map(inside).transpose()?;
        self.inner.run(&Bindings { inputs: &inputs, outputs: &outputs, workspace, ..*bindings }, stream)?;
        self.sim.pass(self.seconds);
        Ok(())
    }
}
