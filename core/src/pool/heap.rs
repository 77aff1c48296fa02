//! The segments that a pool has taken from its source, and the free ranges in them.
//!
//! Best fit by size, split on taking, joined with free neighbours on giving back. Neighbours with different pasts stay
//! apart until [`Heap::settle`] finds that both are over.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::order::{Now, Past};
use crate::memory::{RawMemory, StreamId};

/// Which segments a request looks in: one shelf for each kind of memory, for small and for large blocks.
pub(super) type Shelf = usize;

/// How many free ranges a search looks at before it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    Quick,
    Thorough,
}

/// A number of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SegmentId(u32);

struct Segment {
    memory: Arc<RawMemory>,
    shelf: Shelf,
    /// The free ranges by offset: their length and past.
    free: BTreeMap<usize, (usize, Past)>,
}

/// A range taken from the heap.
pub(super) struct Taken {
    pub memory: Arc<RawMemory>,
    pub segment: SegmentId,
    pub offset: usize,
    /// Uses by the very stream that takes it may be left.
    pub past: Past,
}

pub(super) struct Heap {
    segments: Vec<Option<Segment>>,
    /// For each shelf, its free ranges by length.
    by_size: Vec<BTreeSet<(usize, SegmentId, usize)>>,
}

impl Heap {
    pub fn new(shelves: usize) -> Heap {
        Heap { segments: Vec::new(), by_size: vec![BTreeSet::new(); shelves] }
    }

    /// Adds a segment, all free.
    pub fn add(&mut self, memory: RawMemory, shelf: Shelf) -> SegmentId {
        let slot = self.segments.iter().position(Option::is_none).unwrap_or(self.segments.len());
        if slot == self.segments.len() {
            self.segments.push(None);
        }
        let (id, bytes) = (SegmentId(slot as u32), memory.bytes);
        self.segments[slot] = Some(Segment { memory: Arc::new(memory), shelf, free: BTreeMap::new() });
        self.insert(id, 0, bytes, Past::default());
        id
    }

    fn segment(&mut self, id: SegmentId) -> &mut Segment {
        self.segments[id.0 as usize].as_mut().expect("a segment stays while its id is in use") // invariant: see `release`
    }

    fn insert(&mut self, id: SegmentId, offset: usize, bytes: usize, past: Past) {
        let segment = self.segment(id);
        segment.free.insert(offset, (bytes, past));
        let shelf = segment.shelf;
        self.by_size[shelf].insert((bytes, id, offset));
    }

    fn remove(&mut self, id: SegmentId, offset: usize) -> Option<(usize, Past)> {
        let segment = self.segment(id);
        let (bytes, past) = segment.free.remove(&offset)?;
        let shelf = segment.shelf;
        self.by_size[shelf].remove(&(bytes, id, offset));
        Some((bytes, past))
    }

    /// The smallest free range that is long enough and that the stream may have.
    pub fn take(
        &mut self,
        shelf: Shelf,
        bytes: usize,
        stream: StreamId,
        effort: Effort,
        now: &mut Now<'_>,
    ) -> Option<Taken> {
        let looks = if effort == Effort::Quick { 16 } else { usize::MAX };
        let segments = &mut self.segments;
        let found = self.by_size[shelf].range((bytes, SegmentId(0), 0)..).take(looks).find(|(_, id, offset)| {
            let range = segments[id.0 as usize].as_mut().and_then(|segment| segment.free.get_mut(offset));
            range.is_some_and(|(_, past)| past.allows(stream, now))
        });
        let (_, id, offset) = *found?;
        self.split(id, offset, bytes)
    }

    /// The beginning of a segment that was just added.
    pub fn take_first(&mut self, id: SegmentId, bytes: usize) -> Option<Taken> {
        self.split(id, 0, bytes)
    }

    fn split(&mut self, id: SegmentId, offset: usize, bytes: usize) -> Option<Taken> {
        let (whole, past) = self.remove(id, offset)?;
        if whole > bytes {
            self.insert(id, offset + bytes, whole - bytes, past.clone());
        }
        Some(Taken { memory: self.segment(id).memory.clone(), segment: id, offset, past })
    }

    /// Takes a range back and joins it with its free neighbours where their pasts allow.
    pub fn give(&mut self, id: SegmentId, mut offset: usize, mut bytes: usize, mut past: Past) {
        let free = &self.segment(id).free;
        let before = free.range(..offset).next_back().filter(|(start, (length, _))| *start + length == offset);
        let before = before.and_then(|(start, (_, other))| Some((*start, past.join(other)?)));
        if let Some((start, joined)) = before
            && let Some((length, _)) = self.remove(id, start)
        {
            (offset, bytes, past) = (start, bytes + length, joined);
        }
        let after = self.segment(id).free.get(&(offset + bytes)).and_then(|(_, other)| past.join(other));
        if let Some(joined) = after
            && let Some((length, _)) = self.remove(id, offset + bytes)
        {
            (bytes, past) = (bytes + length, joined);
        }
        self.insert(id, offset, bytes, past);
    }

    /// Forgets every past that is over, and joins all neighbours that this lets be joined.
    pub fn settle(&mut self, now: &mut Now<'_>) {
        for slot in 0..self.segments.len() {
            let id = SegmentId(slot as u32);
            let Some(segment) = &mut self.segments[slot] else { continue };
            for (_, past) in segment.free.values_mut() {
                past.is_over(now);
            }
            let mut from = Bound::Unbounded;
            while let Some(segment) = &self.segments[slot]
                && let Some((&offset, (bytes, past))) = segment.free.range((from, Bound::Unbounded)).next()
            {
                let joined = segment.free.get(&(offset + bytes)).and_then(|(_, other)| past.join(other));
                match joined {
                    None => from = Bound::Excluded(offset),
                    Some(joined) => {
                        let end = offset + bytes;
                        if let (Some((first, _)), Some((second, _))) = (self.remove(id, offset), self.remove(id, end)) {
                            self.insert(id, offset, first + second, joined);
                        }
                        from = Bound::Included(offset);
                    }
                }
            }
        }
    }

    /// Gives up segments that are free as a whole and whose past is over, the largest first, except
    /// those of whose size `keep` says so. The caller returns them to the source.
    pub fn release(&mut self, mut keep: impl FnMut(usize) -> bool) -> Vec<RawMemory> {
        let mut whole: Vec<(usize, usize)> = (self.segments.iter().enumerate())
            .filter_map(|(slot, segment)| {
                let segment = segment.as_ref()?;
                let (bytes, past) = segment.free.get(&0)?;
                let over = past.home.is_none() && past.uses.is_empty();
                (over && *bytes == segment.memory.bytes).then_some((*bytes, slot))
            })
            .collect();
        whole.sort_unstable_by(|one, two| two.cmp(one));
        let mut out = Vec::new();
        for (bytes, slot) in whole {
            if keep(bytes) {
                continue;
            }
            self.remove(SegmentId(slot as u32), 0);
            if let Some(segment) = self.segments[slot].take() {
                out.push(RawMemory::clone(&segment.memory));
            }
        }
        out
    }

    /// Everything, whatever its state: the pool is going away.
    pub fn release_all(&mut self) -> Vec<RawMemory> {
        self.by_size.iter_mut().for_each(BTreeSet::clear);
        self.segments.drain(..).flatten().map(|segment| RawMemory::clone(&segment.memory)).collect()
    }

    /// Every past that is not known to be over.
    pub fn pasts(&self) -> impl Iterator<Item = &Past> {
        self.segments.iter().flatten().flat_map(|segment| segment.free.values()).map(|(_, past)| past)
    }

    pub fn largest_free(&self) -> usize {
        self.by_size.iter().filter_map(|set| set.last()).map(|(bytes, ..)| *bytes).max().unwrap_or(0)
    }

    pub fn segments(&self) -> usize {
        self.segments.iter().flatten().count()
    }

    /// The number of separate free ranges.
    #[cfg(all(test, not(loom)))]
    pub fn ranges(&self) -> usize {
        self.by_size.iter().map(BTreeSet::len).sum()
    }
}
