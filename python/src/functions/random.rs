//! Random numbers, the same on every device, below `millstream.random`.

use millstream::{DType, Generator, Tensor};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::arguments::Ints;
use crate::array::Made;
use crate::convert::{Arg, X, pair};
use crate::device::place;
use crate::dtype::DTypeArg;
use crate::error::R;
use crate::functions::elementwise::op;

/// Makes arrays of random numbers. The same seed gives the same sequence on every device.
#[pyclass(frozen, name = "Generator", module = "millstream.random")]
struct PyGenerator(Mutex<Generator>);

fn shape(size: Option<Ints>) -> Ints {
    size.unwrap_or_else(|| Ints::many([]))
}

fn float(dtype: Option<DTypeArg>) -> DType {
    dtype.map_or(DType::F32, |d| d.0)
}

/// `x * scale + shift`, without the operations where they change nothing.
fn scaled(x: Tensor, scale: Arg, shift: Arg) -> R<Tensor> {
    use crate::convert::Number::{Float, Int};
    let x = match scale {
        Arg::Number(Float(1.0) | Int(1)) => x,
        scale => pair(Arg::Tensor(x), scale, op::multiply)?.0,
    };
    Ok(match shift {
        Arg::Number(Float(0.0) | Int(0)) => x,
        shift => pair(Arg::Tensor(x), shift, op::add)?.0,
    })
}

const ZERO: Arg = Arg::Number(crate::convert::Number::Float(0.0));
const ONE: Arg = Arg::Number(crate::convert::Number::Float(1.0));

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (seed, /))]
    fn new(seed: u64) -> PyGenerator {
        PyGenerator(Mutex::new(Generator::new(seed)))
    }

    /// Numbers from 0 up to but without 1.
    #[pyo3(signature = (size = None, dtype = None))]
    fn random(&self, size: Option<Ints>, dtype: Option<DTypeArg>) -> Made {
        Made(place(self.0.lock().uniform(shape(size).shape(), float(dtype)), None))
    }

    /// Numbers from `low` up to but without `high`.
    #[pyo3(signature = (low = ZERO, high = ONE, size = None, dtype = None),
        text_signature = "($self, low=0.0, high=1.0, size=None, dtype=None)")]
    fn uniform(&self, low: Arg, high: Arg, size: Option<Ints>, dtype: Option<DTypeArg>) -> R<Made> {
        let x = self.0.lock().uniform(shape(size).shape(), float(dtype));
        let (low, high) = (low.beside(x.dtype())?, high.beside(x.dtype())?);
        Ok(Made(place(scaled(x, Arg::Tensor(&high - &low), Arg::Tensor(low))?, None)))
    }

    /// Numbers of the normal distribution around `loc` with the standard deviation `scale`.
    #[pyo3(signature = (loc = ZERO, scale = ONE, size = None, dtype = None),
        text_signature = "($self, loc=0.0, scale=1.0, size=None, dtype=None)")]
    fn normal(&self, loc: Arg, scale: Arg, size: Option<Ints>, dtype: Option<DTypeArg>) -> R<Made> {
        let x = self.0.lock().normal(shape(size).shape(), float(dtype));
        Ok(Made(place(scaled(x, scale, loc)?, None)))
    }

    /// Numbers of the normal distribution around 0 with the standard deviation 1.
    #[pyo3(signature = (size = None, dtype = None))]
    fn standard_normal(&self, size: Option<Ints>, dtype: Option<DTypeArg>) -> R<Made> {
        self.normal(ZERO, ONE, size, dtype)
    }

    /// Integers from `low` up to but without `high`; with one bound, from 0 up to it.
    #[pyo3(signature = (low, high = None, size = None, dtype = None))]
    fn integers(&self, low: i64, high: Option<i64>, size: Option<Ints>, dtype: Option<DTypeArg>) -> Made {
        let (low, high) = high.map_or((0, low), |high| (low, high));
        let x = self.0.lock().integers(shape(size).shape(), low, high);
        Made(place(dtype.map_or_else(|| x.clone(), |d| x.cast(d.0)), None))
    }

    /// The numbers from 0 up to but without `x` in random order, or the slices of an array.
    #[pyo3(signature = (x, /, axis = 0))]
    fn permutation(&self, x: &Bound<'_, PyAny>, axis: isize) -> R<Made> {
        let mut generator = self.0.lock();
        Ok(Made(match x.extract::<usize>() {
            Ok(n) => generator.permutation(n),
            Err(_) => generator.shuffle(&x.extract::<X>()?.0, axis),
        }))
    }

    /// True with this probability.
    #[pyo3(signature = (p, size = None))]
    fn bernoulli(&self, p: f64, size: Option<Ints>) -> Made {
        Made(place(self.0.lock().bernoulli(shape(size).shape(), p), None))
    }

    /// Elements set to 0 with this probability; the others grow to make up for it.
    #[pyo3(signature = (x, /, p = 0.5))]
    fn dropout(&self, x: X, p: f64) -> Made {
        Made(x.0.dropout(p, &mut self.0.lock()))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let own = &PyModule::new(module.py(), "_random")?;
    own.add_class::<PyGenerator>()?;
    module.add("_random", own)
}
