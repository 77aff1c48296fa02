//! Settings of the default runtime, for programs that make no runtime of their own.

use std::sync::Mutex;

use millstream_core::runtime::RuntimeBuilder;
use millstream_core::{Error, Result, Runtime};

use crate::default_runtime;

struct Settings {
    threads: Option<usize>,
    memory_limit: Option<usize>,
    /// Whether the default runtime was made.
    used: bool,
}

static SETTINGS: Mutex<Settings> = Mutex::new(Settings { threads: None, memory_limit: None, used: false });

/// Changes settings that the default runtime has not taken yet.
fn change(what: &str, change: impl FnOnce(&mut Settings)) -> Result<()> {
    let mut settings = SETTINGS.lock().map_err(|_| Error::internal("a thread panicked while it changed settings"))?;
    if settings.used {
        return Err(Error::argument(format!("{what} comes too late: the default runtime is in use"))
            .suggest("call it before the first tensor is made, at the beginning of main"));
    }
    change(&mut settings);
    Ok(())
}

/// Has the default runtime compute on so many threads of the host, the caller's included, instead of as many as `MILLSTREAM_THREADS` says
/// or there are cores. To be called before the first tensor is made. A runtime of one's own takes it from
/// [`RuntimeBuilder::threads`].
///
/// The threads share work inside of one operation. They spin some 100 us when they have nothing to do, if cores are free, and sleep then: other
/// thread pools, those of rayon or OpenMP, get the cores. Calls from many threads at once (a server, a `par_iter`) do not wait
/// for each other: one gets the pool, the others compute on their own threads. Results are the same with any number of threads.
///
/// ```
/// millstream::set_threads(2)?;
/// let x = millstream::Tensor::new([1.0f32, 2.0]);
/// assert_eq!(x.sum(..).item::<f32>()?, 3.0);
/// assert!(millstream::set_threads(4).is_err());
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Errors
/// No threads at all, or a default runtime that is in use already.
pub fn set_threads(threads: usize) -> Result<()> {
    if threads == 0 {
        return Err(Error::argument("at least one thread computes, the caller's"));
    }
    change("set_threads", |s| s.threads = Some(threads))
}

/// Has the default runtime take at most so many bytes of each device's memory, the host's included. To be called before the first
/// tensor is made; [`Pool::set_limit`](crate::core::pool::Pool::set_limit) changes the limit of one device at any time.
///
/// # Errors
/// A default runtime that is in use already.
pub fn set_memory_limit(bytes: usize) -> Result<()> {
    change("set_memory_limit", |s| s.memory_limit = Some(bytes))
}

/// Gives back what the default runtime only keeps for speed: plans with their memory, and memory that no tensor uses. Gives the
/// bytes returned to the devices. See [`Runtime::empty_cache`].
///
/// ```
/// let x = millstream::Tensor::new([1.0f32, 2.0]);
/// assert_eq!((&x + 1.0).sum(..).item::<f32>()?, 5.0);
/// millstream::empty_cache()?;
/// assert_eq!((&x + 1.0).sum(..).item::<f32>()?, 5.0);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Errors
/// Those of the default runtime.
pub fn empty_cache() -> Result<usize> {
    default_runtime().map(Runtime::empty_cache)
}

/// The builder with the settings, which count from now on.
pub(crate) fn applied(mut builder: RuntimeBuilder) -> RuntimeBuilder {
    // Settings are whole even where a thread that changed them panicked.
    let mut settings = SETTINGS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    settings.used = true;
    if let Some(threads) = settings.threads {
        builder = builder.threads(threads);
    }
    if let Some(bytes) = settings.memory_limit {
        builder = builder.memory_limit(bytes);
    }
    match std::env::var_os("MILLSTREAM_TRACE").filter(|file| !file.is_empty()) {
        Some(file) => builder.trace(file),
        None => builder,
    }
}
