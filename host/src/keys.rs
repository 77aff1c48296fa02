//! Elements as keys: unsigned integers whose order is that of the elements, so that sorting compares integers only.
//!
//! The order is total: NaN is larger than everything else and equal to itself, the two zeros are equal, `false` is less than
//! `true`, complex numbers are compared by their real part first.

use half::{bf16, f16};
use millstream_core::Element;
use num_complex::Complex;

use crate::vectors::{self, Vectors};

/// An unsigned integer by which things are sorted, or several.
pub(crate) trait Word: Copy + Ord + Default + Send + Sync + 'static {
    /// How many bits it has; 0 where it has no digits and can only be compared.
    const BITS: u32;

    /// The bits from `shift`, cut to those of `mask`.
    fn digit(self, shift: u32, mask: usize) -> usize;

    /// Where two words differ, as a word; and all bits of two such words.
    fn differing(self, other: Self) -> Self;
    fn joined(self, other: Self) -> Self;

    /// The lowest bit that is set and the one above the highest; `(0, 0)` if none is.
    fn span(self) -> (u32, u32);

    /// Vectors of the machine that sort such words, if there are any.
    fn vectors() -> Option<Vectors<Self>> {
        None
    }
}

/// A key.
pub(crate) trait Key: Word {
    /// A key and the index of its element, in one value that sorts by the key first and by the index then.
    type WithIndex: Word;

    /// In the other direction, if `by`.
    fn flipped(self, by: bool) -> Self;
    fn with_index(self, at: u32) -> Self::WithIndex;
    fn index(word: Self::WithIndex) -> u32;
    fn key(word: Self::WithIndex) -> Self;
}

/// The lowest bit of the key in a word that holds an index, too.
pub(crate) const INDEX_BITS: u32 = 32;

/// An element that can be compared.
pub(crate) trait Keyed: Element {
    type Key: Key;

    /// Whether keys are as wide as elements, and an element can be made from its key unless that is
    /// [`shared`](Keyed::SHARED).
    const BARE: bool;

    fn key(self) -> Self::Key;

    /// The bits of an element with this key.
    fn bits(key: Self::Key) -> Self::Key;

    /// Its own bits, where keys are as wide.
    fn own_bits(self) -> Self::Key;

    /// The keys of elements with different bits: of the two zeros, and of NaNs.
    const SHARED: &'static [Self::Key] = &[];

    /// Whether it is not a number, or has a part that is not.
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! words {
    ($($word:ty $(, $vectors:path)?;)*) => {
        $(impl Word for $word {
            const BITS: u32 = <$word>::BITS;
            #[inline]
            fn digit(self, shift: u32, mask: usize) -> usize {
                (self >> shift) as usize & mask
            }
            #[inline]
            fn differing(self, other: Self) -> Self {
                self ^ other
            }
            #[inline]
            fn joined(self, other: Self) -> Self {
                self | other
            }
            fn span(self) -> (u32, u32) {
                if self == 0 { (0, 0) } else { (self.trailing_zeros(), <$word>::BITS - self.leading_zeros()) }
            }
            $(fn vectors() -> Option<Vectors<$word>> {
                $vectors()
            })?
        })*
    };
}
words! { u8; u16; u32, vectors::narrow; u64, vectors::wide; u128; }

/// Words without digits.
macro_rules! compared {
    ($($word:ty),*) => {
        $(impl Word for $word {
            const BITS: u32 = 0;
            fn digit(self, _: u32, _: usize) -> usize {
                0
            }
            fn differing(self, _: Self) -> Self {
                self
            }
            fn joined(self, _: Self) -> Self {
                self
            }
            fn span(self) -> (u32, u32) {
                (0, 0)
            }
        })*
    };
}
compared!((u64, u64), (u64, u64, u32));

macro_rules! keys {
    ($($key:ty => $with_index:ty),*) => {
        $(impl Key for $key {
            type WithIndex = $with_index;
            #[inline]
            fn flipped(self, by: bool) -> Self {
                self ^ (0 as $key).wrapping_sub(<$key>::from(by))
            }
            #[inline]
            fn with_index(self, at: u32) -> $with_index {
                <$with_index>::from(self) << INDEX_BITS | <$with_index>::from(at)
            }
            #[inline]
            fn index(word: $with_index) -> u32 {
                word as u32
            }
            #[inline]
            fn key(word: $with_index) -> Self {
                (word >> INDEX_BITS) as $key
            }
        })*
    };
}
keys!(u8 => u64, u16 => u64, u32 => u64, u64 => u128);

impl Key for (u64, u64) {
    type WithIndex = (u64, u64, u32);
    fn flipped(self, by: bool) -> Self {
        (self.0.flipped(by), self.1.flipped(by))
    }
    fn with_index(self, at: u32) -> Self::WithIndex {
        (self.0, self.1, at)
    }
    fn index(word: Self::WithIndex) -> u32 {
        word.2
    }
    fn key(word: Self::WithIndex) -> Self {
        (word.0, word.1)
    }
}

macro_rules! integers {
    ($($type:ty, $key:ty, $flip:expr);* $(;)?) => {
        $(impl Keyed for $type {
            type Key = $key;
            const BARE: bool = true;
            #[inline]
            fn key(self) -> $key {
                self as $key ^ $flip
            }
            #[inline]
            fn bits(key: $key) -> $key {
                key ^ $flip
            }
            #[inline]
            fn own_bits(self) -> $key {
                self as $key
            }
        })*
    };
}
integers! {
    bool, u8, 0; u8, u8, 0; u16, u16, 0; u32, u32, 0; u64, u64, 0;
    i8, u8, 1 << 7; i16, u16, 1 << 15; i32, u32, 1 << 31; i64, u64, 1 << 63;
}

macro_rules! floats {
    ($($type:ty, $key:ty, $infinity:expr);* $(;)?) => {
        $(impl Keyed for $type {
            type Key = $key;
            const BARE: bool = true;
            const SHARED: &'static [$key] = &[1 << (<$key>::BITS - 1), <$key>::MAX];
            #[inline]
            fn key(self) -> $key {
                const TOP: $key = 1 << (<$key>::BITS - 1);
                let bits = self.to_bits();
                let size = bits & !TOP;
                // Negative numbers count downwards, so that negative zero would come right below zero: it takes zero's key.
                let key = if bits > TOP { !bits } else { bits | TOP };
                if size > $infinity { <$key>::MAX } else { key }
            }
            #[inline]
            fn bits(key: $key) -> $key {
                const TOP: $key = 1 << (<$key>::BITS - 1);
                if key >= TOP { key ^ TOP } else { !key }
            }
            #[inline]
            fn own_bits(self) -> $key {
                self.to_bits()
            }
            #[inline]
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
        })*
    };
}
floats! { f16, u16, 0x7c00; bf16, u16, 0x7f80; f32, u32, 0x7f80_0000; f64, u64, 0x7ff0_0000_0000_0000 }

impl Keyed for Complex<f32> {
    type Key = u64;
    const BARE: bool = false;
    #[inline]
    fn key(self) -> u64 {
        u64::from(self.re.key()) << 32 | u64::from(self.im.key())
    }
    fn bits(key: u64) -> u64 {
        key
    }
    fn own_bits(self) -> u64 {
        self.key()
    }
    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
}

impl Keyed for Complex<f64> {
    type Key = (u64, u64);
    const BARE: bool = false;
    #[inline]
    fn key(self) -> (u64, u64) {
        (self.re.key(), self.im.key())
    }
    fn bits(key: (u64, u64)) -> (u64, u64) {
        key
    }
    fn own_bits(self) -> (u64, u64) {
        self.key()
    }
    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_floats_with_nan_last_and_zeros_equal() {
        let list = [f32::NEG_INFINITY, -1.5, -1e-40, -0.0, 1e-40, 2.0, f32::INFINITY, f32::NAN];
        assert!(list.windows(2).all(|w| w[0].key() < w[1].key()));
        assert_eq!((-0.0f64).key(), 0.0f64.key());
        assert_eq!((-f64::NAN).key(), f64::NAN.key());
        assert!(i8::MIN.key() < (-1i8).key() && (-1i8).key() < 0i8.key() && false.key() < true.key());
        assert!(Complex::new(1.0f32, f32::NAN).key() < Complex::new(f32::NAN, 0.0).key());
    }
}
