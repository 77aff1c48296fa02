//! The transforms: Toom and Cook's way to convolve, nested for two dimensions.
//!
//! Results of one dimension are `A' ((G g) * (B' d))` for a filter `g` of three elements, `m + 2` elements `d` of the image and
//! `m` results. Polynomials are evaluated at 0, 1, -1 and infinity for `m = 2`; at 0, 11/16, -11/16, 3/2, -3/2 and infinity
//! for `m = 4`: with these points the error is about a third of that with the integers 1 and 2, and every constant of `B'` and
//! `A'` is a number of f32. `G` is applied in f64.
//!
//! The bound: with `K` the square of the largest row sum of `|A'| (max |G| * sum |B'|)`, each result is within `(c + 16) * u * K *
//! max |d| * sum |g|` for sums over `c` channels. `K` is 16 for `m = 2` and below 194 for `m = 4`; 16 stands for at most four roundings
//! of the image's transform, one of the filter's, eight of the result's, and what is of second order.

#![allow(clippy::needless_range_loop)] // Indices of rows and columns; iterators would be closures here.

use crate::simd::{Float, Simd, WithSimd};

/// Channels that are transformed together: a cache line.
pub(super) const BLOCK: usize = 16;

/// The points of `m = 4`, and what is made of them.
const P: f32 = 0.6875;
const Q: f32 = 1.5;
const P2: f32 = P * P;
const Q2: f32 = Q * Q;

/// `G` of a size.
pub(super) fn filter_matrix(m: usize) -> Vec<[f64; 3]> {
    if m == 2 {
        return vec![[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];
    }
    let (p, q) = (f64::from(P), f64::from(Q));
    // One over the product of the differences from the other points.
    let near = 1.0 / (2.0 * p * p * (p * p - q * q));
    let far = 1.0 / (2.0 * q * q * (q * q - p * p));
    vec![
        [1.0 / (p * p * q * q), 0.0, 0.0],
        [near, p * near, p * p * near],
        [near, -p * near, p * p * near],
        [far, q * far, q * q * far],
        [far, -q * far, q * q * far],
        [0.0, 0.0, 1.0],
    ]
}

/// `B' d` for four elements.
#[inline(always)]
fn image_two<V: Float<Elem = f32>>(d: [V; 4]) -> [V; 4] {
    [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[3] - d[1]]
}

/// `A' v` for four products.
#[inline(always)]
fn result_two<V: Float<Elem = f32>>(v: [V; 4]) -> [V; 2] {
    [v[0] + (v[1] + v[2]), (v[1] - v[2]) + v[3]]
}

/// The constants of `m = 4` in every lane.
#[derive(Clone, Copy)]
struct Points<V> {
    p: V,
    q: V,
    p2: V,
    q2: V,
    p3: V,
    q3: V,
    sum: V,
    product: V,
}

impl<V: Float<Elem = f32>> Points<V> {
    #[inline(always)]
    fn new<S: Simd<F32 = V>>(s: S) -> Points<V> {
        Points {
            p: s.f32(P),
            q: s.f32(Q),
            p2: s.f32(P2),
            q2: s.f32(Q2),
            p3: s.f32(P2 * P),
            q3: s.f32(Q2 * Q),
            sum: s.f32(P2 + Q2),
            product: s.f32(P2 * Q2),
        }
    }

    /// `B' d` for six elements.
    #[inline(always)]
    fn image(&self, d: [V; 6]) -> [V; 6] {
        let (even_p, odd_p) = (d[2].neg_madd(self.q2, d[4]), d[1].neg_madd(self.q2, d[3]));
        let (even_q, odd_q) = (d[2].neg_madd(self.p2, d[4]), d[1].neg_madd(self.p2, d[3]));
        [
            d[0].madd(self.product, d[2].neg_madd(self.sum, d[4])),
            odd_p.madd(self.p, even_p),
            odd_p.neg_madd(self.p, even_p),
            odd_q.madd(self.q, even_q),
            odd_q.neg_madd(self.q, even_q),
            d[1].madd(self.product, d[3].neg_madd(self.sum, d[5])),
        ]
    }

    /// `A' v` for six products.
    #[inline(always)]
    fn result(&self, v: [V; 6]) -> [V; 4] {
        let (even_p, odd_p) = (v[1] + v[2], v[1] - v[2]);
        let (even_q, odd_q) = (v[3] + v[4], v[3] - v[4]);
        [
            v[0] + (even_p + even_q),
            odd_p.madd(self.p, odd_q * self.q),
            even_p.madd(self.p2, even_q * self.q2),
            odd_p.madd(self.p3, odd_q.madd(self.q3, v[5])),
        ]
    }
}

/// The transform of one row of tiles of the image, for [`BLOCK`] channels.
///
/// The safety contract: `strip` is readable for `m + 2` rows of `columns` pixels of [`BLOCK`] elements, where `columns` is at
/// least `m * tiles + 2`; `to` is writable for [`BLOCK`] elements at each multiple of `tile` below `tiles`, moved by each multiple
/// of `stride` below `(m + 2)^2`.
pub(super) struct Image {
    pub m: usize,
    pub strip: *const f32,
    pub columns: usize,
    pub tiles: usize,
    pub to: *mut f32,
    pub tile: usize,
    pub stride: usize,
}

impl WithSimd for Image {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the contract, which whoever makes an `Image` promises.
        unsafe { if self.m == 2 { self.two(s) } else { self.four(s) } }
    }
}

impl Image {
    /// # Safety
    /// The contract of [`Image`].
    #[inline(always)]
    unsafe fn four<S: Simd>(&self, s: S) {
        let points = Points::new(s);
        let zero = s.f32(0.0);
        for tile in 0..self.tiles {
            let mut lane = 0;
            while lane < BLOCK {
                let from = self.strip.wrapping_add(4 * tile * BLOCK + lane);
                let to = self.to.wrapping_add(tile * self.tile + lane);
                let mut half = [[zero; 6]; 6];
                for x in 0..6 {
                    let mut d = [zero; 6];
                    for y in 0..6 {
                        // SAFETY: the contract.
                        d[y] = unsafe { S::F32::load(from.wrapping_add((y * self.columns + x) * BLOCK)) };
                    }
                    let d = points.image(d);
                    for y in 0..6 {
                        half[y][x] = d[y];
                    }
                }
                for y in 0..6 {
                    let d = points.image(half[y]);
                    for x in 0..6 {
                        // SAFETY: the contract.
                        unsafe { d[x].store(to.wrapping_add((6 * y + x) * self.stride)) };
                    }
                }
                lane += S::F32::LANES;
            }
        }
    }

    /// # Safety
    /// The contract of [`Image`].
    #[inline(always)]
    unsafe fn two<S: Simd>(&self, s: S) {
        let zero = s.f32(0.0);
        for tile in 0..self.tiles {
            let mut lane = 0;
            while lane < BLOCK {
                let from = self.strip.wrapping_add(2 * tile * BLOCK + lane);
                let to = self.to.wrapping_add(tile * self.tile + lane);
                let mut half = [[zero; 4]; 4];
                for x in 0..4 {
                    let mut d = [zero; 4];
                    for y in 0..4 {
                        // SAFETY: the contract.
                        d[y] = unsafe { S::F32::load(from.wrapping_add((y * self.columns + x) * BLOCK)) };
                    }
                    let d = image_two(d);
                    for y in 0..4 {
                        half[y][x] = d[y];
                    }
                }
                for y in 0..4 {
                    let d = image_two(half[y]);
                    for x in 0..4 {
                        // SAFETY: the contract.
                        unsafe { d[x].store(to.wrapping_add((4 * y + x) * self.stride)) };
                    }
                }
                lane += S::F32::LANES;
            }
        }
    }
}

/// The transform of one row of tiles of products to results, for [`BLOCK`] output channels.
///
/// The safety contract: `from` is readable for [`BLOCK`] elements at each multiple of `tile` below `tiles`, moved by each multiple of
/// `stride` below `(m + 2)^2`; `to` is writable for [`BLOCK`] elements at each of `rows * columns` multiples of [`BLOCK`].
pub(super) struct Results {
    pub m: usize,
    pub from: *const f32,
    pub tile: usize,
    pub stride: usize,
    pub tiles: usize,
    pub to: *mut f32,
    /// Results that exist: rows (at most `m`) and columns (at most `m * tiles`).
    pub rows: usize,
    pub columns: usize,
}

impl WithSimd for Results {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the contract, which whoever makes `Results` promises.
        unsafe { if self.m == 2 { self.two(s) } else { self.four(s) } }
    }
}

impl Results {
    /// # Safety
    /// The contract of [`Results`].
    #[inline(always)]
    unsafe fn four<S: Simd>(&self, s: S) {
        let points = Points::new(s);
        let zero = s.f32(0.0);
        for tile in 0..self.tiles {
            let columns = (self.columns - 4 * tile).min(4);
            let mut lane = 0;
            while lane < BLOCK {
                let from = self.from.wrapping_add(tile * self.tile + lane);
                let to = self.to.wrapping_add(4 * tile * BLOCK + lane);
                let mut half = [[zero; 6]; 4];
                for x in 0..6 {
                    let mut v = [zero; 6];
                    for y in 0..6 {
                        // SAFETY: the contract.
                        v[y] = unsafe { S::F32::load(from.wrapping_add((6 * y + x) * self.stride)) };
                    }
                    let v = points.result(v);
                    for y in 0..4 {
                        half[y][x] = v[y];
                    }
                }
                for y in 0..self.rows.min(4) {
                    let v = points.result(half[y]);
                    let to = to.wrapping_add(y * self.columns * BLOCK);
                    for x in 0..4 {
                        if x < columns {
                            // SAFETY: the contract.
                            unsafe { v[x].store(to.wrapping_add(x * BLOCK)) };
                        }
                    }
                }
                lane += S::F32::LANES;
            }
        }
    }

    /// # Safety
    /// The contract of [`Results`].
    #[inline(always)]
    unsafe fn two<S: Simd>(&self, s: S) {
        let zero = s.f32(0.0);
        for tile in 0..self.tiles {
            let columns = (self.columns - 2 * tile).min(2);
            let mut lane = 0;
            while lane < BLOCK {
                let from = self.from.wrapping_add(tile * self.tile + lane);
                let to = self.to.wrapping_add(2 * tile * BLOCK + lane);
                let mut half = [[zero; 4]; 2];
                for x in 0..4 {
                    let mut v = [zero; 4];
                    for y in 0..4 {
                        // SAFETY: the contract.
                        v[y] = unsafe { S::F32::load(from.wrapping_add((4 * y + x) * self.stride)) };
                    }
                    let v = result_two(v);
                    for y in 0..2 {
                        half[y][x] = v[y];
                    }
                }
                for y in 0..self.rows.min(2) {
                    let v = result_two(half[y]);
                    let to = to.wrapping_add(y * self.columns * BLOCK);
                    for x in 0..2 {
                        if x < columns {
                            // SAFETY: the contract.
                            unsafe { v[x].store(to.wrapping_add(x * BLOCK)) };
                        }
                    }
                }
                lane += S::F32::LANES;
            }
        }
    }
}

/// The transform of the filters of a panel of output channels for one input channel, in f64.
pub(super) struct Filter<'a> {
    /// `G`.
    pub matrix: &'a [[f64; 3]],
    /// Nine elements for each output channel: `taps[i * width + channel]`.
    pub taps: &'a [f64],
    pub width: usize,
    /// Room for `3 * matrix.len() * width` numbers.
    pub half: &'a mut [f64],
    /// Where each matmul's numbers go: `width` elements at each multiple of `stride`.
    pub to: &'a mut [f32],
    pub stride: usize,
}

impl WithSimd for Filter<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (t, width) = (self.matrix.len(), self.width);
        for (i, g) in self.matrix.iter().enumerate() {
            for x in 0..3 {
                let (a, b, c) = (&self.taps[x * width..], &self.taps[(3 + x) * width..], &self.taps[(6 + x) * width..]);
                let (a, b, c) = (&a[..width], &b[..width], &c[..width]);
                let out = &mut self.half[(3 * i + x) * width..][..width];
                for j in 0..width {
                    out[j] = g[0] * a[j] + g[1] * b[j] + g[2] * c[j];
                }
            }
        }
        for i in 0..t {
            let (a, rest) = self.half[3 * i * width..3 * (i + 1) * width].split_at(width);
            let (b, c) = rest.split_at(width);
            for (k, g) in self.matrix.iter().enumerate() {
                let out = &mut self.to[(t * i + k) * self.stride..][..width];
                for j in 0..width {
                    out[j] = (g[0] * a[j] + g[1] * b[j] + g[2] * c[j]) as f32;
                }
            }
        }
    }
}
