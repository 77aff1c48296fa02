//! Values on their way to Python: numbers, lists, bytes.

use half::{bf16, f16};
use millstream::{DType, Error, Tensor};
use num_complex::Complex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyComplex, PyList};

use crate::error::R;
use crate::forked;
use crate::released::released;

/// One value of any dtype.
#[derive(Clone, Copy)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Complex(Complex<f64>),
}

impl Value {
    /// As an object of Python.
    pub fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        use pyo3::IntoPyObjectExt;
        match self {
            Value::Bool(v) => v.into_bound_py_any(py),
            Value::Int(v) => v.into_bound_py_any(py),
            Value::Unsigned(v) => v.into_bound_py_any(py),
            Value::Float(v) => v.into_bound_py_any(py),
            Value::Complex(v) => Ok(PyComplex::from_doubles(py, v.re, v.im).into_any()),
        }
    }
}

/// The only element of a tensor of one.
pub fn item(py: Python<'_>, t: &Tensor) -> R<Value> {
    forked::check(t)?;
    Ok(released(py, || {
        Ok::<_, Error>(match t.dtype() {
            DType::Bool => Value::Bool(t.item()?),
            DType::I8 => Value::Int(t.item::<i8>()?.into()),
            DType::I16 => Value::Int(t.item::<i16>()?.into()),
            DType::I32 => Value::Int(t.item::<i32>()?.into()),
            DType::I64 => Value::Int(t.item()?),
            DType::U8 => Value::Unsigned(t.item::<u8>()?.into()),
            DType::U16 => Value::Unsigned(t.item::<u16>()?.into()),
            DType::U32 => Value::Unsigned(t.item::<u32>()?.into()),
            DType::U64 => Value::Unsigned(t.item()?),
            DType::F16 => Value::Float(t.item::<f16>()?.into()),
            DType::BF16 => Value::Float(t.item::<bf16>()?.into()),
            DType::F32 => Value::Float(t.item::<f32>()?.into()),
            DType::F64 => Value::Float(t.item()?),
            DType::C64 => {
                let v = t.item::<Complex<f32>>()?;
                Value::Complex(Complex::new(v.re.into(), v.im.into()))
            }
            DType::C128 => Value::Complex(t.item()?),
        })
    })?)
}

/// All elements, row-major.
pub fn values(py: Python<'_>, t: &Tensor) -> R<Vec<Value>> {
    fn all<T: millstream::Element>(t: &Tensor, value: impl Fn(T) -> Value) -> Result<Vec<Value>, Error> {
        Ok(t.to_vec::<T>()?.into_iter().map(value).collect())
    }
    forked::check(t)?;
    Ok(released(py, || match t.dtype() {
        DType::Bool => all(t, Value::Bool),
        DType::I8 => all(t, |v: i8| Value::Int(v.into())),
        DType::I16 => all(t, |v: i16| Value::Int(v.into())),
        DType::I32 => all(t, |v: i32| Value::Int(v.into())),
        DType::I64 => all(t, Value::Int),
        DType::U8 => all(t, |v: u8| Value::Unsigned(v.into())),
        DType::U16 => all(t, |v: u16| Value::Unsigned(v.into())),
        DType::U32 => all(t, |v: u32| Value::Unsigned(v.into())),
        DType::U64 => all(t, Value::Unsigned),
        DType::F16 => all(t, |v: f16| Value::Float(v.into())),
        DType::BF16 => all(t, |v: bf16| Value::Float(v.into())),
        DType::F32 => all(t, |v: f32| Value::Float(v.into())),
        DType::F64 => all(t, Value::Float),
        DType::C64 => all(t, |v: Complex<f32>| Value::Complex(Complex::new(v.re.into(), v.im.into()))),
        DType::C128 => all(t, Value::Complex),
    })?)
}

/// Nested lists of numbers; of an array without dimensions, the number.
pub fn list<'py>(py: Python<'py>, t: &Tensor) -> R<Bound<'py, PyAny>> {
    let values = values(py, t)?;
    Ok(part(py, &values, &t.shape())?)
}

fn part<'py>(py: Python<'py>, values: &[Value], shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let Some((&n, rest)) = shape.split_first() else { return values[0].object(py) };
    let size = rest.iter().product::<usize>();
    let parts = (0..n).map(|i| part(py, &values[i * size..(i + 1) * size], rest));
    Ok(PyList::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

/// The bytes of the elements, row-major.
pub fn bytes<'py>(py: Python<'py>, t: &Tensor) -> R<Bound<'py, PyBytes>> {
    forked::check(t)?;
    let bytes = released(py, || t.to_bytes())?;
    Ok(PyBytes::new(py, &bytes))
}
