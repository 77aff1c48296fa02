//! The dialect for people.

use std::fmt::Write;

use millstream_core::{Access, Body, Op};

use crate::expr::statements;

/// An operation as a person would write it down: what is read and written, how, and what happens at each index.
pub fn listing(op: &Op) -> String {
    let mut text = String::new();
    for (letter, list) in [('x', &op.inputs), ('y', &op.outputs)] {
        for (i, access) in list.iter().enumerate() {
            let _ = writeln!(text, "{letter}{i}: {}", describe(access));
        }
    }
    let dims = |range: std::ops::Range<usize>| format!("{:?}", &op.dims[range]);
    let rank = op.dims.len();
    match &op.body {
        Body::Map(expr) => {
            let _ = writeln!(text, "for each index of {}:", dims(0..rank));
            body(&mut text, &statements(expr, |o| format!("y{o}")));
        }
        Body::Rows { inner, expr } => {
            let _ = writeln!(text, "for each row of {}, over its elements {}:", dims(0..*inner), dims(*inner..rank));
            body(&mut text, &statements(expr, |o| format!("y{o}")));
        }
        Body::Contract(c) => {
            let _ = writeln!(
                text,
                "for each of batch {}, m {}, n {}: sum over k {} in {}:",
                dims(0..c.m),
                dims(c.m..c.n),
                dims(c.n..c.k),
                dims(c.k..rank),
                c.acc
            );
            body(&mut text, &statements(&c.lhs, |_| "lhs".into()));
            body(&mut text, &statements(&c.rhs, |_| "rhs".into()));
            let _ = writeln!(text, "  acc = acc + lhs * rhs");
            let _ = writeln!(text, "then:");
            body(&mut text, &statements(&c.epilogue, |o| format!("y{o}")));
        }
        Body::Host(host) => {
            let _ = writeln!(text, "{:?}, of which {:?} are wanted", host.function, &host.wanted[..]);
        }
        // A body that is new here is shown by the device's own text.
        other => {
            let _ = writeln!(text, "{other:?}");
        }
    }
    text
}

fn body(text: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

fn describe(access: &Access) -> String {
    let mut text = format!("{} strides {:?}", access.dtype, &access.strides[..]);
    if !access.is_plain() {
        let _ = write!(text, ", {} where outside {} guards", access.fill, access.guards.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use millstream_core::{Contract, DType, Expr, ExprBuilder, Unary};

    use super::*;

    #[test]
    fn a_contraction_reads_from_operands_to_epilogue() {
        let mut b = ExprBuilder::new();
        let acc = b.push(millstream_core::Node::Acc, DType::F32);
        let t = b.unary(Unary::Tanh, acc).unwrap();
        let epilogue = b.finish(&[t]);
        let mut b = ExprBuilder::new();
        let x1 = b.input(1, DType::F32);
        let rhs = b.finish(&[x1]);
        let contract = Contract {
            m: 0,
            n: 1,
            k: 2,
            lhs: Expr::input(DType::F32),
            rhs,
            acc: DType::F32,
            epilogue,
            accuracy: Default::default(),
        };
        let f32s = |strides: &[isize]| Access::new(DType::F32, strides);
        let op = Op::contract(&[2, 3, 4], vec![f32s(&[4, 0, 1]), f32s(&[0, 1, 3])], vec![f32s(&[3, 1, 0])], contract)
            .unwrap();
        assert_eq!(
            listing(&op),
            "x0: f32 strides [4, 0, 1]\nx1: f32 strides [0, 1, 3]\ny0: f32 strides [3, 1, 0]\n\
             for each of batch [], m [2], n [3]: sum over k [4] in f32:\n  lhs = x0\n  rhs = x1\n  \
             acc = acc + lhs * rhs\nthen:\n  y0 = tanh(acc)\n"
        );
    }
}
