//! Fusion: which nodes are computed together.
//!
//! Nodes are gathered into clusters, each of which becomes one operation:
//!
//! - `Map`: element-wise nodes over one domain, with any number of outputs;
//! - `Rows`: reductions over the same axes of one domain, and the element-wise nodes before, between and after them. Softmax,
//!   layer norm and variance written from primitives become one such cluster without being known by name;
//! - `Contract`: one contraction and the element-wise nodes after it;
//! - `Host`: the outputs of one call of a host function. It joins nothing, and reads only what is in memory.
//! - `Concat`: one value made of several, each of which is written to its part by an operation of its own; also a value
//!   with a part assigned;
//! - `Alone`: a lookup, a scan or attention, which joins nothing and reads only what is in memory.
//!
//! Two clusters join when every edge between them is *canonical* (each index reads its own element, or its own row's value)
//! and no third cluster lies between them. What is read through another view, or by a contraction, may be inlined into its only
//! reader ([`super::inline`]). Padding counts as element-wise; inlined into a contraction or a reduction over windows, it is
//! nothing but guards on a read.

use std::sync::Arc;

use millstream_core::what::{Dims, elements};
use millstream_core::{Idea, Layout, Result};

use super::capture::{Edge, Graph, Source};
use super::sites::Sites;
use crate::graph::{Fusion, Kind, Pad, compose, row_layout, through_padding};

/// The most nodes of one cluster, so that no kernel grows without bound.
const MOST_NODES: usize = 192;

/// Whether a node of a row program has a value for each element or one for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Element,
    Row,
}

/// What a cluster becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Map,
    /// Reductions over these axes of the domain.
    Rows(Vec<usize>),
    /// This contraction.
    Contract(usize),
    /// The outputs of one call of a host function.
    Host,
    /// This value made of several; one operation for each part.
    Concat(usize),
    /// This lookup, scan or attention.
    Alone(usize),
}

/// Nodes computed together.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub form: Form,
    /// The index space of its element-level nodes; for `Contract`, that of the result.
    pub domain: Vec<usize>,
    /// In topological order.
    pub nodes: Vec<usize>,
}

/// The clusters of a graph.
#[derive(Clone)]
pub(crate) struct Fused {
    pub clusters: Vec<Cluster>,
    /// For each node, its cluster.
    pub of: Vec<usize>,
    /// For each node, its level in its cluster.
    pub level: Vec<Level>,
    /// For each node, those that read it.
    pub readers: Arc<Vec<Vec<usize>>>,
    /// Clusters that are computed inside their readers.
    pub inlined: Vec<bool>,
    /// The same as it was before lowering, or the cost model, had some of them stored.
    pub inside: Vec<bool>,
    /// Those of them that might be cheaper to store.
    pub doubtful: Vec<bool>,
    /// Clusters in an order in which they can be computed.
    pub order: Vec<usize>,
    /// The graph's optional outputs that are stored.
    pub kept: Vec<usize>,
}

/// Row-major over the domain.
fn element_layout(domain: &[usize]) -> Result<Layout> {
    Layout::contiguous(domain)
}

/// Clusters while they are gathered.
pub(super) struct Fuser<'a> {
    pub graph: &'a Graph,
    pub clusters: Vec<Option<Cluster>>,
    pub of: Vec<usize>,
    level: Vec<Level>,
    /// For each node, those that read it.
    pub readers: Arc<Vec<Vec<usize>>>,
    pub rules: Rules,
}

/// What may be computed together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether anything may; else every node stands alone.
    pub fusing: bool,
    /// The most buffers that one kernel can be given.
    pub most_buffers: usize,
    /// The most values that one contraction stores. With one, the fast ways that store a single value are open to it.
    pub most_results: usize,
}

impl Rules {
    /// What these devices allow; contractions store at most so many values each.
    pub fn of(sites: &Sites, most_results: usize) -> Rules {
        // Scratch memory takes a buffer, too.
        let most_buffers = sites.devices.iter().map(|d| d.profile().max_bindings.saturating_sub(1)).min().unwrap_or(0);
        Rules { fusing: sites.devices[0].has(Idea::Fuse), most_buffers, most_results }
    }
}

/// Gathers the nodes of a graph.
pub(crate) fn fuse(graph: &Graph, rules: Rules) -> Result<Fused> {
    let n = graph.nodes.len();
    let mut readers = vec![Vec::new(); n];
    for (v, node) in graph.nodes.iter().enumerate() {
        for edge in &node.inputs {
            if let Source::Node(p) = edge.source {
                readers[p].push(v);
            }
        }
    }
    let (of, level) = ((0..n).collect(), vec![Level::Element; n]);
    let mut f = Fuser { graph, clusters: Vec::new(), of, level, readers: Arc::new(readers), rules };
    for v in 0..n {
        let node = &graph.nodes[v];
        let (form, domain) = match node.kind.fusion() {
            Fusion::Reduction(axes) => {
                f.level[v] = Level::Row;
                (Form::Rows(axes.to_vec()), node.inputs[0].layout.shape().to_vec())
            }
            Fusion::Contraction => (Form::Contract(v), node.shape.clone()),
            Fusion::Host(group) => {
                // The outputs read the same inputs: no way leads from one to another, so that they can always be together.
                let same = |n: &usize| graph.nodes[*n].kind.is_output_of(group);
                if let Some(first) = (0..v).find(same) {
                    f.of[v] = first;
                    if let Some(cluster) = &mut f.clusters[first] {
                        cluster.nodes.push(v);
                    }
                    f.clusters.push(None);
                    continue;
                }
                (Form::Host, node.shape.clone())
            }
            Fusion::Parts => (Form::Concat(v), node.shape.clone()),
            Fusion::Alone => (Form::Alone(v), node.shape.clone()),
            Fusion::Free | Fusion::Elementwise => (Form::Map, node.shape.clone()),
        };
        f.clusters.push(Some(Cluster { form, domain, nodes: vec![v] }));
        if rules.fusing {
            for edge in &node.inputs {
                if let Source::Node(p) = edge.source {
                    f.try_join(v, p)?;
                }
            }
        }
    }
    if rules.fusing {
        (0..n).rev().try_for_each(|v| f.sink(v))?;
    }
    let order = f.order();
    let (mut inlined, doubtful) = f.inline(&order)?;
    let kept = f.keep(&mut inlined);
    // invariant: `order` and `of` name live clusters only
    let mut renumbered = vec![usize::MAX; f.clusters.len()];
    let mut clusters = Vec::new();
    for (i, c) in f.clusters.into_iter().enumerate() {
        if let Some(c) = c {
            renumbered[i] = clusters.len();
            clusters.push(c);
        }
    }
    let live = |flags: Vec<bool>| (0..flags.len()).filter(|&i| renumbered[i] != usize::MAX).map(|i| flags[i]).collect();
    let inside: Vec<bool> = live(inlined);
    Ok(Fused {
        readers: f.readers,
        inlined: inside.clone(),
        inside,
        doubtful: live(doubtful),
        order: order.into_iter().map(|i| renumbered[i]).collect(),
        of: f.of.into_iter().map(|i| renumbered[i]).collect(),
        level: f.level,
        clusters,
        kept,
    })
}

impl<'a> Fuser<'a> {
    /// The clusters of a graph as they were for one that differs in sizes.
    pub fn again(graph: &'a Graph, fused: &Fused, rules: Rules) -> Fuser<'a> {
        let clusters = fused.clusters.iter().cloned().map(Some).collect();
        let (of, level, readers) = (fused.of.clone(), fused.level.clone(), fused.readers.clone());
        Fuser { graph, clusters, of, level, readers, rules }
    }

    /// Gives a cluster another domain. Says whether it still is one operation.
    pub fn resize(&mut self, i: usize, domain: Vec<usize>) -> Result<bool> {
        let c = Cluster { domain, ..self.cluster(i).clone() };
        let levels: Vec<Level> = c.nodes.iter().map(|&n| self.level[n]).collect();
        let is_one = match &c.form {
            Form::Map | Form::Rows(_) | Form::Contract(_) => {
                self.buffers(&c) <= self.rules.most_buffers && self.is_operation(&c, &levels)?
            }
            Form::Host | Form::Concat(_) | Form::Alone(_) => true,
        };
        self.clusters[i] = Some(c);
        Ok(is_one)
    }

    pub fn cluster(&self, i: usize) -> &Cluster {
        self.clusters[i].as_ref().expect("a live cluster") // invariant: `of` names live clusters only
    }

    /// Numbers and ranges are written into every reader anew and never join.
    pub fn is_free(&self, v: usize) -> bool {
        matches!(self.graph.nodes[v].kind.fusion(), Fusion::Free)
    }

    /// Whether two nodes may be computed by one operation: one device computes both, and neither stands alone.
    pub fn is_together(&self, v: usize, p: usize) -> bool {
        let (v, p) = (&self.graph.nodes[v], &self.graph.nodes[p]);
        v.device == p.device && !v.alone && !p.alone
    }

    /// Joins the cluster of `v` with that of its input `p`, if the result is one operation.
    fn try_join(&mut self, v: usize, p: usize) -> Result<()> {
        let (a, b) = (self.of[v], self.of[p]);
        if a == b || self.is_free(p) || !self.is_together(v, p) {
            return Ok(());
        }
        let Some((joined, levels)) = self.joined(v, a, b)? else { return Ok(()) };
        let too_large = joined.nodes.len() > MOST_NODES
            || self.buffers(&joined) > self.rules.most_buffers
            || matches!(joined.form, Form::Contract(_)) && self.results(&joined) > self.rules.most_results;
        if too_large || !self.is_convex(a, b) || !self.is_canonical(&joined, &levels)? {
            return Ok(());
        }
        for (&v, &level) in joined.nodes.iter().zip(&levels) {
            self.of[v] = a;
            self.level[v] = level;
        }
        self.clusters[a] = Some(joined);
        self.clusters[b] = None;
        Ok(())
    }

    /// Moves a node of a map to the only cluster that reads it, if that reads no more memory then: the one value that the node
    /// reads is in memory anyway. So `u * 4` is not stored beside `u`.
    fn sink(&mut self, v: usize) -> Result<()> {
        let from = self.of[v];
        let Some(&reader) = self.readers[v].first() else { return Ok(()) };
        let (whole, to) = (self.cluster(from), self.of[reader]);
        let in_memory =
            |p: usize| self.readers[p].iter().any(|&r| self.of[r] != from) || self.graph.outputs.contains(p);
        let sources = self.graph.nodes[v].inputs.iter().map(|e| e.source);
        let mut reads = sources.filter(|s| !matches!(s, Source::Node(p) if self.is_free(*p)));
        let reads_memory = match (reads.next(), reads.next()) {
            (Some(Source::Node(p)), None) => in_memory(p),
            (only, None) => only.is_some(),
            _ => false,
        };
        let is_elsewhere = to != from && self.readers[v].iter().all(|&r| self.of[r] == to);
        let is_wanted = self.graph.outputs.contains(v) || self.graph.optional.contains(&v);
        if !is_elsewhere || !reads_memory || is_wanted || whole.form != Form::Map || whole.nodes.len() == 1 {
            return Ok(());
        }
        let (whole, mut rest) = (whole.clone(), whole.clone());
        rest.nodes.retain(|&n| n != v);
        let home = rest.nodes[0];
        rest.nodes.iter().for_each(|&n| self.of[n] = home);
        let alone = Cluster { form: Form::Map, domain: self.graph.nodes[v].shape.clone(), nodes: vec![v] };
        (self.clusters[from], self.of[v]) = (None, v);
        (self.clusters[home], self.clusters[v]) = (Some(rest), Some(alone));
        self.try_join(reader, v)?;
        if self.of[v] == v {
            (self.clusters[home], self.clusters[v]) = (None, None);
            whole.nodes.iter().for_each(|&n| self.of[n] = from);
            self.clusters[from] = Some(whole);
        }
        Ok(())
    }

    /// The cluster of `v` (`a`) and that of its input (`b`) as one, with the level of each node, if their forms allow it.
    fn joined(&self, v: usize, a: usize, b: usize) -> Result<Option<(Cluster, Vec<Level>)>> {
        let (x, y) = (self.cluster(a), self.cluster(b));
        let len = elements;
        // The level that the nodes of a map get when it joins a row program.
        let joining = |map: &Cluster, rows_cluster: &Cluster, axes: &[usize]| {
            let size = len(&map.domain);
            if size == len(&rows_cluster.domain) {
                Some(Level::Element)
            } else if size == rows(rows_cluster, axes) {
                Some(Level::Row)
            } else {
                None
            }
        };
        let (form, domain, map_level) = match (&x.form, &y.form) {
            (Form::Map, Form::Map) if len(&x.domain) == len(&y.domain) => {
                // Prefer the reader's shape; an input that cannot be read so is tried the other way.
                let candidate = |domain: &Vec<usize>| (Form::Map, domain.clone(), None);
                let first = candidate(&x.domain);
                let nodes = merge(&x.nodes, &y.nodes);
                let levels = vec![Level::Element; nodes.len()];
                let c = Cluster { form: first.0.clone(), domain: first.1.clone(), nodes };
                if self.is_canonical(&c, &levels)? { first } else { candidate(&y.domain) }
            }
            (Form::Map, Form::Rows(axes)) => {
                let Some(level) = joining(x, y, axes) else { return Ok(None) };
                (y.form.clone(), y.domain.clone(), Some(level))
            }
            (Form::Rows(axes), Form::Map) => {
                // A map above a reduction is read by it element by element, or row by row by what follows it.
                let Some(mut level) = joining(y, x, axes) else { return Ok(None) };
                if level == Level::Element
                    && self.level[v] == Level::Row
                    && !matches!(self.graph.nodes[v].kind, Kind::Reduce(..))
                {
                    level = Level::Row;
                }
                (x.form.clone(), x.domain.clone(), Some(level))
            }
            (Form::Rows(p), Form::Rows(q)) if p == q && x.domain == y.domain => {
                (x.form.clone(), x.domain.clone(), None)
            }
            (Form::Map, Form::Contract(_)) if len(&x.domain) == len(&y.domain) => {
                (y.form.clone(), y.domain.clone(), None)
            }
            (Form::Contract(_), Form::Map)
                if len(&x.domain) == len(&y.domain) && !matches!(self.graph.nodes[v].kind, Kind::Contract(..)) =>
            {
                (x.form.clone(), x.domain.clone(), None)
            }
            _ => return Ok(None),
        };
        let nodes = merge(&x.nodes, &y.nodes);
        let levels = nodes
            .iter()
            .map(|&n| match map_level {
                Some(level) if self.cluster(self.of[n]).form == Form::Map => level,
                _ => self.level[n],
            })
            .collect();
        Ok(Some((Cluster { form, domain, nodes }, levels)))
    }

    /// How many buffers the kernel of a cluster takes at most: what it reads from outside, and what others read of it.
    fn buffers(&self, c: &Cluster) -> usize {
        let inside = |n: usize| c.nodes.binary_search(&n).is_ok();
        let mut reads: Vec<(Source, &Layout)> = Vec::new();
        for &n in &c.nodes {
            for edge in &self.graph.nodes[n].inputs {
                let free = matches!(edge.source, Source::Node(p) if inside(p) || self.is_free(p));
                if !free && !reads.contains(&(edge.source, &edge.layout)) {
                    reads.push((edge.source, &edge.layout));
                }
            }
        }
        reads.len() + c.nodes.iter().filter(|&&n| self.is_stored(c, n)).count()
    }

    /// How many values a cluster stores at most.
    fn results(&self, c: &Cluster) -> usize {
        c.nodes.iter().filter(|&&n| self.is_stored(c, n) || self.graph.optional.contains(&n)).count()
    }

    /// Whether a node of a cluster is wanted, or read from outside.
    pub fn is_stored(&self, c: &Cluster, n: usize) -> bool {
        self.graph.outputs.contains(n) || self.readers[n].iter().any(|r| c.nodes.binary_search(r).is_err())
    }

    /// Which optional outputs are stored: all but those that a row program has no need to store, or that would take more
    /// buffers than a kernel can be given.
    pub fn keep(&self, inlined: &mut [bool]) -> Vec<usize> {
        let mut kept: Vec<usize> = Vec::new();
        for &n in &self.graph.optional {
            let (at, c) = (self.of[n], self.cluster(self.of[n]));
            let fits = || {
                let more = kept.iter().filter(|&&k| self.of[k] == at && !self.is_stored(c, k)).count();
                !matches!(c.form, Form::Rows(_)) && self.buffers(c) + more < self.rules.most_buffers
            };
            if self.is_stored(c, n) && !inlined[at] || fits() {
                inlined[at] = false;
                kept.push(n);
            }
        }
        kept
    }

    /// The layout through which the operation reads a node of this level.
    fn canonical(&self, c: &Cluster, level: Level) -> Result<Layout> {
        match (&c.form, level) {
            (Form::Rows(axes), Level::Row) => row_layout(&c.domain, axes),
            _ => element_layout(&c.domain),
        }
    }

    /// Whether every edge inside reads its own element or row, and every edge from outside can be expressed, if that is so in
    /// each of the clusters that would be one.
    fn is_canonical(&self, c: &Cluster, levels: &[Level]) -> Result<bool> {
        let level_of = |p: usize| c.nodes.binary_search(&p).ok().map(|i| levels[i]);
        for (&n, &level) in c.nodes.iter().zip(levels) {
            let node = &self.graph.nodes[n];
            let joins =
                |e: &Edge| matches!(e.source, Source::Node(p) if self.of[p] != self.of[n] && level_of(p).is_some());
            let may_differ = node.inputs.iter().any(joins) || !self.stays(n, c, level);
            if may_differ && !self.fits(c, levels, n, level)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a cluster is one operation, whatever is known of its parts: each node has as many elements as its level says, and
    /// every edge reads as it has to.
    fn is_operation(&self, c: &Cluster, levels: &[Level]) -> Result<bool> {
        for (&n, &level) in c.nodes.iter().zip(levels) {
            let node = &self.graph.nodes[n];
            let len = elements(&node.shape);
            let has_all = match (&c.form, level) {
                (Form::Rows(axes), Level::Row) => len == rows(c, axes),
                (_, level) => level == Level::Element && len == elements(&c.domain),
            };
            let reduces = match (&c.form, &node.kind) {
                (Form::Rows(axes), Kind::Reduce(r)) => {
                    r.axes[..] == axes[..] && node.inputs[0].layout.shape() == &c.domain[..]
                }
                (_, Kind::Reduce(_)) => false,
                _ => true,
            };
            if !has_all || !reduces || !self.fits(c, levels, n, level)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether every edge of a node of a cluster that comes from inside reads its own element or row, and every other can be
    /// expressed.
    fn fits(&self, c: &Cluster, levels: &[Level], n: usize, level: Level) -> Result<bool> {
        let level_of = |p: usize| c.nodes.binary_search(&p).ok().map(|i| levels[i]);
        let node = &self.graph.nodes[n];
        let seen = match &node.kind {
            // The operands of the contraction have index spaces of their own.
            Kind::Contract(..) => {
                let from_inside = |e: &Edge| matches!(e.source, Source::Node(p) if level_of(p).is_some());
                return Ok(!node.inputs.iter().any(from_inside));
            }
            // What is padded is read from memory, under guards.
            Kind::Pad(Pad { before, .. }) => {
                let edge = &node.inputs[0];
                let inside = matches!(edge.source, Source::Node(p) if level_of(p).is_some());
                let seen = self.canonical(c, level)?;
                return Ok(!inside && through_padding(&edge.layout, before, &node.shape, &seen).is_some());
            }
            Kind::Reduce(..) if level != Level::Row => return Ok(false),
            _ => self.canonical(c, level)?,
        };
        for edge in &node.inputs {
            let through = match node.kind {
                Kind::Reduce(..) => Some(edge.layout.clone()),
                _ => compose(&edge.layout, &node.shape, &seen)?,
            };
            let Some(through) = through else { return Ok(false) };
            if let Source::Node(p) = edge.source
                && let Some(inner) = level_of(p)
                && !same_walk(&through, &self.canonical(c, inner)?)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a node is at the same level of the same index space in a cluster as it is now.
    fn stays(&self, n: usize, c: &Cluster, level: Level) -> bool {
        let own = self.cluster(self.of[n]);
        self.level[n] == level && own.domain == c.domain && (level == Level::Element || own.form == c.form)
    }

    /// Whether no third cluster reads one of the two and is read by the other.
    fn is_convex(&self, a: usize, b: usize) -> bool {
        // Walk from the readers outside; reaching the pair again means something lies between.
        let mut seen = vec![false; self.graph.nodes.len()];
        let mut stack: Vec<usize> = Vec::new();
        let inside = |c: usize| c == a || c == b;
        for c in [a, b] {
            for &n in &self.cluster(c).nodes {
                stack.extend(
                    self.readers[n].iter().copied().filter(|&r| r < self.clusters.len() && !inside(self.of[r])),
                );
            }
        }
        while let Some(n) = stack.pop() {
            if std::mem::replace(&mut seen[n], true) {
                continue;
            }
            for &m in &self.cluster(self.of[n]).nodes {
                for &r in &self.readers[m] {
                    if r >= self.clusters.len() {
                        continue;
                    }
                    if inside(self.of[r]) {
                        return false;
                    }
                    if !seen[r] {
                        stack.push(r);
                    }
                }
            }
        }
        true
    }

    /// Clusters so that what is read comes first.
    fn order(&self) -> Vec<usize> {
        let mut state = vec![0u8; self.clusters.len()];
        let mut order = Vec::new();
        for first in 0..self.clusters.len() {
            if self.clusters[first].is_none() {
                continue;
            }
            let mut stack = vec![first];
            while let Some(&c) = stack.last() {
                match state[c] {
                    0 => {
                        state[c] = 1;
                        for &n in &self.cluster(c).nodes {
                            for Edge { source, .. } in &self.graph.nodes[n].inputs {
                                if let Source::Node(p) = *source
                                    && state[self.of[p]] == 0
                                {
                                    stack.push(self.of[p]);
                                }
                            }
                        }
                    }
                    1 => {
                        state[c] = 2;
                        order.push(c);
                        stack.pop();
                    }
                    _ => {
                        stack.pop();
                    }
                }
            }
        }
        order
    }
}

/// How many rows a cluster has whose reductions are over these axes.
fn rows(c: &Cluster, axes: &[usize]) -> usize {
    let sizes: Dims = (0..c.domain.len()).filter(|d| !axes.contains(d)).map(|d| c.domain[d]).collect();
    elements(&sizes)
}

/// Whether two layouts of one shape walk the same positions; strides of dimensions of size 1 say nothing.
fn same_walk(a: &Layout, b: &Layout) -> bool {
    a.shape() == b.shape()
        && (a.is_empty()
            || (a.offset() == b.offset()
                && (0..a.rank()).all(|d| a.shape()[d] == 1 || a.strides()[d] == b.strides()[d])))
}

/// Two sorted lists as one.
fn merge(a: &[usize], b: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all
}
