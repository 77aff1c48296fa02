//! The expression of an operation, written from what it stores down to what it reads.

use millstream_core::what::{Dims, Strides};
use millstream_core::{Access, Binary, DType, Error, ExprBuilder, Guard, Id, Layout, Node, Scalar};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::super::capture::{Edge, Graph, Source};
use super::super::fuse::Fused;
use super::{Failure, Lowering, Read};
use crate::graph::{Concat, Coordinates, Kind, Pad, compose, through_padding};

/// The tables that all expressions of an operation share.
pub(super) struct Tables<'a> {
    graph: &'a Graph,
    fused: &'a Fused,
    cluster: usize,
    /// The rank of the operation's index space.
    rank: usize,
    pub inputs: Vec<Access>,
    pub reads: Vec<Read>,
    known: FxHashMap<(Read, Access), u16>,
    pub params: Vec<usize>,
}

/// One expression being written, over some of the operation's dimensions.
pub(super) struct Writer<'a, 'b> {
    tables: &'a mut Tables<'b>,
    pub builder: ExprBuilder,
    /// For each dimension of the expression's index space, the operation's.
    dims: Vec<usize>,
    memo: FxHashMap<(usize, Layout), Id>,
}

impl<'a> Tables<'a> {
    /// Nothing read yet.
    pub fn new(graph: &'a Graph, fused: &'a Fused, cluster: usize, rank: usize) -> Tables<'a> {
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

impl<'a, 'b> Writer<'a, 'b> {
    /// An expression over these dimensions of the operation.
    pub fn new(tables: &'a mut Tables<'b>, dims: Vec<usize>) -> Writer<'a, 'b> {
        Writer { tables, builder: ExprBuilder::new(), dims, memo: FxHashMap::default() }
    }

    /// Strides over the expression's dimensions as strides over the operation's.
    pub fn expand(&self, own: &[isize]) -> Strides {
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
            let Some(at) = Coordinates::of(&node.shape, outer).filter(|_| !outer.is_empty()) else {
                return Err(Failure::Store(self.tables.fused.of[p]));
            };
            for (axis, (&before, &size)) in before.iter().zip(edge.layout.shape()).enumerate() {
                let (low, high) = at.reach(axis);
                let end = before + size;
                if high < before || low >= end {
                    return Ok(self.builder.constant(*fill));
                }
                let meets = if low < before { Some(before) } else { (high >= end).then_some(end) };
                if let Some(index) = meets {
                    return Err(self.cut(p, &at, axis, index));
                }
            }
            return self.part(edge, &at, before);
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

    /// The part of a value made of several that lies at the positions that `outer` gives.
    fn joined(&mut self, n: usize, axis: usize, outer: &Layout) -> Lowering<Id> {
        let node = &self.tables.graph.nodes[n];
        let Some(at) = Coordinates::of(&node.shape, outer).filter(|_| !outer.is_empty()) else {
            return Err(Failure::Store(self.tables.fused.of[n]));
        };
        let (low, high) = at.reach(axis);
        let mut begin = 0;
        for edge in &node.inputs {
            let end = begin + edge.layout.shape()[axis];
            if low < end && high >= end {
                return Err(self.cut(n, &at, axis, end));
            }
            if low < end {
                let mut before: Dims = SmallVec::from_elem(0, node.shape.len());
                before[axis] = begin;
                return self.part(edge, &at, &before);
            }
            begin = end;
        }
        Err(Failure::Store(self.tables.fused.of[n]))
    }

    /// What an edge reads, at these coordinates of a value in which it begins at `before`.
    fn part(&mut self, edge: &Edge, at: &Coordinates, before: &[usize]) -> Lowering<Id> {
        let shape = edge.layout.shape();
        let outer = at.from(before, shape)?;
        match compose(&edge.layout, shape, &outer)? {
            Some(through) => self.edge(edge, &through),
            None => Err(Failure::Error(Error::internal("a part of a value cannot be read"))),
        }
    }

    /// Parts of the value of a node meet at this index of an axis.
    fn cut(&self, n: usize, at: &Coordinates, axis: usize, index: usize) -> Failure {
        let inner = self.tables.fused.of[n];
        match at.meets(axis, index) {
            Some((dim, at)) => Failure::Cut { inner, dim, at },
            None => Failure::Store(inner),
        }
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
    pub fn edge(&mut self, edge: &Edge, through: &Layout) -> Lowering<Id> {
        match edge.source {
            Source::Node(p) if self.tables.is_inside(p) => self.node(p, through),
            _ => Ok(self.input(edge, through)),
        }
    }

    /// The value of a node, at the row-major positions that `outer` gives.
    pub fn node(&mut self, n: usize, outer: &Layout) -> Lowering<Id> {
        if let Some(&id) = self.memo.get(&(n, outer.clone())) {
            return Ok(id);
        }
        let graph = self.tables.graph;
        let node = &graph.nodes[n];
        let mut operands = [Id(0); 3];
        if !matches!(node.kind, Kind::Contract(..) | Kind::Pad { .. } | Kind::Concat(_)) {
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
            Kind::Concat(Concat { axis, .. }) => self.joined(n, *axis, outer)?,
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
