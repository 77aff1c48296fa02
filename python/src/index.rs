//! `x[...]`: what stands between the brackets.

use millstream::{DType, Ellipsis, ErrorKind, Index, NewAxis, Tensor, step};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use smallvec::SmallVec;

use crate::array::Array;
use crate::convert::{Arg, Number, made};
use crate::error::{Fail, R};
use crate::exchange;

type Parts = SmallVec<[Index; 6]>;

/// The parts of an index.
pub fn parts(key: &Bound<'_, PyAny>) -> R<Parts> {
    match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter_borrowed().map(|part| one(&part)).collect(),
        Err(_) => Ok([one(key)?].into_iter().collect()),
    }
}

fn one(part: &Bound<'_, PyAny>) -> R<Index> {
    if part.is_instance_of::<PyInt>() && !part.is_instance_of::<PyBool>() {
        return Ok(Index::from(part.extract::<isize>()?));
    }
    if let Ok(slice) = part.cast::<PySlice>() {
        return span(slice);
    }
    if part.is_none() {
        return Ok(NewAxis.into());
    }
    if part.is_instance_of::<PyEllipsis>() {
        return Ok(Ellipsis.into());
    }
    if let Ok(array) = part.cast::<Array>() {
        return Ok(Index::from(array.get().get(part.py())));
    }
    if part.is_instance_of::<PyBool>() || part.is_instance_of::<PyList>() {
        let list = made(part, None)?;
        // An empty list is one of floats by itself.
        return Ok(Index::from(if list.is_empty() { list.cast(DType::I64) } else { list }));
    }
    if let Some(tensor) = exchange::import(part)? {
        // An integer in an array without dimensions is one: whether the axis has it is known now.
        if tensor.rank() > 0 || !tensor.dtype().is_integer() {
            return Ok(Index::from(tensor));
        }
    }
    match part.extract::<isize>() {
        Ok(at) => Ok(Index::from(at)),
        Err(_) => {
            let text = format!("{} is no index\n  try: integers, slices, ..., None, arrays of them", part.repr()?);
            Err(Fail::Python(pyo3::exceptions::PyIndexError::new_err(text)))
        }
    }
}

/// A slice; its bounds are cut to the axis later.
fn span(slice: &Bound<'_, PySlice>) -> R<Index> {
    let py = slice.py();
    let bound = |name: &Bound<'_, pyo3::types::PyString>| -> PyResult<Option<isize>> {
        let value = slice.getattr(name)?;
        if value.is_none() {
            return Ok(None);
        }
        // Beyond any axis is beyond any axis.
        let number: i128 = value.call_method0("__index__")?.extract()?;
        Ok(Some(number.clamp(isize::MIN as i128 / 2, isize::MAX as i128 / 2) as isize))
    };
    let by = bound(pyo3::intern!(py, "step"))?.unwrap_or(1);
    Ok(match (bound(pyo3::intern!(py, "start"))?, bound(pyo3::intern!(py, "stop"))?) {
        (None, None) => step(.., by),
        (Some(start), None) => step(start.., by),
        (None, Some(stop)) => step(..stop, by),
        (Some(start), Some(stop)) => step(start..stop, by),
    }
    .into())
}

/// `x[key]`.
pub fn get(x: &Tensor, key: &Bound<'_, PyAny>) -> R<Tensor> {
    // The common case first.
    if key.is_instance_of::<PyInt>() && !key.is_instance_of::<PyBool>() {
        let found = x.select(0, key.extract::<isize>()?);
        found.check().map_err(Fail::Index)?;
        return Ok(found);
    }
    let found = x.i(&parts(key)?[..]);
    found.check().map_err(Fail::Index)?;
    Ok(found)
}

/// Whether numbers of a dtype may have fractions.
fn is_fractional(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_complex()
}

/// `x[key] = value`.
pub fn set(array: &Array, key: &Bound<'_, PyAny>, value: Arg) -> R<()> {
    let py = key.py();
    let parts = parts(key)?;
    // As NumPy does: the array's dtype is what counts.
    let value = match value {
        Arg::Tensor(t) => {
            let of = array.get(py).dtype();
            Arg::Tensor(if t.dtype() == of { t } else { t.cast(of) })
        }
        Arg::Number(Number::Float(v)) if !is_fractional(array.get(py).dtype()) => Arg::Number(Number::Int(v as i128)),
        number => number,
    };
    array
        .change(py, move |tensor| tensor.set(&parts[..], value.operand()))
        .map_err(|error| if error.kind() == ErrorKind::Argument { Fail::Index(error) } else { Fail::Engine(error) })
}
