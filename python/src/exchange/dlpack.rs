//! DLPack: capsules of other libraries as tensors, and tensors as capsules.
//!
//! A capsule that was taken over is kept, not emptied: when the last tensor over its memory is gone, so is the capsule, and its own
//! destructor tells the producer. Python calls that one where it may.

use std::ffi::c_void;

use millstream::{Device, Exported, RawTensor, Sharing, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use pyo3::{ffi, intern};

use super::abi::{self, Place, Table, Type, Unversioned, Version, Versioned};
use super::is_frozen;
use crate::device;
use crate::error::{Fail, R};

/// A `BufferError` with this message.
pub fn buffer_error(message: impl Into<String>) -> Fail {
    Fail::Python(PyBufferError::new_err(message.into()))
}

/// Where DLPack says that memory of this device is; `None` where it has no word for it.
pub fn place_of(device: &Device) -> Option<Place> {
    let number = |name: &str| name.split(':').nth(1)?.parse().ok();
    match device.kind() {
        _ if device.is_host() => Some(Place { kind: abi::CPU, number: 0 }),
        millstream::DeviceKind::Cuda => Some(Place { kind: abi::CUDA, number: number(device.name())? }),
        _ => None,
    }
}

pub fn device_at(py: Python<'_>, place: Place) -> R<Device> {
    match place.kind {
        abi::CPU | abi::CUDA_HOST => Ok(Tensor::runtime()?.host()?),
        abi::CUDA => device::open(py, &format!("cuda:{}", place.number)),
        kind => Err(buffer_error(format!("memory of DLPack's device type {kind} cannot be taken over"))),
    }
}

/// Memory that is lent, with its shape as DLPack wants it.
struct Owner {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _exported: Exported,
}

/// Takes lent memory back. If it is another library's, its object is let go at once, which takes the interpreter while there is one.
fn let_go(owner: Box<Owner>) {
    let mut owner = Some(owner);
    Python::try_attach(|_| drop(owner.take()));
}

/// The description of lent memory, and its owner, whom somebody has to take back.
fn describe(exported: Exported) -> R<(abi::Tensor, *mut Owner)> {
    let raw = exported.raw();
    let place = place_of(&raw.device).ok_or_else(|| {
        let name = raw.device.name();
        buffer_error(format!("DLPack has no word for memory of {name}\n  try: x.to_device(\"cpu\")"))
    })?;
    let empty = raw.shape.contains(&0);
    let data = if empty { std::ptr::null_mut() } else { raw.address as usize as *mut c_void };
    let (ndim, dtype) = (raw.shape.len() as i32, Type::of(raw.dtype));
    let shape = raw.shape.iter().map(|&n| n as i64).collect();
    let strides = raw.strides.iter().map(|&n| n as i64).collect();
    let mut owner = Box::new(Owner { shape, strides, _exported: exported });
    let (shape, strides) = (owner.shape.as_mut_ptr(), owner.strides.as_mut_ptr());
    Ok((abi::Tensor { data, place, ndim, dtype, shape, strides, byte_offset: 0 }, Box::into_raw(owner)))
}

/// Lent memory for C, to be given back by its deleter.
pub fn versioned(exported: Exported, copied: bool) -> R<*mut Versioned> {
    unsafe extern "C" fn delete(this: *mut Versioned) {
        // SAFETY: both were boxed below, and a deleter is called once.
        let (this, owner) = unsafe {
            let this = Box::from_raw(this);
            let owner = Box::from_raw(this.owner.cast::<Owner>());
            (this, owner)
        };
        drop(this);
        let_go(owner);
    }
    let read_only = exported.raw().sharing == Sharing::ReadOnly;
    let flags = if read_only { abi::READ_ONLY } else { 0 } | if copied { abi::IS_COPIED } else { 0 };
    let (tensor, owner) = describe(exported)?;
    let made = Versioned { version: abi::VERSION, owner: owner.cast(), deleter: Some(delete), flags, tensor };
    Ok(Box::into_raw(Box::new(made)))
}

fn unversioned(exported: Exported) -> R<*mut Unversioned> {
    unsafe extern "C" fn delete(this: *mut Unversioned) {
        // SAFETY: both were boxed below, and a deleter is called once.
        let (this, owner) = unsafe {
            let this = Box::from_raw(this);
            let owner = Box::from_raw(this.owner.cast::<Owner>());
            (this, owner)
        };
        drop(this);
        let_go(owner);
    }
    let (tensor, owner) = describe(exported)?;
    Ok(Box::into_raw(Box::new(Unversioned { tensor, owner: owner.cast(), deleter: Some(delete) })))
}

unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python gives the capsule; under this name it holds a structure that nobody has taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, abi::VERSIONED_NAME.as_ptr()) != 0 {
            let held = ffi::PyCapsule_GetPointer(capsule, abi::VERSIONED_NAME.as_ptr()).cast::<Versioned>();
            (*held).deleter.into_iter().for_each(|delete| delete(held));
        }
    }
}

unsafe extern "C" fn drop_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, abi::UNVERSIONED_NAME.as_ptr()) != 0 {
            let held = ffi::PyCapsule_GetPointer(capsule, abi::UNVERSIONED_NAME.as_ptr()).cast::<Unversioned>();
            (*held).deleter.into_iter().for_each(|delete| delete(held));
        }
    }
}

/// A structure of this or another library in a capsule, which deletes it.
///
/// # Safety
/// It is a structure that nobody else deletes.
pub unsafe fn capsule_of(py: Python<'_>, held: *mut Versioned) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the name lives forever, and the pointer is not null; on an error nobody else has the structure.
    unsafe {
        let capsule = ffi::PyCapsule_New(held.cast(), abi::VERSIONED_NAME.as_ptr(), Some(drop_versioned));
        if capsule.is_null() {
            (*held).deleter.into_iter().for_each(|delete| delete(held));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Lent memory in a capsule.
pub fn capsule(py: Python<'_>, exported: Exported, copied: bool, with_version: bool) -> R<Bound<'_, PyAny>> {
    if with_version {
        let held = versioned(exported, copied)?;
        // SAFETY: it was just made.
        return Ok(unsafe { capsule_of(py, held) }?);
    }
    let held = unversioned(exported)?;
    // SAFETY: the name lives forever, and the pointer is not null; on an error nobody else has the structure.
    unsafe {
        let capsule = ffi::PyCapsule_New(held.cast(), abi::UNVERSIONED_NAME.as_ptr(), Some(drop_unversioned));
        if capsule.is_null() {
            (*held).deleter.into_iter().for_each(|delete| delete(held));
        }
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?)
    }
}

/// The tensor over the memory in a capsule, which nobody else may use. `source` is the array that it describes.
pub fn from_capsule(capsule: &Bound<'_, PyAny>, source: Option<&Bound<'_, PyAny>>) -> R<Tensor> {
    let py = capsule.py();
    // SAFETY: under these names capsules hold these structures, which live as long as the capsule.
    let (tensor, flags) = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), abi::VERSIONED_NAME.as_ptr()) != 0 {
            let held = ffi::PyCapsule_GetPointer(capsule.as_ptr(), abi::VERSIONED_NAME.as_ptr());
            let held = held.cast::<Versioned>();
            // Of another version only this much is known.
            let Version { major, minor } = (*held).version;
            if major != abi::VERSION.major {
                return Err(buffer_error(format!("DLPack {major}.{minor} is not understood, only version 1")));
            }
            ((*held).tensor, (*held).flags)
        } else if ffi::PyCapsule_IsValid(capsule.as_ptr(), abi::UNVERSIONED_NAME.as_ptr()) != 0 {
            let held = ffi::PyCapsule_GetPointer(capsule.as_ptr(), abi::UNVERSIONED_NAME.as_ptr());
            ((*held.cast::<Unversioned>()).tensor, 0)
        } else {
            return Err(buffer_error("__dlpack__ gave no DLPack capsule, or one that was used before"));
        }
    };
    let dtype = tensor.dtype.dtype().ok_or_else(|| {
        let Type { code, bits, lanes } = tensor.dtype;
        buffer_error(format!("DLPack's dtype (code {code}, {bits} bits, {lanes} lanes) has no counterpart"))
    })?;
    let rank = usize::try_from(tensor.ndim).map_err(|_| buffer_error("a negative number of dimensions"))?;
    // SAFETY: the structure says that so many numbers are there.
    let numbers = |at: *mut i64| unsafe { std::slice::from_raw_parts(at, rank) };
    let shape = if rank == 0 { Vec::new() } else { numbers(tensor.shape).to_vec() };
    let shape: Vec<usize> = shape
        .iter()
        .map(|&n| usize::try_from(n))
        .collect::<Result<_, _>>()
        .map_err(|_| buffer_error(format!("the shape {shape:?} has a negative size")))?;
    let strides = match tensor.strides.is_null() || rank == 0 {
        true => row_major(&shape),
        false => numbers(tensor.strides).iter().map(|&n| n as isize).collect(),
    };
    // Others may hold the memory behind a view that is read-only. Who says that it is a copy gives it away.
    let kept = flags & abi::IS_COPIED != 0 || (flags & abi::READ_ONLY != 0 && source.is_none_or(is_stable));
    let raw = RawTensor {
        address: (tensor.data as usize as u64).wrapping_add(tensor.byte_offset),
        shape,
        strides,
        dtype,
        device: device_at(py, tensor.place)?,
        sharing: if kept { Sharing::ReadOnly } else { Sharing::Writable },
    };
    // SAFETY: the producer promises that the memory is there until it is told otherwise, which the capsule does; what was queued to
    // write there on a device was asked to be through on its legacy default stream, for which the device waits.
    Ok(unsafe { Tensor::import(raw, Box::new(capsule.clone().unbind())) }?)
}

/// Whether memory that this array shows as read-only is not written by others: arrays that have NumPy's flags tell.
fn is_stable(source: &Bound<'_, PyAny>) -> bool {
    !source.hasattr("flags").unwrap_or(true) || is_frozen(source).unwrap_or(false)
}

/// Strides without gaps.
pub fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].wrapping_mul(shape[d].max(1) as isize);
    }
    strides
}

/// The tensor over the memory of an array that has `__dlpack__`, and whether its producer copied it.
pub fn import(obj: &Bound<'_, PyAny>, to: Option<Place>, copy: Option<bool>) -> R<Tensor> {
    let py = obj.py();
    check_stored_as_shown(obj)?;
    if to.is_none()
        && copy != Some(true)
        && let Some(capsule) = by_table(obj)?
    {
        return from_capsule(&capsule, Some(obj));
    }
    let (kind, number) = obj.call_method0("__dlpack_device__")?.extract::<(i32, i32)>()?;
    let kwargs = PyDict::new(py);
    if kind == abi::CUDA {
        // The legacy default stream, for which the device waits.
        kwargs.set_item("stream", 1)?;
    }
    let plain = kwargs.copy()?;
    kwargs.set_item("max_version", (abi::VERSION.major, abi::VERSION.minor))?;
    if let Some(to) = to.filter(|&to| to != Place { kind, number }) {
        kwargs.set_item("dl_device", (to.kind, to.number))?;
    }
    if let Some(copy) = copy {
        kwargs.set_item("copy", copy)?;
    }
    let capsule = match obj.call_method("__dlpack__", (), Some(&kwargs)) {
        // Producers from before version 1 take no such arguments.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            obj.call_method("__dlpack__", (), Some(&plain))?
        }
        other => other?,
    };
    from_capsule(&capsule, Some(obj))
}

/// An error for tensors of PyTorch whose elements are conjugated or negated when they are read: neither its table of functions nor, for
/// negated ones, its `__dlpack__` says so.
fn check_stored_as_shown(obj: &Bound<'_, PyAny>) -> R<()> {
    let py = obj.py();
    let asked = |name: &Bound<'_, PyString>| match obj.getattr_opt(name)? {
        Some(ask) => ask.call0()?.is_truthy(),
        None => Ok(false),
    };
    if !obj.hasattr(intern!(py, "is_conj"))? {
        return Ok(());
    }
    for (name, what, cure) in [
        (intern!(py, "is_conj"), "conjugated", "x.resolve_conj()"),
        (intern!(py, "is_neg"), "negated", "x.resolve_neg()"),
    ] {
        if asked(name)? {
            return Err(buffer_error(format!("the elements are to be {what} when they are read\n  try: {cure}")));
        }
    }
    Ok(())
}

/// A capsule by the producer's table of functions, where its type has one and the memory is the host's.
fn by_table<'py>(obj: &Bound<'py, PyAny>) -> R<Option<Bound<'py, PyAny>>> {
    let py = obj.py();
    let Ok(table) = obj.get_type().getattr("__dlpack_c_exchange_api__") else { return Ok(None) };
    // SAFETY: under this name a capsule holds a table that lives as long as the process.
    unsafe {
        if ffi::PyCapsule_IsValid(table.as_ptr(), abi::TABLE_NAME.as_ptr()) == 0 {
            return Ok(None);
        }
        let table = ffi::PyCapsule_GetPointer(table.as_ptr(), abi::TABLE_NAME.as_ptr()).cast::<Table>();
        if (*table).version.major != abi::VERSION.major {
            return Ok(None);
        }
        let mut held = std::ptr::null_mut();
        if ((*table).from_object)(obj.as_ptr().cast(), &mut held) != 0 || held.is_null() {
            return Err(PyErr::fetch(py).into());
        }
        let capsule = capsule_of(py, held)?;
        let here = matches!((*held).tensor.place.kind, abi::CPU | abi::CUDA_HOST);
        // What is on a device has to be waited for, which `__dlpack__` sees to.
        Ok(here.then_some(capsule))
    }
}

/// The version that a consumer understands, from `max_version`.
pub fn wants_version(max_version: Option<(u32, u32)>) -> bool {
    max_version.is_some_and(|(major, _)| major >= abi::VERSION.major)
}

/// `dl_device` as a place.
pub fn place_argument(dl_device: Option<&Bound<'_, PyAny>>) -> R<Option<Place>> {
    let Some(given) = dl_device else { return Ok(None) };
    let tuple = given.cast::<PyTuple>().map_err(PyErr::from)?;
    // Both may be members of enumerations.
    let number = |at: usize| tuple.get_item(at)?.call_method0("__index__")?.extract::<i32>();
    Ok(Some(Place { kind: number(0)?, number: number(1)? }))
}
