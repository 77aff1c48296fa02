//! Values made of several: joined, assigned to, or cut into regions because they read such a value.

use millstream_core::what::{elements, row_major};
use millstream_core::{Access, Error, Layout, Op};

use super::super::capture::{Edge, Graph, Source};
use super::super::fuse::Fused;
use super::writer::{Tables, Writer};
use super::{Failure, Lowered, Lowering, numbers};
use crate::graph::{Assign, Concat, Kind, compose, is_whole};

/// The most operations that one map is cut into.
const MOST_REGIONS: usize = 64;

/// Makes the operations that write a domain: one, if one expression computes all of it; else the domain is cut where the
/// expression changes.
pub(super) fn regions(
    fused: &Fused,
    cluster: usize,
    domain: &[usize],
    mut lower: impl FnMut(&Layout) -> Lowering<Lowered>,
) -> Lowering<Vec<Lowered>> {
    let mut waiting = vec![Layout::contiguous(domain)?];
    let mut out = Vec::new();
    // What has to be stored if a region cannot be written.
    let mut cause = None;
    while let Some(region) = waiting.pop() {
        match (lower(&region), cause) {
            (Ok(lowered), _) => out.push(lowered),
            (Err(Failure::Cut { inner, .. }), _) if out.len() + waiting.len() >= MOST_REGIONS => {
                return Err(Failure::Store(inner));
            }
            (Err(Failure::Cut { inner, dim, at }), _) => {
                cause = Some(inner);
                let rest = region.shape()[dim] - at;
                waiting.push(region.slice(dim, at, rest, 1)?);
                waiting.push(region.slice(dim, 0, at, 1)?);
            }
            // Whole, it could be written.
            (Err(Failure::Store(inner)), Some(cause)) if inner == cluster || !fused.inlined[inner] => {
                return Err(Failure::Store(cause));
            }
            (Err(failure), _) => return Err(failure),
        }
    }
    Ok(out)
}

/// One map for each part of a value made of several, each writing its own place in it.
pub(super) fn concat(graph: &Graph, fused: &Fused, cluster: usize, v: usize) -> Lowering<Vec<Lowered>> {
    let node = &graph.nodes[v];
    let Kind::Concat(Concat { axis, .. }) = node.kind else {
        return Err(Error::internal("not a concatenation").into());
    };
    let whole = row_major(&node.shape);
    let mut out = Vec::with_capacity(node.inputs.len());
    let mut start = 0;
    for edge in &node.inputs {
        let size = edge.layout.shape()[axis];
        if size > 0 {
            let begin = start as isize * whole[axis];
            let parts = part(graph, fused, cluster, v, edge, &whole)?.into_iter();
            out.extend(parts.map(|l| Lowered { write_offset: l.write_offset + begin, ..l }));
        }
        start += size;
    }
    Ok(out)
}

/// Maps that write what an edge reads to a part of a value, along these strides from its beginning.
fn part(
    graph: &Graph,
    fused: &Fused,
    cluster: usize,
    v: usize,
    edge: &Edge,
    strides: &[isize],
) -> Lowering<Vec<Lowered>> {
    let (domain, node) = (edge.layout.shape(), &graph.nodes[v]);
    let plain = row_major(domain);
    regions(fused, cluster, domain, |region| {
        let mut tables = Tables::new(graph, fused, cluster, domain.len());
        let mut writer = Writer::new(&mut tables, (0..domain.len()).collect());
        let through = compose(&edge.layout, domain, region)?.ok_or(Failure::Store(cluster))?;
        let id = writer.edge(edge, &through)?;
        let expr = writer.builder.finish(&[id]);
        let op = Op::map(region.shape(), tables.inputs, vec![Access::new(node.dtype, strides)], expr)?;
        let (reads, params, name) = (tables.reads, numbers(tables.params), format!("map {}", node.kind.name()));
        let write_offset = begin(&plain, region, strides);
        Ok(Lowered { op, reads, params, name, writes: vec![v], write_offset, write_edge: None, over: None, cluster })
    })
}

/// Where a region of a domain begins, along these strides.
fn begin(plain: &[isize], region: &Layout, strides: &[isize]) -> isize {
    let mut rest = region.offset() as isize;
    let steps = plain.iter().zip(strides).map(|(&plain, &stride)| {
        let index = rest / plain.max(1);
        rest -= index * plain;
        index * stride
    });
    steps.sum()
}

/// A value with a part assigned. Where nobody else needs the value as it was, the part is written over it; else it is copied.
pub(super) fn assign(graph: &Graph, fused: &Fused, cluster: usize, v: usize) -> Lowering<Vec<Lowered>> {
    let node = &graph.nodes[v];
    let (Kind::Assign(Assign { region }), [base, value]) = (&node.kind, &node.inputs[..]) else {
        return Err(Error::internal("not an assignment").into());
    };
    let in_place = match base.source {
        Source::Leaf(_) => node.claimed,
        // What computes it can write it where the result will be.
        Source::Node(p) => {
            let edges = graph.nodes.iter().flat_map(|n| &n.inputs).filter(|e| e.source == base.source);
            edges.count() == 1
                && graph.nodes[p].device == node.device
                && !graph.outputs.contains(p)
                && !fused.inlined[fused.of[p]]
                && is_whole(&base.layout)
                && elements(&graph.nodes[p].shape) == elements(&node.shape)
        }
    };
    let mut out = Vec::with_capacity(2);
    if !in_place {
        out.extend(part(graph, fused, cluster, v, base, &row_major(&node.shape))?);
    }
    let write = part(graph, fused, cluster, v, value, region.strides())?.into_iter();
    out.extend(write.map(|l| Lowered { write_edge: node.place, over: in_place.then_some(base.source), ..l }));
    Ok(out)
}
