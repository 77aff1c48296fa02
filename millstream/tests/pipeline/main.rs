//! Streams of items through pipelines: results, errors that belong to items, ends at any time.

#[path = "../suite/common/mod.rs"]
mod common;

mod faults;
mod files;
mod results;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Does the work on a thread of its own, and fails if that takes so many seconds: a deadlock must not hang the tests.
fn within<R: Send + 'static>(seconds: u64, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = channel();
    let worker = std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(Duration::from_secs(seconds)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("not done within {seconds} s"),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a result was sent"),
        },
    }
}
