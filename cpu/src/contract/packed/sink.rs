//! Where results go: straight into a plain C, or through an epilogue.

use std::marker::PhantomData;

use smallvec::SmallVec;

use super::Element;
use super::source::Batch;

/// Where a finished tile lies in C and its layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileAt {
    /// Which matrix of the batch.
    pub batch: usize,
    /// First row of the tile.
    pub row: usize,
    /// First column of the tile.
    pub col: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements from one row of the tile to the next.
    pub ld: usize,
}

/// Takes finished tiles: the epilogue.
pub trait TileSink<T>: Sync {
    /// Called exactly once for each tile; the tiles cover C and do not overlap. Element `(i, j)` of the tile is
    /// `tile[i * at.ld + j]` and belongs to row `at.row + i`, column `at.col + j` of C. Several threads call at the same
    /// time, for different tiles; how C is cut depends on the number of threads, too.
    fn store(&self, at: &TileAt, tile: &[T]);

    /// What becomes of the accumulators of one matrix of the batch, if that is a chain of plain operations: whoever has accumulators in registers may
    /// compute and write results by it instead of storing them here. The chain is good as long as the sink is.
    fn chain(&self, batch: usize) -> Option<Chain> {
        let _ = batch;
        None
    }

    /// Memory with room for every element of C that nobody reads or writes before the tile it belongs to is stored, if
    /// the sink has such: accumulators that are not complete wait there. Most sinks have the memory that `store` writes.
    fn home(&self) -> Option<Plain<'_, T>> {
        None
    }
}

/// An operation between a value in f32 and an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainOp {
    /// The sum.
    Add,
    /// The value minus the operand.
    Sub,
    /// The product.
    Mul,
    /// The larger; NaN where either is NaN.
    Max,
    /// The smaller; NaN where either is NaN.
    Min,
}

/// The operand of a [`ChainStep`]; addresses are those for row 0 and column 0 of C, followed by the elements from one row to the next.
#[derive(Clone, Copy, Debug)]
pub enum ChainOperand {
    /// One number.
    Value(f32),
    /// One number for each row.
    Rows(*const f32, isize),
    /// One for each element, those of a row contiguous.
    Elements(*const f32, isize),
}

/// A step of a [`Chain`].
#[derive(Clone, Copy, Debug)]
pub struct ChainStep {
    /// What is done.
    pub what: ChainOp,
    /// With which operand.
    pub with: ChainOperand,
}

/// Results that are made of accumulators in f32 by a few steps: `((sum op operand) op operand) ...`, contiguous along columns. Whoever
/// hands one out vouches for the operands and the result of every element of C; the result may be the memory of an operand.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The steps.
    pub steps: SmallVec<[ChainStep; 4]>,
    /// The result of row 0 and column 0, and elements from one row to the next.
    pub to: *mut f32,
    /// Elements from one row of the result to the next.
    pub row: isize,
}

impl Chain {
    /// Whether results overwrite what they are made of: each may be computed once only.
    pub(crate) fn is_in_place(&self) -> bool {
        let over = |l: &ChainStep| matches!(l.with, ChainOperand::Elements(base, _) if base == self.to.cast_const());
        self.steps.iter().any(over)
    }
}

/// A plain C with strides, written without an epilogue.
#[derive(Clone, Copy)]
pub struct Plain<'a, T> {
    pub(super) base: *mut T,
    pub(crate) row: isize,
    pub(crate) col: isize,
    pub(super) batch: Batch<'a>,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: the constructors demand exclusive access to every element for the lifetime, and T is Send.
unsafe impl<T: Send> Send for Plain<'_, T> {}
// SAFETY: as above; the driver writes each element from one thread only.
unsafe impl<T: Send> Sync for Plain<'_, T> {}

impl<'a, T> Plain<'a, T> {
    /// A dense row-major C of `batch` matrices one after the other. `None` if `data` is too short.
    pub fn dense(data: &'a mut [T], batch: usize, m: usize, n: usize) -> Option<Plain<'a, T>> {
        let each = m.checked_mul(n)?;
        if data.len() < each.checked_mul(batch)? {
            return None;
        }
        let each = isize::try_from(each).ok()?;
        // SAFETY: the slice is borrowed exclusively for the lifetime and holds every element.
        Some(unsafe { Plain::from_raw(data.as_mut_ptr(), n as isize, 1, Batch::Stride(each)) })
    }

    /// A C at `base` whose element `(b, i, j)` is at `batch(b) + i * row + j * col`, in elements.
    ///
    /// # Safety
    /// For the lifetime, every element of the matmul's shape must be valid for writes and reads, used by nobody else, and
    /// no two of them may be the same.
    pub unsafe fn from_raw(base: *mut T, row: isize, col: isize, batch: Batch<'a>) -> Plain<'a, T> {
        Plain { base, row, col, batch, life: PhantomData }
    }

    pub(super) fn transposed(self) -> Plain<'a, T> {
        Plain { row: self.col, col: self.row, ..self }
    }

    /// The first element of a matrix of the batch.
    pub(crate) fn at(&self, batch: usize) -> *mut T {
        self.base.wrapping_offset(self.batch.offset(batch))
    }
}

/// Writes a tile element by element into a C of another type or of any strides.
///
/// `convert` turns an accumulator into a stored element, as in `Converted::new(c, f16::from_f32)`.
pub struct Converted<'a, S, F> {
    c: Plain<'a, S>,
    convert: F,
}

impl<'a, S, F> Converted<'a, S, F> {
    /// A sink into `c`.
    pub fn new(c: Plain<'a, S>, convert: F) -> Converted<'a, S, F> {
        Converted { c, convert }
    }
}

impl<S: Copy + Send, T: Element, F: Fn(T) -> S + Sync> TileSink<T> for Converted<'_, S, F> {
    fn store(&self, at: &TileAt, tile: &[T]) {
        scatter(&self.c, at, tile, &self.convert);
    }
}

/// Writes a tile element by element.
pub(in crate::contract) fn scatter<S, T: Copy>(c: &Plain<'_, S>, at: &TileAt, tile: &[T], convert: impl Fn(T) -> S) {
    let base = c.at(at.batch);
    for i in 0..at.rows {
        let out = base.wrapping_offset((at.row + i) as isize * c.row + at.col as isize * c.col);
        let Some(row) = tile.get(i * at.ld..i * at.ld + at.cols) else { return };
        for (j, &x) in row.iter().enumerate() {
            // SAFETY: the tile lies inside the shape that the maker of `c` vouched for, and no other task writes it. The old
            // value is not dropped: it may be anything.
            unsafe { out.wrapping_offset(j as isize * c.col).write(convert(x)) };
        }
    }
}

/// Where the results of a matmul go.
#[derive(Clone, Copy)]
pub enum Output<'a, T> {
    /// Into memory, as they are: the fast path, straight from registers where C has a unit stride.
    Plain(Plain<'a, T>),
    /// Through an epilogue.
    Sink(&'a dyn TileSink<T>),
}

impl Output<'_, f32> {
    /// How results of one matrix of the batch are made of accumulators in registers, if that is a chain of plain operations or of none.
    pub(crate) fn chain(&self, batch: usize) -> Option<Chain> {
        match self {
            Output::Plain(c) => (c.col == 1).then(|| Chain { steps: SmallVec::new(), to: c.at(batch), row: c.row }),
            Output::Sink(sink) => sink.chain(batch),
        }
    }
}
