//! Work during which other Python threads run.
//!
//! Calls that compute or copy go through [`released`]. Operations that only describe arrays keep the interpreter; where the engine decides
//! to compute meanwhile (a bound on what waits, a shape that depends on values), it lets go of it by [`install`].
//!
//! Python handles signals in its main thread, between two steps of a program. While that thread computes, it looks for signals now and
//! then ([`is_interrupted`]); where a handler raises an exception, such as `KeyboardInterrupt`, the computation ends, and that is the
//! exception of the call.

use std::cell::{Cell, RefCell};

use pyo3::prelude::*;

thread_local! {
    /// Whether this thread is one of Python's: it has read an array.
    static PYTHON: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread has let go of the interpreter through [`released`].
    static AWAY: Cell<bool> = const { Cell::new(false) };
    /// Whether this is the thread that handles signals, once that is known.
    static MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    /// What a handler of a signal raised while this thread computed.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Notes that this thread is the main one of a process that was forked.
pub fn note_main() {
    MAIN.set(Some(true));
}

/// What a handler of a signal raised and ended the computation by.
pub fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// Has the handlers of signals that came meanwhile run; whether one raised an exception.
fn is_interrupted() -> bool {
    if MAIN.get() == Some(false) {
        return false;
    }
    attached(|py| {
        if MAIN.get().is_none() {
            MAIN.set(Some(is_main(py).unwrap_or(true)));
        }
        // In other threads this does nothing.
        let raised = py.check_signals().err();
        let found = raised.is_some();
        if found {
            RAISED.set(raised);
        }
        found
    })
}

fn is_main(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    threading.call_method0("get_ident")?.eq(main)
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

/// Does work that needs no Python while other Python threads run. A signal may end what it computes.
pub fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    released_whole(py, || millstream::interruptible(is_interrupted, work))
}

/// As [`released`], for work that no signal ends and during which no handler runs: it holds what a handler may want.
pub fn released_whole<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
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
