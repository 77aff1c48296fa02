//! Files mapped into memory: tensors over the bytes of a file, without a copy.

use std::path::Path;
use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};
use millstream_core::what::alignment;
use millstream_core::{Buffer, DType, Error, Layout, Result, Sharing};

use super::input;
use crate::Tensor;

/// A file in memory. Writes to this memory stay there; the file does not change.
#[derive(Clone)]
pub(crate) struct Mapped(Arc<MmapMut>);

impl Mapped {
    /// Maps a whole file. Only ordinary files can be mapped.
    ///
    /// # Safety
    /// Nobody may change or cut the file while the mapping or a tensor over it lives.
    pub unsafe fn open(path: &Path) -> Result<Mapped> {
        let (file, size) = input::open(path)?;
        let size = usize::try_from(size).map_err(|_| {
            Error::format(format!("{}: the file is larger than this machine's memory can be", path.display()))
        })?;
        // SAFETY: the mapping is private, so that no write of ours reaches the file. That nobody else changes it is what
        // this function asks of its caller.
        let map = unsafe { MmapOptions::new().len(size).map_copy(&file) };
        Ok(Mapped(Arc::new(map.map_err(|e| Error::io(path.display().to_string(), e))?)))
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A row-major tensor over the bytes from `start` on: without a copy where they are aligned for the dtype, else with one.
    /// All of its bytes must be there, and those of bool be 0 or 1.
    pub fn tensor(&self, start: usize, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        let layout = Layout::contiguous(shape)?;
        let len = layout.len() * dtype.size();
        let data = start.checked_add(len).and_then(|end| self.bytes().get(start..end));
        let data = data.ok_or_else(|| Error::internal("a tensor beyond the end of its file"))?;
        if data.is_empty() || !data.as_ptr().addr().is_multiple_of(alignment(dtype)) {
            let tensor = Tensor::from_bytes(shape, dtype, data);
            return tensor.check().map(|()| tensor);
        }
        let runtime = crate::default_runtime()?;
        // SAFETY: the mapping lives as long as the clone that the buffer keeps; nothing writes to it.
        let buffer =
            unsafe { Buffer::import(&runtime.host()?, data.as_ptr(), len, Sharing::ReadOnly, Box::new(self.clone())) }?;
        let made = Ok((layout, buffer, runtime.default_device()?));
        Ok(Tensor::leaf(made, dtype, "map", std::panic::Location::caller()))
    }
}
