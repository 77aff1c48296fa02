//! `MILLSTREAM_TRACE=file`: a trace of the run, written at its end.

use std::fs::File;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// Runs the work with the profiler on, if the environment asks for it, and writes the trace however the work ends.
pub fn around(work: impl FnOnce() -> Outcome) -> Outcome {
    let Some(path) = std::env::var_os("MILLSTREAM_TRACE").filter(|p| !p.is_empty()).map(PathBuf::from) else {
        return work();
    };
    let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("the trace {}: {e}", path.display()));
    // Made first, so that a path that cannot be written costs no run.
    let file = File::create(&path).map_err(|e| failed(&e))?;
    let profiler = millstream::default_runtime()?.profiler();
    profiler.start();
    let outcome = work();
    profiler.stop();
    let written = profiler.chrome_trace(file).map_err(|e| failed(&e));
    outcome.and(written)
}
