//! What can go wrong, said so that a person can act on it.
//!
//! An [`Error`] is a typed [`Fault`] plus context: the operation, the location in the caller's program, the chain of
//! operations that led there, a suggestion, the driver's own code. It is cheap to clone, because tensors carry errors
//! until somebody reads them. [`ErrorLog`] keeps the recent history and counts of a runtime.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use parking_lot::Mutex;

/// The result of everything in Millstream that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The category of an error: what a program decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes that do not fit together, or a size that no machine can hold.
    Shape,
    /// An element type that the operation does not take.
    DType,
    /// Any other argument out of its range: an axis, a slice, a name, a number of threads.
    Argument,
    /// An index that an axis does not have.
    Index,
    /// The values have no such result: a singular matrix has no inverse.
    Numeric,
    /// There is no such device, or it cannot be opened here.
    NoDevice,
    /// The device cannot do this, and was asked for by name.
    Unsupported,
    /// The device's memory, or the pool's limit, is exhausted.
    OutOfMemory,
    /// A kernel did not compile.
    Compile,
    /// A launch or a copy failed.
    Launch,
    /// The device is gone and all that lived only on it.
    DeviceLost,
    /// A file could not be read or written.
    Io,
    /// A file or a text is not what it claims to be.
    Format,
    /// The time given ran out.
    Timeout,
    /// The user stopped the work.
    Interrupted,
    /// A promise inside Millstream was broken: a bug.
    Internal,
}

impl ErrorKind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [ErrorKind; 16] = [
        ErrorKind::Shape,
        ErrorKind::DType,
        ErrorKind::Argument,
        ErrorKind::Index,
        ErrorKind::Numeric,
        ErrorKind::NoDevice,
        ErrorKind::Unsupported,
        ErrorKind::OutOfMemory,
        ErrorKind::Compile,
        ErrorKind::Launch,
        ErrorKind::DeviceLost,
        ErrorKind::Io,
        ErrorKind::Format,
        ErrorKind::Timeout,
        ErrorKind::Interrupted,
        ErrorKind::Internal,
    ];

    /// What usually helps against an error of this kind, where there is something general to say.
    fn advice(self) -> Option<&'static str> {
        match self {
            ErrorKind::OutOfMemory => {
                Some("free tensors that are no longer needed, work in smaller pieces, or raise the pool's limit")
            }
            ErrorKind::DeviceLost => Some("open the device again, or use another one; `millstream devices` lists them"),
            ErrorKind::NoDevice => Some("`millstream devices` lists the devices of this machine"),
            ErrorKind::Unsupported => {
                Some("use Device::auto(), which places such a step on a device that can do it, or name the CPU")
            }
            ErrorKind::Internal => Some("this is a bug in Millstream: please report it with the program that shows it"),
            _ => None,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ErrorKind::Shape => "shape error",
            ErrorKind::DType => "dtype error",
            ErrorKind::Argument => "bad argument",
            ErrorKind::Index => "bad index",
            ErrorKind::Numeric => "no result",
            ErrorKind::NoDevice => "no such device",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::OutOfMemory => "out of memory",
            ErrorKind::Compile => "compile error",
            ErrorKind::Launch => "launch error",
            ErrorKind::DeviceLost => "device lost",
            ErrorKind::Io => "input/output error",
            ErrorKind::Format => "format error",
            ErrorKind::Timeout => "timed out",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Internal => "internal error",
        };
        f.write_str(text)
    }
}

/// What went wrong, with the values that show it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Two shapes that cannot be broadcast together.
    #[error("shapes {left:?} and {right:?} do not fit together")]
    ShapesDiffer {
        /// The first operand's shape.
        left: Vec<usize>,
        /// The second operand's shape.
        right: Vec<usize>,
    },
    /// A shape whose number of elements or bytes overflows.
    #[error("a tensor of shape {shape:?} is too large to address")]
    TooLarge {
        /// The shape asked for.
        shape: Vec<usize>,
    },
    /// An axis that the tensor does not have.
    #[error("axis {axis} is out of range for a tensor of {rank} dimensions")]
    AxisOutOfRange {
        /// The axis asked for; negative ones count from the end.
        axis: isize,
        /// The tensor's number of dimensions.
        rank: usize,
    },
    /// An index that an axis does not have.
    #[error("index {index} is out of range for an axis of {size}{}", beside(.at))]
    IndexOutOfRange {
        /// The index; negative ones count from the end.
        index: i128,
        /// The length of the axis.
        size: usize,
        /// Its number among the indices, row by row, if they are a tensor.
        at: Option<usize>,
    },
    /// The device could not give so many bytes.
    #[error("{device}: could not allocate {bytes} bytes ({in_use} in use, {reserved} reserved)")]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// The bytes asked for.
        bytes: usize,
        /// The bytes in use at that moment.
        in_use: usize,
        /// The bytes that the pool had taken from the device.
        reserved: usize,
    },
    /// A file that could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Anything that a sentence says best.
    #[error("{0}")]
    Message(String),
}

/// Where an index stands among others.
fn beside(at: &Option<usize>) -> String {
    at.map(|at| format!(" (number {at} of the indices)")).unwrap_or_default()
}

/// An error: its kind, what went wrong, where, and what to do.
///
/// ```
/// use millstream_core::{Error, ErrorKind};
/// let error = Error::argument("threads must be at least 1, not 0").suggest("leave out --threads to use all cores");
/// assert_eq!(error.kind(), ErrorKind::Argument);
/// assert!(error.to_string().contains("leave out --threads"));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    fault: Arc<Fault>,
    op: Option<&'static str>,
    location: Option<&'static Location<'static>>,
    chain: Vec<String>,
    suggestion: Option<String>,
    code: Option<i64>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => {
        $($(#[$doc])*
        pub fn $name(message: impl Into<String>) -> Error {
            Error::new(ErrorKind::$kind, Fault::Message(message.into()))
        })*
    };
}

impl Error {
    /// An error of this kind with this fault.
    pub fn new(kind: ErrorKind, fault: Fault) -> Error {
        Error(Arc::new(Inner {
            kind,
            fault: Arc::new(fault),
            op: None,
            location: None,
            chain: Vec::new(),
            suggestion: None,
            code: None,
        }))
    }

    constructors! {
        /// A shape error said in a sentence.
        shape => Shape,
        /// An element type that does not fit.
        dtype => DType,
        /// An argument out of its range.
        argument => Argument,
        /// Values that have no such result.
        numeric => Numeric,
        /// A device that is not there or cannot be opened.
        no_device => NoDevice,
        /// Something that the device cannot do.
        unsupported => Unsupported,
        /// A kernel that did not compile.
        compile => Compile,
        /// A launch or copy that failed.
        launch => Launch,
        /// A device that is gone.
        device_lost => DeviceLost,
        /// A file or text that is not what it claims to be.
        format => Format,
        /// Time that ran out.
        timeout => Timeout,
        /// Work stopped by the user.
        interrupted => Interrupted,
        /// A broken promise inside Millstream.
        internal => Internal,
    }

    /// Two shapes that cannot be broadcast together.
    pub fn shapes_differ(left: &[usize], right: &[usize]) -> Error {
        Error::new(ErrorKind::Shape, Fault::ShapesDiffer { left: left.to_vec(), right: right.to_vec() })
    }

    /// A shape whose size overflows.
    pub fn too_large(shape: &[usize]) -> Error {
        Error::new(ErrorKind::Shape, Fault::TooLarge { shape: shape.to_vec() })
    }

    /// An axis that is not there.
    pub fn axis(axis: isize, rank: usize) -> Error {
        Error::new(ErrorKind::Argument, Fault::AxisOutOfRange { axis, rank })
    }

    /// An index that an axis does not have, and its number among the indices, row by row, if they are a tensor.
    pub fn index(index: i128, size: usize, at: Option<usize>) -> Error {
        Error::new(ErrorKind::Index, Fault::IndexOutOfRange { index, size, at })
    }

    /// A file that could not be read or written.
    pub fn io(path: impl Into<String>, source: std::io::Error) -> Error {
        Error::new(ErrorKind::Io, Fault::Io { path: path.into(), source })
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Error {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Adds what the user can do about it.
    pub fn suggest(self, suggestion: impl Into<String>) -> Error {
        self.with(|inner| inner.suggestion = Some(suggestion.into()))
    }

    /// Names the operation, unless an inner one was named already.
    pub fn in_op(self, op: &'static str) -> Error {
        self.with(|inner| {
            inner.op.get_or_insert(op);
        })
    }

    /// Names the location in the caller's program, unless one is known already.
    pub fn at(self, location: &'static Location<'static>) -> Error {
        self.with(|inner| {
            inner.location.get_or_insert(location);
        })
    }

    /// Adds one link to the chain of operations, innermost first.
    pub fn through(self, op: impl Into<String>) -> Error {
        self.with(|inner| inner.chain.push(op.into()))
    }

    /// Adds the driver's own error code.
    pub fn with_code(self, code: i64) -> Error {
        self.with(|inner| inner.code = Some(code))
    }

    /// The category.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What went wrong.
    pub fn fault(&self) -> &Fault {
        &self.0.fault
    }

    /// The operation that failed, where known.
    pub fn op(&self) -> Option<&'static str> {
        self.0.op
    }

    /// The file and line in the caller's program, where known.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.0.location
    }

    /// The operations through which the error travelled, innermost first.
    pub fn chain(&self) -> &[String] {
        &self.0.chain
    }

    /// The driver's error code, where one exists.
    pub fn code(&self) -> Option<i64> {
        self.0.code
    }

    /// What was said to do about this very error.
    pub(crate) fn own_suggestion(&self) -> Option<&str> {
        self.0.suggestion.as_deref()
    }

    /// What to do about it, where there is something to say.
    pub fn suggestion(&self) -> Option<&str> {
        self.0.suggestion.as_deref().or(self.0.kind.advice())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind())?;
        if let Some(op) = self.op() {
            write!(f, " in {op}")?;
        }
        write!(f, ": {}", self.fault())?;
        if let Some(code) = self.code() {
            write!(f, " (driver code {code})")?;
        }
        if let Some(location) = self.location() {
            write!(f, "\n  at {}:{}", location.file(), location.line())?;
        }
        if !self.chain().is_empty() {
            write!(f, "\n  through {}", self.chain().join(" -> "))?;
        }
        if let Some(suggestion) = self.suggestion() {
            write!(f, "\n  try: {suggestion}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0.fault {
            Fault::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The errors that a runtime has seen: how many of each kind, and the last ones.
#[derive(Debug, Default)]
pub struct ErrorLog {
    inner: Mutex<LogInner>,
}

#[derive(Debug, Default)]
struct LogInner {
    counts: [u64; ErrorKind::ALL.len()],
    recent: VecDeque<Error>,
}

impl ErrorLog {
    /// How many errors the history keeps.
    pub const CAPACITY: usize = 64;

    /// Notes an error and hands it back, so that it can stand in a `map_err`.
    pub fn note(&self, error: Error) -> Error {
        let mut inner = self.inner.lock();
        inner.counts[error.kind() as usize] += 1;
        if inner.recent.len() == Self::CAPACITY {
            inner.recent.pop_front();
        }
        inner.recent.push_back(error.clone());
        error
    }

    /// How many errors of this kind were seen.
    pub fn count(&self, kind: ErrorKind) -> u64 {
        self.inner.lock().counts[kind as usize]
    }

    /// How many errors were seen.
    pub fn total(&self) -> u64 {
        self.inner.lock().counts.iter().sum()
    }

    /// The last errors, oldest first.
    pub fn history(&self) -> Vec<Error> {
        self.inner.lock().recent.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let error = Error::shapes_differ(&[2, 3], &[4])
            .in_op("add")
            .at(Location::caller())
            .through("tanh")
            .suggest("reshape the second operand to [1, 3]");
        let text = error.to_string();
        for part in ["shape error in add", "[2, 3] and [4]", "error.rs", "through tanh", "try: reshape"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn the_innermost_operation_and_location_are_kept() {
        let error = Error::dtype("no").in_op("inner").in_op("outer");
        assert_eq!(error.op(), Some("inner"));
    }

    #[test]
    fn the_log_counts_and_forgets_the_oldest() {
        let log = ErrorLog::default();
        for i in 0..ErrorLog::CAPACITY + 3 {
            log.note(Error::argument(format!("number {i}")));
        }
        assert_eq!(log.count(ErrorKind::Argument), ErrorLog::CAPACITY as u64 + 3);
        assert_eq!(log.count(ErrorKind::Shape), 0);
        assert_eq!(log.history().len(), ErrorLog::CAPACITY);
        assert!(log.history()[0].to_string().contains("number 3"));
    }

    #[test]
    fn all_kinds_are_indexed_in_order() {
        for (i, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, i);
        }
    }
}
