//! Complex arithmetic and functions with their errors: bounds on the modulus of the difference.
//!
//! The semantics say nothing about infinities, overflow inside a formula, or the sides of a branch cut at a negative zero:
//! such results are unknown. Bounds allow the textbook formulas.

use num_complex::Complex;

use super::value::{Format, OWN, Pair, Real};
use super::{Binary, DType, Tolerance, Unary};

/// The result `v` whose operands' errors move it by `moved`, computed with an error of `units` roundoffs relative to `scale`.
fn round(f: Format, v: Complex<f64>, moved: f64, units: f64, scale: f64) -> Pair {
    let e = moved + (units * f.u + 8.0 * OWN) * (scale + moved) + 4.0 * f.tiny;
    let limit = if f.overflow.is_finite() { f.overflow } else { f64::MAX };
    if !v.is_finite() || !e.is_finite() || v.re.abs().max(v.im.abs()) + e >= limit {
        return Pair::unknown();
    }
    Pair { v, e }
}

/// Whether the squares of the parts stay inside the format.
fn squares(f: Format, norm: f64) -> bool {
    let limit = if f.overflow.is_finite() { f.overflow } else { f64::MAX };
    norm < limit.sqrt() * 0.25 && norm > f.tiny.sqrt() * 1e4
}

/// The modulus.
pub(super) fn abs(a: Pair, of: DType, t: Tolerance) -> Real {
    let f = Format::of(of);
    let v = a.v.norm();
    if a.e == 0.0 && (v == 0.0 || a.v.re == 0.0 || a.v.im == 0.0) && (v == 0.0 || squares(f, v)) && v.is_finite() {
        return if v == 0.0 { Real::new(0.0) } else { f.round(v, 0.0, 2.0 * t.ulp_factor, 2.0) };
    }
    if !v.is_finite() || !a.e.is_finite() || v >= f64::MAX.sqrt() {
        return Real::unknown();
    }
    let moved = if squares(f, v) { a.e } else { a.e + 1e4 * f.tiny.sqrt() };
    if !squares(f, v) && v > 1.0 { Real::unknown() } else { f.round(v, moved, 2.0 * t.ulp_factor, 2.0) }
}

/// The number of these parts.
pub(super) fn join(re: Real, im: Real) -> Pair {
    Pair { v: Complex::new(re.v, im.v), e: if re.e == 0.0 { im.e } else { re.e.hypot(im.e) } }
}

/// Whether the value lies on the cut along the negative real axis, or may.
fn on_cut(a: Pair) -> bool {
    a.v.re <= a.e
        && (if a.e > 0.0 { a.v.im.abs() <= a.e } else { a.v.im == 0.0 && a.v.im.is_sign_negative() && a.v.re < 0.0 })
}

pub(super) fn unary(op: Unary, a: Pair, of: DType, t: Tolerance) -> Pair {
    if op == Unary::Neg {
        return Pair { v: -a.v, e: a.e };
    }
    if !a.v.is_finite() || !a.e.is_finite() {
        return Pair::unknown();
    }
    let f = Format::of(of);
    let (z, e, norm) = (a.v, a.e, a.v.norm());
    // Functions of a complex number are made of two or three of real ones.
    let units = 4.0 * op.ulp().max(1.0) * t.ulp_factor;
    match op {
        Unary::Recip => {
            if norm <= 2.0 * e || !squares(f, norm) {
                return Pair::unknown();
            }
            let v = z.inv();
            round(f, v, e / (norm * (norm - e)), 6.0 + 4.0 * t.division_ulp, v.norm())
        }
        Unary::Exp => {
            let v = z.exp();
            let scale = z.re.exp();
            round(f, v, scale * e.exp_m1() * 1.001, units, scale)
        }
        Unary::Log => {
            if norm <= 2.0 * e || on_cut(a) || !squares(f, norm) {
                return Pair::unknown();
            }
            let v = z.ln();
            // The logarithm of a modulus near one cancels: its error is absolute.
            round(f, v, e / (norm - e), units, v.norm() + 1.0)
        }
        Unary::Sqrt => {
            if on_cut(a) || (norm > 1.0 && !squares(f, norm)) {
                return Pair::unknown();
            }
            let v = z.sqrt();
            let small = if squares(f, norm) { 0.0 } else { (norm + 1e4 * f.tiny.sqrt()).sqrt() };
            let moved = if e <= norm * 0.5 { e / v.norm().max(f64::MIN_POSITIVE) } else { 2.0 * (norm + e).sqrt() };
            if norm == 0.0 && e == 0.0 {
                return Pair { v: Complex::ZERO, e: f.tiny };
            }
            round(f, v, moved + small, 2.0 * units, v.norm())
        }
        Unary::Sin | Unary::Cos => {
            let v = if op == Unary::Sin { z.sin() } else { z.cos() };
            let scale = (z.im.abs() + e).cosh();
            round(f, v, scale * e, 2.0 * units, scale)
        }
        Unary::Tanh => {
            let v = tanh(z);
            let slope = 1.0 + v.norm_sqr();
            if e * slope > 0.05 || v.norm() > 1e3 {
                return Pair::unknown();
            }
            round(f, v, 2.0 * e * slope, 2.0 * units, v.norm() + slope * (1.0 + norm.min(8.0)))
        }
        _ => Pair::unknown(),
    }
}

fn tanh(z: Complex<f64>) -> Complex<f64> {
    if z.re.abs() > 20.0 {
        let decay = (-2.0 * z.re.abs()).exp();
        return Complex::new(1f64.copysign(z.re), 2.0 * decay * (2.0 * z.im).sin());
    }
    let (x, y) = (2.0 * z.re, 2.0 * z.im);
    // cosh(x) + cos(y), without the cancellation near the poles that the sum would have.
    let (h, c) = (z.re.sinh(), z.im.cos());
    let d = 2.0 * (h * h + c * c);
    Complex::new(x.sinh() / d, y.sin() / d)
}

pub(super) fn binary(op: Binary, a: Pair, b: Pair, of: DType, t: Tolerance) -> Pair {
    if !a.e.is_finite() || !b.e.is_finite() {
        return Pair::unknown();
    }
    let f = Format::of(of);
    match op {
        Binary::Add => add(a, b, f),
        Binary::Sub => add(a, Pair { v: -b.v, e: b.e }, f),
        Binary::Mul => mul(a, b, f),
        _ if !a.v.is_finite() || !b.v.is_finite() => Pair::unknown(),
        Binary::Div => {
            let norm = b.v.norm();
            if norm <= 2.0 * b.e || !squares(f, norm) || a.v.norm() * norm.max(1.0) > f.overflow.min(f64::MAX) * 0.25 {
                return Pair::unknown();
            }
            let v = a.v / b.v;
            let moved = (a.e + v.norm() * b.e) / (norm - b.e);
            // The product with the conjugate may underflow on the way.
            let low = f.tiny / (norm * norm);
            round(f, v, moved + 4.0 * low, 8.0 + 4.0 * t.division_ulp, v.norm())
        }
        Binary::Pow => {
            let norm = a.v.norm();
            if norm <= 4.0 * a.e || on_cut(a) || !squares(f, norm) {
                return Pair::unknown();
            }
            let log = a.v.ln();
            let v = (b.v * log).exp();
            let relative = b.v.norm() * a.e / (norm - a.e) + (log.norm() + a.e / norm) * b.e;
            if relative > 0.25 {
                return Pair::unknown();
            }
            let units = 8.0 * Binary::Pow.ulp() * t.ulp_factor;
            round(f, v, v.norm() * relative * 1.5, units, v.norm() * (1.0 + b.v.norm() * (1.0 + log.norm())))
        }
        _ => Pair::unknown(),
    }
}

pub(super) fn add(a: Pair, b: Pair, f: Format) -> Pair {
    let part = |x: f64, y: f64| super::real::add(Real::new(x), Real::new(y), f);
    let (re, im) = (part(a.v.re, b.v.re), part(a.v.im, b.v.im));
    let carried = a.e + b.e;
    // The exact sum may need no rounding, but with errors in its operands the device's sum is another one.
    let rounding = if carried > 0.0 { f.u * (re.v.abs() + im.v.abs() + 2.0 * carried) } else { 0.0 };
    Pair { v: Complex::new(re.v, im.v), e: carried + (re.e + im.e) + rounding }
}

pub(super) fn mul(a: Pair, b: Pair, f: Format) -> Pair {
    if !a.v.is_finite() || !b.v.is_finite() {
        return Pair::unknown();
    }
    let (x, y) = (a.v.norm(), b.v.norm());
    let product = x * y;
    if product > f.overflow.min(f64::MAX) * 0.5 {
        return Pair::unknown();
    }
    if a.e == 0.0 && b.e == 0.0 && (x == 0.0 || y == 0.0) {
        return Pair { v: Complex::ZERO, e: 0.0 };
    }
    round(f, a.v * b.v, x * b.e + y * a.e + a.e * b.e, 3.0, product)
}
