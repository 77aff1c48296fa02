//! The first elements of rows in sorted order, without sorting the rest.
//!
//! The least element of each of many blocks says how large the last of the first can be at most. So most blocks need no second look;
//! of the others what is no larger is gathered, and the last of it dropped whenever there is too much. Where blocks would be too few,
//! they are the lanes of the row: every so manyth element. Short rows are sorted whole, many at a time.

use millstream_core::what::Fork;

use crate::beside::{self, LANES, Network};
use crate::keys::{Key, Keyed};
use crate::partition::{LONG, pieces};
use crate::radix::{Spare, sort};
use crate::slices::{Raw, for_ranges};
use crate::sort::sort_beside;
use crate::vectors::enter;

/// Elements that are compared at once.
const BLOCK: usize = 32;

type WithIndex<T> = <<T as Keyed>::Key as Key>::WithIndex;

/// Writes the first `keep` of each row of `n`, at least one and fewer than all, and where they were.
///
/// # Safety
/// Where results are wanted there is room for `keep` of each row, which nobody else uses.
pub(crate) unsafe fn first<T: Keyed>(
    x: &[T],
    n: usize,
    keep: usize,
    flipped: bool,
    values: Option<Raw<T>>,
    indices: Option<Raw<i64>>,
    fork: &dyn Fork,
) {
    let results = |row: usize, list: &mut Vec<WithIndex<T>>, spare: &mut Vec<WithIndex<T>>| {
        shorten::<T>(list, keep);
        spare.resize(list.len(), WithIndex::<T>::default());
        // By indices, too: they are in no order.
        sort(list, spare, 0);
        for (i, &word) in list.iter().enumerate() {
            let index = T::Key::index(word);
            // SAFETY: the caller's promise; each row is in one task.
            unsafe {
                if let Some(values) = values {
                    values.write(row * keep + i, x[row * n + index as usize]);
                }
                if let Some(indices) = indices {
                    indices.write(row * keep + i, i64::from(index));
                }
            }
        }
    };
    let rows = x.len() / n.max(1);
    if let (Some(values), None, true) = (values, indices, T::BARE && beside::fits::<T::Key>(n, beside::MOST_PICKED)) {
        // SAFETY: the caller's promise; keys are as wide as elements.
        unsafe { first_beside(x, n, keep, flipped, values, fork) };
        return;
    }
    if n < LONG {
        for_ranges(fork, rows, n, &|range| {
            let (mut list, mut spare, mut least) = (Vec::new(), Vec::new(), Vec::new());
            for row in range {
                gather(&x[row * n..(row + 1) * n], 0, keep, flipped, &mut list, &mut least);
                results(row, &mut list, &mut spare);
            }
        });
        return;
    }
    let mut spare = Vec::new();
    for (row, x) in x.chunks_exact(n).enumerate() {
        let (count, piece) = pieces(n);
        let mut lists: Vec<Vec<WithIndex<T>>> = vec![Vec::new(); count];
        let slots = Raw::of(&mut lists);
        fork.run(count, &|p| {
            let mut list = Vec::new();
            gather(&x[piece(p)], piece(p).start, keep, flipped, &mut list, &mut Vec::new());
            shorten::<T>(&mut list, keep);
            // SAFETY: each piece has its own slot, which holds nothing yet.
            unsafe { slots.write(p, list) };
        });
        results(row, &mut lists.concat(), &mut spare);
    }
}

/// As [`first`], for the values of short rows: sorted whole, many at a time.
///
/// # Safety
/// As for [`first`]; keys are as wide as elements, which can be made of them.
unsafe fn first_beside<T: Keyed>(x: &[T], n: usize, keep: usize, flipped: bool, values: Raw<T>, fork: &dyn Fork) {
    let (network, rows) = (Network::new(n), x.len() / n);
    let spare: Spare<T::Key> = Spare::new();
    for_ranges(fork, rows, n, &|range| {
        spare.with(2 * network.room(), |both| {
            let (sorted, room) = both.split_at_mut(network.room());
            let sorted = Raw::of(sorted).cast::<T>();
            for first in range.clone().step_by(LANES) {
                let few = first..range.end.min(first + LANES);
                // SAFETY: there is room for so many rows; each row of the results is in one task.
                unsafe {
                    sort_beside(&x[few.start * n..few.end * n], sorted, flipped, &network, room);
                    for (r, row) in few.enumerate() {
                        let to = values.from(row * keep);
                        (0..keep).for_each(|i| to.write(i, sorted.read(r * n + i)));
                    }
                }
            }
        });
    });
}

/// Drops all but the first `keep`.
fn shorten<T: Keyed>(list: &mut Vec<WithIndex<T>>, keep: usize) {
    if keep < list.len() {
        if let Some(last) = keep.checked_sub(1) {
            list.select_nth_unstable(last);
        }
        list.truncate(keep);
    }
}

/// The elements that may be among the first `keep`, with their indices from `start`: all of the first, and some others.
fn gather<T: Keyed>(
    x: &[T],
    start: usize,
    keep: usize,
    flipped: bool,
    list: &mut Vec<WithIndex<T>>,
    least: &mut Vec<T::Key>,
) {
    enter(|| gather_here(x, start, keep, flipped, list, least));
}

/// As [`gather`], compiled for the caller's vectors.
#[inline(always)]
fn gather_here<T: Keyed>(
    x: &[T],
    start: usize,
    keep: usize,
    flipped: bool,
    list: &mut Vec<WithIndex<T>>,
    least: &mut Vec<T::Key>,
) {
    let key = move |v: T| v.key().flipped(flipped);
    let full = keep.saturating_mul(2).max(BLOCK).min(x.len());
    list.clear();
    list.resize(full + BLOCK, WithIndex::<T>::default());
    let mut len = 0;
    // What may still be among the first: no larger than a limit, or smaller.
    let (mut limit, mut smaller) = (T::Key::default().flipped(true), false);
    let blocks = x.len() / BLOCK;
    least.clear();
    let lanes = keep.saturating_mul(2).next_power_of_two().max(BLOCK);
    if keep.saturating_mul(2) <= blocks {
        // So many blocks have an element that is no larger, as the least of each says.
        least.extend(x.chunks_exact(BLOCK).map(|block| block.iter().fold(limit, |least, &v| least.min(key(v)))));
        let mut order = least.clone();
        limit = *order.select_nth_unstable(keep - 1).1;
    } else if lanes <= x.len() {
        // The same of lanes, which are no blocks that could be passed over.
        let mut order = vec![limit; 2 * lanes];
        let (order, spare) = order.split_at_mut(lanes);
        for line in x.chunks(lanes) {
            order.iter_mut().zip(line).for_each(|(least, &v)| *least = key(v).min(*least));
        }
        sort(order, spare, 0);
        limit = order[keep - 1];
    }
    for (b, block) in x.chunks(BLOCK).enumerate() {
        if least.get(b).is_some_and(|&least| least > limit || smaller && least == limit) {
            continue;
        }
        let mut keys = [T::Key::default(); BLOCK];
        keys.iter_mut().zip(block).for_each(|(to, &v)| *to = key(v));
        for (&key, i) in keys[..block.len()].iter().zip(start + b * BLOCK..) {
            // Overwritten by the next unless it counts.
            list[len] = key.with_index(i as u32);
            len += usize::from(if smaller { key < limit } else { key <= limit });
        }
        if len >= full && keep < len {
            let (_, last, _) = list[..len].select_nth_unstable(keep - 1);
            // What comes later than as large an element is behind it.
            (limit, smaller) = (T::Key::key(*last), true);
            len = keep;
        }
    }
    list.truncate(len);
}
