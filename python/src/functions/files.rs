//! Files: npy, npz, safetensors, by the ending of the name.

use std::path::PathBuf;

use millstream::{Compression, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::Made;
use crate::convert::X;
use crate::error::{R, value_error};
use crate::functions::add;
use crate::released::released;

fn ending(path: &std::path::Path) -> String {
    path.extension().map_or_else(String::new, |e| e.to_string_lossy().to_lowercase())
}

fn unknown(path: &std::path::Path) -> crate::error::Fail {
    value_error(format!("{} is no file of a known kind\n  try: .npy, .npz or .safetensors", path.display()))
}

/// The array of a `.npy` file; the arrays of a `.npz` or `.safetensors` file as a dict by name. With `mmap` those of `.npy` and
/// `.safetensors` lie in the file, which nobody may change meanwhile.
#[pyfunction]
#[pyo3(signature = (path, /, *, mmap = false))]
fn load<'py>(py: Python<'py>, path: PathBuf, mmap: bool) -> R<Bound<'py, PyAny>> {
    let named = match ending(&path).as_str() {
        "npy" => {
            // SAFETY: the user promises, by the documentation, that nobody changes the file meanwhile.
            let made = released(py, || if mmap { unsafe { Tensor::map_npy(&path) } } else { Tensor::load_npy(&path) })?;
            return Ok(Made(made).into_pyobject(py)?.into_any());
        }
        "npz" => released(py, || Tensor::load_npz(&path))?,
        "safetensors" => released(py, || {
            // SAFETY: as above.
            if mmap { unsafe { Tensor::map_safetensors(&path) } } else { Tensor::load_safetensors(&path) }
        })?,
        _ => return Err(unknown(&path)),
    };
    let out = PyDict::new(py);
    for (name, tensor) in named {
        out.set_item(name, Made(tensor))?;
    }
    Ok(out.into_any())
}

/// Writes an array to a `.npy` file, or arrays by name to a `.npz` or `.safetensors` file. The file appears whole or not at all.
#[pyfunction]
#[pyo3(signature = (path, arrays, /, *, compress = false))]
fn save(py: Python<'_>, path: PathBuf, arrays: &Bound<'_, PyAny>, compress: bool) -> R<()> {
    let kind = ending(&path);
    if kind == "npy" {
        let x = arrays.extract::<X>()?.0;
        return Ok(released(py, || x.save_npy(&path))?);
    }
    let mut named: Vec<(String, Tensor)> = Vec::new();
    match arrays.cast::<PyDict>() {
        Ok(dict) => {
            for (name, x) in dict {
                named.push((name.extract()?, x.extract::<X>()?.0));
            }
        }
        Err(_) => named.push(("arr_0".to_string(), arrays.extract::<X>()?.0)),
    }
    let compression = if compress { Compression::Deflated } else { Compression::Stored };
    released(py, || {
        let list: Vec<(&str, &Tensor)> = named.iter().map(|(name, x)| (name.as_str(), x)).collect();
        match kind.as_str() {
            "npz" => Some(Tensor::save_npz(&path, &list, compression)),
            "safetensors" => Some(Tensor::save_safetensors(&path, &list)),
            _ => None,
        }
    })
    .ok_or_else(|| unknown(&path))??;
    Ok(())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(module: load, save);
    Ok(())
}
