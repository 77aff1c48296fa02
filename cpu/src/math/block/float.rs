//! Block kernels of f32 and f64, with explicit vectors.

use super::divmod::{FloorDiv, Fmod, Rem};
use super::entry::{Block, C, Operand, V, resolve};
use super::{Binary, BlockFn, DType, FmaForm, Form, Unary};
use crate::math::precision::Precision;
use crate::math::{double, hyperbolic, inverse, logs, single};
use crate::prefetch::prefetch;
use crate::simd::{Float, Isa, Real, Simd};
use std::marker::PhantomData;

/// A function of one vector.
pub trait Op1<T: Real> {
    /// Computes it; must be `#[inline(always)]`.
    fn f<S: Simd>(s: S, x: T::V<S>) -> T::V<S>;
}

/// A function of two vectors.
pub trait Op2<T: Real> {
    /// Computes it; must be `#[inline(always)]`.
    fn f<S: Simd>(s: S, a: T::V<S>, b: T::V<S>) -> T::V<S>;
}

/// `dst = O(a)`.
struct Map1<O, T>(PhantomData<(O, T)>);

impl<T: Real, O: Op1<T>> Block for Map1<O, T> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let (dst, a) = (dst.cast::<T>(), a.cast::<T>());
        let lanes = T::V::<S>::LANES;
        let whole = n - n % lanes;
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each pointer; `i` stays within them.
        unsafe {
            while i < whole {
                O::f(s, T::V::<S>::load(a.add(i))).store(dst.add(i));
                i += lanes;
            }
            if i < n {
                // 1 is a usual argument of every function.
                let x = T::V::<S>::load_partial(a.add(i), n - i, T::splat(s, T::from_f64(1.0)));
                O::f(s, x).store_partial(dst.add(i), n - i);
            }
        }
    }
}

/// Reads an operand: the vector at `i`, of which `left` elements exist, or the single value.
#[inline(always)]
unsafe fn operand<T: Real, S: Simd, F: Operand>(s: S, single: T::V<S>, p: *const T, i: usize, left: usize) -> T::V<S> {
    // SAFETY: the caller promises `i + left` elements at `p` if it is a block.
    unsafe {
        if !F::BLOCK {
            single
        } else if left >= T::V::<S>::LANES {
            T::V::<S>::load(p.add(i))
        } else {
            T::V::<S>::load_partial(p.add(i), left, T::splat(s, T::from_f64(1.0)))
        }
    }
}

/// The single value as a vector; of a block, anything.
#[inline(always)]
unsafe fn single_value<T: Real, S: Simd, F: Operand>(s: S, p: *const T) -> T::V<S> {
    // SAFETY: the caller promises one element at `p` if it is a single value.
    T::splat(s, if F::BLOCK { T::from_f64(0.0) } else { unsafe { *p } })
}

/// `dst = O(a, b)`, written past the caches if `STREAM`.
struct Map2<O, T, A, B, const STREAM: bool = false>(PhantomData<(O, T, A, B)>);

impl<T: Real, O: Op2<T>, A: Operand, B: Operand, const STREAM: bool> Block for Map2<O, T, A, B, STREAM> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        let (dst, a, b) = (dst.cast::<T>(), a.cast::<T>(), b.cast::<T>());
        let lanes = T::V::<S>::LANES;
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each block and one at each single value; `i` stays within them.
        // Vectors are streamed from the first whole one on, and the elements themselves are aligned.
        unsafe {
            let (sa, sb) = (single_value::<T, S, A>(s, a), single_value::<T, S, B>(s, b));
            if STREAM {
                i = ((dst as usize).wrapping_neg() / size_of::<T>() % lanes).min(n);
                if i > 0 {
                    let x = operand::<T, S, A>(s, sa, a, 0, i);
                    let y = operand::<T, S, B>(s, sb, b, 0, i);
                    O::f(s, x, y).store_partial(dst, i);
                }
            }
            let whole = n - (n - i) % lanes;
            while i < whole {
                let x = operand::<T, S, A>(s, sa, a, i, lanes);
                let y = operand::<T, S, B>(s, sb, b, i, lanes);
                let z = O::f(s, x, y);
                if STREAM {
                    z.stream(dst.add(i))
                } else {
                    z.store(dst.add(i))
                }
                i += lanes;
            }
            if i < n {
                let x = operand::<T, S, A>(s, sa, a, i, n - i);
                let y = operand::<T, S, B>(s, sb, b, i, n - i);
                O::f(s, x, y).store_partial(dst.add(i), n - i);
            }
        }
    }
}

/// e^(a - b).
struct ExpLess;

impl<T: Real> Op2<T> for ExpLess
where
    Exp: Op1<T>,
{
    #[inline(always)]
    fn f<S: Simd>(s: S, a: T::V<S>, b: T::V<S>) -> T::V<S> {
        Exp::f(s, a - b)
    }
}

/// `dst = O(a, ...)` with eight rows of `b`, as [`super::stacked`] says.
struct Stacked<O, T>(PhantomData<(O, T)>);

/// Rows that a [`Stacked`] takes at once.
const ROWS: usize = 8;

impl<T: Real, O: Op2<T>> Block for Stacked<O, T> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller promises two distances at `c`, `n` elements at each block and at eight rows of `b` so far apart; `i`
        // stays within them.
        unsafe {
            let (step, ahead) =
                (c.cast::<i64>().read_unaligned() as isize, c.cast::<i64>().add(1).read_unaligned() as isize);
            let (dst, a) = (dst.cast::<T>(), a.cast::<T>());
            let mut rows = [b.cast::<T>(); ROWS];
            for (r, row) in rows.iter_mut().enumerate() {
                *row = b.wrapping_offset(r as isize * step).cast::<T>();
            }
            let (lanes, one) = (T::V::<S>::LANES, T::splat(s, T::from_f64(1.0)));
            let mut i = 0;
            while i < n {
                let left = (n - i).min(lanes);
                let mut x = [one; ROWS];
                for (x, row) in x.iter_mut().zip(rows) {
                    if ahead != 0 && (i * size_of::<T>()).is_multiple_of(LINE) {
                        prefetch::<false>(row.wrapping_add(i).cast::<u8>().wrapping_offset(ahead));
                    }
                    *x = operand::<T, S, V>(s, one, row, i, left);
                }
                // Neighbours first.
                let mut width = 1;
                while width < ROWS {
                    for r in (0..ROWS).step_by(2 * width) {
                        x[r] = O::f(s, x[r], x[r + width]);
                    }
                    width *= 2;
                }
                let all = O::f(s, operand::<T, S, V>(s, one, a, i, left), x[0]);
                if left == lanes {
                    all.store(dst.add(i));
                } else {
                    all.store_partial(dst.add(i), left);
                }
                i += lanes;
            }
        }
    }
}

/// `dst = a` for elements of `SIZE` bytes, written past the caches.
struct Copy<const SIZE: usize>;

/// Bytes of a cache line: streamed stores that fill one leave at once.
const LINE: usize = 64;

impl<const SIZE: usize> Block for Copy<SIZE> {
    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        let bytes = n * SIZE;
        let vector = S::F32::LANES * size_of::<f32>();
        let mut at = ((dst as usize).wrapping_neg() % LINE).min(bytes);
        // SAFETY: the caller promises `n` elements at each pointer; `at` stays within them, and a vector's size divides
        // that of a line, from whose beginning on vectors are streamed.
        unsafe {
            std::ptr::copy_nonoverlapping(a, dst, at);
            let whole = bytes - (bytes - at) % LINE;
            while at < whole {
                for part in 0..LINE / vector {
                    let here = at + part * vector;
                    S::F32::load(a.add(here).cast()).stream(dst.add(here).cast());
                }
                at += LINE;
            }
            std::ptr::copy_nonoverlapping(a.add(at), dst.add(at), bytes - at);
        }
    }
}

/// `dst = a * b + c`.
struct Fma<T, B, C>(PhantomData<(T, B, C)>);

impl<T: Real, B: Operand, C: Operand> Block for Fma<T, B, C> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        let (dst, a, b, c) = (dst.cast::<T>(), a.cast::<T>(), b.cast::<T>(), c.cast::<T>());
        let lanes = T::V::<S>::LANES;
        let whole = n - n % lanes;
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each block and one at each single value; `i` stays within them.
        unsafe {
            let (sb, sc) = (single_value::<T, S, B>(s, b), single_value::<T, S, C>(s, c));
            while i < whole {
                let x = operand::<T, S, V>(s, sb, a, i, lanes);
                let y = operand::<T, S, B>(s, sb, b, i, lanes);
                let z = operand::<T, S, C>(s, sc, c, i, lanes);
                x.mul_add(y, z).store(dst.add(i));
                i += lanes;
            }
            if i < n {
                let x = operand::<T, S, V>(s, sb, a, i, n - i);
                let y = operand::<T, S, B>(s, sb, b, i, n - i);
                let z = operand::<T, S, C>(s, sc, c, i, n - i);
                x.mul_add(y, z).store_partial(dst.add(i), n - i);
            }
        }
    }
}

macro_rules! op1 {
    ($($name:ident: |$s:ident, $x:ident| $e:expr;)+) => {$(
        struct $name;
        impl<T: Real> Op1<T> for $name {
            #[inline(always)]
            fn f<S: Simd>($s: S, $x: T::V<S>) -> T::V<S> {
                $e
            }
        }
    )+};
}

op1! {
    Neg: |_s, x| -x;
    Abs: |_s, x| x.abs();
    Sqrt: |_s, x| x.sqrt();
    Recip: |s, x| T::splat(s, T::from_f64(1.0)) / x;
    Rsqrt: |s, x| T::splat(s, T::from_f64(1.0)) / x.sqrt();
    Floor: |_s, x| x.floor();
    Ceil: |_s, x| x.ceil();
    Trunc: |_s, x| x.trunc();
    Round: |_s, x| x.round();
    // Zero and NaN are neither below nor above zero and stay.
    Sign: |s, x| {
        let zero = T::splat(s, T::from_f64(0.0));
        let one = T::splat(s, T::from_f64(1.0));
        let signed = one | x.sign_bit();
        T::V::<S>::select(zero.lt(x.abs()), signed, x)
    };
}

macro_rules! maths {
    ($($name:ident $function:ident;)+) => {$(
        struct $name;
        impl Op1<f32> for $name {
            #[inline(always)]
            fn f<S: Simd>(s: S, x: S::F32) -> S::F32 {
                single::$function(s, x)
            }
        }
        impl Op1<f64> for $name {
            #[inline(always)]
            fn f<S: Simd>(s: S, x: S::F64) -> S::F64 {
                double::$function(s, x)
            }
        }
    )+};
}

maths! {
    Exp exp;
    Expm1 expm1;
    Log log;
    Log1p log1p;
    Tanh tanh;
    Sigmoid sigmoid;
    Sin sin;
    Cos cos;
    Tan tan;
    Erf erf;
}

macro_rules! alike {
    ($($name:ident $module:ident $function:ident;)+) => {$(
        struct $name;
        impl<T: Precision> Op1<T> for $name {
            #[inline(always)]
            fn f<S: Simd>(s: S, x: T::V<S>) -> T::V<S> {
                $module::$function::<T, S>(s, x)
            }
        }
    )+};
}

alike! {
    Asin inverse asin;
    Acos inverse acos;
    Atan inverse atan;
    Sinh hyperbolic sinh;
    Cosh hyperbolic cosh;
    Asinh hyperbolic asinh;
    Acosh hyperbolic acosh;
    Atanh hyperbolic atanh;
    Exp2 logs exp2;
    Log2 logs log2;
    Log10 logs log10;
}

macro_rules! op2 {
    ($($name:ident: |$a:ident, $b:ident| $e:expr;)+) => {$(
        struct $name;
        impl<T: Real> Op2<T> for $name {
            #[inline(always)]
            fn f<S: Simd>(_: S, $a: T::V<S>, $b: T::V<S>) -> T::V<S> {
                $e
            }
        }
    )+};
}

op2! {
    Add: |a, b| a + b;
    Sub: |a, b| a - b;
    Mul: |a, b| a * b;
    Div: |a, b| a / b;
    Min: |a, b| a.min_nan(b);
    Max: |a, b| a.max_nan(b);
    CopySign: |a, b| a.abs() | b.sign_bit();
}

macro_rules! alike2 {
    ($($name:ident $function:ident;)+) => {$(
        struct $name;
        impl<T: Precision> Op2<T> for $name {
            #[inline(always)]
            fn f<S: Simd>(s: S, a: T::V<S>, b: T::V<S>) -> T::V<S> {
                inverse::$function::<T, S>(s, a, b)
            }
        }
    )+};
}

alike2! {
    Atan2 atan2;
    Hypot hypot;
}

struct Pow;

impl Op2<f32> for Pow {
    #[inline(always)]
    fn f<S: Simd>(s: S, a: S::F32, b: S::F32) -> S::F32 {
        single::pow(s, a, b)
    }
}

impl Op2<f64> for Pow {
    #[inline(always)]
    fn f<S: Simd>(s: S, a: S::F64, b: S::F64) -> S::F64 {
        double::pow(s, a, b)
    }
}

macro_rules! for_real {
    ($elem:expr, $isa:expr, $t:ident => $block:ty) => {
        match $elem {
            DType::F32 => {
                type $t = f32;
                Some(resolve::<$block>($isa))
            }
            DType::F64 => {
                type $t = f64;
                Some(resolve::<$block>($isa))
            }
            _ => None,
        }
    };
}

pub fn unary(isa: Isa, op: Unary, elem: DType) -> Option<BlockFn> {
    macro_rules! pick {
        ($($name:ident),+) => {
            match op {
                $(Unary::$name => for_real!(elem, isa, T => Map1<$name, T>),)+
                Unary::Not | Unary::Imag => None,
            }
        };
    }
    pick!(
        Neg, Abs, Sign, Sqrt, Rsqrt, Recip, Exp, Expm1, Log, Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh,
        Acosh, Atanh, Exp2, Log2, Log10, Tanh, Erf, Sigmoid, Floor, Ceil, Trunc, Round
    )
}

pub fn binary(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    macro_rules! pick {
        ($($name:ident),+) => {
            match (op, form) {
                $((Binary::$name, Form::VV) => for_real!(elem, isa, T => Map2<$name, T, V, V>),
                (Binary::$name, Form::VS) => for_real!(elem, isa, T => Map2<$name, T, V, C>),
                (Binary::$name, Form::SV) => for_real!(elem, isa, T => Map2<$name, T, C, V>),)+
                _ => None,
            }
        };
    }
    pick!(Add, Sub, Mul, Div, Min, Max, Pow, Rem, FloorDiv, Fmod, Atan2, Hypot, CopySign)
}

pub fn streaming_copy(isa: Isa, size: usize) -> Option<BlockFn> {
    match size {
        1 => Some(resolve::<Copy<1>>(isa)),
        2 => Some(resolve::<Copy<2>>(isa)),
        4 => Some(resolve::<Copy<4>>(isa)),
        8 => Some(resolve::<Copy<8>>(isa)),
        16 => Some(resolve::<Copy<16>>(isa)),
        _ => None,
    }
}

pub fn streaming(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    macro_rules! pick {
        ($($name:ident),+) => {
            match (op, form) {
                $((Binary::$name, Form::VV) => for_real!(elem, isa, T => Map2<$name, T, V, V, true>),
                (Binary::$name, Form::VS) => for_real!(elem, isa, T => Map2<$name, T, V, C, true>),
                (Binary::$name, Form::SV) => for_real!(elem, isa, T => Map2<$name, T, C, V, true>),)+
                _ => None,
            }
        };
    }
    pick!(Add, Sub, Mul, Div)
}

pub fn exp_less(isa: Isa, elem: DType) -> Option<BlockFn> {
    for_real!(elem, isa, T => Map2<ExpLess, T, V, C>)
}

pub fn stacked(isa: Isa, op: Binary, elem: DType) -> Option<BlockFn> {
    match op {
        Binary::Add => for_real!(elem, isa, T => Stacked<Add, T>),
        Binary::Mul => for_real!(elem, isa, T => Stacked<Mul, T>),
        Binary::Min => for_real!(elem, isa, T => Stacked<Min, T>),
        Binary::Max => for_real!(elem, isa, T => Stacked<Max, T>),
        _ => None,
    }
}

pub fn fma(isa: Isa, elem: DType, form: FmaForm) -> Option<BlockFn> {
    match form {
        FmaForm::VVV => for_real!(elem, isa, T => Fma<T, V, V>),
        FmaForm::VSV => for_real!(elem, isa, T => Fma<T, C, V>),
        FmaForm::VVS => for_real!(elem, isa, T => Fma<T, V, C>),
        FmaForm::VSS => for_real!(elem, isa, T => Fma<T, C, C>),
    }
}
