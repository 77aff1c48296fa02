//! What ran, where, for how long: `with millstream.profile() as p`.

use millstream::Tensor;
use millstream::core::RecordKind;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::error::R;

/// Collects what is computed in its `with` block. Printing it gives a table.
#[pyclass(frozen, name = "profile", module = "millstream")]
struct Profile {}

#[pymethods]
impl Profile {
    #[new]
    fn new() -> Profile {
        Profile {}
    }

    fn __enter__(slf: Bound<'_, Self>) -> R<Bound<'_, Self>> {
        let profiler = Tensor::runtime()?.profiler();
        profiler.clear();
        profiler.start();
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> R<bool> {
        Tensor::runtime()?.profiler().stop();
        Ok(false)
    }

    /// The steps: name, kind, device, seconds, bytes, flop, share of the limit.
    fn records<'py>(&self, py: Python<'py>) -> R<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for record in Tensor::runtime()?.profiler().records() {
            let row = PyDict::new(py);
            row.set_item("name", &*record.name)?;
            row.set_item("kind", kind(record.kind))?;
            row.set_item("device", &*record.device)?;
            row.set_item("start", record.start as f64 * 1e-9)?;
            row.set_item("seconds", record.seconds)?;
            row.set_item("bytes", record.bytes)?;
            row.set_item("flop", record.flop)?;
            row.set_item("limit_fraction", record.limit_fraction)?;
            row.set_item("note", &record.note)?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// The course of events, for Perfetto or `chrome://tracing`.
    fn chrome_trace(&self) -> R<String> {
        let mut out = Vec::new();
        Tensor::runtime()?.profiler().chrome_trace(&mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// The warnings of this process, kept with or without a profile.
    fn warnings(&self) -> R<Vec<String>> {
        Ok(Tensor::runtime()?.profiler().warnings().iter().map(|w| w.text.to_string()).collect())
    }

    fn __str__(&self) -> R<String> {
        Ok(Tensor::runtime()?.profiler().table().to_string())
    }

    fn __repr__(&self) -> R<String> {
        self.__str__()
    }
}

fn kind(kind: RecordKind) -> String {
    format!("{kind:?}").to_lowercase()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Profile>()
}
