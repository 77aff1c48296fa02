//! Linear algebra: factors multiply to what they are factors of, and structure is as promised.

use crate::common::Random;
use millstream::{DType, ErrorKind, Generator, MatrixNorm, Result, Tensor};
use num_complex::Complex;

const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::C64, DType::C128];

fn eps(dtype: DType) -> f64 {
    if matches!(dtype, DType::F32 | DType::C64) { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// Random matrices; some of a lower rank, some graded over many orders of magnitude.
fn matrices(random: &mut Random, shape: &[usize], dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let mut values: Vec<Complex<f64>> = (0..n).map(|_| Complex::new(random.unit(), random.unit())).collect();
    let columns = shape.last().copied().unwrap_or(1).max(1);
    match random.below(4) {
        0 => values.iter_mut().enumerate().for_each(|(i, v)| *v *= 10f64.powi(-2 * ((i % columns) as i32 % 6))),
        1 => {
            values.chunks_mut(columns).for_each(|row| row.iter_mut().skip(1).for_each(|v| *v = Complex::new(0.0, 0.0)))
        }
        _ => {}
    }
    let x = if dtype.is_complex() {
        Tensor::from_shape(shape, &values)
    } else {
        Tensor::from_shape(shape, &values.iter().map(|v| v.re).collect::<Vec<_>>())
    };
    random.relaid(&x.cast(dtype))
}

/// The elements as complex numbers.
fn numbers(x: &Tensor) -> Result<Vec<Complex<f64>>> {
    x.cast(DType::C128).to_vec()
}

/// The matrices with their complex conjugates, by way of the host.
fn conjugate(x: &Tensor) -> Result<Tensor> {
    let values: Vec<_> = numbers(x)?.iter().map(Complex::conj).collect();
    let same = Tensor::from_shape(x.shape(), &values);
    Ok(if x.dtype().is_complex() { same.cast(x.dtype()) } else { x.clone() })
}

fn adjoint(x: &Tensor) -> Result<Tensor> {
    Ok(conjugate(x)?.transpose())
}

/// The norm of the difference is at most `units` roundoffs of the size of the second.
#[track_caller]
fn close(a: &Tensor, b: &Tensor, units: f64) -> Result<()> {
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()));
    let (x, y) = (numbers(a)?, numbers(b)?);
    let size = y.iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    let error = x.iter().zip(&y).map(|(x, y)| (x - y).norm_sqr()).sum::<f64>().sqrt();
    let bound = units * eps(a.dtype()) * size;
    assert!(error <= bound, "off by {error:e}, allowed {bound:e}");
    Ok(())
}

fn eye(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::zeros(shape, dtype).matrix_power(0)
}

/// The columns are orthonormal.
#[track_caller]
fn orthonormal(q: &Tensor) -> Result<()> {
    let product = adjoint(q)?.matmul(q);
    close(&product, &eye(&product.shape(), q.dtype()), 10.0 * q.shape()[q.rank() - 2].max(4) as f64)
}

fn shape(random: &mut Random) -> (Vec<usize>, usize, usize) {
    let mut shape = if random.below(2) == 0 { vec![] } else { vec![random.below(4)] };
    let (m, n) = (random.below(12) + usize::from(random.below(8) != 0), random.below(12) + 1);
    shape.extend([m, n]);
    (shape, m, n)
}

#[test]
fn qr_and_svd_multiply_to_the_matrix() -> Result<()> {
    let mut random = Random::fresh();
    for round in 0..40 {
        let dtype = DTYPES[round % 4];
        let (shape, m, n) = shape(&mut random);
        let x = matrices(&mut random, &shape, dtype);
        let units = 10.0 * m.max(n).max(4) as f64;
        let all = random.below(2) == 0;
        let (q, r) = if all { x.qr_complete() } else { x.qr() };
        let k = m.min(n);
        assert_eq!(q.shape()[q.rank() - 2..], [m, if all { m } else { k }]);
        if !x.is_empty() {
            close(&q.matmul(&r), &x.contiguous(), units)?;
            orthonormal(&q)?;
        }
        let list = numbers(&r)?;
        let below = |i: &usize| i / n % r.shape()[r.rank() - 2] > i % n;
        assert!((0..list.len()).filter(below).all(|i| list[i] == Complex::ZERO));

        let (u, s, v) = if all { x.svd_full() } else { x.svd() };
        assert_eq!(u.shape()[u.rank() - 2..], [m, if all { m } else { k }]);
        assert_eq!(v.shape()[v.rank() - 2..], [if all { n } else { k }, n]);
        if !x.is_empty() {
            orthonormal(&u)?;
            orthonormal(&adjoint(&v)?)?;
            let (u, v) = (u.slice(-1, ..k as isize), v.slice(-2, ..k as isize));
            let scaled = u * s.unsqueeze(-2).cast(dtype);
            close(&scaled.matmul(&v), &x.contiguous(), units)?;
            let values = s.cast(DType::F64).to_vec::<f64>()?;
            assert!(values.iter().all(|v| *v >= 0.0));
            assert!(values.chunks(k.max(1)).all(|c| c.windows(2).all(|w| w[0] >= w[1])));
            close(&x.svdvals(), &s, 4.0 * units)?;
            let p = x.pinv(None);
            close(&x.matmul(&p).matmul(&x), &x.contiguous(), 1e3 * units)?;
        }
    }
    Ok(())
}

#[test]
fn eigh_and_cholesky_of_hermitian_matrices() -> Result<()> {
    let mut random = Random::fresh();
    for round in 0..32 {
        let dtype = DTYPES[round % 4];
        let n = random.below(10) + 1;
        let shape = [random.below(3) + 1, n, n];
        let x = matrices(&mut random, &shape, dtype);
        let hermitian = &x + adjoint(&x)?;
        let (values, vectors) = hermitian.eigh();
        let units = 20.0 * n.max(4) as f64;
        orthonormal(&vectors)?;
        let product = (&vectors * values.unsqueeze(-2).cast(dtype)).matmul(&adjoint(&vectors)?);
        close(&product, &hermitian.contiguous(), units)?;
        let list = values.cast(DType::F64).to_vec::<f64>()?;
        assert!(list.chunks(n).all(|c| c.windows(2).all(|w| w[0] <= w[1])));
        close(&hermitian.eigvalsh(), &values, units)?;

        let definite = x.matmul(&adjoint(&x)?) + eye(&shape, dtype);
        let l = definite.cholesky();
        close(&l.matmul(&adjoint(&l)?), &definite.contiguous(), units)?;
        close(&definite.cholesky_upper(), &adjoint(&l)?.contiguous(), 1.0)?;
    }
    Ok(())
}

#[test]
fn solutions_inverses_and_determinants_agree() -> Result<()> {
    let mut random = Random::fresh();
    for round in 0..32 {
        let dtype = DTYPES[round % 4];
        let (n, k) = (random.below(8) + 1, random.below(4) + 1);
        // A dominant diagonal keeps the condition small.
        let noise = Tensor::from_shape(&[3, n, n], &random.floats(3 * n * n)).cast(dtype);
        let x = noise * 0.5 + eye(&[3, n, n], dtype) * n as i64;
        let b = Tensor::from_shape(&[n, k], &random.floats(n * k)).cast(dtype);
        let units = 60.0 * n as f64;
        let whole = b.broadcast(&[3, n, k]).contiguous();
        close(&x.matmul(&x.solve(&b)), &whole, units)?;
        let vector = b.select(1, 0);
        close(&x.solve(&vector), &x.solve(&b).select(-1, 0).contiguous(), units)?;
        close(&x.matmul(&x.inv()), &eye(&[3, n, n], dtype), units)?;
        let (sign, log) = x.slogdet();
        close(&(sign * log.exp().cast(dtype)), &x.det(), units)?;
        // The determinant of a product is the product of the determinants.
        close(&x.matmul(&x).det(), &x.det().square(), 4.0 * units)?;
        close(&x.matrix_power(-2), &x.inv().matmul(&x.inv()), units)?;
        assert_eq!(x.matrix_rank(None).to_vec::<i64>()?, [n as i64; 3]);
    }
    Ok(())
}

#[test]
fn matrices_without_a_result_are_errors_of_kind_numeric() {
    let singular = Tensor::from_shape(&[2, 2], &[1.0f64, 2.0, 2.0, 4.0]);
    let nan = Tensor::from_shape(&[1, 1], &[f64::NAN]);
    let broken = [
        singular.inv(),
        singular.solve(&Tensor::ones(&[2], DType::F64)),
        (-&singular).cholesky(),
        singular.cast(DType::C64).neg().cholesky(),
        nan.svdvals(),
        nan.eigvalsh(),
        (&singular * f64::INFINITY).svdvals(),
        Tensor::zeros(&[3, 2, 2], DType::F32).inv(),
    ];
    for (i, x) in broken.iter().enumerate() {
        let error = x.eval().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Numeric, "{i}: {error}");
        assert!(error.location().is_some_and(|l| l.file().ends_with("linalg.rs")), "{i}: {error}");
    }
    assert_eq!(singular.det().item::<f64>().unwrap(), 0.0);
    let (sign, log) = singular.slogdet();
    assert_eq!((sign.item::<f64>().unwrap(), log.item::<f64>().unwrap()), (0.0, f64::NEG_INFINITY));
    let wrong = Tensor::zeros(&[2, 3], DType::F32);
    assert_eq!(wrong.inv().check().unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(Tensor::arange(0, 4).svdvals().check().unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(Tensor::zeros(&[2, 2], DType::I32).inv().check().unwrap_err().kind(), ErrorKind::DType);
    assert!(wrong.solve(&Tensor::zeros(&[3], DType::F32)).check().is_err());
}

#[test]
fn eigenvectors_of_any_matrix_keep_their_direction() -> Result<()> {
    let mut g = Generator::new(11);
    for (n, dtype) in
        [(0, DType::F32), (1, DType::F64), (2, DType::F64), (5, DType::F32), (17, DType::C128), (40, DType::F64)]
    {
        let real = dtype.real();
        let parts = [g.normal([3, n, n], real), g.normal([3, n, n], real)];
        let a = if dtype.is_complex() { Tensor::complex(&parts[0], &parts[1]) } else { parts[0].clone() };
        let (values, vectors) = a.eig();
        assert_eq!((values.shape().as_slice(), vectors.shape().as_slice()), (&[3, n][..], &[3, n, n][..]));
        if n == 0 {
            continue;
        }
        close(&a.cast(vectors.dtype()).matmul(&vectors), &(&vectors * values.unsqueeze(-2)), 40.0 * n as f64)?;
        let trace = values.sum(-1);
        close(&trace, &a.cast(trace.dtype()).trace(0), 40.0 * n as f64)?;
        close(&a.eigvals().sum(-1), &trace, 40.0 * n as f64)?;
    }
    // Two equal eigenvalues and one direction only.
    let jordan = Tensor::new([[2.0f64, 1.0], [0.0, 2.0]]);
    let (values, vectors) = jordan.eig();
    let moved = jordan.matmul(&vectors) - &vectors * values.unsqueeze(0);
    assert!(moved.abs().max(..).item::<f64>()? < 1e-14);
    assert_eq!(Tensor::new([[f64::NAN]]).eigvals().eval().unwrap_err().kind(), ErrorKind::Numeric);
    Ok(())
}

#[test]
fn empty_and_huge_matrices_are_no_special_case() -> Result<()> {
    let empty = Tensor::zeros(&[2, 0, 0], DType::F64);
    assert_eq!(empty.det().to_vec::<f64>()?, [1.0, 1.0]);
    assert_eq!((empty.inv().shape().as_slice(), empty.eigvalsh().shape().as_slice()), (&[2, 0, 0][..], &[2, 0][..]));
    let (u, s, v) = Tensor::zeros(&[3, 0], DType::F32).svd_full();
    assert_eq!(u.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!((s.shape().as_slice(), v.shape().as_slice()), (&[0][..], &[0, 0][..]));
    for size in [1e300, 1e-300] {
        let x = Tensor::from_shape(&[2, 2], &[3.0 * size, 0.0, 0.0, -4.0 * size]);
        let close = |x: f64, y: f64| (x / y - 1.0).abs() < 1e-14;
        let s = x.svdvals().to_vec::<f64>()?;
        assert!(close(s[0], 4.0 * size) && close(s[1], 3.0 * size), "{s:?}");
        let e = x.eigvalsh().to_vec::<f64>()?;
        assert!(close(e[0], -4.0 * size) && close(e[1], 3.0 * size), "{e:?}");
    }
    Ok(())
}

#[test]
fn norms_diagonals_and_products_by_composition() -> Result<()> {
    let x = Tensor::from_shape(&[2, 3], &[1.0f64, -2.0, 3.0, 4.0, 5.0, -6.0]);
    let norm = |n: MatrixNorm| x.matrix_norm(n).item::<f64>();
    let s = x.svdvals().to_vec::<f64>()?;
    assert_eq!(norm(MatrixNorm::Frobenius)?, 91f64.sqrt());
    assert_eq!((norm(MatrixNorm::One)?, norm(MatrixNorm::MinusOne)?), (9.0, 5.0));
    assert_eq!((norm(MatrixNorm::Infinity)?, norm(MatrixNorm::MinusInfinity)?), (15.0, 6.0));
    assert_eq!((norm(MatrixNorm::Two)?, norm(MatrixNorm::MinusTwo)?), (s[0], s[1]));
    assert_eq!((norm(MatrixNorm::Nuclear)?, x.matrix_norm(MatrixNorm::Two).rank()), (s[0] + s[1], 0));
    let vector = |ord: f64| x.vector_norm(ord, 1).to_vec::<f64>();
    assert_eq!((vector(0.0)?, vector(1.0)?), (vec![3.0, 3.0], vec![6.0, 15.0]));
    assert_eq!((vector(f64::INFINITY)?, vector(f64::NEG_INFINITY)?), (vec![3.0, 6.0], vec![1.0, 4.0]));
    assert!((vector(3.0)?[0] - 36f64.cbrt()).abs() < 1e-14);

    let y = Tensor::arange(0, 24).reshape(&[2, 3, 4]);
    assert_eq!(y.flip(2).diagonal(-1).to_vec::<i64>()?, [7, 10, 19, 22]);
    assert_eq!((y.diagonal(4).shape().as_slice(), y.diagonal(-9).shape().as_slice()), (&[2, 0][..], &[2, 0][..]));
    assert_eq!(y.trace(1).to_vec::<i64>()?, [1 + 6 + 11, 13 + 18 + 23]);
    let (a, b) = (Tensor::from_shape(&[2, 3], &[1, 2, 3, 4, 5, 6]), Tensor::from_slice(&[7, 8, 9]));
    assert_eq!(a.cross(&b, 1).to_vec::<i32>()?, [-6, 12, -6, -3, 6, -3]);
    assert_eq!(a.transpose().cross(&b.unsqueeze(1), 0).transpose().to_vec::<i32>()?, [-6, 12, -6, -3, 6, -3]);
    assert!(a.cross(&a, 0).check().is_err());
    let k = Tensor::from_shape(&[2, 2], &[1, 2, 3, 4]).kron(&Tensor::from_slice(&[1, 10]));
    assert_eq!((k.shape().as_slice(), k.to_vec::<i32>()?), (&[2, 4][..], vec![1, 10, 2, 20, 3, 30, 4, 40]));
    assert_eq!(y.matrix_transpose().shape(), [2, 4, 3]);
    Ok(())
}
