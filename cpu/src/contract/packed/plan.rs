//! Decides, from the shape, the blocking, the kinds of the operands and the threads, how a product is executed and where in
//! the workspace everything lies. The number of threads decides how C is cut, what is packed, how much ahead, and how many private
//! buffers there are, never how a sum is grouped: that is by blocks and slices of the depth, which know the shape only.

use super::Side;
use super::blocking::{Blocking, Shape, even, slices};
use super::kernel::Kernels;
use super::source::PackSource;

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

/// What becomes of a tile's sums before its whole depth is through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// They are in C, where they belong.
    InPlain,
    /// They can wait in the memory that the sink will write.
    InSink,
    /// There is no place for them: a task has to go through the whole depth.
    Nowhere,
}

/// Most bytes of one operand that are packed ahead of the tasks that read them, for each two threads: threads that meet
/// after every chunk wait for the slowest of them, so many threads want few, large chunks.
const SHARED_BYTES: usize = 24 << 20;
/// The same for both operands together, where few threads compute in strips what would need more.
const STRIP_BYTES: usize = 9 << 18;
/// A product may always pack ahead one part of so many of what its operands and its result take themselves.
const SHARE: usize = 12;
/// Most threads that meet after each block of the depth.
const FEW_THREADS: usize = 4;
/// Strips for each thread, so that none waits long for another.
const STRIPS_EACH: usize = 8;
/// Panels of a strip, at least.
const LEAST_STRIP: usize = 4;
/// The same, when it holds several products of a batch: those should not leave the caches before they are used.
const BATCH_BYTES: usize = 4 << 20;
/// Products of fewer operations than this are not worth packing.
const TINY: usize = 72 * 72 * 72;
/// Bytes between unpacked rows up to which some of them share a page; wide panels allow twice as many.
const NEAR: usize = 1024;
/// Bytes after which places of a first-level cache repeat, and how many lines with the same place it has room for.
const PERIOD: usize = 4096;
const WAYS: usize = 8;
/// Multiply-adds of a thread's part of a product, up to which its tasks pack their columns themselves: that takes less than one
/// more fork, after which what is packed would come from other cores.
const OWN_WORK: usize = 128 * 128 * 128;
/// Tiles for each thread from which it matters little if some have one more.
const ROUNDS: usize = 4;
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
    /// Depth of a chunk: the whole, or, of strips, a multiple of `kc`.
    pub chunk_k: usize,
    /// Tasks are not tiles but strips: a tile's rows of this operand, which each task packs for itself block by block of the
    /// depth, by all of the chunk's rows of the other. Sums wait in C, or where the sink keeps them.
    pub strips: Option<Side>,
    /// One thread computes products of a single tile each, one after the other, and reads their operands where they lie.
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
        let prepacked = Kind { prepacked: Some((panel, kc, k)), ..packing };
        // Strides with which A is read in place if it ever is. A B in place needs no more than one packed before.
        let in_place = Kind { direct: Some((0, 1)), ..packing };
        [packing, Kind { same_for_batch: true, ..packing }, prepacked, in_place]
    }
}

/// Whether each operand is better read where it lies than packed, by its strides from row to row and from depth to depth, if it has any,
/// for so many threads.
pub(super) fn unpacked<T>(
    kernels: &Kernels<T>,
    Shape { m, n, k, .. }: Shape,
    kc: usize,
    [a, b]: [Option<(isize, isize)>; 2],
    threads: usize,
) -> [bool; 2] {
    if !kernels.strided {
        return [false; 2];
    }
    let (mr, nr, size) = (kernels.mr, kernels.nr(), size_of::<T>());
    // Packing pays for itself by the number of times that an element is read again from another place: for A, once
    // for each of B's panels, for B, once for each of A's. Unpacked rows far apart cost cache sets and pages.
    let tiny = m.saturating_mul(n).saturating_mul(k) <= TINY;
    let within = |stride: isize, bytes: usize| stride.unsigned_abs() <= bytes / size;
    // So many lines, this far apart, share so few places of L1 that they do not stay there.
    let crowded = |lines: usize, stride: isize| {
        let step = (stride.unsigned_abs() * size).max(1);
        let apart = 1 << (PERIOD | step).trailing_zeros();
        lines > PERIOD / apart * WAYS
    };
    // Measured: such rows cost up to 1.7 times as much in place as packed ones.
    let a = a.is_some_and(|(row, depth)| {
        let panels = if crowded(mr, row) { 2 } else { 16 };
        tiny || n <= 2 * nr || depth == 1 && n <= panels * nr
    });
    // A vector of B's columns is loaded as it lies. Wide panels need not stay in L1. Packed by all threads, most of one would come from
    // other cores: the more threads, the less packing pays.
    let b = b.is_some_and(|(row, depth)| {
        let near = match kernels.wide() {
            true => within(depth, 2 * NEAR) && m.div_ceil(threads.max(1)) <= 40 * mr,
            false => within(depth, NEAR) && !crowded(kc, depth) && m <= 24 * mr,
        };
        row == 1 && (tiny || m <= 2 * mr || near)
    });
    [a, b]
}

impl Plan {
    pub fn new<T>(
        kernels: &Kernels<T>,
        blocking: &Blocking,
        shape: Shape,
        operands: [Kind; 2],
        rest: Rest,
        threads: usize,
    ) -> Plan {
        let Shape { batch, m, n, k } = shape;
        let [a, b] = operands;
        let (mr, nr, size) = (kernels.mr, kernels.nr(), size_of::<T>());
        let mut mc = even(m, blocking.mc, mr);
        let mut nc = even(n, blocking.nc, nr);
        let kc = kernels.kc(k, blocking.kc);
        let (mut tiles_m, mut tiles_n) = (m.div_ceil(mc), n.div_ceil(nc));

        let [a_direct, b_direct] = unpacked(kernels, shape, kc, [a.direct, b.direct], threads);
        let mut a_mode = match a.prepacked {
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
        let mut b_mode = match b.prepacked {
            Some(p) if p == (nr, kc, k) => Mode::Prepacked,
            _ if b_direct => Mode::Direct,
            _ if (tiles_m == 1 || own) && !(b.same_for_batch && batch > 1) => Mode::Private,
            _ => Mode::Shared,
        };

        let fit = |limit: usize, each: usize, most: usize| (limit / each.max(1)).clamp(1, most.max(1));
        let area = |x: usize, y: usize| x.saturating_mul(y).saturating_mul(size);
        let bytes = |mode: Mode, rows: usize, depth: usize| if mode == Mode::Shared { area(rows, depth) } else { 0 };
        let together = area(m, k).saturating_add(area(n, k)).saturating_add(area(m, n));
        let limit = STRIP_BYTES.max(together / SHARE);
        let much = bytes(a_mode, m, k).saturating_add(bytes(b_mode, n, k)) > limit;
        // The operand with fewer rows is packed once for all: the other one's rows are the strips.
        let strips = match (a_mode, b_mode) {
            _ if !much || rest == Rest::Nowhere || slices > 1 || threads > FEW_THREADS => None,
            (Mode::Shared, Mode::Shared) if m >= n => Some(Side::A),
            (Mode::Shared, Mode::Shared) => Some(Side::B),
            (Mode::Shared, Mode::Prepacked | Mode::Direct) => Some(Side::A),
            (Mode::Prepacked | Mode::Direct, Mode::Shared) => Some(Side::B),
            _ => None,
        };
        // Tiles of each side, depth and products of a chunk.
        let ([chunk_m, chunk_n], chunk_k, chunk_batch);
        if let Some(side) = strips {
            let wanted = if threads > 1 { threads * STRIPS_EACH } else { 1 };
            let strip = |rows: usize, tile: usize, unit: usize| {
                even(rows, (rows / wanted).max(LEAST_STRIP * unit), unit).min(tile)
            };
            match side {
                Side::A => (mc, a_mode) = (strip(m, mc, mr), Mode::Private),
                Side::B => (nc, b_mode) = (strip(n, nc, nr), Mode::Private),
            }
            (tiles_m, tiles_n) = (m.div_ceil(mc), n.div_ceil(nc));
            // The other operand's part of a chunk, if it is packed: all its rows as deep as they fit, or else fewer.
            let packed = |depth: usize| bytes(a_mode, m, depth).saturating_add(bytes(b_mode, n, depth));
            // Strips and tiles take the other half of the memory.
            chunk_k = if packed(k) == 0 { k } else { k.min(kc.saturating_mul(fit(limit / 2, packed(kc), k))) };
            let tiles = |mode: Mode, tile: usize, most: usize| fit(limit / 2, bytes(mode, tile, chunk_k), most);
            [chunk_m, chunk_n] = [tiles(a_mode, mc, tiles_m), tiles(b_mode, nc, tiles_n)];
            chunk_batch = if packed(k) == 0 { batch.max(1) } else { 1 };
        } else {
            let limit = SHARED_BYTES * threads.div_ceil(2).clamp(1, 16);
            let (each_a, each_b) = (bytes(a_mode, mc, k), bytes(b_mode, nc, k));
            [chunk_m, chunk_n] = [fit(limit, each_a, tiles_m), fit(limit, each_b, tiles_n)];
            chunk_k = k;
            // Several products at once only when each is a single chunk by itself.
            chunk_batch = if chunk_m == tiles_m && chunk_n == tiles_n {
                let own = |kind: Kind, bytes: usize| if kind.same_for_batch { 0 } else { bytes };
                let each = own(a, each_a).saturating_mul(tiles_m).max(own(b, each_b).saturating_mul(tiles_n));
                fit(BATCH_BYTES, each, batch)
            } else {
                1
            };
        }

        let copies = |kind: Kind| if kind.same_for_batch { 1 } else { chunk_batch };
        let when = |condition: bool, elements: usize| if condition { elements } else { 0 };
        let buffered = rest != Rest::InPlain || slices > 1;
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
