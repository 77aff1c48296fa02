//! Buffers: one value with replicas on devices.
//!
//! A [`Buffer`] knows which of its replicas hold the current value. Reading it on a device moves the value there only if the
//! replica is stale, asynchronously, by the shortest way (direct, or staged through the host). Writing makes all other
//! replicas stale. Each replica carries the event of its last write and of its uses on other streams, so that neither
//! a reader nor the reuse of freed memory can race.
//!
//! Memory can be shared with others outside: taken over ([`Buffer::import`]) or lent ([`Buffer::lend`]). Where they may write, the
//! buffer is *volatile* ([`Buffer::is_volatile`]): its value is what lies there at this moment, so nothing that is derived from
//! it (replicas, packed forms) is kept, and whoever reads it has to do so before the call in which he was asked to returns. It
//! is never overwritten by us, and its memory is not reused as long as it is lent.

use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::backend::{MemoryAt, Support};
use crate::check::Checks;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::interrupt;
use crate::memory::{MemoryKind, RawMemory, StreamId};
use crate::pack_cache::PackCache;
use crate::pool::Block;
use crate::profiler::{Record, RecordKind};
use crate::stream::Stream;

/// Who decides when a buffer's value moves between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// It moves by itself when it is read somewhere else.
    #[default]
    Automatic,
    /// It moves only by [`Buffer::move_to`]; a read where it is not current is an error.
    Explicit,
    /// One allocation that the host and the device both address; nothing moves between these two.
    Unified,
}

/// What others do with memory that a buffer shares with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// They read it; nobody writes there as long as it is shared.
    ReadOnly,
    /// They may write to it at any time.
    Writable,
}

/// The memory of one replica.
pub struct Storage {
    device: Device,
    held: Held,
}

enum Held {
    Pooled(Block),
    Foreign(Foreign),
}

/// Somebody else's memory and what keeps it alive.
struct Foreign {
    memory: RawMemory,
    /// For each stream the last use that may still be running.
    uses: Mutex<SmallVec<[(StreamId, Event); 1]>>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Foreign {
    fn used_on(&self, stream: StreamId, event: Event) {
        let mut uses = self.uses.lock();
        uses.retain(|(user, event)| *user != stream && !event.is_complete());
        uses.push((stream, event));
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // The owner may free it at once: what is queued has to be through. A failed use has ended, too.
        for (_, event) in self.uses.get_mut().drain(..) {
            let _ = event.wait();
        }
    }
}

impl Storage {
    /// Fresh memory on a device, for use on this stream.
    pub fn alloc(device: &Device, bytes: usize, kind: MemoryKind, stream: &Stream) -> Result<Arc<Storage>> {
        let block = device.guard(device.pool().alloc(bytes, kind, stream.id()))?;
        Ok(Arc::new(Storage { device: device.clone(), held: Held::Pooled(block) }))
    }

    /// Memory on a device that is nice to have: `None` where it would take waiting for other work, or is not there. For use
    /// within calls, or until events say so.
    pub(crate) fn spare(device: &Device, bytes: usize, kind: MemoryKind) -> Option<Arc<Storage>> {
        let block = device.pool().try_alloc(bytes, kind, device.stream().id())?;
        Some(Arc::new(Storage { device: device.clone(), held: Held::Pooled(block) }))
    }

    /// Memory of the host that a device copies from and to by itself, where it has such; else ordinary memory.
    fn staging(device: &Device, bytes: usize, stream: &Stream) -> Result<Arc<Storage>> {
        if device.profile().features.iter().any(|f| f == "pinned")
            && let Ok(pinned) = Storage::alloc(device, bytes, MemoryKind::Pinned, stream)
            && pinned.host_pointer().is_some()
        {
            return Ok(pinned);
        }
        let host = device.host();
        Storage::alloc(&host, bytes, MemoryKind::Device, host.stream())
    }

    /// The device it lies on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The memory that contains it.
    pub fn memory(&self) -> &RawMemory {
        match &self.held {
            Held::Pooled(block) => block.memory(),
            Held::Foreign(foreign) => &foreign.memory,
        }
    }

    /// Where in that memory it begins.
    pub fn offset(&self) -> usize {
        match &self.held {
            Held::Pooled(block) => block.offset(),
            Held::Foreign(_) => 0,
        }
    }

    /// Says what place of the program the memory was taken for, so that [`crate::pool::Pool::largest`] can.
    pub fn made_at(&self, place: &'static Location<'static>) {
        if let Held::Pooled(block) = &self.held {
            block.made_at(place);
        }
    }

    /// Notes that a stream uses the memory until the event completes.
    pub fn used_on(&self, stream: &Stream, event: &Event) {
        match &self.held {
            Held::Pooled(block) => block.used_on(stream.id(), event.clone()),
            Held::Foreign(foreign) => foreign.used_on(stream.id(), event.clone()),
        }
    }

    /// Queues a copy of bytes from this memory, from one byte on, to another's, from another byte on. The stream is
    /// one of the device that [`Storage::copier`] names.
    ///
    /// # Errors
    /// Among others `Unsupported`, where the value has to go through the host ([`Device::reaches`]).
    pub fn copy(&self, at: usize, to: &Storage, to_at: usize, bytes: usize, stream: &Stream) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let worker = Storage::copier(&self.device, &to.device);
        let (from, target) = (self.seen_by(at, worker), to.seen_by(to_at, worker));
        worker.guard(worker.backend().copy(from, target, bytes, stream.handle()))
    }

    /// A byte of the memory as one end of a copy that this device executes.
    fn seen_by(&self, at: usize, worker: &Device) -> MemoryAt<'_> {
        let at = self.offset() + at;
        if self.device.same(worker) {
            MemoryAt::Here(self.memory(), at)
        } else if self.memory().host.is_some() {
            MemoryAt::Host(self.memory(), at)
        } else {
            MemoryAt::Peer(self.memory(), at)
        }
    }

    /// The device that executes copies between two: the one they go to, unless that is the host.
    pub fn copier<'a>(from: &'a Device, to: &'a Device) -> &'a Device {
        if to.is_host() { from } else { to }
    }

    /// Lets later work of a stream begin only when everything that other streams do with the memory is through: for whoever
    /// is about to write where others read.
    pub fn after_uses(&self, stream: &Stream) -> Result<()> {
        match &self.held {
            Held::Pooled(block) => block.uses_by_others(stream.id()).iter().try_for_each(|event| stream.depend(event)),
            // Nobody of us writes there.
            Held::Foreign(_) => Ok(()),
        }
    }

    /// Waits until all that was queued with the memory is through.
    fn wait_for_uses(&self) -> Result<()> {
        match &self.held {
            Held::Pooled(block) => block.uses_by_others(NO_STREAM).iter().try_for_each(Event::wait),
            Held::Foreign(foreign) => {
                let uses = foreign.uses.lock().clone();
                uses.iter().try_for_each(|(_, event)| event.wait())
            }
        }
    }

    /// The address of the first byte, where that is one that others can use: the host's, or the device's.
    fn address(&self) -> Option<u64> {
        let start = self.device.backend().pointer(self.memory())?;
        Some(start + self.offset() as u64)
    }

    /// The first byte, where the host can address it.
    pub fn host_pointer(&self) -> Option<*mut u8> {
        // SAFETY: the offset lies inside the allocation that `host` points to.
        self.memory().host.map(|p| unsafe { p.as_ptr().add(self.offset()) })
    }
}

/// A number that no stream has.
const NO_STREAM: StreamId = StreamId(u64::MAX);

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} + {})", self.device.name(), self.offset())
    }
}

/// A replica as a reader or writer gets it: memory, and the event after which it may be touched.
#[derive(Clone, Debug)]
pub struct Resident {
    /// The memory.
    pub storage: Arc<Storage>,
    /// The last write, if it may still be running.
    pub ready: Option<Event>,
    /// What the device derives from the value, if its packed forms are cached.
    pub pack_cache: Option<Arc<PackCache>>,
    /// What the value depends on that may turn out to be wrong.
    pub checks: Checks,
}

impl Resident {
    /// Waits until the value is there, and finds out whether it is right.
    pub fn wait(&self) -> Result<()> {
        // What the host looks at is copied behind the value, so that there is one wait.
        self.checks.fetch()?;
        self.ready.as_ref().map_or(Ok(()), interrupt::wait)?;
        self.checks.verdict()
    }

    /// What to wait for before [`Resident::wait`] returns at once.
    pub fn events(&self) -> Result<SmallVec<[Event; 1]>> {
        let mut events = self.checks.fetch()?;
        events.extend(self.ready.clone());
        Ok(events)
    }
}

struct Replica {
    /// What the device derives from the value, if its packed forms are cached.
    pack_cache: Option<Arc<PackCache>>,
    storage: Arc<Storage>,
    version: u64,
    ready: Option<Event>,
}

impl Replica {
    fn new(storage: Arc<Storage>, version: u64, ready: Option<Event>) -> Replica {
        Replica { pack_cache: None, storage, version, ready }
    }

    fn resident(&self, checks: &Checks) -> Resident {
        let (storage, ready, pack_cache) = (self.storage.clone(), self.ready.clone(), self.pack_cache.clone());
        Resident { storage, ready, pack_cache, checks: checks.clone() }
    }
}

struct State {
    version: u64,
    /// Whether devices may keep what they derive from the current value.
    keeps_forms: bool,
    /// What the current value depends on that may turn out to be wrong.
    checks: Checks,
    replicas: SmallVec<[Replica; 1]>,
}

struct Inner {
    bytes: usize,
    mode: Mode,
    /// How many outside may write to the memory. It grows under the lock of the state.
    writers: AtomicUsize,
    state: Mutex<State>,
}

/// One value with replicas on devices. Cheap to clone; clones are the same value.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

impl Buffer {
    /// A buffer on a device whose content is not yet written.
    pub fn new(device: &Device, bytes: usize, mode: Mode, stream: &Stream) -> Result<Buffer> {
        let kind = if mode == Mode::Unified { MemoryKind::Unified } else { MemoryKind::Device };
        let storage = Storage::alloc(device, bytes, kind, stream)?;
        Ok(Buffer::from_storage(storage, bytes, mode))
    }

    /// A buffer over memory that was allocated before.
    pub fn from_storage(storage: Arc<Storage>, bytes: usize, mode: Mode) -> Buffer {
        let replica = Replica::new(storage, 0, None);
        let state = State {
            version: 0,
            keeps_forms: false,
            checks: Checks::default(),
            replicas: SmallVec::from_buf([replica]),
        };
        Buffer(Arc::new(Inner { bytes, mode, writers: AtomicUsize::new(0), state: Mutex::new(state) }))
    }

    /// A buffer on the host with a copy of these bytes.
    pub fn from_bytes(host: &Device, bytes: &[u8], mode: Mode) -> Result<Buffer> {
        let buffer = Buffer::new(host, bytes.len(), mode, host.stream())?;
        let resident = buffer.on(host, host.stream())?;
        let to = resident.storage.host_pointer().ok_or_else(|| not_host(host))?;
        // SAFETY: the block is fresh, at least `bytes.len()` long and not shared yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(buffer)
    }

    /// A buffer on the host whose bytes `fill` writes, in memory from which this device copies by itself while other work goes on (pinned
    /// memory), where it has such.
    pub fn staged(device: &Device, bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Buffer> {
        let host = device.host();
        // The host writes there at once: for its own stream the pool gives memory that nobody uses any more.
        let storage = Storage::staging(device, bytes, host.stream())?;
        let to = storage.host_pointer().ok_or_else(|| not_host(&host))?;
        if storage.device.is_host() {
            // Memory of the process's allocator, unlike a driver's, may count as never written.
            // SAFETY: the block is at least `bytes` long, fresh, and not shared yet.
            unsafe { to.write_bytes(0, bytes) };
        }
        // SAFETY: as above; no earlier use of the block is under way.
        fill(unsafe { std::slice::from_raw_parts_mut(to, bytes) })?;
        Buffer::on_host(storage, &host, bytes)
    }

    /// A buffer of the host over its own memory, or over what a device has for copies.
    fn on_host(storage: Arc<Storage>, host: &Device, bytes: usize) -> Result<Buffer> {
        if storage.device.is_host() {
            return Ok(Buffer::from_storage(storage, bytes, Mode::Automatic));
        }
        let at = storage.host_pointer().ok_or_else(|| not_host(host))?;
        // SAFETY: the storage keeps the memory, which nobody else has.
        unsafe { Buffer::import(host, at, bytes, Sharing::ReadOnly, Box::new(storage)) }
    }

    /// A buffer over memory that somebody else owns; `keep` keeps it alive. Nothing is copied, whatever the alignment. The address is
    /// one of the device's.
    ///
    /// # Safety
    /// `address` must be valid for reads of `bytes` bytes on the device until `keep` is dropped, and all that was queued to write there
    /// must be through. Nobody may write there meanwhile, unless it is shared as [`Sharing::Writable`]; and even then not while a
    /// call of this library reads it.
    pub unsafe fn import(
        device: &Device,
        address: *const u8,
        bytes: usize,
        sharing: Sharing,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<Buffer> {
        let memory = if device.is_host() {
            RawMemory::foreign(address, bytes)
        } else {
            RawMemory { address: address as usize as u64, bytes, host: None, owner: None }
        };
        let memory = device.backend().import(&memory).ok_or_else(|| {
            Error::unsupported(format!("{} cannot take over memory of others", device.name()))
                .suggest("give it through the host's memory")
        })?;
        let foreign = Foreign { memory, uses: Mutex::default(), _keep: keep };
        let storage = Arc::new(Storage { device: device.clone(), held: Held::Foreign(foreign) });
        let buffer = Buffer::from_storage(storage, bytes, Mode::Automatic);
        buffer.0.writers.store(usize::from(sharing == Sharing::Writable), Ordering::Release);
        Ok(buffer)
    }

    /// Whether somebody outside may write to the memory at any time. What it holds then is read within the call that is asked to, or
    /// never; who has asked that before knows.
    #[inline]
    pub fn is_volatile(&self) -> bool {
        self.0.writers.load(Ordering::Acquire) > 0
    }

    /// Gives the memory of the current value to somebody outside, with the value in it, for as long as what is returned lives.
    /// Meanwhile it is neither overwritten nor reused. Who may write is given memory that nobody else relies on: the caller sees to
    /// it that nobody has another clone of the buffer, or only who accepts it to be volatile.
    pub fn lend(&self, device: &Device, sharing: Sharing) -> Result<Lent> {
        let resident = self.on(device, device.stream())?;
        self.settle(&resident)?;
        if sharing == Sharing::Writable {
            let mut state = self.0.state.lock();
            let is_here = |r: &Replica| Arc::ptr_eq(&r.storage, &resident.storage);
            if !state.replicas.iter().any(is_here) {
                return Err(Error::argument(format!(
                    "the value is volatile, and its memory is not on {}",
                    device.name()
                )));
            }
            self.0.writers.fetch_add(1, Ordering::AcqRel);
            // What lies elsewhere, or is derived, would not be what is written here.
            state.replicas.retain(|r| is_here(r));
            state.replicas.iter_mut().for_each(|r| r.pack_cache = None);
        }
        let lent = Lent { buffer: self.clone(), storage: resident.storage, sharing };
        if sharing == Sharing::Writable {
            // What was queued before reads the value as it is now.
            lent.storage.wait_for_uses()?;
        }
        Ok(lent)
    }

    /// Its size.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// Its mode.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Whether both are the same buffer.
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many clones share it.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Whether the value may be overwritten without anybody else seeing it: there is no other clone, nobody is using a replica
    /// at this moment, and the memory is our own. Work that was queued before may still be reading: see
    /// [`Storage::after_uses`].
    pub fn is_unshared(&self) -> bool {
        // The count alone would not do: who reads it must also see as done what others did with the memory before they let go.
        let alone = |r: &mut Replica| Arc::get_mut(&mut r.storage).is_some_and(|s| matches!(s.held, Held::Pooled(_)));
        self.holders() == 1 && self.0.state.lock().replicas.iter_mut().all(alone)
    }

    /// A number that tells it from other live buffers.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as *const () as usize
    }

    /// A device that has the current value.
    pub fn device(&self) -> Device {
        let state = self.0.state.lock();
        let current = state.replicas.iter().find(|r| r.version == state.version);
        current.unwrap_or(&state.replicas[0]).storage.device.clone()
    }

    /// Whether the replica there, if any, holds the current value.
    pub fn is_current(&self, device: &Device) -> bool {
        let state = self.0.state.lock();
        state.replicas.iter().any(|r| r.version == state.version && self.serves(r, device))
    }

    /// The event of the last write, where that may still be running.
    pub fn event(&self) -> Option<Event> {
        let state = self.0.state.lock();
        state.replicas.iter().find(|r| r.version == state.version).and_then(|r| r.ready.clone())
    }

    /// Whether a replica can be used by this device as it is.
    fn serves(&self, replica: &Replica, device: &Device) -> bool {
        let owner = &replica.storage.device;
        owner.same(device)
            || (self.0.mode == Mode::Unified && replica.storage.memory().host.is_some() && device.is_host())
    }

    /// The current value on a device, for reading: moved there first if need be, on that device's stream.
    pub fn on(&self, device: &Device, stream: &Stream) -> Result<Resident> {
        let mut guard = self.0.state.lock();
        let state = &mut *guard;
        let (version, keeps_forms) = (state.version, state.keeps_forms);
        if let Some(r) = state.replicas.iter_mut().find(|r| r.version == version && self.serves(r, device)) {
            if keeps_forms && r.pack_cache.is_none() && !self.is_volatile() {
                r.pack_cache = Some(Arc::new(PackCache::new(&r.storage.device, self.0.bytes)));
            }
            return Ok(r.resident(&state.checks));
        }
        if self.0.mode == Mode::Explicit {
            return Err(Error::argument(format!("the buffer's current value is not on {}", device.name()))
                .suggest("move it there first with move_to, or use the automatic mode"));
        }
        self.bring(state, device, stream)
    }

    /// Lets devices keep what they derive from the value (an operand in the order in which their kernels read it) from its
    /// next use on, until it is written or dropped. Worth it for values that are used many times, such as a model's weights.
    /// Packed forms are counted in the device's pool; for each way in which the value is read it takes about as much memory
    /// again, four times at most.
    pub fn keep(&self) {
        self.0.state.lock().keeps_forms = true;
    }

    /// How many forms of the current value devices keep, and their bytes.
    pub fn packed_forms(&self) -> (usize, usize) {
        let state = self.0.state.lock();
        let sizes = state.replicas.iter().filter_map(|r| r.pack_cache.as_ref()).map(|k| k.size());
        sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// Moves the current value to a device ahead of its use. Returns at once; the copy is queued. A volatile value is only moved by its
    /// use.
    pub fn move_to(&self, device: &Device) -> Result<()> {
        let mut state = self.0.state.lock();
        let version = state.version;
        if self.is_volatile() {
            return Ok(());
        }
        if !state.replicas.iter().any(|r| r.version == version && self.serves(r, device)) {
            self.bring(&mut state, device, device.stream())?;
        }
        Ok(())
    }

    /// Queues a copy of the current value to memory of its own on a device, and gives the buffer of that copy; the value is there when its
    /// [`Buffer::event`] is complete. Nothing is copied where the device has the value. The stream is one of the device that
    /// [`Storage::copier`] names for the way from [`Buffer::device`]. On the way to the host, a device that can copies by itself, while
    /// other work goes on.
    ///
    /// # Errors
    /// Among others `Unsupported`, where the value has to go through the host ([`Device::reaches`]).
    pub fn copied_to(&self, device: &Device, stream: &Stream) -> Result<Buffer> {
        let source = {
            let state = self.0.state.lock();
            let mut current = state.replicas.iter().filter(|r| r.version == state.version);
            if current.clone().any(|r| r.storage.device.same(device)) {
                return Ok(self.clone());
            }
            current.next().unwrap_or(&state.replicas[0]).resident(&state.checks)
        };
        let to = match device.is_host() {
            true => Storage::staging(&source.storage.device, self.0.bytes, stream)?,
            false => Storage::alloc(device, self.0.bytes, MemoryKind::Device, stream)?,
        };
        if let Some(event) = &source.ready {
            stream.depend(event)?;
        }
        let started = Instant::now();
        source.storage.copy(0, &to, 0, self.0.bytes, stream)?;
        let copy = match device.is_host() {
            true => Buffer::on_host(to.clone(), device, self.0.bytes)?,
            false => Buffer::from_storage(to.clone(), self.0.bytes, Mode::Automatic),
        };
        if !stream.is_synchronous() {
            let event = stream.record()?;
            source.storage.used_on(stream, &event);
            to.used_on(stream, &event);
            copy.written(device, Some(event));
        }
        copy.depends_on(source.checks);
        moved(&source.storage.device, device, stream, self.0.bytes, started);
        Ok(copy)
    }

    /// Whether letting go of it now would wait: it shows memory of others that a device still uses.
    pub fn is_held_up(&self) -> bool {
        let state = self.0.state.lock();
        let busy = |f: &Foreign| f.uses.lock().iter().any(|(_, event)| !event.is_complete());
        state.replicas.iter().any(|r| matches!(&r.storage.held, Held::Foreign(f) if busy(f)))
    }

    /// Memory on a device for a new value. Every other replica is stale from now on; `written` says when the value is there.
    pub fn write(&self, device: &Device, stream: &Stream) -> Result<Resident> {
        let mut state = self.0.state.lock();
        state.version += 1;
        let version = state.version;
        // What was derived from the old value serves nobody who reads from now on.
        state.keeps_forms = false;
        state.checks = Checks::default();
        state.replicas.iter_mut().for_each(|r| r.pack_cache = None);
        if let Some(r) = state.replicas.iter_mut().find(|r| self.serves(r, device)) {
            r.version = version;
            return Ok(r.resident(&Checks::default()));
        }
        let storage = Storage::alloc(device, self.0.bytes, MemoryKind::Device, stream)?;
        state.replicas.push(Replica::new(storage.clone(), version, None));
        Ok(Resident { storage, ready: None, pack_cache: None, checks: Checks::default() })
    }

    /// Notes the event that completes the last write on a device.
    pub fn written(&self, device: &Device, event: Option<Event>) {
        let mut state = self.0.state.lock();
        let version = state.version;
        if let Some(i) = state.replicas.iter().position(|r| r.version == version && self.serves(r, device)) {
            state.replicas[i].ready = event;
        }
    }

    /// Says what place of the program the memory was taken for.
    pub fn made_at(&self, place: &'static Location<'static>) {
        self.0.state.lock().replicas.iter().for_each(|r| r.storage.made_at(place));
    }

    /// Notes what the current value depends on that may turn out to be wrong.
    pub fn depends_on(&self, checks: Checks) {
        self.0.state.lock().checks = checks;
    }

    /// Waits until the value is there, wherever it is, and finds out whether it is right.
    pub fn wait(&self) -> Result<()> {
        let state = self.0.state.lock();
        let current = state.replicas.iter().find(|r| r.version == state.version);
        if state.checks.is_empty() {
            let ready = current.and_then(|r| r.ready.clone());
            drop(state);
            return ready.map_or(Ok(()), |event| interrupt::wait(&event));
        }
        let resident = current.map(|r| r.resident(&state.checks));
        drop(state);
        resident.map_or(Ok(()), |resident| self.settle(&resident))
    }

    /// Waits for a value, and forgets its checks if nothing is wrong.
    fn settle(&self, resident: &Resident) -> Result<()> {
        resident.wait()?;
        if !resident.checks.is_empty() {
            let mut state = self.0.state.lock();
            if state.checks.same(&resident.checks) {
                state.checks = Checks::default();
            }
        }
        Ok(())
    }

    /// Drops the replicas that are stale, and those of a device that is gone.
    pub fn drop_stale(&self) {
        let mut state = self.0.state.lock();
        let version = state.version;
        state.replicas.retain(|r| r.version == version && !r.storage.device.is_lost());
    }

    /// A copy of the bytes. Waits for them.
    pub fn read(&self, host: &Device) -> Result<Vec<u8>> {
        self.with_host(host, |bytes| bytes.to_vec())
    }

    /// Calls `f` with the bytes, in place where the host can address them. Waits for them.
    pub fn with_host<R>(&self, host: &Device, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let resident = self.on(host, host.stream())?;
        self.settle(&resident)?;
        if self.0.bytes == 0 {
            return Ok(f(&[]));
        }
        let pointer = resident.storage.host_pointer().ok_or_else(|| not_host(host))?;
        // SAFETY: the storage holds at least `bytes` bytes, is complete, and stays alive and unwritten during the call,
        // because writers of a shared buffer make a replica or a copy of their own.
        Ok(f(unsafe { std::slice::from_raw_parts(pointer, self.0.bytes) }))
    }

    fn bring(&self, state: &mut State, device: &Device, stream: &Stream) -> Result<Resident> {
        let version = state.version;
        let source = state
            .replicas
            .iter()
            .find(|r| r.version == version && !r.storage.device.is_lost())
            .map(|r| r.resident(&state.checks))
            .ok_or_else(|| {
                Error::device_lost("the only current copy of this value was on a device that is gone")
                    .suggest("compute the value again from inputs that live on the host or another device")
            })?;
        let direct = source.storage.memory().host.is_some() || source.storage.device.reaches(device) == Support::Native;
        let kept = !self.is_volatile();
        let resident = if direct {
            self.transfer(&source, device, stream)?
        } else {
            // Neither side is the host, and they share no way: stage through it.
            let host = device.host();
            let staged = self.transfer(&source, &host, host.stream())?;
            if kept {
                state.replicas.push(Replica::new(staged.storage.clone(), version, staged.ready.clone()));
            }
            self.transfer(&staged, device, stream)?
        };
        if !kept {
            return Ok(resident);
        }
        state.replicas.retain(|r| !r.storage.device.same(device));
        let mut replica = Replica::new(resident.storage, version, resident.ready);
        replica.pack_cache = state.keeps_forms.then(|| Arc::new(PackCache::new(device, self.0.bytes)));
        let resident = replica.resident(&state.checks);
        state.replicas.push(replica);
        Ok(resident)
    }

    /// One copy to fresh memory.
    fn transfer(&self, source: &Resident, device: &Device, stream: &Stream) -> Result<Resident> {
        let started = Instant::now();
        let from_device = &source.storage.device;
        let worker = Storage::copier(from_device, device);
        let to = Storage::alloc(device, self.0.bytes, MemoryKind::Device, stream)?;
        if let Held::Pooled(block) = &source.storage.held
            && let Some(place) = block.place()
        {
            to.made_at(place);
        }
        let queue = if worker.same(device) { stream.clone() } else { worker.stream().clone() };
        if let Some(event) = &source.ready {
            queue.depend(event)?;
        }
        source.storage.copy(0, &to, 0, self.0.bytes, &queue)?;
        let ready = if queue.is_synchronous() {
            None
        } else {
            let event = queue.record()?;
            source.storage.used_on(&queue, &event);
            to.used_on(&queue, &event);
            Some(event)
        };
        moved(from_device, device, &queue, self.0.bytes, started);
        Ok(Resident { storage: to, ready, pack_cache: None, checks: source.checks.clone() })
    }
}

/// Writes a move into the profile.
fn moved(from: &Device, to: &Device, queue: &Stream, bytes: usize, started: Instant) {
    let profiler = to.profiler();
    if profiler.is_on() {
        profiler.record(Record {
            name: "move".into(),
            kind: RecordKind::Move,
            device: to.name().into(),
            stream: queue.id().0,
            seconds: started.elapsed().as_secs_f64(),
            bytes: bytes as u64,
            note: format!("{} -> {}", from.name(), to.name()),
            ..Record::at(profiler, started)
        });
    }
}

/// Memory of a buffer in the hands of somebody outside: see [`Buffer::lend`]. Dropping it says that he has let go.
pub struct Lent {
    buffer: Buffer,
    storage: Arc<Storage>,
    sharing: Sharing,
}

impl Lent {
    /// The address of the first byte, where that is one that others can use: the host's, or the device's.
    pub fn address(&self) -> Option<u64> {
        self.storage.address()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.sharing == Sharing::Writable {
            self.buffer.0.writers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({:?}, {:?})", self.storage, self.sharing)
    }
}

fn not_host(device: &Device) -> Error {
    Error::internal(format!("the host cannot address memory of {}", device.name()))
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        let list: Vec<_> = state
            .replicas
            .iter()
            .map(|r| format!("{}{}", r.storage.device.name(), if r.version == state.version { "" } else { " (stale)" }))
            .collect();
        write!(f, "Buffer({} bytes on {}, {:?})", self.0.bytes, list.join(", "), self.0.mode)
    }
}
