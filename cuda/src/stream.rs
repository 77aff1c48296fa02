//! Streams of CUDA: non-blocking, with a priority, and able to record what is launched while they are captured.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_core::backend::{BackendStream, Priority};
use millstream_core::event::Event;
use millstream_core::memory::StreamId;
use millstream_core::{Error, Result};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::context::Context;
use crate::event::CudaEvent;
use crate::gate::Gate;
use crate::module::Module;
use crate::sys::driver::{self as sys, LaunchAttribute, LaunchConfig, number};

/// A kernel and how it is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) function: sys::Function,
    pub(crate) grid: [u32; 3],
    pub(crate) group: u32,
    /// Whether the kernel waits by itself until the one before it is through, so that it may be set up earlier.
    pub(crate) follows: bool,
}

/// A launch as a capture has recorded it: enough to change its arguments later.
pub(crate) struct Recorded {
    pub(crate) node: sys::GraphNode,
    pub(crate) shape: Shape,
    pub(crate) addresses: SmallVec<[u64; 8]>,
    pub(crate) words: SmallVec<[u32; 32]>,
    /// Where the kernel lies: it must not be unloaded while it can be replayed.
    pub(crate) _module: Arc<Module>,
}

/// Calls `f` with the driver's form of a kernel's parameters: a pointer to each address, then one to the words.
#[inline]
pub(crate) fn with_params<R>(addresses: &[u64], words: &[u32], f: impl FnOnce(*mut *mut c_void) -> R) -> R {
    let mut params: SmallVec<[*mut c_void; 24]> = SmallVec::new();
    // The driver only reads through these.
    params.extend(addresses.iter().map(|a| (&raw const *a).cast_mut().cast()));
    params.push(words.as_ptr().cast_mut().cast());
    f(params.as_mut_ptr())
}

/// A queue of work on a CUDA device.
pub(crate) struct CudaStream {
    context: Arc<Context>,
    raw: sys::Stream,
    id: StreamId,
    /// What the stream waits for on the host's side and that is not known to have ended well.
    gates: Mutex<SmallVec<[Arc<Gate>; 0]>>,
    gated: AtomicBool,
    capturing: AtomicBool,
    recorded: Mutex<Vec<Recorded>>,
}

impl CudaStream {
    /// A new stream.
    pub(crate) fn new(context: &Arc<Context>, id: StreamId, priority: Priority) -> Result<CudaStream> {
        context.enter()?;
        // Numbers go from the least urgent to the most urgent, which is the smaller one.
        let (mut least, mut greatest) = (0, 0);
        let mut raw = sys::Stream::NULL;
        // SAFETY: the driver writes two numbers, then a handle.
        unsafe {
            context
                .check((context.driver.ctx_priorities)(&mut least, &mut greatest), "asking for stream priorities")?;
            let number = match priority {
                Priority::Low => least,
                Priority::Normal => (least + greatest).div_euclid(2).clamp(greatest, least),
                Priority::High => greatest,
            };
            context.check(
                (context.driver.stream_create)(&mut raw, number::STREAM_NON_BLOCKING, number),
                "making a stream",
            )?;
        }
        Ok(CudaStream {
            context: context.clone(),
            raw,
            id,
            gates: Mutex::default(),
            gated: AtomicBool::new(false),
            capturing: AtomicBool::new(false),
            recorded: Mutex::default(),
        })
    }

    /// The CUDA stream behind core's handle.
    #[inline]
    pub(crate) fn of(stream: &dyn BackendStream) -> Result<&CudaStream> {
        stream.as_any().downcast_ref().ok_or_else(|| Error::internal("a stream of another device was given to CUDA"))
    }

    pub(crate) fn raw(&self) -> sys::Stream {
        self.raw
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The driver's number for its priority.
    pub(crate) fn priority(&self) -> Result<i32> {
        self.context.enter()?;
        let mut priority = 0;
        // SAFETY: the driver writes one number.
        let status = unsafe { (self.context.driver.stream_priority)(self.raw, &mut priority) };
        self.context.check(status, "asking for a stream's priority")?;
        Ok(priority)
    }

    /// Queues a kernel. The context is current; the arguments are what the kernel's declaration says.
    #[inline]
    pub(crate) fn launch(&self, module: &Arc<Module>, shape: Shape, addresses: &[u64], words: &[u32]) -> Result<()> {
        let [x, y, z] = shape.grid;
        let (driver, none) = (self.context.driver, std::ptr::null_mut());
        let early = if shape.follows { self.context.early_launch } else { None };
        let status = with_params(addresses, words, |params| match early {
            Some(launch) => {
                let attribute = LaunchAttribute { id: number::LAUNCH_OVERLAPPING, pad: 0, value: 1, rest: [0; 15] };
                let config = LaunchConfig {
                    grid: shape.grid,
                    block: [shape.group, 1, 1],
                    shared: 0,
                    stream: self.raw,
                    attributes: &raw const attribute,
                    count: 1,
                };
                // SAFETY: the function is of a module that its kernel keeps loaded, and the parameters are as many and as
                // large as the generated text declares; the driver copies all it is given before it returns.
                unsafe { launch(&raw const config, shape.function, params, none) }
            }
            // SAFETY: as above.
            None => unsafe { (driver.launch)(shape.function, x, y, z, shape.group, 1, 1, 0, self.raw, params, none) },
        });
        self.context.check(status, "launching a kernel")?;
        if self.capturing.load(Ordering::Relaxed) {
            self.note(module, shape, addresses, words)?;
        }
        Ok(())
    }

    /// Notes a launch that was just captured, with its node.
    #[cold]
    fn note(&self, module: &Arc<Module>, shape: Shape, addresses: &[u64], words: &[u32]) -> Result<()> {
        let Some(info) = self.context.driver.capture_info else { return Ok(()) };
        let (mut state, mut id, mut graph) = (0, 0, sys::Graph::NULL);
        let (mut nodes, mut count) = (std::ptr::null::<sys::GraphNode>(), 0usize);
        // SAFETY: the driver writes what is requested; the nodes are read before the next call on the stream.
        let status = unsafe { info(self.raw, &mut state, &mut id, &mut graph, &mut nodes, &mut count) };
        self.context.check(status, "asking what a stream captures")?;
        // After a launch, the stream's next work depends on exactly that launch.
        if state == number::CAPTURE_ACTIVE && count == 1 && !nodes.is_null() {
            // SAFETY: there is one node at that address.
            let node = unsafe { *nodes };
            let recorded =
                Recorded { node, shape, addresses: addresses.into(), words: words.into(), _module: module.clone() };
            self.recorded.lock().push(recorded);
        }
        Ok(())
    }

    /// Begins to note launches for a graph; false if somebody else captures this stream already.
    pub(crate) fn begin_notes(&self) -> bool {
        !self.capturing.swap(true, Ordering::Relaxed)
    }

    /// The launches noted since [`CudaStream::begin_notes`].
    pub(crate) fn end_notes(&self) -> Vec<Recorded> {
        let notes = std::mem::take(&mut *self.recorded.lock());
        self.capturing.store(false, Ordering::Relaxed);
        notes
    }

    /// Whether all work so far is done, without waiting. The context is current.
    pub(crate) fn is_idle(&self) -> bool {
        // SAFETY: the stream lives.
        unsafe { (self.context.driver.stream_query)(self.raw) == 0 }
    }

    /// Waits for what the stream waits for on the host's side: for a call that is about to touch the host's memory itself, now rather than
    /// in the stream's order.
    pub(crate) fn wait_for_host(&self) -> Result<()> {
        if !self.gated.load(Ordering::Acquire) {
            return Ok(());
        }
        let gates = self.gates.lock().clone();
        gates.iter().try_for_each(|gate| gate.wait())
    }

    /// The gates that an event recorded now must heed: those since the last one, except what ended well.
    fn pending_gates(&self) -> SmallVec<[Arc<Gate>; 0]> {
        if !self.gated.load(Ordering::Acquire) {
            return SmallVec::new();
        }
        let mut gates = self.gates.lock();
        self.gated.store(false, Ordering::Release);
        // A failure is reported by the next event, then the stream goes on, as on the CPU.
        let mut heeded = std::mem::take(&mut *gates);
        heeded.retain(|gate| !(gate.is_open() && gate.failure().is_none()));
        heeded
    }
}

impl BackendStream for CudaStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn record(&self, event: &Event) -> Result<()> {
        self.context.enter()?;
        if self.capturing.load(Ordering::Relaxed) {
            return Err(Error::launch("an event cannot be recorded on a stream that is being captured")
                .suggest("record it after the capture; a replay is work like any other"));
        }
        let gates = self.pending_gates();
        let raw = self.context.events.take(&self.context, event.is_timed())?;
        // From here on the event goes back to the pool by itself.
        let recorded = CudaEvent::new(self.context.clone(), self.id, raw, event.is_timed(), gates);
        // SAFETY: both handles are of this context.
        let status = unsafe { (self.context.driver.event_record)(raw, self.raw) };
        self.context.check(status, "recording an event")?;
        event.attach(Arc::new(recorded));
        Ok(())
    }

    fn depend(&self, event: &Event) -> Result<()> {
        self.context.enter()?;
        if let Some(source) = event.source()
            && let Some(other) = source.as_any().downcast_ref::<CudaEvent>()
        {
            if other.stream() == self.id {
                // Work on one stream runs in order anyway. What failed before the event fails this stream's next event, too.
                return Ok(());
            }
            // SAFETY: both handles live; events of other devices are allowed here.
            let status = unsafe { (self.context.driver.stream_wait_event)(self.raw, other.raw(), 0) };
            return self.context.check(status, "making a stream wait for an event");
        }
        if event.is_complete() && event.error().is_none() {
            return Ok(());
        }
        let gate = Gate::close(&self.context, self.raw, event)?;
        let mut gates = self.gates.lock();
        gates.push(gate);
        self.gated.store(true, Ordering::Release);
        Ok(())
    }

    fn awaits(&self, _event: &Event) -> bool {
        // By its event, or by a gate.
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

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.context.loss().is_none() && self.context.enter().is_ok() {
            // SAFETY: nobody else has the handle; the driver finishes queued work first.
            unsafe { (self.context.driver.stream_destroy)(self.raw) };
        }
    }
}
