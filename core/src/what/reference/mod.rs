//! The reference semantics of every operation, with a bound on what a device may differ by.
//!
//! [`evaluate`] computes an operation on plain host memory: integers exactly, floats in f64, complex numbers in pairs of
//! f64. Each value carries a bound on its distance from what a correct device gives (a running error analysis in the unit
//! roundoff of the dtype the device computes in), so that a result is held to a derived bound and never to a guess.
//! Where rounding may decide a branch, the bound covers both branches; where nothing can be said it is infinite.
//!
//! It is slow and simple on purpose, never recurses, and is the one place that says what an operation means.
//!
//! What a device may do, beyond the rules of [`Expr`]: round a product and the addition it feeds once; sum in any order
//! that keeps the error of blocked or pairwise summation; flush subnormal results of arithmetic to zero; hold the operands
//! of a contraction in their own dtype (a half type then rounds a computed operand once).

mod complex;
mod functions;
mod host;
mod pairs;
#[cfg(test)]
mod property_tests;
mod real;
mod reduce;
#[cfg(test)]
mod tests;
mod value;
mod whole;

use num_complex::Complex;

use super::access::Access;
use super::dtype::DType;
use super::expr::{Binary, Expr, Id, Node, Reduce, Unary};
use super::host::{HostBody, HostOperand, Serial};
use super::op::{Accuracy, Attention, Body, Contract, Gather, Op, Outside};
use super::scalar::Scalar;
use crate::error::{Error, Result};

pub use functions::{acosh, asinh, atanh, erf};
pub use host::HostTensor;
use value::Value;

/// A value of the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exact {
    /// An integer, or a truth value as 0 or 1.
    Int(i128),
    /// A real number.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
}

/// What one element of an output must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The element, counted from the start of the output's binding; negative for flipped layouts.
    pub position: isize,
    /// The value of the reference.
    pub value: Exact,
    /// The largest allowed `|got - value|`; infinite where the value is not determined.
    pub bound: f64,
}

/// How exact a device's functions are.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Tolerance {
    /// What the stated error of each function (see [`Unary::ulp`]) is multiplied with.
    pub ulp_factor: f64,
    /// The error of a quotient, a square root or a reciprocal in units in the last place: 0.5 where it is rounded correctly.
    pub division_ulp: f64,
}

impl Tolerance {
    /// The promise of processors: functions within their stated error, IEEE division.
    pub const CPU: Tolerance = Tolerance { ulp_factor: 1.0, division_ulp: 0.5 };
    /// The promise of GPUs with IEEE division: functions within twice their stated error.
    pub const GPU: Tolerance = Tolerance { ulp_factor: 2.0, division_ulp: 0.5 };
    /// The promise of GPUs whose division is only nearly right, as shading languages allow.
    pub const LOOSE: Tolerance = Tolerance { ulp_factor: 2.0, division_ulp: 2.5 };
}

impl Expected {
    /// Whether a device may have written this; gives its error, or says what is wrong.
    ///
    /// NaN matches NaN only, an infinity must have the right sign, and the two zeros are equal.
    pub fn accepts(&self, got: Scalar) -> std::result::Result<f64, String> {
        let error = match (self.value, Exact::from(got)) {
            _ if self.bound == f64::INFINITY => return Ok(0.0),
            (Exact::Int(want), Exact::Int(got)) => Some((got - want).unsigned_abs() as f64),
            (Exact::Float(want), Exact::Float(got)) => distance(want, got),
            (Exact::Complex(want), Exact::Complex(got)) => {
                distance(want.re, got.re).zip(distance(want.im, got.im)).map(|(re, im)| re.hypot(im))
            }
            _ => None,
        };
        match error {
            Some(error) if error <= self.bound => Ok(error),
            Some(error) => {
                Err(format!("{got} instead of {}: off by {error:e}, allowed are {:e}", self.value, self.bound))
            }
            None => Err(format!("{got} instead of {}", self.value)),
        }
    }
}

/// `|want - got|`, or `None` where one is not finite and the other is not the same.
fn distance(want: f64, got: f64) -> Option<f64> {
    if want.is_nan() && got.is_nan() || want == got {
        Some(0.0)
    } else if want.is_finite() && got.is_finite() {
        Some((want - got).abs())
    } else {
        None
    }
}

impl From<Scalar> for Exact {
    fn from(s: Scalar) -> Exact {
        match s.dtype() {
            DType::C64 => Exact::Complex(
                s.get::<Complex<f32>>().map_or(Complex::ZERO, |c| Complex::new(c.re.into(), c.im.into())),
            ),
            DType::C128 => Exact::Complex(s.get().unwrap_or(Complex::ZERO)),
            DType::U64 => Exact::Int(s.get::<u64>().unwrap_or(0).into()),
            d if d.is_float() => Exact::Float(s.to_f64()),
            _ => Exact::Int(s.to_i64().into()),
        }
    }
}

impl std::fmt::Display for Exact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exact::Int(v) => write!(f, "{v}"),
            Exact::Float(v) => write!(f, "{v:?}"),
            Exact::Complex(v) => write!(f, "{v}"),
        }
    }
}

/// What the operation writes: for each output, every element once, in the order of the index space.
///
/// `inputs` stand in the order of the operation's inputs, `params` are its launch parameters. An operation that does not
/// check, inputs of another dtype and reads outside an input are errors.
pub fn evaluate(op: &Op, inputs: &[HostTensor], params: &[Scalar], tolerance: Tolerance) -> Result<Vec<Vec<Expected>>> {
    op.check()?;
    if inputs.len() != op.inputs.len() || inputs.iter().zip(&op.inputs).any(|(t, a)| t.dtype != a.dtype) {
        return Err(Error::argument("the inputs are not those of the operation"));
    }
    let run = Run { op, inputs, params, tolerance };
    match &op.body {
        Body::Map(expr) => run.map(expr),
        Body::Rows { inner, expr } => run.rows(*inner, expr),
        Body::Contract(c) => run.contract(c),
        Body::Host(h) => run.host(h),
        Body::Gather(gather) => run.gather(gather),
        Body::Scan { inner, reduce } => run.scan(*inner, *reduce),
        Body::Attention(a) => run.attention(*a),
    }
}

/// The first bytes of aligned words.
fn bytes(words: &[u128], len: usize) -> &[u8] {
    // SAFETY: integers have no padding, and the slice ends inside the words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), len.min(words.len() * 16)) }
}

/// The first bytes of aligned words, to be written.
fn bytes_mut(words: &mut [u128], len: usize) -> &mut [u8] {
    // SAFETY: as in `bytes`; any bytes are integers.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len.min(words.len() * 16)) }
}

/// Calls `f` with every index of the space, the last dimension fastest.
fn walk(dims: &[usize], mut f: impl FnMut(&[usize]) -> Result<()>) -> Result<()> {
    if dims.contains(&0) {
        return Ok(());
    }
    let mut index = vec![0; dims.len()];
    loop {
        f(&index)?;
        let mut d = dims.len();
        loop {
            if d == 0 {
                return Ok(());
            }
            d -= 1;
            index[d] += 1;
            if index[d] < dims[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

struct Run<'a> {
    op: &'a Op,
    inputs: &'a [HostTensor],
    params: &'a [Scalar],
    tolerance: Tolerance,
}

impl Run<'_> {
    /// The function itself is its meaning: whoever runs it gives the same bits.
    fn host(&self, body: &HostBody) -> Result<Vec<Vec<Expected>>> {
        let function = &body.function;
        // Words of 16 bytes are aligned for every dtype.
        let room = |o: &HostOperand| vec![0u128; o.bytes().div_ceil(16)];
        let mut inputs: Vec<Vec<u128>> = function.inputs.iter().map(room).collect();
        for ((words, operand), tensor) in inputs.iter_mut().zip(&function.inputs).zip(self.inputs) {
            let start = tensor.offset * operand.dtype.size();
            let from = tensor.bytes.get(start..start + operand.bytes());
            let from = from.ok_or_else(|| Error::argument("an input is shorter than the operation reads"))?;
            bytes_mut(words, operand.bytes()).copy_from_slice(from);
        }
        let mut outputs: Vec<Vec<u128>> = function.outputs.iter().map(room).collect();
        let lent: Vec<&[u8]> = inputs.iter().zip(&function.inputs).map(|(w, o)| bytes(w, o.bytes())).collect();
        let mut written: Vec<Option<&mut [u8]>> = outputs
            .iter_mut()
            .zip(&function.outputs)
            .enumerate()
            .map(|(i, (w, o))| body.wanted.contains(&(i as u8)).then(|| bytes_mut(w, o.bytes())))
            .collect();
        function.run(&lent, &mut written, &Serial)?;
        let result = |&o: &u8| {
            let operand = &function.outputs[o as usize];
            let bytes = bytes(&outputs[o as usize], operand.bytes()).to_vec();
            let tensor = HostTensor { dtype: operand.dtype, bytes, offset: 0 };
            let each = (0..tensor.len()).filter_map(|i| tensor.get(i).map(|s| (i, s)));
            each.map(|(i, s)| Expected { position: i as isize, value: Exact::from(s), bound: 0.0 }).collect()
        };
        Ok(body.wanted.iter().map(result).collect())
    }

    fn leaf(&self, node: Node, dtype: DType, index: &[usize], acc: Option<Value>) -> Result<Value> {
        Ok(match node {
            Node::Input(n) => {
                let (access, tensor) = (&self.op.inputs[n as usize], &self.inputs[n as usize]);
                let scalar = match access.position(index) {
                    None => access.fill,
                    Some(at) => tensor.at(at).ok_or_else(|| {
                        Error::argument(format!("input {n} has no element {at}: it holds {}", tensor.len()))
                    })?,
                };
                Value::from(scalar)
            }
            Node::Param(n) => match self.params.get(n as usize) {
                Some(s) if s.dtype() == dtype => Value::from(*s),
                _ => return Err(Error::argument(format!("parameter {n} is missing or not of dtype {dtype}"))),
            },
            Node::Const(s) => Value::from(s),
            Node::Index(d) => Value::int(index[d as usize] as i128),
            Node::Acc => acc.ok_or_else(|| Error::internal("an accumulator outside a contraction"))?,
            _ => return Err(Error::internal("a reduction outside a row program")),
        })
    }

    /// A node that is computed from others.
    fn inner(&self, expr: &Expr, node: Node, dtype: DType, get: impl Fn(Id) -> Value) -> Option<Value> {
        let t = self.tolerance;
        Some(match node {
            Node::Unary(u, a) => unary(u, get(a), expr.dtype(a), t),
            Node::Binary(b, x, y) => binary(b, get(x), get(y), x == y, expr.dtype(x), t),
            Node::Select(c, x, y) => Value::select(get(c), get(x), get(y)),
            Node::Cast(a) => get(a).cast(expr.dtype(a), dtype),
            Node::Random(c, x, y) => Value::random(get(c), get(x), get(y)),
            _ => return None,
        })
    }

    /// All nodes at one index, into `values`.
    fn nodes(&self, expr: &Expr, index: &[usize], acc: Option<Value>, values: &mut Vec<Value>) -> Result<()> {
        values.clear();
        for &(node, dtype) in expr.nodes() {
            let value = match self.inner(expr, node, dtype, |id| values[id.at()]) {
                Some(value) => value,
                None => self.leaf(node, dtype, index, acc)?,
            };
            values.push(value);
        }
        Ok(())
    }

    fn map(&self, expr: &Expr) -> Result<Vec<Vec<Expected>>> {
        let mut out = vec![Vec::new(); self.op.outputs.len()];
        let mut values = Vec::new();
        walk(&self.op.dims, |index| {
            self.nodes(expr, index, None, &mut values)?;
            for ((access, &id), out) in self.op.outputs.iter().zip(expr.outputs()).zip(&mut out) {
                if first_visit(access, index) {
                    out.push(store(access, index, values[id.at()]));
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn rows(&self, inner: usize, expr: &Expr) -> Result<Vec<Vec<Expected>>> {
        let op = self.op;
        let rank = op.dims.len();
        let varies = op.varying();
        let length: usize = op.dims[inner..].iter().product();
        let mut elements = Vec::with_capacity(length);
        walk(&op.dims[inner..], |index| {
            elements.push(index.to_vec());
            Ok(())
        })?;
        let origin = vec![vec![0; rank - inner]];
        let mut out = vec![Vec::new(); op.outputs.len()];
        walk(&op.dims[..inner], |row| {
            let mut index = row.to_vec();
            index.resize(rank, 0);
            let mut columns: Vec<Vec<Value>> = Vec::with_capacity(expr.nodes().len());
            for (id, &(node, dtype)) in expr.nodes().iter().enumerate() {
                let one = |columns: &[Vec<Value>], id: Id, e: usize| {
                    let column = &columns[id.at()];
                    if varies[id.at()] { column[e] } else { column[0] }
                };
                let mut column = Vec::new();
                if let Node::Reduce(r, a) = node {
                    let values: Vec<Value> = (0..length).map(|e| one(&columns, a, e)).collect();
                    column.push(reduce::reduce(r, &values, expr.dtype(a), self.tolerance));
                } else {
                    // What does not vary along the row exists even for a row without elements.
                    let visited = if varies[id] { &elements } else { &origin };
                    for (e, element) in visited.iter().enumerate() {
                        column.push(match self.inner(expr, node, dtype, |id| one(&columns, id, e)) {
                            Some(value) => value,
                            None => {
                                index[inner..].copy_from_slice(element);
                                self.leaf(node, dtype, &index, None)?
                            }
                        });
                    }
                }
                columns.push(column);
            }
            for ((access, &id), out) in op.outputs.iter().zip(expr.outputs()).zip(&mut out) {
                let per_row = (inner..rank).all(|d| access.strides[d] == 0 || op.dims[d] == 1);
                for (e, element) in (if per_row { &origin } else { &elements }).iter().enumerate() {
                    index[inner..].copy_from_slice(element);
                    if first_visit(access, &index) {
                        out.push(store(access, &index, columns[id.at()][if varies[id.at()] { e } else { 0 }]));
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn contract(&self, c: &Contract) -> Result<Vec<Vec<Expected>>> {
        let op = self.op;
        let (batch, m, n, k) = (&op.dims[..c.m], &op.dims[c.m..c.n], &op.dims[c.n..c.k], &op.dims[c.k..]);
        let k_len: usize = k.iter().product();
        let mut out = vec![Vec::new(); op.outputs.len()];
        let mut values = Vec::new();
        if m.contains(&0) || n.contains(&0) {
            return Ok(out);
        }
        walk(batch, |b| {
            let lhs = self.operand(c, &c.lhs, b, m, c.m)?;
            let rhs = self.operand(c, &c.rhs, b, n, c.n)?;
            let more = Looser::of(c, &lhs, &rhs, k_len);
            let mut index = vec![0; op.dims.len()];
            index[..c.m].copy_from_slice(b);
            let (mut i, mut j) = (0, 0);
            walk(m, |at_m| {
                index[c.m..c.n].copy_from_slice(at_m);
                walk(n, |at_n| {
                    index[c.n..c.k].copy_from_slice(at_n);
                    let (left, right) = (&lhs[i * k_len..][..k_len], &rhs[j * k_len..][..k_len]);
                    let acc = more.apply(reduce::dot(left, right, c.acc, self.tolerance), i, j);
                    self.nodes(&c.epilogue, &index, Some(acc), &mut values)?;
                    for ((access, &id), out) in op.outputs.iter().zip(c.epilogue.outputs()).zip(&mut out) {
                        if first_visit(access, &index) {
                            out.push(store(access, &index, values[id.at()]));
                        }
                    }
                    j += 1;
                    Ok(())
                })?;
                (i, j) = (i + 1, 0);
                Ok(())
            })
        })?;
        Ok(out)
    }

    fn gather(&self, gather: &Gather) -> Result<Vec<Vec<Expected>>> {
        let op = self.op;
        let mut out = Vec::new();
        let input = |n: usize, at: isize| {
            let missing =
                || Error::argument(format!("input {n} has no element {at}: it holds {}", self.inputs[n].len()));
            self.inputs[n].at(at).ok_or_else(missing)
        };
        walk(&op.dims, |index| {
            let offset = |n: usize| op.inputs[n].position(index).unwrap_or(0);
            let mut at = Some(offset(0));
            for (j, l) in gather.lookups.iter().enumerate() {
                let Exact::Int(wanted) = Exact::from(input(j + 1, offset(j + 1))?) else {
                    return Err(Error::internal("an index that is no integer"));
                };
                let inside = (-(l.size as i128)..l.size as i128).contains(&wanted);
                if !inside && gather.outside == Outside::Error {
                    let own = (0..index.len()).filter(|&d| !op.inputs[j + 1].ignores(d));
                    let number = own.fold(0, |number, d| number * op.dims[d] + index[d]);
                    return Err(Error::index(wanted, l.size, Some(number)));
                }
                let wanted = if wanted < 0 { wanted + l.size as i128 } else { wanted };
                at = at.filter(|_| inside).map(|p| p + wanted as isize * l.stride);
            }
            let scalar = match at {
                Some(at) => input(0, at)?,
                None => op.inputs[0].fill,
            };
            if first_visit(&op.outputs[0], index) {
                out.push(store(&op.outputs[0], index, Value::from(scalar)));
            }
            Ok(())
        })?;
        Ok(vec![out])
    }

    fn scan(&self, inner: usize, r: Reduce) -> Result<Vec<Vec<Expected>>> {
        let op = self.op;
        let (input, output) = (&op.inputs[0], &op.outputs[0]);
        let length: usize = op.dims[inner..].iter().product();
        let mut out = Vec::new();
        walk(&op.dims[..inner], |row| {
            let mut index = row.to_vec();
            index.resize(op.dims.len(), 0);
            let mut values = Vec::with_capacity(length);
            for i in 0..length {
                if let Some(last) = index.get_mut(inner) {
                    *last = i;
                }
                values.push(self.leaf(Node::Input(0), input.dtype, &index, None)?);
                out.push(store(output, &index, reduce::reduce(r, &values, input.dtype, self.tolerance)));
            }
            Ok(())
        })?;
        Ok(vec![out])
    }

    fn attention(&self, a: Attention) -> Result<Vec<Vec<Expected>>> {
        let (op, t) = (self.op, self.tolerance);
        let at = op.dims.len() - 4;
        let [m, n, d, e] = [0, 1, 2, 3].map(|i| op.dims[at + i]);
        let dtype = op.outputs[0].dtype;
        let of = dtype.compute();
        let scale = self.leaf(Node::Param(0), of, &[], None)?;
        let mut out = Vec::new();
        walk(&op.dims[..at], |batch| {
            let read = |input: usize, inner: [usize; 4]| {
                let index: Vec<usize> = batch.iter().copied().chain(inner).collect();
                self.leaf(Node::Input(input as u16), op.inputs[input].dtype, &index, None)
            };
            for i in 0..m {
                let q = (0..d).map(|c| read(0, [i, 0, c, 0])).collect::<Result<Vec<_>>>()?;
                let (mut seen, mut scores) = (Vec::new(), Vec::new());
                // Where minus infinity is added to every score, no key is seen.
                let mut blind = true;
                for j in 0..n {
                    if a.causal && j + m > i + n {
                        continue;
                    }
                    let k = (0..d).map(|c| read(1, [0, j, c, 0])).collect::<Result<Vec<_>>>()?;
                    let dot = reduce::dot(&q, &k, of, t);
                    let mut score = binary(Binary::Mul, dot, scale, false, of, t);
                    if a.mask {
                        let mask = read(3, [i, j, 0, 0])?;
                        match mask {
                            Value::Int(w) if w.v == 0 => continue,
                            Value::Int(_) => {}
                            number => score = binary(Binary::Add, score, number, false, of, t),
                        }
                        blind &= matches!(mask, Value::Real(r) if r.v == f64::NEG_INFINITY);
                    } else {
                        blind = false;
                    }
                    seen.push(j);
                    scores.push(score);
                }
                let weights: Vec<Value> = if seen.is_empty() || blind {
                    Vec::new()
                } else {
                    let most = reduce::reduce(Reduce::Max, &scores, of, t);
                    // A device may find another largest score; the shares do not depend on it but for rounding.
                    let less = |&s: &Value| unary(Unary::Exp, binary(Binary::Sub, s, most, false, of, t), of, t);
                    let powers: Vec<Value> = scores.iter().map(less).collect();
                    let total = reduce::reduce(Reduce::Sum, &powers, of, t);
                    let shares = powers.into_iter().map(|p| binary(Binary::Div, p, total, false, of, t));
                    shares.map(|s| if of == dtype { s } else { rounded_to_half(s, dtype) }).collect()
                };
                for c in 0..e {
                    let v = seen.iter().map(|&j| read(2, [0, j, 0, c])).collect::<Result<Vec<_>>>()?;
                    let mut value = match weights.is_empty() {
                        true => Value::from(Scalar::zero(of)),
                        false => reduce::dot(&weights, &v, of, t),
                    };
                    // Shares may be divided by their sum before or after they are multiplied.
                    if let Value::Real(r) = &mut value {
                        r.e *= 2.0;
                    }
                    let index: Vec<usize> = batch.iter().copied().chain([i, 0, 0, c]).collect();
                    out.push(store(&op.outputs[0], &index, value));
                }
            }
            Ok(())
        })?;
        Ok(vec![out])
    }

    /// One operand of a contraction for a batch index: for each of its free indices, the values along k.
    fn operand(&self, c: &Contract, expr: &Expr, batch: &[usize], free: &[usize], at: usize) -> Result<Vec<Value>> {
        let Some(&id) = expr.outputs().first() else {
            return Err(Error::internal("an operand without a result"));
        };
        let dtype = expr.dtype(id);
        let computed = matches!(expr.node(id), Node::Unary(..) | Node::Binary(..) | Node::Select(..));
        let mut index = vec![0; self.op.dims.len()];
        index[..c.m].copy_from_slice(batch);
        let (mut out, mut values) = (Vec::new(), Vec::new());
        walk(free, |f| {
            index[at..at + f.len()].copy_from_slice(f);
            walk(&self.op.dims[c.k..], |k| {
                index[c.k..].copy_from_slice(k);
                self.nodes(expr, &index, None, &mut values)?;
                let mut value = values[id.at()];
                if computed {
                    value = value.perhaps_stored(dtype);
                }
                out.push(if dtype == c.acc { value } else { value.cast(dtype, c.acc) });
                Ok(())
            })
        })?;
        Ok(out)
    }
}

/// What a contraction's accuracy allows beyond the rounding of plain sums.
#[derive(Default)]
struct Looser {
    /// The allowed error for the sums of each index of the left and of the right operand: the larger counts, since nothing here
    /// says which operand is the image.
    left: Vec<f64>,
    right: Vec<f64>,
}

impl Looser {
    fn of(c: &Contract, lhs: &[Value], rhs: &[Value], k_len: usize) -> Looser {
        let (Accuracy::Winograd, true, true) = (c.accuracy, k_len > 0, c.acc.is_float()) else {
            return Looser::default();
        };
        let size = |v: &Value| if let Value::Real(r) = v { r.v.abs() + r.e } else { 0.0 };
        let unit = c.accuracy.more(k_len) * value::Format::of(c.acc).u;
        let largest = |of: &[Value]| of.iter().map(size).fold(0.0f64, |a, b| if b.is_nan() { b } else { a.max(b) });
        let bounds = |of: &[Value], other: &[Value]| {
            let most = unit * largest(other);
            of.chunks_exact(k_len).map(|row| most * row.iter().map(size).sum::<f64>()).collect()
        };
        Looser { left: bounds(lhs, rhs), right: bounds(rhs, lhs) }
    }

    fn apply(&self, sum: Value, i: usize, j: usize) -> Value {
        let (Value::Real(r), Some(a), Some(b)) = (sum, self.left.get(i), self.right.get(j)) else { return sum };
        let e = r.e + a + b;
        // Infinities and NaNs go elsewhere by other ways of computing.
        if !e.is_finite() || !r.v.is_finite() {
            return Value::Real(value::Real::unknown());
        }
        Value::Real(value::Real { e, ..r }.loose_if_zero(true))
    }
}

/// A share of attention that a device may have rounded to a half type, as it was before it was divided by the sum of all.
fn rounded_to_half(share: Value, dtype: DType) -> Value {
    // Half a step of a normal number relative to it, half a step of a subnormal one.
    let (relative, least) = if dtype == DType::F16 { (11, 25) } else { (8, 134) };
    match share {
        Value::Real(r) if r.v.is_finite() => {
            Value::Real(value::Real { e: r.e + (r.v.abs() + r.e) * 0.5f64.powi(relative) + 0.5f64.powi(least), ..r })
        }
        other => other,
    }
}

/// Whether this is the first index at which the access reaches its element: it ignores dimensions of stride 0.
fn first_visit(access: &Access, index: &[usize]) -> bool {
    index.iter().zip(&access.strides).all(|(&i, &s)| s != 0 || i == 0)
}

fn store(access: &Access, index: &[usize], value: Value) -> Expected {
    let position = access.base + index.iter().zip(&access.strides).map(|(&i, &s)| i as isize * s).sum::<isize>();
    let (value, bound) = value.stored(access.dtype);
    Expected { position, value, bound }
}

/// A unary operation on a value of dtype `of`.
fn unary(op: Unary, a: Value, of: DType, t: Tolerance) -> Value {
    match a {
        Value::Int(a) => Value::Int(whole::unary(op, a, of)),
        Value::Real(a) => Value::Real(real::unary(op, a, of, t)),
        Value::Complex(a) if op == Unary::Abs => Value::Real(complex::abs(a, of, t)),
        Value::Complex(a) if op == Unary::Imag => Value::Real(value::Real::within(a.v.im, a.e)),
        Value::Complex(a) => Value::Complex(complex::unary(op, a, of, t)),
    }
}

/// A binary operation on values of dtype `of`; `same` if both are one node.
fn binary(op: Binary, a: Value, b: Value, same: bool, of: DType, t: Tolerance) -> Value {
    if op.is_comparison() {
        return Value::Int(value::compare(op, a, b, same));
    }
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(whole::binary(op, a, b, of)),
        (Value::Real(a), Value::Real(b)) if op == Binary::Complex => Value::Complex(complex::join(a, b)),
        (Value::Real(a), Value::Real(b)) => Value::Real(real::binary(op, a, b, of, t)),
        (Value::Complex(a), Value::Complex(b)) => Value::Complex(complex::binary(op, a, b, of, t)),
        // The operation was checked: both operands have one dtype.
        (other, _) => other,
    }
}
