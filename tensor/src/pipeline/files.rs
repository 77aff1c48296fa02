//! Items read from files as they are needed, one at a time.
//!
//! Each of these is an iterator of `Result<Tensor>` for [`Pipeline::run`](super::Pipeline::run). A file that cannot be read is the error
//! of its item, and the next item follows. They read into ordinary memory, or, with `staged_for`, into memory which a device copies by
//! itself (pinned), so that nothing is copied twice on the way.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use millstream_core::{Buffer, DType, Device, Error, Layout, Result};

use crate::Tensor;
use crate::arguments::IntoDevice;
use crate::files::npy;
use crate::files::safetensors::{self, Found};

/// The `.npy` files of a folder, in the order of their names.
///
/// ```
/// use millstream::pipeline::files;
/// use millstream::{Pipeline, Tensor};
/// let folder = std::env::temp_dir().join(format!("millstream-doc-npy-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// for i in 0..3 {
///     Tensor::new([i as f32, 1.0]).save_npy(folder.join(format!("{i}.npy")))?;
/// }
/// let pipeline = Pipeline::new("cpu", |x| x.sum(..));
/// let sums = pipeline.run(files::npy_folder(&folder)?)?.map(|sum| sum?.item::<f32>());
/// assert_eq!(sums.collect::<millstream::Result<Vec<f32>>>()?, [1.0, 2.0, 3.0]);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Errors
/// A folder that cannot be read.
pub fn npy_folder(path: impl AsRef<Path>) -> Result<NpyFolder> {
    let path = path.as_ref();
    let wrong = |e| Error::io(path.display().to_string(), e);
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(wrong)? {
        let file = entry.map_err(wrong)?.path();
        if file.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
            files.push(file);
        }
    }
    files.sort();
    Ok(NpyFolder { files, next: 0, device: crate::default_runtime()?.host()? })
}

/// See [`npy_folder`].
#[derive(Clone, Debug)]
pub struct NpyFolder {
    files: Vec<PathBuf>,
    next: usize,
    device: Device,
}

impl NpyFolder {
    /// The files, in the order of the items.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Reads into memory that this device copies by itself.
    ///
    /// # Errors
    /// A device that there is not.
    pub fn staged_for(self, device: impl IntoDevice) -> Result<NpyFolder> {
        Ok(NpyFolder { device: device.device()?, ..self })
    }
}

impl Iterator for NpyFolder {
    type Item = Result<Tensor>;

    fn next(&mut self) -> Option<Result<Tensor>> {
        let file = self.files.get(self.next)?;
        self.next += 1;
        Some(npy::load_for(file, &self.device))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.files.len() - self.next;
        (left, Some(left))
    }
}

/// The tensors of a `.safetensors` file, in the order of their data. The header is checked before any of them is read.
///
/// # Errors
/// A file that cannot be read, or is not what it claims to be.
pub fn safetensors(path: impl AsRef<Path>) -> Result<Safetensors> {
    let path = path.as_ref();
    let (file, parts) = safetensors::list(path)?;
    Safetensors::new(path, file, parts)
}

/// A tensor of a `.safetensors` file by so many rows (along its first axis) at a time; the last item may have fewer. So a dataset that
/// lies in one tensor, larger than the memory perhaps, becomes a stream of batches.
///
/// ```
/// use millstream::pipeline::files;
/// use millstream::{Pipeline, Tensor};
/// let path = std::env::temp_dir().join(format!("millstream-doc-rows-{}.safetensors", std::process::id()));
/// let images = Tensor::arange(0, 10).cast(millstream::DType::F32).reshape([5, 2]);
/// Tensor::save_safetensors(&path, &[("images", &images)])?;
/// let pipeline = Pipeline::new("cpu", |x| x.sum(1));
/// let sums: Vec<Tensor> = pipeline.run(files::safetensors_rows(&path, "images", 2)?)?.collect::<Result<_, _>>()?;
/// assert_eq!(sums[1].to_vec::<f32>()?, [9.0, 13.0]);
/// assert_eq!(sums[2].to_vec::<f32>()?, [17.0]);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Errors
/// As [`safetensors`], a name that the file does not have, a tensor without axes, and 0 rows.
pub fn safetensors_rows(path: impl AsRef<Path>, name: &str, rows: usize) -> Result<Safetensors> {
    let path = path.as_ref();
    let (file, parts) = safetensors::list(path)?;
    let found = parts.iter().find(|p| p.name == name).ok_or_else(|| {
        let names: Vec<&str> = parts.iter().map(|p| p.name.as_str()).take(20).collect();
        Error::argument(format!("{} has no tensor {name:?}; it has {names:?}", path.display()))
    })?;
    let (Some(&all), true) = (found.shape.first(), rows > 0) else {
        return Err(Error::argument(format!("{name:?} of shape {:?} cannot be cut by {rows} rows", found.shape)));
    };
    let row = found.bytes.checked_div(all).unwrap_or(0);
    let part = |first: usize| {
        let count = rows.min(all - first);
        let shape = std::iter::once(count).chain(found.shape[1..].iter().copied()).collect();
        let (start, bytes) = (found.start + first * row, count * row);
        Found { name: name.to_string(), dtype: found.dtype, shape, start, bytes }
    };
    let cut: Vec<Found> = (0..all).step_by(rows).map(part).collect();
    Safetensors::new(path, file, cut)
}

/// See [`safetensors`] and [`safetensors_rows`].
pub struct Safetensors {
    path: PathBuf,
    file: File,
    parts: Vec<Found>,
    next: usize,
    device: Device,
}

impl Safetensors {
    fn new(path: &Path, file: File, parts: Vec<Found>) -> Result<Safetensors> {
        Ok(Safetensors { path: path.into(), file, parts, next: 0, device: crate::default_runtime()?.host()? })
    }

    /// The names of the tensors, in the order of the items.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|p| p.name.as_str())
    }

    /// Reads into memory that this device copies by itself.
    ///
    /// # Errors
    /// A device that there is not.
    pub fn staged_for(self, device: impl IntoDevice) -> Result<Safetensors> {
        Ok(Safetensors { device: device.device()?, ..self })
    }
}

impl Iterator for Safetensors {
    type Item = Result<Tensor>;

    fn next(&mut self) -> Option<Result<Tensor>> {
        let part = self.parts.get(self.next)?;
        self.next += 1;
        Some(read(&mut self.file, &self.path, part, &self.device))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.parts.len() - self.next;
        (left, Some(left))
    }
}

impl std::fmt::Debug for Safetensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Safetensors({}, {} of {})", self.path.display(), self.next, self.parts.len())
    }
}

/// Reads a part of a file.
fn read(file: &mut File, path: &Path, part: &Found, device: &Device) -> Result<Tensor> {
    let wrong = |e| Error::io(path.display().to_string(), e);
    file.seek(SeekFrom::Start(part.start as u64)).map_err(wrong)?;
    let fill = |room: &mut [u8]| {
        file.read_exact(room).map_err(wrong)?;
        if part.dtype == DType::Bool && room.iter().any(|&b| b > 1) {
            let name = &part.name;
            return Err(Error::format(format!("{}: {name:?} has a bool other than 0 and 1", path.display())));
        }
        safetensors::native(part.dtype, room);
        Ok(())
    };
    let buffer = Buffer::staged(device, part.bytes, fill)?;
    Ok(Tensor::from_buffer(buffer, part.dtype, Layout::contiguous(&part.shape)?))
}
