//! Vectors of words by AVX-512 F: the only module that calls its intrinsics.

use std::arch::x86_64::*;

/// A vector of words. All its functions ask for AVX-512; [`super::Vectors`] is only made where it is.
pub(super) trait Lanes: Copy {
    type Word: Copy + Ord + Default;

    /// Words in a vector, 8 or 16.
    const COUNT: usize;
    /// The largest word, and the one after another.
    const MAX: Self::Word;
    fn next(word: Self::Word) -> Self::Word;

    /// # Safety
    /// AVX-512 is present; here and in all functions below. A whole vector can be read at `from`.
    unsafe fn load(from: *const Self::Word) -> Self;

    /// The first `n` words at `from`, and the largest word in the other lanes.
    ///
    /// # Safety
    /// So many words can be read.
    unsafe fn load_some(from: *const Self::Word, n: usize) -> Self;

    /// # Safety
    /// A whole vector can be written at `to`.
    unsafe fn store(self, to: *mut Self::Word);

    /// Writes the first `n` words.
    ///
    /// # Safety
    /// So many words can be written.
    unsafe fn store_some(self, to: *mut Self::Word, n: usize);

    /// # Safety
    /// AVX-512 is present.
    unsafe fn all(word: Self::Word) -> Self;

    /// # Safety
    /// AVX-512 is present.
    unsafe fn min(self, other: Self) -> Self;

    /// # Safety
    /// AVX-512 is present.
    unsafe fn max(self, other: Self) -> Self;

    /// The word of the first lane.
    ///
    /// # Safety
    /// AVX-512 is present.
    unsafe fn first(self) -> Self::Word;

    /// A bit for each lane that is below the other's.
    ///
    /// # Safety
    /// AVX-512 is present.
    unsafe fn below(self, other: Self) -> u32;

    /// The words whose bit is set, at the front.
    ///
    /// # Safety
    /// AVX-512 is present.
    unsafe fn pack(self, bits: u32) -> Self;

    /// The words of the lanes `i ^ X`; `X` is below the number of lanes.
    ///
    /// # Safety
    /// AVX-512 is present.
    unsafe fn crossed<const X: usize>(self) -> Self;

    /// In lanes whose bit is set those of `other`.
    ///
    /// # Safety
    /// AVX-512 is present.
    unsafe fn or(self, other: Self, bits: u32) -> Self;

    /// The lesser words in lanes whose bit is not set, the larger ones in the others.
    ///
    /// # Safety
    /// AVX-512 is present.
    unsafe fn min_max(self, other: Self, bits: u32) -> Self;

    /// The words of both by turns: first those of the lower halves, then of the upper ones.
    ///
    /// # Safety
    /// AVX-512 is present.
    unsafe fn zip(self, other: Self) -> (Self, Self);
}

/// Sixteen u32.
#[derive(Clone, Copy)]
pub(super) struct Narrow(__m512i);

/// Eight u64.
#[derive(Clone, Copy)]
pub(super) struct Wide(__m512i);

macro_rules! lanes {
    ($lanes:ident, $word:ident, $count:literal, $mask:ident, $all:ident, $first:ident, $load_some:ident, $store_some:ident, $min:ident,
     $max:ident, $mask_max:ident, $below:ident, $pack:ident, $blend:ident, $permute:ident, $zip:ident,
     |$v:ident| { $($x:literal => $cross:expr),* }) => {
        impl Lanes for $lanes {
            type Word = $word;
            const COUNT: usize = $count;
            const MAX: $word = $word::MAX;
            #[inline(always)]
            fn next(word: $word) -> $word {
                word.wrapping_add(1)
            }
            #[inline(always)]
            unsafe fn load(from: *const $word) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { _mm512_loadu_si512(from.cast()) })
            }
            #[inline(always)]
            unsafe fn load_some(from: *const $word, n: usize) -> Self {
                // SAFETY: the caller's promise; lanes without a bit are not read.
                unsafe { Self($load_some(Self::all($word::MAX).0, first(n) as $mask, from.cast())) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $word) {
                // SAFETY: the caller's promise.
                unsafe { _mm512_storeu_si512(to.cast(), self.0) }
            }
            #[inline(always)]
            unsafe fn store_some(self, to: *mut $word, n: usize) {
                // SAFETY: the caller's promise; lanes without a bit are not written.
                unsafe { $store_some(to.cast(), first(n) as $mask, self.0) }
            }
            #[inline(always)]
            unsafe fn all(word: $word) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $all(word as _) })
            }
            #[inline(always)]
            unsafe fn first(self) -> $word {
                // SAFETY: the caller's promise.
                unsafe { $first(_mm512_castsi512_si128(self.0)) as $word }
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $min(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $max(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn min_max(self, other: Self, bits: u32) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $mask_max($min(self.0, other.0), bits as $mask, self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn below(self, other: Self) -> u32 {
                // SAFETY: the caller's promise.
                u32::from(unsafe { $below(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn pack(self, bits: u32) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $pack(bits as $mask, self.0) })
            }
            #[inline(always)]
            unsafe fn or(self, other: Self, bits: u32) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $blend(bits as $mask, self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn crossed<const X: usize>(self) -> Self {
                let $v = self.0;
                // SAFETY: the caller's promise.
                Self(unsafe {
                    match X {
                        $($x => $cross,)*
                        _ => {
                            let index: [$word; $count] = const { numbers!($word, $count, |i| i ^ X) };
                            $permute(_mm512_loadu_si512(index.as_ptr().cast()), $v)
                        }
                    }
                })
            }
            #[inline(always)]
            unsafe fn zip(self, other: Self) -> (Self, Self) {
                let low: [$word; $count] = const { numbers!($word, $count, |i| i / 2 + i % 2 * $count) };
                let high: [$word; $count] = const { numbers!($word, $count, |i| i / 2 + i % 2 * $count + $count / 2) };
                // SAFETY: the caller's promise.
                unsafe {
                    (
                        Self($zip(self.0, _mm512_loadu_si512(low.as_ptr().cast()), other.0)),
                        Self($zip(self.0, _mm512_loadu_si512(high.as_ptr().cast()), other.0)),
                    )
                }
            }
        }
    };
}

/// An array of a function of each index, in constants.
macro_rules! numbers {
    ($word:ident, $count:literal, |$i:ident| $value:expr) => {{
        let (mut list, mut $i) = ([0; $count], 0);
        while $i < $count {
            list[$i] = ($value) as $word;
            $i += 1;
        }
        list
    }};
}

/// As many low bits.
#[inline(always)]
fn first(n: usize) -> u32 {
    (1 << n) - 1
}

lanes!(Narrow, u32, 16, __mmask16, _mm512_set1_epi32, _mm_cvtsi128_si32, _mm512_mask_loadu_epi32, _mm512_mask_storeu_epi32, _mm512_min_epu32,
_mm512_max_epu32, _mm512_mask_max_epu32, _mm512_cmplt_epu32_mask, _mm512_maskz_compress_epi32, _mm512_mask_blend_epi32,
_mm512_permutexvar_epi32, _mm512_permutex2var_epi32, |v| {
    1 => _mm512_shuffle_epi32::<0xb1>(v), 2 => _mm512_shuffle_epi32::<0x4e>(v), 3 => _mm512_shuffle_epi32::<0x1b>(v),
    4 => _mm512_shuffle_i64x2::<0xb1>(v, v), 8 => _mm512_shuffle_i64x2::<0x4e>(v, v)
});
lanes!(Wide, u64, 8, __mmask8, _mm512_set1_epi64, _mm_cvtsi128_si64, _mm512_mask_loadu_epi64, _mm512_mask_storeu_epi64, _mm512_min_epu64,
_mm512_max_epu64, _mm512_mask_max_epu64, _mm512_cmplt_epu64_mask, _mm512_maskz_compress_epi64, _mm512_mask_blend_epi64,
_mm512_permutexvar_epi64, _mm512_permutex2var_epi64, |v| {
    1 => _mm512_shuffle_epi32::<0x4e>(v), 2 => _mm512_permutex_epi64::<0x4e>(v), 3 => _mm512_permutex_epi64::<0x1b>(v),
    4 => _mm512_shuffle_i64x2::<0x4e>(v, v)
});
