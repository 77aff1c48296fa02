//! NVRTC, the compiler of CUDA C++ as a library.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use super::{Status, Wanted, library, open};

/// A source being compiled.
pub(crate) type Program = *mut c_void;

library! {
    /// The compiler's functions.
    pub(crate) struct Nvrtc;
    required {
        fn version as b"nvrtcVersion\0"(*mut c_int, *mut c_int) -> Status;
        fn error_string as b"nvrtcGetErrorString\0"(Status) -> *const c_char;
        fn create as b"nvrtcCreateProgram\0"(
            *mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
        ) -> Status;
        fn destroy as b"nvrtcDestroyProgram\0"(*mut Program) -> Status;
        fn compile as b"nvrtcCompileProgram\0"(Program, c_int, *const *const c_char) -> Status;
        fn log_size as b"nvrtcGetProgramLogSize\0"(Program, *mut usize) -> Status;
        fn log as b"nvrtcGetProgramLog\0"(Program, *mut c_char) -> Status;
        fn cubin_size as b"nvrtcGetCUBINSize\0"(Program, *mut usize) -> Status;
        fn cubin as b"nvrtcGetCUBIN\0"(Program, *mut c_char) -> Status;
        fn ptx_size as b"nvrtcGetPTXSize\0"(Program, *mut usize) -> Status;
        fn ptx as b"nvrtcGetPTX\0"(Program, *mut c_char) -> Status;
        fn arch_count as b"nvrtcGetNumSupportedArchs\0"(*mut c_int) -> Status;
        fn archs as b"nvrtcGetSupportedArchs\0"(*mut c_int) -> Status;
    }
    optional {}
}

const LIBRARY: Wanted = Wanted {
    variable: "MILLSTREAM_NVRTC",
    names: if cfg!(windows) {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
    } else {
        &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "libnvrtc.so.11.2"]
    },
};

/// The compiler, loaded at the first call; or the loader's reason.
pub(crate) fn nvrtc() -> Result<&'static Nvrtc, String> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    let loaded = NVRTC.get_or_init(|| {
        let library = open(&LIBRARY)?;
        // SAFETY: a library of this name is NVIDIA's run-time compiler.
        unsafe { Nvrtc::bind(library) }.map_err(|symbol| format!("NVRTC is too old: it has no {symbol}"))
    });
    loaded.as_ref().map_err(Clone::clone)
}

/// Whether the compiler seems to be there, without loading it.
pub(crate) fn is_there() -> bool {
    super::locate(&LIBRARY)
}
