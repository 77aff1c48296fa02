//! Elements as keys: unsigned integers whose order is that of the elements, so that sorting compares integers only.
//!
//! The order is total: NaN is larger than everything else and equal to itself, the two zeros are equal, `false` is less than
//! `true`, complex numbers are compared by their real part first.

use half::{bf16, f16};
use millstream_core::Element;
use num_complex::Complex;

/// A key.
pub(crate) trait Key: Copy + Ord + Send + Sync {
    /// A key and the place of its element, in one value that sorts by the key first and by the place then.
    type Placed: Copy + Ord + Send + Sync;

    /// In the other direction.
    fn reversed(self) -> Self;
    fn placed(self, at: u32) -> Self::Placed;
    fn place(placed: Self::Placed) -> u32;
    fn key(placed: Self::Placed) -> Self;
}

/// An element that can be compared.
pub(crate) trait Keyed: Element {
    type Key: Key;
    fn key(self) -> Self::Key;

    /// Whether it is not a number, or has a part that is not.
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! keys {
    ($($key:ty => $placed:ty),*) => {
        $(impl Key for $key {
            type Placed = $placed;
            fn reversed(self) -> Self {
                !self
            }
            fn placed(self, at: u32) -> $placed {
                <$placed>::from(self) << 32 | <$placed>::from(at)
            }
            fn place(placed: $placed) -> u32 {
                placed as u32
            }
            fn key(placed: $placed) -> Self {
                (placed >> 32) as $key
            }
        })*
    };
}
keys!(u8 => u64, u16 => u64, u32 => u64, u64 => u128);

impl<K: Key> Key for (K, K) {
    type Placed = (K, K, u32);
    fn reversed(self) -> Self {
        (self.0.reversed(), self.1.reversed())
    }
    fn placed(self, at: u32) -> Self::Placed {
        (self.0, self.1, at)
    }
    fn place(placed: Self::Placed) -> u32 {
        placed.2
    }
    fn key(placed: Self::Placed) -> Self {
        (placed.0, placed.1)
    }
}

macro_rules! integers {
    ($($type:ty, $key:ty, $flip:expr);* $(;)?) => {
        $(impl Keyed for $type {
            type Key = $key;
            fn key(self) -> $key {
                self as $key ^ $flip
            }
        })*
    };
}
integers! {
    bool, u8, 0; u8, u8, 0; u16, u16, 0; u32, u32, 0; u64, u64, 0;
    i8, u8, 1 << 7; i16, u16, 1 << 15; i32, u32, 1 << 31; i64, u64, 1 << 63;
}

macro_rules! floats {
    ($($type:ty, $key:ty, $top:expr);* $(;)?) => {
        $(impl Keyed for $type {
            type Key = $key;
            fn key(self) -> $key {
                const TOP: $key = $top;
                let bits = self.to_bits();
                if self.is_nan() {
                    <$key>::MAX
                } else if bits == TOP {
                    // Negative zero.
                    TOP
                } else if bits & TOP != 0 {
                    !bits
                } else {
                    bits | TOP
                }
            }
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
        })*
    };
}
floats! { f16, u16, 1 << 15; bf16, u16, 1 << 15; f32, u32, 1 << 31; f64, u64, 1 << 63 }

impl Keyed for Complex<f32> {
    type Key = (u32, u32);
    fn key(self) -> (u32, u32) {
        (self.re.key(), self.im.key())
    }
    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
}

impl Keyed for Complex<f64> {
    type Key = (u64, u64);
    fn key(self) -> (u64, u64) {
        (self.re.key(), self.im.key())
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
