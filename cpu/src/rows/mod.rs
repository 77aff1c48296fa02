//! Row programs: maps and reductions over rows, each row kept in fast memory from one step to the next.
//!
//! A launch lets the lanes of its code run along the rows or across them, whichever costs less for its shape and strides;
//! few long rows are cut into pieces of fixed size. All choices depend on the shape alone, so results never depend on
//! the number of threads.
//!
//! - `build`: from an expression to stages of code. `fold`: reductions of blocks, joined in a fixed order.
//! - `along`: row after row. `across`: many rows at once, one in each lane. `windows`: rows that are windows of an image.

mod across;
mod along;
mod build;
mod fold;
#[cfg(test)]
pub(crate) mod tests;
mod windows;

use std::sync::Arc;

use millstream_core::backend::{Kernel, Launch};
use millstream_core::how::Schedule;
use millstream_core::{Body, Error, Op, Result};

use crate::backend::Machine;
use crate::program::{Code, Operand};
use crate::stream::{CpuLaunch, Run};
use across::Across;
use along::Along;
use build::Built;
use windows::Windows;

/// Elements that make a task: some ten microseconds of simple work, so that handing it over does not count.
const TASK: usize = 64 << 10;

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
            Plan::Along(p) => format!("rows, lanes along dimension {}\n{}", p.lane, listing(&p.built)),
            Plan::Across(p) => format!("rows, lanes across them along dimension {}\n{}", p.lane, listing(&p.built)),
            Plan::Windows(p) => p.text(),
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
            Plan::Along(p) => Arc::new(p),
            Plan::Across(p) => Arc::new(p),
            Plan::Windows(p) => p,
        };
        Ok(Arc::new(CpuLaunch(run)))
    }
}

enum Plan {
    Along(Along),
    Across(Across),
    Windows(Arc<Windows>),
}

/// What both ways start from.
struct Shape<'a> {
    op: &'a Op,
    inner: usize,
    operands: Vec<Operand>,
    varies: Vec<bool>,
}

fn plan(op: &Op, machine: &Arc<Machine>) -> Result<Plan> {
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
    let shape = Shape {
        inner,
        operands: op.inputs.iter().chain(&op.outputs).map(Operand::new).collect(),
        varies: op.varying(),
        op: &op,
    };
    // In nanoseconds: what an element costs by its stride, and what a row or a step costs beside its elements.
    let nodes = expr.nodes().len() as f64;
    let strides = |d: usize| -> f64 {
        shape
            .operands
            .iter()
            .map(|o| {
                let (s, size) = (o.strides[d], o.dtype.size() as isize);
                match s {
                    0 => 0.0,
                    s if s == size => 0.025 * size as f64,
                    s if s.abs() < 64 => 0.5,
                    _ => 1.5,
                }
            })
            .sum()
    };
    let dims = &op.dims;
    let row: usize = dims[inner..].iter().product::<usize>().max(1);
    let reductions = expr.nodes().iter().filter(|(n, _)| matches!(n, millstream_core::Node::Reduce(..))).count() as f64;
    let along = (inner..dims.len())
        .rev()
        .map(|d| {
            let strip = (15.0 + 6.0 * nodes) / dims[d].max(1) as f64;
            (strides(d) + strip + (40.0 + 20.0 * nodes + 30.0 * reductions) / row as f64, d)
        })
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let across = (0..inner)
        .rev()
        .map(|d| {
            let lanes = dims[d].clamp(1, 512) as f64;
            let step = (15.0 + 6.0 * nodes) / lanes;
            (strides(d) + 0.05 * reductions + step + (40.0 + 20.0 * nodes) / lanes / row as f64, d)
        })
        .min_by(|a, b| a.0.total_cmp(&b.0));
    match (along, across) {
        (Some((a, _)), Some((b, lane))) if b < a => match Windows::new(&shape, lane, machine)? {
            Some(windows) => Ok(Plan::Windows(Arc::new(windows))),
            None => Ok(Plan::Across(Across::new(&shape, lane, machine)?)),
        },
        (Some((_, lane)), _) => Ok(Plan::Along(Along::new(&shape, lane, machine)?)),
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
