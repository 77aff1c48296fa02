//! What a kernel is compiled for, beside its variant.
//!
//! A [`KernelClass`] is the key of a kernel and what keys are compared by: both come from one walk over the operation, [`words`], so that what
//! is hashed is what is compared. It holds no size: sizes, strides other than 0 and 1, offsets, coefficients and limits of guards are
//! arguments of a launch.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use smallvec::SmallVec;

use crate::what::{Body, Op};

/// The operations that one kernel serves, given its variant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelClass {
    body: Form<Body>,
    words: SmallVec<[u8; 32]>,
}

/// What a kernel is compiled for of a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form<B> {
    /// A host function comes with the operation; what the kernel does is call it.
    Host,
    /// Sizes and strides of a table are arguments; the number of axes that are looked up is not.
    Gather(usize),
    Other(B),
}

impl<'a> Form<&'a Body> {
    fn of(body: &'a Body) -> Form<&'a Body> {
        match body {
            Body::Host(_) => Form::Host,
            Body::Gather(g) => Form::Gather(g.lookups.len()),
            body => Form::Other(body),
        }
    }
}

impl Form<Body> {
    fn is(&self, other: &Form<&Body>) -> bool {
        match (self, other) {
            (Form::Host, Form::Host) => true,
            (Form::Gather(a), Form::Gather(b)) => a == b,
            (Form::Other(a), Form::Other(b)) => a == *b,
            _ => false,
        }
    }
}

/// The number of dimensions and operands; for each operand its dtype, which dimensions each of its guards looks at, and which strides
/// are 0, 1 or other. A dimension of one element moves nothing.
fn words(op: &Op) -> impl Iterator<Item = u8> + '_ {
    let counts = [op.dims.len() as u8, op.inputs.len() as u8, op.outputs.len() as u8];
    let operands = op.inputs.iter().chain(&op.outputs).flat_map(|a| {
        // A guard may move along a dimension that the operand itself ignores.
        let guards = a.guards.iter().flat_map(|g| g.coefficients.iter().map(|c| u8::from(*c != 0)));
        let strides = a.strides.iter().zip(&op.dims).map(|(stride, n)| match stride {
            _ if *n == 1 => 0,
            0 => 0,
            1 => 1,
            _ => 2,
        });
        [a.dtype as u8, a.guards.len() as u8].into_iter().chain(guards).chain(strides)
    });
    counts.into_iter().chain(operands)
}

impl KernelClass {
    /// The class of an operation.
    pub fn of(op: &Op) -> KernelClass {
        let body = match Form::of(&op.body) {
            Form::Host => Form::Host,
            Form::Gather(n) => Form::Gather(n),
            Form::Other(body) => Form::Other(body.clone()),
        };
        KernelClass { body, words: words(op).collect() }
    }

    /// A hash of an operation's class, without making it.
    pub fn key(op: &Op) -> u64 {
        let mut h = FxHasher::default();
        Form::of(&op.body).hash(&mut h);
        words(op).for_each(|word| h.write_u8(word));
        h.finish()
    }

    /// Whether an operation belongs to this class. Allocates nothing.
    pub fn holds(&self, op: &Op) -> bool {
        self.words.iter().copied().eq(words(op)) && self.body.is(&Form::of(&op.body))
    }
}
