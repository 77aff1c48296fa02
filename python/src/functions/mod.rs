//! The functions of the namespace by family, thin over the engine's methods.

pub mod compile;
pub mod creation;
pub mod elementwise;
pub mod fft;
pub mod files;
pub mod linalg;
pub mod manipulation;
pub mod neural;
pub mod profile;
pub mod random;
pub mod reductions;
pub mod sorting;

use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    creation::register(module)?;
    elementwise::register(module)?;
    reductions::register(module)?;
    manipulation::register(module)?;
    sorting::register(module)?;
    linalg::register(module)?;
    fft::register(module)?;
    neural::register(module)?;
    random::register(module)?;
    files::register(module)?;
    profile::register(module)?;
    compile::register(module)
}

/// Adds functions to a module.
macro_rules! add {
    ($module:ident: $($function:path),* $(,)?) => {
        $($module.add_function(wrap_pyfunction!($function, $module)?)?;)*
    };
}
pub(crate) use add;
