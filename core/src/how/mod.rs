//! How an operation is computed: profiles of devices, what a kernel is, what it moves, and the one cost model.

mod cost;
mod groups;
mod overlap;
mod profile;
mod traffic;
mod variant;
mod walk;

pub use cost::{Bound, Cost, cost};
pub use overlap::in_flight;
pub use profile::{DeviceKind, DeviceProfile, Groups, MemoryLevel, Transfer};
pub use traffic::{Arithmetic, ContractSizes, Overlap, Traffic};
pub use variant::{
    Block, Candidate, CandidateRole, Family, IndexWidth, Schedule, Split, Tile, Variant, contract_tiles,
};
pub use walk::{RowWork, Walks};
