//! Contractions of tensors: einsum, tensordot, vecdot, outer.

use millstream_core::what::Dims;
use millstream_core::{Accuracy, Error, Layout, Result};
use smallvec::SmallVec;

use crate::Tensor;
use crate::arguments::{Axes, Integer};
use crate::graph::{Contraction, Inputs, Role, Roles};

/// A label of a dimension: a letter of the formula, or the position, counted from the end, of a dimension under an ellipsis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Hidden(std::cmp::Reverse<usize>),
    Letter(char),
}

type Labels = SmallVec<[Label; 6]>;

/// A tensor whose dimensions have labels, each once.
#[derive(Clone)]
struct Labelled {
    tensor: Tensor,
    labels: Labels,
}

impl Labelled {
    fn size(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|&l| l == label).map(|d| self.tensor.sizes()[d])
    }

    /// The tensor with the dimensions of these labels, in this order; those it lacks are of size 1.
    fn ordered(&self, labels: &[Label]) -> Result<Tensor> {
        let mut order: SmallVec<[usize; 6]> = SmallVec::new();
        let mut tensor = self.tensor.clone();
        for label in labels {
            match self.labels.iter().position(|l| l == label) {
                Some(d) => order.push(d),
                None => {
                    order.push(tensor.rank());
                    tensor = tensor.unsqueeze(-1);
                }
            }
        }
        let out = tensor.permute(&order);
        out.check()?;
        Ok(out)
    }

    /// Summed over all dimensions but those of these labels.
    fn summed(self, keep: impl Fn(Label) -> bool) -> Result<Labelled> {
        let gone: Vec<usize> = (0..self.labels.len()).filter(|&d| !keep(self.labels[d])).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        // Sums keep the dtype here, as products do.
        let dtype = self.tensor.dtype();
        let tensor = self.tensor.sum(&gone).cast(dtype);
        tensor.check()?;
        let labels = self.labels.iter().copied().filter(|&l| keep(l)).collect();
        Ok(Labelled { tensor, labels })
    }
}

/// Reads the labels of one operand; an ellipsis takes the dimensions that have no letter.
fn labels(text: &str, rank: Option<usize>) -> Result<Labels> {
    let bad = || Error::argument(format!("\"{text}\" are not labels of dimensions")).suggest("use letters and one ...");
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text.as_str(), None),
    };
    let letters = before.chars().count() + after.map_or(0, |a| a.chars().count());
    if before.chars().chain(after.unwrap_or_default().chars()).any(|c| !c.is_alphabetic()) {
        return Err(bad());
    }
    let hidden = match rank {
        Some(rank) if after.is_some() && rank >= letters => rank - letters,
        Some(rank) if rank == letters => 0,
        Some(rank) => {
            return Err(Error::shape(format!("\"{text}\" has {letters} labels for a tensor of {rank} dimensions")));
        }
        None => 0,
    };
    let mut out: Labels = before.chars().map(Label::Letter).collect();
    out.extend((0..hidden).rev().map(|i| Label::Hidden(std::cmp::Reverse(i))));
    out.extend(after.unwrap_or_default().chars().map(Label::Letter));
    Ok(out)
}

/// The view of a tensor in which a label that stands twice names the diagonal.
fn diagonal(tensor: &Tensor, labels: Labels) -> Result<Labelled> {
    let (mut shape, mut strides, mut seen) = (Dims::new(), SmallVec::<[isize; 6]>::new(), Labels::new());
    for (d, &label) in labels.iter().enumerate() {
        let (n, s) = (tensor.sizes()[d], tensor.layout.strides()[d]);
        match seen.iter().position(|&l| l == label) {
            Some(at) if shape[at] == n => strides[at] += s,
            Some(at) => {
                return Err(Error::shape(format!("one label names dimensions of {} and {n} elements", shape[at])));
            }
            None => {
                seen.push(label);
                shape.push(n);
                strides.push(s);
            }
        }
    }
    let layout = Layout::new(&shape, &strides, tensor.layout.offset())?;
    Ok(Labelled { tensor: Tensor { layout, node: tensor.node.clone() }, labels: seen })
}

/// The contraction of two: labels that `keep` does not want and both have are summed over; the result's dimensions stand in
/// the order of `order`, where it has them.
fn contract(a: Labelled, b: Labelled, order: &[Label], keep: impl Fn(Label) -> bool) -> Result<Labelled> {
    let dtype = a.tensor.dtype().promote(b.tensor.dtype())?;
    // A dimension of size 1 beside a longer one is broadcast: the operand has none of it.
    let shrink = |x: &Labelled, other: &Labelled| -> Labelled {
        let mut out = x.clone();
        for d in (0..x.labels.len()).rev() {
            let label = x.labels[d];
            if x.tensor.sizes()[d] == 1 && other.size(label).is_some_and(|n| n != 1) {
                out = Labelled { tensor: out.tensor.select(d as isize, 0), labels: out.labels };
                out.labels.remove(d);
            }
        }
        out
    };
    let (a, b) = (shrink(&a, &b), shrink(&b, &a));
    for &label in &a.labels {
        if let (Some(x), Some(y)) = (a.size(label), b.size(label))
            && x != y
        {
            return Err(Error::shapes_differ(a.tensor.sizes(), b.tensor.sizes())
                .suggest("dimensions of one label have one size"));
        }
    }
    // What only one has and nobody wants is summed before.
    let (sum_a, sum_b) = (a.clone(), b.clone());
    let a = a.summed(|l| keep(l) || sum_b.labels.contains(&l))?;
    let b = b.summed(|l| keep(l) || sum_a.labels.contains(&l))?;
    let has = |x: &Labelled, l: Label| x.labels.contains(&l);
    let shared: Labels = a.labels.iter().copied().filter(|&l| has(&b, l)).collect();
    let k: Labels = shared.iter().copied().filter(|&l| !keep(l)).collect();
    let mut out: Labels = order.iter().copied().filter(|&l| has(&a, l) || has(&b, l)).collect();
    for &l in a.labels.iter().chain(&b.labels) {
        // A label that a later operand needs may stand in both.
        if keep(l) && !out.contains(&l) {
            out.push(l);
        }
    }
    let mut roles = Roles::new();
    for &l in &out {
        roles.push(match (has(&a, l), has(&b, l)) {
            (true, true) => Role::Batch,
            (true, false) => Role::M,
            (false, true) => Role::N,
            (false, false) => return Err(Error::argument("the result has a label that no operand has")),
        });
    }
    let of = |role: Role| out.iter().zip(&roles).filter(move |(_, r)| **r == role).map(|(l, _)| *l);
    let left: Labels = of(Role::Batch).chain(of(Role::M)).chain(k.iter().copied()).collect();
    let right: Labels = of(Role::Batch).chain(k.iter().copied()).chain(of(Role::N)).collect();
    let inputs = Inputs::from_buf([a.tensor.cast(dtype), b.tensor.cast(dtype)]);
    let (a, b) = (
        Labelled { tensor: inputs[0].clone(), labels: a.labels },
        Labelled { tensor: inputs[1].clone(), labels: b.labels },
    );
    let inputs = Inputs::from_buf([a.ordered(&left)?, b.ordered(&right)?]);
    let contraction = Contraction { roles, accuracy: Accuracy::Full };
    Ok(Labelled { tensor: Tensor::new_node(contraction, inputs)?, labels: out })
}

/// # Contractions
impl Tensor {
    /// Sums of products by Einstein's notation, as in NumPy: `"bij,bjk->bik"` is a matmul, `"ii->i"` a diagonal,
    /// `"ij->j"` a sum of columns. Letters name dimensions; `...` stands for any others, which broadcast. Without `->` the
    /// letters that stand once come out, in alphabetical order. Of several operands the first two are contracted, then the
    /// result with the next. Half types are summed in f32, integers wrap.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let a = Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    /// assert_eq!(Tensor::einsum("ij,kj->ki", &[&a, &a]).to_vec::<f32>()?, [5.0, 11.0, 11.0, 25.0]);
    /// assert_eq!(Tensor::einsum("ii", &[&a]).item::<f32>()?, 5.0);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn einsum<T: AsRef<Tensor>>(formula: &str, operands: impl IntoIterator<Item = T>) -> Tensor {
        let operands: Vec<T> = operands.into_iter().collect();
        let operands: Vec<&Tensor> = operands.iter().map(T::as_ref).collect();
        Tensor::build("einsum", || {
            let (from, to) = match formula.split_once("->") {
                Some((from, to)) => (from, Some(to)),
                None => (formula, None),
            };
            let parts: Vec<&str> = from.split(',').collect();
            if parts.len() != operands.len() || operands.is_empty() {
                return Err(Error::argument(format!(
                    "\"{from}\" names {} operands, not {}",
                    parts.len(),
                    operands.len()
                )));
            }
            let mut all: Vec<Labelled> = Vec::with_capacity(operands.len());
            let mut counted: Vec<(Label, usize)> = Vec::new();
            for (part, operand) in parts.iter().zip(operands) {
                operand.check()?;
                let labels = labels(part, Some(operand.rank()))?;
                for &l in &labels {
                    match counted.iter_mut().find(|c| c.0 == l) {
                        Some(c) => c.1 += 1,
                        None => counted.push((l, 1)),
                    }
                }
                all.push(diagonal(operand, labels)?);
            }
            counted.sort();
            let hidden: Labels = counted.iter().map(|c| c.0).filter(|l| matches!(l, Label::Hidden(_))).collect();
            let out: Labels = match to {
                None => counted.iter().filter(|c| c.1 == 1 || matches!(c.0, Label::Hidden(_))).map(|c| c.0).collect(),
                Some(to) => {
                    let letters = to.chars().filter(|c| c.is_alphabetic()).count();
                    labels(to, Some(letters + if to.contains("...") { hidden.len() } else { 0 }))?
                }
            };
            for (i, l) in out.iter().enumerate() {
                if out[..i].contains(l) || !counted.iter().any(|c| c.0 == *l) {
                    return Err(Error::argument(format!(
                        "\"{formula}\": each label of the result stands once there and in some operand"
                    )));
                }
            }
            let mut rest = all.into_iter();
            let mut done = rest.next().ok_or_else(|| Error::argument("einsum needs an operand"))?;
            let mut rest: Vec<Labelled> = rest.collect();
            rest.reverse();
            while let Some(next) = rest.pop() {
                let later = |l: Label| rest.iter().any(|r| r.labels.contains(&l));
                done = contract(done, next, &out, |l| out.contains(&l) || later(l))?;
            }
            done.summed(|l| out.contains(&l))?.ordered(&out)
        })
    }

    /// The sum of products over pairs of axes: `axes[0][i]` of this tensor with `axes[1][i]` of the other. The result has this
    /// tensor's other axes, then the other's.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let a = Tensor::arange(0, 6).reshape(&[1, 2, 3]);
    /// let b = Tensor::arange(0, 6).reshape(&[3, 2]);
    /// assert_eq!(a.tensordot(&b, [1, 2], [1, 0]).to_vec::<i64>()?, [50]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, axes: impl Into<Axes>, other_axes: impl Into<Axes>) -> Tensor {
        let (axes, other_axes) = (axes.into(), other_axes.into());
        Tensor::build("tensordot", || {
            self.check()?;
            other.check()?;
            let (axes, other_axes) = (axes.of(self.rank())?, other_axes.of(other.rank())?);
            if axes.len() != other_axes.len() {
                return Err(Error::argument(format!("{axes:?} and {other_axes:?} are not pairs of axes")));
            }
            let name = |i: usize| Label::Hidden(std::cmp::Reverse(i));
            let mut a: Labels = (0..self.rank()).map(name).collect();
            let mut b: Labels = (0..other.rank()).map(|d| name(self.rank() + d)).collect();
            for (i, (&x, &y)) in axes.iter().zip(&other_axes).enumerate() {
                if self.sizes()[x] != other.sizes()[y] {
                    return Err(Error::shapes_differ(self.sizes(), other.sizes()));
                }
                let pair = name(self.rank() + other.rank() + i);
                (a[x], b[y]) = (pair, pair);
            }
            let last = self.rank() + other.rank();
            let keep = |l: Label| matches!(l, Label::Hidden(i) if i.0 < last);
            let out: Labels = a.iter().chain(&b).copied().filter(|&l| keep(l)).collect();
            let (a, b) = (Labelled { tensor: self.clone(), labels: a }, Labelled { tensor: other.clone(), labels: b });
            Ok(contract(a, b, &out, keep)?.tensor)
        })
    }

    /// The sum of products along one axis of both, the others broadcast. Complex numbers of the left are not conjugated.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let a = Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    /// let b = Tensor::from_slice(&[1.0f32, 10.0]);
    /// assert_eq!(a.vecdot(&b, -1).to_vec::<f32>()?, [21.0, 43.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn vecdot(&self, other: &Tensor, axis: impl Integer) -> Tensor {
        Tensor::build("vecdot", || {
            self.check()?;
            other.check()?;
            let named = |x: &Tensor| -> Result<Labelled> {
                let at = x.axis(axis)?;
                let hidden = (0..x.rank()).map(|d| Label::Hidden(std::cmp::Reverse(x.rank() - 1 - d)));
                let labels = hidden.enumerate().map(|(d, l)| if d == at { Label::Letter('k') } else { l }).collect();
                Ok(Labelled { tensor: x.clone(), labels })
            };
            let (a, b) = (named(self)?, named(other)?);
            if a.size(Label::Letter('k')) != b.size(Label::Letter('k')) {
                return Err(Error::shapes_differ(self.sizes(), other.sizes())
                    .suggest("both need the same number of elements along the axis"));
            }
            let mut out: Labels =
                a.labels.iter().chain(&b.labels).copied().filter(|l| *l != Label::Letter('k')).collect();
            out.sort();
            out.dedup();
            let keep = |l: Label| l != Label::Letter('k');
            Ok(contract(a, b, &out, keep)?.tensor)
        })
    }

    /// Every product of an element of this vector with one of the other.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (a, b) = (Tensor::from_slice(&[1, 2]), Tensor::from_slice(&[3, 4, 5]));
    /// assert_eq!(a.outer(&b).to_vec::<i32>()?, [3, 4, 5, 6, 8, 10]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        Tensor::build("outer", || {
            self.check()?;
            other.check()?;
            if self.rank() != 1 || other.rank() != 1 {
                return Err(Error::shape("outer takes two vectors").suggest("use einsum for more dimensions"));
            }
            // Without sums it is an element-wise product, and fuses as such.
            Ok(&self.unsqueeze(1) * &other.unsqueeze(0))
        })
    }
}
