//! Lists of launches that a simulated device records, and queues again in one call.

use std::sync::Arc;

use super::stream::SimStream;
use super::{Call, Sim, SimLaunch};
use crate::backend::{BackendStream, Binding, Bindings, Captured, Moved};
use crate::error::{Error, Result};
use crate::memory::RawMemory;
use crate::pack_cache::PackCache;
use crate::what::Scalar;

/// A launch with what it works on.
pub(super) struct Recorded {
    launch: SimLaunch,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    params: Vec<Scalar>,
    workspace: Option<Operand>,
}

struct Operand {
    memory: RawMemory,
    offset: usize,
    start: usize,
    end: usize,
    cache: Option<Arc<PackCache>>,
}

impl Operand {
    fn new(b: &Binding<'_>) -> Operand {
        Operand { memory: b.memory.clone(), offset: b.offset, start: b.start, end: b.end, cache: b.pack_cache.cloned() }
    }

    fn binding(&self) -> Binding<'_> {
        let Operand { memory, offset, start, end, cache } = self;
        Binding { memory, offset: *offset, start: *start, end: *end, pack_cache: cache.as_ref() }
    }
}

impl Recorded {
    pub fn new(launch: &SimLaunch, bindings: &Bindings<'_>) -> Recorded {
        Recorded {
            launch: launch.clone(),
            inputs: bindings.inputs.iter().map(Operand::new).collect(),
            outputs: bindings.outputs.iter().map(Operand::new).collect(),
            params: bindings.params.to_vec(),
            workspace: bindings.workspace.as_ref().map(Operand::new),
        }
    }

    fn queue(&self, stream: &dyn BackendStream) -> Result<()> {
        let inputs: Vec<_> = self.inputs.iter().map(Operand::binding).collect();
        let outputs: Vec<_> = self.outputs.iter().map(Operand::binding).collect();
        let workspace = self.workspace.as_ref().map(Operand::binding);
        self.launch.queue(
            &Bindings { inputs: &inputs, outputs: &outputs, params: &self.params, workspace, note: None },
            stream,
        )
    }
}

/// What [`crate::Backend::capture`] of a simulated device does.
pub(super) fn capture(
    sim: &Sim,
    stream: &dyn BackendStream,
    work: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Box<dyn Captured>>> {
    let Some(own) = stream.as_any().downcast_ref::<SimStream>() else { return Ok(None) };
    let list = record(sim, own, work)?;
    Ok(Some(Box::new(List { list, sim: sim.clone() })))
}

fn record(sim: &Sim, stream: &SimStream, work: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Recorded>> {
    sim.enter(Call::Capture, 0, true)?;
    *stream.recording.lock() = Some(Vec::new());
    let done = work();
    let list = stream.recording.lock().take();
    done?;
    list.ok_or_else(|| Error::internal("two captures on one stream"))
}

struct List {
    list: Vec<Recorded>,
    sim: Sim,
}

impl Captured for List {
    fn replay(&self, stream: &dyn BackendStream) -> Result<()> {
        if !self.sim.enter(Call::Replay, 0, true)? {
            return Ok(());
        }
        self.list.iter().try_for_each(|recorded| recorded.queue(stream))
    }

    fn rebind(&mut self, moved: &[Moved]) -> Result<bool> {
        self.sim.alive()?;
        Ok(moved.is_empty())
    }

    fn recapture(&mut self, stream: &dyn BackendStream, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let Some(own) = stream.as_any().downcast_ref::<SimStream>() else {
            return Err(Error::internal("another device's stream was given to sim"));
        };
        self.list = record(&self.sim, own, work)?;
        Ok(())
    }
}
