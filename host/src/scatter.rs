//! Elements put at places that other tensors say.

use millstream_core::what::Fork;
use millstream_core::{DType, Element, Error, HostFunction, HostOperand, HostRun, Result};
use smallvec::{SmallVec, smallvec};

use crate::slices::{Rows, for_rows, read, with_type, write_if};

/// What becomes of an element at a place where something is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Put {
    /// It is replaced; of several values for one place the last stays.
    Last,
    /// Values are added to it, one after the other in their order; of halves in f32, rounded at the end. Integers wrap, truth
    /// values are joined by or.
    Sum,
}

/// The sizes of a call: a tensor of `[outer, n, inner]`, and `k` places for each of `outer`, or also for each of `inner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    /// Independent parts.
    pub outer: usize,
    /// Elements along the axis.
    pub n: usize,
    /// Elements behind each of them.
    pub inner: usize,
    /// Places in each part.
    pub k: usize,
    /// Whether each element behind has places of its own.
    pub each: bool,
}

/// A tensor `[outer, n, inner]` with values `[outer, k, inner]` put at places (i64, `[outer, k]` or `[outer, k, inner]`) along its
/// middle axis. A negative place counts from the end; a value for a place out of range goes nowhere. Inputs are the tensor, the places, the
/// values, in this order.
pub fn scatter(dtype: DType, sizes: Places, put: Put) -> HostFunction {
    let Places { outer, n, inner, k, each } = sizes;
    let whole = HostOperand::new(dtype, &[outer, n, inner]);
    let places = match each {
        true => HostOperand::new(DType::I64, &[outer, k, inner]),
        false => HostOperand::new(DType::I64, &[outer, k]),
    };
    let values = HostOperand::new(dtype, &[outer, k, inner]);
    let work = (values.len() + whole.len()) as u64;
    HostFunction::new(Scatter { dtype, sizes, put }, vec![whole.clone(), places, values], vec![whole], work)
}

struct Scatter {
    dtype: DType,
    sizes: Places,
    put: Put,
}

/// An element that others can be added to.
trait Sum: Element {
    /// In which sums are made.
    type Wide: Copy;
    fn wide(self) -> Self::Wide;
    fn plus(a: Self::Wide, b: Self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! sums {
    ($($type:ty, $wide:ty, |$a:ident, $b:ident| $plus:expr, |$w:ident| $narrow:expr, |$x:ident| $widen:expr);* $(;)?) => {
        $(impl Sum for $type {
            type Wide = $wide;
            fn wide(self) -> $wide {
                let $x = self;
                $widen
            }
            fn plus($a: $wide, $b: $type) -> $wide {
                $plus
            }
            fn narrow($w: $wide) -> $type {
                $narrow
            }
        })*
    };
}
macro_rules! plain {
    ($($type:ty),*) => {
        sums! { $($type, $type, |a, b| a.wrapping_add(b), |w| w, |x| x);* }
    };
}
plain!(i8, i16, i32, i64, u8, u16, u32, u64);
sums! {
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
        smallvec![self.put as u64, u64::from(self.sizes.each)]
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let [x, places, values] = inputs else { return Err(Error::internal("scatter has three inputs")) };
        let places = read::<i64>(places)?;
        with_type!(self.dtype, T => self.typed::<T>(read(x)?, places, read(values)?, outputs, fork))
    }
}

impl Scatter {
    fn typed<T: Sum>(
        &self,
        x: &[T],
        places: &[i64],
        values: &[T],
        outputs: &mut [Option<&mut [u8]>],
        fork: &dyn Fork,
    ) -> Result<()> {
        let Places { outer, n, inner, k, each } = self.sizes;
        let [output] = outputs else { return Err(Error::internal("scatter has one output")) };
        let (part, seats) = (n * inner, if each { k * inner } else { k });
        let output = Rows::new(write_if::<T>(output)?, outer);
        for_rows(fork, outer, part + k * inner, &|o| {
            // SAFETY: each part is visited once.
            let Some(to) = (unsafe { output.at(o) }) else { return Ok(()) };
            let from = &x[o * part..(o + 1) * part];
            let places = &places[o * seats..(o + 1) * seats];
            let values = &values[o * k * inner..(o + 1) * k * inner];
            let at = |j: usize, i: usize| {
                let place = places[if each { j * inner + i } else { j }];
                let place = if place < 0 { place.checked_add(n as i64)? } else { place };
                usize::try_from(place).ok().filter(|&p| p < n).map(|p| p * inner + i)
            };
            let all = (0..k).flat_map(|j| (0..inner).map(move |i| (j, i)));
            match self.put {
                Put::Last => {
                    to.copy_from_slice(from);
                    for (j, i) in all {
                        if let Some(p) = at(j, i) {
                            to[p] = values[j * inner + i];
                        }
                    }
                }
                Put::Sum => {
                    let mut sums: Vec<T::Wide> = from.iter().map(|v| v.wide()).collect();
                    for (j, i) in all {
                        if let Some(p) = at(j, i) {
                            sums[p] = T::plus(sums[p], values[j * inner + i]);
                        }
                    }
                    to.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
                }
            }
            Ok(())
        })
    }
}
