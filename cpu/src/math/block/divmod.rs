//! Python's `//` and `%` of floats, and C's remainder.

use super::float::Op2;
use crate::simd::{Float, Mask, Real, Simd};

/// a % b with the sign of b.
pub struct Rem;
/// floor(a / b), consistent with [`Rem`].
pub struct FloorDiv;

/// a % b with the sign of a, as in C; always exact.
pub struct Fmod;

/// The scalar forms, for quotients too large for the vector ones and for special values.
pub trait DivMod: Real {
    /// Quotients below it in size are found exactly by one division and one fused multiply-add.
    const LIMIT: f64;
    /// a % b.
    fn rem(a: Self, b: Self) -> Self;
    /// a // b.
    fn floor_div(a: Self, b: Self) -> Self;
    /// C's remainder.
    fn fmod(a: Self, b: Self) -> Self;
}

macro_rules! div_mod {
    ($t:ty, $limit:expr) => {
        impl DivMod for $t {
            const LIMIT: f64 = $limit;
            fn rem(a: $t, b: $t) -> $t {
                let r = a % b;
                if r == 0.0 {
                    (0.0 as $t).copysign(b)
                } else if (r < 0.0) != (b < 0.0) {
                    r + b
                } else {
                    r
                }
            }
            fn fmod(a: $t, b: $t) -> $t {
                a % b
            }
            fn floor_div(a: $t, b: $t) -> $t {
                if b == 0.0 || a.is_infinite() {
                    return a / b;
                }
                let r = a % b;
                let mut q = (a - r) / b;
                if r != 0.0 && (r < 0.0) != (b < 0.0) {
                    q -= 1.0;
                }
                if q == 0.0 {
                    return (0.0 as $t).copysign(a / b);
                }
                // q is whole but for its rounding.
                let whole = q.floor();
                if q - whole > 0.5 { whole + 1.0 } else { whole }
            }
        }
    };
}

div_mod!(f32, 4_194_304.0);
div_mod!(f64, 2_251_799_813_685_248.0);

/// (trunc(a / b), a - b trunc(a / b), lanes in which these are not to be trusted).
#[inline(always)]
fn truncated<S: Simd, T: DivMod>(s: S, a: T::V<S>, b: T::V<S>) -> (T::V<S>, T::V<S>, u32) {
    let zero = T::splat(s, T::from_f64(0.0));
    let one = T::splat(s, T::from_f64(1.0));
    let ratio = a / b;
    let q = ratio.trunc();
    // Exact, since the remainder fits; if the division was rounded up to q, it has the wrong sign.
    let r = q.neg_mul_add(b, a);
    let over = (r ^ a).is_negative() & !r.eq(zero);
    let towards = b.abs() | a.sign_bit();
    let r = T::V::<S>::select(over, r + towards, r);
    let q = T::V::<S>::select(over, q - (one | ratio.sign_bit()), q);
    let usual =
        ratio.abs().lt(T::splat(s, T::from_f64(T::LIMIT))) & b.abs().lt(T::splat(s, T::from_f64(f64::INFINITY)));
    (q, r, (!usual).bits())
}

/// (floor(a / b), a - b floor(a / b), lanes in which these are not to be trusted).
#[inline(always)]
fn divide<S: Simd, T: DivMod>(s: S, a: T::V<S>, b: T::V<S>) -> (T::V<S>, T::V<S>, u32) {
    let zero = T::splat(s, T::from_f64(0.0));
    let one = T::splat(s, T::from_f64(1.0));
    let (q, r, unusual) = truncated::<S, T>(s, a, b);
    let down = (r ^ b).is_negative() & !r.eq(zero);
    let r = T::V::<S>::select(down, r + b, r);
    let q = T::V::<S>::select(down, q - one, q);
    let r = T::V::<S>::select(r.eq(zero), b.sign_bit(), r);
    (q, r, unusual)
}

impl<T: DivMod> Op2<T> for Fmod {
    #[inline(always)]
    fn f<S: Simd>(s: S, a: T::V<S>, b: T::V<S>) -> T::V<S> {
        let (_, r, mask) = truncated::<S, T>(s, a, b);
        let r = r.abs() | a.sign_bit();
        if mask != 0 { a.patch2(b, mask, r, T::fmod) } else { r }
    }
}

impl<T: DivMod> Op2<T> for Rem {
    #[inline(always)]
    fn f<S: Simd>(s: S, a: T::V<S>, b: T::V<S>) -> T::V<S> {
        let (_, r, mask) = divide::<S, T>(s, a, b);
        if mask != 0 { a.patch2(b, mask, r, T::rem) } else { r }
    }
}

impl<T: DivMod> Op2<T> for FloorDiv {
    #[inline(always)]
    fn f<S: Simd>(s: S, a: T::V<S>, b: T::V<S>) -> T::V<S> {
        let (q, _, mask) = divide::<S, T>(s, a, b);
        if mask != 0 { a.patch2(b, mask, q, T::floor_div) } else { q }
    }
}
