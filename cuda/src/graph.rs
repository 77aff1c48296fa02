//! Captured lists of launches: a plan of many small launches becomes one call of the driver.
//!
//! [`CudaBackend::capture`](crate::CudaBackend::capture) records what a closure queues on a stream, without running it, and
//! makes an executable graph of it. [`CudaGraph::replay`] queues the whole list at once. When memory has moved,
//! [`CudaGraph::rebind`] changes the addresses in the nodes of generated kernels; [`CudaGraph::recapture`] records anew
//! and updates the executable graph in place, which also serves nodes of libraries.
//!
//! While a stream is captured, nothing else may be queued on it, no event recorded, and host memory that is not pinned
//! cannot be copied.

use std::sync::Arc;

use millstream_core::backend::{BackendStream, Captured, Moved};
use millstream_core::{Error, Result};
use smallvec::SmallVec;

use crate::context::Context;
use crate::stream::{CudaStream, Recorded, with_params};
use crate::sys::driver::{self as sys, GraphUpdateInfo, KernelNodeParams, number};

/// A list of launches that runs as one. It keeps its kernels loaded, but not the memory that they work on. Dropping it does
/// not disturb a replay that is still running.
pub struct CudaGraph {
    context: Arc<Context>,
    exec: sys::GraphExec,
    /// What it was made from: the handles of its nodes name nodes of the executable graph.
    template: sys::Graph,
    nodes: usize,
    launches: Vec<Recorded>,
}

// SAFETY: the handles are numbers for the driver, which takes them from any thread; changes need `&mut self`.
unsafe impl Send for CudaGraph {}
// SAFETY: as above; `replay` may be called from several threads, and the driver runs one replay after the other.
unsafe impl Sync for CudaGraph {}

/// A captured graph before it can run, destroyed with this.
struct Template<'a> {
    context: &'a Context,
    raw: sys::Graph,
}

impl Template<'_> {
    /// The graph ready to run, and its number of nodes.
    fn instantiate(&self) -> Result<(sys::GraphExec, usize)> {
        let (driver, context) = (self.context.driver, self.context);
        let (mut exec, mut nodes) = (sys::GraphExec::NULL, 0usize);
        // SAFETY: the driver writes a number and a handle.
        unsafe {
            let status = (driver.graph_nodes)(self.raw, std::ptr::null_mut(), &mut nodes);
            context.check(status, "counting a graph's nodes")?;
            let status = (driver.graph_instantiate)(&mut exec, self.raw, 0);
            context.check(status, "making a graph ready to run")?;
        }
        Ok((exec, nodes))
    }

    /// The handle, for whoever destroys it.
    fn into_raw(mut self) -> sys::Graph {
        std::mem::replace(&mut self.raw, sys::Graph::NULL)
    }
}

impl Drop for Template<'_> {
    fn drop(&mut self) {
        if self.raw != sys::Graph::NULL && self.context.loss().is_none() {
            // SAFETY: nobody else has the handle.
            unsafe { (self.context.driver.graph_destroy)(self.raw) };
        }
    }
}

/// Records what `work` queues on the stream.
fn record<'a>(stream: &'a CudaStream, work: impl FnOnce() -> Result<()>) -> Result<(Template<'a>, Vec<Recorded>)> {
    let context = stream.context();
    context.enter()?;
    if !stream.begin_notes() {
        return Err(Error::launch("this stream is being captured already"));
    }
    // Relaxed: loading a kernel or taking memory meanwhile, on this thread or another, does not spoil the capture.
    // SAFETY: the stream lives.
    let status = unsafe { (context.driver.capture_begin)(stream.raw(), number::CAPTURE_RELAXED) };
    let begun = context.check(status, "beginning to capture a stream");
    let worked = begun.and_then(|()| work());
    let launches = stream.end_notes();
    let mut raw = sys::Graph::NULL;
    // The capture must end whatever happened inside.
    // SAFETY: the stream lives; the driver writes a handle.
    let ended = if status == 0 { unsafe { (context.driver.capture_end)(stream.raw(), &mut raw) } } else { 0 };
    let template = Template { context, raw };
    worked?;
    context.check(ended, "ending the capture of a stream")?;
    Ok((template, launches))
}

impl CudaGraph {
    /// Captures what `work` queues on the stream.
    pub(crate) fn capture(stream: &CudaStream, work: impl FnOnce() -> Result<()>) -> Result<CudaGraph> {
        let context = stream.context();
        let (template, launches) = record(stream, work)?;
        let (exec, nodes) = template.instantiate()?;
        Ok(CudaGraph { context: context.clone(), exec, template: template.into_raw(), nodes, launches })
    }

    /// How many nodes it has: launches, copies and what libraries queued.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// How many of them are generated kernels, whose addresses can be changed.
    pub fn launches(&self) -> usize {
        self.launches.len()
    }

    /// Queues the whole list on a stream of the same device.
    pub fn replay(&self, stream: &dyn BackendStream) -> Result<()> {
        let stream = CudaStream::of(stream)?;
        self.context.enter()?;
        // SAFETY: both handles live.
        let status = unsafe { (self.context.driver.graph_launch)(self.exec, stream.raw()) };
        self.context.check(status, "replaying a graph")
    }

    /// Changes addresses in the launches of generated kernels: every operand that began in moved memory begins at the same
    /// address of its new home. Gives the number of launches that changed. Replays queued before keep the old addresses.
    ///
    /// Launches by libraries keep their addresses: where a graph has such ([`CudaGraph::nodes`] is larger than
    /// [`CudaGraph::launches`]), use [`CudaGraph::recapture`].
    pub fn rebind(&mut self, moved: &[Moved]) -> Result<usize> {
        self.context.enter()?;
        let mut changed = 0;
        for i in 0..self.launches.len() {
            let Some(addresses) = moved_addresses(&self.launches[i].addresses, moved) else { continue };
            self.set(i, &addresses)?;
            self.launches[i].addresses = addresses;
            changed += 1;
        }
        Ok(changed)
    }

    fn set(&self, launch: usize, addresses: &[u64]) -> Result<()> {
        let recorded = &self.launches[launch];
        let status = with_params(addresses, &recorded.words, |params| {
            let node = KernelNodeParams {
                function: recorded.shape.function,
                grid: recorded.shape.grid,
                block: [recorded.shape.group, 1, 1],
                shared: 0,
                params,
                extra: std::ptr::null_mut(),
            };
            // SAFETY: the node is one of this graph's kernels with exactly these parameters; the driver copies them.
            unsafe { (self.context.driver.graph_set_kernel)(self.exec, recorded.node, &node) }
        });
        self.context.check(status, "changing a launch of a graph")
    }

    /// Records anew what `work` queues on the stream and lets this graph run that from now on. Cheap if the new list has the
    /// form of the old one (the same kernels in the same order); else the graph is made anew.
    pub fn recapture(&mut self, stream: &dyn BackendStream, work: impl FnOnce() -> Result<()>) -> Result<Recaptured> {
        let stream = CudaStream::of(stream)?;
        let context = self.context.clone();
        let (template, launches) = record(stream, work)?;
        if let Some(update) = context.driver.graph_update {
            let mut info =
                GraphUpdateInfo { result: 0, error_node: sys::GraphNode::NULL, error_from: sys::GraphNode::NULL };
            // SAFETY: both graphs live; the driver writes what became of it.
            let status = unsafe { update(self.exec, template.raw, &mut info) };
            if status == 0 {
                // Nodes are those of the first template still; only the addresses are new.
                if launches.len() == self.launches.len() {
                    for (old, new) in self.launches.iter_mut().zip(launches) {
                        *old = Recorded { node: old.node, ..new };
                    }
                }
                return Ok(Recaptured::Updated);
            }
            if crate::error::is_sticky(status) {
                return Err(context.failed(status, "updating a graph"));
            }
        }
        let (exec, nodes) = template.instantiate()?;
        self.destroy();
        (self.exec, self.nodes, self.launches) = (exec, nodes, launches);
        self.template = template.into_raw();
        Ok(Recaptured::Rebuilt)
    }

    /// Gives the driver's objects back.
    fn destroy(&mut self) {
        if self.context.loss().is_none() && self.context.enter().is_ok() {
            // SAFETY: nobody else has the handles; a replay that runs is finished by the driver first.
            unsafe {
                (self.context.driver.graph_exec_destroy)(self.exec);
                (self.context.driver.graph_destroy)(self.template);
            }
        }
    }
}

impl Captured for CudaGraph {
    fn replay(&self, stream: &dyn BackendStream) -> Result<()> {
        CudaGraph::replay(self, stream)
    }

    fn rebind(&mut self, moved: &[Moved]) -> Result<bool> {
        // The launches of a library cannot be given other addresses one by one.
        if self.nodes != self.launches.len() {
            return Ok(false);
        }
        CudaGraph::rebind(self, moved).map(|_| true)
    }

    fn recapture(&mut self, stream: &dyn BackendStream, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        CudaGraph::recapture(self, stream, work).map(|_| ())
    }
}

/// What became of a graph that was recorded anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recaptured {
    /// The executable graph took the new arguments.
    Updated,
    /// The list had another form: the executable graph is a new one.
    Rebuilt,
}

/// The addresses after a move; `None` where none of them changes.
fn moved_addresses(addresses: &[u64], moved: &[Moved]) -> Option<SmallVec<[u64; 8]>> {
    let mut changed = false;
    let new = addresses
        .iter()
        .map(|&address| {
            let inside = |m: &&Moved| address >= m.from && address - m.from < m.bytes.max(1) as u64;
            match moved.iter().find(inside) {
                Some(m) => {
                    changed |= m.from != m.to;
                    m.to + (address - m.from)
                }
                None => address,
            }
        })
        .collect();
    changed.then_some(new)
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        self.destroy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_memory_they_lie_in() {
        let moved = [Moved { from: 1000, bytes: 100, to: 5000 }, Moved { from: 2000, bytes: 8, to: 2000 }];
        let new = moved_addresses(&[1000, 1099, 1100, 2004, 0], &moved).unwrap();
        assert_eq!(&new[..], [5000, 5099, 1100, 2004, 0]);
        assert!(moved_addresses(&[2004, 1100], &moved).is_none());
        assert!(moved_addresses(&[], &moved).is_none());
    }
}
