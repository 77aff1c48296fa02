//! Reading and writing `.npy` files, the array format of NumPy.
//!
//! - Versions 1.0, 2.0 and 3.0, both byte orders, both element orders. A column-major file becomes a transposed view.
//! - A file is never believed: everything its header says is checked before it is used, memory is only taken for bytes that
//!   are really there, and what does not fit is an error of kind `Format` that says what and where.
//! - Writing goes to a file of its own beside the target that replaces the target when it is complete, so that neither a
//!   crash nor a full disk leaves half a file.

mod header;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_core::{Buffer, DType, Device, Error, Fault, Layout, Result};

use crate::Tensor;
use crate::files::input;
use crate::files::mapped::Mapped;
use crate::graph::attempt;
use header::{Header, Order};

/// # Files: npy
///
/// Versions 1.0, 2.0 and 3.0 of NumPy's format, both byte orders, both element orders; a column-major file becomes a transposed view. A file is
/// never believed: everything its header says is checked before it is used, memory is only taken for bytes that are really there, and
/// what does not fit is an error of kind `Format` that says what and where. Writing goes to a file of its own beside the target that
/// replaces the target when it is complete, so that neither a crash nor a full disk leaves half a file.
///
/// `load_...` reads: what happens to the file afterwards does not matter. `map_...` lets tensors lie in the file, and is `unsafe`: the
/// caller promises that nobody changes or cuts the file while they live. So for all formats.
impl Tensor {
    /// The tensor in a `.npy` file. Unlike operations, it gives the error at once instead of a tensor that carries it. A pipe
    /// is read as its data arrives, and waited for.
    ///
    /// ```no_run
    /// use millstream::Tensor;
    /// let x = Tensor::load_npy("weights.npy")?;
    /// println!("{} {:?}", x.dtype(), x.shape());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor> {
        attempt("load_npy", || {
            let path = path.as_ref();
            let name = path.display().to_string();
            let mut file = File::open(path).map_err(|e| Error::io(&name, e))?;
            let meta = file.metadata().map_err(|e| Error::io(&name, e))?;
            // A pipe has no size: there, only what arrives is counted.
            let size = meta.is_file().then_some(meta.len());
            read(&mut file, size).map_err(|failure| match failure {
                Failure::Io(e) => Error::io(&name, e),
                Failure::Format(e) => in_file(&name, e),
            })
        })
    }

    /// The tensor in the bytes of a `.npy` file.
    #[track_caller]
    pub fn from_npy_bytes(bytes: &[u8]) -> Result<Tensor> {
        attempt("from_npy_bytes", || {
            let mut rest = bytes;
            read(&mut rest, Some(bytes.len() as u64)).map_err(|failure| match failure {
                Failure::Io(e) => Error::io("npy bytes", e),
                Failure::Format(e) => e,
            })
        })
    }

    /// Writes the tensor to a `.npy` file, row-major, in this machine's byte order. Computes it if need be.
    ///
    /// The file appears whole or not at all; a file that was there stays until then. `bf16` does not exist in the format: cast it.
    #[track_caller]
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        attempt("save_npy", || {
            let path = path.as_ref();
            let (head, data) = self.npy_parts("save_npy")?;
            replace(path, &[&head, &data]).map_err(|e| Error::io(path.display().to_string(), e))
        })
    }
}

impl Tensor {
    /// The tensor in a `.npy` file that is mapped into memory: without a copy where the data lies aligned, row- or column-major,
    /// in this machine's byte order. [`Tensor::load_npy`] reads the file instead, and asks for no promise.
    ///
    /// # Safety
    /// Nobody may change or cut the file, in this program or another, as long as the tensor or a view of it lives. Where
    /// somebody does, values change while they are computed with, and a read beyond the new end kills the program (`SIGBUS`).
    #[track_caller]
    pub unsafe fn map_npy(path: impl AsRef<Path>) -> Result<Tensor> {
        attempt("map_npy", || {
            let path = path.as_ref();
            // SAFETY: the caller's promise is passed on.
            let file = unsafe { Mapped::open(path) }?;
            map(&file).map_err(|failure| match failure {
                Failure::Io(e) => Error::io(path.display().to_string(), e),
                Failure::Format(e) => in_file(&path.display().to_string(), e),
            })
        })
    }

    /// The head and the data of a `.npy` file with this tensor, computed if need be.
    pub(crate) fn npy_parts(&self, op: &'static str) -> Result<(Vec<u8>, Vec<u8>)> {
        self.check()?;
        if self.dtype() == DType::BF16 {
            return Err(Error::dtype("the npy format has no bf16")
                .in_op(op)
                .suggest("cast it to f32, which holds every bf16 exactly"));
        }
        let header =
            Header { dtype: self.dtype(), order: Order::native(), column_major: false, shape: self.sizes().to_vec() };
        Ok((header.to_bytes(), self.to_bytes()?))
    }
}

/// The tensor in a `.npy` file, read into memory that this device copies by itself, where the file has the data as it is needed.
pub(crate) fn load_for(path: &Path, device: &Device) -> Result<Tensor> {
    let (mut file, size) = input::open(path)?;
    let name = path.display().to_string();
    let named = |failure| match failure {
        Failure::Io(e) => Error::io(&name, e),
        Failure::Format(e) => in_file(&name, e),
    };
    let header = (|| {
        let prelude = take(&mut file, header::PRELUDE as u64, 0)?;
        let mut start = header::begin(&prelude)?;
        start.text.extend(take(&mut file, (start.total - prelude.len()) as u64, 0)?);
        Ok((start.parse()?, start.total))
    })();
    let (header, start) = header.map_err(named)?;
    let bytes = header.elements()?.checked_mul(header.dtype.size()).ok_or_else(|| header.too_large())?;
    let whole = (start as u64).checked_add(bytes as u64) == Some(size);
    if !whole || header.order != Order::native() || header.dtype == DType::Bool {
        // What has to be changed or looked at goes the other way; so does what is wrong, for its error.
        let mut file = File::open(path).map_err(|e| Error::io(&name, e))?;
        return read(&mut file, Some(size)).map_err(named);
    }
    let buffer = Buffer::staged(device, bytes, |room| file.read_exact(room).map_err(|e| Error::io(&name, e)))?;
    let make = |shape: &[usize]| Ok(Tensor::from_buffer(buffer, header.dtype, Layout::contiguous(shape)?));
    header.arranged(make).map_err(|e| in_file(&name, e))
}

/// The tensor in a mapped file.
fn map(file: &Mapped) -> std::result::Result<Tensor, Failure> {
    let bytes = file.bytes();
    let prelude = &bytes[..bytes.len().min(header::PRELUDE)];
    let mut start = header::begin(prelude)?;
    start.text = bytes.get(..start.total).unwrap_or(bytes).to_vec();
    let header = start.parse()?;
    let needs = header.elements()?.checked_mul(header.dtype.size()).ok_or_else(|| header.too_large())?;
    let whole = start.total.checked_add(needs) == Some(bytes.len());
    if !whole || header.order != Order::native() || header.dtype == DType::Bool {
        // What has to be changed or looked at is read; so is what is wrong, for its error.
        return read(&mut &bytes[..], Some(bytes.len() as u64));
    }
    Ok(header.arranged(|shape| file.tensor(start.total, header.dtype, shape))?)
}

/// Reads an array whose length is only known when it has arrived.
pub(crate) fn read_unsized(input: &mut impl Read) -> Result<Tensor> {
    read(input, None).map_err(|failure| match failure {
        Failure::Io(e) => Error::format(format!("the packed data is damaged: {e}")),
        Failure::Format(e) => e,
    })
}

/// What can stop a read: the system, or the content.
enum Failure {
    Io(io::Error),
    Format(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Format(error)
    }
}

/// Names the file in a format error.
pub(crate) fn in_file(name: &str, error: Error) -> Error {
    let named = Error::new(error.kind(), Fault::Message(format!("{name}: {}", error.fault())));
    match error.suggestion() {
        Some(text) => named.suggest(text),
        None => named,
    }
}

/// Up to `limit` bytes; fewer where the input ends. `known` bytes of them are known to be there.
fn take(input: &mut impl Read, limit: u64, known: u64) -> std::result::Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let room = usize::try_from(known).ok().and_then(|n| bytes.try_reserve_exact(n).ok());
    room.ok_or_else(|| Failure::Io(io::ErrorKind::OutOfMemory.into()))?;
    input.take(limit).read_to_end(&mut bytes).map_err(Failure::Io)?;
    Ok(bytes)
}

/// Reads a whole file whose size is `size`, where that is known.
fn read(input: &mut impl Read, size: Option<u64>) -> std::result::Result<Tensor, Failure> {
    let prelude = take(input, header::PRELUDE as u64, 0)?;
    let mut start = header::begin(&prelude)?;
    let more = take(input, (start.total - prelude.len()) as u64, 0)?;
    start.text.extend_from_slice(&more);
    let header = start.parse()?;
    let elements = header.elements()?;
    let expected = (elements as u64).checked_mul(header.dtype.size() as u64).ok_or_else(|| header.too_large())?;
    let wrong = |there: String| {
        Failure::Format(Error::format(format!(
            "shape {:?} of {} needs {expected} bytes of data after byte {}, but {there}",
            header.shape, header.dtype, start.total
        )))
    };
    if let Some(size) = size {
        let rest = size.saturating_sub(start.total as u64);
        if rest != expected {
            return Err(wrong(format!("the file has {rest} there")));
        }
    }
    // One byte more than needed shows data that goes on. Memory grows with what arrives, not with what is claimed.
    let known = if size.is_some() { expected.saturating_add(1) } else { 0 };
    let mut data = take(input, expected.saturating_add(1), known)?;
    if data.len() as u64 != expected {
        let more = data.len() as u64 > expected;
        return Err(wrong(if more { "there are more".into() } else { format!("there are {}", data.len()) }));
    }
    if header.order != Order::native() {
        swap(&mut data, header.dtype.real().size());
    }
    if header.dtype == DType::Bool
        && let Some(at) = data.iter().position(|&b| b > 1)
    {
        let byte = data.get(at).copied().unwrap_or_default();
        let position = start.total + at;
        return Err(Error::format(format!("the bool at byte {position} is {byte}, neither 0 nor 1")).into());
    }
    Ok(header.tensor(&data)?)
}

/// Reverses the bytes of each number.
fn swap(data: &mut [u8], width: usize) {
    for number in data.chunks_exact_mut(width.max(1)) {
        number.reverse();
    }
}

/// Puts a file instead of `path` that holds these parts.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    // Through a link, the file that it names is replaced. What is no file (a device, a pipe) is written to as it is.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let before = fs::metadata(&target).ok();
    if before.as_ref().is_some_and(|m| !m.is_file()) {
        let mut file = OpenOptions::new().write(true).open(&target)?;
        return parts.iter().try_for_each(|p| file.write_all(p));
    }
    let (mut file, temporary) = beside(&target)?;
    let written = (|| {
        parts.iter().try_for_each(|p| file.write_all(p))?;
        if let Some(meta) = &before {
            file.set_permissions(meta.permissions())?;
        }
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, &target)
    })();
    if written.is_err() {
        // Nothing more can be done about a file that cannot be removed; the first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A new file in the folder of `target`.
fn beside(target: &Path) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    loop {
        let mut own = std::ffi::OsString::from(".");
        own.push(name);
        own.push(format!(".{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let path = target.with_file_name(own);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            // Left by a process of the same number that was killed.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}
