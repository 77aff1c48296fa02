//! Folds of blocks of f32 and f64 to one value, with explicit vectors.

use super::entry::{Block, resolve};
use super::{BlockFn, DType, ReduceOp};
use crate::simd::{Float, Isa, Mask, Real, Simd};
use std::marker::PhantomData;
use std::ops::Add;

/// A fold: `step` takes a vector into an accumulator, `join` joins two accumulators.
trait Fold<T: Real> {
    /// What an empty block gives; also what fills a partial vector.
    const START: f64;
    /// Whether there are two blocks, whose products are folded.
    const PRODUCTS: bool = false;
    fn step<S: Simd>(acc: T::V<S>, x: T::V<S>, y: T::V<S>) -> T::V<S>;
    fn join<S: Simd>(a: T::V<S>, b: T::V<S>) -> T::V<S>;
    fn join_scalar(a: T, b: T) -> T;
    /// All lanes, joined.
    #[inline(always)]
    fn across<S: Simd>(x: T::V<S>) -> T {
        let mut lane = x.to_array();
        // Halves of known lengths: no loop remains.
        for half in [8, 4, 2, 1] {
            if 2 * half <= T::V::<S>::LANES {
                for w in 0..half {
                    lane[w] = Self::join_scalar(lane[w], lane[w + half]);
                }
            }
        }
        lane[0]
    }
}

struct Sum;
struct SumProducts;
struct Max;
struct Min;

macro_rules! fold {
    ($($name:ident $start:expr, $products:literal, |$acc:ident, $x:ident, $y:ident| $step:expr,
       |$a:ident, $b:ident| $join:expr, |$p:ident, $q:ident| $scalar:expr;)+) => {$(
        impl<T: Real + Add<Output = T>> Fold<T> for $name {
            const START: f64 = $start;
            const PRODUCTS: bool = $products;
            #[inline(always)]
            fn step<S: Simd>($acc: T::V<S>, $x: T::V<S>, $y: T::V<S>) -> T::V<S> {
                $step
            }
            #[inline(always)]
            fn join<S: Simd>($a: T::V<S>, $b: T::V<S>) -> T::V<S> {
                $join
            }
            #[inline(always)]
            #[allow(clippy::eq_op)] // x == x asks whether x is a number
            fn join_scalar($p: T, $q: T) -> T {
                $scalar
            }
        }
    )+};
}

fold! {
    Sum 0.0, false, |acc, x, _y| acc + x, |a, b| a + b, |p, q| p + q;
    SumProducts 0.0, true, |acc, x, y| x.madd(y, acc), |a, b| a + b, |p, q| p + q;
    Max f64::NEG_INFINITY, false, |acc, x, _y| x.max_nan(acc), |a, b| a.max_nan(b), |p, q| if p > q || p != p { p } else { q };
    Min f64::INFINITY, false, |acc, x, _y| x.min_nan(acc), |a, b| a.min_nan(b), |p, q| if p < q || p != p { p } else { q };
}

/// Accumulators side by side: enough to hide the latency of an addition.
const WAYS: usize = 8;
/// After so many elements the accumulators are joined into a second level of them and begin anew, which costs next to
/// nothing and keeps the error of a sum that of few additions.
const LEVEL: usize = 4096;

/// Takes the vector at `i`.
///
/// # Safety
/// There are elements up to the vector's last.
#[inline(always)]
unsafe fn take<S: Simd, T: Real, F: Fold<T>>(acc: T::V<S>, a: *const T, b: *const T, i: usize) -> T::V<S> {
    // SAFETY: the caller's promise.
    unsafe {
        let x = T::V::<S>::load(a.add(i));
        F::step::<S>(acc, x, if F::PRODUCTS { T::V::<S>::load(b.add(i)) } else { x })
    }
}

/// # Safety
/// There are `n` elements at `a`, and at `b` too if products are folded.
#[inline(always)]
unsafe fn fold<S: Simd, T: Real, F: Fold<T>>(s: S, a: *const T, b: *const T, n: usize) -> T {
    let lanes = T::V::<S>::LANES;
    let start = T::splat(s, T::from_f64(F::START));
    let mut all = [start; WAYS];
    let whole = n - n % (WAYS * lanes);
    let mut i = 0;
    // No array of accumulators is moved into a loop: they would leave their registers.
    // SAFETY: the caller promises `n` elements; `i` stays within them.
    unsafe {
        while i < whole {
            let end = whole.min(i + LEVEL);
            let mut acc = [start; WAYS];
            while i < end {
                for (w, acc) in acc.iter_mut().enumerate() {
                    *acc = take::<S, T, F>(*acc, a, b, i + w * lanes);
                }
                i += WAYS * lanes;
            }
            for (all, acc) in all.iter_mut().zip(&acc) {
                *all = F::join::<S>(*all, *acc);
            }
        }
        // The rest goes round the accumulators too, so that a short block is also summed in pairs.
        for all in &mut all {
            if n - i < lanes {
                break;
            }
            *all = take::<S, T, F>(*all, a, b, i);
            i += lanes;
        }
        if i < n {
            let x = T::V::<S>::load_partial(a.add(i), n - i, start);
            let y = if F::PRODUCTS { T::V::<S>::load_partial(b.add(i), n - i, start) } else { x };
            all[WAYS - 1] = F::step::<S>(all[WAYS - 1], x, y);
        }
    }
    for half in [WAYS / 2, WAYS / 4, WAYS / 8] {
        for w in 0..half {
            all[w] = F::join::<S>(all[w], all[w + half]);
        }
    }
    F::across::<S>(all[0])
}

/// `*dst = F(a)` or `F(a * b)`.
struct Reduce<F, T>(PhantomData<(F, T)>);

impl<T: Real, F: Fold<T>> Block for Reduce<F, T> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller promises `n` elements at each block and one at `dst`.
        unsafe { dst.cast::<T>().write_unaligned(fold::<S, T, F>(s, a.cast(), b.cast(), n)) }
    }
}

/// Elements whose extreme is found before it is looked for: what is read twice is still in L1.
const PART: usize = 2048;

/// The extreme `F(a)` at `dst`, and 16 bytes behind it the index of the first element that has it, as a u64.
struct ArgReduce<F, T>(PhantomData<(F, T)>);

impl<T: Real, F: Fold<T>> Block for ArgReduce<F, T> {
    #[inline(always)]
    #[allow(clippy::eq_op)] // x == x asks whether x is a number
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let a = a.cast::<T>();
        let (mut best, mut from, mut i) = (T::from_f64(F::START), 0, 0);
        // SAFETY: the caller promises `n` elements at `a`, and room at `dst`; `i` stays within them.
        unsafe {
            while i < n {
                let part = PART.min(n - i);
                let x = fold::<S, T, F>(s, a.add(i), a, part);
                // The first NaN stays.
                if best == best && F::join_scalar(x, best) != best {
                    (best, from) = (x, i);
                }
                i += part;
            }
            let index = from + find::<S, T>(s, a.add(from), best, n - from);
            dst.cast::<T>().write_unaligned(best);
            dst.add(16).cast::<u64>().write_unaligned(index as u64);
        }
    }
}

/// The first element that is `x`, or NaN if `x` is; 0 if none is.
///
/// # Safety
/// There are `n` elements.
#[inline(always)]
#[allow(clippy::eq_op)] // x == x asks whether x is a number
unsafe fn find<S: Simd, T: Real>(s: S, a: *const T, x: T, n: usize) -> usize {
    let (lanes, wanted) = (T::V::<S>::LANES, T::splat(s, x));
    let mut i = 0;
    // SAFETY: the caller promises `n` elements; `i` stays within them.
    unsafe {
        while i + lanes <= n {
            let y = T::V::<S>::load(a.add(i));
            let found = if x == x { y.eq(wanted) } else { !y.eq(y) };
            if found.any() {
                return i + found.bits().trailing_zeros() as usize;
            }
            i += lanes;
        }
        while i < n {
            let y = *a.add(i);
            if y == x || (x != x && y != y) {
                return i;
            }
            i += 1;
        }
    }
    0
}

fn of_real<T: Real + Add<Output = T>>(isa: Isa, op: ReduceOp) -> BlockFn {
    match op {
        ReduceOp::Sum => resolve::<Reduce<Sum, T>>(isa),
        ReduceOp::SumProducts => resolve::<Reduce<SumProducts, T>>(isa),
        ReduceOp::Max => resolve::<Reduce<Max, T>>(isa),
        ReduceOp::Min => resolve::<Reduce<Min, T>>(isa),
    }
}

/// See [`super::reduce`].
pub fn reduce(isa: Isa, op: ReduceOp, elem: DType) -> Option<BlockFn> {
    match elem {
        DType::F32 => Some(of_real::<f32>(isa, op)),
        DType::F64 => Some(of_real::<f64>(isa, op)),
        _ => None,
    }
}

/// See [`super::arg_reduce`].
pub fn arg_reduce(isa: Isa, op: ReduceOp, elem: DType) -> Option<BlockFn> {
    match (op, elem) {
        (ReduceOp::Max, DType::F32) => Some(resolve::<ArgReduce<Max, f32>>(isa)),
        (ReduceOp::Max, DType::F64) => Some(resolve::<ArgReduce<Max, f64>>(isa)),
        (ReduceOp::Min, DType::F32) => Some(resolve::<ArgReduce<Min, f32>>(isa)),
        (ReduceOp::Min, DType::F64) => Some(resolve::<ArgReduce<Min, f64>>(isa)),
        _ => None,
    }
}
