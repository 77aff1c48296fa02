//! The packed GEMM of an operation: the way that computes every contraction.

use std::marker::PhantomData;
use std::sync::Arc;

use millstream_core::backend::Bindings;
use millstream_core::how::{Candidate, ContractSizes, Family, Schedule};
use millstream_core::{DType, Error, ErrorKind, Fault, Result, Storage};

use super::candidates::{FIXED, blocking, candidates};
use super::{Blocking, Gemm, GemmError, Isa, Output, PackSource, Packed, PackedLayout, Shape, Side, workspace_bytes};
use crate::backend::Machine;
use crate::contract::dispatch::{Extent, How, Sum};
use crate::contract::gemm_isa;
use crate::contract::operand::{Operand, packed};
use crate::contract::packing::Packing;
use crate::contract::way::{Parts, Ran, Way};

/// A matmul with its sizes, ready for any memory.
pub(in crate::contract) struct PackedWay<T> {
    shape: Shape,
    blocking: Blocking,
    workspace: usize,
    /// How it is computed several numbers at a time, where the machine and the dtypes allow.
    groups: Option<InGroups>,
    sum: PhantomData<fn() -> T>,
}

/// A matmul of several narrow numbers at a time.
struct InGroups {
    isa: Isa,
    /// What the operands are stored as.
    dtypes: [DType; 2],
    shape: Shape,
    blocking: Blocking,
}

/// Fewer multiply-adds than this, or so short a K, are not worth looking at the numbers first.
const LEAST_GROUPS: (usize, usize) = (32 * 32 * 32, 8);

impl InGroups {
    fn new<T: Sum>(machine: &Machine, shape: Shape, lhs: &Operand, rhs: &Operand) -> Option<InGroups> {
        let dtypes = [lhs.stored()?, rhs.stored()?];
        let isa = T::together(dtypes[0], dtypes[1], machine.isa)?;
        let Shape { m, n, k, .. } = shape;
        if m == 1 || n == 1 || k < LEAST_GROUPS.1 || m.saturating_mul(n).saturating_mul(k) < LEAST_GROUPS.0 {
            return None;
        }
        let shape = Shape { k: isa.packed_k(k), ..shape };
        let blocking = Blocking::for_caches::<T>(&machine.topology, isa, shape);
        Some(InGroups { isa, dtypes, shape, blocking: blocking.spread(shape, machine.workers.threads()) })
    }
}

impl<T: Sum> PackedWay<T> {
    /// The matmul of these operands by a family, cut as the schedule says.
    pub(in crate::contract) fn new(
        parts: &Parts,
        sizes: ContractSizes,
        family: &Family,
        schedule: &Schedule,
    ) -> PackedWay<T> {
        let (machine, threads) = (&parts.machine, parts.machine.workers.threads());
        let isa = gemm_isa(machine.isa);
        let shape = Shape { batch: sizes.batch, m: sizes.m, n: sizes.n, k: sizes.k };
        let blocking = blocking(&schedule.tile);
        let blocking = blocking.unwrap_or_else(|| Blocking::for_caches::<T>(&machine.topology, isa, shape));
        let blocking = if *family == FIXED { blocking } else { blocking.spread(shape, threads) };
        let groups = InGroups::new::<T>(machine, shape, &parts.lhs, &parts.rhs);
        let mut workspace = workspace_bytes::<T>(isa, shape, &blocking, parts.epilogue.holds(), threads);
        if let Some(p) = &groups {
            workspace = workspace.max(workspace_bytes::<T>(p.isa, p.shape, &p.blocking, false, threads));
        }
        PackedWay { shape, blocking, workspace, groups, sum: PhantomData }
    }

    /// The packed form of an operand that stays the same, if it is one.
    fn packed_once(
        &self,
        parts: &Parts,
        gemm: &Gemm<'_, T>,
        side: Side,
        bindings: &Bindings<'_>,
    ) -> Result<Option<(Arc<Storage>, PackedLayout)>> {
        let Shape { batch, m, n, .. } = gemm.shape;
        let (operand, other, source) = match side {
            Side::A => (&parts.lhs, &parts.rhs, gemm.a),
            Side::B => (&parts.rhs, &parts.lhs, gemm.b),
        };
        // Single rows and columns are multiplied by reading the other operand once, where it lies.
        if m <= 1 || n <= 1 || batch > 1 && !source.same_for_batch() {
            return Ok(None);
        }
        let layout = gemm.packed_layout(side);
        let other = if gemm.isa.together() == 4 { other.stored() } else { None };
        let form =
            operand.packed_once(bindings, source, (gemm.isa, side, other), (layout, 1), &parts.machine.workers)?;
        Ok(form.map(|f| (f, layout)))
    }

    /// Both operands in groups; `None` where the numbers are not fit for that.
    #[allow(clippy::type_complexity)]
    fn in_groups<'a>(
        &'a self,
        parts: &'a Parts,
        bindings: &'a Bindings<'_>,
    ) -> Result<Option<(&'a InGroups, Box<dyn PackSource<T> + 'a>, Box<dyn PackSource<T> + 'a>)>> {
        let Some(p) = &self.groups else { return Ok(None) };
        let Shape { batch, m, n, k } = self.shape;
        let extent = |rows| Extent { batch, rows, k_len: k, workers: &parts.machine.workers };
        let how = |side, other| How { isa: p.isa, side, other };
        let Some(a) = parts.lhs.grouped(bindings, how(Side::A, p.dtypes[1]), extent(m))? else { return Ok(None) };
        let Some(b) = parts.rhs.grouped(bindings, how(Side::B, p.dtypes[0]), extent(n))? else { return Ok(None) };
        Ok(Some((p, a, b)))
    }
}

impl<T: Sum> Way for PackedWay<T> {
    fn candidates(&self, packing: &Packing<'_>) -> Vec<Candidate> {
        candidates::<T>(packing)
    }

    fn workspace(&self) -> usize {
        self.workspace
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let grouped = self.in_groups(parts, bindings)?;
        let ran = match (&self.groups, &grouped) {
            (Some(_), None) => {
                Ran::Otherwise("narrow numbers were multiplied one at a time: odd addresses, or unfit values")
            }
            _ => Ran::Done,
        };
        let (isa, shape, blocking, a, b) = match grouped {
            Some((p, a, b)) => (p.isa, p.shape, p.blocking, a, b),
            None => {
                let (a, b) = (parts.lhs.source::<T>(bindings)?, parts.rhs.source::<T>(bindings)?);
                (gemm_isa(parts.machine.isa), self.shape, self.blocking, a, b)
            }
        };
        let sink;
        let out = match parts.epilogue.plain::<T>(bindings)? {
            Some(plain) => Output::Plain(plain),
            None => {
                sink = parts.epilogue.sink(bindings)?;
                Output::Sink(&sink)
            }
        };
        let mut gemm = Gemm { isa, shape, a: &*a, b: &*b, out, blocking };
        // Operands that stay the same are packed once.
        let form_a = self.packed_once(parts, &gemm, Side::A, bindings)?;
        let form_b = self.packed_once(parts, &gemm, Side::B, bindings)?;
        let packed_a = form_a.as_ref().and_then(|(form, layout)| Packed::new(packed::<T>(form, layout, 1)?, *layout));
        let packed_b = form_b.as_ref().and_then(|(form, layout)| Packed::new(packed::<T>(form, layout, 1)?, *layout));
        gemm.a = packed_a.as_ref().map_or(gemm.a, |p| p);
        gemm.b = packed_b.as_ref().map_or(gemm.b, |p| p);
        // Results at odd addresses, or in memory that their expression reads, cannot hold accumulators, and operands at odd addresses are not
        // read where they lie: more has to be packed at a time than the plan knew of.
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
        gemm.run(&parts.machine.workers, room)
            .map_err(|e: GemmError| Error::internal(e.to_string()).in_op("contract"))?;
        Ok(ran)
    }

    fn describe(&self) -> String {
        let Blocking { mr, nr, mc, nc, kc } = self.blocking;
        let groups = self.groups.as_ref().map_or(String::new(), |g| {
            let (Blocking { mr, nr, mc, nc, kc }, numbers) = (g.blocking, g.isa.together());
            let isa = g.isa;
            format!("{numbers} at a time by {isa:?}: registers {mr} x {nr}, tasks {mc} x {nc}; K {numbers} x {kc}\n")
        });
        format!("registers {mr} x {nr}, tasks {mc} x {nc}; K {kc}\n{groups}")
    }
}
