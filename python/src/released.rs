//! Work during which other Python threads run.
//!
//! Calls that compute or copy go through [`released`]. Operations that only describe arrays keep the interpreter; where the engine decides
//! to compute meanwhile (a bound on what waits, a shape that depends on values), it lets go of it by [`install`].

use std::cell::Cell;

use pyo3::prelude::*;

thread_local! {
    /// Whether this thread is one of Python's: it has read an array.
    static PYTHON: Cell<bool> = const { Cell::new(false) };
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

/// Notes that this thread has the interpreter.
#[inline]
pub fn note_python() {
    PYTHON.set(true);
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

/// Does work that needs Python, inside or outside of [`released`].
pub fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    Python::attach(|py| {
        let _back = Back(AWAY.replace(false));
        work(py)
    })
}

/// What the engine runs on this thread and nowhere else.
struct Here<'a>(&'a mut dyn FnMut());

// SAFETY: `Python::detach` calls its closure on the thread that calls it; the bound keeps Python's objects out, and the engine has none.
unsafe impl Send for Here<'_> {}

impl Here<'_> {
    fn run(self) {
        (self.0)();
    }
}

fn around(work: &mut dyn FnMut()) {
    if AWAY.get() || !PYTHON.get() {
        return work();
    }
    let here = Here(work);
    Python::attach(|py| released(py, move || here.run()));
}

/// Has the engine let go of the interpreter wherever it computes.
pub fn install() {
    millstream::around_evaluation(around);
}
