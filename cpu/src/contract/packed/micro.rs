//! The micro-kernel for those who walk their blocks themselves.

use super::kernel::{Kernels, MicroTile, Reading, kernels};
use super::{Element, MicroKernel};

/// The f32 micro-kernels of an instruction set that read rows in place and columns from a packed panel.
#[derive(Clone, Copy)]
pub(crate) struct Micro(&'static Kernels<f32>);

/// A matmul of some rows with a panel: `c[i, j] (+)= sum over p < k of a[i * a_row + p] * b[p * panel + j]`.
pub(crate) struct Rows {
    pub(crate) k: usize,
    pub(crate) a: *const f32,
    pub(crate) a_row: usize,
    pub(crate) b: *const f32,
    pub(crate) c: *mut f32,
    pub(crate) c_row: usize,
    /// Add to `c` rather than replace it.
    pub(crate) add: bool,
}

impl Micro {
    /// Those of an instruction set, if the machine has it and they exist.
    pub(crate) fn new(isa: MicroKernel) -> Option<Micro> {
        let table = kernels::<f32>(isa);
        (isa.available() && table.strided).then_some(Micro(table))
    }

    /// Most rows at once.
    pub(crate) fn rows(&self) -> usize {
        self.0.mr
    }

    /// Columns of a panel.
    pub(crate) fn panel(&self) -> usize {
        self.0.nr()
    }

    /// Computes `rows` rows (1 to [`Micro::rows`]) by a whole panel.
    ///
    /// # Safety
    /// `a` is readable for `k` elements in each row, `b` for `k` panels, `c` writable (and readable if `add`) for a panel's columns
    /// in each row; nobody else uses these elements of `c` meanwhile.
    pub(crate) unsafe fn run(&self, of: &Rows, rows: usize) {
        let tile = MicroTile {
            k: of.k,
            a: of.a,
            a_row: of.a_row as isize,
            a_k: 1,
            b: of.b,
            b_k: self.panel() as isize,
            c: of.c,
            c_row: of.c_row as isize,
            add: of.add,
            rows,
            tail: self.0.lanes,
            then: of.c,
            next: std::ptr::null(),
            lines: 0,
        };
        let kernel = self.0.get(Reading::Strided, rows, self.0.vectors);
        // SAFETY: the caller's; the instruction set was found when this was made.
        unsafe { kernel(&tile) };
    }
}

/// The micro-kernels of an instruction set over packed panels: rows as [`super::Side::A`] packs them, columns as [`super::Side::B`].
#[derive(Clone, Copy)]
pub(crate) struct Panels<T: 'static>(&'static Kernels<T>);

/// A matmul of a panel of rows with one of columns: `c[i, j] (+)= sum over p < k of a[p, i] * b[p, j]`.
pub(crate) struct Panel<T> {
    pub(crate) k: usize,
    pub(crate) a: *const T,
    pub(crate) b: *const T,
    /// Rows are [`Panels::columns`] apart.
    pub(crate) c: *mut T,
    /// Add to `c` rather than replace it.
    pub(crate) add: bool,
}

impl<T: Element> Panels<T> {
    /// Those of an instruction set, if the machine has it.
    pub(crate) fn new(isa: MicroKernel) -> Option<Panels<T>> {
        let table = kernels::<T>(isa);
        (isa.available() && table.state.is_none() && !table.heads).then_some(Panels(table))
    }

    /// Rows of a panel.
    pub(crate) fn rows(&self) -> usize {
        self.0.mr
    }

    /// Columns of a panel.
    pub(crate) fn columns(&self) -> usize {
        self.0.nr()
    }

    /// Computes `rows` rows (1 to [`Panels::rows`]) by at least `columns` columns (1 to [`Panels::columns`]).
    ///
    /// # Safety
    /// `a` and `b` are readable for `k` rows of whole panels, `c` is writable (and readable if `add`) for all columns in each row;
    /// nobody else uses these elements of `c` meanwhile.
    pub(crate) unsafe fn run(&self, of: &Panel<T>, rows: usize, columns: usize) {
        let Kernels { mr, lanes, .. } = *self.0;
        let width = self.columns() as isize;
        let tile = MicroTile {
            k: of.k,
            a: of.a,
            a_row: 1,
            a_k: mr as isize,
            b: of.b,
            b_k: width,
            c: of.c,
            c_row: width,
            add: of.add,
            rows,
            tail: lanes,
            // What follows: rows are computed one panel after the other.
            then: of.c.wrapping_offset(mr as isize * width),
            next: std::ptr::null(),
            lines: 0,
        };
        let kernel = self.0.get(Reading::Packed, rows, columns.div_ceil(lanes));
        // SAFETY: the caller's; the instruction set was found when this was made.
        unsafe { kernel(&tile) };
    }
}
