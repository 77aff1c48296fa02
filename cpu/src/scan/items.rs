//! What is scanned and what it is accumulated in.
//!
//! f32 and narrower are accumulated in f64, sums of f64 with compensation, so that the error does not grow with the length. How totals
//! are grouped decides roundings, nothing else.

use half::{bf16, f16};
use num_complex::Complex;

pub(super) const SUM: u8 = 0;
pub(super) const PROD: u8 = 1;
pub(super) const MAX: u8 = 2;
pub(super) const MIN: u8 = 3;

/// An element and what it is accumulated in.
pub(super) trait Item: Copy {
    type Total: Copy;
    /// The total of nothing: joined or merged with it, any other stays as it is.
    fn identity<const OP: u8>() -> Self::Total;
    /// The total of one.
    #[inline(always)]
    fn first<const OP: u8>(self) -> Self::Total {
        Self::join::<OP>(Self::identity::<OP>(), self)
    }
    fn join<const OP: u8>(total: Self::Total, x: Self) -> Self::Total;
    /// The total of what two totals are of.
    fn merge<const OP: u8>(a: Self::Total, b: Self::Total) -> Self::Total;
    fn result(total: Self::Total) -> Self;
}

macro_rules! integers {
    ($($t:ty),+) => {$(
        impl Item for $t {
            type Total = $t;
            #[inline(always)]
            fn identity<const OP: u8>() -> $t {
                match OP {
                    SUM => 0,
                    PROD => 1,
                    MAX => <$t>::MIN,
                    _ => <$t>::MAX,
                }
            }
            #[inline(always)]
            fn join<const OP: u8>(total: $t, x: $t) -> $t {
                match OP {
                    SUM => total.wrapping_add(x),
                    PROD => total.wrapping_mul(x),
                    MAX => total.max(x),
                    _ => total.min(x),
                }
            }
            #[inline(always)]
            fn merge<const OP: u8>(a: $t, b: $t) -> $t {
                Self::join::<OP>(a, b)
            }
            #[inline(always)]
            fn result(total: $t) -> $t {
                total
            }
        }
    )+};
}
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// The larger or smaller; NaN if either is.
#[inline(always)]
fn extreme<const OP: u8>(a: f64, b: f64) -> f64 {
    let a_wins = if OP == MAX { a > b } else { a < b };
    // `a != a` and no call: this stands in loops that are to become vectors.
    #[allow(clippy::eq_op)]
    if a != a || (a_wins && b == b) { a } else { b }
}

#[inline(always)]
fn real<const OP: u8>(total: f64, x: f64) -> f64 {
    match OP {
        SUM => total + x,
        PROD => total * x,
        _ => extreme::<OP>(total, x),
    }
}

/// What leaves every number as it is, zeros with their signs.
pub(super) const fn neutral<const OP: u8>() -> f64 {
    match OP {
        SUM => -0.0,
        PROD => 1.0,
        MAX => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    }
}

macro_rules! floats {
    ($($t:ty, $to:expr, $from:expr);+) => {$(
        impl Item for $t {
            type Total = f64;
            #[inline(always)]
            fn identity<const OP: u8>() -> f64 {
                neutral::<OP>()
            }
            #[inline(always)]
            fn join<const OP: u8>(total: f64, x: $t) -> f64 {
                real::<OP>(total, $to(x))
            }
            #[inline(always)]
            fn merge<const OP: u8>(a: f64, b: f64) -> f64 {
                real::<OP>(a, b)
            }
            #[inline(always)]
            fn result(total: f64) -> $t {
                $from(total)
            }
        }
    )+};
}
// A sum in f64 that is rounded to f32 first keeps what a running sum in f32 would have as its best.
floats!(f32, f64::from, |x| x as f32; f16, |x: f16| x.to_f64(), |x| f16::from_f32(x as f32); bf16, |x: bf16| x.to_f64(), |x| bf16::from_f32(x as f32));

/// A sum, and what its additions lost.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Compensated {
    pub high: f64,
    pub low: f64,
}

impl Compensated {
    /// Exact but for the rounding of `low`, without a branch.
    #[inline(always)]
    pub(super) fn add(self, x: f64) -> Compensated {
        let high = self.high + x;
        let grown = high - self.high;
        let lost = (self.high - (high - grown)) + (x - grown);
        Compensated { high, low: self.low + lost }
    }

    #[inline(always)]
    pub(super) fn value(self) -> f64 {
        if self.high.is_finite() { self.high + self.low } else { self.high }
    }
}

impl Item for f64 {
    type Total = Compensated;
    #[inline(always)]
    fn identity<const OP: u8>() -> Compensated {
        Compensated { high: neutral::<OP>(), low: -0.0 }
    }
    #[inline(always)]
    fn join<const OP: u8>(total: Compensated, x: f64) -> Compensated {
        match OP {
            SUM => total.add(x),
            _ => Compensated { high: real::<OP>(total.high, x), low: -0.0 },
        }
    }
    #[inline(always)]
    fn merge<const OP: u8>(a: Compensated, b: Compensated) -> Compensated {
        let both = Self::join::<OP>(a, b.high);
        Compensated { low: both.low + b.low, ..both }
    }
    #[inline(always)]
    fn result(total: Compensated) -> f64 {
        total.value()
    }
}

#[inline(always)]
fn product(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

impl Item for Complex<f32> {
    type Total = Complex<f64>;
    #[inline(always)]
    fn identity<const OP: u8>() -> Complex<f64> {
        if OP == SUM { Complex::new(-0.0, -0.0) } else { Complex::new(1.0, 0.0) }
    }
    #[inline(always)]
    fn first<const OP: u8>(self) -> Complex<f64> {
        Complex::new(self.re.into(), self.im.into())
    }
    #[inline(always)]
    fn join<const OP: u8>(total: Complex<f64>, x: Complex<f32>) -> Complex<f64> {
        Self::merge::<OP>(total, Complex::new(x.re.into(), x.im.into()))
    }
    #[inline(always)]
    fn merge<const OP: u8>(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        if OP == SUM { a + b } else { product(a, b) }
    }
    #[inline(always)]
    fn result(total: Complex<f64>) -> Complex<f32> {
        Complex::new(total.re as f32, total.im as f32)
    }
}

impl Item for Complex<f64> {
    type Total = [Compensated; 2];
    #[inline(always)]
    fn identity<const OP: u8>() -> [Compensated; 2] {
        let Complex { re, im } = Complex::<f32>::identity::<OP>();
        [re, im].map(|high| Compensated { high, low: -0.0 })
    }
    #[inline(always)]
    fn first<const OP: u8>(self) -> [Compensated; 2] {
        [self.re, self.im].map(|high| Compensated { high, low: -0.0 })
    }
    #[inline(always)]
    fn join<const OP: u8>(total: [Compensated; 2], x: Complex<f64>) -> [Compensated; 2] {
        if OP == SUM {
            return [total[0].add(x.re), total[1].add(x.im)];
        }
        let Complex { re, im } = product(Self::result(total), x);
        [re, im].map(|high| Compensated { high, low: -0.0 })
    }
    #[inline(always)]
    fn merge<const OP: u8>(a: [Compensated; 2], b: [Compensated; 2]) -> [Compensated; 2] {
        if OP == SUM {
            [f64::merge::<SUM>(a[0], b[0]), f64::merge::<SUM>(a[1], b[1])]
        } else {
            Self::join::<OP>(a, Self::result(b))
        }
    }
    #[inline(always)]
    fn result(total: [Compensated; 2]) -> Complex<f64> {
        Complex::new(total[0].value(), total[1].value())
    }
}
