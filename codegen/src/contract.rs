//! Contractions: tiles in shared memory, tiles in registers, and an epilogue on the registers.
//!
//! A group of threads computes a block of the result. It walks along k: the next pieces of both operands are read from memory
//! (through their accesses and expressions) while the present ones, in shared memory, are multiplied. Each thread holds a
//! tile of accumulators in registers. Where they are f32 and the tile's sides are multiples of four, shared memory is read as vec4.
//!
//! An access is affine, so that what the operand's own index and what the index along K add to an element's offset, and to the coordinates of
//! its guards, are computed separately: the former once, the latter for each piece. Where k has several dimensions, as in a convolution,
//! a thread for each index along K does the latter and leaves it in shared memory: divisions for each element read would take longer
//! than the arithmetic.
//!
//! On matrix units whose registers are known, the same walk feeds those: [`units`].
//!
//! Where there are few blocks, groups share the K of each (split K): every part's accumulators go to scratch memory, and a second launch adds the parts
//! in their order.

pub(crate) mod units;

use std::ops::Range;

use millstream_core::how::{Block, Split};
use millstream_core::{Access, Body, Contract, DType, Error, Expr, Id, Node, Op, Result};

use crate::frame::{Class, Frame, Word};
use crate::map::leaf;
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::{Register, from_words, register_dtype, to_words};
use crate::value::{Values, binary, cast};
use units::{CHUNK, Units};

/// Threads of a group that adds up parts.
pub(crate) const JOINING: u32 = 256;

/// The blocks of a contraction: what a thread holds, and what a group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub(crate) thread: Block,
    pub(crate) group: Block,
}

impl Blocks {
    pub(crate) fn threads(self) -> usize {
        (self.group.m / self.thread.m) * (self.group.n / self.thread.n)
    }

    /// How much of K a group walks, where it is cut into so many parts: each begins at a multiple of the group's block.
    pub(crate) fn part(self, k: usize, splits: usize) -> usize {
        k.div_ceil(splits.max(1)).next_multiple_of(self.group.k.max(1))
    }

    /// Bytes of shared memory for accumulators of this dtype, with so many numbers for each index along K.
    pub(crate) fn shared(self, acc: DType, steps: usize) -> usize {
        ((self.group.m + self.group.n + 2 * PAD) * acc.size().max(4) + steps.next_multiple_of(4) * 8) * self.group.k
    }
}

/// Elements added to each row of a block in shared memory, so that threads that write a column use different banks.
const PAD: usize = 4;

/// One of the two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

struct Writer<'a, 'f> {
    frame: &'f mut Frame<'a>,
    contract: &'a Contract,
    blocks: Blocks,
    /// Whether several groups share K.
    shares: bool,
    /// Whether accumulators and shared memory are moved as vec4.
    vector: bool,
    /// The matrix units that multiply, if they do.
    units: Option<Units>,
    /// Threads of the group.
    threads: usize,
    /// For each operand: whether it is read from memory as vec4.
    vec4: [bool; 2],
    batch: Vec<String>,
    /// Indices along K in a piece, once they are written.
    k_indices: Vec<(String, KIndex)>,
}

/// An index along K in the present piece: its number, the indices, and what it adds for each operand.
#[derive(Clone, Default)]
struct KIndex {
    k: String,
    index: Vec<String>,
    steps: [Position; 2],
}

/// What some of the indices add to the offset of an operand's element, and to the coordinates of its guards. Nothing, where they add
/// nothing.
#[derive(Clone, Default)]
struct Position {
    offset: String,
    guards: Vec<String>,
}

/// Whether elements of this dtype are moved as vec4 in contractions that accumulate in f32.
fn is_moved_by_four(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Whether outputs of a contraction are written as vec4: they are contiguous along the last dimension of N.
pub(crate) fn writes_by_four(op: &Op, contract: &Contract) -> bool {
    let last = contract.k.wrapping_sub(1);
    contract.k > contract.n
        && op.outputs.iter().all(|a| op.dims[last] != 1 && a.strides[last] == 1 && is_moved_by_four(a.dtype))
}

/// Whether an operand is a plain input of floats, contiguous along the last dimension of K or of its own: it can then be read as
/// vec4.
pub(crate) fn reads_by_four(op: &Op, contract: &Contract) -> [Option<usize>; 2] {
    let rank = op.dims.len();
    [(&contract.lhs, contract.m..contract.n), (&contract.rhs, contract.n..contract.k)].map(|(expr, own)| {
        let n = expr.as_input()? as usize;
        let access = &op.inputs[n];
        let mut ones = (0..rank).filter(|&d| access.strides[d] == 1 && op.dims[d] != 1);
        let (one, none) = (ones.next()?, ones.next());
        // Elements of one buffer must not be read in two ways by one kernel.
        let elsewhere = contract.epilogue.nodes().iter().any(|(node, _)| *node == Node::Input(n as u16));
        let single = none.is_none() && !elsewhere && contract.k < rank;
        let floats = is_moved_by_four(access.dtype) && contract.acc == DType::F32;
        let last = one == rank - 1 || !own.is_empty() && one == own.end - 1;
        (single && floats && access.is_plain() && last).then_some(one)
    })
}

/// A batch of matmuls that share their left operand along some dimensions of the batch, with those as columns: not so many blocks
/// reach over an edge. `None` where there are no such dimensions.
pub(crate) fn widened(op: &Op) -> Option<Op> {
    let Body::Contract(c) = &op.body else { return None };
    let rank = op.dims.len();
    let left = |i: usize| c.lhs.nodes().iter().any(|(n, _)| *n == Node::Input(i as u16));
    let still = |a: &Access, d: usize| {
        (a.strides[d] == 0 || op.dims[d] == 1) && a.guards.iter().all(|g| g.coefficients[d] == 0)
    };
    let moves = |d: &usize| op.inputs.iter().enumerate().all(|(i, a)| !left(i) || still(a, *d));
    let (moved, batch): (Vec<usize>, Vec<usize>) = (0..c.m).partition(moves);
    if moved.is_empty() || op.exprs().any(|e| (0..rank).any(|d| e.uses_index(d))) {
        return None;
    }
    let order: Vec<usize> = batch.iter().copied().chain(c.m..c.n).chain(moved).chain(c.n..rank).collect();
    let permute = |a: &Access| {
        let mut a = a.clone();
        a.strides = order.iter().map(|&d| a.strides[d]).collect();
        for g in &mut a.guards {
            g.coefficients = order.iter().map(|&d| g.coefficients[d]).collect();
        }
        a
    };
    let m = batch.len();
    Some(Op::new(
        order.iter().map(|&d| op.dims[d]).collect(),
        op.inputs.iter().map(permute).collect(),
        op.outputs.iter().map(permute).collect(),
        Body::Contract(Box::new(Contract { m, n: m + c.n - c.m, ..(**c).clone() })),
    ))
}

/// A kernel for a contraction: on matrix units, where they are asked for.
pub(crate) fn generate(
    op: &Op,
    target: &Target,
    blocks: Blocks,
    split: Split,
    wide: bool,
    on_units: bool,
) -> Result<Program> {
    let other = widened(op);
    let (op, widened) = (other.as_ref().unwrap_or(op), other.is_some());
    let Body::Contract(contract) = &op.body else {
        return Err(Error::internal("a kernel for contractions was asked to do something else"));
    };
    let mut frame = Frame::new(op, target, wide);
    let acc = Register::of(contract.acc);
    let vector =
        !on_units && acc == Register::F32 && blocks.thread.m.is_multiple_of(4) && blocks.thread.n.is_multiple_of(4);
    let multiplied = if on_units { units::multiplied(contract, target) } else { None };
    if on_units && multiplied.is_none() {
        return Err(Error::internal("matrix units were asked to multiply what they cannot"));
    }
    let copies = on_units && units::copies(op, contract);
    let threads = if on_units { units::threads(blocks) } else { blocks.threads() };
    if multiplied.is_some_and(|dtype| dtype != DType::F64) {
        Writer::share_chunks(&mut frame, blocks, copies);
    } else {
        let (element, each) = if vector { ("vec4<f32>", 4) } else { (acc.shared(), 1) };
        for (name, size) in [("left", blocks.group.m), ("right", blocks.group.n)] {
            frame.share(name, element, blocks.group.k * (size + PAD) / each);
        }
    }
    if op.dims.len() - contract.k > 1 {
        frame.share("steps", "vec4<idx>", blocks.group.k * steps(op, contract).div_ceil(4));
    }
    let shares = split == Split::TwoPass;
    frame.has_workspace = shares;
    let possible = reads_by_four(op, contract).map(|d| d.is_some());
    let by_four = vector && possible == [true, true] || copies;
    for vec4 in if by_four { &[true, false][..] } else { &[false][..] } {
        let mut text = Text::inside(1);
        let writer = Writer {
            frame: &mut frame,
            contract,
            blocks,
            shares,
            vector,
            units: multiplied.map(|dtype| Units { dtype, copies: *vec4 }),
            threads,
            vec4: if *vec4 { possible } else { [false, false] },
            batch: Vec::new(),
            k_indices: Vec::new(),
        };
        writer.entry(&mut text, *vec4);
        let name = match (on_units, *vec4) {
            (false, true) => "contract_by_four",
            (false, false) => "contract_by_one",
            (true, true) => "units_by_eight",
            (true, false) => "units_by_one",
        };
        frame.entry(name, threads as u32, text);
    }
    if shares {
        let mut text = Text::inside(1);
        join(&mut frame, &mut text, contract);
        frame.entry("contract_parts", JOINING, text);
    }
    let width = if on_units { CHUNK } else { 4 };
    Program::new(frame, Shape::Contract { blocks, split, by: if by_four { width } else { 1 }, widened })
}

/// Numbers in shared memory for each index along K, where it has several dimensions.
pub(crate) fn steps(op: &Op, contract: &Contract) -> usize {
    let numbers = |e: &Expr| match e.as_input() {
        Some(input) => 1 + op.inputs[input as usize].guards.len(),
        None => op.dims.len() - contract.k,
    };
    numbers(&contract.lhs) + numbers(&contract.rhs)
}

/// Adds up the parts of each sum, in their order, and writes the results.
fn join(frame: &mut Frame<'_>, text: &mut Text, c: &Contract) {
    let acc = Register::of(c.acc);
    let [count, parts] = [8, 9].map(|n| frame.arg(Word::Number(n)));
    let base = frame.arg(Word::Work);
    text.line(format!("for (var n = group * idx({JOINING}) + lane; n < {count}; n += groups * idx({JOINING})) {{"));
    let index = if c.k == 0 { Vec::new() } else { frame.indices(text, "n", 0..c.k) };
    text.line(format!("var sum = {};", acc.zero()));
    text.line("var part = idx(0);");
    // Several parts are on their way before the first is added.
    for together in [4, 1] {
        text.line(format!("while (part + idx({}) < {parts}) {{", together - 1));
        let mut values = Vec::new();
        for p in 0..together {
            let offset = text.name("p", format!("{base} + ((part + idx({p})) * {count} + n) * idx({})", acc.words()));
            values.push(text.name("x", from_words(register_dtype(acc), |k| format!("work[{offset} + idx({k})]"))));
        }
        for value in values {
            text.line(format!("sum = {};", binary(millstream_core::Binary::Add, c.acc, "sum", &value)));
        }
        text.line(format!("part += idx({together});"));
        text.line("}");
    }
    let (batch, rest) = index.split_at(c.m);
    let (rows, columns) = rest.split_at(c.n - c.m);
    results(frame, text, c, [batch, rows], 1, |_, _, _| (columns.to_vec(), "sum".into()));
    text.line("}");
}

impl<'a> Writer<'a, '_> {
    fn entry(mut self, text: &mut Text, vec4: bool) {
        let Blocks { thread, group } = self.blocks;
        let threads_n = group.n / thread.n;
        let number: Vec<String> = (0..6).map(|n| self.frame.arg(Word::Number(n))).collect();
        let [tiles_n, tiles, total, m, n, k] = &number[..] else { return };
        text.line(format!("let size_m = {m};"));
        text.line(format!("let size_n = {n};"));
        text.line(format!("let size_k = {k};"));
        if self.units.is_none() {
            text.line(format!("let y = quotient(lane, idx({threads_n}));"));
            text.line(format!("let x = lane - y * idx({threads_n});"));
        }
        text.line(format!("for (var tile = group; tile < {total}; tile += groups) {{"));
        text.line(format!("let slice = quotient(tile, {tiles});"));
        text.line(format!("let within = tile - slice * {tiles};"));
        text.line(format!("let tile_m = quotient(within, {tiles_n});"));
        text.line(format!("let first_m = tile_m * idx({});", group.m));
        text.line(format!("let first_n = (within - tile_m * {tiles_n}) * idx({});", group.n));
        if self.shares {
            let [batches, part_k] = [6, 7].map(|n| self.frame.arg(Word::Number(n)));
            text.line(format!("let part = quotient(slice, {batches});"));
            text.line(format!("let batch = slice - part * {batches};"));
            text.line(format!("let begin = part * {part_k};"));
            text.line(format!("let until = min(size_k, begin + {part_k});"));
        } else {
            text.line("let batch = slice;");
            text.line("let begin = idx(0);");
            text.line("let until = size_k;");
        }
        if self.contract.m > 0 {
            self.batch = self.frame.indices(text, "batch", 0..self.contract.m);
        }
        let acc = Register::of(self.contract.acc);
        if self.units.is_some() {
            self.warps(text);
        } else {
            for i in 0..thread.m {
                for j in 0..thread.n {
                    text.line(format!("var sum_{i}_{j} = {};", acc.zero()));
                }
            }
        }
        let left = self.slots(text, Side::Left);
        let right = self.slots(text, Side::Right);
        if self.units.is_some_and(|u| u.copies) {
            let slots: Vec<Slot> = left.into_iter().chain(right).collect();
            self.walk_copies(text, &slots);
        } else {
            self.walk(text, &left, &right);
        }
        if self.units.is_some() {
            self.sums_of_units(text);
        }
        self.frame.release(text);
        if self.shares {
            self.leave_accumulators(text);
        } else {
            self.results(text, vec4);
        }
        text.line("}");
    }

    /// The walk along K, through registers.
    fn walk(&mut self, text: &mut Text, left: &[Slot], right: &[Slot]) {
        let group = self.blocks.group;
        let several = self.frame.op.dims.len() - self.contract.k > 1;
        let count = if several { steps(self.frame.op, self.contract) } else { 0 };
        let ahead: Vec<String> = (0..count).map(|_| text.fresh("ahead")).collect();
        if several {
            for name in &ahead {
                text.line(format!("var {name} = idx(0);"));
            }
            self.look_ahead(text, "begin", &ahead);
            self.leave_steps(text, &ahead);
            text.line("workgroupBarrier();");
        }
        text.line(format!("for (var k0 = begin; k0 < until + idx({0}); k0 += idx({0})) {{", group.k));
        for slot in left.iter().chain(right) {
            self.fetch(text, slot);
        }
        if several {
            self.look_ahead(text, &format!("k0 + idx({})", group.k), &ahead);
        }
        text.line("if (k0 > begin) {");
        if self.units.is_some() {
            self.multiply_units(text);
        } else {
            self.multiply(text);
        }
        text.line("}");
        text.line("workgroupBarrier();");
        for slot in left.iter().chain(right) {
            self.put(text, slot);
        }
        if several {
            self.leave_steps(text, &ahead);
        }
        text.line("workgroupBarrier();");
        text.line("}");
    }

    /// What an index along K, given by its parts, adds for an operand that is a plain input.
    fn step(&mut self, side: Side, index: &[String]) -> Position {
        let Some(input) = self.operand(side).as_input().map(usize::from) else { return Position::default() };
        let (first, rank) = (self.contract.k, self.frame.op.dims.len());
        let at = |d: usize| index.get(d - first).cloned();
        let guards = 0..self.frame.access(input).guards.len();
        Position {
            offset: self.frame.moved(input, first..rank, &at),
            guards: guards.map(|g| self.frame.guard_moved(input, g, first..rank, &at)).collect(),
        }
    }

    /// Computes what the indices along K of a whole piece add, one for each of the first threads.
    fn look_ahead(&mut self, text: &mut Text, first: &str, names: &[String]) {
        text.line(format!("if (lane < idx({})) {{", self.blocks.group.k));
        let k = text.name("k", format!("{first} + lane"));
        let index = self.frame.indices(text, &k, self.contract.k..self.frame.op.dims.len());
        let mut names = names.iter();
        for side in [Side::Left, Side::Right] {
            let numbers: Vec<String> = match self.operand(side).as_input() {
                Some(_) => {
                    let Position { offset, guards } = self.step(side, &index);
                    [offset].into_iter().chain(guards).map(|sum| format!("idx(0){sum}")).collect()
                }
                None => index.clone(),
            };
            // A zip takes from its first side before it finds the second empty.
            for (value, name) in numbers.into_iter().zip(names.by_ref()) {
                text.line(format!("{name} = {value};"));
            }
        }
        text.line("}");
    }

    /// Puts what was computed for a piece into shared memory.
    fn leave_steps(&self, text: &mut Text, names: &[String]) {
        text.line(format!("if (lane < idx({})) {{", self.blocks.group.k));
        let count = names.chunks(4).len();
        for (f, four) in names.chunks(4).enumerate() {
            let parts: Vec<&str> = (0..4).map(|i| four.get(i).map_or("idx(0)", String::as_str)).collect();
            text.line(format!("steps[lane * idx({count}) + idx({f})] = vec4<idx>({});", parts.join(", ")));
        }
        text.line("}");
    }

    /// An index along K in the present piece.
    fn k_index(&mut self, text: &mut Text, offset: &str) -> KIndex {
        if let Some((_, known)) = self.k_indices.iter().find(|(p, _)| p == offset) {
            return known.clone();
        }
        let k = text.name("k", format!("k0 + {offset}"));
        let mut found = KIndex { k: k.clone(), ..KIndex::default() };
        let dims = self.frame.op.dims.len() - self.contract.k;
        if dims > 1 {
            let count = steps(self.frame.op, self.contract);
            let each = count.div_ceil(4);
            let read = |f: usize| format!("steps[{offset} * idx({each}) + idx({f})]");
            let names: Vec<String> = (0..each).map(|f| text.name("s", read(f))).collect();
            let mut numbers = (0..count).map(|i| format!("{}.{}", names[i / 4], ["x", "y", "z", "w"][i % 4]));
            for side in [Side::Left, Side::Right] {
                match self.operand(side).as_input().map(usize::from) {
                    Some(input) => {
                        let guards = self.frame.access(input).guards.len();
                        let mut next = || numbers.next().map_or(String::new(), |n| format!(" + {n}"));
                        let offset = next();
                        found.steps[side as usize] = Position { offset, guards: (0..guards).map(|_| next()).collect() };
                    }
                    None => found.index = numbers.by_ref().take(dims).collect(),
                }
            }
        } else {
            found.index = if dims == 1 { vec![k] } else { Vec::new() };
            found.steps = [Side::Left, Side::Right].map(|side| self.step(side, &found.index));
        }
        self.k_indices.push((offset.into(), found.clone()));
        found
    }

    /// Leaves this part's accumulators in scratch memory.
    fn leave_accumulators(&mut self, text: &mut Text) {
        let (rows, held) = self.held();
        let acc = Register::of(self.contract.acc);
        let base = self.frame.arg(Word::Work);
        let columns: Vec<String> =
            (0..held).map(|j| text.name("n", format!("first_n + {}", self.tile_offset(Side::Right, j)))).collect();
        for i in 0..rows {
            let m = text.name("m", format!("first_m + {}", self.tile_offset(Side::Left, i)));
            text.line(format!("if ({m} < size_m) {{"));
            let row = text.name("p", format!("(slice * size_m + {m}) * size_n"));
            for (j, n) in columns.iter().enumerate() {
                text.line(format!("if ({n} < size_n) {{"));
                let offset = text.name("p", format!("{base} + ({row} + {n}) * idx({})", acc.words()));
                for (k, word) in to_words(acc, &format!("sum_{i}_{j}")).into_iter().enumerate() {
                    text.line(format!("work[{offset} + idx({k})] = {word};"));
                }
                text.line("}");
            }
            text.line("}");
        }
    }

    /// What each thread reads of one operand for every piece of k.
    fn slots(&mut self, text: &mut Text, side: Side) -> Vec<Slot> {
        let Blocks { group, .. } = self.blocks;
        let threads = self.threads;
        let (size, first, most, own) = match side {
            Side::Left => (group.m, "first_m", "size_m", self.contract.m..self.contract.n),
            Side::Right => (group.n, "first_n", "size_n", self.contract.n..self.contract.k),
        };
        let along_k = self.lies_along_k(side);
        let copies = self.units.is_some_and(|u| u.copies);
        let width = match self.vec4[side as usize] {
            _ if copies => CHUNK,
            true => 4,
            false => 1,
        };
        let count = size * group.k / width;
        // Neighbouring threads read neighbouring elements.
        let inner = if along_k { group.k / width } else { size / width };
        let q = text.name("q", format!("quotient(lane, idx({inner}))"));
        let r = text.name("r", format!("(lane - {q} * idx({inner})) * idx({width})"));
        let input = self.operand(side).as_input().map(usize::from);
        let fill = match input {
            Some(n) if !self.frame.access(n).is_plain() => {
                let fill = self.frame.fill(n);
                Some(text.name("fill", cast(self.frame.access(n).dtype, self.contract.acc, &fill)))
            }
            _ => None,
        };
        let mut owns: Vec<(String, Own)> = Vec::new();
        let mut slots = Vec::new();
        for t in 0..count.div_ceil(threads) {
            // A thread stays in its column or its row as far as the sizes allow, so that what depends on one alone is computed once.
            let at = t * threads;
            let (q, r) = match at {
                0 => (q.clone(), r.clone()),
                _ if threads.is_multiple_of(inner) => (text.name("q", format!("{q} + idx({})", at / inner)), r.clone()),
                _ => {
                    let at = text.name("s", format!("lane + idx({at})"));
                    let q = text.name("q", format!("quotient({at}, idx({inner}))"));
                    let r = text.name("r", format!("({at} - {q} * idx({inner})) * idx({width})"));
                    (q, r)
                }
            };
            let (k, o) = if along_k { (r, q) } else { (q, r) };
            let mine = match owns.iter().find(|(offset, _)| *offset == o) {
                Some((_, mine)) => mine.clone(),
                None => {
                    let position = text.name("o", format!("{first} + {o}"));
                    let inside = text.name("inside", format!("{position} < {most}"));
                    // Beyond the end the first element is read: its accumulators go nowhere.
                    let position = text.name("o", format!("select(idx(0), {position}, {inside})"));
                    let index =
                        if own.is_empty() { Vec::new() } else { self.frame.indices(text, &position, own.clone()) };
                    let mut mine = Own { index, position: Position::default() };
                    if let Some(n) = input {
                        mine.position = self.own(text, n, &own, &mine.index);
                    }
                    owns.push((o.clone(), mine.clone()));
                    mine
                }
            };
            let real = (count % threads != 0).then(|| format!("lane + idx({at}) < idx({count})"));
            // What is copied passes no registers.
            let names = (0..if copies { 0 } else { width }).map(|_| text.fresh("v")).collect();
            slots.push(Slot { side, k, o, own: mine, fill: fill.clone(), names, along_k, real });
        }
        let zero = Register::of(self.contract.acc).zero();
        for slot in &slots {
            for name in &slot.names {
                text.line(format!("var {name} = {zero};"));
            }
        }
        slots
    }

    /// What the batch and an operand's own index add.
    fn own(&mut self, text: &mut Text, input: usize, own: &Range<usize>, index: &[String]) -> Position {
        let batch = self.batch.clone();
        let at = |d: usize| match d.checked_sub(own.start) {
            Some(i) => index.get(i).cloned(),
            None => batch.get(d).cloned(),
        };
        let end = self.contract.m;
        let offset = self.frame.arg(Word::Base(input))
            + &self.frame.moved(input, 0..end, &at)
            + &self.frame.moved(input, own.clone(), &at);
        let offset = text.name("p", offset);
        let mut guards = Vec::new();
        for g in 0..self.frame.access(input).guards.len() {
            let sum = self.frame.arg(Word::GuardOffset(input, g))
                + &self.frame.guard_moved(input, g, 0..end, &at)
                + &self.frame.guard_moved(input, g, own.clone(), &at);
            guards.push(text.name("g", sum));
        }
        Position { offset, guards }
    }

    /// Whether neighbouring threads read neighbouring elements along K, as the operand's first input says: it is contiguous there, and not
    /// along its own dimension. Windows over an image do both, or nearly so, and are short along k.
    fn lies_along_k(&self, side: Side) -> bool {
        let own = match side {
            Side::Left => self.contract.m..self.contract.n,
            Side::Right => self.contract.n..self.contract.k,
        };
        let rank = self.frame.op.dims.len();
        let first = self.operand(side).nodes().iter().find_map(|(n, _)| match n {
            Node::Input(i) => Some(*i as usize),
            _ => None,
        });
        let (Some(input), false) = (first, self.contract.k == rank) else { return false };
        let (last, beside) = (rank - 1, own.end.wrapping_sub(1));
        let guards = &self.frame.access(input).guards;
        let is_window = || guards.iter().any(|g| g.coefficients[last] != 0 && g.coefficients[beside] != 0);
        self.frame.class(input, last) == Class::One
            && (own.is_empty() || self.frame.class(input, beside) != Class::One && !is_window())
    }

    fn operand(&self, side: Side) -> &'a Expr {
        match side {
            Side::Left => &self.contract.lhs,
            Side::Right => &self.contract.rhs,
        }
    }

    /// The index of a dimension for a slot, given the indices along k.
    fn index(&self, slot: &Slot, k: &[String], d: usize) -> Option<String> {
        let c = self.contract;
        let own = if slot.side == Side::Left { c.m..c.n } else { c.n..c.k };
        if d < c.m {
            self.batch.get(d).cloned()
        } else if own.contains(&d) {
            slot.own.index.get(d - own.start).cloned()
        } else {
            d.checked_sub(c.k).and_then(|i| k.get(i).cloned())
        }
    }

    /// Reads a slot's elements of the piece at `k0`; zeros where there are none.
    fn fetch(&mut self, text: &mut Text, slot: &Slot) {
        let zero = Register::of(self.contract.acc).zero();
        let KIndex { k, index, steps } = self.k_index(text, &slot.k);
        let real = slot.real.as_ref().map_or(String::new(), |real| format!(" & ({real})"));
        let expr = self.operand(slot.side);
        let Some(input) = expr.as_input().map(usize::from) else {
            text.line(format!("{} = {zero};", slot.names[0]));
            text.line(format!("if (({k} < until){real}) {{"));
            let rank = self.frame.op.dims.len();
            let index: Vec<Option<String>> = (0..rank).map(|d| self.index(slot, &index, d)).collect();
            let mut values = Values::new(expr);
            let frame = &mut *self.frame;
            let at = |d: usize| index[d].clone();
            values.write(text, expr, expr.outputs(), |text, _, node, dtype| leaf(frame, text, node, dtype, &at));
            if let Some(&id) = expr.outputs().first() {
                let value = cast(expr.dtype(id), self.contract.acc, values.get(id));
                text.line(format!("{} = {value};", slot.names[0]));
            }
            text.line("}");
            return;
        };
        let (own, step) = (&slot.own.position, &steps[slot.side as usize]);
        let offset = text.name("p", format!("{}{}", own.offset, step.offset));
        let mut exists = String::new();
        if let Some(fill) = &slot.fill {
            let add = |(own, step): (&String, &String)| text.name("g", format!("{own}{step}"));
            let coordinates: Vec<String> = own.guards.iter().zip(&step.guards).map(add).collect();
            exists = format!(" & {}", self.frame.exists(input, &offset, &coordinates));
            text.line(format!("{} = select({zero}, {fill}, {k} < until);", slot.names[0]));
        } else {
            for name in &slot.names {
                text.line(format!("{name} = {zero};"));
            }
        }
        text.line(format!("if (({k} < until){real}{exists}) {{"));
        let dtype = self.frame.access(input).dtype;
        let values = if slot.names.len() == 4 {
            self.frame.vec4 = true;
            let four = self.frame.load_four(text, input, &offset);
            self.frame.vec4 = false;
            four.to_vec()
        } else {
            vec![text.name("x", self.frame.load(input, &offset))]
        };
        for (name, value) in slot.names.iter().zip(values) {
            text.line(format!("{name} = {};", cast(dtype, self.contract.acc, &value)));
        }
        text.line("}");
    }

    /// Puts a slot's elements into shared memory.
    fn put(&mut self, text: &mut Text, slot: &Slot) {
        if let Some(Units { dtype, .. }) = self.units.filter(|u| u.dtype != DType::F64) {
            if let Some(real) = &slot.real {
                text.line(format!("if ({real}) {{"));
            }
            self.put_half(text, slot, dtype);
            if slot.real.is_some() {
                text.line("}");
            }
            return;
        }
        let (array, row) = match slot.side {
            Side::Left => ("left", self.blocks.group.m + PAD),
            Side::Right => ("right", self.blocks.group.n + PAD),
        };
        if let Some(real) = &slot.real {
            text.line(format!("if ({real}) {{"));
        }
        let at = text.name("a", format!("{} * idx({row}) + {}", slot.k, slot.o));
        if slot.names.len() == 4 && !slot.along_k {
            text.line(format!("{array}[{at} >> 2u] = vec4<f32>({});", slot.names.join(", ")));
        } else {
            for (l, name) in slot.names.iter().enumerate() {
                let offset = if l == 0 { at.clone() } else { format!("({at} + idx({}))", l * row) };
                if self.vector {
                    text.line(format!("{} = {name};", self.frame.language().component(array, &offset)));
                } else {
                    let value = Register::of(self.contract.acc).put(name);
                    text.line(format!("{array}[{offset}] = {value};"));
                }
            }
        }
        if slot.real.is_some() {
            text.line("}");
        }
    }

    /// Where in the group's block the thread's row `i` (or column) lies.
    fn tile_offset(&self, side: Side, i: usize) -> String {
        if self.units.is_some() {
            return self.units_offset(side, i);
        }
        let Blocks { thread, group } = self.blocks;
        let (own, size, each) = match side {
            Side::Left => ("y", group.m, thread.m),
            Side::Right => ("x", group.n, thread.n),
        };
        if self.vector {
            // The vec4s of one thread are not neighbours, so that neighbouring threads read neighbouring vec4s.
            let stride = size / (each / 4);
            format!("{own} * idx(4) + idx({})", (i / 4) * stride + i % 4)
        } else {
            format!("{own} + idx({})", i * (size / each))
        }
    }

    /// Multiplies the pieces in shared memory.
    fn multiply(&mut self, text: &mut Text) {
        let Blocks { thread, group } = self.blocks;
        let acc = self.contract.acc;
        text.line(format!("for (var kk = idx(0); kk < idx({}); kk += idx(1)) {{", group.k));
        let mut names: [Vec<String>; 2] = [Vec::new(), Vec::new()];
        for (side, array, size, each) in
            [(Side::Left, "left", group.m, thread.m), (Side::Right, "right", group.n, thread.n)]
        {
            let row = size + PAD;
            for i in (0..each).step_by(if self.vector { 4 } else { 1 }) {
                let offset = format!("kk * idx({row}) + {}", self.tile_offset(side, i));
                if self.vector {
                    let v = text.name("v", format!("{array}[({offset}) >> 2u]"));
                    names[side as usize].extend(["x", "y", "z", "w"].map(|p| format!("{v}.{p}")));
                } else {
                    let value = Register::of(acc).get(format!("{array}[{offset}]"));
                    names[side as usize].push(text.name("v", value));
                }
            }
        }
        for (i, a) in names[0].iter().enumerate() {
            for (j, b) in names[1].iter().enumerate() {
                let sum = format!("sum_{i}_{j}");
                let next = if Register::of(acc).is_float() {
                    format!("fma({a}, {b}, {sum})")
                } else {
                    let product = binary(millstream_core::Binary::Mul, acc, a, b);
                    binary(millstream_core::Binary::Add, acc, &sum, &product)
                };
                text.line(format!("{sum} = {next};"));
            }
        }
        text.line("}");
    }

    /// Computes the epilogue on the accumulators and writes the results.
    fn results(&mut self, text: &mut Text, vec4: bool) {
        let (held_rows, held_columns) = self.held();
        let c = self.contract;
        // Four columns are written together where every output is contiguous along N.
        let wide = (self.vector || self.units.is_some()) && vec4 && writes_by_four(self.frame.op, c);
        let mut columns = Vec::new();
        for j in 0..held_columns {
            let offset = self.tile_offset(Side::Right, j);
            let n = text.name("n", format!("first_n + {offset}"));
            let index = if c.n == c.k { Vec::new() } else { self.frame.indices(text, &n, c.n..c.k) };
            columns.push((n, index));
        }
        for i in 0..held_rows {
            let offset = self.tile_offset(Side::Left, i);
            let m = text.name("m", format!("first_m + {offset}"));
            text.line(format!("if ({m} < size_m) {{"));
            let rows = if c.m == c.n { Vec::new() } else { self.frame.indices(text, &m, c.m..c.n) };
            let step = if wide { 4 } else { 1 };
            for j in (0..held_columns).step_by(step) {
                text.line(format!("if ({} < size_n) {{", columns[j].0));
                results(self.frame, text, c, [&self.batch, &rows], step, |_, _, l| {
                    (columns[j + l].1.clone(), format!("sum_{i}_{}", j + l))
                });
                text.line("}");
            }
            text.line("}");
        }
    }
}

/// Computes the epilogue on `step` neighbouring columns of a row, 1 or 4, and writes the results: together, where there are 4.
///
/// Given are the indices of the batch and of the row; `element` gives those of a column, and the accumulator there.
pub(crate) fn results<'a>(
    frame: &mut Frame<'a>,
    text: &mut Text,
    c: &Contract,
    [batch, rows]: [&[String]; 2],
    step: usize,
    mut element: impl FnMut(&mut Frame<'a>, &mut Text, usize) -> (Vec<String>, String),
) {
    let mut results: Vec<Vec<String>> = vec![Vec::new(); c.epilogue.outputs().len()];
    let mut first = Vec::new();
    for l in 0..step {
        let (columns, sum) = element(frame, text, l);
        let index: Vec<Option<String>> = (0..frame.op.dims.len())
            .map(|d| match d {
                d if d < c.m => batch.get(d).cloned(),
                d if d < c.n => rows.get(d - c.m).cloned(),
                d if d < c.k => columns.get(d - c.n).cloned(),
                _ => None,
            })
            .collect();
        let mut values = Values::new(&c.epilogue);
        for (id, (node, _)) in c.epilogue.nodes().iter().enumerate() {
            if *node == Node::Acc {
                values.set(Id(id as u32), sum.clone());
            }
        }
        let at = |d: usize| index[d].clone();
        values
            .write(text, &c.epilogue, c.epilogue.outputs(), |text, _, node, dtype| leaf(frame, text, node, dtype, &at));
        for (o, &id) in c.epilogue.outputs().iter().enumerate() {
            results[o].push(values.get(id).to_string());
        }
        if l == 0 {
            first = index;
        }
    }
    for (o, names) in results.iter().enumerate() {
        let operand = frame.output(o);
        let offset = frame.offset(operand, &|d| first[d].clone());
        let offset = text.name("p", offset);
        match <&[String; 4]>::try_from(&names[..]) {
            Ok(names) => frame.store_four(text, operand, &offset, names),
            Err(_) => frame.store(text, operand, &offset, &names[0]),
        }
    }
}

/// An index along an operand's own dimension: its indices, and what they add where the operand is a plain input.
#[derive(Clone)]
struct Own {
    index: Vec<String>,
    position: Position,
}

/// What one thread reads of an operand for every piece of k.
struct Slot {
    side: Side,
    /// Where along k in the piece, and where along the operand's own dimension in the block.
    k: String,
    o: String,
    own: Own,
    /// What is read where a guard does not hold.
    fill: Option<String>,
    names: Vec<String>,
    along_k: bool,
    /// Whether the slot exists at all for this thread, where the block is no multiple of the threads.
    real: Option<String>,
}
