//! What the tests on a GPU share.
#![allow(dead_code)]

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use millstream_core::backend::{Backend, BackendStream, DeviceFamily, MemoryAt, Priority};
use millstream_core::memory::{MemoryKind, RawMemory, StreamId};
use millstream_core::{Device, Runtime};
use millstream_cpu::CpuFamily;
use millstream_cuda::{CudaBackend, CudaFamily, CudaOptions};

/// Whether there is a CUDA device. Prints the reason where there is none, and fails where one is required.
pub fn has_device() -> bool {
    match CudaFamily::default().list() {
        Ok(_) => true,
        Err(error) => {
            millstream_core::testing::missing("cuda", &error);
            false
        }
    }
}

/// The device, for one test at a time: those about order and overlap would see each other's work.
pub struct Opened {
    backend: CudaBackend,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Opened {
    type Target = CudaBackend;

    fn deref(&self) -> &CudaBackend {
        &self.backend
    }
}

/// The first device, opened; `None` where there is none.
pub fn backend() -> Option<Opened> {
    static TURN: Mutex<()> = Mutex::new(());
    has_device().then(|| {
        let turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
        Opened { backend: CudaBackend::open(0, CudaOptions::default()).unwrap(), _turn: turn }
    })
}

/// The first device in a runtime of its own; `None` where there is none.
pub fn device() -> Option<Device> {
    has_device().then(|| runtime().device("cuda:0").unwrap())
}

/// A runtime with the host and CUDA, and a cache of its own.
pub fn runtime() -> Runtime {
    let folder = std::env::temp_dir().join(format!("millstream-cuda-{}", std::process::id()));
    Runtime::builder().family(CpuFamily::default()).family(CudaFamily::default()).cache(folder).build()
}

/// A new stream.
pub fn stream(backend: &CudaBackend, priority: Priority) -> Arc<dyn BackendStream> {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    backend.stream(StreamId(NEXT.fetch_add(1, Ordering::Relaxed)), priority).unwrap()
}

/// Memory of the device, freed with this.
pub struct Room<'a>(pub &'a CudaBackend, pub RawMemory);

impl<'a> Room<'a> {
    pub fn new(backend: &'a CudaBackend, bytes: usize, kind: MemoryKind) -> Room<'a> {
        Room(backend, backend.alloc(bytes, kind).unwrap())
    }

    pub fn here(&self, offset: usize) -> MemoryAt<'_> {
        MemoryAt::Here(&self.1, offset)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.free(self.1.clone());
    }
}

/// Host memory as a backend sees it.
pub fn host(bytes: &[u8]) -> RawMemory {
    RawMemory::foreign(bytes.as_ptr(), bytes.len())
}

/// Copies bytes to the device and waits.
pub fn put(backend: &CudaBackend, bytes: &[u8], room: &Room<'_>, offset: usize, stream: &dyn BackendStream) {
    backend.copy(MemoryAt::Host(&host(bytes), 0), room.here(offset), bytes.len(), stream).unwrap();
    stream.synchronize().unwrap();
}

/// Copies bytes from the device and waits.
pub fn get(backend: &CudaBackend, room: &Room<'_>, offset: usize, bytes: usize, stream: &dyn BackendStream) -> Vec<u8> {
    let out = vec![0u8; bytes];
    backend.copy(room.here(offset), MemoryAt::Host(&host(&out), 0), bytes, stream).unwrap();
    stream.synchronize().unwrap();
    out
}

/// Random bytes from a fresh seed, which is printed.
pub fn random(bytes: usize) -> Vec<u8> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut state = clock ^ COUNT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

/// Nanoseconds for which this thread has had a processor.
pub fn busy() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}
