//! Choosing: the way in which each operation is computed, and which of several graphs that mean the same is taken.
//!
//! The cost model decides both. A graph may have other forms: attention as one operation, or the channels of what lies between
//! convolutions last. Each form was placed; the cheapest is taken.

use std::sync::Arc;

use millstream_core::{Candidate, Cost, Device, Error, Op, Result, Work};
use rustc_hash::FxHashMap;

use super::place::{Placed, Task};
use super::rewrite::{GraphForm, Rewritten};
use super::sites::Sites;

/// A placed graph with the way to compute each of its operations.
pub(crate) struct Chosen {
    pub placed: Placed,
    pub sites: Sites,
    /// What the graph is a form of.
    pub form: Rewritten,
    /// For each task, what computes it.
    pub works: Vec<Priced>,
}

/// What a task launches, and its cost; `None` for a copy.
pub(crate) type Priced = Option<(Arc<Work>, Cost)>;

/// A draft, rated.
struct Rated {
    draft: Draft,
    /// For each task, the way to compute it; `None` for a copy.
    ways: Vec<Option<(Candidate, Cost)>>,
    /// Predicted seconds, for comparison with other forms.
    seconds: f64,
}

/// A form of the graph, placed on these devices.
pub(crate) type Draft = (Rewritten, Placed, Sites);

/// The ways that were found: layers repeat the same operations, and so do the forms of a graph.
#[derive(Default)]
pub(super) struct Ways(FxHashMap<(u64, Op), (Candidate, Cost, f64)>);

impl Ways {
    /// The way to compute an operation on a device, its cost, and predicted seconds for comparison with other forms.
    pub fn of(&mut self, device: &Device, op: &Op) -> Result<(Candidate, Cost, f64)> {
        let key = (device.id(), op.clone());
        if let Some(way) = self.0.get(&key) {
            return Ok(way.clone());
        }
        let (candidate, cost) = device.choose(op)?;
        let seconds = device.compared(op, &candidate);
        Ok(self.0.entry(key).or_insert((candidate, cost, seconds)).clone())
    }
}

impl Rated {
    fn new(draft: Draft, ways: &mut Ways) -> Result<Rated> {
        let (_, placed, sites) = &draft;
        let mut seconds = 0.0;
        let mut way = |task: &Task| match task {
            Task::Compute(device, l) => {
                let (candidate, cost, needed) = ways.of(&sites.devices[*device], &l.op)?;
                seconds += needed;
                Ok(Some((candidate, cost)))
            }
            Task::Copy { .. } => Ok(None),
        };
        let ways = placed.tasks.iter().map(&mut way).collect::<Result<_>>()?;
        let copies = placed.tasks.iter().filter_map(|task| match task {
            Task::Copy { from, to } => Some(placed.copy_seconds(sites, *from, *to)),
            Task::Compute(..) => None,
        });
        seconds += copies.sum::<f64>();
        Ok(Rated { draft, ways, seconds })
    }

    /// Whether it can take another form's place: it leaves no more to the host.
    fn can_replace(&self, other: &Rated) -> bool {
        self.draft.1.refusals.len() <= other.draft.1.refusals.len()
    }

    fn form(&self) -> GraphForm {
        self.draft.0.form
    }

    fn chosen(self) -> Chosen {
        let (mut form, placed, sites) = self.draft;
        form.origin.resize(placed.graph.nodes.len(), usize::MAX);
        let work = |(task, way): (&Task, Option<(Candidate, Cost)>)| match (task, way) {
            (Task::Compute(_, l), Some((way, cost))) => Some((Work::new(l.op.clone(), way, l.name.clone()), cost)),
            _ => None,
        };
        let works = placed.tasks.iter().zip(self.ways).map(work).collect();
        Chosen { placed, sites, form, works }
    }
}

/// The cheapest of several drafts. The graph as it is comes last.
fn cheapest(drafts: Vec<Draft>) -> Result<Rated> {
    let mut drafts = drafts.into_iter().rev();
    let plain = drafts.next().ok_or_else(|| Error::internal("a graph without a form"))?;
    let mut ways = Ways::default();
    let plain = Rated::new(plain, &mut ways)?;
    // The model is not exact to a hundredth: channels stay where they are if it finds that about as good.
    let margin = |r: &Rated| if r.form() == GraphForm::ChannelsLast { 0.99 } else { 1.0 };
    let mut best = None::<Rated>;
    for draft in drafts {
        let form = Rated::new(draft, &mut ways)?;
        let least = best.as_ref().map_or(f64::INFINITY, |b| b.seconds);
        if form.seconds < margin(&form) * plain.seconds && form.seconds < least && form.can_replace(&plain) {
            best = Some(form);
        }
    }
    Ok(best.unwrap_or(plain))
}

/// Takes the cheapest form.
pub(crate) fn choose(drafts: Vec<Draft>) -> Result<Chosen> {
    cheapest(drafts).map(Rated::chosen)
}

/// Which form is the cheapest.
pub(crate) fn compare(drafts: Vec<Draft>) -> Result<GraphForm> {
    cheapest(drafts).map(|r| r.form())
}
