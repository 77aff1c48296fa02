//! Block kernels of f32 and f64, with explicit vectors.

use super::divmod::{FloorDiv, Rem};
use super::entry::{Block, C, Operand, V, resolve};
use super::{BinaryOp, BlockFn, Elem, FmaForm, Form, UnaryOp};
use crate::math::{double, single};
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

/// `dst = O(a, b)`.
struct Map2<O, T, A, B>(PhantomData<(O, T, A, B)>);

impl<T: Real, O: Op2<T>, A: Operand, B: Operand> Block for Map2<O, T, A, B> {
    #[inline(always)]
    unsafe fn run<S: Simd>(s: S, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        let (dst, a, b) = (dst.cast::<T>(), a.cast::<T>(), b.cast::<T>());
        let lanes = T::V::<S>::LANES;
        let whole = n - n % lanes;
        let mut i = 0;
        // SAFETY: the caller promises `n` elements at each block and one at each single value; `i` stays within them.
        unsafe {
            let (sa, sb) = (single_value::<T, S, A>(s, a), single_value::<T, S, B>(s, b));
            while i < whole {
                let x = operand::<T, S, A>(s, sa, a, i, lanes);
                let y = operand::<T, S, B>(s, sb, b, i, lanes);
                O::f(s, x, y).store(dst.add(i));
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
    Erf erf;
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
            Elem::F32 => {
                type $t = f32;
                Some(resolve::<$block>($isa))
            }
            Elem::F64 => {
                type $t = f64;
                Some(resolve::<$block>($isa))
            }
            _ => None,
        }
    };
}

pub fn unary(isa: Isa, op: UnaryOp, elem: Elem) -> Option<BlockFn> {
    macro_rules! pick {
        ($($name:ident),+) => {
            match op {
                $(UnaryOp::$name => for_real!(elem, isa, T => Map1<$name, T>),)+
                UnaryOp::Not => None,
            }
        };
    }
    pick!(
        Neg, Abs, Sign, Sqrt, Rsqrt, Recip, Exp, Expm1, Log, Log1p, Sin, Cos, Tanh, Erf, Sigmoid, Floor, Ceil, Trunc,
        Round
    )
}

pub fn binary(isa: Isa, op: BinaryOp, elem: Elem, form: Form) -> Option<BlockFn> {
    macro_rules! pick {
        ($($name:ident),+) => {
            match (op, form) {
                $((BinaryOp::$name, Form::VV) => for_real!(elem, isa, T => Map2<$name, T, V, V>),
                (BinaryOp::$name, Form::VS) => for_real!(elem, isa, T => Map2<$name, T, V, C>),
                (BinaryOp::$name, Form::SV) => for_real!(elem, isa, T => Map2<$name, T, C, V>),)+
                _ => None,
            }
        };
    }
    pick!(Add, Sub, Mul, Div, Min, Max, Pow, Rem, FloorDiv)
}

pub fn fma(isa: Isa, elem: Elem, form: FmaForm) -> Option<BlockFn> {
    match form {
        FmaForm::VVV => for_real!(elem, isa, T => Fma<T, V, V>),
        FmaForm::VSV => for_real!(elem, isa, T => Fma<T, C, V>),
        FmaForm::VVS => for_real!(elem, isa, T => Fma<T, V, C>),
        FmaForm::VSS => for_real!(elem, isa, T => Fma<T, C, C>),
    }
}
