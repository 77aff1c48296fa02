//! What a walk over strided operands costs on one unit, and how much of it makes a task.
//!
//! A unit that runs one thread goes over an index space in strips: a vector program along one dimension, counters over the others. The price
//! of an element says which dimension that is. Walks and tasks decide how sums are grouped, so these numbers are stated by the backend and
//! never measured: results may not change from run to run.

use serde::{Deserialize, Serialize};

/// What walks cost on a unit, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Walks {
    /// A byte of contiguous elements.
    pub byte: f64,
    /// An element alone, nearer to the one before than a line.
    pub near: f64,
    /// An element alone on a line.
    pub far: f64,
    /// Bytes of a line.
    pub line: usize,
    /// The start of a strip of a map.
    pub strip: f64,
    /// The start of a strip of a row program; rows have a price of their own.
    pub row_strip: f64,
    /// A strip's further price for each node of its expression.
    pub node: f64,
    /// The start of a row.
    pub row: f64,
    /// A row's further price for each node of its expression.
    pub row_node: f64,
    /// Joining a row's accumulators, for each reduction.
    pub reduction: f64,
    /// An element of a reduction whose accumulators belong to one row each.
    pub lane_reduction: f64,
    /// An element of a search for an index of which the same is true, in addition.
    #[serde(default)] // Stated by this version: profiles that were kept before have none.
    pub lane_search: f64,
    /// An element that is transposed into fast memory, or out of it.
    #[serde(default)]
    pub transposed: f64,
    /// An element that is packed by itself: one of contiguous elements, of every second one, and of others.
    pub pack: [f64; 3],
    /// The start of a run of elements that are packed so, with one stride.
    pub pack_run: f64,
    /// An element that is packed along K, and so transposed once more.
    pub pack_transposed: f64,
    /// An element of an image or of a result that is transposed by squares, and copied.
    #[serde(default)] // A fact of this version.
    pub image_transposed: f64,
    /// The start of a matmul of few numbers, one of a batch.
    pub matrix: f64,
    /// An element of an image that is copied with its border.
    pub border: f64,
    /// The start of a plane of a depthwise convolution.
    pub plane: f64,
    /// Work beside which handing it to another thread does not count.
    pub task: f64,
}

/// What one row of a row program does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowWork {
    /// Nodes of its expression.
    pub nodes: usize,
    /// Reductions among them.
    pub reductions: usize,
    /// Those of them that search for an index.
    pub searches: usize,
    /// Elements of a row.
    pub length: usize,
}

impl Walks {
    /// An element of an operand that moves by `stride` bytes from one element of `size` bytes to the next.
    pub fn element(&self, stride: isize, size: usize) -> f64 {
        match stride {
            s if s == size as isize => self.byte * size as f64,
            s if s.unsigned_abs() < self.line => self.near,
            _ => self.far,
        }
    }

    /// An element that is packed by itself, of runs of so many with this step between them.
    pub fn packed(&self, step: isize, run: usize) -> f64 {
        let [contiguous, second, other] = self.pack;
        let each = match step {
            0 | 1 => contiguous,
            2 => second,
            _ => other,
        };
        each + self.pack_run / run.clamp(1, 256) as f64
    }

    /// A copy of an image with its border, which is a job of its own.
    pub fn image_copy(&self, elements: usize) -> f64 {
        self.matrix + self.border * elements as f64
    }

    /// A contiguous element that is transposed into fast memory, or out of it, and read or written there.
    pub fn transposed(&self, size: usize) -> f64 {
        self.transposed + self.byte * size as f64
    }

    /// An element of a map: its operands, and its share of a strip of `length` elements.
    pub fn map(&self, operands: f64, nodes: usize, length: usize) -> f64 {
        operands + (self.strip + self.node * nodes as f64) / length.max(1) as f64
    }

    /// An element of a row program with the lanes along its rows, in strips of `length` elements.
    pub fn along_rows(&self, operands: f64, work: RowWork, length: usize) -> f64 {
        let (nodes, reductions) = (work.nodes as f64, work.reductions as f64);
        let strip = (self.row_strip + self.node * nodes) / length.max(1) as f64;
        let row = self.row + self.row_node * nodes + self.reduction * reductions;
        operands + strip + row / work.length.max(1) as f64
    }

    /// An element of a row program with one row in each of `lanes` lanes.
    pub fn interleaved_rows(&self, operands: f64, work: RowWork, lanes: usize) -> f64 {
        let (nodes, together) = (work.nodes as f64, lanes.max(1) as f64);
        let step = (self.row_strip + self.node * nodes) / together;
        let row = (self.row + self.row_node * nodes) / together / work.length.max(1) as f64;
        let lanes = self.lane_reduction * work.reductions as f64 + self.lane_search * work.searches as f64;
        operands + lanes + step + row
    }

    /// How many elements of `size` bytes, each read and written once, make a task: the nearest power of two, so that tasks begin at lines.
    pub fn task(&self, size: usize) -> usize {
        let elements = self.task / (2.0 * self.byte * size.max(1) as f64);
        1usize << elements.max(1.0).log2().round().min(62.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALKS: Walks = Walks {
        byte: 0.025,
        near: 0.5,
        far: 1.5,
        line: 64,
        strip: 20.0,
        row_strip: 15.0,
        node: 6.0,
        row: 40.0,
        row_node: 20.0,
        reduction: 30.0,
        lane_reduction: 0.05,
        lane_search: 0.25,
        transposed: 0.1,
        pack: [0.1, 0.3, 0.7],
        pack_run: 8.0,
        pack_transposed: 0.2,
        image_transposed: 0.5,
        matrix: 2e3,
        border: 0.2,
        plane: 6.0,
        task: 13e3,
    };

    #[test]
    fn packing_costs_more_by_steps_and_in_short_runs() {
        let prices = [WALKS.packed(1, 256), WALKS.packed(2, 256), WALKS.packed(-1, 256), WALKS.packed(1, 4)];
        assert!(prices.is_sorted_by(|a, b| a < b), "{prices:?}");
        assert_eq!((WALKS.packed(0, 1000), WALKS.packed(1, 0)), (WALKS.packed(1, 256), WALKS.packed(1, 1)));
    }

    #[test]
    fn elements_cost_more_the_farther_apart_they_lie() {
        let prices = [4, 8, -4, 60, 64, -4096].map(|stride| WALKS.element(stride, 4));
        assert_eq!(prices, [0.1, 0.5, 0.5, 0.5, 1.5, 1.5]);
    }

    #[test]
    fn short_rows_are_interleaved_and_long_ones_along() {
        let work = |length| RowWork { nodes: 2, reductions: 1, searches: 0, length };
        let beside = WALKS.element(4, 4);
        let interleaved =
            |length: usize| WALKS.interleaved_rows(WALKS.element(4 * length as isize, 4), work(length), 512);
        assert!(interleaved(4) < WALKS.along_rows(beside, work(4), 4));
        assert!(interleaved(1024) > WALKS.along_rows(beside, work(1024), 1024));
    }

    #[test]
    fn a_task_has_as_many_bytes_for_elements_of_any_size() {
        assert_eq!([1, 2, 4, 8].map(|size| WALKS.task(size)), [256 << 10, 128 << 10, 64 << 10, 32 << 10]);
    }
}
