//! Named ranges for NVIDIA's profilers, where their library is there and a profiler listens.

use std::ffi::CString;
use std::sync::OnceLock;

use crate::sys::nvtx::nvtx;

/// A range of the calling thread, open until it is dropped.
pub(crate) struct Range(bool);

/// Opens a range. Costs one load when no profiler listens.
#[inline]
pub(crate) fn range(name: &str) -> Range {
    static LISTENED: OnceLock<bool> = OnceLock::new();
    // Profilers put the library that receives ranges here when they start a program.
    let listened = *LISTENED.get_or_init(|| std::env::var_os("NVTX_INJECTION64_PATH").is_some() && nvtx().is_some());
    if listened { open(name) } else { Range(false) }
}

#[cold]
fn open(name: &str) -> Range {
    let (Some(nvtx), Ok(name)) = (nvtx(), CString::new(name)) else { return Range(false) };
    // SAFETY: the text ends with a zero; the library copies it.
    unsafe { (nvtx.push)(name.as_ptr()) };
    Range(true)
}

impl Drop for Range {
    #[inline]
    fn drop(&mut self) {
        if self.0
            && let Some(nvtx) = nvtx()
        {
            // SAFETY: closes the range that `open` opened on this thread.
            unsafe { (nvtx.pop)() };
        }
    }
}
