use std::any::Any;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{DeviceEvent, Event, block_on};
use crate::error::{Error, ErrorKind, Result};

const SHORT: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(20);

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A device event that a test drives by hand.
#[derive(Default)]
struct Fake {
    outcome: Mutex<Option<Result<()>>>,
    changed: Condvar,
    callbacks: Mutex<Vec<Event>>,
    queries: AtomicUsize,
    at: Duration,
}

impl Fake {
    fn finish(&self, outcome: Result<()>) {
        *self.outcome.lock() = Some(outcome.clone());
        self.changed.notify_all();
        for event in self.callbacks.lock().drain(..) {
            match &outcome {
                Ok(()) => event.signal(),
                Err(error) => event.fail(error.clone()),
            }
        }
    }
}

impl DeviceEvent for Fake {
    fn query(&self) -> Result<bool> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        self.outcome.lock().clone().map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        let mut outcome = self.outcome.lock();
        if outcome.is_none() {
            match timeout {
                Some(timeout) => {
                    self.changed.wait_for(&mut outcome, timeout);
                }
                None => self.changed.wait(&mut outcome),
            }
        }
        outcome.clone().map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    fn notify(&self, event: &Event) -> Result<()> {
        let outcome = self.outcome.lock();
        match &*outcome {
            None => self.callbacks.lock().push(event.clone()),
            Some(Ok(())) => event.signal(),
            Some(Err(error)) => event.fail(error.clone()),
        }
        Ok(())
    }

    fn elapsed_since(&self, earlier: &dyn DeviceEvent) -> Option<Duration> {
        self.at.checked_sub(earlier.as_any().downcast_ref::<Fake>()?.at)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Signals after a while, from another thread.
fn later(action: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(SHORT);
        action();
    })
}

#[test]
fn an_event_is_pending_until_it_is_signalled() {
    let event = Event::new();
    assert!(!event.is_complete());
    event.signal();
    assert!(event.is_complete());
    assert!(event.wait().is_ok());
    assert!(Event::completed().is_complete());
}

#[test]
fn every_waiter_wakes_whether_it_spins_or_sleeps() {
    let (event, woken) = (Event::new(), Arc::new(AtomicUsize::new(0)));
    let waiters: Vec<_> = (0..8)
        .map(|i| {
            let (event, woken) = (event.clone(), woken.clone());
            thread::spawn(move || {
                if i % 2 == 0 {
                    event.wait().unwrap()
                } else {
                    block_on(event).unwrap()
                }
                woken.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    thread::sleep(SHORT);
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    event.signal();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert_eq!(woken.load(Ordering::SeqCst), 8);
}

#[test]
fn what_was_written_before_the_signal_is_seen_after_the_wait() {
    for _ in 0..2000 {
        let (event, flag) = (Event::new(), Arc::new(AtomicBool::new(false)));
        let (signaller, written) = (event.clone(), flag.clone());
        let thread = thread::spawn(move || {
            written.store(true, Ordering::Relaxed);
            signaller.signal();
        });
        event.wait().unwrap();
        assert!(flag.load(Ordering::Relaxed));
        thread.join().unwrap();
    }
}

#[test]
fn a_failure_reaches_every_waiter() {
    let event = Event::new();
    let (first, second) = (event.clone(), event.clone());
    let waiter = thread::spawn(move || first.wait().unwrap_err().kind());
    let future = thread::spawn(move || block_on(second).unwrap_err().kind());
    thread::sleep(SHORT);
    event.fail(Error::device_lost("unplugged"));
    assert_eq!(waiter.join().unwrap(), ErrorKind::DeviceLost);
    assert_eq!(future.join().unwrap(), ErrorKind::DeviceLost);
    assert_eq!(event.wait_timeout(LONG).unwrap_err().kind(), ErrorKind::DeviceLost);
    assert!(event.is_complete());
    assert_eq!(event.error().map(|error| error.kind()), Some(ErrorKind::DeviceLost));
}

#[test]
fn the_first_outcome_stays() {
    let event = Event::new();
    event.signal();
    event.fail(Error::launch("too late"));
    assert!(event.wait().is_ok());
    let event = Event::new();
    event.fail(Error::launch("first"));
    event.signal();
    assert!(event.wait().is_err());
}

#[test]
fn a_timeout_ends_the_wait_and_not_the_event() {
    let event = Event::new();
    let start = Instant::now();
    assert!(!event.wait_timeout(SHORT).unwrap());
    assert!(start.elapsed() >= SHORT);
    assert!(!event.wait_timeout(Duration::ZERO).unwrap());
    event.signal();
    assert!(event.wait_timeout(Duration::ZERO).unwrap());
    let event = Event::new();
    let signaller = event.clone();
    let thread = later(move || signaller.signal());
    assert!(event.wait_timeout(Duration::MAX).unwrap());
    thread.join().unwrap();
}

#[test]
fn a_reset_event_is_pending_and_can_be_signalled_again() {
    let event = Event::new();
    for _ in 0..5 {
        assert!(!event.is_complete());
        event.signal();
        event.wait().unwrap();
        event.reset();
    }
    event.fail(Error::launch("no"));
    event.reset();
    assert!(!event.is_complete() && event.error().is_none());
    event.signal();
    assert!(event.wait().is_ok());
}

#[test]
fn waiters_of_an_earlier_generation_wake_with_its_outcome() {
    for outcome in [None, Some(Error::launch("failed")), Some(Error::interrupted("reset"))] {
        let event = Event::new();
        let (first, second) = (event.clone(), event.clone());
        let waiter = thread::spawn(move || first.wait().err().map(|error| error.kind()));
        let future = thread::spawn(move || block_on(second).err().map(|error| error.kind()));
        thread::sleep(SHORT);
        let expected = outcome.as_ref().map(|error| error.kind());
        match outcome {
            None => event.signal(),
            Some(error) if error.kind() == ErrorKind::Launch => event.fail(error),
            Some(_) => {}
        }
        // Before the waiters had a chance to look.
        event.reset();
        assert!(!event.is_complete());
        assert_eq!(waiter.join().unwrap(), expected);
        assert_eq!(future.join().unwrap(), expected);
        event.signal();
        assert!(event.wait().is_ok(), "the new generation knows nothing of the old one");
    }
}

#[test]
fn a_dropped_future_deregisters() {
    let event = Event::new();
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    {
        let mut future = pin!(event.clone().into_future());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(event.0.slow.lock().wakers.len(), 1);
    }
    assert!(event.0.slow.lock().wakers.is_empty());
    assert_eq!(event.0.slow.lock().waiting, 0);
    event.signal();
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
}

#[test]
fn a_future_polled_again_wakes_only_its_last_waker() {
    let event = Event::new();
    let counts = [Arc::new(Count::default()), Arc::new(Count::default())];
    let mut future = pin!((&event).into_future());
    for count in &counts {
        let waker = Waker::from(count.clone());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    event.signal();
    assert_eq!(counts.each_ref().map(|count| count.0.load(Ordering::SeqCst)), [0, 1]);
    assert!(matches!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))));
    assert_eq!(event.0.slow.lock().waiting, 0);
}

#[test]
fn a_device_event_decides_and_is_asked_no_more_afterwards() {
    let (event, device) = (Event::new(), Arc::new(Fake::default()));
    event.attach(device.clone());
    assert!(!event.is_complete());
    assert!(!event.wait_timeout(SHORT).unwrap());
    device.finish(Ok(()));
    assert!(event.is_complete());
    let asked = device.queries.load(Ordering::Relaxed);
    assert!(event.is_complete() && event.wait().is_ok());
    assert_eq!(device.queries.load(Ordering::Relaxed), asked);
}

#[test]
fn threads_and_futures_wait_for_the_device() {
    for outcome in [Ok(()), Err(Error::device_lost("gone"))] {
        let (event, device) = (Event::new(), Arc::new(Fake::default()));
        // One thread waits from before the source is there.
        let early = event.clone();
        let early = thread::spawn(move || early.wait().is_ok());
        thread::sleep(SHORT);
        event.attach(device.clone());
        let (late, awaited) = (event.clone(), event.clone());
        let late = thread::spawn(move || late.wait().is_ok());
        let awaited = thread::spawn(move || block_on(awaited).is_ok());
        thread::sleep(SHORT);
        let good = outcome.is_ok();
        device.finish(outcome);
        for thread in [early, late, awaited] {
            assert_eq!(thread.join().unwrap(), good);
        }
        assert_eq!(event.error().is_none(), good);
    }
}

#[test]
fn a_late_callback_does_not_complete_a_later_generation() {
    let (event, device) = (Event::new(), Arc::new(Fake::default()));
    event.attach(device.clone());
    let mut future = pin!((&event).into_future());
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    event.reset();
    device.finish(Ok(()));
    assert!(!event.is_complete());
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn recording_again_leaves_who_waits_for_the_first_record() {
    let (event, first, second) = (Event::new(), Arc::new(Fake::default()), Arc::new(Fake::default()));
    event.attach(first.clone());
    let waiter = event.clone();
    let waiter = thread::spawn(move || waiter.wait().is_ok());
    thread::sleep(SHORT);
    event.attach(second.clone());
    first.finish(Ok(()));
    assert!(waiter.join().unwrap());
    assert!(!event.is_complete());
    second.finish(Ok(()));
    assert!(event.is_complete());
}

#[test]
fn an_event_holds_no_cycle_through_its_source() {
    let (event, device) = (Event::new(), Arc::new(Fake::default()));
    event.attach(device.clone());
    {
        let mut future = pin!(event.clone().into_future());
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(event);
    assert_eq!(Arc::strong_count(&device), 1);
}

#[test]
fn elapsed_time_is_the_devices_or_the_hosts() {
    let (start, end) = (Event::timed(), Event::timed());
    start.signal();
    assert_eq!(end.elapsed_since(&start), None);
    thread::sleep(SHORT);
    end.signal();
    assert!(end.elapsed_since(&start).unwrap() >= SHORT);
    assert_eq!(start.elapsed_since(&end), None);
    assert_eq!(end.elapsed_since(&Event::completed()), None);

    let at =
        |ms| Arc::new(Fake { at: Duration::from_millis(ms), outcome: Mutex::new(Some(Ok(()))), ..Fake::default() });
    start.attach(at(5));
    end.attach(at(12));
    assert_eq!(end.elapsed_since(&start), Some(Duration::from_millis(7)));
}

/// Nanoseconds that this thread has spent on a processor.
#[cfg(target_os = "linux")]
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[test]
#[cfg(target_os = "linux")]
fn a_long_wait_burns_no_cpu_time() {
    let wait = Duration::from_millis(300);
    for form in 0..3 {
        let event = Event::new();
        let signaller = event.clone();
        let thread = thread::spawn(move || {
            thread::sleep(wait);
            signaller.signal();
        });
        let (clock, before) = (Instant::now(), processor_time());
        match form {
            0 => event.wait().unwrap(),
            1 => assert!(event.wait_timeout(LONG).unwrap()),
            _ => block_on(&event).unwrap(),
        }
        let (waited, burnt) = (clock.elapsed(), Duration::from_nanos(processor_time() - before));
        assert!(waited >= wait / 2);
        assert!(burnt < Duration::from_millis(3), "{burnt:?} of processor time in {waited:?}");
        thread.join().unwrap();
    }
}

#[test]
fn many_rounds_of_signal_wait_and_reset_lose_no_wake_up() {
    let (there, back) = (Event::new(), Event::new());
    let (other_there, other_back) = (there.clone(), back.clone());
    let rounds = 3000;
    let thread = thread::spawn(move || {
        for round in 0..rounds {
            if round % 2 == 0 {
                other_there.wait().unwrap()
            } else {
                block_on(&other_there).unwrap()
            }
            other_there.reset();
            other_back.signal();
        }
    });
    for round in 0..rounds {
        there.signal();
        if round % 3 == 0 {
            block_on(&back).unwrap()
        } else {
            assert!(back.wait_timeout(LONG).unwrap())
        }
        back.reset();
    }
    thread.join().unwrap();
}

#[test]
fn block_on_runs_plain_futures_too() {
    let event = Event::new();
    let signaller = event.clone();
    let thread = later(move || signaller.signal());
    let answer = block_on(async {
        event.await?;
        Ok::<_, Error>(42)
    });
    assert_eq!(answer.unwrap(), 42);
    thread.join().unwrap();
}

#[test]
#[ignore = "a measurement"]
fn how_soon_a_waiter_wakes() {
    let best = |poll: Option<Duration>| {
        let mut times: Vec<Duration> = (0..200)
            .map(|_| {
                let event = Event::new();
                let signaller = event.clone();
                let thread = thread::spawn(move || {
                    thread::sleep(Duration::from_micros(700));
                    let now = Instant::now();
                    signaller.signal();
                    now
                });
                match poll {
                    None => event.wait().unwrap(),
                    Some(pause) => {
                        while !event.is_complete() {
                            thread::sleep(pause);
                        }
                    }
                }
                let woken = Instant::now();
                woken.saturating_duration_since(thread.join().unwrap())
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    println!("wait {:?}, polling every 100 us {:?}", best(None), best(Some(Duration::from_micros(100))));
    let event = Event::completed();
    let start = Instant::now();
    for _ in 0..10_000_000 {
        std::hint::black_box(&event).wait().unwrap();
    }
    println!("wait on a complete event {:.2} ns", start.elapsed().as_nanos() as f64 / 1e7);
    let start = Instant::now();
    for _ in 0..1_000_000 {
        let event = std::hint::black_box(Event::new());
        event.signal();
    }
    println!("new, signal, drop {:.1} ns", start.elapsed().as_nanos() as f64 / 1e6);
}
