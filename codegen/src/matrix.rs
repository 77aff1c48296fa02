//! Contractions of f16 on matrix units that say nothing of their registers: WGSL's cooperative matrices. Those that do are fed by
//! [`crate::contract`].
//!
//! A group of subgroups computes a block of the result. It walks along k as [`crate::contract`] does: the next pieces of both
//! operands are read from memory, as vec4 of f16, while the present ones, in shared memory, are multiplied. A subgroup
//! holds its part of the block as squares of accumulators in f32. The squares go through shared memory to the epilogue, one
//! after the other, so that each thread knows which elements it has.
//!
//! Written only for devices whose subgroups all have one size, which is part of the [`Target`]: the number of subgroups of a group is
//! then known. Nothing is said of which thread belongs to which subgroup.

use millstream_core::how::{Block, Split};
use millstream_core::{Body, Contract, DType, Error, Op, Result};

use crate::contract::{Blocks, Side, reads_by_four, results, writes_by_four};
use crate::dialect::MatrixUnits;
use crate::frame::{Frame, Word};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;

/// The side of the squares that a subgroup multiplies.
const SQUARE: usize = 16;
/// vec4s added to each row in shared memory, so that rows begin in different banks; two, so that each is aligned to 16 bytes.
const PAD: usize = 2;

/// The blocks for a contraction, if it can be computed in this way: what a subgroup holds, and what a group holds.
pub(crate) fn blocks(op: &Op, contract: &Contract, target: &Target) -> Vec<Blocks> {
    let (Some(size), Some(_)) = (target.matrices, target.dialect.language().matrix_units()) else { return Vec::new() };
    let halves = [&contract.lhs, &contract.rhs]
        .iter()
        .all(|e| e.as_input().is_some_and(|n| op.inputs[n as usize].dtype == DType::F16));
    let single = [contract.n - contract.m, contract.k - contract.n, op.dims.len() - contract.k] == [1; 3];
    if !halves || !single || contract.acc != DType::F32 || reads_by_four(op, contract).contains(&None) {
        return Vec::new();
    }
    let block = |m, n, k| Block { m, n, k };
    [(block(64, 32, SQUARE), block(128, 128, 32)), (block(32, 32, SQUARE), block(64, 64, 32))]
        .into_iter()
        .map(|(thread, group)| Blocks { thread, group })
        .filter(|b| b.threads() * size as usize <= target.max_group as usize && shared(*b) <= target.shared_memory)
        .collect()
}

/// Bytes of shared memory, whichever way the operands lie.
fn shared(b: Blocks) -> usize {
    let count = |own: usize| (own * (b.group.k / 4 + PAD)).max(b.group.k * (own / 4 + PAD));
    8 * (count(b.group.m) + count(b.group.n)) + 4 * SQUARE * SQUARE * b.threads()
}

/// One operand in shared memory.
struct SharedOperand {
    input: usize,
    side: Side,
    /// Its name.
    array: &'static str,
    /// Elements of its own dimension in the block, and where they begin and end.
    own: usize,
    first: &'static str,
    most: &'static str,
    /// Its own dimensions.
    dims: std::ops::Range<usize>,
    /// Whether it is contiguous along K, in memory and in shared memory.
    along_k: bool,
    /// vec4s from one row to the next in shared memory.
    row: usize,
    k: usize,
}

impl SharedOperand {
    /// Loads the square at these elements from shared memory.
    fn square(&self, units: &dyn MatrixUnits, role: char, own: &str, k: usize) -> String {
        let row = self.row;
        let offset = match self.along_k {
            true => format!("({own}) * {row}u + {}u", k / 4),
            false => format!("{}u + ({own}) / 4u", k * row),
        };
        // The left operand's rows are its own dimension, the right one's are k.
        let by_rows = self.along_k == (self.side == Side::Left);
        units.load(role, &format!("{}[{offset}]", self.array), row, by_rows)
    }
}

/// A vec4 of an operand that a thread reads for every piece of k.
struct Slot {
    operand: usize,
    k: String,
    inside: String,
    /// The index of its own dimension.
    own: String,
    name: String,
    offset: String,
    /// Whether it exists for this thread.
    real: Option<String>,
}

/// A kernel for a contraction on matrix units.
pub(crate) fn generate(op: &Op, target: &Target, blocks: Blocks) -> Result<Program> {
    let units = target.dialect.language().matrix_units();
    let (Body::Contract(contract), Some(size), Some(units)) = (&op.body, target.matrices, units) else {
        return Err(Error::internal("a kernel for matrix units was asked to do something else"));
    };
    let ([Some(left), Some(right)], Some(l), Some(r)) =
        (reads_by_four(op, contract), contract.lhs.as_input(), contract.rhs.as_input())
    else {
        return Err(Error::internal("matrix units read plain operands only"));
    };
    let k = op.dims.len() - 1;
    let operand = |side, input: u16, dim: usize| {
        let (array, own, first, most, dims) = match side {
            Side::Left => ("left", blocks.group.m, "first_m", "size_m", contract.m..contract.n),
            Side::Right => ("right", blocks.group.n, "first_n", "size_n", contract.n..contract.k),
        };
        let along_k = dim == k;
        let row = if along_k { blocks.group.k } else { own } / 4 + PAD;
        SharedOperand { input: input as usize, side, array, own, first, most, dims, along_k, row, k: blocks.group.k }
    };
    let operands = [operand(Side::Left, l, left), operand(Side::Right, r, right)];
    let mut frame = Frame::new(op, target, false);
    for o in &operands {
        frame.share(o.array, "vec4<f16>", o.row * if o.along_k { o.own } else { o.k });
    }
    frame.share("staged", "f32", SQUARE * SQUARE * blocks.threads());
    let threads = blocks.threads() * size as usize;
    for vec4 in [true, false] {
        let mut text = Text::inside(1);
        let writer = Writer {
            frame: &mut frame,
            units,
            contract,
            blocks,
            operands: &operands,
            threads,
            vec4,
            batch: Vec::new(),
        };
        writer.entry(&mut text);
        frame.entry(if vec4 { "matrices_by_four" } else { "matrices_by_one" }, threads as u32, text);
    }
    Program::new(frame, Shape::Contract { blocks, split: Split::Whole, by: 4, widened: false })
}

struct Writer<'a, 'f> {
    frame: &'f mut Frame<'a>,
    units: &'a dyn MatrixUnits,
    contract: &'a Contract,
    blocks: Blocks,
    operands: &'f [SharedOperand; 2],
    threads: usize,
    /// Whether memory is read and written as vec4.
    vec4: bool,
    batch: Vec<String>,
}

impl Writer<'_, '_> {
    fn entry(mut self, text: &mut Text) {
        let Blocks { thread, group } = self.blocks;
        let number: Vec<String> = (0..6).map(|n| self.frame.arg(Word::Number(n))).collect();
        let [tiles_n, tiles, total, m, n, k] = &number[..] else { return };
        text.line(format!("let size_m = {m};"));
        text.line(format!("let size_n = {n};"));
        text.line(format!("let size_k = {k};"));
        let subgroups_n = group.n / thread.n;
        text.line(format!("let own_m = (subgroup / {subgroups_n}u) * {}u;", thread.m));
        text.line(format!("let own_n = (subgroup % {subgroups_n}u) * {}u;", thread.n));
        text.line(format!("for (var tile = group; tile < {total}; tile += groups) {{"));
        text.line(format!("let batch = quotient(tile, {tiles});"));
        text.line(format!("let within = tile - batch * {tiles};"));
        text.line(format!("let tile_m = quotient(within, {tiles_n});"));
        text.line(format!("let first_m = tile_m * idx({});", group.m));
        text.line(format!("let first_n = (within - tile_m * {tiles_n}) * idx({});", group.n));
        if self.contract.m > 0 {
            self.batch = self.frame.indices(text, "batch", 0..self.contract.m);
        }
        for i in 0..thread.m / SQUARE {
            for j in 0..thread.n / SQUARE {
                text.line(format!("var sum_{i}_{j} = {};", self.units.zero()));
            }
        }
        let slots: Vec<Slot> = (0..2).flat_map(|o| self.slots(text, o)).collect();
        // The first piece stands before the loop: whether matrices are multiplied must not hang on a condition.
        self.fetch(text, &slots, "idx(0)");
        self.put(text, &slots);
        text.line(format!("for (var k0 = idx({0}); k0 < size_k + idx({0}); k0 += idx({0})) {{", group.k));
        self.fetch(text, &slots, "k0");
        self.multiply(text);
        text.line("workgroupBarrier();");
        self.put(text, &slots);
        text.line("}");
        for i in 0..thread.m / SQUARE {
            for j in 0..thread.n / SQUARE {
                self.results(text, i, j);
            }
        }
        text.line("}");
    }

    /// What each thread reads of one operand for every piece of k.
    fn slots(&mut self, text: &mut Text, operand: usize) -> Vec<Slot> {
        let o = &self.operands[operand];
        let inner = if o.along_k { o.k } else { o.own } / 4;
        let count = o.own * o.k / 4;
        let mut slots = Vec::new();
        for t in 0..count.div_ceil(self.threads) {
            let at = text.name("s", format!("lane + idx({})", t * self.threads));
            let q = text.name("q", format!("quotient({at}, idx({inner}))"));
            let r = text.name("r", format!("{at} - {q} * idx({inner})"));
            let offset = text.name("a", format!("{q} * idx({}) + {r}", o.row));
            let four = text.name("r", format!("{r} * idx(4)"));
            let (k, own) = if o.along_k { (four, q) } else { (q, four) };
            let position = text.name("o", format!("{} + {own}", o.first));
            let real = (!count.is_multiple_of(self.threads)).then(|| format!("{at} < idx({count})"));
            let guard = real.as_ref().map_or(String::new(), |real| format!(" && {real}"));
            let inside = text.name("inside", format!("{position} < {}{guard}", o.most));
            let own = text.name("o", format!("select(idx(0), {position}, {inside})"));
            let name = text.fresh("v");
            text.line(format!("var {name} = vec4<f16>();"));
            slots.push(Slot { operand, k, inside, own, name, offset, real });
        }
        slots
    }

    /// Reads what the slots hold of the piece of k that begins here; zeros where there is nothing.
    fn fetch(&mut self, text: &mut Text, slots: &[Slot], k0: &str) {
        for slot in slots {
            self.fetch_slot(text, slot, k0);
        }
    }

    /// Puts what was read into shared memory, for all to see.
    fn put(&mut self, text: &mut Text, slots: &[Slot]) {
        for slot in slots {
            if let Some(real) = &slot.real {
                text.line(format!("if ({real}) {{"));
            }
            text.line(format!("{}[{}] = {};", self.operands[slot.operand].array, slot.offset, slot.name));
            if slot.real.is_some() {
                text.line("}");
            }
        }
        text.line("workgroupBarrier();");
    }

    fn fetch_slot(&mut self, text: &mut Text, slot: &Slot, k0: &str) {
        let o = &self.operands[slot.operand];
        let name = &slot.name;
        text.line(format!("{name} = vec4<f16>();"));
        let k = text.name("k", format!("{k0} + {}", slot.k));
        text.line(format!("if ({} && {k} < size_k) {{", slot.inside));
        // With vec4 the contiguous dimension is a multiple of four: the vec4 is inside as a whole.
        for l in 0..if self.vec4 { 1 } else { 4 } {
            let step = |i: &str, yes: bool| if yes && l > 0 { format!("({i} + idx({l}))") } else { i.to_string() };
            let (own, k) = (step(&slot.own, !o.along_k), step(&k, o.along_k));
            let (first, c) = (o.dims.start, self.contract);
            let batch = self.batch.clone();
            let index = |d: usize| match d {
                d if d < c.m => batch.get(d).cloned(),
                d if d == first => Some(own.clone()),
                d if d >= c.k => Some(k.clone()),
                _ => None,
            };
            let offset = self.frame.offset(o.input, &index);
            if self.vec4 {
                text.line(format!("{name} = h{}[({offset}) >> 2u];", o.input));
                continue;
            }
            let inside = if o.along_k { format!("{k} < size_k") } else { format!("{own} < {}", o.most) };
            text.line(format!("if ({inside}) {{"));
            text.line(format!("{name}[{l}] = e{}[{offset}];", o.input));
            text.line("}");
        }
        text.line("}");
    }

    /// Multiplies the pieces in shared memory.
    fn multiply(&mut self, text: &mut Text) {
        let Blocks { thread, group } = self.blocks;
        for k in (0..group.k).step_by(SQUARE) {
            let mut names: [Vec<String>; 2] = [Vec::new(), Vec::new()];
            for (o, (own, size, role)) in [("own_m", thread.m, 'A'), ("own_n", thread.n, 'B')].into_iter().enumerate() {
                for i in (0..size).step_by(SQUARE) {
                    let square = self.operands[o].square(self.units, role, &format!("{own} + {i}u"), k);
                    names[o].push(text.name("m", square));
                }
            }
            for (i, a) in names[0].iter().enumerate() {
                for (j, b) in names[1].iter().enumerate() {
                    let sum = format!("sum_{i}_{j}");
                    text.line(format!("{sum} = {};", self.units.multiply_add(a, b, &sum)));
                }
            }
        }
    }

    /// Computes the epilogue on one square of every subgroup and writes the results.
    fn results(&mut self, text: &mut Text, i: usize, j: usize) {
        let Blocks { thread, group } = self.blocks;
        let c = self.contract;
        let area = SQUARE * SQUARE;
        text.line(self.units.store(&format!("sum_{i}_{j}"), &format!("staged[subgroup * {area}u]"), SQUARE));
        text.line("workgroupBarrier();");
        let wide = self.vec4 && writes_by_four(self.frame.op, c);
        let step = if wide { 4 } else { 1 };
        let (count, subgroups_n) = (self.blocks.threads() * area / step, group.n / thread.n);
        let e = text.fresh("e");
        text.line(format!("for (var {e} = lane; {e} < idx({count}); {e} += idx({})) {{", self.threads));
        let at = text.name("a", format!("u32({e}) * {step}u"));
        // The square of which subgroup, and where in it.
        let s = text.name("s", format!("{at} / {area}u"));
        let r = text.name("r", format!("({at} % {area}u) / {SQUARE}u"));
        let m = format!("first_m + idx(({s} / {subgroups_n}u) * {}u + {}u + {r})", thread.m, i * SQUARE);
        let n = format!("first_n + idx(({s} % {subgroups_n}u) * {}u + {}u + {at} % {SQUARE}u)", thread.n, j * SQUARE);
        let (m, n) = (text.name("m", m), text.name("n", n));
        text.line(format!("if ({m} < size_m && {n} < size_n) {{"));
        let rows = if c.m == c.n { Vec::new() } else { self.frame.indices(text, &m, c.m..c.n) };
        results(self.frame, text, c, [&self.batch, &rows], step, |frame, text, l| {
            let column = if l == 0 { n.clone() } else { text.name("n", format!("{n} + idx({l})")) };
            let columns = if c.n == c.k { Vec::new() } else { frame.indices(text, &column, c.n..c.k) };
            (columns, text.name("x", format!("staged[{at} + {l}u]")))
        });
        text.line("}");
        text.line("}");
        text.line("workgroupBarrier();");
    }
}
