//! Rows that are contiguous, for code whose lanes are different rows: a block of rows is transposed into fast memory before its
//! first pass, and results back out of it after its last.
//!
//! Where rows are short, what happens once for each row costs more than all of its elements; transposed, it happens once for
//! each vector of rows.

use smallvec::SmallVec;

use crate::map::transpose::{TileFn, TransposeTile, kernels};
use crate::program::{Base, Bases, Operand};
use crate::shared::Shared;
use crate::simd::Isa;

/// The fewest rows of a block, if there are so many.
pub(super) const LEAST_LANES: usize = 64;

/// The operands that are transposed.
pub(super) struct Tiles {
    list: SmallVec<[Tile; 3]>,
    lane: usize,
    /// Elements of a row.
    row: usize,
    /// Rows of a block.
    block: usize,
    /// Operands as they lie in memory.
    origins: Vec<Operand>,
}

/// An operand that is transposed.
#[derive(Clone, Copy)]
struct Tile {
    operand: usize,
    /// The dimension along which its elements are neighbours.
    along: usize,
    copy: TileFn,
    is_output: bool,
}

/// The dimension of the row, if it has only one that counts.
fn row_dim(dims: &[usize], inner: usize) -> Option<usize> {
    let mut found = (inner..dims.len()).filter(|&d| dims[d] > 1);
    found.next().filter(|_| found.next().is_none())
}

/// Whether an operand is one that can be transposed: its rows are contiguous, but neighbouring lanes are not neighbours.
pub(super) fn fits(operand: &Operand, dims: &[usize], inner: usize, lane: usize) -> bool {
    let size = operand.dtype.size() as isize;
    let along = row_dim(dims, inner).is_some_and(|d| operand.strides[d] == size);
    along && operand.is_plain() && dims[lane] > 1 && ![0, size].contains(&operand.strides[lane])
}

/// How many rows of so many bytes are transposed together at most: half of such a cache holds them. Fewer than
/// [`LEAST_LANES`] are not worth it.
pub(super) fn most_lanes(row_bytes: usize, l2: usize) -> usize {
    l2 / 2 / row_bytes.max(1)
}

impl Tiles {
    /// The operands that are transposed, if there are any and they are small enough. The operands become what the code sees.
    pub(super) fn new(
        isa: Isa,
        operands: &mut [Operand],
        inputs: usize,
        dims: &[usize],
        [inner, lane]: [usize; 2],
        l2: usize,
    ) -> Option<Tiles> {
        let along = row_dim(dims, inner)?;
        let origins = operands.to_vec();
        let list: SmallVec<[Tile; 3]> = (0..operands.len())
            .filter(|&i| fits(&operands[i], dims, inner, lane))
            .map(|i| Tile { operand: i, along, copy: kernels(isa, operands[i].dtype.size()).0, is_output: i >= inputs })
            .collect();
        let mut new = Tiles { list, lane, row: dims[along], block: 0, origins };
        if new.list.is_empty() || most_lanes(new.row * new.element(), l2) < LEAST_LANES {
            return None;
        }
        new.set_block(LEAST_LANES, operands);
        Some(new)
    }

    /// Bytes of an element of all tiles.
    pub(super) fn element(&self) -> usize {
        self.list.iter().map(|t| self.origins[t.operand].dtype.size()).sum()
    }

    /// Rows of a block.
    pub(super) fn block(&self) -> usize {
        self.block
    }

    /// Sets how many rows a block has, and with it what the code sees.
    pub(super) fn set_block(&mut self, block: usize, operands: &mut [Operand]) {
        self.block = block;
        for t in &self.list {
            let (size, pitch) = (self.origins[t.operand].dtype.size() as isize, self.pitch(t) as isize);
            let operand = &mut operands[t.operand];
            operand.strides.fill(0);
            operand.strides[self.lane] = size;
            operand.strides[t.along] = pitch;
        }
    }

    /// Operands as they lie in memory.
    pub(super) fn origins(&self) -> &[Operand] {
        &self.origins
    }

    /// Bytes from one element of the rows to the next: no power of two, so that they do not meet in the same sets of a cache.
    fn pitch(&self, tile: &Tile) -> usize {
        (self.block * self.origins[tile.operand].dtype.size()).next_multiple_of(64) + 64
    }

    /// Bytes of the tiles.
    pub(super) fn bytes(&self) -> usize {
        self.list.iter().map(|t| self.row * self.pitch(t)).sum()
    }

    /// Transposes the inputs of `n` rows from this index on, and points the bases of all that are transposed at the tiles.
    ///
    /// # Safety
    /// The rows exist, and there is room for the tiles at `room`, which nobody else uses.
    pub(super) unsafe fn read(&self, from: &Bases, to: &mut Bases, index: &[usize], n: usize, mut room: *mut u8) {
        for t in &self.list {
            let (origin, pitch) = (&self.origins[t.operand], self.pitch(t));
            let size = origin.dtype.size();
            if !t.is_output {
                let tile = TransposeTile {
                    cols: n,
                    rows: self.row,
                    from_stride: origin.strides[self.lane],
                    to_stride: pitch as isize,
                };
                // SAFETY: the caller's promise.
                unsafe { (t.copy)(from[t.operand].first.offset(origin.offset(index)), room, &tile) };
            }
            // The code counts lanes from the dimension's first.
            let first = Shared(room.wrapping_sub(index[self.lane] * size));
            to[t.operand] = Base { first, ..from[t.operand] };
            room = room.wrapping_add(self.row * pitch);
        }
    }

    /// Transposes the results of `n` rows from this index on out of the tiles.
    ///
    /// # Safety
    /// As for [`Tiles::read`]; the results are in the tiles, and nobody else uses those rows.
    pub(super) unsafe fn write(&self, to: &Bases, index: &[usize], n: usize, mut room: *mut u8) {
        for t in &self.list {
            let (origin, pitch) = (&self.origins[t.operand], self.pitch(t));
            if t.is_output {
                let tile = TransposeTile {
                    cols: self.row,
                    rows: n,
                    from_stride: pitch as isize,
                    to_stride: origin.strides[self.lane],
                };
                // SAFETY: the caller's promise.
                unsafe { (t.copy)(room, to[t.operand].first.offset(origin.offset(index)), &tile) };
            }
            room = room.wrapping_add(self.row * pitch);
        }
    }
}
