//! Casts between every pair of element types, against `as` and against exact rounding.

use super::{Random, run1};
use crate::math::cast;
use crate::simd::Isa;
use half::{bf16, f16};
use millstream_core::DType;
use num_complex::Complex;

/// What a value is, exactly: every element type fits one of these.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Exact {
    Int(i128),
    Float(f64),
}

/// An element type of the test.
trait Element: Copy + std::fmt::Debug {
    const ELEM: DType;
    fn random(random: &mut Random) -> Self;
    fn exact(self) -> Exact;
    /// The stated conversion of an exact value.
    fn convert(x: Exact) -> Self;
    fn same(self, other: Self) -> bool;
}

macro_rules! ints {
    ($($t:ty, $elem:ident;)+) => {$(
        impl Element for $t {
            const ELEM: DType = DType::$elem;
            fn random(random: &mut Random) -> $t {
                match random.below(6) {
                    0 => <$t>::MIN,
                    1 => <$t>::MAX,
                    2 => 0,
                    3 => random.below(100) as $t,
                    // Of every size.
                    _ => (random.bits() >> random.below(64)) as $t,
                }
            }
            fn exact(self) -> Exact {
                Exact::Int(self as i128)
            }
            fn convert(x: Exact) -> $t {
                match x {
                    Exact::Int(x) => x as $t,
                    Exact::Float(x) => x as $t,
                }
            }
            fn same(self, other: $t) -> bool {
                self == other
            }
        }
    )+};
}

ints! { i8, I8; i16, I16; i32, I32; i64, I64; u8, U8; u16, U16; u32, U32; u64, U64; }

#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Bool(u8);

impl Element for Bool {
    const ELEM: DType = DType::Bool;
    fn random(random: &mut Random) -> Bool {
        Bool(random.below(2) as u8)
    }
    fn exact(self) -> Exact {
        Exact::Int(self.0.into())
    }
    fn convert(x: Exact) -> Bool {
        Bool(match x {
            Exact::Int(x) => (x != 0).into(),
            Exact::Float(x) => (x != 0.0).into(),
        })
    }
    fn same(self, other: Bool) -> bool {
        self.0 == other.0
    }
}

/// The nearest of two neighbours to an exact value, the one with an even last bit for a tie.
fn nearest<T: Copy>(x: Exact, guess: u16, value: impl Fn(u16) -> f64, make: impl Fn(u16) -> T) -> T {
    let distance = |bits: u16| match x {
        // Both below 2^64 with few bits: the difference is exact in i128.
        Exact::Int(x) if value(bits).is_finite() => (value(bits) as i128 - x).unsigned_abs() as f64,
        Exact::Int(_) => f64::INFINITY,
        Exact::Float(x) => (value(bits) - x).abs(),
    };
    let mut best = guess;
    for near in [guess.wrapping_sub(1), guess.wrapping_add(1)] {
        if value(near).is_nan() || value(near).is_infinite() || (near ^ guess) & 0x8000 != 0 {
            continue;
        }
        let (a, b) = (distance(near), distance(best));
        if a < b || (a == b && near & 1 == 0) {
            best = near;
        }
    }
    make(best)
}

macro_rules! halves {
    ($($t:ty, $elem:ident;)+) => {$(
        impl Element for $t {
            const ELEM: DType = DType::$elem;
            fn random(random: &mut Random) -> $t {
                <$t>::from_bits(random.bits() as u16)
            }
            fn exact(self) -> Exact {
                Exact::Float(self.to_f64())
            }
            fn convert(x: Exact) -> $t {
                let guess = match x {
                    Exact::Int(x) => <$t>::from_f64(x as f64),
                    Exact::Float(x) => <$t>::from_f64(x),
                };
                if guess.is_nan() || guess.is_infinite() {
                    return guess;
                }
                nearest(x, guess.to_bits(), |b| <$t>::from_bits(b).to_f64(), <$t>::from_bits)
            }
            fn same(self, other: $t) -> bool {
                self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
            }
        }
    )+};
}

halves! { f16, F16; bf16, BF16; }

macro_rules! floats {
    ($($t:ty, $elem:ident;)+) => {$(
        impl Element for $t {
            const ELEM: DType = DType::$elem;
            fn random(random: &mut Random) -> $t {
                match random.below(8) {
                    0 => <$t>::from_bits(random.bits() as _),
                    1 => <$t>::NAN,
                    2 => <$t>::INFINITY,
                    3 => <$t>::NEG_INFINITY,
                    4 => -0.0,
                    // Around the limits of the integers, and half way between f16 and bf16 values.
                    5 => (2f64.powi(random.below(66) as i32) * if random.below(2) == 0 { 1.0 } else { -1.0 }) as $t,
                    6 => {
                        let tie = (2049 + 2 * random.below(1000)) as f64 * 2f64.powi(random.below(20) as i32 - 25);
                        (tie + [0.0, 1e-14, -1e-14][random.below(3) as usize]) as $t
                    }
                    _ => ((random.unit() - 0.5) * 600.0) as $t,
                }
            }
            fn exact(self) -> Exact {
                Exact::Float(self.into())
            }
            fn convert(x: Exact) -> $t {
                match x {
                    Exact::Int(x) => x as $t,
                    Exact::Float(x) => x as $t,
                }
            }
            fn same(self, other: $t) -> bool {
                self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
            }
        }
    )+};
}

floats! { f32, F32; f64, F64; }

macro_rules! complexes {
    ($($t:ty, $elem:ident;)+) => {$(
        impl Element for Complex<$t> {
            const ELEM: DType = DType::$elem;
            fn random(random: &mut Random) -> Self {
                Complex::new(<$t as Element>::random(random), 0.0)
            }
            fn exact(self) -> Exact {
                Exact::Float(self.re.into())
            }
            fn convert(x: Exact) -> Self {
                Complex::new(<$t as Element>::convert(x), 0.0)
            }
            fn same(self, other: Self) -> bool {
                self.re.same(other.re) && self.im == other.im
            }
        }
    )+};
}

complexes! { f32, C64; f64, C128; }

fn check<A: Element, R: Element>() {
    let mut random = Random::new();
    for isa in Isa::available() {
        let kernel = cast(isa, A::ELEM, R::ELEM).unwrap();
        for n in [0, 1, 7, 31, 32, 33, 64, 65, 300] {
            let a: Vec<A> = (0..n + 1).map(|_| A::random(&mut random)).collect();
            let mut dst: Vec<R> = (0..n + 2).map(|_| R::random(&mut random)).collect();
            let guard = dst[n + 1];
            run1(kernel, &a[1..], &mut dst[1..=n]);
            for i in 1..=n {
                let want = R::convert(a[i].exact());
                let pair = (A::ELEM, R::ELEM);
                assert!(dst[i].same(want), "{pair:?} on {isa:?}: {:?} becomes {:?}, not {want:?}", a[i], dst[i]);
            }
            assert!(dst[n + 1].same(guard));
        }
    }
}

macro_rules! from_each {
    ($($name:ident $a:ty;)+) => {$(
        #[test]
        fn $name() {
            check::<$a, Bool>();
            check::<$a, i8>();
            check::<$a, i16>();
            check::<$a, i32>();
            check::<$a, i64>();
            check::<$a, u8>();
            check::<$a, u16>();
            check::<$a, u32>();
            check::<$a, u64>();
            check::<$a, f16>();
            check::<$a, bf16>();
            check::<$a, f32>();
            check::<$a, f64>();
            check::<$a, Complex<f32>>();
            check::<$a, Complex<f64>>();
        }
    )+};
}

from_each! {
    bool_becomes_every_type Bool;
    i8_becomes_every_type i8;
    i16_becomes_every_type i16;
    i32_becomes_every_type i32;
    i64_becomes_every_type i64;
    u8_becomes_every_type u8;
    u16_becomes_every_type u16;
    u32_becomes_every_type u32;
    u64_becomes_every_type u64;
    f16_becomes_every_type f16;
    bf16_becomes_every_type bf16;
    f32_becomes_every_type f32;
    f64_becomes_every_type f64;
    complex64_becomes_every_type Complex<f32>;
    complex128_becomes_every_type Complex<f64>;
}

#[test]
fn every_f16_and_bf16_goes_to_f32_and_back_unchanged() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    for isa in Isa::available() {
        for (elem, is_nan, value) in [
            (
                DType::F16,
                (|b| f16::from_bits(b).is_nan()) as fn(u16) -> bool,
                (|b| f16::from_bits(b).to_f32()) as fn(u16) -> f32,
            ),
            (DType::BF16, |b| bf16::from_bits(b).is_nan(), |b| bf16::from_bits(b).to_f32()),
        ] {
            let mut wide = vec![0f32; bits.len()];
            run1(cast(isa, elem, DType::F32).unwrap(), &bits, &mut wide);
            let mut back = vec![0u16; bits.len()];
            run1(cast(isa, DType::F32, elem).unwrap(), &wide, &mut back);
            for (i, &b) in bits.iter().enumerate() {
                if is_nan(b) {
                    assert!(wide[i].is_nan() && is_nan(back[i]));
                } else {
                    assert_eq!((wide[i].to_bits(), back[i]), (value(b).to_bits(), b), "{elem:?} on {isa:?}");
                }
            }
        }
    }
}
