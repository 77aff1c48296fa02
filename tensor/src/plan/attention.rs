//! Attention written by hand: `softmax(scale * q k' + mask) v` from matmuls, maps and reductions becomes one operation,
//! whose scores are never in memory.
//!
//! What is recognised is exactly this: a matmul, perhaps times or divided by a number; perhaps numbers added or elements
//! replaced by minus infinity under a condition; the softmax along the last axis in its safe form, with the maximum
//! subtracted; and a second matmul. Nobody else may want anything between. All is f32 or f64: of half types the
//! scores would be rounded between the matmuls. Whether the operation is taken is decided by the cost model, for each by itself.
//!
//! One thing differs: a query that sees no key gives NaN by hand and zeros by the operation. Where there is a mask, a
//! value that is NaN for such queries and zero for all others is added to the result, so that both give the same.

use millstream_core::{Binary, DType, Layout, Reduce, Result, Unary};
use smallvec::{SmallVec, smallvec};

use super::capture::{Edge, Graph, GraphNode, Number, Source};
use super::rewrite::{GraphForm, Rewritten};
use super::structure::Sizes;
use crate::graph::{Attention, Cast, Contraction, Fill, Key, Kind, Reduction, Role, is_whole, row_layout};

/// What a matmul that is attention is made of.
struct Found {
    /// The second matmul.
    out: usize,
    /// What only it needs.
    inside: Vec<usize>,
    q: Edge,
    k: Edge,
    v: Edge,
    mask: Option<Mask>,
    scale: Number,
}

enum Mask {
    /// Numbers that are added.
    Added(Edge),
    /// Where a query sees a key.
    Seen(Edge),
}

/// Says whether attention pays as one node, of the part of the graph that it would replace: its words, and what gives it as it is and
/// as one node.
pub(super) type Pays<'a> = dyn FnMut(Key, &dyn Fn() -> Result<[(Rewritten, Graph); 2]>) -> Result<bool> + 'a;

/// The graph with every attention in it that pays as one node, and for each of its nodes the number it had; `None` if there is
/// none.
pub(super) fn recognise(graph: &Graph, pays: &mut Pays<'_>) -> Result<Option<(Graph, Vec<usize>)>> {
    let mut found = Vec::new();
    for f in find(graph)? {
        let part = f.part(graph);
        let mut key = Key::new();
        part.words(&mut key, Sizes::In);
        let forms = || {
            let (attention, origin) = rebuild(&part, find(&part)?)?;
            let same = (0..part.nodes.len()).collect();
            Ok([
                (Rewritten { form: GraphForm::Attention, origin }, attention),
                (Rewritten { form: GraphForm::Plain, origin: same }, part.clone()),
            ])
        };
        if pays(key, &forms)? {
            found.push(f);
        }
    }
    match found.is_empty() {
        true => Ok(None),
        false => rebuild(graph, found).map(Some),
    }
}

/// Every attention in a graph.
fn find(graph: &Graph) -> Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    let contractions = graph.nodes.iter().filter(|n| matches!(n.kind, Kind::Contract(..))).count();
    if contractions < 2 {
        return Ok(found);
    }
    let mut readers = vec![0; graph.nodes.len()];
    for edge in graph.nodes.iter().flat_map(|n| &n.inputs) {
        if let Source::Node(p) = edge.source {
            readers[p] += 1;
        }
    }
    let look = Look { graph, readers: &readers };
    for out in 0..graph.nodes.len() {
        // In a chain of matmuls and softmaxes, the second matmul of one may be the first of the next: it is taken once.
        let taken = |n: &usize| found.iter().any(|f| f.out == *n || f.inside.contains(n));
        found.extend(look.attention(out)?.filter(|f| !f.inside.iter().any(taken)));
    }
    Ok(found)
}

impl Found {
    /// The part of the graph that is attention, as a graph whose only result is the second matmul's.
    fn part(&self, graph: &Graph) -> Graph {
        let mut numbers: Vec<usize> = self.inside.iter().copied().chain([self.out]).collect();
        let reads = |n: &usize| graph.nodes[*n].inputs.iter().map(|e| e.source).collect::<SmallVec<[Source; 3]>>();
        // Numbers that only stand beside it belong to it.
        let free = |s: &Source| match s {
            Source::Node(p) if matches!(graph.nodes[*p].kind, Kind::Fill(_)) => Some(*p),
            _ => None,
        };
        let numbers_beside: Vec<usize> = numbers.iter().flat_map(reads).filter_map(|s| free(&s)).collect();
        numbers.extend(numbers_beside);
        numbers.sort_unstable();
        numbers.dedup();
        let mut outside: SmallVec<[Source; 4]> = SmallVec::new();
        let mut moved = |edge: &Edge| {
            let inside = match edge.source {
                Source::Node(p) => numbers.binary_search(&p).ok(),
                Source::Leaf(_) => None,
            };
            let source = inside.map(Source::Node).unwrap_or_else(|| {
                let at = outside.iter().position(|s| *s == edge.source).unwrap_or_else(|| {
                    outside.push(edge.source);
                    outside.len() - 1
                });
                Source::Leaf(at)
            });
            Edge { source, edge: None, ..edge.clone() }
        };
        let nodes: Vec<GraphNode> = (numbers.iter())
            .map(|&n| &graph.nodes[n])
            .map(|node| GraphNode { inputs: node.inputs.iter().map(&mut moved).collect(), ..node.clone() })
            .collect();
        Graph { outputs: [nodes.len() - 1].into_iter().collect(), optional: Vec::new(), nodes }
    }
}

struct Look<'a> {
    graph: &'a Graph,
    readers: &'a [usize],
}

impl<'a> Look<'a> {
    fn node(&self, n: usize) -> &'a GraphNode {
        &self.graph.nodes[n]
    }

    /// The node that an edge reads whole and in its own shape, if so many read it and nobody wants it.
    fn inner(&self, edge: &Edge, readers: usize) -> Option<usize> {
        let Source::Node(p) = edge.source else { return None };
        let same = is_whole(&edge.layout) && edge.layout.shape() == self.node(p).shape;
        (same && self.readers[p] == readers && !self.graph.outputs.contains(p)).then_some(p)
    }

    /// The reduction along the last axis that an edge reads, one value a row, if nobody else reads it.
    fn row(&self, edge: &Edge, reduce: Reduce, shape: &[usize]) -> Result<Option<usize>> {
        let Source::Node(p) = edge.source else { return Ok(None) };
        let last = shape.len() - 1;
        let rows = row_layout(shape, &[last])?;
        let walks = |l: &Layout| {
            l.shape() == shape
                && l.offset() == 0
                && (0..shape.len()).all(|d| shape[d] == 1 || l.strides()[d] == rows.strides()[d])
        };
        let is = matches!(&self.node(p).kind, Kind::Reduce(r) if r.reduce == reduce && r.axes[..] == [last]);
        Ok((is && walks(&edge.layout) && self.readers[p] == 1 && !self.graph.outputs.contains(p)).then_some(p))
    }

    /// The operands of a matmul: `[batch.., m, k]` and `[batch.., k, n]`.
    fn matmul(&self, n: usize) -> Option<[&'a Edge; 2]> {
        let node = self.node(n);
        let Kind::Contract(Contraction { roles, .. }) = &node.kind else { return None };
        let rank = roles.len();
        let plain = rank >= 2
            && roles[..rank - 2].iter().all(|r| *r == Role::Batch)
            && roles[rank - 2..] == [Role::M, Role::N]
            && node.inputs[0].layout.rank() == rank;
        plain.then(|| [&node.inputs[0], &node.inputs[1]])
    }

    fn number(&self, edge: &Edge) -> Option<(usize, f64)> {
        let Source::Node(p) = edge.source else { return None };
        match &self.node(p).kind {
            Kind::Fill(Fill { value }) => Some((p, value.to_f64())),
            _ => None,
        }
    }

    fn attention(&self, out: usize) -> Result<Option<Found>> {
        let Some([left, v]) = self.matmul(out) else { return Ok(None) };
        let shape = left.layout.shape();
        let dtype = self.node(out).dtype;
        if !matches!(dtype, DType::F32 | DType::F64) || shape.contains(&0) {
            return Ok(None);
        }
        // Shares: e / sum(e), where e = exp(x - max(x)).
        let Some(share) = self.inner(left, 1) else { return Ok(None) };
        let (Kind::Binary(Binary::Div), [above, below]) = (&self.node(share).kind, &self.node(share).inputs[..]) else {
            return Ok(None);
        };
        let (Some(e), Some(sum)) = (self.inner(above, 2), self.row(below, Reduce::Sum, shape)?) else {
            return Ok(None);
        };
        if self.inner(&self.node(sum).inputs[0], 2) != Some(e) || !matches!(self.node(e).kind, Kind::Unary(Unary::Exp))
        {
            return Ok(None);
        }
        let Some(shifted) = self.inner(&self.node(e).inputs[0], 1) else { return Ok(None) };
        let (Kind::Binary(Binary::Sub), [x, most]) = (&self.node(shifted).kind, &self.node(shifted).inputs[..]) else {
            return Ok(None);
        };
        let (Some(scores), Some(most)) = (self.inner(x, 2), self.row(most, Reduce::Max, shape)?) else {
            return Ok(None);
        };
        if self.inner(&self.node(most).inputs[0], 2) != Some(scores) {
            return Ok(None);
        }
        let mut inside = vec![share, e, sum, shifted, most];
        // The scores are read by the maximum and the difference; what is below them, by them alone.
        let (mut at, mut readers, mut mask) = (scores, 2, None);
        let node = self.node(at);
        match (&node.kind, &node.inputs[..]) {
            (Kind::Binary(Binary::Add), [a, b]) => {
                let is_score = |e: &Edge| self.inner(e, 1).filter(|&p| self.is_score(p));
                let (next, added) = match (is_score(a), is_score(b)) {
                    (Some(p), None) => (p, b),
                    (None, Some(p)) => (p, a),
                    _ => return Ok(None),
                };
                if self.number(added).is_some() {
                    return Ok(None);
                }
                inside.push(at);
                (at, readers, mask) = (next, 1, Some(Mask::Added(added.clone())));
            }
            (Kind::Select(_), [seen, a, b]) => {
                let (Some(next), Some((_, f64::NEG_INFINITY))) = (self.inner(a, 1), self.number(b)) else {
                    return Ok(None);
                };
                inside.push(at);
                (at, readers, mask) = (next, 1, Some(Mask::Seen(seen.clone())));
            }
            _ => {}
        }
        let mut scale = Number::One(dtype);
        let node = self.node(at);
        if let (Kind::Binary(op @ (Binary::Mul | Binary::Div)), [a, b]) = (&node.kind, &node.inputs[..]) {
            let (next, number) = match (self.number(a), self.number(b)) {
                (None, Some((p, _))) => (self.inner(a, 1), p),
                (Some((p, _)), None) if *op == Binary::Mul => (self.inner(b, 1), p),
                _ => return Ok(None),
            };
            let Some(next) = next else { return Ok(None) };
            let param = self.node(number).first_param;
            scale = if *op == Binary::Mul { Number::Given(param) } else { Number::Inverse(param) };
            inside.push(at);
            (at, readers) = (next, 1);
        }
        let Some([q, k]) = self.matmul(at) else { return Ok(None) };
        debug_assert_eq!(self.readers[at], readers);
        let rank = shape.len();
        let same_batch = self.node(at).shape[..rank - 2] == self.node(out).shape[..rank - 2];
        if self.node(at).dtype != dtype || !same_batch || self.node(at).shape != shape {
            return Ok(None);
        }
        inside.push(at);
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 1, rank - 2);
        let k = Edge { layout: k.layout.permute(&order)?, ..k.clone() };
        Ok(Some(Found { out, inside, q: q.clone(), k, v: v.clone(), mask, scale }))
    }

    /// Whether a node is a matmul, perhaps times or divided by a number.
    fn is_score(&self, n: usize) -> bool {
        let node = self.node(n);
        match (&node.kind, &node.inputs[..]) {
            (Kind::Contract(..), _) => true,
            (Kind::Binary(Binary::Mul | Binary::Div), [a, b]) => {
                let is_matmul = |e: &Edge| self.inner(e, 1).is_some_and(|p| self.matmul(p).is_some());
                (is_matmul(a) && self.number(b).is_some()) || (is_matmul(b) && self.number(a).is_some())
            }
            _ => false,
        }
    }
}

/// The graph without what is inside, each second matmul replaced.
fn rebuild(graph: &Graph, mut found: Vec<Found>) -> Result<(Graph, Vec<usize>)> {
    let gone: Vec<usize> = found.iter().flat_map(|f| f.inside.iter().copied()).collect();
    let mut renumbered = vec![usize::MAX; graph.nodes.len()];
    let (mut nodes, mut origin): (Vec<GraphNode>, Vec<usize>) = (Vec::new(), Vec::new());
    for (n, node) in graph.nodes.iter().enumerate() {
        if gone.contains(&n) {
            continue;
        }
        let moved = |edge: &Edge| match edge.source {
            Source::Node(p) => Edge { source: Source::Node(renumbered[p]), ..edge.clone() },
            Source::Leaf(_) => edge.clone(),
        };
        let Some(at) = found.iter().position(|f| f.out == n) else {
            nodes.push(GraphNode { inputs: node.inputs.iter().map(moved).collect(), ..node.clone() });
            origin.push(n);
            renumbered[n] = nodes.len() - 1;
            continue;
        };
        let f = found.swap_remove(at);
        let mut inputs = vec![moved(&f.q), moved(&f.k), moved(&f.v)];
        let mask = f.mask.map(|m| match m {
            Mask::Added(edge) => (moved(&edge), false),
            Mask::Seen(edge) => (moved(&edge), true),
        });
        inputs.extend(mask.iter().map(|(edge, _)| edge.clone()));
        let scale = millstream_core::Scalar::one(node.dtype);
        let kind = Attention { scale, causal: false, mask: mask.is_some() }.into();
        let mut push = |kind: Kind, shape: &[usize], inputs: Vec<Edge>, number: Number| {
            let dtype = node.dtype;
            nodes.push(GraphNode { kind, shape: shape.to_vec(), inputs, dtype, number: Some(number), ..node.clone() });
            origin.push(usize::MAX);
            nodes.len() - 1
        };
        let mut last = push(kind, &node.shape, inputs, f.scale);
        if let Some((edge, seen)) = mask {
            let (rank, none) = (node.shape.len(), Number::One(node.dtype));
            let whole = |p: usize, shape: &[usize]| -> Result<Edge> {
                let layout = Layout::contiguous(shape)?;
                Ok(Edge { source: Source::Node(p), layout, edge: None, dtype: node.dtype })
            };
            let scores = edge.layout.shape().to_vec();
            let mut rows = scores.clone();
            rows[rank - 1] = 1;
            // One where a key is seen, or what is added.
            let edge = if seen {
                let ones = push(Cast { to: node.dtype }.into(), &scores, vec![edge], none);
                whole(ones, &scores)?
            } else {
                edge
            };
            let most = Reduction { reduce: Reduce::Max, axes: smallvec![rank - 1] };
            let most = push(most.into(), &rows, vec![edge], none);
            let most = whole(most, &rows)?;
            // NaN if that is 0 where 1 stands for a seen key, or if it is infinite where numbers are added; else 0.
            let left = if seen {
                let one = push(Kind::Binary(Binary::Div), &rows, vec![most.clone(), most.clone()], none);
                whole(one, &rows)?
            } else {
                most.clone()
            };
            let nothing = push(Kind::Binary(Binary::Sub), &rows, vec![left, most], none);
            let mut wide = whole(nothing, &rows)?;
            wide.layout = wide.layout.broadcast(&node.shape)?;
            let result = whole(last, &node.shape)?;
            last = push(Kind::Binary(Binary::Add), &node.shape, vec![result, wide], none);
        }
        origin[last] = n;
        renumbered[n] = last;
    }
    let outputs = graph.outputs.iter().map(|&o| renumbered[o]).collect();
    // What lies inside is not stored.
    let optional = graph.optional.iter().map(|&o| renumbered[o]).filter(|&o| o != usize::MAX).collect();
    Ok((Graph { nodes, outputs, optional }, origin))
}
