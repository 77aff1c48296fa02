//! Contractions: matrix products, batched ones, tensor contractions and convolutions, all on the packed product of
//! [`crate::gemm`].
//!
//! The four groups of dimensions (batch, m, n, k) become the four sizes of a product. What differs is how operands are
//! read ([`operand`], through [`view`] and [`source`]) and what becomes of finished sums ([`epilogue`]); expressions in
//! both are computed strip by strip ([`formula`]), those over sums on blocks in registers where they allow it ([`blocks`]). No operand is ever written out as a matrix of its own.

mod across;
mod apart;
mod blocks;
mod dispatch;
mod epilogue;
mod fewer;
mod formula;
mod in_place;
mod operand;
mod source;
mod variants;
mod view;

use std::marker::PhantomData;
use std::sync::Arc;

use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::how::{ContractSizes, Schedule, Variant};
use millstream_core::what::Windows;
use millstream_core::{Body, DType, Error, ErrorKind, Fault, Op, Result, Storage};

use crate::backend::Machine;
use crate::gemm::{self, Blocking, Gemm, GemmError, Output, PackSource, Packed, PackedLayout, Shape, workspace_bytes};
use crate::simd::Isa;
use crate::stream::{CpuLaunch, Run, host_address};
use across::SideBySide;
use apart::Apart;
use dispatch::{Extent, How, Sum};
use epilogue::Epilogue;
use fewer::Fewer;
use in_place::InPlace;
use operand::{Operand, Side, packed};
pub(crate) use variants::variants;
pub(crate) use view::reach;

/// The product's name for an instruction set.
pub(crate) fn product_isa(isa: Isa) -> crate::gemm::Isa {
    match isa {
        Isa::Avx512 => crate::gemm::Isa::Avx512,
        Isa::Avx2 => crate::gemm::Isa::Avx2,
        Isa::Neon => crate::gemm::Isa::Neon,
        Isa::Portable => crate::gemm::Isa::Portable,
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
            fn visit<T: Sum>(self) -> Self::Output {
                let made = Contraction::<T>::new(self.0, self.1, self.2)?;
                let text = made.describe(&self.0.variant);
                Ok((Arc::new(made), text))
            }
        }
        let Body::Contract(c) = &op.body else {
            return Err(Error::internal(format!("a contraction's kernel was asked for a {}", op.name())));
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
struct Contraction<T> {
    machine: Arc<Machine>,
    shape: Shape,
    blocking: Blocking,
    lhs: Operand,
    rhs: Operand,
    epilogue: Epilogue,
    workspace: usize,
    /// How it is computed several numbers at a time, where the machine and the dtypes allow.
    groups: Option<InGroups>,
    /// How it is computed without packing one operand, if that was chosen.
    in_place: Option<InPlace>,
    /// How it is computed channel by channel, if that was chosen.
    apart: Option<Apart>,
    /// How it is computed by vectors of channels, if that was chosen.
    across: Option<SideBySide>,
    /// How it is computed with fewer multiplications, if that was chosen.
    fewer: Option<Fewer>,
    sum: PhantomData<T>,
}

/// A product of several narrow numbers at a time.
struct InGroups {
    isa: gemm::Isa,
    /// What the operands are stored as.
    dtypes: [DType; 2],
    shape: Shape,
    blocking: Blocking,
}

/// Fewer multiply-adds than this, or so short a depth, are not worth looking at the numbers first.
const LEAST_GROUPS: (usize, usize) = (32 * 32 * 32, 8);

impl InGroups {
    fn new<T: Sum>(machine: &Machine, shape: Shape, lhs: &Operand, rhs: &Operand) -> Option<InGroups> {
        let dtypes = [lhs.stored()?, rhs.stored()?];
        let isa = T::together(dtypes[0], dtypes[1], machine.isa)?;
        let Shape { m, n, k, .. } = shape;
        if m == 1 || n == 1 || k < LEAST_GROUPS.1 || m.saturating_mul(n).saturating_mul(k) < LEAST_GROUPS.0 {
            return None;
        }
        let shape = Shape { k: isa.depth(k), ..shape };
        let blocking = Blocking::for_caches::<T>(&machine.topology, isa, shape);
        Some(InGroups { isa, dtypes, shape, blocking: blocking.spread(shape, machine.workers.threads()) })
    }
}

impl<T: Sum> Contraction<T> {
    fn new(kernel: &ContractKernel, op: &Op, schedule: &Schedule) -> Result<Contraction<T>> {
        let (Body::Contract(c), Some(sizes)) = (&op.body, ContractSizes::of(op)) else {
            return Err(Error::internal(format!("a contraction's kernel was asked for a {}", op.name())));
        };
        let machine = kernel.machine.clone();
        let isa = product_isa(machine.isa);
        let shape = Shape { batch: sizes.batch, m: sizes.m, n: sizes.n, k: sizes.k };
        let family = &kernel.variant.family;
        let is_fixed = *family == variants::FIXED;
        let blocking = variants::blocking(&schedule.tile);
        let threads = machine.workers.threads();
        let blocking = blocking.unwrap_or_else(|| Blocking::for_caches::<T>(&machine.topology, isa, shape));
        let blocking = if is_fixed { blocking } else { blocking.spread(shape, threads) };
        let side = |row| Side { batch: 0..c.m, row, depth: c.k..op.dims.len() };
        let lhs = Operand::new::<T>(op, &c.lhs, c.acc, &side(c.m..c.n), machine.isa)?;
        let rhs = Operand::new::<T>(op, &c.rhs, c.acc, &side(c.n..c.k), machine.isa)?;
        let epilogue = Epilogue::new::<T>(op, c, machine.isa)?;
        let groups = InGroups::new::<T>(&machine, shape, &lhs, &rhs);
        let mut workspace = workspace_bytes::<T>(isa, shape, &blocking, epilogue.holds(), threads);
        if let Some(p) = &groups {
            workspace = workspace.max(workspace_bytes::<T>(p.isa, p.shape, &p.blocking, false, threads));
        }
        let readings = Windows::readings(op);
        let in_place = InPlace::of(family, op, &readings, (machine.isa, threads));
        if let Some(direct) = &in_place {
            // Memory that it cannot read so is rare: a product then takes more from the heap.
            workspace = direct.workspace();
        }
        let fewer = fewer::FAMILIES.into_iter().find(|(f, _)| f == family);
        let fewer = fewer.and_then(|(_, m)| Fewer::new(op, &readings, m, &machine));
        if let Some(fewer) = &fewer {
            workspace = workspace.max(fewer.workspace());
        }
        let apart = if *family == apart::FAMILY { Apart::new(op, &readings, machine.isa) } else { None };
        let across = if *family == across::FAMILY { SideBySide::new(op, &readings, machine.isa) } else { None };
        if let Some(across) = &across {
            workspace = workspace.max(across.workspace());
        }
        Ok(Contraction {
            machine,
            shape,
            blocking,
            lhs,
            rhs,
            epilogue,
            workspace,
            groups,
            in_place,
            apart,
            across,
            fewer,
            sum: PhantomData,
        })
    }

    fn describe(&self, variant: &Variant) -> String {
        let Shape { batch, m, n, k } = self.shape;
        let Blocking { mr, nr, mc, nc, kc } = self.blocking;
        format!(
            "{} product, {batch} times {m} x {n} x {k} in {}, {} threads\n\
             registers {mr} x {nr}, tasks {mc} x {nc}, depth {kc}\n\
             left: {}\nright: {}\nresult: {}\n{}{}{}{}{}",
            variant.family,
            T::DTYPE,
            self.machine.workers.threads(),
            self.lhs.describe(),
            self.rhs.describe(),
            self.epilogue.describe(),
            self.groups.as_ref().map_or(String::new(), |g| {
                let (Blocking { mr, nr, mc, nc, kc }, numbers) = (g.blocking, g.isa.together());
                let isa = g.isa;
                format!(
                    "{numbers} at a time by {isa:?}: registers {mr} x {nr}, tasks {mc} x {nc}, depth {numbers} x {kc}\n"
                )
            }),
            self.in_place.as_ref().map_or(String::new(), InPlace::describe),
            self.apart.as_ref().map_or(String::new(), Apart::describe),
            self.across.as_ref().map_or(String::new(), SideBySide::describe),
            self.fewer.as_ref().map_or(String::new(), Fewer::describe),
        )
    }

    /// The packed form of an operand that stays the same, if it is one.
    fn kept(
        &self,
        gemm: &Gemm<'_, T>,
        side: gemm::Side,
        bindings: &Bindings<'_>,
    ) -> Result<Option<(Arc<Storage>, PackedLayout)>> {
        let Shape { batch, m, n, .. } = gemm.shape;
        let (operand, other, source) = match side {
            gemm::Side::A => (&self.lhs, &self.rhs, gemm.a),
            gemm::Side::B => (&self.rhs, &self.lhs, gemm.b),
        };
        // Single rows and columns are multiplied by reading the other operand once, where it lies.
        if m <= 1 || n <= 1 || batch > 1 && !source.same_for_batch() {
            return Ok(None);
        }
        let layout = gemm.packed_layout(side);
        let other = if gemm.isa.together() == 4 { other.stored() } else { None };
        let form = operand.kept(bindings, source, (gemm.isa, side, other), (layout, 1), &self.machine.workers)?;
        Ok(form.map(|f| (f, layout)))
    }

    /// Both operands in groups; `None` where the numbers are not fit for that.
    #[allow(clippy::type_complexity)]
    fn in_groups<'a>(
        &'a self,
        bindings: &'a Bindings<'_>,
    ) -> Result<Option<(&'a InGroups, Box<dyn PackSource<T> + 'a>, Box<dyn PackSource<T> + 'a>)>> {
        let Some(p) = &self.groups else { return Ok(None) };
        let Shape { batch, m, n, k } = self.shape;
        let extent = |rows| Extent { batch, rows, depth: k, workers: &self.machine.workers };
        let how = |side, other| How { isa: p.isa, side, other };
        let Some(a) = self.lhs.grouped(bindings, how(gemm::Side::A, p.dtypes[1]), extent(m))? else { return Ok(None) };
        let Some(b) = self.rhs.grouped(bindings, how(gemm::Side::B, p.dtypes[0]), extent(n))? else { return Ok(None) };
        Ok(Some((p, a, b)))
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

impl<T: Sum> Run for Contraction<T> {
    fn workspace(&self) -> usize {
        self.workspace
    }

    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        if let Some(apart) = &self.apart
            && self.epilogue.with_output(bindings, |out| apart.run(&self.machine, bindings, out))?
        {
            return Ok(());
        }
        if let Some(across) = &self.across
            && across.run(&self.machine, bindings, room(bindings)?)?
        {
            return Ok(());
        }
        if let Some(fewer) = &self.fewer {
            let room = room(bindings)?;
            if self.epilogue.with_output(bindings, |out| fewer.run(&self.machine, bindings, out, room))? {
                return Ok(());
            }
        }
        if let Some(direct) = &self.in_place {
            let (room, operands) = (room(bindings)?, (&self.lhs, &self.rhs));
            if self.epilogue.with_output(bindings, |out| direct.run(&self.machine, bindings, operands, out, room))? {
                return Ok(());
            }
        }
        let (isa, shape, blocking, a, b) = match self.in_groups(bindings)? {
            Some((p, a, b)) => (p.isa, p.shape, p.blocking, a, b),
            None => {
                let (a, b) = (self.lhs.source::<T>(bindings)?, self.rhs.source::<T>(bindings)?);
                (product_isa(self.machine.isa), self.shape, self.blocking, a, b)
            }
        };
        let sink;
        let out = match self.epilogue.plain::<T>(bindings)? {
            Some(plain) => Output::Plain(plain),
            None => {
                sink = self.epilogue.sink(bindings)?;
                Output::Sink(&sink)
            }
        };
        let mut gemm = Gemm { isa, shape, a: &*a, b: &*b, out, blocking };
        // Operands that stay the same are packed once.
        let kept_a = self.kept(&gemm, gemm::Side::A, bindings)?;
        let kept_b = self.kept(&gemm, gemm::Side::B, bindings)?;
        let packed_a = kept_a.as_ref().and_then(|(form, layout)| Packed::new(packed::<T>(form, layout, 1)?, *layout));
        let packed_b = kept_b.as_ref().and_then(|(form, layout)| Packed::new(packed::<T>(form, layout, 1)?, *layout));
        gemm.a = packed_a.as_ref().map_or(gemm.a, |p| p);
        gemm.b = packed_b.as_ref().map_or(gemm.b, |p| p);
        let room = room(bindings)?;
        // Results at odd addresses, or in memory that their expression reads, cannot hold sums, and operands at odd addresses are not
        // read where they lie: more has to be packed at a time than the plan knew of.
        let needed = gemm.workspace(self.machine.workers.threads());
        let mut more = Vec::new();
        let room = if room.len() < needed {
            let fault = || Fault::OutOfMemory { device: "cpu".into(), bytes: needed, in_use: 0, reserved: 0 };
            more.try_reserve_exact(needed).map_err(|_| Error::new(ErrorKind::OutOfMemory, fault()))?;
            more.resize(needed, 0);
            &mut more
        } else {
            room
        };
        gemm.run(&self.machine.workers, room).map_err(|e: GemmError| Error::internal(e.to_string()).in_op("contract"))
    }
}
