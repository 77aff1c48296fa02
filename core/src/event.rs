//! One moment in the course of the work, for whoever must not go on before it.
//!
//! An [`Event`] is pending until somebody calls [`signal`](Event::signal) or [`fail`](Event::fail), or until the
//! device event [attached](Event::attach) to it has happened. The same type stands for a task of the CPU, a CUDA event
//! and a submission to wgpu. Any number of threads may wait and any number of futures may be awaited; each of them
//! learns of the completion exactly once, none is forgotten, and a dropped future leaves nothing behind.
//!
//! - A complete event costs one atomic load in [`wait`](Event::wait) and [`is_complete`](Event::is_complete).
//! - Waiting spins for some 20 us, where there is a second core, then sleeps. It never polls in a loop.
//! - Completion publishes: what was written before `signal` is seen by whoever saw the event complete.
//! - [`reset`](Event::reset) begins a new *generation*. Who waits for an earlier one still wakes, with that
//!   generation's own outcome.
//!
//! Where a thread cannot block (a browser), waiting for a pending event is an error; awaiting it works everywhere.

mod future;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CAN_BLOCK, Condvar, Mutex, spin_briefly};

pub use future::{EventFuture, block_on};

/// An event of a device's own, as its backend sees it.
///
/// An error from `query` or `wait` means that the work before the event has failed; the [`Event`] then fails with it.
pub trait DeviceEvent: Send + Sync {
    /// Whether the device has passed the event. Does not block.
    fn query(&self) -> Result<bool>;

    /// Blocks until the device has passed the event (`true`) or the time is over (`false`).
    fn wait(&self, timeout: Option<Duration>) -> Result<bool>;

    /// Sees to it that `event.signal()` or `event.fail()` is called when the device has passed this event, at once if
    /// it has already: from the driver's callback, or from whoever polls the device. Does not block. Called at most
    /// once for each future generation, and only if somebody awaits it.
    fn notify(&self, event: &Event) -> Result<()>;

    /// The device's time between `earlier` and this event, where both are complete, of one device, and timed.
    fn elapsed_since(&self, earlier: &dyn DeviceEvent) -> Option<Duration>;

    /// The backend's own type, for a backend that orders its streams by it.
    fn as_any(&self) -> &dyn Any;
}

// The state word: two bits of status, two flags, the generation above.
const PENDING: u64 = 0;
const DONE: u64 = 1;
const FAILED: u64 = 2;
const STATUS: u64 = 3;
/// A device event is attached: ask it.
const SOURCE: u64 = 4;
/// Somebody sleeps or has left a waker: the one who completes the event must take the lock and wake.
const WAITERS: u64 = 8;
const FLAGS: u64 = 15;
const GENERATION: u64 = 16;

fn generation(state: u64) -> u64 {
    state / GENERATION
}

/// A moment to wait for: see the [module](self).
///
/// ```
/// use millstream_core::event::Event;
/// let event = Event::new();
/// let signaller = event.clone();
/// let thread = std::thread::spawn(move || signaller.signal());
/// event.wait()?;
/// assert!(event.is_complete());
/// # thread.join().unwrap();
/// # Ok::<(), millstream_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Event(Arc<Inner>);

struct Inner {
    state: AtomicU64,
    timed: bool,
    /// Set in the events that are handed to [`DeviceEvent::notify`]: which generation of which event to complete. So a
    /// late callback of an earlier generation cannot complete a later one, and a source holds no cycle.
    relay: Option<(Weak<Inner>, u64)>,
    slow: Mutex<Slow>,
    condvar: Condvar,
}

#[derive(Default)]
struct Slow {
    failure: Option<Error>,
    source: Option<Arc<dyn DeviceEvent>>,
    /// Whether the source was asked to call back in this generation.
    armed: bool,
    time: Option<Instant>,
    wakers: SmallVec<[(u64, Waker); 1]>,
    next_key: u64,
    /// Threads and futures that have taken note of a generation and not yet of its outcome.
    waiting: usize,
    /// How earlier generations ended that did not end well; kept only while somebody waits.
    past: SmallVec<[(u64, Error); 0]>,
}

impl Slow {
    fn forget_waker(&mut self, key: u64) -> Option<Waker> {
        let index = self.wakers.iter().position(|(other, _)| *other == key)?;
        Some(self.wakers.swap_remove(index).1)
    }
}

/// The time, where the platform has a clock.
fn now() -> Option<Instant> {
    if cfg!(all(target_family = "wasm", target_os = "unknown")) { None } else { Some(Instant::now()) }
}

impl Event {
    fn with_state(state: u64, timed: bool, relay: Option<(Weak<Inner>, u64)>) -> Event {
        Event(Arc::new(Inner {
            state: AtomicU64::new(state),
            timed,
            relay,
            slow: Mutex::new(Slow::default()),
            condvar: Condvar::new(),
        }))
    }

    /// A pending event.
    pub fn new() -> Event {
        Event::with_state(PENDING, false, None)
    }

    /// A pending event that notes the time when it is signalled, for [`elapsed_since`](Event::elapsed_since).
    pub fn timed() -> Event {
        Event::with_state(PENDING, true, None)
    }

    /// Whether the event notes the time of its completion.
    pub fn is_timed(&self) -> bool {
        self.0.timed
    }

    /// An event that has happened.
    pub fn completed() -> Event {
        Event::with_state(DONE, false, None)
    }

    /// Completes the event and wakes everybody. Does nothing to an event that is already complete or failed.
    pub fn signal(&self) {
        self.0.finish(None, None);
    }

    /// Completes the event with a failure, which every waiter receives. Does nothing to an event that is already
    /// complete or failed.
    pub fn fail(&self, error: Error) {
        self.0.finish(None, Some(error));
    }

    /// Whether the event has happened or failed. Does not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        match self.0.state.load(Ordering::Acquire) {
            state if state & STATUS != PENDING => true,
            state if state & SOURCE != 0 => self.0.ask_source(generation(state)),
            _ => false,
        }
    }

    /// Whether the event is known to be complete, without asking a device.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.0.state.load(Ordering::Acquire) & STATUS != PENDING
    }

    /// The failure, if the event has failed. Does not block.
    pub fn error(&self) -> Option<Error> {
        if !self.is_complete() || self.0.state.load(Ordering::Acquire) & STATUS != FAILED {
            return None;
        }
        self.0.slow.lock().failure.clone()
    }

    /// Blocks until the event has happened; a failed event gives its failure.
    #[inline]
    pub fn wait(&self) -> Result<()> {
        if self.0.state.load(Ordering::Acquire) & STATUS == DONE {
            return Ok(());
        }
        self.0.wait_slowly(None).map(|_| ())
    }

    /// Blocks until the event has happened (`true`) or the time is over (`false`); a failed event gives its failure.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        if self.0.state.load(Ordering::Acquire) & STATUS == DONE {
            return Ok(true);
        }
        // A time beyond what the clock can express is no limit.
        self.0.wait_slowly(now().and_then(|now| now.checked_add(timeout)))
    }

    /// Makes the event pending again, without a source. Who still waits for the generation that ends here wakes with
    /// its outcome; if it was pending, with an error of kind `Interrupted`.
    pub fn reset(&self) {
        let mut slow = self.0.slow.lock();
        let source = self.0.begin_generation(&mut slow);
        self.0.wake(slow);
        // A source's destructor is the backend's code: not under the lock.
        drop(source);
    }

    /// Lets a device's event decide when this one is complete, as a backend does when it records on a stream.
    ///
    /// Threads and futures that wait already go over to the source. An event that is complete, or that has a source,
    /// begins a new generation first, as by [`reset`](Event::reset); threads that wait for the earlier source go on
    /// waiting for that one.
    pub fn attach(&self, source: Arc<dyn DeviceEvent>) {
        let mut slow = self.0.slow.lock();
        let mut old = None;
        loop {
            let state = self.0.state.load(Ordering::Acquire);
            if state & STATUS != PENDING || state & SOURCE != 0 {
                old = self.0.begin_generation(&mut slow).or(old);
                continue;
            }
            // A signal may come in between; then the next turn begins a new generation.
            let next = (state | SOURCE) & !WAITERS;
            if self.0.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                break;
            }
        }
        slow.source = Some(source);
        self.0.wake(slow);
        drop(old);
    }

    /// The device event attached to this generation, if any.
    pub fn source(&self) -> Option<Arc<dyn DeviceEvent>> {
        self.0.slow.lock().source.clone()
    }

    /// The time between `earlier` and this event: the device's own where both have a source, else the host's where both
    /// are [`timed`](Event::timed). `None` while one is pending, or where no such time is known.
    pub fn elapsed_since(&self, earlier: &Event) -> Option<Duration> {
        if !self.is_complete() || !earlier.is_complete() {
            return None;
        }
        // One lock at a time: two threads may ask in opposite directions.
        let (source, time) = self.0.origin();
        let (earlier_source, earlier_time) = earlier.0.origin();
        match (source, earlier_source) {
            (Some(source), Some(earlier)) => source.elapsed_since(&*earlier),
            (None, None) => time?.checked_duration_since(earlier_time?),
            _ => None,
        }
    }

    /// Whether both are the same event, not only alike.
    pub fn same(&self, other: &Event) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for Event {
    /// A pending event.
    fn default() -> Event {
        Event::new()
    }
}

/// How a wait for one generation came to its end.
enum Waited {
    /// The state has changed: look for the outcome.
    Changed,
    /// Its own source has happened, whatever became of the event meanwhile.
    Happened,
    /// The time is over.
    TimedOut,
}

impl Inner {
    /// Completes the present generation, or only the one given; says whether it did.
    fn finish(&self, only: Option<u64>, failure: Option<Error>) -> bool {
        if failure.is_some() || self.timed {
            return self.finish_locked(only, failure);
        }
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & STATUS != PENDING || only.is_some_and(|only| only != generation(state)) {
                return false;
            }
            let next = (state & !FLAGS) | DONE;
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // A waiter sets the flag under the lock before it sleeps, so with the lock taken here it is either asleep or
        // has seen the new state.
        if state & WAITERS != 0 {
            self.wake(self.slow.lock());
        }
        self.pass_on(None);
        true
    }

    fn finish_locked(&self, only: Option<u64>, failure: Option<Error>) -> bool {
        let mut slow = self.slow.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & STATUS != PENDING || only.is_some_and(|only| only != generation(state)) {
                return false;
            }
            let status = if failure.is_some() { FAILED } else { DONE };
            let next = (state & !FLAGS) | status;
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // Readers of these take the lock after they have seen the state, so they come after this.
        slow.failure = failure.clone();
        if self.timed {
            slow.time = now();
        }
        self.wake(slow);
        self.pass_on(failure);
        true
    }

    fn pass_on(&self, failure: Option<Error>) {
        if let Some((target, generation)) = &self.relay
            && let Some(target) = target.upgrade()
        {
            target.finish(Some(*generation), failure);
        }
    }

    /// Wakes all threads and futures; those whose generation is not over go back to sleep.
    fn wake(&self, mut slow: crate::sync::MutexGuard<'_, Slow>) {
        let wakers = std::mem::take(&mut slow.wakers);
        self.condvar.notify_all();
        drop(slow);
        // A waker is foreign code: not under the lock.
        for (_, waker) in wakers {
            waker.wake();
        }
    }

    /// Ends this generation, whatever its state; gives the source back, to be dropped without the lock.
    fn begin_generation(&self, slow: &mut Slow) -> Option<Arc<dyn DeviceEvent>> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let next = (state & !FLAGS).wrapping_add(GENERATION) | PENDING;
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let failure = slow.failure.take();
        if slow.waiting > 0 {
            match state & STATUS {
                PENDING => slow.past.push((
                    generation(state),
                    Error::interrupted("an event was reset before it was signalled; what it stood for may not be done"),
                )),
                FAILED => slow.past.extend(failure.map(|failure| (generation(state), failure))),
                _ => {}
            }
        }
        slow.armed = false;
        slow.time = None;
        slow.source.take()
    }

    fn origin(&self) -> (Option<Arc<dyn DeviceEvent>>, Option<Instant>) {
        let slow = self.slow.lock();
        (slow.source.clone(), slow.time)
    }

    fn source_of(&self, wanted: u64) -> Option<Arc<dyn DeviceEvent>> {
        let slow = self.slow.lock();
        if generation(self.state.load(Ordering::Relaxed)) == wanted { slow.source.clone() } else { None }
    }

    /// Asks the source whether this generation is complete, and keeps the answer if it is.
    fn ask_source(&self, wanted: u64) -> bool {
        let Some(source) = self.source_of(wanted) else {
            return self.state.load(Ordering::Acquire) & STATUS != PENDING;
        };
        match source.query() {
            Ok(false) => false,
            Ok(true) => {
                self.finish(Some(wanted), None);
                true
            }
            Err(error) => {
                self.finish(Some(wanted), Some(error));
                true
            }
        }
    }

    /// How the generation ended, if it has. The caller is counted in `waiting`, or the generation is the present one.
    fn outcome(&self, slow: &Slow, wanted: u64) -> Option<Result<()>> {
        let state = self.state.load(Ordering::Acquire);
        if generation(state) != wanted {
            let error = slow.past.iter().find(|(generation, _)| *generation == wanted).map(|(_, error)| error.clone());
            return Some(error.map_or(Ok(()), Err));
        }
        match state & STATUS {
            PENDING => None,
            DONE => Some(Ok(())),
            _ => Some(slow.failure.clone().map_or(Ok(()), Err)),
        }
    }

    fn leave(&self, slow: &mut Slow) {
        slow.waiting -= 1;
        if slow.waiting == 0 {
            slow.past.clear();
        }
    }

    /// Sets the flag that makes the one who completes this generation come for the lock. The lock is held.
    fn announce(&self, wanted: u64) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if generation(state) != wanted || state & STATUS != PENDING {
                return false;
            }
            match self.state.compare_exchange_weak(state, state | WAITERS, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    #[cold]
    fn wait_slowly(&self, deadline: Option<Instant>) -> Result<bool> {
        let mut slow = self.slow.lock();
        let wanted = generation(self.state.load(Ordering::Acquire));
        if let Some(outcome) = self.outcome(&slow, wanted) {
            return outcome.map(|()| true);
        }
        slow.waiting += 1;
        drop(slow);
        let result = self.wait_for_generation(wanted, deadline);
        let mut slow = self.slow.lock();
        // The outcome of an earlier generation is kept only until the last waiter has left: look first.
        let outcome = self.outcome(&slow, wanted);
        self.leave(&mut slow);
        drop(slow);
        match (result?, outcome) {
            (Waited::Happened, _) => Ok(true),
            (_, Some(outcome)) => outcome.map(|()| true),
            (_, None) => Ok(false),
        }
    }

    fn wait_for_generation(&self, wanted: u64, deadline: Option<Instant>) -> Result<Waited> {
        let changed = |state: u64| generation(state) != wanted || state & STATUS != PENDING;
        if spin_briefly(|| {
            let state = self.state.load(Ordering::Acquire);
            changed(state) || state & SOURCE != 0
        }) && changed(self.state.load(Ordering::Acquire))
        {
            return Ok(Waited::Changed);
        }
        loop {
            if let Some(source) = self.source_of(wanted) {
                return self.wait_for_source(&*source, wanted, deadline);
            }
            let mut slow = self.slow.lock();
            if slow.source.is_none() || generation(self.state.load(Ordering::Relaxed)) != wanted {
                if !self.announce(wanted) {
                    return Ok(Waited::Changed);
                }
                if !CAN_BLOCK {
                    return Err(Error::unsupported("this thread cannot block until an event happens")
                        .suggest("await the event, or use the async form of the read"));
                }
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Ok(Waited::TimedOut);
                }
                self.condvar.wait_until(&mut slow, deadline);
            }
            if changed(self.state.load(Ordering::Acquire)) {
                return Ok(Waited::Changed);
            }
        }
    }

    fn wait_for_source(&self, source: &dyn DeviceEvent, wanted: u64, deadline: Option<Instant>) -> Result<Waited> {
        let mut answer = Ok(false);
        let settled = |answer: &Result<bool>| !matches!(answer, Ok(false));
        spin_briefly(|| {
            answer = source.query();
            settled(&answer)
        });
        while !settled(&answer) {
            let left = match deadline {
                None => None,
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => Some(left),
                    _ => return Ok(Waited::TimedOut),
                },
            };
            answer = source.wait(left);
        }
        match answer {
            Ok(_) => {
                let latched = self.finish(Some(wanted), None);
                let over = generation(self.state.load(Ordering::Acquire)) != wanted;
                Ok(if latched || over { Waited::Happened } else { Waited::Changed })
            }
            Err(error) => {
                self.finish(Some(wanted), Some(error.clone()));
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.load(Ordering::Acquire);
        let status = match state & STATUS {
            DONE => "complete",
            FAILED => "failed",
            _ if state & SOURCE != 0 => "on the device",
            _ => "pending",
        };
        write!(f, "Event({status}, generation {})", generation(state))
    }
}
