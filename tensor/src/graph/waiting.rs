//! Estimates of what waits below a node. They are never too small, and what is shared is not counted for each that shares it:
//! a value that is read twice would count double, and one after thirty such steps a billion times.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Tensor;

/// What waits below a node, itself included, at the time it is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// The longest way down to a value that is there.
    pub depth: u32,
    /// Operations, at most.
    pub nodes: u64,
    /// Bytes of values that are there and are read, at most.
    pub bytes: u64,
    since: Since,
}

/// Some operations, and all that a thread built since: what waits below a node is among these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Since {
    /// The thread and what it had built.
    then: Built,
    /// How many operations there were, and the bytes that they read.
    nodes: u64,
    bytes: u64,
}

/// What a thread has built so far: operations, and the bytes of values that were there and are read by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Built {
    /// The thread's number, from 1.
    thread: u32,
    nodes: u64,
    bytes: u64,
}

static THREADS: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static BUILT: Cell<Built> = Cell::new(Built { thread: THREADS.fetch_add(1, Ordering::Relaxed), nodes: 0, bytes: 0 });
}

impl Waiting {
    /// What waits below a node over these inputs, which this thread builds.
    pub fn below(inputs: &[Tensor]) -> Waiting {
        let now = BUILT.get();
        let (mut sum, mut read) = (Waiting::default(), 0u64);
        let mut since: Option<Since> = None;
        for Tensor { node, .. } in inputs {
            let waiting = match node.value() {
                Some(value) => {
                    read = read.saturating_add(value.as_ref().map_or(0, |b| b.len() as u64));
                    continue;
                }
                None => node.waiting,
            };
            sum.depth = sum.depth.max(waiting.depth);
            sum.nodes = sum.nodes.saturating_add(waiting.nodes);
            sum.bytes = sum.bytes.saturating_add(waiting.bytes);
            since = Some(match since {
                Some(same) if same == waiting.since => same,
                Some(other) => other.with(waiting.on(now)),
                None => waiting.on(now),
            });
        }
        let since = since.unwrap_or(Since { then: now, nodes: 0, bytes: 0 });
        sum.nodes = sum.nodes.min(since.nodes.saturating_add(now.nodes - since.then.nodes));
        sum.bytes = sum.bytes.min(since.bytes.saturating_add(now.bytes - since.then.bytes)).saturating_add(read);
        BUILT.set(Built { nodes: now.nodes + 1, bytes: now.bytes.saturating_add(read), ..now });
        Waiting { since, ..sum }
    }

    /// The same, after it was counted: so many operations wait below the node, and they read so many bytes.
    pub fn counted(self, nodes: u64, bytes: u64) -> Waiting {
        // The node itself was noted as built: it comes after this moment, which therefore is that of no other node.
        let now = BUILT.get();
        let then = Built { nodes: now.nodes.saturating_sub(1), ..now };
        Waiting { nodes, bytes, since: Since { then, nodes, bytes }, ..self }
    }

    /// With the node itself.
    pub fn and_one(self) -> Waiting {
        Waiting { depth: self.depth + 1, nodes: self.nodes.saturating_add(1), ..self }
    }

    /// It as something that the current thread knows, which has built this.
    fn on(&self, now: Built) -> Since {
        match self.since.then.thread == now.thread {
            true => self.since,
            false => Since { then: now, nodes: self.nodes, bytes: self.bytes },
        }
    }
}

impl Since {
    /// Both, of one thread.
    fn with(self, other: Since) -> Since {
        let then = if self.then.nodes <= other.then.nodes { self.then } else { other.then };
        Since { then, nodes: self.nodes.saturating_add(other.nodes), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::Location;
    use std::sync::Arc;

    use millstream_core::what::Dims;
    use millstream_core::{Binary, DType, Layout};
    use proptest::prelude::*;

    use super::super::{Input, Kind, Node};
    use super::*;

    fn tensor(kind: Kind, inputs: &[&Tensor]) -> Tensor {
        let inputs = inputs.iter().copied().cloned().collect();
        let node = Node::pending(kind, Dims::from_slice(&[1]), DType::F32, None, inputs, Location::caller());
        Tensor { node, layout: Layout::contiguous(&[1]).unwrap() }
    }

    fn add(a: &Tensor, b: &Tensor) -> Tensor {
        tensor(Kind::Binary(Binary::Add), &[a, b])
    }

    /// The operations that wait below a node, itself included.
    fn exact(node: &Node) -> u64 {
        let (mut seen, mut stack) = (HashSet::new(), Vec::new());
        node.with_inputs(|inputs| stack.extend(inputs.iter().map(|t| t.node.clone())));
        while let Some(node) = stack.pop() {
            if seen.insert(Arc::as_ptr(&node)) {
                node.with_inputs(|inputs| stack.extend(inputs.iter().map(|t| t.node.clone())));
            }
        }
        seen.len() as u64 + 1
    }

    #[test]
    fn what_is_shared_counts_once() {
        let mut x = tensor(Input.into(), &[]);
        for _ in 0..100 {
            let y = add(&x, &x);
            x = add(&add(&x, &y), &y);
        }
        assert_eq!(x.node.waiting.nodes, exact(&x.node));
    }

    proptest! {
        #[test]
        fn estimates_are_never_too_small(
            steps in prop::collection::vec((any::<usize>(), any::<usize>(), any::<bool>(), any::<u8>()), 1..80)
        ) {
            let mut all = vec![tensor(Input.into(), &[])];
            for (a, b, elsewhere, what) in steps {
                let (a, b) = (all[a % all.len()].clone(), all[b % all.len()].clone());
                let mut made = if elsewhere {
                    std::thread::scope(|s| s.spawn(|| add(&a, &b)).join()).unwrap()
                } else if what % 8 == 0 {
                    tensor(Input.into(), &[])
                } else {
                    add(&a, &b)
                };
                if what % 5 == 0 && !elsewhere && let Some(node) = Arc::get_mut(&mut made.node) {
                    // As if it had been walked.
                    node.waiting = node.waiting.counted(exact(node) - 1, 0).and_one();
                }
                prop_assert!(made.node.waiting.nodes >= exact(&made.node));
                all.push(made);
            }
        }
    }
}
