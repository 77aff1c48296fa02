//! A kernel as text, and how it is launched.
//!
//! A backend compiles [`Source::text`] once, looks up each of [`Source::entries`], and for a launch runs what
//! [`Prepared::encode`] gives it, in order. It needs to know nothing else about operations.
//!
//! Every entry takes the same things in the same order: one buffer for each input, each output, and one for scratch memory
//! if [`Source::has_workspace`], and one for notes if [`Source::has_note`]; then [`Source::words`] words of 32 bits.
//!
//! - CUDA: `extern "C" __global__ void entry(T0* b0, T1* b1, ..., const Args args)`. Each pointer points to the operand's element
//!   of index 0 (the binding's address plus its offset); `Args` is a struct of `words` times u32, by value.
//! - WGSL: `@group(0) @binding(i) var<storage, read_write> b{i}`: the whole allocation, its offset being one of the words;
//!   `@group(1) @binding(0) var<uniform> args: array<vec4<u32>, words / 4>`.

use millstream_core::backend::{Binding, Bindings};
use millstream_core::how::{Schedule, Split};
use millstream_core::what::{Gather, elements};
use millstream_core::{Access, Body, Error, Op, Result, Scalar};
use smallvec::SmallVec;

use crate::attention;
use crate::contract::{Blocks, JOINING, reads_by_four, widened, writes_by_four};
use crate::frame::{Arguments, Frame, Word};
use crate::indexed;
use crate::rows::{self, Walk, writes_elements};
use crate::target::Target;
use crate::types::Register;

/// What a backend compiles: a text and the functions in it, all with the same parameters.
#[derive(Clone, Debug)]
pub struct Source {
    /// The whole text.
    pub text: String,
    /// The functions that can be launched.
    pub entries: Vec<Entry>,
    /// The number of inputs and outputs.
    pub operands: usize,
    /// Whether a buffer for scratch memory comes after the operands.
    pub has_workspace: bool,
    /// Whether a buffer for a note comes after these (`millstream_core::backend::NoteAt`).
    pub has_note: bool,
    /// The size of the arguments in words of 32 bits, a multiple of 4.
    pub words: usize,
}

/// A kernel for all operations with one kernel key: its source, and how it is launched for one of them.
#[derive(Clone, Debug)]
pub struct Program {
    source: Source,
    arguments: Arguments,
    shape: Shape,
    target: Target,
}

impl std::ops::Deref for Program {
    type Target = Source;

    fn deref(&self) -> &Source {
        &self.source
    }
}

/// A function that can be launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the text.
    pub name: String,
    /// Threads of one group, all along x.
    pub group: u32,
    /// Whether it says itself when the next kernel may be set up.
    pub(crate) releases: bool,
}

/// One launch of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch<'a> {
    /// Which of [`Source::entries`].
    pub entry: usize,
    /// Groups along each axis; none is 0.
    pub grid: [u32; 3],
    /// The arguments.
    pub words: &'a [u32],
}

/// Which kind of kernel a program is, and what its grid follows from.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A walk along the output; if `vec4`, the first entry moves four elements at once.
    Map { vec4: bool, threads: u32 },
    /// A walk by squares over the last dimension and `side`.
    Squares { side: usize, edge: usize, threads: u32 },
    /// Rows; if `vec4`, the first half of the entries moves four elements at once.
    Rows { walk: Walk, vec4: bool, passes: usize, accumulators: usize, inner: usize },
    /// Blocks of a contraction; if `by` is not 1, the first entry moves so many elements at once. If `widened`, the kernel is that of the
    /// contraction with part of its batch as columns.
    Contract { blocks: Blocks, split: Split, by: usize, widened: bool },
    /// A walk along the result of a lookup.
    Gather { threads: u32 },
    /// A group for each row.
    Scan { inner: usize },
    /// A thread for each piece of a row, which neighbouring threads have beside each other; if `whole`, a row is one piece.
    ScanColumns { inner: usize, whole: bool },
    /// A group for some queries, and perhaps for a part of the keys, which it takes in pieces of so many. If `by` is not 1, the first entry moves so
    /// many elements at once.
    Attention { queries: usize, keys: usize, split: Split, by: usize },
}

/// One launch before memory and scalars are known.
#[derive(Clone, Debug)]
struct Step {
    entry: usize,
    grid: [u32; 3],
    words: Vec<u32>,
}

/// The launches of an operation, in order. Where `by_four` is there, it serves memory that is aligned for it.
#[derive(Clone, Debug)]
pub struct Prepared {
    by_four: Option<Vec<Step>>,
    by_one: Vec<Step>,
    /// For each operand that is moved as vec4: its number and the alignment this takes.
    aligned: SmallVec<[(usize, usize); 4]>,
    patches: SmallVec<[(usize, Word); 8]>,
    /// For each operand: the size of an element.
    sizes: SmallVec<[usize; 4]>,
    bases: SmallVec<[isize; 4]>,
    workspace: usize,
    wide: bool,
    has_pointers: bool,
}

/// A number with 32 bits, or with 64 in the kernels that need it.
fn write(words: &mut [u32], at: usize, value: i64, wide: bool) {
    words[at] = value as u32;
    if wide {
        words[at + 1] = (value >> 32) as u32;
    }
}

fn scalar_word(value: Scalar, k: usize) -> u32 {
    (value.bits()[k / 2] >> (32 * (k % 2))) as u32
}

impl Program {
    pub(crate) fn new(frame: Frame<'_>, shape: Shape) -> Result<Program> {
        let (operands, has_workspace, has_note, target) =
            (frame.operands(), frame.has_workspace, frame.has_note, frame.target.clone());
        let (text, entries, arguments) = frame.finish();
        let source = Source { text, entries, operands, has_workspace, has_note, words: arguments.count };
        Ok(Program { source, arguments, shape, target })
    }

    /// Fixes sizes, strides and grid for one operation with the kernel key that the program was generated for.
    pub fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Prepared> {
        let other = match self.shape {
            Shape::Rows { .. } => rows::of_contract(op),
            Shape::Contract { widened: true, .. } => widened(op),
            _ => None,
        };
        let op = other.as_ref().unwrap_or(op);
        let access = |o: usize| op.inputs.get(o).unwrap_or_else(|| &op.outputs[o - op.inputs.len()]);
        if op.inputs.len() + op.outputs.len() != self.operands {
            return Err(Error::internal("a kernel was prepared for another operation"));
        }
        let mut base = vec![0u32; self.arguments.count];
        let mut patches = SmallVec::new();
        let mut numbers = Vec::new();
        let wide = self.arguments.wide;
        let mut at = 0;
        for &word in &self.arguments.words {
            let value = match word {
                Word::Size(d) => op.dims[d] as i64,
                Word::Stride(o, d) => access(o).strides[d] as i64,
                Word::Coefficient(o, g, d) => access(o).guards[g].coefficients[d] as i64,
                Word::GuardOffset(o, g) => access(o).guards[g].offset as i64,
                Word::GuardLimit(o, g) => access(o).guards[g].limit as i64,
                Word::Fill(o, k) => {
                    base[at] = scalar_word(access(o).fill, k);
                    at += 1;
                    continue;
                }
                Word::Param(..) | Word::Note | Word::Ticket | Word::Call => {
                    patches.push((at, word));
                    at += 1;
                    continue;
                }
                Word::Zero => {
                    at += 1;
                    continue;
                }
                Word::Base(_) | Word::Low(_) | Word::High(_) | Word::Work => {
                    patches.push((at, word));
                    0
                }
                Word::Number(n) => {
                    numbers.push((at, n));
                    0
                }
            };
            write(&mut base, at, value, wide);
            at += if wide { 2 } else { 1 };
        }
        let plan = self.plan(op, schedule)?;
        let step = |(entry, groups, list): (usize, u64, Vec<i64>)| -> Result<Step> {
            let mut words = base.clone();
            for &(at, n) in &numbers {
                write(&mut words, at, list.get(n).copied().unwrap_or(0), wide);
            }
            Ok(Step { entry, grid: self.grid(groups)?, words })
        };
        Ok(Prepared {
            by_four: plan.by_four.map(|l| l.into_iter().map(step).collect()).transpose()?,
            by_one: plan.by_one.into_iter().map(step).collect::<Result<_>>()?,
            aligned: plan.aligned,
            patches,
            sizes: (0..self.operands).map(|o| access(o).dtype.size()).collect(),
            bases: (0..self.operands).map(|o| access(o).base).collect(),
            workspace: plan.workspace,
            wide,
            has_pointers: self.arguments.has_pointers,
        })
    }

    /// So many groups as a grid.
    fn grid(&self, groups: u64) -> Result<[u32; 3]> {
        let most = u64::from(self.target.max_grid);
        let x = groups.clamp(1, most);
        let y = groups.div_ceil(x).max(1);
        // Kernels walk on when there are fewer groups than work: a grid that is too large is cut.
        Ok([x as u32, y.min(most) as u32, 1])
    }

    /// Groups for so many threads' worth of work, no more than keep the device busy.
    fn groups_for(&self, threads_of_work: u64, threads: u32) -> u64 {
        let busy = (self.target.units as u64 * 2048 / u64::from(threads)).max(1) * WAVES;
        threads_of_work.div_ceil(u64::from(threads)).clamp(1, busy)
    }

    fn plan(&self, op: &Op, schedule: &Schedule) -> Result<Plan> {
        let rank = op.dims.len();
        let all = elements(&op.dims) as u64;
        match self.shape {
            Shape::Map { vec4, threads } => {
                let by_one = vec![(usize::from(vec4), self.groups_for(all, threads), vec![all as i64])];
                let aligned = if vec4 { self.vec4_alignments(op, rank - 1, rank == 1) } else { None };
                // A thread for every four: groups that begin and end all the time keep the memory busier than few that walk on.
                let groups = (all / 4).div_ceil(u64::from(threads)).clamp(1, u64::from(self.target.max_grid));
                let by_four = aligned.is_some().then(|| vec![(0, groups, vec![(all / 4) as i64, (all % 4) as i64])]);
                Ok(Plan { by_four, by_one, aligned: aligned.unwrap_or_default(), workspace: 0 })
            }
            Shape::Squares { side, edge, threads } => {
                let (tiles_x, tiles_y) = (op.dims[rank - 1].div_ceil(edge) as u64, op.dims[side].div_ceil(edge) as u64);
                let others: u64 = (0..rank - 1).filter(|&d| d != side).map(|d| op.dims[d] as u64).product();
                let total = tiles_x * tiles_y * others;
                let groups = total.min(self.groups_for(u64::MAX / 2, threads));
                Ok(Plan::simple(vec![(0, groups, vec![tiles_x as i64, tiles_y as i64, total as i64])]))
            }
            Shape::Rows { walk, vec4, passes, accumulators, inner } => {
                self.plan_rows(op, walk, vec4, passes, accumulators, inner)
            }
            Shape::Contract { blocks, split, by, .. } => {
                let splits = (split == Split::TwoPass).then_some(schedule.splits);
                self.plan_contract(op, blocks, splits, by)
            }
            Shape::Gather { threads } => {
                let Body::Gather(Gather { lookups, .. }) = &op.body else {
                    return Err(Error::internal("not a lookup"));
                };
                let axes = lookups.iter().flat_map(|l| [l.stride as i64, l.size as i64]);
                let list: Vec<i64> = [all as i64].into_iter().chain(axes).collect();
                Ok(Plan::simple(if all == 0 { Vec::new() } else { vec![(0, self.groups_for(all, threads), list)] }))
            }
            Shape::Attention { queries, keys, split, by } => {
                let at = rank - 4;
                let [m, n, d, e] = [0, 1, 2, 3].map(|i| op.dims[at + i]);
                let (blocks, batches) = (m.div_ceil(queries), elements(&op.dims[..at]));
                let tasks = batches * blocks;
                if tasks * e == 0 {
                    return Ok(Plan::simple(Vec::new()));
                }
                let shares = split == Split::TwoPass;
                let (parts, each) =
                    if shares { attention::parts(tasks, n, keys, self.target.units) } else { (1, n.max(1)) };
                let list = [tasks * parts, blocks, m, n, d, e, parts, each, batches * m * e].map(|v| v as i64).to_vec();
                let groups = ((tasks * parts) as u64).min(self.groups_for(u64::MAX / 2, 256));
                let mut aligned: SmallVec<[(usize, usize); 4]> = SmallVec::new();
                let mut can = by > 1;
                if by > 1 {
                    for (input, dim) in [(0, at + 2), (1, at + 2), (2, at + 3)] {
                        can &= fits(&op.inputs[input], &op.dims, dim, by);
                        aligned.push((input, by * op.inputs[input].dtype.size()));
                    }
                    if op.outputs[0].strides[at + 3] == 1 && e != 1 {
                        can &= fits(&op.outputs[0], &op.dims, at + 3, 4);
                        aligned.push((op.inputs.len(), 4 * op.outputs[0].dtype.size()));
                    }
                }
                let entries = 1 + usize::from(by > 1);
                let steps = |entry: usize| {
                    let join = self.groups_for((batches * m * e) as u64, attention::JOINING);
                    let join = shares.then(|| (entries, join, list.clone()));
                    [(entry, groups, list.clone())].into_iter().chain(join).collect::<Vec<_>>()
                };
                let words = Register::of(op.outputs[0].dtype).words();
                Ok(Plan {
                    by_four: can.then(|| steps(0)),
                    by_one: steps(entries - 1),
                    aligned,
                    workspace: if shares { 4 * words * batches * m * parts * (e + 2) } else { 0 },
                })
            }
            Shape::ScanColumns { inner, whole } => {
                let (rows, length) = (elements(&op.dims[..inner]) as u64, elements(&op.dims[inner..]) as u64);
                if rows * length == 0 {
                    return Ok(Plan::simple(Vec::new()));
                }
                // So many pieces that the device is full, none too short to be worth the sum of those before.
                let most = if whole { 1 } else { length.div_ceil(indexed::SHORTEST) };
                let wanted = (self.target.units as u64 * 2048).div_ceil(rows).clamp(1, most);
                let piece = length.div_ceil(wanted);
                let pieces = length.div_ceil(piece);
                let list: Vec<i64> = [rows, length, piece, pieces].map(|v| v as i64).to_vec();
                let groups = |pieces: u64| self.groups_for(rows * pieces, indexed::THREADS);
                let totals = (pieces > 1).then(|| (0, groups(pieces - 1), list.clone()));
                let steps = totals.into_iter().chain([(1, groups(pieces), list.clone())]).collect();
                let words = Register::of(op.inputs[0].dtype).words();
                Ok(Plan { workspace: 4 * words * (rows * pieces) as usize, ..Plan::simple(steps) })
            }
            Shape::Scan { inner } => {
                let (rows, length) = (elements(&op.dims[..inner]) as u64, elements(&op.dims[inner..]) as u64);
                let groups = rows.min(self.groups_for(u64::MAX / 2, 256));
                let step = (0, groups, vec![rows as i64, length as i64]);
                Ok(Plan::simple(if rows * length == 0 { Vec::new() } else { vec![step] }))
            }
        }
    }

    fn plan_rows(
        &self,
        op: &Op,
        walk: Walk,
        vec4: bool,
        passes: usize,
        accumulators: usize,
        inner: usize,
    ) -> Result<Plan> {
        let (count, length) = (elements(&op.dims[..inner]), elements(&op.dims[inner..]));
        let teams = count.div_ceil(walk.rows).max(1) as u64;
        let aligned = if vec4 { self.vec4_alignments(op, op.dims.len() - 1, false) } else { None };
        if count == 0 {
            return Ok(Plan::simple(Vec::new()));
        }
        if !walk.split {
            let most = self.groups_for(u64::MAX / 2, walk.threads() as u32);
            let list = vec![count as i64, length as i64];
            let step = |entry: usize| vec![(entry, teams.min(most), list.clone())];
            return Ok(Plan {
                by_four: aligned.is_some().then(|| step(0)),
                by_one: step(usize::from(vec4)),
                aligned: aligned.unwrap_or_default(),
                workspace: 0,
            });
        }
        let parts = walk.parts(count, length, self.target.units);
        let finishers = if writes_elements(op) { parts } else { 1 };
        let list = vec![count as i64, length as i64, parts as i64, finishers as i64];
        let steps = |first: usize| -> Vec<(usize, u64, Vec<i64>)> {
            (0..=passes)
                .map(|s| (first + s, teams * if s == passes { finishers } else { parts }, list.clone()))
                .collect()
        };
        Ok(Plan {
            by_four: aligned.is_some().then(|| steps(0)),
            by_one: steps(if vec4 { passes + 1 } else { 0 }),
            aligned: aligned.unwrap_or_default(),
            workspace: accumulators * count * parts as usize * 4,
        })
    }

    fn plan_contract(&self, op: &Op, blocks: Blocks, splits: Option<usize>, by: usize) -> Result<Plan> {
        let Body::Contract(c) = &op.body else { return Err(Error::internal("not a contraction")) };
        let size = |range: std::ops::Range<usize>| elements(&op.dims[range]) as u64;
        let (batch, m, n, k) = (size(0..c.m), size(c.m..c.n), size(c.n..c.k), size(c.k..op.dims.len()));
        let tiles_n = n.div_ceil(blocks.group.n as u64);
        let tiles = tiles_n * m.div_ceil(blocks.group.m as u64);
        let count = batch * m * n;
        if count == 0 {
            return Ok(Plan::simple(Vec::new()));
        }
        // A sum over nothing has one part, too.
        let part_k = splits.map_or(k, |splits| blocks.part(k as usize, splits) as u64).max(1);
        let parts = k.div_ceil(part_k).max(1);
        let total = tiles * batch * parts;
        let list: Vec<i64> = [tiles_n, tiles, total, m, n, k, batch, part_k, count, parts].map(|v| v as i64).to_vec();
        let mut aligned: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        let by_several = by > 1;
        let mut can = by_several;
        if by_several {
            for (dim, expr) in reads_by_four(op, c).into_iter().zip([&c.lhs, &c.rhs]) {
                match (dim, expr.as_input()) {
                    (Some(dim), Some(input)) => {
                        can &= fits(&op.inputs[input as usize], &op.dims, dim, by);
                        aligned.push((input as usize, by * op.inputs[input as usize].dtype.size()));
                    }
                    _ => can = false,
                }
            }
            // Outputs are written as vec4 where they are contiguous; the kernel then relies on it.
            if writes_by_four(op, c) {
                for (o, a) in op.outputs.iter().enumerate() {
                    can &= fits(a, &op.dims, c.k - 1, 4);
                    aligned.push((op.inputs.len() + o, 4 * a.dtype.size()));
                }
            }
        }
        let steps = |entry: usize| {
            let join = splits.map(|_| (1 + usize::from(by_several), self.groups_for(count, JOINING), list.clone()));
            [(entry, total, list.clone())].into_iter().chain(join).collect::<Vec<_>>()
        };
        let bytes = 4 * Register::of(c.acc).words() as u64 * count * parts;
        Ok(Plan {
            by_four: can.then(|| steps(0)),
            by_one: steps(usize::from(by_several)),
            aligned,
            workspace: if splits.is_some() { bytes as usize } else { 0 },
        })
    }

    /// If all operands can be moved as vec4 along this dimension: which of them must be aligned, and to how many bytes.
    fn vec4_alignments(&self, op: &Op, dim: usize, has_tail: bool) -> Option<SmallVec<[(usize, usize); 4]>> {
        let mut list = SmallVec::new();
        for (o, a) in op.inputs.iter().chain(&op.outputs).enumerate() {
            if a.strides[dim] == 1 && op.dims[dim] != 1 {
                if !(fits(a, &op.dims, dim, 4) || has_tail && a.base % 4 == 0) {
                    return None;
                }
                list.push((o, 4 * a.dtype.size()));
            }
        }
        // Operands of stride 0 along the dimension do not care, but its length must be a multiple of four.
        (has_tail || op.dims[dim].is_multiple_of(4)).then_some(list)
    }
}

/// Whether every `by` elements along a dimension of stride 1 lie in one vector of the operand, if its memory is aligned.
fn fits(access: &Access, dims: &[usize], dim: usize, by: usize) -> bool {
    let by_signed = by as isize;
    dims[dim].is_multiple_of(by)
        && access.base % by_signed == 0
        && (0..dims.len()).all(|d| d == dim || dims[d] == 1 || access.strides[d] % by_signed == 0)
}

/// Rounds of groups that a grid has at most; each thread of a longer walk takes several iterations.
const WAVES: u64 = 4;

struct Plan {
    by_four: Option<Vec<(usize, u64, Vec<i64>)>>,
    by_one: Vec<(usize, u64, Vec<i64>)>,
    aligned: SmallVec<[(usize, usize); 4]>,
    workspace: usize,
}

impl Plan {
    fn simple(by_one: Vec<(usize, u64, Vec<i64>)>) -> Plan {
        Plan { by_four: None, by_one, aligned: SmallVec::new(), workspace: 0 }
    }
}

impl Prepared {
    /// Bytes of scratch memory that a run needs.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Calls `run` for each launch, in order, with its arguments complete.
    pub fn encode(&self, bindings: &Bindings<'_>, run: &mut dyn FnMut(Dispatch<'_>) -> Result<()>) -> Result<()> {
        let operand = |o: usize| -> &Binding<'_> {
            bindings.inputs.get(o).unwrap_or_else(|| &bindings.outputs[o - bindings.inputs.len()])
        };
        let is_aligned = |&(o, bytes): &(usize, usize)| {
            let b = operand(o);
            let address = if self.has_pointers { b.memory.address as usize } else { 0 };
            let bytes = if self.has_pointers { bytes.min(16) } else { bytes };
            (address + b.offset) % bytes == 0
        };
        let steps = match &self.by_four {
            Some(steps) if self.aligned.iter().all(is_aligned) => steps,
            _ => &self.by_one,
        };
        for step in steps {
            let mut words: SmallVec<[u32; 64]> = SmallVec::from_slice(&step.words);
            for &(at, word) in &self.patches {
                let relative = |o: usize, byte: usize| {
                    let b = operand(o);
                    let from = if self.has_pointers { b.offset } else { 0 };
                    (byte as i64 - from as i64) / self.sizes[o] as i64
                };
                match word {
                    Word::Base(o) => {
                        let value = relative(o, operand(o).offset) + self.bases[o] as i64;
                        write(&mut words, at, value, self.wide);
                    }
                    Word::Low(o) => write(&mut words, at, relative(o, operand(o).start), self.wide),
                    Word::High(o) => write(&mut words, at, relative(o, operand(o).end), self.wide),
                    Word::Work => {
                        let offset = bindings.workspace.map_or(0, |w| w.offset);
                        write(&mut words, at, if self.has_pointers { 0 } else { offset as i64 / 4 }, self.wide);
                    }
                    Word::Note if self.has_pointers => {}
                    Word::Note => words[at] = bindings.note.map_or(0, |n| (n.offset / 4) as u32),
                    Word::Ticket => words[at] = bindings.note.map_or(0, |n| n.ticket),
                    Word::Call => words[at] = bindings.note.map_or(0, |n| n.call),
                    Word::Param(n, k) => {
                        let value = bindings.params.get(n);
                        let value = value.ok_or_else(|| Error::internal("a launch parameter is missing"))?;
                        words[at] = scalar_word(*value, k);
                    }
                    _ => {}
                }
            }
            run(Dispatch { entry: step.entry, grid: step.grid, words: &words })?;
        }
        Ok(())
    }
}
