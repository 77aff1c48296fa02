//! The CPU as a device: core's `Backend` over the workers, the memory and the kernels of this crate.
//!
//! It computes every operation in every dtype. The first stream of a device is its default one and runs inline: its work
//! is finished when the call returns. Every further stream has a queue and a thread.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_core::backend::{Backend, BackendStream, DeviceFamily, Kernel, MemoryAt, Opening, Priority, Support};
use millstream_core::how::{self, Candidate, DeviceProfile, Variant, Walks};
use millstream_core::memory::{MemoryKind, RawMemory, StreamId};
use millstream_core::{Body, Error, Op, Result};

use crate::attention::AttentionKernel;
use crate::contract::{self, ContractKernel};
use crate::gather::GatherKernel;
use crate::host::HostKernel;
use crate::map::MapKernel;
use crate::measure;
use crate::memory::Memory;
use crate::profile;
use crate::rows::RowsKernel;
use crate::scan::ScanKernel;
use crate::simd::Isa;
use crate::stream::{Command, CopyRange, InlineStream, QueuedStream};
use crate::topology::{self, Topology};
use crate::workers::Workers;

/// The most threads that a device takes; more is a mistake.
const MAX_THREADS: usize = 1024;

/// How a CPU device is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuOptions {
    /// Threads that compute, the caller's included. Left out: `MILLSTREAM_THREADS`, else every core the process may use.
    pub threads: Option<usize>,
    /// The instruction set. Left out: the best of the machine. Tests run on each.
    pub isa: Option<Isa>,
}

/// The family of one: the processor that the program runs on, named `cpu`.
#[derive(Clone, Debug, Default)]
pub struct CpuFamily {
    options: CpuOptions,
}

impl CpuFamily {
    /// A family whose device is opened with these options.
    pub fn new(options: CpuOptions) -> CpuFamily {
        CpuFamily { options }
    }
}

impl DeviceFamily for CpuFamily {
    fn list(&self) -> Result<Vec<String>> {
        Ok(vec!["cpu".into()])
    }

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn open(&self, name: &str) -> Opening {
        let opened = match name {
            "cpu" => CpuBackend::open(self.options).map(|b| Arc::new(b) as Arc<dyn Backend>),
            other => Err(Error::no_device(format!("there is no device {other:?}; the CPU's name is \"cpu\""))),
        };
        Box::pin(std::future::ready(opened))
    }

    fn set_threads(&mut self, threads: usize) {
        self.options.threads = Some(threads);
    }
}

/// What the kernels of one device share.
pub(crate) struct Machine {
    pub(crate) isa: Isa,
    pub(crate) topology: Topology,
    pub(crate) workers: Arc<Workers>,
    /// The profile that ways to compute an operation are compared by.
    pub(crate) reference: DeviceProfile,
    /// What walks over strided operands cost.
    pub(crate) walks: Walks,
    /// Elements of simple work that make a task.
    pub(crate) task: usize,
    /// The same in bytes, each read and written once.
    pub(crate) task_bytes: usize,
}

impl Machine {
    pub(crate) fn new(isa: Isa, topology: Topology, threads: usize) -> Machine {
        let (walks, reference) = (profile::WALKS, profile::reference(&topology, isa));
        // Most elements have four bytes; tasks are cut by shape, whatever the dtype.
        let (task, task_bytes) = (walks.task(size_of::<f32>()), walks.task(1));
        Machine { isa, topology, workers: Arc::new(Workers::new(threads)), reference, walks, task, task_bytes }
    }

    /// How many of `count` equal parts make a task, if each takes so many nanoseconds and no result depends on it: a task's worth, or
    /// down to a quarter of it as long as there are more threads than tasks.
    pub(crate) fn parts_of_task(&self, count: usize, each: f64) -> usize {
        let tasks = count as f64 * each / self.walks.task;
        let tasks = (4.0 * tasks).min(self.workers.threads() as f64).max(tasks).max(1.0);
        ((count as f64 / tasks).ceil() as usize).max(1)
    }
}

/// The CPU, opened.
pub struct CpuBackend {
    machine: Arc<Machine>,
    profile: DeviceProfile,
    memory: Memory,
    /// Whether the default stream was handed out.
    has_default: AtomicBool,
}

impl CpuBackend {
    /// Opens the CPU. A number of threads that makes no sense is an error of kind `Argument`, whoever gave it.
    pub fn open(options: CpuOptions) -> Result<CpuBackend> {
        let threads = match options.threads {
            Some(n @ 1..=MAX_THREADS) => n,
            Some(n) => return Err(Error::argument(format!("threads must be from 1 to {MAX_THREADS}, not {n}"))),
            None => topology::default_threads().map_err(Error::argument)?,
        };
        let isa = options.isa.unwrap_or_else(Isa::detect).or_portable();
        let topology = Topology::here().clone();
        let profile = profile::estimate(&topology, isa, threads);
        let machine = Machine::new(isa, topology, threads);
        Ok(CpuBackend {
            machine: Arc::new(machine),
            profile,
            memory: Memory::default(),
            has_default: AtomicBool::new(false),
        })
    }

    /// How many threads compute.
    pub fn threads(&self) -> usize {
        self.machine.workers.threads()
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.machine.isa
    }
}

impl Backend for CpuBackend {
    fn profile(&self) -> DeviceProfile {
        self.profile.clone()
    }

    fn reference_profile(&self) -> Option<&DeviceProfile> {
        Some(&self.machine.reference)
    }

    fn measure(&self) -> Result<DeviceProfile> {
        measure::measure(self.profile.clone(), self.machine.isa, &self.machine.workers)
    }

    fn alloc(&self, bytes: usize, _kind: MemoryKind) -> Result<RawMemory> {
        // Every kind is plain memory here: the host is the device.
        let block = self.memory.alloc(bytes)?;
        Ok(RawMemory { address: block.as_ptr() as u64, bytes, host: Some(block.into()), owner: None })
    }

    fn free(&self, memory: RawMemory) {
        if let Some(block) = memory.host.and_then(|host| NonNull::new(host.as_ptr())) {
            // SAFETY: the pool gives back what `alloc` gave it, once, when nobody uses it any more.
            unsafe { self.memory.free(block, memory.bytes) };
        }
    }

    fn import(&self, host: &RawMemory) -> Option<RawMemory> {
        host.host.is_some().then(|| host.clone())
    }

    fn copy(&self, from: MemoryAt<'_>, to: MemoryAt<'_>, bytes: usize, stream: &dyn BackendStream) -> Result<()> {
        let side = |place: MemoryAt<'_>| match place {
            MemoryAt::Here(memory, offset) | MemoryAt::Host(memory, offset) => Ok((memory.clone(), offset)),
            MemoryAt::Peer(..) => Err(Error::unsupported("the CPU does not address another device's memory")),
        };
        let ((from, from_offset), (to, to_offset)) = (side(from)?, side(to)?);
        let range = CopyRange { from, from_offset, to, to_offset, bytes };
        match stream.as_any().downcast_ref::<QueuedStream>() {
            Some(queued) => queued.push(Command::Copy(range)),
            None => range.execute(&self.machine.workers),
        }
    }

    fn stream(&self, id: StreamId, _priority: Priority) -> Result<Arc<dyn BackendStream>> {
        Ok(match self.has_default.swap(true, Ordering::Relaxed) {
            false => Arc::new(InlineStream::new(id)),
            true => Arc::new(QueuedStream::new(id, self.machine.workers.clone())),
        })
    }

    fn supports(&self, _op: &Op) -> Support {
        Support::Native
    }

    fn variants(&self, op: &Op) -> Vec<Candidate> {
        let plain = |name| vec![Candidate::plain(how::Family::new(name))];
        match &op.body {
            Body::Map(_) => plain("map"),
            Body::Rows { .. } => plain("rows"),
            Body::Gather(_) => plain("gather"),
            Body::Scan { .. } => plain("scan"),
            Body::Attention(_) => plain("attention"),
            Body::Contract(c) => contract::variants(op, c.acc, &self.machine),
            Body::Host(_) => plain("host"),
            _ => Vec::new(),
        }
    }

    fn compile(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        let machine = self.machine.clone();
        match &op.body {
            Body::Map(_) => MapKernel::new(op, machine),
            Body::Rows { .. } => RowsKernel::new(op, machine),
            Body::Contract(_) => Ok(Arc::new(ContractKernel::new(machine, op, variant)?)),
            Body::Host(_) => Ok(Arc::new(HostKernel::new(machine))),
            Body::Gather(_) => Ok(Arc::new(GatherKernel::new(machine))),
            Body::Scan { .. } => Ok(Arc::new(ScanKernel::new(op, machine)?)),
            Body::Attention(_) => Ok(Arc::new(AttentionKernel::new(machine))),
            _ => Err(Error::internal(format!("the CPU has no kernel for a {} operation", op.name()))),
        }
    }
}
