//! The functions of the namespace by family, thin over the engine's methods.

pub mod creation;
pub mod elementwise;
pub mod reductions;

use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    creation::register(module)?;
    elementwise::register(module)?;
    reductions::register(module)
}

/// Adds functions to a module.
macro_rules! add {
    ($module:ident: $($function:path),* $(,)?) => {
        $($module.add_function(wrap_pyfunction!($function, $module)?)?;)*
    };
}
pub(crate) use add;
