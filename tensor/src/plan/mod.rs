//! Plans: from the waiting graph to launches.
//!
//! A trigger (a read, `eval`, a graph that grew too large) captures the graph below the wanted tensors. Its structure is
//! looked up among the device's plans; on a miss it is fused, lowered, tiled by the cost model and given memory. The plan
//! then runs: everything is allocated first, so that running out of memory leaves nothing half done, and each step goes
//! through the device's dispatcher.

mod arena;
mod attention;
mod capture;
mod choose;
mod compose;
mod explain;
mod fuse;
mod instance;
mod layouts;
mod lower;
mod make;
mod ready;
mod run;

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Instant;

use millstream_core::runtime::Attachment;
use millstream_core::{Buffer, Device, Error, Idea, Record, RecordKind, Result, Stream};
use parking_lot::RwLock;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::Tensor;
use crate::graph::Node;
use capture::Capture;
pub(crate) use capture::is_whole;
pub(crate) use compose::compose;
pub(crate) use explain::explain;
use make::{Made, Plan, Refusal};
pub(crate) use ready::Ready;

/// Why a graph was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The program asked for it.
    Eval,
    /// The program read the value.
    Read,
    /// More operations were waiting, one upon the other, than may.
    Depth,
    /// More operations were waiting in all than may.
    Nodes,
    /// Waiting operations held more bytes that nobody else has than may be.
    Bytes,
    /// A compiled function was called.
    Call,
    /// The value is needed on another device.
    Device,
    /// What is assigned to a tensor reads the tensor.
    Assign,
    /// The shape of a result depends on the value.
    Shape,
    /// The graph is only explained.
    Explain,
}

/// How many plans a runtime keeps before it begins anew.
const MOST_PLANS: usize = 4096;

/// The plans of a runtime, by the hash of their structure and devices.
#[derive(Default)]
struct Plans {
    map: RwLock<FxHashMap<u64, SmallVec<[Planned; 1]>>>,
}

/// What planning a structure came to.
#[derive(Clone)]
enum Planned {
    Plan(Arc<Plan>),
    /// The device cannot compute one of the operations: it is placed on the host.
    Refused(Arc<Refusal>),
}

impl Planned {
    fn key(&self) -> &[u64] {
        match self {
            Planned::Plan(plan) => &plan.key,
            Planned::Refused(refusal) => &refusal.key,
        }
    }
}

impl Attachment for Plans {
    fn clear(&self) {
        self.map.write().clear();
    }
}

impl Plans {
    fn get(&self, hash: u64, key: &[u64]) -> Option<Planned> {
        self.map.read().get(&hash)?.iter().find(|p| p.key() == key).cloned()
    }

    fn put(&self, hash: u64, plan: Planned) {
        let mut map = self.map.write();
        if map.len() >= MOST_PLANS {
            map.clear();
        }
        map.entry(hash).or_default().push(plan);
    }
}

/// Whether a plan was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Cached,
    Made,
}

/// Which ideas a device has. Plans made with one switched off are plans of their own.
fn ideas(device: &Device) -> u64 {
    Idea::ALL.iter().fold(0, |set, &i| set << 1 | u64::from(device.has(i)))
}

/// Writes an evaluation into the profile.
fn record(device: &Device, started: Instant, trigger: Trigger, found: Found, plan: &Plan) {
    let profiler = device.profiler();
    profiler.record(Record {
        name: "evaluate".into(),
        kind: RecordKind::Evaluate,
        device: device.name().into(),
        seconds: started.elapsed().as_secs_f64(),
        note: format!("{trigger:?}, plan {found:?}, {} steps", plan.steps.len()),
        ..Record::at(profiler, started)
    });
}

/// The plan for a captured graph on a device.
fn plan_for(capture: &mut Capture, device: &Device) -> Result<(Planned, Found)> {
    capture.key.push(ideas(device) | device.id() << 8);
    let mut hasher = FxHasher::default();
    for &word in &capture.key {
        hasher.write_u64(word);
    }
    let hash = hasher.finish();
    let plans = device.attachment::<Plans>()?;
    if let Some(plan) = plans.get(hash, &capture.key) {
        capture.key.pop();
        return Ok((plan, Found::Cached));
    }
    let made = make::make(capture, device);
    // The same capture may be planned for another device.
    capture.key.pop();
    let plan = match made? {
        Made::Plan(plan) => Planned::Plan(Arc::new(plan)),
        Made::Refused(refusal) => Planned::Refused(Arc::new(refusal)),
    };
    plans.put(hash, plan.clone());
    Ok((plan, Found::Made))
}

/// Computes tensors, each on its device. With a stream, the work is queued there; without, it is complete on return.
pub(crate) fn evaluate(tensors: &[&Tensor], trigger: Trigger, stream: Option<&Stream>) -> Result<()> {
    let mut waiting: SmallVec<[&Tensor; 2]> = SmallVec::new();
    for &tensor in tensors {
        match tensor.node.value() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.clone()),
            None => waiting.push(tensor),
        }
    }
    while let Some(&first) = waiting.first() {
        let fallback;
        let device = match &first.node.device {
            Some(device) => device,
            None => {
                fallback = first.device()?;
                &fallback
            }
        };
        // Mostly there is one, or all are on one device.
        let elsewhere = |t: &Tensor| t.node.device.as_ref().is_some_and(|d| !d.same(device));
        let later: SmallVec<[&Tensor; 2]> = waiting.iter().copied().filter(|t| elsewhere(t)).collect();
        waiting.retain(|t| !elsewhere(t));
        if let Err(error) = evaluate_on(&waiting, device, trigger, stream, Whose::Own) {
            return Err(device.errors().note(error.at(first.node.location)));
        }
        waiting = later;
    }
    Ok(())
}

/// Which pending nodes a device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Its own; those of other devices are computed there first.
    Own,
    /// Also those of other devices, as the host does for what they cannot compute.
    All,
}

fn evaluate_on(
    tensors: &[&Tensor],
    device: &Device,
    trigger: Trigger,
    stream: Option<&Stream>,
    whose: Whose,
) -> Result<()> {
    let started = device.profiler().is_on().then(Instant::now);
    let mut races = 0;
    loop {
        let mut capture = Capture::new();
        if let Some(foreign) = capture.walk(tensors, device, whose)? {
            evaluate(&[&whole(&foreign)?], Trigger::Device, None)?;
            continue;
        }
        if capture.nodes.is_empty() {
            return Ok(());
        }
        if !device.candidates().is_empty() {
            // What only the host computes need not keep the rest from going where it is done the soonest.
            if let Some(refusal) = host_part(&capture) {
                place_on_host(&capture, &refusal, device, stream)?;
                continue;
            }
            match choose::run(&mut capture, device, trigger) {
                Err(e) if is_raced(&e) && races < 100 => {
                    races += 1;
                    continue;
                }
                other => return other,
            }
        }
        let (planned, found) = match plan_for(&mut capture, device) {
            // Another thread computed part of the graph between the walk and the planning: look again.
            Err(e) if is_raced(&e) && races < 100 => {
                races += 1;
                continue;
            }
            other => other?,
        };
        let plan = match planned {
            Planned::Plan(plan) => plan,
            Planned::Refused(refusal) => {
                place_on_host(&capture, &refusal, device, stream)?;
                continue;
            }
        };
        run::run(&plan, &capture.given(&plan), device, stream.unwrap_or(device.stream()))?;
        if let Some(started) = started {
            record(device, started, trigger, found, &plan);
        }
        return Ok(());
    }
}

/// Whether planning failed only because another thread computed part of the graph meanwhile.
fn is_raced(error: &Error) -> bool {
    error.fault().to_string() == capture::raced().fault().to_string()
}

/// A node seen whole.
fn whole(node: &Arc<Node>) -> Result<Tensor> {
    Ok(Tensor { node: node.clone(), layout: millstream_core::Layout::contiguous(&node.shape)? })
}

/// The first host function of a graph, as something that the device refuses; `None` where the graph is nothing else.
fn host_part(capture: &Capture) -> Option<Refusal> {
    let groups = |n: &Arc<Node>| n.kind.host_group().cloned();
    let group = capture.nodes.iter().find_map(groups)?;
    let mine = |n: &Arc<Node>| n.kind.is_output_of(&group);
    let writes: Vec<usize> = (0..capture.nodes.len()).filter(|&n| mine(&capture.nodes[n])).collect();
    let first = &capture.nodes[*writes.first()?];
    let number = |t: &Tensor| capture.nodes.iter().position(|n| Arc::ptr_eq(n, &t.node));
    let reads = first.with_inputs(|inputs| inputs.iter().filter_map(number).collect());
    let (name, reason) = (format!("host {}", group.function.name()), "computed on the host".to_string());
    Some(Refusal { key: SmallVec::new(), name, reason, reads, writes })
}

/// Computes on the host what the device refused, and on the device what that reads. Says so in the profile.
fn place_on_host(capture: &Capture, refusal: &Refusal, device: &Device, stream: Option<&Stream>) -> Result<()> {
    if device.is_host() {
        return Err(Error::unsupported(format!("{} on {}: {}", refusal.name, device.name(), refusal.reason)));
    }
    let tensors = |list: &[usize]| list.iter().map(|&n| whole(&capture.nodes[n])).collect::<Result<Vec<_>>>();
    let (reads, writes) = (tensors(&refusal.reads)?, tensors(&refusal.writes)?);
    if !reads.is_empty() {
        let reads: Vec<&Tensor> = reads.iter().collect();
        evaluate_on(&reads, device, Trigger::Device, stream, Whose::Own)?;
    }
    let host = device.host();
    let profiler = device.profiler();
    if profiler.is_on() {
        profiler.record(Record {
            name: refusal.name.as_str().into(),
            kind: RecordKind::Placed,
            device: host.name().into(),
            note: format!("not on {}: {}", device.name(), refusal.reason),
            ..Record::at(profiler, Instant::now())
        });
    }
    let writes: Vec<&Tensor> = writes.iter().collect();
    evaluate_on(&writes, &host, Trigger::Device, None, Whose::All)
}

/// The buffer of a tensor's node, computed if need be.
pub(crate) fn value(tensor: &Tensor, stream: Option<&Stream>) -> Result<Buffer> {
    evaluate(&[tensor], Trigger::Read, stream)?;
    match tensor.node.value() {
        Some(value) => value.clone(),
        None => Err(Error::internal("an evaluated tensor has no value")),
    }
}
