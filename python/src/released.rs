//! Work during which other Python threads run.

use std::cell::Cell;

use pyo3::prelude::*;

thread_local! {
    /// Whether this thread has let go of the interpreter through [`released`].
    static AWAY: Cell<bool> = const { Cell::new(false) };
}

/// Sets the mark back, also after a panic.
struct Back(bool);

impl Drop for Back {
    fn drop(&mut self) {
        AWAY.set(self.0);
    }
}

/// Does work that needs no Python while other Python threads run.
pub fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    if AWAY.get() {
        return work();
    }
    py.detach(|| {
        let _back = Back(AWAY.replace(true));
        work()
    })
}
