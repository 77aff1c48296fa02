//! A kernel that writes where it must not: the device is lost, says so at once from then on, and can be opened again.
//!
//! Alone in its binary, because the loss ends the context for the whole process.

mod common;

use std::time::{Duration, Instant};

use millstream_core::backend::{Backend, Priority};
use millstream_core::{ErrorKind, Event, MemoryKind, block_on};
use millstream_cuda::{CudaBackend, CudaOptions};

#[test]
fn an_illegal_write_loses_the_device_and_nothing_else() {
    let Some(backend) = common::backend() else { return };
    let stream = common::stream(&backend, Priority::Normal);
    let other = CudaBackend::open(0, CudaOptions::default()).unwrap();
    let memory = backend.alloc(1 << 20, MemoryKind::Device).unwrap();

    // Somebody awaits an event behind the fault, asleep: it must wake with the error.
    let awaited = Event::new();
    backend.spin(100_000, &*stream).unwrap();
    backend.poke(0x10, &*stream).unwrap();
    stream.record(&awaited).unwrap();
    let waiter = std::thread::spawn({
        let awaited = awaited.clone();
        move || block_on(async { awaited.await })
    });
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert!(error.to_string().contains("CUDA_ERROR_"), "{error}");
    assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::DeviceLost);
    assert_eq!(awaited.wait().unwrap_err().kind(), ErrorKind::DeviceLost);
    assert!(awaited.wait_timeout(Duration::from_millis(1)).is_err());

    // Every later call fails at once, also for another who opened the same device.
    let start = Instant::now();
    for result in [
        backend.alloc(64, MemoryKind::Device).map(|_| ()),
        stream.record(&Event::new()),
        stream.synchronize(),
        backend.memory_info().map(|_| ()),
        other.alloc(64, MemoryKind::Pinned).map(|_| ()),
        other.measure().map(|_| ()),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::DeviceLost);
    }
    assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
    backend.free(memory);

    // The rest of the program goes on.
    let runtime = common::runtime();
    assert!(runtime.device("cpu").is_ok());

    // Opened anew, the device works again, while the lost one stays lost; and dropping the lost one does no harm.
    let fresh = match CudaBackend::open(0, CudaOptions::default()) {
        Ok(fresh) => fresh,
        Err(error) => {
            // Some drivers ask for a new process after such a fault; then opening says so.
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
            println!("the driver does not open the device again: {error}");
            return;
        }
    };
    let stream_again = common::stream(&fresh, Priority::Normal);
    let room = common::Room::new(&fresh, 1 << 20, MemoryKind::Device);
    let data = common::random(1 << 20);
    common::put(&fresh, &data, &room, 0, &*stream_again);
    assert!(common::get(&fresh, &room, 0, data.len(), &*stream_again) == data);
    assert_eq!(stream.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
    drop((stream, backend, other));
    common::put(&fresh, &data, &room, 0, &*stream_again);
    assert!(common::get(&fresh, &room, 0, data.len(), &*stream_again) == data);
}
