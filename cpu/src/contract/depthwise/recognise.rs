//! Convolutions whose filters see one channel each, by vectors of pixels: which ones, what they cost, and where their numbers lie.

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, Family, Tile, Traffic, Variant};
use millstream_core::what::{WindowAxis, Windows};
use millstream_core::{Access, Body, Contract, DType, Op, Result};

use super::bundles::BundleCut;
use super::{Depthwise, PlaneAxis, PlaneGeometry, kernel};
use crate::contract::epilogue::Epilogue;
use crate::contract::view::View;
use crate::contract::way::{Asked, InPlace, Parts, Ran, Way};
use crate::simd::Isa;

/// The family of these kernels.
pub(in crate::contract) const FAMILY: Family = Family::new("depthwise");
pub(in crate::contract) const BUNDLES: Family = Family::new("depthwise bundles");
/// Filters of one channel beyond which matmuls are worth while.
const MOST_FILTERS: usize = 8;
/// Taps beyond which a sum is long: matmuls add those in blocks, so that less is lost, and cut them better.
const MOST_TAPS: usize = 256;
/// Results of a row below which most lanes of vectors would be idle.
const LEAST_COLUMNS: usize = 4;

/// A convolution that is computed channel by channel.
pub(in crate::contract) struct Planes {
    depthwise: Depthwise,
    /// By bundles of channels rather than by vectors of pixels.
    bundles: Option<BundleCut>,
    /// Its epilogue: of several images, each is a matrix of the batch, whatever it is in the operation.
    epilogue: Epilogue,
    image: InPlace,
    filters: InPlace,
}

impl Planes {
    /// The convolution, if it is one whose sums go over the taps of a window only, by vectors of pixels.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<Planes> {
        let planes = Planes::any(asked)?;
        (planes.depthwise.geometry.x.pixels >= LEAST_COLUMNS).then_some(planes)
    }

    /// The same by bundles of channels.
    pub(in crate::contract) fn bundled(asked: &Asked<'_>) -> Option<Planes> {
        let planes = Planes::any(asked)?;
        let (_, taps) = planes.depthwise.sizes();
        let cut = BundleCut::new(&planes.depthwise.geometry, taps, kernel::lanes(asked.machine.isa))?;
        Some(Planes { bundles: Some(cut), ..planes })
    }

    fn any(asked: &Asked<'_>) -> Option<Planes> {
        let isa = asked.machine.isa;
        asked.op.windows().iter().find_map(|w| {
            let windows = w.taps_only(asked.op)?;
            match windows.axes[..] {
                [images, _, _] if !images.is_padded() && images.taps == 1 => {
                    let op = separated(asked.op, images.output?)?;
                    op.windows().iter().find_map(|w| Planes::of(&op, &w.taps_only(&op)?, isa))
                }
                _ => Planes::of(asked.op, &windows, isa),
            }
        })
    }

    fn of(op: &Op, windows: &Windows, isa: Isa) -> Option<Planes> {
        let Body::Contract(c) = &op.body else { return None };
        let filters = windows.filters?;
        let (a, f) = (&op.inputs[windows.image], &op.inputs[filters]);
        let single = c.acc == DType::F32 && a.dtype == DType::F32 && f.dtype == DType::F32;
        if !single || windows.outputs.len() > 1 || a.guards.len() > 2 || !a.is_plain() && a.fill.to_f64() != 0.0 {
            return None;
        }
        let (x, y) = match windows.axes[..] {
            [x] => (x, None),
            [y, x] => (x, Some(y)),
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
        if output.0 > MOST_FILTERS || is_long || is_matrix {
            return None;
        }
        let view = |a: &Access| View::new(a, &op.dims, 0..c.m, windows.pixels(c), c.k..op.dims.len()).batch.offsets();
        let of = PlaneGeometry {
            images: view(a),
            filters: view(f),
            outputs: output,
            first: (a.base - x_line.offset * x_line.step - y_line.offset * y_line.step, f.base),
            y: y_line,
            x: x_line,
            pixels_are_rows: windows.pixels_are_rows(),
        };
        let image = InPlace::new(windows.image, a, &op.dims)?;
        let filters = InPlace::new(filters, f, &op.dims)?;
        let epilogue = Epilogue::new::<f32>(op, c, isa).ok()?;
        Some(Planes { depthwise: Depthwise::new(of, isa)?, bundles: None, epilogue, image, filters })
    }
}

/// The operation with a dimension of its pixels as one of its batch: nothing is shared by images, and each image's pixels lie one after the other.
fn separated(op: &Op, images: usize) -> Option<Op> {
    let Body::Contract(c) = &op.body else { return None };
    if (0..op.dims.len()).any(|d| c.epilogue.uses_index(d)) {
        return None;
    }
    let order: Vec<usize> = std::iter::once(images).chain((0..op.dims.len()).filter(|&d| d != images)).collect();
    let n = if images < c.n { c.n } else { c.n + 1 };
    Some(super::reordered(op, &order, Contract { m: c.m + 1, n, ..(**c).clone() }))
}

impl Way for Planes {
    fn candidates(&self, _: &Asked<'_>) -> Vec<Candidate> {
        let (pixels, taps) = self.depthwise.sizes();
        // An element comes once for all taps and all rows; what is loaded from L1 counts as work.
        let block = match self.depthwise.geometry.pixels_are_rows {
            true => Block { m: pixels, n: taps, k: taps },
            false => Block { m: taps, n: pixels, k: taps },
        };
        let traffic = Traffic { tile: Tile::new([block]), edges: Some((1, 1)), ..Traffic::default() };
        if let Some(cut) = &self.bundles {
            let (transposed, computed) = cut.work(&self.depthwise);
            let traffic = Traffic { transposed, computed: Some(computed), ..traffic };
            return vec![Candidate::new(Variant::plain(BUNDLES), traffic)];
        }
        let (planes, computed) = (self.depthwise.planes(), Some(self.depthwise.computed()));
        vec![Candidate::new(Variant::plain(FAMILY), Traffic { planes, computed, ..traffic })]
    }

    fn workspace(&self) -> usize {
        0
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, _: &mut [u8]) -> Result<Ran> {
        let ((_, Some(image)), (_, Some(filters))) = (self.image.find(bindings)?, self.filters.find(bindings)?) else {
            return Ok(Ran::ODD);
        };
        self.epilogue.with_output(bindings, |out| {
            // SAFETY: every element that guards allow lies in the operands' memory, as was checked; the output is this contraction's.
            unsafe {
                match &self.bundles {
                    Some(cut) => self.depthwise.run_bundles(cut, &parts.machine.workers, image, filters, out),
                    None => self.depthwise.run(&parts.machine.workers, image, filters, out),
                }
            }
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        let (pixels, taps) = self.depthwise.sizes();
        let how = if self.bundles.is_some() { "by bundles of channels" } else { "channel by channel" };
        format!("{how}: {pixels} pixels, {taps} taps, input {} is the image\n", self.image.input)
    }
}

/// Whether no two pixels see the same element, as in a matrix.
fn is_matrix(x: &PlaneAxis) -> bool {
    x.stride >= x.taps.saturating_mul(x.dilation) || x.dilation >= x.pixels.saturating_mul(x.stride)
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
