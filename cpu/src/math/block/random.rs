//! Random words: blocks of Philox-4x32-10, a block in each lane. What they are is said by [`millstream_core::what::philox`].
//!
//! A word lies in the low half of a 64-bit lane; a product leaves the next round's words in both halves, so that a round is two
//! multiplications, two shifts and two exclusive ors for as many blocks as a vector has lanes.

// Vector code goes by indices: see the module of vectors.
#![allow(clippy::needless_range_loop)]

use super::BlockFn;
use super::entry::{Block, resolve};
use crate::simd::{Float, Int, Isa, MAX_LANES, Simd};
use std::mem::MaybeUninit;

/// Words of a block.
const WORDS: usize = 4;
const ROUNDS: usize = 10;
/// Vectors in flight: the rounds of one wait for each other.
const WAYS: usize = 2;
/// Words of all lanes in flight; a buffer of this many holds them.
const MOST: usize = WAYS * WORDS * MAX_LANES;
/// A block's number has this many bits, a word's two more.
const NUMBERS: u32 = u32::MAX >> 2;

/// Key words of every round, in every lane.
type Keys<S> = [[<S as Simd>::I64; 2]; ROUNDS];

/// The keys of all rounds, given the first's.
#[inline(always)]
fn keys<S: Simd>(s: S, mut key: [S::I64; 2]) -> Keys<S> {
    let mut keys = [key; ROUNDS];
    for round in &mut keys {
        *round = key;
        key = [key[0] + s.i64(0x9e37_79b9), key[1] + s.i64(0xbb67_ae85)];
    }
    keys
}

/// The words of the blocks of these numbers, each in the low half of its lane.
#[inline(always)]
fn blocks<S: Simd, const N: usize>(s: S, numbers: [S::I64; N], keys: &Keys<S>) -> [[S::I64; WORDS]; N] {
    let (first, second) = (s.i64(0xd251_1f53), s.i64(0xcd9e_8d57));
    let zero = s.i64(0);
    let mut all = [[zero; WORDS]; N];
    for w in 0..N {
        all[w][0] = numbers[w];
    }
    for round in keys {
        for block in &mut all {
            let (a, b) = (s.mul_low(first, block[0]), s.mul_low(second, block[2]));
            *block = [b.shr::<32>() ^ block[1] ^ round[0], b, a.shr::<32>() ^ block[3] ^ round[1], a];
        }
    }
    all
}

/// 0, 1, 2, ... in the lanes.
#[inline(always)]
fn counting<S: Simd>(_: S) -> S::I64 {
    const COUNT: [i64; MAX_LANES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    // SAFETY: a token exists, and the list holds any vector.
    unsafe { S::I64::load(COUNT.as_ptr()) }
}

/// The u32 of this number.
///
/// # Safety
/// There are so many.
#[inline(always)]
unsafe fn word(p: *const u8, i: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { p.cast::<u32>().add(i).read_unaligned() }
}

/// The u32s from this number on in the first `count` lanes, 0 in the others.
///
/// # Safety
/// There are so many, and no more than lanes.
#[inline(always)]
unsafe fn words<S: Simd>(_: S, p: *const u8, from: usize, count: usize) -> S::I64 {
    let mut list = [0i64; MAX_LANES];
    // SAFETY: the caller's promise; the list holds any vector.
    unsafe {
        for i in 0..count {
            *list.get_unchecked_mut(i) = word(p, from + i).into();
        }
        S::I64::load(list.as_ptr())
    }
}

/// The words that follow each other from the number at `a` on.
struct Words;

impl Block for Words {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        let lanes = S::F64::LANES;
        let each = WAYS * WORDS * lanes;
        // SAFETY: the caller promises one u32 at each operand.
        let (start, k0, k1) = unsafe { (word(a, 0), word(b, 0), word(c, 0)) };
        let keys = keys(s, [s.i64(k0.into()), s.i64(k1.into())]);
        let mask = s.i64(i64::from(u32::MAX));
        let mut number = start / WORDS as u32;
        // The first block may begin before the first word that is wanted.
        let mut skip = start as usize % WORDS;
        let dst = dst.cast::<u32>();
        let mut rest = [MaybeUninit::<u32>::uninit(); MOST];
        let mut at = 0;
        while at < n {
            let mut numbers = [counting(s); WAYS];
            for w in 0..WAYS {
                let first = i64::from(number) + (w * lanes) as i64;
                numbers[w] = (numbers[w] + s.i64(first)) & s.i64(i64::from(NUMBERS));
            }
            let all = blocks(s, numbers, &keys);
            let whole = skip == 0 && n - at >= each;
            let count = (each - skip).min(n - at);
            // SAFETY: `each` words are left, or fit the buffer, of which `count` after those that are skipped are left.
            unsafe {
                let to = if whole { dst.add(at) } else { rest.as_mut_ptr().cast() };
                for w in 0..WAYS {
                    let [p, q, r, t] = all[w];
                    let pairs = s.interleave((p & mask) | q.shl::<32>(), (r & mask) | t.shl::<32>());
                    pairs[0].store(to.add(4 * w * lanes).cast());
                    pairs[1].store(to.add((4 * w + 2) * lanes).cast());
                }
                if !whole {
                    std::ptr::copy_nonoverlapping(to.add(skip), dst.add(at), count);
                }
            }
            at += count;
            skip = 0;
            number = number.wrapping_add((WAYS * lanes) as u32) & NUMBERS;
        }
    }
}

/// The words of the numbers at `a`, under one key for each or for all.
struct Each<const KEYS: bool>;

impl<const KEYS: bool> Block for Each<KEYS> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        let lanes = S::F64::LANES;
        let dst = dst.cast::<u32>();
        // SAFETY: the caller promises at least one key, if there is a word.
        let (k0, k1) = if n > 0 { unsafe { (word(b, 0), word(c, 0)) } } else { (0, 0) };
        let mut all = keys(s, [s.i64(k0.into()), s.i64(k1.into())]);
        let mut at = 0;
        while at < n {
            let count = lanes.min(n - at);
            // SAFETY: `count` elements are left at `a`, and at the keys if there is one for each.
            let numbers = unsafe {
                if KEYS {
                    all = keys(s, [words(s, b, at, count), words(s, c, at, count)]);
                }
                words(s, a, at, count)
            };
            let [[w0, w1, w2, w3]] = blocks(s, [numbers.shr::<2>()], &all);
            let is_odd = !(numbers & s.i64(1)).eq(s.i64(0));
            let is_late = !(numbers & s.i64(2)).eq(s.i64(0));
            let (early, late) = (S::I64::select(is_odd, w1, w0), S::I64::select(is_odd, w3, w2));
            let mut list = [0i64; MAX_LANES];
            // SAFETY: the list holds any vector; `count` elements are left.
            unsafe {
                S::I64::select(is_late, late, early).store(list.as_mut_ptr());
                for (i, x) in list.iter().enumerate().take(count) {
                    dst.add(at + i).write_unaligned(*x as u32);
                }
            }
            at += count;
        }
    }
}

/// See [`super::random`].
pub fn random(isa: Isa, one_key: bool) -> BlockFn {
    if one_key { resolve::<Each<false>>(isa) } else { resolve::<Each<true>>(isa) }
}

/// See [`super::random_run`].
pub fn random_run(isa: Isa) -> BlockFn {
    resolve::<Words>(isa)
}
