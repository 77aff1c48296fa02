//! Micro-kernels: the innermost matmul of a few rows of A with a few columns of B, held in registers.
//!
//! A micro-kernel computes `C[rows, vectors * lanes] (+)= A[rows, k] * B[k, vectors * lanes]`; of the last vector it writes the lanes that there are. The
//! driver picks one by how many rows and vectors a tile has, so that no register is spent on rows that do not exist.

mod portable;
#[macro_use]
mod simd;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use super::blocking::even;
use super::{Element, MicroKernel};

/// What a micro-kernel reads and writes.
///
/// The kernel's safety contract: `a` is readable at `i * a_row + p * a_k` for rows `i` and `p < k`; `b` at
/// `p * b_k + j` for every column `j` of its vectors (for [`Reading::Masked`], of the last vector only the first
/// `tail` lanes); `c` is writable, and readable if `add`, at `i * c_row + j` for every column of its vectors but the lanes beyond the tail. Nobody else
/// accesses these elements of `c` meanwhile. The instruction set of the table must be present.
pub(in crate::contract) struct MicroTile<T> {
    pub k: usize,
    pub a: *const T,
    pub a_row: isize,
    pub a_k: isize,
    pub b: *const T,
    pub b_k: isize,
    pub c: *mut T,
    pub c_row: isize,
    /// C of the tile after this one, with the same row stride, whose lines kernels prefetch; it need not be readable.
    pub then: *const T,
    /// Add to C rather than replace it.
    pub add: bool,
    /// Rows of this tile; kernels made for one number of rows ignore it.
    pub rows: usize,
    /// Lanes of the last vector that C has, and B for [`Reading::Masked`].
    pub tail: usize,
    /// Lines that kernels prefetch, from this address on, which need not be readable: a part of what is read next. Kernels for unpacked
    /// operands prefetch one with each K index, as far as that goes.
    pub next: *const u8,
    pub lines: usize,
}

/// A few lines of a matrix that a vector is multiplied with, each of adjacent elements.
///
/// The safety contract: `first` is readable at `i * line + j` for the kernel's lines `i` and `j < n`. The instruction set of
/// the table must be present.
pub(in crate::contract) struct Lines<T> {
    /// Elements of a line.
    pub n: usize,
    /// Element 0 of line 0.
    pub first: *const T,
    /// Elements from one line to the next.
    pub line: isize,
    /// Bytes from each element to one that is needed later, which kernels of eight lines prefetch; it need not be readable.
    pub ahead: isize,
}

/// How many lines the kernels for vectors take at once. Eight streams keep more of the memory busy, if those kernels also
/// prefetch what comes later, as those of x86-64 do; lines in a cache arrive fastest four at a time without that.
pub(in crate::contract) const TOGETHER: [usize; 3] = [8, 4, 1];

/// Dot products of lines with the vector `x`, which is readable for `n` elements: writes one sum for each line.
pub(in crate::contract) type DotsKernel<T> = unsafe fn(&Lines<T>, x: *const T, acc: *mut T);

/// Adds to `n` accumulators the lines, each scaled by its element of `x`.
pub(in crate::contract) type ScaledKernel<T> = unsafe fn(&Lines<T>, x: *const T, acc: *mut T);

/// Kernels for matmuls with a vector, each for the numbers of lines in [`TOGETHER`].
pub(in crate::contract) struct VectorKernels<T> {
    pub dots: [DotsKernel<T>; 3],
    pub scaled: [ScaledKernel<T>; 3],
}

pub(in crate::contract) type MicroKernelFn<T> = unsafe fn(&MicroTile<T>);

/// How a kernel reads its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::contract) enum Reading {
    /// Both from packed micro-panels: A rows adjacent with `mr` between K indices, B columns adjacent with `nr` between K indices.
    Packed = 0,
    /// Through the strides in [`MicroTile`].
    Strided = 1,
    /// The same, reading only `tail` lanes of B's last vector.
    Masked = 2,
}

/// Registers that a thread sets up for its micro-tiles. Both may be called wherever the instruction set is present.
#[derive(Clone, Copy)]
pub(in crate::contract) struct State {
    pub enter: unsafe fn(),
    pub leave: unsafe fn(),
}

/// The same address, of which the compiler does not know how it was made.
#[allow(clippy::pointers_in_nomem_asm_block)] // Nothing is read or written through it here.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(in crate::contract::packed) fn opaque<T>(mut p: *const T) -> *const T {
    // SAFETY: no instruction.
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) p, options(pure, nomem, nostack, preserves_flags));
    }
    p
}

/// The micro-kernels of one instruction set for one element type.
pub(in crate::contract) struct Kernels<T: 'static> {
    /// Most rows of a tile; the height of A's panels.
    pub mr: usize,
    /// Elements of a vector.
    pub lanes: usize,
    /// Most vectors of a tile; B's panels are `vectors * lanes` wide.
    pub vectors: usize,
    /// Whether kernels exist that read unpacked operands.
    pub strided: bool,
    /// What blocks of K are a multiple of, but for the last.
    pub unit: usize,
    /// The first K index of a block is not multiplied but what accumulators begin with: a number for each row of A, added to one for each
    /// column of B. Blocks are then exactly `unit` deep, but for the last.
    pub heads: bool,
    /// What a thread does before its first micro-tile and after its last one.
    pub state: Option<State>,
    /// Matmuls with a vector.
    pub vector: Option<VectorKernels<T>>,
    /// By reading, then vectors - 1, then rows - 1; an empty row list means that one kernel serves all rows.
    pub table: &'static [&'static [&'static [MicroKernelFn<T>]]],
}

/// Independent accumulators that keep a core busy: two at a time, each of which takes four to five cycles.
pub(in crate::contract) const BUSY: usize = 10;
/// Bytes of a row of B's panels from which they are wide.
const WIDE: usize = 128;

impl<T> Kernels<T> {
    /// Rows and columns that kernels for edges come in. A single vector of few rows waits for its own accumulators.
    pub fn edges(&self) -> (usize, usize) {
        let kinds = self.table.first().and_then(|vectors| vectors.first()).map_or(1, |rows| rows.len());
        (if kinds < self.mr { self.mr } else { 1 }, if self.mr >= BUSY { self.lanes } else { self.nr() })
    }

    pub fn nr(&self) -> usize {
        self.lanes * self.vectors
    }

    /// Whether a row of B's panels is multiplied with so many rows of A that the next one comes from L2 meanwhile.
    pub fn wide(&self) -> bool {
        self.nr() * size_of::<T>() >= WIDE && self.mr >= BUSY
    }

    /// The K of blocks of a matmul that is `k` deep, where `most` is advised.
    pub fn kc(&self, k: usize, most: usize) -> usize {
        match self.heads {
            true => self.unit,
            // A single block may be longer by what it is rounded up.
            false => even(k, if k <= most { most.next_multiple_of(self.unit) } else { most }, self.unit),
        }
    }

    /// The kernel for a tile of `rows` (1 to `mr`) and `vectors` (1 to `self.vectors`).
    pub fn get(&self, reading: Reading, rows: usize, vectors: usize) -> MicroKernelFn<T> {
        let by_rows = self.table[reading as usize][vectors - 1];
        by_rows[(rows - 1).min(by_rows.len() - 1)]
    }
}

/// The table for an instruction set; falls back to the portable one where an instruction set has no kernels for a type.
pub(in crate::contract) fn kernels<T: Element>(isa: MicroKernel) -> &'static Kernels<T> {
    T::kernels(isa)
}

#[cfg(target_arch = "aarch64")]
pub(super) use neon::{F32 as NEON_F32, F64 as NEON_F64, I32 as NEON_I32, I32_DOT4 as NEON_I32_DOT4};
pub(super) use portable::PortableKernels;
#[cfg(target_arch = "x86_64")]
pub(super) use {
    avx2::{F32 as AVX2_F32, F64 as AVX2_F64, I32 as AVX2_I32, I32_DOT4 as AVX2_I32_DOT4, I32_PAIRS as AVX2_I32_PAIRS},
    avx512::{
        BF16_PAIRS as AVX512_BF16_PAIRS, F32 as AVX512_F32, F64 as AVX512_F64, I32 as AVX512_I32,
        I32_DOT4 as AVX512_I32_DOT4, I32_PAIRS as AVX512_I32_PAIRS, I32_PAIRS_VNNI as AVX512_I32_PAIRS_VNNI,
        I64 as AVX512_I64,
    },
};
