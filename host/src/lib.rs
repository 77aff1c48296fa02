//! Functions that only the host computes, as core's [`HostFunction`](millstream_core::HostFunction)s: sorting, sets, scattering,
//! linear algebra, Fourier transforms.
//!
//! Each constructor takes the sizes and modes of one call and gives the function with its operands; the tensor crate makes
//! nodes of it. Rows are the last dimension: whoever wants another axis permutes before and after. Results do not depend on
//! the number of threads, because work is cut by sizes only.

mod beside;
mod eigen;
mod fft;
mod keys;
mod linalg;
mod partition;
mod pick;
mod radix;
mod scatter;
mod sets;
mod slices;
mod sort;
mod split;
mod top;
mod vectors;

pub use fft::{Transform, fft, fft_error};
pub use linalg::{Factor, factor};
pub use pick::{mask, nonzero};
pub use scatter::{Indexed, Put, ScatterShape, scatter};
pub use sets::{Side, isin, searchsorted, unique};
pub use sort::{Order, sort, topk};
