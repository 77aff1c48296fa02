//! A copy of an image of which every element is read once, tile by tile: all K indices of a tile's pixels lie one after the other.
//!
//! Where a window is one element, the pixels of a tile would be found on another cache line at every K index, and few of them fit
//! L1; in this copy they are read as they lie.

use super::kernel::MOST_PIXELS;
use super::part;

/// K indices that one task copies.
const K_PER_TASK: usize = 64;

/// How an image is copied.
pub(crate) struct Tiles {
    /// From the image's element of index 0 to that of each pixel and K index.
    pixels: Vec<isize>,
    k_offsets: Vec<isize>,
    /// The first pixel of each tile, and one past the last pixel.
    firsts: Vec<usize>,
    /// Whether the pixels of every tile are neighbours in memory.
    neighbours: bool,
}

impl Tiles {
    /// The copy for these pixels and K indices, with pixels cut into `chunks` as tasks are.
    pub(super) fn new(pixels: Vec<isize>, k_offsets: Vec<isize>, chunks: usize) -> Tiles {
        let mut firsts = Vec::new();
        for chunk in 0..chunks {
            let (first, count) = part(pixels.len(), chunks, chunk);
            let tiles = count.div_ceil(MOST_PIXELS);
            firsts.extend((0..tiles).map(|t| first + part(count, tiles, t).0));
        }
        firsts.push(pixels.len());
        let neighbours = firsts.windows(2).all(|w| pixels[w[0]..w[1]].windows(2).all(|p| p[1] - p[0] == 1));
        Tiles { pixels, k_offsets, firsts, neighbours }
    }

    /// From the copy's first element to that of each pixel and K index.
    pub(super) fn tables(&self) -> (Vec<isize>, Vec<isize>) {
        let tile = self.k_offsets.len() * MOST_PIXELS;
        let pixels = self.firsts.windows(2).enumerate().flat_map(|(t, w)| (0..w[1] - w[0]).map(move |j| t * tile + j));
        let k_offsets = (0..self.k_offsets.len()).map(|k| (k * MOST_PIXELS) as isize);
        (pixels.map(|p| p as isize).collect(), k_offsets.collect())
    }

    /// Elements of the copy.
    pub(super) fn elements(&self) -> usize {
        (self.firsts.len() - 1) * self.k_offsets.len() * MOST_PIXELS
    }

    /// How many tasks the copy is cut into.
    pub(super) fn tasks(&self) -> usize {
        self.k_offsets.len().div_ceil(K_PER_TASK)
    }

    /// Copies one part. `image` is the element of index 0.
    ///
    /// # Safety
    /// Every element of the image is readable; `to` is writable for [`Tiles::elements`] elements.
    pub(super) unsafe fn copy(&self, task: usize, image: *const f32, to: *mut f32) {
        let begin = task * K_PER_TASK;
        let k_offsets = &self.k_offsets[begin..self.k_offsets.len().min(begin + K_PER_TASK)];
        for (t, w) in self.firsts.windows(2).enumerate() {
            let mut to = to.wrapping_add((t * self.k_offsets.len() + begin) * MOST_PIXELS);
            let pixels = &self.pixels[w[0]..w[1]];
            for &k_offset in k_offsets {
                let from = image.wrapping_offset(k_offset);
                // SAFETY: the caller's; a tile has room for so many pixels at each K index.
                unsafe {
                    let first = from.wrapping_offset(pixels[0]);
                    // Sizes that the compiler knows become a move or two.
                    match (self.neighbours, pixels.len()) {
                        (true, 6) => to.cast::<[f32; 6]>().write_unaligned(first.cast::<[f32; 6]>().read_unaligned()),
                        (true, 5) => to.cast::<[f32; 5]>().write_unaligned(first.cast::<[f32; 5]>().read_unaligned()),
                        (true, 4) => to.cast::<[f32; 4]>().write_unaligned(first.cast::<[f32; 4]>().read_unaligned()),
                        _ => {
                            for (j, &pixel) in pixels.iter().enumerate() {
                                to.add(j).write(from.wrapping_offset(pixel).read_unaligned());
                            }
                        }
                    }
                }
                to = to.wrapping_add(MOST_PIXELS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_every_pixel_and_k_index_where_its_tables_say() {
        for (count, stride, chunks) in [(49, 1, 1), (13, 2, 2), (6, 1, 1), (100, 3, 3)] {
            let pixels: Vec<isize> = (0..count).map(|p| p * stride).collect();
            let k_offsets: Vec<isize> = (0..70).map(|k| k * count * stride).collect();
            let image: Vec<f32> = (0..70 * count * stride).map(|i| i as f32).collect();
            let tiles = Tiles::new(pixels.clone(), k_offsets.clone(), chunks);
            let mut copy = vec![f32::NAN; tiles.elements()];
            for task in 0..tiles.tasks() {
                // SAFETY: the image has all pixels at all K indices, the copy its elements.
                unsafe { tiles.copy(task, image.as_ptr(), copy.as_mut_ptr()) };
            }
            let (of_pixels, of_k) = tiles.tables();
            for (p, at) in pixels.iter().zip(&of_pixels) {
                for (k, by) in k_offsets.iter().zip(&of_k) {
                    assert_eq!(copy[(at + by) as usize], image[(p + k) as usize], "{count} pixels, {chunks} chunks");
                }
            }
        }
    }
}
