//! Stopping an evaluation from another thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_core::{Error, Result};

thread_local! {
    /// What can stop the work of this thread, the outermost first.
    static WATCHED: RefCell<Vec<Cancel>> = const { RefCell::new(Vec::new()) };
}

/// A switch by which one thread stops what another one computes. Clones are the same switch.
///
/// Evaluations inside of [`Cancel::during`] give an error of the kind `Interrupted` once it is set. They stop between two kernels: one
/// that runs is not torn from its work, what a device has queued is computed to its end, and so is a plan that overwrites a value in
/// place. Nothing is half done: what was to be computed still waits, and can be evaluated again.
///
/// ```
/// use millstream::{Cancel, ErrorKind, Tensor};
/// let cancel = Cancel::new();
/// let switch = cancel.clone();
/// let other = std::thread::spawn(move || switch.cancel());
/// let x = Tensor::new([1.0f32, 2.0]) + 1;
/// other.join().unwrap();
/// let error = cancel.during(|| x.eval()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Interrupted);
/// assert_eq!(x.to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is not set.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Sets it, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Does the work. The switch stops evaluations that this thread begins in it.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Takes the switch back, also after a panic in the work.
        struct Watch;
        impl Drop for Watch {
            fn drop(&mut self) {
                WATCHED.with_borrow_mut(Vec::pop);
            }
        }
        WATCHED.with_borrow_mut(|all| all.push(self.clone()));
        let watch = Watch;
        let done = work();
        drop(watch);
        done
    }
}

/// An error where somebody stopped the work of this thread.
pub(crate) fn check() -> Result<()> {
    match WATCHED.with_borrow(|all| all.iter().any(Cancel::is_cancelled)) {
        true => Err(Error::interrupted("the evaluation was cancelled")),
        false => Ok(()),
    }
}
