//! Numbers and lists of them, to any depth: what [`Tensor::new`](crate::Tensor::new) takes.

use half::{bf16, f16};
use millstream_core::{Element, Error, Result};
use num_complex::Complex;

/// A number, or a list of what is nested itself: arrays, slices, vectors, and references to them.
pub trait Nested {
    /// The type of the numbers.
    type Of: Element;

    /// Appends the numbers, in order, and at `depth` the length, which all lists there share.
    #[doc(hidden)]
    fn flatten(&self, depth: usize, shape: &mut Vec<usize>, out: &mut Vec<Self::Of>) -> Result<()>;
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Nested for $number {
            type Of = $number;

            fn flatten(&self, _depth: usize, _shape: &mut Vec<usize>, out: &mut Vec<$number>) -> Result<()> {
                out.push(*self);
                Ok(())
            }
        })*
    };
}
numbers!(bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f32> Complex<f64>);

impl<N: Nested> Nested for [N] {
    type Of = N::Of;

    fn flatten(&self, depth: usize, shape: &mut Vec<usize>, out: &mut Vec<N::Of>) -> Result<()> {
        match shape.get(depth) {
            None => shape.push(self.len()),
            Some(&n) if n != self.len() => {
                let here = self.len();
                return Err(Error::shape(format!("lists of {n} and of {here} elements beside each other"))
                    .suggest("make all lists of one depth equally long"));
            }
            Some(_) => (),
        }
        self.iter().try_for_each(|inner| inner.flatten(depth + 1, shape, out))
    }
}

macro_rules! lists {
    ($([$($generic:tt)*] $list:ty;)*) => {
        $(impl<N: Nested, $($generic)*> Nested for $list {
            type Of = N::Of;

            fn flatten(&self, depth: usize, shape: &mut Vec<usize>, out: &mut Vec<N::Of>) -> Result<()> {
                self[..].flatten(depth, shape, out)
            }
        })*
    };
}
lists! {
    [const K: usize] [N; K];
    [] Vec<N>;
}

impl<N: Nested + ?Sized> Nested for &N {
    type Of = N::Of;

    fn flatten(&self, depth: usize, shape: &mut Vec<usize>, out: &mut Vec<N::Of>) -> Result<()> {
        (**self).flatten(depth, shape, out)
    }
}
