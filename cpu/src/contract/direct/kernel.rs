//! The micro-kernel: a few pixels of the image by one to four vectors of channels.

use crate::contract::packed::Chain;
use crate::epilogue_chain::{LINE, apply_rows, element, fetch, prefetch_results, single};
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Float, Isa, Simd, WithSimd, of_isa};

use super::tables::{KIndex, Pixel};
use square::SIDE;

/// Most pixels of a tile.
pub(super) const MOST_PIXELS: usize = 6;

/// K indices after which some more of the next filters, pixels and results are prefetched.
const STEP: usize = 16;

type TileFn = unsafe fn(&MicroTile, Option<&Chain>);

/// What is not one after the other, but as tables list it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Listed {
    Nothing,
    Pixels,
    PixelsAndK,
}

const LISTS: usize = Listed::PixelsAndK as usize + 1;
const PIXELS: usize = Listed::Pixels as usize;
const K_INDICES: usize = Listed::PixelsAndK as usize;

/// The kernels of an instruction set.
pub(super) struct Kernels {
    /// Elements of a vector.
    pub lanes: usize,
    /// Channels of a panel of filters: so many vectors that [`MOST_PIXELS`] rows of accumulators fill the registers.
    pub panel: usize,
    /// By the vectors of channels and the pixels of a tile, each less one, and by [`Listed`].
    tiles: &'static [[[TileFn; LISTS]; MOST_PIXELS]],
}

impl Kernels {
    /// Those of an instruction set, if it has some and the machine has it.
    pub(super) fn of(isa: Isa) -> Option<&'static Kernels> {
        of_isa!(isa, AVX512, AVX2, NEON)
    }

    /// Whether L1 has room for two pieces of a panel.
    pub(super) fn narrow(&self) -> bool {
        self.panel <= LINE
    }

    /// Pixels of tiles that use the registers well: fewer take as long, waiting for accumulators or, with wide panels, for filters.
    pub(super) fn full(&self) -> usize {
        if self.narrow() { 4 } else { 3 }
    }

    const fn new<S: Simd>(tiles: &'static [[[TileFn; LISTS]; MOST_PIXELS]]) -> Kernels {
        let panel = S::F32::LANES * S::VECTORS;
        assert!(tiles.len() == S::VECTORS && panel.is_multiple_of(LINE));
        Kernels { lanes: S::F32::LANES, panel, tiles }
    }

    /// Computes tiles of so many pixels and channels, at most [`MOST_PIXELS`] and a panel's: their accumulators, or what the chain makes of
    /// them. Those of channels up to a whole vector are written, too.
    ///
    /// # Safety
    /// The contract of [`MicroTile`].
    pub(super) unsafe fn run(&self, tile: &MicroTile, chain: Option<&Chain>, pixels: usize, channels: usize) {
        // SAFETY: passed on.
        unsafe { self.tiles[channels.div_ceil(self.lanes) - 1][pixels - 1][tile.listed as usize](tile, chain) }
    }
}

/// The kernels of an instruction set, for tiles of so many vectors.
macro_rules! kernels {
    ($name:ident, $simd:ty, $($vectors:literal)*) => {
        static $name: Kernels = {
            const TILES: &[[[TileFn; LISTS]; MOST_PIXELS]] = &[$(row::<$simd, $vectors>()),*];
            Kernels::new::<$simd>(TILES)
        };
    };
}
#[cfg(target_arch = "x86_64")]
kernels!(AVX512, Avx512, 1 2 3 4);
#[cfg(target_arch = "x86_64")]
kernels!(AVX2, Avx2, 1 2);
#[cfg(target_arch = "aarch64")]
kernels!(NEON, Neon, 1 2 3 4);

/// Tiles of `V` vectors of channels.
const fn row<S: Simd, const V: usize>() -> [[TileFn; LISTS]; MOST_PIXELS] {
    [
        lists::<S, 1, V>(),
        lists::<S, 2, V>(),
        lists::<S, 3, V>(),
        lists::<S, 4, V>(),
        lists::<S, 5, V>(),
        lists::<S, 6, V>(),
    ]
}

/// Tiles of `P` pixels by `V` vectors of channels, by [`Listed`].
const fn lists<S: Simd, const P: usize, const V: usize>() -> [TileFn; LISTS] {
    [tile::<S, P, V, 0>, tile::<S, P, V, 1>, tile::<S, P, V, 2>]
}

/// # Safety
/// The machine has the instruction set, and the contract of [`MicroTile`] for `P` pixels.
unsafe fn tile<S: Simd, const P: usize, const V: usize, const LISTED: usize>(tile: &MicroTile, chain: Option<&Chain>) {
    // SAFETY: passed on.
    unsafe { S::enter(Accumulate::<P, V, LISTED>(tile, chain)) };
}

/// What the kernel reads and writes, for some tiles one after the other: all have the same filters and as many pixels.
///
/// The safety contract: `pixels` has the kernel's pixels for each tile, and each pixel's window is readable at every one of the `k`
/// K indices, as is a row of a panel from each one's filter on (or, unless those are listed, one after the other); `acc` is readable if `add`, and
/// writable unless the chain is finished, for a panel's
/// elements for each pixel, from that of the pixel `first` on. A chain that is finished has the results of these pixels, which nobody else uses,
/// and what they are made of.
#[derive(Clone, Copy)]
pub(super) struct MicroTile {
    pub image: *const f32,
    pub tiles: usize,
    pub pixels: *const Pixel,
    pub k_indices: *const KIndex,
    pub k: usize,
    pub listed: Listed,
    pub filters: *const f32,
    /// Accumulators, those of the pixel `first`, and of those after it one after the other.
    pub acc: *mut f32,
    pub first: usize,
    /// Begin with the accumulators that are there.
    pub add: bool,
    /// Results of the chain that, with what they are made of, are prefetched: the first one's row and column, and how many there are.
    /// Where pixels are rows, the rows are those of the tiles' pixels.
    pub row: usize,
    pub col: usize,
    pub rows: usize,
    pub cols: usize,
    /// Pixels are the chain's rows: write its results instead of the accumulators.
    pub finish: bool,
    /// Each tile prefetches the pixels of the next one, whose K is contiguous.
    pub prefetch_pixels: bool,
    /// So many rows of a panel for each tile, from this address on, which need not be readable, are prefetched.
    pub next: *const f32,
    pub ahead: usize,
}

/// `P` pixels by `V` vectors of channels; `LISTED` is a [`Listed`].
struct Accumulate<'a, const P: usize, const V: usize, const LISTED: usize>(&'a MicroTile, Option<&'a Chain>);

impl<const P: usize, const V: usize, const LISTED: usize> WithSimd for Accumulate<'_, P, V, LISTED> {
    type Output = ();

    #[allow(clippy::needless_range_loop)] // Closures would not be compiled for the instruction set.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Accumulate(t, chain) = self;
        // A copy: the kernel's writes cannot change it, which the compiler does not know of the original.
        let mut t = *t;
        let (lanes, panel) = (S::F32::LANES, S::F32::LANES * S::VECTORS);
        // Everything is prefetched spread over the loop: a core has few line fill buffers.
        let steps = t.k.div_ceil(STEP).max(1);
        let each = (t.ahead * (panel / LINE)).div_ceil(steps);
        let mut results = Results::new::<P, LISTED>(&mut t, steps);
        for tile in 0..t.tiles {
            let mut acc = [[s.f32(0.0); V]; P];
            if t.add {
                for p in 0..P {
                    for v in 0..V {
                        // SAFETY: the contract.
                        unsafe {
                            let at = if LISTED >= PIXELS { (*t.pixels.add(p)).at } else { (*t.pixels).at + p as u32 };
                            let at = at as usize - t.first;
                            acc[p][v] = S::F32::load(t.acc.add(at * panel + v * lanes));
                        }
                    }
                }
            }
            let mut windows = [t.image; P];
            for p in 0..P {
                // SAFETY: the contract.
                windows[p] = t.image.wrapping_offset(unsafe { (*t.pixels.add(p)).image } as isize);
            }
            let later = if t.prefetch_pixels && tile + 1 < t.tiles { P } else { 0 };
            let (mut filters, mut k_index, mut next, mut left) = (t.filters, t.k_indices, t.next, t.k);
            while left > 0 {
                // See `Kernels::narrow`.
                if panel > LINE {
                    fetch::<false>(next, LINE as isize, each);
                } else {
                    fetch::<true>(next, LINE as isize, each);
                }
                next = next.wrapping_add(each * LINE);
                if let Some(chain) = chain.filter(|_| results.prefetched < t.rows) {
                    results.prefetch(&t, chain);
                }
                for p in 0..later {
                    // SAFETY: the contract: there is another tile.
                    let (pixel, at) = unsafe { ((*t.pixels.add(P + p)).image, (*k_index).image) };
                    fetch::<true>(t.image.wrapping_offset(pixel as isize + at as isize), 0, 1);
                }
                let some = left.min(STEP);
                left -= some;
                // Measured: unrolling this loop makes it slower.
                for _ in 0..some {
                    // SAFETY: the contract; `k` steps are taken.
                    unsafe {
                        let KIndex { image, filter } = *k_index;
                        if LISTED >= K_INDICES {
                            filters = t.filters.add(filter as usize);
                        }
                        let mut channels = [s.f32(0.0); V];
                        for v in 0..V {
                            channels[v] = S::F32::load(filters.add(v * lanes));
                        }
                        for p in 0..P {
                            let value = s.f32(*windows[p].wrapping_offset(image as isize));
                            for v in 0..V {
                                acc[p][v] = value.mul_add(channels[v], acc[p][v]);
                            }
                        }
                        if LISTED < K_INDICES {
                            filters = filters.add(panel);
                        }
                        k_index = k_index.add(1);
                    }
                }
            }
            // SAFETY: the contract.
            unsafe { finish_tile::<S, P, V, LISTED>(s, &t, acc, chain) };
            t.pixels = t.pixels.wrapping_add(P);
            t.next = t.next.wrapping_add(t.ahead * panel);
        }
    }
}

/// The results of a chain that are prefetched a few lines at a time.
struct Results {
    all: *const Pixel,
    /// Pixels are rows, and few of those between the first and the last.
    scattered: bool,
    each: usize,
    prefetched: usize,
}

impl Results {
    #[inline(always)]
    fn new<const P: usize, const LISTED: usize>(t: &mut MicroTile, steps: usize) -> Results {
        let (all, mut scattered) = (t.pixels, false);
        if LISTED >= PIXELS && t.finish {
            // SAFETY: the contract: there is a tile.
            let (from, to) = unsafe { ((*all).at as usize, (*all.add(P * t.tiles - 1)).at as usize) };
            (t.row, t.rows) = (from, to - from + 1);
            scattered = t.rows > 2 * P * t.tiles;
            t.rows = if scattered { P * t.tiles } else { t.rows };
        }
        Results { all, scattered, each: t.rows.div_ceil(steps * t.tiles), prefetched: 0 }
    }

    /// Prefetches the rows of another step.
    #[inline(always)]
    fn prefetch(&mut self, t: &MicroTile, chain: &Chain) {
        let some = self.each.min(t.rows - self.prefetched);
        if self.scattered {
            for i in self.prefetched..self.prefetched + some {
                // SAFETY: the contract: there are as many pixels as rows.
                let row = unsafe { (*self.all.add(i)).at } as usize;
                prefetch_results::<false>(chain, (row, t.col), (1, t.cols));
            }
        } else {
            prefetch_results::<false>(chain, (t.row + self.prefetched, t.col), (some, t.cols));
        }
        self.prefetched += some;
    }
}

/// Writes the accumulators of a tile, or what the chain makes of them.
///
/// # Safety
/// The contract of [`MicroTile`].
#[allow(clippy::needless_range_loop)] // Closures would not be compiled for the instruction set.
#[inline(always)]
unsafe fn finish_tile<S: Simd, const P: usize, const V: usize, const LISTED: usize>(
    s: S,
    t: &MicroTile,
    mut acc: [[S::F32; V]; P],
    chain: Option<&Chain>,
) {
    let (lanes, panel) = (S::F32::LANES, S::F32::LANES * S::VECTORS);
    // SAFETY: the contract.
    unsafe {
        // The first pixel, and how many after it each one is.
        let (first, mut after) = ((*t.pixels).at as usize, [0; P]);
        for p in 1..P {
            after[p] = if LISTED >= PIXELS { (*t.pixels.add(p)).at as usize - first } else { p };
        }
        let (mut to, mut stride) = (element(t.acc, panel as isize, first - t.first, 0), panel as isize);
        if let Some(chain) = chain.filter(|_| t.finish) {
            acc = apply_rows(s, acc, &chain.steps, (first, after), t.col);
            (to, stride) = (element(chain.to, chain.row, first, t.col), chain.row);
        }
        for p in 0..P {
            for v in 0..V {
                acc[p][v].store(to.wrapping_offset(after[p] as isize * stride).add(v * lanes).cast_mut());
            }
        }
    }
}

/// Writes `rows` rows of `columns` elements, `wide` apart, as columns: as many rows of `rows` elements, `stride` apart. The last squares may
/// begin inside those before them.
///
/// # Safety
/// `from` is readable for `columns` elements at each of `rows` multiples of `wide`, `to` writable for `rows` elements at each of `columns`
/// multiples of `stride`; they do not overlap.
pub(crate) unsafe fn transpose(
    from: *const f32,
    wide: isize,
    rows: usize,
    columns: usize,
    to: *mut f32,
    stride: isize,
) {
    if square::available() && rows >= SIDE && columns >= SIDE {
        for c in (0..columns).step_by(SIDE).map(|c| c.min(columns - SIDE)) {
            for r in (0..rows).step_by(SIDE).map(|r| r.min(rows - SIDE)) {
                let from = from.wrapping_offset(r as isize * wide).wrapping_add(c);
                let to = to.wrapping_offset(c as isize * stride).wrapping_add(r);
                // SAFETY: a square of rows and columns of both.
                unsafe { square::transpose(from, wide, to, stride) };
            }
        }
        return;
    }
    for c in 0..columns {
        for r in 0..rows {
            // SAFETY: the caller's.
            unsafe {
                let x = *from.wrapping_offset(r as isize * wide).wrapping_add(c);
                to.wrapping_offset(c as isize * stride).wrapping_add(r).write(x);
            }
        }
    }
}

/// The results of a chain for `[pixels][channels]` (rows `wide` apart), channels being its rows from `row` on and pixels its columns from
/// `col` on.
///
/// # Safety
/// The chain has these elements, whose results nobody else uses; `from` has `pixels` rows of `channels`.
pub(super) unsafe fn finish(
    from: &[f32],
    wide: usize,
    (pixels, channels): (usize, usize),
    chain: &Chain,
    (row, col): (usize, usize),
) {
    debug_assert!(from.len() >= pixels * wide && channels <= wide);
    // The last vector of pixels may begin inside the one before it, unless what it reads is overwritten by then.
    let again = !chain.is_in_place();
    let (mut whole_pixels, mut whole_channels) = (0, 0);
    if square::available() && pixels >= SIDE {
        whole_channels = channels / SIDE * SIDE;
        whole_pixels = if again { pixels } else { pixels / SIDE * SIDE };
        for c in (0..whole_channels).step_by(SIDE) {
            // SAFETY: squares of pixels and channels, of which the chain has all elements.
            unsafe { square::finish(from.as_ptr().add(c), wide as isize, (whole_pixels, pixels), chain, row + c, col) };
        }
    }
    for c in 0..channels {
        let first = if c < whole_channels { whole_pixels } else { 0 };
        for p in first..pixels {
            // SAFETY: the caller's.
            unsafe { single(chain, from[p * wide + c], row + c, col + p) };
        }
    }
}

/// Transposes eight rows of eight elements, `wide` apart, into rows that are `stride` apart; false, and nothing done, where the machine
/// has no vectors for it.
///
/// # Safety
/// `from` is readable for eight elements at eight multiples of `wide`, `to` writable so by `stride`.
pub(crate) unsafe fn transpose_eight(from: *const f32, wide: isize, to: *mut f32, stride: usize) -> bool {
    if !square::available() {
        return false;
    }
    for (i, j) in (0..8).step_by(SIDE).flat_map(|i| (0..8).step_by(SIDE).map(move |j| (i, j))) {
        let (from, to) = (from.wrapping_offset(i as isize * wide).wrapping_add(j), to.wrapping_add(j * stride + i));
        // SAFETY: the caller's.
        unsafe { square::transpose(from, wide, to, stride as isize) };
    }
    true
}

#[cfg(target_arch = "x86_64")]
#[path = "square/avx2.rs"]
mod square;
#[cfg(target_arch = "aarch64")]
#[path = "square/neon.rs"]
mod square;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "square/single.rs"]
mod square;
