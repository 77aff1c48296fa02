//! Arrays from numbers.

use millstream::{DType, Indexing, Scalar, Tensor};
use num_complex::Complex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::Ints;
use crate::array::Made;
use crate::convert::{Arg, Number, X};
use crate::device::{DeviceArg, place};
use crate::dtype::DTypeArg;
use crate::error::{R, type_error, value_error};
use crate::functions::add;

fn or(dtype: Option<DTypeArg>, default: DType) -> DType {
    dtype.map_or(default, |d| d.0)
}

/// Zeros of this shape.
#[pyfunction]
#[pyo3(signature = (shape, *, dtype = None, device = None))]
pub fn zeros(shape: Ints, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> Made {
    Made(place(Tensor::zeros(shape.shape(), or(dtype, DType::F32)), device))
}

/// Ones of this shape.
#[pyfunction]
#[pyo3(signature = (shape, *, dtype = None, device = None))]
pub fn ones(shape: Ints, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> Made {
    Made(place(Tensor::ones(shape.shape(), or(dtype, DType::F32)), device))
}

/// An array whose values nobody should rely on; they are zeros.
#[pyfunction]
#[pyo3(signature = (shape, *, dtype = None, device = None))]
pub fn empty(shape: Ints, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> Made {
    zeros(shape, dtype, device)
}

/// The number that fills an array, as a tensor of one.
fn filling(value: Arg, dtype: Option<DType>) -> R<Tensor> {
    match value {
        Arg::Number(n) => Ok(Tensor::scalar(n.scalar(dtype.unwrap_or_else(|| n.dtype()))?)),
        Arg::Tensor(t) if t.rank() == 0 => Ok(dtype.map_or_else(|| t.clone(), |d| t.cast(d))),
        Arg::Tensor(t) => Err(value_error(format!("one number fills an array, not the shape {:?}", t.shape()))),
    }
}

/// One number everywhere.
#[pyfunction]
#[pyo3(signature = (shape, fill_value, *, dtype = None, device = None))]
pub fn full(shape: Ints, fill_value: Arg, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> R<Made> {
    let value = place(filling(fill_value, dtype.map(|d| d.0))?, device);
    Ok(Made(value.broadcast(shape.shape())))
}

/// Like an array: its shape and device, its dtype where none is named.
fn like(x: &Tensor, value: Tensor, device: Option<DeviceArg>) -> R<Made> {
    let device = device.map_or_else(|| x.device(), |d| Ok(d.0))?;
    Ok(Made(value.to(&device).broadcast(x.shape())))
}

/// Zeros in the shape of an array.
#[pyfunction]
#[pyo3(signature = (x, /, *, dtype = None, device = None))]
pub fn zeros_like(x: X, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> R<Made> {
    like(&x.0, Tensor::scalar(Scalar::zero(or(dtype, x.0.dtype()))), device)
}

/// Ones in the shape of an array.
#[pyfunction]
#[pyo3(signature = (x, /, *, dtype = None, device = None))]
pub fn ones_like(x: X, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> R<Made> {
    like(&x.0, Tensor::scalar(Scalar::one(or(dtype, x.0.dtype()))), device)
}

/// An array in the shape of another whose values nobody should rely on; they are zeros.
#[pyfunction]
#[pyo3(signature = (x, /, *, dtype = None, device = None))]
pub fn empty_like(x: X, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> R<Made> {
    zeros_like(x, dtype, device)
}

/// One number everywhere, in the shape of an array.
#[pyfunction]
#[pyo3(signature = (x, /, fill_value, *, dtype = None, device = None))]
pub fn full_like(x: X, fill_value: Arg, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> R<Made> {
    like(&x.0, filling(fill_value, Some(or(dtype, x.0.dtype())))?, device)
}

/// A number that says where a range begins, ends or steps.
fn bound(value: Arg) -> R<Number> {
    match value {
        Arg::Number(n) => Ok(n),
        Arg::Tensor(t) if t.len() == 1 && t.dtype().is_integer() => {
            Ok(Number::Int(t.cast(DType::I64).reshape(()).item::<i64>()?.into()))
        }
        Arg::Tensor(t) => Ok(Number::Float(t.cast(DType::F64).item::<f64>()?)),
    }
}

fn float(number: Number) -> R<f64> {
    match number {
        Number::Bool(v) => Ok(f64::from(u8::from(v))),
        Number::Int(v) => Ok(v as f64),
        Number::Float(v) => Ok(v),
        Number::Complex(_) => Err(type_error("a complex number has no place on the real line")),
    }
}

/// `start`, `start + step`, ... up to but without `stop`.
#[pyfunction]
#[pyo3(signature = (start, /, stop = None, step = None, *, dtype = None, device = None))]
pub fn arange(
    start: Arg,
    stop: Option<Arg>,
    step: Option<Arg>,
    dtype: Option<DTypeArg>,
    device: Option<DeviceArg>,
) -> R<Made> {
    let (start, stop) = match stop {
        Some(stop) => (bound(start)?, bound(stop)?),
        None => (Number::Int(0), bound(start)?),
    };
    let step = step.map_or(Ok(Number::Int(1)), bound)?;
    let made = match (start, stop, step) {
        (Number::Int(start), Number::Int(stop), Number::Int(step)) => {
            let dtype = or(dtype, DType::I64);
            let count = match step {
                0 => return Err(value_error("a range needs a step other than 0")),
                s if s > 0 => (stop - start + s - 1).div_euclid(s),
                s => (start - stop - s - 1).div_euclid(-s),
            };
            let count = i64::try_from(count.max(0)).map_err(|_| value_error("a range with too many numbers"))?;
            // In 64 bits sums and products wrap, to the right numbers of either sign.
            let index = Tensor::arange(0, count);
            let numbers = index * (step as i64) + (start as i64);
            if dtype == DType::U64 { numbers.cast(DType::U64) } else { numbers.cast(dtype) }
        }
        (start, stop, step) => {
            let (start, stop, step) = (float(start)?, float(stop)?, float(step)?);
            // Computed in f64, so that the last number of many is as near as the first.
            let of = or(dtype, DType::F32);
            Tensor::arange_by(start, stop, step, if of == DType::F32 { DType::F64 } else { of }).cast(of)
        }
    };
    Ok(Made(place(made, device)))
}

/// `num` numbers from `start` to `stop`, evenly apart.
#[pyfunction]
#[pyo3(signature = (start, stop, /, num = 50, *, dtype = None, device = None, endpoint = true))]
pub fn linspace(
    start: Arg,
    stop: Arg,
    num: usize,
    dtype: Option<DTypeArg>,
    device: Option<DeviceArg>,
    endpoint: bool,
) -> R<Made> {
    let parts = |n: Number| match n {
        Number::Complex(v) => Ok((v, true)),
        n => Ok::<_, crate::error::Fail>((Complex::new(float(n)?, 0.0), false)),
    };
    let ((start, a), (stop, b)) = (parts(bound(start)?)?, parts(bound(stop)?)?);
    let of = or(dtype, if a || b { DType::C64 } else { DType::F32 });
    let line = |start: f64, stop: f64, of: DType| {
        let all = Tensor::linspace(start, stop, if endpoint { num } else { num + 1 }, of);
        all.slice(0, ..num)
    };
    let made = match of {
        DType::C64 | DType::C128 => {
            let of = of.real();
            Tensor::complex(&line(start.re, stop.re, of), &line(start.im, stop.im, of))
        }
        _ if a || b => return Err(type_error("complex numbers in a real range\n  try: dtype=complex64")),
        // Of long ranges the middle would be less exact.
        DType::F32 => line(start.re, stop.re, DType::F64).cast(DType::F32),
        of => line(start.re, stop.re, of),
    };
    Ok(Made(place(made, device)))
}

/// A matrix with ones on a diagonal.
#[pyfunction]
#[pyo3(signature = (n_rows, n_cols = None, /, *, k = 0, dtype = None, device = None))]
pub fn eye(n_rows: usize, n_cols: Option<usize>, k: i64, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> Made {
    Made(place(Tensor::eye(n_rows, n_cols.unwrap_or(n_rows), k, or(dtype, DType::F32)), device))
}

/// The lower triangles of matrices.
#[pyfunction]
#[pyo3(signature = (x, /, *, k = 0))]
pub fn tril(x: X, k: i64) -> Made {
    Made(x.0.tril(k))
}

/// The upper triangles of matrices.
#[pyfunction]
#[pyo3(signature = (x, /, *, k = 0))]
pub fn triu(x: X, k: i64) -> Made {
    Made(x.0.triu(k))
}

/// Vectors spread over the grid of all of them.
#[pyfunction]
#[pyo3(signature = (*arrays, indexing = "xy"))]
pub fn meshgrid<'py>(py: Python<'py>, arrays: Vec<X>, indexing: &str) -> R<Bound<'py, PyTuple>> {
    let indexing = match indexing {
        "xy" => Indexing::Xy,
        "ij" => Indexing::Ij,
        other => return Err(value_error(format!("indexing={other:?}\n  try: \"xy\" or \"ij\""))),
    };
    let grid = Tensor::meshgrid(arrays.iter().map(|x| &x.0), indexing);
    Ok(PyTuple::new(py, grid.into_iter().map(Made))?)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(module: zeros, ones, empty, full, zeros_like, ones_like, empty_like, full_like, arange, linspace, eye, tril, triu, meshgrid);
    Ok(())
}
