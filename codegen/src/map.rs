//! Element-wise kernels: a loop over the index space, by single elements or by four contiguous ones.

use millstream_core::what::elements;
use millstream_core::{Body, DType, Error, Expr, Node, Op, Result};

use crate::frame::{Class, Frame, Word};
use crate::program::{Program, Shape};
use crate::target::Target;
use crate::text::Text;
use crate::types::Register;
use crate::value::Values;

/// Threads of a group.
const THREADS: u32 = 256;

/// Arithmetic of an element up to which a map only waits for memory.
pub(crate) const LIGHT: u64 = 16;

/// The sides of the squares that a group transposes at a time. Larger ones read and write longer runs of memory, and leave less
/// to share among groups.
const EDGES: [usize; 2] = [64, 32];

fn expr(op: &Op) -> Result<&Expr> {
    match &op.body {
        Body::Map(expr) => Ok(expr),
        _ => Err(Error::internal("a kernel for maps was asked to do something else")),
    }
}

/// Whether every operand has stride 0 or 1 along the last dimension, so that four elements can be moved at once.
pub(crate) fn by_four(frame: &Frame<'_>) -> bool {
    let Some(last) = frame.op.dims.len().checked_sub(1) else { return false };
    (0..frame.operands()).all(|o| frame.access(o).is_plain() && frame.class(o, last) != Class::Other)
        && (frame.op.inputs.len()..frame.operands()).all(|o| frame.class(o, last) == Class::One)
}

/// Walks the output from its beginning to its end.
pub(crate) fn generate(op: &Op, target: &Target, wide: bool) -> Result<Program> {
    let expr = expr(op)?;
    let mut frame = Frame::new(op, target, wide);
    let vec4 = by_four(&frame);
    let head = |frame: &mut Frame<'_>, text: &mut Text| {
        let count = frame.arg(Word::Number(0));
        text.line(format!("let step = groups * idx({THREADS});"));
        text.line(format!("for (var n = group * idx({THREADS}) + lane; n < {count}; n += step) {{"));
    };
    if vec4 {
        frame.vec4 = true;
        let mut text = Text::inside(1);
        if expr.flop() <= LIGHT {
            // What takes little arithmetic waits for memory: unrolling twice keeps more loads in flight.
            let count = frame.arg(Word::Number(0));
            text.line(format!("let step = groups * idx({THREADS});"));
            text.line(format!("var n = group * idx({THREADS}) + lane;"));
            text.line(format!("while (n + step < {count}) {{"));
            let starts = [text.name("n", "n * idx(4)"), text.name("n", "(n + step) * idx(4)")];
            four(&mut frame, &mut text, expr, &starts);
            text.line("n += step * idx(2);");
            text.line("}");
            text.line(format!("if (n < {count}) {{"));
        } else {
            head(&mut frame, &mut text);
        }
        let first = text.name("n", "n * idx(4)");
        four(&mut frame, &mut text, expr, &[first]);
        text.line("}");
        if op.dims.len() == 1 {
            // What is left of a length that is no multiple of four.
            let rest = frame.arg(Word::Number(1));
            let count = frame.arg(Word::Number(0));
            text.line(format!("if (group == idx(0) && lane < {rest}) {{"));
            let at = text.name("n", format!("{count} * idx(4) + lane"));
            one(&mut frame, &mut text, expr, &at);
            text.line("}");
        }
        frame.entry("map_by_four", THREADS, text);
        frame.vec4 = false;
    }
    let mut text = Text::inside(1);
    head(&mut frame, &mut text);
    one(&mut frame, &mut text, expr, "n");
    text.line("}");
    frame.entry("map_by_one", THREADS, text);
    Program::new(frame, Shape::Map { vec4, threads: THREADS })
}

/// Computes one element.
fn one(frame: &mut Frame<'_>, text: &mut Text, expr: &Expr, linear: &str) {
    let rank = frame.op.dims.len();
    let index = if rank == 0 { Vec::new() } else { frame.indices(text, linear, 0..rank) };
    let mut values = Values::new(expr);
    let at = |d: usize| Some(index[d].clone());
    values.write(text, expr, expr.outputs(), |text, _, node, dtype| leaf(frame, text, node, dtype, &at));
    for (o, &id) in expr.outputs().iter().enumerate() {
        let operand = frame.output(o);
        let offset = frame.offset(operand, &at);
        let offset = text.name("p", offset);
        frame.store(text, operand, &offset, values.get(id));
    }
}

/// The text of a node that stands for something outside the expression.
pub(crate) fn leaf(
    frame: &mut Frame<'_>,
    text: &mut Text,
    node: Node,
    dtype: DType,
    index: &dyn Fn(usize) -> Option<String>,
) -> String {
    match node {
        Node::Input(n) => frame.read(text, n as usize, index),
        Node::Param(n) => {
            let value = frame.param(n as usize, dtype);
            text.name("c", value)
        }
        Node::Index(d) => format!("i64({})", index(d as usize).unwrap_or_else(|| "0".into())),
        // A reduction or an accumulator is known before anything that uses it is written.
        _ => "unwritten".into(),
    }
}

/// Computes four contiguous elements from each of these linear indices; all is read before anything is written.
fn four(frame: &mut Frame<'_>, text: &mut Text, expr: &Expr, starts: &[String]) {
    let rank = frame.op.dims.len();
    let mut done = Vec::new();
    for linear in starts {
        let index = frame.indices(text, linear, 0..rank);
        let values = four_values(frame, text, expr, &|d| Some(index[d].clone()), &mut vec![Values::new(expr); 4]);
        done.push((index, values));
    }
    for (index, results) in done {
        for (o, values) in results.iter().enumerate() {
            let operand = frame.output(o);
            let offset = frame.offset(operand, &|d| Some(index[d].clone()));
            let offset = text.name("p", offset);
            frame.store_four(text, operand, &offset, values);
        }
    }
}

/// The results for four elements along the last dimension, the first of them at this index.
pub(crate) fn four_values(
    frame: &mut Frame<'_>,
    text: &mut Text,
    expr: &Expr,
    index: &dyn Fn(usize) -> Option<String>,
    lanes: &mut [Values],
) -> Vec<[String; 4]> {
    let last = frame.op.dims.len() - 1;
    for (i, (node, _)) in expr.nodes().iter().enumerate() {
        let Node::Input(n) = *node else { continue };
        let (operand, id) = (n as usize, millstream_core::Id(i as u32));
        if lanes[0].has(id) {
            continue;
        }
        let names = if frame.class(operand, last) == Class::One {
            let offset = frame.offset(operand, index);
            let offset = text.name("p", offset);
            frame.load_four(text, operand, &offset)
        } else {
            let name = frame.read(text, operand, index);
            [name.clone(), name.clone(), name.clone(), name]
        };
        for (values, name) in lanes.iter_mut().zip(names) {
            values.set(id, name);
        }
    }
    for l in 0..lanes.len() {
        let at = |d: usize| {
            let i = index(d)?;
            Some(if d == last && l > 0 { format!("({i} + idx({l}))") } else { i })
        };
        let (before, rest) = lanes.split_at_mut(l);
        let Some(values) = rest.first_mut() else { break };
        if let Some(before) = before.last() {
            values.follow(before);
        }
        values.write(text, expr, expr.outputs(), |text, _, node, dtype| leaf(frame, text, node, dtype, &at));
    }
    expr.outputs().iter().map(|&id| std::array::from_fn(|l| lanes[l].get(id).to_string())).collect()
}

/// The dimension along which an input is contiguous while the output, and so the walk, goes along the last one: where
/// there is such an input, a walk by squares reads and writes whole lines of memory.
fn transposed(op: &Op, target: &Target) -> Option<usize> {
    let frame = Frame::new(op, target, false);
    let last = op.dims.len().checked_sub(1)?;
    let outputs = op.inputs.len()..frame.operands();
    if outputs.clone().any(|o| frame.class(o, last) != Class::One) || op.inputs.iter().any(|a| !a.is_plain()) {
        return None;
    }
    let side = |o: usize| (0..last).find(|&d| frame.class(o, d) == Class::One && frame.class(o, last) == Class::Other);
    let mut dims = (0..op.inputs.len()).filter_map(side);
    let first = dims.next()?;
    dims.all(|d| d == first).then_some(first)
}

/// The sides of squares that fit the device, the preferred one first; none for maps that need no walk by squares.
pub(crate) fn edges(op: &Op, target: &Target) -> Vec<usize> {
    let Some(side) = transposed(op, target) else { return Vec::new() };
    let frame = Frame::new(op, target, false);
    let transposed = (0..op.inputs.len()).filter(|&o| frame.class(o, side) == Class::One);
    let bytes: usize = transposed.map(|o| 4 * Register::of(op.inputs[o].dtype).words()).sum();
    let most = target.shared_memory.min(48 << 10);
    let mut list: Vec<usize> = EDGES.into_iter().filter(|edge| edge * edge * bytes <= most).collect();
    // Every unit should have several squares.
    let (height, width) = (op.dims[side], op.dims[op.dims.len() - 1]);
    if elements(&op.dims) < target.units * 16 * EDGES[0] * EDGES[0] || height.min(width) < EDGES[0] {
        list.reverse();
    }
    list
}

/// Walks the index space by squares over the last dimension and the one along which some inputs are contiguous. Those
/// are read along their own direction and transposed in shared memory.
pub(crate) fn generate_tiled(op: &Op, target: &Target, edge: usize, wide: bool) -> Result<Program> {
    let expr = expr(op)?;
    let side = transposed(op, target).ok_or_else(|| Error::internal("this map needs no walk by squares"))?;
    let mut frame = Frame::new(op, target, wide);
    let (rank, last) = (op.dims.len(), op.dims.len() - 1);
    let mut text = Text::inside(1);
    let (tiles_x, tiles_y, total) =
        (frame.arg(Word::Number(0)), frame.arg(Word::Number(1)), frame.arg(Word::Number(2)));
    let rows = THREADS as usize / edge;
    text.line(format!("let x = lane % idx({edge});"));
    text.line(format!("let y = quotient(lane, idx({edge}));"));
    text.line(format!("for (var tile = group; tile < {total}; tile += groups) {{"));
    text.line(format!("let q = quotient(tile, {tiles_x});"));
    text.line(format!("let column = tile - q * {tiles_x};"));
    text.line(format!("let left = column * idx({edge});"));
    text.line(format!("let batch = quotient(q, {tiles_y});"));
    // Along diagonals: squares in one column of a matrix with a stride of a power of two would all read from the same part of
    // the memory.
    text.line(format!("let slant = q - batch * {tiles_y} + column;"));
    text.line(format!("let top = (slant - quotient(slant, {tiles_y}) * {tiles_y}) * idx({edge});"));
    // The other dimensions, from the batch.
    let mut index = vec![String::new(); rank];
    let mut rest = "batch".to_string();
    for d in (0..last).rev().filter(|&d| d != side) {
        let size = frame.arg(Word::Size(d));
        let q = text.name("q", format!("quotient({rest}, {size})"));
        index[d] = text.name("i", format!("{rest} - {q} * {size}"));
        rest = q;
    }
    let transposed: Vec<usize> = (0..op.inputs.len()).filter(|&o| frame.class(o, side) == Class::One).collect();
    let (width, height) = (frame.arg(Word::Size(last)), frame.arg(Word::Size(side)));
    for &o in &transposed {
        let register = Register::of(frame.access(o).dtype);
        frame.share(&format!("square{o}"), register.shared(), edge * edge);
    }
    // Rows lie slanted, so that neither a row nor a column is in one bank of the shared memory.
    let cell = |row: &str, column: &str| format!("{row} * idx({edge}) + ({column} ^ ({row} & idx(31)))");
    // All is read, at indices that exist, before anything is stored: no load waits for another.
    let mut read = Vec::new();
    let i = text.name("i", format!("min(top + x, {height} - idx(1))"));
    for r in (0..edge).step_by(rows) {
        let j = text.name("i", format!("min(left + y + idx({r}), {width} - idx(1))"));
        for &o in &transposed {
            let at = |d: usize| {
                Some(if d == side {
                    i.clone()
                } else if d == last {
                    j.clone()
                } else {
                    index[d].clone()
                })
            };
            read.push((o, r, frame.read(&mut text, o, &at)));
        }
    }
    for (o, r, value) in read {
        let value = Register::of(frame.access(o).dtype).put(&value);
        text.line(format!("square{o}[{}] = {value};", cell(&format!("(y + idx({r}))"), "x")));
    }
    text.line("workgroupBarrier();");
    for r in (0..edge).step_by(rows) {
        let (i, j) = (text.name("i", format!("top + y + idx({r})")), text.name("i", "left + x"));
        text.line(format!("if ({i} < {height} && {j} < {width}) {{"));
        let at = |d: usize| {
            Some(if d == side {
                i.clone()
            } else if d == last {
                j.clone()
            } else {
                index[d].clone()
            })
        };
        let mut values = Values::new(expr);
        values.write(&mut text, expr, expr.outputs(), |text, _, node, dtype| match node {
            Node::Input(n) if transposed.contains(&(n as usize)) => {
                let cell = format!("square{n}[{}]", cell("x", &format!("(y + idx({r}))")));
                text.name("x", Register::of(dtype).get(cell))
            }
            _ => leaf(&mut frame, text, node, dtype, &at),
        });
        for (o, &id) in expr.outputs().iter().enumerate() {
            let operand = frame.output(o);
            let offset = frame.offset(operand, &at);
            let offset = text.name("p", offset);
            frame.store(&mut text, operand, &offset, values.get(id));
        }
        text.line("}");
    }
    text.line("workgroupBarrier();");
    text.line("}");
    frame.entry("map_by_squares", THREADS, text);
    Program::new(frame, Shape::Squares { side, edge, threads: THREADS })
}
