//! Reductions of windows that slide over an image: pooling. Neighbouring windows lie in neighbouring lanes, and a vector of them
//! goes through all elements of its windows in one register. What follows the reduction (the division of a mean, an activation)
//! is a strip program over lines that are still in L1.
//!
//! A window's elements outside the image must be what changes nothing (the lowest number for a maximum, 0 for a sum): they
//! are left out. Error bound of a sum: that of adding one element after the other.
//!
//! - `line`: one line of windows.

mod line;

use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};
use millstream_core::backend::Bindings;
use millstream_core::{DType, Dims, Error, Expr, ExprBuilder, Id, Node, Reduce, Result};
use smallvec::SmallVec;

use super::RowShape;
use super::interleaved::Interleaved;
use crate::backend::Machine;
use crate::contract::reach;
use crate::program::strip::{StripProgram, StripPtr, StripRunner, StripSpec};
use crate::program::{Bases, Lane, Operand, bases, may_be_direct, seek, step};
use crate::stream::Run;
use line::{PixelElement, WindowElement, WindowLine, neutral};

/// Windows with more elements than this are rows of their own.
const MOST_ELEMENTS: usize = 256;
/// Fewer lanes than this are not worth it.
const LEAST_LANES: usize = 8;
/// Results that wait together for what follows the reduction: half of a small L1.
const WAITING: usize = 4096;

/// The coordinates of an element in the guards that do not move along the lanes.
type Coordinates = SmallVec<[isize; 2]>;

/// The elements that a line at a border has.
type Which = SmallVec<[bool; 32]>;

/// Where a line lies: elements from the image's first, and what that adds to the coordinates of guards.
struct WindowStart {
    image: isize,
    shifts: SmallVec<[isize; 2]>,
}

/// The most kinds of lines at borders that a task remembers.
const MOST_BORDERS: usize = 16;

/// Reductions of windows, ready for any memory.
pub(super) struct WindowRows {
    machine: Arc<Machine>,
    /// What is done where the memory is not as usual.
    otherwise: Interleaved,
    what: Reduce,
    dims: Dims,
    pub(super) lane: usize,
    others: SmallVec<[usize; 6]>,
    operands: Vec<Operand>,
    /// Which input is the image, and its element type.
    image: usize,
    dtype: DType,
    /// Elements between lanes of the image: 1 or 2.
    step: isize,
    /// Elements of the image for one step of each dimension.
    strides: SmallVec<[isize; 6]>,
    /// Coefficients and limits of guards that do not move along the lanes.
    guards: Vec<(SmallVec<[isize; 6]>, isize)>,
    /// Elements that some lane has, and the coordinates of each.
    elements: Vec<WindowElement>,
    coordinates: Vec<Coordinates>,
    /// A line far from the border.
    usual: WindowLine,
    /// The least and the greatest coordinate that elements have in each of these guards.
    extent: SmallVec<[(isize, isize); 2]>,
    /// The elements that it may read, from the binding's first.
    reach: (isize, isize),
    finish: Option<Finish>,
}

/// What follows the reduction.
struct Finish {
    program: StripProgram,
    /// Lines that follow each other, as numbered, and are one strip to every operand but the image.
    joined: usize,
    /// Whether results are reduced where they belong, and changed there.
    in_place: bool,
}

/// The reduction of an expression that is one of windows, the input that it reduces, and what follows it: an expression of the
/// reduced value.
fn parts(expr: &Expr, varies: &[bool]) -> Option<(Reduce, u16, Expr)> {
    let mut found = None;
    for (i, (node, _)) in expr.nodes().iter().enumerate() {
        match *node {
            Node::Reduce(what, of) if found.is_none() => match expr.node(of) {
                Node::Input(image) => found = Some((what, image, of, Id(i as u32))),
                _ => return None,
            },
            Node::Reduce(..) => return None,
            _ => {}
        }
    }
    let (what, image, pixel, result) = found?;
    let mut after = ExprBuilder::new();
    let mut ids: Vec<Id> = Vec::with_capacity(expr.nodes().len());
    for (i, &(node, dtype)) in expr.nodes().iter().enumerate() {
        let id = Id(i as u32);
        // Nothing but the reduction may see single elements.
        if (varies[i] && id != pixel) || (id != result && node.operands().any(|o| o == pixel)) {
            return None;
        }
        let node = if id == result { Node::Acc } else { node.with_operands(|o| ids[o.at()]) };
        ids.push(after.push(node, dtype));
    }
    let outputs: Vec<Id> = expr.outputs().iter().map(|o| ids[o.at()]).collect();
    (!expr.outputs().contains(&pixel)).then(|| (what, image, after.finish(&outputs)))
}

/// The indices `i` from 0 on for which `at + i * step` is from 0 up to `limit`.
pub(super) fn held(at: isize, step: isize, limit: usize) -> Range<usize> {
    let (at, step, limit) = (at as i128, step as i128, limit as i128);
    // The least i with i * step >= x, for a positive step.
    let least = |x: i128, step: i128| (x + step - 1).div_euclid(step);
    let (first, end) = match step {
        0 if (0..limit).contains(&at) => (0, i128::MAX),
        0 => (0, 0),
        1.. => (least(-at, step), least(limit - at, step)),
        _ => (least(at - limit + 1, -step), least(at + 1, -step)),
    };
    let index = |i: i128| usize::try_from(i.max(0)).unwrap_or(usize::MAX);
    index(first)..index(end)
}

impl WindowRows {
    /// The windows, if the operation is one reduction of an image of f32 or of a half type and what follows it, with lanes along
    /// this dimension.
    pub(super) fn new(shape: &RowShape<'_>, lane: usize, machine: &Arc<Machine>) -> Result<Option<WindowRows>> {
        let op = shape.op;
        let ([output], Some(expr)) = (&op.outputs[..], op.exprs().next()) else { return Ok(None) };
        let Some((what, image, after)) = parts(expr, &shape.varies) else { return Ok(None) };
        let image = image as usize;
        let input = &op.inputs[image];
        let row: usize = op.dims[shape.inner..].iter().product();
        let fits = op.dims[lane] >= LEAST_LANES && (1..=MOST_ELEMENTS).contains(&row);
        let per_row = (shape.inner..op.dims.len()).all(|d| output.strides[d] == 0);
        let plain = (0..op.inputs.len()).all(|i| i == image || op.inputs[i].is_plain());
        let plain = plain && per_row && output.is_plain() && output.strides[lane] == 1;
        let pixels = matches!(input.dtype, DType::F32 | DType::F16 | DType::BF16);
        let fill = input.is_plain() || neutral(what).is_some_and(|n| input.fill.to_f64() == f64::from(n));
        // Windows that are adjacent or overlap, not far rows whose next elements are contiguous.
        let step = input.strides[lane];
        let near = |d: usize| op.dims[d] > 1 && (1..4 * step).contains(&input.strides[d]);
        // With channels in the lanes, the next window begins before this one ends.
        let rows = || (shape.inner..op.dims.len()).filter(|&d| op.dims[d] > 1);
        let end = |d: usize| input.strides[d].unsigned_abs().saturating_mul(op.dims[d]);
        let inside = |d: usize| input.strides[d] != 0 && rows().any(|r| input.strides[d].unsigned_abs() < end(r));
        let vectors = cfg!(target_arch = "x86_64") && machine.isa != crate::simd::Isa::Portable;
        let by_channels = vectors && step == 1 && (0..shape.inner).any(|d| d != lane && op.dims[d] > 1 && inside(d));
        let slides = matches!(step, 1 | 2) && rows().any(near) || by_channels;
        let (true, Some(_), Some(reach)) =
            (fits && plain && pixels && fill && slides, neutral(what), reach(input, &op.dims))
        else {
            return Ok(None);
        };
        let others: SmallVec<[usize; 6]> = (0..shape.inner).filter(|&d| d != lane).collect();
        // Guards that move along the lanes may depend on the index in the window beside that, on nothing else.
        let (along, fixed): (Vec<_>, Vec<_>) = input.guards.iter().partition(|g| g.coefficients[lane] != 0);
        if along.iter().any(|g| others.iter().any(|&d| g.coefficients[d] != 0 && op.dims[d] > 1)) {
            return Ok(None);
        }
        let row_dims: SmallVec<[usize; 6]> = (shape.inner..op.dims.len()).collect();
        let (mut elements, mut coordinates): (Vec<_>, Vec<Coordinates>) = (Vec::new(), Vec::new());
        for i in 0..row {
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, op.dims.len());
            seek(&mut index, &op.dims, &row_dims, i);
            let sum = |c: &[isize]| row_dims.iter().map(|&d| index[d] as isize * c[d]).sum::<isize>();
            // Where a guard holds is one range of lanes.
            let mut lanes = 0..op.dims[lane];
            for g in &along {
                let held = held(g.offset + sum(&g.coefficients), g.coefficients[lane], g.limit);
                lanes = lanes.start.max(held.start)..lanes.end.min(held.end);
            }
            if lanes.start < lanes.end {
                elements.push(WindowElement { offset: sum(&input.strides), lanes });
                coordinates.push(fixed.iter().map(|g| g.offset + sum(&g.coefficients)).collect());
            }
        }
        let extent = (0..fixed.len())
            .map(|g| {
                let of = || coordinates.iter().map(|c| c[g]);
                (of().min().unwrap_or(0), of().max().unwrap_or(0))
            })
            .collect();
        let finish = match (after.nodes().len() == 1, output.dtype) {
            (true, DType::F32) => None,
            _ => Some(Finish::new(shape, &after, image, lane, &others, machine)?),
        };
        Ok(Some(WindowRows {
            machine: machine.clone(),
            otherwise: Interleaved::new(shape, lane, machine)?,
            what,
            dims: op.dims.clone(),
            lane,
            others,
            operands: shape.operands.clone(),
            image,
            dtype: input.dtype,
            step,
            strides: input.strides.iter().copied().collect(),
            guards: fixed
                .iter()
                .map(|g| (g.coefficients.iter().copied().collect(), isize::try_from(g.limit).unwrap_or(isize::MAX)))
                .collect(),
            usual: WindowLine::new(&elements, op.dims[lane], step),
            elements,
            coordinates,
            extent,
            reach,
            finish,
        }))
    }

    /// The code that follows the reduction, as text.
    pub(super) fn text(&self) -> String {
        let after = self.finish.as_ref().map_or(String::new(), |f| format!("then\n{}", f.program.text()));
        format!("windows, lanes along dimension {}\n{after}", self.lane)
    }

    /// Where the line of an index lies.
    fn start_of(&self, index: &[usize]) -> WindowStart {
        let mut start = WindowStart { image: 0, shifts: SmallVec::from_elem(0, self.guards.len()) };
        for &d in &self.others {
            self.move_on(&mut start, d, index[d] as isize);
        }
        start
    }

    /// Moves so many steps on along a dimension.
    #[inline]
    fn move_on(&self, start: &mut WindowStart, d: usize, steps: isize) {
        start.image += self.strides[d] * steps;
        for (shift, (coefficients, _)) in start.shifts.iter_mut().zip(&self.guards) {
            *shift += coefficients[d] * steps;
        }
    }

    /// One line of results; `borders` are lines at borders that were met before.
    ///
    /// # Safety
    /// `image` is the access's element of index 0; all that guards allow is readable, `out` writable for all lanes.
    unsafe fn line<T: PixelElement>(
        &self,
        start: &WindowStart,
        image: *const T,
        out: *mut f32,
        borders: &mut Vec<(Which, WindowLine)>,
    ) {
        let image = image.wrapping_offset(start.image);
        let vectors = self.machine.isa != crate::simd::Isa::Portable;
        // Most lines are far from the border.
        let mut whole = true;
        for (g, by) in start.shifts.iter().enumerate() {
            let ((least, most), limit) = (self.extent[g], self.guards[g].1);
            whole &= least + by >= 0 && most + by < limit;
        }
        // SAFETY: each element is read only where its guards hold. Whatever instruction set other than the portable one was
        // found on this architecture, it comes with AVX2 and F16C.
        unsafe {
            if whole {
                return self.usual.run(self.what, image, self.step, out, vectors);
            }
            let guards = || start.shifts.iter().zip(&self.guards);
            let held =
                |c: &Coordinates| c.iter().zip(guards()).all(|(c, (by, (_, limit)))| (0..*limit).contains(&(c + by)));
            let which: Which = self.coordinates.iter().map(held).collect();
            let known = borders.iter().position(|(of, _)| *of == which);
            let at = known.unwrap_or_else(|| {
                if borders.len() == MOST_BORDERS {
                    borders.clear();
                }
                let some = self.elements.iter().zip(&which).filter(|(_, held)| **held).map(|(e, _)| e.clone());
                let line = WindowLine::new(&some.collect::<Vec<_>>(), self.dims[self.lane], self.step);
                borders.push((which, line));
                borders.len() - 1
            });
            borders[at].1.run(self.what, image, self.step, out, vectors);
        }
    }

    /// The lines from number `from` to before `to`.
    fn lines<T: PixelElement>(
        &self,
        bases: &Bases,
        from: usize,
        to: usize,
        mut strip: Option<(&Finish, &mut StripRunner<'_>)>,
    ) {
        let lanes = self.dims[self.lane];
        let (result, output) = (self.operands.len() - 1, &self.operands[self.operands.len() - 1]);
        let image: *const T = bases[self.image].first.0.cast();
        let together = match &strip {
            Some((finish, _)) => (WAITING / lanes).clamp(1, finish.joined),
            None => 1,
        };
        let separate = strip.as_ref().is_some_and(|(finish, _)| !finish.in_place);
        let mut scratch: Vec<f32> = vec![0.0; if separate { together * lanes } else { 0 }];
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        seek(&mut index, &self.dims, &self.others, from);
        let mut start = self.start_of(&index);
        let mut borders = Vec::new();
        let mut at = from;
        while at < to {
            let joined = strip.as_ref().map_or(1, |(finish, _)| finish.joined);
            let count = (to - at).min(together).min(joined - at % joined);
            let first = index.clone();
            let target = bases[result].first.offset(output.offset(&first));
            let values: *mut f32 = if separate { scratch.as_mut_ptr() } else { target.cast() };
            for line in 0..count {
                // SAFETY: the dispatcher has checked the result's access, and what the image's guards allow lies in its binding, as
                // was checked before; each line is written by one task. Joined lines follow each other.
                unsafe { self.line(&start, image, values.wrapping_add(line * lanes), &mut borders) };
                match step(&mut index, &self.dims, &self.others) {
                    Some(d) if Some(&d) == self.others.last() => self.move_on(&mut start, d, 1),
                    _ => start = self.start_of(&index),
                }
            }
            if let Some((_, strip)) = &mut strip {
                let operand = |i: usize| {
                    let o = &self.operands[i];
                    StripPtr::new(bases[i].first.offset(o.offset(&first)), o.strides[self.lane])
                };
                let inputs: SmallVec<[StripPtr; 4]> = (0..result).map(operand).collect();
                let size = size_of::<f32>() as isize;
                // SAFETY: the dispatcher has checked all accesses; values are changed element by element, or do not overlap.
                unsafe {
                    strip.run(&inputs, StripPtr::new(values.cast(), size), &[operand(result)], &first, count * lanes)
                };
            }
            at += count;
        }
    }

    fn all_lines<T: PixelElement>(&self, bases: &Bases, bindings: &Bindings<'_>) {
        let lines: usize = self.others.iter().map(|&d| self.dims[d]).product();
        // A vector takes several elements at once.
        let each = (4 * self.machine.task / (self.dims[self.lane] * self.elements.len().max(1)).max(1)).max(1);
        self.machine.workers.run(lines.div_ceil(each), &|task| {
            let (from, to) = (task * each, lines.min((task + 1) * each));
            match &self.finish {
                None => self.lines::<T>(bases, from, to, None),
                Some(finish) => finish.program.with(bindings.params, |strip| {
                    self.lines::<T>(bases, from, to, Some((finish, strip)));
                }),
            }
        });
    }
}

impl Finish {
    fn new(
        shape: &RowShape<'_>,
        after: &Expr,
        image: usize,
        lane: usize,
        others: &[usize],
        machine: &Arc<Machine>,
    ) -> Result<Finish> {
        let op = shape.op;
        let (output, inputs) =
            shape.operands.split_last().ok_or_else(|| Error::internal("windows without a result"))?;
        let lanes: Vec<(DType, Lane)> = inputs.iter().map(|o| (o.dtype, o.lane(Some(lane), op.dims[lane]))).collect();
        let program = StripProgram::new(&StripSpec {
            expr: after,
            isa: machine.isa,
            inputs: &lanes,
            acc: Some(Lane::Unit),
            outputs: &[Lane::Unit],
            lane: Some(lane),
        })?;
        // Lines are joined from the last dimension on while the next line begins where every operand's ends.
        let mut joined = 1;
        if !after.nodes().iter().any(|(n, _)| matches!(n, Node::Index(_))) {
            let follows = |o: &Operand, d: usize, n: usize| o.strides[d] == o.strides[lane] * n as isize;
            let mut length = op.dims[lane];
            for &d in others.iter().rev() {
                let all = inputs.iter().enumerate().filter(|(i, _)| *i != image).map(|(_, o)| o).chain([output]);
                if op.dims[d] > 1 && !all.into_iter().all(|o| follows(o, d, length)) {
                    break;
                }
                (joined, length) = (joined * op.dims[d].max(1), length * op.dims[d].max(1));
            }
        }
        // Another input may lie where the result does.
        Ok(Finish { program, joined, in_place: output.dtype == DType::F32 && inputs.len() == 1 })
    }
}

impl Run for WindowRows {
    fn workspace(&self) -> usize {
        self.otherwise.workspace()
    }

    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let bases = bases(bindings, &self.operands)?;
        let (low, high) = self.reach;
        let inside = bindings.inputs.get(self.image).is_some_and(|b| {
            let size = self.dtype.size();
            let before = (b.offset.saturating_sub(b.start) / size) as isize;
            let after = (b.end.min(b.memory.bytes).saturating_sub(b.offset) / size) as isize;
            -before <= low && high < after
        });
        if !inside || !may_be_direct(&bases, &self.operands, self.operands.len() - 1) {
            return self.otherwise.execute(bindings);
        }
        match self.dtype {
            DType::F16 => self.all_lines::<f16>(&bases, bindings),
            DType::BF16 => self.all_lines::<bf16>(&bases, bindings),
            _ => self.all_lines::<f32>(&bases, bindings),
        }
        Ok(())
    }
}
