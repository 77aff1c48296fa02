//! What [`Tensor::i`] takes.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use smallvec::SmallVec;

use super::{Integer, Integers, Span};
use crate::Tensor;

/// A new axis of size 1, in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

/// As many whole axes as are left, in an index: `...` of Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ellipsis;

/// One part of an index: an integer, a range, [`step`](crate::step), [`NewAxis`], [`Ellipsis`], a tensor of integers or a mask.
#[derive(Clone, Debug)]
pub struct Index(pub(crate) Part);

#[derive(Clone, Debug)]
pub(crate) enum Part {
    At(isize),
    Span(Span),
    NewAxis,
    Ellipsis,
    /// Integers or a mask.
    Tensor(Tensor),
}

/// An index: one [`Index`], or a tuple or list of them.
pub trait IntoIndex {
    /// The parts in order.
    #[doc(hidden)]
    fn parts(self) -> SmallVec<[Index; 6]>;
}

macro_rules! parts {
    ($([$($generic:tt)*] $type:ty, |$value:ident| $part:expr;)*) => {
        $(impl<$($generic)*> From<$type> for Index {
            #[track_caller]
            fn from($value: $type) -> Index {
                Index($part)
            }
        })*
    };
}
parts! {
    [T: Integer] T, |index| Part::At(index.number());
    [] RangeFull, |range| Part::Span(range.into());
    [T: Integer] Range<T>, |range| Part::Span(range.into());
    [T: Integer] RangeFrom<T>, |range| Part::Span(range.into());
    [T: Integer] RangeTo<T>, |range| Part::Span(range.into());
    [T: Integer] RangeInclusive<T>, |range| Part::Span(range.into());
    [T: Integer] RangeToInclusive<T>, |range| Part::Span(range.into());
    [] Span, |span| Part::Span(span);
    [] NewAxis, |_axis| Part::NewAxis;
    [] Ellipsis, |_rest| Part::Ellipsis;
    [] &Tensor, |tensor| Part::Tensor(tensor.clone());
    [] Tensor, |tensor| Part::Tensor(tensor);
    [T: Integer, const N: usize] [T; N], |list| list_part(&Integers::of(&list));
    [T: Integer] &[T], |list| list_part(&Integers::of(list));
    [T: Integer] Vec<T>, |list| list_part(&Integers::of(&list));
    [T: Integer] &Vec<T>, |list| list_part(&Integers::of(list));
}

/// A list of indices, as a tensor of them.
#[track_caller]
fn list_part(Integers(list): &Integers) -> Part {
    let list: Vec<i64> = list.iter().map(|&i| i as i64).collect();
    Part::Tensor(Tensor::from_slice(&list))
}

impl<T: Into<Index>> IntoIndex for T {
    fn parts(self) -> SmallVec<[Index; 6]> {
        [self.into()].into_iter().collect()
    }
}

impl IntoIndex for &[Index] {
    fn parts(self) -> SmallVec<[Index; 6]> {
        self.iter().cloned().collect()
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {
        $(impl<$($name: Into<Index>),*> IntoIndex for ($($name,)*) {
            #[allow(non_snake_case)]
            fn parts(self) -> SmallVec<[Index; 6]> {
                let ($($name,)*) = self;
                [$($name.into()),*].into_iter().collect()
            }
        })*
    };
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
