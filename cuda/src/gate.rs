//! Letting a stream wait for something that happens on the host or on a foreign device.
//!
//! The stream waits for a number in pinned memory (`cuStreamWaitValue32`), and whoever completes the event writes it:
//! neither the calling thread nor a thread of the driver's is blocked. Where the device cannot do that, a function that
//! the driver calls in the stream's order blocks instead.
//!
//! Streams beyond the number of hardware queues share them, so a gate can also hold up a stream that shares the queue.

use std::ffi::c_void;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};

use millstream_core::event::{Event, EventFuture};
use millstream_core::{Error, Result};
use parking_lot::Mutex;

use crate::context::Context;
use crate::error::NOT_SUPPORTED;
use crate::sys::driver::{self as sys, Driver, number};

/// Numbers in one piece of pinned memory.
const PAGE: usize = 1024;

/// One number in pinned memory. It only grows, so a slot can be used again while an earlier wait is still queued.
#[derive(Clone, Copy)]
struct Slot {
    host: *const AtomicU32,
    device: sys::DevicePtr,
    value: u32,
}

// SAFETY: the number is atomic and its memory lives as long as the context.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// The slots of a context.
#[derive(Default)]
pub(crate) struct Slots {
    idle: Mutex<Vec<Slot>>,
    pages: Mutex<Vec<usize>>,
}

impl Slots {
    fn take(&self, context: &Context) -> Result<Slot> {
        let mut idle = self.idle.lock();
        if idle.is_empty() {
            let bytes = PAGE * size_of::<u32>();
            let flags = number::HOST_PORTABLE | number::HOST_DEVICE_MAP;
            let (mut host, mut device) = (std::ptr::null_mut::<c_void>(), 0);
            // SAFETY: the driver writes an address each; the new memory is ours alone while it is cleared.
            unsafe {
                context.check((context.driver.mem_host_alloc)(&mut host, bytes, flags), "allocating pinned memory")?;
                host.cast::<u8>().write_bytes(0, bytes);
                context.check(
                    (context.driver.mem_host_device_pointer)(&mut device, host, 0),
                    "asking for the address of pinned memory",
                )?;
            }
            self.pages.lock().push(host as usize);
            let base = host.cast::<AtomicU32>().cast_const();
            idle.extend((0..PAGE).map(|i| Slot {
                host: base.wrapping_add(i),
                device: device + (i * size_of::<u32>()) as u64,
                value: 0,
            }));
        }
        let mut slot = idle.pop().ok_or_else(|| Error::internal("a new page of slots is empty"))?;
        slot.value = slot.value.wrapping_add(1);
        Ok(slot)
    }

    fn give(&self, slot: Slot) {
        self.idle.lock().push(slot);
    }

    /// Gives the memory back. The context is current and its streams are gone.
    pub(crate) fn destroy(&self, driver: &Driver) {
        self.idle.lock().clear();
        for page in self.pages.lock().drain(..) {
            // SAFETY: `take` allocated the page; no slot of it is in use.
            unsafe { (driver.mem_host_free)(page as *mut c_void) };
        }
    }
}

/// A stream's wait for an event that is not CUDA's.
pub(crate) struct Gate {
    context: Arc<Context>,
    slot: Slot,
    event: Event,
    future: Mutex<Option<Pin<Box<EventFuture>>>>,
    again: AtomicBool,
    open: AtomicBool,
    failure: OnceLock<Error>,
}

impl Gate {
    /// Makes the stream wait for the event. The context is current.
    pub(crate) fn close(context: &Arc<Context>, stream: sys::Stream, event: &Event) -> Result<Arc<Gate>> {
        let slot = context.slots.take(context)?;
        let gate = Arc::new(Gate {
            context: context.clone(),
            slot,
            event: event.clone(),
            future: Mutex::new(Some(Box::pin(event.into_future()))),
            again: AtomicBool::new(false),
            open: AtomicBool::new(false),
            failure: OnceLock::new(),
        });
        let status = match context.driver.wait_value32 {
            // SAFETY: the number lives in pinned memory that the device addresses.
            Some(wait) => unsafe { wait(stream, slot.device, slot.value, number::WAIT_VALUE_GEQ) },
            None => NOT_SUPPORTED,
        };
        if status == NOT_SUPPORTED {
            let data = Arc::into_raw(gate.clone()).cast_mut().cast::<c_void>();
            // SAFETY: the function gets the reference exactly once if the call succeeds.
            let status = unsafe { (context.driver.launch_host)(stream, block, data) };
            if status != 0 {
                // SAFETY: the driver did not take the reference.
                drop(unsafe { Arc::from_raw(data.cast::<Gate>().cast_const()) });
            }
            context.check(status, "making a stream wait for the host")?;
        } else {
            context.check(status, "making a stream wait for the host")?;
        }
        gate.poll();
        Ok(gate)
    }

    /// Whether the event is over, well or not.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Waits for the event; a failed event gives its failure.
    pub(crate) fn wait(&self) -> Result<()> {
        self.event.wait()
    }

    /// How the event failed, if it did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Looks whether the event is over; if so, lets the stream go on.
    fn poll(self: &Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        // The event may call `wake` from inside its own `poll`: whoever holds the lock looks once more.
        while self.again.load(Ordering::SeqCst) {
            let Some(mut held) = self.future.try_lock() else { return };
            self.again.store(false, Ordering::SeqCst);
            let Some(future) = held.as_mut() else { return };
            let waker = Waker::from(self.clone());
            if let Poll::Ready(outcome) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
                let done = held.take();
                drop(held);
                drop(done);
                if let Err(error) = outcome {
                    let _ = self.failure.set(error);
                }
                self.open.store(true, Ordering::Release);
                // Pinned memory of a lost context may be gone, and nothing waits there any more.
                if self.context.loss().is_none() {
                    // SAFETY: the slot's memory lives as long as the context, which the gate holds.
                    unsafe { &*self.slot.host }.store(self.slot.value, Ordering::Release);
                    self.context.slots.give(self.slot);
                }
                return;
            }
        }
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

/// Blocks a thread of the driver's until the gate is open: only where the device cannot wait for a number.
unsafe extern "C" fn block(data: *mut c_void) {
    // SAFETY: `close` gave this reference away for this one call.
    let gate = unsafe { Arc::from_raw(data.cast::<Gate>().cast_const()) };
    while !gate.is_open() && gate.context.loss().is_none() {
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}
