//! One axis, several, or all of them.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use millstream_core::{Error, Result};
use smallvec::SmallVec;

use super::integer::from_lists;
use super::{Integer, Integers, Span};

/// Axes: `1`, `-1`, `[0, 2]`, `&list`, `..` for all, `1..` for all but the first. An empty list names none.
#[derive(Clone, Debug)]
pub struct Axes(Named);

#[derive(Clone, Debug)]
enum Named {
    List(Integers),
    Span(Span),
}

/// Axes counted from the front.
pub(crate) type AxisList = SmallVec<[usize; 4]>;

/// The axis counted from the front; negative ones count from the end.
pub(crate) fn axis_of(axis: isize, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis.saturating_add(rank as isize) } else { axis };
    if at < 0 || at as usize >= rank { Err(Error::axis(axis, rank)) } else { Ok(at as usize) }
}

impl Axes {
    /// The axes in the order in which they are named, each once.
    pub(crate) fn of(&self, rank: usize) -> Result<AxisList> {
        let list: AxisList = match &self.0 {
            Named::List(Integers(list)) => list.iter().map(|&a| axis_of(a, rank)).collect::<Result<_>>()?,
            // A range of axes is not cut, as one of indices is: what is not there was not meant.
            Named::Span(span) => {
                if let Some(bound) = span.beyond(rank) {
                    return Err(Error::axis(bound, rank));
                }
                let (start, len, step) = span.on(rank)?;
                (0..len).map(|i| start.wrapping_add_signed(i as isize * step)).collect()
            }
        };
        match (1..list.len()).find(|&i| list[..i].contains(&list[i])) {
            Some(i) => Err(Error::argument(format!("axis {} is named twice", list[i]))),
            None => Ok(list),
        }
    }

    /// The axes from the front to the back.
    pub(crate) fn sorted(&self, rank: usize) -> Result<AxisList> {
        let mut list = self.of(rank)?;
        list.sort_unstable();
        Ok(list)
    }

    /// Whether a list names them, not a range.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.0, Named::List(_))
    }
}

impl<T: Integer> From<T> for Axes {
    fn from(axis: T) -> Axes {
        Axes(Named::List(axis.into()))
    }
}

from_lists!(Axes, |list| Axes(Named::List(Integers::of(&list[..]))));

impl From<RangeFull> for Axes {
    fn from(all: RangeFull) -> Axes {
        Axes(Named::Span(all.into()))
    }
}

macro_rules! ranges {
    ($($range:ident)*) => {
        $(impl<T: Integer> From<$range<T>> for Axes {
            fn from(range: $range<T>) -> Axes {
                Axes(Named::Span(range.into()))
            }
        })*
    };
}
ranges!(Range RangeFrom RangeTo RangeInclusive RangeToInclusive);
