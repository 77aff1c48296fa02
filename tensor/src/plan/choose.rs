//! Choosing: the way in which each operation is computed, and which of several graphs that mean the same is taken.
//!
//! The cost model decides both. A graph may have other forms: attention as one operation, or the channels of what lies between
//! convolutions last. Each form was placed; the cheapest is taken.

use millstream_core::{Candidate, Cost, Device, Error, Op, Result};
use rustc_hash::FxHashMap;

use super::place::{Placed, Task};
use super::rewrite::{GraphForm, Rewritten};
use super::sites::Sites;

/// A placed graph with the way to compute each of its operations.
pub(crate) struct Chosen {
    pub placed: Placed,
    pub sites: Sites,
    /// For each node, its number among the captured ones.
    pub origin: Vec<usize>,
    /// For each task, the way to compute it; `None` for a copy.
    pub ways: Vec<Option<(Candidate, Cost)>>,
    pub channels_last: bool,
    /// Predicted seconds, for comparison with other forms.
    seconds: f64,
}

/// A form of the graph, placed on these devices.
pub(crate) type Draft = (Rewritten, Placed, Sites);

/// The ways that were found: layers repeat the same operations, and so do the forms of a graph.
#[derive(Default)]
struct Ways(FxHashMap<(u64, Op), (Candidate, Cost, f64)>);

impl Ways {
    /// The way to compute an operation on a device, its cost, and predicted seconds for comparison with other forms.
    fn of(&mut self, device: &Device, op: &Op) -> Result<(Candidate, Cost, f64)> {
        let key = (device.id(), op.clone());
        if let Some(way) = self.0.get(&key) {
            return Ok(way.clone());
        }
        let (candidate, cost) = device.choose(op)?;
        let seconds = device.compared(op, &candidate);
        Ok(self.0.entry(key).or_insert((candidate, cost, seconds)).clone())
    }
}

impl Chosen {
    fn new((form, placed, sites): Draft, ways: &mut Ways) -> Result<Chosen> {
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
        let mut origin = form.origin;
        origin.resize(placed.graph.nodes.len(), usize::MAX);
        let channels_last = form.form == GraphForm::ChannelsLast;
        let mut chosen = Chosen { placed, sites, origin, ways, channels_last, seconds };
        let copies = chosen.placed.tasks.iter().filter_map(|task| match task {
            Task::Copy { from, to } => Some(chosen.copy_seconds(*from, *to)),
            Task::Compute(..) => None,
        });
        chosen.seconds += copies.sum::<f64>();
        Ok(chosen)
    }

    /// Predicted seconds of a copy between two nodes.
    pub fn copy_seconds(&self, from: usize, to: usize) -> f64 {
        let graph = &self.placed.graph;
        let device = |n: usize| -> &Device { &self.sites.devices[graph.nodes[n].device] };
        device(from).seconds_to(device(to), graph.bytes(from))
    }

    /// Whether it can take another form's place: it leaves no more to the host.
    fn can_replace(&self, other: &Chosen) -> bool {
        self.placed.refusals.len() <= other.placed.refusals.len()
    }
}

/// Takes the cheapest form. The graph as it is comes last.
pub(crate) fn choose(drafts: Vec<Draft>) -> Result<Chosen> {
    let mut drafts = drafts.into_iter().rev();
    let plain = drafts.next().ok_or_else(|| Error::internal("a graph without a form"))?;
    let mut ways = Ways::default();
    let plain = Chosen::new(plain, &mut ways)?;
    // The model is not exact to a hundredth: channels stay where they are if it finds that about as good.
    let margin = |c: &Chosen| if c.channels_last { 0.99 } else { 1.0 };
    let mut best = None::<Chosen>;
    for draft in drafts {
        let form = Chosen::new(draft, &mut ways)?;
        let least = best.as_ref().map_or(f64::INFINITY, |b| b.seconds);
        if form.seconds < margin(&form) * plain.seconds && form.seconds < least && form.can_replace(&plain) {
            best = Some(form);
        }
    }
    Ok(best.unwrap_or(plain))
}
