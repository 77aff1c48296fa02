//! One opened device as the rest of the crate shares it: the driver's handles, the order of submissions, and its health.
//!
//! Every call into `wgpu` that can fail goes through [`Gpu::call`], which turns what the driver reports on this thread, and
//! what `wgpu` would panic about, into a typed error. Once a device is lost, every call says so.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use millstream_core::{Error, ErrorKind, Fault, Result};
use parking_lot::{Condvar, Mutex, ReentrantMutex, ReentrantMutexGuard};

use crate::bind::Binds;
use crate::event::Poller;
use crate::family::Api;
use crate::kernel::Builtins;
use crate::staging::Staging;
use crate::timer::Timer;

/// How long an OpenGL wait holds the context before others get a turn.
const GL_TURN: Duration = Duration::from_millis(10);
/// How long a wait with a time limit sleeps before it asks again.
const NAP: Duration = Duration::from_micros(500);

/// What a call was for, which decides the kind of its error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// Making a buffer of so many bytes.
    Alloc(u64),
    /// Making a kernel.
    Compile,
    /// Anything that is queued.
    Launch,
}

/// What the driver has said of the device, whoever asked.
#[derive(Debug, Default)]
pub(crate) struct Health {
    lost: OnceLock<String>,
    /// Errors that nobody has taken yet, by the thread whose call caused them.
    faults: Mutex<Vec<(ThreadId, wgpu::Error)>>,
    has_faults: AtomicBool,
}

impl Health {
    /// Has the driver report here.
    pub(crate) fn watch(device: &wgpu::Device) -> Arc<Health> {
        let health = Arc::new(Health::default());
        let here = health.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            here.faults.lock().push((thread::current().id(), error));
            here.has_faults.store(true, Ordering::Release);
        }));
        let here = health.clone();
        device.set_device_lost_callback(move |reason, message| here.lose(&format!("{reason:?}: {message}")));
        health
    }

    /// Marks the device as lost.
    pub(crate) fn lose(&self, why: &str) {
        // The first reason is the one that counts.
        let _ = self.lost.set(why.trim().trim_end_matches(':').into());
    }

    /// Why the device is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// The first error that this thread has caused since it last asked.
    pub(crate) fn take(&self) -> Option<wgpu::Error> {
        if !self.has_faults.load(Ordering::Acquire) {
            return None;
        }
        let me = thread::current().id();
        let mut faults = self.faults.lock();
        let first = faults.iter().position(|(thread, _)| *thread == me).map(|i| faults.remove(i).1);
        // What follows from the first error says nothing new.
        faults.retain(|(thread, _)| *thread != me);
        self.has_faults.store(!faults.is_empty(), Ordering::Release);
        first
    }
}

/// A position in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    /// Counts this device's submissions from 1.
    pub sequence: u64,
    index: wgpu::SubmissionIndex,
}

/// How far the queue has come, as the driver's callbacks say.
#[derive(Default)]
struct Progress {
    /// Every submission up to this one is finished.
    finished: AtomicU64,
    /// Whether somebody sleeps until that changes.
    sleepers: Mutex<usize>,
    changed: Condvar,
}

impl Progress {
    fn reached(&self, sequence: u64) {
        self.finished.fetch_max(sequence, Ordering::AcqRel);
        if *self.sleepers.lock() > 0 {
            self.changed.notify_all();
        }
    }

    /// Sleeps until another thread hears of progress, but not longer than this.
    fn sleep(&self, sequence: u64, time: Duration) {
        let mut sleepers = self.sleepers.lock();
        if self.finished.load(Ordering::Acquire) < sequence {
            *sleepers += 1;
            self.changed.wait_for(&mut sleepers, time);
            *sleepers -= 1;
        }
    }
}

/// An opened device.
pub(crate) struct Gpu {
    pub name: String,
    pub api: Api,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub limits: wgpu::Limits,
    pub features: wgpu::Features,
    health: Arc<Health>,
    /// The number of submissions so far; held while one is made, so that numbers follow the queue's order.
    sequence: Mutex<u64>,
    progress: Arc<Progress>,
    /// OpenGL has one context, and `wgpu` gives up when it cannot have it within seconds: here everybody waits.
    turn: Option<ReentrantMutex<()>>,
    pub binds: Binds,
    pub staging: Staging,
    pub timer: Option<Timer>,
    pub poller: Poller,
    pub builtins: Builtins,
}

impl Gpu {
    pub(crate) fn new(
        name: &str,
        api: Api,
        (device, queue): (wgpu::Device, wgpu::Queue),
        health: Arc<Health>,
    ) -> Result<Gpu> {
        let (limits, features) = (device.limits(), device.features());
        let gpu = Gpu {
            name: name.into(),
            api,
            binds: Binds::new(&device),
            staging: Staging::new(&features, &limits),
            timer: Timer::new(&device, &queue),
            poller: Poller::default(),
            builtins: Builtins::default(),
            device,
            queue,
            limits,
            features,
            sequence: Mutex::new(0),
            progress: Arc::default(),
            turn: (api == Api::Gl).then(|| ReentrantMutex::new(())),
            health,
        };
        gpu.call(What::Launch, || ())?;
        Ok(gpu)
    }

    /// The error that every call gives once the device is lost.
    fn loss(&self) -> Option<Error> {
        let why = self.health.lost()?;
        Some(Error::device_lost(format!("{} is lost ({why})", self.name)))
    }

    /// An error if the device is lost.
    pub(crate) fn alive(&self) -> Result<()> {
        self.loss().map_or(Ok(()), Err)
    }

    /// Gives the device up, as if the driver had lost it.
    pub(crate) fn destroy(&self) {
        self.health.lose("it was given up");
        let _turn = self.turn();
        self.device.destroy();
    }

    fn turn(&self) -> Option<ReentrantMutexGuard<'_, ()>> {
        self.turn.as_ref().map(ReentrantMutex::lock)
    }

    /// Calls into `wgpu`; whatever goes wrong there comes back as an error of the kind that `what` says.
    pub(crate) fn call<T>(&self, what: What, f: impl FnOnce() -> T) -> Result<T> {
        self.alive()?;
        let outcome = {
            let _turn = self.turn();
            catch_unwind(AssertUnwindSafe(f))
        };
        let fault = self.health.take();
        if let Some(loss) = self.loss() {
            return Err(loss);
        }
        match (outcome, fault) {
            (Ok(value), None) => Ok(value),
            (_, Some(fault)) => Err(self.error(what, &fault)),
            (Err(panic), None) => Err(self.message(what, panic_text(&*panic))),
        }
    }

    fn error(&self, what: What, fault: &wgpu::Error) -> Error {
        match (fault, what) {
            (wgpu::Error::OutOfMemory { .. }, What::Alloc(bytes)) => self.out_of_memory(bytes),
            (wgpu::Error::OutOfMemory { source }, _) => {
                let message = format!("{}: the driver has no memory left ({source})", self.name);
                Error::new(ErrorKind::OutOfMemory, Fault::Message(message))
            }
            (_, What::Alloc(bytes)) if is_size_error(fault) => self.out_of_memory(bytes),
            _ => self.message(what, fault.to_string()),
        }
    }

    fn message(&self, what: What, text: String) -> Error {
        let text = format!("{}: {}", self.name, text.trim());
        match what {
            What::Compile => Error::compile(text),
            What::Alloc(_) | What::Launch => Error::launch(text),
        }
    }

    /// The error for memory that the device does not have.
    pub(crate) fn out_of_memory(&self, bytes: u64) -> Error {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // The pool knows the other numbers and fills them in.
        let fault = Fault::OutOfMemory { device: self.name.clone(), bytes, in_use: 0, reserved: 0 };
        Error::new(ErrorKind::OutOfMemory, fault)
    }

    /// Hands commands to the driver.
    pub(crate) fn submit(&self, commands: impl IntoIterator<Item = wgpu::CommandBuffer>) -> Result<Submission> {
        let mut sequence = self.sequence.lock();
        let index = self.call(What::Launch, || self.queue.submit(commands))?;
        *sequence += 1;
        let (number, progress) = (*sequence, self.progress.clone());
        // The number is this submission's, since nobody else submits meanwhile.
        self.call(What::Launch, || self.queue.on_submitted_work_done(move || progress.reached(number)))?;
        Ok(Submission { sequence: number, index })
    }

    /// Whether a submission is known to be finished, without asking the driver.
    pub(crate) fn is_finished(&self, submission: &Submission) -> bool {
        self.progress.finished.load(Ordering::Acquire) >= submission.sequence
    }

    /// Waits until a submission is finished (`true`) or the time is over (`false`). No time: does not block.
    ///
    /// `wgpu` cannot be asked with a time limit by several threads at once: it takes offence when another one sees the queue
    /// empty in between. So a wait with a limit asks again and again, sleeping between.
    pub(crate) fn wait(&self, submission: &Submission, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if self.is_finished(submission) {
                return Ok(true);
            }
            // An OpenGL wait keeps everybody else from the context: never without a limit, and alone by its turn.
            if deadline.is_none() || self.turn.is_some() {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                let slice = self.turn.is_some().then(|| left.map_or(GL_TURN, |left| left.min(GL_TURN)));
                let poll = wgpu::PollType::Wait { submission_index: Some(submission.index.clone()), timeout: slice };
                match self.call(What::Launch, || self.device.poll(poll))? {
                    Ok(_) => {
                        self.progress.reached(submission.sequence);
                        return Ok(true);
                    }
                    Err(wgpu::PollError::Timeout) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
                    Err(wgpu::PollError::Timeout) => continue,
                    Err(e) => return Err(Error::launch(format!("{}: {e}", self.name))),
                }
            }
            self.poll()?;
            if self.is_finished(submission) {
                return Ok(true);
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => self.progress.sleep(submission.sequence, left.min(NAP)),
                _ => return Ok(false),
            }
        }
    }

    /// Lets `wgpu` run the callbacks that are due. Does not block.
    pub(crate) fn poll(&self) -> Result<()> {
        match self.call(What::Launch, || self.device.poll(wgpu::PollType::Poll))? {
            Ok(_) | Err(wgpu::PollError::Timeout) => Ok(()),
            Err(e) => Err(Error::launch(format!("{}: {e}", self.name))),
        }
    }

    /// A new buffer.
    pub(crate) fn buffer(&self, bytes: u64, usage: wgpu::BufferUsages, mapped: bool) -> Result<wgpu::Buffer> {
        if bytes > self.limits.max_buffer_size {
            return Err(self.out_of_memory(bytes));
        }
        let descriptor = wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: mapped };
        self.call(What::Alloc(bytes), || self.device.create_buffer(&descriptor))
    }

    /// A new recorder of commands.
    pub(crate) fn encoder(&self) -> Result<wgpu::CommandEncoder> {
        self.call(What::Launch, || self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None }))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Callbacks that are still to come hold buffers: let them run. A lost device has none.
        if self.alive().is_ok() {
            let _turn = self.turn();
            let poll = wgpu::PollType::Wait { submission_index: None, timeout: Some(Duration::from_secs(10)) };
            let _ = catch_unwind(AssertUnwindSafe(|| self.device.poll(poll)));
        }
    }
}

fn is_size_error(fault: &wgpu::Error) -> bool {
    fault.to_string().contains("max_buffer_size")
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the driver's library failed").to_string()
}
