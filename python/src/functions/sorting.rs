//! Sorting, searching and sets; results whose shape depends on values are computed at once.

use millstream::{DType, Order, Side, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::{Array, Made};
use crate::convert::{Arg, Number, X, both};
use crate::dtype::{self, DTypeArg, PyDType};
use crate::error::{Fail, R, value_error};
use crate::functions::add;
use crate::functions::manipulation::tuple;
use crate::released::released;

fn order(descending: bool) -> Order {
    if descending { Order::Descending } else { Order::Ascending }
}

/// The elements sorted along an axis.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = -1, descending = false, stable = true))]
fn sort(x: X, axis: isize, descending: bool, stable: bool) -> Made {
    // Every sort is stable.
    let _ = stable;
    Made(x.0.sort(axis, order(descending)))
}

/// The indices that sort the elements along an axis.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = -1, descending = false, stable = true))]
fn argsort(x: X, axis: isize, descending: bool, stable: bool) -> Made {
    let _ = stable;
    Made(x.0.argsort(axis, order(descending)))
}

/// The `k` largest elements along an axis and their indices; the smallest where `largest` is false.
#[pyfunction]
#[pyo3(signature = (x, k, /, *, axis = -1, largest = true))]
fn topk<'py>(py: Python<'py>, x: X, k: usize, axis: isize, largest: bool) -> R<Bound<'py, PyTuple>> {
    let (values, indices) = x.0.topk(k, axis, order(largest));
    tuple(py, [values, indices])
}

/// The indices of the elements that are not 0, one array for each axis.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn nonzero<'py>(py: Python<'py>, x: X) -> R<Bound<'py, PyTuple>> {
    tuple(py, released(py, || x.0.nonzero())?)
}

/// Where values would stand among sorted ones.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, side = "left", sorter = None))]
fn searchsorted(x1: X, x2: Arg, side: &str, sorter: Option<X>) -> R<Made> {
    let side = match side {
        "left" => Side::Left,
        "right" => Side::Right,
        other => return Err(value_error(format!("side={other:?}\n  try: \"left\" or \"right\""))),
    };
    let sorted = sorter.map_or_else(|| x1.0.clone(), |s| x1.0.take(&s.0, 0));
    let values = match x2.beyond(sorted.dtype()) {
        // Beyond all that the dtype holds.
        Some(above) => return Ok(Made(Tensor::scalar(if above { sorted.len() as i64 } else { 0 }))),
        None => x2.beside(sorted.dtype())?,
    };
    Ok(Made(sorted.searchsorted(&values, side)))
}

/// Whether each element is one of those of `x2`.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, invert = false))]
fn isin(x1: Arg, x2: Arg, invert: bool) -> R<Made> {
    let found = match (x1, x2) {
        // A number that the dtype does not hold is not among its values.
        (Arg::Tensor(a), b @ Arg::Number(_)) => a.eq(b.operand()),
        (a @ Arg::Number(_), Arg::Tensor(b)) => b.eq(a.operand()).any(..),
        (a, b) => {
            let (a, b) = both(a, b)?;
            a.isin(&b)
        }
    };
    Ok(Made(if invert { found.not() } else { found }))
}

/// Distinct values, where each stands first, which one each element is, and how often each is there.
#[pyfunction]
fn _unique<'py>(py: Python<'py>, x: X) -> R<Bound<'py, PyTuple>> {
    // Each NaN is a value of its own, and the two zeros are one.
    let (values, first, inverse, counts) = released(py, || x.0.unique_all());
    tuple(py, [values, first, inverse, counts])
}

/// What an array is compared with: a number stays one, lists are arrays, too.
struct Second(Arg);

impl<'py> FromPyObject<'_, 'py> for Second {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Second> {
        Ok(Second(match Number::of(&obj)? {
            Some(number) => Arg::Number(number),
            None => Arg::Tensor(obj.extract::<X>()?.0),
        }))
    }
}

/// Whether all elements are close to each other.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, rtol = 1e-5, atol = 1e-8, equal_nan = false))]
fn allclose(py: Python<'_>, x1: X, x2: Second, rtol: f64, atol: f64, equal_nan: bool) -> R<bool> {
    let close = isclose(x1, x2, rtol, atol, equal_nan).0.all(..);
    Ok(released(py, || close.item::<bool>())?)
}

/// True where elements are close to each other.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, rtol = 1e-5, atol = 1e-8, equal_nan = false))]
fn isclose(x1: X, x2: Second, rtol: f64, atol: f64, equal_nan: bool) -> Made {
    let tolerance = millstream::Tolerance::new(rtol, atol);
    Made(x1.0.isclose(x2.0.operand(), if equal_nan { tolerance.equal_nan() } else { tolerance }))
}

/// The dtype in which these meet: arrays, dtypes, numbers.
#[pyfunction]
#[pyo3(signature = (*arrays_and_dtypes))]
fn result_type(arrays_and_dtypes: &Bound<'_, PyTuple>) -> R<Py<PyDType>> {
    let mut all: Option<DType> = None;
    let mut numbers = Vec::new();
    for item in arrays_and_dtypes.iter_borrowed() {
        let of = if let Ok(array) = item.cast::<Array>() {
            array.get().get(item.py()).dtype()
        } else if let Some(number) = Number::of(&item)? {
            numbers.push(number);
            continue;
        } else if let Ok(dtype) = item.extract::<DTypeArg>() {
            dtype.0
        } else {
            item.extract::<X>()?.0.dtype()
        };
        all = Some(match all {
            Some(all) => all.promote(of)?,
            None => of,
        });
    }
    for number in numbers {
        let of = all.map_or_else(|| number.dtype(), |all| number.dtype_beside(all));
        all = Some(all.map_or(Ok(of), |all| all.promote(of))?);
    }
    match all {
        Some(all) => Ok(dtype::object(arrays_and_dtypes.py(), all)),
        None => Err(value_error("result_type needs an array or a dtype")),
    }
}

/// Whether values of one dtype become those of the other by promotion.
#[pyfunction]
#[pyo3(signature = (from_, to, /))]
fn can_cast(from_: &Bound<'_, PyAny>, to: DTypeArg) -> Result<bool, Fail> {
    let from = match from_.cast::<Array>() {
        Ok(array) => array.get().get(from_.py()).dtype(),
        Err(_) => from_.extract::<DTypeArg>()?.0,
    };
    // A float type does not hold every integer.
    let exact = to.0.is_integer() || !from.is_integer();
    Ok(exact && from.promote(to.0).is_ok_and(|d| d == to.0))
}

#[pymethods]
impl Array {
    /// The indices that sort the elements along an axis.
    #[pyo3(signature = (axis = -1, descending = false))]
    fn argsort(&self, py: Python<'_>, axis: isize, descending: bool) -> Made {
        Made(self.get(py).argsort(axis, order(descending)))
    }

    /// The indices of the elements that are not 0, one array for each axis.
    fn nonzero<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyTuple>> {
        nonzero(py, X(self.get(py)))
    }
}

/// The largest and the smallest number of a dtype and the distance from 1 to the next, as exact floats.
#[pyfunction]
fn _limits(dtype: DTypeArg) -> (f64, f64, f64, f64) {
    let of = dtype.0.real();
    let (max, tiny) = match of {
        DType::F16 => (65504.0, f64::from(half::f16::MIN_POSITIVE)),
        DType::BF16 => (f64::from(half::bf16::MAX), f64::from(half::bf16::MIN_POSITIVE)),
        DType::F32 => (f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE)),
        _ => (f64::MAX, f64::MIN_POSITIVE),
    };
    (-max, max, of.epsilon(), tiny)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(module: sort, argsort, topk, nonzero, searchsorted, isin, _unique, allclose, isclose, result_type, can_cast, _limits);
    Ok(())
}
