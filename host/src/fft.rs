//! Fourier transforms of rows, through `rustfft` and `realfft`.
//!
//! A row that is longer than the transform is cut, a shorter one filled up with zeros. The error of a row is at most
//! [`fft_error`] times its norm.

use std::sync::{Arc, OnceLock};

use millstream_core::what::Fork;
use millstream_core::{DType, Element, Error, HostFunction, HostOperand, HostRun, Result};
use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftNum, FftPlanner};
use smallvec::{SmallVec, smallvec};

use crate::slices::{Rows, for_rows, read, write};

/// What a transform does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Complex to complex, `exp(-2 pi i)`.
    Forward,
    /// Complex to complex, `exp(+2 pi i)`.
    Inverse,
    /// Real to the first half of the spectrum, `exp(-2 pi i)`.
    RealForward,
    /// The first half of a spectrum to real, `exp(+2 pi i)`. Imaginary parts of the first and, for even lengths, the middle
    /// frequency are ignored.
    RealInverse,
}

/// The largest norm of the error of a transform of this length, in units of the roundoff and of the norm of what is transformed.
pub fn fft_error(n: usize) -> f64 {
    4.0 * (n.max(2) as f64).log2().ceil()
}

/// Transforms rows of `[rows, m]` into rows of the length `n` (or the half of their spectrum), multiplied with `scale`.
///
/// `real` is f32 or f64. With `conjugate`, the complex side is conjugated: what a real inverse reads, what a real forward
/// transform gives.
pub fn fft(
    real: DType,
    rows: usize,
    m: usize,
    n: usize,
    transform: Transform,
    scale: f64,
    conjugate: bool,
) -> Result<HostFunction> {
    let complex = match real {
        DType::F32 => DType::C64,
        DType::F64 => DType::C128,
        other => return Err(Error::dtype(format!("Fourier transforms take f32, f64, c64 and c128, not {other}"))),
    };
    if n == 0 {
        return Err(Error::argument("a Fourier transform needs at least one element"));
    }
    let (from, to, length) = match transform {
        Transform::Forward | Transform::Inverse => (complex, complex, n),
        Transform::RealForward => (real, complex, n / 2 + 1),
        Transform::RealInverse => (complex, real, n),
    };
    let flop = (rows as u64).saturating_mul(n as u64).saturating_mul(5 * u64::from(n.max(2).ilog2()));
    let input = HostOperand::new(from, &[rows, m]);
    let outputs = vec![HostOperand::new(to, &[rows, length])];
    let how = How { rows, m, n, transform, scale, conjugate };
    Ok(match real {
        DType::F32 => HostFunction::new(Typed::<f32> { how, plan: OnceLock::new() }, vec![input], outputs, flop),
        _ => HostFunction::new(Typed::<f64> { how, plan: OnceLock::new() }, vec![input], outputs, flop),
    })
}

#[derive(Clone, Copy)]
struct How {
    rows: usize,
    m: usize,
    n: usize,
    transform: Transform,
    scale: f64,
    conjugate: bool,
}

/// A transform with its tables, which are made at the first run and serve as long as the function lives.
struct Typed<T: FftNum> {
    how: How,
    plan: OnceLock<Plan<T>>,
}

enum Plan<T: FftNum> {
    Complex(Arc<dyn Fft<T>>),
    Forward(Arc<dyn RealToComplex<T>>),
    Inverse(Arc<dyn ComplexToReal<T>>),
}

/// f32 and f64.
trait Real: Element + FftNum
where
    Complex<Self>: Element,
{
    fn of(x: f64) -> Self;
}

impl Real for f32 {
    fn of(x: f64) -> f32 {
        x as f32
    }
}

impl Real for f64 {
    fn of(x: f64) -> f64 {
        x
    }
}

impl<T: Real> HostRun for Typed<T>
where
    Complex<T>: Element,
{
    fn name(&self) -> &'static str {
        match self.how.transform {
            Transform::Forward => "fft",
            Transform::Inverse => "ifft",
            Transform::RealForward => "rfft",
            Transform::RealInverse => "irfft",
        }
    }

    fn words(&self) -> SmallVec<[u64; 4]> {
        smallvec![self.how.n as u64, self.how.scale.to_bits(), u64::from(self.how.conjugate)]
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let How { rows, m, n, transform, .. } = self.how;
        let [Some(output)] = outputs else { return Ok(()) };
        if rows == 0 {
            return Ok(());
        }
        let plan = self.plan.get_or_init(|| match transform {
            Transform::Forward => Plan::Complex(FftPlanner::new().plan_fft_forward(n)),
            Transform::Inverse => Plan::Complex(FftPlanner::new().plan_fft_inverse(n)),
            Transform::RealForward => Plan::Forward(RealFftPlanner::new().plan_fft_forward(n)),
            Transform::RealInverse => Plan::Inverse(RealFftPlanner::new().plan_fft_inverse(n)),
        });
        let work = n.saturating_mul(4 * n.max(2).ilog2() as usize);
        match plan {
            Plan::Complex(fft) => {
                let (x, y) = (read::<Complex<T>>(inputs[0])?, Rows::new(Some(write::<Complex<T>>(output)?), rows));
                for_rows(fork, rows, work, &|row| {
                    // SAFETY: each row is visited once.
                    let Some(to) = (unsafe { y.at(row) }) else { return Ok(()) };
                    fitted(&x[row * m..(row + 1) * m], to);
                    fft.process(to);
                    to.iter_mut().for_each(|v| *v = self.finished(*v));
                    Ok(())
                })
            }
            Plan::Forward(fft) => {
                let (x, y) = (read::<T>(inputs[0])?, Rows::new(Some(write::<Complex<T>>(output)?), rows));
                for_rows(fork, rows, work, &|row| {
                    // SAFETY: each row is visited once.
                    let Some(to) = (unsafe { y.at(row) }) else { return Ok(()) };
                    let mut from = fft.make_input_vec();
                    fitted(&x[row * m..(row + 1) * m], &mut from);
                    fft.process(&mut from, to).map_err(|e| Error::internal(format!("realfft: {e}")))?;
                    to.iter_mut().for_each(|v| *v = self.finished(*v));
                    Ok(())
                })
            }
            Plan::Inverse(fft) => {
                let (x, y) = (read::<Complex<T>>(inputs[0])?, Rows::new(Some(write::<T>(output)?), rows));
                for_rows(fork, rows, work, &|row| {
                    // SAFETY: each row is visited once.
                    let Some(to) = (unsafe { y.at(row) }) else { return Ok(()) };
                    let mut from = fft.make_input_vec();
                    fitted(&x[row * m..(row + 1) * m], &mut from);
                    if self.how.conjugate {
                        from.iter_mut().for_each(|v| *v = v.conj());
                    }
                    // The spectrum of real numbers is real here; what else stands there does not count.
                    from[0].im = T::of(0.0);
                    if n % 2 == 0 {
                        from[n / 2].im = T::of(0.0);
                    }
                    fft.process(&mut from, to).map_err(|e| Error::internal(format!("realfft: {e}")))?;
                    let scale = T::of(self.how.scale);
                    to.iter_mut().for_each(|v| *v = *v * scale);
                    Ok(())
                })
            }
        }
    }
}

impl<T: Real> Typed<T>
where
    Complex<T>: Element,
{
    fn finished(&self, v: Complex<T>) -> Complex<T> {
        let v = v * T::of(self.how.scale);
        if self.how.conjugate { v.conj() } else { v }
    }
}

/// Copies as much as fits and fills the rest with zeros.
fn fitted<T: Copy + Default>(from: &[T], to: &mut [T]) {
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
    to[n..].fill(T::default());
}
