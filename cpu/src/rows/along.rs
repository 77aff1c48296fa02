//! Row after row: the lanes run along the row.

use std::sync::{Arc, OnceLock};

use millstream_core::backend::Bindings;
use millstream_core::{DType, Dims, Error, Expr, Node, Result, Scalar};
use smallvec::SmallVec;

use super::RowShape;
use super::build::{Built, Request, build};
use super::fold::{Cascade, FOLD_BLOCK, FOLD_SPAN, Folds, Partial};
use crate::backend::Machine;
use crate::prefetch::prefetch_bytes;
use crate::program::strip::REGISTER_BYTES;
use crate::program::{
    Base, Bases, Cursor, Frame, Lane, Operand, bases, fence, may_be_direct, seek, step, with_scratch,
};
use crate::shared::Shared;
use crate::stream::Run;

/// Rows of at least this many tasks are cut into pieces, if there are few of them.
const LONG: usize = 4;
/// So many rows are not few.
const MANY: usize = 64;
/// Elements of a block before which as many of the next row are prefetched. Processors drop requests beyond some dozens of
/// cache lines.
const AHEAD: usize = 512;

pub(super) struct Along {
    machine: Arc<Machine>,
    expr: Expr,
    dims: Dims,
    inner: usize,
    varies: Vec<bool>,
    operands: Vec<Operand>,
    inputs: usize,
    pub(super) lane: usize,
    /// The row's dimensions beside the lanes'.
    others: SmallVec<[usize; 6]>,
    outer: SmallVec<[usize; 6]>,
    /// The index in the row that one step along each dimension makes.
    indices: SmallVec<[i64; 6]>,
    pub(super) built: Built,
    careful: OnceLock<Option<Built>>,
    rows: usize,
    /// Strips of a row.
    strips: usize,
    keeps: bool,
    is_long: bool,
    /// Whether results for each element are written past the caches.
    streams: bool,
    uses_index: bool,
    /// The whole program is one fold of an input in place, whose result is stored as it is: which input.
    bare_fold: Option<usize>,
    /// Nanoseconds that an element is expected to take.
    each: f64,
    /// Inputs whose next row is prefetched while a row is computed: the input, and the bytes from row to row.
    ahead: SmallVec<[(usize, isize); 4]>,
}

/// A piece of a row: lanes of one strip.
#[derive(Clone, Copy)]
struct Piece {
    strip: usize,
    start: usize,
    count: usize,
}

impl Along {
    pub(super) fn new(shape: &RowShape<'_>, lane: usize, machine: &Arc<Machine>) -> Result<Along> {
        let op = shape.op;
        let expr = op.exprs().next().ok_or_else(|| Error::internal("a row program without an expression"))?;
        let row: usize = op.dims[shape.inner..].iter().product();
        let rows: usize = op.dims[..shape.inner].iter().product();
        let is_long = row >= LONG * machine.task && rows < MANY;
        let others: SmallVec<[usize; 6]> = (shape.inner..op.dims.len()).filter(|&d| d != lane).collect();
        let mut indices: SmallVec<[i64; 6]> = SmallVec::from_elem(0, op.dims.len());
        let mut next = 1;
        for d in (shape.inner..op.dims.len()).rev() {
            indices[d] = next;
            next *= op.dims[d].max(1) as i64;
        }
        // Whole outputs that no cache holds.
        let written: usize = op.outputs.iter().enumerate().map(|(o, a)| op.output_len(o) * a.dtype.size()).sum();
        let ahead = match shape.inner.checked_sub(1) {
            Some(before) => (0..op.inputs.len())
                .map(|i| (i, &shape.operands[i]))
                .filter(|(_, o)| o.lane(Some(lane), op.dims[lane]) == Lane::Unit && o.strides[before] != 0)
                .map(|(i, o)| (i, o.strides[before]))
                .collect(),
            None => SmallVec::new(),
        };
        let mut new = Along {
            machine: machine.clone(),
            expr: expr.clone(),
            dims: op.dims.clone(),
            inner: shape.inner,
            varies: shape.varies.clone(),
            operands: shape.operands.clone(),
            inputs: op.inputs.len(),
            lane,
            strips: others.iter().map(|&d| op.dims[d]).product(),
            others,
            outer: (0..shape.inner).collect(),
            indices,
            built: Built::empty()?,
            careful: OnceLock::new(),
            rows,
            keeps: !is_long,
            is_long,
            streams: written > machine.topology.l3().size && op.dims[lane] >= 1024,
            ahead: if row * 4 >= 4096 { ahead } else { SmallVec::new() },
            bare_fold: None,
            each: shape.each,
            uses_index: expr.nodes().iter().any(|(n, _)| matches!(n, Node::Index(_))),
        };
        new.built = new.build(false)?;
        new.bare_fold = new.find_bare_fold();
        let cached: usize = new.built.cached.iter().map(|k| k.size * row).sum();
        if cached > machine.topology.l2().size / 2 {
            new.keeps = false;
            new.built = new.build(false)?;
        }
        Ok(new)
    }

    fn build(&self, careful: bool) -> Result<Built> {
        build(&Request {
            expr: &self.expr,
            isa: self.machine.isa,
            operands: &self.operands,
            inputs: self.inputs,
            varies: &self.varies,
            inner: self.inner,
            dims: &self.dims,
            lane: self.lane,
            keep: self.keeps,
            careful,
            stream: self.streams,
        })
    }

    fn careful(&self) -> Result<&Built> {
        let made = self.careful.get_or_init(|| self.build(true).ok());
        made.as_ref().ok_or_else(|| Error::internal("a row program could not be compiled a second time"))
    }

    /// The input, if a row is one fold of it and nothing else.
    fn find_bare_fold(&self) -> Option<usize> {
        let (&[id], [fold]) = (self.expr.outputs(), &self.built.folds[..]) else { return None };
        let Node::Reduce(_, of) = self.expr.node(id) else { return None };
        let Node::Input(input) = self.expr.node(of) else { return None };
        let input = usize::from(input);
        let (from, to) = (self.operands.get(input)?, self.operands.get(self.inputs)?);
        let stored = if fold.is_index() { DType::I64 } else { fold.dtype };
        let n = self.dims[self.lane];
        let in_place = from.dtype == fold.dtype && from.lane(Some(self.lane), n) == Lane::Unit && to.is_plain();
        let one_call = self.strips == 1 && self.indices[self.lane] == 1 && (1..=FOLD_SPAN).contains(&n);
        // A result may also be written along its row, once for each element.
        let once = n == 1 || to.strides.get(self.lane) == Some(&0);
        (in_place && once && to.dtype == stored && one_call && self.built.stages.first()?.is_one_fold).then_some(input)
    }

    /// Rows from one on, each of which is one fold.
    fn bare_folds(&self, input: usize, bases: &Bases, from: usize, to: usize) {
        let fold = &self.built.folds[0];
        let (x, out) = (&self.operands[input], &self.operands[self.inputs]);
        let (n, size) = (self.dims[self.lane], out.dtype.size());
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        seek(&mut index, &self.dims, &self.outer, from);
        let beyond = |ahead: isize| n * x.dtype.size() >= AHEAD && ahead != 0;
        let ahead = self.inner.checked_sub(1).map_or(0, |d| x.strides[d]);
        for _ in from..to {
            let row = bases[input].first.offset(x.offset(&index));
            if beyond(ahead) {
                // A fold ends with a wait for its last elements, in which the next row's first ones can arrive.
                prefetch_bytes(row.wrapping_offset(ahead), 4 * AHEAD);
            }
            let place = bases[self.inputs].first.offset(out.offset(&index));
            // SAFETY: the dispatcher checked all bindings against the operation: a row has `n` elements and a result of this size.
            unsafe {
                let result = fold.whole(row, n);
                std::ptr::copy_nonoverlapping((&raw const result).cast::<u8>(), place, size);
            }
            step(&mut index, &self.dims, &self.outer);
        }
    }

    fn row_length(&self) -> usize {
        self.strips * self.dims[self.lane]
    }

    /// Calls `f` with a frame for this code, its registers, and memory for cached rows.
    fn with_frame<R>(&self, built: &Built, params: &[Scalar], f: impl FnOnce(&mut Worker<'_>) -> R) -> R {
        let code = &built.code;
        let block = code.block(REGISTER_BYTES).min(FOLD_BLOCK);
        let registers = code.scratch(block);
        let singles = (code.singles.len() * size_of::<u128>()).next_multiple_of(64);
        let row = self.row_length();
        let cached: usize = built.cached.iter().map(|k| (k.size * row).next_multiple_of(64)).sum();
        with_scratch(registers + singles + cached, |scratch| {
            // SAFETY: registers, single values and cached rows follow each other in the scratch memory.
            let mut frame = unsafe { Frame::new(code, scratch, block, scratch.wrapping_add(registers).cast(), params) };
            frame.lane = self.lane;
            // Of operands without guards, they never change.
            frame.cursors.extend(self.operands.iter().map(|o| Cursor::plain(o.strides[self.lane])));
            let is_plain = self.strips == 1 && !self.uses_index && self.operands.iter().all(Operand::is_plain);
            let mut at = scratch.wrapping_add(registers + singles);
            let mut cached = SmallVec::new();
            for k in &built.cached {
                cached.push((at, k.size));
                at = at.wrapping_add((k.size * row).next_multiple_of(64));
            }
            let index = SmallVec::from_elem(0, self.dims.len());
            let folds = Folds::new(&built.folds);
            f(&mut Worker { along: self, built, frame, folds, index, cached, block, is_plain, starts: SmallVec::new() })
        })
    }

    fn rows(&self, built: &Built, bases: &Bases, params: &[Scalar], from: usize, to: usize) {
        self.with_frame(built, params, |w| {
            w.launch();
            seek(&mut w.index, &self.dims, &self.outer, from);
            for _ in from..to {
                w.row(bases);
                step(&mut w.index, &self.dims, &self.outer);
            }
        });
        if self.streams {
            fence();
        }
    }

    /// Each row in pieces, pass after pass, the pieces of a pass at once.
    fn long_rows(&self, built: &Built, bases: &Bases, params: &[Scalar]) {
        let n = self.dims[self.lane];
        let task = self.machine.task;
        let (piece, pieces) = if n > task { (task, n.div_ceil(task)) } else { (n, 1) };
        let total = self.strips * pieces;
        let per_task = (task / piece).max(1);
        let tasks = total.div_ceil(per_task);
        let mut partials: Vec<Option<Partial>> = vec![None; tasks * built.folds.len()];
        self.with_frame(built, params, |w| {
            w.launch();
            for row in 0..self.rows {
                seek(&mut w.index, &self.dims, &self.outer, row);
                for s in 0..built.stages.len() {
                    w.row_values(s, bases);
                    if !built.stages[s].has_pass {
                        continue;
                    }
                    let out = Shared(partials.as_mut_ptr());
                    let (index, singles) = (&w.index, w.singles());
                    self.machine.workers.run(tasks, &|t| {
                        self.with_frame(built, params, |w| {
                            w.index.copy_from_slice(index);
                            w.take_singles(&singles);
                            for p in t * per_task..total.min((t + 1) * per_task) {
                                let start = p % pieces * piece;
                                let count = piece.min(n - start);
                                w.piece(s, bases, Piece { strip: p / pieces, start, count });
                            }
                            for (f, state) in w.folds.states.iter().enumerate() {
                                // SAFETY: every task has indices of its own, all inside the vector.
                                unsafe { *out.at(t * built.folds.len() + f) = state.total(&built.folds[f]) };
                            }
                        });
                        if self.streams {
                            fence();
                        }
                    });
                    for (f, &(stage, single)) in built.fold_results.iter().enumerate() {
                        if stage == s {
                            let mut all = Cascade::new();
                            for t in 0..tasks {
                                if let Some(p) = partials[t * built.folds.len() + f] {
                                    all.push(&built.folds[f], p);
                                }
                            }
                            w.set_single(single, all.result(&built.folds[f]));
                        }
                    }
                }
            }
        });
    }
}

impl Run for Along {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        let built = if may_be_direct(&bases, &self.operands, self.inputs) { &self.built } else { self.careful()? };
        if self.is_long {
            self.long_rows(built, &bases, bindings.params);
            return Ok(());
        }
        let per_task = self.machine.parts_of_task(self.rows, self.each * self.row_length() as f64);
        let tasks = self.rows.div_ceil(per_task);
        let direct = std::ptr::eq(built, &raw const self.built);
        if let Some(input) = self.bare_fold.filter(|_| direct) {
            self.machine.workers.run(tasks, &|t| {
                self.bare_folds(input, &bases, t * per_task, self.rows.min((t + 1) * per_task));
            });
            return Ok(());
        }
        self.machine.workers.run(tasks, &|t| {
            self.rows(built, &bases, bindings.params, t * per_task, self.rows.min((t + 1) * per_task));
        });
        Ok(())
    }
}

/// One thread's state.
struct Worker<'a> {
    along: &'a Along,
    built: &'a Built,
    frame: Frame<'a>,
    folds: Folds<'a>,
    index: SmallVec<[usize; 6]>,
    cached: SmallVec<[(*mut u8, usize); 2]>,
    block: usize,
    /// A row is one strip, and operands are read and written wherever it is.
    is_plain: bool,
    /// Where the row's elements begin, if so.
    starts: SmallVec<[*mut u8; 6]>,
}

impl Worker<'_> {
    fn launch(&mut self) {
        // SAFETY: launch-level steps use only single values.
        unsafe { self.frame.run(self.built.launch, 1, &mut self.folds) };
    }

    /// Finds where the current row begins.
    fn start(&mut self, bases: &[Base]) {
        if self.is_plain {
            self.index[self.along.inner..].fill(0);
            let operands = self.along.operands.iter().zip(bases);
            self.starts.clear();
            self.starts.extend(operands.map(|(o, b)| b.first.offset(o.offset(&self.index))));
        }
    }

    /// Points all operands at the row's beginning.
    #[inline]
    fn aim_at_start(&mut self) {
        let first = self.frame.code.first_input();
        for (i, &at) in self.starts.iter().enumerate() {
            self.frame.set(first + i, at);
        }
        self.frame.done = 0;
    }

    /// Points all operands at the current index, for `n` lanes or for one value.
    fn aim(&mut self, bases: &[Base], lane: Option<usize>, n: usize) {
        let first = self.frame.code.first_input();
        for (i, (o, b)) in self.along.operands.iter().zip(bases).enumerate() {
            let at = b.first.offset(o.offset(&self.index));
            self.frame.set(first + i, at);
            self.frame.cursors[i] = if o.is_plain() {
                Cursor::plain(lane.map_or(0, |d| o.strides[d]))
            } else {
                o.cursor(lane, &self.index, n, at, b)
            };
        }
        if self.along.uses_index {
            self.frame.index.clear();
            self.frame.index.extend(self.index.iter().map(|&i| i as i64));
        }
        self.frame.done = 0;
    }

    /// The values of the row that a stage begins with.
    fn row_values(&mut self, s: usize, bases: &[Base]) {
        let segment = self.built.stages[s].row_single;
        if self.frame.code.segments[segment].is_empty() {
            return;
        }
        if self.starts.is_empty() {
            self.index[self.along.inner..].fill(0);
            self.aim(bases, None, 1);
        } else {
            self.aim_at_start();
        }
        // SAFETY: the dispatcher checked all bindings; a row has one value of each of these.
        unsafe { self.frame.run(segment, 1, &mut self.folds) };
    }

    fn row(&mut self, bases: &[Base]) {
        self.start(bases);
        for s in 0..self.built.stages.len() {
            self.row_values(s, bases);
            if !self.built.stages[s].has_pass {
                continue;
            }
            self.folds.clear();
            let count = self.along.dims[self.along.lane];
            if count > 0 {
                for strip in 0..self.along.strips {
                    self.piece(s, bases, Piece { strip, start: 0, count });
                }
            }
            for (f, &(stage, single)) in self.built.fold_results.iter().enumerate() {
                if stage == s {
                    let result = self.folds.states[f].result(&self.built.folds[f]);
                    self.set_single(single, result);
                }
            }
        }
    }

    /// One pass over a piece of the row.
    fn piece(&mut self, s: usize, bases: &[Base], piece: Piece) {
        let along = self.along;
        let stage = &self.built.stages[s];
        self.folds.step = along.indices[along.lane];
        self.folds.index = 0;
        if self.starts.is_empty() {
            self.index[along.inner..].fill(0);
            seek(&mut self.index, &along.dims, &along.others, piece.strip);
            self.index[along.lane] = piece.start;
            self.aim(bases, Some(along.lane), piece.count);
            self.folds.index = self.index.iter().zip(&along.indices).map(|(&i, &p)| i as i64 * p).sum();
        } else {
            self.aim_at_start();
        }
        let (first, before) = (self.frame.code.first_cached(), piece.strip * along.dims[along.lane] + piece.start);
        for (k, &(at, size)) in self.cached.iter().enumerate() {
            self.frame.set(first + k, at.wrapping_add(before * size));
        }
        let inputs = self.frame.code.first_input();
        // The first pass waits for memory; the second has time to ask for the next row.
        let asks_ahead = s == 1 && !along.ahead.is_empty();
        let block = match stage.is_one_fold {
            _ if asks_ahead => self.block.min(AHEAD),
            true => FOLD_SPAN,
            false => self.block,
        };
        // SAFETY: the dispatcher checked all bindings against the operation, guarded operands have their lanes cut to
        // what exists, cached rows have room for the row, and blocks are no longer than the frame's.
        unsafe {
            self.frame.run(stage.each_single, 1, &mut self.folds);
            loop {
                let count = (piece.count - self.frame.done).min(block);
                if asks_ahead {
                    for &(i, distance) in &along.ahead {
                        let next = self.frame.pointer(inputs + i).wrapping_offset(distance);
                        prefetch_bytes(next, count * along.operands[i].dtype.size());
                    }
                }
                self.frame.run(stage.each_block, count, &mut self.folds);
                if self.frame.done + count == piece.count {
                    break;
                }
                self.frame.advance(count);
                for (k, &(_, size)) in self.cached.iter().enumerate() {
                    self.frame.set(first + k, self.frame.pointer(first + k).wrapping_add(count * size));
                }
                self.folds.index += count as i64 * self.folds.step;
            }
        }
    }

    fn single(&self, number: usize) -> *mut u128 {
        self.frame.pointer(self.frame.code.first_single() + number).cast()
    }

    fn set_single(&mut self, number: u16, value: u128) {
        // SAFETY: a single value of this frame.
        unsafe { self.single(number as usize).write(value) };
    }

    fn singles(&self) -> Vec<u128> {
        // SAFETY: single values of this frame.
        (0..self.frame.code.singles.len()).map(|i| unsafe { self.single(i).read() }).collect()
    }

    fn take_singles(&mut self, from: &[u128]) {
        for (i, v) in from.iter().enumerate() {
            self.set_single(i as u16, *v);
        }
    }
}
