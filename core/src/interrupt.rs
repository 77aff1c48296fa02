//! Whether the work of this thread shall end: what evaluations ask between two kernels, kernels of the CPU between two tasks, and who
//! waits for a device now and then.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::Event;

/// How often somebody is asked.
const PATIENCE: Duration = Duration::from_millis(50);
/// So many looks pass before the first one at the clock: most evaluations are shorter than it is worth to read it.
const FREE: u32 = 4;

enum Watch {
    /// A switch that another thread may set.
    Switch(Arc<AtomicBool>),
    /// Somebody to ask, not before this moment, which is set after so many more looks; and what the answer was.
    Ask { stop: fn() -> bool, next: Option<Instant>, free: u32, stopped: bool },
}

/// Whether the work shall end, or who knows it.
enum Answer {
    Known(bool),
    Of(fn() -> bool),
}

thread_local! {
    /// What can end the work of this thread, the outermost first.
    static WATCHES: RefCell<Vec<Watch>> = const { RefCell::new(Vec::new()) };
    /// How many there are.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// The work is one that has to be done whole, or somebody is being asked.
    static WHOLE: Cell<bool> = const { Cell::new(false) };
}

fn with<R>(watch: Watch, work: impl FnOnce() -> R) -> R {
    /// Takes the last one back, also after a panic in the work.
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            WATCHES.with_borrow_mut(Vec::pop);
            COUNT.set(COUNT.get() - 1);
        }
    }
    WATCHES.with_borrow_mut(|all| all.push(watch));
    COUNT.set(COUNT.get() + 1);
    let _back = Back;
    work()
}

/// Does the work, which ends soon with an error where it computes once the switch is set.
pub fn watched<R>(switch: &Arc<AtomicBool>, work: impl FnOnce() -> R) -> R {
    with(Watch::Switch(switch.clone()), work)
}

/// Does the work, and asks about twenty times a second, while it computes or waits for a device, whether to stop. Once told so, it
/// ends soon with an error. The function is called on this thread.
pub fn asking<R>(stop: fn() -> bool, work: impl FnOnce() -> R) -> R {
    with(Watch::Ask { stop, next: None, free: FREE, stopped: false }, work)
}

/// Does the work without a look at who wants to end it.
pub fn whole<R>(work: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            WHOLE.set(self.0);
        }
    }
    let _back = Back(WHOLE.replace(true));
    work()
}

/// Whether the work of this thread shall end.
#[inline]
pub fn is_due() -> bool {
    COUNT.get() > 0 && !WHOLE.get() && is_stopped(false)
}

/// Whether somebody wants the work to end. Who has waited for [`PATIENCE`] need not look at the clock.
#[cold]
fn is_stopped(waited: bool) -> bool {
    let count = COUNT.get();
    (0..count).any(|i| {
        let answer = WATCHES.with_borrow_mut(|all| match &mut all[i] {
            Watch::Switch(switch) => Answer::Known(switch.load(Ordering::Relaxed)),
            Watch::Ask { stopped: true, .. } => Answer::Known(true),
            Watch::Ask { free, .. } if !waited && *free > 0 => {
                *free -= 1;
                Answer::Known(false)
            }
            Watch::Ask { stop, next, .. } => {
                let now = Instant::now();
                if waited || now >= *next.get_or_insert(now + PATIENCE) {
                    Answer::Of(*stop)
                } else {
                    Answer::Known(false)
                }
            }
        });
        match answer {
            Answer::Known(answer) => answer,
            Answer::Of(stop) => {
                // Who is asked may compute meanwhile.
                let answer = whole(stop);
                WATCHES.with_borrow_mut(|all| {
                    if let Some(Watch::Ask { next, stopped, .. }) = all.get_mut(i) {
                        (*next, *stopped) = (Some(Instant::now() + PATIENCE), answer);
                    }
                });
                answer
            }
        }
    })
}

/// An error where the work of this thread shall end.
#[inline]
pub fn check() -> Result<()> {
    if is_due() { Err(error()) } else { Ok(()) }
}

/// The error of work that ended before it was done.
#[cold]
pub fn error() -> Error {
    Error::interrupted("the evaluation was cancelled")
}

/// Waits for an event as [`Event::wait`] does, unless the work of this thread shall end before it happens.
pub fn wait(event: &Event) -> Result<()> {
    if COUNT.get() == 0 {
        return event.wait();
    }
    while !event.wait_timeout(PATIENCE)? {
        if !WHOLE.get() && is_stopped(true) {
            return Err(error());
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_switch_ends_the_work_inside_and_no_other() {
        let switch = Arc::new(AtomicBool::new(true));
        assert!(check().is_ok());
        watched(&switch, || {
            assert_eq!(check().unwrap_err().kind(), ErrorKind::Interrupted);
            assert!(whole(check).is_ok() && check().is_err());
        });
        assert!(check().is_ok());
    }

    #[test]
    fn who_waits_is_asked_and_goes_on_to_ask_after_a_no() {
        thread_local! {
            static ASKED: Cell<u32> = const { Cell::new(0) };
        }
        fn third() -> bool {
            ASKED.set(ASKED.get() + 1);
            // Asking does not ask.
            assert!(check().is_ok());
            ASKED.get() == 3
        }
        let event = Event::new();
        let error = asking(third, || wait(&event)).unwrap_err();
        assert_eq!((error.kind(), ASKED.get()), (ErrorKind::Interrupted, 3));
        event.signal();
        assert!(asking(third, || wait(&event)).is_ok());
    }

    #[test]
    fn who_computes_is_asked_once_time_has_passed() {
        asking(
            || true,
            || {
                let begin = Instant::now();
                let looks = (0..).take_while(|_| check().is_ok()).count();
                assert!(begin.elapsed() >= PATIENCE && looks > FREE as usize);
                // The answer holds.
                assert!(check().is_err());
            },
        );
        assert!(check().is_ok());
    }
}
