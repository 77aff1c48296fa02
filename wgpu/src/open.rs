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
        | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
}

/// What is requested of a driver.
type Wish = (wgpu::Limits, wgpu::Features);

/// What is requested of a driver, one after the other: everything, then less and less.
fn attempts(all: &wgpu::Limits, features: wgpu::Features) -> Vec<Wish> {
    vec![
        (all.clone(), features),
        (all.clone(), features - wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX),
        (
            wgpu::Limits::defaults().or_worse_values_from(all),
            features - wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
        ),
        (wgpu::Limits::downlevel_defaults().or_worse_values_from(all), wgpu::Features::empty()),
    ]
}

/// The first of the attempts that works, with the reason why the one before it did not.
fn first<T>(
    name: &str,
    attempts: Vec<Wish>,
    mut open: impl FnMut(wgpu::Limits, wgpu::Features) -> std::result::Result<T, String>,
) -> Result<(T, Option<String>)> {
    let mut reduced = None;
    for (limits, features) in attempts {
        match open(limits, features) {
            Ok(opened) => return Ok((opened, reduced)),
            Err(reason) => reduced = Some(reason),
        }
    }
    let reason = reduced.unwrap_or_default();
    Err(Error::no_device(format!("{name} could not be opened: {reason}")))
}

/// Opens the adapter's device. A driver that refuses, or loses the device at its first use, gets a smaller request.
pub(crate) fn open(name: &str, adapter: &wgpu::Adapter) -> Result<Opened> {
    let attempts = attempts(&adapter.limits(), adapter.features() & wanted());
    let ((device, queue, health), reduced) =
        first(name, attempts, |limits, features| attempt(adapter, limits, features))?;
    Ok(Opened { device, queue, health, reduced })
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
        // SAFETY: the one experimental feature that we ask for multiplies matrices, in kernels of our own that load and
        // store whole squares inside their arrays.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(refusals: usize) -> (Vec<Wish>, Result<(usize, Option<String>)>) {
        let all = wgpu::Limits { max_storage_buffer_binding_size: 1 << 30, ..wgpu::Limits::defaults() };
        let features = wgpu::Features::SHADER_F16 | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let mut list = Vec::new();
        let opened = first("gl:0", attempts(&all, features), |limits, features| {
            list.push((limits, features));
            if list.len() > refusals { Ok(list.len()) } else { Err(format!("refusal {}", list.len())) }
        });
        (list, opened)
    }

    #[test]
    fn a_driver_that_refuses_gets_a_smaller_request_and_the_reason_is_told() {
        let (list, opened) = asked(0);
        assert_eq!((list.len(), opened.unwrap()), (1, (1, None)));
        let (list, opened) = asked(3);
        assert_eq!(opened.unwrap(), (4, Some("refusal 3".to_string())));
        for pair in list.windows(2) {
            let ((more, many), (less, few)) = (&pair[0], &pair[1]);
            assert!(less.max_storage_buffer_binding_size <= more.max_storage_buffer_binding_size);
            assert!(less.max_storage_buffers_per_shader_stage <= more.max_storage_buffers_per_shader_stage);
            assert!(many.contains(*few) && (less != more || few != many), "{pair:?}");
        }
        assert!(list[3].1.is_empty());
    }

    #[test]
    fn a_driver_that_refuses_everything_is_an_error_with_the_last_reason() {
        let (list, opened) = asked(usize::MAX);
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), millstream_core::ErrorKind::NoDevice);
        assert!(error.to_string().contains(&format!("refusal {}", list.len())), "{error}");
    }
}
