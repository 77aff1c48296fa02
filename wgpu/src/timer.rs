//! The device's own clock: a query for each timed event, read when somebody asks for the time between two.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millstream_core::{Error, Result};
use parking_lot::Mutex;

use crate::gpu::{Gpu, What};

/// Queries of one set.
const QUERIES: u32 = 512;
/// Sets of one device: beyond this, events have no time.
const SETS: usize = 32;

/// Hands out queries.
pub(crate) struct Timer {
    /// Nanoseconds of one tick.
    period: f64,
    /// Whether time can be taken between passes; else an empty pass does it.
    in_encoders: bool,
    sets: Mutex<Vec<Arc<Set>>>,
    /// Where results go on their way to the host.
    way: Mutex<Option<(wgpu::Buffer, wgpu::Buffer)>>,
}

struct Set {
    queries: wgpu::QuerySet,
    free: Mutex<Vec<u32>>,
}

/// One moment on the device's clock, known once the commands before it are done.
pub(crate) struct Stamp {
    set: Arc<Set>,
    slot: u32,
    ticks: OnceLock<u64>,
}

impl Drop for Stamp {
    fn drop(&mut self) {
        self.set.free.lock().push(self.slot);
    }
}

impl Timer {
    /// The device's clock, if it has one.
    pub(crate) fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Option<Timer> {
        let features = device.features();
        let period = f64::from(queue.get_timestamp_period());
        if !features.contains(wgpu::Features::TIMESTAMP_QUERY) || period <= 0.0 {
            return None;
        }
        Some(Timer {
            period,
            in_encoders: features.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
            sets: Mutex::default(),
            way: Mutex::default(),
        })
    }

    /// Records the moment at which the commands so far are done; `None` when all queries are in use.
    pub(crate) fn stamp(&self, gpu: &Gpu, encoder: &mut wgpu::CommandEncoder) -> Result<Option<Stamp>> {
        let Some((set, slot)) = self.slot(gpu)? else { return Ok(None) };
        let stamp = Stamp { set, slot, ticks: OnceLock::new() };
        gpu.call(What::Launch, || match self.in_encoders {
            true => encoder.write_timestamp(&stamp.set.queries, slot),
            false => drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &stamp.set.queries,
                    beginning_of_pass_write_index: None,
                    end_of_pass_write_index: Some(slot),
                }),
            })),
        })?;
        Ok(Some(stamp))
    }

    fn slot(&self, gpu: &Gpu) -> Result<Option<(Arc<Set>, u32)>> {
        let mut sets = self.sets.lock();
        let found = sets.iter().find_map(|set| Some((set.clone(), set.free.lock().pop()?)));
        if found.is_some() || sets.len() == SETS {
            return Ok(found);
        }
        let queries = gpu.call(What::Launch, || {
            gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: QUERIES,
            })
        })?;
        let set = Arc::new(Set { queries, free: Mutex::new((1..QUERIES).collect()) });
        sets.push(set.clone());
        Ok(Some((set, 0)))
    }

    /// The time between two moments that have passed.
    pub(crate) fn between(&self, gpu: &Gpu, earlier: &Stamp, later: &Stamp) -> Result<Duration> {
        let (start, end) = (self.ticks(gpu, earlier)?, self.ticks(gpu, later)?);
        Ok(Duration::from_nanos((end.saturating_sub(start) as f64 * self.period) as u64))
    }

    fn ticks(&self, gpu: &Gpu, stamp: &Stamp) -> Result<u64> {
        if let Some(ticks) = stamp.ticks.get() {
            return Ok(*ticks);
        }
        let mut way = self.way.lock();
        let (resolve, read) = match &*way {
            Some(way) => way,
            None => {
                use wgpu::BufferUsages as Usage;
                let resolve = gpu.buffer(256, Usage::QUERY_RESOLVE | Usage::COPY_SRC, false)?;
                let read = gpu.buffer(256, Usage::MAP_READ | Usage::COPY_DST, false)?;
                way.insert((resolve, read))
            }
        };
        let mut encoder = gpu.encoder()?;
        let commands = gpu.call(What::Launch, || {
            encoder.resolve_query_set(&stamp.set.queries, stamp.slot..stamp.slot + 1, resolve, 0);
            encoder.copy_buffer_to_buffer(resolve, 0, read, 0, 8);
            encoder.finish()
        })?;
        let submission = gpu.submit([commands])?;
        let (sender, receiver) = std::sync::mpsc::channel();
        gpu.call(What::Launch, || {
            read.map_async(wgpu::MapMode::Read, 0..8, move |mapped| {
                // Whoever asked may have given up.
                let _ = sender.send(mapped);
            })
        })?;
        gpu.wait(&submission, None)?;
        gpu.poll()?;
        let mapped = receiver.recv_timeout(Duration::from_secs(10));
        mapped
            .map_err(|e| e.to_string())
            .and_then(|mapped| mapped.map_err(|e| e.to_string()))
            .map_err(|e| Error::launch(format!("{}: a time could not be read: {e}", gpu.name)))?;
        let ticks = gpu.call(What::Launch, || {
            let view = read.get_mapped_range(0..8).map_err(|e| e.to_string())?;
            let ticks = view.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
            drop(view);
            read.unmap();
            ticks.ok_or_else(|| "it is too short".to_string())
        })?;
        let ticks = ticks.map_err(|e| Error::launch(format!("{}: a time could not be read: {e}", gpu.name)))?;
        Ok(*stamp.ticks.get_or_init(|| ticks))
    }
}
