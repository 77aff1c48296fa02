//! How a product is cut to fit the caches and to give the workers enough tasks.

use super::Element;
use super::kernel::kernels;
use crate::topology::Topology;

/// An instruction set that micro-kernels exist for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Isa {
    /// Plain Rust; runs everywhere.
    Portable,
    /// AVX2 with FMA (x86-64).
    Avx2,
    /// AVX-512F (x86-64).
    Avx512,
    /// NEON (AArch64).
    Neon,
}

impl Isa {
    /// The best instruction set of this machine.
    pub fn detect() -> Isa {
        [Isa::Avx512, Isa::Avx2, Isa::Neon].into_iter().find(|isa| isa.available()).unwrap_or(Isa::Portable)
    }

    /// Whether this machine has it.
    pub fn available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => is_x86_feature_detected!("avx512f") && Isa::Avx2.available(),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }
}

/// The size of a product: `batch` times `C[m, n] = A[m, k] * B[k, n]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Shape {
    /// Independent products.
    pub batch: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

impl Shape {
    /// A single product.
    pub fn new(m: usize, n: usize, k: usize) -> Shape {
        Shape { batch: 1, m, n, k }
    }

    pub(super) fn transposed(self) -> Shape {
        Shape { m: self.n, n: self.m, ..self }
    }
}

/// How a product is cut. One task computes an `mc` by `nc` tile of C, in depth blocks of `kc`.
///
/// It is advice: the driver rounds `mc` and `nc` up to the micro-kernel's tile and evens the blocks out. Results depend
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
    /// Depth of a block.
    pub kc: usize,
}

/// Tasks below which a product is cut finer than the caches ask for.
const WANTED_TASKS: usize = 16;

impl Blocking {
    /// The analytical default: a B panel of `kc` depths in half of L1, an A block of `mc` rows in a third of L2 with room
    /// for C's tile, and tasks enough for a dozen cores if the shape has them.
    pub fn for_caches<T: Element>(caches: &Topology, isa: Isa, shape: Shape) -> Blocking {
        let table = kernels::<T>(isa);
        let (mr, nr, size) = (table.mr, table.nr(), size_of::<T>());
        let (l1, l2) = (caches.l1().size, caches.l2().size);

        let kc = (l1 / 2 / (nr * size)).clamp(64, 512) / 8 * 8;
        let kc = even(shape.k.max(1), kc, 8);
        let mc = (l2 / 6 / (kc * size)).clamp(4 * mr, 32 * mr);
        let mut mc = even(shape.m.max(1), mc, mr);
        let nc = (l2 / 4 / (mc * size)).clamp(4 * nr, 32 * nr);
        let mut nc = even(shape.n.max(1), nc, nr);

        let tasks = |mc: usize, nc: usize| shape.m.div_ceil(mc) * shape.n.div_ceil(nc) * shape.batch.max(1);
        while tasks(mc, nc) < WANTED_TASKS {
            // Keep what makes a task worth its packing: some panels each way.
            if nc > 8 * nr && nc >= mc {
                nc = even(shape.n, nc / 2, nr);
            } else if mc > 8 * mr {
                mc = even(shape.m, mc / 2, mr);
            } else {
                break;
            }
        }
        Blocking { mr, nr, mc, nc, kc }
    }
}

impl Blocking {
    /// For the transposed product.
    pub(super) fn transposed(self) -> Blocking {
        Blocking { mc: self.nc, nc: self.mc, ..self }
    }
}

/// The size of equal blocks of at most `most`, a multiple of `unit`, that cover `total`; at least one unit.
pub(super) fn even(total: usize, most: usize, unit: usize) -> usize {
    let most = (most / unit).max(1) * unit;
    let blocks = total.div_ceil(most).max(1);
    total.div_ceil(blocks).div_ceil(unit).max(1) * unit
}
