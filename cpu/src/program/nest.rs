//! Where an operation's operands lie: strides in bytes, starting addresses, the part of a strip that guards leave.

use std::cell::Cell;

use millstream_core::backend::{Binding, Bindings};
use millstream_core::{Access, DType, Result};
use smallvec::SmallVec;

use super::assemble::Lane;
use super::frame::{Cursor, fill_bytes};
use crate::shared::Shared;
use crate::stream::host_address;

/// A condition on the index, as [`millstream_core::Guard`].
#[derive(Clone, Debug)]
struct Limit {
    coefficients: SmallVec<[isize; 6]>,
    offset: isize,
    limit: isize,
}

/// How one operand is addressed.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// The element type in memory.
    pub dtype: DType,
    /// Bytes from one index to the next, for each dimension.
    pub strides: SmallVec<[isize; 6]>,
    /// Bytes from the binding's offset to the element of index 0.
    base: isize,
    limits: Vec<Limit>,
    fill: u128,
}

/// An operand's memory in one launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    /// The element of index 0, which need not exist for a guarded operand.
    pub first: Shared<u8>,
    /// The first byte that belongs to the operand.
    pub low: usize,
    /// The first byte after it.
    pub high: usize,
}

/// The memory of all operands, inputs first.
pub(crate) type Bases = SmallVec<[Base; 6]>;

impl Operand {
    pub fn new(access: &Access) -> Operand {
        let size = access.dtype.size() as isize;
        Operand {
            dtype: access.dtype,
            strides: access.strides.iter().map(|s| s * size).collect(),
            base: access.base * size,
            limits: access
                .guards
                .iter()
                .map(|g| Limit {
                    coefficients: g.coefficients.iter().copied().collect(),
                    offset: g.offset,
                    limit: g.limit as isize,
                })
                .collect(),
            fill: fill_bytes(&access.fill),
        }
    }

    /// Whether every index has an element.
    pub fn is_plain(&self) -> bool {
        self.limits.is_empty()
    }

    /// Whether the operand is the same along this dimension.
    pub fn ignores(&self, dim: usize) -> bool {
        self.strides[dim] == 0 && self.limits.iter().all(|l| l.coefficients[dim] == 0)
    }

    /// How the operand lies along this dimension of the given size.
    pub fn lane(&self, dim: Option<usize>, size: usize) -> Lane {
        match dim {
            None => Lane::Same,
            Some(d) if self.ignores(d) || size == 1 && self.is_plain() => Lane::Same,
            Some(d) if self.is_plain() && self.strides[d] == self.dtype.size() as isize => Lane::Unit,
            _ => Lane::Step,
        }
    }

    /// Bytes from index 0 to this index.
    pub fn offset(&self, index: &[usize]) -> isize {
        index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s).sum()
    }

    /// The cursor of a strip along `lane` that begins at `index` and has `n` lanes; `at` is the address of its first lane.
    pub fn cursor(&self, lane: Option<usize>, index: &[usize], n: usize, at: *mut u8, base: &Base) -> Cursor {
        let stride = lane.map_or(0, |d| self.strides[d]);
        let mut cursor = Cursor { stride, first: 0, end: n, fill: self.fill };
        if self.limits.is_empty() {
            return cursor;
        }
        let mut cut = |start: isize, step: isize, limit: isize| {
            // The lanes i for which 0 <= start + i * step < limit.
            let (first, end) = match step {
                0 => {
                    if start >= 0 && start < limit {
                        (0, isize::MAX)
                    } else {
                        (0, 0)
                    }
                }
                s if s > 0 => (ceil_div(-start, s), ceil_div(limit - start, s)),
                s => (ceil_div(start - limit + 1, -s), ceil_div(start + 1, -s)),
            };
            let (first, end) = (first.max(0) as usize, end.max(0) as usize);
            cursor.first = cursor.first.max(first);
            cursor.end = cursor.end.min(end);
        };
        for l in &self.limits {
            let start = l.offset + index.iter().zip(&l.coefficients).map(|(&i, &c)| i as isize * c).sum::<isize>();
            cut(start, lane.map_or(0, |d| l.coefficients[d]), l.limit);
        }
        // What lies outside the binding does not exist either, whatever the guards say.
        let size = self.dtype.size() as isize;
        let room = base.high.saturating_sub(base.low) as isize;
        cut((at as isize).wrapping_sub(base.low as isize), stride, room - size + 1);
        cursor.end = cursor.end.max(cursor.first);
        cursor
    }
}

fn ceil_div(a: isize, b: isize) -> isize {
    a.div_euclid(b) + isize::from(a.rem_euclid(b) != 0)
}

/// The memory of a launch, in the order of `operands`: inputs, then outputs.
pub(crate) fn bases(bindings: &Bindings<'_>, operands: &[Operand]) -> Result<Bases> {
    let mut out = Bases::new();
    for (b, o) in bindings.inputs.iter().chain(bindings.outputs).zip(operands) {
        out.push(base(b, o)?);
    }
    Ok(out)
}

fn base(binding: &Binding<'_>, operand: &Operand) -> Result<Base> {
    let first = host_address(binding.memory, binding.offset)?.wrapping_offset(operand.base);
    let start = host_address(binding.memory, 0)? as usize;
    Ok(Base { first: Shared(first), low: start + binding.start, high: start + binding.end })
}

/// Whether kernels may work on all operands in place: every address is a multiple of the element's alignment, and
/// no output lies where something else is still to be read. One output that is written exactly where an input of the same
/// shape is read is fine.
pub(crate) fn may_be_direct(bases: &[Base], operands: &[Operand], inputs: usize) -> bool {
    let aligned = bases.iter().zip(operands).all(|(b, o)| {
        let align = o.dtype.real().size().min(8);
        (b.first.0 as usize) & (align - 1) == 0
    });
    if !aligned {
        return false;
    }
    let outputs = operands.len() - inputs;
    for o in inputs..bases.len() {
        for i in 0..inputs {
            let (x, y) = (&bases[i], &bases[o]);
            let disjoint = x.high <= y.low || y.high <= x.low;
            let same = outputs == 1 && x.first.0 == y.first.0 && operands[i].strides == operands[o].strides;
            if !disjoint && !same {
                return false;
            }
        }
    }
    true
}

/// Calls `f` with memory of at least `bytes` bytes, aligned to 64: from the stack where it is not much.
#[inline]
pub(crate) fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    if bytes == 0 {
        f(std::ptr::dangling_mut::<u128>().cast())
    } else if bytes <= SMALL {
        on_stack::<SMALL, R>(f)
    } else if bytes <= LARGE {
        on_stack::<LARGE, R>(f)
    } else {
        // What the thread's last such call left; a call within a call finds nothing.
        let mut memory = KEPT.take();
        if memory.capacity() * 64 < bytes {
            memory = Vec::with_capacity(bytes.div_ceil(64));
        }
        let result = f(memory.as_mut_ptr().cast());
        if memory.capacity() * 64 <= MOST_KEPT {
            KEPT.set(memory);
        }
        result
    }
}

thread_local! {
    static KEPT: Cell<Vec<StackLine<64>>> = const { Cell::new(Vec::new()) };
}

/// Bytes that a thread keeps for its next call: fresh memory costs a page fault every few thousand bytes.
const MOST_KEPT: usize = 4 << 20;

const SMALL: usize = 4 << 10;
const LARGE: usize = 32 << 10;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct StackLine<const N: usize>([u8; N]);

#[inline(never)]
fn on_stack<const N: usize, R>(f: impl FnOnce(*mut u8) -> R) -> R {
    let mut memory = std::mem::MaybeUninit::<StackLine<N>>::uninit();
    f(memory.as_mut_ptr().cast())
}

/// Moves a counter over `sizes` on by one, the last fastest. Returns the dimension that was stepped; those after it
/// went back to 0. `None` at the end.
#[inline]
pub(crate) fn step(index: &mut [usize], sizes: &[usize], dims: &[usize]) -> Option<usize> {
    for &d in dims.iter().rev() {
        index[d] += 1;
        if index[d] < sizes[d] {
            return Some(d);
        }
        index[d] = 0;
    }
    None
}

/// Sets a counter over the dimensions `dims` (the last fastest) to its position number `at`.
pub(crate) fn seek(index: &mut [usize], sizes: &[usize], dims: &[usize], mut at: usize) {
    for &d in dims.iter().rev() {
        index[d] = at % sizes[d];
        at /= sizes[d];
    }
}
