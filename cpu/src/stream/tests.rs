//! What streams promise: order, overlap with the caller, errors where they are waited for, threads that end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream_core::ErrorKind;
use millstream_core::backend::{Backend, MemoryAt, Priority};
use millstream_core::memory::MemoryKind;

use super::*;
use crate::{CpuBackend, CpuOptions};

/// Counts its runs, slowly or in vain.
struct Step {
    runs: Arc<AtomicUsize>,
    expected: usize,
    pause: Duration,
    outcome: fn() -> Result<()>,
}

impl Run for Step {
    fn execute(&self, _: &Bindings<'_>) -> Result<()> {
        std::thread::sleep(self.pause);
        let before = self.runs.fetch_add(1, Ordering::SeqCst);
        if before != self.expected {
            return Err(Error::internal(format!("ran as number {before} instead of {}", self.expected)));
        }
        (self.outcome)()
    }
}

const NOTHING: Bindings<'static> = Bindings { inputs: &[], outputs: &[], params: &[], workspace: None, note: None };

fn step(runs: &Arc<AtomicUsize>, expected: usize, pause: u64, outcome: fn() -> Result<()>) -> CpuLaunch {
    CpuLaunch(Arc::new(Step { runs: runs.clone(), expected, pause: Duration::from_millis(pause), outcome }))
}

fn backend() -> CpuBackend {
    CpuBackend::open(CpuOptions { threads: Some(2), isa: None }).unwrap()
}

fn queued(backend: &CpuBackend, id: u64) -> Arc<dyn BackendStream> {
    // The first one is the default stream.
    let first = backend.stream(StreamId(id), Priority::Normal).unwrap();
    assert!(first.is_synchronous());
    let second = backend.stream(StreamId(id + 1), Priority::Normal).unwrap();
    assert!(!second.is_synchronous());
    second
}

#[test]
fn the_default_stream_has_finished_when_the_call_returns() {
    let backend = backend();
    let stream = backend.stream(StreamId(1), Priority::Normal).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    for i in 0..3 {
        step(&runs, i, 0, || Ok(())).run(&NOTHING, &*stream).unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), i + 1);
    }
    let event = Event::new();
    stream.record(&event).unwrap();
    assert!(event.is_complete());
    let failure = step(&runs, 3, 0, || Err(Error::launch("no"))).run(&NOTHING, &*stream).unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Launch);
}

#[test]
fn a_queued_stream_returns_at_once_and_keeps_the_order() {
    let backend = backend();
    let stream = queued(&backend, 10);
    let runs = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    for i in 0..5 {
        step(&runs, i, 20, || Ok(())).run(&NOTHING, &*stream).unwrap();
    }
    let event = Event::new();
    stream.record(&event).unwrap();
    assert!(start.elapsed() < Duration::from_millis(60), "queueing took {:?}", start.elapsed());
    assert!(!event.is_complete());
    event.wait().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 5);
    stream.synchronize().unwrap();
}

#[test]
fn a_failure_skips_what_follows_and_fails_the_next_event_only() {
    let backend = backend();
    let stream = queued(&backend, 20);
    let runs = Arc::new(AtomicUsize::new(0));
    step(&runs, 0, 0, || Err(Error::launch("the first error"))).run(&NOTHING, &*stream).unwrap();
    step(&runs, 1, 0, || Ok(())).run(&NOTHING, &*stream).unwrap();
    let (failed, good) = (Event::new(), Event::new());
    stream.record(&failed).unwrap();
    step(&runs, 1, 0, || Ok(())).run(&NOTHING, &*stream).unwrap();
    stream.record(&good).unwrap();
    assert!(failed.wait().unwrap_err().to_string().contains("the first error"));
    good.wait().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_panic_in_a_kernel_is_an_error_and_the_stream_goes_on() {
    let backend = backend();
    let stream = queued(&backend, 30);
    let runs = Arc::new(AtomicUsize::new(0));
    step(&runs, 0, 0, || panic!("out of {}", "order")).run(&NOTHING, &*stream).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("out of order"), "{error}");
    step(&runs, 1, 0, || Ok(())).run(&NOTHING, &*stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn a_stream_waits_for_an_event_of_another_and_takes_over_its_failure() {
    let backend = backend();
    let stream = queued(&backend, 40);
    let runs = Arc::new(AtomicUsize::new(0));
    let gate = Event::new();
    stream.depend(&gate).unwrap();
    step(&runs, 0, 0, || Ok(())).run(&NOTHING, &*stream).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    gate.signal();
    stream.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let broken = Event::new();
    stream.depend(&broken).unwrap();
    step(&runs, 1, 0, || Ok(())).run(&NOTHING, &*stream).unwrap();
    broken.fail(Error::device_lost("gone"));
    assert_eq!(stream.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn copies_of_any_size_arrive_and_stay_inside_their_memory() {
    let backend = backend();
    let stream = queued(&backend, 50);
    for bytes in [1, 63, 4096, (5 << 20) + 3] {
        let (from, to) =
            (backend.alloc(bytes, MemoryKind::Pinned).unwrap(), backend.alloc(bytes, MemoryKind::Device).unwrap());
        let slice = |m: &RawMemory| {
            // SAFETY: the block has so many bytes and is used by this test only, one slice at a time.
            unsafe { std::slice::from_raw_parts_mut(m.host.unwrap().as_ptr(), bytes) }
        };
        for (i, b) in slice(&from).iter_mut().enumerate() {
            *b = (i * 31 + bytes) as u8;
        }
        backend.copy(MemoryAt::Host(&from, 0), MemoryAt::Here(&to, 0), bytes, &*stream).unwrap();
        stream.synchronize().unwrap();
        assert!(slice(&from) == slice(&to));
        backend.copy(MemoryAt::Here(&from, 1), MemoryAt::Here(&to, 0), bytes, &*stream).unwrap();
        assert_eq!(stream.synchronize().unwrap_err().kind(), ErrorKind::Internal);
        backend.free(from);
        backend.free(to);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_stream_has_no_thread_before_its_first_work_and_none_after_it_is_dropped() {
    let threads = || {
        let name = |e: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(e.ok()?.path().join("comm")).ok();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks.filter_map(name).filter(|n| n.trim() == "millstream-s777").count()
    };
    let backend = backend();
    let stream = queued(&backend, 776);
    assert_eq!(threads(), 0);
    let runs = Arc::new(AtomicUsize::new(0));
    step(&runs, 0, 0, || Ok(())).run(&NOTHING, &*stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(threads(), 1);
    // Work that was queued before the stream is dropped still runs.
    step(&runs, 1, 10, || Ok(())).run(&NOTHING, &*stream).unwrap();
    drop(stream);
    let start = Instant::now();
    while threads() > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "the thread did not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
