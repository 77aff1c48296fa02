//! Sorting by vectors against the standard library. On machines without them there is nothing to test.

use super::{Vectors, narrow, wide};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 ^ self.0 >> 29
    }
}

/// Lists that are easy or hard for a pivot.
fn lists(n: usize, r: &mut Random) -> Vec<Vec<u64>> {
    let some = n as u64;
    vec![
        (0..some).map(|_| r.next()).collect(),
        (0..some).collect(),
        (0..some).rev().collect(),
        vec![7; n],
        vec![u64::MAX; n],
        (0..some).map(|_| r.next() % 3).collect(),
        (0..some).map(|_| u64::MAX - r.next() % 2).collect(),
        (0..some).map(|i| if r.next().is_multiple_of(2) { 1 << 31 } else { i << 20 }).collect(),
        (0..some).map(|i| i.min(some - i)).collect(),
        (0..some).map(|i| i % 17).collect(),
    ]
}

fn check<W: Ord + Copy + Default>(vectors: Vectors<W>, list: Vec<W>, say: &str) {
    let n = list.len();
    let mut sorted = list.clone();
    sorted.sort_unstable();
    let (mut got, mut spare) = (list.clone(), vec![W::default(); n]);
    vectors.sort(&mut got, &mut spare);
    assert!(got == sorted, "{n} words, {say}");

    // Limits that are among the words, and equal ones.
    let limits: Vec<W> = [n / 4, n / 4, n / 2, n - n / 8].iter().filter_map(|&i| sorted.get(i).copied()).collect();
    let (mut got, mut counts) = (list, vec![0; limits.len() + 1]);
    vectors.part(&mut got, &mut spare, &limits, &mut counts);
    let mut rest = &got[..];
    for (i, &count) in counts.iter().enumerate() {
        let (part, others) = rest.split_at(count as usize);
        assert!(part.iter().all(|w| limits.get(i).is_none_or(|limit| w < limit)), "{n} words, {say}: too large in {i}");
        assert!(i == 0 || part.iter().all(|w| *w >= limits[i - 1]), "{n} words, {say}: too small in {i}");
        rest = others;
    }
    assert!(rest.is_empty());
    got.sort_unstable();
    assert!(got == sorted, "{n} parted words, {say}");
}

#[test]
fn lists_of_all_lengths_are_sorted() {
    let (Some(narrow), Some(wide)) = (narrow(), wide()) else { return };
    let mut r = Random(5);
    for n in (0..600).chain([1000, 4095, 4097, 70001]) {
        for (kind, list) in lists(n, &mut r).into_iter().enumerate() {
            let say = format!("kind {kind}");
            check(narrow, list.iter().map(|&w| w as u32).collect(), &say);
            check(wide, list, &say);
        }
    }
}

/// A list whose words, where a pivot is looked for, are the least that are left, again and again.
fn unlucky(n: usize, lanes: usize) -> Vec<u32> {
    let mut list = vec![u32::MAX; n];
    let mut left: Vec<usize> = (0..n).collect();
    let mut value = 0;
    while left.len() > 2000 {
        let spacing = (left.len() - lanes) / 8;
        let looked = |at: usize| (0..9).any(|row| (row * spacing..row * spacing + lanes).contains(&at));
        for (at, &i) in left.iter().enumerate() {
            if looked(at) {
                list[i] = value;
            }
        }
        left = left.iter().copied().enumerate().filter(|&(at, _)| !looked(at)).map(|(_, i)| i).collect();
        value += 1;
    }
    left.iter().zip(value..).for_each(|(&i, v)| list[i] = v ^ 1);
    list
}

#[test]
fn words_that_mislead_the_pivot_are_sorted() {
    let (Some(narrow), Some(wide)) = (narrow(), wide()) else { return };
    check(narrow, unlucky(30000, 16), "unlucky");
    check(wide, unlucky(30000, 8).into_iter().map(u64::from).collect(), "unlucky");
}
