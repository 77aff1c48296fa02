//! The packed GEMM of an operation: the way that computes every contraction.

use std::marker::PhantomData;

use millstream_core::backend::Bindings;
use millstream_core::how::{Candidate, ContractSizes, Family, Schedule};
use millstream_core::{Error, ErrorKind, Fault, Result};

use super::candidates::{FIXED, blocking, candidates};
use super::{Blocking, Gemm, GemmError, MicroKernel, PackSource, Packed, PackedLayout, Side, workspace_bytes};
use crate::contract::cached::CachedForm;
use crate::contract::dispatch::AccElement;
use crate::contract::gemm_isa;
use crate::contract::way::{Asked, Parts, Ran, Way};

/// A matmul with its sizes, ready for any memory.
pub(in crate::contract) struct PackedWay<T> {
    shape: ContractSizes,
    blocking: Blocking,
    workspace: usize,
    sum: PhantomData<fn() -> T>,
}

impl<T: AccElement> PackedWay<T> {
    /// The matmul of these operands by a family, cut as the schedule says.
    pub(in crate::contract) fn new(
        parts: &Parts,
        shape: ContractSizes,
        family: &Family,
        schedule: &Schedule,
    ) -> PackedWay<T> {
        let (machine, threads) = (&parts.machine, parts.machine.workers.threads());
        let isa = gemm_isa(machine.isa);
        let blocking = blocking(&schedule.tile);
        let blocking = blocking.unwrap_or_else(|| Blocking::for_caches::<T>(&machine.topology, isa, shape));
        let blocking = if *family == FIXED { blocking } else { blocking.spread(shape, threads) };
        let workspace = workspace_bytes::<T>(isa, shape, &blocking, parts.epilogue.holds(), threads);
        PackedWay { shape, blocking, workspace, sum: PhantomData }
    }
}

impl<T: AccElement> Way for PackedWay<T> {
    fn candidates(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        candidates::<T>(asked)
    }

    fn workspace(&self) -> usize {
        self.workspace
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let (a, b) = (parts.lhs.source::<T>(bindings)?, parts.rhs.source::<T>(bindings)?);
        let how = (gemm_isa(parts.machine.isa), self.shape, self.blocking);
        execute_cached(parts, bindings, how, (&*a, &*b), room)?;
        Ok(Ran::Done)
    }

    fn describe(&self) -> String {
        let Blocking { mr, nr, mc, nc, kc } = self.blocking;
        format!("registers {mr} x {nr}, tasks {mc} x {nc}, K {kc}\n")
    }
}

/// How a matmul is computed: the instruction set, the size and the blocks.
pub(in crate::contract) type Executed = (MicroKernel, ContractSizes, Blocking);

/// Computes the matmul of these operands, with the epilogue's output.
pub(in crate::contract) fn execute<T: AccElement>(
    parts: &Parts,
    bindings: &Bindings<'_>,
    (isa, shape, blocking): Executed,
    (a, b): (&dyn PackSource<T>, &dyn PackSource<T>),
    room: &mut [u8],
) -> Result<()> {
    parts.epilogue.with_output(bindings, |out| launch(parts, &Gemm { isa, shape, a, b, out: *out, blocking }, room))
}

/// As [`execute`]; operands that stay the same are packed once, and come from the pack cache.
pub(in crate::contract) fn execute_cached<T: AccElement>(
    parts: &Parts,
    bindings: &Bindings<'_>,
    (isa, shape, blocking): Executed,
    (a, b): (&dyn PackSource<T>, &dyn PackSource<T>),
    room: &mut [u8],
) -> Result<()> {
    parts.epilogue.with_output(bindings, |out| {
        let mut gemm = Gemm { isa, shape, a, b, out: *out, blocking };
        let form_a = packed_once(parts, &gemm, Side::A, bindings)?;
        let form_b = packed_once(parts, &gemm, Side::B, bindings)?;
        let packed_a = form_a.as_ref().and_then(|(form, layout)| Packed::new(form.elements()?, *layout));
        let packed_b = form_b.as_ref().and_then(|(form, layout)| Packed::new(form.elements()?, *layout));
        gemm.a = packed_a.as_ref().map_or(gemm.a, |p| p);
        gemm.b = packed_b.as_ref().map_or(gemm.b, |p| p);
        launch(parts, &gemm, room)
    })
}

/// The packed form of an operand that stays the same, if it is one.
fn packed_once<T: AccElement>(
    parts: &Parts,
    gemm: &Gemm<'_, T>,
    side: Side,
    bindings: &Bindings<'_>,
) -> Result<Option<(CachedForm<T>, PackedLayout)>> {
    let ContractSizes { batch, m, n, .. } = gemm.shape;
    let (operand, other, source) = match side {
        Side::A => (&parts.lhs, &parts.rhs, gemm.a),
        Side::B => (&parts.rhs, &parts.lhs, gemm.b),
    };
    // For single rows and columns, packing would cost more than it saves.
    if m <= 1 || n <= 1 || batch > 1 && !source.same_for_batch() {
        return Ok(None);
    }
    let layout = gemm.packed_layout(side);
    let other = if gemm.isa.together() == 4 { other.stored() } else { None };
    let form = operand.packed_once(bindings, source, (gemm.isa, side, other), (layout, 1), &parts.machine.workers)?;
    Ok(form.map(|f| (f, layout)))
}

/// Computes it. Results at odd addresses, or in memory that their expression reads, cannot hold accumulators, and operands at odd addresses are
/// not read in place: then more is packed at a time than the plan knew of, into memory from the heap.
fn launch<T: AccElement>(parts: &Parts, gemm: &Gemm<'_, T>, room: &mut [u8]) -> Result<()> {
    let needed = gemm.workspace(parts.machine.workers.threads());
    let mut more = Vec::new();
    let room = if room.len() < needed {
        let fault = || Fault::OutOfMemory { device: "cpu".into(), bytes: needed, in_use: 0, reserved: 0 };
        more.try_reserve_exact(needed).map_err(|_| Error::new(ErrorKind::OutOfMemory, fault()))?;
        more.resize(needed, 0);
        &mut more
    } else {
        room
    };
    gemm.run(&parts.machine.workers, room).map_err(|e: GemmError| Error::internal(e.to_string()).in_op("contract"))
}
