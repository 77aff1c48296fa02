//! What is still to be done when the program ends: runtimes that nobody drops, as the default one, write their traces then.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Something that wants to finish before the program ends.
pub(crate) trait AtExit: Send + Sync {
    /// Called once at most, by the thread that ends the program.
    fn at_exit(&self);
}

static WAITING: Mutex<Vec<Weak<dyn AtExit>>> = Mutex::new(Vec::new());

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
unsafe extern "C" {
    /// Part of every C runtime: has the function called when the program returns from `main` or calls `exit`.
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

extern "C" fn run() {
    static RAN: AtomicBool = AtomicBool::new(false);
    if !RAN.swap(true, Ordering::Relaxed) {
        let waiting = std::mem::take(&mut *WAITING.lock());
        waiting.iter().filter_map(Weak::upgrade).for_each(|w| w.at_exit());
    }
}

/// Has this called at the end of the program, if it lives until then. The last functions registered are called first: so whoever asks
/// again after loading a driver is called while the driver still works.
pub(crate) fn register(what: Weak<dyn AtExit>) {
    let mut waiting = WAITING.lock();
    if !waiting.iter().any(|w| w.ptr_eq(&what)) {
        waiting.push(what);
    }
    drop(waiting);
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    // SAFETY: the function takes nothing, does not unwind (a panic in it would abort), and stays loaded as long as the program runs.
    unsafe {
        // Where there is no room for another one, an earlier one does the work.
        let _ = atexit(run);
    }
}
