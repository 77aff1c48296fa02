//! Expressions as register programs over blocks that stay in L1.
//!
//! An expression becomes a flat list of steps, each one kernel call on registers. A register is a block of some hundred
//! elements; values that are the same for all lanes are single values, computed once. Inputs whose elements are
//! neighbours are read, and outputs written, in place.
//!
//! - `resolve`: which kernel computes what. `moves`: those that no arithmetic needs.
//! - `assemble`: from nodes to steps; `runs`: of random words. `code`: finished steps. `frame`: running them. `lanes`: strided memory.
//! - `nest`: how operands of an operation are addressed.
//! - [`strip`]: an expression over a strip of elements, for whoever walks an index space by itself.

mod assemble;
mod code;
mod frame;
mod lanes;
mod moves;
mod nest;
mod resolve;
mod runs;
pub mod strip;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod timing;

pub use assemble::Lane;
pub(crate) use assemble::{Assembler, From, Segment, Writing};
pub(crate) use code::{At, Code, Step};
pub(crate) use frame::{Cursor, Folder, Frame, NoFolds};
pub(crate) use lanes::fence;
pub(crate) use nest::{Base, Bases, Operand, bases, may_be_direct, seek, step, with_scratch};
pub(crate) use resolve::{
    binary as find_binary, copy as find_copy, fma as find_fma, splat as find_splat, stacked as find_stacked,
    unary as find_unary,
};
