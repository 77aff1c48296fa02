//! What a program holds of a pipeline that runs.

use std::fmt;
use std::marker::PhantomData;
use std::time::Instant;

use millstream_core::Error;

use super::engine::{Engine, Outcome};
use super::error::ItemError;
use super::item::{Item, Source};
use super::statistics::Statistics;

/// A pipeline that is open: items are pushed in, results pulled out, in order.
///
/// ```
/// use millstream::{Pipeline, Tensor};
/// let pipeline = Pipeline::new("cpu", |x| x + 1.0).depth(2);
/// let mut flow = pipeline.open()?;
/// let mut results = Vec::new();
/// for i in 0..5 {
///     // Gives a result where one has to leave before there is room.
///     results.extend(flow.push(Tensor::new([i as f32])));
/// }
/// while let Some(result) = flow.pull() {
///     results.push(result);
/// }
/// assert_eq!(results.len(), 5);
/// assert_eq!(results.pop().unwrap()?.item::<f32>()?, 5.0);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Flow<'p, I, O> {
    engine: Engine<'p>,
    items: PhantomData<fn(I) -> O>,
}

/// What became of an item.
type Result<O> = std::result::Result<O, ItemError>;

impl<'p, I: Item, O: Item> Flow<'p, I, O> {
    pub(super) fn new(engine: Engine<'p>) -> Self {
        Flow { engine, items: PhantomData }
    }

    /// Takes an item in. Where the pipeline is full, the oldest result leaves first: it is waited for and given. After a run has ended
    /// (by a [`Cancel`](crate::Cancel) or a timeout), items are dropped.
    pub fn push(&mut self, item: impl Source<I>) -> Option<Result<O>> {
        self.engine.enter();
        let left = if self.engine.is_full() { self.engine.pull(false) } else { None };
        if !self.engine.has_ended() {
            self.engine.push(item.item().map(Item::into_tensors));
        }
        self.engine.leave();
        left.map(|(_, outcome)| result(outcome))
    }

    /// The oldest item's result, which is waited for; `None` if nothing is in flight.
    pub fn pull(&mut self) -> Option<Result<O>> {
        self.engine.enter();
        let pulled = self.engine.pull(false);
        self.engine.leave();
        pulled.map(|(_, outcome)| result(outcome))
    }

    /// Like [`Flow::pull`], without blocking the thread. Awaiting knows no timeout.
    pub async fn pull_async(&mut self) -> Option<Result<O>> {
        self.engine.enter();
        let pulled = loop {
            match self.engine.poll(false) {
                Ok(pulled) => break pulled,
                Err(events) => events.await,
            }
        };
        self.engine.leave();
        pulled.map(|(_, outcome)| result(outcome))
    }

    /// Whether the next [`Flow::push`] waits for a result.
    pub fn is_full(&self) -> bool {
        self.engine.is_full()
    }

    /// How many items are in flight, or have results that were not pulled.
    pub fn len(&self) -> usize {
        self.engine.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.engine.len() == 0
    }

    /// The numbers so far.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }
}

fn result<O: Item>(outcome: std::result::Result<Vec<crate::Tensor>, ItemError>) -> Result<O> {
    let lost = |n| ItemError::new(0, "result", None, Error::argument(format!("the last stage gives {n} tensors")));
    outcome.and_then(|tensors| {
        let n = tensors.len();
        O::from_tensors(tensors).ok_or_else(|| lost(n))
    })
}

impl<I, O> fmt::Debug for Flow<'_, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flow({} in flight)", self.engine.len())
    }
}

/// The results of items that run through a pipeline, in order: made by [`Pipeline::run`](super::Pipeline::run).
///
/// After an end by a [`Cancel`](crate::Cancel) or a timeout no more items are taken from the source.
pub struct Run<'p, S, I, O> {
    flow: Flow<'p, I, O>,
    source: Option<S>,
}

impl<'p, S, I: Item, O: Item> Run<'p, S, I, O>
where
    S: Iterator,
    S::Item: Source<I>,
{
    pub(super) fn new(flow: Flow<'p, I, O>, source: S) -> Self {
        Run { flow, source: Some(source) }
    }

    /// The results as they come, each with the number of its item.
    pub fn as_they_come(self) -> AsTheyCome<'p, S, I, O> {
        AsTheyCome(self)
    }

    /// The numbers so far.
    pub fn statistics(&self) -> Statistics {
        self.flow.statistics()
    }

    fn forward(&mut self, as_they_come: bool) -> Option<Outcome> {
        let engine = &mut self.flow.engine;
        if self.source.is_none() && engine.len() == 0 {
            return None;
        }
        engine.enter();
        while !engine.is_full() && !engine.has_ended() && engine.cancelled().is_none() {
            let Some(source) = &mut self.source else { break };
            let started = Instant::now();
            let item = source.next();
            engine.count_source(started.elapsed());
            match item {
                Some(item) => engine.push(item.item().map(Item::into_tensors)),
                None => self.source = None,
            }
        }
        let pulled = engine.pull(as_they_come);
        engine.leave();
        pulled
    }
}

impl<S, I: Item, O: Item> Iterator for Run<'_, S, I, O>
where
    S: Iterator,
    S::Item: Source<I>,
{
    type Item = Result<O>;

    fn next(&mut self) -> Option<Result<O>> {
        self.forward(false).map(|(_, outcome)| result(outcome))
    }
}

impl<S, I, O> fmt::Debug for Run<'_, S, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({:?})", self.flow)
    }
}

/// The results of a pipeline as they come, each with the number of its item: made by [`Run::as_they_come`].
#[derive(Debug)]
pub struct AsTheyCome<'p, S, I, O>(Run<'p, S, I, O>);

impl<S, I: Item, O: Item> AsTheyCome<'_, S, I, O>
where
    S: Iterator,
    S::Item: Source<I>,
{
    /// The numbers so far.
    pub fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
}

impl<S, I: Item, O: Item> Iterator for AsTheyCome<'_, S, I, O>
where
    S: Iterator,
    S::Item: Source<I>,
{
    type Item = (u64, Result<O>);

    fn next(&mut self) -> Option<(u64, Result<O>)> {
        self.0.forward(true).map(|(number, outcome)| (number, result(outcome)))
    }
}
