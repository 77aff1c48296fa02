//! The array: a tensor of the engine that assignment replaces.

use millstream::{DType, Tensor};
use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyComplex, PyInt, PyModule, PyTuple};

use crate::convert::{Arg, pair};
use crate::device::{DeviceArg, PyDevice};
use crate::dtype::{self, DTypeArg, PyDType};
use crate::error::{R, type_error, value_error};
use crate::exchange;
use crate::functions::elementwise;
use crate::released::{note_python, released, released_whole, take_raised};
use crate::values::Value;
use crate::{forked, index, values};

/// An array of one element type, computed when its values are needed.
///
/// Operations describe new arrays; reading, printing, `eval()` or a result whose shape depends on values computes them, fused into
/// few kernels. Assignment (`x[...] = y`, `x += y`) changes this array alone: views of it and what was computed from it keep the
/// values that they had.
#[pyclass(frozen, name = "Array", module = "millstream", weakref)]
pub struct Array {
    tensor: RwLock<Tensor>,
}

impl Array {
    /// The array of a tensor; the tensor's error, if it carries one.
    pub fn new(tensor: Tensor) -> R<Array> {
        tensor.check()?;
        forked::check(&tensor)?;
        Ok(Array { tensor: RwLock::new(tensor) })
    }

    /// The tensor. Where another thread is just assigning, this one lets other Python threads run meanwhile: the assignment may
    /// need the interpreter.
    pub fn get(&self, py: Python<'_>) -> Tensor {
        note_python();
        if let Some(tensor) = self.tensor.try_read() {
            return tensor.clone();
        }
        py.detach(|| self.tensor.read().clone())
    }

    /// Changes the tensor; no other thread sees it meanwhile.
    pub fn change<T: Send>(&self, py: Python<'_>, change: impl FnOnce(&mut Tensor) -> T + Send) -> T {
        released_whole(py, || change(&mut self.tensor.write()))
    }

    /// Replaces the value by that of an operation in place, which keeps shape and dtype.
    fn put(&self, py: Python<'_>, new: Tensor) -> R<()> {
        new.check()?;
        let old = self.get(py);
        if new.dtype() != old.dtype() {
            let (new, old) = (dtype::name(new.dtype()), dtype::name(old.dtype()));
            return Err(type_error(format!("an operation in place would make {new} of {old}\n  try: x = x + y")));
        }
        if new.shape() != old.shape() {
            let (new, old) = (new.shape(), old.shape());
            return Err(value_error(format!("an operation in place would make the shape {new:?} of {old:?}")));
        }
        drop(old);
        self.change(py, |tensor| *tensor = new);
        Ok(())
    }
}

impl<'py> IntoPyObject<'py> for Made {
    type Target = Array;
    type Output = Bound<'py, Array>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, Array>> {
        Bound::new(py, Array::new(self.0)?)
    }
}

/// A tensor on its way to Python.
pub struct Made(pub Tensor);

/// The values as a table, or the error in their place.
fn text(py: Python<'_>, x: &Tensor) -> R<String> {
    let text = released(py, || x.to_string());
    x.check()?;
    match take_raised() {
        Some(raised) => Err(raised.into()),
        None => Ok(text),
    }
}

macro_rules! operators {
    ($($name:ident $reflected:ident $in_place:ident $function:path;)*) => {
        #[pymethods]
        impl Array {
            $(fn $name(&self, py: Python<'_>, other: Arg) -> R<Made> {
                pair(Arg::Tensor(self.get(py)), other, $function)
            }

            fn $reflected(&self, py: Python<'_>, other: Arg) -> R<Made> {
                pair(other, Arg::Tensor(self.get(py)), $function)
            }

            fn $in_place(&self, py: Python<'_>, other: Arg) -> R<()> {
                self.put(py, pair(Arg::Tensor(self.get(py)), other, $function)?.0)
            })*
        }
    };
}
operators! {
    __add__ __radd__ __iadd__ elementwise::op::add;
    __sub__ __rsub__ __isub__ elementwise::op::subtract;
    __mul__ __rmul__ __imul__ elementwise::op::multiply;
    __truediv__ __rtruediv__ __itruediv__ elementwise::op::divide;
    __floordiv__ __rfloordiv__ __ifloordiv__ elementwise::op::floor_divide;
    __mod__ __rmod__ __imod__ elementwise::op::remainder;
    __and__ __rand__ __iand__ elementwise::op::bitwise_and;
    __or__ __ror__ __ior__ elementwise::op::bitwise_or;
    __xor__ __rxor__ __ixor__ elementwise::op::bitwise_xor;
    __lshift__ __rlshift__ __ilshift__ elementwise::op::bitwise_left_shift;
    __rshift__ __rrshift__ __irshift__ elementwise::op::bitwise_right_shift;
    __matmul__ __rmatmul__ __imatmul__ elementwise::op::matmul;
}

#[pymethods]
impl Array {
    fn __pow__(&self, py: Python<'_>, other: Arg, _modulo: Option<Arg>) -> R<Made> {
        pair(Arg::Tensor(self.get(py)), other, elementwise::op::pow)
    }

    fn __rpow__(&self, py: Python<'_>, other: Arg, _modulo: Option<Arg>) -> R<Made> {
        pair(other, Arg::Tensor(self.get(py)), elementwise::op::pow)
    }

    fn __ipow__(&self, py: Python<'_>, other: Arg, _modulo: Option<Arg>) -> R<()> {
        self.put(py, pair(Arg::Tensor(self.get(py)), other, elementwise::op::pow)?.0)
    }

    fn __richcmp__(&self, py: Python<'_>, other: Arg, op: CompareOp) -> R<Made> {
        let function = match op {
            CompareOp::Eq => elementwise::op::equal,
            CompareOp::Ne => elementwise::op::not_equal,
            CompareOp::Lt => elementwise::op::less,
            CompareOp::Le => elementwise::op::less_equal,
            CompareOp::Gt => elementwise::op::greater,
            CompareOp::Ge => elementwise::op::greater_equal,
        };
        pair(Arg::Tensor(self.get(py)), other, function)
    }

    fn __neg__(&self, py: Python<'_>) -> Made {
        Made(-self.get(py))
    }

    fn __pos__(&self, py: Python<'_>) -> Made {
        Made(exchange::own(self.get(py)))
    }

    fn __abs__(&self, py: Python<'_>) -> Made {
        Made(self.get(py).abs())
    }

    fn __invert__(&self, py: Python<'_>) -> Made {
        Made(self.get(py).not())
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> R<Made> {
        Ok(Made(index::get(&self.get(key.py()), key)?))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: Arg) -> R<()> {
        index::set(self, key, value)
    }

    fn __len__(&self, py: Python<'_>) -> R<usize> {
        match self.get(py).shape().first() {
            Some(&n) => Ok(n),
            None => Err(type_error("an array without dimensions has no length")),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyAny>> {
        let x = self.get(py);
        if x.rank() == 0 {
            return Err(type_error("an array without dimensions has no parts to iterate over"));
        }
        let parts: Vec<Made> = x.rows()?.map(Made).collect();
        Ok(PyTuple::new(py, parts)?.try_iter()?.into_any())
    }

    fn __contains__(&self, py: Python<'_>, value: Arg) -> R<bool> {
        let found = pair(Arg::Tensor(self.get(py)), value, elementwise::op::equal)?.0.any(..);
        Ok(matches!(values::item(py, &found)?, Value::Bool(true)))
    }

    fn __bool__(&self, py: Python<'_>) -> R<bool> {
        Ok(match self.one(py, "a truth value")? {
            Value::Bool(v) => v,
            Value::Int(v) => v != 0,
            Value::Unsigned(v) => v != 0,
            Value::Float(v) => v != 0.0,
            Value::Complex(v) => v.re != 0.0 || v.im != 0.0,
        })
    }

    fn __int__<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyAny>> {
        let value = self.one(py, "an integer")?;
        if matches!(value, Value::Complex(_)) {
            return Err(type_error("a complex number is no integer\n  try: x.real"));
        }
        Ok(py.get_type::<PyInt>().call1((value.object(py)?,))?)
    }

    fn __float__(&self, py: Python<'_>) -> R<f64> {
        Ok(match self.one(py, "a float")? {
            Value::Bool(v) => f64::from(u8::from(v)),
            Value::Int(v) => v as f64,
            Value::Unsigned(v) => v as f64,
            Value::Float(v) => v,
            Value::Complex(_) => return Err(type_error("a complex number is no float\n  try: x.real")),
        })
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyAny>> {
        if let Value::Complex(v) = self.one(py, "a complex number")? {
            return Ok(Value::Complex(v).object(py)?);
        }
        Ok(PyComplex::from_doubles(py, self.__float__(py)?, 0.0).into_any())
    }

    fn __index__<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyAny>> {
        let of = self.get(py).dtype();
        if !of.is_integer() {
            return Err(type_error(format!("an array of {} is no index", dtype::name(of))));
        }
        Ok(self.one(py, "an index")?.object(py)?)
    }

    fn __repr__(&self, py: Python<'_>) -> R<String> {
        let x = self.get(py);
        let text = text(py, &x)?;
        let text = text.replace('\n', "\n      ");
        Ok(match x.dtype() {
            DType::F32 | DType::I64 | DType::Bool | DType::C64 => format!("Array({text})"),
            of => format!("Array({text}, dtype={})", dtype::name(of)),
        })
    }

    fn __str__(&self, py: Python<'_>) -> R<String> {
        text(py, &self.get(py))
    }

    fn __format__(&self, py: Python<'_>, spec: &str) -> R<String> {
        if spec.is_empty() {
            return self.__str__(py);
        }
        let value = self.one(py, "a number to format")?.object(py)?;
        Ok(value.call_method1("__format__", (spec,))?.extract()?)
    }

    /// The table of values that notebooks show.
    fn _repr_html_(&self, py: Python<'_>) -> R<String> {
        let x = self.get(py);
        let shape = x.shape().iter().map(usize::to_string).collect::<Vec<_>>().join(" \u{d7} ");
        let head = if shape.is_empty() { String::new() } else { format!("{shape} ") };
        let place = x.device().map_or_else(|_| String::new(), |d| format!(" on {}", d.name()));
        let text = self.__str__(py)?.replace('&', "&amp;").replace('<', "&lt;");
        Ok(format!("<div><small>{head}{}{place}</small><pre>{text}</pre></div>", dtype::name(x.dtype())))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyTuple>> {
        let x = self.get(py);
        let make = py.import("millstream._millstream")?.getattr("_from_bytes")?;
        let parts = (values::bytes(py, &x)?, PyTuple::new(py, x.shape().iter())?, dtype::name(x.dtype()));
        Ok((make, parts).into_pyobject(py)?)
    }

    fn __copy__(&self, py: Python<'_>) -> Made {
        Made(exchange::own(self.get(py)))
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Made {
        Made(exchange::own(self.get(py)))
    }

    /// The namespace of functions that take this array: `millstream`.
    #[pyo3(signature = (/, *, api_version = None))]
    fn __array_namespace__<'py>(&self, py: Python<'py>, api_version: Option<&str>) -> R<Bound<'py, PyModule>> {
        match api_version {
            None | Some("2021.12" | "2022.12" | "2023.12" | "2024.12" | "2025.12") => Ok(py.import("millstream")?),
            Some(other) => Err(value_error(format!("the version {other} of the array API is not known"))),
        }
    }

    /// NumPy leaves operations with its arrays on the left to this class.
    #[classattr]
    #[pyo3(name = "__array_priority__")]
    const ARRAY_PRIORITY: f64 = 1000.0;

    /// NumPy's counterpart of the element type, for functions of NumPy that take an array for its dtype.
    #[getter(__numpy_dtype__)]
    fn numpy_dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyDType(self.get(py).dtype()).dtype(py)
    }

    /// The element type.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyDType> {
        dtype::object(py, self.get(py).dtype())
    }

    /// The device where it is or will be computed.
    #[getter]
    fn device(&self, py: Python<'_>) -> R<PyDevice> {
        Ok(PyDevice(self.get(py).device()?))
    }

    /// The sizes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, self.get(py).shape().iter())?)
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> usize {
        self.get(py).rank()
    }

    /// The number of elements.
    #[getter]
    fn size(&self, py: Python<'_>) -> usize {
        self.get(py).len()
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self, py: Python<'_>) -> usize {
        self.get(py).dtype().size()
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        let x = self.get(py);
        x.len() * x.dtype().size()
    }

    /// The axes in reverse order.
    #[getter(T)]
    fn reversed_axes(&self, py: Python<'_>) -> Made {
        let x = self.get(py);
        Made(x.permute((0..x.rank()).rev().collect::<Vec<_>>()))
    }

    /// Each matrix of the last two axes transposed.
    #[getter(mT)]
    fn transposed_matrices(&self, py: Python<'_>) -> Made {
        Made(self.get(py).transpose())
    }

    /// The real parts.
    #[getter]
    fn real(&self, py: Python<'_>) -> Made {
        Made(self.get(py).real())
    }

    /// The imaginary parts; of real numbers, zeros.
    #[getter]
    fn imag(&self, py: Python<'_>) -> Made {
        Made(self.get(py).imag())
    }

    /// The same array on another device; it moves when it is needed there.
    #[pyo3(signature = (device, /, *, stream = None))]
    fn to_device(&self, py: Python<'_>, device: DeviceArg, stream: Option<&Bound<'_, PyAny>>) -> R<Made> {
        if stream.is_some() {
            return Err(value_error("the engine chooses the streams\n  try: stream=None"));
        }
        let x = self.get(py);
        Ok(Made(released(py, || x.to(&device.0))))
    }

    /// Like `to_device`, or with a dtype like `astype`.
    fn to(&self, py: Python<'_>, target: &Bound<'_, PyAny>) -> R<Made> {
        match target.extract::<DTypeArg>() {
            Ok(dtype) => Ok(Made(self.get(py).cast(dtype.0))),
            Err(_) => self.to_device(py, target.extract()?, None),
        }
    }

    /// The only element of an array of one, or the one at an index, as a number of Python.
    #[pyo3(signature = (*index))]
    fn item<'py>(&self, py: Python<'py>, index: &Bound<'py, PyTuple>) -> R<Bound<'py, PyAny>> {
        let mut x = self.get(py);
        if let [flat] = &index.iter().collect::<Vec<_>>()[..]
            && x.rank() != 1
            && !flat.is_instance_of::<PyTuple>()
        {
            x = index::get(&x.reshape(-1), flat)?;
        } else if !index.is_empty() {
            x = index::get(&x, index)?;
        }
        Ok(values::item(py, &x)?.object(py)?)
    }

    /// The elements as nested lists; of an array without dimensions, the number.
    fn tolist<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyAny>> {
        values::list(py, &self.get(py))
    }

    /// The bytes of the elements, row-major.
    fn tobytes<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyBytes>> {
        values::bytes(py, &self.get(py))
    }

    /// Computes the values now and waits for them. Gives the array itself.
    fn eval<'py>(slf: Bound<'py, Self>) -> R<Bound<'py, Self>> {
        let py = slf.py();
        let x = slf.get().get(py);
        forked::check(&x)?;
        released(py, || x.eval())?;
        Ok(slf)
    }

    /// What the plan for the values looks like: kernels, fusion, tiles, bytes, predicted time.
    fn explain(&self, py: Python<'_>) -> R<String> {
        let x = self.get(py);
        Ok(released(py, || x.explain())?)
    }

    /// The array, computed, as one that is read many times, such as weights: devices may keep it packed as their kernels read it.
    fn keep<'py>(slf: Bound<'py, Self>) -> R<Bound<'py, Self>> {
        let py = slf.py();
        let x = slf.get().get(py);
        released(py, || x.keep().map(drop))?;
        Ok(slf)
    }
}

impl Array {
    /// The value of an array of one element.
    fn one(&self, py: Python<'_>, what: &str) -> R<Value> {
        let x = self.get(py);
        if x.len() != 1 {
            let hint = if what == "a truth value" { "\n  try: x.any() or x.all()" } else { "" };
            let shape = x.shape();
            let text = format!("{what} needs an array of one element, and the shape is {shape:?}{hint}");
            return Err(if what == "a truth value" { value_error(text) } else { type_error(text) });
        }
        values::item(py, &x)
    }
}
