//! Reading and writing `.safetensors` files: a header in JSON, then the bytes of all tensors without gaps.
//!
//! The header is parsed by `serde_json`; names must be unique, ranges must lie one behind the other and cover the file, and
//! shapes must fit their ranges. Types that Millstream does not have (those of 8 bits and less) are errors of kind `DType`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use millstream_core::{DType, Error, Layout, Result};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::mapped::Mapped;
use crate::Tensor;
use crate::files::npy::{in_file, replace};

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
struct Found {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    start: usize,
}

/// Reads the header and checks all that it says against the file.
fn parse(bytes: &[u8]) -> Result<Vec<Found>> {
    let length = bytes.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
    let length = length.ok_or_else(|| Error::format("the file ends within the length of its header"))?;
    if length > LONGEST {
        return Err(Error::format(format!("the header claims {length} bytes; at most {LONGEST} are read"))
            .suggest("this is probably no safetensors file"));
    }
    let end = 8 + length as usize;
    let text = bytes
        .get(8..end)
        .ok_or_else(|| Error::format(format!("the header claims {length} bytes, more than there are")))?;
    let Head(mut entries) =
        serde_json::from_slice(text).map_err(|e| Error::format(format!("the header is no proper JSON: {e}")))?;
    entries.sort_by_key(|(_, e)| e.data_offsets);
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
        at = to;
        let start = end.checked_add(from).ok_or_else(|| bad("lies beyond the file".into()))?;
        let data = start.checked_add(needs).and_then(|stop| bytes.get(start..stop));
        let data = data.ok_or_else(|| bad("goes beyond the end of the file".into()))?;
        if dtype == DType::Bool && data.iter().any(|&b| b > 1) {
            return Err(bad("holds a bool that is neither 0 nor 1".into()));
        }
        found.push(Found { name, dtype, shape: entry.shape, start });
    }
    if end.checked_add(at) != Some(bytes.len()) {
        return Err(Error::format(format!("the tensors end after {at} bytes, and the file has {}", bytes.len() - end)));
    }
    Ok(found)
}

/// Bytes in this machine's order.
fn native(dtype: DType, data: &mut [u8]) {
    if cfg!(target_endian = "big") {
        data.chunks_exact_mut(dtype.real().size()).for_each(<[u8]>::reverse);
    }
}

impl Tensor {
    /// All tensors of a `.safetensors` file by name, in the order of their data. The file is mapped into memory and tensors that are
    /// aligned lie in it, without a copy: it must not change as long as one of them lives.
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
    pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
        let path = path.as_ref();
        let file = Mapped::open(path)?;
        let found = parse(file.bytes()).map_err(|e| in_file(&path.display().to_string(), e))?;
        let tensor = |f: Found| {
            let made = if cfg!(target_endian = "big") {
                owned(&f, file.bytes())
            } else {
                file.tensor(f.start, f.dtype, &f.shape)
            };
            made.map(|tensor| (f.name, tensor))
        };
        found.into_iter().map(tensor).collect()
    }

    /// All tensors in the bytes of a `.safetensors` file by name, copied.
    pub fn from_safetensors_bytes(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
        parse(bytes)?.into_iter().map(|f| owned(&f, bytes).map(|tensor| (f.name, tensor))).collect()
    }

    /// Writes tensors under their names to a `.safetensors` file. Computes them if need be. The file appears whole or not at
    /// all. The format has no c128.
    pub fn save_safetensors(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
        let path = path.as_ref();
        // The largest elements first, so that all of them are aligned; then by name, so that equal contents are equal files.
        let mut sorted: Vec<&(&str, &Tensor)> = tensors.iter().collect();
        sorted.sort_by_key(|(name, t)| (std::cmp::Reverse(t.dtype().size()), *name));
        let mut head = serde_json::Map::new();
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut at = 0;
        for (name, tensor) in sorted {
            tensor.check()?;
            let dtype = TYPES.iter().find(|(_, d)| *d == tensor.dtype()).map(|(text, _)| *text).ok_or_else(|| {
                Error::dtype(format!("the safetensors format has no {}", tensor.dtype())).in_op("save_safetensors")
            })?;
            let mut data = tensor.to_bytes()?;
            native(tensor.dtype(), &mut data);
            let entry = serde_json::json!({
                "dtype": dtype, "shape": tensor.shape(), "data_offsets": [at, at + data.len()],
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
    }
}

/// A copy of a tensor's bytes.
fn owned(found: &Found, bytes: &[u8]) -> Result<Tensor> {
    let layout = Layout::contiguous(&found.shape)?;
    let mut data = bytes[found.start..found.start + layout.len() * found.dtype.size()].to_vec();
    native(found.dtype, &mut data);
    let tensor = Tensor::from_bytes(&found.shape, found.dtype, &data);
    tensor.check().map(|()| tensor)
}
