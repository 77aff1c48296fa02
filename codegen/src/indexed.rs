//! Kernels that look elements up in a table, and running reductions along rows.

use millstream_core::{Binary, Body, DType, Error, Op, Reduce, Result};

use crate::frame::{Frame, Word};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::{Register, from_words, literal, register_dtype};
use crate::value::binary;

/// Threads of a group.
const THREADS: u32 = 256;

/// Neighbouring elements of a row that a thread takes at a time.
const EACH: usize = 4;

/// A walk along the result; each element is read where the places say.
pub(crate) fn generate_gather(op: &Op, target: &Target, wide: bool) -> Result<Program> {
    let Body::Gather(lookups) = &op.body else {
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
    let place = frame.place(0, &at);
    text.line(format!("var place = {place};"));
    text.line("var exists = true;");
    for j in 0..lookups.len() {
        let (stride, size) = (frame.arg(Word::Number(1 + 2 * j)), frame.arg(Word::Number(2 + 2 * j)));
        let value = frame.read(&mut text, j + 1, &at);
        let register = Register::of(op.inputs[j + 1].dtype);
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
        text.line(format!("exists = exists && {wanted} >= {zero} && {wanted} < {limit};"));
        text.line(format!("place += idx(select({zero}, {wanted}, exists)) * {stride};"));
    }
    let dtype = op.inputs[0].dtype;
    let words: Vec<String> = (0..dtype.size().div_ceil(4)).map(|k| frame.arg(Word::Fill(0, k))).collect();
    text.line(format!("var value = {};", from_words(dtype, |k| words[k].clone())));
    text.line("if (exists) {");
    text.line(format!("value = {};", frame.load(0, "place")));
    text.line("}");
    let output = frame.output(0);
    let place = frame.place(output, &at);
    let place = text.name("p", place);
    frame.store(&mut text, output, &place, "value");
    text.line("}");
    frame.entry("gather", THREADS, text);
    Program::new(frame, Shape::Gather { threads: THREADS })
}

/// A group walks a row piece by piece and carries the total of what it has passed.
pub(crate) fn generate_scan(op: &Op, target: &Target, wide: bool) -> Result<Program> {
    let Body::Scan { inner, reduce } = op.body else {
        return Err(Error::internal("a kernel for scans was asked to do something else"));
    };
    let join = match reduce {
        Reduce::Sum => Binary::Add,
        Reduce::Prod => Binary::Mul,
        Reduce::Max => Binary::Max,
        Reduce::Min => Binary::Min,
        Reduce::ArgMax | Reduce::ArgMin => return Err(Error::internal("places are not scanned")),
    };
    let dtype = op.inputs[0].dtype;
    let register = Register::of(dtype);
    // Half types are summed in f32, and the identity is the register's own; narrow integers wrap after each step.
    let computed = if matches!(dtype, DType::F16 | DType::BF16) { register_dtype(register) } else { dtype };
    let identity = literal(reduce.identity(computed));
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
        let place = frame.place(output, &at);
        let place = text.name("p", place);
        frame.store(&mut text, output, &place, &value);
        text.line("}");
    }
    text.line("workgroupBarrier();");
    text.line("}");
    text.line("}");
    frame.entry("scan", THREADS, text);
    Program::new(frame, Shape::Scan { inner })
}
