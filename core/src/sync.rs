//! The primitives that core's concurrent parts are built from.
//!
//! Normally these are the standard library's atomics and cells and `parking_lot`'s locks. Under `--cfg loom` the same
//! names stand for loom's models, so that the code which the model checker explores is the code that ships. Both sides
//! have the same small interface: a lock without poisoning, a condition variable with a deadline, a cell entered by
//! closures, park and unpark. `Arc` is always the standard one: it is part of public signatures, and it is not what
//! the models are to find faults in.
//!
//! [`spin_briefly`] says how long a thread that waits for a device or for another thread's answer spins before it sleeps. Threads that
//! compute together wait for each other in a pool of the device's own.

#[cfg(not(loom))]
use std::time::{Duration, Instant};

/// How long a waiting thread spins before it sleeps.
#[cfg(not(loom))]
pub const SPIN: Duration = Duration::from_micros(20);

/// Whether a thread of this program can block at all; a browser's only thread cannot.
pub const CAN_BLOCK: bool = cfg!(not(all(target_family = "wasm", not(target_feature = "atomics"))));

/// Spins until `done` says true, at most [`SPIN`], and only where another core could make it true. Gives `done`'s last
/// answer.
#[cfg(not(loom))]
pub fn spin_briefly(mut done: impl FnMut() -> bool) -> bool {
    use std::sync::OnceLock;
    static CORES: OnceLock<usize> = OnceLock::new();

    if done() {
        return true;
    }
    if !CAN_BLOCK || *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get())) < 2 {
        return false;
    }
    let start = Instant::now();
    loop {
        // The clock costs more than a look at the flag: read it seldom.
        for _ in 0..16 {
            std::hint::spin_loop();
            if done() {
                return true;
            }
        }
        if start.elapsed() >= SPIN {
            return false;
        }
    }
}

/// Under loom time does not pass: one look, then the caller sleeps.
#[cfg(loom)]
pub fn spin_briefly(mut done: impl FnMut() -> bool) -> bool {
    done()
}

pub use imp::{Condvar, Mutex, MutexGuard, UnsafeCell, atomic, thread};

#[cfg(not(loom))]
mod imp {
    use std::time::Instant;

    pub use parking_lot::{Mutex, MutexGuard};
    pub use std::sync::atomic;

    /// Park and unpark.
    pub mod thread {
        pub use std::thread::{Thread, current, park};
    }

    /// A condition variable.
    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// One that nobody waits on.
        pub fn new() -> Condvar {
            Condvar::default()
        }

        /// Gives the lock up, sleeps until notified or until the deadline, and takes the lock again. May wake for no
        /// reason.
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Instant>) {
            match deadline {
                Some(deadline) => {
                    self.0.wait_until(guard, deadline);
                }
                None => self.0.wait(guard),
            }
        }

        /// Wakes everybody who sleeps here.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A cell whose content is reached through raw pointers; who may do so is the user's affair.
    #[derive(Debug, Default)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell with this content.
        pub fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        /// Calls `f` with a pointer that is to be read from only.
        #[inline(always)]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Calls `f` with a pointer that nobody else uses meanwhile.
        #[inline(always)]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic;

    /// Park and unpark, and spawn for the models.
    pub mod thread {
        #[cfg(test)]
        pub use loom::thread::spawn;
        pub use loom::thread::{Thread, current, park};
    }

    /// loom's mutex with `parking_lot`'s interface.
    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// An open lock.
        pub fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        /// Takes the lock.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(|poison| poison.into_inner())))
        }

        /// The content, of which the caller is the only owner.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(|poison| poison.into_inner())
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Mutex<T> {
            Mutex::new(T::default())
        }
    }

    /// The lock, held.
    #[derive(Debug)]
    pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_deref().expect("a guard is empty only inside a wait") // invariant: wait_until refills it
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_deref_mut().expect("a guard is empty only inside a wait") // invariant: wait_until refills it
        }
    }

    /// loom's condition variable with this module's interface.
    #[derive(Debug, Default)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        /// One that nobody waits on.
        pub fn new() -> Condvar {
            Condvar::default()
        }

        /// Sleeps until notified; deadlines do not exist in the model.
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _deadline: Option<Instant>) {
            if let Some(inner) = guard.0.take() {
                guard.0 = Some(self.0.wait(inner).unwrap_or_else(|poison| poison.into_inner()));
            }
        }

        /// Wakes everybody who sleeps here.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
