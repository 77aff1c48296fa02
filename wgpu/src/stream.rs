//! Streams: commands gathered into batches, each batch one submission.
//!
//! A batch goes to the driver when somebody waits for it, asks for an event in it, depends on one, or flushes the stream;
//! when a large copy has filled a staging buffer; or when it has grown long. The device has one queue, so streams are
//! ordered among each other by the order of their submissions.

use std::any::Any;
use std::sync::{Arc, Weak};

use millstream_core::backend::BackendStream;
use millstream_core::memory::StreamId;
use millstream_core::{Error, Event, Result};
use parking_lot::{Mutex, MutexGuard};

use crate::bind::Key;
use crate::event::{Mark, Ticket};
use crate::gpu::{Gpu, What};
use crate::kernel::Compiled;
use crate::memory::Block;
use crate::staging::Args;
use crate::timer::Stamp;
use crate::transfer::{Download, Piece, Upload};

/// How many launches are gathered before they are submitted by themselves.
const LAUNCHES: u32 = 256;

/// A queue of work.
pub(crate) struct WgpuStream {
    id: StreamId,
    gpu: Arc<Gpu>,
    batch: Arc<Mutex<Batch>>,
}

/// The commands that are not yet submitted, and what must happen when they are.
#[derive(Default)]
pub(crate) struct Batch {
    /// Dropped before the encoder, which is locked while a pass is open.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    /// What the open pass has set last.
    buffers: Key,
    pipeline: Option<wgpu::ComputePipeline>,
    launches: u32,
    args: Args,
    pub(crate) upload: Option<Upload>,
    pub(crate) uploads: Vec<wgpu::Buffer>,
    pub(crate) pieces: Vec<Piece>,
    /// Downloads that may not be finished yet.
    pub(crate) downloads: Vec<Arc<Download>>,
    /// What the gathered commands become when they are submitted.
    ticket: Ticket,
    /// What was submitted last.
    last: Option<Ticket>,
}

/// One launch of a compiled entry.
pub(crate) struct Call<'a> {
    pub kernel: &'a Compiled,
    pub entry: usize,
    pub grid: [u32; 3],
    pub words: &'a [u32],
}

impl Batch {
    /// The recorder of commands, with no pass open.
    pub(crate) fn encoder(&mut self, gpu: &Gpu) -> Result<&mut wgpu::CommandEncoder> {
        self.end_pass(gpu)?;
        Ok(match &mut self.encoder {
            Some(encoder) => encoder,
            slot => slot.insert(gpu.encoder()?),
        })
    }

    fn end_pass(&mut self, gpu: &Gpu) -> Result<()> {
        match self.pass.take() {
            Some(pass) => gpu.call(What::Launch, || drop(pass)),
            None => Ok(()),
        }
    }

    /// Adds a launch on these buffers.
    pub(crate) fn launch(&mut self, gpu: &Gpu, call: &Call<'_>, blocks: &[&Block]) -> Result<()> {
        if blocks.len() != call.kernel.buffers {
            return Err(Error::internal(format!("a kernel for {} buffers got {}", call.kernel.buffers, blocks.len())));
        }
        let pipeline = call.kernel.pipeline(gpu, call.entry)?;
        let (args, offset) = self.args.push(gpu, call.words)?;
        let key: Key = blocks.iter().map(|block| block.id).collect();
        let is_new = self.pass.is_none();
        if is_new {
            let encoder = self.encoder(gpu)?;
            let pass = gpu.call(What::Launch, || encoder.begin_compute_pass(&Default::default()).forget_lifetime())?;
            self.pass = Some(pass);
        }
        let Some(pass) = &mut self.pass else { return Err(Error::internal("a pass that was begun is gone")) };
        if is_new || self.pipeline.as_ref() != Some(pipeline) {
            pass.set_pipeline(pipeline);
            self.pipeline = Some(pipeline.clone());
        }
        if is_new || self.buffers != key {
            let group = gpu.binds.group(gpu, &key, blocks)?;
            pass.set_bind_group(0, &group, &[]);
            self.buffers = key;
        }
        pass.set_bind_group(1, &args, &[offset]);
        let [x, y, z] = call.grid;
        pass.dispatch_workgroups(x, y, z);
        self.launches += 1;
        if self.launches >= LAUNCHES {
            self.submit(gpu)?;
        }
        Ok(())
    }

    /// Hands everything gathered so far to the driver. On an error the batch is dropped.
    pub(crate) fn submit(&mut self, gpu: &Gpu) -> Result<()> {
        let result = self.try_submit(gpu);
        if let Err(error) = &result {
            let _ = self.ticket.set(Err(error.clone()));
            self.drop_staging(gpu, error);
            *self =
                Batch { last: self.last.take(), downloads: std::mem::take(&mut self.downloads), ..Batch::default() };
        }
        result
    }

    fn try_submit(&mut self, gpu: &Gpu) -> Result<()> {
        self.end_pass(gpu)?;
        let Some(encoder) = self.encoder.take() else { return gpu.alive() };
        (self.launches, self.pipeline) = (0, None);
        self.buffers.clear();
        self.args.seal(gpu)?;
        self.close_upload(gpu)?;
        let commands = gpu.call(What::Launch, || encoder.finish())?;
        let submission = gpu.submit([commands])?;
        self.args.submitted(gpu, &submission)?;
        self.send_staging(gpu, &submission)?;
        // Nobody else sets it.
        let _ = self.ticket.set(Ok(submission));
        self.last = Some(std::mem::take(&mut self.ticket));
        Ok(())
    }

    /// The present moment: what is gathered, else what was submitted last, and the downloads that come with it.
    fn mark(&mut self, gpu: &Arc<Gpu>, batch: Weak<Mutex<Batch>>, stamp: Option<Stamp>) -> Mark {
        self.downloads.retain(|d| d.result().is_none_or(|r| r.is_err()));
        let gathered = self.pass.is_some() || self.encoder.is_some();
        let ticket = if gathered { Some(self.ticket.clone()) } else { self.last.clone() };
        let mark = Mark::new(gpu.clone(), ticket, batch, self.downloads.iter().cloned().collect(), stamp);
        // A failure is told once.
        self.downloads.retain(|d| d.result().is_none());
        mark
    }
}

impl WgpuStream {
    pub(crate) fn new(id: StreamId, gpu: Arc<Gpu>) -> WgpuStream {
        WgpuStream { id, gpu, batch: Arc::default() }
    }

    /// The stream behind a handle, if it is of this device.
    pub(crate) fn of<'a>(stream: &'a dyn BackendStream, gpu: &Arc<Gpu>) -> Result<&'a WgpuStream> {
        let stream = stream.as_any().downcast_ref::<WgpuStream>().filter(|s| Arc::ptr_eq(&s.gpu, gpu));
        stream.ok_or_else(|| Error::internal("a stream is not of this device"))
    }

    /// The commands gathered so far, for one to add to.
    pub(crate) fn batch(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock()
    }
}

impl BackendStream for WgpuStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn record(&self, event: &Event) -> Result<()> {
        let mut batch = self.batch.lock();
        let stamp = match &self.gpu.timer {
            Some(timer) if event.is_timed() => timer.stamp(&self.gpu, batch.encoder(&self.gpu)?)?,
            _ => None,
        };
        self.gpu.alive()?;
        let mark = batch.mark(&self.gpu, Arc::downgrade(&self.batch), stamp);
        drop(batch);
        event.attach(Arc::new(mark));
        Ok(())
    }

    fn depend(&self, event: &Event) -> Result<()> {
        if let Some(source) = event.source()
            && let Some(mark) = source.as_any().downcast_ref::<Mark>().filter(|mark| mark.is_of(&self.gpu))
        {
            // Once it is submitted, what this stream submits comes behind it; what this stream has gathered does anyway.
            if !mark.is_gathered_in(&self.batch) {
                mark.submission()?;
            }
            return self.gpu.alive();
        }
        // The device cannot wait for what happens elsewhere. What it has so far need not wait, though.
        self.batch.lock().submit(&self.gpu)?;
        event.wait()
    }

    fn awaits(&self, event: &Event) -> bool {
        let source = event.source();
        let own = source.as_ref().and_then(|s| s.as_any().downcast_ref::<Mark>());
        own.is_some_and(|mark| mark.is_of(&self.gpu)) || event.is_complete()
    }

    fn synchronize(&self) -> Result<()> {
        let mark = {
            let mut batch = self.batch.lock();
            batch.submit(&self.gpu)?;
            batch.mark(&self.gpu, Arc::downgrade(&self.batch), None)
        };
        mark.finish()
    }

    fn flush(&self) -> Result<()> {
        self.batch.lock().submit(&self.gpu)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for WgpuStream {
    fn drop(&mut self) {
        // Who waits for an event of this stream hears of a failure from it.
        let _ = self.batch.lock().submit(&self.gpu);
    }
}
