//! Normalisations, losses, resizing.

use millstream::{AttentionOptions, Interpolation, Reduction, Tensor};

use super::super::arguments::Arguments;
use super::super::trouble::Trouble;
use super::Function;

/// How losses become one number.
fn reduction(a: &mut Arguments<'_>) -> Result<Reduction, Trouble> {
    Ok(if a.flag("single")? { Reduction::None } else { Reduction::Mean })
}

/// Losses of a tensor and a target.
macro_rules! losses {
    ($($name:ident $about:literal),* $(,)?) => {
        &[$(Function {
            name: stringify!($name),
            form: "x, target, single=false",
            about: $about,
            call: |a| {
                let (x, target): (Tensor, Tensor) = (a.tensor("x")?, a.tensor("target")?);
                Ok(x.$name(&target, reduction(a)?))
            },
        }),*]
    };
}

pub(super) const LOSSES: &[Function] = losses! {
    mse_loss "the mean square of the distance to a target",
    l1_loss "the mean distance to a target",
    nll_loss "the negative logarithm of the target class' probability, from logarithms",
    cross_entropy "nll_loss of log_softmax along axis 1",
    bce_with_logits "the cross entropy of truth values and sigmoid(x)",
    kl_div "how far the target is from probabilities whose logarithms are given",
};

pub(super) const NEURAL: &[Function] = &[
    Function {
        name: "huber_loss",
        form: "x, target, delta=1, single=false",
        about: "squares of small distances, lines beyond delta",
        call: |a| {
            let (x, target, delta) = (a.tensor("x")?, a.tensor("target")?, a.float_or("delta", 1.0)?);
            Ok(x.huber_loss(&target, delta, reduction(a)?))
        },
    },
    Function {
        name: "attention",
        form: "q, k, v, causal=false",
        about: "softmax(q k' / root of the length) v",
        call: |a| {
            let (q, k, v) = (a.tensor("q")?, a.tensor("k")?, a.tensor("v")?);
            Ok(q.attention(&k, &v, &AttentionOptions { causal: a.flag("causal")?, ..Default::default() }))
        },
    },
    Function {
        name: "logsumexp",
        form: "x, axes=all, keep=false",
        about: "log(sum(exp(x))), safe for large elements",
        call: |a| a.reduced(Tensor::logsumexp, Tensor::logsumexp_keepdim),
    },
    Function {
        name: "rmsnorm",
        form: "x, axes=1, epsilon=1e-5",
        about: "the last so many axes divided by the root of their mean square",
        call: |a| {
            let (x, axes) = (a.tensor("x")?, a.last_axes()?);
            Ok(x.rmsnorm(axes, a.float_or("epsilon", 1e-5)?))
        },
    },
    Function {
        name: "groupnorm",
        form: "x, groups, epsilon=1e-5",
        about: "groups of channels (axis 1) brought to mean 0 and variance 1",
        call: |a| Ok(a.tensor("x")?.groupnorm(a.count_or("groups", 1)?, a.float_or("epsilon", 1e-5)?)),
    },
    Function {
        name: "batchnorm",
        form: "x, mean, variance, epsilon=1e-5",
        about: "channels (axis 1) less their mean, divided by the root of their variance",
        call: |a| {
            let (x, mean, variance) = (a.tensor("x")?, a.tensor("mean")?, a.tensor("variance")?);
            Ok(x.batchnorm(&mean, &variance, a.float_or("epsilon", 1e-5)?))
        },
    },
    Function {
        name: "cosine_similarity",
        form: "x, y, axis=-1, epsilon=1e-8",
        about: "the cosine of the angle between vectors",
        call: |a| {
            let (x, y, axis) = (a.tensor("x")?, a.tensor("y")?, a.int_or("axis", -1)?);
            Ok(x.cosine_similarity(&y, axis, a.float_or("epsilon", 1e-8)?))
        },
    },
    Function {
        name: "interpolate",
        form: "x, sizes, linear=false",
        about: "the last axes in other sizes",
        call: |a| {
            let (x, sizes) = (a.tensor("x")?, a.sizes("sizes")?);
            let mode = if a.flag("linear")? { Interpolation::Linear } else { Interpolation::Nearest };
            Ok(x.interpolate(&sizes, mode))
        },
    },
];
