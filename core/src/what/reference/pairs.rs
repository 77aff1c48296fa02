//! Functions of two real numbers with their errors: angles, magnitudes, signs, neighbours, remainders.

use half::{bf16, f16};

use super::value::{Format, Real};
use super::{Binary, DType, Tolerance};

pub(super) fn atan2(y: Real, x: Real, f: Format, t: Tolerance) -> Real {
    let v = y.v.atan2(x.v);
    if v.is_nan() {
        return Real::new(v);
    }
    let exact = y.e == 0.0 && x.e == 0.0;
    // The sign of a zero decides between 0 and pi; so small a point may be taken for the origin.
    let most = y.v.abs().max(x.v.abs());
    let origin = most == 0.0 && (y.loose_zero || x.loose_zero);
    let side = y.v == 0.0 && y.loose_zero;
    if origin || side || (most > 0.0 && most < 2.0 * f.tiny) {
        return Real::unknown();
    }
    let ulps = Binary::Atan2.ulp() * t.ulp_factor;
    if exact {
        return f.round(v, 0.0, ulps, 2.0).loose_if_zero(true);
    }
    let distance = y.v.hypot(x.v) - (x.e + y.e);
    // Around the origin, and where the sign of y may change on the left, anything may come.
    if !most.is_finite() || distance <= x.e + y.e || (x.v <= x.e && y.v.abs() <= y.e) {
        return Real::unknown();
    }
    f.round(v, 1.01 * (x.e + y.e) / distance, ulps, 2.0).loose_if_zero(true)
}

pub(super) fn hypot(a: Real, b: Real, f: Format, t: Tolerance) -> Real {
    f.round(a.v.hypot(b.v), a.e + b.e, Binary::Hypot.ulp() * t.ulp_factor, 2.0)
}

pub(super) fn copy_sign(a: Real, b: Real) -> Real {
    let v = a.v.copysign(b.v);
    // Nothing is said about the sign of NaN.
    let unsure = b.v.is_nan() || b.loose_zero || (b.e > 0.0 && b.v.abs() <= b.e);
    match unsure {
        true if a.v.is_nan() => Real::new(v),
        true if a.v == 0.0 && a.e == 0.0 => Real { loose_zero: true, ..Real::new(v) },
        true => Real::unknown(),
        false => Real::within(v, a.e),
    }
}

/// The bits after these, in the direction of others, of a sign and magnitude in so many bits.
fn next_bits(a: u64, b: u64, bits: u32) -> u64 {
    let sign = 1u64 << (bits - 1);
    let order = |x: u64| if x & sign != 0 { -((x & !sign) as i64) } else { x as i64 };
    let up = order(b) > order(a);
    match () {
        () if order(a) == order(b) => b,
        () if a & !sign == 0 => (b & sign) | 1,
        () if up == (a & sign == 0) => a + 1,
        () => a - 1,
    }
}

pub(super) fn next_after(a: Real, b: Real, f: Format, of: DType) -> Real {
    if a.v.is_nan() || b.v.is_nan() {
        return Real::new(f64::NAN);
    }
    let v = match of {
        DType::F16 => {
            let bits = |x: f64| u64::from(f16::from_f32(x as f32).to_bits());
            f16::from_bits(next_bits(bits(a.v), bits(b.v), 16) as u16).to_f64()
        }
        DType::BF16 => {
            let bits = |x: f64| u64::from(bf16::from_f32(x as f32).to_bits());
            bf16::from_bits(next_bits(bits(a.v), bits(b.v), 16) as u16).to_f64()
        }
        DType::F64 => f64::from_bits(next_bits(a.v.to_bits(), b.v.to_bits(), 64)),
        _ => {
            let bits = |x: f64| u64::from((x as f32).to_bits());
            f32::from_bits(next_bits(bits(a.v), bits(b.v), 32) as u32).into()
        }
    };
    let flushed = if v.abs() < f.tiny { f.tiny } else { 0.0 };
    if a.e == 0.0 && b.e == 0.0 {
        return Real { loose_zero: v == 0.0, ..Real::within(v, flushed) };
    }
    if !a.v.is_finite() || !v.is_finite() {
        return Real::unknown();
    }
    // Two steps to either side of what the first may be.
    Real { loose_zero: v == 0.0, ..Real::within(v, a.e + 4.0 * of.epsilon() * (a.v.abs() + a.e) + 4.0 * f.tiny) }
}

pub(super) fn fmod(a: Real, b: Real, f: Format) -> Real {
    if a.v.is_nan() || b.v.is_nan() || (a.v.is_infinite() && a.e == 0.0) {
        return Real::new(f64::NAN);
    }
    if b.v.abs() <= b.e || (b.v.is_infinite() && a.e > 0.0) {
        return if b.v == 0.0 && b.e == 0.0 { Real::new(f64::NAN) } else { Real::unknown() };
    }
    let v = a.v % b.v;
    if a.e == 0.0 && b.e == 0.0 {
        let flushed = if v.abs() < f.tiny && v != 0.0 { f.tiny } else { 0.0 };
        return Real::within(v, flushed).loose_if_zero(true);
    }
    // Where the quotient may fall to either side of an integer, any remainder may come.
    let q = a.v / b.v;
    let slack = 1.01 * (a.e + q.abs() * b.e) / (b.v.abs() - b.e);
    if (q - slack).trunc() != (q + slack).trunc() || (q - slack) * (q + slack) <= 0.0 {
        return Real::within(v, 2.0 * (b.v.abs() + b.e) + a.e).loose_if_zero(true);
    }
    f.round(v, a.e + q.trunc().abs() * b.e, 0.5, 1.0).loose_if_zero(true)
}
