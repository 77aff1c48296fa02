//! Which images of a batch a convolution computes together.
//!
//! With channels first, the images of a batch share their filters, which are the left operand: pixels of all images are columns of one matmul, or each
//! image is a matmul of its own. The graph is built with the former. Where an image has enough pixels to fill a device's tiles, the latter
//! is better: its tables and copies are those of one image, and pixels lie one after the other.

use millstream_core::what::{Dims, elements};
use millstream_core::{Device, Result};

use super::capture::{Edge, Graph};
use super::layouts::is_convolution;
use crate::graph::{Contraction, Kind, Role};

/// Makes the images of convolutions matmuls of their own where they have as many pixels as the profile of the node's device says.
pub(super) fn separate(graph: &mut Graph, devices: &[Device]) -> Result<()> {
    for node in &mut graph.nodes {
        let Kind::Contract(Contraction { roles, accuracy }) = &node.kind else { continue };
        let few = elements(&node.shape[3.min(node.shape.len())..]) < devices[node.device].profile().batch_columns;
        if few || roles.first() != Some(&Role::N) || !is_convolution(node) {
            continue;
        }
        let mut roles = roles.clone();
        roles[0] = Role::Batch;
        let (filters, images) = (&node.inputs[0], &node.inputs[1]);
        let shared: Dims = node.shape[..1].iter().chain(filters.layout.shape()).copied().collect();
        // Images stand before the pixels: [group, k.., images, pixels..].
        let rank = images.layout.rank();
        let at = rank - (node.shape.len() - 2);
        let order: Vec<usize> = std::iter::once(at).chain(0..at).chain(at + 1..rank).collect();
        node.inputs = vec![
            Edge { layout: filters.layout.broadcast(&shared)?, ..filters.clone() },
            Edge { layout: images.layout.permute(&order)?, ..images.clone() },
        ];
        node.kind = Contraction { roles, accuracy: *accuracy }.into();
    }
    Ok(())
}
