//! Sorting few words in registers, without a branch.
//!
//! Words lie in up to sixteen vectors, the rows. First each lane's column is sorted, then columns are merged two by two until one is
//! left: the words that lie opposite in two columns are exchanged, then those at half the distance, and so on, first between columns, then inside.

use super::lanes::Lanes;

/// Vectors that are sorted at once.
pub(super) const ROWS: usize = 16;

/// Sorts the `n` words at `from`, at most [`ROWS`] vectors of them, to `to`, which may be the same memory.
///
/// # Safety
/// AVX-512 is present; so many words can be read and written.
#[inline(always)]
pub(super) unsafe fn sort<V: Lanes>(from: *const V::Word, to: *mut V::Word, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match n.div_ceil(V::COUNT) {
            0 | 1 => rows1::<V>(from, to, n),
            2 => rows2::<V>(from, to, n),
            3 | 4 => rows4::<V>(from, to, n),
            5..=8 => rows8::<V>(from, to, n),
            _ => rows16::<V>(from, to, n),
        }
    }
}

macro_rules! rows {
    ($name:ident, $rows:literal, ($($i:literal)*)) => {
        /// Sorts the words of so many vectors; the last vectors may be empty.
        ///
        /// # Safety
        /// As for [`sort`].
        #[target_feature(enable = "avx512f,bmi1,bmi2,popcnt,lzcnt")]
        unsafe fn $name<V: Lanes>(from: *const V::Word, to: *mut V::Word, n: usize) {
            // SAFETY: the caller's promise; no more words are read or written than there are.
            unsafe {
                let count = |row: usize| n.saturating_sub(row * V::COUNT).min(V::COUNT);
                let mut v: [V; $rows] = [$({
                    let from = from.wrapping_add($i * V::COUNT);
                    if $i < $rows / 2 { V::load(from) } else { V::load_some(from, count($i)) }
                }),*];
                columns(&mut v);
                merge::<V, $rows, 1>(&mut v);
                merge::<V, $rows, 3>(&mut v);
                merge::<V, $rows, 7>(&mut v);
                if V::COUNT > 8 {
                    merge::<V, $rows, 15>(&mut v);
                }
                turn(&mut v);
                $({
                    let to = to.wrapping_add($i * V::COUNT);
                    if $i < $rows / 2 { v[$i].store(to) } else { v[$i].store_some(to, count($i)) }
                })*
            }
        }
    };
}
rows!(rows1, 1, (0));
rows!(rows2, 2, (0 1));
rows!(rows4, 4, (0 1 2 3));
rows!(rows8, 8, (0 1 2 3 4 5 6 7));
rows!(rows16, 16, (0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15));

/// Puts the lesser words of two rows into the first.
#[inline(always)]
unsafe fn order<V: Lanes, const R: usize>(v: &mut [V; R], a: usize, b: usize) {
    // SAFETY: the caller's promise.
    (v[a], v[b]) = unsafe { (v[a].min(v[b]), v[a].max(v[b])) };
}

macro_rules! orders {
    ($v:ident: $($a:literal $b:literal),*) => {
        // SAFETY: the caller's promise.
        unsafe { $(order($v, $a, $b);)* }
    };
}

/// Sorts each column, by Batcher's networks.
#[inline(always)]
unsafe fn columns<V: Lanes, const R: usize>(v: &mut [V; R]) {
    if R == 2 {
        orders!(v: 0 1);
    }
    if R == 4 {
        orders!(v: 0 1, 2 3, 0 2, 1 3, 1 2);
    }
    if R == 8 {
        orders!(v: 0 1, 2 3, 4 5, 6 7, 0 2, 1 3, 4 6, 5 7, 1 2, 5 6, 0 4, 1 5, 2 6, 3 7, 2 4, 3 5, 1 2, 3 4, 5 6);
    }
    if R == 16 {
        orders!(v: 0 1, 2 3, 4 5, 6 7, 8 9, 10 11, 12 13, 14 15, 0 2, 1 3, 4 6, 5 7, 8 10, 9 11, 12 14, 13 15, 1 2, 5 6, 9 10, 13 14,
            0 4, 1 5, 2 6, 3 7, 8 12, 9 13, 10 14, 11 15, 2 4, 3 5, 10 12, 11 13, 1 2, 3 4, 5 6, 9 10, 11 12, 13 14,
            0 8, 1 9, 2 10, 3 11, 4 12, 5 13, 6 14, 7 15, 4 8, 5 9, 6 10, 7 11, 2 4, 3 5, 6 8, 7 9, 10 12, 11 13,
            1 2, 3 4, 5 6, 7 8, 9 10, 11 12, 13 14);
    }
}

/// Lanes whose number has a bit.
const fn lanes_with(bit: usize) -> u32 {
    let (mut bits, mut lane) = (0, 0);
    while lane < 32 {
        bits |= ((lane & bit != 0) as u32) << lane;
        lane += 1;
    }
    bits
}

/// Merges sorted columns two by two, so that runs of `X + 1` lanes, a power of two, are sorted afterwards, column after column.
#[inline(always)]
unsafe fn merge<V: Lanes, const R: usize, const X: usize>(v: &mut [V; R]) {
    let upper = const { lanes_with(X / 2 + 1) };
    // SAFETY: the caller's promise.
    unsafe {
        if R == 1 {
            v[0] = v[0].min_max(v[0].crossed::<X>(), upper);
        }
        for a in 0..R / 2 {
            let b = R - 1 - a;
            let opposite = v[b].crossed::<X>();
            let (less, more) = (v[a].min(opposite), v[a].max(opposite));
            v[a] = less.or(more, upper);
            v[b] = more.or(less, upper).crossed::<X>();
        }
        if X >= 15 {
            exchange_lanes::<V, R, 4>(v);
        }
        if X >= 7 {
            exchange_lanes::<V, R, 2>(v);
        }
        if X >= 3 {
            exchange_lanes::<V, R, 1>(v);
        }
        down::<V, R, 8>(v);
        down::<V, R, 4>(v);
        down::<V, R, 2>(v);
        down::<V, R, 1>(v);
    }
}

/// Orders the words of lanes so far apart.
#[inline(always)]
unsafe fn exchange_lanes<V: Lanes, const R: usize, const DISTANCE: usize>(v: &mut [V; R]) {
    for v in v {
        // SAFETY: the caller's promise.
        *v = unsafe { v.min_max(v.crossed::<DISTANCE>(), const { lanes_with(DISTANCE) }) };
    }
}

/// Orders the words of rows so far apart.
#[inline(always)]
unsafe fn down<V: Lanes, const R: usize, const DISTANCE: usize>(v: &mut [V; R]) {
    if DISTANCE < R {
        for i in 0..R / 2 {
            let a = i / DISTANCE * 2 * DISTANCE + i % DISTANCE;
            // SAFETY: the caller's promise.
            unsafe { order(v, a, a + DISTANCE) };
        }
    }
}

/// Makes rows of columns: each bit of the row's number becomes the lowest of the lane's, the highest first.
#[inline(always)]
unsafe fn turn<V: Lanes, const R: usize>(v: &mut [V; R]) {
    // SAFETY: the caller's promise.
    unsafe {
        zip::<V, R, 8>(v);
        zip::<V, R, 4>(v);
        zip::<V, R, 2>(v);
        zip::<V, R, 1>(v);
    }
}

/// Zips rows so far apart.
#[inline(always)]
unsafe fn zip<V: Lanes, const R: usize, const DISTANCE: usize>(v: &mut [V; R]) {
    if DISTANCE < R {
        for i in 0..R / 2 {
            let a = i / DISTANCE * 2 * DISTANCE + i % DISTANCE;
            // SAFETY: the caller's promise.
            (v[a], v[a + DISTANCE]) = unsafe { v[a].zip(v[a + DISTANCE]) };
        }
    }
}
