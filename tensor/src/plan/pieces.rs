//! Pieces: a large graph is computed by several plans, one after the other.
//!
//! Programs repeat themselves: the layers of a network, the steps of a simulation or of training that nobody read yet. Cut into pieces
//! where the fewest bytes cross, such graphs give pieces with the same structure, which one plan serves, however many there are, at
//! whatever step somebody reads. Where to cut is decided from the inputs on by what lies near alone, so that after a piece or two the cuts
//! keep step with the program.
//!
//! What crosses a cut is stored, which a plan for all might avoid; a piece is long enough that this is little.

use std::sync::Arc;

use millstream_core::what::elements;
use millstream_core::{Layout, Result};
use rustc_hash::FxHashMap;

use crate::Tensor;
use crate::graph::{Fusion, Node};

/// The most nodes that are computed by one plan whatever they are.
const MOST_WHOLE: usize = 256;
/// The fewest nodes of a piece, which has less than twice as many.
const FEWEST: usize = 32;

/// A pending value of a graph, in an order in which they can be computed.
struct Value {
    node: Arc<Node>,
    /// What it takes to store it; nothing where it is written into whatever reads it.
    bytes: Option<usize>,
    /// The last value that reads it, or the value itself.
    last: usize,
    wanted: bool,
}

/// What to compute before these tensors so that each time a piece of the graph below is computed, in this order; nothing where the
/// graph is not large.
pub(super) fn pieces(tensors: &[&Tensor]) -> Result<Vec<Vec<Tensor>>> {
    // What is known without a look at the graph is never too small.
    if tensors.iter().map(|t| t.node.waiting.nodes).sum::<u64>() <= MOST_WHOLE as u64 {
        return Ok(Vec::new());
    }
    let values = values(tensors);
    if values.len() <= MOST_WHOLE {
        return Ok(Vec::new());
    }
    let mut pieces = Vec::new();
    let mut begin = 0;
    let crossing = crossing(&values);
    while values.len() - begin >= 2 * FEWEST {
        let Some(end) = (begin + FEWEST..begin + 2 * FEWEST).min_by_key(|&cut| crossing[cut]) else { break };
        let crosses = |v: &&Value| v.bytes.is_some() && (v.last >= end || v.wanted);
        let tensor = |v: &Value| Ok(Tensor { layout: Layout::contiguous(&v.node.shape)?, node: v.node.clone() });
        pieces.push(values[begin..end].iter().filter(crosses).map(tensor).collect::<Result<_>>()?);
        begin = end;
    }
    Ok(pieces)
}

/// For each place between two values, the bytes of those before it that are read behind it.
fn crossing(values: &[Value]) -> Vec<usize> {
    // Those that are wanted are stored anyway.
    let bytes = |v: &Value| if v.wanted { 0 } else { v.bytes.unwrap_or(0) };
    let mut ends = vec![0; values.len()];
    values.iter().for_each(|v| ends[v.last] += bytes(v));
    let mut living = 0;
    let mut before = |(v, end): (&Value, usize)| {
        let crossing = living;
        living = living + bytes(v) - end;
        crossing
    };
    values.iter().zip(ends).map(&mut before).collect()
}

/// The pending values below tensors, inputs first.
fn values(tensors: &[&Tensor]) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    let mut numbers: FxHashMap<*const Node, usize> = FxHashMap::default();
    // Each entry is visited twice: first its inputs are pushed, then, when those are written down, it is.
    let mut stack: Vec<(Arc<Node>, bool)> = Vec::new();
    for tensor in tensors {
        stack.push((tensor.node.clone(), false));
        while let Some((node, inputs_done)) = stack.pop() {
            if node.value().is_some() || numbers.contains_key(&Arc::as_ptr(&node)) {
                continue;
            }
            if !inputs_done {
                stack.push((node.clone(), true));
                node.with_inputs(|inputs| stack.extend(inputs.iter().rev().map(|t| (t.node.clone(), false))));
                continue;
            }
            let n = values.len();
            node.with_inputs(|inputs| {
                for input in inputs {
                    if let Some(&p) = numbers.get(&Arc::as_ptr(&input.node)) {
                        values[p].last = n;
                    }
                }
            });
            let is_free = matches!(node.kind.fusion(), Fusion::Free);
            let bytes = (!is_free).then(|| elements(&node.shape) * node.dtype.size());
            numbers.insert(Arc::as_ptr(&node), n);
            values.push(Value { node, bytes, last: n, wanted: false });
        }
        if let Some(&n) = numbers.get(&Arc::as_ptr(&tensor.node)) {
            values[n].wanted = true;
        }
    }
    values
}
