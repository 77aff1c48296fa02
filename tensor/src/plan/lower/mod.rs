//! Lowering: a cluster becomes one operation, or one for each part of what it writes.
//!
//! Expressions are written by walking from the values that the cluster must store down to what it reads, composing layouts on
//! the way, so that views cost nothing and values computed inside other readers are simply written out here. A map that reads
//! a value made of several (joined, rolled, padded) without that being in memory is cut where the parts meet.

// The operations of lookups, scans, attention and host functions.
mod alone;
// Values made of several, and maps that are cut into regions.
mod parts;
// The expression of an operation.
mod writer;

use millstream_core::what::Dims;
use millstream_core::{Access, Contract, Error, Layout, Op, Result};
use smallvec::SmallVec;

use super::capture::{Edge, Graph, GraphNode, Number, Source};
use super::fuse::{Cluster, Form, Fused, Level};
use crate::graph::{Contraction, Kind, Role, row_layout};
use alone::{alone, lower_host};
use parts::{assign, concat, regions};
use writer::{Tables, Writer};

/// What an operation reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    pub source: Source,
    /// For a leaf: the edge whose offset is added at the launch.
    pub edge: Option<usize>,
    /// Elements from there to index 0.
    pub offset: isize,
}

/// A cluster as an operation.
pub(crate) struct Lowered {
    pub op: Op,
    pub reads: Vec<Read>,
    /// The nodes whose values it stores.
    pub writes: Vec<usize>,
    /// Elements from the beginning of the values that it stores to the first that it writes.
    pub write_offset: isize,
    /// The edge whose offset is added to that at the launch.
    pub write_edge: Option<usize>,
    /// The value that it overwrites: what it stores lies in the same memory.
    pub over: Option<Source>,
    /// The operation's parameters.
    pub params: Vec<Number>,
    pub name: String,
    /// The cluster that it computes, or part of it.
    pub cluster: usize,
}

/// Why a cluster could not be lowered.
pub(crate) enum Failure {
    /// This inlined cluster has to be stored after all.
    Store(usize),
    /// The expression changes at this index of this dimension, because parts of a value meet there. What cannot be cut has to
    /// have the value's cluster stored.
    Cut { inner: usize, dim: usize, at: usize },
    /// Anything else.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

type Lowering<T> = std::result::Result<T, Failure>;

/// The groups of dimensions of a contraction: batch, m, n and k, in this order in the operation's index space.
struct Groups {
    /// For each dimension of the result, its dimension of the index space.
    target: Vec<usize>,
    /// The first of the m and of the n dimensions.
    m: usize,
    n: usize,
    /// The sizes of the k dimensions.
    k: Dims,
}

impl Groups {
    fn of(node: &GraphNode) -> Result<Groups> {
        let Kind::Contract(Contraction { roles, .. }) = &node.kind else {
            return Err(Error::internal("a contraction was expected"));
        };
        let of = |role: Role| (0..roles.len()).filter(move |&d| roles[d] == role);
        let mut target = vec![0; roles.len()];
        for (at, d) in of(Role::Batch).chain(of(Role::M)).chain(of(Role::N)).enumerate() {
            target[d] = at;
        }
        let m = of(Role::Batch).count();
        let n = m + of(Role::M).count();
        Ok(Groups { target, m, n, k: node.inputs[0].layout.shape()[n..].into() })
    }
}

/// Makes the operations of a cluster: one, but for values that are made of several.
pub(super) fn lower(graph: &Graph, fused: &Fused, cluster: usize, stored: &[bool]) -> Lowering<Vec<Lowered>> {
    let c = &fused.clusters[cluster];
    match c.form {
        Form::Concat(v) if matches!(graph.nodes[v].kind, Kind::Assign(_)) => assign(graph, fused, cluster, v),
        Form::Concat(v) => concat(graph, fused, cluster, v),
        Form::Alone(v) => Ok(vec![alone(graph, fused, v)?]),
        Form::Host => Ok(vec![lower_host(graph, c, cluster, writes(c, stored))?]),
        Form::Map => regions(fused, cluster, &c.domain, |region| map(graph, fused, cluster, stored, region)),
        Form::Rows(_) | Form::Contract(_) => match whole(graph, fused, cluster, stored) {
            Err(Failure::Cut { inner, .. }) => Err(Failure::Store(inner)),
            lowered => Ok(vec![lowered?]),
        },
    }
}

/// The nodes of a cluster that are stored.
fn writes(c: &Cluster, stored: &[bool]) -> Vec<usize> {
    c.nodes.iter().copied().filter(|&n| stored[n]).collect()
}

/// The operation that writes this region of the values of a map.
fn map(graph: &Graph, fused: &Fused, cluster: usize, stored: &[bool], region: &Layout) -> Lowering<Lowered> {
    let c = &fused.clusters[cluster];
    let writes = writes(c, stored);
    let mut tables = Tables::new(graph, fused, cluster, region.rank());
    let mut writer = Writer::new(&mut tables, (0..region.rank()).collect());
    let ids = writes.iter().map(|&n| writer.node(n, region)).collect::<Lowering<Vec<_>>>()?;
    let expr = writer.builder.finish(&ids);
    let outputs = writes.iter().map(|&n| Access::new(graph.nodes[n].dtype, region.strides())).collect();
    let op = Op::map(region.shape(), tables.inputs, outputs, expr)?;
    let name = name(graph, &c.form, &c.nodes);
    let (reads, params) = (tables.reads, numbers(tables.params));
    let write_offset = region.offset() as isize;
    Ok(Lowered { op, reads, params, name, writes, write_offset, write_edge: None, over: None, cluster })
}

/// The operation of a row program, or of a contraction and its epilogue.
fn whole(graph: &Graph, fused: &Fused, cluster: usize, stored: &[bool]) -> Lowering<Lowered> {
    let c = &fused.clusters[cluster];
    let writes = writes(c, stored);
    let groups = match c.form {
        Form::Contract(v) => Some(Groups::of(&graph.nodes[v])?),
        _ => None,
    };
    let rank = c.domain.len() + groups.as_ref().map_or(0, |g| g.k.len());
    let mut tables = Tables::new(graph, fused, cluster, rank);
    let element = Layout::contiguous(&c.domain)?;
    // Where each dimension of the domain stands in the operation's index space, and that space's sizes.
    let (dims, space): (Vec<usize>, Dims) = match &c.form {
        Form::Rows(axes) => {
            let order: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).chain(axes.iter().copied()).collect();
            let mut target = vec![0; rank];
            for (new, &old) in order.iter().enumerate() {
                target[old] = new;
            }
            (target, order.iter().map(|&d| c.domain[d]).collect())
        }
        _ => {
            let groups = groups.as_ref().ok_or_else(|| Error::internal("a contraction without groups"))?;
            let mut space: Dims = SmallVec::from_elem(0, c.domain.len());
            for (&at, &n) in groups.target.iter().zip(&c.domain) {
                space[at] = n;
            }
            space.extend_from_slice(&groups.k);
            (groups.target.clone(), space)
        }
    };
    let mut results = Writer::new(&mut tables, dims);
    let mut outputs = Vec::new();
    let mut ids = Vec::new();
    for &n in &writes {
        let layout = match (&c.form, fused.level[n]) {
            (Form::Rows(axes), Level::Row) => row_layout(&c.domain, axes)?,
            _ => element.clone(),
        };
        ids.push(results.node(n, &layout)?);
        outputs.push(Access::new(graph.nodes[n].dtype, &results.expand(layout.strides())));
    }
    let expr = results.builder.finish(&ids);
    let op = match &c.form {
        Form::Rows(axes) => Op::rows(&space, rank - axes.len(), tables.inputs, outputs, expr)?,
        Form::Contract(v) => {
            let product = &graph.nodes[*v];
            let Kind::Contract(Contraction { accuracy, .. }) = product.kind else {
                return Err(Error::internal("a contraction was expected").into());
            };
            let groups = groups.ok_or_else(|| Error::internal("a contraction without groups"))?;
            let (m, n, k) = (groups.m, groups.n, c.domain.len());
            let mut operand = |edge: &Edge, dims: Vec<usize>| -> Lowering<_> {
                let mut w = Writer::new(&mut tables, dims);
                let id = w.edge(edge, &edge.layout)?;
                Ok(w.builder.finish(&[id]))
            };
            let lhs = operand(&product.inputs[0], (0..n).chain(k..rank).collect())?;
            let rhs = operand(&product.inputs[1], (0..m).chain(k..rank).chain(n..k).collect())?;
            let contract = Contract { m, n, k, lhs, rhs, acc: product.dtype.compute(), epilogue: expr, accuracy };
            Op::contract(&space, tables.inputs, outputs, contract)?
        }
        _ => return Err(Error::internal("neither rows nor a contraction").into()),
    };
    let name = name(graph, &c.form, &c.nodes);
    let (reads, params) = (tables.reads, numbers(tables.params));
    Ok(Lowered { op, reads, params, name, writes, write_offset: 0, write_edge: None, over: None, cluster })
}

fn numbers(params: Vec<usize>) -> Vec<Number> {
    params.into_iter().map(Number::Given).collect()
}

/// For each node, whether its value has to be in memory: somebody wants it, or another operation reads it.
pub(super) fn stored(graph: &Graph, fused: &Fused) -> Vec<bool> {
    let mut stored = vec![false; graph.nodes.len()];
    for &n in graph.outputs.iter() {
        stored[n] = true;
    }
    for (r, node) in graph.nodes.iter().enumerate() {
        for edge in &node.inputs {
            if let Source::Node(n) = edge.source {
                stored[n] |= fused.of[r] != fused.of[n];
            }
        }
    }
    stored
}

/// A name for people: the form and the first few operations.
fn name(graph: &Graph, form: &Form, nodes: &[usize]) -> String {
    let mut names: Vec<&str> = nodes.iter().map(|&n| graph.nodes[n].kind.name()).collect();
    names.dedup();
    let form = match form {
        Form::Map => "map",
        Form::Rows(_) => "rows",
        Form::Contract(_) => "contract",
        Form::Host => "host",
        Form::Concat(_) => "concat",
        Form::Alone(_) => "alone",
    };
    let more = if names.len() > 8 { format!(" and {} more", names.len() - 8) } else { String::new() };
    names.truncate(8);
    format!("{form} {}{more}", names.join(" "))
}

/// For the planner: lowers these clusters, and on the way stores what turned out not to be expressible inside its reader.
pub(crate) fn lower_all(graph: &Graph, fused: &mut Fused, is_meant: impl Fn(usize) -> bool) -> Result<Vec<Lowered>> {
    let stored = stored(graph, fused);
    'again: loop {
        let mut out = Vec::new();
        for &c in &fused.order {
            if fused.inlined[c] || !is_meant(c) {
                continue;
            }
            match lower(graph, fused, c, &stored) {
                Ok(lowered) => out.extend(lowered),
                Err(Failure::Store(inner)) if fused.inlined[inner] => {
                    fused.inlined[inner] = false;
                    continue 'again;
                }
                Err(Failure::Store(_) | Failure::Cut { .. }) => {
                    return Err(Error::internal("an operation cannot express its own index space"));
                }
                Err(Failure::Error(error)) => return Err(error),
            }
        }
        return Ok(out);
    }
}
