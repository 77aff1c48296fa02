//! Reductions of windows that slide over an image: pooling. Neighbouring windows lie in neighbouring lanes, and a vector of them
//! goes through all elements of its windows in one register.
//!
//! A window's elements outside the image must be what changes nothing (the lowest number for a maximum, 0 for a sum): they
//! are left out. Error bound of a sum: that of adding one element after the other.

use std::ops::Range;
use std::sync::Arc;

use millstream_core::backend::Bindings;
use millstream_core::{Access, Dims, Node, Reduce, Result};
use smallvec::SmallVec;

use super::across::Across;
use super::{Shape, TASK};
use crate::backend::Machine;
use crate::contract::reach;
use crate::program::{Operand, bases, may_be_direct, seek};
use crate::shared::Shared;
use crate::stream::Run;

/// Windows with more elements than this are rows of their own.
const MOST_ELEMENTS: usize = 256;
/// Fewer lanes than this are not worth it.
const LEAST_LANES: usize = 8;

/// An element of the windows: where it lies from the window's first place, and the lanes that have it.
#[derive(Clone)]
struct Element {
    offset: isize,
    lanes: Range<usize>,
}

/// The coordinates of an element in the guards that do not move along the lanes.
type Coordinates = SmallVec<[isize; 2]>;

/// Reductions of windows, ready for any memory.
pub(super) struct Windows {
    machine: Arc<Machine>,
    /// What is done where the memory is not as usual.
    otherwise: Across,
    what: Reduce,
    dims: Dims,
    pub(super) lane: usize,
    others: SmallVec<[usize; 6]>,
    operands: Vec<Operand>,
    /// Elements between lanes of the image: 1 or 2.
    step: isize,
    /// Elements of image and result for one step of each dimension.
    image: SmallVec<[isize; 6]>,
    result: SmallVec<[isize; 6]>,
    /// Coefficients and limits of guards that do not move along the lanes.
    guards: Vec<(SmallVec<[isize; 6]>, isize)>,
    /// Elements that some lane has, the coordinates of each, and the lanes that have all of them.
    elements: Vec<Element>,
    coordinates: Vec<Coordinates>,
    common: Range<usize>,
    /// The least and the greatest coordinate that elements have in each of these guards.
    extent: SmallVec<[(isize, isize); 2]>,
    /// The elements that it may read, from the binding's first.
    reach: (isize, isize),
}

/// What changes nothing.
fn neutral(what: Reduce) -> Option<f32> {
    match what {
        Reduce::Max => Some(f32::NEG_INFINITY),
        Reduce::Min => Some(f32::INFINITY),
        Reduce::Sum => Some(0.0),
        _ => None,
    }
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

impl Windows {
    /// The windows, if the operation is one reduction of an image of f32, with lanes along this dimension.
    pub(super) fn new(shape: &Shape<'_>, lane: usize, machine: &Arc<Machine>) -> Result<Option<Windows>> {
        let op = shape.op;
        let ([input], [output], Some(expr)) = (&op.inputs[..], &op.outputs[..], op.exprs().next()) else {
            return Ok(None);
        };
        let what = match (expr.nodes(), expr.outputs()) {
            ([(Node::Input(0), a), (Node::Reduce(what, of), b)], [out])
                if *a == millstream_core::DType::F32 && a == b && of.at() == 0 && out.at() == 1 =>
            {
                *what
            }
            _ => return Ok(None),
        };
        let row: usize = op.dims[shape.inner..].iter().product();
        let fits = op.dims[lane] >= LEAST_LANES && (1..=MOST_ELEMENTS).contains(&row);
        let plain = output.is_plain() && output.strides[lane] == 1 && output.dtype == input.dtype;
        let fill = input.is_plain() || neutral(what).is_some_and(|n| input.fill.get::<f32>() == Some(n));
        // Windows that are side by side or overlap, not far rows whose next elements lie side by side.
        let step = input.strides[lane];
        let near = |d: usize| op.dims[d] > 1 && (1..4 * step).contains(&input.strides[d]);
        // With channels in the lanes, the next window begins before this one ends.
        let rows = || (shape.inner..op.dims.len()).filter(|&d| op.dims[d] > 1);
        let end = |d: usize| input.strides[d].unsigned_abs().saturating_mul(op.dims[d]);
        let inside = |d: usize| input.strides[d] != 0 && rows().any(|r| input.strides[d].unsigned_abs() < end(r));
        let vectors = cfg!(target_arch = "x86_64") && machine.isa != crate::simd::Isa::Portable;
        let by_channels = vectors && step == 1 && (0..shape.inner).any(|d| d != lane && op.dims[d] > 1 && inside(d));
        let slides = matches!(step, 1 | 2) && rows().any(near) || by_channels;
        let (true, Some(_), Some(reach)) = (fits && plain && fill && slides, neutral(what), reach(input, &op.dims))
        else {
            return Ok(None);
        };
        let others: SmallVec<[usize; 6]> = (0..shape.inner).filter(|&d| d != lane).collect();
        // Guards that move along the lanes may depend on the place in the window beside that, on nothing else.
        let (along, across): (Vec<_>, Vec<_>) = input.guards.iter().partition(|g| g.coefficients[lane] != 0);
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
                elements.push(Element { offset: sum(&input.strides), lanes });
                coordinates.push(across.iter().map(|g| g.offset + sum(&g.coefficients)).collect());
            }
        }
        let extent = (0..across.len())
            .map(|g| {
                let of = || coordinates.iter().map(|c| c[g]);
                (of().min().unwrap_or(0), of().max().unwrap_or(0))
            })
            .collect();
        let all = |a: &Access| a.strides.iter().copied().collect();
        Ok(Some(Windows {
            machine: machine.clone(),
            otherwise: Across::new(shape, lane, machine)?,
            what,
            dims: op.dims.clone(),
            lane,
            others,
            operands: shape.operands.clone(),
            step,
            image: all(input),
            result: all(output),
            guards: across
                .iter()
                .map(|g| (g.coefficients.iter().copied().collect(), isize::try_from(g.limit).unwrap_or(isize::MAX)))
                .collect(),
            common: common(&elements, op.dims[lane]),
            elements,
            coordinates,
            extent,
            reach,
        }))
    }

    /// One line of results.
    ///
    /// # Safety
    /// `image` is the access's element of index 0 and `result` the output's; all that guards allow is readable, the line
    /// writable.
    unsafe fn line(&self, index: &[usize], image: *const f32, result: *mut f32) {
        let sum = |c: &[isize]| self.others.iter().map(|&d| index[d] as isize * c[d]).sum::<isize>();
        let image = image.wrapping_offset(sum(&self.image));
        let out = result.wrapping_offset(sum(&self.result));
        let shifts: SmallVec<[(isize, isize); 2]> = self.guards.iter().map(|(c, limit)| (sum(c), *limit)).collect();
        let lanes = self.dims[self.lane];
        // Most lines are far from the border.
        let whole =
            self.extent.iter().zip(&shifts).all(|((least, most), (by, limit))| least + by >= 0 && most + by < *limit);
        let some: SmallVec<[Element; 16]>;
        let (live, inside) = if whole {
            (&self.elements[..], self.common.clone())
        } else {
            let held = |c: &Coordinates| c.iter().zip(&shifts).all(|(c, (by, limit))| (0..*limit).contains(&(c + by)));
            let of = self.elements.iter().zip(&self.coordinates);
            some = of.filter(|(_, c)| held(c)).map(|(e, _)| e.clone()).collect();
            (&some[..], common(&some, lanes))
        };
        // SAFETY: lanes of the line; each element is read only where its guards hold.
        unsafe {
            for i in (0..inside.start).chain(inside.end..lanes) {
                out.add(i).write(self.single(image, live, i));
            }
            self.inside(image, live, inside, out);
        }
    }

    /// The result of one lane.
    ///
    /// # Safety
    /// As for [`Windows::line`].
    unsafe fn single(&self, image: *const f32, live: &[Element], i: usize) -> f32 {
        let mut acc = neutral(self.what).unwrap_or(0.0);
        for element in live {
            if element.lanes.contains(&i) {
                // SAFETY: the element's guards hold for this lane.
                let x = unsafe { *image.wrapping_offset(element.offset + i as isize * self.step) };
                acc = match self.what {
                    Reduce::Max if acc.is_nan() || acc > x => acc,
                    Reduce::Min if acc.is_nan() || acc < x => acc,
                    Reduce::Sum => acc + x,
                    _ => x,
                };
            }
        }
        acc
    }

    /// The lanes that have all elements.
    ///
    /// # Safety
    /// As for [`Windows::line`].
    unsafe fn inside(&self, image: *const f32, live: &[Element], lanes: Range<usize>, out: *mut f32) {
        #[cfg(target_arch = "x86_64")]
        if lanes.len() >= avx2::LANES && self.machine.isa != crate::simd::Isa::Portable {
            // SAFETY: whatever instruction set other than the portable one was found here, it comes with AVX2.
            unsafe {
                match (self.step, self.what) {
                    (1, Reduce::Max) => avx2::line::<1, { avx2::MAX }>(image, live, lanes, out),
                    (1, Reduce::Min) => avx2::line::<1, { avx2::MIN }>(image, live, lanes, out),
                    (1, _) => avx2::line::<1, { avx2::SUM }>(image, live, lanes, out),
                    (_, Reduce::Max) => avx2::line::<2, { avx2::MAX }>(image, live, lanes, out),
                    (_, Reduce::Min) => avx2::line::<2, { avx2::MIN }>(image, live, lanes, out),
                    (_, _) => avx2::line::<2, { avx2::SUM }>(image, live, lanes, out),
                }
            }
            return;
        }
        for i in lanes {
            // SAFETY: passed on.
            unsafe { out.add(i).write(self.single(image, live, i)) };
        }
    }
}

/// The lanes that have all these elements.
fn common(elements: &[Element], lanes: usize) -> Range<usize> {
    let first = elements.iter().map(|e| e.lanes.start).max().unwrap_or(0);
    let end = elements.iter().map(|e| e.lanes.end).min().unwrap_or(lanes);
    first..end.max(first)
}

impl Run for Windows {
    fn workspace(&self) -> usize {
        self.otherwise.workspace()
    }

    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let bases = bases(bindings, &self.operands)?;
        let (low, high) = self.reach;
        let inside = bindings.inputs.first().is_some_and(|b| {
            let size = size_of::<f32>();
            let before = (b.offset.saturating_sub(b.start) / size) as isize;
            let after = (b.end.min(b.memory.bytes).saturating_sub(b.offset) / size) as isize;
            -before <= low && high < after
        });
        let (&[image, result], true) = (&bases[..], inside && may_be_direct(&bases, &self.operands, 1)) else {
            return self.otherwise.execute(bindings);
        };
        let lines: usize = self.others.iter().map(|&d| self.dims[d]).product();
        let each = (TASK / (self.dims[self.lane] * self.elements.len().max(1)).max(1)).max(1);
        let (image, result): (Shared<f32>, Shared<f32>) = (Shared(image.first.cast()), Shared(result.first.cast()));
        self.machine.workers.run(lines.div_ceil(each), &|task| {
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            for line in task * each..lines.min((task + 1) * each) {
                seek(&mut index, &self.dims, &self.others, line);
                // SAFETY: the dispatcher has checked the result's access, and what the image's guards allow lies in its binding,
                // as was checked above; each line is written by one task.
                unsafe { self.line(&index, image.at(0), result.at(0)) };
            }
        });
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::*;
    use std::ops::Range;

    use super::Element;

    pub const LANES: usize = 8;
    pub const MAX: u8 = 0;
    pub const MIN: u8 = 1;
    pub const SUM: u8 = 2;

    /// These lanes, at least a vector of them, of elements that lie `STEP` apart.
    ///
    /// # Safety
    /// AVX2 is present; each element is readable at `STEP` times each of the lanes, from `image` on, and `out` writable at them.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn line<const STEP: usize, const WHAT: u8>(
        image: *const f32,
        live: &[Element],
        lanes: Range<usize>,
        out: *mut f32,
    ) {
        let Range { start: mut at, end } = lanes;
        loop {
            // The last vector may go over lanes that the one before has written already.
            let i = at.min(end - LANES);
            let start = match WHAT {
                MAX => f32::NEG_INFINITY,
                MIN => f32::INFINITY,
                _ => 0.0,
            };
            let (mut acc, mut none) = (_mm256_set1_ps(start), _mm256_setzero_ps());
            for element in live {
                // SAFETY: the caller's.
                let x = unsafe { load::<STEP>(image.wrapping_offset(element.offset).wrapping_add(i * STEP)) };
                acc = match WHAT {
                    // The second operand is the result where one is NaN: lanes with a NaN are noted, so that no step waits for that.
                    MAX => _mm256_max_ps(x, acc),
                    MIN => _mm256_min_ps(x, acc),
                    _ => _mm256_add_ps(acc, x),
                };
                if WHAT != SUM {
                    none = _mm256_or_ps(none, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
                }
            }
            acc = _mm256_or_ps(acc, none);
            // SAFETY: the caller's.
            unsafe { _mm256_storeu_ps(out.add(i), acc) };
            at = i + LANES;
            if at >= end {
                break;
            }
        }
    }

    /// Eight elements `STEP` (1 or 2) apart, and nothing behind the last.
    ///
    /// # Safety
    /// They and what lies between them are readable.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load<const STEP: usize>(from: *const f32) -> __m256 {
        // SAFETY: the caller's.
        unsafe {
            let low = _mm256_loadu_ps(from);
            if STEP == 1 {
                return low;
            }
            let high = _mm256_loadu_ps(from.add(7));
            // 0 2 8 10 4 6 12 14, then in order.
            let mixed = _mm256_shuffle_ps::<0b11_01_10_00>(low, high);
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(mixed)))
        }
    }
}
