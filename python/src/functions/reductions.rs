//! Sums, means, extremes, and running ones; as functions and as methods.

use millstream::core::Kind;
use millstream::{DType, Tensor};
use pyo3::prelude::*;

use crate::arguments::AxisArg;
use crate::array::{Array, Made};
use crate::convert::X;
use crate::dtype::DTypeArg;
use crate::error::{R, value_error};
use crate::functions::add;

/// A reduction as a function and as a method, with the engine's two forms of it.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident |$x:ident, $axes:ident| $drop:expr, $keep:expr;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, axis = AxisArg::default(), keepdims = false), text_signature = "(x, /, axis=None, keepdims=False)")]
        pub fn $name(x: X, axis: AxisArg, keepdims: bool) -> Made {
            let ($x, $axes) = (&x.0, axis.axes());
            Made(if keepdims { $keep } else { $drop })
        })*

        #[pymethods]
        impl Array {
            $($(#[$doc])*
            #[pyo3(signature = (axis = AxisArg::default(), keepdims = false), text_signature = "($self, axis=None, keepdims=False)")]
            fn $name(&self, py: Python<'_>, axis: AxisArg, keepdims: bool) -> Made {
                $name(X(self.get(py)), axis, keepdims)
            })*
        }

        fn register_plain(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

reductions! {
    /// Whether all elements over axes are true (not 0).
    all |x, axes| x.all(axes), x.all_keepdim(axes);
    /// Whether any element over axes is true (not 0).
    any |x, axes| x.any(axes), x.any_keepdim(axes);
    /// The index of the largest element over axes; the first of equals.
    argmax |x, axes| x.argmax(axes), x.argmax_keepdim(axes);
    /// The index of the smallest element over axes; the first of equals.
    argmin |x, axes| x.argmin(axes), x.argmin_keepdim(axes);
    /// How many elements over axes are not 0.
    count_nonzero |x, axes| x.count_nonzero(axes), x.count_nonzero_keepdim(axes);
    /// The largest element over axes.
    max |x, axes| x.max(axes), x.max_keepdim(axes);
    /// The smallest element over axes.
    min |x, axes| x.min(axes), x.min_keepdim(axes);
}

/// With a dtype: elements are taken in it before they are reduced.
macro_rules! typed {
    ($($(#[$doc:meta])* $name:ident |$x:ident, $axes:ident| $drop:expr, $keep:expr;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, /, axis = AxisArg::default(), dtype = None, keepdims = false),
            text_signature = "(x, /, axis=None, dtype=None, keepdims=False)"
        )]
        pub fn $name(x: X, axis: AxisArg, dtype: Option<DTypeArg>, keepdims: bool) -> Made {
            let ($x, $axes) = (&dtype.map_or_else(|| x.0.clone(), |d| x.0.cast(d.0)), axis.axes());
            let made = if keepdims { $keep } else { $drop };
            Made(dtype.map_or_else(|| made.clone(), |d| made.cast(d.0)))
        })*

        #[pymethods]
        impl Array {
            $($(#[$doc])*
            #[pyo3(
                signature = (axis = AxisArg::default(), dtype = None, keepdims = false),
                text_signature = "($self, axis=None, dtype=None, keepdims=False)"
            )]
            fn $name(&self, py: Python<'_>, axis: AxisArg, dtype: Option<DTypeArg>, keepdims: bool) -> Made {
                $name(X(self.get(py)), axis, dtype, keepdims)
            })*
        }

        fn register_typed(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

typed! {
    /// The mean over axes. Integers count as float32.
    mean |x, axes| x.mean(axes), x.mean_keepdim(axes);
    /// The product over axes. Integers are multiplied in 64 bits.
    prod |x, axes| x.prod(axes), x.prod_keepdim(axes);
    /// The sum over axes. Integers are summed in 64 bits.
    sum |x, axes| x.sum(axes), x.sum_keepdim(axes);
}

/// With a correction of the number of elements.
macro_rules! corrected {
    ($($(#[$doc:meta])* $name:ident $python:literal $drop:ident $keep:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(
            name = $python,
            signature = (x, /, axis = AxisArg::default(), correction = 0.0, keepdims = false),
            text_signature = "(x, /, axis=None, correction=0.0, keepdims=False)"
        )]
        pub fn $name(x: X, axis: AxisArg, correction: f64, keepdims: bool) -> Made {
            Made(if keepdims { x.0.$keep(correction, axis.axes()) } else { x.0.$drop(correction, axis.axes()) })
        })*

        #[pymethods]
        impl Array {
            $($(#[$doc])*
            #[pyo3(
                name = $python,
                signature = (axis = AxisArg::default(), correction = 0.0, keepdims = false),
                text_signature = "($self, axis=None, correction=0.0, keepdims=False)"
            )]
            fn $name(&self, py: Python<'_>, axis: AxisArg, correction: f64, keepdims: bool) -> Made {
                $name(X(self.get(py)), axis, correction, keepdims)
            })*
        }

        fn register_corrected(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

corrected! {
    /// The standard deviation over axes; `correction` is taken from the number of elements.
    deviation "std" std_corrected std_corrected_keepdim;
    /// The variance over axes; `correction` is taken from the number of elements.
    variance "var" var_corrected var_corrected_keepdim;
}

/// A running reduction; of an array of more than one axis, along the one named.
fn running(
    x: &Tensor,
    axis: Option<isize>,
    dtype: Option<DTypeArg>,
    initial: Option<i64>,
    scan: fn(&Tensor, isize) -> Tensor,
) -> R<Made> {
    let axis = match axis {
        Some(axis) => axis,
        None if x.rank() <= 1 => 0,
        None => return Err(value_error(format!("axis= is needed for {} dimensions", x.rank()))),
    };
    let x = if x.rank() == 0 { x.unsqueeze(0) } else { x.clone() };
    let of = dtype.map_or_else(
        || match x.dtype().kind() {
            Kind::Bool | Kind::Signed => DType::I64,
            Kind::Unsigned => DType::U64,
            _ => x.dtype(),
        },
        |d| d.0,
    );
    let mut made = scan(&x.cast(of), axis).cast(of);
    if let Some(initial) = initial {
        let mut shape = x.dims()?.to_vec();
        let at = if axis < 0 { axis + shape.len() as isize } else { axis };
        if let Some(size) = usize::try_from(at).ok().and_then(|at| shape.get_mut(at)) {
            *size = 1;
        }
        let first = Tensor::scalar(initial).cast(of).broadcast(shape);
        made = Tensor::concat([first, made], axis);
    }
    Ok(Made(made))
}

macro_rules! cumulative {
    ($($(#[$doc:meta])* $name:ident $method:ident $scan:ident $initial:expr;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, axis = None, dtype = None, include_initial = false))]
        pub fn $name(x: X, axis: Option<isize>, dtype: Option<DTypeArg>, include_initial: bool) -> R<Made> {
            running(&x.0, axis, dtype, include_initial.then_some($initial), |x, axis| x.$scan(axis))
        })*

        #[pymethods]
        impl Array {
            $($(#[$doc])*
            #[pyo3(signature = (axis = None, dtype = None))]
            fn $method(&self, py: Python<'_>, axis: Option<isize>, dtype: Option<DTypeArg>) -> R<Made> {
                let x = self.get(py);
                let x = if axis.is_none() { x.reshape(-1) } else { x };
                running(&x, axis, dtype, None, |x, axis| x.$scan(axis))
            })*
        }

        fn register_running(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

cumulative! {
    /// The product of each element and all before it.
    cumulative_prod cumprod cumprod 1;
    /// The sum of each element and all before it.
    cumulative_sum cumsum cumsum 0;
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_plain(module)?;
    register_typed(module)?;
    register_corrected(module)?;
    register_running(module)
}
