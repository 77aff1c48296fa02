//! Contractions: tiles in shared memory, tiles in registers, and an epilogue on the registers.
//!
//! A group of threads computes a block of the result. It walks along k: the next pieces of both operands are read from memory
//! (through their accesses and expressions) while the present ones, in shared memory, are multiplied. Each thread holds a
//! tile of sums in registers. Where sums are f32 and the tile's sides are multiples of four, shared memory is read by fours.

use millstream_core::how::Block;
use millstream_core::{Body, Contract, DType, Error, Expr, Id, Node, Op, Result};

use crate::frame::{Class, Frame, Word};
use crate::map::leaf;
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::Register;
use crate::value::{Values, binary, cast};

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

    /// Bytes of shared memory for sums of this dtype.
    pub(crate) fn shared(self, acc: DType) -> usize {
        (self.group.m + self.group.n + 2 * PAD) * self.group.k * acc.size().max(4)
    }
}

/// Elements added to each row of a block in shared memory, so that threads that write a column use different banks.
const PAD: usize = 4;

/// One of the two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

struct Writer<'a, 'f> {
    frame: &'f mut Frame<'a>,
    contract: &'a Contract,
    blocks: Blocks,
    /// Whether sums, and shared memory, are moved by fours.
    vector: bool,
    /// For each operand: whether it is read from memory by fours.
    fours: [bool; 2],
    batch: Vec<String>,
}

/// Whether elements of this dtype are moved by fours in contractions whose sums are f32.
fn is_moved_by_four(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Whether outputs of a contraction are written by fours: they lie side by side along n, its only dimension.
pub(crate) fn writes_by_four(op: &Op, contract: &Contract) -> bool {
    contract.k - contract.n == 1
        && op
            .outputs
            .iter()
            .all(|a| op.dims[contract.n] != 1 && a.strides[contract.n] == 1 && is_moved_by_four(a.dtype))
}

/// Whether an operand is a plain input of floats, side by side along k or along its own dimension: it can then be read by
/// fours.
pub(crate) fn reads_by_four(op: &Op, contract: &Contract) -> [Option<usize>; 2] {
    let rank = op.dims.len();
    [(&contract.lhs, contract.m..contract.n), (&contract.rhs, contract.n..contract.k)].map(|(expr, own)| {
        let n = expr.as_input()? as usize;
        let access = &op.inputs[n];
        let mut ones = (0..rank).filter(|&d| access.strides[d] == 1 && op.dims[d] != 1);
        let (one, none) = (ones.next()?, ones.next());
        // Elements of one buffer must not be read in two ways by one kernel.
        let elsewhere = contract.epilogue.nodes().iter().any(|(node, _)| *node == Node::Input(n as u16));
        let single = own.len() == 1 && rank - contract.k == 1 && none.is_none() && !elsewhere;
        let floats = is_moved_by_four(access.dtype) && contract.acc == DType::F32;
        (single && floats && access.is_plain() && (one == rank - 1 || own.contains(&one))).then_some(one)
    })
}

/// A kernel for a contraction.
pub(crate) fn generate(op: &Op, target: &Target, blocks: Blocks, wide: bool) -> Result<Program> {
    let Body::Contract(contract) = &op.body else {
        return Err(Error::internal("a kernel for contractions was asked to do something else"));
    };
    let mut frame = Frame::new(op, target, wide);
    let acc = Register::of(contract.acc);
    let vector = acc == Register::F32 && blocks.thread.m.is_multiple_of(4) && blocks.thread.n.is_multiple_of(4);
    let (element, each) = if vector { ("vec4<f32>", 4) } else { (acc.shared(), 1) };
    for (name, size) in [("left", blocks.group.m), ("right", blocks.group.n)] {
        frame.share(name, element, blocks.group.k * (size + PAD) / each);
    }
    let possible = reads_by_four(op, contract).map(|d| d.is_some());
    let by_four = vector && possible == [true, true];
    for fours in if by_four { &[true, false][..] } else { &[false][..] } {
        let mut text = Text::inside(1);
        let writer = Writer {
            frame: &mut frame,
            contract,
            blocks,
            vector,
            fours: if *fours { possible } else { [false, false] },
            batch: Vec::new(),
        };
        writer.entry(&mut text, *fours);
        frame.entry(if *fours { "contract_by_four" } else { "contract_by_one" }, blocks.threads() as u32, text);
    }
    Program::new(frame, Shape::Contract { blocks, fours: by_four })
}

impl<'a> Writer<'a, '_> {
    fn entry(mut self, text: &mut Text, fours: bool) {
        let Blocks { thread, group } = self.blocks;
        let across = group.n / thread.n;
        let number: Vec<String> = (0..6).map(|n| self.frame.arg(Word::Number(n))).collect();
        let [tiles_n, tiles, total, m, n, k] = &number[..] else { return };
        text.line(format!("let size_m = {m};"));
        text.line(format!("let size_n = {n};"));
        text.line(format!("let size_k = {k};"));
        text.line(format!("let y = quotient(lane, idx({across}));"));
        text.line(format!("let x = lane - y * idx({across});"));
        text.line(format!("for (var tile = group; tile < {total}; tile += groups) {{"));
        text.line(format!("let batch = quotient(tile, {tiles});"));
        text.line(format!("let within = tile - batch * {tiles};"));
        text.line(format!("let tile_m = quotient(within, {tiles_n});"));
        text.line(format!("let first_m = tile_m * idx({});", group.m));
        text.line(format!("let first_n = (within - tile_m * {tiles_n}) * idx({});", group.n));
        if self.contract.m > 0 {
            self.batch = self.frame.indices(text, "batch", 0..self.contract.m);
        }
        let acc = Register::of(self.contract.acc);
        for i in 0..thread.m {
            for j in 0..thread.n {
                text.line(format!("var sum_{i}_{j} = {};", acc.zero()));
            }
        }
        let left = self.slots(text, Side::Left);
        let right = self.slots(text, Side::Right);
        text.line(format!("for (var k0 = idx(0); k0 < size_k + idx({0}); k0 += idx({0})) {{", group.k));
        for slot in left.iter().chain(&right) {
            self.fetch(text, slot);
        }
        text.line("if (k0 > idx(0)) {");
        self.multiply(text);
        text.line("}");
        text.line("workgroupBarrier();");
        for slot in left.iter().chain(&right) {
            self.put(text, slot);
        }
        text.line("workgroupBarrier();");
        text.line("}");
        self.results(text, fours);
        text.line("}");
    }

    /// What each thread reads of one operand for every piece of k.
    fn slots(&mut self, text: &mut Text, side: Side) -> Vec<Slot> {
        let Blocks { group, .. } = self.blocks;
        let threads = self.blocks.threads();
        let (size, first, most, own) = match side {
            Side::Left => (group.m, "first_m", "size_m", self.contract.m..self.contract.n),
            Side::Right => (group.n, "first_n", "size_n", self.contract.n..self.contract.k),
        };
        let along_k = self.lies_along_k(side);
        let width = if self.fours[side as usize] { 4 } else { 1 };
        let count = size * group.k / width;
        let mut slots = Vec::new();
        for t in 0..count.div_ceil(threads) {
            let at = text.name("s", format!("lane + idx({})", t * threads));
            // Neighbouring threads read what lies side by side.
            let inner_size = if along_k { group.k / width } else { size / width };
            let q = text.name("q", format!("quotient({at}, idx({inner_size}))"));
            let r = text.name("r", format!("({at} - {q} * idx({inner_size})) * idx({width})"));
            let (k, o) = if along_k { (r, q) } else { (q, r) };
            let position = text.name("o", format!("{first} + {o}"));
            let guard = if count % threads == 0 { String::new() } else { format!(" && {at} < idx({count})") };
            let inside = text.name("inside", format!("{position} < {most}{guard}"));
            let position = text.name("o", format!("select(idx(0), {position}, {inside})"));
            let index = if own.is_empty() { Vec::new() } else { self.frame.indices(text, &position, own.clone()) };
            let real = (count % threads != 0).then(|| format!("{at} < idx({count})"));
            let names = (0..width).map(|_| text.fresh("v")).collect();
            slots.push(Slot { side, k, o, inside, index, names, along_k, real });
        }
        let zero = Register::of(self.contract.acc).zero();
        for slot in &slots {
            for name in &slot.names {
                text.line(format!("var {name} = {zero};"));
            }
        }
        slots
    }

    /// Whether an operand lies side by side along k, judged by its first input.
    fn lies_along_k(&self, side: Side) -> bool {
        let expr = self.operand(side);
        let last = self.frame.op.dims.len().wrapping_sub(1);
        let first =
            expr.nodes().iter().find_map(|(n, _)| if let Node::Input(i) = n { Some(*i as usize) } else { None });
        self.contract.k <= last
            && self.contract.k < self.frame.op.dims.len()
            && first.is_some_and(|i| self.frame.class(i, last) == Class::One)
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
            slot.index.get(d - own.start).cloned()
        } else {
            d.checked_sub(c.k).and_then(|i| k.get(i).cloned())
        }
    }

    /// Reads a slot's elements of the piece at `k0`; zeros where there are none.
    fn fetch(&mut self, text: &mut Text, slot: &Slot) {
        let zero = Register::of(self.contract.acc).zero();
        for name in &slot.names {
            text.line(format!("{name} = {zero};"));
        }
        let k = text.name("k", format!("k0 + {}", slot.k));
        text.line(format!("if ({} && {k} < size_k) {{", slot.inside));
        let rank = self.frame.op.dims.len();
        let first = self.contract.k;
        let indices = if first == rank { Vec::new() } else { self.frame.indices(text, &k, first..rank) };
        let expr = self.operand(slot.side);
        if let ([_, _, ..], Some(input)) = (&slot.names[..], expr.as_input()) {
            let index: Vec<Option<String>> = (0..rank).map(|d| self.index(slot, &indices, d)).collect();
            let place = self.frame.place(input as usize, &|d| index[d].clone());
            let place = text.name("p", place);
            self.frame.fours = true;
            let values = self.frame.load_four(text, input as usize, &place);
            self.frame.fours = false;
            for (name, value) in slot.names.iter().zip(values) {
                text.line(format!("{name} = {value};"));
            }
        } else {
            let index: Vec<Option<String>> = (0..rank).map(|d| self.index(slot, &indices, d)).collect();
            let mut values = Values::new(expr);
            let frame = &mut *self.frame;
            let at = |d: usize| index[d].clone();
            values.write(text, expr, expr.outputs(), |text, _, node, dtype| leaf(frame, text, node, dtype, &at));
            if let Some(&id) = expr.outputs().first() {
                let value = cast(expr.dtype(id), self.contract.acc, values.get(id));
                text.line(format!("{} = {value};", slot.names[0]));
            }
        }
        text.line("}");
    }

    /// Puts a slot's elements into shared memory.
    fn put(&mut self, text: &mut Text, slot: &Slot) {
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
                let place = if l == 0 { at.clone() } else { format!("({at} + idx({}))", l * row) };
                if self.vector {
                    text.line(format!("{array}[{place} >> 2u][u32({place}) & 3u] = {name};"));
                } else {
                    let value = Register::of(self.contract.acc).put(name);
                    text.line(format!("{array}[{place}] = {value};"));
                }
            }
        }
        if slot.real.is_some() {
            text.line("}");
        }
    }

    /// Where in the group's block the thread's row `i` (or column) lies.
    fn offset(&self, side: Side, i: usize) -> String {
        let Blocks { thread, group } = self.blocks;
        let (own, size, each) = match side {
            Side::Left => ("y", group.m, thread.m),
            Side::Right => ("x", group.n, thread.n),
        };
        if self.vector {
            // Fours of one thread lie apart, so that neighbouring threads read neighbouring fours.
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
                let place = format!("kk * idx({row}) + {}", self.offset(side, i));
                if self.vector {
                    let v = text.name("v", format!("{array}[({place}) >> 2u]"));
                    names[side as usize].extend(["x", "y", "z", "w"].map(|p| format!("{v}.{p}")));
                } else {
                    let value = Register::of(acc).get(format!("{array}[{place}]"));
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

    /// Computes the epilogue on the sums and writes the results.
    fn results(&mut self, text: &mut Text, fours: bool) {
        let Blocks { thread, .. } = self.blocks;
        let c = self.contract;
        // Columns in fours are written together where every output lies side by side along n.
        let wide = self.vector && fours && writes_by_four(self.frame.op, c);
        let mut columns = Vec::new();
        for j in 0..thread.n {
            let place = self.offset(Side::Right, j);
            let n = text.name("n", format!("first_n + {place}"));
            let index = if c.n == c.k { Vec::new() } else { self.frame.indices(text, &n, c.n..c.k) };
            columns.push((n, index));
        }
        for i in 0..thread.m {
            let place = self.offset(Side::Left, i);
            let m = text.name("m", format!("first_m + {place}"));
            text.line(format!("if ({m} < size_m) {{"));
            let rows = if c.m == c.n { Vec::new() } else { self.frame.indices(text, &m, c.m..c.n) };
            let step = if wide { 4 } else { 1 };
            for j in (0..thread.n).step_by(step) {
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
/// Given are the indices of the batch and of the row; `element` gives those of a column, and the sum there.
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
        let place = frame.place(operand, &|d| first[d].clone());
        let place = text.name("p", place);
        match <&[String; 4]>::try_from(&names[..]) {
            Ok(names) => frame.store_four(text, operand, &place, names),
            Err(_) => frame.store(text, operand, &place, &names[0]),
        }
    }
}

/// What one thread reads of an operand for every piece of k.
struct Slot {
    side: Side,
    /// Where along k in the piece, and where along the operand's own dimension in the block.
    k: String,
    o: String,
    /// Whether it lies inside the operand's own dimension.
    inside: String,
    index: Vec<String>,
    names: Vec<String>,
    along_k: bool,
    /// Whether the slot exists at all for this thread, where the block is no multiple of the threads.
    real: Option<String>,
}
