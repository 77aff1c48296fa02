//! The candidates of the packed GEMM, for the cost model to choose from.
//!
//! - `packed`: operands are copied into micro-panels and blocks of them stay in the caches; the tile says how large.
//! - `fixed`: the same with the blocks of a matmul of 1024 x 1024 x 1024, whatever the shape and the threads; for comparison only.
//!
//! Each tile is also a promise about traffic, which is what the cost model prices.

use millstream_core::how::{Block, Candidate, CandidateRole, ContractSizes, Family, Tile, contract_tiles};
use millstream_core::what::{ImageSide, WindowAxis};

use super::Blocking;
use crate::contract::dispatch::AccElement;
use crate::contract::gemm_isa;
use crate::contract::way::Asked;

/// The families of the packed GEMM's driver; see the module.
const PACKED: Family = Family::new("packed");
pub(in crate::contract) const FIXED: Family = Family::new("fixed");

/// Copies that take as long as finding an element that is copied alone; measured.
const ALONE: u64 = 8;

/// The size for which the fixed choice is cut.
const FIXED_FOR: ContractSizes = ContractSizes { batch: 1, m: 1024, n: 1024, k: 1024 };

/// The blocks of a matmul of this shape; larger ones than there are would promise too little traffic.
pub(in crate::contract) fn tile(b: Blocking, shape: ContractSizes) -> Tile {
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

/// Bytes that are copied, with blocks of K of this size.
pub(in crate::contract) fn copied<T: AccElement>(asked: &Asked<'_>, kc: usize) -> u64 {
    let Asked { sizes: shape, contract, machine, .. } = *asked;
    let bytes = [asked.bytes::<T>(shape.m, shape.k), asked.bytes::<T>(shape.n, shape.k)];
    let matrices = asked.matrices::<T>();
    // Results that an expression goes over are copied, too.
    let results = if contract.epilogue.is_acc() { 0 } else { asked.bytes::<T>(shape.m, shape.n) };
    if matrices.iter().any(Option::is_none) {
        // Windows are gathered element by element, for which they count twice, and pixels with gaps between them one by one. Filters beside an image
        // are few, and mostly in the pack cache.
        let moves =
            |axis: &WindowAxis| u64::from(axis.tap.is_some() || axis.is_padded()) + ALONE * u64::from(axis.stride > 1);
        let times = |side| 1 + asked.windows(side).map_or(0, |w| w.axes.iter().map(moves).max().unwrap_or(0));
        let gathered = matrices.iter().zip(bytes).zip([ImageSide::Left, ImageSide::Right]);
        let gathered = gathered.filter(|((matrix, _), _)| matrix.is_none());
        return gathered.fold(results, |sum, ((_, bytes), side)| sum.saturating_add(bytes.saturating_mul(times(side))));
    }
    let strides = matrices.map(|matrix| matrix.filter(|m| m.dtype == T::DTYPE).map(|m| (m.row, m.col)));
    let in_place = super::unpacked::<T>(gemm_isa(machine.isa), shape, kc, strides);
    let packed = in_place.iter().zip(bytes).filter(|(in_place, _)| !**in_place);
    packed.fold(results, |sum, (_, bytes)| sum.saturating_add(bytes))
}

/// The candidates; the first is the fixed choice.
pub(in crate::contract) fn candidates<T: AccElement>(asked: &Asked<'_>) -> Vec<Candidate> {
    let Asked { sizes: shape, machine, .. } = *asked;
    let isa = gemm_isa(machine.isa);
    let fixed = Blocking::for_caches::<T>(&machine.topology, isa, FIXED_FOR);
    let fitted = Blocking::for_caches::<T>(&machine.topology, isa, shape);
    let edges = Some(super::edges::<T>(isa, shape));
    // Tables of windows begin anew with each matrix of a batch.
    let is_matmul = asked.matrices::<T>().iter().all(Option::is_some);
    let starts = if is_matmul { 0 } else { shape.batch as u64 };
    let all = [shape.batch, shape.m, shape.n, shape.k].iter().map(|&n| n as f64).product::<f64>();
    // Numbers are multiplied one at a time here, whatever the operands' dtypes.
    let faster = asked.faster::<T>();
    let computed = (faster > 1.0).then_some((all * faster) as u64);
    let scheduled = |family: Family, tile: Tile| {
        let kc = tile.blocks.get(1).map_or(shape.k, |b| b.k);
        let mut candidate = Candidate::scheduled(family, tile);
        (candidate.traffic.edges, candidate.traffic.copied) = (edges, copied::<T>(asked, kc));
        (candidate.traffic.computed, candidate.traffic.matrices) = (computed, starts);
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
    for t in contract_tiles(shape, size_of::<T>(), &registers, &machine.reference) {
        // A task holds its block of the result in L2 beside the left operand's.
        if let Some(mut b) = blocking(&t) {
            let room = machine.topology.l2().size / 4 / (b.mc * size_of::<T>()).max(1);
            b.nc = b.nc.min((room / b.nr * b.nr).max(4 * b.nr));
            add(packed(tile(b, shape)));
        }
    }
    list
}
