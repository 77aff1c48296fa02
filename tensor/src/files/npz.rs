//! Reading and writing `.npz` files: zip archives of `.npy` files, as NumPy's `savez` and `savez_compressed` write them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Crc, CrcReader};
use millstream_core::{Error, Result};

use super::input;
use super::zip::{Entry, Writer, entries};
use crate::Tensor;
use crate::files::npy::{self, in_file};
use crate::graph::attempt;

/// Whether what is written is made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// As it is.
    #[default]
    Stored,
    /// By deflate.
    Deflated,
}

/// # Files: npz
///
/// Zip archives of `.npy` files, as NumPy's `savez` and `savez_compressed` write them.
impl Tensor {
    /// All tensors of a `.npz` file by name, in the order of the file. Of entries with the same name the last one counts, as in
    /// NumPy. Only an ordinary file is read: a pipe, which would have to be waited for, is an error.
    ///
    /// ```no_run
    /// use millstream::Tensor;
    /// for (name, x) in Tensor::load_npz("weights.npz")? {
    ///     println!("{name}: {} {:?}", x.dtype(), x.shape());
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn load_npz(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
        attempt("load_npz", || {
            let path = path.as_ref();
            let bytes = input::whole(path)?;
            Tensor::from_npz_bytes(&bytes).map_err(|e| in_file(&path.display().to_string(), e))
        })
    }

    /// All tensors in the bytes of a `.npz` file by name; of entries with the same name the last one counts.
    #[track_caller]
    pub fn from_npz_bytes(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
        attempt("from_npz_bytes", || {
            let found = entries(bytes)?;
            let last: HashMap<&str, usize> =
                found.iter().enumerate().map(|(i, entry)| (entry.name.as_str(), i)).collect();
            let mut list: Vec<(String, Tensor)> = Vec::with_capacity(last.len());
            for (i, entry) in found.iter().enumerate() {
                if last.get(entry.name.as_str()) != Some(&i) {
                    continue;
                }
                let Some(name) = entry.name.strip_suffix(".npy") else {
                    return Err(Error::format(format!("the archive's entry {:?} is no npy file", entry.name)));
                };
                let tensor = read(entry, bytes).map_err(|e| {
                    if e.kind() == millstream_core::ErrorKind::Format { in_file(&entry.name, e) } else { e }
                })?;
                list.push((name.to_string(), tensor));
            }
            Ok(list)
        })
    }

    /// Writes tensors under their names to a `.npz` file. Computes them if need be. The file appears whole or not at all.
    ///
    /// ```
    /// use millstream::{Compression, Tensor};
    /// let path = std::env::temp_dir().join(format!("millstream-doc-{}.npz", std::process::id()));
    /// let x = Tensor::from_slice(&[1.0f32, 2.0]);
    /// Tensor::save_npz(&path, &[("x", &x)], Compression::Deflated)?;
    /// let read = Tensor::load_npz(&path)?;
    /// assert_eq!((read[0].0.as_str(), read[0].1.to_vec::<f32>()?), ("x", vec![1.0, 2.0]));
    /// # std::fs::remove_file(&path).ok();
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn save_npz(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)], compression: Compression) -> Result<()> {
        attempt("save_npz", || {
            let path = path.as_ref();
            let mut archive = Writer::default();
            for (i, (name, tensor)) in tensors.iter().enumerate() {
                if tensors[..i].iter().any(|(other, _)| other == name) {
                    return Err(Error::argument(format!("two tensors have the name {name:?}")).in_op("save_npz"));
                }
                let (head, data) = tensor.npy_parts("save_npz")?;
                let packed = match compression {
                    Compression::Stored => None,
                    Compression::Deflated => {
                        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                        let all = encoder.write_all(&head).and_then(|()| encoder.write_all(&data));
                        let packed = all.and_then(|()| encoder.finish());
                        Some(packed.map_err(|e| Error::io(path.display().to_string(), e))?)
                    }
                };
                archive.add(&format!("{name}.npy"), &[&head, &data], packed.as_deref())?;
            }
            npy::replace(path, &[&archive.finish()]).map_err(|e| Error::io(path.display().to_string(), e))
        })
    }
}

/// The array of an entry.
fn read(entry: &Entry, bytes: &[u8]) -> Result<Tensor> {
    let packed = &bytes[entry.range(bytes)?];
    let wrong = || Error::format("the data does not have the checksum that the archive gives");
    if entry.method == 0 {
        let mut crc = Crc::new();
        crc.update(packed);
        return if crc.sum() == entry.crc { Tensor::from_npy_bytes(packed) } else { Err(wrong()) };
    }
    // One byte more than the archive claims shows that there is more.
    let mut plain = CrcReader::new(DeflateDecoder::new(packed).take(entry.size.saturating_add(1)));
    let tensor = npy::read_unsized(&mut plain)?;
    if plain.crc().sum() == entry.crc { Ok(tensor) } else { Err(wrong()) }
}
