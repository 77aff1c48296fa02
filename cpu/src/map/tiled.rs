//! Maps some of whose inputs have their neighbours along another dimension than the lanes.
//!
//! Gathering such an input lane by lane would fetch a cache line for every element. Instead a tile of it, some rows of
//! lanes at once, is transposed into fast memory, from which the program reads it like any other.

use millstream_core::Scalar;
use smallvec::SmallVec;

use super::MapWalk;
use super::transpose::{TileFn, TransposeTile, kernels};
use crate::program::strip::LAUNCH;
use crate::program::{Bases, Code, Cursor, Frame, NoFolds, Operand, fence, seek, with_scratch};
use crate::shared::Shared;
use crate::simd::Isa;

/// Lanes of a tile.
pub(super) const LANES: usize = 1024;
/// Bytes of a tile along the input's neighbours: a cache line.
const LINE: usize = 64;

/// Which inputs are transposed, and along which dimension their neighbours lie.
pub(super) struct Tiled {
    /// That dimension.
    pub dim: usize,
    /// Indices of a tile along it.
    pub rows: usize,
    /// The inputs, and what transposes them.
    inputs: SmallVec<[(usize, TileFn); 2]>,
}

impl Tiled {
    /// The inputs for which a tile is worth it, if there are any.
    pub fn new(isa: Isa, dims: &[usize], operands: &[Operand], inputs: usize, lane: Option<usize>) -> Option<Tiled> {
        let lane = lane.filter(|&d| dims[d] >= 16)?;
        let neighbours = |o: &Operand| {
            let size = o.dtype.size() as isize;
            let far = o.is_plain() && o.strides[lane].unsigned_abs() >= LINE;
            (0..dims.len()).find(|&d| far && d != lane && o.strides[d] == size && dims[d] >= 4)
        };
        let dim = operands[..inputs].iter().find_map(neighbours)?;
        let chosen: SmallVec<[(usize, TileFn); 2]> = (0..inputs)
            .filter(|&i| neighbours(&operands[i]) == Some(dim))
            .map(|i| (i, kernels(isa, operands[i].dtype.size()).0))
            .collect();
        let widest = chosen.iter().map(|&(i, _)| operands[i].dtype.size()).max()?;
        Some(Tiled { dim, rows: (LINE / widest).min(dims[dim]), inputs: chosen })
    }

    /// Whether this input is transposed.
    pub fn has(&self, input: usize) -> bool {
        self.inputs.iter().any(|&(i, _)| i == input)
    }
}

impl MapWalk {
    /// How many tiles there are.
    pub(super) fn tile_count(&self, tiled: &Tiled) -> usize {
        let lanes = self.lane.map_or(1, |d| self.dims[d]).div_ceil(LANES);
        let others: usize = self.outer.iter().filter(|&&d| d != tiled.dim).map(|&d| self.dims[d]).product();
        others * self.dims[tiled.dim].div_ceil(tiled.rows) * lanes
    }

    /// Runs the tiles from number `from` to before `to`.
    pub(super) fn tiles(
        &self,
        tiled: &Tiled,
        (code, block): (&Code, usize),
        bases: &Bases,
        params: &[Scalar],
        (from, to): (usize, usize),
    ) {
        let Some(lane) = self.lane else { return };
        let singles = (code.singles.len() * size_of::<u128>()).next_multiple_of(64);
        let registers = if code.registers == 0 { 0 } else { code.scratch(block) };
        let size = |i: usize| self.operands[i].dtype.size();
        let staged: usize = tiled.inputs.iter().map(|&(i, _)| tiled.rows * LANES * size(i)).sum();
        with_scratch(registers + singles + staged, |scratch| {
            // SAFETY: registers, single values and transposed tiles follow each other in the scratch memory.
            let mut frame = unsafe { Frame::new(code, scratch, block, scratch.wrapping_add(registers).cast(), params) };
            // SAFETY: launch-level steps use only single values.
            unsafe { frame.run(LAUNCH, 1, &mut NoFolds) };
            frame.lane = lane;
            frame.cursors.resize(self.operands.len(), Cursor::plain(0));
            let mut bases = bases.clone();
            let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
            let others: SmallVec<[usize; 6]> = self.outer.iter().copied().filter(|&d| d != tiled.dim).collect();
            let (wide, high) = (self.dims[lane].div_ceil(LANES), self.dims[tiled.dim].div_ceil(tiled.rows));
            let origins: SmallVec<[Shared<u8>; 2]> = tiled.inputs.iter().map(|&(i, _)| bases[i].first).collect();
            for t in from..to {
                // Neighbouring tiles go on where the transposed input's lines go on.
                seek(&mut index, &self.dims, &others, t / (wide * high));
                index[lane] = t / high % wide * LANES;
                let first = t % high * tiled.rows;
                index[tiled.dim] = first;
                let lanes = LANES.min(self.dims[lane] - index[lane]);
                let rows = tiled.rows.min(self.dims[tiled.dim] - first);
                let mut at = scratch.wrapping_add(registers + singles);
                let mut tiles: SmallVec<[*mut u8; 2]> = SmallVec::new();
                for (&(i, transpose), &origin) in tiled.inputs.iter().zip(&origins) {
                    let tile = TransposeTile {
                        cols: lanes,
                        rows,
                        from_stride: self.operands[i].strides[lane],
                        to_stride: (LANES * size(i)) as isize,
                    };
                    // SAFETY: the dispatcher checked the binding against the operation, the tile lies inside; the
                    // scratch memory has room for it.
                    unsafe { transpose(origin.offset(self.operands[i].offset(&index)), at, &tile) };
                    tiles.push(at);
                    at = at.wrapping_add(tiled.rows * LANES * size(i));
                }
                for row in 0..rows {
                    index[tiled.dim] = first + row;
                    for (&(i, _), &tile) in tiled.inputs.iter().zip(&tiles) {
                        bases[i].first = Shared(tile.wrapping_add(row * LANES * size(i)));
                    }
                    self.strip(&mut frame, &bases, &index, lanes, block, Some(tiled));
                }
            }
        });
        if self.streams {
            fence();
        }
    }
}
