//! Which operations can be written as kernels, in which ways, and the text of one of them.

use millstream_core::backend::Support;
use millstream_core::how::{Block, ContractSizes, DeviceProfile, Tile, Variant};
use millstream_core::what::elements;
use millstream_core::{Access, Body, Contract, DType, Error, Op, Result};

use crate::attention;
use crate::contract::{self, Blocks};
use crate::indexed;
use crate::map;
use crate::matrix;
use crate::program::Program;
use crate::rows::{self, Walk};
use crate::target::{Dialect, Target};

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
    let buffers = op.inputs.len() + op.outputs.len() + usize::from(matches!(op.body, Body::Rows { .. }));
    if buffers > target.max_buffers {
        return no(format!("it takes {buffers} buffers, and a kernel of the device at most {}", target.max_buffers));
    }
    if target.dialect == Dialect::Wgsl && is_wide(op) {
        return no("its indices do not fit into 32 bits".into());
    }
    match op.body {
        Body::Attention(_) => {
            let longest = op.dims[op.dims.len() - 2..].iter().copied().max().unwrap_or(0);
            if longest > attention::LONGEST {
                return no(format!(
                    "attention over vectors of {longest}, of which the kernel takes {}",
                    attention::LONGEST
                ));
            }
            let bytes = attention::shared(op.outputs[0].dtype);
            if bytes > target.shared_memory {
                return no(format!("attention takes {bytes} bytes of shared memory, and the device has fewer"));
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
        Body::Gather(lookups) => lookups
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

const MAP: [&str; 2] = ["map", "map wide"];
const SQUARES: [&str; 2] = ["squares", "squares wide"];
const ROWS: [&str; 2] = ["rows", "rows wide"];
const COLUMNS: [&str; 2] = ["columns", "columns wide"];
const SPLIT_ROWS: [&str; 2] = ["split rows", "split rows wide"];
const SPLIT_COLUMNS: [&str; 2] = ["split columns", "split columns wide"];
const TILES: [&str; 2] = ["tiles", "tiles wide"];
const GATHER: [&str; 2] = ["gather", "gather wide"];
const SCAN: [&str; 2] = ["scan", "scan wide"];
const SCAN_COLUMNS: [&str; 2] = ["scan columns", "scan columns wide"];
const ATTENTION: [&str; 2] = ["attention", "attention wide"];
/// Blocks of f16 on matrix units; indices that need 64 bits are for [`TILES`].
const MATRICES: &str = "matrices";

/// The ways to compute an operation, the preferred one first.
pub fn variants(op: &Op, target: &Target, _profile: &DeviceProfile) -> Vec<Variant> {
    let wide = usize::from(is_wide(op));
    let plain = |names: [&'static str; 2]| Variant::plain(names[wide]);
    match &op.body {
        Body::Map(_) => {
            let square = |edge| Block { m: edge, n: edge, k: 1 };
            let tile = |edge| Tile { blocks: [square(edge)].into_iter().collect() };
            let squares = map::edges(op, target).into_iter().map(|e| Variant::tiled(SQUARES[wide], tile(e)));
            squares.chain([plain(MAP)]).collect()
        }
        Body::Rows { inner, .. } => walks(op, *inner, target).into_iter().map(|w| walked(w, wide)).collect(),
        Body::Contract(c) => {
            let matrices = if wide == 0 { matrix::blocks(op, c, target) } else { Vec::new() };
            let other = contract::widened(op);
            let sizes = other.as_ref().and_then(ContractSizes::of);
            let tiles = blocks(other.as_ref().unwrap_or(op), c, target);
            let variant = |family: &'static str, b: Blocks| {
                let part = b.part.map(|k| Block { k, ..b.group });
                Variant::tiled(family, Tile { blocks: [b.thread, b.group].into_iter().chain(part).collect() })
            };
            let matrices = matrices.into_iter().map(|b| variant(MATRICES, b));
            let tiles = tiles.into_iter().map(|b| Variant { products: sizes, ..variant(TILES[wide], b) });
            matrices.chain(tiles).chain(products(op, c, target, wide)).collect()
        }
        Body::Gather(_) => vec![plain(GATHER)],
        Body::Scan { .. } => vec![plain(if indexed::goes_down(op) { SCAN_COLUMNS } else { SCAN })],
        Body::Attention(_) => vec![plain(ATTENTION)],
        _ => Vec::new(),
    }
}

/// The variant for a walk over rows.
fn walked(w: Walk, wide: usize) -> Variant {
    let names = match (w.split, w.across) {
        (false, false) => ROWS,
        (false, true) => COLUMNS,
        (true, false) => SPLIT_ROWS,
        (true, true) => SPLIT_COLUMNS,
    };
    let blocks = [Block { m: w.rows, n: w.lanes, k: w.held }];
    Variant::tiled(names[wide], Tile { blocks: blocks.into_iter().collect() })
}

/// The walk over rows for a matrix by a vector, of which every element is read for one result.
fn products(op: &Op, contract: &Contract, target: &Target, wide: usize) -> Option<Variant> {
    let s = ContractSizes::of(op)?;
    let room = op.inputs.len() + op.outputs.len() < target.max_buffers;
    let op = rows::of_products(op).filter(|_| s.m.min(s.n) == 1 && s.k > 0 && room)?;
    walks(&op, contract.k, target).into_iter().next().map(|w| walked(w, wide))
}

/// The kernel for an operation in one of its ways.
pub fn generate(op: &Op, variant: &Variant, target: &Target) -> Result<Program> {
    let family = variant.family;
    let of = |names: [&'static str; 2]| names.contains(&family);
    let wide = family.ends_with(" wide");
    if of(MAP) {
        map::generate(op, target, wide)
    } else if of(SQUARES) {
        match variant.tile.blocks[..] {
            [square] => map::generate_tiled(op, target, square.m, wide),
            _ => Err(Error::internal("a walk by squares needs their side")),
        }
    } else if of(GATHER) {
        indexed::generate_gather(op, target, wide)
    } else if of(ATTENTION) {
        attention::generate(op, target, wide)
    } else if of(SCAN) {
        indexed::generate_scan(op, target, wide)
    } else if of(SCAN_COLUMNS) {
        indexed::generate_scan_columns(op, target, wide)
    } else if of(TILES) || family == MATRICES {
        match variant.tile.blocks[..] {
            [thread, group] if family == MATRICES => matrix::generate(op, target, Blocks { thread, group, part: None }),
            [thread, group] => contract::generate(op, target, Blocks { thread, group, part: None }, wide),
            [thread, group, part] => contract::generate(op, target, Blocks { thread, group, part: Some(part.k) }, wide),
            _ => Err(Error::internal("a contraction needs two blocks")),
        }
    } else if of(ROWS) || of(COLUMNS) || of(SPLIT_ROWS) || of(SPLIT_COLUMNS) {
        let Some(b) = variant.tile.blocks.first() else {
            return Err(Error::internal("a walk over rows needs a block"));
        };
        let walk = Walk {
            lanes: b.n,
            rows: b.m,
            held: b.k,
            across: of(COLUMNS) || of(SPLIT_COLUMNS),
            split: of(SPLIT_ROWS) || of(SPLIT_COLUMNS),
        };
        match rows::of_products(op) {
            Some(products) => rows::generate(&products, target, walk, wide),
            None => rows::generate(op, target, walk, wide),
        }
    } else {
        Err(Error::internal(format!("there is no family of kernels called {family:?}")))
    }
}

/// Ways to share rows among threads, the preferred one first.
fn walks(op: &Op, inner: usize, target: &Target) -> Vec<Walk> {
    let (count, length) = (elements(&op.dims[..inner]), elements(&op.dims[inner..]));
    let most = (target.max_group as usize).min(1024);
    let rank = op.dims.len();
    let lies = |d: usize| op.inputs.iter().any(|a| a.strides[d] == 1 && op.dims[d] != 1);
    // An operand that all rows share stays near, whichever way it lies.
    let own = |a: &&Access| (0..inner).any(|d| !a.ignores(d) && op.dims[d] != 1);
    let along = |d: usize| op.inputs.iter().filter(own).any(|a| a.strides[d] == 1 && op.dims[d] != 1);
    let across = inner > 0 && inner < rank && lies(inner - 1) && !(inner..rank).any(along);
    // Threads that share a row: enough for its length, at least a warp's worth of neighbours for lines of memory.
    let threads = most.min(256);
    let share = |each: usize| length.div_ceil(each).next_power_of_two().clamp(1, most);
    let mut list = Vec::new();
    let walk = |lanes: usize, rows: usize, held: usize| Walk { lanes, rows, held, across, split: false };
    if across {
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
    let groups = count.div_ceil(list[0].rows);
    // Where all threads of the device have enough to do, larger groups leave fewer parts to join.
    let many = target.dialect == Dialect::Cuda && count == 1 && length >= target.units * 2048 * 16;
    let (lanes, rows) = match across {
        true => ((threads / 32).max(1), 32.min(threads)),
        false => (if many { most } else { threads }, 1),
    };
    let split = Walk { lanes, rows, held: 0, across, split: true };
    if length > 4096 && groups < target.units {
        list.insert(0, split);
    } else if length > 1 {
        list.push(split);
    }
    list
}

/// Blocks for a contraction; those that fit the device.
fn blocks(op: &Op, contract: &Contract, target: &Target) -> Vec<Blocks> {
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
    let sizes = ContractSizes::of(op);
    let acc = contract.acc;
    let limit = if acc == DType::F32 { 8 } else { 4 };
    let steps = if op.dims.len() - contract.k > 1 { contract::steps(op, contract) } else { 0 };
    let mut list: Vec<Blocks> = all
        .into_iter()
        .map(|(thread, group)| Blocks { thread, group, part: None })
        .filter(|b| b.shared(acc, steps) <= target.shared_memory && b.threads() <= target.max_group as usize)
        .filter(|b| b.thread.m <= limit && b.thread.n <= limit)
        .collect();
    let Some(s) = sizes else { return list };
    // A block much larger than the problem only wastes work.
    let small: Vec<Blocks> =
        list.iter().copied().filter(|b| b.group.m < 2 * s.m.max(16) && b.group.n < 2 * s.n.max(16)).collect();
    if !small.is_empty() {
        list = small;
    }
    // Few groups can share the depth.
    if op.inputs.len() + op.outputs.len() < target.max_buffers {
        let parted: Vec<Blocks> =
            list.iter().flat_map(|b| PARTS.map(|parts| parted(*b, s, parts, target))).flatten().collect();
        list.extend(parted);
    }
    list
}

/// Into how many parts a depth may be cut.
const PARTS: [usize; 5] = [2, 4, 8, 16, 32];

/// These blocks, with the depth cut into so many parts of at least two pieces each, where there are few groups.
fn parted(b: Blocks, s: ContractSizes, parts: usize, target: &Target) -> Option<Blocks> {
    let groups = s.batch * s.m.div_ceil(b.group.m) * s.n.div_ceil(b.group.n);
    let depth = s.k.div_ceil(parts).next_multiple_of(b.group.k);
    let some = depth >= 2 * b.group.k && depth * (parts - 1) < s.k && groups < 2 * target.units;
    some.then_some(Blocks { part: Some(depth), ..b })
}
