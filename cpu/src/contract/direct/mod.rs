//! Contractions that read one operand in place: convolutions, above all.
//!
//! The packed GEMM copies both operands into panels. For a convolution one of them is an image of which every element
//! belongs to many windows: its panels are many times larger than the image, and each is used for a few output channels
//! only. Here the image's elements are broadcast from memory, found by the sum of two table entries (one for the
//! pixel of the window, one for the element in it), and multiplied with vectors of filters, which are packed. Products with
//! padding are left out where it counts as zero: pixels at the edges have tables of those elements that exist ([`Sets`]). Where too few
//! pixels would share one, or memory would be read badly, the image is copied with its border ([`Border`]); windows of one element whose
//! pixels are columns of the result are better copied by tiles ([`Tiles`]); nothing larger than that is ever
//! written. Where pixels are rows of the result, accumulators become results in registers; where they are columns, accumulators are transposed first.
//!
//! One operand are the *pixels* (windows; m or n of the contraction), the other the *channels*. How sums are grouped depends on
//! the sizes only, how the work is cut on the threads, too. Error bound: that of the packed GEMM, `(k + 2) * eps * sum |a| |b|`.

mod border;
mod kernel;
mod recognise;
mod tables;
mod tiles;

use std::cell::RefCell;

use crate::contract::packed::kernel::BUSY;
use crate::contract::packed::{Chain, Output, PackSource, PackedLayout, Plain, TileAt};
use crate::epilogue_chain::LINE;
use crate::shared::Shared;
use crate::simd::{Isa, MAX_LANES};
use crate::topology::Topology;
use crate::workers::Workers;
pub(crate) use border::Border;
use kernel::{Kernels, Listed, MOST_PIXELS, MicroTile};
pub(crate) use kernel::{transpose, transpose_eight};
pub(super) use recognise::{DirectWay, FAMILY};
use tables::PixelTables;
pub(crate) use tables::Sets;
use tiles::Tiles;

/// K indices of one pass, at most, of a narrow panel: the next piece of it is brought to L1 beside the present one.
const MOST_K: usize = 160;
/// Pixels of one task. Where panels are narrow and pixels are rows of the result, as many as their accumulators leave room for in L1; else more, so that there are several at each edge of an image.
const MOST_CHUNK: usize = 112;
const LONG_CHUNK: usize = 224;
/// Channels of one task, and of one where there are few tasks.
const CHANNELS: usize = 64;
const FEW_CHANNELS: usize = 32;
const FEW_TASKS: usize = 32;
/// Tasks for each thread, as long as they have so many pixels.
const TASKS_EACH: usize = 2;
/// Tasks for each thread below which long ones leave some threads without work in the end.
const EVEN_TASKS: usize = 6;
const LEAST_CHUNK: usize = 4 * MOST_PIXELS;

/// A contraction with its sizes and tables, ready for any memory.
pub(crate) struct Direct {
    kernels: &'static Kernels,
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    /// Whether pixels are the rows of the result (m) and channels its columns (n), or the other way round.
    pub(crate) pixels_are_rows: bool,
    pub(crate) pixels: usize,
    pub(crate) k_len: usize,
    /// From the element of index 0 (of the copy, if there is one) to that of each pixel and K index.
    tables: PixelTables,
    layout: PackedLayout,
    /// Where each matrix of the batch begins in the operand's memory.
    pub(crate) batches: Vec<isize>,
    copy: Option<Copied>,
    chunk: usize,
    group: usize,
    /// Channels whose filters are packed at a time.
    portion: usize,
    /// Whether neighbouring tasks have the same channels, not the same pixels: each thread then reads a part of the filters, where those are
    /// more than the image.
    by_channels: bool,
    /// Whether pixels are read in place, with contiguous K, so that prefetching them pays.
    contiguous_k: bool,
    /// Whether pixels lie one after the other, as rows of a matrix do.
    even: bool,
    /// Whether all filters stay in an L2 beside what else is there.
    filters_stay: bool,
    /// Whether results are prefetched before they are finished. Measured: those that a core's part of the last cache holds are found soon enough
    /// where accumulators are transposed first.
    prefetches: bool,
}

/// What is read instead of the image itself.
pub(crate) enum ImageReading {
    /// The image, in place.
    InPlace,
    /// The image, in place, without those elements of its windows that do not exist and count as zero.
    Inside(Sets),
    /// A copy with its border, of which pixels need these elements at least.
    Border(Border, Option<Sets>),
    /// A copy by tiles, of an image of which every element is read once.
    Tiles,
}

/// A copy of the image.
enum Copied {
    Border(Border),
    Tiles(Tiles),
}

impl Copied {
    fn elements(&self) -> usize {
        match self {
            Copied::Border(border) => border.elements(),
            Copied::Tiles(tiles) => tiles.elements(),
        }
    }

    fn tasks(&self) -> usize {
        match self {
            Copied::Border(border) => border.tasks(),
            Copied::Tiles(tiles) => tiles.tasks(),
        }
    }

    /// # Safety
    /// Every element of the image that is copied is readable from `image`, that of index 0; `to` is writable for [`Copied::elements`].
    unsafe fn copy(&self, task: usize, image: *const f32, to: *mut f32) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Copied::Border(border) => border.copy(task, image, to),
                Copied::Tiles(tiles) => tiles.copy(task, image, to),
            }
        }
    }
}

/// The filters of a run.
pub(crate) enum Filters<'a> {
    /// Packed before, by [`Direct::layout`]: one matrix's after the other's; after the last, they are the first one's again.
    Packed(&'a [f32]),
    /// Still to be packed.
    Source(&'a dyn PackSource<f32>),
}

/// How filters are packed, of which every tile reads all, and leaves so many cache lines of the image for the next one.
fn layout(kernels: &Kernels, caches: &Topology, channels: usize, k: usize, lines: usize) -> PackedLayout {
    let panel = kernels.panel;
    // What one pass over a panel reads, its vectors and those lines. Measured: narrow panels should stay in L1; wide ones come from the second
    // level as fast as they are needed, and shorter passes would write accumulators too often.
    let (pass, most_k) = if kernels.narrow() { (caches.l1().size / 2, MOST_K) } else { (caches.l2().size / 8, k) };
    let most = (pass / (panel * size_of::<f32>() + lines * LINE * size_of::<f32>() * 3 / 2 / k)).min(most_k);
    PackedLayout { rows: channels, k, panel, kc: k.div_ceil(k.div_ceil(most)) }
}

/// Cuts `n` into `parts` of almost equal sizes; the bounds of one.
pub(crate) fn part(n: usize, parts: usize, i: usize) -> (usize, usize) {
    let (each, more) = (n / parts, n % parts);
    (i * each + i.min(more), each + usize::from(i < more))
}

impl Direct {
    /// Whether there are kernels for an instruction set.
    pub(crate) fn available(isa: Isa) -> bool {
        Kernels::of(isa).is_some()
    }

    /// Whether pixels are rows of a matrix that lie one after the other, with contiguous K.
    pub(crate) fn is_matrix(&self) -> bool {
        self.pixels_are_rows && self.contiguous_k && self.even && self.is_whole()
    }

    /// Whether its panels of filters are narrow: few channels are computed for each time that pixels are read.
    pub(crate) fn is_narrow(isa: Isa) -> bool {
        Kernels::of(isa).is_some_and(Kernels::narrow)
    }

    /// A contraction; `None` where it has nothing to do, or too little for vectors of channels, or where there are no kernels.
    pub(crate) fn new(
        (isa, threads, caches): (Isa, usize, &Topology),
        (batches, same_filters): (Vec<isize>, bool),
        channels: usize,
        pixels_are_rows: bool,
        (pixels, k_offsets): (Vec<isize>, Vec<isize>),
        reading: ImageReading,
    ) -> Option<Direct> {
        let kernels = Kernels::of(isa)?;
        if channels < kernels.lanes || pixels.len() < MOST_PIXELS || k_offsets.is_empty() || batches.is_empty() {
            return None;
        }
        let long = !kernels.narrow() || !pixels_are_rows;
        let mut chunks = pixels.len().div_ceil(if long { LONG_CHUNK } else { MOST_CHUNK });
        let few = chunks.saturating_mul(channels.div_ceil(CHANNELS)).saturating_mul(batches.len()) < FEW_TASKS;
        let group = if few { FEW_CHANNELS } else { CHANNELS }.max(kernels.panel);
        // Portions are whole groups, and those are whole panels.
        debug_assert!(group.is_multiple_of(kernels.panel));
        // Without a copy of each image, and with the same filters, matrices of the batch are computed together.
        let together = same_filters && matches!(reading, ImageReading::InPlace | ImageReading::Inside(_));
        let matrices = if together { batches.len() } else { 1 };
        let groups = channels.div_ceil(group).saturating_mul(matrices);
        if threads > 1 && chunks.saturating_mul(groups) < EVEN_TASKS * threads {
            chunks = chunks.max(pixels.len().div_ceil(MOST_CHUNK));
        }
        // Each thread should have a few, although filters are read once more for each chunk.
        let wanted = (TASKS_EACH * threads).div_ceil(groups);
        chunks = chunks.max(wanted.min(pixels.len() / LEAST_CHUNK));
        let batch = batches.len();
        let far = 1 + k_offsets.windows(2).filter(|d| d[0].abs_diff(d[1]) >= LINE).count();
        let (copy, (pixels, k_offsets), lines, sets, join) = match reading {
            ImageReading::InPlace => (None, (pixels, k_offsets), far, None, None),
            ImageReading::Inside(sets) => (None, (pixels, k_offsets), far, Some(sets), None),
            ImageReading::Border(border, sets) => {
                let join = sets.as_ref().map(|_| kernels.full());
                (Some(Copied::Border(border)), (pixels, k_offsets), far, sets, join)
            }
            ImageReading::Tiles => {
                let tiles = Tiles::new(pixels, k_offsets, chunks);
                let tables = tiles.tables();
                (Some(Copied::Tiles(tiles)), tables, 0, None, None)
            }
        };
        let sets = sets.unwrap_or_else(|| Sets::whole(pixels.len(), k_offsets.len()));
        let layout = layout(kernels, caches, channels, k_offsets.len(), lines);
        let tables = PixelTables::new((&pixels, &k_offsets), sets, chunks, (layout.kc, layout.panel), join)?;
        // What is packed at a time where filters are not in the pack cache: each time, all threads meet. An image is copied once.
        let most = 2 * caches.l2().size * threads.div_ceil(2) / size_of::<f32>() / k_offsets.len();
        let portion = if copy.is_none() { most.max(1).next_multiple_of(group).min(channels) } else { channels };
        // Windows that share pixels are counted as if they did not: without a copy there are few such.
        let image = copy.as_ref().map_or(pixels.len().saturating_mul(k_offsets.len()), Copied::elements);
        let by_channels = threads > 1 && portion.saturating_mul(k_offsets.len()) > image;
        let bytes = |a: usize, b: usize| a.saturating_mul(b).saturating_mul(size_of::<f32>());
        let results = bytes(channels, pixels.len()).saturating_mul(batch);
        let contiguous_k = copy.is_none() && k_offsets.windows(2).all(|d| d[1] - d[0] == 1);
        Some(Direct {
            kernels,
            batch,
            channels,
            pixels_are_rows,
            pixels: pixels.len(),
            k_len: k_offsets.len(),
            tables,
            layout,
            batches,
            copy,
            chunk: chunks,
            group,
            portion,
            by_channels,
            contiguous_k,
            even: pixels.windows(3).all(|s| s[1] - s[0] == s[2] - s[1]),
            filters_stay: bytes(channels, k_offsets.len()) <= caches.l2().size / 2,
            prefetches: pixels_are_rows || results > caches.own_part() / 4,
        })
    }

    /// Channels of a vector.
    pub(crate) fn lanes(&self) -> usize {
        self.kernels.lanes
    }

    /// How filters are packed.
    pub(crate) fn layout(&self) -> PackedLayout {
        self.layout
    }

    /// Multiply-adds of one matrix of the batch that its tiles take the time of: those of few pixels take as long as larger ones.
    pub(crate) fn occupied(&self) -> u64 {
        let channels = self.channels.next_multiple_of(self.kernels.panel) as u64;
        self.tables.work(self.kernels.full()).saturating_mul(channels)
    }

    /// Elements of the copy of one image, if there is one.
    pub(crate) fn copy_elements(&self) -> Option<usize> {
        self.copy.as_ref().map(Copied::elements)
    }

    /// Multiply-adds that take as long as all that is done: those with elements that do not exist are left out, each tile takes some time beside its
    /// own, and a single vector of channels has too few accumulators to keep a core busy.
    pub(crate) fn computed(&self) -> u64 {
        let single = self.channels % self.kernels.panel;
        let single = if (1..=self.kernels.lanes).contains(&single) { single } else { 0 };
        let more = single * BUSY.saturating_sub(MOST_PIXELS) / MOST_PIXELS;
        self.tables.work(1).saturating_mul((self.channels + more) as u64).saturating_mul(self.batch as u64)
    }

    /// Whether all elements of all windows exist.
    pub(crate) fn is_whole(&self) -> bool {
        self.tables.multiplies() == self.pixels as u64 * self.k_len as u64
    }

    /// Channels, pixels and K of what registers, L1 and L2 hold.
    #[allow(clippy::type_complexity)]
    pub(crate) fn blocks(&self) -> ((usize, usize, usize), (usize, usize, usize), (usize, usize, usize)) {
        let (pixels, PackedLayout { panel, kc, .. }) = (self.pixels.div_ceil(self.chunk), self.layout());
        // All channels of a portion are computed for some pixels one after the other, by filters that stay near if they are few.
        let far = (self.portion, if self.filters_stay { self.pixels } else { pixels }, kc);
        ((panel, MOST_PIXELS, 1), (panel, pixels, kc), far)
    }

    /// Bytes of the image's copy, if there is one.
    pub(crate) fn copied(&self) -> u64 {
        self.copy.as_ref().map_or(0, Copied::elements) as u64 * self.batch as u64 * size_of::<f32>() as u64
    }

    /// Bytes of results that are transposed.
    pub(crate) fn transposed(&self) -> u64 {
        let elements = if self.pixels_are_rows { 0 } else { self.channels as u64 * self.pixels as u64 };
        elements * self.batch as u64 * size_of::<f32>() as u64
    }

    /// Tasks that it is cut into, for each matrix of the batch.
    pub(crate) fn tasks(&self) -> usize {
        self.chunk * self.channels.div_ceil(self.group)
    }

    /// Elements of scratch memory.
    pub(crate) fn scratch(&self) -> usize {
        self.packed().elements() + self.copy.as_ref().map_or(0, Copied::elements) + 2 * MAX_LANES
    }

    /// How filters are packed that are not in the pack cache.
    fn packed(&self) -> PackedLayout {
        PackedLayout { rows: self.portion, ..self.layout() }
    }

    /// Computes it. `image` is the operand's element of index 0, `scratch` has [`Direct::scratch`] elements.
    ///
    /// # Safety
    /// Every element of the operand that an index names at which its guards hold is readable; nobody writes it meanwhile. The
    /// output is that of this contraction.
    pub(crate) unsafe fn run(
        &self,
        workers: &Workers,
        image: *const f32,
        filters: &Filters<'_>,
        out: &Output<'_, f32>,
        scratch: &mut [f32],
    ) {
        let (room, copy) = scratch.split_at_mut(self.packed().elements());
        let copy = Shared(copy.as_mut_ptr());
        let room = Shared(room.as_mut_ptr());
        let image = Shared(image.cast_mut());
        let (portion, same) = match filters {
            Filters::Packed(_) => (self.channels, true),
            Filters::Source(source) => (self.portion, source.same_for_batch()),
        };
        // Matrices of the batch that need nothing done between them are computed together.
        let together = if same && self.copy.is_none() { self.batch } else { 1 };
        let steps = (0..self.channels).step_by(portion);
        for (first, b) in steps.flat_map(|c| (0..self.batch).step_by(together).map(move |b| (c, b))) {
            let some = portion.min(self.channels - first);
            let layout = PackedLayout { rows: some, ..self.layout() };
            // Filters, and for how many matrices there are some.
            let (packed, own): (&[f32], usize) = match filters {
                Filters::Packed(all) => (all, all.len() / layout.elements()),
                Filters::Source(source) => {
                    // SAFETY: the room has the layout's elements, and no task runs.
                    let room = unsafe { std::slice::from_raw_parts_mut(room.0, layout.elements()) };
                    if b == 0 || !same {
                        layout.write(*source, b, first, workers, room);
                    }
                    (room, 1)
                }
            };
            let mut base = Shared(image.at(0));
            if let Some(copied) = &self.copy {
                workers.run(copied.tasks(), &|i| {
                    // SAFETY: the caller's for what is read; the room has the copy's elements, each task writes its own.
                    unsafe { copied.copy(i, image.offset(self.batches[b]), copy.at(0)) };
                });
                base = Shared(copy.at(0));
            }
            let groups = some.div_ceil(self.group);
            let tasks = self.chunk * groups;
            workers.run(together * tasks, &|i| {
                let (b, i) = (b + i / tasks, i % tasks);
                let (chunk, group) =
                    if self.by_channels { (i % self.chunk, i / self.chunk) } else { (i / groups, i % groups) };
                let (pixel, pixels) = part(self.pixels, self.chunk, chunk);
                let channel = first + group * self.group;
                let channels = self.group.min(first + some - channel);
                let task = Task { b, chunk, pixel, pixels, channel, channels, fresh: true };
                let packed = packed[b % own * layout.elements()..].as_ptr();
                let panels = FilterPanels { packed, first, padded: layout.padded_rows(), channels: some };
                let image = if self.copy.is_some() { base.at(0) } else { base.offset(self.batches[b]) };
                // SAFETY: the caller's; tasks write different parts of the output.
                unsafe { self.task(&task, image, &panels, out) };
            });
        }
    }

    /// # Safety
    /// As for [`Direct::run`], with the image of this matrix and packed filters.
    unsafe fn task(&self, task: &Task, image: *const f32, filters: &FilterPanels, out: &Output<'_, f32>) {
        thread_local! {
            static ACCUMULATORS: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
        }
        let chain = out.chain(task.b);
        let width = self.kernels.panel;
        ACCUMULATORS.with_borrow_mut(|(acc, transposed)| {
            let room = task.pixels * width;
            if acc.len() < room {
                acc.resize(room, 0.0);
            }
            let acc = &mut acc[..room];
            for panel in (0..task.channels).step_by(width) {
                let (channel, channels) = (task.channel + panel, width.min(task.channels - panel));
                let task = Task { channel, channels, fresh: panel == 0, ..*task };
                // Results that are whole vectors go where they belong straight from registers.
                let whole = !self.pixels_are_rows || task.channels.is_multiple_of(self.kernels.lanes);
                let chain = chain.as_ref().filter(|_| whole);
                // SAFETY: the caller's.
                unsafe { self.sum(&task, image, filters, acc, chain) };
                match chain {
                    Some(_) if self.pixels_are_rows => {}
                    // SAFETY: these are elements of this task; there are as many rows of accumulators as pixels.
                    Some(chain) => unsafe {
                        let sizes = (task.pixels, task.channels);
                        kernel::finish(acc, width, sizes, chain, (task.channel, task.pixel));
                    },
                    None if self.pixels_are_rows => self.store_rows(&task, acc, out),
                    None => self.store_columns(&task, acc, transposed, out),
                }
            }
        });
    }

    /// The accumulators of a task of one panel of channels, `[pixels][panel]`, or, where pixels are rows and there is a chain, its results. What
    /// the chain needs is prefetched.
    ///
    /// # Safety
    /// As for [`Direct::task`].
    unsafe fn sum(
        &self,
        task: &Task,
        image: *const f32,
        filters: &FilterPanels,
        acc: &mut [f32],
        chain: Option<&Chain>,
    ) {
        let layout = self.layout;
        let (k, width) = (layout.k, layout.panel);
        let &FilterPanels { packed, first: of, padded, channels } = filters;
        let runs = self.tables.runs(task.chunk);
        let tiles: usize = runs.iter().map(|run| run.tiles).sum();
        let panel_at =
            |start: usize, channel: usize| padded * start + (channel - of) * layout.kc.min(k.saturating_sub(start));
        for (piece, start) in (0..k).step_by(layout.kc).enumerate() {
            let k_len = layout.kc.min(k - start);
            let last = start + k_len == k;
            // What is read after this piece of the panel: each tile fetches its share of it. After the last panel that is the first one
            // again, unless they are the same: of all, or of the task's, where the next task has the same channels.
            let again = self.by_channels && task.chunk + 1 < self.chunk;
            let begin = if again { task.channel - (task.channel - of) % self.group } else { of };
            let end = if again { (begin + self.group).min(of + channels) } else { of + channels };
            let after = if task.channel + width < end { task.channel + width } else { begin };
            let mut next = if last { panel_at(0, after) } else { panel_at(start + k_len, task.channel) };
            let share = if last && after == task.channel { 0 } else { k_len.div_ceil(tiles) };
            let mut done = 0;
            for run in runs {
                let (pixels, k_indices) = (self.tables.pixels(run), self.tables.k_indices(run, piece));
                let chain = chain.filter(|_| last && self.prefetches);
                // Where pixels are columns, all that is prefetched is used after the last tile.
                let pixel = if self.pixels_are_rows { pixels[0].at as usize } else { task.pixel + done };
                let (results, area) = ((pixel, task.channel), (pixels.len(), task.channels));
                let ((row, col), (rows, cols)) =
                    if self.pixels_are_rows { (results, area) } else { ((results.1, results.0), (area.1, area.0)) };
                let tile = MicroTile {
                    image,
                    tiles: run.tiles,
                    pixels: pixels.as_ptr(),
                    k_indices: k_indices.as_ptr(),
                    k: k_indices.len(),
                    listed: match (k_indices.len() < k_len, run.even) {
                        (true, _) => Listed::PixelsAndK,
                        (false, false) => Listed::Pixels,
                        (false, true) => Listed::Nothing,
                    },
                    filters: packed.wrapping_add(panel_at(start, task.channel)),
                    acc: acc.as_mut_ptr(),
                    first: task.pixel,
                    add: start > 0,
                    row,
                    col,
                    rows,
                    cols,
                    finish: self.pixels_are_rows,
                    prefetch_pixels: self.contiguous_k && task.fresh,
                    next: packed.wrapping_add(next),
                    ahead: share,
                };
                next += run.tiles * share * width;
                // SAFETY: pixels and K indices are in the tables, so that what they name is readable; the filters' panel has
                // `k_len` vectors; the accumulators have rows for the task's pixels, and the chain has these elements, which are the task's.
                unsafe { self.kernels.run(&tile, chain, run.count, task.channels) };
                done += pixels.len();
            }
        }
    }

    /// Gives accumulators away whose rows are pixels.
    fn store_rows(&self, task: &Task, acc: &[f32], out: &Output<'_, f32>) {
        let &Task { b, pixel, pixels, channel, channels, .. } = task;
        let wide = self.kernels.panel;
        match out {
            Output::Sink(sink) => {
                let at = TileAt { batch: b, row: pixel, col: channel, rows: pixels, cols: channels, ld: wide };
                sink.store(&at, acc);
            }
            Output::Plain(c) => {
                for (i, row) in acc.chunks_exact(wide).enumerate() {
                    let at = TileAt { batch: b, row: pixel + i, col: channel, rows: 1, cols: channels, ld: channels };
                    scatter(c, &at, &row[..channels]);
                }
            }
        }
    }

    /// Gives a panel's accumulators away, whose rows become columns.
    fn store_columns(&self, task: &Task, acc: &[f32], transposed: &mut Vec<f32>, out: &Output<'_, f32>) {
        let &Task { b, pixel, pixels, channel, channels, .. } = task;
        if transposed.len() < channels * pixels {
            transposed.resize(channels * pixels, 0.0);
        }
        // SAFETY: there is room for every channel's row of pixels.
        unsafe {
            let wide = self.kernels.panel as isize;
            kernel::transpose(acc.as_ptr(), wide, pixels, channels, transposed.as_mut_ptr(), pixels as isize)
        };
        let tile = &transposed[..channels * pixels];
        let at = TileAt { batch: b, row: channel, col: pixel, rows: channels, cols: pixels, ld: pixels };
        match out {
            Output::Sink(sink) => sink.store(&at, tile),
            Output::Plain(c) => scatter(c, &at, tile),
        }
    }
}

/// Writes a tile element by element. Its elements belong to the caller's task.
pub(crate) fn scatter(c: &Plain<'_, f32>, at: &TileAt, tile: &[f32]) {
    for (i, row) in tile.chunks(at.ld).take(at.rows).enumerate() {
        let to = c.at(at.batch).wrapping_offset((at.row + i) as isize * c.row + at.col as isize * c.col);
        for (j, &v) in row[..at.cols].iter().enumerate() {
            // SAFETY: the element is in the contraction's output and belongs to the task whose tile this is.
            unsafe { to.wrapping_offset(j as isize * c.col).write(v) };
        }
    }
}

/// Packed filters: those of so many channels from `first` on, with as many as fill the last panel.
struct FilterPanels {
    packed: *const f32,
    first: usize,
    padded: usize,
    channels: usize,
}

/// A part of the result.
struct Task {
    b: usize,
    /// Its pixels, by their part of all, and by their numbers.
    chunk: usize,
    pixel: usize,
    pixels: usize,
    channel: usize,
    channels: usize,
    /// Its pixels have not been read yet.
    fresh: bool,
}
