//! Inputs and measures.

use crate::host::{Host, Manner};

/// Random numbers that differ from run to run; the seed is printed, and `MILLSTREAM_SEED` repeats one.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let given = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok());
        let seed = given.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
        println!("MILLSTREAM_SEED={seed}");
        Random(seed | 1)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Evenly from `low` to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Any bits, but often of moderate size and sometimes special.
    pub fn f32(&mut self) -> f32 {
        let word = self.word();
        match word >> 60 {
            0 => SPECIAL[self.word() as usize % SPECIAL.len()],
            1..=4 => f32::from_bits(word as u32),
            5..=8 => self.between(-100.0, 100.0) as f32,
            9..=10 => self.between(-2.0, 2.0) as f32,
            11 => self.between(-1e5, 1e5) as f32,
            12 => (self.between(-64.0, 64.0) as f32).round() / 2.0,
            _ => (self.between(-30.0, 30.0).exp2() * if word & 1 == 0 { 1.0 } else { -1.0 }) as f32,
        }
    }

    /// Any bits, but often of moderate size and sometimes special.
    pub fn f64(&mut self) -> f64 {
        let word = self.word();
        match word >> 60 {
            0 => f64::from(SPECIAL[self.word() as usize % SPECIAL.len()]),
            1 => WIDE_SPECIAL[self.word() as usize % WIDE_SPECIAL.len()],
            // Quiet, since platforms differ about signalling ones.
            2..=4 => Some(f64::from_bits(self.word())).filter(|x| !x.is_nan()).unwrap_or(f64::NAN),
            5..=6 => self.between(-100.0, 100.0),
            7..=8 => self.between(-800.0, 800.0),
            9..=10 => self.between(-2.0, 2.0),
            11 => self.between(-1e5, 1e5),
            12 => self.between(-64.0, 64.0).round() / 2.0,
            _ => self.between(-60.0, 60.0).exp2() * if word & 1 == 0 { 1.0 } else { -1.0 },
        }
    }

    /// Any bits, but often small, near the ends, or single bits.
    pub fn i64(&mut self) -> i64 {
        let word = self.word();
        let sign = if word & 16 == 0 { 1 } else { -1 };
        match word & 7 {
            0 => (self.word() % 9) as i64 - 4,
            1 => ((self.word() % 140) as i64) * sign,
            2 => i64::MAX.wrapping_add((self.word() % 5) as i64 - 2),
            3 => (1i64 << (self.word() % 64)).wrapping_add((self.word() % 3) as i64 - 1).wrapping_mul(sign),
            _ => (self.word() as i64) >> (self.word() % 64),
        }
    }
}

pub const SPECIAL: [f32; 32] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    -3.0,
    1.5,
    2.5,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    1e-40,
    -1e-40,
    f32::EPSILON,
    0.99999994,
    1.0000001,
    -0.99999994,
    88.722_84,
    89.0,
    -87.336_55,
    -103.972_08,
    16777216.0,
];

pub const WIDE_SPECIAL: [f64; 16] = [
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    -f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    1e-310,
    f64::EPSILON,
    0.999_999_999_999_999_9,
    1.000_000_000_000_000_2,
    709.782_712_893_384,
    -745.133_219_101_941_1,
    -708.4,
    9_007_199_254_740_992.0,
    4_503_599_627_370_497.5,
    1e22,
];

/// The distance from `want` in units of the last place of an f32 of its size; infinite where a special value is wrong.
pub fn ulps32(want: f64, got: f32, manner: Manner) -> f64 {
    let nearest = want as f32;
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if want.is_infinite() {
        return if got == nearest { 0.0 } else { f64::INFINITY };
    }
    // Infinity counts as the number that would follow the largest.
    let got = if got.is_infinite() { 2f64.powi(128).copysign(got.into()) } else { f64::from(got) };
    let want = if nearest.is_infinite() { 2f64.powi(128).copysign(want) } else { want };
    let tiny = f64::from(f32::MIN_POSITIVE);
    if manner == Manner::Loose && want.abs() < 2.0 * tiny && (want - got).abs() <= tiny {
        return 0.0;
    }
    let exponent = if want.abs() < tiny { -126 } else { ((want.to_bits() >> 52 & 0x7ff) as i32 - 1023).min(127) };
    (want - got).abs() / 2f64.powi(exponent - 23)
}

/// The distance from `want`, itself rounded, in units of the last place of an f64 of its size.
pub fn ulps64(want: f64, got: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let order = |x: f64| if x.is_sign_negative() { -((x.to_bits() & !(1 << 63)) as i128) } else { x.to_bits() as i128 };
    (order(want) - order(got)).unsigned_abs() as f64
}

/// Applies a function of f32 to single words.
pub fn map32(host: &Host, name: &str, input: &[f32]) -> Vec<f32> {
    let words: Vec<u64> = input.iter().map(|x| x.to_bits().into()).collect();
    host.call(name, &words).into_iter().map(|w| f32::from_bits(w as u32)).collect()
}

/// Applies a function of f64 to single words.
pub fn map64(host: &Host, name: &str, input: &[f64]) -> Vec<f64> {
    let words: Vec<u64> = input.iter().map(|x| x.to_bits()).collect();
    host.call(name, &words).into_iter().map(f64::from_bits).collect()
}

/// The function itself.
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

/// The function itself.
pub fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}
