//! Quicksort by whole vectors.
//!
//! Words below a pivot go one way, the others another, each packed to the front of a vector and written as a whole; one of the two
//! ways is the memory that was read, always behind what is read next, the other is spare memory. So no word is waited for.

use super::lanes::Lanes;
use super::network::{self, ROWS};

/// Partings that may leave nearly everything on one side before words are compared one by one instead.
const LUCK: u32 = 8;

/// Sorts a list; `spare` is as long.
///
/// # Safety
/// AVX-512 is present.
#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt,lzcnt")]
pub(super) unsafe fn sort<V: Lanes>(list: &mut [V::Word], spare: &mut [V::Word]) {
    let n = list.len();
    assert!(spare.len() >= n);
    // SAFETY: the caller's promise; both lists are as long, and do not overlap.
    unsafe { sort_to::<V>(list.as_mut_ptr(), spare.as_mut_ptr(), n, true, LUCK) }
}

/// Parts a list by ascending limits, and counts the parts, of which there is one more; `spare` is as long as the list.
///
/// # Safety
/// AVX-512 is present.
#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt,lzcnt")]
pub(super) unsafe fn part<V: Lanes>(
    list: &mut [V::Word],
    spare: &mut [V::Word],
    limits: &[V::Word],
    counts: &mut [u32],
) {
    let n = list.len();
    assert!(spare.len() >= n && counts.len() == limits.len() + 1);
    // SAFETY: the caller's promise; both lists are as long, and do not overlap.
    unsafe { part_to::<V>(list.as_mut_ptr(), spare.as_mut_ptr(), n, true, limits, counts) }
}

/// Parts the words at `data`, to there or to `spare`.
///
/// # Safety
/// AVX-512 is present; both have `n` words, and do not overlap.
#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn part_to<V: Lanes>(
    data: *mut V::Word,
    spare: *mut V::Word,
    n: usize,
    stay: bool,
    limits: &[V::Word],
    counts: &mut [u32],
) {
    let (to, other) = if stay { (data, spare) } else { (spare, data) };
    let middle = limits.len() / 2;
    // SAFETY: the caller's promise; whatever is written is as long as what was read, and parts do not overlap.
    unsafe {
        let Some(&limit) = limits.get(middle) else {
            if !stay {
                std::ptr::copy_nonoverlapping(data, to, n);
            }
            counts.fill(n as u32);
            return;
        };
        let less = part_by::<V>(data, n, to, other, limit);
        let (first, second) = counts.split_at_mut(middle + 1);
        part_to::<V>(other, to.add(less), n - less, false, &limits[middle + 1..], second);
        part_to::<V>(to, other, less, true, &limits[..middle], first);
    }
}

/// Sorts the words at `data`, to there or to `spare`.
///
/// # Safety
/// AVX-512 is present; both have `n` words, and do not overlap.
#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn sort_to<V: Lanes>(
    mut data: *mut V::Word,
    mut spare: *mut V::Word,
    mut n: usize,
    mut stay: bool,
    mut luck: u32,
) {
    loop {
        // Where words shall be, and what else can be used.
        let (to, other) = if stay { (data, spare) } else { (spare, data) };
        // SAFETY: the caller's promise; whatever is written is as long as what was read, and parts do not overlap.
        unsafe {
            if n <= ROWS * V::COUNT {
                network::sort::<V>(data, to, n);
                return;
            }
            if luck == 0 {
                if !stay {
                    std::ptr::copy_nonoverlapping(data, to, n);
                }
                std::slice::from_raw_parts_mut(to, n).sort_unstable();
                return;
            }
            let (pivot, often) = pivot::<V>(data, n);
            let less = part_by::<V>(data, n, to, other, pivot);
            let mut more = n - less;
            if often || less == 0 {
                // Those that equal the pivot are where they belong, then. None is larger than the largest word.
                let next = V::next(pivot);
                let same = if pivot == V::MAX { more } else { part_by::<V>(other, more, to.add(less), other, next) };
                if pivot == V::MAX {
                    std::slice::from_raw_parts_mut(to.add(less), more).fill(pivot);
                }
                more -= same;
            }
            if less.max(more) > n - n / 8 {
                luck -= 1;
            }
            sort_to::<V>(other, to.add(n - more), more, false, luck);
            (data, spare, n, stay) = (to, other, less, true);
        }
    }
}

/// A word near the middle of all, and whether many are equal to it.
///
/// # Safety
/// AVX-512 is present; there are `n` words, at least a vector.
#[inline(always)]
unsafe fn pivot<V: Lanes>(data: *const V::Word, n: usize) -> (V::Word, bool) {
    let spacing = (n - V::COUNT) / 8;
    // SAFETY: the caller's promise; all vectors lie inside.
    unsafe {
        let third = spacing * 3;
        let a = spread::<V>(data, spacing);
        let b = spread::<V>(data.add(third), spacing);
        let c = spread::<V>(data.add(2 * third), spacing);
        let all = middle(a, b, c);
        let some = middle(all, all.crossed::<1>(), all.crossed::<2>());
        let pivot = if V::COUNT > 8 {
            middle(some, some.crossed::<4>(), some.crossed::<8>())
        } else {
            middle(some, some.crossed::<4>(), some.crossed::<7>())
        };
        let word = pivot.first();
        let pivot = V::all(word);
        let other = all.below(pivot) | pivot.below(all);
        (word, other.count_ones() as usize <= V::COUNT - V::COUNT / 4)
    }
}

/// The middle words of three vectors so far apart.
///
/// # Safety
/// AVX-512 is present; all three can be read.
#[inline(always)]
unsafe fn spread<V: Lanes>(data: *const V::Word, spacing: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe { middle(V::load(data), V::load(data.add(spacing)), V::load(data.add(2 * spacing))) }
}

/// The middle of each three words.
///
/// # Safety
/// AVX-512 is present.
#[inline(always)]
unsafe fn middle<V: Lanes>(a: V, b: V, c: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { a.min(b).max(a.max(b).min(c)) }
}

/// Moves words below `pivot` to `low` and the others to `high`; how many went to `low`.
///
/// # Safety
/// AVX-512 is present; all three have room for `n` words; `low` and `high` do not overlap, `data` is one of them or overlaps neither.
#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn part_by<V: Lanes>(
    data: *const V::Word,
    n: usize,
    mut low: *mut V::Word,
    mut high: *mut V::Word,
    pivot: V::Word,
) -> usize {
    let start = low.addr();
    let all = (1u32 << V::COUNT) - 1;
    // SAFETY: the caller's promise; what is written begins no later than what was read before, and so ends no later than what
    // is read now.
    unsafe {
        let pivot = V::all(pivot);
        let whole = n - n % V::COUNT;
        let mut at = 0;
        while at < whole {
            let v = V::load(data.add(at));
            let bits = v.below(pivot);
            let count = bits.count_ones() as usize;
            v.pack(bits).store(low);
            v.pack(!bits & all).store(high);
            low = low.add(count);
            high = high.add(V::COUNT - count);
            at += V::COUNT;
        }
        let rest = n - whole;
        let v = V::load_some(data.add(whole), rest);
        let valid = (1u32 << rest) - 1;
        let bits = v.below(pivot) & valid;
        let count = bits.count_ones() as usize;
        v.pack(bits).store_some(low, count);
        v.pack(!bits & valid).store_some(high, rest - count);
        low = low.add(count);
    }
    (low.addr() - start) / size_of::<V::Word>()
}
