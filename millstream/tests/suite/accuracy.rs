//! Every function of one element within its documented bound (docs/functions.md), on every device there is here, measured in units in the
//! last place against a reference with more digits: f64 for f32 and the half types, a hundred bits for f64.
//!
//! The ordinary tests take a thin sample, `scripts/test --all` a dense one. The validation sets of NumPy are checked by
//! `MILLSTREAM_SETS=FOLDER cargo test --package millstream --test suite -- --ignored validation_sets`.

#[path = "../../../cpu/src/math/tests/reference.rs"]
#[allow(dead_code)]
mod reference;

use crate::common::{Random, devices};
use half::{bf16, f16};
use millstream::core::testing;
use millstream::core::what::{self, Tolerance, Unary};
use millstream::{DType, Device, Result, Tensor};
use reference::{Dd, Scaled};

/// A function, what computes it, and its references.
struct Function {
    op: Unary,
    of: fn(&Tensor) -> Tensor,
    /// For results of f32 and narrower ones.
    wide: fn(f64) -> f64,
    /// For results of f64.
    wider: fn(f64) -> Scaled,
}

impl Function {
    const fn new(op: Unary, of: fn(&Tensor) -> Tensor, wide: fn(f64) -> f64, wider: fn(f64) -> Scaled) -> Function {
        Function { op, of, wide, wider }
    }

    /// The documented bound on a device.
    fn bound(&self, t: Tolerance) -> f64 {
        match self.op {
            Unary::Sqrt | Unary::Recip => t.division_ulp,
            op => op.ulp() * t.ulp_factor,
        }
    }
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn rounded(x: f64) -> Scaled {
    Dd::from(x).into()
}

/// Beyond this the reference is the platform's function, itself within one unit.
const FAR: f64 = 1e5;

fn sine(x: f64, quarter: i64) -> Scaled {
    match x.abs() {
        a if a > FAR || x.is_nan() => rounded(if quarter == 0 { x.sin() } else { x.cos() }),
        a if a < 1e-150 && quarter == 0 => rounded(x),
        _ => reference::sin(x, quarter).into(),
    }
}

fn tangent(x: f64) -> Scaled {
    if x.abs() > FAR || x.is_nan() { rounded(x.tan()) } else { reference::tan(x).into() }
}

fn expm1(x: f64) -> Scaled {
    if x.abs() < 1e-290 { rounded(x) } else { reference::expm1(Dd::from(x)) }
}

#[rustfmt::skip]
const FUNCTIONS: &[Function] = &[
    Function::new(Unary::Neg, |x| x.neg(), |x| -x, |x| rounded(-x)),
    Function::new(Unary::Abs, |x| x.abs(), f64::abs, |x| rounded(x.abs())),
    Function::new(Unary::Sign, |x| x.sign(), sign, |x| rounded(sign(x))),
    Function::new(Unary::Floor, |x| x.floor(), f64::floor, |x| rounded(x.floor())),
    Function::new(Unary::Ceil, |x| x.ceil(), f64::ceil, |x| rounded(x.ceil())),
    Function::new(Unary::Trunc, |x| x.trunc(), f64::trunc, |x| rounded(x.trunc())),
    Function::new(Unary::Round, |x| x.round(), f64::round_ties_even, |x| rounded(x.round_ties_even())),
    Function::new(Unary::Sqrt, |x| x.sqrt(), f64::sqrt, |x| rounded(x.sqrt())),
    Function::new(Unary::Rsqrt, |x| x.rsqrt(), |x| 1.0 / x.sqrt(), |x| reference::rsqrt(x).into()),
    Function::new(Unary::Recip, |x| x.recip(), f64::recip, |x| rounded(x.recip())),
    Function::new(Unary::Exp, |x| x.exp(), f64::exp, |x| reference::exp(Dd::from(x))),
    Function::new(Unary::Expm1, |x| x.expm1(), f64::exp_m1, expm1),
    Function::new(Unary::Log, |x| x.log(), f64::ln, |x| reference::log(x).into()),
    Function::new(Unary::Log1p, |x| x.log1p(), f64::ln_1p, |x| reference::log1p(x).into()),
    Function::new(Unary::Sin, |x| x.sin(), f64::sin, |x| sine(x, 0)),
    Function::new(Unary::Cos, |x| x.cos(), f64::cos, |x| sine(x, 1)),
    Function::new(Unary::Tan, |x| x.tan(), f64::tan, tangent),
    Function::new(Unary::Asin, |x| x.asin(), f64::asin, |x| reference::asin(x).into()),
    Function::new(Unary::Acos, |x| x.acos(), f64::acos, |x| reference::acos(x).into()),
    Function::new(Unary::Atan, |x| x.atan(), f64::atan, |x| reference::atan(x).into()),
    Function::new(Unary::Sinh, |x| x.sinh(), f64::sinh, reference::sinh),
    Function::new(Unary::Cosh, |x| x.cosh(), f64::cosh, reference::cosh),
    Function::new(Unary::Asinh, |x| x.asinh(), what::asinh, |x| reference::asinh(x).into()),
    Function::new(Unary::Acosh, |x| x.acosh(), what::acosh, |x| reference::acosh(x).into()),
    Function::new(Unary::Atanh, |x| x.atanh(), what::atanh, |x| reference::atanh(x).into()),
    Function::new(Unary::Exp2, |x| x.exp2(), f64::exp2, reference::exp2),
    Function::new(Unary::Log2, |x| x.log2(), f64::log2, |x| reference::log2(x).into()),
    Function::new(Unary::Log10, |x| x.log10(), f64::log10, |x| reference::log10(x).into()),
    Function::new(Unary::Tanh, |x| x.tanh(), f64::tanh, |x| reference::tanh(x).into()),
    Function::new(Unary::Erf, |x| x.erf(), what::erf, |x| reference::erf(x).into()),
    Function::new(Unary::Sigmoid, |x| x.sigmoid(), sigmoid, reference::sigmoid),
];

/// One unit in the last place of an f32 of this size.
fn unit32(x: f64) -> f64 {
    let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).clamp(-126, 127);
    2f64.powi(exponent - 23)
}

/// Whether a device may give zero for a result of this size, which is subnormal in f32.
fn vanishes(want: f64, got: f64, t: Tolerance) -> bool {
    t != Tolerance::CPU && got == 0.0 && want.abs() < f64::from(f32::MIN_POSITIVE)
}

/// The distance from the exact value in units in the last place; infinite where a special value is wrong.
fn error32(want: f64, got: f32, t: Tolerance) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if want.is_infinite() {
        return if f64::from(got) == want { 0.0 } else { f64::INFINITY };
    }
    // Infinity counts as the number that would follow the largest.
    let most = 2f64.powi(128);
    let (got, want) = (f64::from(got).clamp(-most, most), want.clamp(-most, most));
    if vanishes(want, got, t) { 0.0 } else { (got - want).abs() / unit32(want) }
}

/// As [`error32`]: 0 for a half type's result that is what some f32 within the bound is rounded to, else infinite.
fn error16(want: f64, got: f64, bound: f64, round: fn(f64) -> f64, t: Tolerance) -> f64 {
    let slack = if want.is_finite() { (bound + 1e-6) * unit32(want) } else { 0.0 };
    let (low, high) = (round(want - slack), round(want + slack));
    let fits = if want.is_nan() { got.is_nan() } else { low <= got && got <= high };
    if fits || vanishes(want, got, t) { 0.0 } else { f64::INFINITY }
}

/// Numbers of every size, among them what functions are curved at, vanish at or end at. The given one makes a number from a f64, the
/// other from random bits.
fn sample<T: Copy>(random: &mut Random, count: usize, number: fn(f64) -> T, bits: fn(u64) -> T) -> Vec<T> {
    let edges = [0.0, 0.5, 1.0, 2.0, std::f64::consts::SQRT_2, 9.02, 17.33, 87.33, 88.72, 103.97, 709.78, 745.13, 1e5];
    let special = [f64::INFINITY, f64::NAN, f64::MAX, f32::MAX.into(), f32::MIN_POSITIVE.into(), f64::MIN_POSITIVE];
    let mut x: Vec<T> = edges.iter().chain(&special).flat_map(|&v| [number(v), number(-v)]).collect();
    while x.len() < count {
        let near = 2f64.powi(-(random.below(60) as i32)) * random.unit();
        let quarters = random.bits() >> (44 + random.below(20));
        x.extend([
            bits(random.bits()),
            bits(random.bits()),
            // Subnormal, or nearly.
            bits(random.bits() & !(0x7f << 24 | 0x7fe << 52)),
            number(random.unit()),
            number(random.unit() * 10.0),
            number(random.unit() * 120.0),
            number(random.unit() * 800.0),
            number(near),
            number(1.0 + near),
            number(near - 1.0),
            number(edges[random.below(edges.len())] * (1.0 + near * 1e-3)),
            // Near multiples of pi/2.
            number(quarters as f64 * std::f64::consts::FRAC_PI_2),
            number((random.below(4000) as f64 + near) * std::f64::consts::FRAC_PI_2),
            number(random.unit() * 10f64.powi(random.below(38) as i32)),
        ]);
    }
    x
}

/// The worst that was seen of one function in one dtype.
struct Worst {
    error: f64,
    text: String,
}

impl Worst {
    const NONE: Worst = Worst { error: 0.0, text: String::new() };

    fn see(&mut self, error: f64, text: impl FnOnce() -> String) {
        if error > self.error {
            *self = Worst { error, text: text() };
        }
    }
}

fn check32(f: &Function, x: &[f32], device: &Device) -> Result<Worst> {
    let t = device.profile().tolerance;
    let y = (f.of)(&Tensor::from_slice(x).to(device)).to_vec::<f32>()?;
    let mut worst = Worst::NONE;
    for (&x, y) in x.iter().zip(y) {
        let want = (f.wide)(x.into());
        worst.see(error32(want, y, t), || format!("{x:e} gives {y:e}, not {want:e}"));
    }
    Ok(worst)
}

fn check64(f: &Function, x: &[f64], device: &Device) -> Result<Worst> {
    let y = (f.of)(&Tensor::from_slice(x).to(device)).to_vec::<f64>()?;
    let mut worst = Worst::NONE;
    for (&x, y) in x.iter().zip(y) {
        let want = (f.wider)(x);
        let far = x.abs() > FAR && matches!(f.op, Unary::Sin | Unary::Cos | Unary::Tan);
        let error = (want.ulps(y) - if far { 1.0 } else { 0.0 }).max(0.0);
        worst.see(error, || format!("{x:e} gives {y:e}, not {want:?}"));
    }
    Ok(worst)
}

/// The number as f32, rounded to an odd last digit: rounded on to a half type it gives what one rounding would have.
fn odd(x: f64) -> f32 {
    let near = x as f32;
    let below = match f64::from(near).abs() > x.abs() {
        true => f32::from_bits(near.to_bits() - 1),
        false => near,
    };
    if f64::from(near) == x || x.is_nan() { near } else { f32::from_bits(below.to_bits() | 1) }
}

/// All numbers of a half type.
fn check16(f: &Function, dtype: DType, device: &Device) -> Result<Worst> {
    let t = device.profile().tolerance;
    let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let value = |w| if dtype == DType::F16 { f16::from_bits(w).to_f64() } else { bf16::from_bits(w).to_f64() };
    let round: fn(f64) -> f64 = match dtype {
        DType::F16 => |x| f16::from_f32(odd(x)).to_f64(),
        _ => |x| bf16::from_f32(odd(x)).to_f64(),
    };
    let y = (f.of)(&Tensor::from_bytes(&[1 << 16], dtype, &bits).to(device)).to_bytes()?;
    let mut worst = Worst::NONE;
    for (w, y) in (0..=u16::MAX).zip(y.chunks_exact(2)) {
        let (x, got) = (value(w), value(u16::from_le_bytes([y[0], y[1]])));
        let want = (f.wide)(x);
        worst.see(error16(want, got, f.bound(t), round, t), || format!("{x:e} gives {got:e}, not {want:e}"));
    }
    Ok(worst)
}

/// Prints the worst of a function; gives a line if it is out of bounds.
fn verdict(f: &Function, dtype: DType, device: &Device, worst: Worst) -> Option<String> {
    let (name, bound) = (f.op.name(), f.bound(device.profile().tolerance));
    let line = format!("{} {name} {dtype}: {:.3} ulp of {bound}; {}", device.name(), worst.error, worst.text);
    println!("{line}");
    // The reference itself is rounded.
    (worst.error > bound + 1e-6).then_some(line)
}

fn sweep(device: &Device, singles: usize, doubles: usize, halves: bool, random: &mut Random) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for f in FUNCTIONS {
        if singles > 0 {
            let x = sample(random, singles, |x| x as f32, |bits| f32::from_bits(bits as u32));
            out.extend(verdict(f, DType::F32, device, check32(f, &x, device)?));
        }
        if doubles > 0 {
            let x = sample(random, doubles, |x| x, f64::from_bits);
            out.extend(verdict(f, DType::F64, device, check64(f, &x, device)?));
        }
        for dtype in [DType::F16, DType::BF16].into_iter().filter(|_| halves) {
            out.extend(verdict(f, dtype, device, check16(f, dtype, device)?));
        }
    }
    Ok(out)
}

#[test]
fn every_function_keeps_its_bound_in_a_thin_sample() -> Result<()> {
    let mut random = Random::fresh();
    let mut out = Vec::new();
    for device in devices() {
        // Drivers in software compile for a while: the other dtypes are left to the dense sample.
        let (doubles, halves) = if device.is_host() { (2_000, true) } else { (0, false) };
        out.extend(sweep(&device, 20_000, doubles, halves, &mut random)?);
    }
    assert!(out.is_empty(), "{}", out.join("\n"));
    Ok(())
}

#[test]
#[ignore = "takes minutes"]
fn every_function_keeps_its_bound_in_a_dense_sample() -> Result<()> {
    let mut random = Random::fresh();
    let mut out = Vec::new();
    for device in devices() {
        out.extend(sweep(&device, 1 << 20, 1 << 16, true, &mut random)?);
    }
    assert!(out.is_empty(), "{}", out.join("\n"));
    Ok(())
}

/// The lines of NumPy's validation set of a function: argument and value, in a dtype.
fn set(folder: &str, name: &str, dtype: &str) -> Vec<(u64, u64)> {
    let path = format!("{folder}/umath-validation-set-{name}.csv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let word = |s: &str| u64::from_str_radix(s.trim().trim_start_matches("0x"), 16).ok();
    let pair = |line: &str| {
        let mut fields = line.split(',');
        let is = fields.next() == Some(dtype);
        Some((word(fields.next()?)?, word(fields.next()?)?)).filter(|_| is)
    };
    text.lines().filter_map(pair).collect()
}

/// NumPy's sets (numpy/_core/tests/data), from the folder that `MILLSTREAM_SETS` names. They hold rounded values.
#[test]
#[ignore = "needs files"]
fn every_function_agrees_with_the_validation_sets_of_numpy() -> Result<()> {
    let Ok(folder) = std::env::var("MILLSTREAM_SETS") else {
        testing::missing("validation sets", &"MILLSTREAM_SETS names no folder");
        return Ok(());
    };
    let names = ["asin", "acos", "atan", "asinh", "acosh", "atanh"];
    let mut out = Vec::new();
    for device in devices() {
        let t = device.profile().tolerance;
        for f in FUNCTIONS.iter().filter(|f| f.op.ulp() == 2.0) {
            let name = f.op.name();
            let file = if names.contains(&name) { format!("arc{}", &name[1..]) } else { name.to_string() };
            if matches!(f.op, Unary::Erf | Unary::Sigmoid | Unary::Rsqrt) {
                continue;
            }
            let pairs = set(&folder, &file, "np.float32");
            let x: Vec<f32> = pairs.iter().map(|p| f32::from_bits(p.0 as u32)).collect();
            let y = (f.of)(&Tensor::from_slice(&x).to(&device)).to_vec::<f32>()?;
            let mut worst = check32(f, &x, &device)?;
            for ((&x, y), want) in x.iter().zip(y).zip(pairs.iter().map(|p| f32::from_bits(p.1 as u32))) {
                worst.see(error32(want.into(), y, t) - 0.5, || format!("{x:e} gives {y:e}, not the set's {want:e}"));
            }
            out.extend(verdict(f, DType::F32, &device, worst));
            let pairs = set(&folder, &file, "np.float64");
            let x: Vec<f64> = pairs.iter().map(|p| f64::from_bits(p.0)).collect();
            let y = (f.of)(&Tensor::from_slice(&x).to(&device)).to_vec::<f64>()?;
            let mut worst = check64(f, &x, &device)?;
            for ((&x, y), want) in x.iter().zip(y).zip(pairs.iter().map(|p| f64::from_bits(p.1))) {
                worst.see(rounded(want).ulps(y) - 0.5, || format!("{x:e} gives {y:e}, not the set's {want:e}"));
            }
            out.extend(verdict(f, DType::F64, &device, worst));
        }
    }
    assert!(out.is_empty(), "{}", out.join("\n"));
    Ok(())
}
