//! AMX: tiles of 16 rows of 64 bytes. Four of the eight registers hold a 32 x 32 block of accumulators, two hold A, two hold B.
//!
//! A's panels are not as those of other kernels: for each 16 groups of K (pairs of bf16, groups of four bytes) there are 32 rows of 16
//! groups, so that a tile is one kilobyte in a piece. B's panels are as ever: for each group of K 32 columns.
//!
//! The instructions for bf16 take subnormal numbers for zeros and make zeros of subnormal accumulators; whoever uses them knows that there
//! are none. Each sum is of products that are exact in f32, rounded to nearest at every step. Those for bytes, with a sign or without on either side, are
//! exact in 32 bits that wrap.

use std::arch::asm;
use std::sync::OnceLock;

use super::{Kernels, MicroKernelFn, MicroTile, State};
use crate::contract::packed::Element;

/// Rows of a register, and groups in a row.
pub(in crate::contract::packed) const SIDE: usize = 16;
/// Rows of a panel of A.
pub(in crate::contract::packed) const ROWS: usize = 2 * SIDE;

/// The kernels for pairs of bf16.
pub(in crate::contract::packed) static BF16_PAIRS: Kernels<f32> = table::<Bf16>();
/// The kernels for groups of four bytes, those of A and of B without a sign (0) or with one (1).
pub(in crate::contract::packed) static I32_DOT4: [[Kernels<i32>; 2]; 2] =
    [[table::<U8U8>(), table::<U8I8>()], [table::<I8U8>(), table::<I8I8>()]];

const fn table<P: TileMultiply>() -> Kernels<P::Acc> {
    Kernels {
        mr: ROWS,
        lanes: SIDE,
        vectors: 2,
        strided: false,
        unit: SIDE,
        heads: false,
        state: Some(State { enter, leave }),
        vector: None,
        table: const { &[&[&[kernel::<P, 1> as MicroKernelFn<P::Acc>], &[kernel::<P, 2>]]] },
    }
}

/// Whether the processor has AMX for bf16 with tiles as large as these kernels use, and the system lets this process
/// use it.
pub(in crate::contract::packed) fn has_bf16() -> bool {
    available() & 1 << 22 != 0
}

/// The same for bytes.
pub(in crate::contract::packed) fn has_int8() -> bool {
    available() & 1 << 25 != 0
}

/// What the processor has that the system lets this process use: the features of this name in its own list. Asked once.
fn available() -> u32 {
    static HAS: OnceLock<u32> = OnceLock::new();
    *HAS.get_or_init(|| if present() && permitted() { core::arch::x86_64::__cpuid_count(7, 0).edx } else { 0 })
}

/// Whether the processor has tiles as large as these kernels use.
fn present() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count, __get_cpuid_max};
    const OSXSAVE: u32 = 1 << 27;
    const TILES: u32 = 1 << 24;
    /// Tile data and tile configuration, as the system keeps them for threads.
    const SAVED: u64 = 0b11 << 17;
    if __get_cpuid_max(0).0 < 0x1d || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    if __cpuid_count(7, 0).edx & TILES == 0 {
        return false;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE says that the instruction exists and that programs may use it.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    let saved = u64::from(high) << 32 | u64::from(low);
    let palette = __cpuid_count(0x1d, 1);
    let (row_bytes, names, rows) = (palette.ebx & 0xffff, palette.ebx >> 16, palette.ecx & 0xffff);
    saved & SAVED == SAVED && row_bytes as usize >= 4 * SIDE && names >= 8 && rows as usize >= SIDE
}

/// Asks the system for the large state of these registers; it says no where it does not know them.
fn permitted() -> bool {
    const REQUEST: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the request changes what threads may do, and nothing in memory.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

#[repr(C, align(64))]
struct Config([u8; 64]);

/// Eight registers of 16 rows of 64 bytes.
static CONFIG: Config = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut i = 0;
    while i < 8 {
        bytes[16 + 2 * i] = 64;
        bytes[48 + i] = SIDE as u8;
        i += 1;
    }
    Config(bytes)
};

/// # Safety
/// [`has_bf16`] or [`has_int8`] has returned true.
unsafe fn enter() {
    // SAFETY: the configuration is valid for the palette that `present` has checked.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIG, options(readonly, nostack)) };
}

/// # Safety
/// [`has_bf16`] or [`has_int8`] has returned true.
unsafe fn leave() {
    // SAFETY: gives the registers back; any state will do.
    unsafe { asm!("tilerelease", options(nomem, nostack)) };
}

/// What an instruction multiplies.
trait TileMultiply: 'static {
    /// What it sums up in: four bytes.
    type Acc: Element;

    /// Adds to the accumulators in registers 0 to 3 the products of so many blocks (at least one) of 16 groups of K.
    ///
    /// # Safety
    /// Panels at `a` and `b` hold these blocks; [`enter`] was called by this thread.
    unsafe fn multiply(a: *const Self::Acc, b: *const Self::Acc, blocks: usize);
}

macro_rules! tile_multiply {
    ($($name:ident, $sum:ty, $instruction:literal;)*) => {$(
        struct $name;

        impl TileMultiply for $name {
            type Acc = $sum;

            #[inline(always)]
            unsafe fn multiply(a: *const $sum, b: *const $sum, blocks: usize) {
                // SAFETY: reads what the caller vouches for; prefetches never fault.
                unsafe {
                    asm!(
                        "2:",
                        "tileloadd tmm4, [{a} + {sa}*1]",
                        "tileloadd tmm6, [{b} + {sb}*1]",
                        "tileloadd tmm7, [{b} + {sb}*1 + 64]",
                        "prefetcht0 [{a} + 4096]", "prefetcht0 [{a} + 4160]", "prefetcht0 [{a} + 4224]", "prefetcht0 [{a} + 4288]",
                        "prefetcht0 [{a} + 4352]", "prefetcht0 [{a} + 4416]", "prefetcht0 [{a} + 4480]", "prefetcht0 [{a} + 4544]",
                        concat!($instruction, " tmm0, tmm4, tmm6"),
                        "tileloadd tmm5, [{a} + {sa}*1 + 1024]",
                        "prefetcht0 [{a} + 4608]", "prefetcht0 [{a} + 4672]", "prefetcht0 [{a} + 4736]", "prefetcht0 [{a} + 4800]",
                        "prefetcht0 [{a} + 4864]", "prefetcht0 [{a} + 4928]", "prefetcht0 [{a} + 4992]", "prefetcht0 [{a} + 5056]",
                        concat!($instruction, " tmm1, tmm4, tmm7"),
                        concat!($instruction, " tmm2, tmm5, tmm6"),
                        concat!($instruction, " tmm3, tmm5, tmm7"),
                        "add {a}, 2048",
                        "add {b}, 2048",
                        "dec {n}",
                        "jnz 2b",
                        a = inout(reg) a => _, b = inout(reg) b => _, n = inout(reg) blocks => _,
                        sa = in(reg) 4 * SIDE, sb = in(reg) 4 * ROWS,
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _, options(readonly, nostack),
                    );
                }
            }
        }
    )*};
}
tile_multiply! {
    Bf16, f32, "tdpbf16ps";
    I8I8, i32, "tdpbssd";
    I8U8, i32, "tdpbsud";
    U8I8, i32, "tdpbusd";
    U8U8, i32, "tdpbuud";
}

/// # Safety
/// The contract of [`MicroTile`] for packed operands, `k` counting groups; [`enter`] was called by this thread.
unsafe fn kernel<P: TileMultiply, const V: usize>(t: &MicroTile<P::Acc>) {
    for line in 0..t.lines {
        crate::prefetch::prefetch::<false>(t.next.wrapping_add(64 * line));
    }
    if V == 2 && t.rows == ROWS && t.tail == SIDE {
        // SAFETY: C has 32 rows of two vectors.
        unsafe { multiply::<P>(t, t.c, 4 * t.c_row, t.add) };
        return;
    }
    #[repr(align(64))]
    struct Accumulate<T>([T; ROWS * ROWS]);
    let mut acc = Accumulate([P::Acc::ZERO; ROWS * ROWS]);
    let row_at = |i: usize| t.c.wrapping_offset(i as isize * t.c_row);
    let columns = (V - 1) * SIDE + t.tail;
    if t.add {
        // The accumulators go on from what is there, as those of whole tiles do.
        for (i, row) in acc.0.chunks_exact_mut(ROWS).enumerate().take(t.rows) {
            // SAFETY: the tile has row i and these columns of it, and they are initialised.
            unsafe { row_at(i).copy_to_nonoverlapping(row.as_mut_ptr(), columns) };
        }
    }
    // SAFETY: the accumulators have room for 32 rows of two vectors.
    unsafe { multiply::<P>(t, acc.0.as_mut_ptr(), (4 * ROWS) as isize, t.add) };
    for (i, row) in acc.0.chunks_exact(ROWS).enumerate().take(t.rows) {
        // SAFETY: as above.
        unsafe { row_at(i).copy_from_nonoverlapping(row.as_ptr(), columns) };
    }
}

/// # Safety
/// As [`kernel`], with accumulators at `c`, rows `stride` bytes apart: writable, and readable if `add`.
unsafe fn multiply<P: TileMultiply>(t: &MicroTile<P::Acc>, c: *mut P::Acc, stride: isize, add: bool) {
    let below = c.wrapping_byte_offset(SIDE as isize * stride);
    // SAFETY: the caller vouches for C; panels hold whole blocks of 16 groups, since K indices are multiples of the unit.
    unsafe {
        if add {
            asm!(
                "tileloadd tmm0, [{c} + {s}*1]", "tileloadd tmm1, [{c} + {s}*1 + 64]",
                "tileloadd tmm2, [{d} + {s}*1]", "tileloadd tmm3, [{d} + {s}*1 + 64]",
                c = in(reg) c, d = in(reg) below, s = in(reg) stride,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, options(readonly, nostack),
            );
        } else {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, options(nomem, nostack),
            );
        }
        let blocks = t.k / SIDE;
        if blocks > 0 {
            P::multiply(t.a, t.b, blocks);
        }
        asm!(
            "tilestored [{c} + {s}*1], tmm0", "tilestored [{c} + {s}*1 + 64], tmm1",
            "tilestored [{d} + {s}*1], tmm2", "tilestored [{d} + {s}*1 + 64], tmm3",
            c = in(reg) c, d = in(reg) below, s = in(reg) stride, options(nostack),
        );
    }
}
