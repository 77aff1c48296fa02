//! Kernels that look elements up in a table, and running reductions along rows.

use millstream_core::what::Gather;
use millstream_core::{Access, Binary, Body, DType, Error, Op, Reduce, Result};

use crate::frame::{Frame, Word};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::{Register, from_words, literal, register_dtype, to_words};
use crate::value::binary;

/// Threads of a group.
pub(crate) const THREADS: u32 = 256;

/// The shortest pieces into which a running reduction down a column is cut.
pub(crate) const SHORTEST: u64 = 32;

/// Neighbouring elements of a row that a thread takes at a time.
const EACH: usize = 4;

/// A walk along the result; each element is read where the indices say.
pub(crate) fn generate_gather(op: &Op, target: &Target, wide: bool) -> Result<Program> {
    let Body::Gather(Gather { lookups, .. }) = &op.body else {
        return Err(Error::internal("a kernel for lookups was asked to do something else"));
    };
    let mut frame = Frame::new(op, target, wide);
    let mut text = Text::inside(1);
    let count = frame.arg(Word::Number(0));
    text.line(format!("let step = groups * idx({THREADS});"));
    text.line(format!("for (var n = group * idx({THREADS}) + lane; n < {count}; n += step) {{"));
    let rank = op.dims.len();
    let index = if rank == 0 { Vec::new() } else { frame.indices(&mut text, "n", 0..rank) };
    let at = |d: usize| Some(index[d].clone());
    let offset = frame.offset(0, &at);
    text.line(format!("var offset = {offset};"));
    text.line("var exists = true;");
    for j in 0..lookups.len() {
        let (stride, size) = (frame.arg(Word::Number(1 + 2 * j)), frame.arg(Word::Number(2 + 2 * j)));
        let value = frame.read(&mut text, j + 1, &at);
        let register = Register::of(op.inputs[j + 1].dtype);
        let raw = value.clone();
        // Positions of 64 bits are compared as such; otherwise the axis is short enough for any integer type.
        let (kind, value) = match register {
            Register::I32 | Register::U32 if wide => ("i64", format!("i64({value})")),
            other => (other.name(), value),
        };
        let (limit, zero) = (text.name("m", format!("{kind}({size})")), format!("{kind}(0)"));
        let wanted = match register {
            Register::U32 | Register::U64 => text.name("w", value),
            _ => text.name("w", format!("select({value}, {value} + {limit}, {value} < {zero})")),
        };
        let there = text.name("is", format!("{wanted} >= {zero} && {wanted} < {limit}"));
        text.line(format!("if (exists && !{there}) {{"));
        note(&mut frame, &mut text, j, &to_words(register, &raw));
        text.line("}");
        text.line(format!("exists = exists && {there};"));
        text.line(format!("offset += idx(select({zero}, {wanted}, exists)) * {stride};"));
    }
    let dtype = op.inputs[0].dtype;
    let words: Vec<String> = (0..dtype.size().div_ceil(4)).map(|k| frame.arg(Word::Fill(0, k))).collect();
    text.line(format!("var value = {};", from_words(dtype, |k| words[k].clone())));
    text.line("if (exists) {");
    text.line(format!("value = {};", frame.load(0, "offset")));
    text.line("}");
    let output = frame.output(0);
    let offset = frame.offset(output, &at);
    let offset = text.name("p", offset);
    frame.store(&mut text, output, &offset, "value");
    text.line("}");
    frame.entry("gather", THREADS, text);
    Program::new(frame, Shape::Gather { threads: THREADS })
}

/// Notes that there is no such index, unless somebody else was the first to, or nobody wants to know.
fn note(frame: &mut Frame<'_>, text: &mut Text, lookup: usize, index: &[String]) {
    frame.has_note = true;
    let [base, ticket, call] = [Word::Note, Word::Ticket, Word::Call].map(|word| frame.arg(word));
    text.line(format!("if ({ticket} != 0u && atomicExchange(&note[{base}], {ticket}) != {ticket}) {{"));
    let high = if frame.wide { "u32(n >> 32u)" } else { "0u" };
    let place = [call, format!("{lookup}u"), "u32(n)".into(), high.into()];
    for (i, word) in place.iter().chain(index).enumerate() {
        text.line(format!("atomicStore(&note[{base} + {}u], {word});", i + 1));
    }
    text.line("}");
}

/// How two elements of a running reduction are joined.
struct Joined {
    join: Binary,
    /// The dtype in which that happens: half types are summed in f32, narrow integers wrap after each step.
    computed: DType,
    identity: String,
}

impl Joined {
    fn of(reduce: Reduce, dtype: DType) -> Result<Joined> {
        let join = match reduce {
            Reduce::Sum => Binary::Add,
            Reduce::Prod => Binary::Mul,
            Reduce::Max => Binary::Max,
            Reduce::Min => Binary::Min,
            Reduce::ArgMax | Reduce::ArgMin => return Err(Error::internal("argmax and argmin are not scanned")),
        };
        let half = matches!(dtype, DType::F16 | DType::BF16);
        let computed = if half { register_dtype(Register::of(dtype)) } else { dtype };
        Ok(Joined { join, computed, identity: literal(reduce.identity(computed)) })
    }
}

/// Whether the rows of a running reduction are the columns of a matrix: neighbouring rows lie beside each other, and the elements of a row
/// do not.
pub(crate) fn goes_down(op: &Op) -> bool {
    let Body::Scan { inner, .. } = op.body else { return false };
    let beside = |a: &Access, d: usize| a.strides[d] == 1 && op.dims[d] != 1;
    let input = &op.inputs[0];
    inner > 0 && inner < op.dims.len() && beside(input, inner - 1) && !beside(input, inner)
}

/// Threads walk down columns, each through a piece of one. What all pieces before it come to is known from a first launch.
pub(crate) fn generate_scan_columns(op: &Op, target: &Target, wide: bool) -> Result<Program> {
    let Body::Scan { inner, reduce } = op.body else {
        return Err(Error::internal("a kernel for scans was asked to do something else"));
    };
    let dtype = op.inputs[0].dtype;
    let Joined { join, computed, identity } = Joined::of(reduce, dtype)?;
    let register = Register::of(computed);
    let mut frame = Frame::new(op, target, wide);
    frame.has_workspace = true;
    for (name, is_total) in [("totals_down", true), ("scan_down", false)] {
        let mut text = Text::inside(1);
        let [rows, length, piece, pieces] = [0, 1, 2, 3].map(|n| frame.arg(Word::Number(n)));
        let work = frame.arg(Word::Work);
        // The last piece's total is nobody's beginning.
        let all = if is_total { format!("({pieces} - idx(1)) * {rows}") } else { format!("{pieces} * {rows}") };
        text.line(format!("for (var n = group * idx({THREADS}) + lane; n < {all}; n += groups * idx({THREADS})) {{"));
        text.line(format!("let part = quotient(n, {rows});"));
        text.line(format!("let row = n - part * {rows};"));
        let outer = frame.indices(&mut text, "row", 0..inner);
        text.line(format!("var carry = {identity};"));
        let words = register.words();
        let cell = |part: &str, k: usize| format!("work[{work} + ({part} * {rows} + row) * idx({words}) + idx({k})]");
        if !is_total {
            text.line("for (var before = idx(0); before < part; before += idx(1)) {");
            let value = text.name("x", from_words(register_dtype(register), |k| cell("before", k)));
            text.line(format!("carry = {};", binary(join, computed, "carry", &value)));
            text.line("}");
        }
        text.line(format!("let until = min({length}, (part + idx(1)) * {piece});"));
        // Several elements are on their way before the first is used.
        text.line(format!("var i = part * {piece};"));
        for together in [TOGETHER, 1] {
            text.line(format!("while (i + idx({}) < until) {{", together - 1));
            let mut values = Vec::new();
            for e in 0..together {
                let i = text.name("i", format!("i + idx({e})"));
                let at = |d: usize| Some(if d < inner { outer[d].clone() } else { i.clone() });
                let value = frame.read(&mut text, 0, &at);
                values.push((i, value));
            }
            for (i, value) in values {
                text.line(format!("carry = {};", binary(join, computed, "carry", &value)));
                if !is_total {
                    let at = |d: usize| Some(if d < inner { outer[d].clone() } else { i.clone() });
                    let output = frame.output(0);
                    let offset = frame.offset(output, &at);
                    let offset = text.name("p", offset);
                    frame.store(&mut text, output, &offset, "carry");
                }
            }
            text.line(format!("i += idx({together});"));
            text.line("}");
        }
        if is_total {
            for (k, word) in to_words(register, "carry").into_iter().enumerate() {
                text.line(format!("{} = {word};", cell("part", k)));
            }
        }
        text.line("}");
        frame.entry(name, THREADS, text);
    }
    // Products of floats that are grouped may leave the range of numbers where those of the definition do not.
    let whole = reduce == Reduce::Prod && !dtype.is_integer() && dtype != DType::Bool;
    Program::new(frame, Shape::ScanColumns { inner, whole })
}

/// Elements of a column that a thread asks for at once.
const TOGETHER: usize = 8;

/// A group walks a row piece by piece and carries the total of what it has passed.
pub(crate) fn generate_scan(op: &Op, target: &Target, wide: bool) -> Result<Program> {
    let Body::Scan { inner, reduce } = op.body else {
        return Err(Error::internal("a kernel for scans was asked to do something else"));
    };
    let Joined { join, computed, identity } = Joined::of(reduce, op.inputs[0].dtype)?;
    let register = Register::of(computed);
    let mut frame = Frame::new(op, target, wide);
    frame.share("totals", register.shared(), THREADS as usize);
    let mut text = Text::inside(1);
    let (rows, length) = (frame.arg(Word::Number(0)), frame.arg(Word::Number(1)));
    text.line(format!("for (var row = group; row < {rows}; row += groups) {{"));
    let outer = if inner == 0 { Vec::new() } else { frame.indices(&mut text, "row", 0..inner) };
    text.line(format!("var carry = {identity};"));
    let piece = THREADS as usize * EACH;
    text.line(format!("for (var start = idx(0); start < {length}; start += idx({piece})) {{"));
    let first = text.name("i", format!("start + lane * idx({EACH})"));
    let mut values: Vec<(String, String)> = Vec::new();
    for e in 0..EACH {
        let i = text.name("i", format!("{first} + idx({e})"));
        let name = text.fresh("t");
        text.line(format!("var {name} = {identity};"));
        text.line(format!("if ({i} < {length}) {{"));
        let at = |d: usize| Some(if d < inner { outer[d].clone() } else { i.clone() });
        let value = frame.read(&mut text, 0, &at);
        text.line(format!("{name} = {value};"));
        text.line("}");
        let total = match values.last() {
            None => name,
            Some((_, before)) => text.name("t", binary(join, computed, before, &name)),
        };
        values.push((i, total));
    }
    let Some((_, last)) = values.last() else { return Err(Error::internal("a thread without elements")) };
    text.line(format!("totals[lane] = {};", register.put(last)));
    text.line("workgroupBarrier();");
    text.line(format!("for (var far = idx(1); far < idx({THREADS}); far = far * idx(2)) {{"));
    let own = text.fresh("t");
    text.line(format!("var {own} = {};", register.get("totals[lane]".into())));
    text.line("if (lane >= far) {");
    let before = text.name("t", register.get("totals[lane - far]".into()));
    text.line(format!("{own} = {};", binary(join, computed, &before, &own)));
    text.line("}");
    text.line("workgroupBarrier();");
    text.line(format!("totals[lane] = {};", register.put(&own)));
    text.line("workgroupBarrier();");
    text.line("}");
    text.line("var before = carry;");
    text.line("if (lane > idx(0)) {");
    let left = text.name("t", register.get("totals[lane - idx(1)]".into()));
    text.line(format!("before = {};", binary(join, computed, "carry", &left)));
    text.line("}");
    let all = text.name("t", register.get(format!("totals[{}]", THREADS - 1)));
    text.line(format!("carry = {};", binary(join, computed, "carry", &all)));
    let output = frame.output(0);
    for (i, total) in &values {
        text.line(format!("if ({i} < {length}) {{"));
        let value = text.name("t", binary(join, computed, "before", total));
        let at = |d: usize| Some(if d < inner { outer[d].clone() } else { i.clone() });
        let offset = frame.offset(output, &at);
        let offset = text.name("p", offset);
        frame.store(&mut text, output, &offset, &value);
        text.line("}");
    }
    text.line("workgroupBarrier();");
    text.line("}");
    text.line("}");
    frame.entry("scan", THREADS, text);
    Program::new(frame, Shape::Scan { inner })
}
