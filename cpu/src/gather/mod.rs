//! Lookups: elements of a table at indices that other inputs say.
//!
//! What one index leads to is a run: as many neighbouring bytes as table and result share along a last dimension in which all indices
//! are the same (a row of an embedding), else one element. Indices are walked along one dimension, the others are counted; tasks
//! are cut by shape.
//!
//! - `indices`: from indices to positions in the table, a block at a time.
//! - `moves`: runs from their positions to the result.
//! - `vectors`: both at once for elements of 4 and 8 bytes, with the processor's own gathers.
//!
//! Tasks only note that an index was out of range. Which one that is, and where it stands, is looked for when all are through.

mod indices;
mod moves;
#[cfg(target_arch = "x86_64")]
mod vectors;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::how::Schedule;
use millstream_core::what::Gather;
use millstream_core::{Body, DType, Dims, Error, Lookup, Op, Outside, Result};
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::program::{Base, Operand, bases, fence, seek, step};
use crate::simd::{Isa, Simd, WithSimd, vectorize};
use crate::stream::{CpuLaunch, Run};
use moves::{Moves, Soon};

/// Runs whose positions are known at a time.
const BLOCK: usize = 256;
/// An element costs its index and a look into the table, however small it is.
const LEAST: usize = 4;
/// A dimension shorter than this is not walked where there is a longer one.
const SHORT: usize = 16;
/// The position of what does not exist.
const NOWHERE: isize = isize::MIN;

/// A lookup compiled for the CPU: there is nothing to compile.
pub(crate) struct GatherKernel {
    machine: Arc<Machine>,
}

impl GatherKernel {
    pub(crate) fn new(machine: Arc<Machine>) -> GatherKernel {
        GatherKernel { machine }
    }
}

impl Kernel for GatherKernel {
    fn text(&self) -> String {
        "gather: positions of a block of runs, then the runs\n".into()
    }

    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        let Body::Gather(Gather { lookups, outside }) = &op.body else {
            return Err(Error::internal(format!("a {} operation is no lookup", op.name())));
        };
        let size = op.inputs[0].dtype.size();
        let operands: Vec<Operand> = op.inputs.iter().chain(&op.outputs).map(Operand::new).collect();
        let output = operands.len() - 1;
        // The last dimension is part of the run where all indices are the same along it.
        let shared = op.dims.len().checked_sub(1).filter(|&d| {
            let beside = |o: &Operand| o.strides[d] == size as isize;
            beside(&operands[0]) && beside(&operands[output]) && operands[1..output].iter().all(|o| o.ignores(d))
        });
        let bytes = size * shared.map_or(1, |d| op.dims[d]);
        let walked = shared.unwrap_or(op.dims.len());
        let walk = (0..walked).last().map(|last| match (0..walked).max_by_key(|&d| op.dims[d]) {
            Some(longest) if op.dims[last] < SHORT => longest,
            _ => last,
        });
        let outer: SmallVec<[usize; 6]> = (0..walked).filter(|&d| Some(d) != walk).collect();
        let length = walk.map_or(1, |d| op.dims[d]);
        let task = self.machine.task_bytes;
        let cut = if bytes > 2 * task { task } else { bytes };
        let most = (task / cut.max(LEAST)).max(1);
        let piece = if length > 2 * most { most } else { length.max(1) };
        let (cuts, pieces) = (bytes.div_ceil(cut.max(1)), length.div_ceil(piece));
        let groups: usize = outer.iter().map(|&d| op.dims[d]).product();
        let topology = &self.machine.topology;
        let reach = lookups.iter().fold(bytes, |all, l| {
            all.saturating_add(l.size.saturating_mul(l.stride.unsigned_abs()).saturating_mul(size))
        });
        let moves = Moves {
            size,
            fill: op.inputs[0].fill.bytes(),
            far: reach > topology.l2().size,
            very_far: reach > topology.l3().size / 2,
            // Results that no cache holds are written past the caches.
            streams: op.output_len(0) * size > topology.l3().size,
        };
        // Where each group looks into its own part of the table, as along an axis, and looks at most of it.
        let reached = |sign: isize| {
            let far = |l: &Lookup| (l.size.max(1) as isize - 1).saturating_mul(l.stride).saturating_mul(sign).max(0);
            lookups.iter().map(far).fold(0, isize::saturating_add).saturating_mul(size as isize)
        };
        let (below, above) = (reached(-1), reached(1));
        let lines = (below.saturating_add(above).unsigned_abs() + bytes).div_ceil(moves::LINE);
        let alone = pieces * cuts == 1 && groups > 1 && walk.is_some_and(|d| operands[0].ignores(d));
        let soon = if alone && lines <= length && lines <= topology.l2().size / 4 / moves::LINE { lines } else { 0 };
        Ok(Arc::new(CpuLaunch(Arc::new(Lookups {
            fails: *outside == Outside::Error,
            soon,
            lowest: -below,
            machine: self.machine.clone(),
            empty: op.dims.contains(&0),
            indices: op.inputs[1..].iter().map(|a| a.dtype).collect(),
            lookups: lookups.iter().map(|l| Lookup { stride: l.stride * size as isize, ..*l }).collect(),
            steps: operands.iter().map(|o| walk.map_or(0, |d| o.strides[d])).collect(),
            dims: op.dims.clone(),
            units: groups * pieces * cuts,
            per_task: (most / piece).max(1),
            moves,
            operands,
            outer,
            walk,
            length,
            piece,
            pieces,
            bytes,
            cut,
            cuts,
        }))))
    }
}

struct Lookups {
    /// Whether an index out of range is an error.
    fails: bool,
    machine: Arc<Machine>,
    dims: Dims,
    empty: bool,
    /// The dtypes of the indices.
    indices: SmallVec<[DType; 2]>,
    /// Strides in bytes.
    lookups: SmallVec<[Lookup; 2]>,
    /// The table, the indices, the result.
    operands: Vec<Operand>,
    moves: Moves,
    /// The dimension along which indices are walked, its length, and each operand's bytes from one to the next.
    walk: Option<usize>,
    length: usize,
    steps: SmallVec<[isize; 4]>,
    /// Dimensions that are counted.
    outer: SmallVec<[usize; 6]>,
    /// Bytes of a run.
    bytes: usize,
    /// Bytes of a run that are moved at a time, and how many times that is.
    cut: usize,
    cuts: usize,
    /// Runs that are walked at a time, and how many times that is.
    piece: usize,
    pieces: usize,
    /// Cuts of pieces, over all dimensions, and those of a task.
    units: usize,
    per_task: usize,
    /// Lines of the table that one group of units looks into, if they are few enough to be prefetched during the group before, and the
    /// bytes to the first of them.
    soon: usize,
    lowest: isize,
}

impl Run for Lookups {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        if self.empty {
            return Ok(());
        }
        let bases = bases(bindings, &self.operands)?;
        let isa = self.machine.isa;
        let beyond = AtomicBool::new(false);
        self.machine.workers.run(self.units.div_ceil(self.per_task), &|t| {
            let from = t * self.per_task;
            let to = self.units.min(from + self.per_task);
            vectorize(isa, Task { gather: self, bases: &bases, beyond: &beyond, isa, from, to });
            if self.moves.streams {
                fence();
            }
        });
        if self.fails && beyond.into_inner() { Err(self.missing(&bases)) } else { Ok(()) }
    }
}

impl Lookups {
    /// The error of the first index, in row-major order, that its axis does not have.
    fn missing(&self, bases: &[Base]) -> Error {
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        let all: SmallVec<[usize; 6]> = (0..self.dims.len()).collect();
        for _ in 0..self.dims.iter().product::<usize>() {
            for (j, (dtype, lookup)) in self.indices.iter().zip(&self.lookups).enumerate() {
                let at = bases[j + 1].first.offset(self.operands[j + 1].offset(&index));
                // SAFETY: the dispatcher checked that all indices of the index space lie in their binding.
                let wanted = unsafe { indices::read(*dtype, at) };
                let size = lookup.size as i128;
                if !(-size..size).contains(&wanted) {
                    let own = all.iter().filter(|&&d| !self.operands[j + 1].ignores(d));
                    let at = own.fold(0, |at, &d| at * self.dims[d] + index[d]);
                    return Error::index(wanted, lookup.size, Some(at));
                }
            }
            step(&mut index, &self.dims, &all);
        }
        Error::internal("an index out of range is not found again")
    }
}

/// Some units of a lookup.
struct Task<'a> {
    gather: &'a Lookups,
    bases: &'a [Base],
    /// Whether an index was out of range.
    beyond: &'a AtomicBool,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Gathers are used there only.
    isa: Isa,
    from: usize,
    to: usize,
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let g = self.gather;
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, g.dims.len());
        let each = g.pieces * g.cuts;
        seek(&mut index, &g.dims, &g.outer, self.from / each);
        let mut unit = self.from % each;
        for _ in self.from..self.to {
            // Cuts outside pieces: runs so long are looked up again for each of their cuts.
            let (cut, piece) = (unit / g.pieces * g.cut, unit % g.pieces * g.piece);
            if let Some(d) = g.walk {
                index[d] = piece;
            }
            let bytes = g.cut.min(g.bytes - cut);
            let here = index.clone();
            unit += 1;
            if unit == each {
                unit = 0;
                step(&mut index, &g.dims, &g.outer);
            }
            let next = self.bases[0].first.offset(g.operands[0].offset(&index) + g.lowest);
            let soon = Soon::new(next, g.soon, g.length);
            self.piece(s, &here, g.piece.min(g.length - piece), cut, bytes, soon);
        }
    }
}

impl Task<'_> {
    /// Looks up `count` indices from an index on, and moves `bytes` bytes of each run, from byte `cut` on.
    #[inline(always)]
    fn piece<S: Simd>(&self, s: S, index: &[usize], count: usize, cut: usize, bytes: usize, mut soon: Soon) {
        let g = self.gather;
        let last = g.operands.len() - 1;
        let at = |o: usize| self.bases[o].first.offset(g.operands[o].offset(index));
        let (table, result) = (at(0).wrapping_add(cut), at(last).wrapping_add(cut));
        #[cfg(target_arch = "x86_64")]
        if let ([lookup], Isa::Avx512) = (&g.lookups[..], self.isa) {
            let steps = [g.steps[0], g.steps[1], g.steps[last]];
            let mut all = vectors::Indices { from: at(1), dtype: g.indices[0], lookup, count, soon };
            // SAFETY: the machine has AVX-512, which `vectorize` checked; for the rest as below.
            if let Some(inside) = unsafe { vectors::look_up(&mut all, table, result, steps, bytes, &g.moves) } {
                self.note(inside);
                return;
            }
        }
        let mut positions = [0isize; BLOCK];
        let mut done = 0;
        while done < count {
            let n = (count - done).min(BLOCK);
            let positions = &mut positions[..n];
            let first = done as isize;
            for (i, p) in positions.iter_mut().enumerate() {
                *p = (first + i as isize) * g.steps[0];
            }
            let mut inside = true;
            for (j, lookup) in g.lookups.iter().enumerate() {
                let step = g.steps[j + 1];
                let from = at(j + 1).wrapping_offset(first * step);
                // SAFETY: the dispatcher checked that all indices of the index space lie in their binding.
                inside &= unsafe { indices::look_up(positions, g.indices[j], from, step, lookup) };
            }
            let to = result.wrapping_offset(first * g.steps[last]);
            // SAFETY: the dispatcher checked the result's bounds and the table's reach over all lookups; a position that is
            // not `NOWHERE` is within that reach, and there is none where all indices are inside.
            unsafe { g.moves.run(s, table, positions, inside, to, g.steps[last], bytes) };
            self.note(inside);
            soon.prefetch(n);
            done += n;
        }
    }

    /// Notes whether all indices were inside their axes.
    #[inline(always)]
    fn note(&self, inside: bool) {
        if !inside {
            self.beyond.store(true, Ordering::Relaxed);
        }
    }
}
