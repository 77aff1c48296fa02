//! One thing that happened.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::Profiler;

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecordKind {
    /// A step of a plan ran: one launch.
    Step,
    /// A step was handed to a device that runs it later: the time is what handing it over took.
    Queued,
    /// Bytes were copied between the host and a device.
    Copy,
    /// A kernel was compiled or loaded.
    Compile,
    /// A pending graph was evaluated; the note names the trigger.
    Evaluate,
    /// An operation was computed once more, because its value was not kept the first time; no time of its own.
    Again,
    /// A value moved from one device to another.
    Move,
    /// An operation that its device cannot compute was given to another.
    Placed,
    /// A pipeline ended: one record for each of its steps, whose time is how long the step worked in all.
    Pipeline,
    /// Something the user should know. See [`Profiler::warn`].
    Warning,
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordKind::Step => "step",
            RecordKind::Queued => "queued",
            RecordKind::Copy => "copy",
            RecordKind::Compile => "compile",
            RecordKind::Evaluate => "evaluate",
            RecordKind::Move => "move",
            RecordKind::Again => "again",
            RecordKind::Placed => "placed",
            RecordKind::Pipeline => "pipeline",
            RecordKind::Warning => "warning",
        })
    }
}

/// One thing that happened, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What ran: `map tanh`, `contract 6x16`, ... Records of one name are summed up together.
    pub name: Arc<str>,
    /// What kind of thing it was.
    pub kind: RecordKind,
    /// The device's name.
    pub device: Arc<str>,
    /// The stream's number; 0 where there is none.
    pub stream: u64,
    /// When it began, in nanoseconds since the profiler was made.
    pub start: u64,
    /// How long it took.
    pub seconds: f64,
    /// Bytes that crossed the device's memory, or were copied.
    pub bytes: u64,
    /// Arithmetic operations.
    pub flop: u64,
    /// The share of the device's limit that was reached: the cost model's floor over the time taken.
    pub limit_fraction: Option<f64>,
    /// Anything else worth knowing: the trigger, the variant, a reason. May be empty.
    pub note: String,
}

impl Record {
    /// A step that began at this moment, all else empty: what a caller completes field by field.
    pub fn at(profiler: &Profiler, began: Instant) -> Record {
        let start = profiler.time_of(began);
        Record::new(RecordKind::Step, "", "", start, start)
    }

    /// A record of this kind between two times of the profiler's clock, without bytes, arithmetic, stream or note.
    pub fn new(
        kind: RecordKind,
        name: impl Into<Arc<str>>,
        device: impl Into<Arc<str>>,
        start: u64,
        end: u64,
    ) -> Record {
        Record {
            name: name.into(),
            kind,
            device: device.into(),
            stream: 0,
            start,
            seconds: end.saturating_sub(start) as f64 * 1e-9,
            bytes: 0,
            flop: 0,
            limit_fraction: None,
            note: String::new(),
        }
    }
}

/// Something the user should know, kept whether the profiler is on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// When it was first given, in nanoseconds since the profiler was made.
    pub time: u64,
    /// How often it was given.
    pub count: u64,
    /// What it says.
    pub text: Arc<str>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}
