//! Sorting words digit by digit, for lists that a cache holds.

use std::sync::{Mutex, PoisonError};

use crate::keys::Word;

/// Bits of a digit at most: counters of all its values stay in L1.
pub(crate) const DIGIT: u32 = 11;

/// Lists shorter than this times the number of digits are compared: counters would cost more than words.
const FEW: usize = 100;

/// So few words are compared one by one.
const FEWEST: usize = 8;

/// Sorts words of which the bits from `low` differ; those below `low` ascend along the list where the others are equal, so
/// that comparing whole words gives the same order. `spare` is as long as the list; what it holds afterwards is unspecified.
pub(crate) fn sort<W: Word>(list: &mut [W], spare: &mut [W], low: u32) {
    let Some(&first) = list.first() else { return };
    if list.len() <= FEWEST {
        list.sort_unstable();
        return;
    }
    let vectors = W::vectors();
    if W::BITS == 0 || list.len() < FEW {
        match vectors {
            Some(vectors) => vectors.sort(list, spare),
            None => list.sort_unstable(),
        }
        return;
    }
    if list.is_sorted() {
        return;
    }
    let (bottom, top) = list.iter().fold(W::default(), |all, w| all.joined(w.differing(first))).span();
    let bottom = bottom.max(low);
    let width = top.saturating_sub(bottom);
    let digits = width.div_ceil(DIGIT);
    if let Some(vectors) = vectors.filter(|vectors| vectors.pay(list.len(), digits)) {
        vectors.sort(list, spare);
    } else if list.len() < FEW * digits as usize {
        list.sort_unstable();
    } else {
        by_digits(list, spare, bottom, width);
    }
}

/// Sorts words by so many bits from `bottom`; those in which they are equal stay in their order.
fn by_digits<W: Word>(list: &mut [W], spare: &mut [W], bottom: u32, width: u32) {
    let digits = width.div_ceil(DIGIT);
    let (mut from, mut to) = (list, spare);
    if digits % 2 == 1 {
        // So that the last digit ends in the list.
        to.copy_from_slice(from);
        (from, to) = (to, from);
    }
    let each = width.div_ceil(digits.max(1));
    for digit in 0..digits {
        by_digit(from, to, bottom + digit * each, each);
        (from, to) = (to, from);
    }
}

/// Moves words to `to`, of the same length, in the order of one digit; words with equal digits stay in their order.
fn by_digit<W: Word>(from: &[W], to: &mut [W], shift: u32, bits: u32) {
    const VALUES: usize = 1 << DIGIT;
    let mask = (1usize << bits.min(DIGIT)) - 1;
    let mut slots = [0u32; VALUES];
    for w in from {
        slots[w.digit(shift, mask) % VALUES] += 1;
    }
    let mut at = 0;
    for slot in &mut slots[..=mask] {
        at += std::mem::replace(slot, at);
    }
    for &w in from {
        let slot = &mut slots[w.digit(shift, mask) % VALUES];
        // SAFETY: the slots of a digit's value are as many as words have it, and lie behind those of smaller values, so
        // that all of them are in a list as long as this one.
        unsafe { *to.get_unchecked_mut(*slot as usize) = w };
        *slot += 1;
    }
}

/// Lists for tasks that need one each: as many as tasks run at once, not as many as there are tasks.
pub(crate) struct Spare<W>(Mutex<Vec<Vec<W>>>);

impl<W: Word> Spare<W> {
    pub(crate) fn new() -> Spare<W> {
        Spare(Mutex::new(Vec::new()))
    }

    /// Calls `f` with a list of this length, whatever it holds.
    pub(crate) fn with<R>(&self, len: usize, f: impl FnOnce(&mut [W]) -> R) -> R {
        let reused = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut list = reused.filter(|list| list.len() >= len).unwrap_or_else(|| vec![W::default(); len]);
        let result = f(&mut list[..len]);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(list);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_sort_like_comparisons() {
        // Machines with vectors take digits for some lists only.
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        for n in [1usize, 2, 100, 1000, 5000] {
            for width in [1, 10, 11, 12, 23, 32, 64] {
                let mut list: Vec<u64> = (0..n).map(|_| random() >> (64 - width)).collect();
                let mut sorted = list.clone();
                sorted.sort_unstable();
                by_digits(&mut list, &mut vec![0; n], 0, width);
                assert!(list == sorted, "{n} words of {width} bits");
            }
        }
    }
}
