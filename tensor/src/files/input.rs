//! Files as they are opened for reading: ordinary ones only, and never more bytes than they have.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use millstream_core::{Error, Result};

/// An ordinary file and its size. Anything else (a folder, a pipe, a device) is an error at once.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    let wrong = |e| Error::io(path.display().to_string(), e);
    let refused = || wrong(io::Error::new(io::ErrorKind::InvalidInput, "not an ordinary file"));
    // Asked before opening: the opening of a pipe would wait for a writer.
    if !fs::metadata(path).map_err(wrong)?.is_file() {
        return Err(refused());
    }
    let file = File::open(path).map_err(wrong)?;
    let meta = file.metadata().map_err(wrong)?;
    if meta.is_file() { Ok((file, meta.len())) } else { Err(refused()) }
}

/// The next `bytes` bytes of a file; an error of kind `Format` where it ends before.
pub(crate) fn exactly(file: &mut File, path: &Path, bytes: u64) -> Result<Vec<u8>> {
    let wrong = |e| Error::io(path.display().to_string(), e);
    let mut data = Vec::new();
    let room = usize::try_from(bytes).ok().and_then(|n| data.try_reserve_exact(n).ok());
    room.ok_or_else(|| wrong(io::ErrorKind::OutOfMemory.into()))?;
    file.take(bytes).read_to_end(&mut data).map_err(wrong)?;
    if (data.len() as u64) < bytes {
        return Err(Error::format(format!("{}: the file was cut while it was read", path.display())));
    }
    Ok(data)
}

/// The bytes of a whole file.
pub(crate) fn whole(path: &Path) -> Result<Vec<u8>> {
    let (mut file, size) = open(path)?;
    exactly(&mut file, path, size)
}
