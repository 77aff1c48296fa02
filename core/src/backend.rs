//! The contract of a device family: what a backend must do, and all that anybody may ask of it.
//!
//! Adding a device means implementing [`Backend`] (with its [`Kernel`], [`Launch`] and [`BackendStream`]) and running the
//! exported conformance suite against it; nothing above changes. Only [`crate::Device`] and what it owns (pool, dispatcher,
//! streams) call a backend.
//!
//! Rules that hold for every method:
//! - It may be called from any thread, concurrently.
//! - It never panics and never blocks longer than it must: work is queued on a stream, in that stream's order.
//! - Bindings have been checked against the operation before a launch: a kernel need not check addresses again, except
//!   that a guarded access must not read outside its binding.
//! - Memory belongs to the caller. A backend keeps no reference to it beyond the stream's completion. What it derives from an
//!   operand for later launches, it puts where the operand's binding says ([`Binding::pack_cache`]).

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::how::{Candidate, DeviceProfile, Schedule, Variant};
use crate::memory::{MemoryKind, RawMemory, StreamId};
use crate::pack_cache::PackCache;
use crate::what::{Op, Scalar};

/// A device, as its family's driver shows it.
pub trait Backend: Send + Sync + 'static {
    /// What the device is and can do. Facts are queried at opening; rates that only a measurement gives may be estimates
    /// until [`Backend::measure`] has run.
    fn profile(&self) -> DeviceProfile;

    /// The profile by which ways to compute an operation are compared, where that must not be the present one: a device whose
    /// numbers depend on the way has a profile for it that depends neither on measurements nor on how many threads there are.
    fn reference_profile(&self) -> Option<&DeviceProfile> {
        None
    }

    /// The profile completed by measurement. Takes about a second; its result is stored on disk by the caller.
    fn measure(&self) -> Result<DeviceProfile>;

    /// Seconds of one small launch and the wait for it by bare driver calls, which nothing above can beat; `None` where work is
    /// finished within the call.
    fn launch_floor(&self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Takes memory from the driver, aligned to at least 64 bytes. Called by core only. `bytes` is never 0.
    fn alloc(&self, bytes: usize, kind: MemoryKind) -> Result<RawMemory>;

    /// Gives memory back. Called by core only, when no stream uses it any more.
    fn free(&self, memory: RawMemory);

    /// Makes memory that somebody else owns usable by this device without a copy: the host's, or, where `host` is not set, memory at an
    /// address of the device's own, after all that was queued to write there. `None` where that is impossible and a copy is
    /// needed. The caller keeps the memory alive; its alignment may be anything.
    fn import(&self, memory: &RawMemory) -> Option<RawMemory>;

    /// The address by which others outside can use this memory, if they can.
    fn pointer(&self, memory: &RawMemory) -> Option<u64> {
        memory.host.map(|host| host.as_ptr() as usize as u64)
    }

    /// Queues a copy of `bytes` bytes. One side at least is this device's memory; the other may be the host's, or that of a
    /// device for which [`Backend::peer`] says that it can.
    fn copy(&self, from: MemoryAt<'_>, to: MemoryAt<'_>, bytes: usize, stream: &dyn BackendStream) -> Result<()>;

    /// Whether [`Backend::copy`] takes memory of that other device as a [`MemoryAt::Peer`], or why not. Where it does not, values go
    /// through the host.
    fn peer(&self, _other: &DeviceProfile) -> Support {
        Support::No("copies to and from other devices go through the host".into())
    }

    /// A new stream. Work on one stream runs in order; whether two overlap is up to the device. The first stream that is
    /// asked for is the device's default: a device that can finish work within the call does so there.
    fn stream(&self, id: StreamId, priority: Priority) -> Result<Arc<dyn BackendStream>>;

    /// Whether the device computes this operation itself, or why not.
    fn supports(&self, op: &Op) -> Support;

    /// The ways in which the device could compute it, for the cost model to choose from; at least one where it is supported.
    /// The first is the fixed choice that serves when tiling is switched off.
    fn variants(&self, op: &Op) -> Vec<Candidate>;

    /// Compiles a kernel that serves every operation with this one's [`crate::cache::KernelClass`].
    fn compile(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>>;

    /// Records the launches that `work` queues on the stream, without running them, as a list that is queued in one call
    /// ever after; `None`, before `work` is called, where the device has no such thing. `work` queues launches only.
    fn capture(
        &self,
        _stream: &dyn BackendStream,
        _work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Box<dyn Captured>>> {
        Ok(None)
    }

    /// Makes a kernel again from what [`Kernel::bytes`] gave earlier; an error if the bytes no longer serve.
    fn load(&self, _op: &Op, _variant: &Variant, _bytes: &[u8]) -> Result<Arc<dyn Kernel>> {
        Err(Error::unsupported("this device has no kernel binaries"))
    }
}

/// Whether a device computes an operation itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does.
    Native,
    /// It does not, and this is why, in words for the user.
    No(String),
}

/// How urgent a stream's work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Priority {
    /// Work that may wait.
    Low,
    /// Ordinary work.
    #[default]
    Normal,
    /// Work that goes first.
    High,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub enum MemoryAt<'a> {
    /// Memory of the backend that executes the copy, and the byte at which to begin.
    Here(&'a RawMemory, usize),
    /// Memory that the host addresses, and the byte at which to begin.
    Host(&'a RawMemory, usize),
    /// Memory of another device, which neither the host nor the executing backend owns, and the byte at which to begin.
    Peer(&'a RawMemory, usize),
}

/// A queue of work that runs in order.
pub trait BackendStream: Send + Sync + 'static {
    /// The stream's number, unique in the process.
    fn id(&self) -> StreamId;

    /// Whether work is finished when the call that queued it returns. Such a stream needs no events.
    fn is_synchronous(&self) -> bool {
        false
    }

    /// Queues the completion of the event behind all work so far.
    fn record(&self, event: &Event) -> Result<()>;

    /// Queues a wait: work after this call starts only when the event is complete.
    fn depend(&self, event: &Event) -> Result<()>;

    /// Whether [`BackendStream::depend`] on this event returns without waiting for it.
    fn awaits(&self, event: &Event) -> bool {
        event.is_complete()
    }

    /// Hands work to the device that was only gathered so far. Whoever waits for an event does the same by it.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Waits until all work so far is finished; reports what failed.
    fn synchronize(&self) -> Result<()>;

    /// The stream itself, for its own backend to recognise.
    fn as_any(&self) -> &dyn Any;
}

/// A compiled kernel: serves all operations with one kernel key.
pub trait Kernel: Send + Sync + 'static {
    /// A form that [`Backend::load`] takes in another process, where there is one.
    fn bytes(&self) -> Option<Vec<u8>> {
        None
    }

    /// The kernel as a person would read it: source text, or the list of steps that the device runs.
    fn text(&self) -> String;

    /// Fixes sizes, strides and grid for one operation. The result serves any memory, offsets and scalars.
    fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Arc<dyn Launch>>;
}

/// A kernel with its sizes packed, ready to run on any memory.
pub trait Launch: Send + Sync + 'static {
    /// Bytes of scratch memory that a run needs.
    fn workspace(&self) -> usize {
        0
    }

    /// Whether a run notes an index that its axis does not have ([`NoteAt`]). One that does not lets the launch, or the stream's next
    /// event, fail with it.
    fn notes(&self) -> bool {
        false
    }

    /// Queues the work.
    fn run(&self, bindings: &Bindings<'_>, stream: &dyn BackendStream) -> Result<()>;

    /// Why a run since the last call went another way than its variant says: what only a run can know, such as odd addresses.
    fn fallback(&self) -> Option<&'static str> {
        None
    }
}

/// Memory that lies somewhere else than it did when launches were captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The address at which it began.
    pub from: u64,
    /// How many bytes moved.
    pub bytes: usize,
    /// The address at which it begins now.
    pub to: u64,
}

/// A list of launches that is queued in one call. It keeps its kernels, but not the memory that they work on.
pub trait Captured: Send + Sync + 'static {
    /// Queues the whole list.
    fn replay(&self, stream: &dyn BackendStream) -> Result<()>;

    /// Lets the launches work on memory that has moved; false where that takes a [`Captured::recapture`]. Replays queued
    /// before keep the memory they had.
    fn rebind(&mut self, moved: &[Moved]) -> Result<bool>;

    /// Takes the same launches with other scalars, offsets and memory.
    fn recapture(&mut self, stream: &dyn BackendStream, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

/// Memory for one operand: index 0 of its access lies `offset` bytes into `memory`.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The memory; other operands may lie in it too.
    pub memory: &'a RawMemory,
    /// Bytes from its start to the element of index 0.
    pub offset: usize,
    /// The first byte of the memory that belongs to this operand.
    pub start: usize,
    /// The first byte after those that belong to this operand.
    pub end: usize,
    /// Where forms of the operand may be put for later launches, if it is a value that stays the same.
    pub pack_cache: Option<&'a Arc<PackCache>>,
}

/// All that a launch needs beside what was prepared.
#[derive(Clone, Copy, Debug)]
pub struct Bindings<'a> {
    /// One for each input of the operation.
    pub inputs: &'a [Binding<'a>],
    /// One for each output.
    pub outputs: &'a [Binding<'a>],
    /// The launch parameters.
    pub params: &'a [Scalar],
    /// Scratch memory of at least [`Launch::workspace`] bytes, if that is not 0.
    pub workspace: Option<Binding<'a>>,
    /// Where a launch that [`Launch::notes`] does so; without it, what is wrong stays untold.
    pub note: Option<NoteAt<'a>>,
}

/// Memory of the device, or such as both address, for what a lookup found wrong: [`NoteAt::WORDS`] words of 32 bits, which only launches
/// with the same ticket write. The first of them to swap the ticket into word 0 writes the others: the call, the number of the lookup
/// among the operation's, the row-major place in the index space (low and high), and the index (low and high, or low alone if it has
/// 32 bits or less).
#[derive(Clone, Copy, Debug)]
pub struct NoteAt<'a> {
    /// The memory.
    pub memory: &'a RawMemory,
    /// Bytes from its start to the note.
    pub offset: usize,
    /// What says that the note is one of these launches'. Never 0.
    pub ticket: u32,
    /// The launch's number among those that share the note.
    pub call: u32,
}

impl NoteAt<'_> {
    /// Words of a note.
    pub const WORDS: usize = 8;
    /// Bytes of a note.
    pub const BYTES: usize = 4 * NoteAt::WORDS;
}

/// A device being opened: a future, because a browser cannot block.
pub type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Backend>>> + Send>>;

/// Finds and opens the devices of one family. Asking costs nothing until the first use.
pub trait DeviceFamily: Send + Sync + 'static {
    /// The names of the family's devices on this machine (`cpu`, `cuda:0`, ...), or why there are none.
    fn list(&self) -> Result<Vec<String>>;

    /// The family's name: what stands before the colon.
    fn name(&self) -> &'static str;

    /// Opens a device of that name.
    fn open(&self, name: &str) -> Opening;

    /// Computes on so many threads of the program. Only a family that computes on some does something.
    fn set_threads(&mut self, _threads: usize) {}
}
