//! Contractions: matrix products, batched ones, tensor contractions and convolutions, all on the packed product of
//! [`crate::gemm`].
//!
//! The four groups of dimensions (batch, m, n, k) become the four sizes of a product. What differs is how operands are
//! read ([`operand`], through [`view`] and [`source`]) and what becomes of finished sums ([`epilogue`]); expressions in
//! both are computed strip by strip ([`formula`]). No operand is ever written out as a matrix of its own.

mod dispatch;
mod epilogue;
mod formula;
mod operand;
mod source;
mod variants;
mod view;

use std::marker::PhantomData;
use std::sync::Arc;

use millstream_core::backend::{Bindings, Kernel, Launch};
use millstream_core::how::{ContractSizes, Variant};
use millstream_core::{Body, Error, Op, Result};

use crate::backend::Machine;
use crate::gemm::{Blocking, Gemm, GemmError, Output, Shape, workspace_bytes};
use crate::simd::Isa;
use crate::stream::{CpuLaunch, Run, host_address};
use dispatch::Sum;
use epilogue::Epilogue;
use operand::{Operand, Side};
pub(crate) use variants::variants;

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
        kernel.text = kernel.plan(op)?.1;
        Ok(kernel)
    }

    fn plan(&self, op: &Op) -> Result<(Arc<dyn Run>, String)> {
        struct Make<'a>(&'a ContractKernel, &'a Op);
        impl dispatch::Visit for Make<'_> {
            type Output = Result<(Arc<dyn Run>, String)>;
            fn visit<T: Sum>(self) -> Self::Output {
                let made = Contraction::<T>::new(self.0, self.1)?;
                let text = made.describe(&self.0.variant);
                Ok((Arc::new(made), text))
            }
        }
        let Body::Contract(c) = &op.body else {
            return Err(Error::internal(format!("a contraction's kernel was asked for a {}", op.name())));
        };
        dispatch::visit(c.acc, Make(self, op))
    }
}

impl Kernel for ContractKernel {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn prepare(&self, op: &Op) -> Result<Arc<dyn Launch>> {
        Ok(Arc::new(CpuLaunch(self.plan(op)?.0)))
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
    sum: PhantomData<T>,
}

impl<T: Sum> Contraction<T> {
    fn new(kernel: &ContractKernel, op: &Op) -> Result<Contraction<T>> {
        let (Body::Contract(c), Some(sizes)) = (&op.body, ContractSizes::of(op)) else {
            return Err(Error::internal(format!("a contraction's kernel was asked for a {}", op.name())));
        };
        let machine = kernel.machine.clone();
        let isa = product_isa(machine.isa);
        let shape = Shape { batch: sizes.batch, m: sizes.m, n: sizes.n, k: sizes.k };
        let blocking = match kernel.variant.family {
            "packed" | "small" => variants::blocking(&kernel.variant.tile),
            _ => None,
        };
        let blocking = blocking.unwrap_or_else(|| Blocking::for_caches::<T>(&machine.topology, isa, shape));
        let side = |row| Side { batch: 0..c.m, row, depth: c.k..op.dims.len() };
        let lhs = Operand::new::<T>(op, &c.lhs, c.acc, &side(c.m..c.n), machine.isa)?;
        let rhs = Operand::new::<T>(op, &c.rhs, c.acc, &side(c.n..c.k), machine.isa)?;
        let epilogue = Epilogue::new::<T>(op, c, machine.isa)?;
        let workspace = workspace_bytes::<T>(isa, shape, &blocking, machine.workers.threads());
        Ok(Contraction { machine, shape, blocking, lhs, rhs, epilogue, workspace, sum: PhantomData })
    }

    fn describe(&self, variant: &Variant) -> String {
        let Shape { batch, m, n, k } = self.shape;
        let Blocking { mr, nr, mc, nc, kc } = self.blocking;
        format!(
            "{} product, {batch} times {m} x {n} x {k} in {}, {} threads\n\
             registers {mr} x {nr}, tasks {mc} x {nc}, depth {kc}\n\
             left: {}\nright: {}\nresult: {}\n",
            variant.family,
            T::DTYPE,
            self.machine.workers.threads(),
            self.lhs.describe(),
            self.rhs.describe(),
            self.epilogue.describe(),
        )
    }
}

impl<T: Sum> Run for Contraction<T> {
    fn workspace(&self) -> usize {
        self.workspace
    }

    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let (a, b) = (self.lhs.source::<T>(bindings)?, self.rhs.source::<T>(bindings)?);
        let sink;
        let out = match self.epilogue.plain::<T>(bindings)? {
            Some(plain) => Output::Plain(plain),
            None => {
                sink = self.epilogue.sink(bindings)?;
                Output::Sink(&sink)
            }
        };
        let room: &mut [u8] = match &bindings.workspace {
            // SAFETY: the dispatcher has checked that the workspace has these bytes from its offset on; it belongs to this
            // launch alone.
            Some(w) => unsafe {
                std::slice::from_raw_parts_mut(host_address(w.memory, w.offset)?, w.end.saturating_sub(w.offset))
            },
            None => &mut [],
        };
        let isa = product_isa(self.machine.isa);
        let gemm = Gemm { isa, shape: self.shape, a: &*a, b: &*b, out, blocking: self.blocking };
        gemm.run(&self.machine.workers, room).map_err(|e: GemmError| Error::internal(e.to_string()).in_op("contract"))
    }
}
