//! Operations as text.
//!
//! Every device that compiles kernels from source gets them from here: one walk over an operation, and a dialect that says
//! how its parts are written. The dialect for people ([`listing`]) is what `explain()` shows of a kernel on any device.

mod attention;
mod choose;
mod contract;
mod dialect;
mod expr;
mod frame;
mod indexed;
mod listing;
mod map;
mod matrix;
mod notation;
mod program;
mod rows;
mod target;
mod text;
mod types;
mod value;

pub use choose::{generate, groups, supports, variants};
pub use dialect::Dialect;
pub use listing::listing;
pub use program::{Dispatch, Entry, Prepared, Program, Source};
pub use target::Target;
