//! Attention of f16 and bf16 on matrix units whose registers are known: CUDA's `mma.sync`.
//!
//! A group takes 64 queries, each warp 16 of them, and walks the keys piece by piece. Queries lie in registers for the whole walk; keys and values are
//! copied to shared memory, the values of a piece while its scores are computed, the next keys while the values are multiplied. Scores and results
//! stay in the registers in which matrix units leave them: the four threads that share a row find its largest score by shuffles, and powers
//! become the left operand of the second product where they are. Powers are of two, of scores that were multiplied by the scale and log2(e).
//!
//! Where there are few queries, groups share the keys: each leaves its sums, its largest score and the sum of its powers in scratch memory, and a
//! second launch joins them.

use millstream_core::how::{Block, Split};
use millstream_core::{Access, Body, DType, Error, Op, Result};

use super::{Parts, blind, join, takes_part};
use crate::frame::{Class, Frame};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;

/// Queries of a group, and of a warp.
const QUERIES: usize = 64;
const ROWS: usize = 16;
const THREADS: usize = QUERIES / ROWS * 32;
/// Elements of a chunk.
pub(crate) const CHUNK: usize = 8;

/// The block for an operation: queries and keys of a piece, and the length to which vectors are filled up; `None` where matrix units cannot
/// compute it.
pub(crate) fn block(op: &Op, target: &Target) -> Option<Block> {
    let units = target.matrices == Some(32) && target.dialect.language().has_fragments();
    let half = matches!(op.outputs.first()?.dtype, DType::F16 | DType::BF16);
    let longest = op.dims[op.dims.len() - 2..].iter().copied().max()?;
    let k = [32, 64, 128, 256].into_iter().find(|&l| longest <= l)?;
    // Keys and values of a piece, so many that registers and shared memory suffice.
    let n = if k == 256 { 32 } else { 64 };
    (units && half && 2 * 2 * n * k <= target.shared_memory).then_some(Block { m: QUERIES, n, k })
}

/// Whether a kernel may copy keys and values in chunks, as far as the dtype and the strides' classes tell.
fn is_whole(op: &Op) -> bool {
    let rank = op.dims.len();
    let one = |a: &Access, d: usize| a.strides[d] == 1 && op.dims[d] != 1;
    one(&op.inputs[0], rank - 2) && one(&op.inputs[1], rank - 2) && one(&op.inputs[2], rank - 1)
}

/// Where one of the two operands lies that are read piece by piece.
struct Operand<'a> {
    number: usize,
    array: &'static str,
    /// The length of its vectors.
    width: &'a str,
}

struct Writer<'a, 'f> {
    frame: &'f mut Frame<'a>,
    dtype: DType,
    block: Block,
    /// Whether queries, keys and values are read in whole chunks.
    whole: bool,
    at: usize,
    outer: Vec<String>,
}

/// A kernel for attention on matrix units.
pub(crate) fn generate(op: &Op, target: &Target, block: Block, split: Split, wide: bool) -> Result<Program> {
    let Body::Attention(_) = op.body else {
        return Err(Error::internal("a kernel for attention was asked to do something else"));
    };
    let mut frame = Frame::new(op, target, wide);
    let shares = split == Split::TwoPass;
    frame.has_workspace = shares;
    frame.share("keys", "words4", block.n * block.k / CHUNK);
    frame.share("values", "words4", block.n * block.k / CHUNK);
    let by_several = is_whole(op);
    for whole in if by_several { &[true, false][..] } else { &[false][..] } {
        let mut text = Text::inside(1);
        let (dtype, at) = (op.outputs[0].dtype, op.dims.len() - 4);
        let mut writer = Writer { frame: &mut frame, dtype, block, whole: *whole, at, outer: Vec::new() };
        writer.entry(&mut text, op, shares);
        frame.entry(if *whole { "flash_by_eight" } else { "flash_by_one" }, THREADS as u32, text);
    }
    if shares {
        join(&mut frame, DType::F32, "fast_exp2");
    }
    let by = if by_several { CHUNK } else { 1 };
    Program::new(frame, Shape::Attention { queries: QUERIES, keys: block.n, split, by })
}

impl Writer<'_, '_> {
    /// The indices of an operand's element: those of the batch, then query, key, and the places in both vectors.
    fn index(&self, own: [&str; 4]) -> impl Fn(usize) -> Option<String> + use<> {
        let (outer, at) = (self.outer.clone(), self.at);
        let own = own.map(String::from);
        move |dim: usize| Some(if dim < at { outer[dim].clone() } else { own[dim - at].clone() })
    }

    fn entry(&mut self, text: &mut Text, op: &Op, shares: bool) {
        let Body::Attention(body) = op.body else { return };
        let Block { n: keys, k: length, .. } = self.block;
        let part = takes_part(self.frame, text, QUERIES, shares, DType::F32);
        let Parts { m, n, d, e, begin, until, .. } = &part;
        self.outer = part.outer.clone();
        let scale = self.frame.param(0, DType::F32);
        text.line(format!("let factor = {scale} * 1.44269504f;"));
        text.line("let low = lane & idx(7);");
        text.line("let eight = ((lane >> 3u) & idx(1)) * idx(8);");
        text.line("let sixteen = ((lane >> 4u) & idx(1)) * idx(8);");
        text.line("let two = (lane & idx(3)) * idx(2);");
        text.line(format!("let row = first + (lane >> 5u) * idx({ROWS}) + ((lane & idx(31)) >> 2u);"));
        for s in 0..length / 16 {
            let mut parts = Vec::new();
            for (r, c) in [(0, 0), (8, 0), (0, 8), (8, 8)] {
                parts.push(self.pair(text, &format!("row + idx({r})"), m, &format!("two + idx({})", 16 * s + c), d));
            }
            text.line(format!("let query_{s} = words4({});", parts.join(", ")));
        }
        let zero = "vec4<f32>(0.0f, 0.0f, 0.0f, 0.0f)";
        for j in 0..length / 8 {
            text.line(format!("var part_{j} = {zero};"));
        }
        for r in 0..2 {
            text.line(format!("var most{r} = lowest_f32();"));
            text.line(format!("var powers{r} = 0.0f;"));
        }
        // The first key that no query of the group sees; the last query has the index of the last key.
        let limit = match body.causal {
            true => text.name("i", format!("min({until}, first + idx({QUERIES}) + {n} - {m})")),
            false => until.clone(),
        };
        let both = [Operand { number: 1, array: "keys", width: d }, Operand { number: 2, array: "values", width: e }];
        self.bring(text, &both[0], begin, until);
        text.line(format!("for (var start = {begin}; start < {limit}; start += idx({keys})) {{"));
        self.bring(text, &both[1], "start", until);
        self.arrived(text, 1);
        for j in 0..keys / 8 {
            text.line(format!("var score_{j} = {zero};"));
        }
        for s in 0..length / 16 {
            for j in 0..keys / 16 {
                let place =
                    self.place(&format!("idx({}) + low + sixteen", 16 * j), &format!("idx({}) + (eight >> 3u)", 2 * s));
                let b = text.name("b", format!("load_matrices(&keys[{place}])"));
                self.multiply(text, "score", 2 * j, &format!("query_{s}"), &b);
            }
        }
        text.line("workgroupBarrier();");
        let next = text.name("next", format!("start + idx({keys})"));
        self.bring(text, &both[0], &next, until);
        self.scores(text, op, n, m, until);
        self.powers(text);
        self.arrived(text, 1);
        for s in 0..keys / 16 {
            let four = [(2 * s, "x", "y"), (2 * s, "z", "w"), (2 * s + 1, "x", "y"), (2 * s + 1, "z", "w")];
            let parts = four.map(|(j, a, b)| format!("pair_{}(score_{j}.{a}, score_{j}.{b})", self.dtype));
            let a = text.name("a", format!("words4({})", parts.join(", ")));
            for j in 0..length / 16 {
                let place =
                    self.place(&format!("idx({}) + low + eight", 16 * s), &format!("idx({}) + (sixteen >> 3u)", 2 * j));
                let b = text.name("b", format!("load_matrices_turned(&values[{place}])"));
                self.multiply(text, "part", 2 * j, &a, &b);
            }
        }
        text.line("workgroupBarrier();");
        text.line("}");
        if self.whole {
            text.line("copies_arrived<0>();");
        }
        text.line("workgroupBarrier();");
        for r in 0..2 {
            text.line(format!("powers{r} = powers{r} + shuffled(powers{r}, 1);"));
            text.line(format!("powers{r} = powers{r} + shuffled(powers{r}, 2);"));
        }
        if shares {
            self.leave(text, &part);
        } else {
            self.results(text, op, &part);
        }
        text.line("}");
    }

    /// Two neighbours of a query's vector, in one word; zeros where there are none.
    fn pair(&mut self, text: &mut Text, row: &str, rows: &str, column: &str, columns: &str) -> String {
        let (row, column) = (text.name("r", row), text.name("c", column));
        let name = text.fresh("q");
        text.line(format!("var {name} = 0u;"));
        text.line(format!("if ({row} < {rows} && {column} < {columns}) {{"));
        let offset = self.frame.offset(0, &self.index([&row, "idx(0)", &column, "idx(0)"]));
        if self.whole {
            text.line(format!("{name} = words_at(b0, {offset});"));
        } else {
            text.line(format!("{name} = u32(b0[{offset}]);"));
            text.line("}");
            let second = text.name("c", format!("{column} + idx(1)"));
            text.line(format!("if ({row} < {rows} && {second} < {columns}) {{"));
            let offset = self.frame.offset(0, &self.index([&row, "idx(0)", &second, "idx(0)"]));
            text.line(format!("{name} = {name} | (u32(b0[{offset}]) << 16u);"));
        }
        text.line("}");
        name
    }

    /// The place of a chunk in shared memory: chunks of a row are permuted, so that eight rows lie in different banks.
    fn place(&self, row: &str, chunk: &str) -> String {
        let chunks = self.block.k / CHUNK;
        let (shift, mask) = if chunks >= 8 { (0, 7) } else { (1, 3) };
        format!("({row}) * idx({chunks}) + (({chunk}) ^ ((({row}) >> {shift}u) & idx({mask})))")
    }

    /// Brings keys, or values, of the piece that begins here; zeros where there are none.
    fn bring(&mut self, text: &mut Text, operand: &Operand<'_>, start: &str, until: &str) {
        let Block { n: keys, k: length, .. } = self.block;
        let &Operand { number, array, width } = operand;
        let index = |own: &Self, key: &str, c: &str| {
            own.index(if number == 1 { ["idx(0)", key, c, "idx(0)"] } else { ["idx(0)", key, "idx(0)", c] })
        };
        if self.whole {
            let chunks = length / CHUNK;
            // Not unrolled by hand: addresses of all chunks at once would take too many registers.
            text.line(format!("for (var f = lane; f < idx({}); f += idx({THREADS})) {{", keys * chunks));
            let row = text.name("r", format!("f / idx({chunks})"));
            let chunk = text.name("c", format!("f % idx({chunks})"));
            let (key, column) =
                (text.name("k", format!("{start} + {row}")), text.name("c", format!("{chunk} * idx(8)")));
            let exists = text.name("exists", format!("({key} < {until}) & ({column} < {width})"));
            let offset = self.frame.offset(number, &index(self, &key, &column));
            let offset = text.name("p", format!("select(idx(0), {offset}, {exists})"));
            let place = self.place(&row, &chunk);
            text.line(format!("copy_chunk(&{array}[{place}], b{number} + {offset}, {exists});"));
            text.line("}");
            text.line("copies_asked();");
            return;
        }
        text.line(format!("for (var f = lane; f < idx({}); f += idx({THREADS})) {{", keys * length));
        let row = text.name("r", format!("f / idx({length})"));
        let column = text.name("c", format!("f % idx({length})"));
        let key = text.name("k", format!("{start} + {row}"));
        let value = text.fresh("t");
        text.line(format!("var {value} = 0u;"));
        text.line(format!("if ({key} < {until} && {column} < {width}) {{"));
        let offset = self.frame.offset(number, &index(self, &key, &column));
        text.line(format!("{value} = u32(b{number}[{offset}]);"));
        text.line("}");
        let place = self.place(&row, &format!("{column} >> 3u"));
        text.line(format!("put_half({array}, ({place}) * idx(8) + ({column} & idx(7)), {value});"));
        text.line("}");
    }

    /// Waits until what was brought is there, but for the last few lots.
    fn arrived(&self, text: &mut Text, rest: usize) {
        if self.whole {
            text.line(format!("copies_arrived<{rest}>();"));
        }
        text.line("workgroupBarrier();");
    }

    /// Adds a product to two neighbouring pieces.
    fn multiply(&self, text: &mut Text, sums: &str, first: usize, a: &str, b: &str) {
        for (half, [x, y]) in [["x", "y"], ["z", "w"]].iter().enumerate() {
            let sum = format!("{sums}_{}", first + half);
            text.line(format!("{sum} = multiply_{}({a}, {b}.{x}, {b}.{y}, {sum});", self.dtype));
        }
    }

    /// Scales the scores of a piece and hides those that are not seen.
    fn scores(&mut self, text: &mut Text, op: &Op, n: &str, m: &str, until: &str) {
        let Body::Attention(body) = op.body else { return };
        for j in 0..self.block.n / 8 {
            for (l, part) in ["x", "y", "z", "w"].iter().enumerate() {
                let cell = format!("score_{j}.{part}");
                let key = text.name("k", format!("start + two + idx({})", 8 * j + l % 2));
                let row = if l < 2 { "row".to_string() } else { "(row + idx(8))".into() };
                text.line(format!("{cell} = {cell} * factor;"));
                let mut seen = vec![format!("{key} < {until}")];
                if body.causal {
                    seen.push(format!("{key} + {m} <= {row} + {n}"));
                }
                if body.mask {
                    let row = text.name("r", format!("min({row}, {m} - idx(1))"));
                    let key = text.name("k", format!("min({key}, {n} - idx(1))"));
                    let mask = self.frame.read(text, 3, &self.index([&row, &key, "idx(0)", "idx(0)"]));
                    if op.inputs[3].dtype == DType::Bool {
                        seen.push(mask);
                    } else {
                        text.line(format!("{cell} = fma({mask}, 1.44269504f, {cell});"));
                    }
                }
                text.line(format!("{cell} = select(lowest_f32(), {cell}, {});", seen.join(" && ")));
            }
        }
    }

    /// Turns scores into powers, and corrects what was summed for a larger score.
    fn powers(&self, text: &mut Text) {
        let (keys, length) = (self.block.n, self.block.k);
        for (r, [a, b]) in [["x", "y"], ["z", "w"]].iter().enumerate() {
            text.line(format!("var more{r} = most{r};"));
            for j in 0..keys / 8 {
                text.line(format!("more{r} = max(more{r}, max(score_{j}.{a}, score_{j}.{b}));"));
            }
            for far in [1, 2] {
                text.line(format!("more{r} = max(more{r}, shuffled(more{r}, {far}));"));
            }
            text.line(format!("let base{r} = select(more{r}, 0.0f, more{r} == lowest_f32());"));
            text.line(format!("let less{r} = fast_exp2(most{r} - base{r});"));
            text.line(format!("most{r} = more{r};"));
            text.line(format!("powers{r} = powers{r} * less{r};"));
            for j in 0..keys / 8 {
                for part in [a, b] {
                    text.line(format!("score_{j}.{part} = fast_exp2(score_{j}.{part} - base{r});"));
                    text.line(format!("powers{r} = powers{r} + score_{j}.{part};"));
                }
            }
            for j in 0..length / 8 {
                text.line(format!("part_{j}.{a} = part_{j}.{a} * less{r};"));
                text.line(format!("part_{j}.{b} = part_{j}.{b} * less{r};"));
            }
        }
    }

    /// Divides and writes the results.
    fn results(&mut self, text: &mut Text, op: &Op, part: &Parts) {
        let Body::Attention(body) = op.body else { return };
        let Parts { m, n, e, .. } = part;
        for r in 0..2 {
            let blind = blind(body.mask || body.causal, n);
            text.line(format!("let none{r} = powers{r} == 0.0f{blind};"));
            text.line(format!("let share{r} = 1.0f / powers{r};"));
        }
        text.line("let own = row + (lane & idx(1)) * idx(8);");
        let output = self.frame.output(0);
        let last = op.dims.len() - 1;
        let together = self.whole && self.frame.class(output, last) == Class::One;
        for j in 0..self.block.k / 8 {
            let name = format!("part_{j}");
            let value = |c: &str, r: usize| format!("select({name}.{c} * share{r}, 0.0f, none{r})");
            let parts = [value("x", 0), value("y", 0), value("z", 1), value("w", 1)].join(", ");
            let four = text.name("four", format!("four_columns(vec4<f32>({parts}))"));
            let column = text.name("c", format!("((lane & idx(2)) << 1u) + idx({})", 8 * j));
            text.line(format!("if (own < {m} && {column} < {e}) {{"));
            if together {
                let offset = self.frame.offset(output, &self.index(["own", "idx(0)", "idx(0)", &column]));
                let offset = text.name("p", offset);
                let values = ["x", "y", "z", "w"].map(|c| format!("{four}.{c}"));
                self.frame.store_four(text, output, &offset, &values);
            } else {
                for (l, c) in ["x", "y", "z", "w"].iter().enumerate() {
                    let column = text.name("c", format!("{column} + idx({l})"));
                    text.line(format!("if ({column} < {e}) {{"));
                    let offset = self.frame.offset(output, &self.index(["own", "idx(0)", "idx(0)", &column]));
                    let offset = text.name("p", offset);
                    self.frame.store(text, output, &offset, &format!("{four}.{c}"));
                    text.line("}");
                }
            }
            text.line("}");
        }
    }

    /// Leaves the sums of this part in scratch memory.
    fn leave(&mut self, text: &mut Text, part: &Parts) {
        let Parts { m, e, .. } = part;
        for r in 0..2 {
            text.line(format!("let own{r} = row + idx({});", 8 * r));
            text.line(format!("if (own{r} < {m}) {{"));
            let cell = part.cell(self.frame, text, &format!("own{r}"));
            text.line("if (two == idx(0)) {");
            text.line(format!("work[{cell} + {e}] = bitcast<u32>(most{r});"));
            text.line(format!("work[{cell} + {e} + idx(1)] = bitcast<u32>(powers{r});"));
            text.line("}");
            for j in 0..self.block.k / 8 {
                for (l, c) in [["x", "y"], ["z", "w"]][r].iter().enumerate() {
                    let column = text.name("c", format!("two + idx({})", 8 * j + l));
                    text.line(format!("if ({column} < {e}) {{"));
                    text.line(format!("work[{cell} + {column}] = bitcast<u32>(part_{j}.{c});"));
                    text.line("}");
                }
            }
            text.line("}");
        }
    }
}
