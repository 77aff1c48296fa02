//! Linear algebra, below `millstream.linalg`.

use millstream::MatrixNorm;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::arguments::{AxisArg, Ints};
use crate::array::Made;
use crate::convert::X;
use crate::dtype::DTypeArg;
use crate::error::{R, value_error};
use crate::functions::add;
use crate::functions::manipulation::tuple;

/// The triangular factor of a positive definite matrix.
#[pyfunction]
#[pyo3(signature = (x, /, *, upper = false))]
fn cholesky(x: X, upper: bool) -> Made {
    Made(if upper { x.0.cholesky_upper() } else { x.0.cholesky() })
}

/// The cross product of vectors of 3 elements.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axis = -1))]
fn cross(x1: X, x2: X, axis: isize) -> Made {
    Made(x1.0.cross(&x2.0, axis))
}

/// The determinant.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn det(x: X) -> Made {
    Made(x.0.det())
}

/// The diagonals of matrices.
#[pyfunction]
#[pyo3(signature = (x, /, *, offset = 0))]
fn diagonal(x: X, offset: isize) -> Made {
    Made(x.0.diagonal(offset))
}

#[pyfunction]
fn eig<'py>(py: Python<'py>, x: X) -> R<Bound<'py, PyTuple>> {
    let (values, vectors) = x.0.eig();
    tuple(py, [values, vectors])
}

/// The eigenvalues of any square matrix; complex numbers always.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn eigvals(x: X) -> Made {
    Made(x.0.eigvals())
}

#[pyfunction]
fn eigh<'py>(py: Python<'py>, x: X) -> R<Bound<'py, PyTuple>> {
    let (values, vectors) = x.0.eigh();
    tuple(py, [values, vectors])
}

/// The eigenvalues of a symmetric or Hermitian matrix, ascending.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn eigvalsh(x: X) -> Made {
    Made(x.0.eigvalsh())
}

/// The inverse matrix.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn inv(x: X) -> Made {
    Made(x.0.inv())
}

/// A number or a name that says which norm is meant.
fn order(ord: &Bound<'_, PyAny>) -> R<MatrixNorm> {
    if let Ok(name) = ord.cast::<PyString>() {
        match &*name.to_cow()? {
            "fro" => return Ok(MatrixNorm::Frobenius),
            "nuc" => return Ok(MatrixNorm::Nuclear),
            _ => {}
        }
    } else {
        let number: f64 = ord.extract()?;
        for (of, norm) in [
            (1.0, MatrixNorm::One),
            (-1.0, MatrixNorm::MinusOne),
            (2.0, MatrixNorm::Two),
            (-2.0, MatrixNorm::MinusTwo),
            (f64::INFINITY, MatrixNorm::Infinity),
            (f64::NEG_INFINITY, MatrixNorm::MinusInfinity),
        ] {
            if of == number {
                return Ok(norm);
            }
        }
    }
    Err(value_error(format!("ord={}\n  try: \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf", ord.repr()?)))
}

/// The size of matrices.
#[pyfunction]
#[pyo3(signature = (x, /, *, keepdims = false, ord = None), text_signature = "(x, /, *, keepdims=False, ord='fro')")]
fn matrix_norm(x: X, keepdims: bool, ord: Option<&Bound<'_, PyAny>>) -> R<Made> {
    let norm = x.0.matrix_norm(ord.map_or(Ok(MatrixNorm::Frobenius), order)?);
    Ok(Made(if keepdims { norm.unsqueeze(-1).unsqueeze(-1) } else { norm }))
}

/// The size of vectors along axes.
#[pyfunction]
#[pyo3(
    signature = (x, /, *, axis = AxisArg::default(), keepdims = false, ord = 2.0),
    text_signature = "(x, /, *, axis=None, keepdims=False, ord=2)"
)]
fn vector_norm(x: X, axis: AxisArg, keepdims: bool, ord: f64) -> Made {
    Made(if keepdims { x.0.vector_norm_keepdim(ord, axis.axes()) } else { x.0.vector_norm(ord, axis.axes()) })
}

/// The power of a matrix.
#[pyfunction]
#[pyo3(signature = (x, n, /))]
fn matrix_power(x: X, n: i64) -> Made {
    Made(x.0.matrix_power(n))
}

/// The number of singular values that are not about 0.
#[pyfunction]
fn matrix_rank(x: X, rtol: Option<f64>) -> Made {
    Made(x.0.matrix_rank(rtol))
}

/// All products of the elements of two vectors.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn outer(x1: X, x2: X) -> Made {
    Made(x1.0.outer(&x2.0))
}

/// The pseudo-inverse.
#[pyfunction]
fn pinv(x: X, rtol: Option<f64>) -> Made {
    Made(x.0.pinv(rtol))
}

#[pyfunction]
fn qr<'py>(py: Python<'py>, x: X, complete: bool) -> R<Bound<'py, PyTuple>> {
    let (q, r) = if complete { x.0.qr_complete() } else { x.0.qr() };
    tuple(py, [q, r])
}

#[pyfunction]
fn slogdet<'py>(py: Python<'py>, x: X) -> R<Bound<'py, PyTuple>> {
    let (sign, log) = x.0.slogdet();
    tuple(py, [sign, log])
}

/// The solution of linear equations. One dimension in `x2` is a vector, more are matrices.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn solve(x1: X, x2: X) -> Made {
    Made(x1.0.solve(&x2.0))
}

#[pyfunction]
fn svd<'py>(py: Python<'py>, x: X, full: bool) -> R<Bound<'py, PyTuple>> {
    let (u, s, v) = if full { x.0.svd_full() } else { x.0.svd() };
    tuple(py, [u, s, v])
}

/// The singular values, descending.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn svdvals(x: X) -> Made {
    Made(x.0.svdvals())
}

/// The sums of the diagonals of matrices.
#[pyfunction]
#[pyo3(signature = (x, /, *, offset = 0, dtype = None))]
fn trace(x: X, offset: isize, dtype: Option<DTypeArg>) -> Made {
    Made(match dtype {
        Some(dtype) => x.0.cast(dtype.0).trace(offset).cast(dtype.0),
        None => x.0.trace(offset),
    })
}

/// The product over pairs of axes: so many last and first ones, or two lists of them.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axes = None), text_signature = "(x1, x2, /, *, axes=2)")]
fn tensordot(x1: X, x2: X, axes: Option<&Bound<'_, PyAny>>) -> R<Made> {
    let pairs = match axes {
        Some(axes) if axes.extract::<isize>().is_err() => axes.extract::<(Ints, Ints)>()?,
        _ => {
            let n = axes.map_or(Ok(2), |axes| axes.extract::<isize>())?;
            let rank = x1.0.rank() as isize;
            if n < 0 || n > rank || n > x2.0.rank() as isize {
                return Err(value_error(format!("axes={n} for {rank} and {} dimensions", x2.0.rank())));
            }
            (Ints::many(rank - n..rank), Ints::many(0..n))
        }
    };
    Ok(Made(x1.0.tensordot(&x2.0, pairs.0.axes(), pairs.1.axes())))
}

/// The dot products of vectors along an axis; those of `x1` are conjugated.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axis = -1))]
fn vecdot(x1: X, x2: X, axis: isize) -> Made {
    Made(x1.0.conj().vecdot(&x2.0, axis))
}

/// The Kronecker product.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn kron(x1: X, x2: X) -> Made {
    Made(x1.0.kron(&x2.0))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(module: tensordot, vecdot);
    let own = &PyModule::new(module.py(), "_linalg")?;
    {
        let module = own;
        add!(module: cholesky, cross, det, diagonal, eig, eigh, eigvals, eigvalsh, inv, kron, matrix_norm, vector_norm, matrix_power, matrix_rank,
            outer, pinv, qr, slogdet, solve, svd, svdvals, trace);
    }
    module.add("_linalg", own)
}
