//! Reductions of a block to one value.

use super::entry::{Block, resolve, resolve_scalar};
use super::{BlockFn, Elem, ReduceOp};
use crate::simd::{Float, Isa, Mask, Real, Simd};
use num_complex::Complex;
use std::marker::PhantomData;

/// A float reduction by vectors: `step` puts a vector into an accumulator, `join` joins two accumulators.
trait Fold<T: Real> {
    /// What an empty block gives; also what fills a partial vector.
    const START: f64;
    fn step<S: Simd>(acc: T::V<S>, x: T::V<S>) -> T::V<S>;
    fn join<S: Simd>(a: T::V<S>, b: T::V<S>) -> T::V<S>;
    fn join_scalar(a: T, b: T) -> T;
}

struct Sum;
struct SumSquares;
struct Prod;
struct Max;
struct Min;

macro_rules! fold {
    ($($name:ident $start:expr, |$acc:ident, $x:ident| $step:expr, |$a:ident, $b:ident| $join:expr, |$p:ident, $q:ident| $scalar:expr;)+) => {$(
        impl<T: Real + std::ops::Add<Output = T> + std::ops::Mul<Output = T>> Fold<T> for $name {
            const START: f64 = $start;
            #[inline(always)]
            fn step<S: Simd>($acc: T::V<S>, $x: T::V<S>) -> T::V<S> {
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
    Sum 0.0, |acc, x| acc + x, |a, b| a + b, |p, q| p + q;
    SumSquares 0.0, |acc, x| x.madd(x, acc), |a, b| a + b, |p, q| p + q;
    Prod 1.0, |acc, x| acc * x, |a, b| a * b, |p, q| p * q;
    Max f64::NEG_INFINITY, |acc, x| x.max_nan(acc), |a, b| a.max_nan(b), |p, q| if p > q || p != p { p } else { q };
    Min f64::INFINITY, |acc, x| x.min_nan(acc), |a, b| a.min_nan(b), |p, q| if p < q || p != p { p } else { q };
}

/// Accumulators side by side: enough to hide the latency of an addition.
const WAYS: usize = 8;

#[inline(always)]
unsafe fn fold<S: Simd, T: Real, F: Fold<T>>(s: S, a: *const T, n: usize) -> T {
    let lanes = T::V::<S>::LANES;
    let start = T::splat(s, T::from_f64(F::START));
    let mut acc = [start; WAYS];
    let mut i = 0;
    // SAFETY: the caller promises `n` elements; `i` stays within them.
    unsafe {
        while i + WAYS * lanes <= n {
            for (w, acc) in acc.iter_mut().enumerate() {
                *acc = F::step::<S>(*acc, T::V::<S>::load(a.add(i + w * lanes)));
            }
            i += WAYS * lanes;
        }
        // The rest goes round the accumulators too, so that a short block is also summed in pairs.
        let mut w = 0;
        while i + lanes <= n {
            acc[w] = F::step::<S>(acc[w], T::V::<S>::load(a.add(i)));
            w = (w + 1) % WAYS;
            i += lanes;
        }
        if i < n {
            acc[w] = F::step::<S>(acc[w], T::V::<S>::load_partial(a.add(i), n - i, start));
        }
    }
    let mut width = WAYS;
    while width > 1 {
        width /= 2;
        for w in 0..width {
            acc[w] = F::join::<S>(acc[w], acc[w + width]);
        }
    }
    let mut lane = acc[0].to_array();
    let mut width = lanes;
    while width > 1 {
        width /= 2;
        for w in 0..width {
            lane[w] = F::join_scalar(lane[w], lane[w + width]);
        }
    }
    lane[0]
}

/// `*dst = F(a)`.
struct Reduce<F, T>(PhantomData<(F, T)>);

impl<T: Real, F: Fold<T>> Block for Reduce<F, T> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller promises `n` elements at `a` and one at `dst`.
        unsafe { dst.cast::<T>().write_unaligned(fold::<S, T, F>(s, a.cast(), n)) }
    }
}

/// `*dst` = the first index of what `F` gives.
struct Arg<F, T>(PhantomData<(F, T)>);

impl<T: Real, F: Fold<T>> Block for Arg<F, T> {
    #[inline(always)]
    #[allow(clippy::eq_op)] // x == x asks whether x is a number
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let a = a.cast::<T>();
        let lanes = T::V::<S>::LANES;
        // SAFETY: the caller promises `n` elements at `a` and one at `dst`; `i` stays within them.
        unsafe {
            // Two passes over a block in L1 are quicker than carrying indices along.
            let value = fold::<S, T, F>(s, a, n);
            let nan = value != value;
            let wanted = T::splat(s, value);
            let mut i = 0;
            let mut found = 0;
            while i < n {
                let x = if n - i >= lanes {
                    T::V::<S>::load(a.add(i))
                } else {
                    T::V::<S>::load_partial(a.add(i), n - i, wanted)
                };
                let hit = if nan { !x.eq(x) } else { x.eq(wanted) };
                let bits = hit.bits();
                if bits != 0 {
                    found = i + bits.trailing_zeros() as usize;
                    break;
                }
                i += lanes;
            }
            dst.cast::<u64>().write_unaligned(found as u64);
        }
    }
}

/// An integer reduction.
trait Integer: Copy + Ord {
    const ZERO: Self;
    const ONE: Self;
    const LOW: Self;
    const HIGH: Self;
    fn add(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),+) => {$(
        impl Integer for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOW: $t = <$t>::MIN;
            const HIGH: $t = <$t>::MAX;
            #[inline(always)]
            fn add(self, b: $t) -> $t {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn mul(self, b: $t) -> $t {
                self.wrapping_mul(b)
            }
        }
    )+};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// `*dst = F(a)` of integers.
struct IntReduce<F, T>(PhantomData<(F, T)>);
struct IntArg<F, T>(PhantomData<(F, T)>);

/// A fold of values of one type.
trait ScalarFold<T> {
    fn fold(a: &[T]) -> T;
}

impl<T: Integer> ScalarFold<T> for Sum {
    #[inline(always)]
    fn fold(a: &[T]) -> T {
        a.iter().fold(T::ZERO, |acc, &x| acc.add(x))
    }
}

impl<T: Integer> ScalarFold<T> for SumSquares {
    #[inline(always)]
    fn fold(a: &[T]) -> T {
        a.iter().fold(T::ZERO, |acc, &x| acc.add(x.mul(x)))
    }
}

impl<T: Integer> ScalarFold<T> for Prod {
    #[inline(always)]
    fn fold(a: &[T]) -> T {
        a.iter().fold(T::ONE, |acc, &x| acc.mul(x))
    }
}

impl<T: Integer> ScalarFold<T> for Max {
    #[inline(always)]
    fn fold(a: &[T]) -> T {
        a.iter().fold(T::LOW, |acc, &x| acc.max(x))
    }
}

impl<T: Integer> ScalarFold<T> for Min {
    #[inline(always)]
    fn fold(a: &[T]) -> T {
        a.iter().fold(T::HIGH, |acc, &x| acc.min(x))
    }
}

/// The block as a slice; an empty one may have a null pointer.
#[inline(always)]
unsafe fn slice<'a, T>(a: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller promises `n` aligned elements at `a`.
    if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(a.cast::<T>(), n) } }
}

impl<T, F: ScalarFold<T>> Block for IntReduce<F, T> {
    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller promises `n` elements at `a` and one at `dst`.
        unsafe { dst.cast::<T>().write_unaligned(F::fold(slice::<T>(a, n))) }
    }
}

impl<T: Integer, F: ScalarFold<T>> Block for IntArg<F, T> {
    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller promises `n` elements at `a` and one at `dst`.
        unsafe {
            let a = slice::<T>(a, n);
            let value = F::fold(a);
            let found = a.iter().position(|&x| x == value).unwrap_or(0);
            dst.cast::<u64>().write_unaligned(found as u64);
        }
    }
}

impl<T: Copy + num_complex_sum::Part> ScalarFold<Complex<T>> for Sum {
    #[inline(always)]
    fn fold(a: &[Complex<T>]) -> Complex<T> {
        T::sum(a, |z| z)
    }
}

impl<T: Copy + num_complex_sum::Part> ScalarFold<Complex<T>> for SumSquares {
    #[inline(always)]
    fn fold(a: &[Complex<T>]) -> Complex<T> {
        T::sum(a, |z| T::mul(z, z))
    }
}

impl<T: Copy + num_complex_sum::Part> ScalarFold<Complex<T>> for Prod {
    #[inline(always)]
    fn fold(a: &[Complex<T>]) -> Complex<T> {
        a.iter().fold(T::one(), |acc, &z| T::mul(acc, z))
    }
}

/// Complex sums.
mod num_complex_sum {
    use num_complex::Complex;

    /// f32 or f64.
    pub trait Part: Copy {
        /// The sum of `f(z)` in eight interleaved partial sums.
        fn sum(a: &[Complex<Self>], f: impl Fn(Complex<Self>) -> Complex<Self>) -> Complex<Self>;
        /// The product.
        fn mul(a: Complex<Self>, b: Complex<Self>) -> Complex<Self>;
        /// 1.
        fn one() -> Complex<Self>;
    }

    macro_rules! part {
        ($($t:ty),+) => {$(
            impl Part for $t {
                #[inline(always)]
                fn sum(a: &[Complex<$t>], f: impl Fn(Complex<$t>) -> Complex<$t>) -> Complex<$t> {
                    let mut acc = [Complex::<$t>::new(0.0, 0.0); 8];
                    for (i, &z) in a.iter().enumerate() {
                        acc[i % 8] += f(z);
                    }
                    ((acc[0] + acc[4]) + (acc[2] + acc[6])) + ((acc[1] + acc[5]) + (acc[3] + acc[7]))
                }
                #[inline(always)]
                fn mul(a: Complex<$t>, b: Complex<$t>) -> Complex<$t> {
                    a * b
                }
                #[inline(always)]
                fn one() -> Complex<$t> {
                    Complex::new(1.0, 0.0)
                }
            }
        )+};
    }

    part!(f32, f64);
}

fn of_real<T>(isa: Isa, op: ReduceOp) -> Option<BlockFn>
where
    T: Real + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    Some(match op {
        ReduceOp::Sum => resolve::<Reduce<Sum, T>>(isa),
        ReduceOp::SumSquares => resolve::<Reduce<SumSquares, T>>(isa),
        ReduceOp::Prod => resolve::<Reduce<Prod, T>>(isa),
        ReduceOp::Max => resolve::<Reduce<Max, T>>(isa),
        ReduceOp::Min => resolve::<Reduce<Min, T>>(isa),
        ReduceOp::ArgMax => resolve::<Arg<Max, T>>(isa),
        ReduceOp::ArgMin => resolve::<Arg<Min, T>>(isa),
    })
}

fn of_int<T: Integer>(isa: Isa, op: ReduceOp) -> Option<BlockFn> {
    Some(match op {
        ReduceOp::Sum => resolve_scalar::<IntReduce<Sum, T>>(isa),
        ReduceOp::SumSquares => resolve_scalar::<IntReduce<SumSquares, T>>(isa),
        ReduceOp::Prod => resolve_scalar::<IntReduce<Prod, T>>(isa),
        ReduceOp::Max => resolve_scalar::<IntReduce<Max, T>>(isa),
        ReduceOp::Min => resolve_scalar::<IntReduce<Min, T>>(isa),
        ReduceOp::ArgMax => resolve_scalar::<IntArg<Max, T>>(isa),
        ReduceOp::ArgMin => resolve_scalar::<IntArg<Min, T>>(isa),
    })
}

fn of_complex<T: num_complex_sum::Part>(isa: Isa, op: ReduceOp) -> Option<BlockFn> {
    Some(match op {
        ReduceOp::Sum => resolve_scalar::<IntReduce<Sum, Complex<T>>>(isa),
        ReduceOp::SumSquares => resolve_scalar::<IntReduce<SumSquares, Complex<T>>>(isa),
        ReduceOp::Prod => resolve_scalar::<IntReduce<Prod, Complex<T>>>(isa),
        _ => return None,
    })
}

/// See [`super::reduce`].
pub fn reduce(isa: Isa, op: ReduceOp, elem: Elem) -> Option<BlockFn> {
    match elem {
        // Of bools: any and all are max and min; a sum counts in a wider type.
        Elem::Bool => match op {
            ReduceOp::Max | ReduceOp::ArgMax | ReduceOp::ArgMin => of_int::<u8>(isa, op),
            // The highest bool is 1: the product of bools is their minimum.
            ReduceOp::Min | ReduceOp::Prod => of_int::<u8>(isa, ReduceOp::Prod),
            _ => None,
        },
        Elem::I8 => of_int::<i8>(isa, op),
        Elem::I16 => of_int::<i16>(isa, op),
        Elem::I32 => of_int::<i32>(isa, op),
        Elem::I64 => of_int::<i64>(isa, op),
        Elem::U8 => of_int::<u8>(isa, op),
        Elem::U16 => of_int::<u16>(isa, op),
        Elem::U32 => of_int::<u32>(isa, op),
        Elem::U64 => of_int::<u64>(isa, op),
        Elem::F32 => of_real::<f32>(isa, op),
        Elem::F64 => of_real::<f64>(isa, op),
        Elem::C64 => of_complex::<f32>(isa, op),
        Elem::C128 => of_complex::<f64>(isa, op),
        Elem::F16 | Elem::Bf16 => None,
    }
}
