//! Structure: graphs as lists of words, to see whether two are alike.

use super::capture::{Edge, Graph, GraphNode, Number, Source};
use crate::graph::Key;

/// Whether sizes tell graphs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// Shapes, strides and offsets are among the words.
    In,
    /// Only how many dimensions there are is.
    Out,
}

impl Graph {
    /// Appends words that are the same for graphs that are alike, and for no others. What is said of the captured graph only
    /// (where its numbers and offsets stand) is among them where sizes are not.
    pub fn words(&self, key: &mut Key, sizes: Sizes) {
        for node in &self.nodes {
            node.words(key, sizes);
        }
        key.push(self.outputs.len() as u64);
        key.extend(self.outputs.iter().chain(&self.optional).map(|&n| n as u64));
    }
}

impl GraphNode {
    fn words(&self, key: &mut Key, sizes: Sizes) {
        let head = (self.shape.len() as u64) << 48 | (self.inputs.len() as u64) << 32 | (self.dtype as u64) << 16;
        key.push(head | self.kind.code() << 2 | u64::from(self.claimed) << 1 | u64::from(self.alone));
        key.push(self.device as u64);
        self.kind.key(key);
        match sizes {
            Sizes::In => key.extend(self.shape.iter().map(|&n| n as u64)),
            Sizes::Out => {
                key.push(self.first_param as u64);
                key.push(self.place.map_or(0, |p| p as u64 + 1));
                key.extend(self.number.map_or([u64::MAX; 2], Number::words));
            }
        }
        for edge in &self.inputs {
            edge.words(key, sizes);
        }
    }
}

impl Edge {
    fn words(&self, key: &mut Key, sizes: Sizes) {
        let source = match self.source {
            Source::Leaf(n) => (n as u64) << 1,
            Source::Node(n) => (n as u64) << 1 | 1,
        };
        key.push((self.layout.rank() as u64) << 48 | (self.dtype as u64) << 40 | source);
        match sizes {
            Sizes::In => {
                key.extend(self.layout.shape().iter().map(|&n| n as u64));
                key.extend(self.layout.strides().iter().map(|&n| n as u64));
                key.push(self.layout.offset() as u64);
            }
            Sizes::Out => key.push(self.edge.map_or(0, |e| e as u64 + 1)),
        }
    }
}
