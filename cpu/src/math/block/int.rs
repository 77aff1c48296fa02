//! Block kernels of integers and bools.

use super::divide;
use super::each::{Each, Fn1, Fn2, MulAdd, MulAddElem, Zip};
use super::entry::{C, V, resolve_scalar, resolve_swapped};
use super::kinds::without_sign;
use super::{Binary, BlockFn, DType, FmaForm, Form, Unary};
use crate::simd::Isa;
use std::marker::PhantomData;

/// The arithmetic of an integer type, as [`Binary`] and [`Unary`] state it.
pub(super) trait Integer: MulAddElem {
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn min(self, b: Self) -> Self;
    fn max(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn shl(self, b: Self) -> Self;
    fn shr(self, b: Self) -> Self;
    fn floor_div(self, b: Self) -> Self;
    fn rem(self, b: Self) -> Self;
    fn pow(self, b: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn not(self) -> Self;
}

macro_rules! integer {
    ($t:ty, $unsigned:ty, |$a:ident, $b:ident| $floor_div:expr, |$c:ident| $abs:expr, $sign:expr, $pow_negative:expr) => {
        impl MulAddElem for $t {
            #[inline(always)]
            fn mul_add(a: $t, b: $t, c: $t) -> $t {
                a.wrapping_mul(b).wrapping_add(c)
            }
        }

        impl Integer for $t {
            #[inline(always)]
            fn add(self, b: $t) -> $t {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn sub(self, b: $t) -> $t {
                self.wrapping_sub(b)
            }
            #[inline(always)]
            fn mul(self, b: $t) -> $t {
                self.wrapping_mul(b)
            }
            #[inline(always)]
            fn min(self, b: $t) -> $t {
                Ord::min(self, b)
            }
            #[inline(always)]
            fn max(self, b: $t) -> $t {
                Ord::max(self, b)
            }
            #[inline(always)]
            fn and(self, b: $t) -> $t {
                self & b
            }
            #[inline(always)]
            fn or(self, b: $t) -> $t {
                self | b
            }
            #[inline(always)]
            fn xor(self, b: $t) -> $t {
                self ^ b
            }
            #[inline(always)]
            fn shl(self, b: $t) -> $t {
                if (b as $unsigned) < <$t>::BITS as $unsigned { self.wrapping_shl(b as u32) } else { 0 }
            }
            #[inline(always)]
            fn shr(self, b: $t) -> $t {
                let most = (<$t>::BITS - 1) as $unsigned;
                if (b as $unsigned) <= most {
                    self.wrapping_shr(b as u32)
                } else if <$t>::MIN == 0 {
                    0
                } else {
                    self.wrapping_shr(most as u32)
                }
            }
            #[inline(always)]
            fn floor_div(self, b: $t) -> $t {
                let ($a, $b) = (self, b);
                $floor_div
            }
            #[inline(always)]
            fn rem(self, b: $t) -> $t {
                if b == 0 { 0 } else { self.wrapping_sub(self.floor_div(b).wrapping_mul(b)) }
            }
            #[inline(always)]
            fn pow(self, b: $t) -> $t {
                if b < 0 as $t {
                    let f: fn($t, $t) -> $t = $pow_negative;
                    return f(self, b);
                }
                let (mut result, mut base, mut exponent) = (1 as $t, self, b as $unsigned);
                while exponent != 0 {
                    if exponent & 1 != 0 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    exponent >>= 1;
                }
                result
            }
            #[inline(always)]
            fn neg(self) -> $t {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn abs(self) -> $t {
                let $c = self;
                $abs
            }
            #[inline(always)]
            fn sign(self) -> $t {
                let f: fn($t) -> $t = $sign;
                f(self)
            }
            #[inline(always)]
            fn not(self) -> $t {
                !self
            }
        }
    };
}

macro_rules! signed {
    ($t:ty, $unsigned:ty, |$a:ident, $b:ident| $floor_div:expr) => {
        integer!($t, $unsigned, |$a, $b| $floor_div, |x| x.wrapping_abs(), |x| x.signum(), |a, b| match a {
            1 => 1,
            -1 if b & 1 == 0 => 1,
            -1 => -1,
            _ => 0,
        });
    };
}

macro_rules! unsigned {
    ($t:ty, |$a:ident, $b:ident| $floor_div:expr) => {
        integer!($t, $t, |$a, $b| $floor_div, |x| x, |x| (x != 0) as $t, |_, _| 0);
    };
}

/// floor(a / b) through a float type that holds both exactly: two such quotients differ by more than its rounding, so
/// the floor is right, and the division is a vector one.
macro_rules! by_float {
    ($t:ty, $float:ty, $a:expr, $b:expr) => {{
        let q = ($a as $float / $b as $float).floor();
        // Zero for a zero divisor; MIN / -1 wraps to MIN.
        let q = if $b == 0 { 0.0 } else { q };
        let q = if q > <$t>::MAX as $float { <$t>::MIN as $float } else { q };
        // SAFETY: the quotient is within the type, and never NaN.
        unsafe { q.to_int_unchecked::<i32>() as $t }
    }};
}

signed!(i8, u8, |a, b| by_float!(i8, f32, a, b));
signed!(i16, u16, |a, b| by_float!(i16, f32, a, b));
signed!(i32, u32, |a, b| by_float!(i32, f64, a, b));
signed!(i64, u64, |a, b| {
    if b == 0 {
        0
    } else {
        let q = a.wrapping_div(b);
        // The quotient of unlike signs was rounded up.
        if (a ^ b) < 0 && q.wrapping_mul(b) != a { q - 1 } else { q }
    }
});
unsigned!(u8, |a, b| by_float!(u8, f32, a, b));
unsigned!(u16, |a, b| by_float!(u16, f32, a, b));
unsigned!(u32, |a, b| a.checked_div(b).unwrap_or(0));
unsigned!(u64, |a, b| a.checked_div(b).unwrap_or(0));

macro_rules! fn2 {
    ($($name:ident $method:ident),+) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        impl<T: Integer> Fn2 for $name<T> {
            type A = T;
            type B = T;
            type R = T;
            #[inline(always)]
            fn f(a: T, b: T) -> T {
                a.$method(b)
            }
        }
    )+};
}

fn2!(Add add, Sub sub, Mul mul, Min min, Max max, And and, Or or, Xor xor, Shl shl, Shr shr, FloorDiv floor_div, Rem rem, Pow pow);

macro_rules! fn1 {
    ($($name:ident $method:ident),+) => {$(
        struct $name<T>(PhantomData<T>);
        impl<T: Integer> Fn1 for $name<T> {
            type A = T;
            type R = T;
            #[inline(always)]
            fn f(a: T) -> T {
                a.$method()
            }
        }
    )+};
}

fn1!(Neg neg, Abs abs, Sign sign, Not not);

/// Copies.
struct Same<T>(PhantomData<T>);
impl<T: Copy> Fn1 for Same<T> {
    type A = T;
    type R = T;
    #[inline(always)]
    fn f(a: T) -> T {
        a
    }
}

/// Not of a bool.
struct NotBool;
impl Fn1 for NotBool {
    type A = u8;
    type R = u8;
    #[inline(always)]
    fn f(a: u8) -> u8 {
        u8::from(a == 0)
    }
}

/// `$f::<T>(...)` for the integer type of `elem`.
macro_rules! by_type {
    ($elem:expr, $f:ident($($arg:expr),*)) => {
        match $elem {
            DType::I8 => $f::<i8>($($arg),*),
            DType::I16 => $f::<i16>($($arg),*),
            DType::I32 => $f::<i32>($($arg),*),
            DType::I64 => $f::<i64>($($arg),*),
            DType::U8 => $f::<u8>($($arg),*),
            DType::U16 => $f::<u16>($($arg),*),
            DType::U32 => $f::<u32>($($arg),*),
            DType::U64 => $f::<u64>($($arg),*),
            _ => None,
        }
    };
}

fn zip<F: Fn2>(isa: Isa, form: Form) -> Option<BlockFn> {
    Some(match form {
        Form::VV => resolve_scalar::<Zip<F, V, V>>(isa),
        Form::VS => resolve_scalar::<Zip<F, V, C>>(isa),
        Form::SV => resolve_scalar::<Zip<F, C, V>>(isa),
    })
}

/// As `zip`, where the operands may be exchanged.
fn zip_either<F: Fn2>(isa: Isa, form: Form) -> Option<BlockFn> {
    Some(match form {
        Form::VV => resolve_scalar::<Zip<F, V, V>>(isa),
        Form::VS => resolve_scalar::<Zip<F, V, C>>(isa),
        Form::SV => resolve_swapped::<Zip<F, V, C>>(isa),
    })
}

/// Operations of which signed and unsigned differ.
fn binary_of<T: Integer>(isa: Isa, op: Binary, form: Form) -> Option<BlockFn> {
    match op {
        Binary::Min => zip_either::<Min<T>>(isa, form),
        Binary::Max => zip_either::<Max<T>>(isa, form),
        Binary::Pow => zip::<Pow<T>>(isa, form),
        Binary::Rem => zip::<Rem<T>>(isa, form),
        Binary::FloorDiv => zip::<FloorDiv<T>>(isa, form),
        Binary::Shr => zip::<Shr<T>>(isa, form),
        _ => None,
    }
}

/// Operations of which signed and unsigned are one.
fn bitwise_of<T: Integer>(isa: Isa, op: Binary, form: Form) -> Option<BlockFn> {
    match op {
        Binary::Add => zip_either::<Add<T>>(isa, form),
        Binary::Sub => zip::<Sub<T>>(isa, form),
        Binary::Mul => zip_either::<Mul<T>>(isa, form),
        Binary::And => zip_either::<And<T>>(isa, form),
        Binary::Or => zip_either::<Or<T>>(isa, form),
        Binary::Xor => zip_either::<Xor<T>>(isa, form),
        Binary::Shl => zip::<Shl<T>>(isa, form),
        _ => None,
    }
}

/// See [`super::binary`].
pub fn binary(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    if elem == DType::Bool {
        return match op {
            Binary::Add | Binary::Max | Binary::Or => zip_either::<Or<u8>>(isa, form),
            Binary::Mul | Binary::Min | Binary::And => zip_either::<And<u8>>(isa, form),
            Binary::Xor => zip_either::<Xor<u8>>(isa, form),
            _ => None,
        };
    }
    if form == Form::VS
        && let Some(f) = divide::by_one(isa, op, elem)
    {
        return Some(f);
    }
    match op {
        Binary::Min | Binary::Max | Binary::Pow | Binary::Rem | Binary::FloorDiv | Binary::Shr => {
            by_type!(elem, binary_of(isa, op, form))
        }
        _ => match without_sign(elem) {
            DType::U8 => bitwise_of::<u8>(isa, op, form),
            DType::U16 => bitwise_of::<u16>(isa, op, form),
            DType::U32 => bitwise_of::<u32>(isa, op, form),
            DType::U64 => bitwise_of::<u64>(isa, op, form),
            _ => None,
        },
    }
}

fn unary_of<T: Integer>(isa: Isa, op: Unary) -> Option<BlockFn> {
    Some(match op {
        Unary::Abs => resolve_scalar::<Each<Abs<T>>>(isa),
        Unary::Sign => resolve_scalar::<Each<Sign<T>>>(isa),
        _ => return None,
    })
}

fn bits_of<T: Integer>(isa: Isa, op: Unary) -> Option<BlockFn> {
    Some(match op {
        Unary::Neg => resolve_scalar::<Each<Neg<T>>>(isa),
        Unary::Not => resolve_scalar::<Each<Not<T>>>(isa),
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => resolve_scalar::<Each<Same<T>>>(isa),
        _ => return None,
    })
}

/// See [`super::unary`].
pub fn unary(isa: Isa, op: Unary, elem: DType) -> Option<BlockFn> {
    if elem == DType::Bool {
        return match op {
            Unary::Not => Some(resolve_scalar::<Each<NotBool>>(isa)),
            Unary::Abs | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => {
                Some(resolve_scalar::<Each<Same<u8>>>(isa))
            }
            _ => None,
        };
    }
    match op {
        // Sign-blind ones, one for each width.
        Unary::Neg | Unary::Not | Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => {
            match without_sign(elem) {
                DType::U8 => bits_of::<u8>(isa, op),
                DType::U16 => bits_of::<u16>(isa, op),
                DType::U32 => bits_of::<u32>(isa, op),
                DType::U64 => bits_of::<u64>(isa, op),
                _ => None,
            }
        }
        _ => by_type!(elem, unary_of(isa, op)),
    }
}

fn fma_of<T: MulAddElem>(isa: Isa, form: FmaForm) -> Option<BlockFn> {
    Some(match form {
        FmaForm::VVV => resolve_scalar::<MulAdd<T, V, V>>(isa),
        FmaForm::VSV => resolve_scalar::<MulAdd<T, C, V>>(isa),
        FmaForm::VVS => resolve_scalar::<MulAdd<T, V, C>>(isa),
        FmaForm::VSS => resolve_scalar::<MulAdd<T, C, C>>(isa),
    })
}

/// See [`super::fma`].
pub fn fma(isa: Isa, elem: DType, form: FmaForm) -> Option<BlockFn> {
    match without_sign(elem) {
        DType::U8 => fma_of::<u8>(isa, form),
        DType::U16 => fma_of::<u16>(isa, form),
        DType::U32 => fma_of::<u32>(isa, form),
        DType::U64 => fma_of::<u64>(isa, form),
        _ => None,
    }
}
