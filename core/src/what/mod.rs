//! What is computed: element types, layouts, expressions, operations, and their reference semantics.
//!
//! Plain data and pure functions. Nothing here knows a device.

mod access;
mod dtype;
mod expr;
mod host;
mod layout;
mod op;
mod reference;
mod scalar;
#[cfg(test)]
mod table;
mod windows;

pub use access::{Access, Guard, collapse};
pub use dtype::{DType, Element, Kind};
pub use expr::{Binary, Expr, ExprBuilder, Id, Node, Reduce, Unary, philox};
pub use host::{Fork, HostBody, HostFunction, HostOperand, HostRun, Serial, alignment};
pub use layout::{Dims, Layout, MAX_RANK, Strides, broadcast_shapes, count, elements, row_major};
pub use op::{Accuracy, Attention, Body, Contract, Gather, Lookup, Op, Outside};
pub use reference::{Exact, Expected, HostTensor, Tolerance, acosh, asinh, atanh, erf, evaluate};
pub use scalar::{Scalar, to_odd};
pub use windows::{ImageSide, WindowAxis, Windows};
