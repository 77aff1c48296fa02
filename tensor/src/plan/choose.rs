//! Choosing: the way in which each operation is computed, and which of several graphs that mean the same is taken.
//!
//! The cost model decides both. A graph may have other forms: attention as one operation, or the channels of what lies between
//! convolutions last. Each form was placed; the cheapest is taken.

use millstream_core::{Candidate, Cost, Device, Error, Result};

use super::place::{Placed, Sites, Task};
use super::rewrite::{Form, Rewritten};

/// A placed graph with the way to compute each of its operations.
pub(crate) struct Chosen {
    pub placed: Placed,
    pub sites: Sites,
    /// For each node, its number among the captured ones.
    pub origin: Vec<usize>,
    /// For each task, the way to compute it; `None` for a copy.
    pub ways: Vec<Option<(Candidate, Cost)>>,
    pub channels_last: bool,
}

/// A form of the graph, placed on these devices.
pub(crate) type Draft = (Rewritten, Placed, Sites);

impl Chosen {
    fn new((form, placed, sites): Draft) -> Result<Chosen> {
        let way = |task: &Task| match task {
            Task::Compute(device, l) => sites.devices[*device].choose(&l.op).map(Some),
            Task::Copy { .. } => Ok(None),
        };
        let ways = placed.tasks.iter().map(way).collect::<Result<_>>()?;
        let mut origin = form.origin;
        origin.resize(placed.graph.nodes.len(), usize::MAX);
        Ok(Chosen { placed, sites, origin, ways, channels_last: form.form == Form::ChannelsLast })
    }

    /// Predicted seconds, for comparison with other forms.
    fn seconds(&self) -> f64 {
        let seconds = |(task, way): (&Task, &Option<(Candidate, Cost)>)| match (task, way) {
            (Task::Compute(device, l), Some((candidate, _))) => self.sites.devices[*device].compared(&l.op, candidate),
            (Task::Copy { from, to }, _) => self.copy_seconds(*from, *to),
            _ => 0.0,
        };
        self.placed.tasks.iter().zip(&self.ways).map(seconds).sum()
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
    let plain = Chosen::new(plain)?;
    // The model is not exact to a hundredth: channels stay where they are if it finds that about as good.
    let margin = |c: &Chosen| if c.channels_last { 0.99 } else { 1.0 };
    let (least, mut best) = (plain.seconds(), None::<(f64, Chosen)>);
    for draft in drafts {
        let form = Chosen::new(draft)?;
        let seconds = form.seconds();
        let cheaper = seconds < margin(&form) * least && best.as_ref().is_none_or(|(b, _)| seconds < *b);
        if cheaper && form.can_replace(&plain) {
            best = Some((seconds, form));
        }
    }
    Ok(best.map_or(plain, |(_, form)| form))
}
