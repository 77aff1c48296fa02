//! Expressions on blocks of a tile: a few rows by one vector of columns, which stay in registers from the first step to the
//! last. The usual epilogues (a bias, a residual, an activation) cost a few instructions for each vector so; strips
//! ([`super::formula`]) cost some calls for each row of a tile.
//!
//! All values are f32. What fits no instruction is computed by the block kernels of [`crate::math`], which strips use too.
//! Results are those of strips, except that a multiplication and an addition are never fused.

use millstream_core::{Binary, DType, Expr, Id, Node, Scalar};
use smallvec::SmallVec;

use super::view::View;
use crate::contract::packed::{Chain, ChainOp, ChainOperand, ChainStep, TileAt};
use crate::math::{BlockFn, Form};
use crate::program::{find_binary, find_unary};
use crate::simd::{Float, Isa, Simd, WithSimd, vectorize};

/// Rows of a block: as many vectors leave half of the registers for operands.
const ROWS: usize = 8;
/// Elements of the longest vector.
const LONGEST: usize = crate::simd::MAX_LANES;
/// Nodes of an expression beyond which strips are as good; steps count their operands in 16 bits.
const MOST_NODES: usize = 256;
/// Steps of a chain beyond which blocks are as good.
const MOST_STEPS: usize = 8;
/// Values that are needed again later.
const SLOTS: usize = 4;

/// What a step does to the current value.
#[derive(Clone, Copy)]
enum What {
    /// Makes the operand the current value.
    Take,
    Add,
    Sub,
    /// The operand minus the value.
    SubFrom,
    Mul,
    Div,
    /// The operand divided by the value.
    DivInto,
    Max,
    Min,
    /// A function of the value.
    Call(BlockFn),
    /// A function of the value and the operand.
    Call2(BlockFn),
    /// Keeps the value in a slot.
    Keep,
    /// Writes the value to an output.
    Store,
}

/// A step, with the number of its operand: a feed, a slot, or an output.
#[derive(Clone, Copy)]
struct BlockStep {
    what: What,
    with: u16,
}

/// Where a leaf's values come from.
#[derive(Clone, Copy)]
enum Leaf {
    /// The accumulators.
    Acc,
    /// The input of this number among those that the expression reads.
    Input(usize),
    Const(f32),
    Param(usize),
    Slot(usize),
}

/// How an operand lies under a tile: the element of index 0 and what one row and one column are worth.
#[derive(Clone, Debug)]
struct Lie {
    view: View,
    row: isize,
    col: isize,
}

impl Lie {
    fn new(view: &View) -> Option<Lie> {
        let plain = view.is_plain() && view.dtype == DType::F32;
        let stride = |axis: &super::view::Axis| if axis.size == 1 { Some(0) } else { axis.single() };
        let (row, col) = (stride(&view.row).filter(|_| plain)?, stride(&view.col)?);
        Some(Lie { view: view.clone(), row, col })
    }

    /// Elements from index 0 to the tile's first.
    fn at(&self, at: &TileAt) -> isize {
        self.view.base + self.view.batch.offset(at.batch) + at.row as isize * self.row + at.col as isize * self.col
    }
}

/// An expression compiled for blocks.
pub(super) struct Blocks {
    isa: Isa,
    steps: Vec<BlockStep>,
    leaves: Vec<Leaf>,
    inputs: Vec<Lie>,
    outputs: Vec<Lie>,
}

/// Where a feed's values lie: those of the block's first row and column, and how to go on.
#[derive(Clone, Copy)]
struct Feed {
    base: *const f32,
    row: isize,
    /// Elements to go for one column of the tile.
    col: usize,
    /// One value for all columns.
    splat: bool,
}

/// Where results go.
#[derive(Clone, Copy)]
struct BlockTarget {
    base: *mut f32,
    row: isize,
}

impl Blocks {
    /// Compiles an expression whose inputs and outputs lie under the tile as these views say; rows are m, columns are n. `None`
    /// where something is no f32, or does not lie as vectors along columns or as one value for a row.
    pub(super) fn new(expr: &Expr, inputs: &[(usize, View)], outputs: &[View], isa: Isa) -> Option<Blocks> {
        let is_long = expr.nodes().len() > MOST_NODES || expr.outputs().len() > MOST_NODES;
        if is_long || expr.nodes().iter().any(|(_, dtype)| *dtype != DType::F32) {
            return None;
        }
        let lies: Vec<Lie> = inputs.iter().map(|(_, v)| Lie::new(v)).collect::<Option<_>>()?;
        let into: Vec<Lie> = outputs.iter().map(Lie::new).collect::<Option<_>>()?;
        if lies.iter().any(|l| !matches!(l.col, 0 | 1)) || into.iter().any(|l| l.col != 1 && l.view.col.size > 1) {
            return None;
        }
        let mut blocks = Blocks { isa, steps: Vec::new(), leaves: Vec::new(), inputs: lies, outputs: into };
        blocks.compile(expr, inputs)?;
        Some(blocks)
    }

    fn compile(&mut self, expr: &Expr, inputs: &[(usize, View)]) -> Option<()> {
        let is_leaf = |n: &Node| matches!(n, Node::Acc | Node::Input(_) | Node::Const(_) | Node::Param(_));
        // For each node the feed that has its value, once there is one.
        let mut feeds: Vec<Option<u16>> = vec![None; expr.nodes().len()];
        let (mut current, mut slots): (Option<Id>, usize) = (None, 0);
        for (i, (node, _)) in expr.nodes().iter().enumerate() {
            let id = Id(i as u32);
            let leaf = match *node {
                Node::Acc => Some(Leaf::Acc),
                Node::Input(n) => Some(Leaf::Input(inputs.iter().position(|(m, _)| *m == n as usize)?)),
                Node::Const(c) => Some(Leaf::Const(c.get::<f32>()?)),
                Node::Param(p) => Some(Leaf::Param(p as usize)),
                _ => None,
            };
            if let Some(leaf) = leaf {
                feeds[i] = Some(self.leaf(leaf));
            } else {
                match *node {
                    Node::Unary(op, a) => {
                        let f = find_unary(self.isa, op, DType::F32).ok()?;
                        self.take(a, current, &feeds)?;
                        self.steps.push(BlockStep { what: What::Call(f), with: 0 });
                    }
                    Node::Binary(op, a, b) => self.binary(op, a, b, current, &feeds)?,
                    _ => return None,
                }
                current = Some(id);
                // A value that anything but the next computed node reads is kept.
                let readers = |(n, _): &&(Node, DType)| n.operands().any(|o| o == id);
                let next = expr.nodes().iter().skip(i + 1).find(|(n, _)| !is_leaf(n));
                let times = |n: &Node| n.operands().filter(|&o| o == id).count();
                let later = expr.nodes().iter().skip(i + 1).filter(readers).count();
                let once = later == 0 || later == 1 && next.is_some_and(|(n, _)| times(n) == 1);
                if !once {
                    let leaf = self.leaf(Leaf::Slot(slots));
                    feeds[i] = Some(leaf);
                    self.steps.push(BlockStep { what: What::Keep, with: leaf });
                    slots += 1;
                }
            }
            if leaf.is_none() {
                self.store(expr, id);
            }
        }
        // Leaves that are outputs come last, when no value is waited for any more.
        for (i, _) in expr.nodes().iter().enumerate().filter(|(_, (n, _))| is_leaf(n)) {
            let id = Id(i as u32);
            if expr.outputs().contains(&id) {
                self.take(id, None, &feeds)?;
                self.store(expr, id);
            }
        }
        (slots <= SLOTS && expr.outputs().len() == self.outputs.len()).then_some(())
    }

    /// Writes the current value, that of a node, to every output that is this node.
    fn store(&mut self, expr: &Expr, id: Id) {
        for (o, _) in expr.outputs().iter().enumerate().filter(|(_, out)| **out == id) {
            self.steps.push(BlockStep { what: What::Store, with: o as u16 });
        }
    }

    fn leaf(&mut self, leaf: Leaf) -> u16 {
        self.leaves.push(leaf);
        self.leaves.len() as u16 - 1
    }

    /// Makes a node's value the current one.
    fn take(&mut self, id: Id, current: Option<Id>, feeds: &[Option<u16>]) -> Option<()> {
        if current != Some(id) {
            self.steps.push(BlockStep { what: What::Take, with: feeds[id.at()]? });
        }
        Some(())
    }

    fn binary(&mut self, op: Binary, a: Id, b: Id, current: Option<Id>, feeds: &[Option<u16>]) -> Option<()> {
        let (plain, swapped) = match op {
            Binary::Add => (What::Add, Some(What::Add)),
            Binary::Sub => (What::Sub, Some(What::SubFrom)),
            Binary::Mul => (What::Mul, Some(What::Mul)),
            Binary::Div => (What::Div, Some(What::DivInto)),
            Binary::Max => (What::Max, Some(What::Max)),
            Binary::Min => (What::Min, Some(What::Min)),
            _ => {
                let found = find_binary(self.isa, op, DType::F32, Form::VV).ok().filter(|f| f.exact)?;
                (What::Call2(found.f), None)
            }
        };
        let (what, first, second) = match swapped {
            Some(swapped) if current == Some(b) && current != Some(a) => (swapped, b, a),
            _ => (plain, a, b),
        };
        self.take(first, current, feeds)?;
        self.steps.push(BlockStep { what, with: feeds[second.at()]? });
        Some(())
    }

    /// The tile's results, if everything is aligned; false if nothing was done. `inputs` and `outputs` are where index 0 of each lies.
    ///
    /// # Safety
    /// Every element of the tile has its inputs and its outputs in readable and writable memory; nobody else uses the outputs of
    /// this tile. An only output may be the memory of an input, element for element.
    pub(super) unsafe fn run(
        &self,
        at: &TileAt,
        tile: &[f32],
        inputs: &[*const f32],
        outputs: &[*mut f32],
        params: &[Scalar],
    ) -> bool {
        debug_assert!(tile.len() >= (at.rows - 1) * at.ld + at.cols);
        let targets: SmallVec<[BlockTarget; 2]> = (self.outputs.iter().zip(outputs))
            .map(|(lie, base)| BlockTarget { base: base.wrapping_offset(lie.at(at)), row: lie.row })
            .collect();
        let mut slots = [0f32; SLOTS * ROWS * LONGEST];
        let slots = slots.as_mut_ptr();
        let mut values: SmallVec<[f32; 8]> = SmallVec::new();
        for leaf in &self.leaves {
            values.push(match *leaf {
                Leaf::Const(c) => c,
                Leaf::Param(p) => match params.get(p).and_then(Scalar::get::<f32>) {
                    Some(value) => value,
                    None => return false,
                },
                _ => 0.0,
            });
        }
        let feed = |(leaf, value): (&Leaf, &f32)| match *leaf {
            Leaf::Acc => Feed { base: tile.as_ptr(), row: at.ld as isize, col: 1, splat: false },
            Leaf::Input(n) => {
                let lie = &self.inputs[n];
                let base = inputs[n].wrapping_offset(lie.at(at));
                Feed { base, row: lie.row, col: lie.col as usize, splat: lie.col == 0 }
            }
            Leaf::Const(_) | Leaf::Param(_) => Feed { base: value, row: 0, col: 0, splat: true },
            Leaf::Slot(n) => {
                let base = slots.wrapping_add(n * ROWS * LONGEST).cast_const();
                Feed { base, row: LONGEST as isize, col: 0, splat: false }
            }
        };
        let feeds: SmallVec<[Feed; 8]> = self.leaves.iter().zip(&values).map(feed).collect();
        if feeds.iter().any(|f| !f.base.is_aligned()) || targets.iter().any(|t| !t.base.is_aligned()) {
            return false;
        }
        // The last vector of a row may begin inside the one before it, unless what it reads is overwritten by then.
        let again = feeds.iter().all(|f| targets.iter().all(|t| t.base.cast_const() != f.base));
        let job =
            BlockJob { steps: &self.steps, feeds: &feeds, targets: &targets, rows: at.rows, cols: at.cols, again };
        vectorize(self.isa, job);
        true
    }

    /// The expression as a chain of plain operations on this memory, if it is that.
    pub(super) fn chain(
        &self,
        batch: usize,
        inputs: &[*const f32],
        output: *mut f32,
        params: &[Scalar],
    ) -> Option<Chain> {
        let ([BlockStep { what: What::Take, with: first }, steps @ .., BlockStep { what: What::Store, .. }], [to]) =
            (&self.steps[..], &self.outputs[..])
        else {
            return None;
        };
        if !matches!(self.leaves.get(usize::from(*first))?, Leaf::Acc) || steps.len() > MOST_STEPS {
            return None;
        }
        let whole = TileAt { batch, row: 0, col: 0, rows: 0, cols: 0, ld: 0 };
        let chain_step = |step: &BlockStep| -> Option<ChainStep> {
            let what = match step.what {
                What::Add => ChainOp::Add,
                What::Sub => ChainOp::Sub,
                What::Mul => ChainOp::Mul,
                What::Max => ChainOp::Max,
                What::Min => ChainOp::Min,
                _ => return None,
            };
            let with = match *self.leaves.get(usize::from(step.with))? {
                Leaf::Const(c) => ChainOperand::Value(c),
                Leaf::Param(p) => ChainOperand::Value(params.get(p)?.get()?),
                Leaf::Input(n) => {
                    let lie = &self.inputs[n];
                    let base = Some(inputs[n].wrapping_offset(lie.at(&whole))).filter(|b| b.is_aligned())?;
                    if lie.col == 0 { ChainOperand::Rows(base, lie.row) } else { ChainOperand::Elements(base, lie.row) }
                }
                Leaf::Acc | Leaf::Slot(_) => return None,
            };
            Some(ChainStep { what, with })
        };
        let chained = steps.iter().map(chain_step).collect::<Option<_>>()?;
        let base = output.wrapping_offset(to.at(&whole));
        base.is_aligned().then_some(Chain { steps: chained, to: base, row: to.row })
    }

    /// What is done, in a few words.
    pub(super) fn describe(&self) -> String {
        format!("on {ROWS} rows and a vector of columns at a time, {} steps", self.steps.len())
    }
}

/// The expression on one tile's memory, which [`Blocks::run`] vouches for.
struct BlockJob<'a> {
    steps: &'a [BlockStep],
    feeds: &'a [Feed],
    targets: &'a [BlockTarget],
    rows: usize,
    cols: usize,
    /// Whether elements may be computed twice.
    again: bool,
}

impl WithSimd for BlockJob<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let lanes = S::F32::LANES;
        let mut row = 0;
        while row < self.rows {
            let many = self.rows - row >= ROWS;
            let mut col = 0;
            // Of a single row, as many neighbouring vectors.
            while !many && self.cols - col >= ROWS * lanes {
                // SAFETY: as below.
                unsafe { self.block::<S, ROWS, true, true>(s, row, col, lanes) };
                col += ROWS * lanes;
            }
            while col < self.cols {
                let left = self.cols - col;
                if left < lanes && self.again && self.cols >= lanes {
                    col = self.cols - lanes;
                }
                // SAFETY: rows and columns of the tile, for which everything is there by the promise of `Blocks::run`.
                unsafe {
                    match (many, self.cols - col >= lanes) {
                        (true, true) => self.block::<S, ROWS, true, false>(s, row, col, lanes),
                        (true, false) => self.block::<S, ROWS, false, false>(s, row, col, left),
                        (false, true) => self.block::<S, 1, true, false>(s, row, col, lanes),
                        (false, false) => self.block::<S, 1, false, false>(s, row, col, left),
                    }
                }
                col += lanes;
            }
            row += if many { ROWS } else { 1 };
        }
    }
}

/// `v = f(v, operand)` for every vector of a block, the operand being a vector or one value.
macro_rules! each {
    ($s:ident, $v:ident, $feed:ident, $row:ident, $col:ident, $left:ident, |$x:ident, $w:ident| $e:expr) => {{
        let from = $feed.base.wrapping_offset($row as isize * $feed.row).wrapping_add($col * $feed.col);
        // A slot holds a block's vectors always alike.
        let slot = $feed.col == 0 && !$feed.splat;
        let stride = if LINE && !slot { (S::F32::LANES * $feed.col) as isize } else { $feed.row };
        if $feed.splat {
            for r in 0..R {
                let $w = $s.f32(*from.wrapping_offset(r as isize * stride));
                let $x = $v[r];
                $v[r] = $e;
            }
        } else {
            for r in 0..R {
                let $w = read::<S, WHOLE>($s, from.wrapping_offset(r as isize * stride), $left);
                let $x = $v[r];
                $v[r] = $e;
            }
        }
    }};
}

impl BlockJob<'_> {
    /// # Safety
    /// `R` rows from `row` on and `left` columns from `col` on are inside the tile; all lanes are, if `WHOLE`. If `LINE`, the block is not
    /// `R` rows but as many vectors of one.
    #[allow(clippy::needless_range_loop)] // Plain loops: iterators' closures would not be compiled for the instruction set.
    #[inline(always)]
    unsafe fn block<S: Simd, const R: usize, const WHOLE: bool, const LINE: bool>(
        &self,
        s: S,
        row: usize,
        col: usize,
        left: usize,
    ) {
        let mut v = [s.f32(0.0); R];
        let lanes = S::F32::LANES;
        for step in self.steps {
            let with = step.with as usize;
            // A slot holds one block, wherever that is.
            // SAFETY: numbers of feeds and targets are those of the compiled expression; the rest is the caller's promise.
            unsafe {
                if let What::Store = step.what {
                    let target = self.targets.get_unchecked(with);
                    let to = target.base.wrapping_offset(row as isize * target.row).wrapping_add(col);
                    let stride = if LINE { lanes as isize } else { target.row };
                    for r in 0..R {
                        let to = to.wrapping_offset(r as isize * stride);
                        if WHOLE {
                            v[r].store(to);
                        } else {
                            v[r].store_partial(to, left);
                        }
                    }
                    continue;
                }
                let feed = *self.feeds.get_unchecked(with);
                let slot = feed.col == 0 && !feed.splat;
                let at = if slot { 0 } else { row };
                match step.what {
                    What::Take => each!(s, v, feed, at, col, left, |_x, w| w),
                    What::Add => each!(s, v, feed, at, col, left, |x, w| x + w),
                    What::Sub => each!(s, v, feed, at, col, left, |x, w| x - w),
                    What::SubFrom => each!(s, v, feed, at, col, left, |x, w| w - x),
                    What::Mul => each!(s, v, feed, at, col, left, |x, w| x * w),
                    What::Div => each!(s, v, feed, at, col, left, |x, w| x / w),
                    What::DivInto => each!(s, v, feed, at, col, left, |x, w| w / x),
                    What::Max => each!(s, v, feed, at, col, left, |x, w| x.max_nan(w)),
                    What::Min => each!(s, v, feed, at, col, left, |x, w| x.min_nan(w)),
                    What::Keep => {
                        for r in 0..R {
                            v[r].store(feed.base.cast_mut().wrapping_add(r * LONGEST));
                        }
                    }
                    What::Call(f) | What::Call2(f) => {
                        let mut values = [0f32; ROWS * LONGEST];
                        let mut others = [0f32; ROWS * LONGEST];
                        let (to, other) = (values.as_mut_ptr(), others.as_mut_ptr());
                        for r in 0..R {
                            v[r].store(to.add(r * lanes));
                        }
                        if let What::Call2(_) = step.what {
                            each!(s, v, feed, at, col, left, |_x, w| w);
                            for r in 0..R {
                                v[r].store(other.add(r * lanes));
                            }
                        }
                        f(to.cast(), to.cast(), other.cast(), std::ptr::null(), R * lanes);
                        for r in 0..R {
                            v[r] = S::F32::load(to.add(r * lanes));
                        }
                    }
                    What::Store => {}
                }
            }
        }
    }
}

/// A vector of which `left` elements exist.
///
/// # Safety
/// They are readable; all lanes are, if `WHOLE`.
#[inline(always)]
unsafe fn read<S: Simd, const WHOLE: bool>(s: S, from: *const f32, left: usize) -> S::F32 {
    // SAFETY: passed on. 1 is a usual argument of every function.
    unsafe { if WHOLE { S::F32::load(from) } else { S::F32::load_partial(from, left, s.f32(1.0)) } }
}
