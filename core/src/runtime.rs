//! The runtime: which devices there are, and what they share.
//!
//! A [`Runtime`] is given families of devices and opens a device at its first use; a program that only uses the CPU never
//! pays for another family. It owns the profiler, the error log and the disk cache that its devices share.

use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::backend::DeviceFamily;
use crate::cache::DiskCache;
use crate::device::Device;
use crate::error::{Error, ErrorKind, ErrorLog, Result};
use crate::event::block_on;
use crate::exit::{self, AtExit};
use crate::how::cost;
use crate::profiler::Profiler;
use crate::what::{Access, Binary, Contract, DType, Expr, ExprBuilder, Op};

/// The name of the device that stands for all others.
const AUTO: &str = "auto";

/// What devices are compared by: a sum of two large vectors, and a large matmul.
fn probes() -> Result<Vec<Op>> {
    let f32s = |strides: &[isize]| Access::new(DType::F32, strides);
    let mut sum = ExprBuilder::new();
    let (x, y) = (sum.input(0, DType::F32), sum.input(1, DType::F32));
    let total = sum.binary(Binary::Add, x, y)?;
    let sum = Op::map(&[1 << 24], vec![f32s(&[1]), f32s(&[1])], vec![f32s(&[1])], sum.finish(&[total]))?;
    let mut right = ExprBuilder::new();
    let second = right.input(1, DType::F32);
    let contract = Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: Expr::input(DType::F32),
        rhs: right.finish(&[second]),
        acc: DType::F32,
        epilogue: Expr::acc(DType::F32),
        accuracy: Default::default(),
    };
    let inputs = vec![f32s(&[1024, 0, 1]), f32s(&[0, 1, 1024])];
    let matmul = Op::contract(&[1024, 1024, 1024], inputs, vec![f32s(&[1024, 1, 0])], contract)?;
    Ok(vec![sum, matmul])
}

/// The ideas that make Millstream fast. Each can be switched off to show what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Idea {
    /// Intermediate values never leave the fastest level.
    Fuse = 1,
    /// Blocks fitted to the problem and to each level of memory.
    Tile = 2,
    /// Launches prepared once.
    Ring = 4,
    /// Plans of several steps queued in one call, where the device has that.
    Capture = 8,
    /// Kernels of a vendor's library beside our own, where it has some.
    Library = 16,
    /// Intermediate values stored in the order that suits what computes and reads them.
    Layout = 32,
}

impl Idea {
    /// All of them.
    pub const ALL: [Idea; 6] = [Idea::Fuse, Idea::Tile, Idea::Ring, Idea::Capture, Idea::Library, Idea::Layout];

    /// The name that the command line takes.
    pub const fn name(self) -> &'static str {
        match self {
            Idea::Fuse => "fuse",
            Idea::Tile => "tile",
            Idea::Ring => "ring",
            Idea::Capture => "capture",
            Idea::Library => "cublas",
            Idea::Layout => "layout",
        }
    }
}

impl std::str::FromStr for Idea {
    type Err = Error;

    fn from_str(text: &str) -> Result<Idea> {
        Idea::ALL.into_iter().find(|i| i.name() == text).ok_or_else(|| {
            let names: Vec<_> = Idea::ALL.iter().map(|i| i.name()).collect();
            Error::argument(format!("there is no idea {text:?}")).suggest(format!("one of {}", names.join(", ")))
        })
    }
}

/// Which ideas are in use.
#[derive(Debug)]
pub(crate) struct Ideas(AtomicU8);

impl Ideas {
    pub(crate) fn has(&self, idea: Idea) -> bool {
        self.0.load(Ordering::Relaxed) & idea as u8 != 0
    }
}

/// What the devices of a runtime share.
pub(crate) struct Shared {
    pub profiler: Profiler,
    pub errors: ErrorLog,
    pub disk: DiskCache,
    pub ideas: Ideas,
    /// See [`Runtime::set_rank`].
    pub rank: AtomicUsize,
    pub attachment: OnceLock<Box<dyn Attachment>>,
    /// The most bytes that each device's pool takes.
    pub memory_limit: usize,
}

/// What the layer above keeps in a runtime for all of its devices: its plans.
pub trait Attachment: Any + Send + Sync {
    /// Forgets everything. Called when the runtime goes, because what is cached may hold memory, and so devices, and so this.
    fn clear(&self);
}

impl Shared {
    /// Says once, in the profile, that the disk cache does not work.
    pub fn tell_disk_trouble(&self) {
        if let Some(trouble) = self.disk.take_warning() {
            self.profiler.warn(trouble);
        }
    }
}

struct Inner {
    families: Vec<Box<dyn DeviceFamily>>,
    devices: Mutex<Vec<Device>>,
    shared: Arc<Shared>,
    /// The file for a trace of all that ran, until it is written.
    trace: Mutex<Option<PathBuf>>,
}

impl Inner {
    fn write_trace(&self) -> Result<()> {
        let Some(path) = self.trace.lock().take() else { return Ok(()) };
        let profiler = &self.shared.profiler;
        profiler.stop();
        let file = File::create(&path).map_err(|e| Error::io(path.display().to_string(), e))?;
        profiler.chrome_trace(BufWriter::new(file))
    }
}

impl AtExit for Inner {
    fn at_exit(&self) {
        if let Err(error) = self.write_trace() {
            // Nobody is left to whom the error could be returned.
            eprintln!("the trace was not written: {error}");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.at_exit();
        if let Some(attachment) = self.shared.attachment.get() {
            attachment.clear();
        }
    }
}

/// Devices and what they share. Cheap to clone; clones are the same runtime.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

/// Gathers what a runtime is made of.
pub struct RuntimeBuilder {
    families: Vec<Box<dyn DeviceFamily>>,
    cache: Option<PathBuf>,
    threads: Option<usize>,
    memory_limit: usize,
    trace: Option<PathBuf>,
}

impl RuntimeBuilder {
    /// Adds a family of devices. The first one added that is called `cpu` is the host.
    pub fn family(mut self, family: impl DeviceFamily) -> RuntimeBuilder {
        self.families.push(Box::new(family));
        self
    }

    /// Keeps kernels and profiles in this folder instead of the one that `MILLSTREAM_CACHE` or the system names.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> RuntimeBuilder {
        self.cache = Some(folder.into());
        self
    }

    /// Computes on so many of the host's threads, the caller's included, instead of as many as `MILLSTREAM_THREADS` says or there are
    /// cores. A number that makes no sense is an error when the device is opened.
    pub fn threads(mut self, threads: usize) -> RuntimeBuilder {
        self.threads = Some(threads);
        self
    }

    /// Takes at most so many bytes of each device's memory, the host's included; what needs more is an error of the kind
    /// `OutOfMemory`. [`Pool::set_limit`](crate::pool::Pool::set_limit) changes that of one device.
    pub fn memory_limit(mut self, bytes: usize) -> RuntimeBuilder {
        self.memory_limit = bytes;
        self
    }

    /// Records all that runs, and writes it to this file, for Perfetto or `chrome://tracing`, when the last handle of the runtime is
    /// dropped or the program ends; or before, by [`Runtime::write_trace`].
    pub fn trace(mut self, file: impl Into<PathBuf>) -> RuntimeBuilder {
        self.trace = Some(file.into());
        self
    }

    /// The runtime. Opens nothing yet.
    pub fn build(mut self) -> Runtime {
        if let Some(threads) = self.threads {
            self.families.iter_mut().for_each(|f| f.set_threads(threads));
        }
        let shared = Shared {
            profiler: Profiler::default(),
            errors: ErrorLog::default(),
            disk: DiskCache::open(self.cache, DiskCache::DEFAULT_LIMIT),
            ideas: Ideas(AtomicU8::new(u8::MAX)),
            rank: AtomicUsize::new(0),
            attachment: OnceLock::new(),
            memory_limit: self.memory_limit,
        };
        if self.trace.is_some() {
            shared.profiler.start();
        }
        Runtime(Arc::new(Inner {
            families: self.families,
            devices: Mutex::new(Vec::new()),
            shared: Arc::new(shared),
            trace: Mutex::new(self.trace),
        }))
    }
}

impl Runtime {
    /// Begins a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder { families: Vec::new(), cache: None, threads: None, memory_limit: usize::MAX, trace: None }
    }

    /// The device of that name, opened if need be; `auto` is [`Runtime::auto`], `best` is [`Runtime::best`].
    pub fn device(&self, name: &str) -> Result<Device> {
        if name == "best" { self.best() } else { block_on(self.open(name)) }
    }

    /// The device of that name, for programs that must not block.
    pub async fn open(&self, name: &str) -> Result<Device> {
        if let Some(device) = self.find(name) {
            return Ok(device);
        }
        if name == AUTO {
            return self.open_auto().await;
        }
        let family = name.split(':').next().unwrap_or(name);
        let errors = &self.0.shared.errors;
        let wrong = |e: Error| errors.note(if e.kind() == ErrorKind::NoDevice { self.advised(e) } else { e });
        let family = self.0.families.iter().find(|f| f.name() == family);
        let family = family.ok_or_else(|| wrong(Error::no_device(format!("there is no device {name:?}"))))?;
        let host = if name == "cpu" { None } else { Some(Box::pin(self.open("cpu")).await?) };
        let backend = family.open(name).await.map_err(wrong)?;
        if self.0.trace.lock().is_some() {
            let inner: Weak<Inner> = Arc::downgrade(&self.0);
            exit::register(inner);
        }
        let mut devices = self.0.devices.lock();
        // Another thread may have opened it meanwhile: then that one is the device.
        if let Some(device) = devices.iter().find(|d| d.name() == name && !d.is_lost()) {
            return Ok(device.clone());
        }
        devices.retain(|d| d.name() != name);
        let device = Device::new(name, backend, host, self.0.shared.clone())?;
        devices.push(device.clone());
        Ok(device)
    }

    /// The error of a device that is not there, with the names of those that are.
    fn advised(&self, error: Error) -> Error {
        let there = self.list().into_iter().filter_map(|(name, there)| there.is_ok().then_some(name));
        let there = format!("this machine has {}", there.collect::<Vec<_>>().join(", "));
        match error.own_suggestion() {
            Some(text) => {
                let text = format!("{text}; {there}");
                error.suggest(text)
            }
            None => error.suggest(there + "; `millstream devices` says why not others"),
        }
    }

    /// A device that stands for all of them: each computation goes to the one on which it is done the soonest by the cost
    /// model, the moves of its inputs included, and to the next one if that fails. Also to be had by the name `auto`.
    pub fn auto(&self) -> Result<Device> {
        self.device(AUTO)
    }

    async fn open_auto(&self) -> Result<Device> {
        let host = Box::pin(self.open("cpu")).await?;
        let mut devices = vec![host.clone()];
        for (name, there) in self.list() {
            // A device that cannot be opened is no candidate; `millstream devices` says why.
            if there.is_ok()
                && name != "cpu"
                && let Ok(device) = Box::pin(self.open(&name)).await
            {
                devices.push(device);
            }
        }
        let device = Device::standing_for(AUTO, devices, host, self.0.shared.clone())?;
        self.0.devices.lock().push(device.clone());
        Ok(device)
    }

    /// Of all devices that can be opened, the one that the cost model finds the fastest for large matmuls and sums.
    pub fn best(&self) -> Result<Device> {
        let probes = probes()?;
        let auto = self.auto()?;
        let seconds = |d: &Device| probes.iter().map(|op| cost(op, None, &d.profile()).seconds).sum::<f64>();
        let mut best: Option<(f64, Device)> = None;
        for device in auto.candidates().iter().filter(|d| !d.is_lost()) {
            let own = seconds(device);
            if best.as_ref().is_none_or(|(least, _)| own < *least) {
                best = Some((own, device.clone()));
            }
        }
        best.map(|(_, device)| device).ok_or_else(|| Error::no_device("no device can be opened"))
    }

    /// The host's processor.
    pub fn host(&self) -> Result<Device> {
        self.device("cpu")
    }

    /// The device that programs get which name none: the one that `MILLSTREAM_DEVICE` names, else the host.
    pub fn default_device(&self) -> Result<Device> {
        match std::env::var("MILLSTREAM_DEVICE") {
            Ok(name) if !name.is_empty() => self.device(&name),
            _ => self.host(),
        }
    }

    /// Every device of this machine by name, or why a family has none. Opens nothing.
    pub fn list(&self) -> Vec<(String, Result<()>)> {
        let mut out = Vec::new();
        for family in &self.0.families {
            match family.list() {
                Ok(names) => out.extend(names.into_iter().map(|n| (n, Ok(())))),
                Err(e) => out.push((family.name().to_string(), Err(e))),
            }
        }
        out
    }

    /// Writes the trace that [`RuntimeBuilder::trace`] asked for, now instead of at the end. Records no more.
    pub fn write_trace(&self) -> Result<()> {
        self.0.write_trace()
    }

    /// Gives back what is only kept for speed: forgets all plans, with the memory that they hold, and returns memory that no tensor uses
    /// to the devices. Gives the bytes returned. What is computed next is planned anew and takes memory anew.
    pub fn empty_cache(&self) -> usize {
        if let Some(attachment) = self.0.shared.attachment.get() {
            attachment.clear();
        }
        let devices = self.0.devices.lock().clone();
        devices.iter().map(|d| d.pool().trim(0)).sum()
    }

    /// The profiler of all its devices.
    pub fn profiler(&self) -> &Profiler {
        &self.0.shared.profiler
    }

    /// The errors seen so far.
    pub fn errors(&self) -> &ErrorLog {
        &self.0.shared.errors
    }

    /// The cache on disk.
    pub fn disk(&self) -> &DiskCache {
        &self.0.shared.disk
    }

    /// Switches an idea off or on again. Plans made before stay as they were made.
    pub fn set_idea(&self, idea: Idea, on: bool) {
        let flags = &self.0.shared.ideas.0;
        if on {
            flags.fetch_or(idea as u8, Ordering::Relaxed);
        } else {
            flags.fetch_and(!(idea as u8), Ordering::Relaxed);
        }
    }

    /// Lets devices compute each operation in the way that comes at this place when the cost model puts all ways in order, from 0, the cheapest;
    /// operations that have fewer are computed in the cheapest. For measuring what the model's choice is worth. Plans made before stay as they
    /// were made.
    pub fn set_rank(&self, rank: usize) {
        self.0.shared.rank.store(rank, Ordering::Relaxed);
    }

    fn find(&self, name: &str) -> Option<Device> {
        self.0.devices.lock().iter().find(|d| d.name() == name && !d.is_lost()).cloned()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.devices.lock().iter()).finish()
    }
}

/// Whether an error means that another device could still do the work.
pub fn is_recoverable(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::OutOfMemory
            | ErrorKind::Compile
            | ErrorKind::Launch
            | ErrorKind::DeviceLost
            | ErrorKind::Unsupported
    )
}
