//! Inlining: which clusters are computed inside their only reader instead of being stored.
//!
//! Maps that are read through another view, or by a contraction, are where their arithmetic is little; joined values always are
//! when a map reads them, which is then cut where their parts meet. Clusters inlined into one another add up: what a cluster
//! costs has in it all that is computed inside of it. Where it is not plain that it pays, [`super::price`] decides.

use millstream_core::what::elements;
use millstream_core::{Layout, Result};

use super::capture::{Edge, Source};
use super::fuse::{Cluster, Form, Fuser};
use crate::graph::{Coordinates, Kind, Pad, compose, through_padding};

/// Arithmetic for each element up to which computing a value several times may be cheaper than storing it.
const CHEAP: u64 = 4;
/// Arithmetic for each element up to which a matmul computes its operand while reading it.
const CHEAP_OPERAND: u64 = 40;

/// What is known of the clusters that come before one.
struct Inliner<'a, 'b> {
    fuser: &'a Fuser<'b>,
    inlined: Vec<bool>,
    /// Those that might be cheaper to store.
    doubtful: Vec<bool>,
    /// For each cluster, the arithmetic for one element of its value.
    work: Vec<u64>,
    /// The arithmetic of what is computed inside each cluster, over all elements.
    inside: Vec<u64>,
    /// For each cluster, how many values are read for one element of its value.
    reads: Vec<usize>,
}

impl Fuser<'_> {
    /// Which clusters are inlined, and which of them might be cheaper to store. The order puts inputs first.
    pub fn inline(&self, order: &[usize]) -> Result<(Vec<bool>, Vec<bool>)> {
        let n = self.clusters.len();
        let mut inliner = Inliner {
            fuser: self,
            inlined: vec![false; n],
            doubtful: vec![false; n],
            work: vec![0; n],
            inside: vec![0; n],
            reads: vec![0; n],
        };
        order.iter().try_for_each(|&i| inliner.settle(i))?;
        Ok((inliner.inlined, inliner.doubtful))
    }
}

impl Inliner<'_, '_> {
    fn settle(&mut self, i: usize) -> Result<()> {
        let (fuser, c) = (self.fuser, self.fuser.cluster(i));
        let own: u64 = c.nodes.iter().map(|&n| fuser.graph.nodes[n].kind.flop()).sum();
        self.work[i] = own + self.inside[i].div_ceil(elements(&c.domain).max(1) as u64);
        self.reads[i] = self.reads(c);
        let by_host = |n: &usize| fuser.readers[*n].iter().any(|&r| fuser.cluster(fuser.of[r]).form == Form::Host);
        if !can_be_inside(fuser, c) || c.nodes.iter().any(by_host) {
            return Ok(());
        }
        let is_wanted = c.nodes.iter().any(|n| fuser.graph.outputs.contains(*n));
        if c.nodes.iter().all(|&n| fuser.is_free(n)) {
            // A number or a range has no memory unless it is wanted itself.
            self.inlined[i] = !is_wanted;
            return Ok(());
        }
        if !fuser.rules.fusing || is_wanted {
            return Ok(());
        }
        let Some(reader) = self.only_reader(i) else { return Ok(()) };
        let target = fuser.cluster(reader);
        let Some(views) = self.views(i, target)? else { return Ok(()) };
        self.inlined[i] = true;
        let results = target.nodes.iter().filter(|&&n| fuser.is_stored(target, n)).count();
        if self.reads(target) + results > fuser.rules.most_buffers {
            self.inlined[i] = false;
            return Ok(());
        }
        self.inside[reader] += self.work[i].saturating_mul(views as u64);
        let is_repeated = views > elements(&c.domain);
        let meets_parts = matches!(c.form, Form::Concat(_)) || self.is_padded(i, target);
        let is_operand = matches!(target.form, Form::Contract(_));
        self.doubtful[i] = meets_parts || (is_repeated || is_operand) && self.work[i] > 0;
        Ok(())
    }

    /// The one cluster that reads a cluster, if it can compute it.
    fn only_reader(&self, i: usize) -> Option<usize> {
        let fuser = self.fuser;
        let nodes = &fuser.cluster(i).nodes;
        let mut outside = nodes
            .iter()
            .flat_map(|&n| fuser.readers[n].iter().map(move |&r| (n, r)))
            .filter(|&(_, r)| fuser.of[r] != i);
        let (own, first) = outside.next()?;
        let reader = fuser.of[first];
        (fuser.is_together(own, first) && outside.all(|(_, r)| fuser.of[r] == reader)).then_some(reader)
    }

    /// How many elements of a cluster's value are computed inside a reader, if that can be done and is not too much.
    fn views(&self, i: usize, target: &Cluster) -> Result<Option<usize>> {
        let (fuser, c) = (self.fuser, self.fuser.cluster(i));
        let joined = matches!(c.form, Form::Concat(_));
        if matches!(target.form, Form::Alone(_)) || joined && !matches!(target.form, Form::Map | Form::Concat(_)) {
            return Ok(None);
        }
        let mut seen: Vec<(usize, &Layout)> = Vec::new();
        for &r in &target.nodes {
            let node = &fuser.graph.nodes[r];
            for edge in &node.inputs {
                let Source::Node(p) = edge.source else { continue };
                if fuser.of[p] != i || seen.contains(&(p, &edge.layout)) {
                    continue;
                }
                seen.push((p, &edge.layout));
                let is_contraction = matches!(node.kind, Kind::Contract(..));
                if is_contraction && self.work[i] > CHEAP_OPERAND {
                    return Ok(None);
                }
                if matches!(node.kind, Kind::Pad(_)) && !self.can_be_cut(target) {
                    return Ok(None);
                }
                // The reader's own index space is not known here; its edge's is, and must be expressible down to the inputs.
                if !expressible(fuser, c, p, &edge.layout)? {
                    return Ok(None);
                }
                if !is_contraction && node.shape != target.domain && !matches!(node.kind, Kind::Reduce(..)) {
                    return Ok(None);
                }
            }
        }
        let views = seen.iter().map(|(_, layout)| layout.len()).sum();
        let is_repeated = views > elements(&c.domain);
        Ok((!is_repeated || self.work[i] <= CHEAP).then_some(views))
    }

    /// Whether a cluster, and all that read it, are maps or joined values.
    fn can_be_cut(&self, c: &Cluster) -> bool {
        let fuser = self.fuser;
        let plain = |c: &Cluster| matches!(c.form, Form::Map | Form::Concat(_));
        plain(c) && c.nodes.iter().flat_map(|&n| &fuser.readers[n]).all(|&r| plain(fuser.cluster(fuser.of[r])))
    }

    /// Whether a cluster is read by padding.
    fn is_padded(&self, i: usize, target: &Cluster) -> bool {
        let fuser = self.fuser;
        let reads = |e: &Edge| matches!(e.source, Source::Node(p) if fuser.of[p] == i);
        let node = |n: &usize| &fuser.graph.nodes[*n];
        target.nodes.iter().map(node).any(|n| matches!(n.kind, Kind::Pad(_)) && n.inputs.iter().any(reads))
    }

    /// How many values are read for one element of a cluster's.
    fn reads(&self, c: &Cluster) -> usize {
        let fuser = self.fuser;
        let inside = |n: usize| c.nodes.binary_search(&n).is_ok();
        let mut seen: Vec<(Source, &Layout)> = Vec::new();
        let (mut sum, mut most) = (0, 0);
        for edge in c.nodes.iter().flat_map(|&n| &fuser.graph.nodes[n].inputs) {
            let reads = match edge.source {
                Source::Node(p) if inside(p) || fuser.is_free(p) => continue,
                Source::Node(p) if self.inlined[fuser.of[p]] => self.reads[fuser.of[p]],
                _ => 1,
            };
            if !seen.contains(&(edge.source, &edge.layout)) {
                seen.push((edge.source, &edge.layout));
                sum += reads;
                most = most.max(reads);
            }
        }
        // Of a joined value, an element is in one part.
        if matches!(c.form, Form::Concat(_)) { most } else { sum }
    }
}

/// Whether the form of a cluster can be computed inside another.
fn can_be_inside(fuser: &Fuser, c: &Cluster) -> bool {
    match c.form {
        Form::Map => true,
        Form::Concat(v) => matches!(fuser.graph.nodes[v].kind, Kind::Concat(_)),
        _ => false,
    }
}

/// Whether the value of `p` can be computed at the positions that `outer` gives, down to what its cluster reads.
fn expressible(fuser: &Fuser, c: &Cluster, p: usize, outer: &Layout) -> Result<bool> {
    let node = &fuser.graph.nodes[p];
    match &node.kind {
        Kind::Pad(Pad { before, .. }) => {
            return Ok(through_padding(&node.inputs[0].layout, before, &node.shape, outer).is_some());
        }
        Kind::Concat(_) => return Ok(Coordinates::of(&node.shape, outer).is_some()),
        _ => {}
    }
    for edge in &node.inputs {
        let Some(through) = compose(&edge.layout, &node.shape, outer)? else { return Ok(false) };
        if let Source::Node(q) = edge.source
            && c.nodes.contains(&q)
            && !expressible(fuser, c, q, &through)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}
