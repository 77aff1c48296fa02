//! The contracts and the machinery of Millstream: everything that all devices share.
//!
//! - **What** is computed ([`what`]): [`DType`], [`Layout`], [`Expr`], [`Op`], and their reference semantics.
//! - **How** it is computed ([`how`]): [`DeviceProfile`], [`Variant`] and tiles, and the one [`how::cost`] model.
//! - **Where** it is computed: [`Runtime`] and [`Device`], [`Buffer`] and the memory [`pool`], [`Stream`] and [`Event`], and
//!   the [`dispatcher`] with its [`ring`] and [`cache`]s. [`backend`] is the contract that a device family implements.
//! - **Seeing**: [`Profiler`], [`Error`] and [`ErrorLog`].
//!
//! No vendor API and no shader library is named here. A path through all of it: a tensor library builds an [`Op`], asks a
//! [`Device`] to [`choose`](Device::choose) a way, [`prepare`](Device::prepare)s and [`launch`](Device::launch)es it.

pub mod backend;
pub mod buffer;
pub mod cache;
pub mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod device;
pub mod dispatcher;
pub mod error;
pub mod event;
mod exit;
pub mod how;
pub mod interrupt;
pub mod memory;
pub mod pack_cache;
pub mod pool;
pub mod profiler;
pub mod ring;
pub mod runtime;
pub mod sim;
pub mod stream;
mod sync;
pub mod testing;
pub mod what;

pub use backend::{Backend, Binding, Bindings, Priority, Support};
pub use buffer::{Buffer, Lent, Mode, Resident, Sharing, Storage};
pub use check::{Check, Checks};
pub use device::Device;
pub use dispatcher::{Prepared, Work};
pub use error::{Error, ErrorKind, ErrorLog, Fault, Result};
pub use event::{Event, block_on};
pub use how::{Candidate, Cost, DeviceKind, DeviceProfile, Variant};
pub use memory::MemoryKind;
pub use pack_cache::PackCache;
pub use profiler::{Profiler, Record, RecordKind};
pub use runtime::{Idea, Runtime};
pub use stream::Stream;
pub use what::{
    Access, Accuracy, Attention, Binary, Body, Contract, DType, Dims, Element, Expr, ExprBuilder, Guard, HostFunction,
    HostOperand, HostRun, Id, Kind, Layout, Lookup, Node, Op, Outside, Reduce, Scalar, Strides, Unary,
};
