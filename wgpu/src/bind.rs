//! What kernels are bound to: layouts by the number of buffers, and bind groups kept for the buffers that come again.

use millstream_core::Result;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::gpu::{Gpu, What};
use crate::memory::Block;

/// How many bind groups are kept. A program uses few buffers, since the pool cuts tensors from large ones.
const KEPT: usize = 1024;

/// The buffers of a launch, by number.
pub(crate) type Key = SmallVec<[u64; 8]>;

/// Layouts and bind groups of one device.
pub(crate) struct Binds {
    args: wgpu::BindGroupLayout,
    layouts: Mutex<FxHashMap<usize, Layout>>,
    groups: Mutex<FxHashMap<Key, wgpu::BindGroup>>,
}

/// The layout of kernels with one number of buffers.
#[derive(Clone)]
pub(crate) struct Layout {
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
        Binds { args, layouts: Mutex::default(), groups: Mutex::default() }
    }

    /// The layout of the arguments' group.
    pub(crate) fn args(&self) -> &wgpu::BindGroupLayout {
        &self.args
    }

    /// The layout for so many buffers.
    pub(crate) fn layout(&self, gpu: &Gpu, buffers: usize) -> Result<Layout> {
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
            Layout { buffers: group, pipeline }
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
        let mut groups = self.groups.lock();
        if groups.len() >= KEPT {
            groups.clear();
        }
        groups.insert(key.clone(), group.clone());
        Ok(group)
    }

    /// Drops the bind groups of a buffer that is given back, since they would keep it alive.
    pub(crate) fn forget(&self, id: u64) {
        self.groups.lock().retain(|key, _| !key.contains(&id));
    }

    /// How many bind groups are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.groups.lock().len()
    }
}
