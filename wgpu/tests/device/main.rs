//! The devices of this crate below the operations: opening, memory, copies, events, loss.

#[path = "../common/mod.rs"]
mod common;
mod events;
mod family;
mod lost;
mod memory;
