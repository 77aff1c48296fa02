//! Functions that only the host computes, such as FFTs and factorizations.

use std::sync::{Arc, OnceLock, Weak};

use millstream_core::what::Dims;
use millstream_core::{DType, Error, HostFunction, Result};

use super::operation::{Fusion, Key, Operation};
use super::{Kind, Node};
use crate::Tensor;

/// The outputs of one call of a host function: nodes with the same inputs, computed together.
#[derive(Debug)]
pub(crate) struct HostGroup {
    pub function: Arc<HostFunction>,
    /// One for each output; those that nobody holds any more are not computed.
    pub nodes: OnceLock<Vec<Weak<Node>>>,
}

impl HostGroup {
    /// The outputs that somebody holds and that are still to be computed.
    pub fn waiting(&self) -> impl Iterator<Item = Arc<Node>> + '_ {
        self.nodes.get().into_iter().flatten().filter_map(Weak::upgrade).filter(|n| n.value().is_none())
    }
}

/// One output of a call of a host function.
#[derive(Clone, Debug)]
pub(crate) struct HostOutput {
    pub group: Arc<HostGroup>,
    pub output: u8,
}

impl Kind {
    /// The call of a host function that this is an output of.
    pub fn host_group(&self) -> Option<&Arc<HostGroup>> {
        match self {
            Kind::Host(host) => Some(&host.group),
            _ => None,
        }
    }

    /// Whether this is an output of that call of a host function.
    pub fn is_output_of(&self, group: &Arc<HostGroup>) -> bool {
        self.host_group().is_some_and(|own| Arc::ptr_eq(own, group))
    }
}

impl Operation for HostOutput {
    fn name(&self) -> &'static str {
        self.group.function.name()
    }

    fn arity(&self) -> usize {
        self.group.function.inputs.len()
    }

    fn result(&self, _: &[Tensor]) -> Result<(Dims, DType)> {
        let output = self.group.function.outputs.get(usize::from(self.output));
        let output = output.ok_or_else(|| Error::internal("an output that the host function does not have"))?;
        Ok((output.shape.clone(), output.dtype))
    }

    fn fusion(&self) -> Fusion<'_> {
        Fusion::Host(&self.group)
    }

    fn key(&self, key: &mut Key) {
        let function = &self.group.function;
        // No two names lie at one address with one length.
        let (name, words) = (function.name(), function.words());
        let head = [usize::from(self.output), name.as_ptr().addr(), name.len(), words.len(), function.outputs.len()];
        key.extend(head.map(|n| n as u64));
        key.extend_from_slice(words);
        for output in &function.outputs {
            key.push((output.dtype as u64) << 32 | output.shape.len() as u64);
            key.extend(output.shape.iter().map(|&n| n as u64));
        }
    }
}
