//! What a contraction costs where groups of threads compute it, each group a block of the result.
//!
//! A group holds its accumulators in registers for the whole of k and walks along k piece by piece: it reads a piece of both operands into
//! shared memory while it multiplies the one before. So a unit is busy with arithmetic, with reads of shared memory and with finding
//! and fetching the elements of the next piece; and however little there is to do, a piece takes as long as the way to the memory
//! and back. Few groups, or many pieces, wait; many groups of small blocks read more.

use super::profile::{DeviceProfile, Groups};
use super::traffic::{ContractSizes, Overlap, Traffic};
use super::variant::Block;
use crate::what::{Body, Expr, Node, Op, elements};

/// Seconds of a contraction's parts.
pub(super) struct Price {
    /// Arithmetic, with what else a unit does for it, and with waiting for memory.
    pub(super) arithmetic: f64,
    /// For each level of memory, what crosses it.
    pub(super) levels: Vec<f64>,
    /// A second launch, where partial results are added up.
    pub(super) further: f64,
}

/// Prices blocks for a contraction: of threads and groups. One block
/// alone is a walk over rows, in which every result is a row of multiply-adds.
pub(super) fn price(
    op: &Op,
    s: ContractSizes,
    v: &Traffic,
    element: usize,
    rate: f64,
    profile: &DeviceProfile,
    g: &Groups,
) -> Price {
    let (units, element) = (profile.units.max(1) as f64, element as f64);
    let bandwidth = |l: usize| profile.levels.get(l).map_or(f64::MAX, |l| l.bandwidth);
    // What is farther away than the caches is read once; the roofline has it already.
    let caches = profile.levels.len().saturating_sub(1);
    let results = s.batch as f64 * s.m as f64 * s.n as f64;
    let &[thread, group, ..] = &v.tile.blocks[..] else {
        let multiply_adds = results * s.k as f64;
        // What all rows share stays near; the other operand comes once for each of the few rows or columns.
        let levels = (0..caches).map(|l| multiply_adds * element / bandwidth(l)).collect();
        return Price { arithmetic: multiply_adds * g.row_product * 2.0 / rate, levels, further: profile.launch };
    };
    if v.overlap == Overlap::Full {
        // It does all this well, and has kernels for edges and for few blocks.
        let whole = |n: usize, b: usize| n.next_multiple_of(b.max(1)) as f64;
        let multiply_adds = s.batch as f64 * whole(s.m, thread.m) * whole(s.n, thread.n) * s.k as f64;
        let tasks = s.batch as f64 * (s.m.div_ceil(group.m) * s.n.div_ceil(group.n)) as f64;
        let waves = (tasks / units).ceil() * units / tasks.max(1.0);
        return Price { arithmetic: 2.0 * multiply_adds / rate * waves, levels: Vec::new(), further: 0.0 };
    }
    // Parts begin at multiples of a group's block.
    let part = match v.splits {
        0 | 1 => s.k,
        splits => s.k.div_ceil(splits).next_multiple_of(group.k.max(1)),
    };
    let part = part.max(1);
    let parts = s.k.div_ceil(part).max(1) as f64;
    let pieces = part.min(s.k).div_ceil(group.k.max(1)).max(1) as f64;
    let k_len = pieces * group.k as f64;
    let blocks = s.batch as f64 * (s.m.div_ceil(group.m) * s.n.div_ceil(group.n)) as f64;
    let groups = blocks * parts;
    // Groups of the busiest unit, and how many of them it has at once.
    let each = (groups / units).ceil();
    let (threads, registers) = occupied(thread, group, profile, g);
    let together = (g.threads / threads).min(profile.registers as f64 / registers).floor().clamp(1.0, each.max(1.0));
    // What one group does.
    let area = (group.m * group.n) as f64;
    let multiply_adds = 2.0 * area * k_len * units / rate;
    let read = area * (1.0 / thread.m as f64 + 1.0 / thread.n as f64);
    let carried = (group.m + group.n) as f64 * if several(op) { g.carried + g.carried_several } else { g.carried };
    let shared = (read + carried) * k_len * element * units / bandwidth(0);
    let fetched = fetch(op, group, g) * k_len * 2.0 * units / rate;
    let there = together * threads;
    let share = there / (there + g.half);
    let busy = each * (multiply_adds + fetched) / share;
    let waits = (each / together).ceil() * (pieces + 1.0) * g.latency;
    let read = groups * (group.m + group.n) as f64 * k_len * element;
    let partials = parts * results * element;
    let level = |l: usize| match l {
        0 => each * shared / share,
        _ => (read + partials) / bandwidth(l),
    };
    Price {
        arithmetic: busy.max(waits),
        levels: (0..caches).map(level).collect(),
        further: if parts > 1.0 {
            v.dependent as f64 * g.dependent_launch + (partials + results * element) / bandwidth(1)
        } else {
            0.0
        },
    }
}

/// Whether a contraction's k has several dimensions.
fn several(op: &Op) -> bool {
    matches!(&op.body, Body::Contract(c) if op.dims.len() - c.k > 1)
}

/// Threads and registers of a group. Blocks that have a K in registers are held by a subgroup together.
fn occupied(thread: Block, group: Block, profile: &DeviceProfile, g: &Groups) -> (f64, f64) {
    let holders = if thread.k > 1 { profile.lanes.max(1) as f64 } else { 1.0 };
    let count = ((group.m / thread.m.max(1)) * (group.n / thread.n.max(1))).max(1) as f64 * holders;
    let accumulators = (thread.m * thread.n) as f64 / holders;
    (count, count * (accumulators * g.accumulator_registers + g.other_registers))
}

/// Instructions by which the threads of a group fetch what one step along k takes.
fn fetch(op: &Op, group: Block, g: &Groups) -> f64 {
    let Body::Contract(c) = &op.body else { return 0.0 };
    let each = |e: &Expr| {
        let guards: usize = e
            .nodes()
            .iter()
            .map(|(n, _)| if let Node::Input(i) = n { op.inputs[*i as usize].guards.len() } else { 0 })
            .sum();
        let several_axes = if several(op) { g.fetch_several } else { 0.0 };
        g.fetch + several_axes + g.fetch_guard * guards as f64
    };
    group.m as f64 * each(&c.lhs) + group.n as f64 * each(&c.rhs)
}

/// Seconds that a walk over rows takes to move its elements. The tile is one block: rows of a group, threads that share a row, and groups of four elements of a
/// row that each thread holds in registers, 0 where a row is read again in each pass.
///
/// Few groups leave units idle, and few threads of a unit leave its share of the memory idle; a thread that walks a row in a loop waits for
/// its elements time and again.
pub(super) fn walk(op: &Op, v: &Traffic, profile: &DeviceProfile, g: &Groups) -> Option<Price> {
    let (Body::Rows { inner, .. }, &[Block { m: rows, n: lanes, k: held }]) = (&op.body, &v.tile.blocks[..]) else {
        return None;
    };
    let (count, length) = (elements(&op.dims[..*inner]) as f64, elements(&op.dims[*inner..]) as f64);
    let (units, splits, reads) = (profile.units.max(1) as f64, v.splits.max(1) as f64, v.reads.max(1) as f64);
    let threads = (rows * lanes).max(1) as f64;
    let groups = (count / rows.max(1) as f64).ceil().max(1.0) * splits;
    // The busiest unit's groups, and how many it keeps at once.
    let together = (g.threads / threads).floor().max(1.0).min((groups / units).ceil());
    let there = together * threads;
    let full = g.threads / (g.threads + g.half);
    let share = (groups / units).min(1.0) * (there / (there + g.half) / full).min(1.0);
    let bytes = op.least_bytes();
    let outputs: f64 = op.outputs.iter().enumerate().map(|(o, a)| (op.output_len(o) * a.dtype.size()) as f64).sum();
    let moved = (bytes as f64 - outputs).max(0.0) * reads + outputs;
    let moving = profile.level_for(bytes).map_or(0.0, |l| moved / l.bandwidth) / share.max(f64::MIN_POSITIVE);
    let steps = if held > 0 {
        1.0
    } else {
        (length / splits / lanes.max(1) as f64 / 4.0 / g.in_flight.max(1.0)).ceil().max(1.0)
    };
    let waits = steps * reads * g.latency;
    Some(Price { arithmetic: moving.max(waits), levels: Vec::new(), further: v.dependent as f64 * g.dependent_launch })
}
