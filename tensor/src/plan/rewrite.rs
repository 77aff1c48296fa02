//! Rewriting: the forms of a graph that mean the same. All are placed; choosing takes the cheapest.

use millstream_core::{Device, Idea, Result};

use super::attention::recognise;
use super::capture::Graph;
use super::images;
use super::layouts::channels_last;

/// What was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphForm {
    /// Attention is one operation.
    Attention,
    /// The channels of what lies between convolutions are last.
    ChannelsLast,
    /// Nothing.
    Plain,
}

/// A form of a captured graph.
#[derive(Clone)]
pub(crate) struct Rewritten {
    pub form: GraphForm,
    /// For each node, its number among the captured ones.
    pub origin: Vec<usize>,
}

/// All forms of a graph whose nodes name these devices; the graph as it is comes last.
pub(crate) fn rewrite(mut graph: Graph, devices: &[Device]) -> Result<Vec<(Rewritten, Graph)>> {
    images::separate(&mut graph, devices)?;
    let same: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut forms = Vec::new();
    // Other forms are looked for where one device computes all.
    if let [main] = devices
        && main.has(Idea::Fuse)
    {
        if main.has(Idea::Layout)
            && main.profile().channels_last
            && let Some(last) = channels_last(&graph)?
        {
            forms.push((Rewritten { form: GraphForm::ChannelsLast, origin: same.clone() }, last));
        }
        if let Some((attention, origin)) = recognise(&graph)? {
            forms.push((Rewritten { form: GraphForm::Attention, origin }, attention));
        }
    }
    forms.push((Rewritten { form: GraphForm::Plain, origin: same }, graph));
    Ok(forms)
}
