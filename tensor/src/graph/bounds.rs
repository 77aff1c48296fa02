//! Bounds on what waits: a graph that grows without ever being read is computed by itself.
//!
//! Three things are bounded: how many operations wait one upon the other, how many wait in all, and how many bytes only they
//! hold. The last counts what computing would give back: memory of values that nobody but the graph has, less the memory that the
//! results would take. Each node carries estimates ([`Waiting`]); when one exceeds its bound, the graph is walked and counted, so
//! that the bound itself is exact.

use std::sync::Arc;

use millstream_core::Result;
use millstream_core::what::elements;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Node, Waiting};
use crate::Tensor;
use crate::plan::{Trigger, trigger};

/// How many operations may wait one upon the other.
const DEEPEST: u32 = 1024;
/// How many operations may wait in all.
const MOST_NODES: u64 = 4096;
/// How many bytes may be kept only because operations wait: 256 MiB.
const MOST_BYTES: u64 = 256 << 20;

/// What waits below a node over these inputs. If that is too much, the inputs are computed first.
pub(crate) fn below(inputs: &[Tensor]) -> Result<Waiting> {
    let mut sum = Waiting::below(inputs);
    let deep = inputs.iter().any(|t| t.node.waiting.depth >= DEEPEST && t.node.value().is_none());
    if !deep && sum.nodes <= MOST_NODES && sum.bytes <= MOST_BYTES {
        return Ok(sum);
    }
    let results: u64 = pending(inputs).map(|t| bytes(&t.node)).sum();
    let why = if deep {
        Some(Trigger::Depth)
    } else if sum.nodes > MOST_NODES || sum.bytes > MOST_BYTES + results {
        let (nodes, bytes) = count(inputs);
        sum = sum.counted(nodes, bytes);
        if sum.nodes > MOST_NODES {
            Some(Trigger::Nodes)
        } else {
            (sum.bytes > MOST_BYTES + results).then_some(Trigger::Bytes)
        }
    } else {
        None
    };
    let Some(why) = why else { return Ok(sum) };
    let waiting: SmallVec<[&Tensor; 4]> = pending(inputs).collect();
    trigger(&waiting, why)?;
    Ok(Waiting::below(inputs))
}

fn pending(inputs: &[Tensor]) -> impl Iterator<Item = &Tensor> {
    inputs.iter().filter(|t| t.node.value().is_none())
}

/// The bytes of a node's value.
fn bytes(node: &Node) -> u64 {
    (elements(&node.shape) as u64).saturating_mul(node.dtype.size() as u64)
}

/// Operations that wait below these inputs, each once, and the bytes of values that only they hold.
fn count(inputs: &[Tensor]) -> (u64, u64) {
    // For each node, how many of the edges seen lead to it.
    let mut seen: FxHashMap<*const Node, (Arc<Node>, usize)> = FxHashMap::default();
    let mut stack: Vec<Arc<Node>> = Vec::new();
    let mut nodes = 0;
    let mut meet = |t: &Tensor, stack: &mut Vec<Arc<Node>>| {
        let entry = seen.entry(Arc::as_ptr(&t.node)).or_insert_with(|| {
            if t.node.value().is_none() {
                stack.push(t.node.clone());
            }
            (t.node.clone(), 0)
        });
        entry.1 += 1;
    };
    inputs.iter().for_each(|t| meet(t, &mut stack));
    while let Some(node) = stack.pop() {
        nodes += 1;
        node.with_inputs(|inputs| inputs.iter().for_each(|t| meet(t, &mut stack)));
    }
    // One more holder is this list.
    let only = seen.values().filter(|(node, edges)| Arc::strong_count(node) <= edges + 1);
    let held = only.filter_map(|(node, _)| node.value()?.as_ref().ok()).map(|buffer| buffer.len() as u64);
    (nodes, held.sum())
}
