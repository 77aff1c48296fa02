//! Small planes as one line: where results have as many columns as the image, row after row, an element of a window lies at one
//! distance from its result in the whole plane. Vectors go over ends of rows, so that narrow planes fill their lanes; what they
//! read beyond an end belongs to a neighbouring row and is left out by a mask.

#![allow(clippy::needless_range_loop)] // Indices of vectors; iterators would be closures here.

use super::Places;
use crate::simd::{Float, Kernel, Simd};

/// Bytes of a plane with what lies around it. Measured: planes of 28 x 28 gain a sixth, those of 56 x 56 nothing.
const MOST_BYTES: usize = 8 << 10;

/// A column of the window.
struct Column {
    /// Which one.
    tap: usize,
    /// From a result to its element.
    shift: isize,
    /// One where the element exists, else zero; nothing where all do.
    mask: Option<Vec<f32>>,
}

/// How planes are walked as lines.
pub(super) struct Flat {
    /// Elements of the image's plane, and zeros before it.
    pub(super) elements: usize,
    pub(super) before: usize,
    /// Elements of the copy with zeros on both sides.
    pub(super) room: usize,
    /// Results of a plane.
    pub(super) results: usize,
    rows: Vec<isize>,
    columns: Vec<Column>,
    taps: usize,
}

impl Flat {
    /// The walk, if planes lie so and are small enough.
    pub(super) fn new(p: &Places, lanes: usize) -> Option<Flat> {
        let (y, x) = (&p.y, &p.x);
        let (width, height) = (x.limit, y.limit);
        let together = x.stride == 1 && y.stride == 1 && isize::try_from(x.places).ok()? == width;
        if !together || x.step != 1 || height > 1 && y.step != width {
            return None;
        }
        let elements = usize::try_from(width.checked_mul(height)?).ok()?;
        let results = y.places.checked_mul(x.places)?;
        let most = MOST_BYTES / size_of::<f32>();
        if results < lanes || results > most || x.taps > most || y.taps > most {
            return None;
        }
        let shift = |line: &super::Line, tap: usize| -> Option<isize> {
            isize::try_from(tap.checked_mul(line.dilation)?).ok()?.checked_add(line.offset)
        };
        let rows = (0..y.taps).map(|r| shift(y, r)?.checked_mul(width)).collect::<Option<Vec<isize>>>()?;
        let mut columns = Vec::with_capacity(x.taps);
        for tap in 0..x.taps {
            let shift = shift(x, tap)?;
            let there = |column: usize| (0..width).contains(&(column as isize + shift));
            let all = (0..x.places).all(there);
            let bit = |i: usize| f32::from(u8::from(there(i % x.places)));
            let mask = (!all).then(|| (0..results).map(bit).collect());
            columns.push((Column { tap, shift, mask }, all));
        }
        let shifts = || rows.iter().flat_map(|r| columns.iter().map(move |(c, _)| r + c.shift));
        let (low, high) = (shifts().min()?, shifts().max()?);
        let before = low.min(0).unsigned_abs();
        let end = isize::try_from(results).ok()?.checked_add(high)?;
        let after = usize::try_from(end).unwrap_or(0).saturating_sub(elements);
        let room = elements.checked_add(before)?.checked_add(after)?;
        if room > most {
            return None;
        }
        // Columns that need no mask come first.
        columns.sort_by_key(|(_, all)| !all);
        let columns = columns.into_iter().map(|(c, _)| c).collect();
        Some(Flat { elements, before, room, results, rows, columns, taps: x.taps })
    }
}

/// The results of a plane.
///
/// The safety contract: `image` is readable from `before` elements before it on for the `room` of its walk, `to` writable for its results.
pub(super) struct Plane<'a> {
    pub(super) flat: &'a Flat,
    pub(super) image: *const f32,
    pub(super) filter: &'a [f32],
    pub(super) to: *mut f32,
}

impl Kernel for Plane<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (lanes, results) = (S::F32::LANES, self.flat.results);
        let mut at = 0;
        // SAFETY: the contract, which whoever makes a `Plane` promises; there are as many results as lanes, or more.
        unsafe {
            while at + 4 * lanes <= results {
                self.some::<S, 4>(s, at);
                at += 4 * lanes;
            }
            // The last vectors may begin inside those before them, if there are as many results.
            let left = (results - at).div_ceil(lanes);
            match (results.checked_sub(left * lanes), left) {
                (Some(first), 1) => self.some::<S, 1>(s, first),
                (Some(first), 2) => self.some::<S, 2>(s, first),
                (Some(first), 3) => self.some::<S, 3>(s, first),
                (Some(first), 4) => self.some::<S, 4>(s, first),
                _ => {
                    while at < results {
                        self.some::<S, 1>(s, at.min(results - lanes));
                        at += lanes;
                    }
                }
            }
        }
    }
}

impl Plane<'_> {
    /// # Safety
    /// The contract of [`Plane`]; there are `V` vectors of results from `at` on.
    #[inline(always)]
    unsafe fn some<S: Simd, const V: usize>(&self, s: S, at: usize) {
        let lanes = S::F32::LANES;
        let zero = s.f32(0.0);
        let mut sums = [zero; V];
        for column in &self.flat.columns {
            let from = self.image.wrapping_add(at).wrapping_offset(column.shift);
            let mut part = if column.mask.is_some() { [zero; V] } else { sums };
            for (r, &shift) in self.flat.rows.iter().enumerate() {
                let w = s.f32(self.filter[r * self.flat.taps + column.tap]);
                for v in 0..V {
                    // SAFETY: the contract: the copy has room for every element of a window.
                    let x = unsafe { S::F32::load(from.wrapping_offset(shift).wrapping_add(v * lanes)) };
                    part[v] = x.madd(w, part[v]);
                }
            }
            if let Some(mask) = &column.mask {
                for v in 0..V {
                    // SAFETY: a mask has an element for each result.
                    let there = unsafe { S::F32::load(mask.as_ptr().wrapping_add(at + v * lanes)) };
                    part[v] = sums[v] + S::F32::select(zero.lt(there), part[v], zero);
                }
            }
            sums = part;
        }
        for v in 0..V {
            // SAFETY: the contract.
            unsafe { sums[v].store(self.to.wrapping_add(at + v * lanes)) };
        }
    }
}
