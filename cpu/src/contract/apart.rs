//! Convolutions whose filters see one channel each: see [`crate::depthwise`]. This finds out which ones, and where their numbers lie.

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, Family, Tile, Traffic, Variant};
use millstream_core::{Access, Contract, DType, Op, Result};

use super::operand::{Roles, find, is_aligned, origin};
use super::view::{View, guards_axes, reach};
use crate::backend::Machine;
use crate::depthwise::{Depthwise, Line, Places};
use crate::gemm::Output;
use crate::simd::Isa;

/// The family of these kernels.
pub(super) const FAMILY: Family = Family::new("depthwise");
/// Filters of one channel beyond which products of matrices are worth while.
const MOST_FILTERS: usize = 8;
/// Taps beyond which a sum is long: products of matrices add those in blocks, so that less is lost, and cut them better.
const MOST_TAPS: usize = 256;
/// Results of a row below which most lanes of vectors would be idle.
const LEAST_COLUMNS: usize = 4;

/// A convolution that is computed channel by channel.
pub(super) struct Apart {
    depthwise: Depthwise,
    /// The inputs that are the image and the filters.
    image: usize,
    filters: usize,
    /// The elements that may be read of both, from the bindings' first.
    reach: [(isize, isize); 2],
}

impl Apart {
    /// The convolution, if it is one whose sums go over the taps of a window only.
    pub(super) fn new(op: &Op, isa: Isa) -> Option<Apart> {
        Roles::either(op, |c, roles| Apart::of(op, c, roles, isa))
    }

    fn of(op: &Op, c: &Contract, roles: Roles, isa: Isa) -> Option<Apart> {
        let Roles { image, filters, places, outputs, places_are_rows } = roles;
        let (a, f) = (op.inputs.get(image)?, op.inputs.get(filters)?);
        if a.dtype != DType::F32 || f.dtype != DType::F32 || !f.is_plain() || outputs.len() > 1 || a.guards.len() > 2 {
            return None;
        }
        if !a.is_plain() && a.fill.to_f64() != 0.0 || !guards_axes(a) {
            return None;
        }
        let taps: Vec<usize> = (c.k..op.dims.len()).collect();
        let (x, y, several) = match places.len() {
            1 => (places.start, None, None),
            2 => (places.start + 1, Some(places.start), None),
            3 => (places.start + 2, Some(places.start + 1), Some(places.start)),
            _ => return None,
        };
        let below = |d: usize| y.is_some_and(|y| a.strides[d].abs() < a.strides[y].abs()) || y.is_none();
        let (r, s) = match taps[..] {
            [r, s] if y.is_some() => (Some(r), Some(s)),
            [s] if below(s) => (None, Some(s)),
            [r] => (Some(r), None),
            _ => return None,
        };
        let free = |d: usize| a.guards.iter().all(|g| g.coefficients[d] == 0);
        if (0..c.m).chain(several).any(|d| !free(d)) {
            return None;
        }
        let across = line(op, a, f, (Some(x), s), (y, r), Some(1))?;
        let down = line(op, a, f, (y, r), (Some(x), s), None)?;
        let (size, stride) = (|d: usize| op.dims[d], |a: &Access, d: usize| a.strides[d]);
        let output = outputs.clone().next();
        let many = output.map_or(1, size);
        // Neighbours along a row must lie side by side, as they do not where channels come last.
        let is_long = across.taps.saturating_mul(down.taps) > MOST_TAPS;
        if many > MOST_FILTERS || across.places < LEAST_COLUMNS || across.step != 1 || is_long {
            return None;
        }
        let view = |a: &Access| View::new(a, &op.dims, 0..c.m, places.clone(), c.k..op.dims.len()).batch.offsets();
        let of = Places {
            images: view(a),
            filters: view(f),
            inner: several.map_or((1, 0), |d| (size(d), stride(a, d))),
            outputs: output.map_or((1, 0), |d| (size(d), stride(f, d))),
            first: (a.base - across.offset * across.step - down.offset * down.step, f.base),
            y: down,
            x: across,
            places_are_rows,
        };
        let reach = [reach(a, &op.dims)?, reach(f, &op.dims)?];
        Some(Apart { depthwise: Depthwise::new(of, isa)?, image, filters, reach })
    }

    /// This way to compute it, for the cost model.
    pub(super) fn candidate(&self) -> Candidate {
        let (places, taps) = self.depthwise.sizes();
        // A vector of places in registers; from farther levels an element comes once for all taps.
        let block = |far: usize, near: usize, k: usize| match self.depthwise.places.places_are_rows {
            true => Block { m: near, n: far, k },
            false => Block { m: far, n: near, k },
        };
        let blocks = [block(1, 1, 1), block(taps, places, taps)];
        let traffic = Traffic { tile: Tile::new(blocks), copied: self.depthwise.copied(), ..Traffic::default() };
        Candidate::new(Variant::plain(FAMILY), traffic)
    }

    /// Bytes of all windows, each written out.
    pub(super) fn windows(&self) -> u64 {
        let (places, taps) = self.depthwise.sizes();
        let planes = self.depthwise.places.images.len() as u64 * self.depthwise.places.inner.0 as u64;
        planes * (places * taps * size_of::<f32>()) as u64
    }

    /// Computes it, if the memory allows it.
    pub(super) fn run(&self, machine: &Machine, bindings: &Bindings<'_>, out: &Output<'_, f32>) -> Result<bool> {
        let mut base = [std::ptr::null::<f32>(); 2];
        for (i, input) in [self.image, self.filters].into_iter().enumerate() {
            let place = origin(find(bindings.inputs, input)?, DType::F32)?;
            let (low, high) = self.reach[i];
            if low < -place.before || high >= place.after || !is_aligned(place.base, DType::F32) {
                return Ok(false);
            }
            base[i] = place.base.cast();
        }
        // SAFETY: every element that guards allow lies in the operands' memory, as was checked; the output is this contraction's.
        unsafe { self.depthwise.run(&machine.workers, base[0], base[1], out) };
        Ok(true)
    }

    /// What is done, in a few words.
    pub(super) fn describe(&self) -> String {
        let (places, taps) = self.depthwise.sizes();
        format!("channel by channel: {places} places, {taps} taps, input {} is the image\n", self.image)
    }
}

/// The coordinate that a place and a tap move; `other` are those of the other axis. `step` is the distance of neighbours, if it is
/// known.
fn line(
    op: &Op,
    a: &Access,
    f: &Access,
    (place, tap): (Option<usize>, Option<usize>),
    other: (Option<usize>, Option<usize>),
    step: Option<isize>,
) -> Option<Line> {
    let stride = |d: Option<usize>| d.map_or(0, |d| a.strides[d]);
    let size = |d: Option<usize>| d.map_or(1, |d| op.dims[d]);
    let by = |g: &millstream_core::Guard, d: Option<usize>| d.map_or(0, |d| g.coefficients[d]);
    let mut guards = a.guards.iter().filter(|g| by(g, place) != 0 || by(g, tap) != 0);
    let (guard, None) = (guards.next(), guards.next()) else { return None };
    let (places, taps) = (size(place), size(tap));
    // By how many coordinates a place and a tap move; a guard says it, else neighbours are as near as both allow.
    let (by_place, by_tap, step) = match guard {
        Some(g) => {
            if by(g, other.0) != 0 || by(g, other.1) != 0 {
                return None;
            }
            let (p, t) = (by(g, place), by(g, tap));
            let worth = if p != 0 { stride(place).checked_div(p)? } else { stride(tap).checked_div(t)? };
            (p, t, worth)
        }
        None => {
            let (mut p, mut t) = (stride(place).unsigned_abs(), stride(tap).unsigned_abs());
            while t != 0 {
                (p, t) = (t, p % t);
            }
            let step = step.unwrap_or(isize::try_from(p.max(1)).ok()?);
            (stride(place) / step, stride(tap) / step, step)
        }
    };
    let fits = by_place * step == stride(place) && by_tap * step == stride(tap);
    // What does not move has no stride of its own.
    let by_place = if places == 1 { 1 } else { by_place };
    let by_tap = if taps == 1 { 1 } else { by_tap };
    if !fits || by_place <= 0 || by_tap <= 0 || step == 0 {
        return None;
    }
    let (by_place, by_tap) = (by_place as usize, by_tap as usize);
    let span = places.checked_sub(1)?.checked_mul(by_place)?.checked_add(taps.checked_sub(1)?.checked_mul(by_tap)?)?;
    Some(Line {
        places,
        taps,
        stride: by_place,
        dilation: by_tap,
        offset: guard.map_or(0, |g| g.offset),
        limit: guard.map_or(isize::try_from(span).ok()? + 1, |g| isize::try_from(g.limit).unwrap_or(isize::MAX)),
        step,
        filter: tap.map_or(0, |d| f.strides[d]),
    })
}
