//! Contractions: matmuls, batched ones, tensor contractions and convolutions.
//!
//! There are several ways to compute one, a folder each: its kernel, and beside it what recognises the operations that it computes and states
//! their traffic. All answer one trait (`way`). The cost model chooses; the way that was chosen is the way that runs.
//!
//! - `packed`: both operands are packed through their access maps; every contraction in every dtype.
//! - `gemv`: a matrix times a vector or a few of them, read once.
//! - `small`: both operands are read in place, since L1 holds them.
//! - `dot`: narrow types, several numbers at a time.
//! - `direct`: one operand, a convolution's image or the rows of a matrix, is read in place.
//! - `columns`: the right operand is taken some columns at a time, in place.
//! - `depthwise`: filters that see one channel each, by vectors of pixels or of channels.
//! - `winograd`: fewer multiplications, where the accuracy allows it.
//!
//! The four groups of dimensions (batch, m, n, k) become the four sizes of a matmul. What all ways share: how operands are read (`operand`,
//! through `view` and `source`) and what becomes of finished accumulators (`epilogue`); expressions in both are computed strip by strip (`formula`),
//! those over accumulators on blocks in registers where they allow it (`blocks`). No operand is ever written out as a matrix of its own.

mod blocks;
mod cached;
mod columns;
mod depthwise;
mod direct;
mod dispatch;
mod dot;
mod epilogue;
mod formula;
pub(crate) mod gemv;
mod operand;
pub mod packed;
mod small;
mod source;
mod view;
mod way;
mod winograd;

use std::sync::{Arc, Mutex, PoisonError};

use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::how::{Candidate, ContractSizes, Family, Schedule, Variant};
use millstream_core::{Body, DType, Error, Op, Result};

use crate::backend::Machine;
use crate::simd::Isa;
use crate::stream::{CpuLaunch, Run, host_address};
use columns::ColumnsWay;
use depthwise::{Channels, Planes};
use direct::DirectWay;
use dispatch::AccElement;
use dot::DotWay;
use epilogue::Epilogue;
use gemv::{FewWay, GemvWay};
use operand::{Operand, SideDims};
use packed::PackedWay;
use small::SmallWay;
pub(crate) use view::reach;
use way::{Asked, Parts, Ran, Way};
use winograd::WinogradWay;

/// The GEMM's name for an instruction set.
pub(crate) fn gemm_isa(isa: Isa) -> packed::MicroKernel {
    match isa {
        Isa::Avx512 => packed::MicroKernel::Avx512,
        Isa::Avx2 => packed::MicroKernel::Avx2,
        Isa::Neon => packed::MicroKernel::Neon,
        Isa::Portable => packed::MicroKernel::Portable,
    }
}

/// The candidates for a contraction that is summed in `acc`. The first is the fixed choice, the second the packed GEMM with the same blocks; of
/// other equals, ways for fewer operations come first.
pub(crate) fn variants(op: &Op, acc: DType, machine: &Machine) -> Vec<Candidate> {
    struct Typed<'a>(&'a Asked<'a>);
    impl dispatch::Visit for Typed<'_> {
        type Output = Vec<Candidate>;
        fn visit<T: AccElement>(self) -> Vec<Candidate> {
            let mut list = packed::candidates::<T>(self.0);
            let special = FAMILIES.iter().filter_map(|family| way::<T>(family, self.0));
            let special: Vec<Candidate> = special.flat_map(|way| way.candidates(self.0)).collect();
            let at = list.len().min(2);
            list.splice(at..at, special);
            list
        }
    }
    // Ways are compared as one thread would go them.
    let Some(asked) = Asked::new(op, machine, 1) else { return Vec::new() };
    dispatch::visit(acc, Typed(&asked))
}

/// All families but those of the packed GEMM.
static FAMILIES: [Family; 11] = [
    gemv::FAMILY,
    gemv::FEW,
    small::FAMILY,
    dot::FAMILY,
    direct::FAMILY,
    columns::FAMILY,
    depthwise::FAMILY,
    depthwise::BUNDLES,
    depthwise::CHANNELS,
    winograd::LARGE,
    winograd::SMALL,
];

/// The way of one of [`FAMILIES`] to compute an operation, if it can.
fn way<T: AccElement>(family: &Family, asked: &Asked<'_>) -> Option<Box<dyn Way>> {
    fn boxed<W: Way>(way: Option<W>) -> Option<Box<dyn Way>> {
        way.map(|w| Box::new(w) as Box<dyn Way>)
    }
    match family {
        f if *f == gemv::FAMILY => boxed(GemvWay::<T>::recognise(asked)),
        f if *f == gemv::FEW => boxed(FewWay::<T>::recognise(asked)),
        f if *f == small::FAMILY => boxed(SmallWay::<T>::recognise(asked)),
        f if *f == dot::FAMILY => boxed(DotWay::<T>::recognise(asked)),
        f if *f == direct::FAMILY => boxed(DirectWay::recognise(asked)),
        f if *f == columns::FAMILY => boxed(ColumnsWay::recognise(asked)),
        f if *f == depthwise::FAMILY => boxed(Planes::recognise(asked)),
        f if *f == depthwise::BUNDLES => boxed(Planes::bundled(asked)),
        f if *f == depthwise::CHANNELS => boxed(Channels::recognise(asked)),
        f if *f == winograd::LARGE => boxed(WinogradWay::recognise(asked, 4)),
        f if *f == winograd::SMALL => boxed(WinogradWay::recognise(asked, 2)),
        _ => None,
    }
}

/// The kernel of all contractions with one key: it keeps the choice of blocks, all else depends on the sizes.
pub(crate) struct ContractKernel {
    machine: Arc<Machine>,
    variant: Variant,
    text: String,
}

impl ContractKernel {
    /// Compiles a contraction: finds out early whether every expression can be computed.
    pub(crate) fn new(machine: Arc<Machine>, op: &Op, variant: &Variant) -> Result<ContractKernel> {
        let mut kernel = ContractKernel { machine, variant: variant.clone(), text: String::new() };
        kernel.text = kernel.plan(op, &Schedule::default())?.1;
        Ok(kernel)
    }

    fn plan(&self, op: &Op, schedule: &Schedule) -> Result<(Arc<dyn Run>, String)> {
        struct Make<'a>(&'a ContractKernel, &'a Op, &'a Schedule);
        impl dispatch::Visit for Make<'_> {
            type Output = Result<(Arc<dyn Run>, String)>;
            fn visit<T: AccElement>(self) -> Self::Output {
                let made = ContractRun::new::<T>(self.0, self.1, self.2)?;
                let text = made.describe::<T>(&self.0.variant);
                Ok((Arc::new(made), text))
            }
        }
        let Body::Contract(c) = &op.body else {
            return Err(Error::internal(format!("a contraction's kernel was given a {}", op.name())));
        };
        dispatch::visit(c.acc, Make(self, op, schedule))
    }
}

impl Kernel for ContractKernel {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Arc<dyn Launch>> {
        Ok(Arc::new(CpuLaunch(self.plan(op, schedule)?.0)))
    }
}

/// A contraction with its sizes, ready for any memory.
struct ContractRun {
    parts: Parts,
    sizes: ContractSizes,
    /// The way that was chosen, if it is not the packed GEMM, which computes what the memory of a launch forbids it.
    way: Option<Box<dyn Way>>,
    packed: Box<dyn Way>,
    /// Why the last run went another way than was chosen.
    fallback: Mutex<Option<&'static str>>,
}

impl ContractRun {
    fn new<T: AccElement>(kernel: &ContractKernel, op: &Op, schedule: &Schedule) -> Result<ContractRun> {
        let machine = kernel.machine.clone();
        let Some(asked) = Asked::new(op, &machine, machine.workers.threads()) else {
            return Err(Error::internal(format!("a contraction's kernel was given a {}", op.name())));
        };
        let (c, sizes) = (asked.contract, asked.sizes);
        let side = |row| SideDims { batch: 0..c.m, row, k: c.k..op.dims.len() };
        let lhs = Operand::new::<T>(op, &c.lhs, c.acc, &side(c.m..c.n), &machine)?;
        let rhs = Operand::new::<T>(op, &c.rhs, c.acc, &side(c.n..c.k), &machine)?;
        let epilogue = Epilogue::new::<T>(op, c, machine.isa)?;
        let family = &kernel.variant.family;
        let refused = || Error::unsupported(format!("{family} kernels do not compute this contraction"));
        let way = match FAMILIES.contains(family) {
            true => Some(way::<T>(family, &asked).ok_or_else(refused)?),
            false => None,
        };
        let parts = Parts { machine: kernel.machine.clone(), lhs, rhs, epilogue };
        let packed = PackedWay::<T>::new(&parts, sizes, family, schedule);
        Ok(ContractRun { parts, sizes, way, packed: Box::new(packed), fallback: Mutex::default() })
    }

    fn describe<T: AccElement>(&self, variant: &Variant) -> String {
        let (ContractSizes { batch, m, n, k }, parts) = (self.sizes, &self.parts);
        format!(
            "{} kernel, {batch} times {m} x {n} x {k} in {}, {} threads\n{}left: {}\nright: {}\nresult: {}\n{}",
            variant.family,
            T::DTYPE,
            parts.machine.workers.threads(),
            self.packed.describe(),
            parts.lhs.describe(),
            parts.rhs.describe(),
            parts.epilogue.describe(),
            self.way.as_ref().map_or(String::new(), |w| w.describe()),
        )
    }
}

/// The launch's scratch memory.
fn room<'a>(bindings: &Bindings<'a>) -> Result<&'a mut [u8]> {
    Ok(match &bindings.workspace {
        // SAFETY: the dispatcher has checked that the workspace has these bytes from its offset on; it belongs to this
        // launch alone.
        Some(w) => unsafe {
            std::slice::from_raw_parts_mut(host_address(w.memory, w.offset)?, w.end.saturating_sub(w.offset))
        },
        None => &mut [],
    })
}

impl Run for ContractRun {
    fn workspace(&self) -> usize {
        // Where a way cannot read the memory, which is rare, the packed GEMM takes its own from the heap.
        self.way.as_ref().unwrap_or(&self.packed).workspace()
    }

    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let note = |reason| *self.fallback.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        if let Some(way) = &self.way {
            match way.run(&self.parts, bindings, room(bindings)?)? {
                Ran::Done => return Ok(()),
                Ran::Refused(reason) => note(reason),
            }
        }
        match self.packed.run(&self.parts, bindings, room(bindings)?)? {
            Ran::Done => Ok(()),
            Ran::Refused(reason) => Err(Error::internal(reason)),
        }
    }

    fn fallback(&self) -> Option<&'static str> {
        self.fallback.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
