//! Millstream for Python: the extension module below the package `millstream`.
//!
//! An [`array::Array`] holds a tensor of the engine. Functions take anything that is like an array ([`convert::X`]), call the engine's
//! method and wrap what it gives; a mistake is raised at once, with the file and line of the Python call ([`error`]). Nothing is
//! computed before a value is read. While something is computed or copied, other Python threads run ([`released`]).

// What pyo3 generates for methods that a macro of ours writes.
#![allow(unsafe_op_in_unsafe_fn)]

mod arguments;
mod array;
mod convert;
mod device;
mod dtype;
mod error;
mod exchange;
mod forked;
mod functions;
mod index;
mod released;
mod values;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _millstream(module: &Bound<'_, PyModule>) -> PyResult<()> {
    released::install();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<device::PyDevice>()?;
    dtype::register(module)?;
    device::register(module)?;
    convert::register(module)?;
    exchange::register(module)?;
    forked::register(module)?;
    functions::register(module)
}
