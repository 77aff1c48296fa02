//! How a matmul is cut to fit the caches and to give the workers enough tasks.

use millstream_core::how::ContractSizes;

use super::Element;
use super::kernel::{BUSY, kernels};
use crate::topology::Topology;

/// A kind of micro-kernel: an instruction set, and how many numbers it multiplies at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum MicroKernel {
    /// Plain Rust; runs everywhere.
    Portable,
    /// AVX2 with FMA (x86-64).
    Avx2,
    /// AVX-512F (x86-64).
    Avx512,
    /// NEON (AArch64).
    Neon,
    /// Pairs of 16-bit integers with AVX2; operands are [`super::Pairs`], K is counted in pairs.
    Avx2Pairs,
    /// Pairs of 16-bit integers with AVX-512 BW, or VNNI where there is that; as above.
    Avx512Pairs,
    /// Pairs of bf16 with AVX512-BF16; as above.
    Avx512Bf16,
    /// Pairs of bf16 in AMX tiles; as above.
    Amx,
    /// Four 8-bit integers at a time with AVX-VNNI; operands are [`super::Dot4`].
    Avx2Dot4,
    /// Four 8-bit integers at a time with AVX512-VNNI; as above.
    Avx512Dot4,
    /// Four 8-bit integers at a time with NEON's dot products; as above.
    NeonDot4,
    /// Four 8-bit integers at a time in AMX tiles; as above.
    AmxDot4 {
        /// Whether the numbers of A and those of B have a sign.
        signed: [bool; 2],
    },
}

/// Pairs, or groups of four, in a row of an AMX tile.
pub(in crate::contract) const TILE: usize = 16;

impl MicroKernel {
    /// The best instruction set of this machine.
    pub fn detect() -> MicroKernel {
        [MicroKernel::Avx512, MicroKernel::Avx2, MicroKernel::Neon]
            .into_iter()
            .find(|isa| isa.available())
            .unwrap_or(MicroKernel::Portable)
    }

    /// Whether this machine has it.
    pub fn available(self) -> bool {
        match self {
            MicroKernel::Portable | MicroKernel::Avx2 | MicroKernel::Avx512 | MicroKernel::Neon => {
                self.vectors().is_available()
            }
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx2Pairs => MicroKernel::Avx2.available(),
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512Pairs => MicroKernel::Avx512.available() && is_x86_feature_detected!("avx512bw"),
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512Bf16 => MicroKernel::Avx512.available() && is_x86_feature_detected!("avx512bf16"),
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx2Dot4 => MicroKernel::Avx2.available() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            MicroKernel::Avx512Dot4 => MicroKernel::Avx512.available() && is_x86_feature_detected!("avx512vnni"),
            #[cfg(target_arch = "aarch64")]
            MicroKernel::NeonDot4 => {
                MicroKernel::Neon.available() && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            MicroKernel::Amx => MicroKernel::Avx512.available() && super::kernel::amx::has_bf16(),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            MicroKernel::AmxDot4 { .. } => MicroKernel::Avx512.available() && super::kernel::amx::has_int8(),
            _ => false,
        }
    }

    /// The vectors that come with it.
    pub(in crate::contract) fn vectors(self) -> crate::simd::Isa {
        match self {
            MicroKernel::Portable => crate::simd::Isa::Portable,
            MicroKernel::Avx2 | MicroKernel::Avx2Pairs | MicroKernel::Avx2Dot4 => crate::simd::Isa::Avx2,
            MicroKernel::Avx512 | MicroKernel::Avx512Pairs | MicroKernel::Avx512Bf16 | MicroKernel::Avx512Dot4 => {
                crate::simd::Isa::Avx512
            }
            MicroKernel::Amx | MicroKernel::AmxDot4 { .. } => crate::simd::Isa::Avx512,
            MicroKernel::Neon | MicroKernel::NeonDot4 => crate::simd::Isa::Neon,
        }
    }

    /// How many numbers are multiplied at a time, each stored as a part of an element.
    pub fn together(self) -> usize {
        match self {
            MicroKernel::Portable | MicroKernel::Avx2 | MicroKernel::Avx512 | MicroKernel::Neon => 1,
            MicroKernel::Avx2Pairs | MicroKernel::Avx512Pairs | MicroKernel::Avx512Bf16 | MicroKernel::Amx => 2,
            MicroKernel::Avx2Dot4 | MicroKernel::Avx512Dot4 | MicroKernel::NeonDot4 | MicroKernel::AmxDot4 { .. } => 4,
        }
    }

    /// Whether operands are multiplied in AMX tiles, so that those of A are packed in a way of their own.
    pub(in crate::contract) fn tiled(self) -> bool {
        matches!(self, MicroKernel::Amx | MicroKernel::AmxDot4 { .. })
    }

    /// Whether both operands are packed in the same way, so that a matmul may be computed as its transpose.
    pub(super) fn transposes(self) -> bool {
        !self.tiled() && self.together() < 4
    }

    /// A number for the way in which operands are packed; signs do not matter in AMX tiles.
    pub(crate) fn form(self) -> usize {
        match self {
            MicroKernel::Portable => 0,
            MicroKernel::Avx2 => 1,
            MicroKernel::Avx512 => 2,
            MicroKernel::Neon => 3,
            MicroKernel::Avx2Pairs => 4,
            MicroKernel::Avx512Pairs => 5,
            MicroKernel::Avx512Bf16 => 6,
            MicroKernel::Amx => 7,
            MicroKernel::Avx2Dot4 => 8,
            MicroKernel::Avx512Dot4 => 9,
            MicroKernel::NeonDot4 => 10,
            MicroKernel::AmxDot4 { .. } => 11,
        }
    }

    /// The K of a matmul's shape for `k` numbers.
    pub fn packed_k(self, k: usize) -> usize {
        match self {
            _ if self.tiled() => k.div_ceil(self.together() * TILE) * TILE,
            _ if self.together() == 4 => {
                let groups = k.div_ceil(4);
                groups + groups.div_ceil(self.dot4_block())
            }
            _ => k.div_ceil(self.together()),
        }
    }

    /// Groups of four in a block of K, beside its [`super::Kernels::heads`]; AMX takes any signs and has none.
    pub(in crate::contract) const fn dot4_block(self) -> usize {
        match self {
            // A panel of B is to be in L1; wide ones need not be.
            MicroKernel::Avx512Dot4 => 512,
            _ => 256,
        }
    }
}

/// How a matmul is cut. One task computes an `mc` by `nc` tile of C, in blocks of K of `kc`.
///
/// It is advice: the driver rounds `mc` and `nc` up to the micro-kernel's tile and evens the blocks out, by rows and among threads
/// where A is read in place. Results depend
/// on the blocking (float sums are grouped by `kc`), never on the number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Blocking {
    /// Rows of a micro-kernel's tile.
    pub mr: usize,
    /// Columns of a micro-kernel's tile.
    pub nr: usize,
    /// Rows of C in a task.
    pub mc: usize,
    /// Columns of C in a task.
    pub nc: usize,
    /// K of a block.
    pub kc: usize,
}

/// Multiply-adds that make a task worth a fork where threads would have none, and where there are some for each.
const TASK_WORK: usize = 32 * 64 * 64;
const LONG_WORK: usize = 128 * 128 * 128;
/// Multiply-adds of a task that takes not much longer than a fork.
const SMALL_WORK: usize = 256 * 256 * 256;
/// K below which a slice is not worth a reduction.
const LEAST_SLICE: usize = 512;
/// Fewer tiles of the smallest size than this are split along K, if that is long enough.
const FEW_TILES: usize = 8;

impl Blocking {
    /// The analytical default for one thread: a B panel of `kc` K indices in half of L1, an A block of `mc` rows in a sixth of L2
    /// with room for B's and C's part; or, where B's panels are wide, those in L2, too, and C streaming through. For more threads see [`Blocking::spread`].
    pub fn for_caches<T: Element>(caches: &Topology, isa: MicroKernel, shape: ContractSizes) -> Blocking {
        let table = kernels::<T>(isa);
        let (mr, nr, size) = (table.mr, table.nr(), size_of::<T>());
        let (l1, l2) = (caches.l1().size, caches.l2().size);
        let ContractSizes { m, n, k, .. } = shape;
        let (m, n, k) = (m.max(1), n.max(1), k.max(1));

        // Wide panels of B are used so slowly that they come from L2 in time; long blocks then write accumulators seldom. Measured: A may have
        // half of L2 beside them.
        let wide = table.wide();
        let (near, share_m, share_n) = if wide { (l2 / 8, 2, 1) } else { (l1 / 2, 6, 4) };
        let kc = table.kc(k, (near / (nr * size)).clamp(64, 512));
        let most_m = (l2 / share_m / (kc * size)).clamp(4 * mr, 32 * mr);
        let most_n = |rows: usize| (l2 / share_n / (rows * size)).clamp(4 * nr, 32 * nr);
        // One row of tiles: no two tasks need the same part of B, so each packs its own and finds it in L2. One column of
        // tiles: the same for A; better where C is narrow, since A is then read once.
        let narrow = n <= 4 * nr && m >= 2 * n;
        let whole = if wide { most_m } else { 3 * most_m };
        let mc = if m <= whole + 2 * mr && !narrow { m.next_multiple_of(mr) } else { even(m, most_m, mr) };
        let nc = even(n, most_n(mc), nr);
        Blocking { mr, nr, mc, nc, kc }
    }
}

/// Tasks for each thread that let fast cores take over what slow ones would finish late.
const TASKS_EACH: usize = 12;

impl Blocking {
    /// The same blocks, or smaller ones where so many threads would find too few tasks. Results do not change: only `kc`
    /// groups sums.
    pub fn spread(mut self, shape: ContractSizes, threads: usize) -> Blocking {
        let ContractSizes { batch, m, n, k } = shape;
        let wanted = threads.saturating_mul(TASKS_EACH).div_ceil(batch.max(1));
        let work = |b: &Blocking| b.mc.min(m).saturating_mul(b.nc.min(n)).saturating_mul(k);
        let tiles = |b: &Blocking| m.div_ceil(b.mc) * n.div_ceil(b.nc);
        let slices = slices(shape, self.mr, self.nr);
        while threads > 1 && tiles(&self) < wanted {
            let (mc, nc) = (self.mc.min(m), self.nc.min(n));
            // Small tiles read their operands more often, but idle threads are worse.
            let idle = tiles(&self).saturating_mul(batch).saturating_mul(slices) < 2 * threads;
            if work(&self) <= if idle { TASK_WORK } else { LONG_WORK } {
                break;
            }
            // Panels of many rows are better shared by tasks of few columns than cut themselves.
            let (rows, columns) = match (idle, self.mr >= BUSY) {
                (true, _) => (2 * self.mr, self.nr),
                (false, true) => (16 * self.mr, self.nr),
                (false, false) => (8 * self.mr, 4 * self.nr),
            };
            // Tasks that have all rows pack their columns themselves; short ones are better off without another fork for that.
            let all_rows = m <= self.mc && work(&self) <= SMALL_WORK;
            if mc > rows && (mc >= nc && !all_rows || nc <= columns) {
                self.mc = even(m, mc / 2, self.mr);
            } else if nc > columns {
                self.nc = even(n, nc / 2, self.nr);
            } else {
                break;
            }
        }
        self
    }

    /// For the transposed matmul.
    pub(super) fn transposed(self) -> Blocking {
        Blocking { mc: self.nc, nc: self.mc, ..self }
    }
}

/// Parts of K that are tasks of their own where there are few tiles. By shape alone: tiles may be made smaller for more
/// threads, but sums must not be grouped in another way then.
pub(super) fn slices(ContractSizes { batch, m, n, k }: ContractSizes, mr: usize, nr: usize) -> usize {
    let small = m.div_ceil(8 * mr).saturating_mul(n.div_ceil(4 * nr)).saturating_mul(batch);
    (FEW_TILES / small.max(1)).min(k / LEAST_SLICE).max(1)
}

/// The size of equal blocks of at most `most`, a multiple of `unit`, that cover `total`; at least one unit.
pub(crate) fn even(total: usize, most: usize, unit: usize) -> usize {
    let most = (most / unit).max(1) * unit;
    let blocks = total.div_ceil(most).max(1);
    total.div_ceil(blocks).div_ceil(unit).max(1) * unit
}
