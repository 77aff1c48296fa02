//! Forms of operands in the pack cache: the one place that writes and reads their memory.

use std::marker::PhantomData;
use std::sync::Arc;

use millstream_core::pack_cache::PackCache;
use millstream_core::{Result, Storage};

use super::packed::Element;

/// Elements that were derived from an operand once.
pub(super) struct CachedForm<T> {
    memory: Arc<Storage>,
    elements: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Element> CachedForm<T> {
    /// The form of this name, with so many elements; if it is not there yet, `fill` writes it over zeros. `None` where there is no room for it.
    pub(super) fn new(
        cache: &PackCache,
        name: &[u64],
        elements: usize,
        fill: impl FnOnce(&mut [T]) -> Result<()>,
    ) -> Result<Option<CachedForm<T>>> {
        let bytes = elements.saturating_mul(size_of::<T>());
        let memory = cache.form(name, bytes.max(1), |at| {
            // SAFETY: the memory is new, aligned for every Element and has room for so many; all zeros are one.
            fill(unsafe {
                at.write_bytes(0, bytes);
                std::slice::from_raw_parts_mut(at.cast::<T>(), elements)
            })
        })?;
        Ok(memory.map(|memory| CachedForm { memory, elements, of: PhantomData }))
    }

    /// The elements, if the host can read them.
    pub(super) fn elements(&self) -> Option<&[T]> {
        let bytes = self.memory.memory().bytes.checked_sub(self.memory.offset())?;
        let first = self.memory.host_pointer().filter(|_| bytes >= self.elements * size_of::<T>())?;
        // SAFETY: `new` filled the memory with such elements, and nobody writes it any more.
        Some(unsafe { std::slice::from_raw_parts(first.cast::<T>(), self.elements) })
    }
}
