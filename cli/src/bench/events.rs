//! How soon a thread learns that what it waits for has happened, and what its waiting costs.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use millstream::Event;

use super::random::mix;
use super::timing::Timing;
use crate::failure::{Failure, Outcome};
use crate::interrupt;

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// In `Event::wait`.
    Wait,
    /// Asking `Event::is_complete` every 50 us: what programs do without such an event.
    Poll,
}

const POLL: Duration = Duration::from_micros(50);

/// How long the signalling thread is awake before it signals.
const AWAKE: Duration = Duration::from_micros(150);

/// How long the wait is whose CPU time is taken.
const LONG: Duration = Duration::from_millis(200);

fn wait(how: Waiting, event: &Event) -> millstream::Result<()> {
    match how {
        Waiting::Wait => event.wait(),
        Waiting::Poll => {
            while !event.is_complete() {
                std::thread::sleep(POLL);
            }
            Ok(())
        }
    }
}

/// The time from a signal to the waiter's next instruction, and the CPU time in ms of a wait of 200 ms where it is known.
pub fn time(how: Waiting, seconds: f64) -> Outcome<(Timing, Option<f64>)> {
    let gone = || Failure::failed("the waiting thread is gone");
    let (to_waiter, events) = mpsc::channel::<Event>();
    let (from_waiter, woken) = mpsc::channel::<(Instant, Option<Duration>)>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for event in events {
                let before = thread_time();
                // A failed wait shows itself as a thread that is gone.
                if wait(how, &event).is_err() {
                    return;
                }
                let now = Instant::now();
                let burnt = thread_time().zip(before).map(|(after, before)| after.saturating_sub(before));
                if from_waiter.send((now, burnt)).is_err() {
                    return;
                }
            }
        });
        let round = |delay: Duration| -> Outcome<(f64, Option<Duration>)> {
            let event = Event::new();
            let at = Instant::now() + delay;
            to_waiter.send(event.clone()).map_err(|_| gone())?;
            std::thread::sleep(delay.saturating_sub(AWAKE));
            // The signal must not come straight from a timer's interrupt: the kernel joins timers, and the same interrupt
            // would wake the one who polls, just at the right time. Yielding lets it poll even if both share a core.
            while Instant::now() < at {
                std::thread::yield_now();
            }
            let signalled = Instant::now();
            event.signal();
            let (now, burnt) = woken.recv().map_err(|_| gone())?;
            Ok((now.saturating_duration_since(signalled).as_secs_f64() * 1e3, burnt))
        };
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut times = Vec::new();
        while times.len() < 50 || (Instant::now() < end && times.len() < 2000) {
            interrupt::check()?;
            // From 200 to 2000 us, different each time, so that no rhythm helps the one who polls.
            let micros = 200 + mix(times.len() as u64) % 1801;
            times.push(round(Duration::from_micros(micros))?.0);
        }
        let (_, burnt) = round(LONG)?;
        drop(to_waiter);
        Ok((Timing::of(times), burnt.map(|b| b.as_secs_f64() * 1e3)))
    })
}

/// The CPU time that this thread has taken.
#[cfg(unix)]
fn thread_time() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, to which we give it a valid pointer.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// No such clock is asked for here.
#[cfg(not(unix))]
fn thread_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_long_wait_burns_no_cpu_time() {
        let (timing, burnt) = time(Waiting::Wait, 0.0).unwrap_or_else(|f| panic!("{f}"));
        assert!(timing.ms > 0.0);
        assert!(burnt.is_some_and(|b| b < 20.0), "{burnt:?} ms of 200");
    }
}
