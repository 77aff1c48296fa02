//! An expression over a strip of elements: what the packing of a matmul calls for its operands, and what its last
//! step calls for finished tiles.
//!
//! ```ignore
//! // Once for each kernel: out[i] = acc[i] + bias[i], both f32.
//! let program = StripProgram::new(&StripSpec {
//!     expr: &epilogue,
//!     isa,
//!     inputs: &[(DType::F32, Lane::Unit)],
//!     acc: Some(Lane::Unit),
//!     outputs: &[Lane::Unit],
//!     lane: None,
//! })?;
//! // Once for each task:
//! program.with(params, |strip| {
//!     // For each strip; pointers to the first element, strides in bytes.
//!     unsafe { strip.run(&[StripPtr::new(bias, 4)], StripPtr::new(tile, 4), &[StripPtr::new(out, 4)], &[], n) };
//! });
//! ```
//!
//! Inputs are numbered as in the expression; one that the expression does not use may be null. Index nodes read the index
//! given with each strip. Elements must be aligned to their type, unless the operand is [`Lane::Step`].

use millstream_core::{DType, Error, Expr, Id, Node, Result, Scalar};

use super::assemble::{Assembler, From, Lane, Writing};
use super::code::{Code, Step};
use super::frame::{Cursor, Frame, NoFolds};
use super::nest::with_scratch;
use crate::simd::Isa;

/// What a strip program is made for.
pub struct StripSpec<'a> {
    /// The expression; without reductions.
    pub expr: &'a Expr,
    /// The instruction set.
    pub isa: Isa,
    /// For each input its element type in memory, and how it lies along the strip.
    pub inputs: &'a [(DType, Lane)],
    /// How the contraction's value lies along the strip, in its dtype's compute type; `None` where there is none.
    pub acc: Option<Lane>,
    /// For each result, how it is written along the strip, in the result's dtype as it stands in memory.
    pub outputs: &'a [Lane],
    /// The dimension along which strips run, for index nodes.
    pub lane: Option<usize>,
}

/// An operand of one strip.
#[derive(Clone, Copy, Debug)]
pub struct StripPtr {
    pointer: *mut u8,
    stride: isize,
    first: usize,
    end: usize,
    fill: u128,
}

impl StripPtr {
    /// The first element and the bytes from each to the next.
    pub fn new(pointer: *const u8, stride: isize) -> StripPtr {
        StripPtr { pointer: pointer.cast_mut(), stride, first: 0, end: usize::MAX, fill: 0 }
    }

    /// Only the elements from `first` to before `end` exist; others read as `fill`. For [`Lane::Step`] operands.
    #[allow(dead_code)] // Packing cuts its strips itself; other walks may not.
    pub fn guarded(self, first: usize, end: usize, fill: &Scalar) -> StripPtr {
        StripPtr { first, end: end.max(first), fill: super::frame::fill_bytes(fill), ..self }
    }
}

/// An expression compiled for strips.
pub struct StripProgram {
    code: Code,
    block: usize,
    has_acc: bool,
    lane: usize,
}

/// The segment that runs once.
pub(crate) const LAUNCH: usize = 0;
/// The segment that runs for each strip.
pub(crate) const STRIP: usize = 1;
/// The segment that runs for each block.
pub(crate) const BLOCK: usize = 2;

/// Bytes that registers may take together: half of a small L1.
pub(crate) const REGISTER_BYTES: usize = 16 << 10;

impl StripProgram {
    /// Compiles an expression.
    pub fn new(spec: &StripSpec<'_>) -> Result<StripProgram> {
        let acc = spec.inputs.len() as u16;
        let inputs = spec.inputs.len() + usize::from(spec.acc.is_some());
        let sources = Sources {
            input: &|i| spec.inputs.get(i as usize).copied(),
            acc: spec.acc.map(|lane| (acc, lane)),
            lane: spec.lane,
        };
        let code = compile(spec.expr, spec.isa, &sources, inputs, spec.outputs, Writing::Direct)?;
        let block = code.block(REGISTER_BYTES);
        Ok(StripProgram { code, block, has_acc: spec.acc.is_some(), lane: spec.lane.unwrap_or(usize::MAX) })
    }

    /// Prepares registers and single values for these parameters and hands out a runner. Cheap, but not free: call it
    /// once for each task, not for each strip.
    pub fn with<R>(&self, params: &[Scalar], f: impl FnOnce(&mut StripRunner<'_>) -> R) -> R {
        let singles = self.code.singles.len() * size_of::<u128>();
        let registers = self.code.scratch(self.block);
        with_scratch(registers + singles, |scratch| {
            // SAFETY: the registers come first and end at a multiple of 64 bytes, the single values follow.
            let mut frame =
                unsafe { Frame::new(&self.code, scratch, self.block, scratch.add(registers).cast(), params) };
            frame.lane = self.lane;
            frame.cursors.resize(self.code.inputs + self.code.outputs, Cursor::plain(0));
            // SAFETY: launch-level steps use only single values.
            unsafe { frame.run(LAUNCH, 1, &mut NoFolds) };
            f(&mut StripRunner { frame, program: self })
        })
    }

    /// The program as text.
    pub fn text(&self) -> String {
        listing(&self.code)
    }
}

/// Runs a strip program.
pub struct StripRunner<'a> {
    frame: Frame<'a>,
    program: &'a StripProgram,
}

impl StripRunner<'_> {
    /// Evaluates `n` elements. `index` is that of the first element, for index nodes; it may be empty if there are none.
    ///
    /// # Safety
    /// Every operand is valid for its elements in the way that the program was made for, of which `acc` may be anything if
    /// the expression does not use it. Outputs do not overlap inputs, except element for element.
    pub unsafe fn run(&mut self, inputs: &[StripPtr], acc: StripPtr, outputs: &[StripPtr], index: &[usize], n: usize) {
        let code = &self.program.code;
        let frame = &mut self.frame;
        let first = code.first_input();
        let last = self.program.has_acc.then_some(acc);
        for (i, p) in inputs.iter().copied().chain(last).chain(outputs.iter().copied()).enumerate() {
            frame.set(first + i, p.pointer);
            frame.cursors[i] = Cursor { stride: p.stride, first: p.first, end: p.end, fill: p.fill };
        }
        frame.index.clear();
        frame.index.extend(index.iter().map(|&i| i as i64));
        frame.done = 0;
        // SAFETY: the caller's promise; blocks are never longer than the frame's.
        unsafe {
            frame.run(STRIP, 1, &mut NoFolds);
            while frame.done < n {
                let count = (n - frame.done).min(self.program.block);
                frame.run(BLOCK, count, &mut NoFolds);
                frame.advance(count);
            }
        }
    }
}

/// Where a map's leaves come from.
pub(crate) struct Sources<'a> {
    /// For each input its dtype in memory, and how it lies along the lanes; `None` if there is no such input.
    pub input: &'a dyn Fn(u16) -> Option<(DType, Lane)>,
    /// The input that holds a contraction's value, and how it lies.
    pub acc: Option<(u16, Lane)>,
    /// The dimension of the lanes.
    pub lane: Option<usize>,
}

/// What a node's value varies with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Launch,
    Strip,
    Block,
}

/// For each node, what its value varies with.
fn levels(expr: &Expr, sources: &Sources<'_>) -> Result<Vec<Level>> {
    let mut levels: Vec<Level> = Vec::with_capacity(expr.nodes().len());
    let lane_level = |lane: Lane| if lane == Lane::Same { Level::Strip } else { Level::Block };
    for (node, _) in expr.nodes() {
        levels.push(match *node {
            Node::Const(_) | Node::Param(_) => Level::Launch,
            Node::Input(i) => {
                let (_, lane) = (sources.input)(i).ok_or_else(|| Error::internal(format!("there is no input {i}")))?;
                lane_level(lane)
            }
            Node::Acc => match sources.acc {
                Some((_, lane)) => lane_level(lane),
                None => return Err(Error::internal("an accumulator outside a contraction")),
            },
            Node::Index(d) if sources.lane == Some(d as usize) => Level::Block,
            Node::Index(_) => Level::Strip,
            Node::Reduce(..) => return Err(Error::internal("a reduction outside a row program")),
            other => other.operands().map(|o| levels[o.at()]).max().unwrap_or(Level::Launch),
        });
    }
    Ok(levels)
}

/// Code for a map: the segments `LAUNCH`, `STRIP` and `BLOCK`.
pub(crate) fn compile(
    expr: &Expr,
    isa: Isa,
    sources: &Sources<'_>,
    inputs: usize,
    outputs: &[Lane],
    writing: Writing,
) -> Result<Code> {
    if expr.outputs().len() != outputs.len() {
        return Err(Error::internal("a program with another number of outputs than its expression"));
    }
    let direct = writing != Writing::Last;
    let levels = levels(expr, sources)?;
    let mut asm = Assembler::new(expr, isa);
    let segments = [asm.segment(), asm.segment(), asm.segment()];
    asm.fuse(|id| levels[id.at()] == Level::Block);
    if let Some(lane) = sources.lane {
        asm.find_runs(lane, |id| levels[id.at()] == Level::Block);
    }
    // Which output a node can be computed into directly.
    let direct_output = |id: Id| {
        let dtype = expr.dtype(id);
        let found = expr.outputs().iter().position(|&o| o == id)?;
        let fits = writing == Writing::Direct && outputs[found] == Lane::Unit && dtype.compute() == dtype;
        fits.then_some(super::At::Output(found as u16))
    };
    let rounding_is_left_to_the_store = |id: Id| {
        // A cast to a half type that only outputs use: storing rounds.
        let half = expr.dtype(id).compute() != expr.dtype(id);
        let source = match expr.node(id) {
            Node::Cast(a) => expr.dtype(a).compute() == DType::F32,
            _ => false,
        };
        half && source && !expr.nodes().iter().any(|(n, _)| n.operands().any(|o| o == id))
    };
    for (i, &(node, dtype)) in expr.nodes().iter().enumerate() {
        let id = Id(i as u32);
        let block = levels[i] == Level::Block;
        let segment = segments[levels[i] as usize];
        if asm.uses(id) == 0 {
            continue;
        }
        match node {
            Node::Const(_) | Node::Param(_) => {
                asm.leaf(id);
            }
            Node::Input(n) => {
                let (memory, lane) = (sources.input)(n).unwrap_or((dtype, Lane::Same));
                asm.input(segment, id, &From { input: n, dtype: memory, lane, direct }, None)?;
            }
            Node::Acc => {
                if let Some((n, lane)) = sources.acc {
                    asm.input(segment, id, &From { input: n, dtype: dtype.compute(), lane, direct }, None)?;
                }
            }
            Node::Index(d) => {
                if block {
                    let dst = asm.register(8);
                    asm.push(segment, Step::Iota { dst });
                    asm.set(id, dst);
                } else {
                    let dst = asm.single(0);
                    asm.push(segment, Step::IndexOf { dim: d, dst });
                    asm.set(id, dst);
                }
            }
            Node::Cast(a) if rounding_is_left_to_the_store(id) => {
                let at = asm.location(a);
                asm.set(id, at);
            }
            _ if asm.is_fused(id) => {}
            _ if asm.is_run(id) => asm.run_of_words([segments[STRIP], segment], id, direct_output(id))?,
            _ => {
                let dst = if block { direct_output(id) } else { None };
                asm.compute(segment, id, block, dst)?;
            }
        }
    }
    for (o, (&id, &lane)) in expr.outputs().iter().zip(outputs).enumerate() {
        asm.output(segments[BLOCK], id, o as u16, lane, writing)?;
    }
    asm.finish(inputs, outputs.len(), 0)
}

/// A map's code as text.
pub(crate) fn listing(code: &Code) -> String {
    let mut out = String::new();
    code.listing_singles("", &mut out);
    code.listing(LAUNCH, "", &mut out);
    out += "for each strip:\n";
    code.listing(STRIP, "  ", &mut out);
    out += &format!("  for each block of {}:\n", code.block(REGISTER_BYTES));
    code.listing(BLOCK, "    ", &mut out);
    out
}
