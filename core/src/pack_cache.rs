//! Values that are used many times, and what devices derive from them.
//!
//! [`Buffer::keep`](crate::Buffer::keep) says that a value is worth it. From then on every launch that reads it gets the value's
//! [`PackCache`] with its binding, and a kernel may put forms of the value there, such as an operand in the order in which it reads it,
//! for later launches to find. A form belongs to one value of one buffer on one device: a write ends the value, and what was
//! derived from it goes with the last launch that still reads it. Nothing is ever looked up by address, so that memory which is
//! used again for something else cannot be mistaken.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::buffer::Storage;
use crate::device::Device;
use crate::error::Result;
use crate::memory::MemoryKind;

/// Forms of a value may take so many times its own bytes, and so many bytes more; beyond that the oldest goes.
const MOST: (usize, usize) = (4, 64 << 10);

/// What tells a form from others of the same value: whatever the kernel that makes it depends on.
pub type FormName = SmallVec<[u64; 12]>;

/// A value that stays the same, and its forms on one device.
pub struct PackCache {
    device: Device,
    /// The most bytes that all forms together take.
    most: usize,
    /// The oldest first.
    forms: Mutex<Vec<(FormName, Arc<Storage>, usize)>>,
}

impl PackCache {
    pub(crate) fn new(device: &Device, bytes: usize) -> PackCache {
        let most = bytes.saturating_mul(MOST.0).saturating_add(MOST.1);
        PackCache { device: device.clone(), most, forms: Mutex::default() }
    }

    /// The form of that name, in memory of this device's pool that the host addresses. If it is not there yet, `make` writes all
    /// `bytes` bytes of it at the address it is given, aligned to 64; whoever wants the same form meanwhile waits.
    ///
    /// `None` where there is no room for it: the launch then does without. An error of `make` is passed on, and nothing is kept.
    pub fn form(
        &self,
        name: &[u64],
        bytes: usize,
        make: impl FnOnce(*mut u8) -> Result<()>,
    ) -> Result<Option<Arc<Storage>>> {
        let mut forms = self.forms.lock();
        if let Some((_, form, _)) = forms.iter().find(|(n, ..)| n.as_slice() == name) {
            return Ok(Some(form.clone()));
        }
        if bytes > self.most {
            return Ok(None);
        }
        let mut total: usize = forms.iter().map(|(.., b)| b).sum();
        while total + bytes > self.most && !forms.is_empty() {
            total -= forms.remove(0).2;
        }
        let Some(form) = Storage::spare(&self.device, bytes, MemoryKind::Device) else { return Ok(None) };
        let Some(first) = form.host_pointer().filter(|p| (*p as usize).is_multiple_of(64)) else { return Ok(None) };
        make(first)?;
        forms.push((name.into(), form.clone(), bytes));
        Ok(Some(form))
    }

    /// How many forms there are, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let forms = self.forms.lock();
        (forms.len(), forms.iter().map(|(.., b)| b).sum())
    }
}

impl fmt::Debug for PackCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackCache({}, at most {} bytes)", self.device.name(), self.most)
    }
}
