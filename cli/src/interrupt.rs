//! Ctrl-C: the first one asks the work to stop at the next good moment, the second one stops at once.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Exit, Failure, Outcome};
use crate::output::note;

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C is noted. Commands that never look keep the system's own behaviour by not calling this.
pub fn install() {
    // Where no handler can be installed, Ctrl-C simply ends the process.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
        if std::io::stderr().is_terminal() {
            note("\nstopping after this repeat; Ctrl-C again stops at once");
        }
    });
}

/// An end, if the user asked for it.
pub fn check() -> Outcome {
    if ASKED.load(Ordering::Relaxed) { Err(Failure::interrupted()) } else { Ok(()) }
}
