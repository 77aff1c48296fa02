//! Copies between layouts whose neighbouring elements differ: blocked, so that every cache line is used whole.

use std::sync::Arc;

use millstream_core::backend::Bindings;
use millstream_core::{Expr, Op, Result};

use crate::backend::Machine;
use crate::stream::Run;

/// A blocked copy.
pub(super) struct Transpose {}

impl Transpose {
    /// The operation as a blocked copy, if it is one.
    pub(super) fn new(_op: &Op, _expr: &Expr, _machine: &Arc<Machine>) -> Option<Transpose> {
        None
    }

    /// What it does, in words.
    pub(super) fn text(&self) -> String {
        String::new()
    }
}

impl Run for Transpose {
    fn execute(&self, _bindings: &Bindings<'_>) -> Result<()> {
        Ok(())
    }
}
