//! Random inputs: a small generator, and values that find mistakes.

use half::{bf16, f16};
use num_complex::Complex;

use crate::what::{DType, Scalar};

/// A splittable generator of random words; the same seed gives the same words everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x6a09_e667_f3bc_c908)
    }

    /// The next word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for `n` = 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.word() % n as u64) as usize }
    }

    /// One of these; they are not empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number from `low` on, below `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A value of this dtype.
    pub fn value(&mut self, dtype: DType, domain: Domain) -> Scalar {
        match dtype {
            DType::Bool => Scalar::new(self.word() & 1 == 1),
            d if d.is_integer() => self.integer(d, domain),
            DType::C64 => {
                let (re, im) = (self.part(DType::F32, domain), self.part(DType::F32, domain));
                Scalar::new(Complex::new(re as f32, im as f32))
            }
            DType::C128 => Scalar::new(Complex::new(self.part(DType::F64, domain), self.part(DType::F64, domain))),
            d => Scalar::from_f64(self.float(d, domain), d),
        }
    }

    fn integer(&mut self, dtype: DType, domain: Domain) -> Scalar {
        let small = self.below(17) as i64 - 8;
        match domain {
            Domain::Ordinary => Scalar::from_int(self.below(201) as i64 - 100, dtype),
            Domain::Small => Scalar::from_int(small, dtype),
            Domain::Amount => Scalar::from_int(self.below(dtype.size() * 8 + 3) as i64 - 1, dtype),
            Domain::Any => match self.below(4) {
                0 => Scalar::from_int(small, dtype),
                1 => {
                    self.pick(&[Scalar::lowest(dtype), Scalar::highest(dtype), Scalar::zero(dtype), Scalar::one(dtype)])
                }
                _ => Scalar::from_int(self.word() as i64, dtype),
            },
        }
    }

    /// A part of a complex number: no infinities, since the rules say nothing about them.
    fn part(&mut self, dtype: DType, domain: Domain) -> f64 {
        match self.below(8) {
            0 => self.pick(&[0.0, 1.0, -1.0, 2.0]),
            _ if domain == Domain::Any => self.between(-8.0, 8.0),
            _ => self.float(dtype, Domain::Small),
        }
    }

    fn float(&mut self, dtype: DType, domain: Domain) -> f64 {
        let v = match domain {
            Domain::Ordinary => match self.below(8) {
                0 => self.below(9) as f64 - 4.0,
                _ => self.between(-4.0, 4.0),
            },
            Domain::Small => self.between(-2.0, 2.0),
            Domain::Amount => self.between(-6.0, 6.0).round(),
            Domain::Any => {
                let (low, high) = match dtype {
                    DType::F16 => (-14.0, 16.0),
                    DType::F64 => (-1000.0, 1000.0),
                    _ => (-120.0, 120.0),
                };
                match self.below(8) {
                    0 => self.special(dtype),
                    1 => self.below(41) as f64 * 0.5 - 10.0,
                    2 => {
                        let sign = if self.word() & 1 == 0 { 1.0 } else { -1.0 };
                        sign * self.between(low, high).exp2()
                    }
                    3 => self.between(-1000.0, 1000.0),
                    4 => self.between(-1e-3, 1e-3),
                    _ => self.between(-4.0, 4.0),
                }
            }
        };
        // Whether subnormal numbers survive is up to the device.
        let tiny = match dtype {
            DType::F16 => f16::MIN_POSITIVE.to_f64(),
            DType::BF16 => bf16::MIN_POSITIVE.to_f64(),
            DType::F32 => f64::from(f32::MIN_POSITIVE),
            _ => f64::MIN_POSITIVE,
        };
        if v.abs() < tiny { 0f64.copysign(v) } else { v }
    }

    fn special(&mut self, dtype: DType) -> f64 {
        let max = match dtype {
            DType::F16 => f16::MAX.to_f64(),
            DType::BF16 => bf16::MAX.to_f64(),
            DType::F32 => f64::from(f32::MAX),
            _ => f64::MAX,
        };
        let inf = f64::INFINITY;
        self.pick(&[0.0, -0.0, 1.0, -1.0, inf, -inf, f64::NAN, max, -max, 0.5, 1.5, 2.5, -0.5, -2.5, 88.0, -104.0])
    }
}

/// What kind of values an operand gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Everything the dtype holds, with its special values; of complex numbers finite parts.
    Any,
    /// Finite, of moderate size.
    Ordinary,
    /// Around zero: sums and products of a few of them stay moderate.
    Small,
    /// Shift amounts, also one too many and negative; small whole exponents.
    Amount,
}
