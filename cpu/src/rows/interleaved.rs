//! Many rows at once: each lane is a row of its own.
//!
//! This serves rows whose elements lie far apart while neighbouring rows are adjacent (the sum over the columns of a
//! matrix), and rows too short to fill vectors. Short rows that are contiguous are transposed, block by block, into fast memory
//! and their results back out of it (`tiles`), so that the code reads and writes whole vectors of rows.

use std::sync::{Arc, OnceLock};

use millstream_core::backend::Bindings;
use millstream_core::{Dims, Error, Expr, Node, Result, Scalar};
use smallvec::SmallVec;

use super::RowShape;
use super::build::{Built, Request, STACK, Stage, build};
use super::tiles::{LEAST_LANES, Tiles, most_lanes};
use crate::backend::Machine;
use crate::program::{Base, Bases, Cursor, Frame, NoFolds, Operand, bases, may_be_direct, seek, step, with_scratch};
use crate::shared::Shared;
use crate::stream::Run;

/// Bytes that registers may take: accumulators that are added to for every element of the rows should stay near.
const REGISTERS: usize = 24 << 10;
/// The same where they are added to for every [`STACK`] elements: longer runs of memory are worth more.
const STACKED: usize = 64 << 10;
/// Bytes that cached values may take.
const CACHED_BYTES: usize = 128 << 10;

pub(super) struct Interleaved {
    machine: Arc<Machine>,
    expr: Expr,
    dims: Dims,
    inner: usize,
    varies: Vec<bool>,
    operands: Vec<Operand>,
    inputs: usize,
    pub(super) lane: usize,
    /// The dimensions before the row's beside the lanes'.
    others: SmallVec<[usize; 6]>,
    row_dims: SmallVec<[usize; 6]>,
    row: usize,
    pub(super) built: Built,
    careful: OnceLock<Option<Built>>,
    keeps: bool,
    /// Pieces into which long rows are cut; 1 if they are not.
    pieces: usize,
    /// Elements of every row that are taken at once, a power of two: where few rows are adjacent and their next elements
    /// right behind, several elements fill the lanes. Their results are joined after the pass.
    group: usize,
    uses_index: bool,
    /// The input comes from memory, or from a cache that cores share.
    far: bool,
    /// What is transposed before the first pass and after the last.
    tiles: Option<Tiles>,
    /// Nanoseconds that an element is expected to take.
    each: f64,
}

/// The most pieces of a row: their results are joined one after the other.
const MOST_PIECES: usize = 64;
/// The same where indices are found: the first elements of each piece are mostly better than those before.
const FEW_PIECES: usize = 8;
/// The fewest elements of a piece.
const LEAST_PIECE: usize = 64;
/// The most elements of a row that are taken at once.
const MOST_GROUPED: usize = 64;
/// Rows in so many blocks give enough tasks as they are.
const MANY_BLOCKS: usize = 16;
/// Tasks for each thread, so that fast ones take over what slow ones would finish late.
const TASKS_EACH: usize = 4;
/// Lanes of the widest vector.
const VECTOR: usize = 16;

impl Interleaved {
    pub(super) fn new(shape: &RowShape<'_>, lane: usize, machine: &Arc<Machine>) -> Result<Interleaved> {
        let op = shape.op;
        let expr = op.exprs().next().ok_or_else(|| Error::internal("a row program without an expression"))?;
        let mut operands = shape.operands.clone();
        let l2 = machine.topology.l2().size;
        let tiles = Tiles::new(machine.isa, &mut operands, op.inputs.len(), &op.dims, [shape.inner, lane], l2);
        let mut new = Interleaved {
            machine: machine.clone(),
            expr: expr.clone(),
            dims: op.dims.clone(),
            inner: shape.inner,
            varies: shape.varies.clone(),
            operands,
            inputs: op.inputs.len(),
            lane,
            others: (0..shape.inner).filter(|&d| d != lane).collect(),
            row_dims: (shape.inner..op.dims.len()).collect(),
            row: op.dims[shape.inner..].iter().product(),
            built: Built::empty()?,
            careful: OnceLock::new(),
            keeps: true,
            pieces: 1,
            group: 1,
            uses_index: expr.nodes().iter().any(|(n, _)| matches!(n, Node::Index(_))),
            far: op.dims.iter().product::<usize>().saturating_mul(size_of::<f32>()) > l2,
            tiles,
            each: shape.each,
        };
        new.built = new.build(false)?;
        if new.tiles.is_some() {
            new.size_tiles(l2);
            return Ok(new);
        }
        let cached: usize = new.built.cached.iter().map(|k| k.size * new.row * 64).sum();
        if cached > CACHED_BYTES {
            new.keeps = false;
            new.built = new.build(false)?;
        }
        // Few blocks of long rows: cut the rows, so that there is work for all threads.
        let lanes = op.dims[lane].min(new.block(&new.built));
        let blocks = op.dims[lane].div_ceil(lanes.max(1)) * new.others.iter().map(|&d| op.dims[d]).product::<usize>();
        let most = if new.built.index.is_some() { FEW_PIECES } else { MOST_PIECES };
        let pieces = (new.row / LEAST_PIECE).min(new.row.saturating_mul(lanes) / machine.task).min(most);
        if blocks < MANY_BLOCKS && pieces > 1 {
            (new.keeps, new.pieces) = (false, pieces);
            new.built = new.build(false)?;
        }
        if new.can_group() {
            let most = (new.row / 8).clamp(1, MOST_GROUPED);
            new.group = 1 << most.ilog2();
        }
        Ok(new)
    }

    /// Decides how many rows are transposed together: as many as half of L2 holds with what is cached, and no more than leave
    /// work for all threads. Rows do not see each other, so that no result depends on it.
    fn size_tiles(&mut self, l2: usize) {
        let Some(mut tiles) = self.tiles.take() else { return };
        let lanes = self.dims[self.lane].max(1);
        let element = tiles.element() + self.built.cached.iter().map(|k| k.size).sum::<usize>();
        let most = most_lanes(element * self.row, l2).min(self.block(&self.built)).max(LEAST_LANES);
        let others: usize = self.others.iter().map(|&d| self.dims[d]).product();
        let per_task = self.machine.parts_of_task(lanes * others, self.each * self.row as f64);
        let tasks = (lanes * others).div_ceil(per_task).min(TASKS_EACH * self.machine.workers.threads());
        let tasks = if self.machine.workers.threads() > 1 { tasks } else { 1 };
        let blocks = lanes.div_ceil(most).max(tasks.div_ceil(others.max(1)));
        let block = lanes.div_ceil(blocks).next_multiple_of(VECTOR).min(most.next_multiple_of(VECTOR));
        tiles.set_block(block, &mut self.operands);
        self.tiles = Some(tiles);
    }

    /// Whether the next elements of all rows lie right behind the present ones, and nothing else depends on where they are.
    fn can_group(&self) -> bool {
        let (&[row], true) = (&self.row_dims[..], self.others.is_empty() && !self.uses_index) else { return false };
        let lanes = self.dims[self.lane] as isize;
        let (inputs, outputs) = self.operands.split_at(self.inputs);
        let behind = |o: &Operand| {
            let size = o.dtype.size() as isize;
            let strides = (o.strides[self.lane], o.strides[row]);
            o.is_plain() && (strides == (size, size * lanes) || strides == (0, 0))
        };
        let passes = self.built.stages.iter().filter(|s| s.has_pass).count();
        // What comes before the pass is computed for all groups: nothing may be stored there.
        let mut after = vec![false; self.expr.nodes().len()];
        for (i, (node, _)) in self.expr.nodes().iter().enumerate() {
            after[i] = matches!(node, Node::Reduce(..)) || node.operands().any(|o| after[o.at()]);
        }
        inputs.iter().all(behind)
            && self.expr.outputs().iter().all(|o| after[o.at()])
            && outputs.iter().all(|o| o.strides[row] == 0)
            && (passes, self.built.cached.is_empty(), self.built.index) == (1, true, None)
            && self.built.stages.first().is_some_and(|s| s.has_pass)
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
            stream: false,
        })
    }

    fn careful(&self) -> Result<&Built> {
        let made = self.careful.get_or_init(|| self.build(true).ok());
        made.as_ref().ok_or_else(|| Error::internal("a row program could not be compiled a second time"))
    }

    /// Lanes of a block: by shape alone, where sums are cut by it.
    fn block(&self, built: &Built) -> usize {
        if let Some(tiles) = &self.tiles {
            return tiles.block();
        }
        let cached: usize = built.cached.iter().map(|k| k.size * self.row).sum();
        let by_cache = CACHED_BYTES.checked_div(cached).unwrap_or(usize::MAX) / 64 * 64;
        let hot = (built.code.registers - built.cold).max(1) * built.code.width;
        let stacked = built.stages.iter().all(|s| !s.has_pass || s.stacked.is_some());
        // Indices are touched only where a better value is found.
        let registers = if stacked || built.index.is_some() { STACKED } else { REGISTERS };
        (registers / hot / 64 * 64).min(by_cache).clamp(64, 4096)
    }

    /// How many elements are taken at once: no more than a block has lanes for.
    fn group(&self, built: &Built) -> usize {
        let most = self.block(built) / self.dims[self.lane].max(1);
        1 << most.clamp(1, self.group).ilog2()
    }

    /// Calls `f` with one thread's state.
    fn with_worker<R>(&self, built: &Built, params: &[Scalar], f: impl FnOnce(&mut Worker<'_>) -> R) -> R {
        let code = &built.code;
        let block = self.block(built);
        let registers = code.scratch(block);
        let singles = (code.singles.len() * size_of::<u128>()).next_multiple_of(64);
        let cached: usize = built.cached.iter().map(|k| (k.size * self.row * block).next_multiple_of(64)).sum();
        let tiles = self.tiles.as_ref().map_or(0, Tiles::bytes);
        with_scratch(registers + singles + cached + tiles, |scratch| {
            // SAFETY: registers, single values, cached values and tiles follow each other in the scratch memory.
            let mut frame = unsafe { Frame::new(code, scratch, block, scratch.wrapping_add(registers).cast(), params) };
            frame.lane = self.lane;
            frame.cursors.resize(self.operands.len(), Cursor::plain(0));
            let mut at = scratch.wrapping_add(registers + singles);
            let mut cached = SmallVec::new();
            for k in &built.cached {
                cached.push((at, k.size * block));
                at = at.wrapping_add((k.size * block * self.row).next_multiple_of(64));
            }
            let index = SmallVec::from_elem(0, self.dims.len());
            let (state, group) = ((Shared(scratch), registers + singles), self.group(built));
            f(&mut Worker { interleaved: self, built, frame, index, cached, state, group, tiles: at })
        })
    }

    /// The first index and the number of lanes of a block.
    fn seek(&self, index: &mut [usize], block: usize, number: usize) -> usize {
        let lanes = self.dims[self.lane];
        let blocks = lanes.div_ceil(block);
        index.fill(0);
        seek(index, &self.dims, &self.others, number / blocks);
        index[self.lane] = number % blocks * block;
        block.min(lanes - index[self.lane])
    }

    /// Runs the blocks from number `from` to before `to`.
    fn blocks(&self, built: &Built, bases: &Bases, params: &[Scalar], from: usize, to: usize) {
        let block = self.block(built);
        self.with_worker(built, params, |w| {
            w.launch();
            let mut near = bases.clone();
            for b in from..to {
                let n = self.seek(&mut w.index, block, b);
                if let Some(tiles) = &self.tiles {
                    // SAFETY: the dispatcher checked all bindings against the operation; the worker has room for the tiles.
                    unsafe { tiles.read(bases, &mut near, &w.index, n, w.tiles) };
                }
                for stage in &built.stages {
                    let wide = if stage.has_pass { n * w.group } else { n };
                    w.values(stage, &near, wide);
                    if stage.has_pass {
                        w.pass(stage, &near, wide, 0, self.row);
                        w.gather(stage, n);
                    }
                }
                if let Some(tiles) = &self.tiles {
                    w.index[self.inner..].fill(0);
                    // SAFETY: as above; each block writes its own rows.
                    unsafe { tiles.write(bases, &w.index, n, w.tiles) };
                }
            }
        });
    }

    /// One block of long rows: the pieces of a pass at once, their results joined in order.
    fn long_block(&self, built: &Built, bases: &Bases, params: &[Scalar], number: usize) {
        let block = self.block(built);
        let piece = self.row.div_ceil(self.pieces).next_multiple_of(self.group(built));
        let pieces = self.row.div_ceil(piece);
        self.with_worker(built, params, |w| {
            w.launch();
            let n = self.seek(&mut w.index, block, number);
            for stage in &built.stages {
                if !stage.has_pass {
                    w.values(stage, bases, n);
                    continue;
                }
                let wide = n * w.group;
                w.values(stage, bases, wide);
                let bytes: usize = stage.accumulators.iter().map(|a| a.bytes() * block).sum();
                let mut partials: Vec<u128> = vec![0; (bytes * pieces).div_ceil(size_of::<u128>())];
                let (state, out) = (w.state, Shared::<u8>(partials.as_mut_ptr().cast()));
                self.machine.workers.run(pieces, &|p| {
                    self.with_worker(built, params, |w| {
                        // SAFETY: both are scratch memory of this many bytes, of different threads' frames; nobody writes what is copied.
                        unsafe { std::ptr::copy_nonoverlapping(state.0.at(0), w.state.0.at(0), state.1) };
                        self.seek(&mut w.index, block, number);
                        w.pass(stage, bases, wide, p * piece, self.row.min((p + 1) * piece));
                        let mut to = out.at(p * bytes);
                        for a in &stage.accumulators {
                            let from = w.frame.pointer(a.slot as usize);
                            // SAFETY: each piece has room of its own for all accumulators, and for indices behind them.
                            unsafe {
                                std::ptr::copy_nonoverlapping(from, to, wide * a.size);
                                if let Some(indices) = a.indices {
                                    let from = w.frame.pointer(indices as usize);
                                    let to = to.wrapping_add(block * a.size);
                                    std::ptr::copy_nonoverlapping(from, to, wide * size_of::<i64>());
                                }
                            }
                            to = to.wrapping_add(block * a.bytes());
                        }
                    });
                });
                for p in 0..pieces {
                    let mut from = out.at(p * bytes);
                    for a in &stage.accumulators {
                        let to = w.frame.pointer(a.slot as usize);
                        // SAFETY: both sides have so many elements of the accumulator's type, and so many indices if there are any.
                        unsafe {
                            match a.indices {
                                None => (a.join)(to, to, from, std::ptr::null(), wide),
                                Some(indices) => {
                                    let theirs = from.wrapping_add(block * a.size);
                                    (a.join)(w.frame.pointer(indices as usize), to, from, theirs, wide);
                                }
                            }
                        }
                        from = from.wrapping_add(block * a.bytes());
                    }
                }
                w.gather(stage, n);
            }
        });
    }
}

impl Run for Interleaved {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let lanes = self.dims[self.lane];
        let others: usize = self.others.iter().map(|&d| self.dims[d]).product();
        if lanes * others == 0 {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        let origins = self.tiles.as_ref().map_or(&self.operands[..], Tiles::origins);
        let built = if may_be_direct(&bases, origins, self.inputs) { &self.built } else { self.careful()? };
        let block = self.block(built);
        let blocks = others * lanes.div_ceil(block);
        if self.pieces > 1 {
            for b in 0..blocks {
                self.long_block(built, &bases, bindings.params, b);
            }
            return Ok(());
        }
        let per_task = self.machine.parts_of_task(blocks, self.each * (block.min(lanes) * self.row.max(1)) as f64);
        self.machine.workers.run(blocks.div_ceil(per_task), &|t| {
            self.blocks(built, &bases, bindings.params, t * per_task, blocks.min((t + 1) * per_task));
        });
        Ok(())
    }
}

/// One thread's state.
struct Worker<'a> {
    interleaved: &'a Interleaved,
    built: &'a Built,
    frame: Frame<'a>,
    index: SmallVec<[usize; 6]>,
    /// Where cached values lie, and the bytes of one element of all rows.
    cached: SmallVec<[(*mut u8, usize); 2]>,
    /// Registers and single values, and their bytes.
    state: (Shared<u8>, usize),
    /// Elements of every row that a pass takes at once.
    group: usize,
    /// Room for what is transposed.
    tiles: *mut u8,
}

impl Worker<'_> {
    /// Points all operands at the current index.
    fn aim(&mut self, bases: &[Base], n: usize) {
        let first = self.frame.code.first_input();
        let lane = self.interleaved.lane;
        for (i, (o, b)) in self.interleaved.operands.iter().zip(bases).enumerate() {
            let at = b.first.offset(o.offset(&self.index));
            self.frame.set(first + i, at);
            self.frame.cursors[i] =
                if o.is_plain() { Cursor::plain(o.strides[lane]) } else { o.cursor(Some(lane), &self.index, n, at, b) };
        }
        if self.interleaved.uses_index {
            self.frame.index.clear();
            self.frame.index.extend(self.index.iter().map(|&i| i as i64));
        }
        self.frame.done = 0;
    }

    fn launch(&mut self) {
        // SAFETY: launch-level steps use only single values.
        unsafe { self.frame.run(self.built.launch, 1, &mut NoFolds) };
    }

    /// The values of `n` rows that a stage begins with.
    fn values(&mut self, stage: &Stage, bases: &[Base], n: usize) {
        self.index[self.interleaved.inner..].fill(0);
        self.aim(bases, n);
        // SAFETY: the dispatcher checked all bindings against the operation, guarded operands have their lanes cut to
        // what exists, and `n` is no more than the frame's block.
        unsafe {
            self.frame.run(stage.row_single, 1, &mut NoFolds);
            self.frame.run(stage.row_block, n, &mut NoFolds);
        }
    }

    /// One pass over the elements `from` to before `to` of `n` rows.
    fn pass(&mut self, stage: &Stage, bases: &[Base], n: usize, from: usize, to: usize) {
        if from >= to {
            return;
        }
        let interleaved = self.interleaved;
        let (first, first_cached) = (self.frame.code.first_input(), self.frame.code.first_cached());
        let last = interleaved.dims.len() - 1;
        let plain = interleaved.operands.iter().all(Operand::is_plain) && !interleaved.uses_index;
        for (k, &(at, size)) in self.cached.iter().enumerate() {
            self.frame.set(first_cached + k, at.wrapping_add(from * size));
        }
        let index = self.built.index.map(|p| self.frame.pointer(self.frame.code.first_single() + p as usize));
        seek(&mut self.index, &interleaved.dims, &interleaved.row_dims, from);
        self.aim(bases, n);
        let group = self.group;
        // Lanes that one element of every row fills.
        let each = n / group;
        let stacked = stage.stacked.filter(|_| group == 1 && plain);
        let (mut k, mut steps) = (from, 0);
        while k < to {
            if let Some(stacked) = stacked
                && steps % STACK == 0
                && k + STACK <= to
                && self.index[last] + STACK <= interleaved.dims[last]
            {
                let o = &interleaved.operands[stacked.input];
                let (acc, x) = (self.frame.pointer(stacked.slot), self.frame.pointer(first + stacked.input));
                let distance = o.strides[last] as i64;
                let distances = [distance, if interleaved.far { distance.wrapping_mul(STACK as i64) } else { 0 }];
                // SAFETY: as below, for `STACK` elements of every row.
                unsafe {
                    (stacked.f)(acc, acc, x, distances.as_ptr().cast(), n);
                    self.carry(stage, steps + STACK, n);
                }
                (k, steps) = (k + STACK, steps + STACK);
                self.index[last] += STACK - 1;
                if step(&mut self.index, &interleaved.dims, &interleaved.row_dims) == Some(last) {
                    let next = x.wrapping_offset(o.strides[last] * STACK as isize);
                    self.frame.set(first + stacked.input, next);
                } else if k < to {
                    self.aim(bases, n);
                }
                continue;
            }
            let lanes = if group == 1 { n } else { n.min((to - k) * each) };
            // SAFETY: as in `values`; cached values have room for all rows. Groups lie one behind the other.
            unsafe {
                if let Some(p) = index {
                    p.cast::<i64>().write(k as i64);
                }
                self.frame.run(stage.each_single, 1, &mut NoFolds);
                self.frame.run(stage.each_block, lanes, &mut NoFolds);
                self.carry(stage, steps + 1, n);
            }
            (k, steps) = (k + group, steps + 1);
            for (i, &(_, size)) in self.cached.iter().enumerate() {
                self.frame.set(first_cached + i, self.frame.pointer(first_cached + i).wrapping_add(size));
            }
            if group > 1 {
                for (i, o) in interleaved.operands.iter().enumerate() {
                    let next = o.strides[last] * group as isize;
                    self.frame.set(first + i, self.frame.pointer(first + i).wrapping_offset(next));
                }
                continue;
            }
            match step(&mut self.index, &interleaved.dims, &interleaved.row_dims) {
                None => break,
                Some(d) if d == last && plain => {
                    for (i, o) in interleaved.operands.iter().enumerate() {
                        self.frame.set(first + i, self.frame.pointer(first + i).wrapping_offset(o.strides[last]));
                    }
                }
                Some(_) => self.aim(bases, n),
            }
        }
        // SAFETY: registers only.
        unsafe { self.frame.run(stage.finish, n, &mut NoFolds) };
    }

    /// Hands accumulators on to the levels whose turn it is after so many steps.
    ///
    /// # Safety
    /// `n` is no more than the frame's block.
    unsafe fn carry(&mut self, stage: &Stage, steps: usize, n: usize) {
        for &(every, segment) in &stage.carries {
            if !steps.is_multiple_of(every) {
                break;
            }
            // SAFETY: registers only.
            unsafe { self.frame.run(segment, n, &mut NoFolds) };
        }
    }

    /// Joins the results of grouped elements, halves with halves, until each of `n` rows has one.
    fn gather(&mut self, stage: &Stage, n: usize) {
        let mut group = self.group;
        while group > 1 {
            group /= 2;
            for a in &stage.accumulators {
                let to = self.frame.pointer(a.slot as usize);
                // SAFETY: the register holds twice so many elements; the halves do not overlap.
                unsafe { (a.join)(to, to, to.wrapping_add(group * n * a.size), std::ptr::null(), group * n) };
            }
        }
    }
}
