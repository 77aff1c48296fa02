//! Maps: an expression at every index.
//!
//! A launch picks the dimension along which its program's lanes run, walks the others by counters, and cuts the work
//! into tasks by shape alone, so that results never depend on the number of threads. Small work runs on the calling
//! thread.
//!
//! - `transpose`: copies between layouts whose neighbours differ. `tiled`: maps that read such an input.

#[cfg(test)]
mod tests;
mod tiled;
pub(crate) mod transpose;

use std::sync::{Arc, OnceLock};

use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::how::Schedule;
use millstream_core::how::Walks;
use millstream_core::{Body, Dims, Error, Expr, Node, Op, Result, Scalar};
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::math::BlockFn;
use crate::program::strip::{BLOCK, LAUNCH, REGISTER_BYTES, STRIP, Sources, compile, listing};
use crate::program::{
    Bases, Code, Cursor, Frame, Lane, NoFolds, Operand, Step, Writing, bases, fence, may_be_direct, seek, step,
    with_scratch,
};
use crate::stream::{CpuLaunch, Run};
use tiled::Tiled;
use transpose::Transpose;

/// A map compiled for the CPU.
pub(crate) struct MapKernel {
    machine: Arc<Machine>,
    text: String,
}

impl MapKernel {
    /// The kernel for all operations with this one's kernel key.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(op: &Op, machine: Arc<Machine>) -> Result<Arc<dyn Kernel>> {
        let text = match plan(op, &machine)? {
            MapPlan::Walk(walk) => format!("map along dimension {:?}\n{}", walk.lane, listing(&walk.code)),
            MapPlan::Transpose(t) => t.text(),
        };
        Ok(Arc::new(MapKernel { machine, text }))
    }
}

impl Kernel for MapKernel {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        Ok(Arc::new(CpuLaunch(match plan(op, &self.machine)? {
            MapPlan::Walk(walk) => Arc::new(*walk),
            MapPlan::Transpose(transpose) => Arc::new(*transpose),
        })))
    }
}

enum MapPlan {
    Walk(Box<MapWalk>),
    Transpose(Box<Transpose>),
}

fn plan(op: &Op, machine: &Arc<Machine>) -> Result<MapPlan> {
    let Body::Map(expr) = &op.body else {
        return Err(Error::internal(format!("a {} operation is no map", op.name())));
    };
    if let Some(t) = Transpose::new(op, expr, machine) {
        return Ok(MapPlan::Transpose(Box::new(t)));
    }
    Ok(MapPlan::Walk(Box::new(MapWalk::new(op, expr, machine)?)))
}

/// A map that walks its index space strip by strip.
struct MapWalk {
    machine: Arc<Machine>,
    expr: Expr,
    dims: Dims,
    /// The dimension of the lanes; `None` for an index space without dimensions.
    lane: Option<usize>,
    /// The other dimensions, outermost first.
    outer: SmallVec<[usize; 6]>,
    operands: Vec<Operand>,
    inputs: usize,
    code: Code,
    block: usize,
    /// For operands that kernels must not touch in place.
    careful: OnceLock<Option<Code>>,
    /// Lanes of one piece of a strip, and pieces of a strip.
    piece: usize,
    pieces: usize,
    /// Pieces, over all strips, of one task.
    per_task: usize,
    tasks: usize,
    streams: bool,
    uses_index: bool,
    /// Inputs that are transposed tile by tile.
    tiled: Option<Tiled>,
    /// The whole map as one kernel call on memory as it lies, if that is what it is.
    one_call: Option<OneCall>,
}

/// One kernel call for all elements.
struct OneCall {
    f: BlockFn,
    n: usize,
    /// Where each pointer comes from, the destination first.
    pointers: [Pointer; 4],
}

#[derive(Clone, Copy)]
enum Pointer {
    None,
    Operand(usize),
    Single(usize),
}

/// Single values that a call of this kind may use.
const FEW_SINGLES: usize = 4;

impl OneCall {
    /// The code as one call over `n` elements, if it is that.
    fn new(code: &Code, n: usize) -> Option<OneCall> {
        let [Step::Call { f, dst, src: [a, b, c], .. }] = *code.segments[BLOCK] else { return None };
        let idle = code.segments[LAUNCH].is_empty() && code.segments[STRIP].is_empty();
        if !idle || code.registers != 0 || code.singles.len() > FEW_SINGLES {
            return None;
        }
        let pointers = [dst, a, b, c].map(|slot| match slot as usize {
            s if s >= code.slots() => Pointer::None,
            s if s >= code.first_input() => Pointer::Operand(s - code.first_input()),
            s => Pointer::Single(s - code.first_single()),
        });
        Some(OneCall { f, n, pointers })
    }

    fn run(&self, code: &Code, bases: &Bases, params: &[Scalar]) {
        let mut singles = [0u128; FEW_SINGLES];
        code.fill_singles(&mut singles, params);
        let [dst, a, b, c] = self.pointers.map(|p| match p {
            Pointer::None => std::ptr::null_mut(),
            Pointer::Operand(i) => bases[i].first.0,
            Pointer::Single(i) => (&raw mut singles[i]).cast::<u8>(),
        });
        // SAFETY: the dispatcher checked all bindings against the operation; the operands are plain and without gaps.
        unsafe { (self.f)(dst, a, b, c, self.n) };
    }
}

impl MapWalk {
    fn new(op: &Op, expr: &Expr, machine: &Arc<Machine>) -> Result<MapWalk> {
        let operands: Vec<Operand> = op.inputs.iter().chain(&op.outputs).map(Operand::new).collect();
        let lane = best_lane(&machine.walks, &op.dims, &operands, op.inputs.len(), expr.nodes().len());
        let outer: SmallVec<[usize; 6]> = (0..op.dims.len()).filter(|&d| Some(d) != lane).collect();
        let n = lane.map_or(1, |d| op.dims[d]);
        let strips: usize = outer.iter().map(|&d| op.dims[d]).product();
        // Whole outputs that no cache holds are written past the caches.
        let written: usize = op.outputs.iter().enumerate().map(|(o, a)| op.output_len(o) * a.dtype.size()).sum();
        let streams = written > machine.topology.l3().size && n * 4 >= 4096;
        let writing = if streams { Writing::Stream } else { Writing::Direct };
        let tiled = Tiled::new(machine.isa, &op.dims, &operands, op.inputs.len(), lane);
        let code = code(expr, machine, &operands, op.inputs.len(), lane, n, tiled.as_ref(), writing)?;
        let block = match code.registers {
            0 if code.segments[BLOCK].len() <= 1 => usize::MAX,
            _ => code.block(REGISTER_BYTES),
        };
        let is_flat = outer.is_empty() && operands.iter().all(Operand::is_plain) && n > 0;
        let one_call = if is_flat { OneCall::new(&code, n) } else { None };
        let task = machine.task;
        let (piece, pieces) = if n > 2 * task { (task, n.div_ceil(task)) } else { (n.max(1), 1) };
        let per_task = (task / piece.max(1)).max(1);
        Ok(MapWalk {
            machine: machine.clone(),
            expr: expr.clone(),
            dims: op.dims.clone(),
            lane,
            outer,
            inputs: op.inputs.len(),
            operands,
            code,
            block,
            careful: OnceLock::new(),
            piece,
            pieces,
            per_task,
            tasks: if op.dims.contains(&0) { 0 } else { (strips * pieces).div_ceil(per_task) },
            streams,
            uses_index: expr.nodes().iter().any(|(n, _)| matches!(n, Node::Index(_))),
            tiled,
            one_call,
        })
    }

    /// The code that reads every operand before it writes any, from any address.
    fn careful(&self) -> Result<&Code> {
        let made = self.careful.get_or_init(|| {
            let n = self.lane.map_or(1, |d| self.dims[d]);
            let tiled = self.tiled.as_ref();
            code(&self.expr, &self.machine, &self.operands, self.inputs, self.lane, n, tiled, Writing::Last).ok()
        });
        made.as_ref().ok_or_else(|| Error::internal("a map could not be compiled a second time"))
    }

    /// Runs the pieces from number `from` to before `to`.
    fn pieces(&self, code: &Code, block: usize, bases: &Bases, params: &[Scalar], from: usize, to: usize) {
        let singles = code.singles.len() * size_of::<u128>();
        let registers = if code.registers == 0 { 0 } else { code.scratch(block) };
        with_scratch(registers + singles, |scratch| {
            // SAFETY: the registers come first and end at a multiple of 64 bytes, the single values follow.
            let mut frame = unsafe { Frame::new(code, scratch, block, scratch.wrapping_add(registers).cast(), params) };
            // SAFETY: launch-level steps use only single values.
            unsafe { frame.run(LAUNCH, 1, &mut NoFolds) };
            let n = self.lane.map_or(1, |d| self.dims[d]);
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            seek(&mut index, &self.dims, &self.outer, from / self.pieces);
            let mut piece = from % self.pieces;
            frame.lane = self.lane.unwrap_or(usize::MAX);
            frame.cursors.resize(self.operands.len(), Cursor::plain(0));
            for _ in from..to {
                let start = piece * self.piece;
                let count = self.piece.min(n - start);
                if let Some(d) = self.lane {
                    index[d] = start;
                }
                self.strip(&mut frame, bases, &index, count, block, None);
                piece += 1;
                if piece == self.pieces {
                    piece = 0;
                    step(&mut index, &self.dims, &self.outer);
                }
            }
        });
        if self.streams {
            fence();
        }
    }

    /// Runs `n` lanes from an index on. The bases of transposed inputs already point there.
    #[inline]
    fn strip(
        &self,
        frame: &mut Frame<'_>,
        bases: &Bases,
        index: &[usize],
        n: usize,
        block: usize,
        tiled: Option<&Tiled>,
    ) {
        let first = frame.code.first_input();
        for (i, (o, b)) in self.operands.iter().zip(bases).enumerate() {
            if tiled.is_some_and(|t| t.has(i)) {
                frame.set(first + i, b.first.0);
                frame.cursors[i] = Cursor::plain(o.dtype.size() as isize);
                continue;
            }
            let at = b.first.offset(o.offset(index));
            frame.set(first + i, at);
            frame.cursors[i] = if o.is_plain() {
                Cursor::plain(self.lane.map_or(0, |d| o.strides[d]))
            } else {
                o.cursor(self.lane, index, n, at, b)
            };
        }
        if self.uses_index {
            frame.index.clear();
            frame.index.extend(index.iter().map(|&i| i as i64));
        }
        frame.done = 0;
        // SAFETY: the dispatcher checked all bindings against the operation, guarded operands have their lanes cut to
        // what exists, and blocks are no longer than the frame's.
        unsafe {
            frame.run(STRIP, 1, &mut NoFolds);
            loop {
                let count = (n - frame.done).min(block);
                frame.run(BLOCK, count, &mut NoFolds);
                if frame.done + count == n {
                    break;
                }
                frame.advance(count);
            }
        }
    }
}

impl Run for MapWalk {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        if self.tasks == 0 {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        let (code, block) = if may_be_direct(&bases, &self.operands, self.inputs) {
            if let (Some(call), 1) = (&self.one_call, self.tasks) {
                call.run(&self.code, &bases, bindings.params);
                return Ok(());
            }
            (&self.code, self.block)
        } else {
            let code = self.careful()?;
            (code, code.block(REGISTER_BYTES))
        };
        if let Some(tiled) = &self.tiled {
            let tiles = self.tile_count(tiled);
            let per_task = (self.machine.task / (tiled::LANES * tiled.rows)).max(1);
            self.machine.workers.run(tiles.div_ceil(per_task), &|t| {
                let range = (t * per_task, tiles.min((t + 1) * per_task));
                self.tiles(tiled, (code, block), &bases, bindings.params, range);
            });
            return Ok(());
        }
        let pieces = self.pieces * self.outer.iter().map(|&d| self.dims[d]).product::<usize>();
        let params = bindings.params;
        if self.tasks == 1 {
            self.pieces(code, block, &bases, params, 0, pieces);
        } else {
            self.machine.workers.run(self.tasks, &|t| {
                let from = t * self.per_task;
                self.pieces(code, block, &bases, params, from, pieces.min(from + self.per_task));
            });
        }
        Ok(())
    }
}

#[allow(clippy::too_many_arguments)] // A map's parts, as they stand in a walk.
fn code(
    expr: &Expr,
    machine: &Machine,
    operands: &[Operand],
    inputs: usize,
    lane: Option<usize>,
    n: usize,
    tiled: Option<&Tiled>,
    writing: Writing,
) -> Result<Code> {
    let lane_of = |i: u16, o: &Operand| match tiled {
        Some(t) if t.has(i as usize) => Lane::Unit,
        _ => o.lane(lane, n),
    };
    let sources =
        Sources { input: &|i| operands[..inputs].get(i as usize).map(|o| (o.dtype, lane_of(i, o))), acc: None, lane };
    let outputs: SmallVec<[Lane; 4]> = operands[inputs..].iter().map(|o| output_lane(o, lane)).collect();
    compile(expr, machine.isa, &sources, inputs, &outputs, writing)
}

/// How an output is written along the lanes. One that ignores them is written again and again with its last value.
fn output_lane(operand: &Operand, lane: Option<usize>) -> Lane {
    match lane {
        Some(d) if operand.strides[d] != operand.dtype.size() as isize => Lane::Step,
        _ => Lane::Unit,
    }
}

/// The dimension along which lanes cost the least.
fn best_lane(walks: &Walks, dims: &[usize], operands: &[Operand], inputs: usize, nodes: usize) -> Option<usize> {
    let element = |o: &Operand, d: usize, output: bool| match o.ignores(d) && !output {
        true => 0.0,
        false => walks.element(o.strides[d], o.dtype.size()),
    };
    let cost = |d: usize| {
        let each: f64 = operands.iter().enumerate().map(|(i, o)| element(o, d, i >= inputs)).sum();
        walks.map(each, nodes, dims[d])
    };
    (0..dims.len()).rev().min_by(|&a, &b| cost(a).total_cmp(&cost(b)))
}
