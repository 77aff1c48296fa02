//! NVTX: named ranges for the vendor's profilers.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use super::{Wanted, library, open};

library! {
    /// The functions for ranges of one thread.
    pub(crate) struct Nvtx;
    required {
        fn push as b"nvtxRangePushA\0"(*const c_char) -> c_int;
        fn pop as b"nvtxRangePop\0"() -> c_int;
    }
    optional {}
}

const LIBRARY: Wanted = Wanted {
    variable: "MILLSTREAM_NVTX",
    names: if cfg!(windows) { &["nvToolsExt64_1.dll"] } else { &["libnvToolsExt.so.1", "libnvToolsExt.so"] },
};

/// The library, if there is one.
pub(crate) fn nvtx() -> Option<&'static Nvtx> {
    static NVTX: OnceLock<Option<Nvtx>> = OnceLock::new();
    // SAFETY: a library of this name is NVIDIA's NVTX.
    NVTX.get_or_init(|| unsafe { Nvtx::bind(open(&LIBRARY).ok()?) }.ok()).as_ref()
}
