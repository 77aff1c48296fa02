//! Sorting long lists on all threads: words are first parted by their highest digit, then each part is sorted by itself,
//! in a core's own cache.
//!
//! Work is cut by sizes only; and the order is one for all ways to sort.

use std::ops::Range;

use millstream_core::what::Fork;

use crate::keys::Word;
use crate::radix::{DIGIT, Spare, sort};
use crate::slices::Raw;
use crate::split::sort_parts;
use crate::vectors::enter;

/// Lists of this length or longer are worth several tasks.
pub(crate) const LONG: usize = 1 << 16;

/// Words that a task counts or moves at least.
const PIECE: usize = 1 << 15;

/// Pieces of a list at most: each has counters for all values of a digit.
const PIECES: usize = 64;

/// Parts smaller than this are sorted together by one task.
const TASK: usize = 1 << 14;

/// Parts longer than this are parted again, by all threads.
const PART: usize = 1 << 21;

/// Equal pieces of a list of `n`.
pub(crate) fn pieces(n: usize) -> (usize, impl Fn(usize) -> Range<usize>) {
    let each = n.div_ceil(PIECES).max(PIECE);
    (n.div_ceil(each), move |piece| piece * each..n.min((piece + 1) * each))
}

/// What words are made of: elements, and a function of one of them and of its index.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a, E, F> {
    pub(crate) elements: &'a [E],
    pub(crate) word: F,
}

impl<E: Copy, F> Source<'_, E, F> {
    #[inline]
    pub(crate) fn words<W>(&self, range: Range<usize>) -> impl Iterator<Item = W>
    where
        F: Fn(E, usize) -> W,
    {
        self.elements[range.clone()].iter().zip(range).map(|(&e, i)| (self.word)(e, i))
    }
}

/// Sorts the words of a source into `to`, by their bits from `low`; those with equal bits stay in their order, which the
/// bits below `low` say, too. `done` is called once for each range when it is sorted, and may use the words there as it likes.
///
/// # Safety
/// `to` has room for as many words, which nobody else uses until this returns.
pub(crate) unsafe fn sort_long<W: Word, E: Copy + Sync>(
    source: Source<'_, E, impl Fn(E, usize) -> W + Sync + Copy>,
    to: Raw<W>,
    low: u32,
    spare: &Spare<W>,
    done: &(dyn Fn(Range<usize>) + Sync),
    fork: &dyn Fork,
) {
    let n = source.elements.len();
    let Some(first) = source.words(0..n.min(1)).next() else { return };
    let (count, piece) = pieces(n);
    // What differs, and whether all is sorted.
    let mut looks = vec![(W::default(), true); count];
    let slots = Raw::of(&mut looks);
    fork.run(count, &|p| {
        let Range { start, end } = piece(p);
        let differing =
            enter(move || source.words(start..end).fold(W::default(), |all, w| all.joined(w.differing(first))));
        let ascends = source.words(start.saturating_sub(1)..end).is_sorted();
        // SAFETY: each piece writes its own slot.
        unsafe { slots.write(p, (differing, ascends)) };
    });
    let (differing, ascends) = looks.iter().fold((W::default(), true), |a, b| (a.0.joined(b.0), a.1 & b.1));
    let (bottom, top) = differing.span();
    let bottom = bottom.max(low);
    if ascends || top <= bottom {
        fork.run(count, &|p| {
            let range = piece(p);
            for (i, w) in range.clone().zip(source.words(range.clone())) {
                // SAFETY: pieces do not overlap, and lie inside `n`.
                unsafe { to.write(i, w) };
            }
            done(range);
        });
        return;
    }

    let digits = (top - bottom).div_ceil(DIGIT);
    if let Some(vectors) = W::vectors().filter(|vectors| vectors.pay(n, digits)) {
        // SAFETY: the caller's promise.
        return unsafe { sort_parts(source, to, vectors, spare, done, fork) };
    }
    let bits = DIGIT.min(top - bottom);
    let shift = top - bits;
    // SAFETY: the caller's promise.
    let starts = unsafe { part(&source, to, shift, bits, fork) };

    // Neighbouring parts until there is enough for a task.
    let mut tasks: Vec<Range<usize>> = Vec::new();
    let mut begun: Option<(usize, usize)> = None;
    for b in 0..1usize << bits {
        let range = starts[b] as usize..starts[b + 1] as usize;
        let long = range.len() > PART && shift > bottom;
        let (first, at) = *begun.get_or_insert((b, range.start));
        if long || range.end - at >= TASK || b + 1 == 1 << bits {
            tasks.push(first..if long { b } else { b + 1 });
            begun = None;
        }
        if long {
            let done = |r: Range<usize>| done(range.start + r.start..range.start + r.end);
            // SAFETY: the caller's promise, for a part of it.
            unsafe { sort_again(range.len(), to.from(range.start), low, spare, &done, fork) };
        }
    }
    fork.run(tasks.len(), &|t| {
        for b in tasks[t].clone() {
            let range = starts[b] as usize..starts[b + 1] as usize;
            if range.is_empty() {
                continue;
            }
            if shift > bottom {
                // SAFETY: parts do not overlap, lie inside `n`, and are in one task each.
                let list = unsafe { to.slice(range.clone()) };
                spare.with(list.len(), |spare| sort(list, spare, low));
            }
            done(range);
        }
    });
}

/// The words of a source, long or not, in their order; see [`sort_long`].
pub(crate) fn sorted<W: Word, E: Copy + Sync>(
    source: Source<'_, E, impl Fn(E, usize) -> W + Sync + Copy>,
    low: u32,
    fork: &dyn Fork,
) -> Vec<W> {
    let n = source.elements.len();
    if u32::try_from(n).is_err() {
        // More than counters of digits can count.
        let mut list: Vec<W> = source.words(0..n).collect();
        list.sort_unstable();
        return list;
    }
    if n < LONG || W::BITS == 0 {
        let mut list: Vec<W> = source.words(0..n).collect();
        sort(&mut list, &mut vec![W::default(); n], low);
        return list;
    }
    let mut list = vec![W::default(); n];
    // SAFETY: the list is as long as the source.
    unsafe { sort_long(source, Raw::of(&mut list), low, &Spare::new(), &|_| (), fork) };
    list
}

/// As [`sort_long`], of the words that are there.
///
/// # Safety
/// As for [`sort_long`].
unsafe fn sort_again<W: Word>(
    n: usize,
    to: Raw<W>,
    low: u32,
    spare: &Spare<W>,
    done: &(dyn Fn(Range<usize>) + Sync),
    fork: &dyn Fork,
) {
    let mut copy = vec![W::default(); n];
    let (count, piece) = pieces(n);
    let raw = Raw::of(&mut copy);
    fork.run(count, &|p| {
        // SAFETY: pieces do not overlap, and lie inside both.
        unsafe { raw.slice(piece(p)).copy_from_slice(to.slice(piece(p))) }
    });
    // SAFETY: the caller's promise.
    unsafe { sort_long(Source { elements: &copy, word: |w, _| w }, to, low, spare, done, fork) };
}

/// Moves the words to `to` in the order of one digit, those with equal ones in their order; where the words of each of its values
/// start, and where the last end.
///
/// # Safety
/// As for [`sort_long`].
unsafe fn part<W: Word, E: Copy + Sync>(
    source: &Source<'_, E, impl Fn(E, usize) -> W + Sync>,
    to: Raw<W>,
    shift: u32,
    bits: u32,
    fork: &dyn Fork,
) -> Vec<u32> {
    const VALUES: usize = 1 << DIGIT;
    let mask = (1usize << bits.min(DIGIT)) - 1;
    let (count, piece) = pieces(source.elements.len());
    let mut slots = vec![[0u32; VALUES]; count];
    let tables = Raw::of(&mut slots);
    fork.run(count, &|p| {
        // SAFETY: each piece has its own table.
        let [table] = (unsafe { tables.slice(p..p + 1) }) else { return };
        for w in source.words(piece(p)) {
            table[w.digit(shift, mask) % VALUES] += 1;
        }
    });
    let mut at = [0u32; VALUES];
    for table in &slots {
        at.iter_mut().zip(table).for_each(|(sum, n)| *sum += n);
    }
    let mut starts = Vec::with_capacity(mask + 2);
    let mut sum = 0;
    for at in &mut at[..=mask] {
        starts.push(sum);
        sum += std::mem::replace(at, sum);
    }
    starts.push(sum);
    for table in &mut slots {
        at.iter_mut().zip(table).for_each(|(at, n)| *at += std::mem::replace(n, *at));
    }
    let tables = Raw::of(&mut slots);
    fork.run(count, &|p| {
        // SAFETY: each piece has its own table.
        let [table] = (unsafe { tables.slice(p..p + 1) }) else { return };
        for w in source.words(piece(p)) {
            let slot = &mut table[w.digit(shift, mask) % VALUES];
            // SAFETY: slots were counted: each word has its own, and all are below their number.
            unsafe { to.write(*slot as usize, w) };
            *slot += 1;
        }
    });
    starts
}
