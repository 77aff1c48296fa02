//! Kernels: WGSL text made into pipelines.

use std::sync::OnceLock;

use millstream_codegen::{Entry, Source};
use millstream_core::{Error, Result};

use crate::bind::Layout;
use crate::gpu::{Gpu, What};

/// A program as the driver has compiled it.
pub(crate) struct Compiled {
    layout: Layout,
    module: wgpu::ShaderModule,
    /// The first is made at once, so that a kernel that does not compile says so; the others at their first use.
    entries: Vec<(String, OnceLock<wgpu::ComputePipeline>)>,
    /// How many buffers each entry is given.
    pub buffers: usize,
}

impl Compiled {
    /// Compiles a program, which must come from our own generator: it is trusted to stay inside its buffers and to end.
    pub(crate) fn new(gpu: &Gpu, program: &Source) -> Result<Compiled> {
        let buffers = program.operands + usize::from(program.has_workspace);
        let layout = gpu.binds.layout(gpu, buffers)?;
        let source = wgpu::ShaderSource::Wgsl(program.text.as_str().into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        let module = gpu.call(What::Compile, || {
            let checks = wgpu::ShaderRuntimeChecks::unchecked();
            // SAFETY: the text is our generator's: its loops end, its divisors are not 0, and the dispatcher has checked
            // that what it addresses lies inside the bindings.
            unsafe { gpu.device.create_shader_module_trusted(descriptor, checks) }
        })?;
        let entries = entries.iter().map(|name| (name.to_string(), OnceLock::new())).collect();
        let compiled = Compiled { layout, module, entries, buffers };
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
                cache: None,
            })
        })?;
        Ok(slot.get_or_init(|| pipeline))
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
