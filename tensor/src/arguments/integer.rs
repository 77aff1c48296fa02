//! Integers of any type, alone or several.

use smallvec::SmallVec;

mod sealed {
    pub trait Sealed: Copy + std::fmt::Debug {}
}

/// An integer of any primitive type: an axis, an index, a size.
pub trait Integer: sealed::Sealed {
    /// The number; what does not fit is as far out as can be, and so out of any range.
    #[doc(hidden)]
    fn number(self) -> isize;
}

macro_rules! integers {
    ($($integer:ty)*) => {
        $(impl sealed::Sealed for $integer {}

        impl Integer for $integer {
            fn number(self) -> isize {
                isize::try_from(self).unwrap_or(if self > 0 { isize::MAX } else { isize::MIN })
            }
        })*
    };
}
integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

/// Several integers, or one: `1`, `[1, -1]`, `&list`.
#[derive(Clone, Debug)]
pub struct Integers(pub(crate) SmallVec<[isize; 6]>);

impl Integers {
    pub(crate) fn of<T: Integer>(list: &[T]) -> Integers {
        Integers(list.iter().map(|i| i.number()).collect())
    }
}

impl<T: Integer> From<T> for Integers {
    fn from(integer: T) -> Integers {
        Integers::of(&[integer])
    }
}

/// Lists of integers of any type, however they are held.
macro_rules! from_lists {
    ($target:ident, |$list:ident| $make:expr) => {
        impl<T: Integer, const N: usize> From<[T; N]> for $target {
            fn from($list: [T; N]) -> $target {
                $make
            }
        }
        impl<T: Integer, const N: usize> From<&[T; N]> for $target {
            fn from($list: &[T; N]) -> $target {
                $make
            }
        }
        impl<T: Integer> From<&[T]> for $target {
            #[allow(clippy::redundant_slicing, reason = "other lists are no slices")]
            fn from($list: &[T]) -> $target {
                $make
            }
        }
        impl<T: Integer> From<Vec<T>> for $target {
            fn from($list: Vec<T>) -> $target {
                $make
            }
        }
        impl<T: Integer> From<&Vec<T>> for $target {
            fn from($list: &Vec<T>) -> $target {
                $make
            }
        }
        impl<T: Integer, const N: usize> From<&SmallVec<[T; N]>> for $target
        where
            [T; N]: smallvec::Array<Item = T>,
        {
            fn from($list: &SmallVec<[T; N]>) -> $target {
                $make
            }
        }
    };
}
pub(crate) use from_lists;

from_lists!(Integers, |list| Integers::of(&list[..]));
