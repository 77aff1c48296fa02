//! The one cost model: the roofline, corrected for waves and padding, plus latency.
//!
//! It picks the first tile, orders a tuner's candidates, fills `explain()` and gives every report its share of the limit.

use super::groups;
use super::profile::DeviceProfile;
use super::traffic::{Arithmetic, ContractSizes, Traffic};
use super::walk::Walks;
use crate::what::{Body, DType, Expr, Node, Op};

/// What limits an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// The bytes that cross this level of memory.
    Memory(String),
    /// The launch itself.
    Latency,
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Compute => f.write_str("compute"),
            Bound::Memory(level) => f.write_str(level),
            Bound::Latency => f.write_str("launch"),
        }
    }
}

/// A prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Seconds predicted for this variant.
    pub seconds: f64,
    /// Seconds that no variant can beat: the fewest bytes and the arithmetic at the measured rates, without latency.
    pub floor: f64,
    /// What takes the longest.
    pub bound: Bound,
    /// Arithmetic operations.
    pub flop: u64,
    /// Bytes that must cross the memory in which the operands lie.
    pub bytes: u64,
}

/// Prices one way of computing an operation on a device.
pub fn cost(op: &Op, traffic: Option<&Traffic>, profile: &DeviceProfile) -> Cost {
    let (flop, bytes) = (op.flop(), op.least_bytes());
    let dtype = match &op.body {
        Body::Contract(c) => c.acc,
        _ => op.outputs.first().map_or(DType::F32, |a| a.dtype),
    };
    let ordinary = profile.rate(multiplied(op, profile).unwrap_or(dtype));
    let multiplies = on_matrix_units(op);
    let warps = multiplies.and_then(|dtype| profile.warp_rate(dtype));
    let matrix = matrix_rate(op, profile).unwrap_or(0.0).max(ordinary);
    let rate = match traffic.map(|t| t.arithmetic) {
        Some(Arithmetic::Matrix) => matrix,
        // Nobody knows how fast they are here: any other way is taken.
        Some(Arithmetic::Warps) => warps.unwrap_or(UNKNOWN),
        _ => ordinary,
    };
    let fastest = matrix.max(warps.unwrap_or(0.0));
    // Fewer multiplications than the operation says only where the variant is one that saves some.
    let all = |s: ContractSizes| [s.batch, s.m, s.n, s.k].iter().map(|&n| n as f64).product::<f64>();
    let own = ContractSizes::of(op);
    let saves = traffic.and_then(|v| v.matmuls).is_some_and(|p| own.is_none_or(|own| all(p) < all(own)));
    let least = if let (Body::Contract(c), true) = (&op.body, saves) { c.accuracy.least() } else { 1.0 };
    // No variant can beat the fastest units.
    let arithmetic = flop as f64 * least / fastest;
    let home = profile.level_for(bytes);
    let moving = home.map_or(0.0, |l| bytes as f64 / l.bandwidth);
    let floor = arithmetic.max(moving);
    let mut longest = (moving, home.map_or(Bound::Compute, |l| Bound::Memory(l.name.clone())));
    let mut all = 0.0;
    let mut consider = |seconds: f64, bound: Bound| {
        all += seconds;
        if seconds > longest.0 {
            longest = (seconds, bound);
        }
    };
    let matmuls = traffic.and_then(|v| v.matmuls).or_else(|| ContractSizes::of(op));
    let mut further = 0.0;
    let tiled = traffic.filter(|v| !v.tile.blocks.is_empty());
    let in_groups = tiled.zip(profile.groups.as_ref()).and_then(|(v, g)| match matmuls {
        Some(s) => Some(groups::price(op, s, v, dtype.size(), rate, profile, g)),
        None => groups::walk(op, v, profile, g),
    });
    match (matmuls, tiled) {
        _ if let Some(g) = in_groups => {
            consider(g.arithmetic, Bound::Compute);
            for (level, seconds) in profile.levels.iter().zip(g.levels) {
                consider(seconds, Bound::Memory(level.name.clone()));
            }
            further = g.further;
        }
        (Some(s), Some(v)) => {
            let element = dtype.size() as f64;
            let blocks = &v.tile.blocks;
            let round = |n: usize, b: usize| (n.div_ceil(b.max(1)) * b.max(1)) as f64;
            let (first, last) = (blocks[0], blocks[blocks.len() - 1]);
            // Edge tiles cost as much as whole ones, unless there are kernels for them.
            let edges = v.edges.unwrap_or((first.m, first.n));
            let (m, n, k) = (round(s.m, edges.0), round(s.n, edges.1), s.k as f64);
            let whole = s.batch as f64 * s.m as f64 * s.n as f64 * k;
            let share = v.computed.map_or(1.0, |computed| computed as f64 / whole.max(1.0));
            let padded = s.batch as f64 * m * n * k * share;
            // What is left out is not read either, but nothing is read again for arithmetic that takes longer.
            let moved = s.batch as f64 * m * n * k * share.min(1.0);
            // Waves: the last round of tasks leaves units idle.
            let each = v.tasks.unwrap_or_else(|| s.m.div_ceil(last.m.max(1)) * s.n.div_ceil(last.n.max(1)));
            let tasks = (s.batch * each).max(1) as f64;
            let units = profile.units.max(1) as f64;
            let late = if units > 1.0 { 1.0 + profile.unequal * units / tasks } else { 1.0 };
            let waves = ((tasks / units).ceil() * units / tasks).max(late);
            consider(2.0 * padded / rate * waves, Bound::Compute);
            // Operands cross level l once for each block held nearer than l; accumulators cross it once for each piece of K.
            for (l, level) in profile.levels.iter().enumerate() {
                let b = blocks[l.min(blocks.len() - 1)];
                let operands = moved * (1.0 / b.m.max(1) as f64 + 1.0 / b.n.max(1) as f64);
                let k_block = blocks[1.min(blocks.len() - 1)].k.max(1) as f64;
                let accumulators = s.batch as f64 * m * n * (2.0 * (k / k_block).ceil() - 1.0);
                consider(
                    (operands + accumulators) * element / level.bandwidth * waves,
                    Bound::Memory(level.name.clone()),
                );
            }
        }
        _ if matches!(op.body, Body::Attention(_)) => {
            // Few tasks leave units idle, and with them their share of the memory.
            let (units, tasks) = (profile.units.max(1) as f64, traffic.and_then(|t| t.tasks));
            let waves = tasks.map_or(1.0, |t| (t as f64 / units).ceil() * units / t.max(1) as f64);
            consider(flop as f64 / rate * waves, Bound::Compute);
            if waves > 1.0 {
                consider(moving * waves, home.map_or(Bound::Compute, |l| Bound::Memory(l.name.clone())));
            }
            let dependent = traffic.map_or(0, |t| t.dependent) as f64;
            further = dependent * profile.groups.map_or(profile.launch, |g| g.dependent_launch);
        }
        _ => consider(arithmetic, Bound::Compute),
    }
    let rest = (all - longest.0).max(0.0);
    // Copies are written and read, and nothing else is done meanwhile.
    let copied = traffic.map_or(0, |v| v.copied);
    let copying = profile.level_for(copied).filter(|_| copied > 0).map_or(0.0, |l| 2.0 * copied as f64 / l.bandwidth);
    let starts = |w: &Walks, t: &Traffic| {
        1e-9 * (t.matrices as f64 * w.matrix + t.planes as f64 * w.plane + t.transposed as f64 * w.image_transposed)
    };
    let starting = profile.walks.as_ref().zip(traffic).map_or(0.0, |(walks, traffic)| starts(walks, traffic));
    let seconds = longest.0 + profile.unhidden * rest + copying + starting + further + profile.launch;
    let bound = if profile.launch > longest.0 { Bound::Latency } else { longest.1 };
    Cost { seconds, floor, bound, flop, bytes }
}

/// What an operand of a contraction is stored as, where it is an input, perhaps converted.
fn stored(e: &Expr) -> Option<DType> {
    match e.nodes() {
        [(Node::Input(_), dtype)] | [(Node::Input(_), dtype), (Node::Cast(_), _)] => Some(*dtype),
        _ => None,
    }
}

/// Operations a second of units of which nothing is known.
const UNKNOWN: f64 = 1.0;

/// What matrix units would multiply: the dtype of both operands of a contraction, and of attention's.
fn on_matrix_units(op: &Op) -> Option<DType> {
    let of = |e: &Expr| e.outputs().first().map(|&id| e.dtype(id));
    match &op.body {
        Body::Contract(c) => of(&c.lhs).filter(|d| of(&c.rhs) == Some(*d) && d.is_integer() == c.acc.is_integer()),
        Body::Attention(_) => op.inputs.first().map(|a| a.dtype),
        _ => None,
    }
}

/// The rate at which matrix units compute a contraction or attention, where they do.
fn matrix_rate(op: &Op, profile: &DeviceProfile) -> Option<f64> {
    if let Body::Attention(_) = op.body {
        return op.inputs.first().and_then(|a| profile.matrix_rate(a.dtype));
    }
    let Body::Contract(c) = &op.body else { return None };
    let (left, right) = (stored(&c.lhs)?, stored(&c.rhs)?);
    let fits = left == right && left.is_integer() == c.acc.is_integer();
    profile.matrix_rate(left).filter(|_| fits)
}

/// The narrow dtype that a contraction multiplies, if the device has a rate for it: what both operands are stored as, the one with the
/// lower rate if they differ. Sums of integers are integers, and sums of others are not.
fn multiplied(op: &Op, profile: &DeviceProfile) -> Option<DType> {
    let Body::Contract(c) = &op.body else { return None };
    let fits = |d: &DType| d.size() < 4 && c.acc.size() <= 4 && d.is_integer() == c.acc.is_integer();
    let rated = |e: &Expr| {
        let dtype = stored(e).filter(fits)?;
        profile.rates.iter().find(|(d, _)| *d == dtype).copied()
    };
    let (left, right) = (rated(&c.lhs)?, rated(&c.rhs)?);
    Some(if right.1 < left.1 { right.0 } else { left.0 })
}
