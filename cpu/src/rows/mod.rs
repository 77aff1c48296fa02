//! Row programs: maps and reductions over rows, each row cached in fast memory from one step to the next.
//!
//! A launch lets the lanes of its code run along the rows or over several of them, whichever costs less for its shape and strides;
//! few long rows are cut into pieces of fixed size. All choices depend on the shape alone, so results never depend on
//! the number of threads.
//!
//! - `build`: from an expression to stages of code. `fold`: reductions of blocks, joined in a fixed order.
//! - `along`: row after row. `interleaved`: many rows at once, one in each lane; `tiles`: short rows, transposed for it.
//!   `windows`: rows that are windows of an image.

mod along;
mod build;
mod fold;
mod interleaved;
#[cfg(test)]
pub(crate) mod tests;
mod tiles;
mod windows;

use std::sync::Arc;

use millstream_core::backend::{Kernel, Launch};
use millstream_core::how::RowWork;
use millstream_core::how::Schedule;
use millstream_core::{Body, Error, Node, Op, Reduce, Result};

use crate::backend::Machine;
use crate::program::{Code, Operand};
use crate::stream::{CpuLaunch, Run};
use along::Along;
use build::Built;
use interleaved::Interleaved;
use windows::WindowRows;

/// The most adjacent rows that are walked together.
const MOST_LANES: usize = 512;

/// A row program compiled for the CPU.
pub(crate) struct RowsKernel {
    machine: Arc<Machine>,
    text: String,
}

impl RowsKernel {
    /// The kernel for all operations with this one's kernel key.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(op: &Op, machine: Arc<Machine>) -> Result<Arc<dyn Kernel>> {
        let text = match plan(op, &machine)? {
            RowsPlan::Along(p) => format!("rows, lanes along dimension {}\n{}", p.lane, listing(&p.built)),
            RowsPlan::Interleaved(p) => {
                format!("rows, lanes over them along dimension {}\n{}", p.lane, listing(&p.built))
            }
            RowsPlan::Windows(p) => p.text(),
        };
        Ok(Arc::new(RowsKernel { machine, text }))
    }
}

impl Kernel for RowsKernel {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        let run: Arc<dyn Run> = match plan(op, &self.machine)? {
            RowsPlan::Along(p) => Arc::new(p),
            RowsPlan::Interleaved(p) => Arc::new(p),
            RowsPlan::Windows(p) => p,
        };
        Ok(Arc::new(CpuLaunch(run)))
    }
}

enum RowsPlan {
    Along(Along),
    Interleaved(Interleaved),
    Windows(Arc<WindowRows>),
}

/// What both ways start from.
struct RowShape<'a> {
    op: &'a Op,
    inner: usize,
    operands: Vec<Operand>,
    varies: Vec<bool>,
    /// What an element is expected to take, in nanoseconds.
    each: f64,
}

fn plan(op: &Op, machine: &Arc<Machine>) -> Result<RowsPlan> {
    let Body::Rows { inner, expr } = &op.body else {
        return Err(Error::internal(format!("a {} operation is no row program", op.name())));
    };
    let mut op = std::borrow::Cow::Borrowed(op);
    let mut inner = *inner;
    if inner == op.dims.len() {
        // Rows of one element: a dimension of size 1 that nothing moves along.
        let with = op.to_mut();
        with.dims.push(1);
        for a in with.inputs.iter_mut().chain(&mut with.outputs) {
            a.strides.push(0);
            for g in a.guards.iter_mut() {
                g.coefficients.push(0);
            }
        }
        inner = with.dims.len() - 1;
        with.body = Body::Rows { inner, expr: expr.clone() };
    }
    let mut shape = RowShape {
        each: 0.0,
        inner,
        operands: op.inputs.iter().chain(&op.outputs).map(Operand::new).collect(),
        varies: op.varying(),
        op: &op,
    };
    let dims = &op.dims;
    let walks = &machine.walks;
    let count = |which: fn(&Reduce) -> bool| {
        expr.nodes().iter().filter(|(n, _)| matches!(n, Node::Reduce(r, _) if which(r))).count()
    };
    let (reductions, searches) = (count(|_| true), count(|r| matches!(r, Reduce::ArgMax | Reduce::ArgMin)));
    // One fold of what lies in memory goes through no program.
    let is_bare = matches!(expr.nodes(), [(Node::Input(_), _), (Node::Reduce(..), _)]);
    let nodes = if is_bare { 0 } else { expr.nodes().len() };
    let length: usize = dims[inner..].iter().product();
    let work = RowWork { nodes, reductions, searches, length };
    let element = |o: &Operand, d: usize| match o.strides[d] {
        0 => 0.0,
        stride => walks.element(stride, o.dtype.size()),
    };
    let operands = |d: usize| -> f64 { shape.operands.iter().map(|o| element(o, d)).sum() };
    // Operands whose rows are contiguous may be transposed first.
    let beside = |d: usize| -> f64 {
        let fits = |o: &Operand| tiles::fits(o, dims, inner, d);
        let bytes = shape.operands.iter().filter(|o| fits(o)).map(|o| length * o.dtype.size()).sum();
        let near = tiles::most_lanes(bytes, machine.topology.l2().size);
        let transposes = bytes > 0 && near >= tiles::LEAST_LANES;
        let price = |o: &Operand| match transposes && fits(o) {
            true => walks.transposed(o.dtype.size()),
            false => element(o, d),
        };
        let lanes = dims[d].min(MOST_LANES).min(if transposes { near } else { MOST_LANES });
        walks.interleaved_rows(shape.operands.iter().map(price).sum(), work, lanes)
    };
    let along = (inner..dims.len())
        .rev()
        .map(|d| (walks.along_rows(operands(d), work, dims[d]), d))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let interleaved = (0..inner).rev().map(|d| (beside(d), d)).min_by(|a, b| a.0.total_cmp(&b.0));
    shape.each = along.iter().chain(&interleaved).map(|&(each, _)| each).fold(f64::INFINITY, f64::min).max(walks.byte);
    match (along, interleaved) {
        (Some((a, _)), Some((b, lane))) if b < a => match WindowRows::new(&shape, lane, machine)? {
            Some(windows) => Ok(RowsPlan::Windows(Arc::new(windows))),
            None => Ok(RowsPlan::Interleaved(Interleaved::new(&shape, lane, machine)?)),
        },
        (Some((_, lane)), _) => Ok(RowsPlan::Along(Along::new(&shape, lane, machine)?)),
        (None, _) => Err(Error::internal("a row program without a row")),
    }
}

fn listing(built: &Built) -> String {
    let mut out = String::new();
    let code: &Code = &built.code;
    code.listing_singles("", &mut out);
    code.listing(built.launch, "", &mut out);
    for (s, stage) in built.stages.iter().enumerate() {
        out += &format!("stage {s}:\n");
        code.listing(stage.row_single, "  ", &mut out);
        code.listing(stage.row_block, "  ", &mut out);
        if stage.has_pass {
            out += "  over the row:\n";
            code.listing(stage.each_single, "    ", &mut out);
            code.listing(stage.each_block, "    ", &mut out);
        }
        for (n, segment) in &stage.carries {
            out += &format!("  every {n} elements:\n");
            code.listing(*segment, "    ", &mut out);
        }
    }
    for (f, (stage, single)) in built.fold_results.iter().enumerate() {
        let fold = &built.folds[f];
        out += &format!("fold {f}: {} of {} in stage {stage} gives s{single}\n", fold.op.name(), fold.dtype);
    }
    out
}
