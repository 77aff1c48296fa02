//! Cases: an operation with its memory, laid out so that mistakes show.
//!
//! Every operand lies between margins of its own. Those of inputs hold poison (all bits set, NaN for floats) that must not
//! reach a result; outputs are poisoned as a whole, and everything but the written elements must stay as it was.

use smallvec::SmallVec;

use super::random::{Domain, Random};
use crate::error::Result;
use crate::what::{Access, DType, Expr, Guard, HostTensor, Op, Scalar, row_major};

/// Elements before and behind each operand.
const MARGIN: usize = 32;

/// What outputs are filled with beforehand.
pub(super) const POISON: u8 = 0xa5;

/// One operand: how it is accessed, and its memory.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub access: Access,
    /// The elements with their margins; the offset is the element of index 0.
    pub tensor: HostTensor,
    /// The elements that belong to the operand.
    pub owned: std::ops::Range<usize>,
}

impl Operand {
    /// Memory for a plain access, `shift` elements further from an aligned address.
    pub fn new(dtype: DType, dims: &[usize], strides: &[isize], shift: usize) -> Operand {
        let (mut low, mut high, mut empty) = (0isize, 0isize, false);
        for (&n, &s) in dims.iter().zip(strides).filter(|(_, s)| **s != 0) {
            empty |= n == 0;
            let far = (n as isize - 1) * s;
            (low, high) = (low + far.min(0), high + far.max(0));
        }
        let len = if empty { 0 } else { (high - low + 1) as usize };
        let mut operand = Operand::sized(dtype, strides, len, shift);
        if !empty {
            operand.tensor.offset += low.unsigned_abs();
        }
        operand
    }

    /// Memory of `len` elements for an access that begins at the first.
    pub fn sized(dtype: DType, strides: &[isize], len: usize, shift: usize) -> Operand {
        let start = MARGIN + shift;
        let bytes = vec![0xff; (start + len + MARGIN) * dtype.size()];
        let tensor = HostTensor { dtype, bytes, offset: start };
        Operand { access: Access::new(dtype, strides), tensor, owned: start..start + len }
    }

    /// With guards and a base, for padding.
    pub fn guarded(mut self, base: isize, guards: Vec<Guard>, fill: Scalar) -> Operand {
        self.access = Access { base, guards: SmallVec::from_vec(guards), fill, ..self.access };
        self
    }

    /// With random values.
    pub fn random(mut self, random: &mut Random, domain: Domain) -> Result<Operand> {
        for i in self.owned.clone() {
            let value = random.value(self.tensor.dtype, domain);
            self.tensor.set(i, value)?;
        }
        Ok(self)
    }

    /// As an output: nothing but poison.
    pub fn poisoned(mut self) -> Operand {
        self.tensor.bytes.fill(POISON);
        self
    }
}

/// An operation with its memory.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub name: String,
    pub dtype: DType,
    pub layout: &'static str,
    pub op: Op,
    pub inputs: Vec<HostTensor>,
    /// The elements of each input that belong to it.
    pub inputs_owned: Vec<std::ops::Range<usize>>,
    pub outputs: Vec<HostTensor>,
    pub outputs_owned: Vec<std::ops::Range<usize>>,
    pub params: Vec<Scalar>,
}

impl Case {
    /// Takes the operands' memory for an operation that `make` builds from their accesses.
    pub fn new(
        name: impl Into<String>,
        dtype: DType,
        layout: &'static str,
        inputs: Vec<Operand>,
        outputs: Vec<Operand>,
        make: impl FnOnce(Vec<Access>, Vec<Access>) -> Result<Op>,
    ) -> Result<Case> {
        let accesses = |list: &[Operand]| list.iter().map(|o| o.access.clone()).collect();
        let op = make(accesses(&inputs), accesses(&outputs))?;
        let split = |list: Vec<Operand>| list.into_iter().map(|o| (o.tensor, o.owned)).unzip();
        let (inputs, inputs_owned) = split(inputs);
        let (outputs, outputs_owned) = split(outputs.into_iter().map(Operand::poisoned).collect());
        let (name, params) = (name.into(), Vec::new());
        Ok(Case { name, dtype, layout, op, inputs, inputs_owned, outputs, outputs_owned, params })
    }

    pub fn with_params(self, params: Vec<Scalar>) -> Case {
        Case { params, ..self }
    }
}

/// How the operands of a map lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Contiguous(usize),
    Misaligned,
    Empty,
    EmptyInside,
    SizeOne,
    Broadcast,
    Flipped,
    Transposed,
    Strided,
    Permuted,
    Padded,
}

impl Form {
    /// All but the contiguous one of an ordinary length.
    pub const AWKWARD: [Form; 10] = [
        Form::Misaligned,
        Form::Broadcast,
        Form::Flipped,
        Form::Transposed,
        Form::Strided,
        Form::Permuted,
        Form::Padded,
        Form::SizeOne,
        Form::Empty,
        Form::EmptyInside,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Form::Contiguous(_) => "contiguous",
            Form::Misaligned => "misaligned",
            Form::Empty | Form::EmptyInside => "empty",
            Form::SizeOne => "size 1",
            Form::Broadcast => "broadcast",
            Form::Flipped => "flipped",
            Form::Transposed => "transposed",
            Form::Strided => "strided",
            Form::Permuted => "permuted",
            Form::Padded => "padded",
        }
    }

    pub fn dims(self) -> Vec<usize> {
        match self {
            Form::Contiguous(n) => vec![n],
            Form::Misaligned => vec![67],
            Form::Empty => vec![0],
            Form::EmptyInside => vec![3, 0, 2],
            Form::SizeOne => vec![1, 5, 1],
            Form::Permuted => vec![2, 3, 2, 3, 2],
            Form::Padded => vec![4, 9],
            _ => vec![6, 11],
        }
    }

    /// Memory for input `i`.
    pub fn input(self, i: usize, dtype: DType, random: &mut Random) -> Operand {
        let dims = self.dims();
        let plain = || row_major(&dims).to_vec();
        let strides = match self {
            Form::Misaligned => return Operand::new(dtype, &dims, &plain(), 1 + i % 3),
            Form::Broadcast => [[0, 1], [11, 1], [1, 0], [0, 0]][i % 4].to_vec(),
            Form::Flipped => [[11, -1], [-11, 1], [-11, -1]][i % 3].to_vec(),
            Form::Transposed => [[1, 6], [11, 1]][i % 2].to_vec(),
            Form::Strided => [[26, 2], [11, 1], [40, 3]][i % 3].to_vec(),
            Form::Permuted => [[1, 2, 6, 12, 36], [36, 12, 6, 2, 1], [12, 24, 6, 2, 1]][i % 3].to_vec(),
            Form::Padded => {
                // Five elements a row, two before them and two behind that do not exist.
                let guard = Guard { coefficients: [0, 1].as_slice().into(), offset: -2, limit: 5 };
                let fill = random.value(dtype, Domain::Small);
                return Operand::sized(dtype, &[5, 1], 20, 0).guarded(-2, vec![guard], fill);
            }
            _ => plain(),
        };
        Operand::new(dtype, &dims, &strides, 0)
    }

    /// Memory for output `o`.
    pub fn output(self, o: usize, dtype: DType) -> Operand {
        let dims = self.dims();
        let strides = match self {
            Form::Misaligned => return Operand::new(dtype, &dims, &[1], 3 - o % 3),
            Form::Flipped => [[-11, -1], [11, -1]][o % 2].to_vec(),
            Form::Transposed => [[11, 1], [1, 6]][o % 2].to_vec(),
            Form::Strided => [[33, 3], [22, 2]][o % 2].to_vec(),
            Form::Permuted => [[36, 12, 6, 2, 1], [1, 2, 6, 12, 36]][o % 2].to_vec(),
            _ => row_major(&dims).to_vec(),
        };
        Operand::new(dtype, &dims, &strides, 0)
    }
}

/// A map of this form with random inputs, one domain for each.
pub(super) fn map(
    name: impl Into<String>,
    dtype: DType,
    form: Form,
    inputs: &[(DType, Domain)],
    expr: Expr,
    random: &mut Random,
) -> Result<Case> {
    let mut operands = Vec::new();
    for (i, &(dtype, domain)) in inputs.iter().enumerate() {
        let operand = form.input(i, dtype, random);
        operands.push(operand.random(random, domain)?);
    }
    let outputs = expr.outputs().iter().enumerate().map(|(o, &id)| form.output(o, expr.dtype(id))).collect();
    Case::new(name, dtype, form.name(), operands, outputs, |i, o| Op::map(&form.dims(), i, o, expr))
}
