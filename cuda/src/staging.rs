//! Copies between the host's ordinary memory and the device, through pinned pieces.
//!
//! The device's copy engines read pinned memory only. A copy from or to other memory goes through *lanes*: sets of pinned
//! pieces, each with the event of its last use. While one piece travels, others are filled or emptied, by up to
//! [`THREADS`] threads when the copy is long. Small copies go straight through the driver, which stages them itself.
//!
//! An upload has read its source when the call returns; a download has written its target. A lane belongs to one copy at
//! a time, so that a copy on a stream that stands still does not hold up one on another stream.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream_core::{Error, Result};
use parking_lot::Mutex;

use crate::context::Context;
use crate::error::NOT_READY;
use crate::stream::CudaStream;
use crate::sys::driver::{self as sys, number};

/// Up to here the driver stages a copy itself, at least as fast.
const SMALL: usize = 64 << 10;
/// From here on several threads copy.
const LARGE: usize = 8 << 20;
/// Bytes of one piece.
const PIECE: usize = 2 << 20;
/// Bytes that travel at a time in copies that are not long: small, so that filling and travelling overlap.
const SHORT_PIECE: usize = 256 << 10;
/// The most threads of one copy, the caller's included.
const THREADS: usize = 4;
/// Pieces of each thread: one is filled while the other travels.
const PIECES_EACH: usize = 2;
/// Idle lanes that wait for later copies.
const IDLE_LANES: usize = 4;

/// A pinned piece and the event of its last use.
struct Piece {
    host: *mut u8,
    event: sys::Event,
    used: bool,
}

// SAFETY: the pointer is to memory that belongs to the piece; one thread has it at a time.
unsafe impl Send for Piece {}

/// The pieces of one copy.
struct Lane {
    context: Arc<Context>,
    memory: *mut c_void,
    pieces: Vec<Piece>,
}

// SAFETY: the memory belongs to the lane; one copy has it at a time.
unsafe impl Send for Lane {}

impl Lane {
    fn new(context: &Arc<Context>) -> Result<Lane> {
        let count = THREADS * PIECES_EACH;
        let mut memory = std::ptr::null_mut();
        // SAFETY: the driver writes an address.
        let status = unsafe { (context.driver.mem_host_alloc)(&mut memory, count * PIECE, number::HOST_PORTABLE) };
        context.check(status, "allocating pinned memory for copies")?;
        let mut lane = Lane { context: context.clone(), memory, pieces: Vec::with_capacity(count) };
        for i in 0..count {
            let mut event = sys::Event::NULL;
            let flags = number::EVENT_BLOCKING_SYNC | number::EVENT_DISABLE_TIMING;
            // SAFETY: the driver writes a handle.
            context.check(unsafe { (context.driver.event_create)(&mut event, flags) }, "making an event")?;
            let host = memory.cast::<u8>().wrapping_add(i * PIECE);
            lane.pieces.push(Piece { host, event, used: false });
        }
        Ok(lane)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.context.enter().is_err() {
            return;
        }
        for piece in &mut self.pieces {
            // The device may still read from it.
            let _ = piece.settle(&self.context);
            // SAFETY: nobody else has the event.
            unsafe { (self.context.driver.event_destroy)(piece.event) };
        }
        // SAFETY: `new` allocated it, and all uses are over.
        unsafe { (self.context.driver.mem_host_free)(self.memory) };
    }
}

impl Piece {
    /// Waits until the device has done with the piece: shortly awake, then asleep.
    fn settle(&mut self, context: &Context) -> Result<()> {
        if !std::mem::take(&mut self.used) {
            return Ok(());
        }
        let start = Instant::now();
        loop {
            // SAFETY: the event lives.
            match unsafe { (context.driver.event_query)(self.event) } {
                NOT_READY if start.elapsed() < Duration::from_micros(100) => std::hint::spin_loop(),
                NOT_READY => {
                    // SAFETY: the event lives.
                    return context.check(unsafe { (context.driver.event_synchronize)(self.event) }, "copying");
                }
                status => return context.check(status, "copying"),
            }
        }
    }

    /// Notes that the device uses the piece until it has passed what is queued now.
    fn mark(&mut self, context: &Context, stream: sys::Stream) -> Result<()> {
        // SAFETY: both handles live.
        context.check(unsafe { (context.driver.event_record)(self.event, stream) }, "copying")?;
        self.used = true;
        Ok(())
    }
}

/// The lanes of a device.
#[derive(Default)]
pub(crate) struct Staging {
    idle: Mutex<Vec<Lane>>,
}

/// A host address that the threads of one copy share, each using parts of its own.
#[derive(Clone, Copy)]
struct Host(*mut u8);

// SAFETY: only a number here; each thread uses parts that no other touches.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    fn at(self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// One copy, as its threads see it.
struct Job<'a> {
    stream: &'a CudaStream,
    way: Way,
    host: Host,
    device: sys::DevicePtr,
    bytes: usize,
    step: usize,
    next: AtomicUsize,
}

impl Staging {
    /// Copies from the host's memory to the device's. The source is read when this returns. The context is current.
    ///
    /// # Safety
    /// `from` is valid for reads of `bytes` bytes.
    pub(crate) unsafe fn upload(
        &self,
        from: *const u8,
        to: sys::DevicePtr,
        bytes: usize,
        stream: &CudaStream,
    ) -> Result<()> {
        if bytes <= SMALL {
            let context = stream.context();
            // SAFETY: the caller vouches for the source; the driver has copied it when it returns.
            let status = unsafe { (context.driver.memcpy_up)(to, from.cast(), bytes, stream.raw()) };
            return context.check(status, "copying to the device");
        }
        self.run(Way::Up, Host(from.cast_mut()), to, bytes, stream)
    }

    /// Copies from the device's memory to the host's. The target is written when this returns. The context is current.
    ///
    /// # Safety
    /// `to` is valid for writes of `bytes` bytes.
    pub(crate) unsafe fn download(
        &self,
        from: sys::DevicePtr,
        to: *mut u8,
        bytes: usize,
        stream: &CudaStream,
    ) -> Result<()> {
        if !stream.is_idle() {
            // The driver would spin until the stream gets there; this sleeps if it takes long.
            millstream_core::backend::BackendStream::synchronize(stream)?;
        }
        if bytes <= SMALL {
            let context = stream.context();
            // SAFETY: the caller vouches for the target; for ordinary memory the driver returns when it is written.
            let status = unsafe { (context.driver.memcpy_down)(to.cast(), from, bytes, stream.raw()) };
            return context.check(status, "copying from the device");
        }
        self.run(Way::Down, Host(to), from, bytes, stream)
    }

    fn run(&self, way: Way, host: Host, device: sys::DevicePtr, bytes: usize, stream: &CudaStream) -> Result<()> {
        let context = stream.context();
        let idle = self.idle.lock().pop();
        let mut lane = match idle {
            Some(lane) => lane,
            None => Lane::new(context)?,
        };
        let long = bytes >= LARGE;
        let step = if long { PIECE } else { SHORT_PIECE };
        let job = Job { stream, way, host, device, bytes, step, next: AtomicUsize::new(0) };
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = if long { THREADS.min(cores) } else { 1 };
        let outcome = if threads == 1 { job.work(&mut lane.pieces) } else { job.share(&mut lane.pieces) };
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_LANES {
            idle.push(lane);
        }
        outcome
    }

    /// Gives the pinned memory back.
    pub(crate) fn clear(&self) {
        let lanes = std::mem::take(&mut *self.idle.lock());
        drop(lanes);
    }
}

impl Job<'_> {
    /// Works with several threads, each with pieces of its own.
    fn share(&self, pieces: &mut [Piece]) -> Result<()> {
        std::thread::scope(|scope| {
            let mut parts = pieces.chunks_mut(PIECES_EACH);
            let own = parts.next();
            let mut helpers = Vec::with_capacity(THREADS);
            for part in parts {
                let builder = std::thread::Builder::new().name("millstream-copy".into());
                // A thread that cannot start leaves its share to the others.
                if let Ok(helper) = builder.spawn_scoped(scope, move || {
                    self.stream.context().enter()?;
                    self.work(part)
                }) {
                    helpers.push(helper);
                }
            }
            let mut outcome = own.map_or(Ok(()), |part| self.work(part));
            for helper in helpers {
                let other = helper.join().unwrap_or_else(|_| Err(Error::internal("a thread that copies panicked")));
                outcome = outcome.and(other);
            }
            outcome
        })
    }

    /// Takes parts until none is left.
    fn work(&self, pieces: &mut [Piece]) -> Result<()> {
        match self.way {
            Way::Up => self.fill(pieces),
            Way::Down => self.empty(pieces),
        }
    }

    /// The next part that nobody has taken: where it begins, and its size.
    fn part(&self) -> Option<(usize, usize)> {
        let start = self.next.fetch_add(1, Ordering::Relaxed).checked_mul(self.step)?;
        (start < self.bytes).then(|| (start, self.step.min(self.bytes - start)))
    }

    fn fill(&self, pieces: &mut [Piece]) -> Result<()> {
        let (context, count) = (self.stream.context(), pieces.len());
        let mut round = 0;
        while let Some((start, bytes)) = self.part() {
            let piece = &mut pieces[round % count];
            round += 1;
            piece.settle(context)?;
            // SAFETY: the source has these bytes, the piece has room for them, and nobody else uses either part.
            unsafe { std::ptr::copy_nonoverlapping(self.host.at(start), piece.host, bytes) };
            let to = self.device + start as u64;
            // SAFETY: the piece stays as it is until its event has passed.
            let status =
                unsafe { (context.driver.memcpy_up)(to, piece.host.cast_const().cast(), bytes, self.stream.raw()) };
            context.check(status, "copying to the device")?;
            piece.mark(context, self.stream.raw())?;
        }
        Ok(())
    }

    fn empty(&self, pieces: &mut [Piece]) -> Result<()> {
        let (context, count) = (self.stream.context(), pieces.len());
        // Parts that travel into pieces, in the order of their copies.
        let mut travelling = std::collections::VecDeque::with_capacity(count);
        let mut round = 0;
        loop {
            while travelling.len() < count
                && let Some((start, bytes)) = self.part()
            {
                let slot = round % count;
                round += 1;
                let piece = &mut pieces[slot];
                piece.settle(context)?;
                let from = self.device + start as u64;
                // SAFETY: the piece has room for the bytes and is not read before its event has passed.
                let status = unsafe { (context.driver.memcpy_down)(piece.host.cast(), from, bytes, self.stream.raw()) };
                context.check(status, "copying from the device")?;
                piece.mark(context, self.stream.raw())?;
                travelling.push_back((slot, start, bytes));
            }
            let Some((slot, start, bytes)) = travelling.pop_front() else { return Ok(()) };
            let piece = &mut pieces[slot];
            piece.settle(context)?;
            // SAFETY: the piece holds these bytes, the target has room for them, and nobody else uses either part.
            unsafe { std::ptr::copy_nonoverlapping(piece.host.cast_const(), self.host.at(start), bytes) };
        }
    }
}
