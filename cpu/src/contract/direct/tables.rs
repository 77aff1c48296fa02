//! Where the kernel finds the elements of each pixel and K index: tables, cut as tasks are.
//!
//! Windows at the edge of an image have elements that do not exist and count as zero. Pixels whose windows have the same elements
//! are a *set*: their tiles leave out the others, so that neither a copy of the image with its border nor multiplications by its zeros
//! are needed. Tiles of few pixels take almost as long as whole ones: in a copy with its border, sets of few pixels may become one, with the
//! K indices of both. Without a border there is one set.

use std::collections::HashMap;
use std::ops::Range;

use smallvec::SmallVec;

use super::kernel::MOST_PIXELS;
use super::part;

/// Sets beyond which tiles would have few pixels, and entries of their tables.
const MOST_SETS: usize = 32;
const MOST_ENTRIES: usize = 1 << 19;

/// What a tile takes beside its multiply-adds, in those of one pixel and one K index.
const TILE: usize = 8;

/// A pixel: which one, and where its window begins, from the image's element of index 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pixel {
    pub image: i32,
    pub at: u32,
}

/// A K index: from the first element of a pixel's window to this one, and from the first filters of a piece of a panel to those of this K index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KIndex {
    pub image: i32,
    pub filter: u32,
}

/// Which K indices exist for which pixels.
#[derive(Clone)]
pub(crate) struct Sets {
    /// The set of each pixel.
    of: Vec<usize>,
    /// The K indices of each set, in their order.
    k_indices: Vec<Vec<usize>>,
}

impl Sets {
    /// One set: everything exists.
    pub(super) fn whole(pixels: usize, k_len: usize) -> Sets {
        Sets { of: vec![0; pixels], k_indices: vec![(0..k_len).collect()] }
    }

    /// By axes of windows: the coordinates of each pixel and of each K index, of which the sum must be at least 0 and less than the limit. `None`
    /// where there are no axes, or too many sets.
    pub(crate) fn new(guards: &[(Vec<i32>, Vec<i32>, i32)]) -> Option<Sets> {
        let (pixels, k_len) = guards.first().map(|(pixels, k_indices, _)| (pixels.len(), k_indices.len()))?;
        let steps: Vec<Vec<i32>> = guards.iter().map(|(_, k_indices, _)| distinct(k_indices)).collect();
        let mut known: HashMap<SmallVec<[(usize, usize); 3]>, usize> = HashMap::new();
        let mut sets = Sets { of: Vec::with_capacity(pixels), k_indices: Vec::new() };
        let mut last = (SmallVec::new(), 0);
        for pixel in 0..pixels {
            // Of each guard's different coordinates of K indices, those that exist here are neighbours.
            let exist = |at: i32, limit: i32, steps: &[i32]| {
                (steps.partition_point(|s| at + s < 0), steps.partition_point(|s| at + s < limit))
            };
            let mut key: SmallVec<[(usize, usize); 3]> =
                guards.iter().zip(&steps).map(|((at, _, limit), steps)| exist(at[pixel], *limit, steps)).collect();
            if key.iter().any(|(from, to)| from >= to) {
                key.fill((0, 0));
            }
            if pixel == 0 || key != last.0 {
                let set = *known.entry(key.clone()).or_insert(sets.k_indices.len());
                if set == sets.k_indices.len() {
                    if (set + 1) > MOST_SETS || (set + 1).saturating_mul(k_len) > MOST_ENTRIES {
                        return None;
                    }
                    let exists =
                        |d: &usize| guards.iter().all(|(p, s, limit)| (0..*limit).contains(&(p[pixel] + s[*d])));
                    sets.k_indices.push((0..k_len).filter(exists).collect());
                }
                last = (key, set);
            }
            sets.of.push(last.1);
        }
        Some(sets)
    }
}

/// Different numbers, the least first.
fn distinct(numbers: &[i32]) -> Vec<i32> {
    let mut list = numbers.to_vec();
    list.sort_unstable();
    list.dedup();
    list
}

/// Tiles of a chunk one after the other: as many pixels each, all of one set.
pub(super) struct TileRun {
    pub set: usize,
    /// The first pixel in the table.
    pub first: usize,
    /// Pixels of a tile, and tiles.
    pub count: usize,
    pub tiles: usize,
    /// Whether they are one after the other.
    pub even: bool,
}

/// So many pixels as tiles of almost as many each: pixels of a tile, and tiles, those of one pixel more first.
fn tiles(pixels: usize) -> impl Iterator<Item = (usize, usize)> {
    let tiles = pixels.div_ceil(MOST_PIXELS).max(1);
    let (each, more) = (pixels / tiles, pixels % tiles);
    [(each + 1, more), (each, tiles - more)].into_iter().filter(|(count, tiles)| *count > 0 && *tiles > 0)
}

/// Multiply-adds of one pixel and one K index that tiles of so many pixels and K indices take the time of: one takes as long as one of `full` pixels
/// at least, and some time whatever its K indices.
fn work(pixels: usize, k_len: usize, full: usize) -> u64 {
    tiles(pixels).map(|(count, tiles)| (tiles * (count.max(full) * k_len + TILE)) as u64).sum()
}

/// Sets that become one where that takes less time.
struct Merger {
    full: usize,
    /// How many K indices two sets have together.
    both: HashMap<(usize, usize), usize>,
}

/// How many numbers two lists have together; each list is in order.
fn together(a: &[usize], b: &[usize]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
        count += 1;
    }
    count + (a.len() - i) + (b.len() - j)
}

/// The set of the K indices of two sets.
fn union(a: usize, b: usize, sets: &mut Vec<Vec<usize>>) -> usize {
    let mut union = [&sets[a][..], &sets[b][..]].concat();
    union.sort_unstable();
    union.dedup();
    sets.iter().position(|s| *s == union).unwrap_or_else(|| {
        sets.push(union);
        sets.len() - 1
    })
}

impl Merger {
    /// Joins those of a chunk's groups, the pixels of one set each, that are better one.
    fn join(&mut self, groups: &mut Vec<(usize, Vec<usize>)>, sets: &mut Vec<Vec<usize>>) {
        loop {
            let mut best = (0, 0, 0);
            for i in 0..groups.len() {
                for j in i + 1..groups.len() {
                    let ((a, m), (b, n)) = ((groups[i].0, groups[i].1.len()), (groups[j].0, groups[j].1.len()));
                    let key = (a.min(b), a.max(b));
                    let both = *self.both.entry(key).or_insert_with(|| together(&sets[a], &sets[b]));
                    let work = |pixels: usize, k_len: usize| work(pixels, k_len, self.full);
                    let separate = work(m, sets[a].len()) + work(n, sets[b].len());
                    let saved = separate.saturating_sub(work(m + n, both));
                    if saved > best.0 {
                        best = (saved, i, j);
                    }
                }
            }
            let (saved, i, j) = best;
            if saved == 0 {
                return;
            }
            let (set, more) = groups.remove(j);
            groups[i].0 = union(groups[i].0, set, sets);
            groups[i].1.extend(more);
            groups[i].1.sort_unstable();
        }
    }
}

/// The K indices of a set.
struct KIndices {
    entries: Vec<KIndex>,
    /// Where each piece of the K indices begins, and one past the last.
    pieces: Vec<usize>,
}

/// The tables.
pub(super) struct PixelTables {
    pixels: Vec<Pixel>,
    sets: Vec<KIndices>,
    runs: Vec<TileRun>,
    /// The runs of each chunk.
    chunks: Vec<Range<usize>>,
}

impl PixelTables {
    /// The tables for these offsets from the image's element of index 0, with pixels cut into `chunks`, and K indices into pieces of `kc`, of
    /// which one has filters for `panel` channels. Where all pixels may have all K indices, sets of few pixels may become one: tiles take as
    /// long as those of `join` pixels. `None` where offsets are too large.
    pub(super) fn new(
        (pixels, k_offsets): (&[isize], &[isize]),
        Sets { of, k_indices: mut sets }: Sets,
        chunks: usize,
        (kc, panel): (usize, usize),
        join: Option<usize>,
    ) -> Option<PixelTables> {
        let mut merger = join.map(|full| Merger { full, both: HashMap::new() });
        let mut tables = PixelTables {
            pixels: Vec::with_capacity(pixels.len()),
            sets: Vec::new(),
            runs: Vec::new(),
            chunks: Vec::with_capacity(chunks),
        };
        for chunk in 0..chunks {
            let (first, count) = part(pixels.len(), chunks, chunk);
            let begin = tables.runs.len();
            let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
            for (&of, pixel) in of[first..first + count].iter().zip(first..) {
                match groups.iter_mut().find(|(set, _)| *set == of) {
                    Some((_, group)) => group.push(pixel),
                    None => groups.push((of, vec![pixel])),
                }
            }
            if let Some(merger) = &mut merger {
                merger.join(&mut groups, &mut sets);
            }
            for (set, group) in groups {
                let mut rest = &group[..];
                for (count, tiles) in tiles(group.len()) {
                    let (some, others) = rest.split_at(count * tiles);
                    let even = some[some.len() - 1] - some[0] == some.len() - 1;
                    tables.runs.push(TileRun { set, first: tables.pixels.len(), count, tiles, even });
                    for &at in some {
                        let pixel = Pixel { image: i32::try_from(pixels[at]).ok()?, at: u32::try_from(at).ok()? };
                        tables.pixels.push(pixel);
                    }
                    rest = others;
                }
            }
            tables.chunks.push(begin..tables.runs.len());
        }
        let entry = |d: usize| {
            let filter = u32::try_from(d % kc * panel).ok()?;
            Some(KIndex { image: i32::try_from(k_offsets[d]).ok()?, filter })
        };
        for (i, set) in sets.iter().enumerate() {
            // Some sets are in others everywhere.
            let used = tables.runs.iter().any(|run| run.set == i);
            let set = if used { &set[..] } else { &[] };
            let entries = set.iter().map(|&d| entry(d)).collect::<Option<Vec<KIndex>>>()?;
            let pieces = (0..=k_offsets.len().div_ceil(kc)).map(|p| set.partition_point(|&d| d < p * kc)).collect();
            tables.sets.push(KIndices { entries, pieces });
        }
        Some(tables)
    }

    /// The runs of a chunk.
    pub(super) fn runs(&self, chunk: usize) -> &[TileRun] {
        &self.runs[self.chunks[chunk].clone()]
    }

    /// The pixels of a run, tile after tile.
    pub(super) fn pixels(&self, run: &TileRun) -> &[Pixel] {
        &self.pixels[run.first..][..run.count * run.tiles]
    }

    /// The K indices of a run in one piece of all K indices.
    pub(super) fn k_indices(&self, run: &TileRun, piece: usize) -> &[KIndex] {
        let set = &self.sets[run.set];
        &set.entries[set.pieces[piece]..set.pieces[piece + 1]]
    }

    /// Multiply-adds of one pixel and one K index that all tiles take the time of, if one takes as long as one of `full` pixels at least.
    pub(super) fn work(&self, full: usize) -> u64 {
        self.runs.iter().map(|run| work(run.count, self.sets[run.set].entries.len(), full) * run.tiles as u64).sum()
    }

    /// Multiply-adds of one pixel and one K index.
    pub(super) fn multiplies(&self) -> u64 {
        let of = |run: &TileRun| (run.tiles * run.count) as u64 * self.sets[run.set].entries.len() as u64;
        self.runs.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards of windows of 3 x 3 with a border of one, and a stride, over `h` x `w` pixels, and the offsets of pixels and K indices in the
    /// image of two channels.
    #[allow(clippy::type_complexity)]
    fn image(h: i32, w: i32, stride: i32) -> (Vec<(Vec<i32>, Vec<i32>, i32)>, Vec<isize>, Vec<isize>) {
        let (high, wide) = ((h - 1) * stride + 1, (w - 1) * stride + 1);
        let pixel = |f: &dyn Fn(i32, i32) -> i32| (0..h * w).map(|i| f(i / w, i % w)).collect::<Vec<i32>>();
        let k_index =
            |f: &dyn Fn(i32, i32, i32) -> i32| (0..18).map(|d| f(d / 9, d / 3 % 3, d % 3)).collect::<Vec<i32>>();
        let guards = vec![
            (pixel(&|y, _| y * stride), k_index(&|_, r, _| r - 1), high),
            (pixel(&|_, x| x * stride), k_index(&|_, _, s| s - 1), wide),
        ];
        let long = |list: Vec<i32>| list.into_iter().map(|i| i as isize).collect();
        let pixels = long(pixel(&|y, x| (y * wide + x) * stride));
        (guards, pixels, long(k_index(&|c, r, s| c * high * wide + (r - 1) * wide + s - 1)))
    }

    #[test]
    fn every_pixel_has_the_k_indices_that_exist() {
        for (h, w, stride) in [(7, 7, 1), (14, 14, 1), (1, 9, 1), (2, 2, 1), (5, 8, 2), (1, 1, 1)] {
            let (guards, pixels, k_indices) = image(h, w, stride);
            let exists =
                |p: usize, d: usize| guards.iter().all(|(at, by, limit)| (0..*limit).contains(&(at[p] + by[d])));
            for (chunks, kc, join) in [(1, 18, None), (2, 5, None), (1, 7, Some(4)), (3, 18, Some(3))] {
                let chunks = chunks.min(pixels.len());
                let sets = Sets::new(&guards).unwrap();
                let tables = PixelTables::new((&pixels, &k_indices), sets, chunks, (kc, 64), join).unwrap();
                let mut seen = vec![0; pixels.len()];
                let mut multiplies = 0;
                for chunk in 0..chunks {
                    let (first, count) = part(pixels.len(), chunks, chunk);
                    for run in tables.runs(chunk) {
                        assert!(run.count <= MOST_PIXELS && tables.pixels(run).len() == run.count * run.tiles);
                        let numbers: Vec<usize> = tables.pixels(run).iter().map(|p| p.at as usize).collect();
                        assert_eq!(run.even, numbers.windows(2).all(|n| n[1] == n[0] + 1));
                        let listed: Vec<(usize, &KIndex)> = (0..18usize.div_ceil(kc))
                            .flat_map(|piece| tables.k_indices(run, piece).iter().map(move |d| (piece, d)))
                            .map(|(piece, d)| (piece * kc + d.filter as usize / 64, d))
                            .collect();
                        multiplies += listed.len() * numbers.len();
                        assert!(listed.iter().all(|(d, entry)| entry.image as isize == k_indices[*d]));
                        for (pixel, &p) in tables.pixels(run).iter().zip(&numbers) {
                            assert!((first..first + count).contains(&p) && pixel.image as isize == pixels[p]);
                            seen[p] += 1;
                            let has = |d: usize| listed.iter().any(|(l, _)| *l == d);
                            for d in 0..18 {
                                let exactly = join.is_none();
                                assert!(if exactly { has(d) == exists(p, d) } else { has(d) || !exists(p, d) });
                            }
                        }
                    }
                }
                assert!(seen.iter().all(|&n| n == 1), "{h} x {w}: {seen:?}");
                assert_eq!(tables.multiplies(), multiplies as u64);
            }
        }
    }

    #[test]
    fn few_pixels_join_others_where_that_takes_less_time() {
        let (guards, pixels, k_indices) = image(7, 7, 1);
        let tables =
            |join| PixelTables::new((&pixels, &k_indices), Sets::new(&guards).unwrap(), 1, (18, 64), join).unwrap();
        let (separate, joined) = (tables(None), tables(Some(4)));
        // The inside, four sides and four corners; corners become a part of sides.
        assert_eq!(separate.runs(0).iter().map(|r| r.set).collect::<std::collections::BTreeSet<_>>().len(), 9);
        assert!(joined.runs(0).iter().all(|run| run.count >= 4));
        assert!(joined.work(4) < separate.work(4) && separate.multiplies() < joined.multiplies());
        assert!(joined.multiplies() < 49 * 18);
    }

    #[test]
    fn too_many_sets_are_refused() {
        // Windows of 40 elements over 40 pixels: every pixel has others.
        let guards = vec![((0..40).collect(), (0..40).map(|d| d - 20).collect(), 40)];
        assert!(Sets::new(&guards).is_none() && Sets::new(&[]).is_none());
        // Pixels that see nothing are a set, too.
        let (all, none) = (vec![0, 0], vec![9, 9]);
        let sets = Sets::new(&[([all, none].concat(), vec![0, 1], 2)]).unwrap();
        assert_eq!(sets.k_indices, [vec![0, 1], vec![]]);
    }
}
