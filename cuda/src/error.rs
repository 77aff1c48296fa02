//! What the vendor's libraries say, in Millstream's words: one table maps every status to an error kind, keeps the
//! library's own name and text for it, and adds what a person can do.

use std::ffi::{CStr, c_char};

use millstream_core::{Error, ErrorKind, Fault};

use crate::sys::Status;
use crate::sys::cublaslt::CublasLt;
use crate::sys::driver::{Driver, Missing};
use crate::sys::nvrtc::Nvrtc;

/// The driver's status for work that is not finished yet: an answer, not a failure.
pub(crate) const NOT_READY: Status = 600;
/// The driver's status for a thing that it cannot do here.
pub(crate) const NOT_SUPPORTED: Status = 801;

/// Whether the driver's context is beyond use: every later call would fail as well.
pub(crate) fn is_sticky(code: Status) -> bool {
    matches!(code, 4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 810 | 911 | 999)
}

/// The kind of error that a status of the driver means.
pub(crate) fn driver_kind(code: Status) -> ErrorKind {
    match code {
        c if is_sticky(c) => ErrorKind::DeviceLost,
        2 => ErrorKind::OutOfMemory,
        3 | 34 | 46 | 100..=102 | 802..=809 => ErrorKind::NoDevice,
        36 | 217 | 224 | 225 | NOT_SUPPORTED | 811 | 812 => ErrorKind::Unsupported,
        200 | 209 | 218 | 221..=223 | 300 | 500 | 913 => ErrorKind::Compile,
        909 => ErrorKind::Timeout,
        201 => ErrorKind::Internal,
        _ => ErrorKind::Launch,
    }
}

/// What helps against a status of the driver, where there is something to say beyond the kind's own advice.
fn driver_advice(code: Status) -> Option<&'static str> {
    Some(match code {
        3 | 100 => {
            "check that `nvidia-smi` lists a GPU, that the process may use /dev/nvidia*, and that CUDA_VISIBLE_DEVICES does not hide it"
        }
        34 => "a toolkit's stub libcuda was loaded instead of the driver: remove lib64/stubs from LD_LIBRARY_PATH",
        36 | 222 | 804 => "install a newer NVIDIA driver, or an NVRTC that is not newer than the driver",
        46 | 802 => {
            "another process holds the GPU exclusively, or it is still starting: try again, or see `nvidia-smi`"
        }
        101 => "`millstream devices` lists the devices; CUDA_VISIBLE_DEVICES changes their numbers",
        209 => "the kernel was compiled for another GPU: clear the kernel cache",
        214 => "the GPU's memory has a fault that ECC could not correct: see `nvidia-smi -q`, and reset the GPU",
        226 => "a fault of the GPU was contained in this process: start it again",
        700 => {
            "a kernel touched memory that is not its own; the device must be opened again. compute-sanitizer finds the instruction"
        }
        701 => "the kernel needs more registers or shared memory than a group may have: choose a smaller tile",
        702 => "a display's watchdog ended a long kernel: use another GPU, or work in smaller pieces",
        803 => {
            "the driver in the kernel and its libraries have different versions: restart the machine after an update"
        }
        805..=809 => "see that the CUDA MPS daemon runs, or stop using it",
        900..=908 => "a call that cannot be captured was made while a stream was being captured",
        _ => return None,
    })
}

/// The error for a status of the driver, said while `doing` something.
#[cold]
pub(crate) fn driver_error(driver: &Driver, code: Status, doing: &str) -> Error {
    let ask = |f: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
        let mut text = std::ptr::null();
        // SAFETY: the driver writes a pointer to a text of its own, which lives for ever, or null.
        unsafe {
            f(code, &mut text);
            text_of(text)
        }
    };
    let name = ask(driver.error_name).unwrap_or_else(|| "an unknown CUDA error".into());
    let text = ask(driver.error_string).unwrap_or_default();
    named_driver_error(code, doing, &name, &text)
}

fn named_driver_error(code: Status, doing: &str, name: &str, text: &str) -> Error {
    let kind = driver_kind(code);
    let sticky = if kind == ErrorKind::DeviceLost { "; the device's context cannot be used any more" } else { "" };
    let error = Error::new(kind, Fault::Message(format!("{doing}: {name} ({text}){sticky}"))).with_code(code.into());
    match driver_advice(code) {
        Some(advice) => error.suggest(advice),
        None => error,
    }
}

/// The error for a driver that is not there or too old.
pub(crate) fn missing_driver(missing: &Missing) -> Error {
    match missing {
        Missing::Library(why) => Error::no_device(format!("there is no CUDA driver on this machine: {why}"))
            .suggest("install NVIDIA's driver (libcuda.so.1 comes with it), or use another family of devices"),
        Missing::Symbol(symbol) => {
            Error::no_device(format!("the CUDA driver is too old: it has no {symbol}, which came with CUDA 11.4"))
                .suggest("install NVIDIA's driver 470 or newer")
        }
    }
}

/// The error for an NVRTC that is not there or does not load.
pub(crate) fn missing_nvrtc(why: &str) -> Error {
    Error::unsupported(format!("kernels cannot be compiled: NVRTC is not there: {why}")).suggest(
        "install the CUDA toolkit or its package cuda-nvrtc (pip: nvidia-cuda-nvrtc), or name the file in MILLSTREAM_NVRTC",
    )
}

/// The error for a status of NVRTC, with the compiler's log.
#[cold]
pub(crate) fn nvrtc_error(nvrtc: &Nvrtc, code: Status, doing: &str, log: &str) -> Error {
    // SAFETY: the library gives a text of its own for any number.
    let name = unsafe { text_of((nvrtc.error_string)(code)) }.unwrap_or_else(|| "an unknown NVRTC error".into());
    let log = log.trim();
    let separator = if log.is_empty() { "" } else { "\n" };
    let (kind, advice) = match code {
        1 => (ErrorKind::OutOfMemory, None),
        5 => (
            ErrorKind::Compile,
            Some("an option, perhaps the architecture, is unknown to this NVRTC: install another version"),
        ),
        7 => (ErrorKind::Compile, Some("libnvrtc-builtins must lie beside libnvrtc and have the same version")),
        _ => (ErrorKind::Compile, None),
    };
    let error = Error::new(kind, Fault::Message(format!("{doing}: {name}{separator}{log}"))).with_code(code.into());
    match advice {
        Some(advice) => error.suggest(advice),
        None => error,
    }
}

/// The kind of error that a status of cuBLASLt means.
pub(crate) fn cublas_kind(code: Status) -> ErrorKind {
    match code {
        3 => ErrorKind::OutOfMemory,
        8 | 15 => ErrorKind::Unsupported,
        1 => ErrorKind::NoDevice,
        7 | 11 | 14 => ErrorKind::Internal,
        _ => ErrorKind::Launch,
    }
}

/// The error for a status of cuBLASLt.
#[cold]
pub(crate) fn cublas_error(library: &CublasLt, code: Status, doing: &str) -> Error {
    let ask = |f: Option<unsafe extern "C" fn(Status) -> *const c_char>| {
        // SAFETY: the library gives a text of its own for any number.
        f.and_then(|f| unsafe { text_of(f(code)) })
    };
    let name = ask(library.status_name).unwrap_or_else(|| "a cuBLASLt error".into());
    let text = ask(library.status_string).unwrap_or_default();
    Error::new(cublas_kind(code), Fault::Message(format!("{doing}: {name} ({text})"))).with_code(code.into())
}

/// A text of a library's own.
///
/// # Safety
/// The pointer is null or points to a text that ends with a zero and is not changed meanwhile.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_the_kind_that_a_program_decides_by() {
        for (code, kind) in [
            (1, ErrorKind::Launch),
            (2, ErrorKind::OutOfMemory),
            (100, ErrorKind::NoDevice),
            (101, ErrorKind::NoDevice),
            (200, ErrorKind::Compile),
            (214, ErrorKind::DeviceLost),
            (218, ErrorKind::Compile),
            (700, ErrorKind::DeviceLost),
            (701, ErrorKind::Launch),
            (716, ErrorKind::DeviceLost),
            (719, ErrorKind::DeviceLost),
            (801, ErrorKind::Unsupported),
            (803, ErrorKind::NoDevice),
            (901, ErrorKind::Launch),
            (999, ErrorKind::DeviceLost),
            (123_456, ErrorKind::Launch),
        ] {
            assert_eq!(driver_kind(code), kind, "{code}");
        }
        assert!((0..2000).all(|c| is_sticky(c) == (driver_kind(c) == ErrorKind::DeviceLost)));
    }

    #[test]
    fn an_error_has_the_drivers_name_text_number_and_advice() {
        let error = named_driver_error(700, "waiting", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access");
        let text = error.to_string();
        for part in ["waiting", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access", "driver code 700", "try:"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
        assert_eq!((error.kind(), error.code()), (ErrorKind::DeviceLost, Some(700)));
    }

    #[test]
    fn a_missing_library_says_what_to_install() {
        let error = missing_driver(&Missing::Library("libcuda.so.1 was not found".into()));
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.suggestion().unwrap().contains("driver"));
        let old = missing_driver(&Missing::Symbol("cuGraphInstantiateWithFlags"));
        assert!(old.to_string().contains("too old"));
        let error = missing_nvrtc("libnvrtc.so.13 was not found");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.suggestion().unwrap().contains("nvidia-cuda-nvrtc"));
    }

    #[test]
    fn cublas_statuses_have_kinds() {
        let kinds = [1, 3, 7, 8, 13, 14, 15].map(cublas_kind);
        use ErrorKind::*;
        assert_eq!(kinds, [NoDevice, OutOfMemory, Internal, Unsupported, Launch, Internal, Unsupported]);
    }
}
