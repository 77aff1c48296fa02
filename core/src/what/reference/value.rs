//! Values with bounds, and what needs no arithmetic: casts, comparisons, selection, stores.

use half::{bf16, f16};
use num_complex::Complex;

use super::whole::{saturate, wrap};
use super::{Binary, DType, Exact, Scalar};
use crate::what::{philox, to_odd};

/// An integer, or a truth value as 0 or 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub v: i128,
    /// How far a device's value may be away; 0 where it is certain.
    pub e: f64,
}

/// A real number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Real {
    pub v: f64,
    /// How far a device's value may be away; infinite where nothing is known.
    pub e: f64,
    /// Of a product that overflowed to infinity: a quarter of its true value, since an addition may be fused with it.
    pub quarter: f64,
    /// Whether the sign of this zero depends on the device.
    pub loose_zero: bool,
}

/// A complex number, with a bound on the modulus of the difference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub v: Complex<f64>,
    pub e: f64,
}

/// A value of any kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Int(Whole),
    Real(Real),
    Complex(Pair),
}

impl Whole {
    pub fn new(v: i128) -> Whole {
        Whole { v, e: 0.0 }
    }

    pub fn unknown(dtype: DType) -> Whole {
        Whole { v: 0, e: if dtype == DType::Bool { 1.0 } else { f64::INFINITY } }
    }
}

impl Real {
    pub fn new(v: f64) -> Real {
        Real::within(v, 0.0)
    }

    pub fn within(v: f64, e: f64) -> Real {
        Real { v, e, quarter: 0.0, loose_zero: false }
    }

    pub fn unknown() -> Real {
        Real::within(0.0, f64::INFINITY)
    }

    /// The lower end of the range, or a little less.
    pub fn low(&self) -> f64 {
        (self.v - self.e).next_down()
    }

    /// The upper end of the range, or a little more.
    pub fn high(&self) -> f64 {
        (self.v + self.e).next_up()
    }

    pub fn loose_if_zero(self, loose: bool) -> Real {
        Real { loose_zero: loose && self.v == 0.0, ..self }
    }
}

impl Pair {
    pub fn unknown() -> Pair {
        Pair { v: Complex::ZERO, e: f64::INFINITY }
    }
}

/// What a device computes in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// The unit roundoff.
    pub u: f64,
    /// The smallest magnitude that rounds to infinity.
    pub overflow: f64,
    /// The smallest normal number.
    pub tiny: f64,
    single: bool,
}

/// The reference's own unit roundoff.
pub(super) const OWN: f64 = f64::EPSILON / 2.0;

impl Format {
    /// The format in which nodes of this dtype are held.
    pub fn of(dtype: DType) -> Format {
        match dtype {
            DType::F64 | DType::C128 => {
                Format { u: OWN, overflow: f64::INFINITY, tiny: f64::MIN_POSITIVE, single: false }
            }
            _ => Format {
                u: f64::from(f32::EPSILON) / 2.0,
                overflow: f64::from(f32::MAX) * (1.0 + f64::from(f32::EPSILON) / 4.0),
                tiny: f32::MIN_POSITIVE.into(),
                single: true,
            },
        }
    }

    /// Whether the format holds this number as it stands, normal or zero.
    pub fn holds(&self, v: f64) -> bool {
        if self.single {
            f64::from(v as f32) == v && (v == 0.0 || v.abs() >= self.tiny)
        } else {
            // Below this, the tests for exactness underflow themselves.
            v.is_finite() && (v == 0.0 || v.abs() > 1e-280)
        }
    }

    /// The result of an operation whose exact value on exact operands is `v` (within `own` units of the reference's
    /// roundoff), whose operands' errors move it by up to `spread`, and which a device computes to `ulps` units in the
    /// last place.
    pub fn round(&self, v: f64, spread: f64, ulps: f64, own: f64) -> Real {
        if v.is_nan() {
            return if spread > 0.0 { Real::unknown() } else { Real::new(v) };
        }
        if v.is_infinite() {
            return if spread == 0.0 { Real::new(v) } else { Real::unknown() };
        }
        let scale = v.abs() + spread;
        // The rounding itself decides about overflow; errors before it may move the value over the edge.
        let before = spread + ((ulps - 0.5).max(0.0) * 2.0 * self.u + own * OWN) * scale;
        if v.abs() - before >= self.overflow {
            return Real::new(f64::INFINITY.copysign(v));
        }
        if before.is_nan() || v.abs() + before >= self.overflow {
            return Real::unknown();
        }
        let flushed = if v.abs() - spread < 2.0 * self.tiny { self.tiny } else { 0.0 };
        Real::within(v, spread + (ulps * 2.0 * self.u + own * OWN) * scale + flushed)
    }
}

/// How far `v` is from the ends of a range it lies in; infinite where an end is of another kind.
pub(super) fn spread(v: f64, ends: &[f64]) -> f64 {
    ends.iter().fold(0.0, |s: f64, &end| {
        if end == v || (end.is_nan() && v.is_nan()) {
            s
        } else if end.is_finite() && v.is_finite() {
            s.max((end - v).abs())
        } else {
            f64::INFINITY
        }
    })
}

impl From<Scalar> for Value {
    fn from(s: Scalar) -> Value {
        match Exact::from(s) {
            Exact::Int(v) => Value::int(v),
            Exact::Float(v) => Value::Real(Real::new(v)),
            Exact::Complex(v) => Value::Complex(Pair { v, e: 0.0 }),
        }
    }
}

impl Value {
    pub fn int(v: i128) -> Value {
        Value::Int(Whole::new(v))
    }

    /// The random word of a number under a key.
    pub fn random(counter: Value, k0: Value, k1: Value) -> Value {
        match (counter, k0, k1) {
            (Value::Int(i), Value::Int(x), Value::Int(y)) if i.e + x.e + y.e == 0.0 => {
                Value::int(philox(i.v as u32, [x.v as u32, y.v as u32]).into())
            }
            _ => Value::Int(Whole::unknown(DType::U32)),
        }
    }

    /// `a` where the condition is true, else `b`; a value that covers both where it is not certain.
    pub fn select(condition: Value, a: Value, b: Value) -> Value {
        let Value::Int(c) = condition else { return a };
        if c.e == 0.0 {
            return if c.v != 0 { a } else { b };
        }
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => {
                Value::Int(Whole { v: a.v, e: a.e.max((a.v - b.v).unsigned_abs() as f64 + b.e) })
            }
            (Value::Real(a), Value::Real(b)) => Value::Real(Real {
                loose_zero: a.v == 0.0 && b.v == 0.0,
                ..Real::within(a.v, a.e.max(spread(a.v, &[b.v]) + b.e))
            }),
            (Value::Complex(a), Value::Complex(b)) => {
                let distance = spread(a.v.re, &[b.v.re]).hypot(spread(a.v.im, &[b.v.im]));
                Value::Complex(Pair { v: a.v, e: a.e.max(distance + b.e) })
            }
            (other, _) => other,
        }
    }

    /// The value in another dtype.
    pub fn cast(self, from: DType, to: DType) -> Value {
        match (self, to) {
            (Value::Int(a), DType::Bool) => {
                Value::Int(if a.e > 0.0 { Whole::unknown(to) } else { Whole::new((a.v != 0).into()) })
            }
            (Value::Int(a), _) if to.is_integer() => Value::Int(if a.e == 0.0 {
                Whole::new(wrap(a.v, to))
            } else if wrap(a.v, to) == a.v && wrap(a.v + a.e as i128, to) == a.v + a.e as i128 && a.e < 1e9 {
                a
            } else {
                Whole::unknown(to)
            }),
            (Value::Int(a), _) => {
                // Directly to f32 where that is the format: two roundings could differ from one.
                let exact = a.v as f64;
                let real = match Format::of(to) {
                    _ if a.e > 0.0 => Real::within(exact, a.e + 4.0 * Format::of(to).u * (exact.abs() + a.e)),
                    f if f.single && to.size() != 2 => Real::new((a.v as f32).into()),
                    _ => Real::new(exact),
                };
                Value::Real(real).cast(DType::F64, to)
            }
            (Value::Real(a), DType::Bool) => Value::Int(if a.e == 0.0 || a.v.abs() > a.e {
                Whole::new((a.v != 0.0).into())
            } else {
                Whole::unknown(to)
            }),
            (Value::Real(a), _) if to.is_integer() => Value::Int(integer(a, to)),
            (Value::Real(a), _) if to.is_complex() => match self.cast(from, to.real()) {
                Value::Real(r) => Value::Complex(Pair { v: Complex::new(r.v, 0.0), e: r.e }),
                _ => Value::Complex(Pair { v: Complex::new(a.v, 0.0), e: a.e }),
            },
            (Value::Real(a), _) => Value::Real(narrow(a, from.compute(), to)),
            (Value::Complex(a), DType::Bool) => Value::Int(if a.e == 0.0 || a.v.norm() > a.e {
                Whole::new((a.v != Complex::ZERO).into())
            } else {
                Whole::unknown(to)
            }),
            (Value::Complex(a), _) if to.is_complex() => {
                let part = |v: f64| narrow(Real::within(v, a.e), from.real(), to.real());
                let (re, im) = (part(a.v.re), part(a.v.im));
                let e = if re.e == 0.0 && im.e == 0.0 { 0.0 } else { re.e.hypot(im.e).max(a.e) };
                Value::Complex(Pair { v: Complex::new(re.v, im.v), e })
            }
            (Value::Complex(a), _) => Value::Real(Real::within(a.v.re, a.e)).cast(from.real(), to),
        }
    }

    /// What lies in memory after a store of a node of this dtype: the value and its bound.
    pub fn stored(self, dtype: DType) -> (Exact, f64) {
        match self {
            Value::Int(a) => (Exact::Int(a.v), a.e),
            Value::Real(a) => {
                let a = if dtype.size() == 2 { narrow(a, DType::F32, dtype) } else { a };
                (Exact::Float(a.v), a.e)
            }
            Value::Complex(a) => (Exact::Complex(a.v), a.e),
        }
    }

    /// The value where a device may, but need not, have stored it in its dtype in between.
    pub fn perhaps_stored(self, dtype: DType) -> Value {
        match self {
            Value::Real(a) if dtype.is_float() && dtype.size() == 2 => {
                let n = narrow(a, DType::F32, dtype);
                Value::Real(Real { e: a.e.max(spread(a.v, &[n.v]) + n.e), ..a })
            }
            other => other,
        }
    }
}

/// A real number as an integer: truncated, saturated; NaN gives 0.
fn integer(a: Real, to: DType) -> Whole {
    if a.e == 0.0 {
        return Whole::new(saturate(a.v, to));
    }
    if a.e.is_infinite() || a.v.is_nan() {
        return Whole::unknown(to);
    }
    let (low, v, high) = (saturate(a.low(), to), saturate(a.v, to), saturate(a.high(), to));
    Whole { v, e: (high - v).max(v - low) as f64 }
}

fn rounded(v: f64, to: DType) -> f64 {
    match to {
        // Their own conversions from f64 drop the lowest bits before they look for a tie.
        DType::F16 => f16::from_f32(to_odd(v)).to_f64(),
        DType::BF16 => bf16::from_f32(to_odd(v)).to_f64(),
        DType::F32 => f64::from(v as f32),
        _ => v,
    }
}

/// The value rounded to a float dtype. Rounding is monotonic: the ends of the range say where the result lies.
fn narrow(a: Real, from: DType, to: DType) -> Real {
    if a.e.is_infinite() || to == DType::F64 || (from == DType::F32 && to == DType::F32) {
        return a;
    }
    let v = rounded(a.v, to);
    let mut e = a.e;
    if from == DType::F64 && to.size() == 2 && f64::from(a.v as f32) != a.v && a.v.is_finite() {
        // By way of f32 it may be rounded twice.
        e += Format::of(to).u * (a.v.abs() + a.e);
    }
    let mut out = if e == 0.0 {
        Real::new(v)
    } else {
        match spread(v, &[rounded((a.v - e).next_down(), to), rounded((a.v + e).next_up(), to)]) {
            s if s.is_infinite() => Real::unknown(),
            s => Real::within(v, s),
        }
    };
    if to == DType::F32 && out.v.abs() < f64::from(f32::MIN_POSITIVE) && a.v != 0.0 {
        out.e += f64::from(f32::MIN_POSITIVE);
    }
    out.loose_if_zero(a.loose_zero)
}

/// A comparison; `same` if both operands are one node, which is equal to itself whatever its error.
pub(super) fn compare(op: Binary, a: Value, b: Value, same: bool) -> Whole {
    use std::cmp::Ordering::*;
    let unsure = Whole::unknown(DType::Bool);
    let order = match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            if !same && a.e + b.e > 0.0 && ((a.v - b.v).unsigned_abs() as f64) <= a.e + b.e {
                return unsure;
            }
            Some(a.v.cmp(&b.v))
        }
        (Value::Real(a), Value::Real(b)) => {
            if a.e.is_infinite() || b.e.is_infinite() {
                return unsure;
            }
            let margin = (a.e + b.e) * (1.0 + 1e-9);
            if !same && margin > 0.0 && (a.v - b.v).abs() <= margin {
                return unsure;
            }
            a.v.partial_cmp(&b.v)
        }
        (Value::Complex(a), Value::Complex(b)) => {
            if a.e.is_infinite() || b.e.is_infinite() {
                return unsure;
            }
            let margin = (a.e + b.e) * (1.0 + 1e-9);
            if !same && margin > 0.0 && (a.v - b.v).norm() <= margin {
                return unsure;
            }
            (a.v == b.v).then_some(Equal)
        }
        _ => None,
    };
    let result = match op {
        Binary::Eq => order == Some(Equal),
        Binary::Ne => order != Some(Equal),
        Binary::Lt => order == Some(Less),
        Binary::Le => matches!(order, Some(Less | Equal)),
        Binary::Gt => order == Some(Greater),
        _ => matches!(order, Some(Greater | Equal)),
    };
    Whole::new(result.into())
}
