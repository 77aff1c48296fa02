//! Sums for rows of results: vectors of neighbouring pixels, each tap one load and one multiply-add, read where the image lies.
//!
//! Elements beside the image are zeros: lanes that are not read, or a row of zeros. Where a row of results is no whole number of
//! vectors, the last vector begins inside the one before it, and where rows are no whole number of blocks, so does the last block. Of rows
//! that are shorter than a vector, what is written beyond them belongs to the rows after them, which are written later.

#![allow(clippy::needless_range_loop)] // Indices of rows and taps; iterators would be closures here.

use std::ops::Range;

use super::PlaneAxis;
use crate::simd::{Float, Isa, MAX_LANES, Simd, WithSimd};

/// Elements of a vector.
pub(super) fn lanes(isa: Isa) -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::F32::LANES
        }
    }
    crate::simd::vectorize(isa, Lanes)
}

/// Rows of results that are computed together: what is read of the image serves several of them.
pub(super) const ROWS: usize = 4;

/// A vector of results of every row.
struct Column {
    /// The first result.
    first: usize,
    /// The image's column that the first result reads by the first tap.
    from: isize,
    /// Whether all lanes of all taps are columns of the image.
    whole: bool,
    /// For each tap, which lanes are columns of the image: of one vector, whose lanes are a stride apart, or of the two that a stride of two is read from.
    lanes: Vec<[u32; 2]>,
    /// Which lanes of the vectors before and behind the middle tap's are columns of the image.
    beside: [u32; 2],
}

/// How rows of results are walked.
pub(super) struct TapWalk {
    y: PlaneAxis,
    x: PlaneAxis,
    columns: Vec<Column>,
    /// The first column of the image that is read.
    begin: isize,
    /// What is read of a row that is not in the image.
    outside: Vec<f32>,
}

impl TapWalk {
    /// The walk of vectors of so many lanes; `None` where numbers are too large.
    pub(super) fn new(y: PlaneAxis, x: PlaneAxis, lanes: usize) -> Option<TapWalk> {
        let signed = |n: usize| isize::try_from(n).ok();
        // All columns that vectors could name, also beyond the last pixel.
        x.offset.checked_add(signed(x.span(x.pixels.checked_add(2 * lanes)?)?)?)?;
        let there = x.offset.max(0)..x.limit.min(x.offset + x.span(x.pixels)? as isize);
        let column = |first: usize| {
            let from = x.offset + (first * x.stride) as isize;
            // Of so many columns from one on, each `step` from the last: those that are read.
            let bits = |from: isize, step: usize| {
                let inside = |i: &usize| there.contains(&(from + (i * step) as isize));
                (0..lanes).filter(inside).fold(0u32, |bits, i| bits | 1 << i)
            };
            let of_tap = |tap: usize| {
                let from = from + (tap * x.dilation) as isize;
                match x.stride {
                    2 => [bits(from, 1), bits(from + lanes as isize, 1)],
                    stride => [bits(from, stride), bits(from, stride)],
                }
            };
            let of_taps: Vec<[u32; 2]> = (0..x.taps).map(of_tap).collect();
            let middle = from + (x.taps / 2) as isize;
            let beside = [bits(middle - lanes as isize, 1), bits(middle + lanes as isize, 1)];
            // Kernels take four elements beside the middle tap's.
            let few = 0b1111;
            let near = x.taps <= 3 || beside[0] >> (lanes - 4) == few && beside[1] & few == few;
            let is_full = |bits: u32| bits.count_ones() as usize == lanes;
            let whole = near && of_taps.iter().flatten().all(|&bits| is_full(bits));
            Column { first, from, whole, lanes: of_taps, beside }
        };
        let starts = (0..x.pixels).step_by(lanes).map(|first| first.min(x.pixels.saturating_sub(lanes)));
        let columns = starts.map(column).collect();
        let high = y.offset.checked_add(signed(y.span(y.pixels)?)?)?;
        let is_inside = y.offset >= 0 && high <= y.limit;
        let width = if is_inside { 0 } else { usize::try_from(there.end - there.start).unwrap_or(0) };
        Some(TapWalk { y, x, columns, begin: there.start, outside: vec![0.0; width] })
    }

    /// The side of the filters if they are square, without gaps, and strides are alike and known to kernels.
    fn side(&self) -> Option<usize> {
        let (y, x) = (&self.y, &self.x);
        let plain = y.taps == x.taps && [y.dilation, x.dilation] == [1; 2] && y.stride == x.stride && x.stride <= 2;
        plain.then_some(x.taps)
    }
}

/// Multiply-adds that take as long as one of the instructions here, most of which are loads, shuffles and masks beside the multiply-adds; measured.
const EACH: f64 = 2.8;

impl TapWalk {
    /// Multiply-adds that take as long as a vector of results in a block of rows.
    pub(super) fn work(&self) -> f64 {
        let (rows, taps) = (self.y.taps as f64, self.x.taps as f64);
        let sums = rows * taps;
        // Lines of the image that a block of rows reads, for each of the rows.
        let lines = |stride: f64| ((ROWS - 1) as f64 * stride + rows) / ROWS as f64;
        EACH * match (self.side(), self.x.stride) {
            // A load, what is beside it, and a shuffle for each other tap; or two loads and two shuffles for each two taps.
            (Some(3 | 5 | 7), 1) => sums + lines(1.0) * (taps + 2.0),
            (Some(3 | 5), 2) => sums + lines(2.0) * 4.0 * (taps / 2.0).ceil(),
            // Loads, shuffles or single elements for each tap.
            (_, 1) => 2.25 * sums,
            (_, 2) => 5.0 * sums,
            _ => 2.0 * sums * MAX_LANES as f64,
        }
    }
}

/// Rows of results of filters, one after the other.
///
/// The safety contract, for each of the `pieces`: of every row of the image in its limit the columns that pixels and taps name, with those
/// between, are readable; so are the filter's elements; `to` is writable for the rows' results.
pub(super) struct Pieces<'a> {
    pub walk: &'a TapWalk,
    /// For each tap, elements from a filter's first element.
    pub weights: &'a [isize],
    pub rows: Range<usize>,
    pub pieces: &'a mut dyn Iterator<Item = Piece>,
}

/// What one filter makes of one image.
pub(super) struct Piece {
    /// The image's element of all coordinates 0.
    pub image: *const f32,
    /// The filter's first element.
    pub filter: *const f32,
    /// Where the first row's results go; those of the next rows follow.
    pub to: *mut f32,
}

impl WithSimd for Pieces<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Pieces { walk, weights, rows, pieces } = self;
        let side = walk.side();
        for piece in pieces {
            let of = Rows { walk, weights, rows: rows.clone(), piece };
            // SAFETY: the contract, which whoever makes `Pieces` promises.
            unsafe {
                match (side, walk.x.stride) {
                    (Some(3), 1) => of.all(s, Square::<S, 3, 1>::new(s, &of)),
                    (Some(5), 1) => of.all(s, Square::<S, 5, 1>::new(s, &of)),
                    (Some(7), 1) => of.all(s, Square::<S, 7, 1>::new(s, &of)),
                    (Some(3), _) => of.all(s, Square::<S, 3, 2>::new(s, &of)),
                    (Some(5), _) => of.all(s, Square::<S, 5, 2>::new(s, &of)),
                    (_, 1) => of.all(s, Any::<1>),
                    (_, 2) => of.all(s, Any::<2>),
                    _ => of.all(s, Any::<0>),
                }
            }
        }
    }
}

/// The rows of a piece.
struct Rows<'a> {
    walk: &'a TapWalk,
    weights: &'a [isize],
    rows: Range<usize>,
    piece: Piece,
}

/// How the accumulators of a few rows are made.
trait Accumulate<S: Simd> {
    /// Accumulators of `R` rows from `row` on, of one vector of columns, all of whose lanes are in the image if it is `WHOLE`.
    ///
    /// # Safety
    /// The contract of [`Pieces`].
    unsafe fn accumulate<const R: usize, const WHOLE: bool>(
        &self,
        s: S,
        of: &Rows<'_>,
        row: usize,
        c: &Column,
    ) -> [S::F32; R];
}

impl Rows<'_> {
    /// # Safety
    /// The contract of [`Pieces`].
    #[inline(always)]
    unsafe fn all<S: Simd, K: Accumulate<S>>(&self, s: S, kernel: K) {
        let Range { start, end } = self.rows;
        // SAFETY: passed on.
        unsafe {
            if end - start < ROWS {
                for row in start..end {
                    self.some::<S, K, 1>(s, &kernel, row);
                }
                return;
            }
            let mut row = start;
            while row < end {
                self.some::<S, K, ROWS>(s, &kernel, row.min(end - ROWS));
                row += ROWS;
            }
        }
    }

    /// # Safety
    /// The contract of [`Pieces`]; there are `R` rows from `row` on.
    #[inline(always)]
    unsafe fn some<S: Simd, K: Accumulate<S>, const R: usize>(&self, s: S, kernel: &K, row: usize) {
        let width = self.walk.x.pixels;
        let results = self.rows.len() * width;
        for c in &self.walk.columns {
            // SAFETY: passed on; results of these rows and columns are of the output.
            unsafe {
                let acc: [S::F32; R] = match c.whole {
                    true => kernel.accumulate::<R, true>(s, self, row, c),
                    false => kernel.accumulate::<R, false>(s, self, row, c),
                };
                for r in 0..R {
                    let at = (row + r - self.rows.start) * width + c.first;
                    match at + S::F32::LANES <= results {
                        true => acc[r].store(self.piece.to.wrapping_add(at)),
                        false => acc[r].store_partial(self.piece.to.wrapping_add(at), results - at),
                    }
                }
            }
        }
    }

    /// A filter's element.
    ///
    /// # Safety
    /// The contract of [`Pieces`]; there is such a tap.
    #[inline(always)]
    unsafe fn weight(&self, tap: usize) -> f32 {
        // SAFETY: passed on.
        unsafe { *self.piece.filter.wrapping_offset(self.weights[tap]) }
    }

    /// The image's row that tap `tap` of a row of results reads, by its element of column 0; zeros where there is none.
    #[inline(always)]
    fn line(&self, row: usize, tap: usize) -> *const f32 {
        let y = &self.walk.y;
        let at = y.offset + (row * y.stride + tap * y.dilation) as isize;
        match (0..y.limit).contains(&at) {
            true => self.piece.image.wrapping_offset(at * y.step),
            false => self.walk.outside.as_ptr().wrapping_offset(-self.walk.begin),
        }
    }

    /// What a vector of results reads of a line by a tap, `STRIDE` apart (0: any stride), and, for a stride of two, what lies between.
    ///
    /// # Safety
    /// `line` is one of [`Rows::line`]; the vector is `WHOLE` only if it says so.
    #[inline(always)]
    unsafe fn load<S: Simd, const STRIDE: usize, const WHOLE: bool>(
        &self,
        s: S,
        line: *const f32,
        c: &Column,
        tap: usize,
    ) -> [S::F32; 2] {
        let zero = s.f32(0.0);
        let first = line.wrapping_offset(c.from + (tap * self.walk.x.dilation) as isize);
        let second = first.wrapping_add(S::F32::LANES);
        // SAFETY: the caller's: lanes that are read are columns of the image, or of the row of zeros.
        unsafe {
            match (STRIDE, WHOLE) {
                (1, true) => [S::F32::load(first), zero],
                (1, false) => [S::F32::load_lanes(first, c.lanes[tap][0], zero), zero],
                (2, true) => s.phases(S::F32::load(first), S::F32::load(second)),
                (2, false) => {
                    let [low, high] = c.lanes[tap];
                    s.phases(S::F32::load_lanes(first, low, zero), S::F32::load_lanes(second, high, zero))
                }
                _ => {
                    let mut lanes = zero.to_array();
                    for i in 0..S::F32::LANES {
                        if c.lanes[tap][0] & (1 << i) != 0 {
                            lanes[i] = *first.wrapping_add(i * self.walk.x.stride);
                        }
                    }
                    [S::F32::load(lanes.as_ptr()), zero]
                }
            }
        }
    }

    /// What a vector of results reads of a line by each of `K` neighbouring taps.
    ///
    /// # Safety
    /// As for [`Rows::load`].
    #[inline(always)]
    unsafe fn window<S: Simd, const K: usize, const STRIDE: usize, const WHOLE: bool>(
        &self,
        s: S,
        line: *const f32,
        c: &Column,
    ) -> [S::F32; K] {
        let mut x = [s.f32(0.0); K];
        // SAFETY: passed on; of a whole vector, the columns that the outermost taps read are there.
        unsafe {
            if STRIDE == 2 {
                // Between neighbours lie those of the next tap.
                for t in (0..K).step_by(2) {
                    let [even, odd] = self.load::<S, STRIDE, WHOLE>(s, line, c, t);
                    x[t] = even;
                    if t + 1 < K {
                        x[t + 1] = odd;
                    }
                }
                return x;
            }
            // Most vectors that are not aligned lie in two lines of the cache: one is loaded, the others are made of it and of few more elements.
            let half = K / 2;
            let [at, ..] = self.load::<S, STRIDE, WHOLE>(s, line, c, half);
            let first = line.wrapping_offset(c.from + half as isize);
            let (left, right) = match WHOLE {
                true => {
                    let narrow = |p: *const f32| if half == 1 { s.f32(*p) } else { s.load_four(p) };
                    let back = if half == 1 { 1 } else { 4 };
                    (narrow(first.wrapping_sub(back)), narrow(first.wrapping_add(S::F32::LANES)))
                }
                false => {
                    let [left, right] = c.beside;
                    let lanes = S::F32::LANES;
                    let zero = s.f32(0.0);
                    (
                        S::F32::load_lanes(first.wrapping_sub(lanes), left, zero),
                        S::F32::load_lanes(first.wrapping_add(lanes), right, zero),
                    )
                }
            };
            x[half] = at;
            x[half - 1] = s.before::<1>(left, at);
            x[half + 1] = s.next::<1>(at, right);
            if half >= 2 {
                x[half - 2] = s.before::<2>(left, at);
                x[half + 2] = s.next::<2>(at, right);
            }
            if half >= 3 {
                x[half - 3] = s.before::<3>(left, at);
                x[half + 3] = s.next::<3>(at, right);
            }
        }
        x
    }
}

/// Square filters of `K` rows: what is loaded of a row of the image serves all rows of results that read it.
struct Square<S: Simd, const K: usize, const STRIDE: usize>([[S::F32; K]; K]);

impl<S: Simd, const K: usize, const STRIDE: usize> Square<S, K, STRIDE> {
    /// # Safety
    /// The contract of [`Pieces`].
    #[inline(always)]
    unsafe fn new(s: S, of: &Rows<'_>) -> Self {
        let mut taps = [[s.f32(0.0); K]; K];
        for i in 0..K {
            for t in 0..K {
                // SAFETY: passed on.
                taps[i][t] = unsafe { s.f32(of.weight(i * K + t)) };
            }
        }
        Square(taps)
    }
}

impl<S: Simd, const K: usize, const STRIDE: usize> Accumulate<S> for Square<S, K, STRIDE> {
    #[inline(always)]
    unsafe fn accumulate<const R: usize, const WHOLE: bool>(
        &self,
        s: S,
        of: &Rows<'_>,
        row: usize,
        c: &Column,
    ) -> [S::F32; R] {
        let mut acc = [s.f32(0.0); R];
        for i in 0..(R - 1) * STRIDE + K {
            let line = of.line(row, i);
            // SAFETY: passed on.
            let x = unsafe { of.window::<S, K, STRIDE, WHOLE>(s, line, c) };
            for t in 0..K {
                for r in 0..R {
                    if r * STRIDE <= i && i < r * STRIDE + K {
                        acc[r] = x[t].madd(self.0[i - r * STRIDE][t], acc[r]);
                    }
                }
            }
        }
        acc
    }
}

/// Filters of any size.
struct Any<const STRIDE: usize>;

impl<S: Simd, const STRIDE: usize> Accumulate<S> for Any<STRIDE> {
    #[inline(always)]
    unsafe fn accumulate<const R: usize, const WHOLE: bool>(
        &self,
        s: S,
        of: &Rows<'_>,
        row: usize,
        c: &Column,
    ) -> [S::F32; R] {
        let mut acc = [s.f32(0.0); R];
        let (y, x) = (&of.walk.y, &of.walk.x);
        for tap in 0..y.taps {
            let mut lines = [std::ptr::null::<f32>(); R];
            for r in 0..R {
                lines[r] = of.line(row + r, tap);
            }
            for t in 0..x.taps {
                // SAFETY: passed on.
                unsafe {
                    let w = s.f32(of.weight(tap * x.taps + t));
                    for r in 0..R {
                        let [x, _] = of.load::<S, STRIDE, WHOLE>(s, lines[r], c, t);
                        acc[r] = x.madd(w, acc[r]);
                    }
                }
            }
        }
        acc
    }
}
