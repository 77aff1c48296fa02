//! Streams of items through compiled functions, on one device or several, so that every part of the machine has something to do.
//!
//! A [`Pipeline`] has stages, each a compiled function on its device. Items, which are tensors, go through all of them. While item n is
//! computed, item n + 1 travels to the device and the result of n - 1 back to the host; and where stages sit on different devices, each
//! works on an item of its own.
//!
//! ```
//! use millstream::Pipeline;
//! use millstream::Tensor;
//! let weights = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
//! let pipeline = Pipeline::new("cpu", |x| x.matmul(&weights).relu());
//! let items = (0..10).map(|i| Tensor::new([[i as f32, -1.0]]));
//! for (i, result) in pipeline.run(items)?.enumerate() {
//!     assert_eq!(result?.to_vec::<f32>()?, [i as f32 - 3.0, 2.0 * i as f32 - 4.0].map(|v| v.max(0.0)));
//! }
//! # Ok::<(), millstream::Error>(())
//! ```
//!
//! What it promises:
//!
//! - **The results** are those of the functions called one after the other, in the order of the items ([`Run`]), or as they come
//!   ([`Run::as_they_come`]). They lie on the host, unless [`Pipeline::keep_on_device`] says otherwise.
//! - **Memory is bounded.** So many items are in flight at once as keep the slowest part busy, by the cost model: two, three, or as many as
//!   there are steps; [`Pipeline::depth`] sets another number. No item is taken in beyond that before a result was taken out. Where memory
//!   is short, fewer are in flight: an item that finds none waits until those before it have left.
//! - **There are no threads behind it.** Whoever pushes and pulls queues the work; devices order themselves by events. Uploads, each stage and
//!   downloads have streams of their own, so that they overlap. The device `cpu` has a thread for each of its streams; in a pipeline of the
//!   CPU alone there is nothing to overlap with, and everything is computed within the call, unless a depth above 1 is set: then an item is
//!   computed while the program makes the next one.
//! - **An error belongs to an item**: an [`ItemError`] says which, at which step, on which device. The items before and after it go on. A
//!   device that is lost fails each item that needs it.
//! - **It ends when you like.** A [`Cancel`] stops it between two items, at the latest when the work it waits for is through; a timeout stops
//!   it when nothing was finished for so long; dropping it, at any time, gives everything back. What devices have queued is computed to its
//!   end, and its memory is used again only after that.
//!
//! What an item is made of, and what the stages give, is one tensor ([`Pipeline::new`]), an array of tensors ([`Pipeline::new_all`]) or a
//! list ([`Pipeline::new_many`]). All items should have the same shapes, or a few kinds of them: a function is planned anew for each kind.
//! Inputs that lie in memory which the device copies by itself ([`Buffer::staged`](millstream_core::Buffer::staged)) travel without the
//! help of the calling thread; so do results, always. [`files`] reads items from the disk as they are needed.
//!
//! [`Flow::statistics`] says how busy each step was and what the pipeline waited for; so does the profile, when it is on.

mod engine;
mod error;
pub mod files;
mod flow;
mod item;
mod statistics;
mod step;
mod wait;

use std::marker::PhantomData;
use std::time::Duration;

use millstream_core::{Device, Error, Result};

use crate::arguments::IntoDevice;
use crate::compiled::{CompiledMany, compile_many};
use crate::{Cancel, Tensor};

pub use error::ItemError;
pub use flow::{AsTheyCome, Flow, Run};
pub use item::{Item, Source};
pub use statistics::{Progress, Statistics, StepStatistics};

use engine::{Engine, Settings};

/// One stage: a compiled function and the device on which it is computed.
pub(crate) struct Stage<'f> {
    pub device: Device,
    pub function: CompiledMany<'f>,
}

/// Who is told of progress.
type Watcher<'f> = Box<dyn Fn(&Progress) + Send + Sync + 'f>;

/// Compiled functions through which items flow: see the [module](self).
///
/// ```
/// use millstream::{Pipeline, Tensor};
/// let pipeline = Pipeline::new("cpu", |x| x * 2.0).stage("cpu", |x| x.sum(..));
/// let sums = pipeline.run([Tensor::new([1.0f32, 2.0]), Tensor::new([3.0f32, 4.0])])?;
/// let sums: Vec<f32> = sums.map(|sum| sum?.item::<f32>()).collect::<Result<_, _>>()?;
/// assert_eq!(sums, [6.0, 14.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use = "a pipeline does nothing until it is run"]
pub struct Pipeline<'f, I, O> {
    stages: Result<Vec<Stage<'f>>>,
    settings: Settings,
    watcher: Option<Watcher<'f>>,
    items: PhantomData<fn(I) -> O>,
}

impl<'f> Pipeline<'f, Tensor, Tensor> {
    /// A pipeline whose first stage computes a tensor from each item, which is a tensor. The device is given as such or by its name; a
    /// name that there is not becomes an error when the pipeline is run.
    pub fn new(device: impl IntoDevice, function: impl Fn(&Tensor) -> Tensor + Send + Sync + 'f) -> Self {
        Pipeline::begin(device, item::single(function))
    }
}

impl<'f, const N: usize, const M: usize> Pipeline<'f, [Tensor; N], [Tensor; M]> {
    /// The same where an item is several tensors, and so is what the stage gives.
    ///
    /// ```
    /// use millstream::{Pipeline, Tensor};
    /// let pipeline = Pipeline::new_all("cpu", |[x, y]: [&Tensor; 2]| [x + y]);
    /// let item = [Tensor::new([1.0f32]), Tensor::new([2.0f32])];
    /// let [sum] = pipeline.run([item])?.next().unwrap()?;
    /// assert_eq!(sum.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn new_all(device: impl IntoDevice, function: impl Fn([&Tensor; N]) -> [Tensor; M] + Send + Sync + 'f) -> Self {
        Pipeline::begin(device, item::array(function))
    }
}

impl<'f> Pipeline<'f, Vec<Tensor>, Vec<Tensor>> {
    /// The same for lists of tensors, and for functions that may fail by themselves.
    pub fn new_many(
        device: impl IntoDevice,
        function: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f,
    ) -> Self {
        Pipeline::begin(device, function)
    }
}

impl<'f, I: Item> Pipeline<'f, I, Tensor> {
    /// A further stage, which computes a tensor from what the stage before it gives.
    pub fn stage(
        self,
        device: impl IntoDevice,
        function: impl Fn(&Tensor) -> Tensor + Send + Sync + 'f,
    ) -> Pipeline<'f, I, Tensor> {
        self.add(device, item::single(function))
    }
}

impl<'f, I: Item, const N: usize> Pipeline<'f, I, [Tensor; N]> {
    /// A further stage over several tensors.
    pub fn stage_all<const M: usize>(
        self,
        device: impl IntoDevice,
        function: impl Fn([&Tensor; N]) -> [Tensor; M] + Send + Sync + 'f,
    ) -> Pipeline<'f, I, [Tensor; M]> {
        self.add(device, item::array(function))
    }
}

impl<'f, I: Item, O: Item> Pipeline<'f, I, O> {
    /// A further stage over whatever the one before it gives, as lists.
    pub fn stage_many(
        self,
        device: impl IntoDevice,
        function: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f,
    ) -> Pipeline<'f, I, Vec<Tensor>> {
        self.add(device, function)
    }

    /// At most so many items in flight at once; 0 counts as 1. Left out, the cost model chooses.
    pub fn depth(mut self, items: usize) -> Self {
        self.settings.depth = Some(items.max(1));
        self
    }

    /// Ends the run with an error of kind `Timeout` where nothing was finished for so long. Of a device that does not answer, nothing is
    /// known any more, so that the items behind the one it has end there, too.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.settings.timeout = Some(time);
        self
    }

    /// A switch that ends the run: the next result is an error of kind `Interrupted`, and the last one.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.settings.cancel = Some(cancel.clone());
        self
    }

    /// Leaves results on the device of the last stage. The program then holds that device's memory, as much as it keeps results.
    pub fn keep_on_device(mut self) -> Self {
        self.settings.keep_on_device = true;
        self
    }

    /// Calls a function after each item, on the thread that takes the result: for a display of progress.
    pub fn on_progress(mut self, watcher: impl Fn(&Progress) + Send + Sync + 'f) -> Self {
        self.watcher = Some(Box::new(watcher));
        self
    }

    /// Runs items through the pipeline: an iterator of their results, in order. It takes items as it has room for them.
    ///
    /// An item is a tensor (an array of them, a list), or a `Result` of one: where that is an error, it is the error of this item, and
    /// the next one follows.
    ///
    /// # Errors
    /// A device that there is not.
    pub fn run<'p, S>(&'p self, items: S) -> Result<Run<'p, S::IntoIter, I, O>>
    where
        S: IntoIterator,
        S::Item: Source<I>,
    {
        Ok(Run::new(self.open()?, items.into_iter()))
    }

    /// Opens the pipeline for items that are pushed and results that are pulled.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub fn open(&self) -> Result<Flow<'_, I, O>> {
        let stages = self.stages.as_ref().map_err(Error::clone)?;
        Ok(Flow::new(Engine::new(stages, &self.settings, self.watcher.as_deref())?))
    }

    fn begin(device: impl IntoDevice, function: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f) -> Self {
        let empty: Pipeline<'f, I, O> =
            Pipeline { stages: Ok(Vec::new()), settings: Settings::default(), watcher: None, items: PhantomData };
        empty.add(device, function)
    }

    fn add<P>(
        self,
        device: impl IntoDevice,
        function: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f,
    ) -> Pipeline<'f, I, P> {
        let stages = self.stages.and_then(|mut stages| {
            let function = compile_many(move |inputs| Ok(function(inputs)?.iter().map(item::whole).collect()));
            stages.push(Stage { device: device.device()?, function });
            Ok(stages)
        });
        Pipeline { stages, settings: self.settings, watcher: self.watcher, items: PhantomData }
    }
}

impl<I, O> std::fmt::Debug for Pipeline<'_, I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.stages {
            Ok(stages) => {
                let devices: Vec<&str> = stages.iter().map(|s| s.device.name()).collect();
                write!(f, "Pipeline({})", devices.join(" -> "))
            }
            Err(error) => write!(f, "Pipeline({error:?})"),
        }
    }
}
