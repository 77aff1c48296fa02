//! The micro-kernel: a few rows by vectors of columns, which stay in registers from the first multiply-add to the result.

use crate::contract::packed::Chain;
use crate::epilogue_chain::{apply, prefetch_results};
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Float, Isa, Simd, WithSimd, of_isa};

/// Rows of a panel of the left operand.
pub(super) const ROWS: usize = 6;

/// A cache line of a panel of columns.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct PanelLine(pub [f32; LINE]);

/// K indices after which some more results are prefetched.
const STEP: usize = 16;

/// Elements of a cache line.
pub(super) const LINE: usize = crate::epilogue_chain::LINE;

type TileFn = unsafe fn(&MicroTile, Option<&Chain>);

/// The kernels of an instruction set.
pub(super) struct Kernels {
    /// Elements of a vector.
    pub lanes: usize,
    /// Columns of a panel: so many vectors that [`ROWS`] rows of accumulators fill the registers.
    pub panel: usize,
    /// By the vectors of columns and the rows of a tile, each less one, and by whether K offsets are listed.
    tiles: &'static [[[TileFn; 2]; ROWS]],
    /// Twice as many rows, in two panels one after the other, of a single vector.
    tall: [TileFn; 2],
    pack: unsafe fn(*const f32, isize, &mut [PanelLine]),
}

impl Kernels {
    /// Those of an instruction set, if it has some and the machine has it.
    pub(super) fn of(isa: Isa) -> Option<&'static Kernels> {
        of_isa!(isa, AVX512, AVX2, NEON)
    }

    const fn new<S: Simd>(tiles: &'static [[[TileFn; 2]; ROWS]]) -> Kernels {
        let (lanes, panel) = (S::F32::LANES, S::F32::LANES * S::VECTORS);
        assert!(tiles.len() == S::VECTORS && panel.is_multiple_of(LINE));
        Kernels { lanes, panel, tiles, tall: lists::<S, { 2 * ROWS }, 1>(), pack: pack::<S> }
    }

    /// Most rows of a tile of so many columns.
    pub(super) fn most_rows(&self, width: usize) -> usize {
        if width > self.lanes { ROWS } else { 2 * ROWS }
    }

    /// Computes tiles of so many rows and columns: at most [`ROWS`], or exactly as many as [`Kernels::most_rows`] says. Accumulators of columns up
    /// to a whole vector are written, too.
    ///
    /// # Safety
    /// The contract of [`MicroTile`].
    pub(super) unsafe fn run(&self, tile: &MicroTile, chain: Option<&Chain>, rows: usize, width: usize) {
        let run = if rows > ROWS { self.tall } else { self.tiles[width.div_ceil(self.lanes) - 1][rows - 1] };
        // SAFETY: passed on.
        unsafe { run[usize::from(!tile.k_offsets.is_null())](tile, chain) }
    }

    /// Copies so many pieces of `width` elements, `stride` elements from one to the next, to panel rows of their own; the rest of a row is
    /// zero.
    ///
    /// # Safety
    /// Each piece is readable.
    pub(super) unsafe fn pack(&self, from: *const f32, stride: isize, width: usize, to: &mut [PanelLine]) {
        if width == self.panel {
            // SAFETY: the caller's.
            unsafe { (self.pack)(from, stride, to) };
            return;
        }
        for (q, row) in to.chunks_exact_mut(self.panel / LINE).enumerate() {
            let from = from.wrapping_offset(q as isize * stride);
            for (i, x) in row.iter_mut().flat_map(|line| &mut line.0).enumerate() {
                // SAFETY: the caller's.
                *x = if i < width { unsafe { from.add(i).read() } } else { 0.0 };
            }
        }
    }
}

/// The kernels of an instruction set, for tiles of so many vectors.
macro_rules! kernels {
    ($name:ident, $simd:ty, $($vectors:literal)*) => {
        static $name: Kernels = {
            const TILES: &[[[TileFn; 2]; ROWS]] = &[$(row::<$simd, $vectors>()),*];
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

/// Tiles of `V` vectors of columns.
const fn row<S: Simd, const V: usize>() -> [[TileFn; 2]; ROWS] {
    [
        lists::<S, 1, V>(),
        lists::<S, 2, V>(),
        lists::<S, 3, V>(),
        lists::<S, 4, V>(),
        lists::<S, 5, V>(),
        lists::<S, 6, V>(),
    ]
}

/// Tiles of `R` rows by `V` vectors of columns, by whether K offsets are listed.
const fn lists<S: Simd, const R: usize, const V: usize>() -> [TileFn; 2] {
    [tile::<S, R, V, false>, tile::<S, R, V, true>]
}

/// # Safety
/// The machine has the instruction set, and the contract of [`MicroTile`] for `R` rows and `V` vectors.
unsafe fn tile<S: Simd, const R: usize, const V: usize, const LISTED: bool>(tile: &MicroTile, chain: Option<&Chain>) {
    // SAFETY: passed on.
    unsafe { S::enter(Accumulate::<R, V, LISTED>(tile, chain)) };
}

/// # Safety
/// The machine has the instruction set; a whole panel is readable at each of as many multiples of `stride` as `to` has rows.
unsafe fn pack<S: Simd>(from: *const f32, stride: isize, to: &mut [PanelLine]) {
    // SAFETY: passed on.
    unsafe { S::enter(Pack { from, stride, to }) };
}

/// What the kernel reads and writes, for some tiles one below the other, all of as many rows.
///
/// The safety contract: `left` is readable for `k * ROWS` elements for each panel of rows, `right` for `k` rows of a panel, or, where K offsets
/// are listed, for the tiles' vectors from each of `k` entries on; `from`, if it is not
/// null, is readable and `to` writable for the tiles' vectors in each of their rows, and so are the operands of a chain's steps readable.
#[derive(Clone, Copy)]
pub(super) struct MicroTile {
    pub tiles: usize,
    pub k: usize,
    pub left: *const f32,
    pub right: *const f32,
    /// From `right` to the elements of each K index; null where they are rows of a panel.
    pub k_offsets: *const i32,
    /// Accumulators to add, rows of a panel one after the other; null where there are none.
    pub from: *const f32,
    pub to: *mut f32,
    pub stride: isize,
    /// The first tile's first row and column, for a chain's steps.
    pub row: usize,
    pub col: usize,
    /// Results of the chain that, with what they are made of, are prefetched: the first one's row and column, and how many there are.
    pub ahead: (usize, usize),
    pub rows: usize,
    pub cols: usize,
}

/// `R` rows by `V` vectors of columns; whether K offsets are `LISTED`.
struct Accumulate<'a, const R: usize, const V: usize, const LISTED: bool>(&'a MicroTile, Option<&'a Chain>);

impl<const R: usize, const V: usize, const LISTED: bool> WithSimd for Accumulate<'_, R, V, LISTED> {
    type Output = ();

    #[allow(clippy::needless_range_loop)] // Closures would not be compiled for the instruction set.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Accumulate(t, chain) = self;
        // A copy: the kernel's writes cannot change it, which the compiler does not know of the original.
        let mut t = *t;
        let (lanes, width) = (S::F32::LANES, S::F32::LANES * S::VECTORS);
        let panel = t.k * ROWS;
        // Spread over the loop: a core has few line fill buffers.
        let some = t.rows.div_ceil(t.k.div_ceil(STEP).max(1) * t.tiles);
        let mut prefetched = 0;
        for _ in 0..t.tiles {
            let mut acc = [[s.f32(0.0); V]; R];
            let (mut left, mut right, mut k_offsets) = (t.left, t.right, t.k_offsets);
            let mut steps = t.k;
            while steps > 0 {
                if let Some(chain) = chain.filter(|_| prefetched < t.rows) {
                    prefetch_results::<true>(
                        chain,
                        (t.ahead.0 + prefetched, t.ahead.1),
                        (some.min(t.rows - prefetched), t.cols),
                    );
                    prefetched += some;
                }
                let now = steps.min(STEP);
                steps -= now;
                for _ in 0..now {
                    // SAFETY: the contract; `k` steps are taken.
                    unsafe {
                        if LISTED {
                            right = t.right.wrapping_offset(*k_offsets as isize);
                            k_offsets = k_offsets.add(1);
                        }
                        let mut columns = [s.f32(0.0); V];
                        for v in 0..V {
                            columns[v] = S::F32::load(right.add(v * lanes));
                        }
                        for r in 0..R {
                            let x = s.f32(*left.add(r / ROWS * panel + r % ROWS));
                            for v in 0..V {
                                acc[r][v] = x.mul_add(columns[v], acc[r][v]);
                            }
                        }
                        left = left.add(ROWS);
                        if !LISTED {
                            right = right.add(width);
                        }
                    }
                }
            }
            // SAFETY: the contract.
            unsafe {
                if !t.from.is_null() {
                    for r in 0..R {
                        for v in 0..V {
                            acc[r][v] = acc[r][v] + S::F32::load(t.from.add(r * width + v * lanes));
                        }
                    }
                    t.from = t.from.add(R * width);
                }
                if let Some(chain) = chain {
                    acc = apply(s, acc, &chain.steps, t.row, t.col);
                }
                for r in 0..R {
                    for v in 0..V {
                        acc[r][v].store(t.to.wrapping_offset(r as isize * t.stride).add(v * lanes));
                    }
                }
            }
            t.left = t.left.wrapping_add(R.next_multiple_of(ROWS) * t.k);
            t.to = t.to.wrapping_offset(R as isize * t.stride);
            t.row += R;
        }
    }
}

/// Copies rows of a panel.
struct Pack<'a> {
    from: *const f32,
    stride: isize,
    to: &'a mut [PanelLine],
}

impl WithSimd for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let mut from = self.from;
        for row in self.to.chunks_exact_mut(S::F32::LANES * S::VECTORS / LINE) {
            let to: *mut f32 = row.as_mut_ptr().cast();
            for v in 0..S::VECTORS {
                // SAFETY: whoever makes this promises it; the row has a panel's elements.
                unsafe { S::F32::load(from.wrapping_add(v * S::F32::LANES)).store(to.add(v * S::F32::LANES)) };
            }
            from = from.wrapping_offset(self.stride);
        }
    }
}
