//! Maps: every function and operator in every dtype, casts between all pairs, and the layouts they are read through.

use super::case::{Case, Form, map};
use super::random::{Domain, Random};
use crate::error::Result;
use crate::what::{Binary, DType, ExprBuilder, Node, Scalar, Unary};

/// Hands out the awkward forms in turn, so that over all operations each is met often.
struct Turns(usize);

impl Turns {
    fn next(&mut self) -> Form {
        self.0 += 1;
        // Empty and size-1 forms say little about one more function: leave them to the layouts themselves.
        Form::AWKWARD[self.0 % 7]
    }
}

/// Every function of one value in every dtype that has it.
pub(super) fn unary(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    let mut turns = Turns(random.below(7));
    for &op in Unary::ALL {
        for dtype in DType::ALL.into_iter().filter(|&d| op.result(d).is_some()) {
            for form in [Form::Contiguous(203), turns.next()] {
                let mut b = ExprBuilder::new();
                let x = b.input(0, dtype);
                let y = b.unary(op, x)?;
                out.push(map(op.name(), dtype, form, &[(dtype, Domain::Any)], b.finish(&[y]), random)?);
            }
        }
    }
    Ok(out)
}

/// Every operator of two values in every dtype that has it.
pub(super) fn binary(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    let mut turns = Turns(random.below(7));
    for &op in Binary::ALL {
        for dtype in DType::ALL.into_iter().filter(|&d| op.result(d).is_some()) {
            for form in [Form::Contiguous(203), turns.next()] {
                let mut b = ExprBuilder::new();
                let (x, y) = (b.input(0, dtype), b.input(1, dtype));
                let z = b.binary(op, x, y)?;
                // Where random numbers seldom meet, small ones do: equal pairs, whole quotients, shifts inside the width.
                let domain = match op {
                    Binary::Shl | Binary::Shr => Domain::Amount,
                    Binary::Pow if !dtype.is_float() || random.below(2) == 0 => Domain::Amount,
                    _ if form != Form::Contiguous(203) && dtype.is_integer() => Domain::Small,
                    _ => Domain::Any,
                };
                let first = if domain == Domain::Small { Domain::Small } else { Domain::Any };
                let inputs = [(dtype, first), (dtype, domain)];
                let mut case = map(op.name(), dtype, form, &inputs, b.finish(&[z]), random)?;
                if op.is_comparison() && form == Form::Contiguous(203) {
                    // Every other pair is equal.
                    for i in case.inputs_owned[0].clone().step_by(2) {
                        let value = case.inputs[0].get(i).unwrap_or(Scalar::zero(dtype));
                        let from = case.inputs_owned[1].start + i - case.inputs_owned[0].start;
                        case.inputs[1].set(from, value)?;
                    }
                }
                out.push(case);
            }
        }
    }
    Ok(out)
}

/// A cast from every dtype to every other.
pub(super) fn cast(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    let mut turns = Turns(random.below(7));
    for from in DType::ALL {
        for to in DType::ALL.into_iter().filter(|&d| d != from) {
            let form = if random.below(4) == 0 { turns.next() } else { Form::Contiguous(131) };
            let mut b = ExprBuilder::new();
            let x = b.input(0, from);
            let y = b.cast(x, to);
            let name = format!("cast to {to}");
            out.push(map(name, from, form, &[(from, Domain::Any)], b.finish(&[y]), random)?);
        }
    }
    Ok(out)
}

/// Selection, indices, parameters, several outputs, and maps without inputs.
pub(super) fn other(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    let mut turns = Turns(random.below(7));
    for dtype in DType::ALL {
        for form in [Form::Contiguous(67), turns.next()] {
            let mut b = ExprBuilder::new();
            let (c, x, y) = (b.input(0, DType::Bool), b.input(1, dtype), b.input(2, dtype));
            let z = b.select(c, x, y)?;
            let inputs = [(DType::Bool, Domain::Any), (dtype, Domain::Any), (dtype, Domain::Any)];
            out.push(map("select", dtype, form, &inputs, b.finish(&[z]), random)?);
        }
        let mut b = ExprBuilder::new();
        let x = b.input(0, dtype);
        out.push(map("copy", dtype, turns.next(), &[(dtype, Domain::Any)], b.finish(&[x]), random)?);

        let mut b = ExprBuilder::new();
        let p = b.param(0, dtype);
        let case = map("fill", dtype, turns.next(), &[], b.finish(&[p]), random)?;
        out.push(case.with_params(vec![random.value(dtype, Domain::Any)]));

        // Two parameters, two outputs of two dtypes.
        let mut b = ExprBuilder::new();
        let (x, p, q) = (b.input(0, dtype), b.param(0, dtype), b.param(1, dtype));
        let s = b.binary(Binary::Mul, x, p)?;
        let s = b.binary(Binary::Add, s, q)?;
        let e = b.binary(Binary::Eq, x, p)?;
        let form = turns.next();
        let case = map("scale and compare", dtype, form, &[(dtype, Domain::Small)], b.finish(&[s, e]), random)?;
        let params = vec![random.value(dtype, Domain::Small), random.value(dtype, Domain::Small)];
        out.push(case.with_params(params));
    }
    for dtype in [DType::F16, DType::F32, DType::F64] {
        // Roots and inverses of each other, which a compiler may take for one function that differs at zeros.
        let all = [Unary::Recip, Unary::Sqrt, Unary::Rsqrt];
        for first in all {
            let mut b = ExprBuilder::new();
            let x = b.input(0, dtype);
            let x = b.unary(first, x)?;
            let outputs = all.into_iter().map(|second| b.unary(second, x)).collect::<Result<Vec<_>>>()?;
            let form = Form::Contiguous(203);
            out.push(map("roots and inverses", dtype, form, &[(dtype, Domain::Any)], b.finish(&outputs), random)?);
        }
    }
    for form in [Form::Contiguous(70), turns.next()] {
        // Random words of the inputs, under a key of two numbers.
        let mut b = ExprBuilder::new();
        let counter = b.input(0, DType::U32);
        let key = [b.param(0, DType::U32), b.param(1, DType::U32)];
        let word = b.random(counter, key)?;
        let case = map("random", DType::U32, form, &[(DType::U32, Domain::Any)], b.finish(&[word]), random)?;
        out.push(case.with_params(vec![Scalar::new(random.word() as u32), Scalar::new(random.word() as u32)]));
    }
    for form in [Form::Contiguous(70), Form::Permuted, Form::Flipped, Form::SizeOne] {
        // The index of each element as the sum of its indices, in i64 and f32.
        let mut b = ExprBuilder::new();
        let mut sum = b.constant(Scalar::new(-3i64));
        for d in 0..form.dims().len() {
            let i = b.push(Node::Index(d as u8), DType::I64);
            let weight = b.constant(Scalar::new(10i64.pow(d as u32)));
            let share = b.binary(Binary::Mul, i, weight)?;
            sum = b.binary(Binary::Add, sum, share)?;
        }
        let float = b.cast(sum, DType::F32);
        out.push(map("index", DType::I64, form, &[], b.finish(&[sum, float]), random)?);
    }
    Ok(out)
}

/// Every layout, and lengths around all vector widths, for operands of every size.
pub(super) fn layouts(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    for dtype in [DType::U8, DType::F16, DType::F32, DType::I32, DType::F64, DType::C128] {
        for form in Form::AWKWARD {
            let mut b = ExprBuilder::new();
            let (x, y) = (b.input(0, dtype), b.input(1, dtype));
            let s = b.binary(Binary::Add, x, y)?;
            let inputs = [(dtype, Domain::Ordinary), (dtype, Domain::Ordinary)];
            out.push(map("add", dtype, form, &inputs, b.finish(&[s]), random)?);

            let mut b = ExprBuilder::new();
            let (x, y, z) = (b.input(0, dtype), b.input(1, dtype), b.input(2, dtype));
            let p = b.binary(Binary::Mul, x, y)?;
            let s = b.binary(Binary::Add, p, z)?;
            let inputs = [(dtype, Domain::Small); 3];
            out.push(map("multiply and add", dtype, form, &inputs, b.finish(&[s, p]), random)?);
        }
        for n in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 1025, 5000] {
            let mut b = ExprBuilder::new();
            let (x, y) = (b.input(0, dtype), b.input(1, dtype));
            let s = b.binary(Binary::Sub, x, y)?;
            let inputs = [(dtype, Domain::Ordinary), (dtype, Domain::Ordinary)];
            let mut case = map("subtract", dtype, Form::Contiguous(n), &inputs, b.finish(&[s]), random)?;
            case.layout = "tail";
            out.push(case);
        }
    }
    Ok(out)
}
