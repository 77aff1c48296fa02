//! Tensors of the reference: plain bytes.

use half::{bf16, f16};
use num_complex::Complex;

use crate::error::{Error, Result};
use crate::what::{DType, Element, Scalar};

/// Elements of one dtype in host memory, and the element at which an operation's binding begins.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// The element type.
    pub dtype: DType,
    /// The elements in native byte order, without gaps.
    pub bytes: Vec<u8>,
    /// The element from which an operation counts: the start of the binding.
    pub offset: usize,
}

impl HostTensor {
    /// As many zeros, bound at the first.
    pub fn zeros(dtype: DType, len: usize) -> HostTensor {
        HostTensor { dtype, bytes: vec![0; len * dtype.size()], offset: 0 }
    }

    /// A copy of these elements, bound at the first.
    pub fn from_slice<T: Element>(values: &[T]) -> HostTensor {
        let size = T::DTYPE.size();
        let bytes = values.iter().flat_map(|&v| Scalar::new(v).bytes().into_iter().take(size)).collect();
        HostTensor { dtype: T::DTYPE, bytes, offset: 0 }
    }

    /// The same elements, bound at another one.
    pub fn with_offset(self, offset: usize) -> HostTensor {
        HostTensor { offset, ..self }
    }

    /// The number of elements, whatever the offset.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Element `i`, counted from the first one; `None` behind the last.
    pub fn get(&self, i: usize) -> Option<Scalar> {
        let size = self.dtype.size();
        let bytes = self.bytes.get(i.checked_mul(size)?..)?.get(..size)?;
        Some(scalar(self.dtype, bytes))
    }

    /// Element `i`, counted from the start of the binding; `None` outside.
    pub fn at(&self, i: isize) -> Option<Scalar> {
        self.get(self.offset.checked_add_signed(i)?)
    }

    /// Overwrites element `i`, counted from the first one.
    pub fn set(&mut self, i: usize, value: Scalar) -> Result<()> {
        let size = self.dtype.size();
        if value.dtype() != self.dtype {
            return Err(Error::dtype(format!("a {} does not go into a tensor of {}", value.dtype(), self.dtype)));
        }
        let len = self.len();
        let element = i.checked_mul(size).and_then(|b| self.bytes.get_mut(b..)?.get_mut(..size));
        let element = element.ok_or_else(|| Error::argument(format!("there is no element {i} of {len}")))?;
        element.copy_from_slice(&value.bytes()[..size]);
        Ok(())
    }
}

/// The element whose bytes begin here; there are at least as many as the dtype's size.
fn scalar(dtype: DType, bytes: &[u8]) -> Scalar {
    let mut word = [0u8; 16];
    for (w, b) in word.iter_mut().zip(bytes) {
        *w = *b;
    }
    macro_rules! read {
        ($at:literal, $t:ty) => {{
            let mut part = [0u8; size_of::<$t>()];
            part.copy_from_slice(&word[$at..$at + size_of::<$t>()]);
            <$t>::from_ne_bytes(part)
        }};
    }
    match dtype {
        DType::Bool => Scalar::new(word[0] != 0),
        DType::I8 => Scalar::new(read!(0, i8)),
        DType::I16 => Scalar::new(read!(0, i16)),
        DType::I32 => Scalar::new(read!(0, i32)),
        DType::I64 => Scalar::new(read!(0, i64)),
        DType::U8 => Scalar::new(read!(0, u8)),
        DType::U16 => Scalar::new(read!(0, u16)),
        DType::U32 => Scalar::new(read!(0, u32)),
        DType::U64 => Scalar::new(read!(0, u64)),
        DType::F16 => Scalar::new(f16::from_bits(read!(0, u16))),
        DType::BF16 => Scalar::new(bf16::from_bits(read!(0, u16))),
        DType::F32 => Scalar::new(read!(0, f32)),
        DType::F64 => Scalar::new(read!(0, f64)),
        DType::C64 => Scalar::new(Complex::new(read!(0, f32), read!(4, f32))),
        DType::C128 => Scalar::new(Complex::new(read!(0, f64), read!(8, f64))),
    }
}
