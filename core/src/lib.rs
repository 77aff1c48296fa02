//! The contracts and the machinery of Millstream.
//!
//! - **What** is computed ([`what`]): [`DType`], [`Layout`], [`Expr`], [`Op`], and their reference semantics.
//!
//! No vendor API and no shader library is named here.

pub mod error;
pub mod what;

pub use error::{Error, ErrorKind, ErrorLog, Fault, Result};
pub use what::{
    Access, Binary, Body, Contract, DType, Dims, Element, Expr, ExprBuilder, Guard, Id, Kind, Layout, Node, Op, Reduce,
    Scalar, Strides, Unary,
};
