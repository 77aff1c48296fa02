//! Kernels: WGSL text made into pipelines.
//!
//! Where the driver can say what it compiled (Vulkan), a kernel has bytes: a head that names the text, and the driver's data
//! for the pipelines made so far, which is the first entry's when the kernel is stored. They only make compiling quicker: from data that the
//! driver no longer takes, it compiles as if there were none.

use std::sync::{Arc, OnceLock};

use millstream_codegen::{Prepared, Program, Source};
use millstream_core::backend::{BackendStream, Bindings, Kernel, Launch};
use millstream_core::cache::stable_hash;
use millstream_core::how::Schedule;
use millstream_core::{Error, Op, Result};
use smallvec::SmallVec;

use crate::bind::KernelLayout;
use crate::gpu::{Gpu, What};
use crate::memory::{self, Block};
use crate::stream::{Call, WgpuStream};

/// A program as the driver has compiled it.
pub(crate) struct Compiled {
    layout: KernelLayout,
    module: wgpu::ShaderModule,
    /// The first is made at once, so that a kernel that does not compile says so; the others at their first use.
    entries: Vec<(String, OnceLock<wgpu::ComputePipeline>)>,
    /// What the driver keeps of what it has compiled.
    cache: Option<wgpu::PipelineCache>,
    /// How many buffers each entry is given.
    pub buffers: usize,
}

impl Compiled {
    /// Compiles WGSL with these entries, each of which takes so many buffers. The text must be our own: it is trusted to stay
    /// inside its buffers and to end.
    pub(crate) fn new(gpu: &Gpu, text: &str, entries: &[&str], buffers: usize) -> Result<Compiled> {
        Compiled::with(gpu, text, entries, buffers, None)
    }

    /// As [`Compiled::new`], with the help of what the driver said when it last compiled this text.
    fn with(gpu: &Gpu, text: &str, entries: &[&str], buffers: usize, known: Option<Known<'_>>) -> Result<Compiled> {
        let cache = known.map(|known| {
            let descriptor = wgpu::PipelineCacheDescriptor { label: None, data: known.data, fallback: true };
            // SAFETY: the data is what `get_data` gave for this driver and device: who keeps it checks that it was not damaged,
            // its head says for which text it was made, and `wgpu` and the driver look at heads of their own.
            gpu.call(What::Compile, || unsafe { gpu.device.create_pipeline_cache(&descriptor) })
        });
        let cache = cache.transpose()?;
        let layout = gpu.binds.layout(gpu, buffers)?;
        let source = wgpu::ShaderSource::Wgsl(text.into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        let module = gpu.call(What::Compile, || {
            let checks = wgpu::ShaderRuntimeChecks::unchecked();
            // SAFETY: the text is our generator's: its loops end, its divisors are not 0, and the dispatcher has checked
            // that what it addresses lies inside the bindings.
            unsafe { gpu.device.create_shader_module_trusted(descriptor, checks) }
        })?;
        let entries = entries.iter().map(|name| (name.to_string(), OnceLock::new())).collect();
        let compiled = Compiled { layout, module, entries, cache, buffers };
        compiled.pipeline(gpu, 0)?;
        Ok(compiled)
    }

    /// The pipeline of an entry.
    pub(crate) fn pipeline(&self, gpu: &Gpu, entry: usize) -> Result<&wgpu::ComputePipeline> {
        let (name, slot) =
            self.entries.get(entry).ok_or_else(|| Error::internal(format!("a kernel has no entry {entry}")))?;
        if let Some(pipeline) = slot.get() {
            return Ok(pipeline);
        }
        let pipeline = gpu.call(What::Compile, || {
            gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: Some(&self.layout.pipeline),
                module: &self.module,
                entry_point: Some(name),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // Our kernels write shared memory before they read it.
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: self.cache.as_ref(),
            })
        })?;
        Ok(slot.get_or_init(|| pipeline))
    }
}

/// What the driver is told about a kernel that it may have compiled before.
#[derive(Clone, Copy)]
struct Known<'a> {
    data: Option<&'a [u8]>,
}

/// What a kernel's bytes begin with; the number changes with their form.
const MAGIC: &[u8; 8] = b"MSWGPU\x00\x01";
/// Magic and the hash of the text.
const HEADER: usize = 8 + 16;
/// The most data to keep. One kernel's takes tens of kilobytes, but in a process that has compiled thousands of kernels a
/// driver has been seen to put megabytes into each.
const MOST: usize = 256 << 10;

fn pack(text: &str, data: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &stable_hash(text.as_bytes()).to_le_bytes(), data].concat()
}

fn unpack<'a>(text: &str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    let bad = |why: &str| Error::format(format!("a cached kernel {why}"));
    let (head, data) = bytes.split_at_checked(HEADER).ok_or_else(|| bad("is cut off"))?;
    if &head[..8] != MAGIC || data.is_empty() {
        return Err(bad("has another form"));
    }
    if head[8..] != stable_hash(text.as_bytes()).to_le_bytes() {
        return Err(bad("was made from another text"));
    }
    Ok(data)
}

/// A generated kernel.
pub(crate) struct WgpuKernel {
    gpu: Arc<Gpu>,
    program: Program,
    compiled: Arc<Compiled>,
}

impl WgpuKernel {
    /// Compiles a program.
    pub(crate) fn new(gpu: Arc<Gpu>, program: Program) -> Result<WgpuKernel> {
        let known = gpu.features.contains(wgpu::Features::PIPELINE_CACHE).then_some(Known { data: None });
        WgpuKernel::with(gpu, program, known)
    }

    /// Compiles a program with the help of what [`Kernel::bytes`] gave.
    pub(crate) fn load(gpu: Arc<Gpu>, program: Program, bytes: &[u8]) -> Result<WgpuKernel> {
        if !gpu.features.contains(wgpu::Features::PIPELINE_CACHE) {
            return Err(Error::unsupported(format!("{} has no kernel binaries", gpu.name)));
        }
        let data = unpack(&program.text, bytes)?.to_vec();
        WgpuKernel::with(gpu, program, Some(Known { data: Some(&data) }))
    }

    fn with(gpu: Arc<Gpu>, program: Program, known: Option<Known<'_>>) -> Result<WgpuKernel> {
        let source: &Source = &program;
        let entries: Vec<&str> = source.entries.iter().map(|e| e.name.as_str()).collect();
        let buffers = source.operands + usize::from(source.has_workspace) + usize::from(source.has_note);
        let compiled = Arc::new(Compiled::with(&gpu, &source.text, &entries, buffers, known)?);
        Ok(WgpuKernel { gpu, program, compiled })
    }
}

impl Kernel for WgpuKernel {
    fn bytes(&self) -> Option<Vec<u8>> {
        let cache = self.compiled.cache.as_ref()?;
        let data = self.gpu.call(What::Compile, || cache.get_data()).ok().flatten()?;
        (data.len() <= MOST).then(|| pack(&self.program.text, &data))
    }

    fn text(&self) -> String {
        self.program.text.clone()
    }

    fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Arc<dyn Launch>> {
        let (gpu, compiled, prepared) = (self.gpu.clone(), self.compiled.clone(), self.program.prepare(op, schedule)?);
        Ok(Arc::new(WgpuLaunch { gpu, compiled, notes: self.program.has_note, prepared }))
    }
}

struct WgpuLaunch {
    gpu: Arc<Gpu>,
    compiled: Arc<Compiled>,
    notes: bool,
    prepared: Prepared,
}

impl Launch for WgpuLaunch {
    fn workspace(&self) -> usize {
        self.prepared.workspace()
    }

    fn notes(&self) -> bool {
        self.notes
    }

    fn run(&self, bindings: &Bindings<'_>, stream: &dyn BackendStream) -> Result<()> {
        self.gpu.alive()?;
        let stream = WgpuStream::of(stream, &self.gpu)?;
        let operands = bindings.inputs.iter().chain(bindings.outputs).chain(&bindings.workspace).map(|b| b.memory);
        let all = operands.chain(bindings.note.map(|n| n.memory));
        let mut blocks = all.map(memory::block).collect::<Result<SmallVec<[&Block; 8]>>>()?;
        // A kernel with room for scratch memory or a note is given some buffer also where this launch has none.
        if let (Some(&last), true) = (blocks.last(), blocks.len() < self.compiled.buffers) {
            blocks.resize(self.compiled.buffers, last);
        }
        let mut batch = stream.batch();
        self.prepared.encode(bindings, &mut |d| {
            let call = Call { kernel: &self.compiled, entry: d.entry, grid: d.grid, words: d.words };
            batch.launch(&self.gpu, &call, &blocks)
        })
    }
}

/// The kernels that copies need: see `copy.wgsl` and `patch.wgsl`.
#[derive(Default)]
pub(crate) struct Builtins {
    copy: OnceLock<Compiled>,
    patch: OnceLock<Compiled>,
}

/// Threads of one group of the built-in kernels.
pub(crate) const GROUP: u32 = 64;

impl Builtins {
    /// Copies between buffers at any byte.
    pub(crate) fn copy(&self, gpu: &Gpu) -> Result<&Compiled> {
        make(gpu, &self.copy, include_str!("copy.wgsl"), "copy_bytes", 2)
    }

    /// Replaces some bytes of one or two words.
    pub(crate) fn patch(&self, gpu: &Gpu) -> Result<&Compiled> {
        make(gpu, &self.patch, include_str!("patch.wgsl"), "patch_words", 1)
    }
}

fn make<'a>(gpu: &Gpu, slot: &'a OnceLock<Compiled>, text: &str, entry: &str, buffers: usize) -> Result<&'a Compiled> {
    if let Some(compiled) = slot.get() {
        return Ok(compiled);
    }
    let compiled = Compiled::new(gpu, text, &[entry], buffers)?;
    Ok(slot.get_or_init(|| compiled))
}
