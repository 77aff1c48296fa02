//! What kernels are bound to: layouts by the number of buffers, and a cache of bind groups.

use std::num::NonZeroUsize;

use lru::LruCache;
use millstream_core::Result;
use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::gpu::{Gpu, What};
use crate::memory::Block;

/// How many bind groups are cached, the most recently used ones. A program uses few buffers, since the pool cuts tensors from large ones.
const CACHED: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// The buffers of a launch, by number.
pub(crate) type Key = SmallVec<[u64; 8]>;

/// Layouts and bind groups of one device.
pub(crate) struct Binds {
    args: wgpu::BindGroupLayout,
    layouts: Mutex<FxHashMap<usize, KernelLayout>>,
    groups: Mutex<LruCache<Key, wgpu::BindGroup, FxBuildHasher>>,
}

/// The layout of kernels with one number of buffers.
#[derive(Clone)]
pub(crate) struct KernelLayout {
    pub buffers: wgpu::BindGroupLayout,
    pub pipeline: wgpu::PipelineLayout,
}

fn entry(binding: u32, ty: wgpu::BufferBindingType, dynamic: bool) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: dynamic, min_binding_size: None },
        count: None,
    }
}

impl Binds {
    pub(crate) fn new(device: &wgpu::Device) -> Binds {
        let args = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[entry(0, wgpu::BufferBindingType::Uniform, true)],
        });
        Binds { args, layouts: Mutex::default(), groups: Mutex::new(LruCache::with_hasher(CACHED, FxBuildHasher)) }
    }

    /// The layout of the arguments' group.
    pub(crate) fn args(&self) -> &wgpu::BindGroupLayout {
        &self.args
    }

    /// The layout for so many buffers.
    pub(crate) fn layout(&self, gpu: &Gpu, buffers: usize) -> Result<KernelLayout> {
        let mut layouts = self.layouts.lock();
        if let Some(layout) = layouts.get(&buffers) {
            return Ok(layout.clone());
        }
        let storage = wgpu::BufferBindingType::Storage { read_only: false };
        let entries: Vec<_> = (0..buffers).map(|i| entry(i as u32, storage, false)).collect();
        let layout = gpu.call(What::Compile, || {
            let group = gpu
                .device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
            let pipeline = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&group), Some(&self.args)],
                immediate_size: 0,
            });
            KernelLayout { buffers: group, pipeline }
        })?;
        layouts.insert(buffers, layout.clone());
        Ok(layout)
    }

    /// The bind group of these buffers.
    pub(crate) fn group(&self, gpu: &Gpu, key: &Key, blocks: &[&Block]) -> Result<wgpu::BindGroup> {
        if let Some(group) = self.groups.lock().get(key) {
            return Ok(group.clone());
        }
        let layout = self.layout(gpu, blocks.len())?;
        let entries: Vec<_> = blocks
            .iter()
            .zip(0..)
            .map(|(block, binding)| wgpu::BindGroupEntry { binding, resource: block.buffer.as_entire_binding() })
            .collect();
        let group = gpu.call(What::Launch, || {
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &layout.buffers,
                entries: &entries,
            })
        })?;
        let evicted = self.groups.lock().push(key.clone(), group.clone());
        drop(evicted);
        Ok(group)
    }

    /// Drops the bind groups of a buffer that is given back, since they would keep it alive.
    pub(crate) fn forget(&self, id: u64) {
        let mut groups = self.groups.lock();
        let stale: Vec<Key> = groups.iter().map(|(key, _)| key).filter(|key| key.contains(&id)).cloned().collect();
        stale.iter().for_each(|key| drop(groups.pop(key)));
    }

    /// How many bind groups are cached.
    #[cfg(test)]
    pub(crate) fn cached(&self) -> usize {
        self.groups.lock().len()
    }
}
