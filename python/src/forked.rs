//! Processes that were forked: the CPU works on in them, other devices belong to the parent.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millstream::{Error, Tensor};
use pyo3::prelude::*;

use crate::error::R;
use crate::released::note_main;

static FORKED: AtomicBool = AtomicBool::new(false);

/// Notes that this process is a forked one. Python calls it in the child.
#[pyfunction]
fn _forked() {
    FORKED.store(true, Relaxed);
    note_main();
}

/// An error for an array of a device that a forked process cannot use.
#[inline]
pub fn check(tensor: &Tensor) -> R<()> {
    if FORKED.load(Relaxed) { refuse(tensor) } else { Ok(()) }
}

fn refuse(tensor: &Tensor) -> R<()> {
    let device = tensor.device()?;
    if device.is_host() {
        return Ok(());
    }
    let text = format!("{} cannot be used in a process that was forked", device.name());
    let hint = "start processes by multiprocessing.get_context(\"spawn\"), or compute on the CPU";
    Err(Error::unsupported(text).suggest(hint).into())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_forked, module)?)
}
