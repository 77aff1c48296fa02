//! Variants and tiles: in which steps an operation walks its index space.
//!
//! A [`Tile`] lists the block that each level of memory holds, from the registers outward. The same form describes a CPU's
//! micro-kernel and cache blocks and a GPU's thread, group and grid blocks, so that one function prices both.

use smallvec::SmallVec;

use super::profile::DeviceProfile;
use crate::what::{Body, Op, elements};

/// The part of a contraction's m, n and k that one level holds at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Block {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Products summed at a stretch.
    pub k: usize,
}

/// Blocks from the registers outward: the first is held in registers, the next in the nearest memory level, and so on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Tile {
    /// The blocks.
    pub blocks: SmallVec<[Block; 4]>,
}

/// The family of kernels of NVIDIA's library for products of matrices.
pub const LIBRARY: &str = "cublas";
/// The family of tiles that are cut neither for the shape nor for the threads: what [`crate::Idea::Tile`] is compared with. Where a device
/// offers one, it is the first of its variants and is chosen only with that idea switched off.
pub const FIXED: &str = "fixed";

/// One way to compute an operation: which family of kernels, with which tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The family of kernels, a name of the backend's own.
    pub family: &'static str,
    /// The tile.
    pub tile: Tile,
    /// Bytes that are copied to another place, where they are read, before the arithmetic begins: an image with its border, the
    /// windows of a convolution as a matrix.
    pub copied: u64,
    /// The products that are computed, where they are others than the operation says.
    pub products: Option<ContractSizes>,
    /// Products of two numbers that are computed in all, where those with the zeros of padding are left out.
    pub computed: Option<u64>,
    /// Tasks for each product of the batch, where the largest block is not what one task computes.
    pub tasks: Option<usize>,
    /// Rows and columns that kernels for edges come in, where those cost less than whole register blocks.
    pub edges: Option<(usize, usize)>,
}

impl Variant {
    /// A variant without a tile.
    pub fn plain(family: &'static str) -> Variant {
        Variant::tiled(family, Tile::default())
    }

    /// A variant with a tile that copies nothing.
    pub fn tiled(family: &'static str, tile: Tile) -> Variant {
        Variant { family, tile, copied: 0, products: None, computed: None, tasks: None, edges: None }
    }

    /// Whether it is the tile that a device would take for every shape, for comparison only.
    pub fn is_fixed(&self) -> bool {
        self.family == FIXED
    }

    /// Whether the kernel is of a vendor's library.
    pub fn is_library(&self) -> bool {
        self.family == LIBRARY
    }

    /// A name for people: the family and its blocks.
    pub fn label(&self) -> String {
        let mut text = self.family.to_string();
        for b in &self.tile.blocks {
            text += &format!(" {}x{}x{}", b.m, b.n, b.k);
        }
        text
    }
}

/// The sizes of a contraction, each group of dimensions taken as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContractSizes {
    /// Independent products.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Products in each sum.
    pub k: usize,
}

impl ContractSizes {
    /// Those of an operation, if it is a contraction.
    pub fn of(op: &Op) -> Option<ContractSizes> {
        let Body::Contract(c) = &op.body else { return None };
        let size = |range: std::ops::Range<usize>| elements(&op.dims[range]);
        Some(ContractSizes { batch: size(0..c.m), m: size(c.m..c.n), n: size(c.n..c.k), k: size(c.k..op.dims.len()) })
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
                let tile = Tile { blocks: blocks.into_iter().collect() };
                if !tiles.contains(&tile) {
                    tiles.push(tile);
                }
            }
        }
    }
    tiles
}
