//! When freed memory may be used again, and by which stream.
//!
//! A freed piece carries its [`Past`]: the stream that freed it, and the uses by streams that may still be running. The
//! stream that freed it may have it at once, because its later work comes after. Any other stream may have it when every
//! recorded use is complete and the freeing stream has passed the point of the free, of which a *fence* tells: one
//! event, recorded when somebody first needs to know, that covers everything the stream freed before.

use smallvec::SmallVec;

use super::Source;
use crate::error::ErrorKind;
use crate::event::Event;
use crate::memory::StreamId;

/// Uses that may still be running: at most one for each stream, its last.
pub(super) type Uses = SmallVec<[(StreamId, Event); 2]>;

/// Who may still be using a free piece of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// The stream that freed it, if that stream may still be before the free.
    pub home: Option<StreamId>,
    /// When it was freed, in the pool's own count.
    pub freed: u64,
    /// Recorded uses.
    pub uses: Uses,
}

/// What is needed to learn about a past. Lives while the pool is locked.
pub(super) struct Now<'a> {
    pub source: &'a dyn Source,
    pub fences: &'a mut Fences,
    /// The pool's count.
    pub time: u64,
    /// Events that are no longer needed. Dropped when the lock is released: their destructors may free blocks.
    pub garbage: &'a mut Vec<Event>,
}

impl Past {
    /// Forgets what is complete; says whether the stream may have the memory now. Never blocks.
    pub fn allows(&mut self, stream: StreamId, now: &mut Now<'_>) -> bool {
        match self.home {
            None => {}
            Some(home) if home == stream => {}
            Some(home) => {
                if !now.passed(home, self.freed) {
                    return false;
                }
                self.home = None;
            }
        }
        // What the stream itself did comes before what it does next: only of others' uses a device is asked, which takes a
        // microsecond or two.
        let own = |uses: &Uses| uses.iter().all(|(user, _)| *user == stream);
        if own(&self.uses) {
            return true;
        }
        self.forget_complete(now);
        own(&self.uses)
    }

    /// Forgets what is complete; says whether nothing is left, so that anybody may have the memory. Never blocks.
    pub fn is_over(&mut self, now: &mut Now<'_>) -> bool {
        self.forget_complete(now);
        if let Some(home) = self.home
            && now.passed(home, self.freed)
        {
            self.home = None;
        }
        self.home.is_none() && self.uses.is_empty()
    }

    fn forget_complete(&mut self, now: &mut Now<'_>) {
        let mut i = 0;
        while i < self.uses.len() {
            if self.uses[i].1.is_complete() {
                now.garbage.push(self.uses.swap_remove(i).1);
            } else {
                i += 1;
            }
        }
    }

    /// The past of two pieces as one, unless uses are pending or two streams freed them: each of those may have its own
    /// piece now. A piece that anybody may have does join one of a single stream, because whole pieces are worth more to
    /// that stream than crumbs are to others.
    pub fn join(&self, other: &Past) -> Option<Past> {
        if !self.uses.is_empty() || !other.uses.is_empty() {
            return None;
        }
        let home = match (self.home, other.home) {
            (Some(one), Some(two)) if one != two => return None,
            (one, two) => one.or(two),
        };
        Some(Past { home, freed: self.freed.max(other.freed), uses: Uses::new() })
    }
}

/// The last fence of each stream that was asked about.
#[derive(Debug, Default)]
pub(super) struct Fences(Vec<Fence>);

#[derive(Debug)]
struct Fence {
    stream: StreamId,
    /// What was freed at this time or before is behind the fence.
    time: u64,
    event: Event,
}

impl Fences {
    /// The fences that are still pending.
    pub fn pending(&self) -> impl Iterator<Item = &Event> {
        self.0.iter().map(|fence| &fence.event).filter(|event| !event.is_complete())
    }

    /// Fences of streams that nobody frees on any more would stay forever: called now and then.
    pub fn forget_complete(&mut self, garbage: &mut Vec<Event>) {
        garbage.extend(self.0.extract_if(.., |fence| fence.event.is_complete()).map(|fence| fence.event));
    }
}

impl Now<'_> {
    /// Whether the stream has passed what it had queued when it freed memory at this time.
    fn passed(&mut self, stream: StreamId, freed: u64) -> bool {
        let known = self.fences.0.iter().position(|fence| fence.stream == stream);
        if let Some(known) = known {
            let fence = &self.fences.0[known];
            // In stream order a later fence is not complete before an earlier one: no need for a new one yet.
            if !fence.event.is_complete() {
                return false;
            }
            if fence.time >= freed {
                return true;
            }
        }
        let event = match self.source.fence(stream) {
            Ok(Some(event)) => event,
            Ok(None) => return true,
            // On a device that is gone nothing runs.
            Err(error) => return error.kind() == ErrorKind::DeviceLost,
        };
        let complete = event.is_complete();
        let fence = Fence { stream, time: self.time, event };
        match known {
            Some(known) => self.garbage.push(std::mem::replace(&mut self.fences.0[known], fence).event),
            None => self.fences.0.push(fence),
        }
        complete
    }
}
