//! The lazy graph: its operations, its nodes, and how much of it may wait.
//!
//! A method of [`Tensor`](crate::Tensor) appends a [`Node`] whose [`Kind`] is one of the operations in the table. All that
//! the graph and the planner ask of an operation stands in one file with it: its name, arity, shape and dtype rule, key
//! words, parameters and fusion class. To add one, write it into its family's file and list it in `kind.rs`; how it is
//! lowered stands in `plan/lower/`.

mod attention;
mod bounds;
mod build;
mod compose;
mod contraction;
mod elementwise;
mod host;
mod kind;
mod movement;
mod node;
mod operation;
mod reductions;
mod sources;
pub(crate) mod volatile;
mod waiting;

pub(crate) use attention::Attention;
pub(crate) use bounds::below;
pub(crate) use build::attempt;
pub(crate) use compose::{Coordinates, compose, is_whole, row_layout, through_padding};
pub(crate) use contraction::{Contraction, Role, Roles};
pub(crate) use elementwise::{Cast, Copy, Select};
pub(crate) use host::{HostGroup, HostOutput};
pub(crate) use kind::Kind;
pub(crate) use movement::{Assign, Concat, Gather, Pad};
pub(crate) use node::{Claim, Inputs, Node, one};
pub(crate) use operation::{Fusion, InputShapes, Key};
pub(crate) use reductions::{Reduction, Scan};
pub(crate) use sources::{Fill, Input, Iota, Leaf, Random};
pub(crate) use waiting::Waiting;
