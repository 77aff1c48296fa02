//! Pieces of memory as backends give them, before anybody knows what is in them.
//!
//! A [`RawMemory`] is plain data: it owns nothing except what its `owner` keeps alive, and it is freed by whoever got it
//! from the backend, which is the pool. Nothing here reads or writes memory.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Where memory lies and who can address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MemoryKind {
    /// The device's own memory: the fastest for its kernels.
    #[default]
    Device,
    /// Host memory that the device copies from and to at full speed while other work goes on.
    Pinned,
    /// Memory that the host and the device both address.
    Unified,
}

impl MemoryKind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [MemoryKind; 3] = [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Unified];
}

/// A stream's number, unique in the process.
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Hash, Debug)]
pub struct StreamId(pub u64);

/// A host address that may travel between threads. Who may read or write there, and when, is its user's affair.
#[derive(Copy, Clone, Eq, PartialEq, Hash)]
pub struct HostPtr(NonNull<u8>);

// SAFETY: it is a number until somebody dereferences it, which takes an unsafe block with a reason of its own.
unsafe impl Send for HostPtr {}
// SAFETY: as above.
unsafe impl Sync for HostPtr {}

impl HostPtr {
    /// This address; `None` for the null pointer.
    pub fn new(pointer: *mut u8) -> Option<HostPtr> {
        NonNull::new(pointer).map(HostPtr)
    }

    /// The address.
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl From<NonNull<u8>> for HostPtr {
    fn from(pointer: NonNull<u8>) -> HostPtr {
        HostPtr(pointer)
    }
}

impl fmt::Debug for HostPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

/// One piece of device memory as its backend gave it.
#[derive(Clone)]
pub struct RawMemory {
    /// A pointer, a device pointer, or a handle that only the backend understands.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
    /// Its first byte, if the host can address it.
    pub host: Option<HostPtr>,
    /// What the backend needs to find it again, or to keep it alive.
    pub owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl RawMemory {
    /// Host memory at this address, which somebody else owns and keeps alive.
    pub fn foreign(pointer: *const u8, bytes: usize) -> RawMemory {
        RawMemory { address: pointer as usize as u64, bytes, host: HostPtr::new(pointer.cast_mut()), owner: None }
    }
}

impl fmt::Debug for RawMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.host.is_some() { "host" } else { "device" };
        write!(f, "RawMemory({kind} {:#x}, {} bytes)", self.address, self.bytes)
    }
}
