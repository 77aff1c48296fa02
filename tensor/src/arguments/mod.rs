//! What people may write where a method takes axes, shapes, ranges, indices, devices or several tensors.
//!
//! Integers of any type stand for an axis, a size or an index; negative ones count from the end. Each type here has a private
//! inside and is made by `From` from whatever reads well at the call.

mod axes;
mod device;
mod index;
mod integer;
mod shape;
mod span;

pub use axes::Axes;
pub(crate) use axes::axis_of;
pub use device::IntoDevice;
pub(crate) use index::Part;
pub use index::{Ellipsis, Index, IntoIndex, NewAxis};
pub use integer::{Integer, Integers};
pub use shape::{Extent, NewShape, Shape};
pub use span::{Span, step};
