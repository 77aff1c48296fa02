//! Arrays in other shapes, joined, taken apart, and picked from; as functions and as methods.

use millstream::{DType, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::{AxisArg, Ints, spread};
use crate::array::{Array, Made};
use crate::convert::{Arg, Number, X, both};
use crate::device::DeviceArg;
use crate::dtype::DTypeArg;
use crate::error::{R, type_error, value_error};
use crate::exchange::own;
use crate::functions::{add, elementwise};

/// Tensors as a tuple of arrays.
pub fn tuple(py: Python<'_>, tensors: impl IntoIterator<Item = Tensor>) -> R<Bound<'_, PyTuple>> {
    let made = tensors.into_iter().map(Made).collect::<Vec<_>>();
    Ok(PyTuple::new(py, made)?)
}

/// The array in another dtype, or the array itself.
#[pyfunction]
#[pyo3(signature = (x, dtype, /, *, copy = true, device = None))]
fn astype(x: X, dtype: DTypeArg, copy: bool, device: Option<DeviceArg>) -> Made {
    // Arrays share values until one is assigned to: to Python a new array is a copy.
    let made = x.0.cast(dtype.0);
    let made = if copy { own(made) } else { made };
    Made(device.map_or_else(|| made.clone(), |d| made.to(&d.0)))
}

/// Arrays in the shape in which they fit together.
#[pyfunction]
#[pyo3(signature = (*arrays))]
fn broadcast_arrays<'py>(py: Python<'py>, arrays: Vec<X>) -> R<Bound<'py, PyTuple>> {
    tuple(py, Tensor::broadcast_all(arrays.iter().map(|x| &x.0))?)
}

/// The shape in which these shapes fit together.
#[pyfunction]
#[pyo3(signature = (*shapes))]
fn broadcast_shapes<'py>(py: Python<'py>, shapes: Vec<Ints>) -> R<Bound<'py, PyTuple>> {
    let mut all = millstream::core::what::Dims::new();
    for shape in shapes {
        let shape = shape.list.iter().map(|&n| usize::try_from(n));
        let shape = shape.collect::<Result<Vec<_>, _>>().map_err(|_| value_error("a negative size in a shape"))?;
        all = millstream::core::what::broadcast_shapes(&all, &shape)?;
    }
    Ok(PyTuple::new(py, all)?)
}

/// The array as a view of that shape; axes of size 1 repeat.
#[pyfunction]
#[pyo3(signature = (x, /, shape))]
fn broadcast_to(x: X, shape: Ints) -> Made {
    Made(x.0.broadcast(shape.shape()))
}

/// Elements below `min` raised to it, above `max` lowered to it.
#[pyfunction]
#[pyo3(signature = (x, /, min = None, max = None))]
fn clip(x: X, min: Option<Arg>, max: Option<Arg>) -> Made {
    let of = x.0.dtype();
    // A bound of the array's own kind does not change its dtype.
    let bound = |b: Arg| match b {
        Arg::Number(Number::Float(v)) if of.is_integer() && v.fract() == 0.0 => Arg::Number(Number::Int(v as i128)),
        other => other,
    };
    let mut made = x.0;
    if let Some(low) = min {
        made = made.maximum(bound(low).operand());
    }
    if let Some(high) = max {
        made = made.minimum(bound(high).operand());
    }
    Made(own(made))
}

/// Arrays one behind the other along an axis; without one, all flat.
#[pyfunction]
#[pyo3(signature = (arrays, /, axis = Some(0)), text_signature = "(arrays, /, axis=0)")]
fn concat(arrays: Vec<X>, axis: Option<isize>) -> Made {
    Made(match axis {
        Some(axis) => Tensor::concat(arrays.iter().map(|x| &x.0), axis),
        None => Tensor::concat(arrays.iter().map(|x| x.0.reshape(-1)), 0),
    })
}

/// The differences of neighbours along an axis, `n` times.
#[pyfunction]
#[pyo3(signature = (x, /, n = 1, axis = -1, *, prepend = None, append = None))]
fn diff(x: X, n: usize, axis: isize, prepend: Option<X>, append: Option<X>) -> Made {
    let parts = [prepend, Some(x), append];
    let parts: Vec<Tensor> = parts.into_iter().flatten().map(|x| x.0).collect();
    let mut made = if parts.len() == 1 { parts[0].clone() } else { Tensor::concat(parts, axis) };
    for _ in 0..n {
        made = if made.dtype() == DType::Bool {
            made.slice(axis, 1..).xor(&made.slice(axis, ..-1))
        } else {
            made.diff(axis)
        };
    }
    Made(made)
}

/// New axes of size 1 at these places of the result.
#[pyfunction]
#[pyo3(signature = (x, /, axis = Ints::one(0)), text_signature = "(x, /, axis=0)")]
fn expand_dims(x: X, axis: Ints) -> R<Made> {
    let rank = x.0.rank() + axis.list.len();
    let mut places = Vec::new();
    for &a in &axis.list {
        let at = if a < 0 { a + rank as isize } else { a };
        match usize::try_from(at).ok().filter(|&at| at < rank) {
            Some(at) if places.contains(&at) => return Err(value_error(format!("axis {at} is named twice"))),
            Some(at) => places.push(at),
            None => return Err(millstream::Error::axis(a, rank).into()),
        }
    }
    places.sort_unstable();
    Ok(Made(places.into_iter().fold(x.0, |x, at| x.unsqueeze(at))))
}

/// The elements in reverse order along axes.
#[pyfunction]
#[pyo3(signature = (x, /, axis = AxisArg::default()), text_signature = "(x, /, axis=None)")]
fn flip(x: X, axis: AxisArg) -> Made {
    Made(x.0.flip(axis.axes()))
}

/// Axes moved to other places.
#[pyfunction]
#[pyo3(signature = (x, source, destination, /))]
fn moveaxis(x: X, source: Ints, destination: Ints) -> R<Made> {
    let rank = x.0.rank();
    let front = |axes: &Ints| -> R<Vec<usize>> {
        let mut list = Vec::new();
        for &a in &axes.list {
            let at = if a < 0 { a + rank as isize } else { a };
            match usize::try_from(at).ok().filter(|&at| at < rank) {
                Some(at) if list.contains(&at) => return Err(value_error(format!("axis {at} is named twice"))),
                Some(at) => list.push(at),
                None => return Err(millstream::Error::axis(a, rank).into()),
            }
        }
        Ok(list)
    };
    let (from, to) = (front(&source)?, front(&destination)?);
    if from.len() != to.len() {
        return Err(value_error(format!("{} axes cannot move to {} places", from.len(), to.len())));
    }
    let mut order: Vec<usize> = (0..rank).filter(|d| !from.contains(d)).collect();
    let mut moves: Vec<_> = to.into_iter().zip(from).collect();
    moves.sort_unstable();
    for (to, from) in moves {
        order.insert(to, from);
    }
    Ok(Made(x.0.permute(order)))
}

/// The axes in another order.
#[pyfunction]
#[pyo3(signature = (x, /, axes))]
fn permute_dims(x: X, axes: Ints) -> R<Made> {
    if axes.list.len() != x.0.rank() {
        return Err(value_error(format!("{} axes for {} dimensions", axes.list.len(), x.0.rank())));
    }
    Ok(Made(x.0.permute(axes.axes())))
}

/// Each element several times.
#[pyfunction]
#[pyo3(signature = (x, repeats, /, axis = None))]
fn repeat(x: X, repeats: Arg, axis: Option<isize>) -> R<Made> {
    let (x, axis) = match axis {
        Some(axis) => (x.0, axis),
        None => (x.0.reshape(-1), 0),
    };
    Ok(Made(match repeats {
        Arg::Number(Number::Int(n)) => {
            let n = usize::try_from(n).map_err(|_| value_error(format!("{n} times is no number of repetitions")))?;
            x.repeat(n, axis)
        }
        Arg::Number(_) => return Err(type_error("repeats are integers")),
        Arg::Tensor(counts) => {
            let shape = x.dims()?;
            let at = if axis < 0 { axis + shape.len() as isize } else { axis };
            let Some(&n) = usize::try_from(at).ok().and_then(|at| shape.get(at)) else {
                return Err(millstream::Error::axis(axis, shape.len()).into());
            };
            let counts = counts.cast(DType::I64).reshape(-1).broadcast(n);
            let list = counts.to_vec::<i64>()?;
            if list.iter().any(|&c| c < 0) {
                return Err(value_error("repeats are not negative"));
            }
            let each = (0..).zip(&list).flat_map(|(i, &c)| std::iter::repeat_n(i, c as usize));
            x.take(&Tensor::from_slice(&each.collect::<Vec<i64>>()), axis)
        }
    }))
}

/// The elements in another shape; one size may be -1.
#[pyfunction]
#[pyo3(signature = (x, /, shape, *, copy = None))]
fn reshape(x: X, shape: Ints, copy: Option<bool>) -> R<Made> {
    let made = x.0.reshape(shape.shape());
    if copy == Some(false) && made.check().is_ok() && x.0.layout().reshape(made.dims()?)?.is_none() {
        return Err(value_error("this shape needs a copy\n  try: copy=None"));
    }
    Ok(Made(if copy == Some(true) { own(made) } else { made }))
}

/// Elements shifted along axes; what leaves one end enters the other.
#[pyfunction]
#[pyo3(signature = (x, /, shift, *, axis = AxisArg::default()), text_signature = "(x, /, shift, *, axis=None)")]
fn roll(x: X, shift: Ints, axis: AxisArg) -> R<Made> {
    let Some(axes) = axis.named() else {
        let shape = x.0.dims()?.to_vec();
        return Ok(Made(x.0.reshape(-1).roll(&shift.list[..], 0).reshape(shape)));
    };
    // One shift for all axes; an axis may be named more than once.
    let shifts = if shift.alone { vec![shift.list[0]; axes.len()] } else { shift.list.to_vec() };
    if shifts.len() != axes.len() {
        return Err(value_error(format!("{} shifts for {} axes", shifts.len(), axes.len())));
    }
    let rolled = shifts.iter().zip(axes).fold(x.0, |x, (&shift, &axis)| x.roll(shift, axis));
    Ok(Made(rolled))
}

/// Without these axes, which have size 1.
#[pyfunction]
#[pyo3(signature = (x, /, axis = AxisArg::default()), text_signature = "(x, /, axis=None)")]
fn squeeze(x: X, axis: AxisArg) -> Made {
    Made(x.0.squeeze(axis.axes()))
}

/// Arrays of one shape along a new axis.
#[pyfunction]
#[pyo3(signature = (arrays, /, axis = 0))]
fn stack(arrays: Vec<X>, axis: isize) -> Made {
    Made(Tensor::stack(arrays.iter().map(|x| &x.0), axis))
}

/// The slices of an axis, or of the flat array, at these indices.
#[pyfunction]
#[pyo3(signature = (x, indices, /, axis = None))]
fn take(x: X, indices: X, axis: Option<isize>) -> R<Made> {
    let axis = match axis {
        Some(axis) => axis,
        None if x.0.rank() == 1 => 0,
        None => return Ok(Made(x.0.reshape(-1).take(&indices.0, 0))),
    };
    Ok(Made(x.0.take(&indices.0, axis)))
}

/// The elements of an axis at these indices, with an index for each element of the result.
#[pyfunction]
#[pyo3(signature = (x, indices, /, axis = -1))]
fn take_along_axis(x: X, indices: X, axis: isize) -> Made {
    Made(x.0.take_along_axis(&indices.0, axis))
}

/// The array several times side by side.
#[pyfunction]
#[pyo3(signature = (x, repetitions, /))]
fn tile(x: X, repetitions: Ints) -> R<Made> {
    let times = repetitions.list.iter().map(|&n| usize::try_from(n)).collect::<Result<Vec<_>, _>>();
    let times = times.map_err(|_| value_error("a negative number of repetitions"))?;
    Ok(Made(x.0.tile(&times)))
}

/// The slices along an axis.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = 0))]
fn unstack<'py>(py: Python<'py>, x: X, axis: isize) -> R<Bound<'py, PyTuple>> {
    tuple(py, x.0.unstack(axis)?)
}

/// Elements of `x1` where the condition is true, of `x2` where it is not.
#[pyfunction]
#[pyo3(name = "where", signature = (condition, x1, x2, /))]
fn where_(condition: X, x1: Arg, x2: Arg) -> R<Made> {
    let condition = if condition.0.dtype() == DType::Bool { condition.0 } else { condition.0.ne(0) };
    // A number beside an array takes its dtype as in an operation.
    let (a, b) = both(x1, x2)?;
    Ok(Made(condition.where_(&a, &b)))
}

/// Rounded to whole numbers, or to so many decimals; halves to even.
#[pyfunction]
#[pyo3(signature = (x, /, decimals = 0))]
fn round(x: X, decimals: i32) -> Made {
    if decimals == 0 {
        return Made(x.0.round());
    }
    let scale = 10f64.powi(decimals);
    let of = x.0.dtype();
    Made(((&x.0 * scale).round() / scale).cast(if of.is_integer() { of } else { x.0.dtype() }))
}

/// Each matrix of the last two axes transposed.
#[pyfunction]
#[pyo3(signature = (x, /))]
pub fn matrix_transpose(x: X) -> Made {
    Made(x.0.transpose())
}

/// Padded along each axis by so many elements before and after it.
#[pyfunction]
#[pyo3(signature = (x, /, pad_width, mode = "constant", constant_values = Arg::Number(Number::Int(0))),
    text_signature = "(x, /, pad_width, mode='constant', constant_values=0)")]
fn pad(x: X, pad_width: &Bound<'_, PyAny>, mode: &str, constant_values: Arg) -> R<Made> {
    let rank = x.0.rank();
    let amounts: Vec<(usize, usize)> = if let Ok(all) = pad_width.extract::<usize>() {
        vec![(all, all); rank]
    } else if let Ok(one) = pad_width.extract::<(usize, usize)>() {
        vec![one; rank]
    } else {
        pad_width.extract()?
    };
    Ok(Made(match mode {
        "constant" => x.0.pad(&amounts, constant_values.operand()),
        "reflect" => x.0.pad_with(&amounts, millstream::Padding::Reflect),
        "edge" => x.0.pad_with(&amounts, millstream::Padding::Replicate),
        "wrap" => x.0.pad_with(&amounts, millstream::Padding::Circular),
        other => return Err(value_error(format!("mode={other:?}\n  try: constant, reflect, edge or wrap"))),
    }))
}

/// Einstein's sum: `einsum("ij,jk->ik", a, b)`.
#[pyfunction]
#[pyo3(signature = (formula, /, *operands))]
fn einsum(formula: &str, operands: Vec<X>) -> Made {
    Made(Tensor::einsum(formula, operands.iter().map(|x| &x.0)))
}

/// NaN and infinities replaced by numbers.
#[pyfunction]
#[pyo3(signature = (x, /, nan = 0.0, posinf = None, neginf = None))]
fn nan_to_num(x: X, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Made {
    Made(x.0.nan_to_num(nan, posinf, neginf))
}

#[pymethods]
impl Array {
    /// The array in another dtype.
    #[pyo3(signature = (dtype, /, *, copy = true))]
    fn astype(&self, py: Python<'_>, dtype: DTypeArg, copy: bool) -> Made {
        let made = self.get(py).cast(dtype.0);
        Made(if copy { own(made) } else { made })
    }

    /// A copy: to Python each array has its own values.
    fn copy(&self, py: Python<'_>) -> Made {
        Made(own(self.get(py)))
    }

    /// The elements in another shape; one size may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> R<Made> {
        Ok(Made(self.get(py).reshape(spread(shape)?.shape())))
    }

    /// The elements along one axis.
    fn ravel(&self, py: Python<'_>) -> Made {
        Made(self.get(py).reshape(-1))
    }

    /// The elements along one axis.
    fn flatten(&self, py: Python<'_>) -> Made {
        Made(self.get(py).reshape(-1))
    }

    /// The axes in another order; without one, reversed.
    #[pyo3(signature = (*axes))]
    fn transpose(&self, py: Python<'_>, axes: &Bound<'_, PyTuple>) -> R<Made> {
        let x = self.get(py);
        let order = if axes.is_empty() || (axes.len() == 1 && axes.get_item(0)?.is_none()) {
            (0..x.rank() as isize).rev().collect()
        } else {
            spread(axes)?.list.to_vec()
        };
        Ok(Made(x.permute(order)))
    }

    /// The axes in another order.
    #[pyo3(signature = (*axes))]
    fn permute(&self, py: Python<'_>, axes: &Bound<'_, PyTuple>) -> R<Made> {
        Ok(Made(self.get(py).permute(spread(axes)?.axes())))
    }

    /// Without these axes, which have size 1; without any, without all of size 1.
    #[pyo3(signature = (axis = AxisArg::default()), text_signature = "($self, axis=None)")]
    fn squeeze(&self, py: Python<'_>, axis: AxisArg) -> Made {
        Made(self.get(py).squeeze(axis.axes()))
    }

    /// A new axis of size 1.
    fn unsqueeze(&self, py: Python<'_>, axis: isize) -> Made {
        Made(self.get(py).unsqueeze(axis))
    }

    /// Two axes exchanged.
    fn swapaxes(&self, py: Python<'_>, axis1: isize, axis2: isize) -> Made {
        Made(self.get(py).swapaxes(axis1, axis2))
    }

    /// Each element several times.
    #[pyo3(signature = (repeats, axis = None))]
    fn repeat(&self, py: Python<'_>, repeats: Arg, axis: Option<isize>) -> R<Made> {
        repeat(X(self.get(py)), repeats, axis)
    }

    /// The slices of an axis, or of the flat array, at these indices.
    #[pyo3(signature = (indices, axis = None))]
    fn take(&self, py: Python<'_>, indices: X, axis: Option<isize>) -> R<Made> {
        take(X(self.get(py)), indices, axis)
    }

    /// Elements below `min` raised to it, above `max` lowered to it.
    #[pyo3(signature = (min = None, max = None))]
    fn clip(&self, py: Python<'_>, min: Option<Arg>, max: Option<Arg>) -> Made {
        clip(X(self.get(py)), min, max)
    }

    /// Rounded to whole numbers, or to so many decimals.
    #[pyo3(signature = (decimals = 0))]
    fn round(&self, py: Python<'_>, decimals: i32) -> Made {
        round(X(self.get(py)), decimals)
    }

    #[pyo3(signature = (ndigits = None))]
    fn __round__(&self, py: Python<'_>, ndigits: Option<i32>) -> Made {
        round(X(self.get(py)), ndigits.unwrap_or(0))
    }

    /// The complex conjugate.
    fn conj(&self, py: Python<'_>) -> Made {
        Made(self.get(py).conj())
    }

    /// The product of matrices, vectors and batches of them.
    fn dot(&self, py: Python<'_>, other: Arg) -> R<Made> {
        crate::convert::pair(Arg::Tensor(self.get(py)), other, elementwise::op::matmul)
    }

    /// The diagonals of the matrices of the last two axes.
    #[pyo3(signature = (offset = 0))]
    fn diagonal(&self, py: Python<'_>, offset: isize) -> Made {
        Made(self.get(py).diagonal(offset))
    }

    /// The sums of the diagonals of the matrices of the last two axes.
    #[pyo3(signature = (offset = 0))]
    fn trace(&self, py: Python<'_>, offset: isize) -> Made {
        Made(self.get(py).trace(offset))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(module: astype, broadcast_arrays, broadcast_shapes, broadcast_to, clip, concat, diff, einsum, expand_dims, flip,
        matrix_transpose, moveaxis, nan_to_num, pad, permute_dims, repeat, reshape, roll, round, squeeze, stack, take,
        take_along_axis, tile, unstack, where_);
    Ok(())
}
