//! From finished accumulators to results: plain memory, or an expression over each finished tile.
//!
//! The accumulators of a tile are still in the cache when it is finished, so an expression reads them there, together with its
//! other inputs (a bias, a residual), and writes every output once.

use std::cell::RefCell;

use millstream_core::backend::{Binding, Bindings};
use millstream_core::{Contract, DType, Error, Node, Op, Result, Scalar};

use smallvec::SmallVec;

use super::blocks::Blocks;
use super::dispatch::{AccElement, LowerBits};
use super::formula::{Formula, Session};
use super::operand::{BatchOffsets, find, gather, is_aligned, origin};
use super::view::{Along, Origin, Strip, View};
use crate::contract::packed::{Chain, Output, Plain, TileAt, TileSink};
use crate::simd::{Float, Isa, MAX_LANES, Simd, WithSimd, vectorize};
use crate::stream::host_address;

/// A result that is the sum itself, in memory with strides.
struct ResultMatrix {
    base: isize,
    row: isize,
    col: isize,
    batch: BatchOffsets,
}

/// What happens to finished accumulators, prepared.
pub(super) struct Epilogue {
    matrix: Option<ResultMatrix>,
    /// The first result's memory, if it could hold accumulators and its columns are adjacent.
    home: Option<ResultMatrix>,
    /// The result is the sum itself, perhaps rounded to this dtype, wherever its elements lie.
    copied: Option<DType>,
    formula: Formula,
    /// The expression on blocks, where it can be computed so.
    blocks: Option<Blocks>,
    /// Inputs that the expression reads; rows are m, columns are n.
    inputs: Vec<(usize, View)>,
    outputs: Vec<View>,
    along: Along,
    accumulated: Accumulated,
    isa: Isa,
}

/// What the expression sees of accumulators.
#[derive(Clone, Copy, PartialEq)]
enum Accumulated {
    /// The accumulators themselves, or their bits.
    Whole,
    /// Whether they are not zero: they count truth values.
    Counts,
    /// So many of their lower bytes; and whether those are all that the result is.
    Lower(usize, bool),
}

impl Epilogue {
    pub(super) fn new<T: AccElement>(op: &Op, c: &Contract, isa: Isa) -> Result<Epilogue> {
        let view = |a| View::new(a, &op.dims, 0..c.m, c.m..c.n, c.n..c.k);
        let outputs: Vec<View> = op.outputs.iter().map(view).collect();
        let first = outputs.first().ok_or_else(|| Error::internal("a contraction without a result"))?;
        // Integers of one size differ by a sign that their accumulators do not have.
        let bits = |d: DType| d == T::DTYPE || d.is_integer() && T::DTYPE.is_integer() && d.size() == T::DTYPE.size();
        let strided = |yes: bool| match (yes, first.row.single(), first.col.single()) {
            (true, Some(row), Some(col)) => {
                Some(ResultMatrix { base: first.base, row, col, batch: BatchOffsets::of(first) })
            }
            _ => None,
        };
        let itself = c.epilogue.is_acc() && bits(first.dtype) && bits(c.acc);
        let matrix = strided(itself);
        let rounded =
            matches!(c.epilogue.nodes(), [(Node::Acc, DType::F32), (Node::Cast(_), DType::BF16 | DType::F16)]);
        let rounded =
            rounded && outputs.len() == 1 && T::DTYPE == DType::F32 && (first.col.step == 1 || first.col.size == 1);
        let copied = (itself || rounded).then_some(first.dtype);
        // Any memory will do for accumulators to wait in.
        let home = strided(matrix.is_none() && first.dtype.size() == size_of::<T>()).filter(|m| m.col == 1);
        // Strips run along the columns, as accumulators lie in a tile, unless results lie the other way.
        let along =
            if first.row.step == 1 && first.col.step != 1 && first.row.size > 1 { Along::Row } else { Along::Col };
        let (other, lane) = if along == Along::Row { (c.n..c.k, c.m..c.n) } else { (c.m..c.n, c.n..c.k) };
        let read = |i: usize| {
            let node = Node::Input(i as u16);
            c.epilogue.nodes().iter().any(|(n, _)| *n == node)
        };
        let inputs: Vec<(usize, View)> =
            op.inputs.iter().enumerate().filter(|(i, _)| read(*i)).map(|(i, a)| (i, view(a))).collect();
        let same = |i: usize| inputs.iter().any(|(n, v)| *n == i && v.axes(along).0.is_constant());
        let formula = Formula::new(&c.epilogue, op, &same, 0..c.m, other, lane, isa)?;
        let single = T::DTYPE == DType::F32 && c.acc == DType::F32 && along == Along::Col;
        let blocks = if single { Blocks::new(&c.epilogue, &inputs, &outputs, isa) } else { None };
        let accumulated = match c.acc {
            DType::Bool => Accumulated::Counts,
            acc if acc.is_integer() && acc.size() < T::DTYPE.size() => {
                Accumulated::Lower(acc.size(), c.epilogue.is_acc() && outputs.len() == 1 && outputs[0].dtype == acc)
            }
            _ => Accumulated::Whole,
        };
        Ok(Epilogue { matrix, home, copied, formula, blocks, inputs, outputs, along, accumulated, isa })
    }

    /// The result as plain memory, if it is that and the memory is aligned.
    pub(super) fn plain<'a, T: AccElement>(&'a self, bindings: &Bindings<'_>) -> Result<Option<Plain<'a, T>>> {
        let Some(m) = &self.matrix else { return Ok(None) };
        let binding = find(bindings.outputs, 0)?;
        let base = host_address(binding.memory, binding.offset)?.cast::<T>().wrapping_offset(m.base);
        // SAFETY: the dispatcher has checked that every element lies in the binding; outputs are injective, and nobody else
        // uses the memory while the launch runs.
        Ok(base.is_aligned().then(|| unsafe { Plain::from_raw(base, m.row, m.col, m.batch.lend()) }))
    }

    /// Does work whose accumulators are `T`, with the output where they go.
    pub(super) fn with_output<T: AccElement, R>(
        &self,
        bindings: &Bindings<'_>,
        work: impl FnOnce(&Output<'_, T>) -> Result<R>,
    ) -> Result<R> {
        match self.plain::<T>(bindings)? {
            Some(plain) => work(&Output::Plain(plain)),
            None => work(&Output::Sink(&self.sink(bindings)?)),
        }
    }

    /// Whether accumulators that are not complete can wait in the result's memory, if that is aligned and nothing that the
    /// expression reads.
    pub(super) fn holds(&self) -> bool {
        self.home.is_some() || self.matrix.as_ref().is_some_and(|m| m.row == 1 || m.col == 1)
    }

    /// The expression on this memory.
    pub(super) fn sink<'a>(&'a self, bindings: &'a Bindings<'_>) -> Result<Sink<'a>> {
        let inputs = self.inputs.iter().map(|(i, v)| origin(find(bindings.inputs, *i)?, v.dtype));
        let outputs = self.outputs.iter().enumerate().map(|(o, v)| origin(find(bindings.outputs, o)?, v.dtype));
        let result = reach(find(bindings.outputs, 0)?)?;
        let mut alone = true;
        for (i, _) in &self.inputs {
            let input = reach(find(bindings.inputs, *i)?)?;
            alone &= input.end <= result.start || result.end <= input.start;
        }
        Ok(Sink {
            alone,
            epilogue: self,
            inputs: inputs.collect::<Result<_>>()?,
            outputs: outputs.collect::<Result<_>>()?,
            params: bindings.params,
        })
    }

    /// What is done, in a few words.
    pub(super) fn describe(&self) -> String {
        match &self.matrix {
            Some(m) => format!("stored with strides {} and {}", m.row, m.col),
            None => {
                let blocks = self.blocks.as_ref().map_or(String::new(), |b| format!(" {}", b.describe()));
                format!("computed along {:?}{blocks}:\n{}", self.along, self.formula.text())
            }
        }
    }
}

/// An epilogue with its memory.
pub(super) struct Sink<'a> {
    epilogue: &'a Epilogue,
    /// Whether the first result does not overlap what the expression reads.
    alone: bool,
    inputs: Vec<Origin>,
    outputs: Vec<Origin>,
    params: &'a [Scalar],
}

/// Room for the strips that are not used in place: of each input, of each output, and of the accumulators.
#[derive(Default)]
struct Room(Vec<u128>);

impl<T: AccElement> TileSink<T> for Sink<'_> {
    fn chain(&self, batch: usize) -> Option<Chain> {
        let base = |o: &Origin| o.base.0.cast_const().cast::<f32>();
        let inputs: SmallVec<[*const f32; 4]> = self.inputs.iter().map(base).collect();
        let output = base(self.outputs.first()?).cast_mut();
        self.epilogue.blocks.as_ref()?.chain(batch, &inputs, output, self.params)
    }

    fn store(&self, at: &TileAt, tile: &[T]) {
        thread_local! {
            static ROOM: RefCell<Room> = RefCell::default();
        }
        if at.rows == 0 || at.cols == 0 || tile.len() < (at.rows - 1) * at.ld + at.cols {
            return;
        }
        if let Some(blocks) = &self.epilogue.blocks {
            let base = |o: &Origin| o.base.0.cast_const().cast::<f32>();
            let inputs: SmallVec<[*const f32; 4]> = self.inputs.iter().map(base).collect();
            let outputs: SmallVec<[*mut f32; 2]> = self.outputs.iter().map(|o| base(o).cast_mut()).collect();
            // SAFETY: blocks are made for accumulators in f32 only.
            let tile = unsafe { std::slice::from_raw_parts(tile.as_ptr().cast::<f32>(), tile.len()) };
            // SAFETY: the tile lies inside the result, of which the dispatcher has checked that every element of every access
            // is in its binding. Outputs are written by this call only.
            if unsafe { blocks.run(at, tile, &inputs, &outputs, self.params) } {
                return;
            }
        }
        if let Some(dtype) = self.epilogue.copied {
            self.copy_tile(at, tile, dtype);
            return;
        }
        ROOM.with_borrow_mut(|room| {
            self.epilogue.formula.session(self.params, |session| self.store_tile(at, tile, room, session));
        });
    }

    fn home(&self) -> Option<Plain<'_, T>> {
        let m = self.epilogue.home.as_ref().filter(|_| self.alone)?;
        let base = self.outputs.first()?.base.0.cast::<T>().wrapping_offset(m.base);
        // SAFETY: the dispatcher has checked that every element lies in the binding; outputs are injective, the expression does
        // not read this one, and nobody else uses it while the launch runs.
        base.is_aligned().then(|| unsafe { Plain::from_raw(base, m.row, m.col, m.batch.lend()) })
    }
}

/// Rounds numbers to bf16, or to f16, of which `to` has as many, at any address.
struct Round<'a> {
    from: &'a [f32],
    to: *mut u16,
    brain: bool,
}

impl WithSimd for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Round { from, to, brain } = self;
        let (lanes, aligned) = (S::F32::LANES, to.is_aligned());
        // SAFETY: these elements are there: whoever makes this promises those of `to`. What is left, or at an odd address, goes through a buffer.
        unsafe {
            let mut i = 0;
            while i < from.len() {
                let n = lanes.min(from.len() - i);
                let x = S::F32::load_partial(from.as_ptr().add(i), n, s.f32(0.0));
                let mut rest = [0u16; MAX_LANES];
                let direct = n == lanes && aligned;
                let out = if direct { to.wrapping_add(i) } else { rest.as_mut_ptr() };
                if brain {
                    s.store_bf16(x, out);
                } else {
                    s.store_f16(x, out);
                }
                if !direct {
                    std::ptr::copy_nonoverlapping(rest.as_ptr().cast::<u8>(), to.wrapping_add(i).cast(), 2 * n);
                }
                i += lanes;
            }
        }
    }
}

/// The addresses that belong to an operand.
fn reach(binding: &Binding<'_>) -> Result<std::ops::Range<usize>> {
    let at = |offset| Ok::<_, Error>(host_address(binding.memory, offset)?.addr());
    Ok(at(binding.start)?..at(binding.end.min(binding.memory.bytes))?)
}

impl Sink<'_> {
    /// Writes accumulators that are the results, or are rounded to them.
    fn copy_tile<T: AccElement>(&self, at: &TileAt, tile: &[T], dtype: DType) {
        let (view, base) = (&self.epilogue.outputs[0], self.outputs[0].base.0);
        let (runs, step) = (view.col.runs(at.col, at.cols), view.col.step);
        let fixed = view.base + view.batch.offset(at.batch);
        for (r, line) in tile.chunks(at.ld).take(at.rows).enumerate() {
            let row = fixed + view.row.offset(at.row + r);
            for run in &runs {
                let from = &line[run.at..][..run.len];
                let to = base.wrapping_offset((row + run.offset) * dtype.size() as isize);
                // SAFETY: the tile lies inside the result, of which the dispatcher has checked that every element is in its binding;
                // nobody else writes these. Accumulators are rounded only where they are f32.
                unsafe {
                    match dtype {
                        DType::BF16 | DType::F16 => {
                            let from = std::slice::from_raw_parts(from.as_ptr().cast::<f32>(), from.len());
                            vectorize(self.epilogue.isa, Round { from, to: to.cast(), brain: dtype == DType::BF16 });
                        }
                        _ if step == 1 => {
                            std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to, size_of_val(from));
                        }
                        _ => {
                            for (i, &x) in from.iter().enumerate() {
                                to.cast::<T>().wrapping_offset(i as isize * step).write_unaligned(x);
                            }
                        }
                    }
                }
            }
        }
    }

    fn store_tile<T: AccElement>(&self, at: &TileAt, tile: &[T], room: &mut Room, session: &mut Session<'_, '_>) {
        let e = self.epilogue;
        // The other axis, and the axis of the strips: first index, count, and elements of the tile to go.
        let (other, along, step_other, step_along) = match e.along {
            Along::Col => ((at.row, at.rows), (at.col, at.cols), at.ld, 1),
            Along::Row => ((at.col, at.cols), (at.row, at.rows), 1, at.ld),
        };
        let most = e.formula.block().min(along.1);
        // A u128 holds any element.
        room.0.resize((e.inputs.len() + e.outputs.len() + 1) * most, 0);
        let base = room.0.as_mut_ptr();
        let part = |n: usize| base.wrapping_add(n * most).cast::<u8>();
        let mut targets: SmallVec<[(*mut u8, usize); 2]> = SmallVec::new();
        for a in 0..other.1 {
            let mut done = 0;
            while done < along.1 {
                let start = along.0 + done;
                let len = most.min(along.1 - done).min(e.formula.run_length(start));
                let strip = Strip { along: e.along, batch: at.batch, other: other.0 + a, start, len };
                let acc_strip = &tile[a * step_other + done * step_along..];
                // SAFETY: each part of the room has space for `most` elements of any type, and no two are the same. The
                // strip lies inside the views, because the tile lies inside the result. Outputs are written by this call only.
                unsafe {
                    let there = |o: usize| {
                        let (view, origin) = (&e.outputs[o], self.outputs[o]);
                        let offset = view.contiguous(strip.along, strip.batch, strip.other, start, len)?;
                        let at = origin.base.offset(offset * view.dtype.size() as isize);
                        is_aligned(at, view.dtype).then_some(at)
                    };
                    let to = part(e.inputs.len() + e.outputs.len());
                    let acc: (*const u8, usize) = match e.accumulated {
                        Accumulated::Counts => {
                            for i in 0..len {
                                to.add(i).write(u8::from(acc_strip[i * step_along] != T::ZERO));
                            }
                            (to, 1)
                        }
                        Accumulated::Lower(size, all) => {
                            let result = if all { there(0) } else { None };
                            let target = result.unwrap_or(to);
                            let bits = match size {
                                1 => LowerBits::Bytes(std::slice::from_raw_parts_mut(target, len)),
                                _ => LowerBits::Halves(std::slice::from_raw_parts_mut(target.cast(), len)),
                            };
                            T::lower(acc_strip, step_along, bits, e.isa);
                            if result.is_some() {
                                done += len;
                                continue;
                            }
                            (to, size)
                        }
                        Accumulated::Whole if step_along == 1 => (acc_strip.as_ptr().cast(), size_of::<T>()),
                        Accumulated::Whole => {
                            let to = to.cast::<T>();
                            for i in 0..len {
                                to.add(i).write(acc_strip[i * step_along]);
                            }
                            (to.cast(), size_of::<T>())
                        }
                    };
                    for (n, (i, view)) in e.inputs.iter().enumerate() {
                        session.input(*i, gather(view, self.inputs[n], strip, part(n)), view.dtype.size());
                    }
                    targets.clear();
                    for (o, view) in e.outputs.iter().enumerate() {
                        targets.push((there(o).unwrap_or_else(|| part(e.inputs.len() + o)), view.dtype.size()));
                    }
                    session.run(strip, acc, &targets);
                    for (o, view) in e.outputs.iter().enumerate() {
                        if targets[o].0 == part(e.inputs.len() + o) {
                            scatter(view, self.outputs[o], strip, targets[o].0);
                        }
                    }
                }
                done += len;
            }
        }
    }
}

/// Writes a strip to an output.
///
/// # Safety
/// `from` is readable for the strip's elements; the strip lies inside the view, whose elements nobody else uses.
unsafe fn scatter(view: &View, origin: Origin, strip: Strip, from: *const u8) {
    let (axis, other) = view.axes(strip.along);
    let size = view.dtype.size();
    let fixed = view.base + view.batch.offset(strip.batch) + other.offset(strip.other);
    let base = origin.base.0;
    for i in 0..strip.len {
        let to = base.wrapping_offset((fixed + axis.offset(strip.start + i)) * size as isize);
        // SAFETY: passed on.
        unsafe { std::ptr::copy_nonoverlapping(from.add(i * size), to, size) };
    }
}
