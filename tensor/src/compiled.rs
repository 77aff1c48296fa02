//! Compiled functions: a graph that is built once and run with new values again and again.
//!
//! A call of a [`Compiled`] function builds no graph and compares no structure: it finds what it made for arguments of these
//! shapes, strides, dtypes and devices, binds memory, and runs the same plan, on the same path, that the operations
//! themselves would have found.

use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;

use millstream_core::what::{Dims, Strides};
use millstream_core::{DType, Device, Error, Layout, Result, Stream};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::graph::{Fusion, HostGroup, HostOutput, Input, Inputs, Kind, Node, volatile};
use crate::{Tensor, plan};

/// How many kinds of arguments a function remembers.
const MOST_TRACES: usize = 16;

thread_local! {
    /// Whether this thread is building the graph of a compiled function, so that nothing must be computed.
    static TRACING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is building the graph of a compiled function.
pub(crate) fn is_tracing() -> bool {
    TRACING.get()
}

/// Compiles a function of one tensor. See [`Compiled`].
///
/// ```
/// use millstream::{Tensor, compile};
/// let bias = Tensor::new([1.0f32, 9.0]);
/// let f = compile(|x| (x * 2.0 + &bias).sqrt());
/// let x = Tensor::new([4.0f32, 0.0]);
/// assert_eq!(f.call(&x)?.to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub fn compile<'f>(function: impl Fn(&Tensor) -> Tensor + Send + Sync + 'f) -> Compiled<'f, 1, 1> {
    compile_all(move |[x]: [&Tensor; 1]| [function(x)])
}

/// Compiles a function of several tensors that gives several. See [`Compiled`].
///
/// ```
/// use millstream::{Tensor, compile_all};
/// let f = compile_all(|[x, y]: [&Tensor; 2]| [x + y, x - y]);
/// let (x, y) = (Tensor::from_slice(&[4.0f32, 0.0]), Tensor::from_slice(&[1.0f32, 2.0]));
/// let [sum, difference] = f.call_all([&x, &y])?;
/// assert_eq!(sum.to_vec::<f32>()?, [5.0, 2.0]);
/// assert_eq!(difference.to_vec::<f32>()?, [3.0, -2.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub fn compile_all<'f, const N: usize, const M: usize>(
    function: impl Fn([&Tensor; N]) -> [Tensor; M] + Send + Sync + 'f,
) -> Compiled<'f, N, M> {
    Compiled(compile_many(move |inputs| {
        let inputs = inputs.try_into().map_err(|_| Error::internal("another number of arguments"))?;
        Ok(function(inputs).into())
    }))
}

/// Compiles a function whose numbers of arguments and results its calls decide, and which may fail by itself. See [`Compiled`].
///
/// ```
/// use millstream::{Tensor, compile_many};
/// let sum = compile_many(|list| Ok(vec![list.iter().copied().sum()]));
/// let x = Tensor::new([1.0f32, 2.0]);
/// assert_eq!(sum.call(&[&x, &x, &x])?[0].to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub fn compile_many<'f>(function: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f) -> CompiledMany<'f> {
    CompiledMany { function: Box::new(function), traces: RwLock::new(Vec::new()) }
}

/// A function of `N` tensors that gives `M`, whose graph is built once for each kind of arguments.
///
/// The first call with arguments of new shapes, strides, dtypes or devices calls the function with stand-ins that have no
/// values, and plans what it returns; the last 16 kinds are remembered. Later calls only run the plan. A call computes its
/// results: when it returns, they are there, or queued on a device that queues.
///
/// What the function does besides describing tensors happens only then. Numbers and tensors that it holds are those of that
/// time; what does not depend on the arguments, random numbers included, is computed once. A function that needs the value of
/// an argument (`item`, `nonzero`, a branch on a number) cannot be compiled: its call gives an error.
///
/// Arguments are never overwritten. Calls from several threads run at the same time.
pub struct Compiled<'f, const N: usize, const M: usize>(CompiledMany<'f>);

/// A compiled function whose numbers of arguments and results its calls decide. See [`Compiled`] and [`compile_many`].
pub struct CompiledMany<'f> {
    #[allow(clippy::type_complexity)]
    function: Box<dyn Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'f>,
    /// The latest first.
    traces: RwLock<Vec<Arc<Trace>>>,
}

/// What is the same for all arguments that share a graph.
#[derive(Clone, PartialEq)]
struct Signature {
    shape: Dims,
    strides: Strides,
    dtype: DType,
    device: Option<Device>,
}

impl Signature {
    fn of(tensor: &Tensor) -> Signature {
        Signature {
            shape: tensor.sizes().into(),
            strides: tensor.layout.strides().into(),
            dtype: tensor.dtype(),
            device: tensor.node.device.clone(),
        }
    }

    fn fits(&self, tensor: &Tensor) -> bool {
        let same_device = match (&self.device, &tensor.node.device) {
            (Some(a), Some(b)) => a.same(b),
            (None, None) => true,
            _ => false,
        };
        same_device
            && self.dtype == tensor.dtype()
            && &self.shape[..] == tensor.sizes()
            && &self.strides[..] == tensor.layout.strides()
    }
}

/// The graph for one kind of arguments.
struct Trace {
    signatures: Vec<Signature>,
    /// What stood for the arguments.
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// The plan, where one plan on one device computes all of it.
    ready: Option<plan::Ready>,
}

impl<const N: usize, const M: usize> Compiled<'_, N, M> {
    /// Calls the function.
    ///
    /// # Errors
    /// An error that an argument carries or the function makes, reading the value of an argument, and whatever can go wrong
    /// when tensors are computed.
    #[track_caller]
    pub fn call_all(&self, inputs: [&Tensor; N]) -> Result<[Tensor; M]> {
        let outputs = self.0.call(&inputs)?;
        outputs.try_into().map_err(|_| Error::internal("a compiled function lost a result"))
    }

    /// How many kinds of arguments are remembered.
    pub fn kinds(&self) -> usize {
        self.0.kinds()
    }
}

impl CompiledMany<'_> {
    /// Calls the function.
    ///
    /// # Errors
    /// As [`Compiled::call_all`].
    #[track_caller]
    pub fn call(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        for input in inputs {
            input.check()?;
        }
        // What the arguments wait for is no part of the function.
        if inputs.iter().any(|t| t.node.value().is_none()) {
            plan::evaluate(inputs, plan::Trigger::Call, None)?;
        }
        let trace = match self.find(inputs) {
            Some(trace) => trace,
            None => self.trace(inputs)?,
        };
        let outputs = trace.call(inputs, location, None)?.into_vec();
        if inputs.iter().any(|t| volatile::is_volatile(t)) {
            // Others may write there as soon as this call returns.
            volatile::finish(&outputs)?;
        }
        Ok(outputs)
    }

    /// Calls the function, as [`CompiledMany::call`] does, with its work queued on a stream of this device.
    pub(crate) fn queue(&self, inputs: &[Tensor], device: &Device, stream: &Stream) -> Result<SmallVec<[Tensor; 2]>> {
        let inputs: SmallVec<[&Tensor; 4]> = inputs.iter().collect();
        let trace = match self.find(&inputs) {
            Some(trace) => trace,
            None => self.trace(&inputs)?,
        };
        trace.call(&inputs, inputs.first().map_or(Location::caller(), |t| t.node.location), Some((device, stream)))
    }

    /// Stand-ins for what the function would give for arguments like these on a device, and the seconds that computing it should take.
    pub(crate) fn planned(&self, inputs: &[Tensor], device: &Device) -> Result<(SmallVec<[Tensor; 2]>, f64)> {
        let stand_in = |t: &Tensor| {
            let (shape, device) = (t.node.shape.clone(), Some(device.clone()));
            let node = Node::pending(Input.into(), shape, t.dtype(), device, Inputs::new(), t.node.location);
            Tensor { node, layout: t.layout.clone() }
        };
        let inputs: SmallVec<[Tensor; 4]> = inputs.iter().map(stand_in).collect();
        let inputs: SmallVec<[&Tensor; 4]> = inputs.iter().collect();
        let trace = match self.find(&inputs) {
            Some(trace) => trace,
            None => self.trace(&inputs)?,
        };
        let seconds = trace.ready.as_ref().map_or(0.0, plan::Ready::seconds);
        Ok((trace.outputs.iter().map(stand_in).collect(), seconds))
    }

    /// How many kinds of arguments are remembered.
    pub fn kinds(&self) -> usize {
        self.traces.read().len()
    }

    fn find(&self, inputs: &[&Tensor]) -> Option<Arc<Trace>> {
        let fits = |t: &Arc<Trace>| {
            t.signatures.len() == inputs.len() && t.signatures.iter().zip(inputs).all(|(s, i)| s.fits(i))
        };
        self.traces.read().iter().find(|t| fits(t)).cloned()
    }

    /// Builds the graph for arguments like these.
    fn trace(&self, inputs: &[&Tensor]) -> Result<Arc<Trace>> {
        let signatures = inputs.iter().map(|input| Signature::of(input)).collect();
        let stand_in = |input: &&Tensor| {
            let (shape, device) = (input.sizes().into(), input.node.device.clone());
            let node = Node::pending(Input.into(), shape, input.dtype(), device, Inputs::new(), input.node.location);
            Tensor { node, layout: input.layout.clone() }
        };
        let stand_ins: Vec<Tensor> = inputs.iter().map(stand_in).collect();
        let arguments: Vec<&Tensor> = stand_ins.iter().collect();
        let before = TRACING.replace(true);
        let restore = Restore(before);
        let outputs = (self.function)(&arguments);
        drop(restore);
        let outputs = outputs?;
        for output in &outputs {
            output.check()?;
        }
        fold_constants(&outputs, &stand_ins)?;
        let ready = plan::Ready::new(&outputs.iter().collect::<Vec<_>>(), &arguments)?;
        let trace = Arc::new(Trace { signatures, inputs: stand_ins, outputs, ready });
        let mut traces = self.traces.write();
        traces.insert(0, trace.clone());
        traces.truncate(MOST_TRACES);
        Ok(trace)
    }
}

impl Compiled<'_, 1, 1> {
    /// Calls the function.
    ///
    /// # Errors
    /// As [`Compiled::call_all`].
    #[track_caller]
    pub fn call(&self, x: &Tensor) -> Result<Tensor> {
        let [y] = self.call_all([x])?;
        Ok(y)
    }
}

impl std::fmt::Debug for CompiledMany<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompiledMany({} kinds of arguments)", self.kinds())
    }
}

impl<const N: usize, const M: usize> std::fmt::Debug for Compiled<'_, N, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compiled({N} -> {M}, {} kinds of arguments)", self.kinds())
    }
}

/// Sets the mark of the thread back, also after a panic in the function.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        TRACING.set(self.0);
    }
}

impl Trace {
    /// With a device and a stream of it, what that device computes is queued there.
    fn call(
        &self,
        inputs: &[&Tensor],
        location: &'static Location<'static>,
        on: Option<(&Device, &Stream)>,
    ) -> Result<SmallVec<[Tensor; 2]>> {
        let bind = Bind { stand_ins: &self.inputs, inputs };
        match &self.ready {
            Some(ready) if ready.is_current() => {
                let stand_ins: SmallVec<[&Tensor; 4]> = self.inputs.iter().collect();
                let fresh = ready.run(inputs, &stand_ins, location, on)?;
                let find = |t: &Tensor| match ready.number(&t.node) {
                    Some(n) => Ok(Tensor { node: fresh[n].clone(), layout: t.layout.clone() }),
                    None => bind.view(t),
                };
                self.outputs.iter().map(find).collect()
            }
            _ => {
                let built = bind.build(&self.outputs)?;
                plan::evaluate(&built.iter().collect::<Vec<_>>(), plan::Trigger::Call, None)?;
                Ok(built.into())
            }
        }
    }
}

/// Arguments in place of what stood for them.
struct Bind<'a> {
    stand_ins: &'a [Tensor],
    inputs: &'a [&'a Tensor],
}

impl Bind<'_> {
    /// A tensor that the function returned or read without computing anything: a view of an argument, or one that was there.
    fn view(&self, t: &Tensor) -> Result<Tensor> {
        match self.stand_ins.iter().position(|s| Arc::ptr_eq(&s.node, &t.node)) {
            Some(i) => {
                // The view was made of other memory.
                let moved = t.layout.offset() + self.inputs[i].layout.offset() - self.stand_ins[i].layout.offset();
                let layout = Layout::new(t.sizes(), t.layout.strides(), moved)?;
                Ok(Tensor { layout, node: self.inputs[i].node.clone() })
            }
            None => Ok(t.clone()),
        }
    }

    /// The graph again, over the arguments.
    fn build(&self, outputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut new: FxHashMap<*const Node, Arc<Node>> = FxHashMap::default();
        let mut groups: FxHashMap<*const HostGroup, Arc<HostGroup>> = FxHashMap::default();
        let mut members: FxHashMap<*const HostGroup, Vec<std::sync::Weak<Node>>> = FxHashMap::default();
        let is_leaf = |n: &Arc<Node>| n.value().is_some() || matches!(n.kind, Kind::Input(_));
        let mut stack: Vec<Arc<Node>> = outputs.iter().map(|t| t.node.clone()).collect();
        while let Some(node) = stack.pop() {
            if is_leaf(&node) || new.contains_key(&Arc::as_ptr(&node)) {
                continue;
            }
            let inputs: Vec<Tensor> = node.with_inputs(<[Tensor]>::to_vec);
            let missing: Vec<Arc<Node>> = inputs
                .iter()
                .map(|t| &t.node)
                .filter(|n| !is_leaf(n) && !new.contains_key(&Arc::as_ptr(n)))
                .cloned()
                .collect();
            if !missing.is_empty() {
                stack.push(node);
                stack.extend(missing);
                continue;
            }
            let over = |t: &Tensor| match new.get(&Arc::as_ptr(&t.node)) {
                Some(n) => Ok(Tensor { node: n.clone(), layout: t.layout.clone() }),
                None => self.view(t),
            };
            let inputs: Inputs = inputs.iter().map(over).collect::<Result<_>>()?;
            let kind = match &node.kind {
                Kind::Host(HostOutput { group, output }) => {
                    let again = || HostGroup { function: group.function.clone(), nodes: Default::default() };
                    let own = groups.entry(Arc::as_ptr(group)).or_insert_with(|| Arc::new(again()));
                    HostOutput { group: own.clone(), output: *output }.into()
                }
                other => other.clone(),
            };
            let copy = Node::pending(kind, node.shape.clone(), node.dtype, node.device.clone(), inputs, node.location);
            if let Some(group) = node.kind.host_group() {
                members.entry(Arc::as_ptr(group)).or_default().push(Arc::downgrade(&copy));
            }
            new.insert(Arc::as_ptr(&node), copy);
        }
        for (old, nodes) in members {
            if let Some(group) = groups.get(&old) {
                let _ = group.nodes.set(nodes);
            }
        }
        let result = |t: &Tensor| match new.get(&Arc::as_ptr(&t.node)) {
            Some(n) => Ok(Tensor { node: n.clone(), layout: t.layout.clone() }),
            None => self.view(t),
        };
        outputs.iter().map(result).collect()
    }
}

/// Computes what does not depend on the arguments, so that it is there for every call. Numbers and ranges stay as they are.
fn fold_constants(outputs: &[Tensor], stand_ins: &[Tensor]) -> Result<()> {
    let mut depends: FxHashMap<*const Node, bool> = FxHashMap::default();
    for t in stand_ins {
        depends.insert(Arc::as_ptr(&t.node), true);
    }
    let mut constant: Vec<Tensor> = Vec::new();
    let mut keep = |t: &Tensor| {
        if t.node.value().is_none() && !matches!(t.node.kind.fusion(), Fusion::Free) {
            constant.push(t.clone());
        }
    };
    let mut stack: Vec<Arc<Node>> = outputs.iter().map(|t| t.node.clone()).collect();
    while let Some(node) = stack.pop() {
        let at = Arc::as_ptr(&node);
        if depends.contains_key(&at) {
            continue;
        }
        let inputs: Vec<Tensor> =
            if node.value().is_some() { Vec::new() } else { node.with_inputs(<[Tensor]>::to_vec) };
        let missing: Vec<Arc<Node>> =
            inputs.iter().map(|t| t.node.clone()).filter(|n| !depends.contains_key(&Arc::as_ptr(n))).collect();
        if !missing.is_empty() {
            stack.push(node);
            stack.extend(missing);
            continue;
        }
        let is_constant = |t: &&Tensor| !depends[&Arc::as_ptr(&t.node)];
        let varies = inputs.iter().any(|t| !is_constant(&t));
        if varies {
            inputs.iter().filter(is_constant).for_each(&mut keep);
        }
        depends.insert(at, varies);
    }
    outputs.iter().filter(|t| !depends[&Arc::as_ptr(&t.node)]).for_each(&mut keep);
    plan::evaluate(&constant.iter().collect::<Vec<_>>(), plan::Trigger::Call, None)
}
