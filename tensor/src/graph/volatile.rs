//! Where laziness ends: an operation that reads memory to which others may write is computed before its call returns, so that what
//! they write later cannot be seen in its result.
//!
//! Which memory that is, its [`Buffer`](millstream_core::Buffer) knows. The question is asked where nodes are made. Methods that are
//! made of several operations are computed when the outermost one ends, as one graph.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use millstream_core::{Buffer, Layout, Result};

use super::{Copy, Node, one};
use crate::Tensor;
use crate::plan::{Trigger, trigger};

#[derive(Clone, Copy, Default)]
struct State {
    /// How many calls of methods have begun and not ended.
    depth: u32,
    /// Whether something volatile was read meanwhile.
    reads: bool,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State { depth: 0, reads: false }) };
    /// What the calls have made since they read something volatile.
    static MADE: RefCell<Vec<Weak<Node>>> = const { RefCell::new(Vec::new()) };
}

/// A call of a method that makes tensors.
pub(crate) struct Call(());

impl Call {
    #[inline]
    pub fn enter() -> Call {
        let state = STATE.get();
        STATE.set(State { depth: state.depth + 1, ..state });
        Call(())
    }

    /// Ends the call, which gives these tensors. They are computed now if that cannot wait.
    #[inline]
    pub fn leave<'a>(self, results: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
        if STATE.get().reads { self.leave_read(&mut results.into_iter()) } else { Ok(()) }
    }

    #[cold]
    fn leave_read(self, results: &mut dyn Iterator<Item = &Tensor>) -> Result<()> {
        let made = MADE.with_borrow_mut(|made| {
            made.extend(results.filter(|t| t.node.value().is_none()).map(|t| Arc::downgrade(&t.node)));
            if STATE.get().depth == 1 { std::mem::take(made) } else { Vec::new() }
        });
        drop(self);
        // What the last ones needed is gone by then, unless somebody has it.
        made.iter().rev().filter_map(Weak::upgrade).try_for_each(|node| {
            let layout = Layout::contiguous(&node.shape)?;
            now(&Tensor { layout, node })
        })
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        let State { depth, reads } = STATE.get();
        STATE.set(State { depth: depth - 1, reads: reads && depth > 1 });
        if reads && depth == 1 {
            MADE.with_borrow_mut(Vec::clear);
        }
    }
}

/// Whether a tensor shows memory to which others may write.
#[inline]
pub(crate) fn is_volatile(tensor: &Tensor) -> bool {
    matches!(tensor.node.value(), Some(Ok(buffer)) if buffer.is_volatile())
}

/// A new tensor reads something volatile: it is computed when the call ends in which it is made.
#[cold]
pub(super) fn made(tensor: &Tensor) -> Result<()> {
    let state = STATE.get();
    if state.depth == 0 {
        return now(tensor);
    }
    STATE.set(State { reads: true, ..state });
    Ok(())
}

/// Computes a tensor to the end.
fn now(tensor: &Tensor) -> Result<()> {
    trigger(&[tensor], Trigger::Foreign)?;
    finish([tensor])
}

/// Waits until the values of computed tensors are there.
pub(crate) fn finish<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
    let buffer = |t: &'a Tensor| t.node.value().and_then(|v| v.as_ref().ok());
    tensors.into_iter().filter_map(buffer).filter_map(Buffer::event).try_for_each(|event| event.wait())
}

/// The value of a tensor as it is now, in memory of its own.
#[cold]
pub(crate) fn snapshot(tensor: &Tensor) -> Result<Tensor> {
    let (node, sizes) = (&tensor.node, tensor.sizes());
    let node = Node::pending(Copy.into(), sizes.into(), node.dtype, node.device.clone(), one(tensor), node.location);
    let copy = Tensor { layout: Layout::contiguous(sizes)?, node };
    now(&copy)?;
    Ok(copy)
}
