//! Run with `RUSTFLAGS="--cfg loom" cargo test -p millstream-core --release loom`.

use std::sync::Arc;

use super::{Block, Pool, PoolConfig, Source};
use crate::error::{ErrorKind, Result};
use crate::event::Event;
use crate::memory::{MemoryKind, RawMemory, StreamId};
use crate::sync::{Mutex, UnsafeCell, thread};

const ONE: StreamId = StreamId(1);
const TWO: StreamId = StreamId(2);
const UNIT: usize = 64;

/// A device of a few words of memory, one for each 64 bytes, at which loom watches for races.
struct Device {
    words: Vec<UnsafeCell<u64>>,
    next: Mutex<usize>,
    held: Mutex<usize>,
}

// SAFETY: whether the accesses are ordered is what the tests check, under loom's eyes.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    fn new(units: usize) -> Arc<Device> {
        let words = (0..units).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Device { words, next: Mutex::new(0), held: Mutex::new(0) })
    }

    fn word(&self, block: &Block) -> &UnsafeCell<u64> {
        &self.words[(block.memory().address as usize + block.offset()) / UNIT]
    }

    fn write(&self, block: &Block) {
        // SAFETY: the block is the caller's alone, if the pool keeps its promise.
        self.word(block).with_mut(|word| unsafe { *word += 1 });
    }
}

impl Source for Arc<Device> {
    fn name(&self) -> String {
        "loom".into()
    }
    fn alloc(&self, bytes: usize, _kind: MemoryKind) -> Result<RawMemory> {
        let mut next = self.next.lock();
        let address = *next as u64;
        *next += bytes;
        *self.held.lock() += bytes;
        Ok(RawMemory { address, bytes, host: None, owner: None })
    }
    fn free(&self, memory: RawMemory) {
        *self.held.lock() -= memory.bytes;
    }
    fn granularity(&self, _kind: MemoryKind) -> usize {
        UNIT
    }
}

fn pool(device: &Arc<Device>, units: usize, limit_units: usize) -> Arc<Pool> {
    let config = PoolConfig {
        small_block: UNIT,
        small_segment: units * UNIT,
        large_segment: 0,
        limit: limit_units * UNIT,
        ..PoolConfig::default()
    };
    Pool::new(Box::new(device.clone()), config)
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

#[test]
fn threads_that_allocate_and_free_never_hold_the_same_memory() {
    bounded(2).check(|| {
        let device = Device::new(8);
        let pool = pool(&device, 2, 8);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (device, pool) = (device.clone(), pool.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let block = pool.alloc(1, MemoryKind::Device, ONE).unwrap();
                        device.write(&block);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let stats = pool.stats();
        assert_eq!((stats.in_use, stats.blocks, stats.allocations), (0, 0, 4));
        pool.trim(0);
        assert_eq!((pool.stats().reserved, *device.held.lock()), (0, 0));
    });
}

#[test]
fn memory_freed_while_another_stream_reads_it_is_not_written_before_the_read_ends() {
    bounded(3).check(|| {
        let device = Device::new(8);
        let pool = pool(&device, 1, 8);
        let block = pool.alloc(1, MemoryKind::Device, ONE).unwrap();
        device.write(&block);
        let event = Event::new();
        block.used_on(TWO, event.clone());
        let unit = (block.memory().address as usize + block.offset()) / UNIT;
        let reader = {
            let device = device.clone();
            thread::spawn(move || {
                // SAFETY: the use was recorded, so nobody writes before the signal.
                device.words[unit].with(|word| assert_eq!(unsafe { *word }, 1));
                event.signal();
            })
        };
        drop(block);
        let next = pool.alloc(1, MemoryKind::Device, ONE).unwrap();
        device.write(&next);
        drop(next);
        reader.join().unwrap();
    });
}

#[test]
fn at_the_limit_a_thread_waits_for_the_pending_use_and_gets_the_memory() {
    bounded(3).check(|| {
        let device = Device::new(1);
        let pool = pool(&device, 1, 1);
        let block = pool.alloc(1, MemoryKind::Device, ONE).unwrap();
        let event = Event::new();
        block.used_on(TWO, event.clone());
        drop(block);
        let reader = {
            let device = device.clone();
            thread::spawn(move || {
                // SAFETY: the use was recorded, so nobody writes before the signal.
                device.words[0].with(|word| assert_eq!(unsafe { *word }, 0));
                event.signal();
            })
        };
        let next = pool.alloc(1, MemoryKind::Device, ONE).unwrap();
        device.write(&next);
        reader.join().unwrap();
    });
}

#[test]
fn two_threads_together_keep_to_the_limit() {
    bounded(2).check(|| {
        let device = Device::new(8);
        let pool = pool(&device, 1, 1);
        let other = (device.clone(), pool.clone());
        let try_one = |device: &Arc<Device>, pool: &Arc<Pool>| match pool.alloc(1, MemoryKind::Device, ONE) {
            Ok(block) => {
                device.write(&block);
                assert!(*device.held.lock() <= UNIT);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory),
        };
        let thread = thread::spawn(move || try_one(&other.0, &other.1));
        try_one(&device, &pool);
        thread.join().unwrap();
        assert_eq!(pool.stats().in_use, 0);
        pool.trim(0);
        assert_eq!(*device.held.lock(), 0);
    });
}
