//! Errors that belong to an item.

use std::fmt;

use millstream_core::{Error, ErrorKind};

/// What went wrong with one item of a pipeline: the error, and the item, step and device that it belongs to.
///
/// As an [`Error`], which `?` makes of it, it names them in its chain.
#[derive(Clone)]
pub struct ItemError {
    item: u64,
    step: String,
    device: Option<String>,
    error: Error,
}

impl ItemError {
    pub(super) fn new(item: u64, step: impl Into<String>, device: Option<&str>, error: Error) -> ItemError {
        ItemError { item, step: step.into(), device: device.map(str::to_string), error }
    }

    /// The item's number; the first is 0.
    pub fn item(&self) -> u64 {
        self.item
    }

    /// The step: `source`, `upload`, `stage 1`, `download`.
    pub fn step(&self) -> &str {
        &self.step
    }

    /// The device of the step, where it has one.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// What went wrong there.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    fn place(&self) -> String {
        match &self.device {
            Some(device) => format!("{} of item {} on {device}", self.step, self.item),
            None => format!("{} of item {}", self.step, self.item),
        }
    }
}

impl From<ItemError> for Error {
    fn from(e: ItemError) -> Error {
        let place = e.place();
        e.error.through(place)
    }
}

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.error)
    }
}

impl fmt::Debug for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ItemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
