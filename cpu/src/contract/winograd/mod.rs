//! Convolutions by 3 x 3 filters at every pixel, with fewer multiplications: Winograd's algorithm.
//!
//! An image is cut into tiles of `m` x `m` results. The `m + 2` x `m + 2` elements that a tile depends on are transformed, and so
//! are the filters; then element by element of the transforms, the sums over channels are matmuls, `(m + 2)^2` of
//! them; transforming these back gives the results. It takes 4 multiplications (`m = 2`) or 2.25 (`m = 4`) for a result and channel
//! where the sum itself takes 9, and loses bits: see [`transform`] for the bound. It is used only where that is allowed.
//!
//! How the work flows: rows of tiles are taken in chunks whose transforms stay in L2. First all tasks
//! transform the chunk's image, vectors being channels; then each multiplies a part of the tiles with some output channels, for one
//! element of the transform after the other, and transforms what it has got to results, which leave through the output while
//! they are still near. How sums are grouped depends on the number of channels only.

mod recognise;
mod strip;
mod transform;

use std::cell::RefCell;

use crate::contract::direct::{scatter, transpose};
use crate::contract::packed::{Micro, Output, Rows, TileAt};
use crate::shared::Shared;
use crate::simd::{Isa, vectorize};
use crate::workers::Workers;
pub(super) use recognise::{LARGE, SMALL, WinogradWay};
use transform::{BLOCK, Filter, Image, Results, filter_matrix};

/// Most channels that are summed at a stretch: a panel of filters should fit L1.
const MOST_K: usize = 256;
/// Tasks for each thread, where there are several.
const TASKS_EACH: usize = 2;
/// The parts of L2 that the transforms of a chunk's image and of a task's matmuls may take.
const IMAGE_SHARE: (usize, usize) = (1, 2);
const MATMUL_SHARE: (usize, usize) = (1, 4);

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Matrices of the contraction's batch, and images in each.
    pub(crate) batch: usize,
    pub(crate) images: usize,
    pub(crate) channels: usize,
    pub(crate) filters: usize,
    /// Rows and columns of a result.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// A coordinate of the image: pixel plus tap plus `offset`; there are elements where it is from 0 up to `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageAxis {
    /// Elements from one coordinate to the next.
    pub(crate) step: isize,
    pub(crate) offset: isize,
    pub(crate) limit: isize,
}

/// Where the image's elements lie, from the address that a run is given.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    /// To each matrix of the batch.
    pub(crate) batches: Vec<isize>,
    /// From one image, and from one channel, to the next.
    pub(crate) image: isize,
    pub(crate) channel: isize,
    /// To the element of all coordinates 0.
    pub(crate) first: isize,
    pub(crate) y: ImageAxis,
    pub(crate) x: ImageAxis,
    /// Whether pixels are rows of the result and channels its columns, or the other way round.
    pub(crate) pixels_are_rows: bool,
}

/// Where the filters' elements lie, from the address that a run is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterStrides {
    pub(crate) first: isize,
    pub(crate) output: isize,
    pub(crate) channel: isize,
    pub(crate) y: isize,
    pub(crate) x: isize,
}

/// A convolution ready for any memory.
pub(crate) struct Winograd {
    /// Results of a tile along each axis: 2 or 4.
    pub(crate) m: usize,
    pub(crate) sizes: Sizes,
    pub(crate) filters: FilterStrides,
    picture: Picture,
    isa: Isa,
    micro: Micro,
    /// Rows of tiles of an image, tiles of such a row.
    bands: usize,
    tiles_per_row: usize,
    /// Rows of tiles of a chunk, and of a task.
    chunk: usize,
    task: usize,
    /// Output channels of a task.
    group: usize,
    /// Rows of tiles and output channels of a task of one thread alone.
    alone: (usize, usize),
}

/// Elements between neighbours such that many of them do not crowd a few sets of a cache.
fn pitch(elements: usize) -> usize {
    let lines = elements.div_ceil(BLOCK);
    (lines + 1 - lines % 2) * BLOCK
}

/// Rows of tiles and output channels of a task, such that there are enough tasks for all threads: fewer channels than one thread
/// would take, then fewer rows, but no fewer than `least` of each.
fn spread(
    (task, group): (usize, usize),
    (rows, outputs): (usize, usize),
    least: (usize, usize),
    threads: usize,
) -> (usize, usize) {
    if threads <= 1 {
        return (task, group);
    }
    let wanted = TASKS_EACH * threads;
    let panels = outputs.div_ceil(least.1);
    let groups = wanted.div_ceil(rows.div_ceil(task)).min(panels);
    let group = group.min(panels.div_ceil(groups) * least.1);
    let parts = wanted.div_ceil(outputs.div_ceil(group));
    (task.min(rows.div_ceil(parts).max(least.0)), group)
}

impl Winograd {
    /// A convolution; `None` where it has nothing to do, or where the machine has no kernels for it.
    pub(crate) fn new(
        m: usize,
        sizes: Sizes,
        picture: Picture,
        filters: FilterStrides,
        (isa, gemm): (Isa, crate::contract::packed::MicroKernel),
        near: usize,
        threads: usize,
    ) -> Option<Winograd> {
        let Sizes { batch, images, channels, filters: outputs, rows, columns } = sizes;
        if [batch, images, channels, outputs, rows, columns].contains(&0) {
            return None;
        }
        let micro = Micro::new(gemm)?;
        let (bands, tiles_per_row) = (rows.div_ceil(m), columns.div_ceil(m));
        let all = batch.checked_mul(images)?.checked_mul(bands)?;
        // Everything must be countable.
        let matmuls = (m + 2) * (m + 2);
        let whole = all.checked_mul(tiles_per_row)?.checked_mul(matmuls)?.checked_mul(channels.max(outputs) + BLOCK)?;
        let filter_elements = matmuls.checked_mul(channels)?.checked_mul(outputs + micro.panel())?;
        if whole.max(filter_elements) > 1 << 40 {
            return None;
        }
        let share = |(part, of): (usize, usize)| near * part / of / size_of::<f32>();
        let wide = channels.next_multiple_of(BLOCK);
        let task = (share(IMAGE_SHARE) / (matmuls * wide * tiles_per_row)).clamp(1, all);
        let task = all.div_ceil(all.div_ceil(task));
        let chunk = (task * threads.max(1)).min(all);
        let panels = (share(MATMUL_SHARE) / (matmuls * task * tiles_per_row * micro.panel()))
            .clamp(1, outputs.div_ceil(micro.panel()));
        let alone = (task, panels * micro.panel());
        let (task, group) =
            spread(alone, (chunk, outputs), (micro.rows().div_ceil(tiles_per_row), micro.panel()), threads);
        Some(Winograd { m, sizes, filters, picture, isa, micro, bands, tiles_per_row, chunk, task, group, alone })
    }

    /// How many matmuls there are: one for each element of a transform.
    pub(crate) fn matmuls(&self) -> usize {
        (self.m + 2) * (self.m + 2)
    }

    /// Tiles of all images.
    pub(crate) fn tiles(&self) -> usize {
        self.all_bands() * self.tiles_per_row
    }

    /// Output channels of a panel of filters.
    pub(crate) fn panel(&self) -> usize {
        self.micro.panel()
    }

    fn all_bands(&self) -> usize {
        self.sizes.batch * self.sizes.images * self.bands
    }

    /// Rows and columns of a micro-tile, tiles and output channels of a task of one thread, channels summed at a stretch.
    pub(crate) fn blocks(&self) -> ((usize, usize), (usize, usize), usize) {
        let k = self.sizes.channels;
        let k = k.div_ceil(k.div_ceil(MOST_K));
        ((self.micro.rows(), self.panel()), (self.alone.0 * self.tiles_per_row, self.alone.1), k)
    }

    /// Bytes that are written as transforms, and read again.
    pub(crate) fn copied(&self) -> u64 {
        let wide = self.sizes.channels.next_multiple_of(BLOCK) + self.sizes.filters.next_multiple_of(self.panel());
        (self.matmuls() * self.tiles() * wide * size_of::<f32>()) as u64
    }

    /// Elements of all transformed filters: for each matmul, panels of output channels by channels.
    pub(crate) fn transformed(&self) -> usize {
        self.matmuls() * self.matmul_elements()
    }

    fn matmul_elements(&self) -> usize {
        self.sizes.filters.next_multiple_of(self.panel()) * self.sizes.channels
    }

    /// Elements from one element of the image's transform to the next.
    fn element_stride(&self) -> usize {
        pitch(self.chunk * self.tiles_per_row * self.sizes.channels.next_multiple_of(BLOCK))
    }

    /// Elements of scratch memory: transformed filters and a chunk's transformed image.
    pub(crate) fn scratch(&self) -> usize {
        self.transformed().next_multiple_of(BLOCK) + self.matmuls() * self.element_stride()
    }

    /// Transforms the filters. `to` has [`Winograd::transformed`] elements.
    ///
    /// # Safety
    /// Every element of the filters is readable from `from`; nobody writes them meanwhile.
    pub(crate) unsafe fn transform_filters(&self, from: *const f32, workers: &Workers, to: &mut [f32]) {
        let (panel, channels, outputs) = (self.panel(), self.sizes.channels, self.sizes.filters);
        let (stride, matmuls) = (self.matmul_elements(), self.matmuls());
        let matrix = filter_matrix(self.m);
        let strides = self.filters;
        let (from, to) = (Shared(from.cast_mut()), Shared(to.as_mut_ptr()));
        workers.run(outputs.div_ceil(panel), &|p| {
            let mut taps = vec![0f64; 9 * panel];
            let mut half = vec![0f64; 3 * matrix.len() * panel];
            let mut done = vec![0f32; matmuls * panel];
            for c in 0..channels {
                for (j, o) in (p * panel..outputs.min((p + 1) * panel)).enumerate() {
                    let at = strides.first + o as isize * strides.output + c as isize * strides.channel;
                    for i in 0..9 {
                        let at = at + (i as isize / 3) * strides.y + (i as isize % 3) * strides.x;
                        // SAFETY: an element of the filters.
                        taps[i * panel + j] = unsafe { *from.at(0).wrapping_offset(at) }.into();
                    }
                }
                let filter = Filter {
                    matrix: &matrix,
                    taps: &taps,
                    width: panel,
                    half: &mut half,
                    to: &mut done,
                    stride: panel,
                };
                vectorize(self.isa, filter);
                for (i, done) in done.chunks_exact(panel).enumerate() {
                    let to = to.at(i * stride + (p * channels + c) * panel);
                    // SAFETY: this panel's part of matmul `i`, which no other task writes.
                    unsafe { std::ptr::copy_nonoverlapping(done.as_ptr(), to, panel) };
                }
            }
        });
    }

    /// Computes it. `image` is the operand's element that the binding begins with, `transformed` the filters' transforms, and
    /// `scratch` has the elements of [`Winograd::scratch`] beyond [`Winograd::transformed`].
    ///
    /// # Safety
    /// Every element of the image that coordinates in their limits name is readable; nobody writes it meanwhile. The output is that
    /// of this convolution.
    pub(crate) unsafe fn run(
        &self,
        workers: &Workers,
        image: *const f32,
        transformed: &[f32],
        out: &Output<'_, f32>,
        scratch: &mut [f32],
    ) {
        let (all, blocks) = (self.all_bands(), self.sizes.channels.div_ceil(BLOCK));
        let groups = self.sizes.filters.div_ceil(self.group);
        let image = Shared(image.cast_mut());
        debug_assert!(
            transformed.len() >= self.transformed() && scratch.len() >= self.matmuls() * self.element_stride()
        );
        let space = Shared(scratch.as_mut_ptr());
        for first in (0..all).step_by(self.chunk) {
            let count = self.chunk.min(all - first);
            workers.run(count * blocks, &|i| {
                let (band, block) = (i / blocks, i % blocks);
                // SAFETY: the caller's; each task writes its own part of the space.
                unsafe { self.transform_image(first + band, band, block, image.at(0), space.at(0)) };
            });
            let parts = count.div_ceil(self.task);
            workers.run(parts * groups, &|i| {
                let (part, group) = (i / groups, i % groups);
                let begin = part * self.task;
                let task = Task { first, begin, bands: self.task.min(count - begin), output: group * self.group };
                // SAFETY: the image's transform is complete; tasks write different parts of the output.
                unsafe { self.multiply(&task, space.at(0), transformed, out) };
            });
        }
    }

    /// The matrix of the batch, the image in it and the row of tiles of a band.
    fn locate(&self, band: usize) -> (usize, usize, usize) {
        let (images, row) = (band / self.bands, band % self.bands);
        (images / self.sizes.images, images % self.sizes.images, row)
    }

    /// Transforms a row of tiles for [`BLOCK`] channels.
    ///
    /// # Safety
    /// As for [`Winograd::run`]; `space` is writable for the chunk's transform, and nobody else writes these tiles and channels.
    unsafe fn transform_image(&self, band: usize, local: usize, block: usize, image: *const f32, space: *mut f32) {
        thread_local! {
            static STRIP: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
        }
        let (b, n, row) = self.locate(band);
        let p = &self.picture;
        let channel = block * BLOCK;
        let columns = self.tiles_per_row * self.m + 2;
        let wide = self.sizes.channels.next_multiple_of(BLOCK);
        STRIP.with_borrow_mut(|strip| {
            let elements = (self.m + 2) * columns * BLOCK;
            if strip.len() < elements {
                strip.resize(elements, 0.0);
            }
            let at = p.first + p.batches[b] + n as isize * p.image + channel as isize * p.channel;
            let window = strip::Window {
                image: image.wrapping_offset(at),
                channel: p.channel,
                channels: (self.sizes.channels - channel).min(BLOCK),
                y: p.y,
                x: p.x,
                row: (row * self.m) as isize + p.y.offset,
                rows: self.m + 2,
                columns,
            };
            // SAFETY: the caller's; the strip has room for all rows and columns.
            unsafe { window.copy(strip.as_mut_ptr()) };
            let transform = Image {
                m: self.m,
                strip: strip.as_ptr(),
                columns,
                tiles: self.tiles_per_row,
                to: space.wrapping_add(local * self.tiles_per_row * wide + channel),
                tile: wide,
                stride: self.element_stride(),
            };
            vectorize(self.isa, transform);
        });
    }

    /// Multiplies a part of the tiles with a group of filters, and gives the results away.
    ///
    /// # Safety
    /// As for [`Winograd::run`]; the space has the chunk's transforms.
    unsafe fn multiply(&self, task: &Task, space: *const f32, transformed: &[f32], out: &Output<'_, f32>) {
        thread_local! {
            static ACCUMULATORS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
        }
        let (panel, k) = (self.panel(), self.sizes.channels);
        let (tiles, wide) = (task.bands * self.tiles_per_row, k.next_multiple_of(BLOCK));
        let outputs = (self.sizes.filters - task.output).min(self.group);
        let padded = outputs.next_multiple_of(panel);
        let stride = pitch(tiles * padded);
        let k_block = self.blocks().2;
        ACCUMULATORS.with_borrow_mut(|acc| {
            // Blocks of channels may be read past the last panel.
            let elements = self.matmuls() * stride + BLOCK;
            if acc.len() < elements {
                acc.resize(elements, 0.0);
            }
            let parts = tiles.div_ceil(self.micro.rows());
            for i in 0..self.matmuls() {
                let image = space.wrapping_add(i * self.element_stride() + task.begin * self.tiles_per_row * wide);
                for first in (0..padded).step_by(panel) {
                    let filters = transformed[i * self.matmul_elements() + (task.output + first) * k..].as_ptr();
                    let mut start = 0;
                    while start < k {
                        let k_len = k_block.min(k - start);
                        let mut tile = 0;
                        for part in 0..parts {
                            // As even as can be: a single row left over would take as long as several.
                            let rows = tiles / parts + usize::from(part < tiles % parts);
                            let of = Rows {
                                k: k_len,
                                a: image.wrapping_add(tile * wide + start),
                                a_row: wide,
                                b: filters.wrapping_add(start * panel),
                                c: acc[i * stride + tile * padded + first..].as_mut_ptr(),
                                c_row: padded,
                                add: start > 0,
                            };
                            // SAFETY: the tiles' transforms have `wide` channels each, the panel `k` rows; the accumulators have room for
                            // whole panels of every tile.
                            unsafe { self.micro.run(&of, rows) };
                            tile += rows;
                        }
                        start += k_len;
                    }
                }
            }
            for band in 0..task.bands {
                let from = acc[band * self.tiles_per_row * padded..].as_ptr();
                for first in (0..outputs).step_by(BLOCK) {
                    let part = TileRow {
                        band: task.first + task.begin + band,
                        output: task.output + first,
                        outputs: (outputs - first).min(BLOCK),
                    };
                    // SAFETY: the accumulators of this band, moved by up to `matmuls` times `stride`, are there.
                    unsafe { self.finish(&part, from.wrapping_add(first), (padded, stride), out) };
                }
            }
        });
    }

    /// Transforms the accumulators of a row of tiles to results and gives them away.
    ///
    /// # Safety
    /// `from` is as [`Results`] wants it, for all tiles of a row.
    unsafe fn finish(&self, part: &TileRow, from: *const f32, (tile, stride): (usize, usize), out: &Output<'_, f32>) {
        thread_local! {
            static DONE: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
        }
        let (b, n, row) = self.locate(part.band);
        let Sizes { rows: height, columns, .. } = self.sizes;
        let rows = (height - row * self.m).min(self.m);
        let pixels = rows * columns;
        let pixel = (n * height + row * self.m) * columns;
        DONE.with_borrow_mut(|(done, transposed)| {
            if done.len() < pixels * BLOCK {
                done.resize(pixels * BLOCK, 0.0);
            }
            let results = Results {
                m: self.m,
                from,
                tile,
                stride,
                tiles: self.tiles_per_row,
                to: done.as_mut_ptr(),
                rows,
                columns,
            };
            vectorize(self.isa, results);
            let done = &done[..pixels * BLOCK];
            if self.picture.pixels_are_rows {
                let at = TileAt { batch: b, row: pixel, col: part.output, rows: pixels, cols: part.outputs, ld: BLOCK };
                match out {
                    Output::Sink(sink) => sink.store(&at, done),
                    Output::Plain(c) => scatter(c, &at, done),
                }
                return;
            }
            match out {
                Output::Plain(c) if c.col == 1 => {
                    let to = c.at(b).wrapping_offset(part.output as isize * c.row).wrapping_add(pixel);
                    // SAFETY: these are the elements of this part's channels and pixels.
                    unsafe { transpose(done.as_ptr(), BLOCK as isize, pixels, part.outputs, to, c.row) };
                }
                _ => {
                    if transposed.len() < part.outputs * pixels {
                        transposed.resize(part.outputs * pixels, 0.0);
                    }
                    // SAFETY: there is room for every channel's row of pixels.
                    unsafe {
                        let to = transposed.as_mut_ptr();
                        transpose(done.as_ptr(), BLOCK as isize, pixels, part.outputs, to, pixels as isize)
                    };
                    let tile = &transposed[..part.outputs * pixels];
                    let at =
                        TileAt { batch: b, row: part.output, col: pixel, rows: part.outputs, cols: pixels, ld: pixels };
                    match out {
                        Output::Sink(sink) => sink.store(&at, tile),
                        Output::Plain(c) => scatter(c, &at, tile),
                    }
                }
            }
        });
    }
}

/// Rows of tiles of a chunk and output channels that are multiplied together.
struct Task {
    /// The chunk's first row of tiles, and the task's first and how many in it.
    first: usize,
    begin: usize,
    bands: usize,
    output: usize,
}

/// A row of tiles and at most [`BLOCK`] output channels.
struct TileRow {
    band: usize,
    output: usize,
    outputs: usize,
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn tasks_are_enough_for_all_threads_where_rows_and_channels_allow_it() {
        for (rows, outputs, least) in [(7, 128, (2, 32)), (14, 64, (1, 16)), (4, 512, (4, 32)), (1, 16, (1, 16))] {
            let alone = (rows, outputs.min(160));
            assert_eq!(spread(alone, (rows, outputs), least, 1), alone);
            for threads in [2, 3, 16, 100] {
                let (task, group) = spread(alone, (rows, outputs), least, threads);
                assert!((1..=alone.0).contains(&task) && (least.1..=alone.1).contains(&group), "{task} {group}");
                let smallest = task <= least.0 && group == least.1;
                let tasks = rows.div_ceil(task) * outputs.div_ceil(group);
                assert!(smallest || tasks >= threads, "{tasks} tasks of {task} x {group} for {threads}");
            }
        }
    }
}
