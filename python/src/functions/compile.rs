//! Compiled functions: a graph that is built once and run with new arrays again and again.

use std::sync::OnceLock;

use millstream::{CompiledMany, Error, Tensor, compile_many};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::{Array, Made};
use crate::convert::X;
use crate::error::R;
use crate::functions::add;
use crate::functions::manipulation::tuple;
use crate::released::{attached, released};

/// What the function did besides describing arrays.
#[derive(Default)]
struct Told {
    /// Whether it returns one array, not several.
    single: OnceLock<bool>,
    /// The exception that it raised.
    raised: Mutex<Option<PyErr>>,
}

/// A function of arrays whose graph is built once for each kind of arguments: shapes, strides, dtypes, devices.
///
/// The function is called with stand-ins that have no values, once for each kind. Later calls only run the plan.
#[pyclass(frozen, name = "_Compiled", module = "millstream._millstream")]
struct Compiled {
    compiled: CompiledMany<'static>,
    told: std::sync::Arc<Told>,
    #[pyo3(get)]
    function: Py<PyAny>,
    /// What calls with other arguments than arrays do.
    otherwise: Py<PyAny>,
}

/// What the Python function returns, as tensors.
fn results(py: Python<'_>, function: &Py<PyAny>, inputs: &[&Tensor], told: &Told) -> R<Vec<Tensor>> {
    let arrays = inputs.iter().map(|&t| Made(t.clone())).collect::<Vec<_>>();
    let made = function.bind(py).call1(PyTuple::new(py, arrays)?)?;
    let (list, single) = match made.cast::<PyTuple>() {
        Ok(several) => (several.iter().map(|x| Ok(x.extract::<X>()?.0)).collect::<R<Vec<_>>>()?, false),
        Err(_) => (vec![made.extract::<X>()?.0], true),
    };
    if *told.single.get_or_init(|| single) != single {
        let text = "a compiled function returns either an array or a tuple of arrays, always the same";
        return Err(crate::error::type_error(text));
    }
    Ok(list)
}

#[pymethods]
impl Compiled {
    #[new]
    fn new(function: Py<PyAny>, otherwise: Py<PyAny>) -> Compiled {
        let told = std::sync::Arc::new(Told::default());
        let (own, known) = attached(|py| (function.clone_ref(py), told.clone()));
        let compiled = compile_many(move |inputs| {
            attached(|py| results(py, &own, inputs, &known)).map_err(|fail| {
                *known.raised.lock() = Some(fail.into());
                Error::argument("the compiled function raised an exception")
            })
        });
        Compiled { compiled, told, function, otherwise }
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> R<Bound<'py, PyAny>> {
        let plain =
            kwargs.is_none_or(|k| k.is_empty()) && args.iter_borrowed().all(|x| x.is_exact_instance_of::<Array>());
        if !plain {
            return Ok(self.otherwise.bind(py).call1((args, kwargs))?);
        }
        let inputs: Vec<Tensor> =
            args.iter_borrowed().map(|x| Ok(x.cast::<Array>()?.get().get(py))).collect::<R<_>>()?;
        let outcome = released(py, || {
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            self.compiled.call(&inputs)
        });
        let list = match outcome {
            Ok(list) => list,
            Err(error) => return Err(self.told.raised.lock().take().map_or_else(|| error.into(), Into::into)),
        };
        if self.told.single.get() == Some(&false) {
            return Ok(tuple(py, list)?.into_any());
        }
        let mut list = list;
        match list.pop() {
            Some(one) => Ok(Made(one).into_pyobject(py)?.into_any()),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// How many kinds of arguments are remembered.
    #[getter]
    fn kinds(&self) -> usize {
        self.compiled.kinds()
    }
}

/// What the plan for arrays looks like: kernels, fusion, tiles, bytes, predicted time.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn explain(py: Python<'_>, x: X) -> R<String> {
    Ok(released(py, || x.0.explain())?)
}

/// Computes several arrays in one plan, so that what they share is computed once.
#[pyfunction]
#[pyo3(signature = (*arrays))]
fn eval(py: Python<'_>, arrays: Vec<X>) -> R<()> {
    Ok(released(py, || Tensor::eval_all(arrays.iter().map(|x| &x.0)))?)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Compiled>()?;
    add!(module: explain, eval);
    Ok(())
}
