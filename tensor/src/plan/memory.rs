//! Memory: a chosen graph becomes a plan, whose steps know where their operands lie.
//!
//! Each device has one arena for the intermediate values that lie there. Two values share memory only if all steps that touch
//! the one come before those that touch the other; on one device a stream orders them, and copies between devices are
//! ordered with both sides' streams by events ([`super::run`]).

use std::ops::Range;
use std::sync::Arc;

use millstream_core::{Cost, Device, Error, Result, Work};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::arena::{Donor, Span, borrow, lay_out};
use super::capture::{Capture, Number, Source};
use super::choose::{Chosen, Priced};
use super::lower::{Lowered, Read};
use super::place::{Refusal, Task};
use super::rewrite::GraphForm;
use super::sites::Site;
use crate::graph::Key;

/// Where an operand's memory comes from, on the device of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A leaf, by its number in [`Plan::leaves`].
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

/// A launch, or a copy between two devices.
#[allow(clippy::large_enum_variant)] // nearly all are launches
pub(crate) enum Step {
    Launch(Launch),
    Copy(Copy),
}

impl Step {
    /// Predicted seconds.
    pub fn seconds(&self) -> f64 {
        match self {
            Step::Launch(launch) => launch.cost.seconds,
            Step::Copy(copy) => copy.seconds,
        }
    }
}

/// One launch.
pub(crate) struct Launch {
    /// The device, by its number in [`Plan::sites`].
    pub device: usize,
    /// What it writes first, by its number among the captured nodes; beyond all where no node was captured for it.
    pub node: usize,
    pub work: Arc<Work>,
    pub inputs: SmallVec<[Operand; 4]>,
    pub outputs: SmallVec<[Operand; 2]>,
    pub params: SmallVec<[Number; 4]>,
    /// Scratch memory in the arena: bytes into it, and how many.
    pub workspace: Option<(usize, usize)>,
    /// Its number among the launches of its device that note what they find wrong.
    pub call: Option<usize>,
    pub cost: Cost,
}

/// A copy of a whole value between two devices.
pub(crate) struct Copy {
    /// The device it comes from, and where it lies there.
    pub from: (usize, Slot),
    /// The device it goes to, and where it lies there.
    pub to: (usize, Slot),
    pub bytes: usize,
    pub seconds: f64,
}

/// A value that the plan leaves behind.
pub(crate) struct Output {
    /// Its number among the captured nodes.
    pub node: usize,
    pub bytes: usize,
    /// The device it lies on.
    pub device: usize,
    /// The leaf whose memory it overwrites and takes, by its number in [`Plan::leaves`].
    pub over: Option<usize>,
}

/// All that has to be done for a structure, whatever memory and numbers come with it.
pub(crate) struct Plan {
    pub key: Key,
    /// The devices; the first is the one for which the graph is evaluated.
    pub sites: Vec<Site>,
    /// Their numbers in this process.
    pub devices: Vec<u64>,
    /// The captured leaves that are read, each with a device on which it is.
    pub leaves: Vec<(usize, usize)>,
    pub steps: Vec<Step>,
    /// The steps in runs as long as possible of launches on one device; a copy is a run by itself.
    pub runs: Vec<Range<usize>>,
    pub outputs: Vec<Output>,
    /// For each device, the steps that note what they find wrong.
    pub checked: Vec<SmallVec<[usize; 1]>>,
    /// For each device, the bytes of its arena.
    pub arenas: Vec<usize>,
    /// What goes to the host because its device refuses it.
    pub refusals: Vec<Refusal>,
    /// For explaining: how many operations went in.
    pub nodes: usize,
    /// For explaining: whether convolutions store intermediate values with their channels last.
    pub channels_last: bool,
}

/// Memory being laid out.
struct Layer<'a> {
    chosen: &'a Chosen,
    /// Values that are overwritten lie where what overwrites them lies: for each node, the last of such a chain.
    home: Vec<usize>,
    /// For each node that takes a leaf's memory, the leaf.
    taken: Vec<Option<usize>>,
    /// For each node, its number among the wanted values, if it is one.
    wanted: Vec<Option<usize>>,
    leaves: Vec<(usize, usize)>,
    /// The numbers of the leaves.
    leaf_of: FxHashMap<(usize, usize), usize>,
    spans: Vec<Span>,
    /// For each span, its device, and whether it holds a value rather than scratch.
    owners: Vec<(usize, bool)>,
    /// For each node, its span.
    span_of: Vec<usize>,
    /// For each task, its scratch span.
    scratch: Vec<usize>,
    /// For each span, where it lies.
    slots: Vec<Slot>,
}

/// Gives what was chosen, and compiled, memory.
pub(crate) fn lay(chosen: &Chosen, capture: &Capture) -> Result<Plan> {
    let mut layer = Layer::new(chosen);
    let graph = &chosen.placed.graph;
    let outputs: Vec<Output> = graph.outputs.iter().map(|&n| layer.output(n)).collect();
    layer.live()?;
    let mut arenas = layer.lay_out(&outputs);
    let mut steps: Vec<Step> = Vec::with_capacity(chosen.works.len());
    for (s, (task, work)) in chosen.placed.tasks.iter().zip(&chosen.works).enumerate() {
        steps.push(match (task, work) {
            (Task::Compute(device, l), Some((work, cost))) => {
                Step::Launch(layer.launch(s, *device, l, work.clone(), cost.clone()))
            }
            (Task::Copy { from, to }, _) => Step::Copy(layer.copy(*from, *to)),
            _ => return Err(Error::internal("an operation without a way to compute it")),
        });
    }
    let mut checked = vec![SmallVec::new(); chosen.sites.devices.len()];
    for (s, step) in steps.iter_mut().enumerate() {
        if let Step::Launch(l) = step
            && chosen.sites.devices[l.device].prepare(&l.work)?.notes()
        {
            l.call = Some(checked[l.device].len());
            checked[l.device].push(s);
        }
    }
    // An operand without elements needs an address, too.
    for step in &steps {
        if let Step::Launch(l) = step
            && l.inputs.iter().chain(&l.outputs).any(|o| matches!(o.slot, Slot::Arena(..)))
        {
            arenas[l.device] = arenas[l.device].max(1);
        }
    }
    Ok(Plan {
        key: capture.key.clone(),
        sites: chosen.sites.sites.clone(),
        devices: chosen.sites.devices.iter().map(Device::id).collect(),
        leaves: layer.leaves,
        runs: runs(&steps),
        steps,
        outputs,
        checked,
        arenas,
        refusals: chosen.placed.refusals.clone(),
        nodes: capture.nodes.len(),
        channels_last: chosen.form.form == GraphForm::ChannelsLast,
    })
}

/// Compiles works that were chosen.
pub(crate) fn compile(chosen: &Chosen, is_new: impl Fn(usize) -> bool) -> Result<()> {
    for (d, device) in chosen.sites.devices.iter().enumerate() {
        let own = |(s, (task, work)): (usize, (&Task, &Priced))| match (task, work) {
            (Task::Compute(at, _), Some((work, _))) if *at == d && is_new(s) => Some(work.clone()),
            _ => None,
        };
        let tasks = chosen.placed.tasks.iter().zip(&chosen.works).enumerate();
        let own: Vec<Arc<Work>> = tasks.filter_map(own).collect();
        if !own.is_empty() {
            device.compile(&own)?;
        }
    }
    Ok(())
}

/// Cuts steps into runs of launches on one device, and copies.
fn runs(steps: &[Step]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (s, step) in steps.iter().enumerate() {
        let same = |r: &Range<usize>| match (&steps[r.start], step) {
            (Step::Launch(a), Step::Launch(b)) => a.device == b.device,
            _ => false,
        };
        match runs.last_mut().filter(|r| same(r)) {
            Some(run) => run.end = s + 1,
            None => runs.push(s..s + 1),
        }
    }
    runs
}

impl<'a> Layer<'a> {
    fn new(chosen: &'a Chosen) -> Layer<'a> {
        let graph = &chosen.placed.graph;
        let mut layer = Layer {
            home: (0..graph.nodes.len()).collect(),
            taken: vec![None; graph.nodes.len()],
            wanted: vec![None; graph.nodes.len()],
            leaves: Vec::new(),
            leaf_of: FxHashMap::default(),
            spans: Vec::new(),
            owners: Vec::new(),
            span_of: vec![usize::MAX; graph.nodes.len()],
            scratch: vec![usize::MAX; chosen.placed.tasks.len()],
            slots: Vec::new(),
            chosen,
        };
        for (o, &n) in graph.outputs.iter().enumerate() {
            layer.wanted[n].get_or_insert(o);
        }
        for task in chosen.placed.tasks.iter().rev() {
            let Task::Compute(device, l) = task else { continue };
            match (l.over, l.writes.first()) {
                (Some(Source::Node(p)), Some(&n)) => layer.home[p] = layer.home[n],
                (Some(Source::Leaf(leaf)), Some(&n)) => {
                    let at = layer.home[n];
                    layer.taken[at] = Some(layer.leaf(leaf, *device));
                }
                _ => {}
            }
        }
        layer
    }

    /// The number of a leaf on a device.
    fn leaf(&mut self, leaf: usize, device: usize) -> usize {
        *self.leaf_of.entry((leaf, device)).or_insert_with(|| {
            self.leaves.push((leaf, device));
            self.leaves.len() - 1
        })
    }

    fn output(&self, n: usize) -> Output {
        let graph = &self.chosen.placed.graph;
        Output {
            node: self.chosen.form.origin[n],
            bytes: graph.bytes(n),
            device: graph.nodes[n].device,
            over: self.taken[n],
        }
    }

    fn span(&mut self, bytes: usize, step: usize, device: usize, value: bool) -> usize {
        self.spans.push(Span { bytes, from: step, to: step });
        self.owners.push((device, value));
        self.spans.len() - 1
    }

    /// Finds out when each value lives: from the step that writes it to the last that reads it. Scratch lives for one step.
    fn live(&mut self) -> Result<()> {
        let chosen = self.chosen;
        for (s, task) in chosen.placed.tasks.iter().enumerate() {
            match task {
                Task::Copy { from, to } => {
                    self.written(*to, s);
                    self.read(*from, s);
                }
                Task::Compute(device, l) => {
                    l.writes.iter().for_each(|&n| self.written(n, s));
                    for read in &l.reads {
                        if let Source::Node(n) = read.source {
                            self.read(n, s);
                        }
                    }
                    let Some((work, _)) = &chosen.works[s] else { continue };
                    let need = chosen.sites.devices[*device].prepare(work)?.workspace();
                    if need > 0 {
                        self.scratch[s] = self.span(need, s, *device, false);
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes that a step writes a node. A value made of several is written by several steps.
    fn written(&mut self, n: usize, step: usize) {
        let (n, graph) = (self.home[n], &self.chosen.placed.graph);
        if self.wanted[n].is_some() {
            return;
        }
        match self.spans.get_mut(self.span_of[n]) {
            Some(span) => span.to = step,
            None => self.span_of[n] = self.span(graph.bytes(n), step, graph.nodes[n].device, true),
        }
    }

    fn read(&mut self, n: usize, step: usize) {
        if let Some(span) = self.spans.get_mut(self.span_of[self.home[n]]) {
            span.to = step;
        }
    }

    /// Lays out each device's arena; gives their sizes. Everything is allocated before the first step, so results have memory
    /// that intermediate values can use until then.
    fn lay_out(&mut self, outputs: &[Output]) -> Vec<usize> {
        let tasks = &self.chosen.placed.tasks;
        // Results are touched from the first step that writes them on; one that takes a leaf's memory, from the beginning.
        let mut from: Vec<usize> = outputs.iter().map(|o| if o.over.is_some() { 0 } else { tasks.len() }).collect();
        for (s, task) in tasks.iter().enumerate() {
            let Task::Compute(_, l) = task else { continue };
            for n in l.writes.iter().map(|&n| self.home[n]) {
                if let Some(o) = self.wanted[n] {
                    from[o] = from[o].min(s);
                }
            }
        }
        self.slots = vec![Slot::Arena(0, 0); self.spans.len()];
        let mut arenas = Vec::new();
        for (d, device) in self.chosen.sites.devices.iter().enumerate() {
            let room = |o: &Output| if o.device == d { o.bytes } else { 0 };
            let donors: Vec<Donor> =
                outputs.iter().zip(&from).map(|(o, &from)| Donor { bytes: room(o), from }).collect();
            let borrowed = borrow(&self.spans, |i| self.owners[i] == (d, true), &donors);
            let own = |i: usize| self.owners[i].0 == d && borrowed[i].is_none();
            let asked: Vec<Span> = (0..self.spans.len())
                .map(|i| Span { bytes: if own(i) { self.spans[i].bytes } else { 0 }, ..self.spans[i] })
                .collect();
            let (offsets, arena) = lay_out(&asked, device.profile().offset_alignment.max(64));
            for i in (0..self.spans.len()).filter(|&i| self.owners[i].0 == d) {
                self.slots[i] = match borrowed[i] {
                    Some(o) => Slot::Output(o),
                    None => Slot::Arena(offsets[i], self.spans[i].bytes),
                };
            }
            arenas.push(arena);
        }
        arenas
    }

    /// Where a node lies.
    fn slot(&self, n: usize) -> Slot {
        let graph = &self.chosen.placed.graph;
        let home = self.home[n];
        match self.wanted[home] {
            _ if graph.bytes(n) == 0 => Slot::Arena(0, 0),
            Some(o) => Slot::Output(o),
            None => match self.slots.get(self.span_of[home]) {
                Some(Slot::Arena(at, _)) => Slot::Arena(*at, graph.bytes(n)),
                Some(slot) => *slot,
                None => Slot::Arena(0, 0),
            },
        }
    }

    fn input(&mut self, read: &Read, size: usize, device: usize) -> Operand {
        let slot = match read.source {
            Source::Leaf(leaf) => Slot::Leaf(self.leaf(leaf, device)),
            Source::Node(n) => self.slot(n),
        };
        Operand { slot, edge: read.edge, offset: read.offset, size }
    }

    fn launch(&mut self, s: usize, device: usize, l: &Lowered, work: Arc<Work>, cost: Cost) -> Launch {
        let sizes = l.op.inputs.iter().map(|access| access.dtype.size());
        let inputs = l.reads.iter().zip(sizes).map(|(r, size)| self.input(r, size, device)).collect();
        let output = |&n: &usize| Operand {
            slot: self.slot(n),
            edge: l.write_edge,
            offset: l.write_offset,
            size: self.chosen.placed.graph.nodes[n].dtype.size(),
        };
        let scratch = self.slots.get(self.scratch[s]);
        let workspace =
            scratch.and_then(|slot| if let Slot::Arena(at, bytes) = *slot { Some((at, bytes)) } else { None });
        let outputs = l.writes.iter().map(output).collect();
        let node = l.writes.first().and_then(|&n| self.chosen.form.origin.get(n)).copied().unwrap_or(usize::MAX);
        Launch {
            device,
            node,
            work,
            inputs,
            outputs,
            params: l.params.iter().copied().collect(),
            workspace,
            call: None,
            cost,
        }
    }

    fn copy(&self, from: usize, to: usize) -> Copy {
        let graph = &self.chosen.placed.graph;
        let end = |n: usize| (graph.nodes[n].device, self.slot(n));
        let seconds = self.chosen.placed.copy_seconds(&self.chosen.sites, from, to);
        Copy { from: end(from), to: end(to), bytes: graph.bytes(from), seconds }
    }
}
