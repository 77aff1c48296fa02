//! Many rows at once: each lane is a row of its own.
//!
//! This serves rows whose elements lie far apart while neighbouring rows lie side by side (the sum over the columns of a
//! matrix), and rows too short to fill vectors.

use std::sync::{Arc, OnceLock};

use millstream_core::backend::Bindings;
use millstream_core::{Dims, Error, Expr, Result, Scalar};
use smallvec::SmallVec;

use super::build::{Built, Request, build};
use super::{Shape, TASK};
use crate::backend::Machine;
use crate::program::{Base, Bases, Cursor, Frame, NoFolds, Operand, bases, may_be_direct, seek, step, with_scratch};
use crate::stream::Run;

/// Bytes that registers may take: accumulators that are added to for every element of the rows should stay near.
const REGISTERS: usize = 24 << 10;
/// Bytes that kept values may take.
const KEPT: usize = 128 << 10;

pub(super) struct Across {
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
    uses_index: bool,
}

impl Across {
    pub(super) fn new(shape: &Shape<'_>, lane: usize, machine: &Arc<Machine>) -> Result<Across> {
        let op = shape.op;
        let expr = op.exprs().next().ok_or_else(|| Error::internal("a row program without an expression"))?;
        let mut new = Across {
            machine: machine.clone(),
            expr: expr.clone(),
            dims: op.dims.clone(),
            inner: shape.inner,
            varies: shape.varies.clone(),
            operands: shape.operands.clone(),
            inputs: op.inputs.len(),
            lane,
            others: (0..shape.inner).filter(|&d| d != lane).collect(),
            row_dims: (shape.inner..op.dims.len()).collect(),
            row: op.dims[shape.inner..].iter().product(),
            built: Built::empty()?,
            careful: OnceLock::new(),
            keeps: true,
            uses_index: expr.nodes().iter().any(|(n, _)| matches!(n, millstream_core::Node::Index(_))),
        };
        new.built = new.build(false)?;
        let kept: usize = new.built.kept.iter().map(|k| k.size * new.row * 64).sum();
        if kept > KEPT {
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
        })
    }

    fn careful(&self) -> Result<&Built> {
        let made = self.careful.get_or_init(|| self.build(true).ok());
        made.as_ref().ok_or_else(|| Error::internal("a row program could not be compiled a second time"))
    }

    /// Lanes of a block: by shape alone.
    fn block(&self, built: &Built) -> usize {
        let kept: usize = built.kept.iter().map(|k| k.size * self.row).sum();
        let by_kept = KEPT.checked_div(kept).unwrap_or(usize::MAX) / 64 * 64;
        let hot = (built.code.registers - built.cold).max(1) * built.code.width;
        (REGISTERS / hot / 64 * 64).min(by_kept).clamp(64, 4096)
    }

    /// Runs the blocks from number `from` to before `to`.
    fn blocks(&self, built: &Built, bases: &Bases, params: &[Scalar], from: usize, to: usize) {
        let code = &built.code;
        let block = self.block(built);
        let registers = code.scratch(block);
        let singles = (code.singles.len() * size_of::<u128>()).next_multiple_of(64);
        let kept: usize = built.kept.iter().map(|k| k.size * self.row * block).sum();
        with_scratch(registers + singles + kept, |scratch| {
            // SAFETY: registers, single values and kept values follow each other in the scratch memory.
            let mut frame = unsafe { Frame::new(code, scratch, block, scratch.wrapping_add(registers).cast(), params) };
            frame.lane = self.lane;
            frame.cursors.resize(self.operands.len(), Cursor::plain(0));
            // SAFETY: launch-level steps use only single values.
            unsafe { frame.run(built.launch, 1, &mut NoFolds) };
            let mut at = scratch.wrapping_add(registers + singles);
            let mut kept = SmallVec::new();
            for k in &built.kept {
                kept.push((at, k.size * block));
                at = at.wrapping_add(k.size * block * self.row);
            }
            let index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            let mut worker = Worker { across: self, built, frame, index, kept };
            let lanes = self.dims[self.lane];
            let blocks = lanes.div_ceil(block);
            for b in from..to {
                seek(&mut worker.index, &self.dims, &self.others, b / blocks);
                let start = b % blocks * block;
                worker.index[self.lane] = start;
                worker.rows(bases, block.min(lanes - start));
            }
        });
    }
}

impl Run for Across {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let lanes = self.dims[self.lane];
        let others: usize = self.others.iter().map(|&d| self.dims[d]).product();
        if lanes * others == 0 {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        let built = if may_be_direct(&bases, &self.operands, self.inputs) { &self.built } else { self.careful()? };
        let block = self.block(built);
        let blocks = others * lanes.div_ceil(block);
        let per_task = (TASK / (block * self.row.max(1))).max(1);
        self.machine.workers.run(blocks.div_ceil(per_task), &|t| {
            self.blocks(built, &bases, bindings.params, t * per_task, blocks.min((t + 1) * per_task));
        });
        Ok(())
    }
}

/// One thread's state.
struct Worker<'a> {
    across: &'a Across,
    built: &'a Built,
    frame: Frame<'a>,
    index: SmallVec<[usize; 6]>,
    /// Where kept values lie, and the bytes of one element of all rows.
    kept: SmallVec<[(*mut u8, usize); 2]>,
}

impl Worker<'_> {
    /// Points all operands at the current index.
    fn aim(&mut self, bases: &[Base], n: usize) {
        let first = self.frame.code.first_input();
        let lane = self.across.lane;
        for (i, (o, b)) in self.across.operands.iter().zip(bases).enumerate() {
            let at = b.first.wrapping_offset(o.offset(&self.index));
            self.frame.set(first + i, at);
            self.frame.cursors[i] = if o.is_plain() {
                Cursor::plain(o.strides[lane])
            } else {
                o.cursor(Some(lane), &self.index, n, at, b)
            };
        }
        if self.across.uses_index {
            self.frame.index.clear();
            self.frame.index.extend(self.index.iter().map(|&i| i as i64));
        }
        self.frame.done = 0;
    }

    /// All stages for `n` rows from the current index on.
    fn rows(&mut self, bases: &[Base], n: usize) {
        let across = self.across;
        for stage in &self.built.stages {
            self.index[across.inner..].fill(0);
            self.aim(bases, n);
            // SAFETY: the dispatcher checked all bindings against the operation, guarded operands have their lanes cut
            // to what exists, kept values have room for all rows, and `n` is no more than the frame's block.
            unsafe {
                self.frame.run(stage.row_single, 1, &mut NoFolds);
                self.frame.run(stage.row_block, n, &mut NoFolds);
                if stage.has_pass && across.row > 0 {
                    self.pass(stage, bases, n);
                }
            }
        }
    }

    /// # Safety
    /// As in `rows`, whose only part this is.
    unsafe fn pass(&mut self, stage: &super::build::Stage, bases: &[Base], n: usize) {
        let across = self.across;
        let (first, first_kept) = (self.frame.code.first_input(), self.frame.code.first_kept());
        let last = across.dims.len() - 1;
        let plain = across.operands.iter().all(Operand::is_plain) && !across.uses_index;
        for (k, &(at, _)) in self.kept.iter().enumerate() {
            self.frame.set(first_kept + k, at);
        }
        let place = self.built.place.map(|p| self.frame.pointer(self.frame.code.first_single() + p as usize));
        for k in 0..across.row {
            if let Some(p) = place {
                // SAFETY: a single value of this frame.
                unsafe { p.cast::<i64>().write(k as i64) };
            }
            // SAFETY: the caller's promise.
            unsafe {
                self.frame.run(stage.each_single, 1, &mut NoFolds);
                self.frame.run(stage.each_block, n, &mut NoFolds);
                for &(every, segment) in &stage.carries {
                    if (k + 1) % every != 0 {
                        break;
                    }
                    self.frame.run(segment, n, &mut NoFolds);
                }
            }
            for (i, &(_, size)) in self.kept.iter().enumerate() {
                self.frame.set(first_kept + i, self.frame.pointer(first_kept + i).wrapping_add(size));
            }
            match step(&mut self.index, &across.dims, &across.row_dims) {
                None => break,
                Some(d) if d == last && plain => {
                    for (i, o) in across.operands.iter().enumerate() {
                        self.frame.set(first + i, self.frame.pointer(first + i).wrapping_offset(o.strides[last]));
                    }
                }
                Some(_) => self.aim(bases, n),
            }
        }
    }
}
