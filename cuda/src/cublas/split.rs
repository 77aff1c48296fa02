//! An epilogue as an operation of its own: a map that reads the accumulators from scratch memory.

use millstream_core::what::{Dims, row_major};
use millstream_core::{Access, Body, Error, ExprBuilder, Id, Node, Op, Result};

use super::matrix::Matmul;

/// What comes behind a matmul whose accumulators lie in scratch memory.
#[derive(Clone, Debug)]
pub(crate) struct SplitEpilogue {
    /// The map: its input 0 is the accumulators.
    pub(crate) op: Op,
    /// Which inputs of the contraction are the map's further inputs.
    pub(crate) inputs: Vec<usize>,
    /// Bytes of the accumulators.
    pub(crate) bytes: usize,
}

impl SplitEpilogue {
    /// The epilogue of a contraction; `None` where the matmul is its output already.
    pub(crate) fn of(op: &Op, matmul: &Matmul) -> Result<Option<SplitEpilogue>> {
        if matmul.direct {
            return Ok(None);
        }
        let Body::Contract(c) = &op.body else {
            return Err(Error::internal("only a contraction has an epilogue"));
        };
        let dims: Dims = op.dims[..c.k].into();
        let strides = row_major(&dims);
        let mut accesses = vec![Access::new(c.acc, &strides)];
        let mut inputs: Vec<usize> = Vec::new();
        let mut b = ExprBuilder::new();
        let mut ids: Vec<Id> = Vec::with_capacity(c.epilogue.nodes().len());
        for &(node, dtype) in c.epilogue.nodes() {
            let at = |id: Id| ids[id.at()];
            let node = match node {
                Node::Acc => Node::Input(0),
                Node::Input(i) => {
                    let i = usize::from(i);
                    let position = inputs.iter().position(|&j| j == i).unwrap_or_else(|| {
                        inputs.push(i);
                        accesses.push(without_k(&op.inputs[i], c.k));
                        inputs.len() - 1
                    });
                    Node::Input(position as u16 + 1)
                }
                Node::Reduce(..) => return Err(Error::internal("an epilogue cannot reduce")),
                other => other.with_operands(at),
            };
            ids.push(b.push(node, dtype));
        }
        let results: Vec<Id> = c.epilogue.outputs().iter().map(|id| ids[id.at()]).collect();
        let outputs = op.outputs.iter().map(|a| without_k(a, c.k)).collect();
        let bytes = millstream_core::what::elements(&dims) * c.acc.size();
        let op = Op::map(&dims, accesses, outputs, b.finish(&results))?;
        Ok(Some(SplitEpilogue { op, inputs, bytes }))
    }
}

/// An access over the dimensions before k, which it ignores.
fn without_k(access: &Access, k: usize) -> Access {
    let mut access = access.clone();
    access.strides.truncate(k);
    for guard in &mut access.guards {
        guard.coefficients.truncate(k);
    }
    access
}
