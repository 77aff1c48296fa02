//! What networks are made of, below `millstream.nn`.

use millstream::{AttentionOptions, Channels, Conv, DType, Interpolation, Pool, Reduction, Tensor};
use pyo3::prelude::*;

use crate::arguments::Ints;
use crate::array::Made;
use crate::convert::{Arg, X};
use crate::dtype::DTypeArg;
use crate::error::{R, value_error};
use crate::functions::add;

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /))]
        fn $name(x: X) -> Made {
            Made(x.0.$name())
        })*

        fn register_activations(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

activations! {
    /// The Gaussian error linear unit.
    gelu;
    /// `min(max(x + 3, 0), 6) / 6`.
    hard_sigmoid;
    /// `x * hard_sigmoid(x)`.
    hard_swish;
    /// `log(sigmoid(x))` without underflow.
    log_sigmoid;
    /// `x * tanh(softplus(x))`.
    mish;
    /// `max(x, 0)`.
    relu;
    /// `min(max(x, 0), 6)`.
    relu6;
    /// The scaled exponential linear unit.
    selu;
    /// `1 / (1 + exp(-x))`.
    sigmoid;
    /// `x * sigmoid(x)`.
    silu;
    /// `log(1 + exp(x))` without overflow.
    softplus;
    /// `x / (1 + abs(x))`.
    softsign;
}

/// The Gaussian error linear unit by the hyperbolic tangent.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn gelu_tanh(x: X) -> Made {
    Made(x.0.gelu_tanh())
}

/// `x`, or `alpha * (exp(x) - 1)` where x is negative.
#[pyfunction]
#[pyo3(signature = (x, /, alpha = 1.0))]
fn elu(x: X, alpha: f64) -> Made {
    Made(x.0.elu(alpha))
}

/// `x`, or `slope * x` where x is negative.
#[pyfunction]
#[pyo3(signature = (x, /, slope = 0.01))]
fn leaky_relu(x: X, slope: f64) -> Made {
    Made(x.0.leaky_relu(slope))
}

/// `exp(x) / sum(exp(x))` along an axis.
#[pyfunction]
#[pyo3(signature = (x, /, axis = -1))]
fn softmax(x: X, axis: isize) -> Made {
    Made(x.0.softmax(axis))
}

/// The logarithm of `softmax`.
#[pyfunction]
#[pyo3(signature = (x, /, axis = -1))]
fn log_softmax(x: X, axis: isize) -> Made {
    Made(x.0.log_softmax(axis))
}

/// The logarithm of the sum of exponentials over axes.
#[pyfunction]
#[pyo3(signature = (x, /, axis = -1, keepdims = false))]
fn logsumexp(x: X, axis: isize, keepdims: bool) -> Made {
    Made(if keepdims { x.0.logsumexp_keepdim(axis) } else { x.0.logsumexp(axis) })
}

/// `x * weight + bias`, where they are given.
fn affine(x: Tensor, weight: Option<X>, bias: Option<X>) -> Made {
    let x = weight.map_or_else(|| x.clone(), |w| &x * &w.0);
    Made(bias.map_or_else(|| x.clone(), |b| &x + &b.0))
}

/// Rows along axes brought to mean 0 and variance 1, then scaled and shifted.
#[pyfunction]
#[pyo3(signature = (x, /, weight = None, bias = None, *, axis = Ints::one(-1), eps = 1e-5),
    text_signature = "(x, /, weight=None, bias=None, *, axis=-1, eps=1e-05)")]
fn layer_norm(x: X, weight: Option<X>, bias: Option<X>, axis: Ints, eps: f64) -> Made {
    affine(x.0.layernorm(axis.axes(), eps), weight, bias)
}

/// Rows along axes brought to a mean square of 1, then scaled.
#[pyfunction]
#[pyo3(signature = (x, /, weight = None, *, axis = Ints::one(-1), eps = 1e-5),
    text_signature = "(x, /, weight=None, *, axis=-1, eps=1e-05)")]
fn rms_norm(x: X, weight: Option<X>, axis: Ints, eps: f64) -> Made {
    affine(x.0.rmsnorm(axis.axes(), eps), weight, None)
}

/// A number for each channel, axis 1, in the shape of the images.
fn channels(x: &Tensor, t: Option<X>) -> Option<X> {
    let mut shape = vec![1isize; x.rank()];
    if let Some(size) = shape.get_mut(1) {
        *size = -1;
    }
    t.map(|t| X(t.0.reshape(shape)))
}

/// Groups of channels, axis 1, brought to mean 0 and variance 1, then scaled and shifted.
#[pyfunction]
#[pyo3(signature = (x, groups, /, weight = None, bias = None, *, eps = 1e-5))]
fn group_norm(x: X, groups: usize, weight: Option<X>, bias: Option<X>, eps: f64) -> Made {
    let (weight, bias) = (channels(&x.0, weight), channels(&x.0, bias));
    affine(x.0.groupnorm(groups, eps), weight, bias)
}

/// Channels, axis 1, by their mean and variance, then scaled and shifted.
#[pyfunction]
#[pyo3(signature = (x, mean, var, /, weight = None, bias = None, *, eps = 1e-5))]
fn batch_norm(x: X, mean: X, var: X, weight: Option<X>, bias: Option<X>, eps: f64) -> Made {
    let (weight, bias) = (channels(&x.0, weight), channels(&x.0, bias));
    affine(x.0.batchnorm(&mean.0, &var.0, eps), weight, bias)
}

/// `x @ weight.T + bias`, with weights of shape (out, in).
#[pyfunction]
#[pyo3(signature = (x, weight, /, bias = None))]
fn linear(x: X, weight: X, bias: Option<X>) -> Made {
    affine(x.0.matmul(&weight.0.transpose()), None, bias)
}

/// The rows of a table at these indices.
#[pyfunction]
#[pyo3(signature = (indices, table, /))]
fn embedding(indices: X, table: X) -> Made {
    Made(table.0.embedding(&indices.0))
}

/// Ones where the last axis, of so many classes, is the element.
#[pyfunction]
#[pyo3(signature = (x, classes, /, *, dtype = None))]
fn one_hot(x: X, classes: usize, dtype: Option<DTypeArg>) -> Made {
    Made(x.0.one_hot(classes, dtype.map_or(DType::F32, |d| d.0)))
}

/// `softmax(scale * q @ k.mT + mask) @ v` without the scores ever being in memory.
#[pyfunction]
#[pyo3(signature = (q, k, v, /, *, mask = None, causal = false, scale = None))]
fn attention(q: X, k: X, v: X, mask: Option<X>, causal: bool, scale: Option<f64>) -> Made {
    let mask = mask.map(|m| m.0);
    Made(q.0.attention(&k.0, &v.0, &AttentionOptions { causal, mask: mask.as_ref(), scale }))
}

fn sizes(ints: &Ints) -> R<millstream::Sizes> {
    let list = ints.list.iter().map(|&n| usize::try_from(n)).collect::<Result<Vec<_>, _>>();
    let list = list.map_err(|_| value_error("a negative size"))?;
    Ok(if ints.alone { list[0].into() } else { (&list[..]).into() })
}

fn channels_last(last: bool) -> Channels {
    if last { Channels::Last } else { Channels::First }
}

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, weight, /, bias = None, *, stride = Ints::one(1), padding = Ints::one(0), dilation = Ints::one(1), groups = 1,
                channels_last = false),
            text_signature =
                "(x, weight, /, bias=None, *, stride=1, padding=0, dilation=1, groups=1, channels_last=False)"
        )]
        #[allow(clippy::too_many_arguments)]
        fn $name(
            x: X,
            weight: X,
            bias: Option<X>,
            stride: Ints,
            padding: Ints,
            dilation: Ints,
            groups: usize,
            channels_last: bool,
        ) -> R<Made> {
            let options = Conv::new().stride(sizes(&stride)?).padding(sizes(&padding)?).dilation(sizes(&dilation)?);
            let options = options.groups(groups).channels(self::channels_last(channels_last));
            Ok(Made(x.0.$name(&weight.0, bias.map(|b| b.0).as_ref(), &options)))
        })*

        fn register_convolutions(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

convolutions! {
    /// The convolution of signals (batch, channels, n) with filters (out, channels / groups, k).
    conv1d;
    /// The convolution of images (batch, channels, h, w) with filters (out, channels / groups, kh, kw).
    conv2d;
    /// The convolution of volumes with filters.
    conv3d;
}

macro_rules! transposed {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, weight, /, bias = None, *, stride = Ints::one(1), padding = Ints::one(0), output_padding = Ints::one(0),
                dilation = Ints::one(1), groups = 1),
            text_signature =
                "(x, weight, /, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1)"
        )]
        #[allow(clippy::too_many_arguments)]
        fn $name(
            x: X,
            weight: X,
            bias: Option<X>,
            stride: Ints,
            padding: Ints,
            output_padding: Ints,
            dilation: Ints,
            groups: usize,
        ) -> R<Made> {
            let options = Conv::new().stride(sizes(&stride)?).padding(sizes(&padding)?).dilation(sizes(&dilation)?);
            let options = options.groups(groups).output_padding(sizes(&output_padding)?);
            Ok(Made(x.0.$name(&weight.0, bias.map(|b| b.0).as_ref(), &options)))
        })*

        fn register_transposed(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

transposed! {
    /// The transposed convolution of signals.
    conv_transpose1d;
    /// The transposed convolution of images.
    conv_transpose2d;
    /// The transposed convolution of volumes.
    conv_transpose3d;
}

macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, size, /, stride = None, *, padding = Ints::one(0), dilation = Ints::one(1), ceil = false),
            text_signature = "(x, size, /, stride=None, *, padding=0, dilation=1, ceil=False)"
        )]
        fn $name(x: X, size: Ints, stride: Option<Ints>, padding: Ints, dilation: Ints, ceil: bool) -> R<Made> {
            let mut pool = Pool::new(sizes(&size)?).padding(sizes(&padding)?).dilation(sizes(&dilation)?).ceil(ceil);
            if let Some(stride) = stride {
                pool = pool.stride(sizes(&stride)?);
            }
            Ok(Made(x.0.$name(&pool)))
        })*

        fn register_pools(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

pools! {
    /// The means of windows of signals.
    avg_pool1d;
    /// The means of windows of images.
    avg_pool2d;
    /// The means of windows of volumes.
    avg_pool3d;
    /// The largest elements of windows of signals.
    max_pool1d;
    /// The largest elements of windows of images.
    max_pool2d;
    /// The largest elements of windows of volumes.
    max_pool3d;
}

/// Signals, images or volumes in other sizes of their last axes.
#[pyfunction]
#[pyo3(signature = (x, size, /, mode = "nearest"))]
fn interpolate(x: X, size: Vec<usize>, mode: &str) -> R<Made> {
    let mode = match mode {
        "nearest" => Interpolation::Nearest,
        "linear" | "bilinear" | "trilinear" => Interpolation::Linear,
        other => return Err(value_error(format!("mode={other:?}\n  try: \"nearest\" or \"linear\""))),
    };
    Ok(Made(x.0.interpolate(&size, mode)))
}

fn reduction(name: &str) -> R<Reduction> {
    match name {
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        "none" => Ok(Reduction::None),
        other => Err(value_error(format!("reduction={other:?}\n  try: mean, sum or none"))),
    }
}

macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, target, /, *, reduction = "mean"))]
        fn $name(x: X, target: X, reduction: &str) -> R<Made> {
            Ok(Made(x.0.$name(&target.0, self::reduction(reduction)?)))
        })*

        fn register_losses(module: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(module: $($name),*);
            Ok(())
        }
    };
}

losses! {
    /// The binary cross entropy of logits.
    bce_with_logits;
    /// The cross entropy of logits (batch, classes) and classes (batch).
    cross_entropy;
    /// The Kullback-Leibler divergence of log probabilities from probabilities.
    kl_div;
    /// The mean absolute difference.
    l1_loss;
    /// The mean squared difference.
    mse_loss;
    /// The negative log probabilities of classes.
    nll_loss;
}

/// The cosine of the angle between vectors.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, axis = -1, eps = 1e-8))]
fn cosine_similarity(x1: X, x2: X, axis: isize, eps: f64) -> Made {
    Made(x1.0.cosine_similarity(&x2.0, axis, eps))
}

/// Elements moved by a share of the way to others.
#[pyfunction]
#[pyo3(signature = (x, end, weight, /))]
fn lerp(x: X, end: Arg, weight: Arg) -> Made {
    Made(x.0.lerp(end.operand(), weight.operand()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let own = &PyModule::new(module.py(), "_nn")?;
    register_activations(own)?;
    register_convolutions(own)?;
    register_transposed(own)?;
    register_pools(own)?;
    register_losses(own)?;
    {
        let module = own;
        add!(module: gelu_tanh, elu, leaky_relu, softmax, log_softmax, logsumexp, layer_norm, rms_norm, group_norm, batch_norm,
            linear, embedding, one_hot, attention, interpolate, cosine_similarity, lerp);
    }
    module.add("_nn", own)
}
