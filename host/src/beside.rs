//! Short rows sorted many at a time, one in each lane: a network of comparisons is the same for all of them, so that nothing
//! waits for how a comparison ends.

use crate::keys::Word;
use crate::vectors::enter;

/// Rows that are sorted together.
pub(crate) const LANES: usize = 16;

/// Words of a row up to which this is quicker than sorting one row by vectors.
pub(crate) const MOST_SORTED: usize = 14;

/// Words of a row up to which this is quicker than bounding the largest of one row and picking them.
pub(crate) const MOST_PICKED: usize = 32;

/// Words of a row up to which comparing them one by one is quicker still.
const FEW: usize = 4;

/// Whether rows of so many words, of `most` at most, are sorted so: words of which a vector has as many as lanes.
pub(crate) fn fits<W: Word>(n: usize, most: usize) -> bool {
    (1..=u32::BITS).contains(&W::BITS) && n <= most
}

/// The comparisons that sort `n` words: of each pair the lesser goes to the first place.
pub(crate) struct Network {
    n: usize,
    pairs: Vec<[u16; 2]>,
}

impl Network {
    /// Batcher's odd-even merge sort.
    pub(crate) fn new(n: usize) -> Network {
        let mut pairs = Vec::new();
        let mut size = 1;
        while size < n {
            let mut distance = size;
            while distance > 0 {
                for start in (distance % size..n.saturating_sub(distance)).step_by(2 * distance) {
                    for low in start..(start + distance).min(n - distance) {
                        let high = low + distance;
                        if low / (2 * size) == high / (2 * size) {
                            pairs.push([low as u16, high as u16]);
                        }
                    }
                }
                distance /= 2;
            }
            size *= 2;
        }
        Network { n, pairs }
    }

    /// How many words it sorts.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// Words of the room that [`Network::sort`] needs: some more, for lines to begin where vectors do.
    pub(crate) fn room(&self) -> usize {
        (self.n + 1) * LANES
    }

    /// Sorts the first `rows` rows of `words`, at most [`LANES`] of them, one behind the other.
    pub(crate) fn sort<W: Word>(&self, words: &mut [W], rows: usize, room: &mut [W]) {
        let n = self.n;
        let rows = words.chunks_exact_mut(n).take(rows.min(LANES));
        if n <= FEW {
            rows.for_each(<[W]>::sort_unstable);
            return;
        }
        let skip = room.as_ptr().align_offset(LANES * size_of::<W>()).min(LANES);
        let (lines, []) = room[skip..skip + n * LANES].as_chunks_mut::<LANES>() else { return };
        enter(|| self.sort_here(rows, lines));
    }

    /// As [`Network::sort`], compiled for the caller's vectors.
    #[inline(always)]
    fn sort_here<'a, W: Word>(&self, rows: impl Iterator<Item = &'a mut [W]>, lines: &mut [[W; LANES]]) {
        let mut list: [&mut [W]; LANES] = Default::default();
        for (r, (row, own)) in rows.zip(&mut list).enumerate() {
            for (line, &mut word) in lines.iter_mut().zip(row.iter_mut()) {
                line[r] = word;
            }
            *own = row;
        }
        for &[low, high] in &self.pairs {
            let (x, y) = (lines[low as usize], lines[high as usize]);
            let (mut least, mut most) = (x, y);
            // A plain loop over arrays: it becomes an instruction or two.
            for l in 0..LANES {
                least[l] = x[l].min(y[l]);
                most[l] = x[l].max(y[l]);
            }
            (lines[low as usize], lines[high as usize]) = (least, most);
        }
        for (r, row) in list.into_iter().enumerate() {
            for (word, line) in row.iter_mut().zip(lines.iter()) {
                *word = line[r];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_sort_all_rows_of_zeros_and_ones() {
        // What sorts those sorts everything.
        for n in 1..=12usize {
            let network = Network::new(n);
            let mut room = vec![0u32; network.room()];
            for first in (0..1u32 << n).step_by(LANES) {
                let rows = LANES.min((1 << n) - first as usize);
                let bits = |row: u32| (0..n as u32).map(move |i| (first + row) >> i & 1);
                let mut words: Vec<u32> = (0..rows as u32).flat_map(bits).collect();
                let mut right: Vec<Vec<u32>> = words.chunks(n).map(<[u32]>::to_vec).collect();
                right.iter_mut().for_each(|row| row.sort_unstable());
                network.sort(&mut words, rows, &mut room);
                assert_eq!(words, right.concat(), "{n}");
            }
        }
    }

    #[test]
    fn networks_sort_rows_of_any_length() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        for n in 1..=100 {
            let network = Network::new(n);
            let rows = 1 + random() as usize % LANES;
            let mut words: Vec<u32> = (0..n * rows).map(|_| (random() >> (random() % 64)) as u32).collect();
            let mut right: Vec<Vec<u32>> = words.chunks(n).map(<[u32]>::to_vec).collect();
            right.iter_mut().for_each(|row| row.sort_unstable());
            network.sort(&mut words, rows, &mut vec![0; network.room()]);
            assert_eq!(words, right.concat(), "{rows} rows of {n}");
        }
    }
}
