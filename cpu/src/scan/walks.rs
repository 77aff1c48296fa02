//! Walks over rows: one row along its elements, or adjacent rows together.

use super::items::{Compensated, Item};
use crate::epilogue_chain::fetch;
use crate::simd::{Float, Isa, Simd, WithSimd, vectorize};

/// Room for the total of any item.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct Carry([u64; 4]);

impl Carry {
    #[inline(always)]
    pub(super) fn of<T: Copy>(total: T) -> Carry {
        const { assert!(size_of::<T>() <= 32 && align_of::<T>() <= 16) };
        let mut room = Carry([0; 4]);
        // SAFETY: the room is large enough.
        unsafe { (&raw mut room).cast::<T>().write(total) };
        room
    }

    /// The total that was put in, of the same type.
    ///
    /// # Safety
    /// `Carry::of::<T>` made it.
    #[inline(always)]
    pub(super) unsafe fn get<T: Copy>(&self) -> T {
        // SAFETY: the caller's promise.
        unsafe { (&raw const *self).cast::<T>().read() }
    }
}

/// What a walk does with its results.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum WalkWriting {
    /// Only the total is wanted.
    Nothing,
    Plain,
    /// Past the caches; results begin with a cache line.
    Stream,
}

/// A part of a row, neighbouring elements on both sides.
#[derive(Clone, Copy)]
pub(super) struct RowPart {
    pub from: *const u8,
    pub to: *mut u8,
    pub elements: usize,
    pub writing: WalkWriting,
}

/// Walks a part of a row behind elements whose total is `carry`, and merges its own total with that. The own total does not depend on
/// what is before, so that it can be had first.
pub(super) type WalkAlong = unsafe fn(&RowPart, &mut Carry);

/// Walks a part of a row, element by element.
///
/// # Safety
/// The part's elements exist on both sides; `carry` is a total of `T`.
pub(super) unsafe fn along<T: Item, const OP: u8>(part: &RowPart, carry: &mut Carry) {
    // SAFETY: the caller's promise.
    unsafe {
        let before: T::Total = carry.get();
        let mut own = T::identity::<OP>();
        for i in 0..part.elements {
            own = T::join::<OP>(own, part.from.cast::<T>().add(i).read_unaligned());
            if part.writing != WalkWriting::Nothing {
                let x = T::result(T::merge::<OP>(before, own));
                part.to.cast::<T>().add(i).write_unaligned(x);
            }
        }
        *carry = Carry::of(T::merge::<OP>(before, own));
    }
}

/// Rows that lie anyhow: addresses, bytes from row to row and from element to element of both sides, rows and elements.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub isa: Isa,
    pub from: *const u8,
    pub to: *mut u8,
    pub row_strides: [isize; 2],
    pub steps: [isize; 2],
    pub rows: usize,
    pub elements: usize,
    pub streams: bool,
}

pub(super) type Walk = unsafe fn(&Rows);

/// Walks each row by itself.
///
/// # Safety
/// All elements exist on both sides.
pub(super) unsafe fn strided<T: Item, const OP: u8>(rows: &Rows) {
    // SAFETY: the caller's promise.
    unsafe {
        for r in 0..rows.rows as isize {
            let (mut from, mut to) =
                (rows.from.offset(r * rows.row_strides[0]), rows.to.offset(r * rows.row_strides[1]));
            let mut total = from.cast::<T>().read_unaligned().first::<OP>();
            to.cast::<T>().write_unaligned(T::result(total));
            for _ in 1..rows.elements {
                (from, to) = (from.offset(rows.steps[0]), to.offset(rows.steps[1]));
                total = T::join::<OP>(total, from.cast::<T>().read_unaligned());
                to.cast::<T>().write_unaligned(T::result(total));
            }
        }
    }
}

/// The most elements of a short row.
pub(super) const MOST_SHORT: usize = 128;
/// Short rows that are walked at once, so that their totals do not wait for each other.
const AT_ONCE: usize = 8;

/// Walks short rows, several at once.
///
/// # Safety
/// All elements exist on both sides.
pub(super) unsafe fn short<T: Item, const OP: u8>(rows: &Rows) {
    let mut row = 0;
    while row + AT_ONCE <= rows.rows {
        // SAFETY: the caller's promise.
        unsafe { few_short::<T, OP, AT_ONCE>(rows, row) };
        row += AT_ONCE;
    }
    while row < rows.rows {
        // SAFETY: as above.
        unsafe { few_short::<T, OP, 1>(rows, row) };
        row += 1;
    }
}

/// # Safety
/// There are so many rows from this one on.
#[inline(always)]
unsafe fn few_short<T: Item, const OP: u8, const N: usize>(rows: &Rows, row: usize) {
    let at = |side: isize, start: isize, i: usize| start.wrapping_add(i as isize * side);
    let (froms, tos) = (rows.row_strides[0], rows.row_strides[1]);
    let mut totals = [T::identity::<OP>(); N];
    for i in 0..rows.elements {
        let (from, to) = (at(rows.steps[0], row as isize * froms, i), at(rows.steps[1], row as isize * tos, i));
        for (r, total) in totals.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let x = rows.from.offset(at(froms, from, r)).cast::<T>().read_unaligned();
                *total = if i == 0 { x.first::<OP>() } else { T::join::<OP>(*total, x) };
                rows.to.offset(at(tos, to, r)).cast::<T>().write_unaligned(T::result(*total));
            }
        }
    }
}

/// Rows that are walked together where they are adjacent.
pub(super) const LANES: usize = 256;
/// Rows whose totals are brought on together.
const GROUP: usize = 16;
/// Elements of a row from those that are walked to those that are prefetched.
const AHEAD: isize = 8;

/// Walks together rows that are adjacent in the input, at most [`LANES`].
///
/// # Safety
/// All elements exist on both sides.
pub(super) unsafe fn beside<T: Item, const OP: u8>(rows: &Rows) {
    vectorize(rows.isa, Beside::<T, OP>(rows, std::marker::PhantomData));
}

struct Beside<'a, T, const OP: u8>(&'a Rows, std::marker::PhantomData<T>);

impl<T: Item, const OP: u8> WithSimd for Beside<'_, T, OP> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.0;
        let mut totals = [T::identity::<OP>(); LANES];
        let totals = &mut totals[..rows.rows.min(LANES)];
        // SAFETY: `beside`'s caller promises all elements.
        unsafe {
            for i in 0..rows.elements as isize {
                let from = rows.from.offset(i * rows.steps[0]).cast::<T>();
                let to = rows.to.offset(i * rows.steps[1]);
                if i == 0 {
                    for (r, total) in totals.iter_mut().enumerate() {
                        *total = from.add(r).read_unaligned().first::<OP>();
                        to.offset(r as isize * rows.row_strides[1]).cast::<T>().write_unaligned(T::result(*total));
                    }
                } else if rows.row_strides[1] == size_of::<T>() as isize {
                    line::<S, T, OP>(s, totals, from, rows.steps[0], to.cast::<T>(), rows.streams);
                } else {
                    for (r, total) in totals.iter_mut().enumerate() {
                        *total = T::join::<OP>(*total, from.add(r).read_unaligned());
                        to.offset(r as isize * rows.row_strides[1]).cast::<T>().write_unaligned(T::result(*total));
                    }
                }
            }
        }
    }
}

/// One element of each row.
#[inline(always)]
unsafe fn line<S: Simd, T: Item, const OP: u8>(
    s: S,
    totals: &mut [T::Total],
    from: *const T,
    step: isize,
    to: *mut T,
    streams: bool,
) {
    let (groups, rest) = totals.as_chunks_mut::<GROUP>();
    let mut at = 0;
    // SAFETY: the caller promises an element of both sides for each total.
    unsafe {
        for group in groups {
            let x = from.add(at).cast::<[T; GROUP]>().read_unaligned();
            fetch::<false>(
                from.wrapping_add(at).wrapping_byte_offset(AHEAD * step).cast(),
                16,
                size_of::<[T; GROUP]>() / 64,
            );
            let mut y = x;
            // Totals stay in registers from here to there.
            let mut now = *group;
            for k in 0..GROUP {
                now[k] = T::join::<OP>(now[k], x[k]);
                y[k] = T::result(now[k]);
            }
            *group = now;
            put(s, y, to.add(at), streams);
            at += GROUP;
        }
        for total in rest {
            *total = T::join::<OP>(*total, from.add(at).read_unaligned());
            to.add(at).write_unaligned(T::result(*total));
            at += 1;
        }
    }
}

/// Writes neighbours, past the caches where that is wanted and they are whole lines.
#[inline(always)]
unsafe fn put<S: Simd, T: Copy>(_: S, y: [T; GROUP], to: *mut T, streams: bool) {
    let vector = S::F32::LANES * size_of::<f32>();
    // SAFETY: the caller promises room, which begins with a line if `streams`; vectors make up a line.
    unsafe {
        if streams && size_of::<[T; GROUP]>().is_multiple_of(64) {
            for part in 0..size_of::<[T; GROUP]>() / vector {
                let x = S::F32::load((&raw const y).cast::<f32>().byte_add(part * vector));
                x.stream(to.cast::<f32>().byte_add(part * vector));
            }
        } else {
            to.cast::<[T; GROUP]>().write_unaligned(y);
        }
    }
}

/// Walks adjacent sums of f64: sums and what they lost are separate arrays, so that both are vectors.
///
/// # Safety
/// All elements exist on both sides.
pub(super) unsafe fn beside_compensated(rows: &Rows) {
    vectorize(rows.isa, SumWalk(rows));
}

struct SumWalk<'a>(&'a Rows);

impl WithSimd for SumWalk<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.0;
        if rows.row_strides[1] != size_of::<f64>() as isize {
            return Beside::<f64, { super::items::SUM }>(rows, std::marker::PhantomData).run(s);
        }
        let count = rows.rows.min(LANES);
        let (mut high, mut low) = ([-0.0f64; LANES], [-0.0f64; LANES]);
        let lanes = S::F64::LANES;
        // SAFETY: `beside_compensated`'s caller promises all elements; there are totals for `LANES` rows.
        unsafe {
            let (high, low) = (high.as_mut_ptr(), low.as_mut_ptr());
            for i in 0..rows.elements as isize {
                let from = rows.from.offset(i * rows.steps[0]).cast::<f64>();
                let to = rows.to.offset(i * rows.steps[1]).cast::<f64>();
                let mut at = 0;
                while at + lanes <= count {
                    let soon = from.wrapping_add(at).wrapping_byte_offset(AHEAD * rows.steps[0]);
                    fetch::<false>(soon.cast(), 16, 1);
                    let (x, before) = (S::F64::load(from.add(at)), S::F64::load(high.add(at)));
                    let sum = before + x;
                    let grown = sum - before;
                    let lost = S::F64::load(low.add(at)) + ((before - (sum - grown)) + (x - grown));
                    sum.store(high.add(at));
                    lost.store(low.add(at));
                    let y = S::F64::select(sum.abs().lt(s.f64(f64::INFINITY)), sum + lost, sum);
                    if rows.streams {
                        y.stream(to.add(at));
                    } else {
                        y.store(to.add(at));
                    }
                    at += lanes;
                }
                while at < count {
                    let sum = Compensated { high: *high.add(at), low: *low.add(at) }.add(from.add(at).read_unaligned());
                    (*high.add(at), *low.add(at)) = (sum.high, sum.low);
                    to.add(at).write_unaligned(sum.value());
                    at += 1;
                }
            }
        }
    }
}
