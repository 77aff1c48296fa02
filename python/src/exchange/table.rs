//! The functions by which other libraries written in C exchange tensors with this one (`__dlpack_c_exchange_api__`).

use std::ffi::{CString, c_char, c_int, c_void};

use millstream::{Device, Exported, Tensor};
use pyo3::ffi;
use pyo3::prelude::*;

use super::abi::{self, SetError, Table, Versioned};
use super::dlpack;
use crate::array::{Array, Made};
use crate::error::R;
use crate::released::released;

static TABLE: Table = Table {
    version: abi::VERSION,
    older: std::ptr::null(),
    allocate,
    from_object,
    to_object,
    view_object: None,
    stream,
};

/// The table in a capsule.
pub fn capsule(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let table = (&raw const TABLE).cast_mut().cast::<c_void>();
    // SAFETY: table and name live forever.
    let capsule =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(table, abi::TABLE_NAME.as_ptr(), None)) };
    Ok(capsule?.unbind())
}

/// 0 for success; else Python's exception is set, and -1.
fn answer(py: Python<'_>, result: R<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            PyErr::from(error).restore(py);
            -1
        }
    }
}

unsafe extern "C" fn from_object(object: *mut c_void, out: *mut *mut Versioned) -> c_int {
    Python::attach(|py| {
        let lend = || -> R<()> {
            // SAFETY: the caller gives an object that he holds.
            let object = unsafe { Bound::from_borrowed_ptr(py, object.cast()) };
            let array = object.cast::<Array>().map_err(PyErr::from)?;
            let held = dlpack::versioned(array.get().lent_as_it_is(py)?, false)?;
            // SAFETY: the caller gives a place for a pointer.
            unsafe { out.write(held) };
            Ok(())
        };
        answer(py, lend())
    })
}

unsafe extern "C" fn to_object(held: *mut Versioned, out: *mut *mut c_void) -> c_int {
    Python::attach(|py| {
        let take = || -> R<()> {
            // SAFETY: the caller gives the structure away.
            let capsule = unsafe { dlpack::capsule_of(py, held) }?;
            let array = Made(dlpack::from_capsule(&capsule, None)?).into_pyobject(py)?;
            // SAFETY: the caller gives a place for a pointer.
            unsafe { out.write(array.into_ptr().cast()) };
            Ok(())
        };
        answer(py, take())
    })
}

unsafe extern "C" fn allocate(
    like: *const abi::Tensor,
    out: *mut *mut Versioned,
    context: *mut c_void,
    set_error: SetError,
) -> c_int {
    Python::attach(|py| {
        let make = || -> R<()> {
            // SAFETY: the caller describes the tensor that he wants.
            let like = unsafe { &*like };
            let dtype = like.dtype.dtype().ok_or_else(|| dlpack::buffer_error("a dtype without counterpart"))?;
            let shape = match like.ndim {
                0 => &[][..],
                // SAFETY: so many sizes are there.
                n => unsafe { std::slice::from_raw_parts(like.shape, n as usize) },
            };
            let shape: Vec<isize> = shape.iter().map(|&n| n as isize).collect();
            let device: Device = dlpack::device_at(py, like.place)?;
            let zeros = || -> millstream::Result<Exported> {
                Tensor::zeros(&shape[..], dtype).to(&device).copy().export_writable()
            };
            let held = dlpack::versioned(released(py, zeros)?, true)?;
            // SAFETY: the caller gives a place for a pointer.
            unsafe { out.write(held) };
            Ok(())
        };
        let Err(error) = make() else { return 0 };
        let error = PyErr::from(error);
        let text = |s: String| CString::new(s.replace('\0', " ")).unwrap_or_default();
        let kind = text(error.get_type(py).name().map_or_else(|_| "BufferError".into(), |n| n.to_string()));
        let message = text(error.value(py).to_string());
        let (kind, message): (*const c_char, *const c_char) = (kind.as_ptr(), message.as_ptr());
        // SAFETY: the caller gives both; the texts live until it returns.
        unsafe { set_error(context, kind, message) };
        -1
    })
}

unsafe extern "C" fn stream(_kind: i32, _number: i32, out: *mut *mut c_void) -> c_int {
    // What is lent is complete: the default stream is as good as any.
    // SAFETY: the caller gives a place for a pointer.
    unsafe { out.write(std::ptr::null_mut()) };
    0
}
