//! Fourier transforms, computed on the host.

use std::panic::Location;

use millstream_core::{DType, Error, Result};
use millstream_host::{self as host, Transform};

use crate::Tensor;
use crate::arguments::{Axes, Integer};
use crate::ops::creation::indices;

/// Where a transform and its inverse are divided by the number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FftNorm {
    /// The inverse is divided by it.
    #[default]
    Backward,
    /// Both are divided by its square root.
    Ortho,
    /// The transform is divided by it.
    Forward,
}

impl FftNorm {
    fn scale(self, n: usize, inverse: bool) -> f64 {
        match (self, inverse) {
            (FftNorm::Backward, false) | (FftNorm::Forward, true) => 1.0,
            (FftNorm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            _ => 1.0 / n as f64,
        }
    }

    /// The same for the transform in the other direction.
    fn swapped(self) -> FftNorm {
        match self {
            FftNorm::Backward => FftNorm::Forward,
            FftNorm::Ortho => FftNorm::Ortho,
            FftNorm::Forward => FftNorm::Backward,
        }
    }
}

/// One transform: what, the length, the axis, and how it is scaled.
struct Call {
    op: &'static str,
    transform: Transform,
    n: Option<usize>,
    axis: isize,
    norm: FftNorm,
    conjugate: bool,
}

/// # Fourier transforms
///
/// Computed on the host, for f32, f64, c64 and c128. The error of a transform of `n` elements has at most `4 ceil(log2 n)` units in the
/// last place of the norm of the row; a transform over several axes adds those of each.
impl Tensor {
    fn transformed(&self, call: Call, location: &'static Location<'static>) -> Tensor {
        let [made] = Tensor::build_many(call.op, location, || {
            self.check()?;
            if self.rank() == 0 {
                return Err(Error::shape("a Fourier transform needs a dimension"));
            }
            let from_real = call.transform == Transform::RealForward;
            let (real, dtype) = match self.dtype() {
                DType::F32 => (DType::F32, if from_real { DType::F32 } else { DType::C64 }),
                DType::F64 => (DType::F64, if from_real { DType::F64 } else { DType::C128 }),
                DType::C64 if !from_real => (DType::F32, DType::C64),
                DType::C128 if !from_real => (DType::F64, DType::C128),
                other => {
                    let takes = if from_real { "f32 and f64" } else { "f32, f64, c64 and c128" };
                    return Err(Error::dtype(format!("it takes {takes}, not {other}"))
                        .suggest("convert it first, for example with cast(DType::F32)"));
                }
            };
            let (rows, moved) = self.cast(dtype).as_rows(call.axis)?;
            let (count, m) = (rows.sizes()[0], rows.sizes()[1]);
            let n = call.n.unwrap_or(match call.transform {
                Transform::RealInverse => 2 * m.saturating_sub(1),
                _ => m,
            });
            let inverse = matches!(call.transform, Transform::Inverse | Transform::RealInverse);
            let scale = call.norm.scale(n, inverse);
            let function = host::fft(real, count, m, n, call.transform, scale, call.conjugate)?;
            let [made] = Tensor::host_outputs(function, &[&rows], location)?;
            Ok([made.rows_back(&moved, self.sizes())])
        });
        made
    }

    /// The discrete Fourier transform along an axis: `sum over j of x[j] exp(-2 pi i j k / n)`. A length `n` cuts the axis or
    /// fills it up with zeros.
    ///
    /// ```
    /// use millstream::{FftNorm, Tensor};
    /// let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 0.0]);
    /// let y = x.fft(None, 0, FftNorm::Backward);
    /// let back = y.ifft(None, 0, FftNorm::Backward);
    /// assert_eq!(y.abs().to_vec::<f32>()?, [1.0; 4]);
    /// assert_eq!(back.abs().to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn fft(&self, n: Option<usize>, axis: impl Integer, norm: FftNorm) -> Tensor {
        let call = Call { op: "fft", transform: Transform::Forward, n, axis: axis.number(), norm, conjugate: false };
        self.transformed(call, Location::caller())
    }

    /// The inverse of [`Tensor::fft`].
    #[track_caller]
    pub fn ifft(&self, n: Option<usize>, axis: impl Integer, norm: FftNorm) -> Tensor {
        let call = Call { op: "ifft", transform: Transform::Inverse, n, axis: axis.number(), norm, conjugate: false };
        self.transformed(call, Location::caller())
    }

    /// The first `n / 2 + 1` elements of the transform of real numbers; the others are their conjugates.
    ///
    /// ```
    /// use millstream::{FftNorm, Tensor};
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0]);
    /// let y = x.rfft(None, 0, FftNorm::Ortho);
    /// assert_eq!(y.shape(), [3]);
    /// let back = y.irfft(Some(5), 0, FftNorm::Ortho).round();
    /// assert_eq!(back.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn rfft(&self, n: Option<usize>, axis: impl Integer, norm: FftNorm) -> Tensor {
        let call =
            Call { op: "rfft", transform: Transform::RealForward, n, axis: axis.number(), norm, conjugate: false };
        self.transformed(call, Location::caller())
    }

    /// The inverse of [`Tensor::rfft`]: `n` real numbers, or `2 (m - 1)` of `m` elements. Imaginary parts of the first element,
    /// and for an even `n` of the last, are ignored.
    #[track_caller]
    pub fn irfft(&self, n: Option<usize>, axis: impl Integer, norm: FftNorm) -> Tensor {
        let call =
            Call { op: "irfft", transform: Transform::RealInverse, n, axis: axis.number(), norm, conjugate: false };
        self.transformed(call, Location::caller())
    }

    /// The (real) transform of a signal that is its own conjugate backwards, of which the first half is given.
    ///
    /// ```
    /// use millstream::{FftNorm, Tensor};
    /// let x = Tensor::from_slice(&[4.0f32, 1.0, 0.0]).cast(millstream::DType::C64);
    /// assert_eq!(x.hfft(None, 0, FftNorm::Backward).to_vec::<f32>()?, [6.0, 4.0, 2.0, 4.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn hfft(&self, n: Option<usize>, axis: impl Integer, norm: FftNorm) -> Tensor {
        let norm = norm.swapped();
        let call =
            Call { op: "hfft", transform: Transform::RealInverse, n, axis: axis.number(), norm, conjugate: true };
        self.transformed(call, Location::caller())
    }

    /// The inverse of [`Tensor::hfft`].
    #[track_caller]
    pub fn ihfft(&self, n: Option<usize>, axis: impl Integer, norm: FftNorm) -> Tensor {
        let norm = norm.swapped();
        let call =
            Call { op: "ihfft", transform: Transform::RealForward, n, axis: axis.number(), norm, conjugate: true };
        self.transformed(call, Location::caller())
    }

    /// The axes of a transform over several, with the length along each. Sizes without named axes are those of the last ones.
    fn fft_axes(&self, sizes: &[usize], axes: &Axes) -> Result<Vec<(usize, Option<usize>)>> {
        self.check()?;
        let mut list = axes.of(self.rank())?;
        if !sizes.is_empty() && !axes.is_list() && sizes.len() < list.len() {
            list.drain(..list.len() - sizes.len());
        }
        if !sizes.is_empty() && sizes.len() != list.len() {
            return Err(Error::argument(format!("{} sizes for {} axes", sizes.len(), list.len())));
        }
        Ok(list.iter().enumerate().map(|(i, &axis)| (axis, sizes.get(i).copied())).collect())
    }

    /// [`Tensor::fft`] along several axes, `..` for all, with a length for each of them or none.
    ///
    /// ```
    /// use millstream::{FftNorm, Tensor};
    /// let x = Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    /// let y = x.fftn(&[], .., FftNorm::Backward);
    /// assert_eq!(y.abs().to_vec::<f32>()?, [10.0, 2.0, 4.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn fftn(&self, sizes: &[usize], axes: impl Into<Axes>, norm: FftNorm) -> Tensor {
        let axes = axes.into();
        Tensor::build("fftn", || {
            let axes = self.fft_axes(sizes, &axes)?;
            let made = axes.iter().rev().fold(self.clone(), |t, &(axis, n)| t.fft(n, axis, norm));
            made.check().map(|()| made)
        })
    }

    /// The inverse of [`Tensor::fftn`].
    #[track_caller]
    pub fn ifftn(&self, sizes: &[usize], axes: impl Into<Axes>, norm: FftNorm) -> Tensor {
        let axes = axes.into();
        Tensor::build("ifftn", || {
            let axes = self.fft_axes(sizes, &axes)?;
            let made = axes.iter().rev().fold(self.clone(), |t, &(axis, n)| t.ifft(n, axis, norm));
            made.check().map(|()| made)
        })
    }

    /// [`Tensor::rfft`] along the last of several axes, then [`Tensor::fft`] along the others.
    #[track_caller]
    pub fn rfftn(&self, sizes: &[usize], axes: impl Into<Axes>, norm: FftNorm) -> Tensor {
        let axes = axes.into();
        Tensor::build("rfftn", || {
            let axes = self.fft_axes(sizes, &axes)?;
            let Some((&(last, n), others)) = axes.split_last() else {
                return Err(Error::shape("a Fourier transform needs a dimension"));
            };
            let made = others.iter().rev().fold(self.rfft(n, last, norm), |t, &(axis, n)| t.fft(n, axis, norm));
            made.check().map(|()| made)
        })
    }

    /// The inverse of [`Tensor::rfftn`]; without sizes, the last axis gets `2 (m - 1)` elements.
    #[track_caller]
    pub fn irfftn(&self, sizes: &[usize], axes: impl Into<Axes>, norm: FftNorm) -> Tensor {
        let axes = axes.into();
        Tensor::build("irfftn", || {
            let axes = self.fft_axes(sizes, &axes)?;
            let Some((&(last, n), others)) = axes.split_last() else {
                return Err(Error::shape("a Fourier transform needs a dimension"));
            };
            let made = others.iter().fold(self.clone(), |t, &(axis, n)| t.ifft(n, axis, norm)).irfft(n, last, norm);
            made.check().map(|()| made)
        })
    }

    /// The frequencies of a transform of `n` elements that are `d` apart (f64): `0, 1, .., -2, -1` over `n d`.
    ///
    /// ```
    /// use millstream::Tensor;
    /// assert_eq!(Tensor::fftfreq(4, 0.5).to_vec::<f64>()?, [0.0, 0.5, -1.0, -0.5]);
    /// assert_eq!(Tensor::rfftfreq(4, 0.5).to_vec::<f64>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn fftfreq(n: usize, d: f64) -> Tensor {
        let half = n.div_ceil(2) as i64;
        let index = indices(n);
        // The upper half of the indices stands for negative frequencies.
        let signed = index.lt(half).where_(&index, &(&index - n as i64));
        signed.cast(DType::F64) / (n as f64 * d)
    }

    /// The frequencies of [`Tensor::rfft`] (f64): `0, 1, .., n / 2` over `n d`.
    #[track_caller]
    pub fn rfftfreq(n: usize, d: f64) -> Tensor {
        indices(n / 2 + 1).cast(DType::F64) / (n as f64 * d)
    }

    /// Rolls axes by the half of their length, forth or back.
    fn half_rolled(&self, op: &'static str, axes: Axes, back: bool) -> Tensor {
        Tensor::build(op, || {
            self.check()?;
            let axes = axes.of(self.rank())?;
            let half = |&axis: &usize| {
                let n = self.sizes()[axis] as isize;
                if back { -(n / 2) } else { n / 2 }
            };
            let shifts: Vec<isize> = axes.iter().map(half).collect();
            let made = self.roll(shifts, &axes);
            made.check().map(|()| made)
        })
    }

    /// The frequency 0 moved from the front to the middle of axes, `..` for all.
    ///
    /// ```
    /// use millstream::Tensor;
    /// assert_eq!(Tensor::fftfreq(4, 0.25).fftshift(..).to_vec::<f64>()?, [-2.0, -1.0, 0.0, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn fftshift(&self, axes: impl Into<Axes>) -> Tensor {
        self.half_rolled("fftshift", axes.into(), false)
    }

    /// The inverse of [`Tensor::fftshift`].
    #[track_caller]
    pub fn ifftshift(&self, axes: impl Into<Axes>) -> Tensor {
        self.half_rolled("ifftshift", axes.into(), true)
    }
}
