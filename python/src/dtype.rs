//! Element types as Python sees them: `millstream.float32`.

use std::hash::{DefaultHasher, Hash, Hasher};

use millstream::DType;
use millstream::core::Kind;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};

/// The type of an array's elements. Equal to NumPy's dtype of the same name.
#[pyclass(frozen, name = "dtype", module = "millstream")]
pub struct PyDType(pub DType);

static OBJECTS: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();

/// The name in Python.
pub const fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
    }
}

/// The dtype of this name; NumPy's letters with a size are understood, too.
pub fn by_name(text: &str) -> Option<DType> {
    let text = text.strip_prefix("torch.").unwrap_or(text);
    let plain = text.trim_start_matches(['<', '=', '|']);
    DType::ALL.into_iter().find(|&d| name(d) == plain || letters(d) == plain).or(match plain {
        "?" | "bool_" => Some(DType::Bool),
        "float" | "d" | "double" => Some(DType::F64),
        "int" | "long" => Some(DType::I64),
        "complex" => Some(DType::C128),
        "half" => Some(DType::F16),
        _ => None,
    })
}

/// NumPy's name: kind and bytes.
pub const fn letters(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "b1",
        DType::I8 => "i1",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::U8 => "u1",
        DType::U16 => "u2",
        DType::U32 => "u4",
        DType::U64 => "u8",
        DType::F16 => "f2",
        DType::BF16 => "bf2",
        DType::F32 => "f4",
        DType::F64 => "f8",
        DType::C64 => "c8",
        DType::C128 => "c16",
    }
}

/// The object that stands for a dtype in Python.
pub fn object(py: Python<'_>, dtype: DType) -> Py<PyDType> {
    let make = || DType::ALL.into_iter().map(|d| Py::new(py, PyDType(d))).collect::<PyResult<Vec<_>>>();
    match OBJECTS.get_or_try_init(py, make) {
        Ok(all) => all[dtype as usize].clone_ref(py),
        // Out of memory: the caller's own allocation will say so.
        Err(_) => unreachable!("small objects can be made"),
    }
}

/// What a Python object means as a dtype, if it means one.
pub fn of_object(obj: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if let Ok(own) = obj.cast::<PyDType>() {
        return Ok(Some(own.get().0));
    }
    if let Ok(text) = obj.cast::<PyString>() {
        return Ok(by_name(&text.to_cow()?));
    }
    let py = obj.py();
    if let Ok(class) = obj.cast::<PyType>() {
        return Ok(if class.is(py.get_type::<PyFloat>()) {
            Some(DType::F32)
        } else if class.is(py.get_type::<PyBool>()) {
            Some(DType::Bool)
        } else if class.is(py.get_type::<PyInt>()) {
            Some(DType::I64)
        } else if class.is(py.get_type::<PyComplex>()) {
            Some(DType::C64)
        } else {
            // NumPy's scalar types.
            by_name(&class.name()?.to_cow()?)
        });
    }
    if let Ok(name) = obj.getattr("name")
        && let Ok(name) = name.cast::<PyString>()
    {
        return Ok(by_name(&name.to_cow()?));
    }
    // PyTorch's dtypes have no name but that of their text.
    Ok(by_name(&obj.str()?.to_cow()?))
}

/// An argument that names a dtype.
#[derive(Clone, Copy)]
pub struct DTypeArg(pub DType);

impl<'py> FromPyObject<'_, 'py> for DTypeArg {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<DTypeArg> {
        match of_object(&obj)? {
            Some(dtype) => Ok(DTypeArg(dtype)),
            None => {
                let names: Vec<_> = DType::ALL.into_iter().map(name).collect();
                let known = names.join(", ");
                Err(PyTypeError::new_err(format!("{} is not a dtype\n  try: one of {known}", obj.repr()?)))
            }
        }
    }
}

#[pymethods]
impl PyDType {
    /// The name, such as `float32`.
    #[getter]
    fn name(&self) -> &'static str {
        name(self.0)
    }

    /// The kind by NumPy's letter: `b`, `i`, `u`, `f`, `c`; `V` for bfloat16, which NumPy does not have.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind() {
            _ if self.0 == DType::BF16 => "V",
            Kind::Bool => "b",
            Kind::Unsigned => "u",
            Kind::Signed => "i",
            Kind::Float => "f",
            Kind::Complex => "c",
        }
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// The class of NumPy's scalars of this dtype.
    #[getter]
    fn r#type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.dtype(py)?.getattr("type")
    }

    /// NumPy's dtype: makes `numpy.dtype(millstream.float32)` work.
    #[getter]
    pub fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let numpy = py.import("numpy")?;
        match self.0 {
            // Registered by this package, where it is installed.
            DType::BF16 => numpy.call_method1("dtype", (py.import("ml_dtypes")?.getattr("bfloat16")?,)),
            d => numpy.call_method1("dtype", (name(d),)),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(own) = other.cast::<PyDType>() {
            return Ok(own.get().0 == self.0);
        }
        if other.is_none() || other.is_instance_of::<PyInt>() {
            return Ok(false);
        }
        Ok(of_object(other)? == Some(self.0))
    }

    fn __ne__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(!self.__eq__(other)?)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        name(self.0).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("millstream.{}", name(self.0))
    }

    fn __str__(&self) -> &'static str {
        name(self.0)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (&'static str,))> {
        Ok((py.import("millstream._millstream")?.getattr("_dtype")?, (name(self.0),)))
    }
}

/// The dtype that a name, a Python type or a dtype of another library means.
#[pyfunction]
fn _dtype(py: Python<'_>, name: DTypeArg) -> Py<PyDType> {
    object(py, name.0)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<PyDType>()?;
    module.add_function(wrap_pyfunction!(_dtype, module)?)?;
    for dtype in DType::ALL {
        module.add(name(dtype), object(py, dtype))?;
    }
    Ok(())
}
