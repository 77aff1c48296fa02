//! A CUDA device: core's `Backend` over the driver.

use std::sync::{Arc, OnceLock};

use millstream_codegen::{Target, generate, supports, variants};
use millstream_core::backend::{
    Backend, BackendStream, Captured, DeviceFamily, Kernel, MemoryAt, Opening, Priority, Support,
};
use millstream_core::how::{Candidate, DeviceProfile, Variant};
use millstream_core::memory::{MemoryKind, RawMemory, StreamId};
use millstream_core::{Error, Op, Result};
use parking_lot::Mutex;

use crate::compile::CompileOptions;
use crate::context::{Context, devices};
use crate::cublas::{self, CublasKernel, Library, Shared};
use crate::graph::CudaGraph;
use crate::kernel::{CudaKernel, Generated};
use crate::measure::{self, Measurements};
use crate::memory::{self, is_pinned};
use crate::profile;
use crate::properties::CudaProperties;
use crate::staging::Staging;
use crate::stream::CudaStream;

/// How CUDA devices are opened.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CudaOptions {
    /// How kernels are compiled.
    pub compile: CompileOptions,
    /// Whether cuBLASLt is one of the ways to compute a contraction.
    pub cublas: Cublas,
}

/// Whether cuBLASLt is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Cublas {
    /// Where it is there.
    #[default]
    Offered,
    /// Never: all kernels are Millstream's own.
    Never,
}

/// The family of NVIDIA GPUs through CUDA: `cuda:0`, `cuda:1`, ... in the driver's order.
#[derive(Clone, Debug, Default)]
pub struct CudaFamily {
    options: CudaOptions,
}

impl CudaFamily {
    /// A family whose devices are opened with these options.
    pub fn new(options: CudaOptions) -> CudaFamily {
        CudaFamily { options }
    }
}

/// The number in a device's name; `cuda` alone is the first.
fn ordinal(name: &str) -> Result<usize> {
    match name.strip_prefix("cuda") {
        Some("") => Some(0),
        Some(rest) => rest.strip_prefix(':').and_then(|n| n.parse().ok()),
        None => None,
    }
    .ok_or_else(|| Error::no_device(format!("{name:?} is no name of a CUDA device; the first is \"cuda:0\"")))
}

impl DeviceFamily for CudaFamily {
    fn list(&self) -> Result<Vec<String>> {
        let (_, count) = devices()?;
        Ok((0..count).map(|i| format!("cuda:{i}")).collect())
    }

    fn name(&self) -> &'static str {
        "cuda"
    }

    fn open(&self, name: &str) -> Opening {
        let opened = ordinal(name)
            .and_then(|n| CudaBackend::open(n, self.options.clone()))
            .map(|backend| Arc::new(backend) as Arc<dyn Backend>);
        Box::pin(std::future::ready(opened))
    }
}

/// A CUDA device, opened.
pub struct CudaBackend {
    context: Arc<Context>,
    options: CudaOptions,
    target: Target,
    profile: DeviceProfile,
    matmuls: Arc<Shared>,
    staging: Staging,
    measured: Mutex<Option<Measurements>>,
    /// Kernels for measurements and tests, once one was needed.
    kernels: OnceLock<Result<measure::Kernels>>,
}

impl CudaBackend {
    /// Opens the device of this number. Makes its context; compiler and libraries are loaded when they are first needed.
    pub fn open(ordinal: usize, options: CudaOptions) -> Result<CudaBackend> {
        let context = Context::open(ordinal)?;
        let profile = profile::estimate(&context.properties);
        let target = profile::target(&context.properties);
        let matmuls = Arc::new(Shared {
            context: context.clone(),
            library: Library::default(),
            target: target.clone(),
            profile: profile.clone(),
            options: options.compile.clone(),
        });
        Ok(CudaBackend {
            context,
            options,
            target,
            profile,
            matmuls,
            staging: Staging::default(),
            measured: Mutex::new(None),
            kernels: OnceLock::new(),
        })
    }

    /// What the driver tells about the device.
    pub fn properties(&self) -> &CudaProperties {
        &self.context.properties
    }

    /// What [`Backend::measure`] has measured, where it has run.
    pub fn measurements(&self) -> Option<Measurements> {
        *self.measured.lock()
    }

    /// Free and total bytes of the device's memory at this moment, other processes' counted.
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        self.context.memory_info()
    }

    /// Records what `work` queues on the stream, without running it, as a graph that [`CudaGraph::replay`] runs at once.
    pub fn capture(&self, stream: &dyn BackendStream, work: impl FnOnce() -> Result<()>) -> Result<CudaGraph> {
        CudaGraph::capture(CudaStream::of(stream)?, work)
    }

    /// The driver's number for a stream's priority: the smaller, the more urgent.
    pub fn stream_priority(&self, stream: &dyn BackendStream) -> Result<i32> {
        CudaStream::of(stream)?.priority()
    }

    /// Keeps a stream busy for about so many thousand clocks, without touching memory. For tests of order and overlap.
    #[doc(hidden)]
    pub fn spin(&self, kiloclocks: u32, stream: &dyn BackendStream) -> Result<()> {
        self.try_kernel("ms_spin", [kiloclocks, 0, 0, 0], stream)
    }

    /// Lets a kernel write to an address that is not its own: the device is lost after it. For tests of just that.
    #[doc(hidden)]
    pub fn poke(&self, address: u64, stream: &dyn BackendStream) -> Result<()> {
        self.try_kernel("ms_poke", [address as u32, (address >> 32) as u32, 0, 0], stream)
    }

    fn try_kernel(&self, name: &str, words: [u32; 4], stream: &dyn BackendStream) -> Result<()> {
        self.context.enter()?;
        let kernels = self.kernels.get_or_init(|| measure::Kernels::load(&self.context));
        kernels.as_ref().map_err(Clone::clone)?.launch(name, (1, 1), &[], words, CudaStream::of(stream)?)
    }

    fn offers_cublas(&self) -> bool {
        self.options.cublas == Cublas::Offered && self.matmuls.library.is_there()
    }
}

impl Backend for CudaBackend {
    fn profile(&self) -> DeviceProfile {
        self.profile.clone()
    }

    fn measure(&self) -> Result<DeviceProfile> {
        let measurements = measure::measure(&self.context, &self.staging)?;
        *self.measured.lock() = Some(measurements);
        let mut profile = measure::complete(self.profile.clone(), &self.context, &measurements);
        if self.offers_cublas() {
            profile.matrix_rates = measure::matrix_rates(&self.context, &self.matmuls);
        }
        Ok(profile)
    }

    fn launch_floor(&self) -> Result<Option<f64>> {
        measure::round_trip(&self.context).map(Some)
    }

    fn capture(
        &self,
        stream: &dyn BackendStream,
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Box<dyn Captured>>> {
        CudaGraph::capture(CudaStream::of(stream)?, work).map(|graph| Some(Box::new(graph) as Box<dyn Captured>))
    }

    fn alloc(&self, bytes: usize, kind: MemoryKind) -> Result<RawMemory> {
        memory::alloc(&self.context, bytes, kind)
    }

    fn free(&self, memory: RawMemory) {
        memory::free(&memory);
    }

    fn import(&self, memory: &RawMemory) -> Option<RawMemory> {
        // Of the host's memory, only a device that walks the host's own page tables reads it at a useful speed.
        let usable = match memory.host {
            Some(_) => self.context.properties.host_page_tables,
            None => memory::settled_here(&self.context, memory.address),
        };
        usable.then(|| memory.clone())
    }

    fn pointer(&self, memory: &RawMemory) -> Option<u64> {
        Some(memory.address)
    }

    fn copy(&self, from: MemoryAt<'_>, to: MemoryAt<'_>, bytes: usize, stream: &dyn BackendStream) -> Result<()> {
        let stream = CudaStream::of(stream)?;
        self.context.enter()?;
        if bytes == 0 {
            return Ok(());
        }
        let (source, target) = (End::new(from, bytes)?, End::new(to, bytes)?);
        let ordinary = |end: &End<'_>| end.is_host && !is_pinned(&self.context, end.memory, end.address);
        if ordinary(&source) {
            // What the host, or another device, has yet to write there is not there yet.
            stream.wait_for_host()?;
        }
        match (source.host, target.host) {
            // SAFETY: `End::new` checked that the bytes lie inside the memory, which the caller keeps alive.
            (Some(host), _) if ordinary(&source) => unsafe { self.staging.upload(host, target.address, bytes, stream) },
            // SAFETY: as above.
            (_, Some(host)) if ordinary(&target) => unsafe {
                self.staging.download(source.address, host, bytes, stream)
            },
            _ => {
                // SAFETY: both ranges lie inside their memory, which the caller keeps until the stream has passed the copy.
                let status =
                    unsafe { (self.context.driver.memcpy)(target.address, source.address, bytes, stream.raw()) };
                self.context.check(status, "copying")
            }
        }
    }

    fn stream(&self, id: StreamId, priority: Priority) -> Result<Arc<dyn BackendStream>> {
        Ok(Arc::new(CudaStream::new(&self.context, id, priority)?))
    }

    fn supports(&self, op: &Op) -> Support {
        supports(op, &self.target)
    }

    fn variants(&self, op: &Op) -> Vec<Candidate> {
        let mut list = variants(op, &self.target, &self.profile);
        if self.offers_cublas() {
            list.extend(cublas::candidate(op, &self.profile));
        }
        list
    }

    fn compile(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        self.context.enter()?;
        if variant.family == cublas::FAMILY {
            return Ok(Arc::new(CublasKernel::new(self.matmuls.clone(), op, None)?));
        }
        let program = generate(op, variant, &self.target)?;
        Ok(Arc::new(CudaKernel(Arc::new(Generated::compile(&self.context, program, &self.options.compile)?))))
    }

    fn load(&self, op: &Op, variant: &Variant, bytes: &[u8]) -> Result<Arc<dyn Kernel>> {
        self.context.enter()?;
        if variant.family == cublas::FAMILY {
            return Ok(Arc::new(CublasKernel::new(self.matmuls.clone(), op, Some(bytes))?));
        }
        let program = generate(op, variant, &self.target)?;
        Ok(Arc::new(CudaKernel(Arc::new(Generated::load(&self.context, program, &self.options.compile, bytes)?))))
    }
}

impl Drop for CudaBackend {
    fn drop(&mut self) {
        self.staging.clear();
    }
}

/// One end of a copy, checked.
struct End<'a> {
    memory: &'a RawMemory,
    address: u64,
    host: Option<*mut u8>,
    /// Whether it is memory of the host's rather than of this device's.
    is_host: bool,
}

impl<'a> End<'a> {
    fn new(place: MemoryAt<'a>, bytes: usize) -> Result<End<'a>> {
        let (memory, offset) = match place {
            MemoryAt::Here(memory, offset) | MemoryAt::Host(memory, offset) => (memory, offset),
            MemoryAt::Peer(..) => {
                return Err(Error::unsupported("copies between CUDA devices go through the host"));
            }
        };
        if offset.checked_add(bytes).is_none_or(|end| end > memory.bytes) {
            return Err(Error::internal(format!("a copy of {bytes} bytes leaves its memory")));
        }
        let is_host = matches!(place, MemoryAt::Host(..));
        let host = memory.host.map(|p| p.as_ptr().wrapping_add(offset));
        let address = match (is_host, host) {
            // Another device's number for it says nothing here; the host's address does.
            (true, Some(host)) => host as usize as u64,
            (true, None) => return Err(Error::internal("a copy from or to the host's side is given no host memory")),
            (false, _) => memory.address + offset as u64,
        };
        Ok(End { memory, address, host, is_host })
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::ErrorKind;

    use super::*;

    #[test]
    fn names_are_the_family_and_a_number() {
        assert_eq!(ordinal("cuda:0").unwrap(), 0);
        assert_eq!(ordinal("cuda:12").unwrap(), 12);
        assert_eq!(ordinal("cuda").unwrap(), 0);
        for bad in ["cuda:", "cuda:x", "cuda:-1", "cuda0", "cpu", "cudax:1"] {
            assert_eq!(ordinal(bad).unwrap_err().kind(), ErrorKind::NoDevice, "{bad}");
        }
    }

    #[test]
    fn a_machine_without_cuda_says_why() {
        let family = CudaFamily::default();
        if let Err(error) = family.list() {
            assert_eq!(error.kind(), ErrorKind::NoDevice);
            assert!(error.suggestion().is_some(), "{error}");
            let opened = millstream_core::block_on(family.open("cuda:0"));
            assert_eq!(opened.err().map(|e| e.kind()), Some(ErrorKind::NoDevice));
        }
    }

    #[test]
    fn a_copy_beyond_its_memory_is_refused() {
        let data = [0u8; 16];
        let memory = RawMemory::foreign(data.as_ptr(), data.len());
        assert!(End::new(MemoryAt::Host(&memory, 8), 8).is_ok());
        assert!(End::new(MemoryAt::Host(&memory, 8), 9).is_err());
        assert!(End::new(MemoryAt::Host(&memory, usize::MAX), 9).is_err());
        let device = RawMemory { host: None, ..memory };
        assert!(End::new(MemoryAt::Host(&device, 0), 1).is_err());
        assert_eq!(End::new(MemoryAt::Here(&device, 4), 1).unwrap().address, device.address + 4);
    }
}
