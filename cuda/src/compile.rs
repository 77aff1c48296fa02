//! Compiling CUDA C++ with NVRTC. Needs no GPU.

use std::ffi::{CString, c_char, c_int};

use millstream_core::{Error, Result};

use crate::error::{missing_nvrtc, nvrtc_error};
use crate::sys::nvrtc::{Nvrtc, Program, nvrtc};

/// How kernels are compiled. There is no fast-math option: results keep their bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct CompileOptions {
    /// Keeps the lines of the source in the binary, for profilers and debuggers.
    pub line_info: bool,
    /// The most registers of a thread; the compiler's choice where there is none.
    pub max_registers: Option<u32>,
    /// Compiles in half the time to slower machine code, where NVRTC can (from 13 on): to see whether a text compiles.
    pub hasty: bool,
}

/// A compiled kernel text: machine code, or PTX that the driver compiles when it loads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The bytes for the driver; PTX ends with a zero.
    pub bytes: Vec<u8>,
    /// Whether they are machine code for exactly one architecture (CUBIN) rather than PTX.
    pub is_native: bool,
    /// What the compiler said although it succeeded.
    pub log: String,
}

/// NVRTC's version, or why there is none. Loads the library at the first call.
pub fn nvrtc_version() -> Result<(u32, u32)> {
    let nvrtc = nvrtc().map_err(|why| missing_nvrtc(&why))?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library writes two numbers.
    match unsafe { (nvrtc.version)(&mut major, &mut minor) } {
        0 => Ok((major as u32, minor as u32)),
        code => Err(nvrtc_error(nvrtc, code, "asking for NVRTC's version", "")),
    }
}

/// The architectures that NVRTC compiles for: 90 for `sm_90`.
fn architectures(nvrtc: &Nvrtc) -> Vec<u32> {
    let mut count: c_int = 0;
    // SAFETY: the library writes the number, then so many numbers into a list of that size.
    unsafe {
        if (nvrtc.arch_count)(&mut count) != 0 || count <= 0 {
            return Vec::new();
        }
        let mut list = vec![0 as c_int; count as usize];
        if (nvrtc.archs)(list.as_mut_ptr()) != 0 {
            return Vec::new();
        }
        list.into_iter().map(|a| a.max(0) as u32).collect()
    }
}

/// What to compile for: the architecture itself where the compiler knows it, else PTX for the newest older one.
fn goal(wanted: &str, known: &[u32]) -> Result<String> {
    let number = wanted.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u32 =
        number.parse().map_err(|_| Error::argument(format!("{wanted:?} is no architecture such as sm_90")))?;
    if known.is_empty() || known.contains(&number) {
        return Ok(wanted.into());
    }
    match known.iter().filter(|k| **k < number).max() {
        Some(older) => Ok(format!("compute_{older}")),
        None => Err(Error::compile(format!("this NVRTC no longer compiles for {wanted}, the GPU's architecture"))
            .suggest("install an older NVRTC, such as the package nvidia-cuda-nvrtc-cu12")),
    }
}

/// A program of the library's, destroyed with this.
struct Source<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl Source<'_> {
    fn log(&self) -> String {
        let mut size = 0usize;
        // SAFETY: the library writes a size, then so many bytes.
        let bytes = unsafe {
            if (self.nvrtc.log_size)(self.program, &mut size) != 0 || size <= 1 {
                return String::new();
            }
            let mut bytes = vec![0u8; size];
            if (self.nvrtc.log)(self.program, bytes.as_mut_ptr().cast::<c_char>()) != 0 {
                return String::new();
            }
            bytes
        };
        String::from_utf8_lossy(&bytes).trim_end_matches(['\0', '\n']).to_string()
    }

    fn binary(&self, is_native: bool) -> Result<Vec<u8>> {
        let (measure, read) =
            if is_native { (self.nvrtc.cubin_size, self.nvrtc.cubin) } else { (self.nvrtc.ptx_size, self.nvrtc.ptx) };
        let mut size = 0usize;
        // SAFETY: the library writes a size, then so many bytes.
        unsafe {
            self.check(measure(self.program, &mut size), "reading the compiled kernel")?;
            let mut bytes = vec![0u8; size];
            self.check(read(self.program, bytes.as_mut_ptr().cast::<c_char>()), "reading the compiled kernel")?;
            Ok(bytes)
        }
    }

    fn check(&self, status: i32, doing: &str) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(nvrtc_error(self.nvrtc, status, doing, &self.log())) }
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is ours and not used after this.
        unsafe { (self.nvrtc.destroy)(&mut self.program) };
    }
}

/// Compiles CUDA C++ for an architecture such as `sm_90`. The error of a text that does not compile carries the
/// compiler's log. May be called from several threads at once.
pub fn compile(text: &str, architecture: &str, options: &CompileOptions) -> Result<Binary> {
    let nvrtc = nvrtc().map_err(|why| missing_nvrtc(&why))?;
    let goal = goal(architecture, &architectures(nvrtc))?;
    let is_native = goal.starts_with("sm_");
    let mut list = vec![
        format!("--gpu-architecture={goal}"),
        "-default-device".into(),
        "--std=c++17".into(),
        "--ftz=false".into(),
        "--prec-div=true".into(),
        "--prec-sqrt=true".into(),
        "--fmad=true".into(),
    ];
    if options.line_info {
        list.push("-lineinfo".into());
    }
    if let Some(most) = options.max_registers {
        list.push(format!("--maxrregcount={most}"));
    }
    if options.hasty && nvrtc_version()?.0 >= 13 {
        list.push("--Ofast-compile=mid".into());
    }
    let zero = |_: std::ffi::NulError| Error::compile("a kernel's text contains a zero byte");
    let list: Vec<CString> = list.into_iter().map(|o| CString::new(o).map_err(zero)).collect::<Result<_>>()?;
    let pointers: Vec<*const c_char> = list.iter().map(|o| o.as_ptr()).collect();
    let text = CString::new(text).map_err(zero)?;
    let mut program: Program = std::ptr::null_mut();
    // SAFETY: both texts end with a zero and outlive the call; there are no headers.
    let status = unsafe {
        (nvrtc.create)(&mut program, text.as_ptr(), c"kernel.cu".as_ptr(), 0, std::ptr::null(), std::ptr::null())
    };
    if status != 0 {
        return Err(nvrtc_error(nvrtc, status, "preparing a kernel's text", ""));
    }
    let source = Source { nvrtc, program };
    // SAFETY: the options end with zeros and outlive the call.
    let status = unsafe { (nvrtc.compile)(source.program, pointers.len() as c_int, pointers.as_ptr()) };
    source.check(status, &format!("compiling a kernel for {architecture}"))?;
    Ok(Binary { bytes: source.binary(is_native)?, is_native, log: source.log() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_newer_gpu_gets_ptx_and_a_dropped_older_one_a_reason() {
        let known = [75, 80, 86, 89, 90, 100, 120];
        assert_eq!(goal("sm_90", &known).unwrap(), "sm_90");
        assert_eq!(goal("sm_90a", &known).unwrap(), "sm_90a");
        assert_eq!(goal("sm_130", &known).unwrap(), "compute_120");
        assert_eq!(goal("sm_88", &known).unwrap(), "compute_86");
        assert!(goal("sm_70", &known).unwrap_err().suggestion().unwrap().contains("older NVRTC"));
        assert!(goal("avx2", &known).is_err());
        assert_eq!(goal("sm_70", &[]).unwrap(), "sm_70");
    }
}
