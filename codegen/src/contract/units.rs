//! Contractions of f16, bf16 and f64 on matrix units whose registers are known: CUDA's `mma.sync`.
//!
//! The walk is the one of [`super`]: any strides, guards, expressions, parts of K and epilogues. A warp holds its part of the block in
//! pieces of 16 by 8. Shared memory holds both operands in their own dtype, in chunks of 8 elements along the dimension along which they
//! are read from memory: `ldmatrix` turns the other kind round. Chunks of a row are permuted by the row's number, so that the eight rows that
//! `ldmatrix` reads at once lie in different banks.
//!
//! Where both operands are plain and their chunks whole, they are copied to shared memory without passing registers, two pieces ahead.
//! After the walk, threads swap halves of what they hold with a neighbour: each then has four columns of one row at a time, and all that
//! follows is as it is without matrix units.
//!
//! Those of f64 multiply 8 by 4 by 4 by 8: shared memory is as it is without them, and each thread reads one element of each operand and has two
//! neighbours of a row of each piece.

use millstream_core::how::Block;
use millstream_core::{Contract, DType, Op};

use super::{Blocks, PAD, Side, Slot, Writer, reads_by_four, steps};
use crate::target::Target;
use crate::text::Text;
use crate::types::pack;

/// Threads of a warp.
const WARP: usize = 32;
/// Elements of a chunk, which is copied at once: 16 bytes.
pub(crate) const CHUNK: usize = 8;
/// Pieces of K in shared memory where they are copied there.
const STAGES: usize = 3;
/// What one instruction multiplies, at least: rows, pairs of column blocks, and along K.
const SIDE: usize = 16;

/// The dtype that matrix units multiply for a contraction, if they can: that of both operands, which are summed in f32.
pub(crate) fn multiplied(contract: &Contract, target: &Target) -> Option<DType> {
    let has_units = target.matrices == Some(WARP as u32) && target.dialect.language().has_fragments();
    let of = |e: &millstream_core::Expr| e.outputs().first().map(|&id| e.dtype(id));
    let (left, right) = (of(&contract.lhs)?, of(&contract.rhs)?);
    let fits = match left {
        DType::F16 | DType::BF16 => contract.acc == DType::F32,
        DType::F64 => contract.acc == DType::F64,
        _ => false,
    };
    (has_units && fits && left == right).then_some(left)
}

/// Whether operands are copied to shared memory as they are.
pub(crate) fn copies(op: &Op, contract: &Contract) -> bool {
    contract.acc == DType::F32
        && op.dims.len() == contract.k + 1
        && reads_by_four(op, contract).iter().all(Option::is_some)
}

/// The blocks for a contraction: what a warp holds, and what a group holds.
pub(crate) fn blocks(op: &Op, contract: &Contract, target: &Target) -> Vec<Blocks> {
    let Some(dtype) = multiplied(contract, target) else { return Vec::new() };
    let block = |m, n, k| Block { m, n, k };
    let further = if op.dims.len() - contract.k > 1 { 32 * steps(op, contract).next_multiple_of(4) * 8 } else { 0 };
    let stages = if copies(op, contract) { STAGES } else { 1 };
    if dtype == DType::F64 {
        let steps = if op.dims.len() - contract.k > 1 { steps(op, contract) } else { 0 };
        return [
            (block(32, 32, 4), block(64, 64, 16)),
            (block(32, 32, 4), block(128, 64, 16)),
            (block(16, 16, 4), block(32, 32, 16)),
            (block(8, 32, 4), block(8, 128, 16)),
        ]
        .into_iter()
        .map(|(thread, group)| Blocks { thread, group })
        .filter(|b| threads(*b) <= target.max_group as usize && b.shared(dtype, steps) <= target.shared_memory)
        .collect();
    }
    let room = |b: &Blocks| stages * 2 * b.group.k * (b.group.m + b.group.n) + further <= target.shared_memory;
    [
        (block(64, 32, SIDE), block(128, 128, 32)),
        (block(32, 32, SIDE), block(128, 64, 32)),
        (block(32, 32, SIDE), block(64, 128, 32)),
        (block(32, 32, SIDE), block(64, 64, 32)),
        (block(16, 32, SIDE), block(16, 128, 32)),
        (block(32, 16, SIDE), block(128, 16, 32)),
        (block(16, 16, SIDE), block(32, 32, 32)),
    ]
    .into_iter()
    .map(|(thread, group)| Blocks { thread, group })
    .filter(|b| threads(*b) <= target.max_group as usize && room(b))
    .collect()
}

/// Threads of a group.
pub(crate) fn threads(blocks: Blocks) -> usize {
    blocks.threads() * WARP
}

/// How a kernel uses matrix units.
#[derive(Clone, Copy)]
pub(super) struct Units {
    pub(super) dtype: DType,
    /// Whether the entry being written copies operands to shared memory as they are.
    pub(super) copies: bool,
}

impl Writer<'_, '_> {
    /// Declares both operands in shared memory.
    pub(super) fn share_chunks(frame: &mut crate::frame::Frame<'_>, blocks: Blocks, copies: bool) {
        for (name, size) in [("left", blocks.group.m), ("right", blocks.group.n)] {
            let stages = if copies { STAGES } else { 1 };
            frame.share(name, "words4", stages * size * blocks.group.k / CHUNK);
        }
    }

    /// Where each thread stands in its warp, and its warp in the block.
    pub(super) fn warps(&self, text: &mut Text) {
        let Blocks { thread, group } = self.blocks;
        let warps_n = group.n / thread.n;
        text.line("let warp = lane >> 5u;");
        text.line(format!("let own_m = (warp / idx({warps_n})) * idx({});", thread.m));
        text.line(format!("let own_n = (warp % idx({warps_n})) * idx({});", thread.n));
        text.line("let low = lane & idx(7);");
        text.line("let eight = ((lane >> 3u) & idx(1)) * idx(8);");
        text.line("let sixteen = ((lane >> 4u) & idx(1)) * idx(8);");
        if self.of_doubles() {
            text.line("let step = lane & idx(3);");
            text.line("let eighth = (lane & idx(31)) >> 2u;");
            text.line("let y = own_m + eighth;");
            text.line("let x = own_n + step * idx(2);");
            for i in 0..thread.m / 8 {
                for j in 0..thread.n / 8 {
                    text.line(format!("var part_{i}_{j} = c128(0.0lf, 0.0lf);"));
                }
            }
            return;
        }
        // The row and the first of the four columns that the thread has of each piece in the end.
        text.line("let y = own_m + ((lane & idx(31)) >> 2u) + (lane & idx(1)) * idx(8);");
        text.line("let x = own_n + ((lane & idx(2)) << 1u);");
        let zero = "vec4<f32>(0.0f, 0.0f, 0.0f, 0.0f)";
        for i in 0..thread.m / SIDE {
            for j in 0..thread.n / 8 {
                text.line(format!("var part_{i}_{j} = {zero};"));
            }
        }
    }

    /// Whether it is f64 that is multiplied.
    pub(super) fn of_doubles(&self) -> bool {
        self.units.is_some_and(|u| u.dtype == DType::F64)
    }

    /// Multiplies pieces of f64 in shared memory.
    fn multiply_doubles(&mut self, text: &mut Text) {
        let Blocks { thread, group } = self.blocks;
        for k in (0..group.k).step_by(4) {
            let mut names: [Vec<String>; 2] = [Vec::new(), Vec::new()];
            let sides = [("left", "own_m", thread.m, group.m), ("right", "own_n", thread.n, group.n)];
            for (side, (array, own, size, all)) in sides.into_iter().enumerate() {
                for i in (0..size).step_by(8) {
                    let at = format!("(idx({k}) + step) * idx({}) + {own} + idx({i}) + eighth", all + PAD);
                    names[side].push(text.name("v", format!("{array}[{at}]")));
                }
            }
            for (i, a) in names[0].iter().enumerate() {
                for (j, b) in names[1].iter().enumerate() {
                    text.line(format!("part_{i}_{j} = multiply_f64({a}, {b}, part_{i}_{j});"));
                }
            }
        }
    }

    /// Whether an operand's chunks lie along K, and how many there are in a row.
    fn rows(&self, side: Side) -> (bool, usize) {
        let Blocks { group, .. } = self.blocks;
        let along_k = self.lies_along_k(side);
        let own = if side == Side::Left { group.m } else { group.n };
        (along_k, if along_k { group.k } else { own } / CHUNK)
    }

    /// The place of a chunk in shared memory.
    fn place(&self, side: Side, row: &str, chunk: &str) -> String {
        let (_, chunks) = self.rows(side);
        // Eight rows, one after the other, fill 8 chunks' worth of banks.
        let (shift, mask) = match chunks {
            8.. => (0, 7),
            4..8 => (1, 3),
            _ => (2, 1),
        };
        format!("({row}) * idx({chunks}) + (({chunk}) ^ ((({row}) >> {shift}u) & idx({mask})))")
    }

    /// Puts a slot's element into shared memory.
    pub(super) fn put_half(&self, text: &mut Text, slot: &Slot, dtype: DType) {
        let (row, column) = if slot.along_k { (&slot.o, &slot.k) } else { (&slot.k, &slot.o) };
        let array = if slot.side == Side::Left { "left" } else { "right" };
        let place = self.place(slot.side, row, &format!("({column}) >> 3u"));
        let Some(name) = slot.names.first() else { return };
        text.line(format!("put_half({array}, ({place}) * idx(8) + (({column}) & idx(7)), {});", pack(dtype, name)));
    }

    /// Asks for a slot's chunk of the piece at `k0`, for shared memory; zeros where there is none.
    pub(super) fn copy(&mut self, text: &mut Text, slot: &Slot) {
        let Some(input) = self.operand(slot.side).as_input().map(usize::from) else { return };
        let found = self.k_index(text, &slot.k);
        let real = slot.real.as_ref().map_or(String::new(), |real| format!(" & ({real})"));
        let exists = text.name("exists", format!("({} < until){real}", found.k));
        let offset = format!("{}{}", slot.own.position.offset, found.steps[slot.side as usize].offset);
        let offset = text.name("p", format!("select(idx(0), {offset}, {exists})"));
        let (row, column) = if slot.along_k { (&slot.o, &slot.k) } else { (&slot.k, &slot.o) };
        let (array, size) = match slot.side {
            Side::Left => ("left", self.blocks.group.m),
            Side::Right => ("right", self.blocks.group.n),
        };
        let place = self.place(slot.side, row, &format!("({column}) >> 3u"));
        let stage = size * self.blocks.group.k / CHUNK;
        if let Some(real) = &slot.real {
            text.line(format!("if ({real}) {{"));
        }
        text.line(format!("copy_chunk(&{array}[stage * idx({stage}) + {place}], b{input} + {offset}, {exists});"));
        if slot.real.is_some() {
            text.line("}");
        }
    }

    /// The walk along K where operands are copied.
    pub(super) fn walk_copies(&mut self, text: &mut Text, slots: &[Slot]) {
        let (k, ahead) = (self.blocks.group.k, STAGES - 1);
        text.line("var stage = idx(0);");
        text.line(format!("for (var k0 = begin; k0 < until + idx({}); k0 += idx({k})) {{", ahead * k));
        // The piece to be multiplied is there, and nobody reads the one in whose place the next one goes.
        text.line(format!("copies_arrived<{}>();", ahead - 1));
        text.line("workgroupBarrier();");
        for slot in slots {
            self.copy(text, slot);
        }
        text.line("copies_asked();");
        text.line(format!("stage = select(stage + idx(1), idx(0), stage == idx({ahead}));"));
        text.line(format!("if (k0 >= begin + idx({})) {{", ahead * k));
        self.multiply_units(text);
        text.line("}");
        text.line("}");
        text.line("copies_arrived<0>();");
        text.line("workgroupBarrier();");
    }

    /// Multiplies the pieces in shared memory.
    pub(super) fn multiply_units(&mut self, text: &mut Text) {
        let Some(units) = self.units else { return };
        if self.of_doubles() {
            return self.multiply_doubles(text);
        }
        let Blocks { thread, group } = self.blocks;
        for k in (0..group.k).step_by(SIDE) {
            let mut names: [Vec<String>; 2] = [Vec::new(), Vec::new()];
            for (side, array, own, size, all) in
                [(Side::Left, "left", "own_m", thread.m, group.m), (Side::Right, "right", "own_n", thread.n, group.n)]
            {
                let (along_k, _) = self.rows(side);
                // Of the four matrices of 8 by 8 that a warp loads, the second is the next along the left operand's rows, but along K of the
                // right one.
                let (own_step, k_step) = match side {
                    Side::Left => ("eight", "sixteen"),
                    Side::Right => ("sixteen", "eight"),
                };
                let stage =
                    if units.copies { format!("stage * idx({}) + ", all * group.k / CHUNK) } else { String::new() };
                for i in (0..size).step_by(SIDE) {
                    let place = if along_k {
                        let row = format!("{own} + idx({i}) + low + {own_step}");
                        self.place(side, &row, &format!("(idx({k}) + {k_step}) >> 3u"))
                    } else {
                        let row = format!("idx({k}) + low + {k_step}");
                        self.place(side, &row, &format!("({own} + idx({i}) + {own_step}) >> 3u"))
                    };
                    let load = if along_k { "load_matrices" } else { "load_matrices_turned" };
                    names[side as usize].push(text.name("m", format!("{load}(&{array}[{stage}{place}])")));
                }
            }
            for (i, a) in names[0].iter().enumerate() {
                for (j, b) in names[1].iter().enumerate() {
                    for (half, [first, second]) in [["x", "y"], ["z", "w"]].iter().enumerate() {
                        let sum = format!("part_{i}_{}", 2 * j + half);
                        text.line(format!("{sum} = multiply_{}({a}, {b}.{first}, {b}.{second}, {sum});", units.dtype));
                    }
                }
            }
        }
    }

    /// Gives each thread four columns of one row of each piece.
    pub(super) fn sums_of_units(&self, text: &mut Text) {
        let Blocks { thread, .. } = self.blocks;
        if self.of_doubles() {
            for (i, j) in (0..thread.m / 8).flat_map(|i| (0..thread.n / 8).map(move |j| (i, j))) {
                for (l, part) in ["x", "y"].iter().enumerate() {
                    text.line(format!("let sum_{i}_{} = part_{i}_{j}.{part};", 2 * j + l));
                }
            }
            return;
        }
        for i in 0..thread.m / SIDE {
            for j in 0..thread.n / 8 {
                let four = text.name("four", format!("four_columns(part_{i}_{j})"));
                for (l, part) in ["x", "y", "z", "w"].iter().enumerate() {
                    text.line(format!("let sum_{i}_{} = {four}.{part};", 4 * j + l));
                }
            }
        }
    }

    /// Rows and columns of the result that one thread has.
    pub(super) fn held(&self) -> (usize, usize) {
        let Block { m, n, .. } = self.blocks.thread;
        match self.units {
            Some(_) if self.of_doubles() => (m / 8, n / 4),
            Some(_) => (m / SIDE, n / 2),
            None => (m, n),
        }
    }

    /// Where in the group's block the thread's row (or column) `i` lies.
    pub(super) fn units_offset(&self, side: Side, i: usize) -> String {
        match side {
            Side::Left if self.of_doubles() => format!("y + idx({})", i * 8),
            Side::Right if self.of_doubles() => format!("x + idx({})", (i / 2) * 8 + i % 2),
            Side::Left => format!("y + idx({})", i * SIDE),
            Side::Right => format!("x + idx({})", (i / 4) * 8 + i % 4),
        }
    }
}
