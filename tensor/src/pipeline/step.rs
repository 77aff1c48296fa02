//! The steps that each item goes through, and the queue of each.

use std::time::{Duration, Instant};

use millstream_core::{Buffer, Device, Error, Event, Priority, Result, Stream, Support};
use smallvec::SmallVec;

use super::Stage;
use super::statistics::Busy;
use crate::Tensor;
use crate::graph::Node;

/// The tensors of an item.
pub(super) type Tensors = SmallVec<[Tensor; 2]>;

/// The events that complete a step; none where it is done.
pub(super) type Done = SmallVec<[Event; 2]>;

/// What is done with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is brought to the device.
    Upload,
    /// The stage of this number computes it.
    Stage(usize),
    /// It is brought from the device to the host.
    Download,
}

/// A step, with a stream of its own on its device.
pub(super) struct Step {
    pub kind: Kind,
    pub device: Device,
    stream: Stream,
    /// Whether the stream goes back to the device.
    taken: bool,
    pub busy: Busy,
    /// How long the pipeline waited for it.
    pub waited: Duration,
}

/// Whether the steps work within the calls that begin them, or on streams that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Within,
    Queued,
}

impl Step {
    fn new(kind: Kind, device: &Device, work: Work) -> Result<Step> {
        // A device that stands for others chooses one for each computation, and a stream of its own.
        let taken = work == Work::Queued && device.candidates().is_empty();
        let stream = if taken { device.take_stream(Priority::Normal)? } else { device.stream().clone() };
        let device = device.clone();
        Ok(Step { kind, device, stream, taken, busy: Busy::default(), waited: Duration::ZERO })
    }

    /// The steps of these stages.
    pub fn all(stages: &[Stage<'_>], keep_on_device: bool, work: Work) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        let result = (|| {
            let mut before: Option<&Device> = None;
            for (number, stage) in stages.iter().enumerate() {
                let device = &stage.device;
                let moves = before.is_none_or(|b| !b.same(device));
                let direct = |from: &Device| travels(device) && from.reaches(device) == Support::Native;
                if let Some(from) = before.filter(|b| moves && travels(b) && !direct(b)) {
                    steps.push(Step::new(Kind::Download, from, work)?);
                }
                if moves && travels(device) {
                    steps.push(Step::new(Kind::Upload, device, work)?);
                }
                steps.push(Step::new(Kind::Stage(number), device, work)?);
                before = Some(device);
            }
            if let Some(last) = before.filter(|d| travels(d) && !keep_on_device) {
                steps.push(Step::new(Kind::Download, last, work)?);
            }
            Ok(())
        })();
        match result {
            Ok(()) => Ok(steps),
            Err(error) => {
                steps.into_iter().for_each(Step::give_back);
                Err(error)
            }
        }
    }

    /// Gives its stream back, on which nothing is under way.
    pub fn give_back(self) {
        if self.taken {
            self.device.return_stream(self.stream);
        }
    }

    pub fn name(&self) -> String {
        match self.kind {
            Kind::Upload => "upload".into(),
            Kind::Stage(n) => format!("stage {}", n + 1),
            Kind::Download => "download".into(),
        }
    }

    /// The event for which the calling thread would have to wait if the step were begun now; `None` if it can be begun.
    pub fn held_up_by(&self, tensors: &[Tensor], last: &[Event]) -> Option<Event> {
        let buffers = tensors.iter().filter_map(|t| t.node.value()?.as_ref().ok());
        // The host's memory is read by whoever queues a copy from it.
        let reads_host = self.kind == Kind::Upload && buffers.clone().all(|b| b.device().is_host());
        let waits = |e: &Event| if reads_host { !e.is_complete() } else { !self.stream.awaits(e) };
        last.iter().cloned().chain(buffers.filter_map(|b| b.event())).find(waits)
    }

    /// Queues the step, or does it: what it gives, and the events that complete it.
    pub fn begin(&mut self, stages: &[Stage<'_>], tensors: &[Tensor]) -> Result<(Tensors, Done)> {
        let queues = !self.stream.is_synchronous();
        let sample = queues && self.busy.samples();
        let before = if sample { Some(self.begun(tensors)?) } else { None };
        let started = (!queues).then(Instant::now);
        let given = match self.kind {
            Kind::Upload => self.upload(tensors)?,
            Kind::Stage(n) => stages[n].function.queue(tensors, &self.device, &self.stream)?,
            Kind::Download => self.download(tensors)?,
        };
        // A stream tells of a failure once, by the first event behind it: the one of what is given.
        let mut done = Done::new();
        for event in given.iter().filter_map(|t| t.node.value()?.as_ref().ok()?.event()) {
            if !done.iter().any(|known| known.same(&event)) {
                done.push(event);
            }
        }
        if let Some(started) = started {
            self.busy.within(started.elapsed());
            done.retain(|event| !event.is_complete() || event.error().is_some());
            return Ok((given, done));
        }
        if sample || done.is_empty() {
            done.push(if sample { self.stream.record_timed()? } else { self.stream.record()? });
        }
        self.stream.flush()?;
        self.busy.queued(before.and_then(|before| Some((before, done.last()?.clone()))));
        Ok((given, done))
    }

    /// The moment at which the device can begin the step.
    fn begun(&self, tensors: &[Tensor]) -> Result<Event> {
        let buffers = tensors.iter().filter_map(|t| t.node.value()?.as_ref().ok());
        for event in buffers.filter_map(|b| b.event()).filter(|e| e.error().is_none()) {
            self.stream.depend(&event)?;
        }
        self.stream.record_timed()
    }

    fn upload(&self, tensors: &[Tensor]) -> Result<Tensors> {
        let up = |t: &Tensor| {
            let buffer = t.buffer()?;
            let copy = match buffer.device().reaches(&self.device) {
                // Memory of the device alone, so that what the program keeps of its items is not kept there.
                Support::Native => buffer.copied_to(&self.device, &self.stream)?,
                Support::No(_) => {
                    buffer.on(&self.device, &self.stream)?;
                    buffer
                }
            };
            Ok(placed(t, copy, &self.device))
        };
        tensors.iter().map(up).collect()
    }

    fn download(&self, tensors: &[Tensor]) -> Result<Tensors> {
        let host = self.device.host();
        let down = |t: &Tensor| {
            let buffer = t.buffer()?;
            let from = buffer.device();
            let copy = buffer.copied_to(&host, if from.same(&self.device) { &self.stream } else { from.stream() })?;
            Ok(placed(t, copy, &host))
        };
        tensors.iter().map(down).collect()
    }

    /// Predicted seconds of a copy of so many bytes.
    pub fn moving(&self, bytes: usize) -> Result<f64> {
        let host = self.device.host();
        match self.kind {
            Kind::Upload => Ok(host.seconds_to(&self.device, bytes)),
            Kind::Download => Ok(self.device.seconds_to(&host, bytes)),
            Kind::Stage(_) => Err(Error::internal("a stage is no copy")),
        }
    }
}

/// The tensor over this buffer, for computing on a device.
fn placed(tensor: &Tensor, buffer: Buffer, device: &Device) -> Tensor {
    let node = &tensor.node;
    let node = Node::ready(Ok(buffer), node.shape.clone(), node.dtype, Some(device.clone()), node.location);
    Tensor { node, layout: tensor.layout.clone() }
}

/// Whether values have to travel to the device and back.
fn travels(device: &Device) -> bool {
    !device.is_host() && device.candidates().is_empty()
}
