//! Memory and copies: any byte, any size, nothing beside it touched, nothing leaked.

use std::sync::Arc;

use crate::common::{Random, on_each, own_device};
use millstream_core::backend::{Backend, BackendStream, MemoryAt, Priority};
use millstream_core::memory::{RawMemory, StreamId};
use millstream_core::{Buffer, ErrorKind, MemoryKind, Mode, Storage};
use millstream_wgpu::{Api, WgpuBackend};

fn each_backend(test: impl Fn(&WgpuBackend, &dyn BackendStream)) {
    for api in Api::ALL.into_iter().filter(|api| api.is_possible()) {
        if let Some((_device, backend)) = own_device(api) {
            let stream = backend.stream(StreamId(1 << 40), Priority::Normal).unwrap();
            test(&backend, &*stream);
        }
    }
}

fn put(b: &WgpuBackend, bytes: &[u8], to: &RawMemory, at: usize, s: &dyn BackendStream) {
    let host = RawMemory::foreign(bytes.as_ptr(), bytes.len());
    b.copy(MemoryAt::Host(&host, 0), MemoryAt::Here(to, at), bytes.len(), s).unwrap();
}

fn get(b: &WgpuBackend, from: &RawMemory, at: usize, n: usize, s: &dyn BackendStream) -> Vec<u8> {
    let mut out = vec![0xEEu8; n + 2];
    let host = RawMemory::foreign(out.as_mut_ptr(), n + 2);
    b.copy(MemoryAt::Here(from, at), MemoryAt::Host(&host, 1), n, s).unwrap();
    s.synchronize().unwrap();
    assert_eq!((out[0], out[n + 1]), (0xEE, 0xEE), "bytes beside the copy were touched");
    out[1..=n].to_vec()
}

#[test]
fn uploads_and_downloads_work_at_any_byte_and_leave_neighbours_alone() {
    each_backend(|b, s| {
        let mut random = Random::new();
        let size = 2048;
        let memory = b.alloc(size, MemoryKind::Device).unwrap();
        let mut model = random.bytes(size);
        put(b, &model, &memory, 0, s);
        for _ in 0..60 {
            let most = [9, 500][random.below(2)];
            let n = 1 + random.below(most);
            let at = random.below(size - n + 1);
            let bytes = random.bytes(n);
            put(b, &bytes, &memory, at, s);
            model[at..at + n].copy_from_slice(&bytes);
        }
        assert_eq!(get(b, &memory, 0, size, s), model);
        for _ in 0..20 {
            let n = 1 + random.below(100);
            let at = random.below(size - n + 1);
            assert_eq!(get(b, &memory, at, n, s), model[at..at + n]);
        }
        b.free(memory);
    });
}

#[test]
fn copies_within_the_device_work_at_any_byte_also_within_one_buffer() {
    each_backend(|b, s| {
        let mut random = Random::new();
        let size = 3000;
        let memories = [b.alloc(size, MemoryKind::Device).unwrap(), b.alloc(size, MemoryKind::Device).unwrap()];
        let mut models = [random.bytes(size), random.bytes(size)];
        for (memory, model) in memories.iter().zip(&models) {
            put(b, model, memory, 0, s);
        }
        for _ in 0..80 {
            let (from, to) = (random.below(2), random.below(2));
            let aligned = random.below(3) == 0;
            let n = 1 + random.below(700);
            let (n, step) = if aligned { (n.next_multiple_of(4), 4) } else { (n, 1) };
            // Within one buffer the halves keep source and target disjoint.
            let half = size / 2 - n;
            let (at, target) = (random.below(half) / step * step, size / 2 + random.below(half) / step * step);
            b.copy(MemoryAt::Here(&memories[from], at), MemoryAt::Here(&memories[to], target), n, s).unwrap();
            let bytes = models[from][at..at + n].to_vec();
            models[to][target..target + n].copy_from_slice(&bytes);
        }
        for (memory, model) in memories.iter().zip(&models) {
            assert_eq!(&get(b, memory, 0, size, s), model);
        }
        memories.into_iter().for_each(|memory| b.free(memory));
    });
}

#[test]
fn large_copies_go_through_staging_piece_by_piece() {
    each_backend(|b, s| {
        let mut random = Random::new();
        let n = (70 << 20) + 3;
        let memory = b.alloc(n + 64, MemoryKind::Device).unwrap();
        let seed = random.below(1 << 20);
        let bytes: Vec<u8> = (0..n).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        put(b, &bytes, &memory, 5, s);
        assert!(get(b, &memory, 5, n, s) == bytes, "large copies differ");
        b.free(memory);
    });
}

#[test]
fn a_copy_outside_the_memory_is_an_error() {
    each_backend(|b, s| {
        let memory = b.alloc(256, MemoryKind::Device).unwrap();
        let mut bytes = [0u8; 64];
        let host = RawMemory::foreign(bytes.as_mut_ptr(), bytes.len());
        assert!(b.copy(MemoryAt::Host(&host, 0), MemoryAt::Here(&memory, 200), 64, s).is_err());
        assert!(b.copy(MemoryAt::Here(&memory, 200), MemoryAt::Host(&host, 0), 64, s).is_err());
        assert!(b.copy(MemoryAt::Here(&memory, 0), MemoryAt::Host(&host, 1), 64, s).is_err());
        b.copy(MemoryAt::Here(&memory, 256), MemoryAt::Host(&host, 64), 0, s).unwrap();
        b.free(memory);
    });
}

#[test]
fn more_than_the_device_gives_is_out_of_memory() {
    on_each(|device| {
        let stream = device.stream();
        for bytes in [1usize << 42, usize::try_from(device.profile().max_binding).unwrap() + 1] {
            let error = Storage::alloc(device, bytes, MemoryKind::Device, stream).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            let most = format!("at most {} bytes", device.profile().max_binding);
            assert!(error.suggestion().is_some_and(|s| s.contains(&most)), "{error} ({:?})", error.suggestion());
        }
        assert!(!device.is_lost());
        let error = Storage::alloc(device, 4096, MemoryKind::Unified, stream).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        Storage::alloc(device, 4096, MemoryKind::Device, stream).unwrap();
    });
}

#[test]
fn many_allocations_are_given_back() {
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
    }
    each_backend(|b, s| {
        let round = || {
            for i in 0..24 {
                let memory = b.alloc(8 << 20, MemoryKind::Device).unwrap();
                put(b, &vec![i as u8; 8 << 20], &memory, 0, s);
                assert_eq!(get(b, &memory, 4 << 20, 7, s), [i as u8; 7]);
                b.free(memory);
            }
        };
        round();
        let before = resident();
        for _ in 0..6 {
            round();
        }
        let grown = resident().saturating_sub(before);
        // 1.1 GB went through; what stays must not grow with it.
        assert!(grown < 150_000, "{grown} KiB more are resident");
    });
}

#[test]
fn values_move_between_the_host_and_the_device_and_back() {
    on_each(|device| {
        let mut random = Random::new();
        let host = device.host();
        for n in [0usize, 1, 3, 4, 5, 255, 4096, 100_001] {
            let bytes = random.bytes(n);
            let buffer = Buffer::from_bytes(&host, &bytes, Mode::Automatic).unwrap();
            let resident = buffer.on(device, device.stream()).unwrap();
            // A copy on the device that the host has not seen yet.
            let twin = Buffer::new(device, n, Mode::Automatic, device.stream()).unwrap();
            let target = twin.write(device, device.stream()).unwrap();
            drop((resident, target));
            assert_eq!(buffer.read(&host).unwrap(), bytes);
        }
    });
}

#[test]
fn threads_copy_at_the_same_time_on_streams_of_their_own() {
    on_each(|device| {
        let device = Arc::new(device.clone());
        std::thread::scope(|scope| {
            for t in 0..4u8 {
                let device = device.clone();
                scope.spawn(move || {
                    let stream = device.take_stream(Priority::Normal).unwrap();
                    let host = device.host();
                    for i in 0..25u8 {
                        let bytes = vec![t.wrapping_mul(31).wrapping_add(i); 10_000 + i as usize];
                        let buffer = Buffer::from_bytes(&host, &bytes, Mode::Automatic).unwrap();
                        let there = buffer.on(&device, &stream).unwrap();
                        there.wait().unwrap();
                        // Only the device has the value now.
                        let moved = Buffer::from_storage(there.storage.clone(), bytes.len(), Mode::Automatic);
                        assert_eq!(moved.read(&host).unwrap(), bytes);
                    }
                    device.return_stream(stream);
                });
            }
        });
    });
}
