//! Attention: a group takes some queries and walks the keys piece by piece.
//!
//! Scores of a piece are a product of tiles, as in [`crate::contract`]: queries and keys pass through shared memory a few places of their vectors at a
//! time, and each thread holds the scores of four queries and as many keys. As powers they lie in shared memory while they are multiplied with the
//! values, of which each thread holds the sums of four queries. The largest score so far, the sum of the powers and the sums are corrected
//! whenever a larger score is met, so that no scores are ever in the device's memory. Where there are few queries, groups share the keys, and a
//! second launch joins what they leave in scratch memory.

pub(crate) mod flash;

use millstream_core::how::{Block, Split};
use millstream_core::{Binary, Body, DType, Error, Op, Result, Scalar};

use crate::frame::{Frame, Word};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::{Register, from_words, literal, register_dtype, to_words};
use crate::value::binary;

/// Threads of a group that joins parts.
pub(crate) const JOINING: u32 = 256;

/// Into how many parts the keys of so many tasks are cut, and how many keys each has: a multiple of a piece.
pub(crate) fn parts(tasks: usize, keys: usize, piece: usize, units: usize) -> (usize, usize) {
    // Two groups a unit, each with at least two pieces.
    let wanted = (2 * units).div_ceil(tasks.max(1)).clamp(1, keys.div_ceil(2 * piece).max(1));
    let each = keys.div_ceil(wanted).next_multiple_of(piece).max(piece);
    (keys.div_ceil(each).max(1), each)
}

/// What one group computes at a time, and the arguments that say it.
pub(crate) struct Parts {
    pub(crate) m: String,
    pub(crate) n: String,
    pub(crate) d: String,
    pub(crate) e: String,
    /// The first key, and the one after the last.
    pub(crate) begin: String,
    pub(crate) until: String,
    pub(crate) outer: Vec<String>,
    parts: String,
    words: usize,
}

impl Parts {
    /// Where in scratch memory the sums of a query's part begin; the largest score and the sum of the powers follow.
    fn cell(&self, frame: &mut Frame<'_>, text: &mut Text, row: &str) -> String {
        let base = frame.arg(Word::Work);
        let Parts { m, e, parts, words, .. } = self;
        text.name("p", format!("{base} + ((batch * {m} + {row}) * {parts} + part) * ({e} + idx(2)) * idx({words})"))
    }
}

/// Begins the loop over what a group computes: queries from `first` on of the batch `batch`, and perhaps only a part of the keys, `part`.
pub(crate) fn takes_part(frame: &mut Frame<'_>, text: &mut Text, queries: usize, shares: bool, of: DType) -> Parts {
    let [total, blocks, m, n, d, e] = [0, 1, 2, 3, 4, 5].map(|i| frame.arg(Word::Number(i)));
    text.line(format!("for (var task = group; task < {total}; task += groups) {{"));
    let (begin, until, mut parts) = ("begin".to_string(), "until".to_string(), String::new());
    if shares {
        let [count, each] = [6, 7].map(|i| frame.arg(Word::Number(i)));
        text.line(format!("let within = quotient(task, {count});"));
        text.line(format!("let part = task - within * {count};"));
        text.line(format!("let begin = part * {each};"));
        text.line(format!("let until = min({n}, begin + {each});"));
        parts = count;
    } else {
        text.line("let within = task;");
        text.line("let begin = idx(0);");
        text.line(format!("let until = {n};"));
    }
    text.line(format!("let batch = quotient(within, {blocks});"));
    text.line(format!("let first = (within - batch * {blocks}) * idx({queries});"));
    let at = frame.op.dims.len() - 4;
    let outer = if at == 0 { Vec::new() } else { frame.indices(text, "batch", 0..at) };
    Parts { m, n, d, e, begin, until, outer, parts, words: Register::of(of).words() }
}

/// Adds the entry that joins the parts of the keys: sums and powers of each are corrected for the largest score of all. `exp` is the power that
/// the scores are of.
pub(crate) fn join(frame: &mut Frame<'_>, of: DType, exp: &str) {
    let Body::Attention(body) = frame.op.body else { return };
    let register = Register::of(of);
    let (zero, lowest, words) = (register.zero(), literal(Scalar::lowest(of)), register.words());
    let [m, n, e, parts, count] = [2, 3, 5, 6, 8].map(|i| frame.arg(Word::Number(i)));
    let base = frame.arg(Word::Work);
    let mut text = Text::inside(1);
    let value = |at: &str| from_words(of, |k| format!("work[{at} + idx({k})]"));
    text.line(format!("for (var i = group * idx({JOINING}) + lane; i < {count}; i += groups * idx({JOINING})) {{"));
    text.line(format!("let own = quotient(i, {e});"));
    text.line(format!("let column = i - own * {e};"));
    let cell = format!("{base} + (own * {parts} + part) * ({e} + idx(2)) * idx({words})");
    text.line(format!("var most = {lowest};"));
    text.line(format!("for (var part = idx(0); part < {parts}; part += idx(1)) {{"));
    let at = text.name("p", format!("{cell} + {e} * idx({words})"));
    let own = text.name("x", value(&at));
    text.line(format!("most = {};", binary(Binary::Max, of, "most", &own)));
    text.line("}");
    text.line(format!("var sum = {zero};"));
    text.line(format!("var powers = {zero};"));
    text.line(format!("for (var part = idx(0); part < {parts}; part += idx(1)) {{"));
    let first = text.name("p", &cell);
    let at = text.name("p", format!("{first} + {e} * idx({words})"));
    let own = text.name("x", value(&at));
    let less = text.name("t", format!("select({exp}({own} - most), {zero}, {own} == {lowest})"));
    let at = text.name("p", format!("{first} + ({e} + idx(1)) * idx({words})"));
    text.line(format!("powers = fma({}, {less}, powers);", value(&at)));
    let at = text.name("p", format!("{first} + column * idx({words})"));
    text.line(format!("sum = fma({}, {less}, sum);", value(&at)));
    text.line("}");
    let share = binary(Binary::Div, of, "sum", "powers");
    let result =
        text.name("t", format!("select({share}, {zero}, powers == {zero}{})", blind(body.mask || body.causal, &n)));
    text.line(format!("let batch = quotient(own, {m});"));
    let row = text.name("r", format!("own - batch * {m}"));
    let at = frame.op.dims.len() - 4;
    let outer = if at == 0 { Vec::new() } else { frame.indices(&mut text, "batch", 0..at) };
    let own = [row, "idx(0)".into(), "idx(0)".into(), "column".into()];
    let output = frame.output(0);
    let offset = frame.offset(output, &|dim| Some(if dim < at { outer[dim].clone() } else { own[dim - at].clone() }));
    let offset = text.name("p", offset);
    frame.store(&mut text, output, &offset, &result);
    text.line("}");
    frame.entry("attention_parts", JOINING, text);
}

/// The further condition under which a sum of powers of 0 means that no key is seen. Where every key is seen, it comes from scores of minus
/// infinity: the quotient is NaN, as it should.
fn blind(hides: bool, keys: &str) -> String {
    if hides { String::new() } else { format!(" && {keys} == idx(0)") }
}

/// Threads that share a query, and queries of a thread.
const LANES: usize = 16;
const EACH: usize = 4;
/// How much of the vectors of queries and keys is in shared memory at once.
const STEP: usize = 16;
/// Elements of values that are in shared memory at once.
const VALUES: usize = 2048;
/// Elements added to each row in shared memory, so that threads that write a column use different banks.
const PAD: usize = 4;

/// The block for an operation: queries of a group, keys of a piece, and the length to which vectors are filled up; `None` where they are too long, or
/// the device has too little shared memory.
pub(crate) fn block(op: &Op, target: &Target) -> Option<Block> {
    let longest = op.dims[op.dims.len() - 2..].iter().copied().max()?;
    let k = [64, 128, 256].into_iter().find(|&l| longest <= l)?;
    let size = op.outputs.first()?.dtype.compute().size();
    let fits = |b: &Block| {
        let elements = tile(*b) + b.n * (b.m + PAD);
        threads(*b) <= target.max_group as usize && elements * size <= target.shared_memory
    };
    [(64, 64), (32, 32)].into_iter().map(|(m, n)| Block { m, n, k }).find(fits)
}

fn threads(block: Block) -> usize {
    block.m / EACH * LANES
}

/// Elements of shared memory for pieces of queries and keys, or of values.
fn tile(block: Block) -> usize {
    (STEP * (block.m + block.n + 2 * PAD)).max(VALUES.min(block.n * block.k))
}

struct Writer<'a, 'f> {
    frame: &'f mut Frame<'a>,
    /// The dtype that is computed in.
    of: DType,
    /// Whether shared memory is moved as vec4.
    vector: bool,
    block: Block,
    at: usize,
    outer: Vec<String>,
}

/// A kernel for attention.
pub(crate) fn generate(op: &Op, target: &Target, block: Block, split: Split, wide: bool) -> Result<Program> {
    let Body::Attention(_) = op.body else {
        return Err(Error::internal("a kernel for attention was asked to do something else"));
    };
    let of = register_dtype(Register::of(op.outputs[0].dtype));
    let mut frame = Frame::new(op, target, wide);
    let shares = split == Split::TwoPass;
    frame.has_workspace = shares;
    let vector = of == DType::F32;
    let (element, each) = if vector { ("vec4<f32>", 4) } else { (Register::of(of).name(), 1) };
    frame.share("tile", element, tile(block) / each);
    frame.share("scores", element, block.n * (block.m + PAD) / each);
    let mut text = Text::inside(1);
    let writer = Writer { frame: &mut frame, of, vector, block, at: op.dims.len() - 4, outer: Vec::new() };
    writer.entry(&mut text, shares);
    frame.entry("attention", threads(block) as u32, text);
    if shares {
        join(&mut frame, of, &format!("exp_{}", Register::of(of).name()));
    }
    Program::new(frame, Shape::Attention { queries: block.m, keys: block.n, split, by: 1 })
}

impl Writer<'_, '_> {
    /// The indices of an operand's element: those of the batch, then query, key, and the places in both vectors.
    fn index(&self, own: [&str; 4]) -> impl Fn(usize) -> Option<String> + use<> {
        let (outer, at, own) = (self.outer.clone(), self.at, own.map(String::from));
        move |dim: usize| Some(if dim < at { outer[dim].clone() } else { own[dim - at].clone() })
    }

    /// Neighbours in shared memory, from a place that is a multiple of four where there are four.
    fn several(&self, text: &mut Text, array: &str, at: &str, count: usize) -> Vec<String> {
        if self.vector && count == 4 {
            let v = text.name("v", format!("{array}[({at}) >> 2u]"));
            return ["x", "y", "z", "w"].map(|p| format!("{v}.{p}")).to_vec();
        }
        let at = text.name("a", at);
        (0..count).map(|l| text.name("v", self.cell(array, &format!("({at} + idx({l}))")))).collect()
    }

    /// An element in shared memory.
    fn cell(&self, array: &str, at: &str) -> String {
        if self.vector { self.frame.language().component(array, at) } else { format!("{array}[{at}]") }
    }

    fn entry(mut self, text: &mut Text, shares: bool) {
        let Body::Attention(body) = self.frame.op.body else { return };
        let Block { m: queries, n: keys, k: length } = self.block;
        let (of, row, each_keys) = (self.of, queries + PAD, keys / LANES);
        let register = Register::of(of).name();
        let (zero, lowest) = (Register::of(of).zero(), literal(Scalar::lowest(of)));
        let scale = self.frame.param(0, of);
        text.line(format!("let own = quotient(lane, idx({LANES})) * idx({EACH});"));
        text.line(format!("let column = lane % idx({LANES});"));
        text.line(format!("let scale = {scale};"));
        let task = takes_part(self.frame, text, queries, shares, of);
        self.outer = task.outer.clone();
        let Parts { m, n, d, e, begin, until, .. } = &task;
        for i in 0..EACH {
            for c in 0..length / LANES {
                text.line(format!("var sum_{i}_{c} = {zero};"));
            }
            text.line(format!("var most_{i} = {lowest};"));
            text.line(format!("var powers_{i} = {zero};"));
        }
        // The first key that no query of the group sees; the last query has the index of the last key.
        let limit = match body.causal {
            true => text.name("i", format!("min({until}, first + idx({queries}) + {n} - {m})")),
            false => until.clone(),
        };
        text.line(format!("for (var start = {begin}; start < {limit}; start += idx({keys})) {{"));
        for i in 0..EACH {
            for j in 0..each_keys {
                text.line(format!("var score_{i}_{j} = {zero};"));
            }
        }
        text.line(format!("for (var c0 = idx(0); c0 < {d}; c0 += idx({STEP})) {{"));
        self.fill_turned(text, 0, ["first", m, d], [0, queries]);
        self.fill_turned(text, 1, ["start", until, d], [STEP * row, keys]);
        text.line("workgroupBarrier();");
        text.line(format!("for (var c = idx(0); c < idx({STEP}); c += idx(1)) {{"));
        let q = self.several(text, "tile", &format!("c * idx({row}) + own"), EACH);
        let at = format!("idx({}) + c * idx({}) + column * idx({each_keys})", STEP * row, keys + PAD);
        let k = self.several(text, "tile", &at, each_keys);
        for (i, q) in q.iter().enumerate() {
            for (j, k) in k.iter().enumerate() {
                text.line(format!("score_{i}_{j} = fma({q}, {k}, score_{i}_{j});"));
            }
        }
        text.line("}");
        text.line("workgroupBarrier();");
        text.line("}");
        self.scores(text, &task);
        text.line("workgroupBarrier();");
        // Every thread of a query finds the same largest score.
        for i in 0..EACH {
            text.line(format!("var more_{i} = most_{i};"));
        }
        text.line(format!("for (var j = idx(0); j < idx({keys}); j += idx(1)) {{"));
        for (i, score) in self.several(text, "scores", &format!("j * idx({row}) + own"), EACH).iter().enumerate() {
            text.line(format!("more_{i} = {};", binary(Binary::Max, of, &format!("more_{i}"), score)));
        }
        text.line("}");
        text.line("workgroupBarrier();");
        for i in 0..EACH {
            text.line(format!("let none_{i} = more_{i} == {lowest};"));
            for j in 0..each_keys {
                let power = text.name("t", format!("exp_{register}(score_{i}_{j} - more_{i})"));
                let cell = self.score_cell(i, j);
                text.line(format!("{cell} = select({power}, {zero}, none_{i});"));
            }
            text.line(format!(
                "let less_{i} = select(exp_{register}(most_{i} - more_{i}), {zero}, most_{i} == {lowest});"
            ));
            text.line(format!("most_{i} = more_{i};"));
            text.line(format!("powers_{i} = powers_{i} * less_{i};"));
            for c in 0..length / LANES {
                text.line(format!("sum_{i}_{c} = sum_{i}_{c} * less_{i};"));
            }
        }
        let at_once = (VALUES / length).min(keys);
        text.line(format!("for (var v0 = idx(0); v0 < idx({keys}); v0 += idx({at_once})) {{"));
        self.fill_values(text, until, e, at_once);
        text.line("workgroupBarrier();");
        text.line(format!("for (var j = idx(0); j < idx({at_once}); j += idx(1)) {{"));
        let powers = self.several(text, "scores", &format!("(v0 + j) * idx({row}) + own"), EACH);
        for (i, power) in powers.iter().enumerate() {
            text.line(format!("powers_{i} = powers_{i} + {power};"));
        }
        for c in (0..length / LANES).step_by(4) {
            let at = format!("j * idx({length}) + idx({}) + column * idx(4)", c * LANES);
            let values = self.several(text, "tile", &at, 4);
            for (i, power) in powers.iter().enumerate() {
                for (l, value) in values.iter().enumerate() {
                    let sum = format!("sum_{i}_{}", c + l);
                    text.line(format!("{sum} = fma({power}, {value}, {sum});"));
                }
            }
        }
        text.line("}");
        text.line("workgroupBarrier();");
        text.line("}");
        text.line("}");
        self.results(text, &task, shares);
        text.line("}");
    }

    /// Where a score of the thread lies in shared memory: those of one key are neighbours.
    fn score_cell(&self, i: usize, j: usize) -> String {
        let Block { m: queries, n: keys, .. } = self.block;
        let key = format!("(column * idx({}) + idx({j}))", keys / LANES);
        self.cell("scores", &format!("({key} * idx({}) + own + idx({i}))", queries + PAD))
    }

    /// Scales the scores of a piece, hides those that are not seen, and leaves them in shared memory.
    fn scores(&mut self, text: &mut Text, task: &Parts) {
        let Body::Attention(body) = self.frame.op.body else { return };
        let (of, each_keys) = (self.of, self.block.n / LANES);
        let Parts { m, n, until, .. } = task;
        let lowest = literal(Scalar::lowest(of));
        for i in 0..EACH {
            let query = text.name("i", format!("first + own + idx({i})"));
            for j in 0..each_keys {
                let score = format!("score_{i}_{j}");
                let key = text.name("j", format!("start + column * idx({each_keys}) + idx({j})"));
                text.line(format!("{score} = {};", binary(Binary::Mul, of, &score, "scale")));
                let mut seen = vec![format!("{key} < {until}")];
                if body.causal {
                    seen.push(format!("{key} + {m} <= {query} + {n}"));
                }
                if body.mask {
                    let query = text.name("i", format!("min({query}, {m} - idx(1))"));
                    let key = text.name("j", format!("min({key}, {n} - idx(1))"));
                    let mask = self.frame.read(text, 3, &self.index([&query, &key, "idx(0)", "idx(0)"]));
                    if self.frame.op.inputs[3].dtype == DType::Bool {
                        seen.push(mask);
                    } else {
                        text.line(format!("{score} = {};", binary(Binary::Add, of, &score, &mask)));
                    }
                }
                text.line(format!("if (!({})) {{", seen.join(" && ")));
                text.line(format!("{score} = {lowest};"));
                text.line("}");
                text.line(format!("{} = {score};", self.score_cell(i, j)));
            }
        }
    }

    /// Brings a piece of queries, or of keys, to shared memory, transposed, so that elements of one index are contiguous; zeros where there are none.
    fn fill_turned(
        &mut self,
        text: &mut Text,
        operand: usize,
        [first, most, width]: [&str; 3],
        [base, count]: [usize; 2],
    ) {
        let zero = Register::of(self.of).zero();
        text.line(format!("for (var f = lane; f < idx({}); f += idx({})) {{", STEP * count, threads(self.block)));
        let row = text.name("r", format!("quotient(f, idx({STEP}))"));
        let c = text.name("c", format!("f - {row} * idx({STEP})"));
        let (own, place) = (text.name("o", format!("{first} + {row}")), text.name("c", format!("c0 + {c}")));
        let value = text.fresh("t");
        text.line(format!("var {value} = {zero};"));
        text.line(format!("if ({own} < {most} && {place} < {width}) {{"));
        let index = match operand {
            0 => self.index([&own, "idx(0)", &place, "idx(0)"]),
            _ => self.index(["idx(0)", &own, &place, "idx(0)"]),
        };
        let read = self.frame.read(text, operand, &index);
        text.line(format!("{value} = {read};"));
        text.line("}");
        let at = text.name("a", format!("idx({base}) + {c} * idx({}) + {row}", count + PAD));
        text.line(format!("{} = {value};", self.cell("tile", &at)));
        text.line("}");
    }

    /// Brings values of some keys to shared memory; zeros where there are none.
    fn fill_values(&mut self, text: &mut Text, until: &str, width: &str, keys: usize) {
        let (zero, length) = (Register::of(self.of).zero(), self.block.k);
        text.line(format!("for (var f = lane; f < idx({}); f += idx({})) {{", keys * length, threads(self.block)));
        let row = text.name("r", format!("quotient(f, idx({length}))"));
        let c = text.name("c", format!("f - {row} * idx({length})"));
        let key = text.name("k", format!("start + v0 + {row}"));
        let value = text.fresh("t");
        text.line(format!("var {value} = {zero};"));
        text.line(format!("if ({key} < {until} && {c} < {width}) {{"));
        let read = self.frame.read(text, 2, &self.index(["idx(0)", &key, "idx(0)", &c]));
        text.line(format!("{value} = {read};"));
        text.line("}");
        text.line(format!("{} = {value};", self.cell("tile", "f")));
        text.line("}");
    }

    /// Divides and writes the results, or leaves this part's sums in scratch memory.
    fn results(&mut self, text: &mut Text, task: &Parts, shares: bool) {
        let Body::Attention(body) = self.frame.op.body else { return };
        let Parts { m, n, e, words, .. } = task;
        let (of, zero) = (self.of, Register::of(self.of).zero());
        let leave = |text: &mut Text, at: &str, value: &str| {
            for (k, word) in to_words(Register::of(of), value).into_iter().enumerate() {
                text.line(format!("work[{at} + idx({k})] = {word};"));
            }
        };
        let output = self.frame.output(0);
        for i in 0..EACH {
            let query = text.name("i", format!("first + own + idx({i})"));
            text.line(format!("if ({query} < {m}) {{"));
            let cell = if shares { task.cell(self.frame, text, &query) } else { String::new() };
            if shares {
                text.line("if (column == idx(0)) {");
                for (k, value) in ["most", "powers"].into_iter().enumerate() {
                    let at = text.name("p", format!("{cell} + ({e} + idx({k})) * idx({words})"));
                    leave(text, &at, &format!("{value}_{i}"));
                }
                text.line("}");
            }
            for c in 0..self.block.k / LANES {
                let place = format!("column * idx(4) + idx({})", c / 4 * 4 * LANES + c % 4);
                let place = text.name("c", place);
                let sum = format!("sum_{i}_{c}");
                text.line(format!("if ({place} < {e}) {{"));
                if shares {
                    let at = text.name("p", format!("{cell} + {place} * idx({words})"));
                    leave(text, &at, &sum);
                } else {
                    let share = binary(Binary::Div, of, &sum, &format!("powers_{i}"));
                    let none = format!("powers_{i} == {zero}{}", blind(body.mask || body.causal, n));
                    let value = text.name("t", format!("select({share}, {zero}, {none})"));
                    let offset = self.frame.offset(output, &self.index([&query, "idx(0)", "idx(0)", &place]));
                    let offset = text.name("p", offset);
                    self.frame.store(text, output, &offset, &value);
                }
                text.line("}");
            }
            text.line("}");
        }
    }
}
