//! What a pool tells about itself: numbers, and a trace for the memory profiler.

use std::fmt;
use std::panic::Location;

use crate::memory::{MemoryKind, StreamId};

/// A pool's numbers at one moment. All sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolStats {
    /// In blocks that are alive, as they were rounded up.
    pub in_use: usize,
    /// In blocks that are alive, as they were asked for.
    pub requested: usize,
    /// Taken from the device.
    pub reserved: usize,
    /// The most that was ever in use.
    pub peak: usize,
    /// The most that was ever reserved.
    pub peak_reserved: usize,
    /// The largest free piece. Small freed blocks that wait for their own kind count one by one.
    pub largest_free: usize,
    /// Blocks alive.
    pub blocks: usize,
    /// Segments taken from the device and not returned.
    pub segments: usize,
    /// Blocks given out since the beginning.
    pub allocations: u64,
    /// Those of them for which the device was not asked.
    pub hits: u64,
}

impl PoolStats {
    /// Reserved and not in use.
    pub fn free(&self) -> usize {
        self.reserved.saturating_sub(self.in_use)
    }

    /// How scattered the free memory is: 0 if it is one piece, near 1 if it is crumbs.
    pub fn fragmentation(&self) -> f64 {
        match self.free() {
            0 => 0.0,
            free => 1.0 - self.largest_free as f64 / free as f64,
        }
    }
}

impl fmt::Display for PoolStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in use in {} blocks, {} reserved in {} segments, peak {}, fragmentation {:.2}, {} of {} \
             allocations from the pool",
            self.in_use,
            self.blocks,
            self.reserved,
            self.segments,
            self.peak,
            self.fragmentation(),
            self.hits,
            self.allocations
        )
    }
}

/// Large blocks that are alive and were made at one place of the program, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Their bytes together.
    pub bytes: usize,
    /// How many they are.
    pub blocks: usize,
    /// Where what they hold was called for; `None` for memory of intermediate values, among others.
    pub place: Option<&'static Location<'static>>,
}

/// What happened to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryAction {
    /// A block was given out.
    Alloc,
    /// A block came back.
    Free,
    /// A segment was taken from the device.
    Reserve,
    /// A segment was returned to the device.
    Release,
}

/// One line of the allocation trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTrace {
    /// Its number in the order of events: the hook may be called by several threads at once, out of order.
    pub sequence: u64,
    /// What happened.
    pub action: MemoryAction,
    /// The segment's address.
    pub address: u64,
    /// Where in the segment the block begins.
    pub offset: usize,
    /// The size of the block or segment, as rounded up.
    pub bytes: usize,
    /// The kind of memory; not known of a segment that is returned.
    pub kind: Option<MemoryKind>,
    /// The stream for which a block was allocated.
    pub stream: Option<StreamId>,
    /// Bytes in use afterwards.
    pub in_use: usize,
    /// Bytes reserved afterwards.
    pub reserved: usize,
}
