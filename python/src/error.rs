//! Errors of the engine as exceptions of Python.

use millstream::core::error::Fault;
use millstream::{Error, ErrorKind};
use pyo3::exceptions::{
    PyIndexError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyTimeoutError, PyTypeError,
    PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::released::{attached, take_raised};

pyo3::import_exception!(millstream._errors, AxisError);
pyo3::import_exception!(millstream._errors, DeviceError);

/// What a function of this crate can fail with.
pub enum Fail {
    /// An error of the engine.
    Engine(Error),
    /// An error of the engine about an index.
    Index(Error),
    /// An exception that is there already.
    Python(PyErr),
}

/// The result of what can fail.
pub type R<T> = Result<T, Fail>;

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Engine(error)
    }
}

impl<E: Into<PyErr>> From<E> for Fail
where
    E: NotEngine,
{
    fn from(error: E) -> Fail {
        Fail::Python(error.into())
    }
}

/// What becomes an exception by itself.
pub trait NotEngine {}
impl NotEngine for PyErr {}
impl NotEngine for pyo3::CastError<'_, '_> {}

impl From<Fail> for PyErr {
    fn from(fail: Fail) -> PyErr {
        match fail {
            Fail::Python(error) => error,
            Fail::Engine(error) => interrupt(&error).unwrap_or_else(|| exception(&error, false)),
            Fail::Index(error) => interrupt(&error).unwrap_or_else(|| exception(&error, true)),
        }
    }
}

/// A `TypeError` with this message.
pub fn type_error(message: impl Into<String>) -> Fail {
    Fail::Python(PyTypeError::new_err(message.into()))
}

/// A `ValueError` with this message.
pub fn value_error(message: impl Into<String>) -> Fail {
    Fail::Python(PyValueError::new_err(message.into()))
}

/// What the handler of a signal raised, where that ended a computation.
fn interrupt(error: &Error) -> Option<PyErr> {
    if error.kind() == ErrorKind::Interrupted { take_raised() } else { None }
}

fn exception(error: &Error, index: bool) -> PyErr {
    let text = message(error);
    match (error.kind(), error.fault()) {
        (_, Fault::AxisOutOfRange { .. }) => AxisError::new_err(text),
        (ErrorKind::Index, _) => PyIndexError::new_err(text),
        (ErrorKind::Argument, _) if index => PyIndexError::new_err(text),
        (ErrorKind::Shape, _) if index => PyIndexError::new_err(text),
        (ErrorKind::DType, _) if index => PyIndexError::new_err(text),
        (ErrorKind::DType, _) => PyTypeError::new_err(text),
        (ErrorKind::Shape | ErrorKind::Argument | ErrorKind::Numeric | ErrorKind::Format, _) => {
            PyValueError::new_err(text)
        }
        (ErrorKind::OutOfMemory, _) => PyMemoryError::new_err(text),
        (
            ErrorKind::NoDevice
            | ErrorKind::Unsupported
            | ErrorKind::Compile
            | ErrorKind::Launch
            | ErrorKind::DeviceLost,
            _,
        ) => DeviceError::new_err(text),
        // With these arguments Python picks the class, such as FileNotFoundError.
        (ErrorKind::Io, Fault::Io { path, source }) => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, source.to_string(), path.clone())),
            None => PyOSError::new_err(text),
        },
        (ErrorKind::Timeout, _) => PyTimeoutError::new_err(text),
        (ErrorKind::Interrupted, _) => PyKeyboardInterrupt::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// What the engine says, with the place of the call in the Python program instead of that in this crate.
fn message(error: &Error) -> String {
    let mut text = String::new();
    if let Some(op) = error.op() {
        text.push_str(op);
        text.push_str(": ");
    }
    text.push_str(&error.fault().to_string());
    if let Some(code) = error.code() {
        text.push_str(&format!(" (driver code {code})"));
    }
    if let Some(place) = attached(caller) {
        text.push_str(&format!("\n  at {place}"));
    }
    if !error.chain().is_empty() {
        text.push_str(&format!("\n  through {}", error.chain().join(" -> ")));
    }
    if let Some(suggestion) = error.suggestion() {
        text.push_str(&format!("\n  try: {suggestion}"));
    }
    text
}

/// File and line of the innermost Python function that is not part of this package.
fn caller(py: Python<'_>) -> Option<String> {
    let sys = py.import("sys").ok()?;
    let mut frame = sys.call_method0("_getframe").ok()?;
    while !frame.is_none() {
        let file = frame.getattr("f_code").ok()?.getattr("co_filename").ok()?;
        let file = file.cast::<PyString>().ok()?.to_string();
        let own = frame.getattr("f_globals").ok()?.get_item("__name__").ok();
        let own = own.is_some_and(|name| {
            let name = name.to_string();
            name == "millstream" || name.starts_with("millstream.")
        });
        if !own {
            let line: usize = frame.getattr("f_lineno").ok()?.extract().ok()?;
            return Some(format!("{file}:{line}"));
        }
        frame = frame.getattr("f_back").ok()?;
    }
    None
}
