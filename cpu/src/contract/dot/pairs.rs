//! Operands of narrow numbers, packed two at a time.
//!
//! Where a processor multiplies pairs of 16-bit numbers and adds both products to a 32-bit sum, the panels of a matmul
//! hold pairs of neighbours along K, each pair stored as one element, and the matmul's K counts pairs. An odd
//! K ends with half a pair of zeros. All else of a matmul stays as it is.

use std::sync::atomic::{AtomicBool, Ordering};

use half::bf16;

use crate::contract::packed::pack::{BlockStrides, pack_strided};
use crate::contract::packed::{Element, MicroKernel, PackBlock, PackSource, Side, Strided, TILE};
use crate::workers::Workers;

/// A number that is multiplied as 16 bits.
pub trait Half: Copy + Send + Sync + 'static {
    /// Its bits; integers are extended with their sign.
    fn bits(self) -> u16;
}

impl Half for bf16 {
    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }
}

macro_rules! half {
    ($($t:ty)*) => {$(impl Half for $t {
        #[inline(always)]
        fn bits(self) -> u16 {
            i16::from(self) as u16
        }
    })*};
}
half!(i8 u8 i16);

/// A sum's type, whose bits can hold a pair.
pub trait Paired: Element {
    /// The pair, the earlier of the two in the lower bits.
    fn pair(low: u16, high: u16) -> Self;
}

impl Paired for f32 {
    #[inline(always)]
    fn pair(low: u16, high: u16) -> f32 {
        f32::from_bits(u32::from(high) << 16 | u32::from(low))
    }
}

impl Paired for i32 {
    #[inline(always)]
    fn pair(low: u16, high: u16) -> i32 {
        (u32::from(high) << 16 | u32::from(low)) as i32
    }
}

/// A matrix in memory with any strides, packed in pairs for an instruction set that multiplies them.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a, S> {
    matrix: Strided<'a, S>,
    /// Single numbers along K.
    k: usize,
    /// Packed as AMX wants its left operand.
    tiled: bool,
}

impl<'a, S: Half> Pairs<'a, S> {
    /// This matrix with so many indices of K. For B, rows are its columns.
    pub fn new((isa, side): (MicroKernel, Side), matrix: Strided<'a, S>, k: usize) -> Pairs<'a, S> {
        Pairs { matrix, k, tiled: isa.tiled() && side == Side::A }
    }

    /// The bits of an element; zero past the end of K.
    ///
    /// # Safety
    /// The row exists.
    #[inline(always)]
    unsafe fn bits(&self, batch: usize, row: usize, k: usize) -> u16 {
        // SAFETY: the maker vouched for every element, and the caller for the row.
        if k < self.k { unsafe { *self.matrix.at(batch, row, k) }.bits() } else { 0 }
    }

    /// Pairs from K index `2 * from` on of one row, where K is contiguous.
    ///
    /// # Safety
    /// The row exists.
    unsafe fn along<T: Paired>(&self, batch: usize, row: usize, from: usize, out: &mut [T]) {
        let whole = out.len().min((self.k / 2).saturating_sub(from));
        // SAFETY: K is contiguous, and 2 * (from + whole) indices of it exist.
        let numbers = unsafe { std::slice::from_raw_parts(self.matrix.at(batch, row, 2 * from), 2 * whole) };
        for (o, pair) in out.iter_mut().zip(numbers.as_chunks::<2>().0) {
            *o = T::pair(pair[0].bits(), pair[1].bits());
        }
        for (i, o) in out.iter_mut().enumerate().skip(whole) {
            let k = 2 * (from + i);
            // SAFETY: the caller's.
            *o = unsafe { T::pair(self.bits(batch, row, k), self.bits(batch, row, k + 1)) };
        }
    }

    /// For every 16 pairs of K, a panel's rows of 16 pairs.
    fn pack_tiles<T: Paired>(&self, block: &PackBlock, dst: &mut [T]) {
        let PackBlock { batch, row, rows, k, k_len, panel } = *block;
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            for r in 0..panel {
                let here = p * panel + r;
                for g in 0..k_len / TILE {
                    let out = &mut out[(g * panel + r) * TILE..][..TILE];
                    if here >= rows {
                        out.fill(T::ZERO);
                    } else if self.matrix.k == 1 {
                        // SAFETY: the row is in the block.
                        unsafe { self.along(batch, row + here, k + g * TILE, out) };
                    } else {
                        for (i, o) in out.iter_mut().enumerate() {
                            let k = 2 * (k + g * TILE + i);
                            // SAFETY: the row is in the block.
                            *o = unsafe {
                                T::pair(self.bits(batch, row + here, k), self.bits(batch, row + here, k + 1))
                            };
                        }
                    }
                }
            }
        }
    }

    /// K is contiguous: pairs are collected row by row, then dealt to the panels.
    fn pack_contiguous_k<T: Paired>(&self, block: &PackBlock, dst: &mut [T]) {
        const ROWS: usize = 32;
        const K_PART: usize = 64;
        let PackBlock { batch, row, rows, k, k_len, panel } = *block;
        let mut buffer = [T::ZERO; ROWS * K_PART];
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            let have = panel.min(rows - p * panel);
            for first in (0..k_len).step_by(K_PART) {
                let part = K_PART.min(k_len - first);
                for (r, to) in buffer.chunks_exact_mut(K_PART).enumerate().take(have) {
                    // SAFETY: the row is in the block.
                    unsafe { self.along(batch, row + p * panel + r, k + first, &mut to[..part]) };
                }
                let strides = BlockStrides { row: K_PART as isize, k: 1 };
                let out = &mut out[first * panel..][..part * panel];
                // SAFETY: the buffer holds `have` rows of `part` pairs.
                unsafe { pack_strided(buffer.as_ptr(), strides, have, part, panel, out) };
            }
        }
    }

    /// Rows are adjacent: two lines of memory are dealt out like cards.
    fn pack_rows<T: Paired>(&self, block: &PackBlock, dst: &mut [T]) {
        /// Panels written together: enough to use whole pages of the source.
        const SIDE_BY_SIDE: usize = 8;
        let PackBlock { batch, row, rows, k, k_len, panel } = *block;
        let panels = rows.div_ceil(panel);
        for first in (0..panels).step_by(SIDE_BY_SIDE) {
            for q in 0..k_len {
                let line = |k: usize| {
                    // SAFETY: rows are adjacent, and those of the block exist at this K index.
                    (k < self.k).then(|| unsafe { std::slice::from_raw_parts(self.matrix.at(batch, row, k), rows) })
                };
                let (low, high) = (line(2 * (k + q)), line(2 * (k + q) + 1));
                for p in first..(first + SIDE_BY_SIDE).min(panels) {
                    let (from, to) = (p * panel, rows.min((p + 1) * panel));
                    let out = &mut dst[(p * k_len + q) * panel..][..panel];
                    match (low, high) {
                        (Some(low), Some(high)) => interleave(&low[from..to], &high[from..to], out),
                        (Some(low), None) => {
                            for (o, x) in out.iter_mut().zip(&low[from..to]) {
                                *o = T::pair(x.bits(), 0);
                            }
                        }
                        _ => out.fill(T::ZERO),
                    }
                    if to - from < panel {
                        out[to - from..].fill(T::ZERO);
                    }
                }
            }
        }
    }
}

/// `out[i]` is the pair of `low[i]` and `high[i]`.
#[inline(always)]
fn interleave<S: Half, T: Paired>(low: &[S], high: &[S], out: &mut [T]) {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))] // Vectors are used there only.
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if size_of::<S>() == 2 && size_of::<T>() == 4 {
        use core::arch::x86_64::*;
        let most = low.len().min(high.len()).min(out.len()) / 8 * 8;
        while done < most {
            // SAFETY: eight elements of 16 bits from `done` on are in each slice, and eight of 32 bits in `out`; their bits
            // are what a pair is made of. SSE2 is part of x86-64.
            unsafe {
                let x = _mm_loadu_si128(low.as_ptr().add(done).cast());
                let y = _mm_loadu_si128(high.as_ptr().add(done).cast());
                let to = out.as_mut_ptr().add(done).cast::<__m128i>();
                _mm_storeu_si128(to, _mm_unpacklo_epi16(x, y));
                _mm_storeu_si128(to.add(1), _mm_unpackhi_epi16(x, y));
            }
            done += 8;
        }
    }
    for ((o, x), y) in out.iter_mut().zip(low).zip(high).skip(done) {
        *o = T::pair(x.bits(), y.bits());
    }
}

impl<S: Half, T: Paired> PackSource<T> for Pairs<'_, S> {
    fn pack(&self, block: &PackBlock, dst: &mut [T]) {
        let PackBlock { batch, row, rows, k, k_len, panel } = *block;
        if dst.len() < block.len() || block.is_empty() {
            return;
        }
        let dst = &mut dst[..block.len()];
        if self.tiled {
            self.pack_tiles(block, dst);
        } else if self.matrix.k == 1 && panel <= 32 {
            self.pack_contiguous_k(block, dst);
        } else if self.matrix.row == 1 {
            self.pack_rows(block, dst);
        } else {
            for (p, out) in dst.chunks_exact_mut(panel * k_len).enumerate() {
                for (q, out) in out.chunks_exact_mut(panel).enumerate() {
                    for (r, o) in out.iter_mut().enumerate() {
                        let (here, k) = (p * panel + r, 2 * (k + q));
                        *o = if here >= rows {
                            T::ZERO
                        } else {
                            // SAFETY: the row is in the block.
                            unsafe { T::pair(self.bits(batch, row + here, k), self.bits(batch, row + here, k + 1)) }
                        };
                    }
                }
            }
        }
    }

    fn covers(&self, batch: usize, _: usize, k_len: usize) -> bool {
        self.matrix.batch.covers(batch) && k_len >= self.k.div_ceil(2)
    }

    fn same_for_batch(&self) -> bool {
        self.matrix.batch.same()
    }
}

/// The least magnitude, but for zero, that products of pairs of bf16 are left to: 2^-56. The product of two such numbers is
/// a multiple of 2^-126, the least normal f32, and so is every sum of them: no subnormal number can occur.
const LEAST: u16 = (127 - 56) << 7;

impl Pairs<'_, bf16> {
    /// Whether every element is zero or at least 2^-56 in magnitude (or not a number). Then instructions that take
    /// subnormal numbers for zeros give what others give, within the bound of a matmul. Reads all of it once.
    pub fn ordinary(&self, batch: usize, rows: usize, workers: &Workers) -> bool {
        let batches = if self.matrix.batch.same() { 1 } else { batch };
        // Lines of adjacent elements, where there are any.
        let (lines, len, line_stride, step) = if self.matrix.row.unsigned_abs() < self.matrix.k.unsigned_abs() {
            (self.k, rows, self.matrix.k, self.matrix.row)
        } else {
            (rows, self.k, self.matrix.row, self.matrix.k)
        };
        let each = ((1 << 18) / len.max(1)).clamp(1, lines.max(1));
        let tasks = lines.div_ceil(each);
        let found = AtomicBool::new(false);
        workers.run(batches * tasks, &|task| {
            let (b, first) = (task / tasks, task % tasks * each);
            if found.load(Ordering::Relaxed) {
                return;
            }
            for line in first..(first + each).min(lines) {
                let base = self.matrix.base.wrapping_offset(self.matrix.batch.offset(b) + line as isize * line_stride);
                let tiny = if step == 1 {
                    // SAFETY: the maker vouched for every element; those of a line are adjacent.
                    let line = unsafe { std::slice::from_raw_parts(base, len) };
                    line.iter().fold(0u16, |any, x| any | u16::from(is_tiny(x.to_bits()))) != 0
                } else {
                    // SAFETY: the maker vouched for every element.
                    (0..len).any(|i| is_tiny(unsafe { *base.wrapping_offset(i as isize * step) }.to_bits()))
                };
                if tiny {
                    found.store(true, Ordering::Relaxed);
                    return;
                }
            }
        });
        !found.into_inner()
    }
}

/// Whether these bits are of a number that is not zero but below [`LEAST`].
#[inline(always)]
fn is_tiny(bits: u16) -> bool {
    (bits & 0x7fff).wrapping_sub(1) < LEAST - 1
}
