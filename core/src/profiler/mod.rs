//! What ran, where, for how long, and how close to the device's limit.
//!
//! Promises:
//! - Off, it costs one relaxed atomic load at each call of [`Profiler::is_on`].
//! - Its memory is bounded: it keeps the last [`Profiler::CAPACITY`] records and counts those it dropped.
//! - Warnings are kept even while it is off, since nothing may happen silently; equal ones are kept once, with a count.
//! - It never fails and never waits for anything but its own short lock.
//!
//! [`Profiler::summary`] gives the numbers for each name and device, [`Profiler::table`] the same to print, and
//! [`Profiler::chrome_trace`] the course of events for Perfetto or `chrome://tracing`.

mod record;
mod summary;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::event::Event;

pub use record::{Record, RecordKind, Warning};
pub use summary::{Summary, Table};

/// Collects [`Record`]s while it is on, and warnings always. See the module for what it promises.
///
/// ```
/// use millstream_core::profiler::{Profiler, Record, RecordKind};
/// let profiler = Profiler::new();
/// profiler.start();
/// if profiler.is_on() {
///     let begin = profiler.now();
///     // ... the work ...
///     let record = Record::new(RecordKind::Step, "map", "cpu", begin, profiler.now());
///     profiler.record(Record { bytes: 12_000, flop: 1_000, ..record });
/// }
/// assert_eq!(profiler.summary()[0].count, 1);
/// println!("{}", profiler.table());
/// ```
pub struct Profiler {
    on: AtomicBool,
    origin: Option<Instant>,
    capacity: usize,
    records: Mutex<Records>,
    warnings: Mutex<Warnings>,
    /// Steps whose time the device has yet to tell.
    queued: Mutex<VecDeque<Queued>>,
}

/// A step that was handed to a device between two timed events.
struct Queued {
    record: Record,
    before: Event,
    after: Event,
    /// The least seconds that the device's limits allow.
    floor: f64,
}

#[derive(Default)]
struct Records {
    list: VecDeque<Record>,
    dropped: u64,
}

impl Records {
    fn keep(&mut self, record: Record, capacity: usize) {
        if self.list.len() >= capacity {
            self.list.pop_front();
            self.dropped += 1;
        }
        self.list.push_back(record);
    }
}

#[derive(Default)]
struct Warnings {
    list: VecDeque<Warning>,
    dropped: u64,
}

impl Profiler {
    /// How many records a profiler keeps: about a million.
    pub const CAPACITY: usize = 1 << 20;

    /// How many different warnings it keeps.
    pub const WARNINGS: usize = 256;

    /// A profiler that is off. Times count from now on.
    pub fn new() -> Profiler {
        Profiler::with_capacity(Profiler::CAPACITY)
    }

    /// A profiler that keeps the last `records` records, at least one.
    pub fn with_capacity(records: usize) -> Profiler {
        // A browser has no clock that may be asked here: there all times are 0.
        let clock = !cfg!(all(target_family = "wasm", target_os = "unknown"));
        Profiler {
            on: AtomicBool::new(false),
            origin: clock.then(Instant::now),
            capacity: records.max(1),
            records: Mutex::default(),
            warnings: Mutex::default(),
            queued: Mutex::default(),
        }
    }

    /// Whether it takes records. Ask before a record is made.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Takes records from now on; earlier ones stay.
    pub fn start(&self) {
        self.on.store(true, Relaxed);
    }

    /// Takes no more records; those taken stay.
    pub fn stop(&self) {
        self.on.store(false, Relaxed);
    }

    /// Nanoseconds since the profiler was made: what a record's `start` counts in.
    pub fn now(&self) -> u64 {
        self.origin.map_or(0, |origin| origin.elapsed().as_nanos() as u64)
    }

    /// The same for a moment that was noted elsewhere; 0 if it was earlier.
    pub fn time_of(&self, moment: Instant) -> u64 {
        self.origin.map_or(0, |origin| moment.saturating_duration_since(origin).as_nanos() as u64)
    }

    /// Takes a record, if it is on. The oldest one goes where there are too many. A record that is a warning becomes a
    /// [`Warning`], whether it is on or off.
    pub fn record(&self, record: Record) {
        if record.kind == RecordKind::Warning {
            let text = if record.note.is_empty() { &*record.name } else { &*record.note };
            return self.warn_at(record.start, text);
        }
        if !self.is_on() {
            return;
        }
        self.records.lock().keep(record, self.capacity);
    }

    /// Takes a record of work that a device does between these two events. It gets the device's time when both are complete
    /// and somebody looks; until then it is not shown. Where the device tells no time it stays as it is.
    pub fn record_between(&self, record: Record, before: Event, after: Event, floor: f64) {
        let mut queued = self.queued.lock();
        if self.is_on() && queued.len() < self.capacity {
            queued.push_back(Queued { record, before, after, floor });
        }
    }

    /// Gives the records of finished work their times.
    fn settle(&self) {
        let mut queued = self.queued.lock();
        let mut records = self.records.lock();
        let waiting = std::mem::take(&mut *queued);
        for q in waiting {
            if !q.after.is_complete() {
                queued.push_back(q);
                continue;
            }
            let mut record = q.record;
            if let Some(elapsed) = q.after.elapsed_since(&q.before) {
                record.kind = RecordKind::Step;
                record.seconds = elapsed.as_secs_f64();
                record.limit_fraction = Some(q.floor / record.seconds.max(1e-9));
            }
            records.keep(record, self.capacity);
        }
    }

    /// Makes and takes a record, if it is on.
    #[inline]
    pub fn record_with(&self, make: impl FnOnce() -> Record) {
        if self.is_on() {
            self.record(make());
        }
    }

    /// Keeps a warning, on or off. The same text again only counts; of too many different ones the oldest goes.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.warn_at(self.now(), text.as_ref());
    }

    fn warn_at(&self, time: u64, text: &str) {
        let mut warnings = self.warnings.lock();
        if let Some(known) = warnings.list.iter_mut().find(|w| &*w.text == text) {
            known.count += 1;
            return;
        }
        if warnings.list.len() >= Profiler::WARNINGS {
            warnings.list.pop_front();
            warnings.dropped += 1;
        }
        warnings.list.push_back(Warning { time, count: 1, text: Arc::from(text) });
    }

    /// The warnings, oldest first.
    pub fn warnings(&self) -> Vec<Warning> {
        self.warnings.lock().list.iter().cloned().collect()
    }

    /// The records kept, in the order in which they came.
    pub fn records(&self) -> Vec<Record> {
        self.settle();
        self.records.lock().list.iter().cloned().collect()
    }

    /// How many records were dropped to stay within the capacity.
    pub fn dropped(&self) -> u64 {
        self.records.lock().dropped
    }

    /// Forgets all records and warnings.
    pub fn clear(&self) {
        self.queued.lock().clear();
        *self.records.lock() = Records::default();
        *self.warnings.lock() = Warnings::default();
    }

    /// The numbers for each name, device and kind of the records kept, the longest in total first.
    pub fn summary(&self) -> Vec<Summary> {
        self.settle();
        summary::summarize(self.records.lock().list.iter())
    }

    /// The summary, drops and warnings, to print.
    pub fn table(&self) -> Table {
        Table { rows: self.summary(), dropped: self.dropped(), warnings: self.warnings() }
    }

    /// Writes the records and warnings in the trace event format, which Perfetto and `chrome://tracing` open.
    ///
    /// Each device is a process, each of its streams a thread; evaluations and compilations have threads of their own.
    pub fn chrome_trace(&self, out: impl Write) -> Result<()> {
        self.settle();
        let (records, dropped) = {
            let records = self.records.lock();
            (records.list.iter().cloned().collect(), records.dropped)
        };
        trace::write(records, &self.warnings(), dropped, out).map_err(|e| Error::io("trace", e))
    }
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler::new()
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.records.lock();
        f.debug_struct("Profiler")
            .field("on", &self.is_on())
            .field("records", &records.list.len())
            .field("dropped", &records.dropped)
            .finish_non_exhaustive()
    }
}
