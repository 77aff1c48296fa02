//! Fourier transforms, below `millstream.fft`.

use millstream::core::Kind;
use millstream::{Axes, DType, FftNorm, Tensor};
use pyo3::prelude::*;

use crate::arguments::{AxisArg, Ints};
use crate::array::Made;
use crate::convert::X;
use crate::device::{DeviceArg, place};
use crate::dtype::DTypeArg;
use crate::error::{R, value_error};
use crate::functions::add;

fn norm(name: &str) -> R<FftNorm> {
    match name {
        "backward" => Ok(FftNorm::Backward),
        "ortho" => Ok(FftNorm::Ortho),
        "forward" => Ok(FftNorm::Forward),
        other => Err(value_error(format!("norm={other:?}\n  try: backward, ortho or forward"))),
    }
}

/// Integers are transformed as float32.
fn float(x: &Tensor) -> Tensor {
    match x.dtype().kind() {
        Kind::Bool | Kind::Signed | Kind::Unsigned => x.cast(DType::F32),
        _ => x.clone(),
    }
}

macro_rules! one_axis {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, /, *, n = None, axis = -1, norm = "backward"),
            text_signature = "(x, /, *, n=None, axis=-1, norm='backward')"
        )]
        fn $name(x: X, n: Option<usize>, axis: isize, norm: &str) -> R<Made> {
            Ok(Made(float(&x.0).$name(n, axis, self::norm(norm)?)))
        })*

        fn register_one(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

one_axis! {
    /// The Fourier transform along an axis.
    fft;
    /// The inverse of `fft`.
    ifft;
    /// The Fourier transform of real numbers: its first half.
    rfft;
    /// The inverse of `rfft`.
    irfft;
    /// The Fourier transform of a Hermitian-symmetric signal.
    hfft;
    /// The inverse of `hfft`.
    ihfft;
}

/// Sizes and axes: without axes, as many last ones as there are sizes, or all.
fn axes(x: &Tensor, s: &Option<Ints>, axes: &Option<Ints>) -> R<(Vec<usize>, Axes)> {
    let sizes = s.iter().flat_map(|s| s.list.iter()).map(|&n| usize::try_from(n)).collect::<Result<Vec<_>, _>>();
    let sizes = sizes.map_err(|_| value_error("a negative size"))?;
    let axes = match axes {
        Some(axes) => axes.axes(),
        None if s.is_some() => {
            let rank = x.rank() as isize;
            Axes::from((rank - sizes.len() as isize..rank).collect::<Vec<_>>())
        }
        None => Axes::from(..),
    };
    Ok((sizes, axes))
}

macro_rules! several_axes {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, /, *, s = None, axes = None, norm = "backward"),
            text_signature = "(x, /, *, s=None, axes=None, norm='backward')"
        )]
        fn $name(x: X, s: Option<Ints>, axes: Option<Ints>, norm: &str) -> R<Made> {
            let (sizes, axes) = self::axes(&x.0, &s, &axes)?;
            Ok(Made(float(&x.0).$name(&sizes, axes, self::norm(norm)?)))
        })*

        fn register_several(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

several_axes! {
    /// The Fourier transform along several axes.
    fftn;
    /// The inverse of `fftn`.
    ifftn;
    /// The Fourier transform of real numbers along several axes.
    rfftn;
    /// The inverse of `rfftn`.
    irfftn;
}

fn frequencies(made: Tensor, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> Made {
    Made(place(made.cast(dtype.map_or(DType::F32, |d| d.0)), device))
}

/// The frequencies of the elements of `fft`.
#[pyfunction]
#[pyo3(signature = (n, /, *, d = 1.0, dtype = None, device = None))]
fn fftfreq(n: usize, d: f64, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> Made {
    frequencies(Tensor::fftfreq(n, d), dtype, device)
}

/// The frequencies of the elements of `rfft`.
#[pyfunction]
#[pyo3(signature = (n, /, *, d = 1.0, dtype = None, device = None))]
fn rfftfreq(n: usize, d: f64, dtype: Option<DTypeArg>, device: Option<DeviceArg>) -> Made {
    frequencies(Tensor::rfftfreq(n, d), dtype, device)
}

/// The frequency 0 moved to the middle.
#[pyfunction]
#[pyo3(signature = (x, /, *, axes = AxisArg::default()), text_signature = "(x, /, *, axes=None)")]
fn fftshift(x: X, axes: AxisArg) -> Made {
    Made(x.0.fftshift(axes.axes()))
}

/// The inverse of `fftshift`.
#[pyfunction]
#[pyo3(signature = (x, /, *, axes = AxisArg::default()), text_signature = "(x, /, *, axes=None)")]
fn ifftshift(x: X, axes: AxisArg) -> Made {
    Made(x.0.ifftshift(axes.axes()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let own = &PyModule::new(module.py(), "_fft")?;
    register_one(own)?;
    register_several(own)?;
    {
        let module = own;
        add!(module: fftfreq, rfftfreq, fftshift, ifftshift);
    }
    module.add("_fft", own)
}
