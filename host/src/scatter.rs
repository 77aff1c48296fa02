//! Elements put at indices that other tensors say.

use std::borrow::Cow;
use std::ops::Range;

use millstream_core::what::Fork;
use millstream_core::{DType, Element, Error, HostFunction, HostOperand, HostRun, Result};
use smallvec::{SmallVec, smallvec};

use crate::slices::{Raw, TASK, for_ranges, read, with_type, write_if};

/// Elements behind each other that are not cut: several cache lines.
const LINE: usize = 64;

/// What becomes of an element at an index where something is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Put {
    /// It is replaced; of several values for one index the last stays.
    Last,
    /// Values are added to it, one after the other in their order; of halves in f32, rounded at the end. Integers wrap, truth
    /// values are joined by or.
    Sum,
}

/// The sizes of a call: a tensor of `[outer, n, inner]`, and `k` values of `inner` elements for each of `outer`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterShape {
    /// Independent parts.
    pub outer: usize,
    /// Elements along the axis, or along all that are indexed together.
    pub n: usize,
    /// Elements behind each of them.
    pub inner: usize,
    /// Values in each part.
    pub k: usize,
    /// What the indices belong to.
    pub indices: Indexed,
}

/// What the indices of values belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Indexed {
    /// To each element, indices `[outer, k, inner]` along the axis.
    Elements,
    /// To each value as a whole, indices `[axes, k]`, one for each of these axes, which are `n` elements together. There is one part.
    Axes(SmallVec<[usize; 4]>),
}

/// A tensor `[outer, n, inner]` with values `[outer, k, inner]` put at indices (i64) along its middle axis. A negative index counts from
/// the end; one that is out of range is an error. Inputs are the tensor, the indices, the values, in this order.
pub fn scatter(dtype: DType, sizes: ScatterShape, put: Put) -> HostFunction {
    let ScatterShape { outer, n, inner, k, .. } = sizes;
    let whole = HostOperand::new(dtype, &[outer, n, inner]);
    let indices = match &sizes.indices {
        Indexed::Elements => HostOperand::new(DType::I64, &[outer, k, inner]),
        Indexed::Axes(lengths) => HostOperand::new(DType::I64, &[lengths.len(), k]),
    };
    let values = HostOperand::new(dtype, &[outer, k, inner]);
    let work = (values.len() + whole.len()) as u64;
    HostFunction::new(Scatter { dtype, sizes, put }, vec![whole.clone(), indices, values], vec![whole], work)
}

struct Scatter {
    dtype: DType,
    sizes: ScatterShape,
    put: Put,
}

/// An element that others can be added to.
trait Sum: Element {
    /// The type of accumulators.
    type Wide: Copy;
    fn wide(self) -> Self::Wide;
    fn plus(a: Self::Wide, b: Self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;

    /// Whether sums are made in another type.
    const WIDE: bool = size_of::<Self::Wide>() != size_of::<Self>();

    /// Adds to an element that is not wide.
    #[inline]
    fn add(to: &mut Self, v: Self) {
        *to = Self::narrow(Self::plus(to.wide(), v));
    }
}

macro_rules! accumulate {
    ($($type:ty, $wide:ty, |$a:ident, $b:ident| $plus:expr, |$w:ident| $narrow:expr, |$x:ident| $widen:expr);* $(;)?) => {
        $(impl Sum for $type {
            type Wide = $wide;
            #[inline]
            fn wide(self) -> $wide {
                let $x = self;
                $widen
            }
            #[inline]
            fn plus($a: $wide, $b: $type) -> $wide {
                $plus
            }
            #[inline]
            fn narrow($w: $wide) -> $type {
                $narrow
            }
        })*
    };
}
macro_rules! plain {
    ($($type:ty),*) => {
        accumulate! { $($type, $type, |a, b| a.wrapping_add(b), |w| w, |x| x);* }
    };
}
plain!(i8, i16, i32, i64, u8, u16, u32, u64);
accumulate! {
    bool, bool, |a, b| a | b, |w| w, |x| x;
    f32, f32, |a, b| a + b, |w| w, |x| x;
    f64, f64, |a, b| a + b, |w| w, |x| x;
    half::f16, f32, |a, b| a + b.to_f32(), |w| half::f16::from_f32(w), |x| x.to_f32();
    half::bf16, f32, |a, b| a + b.to_f32(), |w| half::bf16::from_f32(w), |x| x.to_f32();
    num_complex::Complex<f32>, num_complex::Complex<f32>, |a, b| a + b, |w| w, |x| x;
    num_complex::Complex<f64>, num_complex::Complex<f64>, |a, b| a + b, |w| w, |x| x;
}

impl HostRun for Scatter {
    fn name(&self) -> &'static str {
        match self.put {
            Put::Last => "scatter",
            Put::Sum => "scatter_add",
        }
    }

    fn words(&self) -> SmallVec<[u64; 4]> {
        let mut words = smallvec![self.put as u64];
        if let Indexed::Axes(lengths) = &self.sizes.indices {
            words.extend(lengths.iter().map(|&n| n as u64));
        }
        words
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let [x, indices, values] = inputs else { return Err(Error::internal("scatter has three inputs")) };
        let indices = self.sizes.flat(read(indices)?)?;
        let indices = &indices[..];
        with_type!(self.dtype, T => self.typed::<T>(read(x)?, indices, read(values)?, outputs, fork))
    }
}

/// Where an index is, of `n`; a negative one counts from the end.
#[inline]
fn found(index: i64, n: usize) -> Option<usize> {
    let index = index.wrapping_add(index >> 63 & n as i64);
    // What is negative still is larger than any length.
    ((index as u64) < n as u64).then_some(index as usize)
}

impl ScatterShape {
    /// The indices along the axis, after a check that it has them all.
    fn flat<'a>(&self, indices: &'a [i64]) -> Result<Cow<'a, [i64]>> {
        let lengths = match &self.indices {
            Indexed::Elements => {
                let missing = indices.iter().position(|&i| found(i, self.n).is_none());
                return match missing {
                    Some(at) => Err(Error::index(indices[at].into(), self.n, Some(at))),
                    None => Ok(Cow::Borrowed(indices)),
                };
            }
            Indexed::Axes(lengths) => lengths,
        };
        let one = |j: usize| {
            lengths.iter().enumerate().try_fold(0, |flat, (a, &n)| {
                let index = indices[a * self.k + j];
                let at = found(index, n).ok_or_else(|| Error::index(index.into(), n, Some(j)))?;
                Ok(flat * n + at)
            })
        };
        (0..self.k).map(|j| one(j).map(|at| at as i64)).collect()
    }
}

impl Scatter {
    fn typed<T: Sum>(
        &self,
        x: &[T],
        indices: &[i64],
        values: &[T],
        outputs: &mut [Option<&mut [u8]>],
        fork: &dyn Fork,
    ) -> Result<()> {
        let ScatterShape { outer, n, inner, k, .. } = self.sizes;
        let [output] = outputs else { return Err(Error::internal("scatter has one output")) };
        let Some(to) = write_if::<T>(output)? else { return Ok(()) };
        // What lies behind different elements never meets: it can be cut.
        let part = k.saturating_add(n);
        let wide = (TASK / part.max(1)).max(LINE).min(inner.max(1));
        let cuts = inner.div_ceil(wide);
        let to = Raw::of(to);
        for_ranges(fork, outer * cuts, part.saturating_mul(wide), &|tasks| {
            for task in tasks {
                let (o, first) = (task / cuts, task % cuts * wide);
                // SAFETY: each cut of each part is in one task.
                unsafe { self.cut(o, first..inner.min(first + wide), x, indices, values, to) };
            }
        });
        Ok(())
    }

    /// One part's result, of the elements `range` behind each.
    ///
    /// # Safety
    /// The sizes are those of the slices, `to` is as long as `x`, and nobody else uses these elements of it.
    unsafe fn cut<T: Sum>(&self, o: usize, range: Range<usize>, x: &[T], indices: &[i64], values: &[T], to: Raw<T>) {
        let ScatterShape { n, inner, k, .. } = self.sizes;
        let each = self.sizes.indices == Indexed::Elements;
        let rows = |list: usize, j: usize| (o * list + j) * inner + range.start..(o * list + j) * inner + range.end;
        // SAFETY: the caller's promise; rows of a part and ranges inside them are inside it.
        let row = |p: usize| unsafe { to.slice(rows(n, p)) };
        let own = |list: usize| o * list * inner..(o + 1) * list * inner;
        if T::WIDE && self.put == Put::Sum {
            let len = range.len();
            let mut acc: Vec<T::Wide> = (0..n).flat_map(|p| x[rows(n, p)].iter().map(|v| v.wide())).collect();
            let plus = |sum: &mut T::Wide, v| *sum = T::plus(*sum, v);
            if inner == 1 {
                put_all(&indices[own(k)], &values[own(k)], &mut acc, plus);
            } else {
                for j in 0..k {
                    for (i, &v) in values[rows(k, j)].iter().enumerate() {
                        let index = indices[if each { rows(k, j).start + i } else { o * k + j }];
                        if let Some(sum) = found(index, n).and_then(|p| acc.get_mut(p * len + i)) {
                            plus(sum, v);
                        }
                    }
                }
            }
            for (p, acc) in acc.chunks_exact(len.max(1)).enumerate() {
                row(p).iter_mut().zip(acc).for_each(|(to, &sum)| *to = T::narrow(sum));
            }
        } else if inner == 1 {
            // SAFETY: the caller's promise.
            let to = unsafe { to.slice(own(n)) };
            to.copy_from_slice(&x[own(n)]);
            match self.put {
                Put::Last => put_all(&indices[own(k)], &values[own(k)], to, |to, v| *to = v),
                Put::Sum => put_all(&indices[own(k)], &values[own(k)], to, T::add),
            }
        } else {
            (0..n).for_each(|p| row(p).copy_from_slice(&x[rows(n, p)]));
            let put = |to: &mut T, v| match self.put {
                Put::Last => *to = v,
                Put::Sum => T::add(to, v),
            };
            for j in 0..k {
                let values = &values[rows(k, j)];
                if each {
                    for (i, (&index, &v)) in indices[rows(k, j)].iter().zip(values).enumerate() {
                        if let Some(to) = found(index, n).and_then(|p| row(p).get_mut(i)) {
                            put(to, v);
                        }
                    }
                } else if let Some(p) = found(indices[o * k + j], n) {
                    row(p).iter_mut().zip(values).for_each(|(to, &v)| put(to, v));
                }
            }
        }
    }
}

/// Puts values at their indices in a row, one after the other.
fn put_all<T: Copy, U>(indices: &[i64], values: &[T], to: &mut [U], put: impl Fn(&mut U, T)) {
    let n = to.len();
    for (&index, &v) in indices.iter().zip(values) {
        if let Some(to) = found(index, n).and_then(|p| to.get_mut(p)) {
            put(to, v);
        }
    }
}
