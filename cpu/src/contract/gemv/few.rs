//! A matrix times a few vectors, where K is contiguous in the matrix: dot products of a few of its rows with up to four vectors at a time.
//!
//! With so few columns, most lanes of vectors along them would be idle. Here vectors run along K, the matrix is read once, in place, and only the
//! few vectors are packed. How sums are grouped depends on the instruction set only. Error bound: that of the packed GEMM.

#![allow(clippy::needless_range_loop)] // Indices of accumulators; iterators would be closures here.

use std::marker::PhantomData;

use half::{bf16, f16};
use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, ContractSizes, Family, Tile, Traffic, Variant};
use millstream_core::{DType, Result};

use super::halves::HalfLine;
use crate::contract::dispatch::AccElement;
use crate::contract::packed::{Element, Output, PackBlock, PackSource, TileAt, carve, room_for, scatter};
use crate::contract::way::{Asked, Parts, Ran, Way};
use crate::shared::Shared;
use crate::simd::{Float, Isa, MAX_LANES, Real, Simd, WithSimd, vectorize};
use crate::workers::Workers;

/// The family of this kernel.
pub(in crate::contract) const FAMILY: Family = Family::new("few");
/// Vectors, at most: more fill the lanes of other kernels.
const MOST: usize = 8;
/// Elements of the matrix that a task reads, and rows that it has at least.
const TASK: usize = 1 << 16;
const LEAST_ROWS: usize = 8;
/// Vectors that are multiplied with a row at a time.
const TOGETHER: usize = 4;
/// Multiply-adds that take as long as the lanes of a result's accumulator are added up; measured.
const ADDING: usize = 64;

/// A matrix times a few vectors.
pub(in crate::contract) struct FewWay<T> {
    shape: ContractSizes,
    /// The matrix is A, and there are few columns; else few rows.
    matrix_is_a: bool,
    dtype: DType,
    sum: PhantomData<fn() -> T>,
}

impl<T: AccElement> FewWay<T> {
    /// The contraction, if one operand has few rows and the other is a matrix in memory with contiguous K.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<FewWay<T>> {
        let shape = asked.sizes;
        let [Some(a), Some(b)] = asked.matrices::<T>() else { return None };
        let few = |n: usize| (2..=MOST).contains(&n);
        let matrix_is_a = match (few(shape.n) && a.col == 1, few(shape.m) && b.col == 1) {
            (true, true) => shape.m >= shape.n,
            (true, false) => true,
            (false, true) => false,
            (false, false) => return None,
        };
        let dtype = if matrix_is_a { a.dtype } else { b.dtype };
        let known = match T::DTYPE {
            DType::F32 => matches!(dtype, DType::F32 | DType::BF16 | DType::F16),
            DType::F64 => dtype == DType::F64,
            _ => false,
        };
        let none = [shape.batch, shape.m, shape.n, shape.k].contains(&0);
        (known && !none).then_some(FewWay { shape, matrix_is_a, dtype, sum: PhantomData })
    }

    /// Rows of the matrix, and how many vectors there are.
    fn sides(&self) -> (usize, usize) {
        if self.matrix_is_a { (self.shape.m, self.shape.n) } else { (self.shape.n, self.shape.m) }
    }

    /// Elements of a packed vector: whole vectors of lanes.
    fn line(&self) -> usize {
        self.shape.k.next_multiple_of(MAX_LANES)
    }

    /// Elements of the packed vectors of all matrices, and rows of a task.
    fn cut(&self) -> (usize, usize) {
        let (rows, few) = self.sides();
        (self.shape.batch * few * self.line(), (TASK / self.shape.k).max(LEAST_ROWS).min(rows))
    }

    /// Computes it. `packed` has the elements of [`FewWay::cut`].
    fn compute(
        &self,
        isa: Isa,
        (matrix, vectors): (&dyn PackSource<T>, &dyn PackSource<T>),
        out: &Output<'_, T>,
        workers: &Workers,
        packed: &mut [T],
    ) {
        let ContractSizes { batch, k, .. } = self.shape;
        let ((rows, few), line, (_, chunk)) = (self.sides(), self.line(), self.cut());
        let base = Shared(packed.as_mut_ptr());
        let each = (TASK / line).max(1);
        workers.run((batch * few).div_ceil(each), &|task| {
            for i in task * each..(batch * few).min((task + 1) * each) {
                // SAFETY: each task writes its own vectors.
                let to = unsafe { base.add(i * line).slice(line) };
                let block = PackBlock { batch: i / few, row: i % few, rows: 1, k: 0, k_len: k, panel: 1 };
                vectors.pack(&block, &mut to[..k]);
                to[k..].fill(T::ZERO);
            }
        });
        let chunks = rows.div_ceil(chunk);
        workers.run(batch * chunks, &|task| {
            let (batch, first) = (task / chunks, task % chunks * chunk);
            let rows = chunk.min(rows - first);
            let Some(stored) = matrix.stored(batch) else { return };
            let mut sums = vec![T::ZERO; rows * few];
            let (row, vector) = if self.matrix_is_a { (few, 1) } else { (1, rows) };
            let from = stored.base.wrapping_offset(first as isize * stored.row * stored.size as isize);
            let x = base.add(batch * few * line).at(0).cast_const().cast();
            let part =
                Part { from, step: stored.row, rows, k, x, line, few, to: sums.as_mut_ptr().cast(), row, vector };
            match self.dtype {
                DType::F64 => vectorize(isa, Dots::<f64>(part, PhantomData)),
                DType::BF16 => vectorize(isa, Dots::<bf16>(part, PhantomData)),
                DType::F16 => vectorize(isa, Dots::<f16>(part, PhantomData)),
                _ => vectorize(isa, Dots::<f32>(part, PhantomData)),
            }
            let at = match self.matrix_is_a {
                true => TileAt { batch, row: first, col: 0, rows, cols: few, ld: few },
                false => TileAt { batch, row: 0, col: first, rows: few, cols: rows, ld: rows },
            };
            match out {
                Output::Sink(sink) => sink.store(&at, &sums),
                Output::Plain(c) => scatter(c, &at, &sums, |x| x),
            }
        });
    }
}

impl<T: AccElement> Way for FewWay<T> {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let ((rows, few), ContractSizes { batch, k, .. }) = (self.sides(), self.shape);
        let lanes = (if T::DTYPE == DType::F64 { 1 } else { 2 }) * asked.machine.reference.lanes / 2;
        let each = k.next_multiple_of(lanes.max(1)) + ADDING * lanes / MAX_LANES;
        let computed = [batch, rows, few, each].iter().map(|&n| n as f64).product::<f64>() * asked.faster::<T>();
        let block = |rows, vectors, k| match self.matrix_is_a {
            true => Block { m: rows, n: vectors, k },
            false => Block { m: vectors, n: rows, k },
        };
        let traffic = Traffic {
            tile: Tile::new([block(4, few.min(TOGETHER), 1), block(self.cut().1, few, k)]),
            copied: asked.bytes::<T>(few, k),
            computed: Some(computed as u64),
            // Nothing is rounded up to a register block.
            edges: Some((1, 1)),
            ..Traffic::default()
        };
        vec![Candidate::new(Variant::plain(FAMILY), traffic)]
    }

    fn workspace(&self) -> usize {
        room_for::<T>(self.cut().0)
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let (a, b) = (parts.lhs.source::<T>(bindings)?, parts.rhs.source::<T>(bindings)?);
        let (matrix, vectors) = if self.matrix_is_a { (&*a, &*b) } else { (&*b, &*a) };
        // What is not aligned is no longer a matrix in memory.
        if matrix.stored(0).is_none() {
            return Ok(Ran::ODD);
        }
        let Ok(packed) = carve::<T>(room, self.cut().0) else { return Ok(Ran::ROOM) };
        parts.epilogue.with_output(bindings, |out| {
            self.compute(parts.machine.isa, (matrix, vectors), out, &parts.machine.workers, packed);
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        format!("the matrix is read once, in place, {} vectors are packed\n", self.sides().1)
    }
}

/// How an element of a line becomes a lane of the sums.
trait Line: Copy + Default {
    type Sum: Real + Element;

    /// Reads a vector; must be `#[inline(always)]`.
    ///
    /// # Safety
    /// All lanes are readable.
    unsafe fn load<S: Simd>(s: S, from: *const Self) -> <Self::Sum as Real>::V<S>;
}

macro_rules! lines {
    ($($t:ty => $sum:ty, $s:ident $from:ident $load:expr;)*) => {$(
        impl Line for $t {
            type Sum = $sum;

            #[inline(always)]
            unsafe fn load<S: Simd>($s: S, $from: *const $t) -> <$sum as Real>::V<S> {
                // SAFETY: the caller's.
                unsafe { $load }
            }
        }
    )*};
}
lines! {
    f32 => f32, _s from S::F32::load(from);
    f64 => f64, _s from S::F64::load(from);
    bf16 => f32, s from <bf16 as HalfLine>::load(s, from);
    f16 => f32, s from <f16 as HalfLine>::load(s, from);
}

/// The rows of a task.
#[derive(Clone, Copy)]
struct Part {
    /// The first row's first element, elements from one row to the next, and how many rows and elements of each there are.
    from: *const u8,
    step: isize,
    rows: usize,
    k: usize,
    /// The packed vectors, elements from one to the next, and how many there are. They end with whole vectors of lanes, of zeros.
    x: *const u8,
    line: usize,
    few: usize,
    /// The results, elements from one row to the next, and from one vector to the next.
    to: *mut u8,
    row: usize,
    vector: usize,
}

/// Made by [`FewWay::compute`] alone, which vouches for all that the part names.
struct Dots<L: Line>(Part, PhantomData<L>);

impl<L: Line> WithSimd for Dots<L> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the maker's promise.
        unsafe {
            if S::VECTORS >= TOGETHER {
                self.rows_of::<S, 4>(s);
            } else {
                self.rows_of::<S, 2>(s);
            }
        }
    }
}

impl<L: Line> Dots<L> {
    /// All rows, `R` at a time.
    ///
    /// # Safety
    /// All that the part names is there.
    #[inline(always)]
    unsafe fn rows_of<S: Simd, const R: usize>(&self, s: S) {
        let mut first = 0;
        // SAFETY: the caller's.
        unsafe {
            while first + R <= self.0.rows {
                self.vectors_of::<S, R>(s, first);
                first += R;
            }
            while first < self.0.rows {
                self.vectors_of::<S, 1>(s, first);
                first += 1;
            }
        }
    }

    /// # Safety
    /// The same, with `R` rows from the first on.
    #[inline(always)]
    unsafe fn vectors_of<S: Simd, const R: usize>(&self, s: S, first: usize) {
        let mut done = 0;
        while done < self.0.few {
            // SAFETY: the caller's.
            unsafe {
                match self.0.few - done {
                    1 => self.some::<S, R, 1>(s, first, done),
                    2 => self.some::<S, R, 2>(s, first, done),
                    3 => self.some::<S, R, 3>(s, first, done),
                    _ => self.some::<S, R, TOGETHER>(s, first, done),
                }
            }
            done += TOGETHER;
        }
    }

    /// # Safety
    /// The same, with `N` vectors from `vector` on.
    #[inline(always)]
    unsafe fn some<S: Simd, const R: usize, const N: usize>(&self, s: S, first: usize, vector: usize) {
        let of = &self.0;
        let lanes = <<L::Sum as Real>::V<S> as Float>::LANES;
        let zero = <L::Sum as Real>::splat(s, <L::Sum as Real>::from_f64(0.0));
        let mut acc = [[zero; N]; R];
        let (mut from, mut x) = ([of.from.cast::<L>(); R], [of.x.cast::<L::Sum>(); N]);
        for r in 0..R {
            from[r] = from[r].wrapping_offset((first + r) as isize * of.step);
        }
        for n in 0..N {
            x[n] = x[n].wrapping_add((vector + n) * of.line);
        }
        // SAFETY: the caller's; of what is left of a row, a copy with zeros is read.
        unsafe {
            let mut k = 0;
            while k < of.k {
                let mut xs = [zero; N];
                for n in 0..N {
                    xs[n] = <<L::Sum as Real>::V<S> as Float>::load(x[n].wrapping_add(k));
                }
                let left = of.k - k;
                for r in 0..R {
                    let at = from[r].wrapping_add(k);
                    let line = if left >= lanes {
                        L::load(s, at)
                    } else {
                        let mut rest = [L::default(); MAX_LANES];
                        for i in 0..left {
                            rest[i] = *at.add(i);
                        }
                        L::load(s, rest.as_ptr())
                    };
                    for n in 0..N {
                        acc[r][n] = line.mul_add(xs[n], acc[r][n]);
                    }
                }
                k += lanes;
            }
            for r in 0..R {
                for n in 0..N {
                    let to = of.to.cast::<L::Sum>().add((first + r) * of.row + (vector + n) * of.vector);
                    *to = acc[r][n].sum();
                }
            }
        }
    }
}
