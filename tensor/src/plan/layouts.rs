//! Where intermediate values have their channels: the same graph with the channels of convolutions last.
//!
//! A value lies row-major in its own shape, so that the result of a convolution over `[batch, channels, height, width]` has its
//! channels first. Kernels compute vectors of channels, and transpose them to write them so, although the next convolution reads
//! single elements from anywhere, or would rather read such vectors. Here intermediate values that convolutions make, and what
//! follows from them element by element (biases, activations, residuals), by padding, pooling and joining, are stored with
//! their channels last. Nothing is copied for that: dimensions of nodes are exchanged, and every edge that reads such a value reads it
//! through another layout. Values that somebody wants keep their order, and so do all that are computed together with them.
//!
//! A value is taken as `[before, channels, pixels]` and stored as `[before, pixels, channels]`. Whether the graph is computed so is
//! decided by the cost model. Sums over windows are summed in another order, within the same bound.

use millstream_core::what::elements;
use millstream_core::{Layout, Result};

use super::capture::{Edge, Graph, GraphNode, Source};
use crate::graph::{Concat, Contraction, Coordinates, Kind, Pad, Reduction, Role, Roles, is_whole};

/// Fewer convolutions than this have nothing between them.
const LEAST: usize = 2;

/// A value's dimensions as three: those before the channels, the channels, the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChannelSplit {
    before: usize,
    channels: usize,
    pixels: usize,
}

/// A node whose value may be stored with its channels last.
#[derive(Clone, Debug)]
struct Permuted {
    split: ChannelSplit,
    /// Its dimensions in the other order.
    order: Vec<usize>,
}

impl ChannelSplit {
    /// The split of a shape of which these dimensions are channels.
    fn of(shape: &[usize], channels: std::ops::Range<usize>) -> ChannelSplit {
        ChannelSplit {
            before: elements(&shape[..channels.start]),
            pixels: elements(&shape[channels.end..]),
            channels: elements(&shape[channels]),
        }
    }

    /// Which dimensions of a shape are the channels, if it can be split so.
    fn channels_in(&self, shape: &[usize]) -> Option<std::ops::Range<usize>> {
        let mut ends = (0..=shape.len()).rev().filter(|&d| elements(&shape[..d]) == self.before);
        ends.find_map(|first| {
            let last = (first..=shape.len()).find(|&d| elements(&shape[first..d]) == self.channels)?;
            (elements(&shape[last..]) == self.pixels).then_some(first..last)
        })
    }

    /// For each dimension of a view of such a value: which of the three it moves, and how far. `None` where one moves several.
    fn steps(&self, view: &Layout) -> Option<Coordinates> {
        Coordinates::of(&[self.before, self.channels, self.pixels], view)
    }

    /// The view of the value with its channels last.
    fn last(&self, view: &Layout) -> Result<Option<Layout>> {
        if view.is_empty() {
            return Ok(Some(view.clone()));
        }
        let Some(at) = self.steps(view) else { return Ok(None) };
        let worth = [(self.channels * self.pixels) as isize, 1, self.channels as isize];
        let strides: Vec<isize> = at.steps.iter().map(|&(axis, step)| step * worth[axis]).collect();
        let offset: isize = at.start.iter().zip(worth).map(|(i, w)| i * w).sum();
        Layout::new(view.shape(), &strides, offset as usize).map(Some)
    }
}

/// Channels behind pixels.
fn exchanged(rank: usize, channels: std::ops::Range<usize>) -> Vec<usize> {
    (0..channels.start).chain(channels.end..rank).chain(channels).collect()
}

/// Whether a node is a convolution with its channels first: `[image, group, channel, pixels..]`.
pub(super) fn is_convolution(node: &GraphNode) -> bool {
    let Kind::Contract(Contraction { roles, .. }) = &node.kind else { return false };
    matches!(&roles[..], [Role::Batch | Role::N, Role::Batch, Role::M, Role::N, rest @ ..]
        if rest.iter().all(|r| *r == Role::N))
}

/// The graph with the channels of convolutions last; `None` if it has too few of them, or nothing can be stored so.
pub(super) fn channels_last(graph: &Graph) -> Result<Option<Graph>> {
    if graph.nodes.iter().filter(|n| is_convolution(n)).count() < LEAST {
        return Ok(None);
    }
    let mut permuted: Vec<Option<Permuted>> = Vec::with_capacity(graph.nodes.len());
    // Nodes that must be stored alike have one leader.
    let mut leader: Vec<usize> = (0..graph.nodes.len()).collect();
    for (v, node) in graph.nodes.iter().enumerate() {
        let found = found(node, &permuted);
        if let Some(Permuted { split, .. }) = &found {
            for edge in &node.inputs {
                if let Source::Node(p) = edge.source
                    && follows(node, edge, permuted[p].as_ref())
                    && (changes_shape(node) || permuted[p].as_ref().map(|t| t.split) == Some(*split))
                {
                    let (a, b) = (lead(&leader, p), lead(&leader, v));
                    leader[a] = b;
                }
            }
        }
        permuted.push(found);
    }
    // A value that somebody wants, or that is read in a way that cannot be said of the other order, keeps all that go with it.
    let mut unchanged = vec![false; graph.nodes.len()];
    for &o in graph.outputs.iter().chain(&graph.optional) {
        unchanged[lead(&leader, o)] = true;
    }
    let mut made = vec![false; graph.nodes.len()];
    for (v, node) in graph.nodes.iter().enumerate() {
        made[lead(&leader, v)] |= is_convolution(node);
        let by_itself = matches!(
            node.kind,
            Kind::Host(..) | Kind::Gather(_) | Kind::Scan { .. } | Kind::Attention { .. } | Kind::Assign(_)
        );
        for edge in &node.inputs {
            if let Source::Node(p) = edge.source
                && let Some(t) = &permuted[p]
                && (by_itself || t.split.last(&edge.layout)?.is_none())
            {
                unchanged[lead(&leader, p)] = true;
            }
        }
    }
    for (v, t) in permuted.iter_mut().enumerate() {
        let l = lead(&leader, v);
        if unchanged[l] || !made[l] {
            *t = None;
        }
    }
    if permuted.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (node, t) in graph.nodes.iter().zip(&permuted) {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for edge in &node.inputs {
            let by_channels = match edge.source {
                Source::Node(p) => match &permuted[p] {
                    Some(t) => t.split.last(&edge.layout)?,
                    None => None,
                },
                Source::Leaf(_) => None,
            };
            inputs.push(Edge { layout: by_channels.unwrap_or_else(|| edge.layout.clone()), ..edge.clone() });
        }
        let node = GraphNode { inputs, ..node.clone() };
        nodes.push(match t {
            Some(t) => reordered(node, &t.order)?,
            None => node,
        });
    }
    Ok(Some(Graph { nodes, outputs: graph.outputs.clone(), optional: graph.optional.clone() }))
}

/// Whether a node's shape may differ from that of what it follows.
fn changes_shape(node: &GraphNode) -> bool {
    matches!(node.kind, Kind::Pad { .. } | Kind::Concat { .. } | Kind::Reduce(..))
}

fn lead(leader: &[usize], mut v: usize) -> usize {
    while leader[v] != v {
        v = leader[v];
    }
    v
}

/// Whether a node would be stored as this input of it is: it reads the input's elements in their order, or windows of them.
fn follows(node: &GraphNode, edge: &Edge, from: Option<&Permuted>) -> bool {
    let Some(from) = from else { return false };
    let whole =
        is_whole(&edge.layout) && edge.layout.len() == from.split.before * from.split.channels * from.split.pixels;
    match node.kind {
        Kind::Unary(_) | Kind::Binary(_) | Kind::Select(_) | Kind::Cast(_) | Kind::Copy(_) => whole,
        Kind::Pad { .. } | Kind::Concat { .. } => whole,
        Kind::Reduce(..) => true,
        _ => false,
    }
}

/// How a node could be stored with its channels last, given how its inputs could be.
fn found(node: &GraphNode, permuted: &[Option<Permuted>]) -> Option<Permuted> {
    let shape = &node.shape;
    let made = |channels: std::ops::Range<usize>, order: Option<Vec<usize>>| {
        let split = ChannelSplit::of(shape, channels.clone());
        // With one channel, or one pixel, both orders are the same.
        let differs = split.before > 0 && split.channels > 1 && split.pixels > 1;
        differs.then(|| Permuted { split, order: order.unwrap_or_else(|| exchanged(shape.len(), channels)) })
    };
    if is_convolution(node) {
        return made(1..3, None);
    }
    let source = |edge: &Edge| match edge.source {
        Source::Node(p) => permuted[p].as_ref(),
        Source::Leaf(_) => None,
    };
    let following = |e: &Edge| source(e).filter(|t| follows(node, e, Some(t)));
    let (edge, from) = node.inputs.iter().find_map(|e| following(e).map(|t| (e, t)))?;
    match &node.kind {
        Kind::Reduce(Reduction { axes, .. }) => {
            windows(edge, from, axes).and_then(|(channels, order)| made(channels, Some(order)))
        }
        // Joined along channels or anything else, as long as every part has its own.
        Kind::Concat { .. } => {
            let channels = |e: &Edge| following(e)?.split.channels_in(e.layout.shape());
            let first = channels(edge);
            let alike = node.inputs.iter().all(|e| e.layout.is_empty() || channels(e) == first);
            first.filter(|_| alike).and_then(|channels| made(channels, None))
        }
        _ => from.split.channels_in(edge.layout.shape()).and_then(|channels| made(channels, None)),
    }
}

/// The channels of a reduction over windows of such a value, and its dimensions in the other order; `None` if it is another one.
fn windows(edge: &Edge, from: &Permuted, axes: &[usize]) -> Option<(std::ops::Range<usize>, Vec<usize>)> {
    let (shape, at) = (edge.layout.shape(), from.split.steps(&edge.layout)?);
    let of = |d: usize| if shape[d] == 1 || at.steps[d].1 == 0 { None } else { Some(at.steps[d].0) };
    let rest: Vec<usize> = (0..shape.len()).filter(|d| !axes.contains(d)).collect();
    // Sums over channels are no pooling, nor are values that are repeated.
    let repeated = |d: usize| shape[d] > 1 && of(d).is_none();
    if axes.iter().any(|&d| of(d) == Some(1)) || (0..shape.len()).any(repeated) {
        return None;
    }
    // Those that stay stand in their order: before, channels, pixels; then those that are reduced.
    let first = rest.iter().position(|&d| of(d) == Some(1))?;
    let count = rest[first..].iter().take_while(|&&d| of(d) == Some(1)).count();
    let (before, behind) = (&rest[..first], &rest[first + count..]);
    let ordered = before.iter().all(|&d| of(d) != Some(2)) && behind.iter().all(|&d| matches!(of(d), None | Some(2)));
    let reduced_last = rest.iter().enumerate().all(|(i, &d)| i == d);
    if !ordered || !reduced_last || at.start.iter().any(|&i| i != 0) {
        return None;
    }
    let mut order = exchanged(rest.len(), first..first + count);
    order.extend(axes.iter().copied());
    Some((first..first + count, order))
}

/// The node with its dimensions in another order.
fn reordered(node: GraphNode, order: &[usize]) -> Result<GraphNode> {
    let shape = order.iter().map(|&d| node.shape[d]).collect();
    let position = |d: usize| order.iter().position(|&o| o == d).unwrap_or(d);
    let kind = match &node.kind {
        Kind::Contract(Contraction { roles, accuracy }) => {
            let permuted_roles: Roles = order
                .iter()
                .map(|&d| match roles[d] {
                    Role::Batch => Role::Batch,
                    Role::M => Role::N,
                    Role::N => Role::M,
                })
                .collect();
            let inputs = exchanged_operands(roles, &node.inputs)?;
            let kind = Contraction { roles: permuted_roles, accuracy: *accuracy }.into();
            return Ok(GraphNode { kind, shape, inputs, ..node });
        }
        Kind::Pad(Pad { before, after, fill }) => {
            let permuted = |amounts: &[usize]| order.iter().map(|&d| amounts[d]).collect();
            Pad { before: permuted(before), after: permuted(after), fill: *fill }.into()
        }
        Kind::Concat(Concat { axis, parts }) => Concat { axis: position(*axis), parts: *parts }.into(),
        Kind::Reduce(Reduction { reduce, axes }) => {
            let mut axes = axes.clone();
            axes.iter_mut().for_each(|a| *a = position(*a));
            Reduction { reduce: *reduce, axes }.into()
        }
        other => other.clone(),
    };
    let mut inputs = node.inputs.clone();
    for edge in &mut inputs {
        edge.layout = edge.layout.permute(order)?;
    }
    Ok(GraphNode { kind, shape, inputs, ..node })
}

/// The operands `[batch.., m.., k..]` and `[batch.., k.., n..]` of a matmul as those of the matmul with rows and columns exchanged,
/// the elements of a window in the order in which they lie.
fn exchanged_operands(roles: &Roles, inputs: &[Edge]) -> Result<Vec<Edge>> {
    let count = |role: Role| roles.iter().filter(|r| **r == role).count();
    let (batch, m, n) = (count(Role::Batch), count(Role::M), count(Role::N));
    let (left, right) = (&inputs[0], &inputs[1]);
    let k = left.layout.rank() - batch - m;
    let mut k_axes: Vec<usize> = (0..k).collect();
    k_axes.sort_by_key(|&d| std::cmp::Reverse(right.layout.strides()[batch + d].abs()));
    let rows = (0..batch).chain(batch + k..batch + k + n).chain(k_axes.iter().map(|d| batch + d));
    let columns = (0..batch).chain(k_axes.iter().map(|d| batch + m + d)).chain(batch..batch + m);
    let permuted = |edge: &Edge, order: Vec<usize>| -> Result<Edge> {
        Ok(Edge { layout: edge.layout.permute(&order)?, ..edge.clone() })
    };
    Ok(vec![permuted(right, rows.collect())?, permuted(left, columns.collect())?])
}
