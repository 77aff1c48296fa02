//! Lowering: a cluster becomes one operation.
//!
//! Expressions are written by walking from the values that the cluster must store down to what it reads, composing layouts on
//! the way, so that views cost nothing and values computed inside other readers are simply written out here.

use millstream_core::what::{Dims, Strides, elements, row_major};
use millstream_core::{
    Access, Binary, Contract, DType, Error, ExprBuilder, Guard, Id, Kind as Family, Layout, Node, Op, Result, Scalar,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::capture::{Edge, Graph, GraphNode, Number, Source};
use super::fuse::{Cluster, Form, Fused, Level};
use crate::graph::{
    Assign, Attention, Concat, Contraction, Gather, HostOutput, Kind, Pad, Role, Scan, compose, is_whole, row_layout,
    through_padding,
};

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
    /// Anything else.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

type Lowering<T> = std::result::Result<T, Failure>;

/// The tables that all expressions of an operation share.
struct Tables<'a> {
    graph: &'a Graph,
    fused: &'a Fused,
    cluster: usize,
    /// The rank of the operation's index space.
    rank: usize,
    inputs: Vec<Access>,
    reads: Vec<Read>,
    known: FxHashMap<(Read, Access), u16>,
    params: Vec<usize>,
}

/// One expression being written, over some of the operation's dimensions.
struct Writer<'a, 'b> {
    tables: &'a mut Tables<'b>,
    builder: ExprBuilder,
    /// For each dimension of the expression's index space, the operation's.
    dims: Vec<usize>,
    memo: FxHashMap<(usize, Layout), Id>,
}

impl<'a> Tables<'a> {
    /// Nothing read yet.
    fn new(graph: &'a Graph, fused: &'a Fused, cluster: usize, rank: usize) -> Tables<'a> {
        Tables {
            graph,
            fused,
            cluster,
            rank,
            inputs: Vec::new(),
            reads: Vec::new(),
            known: FxHashMap::default(),
            params: Vec::new(),
        }
    }

    /// Whether this node is written out here rather than read.
    fn is_inside(&self, node: usize) -> bool {
        let c = self.fused.of[node];
        c == self.cluster || self.fused.inlined[c]
    }

    fn param(&mut self, global: usize) -> u16 {
        let at = self.params.iter().position(|&p| p == global).unwrap_or_else(|| {
            self.params.push(global);
            self.params.len() - 1
        });
        at as u16
    }
}

impl Writer<'_, '_> {
    /// Strides over the expression's dimensions as strides over the operation's.
    fn expand(&self, own: &[isize]) -> Strides {
        let mut strides: Strides = Strides::from_elem(0, self.tables.rank);
        for (&s, &d) in own.iter().zip(&self.dims) {
            strides[d] = s;
        }
        strides
    }

    fn input(&mut self, edge: &Edge, through: &Layout) -> Id {
        let access = Access::new(edge.dtype, &self.expand(through.strides()));
        self.read(edge, through.offset() as isize, access)
    }

    /// The input of a padded value, or the fill, at the positions that `outer` gives.
    fn padded(&mut self, n: usize, outer: &Layout) -> Lowering<Id> {
        let graph = self.tables.graph;
        let (node, edge) = (&graph.nodes[n], &graph.nodes[n].inputs[0]);
        let Kind::Pad(Pad { before, fill, .. }) = &node.kind else {
            return Err(Error::internal("padding was expected").into());
        };
        if let Source::Node(p) = edge.source
            && self.tables.is_inside(p)
        {
            return Err(Failure::Store(self.tables.fused.of[p]));
        }
        let Some(place) = through_padding(&edge.layout, before, &node.shape, outer) else {
            return Err(Failure::Store(self.tables.fused.of[n]));
        };
        let mut access = Access::new(edge.dtype, &self.expand(&place.strides));
        if place.guards.is_empty() {
            return Ok(self.read(edge, place.base, access));
        }
        // Index 0 may lie before the memory, where no binding can begin: the access itself says how far.
        let first = edge.layout.offset() as isize;
        access.base = place.base - first;
        access.fill = *fill;
        access.guards = place
            .guards
            .iter()
            .map(|g| Guard { coefficients: self.expand(&g.coefficients), offset: g.offset, limit: g.limit })
            .collect();
        Ok(self.read(edge, first, access))
    }

    /// An access to an edge's value whose binding begins at this element.
    fn read(&mut self, edge: &Edge, begin: isize, access: Access) -> Id {
        let offset = if edge.edge.is_some() { begin - edge.layout.offset() as isize } else { begin };
        let read = Read { source: edge.source, edge: edge.edge, offset };
        let tables = &mut *self.tables;
        let n = *tables.known.entry((read.clone(), access.clone())).or_insert_with(|| {
            tables.inputs.push(access);
            tables.reads.push(read);
            tables.reads.len() as u16 - 1
        });
        self.builder.input(n, edge.dtype)
    }

    /// The value that an edge reads, at the positions that `through` gives.
    fn edge(&mut self, edge: &Edge, through: &Layout) -> Lowering<Id> {
        match edge.source {
            Source::Node(p) if self.tables.is_inside(p) => self.node(p, through),
            _ => Ok(self.input(edge, through)),
        }
    }

    /// The value of a node, at the row-major positions that `outer` gives.
    fn node(&mut self, n: usize, outer: &Layout) -> Lowering<Id> {
        if let Some(&id) = self.memo.get(&(n, outer.clone())) {
            return Ok(id);
        }
        let graph = self.tables.graph;
        let node = &graph.nodes[n];
        let mut operands = [Id(0); 3];
        if !matches!(node.kind, Kind::Contract(..) | Kind::Pad { .. }) {
            for (slot, edge) in operands.iter_mut().zip(&node.inputs) {
                let through = match node.kind {
                    Kind::Reduce(..) => Some(edge.layout.clone()),
                    _ => compose(&edge.layout, &node.shape, outer)?,
                };
                let Some(through) = through else { return Err(Failure::Store(self.tables.fused.of[n])) };
                *slot = self.edge(edge, &through)?;
            }
        }
        let [a, b, c] = operands;
        let id = match &node.kind {
            Kind::Fill(_) => {
                let p = self.tables.param(node.first_param);
                self.builder.param(p, node.dtype)
            }
            Kind::Iota { .. } => self.iota(n, outer)?,
            Kind::Copy(_) => a,
            Kind::Unary(op) => self.builder.unary(*op, a)?,
            Kind::Binary(op) => self.builder.binary(*op, a, b)?,
            Kind::Select(_) => self.builder.select(a, b, c)?,
            Kind::Cast(_) => self.builder.cast(a, node.dtype),
            Kind::Reduce(r) => self.builder.reduce(r.reduce, a)?,
            Kind::Pad { .. } => self.padded(n, outer)?,
            Kind::Contract(..) => {
                let acc = self.builder.push(Node::Acc, node.dtype.compute());
                self.builder.cast(acc, node.dtype)
            }
            Kind::Random(_) => {
                let number = self.position(outer, DType::U32)?;
                let key = [0, 1].map(|k| self.tables.param(node.first_param + k));
                let key = key.map(|p| self.builder.param(p, DType::U32));
                self.builder.random(number, key)?
            }
            Kind::Leaf(_)
            | Kind::Input(_)
            | Kind::Concat { .. }
            | Kind::Assign(_)
            | Kind::Gather(_)
            | Kind::Scan { .. }
            | Kind::Attention { .. }
            | Kind::Host(..) => {
                return Err(Error::internal(format!("{} inside an expression", node.kind.name())).into());
            }
        };
        self.memo.insert((n, outer.clone()), id);
        Ok(id)
    }

    /// The row-major number of the element that `outer` gives.
    fn position(&mut self, outer: &Layout, dtype: DType) -> Lowering<Id> {
        let mut position = self.builder.constant(Scalar::new(outer.offset() as i64));
        for i in 0..outer.rank() {
            if outer.shape()[i] > 1 && outer.strides()[i] != 0 {
                let index = self.builder.push(Node::Index(self.dims[i] as u8), DType::I64);
                let stride = self.builder.constant(Scalar::new(outer.strides()[i] as i64));
                let part = self.builder.binary(Binary::Mul, index, stride)?;
                position = self.builder.binary(Binary::Add, position, part)?;
            }
        }
        Ok(self.builder.cast(position, dtype))
    }

    /// `start + step * position`.
    fn iota(&mut self, n: usize, outer: &Layout) -> Lowering<Id> {
        let node = &self.tables.graph.nodes[n];
        let (dtype, first) = (node.dtype, node.first_param);
        let position = self.position(outer, dtype)?;
        let (start, step) = (self.tables.param(first), self.tables.param(first + 1));
        let (start, step) = (self.builder.param(start, dtype), self.builder.param(step, dtype));
        let far = self.builder.binary(Binary::Mul, position, step)?;
        Ok(self.builder.binary(Binary::Add, start, far)?)
    }
}

/// The groups of dimensions of a contraction: batch, m, n and k, in this order in the operation's index space.
struct Groups {
    /// For each dimension of the result, its place in the index space.
    place: Vec<usize>,
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
        let mut place = vec![0; roles.len()];
        for (at, d) in of(Role::Batch).chain(of(Role::M)).chain(of(Role::N)).enumerate() {
            place[d] = at;
        }
        let m = of(Role::Batch).count();
        let n = m + of(Role::M).count();
        Ok(Groups { place, m, n, k: node.inputs[0].layout.shape()[n..].into() })
    }
}

/// Makes the operations of a cluster: one, but for values that are made of several.
fn lower(graph: &Graph, fused: &Fused, cluster: usize, stored: &[bool]) -> Lowering<Vec<Lowered>> {
    let c = &fused.clusters[cluster];
    match c.form {
        Form::Concat(v) if matches!(graph.nodes[v].kind, Kind::Assign(_)) => return assign(graph, fused, cluster, v),
        Form::Concat(v) => return concat(graph, fused, cluster, v),
        Form::Alone(v) => return alone(graph, fused, v),
        _ => {}
    }
    let writes: Vec<usize> = c.nodes.iter().copied().filter(|&n| stored[n]).collect();
    if c.form == Form::Host {
        return Ok(vec![lower_host(graph, c, cluster, writes)?]);
    }
    let groups = match c.form {
        Form::Contract(v) => Some(Groups::of(&graph.nodes[v])?),
        _ => None,
    };
    let rank = c.domain.len() + groups.as_ref().map_or(0, |g| g.k.len());
    let mut tables = Tables::new(graph, fused, cluster, rank);
    let element = Layout::contiguous(&c.domain)?;
    // Where each dimension of the domain stands in the operation's index space, and that space's sizes.
    let (dims, space): (Vec<usize>, Dims) = match &c.form {
        Form::Map | Form::Concat(_) | Form::Alone(_) | Form::Host => ((0..rank).collect(), c.domain.as_slice().into()),
        Form::Rows(axes) => {
            let order: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).chain(axes.iter().copied()).collect();
            let mut place = vec![0; rank];
            for (new, &old) in order.iter().enumerate() {
                place[old] = new;
            }
            (place, order.iter().map(|&d| c.domain[d]).collect())
        }
        Form::Contract(_) => {
            let groups = groups.as_ref().ok_or_else(|| Error::internal("a contraction without groups"))?;
            let mut space: Dims = SmallVec::from_elem(0, c.domain.len());
            for (&at, &n) in groups.place.iter().zip(&c.domain) {
                space[at] = n;
            }
            space.extend_from_slice(&groups.k);
            (groups.place.clone(), space)
        }
    };
    let mut results = Writer { tables: &mut tables, builder: ExprBuilder::new(), dims, memo: FxHashMap::default() };
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
        Form::Map | Form::Concat(_) | Form::Alone(_) | Form::Host => Op::map(&space, tables.inputs, outputs, expr)?,
        Form::Rows(axes) => Op::rows(&space, rank - axes.len(), tables.inputs, outputs, expr)?,
        Form::Contract(v) => {
            let product = &graph.nodes[*v];
            let Kind::Contract(Contraction { accuracy, .. }) = product.kind else {
                return Err(Error::internal("a contraction was expected").into());
            };
            let groups = groups.ok_or_else(|| Error::internal("a contraction without groups"))?;
            let (m, n, k) = (groups.m, groups.n, c.domain.len());
            let mut operand = |edge: &Edge, dims: Vec<usize>| -> Lowering<_> {
                let mut w =
                    Writer { tables: &mut tables, builder: ExprBuilder::new(), dims, memo: FxHashMap::default() };
                let id = w.edge(edge, &edge.layout)?;
                Ok(w.builder.finish(&[id]))
            };
            let lhs = operand(&product.inputs[0], (0..n).chain(k..rank).collect())?;
            let rhs = operand(&product.inputs[1], (0..m).chain(k..rank).chain(n..k).collect())?;
            let contract = Contract { m, n, k, lhs, rhs, acc: product.dtype.compute(), epilogue: expr, accuracy };
            Op::contract(&space, tables.inputs, outputs, contract)?
        }
    };
    let name = name(graph, c.form.clone(), &c.nodes);
    Ok(vec![Lowered {
        op,
        reads: tables.reads,
        params: numbers(tables.params),
        name,
        writes,
        write_offset: 0,
        write_edge: None,
        over: None,
        cluster,
    }])
}

fn numbers(params: Vec<usize>) -> Vec<Number> {
    params.into_iter().map(Number::Given).collect()
}

/// One map for each part of a value made of several, each writing its own place in it.
fn concat(graph: &Graph, fused: &Fused, cluster: usize, v: usize) -> Lowering<Vec<Lowered>> {
    let node = &graph.nodes[v];
    let Kind::Concat(Concat { axis, .. }) = node.kind else {
        return Err(Error::internal("not a concatenation").into());
    };
    let whole = row_major(&node.shape);
    let mut out = Vec::with_capacity(node.inputs.len());
    let mut start = 0;
    for edge in &node.inputs {
        let size = edge.layout.shape()[axis];
        let part = part(graph, fused, cluster, v, edge, &whole)?;
        if size > 0 {
            out.push(Lowered { write_offset: start as isize * whole[axis], ..part });
        }
        start += size;
    }
    Ok(out)
}

/// A map that writes what an edge reads to a part of a value, along these strides from its beginning.
fn part(graph: &Graph, fused: &Fused, cluster: usize, v: usize, edge: &Edge, strides: &[isize]) -> Lowering<Lowered> {
    let (domain, node) = (edge.layout.shape(), &graph.nodes[v]);
    let mut tables = Tables::new(graph, fused, cluster, domain.len());
    let dims = (0..domain.len()).collect();
    let mut writer = Writer { tables: &mut tables, builder: ExprBuilder::new(), dims, memo: FxHashMap::default() };
    let id = writer.edge(edge, &edge.layout)?;
    let expr = writer.builder.finish(&[id]);
    let op = Op::map(domain, tables.inputs, vec![Access::new(node.dtype, strides)], expr)?;
    let (reads, params, name) = (tables.reads, numbers(tables.params), format!("map {}", node.kind.name()));
    Ok(Lowered { op, reads, params, name, writes: vec![v], write_offset: 0, write_edge: None, over: None, cluster })
}

/// A value with a part assigned. Where nobody else needs the value as it was, the part is written over it; else it is copied.
fn assign(graph: &Graph, fused: &Fused, cluster: usize, v: usize) -> Lowering<Vec<Lowered>> {
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
                && !graph.outputs.contains(&p)
                && !fused.inlined[fused.of[p]]
                && is_whole(&base.layout)
                && elements(&graph.nodes[p].shape) == elements(&node.shape)
        }
    };
    let mut out = Vec::with_capacity(2);
    if !in_place {
        out.push(part(graph, fused, cluster, v, base, &row_major(&node.shape))?);
    }
    let write = part(graph, fused, cluster, v, value, region.strides())?;
    out.push(Lowered { write_edge: node.place, over: in_place.then_some(base.source), ..write });
    Ok(out)
}

/// A lookup, a scan or attention: reads memory, and nothing else.
fn alone(graph: &Graph, fused: &Fused, v: usize) -> Lowering<Vec<Lowered>> {
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
        Kind::Gather(Gather { lookups }) => {
            inputs[0].fill = missing(node.dtype);
            Op::gather(&node.shape, inputs, output, lookups)?
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
    Ok(vec![Lowered {
        op,
        reads,
        params,
        name,
        writes: vec![v],
        write_offset: 0,
        write_edge: None,
        over: None,
        cluster,
    }])
}

/// Attention over batch, queries, keys, d and e.
fn attention(node: &GraphNode, causal: bool) -> Result<Op> {
    let [q, k, v, mask @ ..] = &node.inputs[..] else { return Err(Error::internal("attention without operands")) };
    let at = node.shape.len() - 2;
    // Where the last two dimensions of each operand stand among the last four of the index space.
    let access = |edge: &Edge, places: [usize; 2]| {
        let mut strides: Strides = edge.layout.strides()[..at].iter().copied().chain([0; 4]).collect();
        for (i, place) in places.into_iter().enumerate() {
            strides[at + place] = edge.layout.strides()[at + i];
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
fn lower_host(graph: &Graph, c: &Cluster, cluster: usize, mut writes: Vec<usize>) -> Result<Lowered> {
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
    let name = name(graph, Form::Host, &c.nodes);
    Ok(Lowered { op, reads, writes, params: Vec::new(), name, write_offset: 0, write_edge: None, over: None, cluster })
}

/// For each node, whether its value has to be in memory: somebody wants it, or another operation reads it.
fn stored(graph: &Graph, fused: &Fused) -> Vec<bool> {
    let mut stored = vec![false; graph.nodes.len()];
    for &n in &graph.outputs {
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
fn name(graph: &Graph, form: Form, nodes: &[usize]) -> String {
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

/// For the planner: lowers, and on the way stores what turned out not to be expressible inside its reader.
pub(crate) fn lower_all(graph: &Graph, fused: &mut Fused) -> Result<Vec<Lowered>> {
    let stored = stored(graph, fused);
    'again: loop {
        let mut out = Vec::new();
        for &c in &fused.order {
            if fused.inlined[c] {
                continue;
            }
            match lower(graph, fused, c, &stored) {
                Ok(lowered) => out.extend(lowered),
                Err(Failure::Store(inner)) if fused.inlined[inner] => {
                    fused.inlined[inner] = false;
                    continue 'again;
                }
                Err(Failure::Store(_)) => {
                    return Err(Error::internal("an operation cannot express its own index space"));
                }
                Err(Failure::Error(error)) => return Err(error),
            }
        }
        return Ok(out);
    }
}
