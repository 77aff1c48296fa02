//! Where the kernel finds the elements of each place and depth: tables, cut as tasks are.
//!
//! Windows at the edge of an image have elements that do not exist and count as zero. Places whose windows have the same elements
//! are a *set*: their tiles leave out the others, so that neither a copy of the image with its border nor products with its zeros
//! are needed. Tiles of few places take almost as long as whole ones: in a copy with its border, sets of few places may become one, with the
//! depths of both. Without a border there is one set.

use std::collections::HashMap;
use std::ops::Range;

use smallvec::SmallVec;

use super::kernel::MOST_PLACES;
use super::part;

/// Sets beyond which tiles would have few places, and entries of their tables.
const MOST_SETS: usize = 32;
const MOST_ENTRIES: usize = 1 << 19;

/// What a tile takes beside its products, in those of one place and one depth.
const TILE: usize = 8;

/// A place: which one, and where its window begins, from the image's element of index 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub image: i32,
    pub at: u32,
}

/// A depth: from a place's pixel to its element, and from the first filters of a piece of a panel to those of this depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Depth {
    pub image: i32,
    pub filter: u32,
}

/// Which depths exist for which places.
#[derive(Clone)]
pub(crate) struct Sets {
    /// The set of each place.
    of: Vec<usize>,
    /// The depths of each set, in their order.
    depths: Vec<Vec<usize>>,
}

impl Sets {
    /// One set: everything exists.
    pub(super) fn whole(places: usize, depths: usize) -> Sets {
        Sets { of: vec![0; places], depths: vec![(0..depths).collect()] }
    }

    /// By guards: the coordinates of each place and of each depth, of which the sum must be at least 0 and less than the limit. `None`
    /// where there are too many sets.
    pub(crate) fn new(guards: &[(Vec<i32>, Vec<i32>, i32)]) -> Option<Sets> {
        let (places, depths) = guards.first().map(|(places, depths, _)| (places.len(), depths.len()))?;
        let steps: Vec<Vec<i32>> = guards.iter().map(|(_, depths, _)| distinct(depths)).collect();
        let mut known: HashMap<SmallVec<[(usize, usize); 3]>, usize> = HashMap::new();
        let mut sets = Sets { of: Vec::with_capacity(places), depths: Vec::new() };
        let mut last = (SmallVec::new(), 0);
        for place in 0..places {
            // Of each guard's different coordinates of depths, those that exist here are neighbours.
            let exist = |at: i32, limit: i32, steps: &[i32]| {
                (steps.partition_point(|s| at + s < 0), steps.partition_point(|s| at + s < limit))
            };
            let mut key: SmallVec<[(usize, usize); 3]> =
                guards.iter().zip(&steps).map(|((at, _, limit), steps)| exist(at[place], *limit, steps)).collect();
            if key.iter().any(|(from, to)| from >= to) {
                key.fill((0, 0));
            }
            if place == 0 || key != last.0 {
                let set = *known.entry(key.clone()).or_insert(sets.depths.len());
                if set == sets.depths.len() {
                    if (set + 1) > MOST_SETS || (set + 1).saturating_mul(depths) > MOST_ENTRIES {
                        return None;
                    }
                    let exists =
                        |d: &usize| guards.iter().all(|(p, s, limit)| (0..*limit).contains(&(p[place] + s[*d])));
                    sets.depths.push((0..depths).filter(exists).collect());
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

/// Tiles of a chunk one after the other: as many places each, all of one set.
pub(super) struct Run {
    pub set: usize,
    /// The first place in the table.
    pub first: usize,
    /// Places of a tile, and tiles.
    pub count: usize,
    pub tiles: usize,
    /// Whether they are one after the other.
    pub even: bool,
}

/// So many places as tiles of almost as many each: places of a tile, and tiles, those of one place more first.
fn tiles(places: usize) -> impl Iterator<Item = (usize, usize)> {
    let tiles = places.div_ceil(MOST_PLACES).max(1);
    let (each, more) = (places / tiles, places % tiles);
    [(each + 1, more), (each, tiles - more)].into_iter().filter(|(count, tiles)| *count > 0 && *tiles > 0)
}

/// Products of one place and one depth that tiles of so many places and depths take the time of: one takes as long as one of `full` places
/// at least, and some time whatever its depths.
fn work(places: usize, depths: usize, full: usize) -> u64 {
    tiles(places).map(|(count, tiles)| (tiles * (count.max(full) * depths + TILE)) as u64).sum()
}

/// Sets that become one where that takes less time.
struct Merger {
    full: usize,
    /// How many depths two sets have together.
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

/// The set of the depths of two sets.
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
    /// Joins those of a chunk's groups, the places of one set each, that are better one.
    fn join(&mut self, groups: &mut Vec<(usize, Vec<usize>)>, sets: &mut Vec<Vec<usize>>) {
        loop {
            let mut best = (0, 0, 0);
            for i in 0..groups.len() {
                for j in i + 1..groups.len() {
                    let ((a, m), (b, n)) = ((groups[i].0, groups[i].1.len()), (groups[j].0, groups[j].1.len()));
                    let key = (a.min(b), a.max(b));
                    let both = *self.both.entry(key).or_insert_with(|| together(&sets[a], &sets[b]));
                    let work = |places: usize, depths: usize| work(places, depths, self.full);
                    let apart = work(m, sets[a].len()) + work(n, sets[b].len());
                    let saved = apart.saturating_sub(work(m + n, both));
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

/// The depths of a set.
struct Depths {
    entries: Vec<Depth>,
    /// Where each piece of the depths begins, and one past the last.
    pieces: Vec<usize>,
}

/// The tables.
pub(super) struct Tables {
    places: Vec<Place>,
    sets: Vec<Depths>,
    runs: Vec<Run>,
    /// The runs of each chunk.
    chunks: Vec<Range<usize>>,
}

impl Tables {
    /// The tables for these offsets from the image's element of index 0, with places cut into `chunks`, and depths into pieces of `kc`, of
    /// which one has filters for `panel` channels. Where all places may have all depths, sets of few places may become one: tiles take as
    /// long as those of `join` places. `None` where offsets are too large.
    pub(super) fn new(
        (places, depths): (&[isize], &[isize]),
        Sets { of, depths: mut sets }: Sets,
        chunks: usize,
        (kc, panel): (usize, usize),
        join: Option<usize>,
    ) -> Option<Tables> {
        let mut merger = join.map(|full| Merger { full, both: HashMap::new() });
        let mut tables = Tables {
            places: Vec::with_capacity(places.len()),
            sets: Vec::new(),
            runs: Vec::new(),
            chunks: Vec::with_capacity(chunks),
        };
        for chunk in 0..chunks {
            let (first, count) = part(places.len(), chunks, chunk);
            let begin = tables.runs.len();
            let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
            for (&of, place) in of[first..first + count].iter().zip(first..) {
                match groups.iter_mut().find(|(set, _)| *set == of) {
                    Some((_, group)) => group.push(place),
                    None => groups.push((of, vec![place])),
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
                    tables.runs.push(Run { set, first: tables.places.len(), count, tiles, even });
                    for &at in some {
                        let place = Place { image: i32::try_from(places[at]).ok()?, at: u32::try_from(at).ok()? };
                        tables.places.push(place);
                    }
                    rest = others;
                }
            }
            tables.chunks.push(begin..tables.runs.len());
        }
        let entry = |d: usize| {
            let filter = u32::try_from(d % kc * panel).ok()?;
            Some(Depth { image: i32::try_from(depths[d]).ok()?, filter })
        };
        for (i, set) in sets.iter().enumerate() {
            // Some sets are in others everywhere.
            let used = tables.runs.iter().any(|run| run.set == i);
            let set = if used { &set[..] } else { &[] };
            let entries = set.iter().map(|&d| entry(d)).collect::<Option<Vec<Depth>>>()?;
            let pieces = (0..=depths.len().div_ceil(kc)).map(|p| set.partition_point(|&d| d < p * kc)).collect();
            tables.sets.push(Depths { entries, pieces });
        }
        Some(tables)
    }

    /// The runs of a chunk.
    pub(super) fn runs(&self, chunk: usize) -> &[Run] {
        &self.runs[self.chunks[chunk].clone()]
    }

    /// The places of a run, tile after tile.
    pub(super) fn places(&self, run: &Run) -> &[Place] {
        &self.places[run.first..][..run.count * run.tiles]
    }

    /// The depths of a run in one piece of all depths.
    pub(super) fn depths(&self, run: &Run, piece: usize) -> &[Depth] {
        let set = &self.sets[run.set];
        &set.entries[set.pieces[piece]..set.pieces[piece + 1]]
    }

    /// Products of one place and one depth that all tiles take the time of, if one takes as long as one of `full` places at least.
    pub(super) fn work(&self, full: usize) -> u64 {
        self.runs.iter().map(|run| work(run.count, self.sets[run.set].entries.len(), full) * run.tiles as u64).sum()
    }

    /// Products of one place and one depth.
    pub(super) fn products(&self) -> u64 {
        let of = |run: &Run| (run.tiles * run.count) as u64 * self.sets[run.set].entries.len() as u64;
        self.runs.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards of windows of 3 x 3 with a border of one, and a stride, over `h` x `w` places, and the offsets of places and depths in the
    /// image of two channels.
    #[allow(clippy::type_complexity)]
    fn image(h: i32, w: i32, stride: i32) -> (Vec<(Vec<i32>, Vec<i32>, i32)>, Vec<isize>, Vec<isize>) {
        let (high, wide) = ((h - 1) * stride + 1, (w - 1) * stride + 1);
        let place = |f: &dyn Fn(i32, i32) -> i32| (0..h * w).map(|i| f(i / w, i % w)).collect::<Vec<i32>>();
        let depth =
            |f: &dyn Fn(i32, i32, i32) -> i32| (0..18).map(|d| f(d / 9, d / 3 % 3, d % 3)).collect::<Vec<i32>>();
        let guards = vec![
            (place(&|y, _| y * stride), depth(&|_, r, _| r - 1), high),
            (place(&|_, x| x * stride), depth(&|_, _, s| s - 1), wide),
        ];
        let long = |list: Vec<i32>| list.into_iter().map(|i| i as isize).collect();
        let places = long(place(&|y, x| (y * wide + x) * stride));
        (guards, places, long(depth(&|c, r, s| c * high * wide + (r - 1) * wide + s - 1)))
    }

    #[test]
    fn every_place_has_the_depths_that_exist() {
        for (h, w, stride) in [(7, 7, 1), (14, 14, 1), (1, 9, 1), (2, 2, 1), (5, 8, 2), (1, 1, 1)] {
            let (guards, places, depths) = image(h, w, stride);
            let exists =
                |p: usize, d: usize| guards.iter().all(|(at, by, limit)| (0..*limit).contains(&(at[p] + by[d])));
            for (chunks, kc, join) in [(1, 18, None), (2, 5, None), (1, 7, Some(4)), (3, 18, Some(3))] {
                let chunks = chunks.min(places.len());
                let sets = Sets::new(&guards).unwrap();
                let tables = Tables::new((&places, &depths), sets, chunks, (kc, 64), join).unwrap();
                let mut seen = vec![0; places.len()];
                let mut products = 0;
                for chunk in 0..chunks {
                    let (first, count) = part(places.len(), chunks, chunk);
                    for run in tables.runs(chunk) {
                        assert!(run.count <= MOST_PLACES && tables.places(run).len() == run.count * run.tiles);
                        let numbers: Vec<usize> = tables.places(run).iter().map(|p| p.at as usize).collect();
                        assert_eq!(run.even, numbers.windows(2).all(|n| n[1] == n[0] + 1));
                        let listed: Vec<(usize, &Depth)> = (0..18usize.div_ceil(kc))
                            .flat_map(|piece| tables.depths(run, piece).iter().map(move |d| (piece, d)))
                            .map(|(piece, d)| (piece * kc + d.filter as usize / 64, d))
                            .collect();
                        products += listed.len() * numbers.len();
                        assert!(listed.iter().all(|(d, entry)| entry.image as isize == depths[*d]));
                        for (place, &p) in tables.places(run).iter().zip(&numbers) {
                            assert!((first..first + count).contains(&p) && place.image as isize == places[p]);
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
                assert_eq!(tables.products(), products as u64);
            }
        }
    }

    #[test]
    fn few_places_join_others_where_that_takes_less_time() {
        let (guards, places, depths) = image(7, 7, 1);
        let tables = |join| Tables::new((&places, &depths), Sets::new(&guards).unwrap(), 1, (18, 64), join).unwrap();
        let (apart, joined) = (tables(None), tables(Some(4)));
        // The inside, four sides and four corners; corners become a part of sides.
        assert_eq!(apart.runs(0).iter().map(|r| r.set).collect::<std::collections::BTreeSet<_>>().len(), 9);
        assert!(joined.runs(0).iter().all(|run| run.count >= 4));
        assert!(joined.work(4) < apart.work(4) && apart.products() < joined.products());
        assert!(joined.products() < 49 * 18);
    }

    #[test]
    fn too_many_sets_are_refused() {
        // Windows of 40 elements over 40 places: every place has others.
        let guards = vec![((0..40).collect(), (0..40).map(|d| d - 20).collect(), 40)];
        assert!(Sets::new(&guards).is_none() && Sets::new(&[]).is_none());
        // Places that see nothing are a set, too.
        let (all, none) = (vec![0, 0], vec![9, 9]);
        let sets = Sets::new(&[([all, none].concat(), vec![0, 1], 2)]).unwrap();
        assert_eq!(sets.depths, [vec![0, 1], vec![]]);
    }
}
