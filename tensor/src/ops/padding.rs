//! Padding and windows.

use millstream_core::what::{Dims, Strides};
use millstream_core::{DType, Error, Layout, Result, Scalar};

use crate::graph::{Pad, one};
use crate::ops::arithmetic::whole_number;
use crate::{Operand, Tensor};

/// One number for every axis, or one for each.
///
/// ```
/// use millstream::Sizes;
/// assert_eq!(Sizes::from(2).of(3)?, [2, 2, 2]);
/// assert_eq!(Sizes::from([1, 2]).of(2)?, [1, 2]);
/// assert!(Sizes::from([1, 2]).of(3).is_err());
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<usize>);

impl From<usize> for Sizes {
    fn from(size: usize) -> Sizes {
        Sizes(vec![size])
    }
}

impl From<&[usize]> for Sizes {
    fn from(sizes: &[usize]) -> Sizes {
        Sizes(sizes.to_vec())
    }
}

impl<const N: usize> From<[usize; N]> for Sizes {
    fn from(sizes: [usize; N]) -> Sizes {
        Sizes(sizes.to_vec())
    }
}

impl Sizes {
    /// One number for each of so many axes.
    pub fn of(&self, axes: usize) -> Result<Vec<usize>> {
        match self.0.as_slice() {
            [one] => Ok(vec![*one; axes]),
            all if all.len() == axes => Ok(all.to_vec()),
            all => Err(Error::argument(format!("{} sizes {all:?} for {axes} axes", all.len()))),
        }
    }
}

/// What stands around a tensor that is padded with itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// The elements backwards, without the one at the edge: `3 2 | 1 2 3 | 2 1`. Less than the axis has.
    Reflect,
    /// The element at the edge: `1 1 | 1 2 3 | 3 3`.
    Replicate,
    /// The elements from the other end: `2 3 | 1 2 3 | 1 2`. At most what the axis has.
    Circular,
}

/// How windows slide along the last axes of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Slide {
    /// Elements of a window.
    pub size: Vec<usize>,
    /// Elements from one window to the next.
    pub step: Vec<usize>,
    /// Elements from one element of a window to the next.
    pub dilation: Vec<usize>,
}

impl Slide {
    /// How many windows fit into these sizes.
    pub fn count(&self, sizes: &[usize]) -> Result<Dims> {
        let mut out = Dims::new();
        for (a, &n) in sizes.iter().enumerate() {
            let (size, step, dilation) = (self.size[a], self.step[a], self.dilation[a]);
            if size == 0 || step == 0 || dilation == 0 {
                return Err(Error::argument("sizes, strides and dilations of windows are at least 1"));
            }
            let span = (size - 1).checked_mul(dilation).and_then(|s| s.checked_add(1));
            match span.and_then(|span| n.checked_sub(span)) {
                Some(room) => out.push(room / step + 1),
                None => {
                    return Err(Error::shape(format!(
                        "a window of {size} elements, {dilation} apart, does not fit into {n} elements"
                    )));
                }
            }
        }
        Ok(out)
    }
}

/// A number in a tensor's dtype, exactly as arithmetic with it would take it.
pub(crate) fn number(value: Operand<'_>, dtype: DType) -> Result<Scalar> {
    match value {
        Operand::Float(v) if dtype.is_float() || dtype.is_complex() => Ok(Scalar::from_f64(v, dtype)),
        Operand::Int(v) => whole_number(v, dtype),
        Operand::Bool(v) => Ok(Scalar::from_int(i128::from(v), dtype)),
        Operand::Float(v) => {
            Err(Error::dtype(format!("{v} among elements of {dtype}")).suggest("cast the tensor first"))
        }
        Operand::Complex(v) if dtype.is_complex() => Ok(Operand::Complex(v).scalar(dtype)),
        Operand::Complex(v) => {
            Err(Error::dtype(format!("{v} among elements of {dtype}")).suggest("cast the tensor first"))
        }
        Operand::Tensor(_) => Err(Error::argument("a number is needed here, not a tensor")),
    }
}

/// # Padding and windows
///
/// Neither costs a copy where the next operation can read through it: padding becomes guards on that operation's reads, windows are
/// overlapping strides.
impl Tensor {
    /// The tensor with `value` around it: for each of the last axes, in order, so many elements before and after.
    ///
    /// An operation that reads the result through windows, such as a convolution, or element by element, reads the tensor
    /// itself and takes the value where there is none: nothing is copied.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[1, 2], &[1, 2]);
    /// assert_eq!(x.pad(&[(1, 2)], 0).to_vec::<i32>()?, [0, 1, 2, 0, 0]);
    /// assert_eq!(x.pad(&[(1, 0), (0, 0)], 7).to_vec::<i32>()?, [7, 7, 1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn pad<'a>(&self, amounts: &[(usize, usize)], value: impl Into<Operand<'a>>) -> Tensor {
        let value = value.into();
        Tensor::build("pad", || {
            self.check()?;
            self.padded(amounts, number(value, self.dtype())?)
        })
    }

    pub(crate) fn padded(&self, amounts: &[(usize, usize)], fill: Scalar) -> Result<Tensor> {
        let rank = self.rank();
        let Some(first) = rank.checked_sub(amounts.len()) else {
            return Err(Error::argument(format!("padding for {} axes of a tensor of {rank}", amounts.len())));
        };
        if amounts.iter().all(|&a| a == (0, 0)) {
            return Ok(self.clone());
        }
        let (mut before, mut after) = (Dims::from_elem(0, rank), Dims::from_elem(0, rank));
        for (a, &(low, high)) in amounts.iter().enumerate() {
            (before[first + a], after[first + a]) = (low, high);
        }
        let padded = Tensor::new_node(Pad { before, after, fill }, one(self))?;
        Ok(if self.is_empty() { Tensor::full(padded.sizes(), fill) } else { padded })
    }

    /// The tensor with more of itself around it: for each of the last axes, in order, so many elements before and after. Axes are
    /// extended one after the other, so that corners are made of edges.
    ///
    /// ```
    /// use millstream::{Padding, Tensor};
    /// let x = Tensor::from_slice(&[1, 2, 3]);
    /// assert_eq!(x.pad_with(&[(2, 1)], Padding::Reflect).to_vec::<i32>()?, [3, 2, 1, 2, 3, 2]);
    /// assert_eq!(x.pad_with(&[(2, 1)], Padding::Replicate).to_vec::<i32>()?, [1, 1, 1, 2, 3, 3]);
    /// assert_eq!(x.pad_with(&[(2, 1)], Padding::Circular).to_vec::<i32>()?, [2, 3, 1, 2, 3, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn pad_with(&self, amounts: &[(usize, usize)], padding: Padding) -> Tensor {
        Tensor::build("pad_with", || {
            self.check()?;
            let Some(first) = self.rank().checked_sub(amounts.len()) else {
                let rank = self.rank();
                return Err(Error::argument(format!("padding for {} axes of a tensor of {rank}", amounts.len())));
            };
            let mut out = self.clone();
            for (a, &(before, after)) in amounts.iter().enumerate() {
                if (before, after) == (0, 0) {
                    continue;
                }
                let (axis, n) = ((first + a) as isize, out.sizes()[first + a]);
                let most = match padding {
                    Padding::Reflect => n.saturating_sub(1),
                    Padding::Circular => n,
                    Padding::Replicate if n > 0 => usize::MAX,
                    Padding::Replicate => 0,
                };
                if before.max(after) > most {
                    return Err(Error::argument(format!(
                        "{padding:?} padding of {n} elements by {before} and {after}"
                    ))
                    .suggest(format!("at most {most} elements can be made of an axis of {n}")));
                }
                let part = |from: usize, to: usize| out.slice(axis, from..to);
                let repeated = |at: usize, times: usize| -> Tensor {
                    let mut shape: Dims = out.sizes().into();
                    shape[first + a] = times;
                    part(at, at + 1).broadcast(&shape)
                };
                let (left, right) = match padding {
                    Padding::Reflect => (part(1, before + 1).flip(axis), part(n - 1 - after, n - 1).flip(axis)),
                    Padding::Replicate => (repeated(0, before), repeated(n - 1, after)),
                    Padding::Circular => (part(n - before, n), part(0, after)),
                };
                out = Tensor::concat([&left, &out, &right], axis);
            }
            Ok(out)
        })
    }

    /// A view of all windows of the given sizes that slide along the last axes, one axis for each size: those axes become the
    /// number of windows, and new axes behind them go along a window. Elements are shared between windows, not copied.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 5);
    /// let w = x.windows(3, 1, 1);
    /// assert_eq!(w.shape(), [3, 3]);
    /// assert_eq!(w.sum(1).to_vec::<i64>()?, [3, 6, 9]);
    /// assert_eq!(x.windows(2, 2, 2).to_vec::<i64>()?, [0, 2, 2, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn windows(&self, size: impl Into<Sizes>, stride: impl Into<Sizes>, dilation: impl Into<Sizes>) -> Tensor {
        let (size, stride, dilation) = (size.into(), stride.into(), dilation.into());
        Tensor::build("windows", || {
            self.check()?;
            let axes = size.0.len();
            self.slid(&Slide { step: stride.of(axes)?, dilation: dilation.of(axes)?, size: size.0 })
        })
    }

    pub(crate) fn slid(&self, slide: &Slide) -> Result<Tensor> {
        let axes = slide.size.len();
        let Some(first) = self.rank().checked_sub(axes) else {
            return Err(Error::argument(format!("windows along {axes} axes of a tensor of {}", self.rank())));
        };
        let (sizes, old) = (&self.sizes()[first..], &self.layout.strides()[first..]);
        let mut shape: Dims = self.sizes()[..first].into();
        shape.extend(slide.count(sizes)?);
        shape.extend_from_slice(&slide.size);
        let mut strides: Strides = self.layout.strides()[..first].into();
        // A step that nobody takes may be too long for a stride.
        let by = |s: isize, n: usize, count: usize| if count > 1 { s * n as isize } else { 0 };
        strides.extend((0..axes).map(|a| by(old[a], slide.step[a], shape[first + a])));
        strides.extend((0..axes).map(|a| by(old[a], slide.dilation[a], slide.size[a])));
        Ok(Tensor { layout: Layout::new(&shape, &strides, self.layout.offset())?, node: self.node.clone() })
    }
}
