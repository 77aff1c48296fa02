//! How busy each step of a pipeline was, and what the pipeline waited for.

use std::fmt;
use std::time::Duration;

use millstream_core::Event;

/// How far a run has come: what [`Pipeline::on_progress`](super::Pipeline::on_progress) is told after each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Items whose results were taken, or whose errors.
    pub done: u64,
    /// Those among them that failed.
    pub failed: u64,
}

/// The numbers of a run so far.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Items whose results were taken, or whose errors.
    pub items: u64,
    /// Those among them that failed.
    pub failed: u64,
    /// How many items may be in flight at once; 0 before the first one.
    pub depth: usize,
    /// Seconds from the first item to the last result.
    pub seconds: f64,
    /// Seconds in which the source made items.
    pub source: f64,
    /// Seconds in which the program had a result and did not ask for the next one.
    pub program: f64,
    /// The steps, in the order in which an item goes through them.
    pub steps: Vec<StepStatistics>,
}

/// The numbers of one step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepStatistics {
    /// `upload`, `stage 1`, `download`.
    pub name: String,
    /// The device that does it.
    pub device: String,
    /// Seconds in which it worked. On streams that queue, a sample of the items is timed, by the device's own clock.
    pub busy: f64,
    /// Seconds in which the pipeline waited for it.
    pub waited: f64,
    /// The share of the run's time in which it worked.
    pub utilisation: f64,
}

impl Statistics {
    /// What the pipeline waited for most: a step, `source` or `program`; `None` before the first item.
    pub fn waits_for(&self) -> Option<&str> {
        let steps = self.steps.iter().map(|s| (s.waited, s.name.as_str()));
        let all = steps.chain([(self.source, "source"), (self.program, "program")]);
        all.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|most| most.0 > 0.0).map(|most| most.1)
    }

    /// The share of the run's time in which this device computed: its stages, without copies.
    pub fn utilisation(&self, device: &str) -> f64 {
        let stages = self.steps.iter().filter(|s| s.device == device && s.name.starts_with("stage"));
        stages.map(|s| s.utilisation).sum()
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = if self.items == 0 { 0.0 } else { self.seconds / self.items as f64 };
        writeln!(
            f,
            "{} items ({} failed) in {:.3} s, {:.3} ms each, at most {} in flight",
            self.items,
            self.failed,
            self.seconds,
            each * 1e3,
            self.depth
        )?;
        for s in &self.steps {
            let Statistics { seconds, .. } = self;
            let waited = if *seconds > 0.0 { s.waited / seconds } else { 0.0 };
            let (busy, waited) = (100.0 * s.utilisation, 100.0 * waited);
            writeln!(f, "{:<10} {:<10} {busy:5.1} % busy, waited for {waited:5.1} %", s.name, s.device)?;
        }
        match self.waits_for() {
            Some(what) => write!(f, "waits for: {what}"),
            None => Ok(()),
        }
    }
}

/// How many queued works of a step are timed at most.
const SAMPLES: usize = 128;

/// How long a step worked: all of what is done within calls, a sample of what is queued, evenly over the run.
#[derive(Default)]
pub(super) struct Busy {
    within: Duration,
    queued: u64,
    every: u64,
    /// The first work stands for itself alone: it may make ready what the others find.
    first: Option<(Event, Event)>,
    timed: Vec<(Event, Event)>,
}

impl Busy {
    /// Whether the next work that is queued is to be timed.
    pub fn samples(&self) -> bool {
        self.queued.is_multiple_of(self.every.max(1))
    }

    /// Notes work that was done within a call.
    pub fn within(&mut self, time: Duration) {
        self.within += time;
    }

    /// Notes work that was queued, between these events if it is timed.
    pub fn queued(&mut self, timed: Option<(Event, Event)>) {
        self.queued += 1;
        let Some(timed) = timed else { return };
        if self.queued == 1 {
            self.first = Some(timed);
            return;
        }
        if self.timed.len() == SAMPLES {
            // Every other one stays.
            let mut n = 0;
            self.timed.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.every = 2 * self.every.max(1);
            if !(self.queued - 1).is_multiple_of(self.every) {
                return;
            }
        }
        self.timed.push(timed);
    }

    /// Seconds of work, as far as it is finished.
    pub fn seconds(&self) -> f64 {
        let elapsed = |(before, done): &(Event, Event)| Some(done.elapsed_since(before)?.as_secs_f64());
        let (sum, count) = self.timed.iter().filter_map(elapsed).fold((0.0, 0u32), |(s, n), t| (s + t, n + 1));
        let each = if count == 0 { 0.0 } else { sum / f64::from(count) };
        let first = self.first.as_ref().and_then(elapsed).unwrap_or(each);
        self.within.as_secs_f64() + first + each * self.queued.saturating_sub(1) as f64
    }
}
