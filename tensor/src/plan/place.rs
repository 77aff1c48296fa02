//! Placement: which device computes each operation, and which values move between devices.
//!
//! A node of the graph belongs to the device that its tensor names. What that device refuses (`supports`) goes to the host,
//! which computes everything: first the refused group is split, so that only those of its operations go that must; then
//! the graph is fused and lowered again. A value that is read on another device than it is made on is copied there: by one
//! copy, or by two through the host.

use std::sync::Arc;

use millstream_core::{Body, Device, Error, Layout, Result, Support};
use rustc_hash::FxHashMap;

use super::capture::{Edge, Graph, GraphNode, Source};
use super::fuse::{Form, Fused, Rules, fuse};
use super::lower::Lowered;
use super::price::lower_cheapest;
use super::sites::Sites;

/// An operation or a copy, with its device.
pub(crate) enum Task {
    /// The device of this number computes an operation.
    Compute(usize, Arc<Lowered>),
    /// A value goes to another device, where it is a node of its own.
    Copy { from: usize, to: usize },
}

/// An operation that goes to the host because its device refuses it.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Its name for people.
    pub name: String,
    /// The device that refuses it, by its number.
    pub device: usize,
    pub reason: String,
}

/// A graph as operations, each on a device that computes it.
pub(crate) struct Placed {
    pub graph: Graph,
    pub fused: Fused,
    pub tasks: Vec<Task>,
    pub refusals: Vec<Refusal>,
}

impl Placed {
    /// Whether a contraction stores several values.
    pub fn stores_several(&self) -> bool {
        let several = |l: &Lowered| l.writes.len() > 1 && matches!(l.op.body, Body::Contract(_));
        self.tasks.iter().any(|t| matches!(t, Task::Compute(_, l) if several(l)))
    }

    /// Predicted seconds of a copy between two nodes.
    pub fn copy_seconds(&self, sites: &Sites, from: usize, to: usize) -> f64 {
        let device = |n: usize| -> &Device { &sites.devices[self.graph.nodes[n].device] };
        device(from).seconds_to(device(to), self.graph.bytes(from))
    }
}

/// How often the group of a node was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Splits {
    /// Not yet.
    None,
    /// It stands alone, so that the one that is refused shows itself.
    First,
    /// The one that was refused is gone: the others may be together again.
    Again,
    /// They were refused together once more: it stays alone.
    Last,
}

/// Fuses, lowers and places; contractions store at most so many values each.
pub(crate) fn place(mut graph: Graph, sites: &mut Sites, most_results: usize) -> Result<Placed> {
    let rules = Rules::of(sites, most_results);
    let wanted = graph.outputs.len();
    let mut splits = vec![Splits::None; graph.nodes.len()];
    let mut refusals: Vec<Refusal> = Vec::new();
    loop {
        graph.outputs.truncate(wanted);
        let mut fused = fuse(&graph, rules)?;
        graph.outputs.extend(fused.kept.iter().copied());
        let lowered = lower_cheapest(&graph, &mut fused, sites, |_| true)?;
        // An operation without a single element to write has nothing to do.
        let lowered: Vec<_> = lowered.into_iter().filter(|l| l.writes.iter().any(|&n| graph.bytes(n) > 0)).collect();
        let shown: Vec<usize> = (0..splits.len()).filter(|&n| splits[n] == Splits::First).collect();
        let (mut settled, mut moved) = (true, false);
        for l in &lowered {
            let at = graph.nodes[l.writes[0]].device;
            let device = &sites.devices[at];
            let Support::No(reason) = device.supports(&l.op) else { continue };
            if device.is_host() {
                return Err(Error::unsupported(format!("{} on {}: {reason}", l.name, device.name())));
            }
            settled = false;
            let group = members(&graph, &fused, l.cluster);
            let joined = matches!(fused.clusters[l.cluster].form, Form::Map | Form::Rows(_) | Form::Contract(_));
            if joined && group.len() > 1 && group.iter().any(|&n| !graph.nodes[n].alone) {
                for &n in &group {
                    graph.nodes[n].alone = true;
                    splits[n] = if splits[n] == Splits::None { Splits::First } else { Splits::Last };
                }
                continue;
            }
            moved = true;
            let host = sites.host();
            refusals.push(Refusal { name: l.name.clone(), device: at, reason });
            for n in group {
                let node = &mut graph.nodes[n];
                if node.device == at {
                    (node.device, node.alone) = (host, false);
                }
            }
        }
        if settled {
            return route(graph, fused, lowered, refusals, sites);
        }
        // What was alone only so that the refused one showed itself may be together again when that one is gone.
        if moved {
            for n in shown {
                (splits[n], graph.nodes[n].alone) = (Splits::Again, false);
            }
        }
    }
}

/// The nodes that an operation computes: those of its cluster, and what is computed inside of it.
fn members(graph: &Graph, fused: &Fused, cluster: usize) -> Vec<usize> {
    let mut nodes = fused.clusters[cluster].nodes.clone();
    let mut at = 0;
    while let Some(&n) = nodes.get(at) {
        at += 1;
        for edge in &graph.nodes[n].inputs {
            if let Source::Node(p) = edge.source
                && fused.inlined[fused.of[p]]
                && !nodes.contains(&p)
                // Numbers and ranges are written into every reader, wherever that is.
                && !graph.nodes[p].inputs.is_empty()
            {
                nodes.push(p);
            }
        }
    }
    nodes
}

/// Copies values to where they are read.
fn route(
    mut graph: Graph,
    fused: Fused,
    lowered: Vec<Lowered>,
    refusals: Vec<Refusal>,
    sites: &mut Sites,
) -> Result<Placed> {
    let mut tasks = Vec::with_capacity(lowered.len());
    if sites.devices.len() == 1 {
        tasks.extend(lowered.into_iter().map(|l| Task::Compute(0, Arc::new(l))));
        return Ok(Placed { graph, fused, tasks, refusals });
    }
    // Operations that write part of a value come one after the other; what reads it comes after the last.
    let mut copies: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    for mut l in lowered {
        let at = graph.nodes[l.writes[0]].device;
        for read in &mut l.reads {
            let Source::Node(n) = read.source else { continue };
            let from = graph.nodes[n].device;
            if from == at || graph.bytes(n) == 0 {
                continue;
            }
            let there = match copies.get(&(n, at)) {
                Some(&there) => there,
                None => {
                    let mut source = n;
                    if sites.devices[from].reaches(&sites.devices[at]) != Support::Native {
                        let host = sites.host();
                        source = match copies.get(&(n, host)) {
                            Some(&staged) => staged,
                            None => copy(&mut graph, &mut tasks, n, host)?,
                        };
                        copies.insert((n, host), source);
                    }
                    let there = copy(&mut graph, &mut tasks, source, at)?;
                    copies.insert((n, at), there);
                    there
                }
            };
            read.source = Source::Node(there);
        }
        tasks.push(Task::Compute(at, Arc::new(l)));
    }
    Ok(Placed { graph, fused, tasks, refusals })
}

/// A node for a value on another device, and the copy that makes it.
fn copy(graph: &mut Graph, tasks: &mut Vec<Task>, from: usize, device: usize) -> Result<usize> {
    let node = &graph.nodes[from];
    let layout = Layout::contiguous(&node.shape)?;
    let edge = Edge { source: Source::Node(from), layout, edge: None, dtype: node.dtype };
    let to = graph.nodes.len();
    let copied = GraphNode { inputs: vec![edge], device, place: None, claimed: false, ..node.clone() };
    graph.nodes.push(copied);
    tasks.push(Task::Copy { from, to });
    Ok(to)
}
