//! Ranges along an axis, with a step.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use millstream_core::{Error, Result};

use super::Integer;

/// A range of indices along an axis: `..`, `1..`, `..-1`, `2..=4`, `pos..pos + n` of integers of any type, or with a step by
/// [`step`]. Negative bounds count from the end, and bounds beyond it are cut, as in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: Option<isize>,
    stop: Stop,
    step: isize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    End,
    Before(isize),
    At(isize),
}

/// Every `step`-th index of a range. A negative step walks backwards from `start`, and a range without bounds is the whole
/// axis then, from its end.
///
/// ```
/// use millstream::{Tensor, step};
/// let x = Tensor::arange(0, 5);
/// assert_eq!(x.i(step(1..-1, 2)).to_vec::<i64>()?, [1, 3]);
/// assert_eq!(x.i(step(.., -1)).to_vec::<i64>()?, [4, 3, 2, 1, 0]);
/// assert_eq!(x.i(step(3..0, -1)).to_vec::<i64>()?, [3, 2, 1]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub fn step(range: impl Into<Span>, step: impl Integer) -> Span {
    Span { step: step.number(), ..range.into() }
}

impl Span {
    /// A bound that lies beyond an axis of `n`, where it would be cut.
    pub(crate) fn beyond(&self, n: usize) -> Option<isize> {
        let stop = match self.stop {
            Stop::End => None,
            Stop::Before(i) | Stop::At(i) => Some(i),
        };
        self.start.into_iter().chain(stop).find(|i| i.unsigned_abs() > n)
    }

    /// The first index, the number of indices and the step, on an axis of `n`.
    pub(crate) fn on(&self, n: usize) -> Result<(usize, usize, isize)> {
        if self.step == 0 {
            return Err(Error::argument("a slice needs a step other than 0"));
        }
        let (n, forward) = (n as isize, self.step > 0);
        let (low, high) = if forward { (0, n) } else { (-1, n - 1) };
        // Where an index lies, also beyond the ends.
        let absolute = |i: isize| if i < 0 { i.saturating_add(n) } else { i };
        let from = self.start.map_or(if forward { 0 } else { n - 1 }, absolute).clamp(low, high);
        let to = match self.stop {
            Stop::End if forward => n,
            Stop::End => -1,
            Stop::Before(i) => absolute(i),
            Stop::At(i) => absolute(i).saturating_add(self.step.signum()),
        };
        let distance = if forward { to.clamp(low, high) - from } else { from - to.clamp(low, high) };
        let len = if distance <= 0 { 0 } else { (distance as usize).div_ceil(self.step.unsigned_abs()) };
        Ok((from.max(0) as usize, len, self.step))
    }
}

impl From<RangeFull> for Span {
    fn from(_: RangeFull) -> Span {
        Span { start: None, stop: Stop::End, step: 1 }
    }
}

macro_rules! ranges {
    ($($range:ident |$r:ident| $start:expr, $stop:expr;)*) => {
        $(impl<T: Integer> From<$range<T>> for Span {
            fn from($r: $range<T>) -> Span {
                Span { start: $start, stop: $stop, step: 1 }
            }
        })*
    };
}
ranges! {
    Range |r| Some(r.start.number()), Stop::Before(r.end.number());
    RangeFrom |r| Some(r.start.number()), Stop::End;
    RangeTo |r| None, Stop::Before(r.end.number());
    RangeInclusive |r| Some(r.start().number()), Stop::At(r.end().number());
    RangeToInclusive |r| None, Stop::At(r.end.number());
}

#[cfg(test)]
#[allow(clippy::reversed_empty_ranges, reason = "they count from both ends")]
mod tests {
    use super::*;

    fn indices(span: impl Into<Span>, n: usize) -> Vec<isize> {
        let (start, len, step) = span.into().on(n).unwrap();
        (0..len as isize).map(|i| start as isize + i * step).collect()
    }

    #[test]
    fn ranges_are_those_of_python() {
        assert_eq!(indices(.., 3), [0, 1, 2]);
        assert_eq!(indices(1.., 3), [1, 2]);
        assert_eq!(indices(-2.., 3), [1, 2]);
        assert_eq!(indices(..-1, 3), [0, 1]);
        assert_eq!(indices(..=-1, 3), [0, 1, 2]);
        assert_eq!(indices(0..=1, 3), [0, 1]);
        assert_eq!(indices(2usize..9, 3), [2]);
        assert_eq!(indices(5u8.., 3), [0isize; 0]);
        assert_eq!(indices(2..1, 3), [0isize; 0]);
        assert_eq!(indices(-9..2, 3), [0, 1]);
        assert_eq!(indices(..u64::MAX, 2), [0, 1]);
    }

    #[test]
    fn steps_walk_both_ways() {
        assert_eq!(indices(step(.., 2), 5), [0, 2, 4]);
        assert_eq!(indices(step(.., -2), 5), [4, 2, 0]);
        assert_eq!(indices(step(3..0, -1), 5), [3, 2, 1]);
        assert_eq!(indices(step(3..=0, -1), 5), [3, 2, 1, 0]);
        assert_eq!(indices(step(-1..-9, -1), 3), [2, 1, 0]);
        assert_eq!(indices(step(9.., -1), 3), [2, 1, 0]);
        assert_eq!(indices(step(.., -1), 0), [0isize; 0]);
        assert_eq!(indices(step(.., i64::MIN), 3), [2]);
        assert!(step(.., 0).on(3).is_err());
    }
}
