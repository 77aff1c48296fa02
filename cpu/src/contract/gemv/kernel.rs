//! Matmuls with one row or one column: each matrix element is used once, so memory decides and nothing is packed.
//!
//! The matrix is `rows` by `k_len`, whichever operand it is; the other operand is the vector. A contiguous K makes dot
//! products, adjacent rows make a sum of scaled rows. A long K is cut into slices whose sums are added in order, so
//! that few rows still give enough tasks. Narrower floats are widened a few lines at a time, in L1, narrower integers
//! in registers.

use millstream_core::how::ContractSizes;

use super::narrow::NarrowLines;
use crate::contract::packed::kernel::{Lines, TOGETHER, VectorKernels, kernels};
use crate::contract::packed::{Element, MicroKernel, Output, PackSource, Stored, TileAt, scatter};
use crate::prefetch::prefetch_bytes;
use crate::shared::Shared;
use crate::topology::Topology;
use crate::workers::Workers;

/// Bytes of the matrix that a task should read, or of what it is widened to.
const TASK_BYTES: usize = 128 << 10;
/// Most tasks a matmul is cut into for its size alone.
const MOST_TASKS: usize = 256;
/// Most tasks for which the K of scaled rows is cut: each slice has long accumulators to write and read again.
const SLICED_TASKS: usize = 64;

/// Bytes of a line of scaled rows that a task takes, if there are so many.
const LINE: usize = 16 << 10;

/// Rows whose slices are added up by one task.
const PIECE: usize = 256;

/// How a matmul with a vector is cut.
pub(crate) struct Gemv {
    shape: ContractSizes,
    /// The matrix is A, and there is one column.
    matrix_is_a: bool,
    /// K is contiguous; else rows are.
    dot: bool,
    rows: usize,
    chunk: usize,
    chunks: usize,
    slice: usize,
    slices: usize,
}

impl Gemv {
    /// How these operands are multiplied; `None` if neither is a vector, if they do not lie as needed, or if there are no kernels for them.
    pub(crate) fn new<T: Element>(
        isa: MicroKernel,
        shape: ContractSizes,
        a: &dyn PackSource<T>,
        b: &dyn PackSource<T>,
    ) -> Option<Gemv> {
        let strides = |s: Stored<T>| (s.row, s.k);
        Gemv::of_strides::<T>(isa, shape, [strides(a.stored(0)?), strides(b.stored(0)?)])
    }

    /// The same, by the operands' strides from row to row and along K.
    pub(super) fn of_strides<T: Element>(
        isa: MicroKernel,
        shape: ContractSizes,
        [a, b]: [(isize, isize); 2],
    ) -> Option<Gemv> {
        let kernels = kernels::<T>(isa).vector.is_some();
        if !kernels || shape.k == 0 || shape.m.min(shape.n) != 1 || shape.batch == 0 {
            return None;
        }
        let matrix_is_a = shape.n == 1;
        let (matrix, vector, rows) = if matrix_is_a { (a, b, shape.m) } else { (b, a, shape.n) };
        let dot = match matrix {
            (_, 1) if vector.1 == 1 => true,
            (1, _) => false,
            _ => return None,
        };
        Some(Gemv::cut(shape, matrix_is_a, dot, rows, size_of::<T>()))
    }

    fn cut(shape: ContractSizes, matrix_is_a: bool, dot: bool, rows: usize, size: usize) -> Gemv {
        let k = shape.k;
        // Rows of dot products come in eights; sums of scaled rows want long runs of memory.
        let (most, unit, least) = if dot { (MOST_TASKS, 8, 8) } else { (SLICED_TASKS, 64, LINE / size) };
        let wanted = (rows.saturating_mul(k).saturating_mul(size) / TASK_BYTES).clamp(1, MOST_TASKS);
        let chunk = rows.div_ceil(wanted).max(least.min(rows)).next_multiple_of(unit);
        let chunks = rows.div_ceil(chunk);
        let slices = (wanted.min(most) / chunks).clamp(1, k.div_ceil(if dot { 4096 } else { 64 }));
        let slice = k.div_ceil(slices).next_multiple_of(64);
        Gemv { shape, matrix_is_a, dot, rows, chunk, chunks, slice, slices: k.div_ceil(slice) }
    }

    /// Elements of workspace.
    pub(crate) fn elements(&self) -> usize {
        self.shape.batch * self.slices * self.chunks * self.chunk
    }

    /// Computes it. `acc` has [`Gemv::elements`] elements.
    pub(crate) fn run<T: Element>(
        &self,
        isa: MicroKernel,
        a: &dyn PackSource<T>,
        b: &dyn PackSource<T>,
        out: &Output<'_, T>,
        workers: &Workers,
        acc: &mut [T],
    ) {
        let Some(kernels) = &kernels::<T>(isa).vector else { return };
        let base = Shared(acc.as_mut_ptr());
        let per_batch = self.chunks * self.slices;
        // Gives away the accumulators of rows from `first` on, if there are so many.
        let emit = |batch: usize, first: usize, acc: &[T]| {
            let count = acc.len().min(self.rows - first);
            let at = if self.matrix_is_a {
                TileAt { batch, row: first, col: 0, rows: count, cols: 1, ld: 1 }
            } else {
                TileAt { batch, row: 0, col: first, rows: 1, cols: count, ld: count }
            };
            match out {
                Output::Sink(sink) => sink.store(&at, &acc[..count]),
                Output::Plain(c) => scatter(c, &at, acc, |x| x),
            }
        };
        workers.run(self.shape.batch * per_batch, &|task| {
            let (batch, chunk, slice) = (task / per_batch, task % per_batch / self.slices, task % self.slices);
            let (matrix, vector) = if self.matrix_is_a { (a, b) } else { (b, a) };
            let (Some(matrix), Some(vector)) = (matrix.stored(batch), vector.stored(batch)) else { return };
            let (row, k) = (chunk * self.chunk, slice * self.slice);
            let (rows, k_len) = (self.chunk.min(self.rows - row), self.slice.min(self.shape.k - k));
            // SAFETY: every task has its own part of the accumulators.
            let acc = unsafe { base.add(task * self.chunk).slice(self.chunk) };
            let matrix = Stored { base: matrix.at(row, k), ..matrix };
            // It comes from memory rather than from a cache.
            let far =
                self.rows.saturating_mul(self.shape.k).saturating_mul(matrix.size) >= Topology::here().own_part() / 2;
            let vector = Stored { base: vector.at(0, k), ..vector };
            let part = TaskPart { isa, kernels, matrix, vector, rows, k_len, far };
            // SAFETY: the sources vouch for their elements; the instruction set was checked by the driver.
            unsafe {
                match (self.dot, part.narrow(self.dot)) {
                    (true, false) => part.dots(acc),
                    (true, true) => part.narrow_dots(acc),
                    (false, false) => part.scaled(acc),
                    (false, true) => part.narrow_scaled(acc),
                }
            }
            if self.slices == 1 {
                emit(batch, row, acc);
            }
        });
        if self.slices > 1 {
            // The slices' accumulators are in the caches of all cores: they are added by pieces of rows, for each thread to have some.
            let pieces = self.chunk.div_ceil(PIECE);
            workers.run(self.shape.batch * self.chunks * pieces, &|task| {
                let (batch, chunk) = (task / pieces / self.chunks, task / pieces % self.chunks);
                let from = task % pieces * PIECE;
                let row = chunk * self.chunk + from;
                let n = PIECE.min(self.chunk - from).min(self.rows.saturating_sub(row));
                let slice = |i: usize| ((batch * self.chunks + chunk) * self.slices + i) * self.chunk + from;
                // SAFETY: all slices are complete, and only this task uses those of its rows now.
                let acc = unsafe { base.add(slice(0)).slice(n) };
                // SAFETY: as above.
                let part = |i: usize| unsafe { &*base.add(slice(i)).slice(n) };
                let mut i = 1;
                while i + MOST <= self.slices {
                    add_parts::<T, MOST>(acc, std::array::from_fn(|more| part(i + more)));
                    i += MOST;
                }
                (i..self.slices).for_each(|i| add_parts(acc, [part(i)]));
                if n > 0 {
                    emit(batch, row, acc);
                }
            });
        }
    }
}

/// Elements of a line that are widened at a time.
const WIDENED: usize = 512;
/// Elements of a vector that are widened at a time, where lines are not: pieces of lines that are worth the way to the next.
const LONG: usize = 4096;
/// Lines that the kernels take at once, at most.
const MOST: usize = TOGETHER[0];
/// Bytes between an element and what is prefetched with it, where the next lines are too long for that.
const ALONG: isize = 2048;

/// Adds parts to the accumulators, one after the other. They come from other cores: several at once arrive in the time of one.
fn add_parts<T: Element, const N: usize>(acc: &mut [T], parts: [&[T]; N]) {
    let parts = parts.map(|part| &part[..acc.len()]);
    for (i, sum) in acc.iter_mut().enumerate() {
        for part in &parts {
            *sum = sum.add(part[i]);
        }
    }
}

/// What a task computes: `rows` accumulators over `k_len`.
struct TaskPart<'a, T> {
    isa: MicroKernel,
    kernels: &'a VectorKernels<T>,
    matrix: Stored<T>,
    vector: Stored<T>,
    rows: usize,
    k_len: usize,
    /// The matrix comes from memory.
    far: bool,
}

impl<T: Element> TaskPart<'_, T> {
    /// Bytes from an element of the matrix to the one that is prefetched with it: in the next lines, of `n` elements, if they
    /// are short enough, else further along.
    fn ahead(&self, line: isize, n: usize) -> isize {
        let size = self.matrix.size;
        // What is prefetched has to stay in L2.
        if MOST * n * size <= Topology::here().l2().size / 8 {
            line.wrapping_mul((MOST * size) as isize)
        } else {
            ALONG
        }
    }

    /// As [`TaskPart::ahead`], if the matrix comes from memory, else 0.
    fn ahead_if_far(&self, line: isize, n: usize) -> isize {
        if self.far { self.ahead(line, n) } else { 0 }
    }

    /// Whether elements have to be widened before kernels can read them.
    fn narrow(&self, dot: bool) -> bool {
        self.matrix.widen.is_some() || dot && self.vector.widen.is_some()
    }

    /// Dot products of the rows with the vector.
    ///
    /// # Safety
    /// The part's elements are readable and the instruction set is present; K is contiguous in the matrix and the
    /// vector; there is a sum for each row.
    unsafe fn dots(&self, acc: &mut [T]) {
        let (line, ahead) = (self.matrix.row, self.ahead(self.matrix.row, self.k_len));
        let mut r = 0;
        while r < self.rows {
            let (which, count) = self.together(self.rows - r);
            let lines = Lines { n: self.k_len, first: self.matrix.at(r, 0).cast(), line, ahead };
            let acc = &mut acc[r..r + count];
            // SAFETY: these rows are in the part, with as many accumulators.
            unsafe { self.kernels.dots[which](&lines, self.vector.base.cast(), acc.as_mut_ptr()) };
            r += count;
        }
    }

    /// As [`TaskPart::dots`], of elements that are widened first.
    ///
    /// # Safety
    /// As for [`TaskPart::dots`].
    unsafe fn narrow_dots(&self, acc: &mut [T]) {
        if let Some(narrow) = self.matrix.narrow {
            let mut x = [T::ZERO; LONG];
            acc[..self.rows].fill(T::ZERO);
            // All rows for some K indices of the vector, which are widened once.
            for k in (0..self.k_len).step_by(x.len()) {
                let n = x.len().min(self.k_len - k);
                let (line, count) = (self.matrix.row, self.rows);
                let lines =
                    NarrowLines { first: self.matrix.at(0, k), line, count, n, ahead: self.ahead_if_far(line, n) };
                // SAFETY: these elements are in the part, with a sum for each row.
                unsafe {
                    self.vector.read(self.isa, 0, k, n, &mut x);
                    (narrow.dots)(self.isa, &lines, x.as_ptr(), acc.as_mut_ptr());
                }
            }
            return;
        }
        let ahead = self.ahead(self.matrix.row, self.k_len);
        let (mut x, mut rows, mut some) = ([T::ZERO; WIDENED], [T::ZERO; MOST * WIDENED], [T::ZERO; MOST]);
        let mut r = 0;
        while r < self.rows {
            let (which, count) = self.together(self.rows - r);
            let acc = &mut acc[r..r + count];
            acc.fill(T::ZERO);
            for k in (0..self.k_len).step_by(WIDENED) {
                let n = WIDENED.min(self.k_len - k);
                // SAFETY: these elements are in the part; the kernel reads what was written before.
                unsafe {
                    self.vector.read(self.isa, 0, k, n, &mut x);
                    for (i, to) in rows.chunks_exact_mut(WIDENED).enumerate().take(count) {
                        self.fetch(self.matrix.at(r + i, k), n, ahead);
                        self.matrix.read(self.isa, r + i, k, n, to);
                    }
                    let lines = Lines { n, first: rows.as_ptr(), line: WIDENED as isize, ahead: 0 };
                    self.kernels.dots[which](&lines, x.as_ptr(), some.as_mut_ptr());
                }
                for (sum, &x) in acc.iter_mut().zip(&some) {
                    *sum = sum.add(x);
                }
            }
            r += count;
        }
    }

    /// Sums of the matrix's lines along rows, each scaled by an element of the vector.
    ///
    /// # Safety
    /// The part's elements are readable and the instruction set is present; rows are adjacent in the matrix; there is a
    /// sum for each row.
    unsafe fn scaled(&self, acc: &mut [T]) {
        let (line, ahead) = (self.matrix.k, self.ahead(self.matrix.k, self.rows));
        acc[..self.rows].fill(T::ZERO);
        let mut k = 0;
        while k < self.k_len {
            let (which, count) = self.together(self.k_len - k);
            // SAFETY: these K indices are in the part, with as many accumulators as rows.
            unsafe {
                let lines = Lines { n: self.rows, first: self.matrix.at(0, k).cast(), line, ahead };
                self.kernels.scaled[which](&lines, self.scales(k, count).as_ptr(), acc.as_mut_ptr());
            }
            k += count;
        }
    }

    /// As [`TaskPart::scaled`], of elements that are widened first.
    ///
    /// # Safety
    /// As for [`TaskPart::scaled`].
    unsafe fn narrow_scaled(&self, acc: &mut [T]) {
        let (line, n) = (self.matrix.k, self.rows);
        let ahead = self.ahead(line, n);
        let acc = &mut acc[..self.rows];
        acc.fill(T::ZERO);
        if let Some(narrow) = self.matrix.narrow {
            for k in (0..self.k_len).step_by(MOST) {
                let count = MOST.min(self.k_len - k);
                let first = self.matrix.at(0, k);
                let lines = NarrowLines { first, line, count, n, ahead: self.ahead_if_far(line, n) };
                // SAFETY: these elements are in the part, with a sum for each row.
                unsafe {
                    let x = self.scales(k, count);
                    (narrow.scaled)(self.isa, &lines, x.as_ptr(), acc.as_mut_ptr());
                }
            }
            return;
        }
        let mut widened = [T::ZERO; MOST * WIDENED];
        let mut k = 0;
        while k < self.k_len {
            let (which, count) = self.together(self.k_len - k);
            // SAFETY: these K indices are in the part.
            let x = unsafe { self.scales(k, count) };
            for (b, acc) in acc.chunks_mut(WIDENED).enumerate() {
                let (row, n) = (b * WIDENED, acc.len());
                // SAFETY: these elements are in the part; the kernel reads what was written before.
                unsafe {
                    for (i, to) in widened.chunks_exact_mut(WIDENED).enumerate().take(count) {
                        self.fetch(self.matrix.at(row, k + i), n, ahead);
                        self.matrix.read(self.isa, row, k + i, n, to);
                    }
                    let lines = Lines { n, first: widened.as_ptr(), line: WIDENED as isize, ahead: 0 };
                    self.kernels.scaled[which](&lines, x.as_ptr(), acc.as_mut_ptr());
                }
            }
            k += count;
        }
    }

    /// Elements of the vector, `count` from K index `k` on.
    ///
    /// # Safety
    /// They are in the part, and the instruction set is present.
    unsafe fn scales(&self, k: usize, count: usize) -> [T; MOST] {
        let mut x = [T::ZERO; MOST];
        for (i, x) in x.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's.
            unsafe { self.vector.read(self.isa, 0, k + i, 1, std::slice::from_mut(x)) };
        }
        x
    }

    /// The kernel that takes as many of these lines as possible, and how many.
    fn together(&self, left: usize) -> (usize, usize) {
        let fit = |&(_, count): &(usize, usize)| count <= left && (self.far || count < MOST);
        TOGETHER.into_iter().enumerate().find(fit).unwrap_or((TOGETHER.len() - 1, 1))
    }

    /// Prefetches what is read after these `n` elements.
    fn fetch(&self, from: *const u8, n: usize, ahead: isize) {
        if self.far {
            prefetch_bytes(from.wrapping_offset(ahead), n * self.matrix.size);
        }
    }
}

impl<T: Element> Stored<T> {
    /// The address of an element.
    fn at(&self, row: usize, k: usize) -> *const u8 {
        let elements = row as isize * self.row + k as isize * self.k;
        self.base.wrapping_offset(elements.wrapping_mul(self.size as isize))
    }

    /// Writes `n` elements from this one on, which are adjacent, as `T`.
    ///
    /// # Safety
    /// They are readable, and the instruction set is present.
    #[inline]
    unsafe fn read(&self, isa: MicroKernel, row: usize, k: usize, n: usize, to: &mut [T]) {
        let (from, to) = (self.at(row, k), &mut to[..n]);
        // SAFETY: the caller's.
        unsafe {
            match self.widen {
                Some(widen) => widen(isa, from, to.as_mut_ptr(), n),
                None => std::ptr::copy_nonoverlapping(from.cast::<T>(), to.as_mut_ptr(), n),
            }
        }
    }
}
