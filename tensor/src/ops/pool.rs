//! Pooling: reductions over windows. Conventions are PyTorch's; an input is `[batch, channels, sizes..]` or without the batch,
//! or has its channels last.

use millstream_core::what::Dims;
use millstream_core::{DType, Error, Result, Scalar};

use crate::ops::conv::{Channels, channels_at, channels_first};
use crate::ops::creation::indices;
use crate::ops::join::many;
use crate::ops::padding::Slide;
use crate::{Sizes, Tensor};

/// The windows of a pooling.
///
/// ```
/// use millstream::{Pool, Tensor};
/// let x = Tensor::from_shape(&[1, 1, 5], &[1.0f32, 5.0, 2.0, 4.0, 3.0]);
/// assert_eq!(x.max_pool1d(&Pool::new(2)).to_vec::<f32>()?, [5.0, 4.0]);
/// assert_eq!(x.max_pool1d(&Pool::new(3).stride(2).padding(1)).to_vec::<f32>()?, [5.0, 5.0, 4.0]);
/// assert_eq!(x.avg_pool1d(&Pool::new(2).ceil(true)).to_vec::<f32>()?, [3.0, 3.0, 3.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil: bool,
    count_padding: bool,
    channels: Channels,
}

impl Pool {
    /// Windows of this size, side by side.
    pub fn new(size: impl Into<Sizes>) -> Pool {
        let size = size.into();
        Pool {
            stride: size.clone(),
            size,
            padding: 0.into(),
            dilation: 1.into(),
            ceil: false,
            count_padding: true,
            channels: Channels::First,
        }
    }

    /// Elements from one window to the next, for each axis or for all.
    #[must_use]
    pub fn stride(self, stride: impl Into<Sizes>) -> Pool {
        Pool { stride: stride.into(), ..self }
    }

    /// Elements on both sides that windows may reach into: nothing for a maximum, zeros for a mean. At most half a window.
    #[must_use]
    pub fn padding(self, padding: impl Into<Sizes>) -> Pool {
        Pool { padding: padding.into(), ..self }
    }

    /// Elements from one element of a window to the next.
    #[must_use]
    pub fn dilation(self, dilation: impl Into<Sizes>) -> Pool {
        Pool { dilation: dilation.into(), ..self }
    }

    /// Whether a last window that reaches beyond the end counts.
    #[must_use]
    pub fn ceil(self, ceil: bool) -> Pool {
        Pool { ceil, ..self }
    }

    /// Whether padding counts as elements of a mean, as it does by default.
    #[must_use]
    pub fn count_padding(self, count_padding: bool) -> Pool {
        Pool { count_padding, ..self }
    }

    /// Where channels stand in the input and in the result.
    #[must_use]
    pub fn channels(self, channels: Channels) -> Pool {
        Pool { channels, ..self }
    }
}

/// Windows over an input, with the padding that they need.
struct PoolWindows {
    slide: Slide,
    padding: Vec<usize>,
    amounts: Vec<(usize, usize)>,
    counts: Dims,
}

impl Pool {
    fn windows(&self, sizes: &[usize]) -> Result<PoolWindows> {
        let axes = sizes.len();
        let slide = Slide { size: self.size.of(axes)?, step: self.stride.of(axes)?, dilation: self.dilation.of(axes)? };
        let padding = self.padding.of(axes)?;
        let mut amounts = Vec::with_capacity(axes);
        for a in 0..axes {
            let (size, step) = (slide.size[a], slide.step[a]);
            let span = size.saturating_sub(1).saturating_mul(slide.dilation[a]).saturating_add(1);
            if size == 0 || step == 0 || padding[a] > span / 2 {
                return Err(Error::argument(format!(
                    "windows of {size} with stride {step} and padding {} (at most half a window)",
                    padding[a]
                )));
            }
            let mut after = padding[a];
            let padded = padding[a].checked_mul(2).and_then(|p| p.checked_add(sizes[a]));
            let padded = padded.ok_or_else(|| Error::too_large(sizes))?;
            if self.ceil && padded >= span {
                let left = (padded - span) % step;
                // One more window, if it begins inside the input or the padding before it.
                if left > 0 && (padded - span) / step * step + step < sizes[a] + padding[a] {
                    after += step - left;
                }
            }
            amounts.push((padding[a], after));
        }
        let padded: Vec<usize> = sizes.iter().zip(&amounts).map(|(n, (low, high))| n + low + high).collect();
        let counts = slide.count(&padded)?;
        Ok(PoolWindows { slide, padding, amounts, counts })
    }
}

/// The input as `[batch, channels, sizes..]`, and whether it came without a batch.
fn images(x: &Tensor, axes: usize, channels: Channels) -> Result<(Tensor, bool)> {
    x.check()?;
    let single = x.rank() == axes + 1;
    if !single && x.rank() != axes + 2 {
        return Err(Error::shape(format!("pooling along {axes} axes of an input of shape {:?}", x.sizes()))
            .suggest(format!("the input needs {} dimensions: batch, channels, sizes", axes + 2)));
    }
    let x = if single { x.unsqueeze(0) } else { x.clone() };
    Ok((channels_first(&x, channels), single))
}

/// An empty list with room for so many elements of a table, or an error: any number of windows may be given.
fn room<T>(elements: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let room = list.try_reserve_exact(elements);
    room.map(|()| list).map_err(|_| Error::shape(format!("a table of {elements} elements for windows does not fit")))
}

/// Windows along so many axes of `[batch, channels, sizes..]` as `[batch, channels, pixels.., elements..]`, channels moved behind
/// the pixels where they belong there: so the result is computed in its own order.
fn slid(x: &Tensor, slide: &Slide, channels: Channels) -> Result<Tensor> {
    let (all, axes) = (x.slid(slide)?, slide.size.len());
    Ok(match channels {
        Channels::First => all,
        Channels::Last => {
            let order: Vec<usize> = [0].into_iter().chain(2..2 + axes).chain([1]).chain(2 + axes..all.rank()).collect();
            all.permute(&order)
        }
    })
}

/// The result without a batch if the input had none.
fn finished(y: Tensor, single: bool) -> Tensor {
    if single { y.squeeze(0) } else { y }
}

/// # Pooling
///
/// Reductions over windows. Conventions are PyTorch's; an input is `[batch, channels, sizes..]` or without the batch, or has its channels
/// last.
impl Tensor {
    fn max_pool(&self, pool: &Pool, axes: usize) -> Result<Tensor> {
        let (x, single) = images(self, axes, pool.channels)?;
        let windows = pool.windows(&x.sizes()[2..])?;
        let x = x.padded(&windows.amounts, Scalar::lowest(x.dtype()))?;
        Ok(finished(slid(&x, &windows.slide, pool.channels)?.max(-(axes as isize)..), single))
    }

    fn avg_pool(&self, pool: &Pool, axes: usize) -> Result<Tensor> {
        let (x, single) = images(self, axes, pool.channels)?;
        if pool.dilation != Sizes::from(1) {
            return Err(Error::argument("the windows of a mean have no dilation"));
        }
        let x = x.as_float();
        let windows = pool.windows(&x.sizes()[2..])?;
        let padded = x.padded(&windows.amounts, Scalar::zero(x.dtype()))?;
        let totals = slid(&padded, &windows.slide, pool.channels)?.sum(-(axes as isize)..);
        // How many elements each window has along each axis. What ceil adds beyond the padding never counts.
        let mut whole = 1.0;
        let mut uneven: Vec<(usize, Vec<f64>)> = Vec::new();
        for a in 0..axes {
            let (n, padding, size) = (x.sizes()[2 + a], windows.padding[a], windows.slide.size[a]);
            let (low, high) = if pool.count_padding { (0, n + 2 * padding) } else { (padding, n + padding) };
            let count = |i: usize| {
                let start = i * windows.slide.step[a];
                (start + size).min(high).saturating_sub(start.max(low)) as f64
            };
            let mut counts: Vec<f64> = room(windows.counts[a])?;
            counts.extend((0..windows.counts[a]).map(count));
            if counts.iter().all(|&c| c == size as f64) {
                whole *= size as f64;
            } else {
                uneven.push((a, counts));
            }
        }
        let dtype = totals.dtype();
        let mut y = totals;
        if uneven.is_empty() {
            y /= whole;
        } else {
            // One table for all axes, so that there is one rounding.
            let mut table = vec![whole];
            let mut shape = vec![1; axes];
            for (a, counts) in uneven {
                table = table.iter().flat_map(|t| counts.iter().map(move |c| t * c)).collect();
                shape[a] = counts.len();
            }
            if pool.channels == Channels::Last {
                shape.push(1);
            }
            let table: Vec<f32> = table.iter().map(|&c| c as f32).collect();
            let counts = Tensor::from_shape(&shape, &table).cast(dtype);
            let counts = if y.node.device.is_some() { counts.to(&y.device()?) } else { counts };
            y /= counts;
        }
        Ok(finished(y, single))
    }

    /// Windows of almost equal sizes that cover an axis: `out` of them, the i-th from `i * n / out` on, rounded down, to
    /// `(i + 1) * n / out`, rounded up.
    fn adaptive(&self, out: &Sizes, axes: usize, channels: Channels, mean: bool) -> Result<Tensor> {
        let (x, single) = images(self, axes, channels)?;
        let out = out.of(axes)?;
        if out.contains(&0) || x.sizes()[2..].contains(&0) {
            return Err(Error::shape(format!("pooling of {:?} to {out:?}", x.sizes())));
        }
        let mut y = if mean { x.as_float() } else { x };
        let even = (0..axes).all(|a| y.sizes()[2 + a] % out[a] == 0);
        if even {
            let size: Vec<usize> = (0..axes).map(|a| y.sizes()[2 + a] / out[a]).collect();
            let pool = Pool::new(size.as_slice());
            let y = if mean { y.avg_pool(&pool, axes)? } else { y.max_pool(&pool, axes)? };
            return Ok(finished(channels_at(&y, channels), single));
        }
        for a in 0..axes {
            let (n, out) = (y.sizes()[2 + a], out[a]);
            if n == out {
                continue;
            }
            // Which elements belong to which window; computed where it is needed, since a table would take more than the result.
            let whole = if many(out.saturating_add(1), n.saturating_add(1))? <= i32::MAX as usize {
                DType::I32
            } else {
                DType::I64
            };
            let (i, j) = (indices(out).cast(whole), indices(n).cast(whole));
            let first = (&i * n as i64).floor_div(out as i64);
            let end = ((&i + 1) * n as i64 + (out as i64 - 1)).floor_div(out as i64);
            let mut shape = vec![1; axes + 1];
            (shape[a], shape[a + 1]) = (out, n);
            let counts = (&end - &first).cast(DType::F32);
            let inside = j.ge(&first.unsqueeze(1)).and(&j.lt(&end.unsqueeze(1))).reshape(&shape);
            let axis = 2 + a;
            let spread = y.unsqueeze(axis);
            let dtype = y.dtype();
            let nothing = Tensor::scalar(if mean { Scalar::zero(dtype) } else { Scalar::lowest(dtype) });
            let chosen = inside.where_(&spread, &nothing);
            y = if mean {
                let mut shape = vec![1; axes];
                shape[a] = out;
                chosen.sum(axis + 1) / counts.cast(dtype).reshape(&shape)
            } else {
                chosen.max(axis + 1)
            };
            y.check()?;
        }
        Ok(finished(channels_at(&y, channels), single))
    }

    /// The largest element of each window along one axis; NaN if it has one. See [`Pool`].
    #[track_caller]
    pub fn max_pool1d(&self, pool: &Pool) -> Tensor {
        Tensor::build("max_pool1d", || self.max_pool(pool, 1))
    }

    /// The largest element of each window of images; NaN if it has one. See [`Pool`].
    #[track_caller]
    pub fn max_pool2d(&self, pool: &Pool) -> Tensor {
        Tensor::build("max_pool2d", || self.max_pool(pool, 2))
    }

    /// The largest element of each window along three axes; NaN if it has one. See [`Pool`].
    #[track_caller]
    pub fn max_pool3d(&self, pool: &Pool) -> Tensor {
        Tensor::build("max_pool3d", || self.max_pool(pool, 3))
    }

    /// The mean of each window along one axis. See [`Pool`].
    #[track_caller]
    pub fn avg_pool1d(&self, pool: &Pool) -> Tensor {
        Tensor::build("avg_pool1d", || self.avg_pool(pool, 1))
    }

    /// The mean of each window of images. See [`Pool`].
    #[track_caller]
    pub fn avg_pool2d(&self, pool: &Pool) -> Tensor {
        Tensor::build("avg_pool2d", || self.avg_pool(pool, 2))
    }

    /// The mean of each window along three axes. See [`Pool`].
    #[track_caller]
    pub fn avg_pool3d(&self, pool: &Pool) -> Tensor {
        Tensor::build("avg_pool3d", || self.avg_pool(pool, 3))
    }

    /// The largest elements of so many windows of almost equal sizes that cover an axis of `[batch, channels, length]`.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[1, 1, 5], &[1.0f32, 5.0, 2.0, 4.0, 3.0]);
    /// assert_eq!(x.adaptive_max_pool1d(2).to_vec::<f32>()?, [5.0, 4.0]);
    /// assert_eq!(x.adaptive_avg_pool1d(1).to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_max_pool1d(&self, out: impl Into<Sizes>) -> Tensor {
        let out = out.into();
        Tensor::build("adaptive_max_pool1d", || self.adaptive(&out, 1, Channels::First, false))
    }

    /// The largest elements of so many windows along both axes of `[batch, channels, height, width]`.
    #[track_caller]
    pub fn adaptive_max_pool2d(&self, out: impl Into<Sizes>) -> Tensor {
        let out = out.into();
        Tensor::build("adaptive_max_pool2d", || self.adaptive(&out, 2, Channels::First, false))
    }

    /// The largest elements of so many windows along three axes of `[batch, channels, sizes..]`.
    #[track_caller]
    pub fn adaptive_max_pool3d(&self, out: impl Into<Sizes>) -> Tensor {
        let out = out.into();
        Tensor::build("adaptive_max_pool3d", || self.adaptive(&out, 3, Channels::First, false))
    }

    /// The means of so many windows of almost equal sizes that cover an axis of `[batch, channels, length]`.
    #[track_caller]
    pub fn adaptive_avg_pool1d(&self, out: impl Into<Sizes>) -> Tensor {
        let out = out.into();
        Tensor::build("adaptive_avg_pool1d", || self.adaptive(&out, 1, Channels::First, true))
    }

    /// The means of so many windows along both axes of `[batch, channels, height, width]`.
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, out: impl Into<Sizes>) -> Tensor {
        let out = out.into();
        Tensor::build("adaptive_avg_pool2d", || self.adaptive(&out, 2, Channels::First, true))
    }

    /// The means of so many windows along three axes of `[batch, channels, sizes..]`.
    #[track_caller]
    pub fn adaptive_avg_pool3d(&self, out: impl Into<Sizes>) -> Tensor {
        let out = out.into();
        Tensor::build("adaptive_avg_pool3d", || self.adaptive(&out, 3, Channels::First, true))
    }
}
