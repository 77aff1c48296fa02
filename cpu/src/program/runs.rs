//! Random words that follow each other along the lanes.
//!
//! The number of a random word is mostly an element's index: a sum of indices with factors. Where it goes up by one from lane
//! to lane, the first lane's is enough, and whole blocks of words are computed at once.

use millstream_core::{Binary, DType, Error, Expr, Id, Kind, Node, Result};

use super::assemble::{Assembler, Segment};
use super::code::{At, Step};
use super::resolve;
use crate::math::{self, Form};

/// How much an integer goes up from lane to lane, modulo 2^32; `None` where that is not the same everywhere, or not seen.
fn slope(expr: &Expr, id: Id, lane: usize) -> Option<u32> {
    let (node, dtype) = expr.nodes()[id.at()];
    // Arithmetic of narrower types would wrap earlier.
    if !matches!(dtype.kind(), Kind::Signed | Kind::Unsigned) || dtype.size() < size_of::<u32>() {
        return None;
    }
    match node {
        Node::Const(_) | Node::Param(_) => Some(0),
        Node::Index(d) => Some(u32::from(d as usize == lane)),
        Node::Cast(a) => slope(expr, a, lane),
        Node::Binary(Binary::Add, a, b) => Some(slope(expr, a, lane)?.wrapping_add(slope(expr, b, lane)?)),
        Node::Binary(Binary::Mul, a, b) => match (slope(expr, a, lane)?, slope(expr, b, lane)?) {
            (0, 0) => Some(0),
            (x, 0) => Some(x.wrapping_mul(constant(expr, b)?)),
            (0, y) => Some(y.wrapping_mul(constant(expr, a)?)),
            _ => None,
        },
        _ => None,
    }
}

/// The value of a constant, modulo 2^32.
fn constant(expr: &Expr, id: Id) -> Option<u32> {
    match expr.node(id) {
        Node::Const(value) => value.get::<i64>().map(|x| x as u32),
        _ => None,
    }
}

impl Assembler<'_> {
    /// Finds the random words that follow each other along `lane`, given which nodes are blocks: their numbers are not used any
    /// more, and [`Assembler::uses`] says so. Each is computed by [`Assembler::run_of_words`].
    pub fn find_runs(&mut self, lane: usize, is_block: impl Fn(Id) -> bool) {
        for (i, (node, _)) in self.expr.nodes().iter().enumerate() {
            if let Node::Random(number, k0, k1) = *node
                && is_block(Id(i as u32))
                && !is_block(k0)
                && !is_block(k1)
                && slope(self.expr, number, lane) == Some(1)
            {
                self.runs[i] = true;
                self.disuse(number);
            }
        }
    }

    /// Takes back one use of a node, and those of its operands if it was the last.
    fn disuse(&mut self, id: Id) {
        self.uses[id.at()] -= 1;
        if self.uses[id.at()] == 0 {
            for o in self.expr.node(id).operands() {
                self.disuse(o);
            }
        }
    }

    /// Whether a node is a run of random words.
    pub fn is_run(&self, id: Id) -> bool {
        self.runs[id.at()]
    }

    /// Computes a run of random words in a segment; `before` is that of single values that runs before it for each strip.
    pub fn run_of_words(&mut self, [before, segment]: [Segment; 2], id: Id, dst: Option<At>) -> Result<()> {
        let Node::Random(number, k0, k1) = self.expr.node(id) else {
            return Err(Error::internal("a run of something else than random words"));
        };
        let first = self.at_first_lane(before, number)?;
        let to = dst.unwrap_or_else(|| self.register(DType::U32.size()));
        let src = [first, self.location(k0), self.location(k1)];
        self.push(segment, Step::Words { f: math::random_run(self.isa), dst: to, src });
        self.set(id, to);
        Ok(())
    }

    /// The value of a number that [`slope`] has seen through, at the first lane of a strip, as a single value.
    fn at_first_lane(&mut self, segment: Segment, id: Id) -> Result<At> {
        if let at @ At::Single(_) = self.location(id) {
            return Ok(at);
        }
        let (node, dtype) = self.expr.nodes()[id.at()];
        match node {
            Node::Index(dim) => {
                let dst = self.single(0);
                self.push(segment, Step::IndexOf { dim, dst });
                Ok(dst)
            }
            Node::Cast(a) => {
                let (from, src) = (self.expr.dtype(a), self.at_first_lane(segment, a)?);
                let dst = self.single(0);
                self.call(segment, resolve::cast(self.isa, from, dtype)?, "cast", dtype, dst, &[src]);
                Ok(dst)
            }
            Node::Binary(op, a, b) => {
                let src = [self.at_first_lane(segment, a)?, self.at_first_lane(segment, b)?];
                let dst = self.single(0);
                let f = resolve::binary(self.isa, op, dtype, Form::VV)?.f;
                self.call(segment, f, op.name(), dtype, dst, &src);
                Ok(dst)
            }
            _ if self.leaf(id) => Ok(self.location(id)),
            other => Err(Error::internal(format!("{other:?} is no number of a random word"))),
        }
    }
}
