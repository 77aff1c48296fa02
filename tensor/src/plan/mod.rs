//! Plans: from the waiting graph to launches.
//!
//! A trigger (a read, `eval`, a graph that grew too large) captures the graph below the wanted tensors. Its structure is
//! looked up among the runtime's plans. On a miss it goes through the passes, in the order in which they stand here; no pass
//! knows a later one. The plan then runs: everything is allocated first, so that running out of memory leaves nothing half
//! done, and each step goes through its device's dispatcher.

// Pieces: what of a large graph is computed first, by plans of its own.
mod pieces;
// Capture: tensors → `Capture`, the structure and what it leaves out; and `Graph`, for planning.
mod capture;
// Rewrite: `Graph` → its forms: as it is, with attention as one operation, with channels last; in all of them, which images are matmuls
// of their own.
mod attention;
mod images;
mod layouts;
mod rewrite;
mod structure;
// Fuse: `Graph` → `Fused`, the groups that are computed together, or inside one another.
mod fuse;
mod inline;
// Lower: `Fused` → `Lowered`, operations that know no device.
mod lower;
// Place: each form → `Placed`, operations on devices (`Sites`), and copies between them; what is cheaper stored than inlined is.
mod place;
mod price;
mod sites;
// Choose: all `Placed` → `Chosen`, the cheapest form and the way to compute each operation.
mod choose;
// Resize: `Chosen` for one graph → that for one which differs in sizes, in place of the passes before.
mod resize;
// Memory: `Chosen` → `Plan`, steps that know where their operands lie.
mod arena;
mod memory;
// Run: `Plan` → values. Bound to the memory of one run, its steps are launched, or an instance in which they were captured.
mod bind;
mod instance;
mod run;
mod shortage;

// Who asks for plans: the device `auto`, compiled functions, and people.
mod auto;
mod explain;
mod ready;

use std::hash::Hasher;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use lru::LruCache;
use millstream_core::runtime::Attachment;
use millstream_core::{Buffer, Device, Error, ErrorKind, Idea, Record, RecordKind, Result, Stream};
use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHasher};
use smallvec::{SmallVec, smallvec};

use crate::Tensor;
use crate::graph::Key;
use bind::{Calls, Given, On};
use capture::{Capture, Graph, Planned, Unplanned};
use choose::Draft;
pub(crate) use explain::{explain, ways};
use instance::Runnable;
use memory::Plan;
pub(crate) use ready::Ready;
use resize::{Pattern, Resized};
use rewrite::{GraphForm, Rewritten};
use sites::{Site, Sites};

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
    /// What is assigned to a tensor reads the tensor.
    Assign,
    /// The shape of a result depends on the value.
    Shape,
    /// An operation reads memory to which others may write.
    Foreign,
}

/// How many structures a runtime keeps plans for.
const MOST_PLANS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// How many of them a runtime can plan in other sizes without planning from nothing; and of how many attentions it knows whether they pay.
const MOST_PATTERNS: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// Plans whose structures share a hash.
type Bucket = SmallVec<[Arc<Runnable>; 1]>;

/// The plans of a runtime, by the hash of their structure and devices. Those that were used last stay.
struct Plans {
    lru: Mutex<LruCache<u64, Bucket, FxBuildHasher>>,
    /// What was planned last for each structure whatever its sizes, by its hash.
    patterns: Mutex<LruCache<u64, Arc<Pattern>, FxBuildHasher>>,
    /// Whether attention pays as one operation, by the words of the part of a graph that is attention, and the device.
    attention: Mutex<LruCache<Key, bool, FxBuildHasher>>,
}

impl Default for Plans {
    fn default() -> Plans {
        Plans {
            lru: Mutex::new(LruCache::with_hasher(MOST_PLANS, FxBuildHasher)),
            patterns: Mutex::new(LruCache::with_hasher(MOST_PATTERNS, FxBuildHasher)),
            attention: Mutex::new(LruCache::with_hasher(MOST_PATTERNS, FxBuildHasher)),
        }
    }
}

impl Attachment for Plans {
    fn clear(&self) {
        let gone = std::mem::replace(&mut *self.lru.lock(), LruCache::with_hasher(MOST_PLANS, FxBuildHasher));
        // Captured instances give memory back: not under the lock.
        drop(gone);
        self.patterns.lock().clear();
        self.attention.lock().clear();
    }
}

impl Plans {
    fn get(&self, hash: u64, key: &[u64]) -> Option<Arc<Runnable>> {
        self.lru.lock().get(&hash)?.iter().find(|p| p.key[..] == *key).cloned()
    }

    fn put(&self, hash: u64, plan: Arc<Runnable>) {
        let mut lru = self.lru.lock();
        if let Some(bucket) = lru.get_mut(&hash) {
            // Another thread may have planned the same meanwhile.
            if !bucket.iter().any(|p| p.key == plan.key) {
                bucket.push(plan);
            }
            return;
        }
        let gone = lru.push(hash, smallvec![plan]);
        drop(lru);
        drop(gone);
    }

    /// Keeps what graphs of other sizes can be planned by.
    fn keep(&self, hash: u64, pattern: Option<Pattern>) {
        if let Some(pattern) = pattern {
            let gone = self.patterns.lock().push(hash, Arc::new(pattern));
            drop(gone);
        }
    }

    /// Forgets the plans that use a device which is lost.
    fn forget(&self, device: u64) {
        self.patterns.lock().clear();
        let mut lru = self.lru.lock();
        let uses = |b: &Bucket| b.iter().any(|p| p.devices.contains(&device));
        let hashes: Vec<u64> = lru.iter().filter(|(_, b)| uses(b)).map(|(h, _)| *h).collect();
        let gone: Vec<Bucket> = hashes.iter().filter_map(|h| lru.pop(h)).collect();
        drop(lru);
        drop(gone);
    }
}

/// Whether a plan was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Cached,
    /// Made from that of a graph that differs in sizes.
    Resized,
    Made,
}

/// Which ideas a device has, and which of the ways to compute an operation it takes. Plans made with others are plans of their own.
fn ideas(device: &Device) -> u64 {
    let ideas = Idea::ALL.iter().fold(0, |set, &i| set << 1 | u64::from(device.has(i)));
    ideas | (device.rank() as u64) << 48
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

/// Notes that a captured graph was computed, and in the profile, which of its operations were before.
fn note_computed(capture: &Capture, device: &Device, trigger: Trigger) {
    let profiler = device.profiler();
    if profiler.is_on() {
        for name in capture.computed_again() {
            profiler.record(Record {
                name: name.into(),
                kind: RecordKind::Again,
                device: device.name().into(),
                note: format!("{trigger:?}"),
                ..Record::at(profiler, Instant::now())
            });
        }
    }
    capture.note_computed();
}

fn hash(words: impl Iterator<Item = u64>) -> u64 {
    let mut hasher = FxHasher::default();
    words.for_each(|word| hasher.write_u64(word));
    hasher.finish()
}

/// The plan for a captured graph, evaluated for a device.
fn plan_for(capture: &mut Capture, device: &Device) -> Planned<(Arc<Runnable>, Found)> {
    capture.key.push(ideas(device) | device.id() << 8);
    let hash = hash(capture.key.iter().copied());
    let plans = device.attachment::<Plans>()?;
    if let Some(plan) = plans.get(hash, &capture.key) {
        capture.key.pop();
        return Ok((plan, Found::Cached));
    }
    let made = make(capture, device, plans);
    // The same capture may be planned for another device.
    capture.key.pop();
    let (plan, found) = made?;
    let plan = Arc::new(Runnable::new(plan));
    plans.put(hash, plan.clone());
    Ok((plan, found))
}

/// Makes a plan: the captured graph through all passes.
fn make(capture: &Capture, device: &Device, plans: &Plans) -> Planned<(Plan, Found)> {
    let mut graph = capture.graph()?;
    let sites = Sites::new(device, &capture.others);
    for node in graph.nodes.iter_mut().filter(|n| n.device > 0) {
        node.device = sites.find(&capture.others[node.device - 1]);
    }
    let own = [ideas(device), device.id()];
    let mut pays = |mut part: Key, forms: &dyn Fn() -> Result<[(Rewritten, Graph); 2]>| {
        part.extend(own);
        if let Some(pays) = plans.attention.lock().get(&part) {
            return Ok(*pays);
        }
        let pays = choose::compare(drafts(forms()?, &sites)?)? == GraphForm::Attention;
        plans.attention.lock().put(part, pays);
        Ok(pays)
    };
    let mut forms = rewrite::rewrite(graph, &sites.devices, &mut pays)?;
    // A graph with one form on one device may be another one's in other sizes.
    let structure = match &forms[..] {
        [(_, graph)] if sites.devices.len() == 1 => resize::structure(graph),
        _ => None,
    };
    let place = structure.as_ref().map(|s| hash(s.iter().copied().chain(own)));
    let pattern = place.and_then(|place| plans.patterns.lock().get(&place).cloned());
    if let (Some(structure), Some(place), Some(pattern)) = (&structure, place, pattern)
        && let Some((form, graph)) = forms.pop()
    {
        match pattern.resized(structure, form, graph, &sites)? {
            Resized::Chosen(chosen, is_new) => {
                memory::compile(&chosen, |task| is_new[task])?;
                let plan = memory::lay(&chosen, capture)?;
                plans.keep(place, Pattern::of(structure.clone(), chosen));
                return Ok((plan, Found::Resized));
            }
            Resized::Not(form, graph) => forms.push((form, graph)),
        }
    }
    let drafts = drafts(forms, &sites)?;
    let single = drafts.len() == 1;
    let chosen = choose::choose(drafts)?;
    memory::compile(&chosen, |_| true)?;
    let plan = memory::lay(&chosen, capture)?;
    if let (Some(structure), Some(place), true) = (structure, place, single) {
        plans.keep(place, Pattern::of(structure, chosen));
    }
    Ok((plan, Found::Made))
}

/// Places the forms of a graph.
fn drafts(forms: impl IntoIterator<Item = (Rewritten, Graph)>, sites: &Sites) -> Result<Vec<Draft>> {
    let mut drafts = Vec::new();
    for (form, graph) in forms {
        // A contraction that stores several values saves a pass over one of them; not all ways to compute one can.
        let mut own = sites.clone();
        let placed = place::place(graph.clone(), &mut own, usize::MAX)?;
        if placed.stores_several() {
            let mut own = sites.clone();
            drafts.push((form.clone(), place::place(graph, &mut own, 1)?, own));
        }
        drafts.push((form, placed, own));
    }
    Ok(drafts)
}

/// Runs a plan on its devices: the one for which the graph is evaluated, the others that its tensors name, and the host.
fn execute(plan: &Runnable, given: &Given<'_>, main: &Device, others: &[Device], stream: &Stream) -> Result<()> {
    if plan.sites.len() == 1 {
        let devices = std::slice::from_ref(main);
        return noticed(run::run(plan, given, On { devices, stream }), devices);
    }
    let device = |site: &Site| match *site {
        Site::Main => main.clone(),
        Site::Other(i) => others[i].clone(),
        Site::Host => main.host(),
    };
    let devices: SmallVec<[Device; 4]> = plan.sites.iter().map(device).collect();
    let profiler = main.profiler();
    if profiler.is_on() {
        for refusal in &plan.refusals {
            profiler.record(Record {
                name: refusal.name.as_str().into(),
                kind: RecordKind::Placed,
                device: main.host().name().into(),
                note: format!("not on {}: {}", devices[refusal.device].name(), refusal.reason),
                ..Record::at(profiler, Instant::now())
            });
        }
    }
    noticed(run::run(plan, given, On { devices: &devices, stream }), &devices)
}

/// Passes a result on; the plans of a device that turned out to be lost are forgotten.
fn noticed<R>(result: Result<R>, devices: &[Device]) -> Result<R> {
    if let Err(error) = &result
        && error.kind() == ErrorKind::DeviceLost
    {
        for device in devices.iter().filter(|d| d.is_lost()) {
            device.attachment::<Plans>()?.forget(device.id());
        }
    }
    result
}

/// Computes tensors that a new node needs; all that building a graph may ask of the planner.
pub(crate) fn trigger(tensors: &[&Tensor], why: Trigger) -> Result<()> {
    evaluate(tensors, why, None)
}

/// Computes tensors in one plan, each on its device. With a stream, which is one of the first one's device, the work of that
/// device is queued there; without, it is complete on return.
pub(crate) fn evaluate(tensors: &[&Tensor], trigger: Trigger, stream: Option<&Stream>) -> Result<()> {
    let mut waiting: SmallVec<[&Tensor; 2]> = SmallVec::new();
    for &tensor in tensors {
        match tensor.node.value() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.clone()),
            None => waiting.push(tensor),
        }
    }
    let Some(&first) = waiting.first() else { return Ok(()) };
    let fallback;
    let device = match main_device(&waiting) {
        Some(device) => device,
        None => {
            fallback = first.device()?;
            &fallback
        }
    };
    let compute = || evaluate_on(&waiting, device, trigger, stream);
    let outcome = match AROUND.get() {
        None => compute(),
        Some(around) => {
            let mut outcome = Ok(());
            around(&mut || outcome = compute());
            outcome
        }
    };
    outcome.map_err(|e| device.errors().note(e.at(first.node.location)))
}

/// See [`around_evaluation`].
static AROUND: OnceLock<fn(&mut dyn FnMut())> = OnceLock::new();

/// Has every computation of waiting tensors run inside a function, on the thread that asks for it. The function calls what it gets
/// exactly once. An interpreter lets other threads run there. The first function counts; whether this is the first is returned.
pub fn around_evaluation(around: fn(&mut dyn FnMut())) -> bool {
    AROUND.set(around).is_ok()
}

/// The device for which tensors are evaluated: the first that one names; where one leaves the choice open, that.
fn main_device<'a>(tensors: &[&'a Tensor]) -> Option<&'a Device> {
    let mut named = tensors.iter().filter_map(|t| t.node.device.as_ref());
    let first = named.next()?;
    match first.candidates().is_empty() {
        true => Some(named.find(|d| !d.candidates().is_empty()).unwrap_or(first)),
        false => Some(first),
    }
}

fn evaluate_on(tensors: &[&Tensor], device: &Device, trigger: Trigger, stream: Option<&Stream>) -> Result<()> {
    // The device `auto` places what it sees at once.
    if device.candidates().is_empty() {
        for piece in pieces::pieces(tensors)? {
            let tensors: SmallVec<[&Tensor; 4]> = piece.iter().collect();
            evaluate_whole(&tensors, device, trigger, stream)?;
        }
    }
    evaluate_whole(tensors, device, trigger, stream)
}

/// The same by one plan.
fn evaluate_whole(tensors: &[&Tensor], device: &Device, trigger: Trigger, stream: Option<&Stream>) -> Result<()> {
    let mut capture = Capture::new();
    match attempt(&mut capture, tensors, device, trigger, stream) {
        // What the program holds has no room beside what it wants: it is computed when it is read.
        Err(error) if error.kind() == ErrorKind::OutOfMemory && capture.keeps => {
            capture.keeping = false;
            capture.clear();
            attempt(&mut capture, tensors, device, trigger, stream)
        }
        outcome => outcome,
    }
}

fn attempt(
    capture: &mut Capture,
    tensors: &[&Tensor],
    device: &Device,
    trigger: Trigger,
    stream: Option<&Stream>,
) -> Result<()> {
    let started = device.profiler().is_on().then(Instant::now);
    if !device.candidates().is_empty() {
        return again(capture, tensors, device, |capture| auto::run(capture, device, trigger)).map(|_| ());
    }
    let Some((plan, found)) = planned(capture, tensors, device)? else { return Ok(()) };
    let ran = execute(&plan, &given(capture, &plan), device, &capture.others, stream.unwrap_or(device.stream()));
    shortage::explained(ran, capture, &plan, device)?;
    if let Some(started) = started {
        record(device, started, trigger, found, &plan);
    }
    note_computed(capture, device, trigger);
    Ok(())
}

/// Captures the graph below tensors and plans it; `None` if they are there meanwhile.
fn planned(capture: &mut Capture, tensors: &[&Tensor], device: &Device) -> Result<Option<(Arc<Runnable>, Found)>> {
    again(capture, tensors, device, |capture| plan_for(capture, device))
}

/// Captures the graph below tensors and uses it; again as long as other threads compute part of it meanwhile. Each time
/// somebody got a value, or failed to, so that it ends. `None` if the tensors are there meanwhile.
fn again<R>(
    capture: &mut Capture,
    tensors: &[&Tensor],
    device: &Device,
    mut used: impl FnMut(&mut Capture) -> Planned<R>,
) -> Result<Option<R>> {
    loop {
        let outcome = capture.walk(tensors, device).and_then(|()| match capture.outputs.is_empty() {
            true => Ok(None),
            false => used(capture).map(Some),
        });
        match outcome {
            Ok(result) => return Ok(result),
            Err(Unplanned::Failed(error)) => return Err(error),
            Err(Unplanned::Raced) => capture.clear(),
            Err(Unplanned::Claimed(over)) => {
                // Whoever waits claims nothing, so that nobody waits for one that waits.
                capture.clear();
                over.wait()?;
            }
        }
    }
}

/// What a run of a plan for a captured graph needs.
fn given<'a>(capture: &'a Capture, plan: &Plan) -> Given<'a> {
    let results = plan.outputs.iter().map(|o| &capture.nodes[o.node]).collect();
    let calls = Calls::Nodes(&capture.nodes);
    Given { leaves: &capture.leaves, edges: &capture.edges, params: &capture.params, results, calls }
}

/// The buffer of a tensor's node, computed if need be.
pub(crate) fn value(tensor: &Tensor, stream: Option<&Stream>) -> Result<Buffer> {
    evaluate(&[tensor], Trigger::Read, stream)?;
    match tensor.node.value() {
        Some(value) => value.clone(),
        None => Err(Error::internal("an evaluated tensor has no value")),
    }
}
