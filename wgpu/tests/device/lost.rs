//! A device that is lost says so, in every call, and never panics.

use std::time::Duration;

use crate::common::own_device;
use millstream_core::backend::{Backend, MemoryAt, Priority};
use millstream_core::memory::{RawMemory, StreamId};
use millstream_core::{Buffer, ErrorKind, Event, MemoryKind, Mode, block_on};
use millstream_wgpu::Api;

#[test]
fn after_a_loss_every_call_gives_a_typed_error() {
    for api in Api::ALL.into_iter().filter(|api| api.is_possible()) {
        let Some((_device, backend)) = own_device(api) else { continue };
        let stream = backend.stream(StreamId(1 << 41), Priority::Normal).unwrap();
        let memory = backend.alloc(4096, MemoryKind::Device).unwrap();
        let mut bytes = [1u8; 64];
        let host = RawMemory::foreign(bytes.as_mut_ptr(), 64);
        backend.copy(MemoryAt::Host(&host, 0), MemoryAt::Here(&memory, 0), 64, &*stream).unwrap();
        let before = Event::new();
        stream.record(&before).unwrap();
        before.wait().unwrap();
        backend.copy(MemoryAt::Host(&host, 0), MemoryAt::Here(&memory, 0), 64, &*stream).unwrap();
        let pending = Event::new();
        stream.record(&pending).unwrap();

        backend.destroy();

        let lost = |what: &str, result: millstream_core::Result<()>| {
            let error = result.expect_err(what);
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{what}: {error}");
        };
        lost("alloc", backend.alloc(4096, MemoryKind::Device).map(|_| ()));
        lost("upload", backend.copy(MemoryAt::Host(&host, 0), MemoryAt::Here(&memory, 0), 64, &*stream));
        lost("download", backend.copy(MemoryAt::Here(&memory, 0), MemoryAt::Host(&host, 0), 64, &*stream));
        lost("record", stream.record(&Event::new()));
        lost("synchronize", stream.synchronize());
        lost("stream", backend.stream(StreamId(1 << 42), Priority::Normal).map(|_| ()));
        lost("measure", backend.measure().map(|_| ()));
        lost("wait", pending.wait());
        assert!(pending.is_complete() && pending.error().is_some());
        // What was complete stays so.
        before.wait().unwrap();
        backend.free(memory);
    }
}

#[test]
fn the_device_above_is_marked_as_lost_and_a_waiter_wakes() {
    for api in Api::ALL.into_iter().filter(|api| api.is_possible()) {
        let Some((device, backend)) = own_device(api) else { continue };
        let host = device.host();
        let buffer = Buffer::from_bytes(&host, &[1u8; 1000], Mode::Automatic).unwrap();
        let there = buffer.on(&device, device.stream()).unwrap();
        let event = device.stream().record().unwrap();
        backend.destroy();
        let waiter = std::thread::spawn(move || {
            // Complete before the loss, or failed by it: but over.
            let _ = block_on(async { event.clone().await });
            assert!(event.wait_timeout(Duration::from_secs(10)).unwrap_or(true));
        });
        waiter.join().unwrap();
        let only_there = Buffer::from_storage(there.storage.clone(), 1000, Mode::Automatic);
        assert_eq!(only_there.read(&host).unwrap_err().kind(), ErrorKind::DeviceLost);
        assert!(device.is_lost());
        assert_eq!(buffer.read(&host).unwrap(), [1; 1000]);
    }
}
