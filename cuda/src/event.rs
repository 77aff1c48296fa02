//! Events of CUDA as core's device events, and the store from which they are taken.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::Result;
use millstream_core::event::{DeviceEvent, Event};
use millstream_core::memory::StreamId;
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use crate::context::Context;
use crate::error::NOT_READY;
use crate::gate::Gate;
use crate::sys::driver::{self as sys, Driver, number};

/// Events that nobody uses. Making one costs a microsecond or two, taking one from here a few nanoseconds.
#[derive(Default)]
pub(crate) struct EventPool {
    idle: Mutex<[Vec<sys::Event>; 2]>,
}

impl EventPool {
    /// An event that notes the time, or one that does not.
    pub(crate) fn take(&self, context: &Context, timed: bool) -> Result<sys::Event> {
        if let Some(event) = self.idle.lock()[usize::from(timed)].pop() {
            return Ok(event);
        }
        let flags = if timed { 0 } else { number::EVENT_DISABLE_TIMING };
        let mut event = sys::Event::NULL;
        // SAFETY: the driver writes a handle.
        context.check(unsafe { (context.driver.event_create)(&mut event, flags) }, "making an event")?;
        Ok(event)
    }

    /// Keeps an event for the next user. It may still be pending: recording it anew does not disturb who waits for the
    /// earlier record, because waits refer to the record that was the last when they were queued.
    pub(crate) fn give(&self, event: sys::Event, timed: bool) {
        self.idle.lock()[usize::from(timed)].push(event);
    }

    /// Gives all events back to the driver. The context is current.
    pub(crate) fn destroy(&self, driver: &Driver) {
        for event in self.idle.lock().iter_mut().flat_map(|list| list.drain(..)) {
            // SAFETY: idle events are used by nobody.
            unsafe { (driver.event_destroy)(event) };
        }
    }
}

/// A moment on a CUDA stream.
pub(crate) struct CudaEvent {
    context: Arc<Context>,
    stream: StreamId,
    raw: sys::Event,
    timed: bool,
    /// What the stream had to wait for on the host's side, where that was not known to be well when this was recorded.
    gates: SmallVec<[Arc<Gate>; 0]>,
}

impl CudaEvent {
    /// An event that was recorded as `raw`, taken from the context's pool.
    pub(crate) fn new(
        context: Arc<Context>,
        stream: StreamId,
        raw: sys::Event,
        timed: bool,
        gates: SmallVec<[Arc<Gate>; 0]>,
    ) -> CudaEvent {
        CudaEvent { context, stream, raw, timed, gates }
    }

    pub(crate) fn raw(&self) -> sys::Event {
        self.raw
    }

    /// The stream that it was recorded on.
    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// Whether what the stream waited for on the host's side went well.
    fn outcome(&self) -> Result<()> {
        self.gates.iter().find_map(|gate| gate.failure()).map_or(Ok(()), Err)
    }
}

impl DeviceEvent for CudaEvent {
    fn query(&self) -> Result<bool> {
        self.context.enter()?;
        // SAFETY: the event is this context's and lives as long as `self`.
        match unsafe { (self.context.driver.event_query)(self.raw) } {
            NOT_READY => Ok(false),
            status => {
                self.context.check(status, "asking for an event")?;
                self.outcome().map(|()| true)
            }
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        if self.query()? {
            return Ok(true);
        }
        let Some(timeout) = timeout else {
            self.context.watchers.block(&self.context, self.raw)?;
            return self.outcome().map(|()| true);
        };
        let deadline = Instant::now().checked_add(timeout);
        let told = Arc::new((Mutex::new(None), Condvar::new()));
        let teller = told.clone();
        self.context.watchers.watch(
            &self.context,
            self.raw,
            Box::new(move |outcome| {
                *teller.0.lock() = Some(outcome);
                teller.1.notify_one();
            }),
        )?;
        let mut answer = told.0.lock();
        while answer.is_none() {
            match deadline {
                Some(deadline) if told.1.wait_until(&mut answer, deadline).timed_out() => break,
                Some(_) => {}
                None => told.1.wait(&mut answer),
            }
        }
        match answer.take() {
            None => Ok(false),
            Some(outcome) => outcome.and_then(|()| self.outcome()).map(|()| true),
        }
    }

    fn notify(&self, event: &Event) -> Result<()> {
        if self.query()? {
            event.signal();
            return Ok(());
        }
        let (event, gates) = (event.clone(), self.gates.clone());
        let then = move |outcome: Result<()>| match outcome.err().or_else(|| gates.iter().find_map(|g| g.failure())) {
            None => event.signal(),
            Some(error) => event.fail(error),
        };
        self.context.watchers.watch(&self.context, self.raw, Box::new(then))
    }

    fn elapsed_since(&self, earlier: &dyn DeviceEvent) -> Option<Duration> {
        let earlier = earlier.as_any().downcast_ref::<CudaEvent>()?;
        if !self.timed || !earlier.timed || self.context.enter().is_err() {
            return None;
        }
        let mut milliseconds = 0f32;
        // SAFETY: both events live; the driver refuses events of different contexts.
        let status = unsafe { (self.context.driver.event_elapsed)(&mut milliseconds, earlier.raw, self.raw) };
        (status == 0).then(|| Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if self.context.loss().is_none() {
            self.context.events.give(self.raw, self.timed);
        }
    }
}
