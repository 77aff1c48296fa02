//! Resizing: the plan for a graph that differs only in sizes from one that was planned before.
//!
//! A loop over values that grow, such as a cache of keys and values, asks for a plan at each step. Of such a graph only those
//! operations are planned that read or write something of another size. The others, with what computes them, are those of the
//! plan before; memory is laid out anew.
//!
//! The plan is the one that would have been made from nothing:
//!
//! - nodes are grouped as before where each that changed meets its inputs as before ([`meets`]): as large, whole, broadcast,
//!   empty or of size 1 in the same places. That a group still is one operation is checked for each that changed;
//! - what is computed inside its reader is decided again; by the cost model, where that was asked, if it has to do with what
//!   changed;
//! - the operations of groups that changed are lowered and chosen again.
//!
//! Where nodes meet otherwise, and where several forms of the graph or several devices are in play, there is no plan here, and
//! one is made from nothing.

use std::sync::Arc;

use millstream_core::what::elements;
use millstream_core::{Body, Layout, Result, Support, Work};

use super::capture::{Edge, Graph, GraphNode, Source};
use super::choose::{Chosen, Priced, Ways};
use super::fuse::{Cluster, Form, Fused, Fuser, Rules};

use super::place::{Placed, Task};
use super::price::lower_cheapest;
use super::rewrite::Rewritten;
use super::sites::Sites;
use super::structure::Sizes;
use crate::graph::{Key, Kind};

/// A plan before it got memory, from which one for other sizes can be made. It holds no device: devices hold it.
pub(crate) struct Pattern {
    structure: Key,
    placed: Placed,
    works: Vec<Priced>,
}

/// The words of a graph without its sizes; none if it cannot be planned by a pattern.
pub(crate) fn structure(graph: &Graph) -> Option<Key> {
    // Host functions know sizes of their own.
    if graph.nodes.iter().any(|n| matches!(n.kind, Kind::Host(_))) {
        return None;
    }
    let mut key = Key::new();
    graph.words(&mut key, Sizes::Out);
    Some(key)
}

impl Pattern {
    /// The pattern of a graph that has but one draft; none if that has to do with several devices.
    pub fn of(structure: Key, chosen: Chosen) -> Option<Pattern> {
        let plain = chosen.sites.devices.len() == 1 && chosen.placed.refusals.is_empty();
        plain.then_some(Pattern { structure, placed: chosen.placed, works: chosen.works })
    }

    /// What is chosen for a graph of this structure, unless it differs in more than sizes or has to be planned from nothing.
    pub fn resized(&self, structure: &Key, form: Rewritten, mut graph: Graph, sites: &Sites) -> Result<Resized> {
        let wanted = graph.outputs.len();
        if self.structure == *structure
            && let Some((fused, tasks, works, is_new)) = self.tasks(&mut graph, sites)?
        {
            let placed = Placed { graph, fused, tasks, refusals: Vec::new() };
            return Ok(Resized::Chosen(Chosen { placed, sites: sites.clone(), form, works }, is_new));
        }
        graph.outputs.truncate(wanted);
        Ok(Resized::Not(form, graph))
    }

    /// The groups of a graph, their tasks, what computes them, and whether that is new.
    fn tasks(&self, graph: &mut Graph, sites: &Sites) -> Result<Option<Tasks>> {
        let Placed { graph: old, fused, tasks, .. } = &self.placed;
        let Some(nodes) = changes(old, graph) else { return Ok(None) };
        let Some((mut fused, changed)) = regrouped(old, fused, graph, &nodes, Rules::of(sites, usize::MAX))? else {
            return Ok(None);
        };
        graph.outputs.extend(fused.kept.iter().copied());
        let Ok(lowered) = lower_cheapest(graph, &mut fused, sites, |c| changed[c]) else { return Ok(None) };
        let (mut out, mut works, mut is_new) = (Vec::with_capacity(tasks.len()), Vec::new(), Vec::new());
        let (device, mut ways) = (&sites.devices[0], Ways::default());
        let mut before = tasks.iter().zip(&self.works).peekable();
        let mut lowered = lowered.into_iter().peekable();
        // Both stand in the order of their clusters.
        for &c in &fused.order {
            while let Some((task, work)) = before.next_if(|(t, _)| matches!(t, Task::Compute(_, l) if l.cluster == c)) {
                if let (false, Task::Compute(at, l)) = (changed[c], task) {
                    out.push(Task::Compute(*at, l.clone()));
                    works.push(work.clone());
                    is_new.push(false);
                }
            }
            while let Some(l) = lowered.next_if(|l| l.cluster == c) {
                if l.writes.iter().all(|&n| graph.bytes(n) == 0) {
                    continue;
                }
                // What stores several values would have been drafted twice.
                let several = l.writes.len() > 1 && matches!(l.op.body, Body::Contract(_));
                if several || device.supports(&l.op) != Support::Native {
                    return Ok(None);
                }
                let (way, cost, _) = ways.of(device, &l.op)?;
                works.push(Some((Work::new(l.op.clone(), way, l.name.clone()), cost)));
                out.push(Task::Compute(0, Arc::new(l)));
                is_new.push(true);
            }
        }
        Ok(Some((fused, out, works, is_new)))
    }
}

/// The groups of a graph, their tasks, what computes them, and whether that is new.
type Tasks = (Fused, Vec<Task>, Vec<Priced>, Vec<bool>);

/// What becomes of a graph.
#[allow(clippy::large_enum_variant)] // nearly all are chosen
pub(crate) enum Resized {
    /// What is chosen, and for each task whether it is new.
    Chosen(Chosen, Vec<bool>),
    /// It has to be planned from nothing.
    Not(Rewritten, Graph),
}

/// For each node, whether it, or what it reads, has other sizes; none if some differ in more than that.
fn changes(old: &Graph, new: &Graph) -> Option<Vec<bool>> {
    let mut changed = Vec::with_capacity(new.nodes.len());
    let reshaped = |n: usize| old.nodes[n].shape != new.nodes[n].shape;
    for (n, (a, b)) in old.nodes.iter().zip(&new.nodes).enumerate() {
        let edge = |(a, b): (&Edge, &Edge)| {
            let source = matches!(a.source, Source::Node(p) if reshaped(p));
            source || !is_same_view(a, b)
        };
        let other = reshaped(n) || a.inputs.iter().zip(&b.inputs).any(edge);
        if other && !(is_alike(&a.shape, &b.shape) && meets(old, a).eq(meets(new, b))) {
            return None;
        }
        changed.push(other);
    }
    Some(changed)
}

/// Whether two edges read alike. Where the view of a leaf begins is given at each run.
fn is_same_view(a: &Edge, b: &Edge) -> bool {
    let (x, y) = (&a.layout, &b.layout);
    x.strides() == y.strides() && x.shape() == y.shape() && (a.edge.is_some() || x.offset() == y.offset())
}

/// Whether sizes are 0 and 1 in the same places.
fn is_alike(a: &[usize], b: &[usize]) -> bool {
    a.iter().zip(b).all(|(&a, &b)| a.min(2) == b.min(2))
}

/// How a node meets its inputs, apart from sizes.
fn meets<'a>(graph: &'a Graph, node: &'a GraphNode) -> impl Iterator<Item = u64> + 'a {
    node.inputs.iter().flat_map(move |edge| {
        let layout = &edge.layout;
        let len = layout.len();
        let whole = match edge.source {
            Source::Node(p) => len == elements(&graph.nodes[p].shape),
            Source::Leaf(_) => false,
        };
        let begins = edge.edge.is_none() && layout.offset() == 0;
        let same = layout.shape() == &node.shape[..];
        let as_large = len == elements(&node.shape);
        let all = [whole, begins, same, as_large, layout.is_contiguous()];
        let head = all.iter().fold(0, |word, &bit| word << 1 | u64::from(bit));
        (0..layout.rank()).map(move |d| dimension(layout, d)).chain([head])
    })
}

/// What a dimension of a view is apart from its size: of how many elements, which way it walks, and whether it continues the
/// one after it.
fn dimension(layout: &Layout, d: usize) -> u64 {
    let (shape, strides) = (layout.shape(), layout.strides());
    let stride = strides[d];
    let continues = d + 1 < shape.len() && stride == strides[d + 1] * shape[d + 1] as isize;
    let walk = match stride {
        0 => 0,
        1 => 1,
        -1 => 2,
        s if s > 0 => 3,
        _ => 4,
    };
    (shape[d].min(2) as u64) << 8 | walk << 1 | u64::from(continues)
}

/// The groups of a graph as they were before, and for each whether it changed; none if some would be others.
fn regrouped(
    old: &Graph,
    fused: &Fused,
    graph: &Graph,
    nodes: &[bool],
    rules: Rules,
) -> Result<Option<(Fused, Vec<bool>)>> {
    let mut changed = vec![false; fused.clusters.len()];
    (0..nodes.len()).filter(|&n| nodes[n]).for_each(|n| changed[fused.of[n]] = true);
    let mut fuser = Fuser::again(graph, fused, rules);
    for c in (0..changed.len()).filter(|&c| changed[c]) {
        let Some(domain) = domain(old, graph, &fused.clusters[c]) else { return Ok(None) };
        if !fuser.resize(c, domain)? {
            return Ok(None);
        }
    }
    let (mut inside, doubtful) = fuser.inline(&fused.order)?;
    let kept = fuser.keep(&mut inside);
    if kept != fused.kept {
        return Ok(None);
    }
    let readers = |c: usize| fused.clusters[c].nodes.iter().flat_map(|&n| &fused.readers[n]).map(|&r| fused.of[r]);
    // What changed inside of a group changes it. The order puts readers last.
    for &c in &fused.order {
        let moved = (inside[c], doubtful[c]) != (fused.inside[c], fused.doubtful[c]);
        changed[c] |= moved;
        if moved || changed[c] && inside[c] {
            readers(c).for_each(|r| changed[r] = true);
        }
    }
    // Whether what is inside of a group that changed stays there is decided again.
    let mut inlined = fused.inlined.clone();
    for &c in fused.order.iter().rev() {
        changed[c] |= inside[c] && readers(c).any(|r| changed[r]);
        if changed[c] {
            inlined[c] = inside[c];
        }
    }
    let clusters = fuser.clusters.into_iter().flatten().collect();
    let fused = Fused { clusters, inside, inlined, doubtful, ..fused.clone() };
    Ok(Some((fused, changed)))
}

/// The domain of a cluster with the sizes of another graph: that of a node which had it.
fn domain(old: &Graph, new: &Graph, c: &Cluster) -> Option<Vec<usize>> {
    let shapes = |n: usize| match (&c.form, &old.nodes[n].kind) {
        (Form::Rows(_), Kind::Reduce(_)) => [old, new].map(|g| g.nodes[n].inputs[0].layout.shape()),
        _ => [old, new].map(|g| &g.nodes[n].shape[..]),
    };
    let has = |n: usize| !matches!(c.form, Form::Rows(_)) || matches!(old.nodes[n].kind, Kind::Reduce(_));
    let mut found = c.nodes.iter().filter(|&&n| has(n)).map(|&n| shapes(n));
    found.find(|[a, _]| *a == c.domain).map(|[_, b]| b.to_vec())
}
