//! Why a command stops, and the exit code that says so to scripts.

use std::fmt;
use std::io;

use millstream::{Error, ErrorKind};

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// A check failed, a regression was found, or the work itself failed.
    Failed = 1,
    /// A mistake in the command or in an input.
    Usage = 2,
    /// The device is not available.
    NoDevice = 3,
    /// Ctrl-C.
    Interrupted = 130,
}

/// A command's end before its time.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What to print after `error: `; nothing for an end that needs no words.
    pub message: Option<String>,
    /// What the user can do.
    pub hint: Option<String>,
}

/// The result of everything that can stop a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: Some(message.into()), hint: None }
    }

    /// A mistake in the command or in an input.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// Something was done and found wanting.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    /// No device to work on.
    pub fn no_device(message: impl Into<String>) -> Failure {
        Failure::new(Exit::NoDevice, message)
    }

    /// Ctrl-C.
    pub fn interrupted() -> Failure {
        Failure::new(Exit::Interrupted, "interrupted")
    }

    /// Adds what the user can do.
    pub fn suggest(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// What standard output said: a closed pipe is the reader's wish and ends the command quietly.
    pub fn stdout(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure { exit: Exit::Ok, message: None, hint: None };
        }
        Failure::failed(format!("standard output: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::NoDevice | ErrorKind::DeviceLost => Exit::NoDevice,
            ErrorKind::Shape | ErrorKind::DType | ErrorKind::Argument | ErrorKind::Format | ErrorKind::Io => {
                Exit::Usage
            }
            ErrorKind::Interrupted => Exit::Interrupted,
            _ => Exit::Failed,
        };
        Failure { exit, message: Some(describe(&error)), hint: error.suggestion().map(String::from) }
    }
}

/// The error in one line, without the position in our own source, which means nothing to a user of the command.
pub fn describe(error: &Error) -> String {
    let mut text = error.kind().to_string();
    if let Some(op) = error.op() {
        text += &format!(" in {op}");
    }
    text += &format!(": {}", error.fault());
    if let Some(code) = error.code() {
        text += &format!(" (driver code {code})");
    }
    if !error.chain().is_empty() {
        text += &format!(" (through {})", error.chain().join(" -> "));
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(message) = &self.message {
            write!(f, "error: {message}")?;
            if let Some(hint) = &self.hint {
                write!(f, "\n  try: {hint}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_map_to_the_documented_codes() {
        for (error, exit) in [
            (Error::no_device("x"), Exit::NoDevice),
            (Error::format("x"), Exit::Usage),
            (Error::interrupted("x"), Exit::Interrupted),
            (Error::internal("x"), Exit::Failed),
        ] {
            assert_eq!(Failure::from(error).exit, exit);
        }
    }

    #[test]
    fn a_closed_pipe_needs_no_words() {
        let failure = Failure::stdout(io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.exit, failure.to_string()), (Exit::Ok, String::new()));
    }
}
