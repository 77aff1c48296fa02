//! Rewriting: the forms of a graph that mean the same. All are placed; choosing takes the cheapest.

use millstream_core::{Device, Idea, Result};

use super::attention::{Pays, recognise};
use super::capture::Graph;
use super::images;
use super::layouts::channels_last;

/// What was rewritten, apart from attention that pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphForm {
    /// Attention is one operation: a form of the part of a graph that is attention.
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

/// All forms of a graph whose nodes name these devices; the graph as it is comes last. Attention is one operation in all of
/// them, where that pays: whether it does is asked for each by itself, of the part that is attention.
pub(crate) fn rewrite(mut graph: Graph, devices: &[Device], pays: &mut Pays<'_>) -> Result<Vec<(Rewritten, Graph)>> {
    images::separate(&mut graph, devices)?;
    let mut origin: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut forms = Vec::new();
    // Other forms are looked for where one device computes all.
    if let [main] = devices
        && main.has(Idea::Fuse)
    {
        if let Some(attention) = recognise(&graph, pays)? {
            (graph, origin) = attention;
        }
        if main.has(Idea::Layout)
            && main.profile().channels_last
            && let Some(last) = channels_last(&graph)?
        {
            forms.push((Rewritten { form: GraphForm::ChannelsLast, origin: origin.clone() }, last));
        }
    }
    forms.push((Rewritten { form: GraphForm::Plain, origin }, graph));
    Ok(forms)
}
