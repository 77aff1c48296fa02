//! Reductions and the sums of contractions, in whatever order a device takes.

use num_complex::Complex;

use super::complex;
use super::real;
use super::value::{Format, OWN, Pair, Real, Value, Whole};
use super::whole::wrap;
use super::{Binary, DType, Tolerance};
use crate::what::Reduce;

/// A sum with a compensation for what each addition lost.
#[derive(Clone, Copy, Default)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    fn add(&mut self, x: f64) {
        let sum = self.high + x;
        self.low += if self.high.abs() >= x.abs() { (self.high - sum) + x } else { (x - sum) + self.high };
        self.high = sum;
    }

    fn value(self) -> f64 {
        self.high + self.low
    }
}

/// The terms of a real sum: their sum, that of their magnitudes and errors, and what is not finite among them.
#[derive(Clone, Copy, Default)]
struct Terms {
    sum: Sum,
    magnitude: f64,
    error: f64,
    nan: bool,
    up: bool,
    down: bool,
    /// Whether the terms have both signs.
    negative: bool,
    positive: bool,
    loose: bool,
}

impl Terms {
    fn push(&mut self, v: f64, e: f64) {
        self.error += e;
        self.nan |= v.is_nan();
        self.up |= v == f64::INFINITY;
        self.down |= v == f64::NEG_INFINITY;
        self.negative |= v - e < 0.0;
        self.positive |= v + e > 0.0;
        self.loose |= v == 0.0;
        if v.is_finite() {
            self.sum.add(v);
            self.magnitude += v.abs();
        }
    }

    /// The sum as a device may give it, with an error of `units` roundoffs relative to the magnitudes; `flushed` terms or
    /// partial sums may have been flushed to zero.
    fn finish(self, f: Format, units: f64, flushed: f64) -> Real {
        let limit = if f.overflow.is_finite() { f.overflow } else { f64::MAX };
        let v = self.sum.value();
        let scale = self.magnitude + self.error;
        let error = self.error + (units * f.u + 2.0 * OWN) * scale + flushed * f.tiny;
        if !self.error.is_finite() {
            Real::unknown()
        } else if self.nan || (self.up && self.down) {
            Real::new(f64::NAN)
        } else if scale + error >= limit {
            // Partial sums may overflow, to either side unless all terms agree.
            let agree = !(self.negative && self.positive);
            match () {
                _ if agree && (self.up || self.down || v.abs() - error > limit) => {
                    Real::new(if self.positive { f64::INFINITY } else { f64::NEG_INFINITY })
                }
                _ => Real::unknown(),
            }
        } else if self.up || self.down {
            Real::new(if self.up { f64::INFINITY } else { f64::NEG_INFINITY })
        } else if self.magnitude == 0.0 && self.error == 0.0 {
            Real::new(0.0).loose_if_zero(self.loose)
        } else {
            Real::within(v, error).loose_if_zero(true)
        }
    }
}

/// The reduction of a row of values of dtype `of`.
pub(super) fn reduce(op: Reduce, values: &[Value], of: DType, t: Tolerance) -> Value {
    if values.is_empty() {
        return Value::from(op.identity(of));
    }
    match op {
        Reduce::Sum => sum(values, of, t),
        Reduce::Prod => product(values, of),
        Reduce::Max => extreme(values, Binary::Max, of, t),
        Reduce::Min => extreme(values, Binary::Min, of, t),
        Reduce::ArgMax => Value::Int(index_of(values, 1.0)),
        Reduce::ArgMin => Value::Int(index_of(values, -1.0)),
    }
}

fn unsure(values: &[Value]) -> bool {
    values.iter().any(|v| matches!(v, Value::Int(w) if w.e > 0.0))
}

fn sum(values: &[Value], of: DType, t: Tolerance) -> Value {
    let n = values.len() as f64;
    let units = n.min(256.0 + n.log2()) * if n > 1.0 { t.ulp_factor.max(1.0) } else { 0.0 };
    let f = Format::of(of);
    match values[0] {
        Value::Int(_) if unsure(values) => Value::Int(Whole::unknown(of)),
        Value::Int(_) => Value::int(wrap(ints(values).fold(0i128, i128::wrapping_add), of)),
        Value::Real(_) => {
            let mut terms = Terms::default();
            for r in reals(values) {
                terms.push(r.v, r.e);
            }
            Value::Real(terms.finish(f, units, 1.0))
        }
        Value::Complex(_) => {
            let (mut re, mut im, mut error) = (Terms::default(), Terms::default(), 0.0);
            for c in pairs(values) {
                re.push(c.v.re, 0.0);
                im.push(c.v.im, 0.0);
                error += c.e;
            }
            Value::Complex(both(re.finish(f, units, 1.0), im.finish(f, units, 1.0), error * (1.0 + units * f.u)))
        }
    }
}

fn both(re: Real, im: Real, error: f64) -> Pair {
    Pair { v: Complex::new(re.v, im.v), e: re.e.hypot(im.e) + error }
}

fn product(values: &[Value], of: DType) -> Value {
    let f = Format::of(of);
    let limit = if f.overflow.is_finite() { f.overflow } else { f64::MAX };
    match values[0] {
        Value::Int(_) if unsure(values) => Value::Int(Whole::unknown(of)),
        Value::Int(_) => Value::int(wrap(ints(values).fold(1i128, |p, v| wrap(p.wrapping_mul(v), of)), of)),
        Value::Real(_) => {
            let (mut v, mut e, mut large, mut small) = (1.0f64, 0.0f64, 1.0f64, 1.0f64);
            let (mut infinite, mut zero, mut loose) = (false, false, false);
            for r in reals(values) {
                if !r.e.is_finite() {
                    return Value::Real(Real::unknown());
                }
                infinite |= r.v.is_infinite();
                zero |= r.v.abs() <= r.e;
                loose |= r.v.abs() <= r.e && r.e > 0.0;
                if r.v.is_finite() {
                    large *= (r.v.abs() + r.e).max(1.0);
                    small *= (r.v.abs() - r.e).min(1.0);
                }
                e = e * (r.v.abs() + r.e) + v.abs() * r.e;
                v *= r.v;
            }
            if v.is_nan() && !zero && !infinite || reals(values).any(|r| r.v.is_nan()) {
                return Value::Real(Real::new(f64::NAN));
            }
            if infinite {
                // A product of finite numbers that underflows to zero makes NaN of the infinity.
                let vanishes = !zero && small < 2.0 * f.tiny;
                return Value::Real(if loose || vanishes { Real::unknown() } else { Real::new(v) });
            }
            if large >= limit * 0.5 {
                // Some order of multiplications overflows; all do only where nothing brings the product back.
                let sure = values.len() == 2 && v.abs() - e > limit;
                return Value::Real(if sure { Real::new(v * f64::INFINITY) } else { Real::unknown() });
            }
            let n = values.len() as f64;
            let rounding = if n > 1.0 { n * (f.u + OWN) * (v.abs() + e) + f.tiny * large * n } else { 0.0 };
            let certain = values.len() == 1 || (zero && !loose);
            Value::Real(Real::within(v, if certain { e } else { e + rounding }).loose_if_zero(true))
        }
        Value::Complex(_) => {
            let one = Pair { v: Complex::new(1.0, 0.0), e: 0.0 };
            let n = values.len() as f64;
            let large = pairs(values).fold(1.0, |p: f64, c| p * (c.v.norm() + c.e).max(1.0));
            // What is multiplied by a part that is no number is not promised, not even by the one that a product begins with.
            if pairs(values).any(|c| !c.v.is_finite()) || large.is_nan() || large >= limit * 0.25 {
                return Value::Complex(Pair::unknown());
            }
            let out = pairs(values).enumerate().fold(one, |p, (i, c)| if i == 0 { c } else { complex::mul(p, c, f) });
            Value::Complex(Pair { e: out.e + if n > 1.0 { n * 4.0 * f.tiny * large } else { 0.0 }, ..out })
        }
    }
}

fn extreme(values: &[Value], op: Binary, of: DType, t: Tolerance) -> Value {
    values[1..].iter().fold(values[0], |best, &v| super::binary(op, best, v, false, of, t))
}

/// The index of the largest of `sign * value`.
fn index_of(values: &[Value], sign: f64) -> Whole {
    let unknown = Whole::unknown(DType::I64);
    if unsure(values) {
        return unknown;
    }
    if let Value::Int(_) = values[0] {
        let sign = sign as i128;
        let mut best = 0;
        let all: Vec<i128> = ints(values).map(|v| v * sign).collect();
        for (i, v) in all.iter().enumerate() {
            if *v > all[best] {
                best = i;
            }
        }
        return Whole::new(best as i128);
    }
    let all: Vec<Real> = reals(values).map(|r| Real { v: r.v * sign, ..r }).collect();
    if all.iter().any(|r| r.e.is_infinite()) {
        return unknown;
    }
    if let Some(i) = all.iter().position(|r| r.v.is_nan()) {
        return Whole::new(i as i128);
    }
    let mut best = 0;
    for (i, r) in all.iter().enumerate() {
        if r.v > all[best].v {
            best = i;
        }
    }
    let winner = all[best];
    let rival = |r: &Real| {
        let margin = (r.e + winner.e) * 1.001;
        margin > 0.0 && r.v + margin >= winner.v
    };
    if all.iter().enumerate().any(|(i, r)| i != best && rival(r)) { unknown } else { Whole::new(best as i128) }
}

/// `sum of lhs * rhs`, both already in the accumulator's dtype.
pub(super) fn dot(lhs: &[Value], rhs: &[Value], acc: DType, t: Tolerance) -> Value {
    let n = lhs.len() as f64;
    let f = Format::of(acc);
    let factor = t.ulp_factor.max(1.0);
    match (lhs.first(), rhs.first()) {
        (Some(Value::Int(_)), Some(Value::Int(_))) => {
            if unsure(lhs) || unsure(rhs) {
                return Value::Int(Whole::unknown(acc));
            }
            let products = ints(lhs).zip(ints(rhs)).map(|(a, b)| a.wrapping_mul(b));
            Value::int(wrap(products.fold(0i128, |s, p| wrap(s.wrapping_add(p), acc)), acc))
        }
        (Some(Value::Real(_)), Some(Value::Real(_))) => {
            let mut terms = Terms::default();
            for (a, b) in reals(lhs).zip(reals(rhs)) {
                let error = a.v.abs() * b.e + b.v.abs() * a.e + a.e * b.e;
                let finite = a.v.is_finite() && b.v.is_finite();
                let p = if finite { Real::within(a.v * b.v, error) } else { real::mul(a, b, f) };
                // A product that overflows gives an infinity, or with a fused addition perhaps not.
                let over = finite && p.v.abs() + error >= f.overflow.min(f64::MAX);
                terms.push(p.v, if over { f64::INFINITY } else { p.e });
            }
            Value::Real(terms.finish(f, (n + 1.0) * factor, n))
        }
        (Some(Value::Complex(_)), Some(Value::Complex(_))) => {
            let (mut re, mut im, mut magnitude, mut error) = (Sum::default(), Sum::default(), 0.0, 0.0);
            for (a, b) in pairs(lhs).zip(pairs(rhs)) {
                let p = a.v * b.v;
                if !a.e.is_finite() || !b.e.is_finite() || !p.is_finite() {
                    return Value::Complex(Pair::unknown());
                }
                let (x, y) = (a.v.norm(), b.v.norm());
                error += x * b.e + y * a.e + a.e * b.e;
                magnitude += x * y;
                re.add(p.re);
                im.add(p.im);
            }
            let e = error + ((2.0 * n + 3.0) * factor * f.u + 8.0 * OWN) * (magnitude + error) + 4.0 * n * f.tiny;
            let limit = if f.overflow.is_finite() { f.overflow } else { f64::MAX };
            if !e.is_finite() || magnitude + e >= limit * 0.5 {
                return Value::Complex(Pair::unknown());
            }
            Value::Complex(Pair { v: Complex::new(re.value(), im.value()), e })
        }
        _ => Value::from(Reduce::Sum.identity(acc)),
    }
}

fn ints(values: &[Value]) -> impl Iterator<Item = i128> {
    values.iter().filter_map(|v| if let Value::Int(w) = v { Some(w.v) } else { None })
}

fn reals(values: &[Value]) -> impl Iterator<Item = Real> {
    values.iter().filter_map(|v| if let Value::Real(r) = v { Some(*r) } else { None })
}

fn pairs(values: &[Value]) -> impl Iterator<Item = Pair> {
    values.iter().filter_map(|v| if let Value::Complex(c) = v { Some(*c) } else { None })
}
