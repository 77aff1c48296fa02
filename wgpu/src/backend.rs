//! A graphics API's device as core's `Backend`.

use std::sync::Arc;

use millstream_codegen::{Dialect, Target};
use millstream_core::backend::{Backend, BackendStream, Kernel, MemoryAt, Priority, Support};
use millstream_core::how::{Candidate, DeviceProfile, Variant};
use millstream_core::memory::{MemoryKind, RawMemory, StreamId};
use millstream_core::{Error, Op, Result};

use crate::family::Api;
use crate::gpu::Gpu;
use crate::kernel::WgpuKernel;
use crate::stream::WgpuStream;
use crate::{measure, memory, open, profile};

/// An opened device of a graphics API.
pub struct WgpuBackend {
    gpu: Arc<Gpu>,
    profile: DeviceProfile,
    target: Target,
}

impl WgpuBackend {
    pub(crate) fn open(api: Api, name: &str, adapter: &wgpu::Adapter) -> Result<Arc<WgpuBackend>> {
        let opened = open::open(name, adapter)?;
        let gpu = Arc::new(Gpu::new(name, api, (opened.device, opened.queue), opened.health)?);
        let profile = profile::estimate(&gpu, adapter, opened.reduced.as_deref());
        let target = Target {
            dialect: Dialect::Wgsl,
            float64: gpu.features.contains(wgpu::Features::SHADER_F64),
            int64: gpu.features.contains(wgpu::Features::SHADER_INT64),
            max_group: gpu.limits.max_compute_invocations_per_workgroup.min(gpu.limits.max_compute_workgroup_size_x),
            max_grid: gpu.limits.max_compute_workgroups_per_dimension,
            shared_memory: gpu.limits.max_compute_workgroup_storage_size as usize,
            max_buffers: profile.max_bindings,
            units: profile.units,
            matrices: matrices(&gpu, adapter),
        };
        Ok(Arc::new(WgpuBackend { gpu, profile, target }))
    }

    /// Gives the device up at once, as if the driver had lost it: every later call fails with an error of kind `DeviceLost`.
    pub fn destroy(&self) {
        self.gpu.destroy();
    }

    #[cfg(test)]
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }
}

/// The threads of a subgroup, if all have so many and multiply squares of 16 by 16 f16, adding up in f32.
fn matrices(gpu: &Gpu, adapter: &wgpu::Adapter) -> Option<u32> {
    use wgpu::{CooperativeScalarType as Scalar, Features};
    let needed = Features::EXPERIMENTAL_COOPERATIVE_MATRIX | Features::SHADER_F16 | Features::SUBGROUP;
    let info = adapter.get_info();
    let one_size = info.subgroup_min_size == info.subgroup_max_size && info.subgroup_min_size > 0;
    let known = gpu.features.contains(needed)
        && adapter.cooperative_matrix_properties().iter().any(|p| {
            (p.m_size, p.n_size, p.k_size) == (16, 16, 16)
                && (p.ab_type, p.cr_type) == (Scalar::F16, Scalar::F32)
                && !p.saturating_accumulation
        });
    (known && one_size).then_some(info.subgroup_min_size)
}

/// An error where a copy would leave the memory.
fn check(memory: &RawMemory, offset: usize, bytes: usize) -> Result<()> {
    match offset.checked_add(bytes) {
        Some(end) if end <= memory.bytes => Ok(()),
        _ => Err(Error::internal(format!("a copy of {bytes} bytes at {offset} in {memory:?}"))),
    }
}

impl Backend for WgpuBackend {
    fn profile(&self) -> DeviceProfile {
        self.profile.clone()
    }

    fn measure(&self) -> Result<DeviceProfile> {
        measure::measure(&self.gpu, self.profile.clone())
    }

    fn alloc(&self, bytes: usize, kind: MemoryKind) -> Result<RawMemory> {
        memory::alloc(&self.gpu, bytes, kind)
    }

    fn free(&self, memory: RawMemory) {
        memory::free(&self.gpu, memory);
    }

    fn import(&self, _host: &RawMemory) -> Option<RawMemory> {
        None
    }

    fn copy(&self, from: MemoryAt<'_>, to: MemoryAt<'_>, bytes: usize, stream: &dyn BackendStream) -> Result<()> {
        self.gpu.alive()?;
        let stream = WgpuStream::of(stream, &self.gpu)?;
        let (MemoryAt::Here(source, start) | MemoryAt::Host(source, start) | MemoryAt::Peer(source, start)) = from;
        let (MemoryAt::Here(target, end) | MemoryAt::Host(target, end) | MemoryAt::Peer(target, end)) = to;
        check(source, start, bytes)?;
        check(target, end, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let host = |memory: &RawMemory| {
            memory.host.ok_or_else(|| Error::internal(format!("the host cannot address {memory:?}")))
        };
        let mut batch = stream.batch();
        match (from, to) {
            (MemoryAt::Here(..), MemoryAt::Here(..)) => {
                batch.copy(&self.gpu, (memory::block(source)?, start), (memory::block(target)?, end), bytes)
            }
            (MemoryAt::Host(..), MemoryAt::Here(..)) => {
                let first = host(source)?.as_ptr();
                // SAFETY: the caller keeps the memory readable until the stream has passed the copy, and its bounds were
                // checked above.
                let bytes = unsafe { std::slice::from_raw_parts(first.add(start), bytes) };
                batch.upload(&self.gpu, bytes, memory::block(target)?, end)
            }
            (MemoryAt::Here(..), MemoryAt::Host(..)) => {
                // SAFETY: the bounds were checked above.
                let first = unsafe { host(target)?.as_ptr().add(end) };
                let first = millstream_core::memory::HostPtr::new(first);
                let first = first.ok_or_else(|| Error::internal("a copy to the null pointer"))?;
                batch.download(&self.gpu, memory::block(source)?, start, first, bytes)
            }
            (MemoryAt::Peer(..), _) | (_, MemoryAt::Peer(..)) => {
                Err(Error::unsupported("wgpu's devices share no memory: the value goes through the host"))
            }
            (MemoryAt::Host(..), MemoryAt::Host(..)) => {
                Err(Error::internal("a copy within the host was asked of another device"))
            }
        }
    }

    fn stream(&self, id: StreamId, _priority: Priority) -> Result<Arc<dyn BackendStream>> {
        self.gpu.alive()?;
        Ok(Arc::new(WgpuStream::new(id, self.gpu.clone())))
    }

    fn supports(&self, op: &Op) -> Support {
        millstream_codegen::supports(op, &self.target)
    }

    fn variants(&self, op: &Op) -> Vec<Candidate> {
        millstream_codegen::variants(op, &self.target, &self.profile)
    }

    fn compile(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        let program = millstream_codegen::generate(op, variant, &self.target)?;
        Ok(Arc::new(WgpuKernel::new(self.gpu.clone(), program)?))
    }

    fn load(&self, op: &Op, variant: &Variant, bytes: &[u8]) -> Result<Arc<dyn Kernel>> {
        let program = millstream_codegen::generate(op, variant, &self.target)?;
        Ok(Arc::new(WgpuKernel::load(self.gpu.clone(), program, bytes)?))
    }
}
