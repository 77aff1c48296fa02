//! Distinct elements, and finding elements in others.

use std::ops::Range;

use millstream_core::what::Fork;
use millstream_core::{DType, Error, HostFunction, HostOperand, HostRun, Result};
use smallvec::{SmallVec, smallvec};

use crate::keys::{INDEX_BITS, Key, Keyed};
use crate::partition::{Source, sorted};
use crate::slices::{Raw, for_ranges, read, with_type, write, write_if};
use crate::sort::short;

/// The distinct elements of `n`, in ascending order, NaNs last and each for itself.
///
/// Outputs: the values, where each occurs first (i64), for every element the number of its value (i64), how often each
/// occurs (i64), all of length `n` of which only the first so many count; and how many there are (i64).
pub fn unique(dtype: DType, n: usize) -> Result<HostFunction> {
    short(n)?;
    let list = |dtype| HostOperand::new(dtype, &[n]);
    let indices = || list(DType::I64);
    let outputs = vec![list(dtype), indices(), indices(), indices(), HostOperand::new(DType::I64, &[])];
    let flop = n as u64 * u64::from((n.max(2) as u64).ilog2());
    Ok(HostFunction::new(Unique { dtype }, vec![list(dtype)], outputs, flop))
}

struct Unique {
    dtype: DType,
}

impl HostRun for Unique {
    fn name(&self) -> &'static str {
        "unique"
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        with_type!(self.dtype, T => unique_of::<T>(read(inputs[0])?, outputs, fork))
    }
}

fn unique_of<T: Keyed>(x: &[T], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
    let [values, first, inverse, counts, total] = outputs else {
        return Err(Error::internal("unique has five outputs"));
    };
    let (mut values, mut first) = (write_if::<T>(values)?, write_if::<i64>(first)?);
    let (mut inverse, mut counts) = (write_if::<i64>(inverse)?, write_if::<i64>(counts)?);
    if let Some(list) = &mut values {
        list.fill(T::default());
    }
    for list in [&mut first, &mut counts].into_iter().flatten() {
        list.fill(0);
    }
    let word = |v: T, i: usize| v.key().with_index(i as u32);
    let order: Vec<<T::Key as Key>::WithIndex> = sorted(Source { elements: x, word }, INDEX_BITS, fork);
    let mut found = 0usize;
    let mut last: Option<T::Key> = None;
    for &word_at in &order {
        let (key, at) = (T::Key::key(word_at), T::Key::index(word_at) as usize);
        if last != Some(key) || x[at].is_nan() {
            // Indices of one key ascend: this is its first.
            if let Some(list) = &mut values {
                list[found] = x[at];
            }
            if let Some(list) = &mut first {
                list[found] = at as i64;
            }
            found += 1;
            last = Some(key);
        }
        if let Some(list) = &mut counts {
            list[found - 1] += 1;
        }
        if let Some(list) = &mut inverse {
            list[at] = found as i64 - 1;
        }
    }
    if let Some(total) = write_if::<i64>(total)? {
        total.fill(found as i64);
    }
    Ok(())
}

/// On which side of equal elements an index is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Before them.
    Left,
    /// Behind them.
    Right,
}

/// For each of `[m]` values, where it would have to be inserted into `[n]` ascending ones (i64).
pub fn searchsorted(dtype: DType, n: usize, m: usize, side: Side) -> HostFunction {
    let flop = m as u64 * u64::from((n.max(2) as u64).ilog2());
    let inputs = vec![HostOperand::new(dtype, &[n]), HostOperand::new(dtype, &[m])];
    HostFunction::new(Search { dtype, side }, inputs, vec![HostOperand::new(DType::I64, &[m])], flop)
}

struct Search {
    dtype: DType,
    side: Side,
}

impl HostRun for Search {
    fn name(&self) -> &'static str {
        "searchsorted"
    }

    fn words(&self) -> SmallVec<[u64; 4]> {
        smallvec![self.side as u64]
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        with_type!(self.dtype, T => self.typed::<T>(read(inputs[0])?, read(inputs[1])?, outputs, fork))
    }
}

impl Search {
    fn typed<T: Keyed>(&self, table: &[T], x: &[T], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let [Some(indices)] = outputs else { return Ok(()) };
        let to = Raw::of(write::<i64>(indices)?);
        let right = self.side == Side::Right;
        for_blocks(x, fork, &|i, some| {
            let keys = some.map(|v| v.key());
            let at = match right {
                false => insertion_points(table, |v| v.key(), keys, |v, key| v < key),
                true => insertion_points(table, |v| v.key(), keys, |v, key| v <= key),
            };
            for (i, &at) in i.zip(&at) {
                // SAFETY: each element is in one block, and there is room for it.
                unsafe { to.write(i, at as i64) };
            }
        });
        Ok(())
    }
}

/// Searches that go on at once: each step of one waits for memory.
const LANES: usize = 16;

/// Calls `f` with the numbers of up to 16 elements and the elements; where there are fewer, the last ones mean nothing.
fn for_blocks<T: Keyed>(x: &[T], fork: &dyn Fork, f: &(dyn Fn(Range<usize>, [T; LANES]) + Sync)) {
    for_ranges(fork, x.len().div_ceil(LANES), 16 * LANES, &|blocks| {
        for b in blocks {
            let range = b * LANES..x.len().min((b + 1) * LANES);
            let mut some = [T::default(); LANES];
            some.iter_mut().zip(&x[range.clone()]).for_each(|(to, &v)| *to = v);
            f(range, some);
        }
    });
}

/// How many of a sorted table come before each key.
#[inline]
fn insertion_points<E: Copy, K: Key>(
    table: &[E],
    key: impl Fn(E) -> K,
    keys: [K; LANES],
    before: impl Fn(K, K) -> bool,
) -> [usize; LANES] {
    let mut at = [0; LANES];
    // The answer lies between `at` and `at + len`.
    let mut len = table.len();
    while len > 0 {
        // The last step looks at the one element that is left.
        let half = (len / 2).max(1);
        for (at, &k) in at.iter_mut().zip(&keys) {
            // SAFETY: `at + len` is at most the table's length, and `half` at most `len`.
            let v = unsafe { *table.get_unchecked(*at + half - 1) };
            // No branch: nobody can guess where it would go.
            *at = std::hint::select_unpredictable(before(key(v), k), *at + half, *at);
        }
        len -= half;
    }
    at
}

/// For each of `[n]` elements, whether it is among `[m]` others (bool); NaN is among none.
pub fn isin(dtype: DType, n: usize, m: usize) -> HostFunction {
    let flop = (n + m) as u64 * u64::from((m.max(2) as u64).ilog2());
    let inputs = vec![HostOperand::new(dtype, &[n]), HostOperand::new(dtype, &[m])];
    HostFunction::new(IsIn { dtype }, inputs, vec![HostOperand::new(DType::Bool, &[n])], flop)
}

struct IsIn {
    dtype: DType,
}

impl HostRun for IsIn {
    fn name(&self) -> &'static str {
        "isin"
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        with_type!(self.dtype, T => is_in::<T>(read(inputs[0])?, read(inputs[1])?, outputs, fork))
    }
}

fn is_in<T: Keyed>(x: &[T], among: &[T], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
    let [Some(found)] = outputs else { return Ok(()) };
    let among: Vec<T> = among.iter().filter(|v| !v.is_nan()).copied().collect();
    let keys: Vec<T::Key> = sorted(Source { elements: &among, word: |v: T, _| v.key() }, 0, fork);
    let to = Raw::of(write::<bool>(found)?);
    for_blocks(x, fork, &|i, some| {
        let wanted = some.map(|v| v.key());
        let at = insertion_points(&keys, |key| key, wanted, |v, key| v < key);
        for ((i, at), (v, key)) in i.zip(at).zip(some.iter().zip(wanted)) {
            // SAFETY: each element is in one block, and there is room for it.
            unsafe { to.write(i, !v.is_nan() && keys.get(at) == Some(&key)) };
        }
    });
    Ok(())
}
