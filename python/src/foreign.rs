//! Arrays of other libraries as tensors.
//!
//! The one place that knows how: everything that takes arrays asks here.

use millstream::Tensor;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::dtype;
use crate::error::{R, type_error};

/// Whether this is an array or a buffer of another library.
pub fn is_foreign(obj: &Bound<'_, PyAny>) -> R<bool> {
    Ok(!obj.is_instance_of::<PyString>() && (obj.hasattr("__array_interface__")? || obj.hasattr("__buffer__")?))
}

/// The tensor of an array of another library, copied; `None` if this is none.
pub fn import(obj: &Bound<'_, PyAny>) -> R<Option<Tensor>> {
    if !is_foreign(obj)? {
        return Ok(None);
    }
    let numpy = obj.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (obj,))?.call_method1("reshape", (obj.getattr("shape")?,))?;
    let Some(dtype) = dtype::of_object(&array.getattr("dtype")?)? else {
        return Err(type_error(format!("arrays of {} have no counterpart", array.getattr("dtype")?.str()?)));
    };
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let bytes: Vec<u8> = array.call_method0("tobytes")?.extract()?;
    Ok(Some(Tensor::from_bytes(shape, dtype, &bytes)))
}
