//! Run with `RUSTFLAGS="--cfg loom" cargo test -p millstream-core --release loom`.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::{Event, block_on};
use crate::error::{Error, ErrorKind};
use crate::sync::{UnsafeCell, thread};

/// Written before the signal, read after the wait: loom reports a race if the event does not order them.
struct Shared(UnsafeCell<u32>);

// SAFETY: whether the accesses are ordered is what the tests check, under loom's eyes.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared(UnsafeCell::new(0)))
    }
    fn write(&self) {
        // SAFETY: before the signal, nobody reads.
        self.0.with_mut(|value| unsafe { *value = 7 });
    }
    fn check(&self) {
        // SAFETY: after the wait, nobody writes.
        self.0.with(|value| assert_eq!(unsafe { *value }, 7));
    }
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

#[test]
fn a_signal_wakes_sleepers_and_publishes() {
    bounded(3).check(|| {
        let (event, shared) = (Event::new(), Shared::new());
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (event, shared) = (event.clone(), shared.clone());
                thread::spawn(move || {
                    event.wait().unwrap();
                    shared.check();
                })
            })
            .collect();
        shared.write();
        event.signal();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[test]
fn a_signal_wakes_futures_and_publishes() {
    bounded(3).check(|| {
        let (event, shared) = (Event::new(), Shared::new());
        let (awaited, seen) = (event.clone(), shared.clone());
        let waiter = thread::spawn(move || {
            block_on(awaited).unwrap();
            seen.check();
        });
        shared.write();
        event.signal();
        waiter.join().unwrap();
    });
}

#[test]
fn a_failure_and_a_signal_agree_on_one_outcome() {
    bounded(3).check(|| {
        let event = Event::new();
        let (signaller, waiter) = (event.clone(), event.clone());
        let signaller = thread::spawn(move || signaller.signal());
        let waiter = thread::spawn(move || waiter.wait().is_ok());
        event.fail(Error::launch("no"));
        let seen = waiter.join().unwrap();
        signaller.join().unwrap();
        assert_eq!(event.wait().is_ok(), seen);
    });
}

#[test]
fn a_reset_forgets_no_waiter_and_no_failure() {
    bounded(3).check(|| {
        let event = Event::new();
        let waiter = event.clone();
        let waiter = thread::spawn(move || match waiter.wait_timeout(std::time::Duration::MAX) {
            Ok(complete) => assert!(complete, "the failure of its own generation was lost"),
            // Failed if it waited in time for the first generation, signalled if it came for the second.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Launch),
        });
        event.fail(Error::launch("first generation"));
        event.reset();
        event.signal();
        waiter.join().unwrap();
    });
}

#[test]
fn a_dropped_future_races_the_signal() {
    bounded(3).check(|| {
        let event = Event::new();
        let other = event.clone();
        let thread = thread::spawn(move || {
            let mut future = pin!(other.clone().into_future());
            let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        });
        event.signal();
        thread.join().unwrap();
        assert!(event.0.slow.lock().wakers.is_empty());
        assert_eq!(event.0.slow.lock().waiting, 0);
    });
}
