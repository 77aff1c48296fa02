//! The items in flight, and how they come from step to step. Everything is done by the thread that calls.
//!
//! An item's next step is queued as soon as that can be done without waiting: at once where its stream waits for the step before it by
//! itself, else when that is over. So a thread that waits does so for the oldest item, or for whichever of several must be helped on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millstream_core::how::in_flight;
use millstream_core::{Error, ErrorKind, Event, Record, RecordKind, Result, interrupt};
use smallvec::SmallVec;

use super::error::ItemError;
use super::statistics::{Progress, Statistics, StepStatistics};
use super::step::{Done, Kind, Step, Tensors, Work};
use super::{Stage, wait};
use crate::graph::volatile::{is_volatile, snapshot};
use crate::{Cancel, Tensor};

/// How often a thread that waits looks at its [`Cancel`].
const GLANCE: Duration = Duration::from_millis(10);

/// What a pipeline was told.
#[derive(Default)]
pub(super) struct Settings {
    pub depth: Option<usize>,
    pub timeout: Option<Duration>,
    pub cancel: Option<Cancel>,
    pub keep_on_device: bool,
}

/// An item in flight.
struct Flight {
    number: u64,
    /// What came in, to begin anew with.
    origin: Tensors,
    /// What the last step that was begun gives.
    tensors: Tensors,
    /// The next step to begin.
    next: usize,
    /// For steps that are under way, in order: the step, its events, and what it reads, which stays until then.
    under_way: SmallVec<[(usize, Done, Tensors); 2]>,
    failure: Option<ItemError>,
    /// Found no memory.
    short: Option<Short>,
}

/// What there was when an item found no memory.
struct Short {
    /// Others in flight.
    others: usize,
    /// Steps of its own that were under way.
    own: usize,
    error: ItemError,
}

/// What became of an item.
pub(super) type Outcome = (u64, std::result::Result<Vec<Tensor>, ItemError>);

pub(super) struct Engine<'p> {
    stages: &'p [Stage<'p>],
    settings: &'p Settings,
    watcher: Option<&'p (dyn Fn(&Progress) + Send + Sync + 'p)>,
    steps: Vec<Step>,
    flights: VecDeque<Flight>,
    /// How many may be in flight; not known before the first item.
    depth: Option<usize>,
    entered: u64,
    progress: Progress,
    /// Nothing goes in any more.
    ended: bool,
    started: Option<Instant>,
    last: Option<Instant>,
    source: Duration,
    program: Duration,
}

impl<'p> Engine<'p> {
    pub fn new(
        stages: &'p [Stage<'p>],
        settings: &'p Settings,
        watcher: Option<&'p (dyn Fn(&Progress) + Send + Sync + 'p)>,
    ) -> Result<Engine<'p>> {
        // On the host alone there is nothing to overlap with but the program itself, if that is wished.
        let alone = stages.iter().all(|s| s.device.is_host());
        let work = if alone && settings.depth.is_none_or(|d| d == 1) { Work::Within } else { Work::Queued };
        let steps = Step::all(stages, settings.keep_on_device, work)?;
        let depth = if work == Work::Within { Some(1) } else { settings.depth };
        Ok(Engine {
            stages,
            settings,
            watcher,
            steps,
            flights: VecDeque::new(),
            depth,
            entered: 0,
            progress: Progress { done: 0, failed: 0 },
            ended: false,
            started: None,
            last: None,
            source: Duration::ZERO,
            program: Duration::ZERO,
        })
    }

    /// Whether an item must leave before the next one comes in.
    pub fn is_full(&self) -> bool {
        let short = self.flights.iter().any(|f| f.short.is_some());
        short || self.depth.is_some_and(|depth| self.flights.len() >= depth)
    }

    /// How many items are in flight or have results that were not taken.
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether nothing goes in any more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Counts the time since the program had a result.
    pub fn enter(&mut self) {
        let now = Instant::now();
        self.started.get_or_insert(now);
        if let Some(last) = self.last.take() {
            self.program += now - last;
        }
    }

    /// The program goes on.
    pub fn leave(&mut self) {
        self.last = Some(Instant::now());
    }

    /// Counts time in which the source made an item.
    pub fn count_source(&mut self, time: Duration) {
        self.source += time;
    }

    /// Takes an item in, or what is there in place of one.
    pub fn push(&mut self, item: Result<Vec<Tensor>>) {
        let number = self.entered;
        self.entered += 1;
        let mut flight = Flight {
            number,
            origin: Tensors::new(),
            tensors: Tensors::new(),
            next: 0,
            under_way: SmallVec::new(),
            failure: None,
            short: None,
        };
        match item.and_then(given) {
            Ok(tensors) => {
                flight.origin = tensors.clone();
                flight.tensors = tensors;
                if self.depth.is_none() {
                    self.depth = Some(self.chosen_depth(&flight.tensors));
                }
            }
            Err(error) => flight.failure = Some(ItemError::new(number, "source", None, error)),
        }
        self.flights.push_back(flight);
        self.advance();
    }

    /// The next outcome: the oldest item's, or, `as_they_come`, that of any. Waits for it. `None` when nothing is in flight.
    pub fn pull(&mut self, as_they_come: bool) -> Option<Outcome> {
        loop {
            if let Some(outcome) = self.ready(as_they_come) {
                return outcome;
            }
            let (step, events) = self.awaited(as_they_come);
            match events.is_empty() {
                true => self.make_room(),
                false => self.wait(step, &events),
            }
        }
    }

    /// The same for a program that awaits: what there is now, or what to await.
    pub fn poll(&mut self, as_they_come: bool) -> std::result::Result<Option<Outcome>, wait::Any> {
        match self.ready(as_they_come) {
            Some(outcome) => Ok(outcome),
            None => {
                let (_, events) = self.awaited(as_they_come);
                if events.is_empty() {
                    self.make_room();
                }
                Err(wait::Any::of(&events))
            }
        }
    }

    /// An outcome that needs no waiting, or that there is none; `None` where it takes waiting.
    fn ready(&mut self, as_they_come: bool) -> Option<Option<Outcome>> {
        self.advance();
        if let Some(error) = self.cancelled() {
            return Some(Some(self.end(error)));
        }
        if self.flights.is_empty() {
            return Some(None);
        }
        let looked_at = if as_they_come { self.flights.len() } else { 1 };
        let found = self.flights.iter().take(looked_at).position(|f| self.is_over(f))?;
        let flight = self.flights.remove(found)?;
        Some(Some(self.outcome(flight)))
    }

    fn is_over(&self, flight: &Flight) -> bool {
        flight.failure.is_some() || flight.next == self.steps.len() && flight.under_way.is_empty()
    }

    /// Brings every item as far as it comes without waiting.
    fn advance(&mut self) {
        for at in 0..self.flights.len() {
            self.settle(at);
            // A step may be over when it was just begun.
            while self.begin(at) {
                self.settle(at);
            }
        }
    }

    /// Takes note of the steps of an item that are over.
    fn settle(&mut self, at: usize) {
        let flight = &mut self.flights[at];
        while let Some((step, done, _)) = flight.under_way.first() {
            if flight.failure.is_some() || !done.iter().all(Event::is_complete) {
                return;
            }
            if let Some(error) = done.iter().find_map(Event::error) {
                let step = &self.steps[*step];
                let error = step.device.errors().note(error);
                flight.failure = Some(ItemError::new(flight.number, step.name(), Some(step.device.name()), error));
                return;
            }
            flight.under_way.remove(0);
        }
    }

    /// Begins the next step of an item if that takes no waiting; whether it did.
    fn begin(&mut self, at: usize) -> bool {
        let others = (0..self.flights.len()).filter(|&o| o != at && !self.is_over(&self.flights[o])).count();
        let flight = &mut self.flights[at];
        let Some(step) = self.steps.get_mut(flight.next) else { return false };
        // Who found no memory tries again when another one has left.
        let own = flight.under_way.len();
        let waits = flight.short.as_ref().is_some_and(|s| others >= s.others && own >= s.own);
        if flight.failure.is_some() || self.ended || waits {
            return false;
        }
        let last = flight.under_way.last().map_or(&[][..], |(_, done, _)| done);
        if step.held_up_by(&flight.tensors, last).is_some() {
            return false;
        }
        match step.begin(self.stages, &flight.tensors) {
            Ok((given, done)) => {
                let read = std::mem::replace(&mut flight.tensors, given);
                if !done.is_empty() {
                    flight.under_way.push((flight.next, done, read));
                }
                flight.next += 1;
                flight.short = None;
                true
            }
            Err(error) => {
                // What failed before shows here, too.
                let failed =
                    |(step, done, _): &(usize, Done, Tensors)| Some((*step, done.iter().find_map(Event::error)?));
                let failed = flight.under_way.iter().find_map(failed);
                let (at, error) = failed.unwrap_or((flight.next, error));
                let short = error.kind() == ErrorKind::OutOfMemory && others + own > 0;
                let step = &self.steps[at];
                let error = ItemError::new(flight.number, step.name(), Some(step.device.name()), error);
                match short {
                    true => flight.short = Some(Short { others, own, error }),
                    false => flight.failure = Some(error),
                }
                false
            }
        }
    }

    /// Lets the oldest item go on, where all wait for memory that others of them have: the youngest that has some gives it back and
    /// begins anew later. The oldest fails if nobody has any.
    fn make_room(&mut self) {
        let waiting: SmallVec<[usize; 8]> =
            (0..self.flights.len()).filter(|&i| !self.is_over(&self.flights[i])).collect();
        let Some(&oldest) = waiting.first() else { return };
        let youngest = waiting.iter().copied().skip(1).rev().find(|&i| self.flights[i].next > 0);
        let Some(i) = youngest else {
            let flight = &mut self.flights[oldest];
            let unknown = || ItemError::new(flight.number, "step", None, Error::internal("an item waits for nothing"));
            flight.failure = Some(flight.short.take().map_or_else(unknown, |short| short.error));
            return;
        };
        let others = waiting.len() - 1;
        let flight = &mut self.flights[i];
        flight.next = 0;
        flight.tensors = flight.origin.clone();
        let number = flight.number;
        let short = flight.short.get_or_insert_with(|| {
            let error = Error::internal("an item gave its memory back");
            Short { others, own: 0, error: ItemError::new(number, "step", None, error) }
        });
        (short.others, short.own) = (others, 0);
        self.flights[oldest].short = None;
    }

    /// What the pipeline waits for: the step that it is counted for, and events of which one has to come.
    fn awaited(&self, as_they_come: bool) -> (usize, SmallVec<[Event; 4]>) {
        let mut events: SmallVec<[Event; 4]> = SmallVec::new();
        let mut first = None;
        for (i, flight) in self.flights.iter().enumerate().filter(|(_, f)| !self.is_over(f)) {
            // Besides the oldest, those that somebody has to help on when the step before is over.
            let helped = flight.next < self.steps.len();
            let Some((step, event)) = self.next_event(flight) else { continue };
            if i == 0 || as_they_come || helped || first.is_none() {
                first.get_or_insert(step);
                events.push(event);
            }
        }
        (first.unwrap_or(0), events)
    }

    /// The step that an item is at, and the event that brings it on.
    fn next_event(&self, flight: &Flight) -> Option<(usize, Event)> {
        if let Some((step, done, _)) = flight.under_way.first() {
            return done.iter().find(|e| !e.is_complete()).or(done.last()).map(|event| (*step, event.clone()));
        }
        let step = self.steps.get(flight.next)?;
        step.held_up_by(&flight.tensors, &[]).map(|event| (flight.next, event))
    }

    fn wait(&mut self, step: usize, events: &[Event]) {
        let started = Instant::now();
        let end = self.settings.timeout.map(|most| started + most);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let most = match (left, &self.settings.cancel) {
                (Some(left), Some(_)) => Some(left.min(GLANCE)),
                (None, Some(_)) => Some(GLANCE),
                (left, None) => left,
            };
            wait::any(events, most);
            if most.is_none() || events.iter().any(Event::is_complete) || self.cancelled().is_some() {
                break;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                self.time_out();
                break;
            }
        }
        self.steps[step].waited += started.elapsed();
    }

    /// No item that is under way will be waited for any longer.
    fn time_out(&mut self) {
        self.ended = true;
        let seconds = self.settings.timeout.unwrap_or_default().as_secs_f64();
        for i in 0..self.flights.len() {
            let flight = &self.flights[i];
            if self.is_over(flight) {
                continue;
            }
            let at = self.next_event(flight).map_or(flight.next.min(self.steps.len() - 1), |(step, _)| step);
            let step = &self.steps[at];
            let error = Error::timeout(format!("nothing was finished for {seconds} s"))
                .suggest("allow more time, or find out why the device does not answer");
            let error = step.device.errors().note(error);
            let failure = ItemError::new(flight.number, step.name(), Some(step.device.name()), error);
            self.flights[i].failure = Some(failure);
        }
    }

    /// Why the run ends here, if somebody wants that.
    pub fn cancelled(&self) -> Option<Error> {
        if self.ended {
            return None;
        }
        match self.settings.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            true => Some(Error::interrupted("the pipeline was cancelled")),
            false => interrupt::check().err(),
        }
    }

    /// Ends the run: the outcome that says so.
    fn end(&mut self, error: Error) -> Outcome {
        self.ended = true;
        let number = self.flights.front().map_or(self.entered, |f| f.number);
        for flight in std::mem::take(&mut self.flights) {
            let_go(flight);
        }
        self.count(true);
        (number, Err(ItemError::new(number, "cancel", None, error)))
    }

    fn outcome(&mut self, mut flight: Flight) -> Outcome {
        let number = flight.number;
        self.count(flight.failure.is_some());
        let outcome = match flight.failure.take() {
            Some(failure) => {
                let_go(flight);
                Err(failure)
            }
            None => Ok(std::mem::take(&mut flight.tensors).into_vec()),
        };
        (number, outcome)
    }

    fn count(&mut self, failed: bool) {
        self.progress.done += 1;
        self.progress.failed += u64::from(failed);
        if let Some(watcher) = self.watcher {
            watcher(&self.progress);
        }
    }

    /// How many items to have in flight, from what the cost model says of the steps. What cannot be planned says nothing here; it fails
    /// when it is computed.
    fn chosen_depth(&self, tensors: &[Tensor]) -> usize {
        let least = 2;
        self.seconds(tensors).map_or(least, |seconds| in_flight(&seconds).max(least))
    }

    /// Predicted seconds of each step. Plans and compiles the stages.
    fn seconds(&self, tensors: &[Tensor]) -> Result<Vec<f64>> {
        let mut seconds = Vec::with_capacity(self.steps.len());
        let mut tensors = Tensors::from(tensors);
        for step in &self.steps {
            match step.kind {
                Kind::Stage(n) => {
                    let (given, cost) = self.stages[n].function.planned(&tensors, &step.device)?;
                    tensors = given;
                    seconds.push(cost);
                }
                _ => {
                    let bytes = |t: &Tensor| t.node.shape.iter().product::<usize>() * t.dtype().size();
                    seconds.push(step.moving(tensors.iter().map(bytes).sum())?);
                }
            }
        }
        Ok(seconds)
    }

    pub fn statistics(&self) -> Statistics {
        let end = self.last.unwrap_or_else(Instant::now);
        let seconds = self.started.map_or(0.0, |s| (end - s).as_secs_f64());
        let steps = self.steps.iter().map(|s| {
            // Where items take less than queueing them, what is timed is mostly that.
            let busy = s.busy.seconds().min(seconds);
            StepStatistics {
                name: s.name(),
                device: s.device.name().to_string(),
                busy,
                waited: s.waited.as_secs_f64(),
                utilisation: if seconds > 0.0 { busy / seconds } else { 0.0 },
            }
        });
        Statistics {
            items: self.progress.done,
            failed: self.progress.failed,
            depth: self.depth.unwrap_or(0),
            seconds,
            source: self.source.as_secs_f64(),
            program: self.program.as_secs_f64(),
            steps: steps.collect(),
        }
    }

    /// Writes the numbers into the profile.
    fn record(&self) {
        let (Some(started), Some(first)) = (self.started, self.steps.first()) else { return };
        let profiler = first.device.profiler();
        if !profiler.is_on() {
            return;
        }
        let all = self.statistics();
        for step in &all.steps {
            profiler.record(Record {
                name: format!("pipeline {}", step.name).into(),
                kind: RecordKind::Pipeline,
                device: step.device.as_str().into(),
                seconds: step.busy,
                note: format!(
                    "{} items in {:.6} s, {:.1} % busy, waited {:.6} s for it; the pipeline waits for: {}",
                    all.items,
                    all.seconds,
                    100.0 * step.utilisation,
                    step.waited,
                    all.waits_for().unwrap_or("nothing")
                ),
                ..Record::at(profiler, started)
            });
        }
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        self.record();
        let idle = self.flights.iter().all(|f| f.under_way.is_empty()) && !self.ended;
        for flight in std::mem::take(&mut self.flights) {
            let_go(flight);
        }
        for step in std::mem::take(&mut self.steps) {
            // Who gets a stream does not wait for what another one left there.
            if idle {
                step.give_back();
            }
        }
    }
}

/// The tensors of an item, computed, as they are now.
fn given(tensors: Vec<Tensor>) -> Result<Tensors> {
    let one = |t: Tensor| {
        t.check()?;
        if is_volatile(&t) {
            return snapshot(&t);
        }
        t.buffer()?;
        Ok(t)
    };
    tensors.into_iter().map(one).collect()
}

/// Lets an item go that devices may still work on. The pools wait for that by themselves; only memory of others must not be let go before,
/// for which a thread waits.
fn let_go(flight: Flight) {
    let held_up = |t: &Tensor| matches!(t.node.value(), Some(Ok(buffer)) if buffer.is_held_up());
    let all = || flight.under_way.iter().flat_map(|(.., read)| read).chain(&flight.tensors);
    if all().any(held_up) {
        // Where no thread can be had, the closure is dropped here, and the caller waits.
        let _ = std::thread::Builder::new().name("millstream-release".into()).spawn(move || drop(flight));
    }
}
