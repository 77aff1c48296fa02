//! Checks: what a device that works by itself finds wrong with the values it was given, told where the results are read.
//!
//! A lookup whose index no axis has cannot fail its launch on a GPU: nobody waits for it. Its kernel *notes* it instead
//! ([`NoteAt`]): 32 bytes that one run of a plan has on each device where it looks something up. They are written on the bad path
//! only. A [`Check`] is that run's right to the note; the buffers of all its results hold it, and so does what is computed from them
//! ([`Checks`]), whatever device that is on. Who waits for a value, to read it, to lend it or just so, looks at its checks when the wait is over.
//!
//! Where the host addresses memory of the device (pinned memory on CUDA), notes lie there and looking is free. Elsewhere a copy
//! of the note is queued behind that of the value, before the wait for both. No wait is added in either case.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::backend::{Backend, MemoryAt, NoteAt};
use crate::device::Device;
use crate::dispatcher::Work;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::interrupt;
use crate::memory::{MemoryKind, RawMemory};
use crate::what::{Body, DType};

/// Notes that are allocated together.
const SHELF: usize = 256;
/// As many notes may be free before the oldest is asked whether its last run is through.
const ASK: usize = 32;
/// The checks of one value, beyond which those that are through are looked for, and copies queued of the others.
const MANY: usize = 16;

/// Memory of a device for notes.
struct Shelf {
    backend: Arc<dyn Backend>,
    memory: RawMemory,
    /// Where the host has copies of the notes, if it does not address the memory itself.
    mirror: Option<Box<[AtomicU32]>>,
    /// The last copy to the mirror.
    fetched: Mutex<Option<Event>>,
}

impl Shelf {
    fn new(device: &Device) -> Result<Shelf> {
        let (backend, bytes) = (device.backend().clone(), SHELF * NoteAt::BYTES);
        let shelf = |memory: RawMemory, mirror| Shelf { backend, memory, mirror, fetched: Mutex::new(None) };
        if let Ok(memory) = device.backend().alloc(bytes, MemoryKind::Pinned) {
            if memory.host.is_some() {
                return Ok(shelf(memory, None));
            }
            device.backend().free(memory);
        }
        let memory = device.guard(device.backend().alloc(bytes, MemoryKind::Device))?;
        let mirror = (0..bytes / 4).map(|_| AtomicU32::new(0)).collect();
        let shelf = shelf(memory, Some(mirror));
        // No ticket is 0.
        let (from, to) = (shelf.mirrored(), MemoryAt::Here(&shelf.memory, 0));
        let copied = shelf.backend.copy(MemoryAt::Host(&from, 0), to, bytes, device.stream().handle());
        device.guard(copied)?;
        *shelf.fetched.lock() = Some(device.stream().record()?);
        Ok(shelf)
    }

    /// The mirror as memory; empty where there is none.
    fn mirrored(&self) -> RawMemory {
        let words = self.mirror.as_deref().unwrap_or_default();
        RawMemory::foreign(words.as_ptr().cast(), size_of_val(words))
    }

    /// A word of a note, as the host sees it.
    fn word(&self, slot: usize, word: usize) -> u32 {
        let at = slot * NoteAt::BYTES / 4 + word;
        match (&self.mirror, self.memory.host) {
            (Some(mirror), _) => mirror[at].load(Ordering::Relaxed),
            // SAFETY: the slot lies inside the memory, which is aligned for words; the device may write there meanwhile.
            (None, Some(host)) => unsafe { host.as_ptr().cast::<u32>().add(at).read_volatile() },
            (None, None) => 0,
        }
    }

    /// Makes a note empty, where the host can.
    fn clear(&self, slot: usize) {
        if let Some(host) = self.memory.host {
            // SAFETY: as in `word`; no run has this note now.
            unsafe { host.as_ptr().cast::<u32>().add(slot * NoteAt::BYTES / 4).write_volatile(0) };
        }
    }

    /// Queues a copy of notes to the mirror behind all that was queued.
    fn fetch(&self, slots: std::ops::Range<usize>, device: &Device) -> Result<Event> {
        let (at, bytes) = (slots.start * NoteAt::BYTES, slots.len() * NoteAt::BYTES);
        let (from, stream) = (MemoryAt::Here(&self.memory, at), device.stream());
        let mirror = self.mirrored();
        device.guard(self.backend.copy(from, MemoryAt::Host(&mirror, at), bytes, stream.handle()))?;
        let event = stream.record()?;
        *self.fetched.lock() = Some(event.clone());
        Ok(event)
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        // A copy may be on its way to the mirror. One that failed has ended, too.
        if let Some(event) = self.fetched.get_mut().take() {
            let _ = event.wait();
        }
        self.backend.free(self.memory.clone());
    }
}

type Slot = (Arc<Shelf>, usize);

/// The notes of one device.
#[derive(Default)]
pub(crate) struct Notes {
    ticket: AtomicU32,
    /// Notes that nobody has, each with the event after which its last run cannot write there any more; the one let go last stands last.
    free: Mutex<VecDeque<(Slot, Option<Event>)>>,
}

impl Notes {
    fn take(&self, device: &Device) -> Result<Slot> {
        let mut free = self.free.lock();
        let over = |last: &(Slot, Option<Event>)| last.1.as_ref().is_none_or(Event::is_over);
        if free.back().is_some_and(over)
            && let Some((slot, _)) = free.pop_back()
        {
            return Ok(slot);
        }
        // Asking may make a device begin what it has only gathered: what was let go so long ago has begun.
        let old = |last: &(Slot, Option<Event>)| last.1.as_ref().is_none_or(Event::is_complete);
        if free.len() > ASK
            && free.front().is_some_and(old)
            && let Some((slot, _)) = free.pop_front()
        {
            return Ok(slot);
        }
        let shelf = Arc::new(Shelf::new(device)?);
        for slot in 1..SHELF {
            free.push_back(((shelf.clone(), slot), None));
        }
        Ok((shelf, 0))
    }

    fn put(&self, slot: Slot, last: Option<Event>) {
        self.free.lock().push_back((slot, last));
    }
}

/// What a run looks up, and where that was called for.
pub type Looked = (Arc<Work>, Option<&'static Location<'static>>);

/// One run's lookups on one device.
pub struct Check {
    /// Later runs have larger numbers.
    number: u64,
    device: Device,
    slot: Slot,
    ticket: u32,
    calls: SmallVec<[Looked; 1]>,
    /// Completes when the launches are through.
    done: OnceLock<Event>,
    /// Completes when the host has a copy of the note.
    fetched: Mutex<Option<Event>>,
    outcome: OnceLock<Option<Error>>,
}

impl Check {
    /// A note on this device for a run's lookups, which are told apart by their numbers in this list.
    pub fn new(device: &Device, calls: SmallVec<[Looked; 1]>) -> Result<Arc<Check>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let slot = device.notes().take(device)?;
        let ticket = match &slot.0.mirror {
            // Captured launches keep the ticket they were captured with.
            None => 1,
            Some(_) => device.notes().ticket.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1),
        };
        slot.0.clear(slot.1);
        let (done, fetched, outcome) = (OnceLock::new(), Mutex::new(None), OnceLock::new());
        Ok(Arc::new(Check { number, device: device.clone(), slot, ticket, calls, done, fetched, outcome }))
    }

    /// Where the lookup of this number notes what is wrong.
    pub fn note(&self, call: usize) -> NoteAt<'_> {
        let (shelf, slot) = &self.slot;
        NoteAt { memory: &shelf.memory, offset: slot * NoteAt::BYTES, ticket: self.ticket, call: call as u32 }
    }

    /// Whether launches that were captured with one note may be given another's address instead.
    pub fn can_be_captured(&self) -> bool {
        self.slot.0.mirror.is_none()
    }

    /// Says when the launches are through. Who never says so never gives the note back.
    pub fn queued(&self, done: &Event) {
        let _ = self.done.set(done.clone());
    }

    /// Whether it is known, without asking the device, that nothing is wrong.
    fn is_clean(&self, ask: bool) -> bool {
        let over = |e: &Event| if ask { e.is_complete() } else { e.is_over() };
        if self.outcome.get().is_none() {
            let through = match &self.slot.0.mirror {
                None => self.done.get().is_some_and(over),
                Some(_) => self.fetched.lock().as_ref().is_some_and(over),
            };
            if !through {
                return false;
            }
        }
        self.look().is_none()
    }

    /// What the note says, which is here.
    fn look(&self) -> Option<&Error> {
        self.outcome.get_or_init(|| self.read()).as_ref()
    }

    fn read(&self) -> Option<Error> {
        let (shelf, slot) = &self.slot;
        let word = |i: usize| shelf.word(*slot, i);
        if word(0) != self.ticket {
            return None;
        }
        let (call, lookup) = (word(1) as usize, word(2) as usize);
        let at = u64::from(word(3)) | u64::from(word(4)) << 32;
        let bits = u64::from(word(5)) | u64::from(word(6)) << 32;
        let Some((work, location)) = self.calls.get(call) else {
            return Some(Error::internal("a lookup failed that nobody asked for"));
        };
        let error =
            missing(work, lookup, at as usize, bits).through(format!("{} on {}", work.name(), self.device.name()));
        let error = match location {
            Some(location) => error.at(location),
            None => error,
        };
        Some(self.device.errors().note(error))
    }
}

/// The error of an index of a lookup: at this place in the index space, with these bits.
fn missing(work: &Work, lookup: usize, at: usize, bits: u64) -> Error {
    let op = work.op();
    let (Body::Gather(gather), Some(access)) = (&op.body, op.inputs.get(lookup + 1)) else {
        return Error::internal("what is no lookup has failed as one");
    };
    let index = match access.dtype {
        DType::U8 | DType::U16 | DType::U32 => i128::from(bits as u32),
        DType::U64 => i128::from(bits),
        DType::I64 => i128::from(bits as i64),
        _ => i128::from(bits as u32 as i32),
    };
    // Counted among the indices, of which each may serve many places.
    let (mut rest, mut number, mut each) = (at, 0, 1);
    for d in (0..op.dims.len()).rev() {
        let n = op.dims[d].max(1);
        if !access.ignores(d) {
            number += rest % n * each;
            each *= n;
        }
        rest /= n;
    }
    Error::index(index, gather.lookups[lookup].size, Some(number))
}

impl Drop for Check {
    fn drop(&mut self) {
        let through = self.outcome.get().is_some();
        match self.done.get() {
            _ if through => self.device.notes().put(self.slot.clone(), None),
            Some(done) => self.device.notes().put(self.slot.clone(), Some(done.clone())),
            // Nobody knows whether a launch still writes there.
            None => {}
        }
    }
}

/// All checks that a value depends on: those of the run that made it, and those of what that read.
#[derive(Clone, Default)]
pub struct Checks(Option<Arc<[Arc<Check>]>>);

impl Checks {
    /// The checks of a run that read values with these.
    pub fn join<'a>(own: &[Arc<Check>], inherited: impl Iterator<Item = &'a Checks>) -> Checks {
        let mut found: Option<&Checks> = None;
        let mut list: Vec<Arc<Check>> = Vec::new();
        for checks in inherited.filter(|c| c.0.is_some()) {
            match found {
                None => found = Some(checks),
                Some(first) if checks.same(first) => {}
                _ => list.extend(checks.all().iter().filter(|c| !c.is_clean(false)).cloned()),
            }
        }
        match found {
            None if own.is_empty() => return Checks::default(),
            // What passes it on needs no list of its own.
            Some(only) if own.is_empty() && list.is_empty() && only.all().len() == 1 => {
                return if only.all()[0].is_clean(false) { Checks::default() } else { only.clone() };
            }
            Some(first) => list.extend(first.all().iter().filter(|c| !c.is_clean(false)).cloned()),
            None => {}
        }
        list.extend_from_slice(own);
        list.sort_by_key(|c| c.number);
        list.dedup_by_key(|c| c.number);
        let checks = Checks((!list.is_empty()).then(|| list.into()));
        if checks.all().len() <= MANY {
            return checks;
        }
        // What keeps reading its own results must not gather checks forever.
        let left: Vec<_> = checks.all().iter().filter(|c| !c.is_clean(true)).cloned().collect();
        let left = Checks((!left.is_empty()).then(|| left.into()));
        // What goes wrong here goes wrong again at the read.
        let _ = left.fetch();
        left
    }

    fn all(&self) -> &[Arc<Check>] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn same(&self, other: &Checks) -> bool {
        matches!((&self.0, &other.0), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Has what the host cannot see itself copied to it, before somebody waits. Gives what to wait for before [`Checks::verdict`].
    pub fn fetch(&self) -> Result<SmallVec<[Event; 1]>> {
        let mut events = SmallVec::new();
        for (i, check) in self.all().iter().enumerate() {
            if check.outcome.get().is_some() {
                continue;
            }
            let (shelf, slot) = &check.slot;
            let done = check.done.get();
            if shelf.mirror.is_none() {
                events.extend(done.cloned());
                continue;
            }
            let mut fetched = check.fetched.lock();
            if fetched.is_none() {
                if let Some(done) = done {
                    check.device.stream().depend(done)?;
                }
                // One copy brings all notes of a shelf.
                let others = || self.all()[i + 1..].iter().filter(|c| Arc::ptr_eq(&c.slot.0, shelf));
                let wanted = || others().map(|c| c.slot.1).chain([*slot]);
                let (low, high) = (wanted().min().unwrap_or(*slot), wanted().max().unwrap_or(*slot));
                for other in others() {
                    if let Some(done) = other.done.get() {
                        check.device.stream().depend(done)?;
                    }
                }
                let event = shelf.fetch(low..high + 1, &check.device)?;
                for other in others() {
                    other.fetched.lock().get_or_insert_with(|| event.clone());
                }
                *fetched = Some(event);
            }
            events.extend(fetched.clone());
        }
        Ok(events)
    }

    /// The error of the first check that found something wrong. Waits for what [`Checks::fetch`] said.
    pub fn verdict(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.fetch()?.iter().try_for_each(interrupt::wait)?;
        match self.all().iter().find_map(|check| check.look()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checks({})", self.all().len())
    }
}
