//! The number next to another, by bits.

use super::complex::zip;
use super::each::Fn2;
use super::{Binary, BlockFn, DType, Form};
use crate::simd::Isa;
use half::{bf16, f16};

/// Of f32.
struct Single;
/// Of f64.
struct Double;
/// Of f16, held as f32.
struct Half;
/// Of bf16, held as f32.
struct Brain;

macro_rules! next {
    ($($name:ident $held:ty, $float:ty, $bits:ty, |$x:ident| $from:expr, |$y:ident| $to:expr;)+) => {$(
        impl Fn2 for $name {
            type A = $held;
            type B = $held;
            type R = $held;
            #[inline(always)]
            fn f(a: $held, b: $held) -> $held {
                let number = |$x: $held| -> $float { $from };
                let held = |$y: $float| -> $held { $to };
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                if a.is_nan() || b.is_nan() {
                    return <$held>::NAN;
                }
                let (p, q) = (number(a), number(b));
                let bits = p.to_bits();
                held(if p == q {
                    q
                } else if bits & !SIGN == 0 {
                    <$float>::from_bits(q.to_bits() & SIGN | 1)
                } else if (q > p) == (bits & SIGN == 0) {
                    <$float>::from_bits(bits + 1)
                } else {
                    <$float>::from_bits(bits - 1)
                })
            }
        }
    )+};
}

next! {
    Single f32, f32, u32, |x| x, |y| y;
    Double f64, f64, u64, |x| x, |y| y;
    Half f32, f16, u16, |x| f16::from_f32(x), |y| y.to_f32();
    Brain f32, bf16, u16, |x| bf16::from_f32(x), |y| y.to_f32();
}

/// See [`super::binary`].
pub fn binary(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    match (op, elem) {
        (Binary::NextAfter, DType::F32) => Some(zip::<Single>(isa, form)),
        (Binary::NextAfter, DType::F64) => Some(zip::<Double>(isa, form)),
        (Binary::NextAfter, DType::F16) => Some(zip::<Half>(isa, form)),
        (Binary::NextAfter, DType::BF16) => Some(zip::<Brain>(isa, form)),
        _ => None,
    }
}
