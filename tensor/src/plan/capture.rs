//! Capture: walks the waiting graph below some outputs and writes down its structure.
//!
//! The structure ([`Capture::key`]) is a list of words: operations, dtypes, shapes, strides, who reads what, which values
//! are wanted. It holds no scalar values, no offsets into leaves and no addresses, so a loop that only changes these finds
//! its plan again. What the key leaves out is gathered beside it, in the order in which a plan asks for it.

use std::sync::Arc;

use millstream_core::what::elements;
use millstream_core::{Device, Error, Event, Layout, Scalar};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::Tensor;
use crate::graph::{Claim, Fusion, InputShapes, Key, Kind, Node, is_whole};

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A value that is there, by its number among the leaves.
    Leaf(usize),
    /// A value to be computed, by its number among the pending nodes.
    Node(usize),
}

/// The waiting graph below some outputs.
pub(crate) struct Capture {
    /// The structure.
    pub key: Key,
    /// Nodes to be computed, inputs first.
    pub nodes: SmallVec<[Arc<Node>; 16]>,
    /// Values that are there.
    pub leaves: SmallVec<[Arc<Node>; 8]>,
    /// For each edge to a leaf, in the order of the walk: the leaf, and the element it begins at.
    pub edges: SmallVec<[(usize, usize); 16]>,
    /// The numbers in the graph, in the order of the walk.
    pub params: SmallVec<[Scalar; 8]>,
    /// Which pending nodes are wanted.
    pub outputs: SmallVec<[usize; 2]>,
    /// Pending nodes that the program holds and that are worth keeping where they are stored: see [`Capture::hold`].
    pub optional: SmallVec<[usize; 2]>,
    /// Whether values that the program holds are kept besides those that are wanted.
    pub keeping: bool,
    /// Whether there are such values.
    pub keeps: bool,
    /// The assignments, by their number among the pending nodes, whose base is a leaf that they may overwrite. Until the capture ends,
    /// other threads that come upon one wait.
    pub claims: SmallVec<[usize; 0]>,
    /// The devices that pending nodes name, but for the one for which the graph is evaluated.
    pub others: SmallVec<[Device; 0]>,
    /// Whether arguments of a function that is being compiled are leaves; else they are an error.
    pub stand_ins: bool,
}

/// Which pending node reads which, by reader.
type Reads = SmallVec<[(u32, u32); 32]>;

/// Finds a node's number: by search while there are few, by hash when there are many.
struct Numbers {
    few: SmallVec<[(*const Node, Source); 16]>,
    many: FxHashMap<*const Node, Source>,
}

impl Numbers {
    fn get(&self, node: *const Node) -> Option<Source> {
        if self.many.is_empty() {
            self.few.iter().find(|(n, _)| *n == node).map(|(_, s)| *s)
        } else {
            self.many.get(&node).copied()
        }
    }

    fn put(&mut self, node: *const Node, source: Source) {
        if self.many.is_empty() && self.few.len() < 16 {
            self.few.push((node, source));
        } else {
            if self.many.is_empty() {
                self.many.extend(self.few.iter().copied());
            }
            self.many.insert(node, source);
        }
    }
}

/// Begins the words of a node.
const NODE: u64 = 1 << 56;
/// Begins the words of an edge to a leaf.
const LEAF: u64 = 2 << 56;
/// Begins the words of an edge to a pending node.
const EDGE: u64 = 3 << 56;
/// Begins the list of outputs.
const OUTPUTS: u64 = 4 << 56;
/// Begins the list of assignments in place.
const CLAIMS: u64 = 5 << 56;
/// Begins the word that names the device of the node after it, where that is not the one for which the graph is evaluated.
const DEVICE: u64 = 6 << 56;
/// Begins the lists of nodes that are kept because the program holds them.
const HELD: u64 = 7 << 56;
/// How many operations in a chain count as much as an expensive one.
const LONG: u32 = 32;
/// Stands for the leaf where an edge only says at which element of its own value an assignment begins.
pub(super) const NO_LEAF: usize = usize::MAX;

impl Capture {
    /// Nothing yet. A capture is some kilobytes, so that small graphs need no allocation: make it where it stays.
    pub fn new() -> Capture {
        Capture {
            key: SmallVec::new(),
            nodes: SmallVec::new(),
            leaves: SmallVec::new(),
            edges: SmallVec::new(),
            params: SmallVec::new(),
            outputs: SmallVec::new(),
            optional: SmallVec::new(),
            keeping: true,
            keeps: false,
            claims: SmallVec::new(),
            others: SmallVec::new(),
            stand_ins: false,
        }
    }

    /// Nothing again, for another walk.
    pub fn clear(&mut self) {
        let (stand_ins, keeping) = (self.stand_ins, self.keeping);
        *self = Capture::new();
        (self.stand_ins, self.keeping) = (stand_ins, keeping);
    }

    /// Walks the graph, which is evaluated for this device. Fails with a carried error if one is met.
    pub fn walk(&mut self, outputs: &[&Tensor], device: &Device) -> Planned<()> {
        let c = self;
        let mut numbers = Numbers { few: SmallVec::new(), many: FxHashMap::default() };
        // Each entry is visited twice: first its inputs are pushed, then, when those have numbers, it is written down.
        let mut stack: SmallVec<[(Arc<Node>, bool); 32]> = SmallVec::new();
        // What host functions give is kept: it is dear, and somebody may want the other outputs, too.
        let mut along: SmallVec<[Arc<Node>; 0]> = SmallVec::new();
        let mut reads: Reads = SmallVec::new();
        for output in outputs {
            stack.push((output.node.clone(), false));
            while let Some((node, inputs_done)) = stack.pop() {
                let at = Arc::as_ptr(&node);
                if numbers.get(at).is_some() {
                    continue;
                }
                match node.value() {
                    // Another thread computed it meanwhile: its inputs, which are written down, may have no other reader.
                    Some(Ok(_)) if inputs_done => return Err(Unplanned::Raced),
                    Some(Ok(_)) => {
                        numbers.put(at, Source::Leaf(c.leaves.len()));
                        c.leaves.push(node);
                        continue;
                    }
                    Some(Err(error)) => return Err(error.clone().into()),
                    None if matches!(node.kind, Kind::Input(_)) => {
                        if !c.stand_ins {
                            return Err(Error::argument(
                                "the value of an argument was read while its function is compiled",
                            )
                            .suggest("compile only what does not depend on values, or call the function itself")
                            .into());
                        }
                        numbers.put(at, Source::Leaf(c.leaves.len()));
                        c.leaves.push(node);
                        continue;
                    }
                    None => {}
                }
                if !inputs_done {
                    // Once this walk holds what it reads, nobody claims it.
                    let waiting = node.with_unclaimed_inputs(|inputs| {
                        let before = stack.len();
                        stack.push((node.clone(), true));
                        for input in inputs.iter().rev() {
                            if numbers.get(Arc::as_ptr(&input.node)).is_none() {
                                stack.push((input.node.clone(), false));
                            }
                        }
                        stack.len() - before
                    })?;
                    if waiting > 1 {
                        continue;
                    }
                    stack.pop();
                }
                if !node.with_inputs(|inputs| c.write(&node, inputs, &numbers, &mut reads, device)) {
                    return Err(Unplanned::Raced);
                }
                numbers.put(at, Source::Node(c.nodes.len()));
                if let Some(group) = node.kind.host_group() {
                    for other in group.waiting().filter(|n| numbers.get(Arc::as_ptr(n)).is_none()) {
                        stack.push((other, false));
                    }
                    along.push(node.clone());
                }
                c.nodes.push(node);
            }
        }
        c.key.push(OUTPUTS | outputs.len() as u64);
        for node in outputs.iter().map(|t| &t.node).chain(&along) {
            if let Some(Source::Node(n)) = numbers.get(Arc::as_ptr(node))
                && !c.outputs.contains(&n)
            {
                c.outputs.push(n);
                c.key.push(n as u64);
            }
        }
        drop(along);
        if c.keeping && !c.stand_ins {
            c.hold(&reads);
        }
        c.claim()
    }

    /// Writes a node's words; false if its inputs are gone.
    fn write(&mut self, node: &Node, inputs: &[Tensor], numbers: &Numbers, reads: &mut Reads, main: &Device) -> bool {
        if inputs.len() != node.kind.arity() {
            return false;
        }
        if let Some(other) = node.device.as_ref().filter(|d| !d.same(main) && d.candidates().is_empty()) {
            self.key.push(DEVICE | other.id());
            if !self.others.contains(other) {
                self.others.push(other.clone());
            }
        }
        self.params.extend(node.kind.params());
        let code = NODE | (node.shape.len() as u64) << 48 | (node.dtype as u64) << 40 | node.kind.code();
        self.key.push(code);
        words(&mut self.key, &node.shape, |n| n as u64);
        node.kind.key(&mut self.key);
        if let Some(group) = node.kind.host_group() {
            // Outputs of one call share what they compute; which they are is structure.
            let first = self.nodes.iter().position(|n| n.kind.is_output_of(group)).unwrap_or(self.nodes.len());
            self.key.push(first as u64);
        }
        for input in inputs {
            let layout = &input.layout;
            match numbers.get(Arc::as_ptr(&input.node)) {
                Some(Source::Leaf(n)) => {
                    self.key.push(LEAF | (layout.rank() as u64) << 48 | (input.node.dtype as u64) << 40 | n as u64);
                    // Offsets are not structure, but which edges begin at the same element is.
                    self.key.push(self.first_like((n, layout.offset())) as u64);
                    self.edges.push((n, layout.offset()));
                }
                Some(Source::Node(n)) => {
                    self.key.push(EDGE | (layout.rank() as u64) << 48 | n as u64);
                    self.key.push(layout.offset() as u64);
                    reads.push((self.nodes.len() as u32, n as u32));
                }
                None => return false,
            }
            // Shapes of edges follow from the node's, but for those that change them.
            if node.kind.input_shapes() == InputShapes::Own {
                words(&mut self.key, layout.shape(), |n| n as u64);
            }
            words(&mut self.key, layout.strides(), |s| s as u64);
        }
        self.edges.extend(node.kind.offset().map(|offset| (NO_LEAF, offset)));
        true
    }

    /// Finds the nodes whose values are kept although nobody asked for them now, so that nothing is computed again and again.
    ///
    /// The program *holds* a node if more than this graph has it: a name, or a pending node outside. What it holds is kept
    ///
    /// - for certain, if it, or what goes into it anew, was computed before: nothing is computed a third time;
    /// - for certain, if it is an assignment: it may be written in place, over the value as it was;
    /// - if an operation stores it anyway, where something expensive, or a long chain of operations, goes into it anew. Inside a
    ///   row program or attention it is not stored, so that these stay one operation when they are written with names for their
    ///   parts.
    fn hold(&mut self, reads: &Reads) {
        let mut readers: SmallVec<[u32; 16]> = SmallVec::from_elem(0, self.nodes.len());
        for &(_, read) in reads {
            readers[read as usize] += 1;
        }
        // For each node, how long the chain of operations is that goes into it and is not kept (an expensive one makes it long),
        // and whether one of them was computed before.
        let mut anew: SmallVec<[(u32, bool); 16]> = SmallVec::new();
        let mut certain: SmallVec<[usize; 2]> = SmallVec::new();
        let mut reads = reads.iter().peekable();
        let mut wanted: SmallVec<[bool; 64]> = SmallVec::from_elem(false, self.nodes.len());
        self.outputs.iter().for_each(|&n| wanted[n] = true);
        for (n, node) in self.nodes.iter().enumerate() {
            let free = matches!(node.kind.fusion(), Fusion::Free);
            let own = if node.kind.is_expensive() { LONG } else { u32::from(!free) };
            let (mut below, mut again) = (0, !free && node.was_computed());
            while let Some((_, p)) = reads.next_if(|r| r.0 as usize == n) {
                let (length, computed) = anew[*p as usize];
                (below, again) = (below.max(length), again | computed);
            }
            let length = below + own;
            // One more has it: this capture.
            let held = !free && Arc::strong_count(node) > readers[n] as usize + 1;
            let kept = if wanted[n] {
                true
            } else if held && (again || matches!(node.kind, Kind::Assign(_))) {
                certain.push(n);
                true
            } else if held && length >= LONG {
                self.optional.push(n);
                true
            } else {
                false
            };
            anew.push(if kept { (0, false) } else { (length, again) });
        }
        self.keeps = !certain.is_empty() || !self.optional.is_empty();
        if self.keeps {
            self.key.push(HELD | (certain.len() as u64) << 28 | self.optional.len() as u64);
            self.key.extend(certain.iter().chain(&self.optional).map(|&n| n as u64));
            self.outputs.extend(certain);
        }
    }

    /// The names of operations that were computed before, and are now once more.
    pub fn computed_again(&self) -> impl Iterator<Item = &'static str> {
        let again = self.nodes.iter().filter(|n| n.was_computed() && !matches!(n.kind.fusion(), Fusion::Free));
        again.map(|n| n.kind.name())
    }

    /// Notes that all was computed.
    pub fn note_computed(&self) {
        self.nodes.iter().for_each(|n| n.note_computed());
    }

    /// Claims the leaves that may be overwritten in place: only the node that assigns to one holds it, and that node is wanted, or
    /// held by nobody but the next assignment up to one that is wanted. The walk must be complete.
    ///
    /// A plan that fails may be run again: it then writes the same values to the same places, because what is assigned never reads
    /// the leaf (that would be another holder). A function that is being compiled claims nothing: what it holds serves every call.
    fn claim(&mut self) -> Planned<()> {
        let is_assign = |n: &Arc<Node>| matches!(n.kind, Kind::Assign(_));
        if self.stand_ins || !self.nodes.iter().any(is_assign) {
            return Ok(());
        }
        let alone = |base: &Tensor| {
            let Some(Ok(buffer)) = base.node.value() else { return false };
            // Held by the walk and by the input.
            Arc::strong_count(&base.node) == 2
                && buffer.is_unshared()
                && is_whole(&base.layout)
                && buffer.len() == base.len() * base.dtype().size()
        };
        for a in 0..self.nodes.len() {
            if is_assign(&self.nodes[a]) && self.leads_to_output(a) {
                match self.nodes[a].claim(alone) {
                    Claim::Made => self.claims.push(a),
                    Claim::Refused => {}
                    Claim::Lost => return Err(Unplanned::Raced),
                }
            }
        }
        self.key.push(CLAIMS | self.claims.len() as u64);
        self.key.extend(self.claims.iter().map(|&a| a as u64));
        Ok(())
    }

    /// Whether a node is wanted, or only the base of an assignment of which that is true.
    fn leads_to_output(&self, mut n: usize) -> bool {
        while !self.outputs.contains(&n) {
            // Held by the walk and by its only reader.
            if Arc::strong_count(&self.nodes[n]) != 2 {
                return false;
            }
            let over = |r: &Arc<Node>| {
                let whole = |t: &Tensor| is_whole(&t.layout) && t.len() == elements(&t.node.shape);
                let base = |inputs: &[Tensor]| {
                    inputs.first().is_some_and(|t| Arc::ptr_eq(&t.node, &self.nodes[n]) && whole(t))
                };
                matches!(r.kind, Kind::Assign(_)) && r.with_inputs(base)
            };
            match (n + 1..self.nodes.len()).find(|&r| over(&self.nodes[r])) {
                Some(reader) => n = reader,
                None => return false,
            }
        }
        true
    }

    /// The first of the recent edges with this leaf and offset; the next edge's own number if there is none.
    fn first_like(&self, edge: (usize, usize)) -> usize {
        let recent = self.edges.len().saturating_sub(64);
        self.edges[recent..].iter().position(|e| *e == edge).map_or(self.edges.len(), |i| recent + i)
    }

    /// The graph in full, for making a plan.
    pub fn graph(&self) -> Planned<Graph> {
        let mut numbers: FxHashMap<*const Node, Source> = FxHashMap::default();
        for (i, leaf) in self.leaves.iter().enumerate() {
            numbers.insert(Arc::as_ptr(leaf), Source::Leaf(i));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            numbers.insert(Arc::as_ptr(node), Source::Node(i));
        }
        let (mut edges, mut params) = (0, 0);
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let first_param = params;
            params += node.kind.params().len();
            let inputs = node.with_inputs(|inputs| {
                if inputs.len() != node.kind.arity() {
                    return Err(Unplanned::Raced);
                }
                inputs
                    .iter()
                    .map(|t| {
                        let source = *numbers.get(&Arc::as_ptr(&t.node)).ok_or(Unplanned::Raced)?;
                        let edge = if let Source::Leaf(_) = source {
                            edges += 1;
                            let recent = (edges - 1usize).saturating_sub(64);
                            let all = self.edges.get(..edges).ok_or(Unplanned::Raced)?;
                            all[recent..].iter().position(|e| *e == all[edges - 1]).map(|i| recent + i)
                        } else {
                            None
                        };
                        Ok(Edge { source, layout: t.layout.clone(), edge, dtype: t.node.dtype })
                    })
                    .collect::<Planned<Vec<_>>>()
            })?;
            let place = node.kind.offset().map(|_| {
                edges += 1;
                edges - 1
            });
            nodes.push(GraphNode {
                number: None,
                place,
                claimed: self.claims.contains(&nodes.len()),
                kind: node.kind.clone(),
                shape: node.shape.to_vec(),
                dtype: node.dtype,
                inputs,
                first_param,
                device: self.device(node).unwrap_or(usize::MAX),
                alone: false,
            });
        }
        if edges != self.edges.len() || params != self.params.len() {
            return Err(Unplanned::Raced);
        }
        settle(&mut nodes);
        Ok(Graph { nodes, outputs: self.outputs.iter().copied().collect(), optional: self.optional.to_vec() })
    }

    /// The device of a node, if it names one: see [`GraphNode::device`].
    fn device(&self, node: &Node) -> Option<usize> {
        let device = node.device.as_ref()?;
        Some(self.others.iter().position(|o| o.same(device)).map_or(0, |i| i + 1))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.claims.iter().for_each(|&a| self.nodes[a].unclaim());
    }
}

/// Appends one word for each; a plain loop, which is shorter for a handful than an extension by iterator.
#[inline]
fn words<T: Copy>(key: &mut Key, list: &[T], word: impl Fn(T) -> u64) {
    for &item in list {
        key.push(word(item));
    }
}

/// Gives nodes that name no device that of what reads them.
fn settle(nodes: &mut [GraphNode]) {
    for n in (0..nodes.len()).rev() {
        if nodes[n].device == usize::MAX {
            nodes[n].device = 0;
        }
        let device = nodes[n].device;
        for edge in 0..nodes[n].inputs.len() {
            if let Source::Node(p) = nodes[n].inputs[edge].source
                && nodes[p].device == usize::MAX
            {
                nodes[p].device = device;
            }
        }
    }
}

/// What planning a captured graph gives.
pub(crate) type Planned<T> = std::result::Result<T, Unplanned>;

/// Why a captured graph has no plan.
#[derive(Debug)]
pub(crate) enum Unplanned {
    /// Another thread evaluated part of the graph since the walk began: a new walk sees what there is now.
    Raced,
    /// Another thread computes part of the graph in place: a new walk sees the value, once this has happened.
    Claimed(Event),
    Failed(Error),
}

impl From<Event> for Unplanned {
    fn from(over: Event) -> Unplanned {
        Unplanned::Claimed(over)
    }
}

impl From<Error> for Unplanned {
    fn from(error: Error) -> Unplanned {
        Unplanned::Failed(error)
    }
}

/// A node of the graph, for planning.
#[derive(Clone, Debug)]
pub(crate) struct GraphNode {
    pub kind: Kind,
    pub shape: Vec<usize>,
    pub dtype: millstream_core::DType,
    pub inputs: Vec<Edge>,
    /// The first of its numbers in [`Capture::params`].
    pub first_param: usize,
    /// Where the planner put it: the number it takes, in place of those of the graph.
    pub number: Option<Number>,
    /// For an assignment: the edge in [`Capture::edges`] that says where it begins.
    pub place: Option<usize>,
    /// For an assignment: whether it may overwrite the leaf that is its base.
    pub claimed: bool,
    /// The device that computes it. After the capture: 0 for the one for which the graph is evaluated, else one more than the
    /// number in [`Capture::others`]. From [`super::place`] on: the number among the plan's devices.
    pub device: usize,
    /// Whether it is computed by itself.
    pub alone: bool,
}

/// A number that an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// One of the graph's, by its place in [`Capture::params`].
    Given(usize),
    /// One divided by that.
    Inverse(usize),
    /// One.
    One(millstream_core::DType),
}

impl Number {
    /// Words that tell it from others.
    pub fn words(self) -> [u64; 2] {
        match self {
            Number::Given(p) => [0, p as u64],
            Number::Inverse(p) => [1, p as u64],
            Number::One(dtype) => [2, dtype as u64],
        }
    }

    /// The number, if the graph has it.
    pub fn of(self, params: &[Scalar]) -> Option<Scalar> {
        match self {
            Number::Given(p) => params.get(p).copied(),
            Number::Inverse(p) => params.get(p).map(|s| Scalar::from_f64(1.0 / s.to_f64(), s.dtype())),
            Number::One(dtype) => Some(Scalar::one(dtype)),
        }
    }
}

/// What a node reads: a value through a layout.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub source: Source,
    pub layout: Layout,
    /// For a leaf: the first edge in [`Capture::edges`] with the same leaf and offset.
    pub edge: Option<usize>,
    pub dtype: millstream_core::DType,
}

/// The waiting graph, for planning.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub nodes: Vec<GraphNode>,
    /// The nodes whose values the plan leaves behind.
    pub outputs: Outputs,
    /// Nodes whose values it leaves behind where an operation stores them anyway.
    pub optional: Vec<usize>,
}

/// Some nodes in an order, of which one can be asked whether it is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    list: Vec<usize>,
    is: Vec<bool>,
}

impl Outputs {
    pub fn contains(&self, n: usize) -> bool {
        self.is.get(n).is_some_and(|&is| is)
    }

    /// Leaves so many of the first.
    pub fn truncate(&mut self, len: usize) {
        self.list.drain(len..).for_each(|n| self.is[n] = false);
    }
}

impl Extend<usize> for Outputs {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, nodes: I) {
        for n in nodes {
            if self.is.len() <= n {
                self.is.resize(n + 1, false);
            }
            self.is[n] = true;
            self.list.push(n);
        }
    }
}

impl FromIterator<usize> for Outputs {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Outputs {
        let mut outputs = Outputs::default();
        outputs.extend(nodes);
        outputs
    }
}

impl std::ops::Deref for Outputs {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.list
    }
}

impl Graph {
    /// The bytes of a node's value.
    pub fn bytes(&self, n: usize) -> usize {
        elements(&self.nodes[n].shape) * self.nodes[n].dtype.size()
    }
}
