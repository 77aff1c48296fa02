//! Opening a device: with all that the adapter has, or with less where the driver does not keep its word.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, Result, block_on};

use crate::gpu::Health;

/// A device that has answered, and what had to be given up for it.
pub(crate) struct Opened {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub health: Arc<Health>,
    /// Why the device has less than its adapter shows.
    pub reduced: Option<String>,
}

/// The features that we use where they are.
fn wanted() -> wgpu::Features {
    wgpu::Features::SHADER_F16
        | wgpu::Features::SHADER_F64
        | wgpu::Features::SHADER_INT64
        | wgpu::Features::SUBGROUP
        | wgpu::Features::SUBGROUP_BARRIER
        | wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
        | wgpu::Features::PIPELINE_CACHE
        | wgpu::Features::IMMEDIATES
        | wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
}

/// Opens the adapter's device. A driver that refuses, or loses the device at its first use, is asked for less.
pub(crate) fn open(name: &str, adapter: &wgpu::Adapter) -> Result<Opened> {
    let all = adapter.limits();
    let features = adapter.features() & wanted();
    let attempts = [
        (all.clone(), features),
        (wgpu::Limits::defaults().or_worse_values_from(&all), features),
        (wgpu::Limits::downlevel_defaults().or_worse_values_from(&all), wgpu::Features::empty()),
    ];
    let mut reduced = None;
    for (limits, features) in attempts {
        match attempt(adapter, limits, features) {
            Ok((device, queue, health)) => return Ok(Opened { device, queue, health, reduced }),
            Err(reason) => reduced = Some(reason),
        }
    }
    let reason = reduced.unwrap_or_default();
    Err(Error::no_device(format!("{name} could not be opened: {reason}")))
}

fn attempt(
    adapter: &wgpu::Adapter,
    limits: wgpu::Limits,
    features: wgpu::Features,
) -> std::result::Result<(wgpu::Device, wgpu::Queue, Arc<Health>), String> {
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("millstream"),
        required_features: features,
        required_limits: limits,
        // The pool already asks for few large buffers; blocks of the library's own would only be held idle.
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    let (device, queue) = block_on(adapter.request_device(&descriptor)).map_err(|e| e.to_string())?;
    let health = Health::watch(&device);
    trial(&device, &queue)?;
    if let Some(why) = health.lost() {
        return Err(format!("the device was lost at its first use ({why})"));
    }
    match health.take() {
        Some(fault) => Err(fault.to_string()),
        None => Ok((device, queue, health)),
    }
}

/// Lets the device do something, so that one which is lost at once shows it.
fn trial(device: &wgpu::Device, queue: &wgpu::Queue) -> std::result::Result<(), String> {
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let make =
        || device.create_buffer(&wgpu::BufferDescriptor { label: None, size: 1024, usage, mapped_at_creation: false });
    let (from, to) = (make(), make());
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&from, 0, &to, 0, 1024);
    queue.submit([encoder.finish()]);
    let poll = wgpu::PollType::Wait { submission_index: None, timeout: Some(Duration::from_secs(20)) };
    device.poll(poll).map(|_| ()).map_err(|e| e.to_string())
}
