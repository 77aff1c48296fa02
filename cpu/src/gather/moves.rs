//! Runs from their positions in a table to the result.
//!
//! A run of 1, 2, 4, 8 or 16 bytes is one number. A longer one is moved by vectors, the last of which may overlap the one before;
//! runs to come are prefetched where the table is larger than the nearer caches. Runs that begin and end with cache lines, and very long
//! ones, are written past the caches where no cache holds the result.

use super::NOWHERE;
use crate::epilogue_chain::fetch;
use crate::simd::{Float, Simd};

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;
const LINE_STEP: isize = (LINE / size_of::<f32>()) as isize;
/// Bytes that are prefetched of those that are moved.
const AHEAD: usize = 8 << 10;
/// Runs of so many bytes are written past the caches wherever they begin, and moved by the system's own copy otherwise.
const LONG: usize = 2 << 10;

/// Lines of a table that are wanted soon. They are prefetched little by little, so that what is read meanwhile is not kept waiting.
#[derive(Clone, Copy)]
pub(super) struct Soon {
    from: *const u8,
    lines: usize,
    each: usize,
}

impl Soon {
    /// Indices of a share.
    pub(super) const SHARE: usize = 16;

    /// So many lines, during the lookups of `count` indices.
    #[inline(always)]
    pub(super) fn new(from: *const u8, lines: usize, count: usize) -> Soon {
        let each = if lines == 0 { 0 } else { lines.div_ceil((count / Self::SHARE).max(1)) };
        Soon { from, lines, each }
    }

    /// Prefetches the shares of so many indices.
    #[inline(always)]
    pub(super) fn prefetch(&mut self, indices: usize) {
        let some = (indices / Self::SHARE * self.each).min(self.lines);
        fetch::<false>(self.from.cast(), LINE_STEP, some);
        self.from = self.from.wrapping_add(some * LINE);
        self.lines -= some;
    }
}

/// How runs are moved.
pub(super) struct Moves {
    /// Bytes of an element.
    pub size: usize,
    /// What a run that does not exist is filled with, element by element.
    pub fill: [u8; 16],
    /// Whether the table is larger than the nearer caches.
    pub far: bool,
    /// Whether most of it lies in memory.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Gathers prefetch by it.
    pub very_far: bool,
    /// Whether no cache holds the result.
    pub streams: bool,
}

impl Moves {
    /// Moves `bytes` bytes from each position, or fills what does not exist; `inside` says that all do.
    ///
    /// # Safety
    /// There are so many bytes at each position of the table and, `step` bytes from one to the next, at `to`; neither overlap.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // Where from, where to, how much.
    pub(super) unsafe fn run<S: Simd>(
        &self,
        s: S,
        table: *const u8,
        positions: &[isize],
        inside: bool,
        to: *mut u8,
        step: isize,
        bytes: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match bytes {
                1 => self.numbers::<u8>(table, positions, inside, to, step),
                2 => self.numbers::<u16>(table, positions, inside, to, step),
                4 => self.numbers::<u32>(table, positions, inside, to, step),
                8 => self.numbers::<u64>(table, positions, inside, to, step),
                16 => self.numbers::<[u64; 2]>(table, positions, inside, to, step),
                _ => self.rows(s, table, positions, to, step, bytes),
            }
        }
    }

    #[inline(always)]
    unsafe fn numbers<T: Copy>(&self, table: *const u8, positions: &[isize], inside: bool, to: *mut u8, step: isize) {
        // SAFETY: the caller's promise; a run of elements that fills a number is made of whole ones.
        unsafe {
            if inside && step == size_of::<T>() as isize {
                for (i, &p) in positions.iter().enumerate() {
                    to.cast::<T>().add(i).write_unaligned(table.wrapping_offset(p).cast::<T>().read_unaligned());
                }
                return;
            }
            let fill = self.filled::<T>();
            for (i, &p) in positions.iter().enumerate() {
                let x = if p == NOWHERE { fill } else { table.wrapping_offset(p).cast::<T>().read_unaligned() };
                to.offset(i as isize * step).cast::<T>().write_unaligned(x);
            }
        }
    }

    /// A number whose elements are all the fill value.
    #[inline(always)]
    pub(super) fn filled<T: Copy>(&self) -> T {
        let mut all = [0u8; 16];
        for (i, b) in all.iter_mut().enumerate() {
            *b = self.fill[i % self.size];
        }
        // SAFETY: numbers of at most 16 bytes, of which every pattern is one.
        unsafe { all.as_ptr().cast::<T>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn rows<S: Simd>(
        &self,
        s: S,
        table: *const u8,
        positions: &[isize],
        to: *mut u8,
        step: isize,
        bytes: usize,
    ) {
        let ahead = (AHEAD / bytes).max(1);
        let first_lines = bytes.min(AHEAD).div_ceil(LINE);
        let lines = (to as usize).is_multiple_of(LINE) && step % LINE as isize == 0 && bytes.is_multiple_of(LINE);
        let streams = self.streams && (lines || bytes >= LONG);
        if self.far {
            for &p in &positions[..ahead.min(positions.len())] {
                prefetch_run(table, p, first_lines);
            }
        }
        for (i, &p) in positions.iter().enumerate() {
            if let (true, Some(&p)) = (self.far, positions.get(i + ahead)) {
                prefetch_run(table, p, first_lines);
            }
            let to = to.wrapping_offset(i as isize * step);
            // SAFETY: the caller's promise.
            unsafe {
                match table.wrapping_offset(p) {
                    _ if p == NOWHERE => fill(to, &self.fill, self.size, bytes),
                    from if streams => stream(s, from, to, bytes),
                    from if bytes >= LONG => std::ptr::copy_nonoverlapping(from, to, bytes),
                    from => copy::<S>(from, to, bytes),
                }
            }
        }
    }
}

/// Prefetches the first lines of a run: in L2, which has more lines under way than L1.
#[inline(always)]
fn prefetch_run(table: *const u8, position: isize, lines: usize) {
    if position != NOWHERE {
        fetch::<false>(table.wrapping_offset(position).cast(), LINE_STEP, lines);
    }
}

/// An element again and again.
#[cold]
unsafe fn fill(to: *mut u8, value: &[u8; 16], size: usize, bytes: usize) {
    for i in (0..bytes).step_by(size) {
        // SAFETY: the caller promises `bytes` bytes, whole elements.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to.add(i), size) };
    }
}

/// Copies past the caches, but for what lies before the first whole line and after the last.
#[inline(always)]
unsafe fn stream<S: Simd>(_: S, from: *const u8, to: *mut u8, bytes: usize) {
    let vector = S::F32::LANES * size_of::<f32>();
    let mut at = ((to as usize).wrapping_neg() % LINE).min(bytes);
    // SAFETY: the caller promises `bytes` bytes on both sides; `at` stays within them, and a vector's size divides that of a line,
    // from whose beginning on vectors are streamed.
    unsafe {
        if at > 0 {
            std::ptr::copy_nonoverlapping(from, to, at);
        }
        let whole = bytes - (bytes - at) % LINE;
        while at < whole {
            for part in 0..LINE / vector {
                let here = at + part * vector;
                S::F32::load(from.add(here).cast()).stream(to.add(here).cast());
            }
            at += LINE;
        }
        if at < bytes {
            std::ptr::copy_nonoverlapping(from.add(at), to.add(at), bytes - at);
        }
    }
}

/// Copies by vectors, or by the largest numbers that fit.
#[inline(always)]
unsafe fn copy<S: Simd>(from: *const u8, to: *mut u8, bytes: usize) {
    let vector = S::F32::LANES * size_of::<f32>();
    // SAFETY: the caller promises `bytes` bytes on both sides, which do not overlap.
    unsafe {
        if bytes < vector {
            match bytes {
                16.. => numbers::<[u64; 2]>(from, to, bytes),
                8.. => numbers::<u64>(from, to, bytes),
                4.. => numbers::<u32>(from, to, bytes),
                2.. => numbers::<u16>(from, to, bytes),
                _ => numbers::<u8>(from, to, bytes),
            }
            return;
        }
        let last = bytes - vector;
        let mut at = 0;
        while at < last {
            S::F32::load(from.add(at).cast()).store(to.add(at).cast());
            at += vector;
        }
        S::F32::load(from.add(last).cast()).store(to.add(last).cast());
    }
}

/// Copies by numbers, of which at least one fits; the last may overlap the one before.
#[inline(always)]
unsafe fn numbers<T: Copy>(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = 0;
    // SAFETY: the caller's promise; no number ends behind the last byte.
    unsafe {
        while at < bytes {
            let here = at.min(bytes - size_of::<T>());
            to.add(here).cast::<T>().write_unaligned(from.add(here).cast::<T>().read_unaligned());
            at += size_of::<T>();
        }
    }
}
