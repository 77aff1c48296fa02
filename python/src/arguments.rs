//! Axes, shapes and sizes as Python gives them.

use millstream::{Axes, NewShape};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyTuple};
use smallvec::SmallVec;

/// Integers, alone or in a sequence: `2`, `(2, 3)`, `[2, 3]`, an array.
pub struct Ints {
    pub list: SmallVec<[isize; 6]>,
    /// Whether there was one alone.
    pub alone: bool,
}

/// An integer of any kind that has `__index__`; not a float.
pub fn integer(obj: &Bound<'_, PyAny>) -> PyResult<isize> {
    if obj.is_instance_of::<PyFloat>() {
        return Err(PyTypeError::new_err(format!("{} is not an integer", obj.repr()?)));
    }
    obj.extract()
}

impl<'py> FromPyObject<'_, 'py> for Ints {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Ints> {
        if !obj.is_instance_of::<PyTuple>()
            && let Ok(one) = integer(&obj)
        {
            return Ok(Ints { list: [one].into_iter().collect(), alone: true });
        }
        let list = obj.try_iter()?.map(|item| integer(&item?)).collect::<PyResult<_>>()?;
        Ok(Ints { list, alone: false })
    }
}

impl Ints {
    /// One alone.
    pub fn one(number: isize) -> Ints {
        Ints { list: [number].into_iter().collect(), alone: true }
    }

    /// Several.
    pub fn many(numbers: impl IntoIterator<Item = isize>) -> Ints {
        Ints { list: numbers.into_iter().collect(), alone: false }
    }

    /// As axes.
    pub fn axes(&self) -> Axes {
        Axes::from(&self.list[..])
    }

    /// As a shape to be.
    pub fn shape(&self) -> NewShape {
        NewShape::from(&self.list[..])
    }
}

/// `axis=`: none for all, one, or several.
#[derive(Default)]
pub struct AxisArg(Option<Ints>);

impl<'py> FromPyObject<'_, 'py> for AxisArg {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<AxisArg> {
        if obj.is_none() {
            return Ok(AxisArg(None));
        }
        if obj.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("an axis is an integer, not a bool"));
        }
        Ok(AxisArg(Some(obj.extract()?)))
    }
}

impl AxisArg {
    /// All axes where none is named.
    pub fn axes(&self) -> Axes {
        match &self.0 {
            Some(ints) => ints.axes(),
            None => Axes::from(..),
        }
    }

    /// The axes named, if any are.
    pub fn named(&self) -> Option<&[isize]> {
        self.0.as_ref().map(|ints| &ints.list[..])
    }
}

/// A shape that may be given as one argument or as several: `reshape(2, 3)`, `reshape((2, 3))`.
pub fn spread(args: &Bound<'_, PyTuple>) -> PyResult<Ints> {
    if args.len() == 1 { args.get_item(0)?.extract() } else { args.extract() }
}
