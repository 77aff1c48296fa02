//! Arrays that describe their memory in a dictionary: `__array_interface__` and `__cuda_array_interface__`.

use millstream::{Device, RawTensor, Sharing, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Found;
use super::dlpack::{buffer_error, row_major};
use crate::device;
use crate::dtype;
use crate::error::{R, type_error};

/// The tensor over host memory that an object describes.
pub fn import(obj: &Bound<'_, PyAny>) -> R<Option<Found>> {
    let Ok(described) = obj.getattr("__array_interface__") else { return Ok(None) };
    shared(obj, &described, Tensor::runtime()?.host()?)
}

/// The tensor over memory of an NVIDIA GPU that an object describes.
pub fn import_cuda(obj: &Bound<'_, PyAny>) -> R<Option<Found>> {
    let Ok(described) = obj.getattr("__cuda_array_interface__") else { return Ok(None) };
    // The device waits for its legacy default stream; what is queued on another one is the producer's to wait for.
    let stream = described.cast::<PyDict>().map_err(PyErr::from)?.get_item("stream")?.filter(|s| !s.is_none());
    if let Some(stream) = stream
        && stream.extract::<u64>()? != 1
    {
        return Err(buffer_error("the array is written on a stream of its own\n  try: synchronize it, or DLPack"));
    }
    // Which of several GPUs it is, the dictionary does not say; the array may.
    let number = obj.getattr("device").and_then(|d| d.getattr("id")).and_then(|id| id.extract::<usize>());
    let device = device::open(obj.py(), &format!("cuda:{}", number.unwrap_or(0)))?;
    shared(obj, &described, device)
}

fn shared(obj: &Bound<'_, PyAny>, described: &Bound<'_, PyAny>, device: Device) -> R<Option<Found>> {
    let described = described.cast::<PyDict>().map_err(PyErr::from)?;
    let get = |key: &str| Ok::<_, PyErr>(described.get_item(key)?.filter(|v| !v.is_none()));
    let missing = |key: &str| type_error(format!("the description of {} has no {key}", type_name(obj)));
    let letters: String = get("typestr")?.ok_or_else(|| missing("typestr"))?.extract()?;
    let Some(dtype) = dtype::by_name(&letters) else { return Ok(None) };
    let shape: Vec<usize> = get("shape")?.ok_or_else(|| missing("shape"))?.extract()?;
    let Some(data) = get("data")? else { return Ok(None) };
    let Ok((address, read_only)) = data.extract::<(u64, bool)>() else { return Ok(None) };
    if get("mask")?.is_some() {
        return Err(type_error("masked arrays have no counterpart\n  try: fill the mask first"));
    }
    let size = dtype.size() as isize;
    let strides = match get("strides")? {
        None => row_major(&shape),
        Some(strides) => {
            let strides: Vec<isize> = strides.extract()?;
            if strides.iter().any(|s| s % size != 0) {
                return Ok(None);
            }
            strides.iter().map(|s| s / size).collect()
        }
    };
    // Others may write behind a view that is read-only: only NumPy's own say more, and those come by the buffer protocol.
    let sharing = if read_only && super::is_frozen(obj)? { Sharing::ReadOnly } else { Sharing::Writable };
    let raw = RawTensor { address, shape, strides, dtype, device, sharing };
    // SAFETY: the description is valid as long as the object lives, which the tensor keeps.
    Ok(Some(Found::Shared(unsafe { Tensor::import(raw, Box::new(obj.clone().unbind())) }?)))
}

fn type_name(obj: &Bound<'_, PyAny>) -> String {
    obj.get_type().name().map_or_else(|_| "the object".into(), |n| n.to_string())
}
