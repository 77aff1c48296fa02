//! What networks are made of: normalisations, losses, resizing.

use millstream_core::what::count;
use millstream_core::{DType, Error, Reduce, Result};

use crate::Tensor;
use crate::arguments::{Axes, Integer};
use crate::ops::creation::indices;
use crate::ops::join::many;
use crate::ops::reductions::{Keep, reductions};

/// How the losses of single elements become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Not at all.
    None,
}

/// How [`Tensor::interpolate`] finds values between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Interpolation {
    /// The element whose index is the next smaller.
    #[default]
    Nearest,
    /// Along lines between the neighbours of each axis; pixels are areas (`align_corners = False` of PyTorch).
    Linear,
}

reductions! {
    //! # Sums of exponentials

    /// `log(sum(exp(x)))` over axes, safe for large elements.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[1000.0f32, 1000.0]);
    /// assert_eq!(x.logsumexp(0).item::<f32>()?, 1000.0 + 2.0f32.ln());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    logsumexp, logsumexp_keepdim: |x; axes, keep| x.log_sum_exp(axes, keep);
}

/// # Normalisations, losses, resizing
///
/// All of it is written from primitives and fused by the planner: a normalisation is one kernel, a loss one or two.
impl Tensor {
    #[track_caller]
    fn log_sum_exp(&self, axes: &Axes, keep: Keep) -> Tensor {
        let x = self.as_float();
        let most = x.reduce(Reduce::Max, axes, Keep::Yes);
        // Where the largest element is infinite, so is the result: nothing is subtracted there.
        let most = most.abs().lt(f64::INFINITY).where_(&most, 0);
        let sum = (&x - &most).exp().reduce(Reduce::Sum, axes, Keep::Yes).log() + most;
        if keep == Keep::Yes { sum } else { sum.reduce(Reduce::Sum, axes, Keep::No) }
    }

    /// Rows along axes divided by the root of the mean of their squares, to which `epsilon` is added: `-1` are the rows of the last
    /// axis.
    ///
    /// Scale by multiplying: that fuses into the same kernel.
    #[track_caller]
    pub fn rmsnorm(&self, axes: impl Into<Axes>, epsilon: f64) -> Tensor {
        Tensor::composed("rmsnorm", || {
            let x = self.as_float();
            let mean = x.square().mean_keepdim(axes);
            &x * (mean + epsilon).rsqrt()
        })
    }

    /// Channels (axis 1) in so many groups, each group of a sample brought to mean 0 and variance 1; `epsilon` is added to the
    /// variance. Scale and shift by multiplying and adding.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[1, 2, 2], &[1.0f32, 3.0, 10.0, 30.0]);
    /// let y = x.groupnorm(2, 0.0).to_vec::<f32>()?;
    /// assert!(y.iter().zip([-1.0, 1.0, -1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-5));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn groupnorm(&self, groups: usize, epsilon: f64) -> Tensor {
        Tensor::build("groupnorm", || {
            self.check()?;
            let shape = self.sizes();
            if self.rank() < 2 || groups == 0 || !shape[1].is_multiple_of(groups) {
                return Err(Error::argument(format!("{groups} groups of channels in a tensor of shape {shape:?}"))
                    .suggest("axis 1 holds the channels, and groups are of one size"));
            }
            let rest = many(shape[1] / groups, count(&shape[2..])?)?;
            Ok(self.reshape([shape[0], groups, rest]).layernorm(-1, epsilon).reshape(shape))
        })
    }

    /// Channels (axis 1) less their mean, divided by the root of their variance, to which `epsilon` is added: what inference
    /// makes of a batch norm. Scale and shift by multiplying and adding.
    #[track_caller]
    pub fn batchnorm(&self, mean: &Tensor, variance: &Tensor, epsilon: f64) -> Tensor {
        Tensor::build("batchnorm", || {
            self.check()?;
            let channels = |t: &Tensor| -> Result<Tensor> {
                t.check()?;
                if self.rank() < 2 || t.sizes() != &self.sizes()[1..2] {
                    return Err(
                        Error::shapes_differ(self.sizes(), t.sizes()).suggest("one number for each channel, axis 1")
                    );
                }
                let mut shape = vec![1; self.rank()];
                shape[1] = self.sizes()[1];
                Ok(t.reshape(&shape))
            };
            let (mean, variance) = (channels(mean)?, channels(variance)?);
            Ok((self.as_float() - mean) * (variance + epsilon).rsqrt())
        })
    }

    /// Losses as one number, or as they are.
    fn reduced(&self, reduction: Reduction) -> Tensor {
        match reduction {
            Reduction::Mean => self.mean(..),
            Reduction::Sum => self.sum(..),
            Reduction::None => self.clone(),
        }
    }

    /// The square of the distance to a target. The distance of integers is exact, then counts as f32.
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::composed("mse_loss", || self.difference(target).square().reduced(reduction))
    }

    /// The difference to a target; of integers its size, exact, as f32.
    #[track_caller]
    fn difference(&self, target: &Tensor) -> Tensor {
        if self.is_whole() && target.is_whole() { self.distance(target).as_float() } else { self - target }
    }

    /// The distance to a target. The distance of integers is exact, then counts as f32.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::composed("l1_loss", || self.distance(target).as_float().reduced(reduction))
    }

    /// Half the square of the distance to a target up to `delta`, then a line with the slope `delta`.
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Tensor {
        Tensor::composed("huber_loss", || {
            let distance = self.distance(target).as_float();
            let near = distance.square() * 0.5;
            distance.le(delta).where_(&near, &((&distance - 0.5 * delta) * delta)).reduced(reduction)
        })
    }

    /// The negative logarithm of a class' probability: logarithms of probabilities along axis 1, classes as integers without that
    /// axis.
    ///
    /// ```
    /// use millstream::{Reduction, Tensor};
    /// let logits = Tensor::from_shape(&[2, 2], &[0.0f32, 0.0, 0.0, 100.0]);
    /// let loss = logits.cross_entropy(&Tensor::from_slice(&[0i64, 1]), Reduction::Sum);
    /// assert!((loss.item::<f32>()? - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss(&self, classes: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::composed("nll_loss", || {
            (-self.as_float().take_along_axis(&classes.unsqueeze(1), 1)).squeeze(1).reduced(reduction)
        })
    }

    /// [`Tensor::nll_loss`] of the logarithm of the softmax along axis 1.
    #[track_caller]
    pub fn cross_entropy(&self, classes: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::composed("cross_entropy", || self.log_softmax(1).nll_loss(classes, reduction))
    }

    /// The cross entropy of truth values and the probabilities `sigmoid(x)`, safe for large elements.
    #[track_caller]
    pub fn bce_with_logits(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::composed("bce_with_logits", || {
            let x = self.as_float();
            (x.maximum(0) - &x * target.cast(x.dtype()) + (-x.abs()).exp().log1p()).reduced(reduction)
        })
    }

    /// `target * (log(target) - x)` with logarithms of probabilities in `x`: how far the target is from them.
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::composed("kl_div", || {
            let term = target * (target.log() - self);
            target.gt(0).where_(&term, 0).reduced(reduction)
        })
    }

    /// The cosine of the angle between vectors along an axis; lengths below `epsilon` count as `epsilon`.
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: impl Integer, epsilon: f64) -> Tensor {
        let axis = axis.number();
        Tensor::composed("cosine_similarity", || {
            let (x, y) = (self.as_float(), other.as_float());
            let length = |t: &Tensor| t.square().sum(axis).sqrt().maximum(epsilon);
            (&x * &y).sum(axis) / (length(&x) * length(&y))
        })
    }

    /// The last axes in other sizes, one for each, the elements between those that are there found as the mode says.
    ///
    /// ```
    /// use millstream::{Interpolation, Tensor};
    /// let x = Tensor::from_slice(&[0.0f32, 4.0]);
    /// assert_eq!(x.interpolate(&[4], Interpolation::Linear).to_vec::<f32>()?, [0.0, 1.0, 3.0, 4.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn interpolate(&self, sizes: &[usize], mode: Interpolation) -> Tensor {
        Tensor::build("interpolate", || {
            self.check()?;
            if sizes.len() > self.rank() {
                return Err(Error::argument(format!("{} sizes for {} axes", sizes.len(), self.rank())));
            }
            let first = self.rank() - sizes.len();
            if self.sizes()[first..].iter().zip(sizes).any(|(&old, &new)| old == 0 && new > 0) {
                return Err(Error::shape(format!("shape {:?} has nothing to interpolate between", self.sizes())));
            }
            let mut out = self.as_float();
            for (i, &size) in sizes.iter().enumerate() {
                out = resized(&out, first + i, size, mode);
                out.check()?;
            }
            Ok(out)
        })
    }
}

/// One axis in another size.
fn resized(x: &Tensor, axis: usize, size: usize, mode: Interpolation) -> Tensor {
    let old = x.sizes()[axis];
    if size == old {
        return x.clone();
    }
    let at = indices(size);
    if mode == Interpolation::Nearest {
        // In whole numbers: no rounding can pick a neighbour.
        return x.take(&(at * old as i64).floor_div(size as i64), axis);
    }
    let scale = old as f64 / size as f64;
    let at = ((at.cast(DType::F64) + 0.5) * scale - 0.5).maximum(0.0);
    let low = at.floor().minimum(old as f64 - 1.0);
    let high = (&low + 1.0).minimum(old as f64 - 1.0);
    let mut shape = vec![1; x.rank()];
    shape[axis] = size;
    let share = (&at - &low).cast(x.dtype()).reshape(&shape);
    let (low, high) = (x.take(&low.cast(DType::I64), axis), x.take(&high.cast(DType::I64), axis));
    &low + (high - &low) * share
}
