//! From nodes to steps: forms, fusion, registers.
//!
//! An [`Assembler`] is told which node to compute in which segment and whether its value is a block or a single one; it
//! picks the kernel, puts operands where the kernel can take them, and at the end assigns registers. What is a segment
//! and when it runs is up to the caller (a map, a row program, a strip of a contraction).

use std::ops::Range;

use millstream_core::{Binary, DType, Error, Expr, Id, Node, Result, Scalar, Unary};

use super::code::{At, Code, Singles, Step, single};
use super::resolve;
use crate::math::{self, BlockFn, FmaForm, Form};
use crate::simd::Isa;

/// How an operand lies along the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The same element for all lanes.
    Same,
    /// Neighbouring elements.
    Unit,
    /// Elements a fixed step apart, or guarded.
    Step,
}

/// Where an input's value comes from.
#[derive(Clone, Copy)]
pub(crate) struct From {
    /// The input's number.
    pub input: u16,
    /// Its element type in memory.
    pub dtype: DType,
    /// How it lies along the lanes.
    pub lane: Lane,
    /// Whether kernels may read its memory in place.
    pub direct: bool,
}

/// A segment of the code being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment(pub usize);

struct Virtual {
    size: usize,
    /// The only segment that uses it; `None` if several do.
    home: Option<Segment>,
}

/// Makes code; see the module's text.
pub(crate) struct Assembler<'e> {
    pub expr: &'e Expr,
    pub isa: Isa,
    /// Where the value of each node is, once it has been computed.
    at: Vec<At>,
    /// How many nodes and outputs use each node.
    pub(super) uses: Vec<u32>,
    /// Products that are computed together with the sum they feed.
    fused: Vec<bool>,
    /// Random words that follow each other along the lanes, so that their numbers need not be computed one by one.
    pub(super) runs: Vec<bool>,
    segments: Vec<Vec<Step<At>>>,
    virtuals: Vec<Virtual>,
    singles: Singles,
    params: Vec<(u16, u16, DType)>,
    width: usize,
}

impl<'e> Assembler<'e> {
    pub fn new(expr: &'e Expr, isa: Isa) -> Assembler<'e> {
        let nodes = expr.nodes();
        let mut uses = vec![0u32; nodes.len()];
        for (node, _) in nodes {
            for o in node.operands() {
                uses[o.at()] += 1;
            }
        }
        for o in expr.outputs() {
            uses[o.at()] += 1;
        }
        Assembler {
            expr,
            isa,
            at: vec![At::None; nodes.len()],
            uses,
            fused: vec![false; nodes.len()],
            runs: vec![false; nodes.len()],
            segments: Vec::new(),
            virtuals: Vec::new(),
            singles: Singles::new(),
            params: Vec::new(),
            width: 1,
        }
    }

    /// Marks the products that a sum takes in, given which nodes are blocks. Both must be computed in the same segment
    /// whenever either is.
    pub fn fuse(&mut self, is_block: impl Fn(Id) -> bool) {
        for (i, &(node, dtype)) in self.expr.nodes().iter().enumerate() {
            let Node::Binary(Binary::Add, a, b) = node else { continue };
            if !matches!(dtype.compute(), DType::F32 | DType::F64) || !is_block(Id(i as u32)) {
                continue;
            }
            let product = |id: Id| {
                matches!(self.expr.node(id), Node::Binary(Binary::Mul, ..)) && self.uses[id.at()] == 1 && is_block(id)
            };
            let pick = [a, b].into_iter().find(|&id| product(id));
            if let Some(p) = pick.filter(|_| a != b) {
                self.fused[p.at()] = true;
            }
        }
    }

    /// Takes a mark of [`Assembler::fuse`] back.
    pub fn unfuse(&mut self, id: Id) {
        self.fused[id.at()] = false;
    }

    /// How many nodes and outputs use a node.
    pub fn uses(&self, id: Id) -> u32 {
        self.uses[id.at()]
    }

    /// Whether this node is computed together with its only user.
    pub fn is_fused(&self, id: Id) -> bool {
        self.fused[id.at()]
    }

    /// Opens a segment.
    pub fn segment(&mut self) -> Segment {
        self.segments.push(Vec::new());
        Segment(self.segments.len() - 1)
    }

    /// Where a node's value is.
    pub fn location(&self, id: Id) -> At {
        self.at[id.at()]
    }

    /// Says where a node's value is.
    pub fn set(&mut self, id: Id, at: At) {
        self.at[id.at()] = at;
    }

    /// A new register for elements of this many bytes.
    pub fn register(&mut self, size: usize) -> At {
        self.width = self.width.max(size);
        self.virtuals.push(Virtual { size, home: None });
        At::Register(self.virtuals.len() as u16 - 1)
    }

    /// A new single value.
    pub fn single(&mut self, value: u128) -> At {
        self.singles.push(value);
        At::Single(self.singles.len() as u16 - 1)
    }

    /// A new single value that holds a constant in the type it is computed with.
    pub fn constant(&mut self, value: &Scalar) -> At {
        self.single(single(value))
    }

    /// Adds a step.
    pub fn push(&mut self, segment: Segment, step: Step<At>) {
        self.segments[segment.0].push(step);
    }

    /// Adds a call.
    pub fn call(&mut self, segment: Segment, f: BlockFn, name: &'static str, dtype: DType, dst: At, src: &[At]) {
        let mut all = [At::None; 3];
        for (a, s) in all.iter_mut().zip(src) {
            *a = *s;
        }
        self.push(segment, Step::Call { f, name, dtype, dst, src: all });
    }

    /// The register or single value for a result.
    fn target(&mut self, block: bool, dtype: DType) -> At {
        if block { self.register(dtype.compute().size()) } else { self.single(0) }
    }

    /// A constant or a launch parameter: its single value. True if the node is one.
    pub fn leaf(&mut self, id: Id) -> bool {
        match self.expr.node(id) {
            Node::Const(value) => {
                let at = self.constant(&value);
                self.set(id, at);
            }
            Node::Param(p) => {
                let at = self.single(0);
                if let At::Single(s) = at {
                    self.params.push((s, p, self.expr.dtype(id)));
                }
                self.set(id, at);
            }
            _ => return false,
        }
        true
    }

    /// An input: `direct` if kernels may read its memory in place. `dst` is where a block that must be moved goes, if
    /// not to a register.
    pub fn input(&mut self, segment: Segment, id: Id, from: &From, dst: Option<At>) -> Result<()> {
        let From { input, dtype, lane, direct } = *from;
        let half = dtype.compute() != dtype;
        let block = lane != Lane::Same;
        let memory = if lane == Lane::Unit && direct {
            At::Input(input)
        } else {
            let at = match dst.filter(|_| !half) {
                Some(at) => at,
                None if block => self.register(dtype.size()),
                None => self.single(0),
            };
            self.push(segment, Step::Load { input, dst: at, size: dtype.size() as u8 });
            at
        };
        let at = if half {
            let at = dst.unwrap_or_else(|| self.target(block, dtype));
            let f = resolve::widen(self.isa, dtype)?;
            self.call(segment, f, "widen", dtype, at, &[memory]);
            at
        } else {
            memory
        };
        self.set(id, at);
        Ok(())
    }

    /// The operand as a block: a single value is spread.
    pub fn spread(&mut self, segment: Segment, at: At, dtype: DType) -> Result<At> {
        let At::Single(_) = at else { return Ok(at) };
        let size = dtype.compute().size();
        let to = self.register(size);
        self.call(segment, resolve::splat(size)?, "splat", dtype, to, &[at]);
        Ok(to)
    }

    /// Computes a node from its operands. `dst` is where a block must go, if not to a register.
    pub fn compute(&mut self, segment: Segment, id: Id, block: bool, dst: Option<At>) -> Result<()> {
        let (node, dtype) = self.expr.nodes()[id.at()];
        let dst = |s: &mut Self| dst.unwrap_or_else(|| s.target(block, dtype));
        match node {
            Node::Unary(op, a) => {
                let of = self.expr.dtype(a);
                let f = resolve::unary(self.isa, op, of)?;
                let (src, to) = (self.location(a), dst(self));
                if !(op == Unary::Exp && self.exp_less(segment, a, to)) {
                    self.call(segment, f, op.name(), of.compute(), to, &[src]);
                }
                self.set(id, to);
            }
            Node::Binary(op, a, b) => {
                let to = match self.try_fused(segment, id, op, a, b, &dst)? {
                    Some(to) => to,
                    None => self.binary(segment, op, a, b, block, &dst)?,
                };
                self.set(id, to);
            }
            Node::Select(c, x, y) => {
                let mut locations = [self.location(c), self.location(x), self.location(y)];
                let is_single = |at: At| matches!(at, At::Single(_));
                if block && is_single(locations[0]) {
                    locations[0] = self.spread(segment, locations[0], DType::Bool)?;
                }
                let form = match (block && is_single(locations[1]), block && is_single(locations[2])) {
                    (false, false) => Form::VV,
                    (false, true) => Form::VS,
                    (true, false) => Form::SV,
                    (true, true) => {
                        locations[1] = self.spread(segment, locations[1], dtype)?;
                        Form::VS
                    }
                };
                let found = resolve::select(self.isa, dtype, form)?;
                if !found.exact {
                    for p in &mut locations[1..] {
                        *p = self.spread(segment, *p, dtype)?;
                    }
                }
                let to = dst(self);
                self.call(segment, found.f, "select", dtype.compute(), to, &locations);
                self.set(id, to);
            }
            Node::Cast(a) => {
                let of = self.expr.dtype(a);
                let src = self.location(a);
                let half = dtype.compute() != dtype;
                if half {
                    let to = dst(self);
                    self.call(segment, resolve::round_to(of, dtype)?, "round", dtype, to, &[src]);
                    self.set(id, to);
                } else if of.compute() == dtype {
                    self.set(id, src);
                } else {
                    let to = dst(self);
                    self.call(segment, resolve::cast(self.isa, of, dtype)?, "cast", dtype, to, &[src]);
                    self.set(id, to);
                }
            }
            Node::Random(c, x, y) => {
                let mut locations = [c, x, y].map(|id| self.location(id));
                let is_single = |at: At| matches!(at, At::Single(_));
                let one_key = is_single(locations[1]) && is_single(locations[2]);
                if block {
                    let spread = if one_key { &mut locations[..1] } else { &mut locations[..] };
                    for p in spread {
                        *p = self.spread(segment, *p, DType::U32)?;
                    }
                }
                let to = dst(self);
                self.call(segment, math::random(self.isa, one_key), "random", dtype, to, &locations);
                self.set(id, to);
            }
            _ => return Err(Error::internal(format!("{node:?} cannot be computed here"))),
        }
        Ok(())
    }

    /// Lets the step that has just subtracted a single value from a block, into a register, write the exponentials of the differences to
    /// `to` instead, if nothing else uses those: one pass, as the shares of a softmax want it.
    fn exp_less(&mut self, segment: Segment, difference: Id, to: At) -> bool {
        let at = self.location(difference);
        let only = self.uses(difference) == 1 && matches!(at, At::Register(_));
        let (Node::Binary(Binary::Sub, ..), true) = (self.expr.node(difference), only) else { return false };
        let elem = self.expr.dtype(difference).compute();
        match self.segments[segment.0].last_mut() {
            Some(Step::Call { f, name, dst, src: [x, At::Single(_), At::None], .. })
                if *dst == at && !matches!(x, At::Single(_)) =>
            {
                let Some(kernel) = math::exp_less(self.isa, elem) else { return false };
                (*f, *name, *dst) = (kernel, "exp_less", to);
                true
            }
            _ => false,
        }
    }

    fn binary(
        &mut self,
        segment: Segment,
        op: Binary,
        a: Id,
        b: Id,
        block: bool,
        dst: &impl Fn(&mut Self) -> At,
    ) -> Result<At> {
        let of = self.expr.dtype(a);
        let (mut x, mut y) = (self.location(a), self.location(b));
        let is_single = |at: At| matches!(at, At::Single(_));
        let form = match (block && is_single(x), block && is_single(y)) {
            (true, false) => Form::SV,
            (false, true) => Form::VS,
            _ => Form::VV,
        };
        let found = resolve::binary(self.isa, op, of, form)?;
        if block && !found.exact {
            x = self.spread(segment, x, of)?;
            y = self.spread(segment, y, of)?;
        }
        let to = dst(self);
        self.call(segment, found.f, op.name(), of.compute(), to, &[x, y]);
        Ok(to)
    }

    /// The sum with the product it takes in, if it takes one in.
    fn try_fused(
        &mut self,
        segment: Segment,
        id: Id,
        op: Binary,
        a: Id,
        b: Id,
        dst: &impl Fn(&mut Self) -> At,
    ) -> Result<Option<At>> {
        if op != Binary::Add || a == b {
            return Ok(None);
        }
        let (product, other) = match (self.fused[a.at()], self.fused[b.at()]) {
            (true, false) => (a, b),
            (false, true) => (b, a),
            _ => return Ok(None),
        };
        let Node::Binary(Binary::Mul, x, y) = self.expr.node(product) else { return Ok(None) };
        let dtype = self.expr.dtype(id);
        let is_single = |at: At| matches!(at, At::Single(_));
        let (mut x, mut y, z) = (self.location(x), self.location(y), self.location(other));
        if is_single(x) {
            std::mem::swap(&mut x, &mut y);
        }
        let form = match (is_single(y), is_single(z)) {
            (false, false) => FmaForm::VVV,
            (true, false) => FmaForm::VSV,
            (false, true) => FmaForm::VVS,
            (true, true) => FmaForm::VSS,
        };
        let Some(f) = resolve::fma(self.isa, dtype, form) else {
            return Err(Error::internal(format!("the CPU cannot fuse products of {dtype}")));
        };
        let to = dst(self);
        self.call(segment, f, "fma", dtype.compute(), to, &[x, y, z]);
        Ok(Some(to))
    }

    /// Writes a node's value to an output: `direct` if kernels may write to its memory in place.
    pub fn output(&mut self, segment: Segment, id: Id, output: u16, lane: Lane, how: Writing) -> Result<()> {
        let dtype = self.expr.dtype(id);
        let mut at = self.location(id);
        if at == At::Output(output) {
            return Ok(());
        }
        let half = dtype.compute() != dtype;
        let direct = lane == Lane::Unit && how == Writing::Direct;
        if direct && !half {
            let size = dtype.size();
            let (f, name) = match at {
                At::Single(_) => (resolve::splat(size)?, "splat"),
                _ => (resolve::copy(size)?, "copy"),
            };
            self.call(segment, f, name, dtype, At::Output(output), &[at]);
            return Ok(());
        }
        at = self.spread(segment, at, dtype)?;
        if half {
            let f = resolve::narrow(self.isa, dtype)?;
            let to = if direct { At::Output(output) } else { self.register(dtype.size()) };
            self.call(segment, f, "narrow", dtype, to, &[at]);
            at = to;
        }
        if direct {
            return Ok(());
        }
        if how == Writing::Stream && lane == Lane::Unit {
            if !self.streamed(segment, id, at, output) {
                let f = resolve::streaming_copy(self.isa, dtype.size())?;
                self.call(segment, f, "stream", dtype, At::Output(output), &[at]);
            }
            return Ok(());
        }
        self.push(segment, Step::Store { output, src: at, size: dtype.size() as u8 });
        Ok(())
    }

    /// Lets the step that has just computed a value into a register write it past the caches to its output instead, if
    /// nothing else uses the value and there is such a kernel.
    fn streamed(&mut self, segment: Segment, id: Id, at: At, output: u16) -> bool {
        let Node::Binary(op, a, _) = self.expr.node(id) else { return false };
        let of = self.expr.dtype(a);
        let is_single = |at: At| matches!(at, At::Single(_));
        let only = self.uses(id) == 1 && matches!(at, At::Register(_));
        match self.segments[segment.0].last_mut() {
            Some(Step::Call { f, dst, src: [x, y, At::None], .. }) if only && *dst == at && *y != At::None => {
                let form = match (is_single(*x), is_single(*y)) {
                    (false, false) => Form::VV,
                    (false, true) => Form::VS,
                    (true, _) => Form::SV,
                };
                let Some(streaming) = resolve::streaming(self.isa, op, of, form) else { return false };
                (*f, *dst) = (streaming, At::Output(output));
                true
            }
            _ => false,
        }
    }

    /// Assigns registers and finishes the code.
    pub fn finish(self, inputs: usize, outputs: usize, cached: usize) -> Result<Code> {
        Ok(self.finish_with(inputs, outputs, cached)?.0)
    }

    /// Assigns a register to each of the virtual ones, and says how many there are.
    fn registers(&mut self) -> (Vec<u16>, u16) {
        let mut seen = vec![false; self.virtuals.len()];
        for (s, steps) in self.segments.iter().enumerate() {
            for step in steps {
                for at in locations(step) {
                    if let At::Register(v) = at {
                        let v = v as usize;
                        self.virtuals[v].home =
                            if seen[v] && self.virtuals[v].home != Some(Segment(s)) { None } else { Some(Segment(s)) };
                        seen[v] = true;
                    }
                }
            }
        }
        // Values that several segments use have a register of their own.
        let mut real = vec![u16::MAX; self.virtuals.len()];
        let mut pinned = 0u16;
        for ((v, r), seen) in self.virtuals.iter().zip(&mut real).zip(seen) {
            if v.home.is_none() && seen {
                *r = pinned;
                pinned += 1;
            }
        }
        let mut registers = pinned;
        for steps in &self.segments {
            registers = self.share_registers(steps, &mut real, pinned..registers);
        }
        (real, registers)
    }

    /// Assigns registers to what one segment alone uses: those in the range are free at its beginning. Says how many there are then.
    fn share_registers(&self, steps: &[Step<At>], real: &mut [u16], shared: Range<u16>) -> u16 {
        let mut registers = shared.end;
        let mut last = vec![usize::MAX; self.virtuals.len()];
        for (i, step) in steps.iter().enumerate() {
            for at in locations(step) {
                if let At::Register(v) = at {
                    last[v as usize] = i;
                }
            }
        }
        let mut free: Vec<u16> = shared.rev().collect();
        for (i, step) in steps.iter().enumerate() {
            let (dst, src) = split(step);
            let size = if let At::Register(v) = dst { self.virtuals[v as usize].size } else { 0 };
            let ends: Vec<u16> = {
                let mut list: Vec<u16> = src
                    .into_iter()
                    .filter_map(|at| match at {
                        At::Register(v) if last[v as usize] == i && self.virtuals[v as usize].home.is_some() => Some(v),
                        _ => None,
                    })
                    .collect();
                list.dedup();
                list
            };
            // A kernel may write over an operand of the same element size.
            let mut released = Vec::new();
            for &v in &ends {
                let r = real[v as usize];
                if r == u16::MAX || released.contains(&r) || dst == At::Register(v) {
                    continue;
                }
                if self.virtuals[v as usize].size == size {
                    free.push(r);
                    released.push(r);
                }
            }
            if let At::Register(v) = dst {
                let v = v as usize;
                if real[v] == u16::MAX {
                    real[v] = free.pop().unwrap_or_else(|| {
                        registers += 1;
                        registers - 1
                    });
                }
                if last[v] == i && self.virtuals[v].home.is_some() {
                    // Never read: it is free again at once.
                    released.push(real[v]);
                    free.push(real[v]);
                }
            }
            for &v in &ends {
                let r = real[v as usize];
                if r != u16::MAX && !released.contains(&r) {
                    free.push(r);
                    released.push(r);
                }
            }
        }
        registers
    }

    /// As [`Assembler::finish`], and which register each [`At::Register`] that was handed out has become.
    pub fn finish_with(mut self, inputs: usize, outputs: usize, cached: usize) -> Result<(Code, Vec<u16>)> {
        let (real, registers) = self.registers();
        let mut code = Code {
            segments: Vec::new(),
            registers: registers as usize,
            width: self.width.next_power_of_two(),
            singles: self.singles,
            params: self.params,
            inputs,
            outputs,
            cached,
        };
        if code.slots() >= u16::MAX as usize {
            return Err(Error::unsupported("an expression of this many steps"));
        }
        let slot = |at: At| match at {
            At::Register(v) => code.slot(At::Register(real[v as usize])),
            other => code.slot(other),
        };
        code.segments = self
            .segments
            .iter()
            .map(|steps| {
                steps
                    .iter()
                    .map(|step| match *step {
                        Step::Call { f, name, dtype, dst, src } => {
                            Step::Call { f, name, dtype, dst: slot(dst), src: src.map(slot) }
                        }
                        Step::Load { input, dst, size } => Step::Load { input, dst: slot(dst), size },
                        Step::Store { output, src, size } => Step::Store { output, src: slot(src), size },
                        Step::Iota { dst } => Step::Iota { dst: slot(dst) },
                        Step::Words { f, dst, src } => Step::Words { f, dst: slot(dst), src: src.map(slot) },
                        Step::IndexOf { dim, dst } => Step::IndexOf { dim, dst: slot(dst) },
                        Step::Fold { fold, a, b } => Step::Fold { fold, a: slot(a), b: slot(b) },
                    })
                    .collect()
            })
            .collect();
        Ok((code, real))
    }
}

/// How an output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Kernels write to it in place, if its elements are neighbours.
    Direct,
    /// From a register, after everything of the block has been read.
    Last,
    /// From a register past the caches, if its elements are neighbours.
    Stream,
}

fn split(step: &Step<At>) -> (At, [At; 3]) {
    let none = At::None;
    match *step {
        Step::Call { dst, src, .. } | Step::Words { dst, src, .. } => (dst, src),
        Step::Load { dst, .. } | Step::Iota { dst } | Step::IndexOf { dst, .. } => (dst, [none; 3]),
        Step::Store { src, .. } => (none, [src, none, none]),
        Step::Fold { a, b, .. } => (none, [a, b, none]),
    }
}

fn locations(step: &Step<At>) -> impl Iterator<Item = At> + use<> {
    let (dst, [a, b, c]) = split(step);
    [dst, a, b, c].into_iter()
}
