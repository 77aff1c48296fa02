//! Buffers between the host and the device that are used again and again: for uploads, for downloads, for arguments.
//!
//! A buffer is on a shelf, in a batch that is being gathered, or in flight. A callback of the driver brings it back to its
//! shelf. When too much is in flight, whoever needs a buffer waits for the oldest submission that holds one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use millstream_core::{Error, Result};
use parking_lot::Mutex;

use crate::gpu::{Gpu, Submission, What};

/// The sizes of staging buffers.
pub(crate) const SMALL: u64 = 64 << 10;
pub(crate) const LARGE: u64 = 4 << 20;
/// What a shelf's buffers may take together before one waits for another's return.
const LIMIT: u64 = 48 << 20;
/// The size of a buffer of arguments.
const ARGS: u64 = 64 << 10;
/// What a kernel sees of it: most have few arguments.
const FEW_ARGS: u64 = 1 << 10;
const MANY_ARGS: u64 = 16 << 10;
/// How many buffers of arguments may be in flight.
const ARGS_LIMIT: usize = 64;

/// All staging of one device.
pub(crate) struct Staging {
    pub uploads: Arc<Shelf>,
    pub downloads: Arc<Shelf>,
    pub args: Arc<ArgsShelf>,
}

impl Staging {
    pub(crate) fn new(features: &wgpu::Features, limits: &wgpu::Limits) -> Staging {
        use wgpu::BufferUsages as Usage;
        let mappable = features.contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
        Staging {
            uploads: Arc::new(Shelf::new(Usage::MAP_WRITE | Usage::COPY_SRC, true)),
            downloads: Arc::new(Shelf::new(Usage::MAP_READ | Usage::COPY_DST, false)),
            args: Arc::new(ArgsShelf {
                mappable,
                align: u64::from(limits.min_uniform_buffer_offset_alignment).max(16),
                free: Mutex::default(),
                busy: Mutex::default(),
            }),
        }
    }
}

/// Buffers of one usage in two sizes.
pub(crate) struct Shelf {
    usage: wgpu::BufferUsages,
    /// Whether the buffers on the shelf are mapped.
    mapped: bool,
    free: Mutex<[Vec<wgpu::Buffer>; 2]>,
    bytes: AtomicU64,
    busy: Mutex<VecDeque<Submission>>,
}

impl Shelf {
    fn new(usage: wgpu::BufferUsages, mapped: bool) -> Shelf {
        Shelf { usage, mapped, free: Mutex::default(), bytes: AtomicU64::new(0), busy: Mutex::default() }
    }

    /// A buffer for so many bytes, or the largest one.
    pub(crate) fn take(&self, gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
        let (class, size) = if bytes <= SMALL { (0, SMALL) } else { (1, LARGE) };
        let pop = || self.free.lock()[class].pop();
        if let Some(buffer) = pop() {
            return Ok(buffer);
        }
        gpu.poll()?;
        loop {
            if let Some(buffer) = pop() {
                return Ok(buffer);
            }
            let oldest = match self.bytes.load(Ordering::Relaxed) + size <= LIMIT {
                true => None,
                false => self.busy.lock().pop_front(),
            };
            // If nothing is in flight, other batches hold the rest and must not be waited for.
            let Some(oldest) = oldest else { break };
            gpu.wait(&oldest, None)?;
            gpu.poll()?;
        }
        let buffer = gpu.buffer(size, self.usage, self.mapped)?;
        self.bytes.fetch_add(size, Ordering::Relaxed);
        Ok(buffer)
    }

    /// Notes that a submission holds buffers of this shelf.
    pub(crate) fn used_by(&self, gpu: &Gpu, submission: &Submission) {
        let mut busy = self.busy.lock();
        while busy.front().is_some_and(|s| gpu.is_finished(s)) {
            busy.pop_front();
        }
        busy.push_back(submission.clone());
    }

    /// Puts a buffer back; it is mapped if this shelf's buffers are.
    pub(crate) fn put(&self, buffer: wgpu::Buffer) {
        let class = usize::from(buffer.size() > SMALL);
        self.free.lock()[class].push(buffer);
    }

    /// Counts out a buffer that does not come back.
    pub(crate) fn forget(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Has a written buffer mapped and put back when its submission is finished.
    pub(crate) fn recycle(self: &Arc<Shelf>, buffer: wgpu::Buffer) {
        let shelf = Arc::downgrade(self);
        let (returned, size) = (buffer.clone(), buffer.size());
        buffer.map_async(wgpu::MapMode::Write, .., move |mapped| {
            if let Some(shelf) = Weak::upgrade(&shelf) {
                match mapped {
                    Ok(()) => shelf.put(returned),
                    Err(_) => shelf.forget(size),
                }
            }
        });
    }
}

/// A buffer of arguments with what kernels bind of it.
pub(crate) struct ArgsBuffer {
    buffer: wgpu::Buffer,
    few: wgpu::BindGroup,
    many: OnceLock<wgpu::BindGroup>,
}

/// Buffers of arguments.
pub(crate) struct ArgsShelf {
    /// Whether a kernel can read what the host maps.
    mappable: bool,
    align: u64,
    free: Mutex<Vec<Arc<ArgsBuffer>>>,
    busy: Mutex<VecDeque<Submission>>,
}

/// Arguments of the launches of one batch.
#[derive(Default)]
pub(crate) struct Args {
    /// What was written into the open buffer so far.
    bytes: Vec<u8>,
    open: Option<Arc<ArgsBuffer>>,
    full: Vec<Arc<ArgsBuffer>>,
}

impl Args {
    /// Writes a launch's words and gives the bind group and the offset under which a kernel finds them.
    pub(crate) fn push(&mut self, gpu: &Gpu, words: &[u32]) -> Result<(wgpu::BindGroup, u32)> {
        let shelf = &gpu.staging.args;
        let size = std::mem::size_of_val(words) as u64;
        let window = if size <= FEW_ARGS { FEW_ARGS } else { MANY_ARGS };
        if size > window {
            return Err(Error::internal(format!("a kernel with {} words of arguments", words.len())));
        }
        let mut at = (self.bytes.len() as u64).next_multiple_of(shelf.align);
        if at + window > ARGS {
            self.seal(gpu)?;
            at = 0;
        }
        let buffer = match &self.open {
            Some(buffer) => buffer,
            None => self.open.insert(shelf.take(gpu)?),
        };
        self.bytes.resize(at as usize, 0);
        self.bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        let group = match window {
            FEW_ARGS => &buffer.few,
            _ => match buffer.many.get() {
                Some(group) => group,
                None => {
                    let group = shelf.group(gpu, &buffer.buffer, MANY_ARGS)?;
                    buffer.many.get_or_init(|| group)
                }
            },
        };
        Ok((group.clone(), at as u32))
    }

    /// Writes what was gathered to the device's side. Nothing more can be added to that buffer.
    pub(crate) fn seal(&mut self, gpu: &Gpu) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let written = match gpu.staging.args.mappable {
            true => gpu.call(What::Launch, || {
                let end = self.bytes.len().next_multiple_of(4) as u64;
                self.bytes.resize(end as usize, 0);
                match open.buffer.get_mapped_range_mut(0..end) {
                    Ok(mut view) => view.copy_from_slice(&self.bytes),
                    Err(e) => return Err(Error::launch(format!("{}: {e}", gpu.name))),
                }
                open.buffer.unmap();
                Ok(())
            })?,
            false => gpu.call(What::Launch, || {
                gpu.queue.write_buffer(&open.buffer, 0, &self.bytes);
                Ok(())
            })?,
        };
        self.bytes.clear();
        self.full.push(open);
        written
    }

    /// Sends the buffers back to their shelf behind this submission.
    pub(crate) fn submitted(&mut self, gpu: &Gpu, submission: &Submission) -> Result<()> {
        if self.full.is_empty() {
            return Ok(());
        }
        let shelf = &gpu.staging.args;
        if !shelf.mappable {
            // The next write to it comes behind this submission by the queue's order.
            shelf.free.lock().append(&mut self.full);
            return Ok(());
        }
        let mut busy = shelf.busy.lock();
        while busy.front().is_some_and(|s| gpu.is_finished(s)) {
            busy.pop_front();
        }
        busy.push_back(submission.clone());
        drop(busy);
        gpu.call(What::Launch, || {
            for buffer in self.full.drain(..) {
                let (shelf, returned) = (Arc::downgrade(shelf), buffer.clone());
                buffer.buffer.map_async(wgpu::MapMode::Write, .., move |mapped| {
                    if let (Some(shelf), Ok(())) = (shelf.upgrade(), mapped) {
                        shelf.free.lock().push(returned);
                    }
                });
            }
        })
    }
}

impl ArgsShelf {
    fn take(&self, gpu: &Gpu) -> Result<Arc<ArgsBuffer>> {
        if let Some(buffer) = self.free.lock().pop() {
            return Ok(buffer);
        }
        if self.mappable {
            gpu.poll()?;
            if self.busy.lock().len() >= ARGS_LIMIT {
                let oldest = self.busy.lock().pop_front();
                if let Some(oldest) = oldest {
                    gpu.wait(&oldest, None)?;
                    gpu.poll()?;
                }
            }
            if let Some(buffer) = self.free.lock().pop() {
                return Ok(buffer);
            }
        }
        let other = if self.mappable { wgpu::BufferUsages::MAP_WRITE } else { wgpu::BufferUsages::COPY_DST };
        let buffer = gpu.buffer(ARGS, wgpu::BufferUsages::UNIFORM | other, self.mappable)?;
        let few = self.group(gpu, &buffer, FEW_ARGS)?;
        Ok(Arc::new(ArgsBuffer { buffer, few, many: OnceLock::new() }))
    }

    fn group(&self, gpu: &Gpu, buffer: &wgpu::Buffer, bytes: u64) -> Result<wgpu::BindGroup> {
        let binding = wgpu::BufferBinding { buffer, offset: 0, size: wgpu::BufferSize::new(bytes) };
        gpu.call(What::Launch, || {
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: gpu.binds.args(),
                entries: &[wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(binding) }],
            })
        })
    }
}
