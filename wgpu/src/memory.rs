//! Device memory: one `wgpu` buffer for each segment of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_core::memory::{MemoryKind, RawMemory};
use millstream_core::{Error, Result};

use crate::gpu::Gpu;

/// What stands behind a [`RawMemory`] of this crate.
pub(crate) struct Block {
    /// Unique in the process; the memory's address.
    pub id: u64,
    pub buffer: wgpu::Buffer,
}

/// The largest buffer that can be bound whole.
pub(crate) fn largest(limits: &wgpu::Limits) -> u64 {
    limits.max_storage_buffer_binding_size.min(limits.max_buffer_size) / 256 * 256
}

/// Takes a buffer from the driver.
pub(crate) fn alloc(gpu: &Gpu, bytes: usize, kind: MemoryKind) -> Result<RawMemory> {
    if kind != MemoryKind::Device {
        let api = gpu.api.title();
        return Err(Error::unsupported(format!(
            "{} has no memory through {api} that the host addresses too",
            gpu.name
        )));
    }
    let size = (bytes as u64).div_ceil(4) * 4;
    if size > largest(&gpu.limits) {
        return Err(gpu.out_of_memory(size));
    }
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let buffer = gpu.buffer(size, usage, false)?;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(RawMemory { address: id, bytes, host: None, owner: Some(Arc::new(Block { id, buffer })) })
}

/// Gives a buffer back. The driver frees it when the commands that use it are done.
pub(crate) fn free(gpu: &Gpu, memory: RawMemory) {
    gpu.binds.forget(memory.address);
    drop(memory);
}

/// The buffer behind a piece of memory.
pub(crate) fn block(memory: &RawMemory) -> Result<&Block> {
    let block = memory.owner.as_ref().and_then(|owner| owner.downcast_ref::<Block>());
    block.ok_or_else(|| Error::internal("a piece of memory is not of this device"))
}
