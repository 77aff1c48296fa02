//! Functions of single elements: those made of others, complex numbers, promotion, and tensors made of numbers.

use millstream::{DType, ErrorKind, Indexing, Result, Tensor, Tolerance};
use num_complex::Complex;

type C = Complex<f64>;

/// Fresh numbers; the seed is printed and can be given as MILLSTREAM_SEED.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let given = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok());
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64);
        let seed = given.unwrap_or_else(now);
        println!("MILLSTREAM_SEED={seed}");
        Random(seed | 1)
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + (high - low) * (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn many(&mut self, count: usize, low: f64, high: f64) -> Vec<f64> {
        (0..count).map(|_| self.between(low, high)).collect()
    }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

type Case = (&'static str, fn(&Tensor) -> Tensor, fn(f64) -> f64);

const COMPOSED: &[Case] = &[
    ("softplus", |x| x.softplus(), softplus),
    ("log_sigmoid", |x| x.log_sigmoid(), |x| -softplus(-x)),
    ("elu", |x| x.elu(1.5), |x| if x > 0.0 { x } else { 1.5 * x.exp_m1() }),
    ("selu", |x| x.selu(), |x| 1.0507009873554805 * if x > 0.0 { x } else { 1.6732632423543772 * x.exp_m1() }),
    ("leaky_relu", |x| x.leaky_relu(0.1), |x| if x < 0.0 { 0.1 * x } else { x }),
    ("relu6", |x| x.relu6(), |x| x.clamp(0.0, 6.0)),
    ("hard_sigmoid", |x| x.hard_sigmoid(), |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
    ("hard_swish", |x| x.hard_swish(), |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
    ("mish", |x| x.mish(), |x| x * softplus(x).tanh()),
    ("softsign", |x| x.softsign(), |x| x / (1.0 + x.abs())),
    (
        "gelu_tanh",
        |x| x.gelu_tanh(),
        |x| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
    ),
    ("deg2rad", |x| x.deg2rad(), f64::to_radians),
    ("rad2deg", |x| x.rad2deg(), f64::to_degrees),
    ("tan", |x| x.tan(), f64::tan),
    ("atan", |x| x.atan(), f64::atan),
    ("sinh", |x| x.sinh(), f64::sinh),
    ("cosh", |x| x.cosh(), f64::cosh),
    ("asinh", |x| x.asinh(), f64::asinh),
    ("exp2", |x| x.exp2(), f64::exp2),
    ("logit of sigmoid", |x| x.sigmoid().logit(), |x| x),
];

#[test]
fn composed_functions_agree_with_their_formulas() -> Result<()> {
    let mut random = Random::new();
    let values = random.many(301, -6.0, 6.0);
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 2e-5), (DType::F16, 2e-2), (DType::BF16, 0.2)] {
        let x = Tensor::from_slice(&values).cast(dtype);
        // What the dtype holds is what is computed with.
        let held = x.cast(DType::F64).to_vec::<f64>()?;
        for (name, tensor, number) in COMPOSED {
            // The logit of what is nearly 1 in a half type says little.
            if *name == "logit of sigmoid" && dtype.size() == 2 {
                continue;
            }
            let y = tensor(&x);
            assert_eq!(y.dtype(), dtype, "{name}");
            for (&x, y) in held.iter().zip(y.cast(DType::F64).to_vec::<f64>()?) {
                let want = number(x);
                let scale = if *name == "tan" { 1.0 + want * want } else { 1.0 + want.abs() };
                assert!((y - want).abs() <= tolerance * scale, "{name} of {dtype}: {x} gives {y}, not {want}");
            }
        }
    }
    Ok(())
}

#[test]
fn every_half_gives_the_half_nearest_to_the_exact_value_or_its_neighbour() -> Result<()> {
    let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let functions: &[Case] = &[
        ("tan", |x| x.tan(), f64::tan),
        ("asin", |x| x.asin(), f64::asin),
        ("acos", |x| x.acos(), f64::acos),
        ("atan", |x| x.atan(), f64::atan),
        ("sinh", |x| x.sinh(), f64::sinh),
        ("cosh", |x| x.cosh(), f64::cosh),
        ("asinh", |x| x.asinh(), f64::asinh),
        ("atanh", |x| x.atanh(), f64::atanh),
        ("exp2", |x| x.exp2(), f64::exp2),
        ("log2", |x| x.log2(), f64::log2),
        ("log10", |x| x.log10(), f64::log10),
        ("exp", |x| x.exp(), f64::exp),
        ("log", |x| x.log(), f64::ln),
        ("sin", |x| x.sin(), f64::sin),
        ("cos", |x| x.cos(), f64::cos),
        ("tanh", |x| x.tanh(), f64::tanh),
    ];
    for dtype in [DType::F16, DType::BF16] {
        let x = Tensor::from_bytes(&[1 << 16], dtype, &bits);
        let held = x.cast(DType::F64).to_vec::<f64>()?;
        for (name, tensor, number) in functions {
            let exact: Vec<f64> = held.iter().map(|&x| number(x)).collect();
            let want = Tensor::from_slice(&exact).cast(dtype).to_bytes()?;
            let got = tensor(&x).to_bytes()?;
            let word = |b: &[u8], i: usize| u16::from_le_bytes([b[2 * i], b[2 * i + 1]]);
            let order = |w: u16| if w & 0x8000 != 0 { -i32::from(w & 0x7fff) } else { i32::from(w) };
            for i in 0..1 << 16 {
                let (g, w) = (word(&got, i), word(&want, i));
                let fine = if exact[i].is_nan() {
                    let limit = if dtype == DType::F16 { 0x7c00 } else { 0x7f80 };
                    g & 0x7fff > limit
                } else {
                    (order(g) - order(w)).abs() <= 1
                };
                assert!(fine, "{name} of {dtype} {:e}: bits {g:#x}, not {w:#x}", held[i]);
            }
        }
    }
    Ok(())
}

#[test]
fn special_values_are_told_apart() -> Result<()> {
    let x = Tensor::from_slice(&[0.0f64, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.5]);
    assert_eq!(x.isfinite().to_vec::<bool>()?, [true, true, false, false, false, true]);
    assert_eq!(x.isinf().to_vec::<bool>()?, [false, false, true, true, false, false]);
    assert_eq!(x.slice(0, ..4).signbit().to_vec::<bool>()?, [false, true, false, true]);
    assert_eq!(x.nan_to_num(7.0, None, Some(-2.0)).to_vec::<f64>()?, [0.0, 0.0, f64::MAX, -2.0, 7.0, -1.5]);
    let whole = Tensor::from_slice(&[3i32, -3]);
    assert_eq!(whole.isfinite().to_vec::<bool>()?, [true, true]);
    assert_eq!(whole.isinf().to_vec::<bool>()?, [false, false]);
    assert_eq!(whole.signbit().to_vec::<bool>()?, [false, true]);
    assert_eq!(whole.floor().dtype(), DType::I32);
    assert_eq!(whole.fmod(2).to_vec::<i32>()?, [1, -1]);
    assert_eq!(Tensor::from_slice(&[5.5f32, -5.5]).fmod(2.0).to_vec::<f32>()?, [1.5, -1.5]);
    assert_eq!(Tensor::from_slice(&[1.0f32]).nextafter(2.0).to_vec::<f32>()?, [1.0f32.next_up()]);
    assert_eq!(
        Tensor::from_slice(&[1.0f32, 0.0]).cast(DType::F16).nextafter(-1.0).cast(DType::F64).to_vec::<f64>()?,
        [1.0 - 2f64.powi(-11), -(2f64.powi(-24))]
    );
    assert_eq!(Tensor::from_slice(&[2.0f32]).copysign(-0.0).to_vec::<f32>()?, [-2.0]);
    assert_eq!(Tensor::from_slice(&[3i32]).hypot(4).to_vec::<f32>()?, [5.0]);
    let (inf, big) = (f64::INFINITY, 800.0);
    let y = Tensor::from_slice(&[-inf, inf, big]).logaddexp(&Tensor::from_slice(&[-inf, 1.0, big]));
    assert_eq!(y.to_vec::<f64>()?, [-inf, inf, big + std::f64::consts::LN_2]);
    Ok(())
}

#[test]
fn truth_values_and_closeness() -> Result<()> {
    let (x, y) = (Tensor::from_slice(&[0i32, 2, 0, 5]), Tensor::from_slice(&[0.0f32, 0.0, 0.5, -1.0]));
    assert_eq!(x.logical_and(&y).to_vec::<bool>()?, [false, false, false, true]);
    assert_eq!(x.logical_or(&y).to_vec::<bool>()?, [false, true, true, true]);
    assert_eq!(x.logical_xor(&y).to_vec::<bool>()?, [false, true, true, false]);
    assert_eq!(y.logical_not().to_vec::<bool>()?, [true, true, false, false]);
    let inf = f32::INFINITY;
    let a = Tensor::from_slice(&[1.0f32, inf, f32::NAN, inf]);
    let b = Tensor::from_slice(&[1.0f32 + 1e-6, inf, f32::NAN, 1.0]);
    assert_eq!(a.isclose(&b, Tolerance::new(1e-5, 0.0).equal_nan()).to_vec::<bool>()?, [true, true, true, false]);
    assert!(!a.allclose(&b, Tolerance::new(1e-5, 0.0)).item::<bool>()?);
    let clipped = Tensor::from_slice(&[-3i32, 4]).minimum(1);
    assert_eq!(clipped.to_vec::<i32>()?, [-3, 1]);
    assert_eq!(Tensor::from_slice(&[1.0f32]).lerp(3.0, 0.25).to_vec::<f32>()?, [1.5]);
    Ok(())
}

type ComplexCase = (&'static str, fn(&Tensor) -> Tensor, fn(C) -> C);

const COMPLEX: &[ComplexCase] = &[
    // As a quotient: the closed form of the other crate cancels near the poles.
    ("tan", |z| z.tan(), |z| z.sin() / z.cos()),
    ("sinh", |z| z.sinh(), |z| z.sinh()),
    ("cosh", |z| z.cosh(), |z| z.cosh()),
    ("asin", |z| z.asin(), |z| z.asin()),
    ("acos", |z| z.acos(), |z| z.acos()),
    ("atan", |z| z.atan(), |z| z.atan()),
    ("asinh", |z| z.asinh(), |z| z.asinh()),
    ("acosh", |z| z.acosh(), |z| z.acosh()),
    ("atanh", |z| z.atanh(), |z| z.atanh()),
    ("exp2", |z| z.exp2(), |z| (z * std::f64::consts::LN_2).exp()),
    ("expm1", |z| z.expm1(), |z| z.exp() - 1.0),
    ("log1p", |z| z.log1p(), |z| (z + 1.0).ln()),
    ("log2", |z| z.log2(), |z| z.ln() / std::f64::consts::LN_2),
    ("log10", |z| z.log10(), |z| z.ln() / std::f64::consts::LN_10),
    ("sign", |z| z.sign(), |z| z / z.norm()),
    ("rsqrt", |z| z.rsqrt(), |z| 1.0 / z.sqrt()),
    ("sigmoid", |z| z.sigmoid(), |z| 1.0 / (1.0 + (-z).exp())),
    ("round", |z| z.round(), |z| C::new(z.re.round_ties_even(), z.im.round_ties_even())),
    ("conj", |z| z.conj(), |z| z.conj()),
];

#[test]
fn functions_of_complex_numbers_agree_with_scalar_ones() -> Result<()> {
    let mut random = Random::new();
    let numbers: Vec<C> = (0..300).map(|_| C::new(random.between(-2.5, 2.5), random.between(-2.5, 2.5))).collect();
    // The bound that is documented: some ten roundoffs of the modulus.
    for (dtype, tolerance) in [(DType::C128, 10.0 * f64::EPSILON), (DType::C64, 10.0 * f64::from(f32::EPSILON))] {
        let z = Tensor::from_slice(&numbers).cast(dtype);
        let held = z.cast(DType::C128).to_vec::<C>()?;
        for (name, tensor, number) in COMPLEX {
            let got = tensor(&z);
            assert_eq!(got.dtype(), dtype, "{name}");
            for (&z, got) in held.iter().zip(got.cast(DType::C128).to_vec::<C>()?) {
                let want = number(z);
                // Near a pole or a branch point the argument's own rounding counts for more.
                let near = [C::new(1.0, 0.0), C::new(0.0, 1.0), C::new(0.0, 0.0)];
                if near.iter().any(|p| (z - p).norm() < 0.05 || (z + p).norm() < 0.05) || want.norm() > 20.0 {
                    continue;
                }
                let error = (got - want).norm();
                assert!(error <= tolerance * (1.0 + want.norm()), "{name} of {dtype}: {z} gives {got}, not {want}");
            }
        }
    }
    assert_eq!(Tensor::from_slice(&[C::new(1.0, 0.0)]).erf().check().unwrap_err().kind(), ErrorKind::DType);
    Ok(())
}

#[test]
fn parts_of_complex_numbers_come_and_go() -> Result<()> {
    let z = Tensor::from_slice(&[Complex::new(3.0f32, -4.0), Complex::new(-1.0, 0.0)]);
    assert_eq!(z.real().to_vec::<f32>()?, [3.0, -1.0]);
    assert_eq!(z.imag().to_vec::<f32>()?, [-4.0, 0.0]);
    assert_eq!(Tensor::complex(&z.real(), &z.imag()).to_vec::<Complex<f32>>()?, z.to_vec::<Complex<f32>>()?);
    let angle = z.angle().to_vec::<f32>()?;
    assert!((angle[0] - (-4f32).atan2(3.0)).abs() < 1e-6 && angle[1] == std::f32::consts::PI);
    let back = Tensor::polar(&z.abs(), &z.angle());
    assert!(back.isclose(&z, Tolerance::new(1e-5, 1e-6)).all(..).item::<bool>()?);
    assert_eq!(Tensor::complex(&Tensor::from_slice(&[1i32]), &Tensor::from_slice(&[2.0f64])).dtype(), DType::C128);
    let spread = Tensor::from_slice(&[Complex::new(3.0f32, 4.0), Complex::new(-3.0, -4.0)]);
    assert_eq!(spread.var(..).item::<f32>()?, 25.0);
    assert_eq!(z.mean(..).item::<Complex<f32>>()?, Complex::new(1.0, -2.0));
    Ok(())
}

/// The common dtype by the tables of the Python Array API: one row for each first dtype, in the order of the list.
#[test]
fn dtypes_meet_as_the_array_api_says() {
    use DType::*;
    let list = [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, C64, C128];
    let table = "
        Bool I8  I16 I32 I64 U8  U16 U32 U64 F32 F64 C64 C128
        I8   I8  I16 I32 I64 I16 I32 I64 -   F32 F64 C64 C128
        I16  I16 I16 I32 I64 I16 I32 I64 -   F32 F64 C64 C128
        I32  I32 I32 I32 I64 I32 I32 I64 -   F32 F64 C64 C128
        I64  I64 I64 I64 I64 I64 I64 I64 -   F32 F64 C64 C128
        U8   I16 I16 I32 I64 U8  U16 U32 U64 F32 F64 C64 C128
        U16  I32 I32 I32 I64 U16 U16 U32 U64 F32 F64 C64 C128
        U32  I64 I64 I64 I64 U32 U32 U32 U64 F32 F64 C64 C128
        U64  -   -   -   -   U64 U64 U64 U64 F32 F64 C64 C128
        F32  F32 F32 F32 F32 F32 F32 F32 F32 F32 F64 C64 C128
        F64  F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 C128 C128
        C64  C64 C64 C64 C64 C64 C64 C64 C64 C64 C128 C64 C128
        C128 C128 C128 C128 C128 C128 C128 C128 C128 C128 C128 C128 C128";
    let rows: Vec<Vec<&str>> = table.trim().lines().map(|l| l.split_whitespace().collect()).collect();
    for (a, row) in list.into_iter().zip(rows) {
        for (b, want) in list.into_iter().zip(row) {
            let sum = Tensor::ones(&[2], a) + Tensor::ones(&[2], b);
            match want {
                "-" => assert_eq!(sum.check().unwrap_err().kind(), ErrorKind::DType, "{a} and {b}"),
                want => assert_eq!(format!("{:?}", sum.dtype()), want, "{a} and {b}"),
            }
        }
    }
    // Half types beside each other and beside others: the wider, and f32 where neither holds the other.
    for (a, b, want) in [(F16, BF16, F32), (F16, F32, F32), (BF16, F64, F64), (I64, F16, F16), (BF16, C64, C64)] {
        assert_eq!((Tensor::ones(&[1], a) + Tensor::ones(&[1], b)).dtype(), want, "{a} and {b}");
    }
    // Plain numbers take the tensor's dtype, unless it cannot hold their kind.
    for d in DType::ALL {
        let x = Tensor::ones(&[1], d);
        let float = if d.is_float() || d.is_complex() { d } else { F32 };
        let int = if d == Bool { I64 } else { d };
        assert_eq!(((&x * 2).dtype(), (&x * 0.5).dtype(), (2 * &x).dtype()), (int, float, int), "{d}");
        assert_eq!(x.maximum_or_or(true), d, "{d}");
        assert_eq!((&x / 2).dtype(), float, "{d}");
        assert_eq!(x.eq(1).dtype(), Bool, "{d}");
    }
}

/// The dtype of an operation with a truth value.
trait BesideTruth {
    fn maximum_or_or(&self, value: bool) -> DType;
}

impl BesideTruth for Tensor {
    fn maximum_or_or(&self, value: bool) -> DType {
        (self + value).dtype()
    }
}

#[test]
fn sums_widen_and_means_are_fractions() {
    for (d, sum, mean) in [
        (DType::Bool, DType::I64, DType::F32),
        (DType::I8, DType::I64, DType::F32),
        (DType::U16, DType::U64, DType::F32),
        (DType::F16, DType::F16, DType::F16),
        (DType::F64, DType::F64, DType::F64),
        (DType::C64, DType::C64, DType::C64),
    ] {
        let x = Tensor::ones(&[3], d);
        assert_eq!((x.sum(..).dtype(), x.prod(..).dtype()), (sum, sum), "{d}");
        assert_eq!(x.mean(..).dtype(), mean, "{d}");
        assert_eq!(x.std(..).dtype(), mean.real(), "{d}");
    }
}

#[test]
fn ranges_and_grids_have_the_numbers_they_say() -> Result<()> {
    let thirds = Tensor::linspace(0.0, 1.0, 4, DType::F64).to_vec::<f64>()?;
    assert_eq!((thirds[0], thirds[3]), (0.0, 1.0));
    assert!((thirds[1] - 1.0 / 3.0).abs() < 1e-15 && (thirds[2] - 2.0 / 3.0).abs() < 1e-15);
    assert_eq!(Tensor::linspace(3.0, 9.0, 1, DType::F32).to_vec::<f32>()?, [3.0]);
    assert!(Tensor::linspace(3.0, 9.0, 0, DType::F32).to_vec::<f32>()?.is_empty());
    assert_eq!(Tensor::linspace(0.0, 1000.0, 3, DType::F16).cast(DType::F32).to_vec::<f32>()?, [0.0, 500.0, 1000.0]);
    assert_eq!(Tensor::logspace(0.0, 3.0, 4, 2.0, DType::F32).to_vec::<f32>()?, [1.0, 2.0, 4.0, 8.0]);
    let tens = Tensor::logspace(0.0, 2.0, 3, 10.0, DType::F64).to_vec::<f64>()?;
    assert!(tens.iter().zip([1.0, 10.0, 100.0]).all(|(a, b)| (a / b - 1.0).abs() < 1e-15), "{tens:?}");
    let powers = Tensor::geomspace(-1.0, -8.0, 4, DType::F32).to_vec::<f32>()?;
    assert_eq!(powers, [-1.0, -2.0, -4.0, -8.0]);
    assert_eq!(Tensor::geomspace(-1.0, 8.0, 4, DType::F32).check().unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(Tensor::arange_by(0.0, 1.0, 0.0, DType::F32).check().unwrap_err().kind(), ErrorKind::Argument);
    assert!(Tensor::arange_by(1.0, 0.0, 0.5, DType::F32).to_vec::<f32>()?.is_empty());
    assert_eq!(Tensor::arange_by(1.0, 2.0, 0.3, DType::F64).len(), 4);

    assert_eq!(Tensor::eye(2, 2, 0, DType::F32).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(Tensor::eye(3, 2, -1, DType::I8).to_vec::<i8>()?, [0, 0, 1, 0, 0, 1]);
    let x = Tensor::arange(1, 13).reshape(&[2, 2, 3]);
    assert_eq!(x.triu(1).to_vec::<i64>()?, [0, 2, 3, 0, 0, 6, 0, 8, 9, 0, 0, 12]);
    assert_eq!(x.tril(-1).to_vec::<i64>()?, [0, 0, 0, 4, 0, 0, 0, 0, 0, 10, 0, 0]);
    assert_eq!(Tensor::arange(0, 3).tril(0).check().unwrap_err().kind(), ErrorKind::Shape);
    // What is left out must not come through as NaN.
    let poisoned = Tensor::from_shape(&[2, 2], &[1.0f32, f32::NAN, f32::INFINITY, 4.0]);
    assert_eq!(poisoned.tril(0).triu(0).to_vec::<f32>()?, [1.0, 0.0, 0.0, 4.0]);

    let grid = Tensor::meshgrid(&[&Tensor::arange(0, 3), &Tensor::arange(0, 2)], Indexing::Xy);
    assert_eq!((grid[0].shape().as_slice(), grid[1].shape().as_slice()), (&[2usize, 3][..], &[2usize, 3][..]));
    assert_eq!(grid[0].to_vec::<i64>()?, [0, 1, 2, 0, 1, 2]);
    assert_eq!(grid[1].to_vec::<i64>()?, [0, 0, 0, 1, 1, 1]);
    assert_eq!(grid[0].full_like(2i32).dtype(), DType::I32);
    assert_eq!(grid[0].ones_like().to_vec::<i64>()?, [1; 6]);
    Ok(())
}
