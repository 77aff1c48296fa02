//! Sorting long lists by vectors on all threads: words are parted by limits that a sample gives, piece by piece in a core's own
//! cache; then each part is gathered from the pieces and sorted there.
//!
//! Every step reads and writes long runs of memory. Moving words one by one to the parts of a digit, as without vectors, asks for so
//! many pages and lines at once that it takes several times as long beyond the caches (probably those of translations), most of all on Intel.

use std::ops::Range;

use millstream_core::what::Fork;

use crate::keys::Word;
use crate::partition::Source;
use crate::radix::Spare;
use crate::slices::Raw;
use crate::vectors::{Vectors, enter};

/// Words of a piece, and about those of a part, at least.
const PIECE: usize = 1 << 14;

/// Pieces and parts at most: each piece counts its words of all parts.
const PIECES: usize = 2048;
const PARTS: usize = 128;

/// Bytes that are buffered at most.
const BUFFERED_BYTES: usize = 1 << 24;

/// Words of a sample for each part.
const SAMPLE: usize = 16;

/// As [`sort_long`](crate::partition::sort_long), by vectors; whole words say the order.
///
/// # Safety
/// As for [`sort_long`](crate::partition::sort_long).
pub(crate) unsafe fn sort_parts<W: Word, E: Copy + Sync>(
    source: Source<'_, E, impl Fn(E, usize) -> W + Sync + Copy>,
    to: Raw<W>,
    vectors: Vectors<W>,
    spare: &Spare<W>,
    done: &(dyn Fn(Range<usize>) + Sync),
    fork: &dyn Fork,
) {
    let n = source.elements.len();
    let each = n.div_ceil(PIECES).max(PIECE);
    let pieces = n.div_ceil(each);
    let parts = pieces.next_power_of_two().min(PARTS);
    let limits = limits(&source, vectors, parts);

    // Parted pieces are buffered until they can be moved, or made again where so much memory would be new to the process: its pages
    // would cost more than that. What is buffered is written before it is read.
    let mut buffered: Vec<W> = Vec::with_capacity(if n * size_of::<W>() <= BUFFERED_BYTES { n } else { 0 });
    let keep = buffered.capacity() >= n;
    let buffered = Raw::of(buffered.spare_capacity_mut()).cast::<W>();
    // SAFETY: a piece begins inside `n`.
    let memory = |p: usize, own: &mut [W]| if keep { unsafe { buffered.from(p * each) } } else { Raw::of(own) };
    let part = |p: usize, words: Raw<W>, spare: &mut [W], counts: &mut [u32]| {
        let from = p * each..n.min((p + 1) * each);
        let len = from.len();
        // SAFETY: there is room for a piece, which is in one task.
        enter(move || (0..len).zip(source.words(from)).for_each(|(i, w)| unsafe { words.write(i, w) }));
        // SAFETY: as before, and all of it is written.
        vectors.part(unsafe { words.slice(0..len) }, spare, &limits, counts);
    };
    // How many words of each part a piece has.
    let mut counts = vec![0u32; pieces * parts];
    let slots = Raw::of(&mut counts);
    fork.run(pieces, &|p| {
        // SAFETY: each piece has its own counters.
        let counts = unsafe { slots.slice(p * parts..(p + 1) * parts) };
        spare.with(2 * each, |both| {
            let (own, spare) = both.split_at_mut(each);
            part(p, memory(p, own), spare, counts);
        });
    });

    // Where each part of a piece goes.
    let mut starts = Vec::with_capacity(parts + 1);
    let mut slots = vec![0; pieces * parts];
    let mut sum = 0;
    for part in 0..parts {
        starts.push(sum);
        for p in 0..pieces {
            slots[p * parts + part] = sum;
            sum += counts[p * parts + part] as usize;
        }
    }
    starts.push(sum);
    fork.run(pieces, &|p| {
        let counts = &counts[p * parts..(p + 1) * parts];
        spare.with(2 * each, |both| {
            let (own, spare) = both.split_at_mut(each);
            let words = memory(p, own);
            if !keep {
                part(p, words, spare, &mut counts.to_vec());
            }
            let mut at = 0;
            for (&count, &slot) in counts.iter().zip(&slots[p * parts..]) {
                let count = count as usize;
                // SAFETY: counted: each part of a piece has its own slot, and lies behind those before it.
                unsafe { to.slice(slot..slot + count).copy_from_slice(words.slice(at..at + count)) };
                at += count;
            }
        });
    });
    fork.run(parts, &|part| {
        let range = starts[part]..starts[part + 1];
        // SAFETY: parts do not overlap, lie inside `n`, and are in one task each.
        let list = unsafe { to.slice(range.clone()) };
        spare.with(list.len(), |spare| vectors.sort(list, spare));
        done(range);
    });
}

/// Words that part the others into so many parts of about the same length, unless many are equal.
fn limits<W: Word, E: Copy>(
    source: &Source<'_, E, impl Fn(E, usize) -> W>,
    vectors: Vectors<W>,
    parts: usize,
) -> Vec<W> {
    let count = parts * SAMPLE;
    let spacing = source.elements.len() / count;
    let sampled = |i: usize| {
        // Not all at the same distance: elements may repeat at such a one.
        let at = i * spacing + (i.wrapping_mul(0x9e37_79b9) >> 8) % spacing.max(1);
        source.words(at..at + 1)
    };
    let mut sample: Vec<W> = (0..count).flat_map(sampled).collect();
    vectors.sort(&mut sample, &mut vec![W::default(); count]);
    (1..parts).map(|part| sample[part * SAMPLE]).collect()
}
