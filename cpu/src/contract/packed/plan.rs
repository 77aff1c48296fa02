//! Decides, from the shape, the blocking, the kinds of the operands and the threads, how a matmul is executed and where in
//! the workspace everything lies. The number of threads decides how C is cut, what is packed, how much ahead, and how many private
//! buffers there are, never how a sum is grouped: that is by blocks and slices of K, which know the shape only.

use millstream_core::how::ContractSizes;

use super::Side;
use super::blocking::{Blocking, even, slices};
use super::kernel::Kernels;
use super::source::PackSource;
use crate::topology::Topology;

/// How the tasks get an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Unpacked, through its strides.
    Direct,
    /// Packed by whoever made it.
    Prepacked,
    /// Packed by each task for itself: nobody else needs the same part, or to share it would take longer.
    Private,
    /// Packed once before the tasks that share it.
    Shared,
}

/// What becomes of a tile's accumulators before all of K is through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// They are in C, where they belong.
    InPlain,
    /// They can wait in the memory that the sink will write.
    InSink,
    /// There is no memory for them: a task has to go through all of K.
    Nowhere,
}

/// Most bytes of one operand that are packed ahead of the tasks that read them, for each two threads: threads that meet
/// after every chunk wait for the slowest of them, so many threads want few, large chunks.
const SHARED_BYTES: usize = 24 << 20;
/// The same for both operands together, where few threads compute in strips what would need more.
const STRIP_BYTES: usize = 9 << 18;
/// A matmul may always pack ahead one part of so many of what its operands and its result take themselves.
const SHARE: usize = 12;
/// Most threads that meet after each block of K.
const FEW_THREADS: usize = 4;
/// Strips for each thread, so that none waits long for another.
const STRIPS_EACH: usize = 8;
/// Panels of a strip, at least.
const LEAST_STRIP: usize = 4;
/// Matmuls of fewer operations than this are not worth packing.
const TINY: usize = 72 * 72 * 72;
/// Bytes between unpacked rows up to which some of them share a page; wide panels allow twice as many.
const NEAR: usize = 1024;
/// Multiply-adds of a thread's part of a matmul, up to which its tasks pack their columns themselves: that takes less than one
/// more fork, after which what is packed would come from other cores.
const OWN_WORK: usize = 128 * 128 * 128;
/// Tiles for each thread from which it matters little if some have one more.
const ROUNDS: usize = 4;
/// The alignment of everything in the workspace.
pub(super) const ALIGN: usize = 128;

pub(super) struct GemmPlan {
    pub mc: usize,
    pub nc: usize,
    pub kc: usize,
    pub tiles_m: usize,
    pub tiles_n: usize,
    pub a: Mode,
    pub b: Mode,
    /// Slices of K that are summed up in a second pass; 1 for none. Each is `slice_k` deep, a multiple of `kc`.
    pub slices: usize,
    pub slice_k: usize,
    /// Tasks compute into a buffer, not into C.
    pub buffered: bool,
    /// Tiles and matrices that are packed and computed in one go.
    pub chunk_m: usize,
    pub chunk_n: usize,
    pub chunk_batch: usize,
    /// K of a chunk: the whole, or, of strips, a multiple of `kc`.
    pub chunk_k: usize,
    /// Tasks are not tiles but strips: a tile's rows of this operand, which each task packs for itself block by block of the
    /// K, by all of the chunk's rows of the other. Accumulators wait in C, or where the sink keeps them.
    pub strips: Option<Side>,
    /// One thread computes matmuls of a single tile each, one after the other, and reads their operands in place.
    pub in_turn: bool,
    /// Elements of each part of the workspace.
    pub shared_a: usize,
    pub shared_b: usize,
    pub private_a: usize,
    pub private_b: usize,
    pub tile: usize,
}

/// What the plan needs to know of an operand.
#[derive(Clone, Copy)]
pub(super) struct OperandKind {
    /// Strides from row to row and along K, if it can be read without packing.
    pub direct: Option<(isize, isize)>,
    /// Panel rows, block of K and whole K of the packed form.
    pub prepacked: Option<(usize, usize, usize)>,
    pub same_for_batch: bool,
}

impl OperandKind {
    pub fn of<T>(source: &dyn PackSource<T>) -> OperandKind {
        OperandKind {
            direct: source.direct(0).map(|d| (d.row, d.k)),
            prepacked: source.prepacked(0).map(|p| (p.panel, p.kc, p.k)),
            same_for_batch: source.same_for_batch(),
        }
    }

    /// One of each sort that differs in the workspace it needs, for a micro-panel of `panel` rows
    /// and blocks of K of `kc`.
    pub fn sorts(panel: usize, kc: usize, k: usize) -> [OperandKind; 4] {
        let packing = OperandKind { direct: None, prepacked: None, same_for_batch: false };
        let prepacked = OperandKind { prepacked: Some((panel, kc, k)), ..packing };
        // Strides with which A is read in place if it ever is. A B in place needs no more than one packed before.
        let in_place = OperandKind { direct: Some((0, 1)), ..packing };
        [packing, OperandKind { same_for_batch: true, ..packing }, prepacked, in_place]
    }
}

/// Whether each operand is better read in place than packed, by its strides from row to row and along K, if it has any,
/// for so many threads.
pub(super) fn unpacked<T>(
    kernels: &Kernels<T>,
    ContractSizes { m, n, k, .. }: ContractSizes,
    kc: usize,
    [a, b]: [Option<(isize, isize)>; 2],
    threads: usize,
) -> [bool; 2] {
    if !kernels.strided {
        return [false; 2];
    }
    let (mr, nr, size) = (kernels.mr, kernels.nr(), size_of::<T>());
    // Packing pays for itself by the number of times that an element is read again from another level: for A, once
    // for each of B's panels, for B, once for each of A's. Unpacked rows far apart cost cache sets and pages.
    let tiny = m.saturating_mul(n).saturating_mul(k) <= TINY;
    let within = |stride: isize, bytes: usize| stride.unsigned_abs() <= bytes / size;
    // So many lines, this far apart, share so few sets of L1 that they do not stay there.
    let l1 = Topology::here().l1();
    let ways = l1.ways.max(1);
    // Bytes after which the sets of an L1 repeat.
    let period = (l1.size / ways).max(1);
    let crowded = |lines: usize, stride: isize| {
        let step = (stride.unsigned_abs() * size).max(1);
        let spacing = 1 << (period | step).trailing_zeros();
        lines > period / spacing * ways
    };
    // Measured: such rows cost up to 1.7 times as much in place as packed ones.
    let a = a.is_some_and(|(row, k_stride)| {
        let panels = if crowded(mr, row) { 2 } else { 16 };
        tiny || n <= 2 * nr || k_stride == 1 && n <= panels * nr
    });
    // A vector of B's columns is loaded as it lies. Wide panels need not stay in L1. Packed by all threads, most of one would come from
    // other cores: the more threads, the less packing pays.
    let b = b.is_some_and(|(row, k_stride)| {
        let near = match kernels.wide() {
            true => within(k_stride, 2 * NEAR) && m.div_ceil(threads.max(1)) <= 40 * mr,
            false => within(k_stride, NEAR) && !crowded(kc, k_stride) && m <= 24 * mr,
        };
        row == 1 && (tiny || m <= 2 * mr || near)
    });
    [a, b]
}

/// How C is cut into tiles, and how tasks get the operands.
struct Cut {
    mc: usize,
    nc: usize,
    tiles_m: usize,
    tiles_n: usize,
    a: Mode,
    b: Mode,
}

/// Tiles of each side, K and matrices of a chunk.
struct ChunkSizes {
    tiles: [usize; 2],
    k: usize,
    batch: usize,
}

/// What decides how much is packed ahead of the tasks.
struct PackChoice {
    shape: ContractSizes,
    kc: usize,
    /// Bytes of an element.
    size: usize,
    threads: usize,
    operands: [OperandKind; 2],
}

/// How many of so many bytes each fit, of `most`, but at least one.
fn fit(limit: usize, each: usize, most: usize) -> usize {
    (limit / each.max(1)).clamp(1, most.max(1))
}

impl PackChoice {
    fn area(&self, x: usize, y: usize) -> usize {
        x.saturating_mul(y).saturating_mul(self.size)
    }

    /// Bytes of so many rows of an operand that are packed ahead.
    fn bytes(&self, mode: Mode, rows: usize, k_len: usize) -> usize {
        if mode == Mode::Shared { self.area(rows, k_len) } else { 0 }
    }

    /// Bytes that may be packed ahead where C is computed in strips.
    fn limit(&self) -> usize {
        let ContractSizes { m, n, k, .. } = self.shape;
        let together = self.area(m, k).saturating_add(self.area(n, k)).saturating_add(self.area(m, n));
        STRIP_BYTES.max(together / SHARE)
    }

    /// The operand whose rows become strips, where few threads would pack much: the other one, with fewer rows, is packed once for all.
    fn strips(&self, cut: &Cut) -> Option<Side> {
        let ContractSizes { m, n, k, .. } = self.shape;
        let much = self.bytes(cut.a, m, k).saturating_add(self.bytes(cut.b, n, k)) > self.limit();
        match (cut.a, cut.b) {
            _ if !much || self.threads > FEW_THREADS => None,
            (Mode::Shared, Mode::Shared) if m >= n => Some(Side::A),
            (Mode::Shared, Mode::Shared) => Some(Side::B),
            (Mode::Shared, Mode::Prepacked | Mode::Direct) => Some(Side::A),
            (Mode::Prepacked | Mode::Direct, Mode::Shared) => Some(Side::B),
            _ => None,
        }
    }

    /// A chunk of strips, which are cut for as many threads.
    fn strip_chunk(&self, cut: &mut Cut, side: Side, [mr, nr]: [usize; 2]) -> ChunkSizes {
        let (ContractSizes { batch, m, n, k }, limit) = (self.shape, self.limit());
        let wanted = if self.threads > 1 { self.threads * STRIPS_EACH } else { 1 };
        let strip =
            |rows: usize, tile: usize, unit: usize| even(rows, (rows / wanted).max(LEAST_STRIP * unit), unit).min(tile);
        match side {
            Side::A => (cut.mc, cut.a) = (strip(m, cut.mc, mr), Mode::Private),
            Side::B => (cut.nc, cut.b) = (strip(n, cut.nc, nr), Mode::Private),
        }
        (cut.tiles_m, cut.tiles_n) = (m.div_ceil(cut.mc), n.div_ceil(cut.nc));
        // The other operand's part of a chunk, if it is packed: all its rows as deep as they fit, or else fewer.
        let packed = |k_len: usize| self.bytes(cut.a, m, k_len).saturating_add(self.bytes(cut.b, n, k_len));
        // Strips and tiles take the other half of the memory.
        let chunk_k =
            if packed(k) == 0 { k } else { k.min(self.kc.saturating_mul(fit(limit / 2, packed(self.kc), k))) };
        let tiles = |mode: Mode, tile: usize, most: usize| fit(limit / 2, self.bytes(mode, tile, chunk_k), most);
        let tiles = [tiles(cut.a, cut.mc, cut.tiles_m), tiles(cut.b, cut.nc, cut.tiles_n)];
        ChunkSizes { tiles, k: chunk_k, batch: if packed(k) == 0 { batch.max(1) } else { 1 } }
    }

    /// A chunk of tiles, over all of K.
    fn tile_chunk(&self, cut: &Cut) -> ChunkSizes {
        let ContractSizes { batch, k, .. } = self.shape;
        let limit = SHARED_BYTES * self.threads.div_ceil(2).clamp(1, 16);
        let (each_a, each_b) = (self.bytes(cut.a, cut.mc, k), self.bytes(cut.b, cut.nc, k));
        let tiles = [fit(limit, each_a, cut.tiles_m), fit(limit, each_b, cut.tiles_n)];
        // Several matmuls at once only when each is a single chunk by itself.
        let batch = if tiles == [cut.tiles_m, cut.tiles_n] {
            let [a, b] = self.operands;
            let own = |kind: OperandKind, bytes: usize| if kind.same_for_batch { 0 } else { bytes };
            let each = own(a, each_a).saturating_mul(cut.tiles_m).max(own(b, each_b).saturating_mul(cut.tiles_n));
            // They should not leave the caches before they are used.
            fit(Topology::here().own_part() / 4, each, batch)
        } else {
            1
        };
        ChunkSizes { tiles, k, batch }
    }
}

impl GemmPlan {
    pub fn new<T>(
        kernels: &Kernels<T>,
        blocking: &Blocking,
        shape: ContractSizes,
        operands: [OperandKind; 2],
        rest: Rest,
        threads: usize,
    ) -> GemmPlan {
        let ContractSizes { batch, m, n, k } = shape;
        let [a, b] = operands;
        let (mr, nr) = (kernels.mr, kernels.nr());
        let mut mc = even(m, blocking.mc, mr);
        let nc = even(n, blocking.nc, nr);
        let kc = kernels.kc(k, blocking.kc);
        let (mut tiles_m, tiles_n) = (m.div_ceil(mc), n.div_ceil(nc));

        let [a_direct, b_direct] = unpacked(kernels, shape, kc, [a.direct, b.direct], threads);
        let a_mode = match a.prepacked {
            Some(p) if p == (mr, kc, k) => Mode::Prepacked,
            _ if a_direct => Mode::Direct,
            _ if tiles_n == 1 && !(a.same_for_batch && batch > 1) => Mode::Private,
            _ => Mode::Shared,
        };
        let slice_k = k.div_ceil(kc).div_ceil(slices(shape, mr, nr)).max(1) * kc;
        let slices = k.div_ceil(slice_k).max(1);
        let others = tiles_n.saturating_mul(slices).saturating_mul(batch);
        let tiles = tiles_m.saturating_mul(others);
        if a_mode == Mode::Direct && threads > 1 && tiles > threads && tiles < ROUNDS * threads {
            // Rows that are not packed need not be whole panels: where threads have few tiles each, more and smaller ones may give
            // them the same number. What the busiest thread computes, in rows of tiles, is to become less.
            let more = tiles.next_multiple_of(threads).div_ceil(others).min(m);
            let busiest = |tiles_m: usize| (tiles_m * others).div_ceil(threads);
            if busiest(more) * tiles_m < busiest(tiles_m) * more {
                tiles_m = more;
            }
            mc = m.div_ceil(tiles_m);
            tiles_m = m.div_ceil(mc);
        }
        let own = threads > 1 && a_mode != Mode::Shared && m.saturating_mul(n).saturating_mul(k) / threads <= OWN_WORK;
        let b_mode = match b.prepacked {
            Some(p) if p == (nr, kc, k) => Mode::Prepacked,
            _ if b_direct => Mode::Direct,
            _ if (tiles_m == 1 || own) && !(b.same_for_batch && batch > 1) => Mode::Private,
            _ => Mode::Shared,
        };

        let mut cut = Cut { mc, nc, tiles_m, tiles_n, a: a_mode, b: b_mode };
        let packing = PackChoice { shape, kc, size: size_of::<T>(), threads, operands };
        let strips = if slices > 1 || rest == Rest::Nowhere { None } else { packing.strips(&cut) };
        let chunk = match strips {
            Some(side) => packing.strip_chunk(&mut cut, side, [mr, nr]),
            None => packing.tile_chunk(&cut),
        };
        let Cut { mc, nc, tiles_m, tiles_n, a: a_mode, b: b_mode } = cut;
        let ChunkSizes { tiles: [chunk_m, chunk_n], k: chunk_k, batch: chunk_batch } = chunk;

        let copies = |kind: OperandKind| if kind.same_for_batch { 1 } else { chunk_batch };
        let when = |condition: bool, elements: usize| if condition { elements } else { 0 };
        let buffered = rest != Rest::InPlain || slices > 1;
        GemmPlan {
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
            chunk_k,
            strips,
            in_turn: threads == 1
                && tiles_m * tiles_n * slices == 1
                && (a_mode, b_mode) == (Mode::Direct, Mode::Direct),
            shared_a: when(a_mode == Mode::Shared, copies(a) * chunk_m * mc * chunk_k),
            shared_b: when(b_mode == Mode::Shared, copies(b) * chunk_n * nc * chunk_k),
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
        let tiles = match self.strips {
            None => self.chunk_m * self.chunk_n * self.slices,
            Some(Side::A) => self.chunk_m,
            Some(Side::B) => self.chunk_n,
        };
        self.chunk_batch * tiles
    }

    /// Elements of the whole workspace, for `align` elements of alignment.
    pub fn elements(&self, threads: usize, align: usize) -> usize {
        // A single task runs where it is; of several, any thread may take one.
        let slots = if self.chunk_tasks() > 1 { threads } else { 1 };
        self.shared_a.next_multiple_of(align)
            + self.shared_b.next_multiple_of(align)
            + self.partials().next_multiple_of(align)
            + slots * self.slot(align)
    }
}
