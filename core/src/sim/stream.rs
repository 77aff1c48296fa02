//! The streams of a simulated device that queues, and their events: where failures of queued work show.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::recording::Recorded;
use super::{Late, Sim, lost};
use crate::backend::BackendStream;
use crate::error::{Error, Result};
use crate::event::{DeviceEvent, Event};
use crate::memory::StreamId;

/// A stream of the wrapped device, seen as one that queues.
pub(super) struct SimStream {
    inner: Arc<dyn BackendStream>,
    sim: Sim,
    /// The launches of a capture in progress.
    pub recording: Mutex<Option<Vec<Recorded>>>,
    /// When the last copy that takes its time is over.
    copying: Mutex<Option<Instant>>,
}

impl SimStream {
    pub fn new(inner: Arc<dyn BackendStream>, sim: Sim) -> SimStream {
        SimStream { inner, sim, recording: Mutex::new(None), copying: Mutex::new(None) }
    }

    /// Holds the stream up, as a copy does that takes so long, behind those before it.
    pub fn delay(&self, delay: Duration) -> Result<()> {
        let end = {
            let mut copying = self.copying.lock();
            let start = copying.map_or_else(Instant::now, |end| end.max(Instant::now()));
            *copying.insert(start + delay)
        };
        let over = Event::new();
        let timer = over.clone();
        let clock = move || {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            timer.signal();
        };
        let began = std::thread::Builder::new().name("millstream-sim".into()).spawn(clock);
        began.map_err(|e| Error::launch(format!("the clock of a slow copy could not start: {e}")))?;
        self.inner.depend(&over)
    }
}

/// The wrapped device's stream behind this one.
pub(super) fn wrapped(stream: &dyn BackendStream) -> &dyn BackendStream {
    stream.as_any().downcast_ref::<SimStream>().map_or(stream, |s| &*s.inner)
}

impl BackendStream for SimStream {
    fn id(&self) -> StreamId {
        self.inner.id()
    }

    fn record(&self, event: &Event) -> Result<()> {
        self.sim.alive()?;
        let (doomed, hung, life) = {
            let s = self.sim.state();
            (s.doomed, s.hanging, s.life)
        };
        if doomed == Some(Late::Record) {
            return Err(self.sim.lose());
        }
        let inner = if event.is_timed() { Event::timed() } else { Event::new() };
        self.inner.record(&inner)?;
        event.attach(Arc::new(SimEvent { inner, sim: self.sim.clone(), doomed: doomed.is_some(), hung, life }));
        Ok(())
    }

    fn depend(&self, event: &Event) -> Result<()> {
        let source = event.source();
        match source.as_ref().and_then(|s| s.as_any().downcast_ref::<SimEvent>()) {
            // Work of the wrapped device is done when it is queued: only the news of a failure or of the end is held back.
            Some(own) => self.inner.depend(&own.inner),
            None => self.inner.depend(event),
        }
    }

    fn awaits(&self, event: &Event) -> bool {
        match event.source().as_ref().and_then(|s| s.as_any().downcast_ref::<SimEvent>()) {
            Some(own) => self.inner.awaits(&own.inner),
            None => self.inner.awaits(event),
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.sim.alive()?;
        self.sim.wait_while_hanging(None);
        if self.sim.state().doomed.is_some() {
            return Err(self.sim.lose());
        }
        self.inner.synchronize()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct SimEvent {
    inner: Event,
    sim: Sim,
    /// Recorded behind work that has failed.
    doomed: bool,
    /// Recorded behind work that hangs.
    hung: bool,
    /// The life of the device in which it was recorded.
    life: u64,
}

impl SimEvent {
    fn failure(&self) -> Result<()> {
        match self.doomed {
            true if self.life == self.sim.state().life => Err(self.sim.lose()),
            true => Err(lost_late()),
            false => Ok(()),
        }
    }
}

impl DeviceEvent for SimEvent {
    fn query(&self) -> Result<bool> {
        if self.hung && self.sim.state().hanging {
            return Ok(false);
        }
        self.failure()?;
        self.inner.error().map_or_else(|| Ok(self.inner.is_complete()), Err)
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        let end = timeout.and_then(|t| Instant::now().checked_add(t));
        if self.hung && !self.sim.wait_while_hanging(end) {
            return Ok(false);
        }
        self.failure()?;
        match end {
            Some(end) => self.inner.wait_timeout(end.saturating_duration_since(Instant::now())),
            None => self.inner.wait().map(|()| true),
        }
    }

    fn notify(&self, event: &Event) -> Result<()> {
        if self.hung && self.sim.state().hanging {
            self.sim.state().awaited.push(event.clone());
            return Ok(());
        }
        match self.wait(None) {
            Ok(_) => event.signal(),
            Err(e) => event.fail(e),
        }
        Ok(())
    }

    fn elapsed_since(&self, earlier: &dyn DeviceEvent) -> Option<Duration> {
        let earlier = earlier.as_any().downcast_ref::<SimEvent>()?;
        self.inner.elapsed_since(&earlier.inner)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The error of a device that was lost by work queued earlier.
pub(super) fn lost_late() -> crate::error::Error {
    lost().through("work that was queued earlier".to_string())
}
