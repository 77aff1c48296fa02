//! A device's memory, taken from its driver in large pieces and given out in blocks.
//!
//! - **Small blocks** (to 1 MiB) have size classes. A freed one waits in its class's list, where the next request of that
//!   class finds it without searching. Before the pool asks the device for more, all lists are emptied into the heap.
//! - **Large blocks** are the best fit among free ranges, which are split on taking and joined with their free neighbours
//!   on giving back.
//! - **Stream order.** Freed memory is at once reusable on the stream it was allocated for. Another stream gets it only
//!   when the uses recorded by [`Block::used_on`] are complete and the first stream has passed the free
//!   ([`Source::fence`]). The pool asks; it does not wait, except as the last step before it fails.
//! - **Pressure.** If the device or the limit refuses, the pool joins what is free, returns whole free segments, waits for
//!   pending uses, tries once more, and then fails with the numbers. Otherwise segments stay reserved, because memory that was
//!   touched once is worth keeping, until [`Pool::trim`] or until too much of it lies idle.
//!
//! Block sizes are rounded up; the statistics count them as rounded and as asked for. A block keeps its pool alive.

mod block;
mod classes;
mod heap;
#[cfg(all(test, loom))]
mod loom_tests;
mod order;
mod stats;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind, Fault, Result};
use crate::event::Event;
use crate::memory::{MemoryKind, RawMemory, StreamId};
use crate::sync::{CAN_BLOCK, Mutex};
use classes::{Classes, Size};
use heap::{Effort, Heap, SegmentId, Shelf, Taken};
use order::{Fences, Now, Past};

pub use block::Block;
pub use stats::{Held, MemoryAction, MemoryTrace, PoolStats};

/// Where a pool's memory comes from: a backend. Only the pool calls it, and it must not call the pool.
pub trait Source: Send + Sync {
    /// The device's name, for messages.
    fn name(&self) -> String;

    /// Takes a segment from the device, its beginning aligned at least to the pool's alignment. `bytes` is never 0. An
    /// error of kind `OutOfMemory` makes the pool give back what it can and try again; any other is passed on.
    fn alloc(&self, bytes: usize, kind: MemoryKind) -> Result<RawMemory>;

    /// Returns a segment. Nobody uses it any more.
    fn free(&self, memory: RawMemory);

    /// Segments are asked for in multiples of this.
    fn granularity(&self, _kind: MemoryKind) -> usize {
        1 << 16
    }

    /// An event that completes when the stream has passed all that is queued on it now; `None` if nothing is pending
    /// there, as on a stream that finishes work within the call or that is closed.
    ///
    /// Asked only when one stream could use what another has freed. A source that always answers `None` (the default)
    /// says that every use which may outlast the block is recorded by [`Block::used_on`].
    fn fence(&self, _stream: StreamId) -> Result<Option<Event>> {
        Ok(None)
    }
}

/// A pool's settings. All sizes are bytes.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The most to take from the device.
    pub limit: usize,
    /// Blocks up to this size are small.
    pub small_block: usize,
    /// The segments that small blocks are cut from.
    pub small_segment: usize,
    /// The segments that large blocks of less than half this size are cut from; a larger block gets its own size.
    pub large_segment: usize,
    /// The largest segment, and so the largest block, that the device can give.
    pub max_segment: usize,
    /// The alignment of every block in its segment: rounded up to a power of two from 16 to 64 Ki.
    pub alignment: usize,
    /// Before it takes more from the device, the pool returns whole free segments until no more than this, or than is in
    /// use, lies idle.
    pub keep_idle: usize,
    /// How long the last step before failing may wait for pending uses.
    pub wait: Duration,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            limit: usize::MAX,
            small_block: 1 << 20,
            small_segment: 4 << 20,
            large_segment: 32 << 20,
            max_segment: usize::MAX,
            alignment: 64,
            keep_idle: 1 << 30,
            wait: Duration::from_secs(10),
        }
    }
}

/// Called for every step of the allocation trace, by the thread that did it. It may use the pool.
pub type TraceHook = Arc<dyn Fn(&MemoryTrace) + Send + Sync>;

/// A device's memory pool: see the [module](self).
pub struct Pool {
    source: Box<dyn Source>,
    config: PoolConfig,
    classes: Classes,
    state: Mutex<State>,
    tracing: AtomicBool,
    trace: parking_lot::RwLock<Option<TraceHook>>,
}

/// A piece of memory that is either in a block or in a quick list, box and all.
struct Chunk {
    memory: Arc<RawMemory>,
    segment: SegmentId,
    offset: usize,
    bytes: usize,
    kind: MemoryKind,
    /// The quick list it belongs to, if it is small.
    list: Option<usize>,
    past: Mutex<Past>,
}

struct State {
    /// Freed small blocks for each kind of memory and class.
    #[expect(clippy::vec_box, reason = "the boxes move between lists and blocks, so that reuse allocates nothing")]
    quick: Vec<Vec<Box<Chunk>>>,
    heap: Heap,
    /// The large blocks that are alive, each with the place of the program that it was made for.
    large: FxHashMap<(SegmentId, usize), (usize, Option<&'static Location<'static>>)>,
    fences: Fences,
    /// Counts everything that happens: the order of the trace, and of frees against fences.
    time: u64,
    limit: usize,
    stats: PoolStats,
}

/// What is asked for.
#[derive(Clone, Copy)]
struct Request {
    bytes: usize,
    size: Size,
    kind: MemoryKind,
    stream: StreamId,
}

/// Whether a request waits for pending uses before it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Wait,
    None,
}

/// The numbers that go into the trace.
#[derive(Clone, Copy)]
struct Stamp {
    time: u64,
    in_use: usize,
    reserved: usize,
}

/// How many chunks at the end of a quick list are looked at.
const LOOKS: usize = 8;

impl Request {
    fn shelf(&self) -> Shelf {
        self.kind as usize * 2 + usize::from(self.size.class.is_none())
    }

    /// Where else there may be room, if need be.
    fn other_shelf(&self) -> Shelf {
        self.shelf() ^ 1
    }
}

impl State {
    fn stamp(&mut self) -> Stamp {
        self.time += 1;
        Stamp { time: self.time, in_use: self.stats.in_use, reserved: self.stats.reserved }
    }

    #[inline]
    fn count(&mut self, request: &Request, hit: bool) -> Stamp {
        let stats = &mut self.stats;
        stats.in_use += request.size.bytes;
        stats.requested += request.bytes;
        stats.blocks += 1;
        stats.allocations += 1;
        stats.hits += u64::from(hit);
        stats.peak = stats.peak.max(stats.in_use);
        self.stamp()
    }

    /// A freed chunk of this list that the stream may have.
    #[inline]
    fn pop(
        &mut self,
        list: usize,
        stream: StreamId,
        source: &dyn Source,
        garbage: &mut Vec<Event>,
    ) -> Option<Box<Chunk>> {
        let chunks = self.quick.get_mut(list)?;
        let past = chunks.last_mut()?.past.get_mut();
        if past.home == Some(stream) && past.uses.iter().all(|(user, _)| *user == stream) {
            return chunks.pop();
        }
        let mut now = Now { source, fences: &mut self.fences, time: self.time, garbage };
        let mut chunk_indices = (0..chunks.len()).rev().take(LOOKS);
        let found = chunk_indices.find(|i| chunks[*i].past.get_mut().allows(stream, &mut now))?;
        Some(chunks.swap_remove(found))
    }

    fn take(
        &mut self,
        shelf: Shelf,
        request: &Request,
        effort: Effort,
        source: &dyn Source,
        garbage: &mut Vec<Event>,
    ) -> Option<Taken> {
        let mut now = Now { source, fences: &mut self.fences, time: self.time, garbage };
        self.heap.take(shelf, request.size.bytes, request.stream, effort, &mut now)
    }

    /// Empties the quick lists into the heap and joins all that can be joined.
    fn settle(&mut self, source: &dyn Source, garbage: &mut Vec<Event>) {
        for chunk in self.quick.iter_mut().flat_map(|list| list.drain(..)) {
            let chunk = *chunk;
            let mut past = chunk.past;
            self.heap.give(chunk.segment, chunk.offset, chunk.bytes, std::mem::take(past.get_mut()));
        }
        let mut now = Now { source, fences: &mut self.fences, time: self.time, garbage };
        self.heap.settle(&mut now);
        self.fences.forget_complete(garbage);
    }

    /// Takes whole free segments out, the largest first, except those of which `keep` says so, given what is reserved
    /// and the segment's size.
    fn release(&mut self, keep: impl Fn(usize, usize) -> bool) -> Vec<(RawMemory, Stamp)> {
        let mut reserved = self.stats.reserved;
        let released = self.heap.release(|bytes| {
            let keep = keep(reserved, bytes);
            reserved -= if keep { 0 } else { bytes };
            keep
        });
        let stamped = released.into_iter().map(|memory| {
            self.stats.reserved -= memory.bytes;
            (memory, self.stamp())
        });
        stamped.collect()
    }

    fn pending(&self) -> Vec<Event> {
        let uses = self.heap.pasts().flat_map(|past| past.uses.iter().map(|(_, event)| event));
        uses.chain(self.fences.pending()).cloned().collect()
    }
}

impl Pool {
    /// A pool that has taken nothing yet.
    pub fn new(source: Box<dyn Source>, mut config: PoolConfig) -> Arc<Pool> {
        config.alignment = config.alignment.clamp(16, 1 << 16).next_power_of_two();
        // So far from the end of the address space that no rounding overflows.
        config.max_segment = config.max_segment.min(isize::MAX as usize);
        config.small_segment = config.small_segment.clamp(config.alignment, 1 << 30).min(config.max_segment);
        // A day: what the clock can surely express.
        config.wait = config.wait.min(Duration::from_secs(86_400));
        let classes = Classes::new(config.alignment, config.small_block.min(config.small_segment), config.max_segment);
        let state = State {
            quick: (0..classes.count() * MemoryKind::ALL.len()).map(|_| Vec::new()).collect(),
            heap: Heap::new(2 * MemoryKind::ALL.len()),
            large: FxHashMap::default(),
            fences: Fences::default(),
            time: 0,
            limit: config.limit,
            stats: PoolStats::default(),
        };
        Arc::new(Pool {
            source,
            config,
            classes,
            state: Mutex::new(state),
            tracing: AtomicBool::new(false),
            trace: parking_lot::RwLock::new(None),
        })
    }

    /// A block of at least so many bytes, for work on this stream. Its content is whatever was there before. Zero bytes
    /// give a block that has an address and no bytes to use.
    pub fn alloc(self: &Arc<Pool>, bytes: usize, kind: MemoryKind, stream: StreamId) -> Result<Block> {
        self.get(bytes, kind, stream, Patience::Wait)
    }

    /// The same for memory that is nice to have: `None` where it is not there, without a wait for pending uses. Work that others
    /// wait for may therefore ask.
    pub fn try_alloc(self: &Arc<Pool>, bytes: usize, kind: MemoryKind, stream: StreamId) -> Option<Block> {
        self.get(bytes, kind, stream, Patience::None).ok()
    }

    fn get(self: &Arc<Pool>, bytes: usize, kind: MemoryKind, stream: StreamId, patience: Patience) -> Result<Block> {
        let Some(size) = self.classes.fit(bytes) else {
            return Err(self.refusal(bytes).suggest(format!(
                "work in smaller pieces: this device gives at most {} bytes at once",
                self.config.max_segment
            )));
        };
        let request = Request { bytes, size, kind, stream };
        // Declared before the lock is taken, so dropped after it is released.
        let mut garbage = Vec::new();
        let quick = size.class.and_then(|class| {
            let mut state = self.state.lock();
            let list = kind as usize * self.classes.count() + class;
            let chunk = state.pop(list, stream, &*self.source, &mut garbage)?;
            Some((chunk, state.count(&request, true)))
        });
        let (chunk, stamp) = match quick {
            Some(found) => found,
            None => self.alloc_slowly(&request, patience, &mut garbage)?,
        };
        if self.tracing.load(Ordering::Relaxed) {
            self.trace_chunk(MemoryAction::Alloc, &chunk, stream, stamp);
        }
        Ok(Block::new(chunk, self.clone(), bytes, stream))
    }

    #[cold]
    fn alloc_slowly(
        &self,
        request: &Request,
        patience: Patience,
        garbage: &mut Vec<Event>,
    ) -> Result<(Box<Chunk>, Stamp)> {
        let source = &*self.source;
        {
            let mut state = self.state.lock();
            let mut taken = state.take(request.shelf(), request, Effort::Quick, source, garbage);
            if taken.is_none() {
                state.settle(source, garbage);
                taken = state.take(request.shelf(), request, Effort::Thorough, source, garbage);
            }
            if let Some(taken) = taken {
                return Ok(self.chunk(&mut state, taken, request, true));
            }
        }
        let (preferred, exact) = self.segment_sizes(request);
        if let Some(made) = self.grow(preferred, request)? {
            return Ok(made);
        }
        // From here on nothing is cheap. First room among blocks of the other size, then other segments' room.
        for keep in [Keep::Fitting(exact), Keep::Nothing] {
            if let Some(made) = self.reclaim(request, keep, garbage) {
                return Ok(made);
            }
            if let Some(made) = self.grow(exact, request)? {
                return Ok(made);
            }
        }
        if patience == Patience::Wait
            && self.wait_for_pending()
            && let Some(made) = self.reclaim(request, Keep::Nothing, garbage)
        {
            return Ok(made);
        }
        match self.grow(exact, request)? {
            Some(made) => Ok(made),
            None => Err(self.refusal(request.bytes)),
        }
    }

    /// The segment that the request would like, and the least that would do.
    fn segment_sizes(&self, request: &Request) -> (usize, usize) {
        let config = &self.config;
        let bytes = request.size.bytes;
        let granularity = self.source.granularity(request.kind).max(1);
        let round = |bytes: usize| bytes.checked_next_multiple_of(granularity).unwrap_or(bytes).min(config.max_segment);
        let preferred = match request.size.class {
            Some(_) => config.small_segment.max(bytes),
            None if bytes < config.large_segment / 2 => config.large_segment,
            None => bytes,
        };
        (round(preferred), round(bytes))
    }

    /// Asks the device for a segment and cuts the block from it; `None` if the limit or the device refuses.
    fn grow(&self, bytes: usize, request: &Request) -> Result<Option<(Box<Chunk>, Stamp)>> {
        let idle = {
            let mut state = self.state.lock();
            let stats = &state.stats;
            // What lies idle beyond measure goes back before more is taken.
            let keep = stats.in_use.saturating_add(self.config.keep_idle.max(stats.in_use));
            let idle = state.release(|reserved, _| reserved <= keep);
            if bytes > state.limit.saturating_sub(state.stats.reserved) {
                drop(state);
                self.free(idle);
                return Ok(None);
            }
            // Counted before the lock is released, so that two threads together keep to the limit.
            state.stats.reserved += bytes;
            idle
        };
        self.free(idle);
        let memory = match self.source.alloc(bytes, request.kind) {
            Ok(memory) if memory.bytes >= bytes => memory,
            Ok(short) => {
                self.state.lock().stats.reserved -= bytes;
                let message = format!("{} gave {} bytes for {bytes}", self.source.name(), short.bytes);
                self.source.free(short);
                return Err(Error::internal(message));
            }
            Err(error) => {
                self.state.lock().stats.reserved -= bytes;
                return if error.kind() == ErrorKind::OutOfMemory { Ok(None) } else { Err(error) };
            }
        };
        let (address, all) = (memory.address, memory.bytes);
        let mut state = self.state.lock();
        state.stats.reserved += all - bytes;
        state.stats.peak_reserved = state.stats.peak_reserved.max(state.stats.reserved);
        let stamp = state.stamp();
        let segment = state.heap.add(memory, request.shelf());
        let taken = state.heap.take_first(segment, request.size.bytes);
        let made = taken.map(|taken| self.chunk(&mut state, taken, request, false));
        drop(state);
        self.trace(MemoryAction::Reserve, (address, 0, all), Some(request.kind), None, stamp);
        Ok(made)
    }

    /// Joins and searches everything free of the right kind; if that does not do, returns whole free segments.
    fn reclaim(&self, request: &Request, keep: Keep, garbage: &mut Vec<Event>) -> Option<(Box<Chunk>, Stamp)> {
        let source = &*self.source;
        let mut state = self.state.lock();
        state.settle(source, garbage);
        for shelf in [request.shelf(), request.other_shelf()] {
            if let Some(taken) = state.take(shelf, request, Effort::Thorough, source, garbage) {
                return Some(self.chunk(&mut state, taken, request, true));
            }
        }
        let released = match keep {
            Keep::Fitting(bytes) => {
                let target = state.limit.saturating_sub(bytes);
                state.release(|reserved, _| reserved <= target)
            }
            Keep::Nothing => state.release(|_, _| false),
        };
        drop(state);
        self.free(released);
        None
    }

    /// Waits, for a bounded time, until pending uses of free memory are complete; says whether there were any.
    fn wait_for_pending(&self) -> bool {
        let pending = self.state.lock().pending();
        if !CAN_BLOCK || pending.is_empty() {
            return false;
        }
        let deadline = Instant::now() + self.config.wait;
        for event in pending {
            // A use that failed is over, too.
            let _ = event.wait_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        true
    }

    fn chunk(&self, state: &mut State, taken: Taken, request: &Request, hit: bool) -> (Box<Chunk>, Stamp) {
        let Size { bytes, class } = request.size;
        if class.is_none() {
            state.large.insert((taken.segment, taken.offset), (bytes, None));
        }
        let chunk = Box::new(Chunk {
            memory: taken.memory,
            segment: taken.segment,
            offset: taken.offset,
            bytes,
            kind: request.kind,
            list: class.map(|class| request.kind as usize * self.classes.count() + class),
            past: Mutex::new(taken.past),
        });
        (chunk, state.count(request, hit))
    }

    #[inline]
    fn give_back(&self, mut chunk: Box<Chunk>, len: usize, stream: StreamId) {
        let tracing = self.tracing.load(Ordering::Relaxed);
        let (address, offset) = if tracing { (chunk.memory.address, chunk.offset) } else { (0, 0) };
        let (bytes, kind) = (chunk.bytes, chunk.kind);
        let mut state = self.state.lock();
        state.stats.in_use -= bytes;
        state.stats.requested -= len;
        state.stats.blocks -= 1;
        let stamp = state.stamp();
        let past = chunk.past.get_mut();
        (past.home, past.freed) = (Some(stream), stamp.time);
        match chunk.list {
            Some(list) => {
                state.quick[list].push(chunk);
                drop(state);
            }
            None => {
                let past = std::mem::take(past);
                state.large.remove(&(chunk.segment, chunk.offset));
                state.heap.give(chunk.segment, chunk.offset, bytes, past);
                // First the lock, then the chunk: its memory's owner has a destructor of its own.
                drop(state);
                drop(chunk);
            }
        }
        if tracing {
            self.trace(MemoryAction::Free, (address, offset, bytes), Some(kind), Some(stream), stamp);
        }
    }

    /// Returns whole free segments to the device while at least `keep_bytes` stay reserved; gives the bytes returned.
    /// Segments that a stream may still be using are left alone. Does not wait.
    pub fn trim(&self, keep_bytes: usize) -> usize {
        let mut garbage = Vec::new();
        let released = {
            let mut state = self.state.lock();
            state.settle(&*self.source, &mut garbage);
            state.release(|reserved, bytes| reserved - bytes < keep_bytes)
        };
        let bytes = released.iter().map(|(memory, _)| memory.bytes).sum();
        self.free(released);
        bytes
    }

    /// The numbers at this moment.
    pub fn stats(&self) -> PoolStats {
        let state = self.state.lock();
        let cached = state.quick.iter().filter_map(|list| list.last()).map(|chunk| chunk.bytes).max().unwrap_or(0);
        PoolStats {
            largest_free: state.heap.largest_free().max(cached),
            segments: state.heap.segments(),
            ..state.stats
        }
    }

    /// Who holds most of the memory: large blocks by the places of the program that they were made for, most bytes first.
    pub fn largest(&self, most: usize) -> Vec<Held> {
        let mut places: FxHashMap<Option<&'static Location<'static>>, Held> = FxHashMap::default();
        for &(bytes, place) in self.state.lock().large.values() {
            let held = places.entry(place).or_insert(Held { bytes: 0, blocks: 0, place });
            (held.bytes, held.blocks) = (held.bytes + bytes, held.blocks + 1);
        }
        let mut list: Vec<Held> = places.into_values().collect();
        list.sort_by_key(|held| (std::cmp::Reverse(held.bytes), held.place));
        list.truncate(most);
        list
    }

    fn made_at(&self, chunk: &Chunk, place: &'static Location<'static>) {
        if chunk.list.is_none()
            && let Some(held) = self.state.lock().large.get_mut(&(chunk.segment, chunk.offset))
        {
            held.1.get_or_insert(place);
        }
    }

    fn place(&self, chunk: &Chunk) -> Option<&'static Location<'static>> {
        let found = |state: &State| state.large.get(&(chunk.segment, chunk.offset)).and_then(|held| held.1);
        if chunk.list.is_none() { found(&self.state.lock()) } else { None }
    }

    /// Starts the peaks anew from what is in use and reserved now.
    pub fn reset_peaks(&self) {
        let stats = &mut self.state.lock().stats;
        (stats.peak, stats.peak_reserved) = (stats.in_use, stats.reserved);
    }

    /// The most that the pool takes from the device.
    pub fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// Changes the limit. What is reserved beyond it stays until it is free and [`trim`](Pool::trim)med.
    pub fn set_limit(&self, bytes: usize) {
        self.state.lock().limit = bytes;
    }

    /// Has every allocation and free reported to this hook, or no longer.
    pub fn set_trace(&self, hook: Option<TraceHook>) {
        self.tracing.store(hook.is_some(), Ordering::Relaxed);
        let old = std::mem::replace(&mut *self.trace.write(), hook);
        drop(old);
    }

    #[cold]
    fn trace_chunk(&self, action: MemoryAction, chunk: &Chunk, stream: StreamId, stamp: Stamp) {
        let range = (chunk.memory.address, chunk.offset, chunk.bytes);
        self.trace(action, range, Some(chunk.kind), Some(stream), stamp);
    }

    #[cold]
    fn trace(
        &self,
        action: MemoryAction,
        (address, offset, bytes): (u64, usize, usize),
        kind: Option<MemoryKind>,
        stream: Option<StreamId>,
        stamp: Stamp,
    ) {
        // Cloned, so that the hook runs without a lock.
        let hook = self.trace.read().clone();
        if let Some(hook) = hook {
            let Stamp { time, in_use, reserved } = stamp;
            hook(&MemoryTrace { sequence: time, action, address, offset, bytes, kind, stream, in_use, reserved });
        }
    }

    fn free(&self, released: Vec<(RawMemory, Stamp)>) {
        for (memory, stamp) in released {
            self.trace(MemoryAction::Release, (memory.address, 0, memory.bytes), None, None, stamp);
            self.source.free(memory);
        }
    }

    fn refusal(&self, bytes: usize) -> Error {
        let PoolStats { in_use, reserved, .. } = self.state.lock().stats;
        Error::new(ErrorKind::OutOfMemory, Fault::OutOfMemory { device: self.source.name(), bytes, in_use, reserved })
    }
}

/// How much stays reserved when memory is reclaimed.
#[derive(Clone, Copy)]
enum Keep {
    /// What leaves room for a segment of this size under the limit.
    Fitting(usize),
    /// Nothing that is free.
    Nothing,
}

impl Drop for Pool {
    fn drop(&mut self) {
        // No block is left, for each keeps its pool. What they were used for may still be running.
        let mut garbage = Vec::new();
        self.state.get_mut().settle(&*self.source, &mut garbage);
        drop(garbage);
        self.wait_for_pending();
        for memory in self.state.get_mut().heap.release_all() {
            self.source.free(memory);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({}: {})", self.source.name(), self.stats())
    }
}
