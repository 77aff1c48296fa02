//! Arithmetic and functions of real numbers with their errors.

use super::functions::{acosh, asinh, atanh, erf, sigmoid};
use super::value::{Format, Real, spread};
use super::{Binary, DType, Tolerance, Unary, pairs};

/// The function itself, in f64.
fn function(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Exp => x.exp(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Asinh => asinh(x),
        Unary::Acosh => acosh(x),
        Unary::Atanh => atanh(x),
        Unary::Exp2 => x.exp2(),
        Unary::Log2 => x.log2(),
        Unary::Log10 => x.log10(),
        Unary::Tanh => x.tanh(),
        Unary::Erf => erf(x),
        Unary::Sigmoid => sigmoid(x),
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => x.signum(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Trunc => x.trunc(),
        Unary::Round => x.round_ties_even(),
        Unary::Not | Unary::Imag => f64::NAN,
    }
}

/// The magnitude of the derivative at `x`, where the function has the value `y`.
fn slope(op: Unary, x: f64, y: f64) -> f64 {
    let d = match op {
        Unary::Sqrt => 0.5 / y,
        Unary::Rsqrt => 0.5 * y / x,
        Unary::Recip => y * y,
        Unary::Exp => y,
        Unary::Expm1 => y + 1.0,
        Unary::Log => 1.0 / x,
        Unary::Log1p => 1.0 / (1.0 + x),
        Unary::Sin | Unary::Cos => 1.0,
        Unary::Tanh => (1.0 - y * y).max(0.0),
        Unary::Tan => 1.0 + y * y,
        Unary::Asin | Unary::Acos => 1.0 / (1.0 - x * x).sqrt(),
        Unary::Atan => 1.0 / (1.0 + x * x),
        Unary::Sinh => x.cosh(),
        Unary::Cosh => x.sinh(),
        Unary::Asinh => 1.0 / x.hypot(1.0),
        Unary::Acosh => 1.0 / ((x - 1.0) * (x + 1.0)).sqrt(),
        Unary::Atanh => 1.0 / ((1.0 - x) * (1.0 + x)),
        Unary::Exp2 => y * std::f64::consts::LN_2,
        Unary::Log2 => std::f64::consts::LOG2_E / x,
        Unary::Log10 => std::f64::consts::LOG10_E / x,
        Unary::Erf => std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp(),
        Unary::Sigmoid => y * (1.0 - y),
        _ => 0.0,
    };
    if d.is_nan() { 0.0 } else { d.abs() }
}

pub(super) fn unary(op: Unary, a: Real, of: DType, t: Tolerance) -> Real {
    if a.e.is_infinite() {
        return Real::unknown();
    }
    let f = Format::of(of);
    let v = function(op, a.v);
    match op {
        Unary::Neg => return Real { v, quarter: -a.quarter, ..a },
        Unary::Abs => return Real { v, quarter: a.quarter.abs(), ..a },
        Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => {
            if a.e == 0.0 {
                return Real::new(v).loose_if_zero(a.v != 0.0 || a.loose_zero);
            }
            let e = spread(v, &[function(op, a.low()), function(op, a.high())]);
            return Real::within(v, e).loose_if_zero(true);
        }
        _ => {}
    }
    if matches!(op, Unary::Recip | Unary::Rsqrt) && a.v == 0.0 && a.e == 0.0 {
        let sure = !a.loose_zero && (op == Unary::Recip || a.v.is_sign_positive());
        return if sure { Real::new(v) } else { Real::unknown() };
    }
    // pi/2 is the one value at infinity that needs rounding.
    if !a.v.is_finite() && a.e == 0.0 && op != Unary::Atan {
        return Real::new(v);
    }
    let moved = if a.e == 0.0 {
        0.0
    } else {
        let (low, high) = (a.low(), a.high());
        match op {
            Unary::Sin | Unary::Cos => a.e.min(2.0),
            // A pole, or the edge of the domain, inside the range.
            Unary::Recip | Unary::Log | Unary::Log2 | Unary::Log10 | Unary::Rsqrt if low <= 0.0 && high >= 0.0 => {
                f64::INFINITY
            }
            Unary::Asin | Unary::Acos | Unary::Atanh if [-1.0, 1.0].iter().any(|edge| (low..=high).contains(edge)) => {
                f64::INFINITY
            }
            // Between two poles it is monotonic.
            Unary::Tan if a.e > 0.5 || low.cos() * high.cos() <= 0.0 => f64::INFINITY,
            Unary::Cosh => spread(v, &[low.cosh(), high.cosh()]).max(slope(op, a.v, v) * a.e) * 1.001,
            _ => {
                // All others are monotonic. The slope takes over where the ends are closer than the reference resolves.
                let ends = spread(v, &[function(op, low), function(op, high)]);
                if ends.is_infinite() { ends } else { ends.max(slope(op, a.v, v) * a.e) * 1.001 }
            }
        }
    };
    let exact_root = op == Unary::Sqrt && v.mul_add(v, -a.v) == 0.0;
    let exact_recip = op == Unary::Recip && v.mul_add(a.v, -1.0) == 0.0;
    if a.e == 0.0 && t.division_ulp <= 0.5 && (exact_root || exact_recip) && f.holds(v) {
        return Real::new(v);
    }
    let (ulps, own) = match op {
        Unary::Sqrt | Unary::Recip => (t.division_ulp, 1.0),
        Unary::Rsqrt => ((op.ulp() * t.ulp_factor).max(2.0 * t.division_ulp), 3.0),
        Unary::Erf | Unary::Sigmoid | Unary::Asinh | Unary::Acosh | Unary::Atanh => (op.ulp() * t.ulp_factor, 4.0),
        _ => (op.ulp() * t.ulp_factor, 2.0),
    };
    f.round(v, moved, ulps, own).loose_if_zero(a.loose_zero)
}

pub(super) fn binary(op: Binary, a: Real, b: Real, of: DType, t: Tolerance) -> Real {
    if a.e.is_infinite() || b.e.is_infinite() {
        return Real::unknown();
    }
    let f = Format::of(of);
    let loose = a.loose_zero || b.loose_zero;
    match op {
        Binary::Add => add(a, b, f).loose_if_zero(loose),
        Binary::Sub => add(a, Real { v: -b.v, quarter: -b.quarter, ..b }, f).loose_if_zero(loose),
        Binary::Mul => mul(a, b, f).loose_if_zero(loose),
        Binary::Div => div(a, b, f, t).loose_if_zero(loose),
        Binary::FloorDiv => floor_div(a, b, f, t),
        Binary::Rem => rem(a, b, f, t),
        Binary::Pow => pow(a, b, f, t),
        Binary::Atan2 => pairs::atan2(a, b, f, t),
        Binary::Hypot => pairs::hypot(a, b, f, t),
        Binary::CopySign => pairs::copy_sign(a, b),
        Binary::NextAfter => pairs::next_after(a, b, f, of),
        Binary::Fmod => pairs::fmod(a, b, f),
        Binary::Min => {
            let r = max(Real { v: -a.v, ..a }, Real { v: -b.v, ..b });
            Real { v: -r.v, ..r }
        }
        Binary::Max => max(a, b),
        _ => Real::unknown(),
    }
}

pub(super) fn add(a: Real, b: Real, f: Format) -> Real {
    let v = a.v + b.v;
    if a.quarter != 0.0 || b.quarter != 0.0 {
        // A product overflowed. Fused with this addition it does not, and the sum may even be finite.
        let part = |x: Real| if x.quarter != 0.0 { x.quarter } else { x.v * 0.25 };
        let fused = part(a) + part(b);
        let limit = if f.overflow.is_finite() { f.overflow * 0.25 } else { f64::MAX * 0.25 };
        let same = fused.is_infinite() && fused == v || fused.is_finite() && fused.abs() > limit * 1.001;
        return if same && v.is_infinite() && (fused > 0.0) == (v > 0.0) { Real::new(v) } else { Real::unknown() };
    }
    if !a.v.is_finite() || !b.v.is_finite() {
        return Real::new(v);
    }
    let moved = a.e + b.e;
    if moved == 0.0 && f.holds(v) && v.is_finite() {
        let t = v - a.v;
        if (a.v - (v - t)) + (b.v - t) == 0.0 {
            return Real::new(v);
        }
    }
    f.round(v, moved, 0.5, 1.0)
}

pub(super) fn mul(a: Real, b: Real, f: Format) -> Real {
    let v = a.v * b.v;
    if !a.v.is_finite() || !b.v.is_finite() {
        // An infinity times what may be zero, or of either sign.
        let unsure = |x: Real| x.v.is_finite() && x.v.abs() <= x.e && x.e > 0.0;
        let zero = |x: Real| x.v == 0.0 && x.e == 0.0;
        return if unsure(a) || unsure(b) {
            Real::unknown()
        } else if zero(a) || zero(b) {
            Real::new(f64::NAN)
        } else {
            Real::new(v)
        };
    }
    let moved = a.v.abs() * b.e + b.v.abs() * a.e + a.e * b.e;
    if moved == 0.0 && f.holds(v) {
        let zero = a.v == 0.0 || b.v == 0.0;
        if zero || (v != 0.0 && a.v.mul_add(b.v, -v) == 0.0) {
            return Real::new(v);
        }
    }
    let out = f.round(v, moved, 0.5, 1.0);
    if out.v.is_infinite() { Real { quarter: a.v * 0.25 * b.v, ..out } } else { out }
}

fn div(a: Real, b: Real, f: Format, t: Tolerance) -> Real {
    let v = a.v / b.v;
    // Where division is only nearly right, a subnormal operand may be taken for zero: of zero by zero nothing is known.
    let vanishes = |x: Real| x.v != 0.0 && x.v.abs() < f.tiny;
    if t.division_ulp > 0.5 && (vanishes(b) || vanishes(a) && b.v == 0.0) {
        return Real::unknown();
    }
    // Such devices multiply with the reciprocal, which vanishes where the divisor is too large.
    if t.division_ulp > 0.5 && v.is_finite() && b.v.is_finite() && b.v.abs() * f.tiny >= 0.25 {
        return Real::within(v, v.abs() * 1.01 + a.e + f.tiny).loose_if_zero(true);
    }
    if b.v == 0.0 && b.e == 0.0 {
        let sign_known = !b.loose_zero && (a.v.abs() > a.e || a.v.is_nan() || (a.v == 0.0 && a.e == 0.0));
        return if sign_known { Real::new(v) } else { Real::unknown() };
    }
    if b.v.abs() <= b.e && b.v.is_finite() {
        return if a.v.is_nan() { Real::new(v) } else { Real::unknown() };
    }
    if !a.v.is_finite() || !b.v.is_finite() {
        return Real::new(v);
    }
    let moved = (a.e + v.abs() * b.e) / (b.v.abs() - b.e);
    let moved = if moved.is_nan() { f64::INFINITY } else { moved };
    if moved == 0.0 && t.division_ulp <= 0.5 && f.holds(v) && (a.v == 0.0 || v != 0.0 && v.mul_add(b.v, -a.v) == 0.0) {
        return Real::new(v);
    }
    f.round(v, moved, t.division_ulp, 1.0)
}

fn floor_div(a: Real, b: Real, f: Format, t: Tolerance) -> Real {
    let q = div(a, b, f, t);
    if q.e.is_infinite() {
        return q;
    }
    let v = q.v.floor();
    if q.e == 0.0 {
        // A finite number by an infinity of the other sign: -0 rounded, or -1 exactly.
        let tail = b.v.is_infinite() && a.v.is_finite() && a.v != 0.0 && (a.v < 0.0) != (b.v < 0.0);
        return Real::within(v, if tail { 1.0 } else { 0.0 }).loose_if_zero(true);
    }
    // Taking off the remainder rounds twice more. Where that may be half a whole number or more, rounding down may then go
    // to the whole number below.
    let rounding = 2.0 * f.u * v.abs();
    let rounding = if rounding >= 0.5 { rounding + 1.0 } else { rounding };
    Real::within(v, spread(v, &[q.low().floor(), q.high().floor()]) + rounding).loose_if_zero(true)
}

fn rem(a: Real, b: Real, f: Format, t: Tolerance) -> Real {
    if a.v.is_nan() || b.v.is_nan() {
        return Real::new(f64::NAN);
    }
    if b.v.abs() <= b.e || (b.v.is_infinite() && a.v.is_finite()) {
        let zero = b.v == 0.0 && b.e == 0.0;
        return if zero { Real::new(f64::NAN) } else { Real::unknown() };
    }
    if a.v.is_infinite() {
        return Real::new(f64::NAN);
    }
    let r = a.v % b.v;
    let v = if r != 0.0 && (r < 0.0) != (b.v < 0.0) { r + b.v } else { r };
    let exact = a.e == 0.0 && b.e == 0.0;
    if exact && t.division_ulp <= 0.5 {
        return if v == r && f.holds(v) { Real::new(v) } else { f.round(v, 0.0, 0.5, 1.0) }.loose_if_zero(true);
    }
    // By way of a - floor(a / b) * b; where the quotient may fall to either side of an integer, any remainder may come.
    let q = a.v / b.v;
    let slack = (a.e + q.abs() * b.e) / (b.v.abs() - b.e) + 4.0 * t.division_ulp * f.u * q.abs();
    if (q - slack).floor() != (q + slack).floor() {
        return Real::within(v, b.v.abs() + b.e + 4.0 * f.u * a.v.abs() + a.e).loose_if_zero(true);
    }
    let moved = a.e + q.floor().abs() * b.e + if exact { 4.0 * f.u * a.v.abs() } else { 0.0 };
    f.round(v, moved, 0.5, 1.0).loose_if_zero(true)
}

fn pow(a: Real, b: Real, f: Format, t: Tolerance) -> Real {
    let v = a.v.powf(b.v);
    let ulps = Binary::Pow.ulp() * t.ulp_factor;
    if a.e == 0.0 && b.e == 0.0 {
        let edge = !a.v.is_finite() || !b.v.is_finite() || a.v == 0.0 || b.v == 0.0;
        if a.v == 0.0 && b.v < 0.0 && a.loose_zero {
            return Real::unknown();
        }
        return if edge || v.is_nan() { Real::new(v) } else { f.round(v, 0.0, ulps, 2.0) };
    }
    let (a0, a1, b0, b1) = (a.v - a.e, a.v + a.e, b.v - b.e, b.v + b.e);
    // Around zero, and for negative bases with an exponent that may not be an integer, anything may come.
    if (a0 <= 0.0 && a1 >= 0.0) || (a.v < 0.0 && b.e > 0.0) || !a.v.is_finite() || !b.v.is_finite() {
        return Real::unknown();
    }
    let corners = spread(v, &[a0.powf(b0), a0.powf(b1), a1.powf(b0), a1.powf(b1)]);
    let slope = v.abs() * (b.v.abs() * a.e / a.v.abs() + a.v.abs().ln().abs() * b.e);
    f.round(v, if corners.is_infinite() { corners } else { corners.max(slope) * 1.001 }, ulps, 2.0)
}

/// The larger; NaN if either is. Its error is that of the larger one, or of either where they may trade places.
pub(super) fn max(a: Real, b: Real) -> Real {
    if a.v.is_nan() || b.v.is_nan() {
        return Real::new(f64::NAN);
    }
    let v = a.v.max(b.v);
    let certain = a.v == v && a.v - b.v > (a.e + b.e) * 1.001 || b.v == v && b.v - a.v > (a.e + b.e) * 1.001;
    let e = match certain {
        true if a.v == v => a.e,
        true => b.e,
        false => a.e.max(b.e),
    };
    let mixed = a.v == 0.0 && b.v == 0.0 && a.v.is_sign_negative() != b.v.is_sign_negative();
    Real::within(v, e).loose_if_zero(mixed || a.loose_zero || b.loose_zero)
}
