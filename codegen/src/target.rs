//! What a kernel is written for.

use crate::dialect::Dialect;

/// What the device that will run a kernel has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The language.
    pub dialect: Dialect,
    /// Whether it computes in f64.
    pub float64: bool,
    /// Whether it computes in 64-bit integers.
    pub int64: bool,
    /// The most threads of one group.
    pub max_group: u32,
    /// The most groups along one axis of a grid.
    pub max_grid: u32,
    /// Bytes of memory that a group shares.
    pub shared_memory: usize,
    /// The most buffers that one kernel can be given, scratch memory included.
    pub max_buffers: usize,
    /// Units that work independently: what a grid should fill.
    pub units: usize,
    /// The threads of every subgroup, if subgroups multiply squares of 16 by 16 f16 and add them up in f32; on CUDA, if there are the
    /// matrix units of compute capability 8.0, which also take bf16.
    pub matrices: Option<u32>,
}
