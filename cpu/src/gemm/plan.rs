//! Decides, from the shape, the blocking and the kinds of the operands alone, how a product is executed and where in the
//! workspace everything lies. The number of threads decides how much is packed ahead and how many private buffers there
//! are, never how a sum is grouped.

use super::blocking::{Blocking, FEW_TILES, LEAST_SLICE, Shape, even};
use super::kernel::Kernels;
use super::source::PackSource;

/// How the tasks get an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Unpacked, through its strides.
    Direct,
    /// Packed by whoever made it.
    Prepacked,
    /// Packed by each task for itself: nobody else needs the same part.
    Private,
    /// Packed once before the tasks that share it.
    Shared,
}

/// Most bytes of one operand that are packed ahead of the tasks that read them, for each two threads: threads that meet
/// after every chunk wait for the slowest of them, so many threads want few, large chunks.
const SHARED_BYTES: usize = 24 << 20;
/// The same, when it holds several products of a batch: those should not leave the caches before they are used.
const BATCH_BYTES: usize = 4 << 20;
/// Products of fewer operations than this are not worth packing.
const TINY: usize = 72 * 72 * 72;
/// Bytes between unpacked rows up to which they share pages and do not crowd a few cache sets.
const NEAR: usize = 1024;
/// Bytes of an operand that stays in L2, packed or not.
const SMALL: usize = 384 << 10;
/// The alignment of everything in the workspace.
pub(super) const ALIGN: usize = 128;

pub(super) struct Plan {
    pub mc: usize,
    pub nc: usize,
    pub kc: usize,
    pub tiles_m: usize,
    pub tiles_n: usize,
    pub a: Mode,
    pub b: Mode,
    /// Slices of the depth that are summed up in a second pass; 1 for none. Each is `slice_k` deep, a multiple of `kc`.
    pub slices: usize,
    pub slice_k: usize,
    /// Tasks compute into a buffer, not into C.
    pub buffered: bool,
    /// Tiles and products that are packed and computed in one go.
    pub chunk_m: usize,
    pub chunk_n: usize,
    pub chunk_batch: usize,
    /// Elements of each part of the workspace.
    pub shared_a: usize,
    pub shared_b: usize,
    pub private_a: usize,
    pub private_b: usize,
    pub tile: usize,
}

/// What the plan needs to know of an operand.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Strides from row to row and from depth to depth, if it can be read without packing.
    pub direct: Option<(isize, isize)>,
    /// Panel rows, depth block and depth of the packed form.
    pub prepacked: Option<(usize, usize, usize)>,
    pub same_for_batch: bool,
}

impl Kind {
    pub fn of<T>(source: &dyn PackSource<T>) -> Kind {
        Kind {
            direct: source.direct(0).map(|d| (d.row, d.depth)),
            prepacked: source.prepacked(0).map(|p| (p.panel, p.kc, p.depth)),
            same_for_batch: source.same_for_batch(),
        }
    }

    /// One of each sort that differs in the workspace it needs, for a micro-panel of `panel` rows
    /// and depth blocks of `kc`.
    pub fn sorts(panel: usize, kc: usize, k: usize) -> [Kind; 4] {
        let packing = Kind { direct: None, prepacked: None, same_for_batch: false };
        // An operand read in place needs none, however it is read.
        let in_place = Kind { prepacked: Some((panel, kc, k)), ..packing };
        let same = |kind: Kind| Kind { same_for_batch: true, ..kind };
        [packing, same(packing), in_place, same(in_place)]
    }
}

impl Plan {
    pub fn new<T>(
        kernels: &Kernels<T>,
        blocking: &Blocking,
        shape: Shape,
        operands: [Kind; 2],
        into_plain: bool,
        threads: usize,
    ) -> Plan {
        let Shape { batch, m, n, k } = shape;
        let [a, b] = operands;
        let (mr, nr, size) = (kernels.mr, kernels.nr(), size_of::<T>());
        let mc = even(m, blocking.mc, mr);
        let nc = even(n, blocking.nc, nr);
        let kc = even(k, blocking.kc, kernels.unit);
        let (tiles_m, tiles_n) = (m.div_ceil(mc), n.div_ceil(nc));
        let tiles = tiles_m.saturating_mul(tiles_n);

        // Packing pays for itself by the number of times that an element is read again from another place: for A, once
        // for each of B's panels, for B, once for each of A's. Unpacked rows far apart cost cache sets and pages.
        let tiny = m.saturating_mul(n).saturating_mul(k) <= TINY;
        let near = |stride: isize| stride.unsigned_abs() <= NEAR / size;
        let small_a = m.saturating_mul(k).saturating_mul(size) <= SMALL;
        let a_direct = match a.direct {
            _ if !kernels.strided => false,
            Some((_, depth)) => tiny || n <= 2 * nr || depth == 1 && n <= if small_a { 16 } else { 8 } * nr,
            None => false,
        };
        let b_direct = match b.direct {
            _ if !kernels.strided => false,
            // A vector of B's columns is loaded as it lies.
            Some((1, depth)) => tiny || m <= 2 * mr || near(depth) && m <= 24 * mr,
            _ => false,
        };
        let a_mode = match a.prepacked {
            Some(p) if p == (mr, kc, k) => Mode::Prepacked,
            _ if a_direct => Mode::Direct,
            _ if tiles_n == 1 && !(a.same_for_batch && batch > 1) => Mode::Private,
            _ => Mode::Shared,
        };
        let b_mode = match b.prepacked {
            Some(p) if p == (nr, kc, k) => Mode::Prepacked,
            _ if b_direct => Mode::Direct,
            _ if tiles_m == 1 && !(b.same_for_batch && batch > 1) => Mode::Private,
            _ => Mode::Shared,
        };

        let few = FEW_TILES / tiles.saturating_mul(batch).max(1);
        let slices = few.min(k / LEAST_SLICE).max(1);
        let slice_k = k.div_ceil(kc).div_ceil(slices).max(1) * kc;
        let slices = k.div_ceil(slice_k).max(1);

        // Several products at once only when each is a single chunk by itself.
        let fit = |limit: usize, each: usize, most: usize| (limit / each.max(1)).clamp(1, most.max(1));
        let bytes_a = if a_mode == Mode::Shared { mc.saturating_mul(k).saturating_mul(size) } else { 0 };
        let bytes_b = if b_mode == Mode::Shared { nc.saturating_mul(k).saturating_mul(size) } else { 0 };
        let shared_bytes = SHARED_BYTES * threads.div_ceil(2).clamp(1, 16);
        let chunk_m = fit(shared_bytes, bytes_a, tiles_m);
        let chunk_n = fit(shared_bytes, bytes_b, tiles_n);
        let chunk_batch = if chunk_m == tiles_m && chunk_n == tiles_n {
            let own = |kind: Kind, bytes: usize| if kind.same_for_batch { 0 } else { bytes };
            let each = own(a, bytes_a).saturating_mul(tiles_m).max(own(b, bytes_b).saturating_mul(tiles_n));
            fit(BATCH_BYTES, each, batch)
        } else {
            1
        };

        let copies = |kind: Kind| if kind.same_for_batch { 1 } else { chunk_batch };
        let when = |condition: bool, elements: usize| if condition { elements } else { 0 };
        let buffered = !into_plain || slices > 1;
        Plan {
            mc,
            nc,
            kc,
            tiles_m,
            tiles_n,
            a: a_mode,
            b: b_mode,
            slices,
            slice_k,
            buffered,
            chunk_m,
            chunk_n,
            chunk_batch,
            shared_a: when(a_mode == Mode::Shared, copies(a) * chunk_m * mc * k),
            shared_b: when(b_mode == Mode::Shared, copies(b) * chunk_n * nc * k),
            private_a: when(a_mode == Mode::Private, mc * kc),
            private_b: when(b_mode == Mode::Private, nc * kc),
            tile: when(buffered, mc * nc),
        }
    }

    /// Elements that a slot needs: a task's private buffers.
    pub fn slot(&self, align: usize) -> usize {
        let tile = if self.slices == 1 { self.tile } else { 0 };
        [self.private_a, self.private_b, tile].iter().map(|n| n.next_multiple_of(align)).sum()
    }

    /// Elements of the partial tiles of all slices of a chunk.
    pub fn partials(&self) -> usize {
        if self.slices == 1 { 0 } else { self.chunk_tasks() * self.tile }
    }

    /// Most tasks of a chunk.
    pub fn chunk_tasks(&self) -> usize {
        self.chunk_batch * self.chunk_m * self.chunk_n * self.slices
    }

    /// Elements of the whole workspace, for `align` elements of alignment.
    pub fn elements(&self, threads: usize, align: usize) -> usize {
        let slots = threads.min(self.chunk_tasks());
        self.shared_a.next_multiple_of(align)
            + self.shared_b.next_multiple_of(align)
            + self.partials().next_multiple_of(align)
            + slots * self.slot(align)
    }
}
