//! Elements picked by truth values. How many there are is known beforehand: whoever asks has counted.

use std::ops::Range;

use millstream_core::what::{Fork, elements};
use millstream_core::{DType, Error, HostFunction, HostOperand, HostRun, Result};

use crate::slices::{Raw, for_ranges, read, write_if};

fn miscounted() -> Error {
    Error::internal("another number of true elements than was counted")
}

/// Where a bool tensor is true: for each of its dimensions the indices (i64), in row-major order of the elements.
pub fn nonzero(shape: &[usize], count: usize) -> HostFunction {
    let outputs = shape.iter().map(|_| HostOperand::new(DType::I64, &[count])).collect();
    let code = NonZero { shape: shape.to_vec(), count };
    HostFunction::new(code, vec![HostOperand::new(DType::Bool, shape)], outputs, elements(shape) as u64)
}

struct NonZero {
    shape: Vec<usize>,
    count: usize,
}

impl HostRun for NonZero {
    fn name(&self) -> &'static str {
        "nonzero"
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let mut lists = outputs.iter_mut().map(|o| write_if::<i64>(o)).collect::<Result<Vec<_>>>()?;
        let lists: Vec<Option<Raw<i64>>> = lists.iter_mut().map(|l| l.as_deref_mut().map(Raw::of)).collect();
        let shape = &self.shape;
        // SAFETY: each piece writes the elements that are its own by the count of those before it.
        picked(read(inputs[0])?, self.count, fork, &|piece, start, picks| unsafe {
            if let ([Some(list)], [_]) = (&lists[..], &shape[..]) {
                return compact(picks, list.slice(start..start + picks.count), |i| (piece.start + i) as i64);
            }
            let mut chosen = [0u32; PIECE];
            compact(picks, &mut chosen, |i| i as u32);
            let mut index = vec![0; shape.len()];
            let (mut before, last) = (piece.start, shape.last().copied().unwrap_or(1));
            let mut along = usize::MAX;
            for (to, &i) in (start..).zip(&chosen[..picks.count]) {
                let at = piece.start + i as usize;
                along = along.saturating_add(at - before);
                before = at;
                if along >= last {
                    // The other indices change only here: most elements need no division.
                    let mut rest = at;
                    for (index, &n) in index.iter_mut().zip(shape).rev() {
                        (*index, rest) = (rest % n, rest / n);
                    }
                    along = index.last().copied().unwrap_or(0);
                } else if let Some(index) = index.last_mut() {
                    *index = along;
                }
                for (list, &index) in lists.iter().zip(&index) {
                    if let Some(list) = list {
                        list.write(to, index as i64);
                    }
                }
            }
        })
    }
}

/// The rows of `[rows, row]` where a bool `[rows]` is true.
pub fn mask(dtype: DType, rows: usize, row: usize, count: usize) -> HostFunction {
    let inputs = vec![HostOperand::new(dtype, &[rows, row]), HostOperand::new(DType::Bool, &[rows])];
    let code = Mask { bytes: row * dtype.size(), count };
    HostFunction::new(
        code,
        inputs,
        vec![HostOperand::new(dtype, &[count, row])],
        (rows as u64).saturating_mul(row as u64),
    )
}

struct Mask {
    /// Bytes of a row.
    bytes: usize,
    count: usize,
}

impl HostRun for Mask {
    fn name(&self) -> &'static str {
        "mask"
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let [x, mask] = inputs else { return Err(Error::internal("a mask has two inputs")) };
        let [Some(output)] = outputs else { return Ok(()) };
        let mask = read(mask)?;
        // Rows that are as wide as an integer and lie as one: a compiler knows how to move those.
        match self.bytes {
            0 => Ok(()),
            1 => self.rows::<u8>(x, mask, output, fork),
            2 if aligned::<u16>(x, output) => self.rows::<u16>(x, mask, output, fork),
            4 if aligned::<u32>(x, output) => self.rows::<u32>(x, mask, output, fork),
            8 if aligned::<u64>(x, output) => self.rows::<u64>(x, mask, output, fork),
            16 if aligned::<u128>(x, output) => self.rows::<u128>(x, mask, output, fork),
            bytes => {
                let to = Raw::of(output);
                picked(mask, self.count, fork, &|piece, start, picks| {
                    let rows = piece.clone().zip(picks.truth).filter(|(_, v)| **v);
                    for (at, (row, _)) in (start..).zip(rows) {
                        // SAFETY: each piece writes the rows that are its own by the count of those before it.
                        unsafe { to.slice(at * bytes..(at + 1) * bytes) }
                            .copy_from_slice(&x[row * bytes..(row + 1) * bytes]);
                    }
                })
            }
        }
    }
}

fn aligned<T>(x: &[u8], to: &[u8]) -> bool {
    let right = |at: *const u8| at.addr().is_multiple_of(align_of::<T>());
    right(x.as_ptr()) && right(to.as_ptr())
}

impl Mask {
    fn rows<T: Copy + Sync + Send>(&self, x: &[u8], mask: &[bool], output: &mut [u8], fork: &dyn Fork) -> Result<()> {
        let (from, to) = (x.as_ptr().cast::<T>(), Raw::<T>::output(output)?);
        // SAFETY: rows are as wide as `T`, an integer, and aligned for it.
        let from = unsafe { std::slice::from_raw_parts(from, x.len() / size_of::<T>()) };
        picked(mask, self.count, fork, &|piece, start, picks| {
            let from = &from[piece.clone()];
            // SAFETY: each piece writes the elements that are its own by the count of those before it.
            compact(picks, unsafe { to.slice(start..start + picks.count) }, |i| from[i]);
        })
    }
}

/// Elements that a task looks at.
const PIECE: usize = 1 << 14;

/// Truth values of a piece, and how many are true.
#[derive(Clone, Copy)]
struct Picks<'a> {
    truth: &'a [bool],
    count: usize,
}

/// Calls `f` for each piece of the truth values with how many are true before it, after a look at all of them.
fn picked(
    truth: &[bool],
    count: usize,
    fork: &dyn Fork,
    f: &(dyn Fn(Range<usize>, usize, Picks<'_>) + Sync),
) -> Result<()> {
    let pieces = truth.len().div_ceil(PIECE);
    let piece = |p: usize| p * PIECE..truth.len().min((p + 1) * PIECE);
    let mut starts = vec![0; pieces + 1];
    let slots = Raw::of(&mut starts);
    // Several at once: counting is quick.
    for_ranges(fork, pieces, PIECE / 8, &|range| {
        for p in range {
            // SAFETY: each piece has its own slot.
            unsafe { slots.write(p + 1, count_true(&truth[piece(p)])) };
        }
    });
    for p in 0..pieces {
        starts[p + 1] += starts[p];
    }
    if starts[pieces] != count {
        return Err(miscounted());
    }
    fork.run(pieces, &|p| f(piece(p), starts[p], Picks { truth: &truth[piece(p)], count: starts[p + 1] - starts[p] }));
    Ok(())
}

fn count_true(truth: &[bool]) -> usize {
    // Sums of bytes that cannot overflow: so they stay bytes, many to a vector.
    truth.chunks(255).map(|few| usize::from(few.iter().map(|&v| u8::from(v)).sum::<u8>())).sum()
}

/// Writes `get` of the index of every true element, one after the other, to a list with room for at least as many.
#[inline]
fn compact<T: Copy>(picks: Picks<'_>, to: &mut [T], get: impl Fn(usize) -> T) {
    let Some(last) = picks.count.checked_sub(1).map(|last| last.min(to.len() - 1)) else { return };
    let mut at = 0;
    for (i, &v) in picks.truth.iter().enumerate() {
        // What is not picked is overwritten by what comes next; behind the last pick nothing may be.
        if at > last {
            return;
        }
        to[at] = get(i);
        at += usize::from(v);
    }
}
