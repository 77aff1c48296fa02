//! Plain block kernels: every operation and element type, one element after the other.
//!
//! The kernels of [`crate::math`] come first; these serve where it has none. All are [`BlockFn`]s on blocks only (form
//! `VV`); a single value is spread over a block before. Pointers need no alignment.

use half::{bf16, f16};
use millstream_core::what::to_odd;
use millstream_core::{Binary, DType, Unary};
use num_complex::Complex;

use crate::math::BlockFn;

/// Runs `f` over elements of `A`.
macro_rules! map1 {
    ($a:ty, $d:ty, |$x:ident| $e:expr) => {{
        unsafe fn run(dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
            let (dst, a) = (dst.cast::<$d>(), a.cast::<$a>());
            for i in 0..n {
                // SAFETY: the caller promises `n` elements at each pointer.
                unsafe {
                    let $x = a.add(i).read_unaligned();
                    dst.add(i).write_unaligned($e);
                }
            }
        }
        Some(run as BlockFn)
    }};
}

/// Runs `f` over elements of `A` and `A`.
macro_rules! map2 {
    ($a:ty, $d:ty, |$x:ident, $y:ident| $e:expr) => {{
        unsafe fn run(dst: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
            let (dst, a, b) = (dst.cast::<$d>(), a.cast::<$a>(), b.cast::<$a>());
            for i in 0..n {
                // SAFETY: the caller promises `n` elements at each pointer.
                unsafe {
                    let ($x, $y) = (a.add(i).read_unaligned(), b.add(i).read_unaligned());
                    dst.add(i).write_unaligned($e);
                }
            }
        }
        Some(run as BlockFn)
    }};
}

/// `dst[i] = op(a[i])`, the element type being `dtype` (f32 for the half types).
pub(crate) fn unary(op: Unary, dtype: DType) -> Option<BlockFn> {
    match dtype.compute() {
        DType::Bool => match op {
            Unary::Not => map1!(u8, u8, |x| x ^ 1),
            _ => None,
        },
        DType::I8 => signed_unary::i8(op),
        DType::I16 => signed_unary::i16(op),
        DType::I32 => signed_unary::i32(op),
        DType::I64 => signed_unary::i64(op),
        DType::U8 => unsigned_unary::u8(op),
        DType::U16 => unsigned_unary::u16(op),
        DType::U32 => unsigned_unary::u32(op),
        DType::U64 => unsigned_unary::u64(op),
        DType::F32 => float_unary::f32(op),
        DType::F64 => float_unary::f64(op),
        DType::C64 => complex_unary::f32(op),
        DType::C128 => complex_unary::f64(op),
        DType::F16 | DType::BF16 => None,
    }
}

/// `dst[i] = op(a[i], b[i])`; comparisons give bytes of 0 or 1.
pub(crate) fn binary(op: Binary, dtype: DType) -> Option<BlockFn> {
    match dtype.compute() {
        DType::Bool => match op {
            Binary::Add | Binary::Or | Binary::Max => map2!(u8, u8, |x, y| x | y),
            Binary::Mul | Binary::And | Binary::Min => map2!(u8, u8, |x, y| x & y),
            Binary::Xor => map2!(u8, u8, |x, y| x ^ y),
            _ => compare::u8(op),
        },
        DType::I8 => int_binary::i8(op).or_else(|| compare::i8(op)),
        DType::I16 => int_binary::i16(op).or_else(|| compare::i16(op)),
        DType::I32 => int_binary::i32(op).or_else(|| compare::i32(op)),
        DType::I64 => int_binary::i64(op).or_else(|| compare::i64(op)),
        DType::U8 => int_binary::u8(op).or_else(|| compare::u8(op)),
        DType::U16 => int_binary::u16(op).or_else(|| compare::u16(op)),
        DType::U32 => int_binary::u32(op).or_else(|| compare::u32(op)),
        DType::U64 => int_binary::u64(op).or_else(|| compare::u64(op)),
        DType::F32 => float_binary::f32(op).or_else(|| compare::f32(op)),
        DType::F64 => float_binary::f64(op).or_else(|| compare::f64(op)),
        DType::C64 => complex_binary::f32(op),
        DType::C128 => complex_binary::f64(op),
        DType::F16 | DType::BF16 => None,
    }
}

mod signed_unary {
    use super::*;
    macro_rules! signed {
        ($($t:ident),+) => {$(
            pub(super) fn $t(op: Unary) -> Option<BlockFn> {
                match op {
                    Unary::Neg => map1!($t, $t, |x| x.wrapping_neg()),
                    Unary::Abs => map1!($t, $t, |x| x.wrapping_abs()),
                    Unary::Sign => map1!($t, $t, |x| x.signum()),
                    Unary::Not => map1!($t, $t, |x| !x),
                    _ => None,
                }
            }
        )+};
    }
    signed!(i8, i16, i32, i64);
}

mod unsigned_unary {
    use super::*;
    macro_rules! unsigned {
        ($($t:ident),+) => {$(
            pub(super) fn $t(op: Unary) -> Option<BlockFn> {
                match op {
                    Unary::Neg => map1!($t, $t, |x| x.wrapping_neg()),
                    Unary::Abs => map1!($t, $t, |x| x),
                    Unary::Sign => map1!($t, $t, |x| $t::from(x != 0)),
                    Unary::Not => map1!($t, $t, |x| !x),
                    _ => None,
                }
            }
        )+};
    }
    unsigned!(u8, u16, u32, u64);
}

mod float_unary {
    use super::*;
    macro_rules! float {
        ($($t:ident $erf:ident),+) => {$(
            pub(super) fn $t(op: Unary) -> Option<BlockFn> {
                match op {
                    Unary::Neg => map1!($t, $t, |x| -x),
                    Unary::Abs => map1!($t, $t, |x| x.abs()),
                    Unary::Sign => map1!($t, $t, |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { x }),
                    Unary::Sqrt => map1!($t, $t, |x| x.sqrt()),
                    Unary::Rsqrt => map1!($t, $t, |x| 1.0 / x.sqrt()),
                    Unary::Recip => map1!($t, $t, |x| 1.0 / x),
                    Unary::Exp => map1!($t, $t, |x| x.exp()),
                    Unary::Expm1 => map1!($t, $t, |x| x.exp_m1()),
                    Unary::Log => map1!($t, $t, |x| x.ln()),
                    Unary::Log1p => map1!($t, $t, |x| x.ln_1p()),
                    Unary::Sin => map1!($t, $t, |x| x.sin()),
                    Unary::Cos => map1!($t, $t, |x| x.cos()),
                    Unary::Tanh => map1!($t, $t, |x| x.tanh()),
                    Unary::Sigmoid => map1!($t, $t, |x| 1.0 / (1.0 + (-x).exp())),
                    Unary::Floor => map1!($t, $t, |x| x.floor()),
                    Unary::Ceil => map1!($t, $t, |x| x.ceil()),
                    Unary::Trunc => map1!($t, $t, |x| x.trunc()),
                    Unary::Round => map1!($t, $t, |x| x.round_ties_even()),
                    Unary::Erf | Unary::Not => None,
                }
            }
        )+};
    }
    float!(f32 erff, f64 erf);
}

mod complex_unary {
    use super::*;
    macro_rules! complex {
        ($($t:ident),+) => {$(
            pub(super) fn $t(op: Unary) -> Option<BlockFn> {
                type C = Complex<$t>;
                match op {
                    Unary::Neg => map1!(C, C, |x| -x),
                    Unary::Abs => map1!(C, $t, |x| x.re.hypot(x.im)),
                    Unary::Recip => map1!(C, C, |x| C::new(1.0, 0.0) / x),
                    Unary::Sqrt => map1!(C, C, |x| x.sqrt()),
                    Unary::Exp => map1!(C, C, |x| x.exp()),
                    Unary::Log => map1!(C, C, |x| x.ln()),
                    Unary::Sin => map1!(C, C, |x| x.sin()),
                    Unary::Cos => map1!(C, C, |x| x.cos()),
                    Unary::Tanh => map1!(C, C, |x| x.tanh()),
                    _ => None,
                }
            }
        )+};
    }
    complex!(f32, f64);
}

/// What differs between signed and unsigned integers.
trait Int: Copy {
    fn floor_div(self, by: Self) -> Self;
    fn floor_rem(self, by: Self) -> Self;
    fn power(self, exponent: Self) -> Self;
    fn left(self, by: Self) -> Self;
    fn right(self, by: Self) -> Self;
}

macro_rules! int {
    ($($t:ident $u:ident $signed:literal),+) => {$(
        impl Int for $t {
            fn floor_div(self, by: $t) -> $t {
                if by == 0 {
                    return 0;
                }
                let (q, r) = (self.wrapping_div(by), self.wrapping_rem(by));
                if r != 0 && $signed && ((r ^ by) >> ($t::BITS - 1)) != 0 { q.wrapping_sub(1) } else { q }
            }
            fn floor_rem(self, by: $t) -> $t {
                if by == 0 {
                    return 0;
                }
                let r = self.wrapping_rem(by);
                if r != 0 && $signed && ((r ^ by) >> ($t::BITS - 1)) != 0 { r.wrapping_add(by) } else { r }
            }
            #[allow(unused_comparisons)]
            fn power(self, exponent: $t) -> $t {
                if exponent < 0 {
                    return match self {
                        1 => 1,
                        x if $signed && x == (0 as $t).wrapping_sub(1) => if exponent & 1 == 0 { 1 } else { x },
                        _ => 0,
                    };
                }
                let (mut base, mut left, mut out) = (self, exponent, 1 as $t);
                while left > 0 {
                    if left & 1 == 1 {
                        out = out.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                out
            }
            fn left(self, by: $t) -> $t {
                let by = by as $u;
                if by >= $t::BITS as $u { 0 } else { self.wrapping_shl(by as u32) }
            }
            fn right(self, by: $t) -> $t {
                let by = by as $u;
                if by >= $t::BITS as $u {
                    if $signed { self >> ($t::BITS - 1) } else { 0 }
                } else {
                    self.wrapping_shr(by as u32)
                }
            }
        }
    )+};
}
int!(i8 u8 true, i16 u16 true, i32 u32 true, i64 u64 true, u8 u8 false, u16 u16 false, u32 u32 false, u64 u64 false);

mod int_binary {
    use super::*;
    macro_rules! ints {
        ($($t:ident),+) => {$(
            pub(super) fn $t(op: Binary) -> Option<BlockFn> {
                match op {
                    Binary::Add => map2!($t, $t, |x, y| x.wrapping_add(y)),
                    Binary::Sub => map2!($t, $t, |x, y| x.wrapping_sub(y)),
                    Binary::Mul => map2!($t, $t, |x, y| x.wrapping_mul(y)),
                    Binary::FloorDiv => map2!($t, $t, |x, y| x.floor_div(y)),
                    Binary::Rem => map2!($t, $t, |x, y| x.floor_rem(y)),
                    Binary::Pow => map2!($t, $t, |x, y| x.power(y)),
                    Binary::Min => map2!($t, $t, |x, y| x.min(y)),
                    Binary::Max => map2!($t, $t, |x, y| x.max(y)),
                    Binary::And => map2!($t, $t, |x, y| x & y),
                    Binary::Or => map2!($t, $t, |x, y| x | y),
                    Binary::Xor => map2!($t, $t, |x, y| x ^ y),
                    Binary::Shl => map2!($t, $t, |x, y| x.left(y)),
                    Binary::Shr => map2!($t, $t, |x, y| x.right(y)),
                    _ => None,
                }
            }
        )+};
    }
    ints!(i8, i16, i32, i64, u8, u16, u32, u64);
}

mod float_binary {
    use super::*;
    macro_rules! floats {
        ($($t:ident),+) => {$(
            pub(super) fn $t(op: Binary) -> Option<BlockFn> {
                match op {
                    Binary::Add => map2!($t, $t, |x, y| x + y),
                    Binary::Sub => map2!($t, $t, |x, y| x - y),
                    Binary::Mul => map2!($t, $t, |x, y| x * y),
                    Binary::Div => map2!($t, $t, |x, y| x / y),
                    Binary::FloorDiv => map2!($t, $t, |x, y| (x / y).floor()),
                    Binary::Rem => map2!($t, $t, |x, y| {
                        let r = x % y;
                        if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
                    }),
                    Binary::Pow => map2!($t, $t, |x, y| x.powf(y)),
                    Binary::Min => map2!($t, $t, |x, y| if x < y || x.is_nan() { x } else { y }),
                    Binary::Max => map2!($t, $t, |x, y| if x > y || x.is_nan() { x } else { y }),
                    _ => None,
                }
            }
        )+};
    }
    floats!(f32, f64);
}

mod complex_binary {
    use super::*;
    macro_rules! complex {
        ($($t:ident),+) => {$(
            pub(super) fn $t(op: Binary) -> Option<BlockFn> {
                type C = Complex<$t>;
                match op {
                    Binary::Add => map2!(C, C, |x, y| x + y),
                    Binary::Sub => map2!(C, C, |x, y| x - y),
                    Binary::Mul => map2!(C, C, |x, y| x * y),
                    Binary::Div => map2!(C, C, |x, y| x / y),
                    Binary::Pow => map2!(C, C, |x, y| x.powc(y)),
                    Binary::Eq => map2!(C, u8, |x, y| u8::from(x == y)),
                    Binary::Ne => map2!(C, u8, |x, y| u8::from(x != y)),
                    _ => None,
                }
            }
        )+};
    }
    complex!(f32, f64);
}

mod compare {
    use super::*;
    macro_rules! all {
        ($($t:ident),+) => {$(
            pub(super) fn $t(op: Binary) -> Option<BlockFn> {
                match op {
                    Binary::Eq => map2!($t, u8, |x, y| u8::from(x == y)),
                    Binary::Ne => map2!($t, u8, |x, y| u8::from(x != y)),
                    Binary::Lt => map2!($t, u8, |x, y| u8::from(x < y)),
                    Binary::Le => map2!($t, u8, |x, y| u8::from(x <= y)),
                    Binary::Gt => map2!($t, u8, |x, y| u8::from(x > y)),
                    Binary::Ge => map2!($t, u8, |x, y| u8::from(x >= y)),
                    _ => None,
                }
            }
        )+};
    }
    all!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);
}

/// `dst[i] = a[i] != 0 ? b[i] : c[i]` for elements of this many bytes.
pub(crate) fn select(size: usize) -> Option<BlockFn> {
    macro_rules! of {
        ($t:ty) => {{
            unsafe fn run(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
                let (dst, b, c) = (dst.cast::<$t>(), b.cast::<$t>(), c.cast::<$t>());
                for i in 0..n {
                    // SAFETY: the caller promises `n` elements at each pointer.
                    unsafe {
                        let (x, y) = (b.add(i).read_unaligned(), c.add(i).read_unaligned());
                        dst.add(i).write_unaligned(if *a.add(i) != 0 { x } else { y });
                    }
                }
            }
            Some(run as BlockFn)
        }};
    }
    match size {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        8 => of!(u64),
        16 => of!(u128),
        _ => None,
    }
}

/// `dst[i] = *a` for elements of this many bytes.
pub(crate) fn splat(size: usize) -> Option<BlockFn> {
    macro_rules! of {
        ($t:ty) => {{
            unsafe fn run(dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
                // SAFETY: the caller promises one element at `a` and `n` at `dst`.
                unsafe {
                    let x = a.cast::<$t>().read_unaligned();
                    for i in 0..n {
                        dst.cast::<$t>().add(i).write_unaligned(x);
                    }
                }
            }
            Some(run as BlockFn)
        }};
    }
    match size {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        8 => of!(u64),
        16 => of!([u64; 2]),
        _ => None,
    }
}

/// `dst[i] = a[i]` for elements of this many bytes.
pub(crate) fn copy(size: usize) -> Option<BlockFn> {
    macro_rules! of {
        ($n:literal) => {{
            unsafe fn run(dst: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
                // SAFETY: the caller promises `n` elements at each pointer; a copy onto itself is allowed.
                unsafe { std::ptr::copy(a, dst, n * $n) }
            }
            Some(run as BlockFn)
        }};
    }
    match size {
        1 => of!(1),
        2 => of!(2),
        4 => of!(4),
        8 => of!(8),
        16 => of!(16),
        _ => None,
    }
}

/// A value that a cast reads: as each kind of number.
trait From1: Copy {
    fn int(self) -> i64;
    fn f64(self) -> f64;
    fn f32(self) -> f32;
    fn truth(self) -> bool;
    fn imaginary(self) -> f64 {
        0.0
    }
}

macro_rules! from_int {
    ($($t:ty),+) => {$(
        impl From1 for $t {
            fn int(self) -> i64 { self as i64 }
            fn f64(self) -> f64 { self as f64 }
            fn f32(self) -> f32 { self as f32 }
            fn truth(self) -> bool { self != 0 }
        }
    )+};
}
from_int!(i8, i16, i32, i64, u8, u16, u32, u64);

/// What a cast makes of a float: integers saturate. Integers go through [`From1::int`] and wrap.
macro_rules! casts_from {
    ($from:ty, $to:expr, float = $float:literal) => {
        match $to {
            DType::Bool => map1!($from, u8, |x| u8::from(x.truth())),
            DType::I8 => map1!($from, i8, |x| if $float { x.f64() as i8 } else { x.int() as i8 }),
            DType::I16 => map1!($from, i16, |x| if $float { x.f64() as i16 } else { x.int() as i16 }),
            DType::I32 => map1!($from, i32, |x| if $float { x.f64() as i32 } else { x.int() as i32 }),
            DType::I64 => map1!($from, i64, |x| if $float { x.f64() as i64 } else { x.int() }),
            DType::U8 => map1!($from, u8, |x| if $float { x.f64() as u8 } else { x.int() as u8 }),
            DType::U16 => map1!($from, u16, |x| if $float { x.f64() as u16 } else { x.int() as u16 }),
            DType::U32 => map1!($from, u32, |x| if $float { x.f64() as u32 } else { x.int() as u32 }),
            DType::U64 => map1!($from, u64, |x| if $float { x.f64() as u64 } else { x.int() as u64 }),
            DType::F16 => map1!($from, f32, |x| f16::from_f32(to_odd(x.f64())).to_f32()),
            DType::BF16 => map1!($from, f32, |x| bf16::from_f32(to_odd(x.f64())).to_f32()),
            DType::F32 => map1!($from, f32, |x| x.f32()),
            DType::F64 => map1!($from, f64, |x| x.f64()),
            DType::C64 => map1!($from, Complex<f32>, |x| Complex::new(x.f32(), x.imaginary() as f32)),
            DType::C128 => map1!($from, Complex<f64>, |x| Complex::new(x.f64(), x.imaginary())),
        }
    };
}

macro_rules! from_float {
    ($($t:ty),+) => {$(
        impl From1 for $t {
            fn int(self) -> i64 { self as i64 }
            fn f64(self) -> f64 { self as f64 }
            fn f32(self) -> f32 { self as f32 }
            fn truth(self) -> bool { self != 0.0 }
        }
        impl From1 for Complex<$t> {
            fn int(self) -> i64 { self.re as i64 }
            fn f64(self) -> f64 { self.re as f64 }
            fn f32(self) -> f32 { self.re as f32 }
            fn truth(self) -> bool { self.re != 0.0 || self.im != 0.0 }
            fn imaginary(self) -> f64 { self.im as f64 }
        }
    )+};
}
from_float!(f32, f64);

/// The value in another dtype. Half types are held as f32 on both sides; a cast to one rounds.
pub(crate) fn cast(from: DType, to: DType) -> Option<BlockFn> {
    match from.compute() {
        DType::Bool | DType::U8 => casts_from!(u8, to, float = false),
        DType::I8 => casts_from!(i8, to, float = false),
        DType::I16 => casts_from!(i16, to, float = false),
        DType::I32 => casts_from!(i32, to, float = false),
        DType::I64 => casts_from!(i64, to, float = false),
        DType::U16 => casts_from!(u16, to, float = false),
        DType::U32 => casts_from!(u32, to, float = false),
        DType::U64 => casts_from!(u64, to, float = false),
        DType::F32 => casts_from!(f32, to, float = true),
        DType::F64 => casts_from!(f64, to, float = true),
        DType::C64 => casts_from!(Complex<f32>, to, float = true),
        DType::C128 => casts_from!(Complex<f64>, to, float = true),
        DType::F16 | DType::BF16 => None,
    }
}

/// Memory of a half type to f32.
pub(crate) fn widen(half: DType) -> Option<BlockFn> {
    match half {
        DType::F16 => map1!(u16, f32, |x| f16::from_bits(x).to_f32()),
        DType::BF16 => map1!(u16, f32, |x| bf16::from_bits(x).to_f32()),
        _ => None,
    }
}

/// f32 to memory of a half type.
pub(crate) fn narrow(half: DType) -> Option<BlockFn> {
    match half {
        DType::F16 => map1!(f32, u16, |x| f16::from_f32(x).to_bits()),
        DType::BF16 => map1!(f32, u16, |x| bf16::from_f32(x).to_bits()),
        _ => None,
    }
}
