//! Operations that join nothing and read only what is in memory.

use millstream_core::what::{Dims, Strides, row_major};
use millstream_core::{Access, DType, Error, Kind as Family, Op, Result, Scalar};

use super::super::capture::{Edge, Graph, GraphNode, Number, Source};
use super::super::fuse::{Cluster, Form, Fused};
use super::{Failure, Lowered, Lowering, Read, name};
use crate::graph::{Attention, Gather, HostOutput, Kind, Scan};

/// A lookup, a scan or attention: reads memory, and nothing else.
pub(super) fn alone(graph: &Graph, fused: &Fused, v: usize) -> Lowering<Lowered> {
    let node = &graph.nodes[v];
    let (mut inputs, mut reads) = (Vec::new(), Vec::new());
    for edge in &node.inputs {
        if let Source::Node(p) = edge.source
            && fused.inlined[fused.of[p]]
        {
            return Err(Failure::Store(fused.of[p]));
        }
        inputs.push(Access::of(edge.dtype, &edge.layout));
        // The offset into a leaf comes with its edge at the launch.
        let offset = if edge.edge.is_some() { 0 } else { edge.layout.offset() as isize };
        reads.push(Read { source: edge.source, edge: edge.edge, offset });
    }
    let output = Access::new(node.dtype, &row_major(&node.shape));
    let op = match &node.kind {
        Kind::Gather(Gather { lookups, outside }) => {
            inputs[0].fill = missing(node.dtype);
            Op::gather(&node.shape, inputs, output, lookups, *outside)?
        }
        Kind::Scan(Scan { reduce, axis }) => {
            // The dimension that is walked is the last of an operation, wherever it lies in memory.
            let (mut dims, mut input, mut output) = (node.shape.clone(), inputs.remove(0), output);
            dims[*axis..].rotate_left(1);
            input.strides[*axis..].rotate_left(1);
            output.strides[*axis..].rotate_left(1);
            Op::scan(&dims, input, output, *reduce)?
        }
        Kind::Attention(Attention { causal, .. }) => attention(node, *causal)?,
        other => return Err(Error::internal(format!("{} does not stand alone", other.name())).into()),
    };
    let name = format!("{} {}", op.name(), node.kind.name());
    let params = match node.number {
        Some(number) => vec![number],
        None => (0..op.params()).map(|p| Number::Given(node.first_param + p)).collect(),
    };
    let cluster = fused.of[v];
    Ok(Lowered { op, reads, params, name, writes: vec![v], write_offset: 0, write_edge: None, over: None, cluster })
}

/// Attention over batch, queries, keys, d and e.
fn attention(node: &GraphNode, causal: bool) -> Result<Op> {
    let [q, k, v, mask @ ..] = &node.inputs[..] else { return Err(Error::internal("attention without operands")) };
    let at = node.shape.len() - 2;
    // Where the last two dimensions of each operand stand among the last four of the index space.
    let access = |edge: &Edge, dims: [usize; 2]| {
        let mut strides: Strides = edge.layout.strides()[..at].iter().copied().chain([0; 4]).collect();
        for (i, dim) in dims.into_iter().enumerate() {
            strides[at + dim] = edge.layout.strides()[at + i];
        }
        Access::new(edge.dtype, &strides)
    };
    let mut inputs = vec![access(q, [0, 2]), access(k, [1, 2]), access(v, [1, 3])];
    inputs.extend(mask.iter().map(|m| access(m, [0, 1])));
    let mut dims: Dims = node.shape[..=at].into();
    dims.extend([k.layout.shape()[at], k.layout.shape()[at + 1], node.shape[at + 1]]);
    let plain = row_major(&node.shape);
    let mut strides: Strides = plain[..=at].iter().copied().chain([0, 0]).collect();
    strides.push(plain[at + 1]);
    Op::attention(&dims, inputs, Access::new(node.dtype, &strides), causal)
}

/// What a lookup out of range gives: NaN where there is one, else 0.
fn missing(dtype: DType) -> Scalar {
    match dtype.kind() {
        Family::Float | Family::Complex => Scalar::from_f64(f64::NAN, dtype),
        _ => Scalar::zero(dtype),
    }
}

/// A host function: its inputs lie in memory without gaps, and every wanted output is written whole.
pub(super) fn lower_host(graph: &Graph, c: &Cluster, cluster: usize, mut writes: Vec<usize>) -> Result<Lowered> {
    let output = |n: usize| match &graph.nodes[n].kind {
        Kind::Host(HostOutput { group, output }) => Ok((group, *output)),
        other => Err(Error::internal(format!("{} is no host function", other.name()))),
    };
    let (group, _) = output(c.nodes[0])?;
    writes.sort_by_key(|&n| output(n).map_or(0, |(_, o)| o));
    let wanted = writes.iter().map(|&n| output(n).map(|(_, o)| o)).collect::<Result<Vec<u8>>>()?;
    let mut reads = Vec::new();
    for edge in &graph.nodes[c.nodes[0]].inputs {
        if !edge.layout.is_contiguous() {
            return Err(Error::internal(format!("{} reads a view that is not contiguous", group.function.name())));
        }
        let offset = if edge.edge.is_some() { 0 } else { edge.layout.offset() as isize };
        reads.push(Read { source: edge.source, edge: edge.edge, offset });
    }
    let op = Op::host(group.function.clone(), &wanted)?;
    let name = name(graph, &Form::Host, &c.nodes);
    Ok(Lowered { op, reads, writes, params: Vec::new(), name, write_offset: 0, write_edge: None, over: None, cluster })
}
