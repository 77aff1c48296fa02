//! Standard output that may be closed any time, and the bar that only people see.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::{Failure, Outcome};

/// Writes a text and a newline to standard output.
pub fn say(text: impl AsRef<str>) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref().as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(Failure::stdout)
}

/// Sends what is still held back.
pub fn flush() -> Outcome {
    io::stdout().lock().flush().map_err(Failure::stdout)
}

/// A note on standard error; nobody is to blame if it cannot be written.
pub fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// A progress bar on standard error, if that is a terminal; nothing otherwise. It has no thread of its own that could
/// disturb a measurement.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of so many steps.
    pub fn new(steps: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Says what is being done.
    pub fn at(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// One step is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// A bar for the present step alone, which goes round: so many turns fill it.
    pub fn part(&self, turns: usize) -> Part {
        let bar = ProgressBar::with_draw_target(Some(turns as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:20} item {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_message(self.0.message());
        Part(bar)
    }

    /// Prints a line above the bar.
    pub fn say(&self, text: impl AsRef<str>) -> Outcome {
        self.0.suspend(|| say(text))
    }
}

/// The bar of one step: see [`Progress::part`].
pub struct Part(ProgressBar);

impl Part {
    /// One turn is done.
    pub fn turn(&self) {
        if Some(self.0.position()) == self.0.length() {
            self.0.reset();
        }
        self.0.inc(1);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
