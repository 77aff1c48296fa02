//! The left and the right operand: how their expressions become something that can be packed.
//!
//! Three forms, the first that fits: a matrix with strides, read in place (the fast path); an input gathered through
//! its view (several dimensions in a group, padding); an expression of several inputs, computed strip by strip while the
//! operand is packed.

use std::cell::RefCell;
use std::ops::Range;

use millstream_core::backend::{Binding, Bindings};
use millstream_core::pack_cache::FormName;
use millstream_core::{DType, Error, Expr, ExprBuilder, Id, Node, Op, Result, Scalar};

use super::cached::CachedForm;
use super::dispatch::{AccElement, Extent, How};
use super::formula::Formula;
use super::source::{Plucked, StripSource, Strips, Tabled, cheaper};
use super::view::{Along, Origin, Several, Strip, Tables, View, load_strip};
use crate::backend::Machine;
use crate::contract::packed::{self, Batch, PackSource, PackedLayout, Untyped};
use crate::shared::Shared;
use crate::simd::Isa;
use crate::stream::host_address;
use crate::workers::Workers;

/// Where each matrix of the batch begins.
pub(super) enum BatchOffsets {
    /// At equal distances.
    Stride(isize),
    /// At these offsets.
    Table(Vec<isize>),
}

impl BatchOffsets {
    pub(super) fn of(view: &View) -> BatchOffsets {
        match view.batch.single() {
            Some(stride) => BatchOffsets::Stride(stride),
            None => BatchOffsets::Table(view.batch.offsets()),
        }
    }

    pub(super) fn lend(&self) -> Batch<'_> {
        match self {
            BatchOffsets::Stride(s) => Batch::Stride(*s),
            BatchOffsets::Table(t) => Batch::Table(t),
        }
    }
}

/// A matrix in memory.
struct InputMatrix {
    input: usize,
    dtype: DType,
    base: isize,
    row: isize,
    col: isize,
    batch: BatchOffsets,
}

/// An expression over views.
struct Computed {
    formula: Formula,
    /// The inputs that it reads, by their number in the operation.
    views: Vec<(usize, View)>,
    along: Along,
}

enum General {
    /// One input in the type of the sum; with tables where the matmul packs by them quickly.
    Plucked(usize, View, Option<Tables>, Along),
    Computed(Computed),
}

/// One side of a contraction, prepared.
pub(super) struct Operand {
    matrix: Option<InputMatrix>,
    general: General,
    /// If it is one input without guards: the input, and what says which of its elements are packed in which order, for one matrix and
    /// from matrix to matrix.
    form: Option<(usize, FormName, FormName)>,
}

/// The dimensions of one side.
pub(super) struct SideDims {
    pub(super) batch: Range<usize>,
    pub(super) row: Range<usize>,
    pub(super) k: Range<usize>,
}

impl Operand {
    /// Prepares the operand `expr` of `op` for accumulators in `T`, of dtype `acc`.
    pub(super) fn new<T: AccElement>(
        op: &Op,
        expr: &Expr,
        acc: DType,
        side: &SideDims,
        machine: &Machine,
    ) -> Result<Operand> {
        let (isa, walks) = (machine.isa, &machine.walks);
        let view = |i: usize| -> Result<View> {
            let access =
                op.inputs.get(i).ok_or_else(|| Error::internal("an operand reads an input that is not there"))?;
            Ok(View::new(access, &op.dims, side.batch.clone(), side.row.clone(), side.k.clone()))
        };
        // Truth values are counted: they must be 0 or 1 first, which only a program sees to.
        let plain = if acc == DType::Bool { None } else { as_stored::<T>(expr, acc) };
        let (mut matrix, mut form) = (None, None);
        if let Some(i) = plain {
            let view = view(i)?;
            form = op.inputs.get(i).filter(|a| a.is_plain()).map(|a| {
                let walk = |axes: Range<usize>| axes.flat_map(|d| [op.dims[d] as u64, a.strides[d] as u64]);
                let first = [a.dtype as u64, a.base as u64, side.row.len() as u64].into_iter();
                let one = first.chain(walk(side.row.clone())).chain(walk(side.k.clone())).collect();
                (i, one, walk(side.batch.clone()).collect())
            });
            if let (true, Some(row), Some(col)) = (view.is_plain(), view.row.single(), view.col.single()) {
                let batch = BatchOffsets::of(&view);
                matrix = Some(InputMatrix { input: i, dtype: view.dtype, base: view.base, row, col, batch });
            }
            if view.dtype == T::DTYPE {
                // Measured: tables win where rows are neighbours in memory, strips elsewhere.
                let along = cheaper(walks, std::iter::once(&view));
                let neighbours = view.row.step == 1 && along == Along::Row;
                let quick =
                    T::DTYPE == DType::F32 && matches!(isa, Isa::Avx2 | Isa::Avx512) && matrix.is_none() && neighbours;
                let tables = op.inputs.get(i).filter(|_| quick).and_then(|a| Tables::new(&view, a, &op.dims));
                return Ok(Operand { matrix, general: General::Plucked(i, view, tables, along), form });
            }
        }
        let mut views = Vec::new();
        for (i, _) in op.inputs.iter().enumerate().filter(|(i, _)| reads(expr, *i)) {
            views.push((i, view(i)?));
        }
        let along = cheaper(walks, views.iter().map(|(_, v)| v));
        let (other, lane) = match along {
            Along::Row => (side.k.clone(), side.row.clone()),
            Along::Col => (side.row.clone(), side.k.clone()),
        };
        let expr = converted::<T>(expr, acc)?;
        let same = |i: usize| views.iter().any(|(n, v)| *n == i && v.axes(along).0.is_constant());
        let formula = Formula::new(&expr, op, &same, side.batch.clone(), other, lane, isa)?;
        Ok(Operand { matrix, general: General::Computed(Computed { formula, views, along }), form })
    }

    /// The whole operand, as many of its matrices as these, packed one after the other in this layout, if its value is in the pack cache and there is
    /// room for that. `source` is what packs it, for this instruction set and side, and for another operand of this dtype if that matters.
    pub(super) fn packed_once<T: AccElement>(
        &self,
        bindings: &Bindings<'_>,
        source: &dyn PackSource<T>,
        how: (packed::MicroKernel, packed::Side, Option<DType>),
        (layout, matrices): (PackedLayout, usize),
        workers: &Workers,
    ) -> Result<Option<CachedForm<T>>> {
        let Some((input, name, walk)) = &self.form else { return Ok(None) };
        let binding = find(bindings.inputs, *input)?;
        let Some(cache) = binding.pack_cache else { return Ok(None) };
        // Whatever decides about the bytes is part of the name.
        let PackedLayout { rows, k, panel, kc } = layout;
        let offset = binding.offset.wrapping_sub(binding.start);
        let mut name: FormName = name.clone();
        let other = how.2.map_or(usize::MAX, |d| d as usize);
        name.extend([offset, how.0.form(), how.1 as usize, other, T::DTYPE as usize].map(|n| n as u64));
        name.extend([rows, k, panel, kc, matrices].map(|n| n as u64));
        if matrices > 1 {
            name.extend(walk.iter().copied());
        }
        CachedForm::new(cache, &name, layout.elements().saturating_mul(matrices), |elements| {
            match layout.pack(source, matrices, workers, elements) {
                true => Ok(()),
                false => Err(Error::internal("an operand of the pack cache is smaller than its contraction needs")),
            }
        })
    }

    /// The dtype of the matrix that the operand is, if it is one.
    pub(super) fn stored(&self) -> Option<DType> {
        self.matrix.as_ref().map(|m| m.dtype)
    }

    /// The operand on this memory, several numbers at a time; `None` where its numbers are not fit for that.
    pub(super) fn grouped<'a, T: AccElement>(
        &'a self,
        bindings: &'a Bindings<'_>,
        how: How,
        extent: Extent<'_>,
    ) -> Result<Option<Box<dyn PackSource<T> + 'a>>> {
        Ok(self.matrix_on(bindings)?.and_then(|matrix| T::grouped(matrix, how, extent)))
    }

    /// The operand on this memory, if it is a matrix and lies there as its dtype wants it.
    fn matrix_on<'a>(&'a self, bindings: &'a Bindings<'_>) -> Result<Option<Untyped<'a>>> {
        let Some(m) = &self.matrix else { return Ok(None) };
        let binding = find(bindings.inputs, m.input)?;
        let first = host_address(binding.memory, binding.offset)?.cast_const();
        let first = first.wrapping_offset(m.base * m.dtype.size() as isize);
        // SAFETY: the dispatcher has checked that every element of the access lies in the binding, which the caller keeps alive
        // and unwritten while the launch runs.
        let matrix = || unsafe { Untyped::from_raw(m.dtype, first, m.row, m.col, m.batch.lend()) };
        Ok(is_aligned(first, m.dtype).then(matrix))
    }

    /// The operand on this memory.
    pub(super) fn source<'a, T: AccElement>(
        &'a self,
        bindings: &'a Bindings<'_>,
    ) -> Result<Box<dyn PackSource<T> + 'a>> {
        if let Some(source) = self.matrix_on(bindings)?.and_then(T::strided) {
            return Ok(source);
        }
        Ok(match &self.general {
            General::Plucked(i, view, tables, along) => {
                let origin = origin(find(bindings.inputs, *i)?, view.dtype)?;
                let quick = tables.as_ref().filter(|t| t.inside(origin) && is_aligned(origin.base.0, view.dtype));
                match (quick, view.fill::<T>()) {
                    (Some(tables), Some(fill)) => Box::new(Tabled { tables, view, origin, fill }),
                    _ => Box::new(StripSource(Plucked { view, origin, along: *along })),
                }
            }
            General::Computed(computed) => {
                let mut inputs = Vec::with_capacity(computed.views.len());
                for (i, view) in &computed.views {
                    inputs.push((*i, view, origin(find(bindings.inputs, *i)?, view.dtype)?));
                }
                Box::new(StripSource(Evaluated { computed, inputs, params: bindings.params }))
            }
        })
    }

    /// How the operand is read, in a few words.
    pub(super) fn describe(&self) -> String {
        match (&self.matrix, &self.general) {
            (Some(m), _) => format!("input {} as {}, strides {} and {}", m.input, m.dtype, m.row, m.col),
            (None, General::Plucked(i, v, ..)) => {
                let guarded = if v.is_plain() { "" } else { ", guarded" };
                format!("input {i} as {}, gathered{guarded}", v.dtype)
            }
            (None, General::Computed(c)) => format!("computed from {} inputs:\n{}", c.views.len(), c.formula.text()),
        }
    }
}

/// If the expression is one input whose stored values are read as `T` directly: its number.
pub(super) fn as_stored<T: AccElement>(expr: &Expr, acc: DType) -> Option<usize> {
    match (expr.nodes(), expr.outputs()) {
        ([(Node::Input(i), dtype)], _) => T::reads(*dtype).then_some(*i as usize),
        // A cast to the type of the sum does what packing does anyway; of integers that are cast to fewer bits, no more than those count.
        ([(Node::Input(i), dtype), (Node::Cast(_), to)], [out]) => {
            let same = T::DTYPE == acc || T::DTYPE.is_integer() && acc.is_integer();
            (out.at() == 1 && *to == acc && same && T::reads(*dtype)).then_some(*i as usize)
        }
        _ => None,
    }
}

fn reads(expr: &Expr, input: usize) -> bool {
    expr.nodes().iter().any(|(n, _)| matches!(n, Node::Input(i) if *i as usize == input))
}

/// The expression with its result in the type that the sum is computed in.
fn converted<T: AccElement>(expr: &Expr, acc: DType) -> Result<Expr> {
    let mut b = ExprBuilder::new();
    let mut ids: Vec<Id> = Vec::with_capacity(expr.nodes().len());
    for (node, dtype) in expr.nodes() {
        let node = node.with_operands(|id| ids[id.at()]);
        ids.push(b.push(node, *dtype));
    }
    let out = expr.outputs().first().ok_or_else(|| Error::internal("an operand without a result"))?;
    let value = b.cast(ids[out.at()], acc);
    let value = b.cast(value, T::DTYPE);
    Ok(b.finish(&[value]))
}

pub(super) fn find<'a, 'b>(list: &'a [Binding<'b>], i: usize) -> Result<&'a Binding<'b>> {
    list.get(i).ok_or_else(|| Error::internal("fewer operands were bound than the operation has"))
}

/// Where a binding's index 0 lies, and how many elements of this type it has before and after.
pub(super) fn origin(binding: &Binding<'_>, dtype: DType) -> Result<Origin> {
    let size = dtype.size();
    Ok(Origin {
        base: Shared(host_address(binding.memory, binding.offset)?),
        before: (binding.offset.saturating_sub(binding.start) / size) as isize,
        after: (binding.end.min(binding.memory.bytes).saturating_sub(binding.offset) / size) as isize,
    })
}

/// An expression that is computed while the operand is packed.
struct Evaluated<'a> {
    computed: &'a Computed,
    inputs: Vec<(usize, &'a View, Origin)>,
    params: &'a [Scalar],
}

impl<T: AccElement> Strips<T> for Evaluated<'_> {
    fn along(&self) -> Along {
        self.computed.along
    }

    unsafe fn load(&self, strip: Strip, several: Several, out: *mut T, each: &mut dyn FnMut(usize)) {
        thread_local! {
            /// Strips of inputs that do not lie one after the other in memory.
            static SCRATCH: RefCell<Vec<u128>> = const { RefCell::new(Vec::new()) };
        }
        let formula = &self.computed.formula;
        let most = formula.block().min(strip.len);
        SCRATCH.with_borrow_mut(|scratch| {
            // A u128 has room for any element.
            scratch.resize(self.inputs.len() * most, 0);
            let room = scratch.as_mut_ptr();
            formula.session(self.params, |session| {
                for c in 0..several.count {
                    let out = out.wrapping_add(c * several.stride);
                    let mut done = 0;
                    while done < strip.len {
                        let start = strip.start + done;
                        let len = formula.run_length(start).min(strip.len - done).min(most);
                        let part = Strip { start, len, other: strip.other + c, ..strip };
                        for (n, (i, view, origin)) in self.inputs.iter().enumerate() {
                            // SAFETY: each input has room for the longest strip; the strip lies inside the view.
                            let at = unsafe { gather(view, *origin, part, room.wrapping_add(n * most).cast()) };
                            session.input(*i, at, view.dtype.size());
                        }
                        // SAFETY: every input is readable for the strip's elements, and `out` writable for them.
                        unsafe { session.run(part, (std::ptr::null(), 0), &[(out.add(done).cast(), size_of::<T>())]) };
                        done += len;
                    }
                    each(c);
                }
            });
        });
    }

    fn same_for_batch(&self) -> bool {
        !self.computed.formula.uses_index() && self.inputs.iter().all(|(_, v, _)| v.batch.is_constant())
    }
}

/// A strip of an input in place, if it lies there in one piece and aligned, else copied to `room`. An input that is the same all
/// along gives its one element.
///
/// # Safety
/// `room` is writable for the strip's elements; the strip lies inside the view.
pub(super) unsafe fn gather(view: &View, origin: Origin, strip: Strip, room: *mut u8) -> *const u8 {
    let strip = if view.axes(strip.along).0.is_constant() { Strip { len: 1, ..strip } } else { strip };
    if let Some(offset) = view.contiguous(strip.along, strip.batch, strip.other, strip.start, strip.len) {
        let at = origin.base.offset(offset * view.dtype.size() as isize);
        if is_aligned(at, view.dtype) {
            return at;
        }
    }
    // SAFETY: passed on.
    unsafe { load_strip(view, origin, strip, room) };
    room
}

/// Whether a pointer is aligned for this dtype.
pub(super) fn is_aligned(at: *const u8, dtype: DType) -> bool {
    // A complex number is aligned as its parts are.
    (at as usize).is_multiple_of(dtype.real().size())
}
