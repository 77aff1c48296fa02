//! The candidates of the packed GEMM, for the cost model to choose from.
//!
//! - `packed`: operands are copied into micro-panels and blocks of them stay in the caches; the tile says how large.
//! - `fixed`: the same with the blocks of a matmul of 1024 x 1024 x 1024, whatever the shape and the threads; for comparison only.
//!
//! Each tile is also a promise about traffic, which is what the cost model prices.

use millstream_core::how::{Block, Candidate, CandidateRole, Family, Tile, contract_tiles};

use super::{Blocking, Element, Shape};
use crate::contract::gemm_isa;
use crate::contract::packing::Packing;
use crate::contract::way::Asked;

/// The families of the packed GEMM's driver; see the module.
const PACKED: Family = Family::new("packed");
pub(in crate::contract) const FIXED: Family = Family::new("fixed");

/// The size for which the fixed choice is cut.
const FIXED_FOR: Shape = Shape { batch: 1, m: 1024, n: 1024, k: 1024 };

/// The blocks of a matmul of this shape; larger ones than there are would promise too little traffic.
pub(in crate::contract) fn tile(b: Blocking, shape: Shape) -> Tile {
    let within = |size: usize, total: usize| size.min(total.max(1));
    let b = Blocking { mc: within(b.mc, shape.m), nc: within(b.nc, shape.n), ..b };
    let block = |m, n, k| Block { m, n, k };
    // Registers hold a micro-tile; L1 a panel of the right operand, used for all rows of a task; L2 the
    // task's block of the left operand and of the result.
    let blocks = [block(b.mr, b.nr, 1), block(b.mc, b.nr, b.kc), block(b.mc, b.nc, b.kc)];
    Tile::new(blocks)
}

pub(in crate::contract) fn blocking(tile: &Tile) -> Option<Blocking> {
    let (first, last) = (tile.blocks.first()?, tile.blocks.last()?);
    let kc = tile.blocks.get(1)?.k;
    let positive = |n: usize| n.max(1);
    Some(Blocking {
        mr: positive(first.m),
        nr: positive(first.n),
        mc: positive(last.m).next_multiple_of(positive(first.m)),
        nc: positive(last.n).next_multiple_of(positive(first.n)),
        kc: positive(kc),
    })
}

/// The candidates; the first is the fixed choice. The rate of the operands' dtype is so many times `faster` than that of the numbers that are
/// multiplied here, one at a time.
pub(in crate::contract) fn candidates<T: Element>(packing: &Packing<'_>, faster: f64) -> Vec<Candidate> {
    let Asked { sizes, machine, .. } = *packing.asked;
    let isa = gemm_isa(machine.isa);
    let shape = Shape { batch: sizes.batch, m: sizes.m, n: sizes.n, k: sizes.k };
    let fixed = Blocking::for_caches::<T>(&machine.topology, isa, FIXED_FOR);
    let fitted = Blocking::for_caches::<T>(&machine.topology, isa, shape);
    let edges = Some(super::edges::<T>(isa));
    let all = [sizes.batch, sizes.m, sizes.n, sizes.k].iter().map(|&n| n as f64).product::<f64>();
    let computed = (faster > 1.0).then_some((all * faster) as u64);
    let scheduled = |family: Family, tile: Tile| {
        let kc = tile.blocks.get(1).map_or(sizes.k, |b| b.k);
        let mut candidate = Candidate::scheduled(family, tile);
        (candidate.traffic.edges, candidate.traffic.copied) = (edges, packing.packed(kc));
        (candidate.traffic.computed, candidate.traffic.matrices) = (computed, packing.matrices());
        candidate
    };
    let packed = |tile: Tile| scheduled(PACKED, tile);
    let fixed = tile(fixed, shape);
    let mut list = vec![Candidate { role: CandidateRole::Fixed, ..scheduled(FIXED, fixed.clone()) }, packed(fixed)];
    let mut add = |candidate: Candidate| {
        if !list.contains(&candidate) {
            list.push(candidate);
        }
    };
    add(packed(tile(fitted, shape)));
    let registers = [Block { m: fitted.mr, n: fitted.nr, k: 1 }];
    for t in contract_tiles(sizes, size_of::<T>(), &registers, packing.profile) {
        // A task holds its block of the result in L2 beside the left operand's.
        if let Some(mut b) = blocking(&t) {
            let room = machine.topology.l2().size / 4 / (b.mc * size_of::<T>()).max(1);
            b.nc = b.nc.min((room / b.nr * b.nr).max(4 * b.nr));
            add(packed(tile(b, shape)));
        }
    }
    list
}
