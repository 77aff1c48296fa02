//! Making a plan: fuse, lower, choose tiles, lay out memory.

use std::sync::Arc;

use millstream_core::backend::Support;
use millstream_core::what::elements;
use millstream_core::{Candidate, Cost, DType, Device, Idea, Result, Work};
use smallvec::SmallVec;

use super::arena::{Host, Span, lay_out, lodge};
use super::attention::recognise;
use super::capture::{Capture, Graph, Number, Source};
use super::fuse::fuse;
use super::instance::Instances;
use super::layouts::channels_last;
use super::lower::{Lowered, Read, lower_all};

/// Where an operand's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A leaf.
    Leaf(usize),
    /// The memory of a wanted value, by its number among the plan's outputs; before that is written, an intermediate
    /// value's.
    Output(usize),
    /// An intermediate value: bytes into the arena, and how many.
    Arena(usize, usize),
}

/// An operand of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub slot: Slot,
    /// For a leaf: the edge whose offset is added.
    pub edge: Option<usize>,
    /// Elements from there.
    pub offset: isize,
    /// Bytes of an element.
    pub size: usize,
}

/// One launch.
pub(crate) struct Step {
    pub work: Arc<Work>,
    pub inputs: SmallVec<[Operand; 4]>,
    pub outputs: SmallVec<[Operand; 2]>,
    pub params: SmallVec<[Number; 4]>,
    /// Scratch memory in the arena: bytes into it, and how many.
    pub workspace: Option<(usize, usize)>,
    pub cost: Cost,
}

/// A value that the plan leaves behind.
pub(crate) struct Output {
    /// Its number among the captured nodes.
    pub node: usize,
    pub bytes: usize,
    /// The leaf whose memory it overwrites and takes.
    pub over: Option<usize>,
}

/// All that has to be done for a structure, whatever memory and numbers come with it.
pub(crate) struct Plan {
    pub key: SmallVec<[u64; 128]>,
    pub steps: Vec<Step>,
    pub outputs: Vec<Output>,
    pub arena: usize,
    /// For explaining: how many operations went in.
    pub nodes: usize,
    /// For explaining: whether convolutions store intermediate values with their channels last.
    pub channels_last: bool,
    pub instances: Instances,
}

/// What became of planning.
pub(crate) enum Made {
    /// A plan.
    Plan(Plan),
    /// No plan: the device cannot compute one of the operations.
    Refused(Refusal),
}

/// An operation that a device cannot compute.
pub(crate) struct Refusal {
    pub key: SmallVec<[u64; 128]>,
    /// Its name for people.
    pub name: String,
    /// The device's reason.
    pub reason: String,
    /// The nodes that it reads and that are still to be computed.
    pub reads: Vec<usize>,
    /// The nodes that it gives.
    pub writes: Vec<usize>,
}

/// A graph as operations with their variants, not yet laid out.
struct Draft {
    graph: Graph,
    /// For each node, its number among the captured ones.
    origin: Vec<usize>,
    lowered: Vec<Lowered>,
    variants: Vec<(Candidate, Cost)>,
    channels_last: bool,
}

impl Draft {
    /// Predicted seconds, for comparison with other drafts.
    fn seconds(&self, device: &Device) -> f64 {
        self.lowered.iter().zip(&self.variants).map(|(l, (variant, _))| device.compared(&l.op, variant)).sum()
    }
}

/// Fuses, lowers and tiles. Gives an operation that the device cannot compute, with its reason, if there is one.
fn draft(graph: Graph, origin: Vec<usize>, device: &Device) -> Result<std::result::Result<Draft, (Lowered, String)>> {
    // Scratch memory takes a buffer, too.
    let most_buffers = device.profile().max_bindings.saturating_sub(1);
    let mut fused = fuse(&graph, device.has(Idea::Fuse), most_buffers)?;
    let lowered = lower_all(&graph, &mut fused)?;
    let bytes = |n: usize| elements(&graph.nodes[n].shape) * graph.nodes[n].dtype.size();
    // An operation without a single element to write has nothing to do.
    let lowered: Vec<_> = lowered.into_iter().filter(|l| l.writes.iter().any(|&n| bytes(n) > 0)).collect();
    let mut variants = Vec::with_capacity(lowered.len());
    let mut refused = None;
    for (i, l) in lowered.iter().enumerate() {
        if let Support::No(reason) = device.supports(&l.op) {
            refused = Some((i, reason));
            break;
        }
        variants.push(device.choose(&l.op)?);
    }
    match refused {
        Some((i, reason)) => {
            let mut lowered = lowered;
            Ok(Err((lowered.swap_remove(i), reason)))
        }
        None => Ok(Ok(Draft { graph, origin, lowered, variants, channels_last: false })),
    }
}

/// Makes the plan for a captured graph.
pub(crate) fn make(capture: &Capture, device: &Device) -> Result<Made> {
    let graph = capture.graph()?;
    // Where the graph holds attention written by hand, that is one way to compute it; the cost model decides.
    let other = match device.has(Idea::Fuse) {
        true => recognise(&graph)?,
        false => None,
    };
    let mut other = match other {
        Some((graph, origin)) => draft(graph, origin, device)?.ok(),
        None => None,
    };
    let origin: Vec<usize> = (0..graph.nodes.len()).collect();
    // Where it holds convolutions, the channels of what lies between them may be last.
    let ideas = [Idea::Fuse, Idea::Layout].into_iter().all(|idea| device.has(idea));
    let turned = match ideas && device.profile().channels_last {
        true => channels_last(&graph)?,
        false => None,
    };
    let turned = match turned {
        Some(graph) => draft(graph, origin.clone(), device)?.ok(),
        None => None,
    };
    let plain = draft(graph, origin, device)?;
    if let (Some(turned), Ok(plain)) = (turned, &plain)
        // The model is not exact to a hundredth: what it finds about as good stays as it is.
        && turned.seconds(device) < 0.99 * plain.seconds(device)
        && other.as_ref().is_none_or(|o| turned.seconds(device) < o.seconds(device))
    {
        other = Some(Draft { channels_last: true, ..turned });
    }
    let draft = match (plain, other) {
        (Ok(plain), Some(other)) if plain.seconds(device) <= other.seconds(device) => plain,
        (_, Some(other)) => other,
        (Ok(plain), None) => plain,
        (Err((l, reason)), None) => {
            let pending = |r: &Read| if let Source::Node(n) = r.source { Some(n) } else { None };
            let reads = l.reads.iter().filter_map(pending).collect();
            return Ok(Made::Refused(Refusal {
                key: capture.key.clone(),
                name: l.name,
                reason,
                reads,
                writes: l.writes,
            }));
        }
    };
    lay(draft, capture, device).map(Made::Plan)
}

/// Compiles a draft and gives it memory.
fn lay(draft: Draft, capture: &Capture, device: &Device) -> Result<Plan> {
    let Draft { graph, origin, lowered, variants, channels_last } = draft;
    let bytes = |n: usize| elements(&graph.nodes[n].shape) * graph.nodes[n].dtype.size();
    // Values that are overwritten lie where what overwrites them lies: for each node, the last of such a chain.
    let mut home: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut taken = vec![None; graph.nodes.len()];
    for l in lowered.iter().rev() {
        match (l.over, l.writes.first()) {
            (Some(Source::Node(p)), Some(&n)) => home[p] = home[n],
            (Some(Source::Leaf(leaf)), Some(&n)) => taken[home[n]] = Some(leaf),
            _ => {}
        }
    }
    let output = |&n: &usize| Output { node: origin[n], bytes: bytes(n), over: taken[n] };
    let outputs: Vec<Output> = graph.outputs.iter().map(output).collect();

    let mut works = Vec::with_capacity(lowered.len());
    let mut costs = Vec::with_capacity(lowered.len());
    for (l, (variant, cost)) in lowered.iter().zip(variants) {
        works.push(Work::new(l.op.clone(), variant, l.name.clone()));
        costs.push(cost);
    }
    device.compile(&works)?;

    // Intermediate values live from the step that writes them to the last that reads them; scratch lives for one step.
    let mut spans: Vec<Span> = Vec::new();
    let mut span_of = vec![usize::MAX; graph.nodes.len()];
    let mut scratch = vec![usize::MAX; works.len()];
    // Results are touched from the first step that writes them on; one that takes a leaf's memory, from the beginning.
    let unused = |o: &Output| if o.over.is_some() { 0 } else { works.len() };
    let mut hosts: Vec<Host> = outputs.iter().map(|o| Host { bytes: o.bytes, from: unused(o) }).collect();
    for (s, l) in lowered.iter().enumerate() {
        for n in l.writes.iter().map(|&n| home[n]) {
            if let Some(o) = graph.outputs.iter().position(|&o| o == n) {
                hosts[o].from = hosts[o].from.min(s);
            }
        }
        for n in l.writes.iter().map(|&n| home[n]).filter(|n| !graph.outputs.contains(n)) {
            // A value made of several is written by several steps.
            match spans.get_mut(span_of[n]) {
                Some(span) => span.to = s,
                None => {
                    span_of[n] = spans.len();
                    spans.push(Span { bytes: bytes(n), from: s, to: s });
                }
            }
        }
        for read in &l.reads {
            if let Source::Node(n) = read.source
                && let Some(span) = spans.get_mut(span_of[home[n]])
            {
                span.to = s;
            }
        }
        let need = device.prepare(&works[s])?.workspace();
        if need > 0 {
            scratch[s] = spans.len();
            spans.push(Span { bytes: need, from: s, to: s });
        }
    }
    // Everything is allocated before the first step, so results have memory that intermediate values can use until then.
    let mut value = vec![true; spans.len()];
    scratch.iter().filter(|&&i| i != usize::MAX).for_each(|&i| value[i] = false);
    let lodging = lodge(&spans, |i| value[i], &hosts);
    let asked: Vec<Span> =
        spans.iter().zip(&lodging).map(|(s, h)| Span { bytes: if h.is_some() { 0 } else { s.bytes }, ..*s }).collect();
    let (places, arena) = lay_out(&asked, device.profile().offset_alignment.max(64));

    let slot = |n: usize| match graph.outputs.iter().position(|&o| o == home[n]) {
        Some(o) => Slot::Output(o),
        None if span_of[home[n]] == usize::MAX => Slot::Arena(0, 0),
        None => match lodging[span_of[home[n]]] {
            Some(o) => Slot::Output(o),
            None => Slot::Arena(places[span_of[home[n]]], bytes(n)),
        },
    };
    let steps: Vec<Step> = lowered
        .iter()
        .zip(works)
        .zip(costs)
        .enumerate()
        .map(|(s, ((l, work), cost))| {
            let size = |dtype: DType| dtype.size();
            Step {
                inputs: l
                    .reads
                    .iter()
                    .zip(&l.op.inputs)
                    .map(|(r, access)| Operand {
                        slot: match r.source {
                            Source::Leaf(leaf) => Slot::Leaf(leaf),
                            Source::Node(n) => slot(n),
                        },
                        edge: r.edge,
                        offset: r.offset,
                        size: size(access.dtype),
                    })
                    .collect(),
                outputs: l
                    .writes
                    .iter()
                    .map(|&n| Operand {
                        slot: slot(n),
                        edge: l.write_edge,
                        offset: l.write_offset,
                        size: size(graph.nodes[n].dtype),
                    })
                    .collect(),
                params: l.params.iter().copied().collect(),
                workspace: spans.get(scratch[s]).map(|span| (places[scratch[s]], span.bytes)),
                work,
                cost,
            }
        })
        .collect();
    // An operand without elements needs a place, too.
    let in_arena = |o: &Operand| matches!(o.slot, Slot::Arena(..));
    let arena = arena.max(usize::from(steps.iter().any(|s| s.inputs.iter().chain(&s.outputs).any(in_arena))));
    let nodes = capture.nodes.len();
    Ok(Plan { key: capture.key.clone(), steps, outputs, arena, nodes, channels_last, instances: Instances::default() })
}
