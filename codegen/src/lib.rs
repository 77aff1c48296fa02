//! Operations as text.
//!
//! Every device that compiles kernels from source gets them from here: one walk over an operation, and a dialect that says
//! how its parts are written. The dialect for people ([`listing`]) is what `explain()` shows of a kernel on any device.

mod expr;
mod listing;

pub use listing::listing;
