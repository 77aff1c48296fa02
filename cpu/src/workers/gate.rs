//! Where threads sleep in the kernel until woken.
//!
//! A waiter registers, looks at its condition once more, and only then sleeps; a waker changes the condition before it calls
//! [`Gate::wake`], which looks for sleepers. Both have a fence between the two, so that one sees the other and no wake-up is
//! lost. Waking costs the fence and one atomic load when nobody sleeps.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

pub(super) struct Gate {
    /// Changes with every wake-up; sleepers sleep on it.
    ticket: AtomicU32,
    sleepers: AtomicU32,
    #[cfg(not(target_os = "linux"))]
    lock: parking_lot::Mutex<()>,
    #[cfg(not(target_os = "linux"))]
    condition: parking_lot::Condvar,
}

impl Gate {
    pub(super) fn new() -> Gate {
        Gate {
            ticket: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            #[cfg(not(target_os = "linux"))]
            lock: parking_lot::Mutex::new(()),
            #[cfg(not(target_os = "linux"))]
            condition: parking_lot::Condvar::new(),
        }
    }

    /// Returns when `ready` has returned true.
    pub(super) fn wait(&self, ready: impl Fn() -> bool) {
        self.until(ready, None);
    }

    /// As [`Gate::wait`], or when so much time has passed.
    pub(super) fn wait_for(&self, ready: impl Fn() -> bool, time: Duration) {
        self.until(ready, Instant::now().checked_add(time));
    }

    fn until(&self, ready: impl Fn() -> bool, end: Option<Instant>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        loop {
            let ticket = self.ticket.load(Ordering::SeqCst);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if ready() || left.is_some_and(|left| left.is_zero()) {
                break;
            }
            self.sleep(ticket, left);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether anybody sleeps here.
    pub(super) fn sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Wakes up to `count` sleeping threads, after the caller has made their condition true.
    pub(super) fn wake(&self, count: usize) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.ticket.fetch_add(1, Ordering::SeqCst);
            self.rouse(count.min(i32::MAX as usize));
        }
    }

    #[cfg(target_os = "linux")]
    fn sleep(&self, ticket: u32, most: Option<Duration>) {
        let most = most.map(|most| libc::timespec {
            tv_sec: most.as_secs() as libc::time_t,
            tv_nsec: most.subsec_nanos() as libc::c_long,
        });
        // SAFETY: the address is that of a live, aligned 32-bit word; the kernel compares it with `ticket` and sleeps only
        // if equal, for no longer than the time, if there is one. An early return (signal, changed word) is handled by the caller's loop.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.ticket.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                ticket,
                most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            );
        }
    }

    #[cfg(target_os = "linux")]
    fn rouse(&self, count: usize) {
        // SAFETY: the address is that of a live, aligned 32-bit word; waking reads nothing else.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.ticket.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                count as i32,
            );
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn sleep(&self, ticket: u32, most: Option<Duration>) {
        let mut guard = self.lock.lock();
        if self.ticket.load(Ordering::SeqCst) == ticket {
            match most {
                Some(most) => drop(self.condition.wait_for(&mut guard, most)),
                None => self.condition.wait(&mut guard),
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn rouse(&self, count: usize) {
        // Held so that no waiter is between its look at the ticket and its sleep.
        let _guard = self.lock.lock();
        for _ in 0..count.min(self.sleepers.load(Ordering::SeqCst) as usize) {
            self.condition.notify_one();
        }
    }
}
