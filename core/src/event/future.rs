//! Events as futures, and the small executor that runs one future on one thread.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::{DONE, Event, PENDING, SOURCE, STATUS, generation};
use crate::error::Result;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{spin_briefly, thread};

impl IntoFuture for Event {
    type Output = Result<()>;
    type IntoFuture = EventFuture;
    fn into_future(self) -> EventFuture {
        EventFuture { event: self, noted: None }
    }
}

impl IntoFuture for &Event {
    type Output = Result<()>;
    type IntoFuture = EventFuture;
    fn into_future(self) -> EventFuture {
        self.clone().into_future()
    }
}

/// Resolves when its event is complete: made by awaiting an [`Event`].
///
/// It is about the generation that is current at its first poll.
#[derive(Debug)]
pub struct EventFuture {
    event: Event,
    /// The generation and the key of the waker, once polled.
    noted: Option<(u64, u64)>,
}

impl Future for EventFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let inner = &*this.event.0;
        if this.noted.is_none() {
            match inner.state.load(Ordering::Acquire) {
                state if state & STATUS == DONE => return Poll::Ready(Ok(())),
                state if state & SOURCE != 0 => {
                    inner.ask_source(generation(state));
                }
                _ => {}
            }
        }
        // Wakers are foreign code: cloned before the lock is taken, dropped after it is released.
        let mut waker = context.waker().clone();
        let _replaced;
        let mut slow = inner.slow.lock();
        let (wanted, key) = match this.noted {
            Some(noted) => noted,
            None => {
                let noted = (generation(inner.state.load(Ordering::Acquire)), slow.next_key);
                slow.next_key += 1;
                slow.waiting += 1;
                *this.noted.insert(noted)
            }
        };
        loop {
            if let Some(outcome) = inner.outcome(&slow, wanted) {
                _replaced = slow.forget_waker(key);
                inner.leave(&mut slow);
                this.noted = None;
                drop(slow);
                return Poll::Ready(outcome);
            }
            if inner.announce(wanted) {
                break;
            }
        }
        match slow.wakers.iter_mut().find(|(other, _)| *other == key) {
            Some((_, slot)) => {
                std::mem::swap(slot, &mut waker);
                _replaced = Some(waker);
            }
            None => {
                slow.wakers.push((key, waker));
                _replaced = None;
            }
        }
        let source = if slow.armed { None } else { slow.source.clone() };
        slow.armed |= source.is_some();
        drop(slow);
        if let Some(source) = source {
            let relay = Event::with_state(PENDING, false, Some((Arc::downgrade(&this.event.0), wanted)));
            // It may call back at once, which wakes the waker just left: the executor then polls again.
            if let Err(error) = source.notify(&relay) {
                inner.finish(Some(wanted), Some(error));
            }
        }
        Poll::Pending
    }
}

impl Drop for EventFuture {
    fn drop(&mut self) {
        if let Some((_, key)) = self.noted {
            let mut slow = self.event.0.slow.lock();
            let waker = slow.forget_waker(key);
            self.event.0.leave(&mut slow);
            drop(slow);
            drop(waker);
        }
    }
}

/// Runs a future to its end on this thread, which spins shortly and then sleeps whenever the future waits.
///
/// For native programs: where a thread cannot block (a browser), the future must be ready at once.
///
/// ```
/// use millstream_core::event::{Event, block_on};
/// assert!(block_on(Event::completed()).is_ok());
/// ```
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    struct Parker {
        woken: AtomicBool,
        thread: thread::Thread,
    }
    impl Wake for Parker {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }
        fn wake_by_ref(self: &Arc<Self>) {
            if !self.woken.swap(true, Ordering::Release) {
                self.thread.unpark();
            }
        }
    }

    let parker = Arc::new(Parker { woken: AtomicBool::new(false), thread: thread::current() });
    let waker = Waker::from(parker.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future.into_future());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        spin_briefly(|| parker.woken.load(Ordering::Relaxed));
        while !parker.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}
