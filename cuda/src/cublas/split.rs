//! An epilogue as an operation of its own: a map that reads the sums from scratch memory.

use millstream_core::what::{Dims, row_major};
use millstream_core::{Access, Body, Error, ExprBuilder, Id, Node, Op, Result};

use super::matrix::Product;

/// What comes behind a product whose sums lie in scratch memory.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// The map: its input 0 is the sums.
    pub(crate) op: Op,
    /// Which inputs of the contraction are the map's further inputs.
    pub(crate) inputs: Vec<usize>,
    /// Bytes of the sums.
    pub(crate) bytes: usize,
}

impl Split {
    /// The epilogue of a contraction; `None` where the product is its output already.
    pub(crate) fn of(op: &Op, product: &Product) -> Result<Option<Split>> {
        if product.direct {
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
        let mut places: Vec<Id> = Vec::with_capacity(c.epilogue.nodes().len());
        for &(node, dtype) in c.epilogue.nodes() {
            let at = |id: Id| places[id.at()];
            let node = match node {
                Node::Acc => Node::Input(0),
                Node::Input(i) => {
                    let i = usize::from(i);
                    let place = inputs.iter().position(|&j| j == i).unwrap_or_else(|| {
                        inputs.push(i);
                        accesses.push(without_k(&op.inputs[i], c.k));
                        inputs.len() - 1
                    });
                    Node::Input(place as u16 + 1)
                }
                Node::Reduce(..) => return Err(Error::internal("an epilogue cannot reduce")),
                other => other.with_operands(at),
            };
            places.push(b.push(node, dtype));
        }
        let results: Vec<Id> = c.epilogue.outputs().iter().map(|id| places[id.at()]).collect();
        let outputs = op.outputs.iter().map(|a| without_k(a, c.k)).collect();
        let bytes = millstream_core::what::elements(&dims) * c.acc.size();
        let op = Op::map(&dims, accesses, outputs, b.finish(&results))?;
        Ok(Some(Split { op, inputs, bytes }))
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
