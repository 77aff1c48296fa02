//! Depthwise convolutions of images whose channels lie apart, by vectors of channels.
//!
//! Where rows of results are short, or filters large, vectors of neighbouring pixels have idle lanes, and shuffles cost more than the sums. Here as many
//! neighbouring channels as a vector has lanes, a *bundle*, are copied so that they are neighbours in memory, with a border of zeros along x; every tap is then
//! one vector of the copy for as many results, whatever the strides. Rows beside the image are left out, unless a filter is not finite there: zeros times
//! that are no zeros. Accumulators are transposed back on their way to the result.

#![allow(clippy::needless_range_loop)] // Indices of accumulators; iterators would be closures here.

use std::cell::RefCell;
use std::ops::Range;

use super::{Depthwise, PlaneAxis, PlaneGeometry};
use crate::contract::direct::transpose;
use crate::contract::packed::Output;
use crate::shared::Shared;
use crate::simd::{Float, Simd, WithSimd, vectorize};
use crate::topology::Topology;
use crate::workers::Workers;

/// Multiply-adds that make a task worth while.
const TASK_WORK: usize = 1 << 19;
/// Pixels that are transposed at a time: they stay in L1.
const RUN: usize = 64;
/// Accumulators of a tile, at most: they, a filter's vector and an operand fit the registers.
const MOST_PIXELS: usize = 14;

/// How a convolution is cut for bundles.
pub(super) struct BundleCut {
    lanes: usize,
    /// Columns of the copy, and those of the image's coordinates among them.
    wide: usize,
    there: Range<isize>,
    /// Bundles of a task, and rows of results of one.
    together: usize,
    rows: usize,
}

impl BundleCut {
    /// The cut; `None` where the images of a bundle are not equally far apart, or numbers are too large.
    pub(super) fn new(geometry: &PlaneGeometry, taps: usize, lanes: usize) -> Option<BundleCut> {
        let (y, x) = (&geometry.y, &geometry.x);
        if !geometry.images.chunks(lanes).all(even) {
            return None;
        }
        let wide = x.span(x.pixels)?;
        let there = x.offset.max(0)..x.limit.min(x.offset.checked_add_unsigned(wide)?);
        if there.is_empty() {
            return None;
        }
        let line = wide.checked_mul(lanes)?;
        // Rows of the copy stay in L2.
        let most = (Topology::here().l2().size / 4 / size_of::<f32>() / line.max(1)).saturating_sub(y.span(1)?)
            / y.stride.max(1);
        let bands = y.pixels.div_ceil(most.max(4));
        let rows = y.pixels.div_ceil(bands);
        let work =
            taps.checked_mul(x.pixels)?.checked_mul(rows)?.checked_mul(geometry.outputs.0)?.checked_mul(lanes)?;
        let together = if bands == 1 { (TASK_WORK / work.max(1)).max(1) } else { 1 };
        Some(BundleCut { lanes, wide, there, together, rows })
    }

    /// Elements that are copied or transposed, and multiply-adds, of all lanes.
    pub(super) fn work(&self, of: &Depthwise) -> (u64, u64) {
        let p = &of.geometry;
        let lanes = p.images.len().next_multiple_of(self.lanes) as u64;
        let lines = p.y.span(p.y.pixels).map_or(u64::MAX, |lines| (lines as u64).min(p.y.limit.unsigned_abs() as u64));
        let image = (self.there.len() as u64).saturating_mul(lines);
        let results = (p.y.pixels * p.x.pixels * p.outputs.0) as u64;
        let inside = |r: usize| {
            let all = (0..p.y.pixels).map(|row| p.y.offset + (row * p.y.stride + r * p.y.dilation) as isize);
            all.filter(|at| (0..p.y.limit).contains(at)).count() as u64
        };
        let sums = (0..p.y.taps).map(inside).sum::<u64>() * (p.x.taps * p.x.pixels * p.outputs.0) as u64;
        (lanes.saturating_mul(image.saturating_add(results)), lanes.saturating_mul(sums))
    }
}

/// What a thread keeps between tasks.
#[derive(Default)]
struct Room {
    block: Vec<f32>,
    run: Vec<f32>,
    weights: Vec<f32>,
    acc: Vec<f32>,
    results: Vec<f32>,
}

/// The first elements of a buffer that has so many.
fn some(of: &mut Vec<f32>, elements: usize) -> &mut [f32] {
    if of.len() < elements {
        of.resize(elements, 0.0);
    }
    &mut of[..elements]
}

impl Depthwise {
    /// Computes it by bundles.
    ///
    /// # Safety
    /// As for [`Depthwise::run`].
    pub(super) unsafe fn run_bundles(
        &self,
        cut: &BundleCut,
        workers: &Workers,
        image: *const f32,
        filters: *const f32,
        out: &Output<'_, f32>,
    ) {
        let p = &self.geometry;
        let image = Shared::read(image.wrapping_offset(p.first.0));
        let filters = Shared::read(filters.wrapping_offset(p.first.1));
        let (bundles, bands) = (p.images.len().div_ceil(cut.lanes), p.y.pixels.div_ceil(cut.rows));
        workers.run(bundles.div_ceil(cut.together) * bands, &|task| {
            thread_local! {
                static ROOM: RefCell<Room> = RefCell::default();
            }
            let (first, band) = (task / bands * cut.together, task % bands);
            let rows = band * cut.rows..p.y.pixels.min((band + 1) * cut.rows);
            ROOM.with_borrow_mut(|room| {
                for bundle in first..bundles.min(first + cut.together) {
                    let channels = bundle * cut.lanes..p.images.len().min((bundle + 1) * cut.lanes);
                    let rows = rows.clone();
                    let bundle = Bundle { of: self, cut, channels, rows, image: image.at(0), filters: filters.at(0) };
                    // SAFETY: the caller's; tasks write different parts of the output.
                    unsafe { bundle.compute(room, out) };
                }
            });
        });
    }
}

/// Whether offsets are equally far apart.
fn even(offsets: &[isize]) -> bool {
    offsets.windows(3).all(|w| w[1] - w[0] == w[2] - w[1])
}

/// From the first of a few equally distant offsets to the next.
fn step(offsets: &[isize]) -> isize {
    if offsets.len() > 1 { offsets[1] - offsets[0] } else { 0 }
}

/// Some rows of the results of a bundle.
struct Bundle<'a> {
    of: &'a Depthwise,
    cut: &'a BundleCut,
    channels: Range<usize>,
    rows: Range<usize>,
    image: *const f32,
    filters: *const f32,
}

impl Bundle<'_> {
    /// # Safety
    /// As for [`Depthwise::run`]; the results of these rows and channels are nobody else's.
    unsafe fn compute(&self, room: &mut Room, out: &Output<'_, f32>) {
        let (p, lanes) = (&self.of.geometry, self.cut.lanes);
        let (x, pixels) = (&p.x, self.rows.len() * p.x.pixels);
        let Room { block, run, weights, acc, results } = room;
        let weights = some(weights, self.of.weights.len() * lanes * p.outputs.0);
        // Idle lanes count as finite.
        weights.fill(0.0);
        for (o, weights) in weights.chunks_exact_mut(self.of.weights.len() * lanes).enumerate() {
            // SAFETY: the caller's.
            unsafe { self.filters(o, weights) };
        }
        let mut lines = self.lines();
        if weights.iter().all(|w| w.is_finite()) {
            let from = lines.start.clamp(0, p.y.limit);
            lines = from..lines.end.clamp(from, p.y.limit);
        }
        let block = some(block, lines.len() * self.cut.wide * lanes);
        // The border; nothing else is ever written there.
        let (before, after) =
            ((self.cut.there.start - x.offset) as usize * lanes, (self.cut.there.end - x.offset) as usize * lanes);
        for (line, at) in block.chunks_exact_mut(self.cut.wide * lanes).zip(lines.clone()) {
            let inside = (0..p.y.limit).contains(&at);
            line[..if inside { before } else { after }].fill(0.0);
            line[after..].fill(0.0);
        }
        let run = some(run, self.cut.there.len().max(RUN) * lanes);
        let acc = some(acc, pixels * lanes);
        // SAFETY: the caller's.
        unsafe { self.copy(&lines, run, block) };
        for (o, weights) in weights.chunks_exact(self.of.weights.len() * lanes).enumerate() {
            let (rows, lines) = (self.rows.clone(), lines.clone());
            vectorize(self.of.isa, Sums { y: p.y, x: p.x, wide: self.cut.wide, rows, lines, block, weights, acc });
            // SAFETY: the caller's.
            unsafe { self.store(o, acc, results, out) };
        }
    }

    /// The lines that these rows name, in the image or beside it.
    fn lines(&self) -> Range<isize> {
        let y = &self.of.geometry.y;
        let from = y.offset + (self.rows.start * y.stride) as isize;
        from..y.offset + ((self.rows.end - 1) * y.stride + (y.taps - 1) * y.dilation) as isize + 1
    }

    /// The filters of an output as `[taps][lanes]`.
    ///
    /// # Safety
    /// As for [`Depthwise::run`].
    unsafe fn filters(&self, output: usize, to: &mut [f32]) {
        let (p, taps, lanes) = (&self.of.geometry, &self.of.weights, self.cut.lanes);
        let offsets = &p.filters[self.channels.clone()];
        let first = self.filters.wrapping_offset(offsets[0] + output as isize * p.outputs.1);
        let is_run = taps.iter().enumerate().all(|(i, &at)| at == taps[0] + i as isize);
        // SAFETY: these are elements of the filters; there is a vector for each tap.
        unsafe {
            if is_run && even(offsets) {
                let from = first.wrapping_offset(taps[0]);
                transpose(from, step(offsets), self.channels.len(), taps.len(), to.as_mut_ptr(), lanes as isize);
                return;
            }
            for (line, &tap) in to.chunks_exact_mut(lanes).zip(taps) {
                for (to, at) in line.iter_mut().zip(offsets) {
                    *to = *first.wrapping_offset(at - offsets[0] + tap);
                }
            }
        }
    }

    /// Copies lines of an image to the block.
    ///
    /// # Safety
    /// As for [`Depthwise::run`].
    unsafe fn copy(&self, lines: &Range<isize>, run: &mut [f32], block: &mut [f32]) {
        let (p, lanes, cut) = (&self.of.geometry, self.cut.lanes, self.cut);
        let offsets = &p.images[self.channels.clone()];
        let image = self.image.wrapping_offset(offsets[0] + cut.there.start);
        let width = cut.there.len();
        // Lines without gaps between them are transposed together.
        let together = if p.y.step == width as isize { (RUN / width.max(1)).max(1) } else { 1 };
        let before = (cut.there.start - p.x.offset) as usize * lanes;
        let (mut line, end) = (lines.start.max(0), lines.end.min(p.y.limit));
        let beside = (line - lines.start) as usize;
        let mut to = block.chunks_exact_mut(cut.wide * lanes).skip(beside);
        while line < end {
            let some = together.min((end - line) as usize);
            let from = image.wrapping_offset(line * p.y.step);
            // SAFETY: the caller's; the run has room for these pixels.
            unsafe {
                transpose(from, step(offsets), self.channels.len(), some * width, run.as_mut_ptr(), lanes as isize);
            }
            for (from, to) in run.chunks_exact((width * lanes).max(1)).zip(to.by_ref()).take(some) {
                to[before..before + width * lanes].copy_from_slice(from);
            }
            line += some as isize;
        }
    }

    /// Gives the accumulators of an output of each channel away.
    ///
    /// # Safety
    /// As for [`Bundle::compute`].
    unsafe fn store(&self, o: usize, acc: &[f32], results: &mut Vec<f32>, out: &Output<'_, f32>) {
        let (p, lanes, channels) = (&self.of.geometry, self.cut.lanes, self.channels.clone());
        let (pixels, pixel) = (self.rows.len() * p.x.pixels, self.rows.start * p.x.pixels);
        if let Output::Plain(c) = out {
            let (along, output) = if p.pixels_are_rows { (c.row, c.col) } else { (c.col, c.row) };
            let first = c.at(channels.start);
            let step =
                if channels.len() > 1 { c.at(channels.start + 1).wrapping_byte_sub(first.addr()).addr() } else { 0 };
            let even = channels
                .clone()
                .skip(2)
                .all(|b| c.at(b).addr() == first.addr().wrapping_add((b - channels.start).wrapping_mul(step)));
            let step = step as isize / size_of::<f32>() as isize;
            if along == 1 && even {
                let to = first.wrapping_offset(pixel as isize + o as isize * output);
                // SAFETY: these are results of this task; there is a vector of accumulators for each pixel.
                unsafe { transpose(acc.as_ptr(), lanes as isize, pixels, channels.len(), to, step) };
                return;
            }
        }
        let results = some(results, pixels * lanes);
        // SAFETY: there is a vector of accumulators for each pixel, and room for as many results of each channel.
        unsafe {
            transpose(acc.as_ptr(), lanes as isize, pixels, channels.len(), results.as_mut_ptr(), pixels as isize)
        };
        for (b, done) in channels.zip(results.chunks_exact(pixels)) {
            self.of.store((b, pixel, o), done, out);
        }
    }
}

/// The sums of some rows of results, from the copy of the image's lines.
struct Sums<'a> {
    y: PlaneAxis,
    x: PlaneAxis,
    /// Columns of the copy.
    wide: usize,
    rows: Range<usize>,
    lines: Range<isize>,
    block: &'a [f32],
    weights: &'a [f32],
    acc: &'a mut [f32],
}

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let lanes = S::F32::LANES;
        let Sums { y, x, wide, rows, lines, block, weights, acc } = self;
        // What unchecked reads below rely on.
        let reach = (x.pixels - 1) * x.stride + (x.taps - 1) * x.dilation + 1;
        assert!(block.len() >= lines.len() * wide * lanes && wide >= reach);
        assert!(weights.len() >= y.taps * x.taps * lanes && acc.len() >= rows.len() * x.pixels * lanes);
        // As many accumulators as registers leave room for, in tiles of nearly as many pixels.
        let most = MOST_PIXELS.min(6 * S::VECTORS);
        let tiles = x.pixels.div_ceil(most);
        let mut to = acc.as_mut_ptr();
        for row in rows {
            // Taps whose lines are in the image; they are neighbours.
            let line = |tap: usize| y.offset + (row * y.stride + tap * y.dilation) as isize;
            let mut first = 0;
            while first < y.taps && line(first) < lines.start {
                first += 1;
            }
            let mut end = first;
            while end < y.taps && line(end) < lines.end {
                end += 1;
            }
            for tile in 0..tiles {
                let (begin, next) = (tile * x.pixels / tiles, (tile + 1) * x.pixels / tiles);
                let at = (line(first) - lines.start) * (wide * lanes) as isize + (begin * x.stride * lanes) as isize;
                let of = Tile {
                    from: block.as_ptr().wrapping_offset(at),
                    line: y.dilation * wide * lanes,
                    lines: end - first,
                    taps: x.taps,
                    tap: x.dilation * lanes,
                    pixel: x.stride * lanes,
                    weights: weights.as_ptr().wrapping_add(first * x.taps * lanes),
                    to,
                };
                macro_rules! tile {
                    ($($pixels:literal)*) => {
                        match next - begin {
                            // SAFETY: checked above: lines of these taps are in the block, and in them the columns of these pixels.
                            $($pixels => unsafe { of.compute::<S, $pixels>(s) },)*
                            _ => {}
                        }
                    };
                }
                tile!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
                to = to.wrapping_add((next - begin) * lanes);
            }
        }
    }
}

/// Neighbouring results of a row.
struct Tile {
    from: *const f32,
    /// Elements from one line of the image, tap and pixel to the next, and how many lines and taps of each.
    line: usize,
    lines: usize,
    taps: usize,
    tap: usize,
    pixel: usize,
    weights: *const f32,
    to: *mut f32,
}

impl Tile {
    /// # Safety
    /// All that it names is readable, `to` writable for `P` vectors.
    #[inline(always)]
    unsafe fn compute<S: Simd, const P: usize>(&self, s: S) {
        let lanes = S::F32::LANES;
        let mut acc = [s.f32(0.0); P];
        let mut weights = self.weights;
        // SAFETY: the caller's.
        unsafe {
            for line in 0..self.lines {
                let mut from = self.from.wrapping_add(line * self.line);
                for _ in 0..self.taps {
                    let w = S::F32::load(weights);
                    for p in 0..P {
                        acc[p] = S::F32::load(from.wrapping_add(p * self.pixel)).madd(w, acc[p]);
                    }
                    weights = weights.wrapping_add(lanes);
                    from = from.wrapping_add(self.tap);
                }
            }
            for p in 0..P {
                acc[p].store(self.to.wrapping_add(p * lanes));
            }
        }
    }
}
