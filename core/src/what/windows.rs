//! The windows of a convolution: what its stride, dilation, padding and groups are.
//!
//! A convolution reaches a device as a [`Contract`] whose image is read through an access map; nothing else of it is left. This module recovers its
//! structure from the accesses, once, for everybody who computes convolutions in a way of their own ([`Op::windows`]). It describes what is read and no more: an
//! unpadded convolution of stride 2 and dilation 2 reads every other pixel, and is described as one of stride 1 and dilation 1 whose pixels lie
//! twice as far apart.
//!
//! Windows along an axis that share no element and have no padding are no windows here: rows of a matrix look the same. Their taps are listed among the
//! channels; [`Windows::taps_only`] takes them as taps where a kernel knows that there are no channels.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::access::{Access, Guard};
use super::dtype::DType;
use super::expr::{Expr, Node};
use super::layout::Strides;
use super::op::{Body, Contract, Op};

/// Which operand of a contraction is the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageSide {
    /// The left one: pixels of the result are its rows (m), output channels its columns (n).
    Left,
    /// The right one: the other way round.
    Right,
}

/// A convolution's structure. Dimensions are those of its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Which operand the image is.
    pub side: ImageSide,
    /// The input that is the image.
    pub image: usize,
    /// The input that is the filters, where they are stored without padding.
    pub filters: Option<usize>,
    /// Dimensions of the batch along which the filters stay the same: images.
    pub images: SmallVec<[usize; 2]>,
    /// Dimensions of the batch with filters of their own: groups of channels.
    pub groups: SmallVec<[usize; 2]>,
    /// Dimensions of the output channels of a group.
    pub outputs: Range<usize>,
    /// Dimensions that are summed and move no window: the channels of a group.
    pub channels: SmallVec<[usize; 2]>,
    /// Where windows lie: one axis for each dimension of the result's pixels, in their order, then those of which the result has one pixel.
    pub axes: SmallVec<[WindowAxis; 4]>,
}

/// One axis along which windows are moved. Window `i` reads, for its tap `j`, the image's element `i * stride + j * dilation - before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAxis {
    /// The dimension of the result's pixels, if there are several.
    pub output: Option<usize>,
    /// The dimension of the taps, if there are several.
    pub tap: Option<usize>,
    /// Pixels of the result.
    pub outputs: usize,
    /// Taps of the filters.
    pub taps: usize,
    /// Elements of the image from one window to the next.
    pub stride: usize,
    /// Elements of the image from one tap to the next.
    pub dilation: usize,
    /// Elements of padding before the image; negative where the first window begins inside it.
    pub before: isize,
    /// Elements of the image, as far as windows reach them.
    pub size: usize,
    /// Elements of memory from one element of the axis to the next.
    pub step: isize,
    /// Whether guards check its ends; without one no window leaves it.
    padded: bool,
}

impl WindowAxis {
    /// Whether windows may leave the image.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    /// Elements of the padded image that windows go over.
    pub fn span(&self) -> usize {
        (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation + 1
    }

    /// Elements of padding behind the image; negative where windows end before it does.
    pub fn after(&self) -> isize {
        self.span() as isize - self.before - self.size as isize
    }

    /// What each dimension of an operation adds to the coordinate, which is minus `before` at index 0.
    pub fn coefficients(&self, rank: usize) -> Strides {
        let mut by = Strides::from_elem(0, rank);
        for (d, n) in [(self.output, self.stride), (self.tap, self.dilation)] {
            if let Some(d) = d {
                by[d] = n as isize;
            }
        }
        by
    }

    /// The same axis with so many pixels of the result, not more than it has.
    pub fn with_outputs(self, outputs: usize) -> WindowAxis {
        let axis = WindowAxis { outputs, ..self };
        if self.padded { axis } else { WindowAxis { size: axis.span(), ..axis } }
    }

    /// The same axis with neighbours this many elements of memory apart, if the present distance is a multiple of it.
    pub fn with_step(self, step: isize) -> Option<WindowAxis> {
        if self.step == step {
            return Some(self);
        }
        let times = usize::try_from(self.step.checked_div(step)?).ok()?;
        let fits = !self.is_padded() && step.checked_mul(isize::try_from(times).ok()?) == Some(self.step);
        let axis = WindowAxis {
            stride: if self.outputs > 1 { self.stride * times } else { 1 },
            dilation: if self.taps > 1 { self.dilation * times } else { 1 },
            step,
            ..self
        };
        fits.then(|| WindowAxis { size: axis.span(), ..axis })
    }

    /// The axis that these dimensions and the guards that they move describe.
    fn new(a: &Access, dims: &[usize], drawn: &Drawn) -> Option<WindowAxis> {
        let (output, tap) = (drawn.output, drawn.tap);
        let of = |d: Option<usize>, list: &[isize]| d.map_or(0, |d| list[d]);
        let size = |d: Option<usize>| d.map_or(1, |d| dims[d]);
        let strides = (of(output, &a.strides), of(tap, &a.strides));
        let (by, step, (before, limit)) = match drawn.guard {
            Some((first, before, size)) => {
                let g = &a.guards[first].coefficients;
                let by = (of(output, g), of(tap, g));
                let step = if by.0 != 0 { strides.0.checked_div(by.0)? } else { strides.1.checked_div(by.1)? };
                if by.0.checked_mul(step) != Some(strides.0) || by.1.checked_mul(step) != Some(strides.1) {
                    return None;
                }
                match by.0 < 0 || by.1 < 0 {
                    // A coordinate that runs backwards, from the other end.
                    true => ((-by.0, -by.1), step.checked_neg()?, (1 - before - isize::try_from(size).ok()?, size)),
                    false => (by, step, (before, size)),
                }
            }
            None => {
                let common = isize::try_from(gcd(strides.0.unsigned_abs(), strides.1.unsigned_abs())).ok()?.max(1);
                let step = if strides.0 < 0 || strides.1 < 0 { -common } else { common };
                ((strides.0 / step, strides.1 / step), step, (0, 0))
            }
        };
        // What does not move has no stride of its own.
        let positive =
            |n: isize, count: usize| if count == 1 { Some(1) } else { usize::try_from(n).ok().filter(|&n| n > 0) };
        let (outputs, taps) = (size(output), size(tap));
        let axis = WindowAxis {
            output,
            tap,
            outputs,
            taps,
            stride: positive(by.0, outputs)?,
            dilation: positive(by.1, taps)?,
            before,
            size: limit,
            step,
            padded: drawn.guard.is_some(),
        };
        let reach = |count: usize, by: usize| count.checked_sub(1)?.checked_mul(by);
        let span = reach(outputs, axis.stride)?.checked_add(reach(taps, axis.dilation)?)?.checked_add(1)?;
        isize::try_from(span).ok()?;
        Some(if axis.is_padded() { axis } else { WindowAxis { size: span, ..axis } })
    }
}

/// An axis while its dimensions are being found.
#[derive(Clone, Copy, Debug, Default)]
struct Drawn {
    output: Option<usize>,
    tap: Option<usize>,
    /// The first guard that they move, and what all of them say together: elements before the image, and its size.
    guard: Option<(usize, isize, usize)>,
}

impl Windows {
    /// A contraction as a convolution over this operand, whether it has windows or not: a matmul is one by filters of one pixel. `None`
    /// where the image is computed, or its ends are not those of axes.
    fn with_image(op: &Op, side: ImageSide) -> Option<Windows> {
        let Body::Contract(c) = &op.body else { return None };
        let (image, filters, pixels, outputs) = match side {
            ImageSide::Left => (&c.lhs, &c.rhs, c.m..c.n, c.n..c.k),
            ImageSide::Right => (&c.rhs, &c.lhs, c.n..c.k, c.m..c.n),
        };
        let image = stored(image, c.acc)?;
        let a = op.inputs.get(image)?;
        if op.dims.contains(&0) {
            return None;
        }
        let mut drawn = guarded_axes(a, c, pixels, op.dims.len())?;
        let mut channels = SmallVec::new();
        for t in (c.k..op.dims.len()).filter(|&t| a.guards.iter().all(|g| g.coefficients[t] == 0)) {
            match drawn.iter_mut().find(|d| d.is_open() && d.output.is_some_and(|p| share(a, &op.dims, p, t))) {
                Some(axis) => axis.tap = Some(t),
                None => channels.push(t),
            }
        }
        let axes = drawn.iter().map(|d| WindowAxis::new(a, &op.dims, d)).collect::<Option<_>>()?;
        let moves = |d: usize, (node, _): &(Node, DType)| match node {
            Node::Input(i) => op.inputs.get(*i as usize).is_none_or(|f| !f.ignores(d)),
            _ => false,
        };
        let (groups, images) = (0..c.m).partition(|&d| filters.nodes().iter().any(|n| moves(d, n)));
        let filters = stored(filters, c.acc).filter(|&i| op.inputs.get(i).is_some_and(Access::is_plain));
        Some(Windows { side, image, filters, images, groups, outputs, channels, axes })
    }

    /// The same without channels: each is taken as the taps of the innermost axis that has none, inside of which it lies. `None` if one is left.
    pub fn taps_only(&self, op: &Op) -> Option<Windows> {
        let a = op.inputs.get(self.image)?;
        let mut windows = Windows { channels: SmallVec::new(), ..self.clone() };
        let mut inside = windows.axes.len();
        for &t in self.channels.iter().rev() {
            inside = (0..inside).rev().find(|&i| {
                let outer = i.checked_sub(1).and_then(|o| windows.axes[o].output);
                let within = outer.is_none_or(|p| a.strides[t].unsigned_abs() < a.strides[p].unsigned_abs());
                within && !windows.axes[i].is_padded() && windows.axes[i].tap.is_none()
            })?;
            let drawn = Drawn { output: windows.axes[inside].output, tap: Some(t), guard: None };
            windows.axes[inside] = WindowAxis::new(a, &op.dims, &drawn)?;
        }
        Some(windows)
    }

    /// Whether pixels are the rows of the result, and output channels its columns.
    pub fn pixels_are_rows(&self) -> bool {
        self.side == ImageSide::Left
    }

    /// The dimensions of the result's pixels.
    pub fn pixels(&self, c: &Contract) -> Range<usize> {
        match self.side {
            ImageSide::Left => c.m..c.n,
            ImageSide::Right => c.n..c.k,
        }
    }
}

/// The windows of an operation, once somebody has asked for them. They follow from the rest of it and are no part of what it is.
#[derive(Clone, Default)]
pub(super) struct Recovered(OnceLock<Arc<[Windows]>>);

impl Recovered {
    /// Those of the operation that this belongs to.
    pub(super) fn of(&self, op: &Op) -> &[Windows] {
        let recover =
            || [ImageSide::Left, ImageSide::Right].into_iter().filter_map(|side| Windows::with_image(op, side));
        let found = self.0.get_or_init(|| recover().collect());
        debug_assert!(
            recover().eq(found.iter().cloned()),
            "the operation was changed after somebody asked for its windows"
        );
        found
    }
}

impl PartialEq for Recovered {
    fn eq(&self, _: &Recovered) -> bool {
        true
    }
}

impl Eq for Recovered {}

impl Hash for Recovered {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl std::fmt::Debug for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "recovered" } else { "not asked for" })
    }
}

impl Drawn {
    /// Whether it may still have taps, without a guard that says so.
    fn is_open(&self) -> bool {
        self.tap.is_none() && self.guard.is_none()
    }

    /// Takes another guard with the same coefficients as the first.
    fn narrow(&mut self, guards: &[Guard], g: usize) -> Option<()> {
        let guard = &guards[g];
        let (mut low, mut high) =
            (guard.offset.checked_neg()?, isize::try_from(guard.limit).ok()?.checked_sub(guard.offset)?);
        if let Some((first, before, size)) = self.guard {
            if guards[first].coefficients != guard.coefficients {
                return None;
            }
            low = low.max(before);
            high = high.min(before + isize::try_from(size).ok()?);
        }
        let first = self.guard.map_or(g, |(first, ..)| first);
        self.guard = Some((first, low, usize::try_from(high.checked_sub(low)?.max(0)).ok()?));
        Some(())
    }
}

/// The axes of the result's pixels with the taps that guards say they have, and those of taps alone; `None` where a guard's coordinate is not that of
/// one axis.
fn guarded_axes(a: &Access, c: &Contract, pixels: Range<usize>, rank: usize) -> Option<SmallVec<[Drawn; 4]>> {
    let mut axes: SmallVec<[Drawn; 4]> =
        pixels.clone().map(|p| Drawn { output: Some(p), ..Drawn::default() }).collect();
    for (g, guard) in a.guards.iter().enumerate() {
        let moved = |range: Range<usize>| -> Option<Option<usize>> {
            let mut all = range.filter(|&d| guard.coefficients[d] != 0);
            let first = all.next();
            all.next().is_none().then_some(first)
        };
        let (output, tap) = (moved(pixels.clone())?, moved(c.k..rank)?);
        let elsewhere = (0..c.k).any(|d| !pixels.contains(&d) && guard.coefficients[d] != 0);
        if elsewhere || output.is_none() && tap.is_none() {
            return None;
        }
        let at = axes.iter().position(|d| output.is_some() && d.output == output || tap.is_some() && d.tap == tap);
        let axis = match at {
            Some(i) => &mut axes[i],
            None => {
                axes.push(Drawn { tap, ..Drawn::default() });
                axes.last_mut()?
            }
        };
        if axis.output != output || axis.guard.is_some() && axis.tap != tap {
            return None;
        }
        axis.tap = tap;
        axis.narrow(&a.guards, g)?;
    }
    Some(axes)
}

/// Whether windows that dimension `p` moves share elements by their taps `t`: each goes on beyond the beginning of the next one.
fn share(a: &Access, dims: &[usize], p: usize, t: usize) -> bool {
    let (by_output, by_tap) = (a.strides[p], a.strides[t]);
    let reaches =
        |count: usize, by: isize, other: isize| (count - 1).saturating_mul(by.unsigned_abs()) >= other.unsigned_abs();
    by_output.signum() * by_tap.signum() > 0
        && reaches(dims[t], by_tap, by_output)
        && reaches(dims[p], by_output, by_tap)
}

/// The input whose elements an operand is, as they are stored or converted to the type of the sum.
fn stored(expr: &Expr, acc: DType) -> Option<usize> {
    match (expr.nodes(), expr.outputs()) {
        ([(Node::Input(i), _)], _) => Some(*i as usize),
        ([(Node::Input(i), _), (Node::Cast(_), to)], [out]) if out.at() == 1 && *to == acc => Some(*i as usize),
        _ => None,
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
