//! Stopping an evaluation from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_core::interrupt;

/// A switch by which one thread stops what another one computes. Clones are the same switch.
///
/// Evaluations inside of [`Cancel::during`] give an error of the kind `Interrupted` soon after it is set. On the CPU a kernel stops
/// between two of its tasks. What another device has queued is computed to its end, but nobody waits for it; and a plan that overwrites a
/// value in place is not stopped. Nothing is half done: what was to be computed still waits, and can be evaluated again.
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
        interrupt::watched(&self.0, work)
    }
}

/// Does the work, and asks about twenty times a second, while it computes or waits for a device, whether to stop. Once told so,
/// evaluations in it end as those of [`Cancel::during`]. The function is called on this thread: an interpreter looks for signals there.
///
/// ```
/// use millstream::{Tensor, interruptible};
/// let x = Tensor::new([1.0f32, 2.0]) + 1;
/// interruptible(|| false, || x.eval())?;
/// # Ok::<(), millstream::Error>(())
/// ```
pub fn interruptible<R>(stop: fn() -> bool, work: impl FnOnce() -> R) -> R {
    interrupt::asking(stop, work)
}
