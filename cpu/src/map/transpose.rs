//! Copies between layouts whose neighbouring elements differ: in tiles, so that every cache line is used whole.
//!
//! The output's neighbours run along one dimension (here: columns), the input's along another (here: rows). A tile reads
//! whole lines along rows and writes whole lines along columns; results that no cache holds are written past the caches.

use std::sync::Arc;

use millstream_core::backend::Bindings;
use millstream_core::{Dims, Expr, Op, Result};
use smallvec::SmallVec;

use crate::backend::Machine;
use crate::program::{Operand, bases, fence, seek};
use crate::simd::Isa;
use crate::stream::Run;

/// Elements of a tile along columns and rows: enough for a task, little enough that both sides' pages stay known.
const COLS: usize = 256;
const ROWS: usize = 256;
/// The same for results that are written past the caches: long runs of the input's lines, so that what comes next can be
/// prefetched.
const STREAMED: (usize, usize) = (64, 1024);

/// Copies a tile: `to[j * to_stride + i] = from[i * from_stride + j]` for `i` below `cols` and `j` below `rows`, strides in
/// bytes, neighbours contiguous.
pub(crate) type TileFn = unsafe fn(from: *const u8, to: *mut u8, tile: &TransposeTile);

/// A tile's sizes and strides.
#[derive(Clone, Copy)]
pub(crate) struct TransposeTile {
    pub cols: usize,
    pub rows: usize,
    pub from_stride: isize,
    pub to_stride: isize,
}

/// A copy in tiles.
pub(super) struct Transpose {
    machine: Arc<Machine>,
    dims: Dims,
    operands: [Operand; 2],
    cols: usize,
    rows: usize,
    outer: SmallVec<[usize; 6]>,
    tile: TileFn,
    /// For outputs that are written past the caches, if their addresses allow it.
    streaming: Option<TileFn>,
    size: usize,
}

impl Transpose {
    /// The operation as a copy in tiles, if it is one.
    pub(super) fn new(op: &Op, expr: &Expr, machine: &Arc<Machine>) -> Option<Transpose> {
        let ([from], [to], Some(0)) = (&op.inputs[..], &op.outputs[..], expr.as_input()) else { return None };
        if !from.is_plain() || op.dims.contains(&0) || op.output_len(0) != op.dims.iter().product::<usize>() {
            return None;
        }
        let unit = |strides: &[isize]| (0..op.dims.len()).find(|&d| strides[d] == 1 && op.dims[d] > 1);
        let (cols, rows) = (unit(&to.strides)?, unit(&from.strides)?);
        if cols == rows || op.dims[cols] < 8 || op.dims[rows] < 8 {
            return None;
        }
        let size = to.dtype.size();
        let (tile, streaming) = kernels(machine.isa, size);
        let streaming = streaming.filter(|_| op.output_len(0) * size > machine.topology.l3().size);
        Some(Transpose {
            machine: machine.clone(),
            dims: op.dims.clone(),
            operands: [Operand::new(from), Operand::new(to)],
            cols,
            rows,
            outer: (0..op.dims.len()).filter(|&d| d != cols && d != rows).collect(),
            tile,
            streaming,
            size,
        })
    }

    /// What it does, in words.
    pub(super) fn text(&self) -> String {
        format!("copy of {} bytes an element in tiles along dimensions {} and {}\n", self.size, self.cols, self.rows)
    }
}

impl Run for Transpose {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let bases = bases(bindings, &self.operands)?;
        let [from, to] = &self.operands;
        let (cols, rows) = (self.dims[self.cols], self.dims[self.rows]);
        let outer: usize = self.outer.iter().map(|&d| self.dims[d]).product();
        let rows_are_aligned = to.strides.iter().enumerate().all(|(d, s)| d == self.cols || s % 64 == 0);
        let aligned = (bases[1].first.0 as usize).is_multiple_of(64) && rows_are_aligned;
        let (kernel, streams) = match self.streaming.filter(|_| aligned) {
            Some(f) => (f, true),
            None => (self.tile, false),
        };
        let (most_cols, most_rows) = if streams { STREAMED } else { (COLS, ROWS) };
        let (wide, high) = (cols.div_ceil(most_cols), rows.div_ceil(most_rows));
        self.machine.workers.run(outer * wide * high, &|t| {
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            // Neighbouring tasks go on down, where the input's lines go on.
            seek(&mut index, &self.dims, &self.outer, t / (wide * high));
            index[self.cols] = t / high % wide * most_cols;
            index[self.rows] = t % high * most_rows;
            let tile = TransposeTile {
                cols: most_cols.min(cols - index[self.cols]),
                rows: most_rows.min(rows - index[self.rows]),
                from_stride: from.strides[self.cols],
                to_stride: to.strides[self.rows],
            };
            let source = bases[0].first.offset(from.offset(&index));
            let target = bases[1].first.offset(to.offset(&index));
            // SAFETY: the dispatcher checked both bindings against the operation; tiles are disjoint.
            unsafe { kernel(source, target, &tile) };
            if streams {
                fence();
            }
        });
        Ok(())
    }
}

/// The kernel for elements of this size, and one that writes past the caches to lines that begin at multiples of 64.
pub(crate) fn kernels(isa: Isa, size: usize) -> (TileFn, Option<TileFn>) {
    #[cfg(target_arch = "x86_64")]
    if size == 4 && matches!(isa.or_portable(), Isa::Avx2 | Isa::Avx512) {
        return (x86::tile::<false>, Some(x86::streamed));
    }
    let _ = isa;
    let plain: TileFn = match size {
        1 => plain::<u8>,
        2 => plain::<u16>,
        4 => plain::<u32>,
        8 => plain::<u64>,
        _ => plain::<[u64; 2]>,
    };
    (plain, None)
}

/// Squares of 8x8 through registers as the compiler sees fit.
unsafe fn plain<T: Copy>(from: *const u8, to: *mut u8, tile: &TransposeTile) {
    const N: usize = 8;
    let size = size_of::<T>();
    // SAFETY: the caller promises that all elements of the tile exist on both sides.
    unsafe {
        for i in (0..tile.cols).step_by(N) {
            for j in (0..tile.rows).step_by(N) {
                let source = from.offset(i as isize * tile.from_stride).add(j * size);
                let target = to.offset(j as isize * tile.to_stride).add(i * size);
                if tile.cols - i >= N && tile.rows - j >= N {
                    let rows: [[T; N]; N] = std::array::from_fn(|r| {
                        source.offset(r as isize * tile.from_stride).cast::<[T; N]>().read_unaligned()
                    });
                    for c in 0..N {
                        let column: [T; N] = rows.map(|row| row[c]);
                        target.offset(c as isize * tile.to_stride).cast::<[T; N]>().write_unaligned(column);
                    }
                } else {
                    edge::<T>(source, target, tile, (tile.cols - i).min(N), (tile.rows - j).min(N));
                }
            }
        }
    }
}

/// A rest of a tile, element by element.
///
/// # Safety
/// All these elements exist on both sides.
unsafe fn edge<T: Copy>(from: *const u8, to: *mut u8, tile: &TransposeTile, cols: usize, rows: usize) {
    macro_rules! narrow {
        ($($n:literal)*) => {
            match (cols, rows) {
                // SAFETY: the caller's promise.
                $((_, $n) => return unsafe { narrow_rows::<T, $n>(from, to, tile, cols) },)*
                // SAFETY: as above.
                $(($n, _) => return unsafe { narrow_columns::<T, $n>(from, to, tile, rows) },)*
                _ => {}
            }
        };
    }
    narrow!(1 2 3 4 5 6 7);
    for i in 0..cols {
        for j in 0..rows {
            // SAFETY: the caller's promise.
            unsafe {
                let x = from.offset(i as isize * tile.from_stride).cast::<T>().add(j).read_unaligned();
                to.offset(j as isize * tile.to_stride).cast::<T>().add(i).write_unaligned(x);
            }
        }
    }
}

/// The same where the input's neighbours are so few: each of the outputs' lines has an address of its own.
///
/// # Safety
/// As for [`edge`].
unsafe fn narrow_rows<T: Copy, const N: usize>(from: *const u8, to: *mut u8, tile: &TransposeTile, cols: usize) {
    let mut lines = [to; N];
    for (j, line) in lines.iter_mut().enumerate() {
        *line = to.wrapping_offset(j as isize * tile.to_stride);
    }
    for i in 0..cols {
        let source = from.wrapping_offset(i as isize * tile.from_stride).cast::<T>();
        for (j, line) in lines.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { line.cast::<T>().add(i).write_unaligned(source.add(j).read_unaligned()) };
        }
    }
}

/// The same where the output's neighbours are so few.
///
/// # Safety
/// As for [`edge`].
unsafe fn narrow_columns<T: Copy, const N: usize>(from: *const u8, to: *mut u8, tile: &TransposeTile, rows: usize) {
    let mut lines = [from; N];
    for (i, line) in lines.iter_mut().enumerate() {
        *line = from.wrapping_offset(i as isize * tile.from_stride);
    }
    for j in 0..rows {
        let target = to.wrapping_offset(j as isize * tile.to_stride).cast::<T>();
        for (i, line) in lines.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { target.add(i).write_unaligned(line.cast::<T>().add(j).read_unaligned()) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    use super::{TransposeTile, edge};

    /// Squares of 8x8 elements of 4 bytes, two together so that whole lines are written.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn tile<const STREAM: bool>(from: *const u8, to: *mut u8, tile: &TransposeTile) {
        let pair = tile.cols / 16 * 16;
        // SAFETY: the caller promises that all elements of the tile exist on both sides; streaming ones are aligned.
        unsafe {
            for i in (0..pair).step_by(16) {
                for j in (0..tile.rows / 8 * 8).step_by(8) {
                    for half in [i, i + 8] {
                        let source = from.offset(half as isize * tile.from_stride).add(j * 4);
                        if j % 16 == 0 {
                            // The same lines of the next rows: too many streams for the processor to guess.
                            for row in 16..24 {
                                let next = source.wrapping_offset(row * tile.from_stride);
                                crate::prefetch::prefetch::<false>(next);
                            }
                        }
                        let target = to.offset(j as isize * tile.to_stride).add(half * 4);
                        square::<STREAM>(source, tile.from_stride, target, tile.to_stride);
                    }
                }
            }
            if !STREAM && tile.cols >= 8 && tile.rows >= 8 {
                rest(from, to, tile, pair);
                return;
            }
            let rows = tile.rows / 8 * 8;
            let source = from.add(rows * 4);
            edge::<u32>(source, to.offset(rows as isize * tile.to_stride), tile, pair, tile.rows - rows);
            let source = from.offset(pair as isize * tile.from_stride);
            edge::<u32>(source, to.add(pair * 4), tile, tile.cols - pair, tile.rows);
        }
    }

    /// What whole squares leave of a tile of at least one: squares that overlap those before.
    ///
    /// # Safety
    /// As for [`tile`]; the first `pair` columns are done but for rows behind the last whole square.
    #[target_feature(enable = "avx2")]
    unsafe fn rest(from: *const u8, to: *mut u8, tile: &TransposeTile, pair: usize) {
        let one = |i: usize, j: usize| {
            let source = from.wrapping_offset(i as isize * tile.from_stride).wrapping_add(j * 4);
            let target = to.wrapping_offset(j as isize * tile.to_stride).wrapping_add(i * 4);
            // SAFETY: the caller's promise; the square is inside the tile.
            unsafe { square::<false>(source, tile.from_stride, target, tile.to_stride) };
        };
        let last = [tile.cols - 8, tile.rows - 8];
        if !tile.rows.is_multiple_of(8) {
            (0..pair).step_by(8).for_each(|i| one(i, last[1]));
        }
        for i in (pair..tile.cols).step_by(8) {
            for j in (0..tile.rows).step_by(8) {
                one(i.min(last[0]), j.min(last[1]));
            }
        }
    }

    /// Rows and columns of a block that is transposed in L1.
    const SIDE: usize = 64;

    #[repr(align(64))]
    struct Block(MaybeUninit<[f32; SIDE * SIDE]>);

    /// Blocks are transposed into a buffer and written from there in runs of four lines; meanwhile the next block's lines are
    /// prefetched, which no prefetcher would guess.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn streamed(from: *const u8, to: *mut u8, whole: &TransposeTile) {
        const LINES: usize = SIDE * 4 / 64;
        let mut block = Block(MaybeUninit::uninit());
        let buffer = block.0.as_mut_ptr().cast::<u8>();
        let pitch = (SIDE * 4) as isize;
        let (cols, rows) = (whole.cols / SIDE * SIDE, whole.rows / SIDE * SIDE);
        // SAFETY: the caller promises that all elements of the tile exist on both sides and that lines of the output are
        // aligned; what is prefetched beyond the tile is never read.
        unsafe {
            for i in (0..cols).step_by(SIDE) {
                for j in (0..rows).step_by(SIDE) {
                    let source = from.offset(i as isize * whole.from_stride).add(j * 4);
                    for r in (0..SIDE).step_by(8) {
                        for c in (0..SIDE).step_by(8) {
                            let source = source.offset(r as isize * whole.from_stride).add(c * 4);
                            let target = buffer.offset(c as isize * pitch).add(r * 4);
                            square::<false>(source, whole.from_stride, target, pitch);
                        }
                    }
                    for c in 0..SIDE {
                        let next = source.wrapping_offset(c as isize * whole.from_stride).wrapping_add(SIDE * 4);
                        for line in 0..LINES {
                            crate::prefetch::prefetch::<false>(next.wrapping_add(line * 64).cast());
                        }
                        let transposed = buffer.offset(c as isize * pitch).cast::<f32>();
                        let target = to.offset((j + c) as isize * whole.to_stride).add(i * 4).cast::<f32>();
                        for q in (0..SIDE).step_by(8) {
                            _mm256_stream_ps(target.add(q), _mm256_load_ps(transposed.add(q)));
                        }
                    }
                }
            }
            let right = TransposeTile { cols, rows: whole.rows - rows, ..*whole };
            tile::<true>(from.add(rows * 4), to.offset(rows as isize * whole.to_stride), &right);
            let below = TransposeTile { cols: whole.cols - cols, ..*whole };
            tile::<true>(from.offset(cols as isize * whole.from_stride), to.add(cols * 4), &below);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn square<const STREAM: bool>(from: *const u8, step: isize, to: *mut u8, rows: isize) {
        // SAFETY: the caller promises eight rows of eight elements on both sides.
        unsafe {
            let row = |i: isize| _mm256_loadu_ps(from.offset(i * step).cast());
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (e, f, g, h) = (row(4), row(5), row(6), row(7));
            let (ab, ab2) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd, cd2) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let (ef, ef2) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
            let (gh, gh2) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
            let (q0, q1) = (_mm256_shuffle_ps::<0x44>(ab, cd), _mm256_shuffle_ps::<0xee>(ab, cd));
            let (q2, q3) = (_mm256_shuffle_ps::<0x44>(ab2, cd2), _mm256_shuffle_ps::<0xee>(ab2, cd2));
            let (r0, r1) = (_mm256_shuffle_ps::<0x44>(ef, gh), _mm256_shuffle_ps::<0xee>(ef, gh));
            let (r2, r3) = (_mm256_shuffle_ps::<0x44>(ef2, gh2), _mm256_shuffle_ps::<0xee>(ef2, gh2));
            let low = |x, y| _mm256_permute2f128_ps::<0x20>(x, y);
            let high = |x, y| _mm256_permute2f128_ps::<0x31>(x, y);
            let columns = [
                low(q0, r0),
                low(q1, r1),
                low(q2, r2),
                low(q3, r3),
                high(q0, r0),
                high(q1, r1),
                high(q2, r2),
                high(q3, r3),
            ];
            for (i, column) in columns.into_iter().enumerate() {
                let at = to.offset(i as isize * rows).cast::<f32>();
                if STREAM { _mm256_stream_ps(at, column) } else { _mm256_storeu_ps(at, column) }
            }
        }
    }
}
