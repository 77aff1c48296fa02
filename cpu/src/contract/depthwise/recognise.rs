//! Convolutions whose filters see one channel each, by vectors of pixels: which ones, what they cost, and where their numbers lie.

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, Family, Tile, Traffic, Variant};
use millstream_core::what::{WindowAxis, Windows};
use millstream_core::{Access, Body, DType, Op, Result};

use super::{Depthwise, PlaneAxis, PlaneGeometry};
use crate::contract::view::View;
use crate::contract::way::{Asked, InPlace, Parts, Ran, Way};
use crate::simd::Isa;

/// The family of these kernels.
pub(in crate::contract) const FAMILY: Family = Family::new("depthwise");
/// Filters of one channel beyond which matmuls are worth while.
const MOST_FILTERS: usize = 8;
/// Taps beyond which a sum is long: matmuls add those in blocks, so that less is lost, and cut them better.
const MOST_TAPS: usize = 256;
/// Elements of a long vector.
const VECTOR: usize = 16;
/// Results of a row below which most lanes of vectors would be idle.
const LEAST_COLUMNS: usize = 4;

/// A convolution that is computed channel by channel.
pub(in crate::contract) struct Planes {
    depthwise: Depthwise,
    image: InPlace,
    filters: InPlace,
}

impl Planes {
    /// The convolution, if it is one whose sums go over the taps of a window only.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<Planes> {
        asked.op.windows().iter().find_map(|w| Planes::of(asked.op, &w.taps_only(asked.op)?, asked.machine.isa))
    }

    fn of(op: &Op, windows: &Windows, isa: Isa) -> Option<Planes> {
        let Body::Contract(c) = &op.body else { return None };
        let filters = windows.filters?;
        let (a, f) = (&op.inputs[windows.image], &op.inputs[filters]);
        let single = c.acc == DType::F32 && a.dtype == DType::F32 && f.dtype == DType::F32;
        if !single || windows.outputs.len() > 1 || a.guards.len() > 2 || !a.is_plain() && a.fill.to_f64() != 0.0 {
            return None;
        }
        let (x, y, several) = match windows.axes[..] {
            [x] => (x, None, None),
            [y, x] => (x, Some(y), None),
            [images, y, x] if !images.is_padded() && images.taps == 1 => (x, Some(y), Some(images)),
            _ => return None,
        };
        let taps = windows.axes.iter().any(|axis| axis.tap.is_some());
        if !taps || windows.axes.iter().any(|axis| axis.output.is_none()) {
            return None;
        }
        // Neighbours along a row must be contiguous, as they are not where channels come last.
        let x_line = line(x.with_step(1)?, f);
        let y_line = y.map_or(PlaneAxis::SINGLE, |y| line(y, f));
        let output = windows.outputs.clone().next().map_or((1, 0), |d| (op.dims[d], f.strides[d]));
        let is_long = x_line.taps.saturating_mul(y_line.taps) > MOST_TAPS;
        let is_matrix = y.is_none() && is_matrix(&x_line);
        if output.0 > MOST_FILTERS || x_line.pixels < LEAST_COLUMNS || is_long || is_matrix {
            return None;
        }
        let view = |a: &Access| View::new(a, &op.dims, 0..c.m, windows.pixels(c), c.k..op.dims.len()).batch.offsets();
        let of = PlaneGeometry {
            images: view(a),
            filters: view(f),
            inner: several.map_or((1, 0), |axis| (axis.outputs, axis.step * axis.stride as isize)),
            outputs: output,
            first: (a.base - x_line.offset * x_line.step - y_line.offset * y_line.step, f.base),
            y: y_line,
            x: x_line,
            pixels_are_rows: windows.pixels_are_rows(),
        };
        let image = InPlace::new(windows.image, a, &op.dims)?;
        let filters = InPlace::new(filters, f, &op.dims)?;
        Some(Planes { depthwise: Depthwise::new(of, isa)?, image, filters })
    }
}

impl Way for Planes {
    fn candidates(&self, _: &Asked<'_>) -> Vec<Candidate> {
        let (pixels, taps) = self.depthwise.sizes();
        // A vector of pixels in registers; from farther levels an element comes once for all taps.
        let block = |far: usize, near: usize, k: usize| match self.depthwise.geometry.pixels_are_rows {
            true => Block { m: near, n: far, k },
            false => Block { m: far, n: near, k },
        };
        let blocks = [block(1, 1, 1), block(taps, pixels, taps)];
        let traffic = Traffic { tile: Tile::new(blocks), planes: self.depthwise.planes(), ..Traffic::default() };
        vec![Candidate::new(Variant::plain(FAMILY), traffic)]
    }

    fn workspace(&self) -> usize {
        0
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, _: &mut [u8]) -> Result<Ran> {
        let ((_, Some(image)), (_, Some(filters))) = (self.image.find(bindings)?, self.filters.find(bindings)?) else {
            return Ok(Ran::ODD);
        };
        parts.epilogue.with_output(bindings, |out| {
            // SAFETY: every element that guards allow lies in the operands' memory, as was checked; the output is this contraction's.
            unsafe { self.depthwise.run(&parts.machine.workers, image, filters, out) };
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        let (pixels, taps) = self.depthwise.sizes();
        format!("channel by channel: {pixels} pixels, {taps} taps, input {} is the image\n", self.image.input)
    }
}

/// Whether no two pixels see the same element, as in a matrix whose rows or columns are longer than a vector.
fn is_matrix(x: &PlaneAxis) -> bool {
    let rows = x.stride >= x.taps.saturating_mul(x.dilation) && x.taps >= VECTOR;
    rows || x.dilation >= x.pixels.saturating_mul(x.stride)
}

/// An axis as the kernel walks it.
fn line(axis: WindowAxis, filters: &Access) -> PlaneAxis {
    PlaneAxis {
        pixels: axis.outputs,
        taps: axis.taps,
        stride: axis.stride,
        dilation: axis.dilation,
        offset: -axis.before,
        limit: isize::try_from(axis.size).unwrap_or(isize::MAX),
        step: axis.step,
        filter: axis.tap.map_or(0, |d| filters.strides[d]),
    }
}
