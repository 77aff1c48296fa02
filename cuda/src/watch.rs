//! Waiting for the device without burning a core, and being called when it has passed an event.
//!
//! A *watcher* is a stream of its own with one event that blocks. To watch an event, the watcher's stream is made to wait
//! for it, so the stream that recorded it is not touched and what is queued there later does not count. Watchers are
//! reused; each serves one watch at a time, so no watch waits for another.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_core::{Error, Result};
use parking_lot::Mutex;

use crate::context::Context;
use crate::sys::Status;
use crate::sys::driver::{self as sys, Driver, number};

/// What is called, once, when the device has passed an event or will never do so.
type Then = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Clone, Copy)]
struct Watcher {
    stream: sys::Stream,
    event: sys::Event,
}

/// The watchers of a context and what they wait for.
#[derive(Default)]
pub(crate) struct Watchers {
    idle: Mutex<Vec<Watcher>>,
    pending: Mutex<HashMap<u64, Then>>,
    next: AtomicU64,
}

/// What a callback of the driver gets.
struct Ticket {
    watchers: Arc<Watchers>,
    watcher: Watcher,
    id: u64,
    device: String,
    driver: &'static Driver,
}

impl Watchers {
    fn take(&self, context: &Context) -> Result<Watcher> {
        if let Some(watcher) = self.idle.lock().pop() {
            return Ok(watcher);
        }
        let mut watcher = Watcher { stream: sys::Stream::NULL, event: sys::Event::NULL };
        let flags = number::EVENT_BLOCKING_SYNC | number::EVENT_DISABLE_TIMING;
        // SAFETY: the driver writes a handle each.
        unsafe {
            context.check(
                (context.driver.stream_create)(&mut watcher.stream, number::STREAM_NON_BLOCKING, 0),
                "making a stream to wait with",
            )?;
            context.check((context.driver.event_create)(&mut watcher.event, flags), "making an event to wait with")?;
        }
        Ok(watcher)
    }

    /// Blocks until the device has passed the event, asleep.
    pub(crate) fn block(&self, context: &Context, event: sys::Event) -> Result<()> {
        let watcher = self.take(context)?;
        let driver = context.driver;
        // SAFETY: all handles are of this context, which lives.
        let waited = unsafe {
            context
                .check((driver.stream_wait_event)(watcher.stream, event, 0), "waiting for an event")
                .and_then(|()| {
                    context.check((driver.event_record)(watcher.event, watcher.stream), "waiting for an event")
                })
                .and_then(|()| context.check((driver.event_synchronize)(watcher.event), "waiting for the device"))
        };
        self.idle.lock().push(watcher);
        waited
    }

    /// Calls `then` when the device has passed the event, from a thread of the driver's that must not call CUDA; or with
    /// an error when the device is lost.
    pub(crate) fn watch(self: &Arc<Self>, context: &Context, event: sys::Event, then: Then) -> Result<()> {
        let watcher = self.take(context)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.pending.lock().insert(id, then);
        let ticket =
            Ticket { watchers: self.clone(), watcher, id, device: context.name.clone(), driver: context.driver };
        let ticket = Box::into_raw(Box::new(ticket));
        let driver = context.driver;
        // SAFETY: all handles are of this context; the callback gets the ticket exactly once if the call succeeds.
        let queued = unsafe {
            match (driver.stream_wait_event)(watcher.stream, event, 0) {
                0 => (driver.stream_callback)(watcher.stream, called, ticket.cast::<c_void>(), 0),
                status => status,
            }
        };
        if queued != 0 {
            // SAFETY: the driver did not take the ticket.
            drop(unsafe { Box::from_raw(ticket) });
            self.pending.lock().remove(&id);
            self.idle.lock().push(watcher);
        }
        let outcome = context.check(queued, "asking to be told of an event");
        // The device may have been lost between the insertion and the call.
        if let Some(error) = context.loss() {
            self.fail_all(error);
        }
        outcome
    }

    fn complete(&self, id: u64, outcome: Result<()>) {
        // Called without the lock: it wakes others, who may come here.
        let then = self.pending.lock().remove(&id);
        if let Some(then) = then {
            then(outcome);
        }
    }

    /// Tells everybody who waits that the device is lost.
    pub(crate) fn fail_all(&self, error: &Error) {
        let all: Vec<Then> = self.pending.lock().drain().map(|(_, then)| then).collect();
        for then in all {
            then(Err(error.clone()));
        }
    }

    /// Gives the watchers back to the driver. The context is current.
    pub(crate) fn destroy(&self, driver: &Driver) {
        for watcher in self.idle.lock().drain(..) {
            // SAFETY: idle watchers are used by nobody.
            unsafe {
                (driver.event_destroy)(watcher.event);
                (driver.stream_destroy)(watcher.stream);
            }
        }
    }
}

/// Called by the driver, on a thread of its own.
unsafe extern "C" fn called(_: sys::Stream, status: Status, data: *mut c_void) {
    // SAFETY: `watch` gave this pointer away for this one call.
    let ticket = unsafe { Box::from_raw(data.cast::<Ticket>()) };
    let outcome = match status {
        0 => Ok(()),
        code => {
            Err(crate::error::driver_error(ticket.driver, code, &format!("{}: waiting for an event", ticket.device)))
        }
    };
    // A panic must not cross into the driver.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ticket.watchers.complete(ticket.id, outcome)));
    if status == 0 {
        ticket.watchers.idle.lock().push(ticket.watcher);
    }
}
