//! Matmuls by cuBLASLt, as one more way to compute a contraction.
//!
//! The family `cublas` is offered where both operands are plain matrices: at most one batch, m, n and k dimension each, one
//! of the two strides being 1, f32, f64, or a half type summed in f32 (never tf32). If the epilogue is the sum itself,
//! perhaps rounded to the half type, cuBLASLt writes the output; else the accumulators go to scratch memory and a generated map
//! computes the epilogue from there.
//!
//! The library is loaded, and its handle made, when the first such kernel is prepared: that takes a tenth of a second or
//! more.

mod matrix;
mod plan;
mod split;

use std::sync::Arc;

use millstream_codegen::{Target, generate, variants};
use millstream_core::backend::{BackendStream, Binding, Bindings, Kernel, Launch};
use millstream_core::cache::KernelClass;
use millstream_core::how::{
    Arithmetic, Block, Candidate, CandidateRole, ContractSizes, DeviceProfile, Family, Overlap, Schedule, Tile,
    Traffic, Variant,
};
use millstream_core::{Error, Op, Result};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::compile::CompileOptions;
use crate::context::Context;
use crate::kernel::Generated;
use crate::stream::CudaStream;

pub(crate) use matrix::Matmul;
pub(crate) use plan::Library;
use plan::MatmulPlan;
use split::SplitEpilogue;

/// The family.
pub(crate) const FAMILY: Family = Family::new("cublas");

/// Fewer multiplications than this are not worth a call of a library.
const LEAST: usize = 4096;

/// The candidate for an operation, where cuBLASLt can compute it.
///
/// Its tile tells the cost model what the library does: groups of threads that hold 128 x 256 accumulators and 8 x 8 in each
/// thread, as its large kernels do. It has smaller ones as well and picks them where large ones would leave
/// multiprocessors idle, so the tile is the largest that still fills the device.
pub(crate) fn candidate(op: &Op, profile: &DeviceProfile) -> Option<Candidate> {
    let sizes = ContractSizes::of(op)?;
    if sizes.m.saturating_mul(sizes.n).saturating_mul(sizes.k).saturating_mul(sizes.batch) < LEAST {
        return None;
    }
    Matmul::of(op)?;
    let tasks = |m: usize, n: usize| sizes.batch * sizes.m.div_ceil(m) * sizes.n.div_ceil(n);
    let choices = [(128, 256), (128, 128), (64, 128), (64, 64), (32, 64), (32, 32)];
    let (m, n) = choices.into_iter().find(|&(m, n)| tasks(m, n) >= profile.units).unwrap_or((32, 32));
    let tile = Tile::new([Block { m: 8, n: 8, k: 1 }, Block { m, n, k: 32 }]);
    let (overlap, arithmetic) = (Overlap::Full, Arithmetic::Matrix);
    let traffic = Traffic { tile, overlap, arithmetic, ..Traffic::default() };
    Some(Candidate { role: CandidateRole::Library, ..Candidate::new(Variant::plain(FAMILY), traffic) })
}

/// The map that comes behind the matmul, where there is one.
pub(crate) fn epilogue(op: &Op) -> Result<Option<Op>> {
    match Matmul::of(op) {
        Some(matmul) => Ok(SplitEpilogue::of(op, &matmul)?.map(|split| split.op)),
        None => Ok(None),
    }
}

/// What kernels of this family share.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) library: Library,
    pub(crate) target: Target,
    pub(crate) profile: DeviceProfile,
    pub(crate) options: CompileOptions,
}

impl Shared {
    fn epilogue(&self, split: &SplitEpilogue, bytes: Option<&[u8]>) -> Result<Arc<Generated>> {
        let first = variants(&split.op, &self.target, &self.profile).into_iter().next();
        let variant = first.map(|c| c.variant).ok_or_else(|| Error::internal("there is no kernel for an epilogue"))?;
        let program = generate(&split.op, &variant, &self.target)?;
        let generated = match bytes {
            Some(bytes) => Generated::load(&self.context, program, &self.options, bytes)?,
            None => Generated::compile(&self.context, program, &self.options)?,
        };
        Ok(Arc::new(generated))
    }
}

/// A contraction through cuBLASLt.
pub(crate) struct CublasKernel {
    shared: Arc<Shared>,
    /// Epilogues by their own classes. Operations of one class may have epilogues of several, because a map joins
    /// dimensions that a contraction keeps separate; the first is the one that was compiled with the kernel.
    epilogues: Mutex<Vec<(KernelClass, Arc<Generated>)>>,
}

impl CublasKernel {
    /// Compiles what the operation needs, or takes it from bytes.
    pub(crate) fn new(shared: Arc<Shared>, op: &Op, bytes: Option<&[u8]>) -> Result<CublasKernel> {
        let matmul = Matmul::of(op).ok_or_else(not_a_matmul)?;
        let mut epilogues = Vec::new();
        if let Some(split) = SplitEpilogue::of(op, &matmul)? {
            epilogues.push((KernelClass::of(&split.op), shared.epilogue(&split, bytes)?));
        }
        Ok(CublasKernel { shared, epilogues: Mutex::new(epilogues) })
    }

    fn epilogue(&self, split: &SplitEpilogue) -> Result<Arc<Generated>> {
        let mut list = self.epilogues.lock();
        if let Some((_, generated)) = list.iter().find(|(class, _)| class.holds(&split.op)) {
            return Ok(generated.clone());
        }
        let generated = self.shared.epilogue(split, None)?;
        list.push((KernelClass::of(&split.op), generated.clone()));
        Ok(generated)
    }
}

fn not_a_matmul() -> Error {
    Error::internal("an operation that is no plain matmul was given to cuBLASLt")
}

impl Kernel for CublasKernel {
    fn bytes(&self) -> Option<Vec<u8>> {
        // A matmul without an epilogue of its own has nothing to keep.
        self.epilogues.lock().first().map(|(_, generated)| generated.bytes())
    }

    fn text(&self) -> String {
        let mut text = format!("// a matmul by {}\n", self.shared.library.describe());
        if let Some((_, generated)) = self.epilogues.lock().first() {
            text += "// then, from the accumulators in scratch memory:\n";
            text += &generated.text();
        }
        text
    }

    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        let matmul = Matmul::of(op).ok_or_else(not_a_matmul)?;
        let context = &self.shared.context;
        context.enter()?;
        let epilogue = match SplitEpilogue::of(op, &matmul)? {
            Some(split) => {
                let generated = self.epilogue(&split)?;
                Some(Epilogue { prepared: generated.prepare(&split.op, &Schedule::default())?, generated, split })
            }
            None => None,
        };
        let plan = MatmulPlan::new(self.shared.library.handle(context)?, &matmul)?;
        Ok(Arc::new(CublasLaunch { _shared: self.shared.clone(), matmul, plan, epilogue }))
    }
}

struct Epilogue {
    split: SplitEpilogue,
    generated: Arc<Generated>,
    prepared: millstream_codegen::Prepared,
}

/// A matmul with its sizes, descriptors and algorithms fixed.
struct CublasLaunch {
    _shared: Arc<Shared>,
    matmul: Matmul,
    plan: MatmulPlan,
    epilogue: Option<Epilogue>,
}

/// Parts of scratch memory begin at multiples of this.
const ALIGNMENT: usize = 256;

impl CublasLaunch {
    /// Bytes of the accumulators in scratch memory.
    fn accumulators(&self) -> usize {
        self.epilogue.as_ref().map_or(0, |e| e.split.bytes.next_multiple_of(ALIGNMENT))
    }
}

impl Launch for CublasLaunch {
    fn workspace(&self) -> usize {
        let map = self.epilogue.as_ref().map_or(0, |e| e.prepared.workspace().next_multiple_of(ALIGNMENT));
        match self.accumulators() + map + self.plan.workspace() {
            0 => 0,
            // The pool aligns blocks to less than the library wants.
            bytes => bytes + ALIGNMENT,
        }
    }

    fn run(&self, bindings: &Bindings<'_>, stream: &dyn BackendStream) -> Result<()> {
        let stream = CudaStream::of(stream)?;
        let context = stream.context();
        context.enter()?;
        let address = |b: &Binding<'_>| b.memory.address.wrapping_add(b.offset as u64);
        let operand = |list: &[Binding<'_>], i: usize, base: isize, size: usize| -> Result<u64> {
            let binding = list.get(i).ok_or_else(|| Error::internal("an operand of a matmul is missing"))?;
            Ok(address(binding).wrapping_add_signed((base * size as isize) as i64))
        };
        // Scratch memory: the accumulators, what the map needs, what the library needs.
        let scratch = bindings.workspace.map(|w| (w, address(&w).next_multiple_of(ALIGNMENT as u64)));
        let (p, size) = (&self.matmul, self.matmul.dtype.size());
        let lhs = operand(bindings.inputs, p.lhs, p.lhs_base, size)?;
        let rhs = operand(bindings.inputs, p.rhs, p.rhs_base, size)?;
        let missing = || Error::internal("a matmul was given no scratch memory");
        let Some(epilogue) = &self.epilogue else {
            let out = operand(bindings.outputs, 0, p.out_base, p.out_dtype.size())?;
            return self.plan.run(lhs, rhs, out, scratch.map_or(0, |(_, at)| at), stream);
        };
        let (binding, at) = scratch.ok_or_else(missing)?;
        let map_bytes = epilogue.prepared.workspace().next_multiple_of(ALIGNMENT);
        let map_at = at + self.accumulators() as u64;
        self.plan.run(lhs, rhs, at, map_at + map_bytes as u64, stream)?;
        let part = |from: u64, bytes: usize| {
            let offset = (from - binding.memory.address) as usize;
            Binding { memory: binding.memory, offset, start: offset, end: offset + bytes, pack_cache: None }
        };
        let mut inputs: SmallVec<[Binding<'_>; 8]> = SmallVec::new();
        inputs.push(part(at, epilogue.split.bytes));
        for &i in &epilogue.split.inputs {
            inputs
                .push(*bindings.inputs.get(i).ok_or_else(|| Error::internal("an operand of an epilogue is missing"))?);
        }
        let bindings = Bindings {
            inputs: &inputs,
            outputs: bindings.outputs,
            params: bindings.params,
            workspace: (map_bytes > 0).then(|| part(map_at, map_bytes)),
            note: None,
        };
        epilogue.generated.run(&epilogue.prepared, &bindings, stream)
    }
}

#[cfg(test)]
mod tests;
