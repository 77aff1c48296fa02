//! Devices by name, and the one on which new arrays are made.

use std::cell::RefCell;

use millstream::{Device, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::error::R;
use crate::released::released;

thread_local! {
    /// The devices of the `with` blocks around, the innermost last.
    static AROUND: RefCell<Vec<Device>> = const { RefCell::new(Vec::new()) };
}

/// A device by its name: `device("cuda:0")`. In a `with` block new arrays are made there.
#[pyclass(frozen, name = "device", module = "millstream")]
pub struct PyDevice(pub Device);

/// The device of that name, opened if need be. A family's name alone is that of its first device.
pub fn open(py: Python<'_>, name: &str) -> R<Device> {
    let runtime = Tensor::runtime()?;
    let full = match name {
        "cuda" | "vulkan" | "metal" | "gl" | "dx12" => format!("{name}:0"),
        "default" => return Ok(runtime.default_device()?),
        _ => name.to_string(),
    };
    Ok(released(py, || runtime.device(&full))?)
}

/// Where a new array goes: to the device named, or to that of the `with` block around.
pub fn place(tensor: Tensor, device: Option<DeviceArg>) -> Tensor {
    match device {
        Some(device) => tensor.to(&device.0),
        None => match AROUND.with_borrow(|around| around.last().cloned()) {
            Some(device) => tensor.to(&device),
            None => tensor,
        },
    }
}

/// An argument that names a device.
pub struct DeviceArg(pub Device);

impl<'py> FromPyObject<'_, 'py> for DeviceArg {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<DeviceArg> {
        if let Ok(device) = obj.cast::<PyDevice>() {
            return Ok(DeviceArg(device.get().0.clone()));
        }
        // Other libraries' devices have a text that is a name.
        let text = obj.str()?;
        Ok(DeviceArg(open(obj.py(), &text.to_cow()?)?))
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (name, /))]
    fn new(name: DeviceArg) -> PyDevice {
        PyDevice(name.0)
    }

    /// The name, such as `cuda:0`.
    #[getter]
    fn name(&self) -> String {
        self.0.name().to_string()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        AROUND.with_borrow_mut(|around| around.push(slf.get().0.clone()));
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> bool {
        AROUND.with_borrow_mut(|around| around.pop());
        false
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(device) = other.cast::<PyDevice>() {
            return Ok(device.get().0.same(&self.0));
        }
        match other.cast::<PyString>() {
            Ok(text) => Ok(text.to_cow()? == self.0.name()),
            Err(_) => Ok(false),
        }
    }

    fn __ne__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(!self.__eq__(other)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        // That of the name, to which it is equal.
        PyString::new(py, self.0.name()).hash()
    }

    fn __repr__(&self) -> String {
        format!("device({:?})", self.0.name())
    }

    fn __str__(&self) -> String {
        self.name()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, pyo3::types::PyType>, (String,)) {
        (py.get_type::<PyDevice>(), (self.name(),))
    }
}

/// The devices of this machine, by name. What cannot be opened is left out.
#[pyfunction]
fn devices(py: Python<'_>) -> R<Vec<String>> {
    let runtime = Tensor::runtime()?;
    let list = released(py, || runtime.list());
    Ok(list.into_iter().filter(|(_, there)| there.is_ok()).map(|(name, _)| name).collect())
}

/// The device on which new arrays are made here.
#[pyfunction]
fn default_device() -> R<PyDevice> {
    match AROUND.with_borrow(|around| around.last().cloned()) {
        Some(device) => Ok(PyDevice(device)),
        None => Ok(PyDevice(Tensor::runtime()?.default_device()?)),
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(default_device, module)?)
}
