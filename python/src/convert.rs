//! What Python gives as tensors of the engine: arrays, numbers, lists, and arrays of other libraries.

use millstream::core::Kind;
use millstream::{DType, Operand, Scalar, Tensor};
use num_complex::Complex;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PySequence, PyString, PyTuple};

use crate::array::{Array, Made};
use crate::device::{self, DeviceArg};
use crate::dtype::{self, DTypeArg};
use crate::error::{Fail, R, type_error, value_error};
use crate::exchange;
use crate::functions::elementwise::{Beyond, Pair};

/// A number of Python, which has no dtype of its own.
#[derive(Clone, Copy)]
pub enum Number {
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(Complex<f64>),
}

impl Number {
    /// The number, if it is one of Python's own. Those of NumPy that derive from Python's count as such.
    pub fn of(obj: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
        Ok(Some(if let Ok(v) = obj.cast_exact::<PyFloat>() {
            Number::Float(v.value())
        } else if let Ok(v) = obj.cast::<PyBool>() {
            Number::Bool(v.is_true())
        } else if obj.is_instance_of::<PyInt>() {
            Number::Int(obj.extract().map_err(|_| PyOverflowError::new_err("an integer beyond 64 bits"))?)
        } else if let Ok(v) = obj.cast::<PyFloat>() {
            Number::Float(v.value())
        } else if let Ok(v) = obj.cast::<PyComplex>() {
            Number::Complex(Complex::new(v.real(), v.imag()))
        } else {
            return Ok(None);
        }))
    }

    /// The dtype of an array of such numbers where none is named.
    pub fn dtype(self) -> DType {
        match self {
            Number::Bool(_) => DType::Bool,
            Number::Int(v) if i64::try_from(v).is_err() => DType::U64,
            Number::Int(_) => DType::I64,
            Number::Float(_) => DType::F32,
            Number::Complex(_) => DType::C64,
        }
    }

    /// The dtype in which it stands beside an array of that one.
    pub fn dtype_beside(self, other: DType) -> DType {
        match (self, other.kind()) {
            (Number::Bool(_), _) => DType::Bool,
            (Number::Int(_), Kind::Bool) => DType::I64,
            (Number::Int(_), _) | (Number::Float(_), Kind::Float | Kind::Complex) => other,
            (Number::Float(_), _) => DType::F32,
            (Number::Complex(_), _) if matches!(other, DType::F64 | DType::C128) => DType::C128,
            (Number::Complex(_), _) => DType::C64,
        }
    }

    /// The value in a dtype, by the rules of a cast; an error where an integer type does not hold it.
    pub fn scalar(self, dtype: DType) -> R<Scalar> {
        Ok(match self {
            Number::Bool(v) => Scalar::from_int(i128::from(v), dtype),
            Number::Int(v) => match Scalar::whole(v, dtype) {
                Some(scalar) => scalar,
                None => {
                    let name = dtype::name(dtype);
                    return Err(PyOverflowError::new_err(format!("{v} does not fit in {name}")).into());
                }
            },
            Number::Float(v) => Scalar::from_f64(v, dtype),
            Number::Complex(v) => match dtype {
                DType::C64 => Scalar::new(Complex::new(v.re as f32, v.im as f32)),
                DType::C128 => Scalar::new(v),
                _ => return Err(type_error(format!("a complex number as {}", dtype::name(dtype)))),
            },
        })
    }

    /// The number as a tensor beside values of this dtype; an error where an integer type does not hold it.
    fn beside(self, dtype: DType) -> R<Tensor> {
        Ok(Tensor::scalar(self.scalar(self.dtype_beside(dtype))?))
    }

    /// Whether values of this dtype are integers that do not hold the number.
    fn is_beyond(self, dtype: DType) -> bool {
        matches!(self, Number::Int(v) if dtype != DType::Bool && Scalar::whole(v, dtype).is_none())
    }
}

/// An operand: an array, or a number that takes the other operand's dtype.
pub enum Arg {
    Tensor(Tensor),
    Number(Number),
}

impl<'py> FromPyObject<'_, 'py> for Arg {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Arg> {
        if let Ok(array) = obj.cast::<Array>() {
            return Ok(Arg::Tensor(array.get().get(obj.py())));
        }
        if let Some(number) = Number::of(&obj)? {
            return Ok(Arg::Number(number));
        }
        match exchange::import(&obj)? {
            Some(tensor) => Ok(Arg::Tensor(tensor)),
            None => Err(PyTypeError::new_err(format!("{} is no array and no number", obj.get_type().name()?))),
        }
    }
}

impl Arg {
    /// As the engine takes it beside a tensor.
    pub fn operand(&self) -> Operand<'_> {
        match self {
            Arg::Tensor(t) => Operand::Tensor(t),
            Arg::Number(Number::Bool(v)) => Operand::Bool(*v),
            Arg::Number(Number::Int(v)) => Operand::Int(*v),
            Arg::Number(Number::Float(v)) => Operand::Float(*v),
            Arg::Number(Number::Complex(v)) => Operand::Complex(*v),
        }
    }

    /// As a tensor beside values of that dtype; an error where that is an integer type which does not hold the number.
    pub fn beside(self, dtype: DType) -> R<Tensor> {
        match self {
            Arg::Tensor(t) => Ok(t),
            Arg::Number(n) => n.beside(dtype),
        }
    }

    /// Of a whole number that these integers do not hold, whether it lies above them.
    pub fn beyond(&self, dtype: DType) -> Option<bool> {
        match *self {
            Arg::Number(n @ Number::Int(v)) if n.is_beyond(dtype) => Some(v > 0),
            _ => None,
        }
    }

    /// As a tensor by itself.
    pub fn alone(self) -> R<Tensor> {
        match self {
            Arg::Tensor(t) => Ok(t),
            Arg::Number(n) => n.beside(n.dtype()),
        }
    }
}

/// Two operands as tensors, of which one at least should be an array: a number takes the dtype of the other.
pub fn both(a: Arg, b: Arg) -> R<(Tensor, Tensor)> {
    Ok(match (a, b) {
        (Arg::Tensor(a), b) => {
            let of = a.dtype();
            (a, b.beside(of)?)
        }
        (a, Arg::Tensor(b)) => (a.beside(b.dtype())?, b),
        (a, b) => (a.alone()?, b.alone()?),
    })
}

/// An operation on two operands, of which one at least should be an array.
pub fn pair(a: Arg, b: Arg, op: Pair) -> R<Made> {
    Ok(Made(match (a, b) {
        (Arg::Tensor(a), b) => (op.make)(&a, b.operand()),
        (Arg::Number(a), Arg::Tensor(b)) if a.is_beyond(b.dtype()) => match (op.beyond, a) {
            (Beyond::Exchanged(make), _) => make(&b, Arg::Number(a).operand()),
            (Beyond::Wraps, Number::Int(v)) => {
                (op.make)(&Tensor::scalar(Scalar::from_int(v, b.dtype())), Operand::Tensor(&b))
            }
            (Beyond::Fraction, Number::Int(v)) => (op.make)(&Tensor::scalar(v as f32), Operand::Tensor(&b)),
            _ => (op.make)(&a.beside(b.dtype())?, Operand::Tensor(&b)),
        },
        (a, Arg::Tensor(b)) => (op.make)(&a.beside(b.dtype())?, Operand::Tensor(&b)),
        (a, b) => (op.make)(&a.alone()?, b.operand()),
    }))
}

/// Anything that is like an array: an array of this or another library, a number, a list of them.
pub struct X(pub Tensor);

impl<'py> FromPyObject<'_, 'py> for X {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<X> {
        if let Ok(array) = obj.cast::<Array>() {
            return Ok(X(array.get().get(obj.py())));
        }
        Ok(X(made(&obj, None)?))
    }
}

/// The tensor of anything that is like an array, in its own dtype or the one named.
pub fn made(obj: &Bound<'_, PyAny>, dtype: Option<DType>) -> R<Tensor> {
    let cast = |t: Tensor| dtype.map_or_else(|| t.clone(), |d| t.cast(d));
    if let Ok(array) = obj.cast::<Array>() {
        return Ok(cast(array.get().get(obj.py())));
    }
    if let Some(number) = Number::of(obj)? {
        return Ok(Tensor::scalar(number.scalar(dtype.unwrap_or_else(|| number.dtype()))?));
    }
    if let Some(tensor) = exchange::import(obj)? {
        return Ok(cast(tensor));
    }
    if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() || is_sequence(obj) {
        return nested(obj, dtype);
    }
    Err(type_error(format!("{} is not like an array", obj.get_type().name()?)))
}

fn is_sequence(obj: &Bound<'_, PyAny>) -> bool {
    !obj.is_instance_of::<PyString>() && obj.cast::<PySequence>().is_ok()
}

/// Lists of lists of numbers; where arrays are among them, those are stacked.
fn nested(obj: &Bound<'_, PyAny>, dtype: Option<DType>) -> R<Tensor> {
    let (mut shape, mut numbers) = (Vec::new(), Vec::new());
    if !flatten(obj, 0, &mut shape, &mut numbers)? {
        let parts = obj.try_iter()?.map(|part| made(&part?, dtype)).collect::<R<Vec<_>>>()?;
        let mut of = parts.first().map_or(DType::F32, Tensor::dtype);
        for part in &parts {
            of = of.promote(part.dtype())?;
        }
        return Ok(Tensor::stack(parts.iter().map(|t| t.cast(of)), 0));
    }
    let of = match dtype {
        Some(dtype) => dtype,
        None => {
            let mut all = numbers.iter().map(|n| n.dtype());
            let first = all.next().unwrap_or(DType::F32);
            // The widest kind; integers beside floats and beside each other lose nothing more than Python's numbers do.
            all.fold(first, |a, b| match (a, b) {
                (DType::U64, DType::I64) | (DType::I64, DType::U64) => DType::U64,
                _ => a.promote(b).unwrap_or(DType::F32),
            })
        }
    };
    let mut bytes = Vec::with_capacity(numbers.len() * of.size());
    for number in numbers {
        bytes.extend_from_slice(&number.scalar(of)?.bytes()[..of.size()]);
    }
    Ok(Tensor::from_bytes(shape, of, &bytes))
}

/// Appends the numbers of nested lists; false where there is something else among them.
fn flatten(obj: &Bound<'_, PyAny>, depth: usize, shape: &mut Vec<usize>, numbers: &mut Vec<Number>) -> R<bool> {
    let ragged = || value_error("lists of different lengths at the same depth\n  try: pad them to one length");
    if depth > millstream::core::what::MAX_RANK {
        return Err(value_error("lists nested too deep"));
    }
    let len = obj.len()?;
    match shape.get(depth) {
        None if numbers.is_empty() => shape.push(len),
        Some(&known) if known == len => {}
        _ => return Err(ragged()),
    }
    for item in obj.try_iter()? {
        let item = item?;
        if let Some(number) = Number::of(&item)? {
            if shape.len() != depth + 1 {
                return Err(ragged());
            }
            numbers.push(number);
        } else if item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>() {
            if !flatten(&item, depth + 1, shape, numbers)? {
                return Ok(false);
            }
        } else if item.is_instance_of::<PyString>() {
            return Err(type_error(format!("{} is no number", item.repr()?)));
        } else {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The array of anything that is like an array: numbers, lists, arrays of this and other libraries, buffers.
#[pyfunction]
#[pyo3(signature = (obj, /, *, dtype = None, device = None, copy = None))]
pub fn asarray(
    obj: &Bound<'_, PyAny>,
    dtype: Option<DTypeArg>,
    device: Option<DeviceArg>,
    copy: Option<bool>,
) -> R<Py<PyAny>> {
    let py = obj.py();
    let own = obj.cast::<Array>().ok();
    let dtype = dtype.map(|d| d.0);
    if copy == Some(false) && own.is_none() && !exchange::is_foreign(obj)? {
        return Err(value_error("numbers and lists cannot become an array without a copy\n  try: copy=None"));
    }
    let tensor = match own {
        None => exchange::over(obj, copy)?,
        Some(_) => None,
    };
    let tensor = match (tensor, dtype) {
        (Some(t), Some(dtype)) if copy == Some(false) && t.dtype() != dtype => {
            return Err(value_error("another dtype needs a copy\n  try: copy=None"));
        }
        (Some(t), dtype) => dtype.map_or_else(|| t.clone(), |d| t.cast(d)),
        (None, _) => made(obj, dtype)?,
    };
    if let Some(own) = &own {
        let same = tensor.dtype() == own.get().get(py).dtype();
        if copy == Some(false) && !same {
            return Err(value_error("another dtype needs a copy\n  try: copy=None"));
        }
        let here = match &device {
            Some(device) => tensor.device()?.same(&device.0),
            None => true,
        };
        if copy != Some(true) && same && here {
            return Ok(obj.clone().unbind());
        }
        // Arrays share values until one is assigned to: to Python a new array is a copy. Others may write to what is theirs.
        let tensor = if copy == Some(true) { exchange::own(tensor) } else { tensor };
        let tensor = device.map_or_else(|| tensor.clone(), |d| tensor.to(&d.0));
        return Ok(Made(tensor).into_pyobject(py)?.into_any().unbind());
    }
    Ok(Made(device::place(tensor, device)).into_pyobject(py)?.into_any().unbind())
}

/// Like `asarray`, but always a new array.
#[pyfunction]
#[pyo3(signature = (obj, /, dtype = None, *, device = None, copy = true))]
pub fn array(
    obj: &Bound<'_, PyAny>,
    dtype: Option<DTypeArg>,
    device: Option<DeviceArg>,
    copy: Option<bool>,
) -> R<Py<PyAny>> {
    asarray(obj, dtype, device, copy)
}

/// An array from its parts, as pickles hold them.
#[pyfunction]
fn _from_bytes(bytes: &[u8], shape: Vec<usize>, dtype: DTypeArg) -> Result<Made, Fail> {
    Ok(Made(device::place(Tensor::from_bytes(shape, dtype.0, bytes), None)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(asarray, module)?)?;
    module.add_function(wrap_pyfunction!(array, module)?)?;
    module.add_function(wrap_pyfunction!(_from_bytes, module)?)
}
