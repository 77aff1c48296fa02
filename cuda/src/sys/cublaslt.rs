//! cuBLASLt: matmuls by the vendor.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use super::driver::{DevicePtr, Stream};
use super::{Status, Wanted, library, open};

/// A library handle.
pub(crate) type Handle = *mut c_void;
/// What is computed: types, transpositions.
pub(crate) type MatmulDesc = *mut c_void;
/// How a matrix lies.
pub(crate) type Layout = *mut c_void;
/// What a search for an algorithm may use.
pub(crate) type Preference = *mut c_void;

/// An algorithm with its settings, opaque.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Algo(pub(crate) [u64; 8]);

/// One answer of the search for an algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heuristic {
    pub(crate) algo: Algo,
    pub(crate) workspace: usize,
    pub(crate) state: Status,
    pub(crate) waves: f32,
    pub(crate) reserved: [c_int; 4],
}

library! {
    /// The library's functions.
    pub(crate) struct CublasLt;
    required {
        fn create as b"cublasLtCreate\0"(*mut Handle) -> Status;
        fn destroy as b"cublasLtDestroy\0"(Handle) -> Status;
        fn version as b"cublasLtGetVersion\0"() -> usize;
        fn desc_create as b"cublasLtMatmulDescCreate\0"(*mut MatmulDesc, c_int, c_int) -> Status;
        fn desc_destroy as b"cublasLtMatmulDescDestroy\0"(MatmulDesc) -> Status;
        fn desc_set as b"cublasLtMatmulDescSetAttribute\0"(MatmulDesc, c_int, *const c_void, usize) -> Status;
        fn layout_create as b"cublasLtMatrixLayoutCreate\0"(*mut Layout, c_int, u64, u64, i64) -> Status;
        fn layout_destroy as b"cublasLtMatrixLayoutDestroy\0"(Layout) -> Status;
        fn layout_set as b"cublasLtMatrixLayoutSetAttribute\0"(Layout, c_int, *const c_void, usize) -> Status;
        fn preference_create as b"cublasLtMatmulPreferenceCreate\0"(*mut Preference) -> Status;
        fn preference_destroy as b"cublasLtMatmulPreferenceDestroy\0"(Preference) -> Status;
        fn preference_set as b"cublasLtMatmulPreferenceSetAttribute\0"(Preference, c_int, *const c_void, usize) -> Status;
        fn heuristic as b"cublasLtMatmulAlgoGetHeuristic\0"(
            Handle, MatmulDesc, Layout, Layout, Layout, Layout, Preference, c_int, *mut Heuristic, *mut c_int
        ) -> Status;
        fn matmul as b"cublasLtMatmul\0"(
            Handle, MatmulDesc, *const c_void, DevicePtr, Layout, DevicePtr, Layout, *const c_void, DevicePtr, Layout,
            DevicePtr, Layout, *const Algo, DevicePtr, usize, Stream
        ) -> Status;
    }
    optional {
        fn status_name as b"cublasLtGetStatusName\0"(Status) -> *const c_char;
        fn status_string as b"cublasLtGetStatusString\0"(Status) -> *const c_char;
    }
}

/// Numbers of the library's header.
pub(crate) mod number {
    use std::ffi::c_int;

    pub(crate) const R_32F: c_int = 0;
    pub(crate) const R_64F: c_int = 1;
    pub(crate) const R_16F: c_int = 2;
    pub(crate) const R_16BF: c_int = 14;
    pub(crate) const COMPUTE_32F: c_int = 68;
    pub(crate) const COMPUTE_64F: c_int = 70;
    pub(crate) const DESC_TRANSA: c_int = 3;
    pub(crate) const DESC_TRANSB: c_int = 4;
    pub(crate) const OP_N: c_int = 0;
    pub(crate) const OP_T: c_int = 1;
    pub(crate) const LAYOUT_BATCH_COUNT: c_int = 5;
    pub(crate) const LAYOUT_BATCH_STRIDE: c_int = 6;
    pub(crate) const PREF_WORKSPACE: c_int = 1;
    pub(crate) const PREF_REDUCTION: c_int = 3;
    /// For A, B, C and D in turn.
    pub(crate) const PREF_ALIGNMENT: [c_int; 4] = [5, 6, 7, 8];
    /// Partial sums are added in the type of the sum, not in that of the result.
    pub(crate) const REDUCTION_COMPUTE: u32 = 2;
    /// Any way of adding partial sums.
    pub(crate) const REDUCTION_ANY: u32 = 7;
}

const LIBRARY: Wanted = Wanted {
    variable: "MILLSTREAM_CUBLASLT",
    names: if cfg!(windows) {
        &["cublasLt64_13.dll", "cublasLt64_12.dll"]
    } else {
        &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]
    },
};

/// The library, loaded at the first call; or the loader's reason.
pub(crate) fn cublaslt() -> Result<&'static CublasLt, String> {
    static LOADED: OnceLock<Result<CublasLt, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let library = open(&LIBRARY)?;
        // SAFETY: a library of this name is NVIDIA's cuBLASLt.
        unsafe { CublasLt::bind(library) }.map_err(|symbol| format!("cuBLASLt is too old: it has no {symbol}"))
    });
    loaded.as_ref().map_err(Clone::clone)
}

/// Whether the library seems to be there, without loading it.
pub(crate) fn is_there() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| super::locate(&LIBRARY))
}
