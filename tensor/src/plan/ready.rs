//! A plan with everything else that is the same in all calls of a compiled function.

use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use millstream_core::{Device, Result, Scalar, Stream};
use smallvec::SmallVec;

use super::bind::{Calls, Given};
use super::capture::{Capture, NO_LEAF};
use super::instance::Runnable;
use super::memory::Step;
use super::{Found, Trigger, execute, ideas, planned, record};
use crate::Tensor;
use crate::graph::{Inputs, Kind, Leaf, Node};

/// Where a leaf of the graph comes from.
enum From {
    /// The argument of this number.
    Argument(usize),
    /// It was there when the function was compiled.
    Held(Arc<Node>),
}

/// The plan that computes all that a compiled function returns.
pub(crate) struct Ready {
    device: Device,
    /// The other devices that the graph's tensors name.
    others: Vec<Device>,
    ideas: u64,
    plan: Arc<Runnable>,
    leaves: Vec<From>,
    edges: Vec<(usize, usize)>,
    params: Vec<Scalar>,
    /// The nodes that the plan computes.
    results: Vec<Arc<Node>>,
    /// Where each captured node was called for.
    calls: Vec<&'static Location<'static>>,
}

impl Ready {
    /// Plans the graph below the outputs; `None` where there is nothing to plan, or where each call chooses its device.
    pub fn new(outputs: &[&Tensor], stand_ins: &[&Tensor]) -> Result<Option<Ready>> {
        let waits = |t: &&&Tensor| t.node.value().is_none() && !matches!(t.node.kind, Kind::Input(_));
        let pending: SmallVec<[&Tensor; 4]> = outputs.iter().filter(waits).copied().collect();
        let Some(first) = pending.first() else { return Ok(None) };
        let device = match super::main_device(&pending) {
            Some(device) => device.clone(),
            None => first.device()?,
        };
        if !device.candidates().is_empty() {
            return Ok(None);
        }
        let mut capture = Capture::new();
        capture.stand_ins = true;
        let Some((plan, _)) = planned(&mut capture, &pending, &device)? else { return Ok(None) };
        let from = |leaf: &Arc<Node>| match stand_ins.iter().position(|s| Arc::ptr_eq(&s.node, leaf)) {
            Some(i) => From::Argument(i),
            None => From::Held(leaf.clone()),
        };
        Ok(Some(Ready {
            ideas: ideas(&device),
            leaves: capture.leaves.iter().map(from).collect(),
            edges: capture.edges.to_vec(),
            params: capture.params.to_vec(),
            results: plan.outputs.iter().map(|o| capture.nodes[o.node].clone()).collect(),
            calls: capture.nodes.iter().map(|n| n.location).collect(),
            others: capture.others.to_vec(),
            device,
            plan,
        }))
    }

    /// Whether the device would still plan the same way.
    pub fn is_current(&self) -> bool {
        self.ideas == ideas(&self.device)
    }

    /// The number of a node among the results.
    pub fn number(&self, node: &Arc<Node>) -> Option<usize> {
        self.results.iter().position(|r| Arc::ptr_eq(r, node))
    }

    /// The seconds that a run should take.
    pub fn seconds(&self) -> f64 {
        self.plan.steps.iter().map(Step::seconds).sum()
    }

    /// Runs the plan with these arguments, which are there; gives a node for each result. Its work is queued on the given stream where
    /// that is one of its device, else on the device's own.
    pub fn run(
        &self,
        inputs: &[&Tensor],
        stand_ins: &[&Tensor],
        location: &'static Location<'static>,
        on: Option<(&Device, &Stream)>,
    ) -> Result<SmallVec<[Arc<Node>; 2]>> {
        let device = &self.device;
        let started = device.profiler().is_on().then(Instant::now);
        let leaf = |from: &From| match from {
            From::Argument(i) => inputs[*i].node.clone(),
            From::Held(node) => node.clone(),
        };
        let leaves: SmallVec<[Arc<Node>; 8]> = self.leaves.iter().map(leaf).collect();
        // Where an argument begins in its memory is no part of the graph.
        let edge = |&(leaf, offset): &(usize, usize)| match self.leaves.get(leaf) {
            Some(From::Argument(i)) if leaf != NO_LEAF => {
                (leaf, offset + inputs[*i].layout.offset() - stand_ins[*i].layout.offset())
            }
            _ => (leaf, offset),
        };
        let edges: SmallVec<[(usize, usize); 16]> = self.edges.iter().map(edge).collect();
        let fresh = |old: &Arc<Node>| {
            let (shape, device) = (old.shape.clone(), old.device.clone());
            Node::pending(Leaf.into(), shape, old.dtype, device, Inputs::new(), location)
        };
        let results: SmallVec<[Arc<Node>; 2]> = self.results.iter().map(fresh).collect();
        let (nodes, calls) = (results.iter().collect(), Calls::Listed(&self.calls));
        let given = Given { leaves: &leaves, edges: &edges, params: &self.params, results: nodes, calls };
        let stream = on.filter(|(d, _)| d.same(device)).map_or(device.stream(), |(_, stream)| stream);
        let outcome = execute(&self.plan, &given, device, &self.others, stream);
        drop(given);
        outcome.map_err(|error| device.errors().note(error.at(location)))?;
        if let Some(started) = started {
            record(device, started, Trigger::Call, Found::Cached, &self.plan);
        }
        Ok(results)
    }
}
