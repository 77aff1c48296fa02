mod dot4;
mod matmuls;
mod pairs;
mod sources;
mod speed;

use super::*;
use half::{bf16, f16};
use num_complex::Complex;

/// A small generator: tests want fresh numbers, not good ones. `MILLSTREAM_SEED` repeats a run.
pub(super) struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let t = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(t.as_nanos() as u64);
        println!("MILLSTREAM_SEED={seed}");
        Random(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn pick<X: Copy>(&mut self, from: &[X]) -> X {
        from[self.below(from.len())]
    }

    /// In -1 to 1.
    pub fn unit(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A type to test with: random values, and its own idea of a right result.
pub(super) trait Value: Copy + Send + Sync + std::fmt::Debug + 'static {
    fn random(r: &mut Random) -> Self;
}

/// A matmul's type: can tell whether a sum of products is right.
pub(super) trait Tested: Element + Value {
    /// Panics unless `got` is the sum of the pairs' products within the stated bound.
    fn check(got: Self, pairs: &mut dyn Iterator<Item = (Self, Self)>, what: &dyn Fn() -> String);
}

macro_rules! float_value {
    ($($t:ty: $make:expr),*) => {$(impl Value for $t {
        fn random(r: &mut Random) -> Self {
            let make: fn(f64) -> $t = $make;
            make(r.unit())
        }
    })*};
}
float_value!(f32: |x| x as f32, f64: |x| x, f16: f16::from_f64, bf16: bf16::from_f64);

macro_rules! int_value {
    ($($t:ty),*) => {$(
        impl Value for $t {
            fn random(r: &mut Random) -> Self {
                // All bits, and not the generator's lowest ones alone.
                (r.next() ^ r.next() << 31) as $t
            }
        }
    )*};
}
int_value!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! int_product {
    ($($t:ty),*) => {$(
        impl Tested for $t {
            fn check(got: Self, pairs: &mut dyn Iterator<Item = (Self, Self)>, what: &dyn Fn() -> String) {
                let want = pairs.fold(0 as $t, |s, (a, b)| s.wrapping_add(a.wrapping_mul(b)));
                assert_eq!(got, want, "{}", what());
            }
        }
    )*};
}
int_product!(i32, i64);

/// The exact sum to about twice a double's precision, and the sum of the magnitudes.
fn exact(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64, usize) {
    let (mut high, mut low, mut size, mut count) = (0.0f64, 0.0f64, 0.0, 0);
    for (a, b) in pairs {
        let product = a * b;
        let product_low = a.mul_add(b, -product);
        let sum = high + product;
        let part = sum - high;
        low += (high - (sum - part)) + (product - part) + product_low;
        high = sum;
        size += product.abs();
        count += 1;
    }
    (high + low, size, count)
}

/// Each of k multiplications and k additions rounds once, in whatever order: the classical bound.
fn close(got: f64, want: f64, size: f64, count: usize, eps: f64, what: &dyn Fn() -> String) {
    let bound = (count as f64 + 2.0) * eps * size;
    assert!((got - want).abs() <= bound, "{}: {got} is not {want} within {bound:e}", what());
}

impl Tested for f32 {
    fn check(got: Self, pairs: &mut dyn Iterator<Item = (Self, Self)>, what: &dyn Fn() -> String) {
        let (want, size, count) = exact(pairs.map(|(a, b)| (a.into(), b.into())));
        close(got.into(), want, size, count, f64::from(f32::EPSILON) / 2.0, what);
    }
}

impl Tested for f64 {
    fn check(got: Self, pairs: &mut dyn Iterator<Item = (Self, Self)>, what: &dyn Fn() -> String) {
        let (want, size, count) = exact(pairs);
        close(got, want, size, count, f64::EPSILON / 2.0, what);
    }
}

macro_rules! complex {
    ($($t:ty),*) => {$(
        impl Value for Complex<$t> {
            fn random(r: &mut Random) -> Self {
                Complex::new(<$t>::random(r), <$t>::random(r))
            }
        }
        impl Tested for Complex<$t> {
            fn check(got: Self, pairs: &mut dyn Iterator<Item = (Self, Self)>, what: &dyn Fn() -> String) {
                let pairs: Vec<_> = pairs.collect();
                let wide = |x: $t| f64::from(x);
                let re = pairs.iter().flat_map(|(a, b)| [(wide(a.re), wide(b.re)), (-wide(a.im), wide(b.im))]);
                let im = pairs.iter().flat_map(|(a, b)| [(wide(a.re), wide(b.im)), (wide(a.im), wide(b.re))]);
                let (want, size, count) = exact(re);
                close(wide(got.re), want, size, count, f64::from(<$t>::EPSILON) / 2.0, what);
                let (want, size, count) = exact(im);
                close(wide(got.im), want, size, count, f64::from(<$t>::EPSILON) / 2.0, what);
            }
        }
    )*};
}
complex!(f32, f64);

/// A matrix in memory with some strides.
pub(super) struct Matrix<S> {
    pub data: Vec<S>,
    pub origin: usize,
    pub row: isize,
    pub col: isize,
    pub each: isize,
}

impl<S: Value> Matrix<S> {
    /// `batch` matrices in a random order of dimensions, with gaps, some reversed.
    pub fn random(r: &mut Random, batch: usize, rows: usize, cols: usize, distinct: bool) -> Matrix<S> {
        let gap = |r: &mut Random| if r.below(3) == 0 { 1 + r.below(9) } else { 0 };
        let (mut row, mut col, size);
        if r.below(5) == 0 {
            // No unit stride at all.
            col = (2 + r.below(2)) as isize;
            row = (cols * col as usize + gap(r)) as isize;
            size = rows * row as usize;
        } else if r.below(2) == 0 {
            (row, col) = ((cols + gap(r)) as isize, 1);
            size = rows * row as usize;
        } else {
            (row, col) = (1, (rows + gap(r)) as isize);
            size = cols * col as usize;
        }
        let mut each = (size + gap(r)) as isize;
        if !distinct && r.below(6) == 0 {
            each = 0;
        }
        let mut origin = r.below(5);
        let len = origin + each.unsigned_abs() * batch.saturating_sub(1) + size + 1;
        if r.below(5) == 0 && rows > 0 {
            origin += (rows - 1) * row as usize;
            row = -row;
        }
        if r.below(5) == 0 && cols > 0 {
            origin += (cols - 1) * col as usize;
            col = -col;
        }
        Matrix { data: (0..len).map(|_| S::random(r)).collect(), origin, row, col, each }
    }

    pub fn index(&self, b: usize, i: usize, j: usize) -> usize {
        (self.origin as isize + b as isize * self.each + i as isize * self.row + j as isize * self.col) as usize
    }

    pub fn get(&self, b: usize, i: usize, j: usize) -> S {
        self.data[self.index(b, i, j)]
    }

    /// Rows are rows.
    pub fn as_a(&self) -> Strided<'_, S> {
        // SAFETY: the matrix holds every element that the tests ask for.
        unsafe {
            Strided::from_raw(
                self.data.as_ptr().wrapping_add(self.origin),
                self.row,
                self.col,
                Batch::Stride(self.each),
            )
        }
    }

    /// Columns are rows.
    pub fn as_b(&self) -> Strided<'_, S> {
        // SAFETY: as above.
        unsafe {
            Strided::from_raw(
                self.data.as_ptr().wrapping_add(self.origin),
                self.col,
                self.row,
                Batch::Stride(self.each),
            )
        }
    }

    pub fn as_c(&mut self) -> Plain<'_, S> {
        // SAFETY: the matrix holds every element, each at its own address.
        unsafe {
            Plain::from_raw(
                self.data.as_mut_ptr().wrapping_add(self.origin),
                self.row,
                self.col,
                Batch::Stride(self.each),
            )
        }
    }
}

pub(super) fn isas() -> Vec<MicroKernel> {
    [MicroKernel::Portable, MicroKernel::Avx2, MicroKernel::Avx512, MicroKernel::Neon]
        .into_iter()
        .filter(|isa| isa.available())
        .collect()
}

/// A blocking small enough that small shapes have several of every block.
pub(super) fn random_blocking(r: &mut Random) -> Blocking {
    Blocking { mr: 0, nr: 0, mc: 1 + r.below(40), nc: 1 + r.below(70), kc: 1 + r.below(50) }
}

/// A workspace of exactly the stated size, at an odd address.
pub(super) fn run<T: Element>(g: &Gemm<'_, T>, workers: &Workers) {
    let holds = match g.out {
        Output::Plain(c) => c.col == 1 || c.row == 1 && g.isa.transposes(),
        Output::Sink(sink) => sink.home().is_some_and(|c| c.col == 1),
    };
    let bound = workspace_bytes::<T>(g.isa, g.shape, &g.blocking, holds, workers.threads());
    let needed = g.workspace(workers.threads());
    assert!(needed <= bound, "{needed} bytes needed, {bound} promised for {:?} {:?}", g.shape, g.blocking);
    let mut memory = vec![0xa5u8; needed + 3];
    g.run(workers, &mut memory[3..]).unwrap();
}
