//! Operations: what a device can be asked to do.
//!
//! Every [`Op`] has the same frame: an index space (`dims`), inputs and outputs that are read and written through affine
//! [`Access`] maps over it, and a [`Body`] that says what happens at each index. Memory, scalars and offsets are not part of
//! an operation: they are bound at launch. A kernel serves all operations with the same [`crate::cache::KernelClass`], whatever their sizes.
//!
//! | body       | index space                    | meaning                                                                 |
//! |------------|--------------------------------|-------------------------------------------------------------------------|
//! | `Map`      | any                            | each output element is an expression of the inputs at that index        |
//! | `Rows`     | outer dimensions, inner ones   | a program of maps and reductions over the inner dimensions, kept on chip |
//! | `Contract` | batch, m, n, k dimensions      | `epilogue(sum over k of lhs * rhs)`, operands and result being expressions |
//! | `Host`     | one dimension for each operand | a function that only the CPU computes, of whole contiguous operands     |
//! | `Gather`   | that of the result             | elements of a table at indices that other inputs say                        |
//! | `Scan`     | outer dimensions, one inner    | running sums, products, largest or smallest elements                    |
//! | `Attention`| batch, queries, keys, d, e     | softmax of matmuls of queries and keys, times values; scores stay on chip |

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::access::{Access, collapse};
use super::dtype::DType;
use super::expr::{Expr, Node, Reduce};
use super::host::HostBody;
use super::layout::{Dims, count, elements};
use super::scalar::Scalar;
use super::windows::{Recovered, Windows};
use crate::error::{Error, Result};

/// An operation over an index space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// The sizes of the index space.
    pub dims: Dims,
    /// How each input is read.
    pub inputs: Vec<Access>,
    /// How each output is written: plain accesses, injective over the dimensions that the output does not ignore.
    pub outputs: Vec<Access>,
    /// What happens at each index.
    pub body: Body,
    windows: Recovered,
}

/// What an operation does at each index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Body {
    /// `outputs[o][i] = expr.outputs[o]` for every index `i`.
    Map(Expr),
    /// For each row (the dimensions before `inner`): the program over the row's elements (the dimensions from `inner` on).
    ///
    /// An output that ignores all inner dimensions receives one value a row; the others receive one for each element.
    Rows {
        /// The first dimension of the row; it and all after it are reduced over.
        inner: usize,
        /// The program.
        expr: Expr,
    },
    /// `outputs[o][b, m, n] = epilogue.outputs[o](sum over k of lhs[b, m, k] * rhs[b, k, n])`.
    Contract(Box<Contract>),
    /// `outputs[0][i]` is the element of `inputs[0]` (the table) at its own offset for `i`, moved along one axis of the table for
    /// each further input, by the integer that this input holds for `i`. A negative integer counts from the axis' end.
    Gather(Gather),
    /// `outputs[0][r, i]` is the reduction of `inputs[0][r, 0..=i]`: `Sum`, `Prod`, `Max` or `Min`.
    Scan {
        /// The dimension that is walked, the last; the rank itself for rows of one element.
        inner: usize,
        /// What is done.
        reduce: Reduce,
    },
    /// `softmax(scale * q k' + mask) v` for each of the batch, without the scores ever being in memory.
    ///
    /// The index space is the batch dimensions, then queries, keys, d (of queries and keys) and e (of values). Inputs are q (over
    /// batch, queries, d), k (batch, keys, d), v (batch, keys, e) and perhaps a mask (batch, queries, keys): true where a key is
    /// seen, or a number that is added to the score. Parameter 0 is the scale, in the dtype that is computed in. A query that
    /// sees no key gives zeros. Shares of f16 and bf16 may be rounded to that dtype before they are multiplied with values.
    Attention(Attention),
    /// A function that only the CPU computes. [`Op::host`] makes such operations.
    Host(HostBody),
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Whether a query sees no key after its own position; the last query has the position of the last key.
    pub causal: bool,
    /// Whether there is a mask.
    pub mask: bool,
}

/// Lookups in a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// The axes in which indices are looked up, one for each input after the table.
    pub lookups: SmallVec<[Lookup; 2]>,
    /// What an index leads to that no axis has.
    pub outside: Outside,
}

/// What an index out of range leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Outside {
    /// The launch fails, or notes the index ([`crate::backend::NoteAt`]) and goes on as with [`Outside::Fill`].
    #[default]
    Error,
    /// The table's fill value.
    Fill,
}

/// An axis of a table in which indices are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lookup {
    /// Elements of the table from one index to the next.
    pub stride: isize,
    /// The number of indices.
    pub size: usize,
}

/// The parts of a contraction. The index space is batch, m, n, k; each of the four may have any number of dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contract {
    /// The first of the m dimensions.
    pub m: usize,
    /// The first of the n dimensions.
    pub n: usize,
    /// The first of the k dimensions.
    pub k: usize,
    /// The left operand: one result, from inputs that ignore n.
    pub lhs: Expr,
    /// The right operand: one result, from inputs that ignore m.
    pub rhs: Expr,
    /// The dtype in which products are summed. lhs and rhs are converted to it.
    pub acc: DType,
    /// The results, from `Acc` and inputs that ignore k.
    pub epilogue: Expr,
    /// How exact the sums must be.
    pub accuracy: Accuracy,
}

/// How exact the sums of a contraction must be. A device may always be more exact than it is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Accuracy {
    /// A sum of `k` products is within `(k + 2) * u * sum |a| |b|`, where `u` is the unit roundoff of its type.
    #[default]
    Full,
    /// Convolutions may be computed by Winograd's algorithm, which takes fewer multiplications and loses some bits: a sum of `k`
    /// products is within `(k / 9 + 16) * 194 * u * max |x| * sum |w|`, where the largest element is that of the image and the sum
    /// goes over the filter's `k` elements. An image with infinities, NaNs or elements beyond a thousandth of the type's largest
    /// number may give NaNs and infinities in other elements than the plain algorithm.
    Winograd,
}

impl Accuracy {
    /// The most by which a sum of `k` products may be off beyond rounding of plain sums, in units of `u * max |x| * sum |w|`.
    pub fn more(self, k: usize) -> f64 {
        match self {
            Accuracy::Full => 0.0,
            Accuracy::Winograd => (k as f64 / 9.0 + 16.0) * 194.0,
        }
    }

    /// The least part of a convolution's multiplications that this accuracy allows a device to do.
    pub fn least(self) -> f64 {
        match self {
            Accuracy::Full => 1.0,
            // 36 products for each 16 results, where plainly it is 9 for each.
            Accuracy::Winograd => 0.25,
        }
    }
}

/// The first dimension that can count as one of a contraction's rows: where all matrices of a batch read the same right operand
/// and the rows of one follow those of the other everywhere, they are one taller matmul.
fn first_row(dims: &[usize], inputs: &[Access], outputs: &[Access], c: &Contract) -> usize {
    let reads = |e: &Expr, i: usize| e.nodes().iter().any(|(n, _)| *n == Node::Input(i as u16));
    let shared = |i: usize| reads(&c.rhs, i) && (reads(&c.lhs, i) || reads(&c.epilogue, i));
    let mut m = c.m;
    while m > 0 && !(0..inputs.len()).any(shared) {
        let d = m - 1;
        let single = dims[m..c.n].iter().all(|&n| n == 1);
        let follows = |a: &Access| {
            a.guards.is_empty() && (single || a.strides[d] == a.strides[m].saturating_mul(dims[m] as isize))
        };
        let right = |(i, a): (usize, &Access)| a.strides[d] == 0 || !reads(&c.rhs, i);
        if !inputs.iter().chain(outputs).all(follows) || !inputs.iter().enumerate().all(right) {
            break;
        }
        m = d;
    }
    m
}

impl Op {
    /// An operation as it is given: nothing is checked, no dimensions are joined.
    pub fn new(dims: Dims, inputs: Vec<Access>, outputs: Vec<Access>, body: Body) -> Op {
        Op { dims, inputs, outputs, body, windows: Recovered::default() }
    }

    /// A contraction as a convolution over its left operand and over its right one, as far as it can be read so. Found out once: who changes an
    /// operation does so before.
    pub fn windows(&self) -> &[Windows] {
        self.windows.of(self)
    }

    /// A map, with dimensions joined where all accesses allow it.
    pub fn map(dims: &[usize], inputs: Vec<Access>, outputs: Vec<Access>, expr: Expr) -> Result<Op> {
        Op::new(dims.into(), inputs, outputs, Body::Map(expr)).prepared()
    }

    /// A row program over the dimensions from `inner` on.
    pub fn rows(dims: &[usize], inner: usize, inputs: Vec<Access>, outputs: Vec<Access>, expr: Expr) -> Result<Op> {
        Op::new(dims.into(), inputs, outputs, Body::Rows { inner, expr }).prepared()
    }

    /// A contraction.
    pub fn contract(dims: &[usize], inputs: Vec<Access>, outputs: Vec<Access>, contract: Contract) -> Result<Op> {
        Op::new(dims.into(), inputs, outputs, Body::Contract(Box::new(contract))).prepared()
    }

    /// Elements of a table (the first input) at indices that the further inputs say, one axis for each.
    pub fn gather(
        dims: &[usize],
        inputs: Vec<Access>,
        output: Access,
        lookups: &[Lookup],
        outside: Outside,
    ) -> Result<Op> {
        let body = Body::Gather(Gather { lookups: lookups.into(), outside });
        Op::new(dims.into(), inputs, vec![output], body).prepared()
    }

    /// A running reduction along the last dimension.
    pub fn scan(dims: &[usize], input: Access, output: Access, reduce: Reduce) -> Result<Op> {
        let body = Body::Scan { inner: dims.len().saturating_sub(1), reduce };
        Op::new(dims.into(), vec![input], vec![output], body).prepared()
    }

    /// Attention over a space of batch, queries, keys, d and e; inputs are q, k, v and perhaps a mask.
    pub fn attention(dims: &[usize], inputs: Vec<Access>, output: Access, causal: bool) -> Result<Op> {
        let body = Body::Attention(Attention { causal, mask: inputs.len() > 3 });
        let op = Op::new(dims.into(), inputs, vec![output], body);
        op.check()?;
        // Its dimensions are known by their positions: none is joined.
        Ok(op)
    }

    fn prepared(mut self) -> Result<Op> {
        self.check()?;
        let mut groups = match &self.body {
            Body::Map(_) | Body::Gather(_) | Body::Attention(_) => vec![],
            Body::Rows { inner, .. } | Body::Scan { inner, .. } => vec![*inner],
            Body::Contract(c) => vec![c.m, c.n, c.k],
            Body::Host(_) => return Ok(self),
        };
        let used: Vec<bool> = (0..self.dims.len()).map(|d| self.exprs().any(|e| e.uses_index(d))).collect();
        if used.contains(&true) {
            // Index nodes name dimensions by number: leave the space as it is.
            return Ok(self);
        }
        if let Body::Contract(c) = &mut self.body {
            c.m = first_row(&self.dims, &self.inputs, &self.outputs, c);
            groups[0] = c.m;
        }
        let mut accesses: Vec<&mut Access> = self.inputs.iter_mut().chain(&mut self.outputs).collect();
        collapse(&mut self.dims, &mut accesses, &mut groups, |_| false);
        match &mut self.body {
            Body::Map(_) | Body::Gather(_) | Body::Attention(_) | Body::Host(_) => {}
            Body::Rows { inner, .. } | Body::Scan { inner, .. } => *inner = groups[0],
            Body::Contract(c) => (c.m, c.n, c.k) = (groups[0], groups[1], groups[2]),
        }
        Ok(self)
    }

    /// The expressions of the body.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        match &self.body {
            Body::Map(e) | Body::Rows { expr: e, .. } => [Some(e), None, None],
            Body::Contract(c) => [Some(&c.lhs), Some(&c.rhs), Some(&c.epilogue)],
            Body::Gather(_) | Body::Scan { .. } | Body::Attention(_) | Body::Host(_) => [None; 3],
        }
        .into_iter()
        .flatten()
    }

    /// The number of launch parameters.
    pub fn params(&self) -> usize {
        match self.body {
            Body::Attention(_) => 1,
            _ => self.exprs().map(Expr::params).max().unwrap_or(0),
        }
    }

    /// A short name for people: `map`, `rows`, `contract`, `host`, ...
    pub fn name(&self) -> &'static str {
        match self.body {
            Body::Map(_) => "map",
            Body::Rows { .. } => "rows",
            Body::Contract(_) => "contract",
            Body::Host(_) => "host",
            Body::Gather(_) => "gather",
            Body::Scan { .. } => "scan",
            Body::Attention(_) => "attention",
        }
    }

    /// Where the inner dimensions of a row program begin; the rank for other bodies.
    pub fn inner(&self) -> usize {
        if let Body::Rows { inner, .. } = self.body { inner } else { self.dims.len() }
    }

    /// For a row program: which nodes have one value an element (true) rather than one a row.
    pub fn varying(&self) -> Vec<bool> {
        match &self.body {
            Body::Rows { inner, expr } => expr.varying(
                |i| (*inner..self.dims.len()).any(|d| !self.inputs[i as usize].ignores(d) && self.dims[d] != 1),
                *inner,
            ),
            _ => Vec::new(),
        }
    }

    /// The number of elements that an output holds.
    pub fn output_len(&self, output: usize) -> usize {
        let written = match &self.body {
            Body::Contract(c) => c.k,
            _ => self.dims.len(),
        };
        let sizes: Dims = (0..written).filter(|&d| !self.outputs[output].ignores(d)).map(|d| self.dims[d]).collect();
        elements(&sizes)
    }

    /// Multiply-adds of a contraction, at most, without those of which one factor does not exist and counts as zero.
    pub fn multiply_adds(&self) -> u64 {
        let Body::Contract(c) = &self.body else { return 0 };
        let existing = |expr: &Expr| match expr.nodes() {
            [(Node::Input(i), _)] => self
                .inputs
                .get(*i as usize)
                .filter(|a| a.fill == Scalar::zero(a.dtype))
                .map(|a| a.existing(&self.dims) as u64),
            _ => None,
        };
        [&c.lhs, &c.rhs].into_iter().filter_map(existing).fold(elements(&self.dims) as u64, u64::min)
    }

    /// Arithmetic operations in all, a multiplication and the addition after it counting two. Those with the zeros of padding are none.
    pub fn flop(&self) -> u64 {
        let size = |range: std::ops::Range<usize>| elements(&self.dims[range]) as u64;
        let all = self.dims.len();
        match &self.body {
            Body::Map(e) => e.flop() * size(0..all),
            Body::Rows { inner, expr } => {
                let varies = self.varying();
                let cost = |n: &Node| match n {
                    Node::Unary(u, _) => u.flop(),
                    Node::Binary(b, ..) => b.flop(),
                    Node::Select(..) | Node::Reduce(..) => 1,
                    Node::Random(..) => super::expr::RANDOM_FLOP,
                    _ => 0,
                };
                let (mut element, mut row) = (0, 0);
                for ((n, _), v) in expr.nodes().iter().zip(&varies) {
                    match n {
                        Node::Reduce(..) => element += 1,
                        _ if *v => element += cost(n),
                        _ => row += cost(n),
                    }
                }
                element * size(0..all) + row * size(0..*inner)
            }
            Body::Contract(c) => {
                let (b, m, n, k) = (size(0..c.m), size(c.m..c.n), size(c.n..c.k), size(c.k..all));
                2 * self.multiply_adds()
                    + c.lhs.flop() * b * m * k
                    + c.rhs.flop() * b * n * k
                    + c.epilogue.flop() * b * m * n
            }
            Body::Host(h) => h.function.flop,
            Body::Gather(g) => g.lookups.len() as u64 * size(0..all),
            Body::Scan { .. } => size(0..all),
            Body::Attention(a) => {
                let scores = size(0..all - 2) / if a.causal { 2 } else { 1 };
                // Two matmuls, and an exponential for each score.
                scores * (2 * self.dims[all - 2] as u64 + 2 * self.dims[all - 1] as u64 + 16)
            }
        }
    }

    /// The fewest bytes that must cross the device's memory: each distinct input element read once, each output written once.
    pub fn least_bytes(&self) -> u64 {
        if let Body::Host(_) = self.body {
            // Each dimension belongs to one operand: an empty one says nothing about the others.
            let operands = self.inputs.iter().chain(&self.outputs).zip(&self.dims);
            return operands.map(|(a, n)| (n * a.dtype.size()) as u64).sum();
        }
        let distinct = |i: usize, a: &Access| match &self.body {
            // A table gives at most an element for each of the result, and no more than it has.
            Body::Gather(g) if i == 0 => {
                let indices = g.lookups.iter().fold(1usize, |p, l| p.saturating_mul(l.size));
                a.distinct(&self.dims).saturating_mul(indices).min(self.output_len(0))
            }
            _ => a.distinct(&self.dims),
        };
        let read: u64 = self.inputs.iter().enumerate().map(|(i, a)| (distinct(i, a) * a.dtype.size()) as u64).sum();
        let written: u64 =
            self.outputs.iter().enumerate().map(|(o, a)| (self.output_len(o) * a.dtype.size()) as u64).sum();
        read + written
    }

    /// What a prepared launch is made for: all of the operation, sizes and strides included.
    pub fn launch_key(&self) -> u64 {
        let mut h = FxHasher::default();
        self.hash(&mut h);
        h.finish()
    }

    /// Checks that the parts fit together. The planner only builds operations that pass.
    pub fn check(&self) -> Result<()> {
        let bad = |why: &str| Err(Error::internal(format!("{} operation: {why}", self.name())));
        let rank = self.dims.len();
        match self.body {
            Body::Host(_) => self.dims.iter().try_for_each(|&n| count(&[n]).map(|_| ()))?,
            _ => count(&self.dims).map(|_| ())?,
        }
        if self.inputs.iter().chain(&self.outputs).any(|a| {
            a.strides.len() != rank
                || a.guards.iter().any(|g| g.coefficients.len() != rank)
                || a.fill.dtype() != a.dtype
        }) {
            return bad("an access has another number of dimensions than the index space");
        }
        if self.outputs.is_empty() || self.outputs.iter().any(|a| !a.is_plain()) {
            return bad("it needs outputs, without guards");
        }
        let dtypes: Vec<DType> = self.inputs.iter().map(|a| a.dtype).collect();
        let results = match &self.body {
            Body::Map(e) => {
                if e.has_reduce() {
                    return bad("a map cannot reduce");
                }
                e.check(&dtypes, None, rank)?;
                e
            }
            Body::Rows { inner, expr } => {
                if *inner > rank {
                    return bad("the row begins behind the last dimension");
                }
                expr.check(&dtypes, None, rank)?;
                expr
            }
            Body::Contract(c) => {
                if !(c.m <= c.n && c.n <= c.k && c.k <= rank) {
                    return bad("the groups of dimensions are out of order");
                }
                c.lhs.check(&dtypes, None, rank)?;
                c.rhs.check(&dtypes, None, rank)?;
                c.epilogue.check(&dtypes, Some(c.acc), rank)?;
                if c.lhs.outputs().len() != 1 || c.rhs.outputs().len() != 1 {
                    return bad("each operand has one result");
                }
                &c.epilogue
            }
            Body::Host(_) | Body::Gather(_) | Body::Scan { .. } | Body::Attention(_) => {
                return self.fault().map_or(Ok(()), bad);
            }
        };
        if results.outputs().len() != self.outputs.len() {
            return bad("it has another number of outputs than its expression");
        }
        if results.outputs().iter().zip(&self.outputs).any(|(&id, a)| results.dtype(id) != a.dtype) {
            return bad("an output has another dtype than its expression");
        }
        if let Body::Rows { inner, expr } = &self.body {
            let varies = self.varying();
            for (&id, a) in expr.outputs().iter().zip(&self.outputs) {
                let per_row = (*inner..rank).all(|d| a.strides[d] == 0 || self.dims[d] == 1);
                if per_row && varies[id.at()] {
                    return bad("an output for each row is fed by a value for each element");
                }
            }
        }
        Ok(())
    }

    /// What is wrong with an operation that has no expression.
    fn fault(&self) -> Option<&'static str> {
        let rank = self.dims.len();
        match &self.body {
            Body::Host(h) => {
                let operands = (h.function.inputs.len(), h.wanted.len());
                (operands != (self.inputs.len(), self.outputs.len()) || rank != operands.0 + operands.1)
                    .then_some("it has another number of operands than its function")
            }
            Body::Gather(g) => {
                let [output] = &self.outputs[..] else { return Some("it has one output") };
                if self.inputs.len() != g.lookups.len() + 1 || self.inputs.iter().any(|a| !a.is_plain()) {
                    return Some("it reads a table and one input for each axis, without guards");
                }
                if self.inputs[0].dtype != output.dtype {
                    return Some("the output has another dtype than the table");
                }
                self.inputs[1..].iter().any(|a| !a.dtype.is_integer()).then_some("indices are integers")
            }
            Body::Scan { inner, reduce } => {
                let ([input], [output]) = (&self.inputs[..], &self.outputs[..]) else {
                    return Some("it has one input and one output");
                };
                if !matches!(reduce, Reduce::Sum | Reduce::Prod | Reduce::Max | Reduce::Min) || *inner + 1 < rank {
                    return Some("it scans sums, products, largest or smallest elements along the last dimension");
                }
                let fits = reduce.result(input.dtype) == Some(input.dtype) && input.dtype == output.dtype;
                (!input.is_plain() || !fits).then_some("input and output have one dtype, which the reduction takes")
            }
            Body::Attention(a) => {
                let [output] = &self.outputs[..] else { return Some("it has one output") };
                let Some(batch) = rank.checked_sub(4) else { return Some("it needs queries, keys, d and e") };
                let (m, n, d, e) = (batch, batch + 1, batch + 2, batch + 3);
                let unused: [&[usize]; 4] = [&[n, e], &[m, e], &[m, d], &[d, e]];
                if self.inputs.len() != 3 + usize::from(a.mask) || self.inputs.iter().any(|i| !i.is_plain()) {
                    return Some("it reads q, k, v and perhaps a mask, without guards");
                }
                let strays = |access: &Access, dims: &[usize]| dims.iter().any(|&d| access.strides[d] != 0);
                if self.inputs.iter().zip(unused).any(|(i, dims)| strays(i, dims)) || strays(output, &[n, d]) {
                    return Some("an operand moves along a dimension that it does not have");
                }
                let dtype = output.dtype;
                let one = self.inputs[..3].iter().all(|i| i.dtype == dtype) && dtype.is_float();
                let mask = self.inputs.get(3).is_none_or(|i| i.dtype == dtype || i.dtype == DType::Bool);
                (!one || !mask).then_some("its operands are of one float type, its mask is that or bool")
            }
            Body::Map(_) | Body::Rows { .. } | Body::Contract(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::KernelClass;
    use crate::what::{Binary, ExprBuilder, Reduce, Unary};

    fn add(dims: &[usize], strides: &[isize]) -> Op {
        let mut b = ExprBuilder::new();
        let (x, y) = (b.input(0, DType::F32), b.input(1, DType::F32));
        let sum = b.binary(Binary::Add, x, y).unwrap();
        let access = || Access::new(DType::F32, strides);
        Op::map(dims, vec![access(), access()], vec![access()], b.finish(&[sum])).unwrap()
    }

    #[test]
    fn sizes_change_the_launch_but_not_the_kernel() {
        let (a, b) = (add(&[8, 8], &[8, 1]), add(&[100], &[1]));
        assert_eq!(&a.dims[..], [64]);
        assert_eq!(KernelClass::key(&a), KernelClass::key(&b));
        assert_ne!(a.launch_key(), b.launch_key());
        assert_ne!(KernelClass::key(&a), KernelClass::key(&add(&[8, 8], &[16, 1])));
    }

    /// `batch` times `[2, 3] * [3, 5]` as far as strides say, with this row stride.
    fn batched(batch: &[usize], left: &[isize], right: &[isize], result: &[isize]) -> Op {
        let operand = |i: u16| {
            let mut b = ExprBuilder::new();
            let x = b.input(i, DType::F32);
            b.finish(&[x])
        };
        let m = batch.len();
        let dims: Vec<usize> = batch.iter().copied().chain([2, 5, 3]).collect();
        let access = |outer: &[isize], own: [isize; 3]| Access::new(DType::F32, &[outer, &own].concat());
        let acc = Contract {
            m,
            n: m + 1,
            k: m + 2,
            lhs: operand(0),
            rhs: operand(1),
            acc: DType::F32,
            epilogue: Expr::acc(DType::F32),
            accuracy: Default::default(),
        };
        let inputs = vec![access(left, [3, 0, 1]), access(right, [0, 1, 5])];
        Op::contract(&dims, inputs, vec![access(result, [5, 1, 0])], acc).unwrap()
    }

    #[test]
    fn a_batch_with_one_right_operand_is_one_taller_matmul() {
        let rows = |op: &Op| match &op.body {
            Body::Contract(c) => (c.m, op.dims.to_vec()),
            _ => unreachable!(),
        };
        assert_eq!(rows(&batched(&[7, 4], &[24, 6], &[0, 0], &[40, 10])), (0, vec![56, 5, 3]));
        // The outer dimension has right operands of its own.
        assert_eq!(rows(&batched(&[7, 4], &[24, 6], &[15, 0], &[40, 10])), (1, vec![7, 8, 5, 3]));
        // Each matrix has one, or results do not follow each other.
        assert_eq!(rows(&batched(&[4], &[6], &[15], &[10])), (1, vec![4, 2, 5, 3]));
        assert_eq!(rows(&batched(&[4], &[6], &[0], &[20])), (1, vec![4, 2, 5, 3]));
    }

    #[test]
    fn flop_and_bytes_of_an_add_and_a_softmax() {
        let op = add(&[1000], &[1]);
        assert_eq!((op.flop(), op.least_bytes()), (1000, 12000));

        let mut b = ExprBuilder::new();
        let x = b.input(0, DType::F32);
        let m = b.reduce(Reduce::Max, x).unwrap();
        let d = b.binary(Binary::Sub, x, m).unwrap();
        let e = b.unary(Unary::Exp, d).unwrap();
        let s = b.reduce(Reduce::Sum, e).unwrap();
        let y = b.binary(Binary::Div, e, s).unwrap();
        let expr = b.finish(&[y]);
        let access = || Access::new(DType::F32, &[10, 1]);
        let op = Op::rows(&[4, 10], 1, vec![access()], vec![access()], expr).unwrap();
        assert_eq!(op.flop(), 40 * (1 + 1 + 16 + 1 + 4));
        assert_eq!(op.least_bytes(), 2 * 4 * 40);
    }

    #[test]
    fn matmul_counts_two_for_each_multiply_add() {
        let acc = Contract {
            m: 0,
            n: 1,
            k: 2,
            lhs: Expr::input(DType::F32),
            rhs: {
                let mut b = ExprBuilder::new();
                let y = b.input(1, DType::F32);
                b.finish(&[y])
            },
            acc: DType::F32,
            epilogue: Expr::acc(DType::F32),
            accuracy: Default::default(),
        };
        let op = Op::contract(
            &[2, 3, 4],
            vec![Access::new(DType::F32, &[4, 0, 1]), Access::new(DType::F32, &[0, 1, 3])],
            vec![Access::new(DType::F32, &[3, 1, 0])],
            acc,
        )
        .unwrap();
        assert_eq!(op.flop(), 48);
        assert_eq!(op.least_bytes(), 4 * (8 + 12 + 6));
        assert_eq!(op.output_len(0), 6);
    }

    #[test]
    fn broken_operations_are_refused() {
        let mut op = add(&[4], &[1]);
        op.outputs.clear();
        assert!(op.check().is_err());
        let mut op = add(&[4], &[1]);
        op.inputs[0].dtype = DType::I32;
        assert!(op.check().is_err());
    }
}
