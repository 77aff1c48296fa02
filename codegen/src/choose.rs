//! Which operations can be written as kernels, in which ways, and the text of one of them.

use millstream_core::backend::Support;
use millstream_core::how::{
    Arithmetic, Block, Candidate, ContractSizes, DeviceProfile, Family, Groups, IndexWidth, Split, Tile, Variant, cost,
};
use millstream_core::what::elements;
use millstream_core::{Access, Body, Contract, DType, Error, Op, Result};

use crate::attention::{self, flash};
use crate::contract::{self, Blocks, units};
use crate::indexed;
use crate::map;
use crate::matrix;
use crate::program::Program;
use crate::rows::{self, Walk};
use crate::target::Target;

/// Whether kernels for this operation can be written for a device, or why not.
pub fn supports(op: &Op, target: &Target) -> Support {
    let no = |why: String| Support::No(why);
    if let Body::Host(_) = op.body {
        return no("computed on the host".into());
    }
    let dtypes = op.inputs.iter().chain(&op.outputs).map(|a| a.dtype);
    let inner = op.exprs().flat_map(|e| e.nodes().iter().map(|(_, d)| *d));
    let acc = if let Body::Contract(c) = &op.body { Some(c.acc) } else { None };
    for dtype in dtypes.chain(inner).chain(acc) {
        if matches!(dtype, DType::F64 | DType::C128) && !target.float64 {
            return no(format!("the device does not compute in f64, which {dtype} needs"));
        }
        if matches!(dtype, DType::I64 | DType::U64) && !target.int64 {
            return no(format!("the device has no 64-bit integers, which {dtype} needs"));
        }
    }
    let more = matches!(op.body, Body::Rows { .. } | Body::Gather(_));
    let buffers = op.inputs.len() + op.outputs.len() + usize::from(more);
    if buffers > target.max_buffers {
        return no(format!("it takes {buffers} buffers, and a kernel of the device at most {}", target.max_buffers));
    }
    if !target.dialect.language().has_wide_indices() && is_wide(op) {
        return no("its indices do not fit into 32 bits".into());
    }
    match op.body {
        Body::Attention(_) => {
            let longest = op.dims[op.dims.len() - 2..].iter().copied().max().unwrap_or(0);
            if flash::block(op, target).is_none() && attention::block(op, target).is_none() {
                return no(format!("there is no kernel for attention over vectors of {longest} in its shared memory"));
            }
            Support::Native
        }
        Body::Map(_) | Body::Rows { .. } | Body::Contract(_) | Body::Gather(_) | Body::Scan { .. } => Support::Native,
        _ => no(format!("there is no kernel for {} yet", op.name())),
    }
}

/// Whether an index or a position of the operation may not fit into 32 bits.
fn is_wide(op: &Op) -> bool {
    const MOST: usize = 1 << 30;
    let reach = |a: &Access| {
        (0..op.dims.len()).fold(a.base.unsigned_abs(), |r, d| {
            r.saturating_add(op.dims[d].saturating_sub(1).saturating_mul(a.strides[d].unsigned_abs()))
        })
    };
    // A table is reached wherever a lookup may lead.
    let far = match &op.body {
        Body::Gather(g) => g
            .lookups
            .iter()
            .fold(0usize, |r, l| r.saturating_add(l.size.saturating_sub(1).saturating_mul(l.stride.unsigned_abs()))),
        _ => 0,
    };
    let reach = |a: &Access| reach(a).saturating_add(far);
    let bytes = |a: &Access| reach(a).saturating_mul(a.dtype.size().min(4));
    let space = match ContractSizes::of(op) {
        Some(s) => {
            s.batch.saturating_mul(s.m).saturating_mul(s.n).max(s.m.saturating_mul(s.k)).max(s.n.saturating_mul(s.k))
        }
        None => elements(&op.dims),
    };
    space >= MOST || op.inputs.iter().chain(&op.outputs).any(|a| reach(a) >= MOST || bytes(a) >= 2 * MOST)
}

const MAP: Family = Family::new("map");
const SQUARES: Family = Family::new("squares");
const ROWS: Family = Family::new("rows");
const COLUMNS: Family = Family::new("columns");
const TILES: Family = Family::new("tiles");
const GATHER: Family = Family::new("gather");
const SCAN: Family = Family::new("scan");
const SCAN_COLUMNS: Family = Family::new("scan columns");
const ATTENTION: Family = Family::new("attention");
/// Attention on matrix units whose registers are known.
const FLASH: Family = Family::new("flash");
/// Blocks of f16 on cooperative matrices; indices that need 64 bits are for [`TILES`].
const MATRICES: Family = Family::new("matrices");
/// Blocks of f16 and bf16 on matrix units whose registers are known.
const UNITS: Family = Family::new("units");

/// How units run the kernels that are written here, where a launch that needs what the one before wrote takes so long: fitted to an H200.
pub fn groups(dependent_launch: f64) -> Groups {
    Groups {
        threads: 2048.0,
        half: 128.0,
        latency: 0.5e-6,
        dependent_launch,
        accumulator_registers: 1.5,
        other_registers: 72.0,
        fetch: 4.0,
        fetch_several: 6.0,
        fetch_guard: 3.0,
        carried: 1.0,
        carried_several: 2.0,
        row_product: 6.0,
        in_flight: 4.0,
    }
}

/// The ways to compute an operation. Their order means nothing but that the first one serves with tiling switched off.
pub fn variants(op: &Op, target: &Target, profile: &DeviceProfile) -> Vec<Candidate> {
    let index = if is_wide(op) { IndexWidth::Wide } else { IndexWidth::Narrow };
    let of = |family: Family| Variant { index, ..Variant::plain(family) };
    let plain = |family: Family| Candidate::tiled(of(family));
    match &op.body {
        Body::Map(_) => {
            let tile = |edge| Tile::new([Block { m: edge, n: edge, k: 1 }]);
            let squares = map::edges(op, target).into_iter();
            let squares = squares.map(|e| Candidate::tiled(Variant { tile: tile(e), ..of(SQUARES) }));
            squares.chain([plain(MAP)]).collect()
        }
        Body::Rows { inner, .. } => {
            walks(op, *inner, target).into_iter().map(|w| walked(op, w, index, target)).collect()
        }
        Body::Contract(c) => {
            let matrices = if index == IndexWidth::Narrow { matrix::blocks(op, c, target) } else { Vec::new() };
            let other = contract::widened(op);
            let matmuls = other.as_ref().and_then(ContractSizes::of);
            let tiles = blocks(other.as_ref().unwrap_or(op), c, target);
            let candidate = |family: Family, b: Blocks, splits: usize| {
                let split = if splits > 1 { Split::TwoPass } else { Split::Whole };
                let mut c = Candidate::tiled(Variant { tile: Tile::new([b.thread, b.group]), split, ..of(family) });
                (c.schedule.splits, c.traffic.splits, c.traffic.dependent) = (splits, splits, usize::from(splits > 1));
                c
            };
            let matrices = matrices.into_iter().map(|b| {
                let mut c = candidate(MATRICES, b, 1);
                c.traffic.arithmetic = Arithmetic::Matrix;
                c
            });
            let widened = other.as_ref().unwrap_or(op);
            let Body::Contract(own) = &widened.body else { return Vec::new() };
            let on_units = with_parts(units::blocks(widened, own, target), widened, target);
            let on_units = on_units.into_iter().map(|(b, splits)| {
                let mut c = candidate(UNITS, b, splits);
                (c.traffic.matmuls, c.traffic.arithmetic) = (matmuls, Arithmetic::Warps);
                c
            });
            let tiles = tiles.into_iter().map(|(b, splits)| {
                let mut c = candidate(TILES, b, splits);
                c.traffic.matmuls = matmuls;
                c
            });
            // The last are what the conformance suite tries first after those that are chosen.
            let tiles: Vec<Candidate> = tiles.collect();
            matrices.chain(tiles).chain(on_units).chain(row_dots(op, c, target, profile, index)).collect()
        }
        Body::Gather(_) => vec![plain(GATHER)],
        Body::Scan { .. } => vec![plain(if indexed::goes_down(op) { SCAN_COLUMNS } else { SCAN })],
        Body::Attention(_) => {
            let room = op.inputs.len() + op.outputs.len() < target.max_buffers;
            let simple = attention::block(op, target).into_iter();
            let simple =
                simple.map(|b| (Candidate::tiled(Variant { tile: Tile::new([b]), ..of(ATTENTION) }), b.m, b.n));
            let on_units = flash::block(op, target).into_iter().map(|block| {
                let mut c = Candidate::tiled(Variant { tile: Tile::new([block]), ..of(FLASH) });
                c.traffic.arithmetic = Arithmetic::Warps;
                (c, block.m, block.n)
            });
            let ways = simple.chain(on_units).flat_map(|(c, queries, keys)| attended(op, c, queries, keys, target));
            ways.filter(|c| room || c.variant.split == Split::Whole).collect()
        }
        _ => Vec::new(),
    }
}

/// Attention in one way, with all keys in one group and with the keys shared by several.
fn attended(op: &Op, mut c: Candidate, queries: usize, keys: usize, target: &Target) -> Vec<Candidate> {
    let at = op.dims.len() - 4;
    let tasks = elements(&op.dims[..at]) * op.dims[at].div_ceil(queries);
    let (parts, _) = attention::parts(tasks, op.dims[at + 1], keys, target.units);
    c.traffic.tasks = Some(tasks);
    let mut shared = c.clone();
    shared.variant.split = Split::TwoPass;
    (shared.traffic.tasks, shared.traffic.dependent) = (Some(tasks * parts), 1);
    if parts > 1 { vec![c, shared] } else { vec![c] }
}

/// The candidate for a walk over the rows of an operation.
fn walked(op: &Op, w: Walk, index: IndexWidth, target: &Target) -> Candidate {
    let family = if w.columns { COLUMNS } else { ROWS };
    let split = if w.split { Split::TwoPass } else { Split::Whole };
    let tile = Tile::new([Block { m: w.rows, n: w.lanes, k: w.held }]);
    let mut candidate = Candidate::tiled(Variant { family, index, tile, split });
    let passes = rows::passes(op);
    if w.split {
        let (count, length) = (elements(&op.dims[..op.inner()]), elements(&op.dims[op.inner()..]));
        candidate.traffic.splits = w.parts(count, length, target.units) as usize;
        candidate.traffic.dependent = passes;
    }
    if w.held == 0 {
        candidate.traffic.reads = passes + usize::from(rows::writes_elements(op));
    }
    candidate
}

/// The cheapest walk over rows for a matrix by a vector, of which every element is read for one result.
fn row_dots(
    op: &Op,
    contract: &Contract,
    target: &Target,
    profile: &DeviceProfile,
    index: IndexWidth,
) -> Option<Candidate> {
    let s = ContractSizes::of(op)?;
    let room = op.inputs.len() + op.outputs.len() < target.max_buffers;
    let rows = rows::of_contract(op).filter(|_| s.m.min(s.n) == 1 && s.k > 0 && room)?;
    let seconds = |c: &Candidate| cost(&rows, Some(&c.traffic), profile).seconds;
    let all = walks(&rows, contract.k, target).into_iter().map(|w| walked(&rows, w, index, target));
    let best = all.map(|c| (seconds(&c), c)).reduce(|a, b| if b.0 < a.0 { b } else { a })?.1;
    // As a contraction it is priced as one.
    Some(Candidate::tiled(best.variant))
}

/// The kernel for an operation in one of its ways.
pub fn generate(op: &Op, variant: &Variant, target: &Target) -> Result<Program> {
    let Variant { family, index, tile, split } = variant;
    let wide = *index == IndexWidth::Wide;
    match (&tile.blocks[..], family) {
        ([], f) if *f == MAP => map::generate(op, target, wide),
        ([], f) if *f == GATHER => indexed::generate_gather(op, target, wide),
        (&[block], f) if *f == ATTENTION => attention::generate(op, target, block, *split, wide),
        (&[block], f) if *f == FLASH => flash::generate(op, target, block, *split, wide),
        ([], f) if *f == SCAN => indexed::generate_scan(op, target, wide),
        ([], f) if *f == SCAN_COLUMNS => indexed::generate_scan_columns(op, target, wide),
        ([square], f) if *f == SQUARES => map::generate_tiled(op, target, square.m, wide),
        (&[thread, group], f) if *f == MATRICES => matrix::generate(op, target, Blocks { thread, group }),
        (&[thread, group], f) if *f == TILES || *f == UNITS => {
            contract::generate(op, target, Blocks { thread, group }, *split, wide, *f == UNITS)
        }
        (&[b], f) if *f == ROWS || *f == COLUMNS => {
            let (columns, split) = (*f == COLUMNS, *split == Split::TwoPass);
            let walk = Walk { lanes: b.n, rows: b.m, held: b.k, columns, split };
            match rows::of_contract(op) {
                Some(rows) => rows::generate(&rows, target, walk, wide),
                None => rows::generate(op, target, walk, wide),
            }
        }
        _ => Err(Error::internal(format!("there is no kernel for the variant {variant}"))),
    }
}

/// Ways to share rows among threads.
fn walks(op: &Op, inner: usize, target: &Target) -> Vec<Walk> {
    let (count, length) = (elements(&op.dims[..inner]), elements(&op.dims[inner..]));
    let most = (target.max_group as usize).min(1024);
    let rank = op.dims.len();
    let lies = |d: usize| op.inputs.iter().any(|a| a.strides[d] == 1 && op.dims[d] != 1);
    // An operand that all rows share stays near, whichever way it lies.
    let own = |a: &&Access| (0..inner).any(|d| !a.ignores(d) && op.dims[d] != 1);
    let along = |d: usize| op.inputs.iter().filter(own).any(|a| a.strides[d] == 1 && op.dims[d] != 1);
    let columns = inner > 0 && inner < rank && lies(inner - 1) && !(inner..rank).any(along);
    // Threads that share a row: enough for its length, at least a warp's worth of neighbours for lines of memory.
    let threads = most.min(256);
    let share = |each: usize| length.div_ceil(each).next_power_of_two().clamp(1, most);
    let mut list = Vec::new();
    let walk = |lanes: usize, rows: usize, held: usize| Walk { lanes, rows, held, columns, split: false };
    if columns {
        let lanes = (most / 32).min(length.next_power_of_two()).max(1);
        list.push(walk(lanes, 32.min(most), 0));
        list.push(walk((threads / 32).max(1), 32.min(most), 0));
    } else {
        for held in [1, 2, 4] {
            let lanes = share(4 * held);
            let rows = (threads / lanes).max(1);
            if length > 0 && lanes * held * 4 >= length && lanes * rows <= most && (lanes <= 256 || held == 4) {
                list.push(walk(lanes, rows, held));
            }
        }
        let lanes = share(8).min(if length > 1 << 14 { most } else { threads });
        list.push(walk(lanes, (threads / lanes).max(1), 0));
    }
    // Few long rows do not fill the device: groups share them.
    // Where all threads of the device have enough to do, larger groups leave not so many parts to join. They pay off only where their threads
    // need not all meet after every step.
    let meets_seldom = target.dialect.language().half_barrier().is_some();
    let many = meets_seldom && count == 1 && length >= target.units * 2048 * 16;
    let (lanes, rows) = match columns {
        true => ((threads / 32).max(1), 32.min(threads)),
        false => (if many { most } else { threads }, 1),
    };
    let split = Walk { lanes, rows, held: 0, columns, split: true };
    if length > 1 {
        list.push(split);
    }
    list
}

/// Blocks for a contraction that fit the device, each with the number of parts into which K is cut.
fn blocks(op: &Op, contract: &Contract, target: &Target) -> Vec<(Blocks, usize)> {
    let block = |m, n, k| Block { m, n, k };
    let all = [
        (block(4, 4, 1), block(64, 64, 16)),
        (block(8, 8, 1), block(128, 128, 16)),
        (block(8, 4, 1), block(128, 64, 16)),
        (block(4, 8, 1), block(64, 128, 16)),
        (block(8, 8, 1), block(64, 128, 16)),
        (block(8, 8, 1), block(64, 64, 16)),
        (block(4, 4, 1), block(32, 32, 16)),
        (block(4, 4, 1), block(16, 128, 16)),
        (block(4, 4, 1), block(128, 16, 16)),
        (block(2, 2, 1), block(32, 32, 16)),
        (block(1, 1, 1), block(16, 16, 16)),
    ];
    let acc = contract.acc;
    let limit = if acc == DType::F32 { 8 } else { 4 };
    let steps = if op.dims.len() - contract.k > 1 { contract::steps(op, contract) } else { 0 };
    let list: Vec<Blocks> = all
        .into_iter()
        .map(|(thread, group)| Blocks { thread, group })
        .filter(|b| b.shared(acc, steps) <= target.shared_memory && b.threads() <= target.max_group as usize)
        .filter(|b| b.thread.m <= limit && b.thread.n <= limit)
        .collect();
    with_parts(list, op, target)
}

/// Those of these blocks that are not much too large for the problem, each with the number of parts into which K is cut.
fn with_parts(list: Vec<Blocks>, op: &Op, target: &Target) -> Vec<(Blocks, usize)> {
    let Some(s) = ContractSizes::of(op) else { return list.into_iter().map(|b| (b, 1)).collect() };
    // A block much larger than the problem only wastes work.
    let fits = |b: &&Blocks| b.group.m < 2 * s.m.max(16) && b.group.n < 2 * s.n.max(16);
    let small: Vec<Blocks> = list.iter().filter(fits).copied().collect();
    let list = if small.is_empty() { list } else { small };
    // Few groups can share K.
    let room = op.inputs.len() + op.outputs.len() < target.max_buffers;
    let parts = list.iter().flat_map(|&b| SPLITS.map(|splits| (b, splits)));
    let parts = parts.filter(|&(b, splits)| room && is_worth_splitting(b, s, splits, target));
    list.iter().map(|&b| (b, 1)).chain(parts).collect()
}

/// Into how many parts K may be cut.
const SPLITS: [usize; 5] = [2, 4, 8, 16, 32];

/// Whether K can be cut into so many parts of at least two of a group's blocks each, where there are few groups.
fn is_worth_splitting(b: Blocks, s: ContractSizes, splits: usize, target: &Target) -> bool {
    let groups = s.batch * s.m.div_ceil(b.group.m) * s.n.div_ceil(b.group.n);
    let part = b.part(s.k, splits);
    part >= 2 * b.group.k && part * (splits - 1) < s.k && groups < 2 * target.units
}
