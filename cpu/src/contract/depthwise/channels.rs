//! Depthwise convolutions whose channels are contiguous: vectors are channels, and nothing is copied.
//!
//! A few pixels of a row are summed together, so that a vector of filters is loaded once for all of them, and pass through a plain epilogue in
//! registers. A tap outside the image reads a line of fill values instead. Pixels and taps may have any number of axes. How the work is cut
//! depends on the sizes only. Error bound: that of the sum, `(k + 2) * eps * sum |x| |w|`.

#![allow(clippy::needless_range_loop)] // Indices of pixels and vectors; iterators would be closures here.

use std::cell::RefCell;
use std::ops::Range;

use super::TASK_WORK;
use crate::contract::direct::scatter;
use crate::contract::packed::{Chain, Output, TileAt};
use crate::epilogue_chain::{apply, element};
use crate::shared::Shared;
use crate::simd::{Float, Isa, Simd, WithSimd, vectorize};
use crate::workers::Workers;

/// Pixels that are summed together: with two vectors each, 12 accumulators in registers. Fewer where so many are not left.
const PIXELS: usize = 6;
const SOME_PIXELS: usize = 3;
/// Bytes of finished results that go to the epilogue at once, if those are as many pixels as epilogues take together.
const TILE_BYTES: usize = 16 << 10;
const TILE_PIXELS: usize = 8;

/// An index of some axes: elements from the image's first, and its share of each guarded coordinate.
#[derive(Clone, Debug)]
pub(crate) struct TapOffset {
    pub(crate) offset: isize,
    pub(crate) coordinates: Vec<isize>,
}

/// Where the numbers of a convolution lie, from the addresses that a run is given.
pub(crate) struct ChannelGeometry {
    pub(crate) channels: usize,
    /// To the image of each matrix of the batch.
    pub(crate) batches: Vec<isize>,
    /// Rows of pixels, and the columns of each: how many, and what one is worth.
    pub(crate) rows: Vec<TapOffset>,
    pub(crate) columns: usize,
    pub(crate) column: TapOffset,
    pub(crate) taps: Vec<TapOffset>,
    /// For each guarded coordinate, its value for the first pixel and tap, and the first that is too large.
    pub(crate) guards: Vec<(isize, isize)>,
    /// What is read where a coordinate is outside.
    pub(crate) fill: f32,
}

/// A convolution ready for any memory.
pub(crate) struct ChannelKernel {
    pub(crate) geometry: ChannelGeometry,
    isa: Isa,
    /// Neighbouring columns whose taps are found together: the first, and how many. Of several, no tap leaves the image along the row.
    pieces: Vec<(usize, usize)>,
    /// A line of fill values.
    outside: Vec<f32>,
    /// Rows of a task.
    together: usize,
    /// Pixels of a tile that is given away.
    most: usize,
}

impl ChannelKernel {
    /// A convolution; `None` where there is nothing to do, or too little for vectors of channels.
    pub(crate) fn new(geometry: ChannelGeometry, isa: Isa) -> Option<ChannelKernel> {
        let p = &geometry;
        let none = p.batches.is_empty() || p.rows.is_empty() || p.columns == 0 || p.taps.is_empty();
        if none || p.channels < super::kernel::lanes(isa) {
            return None;
        }
        // A coordinate that columns move must not depend on the row, so that all rows are cut alike.
        let moved = |g: usize| p.column.coordinates[g] != 0;
        if p.rows.iter().any(|r| (0..p.guards.len()).any(|g| moved(g) && r.coordinates[g] != 0)) {
            return None;
        }
        let whole = |x: usize| {
            p.taps.iter().all(|t| {
                (0..p.guards.len()).filter(|&g| moved(g)).all(|g| {
                    let at = p.guards[g].0 + x as isize * p.column.coordinates[g] + t.coordinates[g];
                    (0..p.guards[g].1).contains(&at)
                })
            })
        };
        let inner = inner(p.columns, whole);
        let work = p.taps.len() * p.columns * p.channels;
        let together = (TASK_WORK / work.max(1)).max(1);
        let most = TILE_BYTES / (p.channels * size_of::<f32>()) / TILE_PIXELS * TILE_PIXELS;
        let most = most.max(TILE_PIXELS);
        let mut pieces: Vec<(usize, usize)> = (0..inner.start).map(|x| (x, 1)).collect();
        let piece = most.next_multiple_of(PIXELS);
        pieces.extend(inner.clone().step_by(piece).map(|x| (x, piece.min(inner.end - x))));
        pieces.extend((inner.end..p.columns).map(|x| (x, 1)));
        Some(ChannelKernel { isa, pieces, outside: vec![p.fill; p.channels], together, most, geometry })
    }

    /// Pixels of one matrix of the batch, and taps.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.geometry.rows.len() * self.geometry.columns, self.geometry.taps.len())
    }

    /// Elements of the filters in the order in which they are read: for each tap, all channels.
    pub(crate) fn filters(&self) -> usize {
        self.geometry.taps.len() * self.geometry.channels
    }

    /// Computes it; the image's address is that of its element of index 0, filters are those of [`ChannelKernel::filters`].
    ///
    /// # Safety
    /// Every element of the image whose coordinates are in their limits is readable; nobody writes it meanwhile. The output is that
    /// of this convolution: rows are pixels, columns channels.
    pub(crate) unsafe fn run(&self, workers: &Workers, image: *const f32, filters: &[f32], out: &Output<'_, f32>) {
        debug_assert!(filters.len() >= self.filters());
        let p = &self.geometry;
        let image = Shared::read(image);
        let tasks = p.rows.len().div_ceil(self.together);
        workers.run(p.batches.len() * tasks, &|i| {
            let (b, first) = (i / tasks, i % tasks * self.together);
            let rows = first..p.rows.len().min(first + self.together);
            // SAFETY: the caller's; tasks write different rows of the output.
            unsafe { self.rows(b, rows, image.offset(p.batches[b]), filters, out) };
        });
    }

    /// # Safety
    /// As for [`ChannelKernel::run`], with the image of this matrix.
    unsafe fn rows(&self, b: usize, rows: Range<usize>, image: *const f32, filters: &[f32], out: &Output<'_, f32>) {
        thread_local! {
            static ROOM: RefCell<(Vec<f32>, Vec<Tap>)> = const { RefCell::new((Vec::new(), Vec::new())) };
        }
        let p = &self.geometry;
        ROOM.with_borrow_mut(|(tile, taps)| {
            // Results go straight to memory where channels are neighbours there, too, and the epilogue is plain; else into a tile.
            // The last vector of channels may be computed twice, which must not change it.
            let whole = p.channels.is_multiple_of(super::kernel::lanes(self.isa));
            let chain = out.chain(b).filter(|chain| whole || !chain.is_in_place());
            let chain = chain.as_ref();
            let room = 2 * self.most.next_multiple_of(PIXELS) * p.channels;
            if chain.is_none() && tile.len() < room {
                tile.resize(room, 0.0);
            }
            let (mut first, mut held) = (rows.start * p.columns, 0);
            for row in rows {
                for &(x, count) in &self.pieces {
                    let pixel = row * p.columns + x;
                    self.taps(row, x, image, taps);
                    // Whoever makes a piece promises that it may be read and written: taps name elements of the image or of
                    // the line outside, which are there by the caller's promise; results are this task's pixels or the tile.
                    let to = tile.as_mut_ptr().wrapping_add(held * p.channels);
                    let piece = Piece { taps, filters, channels: p.channels, pixels: count, to, chain, row: pixel };
                    vectorize(self.isa, piece);
                    held += if chain.is_some() { 0 } else { count };
                    // A piece and what was held before it fit the room: less than a tile is held afterwards.
                    while held >= self.most {
                        // The rest of the piece begins the next tile.
                        self.give(b, first, self.most, tile, out);
                        tile.copy_within(self.most * p.channels..held * p.channels, 0);
                        (first, held) = (first + self.most, held - self.most);
                    }
                }
            }
            self.give(b, first, held, tile, out);
        });
    }

    /// Where each tap of the pixels from column `x` on of a row reads.
    fn taps(&self, row: usize, x: usize, image: *const f32, taps: &mut Vec<Tap>) {
        let p = &self.geometry;
        let row = &p.rows[row];
        let from = image.wrapping_offset(row.offset + x as isize * p.column.offset);
        taps.clear();
        taps.extend(p.taps.iter().map(|t| {
            let there = p.guards.iter().enumerate().all(|(g, &(first, limit))| {
                let at = first + row.coordinates[g] + x as isize * p.column.coordinates[g] + t.coordinates[g];
                (0..limit).contains(&at)
            });
            match there {
                true => Tap { at: from.wrapping_offset(t.offset), step: p.column.offset },
                false => Tap { at: self.outside.as_ptr(), step: 0 },
            }
        }));
    }

    /// Gives a tile's pixels away.
    fn give(&self, b: usize, first: usize, pixels: usize, tile: &[f32], out: &Output<'_, f32>) {
        if pixels == 0 {
            return;
        }
        let wide = self.geometry.channels;
        let at = TileAt { batch: b, row: first, col: 0, rows: pixels, cols: wide, ld: wide };
        match out {
            Output::Sink(sink) => sink.store(&at, &tile[..pixels * wide]),
            Output::Plain(c) => scatter(c, &at, &tile[..pixels * wide]),
        }
    }
}

/// The columns at which `whole` holds; it holds in one stretch.
fn inner(columns: usize, whole: impl Fn(usize) -> bool) -> Range<usize> {
    let Some(first) = (0..columns).find(|&x| whole(x)) else { return 0..0 };
    let last = (first..columns).take_while(|&x| whole(x)).last().unwrap_or(first);
    first..last + 1
}

/// Where a tap of the first pixel reads its channels, and elements from one pixel to the next.
struct Tap {
    at: *const f32,
    step: isize,
}

/// Neighbouring pixels of a row.
///
/// The safety contract: each tap is readable for `channels` elements at each of `pixels` multiples of its step; `filters` has as many
/// for each tap. The chain, if there is one, has the results of `pixels` rows from `row` on, which nobody else uses, and what they are
/// made of; else `to` is writable for as many elements. There are as many channels as a vector has lanes, or more.
struct Piece<'a> {
    taps: &'a [Tap],
    filters: &'a [f32],
    channels: usize,
    pixels: usize,
    to: *mut f32,
    chain: Option<&'a Chain>,
    row: usize,
}

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut first = 0;
        while first < self.pixels {
            // SAFETY: the contract, which whoever makes a `Piece` promises.
            unsafe {
                first += match self.pixels - first {
                    PIXELS.. => self.all::<S, PIXELS>(s, first),
                    SOME_PIXELS.. => self.all::<S, SOME_PIXELS>(s, first),
                    _ => self.all::<S, 1>(s, first),
                }
            }
        }
    }
}

impl Piece<'_> {
    /// Computes `P` pixels, all channels of them.
    ///
    /// # Safety
    /// The contract of [`Piece`], which has these pixels.
    #[inline(always)]
    unsafe fn all<S: Simd, const P: usize>(&self, s: S, first: usize) -> usize {
        let lanes = S::F32::LANES;
        let mut c = 0;
        // SAFETY: passed on, for channels that there are.
        unsafe {
            while c + 2 * lanes <= self.channels {
                self.some::<S, P, 2>(s, first, c);
                c += 2 * lanes;
            }
            while c < self.channels {
                // The last vector may begin inside the one before it.
                self.some::<S, P, 1>(s, first, c.min(self.channels - lanes));
                c += lanes;
            }
        }
        P
    }

    /// # Safety
    /// The contract of [`Piece`], which has `P` pixels from the first on; `V` vectors of channels from `c` on are there.
    #[inline(always)]
    unsafe fn some<S: Simd, const P: usize, const V: usize>(&self, s: S, first: usize, c: usize) {
        let lanes = S::F32::LANES;
        let mut acc = [[s.f32(0.0); V]; P];
        let mut filter = self.filters.as_ptr().wrapping_add(c);
        for tap in self.taps {
            let mut w = [s.f32(0.0); V];
            for v in 0..V {
                // SAFETY: the contract.
                w[v] = unsafe { S::F32::load(filter.wrapping_add(v * lanes)) };
            }
            let from = tap.at.wrapping_offset(first as isize * tap.step).wrapping_add(c);
            for p in 0..P {
                for v in 0..V {
                    let at = from.wrapping_offset(p as isize * tap.step).wrapping_add(v * lanes);
                    // SAFETY: the contract.
                    acc[p][v] = unsafe { S::F32::load(at) }.madd(w[v], acc[p][v]);
                }
            }
            filter = filter.wrapping_add(self.channels);
        }
        let (mut to, mut stride) = (self.to.wrapping_add(first * self.channels + c), self.channels as isize);
        // SAFETY: the contract.
        unsafe {
            if let Some(chain) = self.chain {
                acc = apply(s, acc, &chain.steps, self.row + first, c);
                (to, stride) = (element(chain.to, chain.row, self.row + first, c).cast_mut(), chain.row);
            }
            for p in 0..P {
                for v in 0..V {
                    acc[p][v].store(to.wrapping_offset(p as isize * stride).wrapping_add(v * lanes));
                }
            }
        }
    }
}
