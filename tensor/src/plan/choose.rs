//! Choosing: the way in which each operation is computed, and which of several graphs that mean the same is taken.
//!
//! The cost model decides both. A graph may have other forms: attention as one operation, or the channels of what lies between
//! convolutions last. Each form goes through fusing, lowering and placing; the cheapest is taken.

use millstream_core::{Candidate, Cost, Device, Idea, Result};

use super::attention::recognise;
use super::capture::Graph;
use super::layouts::channels_last;
use super::place::{Placed, Sites, Task, place};

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

impl Chosen {
    fn new(graph: Graph, mut origin: Vec<usize>, sites: &Sites) -> Result<Chosen> {
        let mut sites = sites.clone();
        // Scratch memory takes a buffer, too.
        let most = sites.devices.iter().map(|d| d.profile().max_bindings.saturating_sub(1)).min().unwrap_or(0);
        let fusing = sites.devices[0].has(Idea::Fuse);
        let placed = place(graph, &mut sites, fusing, most)?;
        let way = |task: &Task| match task {
            Task::Compute(device, l) => sites.devices[*device].choose(&l.op).map(Some),
            Task::Copy { .. } => Ok(None),
        };
        let ways = placed.tasks.iter().map(way).collect::<Result<_>>()?;
        origin.resize(placed.graph.nodes.len(), usize::MAX);
        Ok(Chosen { placed, sites, origin, ways, channels_last: false })
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

/// Chooses for a graph whose nodes name these devices.
pub(crate) fn choose(graph: Graph, sites: &Sites) -> Result<Chosen> {
    let main = &sites.devices[0];
    // Other forms are looked for where one device computes all.
    let one = sites.devices.len() == 1 && main.has(Idea::Fuse);
    let attention = if one { recognise(&graph)? } else { None };
    let last = match one && main.has(Idea::Layout) && main.profile().channels_last {
        true => channels_last(&graph)?,
        false => None,
    };
    let origin: Vec<usize> = (0..graph.nodes.len()).collect();
    let attention = attention.map(|(graph, origin)| Chosen::new(graph, origin, sites)).transpose()?;
    let last = last.map(|graph| Chosen::new(graph, origin.clone(), sites)).transpose()?;
    let plain = Chosen::new(graph, origin, sites)?;
    let attention = attention.filter(|a| a.can_replace(&plain));
    if let Some(last) = last.filter(|l| l.can_replace(&plain))
        // The model is not exact to a hundredth: what it finds about as good stays as it is.
        && last.seconds() < 0.99 * plain.seconds()
        && attention.as_ref().is_none_or(|a| last.seconds() < a.seconds())
    {
        return Ok(Chosen { channels_last: true, ..last });
    }
    Ok(match attention {
        Some(attention) if attention.seconds() < plain.seconds() => attention,
        _ => plain,
    })
}
