//! Exchange: memory of other libraries' arrays as arrays of this one, and the other way around, without copies.
//!
//! The one place that knows how: everything that takes arrays asks here ([`import`], [`over`]). Whichever way memory comes, it becomes a
//! [`RawTensor`](millstream::RawTensor), and the engine sees to the rest: it never writes there, and what reads memory that others
//! may write to is computed before the call returns.

mod abi;
mod buffer;
mod dlpack;
mod interface;
mod methods;
mod table;

use millstream::{DType, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

use crate::array::{Array, Made};
use crate::device::DeviceArg;
use crate::dtype;
use crate::error::{R, type_error, value_error};
use crate::released::released;

/// Operands of at most so many bytes are copied: then what is computed with them can wait.
const SMALL: usize = 1 << 16;

/// A tensor of another library's array.
enum Found {
    /// Over the same memory.
    Shared(Tensor),
    /// With a copy of the elements, which no tensor could show as they lie.
    Copied(Tensor),
}

/// Whether this is an array or a buffer of another library.
pub fn is_foreign(obj: &Bound<'_, PyAny>) -> R<bool> {
    let names = ["__dlpack__", "__array_interface__", "__cuda_array_interface__", "__array__"];
    let has = || names.iter().try_fold(false, |has, name| Ok::<_, PyErr>(has || obj.hasattr(*name)?));
    Ok(!obj.is_instance_of::<PyString>() && (buffer::has(obj) || has()?))
}

/// The tensor of an array of another library, as an operand; `None` if this is none. Small ones are copied.
pub fn import(obj: &Bound<'_, PyAny>) -> R<Option<Tensor>> {
    Ok(match find(obj)? {
        Some(Found::Shared(t)) if t.is_volatile() && t.len() * t.dtype().size() <= SMALL && on_host(&t) => {
            let mut bytes = t.to_bytes()?;
            if t.dtype() == DType::Bool {
                bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
            }
            Some(Tensor::from_bytes(&*t.shape(), t.dtype(), &bytes))
        }
        Some(Found::Shared(t) | Found::Copied(t)) => Some(t),
        None => None,
    })
}

/// The tensor over an array of another library, on the default device; `None` if this is none. With `copy` it is one of its own, without
/// it has to share the memory.
pub fn over(obj: &Bound<'_, PyAny>, copy: Option<bool>) -> R<Option<Tensor>> {
    let tensor = match (find(obj)?, copy) {
        (None, _) => return Ok(None),
        (Some(Found::Copied(_)), Some(false)) => {
            return Err(value_error(
                "an array that lies like this cannot be taken over without a copy\n  try: copy=None",
            ));
        }
        (Some(Found::Copied(t)), _) => t,
        (Some(Found::Shared(t)), Some(true)) => released(obj.py(), || t.copy()),
        (Some(Found::Shared(t)), _) => t,
    };
    let default = Tensor::runtime()?.default_device()?;
    let moves = copy != Some(false) && on_host(&tensor) && !default.is_host();
    Ok(Some(if moves { released(obj.py(), || tensor.to(&default)) } else { tensor }))
}

/// The same value, which others do not change.
pub fn own(tensor: Tensor) -> Tensor {
    if tensor.is_volatile() { tensor.copy() } else { tensor }
}

fn on_host(tensor: &Tensor) -> bool {
    tensor.device().is_ok_and(|d| d.is_host())
}

/// Asks an object for its memory, in all ways that there are.
fn find(obj: &Bound<'_, PyAny>) -> R<Option<Found>> {
    if obj.is_instance_of::<PyString>() {
        return Ok(None);
    }
    let has = |name: &str| obj.hasattr(name);
    let (buffered, packs) = (buffer::has(obj), has("__dlpack__")?);
    // NumPy's arrays say more by their buffers, others by DLPack.
    let numpy = has("flags")? && has("dtype")?;
    if buffered && (numpy || !packs) {
        if let Some(found) = buffer::import(obj)? {
            return Ok(Some(found));
        }
        if numpy {
            return converted(obj).map(Some);
        }
    }
    if packs {
        return Ok(Some(Found::Shared(dlpack::import(obj, None, None)?)));
    }
    if let Some(found) = interface::import_cuda(obj)? {
        return Ok(Some(found));
    }
    if let Some(found) = interface::import(obj)? {
        return Ok(Some(found));
    }
    if has("__array__")? && !obj.is_instance_of::<Array>() {
        let array = obj.call_method0("__array__")?;
        if array.hasattr("flags")? {
            return find(&array);
        }
    }
    Ok(None)
}

/// Arrays of NumPy whose elements have no buffers, or are another machine's.
fn converted(obj: &Bound<'_, PyAny>) -> R<Found> {
    let of = obj.getattr("dtype")?;
    let name = of.getattr("name")?;
    let Some(dtype) = dtype::of_object(&name)? else {
        return Err(type_error(format!("arrays of {} have no counterpart", of.str()?)));
    };
    if dtype == DType::BF16 {
        let bits = obj.call_method1("view", ("uint16",))?;
        let bytes = bits.call_method0("tobytes")?;
        let shape: Vec<usize> = obj.getattr("shape")?.extract()?;
        return Ok(Found::Copied(Tensor::from_bytes(shape, dtype, bytes.extract::<&[u8]>()?)));
    }
    let native = obj.call_method1("astype", (name,))?;
    match buffer::import(&native)? {
        Some(Found::Shared(t) | Found::Copied(t)) => Ok(Found::Copied(t)),
        None => Err(type_error(format!("arrays of {} have no counterpart", of.str()?))),
    }
}

/// Whether memory that an object shows as read-only belongs to nobody who writes: bytes, and arrays of NumPy that are read-only down to
/// the one that owns the memory.
fn is_frozen(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut at = obj.clone();
    // Longer chains of views count as written.
    for _ in 0..64 {
        if at.is_exact_instance_of::<PyBytes>() {
            return Ok(true);
        }
        if at.is_instance_of::<PyMemoryView>() {
            at = at.getattr("obj")?;
            continue;
        }
        let Ok(writeable) = at.getattr("flags").and_then(|f| f.getattr("writeable")) else { return Ok(false) };
        if writeable.is_truthy()? {
            return Ok(false);
        }
        at = at.getattr("base")?;
        if at.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The array over the memory of another library's array, which has `__dlpack__`. It stays on its device, unless another one is named.
#[pyfunction]
#[pyo3(signature = (x, /, *, device = None, copy = None))]
fn from_dlpack(x: &Bound<'_, PyAny>, device: Option<DeviceArg>, copy: Option<bool>) -> R<Made> {
    let py = x.py();
    let to = device.map(|d| d.0);
    let refuse = || value_error("another device needs a copy\n  try: copy=None");
    let tensor = match x.cast::<Array>() {
        Ok(own) => own.get().get(py),
        Err(_) if !x.hasattr("__dlpack__")? => {
            let name = x.get_type().name()?;
            return Err(type_error(format!("{name} has no __dlpack__\n  try: asarray")));
        }
        Err(_) => {
            // A producer that can brings it to the host; to other devices the engine does.
            let place = to.as_ref().filter(|d| d.is_host()).and_then(dlpack::place_of);
            dlpack::import(x, place, copy)?
        }
    };
    let stays = match &to {
        Some(to) => tensor.device()?.same(to),
        None => true,
    };
    if copy == Some(false) && !stays {
        return Err(refuse());
    }
    Ok(Made(released(py, || {
        let tensor = if copy == Some(true) && tensor.is_volatile() { tensor.copy() } else { tensor };
        match to {
            Some(to) => tensor.to(&to),
            None => tensor,
        }
    })))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
