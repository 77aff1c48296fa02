//! Products with one row or one column: each matrix element is used once, so memory decides and nothing is packed.
//!
//! The matrix is `rows` by `depth`, whichever operand it is; the other operand is the vector. Adjacent depths make dot
//! products, adjacent rows make a sum of scaled rows. Long depths are cut into slices whose sums are added in order, so
//! that few rows still give enough tasks.

use super::blocking::Shape;
use super::driver::prefetch;
use super::kernel::{Dots, Kernels};
use super::sink::{Output, TileAt, scatter};
use super::source::{Direct, PackSource};
use super::{Element, Isa};
use crate::workers::Workers;

/// Bytes of the matrix that a task should read.
const TASK_BYTES: usize = 128 << 10;
/// Most tasks a product is cut into for its size alone.
const MOST_TASKS: usize = 256;
/// Most tasks for which the depth of scaled rows is cut: each slice has long sums to write and read again.
const SLICED_TASKS: usize = 64;

/// How a product with a vector is cut.
pub(super) struct Plan {
    shape: Shape,
    /// The matrix is A, and there is one column.
    matrix_is_a: bool,
    /// Depths are adjacent; else rows are.
    dot: bool,
    rows: usize,
    chunk: usize,
    chunks: usize,
    slice: usize,
    slices: usize,
}

impl Plan {
    /// `None` if the product is not one with a vector, or its operands do not lie as needed.
    pub fn new<T: Element>(shape: Shape, a: &dyn PackSource<T>, b: &dyn PackSource<T>) -> Option<Plan> {
        if shape.k == 0 || shape.m.min(shape.n) != 1 || shape.batch == 0 {
            return None;
        }
        let matrix_is_a = shape.n == 1;
        let (matrix, vector) = if matrix_is_a { (a.direct(0)?, b.direct(0)?) } else { (b.direct(0)?, a.direct(0)?) };
        let rows = if matrix_is_a { shape.m } else { shape.n };
        let dot = match (matrix.depth, matrix.row) {
            (1, _) if vector.depth == 1 => true,
            (_, 1) => false,
            _ => return None,
        };
        Some(Plan::cut(shape, matrix_is_a, dot, rows, size_of::<T>()))
    }

    /// The plan that needs the most workspace, for a shape that may be one with a vector.
    pub fn worst(shape: Shape, size: usize) -> Option<[Plan; 2]> {
        if shape.k == 0 || shape.m.min(shape.n) != 1 || shape.batch == 0 {
            return None;
        }
        let rows = shape.m.max(shape.n);
        Some([true, false].map(|dot| Plan::cut(shape, shape.n == 1, dot, rows, size)))
    }

    fn cut(shape: Shape, matrix_is_a: bool, dot: bool, rows: usize, size: usize) -> Plan {
        let k = shape.k;
        // Rows of dot products come in fours; sums of scaled rows want long runs of memory.
        let (most, unit, least) = if dot { (MOST_TASKS, 4, 4) } else { (SLICED_TASKS, 64, 2048) };
        let wanted = (rows.saturating_mul(k).saturating_mul(size) / TASK_BYTES).clamp(1, MOST_TASKS);
        let chunk = rows.div_ceil(wanted).max(least.min(rows)).next_multiple_of(unit);
        let chunks = rows.div_ceil(chunk);
        let slices = (wanted.min(most) / chunks).clamp(1, k.div_ceil(if dot { 4096 } else { 64 }));
        let slice = k.div_ceil(slices).next_multiple_of(64);
        Plan { shape, matrix_is_a, dot, rows, chunk, chunks, slice, slices: k.div_ceil(slice) }
    }

    /// Elements of workspace.
    pub fn elements(&self) -> usize {
        self.shape.batch * self.slices * self.chunks * self.chunk
    }

    /// Computes it. `sums` has [`Plan::elements`] elements.
    pub fn run<T: Element>(
        &self,
        isa: Isa,
        a: &dyn PackSource<T>,
        b: &dyn PackSource<T>,
        out: &Output<'_, T>,
        workers: &Workers,
        sums: &mut [T],
    ) {
        let kernels = super::kernels::<T>(isa);
        let base = Shared(sums.as_mut_ptr());
        let per_batch = self.chunks * self.slices;
        let emit = |batch: usize, chunk: usize, sums: &[T]| {
            let (first, count) = (chunk * self.chunk, self.chunk.min(self.rows - chunk * self.chunk));
            let at = if self.matrix_is_a {
                TileAt { batch, row: first, col: 0, rows: count, cols: 1, ld: 1 }
            } else {
                TileAt { batch, row: 0, col: first, rows: 1, cols: count, ld: count }
            };
            match out {
                Output::Sink(sink) => sink.store(&at, &sums[..count]),
                Output::Plain(c) => scatter(c, &at, sums, |x| x),
            }
        };
        workers.run(self.shape.batch * per_batch, &|task| {
            let (batch, chunk, slice) = (task / per_batch, task % per_batch / self.slices, task % self.slices);
            let (matrix, vector) = if self.matrix_is_a { (a, b) } else { (b, a) };
            let (Some(matrix), Some(vector)) = (matrix.direct(batch), vector.direct(batch)) else { return };
            let (row, k) = (chunk * self.chunk, slice * self.slice);
            let (rows, depth) = (self.chunk.min(self.rows - row), self.slice.min(self.shape.k - k));
            let part = Part {
                matrix: Direct {
                    base: matrix.base.wrapping_offset(row as isize * matrix.row + k as isize * matrix.depth),
                    ..matrix
                },
                x: vector.base.wrapping_offset(k as isize * vector.depth),
                x_stride: vector.depth,
                rows,
                depth,
            };
            // SAFETY: every task has its own part of the sums.
            let sums = unsafe { base.part(task * self.chunk, self.chunk) };
            // SAFETY: the sources vouch for their elements; the instruction set was checked by the driver.
            unsafe {
                match (self.dot, isa) {
                    (true, _) if kernels.dots.is_some() => dots_simd(kernels, &part, sums),
                    #[cfg(target_arch = "x86_64")]
                    (true, Isa::Avx2 | Isa::Avx512) => dots_avx2(&part, sums),
                    #[cfg(target_arch = "x86_64")]
                    (false, Isa::Avx2 | Isa::Avx512) => scaled_rows_avx2(&part, sums),
                    (true, _) => dots(&part, sums),
                    (false, _) => scaled_rows(&part, sums),
                }
            }
            if self.slices == 1 {
                emit(batch, chunk, sums);
            }
        });
        if self.slices > 1 {
            workers.run(self.shape.batch * self.chunks, &|task| {
                // SAFETY: all slices are complete, and only this task uses those of its rows now.
                let all = unsafe { base.part(task * self.slices * self.chunk, self.slices * self.chunk) };
                let (sum, rest) = all.split_at_mut(self.chunk);
                for part in rest.chunks_exact(self.chunk) {
                    for (s, &x) in sum.iter_mut().zip(part) {
                        *s = s.add(x);
                    }
                }
                emit(task / self.chunks, task % self.chunks, sum);
            });
        }
    }
}

/// The sums of all tasks.
struct Shared<T>(*mut T);

// SAFETY: each task takes its own part.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    /// The part is inside the allocation and no other task uses it meanwhile.
    unsafe fn part<'a>(&self, from: usize, len: usize) -> &'a mut [T] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.wrapping_add(from), len) }
    }
}

/// What a task computes: `rows` sums over `depth`.
struct Part<T> {
    matrix: Direct<T>,
    x: *const T,
    x_stride: isize,
    rows: usize,
    depth: usize,
}

/// As [`dots`], with the kernels of an instruction set.
///
/// # Safety
/// As [`dots`]; the instruction set is present.
unsafe fn dots_simd<T: Element>(kernels: &Kernels<T>, p: &Part<T>, sums: &mut [T]) {
    let Some([one, four]) = kernels.dots else { return };
    let mut r = 0;
    while r < p.rows {
        let rows = p.matrix.base.wrapping_offset(r as isize * p.matrix.row);
        let d = Dots { k: p.depth, rows, row: p.matrix.row, x: p.x };
        let (dots, count) = if r + 4 <= p.rows { (four, 4) } else { (one, 1) };
        // SAFETY: the rows from r on are in the part, and the sums have a place for each.
        unsafe { dots(&d, sums[r..r + count].as_mut_ptr()) };
        r += count;
    }
}

/// # Safety
/// As [`dots`]; AVX2 and FMA are present.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn dots_avx2<T: Element>(p: &Part<T>, sums: &mut [T]) {
    // SAFETY: the same contract.
    unsafe { dots(p, sums) }
}

/// # Safety
/// As [`scaled_rows`]; AVX2 and FMA are present.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn scaled_rows_avx2<T: Element>(p: &Part<T>, sums: &mut [T]) {
    // SAFETY: the same contract.
    unsafe { scaled_rows(p, sums) }
}

/// Dot products of the rows with the vector.
///
/// # Safety
/// The part's elements are readable; depths are adjacent in the matrix and the vector.
#[inline(always)]
unsafe fn dots<T: Element>(p: &Part<T>, sums: &mut [T]) {
    // SAFETY: the caller's.
    let x = unsafe { std::slice::from_raw_parts(p.x, p.depth) };
    let row = |r: usize| {
        let base = p.matrix.base.wrapping_offset(r as isize * p.matrix.row);
        // SAFETY: row r is in the part.
        unsafe { std::slice::from_raw_parts(base, p.depth) }
    };
    for (r, sum) in sums.iter_mut().enumerate().take(p.rows) {
        *sum = dot_row(row(r), x);
    }
}

/// Sums kept apart in a dot product; two vectors of 32-bit elements.
const LANES: usize = 16;

#[inline(always)]
fn dot_row<T: Element>(row: &[T], x: &[T]) -> T {
    let mut acc = [T::ZERO; LANES];
    for (row, x) in row.chunks(LANES).zip(x.chunks(LANES)) {
        for ((acc, &a), &x) in acc.iter_mut().zip(row).zip(x) {
            *acc = acc.add(a.mul(x));
        }
    }
    acc.into_iter().fold(T::ZERO, |sum, x| sum.add(x))
}

/// Depths that are added to the sums in one pass over them.
const TOGETHER: usize = 8;
/// Rows that are summed between two looks ahead.
const BLOCK: usize = 16;
/// Bytes that are asked for ahead of time.
const AHEAD: usize = 1024;

/// Sums of the matrix's depths, each scaled by an element of the vector.
///
/// # Safety
/// The part's elements are readable; rows are adjacent in the matrix.
#[inline(always)]
unsafe fn scaled_rows<T: Element>(p: &Part<T>, sums: &mut [T]) {
    let sums = &mut sums[..p.rows];
    sums.fill(T::ZERO);
    // SAFETY: depth k is in the part.
    let x = |k: usize| unsafe { *p.x.wrapping_offset(k as isize * p.x_stride) };
    let line = |k: usize| {
        let base = p.matrix.base.wrapping_offset(k as isize * p.matrix.depth);
        // SAFETY: depth k of all rows of the part.
        unsafe { std::slice::from_raw_parts(base, p.rows) }
    };
    let mut k = 0;
    while k + TOGETHER <= p.depth {
        let scale: [T; TOGETHER] = std::array::from_fn(|i| x(k + i));
        let lines: [&[T]; TOGETHER] = std::array::from_fn(|i| line(k + i));
        let (blocks, rest) = sums.as_chunks_mut::<BLOCK>();
        for (b, sums) in blocks.iter_mut().enumerate() {
            for line in &lines {
                // Eight streams at once are more than a prefetcher follows across pages.
                let ahead = line.as_ptr().wrapping_add(b * BLOCK).cast::<u8>().wrapping_add(AHEAD);
                for l in 0..(BLOCK * size_of::<T>()).div_ceil(64) {
                    prefetch(ahead.wrapping_add(64 * l));
                }
            }
            let lines: [&[T; BLOCK]; TOGETHER] = lines.map(|line| &line.as_chunks::<BLOCK>().0[b]);
            for j in 0..BLOCK {
                // Two chains, so that the additions overlap.
                let mut even = sums[j];
                let mut odd = T::ZERO;
                for i in (0..TOGETHER).step_by(2) {
                    even = even.add(scale[i].mul(lines[i][j]));
                    odd = odd.add(scale[i + 1].mul(lines[i + 1][j]));
                }
                sums[j] = even.add(odd);
            }
        }
        let done = p.rows - rest.len();
        for (j, sum) in rest.iter_mut().enumerate() {
            let mut even = *sum;
            let mut odd = T::ZERO;
            for i in (0..TOGETHER).step_by(2) {
                even = even.add(scale[i].mul(lines[i][done + j]));
                odd = odd.add(scale[i + 1].mul(lines[i + 1][done + j]));
            }
            *sum = even.add(odd);
        }
        k += TOGETHER;
    }
    while k < p.depth {
        let (scale, line) = (x(k), line(k));
        for (s, &a) in sums.iter_mut().zip(line) {
            *s = s.add(scale.mul(a));
        }
        k += 1;
    }
}
