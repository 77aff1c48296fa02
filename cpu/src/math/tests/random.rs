//! Random words against their definition, word by word.

use super::{Random, run3};
use crate::math::{random, random_run};
use crate::simd::Isa;
use millstream_core::what::philox;

/// Lengths around every number of words that a vector kernel computes at once.
const LENGTHS: [usize; 19] = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 300];

#[test]
fn runs_of_words_begin_anywhere_and_wrap() {
    let mut r = Random::new();
    for isa in Isa::available() {
        for n in LENGTHS {
            let starts = [0, 1, 2, 3, 4, 1 << 30, u32::MAX, u32::MAX - 3, u32::MAX - 70, r.bits() as u32];
            for start in starts {
                let key = [r.bits() as u32, r.bits() as u32];
                let mut out = vec![0xa5a5_a5a5u32; n + 1];
                run3(random_run(isa), &[start], &key[..1], &key[1..], &mut out[..n]);
                for (i, got) in out[..n].iter().enumerate() {
                    assert_eq!(*got, philox(start.wrapping_add(i as u32), key), "{isa:?} {start} + {i} of {n}");
                }
                assert_eq!(out[n], 0xa5a5_a5a5, "{isa:?} {n}");
            }
        }
    }
}

#[test]
fn words_of_any_numbers_have_one_key_or_a_key_each() {
    let mut r = Random::new();
    for isa in Isa::available() {
        for n in LENGTHS {
            let mut list = |n: usize| (0..n).map(|_| r.bits() as u32).collect::<Vec<u32>>();
            let (numbers, k0, k1) = (list(n), list(n.max(1)), list(n.max(1)));
            for one_key in [true, false] {
                let mut out = vec![0xa5a5_a5a5u32; n + 1];
                run3(random(isa, one_key), &numbers, &k0, &k1, &mut out[..n]);
                for (i, got) in out[..n].iter().enumerate() {
                    let k = if one_key { 0 } else { i };
                    assert_eq!(*got, philox(numbers[i], [k0[k], k1[k]]), "{isa:?} {i} of {n}");
                }
                assert_eq!(out[n], 0xa5a5_a5a5, "{isa:?} {n}");
            }
            // In place.
            let mut both = numbers.clone();
            // SAFETY: the kernel reads and writes `n` elements and reads one key.
            unsafe {
                let p = both.as_mut_ptr().cast::<u8>();
                random(isa, true)(p, p, k0.as_ptr().cast(), k1.as_ptr().cast(), n);
            }
            for (got, i) in both.iter().zip(&numbers) {
                assert_eq!(*got, philox(*i, [k0[0], k1[0]]), "{isa:?} {n}");
            }
        }
    }
}
