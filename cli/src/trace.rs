//! `MILLSTREAM_TRACE=file`: a trace of the run. The default runtime records it; here its file is tried first and written at the end,
//! so that what goes wrong is an error of the command.

use std::fs::File;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// Runs the work, and writes the trace that the environment asks for however the work ends.
pub fn around(work: impl FnOnce() -> Outcome) -> Outcome {
    let Some(path) = std::env::var_os("MILLSTREAM_TRACE").filter(|p| !p.is_empty()).map(PathBuf::from) else {
        return work();
    };
    let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("the trace {}: {e}", path.display()));
    // Made first, so that a path that cannot be written costs no run.
    File::create(&path).map_err(|e| failed(&e))?;
    let runtime = millstream::default_runtime()?;
    let outcome = work();
    let written = runtime.write_trace().map_err(|e| failed(&e));
    outcome.and(written)
}
