//! The host's memory as the CPU device hands it out: aligned, with huge pages, and never more than the machine has.
//!
//! Small blocks come from the process's allocator, large ones straight from the system, aligned to huge pages, so that
//! the first touch of a big output costs one page fault for 2 MiB rather than 512. A request that cannot be met is an
//! error of kind `OutOfMemory`. Systems that promise memory they do not have would end the process later instead, so
//! what this device holds in all never exceeds what the machine (or the process's control group) has.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_core::{Error, ErrorKind, Fault, Result};

/// What every block is aligned to: a cache line, and the widest vector.
pub(crate) const ALIGNMENT: usize = 64;
/// Blocks of this size or more come from the system.
const LARGE: usize = 4 << 20;
/// The size of a huge page; blocks from the system are aligned to it.
const HUGE_PAGE: usize = 2 << 20;

/// The allocator of one device: counts what it has given.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    in_use: AtomicUsize,
}

impl Memory {
    /// A block of at least one byte, not initialised.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<NonNull<u8>> {
        let fail = |in_use: usize| {
            let fault = Fault::OutOfMemory { device: "cpu".into(), bytes, in_use, reserved: in_use };
            Error::new(ErrorKind::OutOfMemory, fault)
        };
        let reserve = |used: usize| used.checked_add(bytes).filter(|&total| total as u64 <= limit());
        if let Err(used) = self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve) {
            return Err(fail(used));
        }
        obtain(bytes.max(1)).ok_or_else(|| fail(self.in_use.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes)))
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// `alloc(bytes)` of this value gave `block`, and nobody uses it any more.
    pub(crate) unsafe fn free(&self, block: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller promises that `obtain(bytes)` gave the block.
        unsafe { release(block, bytes.max(1)) };
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that this process can have at most: memory and swap, or the control group's limit where that is less.
pub(crate) fn limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let (memory, swap) = physical();
        memory.saturating_add(swap).min(group_limit().unwrap_or(u64::MAX)).min(isize::MAX as u64)
    })
}

/// Bytes of memory without swap, as a profile states them.
pub(crate) fn installed() -> u64 {
    physical().0.min(group_limit().unwrap_or(u64::MAX))
}

#[cfg(target_os = "linux")]
fn physical() -> (u64, u64) {
    // SAFETY: sysinfo is plain data; all zeros is a valid value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives through the call.
    if unsafe { libc::sysinfo(&mut info) } != 0 {
        return (isize::MAX as u64, 0);
    }
    let unit = u64::from(info.mem_unit.max(1));
    #[allow(clippy::useless_conversion)] // The fields are u32 on 32-bit systems.
    (u64::from(info.totalram).saturating_mul(unit), u64::from(info.totalswap).saturating_mul(unit))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn physical() -> (u64, u64) {
    // SAFETY: sysconf has no preconditions.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let bytes = (pages > 0 && page > 0).then(|| (pages as u64).saturating_mul(page as u64));
    // Swap grows on demand on such systems: allow as much again.
    bytes.map_or((isize::MAX as u64, 0), |b| (b, b))
}

#[cfg(not(unix))]
fn physical() -> (u64, u64) {
    (isize::MAX as u64, 0)
}

/// The memory limit of the control group that this process sees as its own.
fn group_limit() -> Option<u64> {
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, ALIGNMENT).ok()
}

#[cfg(target_os = "linux")]
fn obtain(bytes: usize) -> Option<NonNull<u8>> {
    if bytes < LARGE {
        // SAFETY: the size is not 0.
        return NonNull::new(unsafe { alloc(layout(bytes)?) });
    }
    let size = bytes.checked_next_multiple_of(HUGE_PAGE)?;
    let span = size.checked_add(HUGE_PAGE)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping touches no memory of anybody.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), span, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let base = base.cast::<u8>();
    let head = (base as usize).next_multiple_of(HUGE_PAGE) - base as usize;
    let tail = span - head - size;
    // SAFETY: head, block and tail are parts of the mapping just made; only the block is used from here on. All three
    // begin at multiples of the page size, since both the mapping and huge pages do.
    unsafe {
        let block = base.add(head);
        if head > 0 {
            libc::munmap(base.cast(), head);
        }
        if tail > 0 {
            libc::munmap(block.add(size).cast(), tail);
        }
        // Advice only: without huge pages the memory is as good, but slower to touch.
        libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE);
        NonNull::new(block)
    }
}

/// # Safety
/// `obtain(bytes)` gave the block, and nobody uses it any more.
#[cfg(target_os = "linux")]
unsafe fn release(block: NonNull<u8>, bytes: usize) {
    if bytes >= LARGE {
        // SAFETY: `obtain` mapped exactly this range for these bytes.
        unsafe { libc::munmap(block.as_ptr().cast(), bytes.next_multiple_of(HUGE_PAGE)) };
    } else if let Some(layout) = layout(bytes) {
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

#[cfg(not(target_os = "linux"))]
fn obtain(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the size is not 0.
    NonNull::new(unsafe { alloc(layout(bytes)?) })
}

/// # Safety
/// `obtain(bytes)` gave the block, and nobody uses it any more.
#[cfg(not(target_os = "linux"))]
unsafe fn release(block: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_blocks_are_aligned_and_writable_to_the_last_byte() {
        let memory = Memory::default();
        for bytes in [1, 63, 4096, LARGE - 1, LARGE, LARGE + 1, 9 << 20] {
            let block = memory.alloc(bytes).unwrap();
            assert_eq!(block.as_ptr() as usize % ALIGNMENT, 0);
            // SAFETY: the block has `bytes` bytes and is freed once, after the last use.
            unsafe {
                block.as_ptr().write(1);
                block.as_ptr().add(bytes - 1).write(2);
                assert_eq!(block.as_ptr().add(bytes - 1).read(), 2);
                memory.free(block, bytes);
            }
        }
        assert_eq!(memory.in_use.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn more_than_the_machine_has_is_refused_with_the_numbers() {
        let memory = Memory::default();
        let huge = usize::try_from(limit()).unwrap_or(usize::MAX);
        for bytes in [huge.saturating_add(1), isize::MAX as usize, isize::MAX as usize - 63, usize::MAX] {
            let error = memory.alloc(bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory);
            assert!(error.to_string().contains(&bytes.to_string()), "{error}");
        }
        assert_eq!(memory.in_use.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn blocks_together_cannot_exceed_the_machine() {
        let memory = Memory::default();
        let most = usize::try_from(limit()).unwrap_or(usize::MAX);
        memory.in_use.store(most - 100, Ordering::Relaxed);
        assert!(memory.alloc(101).is_err());
        let block = memory.alloc(100).unwrap();
        // SAFETY: allocated above with this size.
        unsafe { memory.free(block, 100) };
    }
}
