//! Row programs: maps and reductions over rows, each row computed by a group of threads.
//!
//! A program is cut into passes: a pass computes the reductions that need nothing but inputs and earlier reductions. The threads
//! that share a row each gather a part of it, join what they gathered in shared memory, and go on to the next pass;
//! the last pass writes the results. [`Walk`] says which threads share a row and how often its elements are read.

use millstream_core::{Binary, Body, DType, Error, Expr, ExprBuilder, Id, Node, Op, Reduce, Result};

use crate::frame::{Class, Frame, Word};
use crate::map::{LIGHT, leaf};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::{Register, from_words, literal, register_dtype, to_words};
use crate::value::{Values, binary, missing};

/// Which threads share a row, and how they walk it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Threads that share a row, a power of two.
    pub(crate) lanes: usize,
    /// Rows that a group of threads works on at a time.
    pub(crate) rows: usize,
    /// Vectors of four elements that each thread keeps in registers, so that a row is read once; 0: read again in each pass.
    pub(crate) held: usize,
    /// Whether neighbouring threads take neighbouring rows rather than neighbouring elements of a row.
    pub(crate) columns: bool,
    /// Whether several groups share a row; they meet in scratch memory, with a launch for each pass.
    pub(crate) split: bool,
}

impl Walk {
    pub(crate) fn threads(self) -> usize {
        self.lanes * self.rows
    }

    /// Into how many parts rows are cut where groups share them: so many that every unit has several groups, and none has too little to be
    /// worth a launch.
    pub(crate) fn parts(self, count: usize, length: usize, units: usize) -> u64 {
        let teams = count.div_ceil(self.rows).max(1) as u64;
        let wanted = (units as u64 * 2048 / self.threads() as u64).max(1).div_ceil(teams);
        wanted.min((length as u64).div_ceil(self.lanes as u64 * 16)).max(1)
    }
}

/// What the passes of a row program are.
struct Passes {
    varies: Vec<bool>,
    /// For each pass, its reductions.
    reductions: Vec<Vec<Id>>,
}

impl Passes {
    fn of(op: &Op, expr: &Expr) -> Passes {
        let mut level = vec![0usize; expr.nodes().len()];
        let mut reductions: Vec<Vec<Id>> = Vec::new();
        for (i, (node, _)) in expr.nodes().iter().enumerate() {
            let below = node.operands().map(|o| level[o.at()]).max().unwrap_or(0);
            level[i] = below;
            if matches!(node, Node::Reduce(..)) {
                level[i] = below + 1;
                if reductions.len() <= below {
                    reductions.resize(below + 1, Vec::new());
                }
                reductions[below].push(Id(i as u32));
            }
        }
        Passes { varies: op.varying(), reductions }
    }
}

/// Passes over a row that reduce.
pub(crate) fn passes(op: &Op) -> usize {
    match &op.body {
        Body::Rows { expr, .. } => Passes::of(op, expr).reductions.len(),
        _ => 0,
    }
}

/// Whether the program writes a value for each element, beside those for each row.
pub(crate) fn writes_elements(op: &Op) -> bool {
    let inner = op.inner();
    op.outputs.iter().any(|a| (inner..op.dims.len()).any(|d| !a.ignores(d) && op.dims[d] != 1))
}

/// Whether four neighbouring elements of a row can be moved at once.
fn by_four(frame: &Frame<'_>, inner: usize) -> bool {
    let Some(last) = frame.op.dims.len().checked_sub(1) else { return false };
    inner <= last
        && (0..frame.operands()).all(|o| frame.access(o).is_plain() && frame.class(o, last) != Class::Other)
        && (0..frame.op.inputs.len()).any(|o| frame.class(o, last) == Class::One)
}

/// Elements of a row that a thread works on together.
struct Chunk {
    /// The first of them, counted along the row.
    at: String,
    /// Their indices in the inner dimensions.
    index: Vec<String>,
    /// Whether they exist, where that is not certain.
    inside: Option<String>,
    lanes: Vec<Values>,
}

/// One accumulator: its value and, for argmax and argmin, the index it was found at.
struct Accumulator {
    id: Id,
    reduce: Reduce,
    dtype: DType,
    value: String,
    index: Option<String>,
}

struct Writer<'a, 'f> {
    frame: &'f mut Frame<'a>,
    expr: &'a Expr,
    inner: usize,
    walk: Walk,
    passes: &'f Passes,
    /// Elements in a chunk: 1 or 4.
    width: usize,
    /// The row's own values.
    row: Values,
    outer: Vec<String>,
    held: Vec<Chunk>,
}

/// A kernel for a row program.
pub(crate) fn generate(op: &Op, target: &Target, walk: Walk, wide: bool) -> Result<Program> {
    let Body::Rows { inner, expr } = &op.body else {
        return Err(Error::internal("a kernel for rows was asked to do something else"));
    };
    let passes = Passes::of(op, expr);
    let mut frame = Frame::new(op, target, wide);
    frame.has_workspace = walk.split;
    let mut types: Vec<&'static str> = Vec::new();
    for &id in passes.reductions.iter().flatten() {
        let Node::Reduce(reduce, of) = expr.node(id) else { continue };
        types.push(Register::of(expr.dtype(of)).shared());
        if is_arg(reduce) {
            types.push("idx");
        }
    }
    types.sort_unstable();
    types.dedup();
    for t in types {
        frame.share(&format!("all_{t}"), t, walk.threads());
    }
    let vec4 = !walk.columns && by_four(&frame, *inner);
    let widths: &[usize] = if vec4 { &[4, 1] } else { &[1] };
    for &width in widths {
        let steps = if walk.split { passes.reductions.len() + 1 } else { 1 };
        for step in 0..steps {
            frame.vec4 = width == 4;
            let mut text = Text::inside(1);
            let writer = Writer {
                row: Values::new(expr),
                outer: Vec::new(),
                held: Vec::new(),
                expr,
                inner: *inner,
                walk,
                passes: &passes,
                width,
                frame: &mut frame,
            };
            writer.entry(&mut text, walk.split.then_some(step));
            frame.vec4 = false;
            let name = match (walk.split, step + 1 == steps) {
                (false, _) => format!("rows_by_{width}"),
                (true, false) => format!("part_{step}_by_{width}"),
                (true, true) => format!("finish_by_{width}"),
            };
            frame.entry(&name, walk.threads() as u32, text);
        }
    }
    let accumulators: usize = passes
        .reductions
        .iter()
        .flatten()
        .map(|&id| match expr.node(id) {
            Node::Reduce(reduce, of) => words_of(reduce, expr.dtype(of)),
            _ => 0,
        })
        .sum();
    let shape = Shape::Rows { walk, vec4, passes: passes.reductions.len(), accumulators, inner: *inner };
    Program::new(frame, shape)
}

/// A contraction as a row program over the same dimensions: for each result the reduction of a row. `None` for what is no
/// contraction.
pub(crate) fn of_contract(op: &Op) -> Option<Op> {
    let Body::Contract(c) = &op.body else { return None };
    let mut b = ExprBuilder::new();
    let mut factors = Vec::new();
    for e in [&c.lhs, &c.rhs] {
        let &id = copy(&mut b, e, None).get(e.outputs().first()?.at())?;
        factors.push(b.cast(id, c.acc));
    }
    let product = b.binary(Binary::Mul, factors[0], factors[1]).ok()?;
    let sum = b.reduce(Reduce::Sum, product).ok()?;
    let sum = b.cast(sum, c.acc);
    let results = copy(&mut b, &c.epilogue, Some(sum));
    let outputs: Vec<Id> = c.epilogue.outputs().iter().map(|o| results[o.at()]).collect();
    let body = Body::Rows { inner: c.k, expr: b.finish(&outputs) };
    Some(Op::new(op.dims.clone(), op.inputs.clone(), op.outputs.clone(), body))
}

/// Adds the nodes of an expression, with another node instead of a contraction's value; gives their new numbers.
fn copy(b: &mut ExprBuilder, e: &Expr, acc: Option<Id>) -> Vec<Id> {
    let mut at: Vec<Id> = Vec::with_capacity(e.nodes().len());
    for &(node, dtype) in e.nodes() {
        let id = match (node, acc) {
            (Node::Acc, Some(acc)) => acc,
            _ => b.push(node.with_operands(|o| at[o.at()]), dtype),
        };
        at.push(id);
    }
    at
}

fn is_arg(reduce: Reduce) -> bool {
    matches!(reduce, Reduce::ArgMax | Reduce::ArgMin)
}

/// Words of scratch memory that one accumulator takes. Indices take two, so that their width does not matter.
fn words_of(reduce: Reduce, dtype: DType) -> usize {
    Register::of(dtype).words() + if is_arg(reduce) { 2 } else { 0 }
}

impl Writer<'_, '_> {
    /// Writes one entry: the whole program, or for a row shared by groups one of its steps.
    fn entry(mut self, text: &mut Text, step: Option<usize>) {
        let Walk { lanes, rows, columns, .. } = self.walk;
        let (count, length) = (self.frame.arg(Word::Number(0)), self.frame.arg(Word::Number(1)));
        if columns {
            text.line(format!("let member = quotient(lane, idx({rows}));"));
            text.line(format!("let beside = lane - member * idx({rows});"));
        } else {
            text.line(format!("let beside = quotient(lane, idx({lanes}));"));
            text.line(format!("let member = lane - beside * idx({lanes});"));
        }
        text.line(format!("let length = {length};"));
        if let Some(step) = step {
            // The parts of a row are neighbours in the grid. The last step may need fewer groups than there are parts.
            let finish = step == self.passes.reductions.len();
            let parts = self.frame.arg(Word::Number(if finish { 3 } else { 2 }));
            text.line(format!("let parts = {parts};"));
            text.line("let team = quotient(group, parts);");
            text.line("let part = group - team * parts;");
            text.line("let teams = quotient(groups, parts);");
        } else {
            text.line("let team = group;");
            text.line("let teams = groups;");
            text.line("let part = idx(0);");
            text.line("let parts = idx(1);");
        }
        text.line(format!("for (var first = team * idx({rows}); first < {count}; first += teams * idx({rows})) {{"));
        text.line(format!("let live = first + beside < {count};"));
        text.line(format!("let row = select({count} - idx(1), first + beside, live);"));
        self.outer = if self.inner == 0 { Vec::new() } else { self.frame.indices(text, "row", 0..self.inner) };
        if self.walk.held > 0 {
            self.hold(text);
        }
        let all = self.passes.reductions.len();
        let mut done_words = 0;
        for pass in 0..all {
            let gathered = step.is_none_or(|s| s == pass);
            if step.is_some_and(|s| pass > s) {
                break;
            }
            let accumulators = if gathered { self.gather(text, pass) } else { self.fetch(text, pass, done_words) };
            let joined = self.join(text, &accumulators);
            if step == Some(pass) {
                self.leave(text, &accumulators, &joined, done_words);
            } else {
                for (a, (value, index)) in accumulators.iter().zip(joined) {
                    let value = match index {
                        Some(index) => text.name("r", format!("i64(max({index}, idx(0)))")),
                        None => value,
                    };
                    self.row.set(a.id, value);
                }
            }
            done_words += accumulators.iter().map(|a| words_of(a.reduce, a.dtype)).sum::<usize>();
        }
        if step.is_none_or(|s| s == all) {
            self.results(text, step.is_some());
        }
        text.line("}");
    }

    /// The chunk that begins at an index along the row.
    fn chunk(&mut self, text: &mut Text, at: String, inside: Option<String>) -> Chunk {
        let rank = self.frame.op.dims.len();
        let index = if self.inner == rank { Vec::new() } else { self.frame.indices(text, &at, self.inner..rank) };
        Chunk { at, index, inside, lanes: vec![self.row.clone(); self.width] }
    }

    /// Names the elements that each thread keeps.
    fn hold(&mut self, text: &mut Text) {
        let each = self.walk.held * 4 / self.width;
        for c in 0..each {
            let factor = if self.width == 4 { " * idx(4)" } else { "" };
            let at = text.name("e", format!("(member + idx({})){factor}", c * self.walk.lanes));
            let inside = text.name("inside", format!("{at} < length"));
            let at = text.name("e", format!("select(idx(0), {at}, {inside})"));
            let chunk = self.chunk(text, at, Some(inside));
            self.held.push(chunk);
        }
    }

    /// Writes the row's own values among what these nodes need, outside the loop over elements.
    fn write_row(&mut self, text: &mut Text, wanted: &[Id]) {
        let own: Vec<Id> = missing(self.expr, wanted, |id| self.row.has(id))
            .into_iter()
            .filter(|id| !self.passes.varies[id.at()] && !matches!(self.expr.node(*id), Node::Reduce(..)))
            .collect();
        let outer = self.outer.clone();
        let at = |d: usize| outer.get(d).cloned();
        let frame = &mut *self.frame;
        self.row.write(text, self.expr, &own, |text, _, node, dtype| leaf(frame, text, node, dtype, &at));
    }

    /// Writes these nodes for each element of a chunk.
    fn write_chunk(&mut self, text: &mut Text, chunk: &mut Chunk, wanted: &[Id]) {
        // The row's values may have grown since the chunk was made.
        for i in 0..self.expr.nodes().len() {
            let id = Id(i as u32);
            if self.row.has(id) {
                for lane in &mut chunk.lanes {
                    lane.set(id, self.row.get(id));
                }
            }
        }
        let last = self.frame.op.dims.len().wrapping_sub(1);
        let needs = missing(self.expr, wanted, |id| chunk.lanes[0].has(id));
        if self.width == 4 {
            for id in needs {
                let Node::Input(n) = self.expr.node(id) else { continue };
                if self.frame.class(n as usize, last) != Class::One {
                    continue;
                }
                let index = &chunk.index;
                let (outer, inner) = (self.outer.clone(), self.inner);
                let at = |d: usize| if d < inner { Some(outer[d].clone()) } else { Some(index[d - inner].clone()) };
                let offset = self.frame.offset(n as usize, &at);
                let offset = text.name("p", offset);
                for (lane, name) in chunk.lanes.iter_mut().zip(self.frame.load_four(text, n as usize, &offset)) {
                    lane.set(id, name);
                }
            }
        }
        for l in 0..chunk.lanes.len() {
            let (outer, inner, index) = (&self.outer, self.inner, &chunk.index);
            let at = |d: usize| {
                if d < inner {
                    return Some(outer[d].clone());
                }
                let i = index.get(d - inner)?;
                Some(if d == last && l > 0 { format!("({i} + idx({l}))") } else { i.clone() })
            };
            let frame = &mut *self.frame;
            let (before, rest) = chunk.lanes.split_at_mut(l);
            let Some(lane) = rest.first_mut() else { break };
            if let Some(before) = before.last() {
                lane.follow(before);
            }
            lane.write(text, self.expr, wanted, |text, _, node, dtype| leaf(frame, text, node, dtype, &at));
        }
    }

    /// Calls `body` for each chunk of this thread's part of the row; unrolled `unroll` times, to keep more
    /// loads in flight.
    fn each(&mut self, text: &mut Text, unroll: usize, body: &mut dyn FnMut(&mut Self, &mut Text, &mut Chunk)) {
        if self.walk.held > 0 {
            let mut held = std::mem::take(&mut self.held);
            for chunk in &mut held {
                body(self, text, chunk);
            }
            self.held = held;
            return;
        }
        // The parts of a row lie between each other, so that all groups together read one element after the other.
        let (width, lanes) = (self.width, self.walk.lanes);
        let e = text.fresh("e");
        text.line(format!("var {e} = (part * idx({lanes}) + member) * idx({width});"));
        let step = text.name("step", format!("parts * idx({})", width * lanes));
        let last = if unroll > 1 { format!("{e} + {step} * idx({})", unroll - 1) } else { e.clone() };
        text.line(format!("while ({last} < length) {{"));
        for u in 0..unroll {
            let at = text.name("e", format!("{e} + {step} * idx({u})"));
            let mut chunk = self.chunk(text, at, None);
            body(self, text, &mut chunk);
        }
        text.line(format!("{e} += {step} * idx({unroll});"));
        text.line("}");
        if unroll > 1 {
            // What is left is less than `unroll` chunks. They too are fetched at once: one after the other, each would
            // cost the way to the memory and back.
            text.line(format!("if ({e} < length) {{"));
            for u in 0..unroll - 1 {
                let at = text.name("e", format!("{e} + {step} * idx({u})"));
                let inside = (u > 0).then(|| text.name("inside", format!("{at} < length")));
                let at = match &inside {
                    Some(inside) => text.name("e", format!("select({e}, {at}, {inside})")),
                    None => at,
                };
                let mut chunk = self.chunk(text, at, inside);
                body(self, text, &mut chunk);
            }
            text.line("}");
        }
    }

    /// Declares the accumulators of a pass.
    fn start(&mut self, text: &mut Text, pass: usize) -> Vec<Accumulator> {
        let list = self.passes.reductions[pass].clone();
        list.into_iter()
            .filter_map(|id| {
                let Node::Reduce(reduce, of) = self.expr.node(id) else { return None };
                let dtype = self.expr.dtype(of);
                let value = text.fresh("sum");
                let start = match reduce {
                    Reduce::ArgMax | Reduce::ArgMin => Register::of(dtype).zero().to_string(),
                    _ => literal(reduce.identity(dtype)),
                };
                text.line(format!("var {value} = {start};"));
                let index = is_arg(reduce).then(|| {
                    let index = text.fresh("index");
                    text.line(format!("var {index} = idx(-1);"));
                    index
                });
                Some(Accumulator { id, reduce, dtype, value, index })
            })
            .collect()
    }

    /// Goes over this thread's elements; gives what it has gathered.
    fn gather(&mut self, text: &mut Text, pass: usize) -> Vec<Accumulator> {
        let operands: Vec<Id> =
            self.passes.reductions[pass].iter().flat_map(|&id| self.expr.node(id).operands()).collect();
        self.write_row(text, &operands);
        let accumulators = self.start(text, pass);
        let expr = self.expr;
        let unroll = if expr.flop() <= LIGHT { if self.width == 4 { 4 } else { 8 } } else { 1 };
        self.each(text, unroll, &mut |writer, text, chunk| {
            writer.write_chunk(text, chunk, &operands);
            for a in &accumulators {
                let Some(of) = expr.node(a.id).operands().next() else { continue };
                for (l, lane) in chunk.lanes.iter().enumerate() {
                    let x = lane.get(of).to_string();
                    let e = if l == 0 { chunk.at.clone() } else { format!("({} + idx({l}))", chunk.at) };
                    add(text, a, &x, &e, chunk.inside.as_deref());
                }
            }
        });
        accumulators
    }

    /// Joins what the threads of a row have gathered; gives the value, and for argmax and argmin the index, of each accumulator.
    fn join(&mut self, text: &mut Text, accumulators: &[Accumulator]) -> Vec<(String, Option<String>)> {
        let Walk { lanes, rows, columns, .. } = self.walk;
        if lanes == 1 {
            return accumulators.iter().map(|a| (a.value.clone(), a.index.clone())).collect();
        }
        let (stride, head) = if columns { (rows, "beside".to_string()) } else { (1, format!("beside * idx({lanes})")) };
        let mut results = Vec::new();
        for a in accumulators {
            let register = Register::of(a.dtype);
            let all = format!("all_{}", register.shared());
            text.line(format!("{all}[lane] = {};", register.put(&a.value)));
            if let Some(index) = &a.index {
                text.line(format!("all_idx[lane] = {index};"));
            }
            text.line("workgroupBarrier();");
            text.line(format!("for (var half = idx({}); half > idx(0); half = half >> 1u) {{", lanes / 2));
            text.line("if (member < half) {");
            let own = register.get(format!("{all}[lane]"));
            let other = register.get(format!("{all}[lane + half * idx({stride})]"));
            match a.index {
                None => {
                    let sum = binary(operator(a.reduce), a.dtype, &own, &other);
                    text.line(format!("{all}[lane] = {};", register.put(&sum)));
                }
                Some(_) => {
                    let (v, w) = (text.name("a", own), text.name("a", other));
                    let i = text.name("i", "all_idx[lane]");
                    let j = text.name("i", format!("all_idx[lane + half * idx({stride})]"));
                    let (better, worse) = (beats(a, &w, &v), beats(a, &v, &w));
                    text.line(format!(
                        "if ({j} >= idx(0) && ({i} < idx(0) || {better} || (!{worse} && {j} < {i}))) {{"
                    ));
                    text.line(format!("{all}[lane] = {};", register.put(&w)));
                    text.line(format!("all_idx[lane] = {j};"));
                    text.line("}");
                }
            }
            text.line("}");
            // Where the last halves of a row lie within a warp, only that has to wait for itself.
            let half = self.frame.language().half_barrier().filter(|_| !columns);
            text.line(half.unwrap_or("workgroupBarrier();"));
            text.line("}");
            let value = text.name("r", register.get(format!("{all}[{head}]")));
            let index = a.index.as_ref().map(|_| text.name("r", format!("all_idx[{head}]")));
            text.line("workgroupBarrier();");
            results.push((value, index));
        }
        results
    }

    /// The word of scratch memory that holds word `k` of the accumulators for this row and part.
    fn cell(&mut self, k: usize, part: &str) -> String {
        let (count, parts) = (self.frame.arg(Word::Number(0)), self.frame.arg(Word::Number(2)));
        let base = self.frame.arg(Word::Work);
        format!("work[{base} + (idx({k}) * {count} + row) * {parts} + {part}]")
    }

    /// Leaves what this group has gathered of a row to the next step.
    fn leave(
        &mut self,
        text: &mut Text,
        accumulators: &[Accumulator],
        joined: &[(String, Option<String>)],
        first_word: usize,
    ) {
        text.line("if (live && member == idx(0)) {");
        let mut k = first_word;
        for (a, (value, index)) in accumulators.iter().zip(joined) {
            let mut words = to_words(Register::of(a.dtype), value);
            if let Some(index) = index {
                words.push(format!("u32({index})"));
                // The index's upper half, in kernels whose indices have 64 bits.
                words.push(if self.frame.wide { format!("u32({index} >> 32u)") } else { "0u".into() });
            }
            for word in words {
                let cell = self.cell(k, "part");
                text.line(format!("{cell} = {word};"));
                k += 1;
            }
        }
        text.line("}");
    }

    /// Gathers what the groups have left of a row in an earlier step.
    fn fetch(&mut self, text: &mut Text, pass: usize, first_word: usize) -> Vec<Accumulator> {
        let accumulators = self.start(text, pass);
        let parts = self.frame.arg(Word::Number(2));
        text.line(format!("for (var s = member; s < {parts}; s += idx({})) {{", self.walk.lanes));
        let mut k = first_word;
        for a in &accumulators {
            let register = Register::of(a.dtype);
            let cells: Vec<String> = (0..words_of(a.reduce, a.dtype)).map(|i| self.cell(k + i, "s")).collect();
            k += cells.len();
            let x = text.name("x", from_words(register_dtype(register), |i| cells[i].clone()));
            match &a.index {
                None => text.line(format!("{} = {};", a.value, binary(operator(a.reduce), a.dtype, &a.value, &x))),
                Some(index) => {
                    let n = register.words();
                    let low = format!("idx(bitcast<i32>({}))", cells[n]);
                    let j = if self.frame.wide {
                        text.name("i", format!("bitcast<idx>(u64({}) | (u64({}) << 32u))", cells[n], cells[n + 1]))
                    } else {
                        text.name("i", low)
                    };
                    let (better, worse) = (beats(a, &x, &a.value), beats(a, &a.value, &x));
                    text.line(format!(
                        "if ({j} >= idx(0) && ({index} < idx(0) || {better} || (!{worse} && {j} < {index}))) {{"
                    ));
                    text.line(format!("{} = {x};", a.value));
                    text.line(format!("{index} = {j};"));
                    text.line("}");
                }
            }
        }
        text.line("}");
        accumulators
    }

    /// Writes the results: those for each element, and those for each row.
    fn results(&mut self, text: &mut Text, is_split: bool) {
        let rank = self.frame.op.dims.len();
        let (inner, expr) = (self.inner, self.expr);
        let by_element =
            |o: usize, frame: &Frame<'_>| (inner..rank).any(|d| frame.class(frame.output(o), d) != Class::Still);
        let (elements, rows): (Vec<usize>, Vec<usize>) =
            (0..expr.outputs().len()).partition(|&o| by_element(o, self.frame));
        let wanted: Vec<Id> = expr.outputs().to_vec();
        self.write_row(text, &wanted);
        if !rows.is_empty() {
            let alone = if is_split { " && part == idx(0)" } else { "" };
            text.line(format!("if (live && member == idx(0){alone}) {{"));
            for &o in &rows {
                let (operand, id) = (self.frame.output(o), expr.outputs()[o]);
                let outer = self.outer.clone();
                let offset = self.frame.offset(operand, &|d| outer.get(d).cloned());
                let offset = text.name("p", offset);
                let value = self.row.get(id).to_string();
                self.frame.store(text, operand, &offset, &value);
            }
            text.line("}");
        }
        if elements.is_empty() {
            return;
        }
        let wanted: Vec<Id> = elements.iter().map(|&o| expr.outputs()[o]).collect();
        self.each(text, 1, &mut |writer, text, chunk| {
            writer.write_chunk(text, chunk, &wanted);
            let inside = chunk.inside.as_ref().map_or(String::new(), |i| format!(" && {i}"));
            text.line(format!("if (live{inside}) {{"));
            for &o in &elements {
                let (operand, id) = (writer.frame.output(o), expr.outputs()[o]);
                let (outer, index) = (writer.outer.clone(), &chunk.index);
                let at = |d: usize| if d < inner { outer.get(d).cloned() } else { index.get(d - inner).cloned() };
                let offset = writer.frame.offset(operand, &at);
                let offset = text.name("p", offset);
                if writer.width == 4 {
                    let values = std::array::from_fn(|l| chunk.lanes[l].get(id).to_string());
                    writer.frame.store_four(text, operand, &offset, &values);
                } else {
                    writer.frame.store(text, operand, &offset, chunk.lanes[0].get(id));
                }
            }
            text.line("}");
        });
    }
}

/// The operator that joins two partial results.
fn operator(reduce: Reduce) -> Binary {
    match reduce {
        Reduce::Sum => Binary::Add,
        Reduce::Prod => Binary::Mul,
        Reduce::Max | Reduce::ArgMax => Binary::Max,
        Reduce::Min | Reduce::ArgMin => Binary::Min,
    }
}

/// Whether `x` goes before `y` for argmax and argmin: larger (or smaller), or the first NaN.
fn beats(a: &Accumulator, x: &str, y: &str) -> String {
    let register = Register::of(a.dtype);
    let than = if a.reduce == Reduce::ArgMax { Binary::Gt } else { Binary::Lt };
    let plain = binary(than, a.dtype, x, y);
    if register.is_float() {
        let r = register.name();
        format!("(!is_nan_{r}({y}) && (is_nan_{r}({x}) || {plain}))")
    } else {
        plain
    }
}

/// Adds one element to an accumulator, where it exists.
fn add(text: &mut Text, a: &Accumulator, x: &str, e: &str, inside: Option<&str>) {
    let value = &a.value;
    match &a.index {
        None => {
            let sum = binary(operator(a.reduce), a.dtype, value, x);
            match inside {
                Some(inside) => text.line(format!("{value} = select({value}, {sum}, {inside});")),
                None => text.line(format!("{value} = {sum};")),
            }
        }
        Some(index) => {
            let better = beats(a, x, value);
            let exists = inside.map_or(String::new(), |i| format!("{i} && "));
            text.line(format!("if ({exists}({index} < idx(0) || {better})) {{"));
            text.line(format!("{value} = {x};"));
            text.line(format!("{index} = {e};"));
            text.line("}");
        }
    }
}
