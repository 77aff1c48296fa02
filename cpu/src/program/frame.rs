//! Running code: the table of pointers, and the walk over the steps.

use millstream_core::Scalar;
use smallvec::SmallVec;

use super::code::{Code, Step};
use super::lanes;

/// How an operand moves along the lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// Bytes from one lane to the next.
    pub stride: isize,
    /// The lanes that exist, counted from the start of the strip. All, for an access without guards.
    pub first: usize,
    /// The first lane after those that exist.
    pub end: usize,
    /// What other lanes read.
    pub fill: u128,
}

impl Cursor {
    /// All lanes exist.
    pub fn plain(stride: isize) -> Cursor {
        Cursor { stride, first: 0, end: usize::MAX, fill: 0 }
    }
}

/// Folds that a row program makes; a map has none.
pub(crate) trait Folder {
    /// Takes a block of values into accumulator `fold`, or the products of two blocks if `b` is not null.
    ///
    /// # Safety
    /// `a` is readable for `n` elements of the fold's type, `b` too if it is not null.
    unsafe fn fold(&mut self, fold: u16, a: *const u8, b: *const u8, n: usize);
}

/// No folds.
pub(crate) struct NoFolds;

impl Folder for NoFolds {
    #[inline(always)]
    unsafe fn fold(&mut self, _: u16, _: *const u8, _: *const u8, _: usize) {}
}

/// What one thread needs to run code: where everything lies now.
pub(crate) struct Frame<'c> {
    pub code: &'c Code,
    slots: SmallVec<[*mut u8; 40]>,
    /// Of the inputs, then of the outputs.
    pub cursors: SmallVec<[Cursor; 6]>,
    /// The current index, for `Index` nodes; along the lanes, that of the strip's first lane.
    pub index: SmallVec<[i64; 6]>,
    /// The dimension of the lanes.
    pub lane: usize,
    /// Lanes of the strip before the current block.
    pub done: usize,
}

impl<'c> Frame<'c> {
    /// A frame over registers at `scratch` and single values at `singles`, with constants and parameters in place.
    ///
    /// # Safety
    /// `scratch` is writable for `code.scratch(block)` bytes and aligned to 64; `singles` for `code.singles.len()` values.
    /// Both outlive the frame and nobody else uses them.
    pub unsafe fn new(
        code: &'c Code,
        scratch: *mut u8,
        block: usize,
        singles: *mut u128,
        params: &[Scalar],
    ) -> Frame<'c> {
        let mut slots = SmallVec::with_capacity(code.slots() + 1);
        for r in 0..code.registers {
            // Within the scratch memory, by the caller's promise.
            slots.push(scratch.wrapping_add(r * code.width * block));
        }
        if !code.singles.is_empty() {
            // SAFETY: the caller promises room for all single values, which nobody else uses.
            let values = unsafe {
                singles.write_bytes(0, code.singles.len());
                std::slice::from_raw_parts_mut(singles, code.singles.len())
            };
            code.fill_singles(values, params);
            for value in values {
                slots.push((&raw mut *value).cast());
            }
        }
        slots.resize(code.slots() + 1, std::ptr::null_mut());
        Frame { code, slots, cursors: SmallVec::new(), index: SmallVec::new(), lane: usize::MAX, done: 0 }
    }

    /// The pointer of a slot.
    #[inline(always)]
    pub fn pointer(&self, slot: usize) -> *mut u8 {
        self.slots[slot]
    }

    /// Sets the pointer of a slot.
    #[inline(always)]
    pub fn set(&mut self, slot: usize, to: *mut u8) {
        self.slots[slot] = to;
    }

    /// Moves inputs and outputs on by `n` lanes.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        let first = self.code.first_input();
        for (i, c) in self.cursors.iter().enumerate() {
            self.slots[first + i] = self.slots[first + i].wrapping_offset(c.stride * n as isize);
        }
        self.done += n;
    }

    /// Runs a segment over `n` lanes.
    ///
    /// # Safety
    /// `n` is at most the block for which the frame was made (1 for segments of single values), and every input and output
    /// that the segment uses is valid for `n` lanes at its slot, in the way that the code was made for.
    #[inline]
    pub unsafe fn run(&mut self, segment: usize, n: usize, folder: &mut impl Folder) {
        for step in &self.code.segments[segment] {
            // SAFETY: slots of finished code are within the table; the rest is the caller's promise.
            unsafe {
                let at = |slot: u16| *self.slots.get_unchecked(slot as usize);
                match *step {
                    Step::Call { f, dst, src: [a, b, c], .. } => f(at(dst), at(a), at(b), at(c), n),
                    Step::Load { input, dst, size } => {
                        let from = at((self.code.first_input() + input as usize) as u16);
                        let cursor = &self.cursors[input as usize];
                        lanes::load(at(dst), from, cursor, self.done, n, size as usize);
                    }
                    Step::Store { output, src, size } => {
                        let to = at((self.code.first_output() + output as usize) as u16);
                        let stride = self.cursors[self.code.inputs + output as usize].stride;
                        lanes::scatter(to, stride, at(src), n, size as usize);
                    }
                    Step::Iota { dst } => {
                        let first = self.index.get(self.lane).copied().unwrap_or(0) + self.done as i64;
                        let to = at(dst).cast::<i64>();
                        for i in 0..n {
                            to.add(i).write(first + i as i64);
                        }
                    }
                    Step::IndexOf { dim, dst } => {
                        at(dst).cast::<i64>().write(self.index.get(dim as usize).copied().unwrap_or(0));
                    }
                    Step::Words { f, dst, src: [first, b, c] } => {
                        let first = at(first).cast::<u32>().read().wrapping_add(self.done as u32);
                        f(at(dst), (&raw const first).cast(), at(b), at(c), n);
                    }
                    Step::Fold { fold, a, b } => folder.fold(fold, at(a), at(b), n),
                }
            }
        }
    }
}

/// The bytes that a read gives where no element is, as they stand in memory.
pub(crate) fn fill_bytes(fill: &Scalar) -> u128 {
    u128::from_ne_bytes(fill.bytes())
}
