//! How an operation is computed: profiles of devices, variants and tiles, and the one cost model.

mod cost;
mod groups;
mod profile;
mod tile;

pub use cost::{Bound, Cost, cost};
pub use profile::{DeviceKind, DeviceProfile, MemoryLevel, Transfer};
pub use tile::{Block, ContractSizes, FIXED, LIBRARY, Tile, Variant, contract_tiles};
