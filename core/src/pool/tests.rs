use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use proptest::prelude::*;

use super::{Block, MemoryAction, Pool, PoolConfig, PoolStats, Source};
use crate::error::{Error, ErrorKind, Fault, Result};
use crate::event::{DeviceEvent, Event};
use crate::memory::{MemoryKind, RawMemory, StreamId};

const DEVICE: MemoryKind = MemoryKind::Device;
const ONE: StreamId = StreamId(1);
const TWO: StreamId = StreamId(2);
const MIB: usize = 1 << 20;

/// A device that gives out addresses and counts.
#[derive(Default)]
struct Device {
    next: Mutex<u64>,
    held: Mutex<HashMap<u64, usize>>,
    allocs: AtomicUsize,
    /// Bytes after which it refuses; 0 for never.
    size: usize,
    /// What each stream's fence is; streams without one have nothing pending.
    fences: Mutex<HashMap<StreamId, Event>>,
    fences_asked: AtomicUsize,
    lost: AtomicBool,
}

impl Device {
    fn held(&self) -> usize {
        self.held.lock().values().sum()
    }
}

impl Source for Arc<Device> {
    fn name(&self) -> String {
        "test:0".into()
    }

    fn alloc(&self, bytes: usize, _kind: MemoryKind) -> Result<RawMemory> {
        assert!(bytes > 0);
        if self.lost.load(Ordering::Relaxed) {
            return Err(Error::device_lost("gone"));
        }
        if self.size > 0 && self.held() + bytes > self.size {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                Fault::OutOfMemory { device: self.name(), bytes, in_use: 0, reserved: 0 },
            ));
        }
        self.allocs.fetch_add(1, Ordering::Relaxed);
        let mut next = self.next.lock();
        let address = *next;
        *next += bytes as u64 + 4096;
        self.held.lock().insert(address, bytes);
        Ok(RawMemory { address, bytes, host: None, owner: None })
    }

    fn free(&self, memory: RawMemory) {
        assert_eq!(self.held.lock().remove(&memory.address), Some(memory.bytes), "freed what it did not give");
    }

    fn granularity(&self, _kind: MemoryKind) -> usize {
        4096
    }

    fn fence(&self, stream: StreamId) -> Result<Option<Event>> {
        self.fences_asked.fetch_add(1, Ordering::Relaxed);
        Ok(self.fences.lock().get(&stream).cloned())
    }
}

fn pool_with(device: Device, config: PoolConfig) -> (Arc<Device>, Arc<Pool>) {
    let device = Arc::new(device);
    (device.clone(), Pool::new(Box::new(device), config))
}

fn pool() -> (Arc<Device>, Arc<Pool>) {
    pool_with(Device::default(), PoolConfig::default())
}

fn address(block: &Block) -> (u64, usize) {
    (block.memory().address, block.offset())
}

fn spans_overlap(one: &Block, two: &Block) -> bool {
    let span = |block: &Block| {
        let start = block.memory().address + block.offset() as u64;
        (start, start + block.capacity() as u64)
    };
    let ((a, b), (c, d)) = (span(one), span(two));
    a < d && c < b
}

#[test]
fn freed_memory_is_reused_at_once_on_its_stream() {
    for bytes in [0, 1, 100, MIB, MIB + 1, 40 * MIB] {
        let (device, pool) = pool();
        let first = pool.alloc(bytes, DEVICE, ONE).unwrap();
        let at = address(&first);
        drop(first);
        let second = pool.alloc(bytes, DEVICE, ONE).unwrap();
        assert_eq!(address(&second), at, "{bytes} bytes");
        assert_eq!(device.allocs.load(Ordering::Relaxed), 1);
        let stats = pool.stats();
        assert_eq!((stats.allocations, stats.hits, stats.blocks), (2, 1, 1));
    }
}

#[test]
fn a_recorded_use_keeps_memory_from_every_other_stream_until_it_is_complete() {
    for bytes in [1000, 3 * MIB] {
        let (_, pool) = pool();
        let use_of_two = Event::new();
        let block = pool.alloc(bytes, DEVICE, ONE).unwrap();
        let at = address(&block);
        block.used_on(TWO, use_of_two.clone());
        drop(block);
        let other = pool.alloc(bytes, DEVICE, ONE).unwrap();
        assert_ne!(address(&other), at, "stream two still reads it");
        let own = pool.alloc(bytes, DEVICE, TWO).unwrap();
        assert_eq!(address(&own), at, "behind its own use the second stream may have it");
        drop(own);
        let third = pool.alloc(bytes, DEVICE, StreamId(3)).unwrap();
        assert_ne!(address(&third), at, "the use is remembered through another life of the block");
        use_of_two.signal();
        let last = pool.alloc(bytes, DEVICE, StreamId(3)).unwrap();
        assert_eq!(address(&last), at);
    }
}

#[test]
fn a_failed_use_is_over_too() {
    let (_, pool) = pool();
    let event = Event::new();
    let block = pool.alloc(5000, DEVICE, ONE).unwrap();
    let at = address(&block);
    block.used_on(TWO, event.clone());
    event.fail(Error::launch("no"));
    drop(block);
    assert_eq!(address(&pool.alloc(5000, DEVICE, ONE).unwrap()), at);
}

/// An event of a device that must not be asked.
struct Unasked;

impl DeviceEvent for Unasked {
    fn query(&self) -> Result<bool> {
        panic!("the device was asked")
    }

    fn wait(&self, _timeout: Option<Duration>) -> Result<bool> {
        panic!("the device was asked")
    }

    fn notify(&self, _event: &Event) -> Result<()> {
        panic!("the device was asked")
    }

    fn elapsed_since(&self, _earlier: &dyn DeviceEvent) -> Option<Duration> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn a_stream_gets_what_only_itself_has_used_without_asking_the_device() {
    for bytes in [1000, 20 * MIB] {
        let (_, pool) = pool();
        let mut at = None;
        for _ in 0..3 {
            let block = pool.alloc(bytes, DEVICE, ONE).unwrap();
            assert_eq!(address(&block), *at.get_or_insert(address(&block)));
            let event = Event::new();
            event.attach(Arc::new(Unasked));
            block.used_on(ONE, event);
        }
        // Whoever drops the pool asks at last: no harm in a test that leaves it.
        std::mem::forget(pool);
    }
}

#[test]
fn another_stream_gets_memory_only_behind_the_fence_of_the_one_that_freed_it() {
    for bytes in [1000, 20 * MIB] {
        let (device, pool) = pool();
        let fence = Event::new();
        device.fences.lock().insert(ONE, fence.clone());
        let block = pool.alloc(bytes, DEVICE, ONE).unwrap();
        let at = address(&block);
        drop(block);
        assert_eq!(device.fences_asked.load(Ordering::Relaxed), 0, "nobody needed to know yet");
        let other = pool.alloc(bytes, DEVICE, TWO).unwrap();
        assert_ne!(address(&other), at);
        let again = pool.alloc(bytes, DEVICE, ONE).unwrap();
        assert_eq!(address(&again), at, "its own stream need not wait");
        drop(again);
        fence.signal();
        // That fence was recorded before the last free: it says nothing about it, the next one does.
        device.fences.lock().insert(ONE, Event::new());
        let third = pool.alloc(bytes, DEVICE, TWO).unwrap();
        assert_ne!(address(&third), at);
        device.fences.lock().get(&ONE).unwrap().signal();
        let last = pool.alloc(bytes, DEVICE, TWO).unwrap();
        assert_eq!(address(&last), at);
        drop((other, third, last));
        device.fences.lock().clear();
    }
}

#[test]
fn an_oversized_free_range_is_split_and_the_rest_stays_usable() {
    let (device, pool) = pool();
    drop(pool.alloc(64 * MIB, DEVICE, ONE).unwrap());
    let blocks: Vec<_> = (0..16).map(|_| pool.alloc(4 * MIB, DEVICE, ONE).unwrap()).collect();
    assert_eq!(device.allocs.load(Ordering::Relaxed), 1);
    assert_eq!(pool.stats().free(), 0);
    // Freed in an order that joins on the left, on the right, and on both sides.
    let mut blocks: Vec<_> = blocks.into_iter().map(Some).collect();
    for i in (0..16).step_by(2).chain((1..16).step_by(2).rev()) {
        blocks[i] = None;
    }
    assert_eq!(pool.stats().largest_free, 64 * MIB);
    assert_eq!(pool.stats().fragmentation(), 0.0);
    assert_eq!(pool.state.lock().heap.ranges(), 1);
}

#[test]
fn small_blocks_of_all_sizes_join_into_whole_segments_again() {
    let (device, pool) = pool();
    let blocks: Vec<_> = (0..500).map(|i| pool.alloc(i * 37 % 9000, DEVICE, StreamId(i as u64 % 3)).unwrap()).collect();
    drop(blocks);
    assert!(pool.stats().fragmentation() > 0.0, "they wait in their lists");
    // A request that no single freed block can serve makes them one piece.
    let block = pool.alloc(MIB, DEVICE, ONE).unwrap();
    assert_eq!(device.allocs.load(Ordering::Relaxed), 1);
    drop(block);
    pool.trim(usize::MAX);
    assert_eq!(pool.state.lock().heap.ranges(), 1);
    assert_eq!(pool.trim(0), pool.stats().peak_reserved);
    assert_eq!(device.held(), 0);
}

#[test]
fn trim_keeps_what_it_is_told_to_and_what_is_in_use() {
    let (device, pool) = pool();
    let held = pool.alloc(20 * MIB, DEVICE, ONE).unwrap();
    drop((0..4).map(|_| pool.alloc(20 * MIB, DEVICE, ONE).unwrap()).collect::<Vec<_>>());
    assert_eq!(pool.stats().reserved, 100 * MIB);
    assert_eq!(pool.trim(50 * MIB), 40 * MIB);
    assert_eq!(pool.trim(0), 40 * MIB);
    assert_eq!((pool.stats().reserved, device.held()), (20 * MIB, 20 * MIB));
    let event = Event::new();
    held.used_on(TWO, event.clone());
    drop(held);
    assert_eq!(pool.trim(0), 0, "stream two still uses it");
    event.signal();
    assert_eq!(pool.trim(0), 20 * MIB);
}

#[test]
fn the_limit_holds_and_running_out_says_the_numbers() {
    let (device, pool) = pool_with(Device::default(), PoolConfig { limit: 64 * MIB, ..PoolConfig::default() });
    let first = pool.alloc(40 * MIB, DEVICE, ONE).unwrap();
    let error = pool.alloc(30 * MIB, DEVICE, ONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    match error.fault() {
        Fault::OutOfMemory { device, bytes, in_use, reserved } => {
            assert_eq!((device.as_str(), *bytes, *in_use, *reserved), ("test:0", 30 * MIB, 40 * MIB, 40 * MIB));
        }
        fault => panic!("{fault:?}"),
    }
    // There is not room for a whole segment of the preferred size, but for the block.
    let second = pool.alloc(5 * MIB, DEVICE, ONE).unwrap();
    drop(first);
    // The free segment is too short: it is returned under pressure to make room.
    let third = pool.alloc(50 * MIB, DEVICE, ONE).unwrap();
    assert!(device.held() <= 64 * MIB);
    drop((second, third));
    pool.set_limit(10 * MIB);
    assert!(pool.alloc(5 * MIB, DEVICE, ONE).is_ok(), "within what is reserved already");
    assert_eq!(pool.limit(), 10 * MIB);
}

#[test]
fn a_full_device_is_relieved_by_returning_free_segments_of_any_kind() {
    let (device, pool) = pool_with(Device { size: 100 * MIB, ..Device::default() }, PoolConfig::default());
    drop(pool.alloc(60 * MIB, MemoryKind::Pinned, ONE).unwrap());
    let block = pool.alloc(80 * MIB, DEVICE, ONE).unwrap();
    assert_eq!(device.held(), 80 * MIB);
    assert_eq!(pool.alloc(80 * MIB, DEVICE, ONE).unwrap_err().kind(), ErrorKind::OutOfMemory);
    drop(block);
}

#[test]
fn small_blocks_find_room_in_large_segments_before_the_pool_fails() {
    let (_, pool) = pool_with(Device::default(), PoolConfig { limit: 32 * MIB, ..PoolConfig::default() });
    let large = pool.alloc(2 * MIB, DEVICE, ONE).unwrap();
    assert_eq!(pool.stats().reserved, 32 * MIB);
    let small = pool.alloc(100, DEVICE, ONE).unwrap();
    assert_eq!(small.memory().address, large.memory().address);
}

#[test]
fn before_it_fails_the_pool_waits_for_pending_uses() {
    let config = PoolConfig { limit: 32 * MIB, ..PoolConfig::default() };
    let (device, pool) = pool_with(Device::default(), config);
    let event = Event::new();
    let block = pool.alloc(32 * MIB, DEVICE, ONE).unwrap();
    block.used_on(TWO, event.clone());
    drop(block);
    let signaller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(40));
        event.signal();
    });
    let start = Instant::now();
    let block = pool.alloc(30 * MIB, DEVICE, ONE).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
    signaller.join().unwrap();
    // The same with a fence.
    let fence = Event::new();
    device.fences.lock().insert(ONE, fence.clone());
    drop(block);
    let signaller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(40));
        fence.signal();
    });
    assert!(pool.alloc(32 * MIB, DEVICE, TWO).is_ok());
    signaller.join().unwrap();
    device.fences.lock().clear();
}

#[test]
fn a_use_that_never_ends_makes_it_fail_in_bounded_time() {
    let config = PoolConfig { limit: 32 * MIB, wait: Duration::from_millis(30), ..PoolConfig::default() };
    let (_, pool) = pool_with(Device::default(), config);
    let block = pool.alloc(32 * MIB, DEVICE, ONE).unwrap();
    block.used_on(TWO, Event::new());
    drop(block);
    assert_eq!(pool.alloc(32 * MIB, DEVICE, ONE).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert!(pool.alloc(32 * MIB, DEVICE, TWO).is_ok());
}

#[test]
fn absurd_sizes_are_an_error_and_zero_bytes_are_not() {
    let (device, pool) = pool();
    for bytes in [usize::MAX, usize::MAX - 63, usize::MAX / 2 + 1, isize::MAX as usize] {
        let error = pool_with(Device { size: 1 << 40, ..Device::default() }, PoolConfig::default())
            .1
            .alloc(bytes, DEVICE, ONE)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    }
    let (one, two) = (pool.alloc(0, DEVICE, ONE).unwrap(), pool.alloc(0, DEVICE, ONE).unwrap());
    assert!(one.is_empty() && one.capacity() > 0 && address(&one) != address(&two));
    assert_eq!(pool.stats().requested, 0);
    drop((one, two));
    pool.trim(0);
    assert_eq!(device.held(), 0);
}

#[test]
fn a_block_larger_than_a_segment_may_be_is_refused_with_advice() {
    let config = PoolConfig { max_segment: (8 << 20) - 1, ..PoolConfig::default() };
    let (_, pool) = pool_with(Device::default(), config);
    let error = pool.alloc(8 << 20, DEVICE, ONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.suggestion().is_some_and(|text| text.contains("8388607")));
    let block = pool.alloc((8 << 20) - 1, DEVICE, ONE).unwrap();
    assert_eq!(block.memory().bytes, (8 << 20) - 1);
}

#[test]
fn other_errors_of_the_device_are_passed_on() {
    let (device, pool) = pool();
    device.lost.store(true, Ordering::Relaxed);
    assert_eq!(pool.alloc(5, DEVICE, ONE).unwrap_err().kind(), ErrorKind::DeviceLost);
    assert_eq!(pool.stats(), PoolStats::default());
}

#[test]
fn memory_that_lies_idle_beyond_measure_goes_back_before_more_is_taken() {
    let config = PoolConfig { keep_idle: 64 * MIB, ..PoolConfig::default() };
    let (device, pool) = pool_with(Device::default(), config);
    for size in [40, 50, 60, 70, 80, 90, 100] {
        drop(pool.alloc(size * MIB, DEVICE, ONE).unwrap());
    }
    assert!(device.held() <= (64 + 100) * MIB, "{} MiB held", device.held() / MIB);
}

#[test]
fn offsets_keep_the_alignment_asked_for() {
    let (_, pool) = pool_with(Device::default(), PoolConfig { alignment: 200, ..PoolConfig::default() });
    let blocks: Vec<_> = (0..200).map(|i| pool.alloc(i * i * 61, DEVICE, ONE).unwrap()).collect();
    assert!(blocks.iter().all(|block| block.offset().is_multiple_of(256) && block.capacity() >= block.len()));
}

#[test]
fn the_trace_replayed_gives_the_statistics() {
    let (_, pool) = pool();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (copy, user) = (lines.clone(), Arc::downgrade(&pool));
    pool.set_trace(Some(Arc::new(move |line| {
        // A hook may ask the pool.
        let _ = user.upgrade().map(|pool| pool.stats());
        copy.lock().push(*line);
    })));
    let blocks: Vec<_> = [10, 3 * MIB, 0, 700_000].map(|bytes| pool.alloc(bytes, DEVICE, ONE).unwrap()).into();
    let held = blocks.into_iter().skip(2).collect::<Vec<_>>();
    pool.trim(0);
    let lines = lines.lock();
    let sum = |add, subtract| {
        lines.iter().fold(0, |sum, line| match line.action {
            action if action == add => sum + line.bytes,
            action if action == subtract => sum - line.bytes,
            _ => sum,
        })
    };
    let stats = pool.stats();
    assert_eq!(sum(MemoryAction::Alloc, MemoryAction::Free), stats.in_use);
    assert_eq!(sum(MemoryAction::Reserve, MemoryAction::Release), stats.reserved);
    assert_eq!(lines.last().map(|line| (line.in_use, line.reserved)), Some((stats.in_use, stats.reserved)));
    assert_eq!(lines.iter().filter(|line| line.action == MemoryAction::Release).count(), 1);
    drop(lines);
    pool.set_trace(None);
    drop(held);
}

#[test]
fn a_dropped_pool_returns_everything_once_its_blocks_are_gone() {
    let (device, pool) = pool();
    let block = pool.alloc(10, DEVICE, ONE).unwrap();
    drop(pool.alloc(30 * MIB, DEVICE, ONE).unwrap());
    drop(pool);
    assert!(device.held() > 0);
    drop(block);
    assert_eq!(device.held(), 0);
}

#[test]
fn an_event_that_owns_a_block_of_the_same_pool_may_be_dropped_by_it() {
    struct Owns(#[expect(dead_code, reason = "owned for its destructor")] Block);
    impl crate::event::DeviceEvent for Owns {
        fn query(&self) -> Result<bool> {
            Ok(true)
        }
        fn wait(&self, _timeout: Option<Duration>) -> Result<bool> {
            Ok(true)
        }
        fn notify(&self, event: &Event) -> Result<()> {
            event.signal();
            Ok(())
        }
        fn elapsed_since(&self, _earlier: &dyn crate::event::DeviceEvent) -> Option<Duration> {
            None
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    let (_, pool) = pool();
    for bytes in [100, 5 * MIB] {
        let (used, owned) = (pool.alloc(bytes, DEVICE, ONE).unwrap(), pool.alloc(bytes, DEVICE, ONE).unwrap());
        let event = Event::new();
        event.attach(Arc::new(Owns(owned)));
        used.used_on(TWO, event);
        drop(used);
        drop(pool.alloc(bytes, DEVICE, ONE).unwrap());
        pool.trim(0);
    }
    assert_eq!(pool.stats().in_use, 0);
}

#[test]
fn many_threads_share_a_pool_without_overlap_or_leak() {
    let (device, pool) = pool_with(Device::default(), PoolConfig { limit: 256 * MIB, ..PoolConfig::default() });
    let live = Mutex::new(std::collections::BTreeMap::new());
    thread::scope(|scope| {
        for i in 0..4u64 {
            let (pool, live) = (&pool, &live);
            scope.spawn(move || {
                let mut state = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut own = Vec::new();
                for _ in 0..3000 {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let roll = (state >> 33) as usize;
                    if roll.is_multiple_of(2) || own.is_empty() {
                        let bytes = if roll.is_multiple_of(31) { MIB + roll % (2 * MIB) } else { roll % 20_000 };
                        let block = pool.alloc(bytes, DEVICE, StreamId(i)).unwrap();
                        let start = block.memory().address + block.offset() as u64;
                        let end = start + block.capacity() as u64;
                        let mut live = live.lock();
                        assert!(live.range(..end).next_back().is_none_or(|(_, other): (&u64, &u64)| *other <= start));
                        live.insert(start, end);
                        drop(live);
                        own.push(block);
                    } else {
                        let block = own.swap_remove(roll % own.len());
                        live.lock().remove(&(block.memory().address + block.offset() as u64));
                    }
                    if own.len() > 40 {
                        let block = own.remove(0);
                        live.lock().remove(&(block.memory().address + block.offset() as u64));
                    }
                }
                for block in own {
                    live.lock().remove(&(block.memory().address + block.offset() as u64));
                }
            });
        }
    });
    assert_eq!((pool.stats().in_use, pool.stats().blocks), (0, 0));
    pool.trim(0);
    assert_eq!((pool.stats().reserved, device.held()), (0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { bytes: usize, kind: MemoryKind, stream: u64 },
    Free(usize),
    Use { block: usize, stream: u64 },
    Signal(usize),
    Trim(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![3 => 0..3000usize, 2 => 0..2 * MIB, 1 => MIB..40 * MIB];
    let kind = prop_oneof![4 => Just(DEVICE), 1 => Just(MemoryKind::Pinned)];
    let step = prop_oneof![
        6 => (bytes, kind, 0..3u64).prop_map(|(bytes, kind, stream)| Step::Alloc { bytes, kind, stream }),
        5 => any::<usize>().prop_map(Step::Free),
        2 => (any::<usize>(), 0..3u64).prop_map(|(block, stream)| Step::Use { block, stream }),
        2 => any::<usize>().prop_map(Step::Signal),
        1 => (0..100 * MIB).prop_map(Step::Trim),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn blocks_never_overlap_and_the_books_balance(steps in steps(), alignment in 0..3u32) {
        let config = PoolConfig {
            alignment: 64 << (2 * alignment),
            limit: 600 * MIB,
            wait: Duration::ZERO,
            ..PoolConfig::default()
        };
        let (device, pool) = pool_with(Device::default(), config);
        let mut live: Vec<Block> = Vec::new();
        let mut events: Vec<Event> = Vec::new();
        // Where a use may still be running: the span, the stream, the event.
        let mut running: Vec<(u64, u64, StreamId, Event)> = Vec::new();
        let span = |block: &Block| {
            let start = block.memory().address + block.offset() as u64;
            (start, start + block.capacity() as u64)
        };
        for step in steps {
            match step {
                Step::Alloc { bytes, kind, stream } => match pool.alloc(bytes, kind, StreamId(stream)) {
                    Ok(block) => {
                        prop_assert!(block.capacity() >= bytes);
                        prop_assert!(block.offset() + block.capacity() <= block.memory().bytes);
                        prop_assert_eq!(block.offset() % (64 << (2 * alignment)), 0);
                        let (start, end) = span(&block);
                        for (from, to, user, event) in &running {
                            let safe = *to <= start || end <= *from || *user == StreamId(stream) || event.is_complete();
                            prop_assert!(safe, "stream {} got memory that {:?} still uses", stream, user);
                        }
                        live.push(block);
                    }
                    Err(error) => prop_assert_eq!(error.kind(), ErrorKind::OutOfMemory),
                },
                Step::Free(i) if !live.is_empty() => drop(live.swap_remove(i % live.len())),
                Step::Use { block, stream } if !live.is_empty() => {
                    let block = &live[block % live.len()];
                    let event = Event::new();
                    block.used_on(StreamId(stream), event.clone());
                    // In stream order the later use stands for the earlier one.
                    let (start, end) = span(block);
                    running.retain(|(from, _, user, _)| (*from, *user) != (start, StreamId(stream)));
                    running.push((start, end, StreamId(stream), event.clone()));
                    events.push(event);
                }
                Step::Signal(i) if !events.is_empty() => events.swap_remove(i % events.len()).signal(),
                Step::Trim(keep) => {
                    let before = pool.stats().reserved;
                    let trimmed = pool.trim(keep);
                    prop_assert!(trimmed == 0 || before - trimmed >= keep);
                }
                _ => {}
            }
            let stats = pool.stats();
            prop_assert_eq!(stats.in_use, live.iter().map(Block::capacity).sum::<usize>());
            prop_assert_eq!(stats.requested, live.iter().map(Block::len).sum::<usize>());
            prop_assert_eq!(stats.reserved, device.held());
            prop_assert!(stats.in_use <= stats.reserved && stats.reserved <= 600 * MIB);
            prop_assert!(stats.largest_free <= stats.free());
        }
        for (i, one) in live.iter().enumerate() {
            prop_assert!(live[..i].iter().all(|two| !spans_overlap(one, two)));
        }
        live.clear();
        for event in events {
            event.signal();
        }
        pool.trim(usize::MAX);
        let stats = pool.stats();
        prop_assert_eq!(pool.state.lock().heap.ranges(), stats.segments, "a free segment is one range");
        pool.trim(0);
        prop_assert_eq!((pool.stats().reserved, pool.stats().in_use, device.held()), (0, 0, 0));
    }
}

#[test]
#[ignore = "a measurement"]
fn how_long_an_allocation_takes() {
    let (_, pool) = pool();
    for bytes in [256, 100_000, 16 * MIB] {
        // The best of many short runs: neighbours are noisy.
        let best = (0..200).map(|_| {
            let start = Instant::now();
            for _ in 0..5000 {
                std::hint::black_box(pool.alloc(std::hint::black_box(bytes), DEVICE, ONE).unwrap());
            }
            start.elapsed()
        });
        println!("{bytes} bytes: {:.1} ns for a pair", best.min().unwrap().as_nanos() as f64 / 5000.0);
    }
}
