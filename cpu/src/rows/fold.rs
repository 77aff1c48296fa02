//! Folding blocks to one value, and values to a row's result in a fixed order.
//!
//! A block is summed in many interleaved partial accumulators, which begin anew every [`FOLD_BLOCK`] elements; the results of blocks
//! are joined pairwise, as a binary counter carries. The error of a sum therefore grows with the logarithm of its length,
//! and the order depends on the shape alone.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use millstream_core::{DType, Error, Reduce, Result, Scalar};
use num_complex::Complex;
use smallvec::SmallVec;

use crate::math::{self, BlockFn, ReduceOp};
use crate::program::Folder;
use crate::simd::Isa;

/// The most elements that are folded on one level.
pub(super) const FOLD_BLOCK: usize = 4096;
/// The most elements that one call folds, if they need not stay in the fastest memory for another step.
pub(super) const FOLD_SPAN: usize = 16 * FOLD_BLOCK;

/// The result of part of a row: the value, and for `ArgMax` and `ArgMin` its index.
pub(super) type Partial = [u128; 2];

/// How one reduction is folded.
#[derive(Clone)]
pub(super) struct Fold {
    /// Which one.
    pub op: Reduce,
    /// The type of its elements, as they are computed with.
    pub dtype: DType,
    /// Block to [`Partial`]: `dst` is a partial, `a` the elements, `b` the other factors if products are folded.
    reduce: BlockFn,
    join: JoinFn,
    identity: u128,
}

/// Joins two partials of a fold, the first before the second.
type JoinFn = unsafe fn(&Partial, &Partial) -> Partial;

impl Fold {
    /// The fold of elements of `dtype`, or of products of two.
    pub fn new(isa: Isa, op: Reduce, dtype: DType, products: bool) -> Result<Fold> {
        let dtype = dtype.compute();
        let missing = || Error::internal(format!("the CPU has no {} of {dtype}", op.name()));
        let (mut reduce, join) = kernels(isa, op, dtype).ok_or_else(missing)?;
        if products {
            reduce = math::reduce(isa, ReduceOp::SumProducts, dtype).ok_or_else(missing)?;
        }
        Ok(Fold { op, dtype, reduce, join, identity: u128::from_ne_bytes(op.identity(dtype).bytes()) })
    }

    /// Whether the result is a index.
    pub fn is_index(&self) -> bool {
        matches!(self.op, Reduce::ArgMax | Reduce::ArgMin)
    }

    /// The result of a whole row, as a single value.
    ///
    /// # Safety
    /// There are `n` elements, at most [`FOLD_SPAN`], and products are not folded.
    pub unsafe fn whole(&self, a: *const u8, n: usize) -> u128 {
        let mut partial: Partial = [0; 2];
        // SAFETY: the caller's promise; the kernel writes one partial.
        unsafe { (self.reduce)((&raw mut partial).cast(), a, std::ptr::null(), std::ptr::null(), n) };
        if self.is_index() { partial[1] } else { partial[0] }
    }

    fn join(&self, a: &Partial, b: &Partial) -> Partial {
        // SAFETY: both are partials of this fold.
        unsafe { (self.join)(a, b) }
    }
}

/// Results so far, joined as a binary counter carries.
pub(super) struct Cascade {
    count: u64,
    /// Level `l` holds a result while bit `l` of the count is set.
    levels: [MaybeUninit<Partial>; 48],
}

impl Cascade {
    pub fn new() -> Cascade {
        Cascade { count: 0, levels: [const { MaybeUninit::uninit() }; 48] }
    }

    fn level(&self, l: usize) -> Partial {
        // SAFETY: only levels whose bit of the count is set are read; `push` wrote them.
        unsafe { self.levels[l].assume_init() }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Takes the result of the next part.
    pub fn push(&mut self, fold: &Fold, mut partial: Partial) {
        let level = self.count.trailing_ones() as usize;
        for l in 0..level {
            partial = fold.join(&self.level(l), &partial);
        }
        self.levels[level].write(partial);
        self.count += 1;
    }

    /// The result of all parts; `None` if there were none.
    pub fn total(&self, fold: &Fold) -> Option<Partial> {
        let mut out: Option<Partial> = None;
        let mut left = self.count;
        while left != 0 {
            let l = left.trailing_zeros() as usize;
            out = Some(match out {
                None => self.level(l),
                Some(low) => fold.join(&self.level(l), &low),
            });
            left &= left - 1;
        }
        out
    }

    /// The reduction's result, as a single value.
    pub fn result(&self, fold: &Fold) -> u128 {
        match self.total(fold) {
            Some(p) if fold.is_index() => p[1],
            Some(p) => p[0],
            None => fold.identity,
        }
    }
}

/// The folds of a row in progress.
pub(super) struct Folds<'a> {
    pub folds: &'a [Fold],
    pub states: SmallVec<[Cascade; 1]>,
    /// The index in the row of the current block's first element.
    pub index: i64,
    /// Indices from one element to the next.
    pub step: i64,
}

impl<'a> Folds<'a> {
    pub fn new(folds: &'a [Fold]) -> Folds<'a> {
        Folds { folds, states: folds.iter().map(|_| Cascade::new()).collect(), index: 0, step: 1 }
    }

    /// Forgets the last row.
    pub fn clear(&mut self) {
        for s in &mut self.states {
            s.clear();
        }
    }
}

impl Folder for Folds<'_> {
    #[inline]
    unsafe fn fold(&mut self, fold: u16, a: *const u8, b: *const u8, n: usize) {
        let f = &self.folds[fold as usize];
        let mut partial: Partial = [0; 2];
        // SAFETY: the caller promises `n` elements; the kernel writes one partial.
        unsafe { (f.reduce)((&raw mut partial).cast(), a, b, std::ptr::null(), n) };
        if f.is_index() {
            partial[1] = (self.index + partial[1] as i64 * self.step) as u64 as u128;
        }
        self.states[fold as usize].push(f, partial);
    }
}

/// Elements that can be folded.
trait Number: Copy + PartialEq + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// Elements that have an order.
trait Ordered: Number + PartialOrd {
    const LOWEST: Self;
    const HIGHEST: Self;
}

macro_rules! ints {
    ($($t:ty),+) => {$(
        impl Number for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
        }
        impl Ordered for $t {
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
        }
    )+};
}
ints!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($t:ty),+) => {$(
        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self + other }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self * other }
        }
        impl Ordered for $t {
            const LOWEST: $t = <$t>::NEG_INFINITY;
            const HIGHEST: $t = <$t>::INFINITY;
        }
        impl Number for Complex<$t> {
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self * other }
        }
    )+};
}
floats!(f32, f64);

/// A kernel that the compiler vectorises for each instruction set.
trait BlockStep {
    /// # Safety
    /// As [`BlockFn`].
    unsafe fn run(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);
}

/// A fold of a block.
trait BlockFold {
    /// # Safety
    /// As [`BlockFn`]; `dst` is a [`Partial`].
    unsafe fn run(dst: *mut u8, a: *const u8, n: usize);
}

/// A fold as a kernel.
struct Whole<F>(PhantomData<F>);

impl<F: BlockFold> BlockStep for Whole<F> {
    #[inline(always)]
    unsafe fn run(dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { F::run(dst, a, n) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2")]
unsafe fn avx512<F: BlockStep>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { F::run(dst, a, b, c, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2")]
unsafe fn avx2<F: BlockStep>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { F::run(dst, a, b, c, n) }
}

unsafe fn base<F: BlockStep>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { F::run(dst, a, b, c, n) }
}

fn pick<F: BlockFold>(isa: Isa) -> BlockFn {
    pick_step::<Whole<F>>(isa)
}

fn pick_step<F: BlockStep>(isa: Isa) -> BlockFn {
    match isa.or_portable() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<F>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<F>,
        _ => base::<F>,
    }
}

/// A fold that joins value after value. `join` must be `#[inline(always)]`: its callers have vector features that it does
/// not name itself.
trait Joining {
    type Value: Copy;
    const START: Self::Value;
    fn join(x: Self::Value, y: Self::Value) -> Self::Value;
}

/// Interleaved accumulators: enough vectors to hide the latency of an addition.
const WIDE: usize = 64;

/// Folds a block in `WIDE` interleaved accumulators, which every [`FOLD_BLOCK`] elements are joined into a second level of
/// them and begin anew; the second level's as a tree. A block of fewer elements than accumulators is folded in order.
impl<F: Joining> BlockFold for F {
    #[inline(always)]
    unsafe fn run(dst: *mut u8, a: *const u8, n: usize) {
        let a = a.cast::<F::Value>();
        if n < WIDE {
            let mut all = F::START;
            for i in 0..n {
                // SAFETY: the caller promises `n` elements.
                all = F::join(all, unsafe { a.add(i).read_unaligned() });
            }
            // SAFETY: the caller promises room for a value.
            unsafe { dst.cast::<F::Value>().write(all) };
            return;
        }
        let whole = n - n % WIDE;
        let mut all = [F::START; WIDE];
        let mut i = 0;
        // SAFETY: the caller promises `n` elements, all of which are read, and room for a value.
        unsafe {
            while i < whole {
                let end = whole.min(i + FOLD_BLOCK);
                let mut lanes = [F::START; WIDE];
                while i < end {
                    for (j, lane) in lanes.iter_mut().enumerate() {
                        *lane = F::join(*lane, a.add(i + j).read_unaligned());
                    }
                    i += WIDE;
                }
                for (all, lane) in all.iter_mut().zip(lanes) {
                    *all = F::join(*all, lane);
                }
            }
            for (j, lane) in all.iter_mut().enumerate().take(n - whole) {
                *lane = F::join(*lane, a.add(whole + j).read_unaligned());
            }
            let mut half = WIDE / 2;
            while half > 0 {
                for j in 0..half {
                    all[j] = F::join(all[j], all[j + half]);
                }
                half /= 2;
            }
            dst.cast::<F::Value>().write(all[0]);
        }
    }
}

macro_rules! joining {
    ($name:ident, $bound:ident, $start:ident, |$x:ident, $y:ident| $e:expr) => {
        pub(super) struct $name<T>(PhantomData<T>);
        impl<T: $bound> Joining for $name<T> {
            type Value = T;
            const START: T = T::$start;
            #[inline(always)]
            fn join($x: T, $y: T) -> T {
                $e
            }
        }
    };
}

joining!(Sum, Number, ZERO, |x, y| x.plus(y));
joining!(Product, Number, ONE, |x, y| x.times(y));
// A value that is not equal to itself is NaN, and stays.
#[allow(clippy::eq_op)]
mod extremes {
    use super::*;
    joining!(Largest, Ordered, LOWEST, |x, y| if y > x || y != y { y } else { x });
    joining!(Smallest, Ordered, HIGHEST, |x, y| if y < x || y != y { y } else { x });

    /// Whether `y` beats `x`: it is larger (or smaller), or the first NaN.
    #[inline(always)]
    pub(super) fn beats<T: Ordered, const MAX: bool>(x: T, y: T) -> bool {
        (if MAX { y > x } else { y < x }) || (y != y && x == x)
    }

    /// The extreme of integers, which have no NaN, and its first index. Floats have kernels of their own.
    pub(super) struct ArgExtreme<T, const MAX: bool>(PhantomData<T>);
    impl<T: Ordered, const MAX: bool> BlockFold for ArgExtreme<T, MAX> {
        #[inline(always)]
        unsafe fn run(dst: *mut u8, a: *const u8, n: usize) {
            let mut partial: Partial = [0; 2];
            // SAFETY: the caller's promise, passed on.
            unsafe {
                let out = (&raw mut partial).cast::<u8>();
                if MAX {
                    Largest::<T>::run(out, a, n)
                } else {
                    Smallest::<T>::run(out, a, n)
                }
                let best = out.cast::<T>().read();
                // Whole chunks without it are passed over at once.
                let mut i = 0;
                while i + WIDE <= n {
                    let x = a.cast::<T>().add(i).cast::<[T; WIDE]>().read_unaligned();
                    let mut found = false;
                    for x in &x {
                        found |= *x == best;
                    }
                    if found {
                        break;
                    }
                    i += WIDE;
                }
                while i < n && a.cast::<T>().add(i).read_unaligned() != best {
                    i += 1;
                }
                partial[1] = if i < n { i as u128 } else { 0 };
                dst.cast::<Partial>().write_unaligned(partial);
            }
        }
    }
}
use extremes::{ArgExtreme, Largest, Smallest, beats};

macro_rules! by_order {
    ($dtype:expr, $t:ident => $e:expr) => {
        match $dtype {
            DType::Bool | DType::U8 => {
                type $t = u8;
                Some($e)
            }
            DType::I8 => {
                type $t = i8;
                Some($e)
            }
            DType::I16 => {
                type $t = i16;
                Some($e)
            }
            DType::I32 => {
                type $t = i32;
                Some($e)
            }
            DType::I64 => {
                type $t = i64;
                Some($e)
            }
            DType::U16 => {
                type $t = u16;
                Some($e)
            }
            DType::U32 => {
                type $t = u32;
                Some($e)
            }
            DType::U64 => {
                type $t = u64;
                Some($e)
            }
            DType::F32 => {
                type $t = f32;
                Some($e)
            }
            DType::F64 => {
                type $t = f64;
                Some($e)
            }
            _ => None,
        }
    };
}

macro_rules! by_number {
    ($dtype:expr, $t:ident => $e:expr) => {
        match $dtype {
            DType::C64 => {
                type $t = Complex<f32>;
                Some($e)
            }
            DType::C128 => {
                type $t = Complex<f64>;
                Some($e)
            }
            DType::Bool => None,
            other => by_order!(other, $t => $e),
        }
    };
}

/// How a block is folded, and how two partials are joined.
fn kernels(isa: Isa, op: Reduce, dtype: DType) -> Option<(BlockFn, JoinFn)> {
    let (fold, join) = match op {
        Reduce::Sum => by_number!(dtype, T => (pick::<Sum<T>>(isa), join_values::<Sum<T>> as JoinFn)),
        Reduce::Prod => by_number!(dtype, T => (pick::<Product<T>>(isa), join_values::<Product<T>> as JoinFn)),
        Reduce::Max => by_order!(dtype, T => (pick::<Largest<T>>(isa), join_values::<Largest<T>> as JoinFn)),
        Reduce::Min => by_order!(dtype, T => (pick::<Smallest<T>>(isa), join_values::<Smallest<T>> as JoinFn)),
        Reduce::ArgMax => by_order!(dtype, T => (pick::<ArgExtreme<T, true>>(isa), join_indices::<T, true> as JoinFn)),
        Reduce::ArgMin => {
            by_order!(dtype, T => (pick::<ArgExtreme<T, false>>(isa), join_indices::<T, false> as JoinFn))
        }
    }?;
    // The usual ones have vector kernels for floats.
    let vectors = match op {
        Reduce::Sum => Some(ReduceOp::Sum),
        Reduce::Max => Some(ReduceOp::Max),
        Reduce::Min => Some(ReduceOp::Min),
        Reduce::Prod | Reduce::ArgMax | Reduce::ArgMin => None,
    };
    let indices = match op {
        Reduce::ArgMax => math::arg_reduce(isa, ReduceOp::Max, dtype),
        Reduce::ArgMin => math::arg_reduce(isa, ReduceOp::Min, dtype),
        _ => None,
    };
    Some((vectors.and_then(|v| math::reduce(isa, v, dtype)).or(indices).unwrap_or(fold), join))
}

/// # Safety
/// Both are partials of the fold `F`.
unsafe fn join_values<F: Joining>(a: &Partial, b: &Partial) -> Partial {
    let mut out: Partial = [0; 2];
    // SAFETY: a partial of this fold holds a value in its first bytes.
    unsafe {
        let (x, y) = ((&raw const *a).cast::<F::Value>().read(), (&raw const *b).cast::<F::Value>().read());
        (&raw mut out).cast::<F::Value>().write(F::join(x, y));
    }
    out
}

/// The better of two, the earlier if both are as good.
///
/// # Safety
/// Both are partials of such a fold.
unsafe fn join_indices<T: Ordered, const MAX: bool>(a: &Partial, b: &Partial) -> Partial {
    // SAFETY: a partial of this fold holds a value of `T` in its first bytes.
    let (x, y) = unsafe { ((&raw const *a).cast::<T>().read(), (&raw const *b).cast::<T>().read()) };
    let second = beats::<T, MAX>(x, y) || (!beats::<T, MAX>(y, x) && (b[1] as i64) < a[1] as i64);
    if second { *b } else { *a }
}

/// A better value for each lane: `dst` holds indices (i64), `a` the best values so far (written too), `b` other values, `c` the
/// index of all of these (one i64), or where `EACH` the index of each.
struct Better<T, const MAX: bool, const EACH: bool>(PhantomData<T>);

/// Lanes that are passed over at once if none becomes better, as most do not after the first elements of their rows.
const LANES: usize = 32;

impl<T: Ordered, const MAX: bool, const EACH: bool> BlockStep for Better<T, MAX, EACH> {
    #[inline(always)]
    unsafe fn run(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        let (indices, best, new, index) = (dst.cast::<i64>(), a.cast_mut().cast::<T>(), b.cast::<T>(), c.cast::<i64>());
        // SAFETY: the caller promises `n` elements at the first three, `n` or one at the last, and that `a` is a register.
        unsafe {
            let one = if EACH || n == 0 { 0 } else { index.read() };
            let mut i = 0;
            while i + LANES <= n {
                let x = best.add(i).cast::<[T; LANES]>().read();
                let y = new.add(i).cast::<[T; LANES]>().read_unaligned();
                let mut some = false;
                for j in 0..LANES {
                    // Also where one is NaN.
                    some |= !(if MAX { y[j] <= x[j] } else { y[j] >= x[j] });
                }
                if some {
                    let old = indices.add(i).cast::<[i64; LANES]>().read();
                    write(best.add(i), |j| if beats::<T, MAX>(x[j], y[j]) { y[j] } else { x[j] });
                    // Two forms, so that the compiler chooses between values, not between their addresses.
                    if EACH {
                        let theirs = index.add(i).cast::<[i64; LANES]>().read();
                        write(indices.add(i), |j| if beats::<T, MAX>(x[j], y[j]) { theirs[j] } else { old[j] });
                    } else {
                        write(indices.add(i), |j| if beats::<T, MAX>(x[j], y[j]) { one } else { old[j] });
                    }
                }
                i += LANES;
            }
            while i < n {
                let (x, y) = (best.add(i).read(), new.add(i).read_unaligned());
                if beats::<T, MAX>(x, y) {
                    best.add(i).write(y);
                    indices.add(i).write(if EACH { index.add(i).read() } else { one });
                }
                i += 1;
            }
        }
    }
}

/// Writes `f(0), f(1), ...` to so many lanes at once, so that the compiler sees independent values.
///
/// # Safety
/// They are writable.
#[inline(always)]
unsafe fn write<R: Copy>(dst: *mut R, f: impl Fn(usize) -> R) {
    let mut r = [const { MaybeUninit::<R>::uninit() }; LANES];
    for (j, r) in r.iter_mut().enumerate() {
        r.write(f(j));
    }
    // SAFETY: the caller's promise.
    unsafe { dst.cast::<[MaybeUninit<R>; LANES]>().write_unaligned(r) }
}

/// One more element for each lane, for rows whose lanes are different rows: `dst` holds indices (i64), `a` the best values so far
/// (written too), `b` the new values, `c` the index of the new values (one i64).
pub(super) fn index_step(isa: Isa, op: Reduce, dtype: DType) -> Option<BlockFn> {
    match op {
        Reduce::ArgMax => by_order!(dtype.compute(), T => pick_step::<Better<T, true, false>>(isa)),
        Reduce::ArgMin => by_order!(dtype.compute(), T => pick_step::<Better<T, false, false>>(isa)),
        _ => None,
    }
}

/// Joins indices and best values of later elements: as [`index_step`], with the indices of `b` at `c`.
pub(super) fn index_join(isa: Isa, op: Reduce, dtype: DType) -> Option<BlockFn> {
    match op {
        Reduce::ArgMax => by_order!(dtype.compute(), T => pick_step::<Better<T, true, true>>(isa)),
        Reduce::ArgMin => by_order!(dtype.compute(), T => pick_step::<Better<T, false, true>>(isa)),
        _ => None,
    }
}

/// The value that a reduction of values of this dtype starts from; for a index, that of its values.
pub(super) fn start(op: Reduce, dtype: DType) -> Scalar {
    match op {
        Reduce::ArgMax => Scalar::lowest(dtype.compute()),
        Reduce::ArgMin => Scalar::highest(dtype.compute()),
        _ => op.identity(dtype.compute()),
    }
}
