//! Matmuls whose right operand lies in memory row after row, as a convolution by single elements reads its image, or in lines of pixels.
//!
//! The right operand is taken a few vectors of columns at a time: they are copied to L1 just before their use, and
//! multiplied with all rows of a task, which are packed. So nothing of it is written out, and a finished strip of columns leaves for the
//! output at once. What the next strip and the epilogue will read is prefetched, while the present strip is multiplied.
//!
//! The windows of an image whose pixels lie in lines of whole vectors, as those of a network's first layer do, are read in place
//! instead, by a table of their elements: nothing is transposed, as it is where vectors are channels ([`crate::contract::direct`]). An image of several channels with a border along
//! both of its axes is copied before, by each task the rows that it needs; pixels a stride apart are adjacent there.
//!
//! How sums are grouped depends on the sizes only, how the work is cut on the threads, too. Error bound: that of the packed GEMM, `(k + 2) * eps * sum |a| |b|`.

mod kernel;
mod recognise;

use std::cell::RefCell;

use crate::contract::direct::{Border, Filters, part, scatter};
use crate::contract::packed::{Chain, Output, PackedLayout, TileAt};
use crate::epilogue_chain::{fetch, fetch_pieces};
use crate::shared::Shared;
use crate::simd::Isa;
use crate::topology::Topology;
use crate::workers::Workers;
use kernel::{Kernels, LINE, MicroTile, PanelLine, ROWS};
pub(super) use recognise::{ColumnsWay, FAMILY};

/// Most K indices of a pass: a strip's lines then fill half of an L1, or a little more where strips are wide. Those that are not
/// copied come from farther away in any case.
const MOST_K: usize = 256;
const WIDE_K: usize = 128;
const LISTED_K: usize = 512;
/// Tiles that one call of a kernel computes.
const TILES: usize = 4;
/// Columns of a task.
const MOST_COLUMNS: usize = 112;
/// Tasks that there should be, at least and for each thread, as long as each has so many rows, or fewer where there are many
/// threads.
const TASKS: usize = 8;
const TASKS_EACH: usize = 2;
const LEAST_ROWS: usize = 96;
const FEW_ROWS: usize = 48;

/// A matmul with its sizes, ready for any memory.
pub(crate) struct Columns {
    kernels: &'static Kernels,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Where each matrix of the batch begins in the right operand's memory; all share the left operand.
    pub(crate) batches: Vec<isize>,
    right: Right,
    /// Parts that rows, and that strips, are cut into.
    parts: usize,
    chunks: usize,
}

/// Where the right operand's elements lie.
pub(crate) enum Right {
    /// Columns contiguous, and so many elements from one row to the next; in a copy, if there is one.
    Rows(isize, Option<Border>),
    /// The pixels of windows.
    Windows(PixelLines),
}

/// Windows that begin in contiguous lines of pixels.
pub(crate) struct PixelLines {
    /// Pixels of a line.
    wide: usize,
    /// Where lines begin; with a copy, those of one task.
    lines: Vec<isize>,
    /// From the beginning of a window to its elements of each K index.
    k_offsets: Vec<i32>,
    copy: Option<ImagePart>,
}

/// The part of an image, with its border, that a task copies for its lines.
pub(crate) struct ImagePart {
    pub(crate) border: Border,
    /// Coordinates of the border's second axis from one line to the next.
    pub(crate) stride: usize,
    /// Tasks that all lines are cut into.
    pub(crate) tasks: usize,
}

impl PixelLines {
    /// Whether strips are so wide that windows are worth their tables: measured, narrow ones of few K indices take too long.
    pub(crate) fn available(isa: Isa) -> bool {
        Kernels::of(isa).is_some_and(|kernels| kernels.panel > LINE)
    }

    /// Windows that begin and have their elements at these offsets from index 0; `None` where they do not begin in lines of as many whole vectors.
    pub(crate) fn in_memory(isa: Isa, pixels: &[isize], k_offsets: &[isize]) -> Option<PixelLines> {
        let wide = pixels.windows(2).position(|p| p[1] - p[0] != 1).map_or(pixels.len(), |i| i + 1);
        PixelLines::new(isa, wide, pixels, k_offsets, None)
    }

    /// The same in a copy for the lines of one task, of so many pixels each.
    pub(crate) fn copied(
        isa: Isa,
        wide: usize,
        pixels: &[isize],
        k_offsets: &[isize],
        part: ImagePart,
    ) -> Option<PixelLines> {
        PixelLines::new(isa, wide, pixels, k_offsets, Some(part))
    }

    fn new(
        isa: Isa,
        wide: usize,
        pixels: &[isize],
        k_offsets: &[isize],
        copy: Option<ImagePart>,
    ) -> Option<PixelLines> {
        let lanes = Kernels::of(isa)?.lanes;
        let side_by_side = |line: &[isize]| line.len() == wide && line.windows(2).all(|p| p[1] - p[0] == 1);
        if wide == 0 || !wide.is_multiple_of(lanes) || !pixels.chunks(wide).all(side_by_side) {
            return None;
        }
        let lines = pixels.iter().step_by(wide).copied().collect();
        let k_offsets = k_offsets.iter().map(|&d| i32::try_from(d).ok()).collect::<Option<Vec<i32>>>()?;
        Some(PixelLines { wide, lines, k_offsets, copy })
    }
}

/// Tasks that there should be on so many threads, at least.
pub(crate) fn tasks(threads: usize) -> usize {
    TASKS.max(TASKS_EACH * threads)
}

impl Columns {
    /// Whether there are kernels for an instruction set.
    pub(crate) fn available(isa: Isa) -> bool {
        Kernels::of(isa).is_some()
    }

    /// A matmul; `None` where it has nothing to do, or too little for whole panels, or where there are no kernels.
    pub(crate) fn new(
        (isa, threads, caches): (Isa, usize, &Topology),
        (m, n, k): (usize, usize, usize),
        batches: Vec<isize>,
        right: Right,
    ) -> Option<Columns> {
        let kernels = Kernels::of(isa)?;
        if m < 2 * ROWS || n < kernels.panel || k < kernels.lanes || batches.is_empty() {
            return None;
        }
        let (lines, wide) = lines(&right, n);
        let strips = lines * wide.div_ceil(kernels.panel);
        let part = match &right {
            Right::Windows(windows) => windows.copy.as_ref(),
            Right::Rows(..) => None,
        };
        let chunks = part.map_or(strips.div_ceil(MOST_COLUMNS.div_ceil(kernels.panel)), |part| part.tasks);
        // The part of the left operand that one task reads should stay in an L2.
        let fit = m.checked_mul(k)?.checked_mul(size_of::<f32>())?.div_ceil(caches.l2().size / 2);
        let tasks = tasks(threads);
        let rows = if tasks > TASKS { FEW_ROWS } else { LEAST_ROWS };
        let parts = fit.max(tasks.div_ceil(chunks)).clamp(1, (m / rows).max(1));
        // Few rows: more tasks have fewer columns.
        let more = threads > 1 && part.is_none();
        let chunks = if more { chunks.max(tasks.div_ceil(parts).min(strips)) } else { chunks };
        Some(Columns { kernels, m, n, k, batches, right, parts, chunks })
    }

    /// Whether columns are the pixels of windows.
    pub(crate) fn has_windows(&self) -> bool {
        matches!(self.right, Right::Windows(_))
    }

    /// Columns that are taken at a time.
    pub(crate) fn panel(&self) -> usize {
        self.kernels.panel
    }

    /// Columns of a vector.
    pub(crate) fn lanes(&self) -> usize {
        self.kernels.lanes
    }

    /// How the left operand is packed.
    pub(crate) fn layout(&self) -> PackedLayout {
        let most = match self.right {
            Right::Windows(_) => LISTED_K,
            Right::Rows(..) if self.kernels.panel > LINE => WIDE_K,
            Right::Rows(..) => MOST_K,
        };
        let kc = self.k.div_ceil(self.k.div_ceil(most));
        PackedLayout { rows: self.m, k: self.k, panel: ROWS, kc }
    }

    /// How the right operand is packed where it is in the pack cache: as strips are copied otherwise, if they are.
    pub(crate) fn right_layout(&self) -> Option<PackedLayout> {
        (!self.has_windows()).then(|| PackedLayout { rows: self.n, panel: self.panel(), ..self.layout() })
    }

    /// The lines of columns, and the strips of each.
    fn strips(&self) -> (usize, usize) {
        let (lines, wide) = lines(&self.right, self.n);
        (lines, wide.div_ceil(self.panel()))
    }

    /// A strip's line, the first of its columns there, and how many it has.
    fn strip(&self, i: usize) -> (usize, usize, usize) {
        let (_, wide) = lines(&self.right, self.n);
        let each = wide.div_ceil(self.panel());
        let (line, at) = (i / each, i % each * self.panel());
        (line, at, self.panel().min(wide - at))
    }

    /// Rows, columns and K of what registers, L1 and L2 hold.
    pub(crate) fn blocks(&self) -> [(usize, usize, usize); 3] {
        let (rows, columns) = (self.m.div_ceil(self.parts), self.n.div_ceil(self.chunks));
        let (kc, panel) = (self.layout().kc, self.panel());
        [(ROWS, panel, 1), (rows, panel, kc), (rows, columns, kc)]
    }

    /// Bytes that are copied and read again from farther away than L1.
    pub(crate) fn copied(&self) -> u64 {
        let (elements, times) = match &self.right {
            Right::Rows(_, border) => (border.as_ref().map_or(0, Border::elements), 1),
            Right::Windows(w) => (w.copy.as_ref().map_or(0, |part| part.border.elements()), self.chunks * self.parts),
        };
        let bytes = (elements * size_of::<f32>()) as u64;
        bytes.saturating_mul(times as u64).saturating_mul(self.batches.len() as u64)
    }

    /// Elements of scratch memory.
    pub(crate) fn scratch(&self) -> usize {
        self.layout().elements() + self.border().map_or(0, Border::elements)
    }

    /// The copy of all rows, if there is one.
    fn border(&self) -> Option<&Border> {
        match &self.right {
            Right::Rows(_, border) => border.as_ref(),
            Right::Windows(_) => None,
        }
    }

    /// Computes it. `right` is the operand's element of index 0, `packed` its form by [`Columns::right_layout`], if it is cached, for a
    /// batch of one; `scratch` has [`Columns::scratch`] elements.
    ///
    /// # Safety
    /// Every element of the right operand is readable; nobody writes it meanwhile. The output is that of this matmul.
    pub(crate) unsafe fn run(
        &self,
        workers: &Workers,
        right: *const f32,
        packed: Option<&[f32]>,
        left: &Filters<'_>,
        out: &Output<'_, f32>,
        scratch: &mut [f32],
    ) {
        let layout = self.layout();
        let (room, copy) = scratch.split_at_mut(layout.elements());
        let left = match left {
            Filters::Packed(all) => Shared::read(all.as_ptr()),
            Filters::Source(source) => {
                layout.write(*source, 0, 0, workers, room);
                Shared::read(room.as_ptr())
            }
        };
        let copy = Shared(copy.as_mut_ptr());
        let panels = self.m.div_ceil(ROWS);
        let (lines, each) = self.strips();
        // What is copied for a task are whole lines.
        let copied = matches!(&self.right, Right::Windows(PixelLines { copy: Some(_), .. }));
        let (units, unit) = if copied { (lines, each) } else { (lines * each, 1) };
        for (b, &begin) in self.batches.iter().enumerate() {
            let mut right = Shared::read(right.wrapping_offset(begin));
            if let Some(border) = self.border() {
                workers.run(border.tasks(), &|i| {
                    // SAFETY: the caller's for what is read; the copy has the border's elements, each task writes its own.
                    unsafe { border.copy(i, right.at(0), copy.at(0)) };
                });
                right = Shared(copy.at(0));
            }
            workers.run(self.parts * self.chunks, &|i| {
                // Neighbours in n one after the other: they share rows, which then stay near.
                let (first, count) = part(panels, self.parts, i / self.chunks);
                let (begin, some) = part(units, self.chunks, i % self.chunks);
                let (strip, strips) = (begin * unit, some * unit);
                let row = first * ROWS;
                let task = Task { b, row, rows: (count * ROWS).min(self.m - row), strip, strips };
                // SAFETY: the caller's; tasks write different parts of the output.
                unsafe { self.task(&task, left.at(0), right.at(0), packed, out) };
            });
        }
    }

    /// # Safety
    /// As for [`Columns::run`], with the packed left operand.
    unsafe fn task(
        &self,
        task: &Task,
        left: *const f32,
        right: *const f32,
        packed: Option<&[f32]>,
        out: &Output<'_, f32>,
    ) {
        thread_local! {
            static ROOM: RefCell<[Vec<PanelLine>; 3]> = const { RefCell::new([const { Vec::new() }; 3]) };
        }
        let (wide, of) = (self.panel(), self.panel() / LINE);
        let (windows, chain) = (self.windows(), out.chain(task.b));
        ROOM.with_borrow_mut(|[lines, acc, copy]| {
            // SAFETY: the caller's.
            let (right, first_line) = unsafe { self.own_copy(task, right, copy) };
            at_least(lines, self.layout().kc * of);
            at_least(acc, task.rows * of);
            let acc: *mut f32 = acc.as_mut_ptr().cast();
            for i in task.strip..task.strip + task.strips {
                let (line, at, width) = self.strip(i);
                let (col, begin) = match windows {
                    None => (at, at as isize),
                    Some(w) => (line * w.wide + at, w.lines[line - first_line] + at as isize),
                };
                // Results that are whole vectors go where they belong straight from registers.
                let chain = chain.as_ref().filter(|_| width.is_multiple_of(self.kernels.lanes));
                let strip = ColumnStrip { task, i, left, right, packed, acc, chain, begin, col, width };
                // SAFETY: the caller's; the room has a block's lines and a panel's accumulators for each row.
                unsafe { self.compute(&strip, lines) };
                if chain.is_some() {
                    continue;
                }
                let at = TileAt { batch: task.b, row: task.row, col, rows: task.rows, cols: width, ld: wide };
                // SAFETY: there are a panel's accumulators for each row.
                let tile = unsafe { std::slice::from_raw_parts(acc, task.rows * wide) };
                match out {
                    Output::Sink(sink) => sink.store(&at, tile),
                    Output::Plain(c) => scatter(c, &at, tile),
                }
            }
        });
    }

    fn windows(&self) -> Option<&PixelLines> {
        match &self.right {
            Right::Rows(..) => None,
            Right::Windows(windows) => Some(windows),
        }
    }

    /// The image as a task reads it, copied to the room if it has a border, and which of its lines is the first in the table.
    ///
    /// # Safety
    /// As for [`Columns::run`].
    unsafe fn own_copy(&self, task: &Task, right: *const f32, room: &mut Vec<PanelLine>) -> (*const f32, usize) {
        let Some(windows) = self.windows() else { return (right, 0) };
        let Some(ImagePart { border, stride, .. }) = &windows.copy else { return (right, 0) };
        at_least(room, border.elements().div_ceil(LINE));
        let (_, each) = self.strips();
        let first = task.strip / each;
        let missing = windows.lines.len() - task.strips / each;
        // SAFETY: the caller's for what is read; the room has the border's elements.
        unsafe { border.copy_from(first, missing, *stride, right, room.as_mut_ptr().cast()) };
        (room.as_ptr().cast(), first)
    }

    /// Computes a strip, block by block of K.
    ///
    /// # Safety
    /// As for [`Columns::run`]; `lines` has room for a block, the strip's accumulators for each row of the task.
    unsafe fn compute(&self, strip: &ColumnStrip<'_>, lines: &mut [PanelLine]) {
        let &ColumnStrip { task, right, packed, begin, col, width, .. } = strip;
        let (layout, wide) = (self.layout(), self.panel());
        let (all_lines, each) = self.strips();
        // Elements from one row to the next, of an operand that is copied strip by strip unless it is packed.
        let (row_stride, windows) = match &self.right {
            Right::Rows(stride, _) => (*stride, None),
            Right::Windows(windows) => (0, Some(windows)),
        };
        let mut start = 0;
        while start < self.k {
            let k_len = layout.kc.min(self.k - start);
            let last = start + k_len == self.k;
            let from = right.wrapping_offset(start as isize * row_stride + begin);
            let (columns, k_offsets): (*const f32, *const i32) = match (packed, windows) {
                (_, Some(windows)) => (from, windows.k_offsets[start..].as_ptr()),
                (Some(all), None) => {
                    (all[all_lines * each * wide * start + col * k_len..][..k_len * wide].as_ptr(), std::ptr::null())
                }
                (None, None) => {
                    // SAFETY: the operand's elements in these rows and columns.
                    unsafe { self.kernels.pack(from, row_stride, width, &mut lines[..k_len * (wide / LINE)]) };
                    (lines.as_ptr().cast(), std::ptr::null())
                }
            };
            // What is copied after this: each tile prefetches its share of it.
            let next =
                if last { right.wrapping_add(col + wide) } else { from.wrapping_offset(k_len as isize * row_stride) };
            let tiles = task.rows.div_ceil(ROWS);
            let share = if packed.is_some() || windows.is_some() { 0 } else { k_len.div_ceil(tiles) };
            let pass = KPass { start, k_len, last, columns, k_offsets, next, row_stride, share };
            // SAFETY: the caller's; the columns have `k_len` rows.
            unsafe { self.pass(strip, &pass) };
            start += k_len;
        }
    }

    /// Multiplies all rows of a task with a block of a strip.
    ///
    /// # Safety
    /// As for [`Columns::compute`], with the block's columns.
    unsafe fn pass(&self, strip: &ColumnStrip<'_>, pass: &KPass) {
        let &ColumnStrip { task, i, left, acc, chain, col, width, .. } = strip;
        let &KPass { start, k_len, row_stride, .. } = pass;
        let (wide, (all_lines, each)) = (self.panel(), self.strips());
        let strips = all_lines * each;
        let panel = left.wrapping_add(self.m.next_multiple_of(ROWS) * start + task.row * k_len);
        let most = self.kernels.most_rows(width);
        let (mut row, mut fetched) = (0, 0);
        while row < task.rows {
            let left = task.rows - row;
            let rows = if left < 2 * ROWS { left.min(ROWS) } else { most };
            // Tiles of as many rows, a few at a time, so that what is needed later is prefetched a few lines at a time.
            let some = (left / rows).min(TILES);
            let (all, panels) = (some * rows, (some * rows).div_ceil(ROWS));
            let more = (panels * pass.share).min(k_len - fetched);
            let from = pass.next.wrapping_offset(fetched as isize * row_stride);
            fetch_pieces::<false>(from, row_stride, more, wide);
            fetched += more;
            // The rows of the next part: over all strips, each tile prefetches its panel there.
            let each = panels * ROWS * k_len / LINE / strips + 1;
            let later = panel.wrapping_add((task.rows.next_multiple_of(ROWS) + row) * k_len);
            fetch::<false>(later.wrapping_add(i * each * LINE), LINE as isize, each);
            let acc = acc.wrapping_add(row * wide);
            let mut tile = MicroTile {
                tiles: some,
                k: k_len,
                left: panel.wrapping_add(row * k_len),
                right: pass.columns,
                k_offsets: pass.k_offsets,
                from: if start > 0 { acc } else { std::ptr::null() },
                to: acc,
                stride: wide as isize,
                row: task.row + row,
                col,
                ahead: (0, 0),
                rows: 0,
                cols: wide,
            };
            let chain = chain.filter(|_| pass.last);
            if let Some(chain) = chain {
                tile.to = chain.to.wrapping_offset(tile.row as isize * chain.row).wrapping_add(col);
                tile.stride = chain.row;
                // The tiles after these: prefetched now, their lines come in time.
                let after = if all < left { row + all } else { 0 };
                tile.ahead = (task.row + after, if after > 0 { col } else { col + width });
                tile.rows = all.min(task.rows - after);
            }
            // SAFETY: the packed operand has these panels, the strip `k_len` rows; there are a panel's accumulators for each row, and
            // the output and what it is made of have these rows and columns, which are the task's.
            unsafe { self.kernels.run(&tile, chain, rows, width) };
            row += all;
        }
    }
}

/// Makes room for so many lines.
fn at_least(room: &mut Vec<PanelLine>, lines: usize) {
    if room.len() < lines {
        room.resize(lines, PanelLine([0.0; LINE]));
    }
}

/// Lines of columns, and columns of a line; all rows of `n` columns are one.
fn lines(right: &Right, n: usize) -> (usize, usize) {
    match right {
        Right::Rows(..) => (1, n),
        Right::Windows(windows) => (n / windows.wide, windows.wide),
    }
}

/// A part of the result.
struct Task {
    b: usize,
    row: usize,
    rows: usize,
    strip: usize,
    strips: usize,
}

/// A strip of a task's columns, and what it is computed from.
struct ColumnStrip<'a> {
    task: &'a Task,
    /// Its number among those of the matmul.
    i: usize,
    left: *const f32,
    right: *const f32,
    packed: Option<&'a [f32]>,
    /// The accumulators of the task's rows.
    acc: *mut f32,
    chain: Option<&'a Chain>,
    /// Where it begins in the right operand, and its columns in the result.
    begin: isize,
    col: usize,
    width: usize,
}

/// A block of K of a strip.
struct KPass {
    start: usize,
    k_len: usize,
    last: bool,
    columns: *const f32,
    k_offsets: *const i32,
    /// What is copied after this block, from row to row, and how much of it each panel prefetches.
    next: *const f32,
    row_stride: isize,
    share: usize,
}
