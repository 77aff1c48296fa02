//! Exchange: tensors over memory of others, and memory of tensors for others, without copies.
//!
//! Values of tensors never change. Memory that others may write to is the exception, and laziness ends there: what reads it is
//! computed before its call returns. See [`Buffer::is_volatile`].

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use millstream_core::{Buffer, DType, Device, Error, Layout, Lent, Result, Sharing};

use crate::Tensor;
use crate::graph::Node;
use crate::graph::volatile::snapshot;
use crate::ops::assign::is_distinct;

/// Memory as array libraries describe it to each other.
#[derive(Clone, Debug)]
pub struct RawTensor {
    /// The address of the element whose indices are all 0, on the device. Anything where there are no elements.
    pub address: u64,
    /// The sizes.
    pub shape: Vec<usize>,
    /// Elements from one index to the next, for each dimension; any, also 0 and negative.
    pub strides: Vec<isize>,
    /// The element type. Bytes of bool other than 0 and 1 count as true when they are read.
    pub dtype: DType,
    /// Where the memory is.
    pub device: Device,
    /// Who may write there.
    pub sharing: Sharing,
}

impl Tensor {
    /// A tensor over memory that somebody else owns, on its device. Nothing is copied, whatever the strides and the alignment. `keep` is
    /// dropped when neither this tensor nor anything that shows the same memory is left, and nothing that was queued reads it; or
    /// at once, on an error.
    ///
    /// Millstream does not write there. Of [`Sharing::Writable`] memory the tensor shows what lies there at each moment, and so do
    /// its views; whatever else is made from it is computed before the call returns.
    ///
    /// ```
    /// use millstream::{DType, RawTensor, Sharing, Tensor};
    /// let device = Tensor::runtime()?.host()?;
    /// let data = Box::new([1.0f32, 2.0, 3.0, 4.0]);
    /// // Every second element, from the last one on.
    /// let address = &raw const data[3] as u64;
    /// let (shape, strides, dtype, sharing) = (vec![2], vec![-2], DType::F32, Sharing::ReadOnly);
    /// let raw = RawTensor { address, shape, strides, dtype, device, sharing };
    /// // SAFETY: the box stays where it is, and nobody writes to it.
    /// let x = unsafe { Tensor::import(raw, data)? };
    /// assert_eq!(x.to_vec::<f32>()?, [4.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Safety
    /// Every element must be readable on the device until `keep` is dropped, and what was queued to write there must be through. Nobody
    /// may write there meanwhile, unless it is [`Sharing::Writable`]; and even then not while a call of Millstream reads it.
    ///
    /// # Errors
    /// A shape and strides that do not go together or cannot be addressed, and a device that cannot take over memory.
    #[track_caller]
    pub unsafe fn import(raw: RawTensor, keep: Box<dyn Any + Send + Sync>) -> Result<Tensor> {
        let location = Location::caller();
        // SAFETY: as the caller promises.
        unsafe { Tensor::over(raw, keep, location) }.map_err(|error| error.in_op("import").at(location))
    }

    /// # Safety
    /// As [`Tensor::import`].
    unsafe fn over(
        raw: RawTensor,
        keep: Box<dyn Any + Send + Sync>,
        location: &'static Location<'static>,
    ) -> Result<Tensor> {
        let (size, RawTensor { address, shape, strides, dtype, device, sharing }) = (raw.dtype.size(), raw);
        if shape.contains(&0) {
            let layout = Layout::contiguous(&shape)?;
            let buffer = Buffer::from_bytes(&device.host(), &[], millstream_core::Mode::Automatic)?;
            return Ok(Tensor::leaf(Ok((layout, buffer, device)), dtype, "import", location));
        }
        // Where the lowest element lies: the others are counted from there.
        let down = |(&n, &stride): (&usize, &isize)| (n as i128 - 1) * (stride as i128).min(0);
        let below = -shape.iter().zip(&strides).map(down).sum::<i128>();
        let start = i128::from(address) - below * size as i128;
        let (Ok(below), Ok(start)) = (usize::try_from(below), u64::try_from(start)) else {
            return Err(Error::shape(format!("shape {shape:?} with strides {strides:?} begins before address 0")));
        };
        let layout = Layout::new(&shape, &strides, below)?;
        let bytes = layout.span().end.checked_mul(size).filter(|&b| isize::try_from(b).is_ok());
        let bytes = bytes.filter(|&b| start.checked_add(b as u64).is_some() && start > 0).ok_or_else(|| {
            Error::shape(format!("shape {shape:?} with strides {strides:?} cannot be addressed from {address:#x}"))
        })?;
        // SAFETY: the span of the layout from its lowest element on is what the caller promises to be readable.
        let buffer = unsafe { Buffer::import(&device, start as usize as *const u8, bytes, sharing, keep) }?;
        let node = Node::ready(Ok(buffer), layout.shape().into(), dtype, Some(device), location);
        Ok(Tensor { node, layout })
    }

    /// The tensor's memory for somebody outside who only reads: computed if need be, as it lies. While what is returned lives, the memory
    /// is neither overwritten nor reused.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]).transpose();
    /// let out = x.export()?;
    /// assert_eq!((&out.raw().shape[..], &out.raw().strides[..]), (&[2, 2][..], &[1, 2][..]));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// What can go wrong when the tensor is computed, and `Unsupported` where it lies in memory that has no address.
    #[track_caller]
    pub fn export(&self) -> Result<Exported> {
        self.lent(Sharing::ReadOnly).map_err(|e| placed(e, "export", Location::caller()))
    }

    /// The tensor's memory for somebody outside who may write to it. From then on, until what is returned is dropped, this tensor, and
    /// what is cloned or viewed from it, shows what lies there at each moment; see [`Tensor::import`].
    ///
    /// Others keep their value: where somebody else has it (a clone, a view, an operation that waits), where it is memory that may not be
    /// written, or where elements overlap, this tensor is copied first.
    ///
    /// # Errors
    /// As [`Tensor::export`].
    #[track_caller]
    pub fn export_writable(&mut self) -> Result<Exported> {
        let location = Location::caller();
        self.lent_to_write().map_err(|e| placed(e, "export", location))
    }

    /// The tensor's memory for somebody outside, never copied: for writing where nobody else has the value ([`Tensor::export_writable`]),
    /// else for reading only ([`Tensor::export`]). What is returned says which.
    ///
    /// # Errors
    /// As [`Tensor::export`].
    #[track_caller]
    pub fn export_as_it_is(&mut self) -> Result<Exported> {
        let location = Location::caller();
        let lent = self.buffer().and_then(|buffer| {
            drop(buffer);
            let sharing = if self.may_be_written() { Sharing::Writable } else { Sharing::ReadOnly };
            self.lent(sharing)
        });
        lent.map_err(|e| placed(e, "export", location))
    }

    fn lent_to_write(&mut self) -> Result<Exported> {
        drop(self.buffer()?);
        if !self.may_be_written() {
            *self = snapshot(self)?;
        }
        self.lent(Sharing::Writable)
    }

    /// Whether nobody would miss the value, which is there, if somebody outside wrote to it.
    fn may_be_written(&mut self) -> bool {
        let alone = Arc::strong_count(&self.node) == 1;
        let free = |buffer: &Buffer| buffer.is_volatile() || (alone && buffer.is_unshared());
        matches!(self.node.value(), Some(Ok(buffer)) if free(buffer)) && is_distinct(&self.layout)
    }

    fn lent(&self, sharing: Sharing) -> Result<Exported> {
        let buffer = self.buffer()?;
        let device = match &self.node.device {
            Some(device) if device.candidates().is_empty() => device.clone(),
            _ => buffer.device(),
        };
        let lent = buffer.lend(&device, sharing)?;
        let start = lent.address().ok_or_else(|| {
            Error::unsupported(format!("memory of {} has no address that others can use", device.name()))
                .suggest("move the tensor to the host first: to(\"cpu\")")
        })?;
        let offset = if self.is_empty() { 0 } else { self.layout.offset() * self.dtype().size() };
        let raw = RawTensor {
            address: start + offset as u64,
            shape: self.sizes().to_vec(),
            strides: self.layout.strides().to_vec(),
            dtype: self.dtype(),
            device,
            sharing,
        };
        Ok(Exported { raw, _lent: lent })
    }

    /// The result of an operation that leaves every element as it is. It is no view: what others may write to is copied.
    #[track_caller]
    pub(crate) fn same(&self) -> Tensor {
        if self.is_volatile() { self.copy() } else { self.clone() }
    }

    /// Whether the tensor shows memory to which others may write, so that what reads it is computed at once.
    pub fn is_volatile(&self) -> bool {
        crate::graph::volatile::is_volatile(self)
    }
}

/// Memory of a tensor in the hands of somebody outside: see [`Tensor::export`]. Dropping it says that he has let go.
#[derive(Debug)]
pub struct Exported {
    raw: RawTensor,
    _lent: Lent,
}

impl Exported {
    /// Where the elements lie. `sharing` says whether who has this may write there.
    pub fn raw(&self) -> &RawTensor {
        &self.raw
    }
}

/// An error that has no place yet is one of this call.
fn placed(error: Error, op: &'static str, location: &'static Location<'static>) -> Error {
    if error.location().is_some() { error } else { error.in_op(op).at(location) }
}
