//! Expressions over strips, as contractions need them: inputs lie one after the other, or are the same all along.

use std::ops::Range;

use millstream_core::{Expr, Node, Op, Result, Scalar};
use smallvec::SmallVec;

use super::view::Strip;
use crate::program::Lane;
use crate::program::strip::{StripProgram, StripPtr, StripRunner, StripSpec};
use crate::simd::Isa;

/// Elements of the longest strip: all that an expression works on stays in L1.
const LONGEST: usize = 1024;

/// An expression compiled for strips.
pub(super) struct Formula {
    program: StripProgram,
    inputs: usize,
    /// Present if the expression asks for indices.
    index: Option<Indices>,
}

/// How a strip becomes indices of the operation.
struct Indices {
    dims: Vec<usize>,
    batch: Range<usize>,
    other: Range<usize>,
    lane: Range<usize>,
}

impl Formula {
    /// Compiles an expression of `op`. Strips run along the dimensions `lane`, one for each index of `other`; `same` tells
    /// which inputs have one element for a whole strip.
    pub(super) fn new(
        expr: &Expr,
        op: &Op,
        same: &dyn Fn(usize) -> bool,
        batch: Range<usize>,
        other: Range<usize>,
        lane: Range<usize>,
        isa: Isa,
    ) -> Result<Formula> {
        let feed = |(i, a): (usize, &millstream_core::Access)| (a.dtype, if same(i) { Lane::Same } else { Lane::Unit });
        let inputs: Vec<_> = op.inputs.iter().enumerate().map(feed).collect();
        let uses_index = expr.nodes().iter().any(|(n, _)| matches!(n, Node::Index(_)));
        let has_acc = expr.nodes().iter().any(|(n, _)| *n == Node::Acc);
        let outputs = vec![Lane::Unit; expr.outputs().len()];
        let program = StripProgram::new(&StripSpec {
            expr,
            isa,
            inputs: &inputs,
            acc: has_acc.then_some(Lane::Unit),
            outputs: &outputs,
            lane: if uses_index { lane.clone().next_back() } else { None },
        })?;
        let index = uses_index.then(|| Indices { dims: op.dims.to_vec(), batch, other, lane });
        Ok(Formula { program, inputs: inputs.len(), index })
    }

    /// Whether results depend on more than the inputs.
    pub(super) fn uses_index(&self) -> bool {
        self.index.is_some()
    }

    /// Elements of the longest strip that it takes.
    pub(super) fn block(&self) -> usize {
        LONGEST
    }

    /// Elements from `start` on that one strip can have: all, unless an index would jump between them.
    pub(super) fn run_length(&self, start: usize) -> usize {
        match self.index.as_ref().and_then(|i| i.lane.clone().next_back().map(|d| i.dims[d].max(1))) {
            Some(inner) => inner - start % inner,
            None => usize::MAX,
        }
    }

    /// Prepares for these parameters and hands out a runner; once for each task, not for each strip.
    pub(super) fn session<R>(&self, params: &[Scalar], work: impl FnOnce(&mut Session<'_, '_>) -> R) -> R {
        let nowhere = StripPtr::new(std::ptr::null(), 0);
        self.program.with(params, |runner| {
            let inputs = SmallVec::from_elem(nowhere, self.inputs);
            work(&mut Session { formula: self, runner, inputs })
        })
    }

    /// The program as text.
    pub(super) fn text(&self) -> String {
        self.program.text()
    }
}

/// Runs a formula over strips.
pub(super) struct Session<'f, 'r> {
    formula: &'f Formula,
    runner: &'f mut StripRunner<'r>,
    inputs: SmallVec<[StripPtr; 4]>,
}

impl Session<'_, '_> {
    /// Sets where an input's strip begins.
    pub(super) fn input(&mut self, number: usize, at: *const u8, size: usize) {
        if let Some(input) = self.inputs.get_mut(number) {
            *input = StripPtr::new(at, size as isize);
        }
    }

    /// Computes the strip. `acc` holds the accumulators, where the expression reads them; `outputs` are pointers with the size of
    /// their elements.
    ///
    /// # Safety
    /// All inputs that the expression reads, and `acc`, are readable for the strip's elements (one, where an input is the
    /// same all along), and outputs are writable for them; all are aligned to their type.
    pub(super) unsafe fn run(&mut self, strip: Strip, acc: (*const u8, usize), outputs: &[(*mut u8, usize)]) {
        let outputs: SmallVec<[StripPtr; 2]> =
            outputs.iter().map(|&(p, size)| StripPtr::new(p, size as isize)).collect();
        let mut index: SmallVec<[usize; 8]> = SmallVec::new();
        if let Some(i) = &self.formula.index {
            index.resize(i.dims.len(), 0);
            let groups = [(&i.batch, strip.batch), (&i.other, strip.other), (&i.lane, strip.start)];
            for (range, mut at) in groups {
                for d in range.clone().rev() {
                    let size = i.dims[d].max(1);
                    index[d] = at % size;
                    at /= size;
                }
            }
        }
        let acc = StripPtr::new(acc.0, acc.1 as isize);
        // SAFETY: passed on.
        unsafe { self.runner.run(&self.inputs, acc, &outputs, &index, strip.len) };
    }
}
