//! What a kernel is, apart from what it costs ([`super::Traffic`]).
//!
//! A [`Variant`] is part of the key of a compiled kernel, a [`Schedule`] is not: it goes into the launch. Both together with the
//! traffic are a [`Candidate`], which a backend offers and the cost model compares.
//!
//! A [`Tile`] lists the block that each level of memory holds, from the registers outward. The same form describes a CPU's
//! micro-kernel and cache blocks and a GPU's thread, group and grid blocks, so that one function prices both.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::profile::DeviceProfile;
use super::traffic::{ContractSizes, Traffic};

/// The part of a contraction's m, n and k that one level holds at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Block {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Indices of K summed at a stretch.
    pub k: usize,
}

/// Blocks from the registers outward: the first is held in registers, the next in the nearest memory level, and so on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tile {
    /// The blocks.
    pub blocks: SmallVec<[Block; 4]>,
}

impl Tile {
    /// These blocks, from the registers outward.
    pub fn new(blocks: impl IntoIterator<Item = Block>) -> Tile {
        Tile { blocks: blocks.into_iter().collect() }
    }

    const fn empty() -> Tile {
        Tile { blocks: SmallVec::new_const() }
    }
}

impl std::fmt::Display for Tile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.blocks.iter().try_for_each(|b| write!(f, " {}x{}x{}", b.m, b.n, b.k))
    }
}

/// A family of kernels: a name that its backend gives it and by which it is stored. Core knows none of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Family(Cow<'static, str>);

impl Family {
    /// The family of this name.
    pub const fn new(name: &'static str) -> Family {
        Family(Cow::Borrowed(name))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The bits of an index in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum IndexWidth {
    /// 32 bits.
    #[default]
    Narrow,
    /// 64 bits.
    Wide,
}

/// How the sums over K are shared among groups of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Split {
    /// One group computes the whole of a sum.
    #[default]
    Whole,
    /// Several groups leave their parts of a sum in the workspace; a second pass adds them in order. How many there are is said at a launch.
    TwoPass,
}

/// What a kernel is: all that is compiled into it beside the class of its operation. It holds no size of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// The family of kernels.
    pub family: Family,
    /// The bits of an index.
    pub index: IndexWidth,
    /// The tile that the kernel is compiled for.
    pub tile: Tile,
    /// How sums are shared.
    pub split: Split,
}

impl Variant {
    /// A variant without a tile.
    pub const fn plain(family: Family) -> Variant {
        Variant { family, index: IndexWidth::Narrow, tile: Tile::empty(), split: Split::Whole }
    }

    /// A variant with a tile.
    pub fn tiled(family: Family, tile: Tile) -> Variant {
        Variant { tile, ..Variant::plain(family) }
    }
}

impl std::fmt::Display for Variant {
    /// For people: the family, what is special about it, and its blocks.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let split = if self.split == Split::TwoPass { "split " } else { "" };
        let wide = if self.index == IndexWidth::Wide { " wide" } else { "" };
        write!(f, "{split}{}{wide}{}", self.family, self.tile)
    }
}

/// What a launch is told beside the sizes of its operation. No kernel is compiled for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Schedule {
    /// Parts into which K is cut, where the variant shares sums ([`Split::TwoPass`]) and leaves the number open.
    pub splits: usize,
    /// Blocks that the kernel takes at a launch, such as those held in a processor's caches.
    pub tile: Tile,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { splits: 1, tile: Tile::default() }
    }
}

/// For which comparisons a candidate is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum CandidateRole {
    /// A kernel of our own.
    #[default]
    Own,
    /// A kernel of a vendor's library, left out with [`crate::Idea::Library`] switched off.
    Library,
    /// The one tile for every shape, chosen only with [`crate::Idea::Tile`] switched off.
    Fixed,
}

/// One way to compute an operation that a backend offers: the kernel, its launch, and what that costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What the kernel is.
    pub variant: Variant,
    /// What its launch is told.
    pub schedule: Schedule,
    /// What it moves and computes, for the cost model alone.
    pub traffic: Traffic,
    /// For which comparisons it is there.
    pub role: CandidateRole,
}

impl Candidate {
    /// A kernel without a tile, priced by the operation's own bytes and arithmetic.
    pub fn plain(family: Family) -> Candidate {
        Candidate::new(Variant::plain(family), Traffic::default())
    }

    /// A kernel and what it costs.
    pub fn new(variant: Variant, traffic: Traffic) -> Candidate {
        Candidate { variant, schedule: Schedule::default(), traffic, role: CandidateRole::Own }
    }

    /// A kernel that is compiled for a tile and priced by it.
    pub fn tiled(variant: Variant) -> Candidate {
        let traffic = Traffic { tile: variant.tile.clone(), ..Traffic::default() };
        Candidate::new(variant, traffic)
    }

    /// A kernel that is given a tile at its launch and priced by it.
    pub fn scheduled(family: Family, tile: Tile) -> Candidate {
        let schedule = Schedule { tile: tile.clone(), ..Schedule::default() };
        Candidate { schedule, ..Candidate::new(Variant::plain(family), Traffic { tile, ..Traffic::default() }) }
    }

    /// Whether both launch the same kernel in the same way, whatever that costs.
    pub fn is_same_as(&self, other: &Candidate) -> bool {
        self.variant == other.variant && self.schedule == other.schedule
    }

    /// A name for people: the variant, and what its launch is told.
    pub fn label(&self) -> String {
        let parts =
            if self.schedule.splits > 1 { format!(" in {} parts", self.schedule.splits) } else { String::new() };
        format!("{}{}{parts}", self.variant, self.schedule.tile)
    }
}

/// Candidate tiles for a contraction of these sizes and bytes an element, given the register blocks that the device has
/// kernels for. Each level's block is the largest whose operands fill no more than half of what one unit has of it, cut to
/// the problem, so that tall problems get tall blocks and wide ones wide blocks.
pub fn contract_tiles(sizes: ContractSizes, element: usize, registers: &[Block], profile: &DeviceProfile) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let caches = &profile.levels[..profile.levels.len().saturating_sub(1)];
    let room = |level: usize| caches.get(level).map_or(usize::MAX, |l| l.bytes / 2 / element.max(1));
    for r in registers {
        let (m0, n0) = (r.m.max(1), r.n.max(1));
        // The nearest level holds a sliver of each operand over kc; a longer kc writes the result less often.
        let longest = (room(0) / (m0 + n0)).clamp(8, 1024);
        let pieces = sizes.k.div_ceil(longest).max(1);
        let even = sizes.k.div_ceil(pieces).max(1);
        for kc in [even, even.min(256), even.min(384)] {
            // The next level holds a block of the left operand, the outermost cache one of the right.
            let whole_m = sizes.m.div_ceil(m0) * m0;
            let whole_n = sizes.n.div_ceil(n0) * n0;
            let mc_most = (room(1) / kc / m0 * m0).clamp(m0, whole_m.max(m0));
            let nc_most = (room(2) / kc / n0 * n0).clamp(n0, whole_n.max(n0));
            for (mc, nc) in [
                (mc_most, nc_most),
                (mc_most.min(16 * m0), nc_most.min(32 * n0)),
                (mc_most.min(32 * m0), nc_most.min(8 * n0)),
            ] {
                let blocks = [
                    Block { m: m0, n: n0, k: 1 },
                    Block { m: m0, n: n0, k: kc },
                    Block { m: mc, n: n0, k: kc },
                    Block { m: mc, n: nc, k: kc },
                ];
                let tile = Tile::new(blocks);
                if !tiles.contains(&tile) {
                    tiles.push(tile);
                }
            }
        }
    }
    tiles
}
