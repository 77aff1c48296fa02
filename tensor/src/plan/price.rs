//! Pricing: whether what is computed inside its reader would be cheaper to store.

use millstream_core::{Error, Result, Support};

use super::capture::{Graph, Source};
use super::fuse::Fused;
use super::lower::{Failure, Lowered, lower, lower_all, stored};
use super::sites::Sites;

/// Lowers these clusters; stores what is cheaper in memory than inside its reader. What is computed inside one of them is meant,
/// too.
pub(super) fn lower_cheapest(
    graph: &Graph,
    fused: &mut Fused,
    sites: &Sites,
    is_meant: impl Fn(usize) -> bool,
) -> Result<Vec<Lowered>> {
    let lowered = lower_all(graph, fused, &is_meant)?;
    match store_cheaper(graph, fused, &lowered, sites, &is_meant)? {
        true => lower_all(graph, fused, &is_meant),
        false => Ok(lowered),
    }
}

/// Stores those of these clusters that are doubtful and that the cost model finds cheaper in memory. Says whether there are any.
fn store_cheaper(
    graph: &Graph,
    fused: &mut Fused,
    lowered: &[Lowered],
    sites: &Sites,
    is_meant: impl Fn(usize) -> bool,
) -> Result<bool> {
    let is_doubtful = |&i: &usize| fused.doubtful[i] && fused.inlined[i] && is_meant(i);
    let doubtful: Vec<usize> = (0..fused.clusters.len()).filter(is_doubtful).collect();
    if doubtful.is_empty() {
        return Ok(false);
    }
    let (stored, readers) = (stored(graph, fused), readers(graph, fused));
    let mut changed = false;
    let mut known: Vec<Option<f64>> = vec![None; fused.clusters.len()];
    // Readers first: what is stored there is no longer repeated further down.
    for i in doubtful.into_iter().rev() {
        // The cluster that is stored with this one computed inside of it.
        let mut reader = i;
        while fused.inlined[reader] && readers[reader] != reader {
            reader = readers[reader];
        }
        let inside = match known[reader] {
            Some(seconds) => Some(seconds),
            None => seconds(graph, lowered.iter().filter(|l| l.cluster == reader), sites)?,
        };
        let Some(inside) = inside else { continue };
        fused.inlined[i] = false;
        let own = cost(graph, fused, i, &stored, sites)?;
        let rest = cost(graph, fused, reader, &stored, sites)?;
        match (own, rest) {
            (Some(own), Some(rest)) if own + rest < inside => {
                known[reader] = Some(rest);
                changed = true;
            }
            _ => {
                known[reader] = Some(inside);
                fused.inlined[i] = true;
            }
        }
    }
    Ok(changed)
}

/// For each cluster, one that reads it: of one that is inlined, the only one; itself where nobody does.
fn readers(graph: &Graph, fused: &Fused) -> Vec<usize> {
    let mut readers: Vec<usize> = (0..fused.clusters.len()).collect();
    for (n, node) in graph.nodes.iter().enumerate() {
        let sources = node.inputs.iter().filter_map(|e| match e.source {
            Source::Node(p) => Some(fused.of[p]),
            Source::Leaf(_) => None,
        });
        sources.filter(|&c| c != fused.of[n]).for_each(|c| readers[c] = fused.of[n]);
    }
    readers
}

/// Predicted seconds of a cluster, if it can be computed as things stand.
fn cost(graph: &Graph, fused: &Fused, cluster: usize, stored: &[bool], sites: &Sites) -> Result<Option<f64>> {
    match lower(graph, fused, cluster, stored) {
        Ok(lowered) => seconds(graph, lowered.iter(), sites),
        Err(Failure::Store(_) | Failure::Cut { .. }) => Ok(None),
        Err(Failure::Error(error)) => Err(error),
    }
}

/// Predicted seconds of operations, if their devices compute them.
fn seconds<'a>(graph: &Graph, lowered: impl Iterator<Item = &'a Lowered>, sites: &Sites) -> Result<Option<f64>> {
    let mut sum = 0.0;
    for l in lowered.filter(|l| l.writes.iter().any(|&n| graph.bytes(n) > 0)) {
        let Some(&n) = l.writes.first() else { return Err(Error::internal("an operation that writes nothing")) };
        let device = &sites.devices[graph.nodes[n].device];
        if let Support::No(_) = device.supports(&l.op) {
            return Ok(None);
        }
        let (candidate, _) = device.choose(&l.op)?;
        sum += device.compared(&l.op, &candidate);
    }
    Ok(Some(sum))
}
