//! Executes a plan: packs what is shared, then computes the tiles.

use millstream_core::how::ContractSizes;

use super::kernel::{Kernels, MicroTile, Reading};
use super::layout::PIECE;
use super::plan::{GemmPlan, Mode};
use super::sink::{Output, Plain, TileAt};
use super::source::{PackBlock, PackSource};
use super::{Element, Side};
use crate::shared::Shared;
use crate::workers::Workers;

/// One operand during the execution.
struct PackedOperand<'a, T> {
    source: &'a dyn PackSource<T>,
    mode: Mode,
    /// Rows of a micro-panel.
    panel: usize,
    /// All rows, and rows of a tile.
    rows: usize,
    tile: usize,
    /// Rows of a chunk, padded; and elements from one matrix to the next in `shared`.
    chunk_rows: usize,
    per_batch: usize,
    shared: Shared<T>,
}

/// Where a micro-kernel finds a block of an operand.
struct OperandBlock<T> {
    base: *const T,
    row: isize,
    k: isize,
    /// From one panel to the next.
    panel: isize,
}

/// A block of an operand: matrix, tile and K indices; and where the chunk that it belongs to starts.
struct BlockAt {
    batch: usize,
    chunk_batch: usize,
    tile: usize,
    chunk_tile: usize,
    k: usize,
    chunk_k: usize,
    k_len: usize,
}

/// What is packed or computed in one go: tiles from `tile_m` and `tile_n` on, matmuls from `batch` on, K indices from `k` to `end`.
#[derive(Clone, Copy)]
struct Chunk {
    batch: usize,
    batches: usize,
    tile_m: usize,
    tiles_m: usize,
    tile_n: usize,
    tiles_n: usize,
    k: usize,
    end: usize,
}

impl Chunk {
    /// A block of A or B in it.
    fn block(&self, side: Side, batch: usize, tile: usize, k: usize, k_len: usize) -> BlockAt {
        let chunk_tile = if side == Side::A { self.tile_m } else { self.tile_n };
        BlockAt { batch, chunk_batch: self.batch, tile, chunk_tile, k, chunk_k: self.k, k_len }
    }
}

impl<T: Element> PackedOperand<'_, T> {
    /// A packed block inside `shared`; `k` counts from the chunk's first K index.
    fn shared_at(&self, batch: usize, row: usize, k: usize, k_len: usize) -> Shared<T> {
        self.shared.add(batch * self.per_batch + self.chunk_rows * k + row * k_len)
    }

    /// Where a matrix with this K lies in memory and how many lines it takes, if it is in one piece.
    fn lines(&self, batch: usize, k_len: usize) -> (*const u8, usize) {
        let Some(d) = self.source.direct(batch) else { return (std::ptr::null(), 0) };
        let dense = (d.row, d.k) == (k_len as isize, 1) || (d.row, d.k) == (1, self.rows as isize);
        (d.base.cast(), if dense { self.rows * k_len * size_of::<T>() / 64 } else { 0 })
    }

    fn rows_of(&self, tile: usize) -> usize {
        self.tile.min(self.rows - tile * self.tile)
    }

    /// The block, packing it into `private` if nobody else has.
    ///
    /// # Safety
    /// `private` is for this task alone and large enough.
    unsafe fn block(&self, at: &BlockAt, private: Shared<T>) -> OperandBlock<T> {
        let &BlockAt { batch, chunk_batch, tile, chunk_tile, k, chunk_k, k_len } = at;
        let row = tile * self.tile;
        let packed = |base: *const T| OperandBlock {
            base,
            row: 1,
            k: self.panel as isize,
            panel: (self.panel * k_len) as isize,
        };
        match self.mode {
            Mode::Shared => {
                // An operand that all matmuls share is packed once: its `per_batch` is 0.
                let row = (tile - chunk_tile) * self.tile;
                packed(self.shared_at(batch - chunk_batch, row, k - chunk_k, k_len).0)
            }
            Mode::Private => {
                let block = PackBlock { batch, row, rows: self.rows_of(tile), k, k_len, panel: self.panel };
                if !block.is_empty() {
                    // SAFETY: the caller's.
                    self.source.pack(&block, unsafe { private.slice(block.len()) });
                }
                packed(private.0)
            }
            Mode::Prepacked => match self.source.prepacked(batch) {
                Some(p) => packed(p.base.wrapping_add(p.padded_rows * k + row * k_len)),
                None => packed(std::ptr::null()),
            },
            Mode::Direct => match self.source.direct(batch) {
                Some(d) => OperandBlock {
                    base: d.base.wrapping_offset(row as isize * d.row + k as isize * d.k),
                    row: d.row,
                    k: d.k,
                    panel: self.panel as isize * d.row,
                },
                None => packed(std::ptr::null()),
            },
        }
    }
}

/// A matmul being computed.
pub(super) struct Driver<'a, T: Element> {
    pub kernels: &'static Kernels<T>,
    pub plan: &'a GemmPlan,
    pub shape: ContractSizes,
    pub a: &'a dyn PackSource<T>,
    pub b: &'a dyn PackSource<T>,
    pub out: Output<'a, T>,
    /// Where accumulators wait that are not complete; strips need it.
    pub home: Option<Plain<'a, T>>,
}

/// The workspace cut up, and the operands.
struct GemmJob<'a, 'b, T: Element> {
    d: &'b Driver<'a, T>,
    a: PackedOperand<'a, T>,
    b: PackedOperand<'a, T>,
    partials: Shared<T>,
    slot_base: Shared<T>,
    slot_size: usize,
    align: usize,
}

impl<T: Element> Driver<'_, T> {
    /// Computes everything. `workspace` has `plan.elements(workers.threads(), align)` elements.
    pub fn run(&self, workers: &Workers, workspace: &mut [T], align: usize) {
        let (plan, shape) = (self.plan, self.shape);
        let base = Shared(workspace.as_mut_ptr());
        let shared_a = base;
        let shared_b = shared_a.add(plan.shared_a.next_multiple_of(align));
        let partials = shared_b.add(plan.shared_b.next_multiple_of(align));
        let slot_base = partials.add(plan.partials().next_multiple_of(align));
        let same = |s: &dyn PackSource<T>| s.same_for_batch();
        let job = GemmJob {
            d: self,
            a: PackedOperand {
                source: self.a,
                mode: plan.a,
                panel: self.kernels.mr,
                rows: shape.m,
                tile: plan.mc,
                chunk_rows: plan.chunk_m * plan.mc,
                per_batch: if same(self.a) { 0 } else { plan.chunk_m * plan.mc * plan.chunk_k },
                shared: shared_a,
            },
            b: PackedOperand {
                source: self.b,
                mode: plan.b,
                panel: self.kernels.nr(),
                rows: shape.n,
                tile: plan.nc,
                chunk_rows: plan.chunk_n * plan.nc,
                per_batch: if same(self.b) { 0 } else { plan.chunk_n * plan.nc * plan.chunk_k },
                shared: shared_b,
            },
            partials,
            slot_base,
            slot_size: plan.slot(align),
            align,
        };

        // What the shared buffers hold now: the matmul, first tile and first K index they were packed for.
        let (mut held_a, mut held_b) = (None, None);
        let mut execute = |batch, tile_m, tile_n, k| {
            let chunk = Chunk {
                batch,
                batches: plan.chunk_batch.min(shape.batch - batch),
                tile_m,
                tiles_m: plan.chunk_m.min(plan.tiles_m - tile_m),
                tile_n,
                tiles_n: plan.chunk_n.min(plan.tiles_n - tile_n),
                k,
                end: shape.k.min(k + plan.chunk_k),
            };
            let want_a = Some((if same(self.a) { 0 } else { batch }, tile_m, k));
            let want_b = Some((if same(self.b) { 0 } else { batch }, tile_n, k));
            let pack_a = plan.a == Mode::Shared && held_a != want_a;
            let pack_b = plan.b == Mode::Shared && held_b != want_b;
            job.pack(&chunk, pack_a, pack_b, workers);
            (held_a, held_b) = (want_a, want_b);
            match (plan.strips, &self.home) {
                (Some(side), Some(home)) => job.compute_strips(&chunk, side, home, workers),
                _ => job.compute(&chunk, workers),
            }
        };
        for batch in (0..shape.batch).step_by(plan.chunk_batch) {
            for tile_n in (0..plan.tiles_n).step_by(plan.chunk_n) {
                for tile_m in (0..plan.tiles_m).step_by(plan.chunk_m) {
                    // A K of 0 is one chunk, too: its accumulators are zeros.
                    (0..shape.k.max(1)).step_by(plan.chunk_k.max(1)).for_each(|k| execute(batch, tile_m, tile_n, k));
                }
            }
        }
    }
}

impl<T: Element> GemmJob<'_, '_, T> {
    /// Packs what the chunk's tasks share.
    fn pack(&self, chunk: &Chunk, pack_a: bool, pack_b: bool, workers: &Workers) {
        let kc = self.d.plan.kc;
        let blocks = (chunk.end - chunk.k).div_ceil(kc);
        // A task packs some panels of a tile: few tiles would leave threads without work.
        let each = |operand: &PackedOperand<'_, T>| PIECE.div_ceil((operand.panel * kc).max(1)) * operand.panel;
        let pieces = |operand: &PackedOperand<'_, T>| operand.tile.div_ceil(each(operand)).max(1);
        let parts = |operand: &PackedOperand<'_, T>, yes: bool, tiles: usize| {
            let batches = if operand.per_batch == 0 { 1 } else { chunk.batches };
            if yes { batches * tiles * blocks * pieces(operand) } else { 0 }
        };
        let parts_a = parts(&self.a, pack_a, chunk.tiles_m);
        let parts_b = parts(&self.b, pack_b, chunk.tiles_n);
        workers.run(parts_a + parts_b, &|task| {
            let (operand, first, tiles, task) = if task < parts_a {
                (&self.a, chunk.tile_m, chunk.tiles_m, task)
            } else {
                (&self.b, chunk.tile_n, chunk.tiles_n, task - parts_a)
            };
            let (task, from) = (task / pieces(operand), task % pieces(operand) * each(operand));
            let (batch, task) = (task / (tiles * blocks), task % (tiles * blocks));
            let (tile, k) = (task / blocks, chunk.k + task % blocks * kc);
            let k_len = kc.min(chunk.end - k);
            let rows = operand.rows_of(first + tile);
            if from >= rows {
                return;
            }
            let block = PackBlock {
                batch: chunk.batch + batch,
                row: (first + tile) * operand.tile + from,
                rows: each(operand).min(rows - from),
                k,
                k_len,
                panel: operand.panel,
            };
            // SAFETY: blocks of different tasks are disjoint parts of the shared buffer, which nobody reads yet.
            let dst =
                unsafe { operand.shared_at(batch, tile * operand.tile + from, k - chunk.k, k_len).slice(block.len()) };
            operand.source.pack(&block, dst);
        });
    }

    /// Computes the chunk's tiles.
    fn compute(&self, chunk: &Chunk, workers: &Workers) {
        let plan = self.d.plan;
        let tiles = chunk.tiles_m * chunk.tiles_n;
        // One thread takes neighbours in n one after the other: they share a block of A, which then stays in L2. Several
        // threads take bands of tiles, so that what each reads, and the workers together, is few blocks of A and few of B.
        let band = if workers.threads() > 1 { BAND } else { 1 };
        let tile_at = |tile: usize| {
            let (batch, tile) = (tile / tiles, tile % tiles);
            let first = tile / (band * chunk.tiles_n) * band;
            let rows = band.min(chunk.tiles_m - first);
            let tile = tile - first * chunk.tiles_n;
            (chunk.batch + batch, chunk.tile_m + first + tile % rows, chunk.tile_n + tile / rows)
        };
        let count = chunk.batches * tiles;
        if plan.slices == 1 {
            workers.run_seated(count, &|task, seat| {
                let (batch, i, j) = tile_at(task);
                self.tile(chunk, batch, i, j, self.slot_base.add(seat * self.slot_size), None);
            });
        } else {
            workers.run_seated(count * plan.slices, &|task, seat| {
                let (batch, i, j) = tile_at(task / plan.slices);
                let partial = self.partials.add(task * plan.tile);
                let slice = Some((task % plan.slices, partial));
                self.tile(chunk, batch, i, j, self.slot_base.add(seat * self.slot_size), slice);
            });
            workers.run(count, &|task| {
                let (batch, i, j) = tile_at(task);
                // SAFETY: the partial tiles of this tile are complete, and only this task uses them now.
                let all = unsafe { self.partials.add(task * plan.slices * plan.tile).slice(plan.slices * plan.tile) };
                let (sum, rest) = all.split_at_mut(plan.tile);
                for part in rest.chunks_exact(plan.tile) {
                    for (s, &x) in sum.iter_mut().zip(part) {
                        *s = s.add(x);
                    }
                }
                self.emit(batch, i, j, sum);
            });
        }
    }

    /// Computes the chunk's strips of one operand.
    fn compute_strips(&self, chunk: &Chunk, side: Side, home: &Plain<'_, T>, workers: &Workers) {
        let (first, tiles) =
            if side == Side::A { (chunk.tile_m, chunk.tiles_m) } else { (chunk.tile_n, chunk.tiles_n) };
        workers.run_seated(chunk.batches * tiles, &|task, seat| {
            let (batch, tile) = (chunk.batch + task / tiles, first + task % tiles);
            self.strip(chunk, side, batch, tile, home, self.slot_base.add(seat * self.slot_size));
        });
    }

    /// Computes what one tile of `side` and all of the chunk's tiles of the other operand give, over the chunk's K.
    fn strip(&self, chunk: &Chunk, side: Side, batch: usize, tile: usize, home: &Plain<'_, T>, slot: Shared<T>) {
        let (plan, shape) = (self.d.plan, self.d.shape);
        let private_a = slot;
        let private_b = private_a.add(plan.private_a.next_multiple_of(self.align));
        let own_tile = private_b.add(plan.private_b.next_multiple_of(self.align));
        let (own, own_room, other, other_room) = match side {
            Side::A => (&self.a, private_a, &self.b, private_b),
            Side::B => (&self.b, private_b, &self.a, private_a),
        };
        let (other_side, others) = match side {
            Side::A => (Side::B, chunk.tile_n..chunk.tile_n + chunk.tiles_n),
            Side::B => (Side::A, chunk.tile_m..chunk.tile_m + chunk.tiles_m),
        };
        let mut k = chunk.k;
        loop {
            let k_len = plan.kc.min(chunk.end - k);
            // SAFETY: the private buffers are this task's.
            let mine = unsafe { own.block(&chunk.block(side, batch, tile, k, k_len), own_room) };
            let finished = k + k_len >= shape.k;
            for there in others.clone() {
                let (i, j) = if side == Side::A { (tile, there) } else { (there, tile) };
                let (mb, nb) = (self.a.rows_of(i), self.b.rows_of(j));
                // SAFETY: as above; this operand is packed before, or read in place.
                let theirs = unsafe { other.block(&chunk.block(other_side, batch, there, k, k_len), other_room) };
                let (a, b) = if side == Side::A { (&mine, &theirs) } else { (&theirs, &mine) };
                let waiting = TaskTarget::plain(home, batch, i * plan.mc, j * plan.nc);
                let emits = plan.buffered && finished;
                let buffer = TaskTarget { c: own_tile.0, ld: plan.nc as isize };
                if emits && k > 0 {
                    // SAFETY: both are this task's alone; the accumulators of the earlier K are in `home`.
                    unsafe { copy(&waiting, &buffer, mb, nb) };
                }
                let target = if emits { &buffer } else { &waiting };
                self.in_state(|| {
                    // SAFETY: the blocks hold mb and nb rows of `k_len`; the target is this task's alone.
                    unsafe { self.multiply(a, b, target, mb, nb, k_len, k > 0, &mut Ahead::default()) };
                });
                if emits {
                    // SAFETY: the buffer is this task's and now holds the tile.
                    self.emit(batch, i, j, unsafe { own_tile.slice(plan.tile) });
                }
            }
            k += k_len;
            if k >= chunk.end {
                break;
            }
        }
    }

    /// Computes with the processor in the state that the kernels want.
    fn in_state(&self, work: impl FnOnce()) {
        let state = self.d.kernels.state;
        if let Some(state) = state {
            // SAFETY: the instruction set was found before the matmul began.
            unsafe { (state.enter)() };
        }
        work();
        if let Some(state) = state {
            // SAFETY: as above.
            unsafe { (state.leave)() };
        }
    }

    /// Computes one tile, or one slice of K of it into its own buffer.
    fn tile(
        &self,
        chunk: &Chunk,
        batch: usize,
        i: usize,
        j: usize,
        slot: Shared<T>,
        slice: Option<(usize, Shared<T>)>,
    ) {
        let (plan, shape) = (self.d.plan, self.d.shape);
        let (mb, nb) = (self.a.rows_of(i), self.b.rows_of(j));
        let private_a = slot;
        let private_b = private_a.add(plan.private_a.next_multiple_of(self.align));
        let own_tile = private_b.add(plan.private_b.next_multiple_of(self.align));
        let (from, to, buffer) = match slice {
            None => (0, shape.k, own_tile),
            Some((s, buffer)) => (s * plan.slice_k, shape.k.min((s + 1) * plan.slice_k), buffer),
        };
        let target = match self.d.out {
            Output::Plain(c) if !plan.buffered => TaskTarget::plain(&c, batch, i * plan.mc, j * plan.nc),
            _ => TaskTarget { c: buffer.0, ld: plan.nc as isize },
        };
        let mut ahead = match plan.in_turn && batch + 1 < chunk.batch + chunk.batches {
            true => Ahead([self.a.lines(batch + 1, shape.k), self.b.lines(batch + 1, shape.k)]),
            false => Ahead::default(),
        };
        self.in_state(|| {
            let mut k = from;
            loop {
                let k_len = plan.kc.min(to - k);
                let (at_a, at_b) = (chunk.block(Side::A, batch, i, k, k_len), chunk.block(Side::B, batch, j, k, k_len));
                // SAFETY: the private buffers are this task's.
                let (a, b) = unsafe { (self.a.block(&at_a, private_a), self.b.block(&at_b, private_b)) };
                // SAFETY: the blocks hold mb and nb rows of `k_len`; the target is this task's alone.
                unsafe { self.multiply(&a, &b, &target, mb, nb, k_len, k > from, &mut ahead) };
                k += k_len;
                if k >= to {
                    break;
                }
            }
        });
        if plan.buffered && slice.is_none() {
            // SAFETY: the buffer is this task's and now holds the tile.
            self.emit(batch, i, j, unsafe { own_tile.slice(plan.tile) });
        }
    }

    /// Gives a finished tile away.
    fn emit(&self, batch: usize, i: usize, j: usize, tile: &[T]) {
        let plan = self.d.plan;
        let at = TileAt {
            batch,
            row: i * plan.mc,
            col: j * plan.nc,
            rows: self.a.rows_of(i),
            cols: self.b.rows_of(j),
            ld: plan.nc,
        };
        match self.d.out {
            Output::Sink(sink) => sink.store(&at, tile),
            Output::Plain(c) => super::sink::scatter(&c, &at, tile, |x| x),
        }
    }

    /// The loops around the micro-kernel: B's panel stays in L1, or near it if it is wide; A's panels come from L2.
    ///
    /// # Safety
    /// The blocks hold `mb` and `nb` rows of `k_len`, in whole panels if packed; the target is writable for `mb` by `nb`
    /// and initialised if `add`.
    #[allow(clippy::too_many_arguments)]
    unsafe fn multiply(
        &self,
        a: &OperandBlock<T>,
        b: &OperandBlock<T>,
        target: &TaskTarget<T>,
        mb: usize,
        nb: usize,
        k_len: usize,
        add: bool,
        ahead: &mut Ahead,
    ) {
        let kernels = self.d.kernels;
        let (mr, nr, lanes) = (kernels.mr, kernels.nr(), kernels.lanes);
        let packed_b = self.d.plan.b != Mode::Direct;
        let packed_a = self.d.plan.a != Mode::Direct;
        let packed = packed_a && packed_b;
        let next_lines = (nr * k_len * size_of::<T>()).div_ceil(64).div_ceil(mb.div_ceil(mr));
        let share = ahead.len().div_ceil((nb.div_ceil(nr) * mb.div_ceil(mr)).max(1)).min(k_len);
        for j in (0..nb).step_by(nr) {
            let cols = nr.min(nb - j);
            let vectors = cols.div_ceil(lanes);
            let tail = cols - (vectors - 1) * lanes;
            let whole = tail == lanes;
            let reading = match (packed, packed_b || whole) {
                (true, _) => Reading::Packed,
                (false, true) => Reading::Strided,
                (false, false) => Reading::Masked,
            };
            let b_base = b.base.wrapping_offset((j / nr) as isize * b.panel);
            let kernel = kernels.get(reading, mr.min(mb), vectors);
            // While this panel of B is used, the next one comes closer, a part with each micro-tile of a packed kernel.
            let next_b = b.base.wrapping_offset((j / nr + 1) as isize * b.panel).cast::<u8>();
            let fetch = if packed_b && j + nr < nb { next_lines } else { 0 };
            let (mut i, mut part) = (0, 0);
            while i < mb {
                let left = mb - i;
                // The last rows in two halves: one with few rows would wait for its own accumulators.
                let rows = if !packed_a && left > mr && left < 2 * mr { left.div_ceil(2) } else { mr.min(left) };
                let kernel = if rows == mr { kernel } else { kernels.get(reading, rows, vectors) };
                let c = target.c.wrapping_offset(i as isize * target.ld + j as isize);
                // The micro-tile below, or the first one of the next panel; after the last, the next K indices begin with the first again.
                let then = if i + rows < mb {
                    c.wrapping_offset(rows as isize * target.ld)
                } else {
                    target.c.wrapping_add(if j + nr < nb { j + nr } else { 0 })
                };
                let (next, lines) = match packed {
                    true => (next_b.wrapping_add(part * fetch * 64), fetch),
                    false => ahead.take(share),
                };
                let tile = MicroTile {
                    k: k_len,
                    a: a.base.wrapping_offset(if packed_a { (i / mr) as isize * a.panel } else { i as isize * a.row }),
                    a_row: a.row,
                    a_k: a.k,
                    b: b_base,
                    b_k: b.k,
                    c,
                    c_row: target.ld,
                    then,
                    add,
                    rows,
                    tail,
                    next,
                    lines,
                };
                // SAFETY: the caller's contract, for the rows and vectors of this micro-tile.
                unsafe { kernel(&tile) };
                i += rows;
                part += 1;
            }
        }
    }
}

/// Lines of memory that are read soon, in pieces of so many from an address on: the next matmul's operands.
struct Ahead([(*const u8, usize); 2]);

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead([(std::ptr::null(), 0); 2])
    }
}

impl Ahead {
    fn len(&self) -> usize {
        self.0[0].1 + self.0[1].1
    }

    /// The next lines, at most so many.
    fn take(&mut self, most: usize) -> (*const u8, usize) {
        let piece = &mut self.0[usize::from(self.0[0].1 == 0)];
        let (at, some) = (piece.0, piece.1.min(most));
        *piece = (at.wrapping_add(64 * some), piece.1 - some);
        (at, some)
    }
}

/// Rows of tiles in a band, where there are several threads.
const BAND: usize = 4;

/// Copies the accumulators of a tile.
///
/// # Safety
/// `from` is readable and `to` writable for `rows` by `cols`, they do not overlap, and nobody else uses them.
unsafe fn copy<T: Copy>(from: &TaskTarget<T>, to: &TaskTarget<T>, rows: usize, cols: usize) {
    for r in 0..rows as isize {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from.c.offset(r * from.ld), to.c.offset(r * to.ld), cols) };
    }
}

/// Where a task writes: rows `ld` apart, columns adjacent.
struct TaskTarget<T> {
    c: *mut T,
    ld: isize,
}

impl<T> TaskTarget<T> {
    fn plain(c: &Plain<'_, T>, batch: usize, row: usize, col: usize) -> TaskTarget<T> {
        TaskTarget { c: c.at(batch).wrapping_offset(row as isize * c.row + col as isize), ld: c.row }
    }
}
