//! Streams: queues of work that run in order, and the events between them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{Backend, BackendStream, Priority};
use crate::error::Result;
use crate::event::Event;
use crate::memory::StreamId;

/// A queue of work on one device. Cheap to clone; clones are the same queue.
#[derive(Clone)]
pub struct Stream {
    handle: Arc<dyn BackendStream>,
    priority: Priority,
}

impl Stream {
    /// A new queue on the device behind this backend.
    pub(crate) fn new(backend: &dyn Backend, priority: Priority) -> Result<Stream> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = StreamId(NEXT.fetch_add(1, Ordering::Relaxed));
        Ok(Stream { handle: backend.stream(id, priority)?, priority })
    }

    /// Its number, unique in the process.
    pub fn id(&self) -> StreamId {
        self.handle.id()
    }

    /// How urgent its work is.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether work is finished when the call that queued it returns.
    pub fn is_synchronous(&self) -> bool {
        self.handle.is_synchronous()
    }

    /// An event that completes when all work so far is finished.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new();
        self.handle.record(&event)?;
        Ok(event)
    }

    /// Like [`Stream::record`], with the time of completion, so that two such events give the time between them.
    pub fn record_timed(&self) -> Result<Event> {
        let event = Event::timed();
        self.handle.record(&event)?;
        Ok(event)
    }

    /// Lets work after this call start only when the event is complete.
    pub fn depend(&self, event: &Event) -> Result<()> {
        // Without asking the device: a stream of the same device orders itself behind the event for less.
        if event.is_over() {
            return event.wait();
        }
        self.handle.depend(event)
    }

    /// Whether [`Stream::depend`] on this event returns at once: the device waits for it by itself, or it is over. Where not, the
    /// calling thread would wait, and may have something better to do.
    pub fn awaits(&self, event: &Event) -> bool {
        event.is_over() || self.handle.awaits(event)
    }

    /// Hands work to the device that may only have been gathered so far, for whoever will wait much later or not at all.
    pub fn flush(&self) -> Result<()> {
        self.handle.flush()
    }

    /// Waits until all work so far is finished.
    pub fn synchronize(&self) -> Result<()> {
        self.handle.synchronize()
    }

    /// The backend's own stream.
    pub(crate) fn handle(&self) -> &dyn BackendStream {
        &*self.handle
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({}, {:?})", self.id().0, self.priority)
    }
}
