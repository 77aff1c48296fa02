//! Attention: a group takes a few queries and walks the keys piece by piece.
//!
//! Scores of a piece lie in shared memory. The largest score so far, the sum of the powers and the accumulators of values are
//! corrected whenever a larger score is met, so that no scores are ever in the device's memory.

use millstream_core::{Binary, Body, DType, Error, Op, Result};

use crate::frame::{Frame, Word};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::{Register, literal, register_dtype};
use crate::value::binary;

/// Queries of a group, and threads that share one.
pub(crate) const QUERIES: usize = 16;
const LANES: usize = 16;
const THREADS: usize = QUERIES * LANES;
/// Keys of a piece.
const KEYS: usize = 32;
/// The longest vectors: of queries and keys, and of values.
pub(crate) const LONGEST: usize = 128;

/// Bytes of shared memory that a group takes, for scores of this size.
pub(crate) fn shared(dtype: DType) -> usize {
    (KEYS * (LONGEST + 1) + QUERIES * (KEYS + 1)) * dtype.compute().size()
}

/// A kernel for attention.
pub(crate) fn generate(op: &Op, target: &Target, wide: bool) -> Result<Program> {
    let Body::Attention(body) = op.body else {
        return Err(Error::internal("a kernel for attention was asked to do something else"));
    };
    let of = register_dtype(Register::of(op.outputs[0].dtype));
    let register = Register::of(of).name();
    let zero = Register::of(of).zero();
    let lowest = literal(millstream_core::Scalar::lowest(of));
    let mut frame = Frame::new(op, target, wide);
    let at = op.dims.len() - 4;
    let (tile, row) = (LONGEST + 1, KEYS + 1);
    frame.share("tile", register, KEYS * tile);
    frame.share("scores", register, QUERIES * row);
    let mut text = Text::inside(1);
    let total = frame.arg(Word::Number(0));
    let blocks = frame.arg(Word::Number(1));
    let [m, n, d, e] = [2, 3, 4, 5].map(|i| frame.arg(Word::Number(i)));
    let scale = frame.param(0, of);
    text.line(format!("let own = quotient(lane, idx({LANES}));"));
    text.line(format!("let part = lane - own * idx({LANES});"));
    text.line(format!("let scale = {scale};"));
    text.line(format!("for (var work = group; work < {total}; work += groups) {{"));
    text.line(format!("let batch = quotient(work, {blocks});"));
    text.line(format!("let first = (work - batch * {blocks}) * idx({QUERIES});"));
    let outer = if at == 0 { Vec::new() } else { frame.indices(&mut text, "batch", 0..at) };
    // A query that does not exist is computed as the last one and not written.
    let query = text.name("i", format!("min(first + own, {m} - idx(1))"));
    let index = |q: &str, k: &str, c: &str, v: &str| {
        let own = [q.to_string(), k.to_string(), c.to_string(), v.to_string()];
        let outer = outer.clone();
        move |dim: usize| Some(if dim < at { outer[dim].clone() } else { own[dim - at].clone() })
    };
    let accumulators = LONGEST / LANES;
    for s in 0..accumulators {
        text.line(format!("var sum{s} = {zero};"));
    }
    text.line(format!("var most = {lowest};"));
    text.line(format!("var powers = {zero};"));
    // The first key that no query of the group sees; the last query has the index of the last key.
    let limit =
        if body.causal { text.name("i", format!("min({n}, first + idx({QUERIES}) + {n} - {m})")) } else { n.clone() };
    text.line(format!("for (var start = idx(0); start < {limit}; start += idx({KEYS})) {{"));
    fill(&mut frame, &mut text, 1, &n, &d, zero, &|k, c| index("idx(0)", k, c, "idx(0)"));
    text.line("workgroupBarrier();");
    for s in 0..KEYS / LANES {
        let key = text.name("j", format!("part + idx({})", s * LANES));
        let dot = text.fresh("dot");
        text.line(format!("var {dot} = {zero};"));
        text.line(format!("for (var c = idx(0); c < {d}; c += idx(1)) {{"));
        let q = frame.read(&mut text, 0, &index(&query, "idx(0)", "c", "idx(0)"));
        text.line(format!("{dot} = fma({q}, tile[{key} * idx({tile}) + c], {dot});"));
        text.line("}");
        let key_index = text.name("j", format!("start + {key}"));
        let score = text.fresh("t");
        text.line(format!("var {score} = {};", binary(Binary::Mul, of, &dot, "scale")));
        let mut seen = vec![format!("{key_index} < {n}")];
        if body.causal {
            seen.push(format!("{key_index} + {m} <= {query} + {n}"));
        }
        if body.mask {
            let inside = text.name("j", format!("min({key_index}, {n} - idx(1))"));
            let mask = frame.read(&mut text, 3, &index(&query, &inside, "idx(0)", "idx(0)"));
            if op.inputs[3].dtype == DType::Bool {
                seen.push(mask);
            } else {
                text.line(format!("{score} = {};", binary(Binary::Add, of, &score, &mask)));
            }
        }
        text.line(format!("if (!({})) {{", seen.join(" && ")));
        text.line(format!("{score} = {lowest};"));
        text.line("}");
        text.line(format!("scores[own * idx({row}) + {key}] = {score};"));
    }
    text.line("workgroupBarrier();");
    // Every thread of a query finds the same largest score and the same sum, in the same order.
    text.line("var more = most;");
    text.line(format!("for (var j = idx(0); j < idx({KEYS}); j += idx(1)) {{"));
    let score = text.name("t", format!("scores[own * idx({row}) + j]"));
    text.line(format!("more = {};", binary(Binary::Max, of, "more", &score)));
    text.line("}");
    text.line("workgroupBarrier();");
    text.line(format!("let none = more == {lowest};"));
    for s in 0..KEYS / LANES {
        let cell = format!("scores[own * idx({row}) + part + idx({})]", s * LANES);
        let power = text.name("t", format!("exp_{register}({cell} - more)"));
        text.line(format!("{cell} = select({power}, {zero}, none);"));
    }
    fill(&mut frame, &mut text, 2, &n, &e, zero, &|k, c| index("idx(0)", k, "idx(0)", c));
    text.line("workgroupBarrier();");
    text.line(format!("let less = select(exp_{register}(most - more), {zero}, most == {lowest});"));
    text.line("powers = powers * less;");
    for s in 0..accumulators {
        text.line(format!("sum{s} = sum{s} * less;"));
    }
    text.line(format!("for (var j = idx(0); j < idx({KEYS}); j += idx(1)) {{"));
    let power = text.name("t", format!("scores[own * idx({row}) + j]"));
    text.line(format!("powers = powers + {power};"));
    for s in 0..accumulators {
        let column = format!("part + idx({})", s * LANES);
        text.line(format!("sum{s} = fma({power}, tile[j * idx({tile}) + {column}], sum{s});"));
    }
    text.line("}");
    text.line("most = more;");
    text.line("workgroupBarrier();");
    text.line("}");
    text.line(format!("if (first + own < {m}) {{"));
    let output = frame.output(0);
    for s in 0..accumulators {
        let column = text.name("c", format!("part + idx({})", s * LANES));
        text.line(format!("if ({column} < {e}) {{"));
        let share = binary(Binary::Div, of, &format!("sum{s}"), "powers");
        // Where every key is seen, a sum of 0 comes from scores of minus infinity: the quotient is NaN, as it should.
        let blind = if body.mask || body.causal { String::new() } else { format!(" && {n} == idx(0)") };
        let value = text.name("t", format!("select({share}, {zero}, powers == {zero}{blind})"));
        let offset = frame.offset(output, &index(&query, "idx(0)", "idx(0)", &column));
        let offset = text.name("p", offset);
        frame.store(&mut text, output, &offset, &value);
        text.line("}");
    }
    text.line("}");
    text.line("}");
    frame.entry("attention", THREADS as u32, text);
    Program::new(frame, Shape::Attention)
}

/// Brings the vectors of a piece of keys, or their values, to shared memory; zeros where there are none.
fn fill<I: Fn(usize) -> Option<String>>(
    frame: &mut Frame<'_>,
    text: &mut Text,
    operand: usize,
    keys: &str,
    width: &str,
    zero: &str,
    index: &dyn Fn(&str, &str) -> I,
) {
    let tile = LONGEST + 1;
    text.line(format!("for (var f = lane; f < idx({}); f += idx({THREADS})) {{", KEYS * LONGEST));
    let key = text.name("k", format!("quotient(f, idx({LONGEST}))"));
    let column = text.name("c", format!("f - {key} * idx({LONGEST})"));
    let key_index = text.name("k", format!("start + {key}"));
    let value = text.fresh("t");
    text.line(format!("var {value} = {zero};"));
    text.line(format!("if ({key_index} < {keys} && {column} < {width}) {{"));
    let read = frame.read(text, operand, &index(&key_index, &column));
    text.line(format!("{value} = {read};"));
    text.line("}");
    text.line(format!("tile[{key} * idx({tile}) + {column}] = {value};"));
    text.line("}");
}
