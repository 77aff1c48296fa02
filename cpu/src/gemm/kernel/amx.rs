//! AMX: tiles of 16 rows of 64 bytes. Four of the eight registers hold a 32 x 32 block of sums, two hold A, two hold B.
//!
//! A's panels are not as those of other kernels: for each 16 pairs of depth there are 32 rows of 16 pairs, so that a tile
//! is one kilobyte in a piece. B's panels are as ever: for each pair of depth 32 columns.
//!
//! The instructions take subnormal numbers for zeros and make zeros of subnormal sums; whoever uses them knows that there
//! are none. Each sum is of products exact in f32, rounded to nearest at every step.

use std::arch::asm;
use std::sync::OnceLock;

use super::{Kernel, Kernels, State, Tile};

/// Rows of a register, and pairs in a row.
pub(in crate::gemm) const SIDE: usize = 16;
/// Rows of a panel of A.
pub(in crate::gemm) const ROWS: usize = 2 * SIDE;

/// The kernels for pairs of bf16.
pub(in crate::gemm) static BF16_PAIRS: Kernels<f32> = Kernels {
    mr: ROWS,
    lanes: SIDE,
    vectors: 2,
    strided: false,
    unit: SIDE,
    heads: false,
    state: Some(State { enter, leave }),
    vector: None,
    table: &[&[&[kernel::<1> as Kernel<f32>], &[kernel::<2>]]],
};

/// Whether the processor has AMX for bf16 with tiles as large as these kernels use, and the system lets this process
/// use it. Asked once.
pub(in crate::gemm) fn available() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| present() && permitted())
}

/// What the processor says.
fn present() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count, __get_cpuid_max};
    const OSXSAVE: u32 = 1 << 27;
    const BF16: u32 = 1 << 22;
    const TILES: u32 = 1 << 24;
    /// Tile data and tile configuration, as the system keeps them for threads.
    const KEPT: u64 = 0b11 << 17;
    if __get_cpuid_max(0).0 < 0x1d || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    if features & BF16 == 0 || features & TILES == 0 {
        return false;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE says that the instruction exists and that programs may use it.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    let kept = u64::from(high) << 32 | u64::from(low);
    let palette = __cpuid_count(0x1d, 1);
    let (row_bytes, names, rows) = (palette.ebx & 0xffff, palette.ebx >> 16, palette.ecx & 0xffff);
    kept & KEPT == KEPT && row_bytes as usize >= 4 * SIDE && names >= 8 && rows as usize >= SIDE
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
/// [`available`] has returned true.
unsafe fn enter() {
    // SAFETY: the configuration is valid for the palette that `present` has checked.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIG, options(readonly, nostack)) };
}

/// # Safety
/// [`available`] has returned true.
unsafe fn leave() {
    // SAFETY: gives the registers back; any state will do.
    unsafe { asm!("tilerelease", options(nomem, nostack)) };
}

/// # Safety
/// The contract of [`Tile`] for packed operands, `k` counting pairs; [`enter`] was called by this thread.
unsafe fn kernel<const V: usize>(t: &Tile<f32>) {
    for line in 0..t.lines {
        crate::gemm::driver::prefetch(t.next.wrapping_add(64 * line));
    }
    if V == 2 && t.rows == ROWS {
        // SAFETY: C has 32 rows of two vectors.
        unsafe { multiply(t, t.c, 4 * t.c_row, t.add) };
        return;
    }
    #[repr(align(64))]
    struct Sums([f32; ROWS * ROWS]);
    let mut sums = Sums([0.0; ROWS * ROWS]);
    let place = |i: usize| t.c.wrapping_offset(i as isize * t.c_row);
    if t.add {
        // The sums go on from what is there, as those of whole tiles do.
        for (i, row) in sums.0.chunks_exact_mut(ROWS).enumerate().take(t.rows) {
            // SAFETY: the tile has row i and these vectors of it, and they are initialised.
            unsafe { place(i).copy_to_nonoverlapping(row.as_mut_ptr(), V * SIDE) };
        }
    }
    // SAFETY: the sums have room for 32 rows of two vectors.
    unsafe { multiply(t, sums.0.as_mut_ptr(), (4 * ROWS) as isize, t.add) };
    for (i, row) in sums.0.chunks_exact(ROWS).enumerate().take(t.rows) {
        // SAFETY: as above.
        unsafe { place(i).copy_from_nonoverlapping(row.as_ptr(), V * SIDE) };
    }
}

/// # Safety
/// As [`kernel`], with sums at `c`, rows `stride` bytes apart: writable, and readable if `add`.
unsafe fn multiply(t: &Tile<f32>, c: *mut f32, stride: isize, add: bool) {
    let below = c.wrapping_byte_offset(SIDE as isize * stride);
    // SAFETY: the caller vouches for C; panels hold whole blocks of 16 pairs, since depths are multiples of the unit.
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
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {sa}*1]",
                "tileloadd tmm6, [{b} + {sb}*1]",
                "tileloadd tmm7, [{b} + {sb}*1 + 64]",
                "prefetcht0 [{a} + 4096]", "prefetcht0 [{a} + 4160]", "prefetcht0 [{a} + 4224]", "prefetcht0 [{a} + 4288]",
                "prefetcht0 [{a} + 4352]", "prefetcht0 [{a} + 4416]", "prefetcht0 [{a} + 4480]", "prefetcht0 [{a} + 4544]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a} + {sa}*1 + 1024]",
                "prefetcht0 [{a} + 4608]", "prefetcht0 [{a} + 4672]", "prefetcht0 [{a} + 4736]", "prefetcht0 [{a} + 4800]",
                "prefetcht0 [{a} + 4864]", "prefetcht0 [{a} + 4928]", "prefetcht0 [{a} + 4992]", "prefetcht0 [{a} + 5056]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
                "dec {n}",
                "jnz 2b",
                a = inout(reg) t.a => _, b = inout(reg) t.b => _, n = inout(reg) blocks => _,
                sa = in(reg) 4 * SIDE, sb = in(reg) 4 * ROWS,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _, options(readonly, nostack),
            );
        }
        asm!(
            "tilestored [{c} + {s}*1], tmm0", "tilestored [{c} + {s}*1 + 64], tmm1",
            "tilestored [{d} + {s}*1], tmm2", "tilestored [{d} + {s}*1 + 64], tmm3",
            c = in(reg) c, d = in(reg) below, s = in(reg) stride, options(nostack),
        );
    }
}
