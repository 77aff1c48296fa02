//! Packed, blocked matmuls: `C[m, n] = epilogue(A[m, k] * B[k, n])`, one or a batch of them.
//!
//! The structure is the usual one of high-performance libraries: operands are copied into micro-panels that a
//! micro-kernel reads in order, blocks of them stay in L1 and L2, and tiles of C are the tasks of a worker pool. What is
//! particular here:
//!
//! - Operands are read through a [`PackSource`]: a strided matrix, an offset table (convolution without a column
//!   buffer), a conversion or a fused expression, all at the cost of the packing that is done anyway.
//! - Results leave through an [`Output`]: plain memory, or a [`TileSink`] that sees each finished tile once.
//! - How each sum is grouped depends on the shape and the [`Blocking`] only, so results are the same for any number of
//!   threads, bit by bit, however C is cut among them.
//! - Panels may hold two or four narrow numbers as one element: see [`Pairs`] and [`Dot4`].
//! - All memory comes from the caller's workspace.
//!
//! Error bound for floats: each element of C differs from the exact result by at most `(k + 2) * eps * sum |a| |b|`, where
//! `eps` is the unit roundoff of the type it is accumulated in.

mod blocking;
mod candidates;
mod driver;
mod element;
mod gather;
pub(in crate::contract) mod kernel;
mod layout;
mod micro;
pub(in crate::contract) mod pack;
mod plan;
mod sink;
mod source;
mod way;

pub use super::dot::{Byte, Dot4, Half, Paired, Pairs};
pub use super::gemv::Narrow;
pub(in crate::contract) use blocking::TILE;
pub(crate) use blocking::even;
pub use blocking::{Blocking, MicroKernel};
pub(super) use candidates::{candidates, copied, tile};
pub use element::{Element, Widen};
pub use gather::{Gathered, GuardTable};
pub use layout::{Packed, PackedLayout};
pub(crate) use micro::{Micro, Panel, Panels, Rows};
pub(in crate::contract) use sink::scatter;
pub use sink::{Chain, ChainOp, ChainOperand, ChainStep, Converted, Output, Plain, TileAt, TileSink};
pub(in crate::contract) use source::Untyped;
pub use source::{Batch, Direct, PackBlock, PackSource, Prepacked, Stored, Strided};
pub(super) use way::{PackedWay, execute, execute_cached};

use millstream_core::how::ContractSizes;

use crate::workers::Workers;
use driver::Driver;
use kernel::kernels;
use plan::{ALIGN, GemmPlan, OperandKind, Rest};

/// Why a matmul was not computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GemmError {
    /// The workspace has fewer bytes than the matmul needs.
    WorkspaceTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// An operand does not have all the rows, K or matrices of the shape; `A` or `B`.
    OperandTooSmall(char),
    /// This machine does not have the instruction set.
    NoSuchMicroKernel(MicroKernel),
}

impl std::fmt::Display for GemmError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GemmError::WorkspaceTooSmall { needed, given } => {
                write!(f, "the matmul needs a workspace of {needed} bytes but got {given}")
            }
            GemmError::OperandTooSmall(name) => write!(f, "operand {name} is smaller than the shape of the matmul"),
            GemmError::NoSuchMicroKernel(isa) => write!(f, "this machine does not have the instruction set {isa:?}"),
        }
    }
}

impl std::error::Error for GemmError {}

/// Which operand of a matmul.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Side {
    /// The left operand.
    A,
    /// The right operand.
    B,
}

/// A matmul to compute.
#[derive(Clone, Copy)]
pub struct Gemm<'a, T> {
    /// The instruction set to use.
    pub isa: MicroKernel,
    /// The size.
    pub shape: ContractSizes,
    /// The left operand: `m` rows by `k`.
    pub a: &'a dyn PackSource<T>,
    /// The right operand, by columns: `n` rows by `k`.
    pub b: &'a dyn PackSource<T>,
    /// Where the result goes.
    pub out: Output<'a, T>,
    /// How it is cut.
    pub blocking: Blocking,
}

/// Bytes of workspace that suffice for any operands of this shape, on `threads` threads. If the output `holds` accumulators that are
/// not complete (a plain one with adjacent columns or, but for AMX and groups of four, rows; a sink with a [`TileSink::home`]), that is less.
pub fn workspace_bytes<T: Element>(
    isa: MicroKernel,
    shape: ContractSizes,
    blocking: &Blocking,
    holds: bool,
    threads: usize,
) -> usize {
    let table = kernels::<T>(isa);
    let most = |shape: ContractSizes, blocking: &Blocking| {
        let mut most = 0;
        let kc = table.kc(shape.k, blocking.kc);
        for a in OperandKind::sorts(table.mr, kc, shape.k) {
            for b in OperandKind::sorts(table.nr(), kc, shape.k) {
                // What a plain output needs is never more than what a sink does.
                let rest = if holds { Rest::InSink } else { Rest::Nowhere };
                most = most.max(bytes::<T>(&GemmPlan::new(table, blocking, shape, [a, b], rest, threads), threads));
            }
        }
        most
    };
    most(shape, blocking).max(most(shape.transposed(), &blocking.transposed()))
}

/// Whether a single thread would read each operand, with these strides from row to row and along K, in place rather
/// than pack it.
pub fn unpacked<T: Element>(
    isa: MicroKernel,
    shape: ContractSizes,
    kc: usize,
    strides: [Option<(isize, isize)>; 2],
) -> [bool; 2] {
    let table = kernels::<T>(isa);
    plan::unpacked(table, shape, table.kc(shape.k, kc), strides, 1)
}

/// Rows and columns of a result that kernels for its edges come in. A tile of fewer rows than hide the latency of an addition takes the time of as many.
pub fn edges<T: Element>(isa: MicroKernel, shape: ContractSizes) -> (usize, usize) {
    const LEAST_ROWS: usize = 4;
    let (rows, columns) = kernels::<T>(isa).edges();
    (if shape.m < LEAST_ROWS { rows.max(LEAST_ROWS) } else { rows }, columns)
}

fn bytes<T>(plan: &GemmPlan, threads: usize) -> usize {
    room_for::<T>(plan.elements(threads, align::<T>()))
}

/// Bytes of workspace out of which so many aligned elements can be carved.
pub(in crate::contract) fn room_for<T>(elements: usize) -> usize {
    elements * size_of::<T>() + ALIGN
}

/// Aligned elements out of the workspace.
pub(in crate::contract) fn carve<T: Element>(workspace: &mut [u8], elements: usize) -> Result<&mut [T], GemmError> {
    let needed = room_for::<T>(elements);
    let given = workspace.len();
    if given < needed {
        return Err(GemmError::WorkspaceTooSmall { needed, given });
    }
    let offset = workspace.as_ptr().align_offset(ALIGN);
    // SAFETY: there are `needed` bytes, which leaves room for the alignment; any bytes are an Element.
    Ok(unsafe { std::slice::from_raw_parts_mut(workspace.as_mut_ptr().wrapping_add(offset).cast::<T>(), elements) })
}

/// Elements between aligned addresses.
fn align<T>() -> usize {
    ALIGN / size_of::<T>()
}

impl<T: Element> Gemm<'_, T> {
    /// Computes it. `workspace` must have [`workspace_bytes`] bytes for such an output, or as many as [`Gemm::workspace`] says for these very
    /// operands; its contents before and after are unspecified, its alignment does not matter.
    pub fn run(&self, workers: &Workers, workspace: &mut [u8]) -> Result<(), GemmError> {
        let ContractSizes { batch, m, n, k } = self.shape;
        if batch == 0 || m == 0 || n == 0 {
            return Ok(());
        }
        if !self.isa.available() || !T::has_kernels(self.isa) {
            return Err(GemmError::NoSuchMicroKernel(self.isa));
        }
        if !self.a.covers(batch, m, k) {
            return Err(GemmError::OperandTooSmall('A'));
        }
        if !self.b.covers(batch, n, k) {
            return Err(GemmError::OperandTooSmall('B'));
        }
        let this = self.oriented();
        let plan = this.plan(workers.threads());
        let elements = carve(workspace, plan.elements(workers.threads(), align::<T>()))?;
        let kernels = kernels::<T>(this.isa);
        let driver =
            Driver { kernels, plan: &plan, shape: this.shape, a: this.a, b: this.b, out: this.out, home: this.home() };
        driver.run(workers, elements, align::<T>());
        Ok(())
    }

    /// Bytes of workspace that this matmul needs on `threads` threads; never more than [`workspace_bytes`].
    pub fn workspace(&self, threads: usize) -> usize {
        let ContractSizes { batch, m, n, .. } = self.shape;
        if batch == 0 || m == 0 || n == 0 {
            return 0;
        }
        bytes::<T>(&self.oriented().plan(threads), threads)
    }

    /// How an operand is packed that this matmul reads without packing it again.
    pub fn packed_layout(&self, side: Side) -> PackedLayout {
        let side = match side {
            side if !self.is_transposed() => side,
            Side::A => Side::B,
            Side::B => Side::A,
        };
        let this = self.oriented();
        PackedLayout::new::<T>(side, this.isa, this.shape, &this.blocking)
    }

    /// Whether it is computed as its transpose. The two sides of AMX, and those of groups of four, are packed in different ways.
    fn is_transposed(&self) -> bool {
        self.isa.transposes() && matches!(self.out, Output::Plain(c) if c.col != 1 && c.row == 1)
    }

    /// The same matmul, or its transpose, such that a plain C has adjacent columns if it has adjacent anything.
    fn oriented(&self) -> Self {
        match self.out {
            Output::Plain(c) if self.is_transposed() => {
                let blocking = self.blocking.transposed();
                Gemm {
                    shape: self.shape.transposed(),
                    a: self.b,
                    b: self.a,
                    out: Output::Plain(c.transposed()),
                    blocking,
                    ..*self
                }
            }
            _ => *self,
        }
    }

    /// Where accumulators can wait that are not complete: memory with adjacent columns.
    fn home(&self) -> Option<Plain<'_, T>> {
        let home = match self.out {
            Output::Plain(c) => Some(c),
            Output::Sink(sink) => sink.home(),
        };
        home.filter(|c| c.col == 1)
    }

    fn plan(&self, threads: usize) -> GemmPlan {
        let rest = match (self.home(), self.out) {
            (None, _) => Rest::Nowhere,
            (Some(_), Output::Plain(_)) => Rest::InPlain,
            (Some(_), Output::Sink(_)) => Rest::InSink,
        };
        let operands = [OperandKind::of(self.a), OperandKind::of(self.b)];
        GemmPlan::new(kernels::<T>(self.isa), &self.blocking, self.shape, operands, rest, threads)
    }
}

#[cfg(test)]
mod tests;
