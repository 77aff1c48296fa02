//! Where a worker runs, so that a busy neighbour on one core costs little more than its share of that core.
//!
//! The system wakes a thread beside its waker, here the caller, who goes on computing; a neighbour then has the other core for itself. So
//! a worker does not sleep on its caller's core ([`Spot::avoid`]). And a thread that loses its core in the middle of a task gets it back
//! after milliseconds, for which everybody who waits for the task would wait, too. So a caller who waits for a worker that does not run
//! ([`Spot::time`]) lends it its own core ([`Spot::bring`], [`Spot::send_back`]).
//!
//! Only Linux is asked; elsewhere nothing of this is done. A worker that somebody else has moved is not moved to cores that it was forbidden,
//! unless what it was allowed is what it had anyway.

/// A core, by the system's number.
pub(super) type Core = usize;

#[cfg(target_os = "linux")]
pub(super) use linux::Spot;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Spot;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::{MaybeUninit, size_of};
    use std::sync::atomic::{AtomicI32, Ordering};

    use parking_lot::Mutex;

    use super::Core;

    /// A worker's thread, for itself and for its callers.
    #[derive(Default)]
    pub(crate) struct Spot {
        /// The thread, and the clock of the time for which it has run; 0 before it has begun.
        thread: AtomicI32,
        clock: AtomicI32,
        cores: Mutex<Cores>,
    }

    #[derive(Default)]
    struct Cores {
        /// Those that the worker may use, of which those in `set` are allowed it at present; none before the first change.
        all: Option<Set>,
        set: Option<Set>,
        /// While it is on its caller's core: that one alone, and what it was allowed before.
        lent: Option<(Set, Set)>,
    }

    #[derive(Clone, Copy)]
    struct Set(libc::cpu_set_t);

    impl PartialEq for Set {
        fn eq(&self, other: &Set) -> bool {
            // SAFETY: both are whole sets.
            unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
        }
    }

    impl Set {
        fn one(core: Core) -> Option<Set> {
            Set::none().with(core)
        }

        fn none() -> Set {
            // SAFETY: a set is a list of bits, of which none may be there.
            Set(unsafe { MaybeUninit::zeroed().assume_init() })
        }

        fn with(mut self, core: Core) -> Option<Set> {
            // SAFETY: the core is in the set's range.
            (core < libc::CPU_SETSIZE as usize).then(|| unsafe { libc::CPU_SET(core, &mut self.0) })?;
            Some(self)
        }

        fn has(&self, core: Core) -> bool {
            // SAFETY: the core is in the set's range.
            core < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(core, &self.0) }
        }

        /// The set without a core, if others are left.
        fn without(mut self, core: Core) -> Option<Set> {
            // SAFETY: the core is in the set's range.
            (core < libc::CPU_SETSIZE as usize).then(|| unsafe { libc::CPU_CLR(core, &mut self.0) })?;
            // SAFETY: a whole set.
            (unsafe { libc::CPU_COUNT(&self.0) } > 0).then_some(self)
        }

        /// What a thread is allowed; `None` where the system does not say.
        fn of(thread: i32) -> Option<Set> {
            let mut set = Set::none();
            // SAFETY: the set has the size that is given.
            let failed = unsafe { libc::sched_getaffinity(thread, size_of::<libc::cpu_set_t>(), &mut set.0) };
            (failed == 0).then_some(set)
        }

        /// Allows a thread these cores; whether the system did.
        fn give(&self, thread: i32) -> bool {
            // SAFETY: the set has the size that is given.
            unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &self.0) == 0 }
        }
    }

    impl Spot {
        /// Whether the system is asked.
        pub(crate) const KNOWN: bool = true;

        /// The core that this thread runs on.
        pub(crate) fn here() -> Option<Core> {
            // SAFETY: a question without arguments.
            Core::try_from(unsafe { libc::sched_getcpu() }).ok()
        }

        /// Called by the worker when it begins.
        pub(crate) fn enter(&self) {
            let mut clock = 0;
            // SAFETY: the thread that asks exists; the clock is written to.
            unsafe {
                if libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) == 0 {
                    self.clock.store(clock, Ordering::Relaxed);
                    self.thread.store(libc::syscall(libc::SYS_gettid) as i32, Ordering::Release);
                }
            }
        }

        /// Called by the worker when it ends: another thread may get its number.
        pub(crate) fn leave(&self) {
            let _cores = self.cores.lock();
            self.thread.store(0, Ordering::Release);
        }

        /// Called by the worker before it sleeps: it will wake on another core than its caller's.
        pub(crate) fn avoid(&self, core: Option<Core>) {
            let mut cores = self.cores.lock();
            let (Some(core), None, Some(now)) = (core, cores.lent, Set::of(0)) else { return };
            if cores.set != Some(now) {
                (cores.all, cores.set) = (Some(now), Some(now));
            }
            if let Some(set) = cores.all.and_then(|all| all.without(core))
                && set != now
                && set.give(0)
            {
                cores.set = Some(set);
            }
        }

        /// Nanoseconds for which the worker has run, if the system says so.
        pub(crate) fn time(&self) -> Option<u64> {
            if self.thread.load(Ordering::Acquire) == 0 {
                return None;
            }
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the time is written to; a clock that does not exist any more is an error.
            let failed = unsafe { libc::clock_gettime(self.clock.load(Ordering::Relaxed), &mut time) };
            (failed == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
        }

        /// Lets the worker run on this core only, if it may, until it is sent back; whether that was done.
        pub(crate) fn bring(&self, core: Core) -> bool {
            let mut cores = self.cores.lock();
            let thread = self.thread.load(Ordering::Acquire);
            let (1.., None, Some(before), Some(here)) = (thread, cores.lent, Set::of(thread), Set::one(core)) else {
                return false;
            };
            let all = if cores.set == Some(before) { cores.all } else { Some(before) };
            let done = all.is_some_and(|all| all.has(core)) && here.give(thread);
            cores.lent = done.then_some((here, before));
            done
        }

        /// Allows the worker again what it was allowed before it was brought, unless somebody else has moved it meanwhile.
        pub(crate) fn send_back(&self) {
            let mut cores = self.cores.lock();
            let thread = self.thread.load(Ordering::Acquire);
            if let Some((here, before)) = cores.lent.take()
                && thread != 0
                && Set::of(thread) == Some(here)
            {
                // A set that the system refuses now is one of cores that are gone; it has chosen others then.
                before.give(thread);
            }
        }

        /// Whether the worker is on a core that was lent to it.
        pub(crate) fn is_lent(&self) -> bool {
            self.cores.lock().lent.is_some()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::Core;

    /// A worker's thread, of which nothing is known.
    #[derive(Default)]
    pub(crate) struct Spot;

    impl Spot {
        pub(crate) const KNOWN: bool = false;

        pub(crate) fn here() -> Option<Core> {
            None
        }

        pub(crate) fn enter(&self) {}

        pub(crate) fn leave(&self) {}

        pub(crate) fn avoid(&self, _: Option<Core>) {}

        pub(crate) fn time(&self) -> Option<u64> {
            None
        }

        pub(crate) fn bring(&self, _: Core) -> bool {
            false
        }

        pub(crate) fn send_back(&self) {}

        pub(crate) fn is_lent(&self) -> bool {
            false
        }
    }
}
