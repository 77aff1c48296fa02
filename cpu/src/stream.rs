//! Streams of the CPU device, and the one wrapper that puts a kernel's work on them.
//!
//! A kernel implements only [`Run`]: compute now, on the calling thread (and the workers it calls). [`CpuLaunch`] turns
//! that into core's `Launch`. On an **inline** stream it computes before the call returns. On a **queued** stream the
//! work becomes a plain [`Command`] and a thread of the stream's own executes it, in order; the thread starts with the
//! first command, sleeps while there is none, and ends when the stream is dropped and its queue is empty.
//!
//! When a queued command fails, the stream skips the work behind it up to the next recorded event, which fails with the
//! first error; then the stream goes on.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_core::backend::{BackendStream, Binding, Bindings, Launch};
use millstream_core::event::Event;
use millstream_core::memory::{RawMemory, StreamId};
use millstream_core::{Error, PackCache, Result, Scalar, interrupt};
use parking_lot::{Condvar, Mutex};

use crate::shared::Shared;
use crate::workers::{self, Workers};

/// Work that is computed when asked for: what a kernel of this crate prepares.
pub(crate) trait Run: Send + Sync + 'static {
    /// Bytes of scratch memory that one execution needs.
    fn workspace(&self) -> usize {
        0
    }

    /// Computes; the results are in memory when it returns.
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()>;

    /// Why a run since the last call went another way than the variant says.
    fn fallback(&self) -> Option<&'static str> {
        None
    }
}

/// Runs prepared work inline or through a stream's queue.
pub(crate) struct CpuLaunch(pub(crate) Arc<dyn Run>);

impl Launch for CpuLaunch {
    fn workspace(&self) -> usize {
        self.0.workspace()
    }

    fn run(&self, bindings: &Bindings<'_>, stream: &dyn BackendStream) -> Result<()> {
        match stream.as_any().downcast_ref::<QueuedStream>() {
            Some(queued) => queued.push(Command::Launch(self.0.clone(), Owned::from(bindings))),
            // The thread that asked for it waits for it, and may want to stop.
            None => guarded(|| workers::interruptible(|| self.0.execute(bindings))),
        }
    }

    fn fallback(&self) -> Option<&'static str> {
        self.0.fallback()
    }
}

/// A panic in a kernel is a bug, but the program that started the work goes on with an error.
fn guarded(work: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        if panic.is::<workers::Interrupted>() {
            return Err(interrupt::error());
        }
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::internal(format!("a CPU kernel panicked: {text}")))
    })
}

/// The host's address of a byte of memory that the CPU can use.
pub(crate) fn host_address(memory: &RawMemory, offset: usize) -> Result<*mut u8> {
    match memory.host {
        // The caller checked the offset against the memory; wrapping arithmetic keeps a mistake from being unsound here.
        Some(base) => Ok(base.as_ptr().wrapping_add(offset)),
        None => Err(Error::internal("memory that the CPU cannot address was bound to it")),
    }
}

/// A range of bytes to copy. The memory is kept alive by whoever queued it, and by `owner` where it has one.
pub(crate) struct CopyRange {
    pub(crate) from: RawMemory,
    pub(crate) from_offset: usize,
    pub(crate) to: RawMemory,
    pub(crate) to_offset: usize,
    pub(crate) bytes: usize,
}

impl CopyRange {
    /// Copies now.
    pub(crate) fn execute(&self, workers: &Workers) -> Result<()> {
        let fits = |m: &RawMemory, offset: usize| offset.checked_add(self.bytes).is_some_and(|end| end <= m.bytes);
        if !fits(&self.from, self.from_offset) || !fits(&self.to, self.to_offset) {
            return Err(Error::internal(format!("a copy of {} bytes leaves its memory", self.bytes)));
        }
        let from = Shared(host_address(&self.from, self.from_offset)?);
        let to = Shared(host_address(&self.to, self.to_offset)?);
        copy_bytes(from, to, self.bytes, workers);
        Ok(())
    }
}

/// The bytes that one task of a copy moves: several pages, so that the hand-over does not count.
const COPY_PIECE: usize = 1 << 20;

fn copy_bytes(from: Shared<u8>, to: Shared<u8>, bytes: usize, workers: &Workers) {
    let distance = (from.0 as usize).abs_diff(to.0 as usize);
    if distance < bytes {
        // SAFETY: both ranges lie in live memory, checked by the caller; `copy` allows overlap.
        unsafe { std::ptr::copy(from.0, to.0, bytes) };
        return;
    }
    let piece = |i: usize| {
        let start = i * COPY_PIECE;
        let count = COPY_PIECE.min(bytes - start);
        // SAFETY: both ranges lie in live memory and do not overlap; pieces of different tasks are disjoint.
        unsafe { std::ptr::copy_nonoverlapping(from.at(start), to.at(start), count) };
    };
    workers.run(bytes.div_ceil(COPY_PIECE), &piece);
}

/// A binding that outlives the call that queued it.
struct OwnedBinding {
    memory: RawMemory,
    offset: usize,
    start: usize,
    end: usize,
    pack_cache: Option<Arc<PackCache>>,
}

impl From<&Binding<'_>> for OwnedBinding {
    fn from(b: &Binding<'_>) -> OwnedBinding {
        OwnedBinding {
            memory: b.memory.clone(),
            offset: b.offset,
            start: b.start,
            end: b.end,
            pack_cache: b.pack_cache.cloned(),
        }
    }
}

impl OwnedBinding {
    fn lend(&self) -> Binding<'_> {
        let pack_cache = self.pack_cache.as_ref();
        Binding { memory: &self.memory, offset: self.offset, start: self.start, end: self.end, pack_cache }
    }
}

/// Bindings that outlive the call that queued them.
pub(crate) struct Owned {
    inputs: Vec<OwnedBinding>,
    outputs: Vec<OwnedBinding>,
    params: Vec<Scalar>,
    workspace: Option<OwnedBinding>,
}

impl From<&Bindings<'_>> for Owned {
    fn from(b: &Bindings<'_>) -> Owned {
        Owned {
            inputs: b.inputs.iter().map(OwnedBinding::from).collect(),
            outputs: b.outputs.iter().map(OwnedBinding::from).collect(),
            params: b.params.to_vec(),
            workspace: b.workspace.as_ref().map(OwnedBinding::from),
        }
    }
}

impl Owned {
    fn lend<R>(&self, use_them: impl FnOnce(&Bindings<'_>) -> R) -> R {
        let inputs: Vec<_> = self.inputs.iter().map(OwnedBinding::lend).collect();
        let outputs: Vec<_> = self.outputs.iter().map(OwnedBinding::lend).collect();
        let workspace = self.workspace.as_ref().map(OwnedBinding::lend);
        use_them(&Bindings { inputs: &inputs, outputs: &outputs, params: &self.params, workspace, note: None })
    }
}

/// One entry of a stream's queue.
pub(crate) enum Command {
    /// Compute.
    Launch(Arc<dyn Run>, Owned),
    /// Copy.
    Copy(CopyRange),
    /// Complete the event, or fail it with what went wrong before.
    Record(Event),
    /// Go on only when the event is complete.
    Wait(Event),
}

/// The stream whose work is finished when the call returns.
pub(crate) struct InlineStream {
    id: StreamId,
}

impl InlineStream {
    pub(crate) fn new(id: StreamId) -> InlineStream {
        InlineStream { id }
    }
}

impl BackendStream for InlineStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn record(&self, event: &Event) -> Result<()> {
        event.signal();
        Ok(())
    }

    fn depend(&self, event: &Event) -> Result<()> {
        event.wait()
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A stream with a thread of its own.
pub(crate) struct QueuedStream {
    id: StreamId,
    shared: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    /// The thread sleeps here while there is nothing to do.
    work: Condvar,
    workers: Arc<Workers>,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    started: bool,
    closed: bool,
}

impl QueuedStream {
    pub(crate) fn new(id: StreamId, workers: Arc<Workers>) -> QueuedStream {
        QueuedStream {
            id,
            shared: Arc::new(Queue { state: Mutex::new(State::default()), work: Condvar::new(), workers }),
        }
    }

    /// Appends a command; starts the thread with the first.
    pub(crate) fn push(&self, command: Command) -> Result<()> {
        let mut state = self.shared.state.lock();
        if !state.started {
            let shared = self.shared.clone();
            std::thread::Builder::new()
                .name(format!("millstream-s{}", self.id.0))
                .spawn(move || shared.serve())
                .map_err(|e| Error::launch(format!("the stream's thread could not start: {e}")))?;
            state.started = true;
        }
        state.commands.push_back(command);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Queue {
    /// Executes commands until the stream is dropped and none is left.
    fn serve(&self) {
        let mut failure: Option<Error> = None;
        while let Some(command) = self.next() {
            let outcome = match command {
                Command::Record(event) => {
                    match failure.take() {
                        Some(error) => event.fail(error),
                        None => event.signal(),
                    }
                    continue;
                }
                // An event is waited for even after a failure: the order of later work still depends on it.
                Command::Wait(event) => event.wait(),
                _ if failure.is_some() => continue,
                Command::Launch(run, bindings) => bindings.lend(|b| guarded(|| run.execute(b))),
                Command::Copy(range) => guarded(|| range.execute(&self.workers)),
            };
            if let (Err(error), None) = (outcome, &failure) {
                failure = Some(error);
            }
        }
    }

    fn next(&self) -> Option<Command> {
        let mut state = self.state.lock();
        loop {
            if let Some(command) = state.commands.pop_front() {
                return Some(command);
            }
            if state.closed {
                return None;
            }
            self.work.wait(&mut state);
        }
    }
}

impl Drop for QueuedStream {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.work.notify_one();
    }
}

impl BackendStream for QueuedStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn record(&self, event: &Event) -> Result<()> {
        self.push(Command::Record(event.clone()))
    }

    fn depend(&self, event: &Event) -> Result<()> {
        // What has happened already needs no entry of the queue; a failed event does, to be reported in order.
        if event.is_complete() && event.error().is_none() {
            return Ok(());
        }
        self.push(Command::Wait(event.clone()))
    }

    fn awaits(&self, _event: &Event) -> bool {
        true
    }

    fn synchronize(&self) -> Result<()> {
        let event = Event::new();
        self.record(&event)?;
        event.wait()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
