//! Sorting rows.

use std::ops::Range;

use millstream_core::what::{Fork, Serial};
use millstream_core::{DType, Error, HostFunction, HostOperand, HostRun, Result};
use smallvec::{SmallVec, smallvec};

use crate::beside::{self, LANES, Network};
use crate::keys::{INDEX_BITS, Key, Keyed, Word};
use crate::partition::{LONG, Source, pieces, sort_long};
use crate::radix::{Spare, sort as sort_words};
use crate::slices::{Raw, for_ranges, read, with_type};
use crate::top::first;
use crate::vectors::enter;

/// Which element comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The smallest; NaN last.
    Ascending,
    /// The largest; NaN first, since it counts as larger than every number.
    Descending,
}

/// Arithmetic of sorting, as comparisons.
fn comparisons(rows: usize, n: usize) -> u64 {
    rows as u64 * n as u64 * u64::from((n.max(2) as u64).ilog2())
}

/// Sorts the rows of `[rows, n]`: the sorted values, and where each was (i64). Equal elements stay in their order.
///
/// A row has fewer than 2^32 elements.
pub fn sort(dtype: DType, rows: usize, n: usize, order: Order) -> Result<HostFunction> {
    short(n)?;
    let operand = |dtype| HostOperand::new(dtype, &[rows, n]);
    let code = Sort { dtype, rows, n, keep: n, order };
    Ok(HostFunction::new(code, vec![operand(dtype)], vec![operand(dtype), operand(DType::I64)], comparisons(rows, n)))
}

/// The first `k` of each sorted row: values, and where each was. Of equal elements the earlier comes first.
pub fn topk(dtype: DType, rows: usize, n: usize, k: usize, order: Order) -> Result<HostFunction> {
    short(n)?;
    if k > n {
        return Err(Error::argument(format!("the first {k} of {n} elements")));
    }
    let operand = |dtype| HostOperand::new(dtype, &[rows, k]);
    let code = Sort { dtype, rows, n, keep: k, order };
    let flop = (rows * n) as u64 + comparisons(rows, k);
    Ok(HostFunction::new(
        code,
        vec![HostOperand::new(dtype, &[rows, n])],
        vec![operand(dtype), operand(DType::I64)],
        flop,
    ))
}

pub(crate) fn short(n: usize) -> Result<()> {
    match u32::try_from(n) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::unsupported(format!("{n} elements in one row; fewer than 2^32 can be sorted"))),
    }
}

struct Sort {
    dtype: DType,
    rows: usize,
    n: usize,
    keep: usize,
    order: Order,
}

impl HostRun for Sort {
    fn name(&self) -> &'static str {
        if self.keep == self.n { "sort" } else { "topk" }
    }

    fn words(&self) -> SmallVec<[u64; 4]> {
        smallvec![self.order as u64]
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        with_type!(self.dtype, T => self.typed::<T>(read(inputs[0])?, outputs, fork))
    }
}

impl Sort {
    fn typed<T: Keyed>(&self, x: &[T], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        if x.is_empty() {
            return Ok(());
        }
        let [values, indices] = outputs else { return Err(Error::internal("sort has two outputs")) };
        let values = values.as_mut().map(|bytes| Raw::<T>::output(bytes)).transpose()?;
        let indices = indices.as_mut().map(|bytes| Raw::<i64>::output(bytes)).transpose()?;
        if self.keep < self.n {
            if self.keep > 0 {
                // SAFETY: outputs have room for so many of each row, and are of this call alone.
                unsafe { first(x, self.n, self.keep, self.flipped(), values, indices, fork) };
            }
            return Ok(());
        }
        match (values, indices) {
            (Some(values), None) if T::BARE => self.bare(x, values, fork),
            _ => self.sort_indices(x, values, indices, fork),
        }
        Ok(())
    }

    /// Whether larger elements come first.
    fn flipped(&self) -> bool {
        self.order == Order::Descending
    }

    /// Sorts keys without indices and makes elements of them again.
    fn bare<T: Keyed>(&self, x: &[T], values: Raw<T>, fork: &dyn Fork) {
        let (n, flipped, spare) = (self.n, self.flipped(), Spare::new());
        // Copies what says the order: vectors are only made of a loop that reads nothing else.
        let word = move |v: T| v.key().flipped(flipped);
        let elements = |keys: Raw<T::Key>, range: Range<usize>| {
            // SAFETY: the row's memory, of which each range is in one task; keys are as wide as elements.
            let keys = unsafe { keys.slice(range) };
            enter(move || keys.iter_mut().for_each(|key| *key = T::bits(key.flipped(flipped))));
        };
        if beside::fits::<T::Key>(n, beside::MOST_SORTED) {
            let network = Network::new(n);
            for_ranges(fork, self.rows, n, &|rows| {
                spare.with(network.room(), |room| {
                    for row in rows.clone().step_by(LANES) {
                        let few = row * n..rows.end.min(row + LANES) * n;
                        // SAFETY: each row is in one task; keys are as wide as elements.
                        unsafe { sort_beside(&x[few.clone()], values.from(few.start), flipped, &network, room) };
                    }
                })
            });
            return;
        }
        if n < LONG {
            for_ranges(fork, self.rows, n, &|rows| {
                spare.with(n, |spare| {
                    for row in rows {
                        let x = &x[row * n..(row + 1) * n];
                        // SAFETY: each row is in one task; keys are as wide as elements.
                        let keys = unsafe { values.from(row * n) }.cast::<T::Key>();
                        // SAFETY: as before; all bits are keys.
                        let list = unsafe { keys.slice(0..n) };
                        enter(|| list.iter_mut().zip(x).for_each(|(key, &v)| *key = word(v)));
                        sort_words(list, spare, 0);
                        elements(keys, 0..n);
                        // SAFETY: as before; all are elements.
                        restore(x, unsafe { values.slice(row * n..(row + 1) * n) }, flipped, &Serial);
                    }
                })
            });
            return;
        }
        for (row, x) in x.chunks_exact(n).enumerate() {
            // SAFETY: row after row; keys are as wide as elements.
            unsafe {
                let keys = values.from(row * n).cast::<T::Key>();
                let source = Source { elements: x, word: |v, _| word(v) };
                sort_long(source, keys, 0, &spare, &|range| elements(keys, range), fork);
                restore(x, values.slice(row * n..(row + 1) * n), flipped, fork);
            }
        }
    }

    /// Sorts keys with their indices below them.
    fn sort_indices<T: Keyed>(&self, x: &[T], values: Option<Raw<T>>, indices: Option<Raw<i64>>, fork: &dyn Fork) {
        type WithIndex<T> = <<T as Keyed>::Key as Key>::WithIndex;
        let (n, flipped, spare) = (self.n, self.flipped(), Spare::new());
        let word = move |v: T, i: usize| v.key().flipped(flipped).with_index(i as u32);
        // Writes results in one row's ranges; words may lie where indices will.
        let results = |x: &[T], row: usize, words: Raw<WithIndex<T>>, range: Range<usize>| {
            for i in range {
                // SAFETY: the row's memory, of which each range is in one task.
                unsafe {
                    let word = words.read(i);
                    let (key, index) = (T::Key::key(word).flipped(flipped), T::Key::index(word));
                    if let Some(values) = values {
                        if T::BARE && !T::SHARED.contains(&key) {
                            // A look at the element itself would be one into all of the memory.
                            values.cast::<T::Key>().write(row * n + i, T::bits(key));
                        } else {
                            values.write(row * n + i, x[index as usize]);
                        }
                    }
                    if let Some(indices) = indices {
                        indices.write(row * n + i, i64::from(index));
                    }
                }
            }
        };
        let lent = indices.filter(|_| {
            size_of::<WithIndex<T>>() == size_of::<i64>() && align_of::<WithIndex<T>>() <= align_of::<i64>()
        });
        // Words without digits cannot be parted.
        if n < LONG || WithIndex::<T>::BITS == 0 {
            for_ranges(fork, self.rows, n, &|rows| {
                spare.with(2 * n, |both| {
                    let (own, spare) = both.split_at_mut(n);
                    let own = Raw::of(own);
                    for row in rows {
                        let x = &x[row * n..(row + 1) * n];
                        // SAFETY: each row is in one task.
                        unsafe {
                            let words = lent.map_or(own, |indices| indices.from(row * n).cast());
                            x.iter().enumerate().for_each(|(i, &v)| words.write(i, word(v, i)));
                            sort_words(words.slice(0..n), spare, INDEX_BITS);
                            results(x, row, words, 0..n);
                        }
                    }
                })
            });
            return;
        }
        let mut own = vec![WithIndex::<T>::default(); if lent.is_none() { n } else { 0 }];
        for (row, x) in x.chunks_exact(n).enumerate() {
            // SAFETY: row after row.
            unsafe {
                let words = lent.map_or(Raw::of(&mut own), |indices| indices.from(row * n).cast());
                let done = |range| results(x, row, words, range);
                sort_long(Source { elements: x, word }, words, INDEX_BITS, &spare, &done, fork);
            }
        }
    }
}

/// Sorts the values of a few rows, as many as lanes at most, by a network.
///
/// # Safety
/// Keys are as wide as elements, and an element can be made of each; there is room for as many at `to`, which nobody else uses.
pub(crate) unsafe fn sort_beside<T: Keyed>(x: &[T], to: Raw<T>, flipped: bool, network: &Network, room: &mut [T::Key]) {
    let n = network.len();
    let word = move |v: T| v.key().flipped(flipped);
    // SAFETY: the caller's promise; all bits are keys.
    let keys = unsafe { to.cast::<T::Key>().slice(0..x.len()) };
    enter(|| keys.iter_mut().zip(x).for_each(|(key, &v)| *key = word(v)));
    network.sort(keys, x.len() / n, room);
    enter(|| keys.iter_mut().for_each(|key| *key = T::bits(key.flipped(flipped))));
    // Elements that share a key mostly have the bits that are made from it.
    let other = |v: T| T::SHARED.contains(&v.key()) & (T::bits(v.key()) != v.own_bits());
    if !T::SHARED.is_empty() && enter(|| x.iter().fold(false, |some, &v| some | other(v))) {
        // SAFETY: as before; all are elements.
        let sorted = unsafe { to.slice(0..x.len()) };
        x.chunks_exact(n).zip(sorted.chunks_exact_mut(n)).for_each(|(x, row)| restore(x, row, flipped, &Serial));
    }
}

/// Puts elements that share a key, the two zeros and NaNs, among sorted elements that were made from keys: each as it was, in
/// the order in which they were.
fn restore<T: Keyed>(x: &[T], sorted: &mut [T], flipped: bool, fork: &dyn Fork) {
    let word = move |v: T| v.key().flipped(flipped);
    for key in T::SHARED.iter().map(|key| key.flipped(flipped)) {
        let first = sorted.partition_point(|&v| word(v) < key);
        if sorted.get(first).is_none_or(|&v| word(v) != key) {
            continue;
        }
        // Mostly all are as they were made: only zeros, only NaNs of one kind.
        let made = T::bits(key.flipped(flipped));
        let (count, piece) = pieces(x.len());
        let mut starts = vec![0; count];
        let mut others = vec![false; count];
        let (slots, marks) = (Raw::of(&mut starts), Raw::of(&mut others));
        fork.run(count, &|p| {
            let x = &x[piece(p)];
            let (same, other) = enter(move || {
                x.iter().fold((0u32, false), |(same, other), &v| {
                    let shared = word(v) == key;
                    (same + u32::from(shared), other | shared & (v.own_bits() != made))
                })
            });
            // SAFETY: each piece has its own slots.
            unsafe {
                slots.write(p, same as usize);
                marks.write(p, other);
            }
        });
        if !others.contains(&true) {
            continue;
        }
        let mut next = first;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        let to = Raw::of(sorted);
        fork.run(count, &|p| {
            let same = x[piece(p)].iter().filter(|&&v| word(v) == key);
            for (i, &v) in same.enumerate() {
                // SAFETY: those that share the key are counted: each has its own slot in their run.
                unsafe { to.write(starts[p] + i, v) };
            }
        });
    }
}
