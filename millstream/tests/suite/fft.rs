//! Fourier transforms against their definition.

use std::f64::consts::TAU;

use crate::common::Random;
use millstream::{DType, ErrorKind, FftNorm, Result, Tensor};
use num_complex::Complex;

type C = Complex<f64>;

const NORMS: [FftNorm; 3] = [FftNorm::Backward, FftNorm::Ortho, FftNorm::Forward];

/// The transform of one row by its definition, cut or filled up to `n`.
fn defined(x: &[C], n: usize, inverse: bool, norm: FftNorm) -> Vec<C> {
    let sign = if inverse { 1.0 } else { -1.0 };
    let scale = match (norm, inverse) {
        (FftNorm::Backward, false) | (FftNorm::Forward, true) => 1.0,
        (FftNorm::Ortho, _) => 1.0 / (n as f64).sqrt(),
        _ => 1.0 / n as f64,
    };
    let at = |k: usize| {
        let term = |(j, v): (usize, &C)| v * C::cis(sign * TAU * ((j * k) % n) as f64 / n as f64);
        x.iter().take(n).enumerate().map(term).sum::<C>() * scale
    };
    (0..n).map(at).collect()
}

/// The error's norm against the promised bound.
#[track_caller]
fn close(got: &[C], want: &[C], n: usize, eps: f64) {
    let size = want.iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt();
    let error = got.iter().zip(want).map(|(a, b)| (a - b).norm_sqr()).sum::<f64>().sqrt();
    // The definition above is itself off by some roundoffs for each element.
    let bound = 4.0 * (n.max(2) as f64).log2().ceil() * eps * size + 4.0 * n as f64 * f64::EPSILON * size + 1e-300;
    assert!(got.len() == want.len() && error <= bound, "off by {error:e}, allowed {bound:e}");
}

fn numbers(x: &Tensor) -> Result<Vec<C>> {
    x.cast(DType::C128).to_vec()
}

#[test]
fn transforms_of_any_length_and_axis_follow_the_definition() -> Result<()> {
    let mut random = Random::fresh();
    for round in 0..60 {
        let single = round % 2 == 0;
        let (complex, real, eps) = if single {
            (DType::C64, DType::F32, f64::from(f32::EPSILON))
        } else {
            (DType::C128, DType::F64, f64::EPSILON)
        };
        let mut shape = random.shape(3, 20);
        let axis = random.below(shape.len());
        shape[axis] = random.below(40) + 1;
        let len: usize = shape.iter().product();
        let norm = NORMS[random.below(3)];
        let n = if random.below(2) == 0 { None } else { Some(random.below(40) + 1) };
        let values: Vec<C> = (0..len).map(|_| C::new(random.unit(), random.unit())).collect();
        let whole = random.relaid(&Tensor::from_shape(&shape, &values).cast(complex));
        let reals: Vec<f64> = values.iter().map(|v| v.re).collect();
        let flat = random.relaid(&Tensor::from_shape(&shape, &reals).cast(real));
        let at = axis as isize;
        let full = n.unwrap_or(shape[axis]);
        let half_of = n.unwrap_or(2 * (shape[axis] - 1));
        if half_of == 0 {
            assert_eq!(whole.irfft(n, at, norm).check().unwrap_err().kind(), ErrorKind::Argument);
            continue;
        }
        let made = [
            whole.fft(n, at, norm),
            whole.ifft(n, at, norm),
            flat.rfft(n, at, norm),
            whole.irfft(n, at, norm),
            flat.ihfft(n, at, norm),
            whole.hfft(n, at, norm),
        ];
        let rows = |t: &Tensor| -> Result<Vec<Vec<C>>> {
            let order: Vec<usize> = (0..t.rank()).filter(|&d| d != axis).chain([axis]).collect();
            let length = t.shape()[axis];
            Ok(numbers(&t.permute(&order).contiguous())?.chunks(length).map(<[C]>::to_vec).collect())
        };
        let (inputs, real_inputs) = (rows(&whole)?, rows(&flat)?);
        let made = made.iter().map(rows).collect::<Result<Vec<_>>>()?;
        for (i, (x, r)) in inputs.iter().zip(&real_inputs).enumerate() {
            close(&made[0][i], &defined(x, full, false, norm), full, eps);
            close(&made[1][i], &defined(x, full, true, norm), full, eps);
            let spectrum = defined(r, full, false, norm);
            close(&made[2][i], &spectrum[..full / 2 + 1], full, eps);
            let back = defined(r, full, true, norm);
            close(&made[4][i], &back[..full / 2 + 1], full, eps);
            // The whole spectrum that the half stands for.
            let m = half_of / 2 + 1;
            let mut half: Vec<C> = x.iter().copied().chain(std::iter::repeat(C::ZERO)).take(m).collect();
            half[0].im = 0.0;
            if half_of % 2 == 0 {
                half[m - 1].im = 0.0;
            }
            let mirror = |k: usize| if k < m { half[k] } else { half[half_of - k].conj() };
            let spectrum: Vec<C> = (0..half_of).map(mirror).collect();
            close(&made[3][i], &defined(&spectrum, half_of, true, norm), half_of, eps);
            close(&made[5][i], &defined(&spectrum, half_of, false, norm), half_of, eps);
        }
    }
    Ok(())
}

#[test]
fn long_rows_of_smooth_and_of_prime_length_keep_the_bound() -> Result<()> {
    let mut random = Random::fresh();
    for n in [997, 1000, 1024, 2017] {
        let values: Vec<C> = (0..n).map(|_| C::new(random.unit(), random.unit())).collect();
        let x = Tensor::from_slice(&values).cast(DType::C64);
        let want = defined(&numbers(&x)?, n, false, FftNorm::Backward);
        close(&numbers(&x.fft(None, 0, FftNorm::Backward))?, &want, n, f64::from(f32::EPSILON));
    }
    Ok(())
}

#[test]
fn several_axes_are_one_after_the_other_and_inverses_lead_back() -> Result<()> {
    let mut random = Random::fresh();
    let x = Tensor::from_shape(&[3, 4, 5], &random.floats(60));
    for norm in NORMS {
        let y = x.fftn(&[], .., norm);
        let by_axis = x.fft(None, 0, norm).fft(None, 1, norm).fft(None, 2, norm);
        close(&numbers(&y)?, &numbers(&by_axis)?, 60, f64::EPSILON);
        close(&numbers(&y.ifftn(&[], .., norm))?, &numbers(&x)?, 60, 2.0 * f64::EPSILON);
        let half = x.rfftn(&[], [2, 1], norm);
        assert_eq!(half.shape(), [3, 3, 5]);
        close(&numbers(&half.irfftn(&[5, 4], [2, 1], norm))?, &numbers(&x)?, 60, 2.0 * f64::EPSILON);
        let cut = x.fftn(&[2, 7], [0, -1], norm);
        assert_eq!(cut.shape(), [2, 4, 7]);
        close(&numbers(&cut)?, &numbers(&x.fft(Some(7), 2, norm).fft(Some(2), 0, norm))?, 60, f64::EPSILON);
    }
    assert!(x.fftn(&[2], [0, 1], FftNorm::Backward).check().is_err());
    assert!(x.fftn(&[], [0, -3], FftNorm::Backward).check().is_err());
    Ok(())
}

#[test]
fn frequencies_and_wrong_arguments() -> Result<()> {
    assert_eq!(Tensor::fftfreq(5, 0.1).to_vec::<f64>()?, [0.0, 2.0, 4.0, -4.0, -2.0]);
    assert_eq!(Tensor::rfftfreq(5, 0.1).to_vec::<f64>()?, [0.0, 2.0, 4.0]);
    let index = Tensor::arange(0, 15).reshape(&[3, 5]);
    assert_eq!(index.fftshift(1).to_vec::<i64>()?[..5], [3, 4, 0, 1, 2]);
    assert_eq!(index.fftshift(..).ifftshift(..).to_vec::<i64>()?, index.to_vec::<i64>()?);
    let x = Tensor::zeros(&[4], DType::F32);
    assert_eq!(x.fft(Some(0), 0, FftNorm::Backward).check().unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(x.cast(DType::I32).fft(None, 0, FftNorm::Backward).check().unwrap_err().kind(), ErrorKind::DType);
    assert_eq!(x.cast(DType::C64).rfft(None, 0, FftNorm::Backward).check().unwrap_err().kind(), ErrorKind::DType);
    assert!(Tensor::scalar(1.0f32).fft(None, 0, FftNorm::Backward).check().is_err());
    assert_eq!(Tensor::zeros(&[0, 4], DType::F32).rfft(None, 1, FftNorm::Backward).shape(), [0, 3]);
    Ok(())
}
