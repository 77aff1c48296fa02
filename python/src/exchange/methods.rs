//! What arrays answer to other libraries: DLPack, the buffer protocol, `__array__`, `__cuda_array_interface__`.
//!
//! Memory is lent as it lies: for writing where nobody else has the value, else for reading only. Who asks for memory to write, or
//! cannot be told that he must not, gets the array's own; if others have it, the array is given a copy first, and they keep theirs.

use std::ffi::c_int;

use millstream::{DType, Device, DeviceKind, Exported, Sharing, Tensor};
use pyo3::exceptions::PyAttributeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView, PyTuple};

use super::abi::{self, Place};
use super::buffer::{self, Wish};
use super::dlpack::{self, buffer_error, place_argument, place_of, wants_version};
use super::table;
use crate::array::Array;
use crate::dtype;
use crate::error::{Fail, R, value_error};
use crate::released::released;

/// A copy on a device, for who may write to it.
fn copied(py: Python<'_>, tensor: Tensor, to: Option<&Device>) -> R<Exported> {
    Ok(released(py, move || {
        let mut own = tensor.copy();
        if let Some(device) = to {
            own = own.to(device);
        }
        own.export_writable()
    })?)
}

impl Array {
    fn lent(&self, py: Python<'_>, wish: Wish) -> R<Exported> {
        let device = self.get(py).device()?;
        if !device.is_host() {
            if wish.writable {
                let name = device.name();
                return Err(buffer_error(format!(
                    "what is written would not reach {name}\n  try: x.to_device(\"cpu\")"
                )));
            }
            return copied(py, self.get(py), Some(&device.host()));
        }
        Ok(self.change(py, |tensor| match wish {
            Wish { writable: true, .. } => tensor.export_writable(),
            Wish { strided: true, .. } => tensor.export_as_it_is(),
            _ => tensor.export(),
        })?)
    }

    /// The memory without a copy, for DLPack.
    pub(super) fn lent_as_it_is(&self, py: Python<'_>) -> R<Exported> {
        Ok(self.change(py, Tensor::export_as_it_is)?)
    }
}

/// Lent memory as an object of Python.
#[pyclass(frozen)]
struct Lent(#[allow(dead_code, reason = "held until the object goes")] Exported);

#[pymethods]
impl Array {
    /// The array's memory in a capsule for `from_dlpack` of another library.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> R<Bound<'py, PyAny>> {
        let device = self.get(py).device()?;
        // What is lent is complete before it is, so that any stream may use it.
        let waits_not = |stream: &Bound<'_, PyAny>| stream.extract::<i64>().is_ok_and(|s| s == -1);
        if device.is_host() && stream.is_some_and(|s| !waits_not(s)) {
            return Err(value_error("the CPU has no streams\n  try: stream=None"));
        }
        let (here, to) = (place_of(&device), place_argument(dl_device)?);
        let moves = to.is_some() && to != here;
        if moves && to != Some(Place { kind: abi::CPU, number: 0 }) {
            return Err(buffer_error("the array is not on that device\n  try: x.to_device(...)"));
        }
        if moves && copy == Some(false) {
            return Err(buffer_error("another device needs a copy\n  try: copy=None"));
        }
        let with_version = wants_version(max_version);
        if moves || copy == Some(true) {
            let exported = copied(py, self.get(py), moves.then(|| device.host()).as_ref())?;
            return dlpack::capsule(py, exported, true, with_version);
        }
        if here.is_none() {
            let name = device.name();
            return Err(buffer_error(format!("DLPack has no word for memory of {name}\n  try: x.to_device(\"cpu\")")));
        }
        let exported = match (with_version, copy) {
            // Without a version nobody is told that the memory is read-only.
            (false, None) => self.change(py, Tensor::export_writable)?,
            _ => self.lent_as_it_is(py)?,
        };
        if !with_version && exported.raw().sharing == Sharing::ReadOnly {
            return Err(buffer_error(
                "others have the value, and this version of DLPack has no word for memory that \
                is read-only\n  try: max_version=(1, 0)",
            ));
        }
        dlpack::capsule(py, exported, false, with_version)
    }

    /// Where the memory is, by DLPack's numbers.
    fn __dlpack_device__(&self, py: Python<'_>) -> R<(i32, i32)> {
        let device = self.get(py).device()?;
        let Some(place) = place_of(&device) else {
            let name = device.name();
            return Err(buffer_error(format!("DLPack has no word for memory of {name}\n  try: x.to_device(\"cpu\")")));
        };
        Ok((place.kind, place.number))
    }

    /// Functions by which libraries exchange arrays without a call through Python.
    #[classattr]
    #[pyo3(name = "__dlpack_c_exchange_api__")]
    fn dlpack_table(py: Python<'_>) -> PyResult<Py<PyAny>> {
        table::capsule(py)
    }

    /// The array's elements as memory that Python and other libraries read, and write if nobody else has the value.
    ///
    /// # Safety
    /// Called by Python.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(buffer_error("no place for the buffer").into());
        }
        let wish = Wish::of(flags);
        // SAFETY: Python gives a structure to fill, and its owner where that succeeds.
        unsafe {
            (*view).obj = std::ptr::null_mut();
            let exported = slf.get().lent(slf.py(), wish)?;
            buffer::fill(view, exported, wish)?;
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    /// # Safety
    /// Called by Python.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: Python gives what `__getbuffer__` filled, once.
        unsafe { buffer::release(view) };
    }

    /// The array as one of NumPy.
    #[pyo3(signature = (dtype = None, *, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> R<Bound<'py, PyAny>> {
        let py = slf.py();
        let numpy = py.import("numpy")?;
        let of = slf.get().get(py).dtype();
        let refuse = || value_error("this needs a copy\n  try: copy=None");
        let whole = if of == DType::BF16 {
            if copy == Some(false) {
                return Err(refuse());
            }
            let to = dtype::object(py, of).bind(py).getattr("dtype")?;
            let flat = numpy.call_method1("frombuffer", (slf.call_method0("tobytes")?, to))?;
            flat.call_method1("reshape", (slf.getattr("shape")?,))?
        } else {
            numpy.call_method1("asarray", (PyMemoryView::from(slf.as_any())?,))?
        };
        if let Some(dtype) = dtype
            && !whole.getattr("dtype")?.eq(dtype)?
        {
            return if copy == Some(false) { Err(refuse()) } else { Ok(whole.call_method1("astype", (dtype,))?) };
        }
        Ok(if copy == Some(true) { whole.call_method0("copy")? } else { whole })
    }

    /// The memory of an array on an NVIDIA GPU, for Numba and CuPy.
    #[getter]
    fn __cuda_array_interface__<'py>(slf: &Bound<'py, Self>) -> R<Bound<'py, PyDict>> {
        let py = slf.py();
        let device = slf.get().get(py).device()?;
        if device.kind() != DeviceKind::Cuda {
            let text = format!("the array is on {}, not on an NVIDIA GPU", device.name());
            return Err(Fail::Python(PyAttributeError::new_err(text)));
        }
        let exported = slf.get().lent_as_it_is(py)?;
        let raw = exported.raw();
        let Some(letters) = Some(raw.dtype).filter(|&d| d != DType::BF16).map(dtype::letters) else {
            return Err(Fail::Python(PyAttributeError::new_err("the interface has no word for bfloat16")));
        };
        let size = raw.dtype.size() as isize;
        let described = PyDict::new(py);
        described.set_item("shape", PyTuple::new(py, &raw.shape)?)?;
        described.set_item("typestr", format!("{}{letters}", if size == 1 { '|' } else { '<' }))?;
        described.set_item("data", (raw.address, raw.sharing == Sharing::ReadOnly))?;
        described.set_item("strides", PyTuple::new(py, raw.strides.iter().map(|s| s * size))?)?;
        described.set_item("stream", py.None())?;
        described.set_item("version", 3)?;
        // Who uses the memory keeps the array, and the array what is lent.
        let held = Bound::new(py, Lent(exported))?;
        py.import("weakref")?.call_method1("finalize", (slf, py.get_type::<PyTuple>(), (held,)))?;
        Ok(described)
    }
}
