//! Reading and writing `.safetensors` files: a header in JSON, then the bytes of all tensors without gaps.
//!
//! The header is parsed by `serde_json`; names must be unique, ranges must lie one behind the other and cover the file, and
//! shapes must fit their ranges. Types that Millstream does not have (those of 8 bits and less) are errors of kind `DType`.
//!
//! The crate `safetensors` is not used: of a name that is there twice it takes one silently, a type that it does not know is a fault of the file to it,
//! and it wants all bytes in memory. What is left to it is some 30 lines over `serde_json`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;

use millstream_core::{DType, Error, Layout, Result};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::input;
use super::mapped::Mapped;
use crate::Tensor;
use crate::files::npy::{in_file, replace};
use crate::graph::attempt;

/// The longest header that is read: the format's own limit.
const LONGEST: u64 = 100_000_000;

const TYPES: [(&str, DType); 14] = [
    ("BOOL", DType::Bool),
    ("I8", DType::I8),
    ("I16", DType::I16),
    ("I32", DType::I32),
    ("I64", DType::I64),
    ("U8", DType::U8),
    ("U16", DType::U16),
    ("U32", DType::U32),
    ("U64", DType::U64),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F32", DType::F32),
    ("F64", DType::F64),
    ("C64", DType::C64),
];

/// What the header says of one tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// The header, in the order of the file.
struct Head(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(input: D) -> std::result::Result<Head, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Head;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Head, A::Error> {
                let mut list = Vec::new();
                let mut names = std::collections::BTreeSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format!("the name {name:?} is there twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<BTreeMap<String, String>>()?;
                    } else {
                        list.push((name, map.next_value()?));
                    }
                }
                Ok(Head(list))
            }
        }
        input.deserialize_map(Entries)
    }
}

/// A tensor in a file: its name, what it is, and where its bytes begin.
pub(crate) struct Found {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub start: usize,
    pub bytes: usize,
}

/// A file and what its header says of its tensors, in the order of the file.
pub(crate) fn list(path: &Path) -> Result<(File, Vec<Found>)> {
    let named = |e| in_file(&path.display().to_string(), e);
    let (mut file, size) = input::open(path)?;
    let length = header_len(&input::exactly(&mut file, path, size.min(8))?, size).map_err(named)?;
    let found = parse(&input::exactly(&mut file, path, length)?, size).map_err(named)?;
    Ok((file, found))
}

/// The length of the header, from the first 8 bytes of a file of this size.
fn header_len(start: &[u8], size: u64) -> Result<u64> {
    let length = start.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
    let length = length.ok_or_else(|| Error::format("the file ends within the length of its header"))?;
    if length > LONGEST {
        return Err(Error::format(format!("the header claims {length} bytes; at most {LONGEST} are read"))
            .suggest("this is probably no safetensors file"));
    }
    if length > size.saturating_sub(8) {
        return Err(Error::format(format!("the header claims {length} bytes, more than there are")));
    }
    Ok(length)
}

/// Reads the header's text and checks all that it says against the size of the file.
fn parse(text: &[u8], size: u64) -> Result<Vec<Found>> {
    let Head(mut entries) =
        serde_json::from_slice(text).map_err(|e| Error::format(format!("the header is no proper JSON: {e}")))?;
    entries.sort_by_key(|(_, e)| e.data_offsets);
    let end = 8 + text.len();
    let room = size.saturating_sub(end as u64);
    let mut at = 0;
    let mut found = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        let bad = |what: String| Error::format(format!("the tensor {name:?} {what}"));
        let dtype = TYPES.iter().find(|(text, _)| *text == entry.dtype).map(|(_, d)| *d).ok_or_else(|| {
            Error::dtype(format!("the tensor {name:?} holds {:?}, which Millstream does not have", entry.dtype))
        })?;
        let [from, to] = entry.data_offsets;
        if from != at || to < from {
            return Err(bad(format!("lies at {from}..{to}, and should begin at {at}")));
        }
        let layout =
            Layout::contiguous(&entry.shape).map_err(|e| bad(format!("has no proper shape: {}", e.fault())))?;
        let needs = layout.len().checked_mul(dtype.size()).ok_or_else(|| bad("is too large".into()))?;
        if needs != to - from {
            return Err(bad(format!(
                "of shape {:?} and dtype {dtype} needs {needs} bytes, not {}",
                entry.shape,
                to - from
            )));
        }
        if to as u64 > room {
            return Err(bad("goes beyond the end of the file".into()));
        }
        at = to;
        let start = end.checked_add(from).ok_or_else(|| bad("lies beyond the file".into()))?;
        found.push(Found { name, dtype, shape: entry.shape, start, bytes: needs });
    }
    if at as u64 != room {
        return Err(Error::format(format!("the tensors end after {at} bytes, and the file has {room}")));
    }
    Ok(found)
}

/// The tensors of a file whose bytes are all there, mapped or in memory.
fn parse_whole(bytes: &[u8]) -> Result<Vec<Found>> {
    let size = bytes.len() as u64;
    let end = 8 + header_len(bytes, size)? as usize;
    let found = parse(bytes.get(8..end).unwrap_or_default(), size)?;
    found.iter().try_for_each(|f| f.check(bytes.get(f.range()).unwrap_or_default()))?;
    Ok(found)
}

impl Found {
    /// Where its bytes lie in the file.
    fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.bytes
    }

    /// An error if these are no bytes of its dtype.
    fn check(&self, data: &[u8]) -> Result<()> {
        if self.dtype == DType::Bool && data.iter().any(|&b| b > 1) {
            let name = &self.name;
            return Err(Error::format(format!("the tensor {name:?} holds a bool that is neither 0 nor 1")));
        }
        Ok(())
    }

    /// A tensor of its own from these bytes.
    fn owned(self, mut data: Vec<u8>) -> Result<(String, Tensor)> {
        self.check(&data)?;
        native(self.dtype, &mut data);
        let tensor = Tensor::from_bytes(&self.shape, self.dtype, &data);
        tensor.check().map(|()| (self.name, tensor))
    }
}

/// Bytes in this machine's order.
pub(crate) fn native(dtype: DType, data: &mut [u8]) {
    if cfg!(target_endian = "big") {
        data.chunks_exact_mut(dtype.real().size()).for_each(<[u8]>::reverse);
    }
}

/// # Files: safetensors
///
/// Names must be unique, ranges must lie one behind the other and cover the file, and shapes must fit their ranges. Types that Millstream
/// does not have (those of 8 bits and less) are errors of kind `DType`.
impl Tensor {
    /// All tensors of a `.safetensors` file by name, in the order of their data. The header is checked before any of
    /// them is read.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let path = std::env::temp_dir().join(format!("millstream-doc-{}.safetensors", std::process::id()));
    /// let x = Tensor::from_slice(&[1.0f32, 2.0]);
    /// Tensor::save_safetensors(&path, &[("x", &x)])?;
    /// let read = Tensor::load_safetensors(&path)?;
    /// assert_eq!((read[0].0.as_str(), read[0].1.to_vec::<f32>()?), ("x", vec![1.0, 2.0]));
    /// # std::fs::remove_file(&path).ok();
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
        attempt("load_safetensors", || {
            let path = path.as_ref();
            let named = |e| in_file(&path.display().to_string(), e);
            let (mut file, found) = list(path)?;
            // In the order of the file and without gaps: each is the next to be read.
            let read = |f: Found| {
                let data = input::exactly(&mut file, path, f.bytes as u64)?;
                f.owned(data).map_err(named)
            };
            found.into_iter().map(read).collect()
        })
    }

    /// All tensors of a `.safetensors` file that is mapped into memory, by name: those that are aligned lie in the file, without
    /// a copy. [`Tensor::load_safetensors`] reads the file instead, and asks for no promise.
    ///
    /// # Safety
    /// Nobody may change or cut the file, in this program or another, as long as one of the tensors or a view of it lives. Where
    /// somebody does, values change while they are computed with, and a read beyond the new end kills the program (`SIGBUS`).
    #[track_caller]
    pub unsafe fn map_safetensors(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
        attempt("map_safetensors", || {
            let path = path.as_ref();
            // SAFETY: the caller's promise is passed on.
            let file = unsafe { Mapped::open(path) }?;
            let found = parse_whole(file.bytes()).map_err(|e| in_file(&path.display().to_string(), e))?;
            let tensor = |f: Found| {
                if cfg!(target_endian = "big") {
                    return copied(f, file.bytes());
                }
                let tensor = file.tensor(f.start, f.dtype, &f.shape)?;
                Ok((f.name, tensor))
            };
            found.into_iter().map(tensor).collect()
        })
    }

    /// All tensors in the bytes of a `.safetensors` file by name, copied.
    #[track_caller]
    pub fn from_safetensors_bytes(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
        attempt("from_safetensors_bytes", || parse_whole(bytes)?.into_iter().map(|f| copied(f, bytes)).collect())
    }

    /// Writes tensors under their names to a `.safetensors` file. Computes them if need be. The file appears whole or not at
    /// all. The format has no c128.
    #[track_caller]
    pub fn save_safetensors(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
        attempt("save_safetensors", || {
            let path = path.as_ref();
            // The largest elements first, so that all of them are aligned; then by name, so that equal contents are equal files.
            let mut sorted: Vec<&(&str, &Tensor)> = tensors.iter().collect();
            sorted.sort_by_key(|(name, t)| (std::cmp::Reverse(t.dtype().size()), *name));
            let mut head = serde_json::Map::new();
            let mut parts: Vec<Vec<u8>> = Vec::new();
            let mut at = 0;
            for (name, tensor) in sorted {
                tensor.check()?;
                let dtype =
                    TYPES.iter().find(|(_, d)| *d == tensor.dtype()).map(|(text, _)| *text).ok_or_else(|| {
                        Error::dtype(format!("the safetensors format has no {}", tensor.dtype()))
                            .in_op("save_safetensors")
                    })?;
                let mut data = tensor.to_bytes()?;
                native(tensor.dtype(), &mut data);
                let entry = serde_json::json!({
                    "dtype": dtype, "shape": tensor.sizes(), "data_offsets": [at, at + data.len()],
                });
                if *name == "__metadata__" || head.insert((*name).to_string(), entry).is_some() {
                    let why = format!("the name {name:?} is taken twice, or has a meaning of its own");
                    return Err(Error::argument(why).in_op("save_safetensors"));
                }
                at += data.len();
                parts.push(data);
            }
            let mut text = serde_json::Value::Object(head).to_string().into_bytes();
            text.resize(text.len().next_multiple_of(8), b' ');
            let length = (text.len() as u64).to_le_bytes();
            let all: Vec<&[u8]> = [&length[..], &text].into_iter().chain(parts.iter().map(Vec::as_slice)).collect();
            replace(path, &all).map_err(|e| Error::io(path.display().to_string(), e))
        })
    }
}

/// A tensor with a copy of its bytes in the file.
fn copied(found: Found, bytes: &[u8]) -> Result<(String, Tensor)> {
    let data = bytes.get(found.range()).unwrap_or_default().to_vec();
    found.owned(data)
}
