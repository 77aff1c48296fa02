//! Random fused expressions: maps and row programs as a fuser could make them, and stranger ones.

use super::case::{Case, Form, Operand, map};
use super::random::{Domain, Random};
use crate::error::Result;
use crate::what::{Binary, DType, Expr, ExprBuilder, Id, Op, Reduce, Unary};

/// The dtypes that take part: one of each size and family.
const DTYPES: [DType; 8] =
    [DType::F32, DType::F32, DType::F16, DType::I32, DType::U8, DType::F64, DType::Bool, DType::I64];

/// An expression of `steps` random steps over the inputs, with one to three outputs. Reductions only where `rows` is set.
fn expression(inputs: &[DType], steps: usize, rows: bool, random: &mut Random) -> Expr {
    let mut b = ExprBuilder::new();
    let mut ids: Vec<Id> = inputs.iter().enumerate().map(|(i, &d)| b.input(i as u16, d)).collect();
    for _ in 0..steps {
        let x = ids[random.below(ids.len())];
        let dtype = b.dtype(x);
        let peers: Vec<Id> = ids.iter().copied().filter(|&i| b.dtype(i) == dtype).collect();
        let (y, z) = (random.pick(&peers), random.pick(&peers));
        let made = match random.below(if rows { 12 } else { 10 }) {
            0..3 => b.unary(random.pick(Unary::ALL), x),
            3..7 => b.binary(random.pick(Binary::ALL), x, y),
            7 => b.binary(Binary::Lt, x, y).and_then(|c| b.select(c, y, z)),
            8 => {
                let to = random.pick(&DTYPES);
                Ok(b.cast(x, to))
            }
            9 => {
                let value = random.value(dtype, Domain::Small);
                Ok(b.constant(value))
            }
            _ => b.reduce(random.pick(Reduce::ALL), x),
        };
        // What does not exist for that dtype is just not there.
        ids.extend(made.ok());
    }
    let count = 1 + random.below(3);
    let outputs: Vec<Id> = (0..count).map(|o| ids[ids.len() - 1 - o.min(ids.len() - 1)]).collect();
    b.finish(&outputs)
}

fn some_dtypes(random: &mut Random) -> Vec<DType> {
    (0..1 + random.below(3)).map(|_| random.pick(&DTYPES)).collect()
}

/// The first input's dtype, by which the case is listed.
fn listed(dtypes: &[DType]) -> DType {
    dtypes.first().copied().unwrap_or(DType::F32)
}

/// Random maps over random layouts, and random row programs.
pub(super) fn graphs(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    for _ in 0..60 {
        let dtypes = some_dtypes(random);
        let steps = 1 + random.below(16);
        let expr = expression(&dtypes, steps, false, random);
        let form = if random.below(3) == 0 { Form::Contiguous(97) } else { Form::AWKWARD[random.below(8)] };
        let domain = if random.below(4) == 0 { Domain::Any } else { Domain::Ordinary };
        let inputs: Vec<_> = dtypes.iter().map(|&d| (d, domain)).collect();
        out.push(map("random map", listed(&dtypes), form, &inputs, expr, random)?);
    }
    for _ in 0..40 {
        let dtypes = some_dtypes(random);
        let steps = 2 + random.below(10);
        out.push(rows(dtypes, steps, random)?);
    }
    Ok(out)
}

fn rows(dtypes: Vec<DType>, steps: usize, random: &mut Random) -> Result<Case> {
    let expr = expression(&dtypes, steps, true, random);
    let dims = [1 + random.below(5), 1 + random.below(40)];
    let (r, n) = (dims[0] as isize, dims[1] as isize);
    let (layout, strides) = match random.below(3) {
        0 => ("columns", [1, r]),
        1 => ("strided", [2 * n + 1, 2]),
        _ => ("rows", [n, 1]),
    };
    let mut inputs = Vec::new();
    for (i, &d) in dtypes.iter().enumerate() {
        let strides = if i > 0 && random.below(3) == 0 { [0, 1] } else { strides };
        inputs.push(Operand::new(d, &dims, &strides, 0).random(random, Domain::Ordinary)?);
    }
    // A value for each row where it is one, else a value for each element.
    let varies = expr.varying(|_| dims[1] != 1, 1);
    let outputs = expr
        .outputs()
        .iter()
        .map(|&id| {
            let strides = if varies[id.at()] { [n, 1] } else { [1, 0] };
            Operand::new(expr.dtype(id), &dims, &strides, 0)
        })
        .collect();
    Case::new("random rows", listed(&dtypes), layout, inputs, outputs, |i, o| Op::rows(&dims, 1, i, o, expr))
}
