//! The ways to compute a contraction, for the cost model to choose from.
//!
//! - `packed`: operands are copied into micro-panels and blocks of them stay in the caches; the tile says how large.
//! - `fixed`: the same with the blocks of a product of 1024 x 1024 x 1024, whatever the shape and the threads; for comparison only.
//! - `gemv`: one of m and n is so small that the other operand is read once, where it lies.
//! - `direct`: one operand, a convolution's image or the rows of a matrix, is read where it lies ([`crate::direct`]).
//! - `columns`: a matrix on the right is taken a few columns at a time, where it lies ([`crate::columns`]).
//! - `depthwise`: filters that see one channel each, by vectors of places ([`crate::depthwise`]).
//! - `depthwise across`: the same by vectors of channels, where those are neighbours ([`crate::depthwise::across`]).
//! - `winograd 4x4`, `winograd 2x2`: fewer multiplications, where the accuracy allows it ([`crate::winograd`]).
//! - `small`: everything fits the first-level cache and is read where it lies.
//!
//! The families differ in what the product's driver does with the blocking; each tile is also a promise about traffic,
//! which is what the cost model prices.

use millstream_core::how::{
    Block, Candidate, ContractSizes, DeviceProfile, Family, Role, Tile, Traffic, Variant, contract_tiles,
};
use millstream_core::what::Windows;
use millstream_core::{Body, DType, Op};

use super::across::SideBySide;
use super::apart::Apart;
use super::dispatch;
use super::fewer::{self, Fewer};
use super::in_place::{self, InPlace};
use crate::backend::Machine;
use crate::gemm::{self, Blocking, Element, Shape};

/// The families of the packed product's driver; see the module.
pub(super) const PACKED: Family = Family::new("packed");
pub(super) const FIXED: Family = Family::new("fixed");
pub(super) const SMALL: Family = Family::new("small");
const GEMV: Family = Family::new("gemv");

/// The size for which the fixed choice is cut.
const FIXED_FOR: Shape = Shape { batch: 1, m: 1024, n: 1024, k: 1024 };
/// Products of at most this many multiply-adds are not packed.
const SMALL_PRODUCTS: usize = 40 * 40 * 40;
/// What a product of few numbers costs beside them, as bytes that are copied. Measured: some 2 us.
const PRODUCT_BYTES: u64 = 64 << 10;

/// The blocks of a product of this shape; larger ones than there are would promise too little traffic.
pub(super) fn tile(b: Blocking, shape: Shape) -> Tile {
    let within = |size: usize, total: usize| size.min(total.max(1));
    let b = Blocking { mc: within(b.mc, shape.m), nc: within(b.nc, shape.n), ..b };
    let block = |m, n, k| Block { m, n, k };
    // Registers hold a micro-tile; the first level a panel of the right operand, used for all rows of a task; the second the
    // task's block of the left operand and of the result.
    let blocks = [block(b.mr, b.nr, 1), block(b.mc, b.nr, b.kc), block(b.mc, b.nc, b.kc)];
    Tile::new(blocks)
}

pub(super) fn blocking(tile: &Tile) -> Option<Blocking> {
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

/// The candidates for a contraction that sums in `acc`. The first is the fixed choice.
pub(crate) fn variants(op: &Op, acc: DType, machine: &Machine, profile: &DeviceProfile) -> Vec<Candidate> {
    let Some(sizes) = ContractSizes::of(op) else { return Vec::new() };
    struct Candidates<'a>(ContractSizes, &'a Machine, &'a DeviceProfile);
    impl dispatch::Visit for Candidates<'_> {
        type Output = Vec<Candidate>;
        fn visit<T: dispatch::Sum>(self) -> Vec<Candidate> {
            candidates::<T>(self.0, self.1, self.2)
        }
    }
    let mut list = dispatch::visit(acc, Candidates(sizes, machine, profile));
    let readings = Windows::readings(op);
    // Ways are compared as one thread would go them.
    let way = |family: Family| InPlace::of(&family, op, &readings, (machine.isa, 1));
    let (direct, columns) = (way(in_place::DIRECT), way(in_place::COLUMNS));
    let bytes = |a: usize, b: usize| {
        let elements = (sizes.batch as u64).saturating_mul(a as u64).saturating_mul(b as u64);
        elements.saturating_mul(size_of::<f32>() as u64)
    };
    // The packed product copies sums that an expression goes over.
    let sums = if is_plain(op) { 0 } else { bytes(sizes.m, sizes.n) };
    // Two matrices stored row by row: one way packs the left operand, one the right, and the product what it does not read where it
    // lies.
    let strides = in_place::strides(op);
    let matrices = matches!(strides, [Some(_), Some((1, _))]) && direct.as_ref().is_none_or(InPlace::is_matrix);
    let (left, right) = if matrices { (bytes(sizes.m, sizes.k), bytes(sizes.k, sizes.n)) } else { (0, 0) };
    if let Some(direct) = &direct {
        // The packed product copies every window, piece by piece: measured, that takes twice as long as copying as much at once.
        if !direct.is_matrix() {
            let windows = 2 * direct.windows();
            list.iter_mut().for_each(|v| v.traffic.copied = windows);
        }
    }
    match &columns {
        _ if matrices => {
            for v in list.iter_mut().filter(|v| is_packed(v)) {
                let kc = v.schedule.tile.blocks.get(1).map_or(sizes.k, |b| b.k);
                let unpacked = gemm::unpacked::<f32>(super::product_isa(machine.isa), shape_of(sizes), kc, strides);
                let packed = |bytes: u64, unpacked: bool| if unpacked { 0 } else { bytes };
                v.traffic.copied =
                    packed(left, unpacked[0]).saturating_add(packed(right, unpacked[1])).saturating_add(sums);
            }
        }
        // Copied window by window, as above, where there is no direct way that has said so already.
        Some(columns) if columns.has_windows() => {
            let copied = 2 * columns.windows();
            list.iter_mut().filter(|v| direct.is_none() && is_packed(v)).for_each(|v| v.traffic.copied = copied);
        }
        Some(columns) => {
            let copied = columns.windows().saturating_add(sums);
            list.iter_mut().filter(|v| is_packed(v)).for_each(|v| v.traffic.copied = copied);
        }
        None if acc == DType::F32 => {
            // As for an image with its channels last, so that both orders of an image are priced alike.
            let copied = bytes(sizes.m, sizes.k).saturating_add(sums);
            list.iter_mut().filter(|v| is_packed(v) && v.traffic.copied == 0).for_each(|v| v.traffic.copied = copied);
        }
        None => {}
    }
    let with = |way: &InPlace, more: u64| {
        let mut candidate = way.candidate();
        candidate.traffic.copied = candidate.traffic.copied.saturating_add(more);
        candidate
    };
    list.extend(direct.as_ref().map(|d| with(d, right)));
    list.extend(columns.as_ref().map(|c| with(c, left)));
    let (apart, across) = (Apart::new(op, &readings, machine.isa), SideBySide::new(op, &readings, machine.isa));
    if let Some(windows) = apart.as_ref().map(Apart::windows).or(across.as_ref().map(SideBySide::windows)) {
        // Elsewhere every channel is a product of its own.
        let copied = windows.saturating_add((sizes.batch as u64).saturating_mul(PRODUCT_BYTES));
        list.iter_mut().filter(|v| v.variant.family != in_place::DIRECT).for_each(|v| v.traffic.copied = copied);
    }
    list.extend(apart.map(|a| a.candidate()));
    list.extend(across.map(|a| a.candidate()));
    for (family, m) in fewer::FAMILIES {
        list.extend(Fewer::new(op, &readings, m, machine).map(|w| w.candidate(family)));
    }
    list
}

fn shape_of(sizes: ContractSizes) -> Shape {
    Shape { batch: sizes.batch, m: sizes.m, n: sizes.n, k: sizes.k }
}

fn is_packed(v: &Candidate) -> bool {
    v.variant.family == FIXED || v.variant.family == PACKED
}

/// Whether results are the sums themselves.
fn is_plain(op: &Op) -> bool {
    matches!(&op.body, Body::Contract(c) if c.epilogue.is_acc())
}

fn candidates<T: Element>(sizes: ContractSizes, machine: &Machine, profile: &DeviceProfile) -> Vec<Candidate> {
    let isa = super::product_isa(machine.isa);
    let shape = shape_of(sizes);
    let fixed = Blocking::for_caches::<T>(&machine.topology, isa, FIXED_FOR);
    let fitted = Blocking::for_caches::<T>(&machine.topology, isa, shape);
    let edges = Some(gemm::edges::<T>(isa));
    let product = |family: Family, tile: Tile| {
        let mut candidate = Candidate::scheduled(family, tile);
        candidate.traffic.edges = edges;
        candidate
    };
    let packed = |tile: Tile| product(PACKED, tile);
    let fixed = tile(fixed, shape);
    let mut list = vec![Candidate { role: Role::Fixed, ..product(FIXED, fixed.clone()) }, packed(fixed)];
    let mut add = |candidate: Candidate| {
        if !list.contains(&candidate) {
            list.push(candidate);
        }
    };
    if sizes.m == 1 || sizes.n == 1 {
        // Nothing is rounded up to a register block.
        let (m, n) = (if sizes.m == 1 { 1 } else { fitted.mc }, if sizes.n == 1 { 1 } else { fitted.nc });
        let block = |m, n, k| Block { m, n, k };
        let blocks = [block(1, 1, 1), block(m, n, fitted.kc)];
        let traffic = Traffic { tile: Tile::new(blocks), ..Traffic::default() };
        add(Candidate::new(Variant::plain(GEMV), traffic));
    } else if sizes.m.saturating_mul(sizes.n).saturating_mul(sizes.k) <= SMALL_PRODUCTS {
        add(product(SMALL, tile(fitted, shape)));
    }
    add(packed(tile(fitted, shape)));
    let registers = [Block { m: fitted.mr, n: fitted.nr, k: 1 }];
    for t in contract_tiles(sizes, size_of::<T>(), &registers, profile) {
        // A task holds its block of the result in the second level beside the left operand's.
        if let Some(mut b) = blocking(&t) {
            let room = machine.topology.l2().size / 4 / (b.mc * size_of::<T>()).max(1);
            b.nc = b.nc.min((room / b.nr * b.nr).max(4 * b.nr));
            add(packed(tile(b, shape)));
        }
    }
    list
}
