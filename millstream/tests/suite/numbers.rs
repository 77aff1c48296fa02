//! Numbers at the edges of their types: what a type does not hold is answered rightly or refused, never wrapped in silence.

use crate::common::{Random, devices};
use millstream::{DType, ErrorKind, Generator, Interpolation, Reduction, Tensor, Tolerance, step};
use num_complex::Complex;

#[test]
fn comparisons_with_numbers_out_of_range_are_right() {
    let x = Tensor::from_slice(&[0u8, 5, 255]);
    let all = |t: Tensor| t.to_vec::<bool>().unwrap();
    for (number, above) in [(256, true), (-1, false), (i64::MAX, true), (i64::MIN, false)] {
        assert_eq!(all(x.eq(number)), [false; 3], "{number}");
        assert_eq!(all(x.ne(number)), [true; 3], "{number}");
        assert_eq!((all(x.lt(number)), all(x.le(number))), (vec![above; 3], vec![above; 3]), "{number}");
        assert_eq!((all(x.gt(number)), all(x.ge(number))), (vec![!above; 3], vec![!above; 3]), "{number}");
    }
    let wide = Tensor::from_slice(&[0u64, u64::MAX]);
    assert_eq!(all(wide.gt(-1)), [true; 2]);
    let narrow = Tensor::from_slice(&[i32::MIN, i32::MAX]);
    assert_eq!(all(narrow.lt(i64::from(i32::MAX) + 1)), [true; 2]);
    assert_eq!(all(narrow.le(i64::from(i32::MAX))), [true; 2]);
}

#[test]
fn numbers_out_of_range_bound_nothing_or_are_refused() {
    let x = Tensor::from_slice(&[5u8, 200]);
    assert_eq!(x.clip(-1, 300).to_vec::<u8>().unwrap(), [5, 200]);
    assert_eq!(x.maximum(-1).to_vec::<u8>().unwrap(), [5, 200]);
    let truth = Tensor::from_slice(&[true, false]);
    let refused = [
        x.maximum(300),
        x.minimum(-1),
        x.rem(300),
        300i64 % &x,
        x.floor_div(-1),
        x.pow(256),
        x.shl(-1),
        x.fmod(300),
        x.pad(&[(1, 1)], 300),
        truth.where_(&x, 300),
    ];
    for (i, t) in refused.iter().enumerate() {
        let error = t.eval().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{i}");
        assert!(error.to_string().contains("does not fit in u8"), "{i}: {error}");
    }
    // What wraps by its nature wraps on; fractions have room.
    assert_eq!((&x + 300).to_vec::<u8>().unwrap(), [49, 244]);
    assert_eq!(x.and(-1).to_vec::<u8>().unwrap(), [5, 200]);
    assert_eq!((&x / 400).to_vec::<f32>().unwrap(), [0.0125, 0.5]);
    assert_eq!((300i64 / &x).to_vec::<f32>().unwrap(), [60.0, 1.5]);
    assert_eq!(x.shl(256).to_vec::<u8>().unwrap(), [0, 0]);
    let low = Tensor::from_slice(&[-5i8, 5]);
    assert_eq!(low.shr(1000).to_vec::<i8>().unwrap(), [-1, 0]);
    assert_eq!(x.logical_and(256).to_vec::<bool>().unwrap(), [true; 2]);
}

#[test]
fn distances_of_integers_do_not_overflow() {
    let item = |t: Tensor| t.item::<bool>().unwrap();
    let one = |v: i32| Tensor::from_slice(&[v]);
    assert!(!item(one(i32::MIN).allclose(&one(0), Tolerance::new(1e-5, 1e-8))));
    assert!(!item(one(i32::MIN).allclose(&one(i32::MAX), Tolerance::new(1e-5, 1e-8))));
    assert!(item(one(i32::MIN).allclose(&one(i32::MIN), Tolerance::new(1e-5, 1e-8))));
    let (a, b) = (Tensor::from_slice(&[1u8]), Tensor::from_slice(&[2u8]));
    assert!(item(a.isclose(&b, Tolerance::new(0.0, 1.0))) && !item(a.isclose(&b, Tolerance::new(0.0, 0.5))));
    assert!(!item(Tensor::from_slice(&[true]).isclose(&Tensor::from_slice(&[false]), Tolerance::new(0.0, 0.5))));
    let loss = |t: Tensor| t.item::<f32>().unwrap();
    assert_eq!(loss(a.l1_loss(&b, Reduction::Mean)), 1.0);
    let (low, high) = (Tensor::from_slice(&[-100i8]), Tensor::from_slice(&[100i8]));
    assert_eq!(loss(low.l1_loss(&high, Reduction::Sum)), 200.0);
    assert_eq!(loss(low.mse_loss(&high, Reduction::Mean)), 40_000.0);
    assert_eq!(loss(low.huber_loss(&high, 1.0, Reduction::Mean)), 199.5);
    let ones = Tensor::from_slice(&[100i8, 100]);
    assert!((loss(ones.cosine_similarity(&ones, 0, 1e-8)) - 1.0).abs() < 1e-6);
}

/// The sum over all labels by loops.
fn einsum_by_loops(parts: &[Vec<usize>], out: &[usize], sizes: &[usize], data: &[Vec<f64>]) -> Vec<f64> {
    let offset = |labels: &[usize], at: &[usize]| labels.iter().fold(0, |p, &l| p * sizes[l] + at[l]);
    let mut result = vec![0.0; out.iter().map(|&l| sizes[l]).product()];
    let used: Vec<usize> = (0..sizes.len()).filter(|l| parts.iter().any(|p| p.contains(l))).collect();
    for mut index in 0..used.iter().map(|&l| sizes[l]).product::<usize>() {
        let mut at = vec![0; sizes.len()];
        for &l in &used {
            at[l] = index % sizes[l];
            index /= sizes[l];
        }
        let product: f64 = parts.iter().zip(data).map(|(p, d)| d[offset(p, &at)]).product();
        result[offset(out, &at)] += product;
    }
    result
}

#[test]
fn einsum_agrees_with_loops_for_random_formulas() {
    let mut random = Random::new(7);
    let mut next = |n: usize| random.below(n);
    for case in 0..300 {
        let sizes: Vec<usize> = (0..4).map(|_| 1 + next(3)).collect();
        let parts: Vec<Vec<usize>> = (0..1 + next(4)).map(|_| (0..next(4)).map(|_| next(4)).collect()).collect();
        let mut out: Vec<usize> = Vec::new();
        for l in parts.iter().flatten() {
            if !out.contains(l) && next(2) == 0 {
                out.push(*l);
            }
        }
        let count = |p: &[usize]| p.iter().map(|&l| sizes[l]).product::<usize>();
        let data: Vec<Vec<f64>> = parts.iter().map(|p| (0..count(p)).map(|_| next(5) as f64 - 2.0).collect()).collect();
        let name = |p: &[usize]| p.iter().map(|&l| ['a', 'b', 'c', 'd'][l]).collect::<String>();
        let names: Vec<String> = parts.iter().map(|p| name(p)).collect();
        let formula = format!("{}->{}", names.join(","), name(&out));
        let tensors: Vec<Tensor> = parts
            .iter()
            .zip(&data)
            .map(|(p, d)| Tensor::from_shape(&p.iter().map(|&l| sizes[l]).collect::<Vec<_>>(), d))
            .collect();
        let found = Tensor::einsum(&formula, &tensors.iter().collect::<Vec<_>>()).to_vec::<f64>();
        let found = found.unwrap_or_else(|e| panic!("case {case}, {formula}: {e}"));
        assert_eq!(found, einsum_by_loops(&parts, &out, &sizes, &data), "case {case}, {formula}, sizes {sizes:?}");
    }
}

#[test]
fn a_size_that_no_tensor_has_is_an_error_of_interpolate() {
    let x = Tensor::from_shape(&[1, 1], &[1.0f32]);
    for mode in [Interpolation::Nearest, Interpolation::Linear] {
        assert!(x.interpolate(&[1 << 62, 2], mode).eval().is_err());
    }
}

#[test]
fn reciprocals_of_large_and_small_complex_numbers_exist() {
    let z = Tensor::from_slice(&[Complex::new(1e20f32, 1e20)]);
    let r = z.recip().item::<Complex<f32>>().unwrap();
    assert!((r.re / 5e-21 - 1.0).abs() < 1e-6 && (r.im / -5e-21 - 1.0).abs() < 1e-6, "{r}");
    let z = Tensor::from_slice(&[Complex::new(1e-200f64, 0.0)]);
    let r = z.recip().item::<Complex<f64>>().unwrap();
    assert!((r.re / 1e200 - 1.0).abs() < 1e-15 && r.im == 0.0, "{r}");
}

#[test]
fn atanh_of_negative_reals_is_that_of_positive_ones_with_the_other_sign() {
    for x in [0.5f64, 0.99, 1.0 - 1e-9, 1e-9, 3.0, 1e6] {
        let z = Tensor::from_slice(&[Complex::new(x, 0.0), Complex::new(-x, 0.0)]);
        let found = z.atanh().to_vec::<Complex<f64>>().unwrap();
        let right = if x < 1.0 { x.atanh() } else { (1.0 / x).atanh() };
        assert!((found[0].re / right - 1.0).abs() < 1e-14, "{x}: {} {right}", found[0]);
        assert_eq!(found[1].re, -found[0].re, "{x}");
    }
}

#[test]
fn medians_lie_between_infinities_and_huge_numbers() {
    let median = |v: &[f32]| Tensor::from_slice(v).median(..).item::<f32>().unwrap();
    assert_eq!(median(&[f32::NEG_INFINITY, 1.0]), f32::NEG_INFINITY);
    assert_eq!(median(&[1.0, f32::INFINITY]), f32::INFINITY);
    assert_eq!(median(&[f32::INFINITY; 2]), f32::INFINITY);
    assert_eq!(median(&[-3e38, 3e38]), 0.0);
    assert!(median(&[f32::NEG_INFINITY, f32::INFINITY]).is_nan());
}

#[test]
fn a_probability_lies_from_0_to_1() {
    for p in [7.0, -0.1, f64::NAN] {
        assert_eq!(Generator::new(1).bernoulli(&[3], p).eval().unwrap_err().kind(), ErrorKind::Argument);
    }
    assert_eq!(Generator::new(1).bernoulli(&[3], 1.0).to_vec::<bool>().unwrap(), [true; 3]);
    assert_eq!(Generator::new(1).bernoulli(&[1], 0.0).dtype(), DType::Bool);
}

#[test]
fn sequences_of_integers_are_exact() {
    let ints = |t: Tensor| t.to_vec::<i64>().unwrap();
    let far = 1i64 << 53;
    assert_eq!(ints(Tensor::linspace(0.0, 16_777_217.0, 2, DType::I64)), [0, 16_777_217]);
    assert_eq!(ints(Tensor::linspace(-(far as f64), far as f64, 3, DType::I64)), [-far, 0, far]);
    assert_eq!(ints(Tensor::linspace(0.0, 3.0, 31, DType::I64).slice(0, step(..31, 10))), [0, 1, 2, 3]);
    assert_eq!(ints(Tensor::linspace(0.0, 3.0, 7, DType::I64)), [0, 0, 1, 1, 2, 2, 3]);
    assert_eq!(ints(Tensor::geomspace(1.0, 1000.0, 4, DType::I64)), [1, 10, 100, 1000]);
    assert_eq!(
        ints(Tensor::geomspace(-1.0, -1e15, 16, DType::I64)),
        (0..16).map(|i| -10i64.pow(i)).collect::<Vec<_>>()
    );
    assert_eq!(
        ints(Tensor::logspace(0.0, 15.0, 16, 10.0, DType::I64)),
        (0..16).map(|i| 10i64.pow(i)).collect::<Vec<_>>()
    );
    assert_eq!(
        ints(Tensor::logspace(0.0, 20.0, 21, 3.0, DType::I64)),
        (0..21).map(|i| 3i64.pow(i)).collect::<Vec<_>>()
    );
    assert_eq!(ints(Tensor::arange_by(-1.0, 1.0, 0.1, DType::I64).slice(0, step(..20, 10))), [-1, 0]);
    assert_eq!(
        ints(Tensor::arange_by(16_777_216.5, 16_777_220.0, 1.5, DType::I64)),
        [16_777_216, 16_777_218, 16_777_219]
    );
    let bytes = Tensor::linspace(0.0, 255.0, 256, DType::U8).to_vec::<u8>().unwrap();
    assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    for t in [
        Tensor::linspace(0.0, 256.0, 4, DType::U8),
        Tensor::geomspace(1.0, 300.0, 4, DType::U8),
        Tensor::logspace(0.0, 3.0, 4, 10.0, DType::U8),
        Tensor::arange_by(-1.0, 3.0, 1.0, DType::U8),
        Tensor::linspace(0.0, 9.3e18, 2, DType::I64),
    ] {
        assert_eq!(t.check().unwrap_err().kind(), ErrorKind::Argument);
    }
    assert_eq!(Tensor::linspace(300.0, 300.0, 0, DType::U8).len(), 0);
}

#[test]
fn sequences_of_floats_have_their_ends() {
    for (start, stop, count) in [(1.0, 1000.0, 4), (0.3, 0.7, 11), (3.0, 1e30, 50), (-2.0, -7.0, 3)] {
        let found = Tensor::geomspace(start, stop, count, DType::F32).to_vec::<f32>().unwrap();
        assert_eq!((found[0], found[count - 1]), (start as f32, stop as f32));
        let found = Tensor::geomspace(start, stop, count, DType::F64).to_vec::<f64>().unwrap();
        assert_eq!((found[0], found[count - 1]), (start, stop));
    }
    let found = Tensor::logspace(0.5, 7.3, 9, 10.0, DType::F64).to_vec::<f64>().unwrap();
    assert_eq!((found[0], found[8]), (10f64.powf(0.5), 10f64.powf(7.3)));
}

#[test]
fn factors_of_huge_and_tiny_matrices_exist() {
    for scale in [1e200, 1e-310, 1e-200, 1e300] {
        let data = [4.0, 1.0, 2.0, 3.0].map(|v| v * scale);
        let a = Tensor::from_shape(&[2, 2], &data);
        let near = |found: &[f64], right: &[f64]| {
            // Subnormal numbers have fewer digits.
            let slack = if scale < 1e-300 { 1e-12 } else { 1e-14 };
            found
                .iter()
                .zip(right)
                .all(|(f, r)| (f - r).abs() <= slack * right.iter().fold(0.0, |m: f64, v| m.max(v.abs())))
        };
        let (q, r) = a.qr();
        let back = q.matmul(&r).to_vec::<f64>().unwrap();
        assert!(near(&back, &data), "{scale}: {back:?}");
        let b = Tensor::from_shape(&[2, 1], &[5.0 * scale, 5.0 * scale]);
        let x = a.solve(&b).to_vec::<f64>().unwrap();
        assert!(near(&x, &[1.0, 1.0]), "{scale}: {x:?}");
        let log = a.slogdet().1.item::<f64>().unwrap();
        assert!((log - (10f64.ln() + 2.0 * scale.ln())).abs() < 1e-9, "{scale}: {log}");
        if scale > 1e-300 {
            let inverse = (a.inv() * scale).to_vec::<f64>().unwrap();
            assert!(near(&inverse, &[0.3, -0.1, -0.2, 0.4]), "{scale}: {inverse:?}");
        }
    }
}

#[test]
fn imaginary_roundoff_on_the_diagonal_leaves_a_cholesky_factor() {
    let c = Complex::new;
    let a = Tensor::from_shape(&[2, 2], &[c(4.0, 1e-17), c(2.0, -2.0), c(2.0, 2.0), c(6.0, -1e-17)]);
    let l = a.cholesky().to_vec::<Complex<f64>>().unwrap();
    assert_eq!(l, [c(2.0, 0.0), c(0.0, 0.0), c(1.0, 1.0), c(2.0, 0.0)]);
    let indefinite = Tensor::from_shape(&[1, 1], &[c(-4.0, 0.0)]);
    assert!(indefinite.cholesky().eval().is_err());
}

/// The error in units of the right result's modulus.
fn share(found: Complex<f64>, right: Complex<f64>) -> f64 {
    (found - right).norm() / right.norm() / f64::EPSILON
}

#[test]
fn complex_powers_and_logarithms_keep_their_digits() {
    let one =
        |z: Complex<f64>, f: &dyn Fn(Tensor) -> Tensor| f(Tensor::from_slice(&[z])).item::<Complex<f64>>().unwrap();
    // 2^(1000 + 3i) and 2^(-1000.5 + i): exact powers of 2 times a turn.
    for (z, size) in [(Complex::new(1000.0, 3.0), 1000), (Complex::new(-1000.0, 1.0), -1000)] {
        let turn = Complex::from_polar(1.0, z.im * std::f64::consts::LN_2);
        let right = turn * 2f64.powi(size / 2) * 2f64.powi(size / 2);
        assert!(share(one(z, &|z| z.exp2()), right) < 10.0, "{z}");
    }
    // log(1 + w) for small w, by its series.
    for w in [Complex::new(1e-9, 3e-10), Complex::new(-2e-7, 5e-6), Complex::new(0.0, 1e-5)] {
        let z = w + 1.0;
        let w = z - 1.0;
        let right = w - w * w / 2.0 + w * w * w / 3.0 - w * w * w * w / 4.0;
        assert!(share(one(z, &|z| z.log()), right) < 10.0, "{z}");
        assert!(
            share(one(z * Complex::i(), &|z| z.log()), right + Complex::new(0.0, std::f64::consts::FRAC_PI_2)) < 10.0
        );
    }
    let z = Tensor::from_slice(&[Complex::new(1.7f32, 1.9)]);
    let found = z.pow(&Tensor::from_slice(&[Complex::new(60.0f32, 0.0)])).item::<Complex<f32>>().unwrap();
    let right = Complex::new(f64::from(1.7f32), f64::from(1.9f32)).powu(60);
    let found = Complex::new(f64::from(found.re), f64::from(found.im));
    assert!((found - right).norm() / right.norm() < 2.0 * f64::from(f32::EPSILON), "{found} {right}");
    let found = one(Complex::new(3.7, 0.0), &|z| z.pow(&Tensor::from_slice(&[Complex::new(500.5, 0.0)])));
    assert!(share(found, Complex::new(3.7f64.powf(500.5), 0.0)) < 2.0);
}

#[test]
fn logit_keeps_its_digits_around_one_half() {
    for d in [1e-3, 1e-6, 3e-10, -1e-4, -1e-9, 0.2, -0.2] {
        let x: f64 = 0.5 + d;
        let d = x - 0.5;
        // 2 atanh(2 d).
        let right = (2.0 * d).atanh() * 2.0;
        let found = Tensor::from_slice(&[x]).logit().item::<f64>().unwrap();
        assert!((found / right - 1.0).abs() < 6.0 * f64::EPSILON, "{x}: {found} {right}");
    }
}

#[test]
fn adaptive_pools_make_no_table_of_their_windows() {
    let x = Tensor::from_shape(&[1, 1, 5], &[1.0f32, 5.0, 2.0, 4.0, 3.0]);
    // The graph alone: the result would take terabytes.
    let large = x.adaptive_max_pool1d(1usize << 40);
    assert!(large.check().is_err() || large.shape() == [1, 1, 1 << 40]);
    assert!(large.eval().is_err());
    assert_eq!(x.adaptive_max_pool1d(7).to_vec::<f32>().unwrap(), [1.0, 5.0, 5.0, 2.0, 4.0, 4.0, 3.0]);
    assert_eq!(x.adaptive_avg_pool1d(3).to_vec::<f32>().unwrap(), [3.0, 11.0 / 3.0, 3.5]);
}

/// The error in units in the last place of f32.
fn ulps(found: f32, right: f64) -> f64 {
    let near = right as f32;
    let unit = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
    ((f64::from(found) - right) / unit).abs()
}

#[test]
fn functions_keep_their_bounds_where_they_are_hardest() {
    let steps: Vec<f32> = (0..20_000).map(|i| 0.17 + i as f32 * 2e-6).collect();
    type Function = (&'static str, fn(&Tensor) -> Tensor, fn(f64) -> f64);
    let all: [(&[f32], Function); 1] = [(&steps, ("tanh", Tensor::tanh, f64::tanh))];
    let mut broken = Vec::new();
    for device in devices() {
        let bound = if device.name().starts_with("cpu") { 2.0 } else { 4.0 };
        for (values, (name, function, right)) in all {
            let found = function(&Tensor::from_slice(values).to(&device)).to_vec::<f32>().unwrap();
            let worst = values.iter().zip(&found).map(|(&x, &y)| (ulps(y, right(f64::from(x))), x, y));
            let worst = worst.fold((0.0, 0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
            if worst.0 > bound {
                broken.push(format!("{} {name}({}) = {}: {:.1} ulp", device.name(), worst.1, worst.2, worst.0));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn closeness_to_numbers_beyond_a_dtype_has_an_answer() {
    let all = |t: Tensor| t.to_vec::<bool>().unwrap();
    let wide = Tensor::from_slice(&[0u64, 1, u64::MAX]);
    assert_eq!(all(wide.isclose(-1, Tolerance::new(0.0, 1.5))), [true, false, false]);
    assert_eq!(all(wide.isclose(1i128 << 64, Tolerance::new(0.0, 1.0))), [false, false, true]);
    assert_eq!(all(wide.isclose(1i128 << 64, Tolerance::new(0.0, 0.5))), [false; 3]);
    assert_eq!(all(wide.isclose(u64::MAX, Tolerance::new(0.0, 0.5))), [false, false, true]);
    let low = Tensor::from_slice(&[-128i8, 127]);
    assert_eq!(all(low.isclose(-130, Tolerance::new(0.0, 2.0))), [true, false]);
    assert_eq!(all(low.isclose(200, Tolerance::new(0.5, 0.0))), [false, true]);
    assert_eq!(all(low.isclose(127.25, Tolerance::new(0.0, 0.5))), [false, true]);
    assert!(!wide.allclose(-1, Tolerance::default()).item::<bool>().unwrap());
}

#[test]
fn variances_of_large_integers_are_finite() {
    let value = |t: Tensor| f64::from(t.item::<f32>().unwrap());
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b;
    let half = 2f64.powi(63);
    let x = Tensor::from_slice(&[0u64, 0, 0, 0, 0, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
    assert!(near(value(x.var(..)), half * half), "{}", value(x.var(..)));
    assert!(near(value(x.std(..)), half));
    assert!(near(value(x.var_corrected(1.0, ..)), half * half * 10.0 / 9.0));
    let x = Tensor::from_slice(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX, i64::MIN, i64::MAX]);
    assert!(near(value(x.var(..)), half * half));
    // Small ones lose nothing.
    assert_eq!(value(Tensor::from_slice(&[0i64, 1, 2, 3]).var(..)), 1.25);
    assert_eq!(value(Tensor::from_slice(&[7u64, 7]).var(..)), 0.0);
}
