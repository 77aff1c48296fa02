//! A copy of an image of which every element is read once, tile by tile: all depths of a tile's places lie one after the other.
//!
//! Where a window is one element, the places of a tile would be found on another cache line at every depth, and few of them fit
//! L1; in this copy they are read as they lie.

use super::kernel::MOST_PLACES;
use super::part;

/// Depths that one task copies.
const DEPTHS: usize = 64;

/// How an image is copied.
pub(crate) struct Tiles {
    /// From the image's element of index 0 to that of each place and depth.
    places: Vec<isize>,
    depths: Vec<isize>,
    /// The first place of each tile, and one past the last place.
    firsts: Vec<usize>,
    /// Whether the places of every tile are neighbours in memory.
    neighbours: bool,
}

impl Tiles {
    /// The copy for these places and depths, with places cut into `chunks` as tasks are.
    pub(super) fn new(places: Vec<isize>, depths: Vec<isize>, chunks: usize) -> Tiles {
        let mut firsts = Vec::new();
        for chunk in 0..chunks {
            let (first, count) = part(places.len(), chunks, chunk);
            let tiles = count.div_ceil(MOST_PLACES);
            firsts.extend((0..tiles).map(|t| first + part(count, tiles, t).0));
        }
        firsts.push(places.len());
        let neighbours = firsts.windows(2).all(|w| places[w[0]..w[1]].windows(2).all(|p| p[1] - p[0] == 1));
        Tiles { places, depths, firsts, neighbours }
    }

    /// From the copy's first element to that of each place and depth.
    pub(super) fn tables(&self) -> (Vec<isize>, Vec<isize>) {
        let tile = self.depths.len() * MOST_PLACES;
        let places = self.firsts.windows(2).enumerate().flat_map(|(t, w)| (0..w[1] - w[0]).map(move |j| t * tile + j));
        let depths = (0..self.depths.len()).map(|k| (k * MOST_PLACES) as isize);
        (places.map(|p| p as isize).collect(), depths.collect())
    }

    /// Elements of the copy.
    pub(super) fn elements(&self) -> usize {
        (self.firsts.len() - 1) * self.depths.len() * MOST_PLACES
    }

    /// How many tasks the copy is cut into.
    pub(super) fn tasks(&self) -> usize {
        self.depths.len().div_ceil(DEPTHS)
    }

    /// Copies one part. `image` is the element of index 0.
    ///
    /// # Safety
    /// Every element of the image is readable; `to` is writable for [`Tiles::elements`] elements.
    pub(super) unsafe fn copy(&self, task: usize, image: *const f32, to: *mut f32) {
        let begin = task * DEPTHS;
        let depths = &self.depths[begin..self.depths.len().min(begin + DEPTHS)];
        for (t, w) in self.firsts.windows(2).enumerate() {
            let mut to = to.wrapping_add((t * self.depths.len() + begin) * MOST_PLACES);
            let places = &self.places[w[0]..w[1]];
            for &depth in depths {
                let from = image.wrapping_offset(depth);
                // SAFETY: the caller's; a tile has room for so many places at each depth.
                unsafe {
                    let first = from.wrapping_offset(places[0]);
                    // Sizes that the compiler knows become a move or two.
                    match (self.neighbours, places.len()) {
                        (true, 6) => to.cast::<[f32; 6]>().write_unaligned(first.cast::<[f32; 6]>().read_unaligned()),
                        (true, 5) => to.cast::<[f32; 5]>().write_unaligned(first.cast::<[f32; 5]>().read_unaligned()),
                        (true, 4) => to.cast::<[f32; 4]>().write_unaligned(first.cast::<[f32; 4]>().read_unaligned()),
                        _ => {
                            for (j, &place) in places.iter().enumerate() {
                                to.add(j).write(from.wrapping_offset(place).read_unaligned());
                            }
                        }
                    }
                }
                to = to.wrapping_add(MOST_PLACES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_every_place_and_depth_where_its_tables_say() {
        for (count, apart, chunks) in [(49, 1, 1), (13, 2, 2), (6, 1, 1), (100, 3, 3)] {
            let places: Vec<isize> = (0..count).map(|p| p * apart).collect();
            let depths: Vec<isize> = (0..70).map(|k| k * count * apart).collect();
            let image: Vec<f32> = (0..70 * count * apart).map(|i| i as f32).collect();
            let tiles = Tiles::new(places.clone(), depths.clone(), chunks);
            let mut copy = vec![f32::NAN; tiles.elements()];
            for task in 0..tiles.tasks() {
                // SAFETY: the image has all places at all depths, the copy its elements.
                unsafe { tiles.copy(task, image.as_ptr(), copy.as_mut_ptr()) };
            }
            let (of_places, of_depths) = tiles.tables();
            for (p, at) in places.iter().zip(&of_places) {
                for (k, by) in depths.iter().zip(&of_depths) {
                    assert_eq!(copy[(at + by) as usize], image[(p + k) as usize], "{count} places, {chunks} chunks");
                }
            }
        }
    }
}
