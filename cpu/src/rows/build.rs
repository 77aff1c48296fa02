//! Row programs as code: passes over the row, and what happens between them.
//!
//! A reduction needs the whole row, so what depends on it waits for the next pass. Stage `s` of a program is: the values
//! that are one for each row, then a pass that computes what is one for each element and folds it. A pass computes
//! again what an earlier one computed, unless that was dear: such values are cached, one row of them, in fast memory.
//!
//! The lanes of the code run either along the row (a fold is then horizontal, and results are single values) or over
//! rows (each lane is a row of its own; accumulators and results are registers).

use millstream_core::{Binary, DType, Error, Expr, Id, Node, Reduce, Result};

use super::fold::{self, Fold};
use crate::math::{BlockFn, FmaForm, Form};
use crate::program::{
    Assembler, At, Code, From, Lane, Operand, Segment, Step, Writing, find_binary, find_copy, find_fma, find_splat,
    find_stacked,
};
use crate::simd::Isa;

/// Terms that one level of accumulators takes when lanes are different rows, and how many of those each further level takes.
/// The error of a sum is that of so many additions on each level.
pub(super) const FIRST_LEVEL: usize = 128;
pub(super) const NEXT_LEVEL: usize = 16;

/// What code is made for.
pub(super) struct Request<'a> {
    pub expr: &'a Expr,
    pub isa: Isa,
    pub operands: &'a [Operand],
    pub inputs: usize,
    /// Which nodes have a value for each element of a row.
    pub varies: &'a [bool],
    /// The first dimension of the row.
    pub inner: usize,
    pub dims: &'a [usize],
    /// The dimension of the lanes.
    pub lane: usize,
    /// Whether dear values are cached from pass to pass.
    pub keep: bool,
    /// Whether kernels may not touch memory in place.
    pub careful: bool,
    /// Whether results for each element are written past the caches.
    pub stream: bool,
}

/// A value cached for each element of the row.
#[derive(Clone, Copy)]
pub(super) struct CachedValue {
    /// Bytes of an element.
    pub size: usize,
}

/// The segments of one stage.
pub(super) struct Stage {
    /// Single values of the row.
    pub row_single: usize,
    /// Blocks of the row: only if lanes are different rows.
    pub row_block: usize,
    /// Single values for each strip of a pass, or for each element if lanes are different rows.
    pub each_single: usize,
    /// Blocks of a pass.
    pub each_block: usize,
    /// After so many elements of a pass, the segment that hands accumulators on to the next level.
    pub carries: Vec<(usize, usize)>,
    /// After the pass, the segment that joins the levels of accumulators.
    pub finish: usize,
    /// Registers that accumulate over a pass, with the kernel that joins two of them and the element's bytes. Only if
    /// lanes are different rows.
    pub accumulators: Vec<Accumulator>,
    /// Whether the stage has a pass.
    pub has_pass: bool,
    /// If the pass only accumulates what lies in memory, lane by lane: the kernel that takes [`STACK`] elements of every row.
    pub stacked: Option<Stacked>,
    /// Whether the pass only folds what lies in memory, once: such a pass needs no blocks that stay in fast memory.
    pub is_one_fold: bool,
}

/// Elements of every row that a [`Stacked`] takes at once.
pub(super) const STACK: usize = 8;

/// A pass that takes several elements of every row at once.
#[derive(Clone, Copy)]
pub(super) struct Stacked {
    /// The accumulator's slot.
    pub slot: usize,
    /// The input's number.
    pub input: usize,
    /// The kernel: see [`crate::math::stacked`].
    pub f: BlockFn,
}

/// A register that accumulates over a pass.
pub(super) struct Accumulator {
    /// The register's slot.
    pub slot: u16,
    /// Joins two of them; of best values and their indices as [`fold::index_join`] does.
    pub join: BlockFn,
    /// Bytes of an element.
    pub size: usize,
    /// The slot of the indices (i64) that belong to the values, if they are best ones.
    pub indices: Option<u16>,
}

impl Accumulator {
    /// Bytes of an element and its index.
    pub fn bytes(&self) -> usize {
        self.size + self.indices.map_or(0, |_| size_of::<i64>())
    }
}

/// A row program as code.
pub(super) struct Built {
    pub code: Code,
    pub launch: usize,
    pub stages: Vec<Stage>,
    /// Reductions along the row: how they fold, the stage whose pass folds them, and the single value of the result.
    pub folds: Vec<Fold>,
    pub fold_results: Vec<(usize, u16)>,
    pub cached: Vec<CachedValue>,
    /// Where lanes are different rows: the single value that holds the index in the row.
    pub index: Option<u16>,
    /// Registers that are used only once in many elements: the higher levels of long accumulators.
    pub cold: usize,
}

/// What a node's value varies with.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeKind {
    launch: bool,
    element: bool,
    block: bool,
}

pub(super) fn build(q: &Request<'_>) -> Result<Built> {
    Builder::new(q)?.run()
}

struct Builder<'a> {
    q: &'a Request<'a>,
    asm: Assembler<'a>,
    kinds: Vec<NodeKind>,
    stage: Vec<usize>,
    interleaved: bool,
    cached: Vec<Option<u16>>,
    sizes: Vec<CachedValue>,
    folds: Vec<Fold>,
    fold_results: Vec<(usize, u16)>,
    index: Option<u16>,
    row_length: usize,
    /// Products that are multiplied as they are added.
    products: Vec<bool>,
    /// Sums on several levels, to be joined before the next stage.
    pending: Vec<Levels>,
    cold: usize,
    /// The stage, register, operation, kernel and element type of each accumulator.
    accumulators: Vec<(usize, At, Binary, BlockFn, DType)>,
    /// The stage, the registers of best values and of indices, the joining kernel and the element type of each index.
    best: Vec<(usize, [At; 2], BlockFn, DType)>,
}

/// A sum on several levels.
struct Levels {
    levels: Vec<At>,
    join: BlockFn,
    name: &'static str,
    dtype: DType,
}

impl<'a> Builder<'a> {
    fn new(q: &'a Request<'a>) -> Result<Builder<'a>> {
        let nodes = q.expr.nodes();
        let interleaved = q.lane < q.inner;
        let (mut kinds, mut stage): (Vec<NodeKind>, Vec<usize>) = (Vec::new(), Vec::new());
        for (i, (node, _)) in nodes.iter().enumerate() {
            let element = q.varies[i];
            let operands = || node.operands();
            let block = match *node {
                Node::Input(n) => lane_of(q, n) != Lane::Same,
                Node::Index(d) => d as usize == q.lane,
                Node::Reduce(..) => interleaved,
                _ => operands().any(|o| kinds[o.at()].block),
            };
            let launch = match *node {
                Node::Const(_) | Node::Param(_) => true,
                Node::Input(_) | Node::Index(_) | Node::Reduce(..) | Node::Acc => false,
                _ => operands().all(|o| kinds[o.at()].launch),
            };
            // Along a row of one element, a value may be a block and yet one for the row.
            let block = block && (interleaved || element);
            kinds.push(NodeKind { launch, element, block });
            let before = operands().map(|o| stage[o.at()]).max().unwrap_or(0);
            stage.push(before + usize::from(matches!(node, Node::Reduce(..))));
        }
        let mut asm = Assembler::new(q.expr, q.isa);
        let at = |id: Id| (kinds[id.at()], stage[id.at()]);
        // A product and the sum that takes it in belong to the same segment, whenever that runs.
        asm.fuse(|id| kinds[id.at()].block && kinds[id.at()].element);
        let broken: Vec<Id> = (0..nodes.len() as u32)
            .map(Id)
            .filter(|&id| asm.is_fused(id))
            .filter(|&id| {
                nodes
                    .iter()
                    .enumerate()
                    .any(|(u, (n, _))| n.operands().any(|o| o == id) && at(Id(u as u32)).0 != at(id).0)
            })
            .collect();
        for id in broken {
            asm.unfuse(id);
        }
        asm.find_runs(q.lane, |id| kinds[id.at()].block);
        // Products that only a sum uses are multiplied as they are added.
        let mut products = vec![false; nodes.len()];
        for (node, _) in nodes {
            let Node::Reduce(Reduce::Sum, a) = *node else { continue };
            let Node::Binary(Binary::Mul, x, y) = q.expr.node(a) else { continue };
            let float = matches!(q.expr.dtype(a).compute(), DType::F32 | DType::F64);
            let blocks = [a, x, y].iter().all(|o| kinds[o.at()].block);
            products[a.at()] = float && blocks && kinds[a.at()].element && asm.uses(a) == 1 && !asm.is_fused(a);
        }
        Ok(Builder {
            products,
            pending: Vec::new(),
            row_length: q.dims[q.inner..].iter().product(),
            cached: vec![None; nodes.len()],
            q,
            asm,
            kinds,
            stage,
            interleaved,
            sizes: Vec::new(),
            folds: Vec::new(),
            fold_results: Vec::new(),
            index: None,
            cold: 0,
            accumulators: Vec::new(),
            best: Vec::new(),
        })
    }

    fn node(&self, id: Id) -> Node {
        self.q.expr.node(id)
    }

    /// Whether an output has one value a row.
    fn is_per_row(&self, output: usize) -> bool {
        let o = &self.q.operands[self.q.inputs + output];
        (self.q.inner..self.q.dims.len()).all(|d| o.strides[d] == 0 || self.q.dims[d] == 1)
    }

    /// What the pass of a stage must compute: operands of its reductions and results for each element.
    fn roots(&self, s: usize) -> Vec<Id> {
        let mut roots = Vec::new();
        for (i, (node, _)) in self.q.expr.nodes().iter().enumerate() {
            if let Node::Reduce(_, a) = *node
                && self.stage[i] == s + 1
            {
                roots.push(a);
            }
        }
        for (o, &id) in self.q.expr.outputs().iter().enumerate() {
            if !self.is_per_row(o) && self.stage[id.at()] == s {
                roots.push(id);
            }
        }
        roots
    }

    /// The nodes that a pass computes, in order, if those in `ready` need not be.
    fn needed(&self, roots: &[Id], ready: &[bool]) -> Vec<bool> {
        let mut need = vec![false; self.q.expr.nodes().len()];
        for &r in roots {
            need[r.at()] = self.kinds[r.at()].element && !ready[r.at()];
        }
        for i in (0..need.len()).rev() {
            if need[i] {
                for o in self.q.expr.nodes()[i].0.operands() {
                    if self.kinds[o.at()].element && !ready[o.at()] && self.asm.uses(o) > 0 {
                        need[o.at()] = true;
                    }
                }
            }
        }
        need
    }

    /// Whether computing a node again costs more than reading it back.
    fn is_dear(&self, id: Id) -> bool {
        match self.node(id) {
            Node::Unary(u, _) => u.flop() >= 4,
            Node::Binary(b, ..) => b.flop() >= 4,
            Node::Input(n) => lane_of(self.q, n) == Lane::Step || self.q.operands[n as usize].dtype.size() == 2,
            _ => false,
        }
    }

    /// Picks the values that are cached: dear ones that a later pass needs too.
    fn choose_cached(&mut self, stages: usize) {
        if !self.q.keep {
            return;
        }
        let count = self.q.expr.nodes().len();
        let mut computed = vec![false; count];
        let mut ready = vec![false; count];
        for s in 0..stages {
            let roots = self.roots(s);
            loop {
                let need = self.needed(&roots, &ready);
                // The users first: what a cached value was made from may then not be needed again.
                let again = (0..count).rev().map(|i| Id(i as u32)).find(|&id| {
                    need[id.at()]
                        && computed[id.at()]
                        && self.kinds[id.at()].block
                        && !self.asm.is_fused(id)
                        && !self.products[id.at()]
                        && self.is_dear(id)
                });
                let Some(id) = again else {
                    for (c, n) in computed.iter_mut().zip(&need) {
                        *c |= n;
                    }
                    break;
                };
                self.cached[id.at()] = Some(self.sizes.len() as u16);
                self.sizes.push(CachedValue { size: self.q.expr.dtype(id).compute().size() });
                ready[id.at()] = true;
            }
        }
    }

    fn run(mut self) -> Result<Built> {
        let last = self.stage.iter().copied().max().unwrap_or(0);
        self.choose_cached(last + 1);
        let launch = self.asm.segment();
        for (i, kind) in self.kinds.clone().into_iter().enumerate().filter(|(_, k)| k.launch) {
            let id = Id(i as u32);
            if !self.asm.leaf(id) {
                self.asm.compute(launch, id, false, None)?;
            }
            debug_assert!(!kind.block);
        }
        let mut stages = Vec::new();
        let mut stored = vec![false; self.q.expr.nodes().len()];
        for s in 0..=last {
            stages.push(self.stage(s, &mut stored)?);
        }
        let outputs = self.q.operands.len() - self.q.inputs;
        let (code, registers) = self.asm.finish_with(self.q.inputs, outputs, self.sizes.len())?;
        for (s, at, op, join, dtype) in self.accumulators {
            if let At::Register(v) = at {
                let slot = registers[v as usize];
                stages[s].accumulators.push(Accumulator { slot, join, size: dtype.size(), indices: None });
                let inputs = code.first_input()..code.first_input() + code.inputs;
                if let [Step::Call { f, dst, src: [a, b, _], .. }] = *code.segments[stages[s].each_block]
                    && (f, dst, a) == (join, slot, slot)
                    && inputs.contains(&(b as usize))
                    && code.segments[stages[s].each_single].is_empty()
                {
                    let stacked = |f| Stacked { slot: slot as usize, input: b as usize - inputs.start, f };
                    stages[s].stacked = find_stacked(self.q.isa, op, dtype).map(stacked);
                }
            }
        }
        for (s, best, join, dtype) in self.best {
            if let [At::Register(values), At::Register(indices)] = best {
                let (slot, indices) = (registers[values as usize], Some(registers[indices as usize]));
                stages[s].accumulators.push(Accumulator { slot, join, size: dtype.size(), indices });
            }
        }
        for stage in &mut stages {
            stage.is_one_fold = matches!(*code.segments[stage.each_block], [Step::Fold { a, .. }]
                if a as usize >= code.first_input());
        }
        Ok(Built {
            code,
            launch: launch.0,
            stages,
            folds: self.folds,
            fold_results: self.fold_results,
            cached: self.sizes,
            index: self.index,
            cold: self.cold,
        })
    }

    fn stage(&mut self, s: usize, stored: &mut [bool]) -> Result<Stage> {
        let (row_single, row_block) = (self.asm.segment(), self.asm.segment());
        let (each_single, each_block) = (self.asm.segment(), self.asm.segment());
        // Values of the row.
        for i in 0..self.q.expr.nodes().len() {
            let (id, kind) = (Id(i as u32), self.kinds[i]);
            let is_used = self.asm.uses(id) > 0 && !matches!(self.node(id), Node::Reduce(..));
            if self.stage[i] != s || kind.launch || kind.element || !is_used {
                continue;
            }
            self.value([row_single, row_block], id, kind.block, None)?;
        }
        for (o, id) in self.q.expr.outputs().to_vec().into_iter().enumerate() {
            if self.is_per_row(o) && self.stage[id.at()] == s {
                let (lane, how) = self.output_form(o);
                let segment = if self.interleaved { row_block } else { row_single };
                self.asm.output(segment, id, o as u16, lane, how)?;
            }
        }
        // The pass.
        let roots = self.roots(s);
        let ready: Vec<bool> = stored.to_vec();
        let need = self.needed(&roots, &ready);
        for (i, ready) in ready.iter().enumerate() {
            if let (Some(k), true) = (self.cached[i], *ready) {
                self.asm.set(Id(i as u32), At::Cached(k));
            }
        }
        for i in (0..need.len()).filter(|&i| need[i]) {
            let (id, kind) = (Id(i as u32), self.kinds[i]);
            if self.asm.is_fused(id) || self.products[i] {
                continue;
            }
            let dst = match self.cached[i].filter(|_| !stored[i]) {
                Some(k) => Some(At::Cached(k)),
                None if kind.block => self.direct_output(id, s),
                None => None,
            };
            self.value([each_single, each_block], id, kind.block, dst)?;
            if let Some(at @ At::Cached(_)) = dst {
                stored[i] = true;
                let now = self.asm.location(id);
                if now != at {
                    // The value came without a computation of its own.
                    let dtype = self.q.expr.dtype(id).compute();
                    self.asm.call(each_block, find_copy(dtype.size())?, "copy", dtype, at, &[now]);
                    self.asm.set(id, at);
                }
            }
        }
        let mut carries = Vec::new();
        let mut has_pass = false;
        for i in 0..self.q.expr.nodes().len() {
            if let (Node::Reduce(op, a), true) = (self.node(Id(i as u32)), self.stage[i] == s + 1) {
                has_pass = true;
                if self.interleaved {
                    self.accumulate([row_block, each_block], Id(i as u32), op, a, &mut carries)?;
                } else {
                    self.fold(each_block, Id(i as u32), op, a, s)?;
                }
            }
        }
        for (o, id) in self.q.expr.outputs().to_vec().into_iter().enumerate() {
            if !self.is_per_row(o) && self.stage[id.at()] == s {
                has_pass = true;
                let (lane, how) = self.output_form(o);
                self.asm.output(each_block, id, o as u16, lane, how)?;
            }
        }
        let finish = self.asm.segment();
        for sum in std::mem::take(&mut self.pending) {
            let low = sum.levels[0];
            for &high in &sum.levels[1..] {
                self.asm.call(finish, sum.join, sum.name, sum.dtype, low, &[high, low]);
            }
        }
        // Values of elements are computed anew in the next pass.
        for i in 0..need.len() {
            if self.kinds[i].element {
                self.asm.set(Id(i as u32), At::None);
            }
        }
        Ok(Stage {
            row_single: row_single.0,
            row_block: row_block.0,
            each_single: each_single.0,
            each_block: each_block.0,
            carries: carries.into_iter().map(|(n, s): (usize, Segment)| (n, s.0)).collect(),
            finish: finish.0,
            accumulators: Vec::new(),
            has_pass,
            stacked: None,
            is_one_fold: false,
        })
    }

    fn output_form(&self, output: usize) -> (Lane, Writing) {
        let o = &self.q.operands[self.q.inputs + output];
        let unit = o.strides[self.q.lane] == o.dtype.size() as isize || (!self.interleaved && self.is_per_row(output));
        match (unit, self.q.careful) {
            (true, false) if self.q.stream && !self.is_per_row(output) => (Lane::Unit, Writing::Stream),
            (true, false) => (Lane::Unit, Writing::Direct),
            (true, true) => (Lane::Unit, Writing::Last),
            (false, _) => (Lane::Step, Writing::Last),
        }
    }

    /// The output that an element's value can be computed into, if this pass writes it.
    fn direct_output(&self, id: Id, s: usize) -> Option<At> {
        let dtype = self.q.expr.dtype(id);
        if dtype.compute() != dtype || self.stage[id.at()] != s {
            return None;
        }
        let o = self.q.expr.outputs().iter().position(|&o| o == id)?;
        let fits = !self.is_per_row(o) && self.output_form(o) == (Lane::Unit, Writing::Direct);
        fits.then_some(At::Output(o as u16))
    }

    /// Computes a node in the segment of single values or in that of blocks.
    fn value(&mut self, segments: [Segment; 2], id: Id, block: bool, dst: Option<At>) -> Result<()> {
        let segment = segments[usize::from(block)];
        match self.node(id) {
            _ if self.asm.is_run(id) => self.asm.run_of_words(segments, id, dst),
            Node::Input(n) => {
                let dtype = self.q.operands[n as usize].dtype;
                let lane = if block { lane_of(self.q, n) } else { Lane::Same };
                self.asm.input(segment, id, &From { input: n, dtype, lane, direct: !self.q.careful }, dst)
            }
            Node::Index(d) => {
                if block {
                    let to = dst.unwrap_or_else(|| self.asm.register(8));
                    self.asm.push(segment, Step::Iota { dst: to });
                    self.asm.set(id, to);
                } else {
                    let to = self.asm.single(0);
                    self.asm.push(segment, Step::IndexOf { dim: d, dst: to });
                    self.asm.set(id, to);
                }
                Ok(())
            }
            Node::Const(_) | Node::Param(_) => {
                self.asm.leaf(id);
                Ok(())
            }
            _ => self.asm.compute(segment, id, block, dst),
        }
    }

    /// The factors of a product that is multiplied as it is added.
    fn factors(&self, a: Id) -> Option<(At, At)> {
        match self.node(a) {
            Node::Binary(_, x, y) if self.products[a.at()] => Some((self.asm.location(x), self.asm.location(y))),
            _ => None,
        }
    }

    /// A reduction along the lanes.
    fn fold(&mut self, segment: Segment, id: Id, op: Reduce, a: Id, s: usize) -> Result<()> {
        let dtype = self.q.expr.dtype(a);
        let factors = self.factors(a);
        let (x, y) = match factors {
            Some(both) => both,
            None => (self.asm.spread(segment, self.asm.location(a), dtype)?, At::None),
        };
        let n = self.folds.len() as u16;
        self.folds.push(Fold::new(self.q.isa, op, dtype, factors.is_some())?);
        self.asm.push(segment, Step::Fold { fold: n, a: x, b: y });
        let result = self.asm.single(0);
        if let At::Single(single) = result {
            self.fold_results.push((s, single));
        }
        self.asm.set(id, result);
        Ok(())
    }

    /// A reduction lane by lane: an accumulator, started before the pass.
    fn accumulate(
        &mut self,
        [start, each]: [Segment; 2],
        id: Id,
        op: Reduce,
        a: Id,
        carries: &mut Vec<(usize, Segment)>,
    ) -> Result<()> {
        let dtype = self.q.expr.dtype(a).compute();
        let identity = self.asm.constant(&fold::start(op, dtype));
        let begin = |s: &mut Self, value: At, dtype: DType| -> Result<At> {
            let at = s.asm.register(dtype.size());
            s.asm.call(start, find_splat(dtype.size())?, "splat", dtype, at, &[value]);
            Ok(at)
        };
        let acc = begin(self, identity, dtype)?;
        if matches!(op, Reduce::ArgMax | Reduce::ArgMin) {
            let new = self.asm.spread(each, self.asm.location(a), dtype)?;
            let zero = self.asm.single(0);
            let indices = begin(self, zero, DType::I64)?;
            let index = match self.index {
                Some(p) => At::Single(p),
                None => {
                    let at = self.asm.single(0);
                    if let At::Single(p) = at {
                        self.index = Some(p);
                    }
                    at
                }
            };
            let missing = || Error::internal(format!("no index of {dtype}"));
            let f = fold::index_step(self.q.isa, op, dtype).ok_or_else(missing)?;
            let join = fold::index_join(self.q.isa, op, dtype).ok_or_else(missing)?;
            self.asm.call(each, f, op.name(), dtype, indices, &[acc, new, index]);
            self.best.push((self.stage[a.at()], [acc, indices], join, dtype));
            self.asm.set(id, indices);
            return Ok(());
        }
        let binary = match op {
            Reduce::Sum => Binary::Add,
            Reduce::Prod => Binary::Mul,
            Reduce::Max => Binary::Max,
            _ => Binary::Min,
        };
        let join = find_binary(self.q.isa, binary, dtype, Form::VV)?.f;
        match self.factors(a) {
            Some((x, y)) => {
                let fma = find_fma(self.q.isa, dtype, FmaForm::VVV);
                let fma = fma.ok_or_else(|| Error::internal(format!("no fused product of {dtype}")))?;
                self.asm.call(each, fma, "fma", dtype, acc, &[x, y, acc]);
            }
            None => {
                let new = self.asm.spread(each, self.asm.location(a), dtype)?;
                self.asm.call(each, join, binary.name(), dtype, acc, &[acc, new]);
            }
        }
        self.asm.set(id, acc);
        self.accumulators.push((self.stage[a.at()], acc, binary, join, dtype));
        if !(dtype.is_float() || dtype.is_complex()) || !matches!(op, Reduce::Sum | Reduce::Prod) {
            return Ok(());
        }
        // Long accumulators go up level by level, so that none takes many terms.
        let mut terms = FIRST_LEVEL;
        let mut levels = vec![acc];
        while terms < self.row_length {
            let (low, high) = (levels[levels.len() - 1], begin(self, identity, dtype)?);
            let segment = match carries.get(levels.len() - 1) {
                Some(&(_, segment)) => segment,
                None => {
                    let segment = self.asm.segment();
                    carries.push((terms, segment));
                    segment
                }
            };
            self.asm.call(segment, join, binary.name(), dtype, high, &[high, low]);
            self.asm.call(segment, find_splat(dtype.size())?, "splat", dtype, low, &[identity]);
            levels.push(high);
            self.cold += 1;
            terms *= NEXT_LEVEL;
        }
        if levels.len() > 1 {
            self.pending.push(Levels { levels, join, name: binary.name(), dtype });
        }
        Ok(())
    }
}

/// How an input lies along the lanes.
fn lane_of(q: &Request<'_>, input: u16) -> Lane {
    q.operands[input as usize].lane(Some(q.lane), q.dims[q.lane])
}

impl Built {
    /// No code at all: what stands in until the real one is made.
    pub(super) fn empty() -> Result<Built> {
        let expr = Expr::default();
        let code = Assembler::new(&expr, Isa::Portable).finish(0, 0, 0)?;
        Ok(Built {
            code,
            launch: 0,
            stages: Vec::new(),
            folds: Vec::new(),
            fold_results: Vec::new(),
            cached: Vec::new(),
            index: None,
            cold: 0,
        })
    }
}
