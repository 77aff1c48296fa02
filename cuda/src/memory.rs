//! Memory as the driver gives it. Only the pool asks for it.

use std::ffi::c_void;
use std::sync::Arc;

use millstream_core::memory::{HostPtr, MemoryKind, RawMemory};
use millstream_core::{Error, ErrorKind, Fault, Result};

use crate::context::Context;
use crate::sys::driver::{Stream, number};

/// How a piece of memory was allocated; also keeps its context alive.
pub(crate) struct Allocation {
    context: Arc<Context>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Device,
    Pinned,
    Managed,
}

impl Allocation {
    /// Whether copies from and to this memory run at full speed by themselves: all but the host's ordinary memory.
    pub(crate) fn of(memory: &RawMemory) -> Option<&Allocation> {
        memory.owner.as_ref()?.downcast_ref()
    }
}

/// Takes memory.
pub(crate) fn alloc(context: &Arc<Context>, bytes: usize, kind: MemoryKind) -> Result<RawMemory> {
    context.enter()?;
    let p = &context.properties;
    // Where host and device may not touch managed memory at the same time, pinned memory serves both.
    let how = match kind {
        MemoryKind::Device => How::Device,
        MemoryKind::Unified if p.managed && p.concurrent_managed => How::Managed,
        MemoryKind::Pinned | MemoryKind::Unified => How::Pinned,
    };
    let driver = context.driver;
    let (mut address, mut host) = (0u64, std::ptr::null_mut::<c_void>());
    // SAFETY: the driver writes one address.
    let status = unsafe {
        match how {
            How::Device => (driver.mem_alloc)(&mut address, bytes),
            How::Managed => {
                // More managed memory than the device has free is paged back and forth, and can hang it.
                let (free, _) = context.memory_info()?;
                if bytes > free { 2 } else { (driver.mem_alloc_managed)(&mut address, bytes, number::ATTACH_GLOBAL) }
            }
            How::Pinned => {
                // Not write-combined: the host reads from it too.
                (driver.mem_host_alloc)(&mut host, bytes, number::HOST_PORTABLE | number::HOST_DEVICE_MAP)
            }
        }
    };
    if status == 2 {
        return Err(out_of_memory(context, bytes, how));
    }
    context.check(status, "allocating memory")?;
    let owner = Allocation { context: context.clone(), how };
    if how == How::Pinned {
        // SAFETY: the driver writes the address that the device has for this memory.
        let status = unsafe { (driver.mem_host_device_pointer)(&mut address, host, 0) };
        if status != 0 {
            // SAFETY: nobody has seen this memory yet.
            unsafe { (driver.mem_host_free)(host) };
        }
        context.check(status, "asking for the address of pinned memory")?;
    } else if how == How::Managed {
        host = address as usize as *mut c_void;
    }
    Ok(RawMemory { address, bytes, host: HostPtr::new(host.cast()), owner: Some(Arc::new(owner)) })
}

fn out_of_memory(context: &Context, bytes: usize, how: How) -> Error {
    if how == How::Pinned {
        return Error::new(
            ErrorKind::OutOfMemory,
            Fault::Message(format!("{}: the host could not give {bytes} bytes of pinned memory", context.name)),
        )
        .suggest("pinned memory is bounded by the host's memory and by `ulimit -l`: use less of it");
    }
    let (free, total) = context.memory_info().unwrap_or((0, context.properties.memory as usize));
    let used = total.saturating_sub(free);
    Error::new(
        ErrorKind::OutOfMemory,
        Fault::OutOfMemory { device: context.name.clone(), bytes, in_use: used, reserved: total },
    )
    .with_code(2)
    .suggest("other processes may hold memory of this GPU (see `nvidia-smi`); free tensors, or work in smaller pieces")
}

/// Gives memory back.
pub(crate) fn free(memory: &RawMemory) {
    let Some(allocation) = Allocation::of(memory) else { return };
    let context = &allocation.context;
    // A lost context has freed it already.
    if context.enter().is_err() {
        return;
    }
    let driver = context.driver;
    // SAFETY: the pool gives back what `alloc` gave it, once, when no stream uses it any more.
    let status = unsafe {
        match (allocation.how, memory.host) {
            (How::Pinned, Some(host)) => (driver.mem_host_free)(host.as_ptr().cast()),
            _ => (driver.mem_free)(memory.address),
        }
    };
    // There is nobody to tell; a device that was lost meanwhile is noted.
    let _ = context.check(status, "freeing memory");
}

/// Whether this host memory was pinned by somebody, so that the device copies it by itself.
pub(crate) fn is_pinned(context: &Context, memory: &RawMemory, address: u64) -> bool {
    if Allocation::of(memory).is_some() {
        return true;
    }
    let mut kind = 0u32;
    // SAFETY: the driver writes one number; for memory it does not know it gives an error and writes nothing.
    let status =
        unsafe { (context.driver.pointer_attribute)((&raw mut kind).cast(), number::POINTER_MEMORY_TYPE, address) };
    status == 0 && kind == number::MEMORY_HOST
}

/// Whether an address that somebody else gave is one of this device; waits for what was queued to write there, on the legacy default
/// stream, as array libraries agreed (DLPack).
pub(crate) fn settled_here(context: &Context, address: u64) -> bool {
    if context.enter().is_err() {
        return false;
    }
    let mut ordinal = -1i32;
    let driver = context.driver;
    // SAFETY: the driver writes one number; for memory it does not know it gives an error and writes nothing.
    let status =
        unsafe { (driver.pointer_attribute)((&raw mut ordinal).cast(), number::POINTER_DEVICE_ORDINAL, address) };
    if status != 0 || ordinal != context.ordinal() {
        return false;
    }
    // SAFETY: the null handle is the legacy default stream of the current context.
    let status = unsafe { (driver.stream_synchronize)(Stream::NULL) };
    context.check(status, "waiting for the default stream").is_ok()
}
