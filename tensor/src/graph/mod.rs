//! The lazy graph: what its operations are, its nodes, and how many may wait.

mod bounds;
mod node;

pub(crate) use bounds::below;
pub(crate) use node::{HostGroup, Inputs, Kind, Node, Role, Roles, Waiting, one};
