//! Events: a submission, the downloads that end with it, and perhaps the device's time.

use std::any::Any;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use millstream_core::event::DeviceEvent;
use millstream_core::{Error, Event, Result};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::gpu::{Gpu, Submission};
use crate::stream::Batch;
use crate::timer::Stamp;
use crate::transfer::Download;

/// How long a wait for a download's callback sleeps before it asks the driver again.
const TURN: Duration = Duration::from_millis(1);

/// The submission that a batch becomes; set when it is handed to the driver, or could not be.
pub(crate) type Ticket = Arc<OnceLock<Result<Submission>>>;

/// A moment in a stream.
#[derive(Clone)]
pub(crate) struct Mark(Arc<Inner>);

struct Inner {
    gpu: Arc<Gpu>,
    /// `None` where the stream had done nothing yet.
    ticket: Option<Ticket>,
    /// The stream's gathered commands, which may not be submitted yet.
    batch: Weak<Mutex<Batch>>,
    downloads: SmallVec<[Arc<Download>; 1]>,
    stamp: Option<Stamp>,
}

impl Mark {
    pub(crate) fn new(
        gpu: Arc<Gpu>,
        ticket: Option<Ticket>,
        batch: Weak<Mutex<Batch>>,
        downloads: SmallVec<[Arc<Download>; 1]>,
        stamp: Option<Stamp>,
    ) -> Mark {
        Mark(Arc::new(Inner { gpu, ticket, batch, downloads, stamp }))
    }

    /// The submission; whoever asks first hands the stream's commands to the driver.
    pub(crate) fn submission(&self) -> Result<Option<Submission>> {
        let Some(ticket) = &self.0.ticket else { return Ok(None) };
        if ticket.get().is_none()
            && let Some(batch) = self.0.batch.upgrade()
        {
            // What goes wrong is in the ticket.
            let _ = batch.lock().submit(&self.0.gpu);
        }
        match ticket.get() {
            Some(submission) => submission.clone().map(Some),
            None => Err(Error::device_lost(format!("{}: work was dropped before it was submitted", self.0.gpu.name))),
        }
    }

    /// Whether the moment is one of this device.
    pub(crate) fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.0.gpu, gpu)
    }

    /// Whether it belongs to these gathered commands, submitted or not.
    pub(crate) fn is_gathered_in(&self, batch: &Arc<Mutex<Batch>>) -> bool {
        std::ptr::eq(self.0.batch.as_ptr(), Arc::as_ptr(batch))
    }

    /// Waits as long as it takes.
    pub(crate) fn finish(&self) -> Result<()> {
        while !self.wait(None)? {}
        Ok(())
    }

    fn sequence(&self) -> u64 {
        self.submission().ok().flatten().map_or(0, |s| s.sequence)
    }

    /// Whether all downloads are finished; an error if one has failed.
    fn downloaded(&self) -> Result<bool> {
        for download in &self.0.downloads {
            match download.result() {
                None => return Ok(false),
                Some(result) => result?,
            }
        }
        Ok(true)
    }
}

impl DeviceEvent for Mark {
    fn query(&self) -> Result<bool> {
        self.wait(Some(Duration::ZERO))
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        let gpu = &self.0.gpu;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if let Some(submission) = self.submission()?
            && !gpu.wait(&submission, timeout)?
        {
            return Ok(false);
        }
        for download in &self.0.downloads {
            while download.result().is_none() {
                // Its callback may be due, or may be running on another thread at this moment.
                gpu.poll()?;
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                if download.result().is_none() && left.is_some_and(|left| left.is_zero()) {
                    return Ok(false);
                }
                download.wait(left.unwrap_or(TURN).min(TURN));
            }
        }
        self.downloaded()
    }

    fn notify(&self, event: &Event) -> Result<()> {
        self.submission()?;
        self.0.gpu.poller.watch(self.clone(), event.clone())
    }

    fn elapsed_since(&self, earlier: &dyn DeviceEvent) -> Option<Duration> {
        let earlier = earlier.as_any().downcast_ref::<Mark>().filter(|m| m.is_of(&self.0.gpu))?;
        let (start, end) = (earlier.0.stamp.as_ref()?, self.0.stamp.as_ref()?);
        self.0.gpu.timer.as_ref()?.between(&self.0.gpu, start, end).ok()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A thread that waits for those who only want to be told. It begins with the first of them and sleeps while there is none.
#[derive(Default)]
pub(crate) struct Poller {
    sender: Mutex<Option<Sender<(Mark, Event)>>>,
}

impl Poller {
    fn watch(&self, mark: Mark, event: Event) -> Result<()> {
        let mut sender = self.sender.lock();
        let mut item = (mark, event);
        if let Some(sender) = &*sender {
            match sender.send(item) {
                Ok(()) => return Ok(()),
                // The thread is gone; begin another.
                Err(returned) => item = returned.0,
            }
        }
        let (new, receiver) = channel();
        std::thread::Builder::new()
            .name("millstream-events".into())
            .spawn(move || serve(&receiver))
            .map_err(|e| Error::launch(format!("the thread that waits for events could not begin: {e}")))?;
        // Cannot fail: the receiver lives in the thread.
        let _ = new.send(item);
        *sender = Some(new);
        Ok(())
    }
}

fn serve(receiver: &Receiver<(Mark, Event)>) {
    let mut pending: Vec<(Mark, Event)> = Vec::new();
    loop {
        if pending.is_empty() {
            match receiver.recv() {
                Ok(item) => pending.push(item),
                Err(_) => return,
            }
        }
        loop {
            match receiver.recv_timeout(Duration::ZERO) {
                Ok(item) => pending.push(item),
                Err(RecvTimeoutError::Timeout) => break,
                // What is pending is still waited for.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // The queue finishes in order: the lowest comes first.
        if let Some((mark, _)) = pending.iter().min_by_key(|(mark, _)| mark.sequence()) {
            // Whatever comes of it is asked again below. Who joins meanwhile comes later in the queue, or is told a little late.
            let _ = mark.wait(None);
        }
        pending.retain(|(mark, event)| match mark.query() {
            Ok(false) => true,
            Ok(true) => {
                event.signal();
                false
            }
            Err(error) => {
                event.fail(error);
                false
            }
        });
    }
}
