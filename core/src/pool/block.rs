//! Blocks: what a pool gives out.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::Arc;

use super::{Chunk, Pool};
use crate::event::Event;
use crate::memory::{HostPtr, MemoryKind, RawMemory, StreamId};

/// Memory from a pool; dropping it gives it back.
///
/// Whoever queues work on it for another stream than its own says so by [`used_on`](Block::used_on).
pub struct Block {
    /// Taken out by `drop` only.
    chunk: ManuallyDrop<Box<Chunk>>,
    pool: Arc<Pool>,
    len: usize,
    stream: StreamId,
}

impl Block {
    pub(super) fn new(chunk: Box<Chunk>, pool: Arc<Pool>, len: usize, stream: StreamId) -> Block {
        Block { chunk: ManuallyDrop::new(chunk), pool, len, stream }
    }

    /// The segment that it lies in.
    #[inline]
    pub fn memory(&self) -> &RawMemory {
        &self.chunk.memory
    }

    /// Where in the segment it begins: a multiple of the pool's alignment.
    #[inline]
    pub fn offset(&self) -> usize {
        self.chunk.offset
    }

    /// The bytes that were asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no bytes were asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes that there are.
    pub fn capacity(&self) -> usize {
        self.chunk.bytes
    }

    /// Its first byte, if the host can address it.
    pub fn host(&self) -> Option<HostPtr> {
        let start = self.chunk.memory.host?;
        HostPtr::new(start.as_ptr().wrapping_add(self.chunk.offset))
    }

    /// The kind of memory.
    pub fn kind(&self) -> MemoryKind {
        self.chunk.kind
    }

    /// The stream that it was allocated for.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The pool that it goes back to.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Says what place of the program it was made for, unless somebody has: for [`Pool::largest`], which names large blocks only.
    pub fn made_at(&self, place: &'static Location<'static>) {
        self.pool.made_at(&self.chunk, place);
    }

    /// The place of the program that it was made for, if it is large and that was said.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.pool.place(&self.chunk)
    }

    /// The uses noted so far that may still be running, of every stream but this one.
    pub fn uses_by_others(&self, stream: StreamId) -> Vec<Event> {
        let past = self.chunk.past.lock();
        past.uses.iter().filter(|(user, event)| *user != stream && !event.is_over()).map(|(_, e)| e.clone()).collect()
    }

    /// Notes that the stream uses this memory until the event completes. The last use noted for a stream stands for its
    /// earlier ones.
    pub fn used_on(&self, stream: StreamId, event: Event) {
        if event.is_over() {
            return;
        }
        let mut past = self.chunk.past.lock();
        let old = match past.uses.iter_mut().find(|(user, _)| *user == stream) {
            Some((_, last)) => Some(std::mem::replace(last, event)),
            None => {
                past.uses.push((stream, event));
                None
            }
        };
        drop(past);
        drop(old);
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used afterwards.
        let chunk = unsafe { ManuallyDrop::take(&mut self.chunk) };
        self.pool.give_back(chunk, self.len, self.stream);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes at {} of {:?})", self.len, self.chunk.offset, self.chunk.memory)
    }
}
