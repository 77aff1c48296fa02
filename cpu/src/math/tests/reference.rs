//! Functions in double-double arithmetic (about 100 bits), against which the f64 functions are measured.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The unevaluated sum of two f64.
#[derive(Clone, Copy, Debug)]
pub struct Dd(pub f64, pub f64);

const LN2: Dd = Dd(std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);
const TWO_OVER_SQRT_PI: Dd = Dd(std::f64::consts::FRAC_2_SQRT_PI, 1.533_545_961_316_588e-17);
/// pi/2 in three parts of 53 bits.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];

fn two_sum(a: f64, b: f64) -> Dd {
    let s = a + b;
    let t = s - a;
    Dd(s, (a - (s - t)) + (b - t))
}

fn two_product(a: f64, b: f64) -> Dd {
    let p = a * b;
    Dd(p, a.mul_add(b, -p))
}

fn normal(a: f64, b: f64) -> Dd {
    let s = a + b;
    Dd(s, b - (s - a))
}

impl From<f64> for Dd {
    fn from(x: f64) -> Dd {
        Dd(x, 0.0)
    }
}

impl Neg for Dd {
    type Output = Dd;
    fn neg(self) -> Dd {
        Dd(-self.0, -self.1)
    }
}

impl Add for Dd {
    type Output = Dd;
    fn add(self, b: Dd) -> Dd {
        let (s, t) = (two_sum(self.0, b.0), two_sum(self.1, b.1));
        let r = normal(s.0, s.1 + t.0);
        normal(r.0, r.1 + t.1)
    }
}

impl Sub for Dd {
    type Output = Dd;
    fn sub(self, b: Dd) -> Dd {
        self + -b
    }
}

impl Mul for Dd {
    type Output = Dd;
    fn mul(self, b: Dd) -> Dd {
        let p = two_product(self.0, b.0);
        normal(p.0, p.1 + (self.0 * b.1 + self.1 * b.0))
    }
}

impl Div for Dd {
    type Output = Dd;
    fn div(self, b: Dd) -> Dd {
        let q = self.0 / b.0;
        let r = self - b * Dd::from(q);
        let q2 = r.0 / b.0;
        let r = r - b * Dd::from(q2);
        normal(q, q2) + Dd::from(r.0 / b.0)
    }
}

/// A value times a power of two, for results beyond the range of f64.
#[derive(Clone, Copy, Debug)]
pub struct Scaled(pub Dd, pub i32);

impl From<Dd> for Scaled {
    fn from(x: Dd) -> Scaled {
        Scaled(x, 0)
    }
}

fn times_two_to(x: f64, n: i32) -> f64 {
    let half = n / 2;
    x * 2f64.powi(half) * 2f64.powi(n - half)
}

impl Scaled {
    /// The distance of `got` from it, in units of the last place of an f64 of its size.
    pub fn ulps(self, got: f64) -> f64 {
        let Scaled(x, n) = self;
        if !got.is_finite() || !times_two_to(x.0, n).is_finite() {
            return if got == times_two_to(x.0, n) || (got.is_nan() && x.0.is_nan()) { 0.0 } else { f64::INFINITY };
        }
        // Compared at the size of x.
        let got = times_two_to(got, -n);
        let exponent = if x.0 == 0.0 { -1074 } else { (((x.0.to_bits() >> 52) & 0x7ff) as i32 - 1075).max(-1074 - n) };
        let difference = (Dd::from(got) - x).0.abs();
        times_two_to(difference, -exponent)
    }
}

/// (e^x - 1, n) for the r of x = n ln 2 + r.
fn reduced_expm1(x: Dd) -> (Dd, i32) {
    let n = (x.0 / LN2.0).round();
    let r = x - LN2 * Dd::from(n);
    let r = Dd(r.0 / 256.0, r.1 / 256.0);
    let mut e = Dd::from(0.0);
    for i in (1..16).rev() {
        e = (e + Dd::from(1.0)) * r / Dd::from(f64::from(i));
    }
    for _ in 0..8 {
        e = e * e + e + e;
    }
    (e, n as i32)
}

pub fn exp(x: Dd) -> Scaled {
    if x.0.abs() > 760.0 || x.0.is_nan() {
        return Dd::from(x.0.exp()).into();
    }
    let (e, n) = reduced_expm1(x);
    Scaled(e + Dd::from(1.0), n)
}

pub fn expm1(x: Dd) -> Scaled {
    if x.0.is_nan() {
        return x.into();
    }
    if x.0 > 1000.0 {
        return Dd::from(f64::INFINITY).into();
    }
    if x.0 < -100.0 {
        return Dd::from(-1.0).into();
    }
    let (e, n) = reduced_expm1(x);
    if n == 0 {
        return e.into();
    }
    // 2^n (1 + e) - 1 = 2^n (e + 1 - 2^-n).
    if n > 200 {
        return Scaled(e + Dd::from(1.0), n);
    }
    let p = 2f64.powi(n);
    (Dd(e.0 * p, e.1 * p) + Dd::from(p) - Dd::from(1.0)).into()
}

fn log1p_parts(x: Dd) -> Dd {
    let y = x.0.ln_1p();
    let Scaled(e, n) = expm1(Dd::from(y));
    debug_assert_eq!(n, 0);
    let d = (x - e) / (e + Dd::from(1.0));
    Dd::from(y) + d - d * d / Dd::from(2.0)
}

pub fn log(x: f64) -> Dd {
    if !(x > 0.0 && x.is_finite()) {
        return Dd::from(x.ln());
    }
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * 2f64.powi(60), -60.0) } else { (x, 0.0) };
    let n = x.log2().round();
    let m = times_two_to(x, -(n as i32));
    log1p_parts(Dd::from(m) - Dd::from(1.0)) + LN2 * Dd::from(n + shift)
}

pub fn log1p(x: f64) -> Dd {
    if x.abs() < 0.5 {
        return if x.abs() < 1e-200 { Dd::from(x) } else { log1p_parts(Dd::from(x)) };
    }
    if !(x > -1.0 && x.is_finite()) {
        return Dd::from(x.ln_1p());
    }
    let u = two_sum(1.0, x);
    // ln(u0 + u1) = ln u0 + ln(1 + u1 / u0).
    let small = Dd::from(u.1) / Dd::from(u.0);
    log(u.0) + small - small * small / Dd::from(2.0)
}

pub fn tanh(x: f64) -> Dd {
    if x.is_nan() || x.abs() > 30.0 {
        return Dd::from(x.tanh());
    }
    if x.abs() < 1e-200 {
        return Dd::from(x);
    }
    let Scaled(e, n) = expm1(Dd::from(2.0 * x));
    assert_eq!(n, 0);
    e / (e + Dd::from(2.0))
}

pub fn sigmoid(x: f64) -> Scaled {
    if x.is_nan() {
        return Dd::from(x).into();
    }
    if x > 0.0 {
        let Scaled(e, n) = exp(Dd::from(-x.min(750.0)));
        let p = times_two_to(1.0, n);
        return (Dd::from(1.0) / (Dd(e.0 * p, e.1 * p) + Dd::from(1.0))).into();
    }
    let Scaled(e, n) = exp(Dd::from(x.max(-750.0)));
    let p = times_two_to(1.0, n);
    Scaled(e / (Dd(e.0 * p, e.1 * p) + Dd::from(1.0)), n)
}

/// sin(x + quarter pi/2) for |x| <= 1e5.
pub fn sin(x: f64, quarter: i64) -> Dd {
    assert!(x.abs() <= 1e5);
    let n = (x / HALF_PI[0]).round();
    let mut r = Dd::from(x);
    for part in HALF_PI {
        r = r - two_product(n, part);
    }
    let quadrant = (n as i64 + quarter).rem_euclid(4);
    let r2 = r * r;
    let odd = quadrant % 2;
    // Taylor's series, from its smallest term.
    let mut sum = Dd::from(0.0);
    for i in (1..16).rev() {
        let (a, b) = if odd == 1 { (2 * i - 1, 2 * i) } else { (2 * i, 2 * i + 1) };
        sum = -(r2 * (sum + Dd::from(1.0))) / Dd::from((a * b) as f64);
    }
    let sum = if odd == 1 { sum + Dd::from(1.0) } else { sum * r + r };
    if quadrant >= 2 { -sum } else { sum }
}

pub fn erf(x: f64) -> Dd {
    let a = x.abs();
    if a.is_nan() || a > 7.0 {
        return Dd::from(if x.is_nan() { x } else { x.signum() });
    }
    if a < 1e-150 {
        return TWO_OVER_SQRT_PI * Dd::from(x);
    }
    // 2/sqrt(pi) e^(-x^2) times the sum of x (2 x^2)^k / (1 3 5 ... (2k+1)): all terms are positive.
    let x2 = two_product(a, a);
    let (mut term, mut sum, mut k) = (Dd::from(a), Dd::from(a), 1.0);
    while term.0 > sum.0 * 1e-33 {
        term = term * (x2 + x2) / Dd::from(2.0 * k + 1.0);
        sum = sum + term;
        k += 1.0;
    }
    let Scaled(e, n) = exp(-x2);
    let p = 2f64.powi(n);
    let y = TWO_OVER_SQRT_PI * sum * Dd(e.0 * p, e.1 * p);
    if x < 0.0 { -y } else { y }
}

pub fn rsqrt(x: f64) -> Dd {
    if !(x > 1e-300 && x < 1e300) {
        return Dd::from(1.0 / x.sqrt());
    }
    let y = 1.0 / x.sqrt();
    let rest = Dd::from(1.0) - Dd::from(x) * two_product(y, y);
    Dd::from(y) + rest * Dd::from(0.5 * y)
}

const PI: Dd = Dd(std::f64::consts::PI, 1.224_646_799_147_353_2e-16);
const LN10: Dd = Dd(std::f64::consts::LN_10, -2.170_756_223_382_249_4e-16);

fn half(x: Dd) -> Dd {
    Dd(x.0 * 0.5, x.1 * 0.5)
}

fn sqrt(x: Dd) -> Dd {
    if x.0 == 0.0 {
        return x;
    }
    let y = x.0.sqrt();
    Dd::from(y) + half((x - two_product(y, y)) / Dd::from(y))
}

/// For |x| <= 1e5.
pub fn tan(x: f64) -> Dd {
    if x.abs() < 1e-150 || x.is_nan() { Dd::from(x) } else { sin(x, 0) / sin(x, 1) }
}

/// asin of a sum, |x| <= 0.71, by a step of Newton's method.
fn asin_sum(x: Dd) -> Dd {
    if x.0.abs() < 1e-120 {
        return x;
    }
    let y = x.0.asin();
    Dd::from(y) + (x - sin(y, 0)) / sin(y, 1)
}

/// 2 asin sqrt((1 - a) / 2) = acos a for 1/2 <= a <= 1.
fn small_acos(a: f64) -> Dd {
    let y = asin_sum(sqrt(half(Dd::from(1.0) - Dd::from(a))));
    y + y
}

pub fn asin(x: f64) -> Dd {
    let a = x.abs();
    if a.is_nan() || a > 1.0 {
        return Dd::from(f64::NAN);
    }
    if a < 0.5 {
        return asin_sum(Dd::from(x));
    }
    let y = half(PI) - small_acos(a);
    if x < 0.0 { -y } else { y }
}

pub fn acos(x: f64) -> Dd {
    match x {
        _ if x.is_nan() || x.abs() > 1.0 => Dd::from(f64::NAN),
        _ if x.abs() < 0.5 => half(PI) - asin_sum(Dd::from(x)),
        _ if x > 0.0 => small_acos(x),
        _ => PI - small_acos(-x),
    }
}

pub fn atan(x: f64) -> Dd {
    let a = x.abs();
    if a.is_nan() || a < 1e-150 {
        return Dd::from(x);
    }
    let y = if a > 1e18 {
        half(PI) - Dd::from(1.0 / a)
    } else {
        // atan a - atan t = atan((a - t) / (1 + a t)).
        let t = tan(a.atan());
        Dd::from(a.atan()) + (Dd::from(a) - t) / (Dd::from(1.0) + Dd::from(a) * t)
    };
    if x < 0.0 { -y } else { y }
}

/// The angle of (x, y), for finite numbers whose quotient is a normal number.
pub fn atan2(y: f64, x: f64) -> Dd {
    let (ax, ay) = (x.abs(), y.abs());
    let q = Dd::from(ay.min(ax)) / Dd::from(ay.max(ax));
    let first = atan(q.0);
    let t = q.1 / (1.0 + q.0 * q.0);
    let angle = first + Dd::from(t);
    let angle = if ay > ax { half(PI) - angle } else { angle };
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    if y < 0.0 { -angle } else { angle }
}

pub fn sinh(x: f64) -> Scaled {
    let a = x.abs();
    if a.is_nan() || a < 1e-150 {
        return Dd::from(x).into();
    }
    let Scaled(y, n) = if a > 40.0 {
        let Scaled(e, n) = exp(Dd::from(a.min(750.0)));
        Scaled(e, n - 1)
    } else {
        let Scaled(e, _) = expm1(Dd::from(a));
        half(e + e / (e + Dd::from(1.0))).into()
    };
    Scaled(if x < 0.0 { -y } else { y }, n)
}

pub fn cosh(x: f64) -> Scaled {
    let a = x.abs();
    if a.is_nan() {
        return Dd::from(x).into();
    }
    let Scaled(e, n) = exp(Dd::from(a.min(750.0)));
    if a > 40.0 {
        return Scaled(e, n - 1);
    }
    let p = 2f64.powi(n);
    let e = Dd(e.0 * p, e.1 * p);
    half(e + Dd::from(1.0) / e).into()
}

pub fn asinh(x: f64) -> Dd {
    let a = x.abs();
    if a.is_nan() || a.is_infinite() || a < 1e-120 {
        return Dd::from(x);
    }
    let y = if a > 1e15 {
        log(a) + LN2
    } else {
        let y = a.asinh();
        Dd::from(y) + (Dd::from(a) - sinh(y).0) / cosh(y).0
    };
    if x < 0.0 { -y } else { y }
}

pub fn acosh(x: f64) -> Dd {
    if x.is_nan() || x < 1.0 {
        return Dd::from(f64::NAN);
    }
    if x == 1.0 || x.is_infinite() {
        return Dd::from(if x == 1.0 { 0.0 } else { x });
    }
    if x > 1e15 {
        return log(x) + LN2;
    }
    let t = x - 1.0;
    let y = (t + (t * (t + 2.0)).sqrt()).ln_1p();
    Dd::from(y) + (Dd::from(x) - cosh(y).0) / sinh(y).0
}

pub fn atanh(x: f64) -> Dd {
    if x.abs() >= 1.0 || x.is_nan() || x.abs() < 1e-120 {
        return Dd::from(if x.abs() < 0.5 { x } else { x.atanh() });
    }
    // atanh x - atanh t = atanh((x - t) / (1 - x t)).
    // The platform's loses digits near -1.
    let y = x.abs().atanh().copysign(x);
    let t = tanh(y);
    Dd::from(y) + (Dd::from(x) - t) / (Dd::from(1.0) - Dd::from(x) * t)
}

pub fn log2(x: f64) -> Dd {
    if x > 0.0 && x.is_finite() { log(x) / LN2 } else { Dd::from(x.ln()) }
}

pub fn log10(x: f64) -> Dd {
    if x > 0.0 && x.is_finite() { log(x) / LN10 } else { Dd::from(x.ln()) }
}

pub fn exp2(x: f64) -> Scaled {
    if x.is_nan() {
        return Dd::from(x).into();
    }
    exp(LN2 * Dd::from(x.clamp(-1090.0, 1090.0)))
}

/// sqrt(x^2 + y^2) for numbers whose squares are normal.
pub fn hypot(x: f64, y: f64) -> Dd {
    sqrt(two_product(x, x) + two_product(y, y))
}
