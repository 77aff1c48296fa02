//! Convolutions: contractions of the filters with a view of the input's windows.

use millstream_core::what::Dims;
use millstream_core::{Accuracy, DType, Error, Layout, Result, Scalar};

use crate::graph::{Contraction, Inputs, Role, Roles};
use crate::ops::padding::Slide;
use crate::{Sizes, Tensor};

/// Where the channels stand among the dimensions of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Channels {
    /// `[batch, channels, sizes..]`.
    #[default]
    First,
    /// `[batch, sizes.., channels]`.
    Last,
}

/// How a convolution goes over its input. By default: each pixel, no padding, one group, channels first.
///
/// Padding counts as zero. Multiplications by it may be left out, so that a filter's infinity or NaN adds either nothing or NaN there, which may
/// differ between devices and numbers of threads.
///
/// ```
/// use millstream::{Conv, Tensor};
/// let x = Tensor::from_shape(&[1, 1, 1, 4], &[1.0f32, 2.0, 3.0, 4.0]);
/// let w = Tensor::from_shape(&[1, 1, 1, 3], &[1.0f32, 10.0, 100.0]);
/// let y = x.conv2d(&w, None, &Conv::new().padding([0, 1]).stride([1, 2]));
/// assert_eq!(y.to_vec::<f32>()?, [210.0, 432.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv {
    stride: Sizes,
    before: Sizes,
    after: Sizes,
    dilation: Sizes,
    output: Sizes,
    groups: usize,
    channels: Channels,
    accuracy: Accuracy,
}

impl Default for Conv {
    fn default() -> Conv {
        Conv::new()
    }
}

impl Conv {
    /// Each pixel, no padding, one group, channels first.
    pub fn new() -> Conv {
        Conv {
            stride: 1.into(),
            before: 0.into(),
            after: 0.into(),
            dilation: 1.into(),
            output: 0.into(),
            groups: 1,
            channels: Channels::First,
            accuracy: Accuracy::Full,
        }
    }

    /// Elements from one tap of the filter to the next, for each axis or for all.
    #[must_use]
    pub fn stride(self, stride: impl Into<Sizes>) -> Conv {
        Conv { stride: stride.into(), ..self }
    }

    /// Zeros on both sides of the input, for each axis or for all.
    #[must_use]
    pub fn padding(self, padding: impl Into<Sizes>) -> Conv {
        let padding = padding.into();
        Conv { before: padding.clone(), after: padding, ..self }
    }

    /// Zeros before and after the input, which may differ.
    #[must_use]
    pub fn padding_around(self, before: impl Into<Sizes>, after: impl Into<Sizes>) -> Conv {
        Conv { before: before.into(), after: after.into(), ..self }
    }

    /// Elements of the input from one element of the filter to the next.
    #[must_use]
    pub fn dilation(self, dilation: impl Into<Sizes>) -> Conv {
        Conv { dilation: dilation.into(), ..self }
    }

    /// Groups of channels that do not see one another; as many as channels for a depthwise convolution.
    #[must_use]
    pub fn groups(self, groups: usize) -> Conv {
        Conv { groups, ..self }
    }

    /// Elements added to the end of a transposed convolution's result, which strides leave undetermined.
    #[must_use]
    pub fn output_padding(self, output: impl Into<Sizes>) -> Conv {
        Conv { output: output.into(), ..self }
    }

    /// Where channels stand in the input and in the result.
    #[must_use]
    pub fn channels(self, channels: Channels) -> Conv {
        Conv { channels, ..self }
    }

    /// How exact the result must be. With [`Accuracy::Winograd`] a convolution by 3 x 3 filters at each pixel may be computed by
    /// Winograd's algorithm, with a quarter to four ninths of the multiplications: the CPU does so for f32 where that is quicker
    /// ([`Tensor::explain`] says so), other devices compute as ever. The error of a result is bounded by `(k / 9 + 16) * 194 *
    /// eps * max |x| * sum |w|` instead: the largest element of the image times the sum over the filter, `eps` being 2^-24.
    /// For numbers drawn from a normal distribution it is about five times that of the plain sum.
    ///
    /// ```
    /// use millstream::{Accuracy, Conv, Tensor};
    /// let x = Tensor::ones(&[1, 8, 6, 6], millstream::DType::F32);
    /// let w = Tensor::ones(&[8, 8, 3, 3], millstream::DType::F32);
    /// let y = x.conv2d(&w, None, &Conv::new().accuracy(Accuracy::Winograd));
    /// assert!((y.to_vec::<f32>()?[0] - 72.0).abs() < 1e-3);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[must_use]
    pub fn accuracy(self, accuracy: Accuracy) -> Conv {
        Conv { accuracy, ..self }
    }
}

/// The sizes that a convolution is made of.
struct Geometry {
    stride: Vec<usize>,
    amounts: Vec<(usize, usize)>,
    dilation: Vec<usize>,
    groups: usize,
    channels: Channels,
    accuracy: Accuracy,
}

impl Conv {
    fn geometry(&self, axes: usize) -> Result<Geometry> {
        let (before, after) = (self.before.of(axes)?, self.after.of(axes)?);
        Ok(Geometry {
            stride: self.stride.of(axes)?,
            amounts: before.into_iter().zip(after).collect(),
            dilation: self.dilation.of(axes)?,
            groups: self.groups,
            channels: self.channels,
            accuracy: self.accuracy,
        })
    }
}

/// The input as `[batch, channels, sizes..]`, whether it came without a batch, and the filters; all of one dtype.
fn operands(x: &Tensor, w: &Tensor, axes: usize, options: &Conv) -> Result<(Tensor, bool, Tensor, DType)> {
    x.check()?;
    w.check()?;
    let dtype = x.dtype().promote(w.dtype())?;
    let single = x.rank() == axes + 1;
    if (!single && x.rank() != axes + 2) || w.rank() != axes + 2 {
        return Err(Error::shape(format!(
            "a convolution along {axes} axes of an input of shape {:?} with filters of shape {:?}",
            x.sizes(),
            w.sizes()
        ))
        .suggest(format!("the input needs {} dimensions (batch, channels, sizes), the filters {0}", axes + 2)));
    }
    if options.groups == 0 {
        return Err(Error::argument("a convolution needs at least one group"));
    }
    let mut x = x.cast(dtype);
    if single {
        x = x.unsqueeze(0);
    }
    Ok((channels_first(&x, options.channels), single, w.cast(dtype), dtype))
}

/// A view with the channels behind the batch.
pub(crate) fn channels_first(x: &Tensor, channels: Channels) -> Tensor {
    match channels {
        Channels::First => x.clone(),
        Channels::Last => {
            let rank = x.rank();
            let order: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
            x.permute(&order)
        }
    }
}

/// A view with the channels where the caller wants them.
pub(crate) fn channels_at(x: &Tensor, channels: Channels) -> Tensor {
    match channels {
        Channels::First => x.clone(),
        Channels::Last => {
            let order: Vec<usize> = [0].into_iter().chain(2..x.rank()).chain([1]).collect();
            x.permute(&order)
        }
    }
}

/// The filters with their groups as a dimension: `[groups, out, in, sizes..]`.
fn grouped(w: &Tensor, groups: usize) -> Result<Tensor> {
    let (first, rest) = (w.sizes()[0], &w.sizes()[1..]);
    if first % groups != 0 {
        return Err(Error::shape(format!("{first} channels cannot be split into {groups} groups")));
    }
    let shape: Dims = [groups, first / groups].into_iter().chain(rest.iter().copied()).collect();
    let out = w.reshape(&shape);
    out.check()?;
    Ok(out)
}

/// The convolution of `x` (`[batch, channels, sizes..]`) with grouped filters.
fn convolve(x: &Tensor, w: &Tensor, geometry: &Geometry, dtype: DType) -> Result<Tensor> {
    let axes = geometry.stride.len();
    let (groups, out, within) = (geometry.groups, w.sizes()[1], w.sizes()[2]);
    let kernel = w.sizes()[3..].to_vec();
    let (batch, channels) = (x.sizes()[0], x.sizes()[1]);
    if groups.checked_mul(within) != Some(channels) {
        return Err(Error::shape(format!(
            "filters for {groups} groups of {within} channels over an input of {channels} channels (shape {:?})",
            x.sizes()
        )));
    }
    let slide = Slide { size: kernel.clone(), step: geometry.stride.clone(), dilation: geometry.dilation.clone() };
    let windows = x.padded(&geometry.amounts, Scalar::zero(dtype))?.slid(&slide)?;
    let pixels: Dims = windows.sizes()[2..2 + axes].into();
    // Dimensions by name: 0 batch, 1 group, 2 channel in the group, 3.. pixels, then the kernel's.
    let split: Dims =
        [batch, groups, within].into_iter().chain(pixels.iter().copied()).chain(kernel.iter().copied()).collect();
    let mut strides: Vec<isize> = windows.layout.strides().to_vec();
    strides.insert(1, strides[1].saturating_mul(within as isize));
    let windows = Tensor { layout: Layout::new(&split, &strides, windows.layout.offset())?, node: windows.node };
    let at = 3..3 + axes;
    let kernel_at = 3 + axes..3 + 2 * axes;

    // The filters' side is the left one where channels come first, since rows of the result are channels then.
    let last = geometry.channels == Channels::Last;
    let kernel_of = 3..3 + axes;
    let (spatial, channel) = if last { (Role::M, Role::N) } else { (Role::N, Role::M) };
    let mut roles = Roles::from_elem(spatial, 1);
    let (images, filters): (Vec<usize>, Vec<usize>) = if last {
        roles.extend(std::iter::repeat_n(spatial, axes));
        roles.extend([Role::Batch, channel]);
        (
            [1, 0].into_iter().chain(at).chain(kernel_at).chain([2]).collect(),
            [0].into_iter().chain(kernel_of).chain([2, 1]).collect(),
        )
    } else {
        roles.extend([Role::Batch, channel]);
        roles.extend(std::iter::repeat_n(spatial, axes));
        ([1, 2].into_iter().chain(kernel_at).chain([0]).chain(at).collect(), (0..3 + axes).collect())
    };
    let (images, filters) = (windows.permute(&images), w.permute(&filters));
    images.check()?;
    filters.check()?;
    let inputs = if last { Inputs::from_buf([images, filters]) } else { Inputs::from_buf([filters, images]) };
    let done = Tensor::new_node(Contraction { roles, accuracy: geometry.accuracy }, inputs)?;
    let joined: Dims = if last {
        [batch].into_iter().chain(pixels).chain([groups * out]).collect()
    } else {
        [batch, groups * out].into_iter().chain(pixels).collect()
    };
    Ok(done.reshape(&joined))
}

/// Adds a bias for each channel and takes off the batch that was put on.
fn finished(y: Tensor, bias: Option<&Tensor>, single: bool, axes: usize, channels: Channels) -> Result<Tensor> {
    let mut y = y;
    if let Some(bias) = bias {
        bias.check()?;
        let out = y.sizes()[if channels == Channels::Last { axes + 1 } else { 1 }];
        if bias.sizes() != [out] {
            return Err(Error::shape(format!("a bias of shape {:?} for {out} channels", bias.sizes())));
        }
        let mut shape = vec![out];
        if channels == Channels::First {
            shape.extend(std::iter::repeat_n(1, axes));
        }
        let dtype = y.dtype();
        y = (y + bias.cast(dtype).reshape(&shape)).cast(dtype);
    }
    Ok(if single { y.squeeze(0) } else { y })
}

/// # Convolutions
///
/// No copy of the windows or of the padded input is ever written: a device reads the input itself, by strides and guards. Conventions
/// are PyTorch's: filters are not flipped, an input is `[batch, channels, sizes..]` (or without the batch), filters are
/// `[out channels, channels / groups, sizes..]`. Half types are summed in f32; the error of a result is bounded by
/// `(k + 2) * eps * sum |x| |w|` over the `k` products that it sums, where `eps` is the roundoff of the type of the sum, unless
/// [`Conv::accuracy`] allows more.
impl Tensor {
    fn convolution(&self, w: &Tensor, bias: Option<&Tensor>, options: &Conv, axes: usize) -> Result<Tensor> {
        let (x, single, w, dtype) = operands(self, w, axes, options)?;
        let y = convolve(&x, &grouped(&w, options.groups)?, &options.geometry(axes)?, dtype)?;
        finished(y, bias, single, axes, options.channels)
    }

    fn transposed_convolution(&self, w: &Tensor, bias: Option<&Tensor>, options: &Conv, axes: usize) -> Result<Tensor> {
        let (x, single, w, dtype) = operands(self, w, axes, options)?;
        let geometry = options.geometry(axes)?;
        let output = options.output.of(axes)?;
        // Filters come as [in, out / groups, sizes..]: exchanged in each group, and flipped, they are those of a
        // convolution over the input with zeros between its elements.
        let mut w = grouped(&w, options.groups)?;
        let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..3 + axes).collect();
        w = w.permute(&order);
        for a in 0..axes {
            w = w.flip(3 + a as isize);
        }
        w.check()?;
        let mut x = x;
        if geometry.stride.contains(&0) || geometry.dilation.contains(&0) || w.sizes().contains(&0) {
            return Err(Error::argument("sizes, strides and dilations of filters are at least 1"));
        }
        if geometry.stride.iter().any(|&s| s > 1) && !x.is_empty() {
            let sizes = x.sizes()[2..].to_vec();
            let lead: Dims = x.sizes()[..2].into();
            let spaced: Dims = lead.iter().copied().chain(sizes.iter().flat_map(|&n| [n, 1])).collect();
            let zeros: Vec<(usize, usize)> = geometry.stride.iter().flat_map(|&s| [(0, 0), (0, s - 1)]).collect();
            let spread = x.reshape(&spaced).padded(&zeros, Scalar::zero(dtype))?;
            let joined: Dims =
                lead.iter().copied().chain(sizes.iter().zip(&geometry.stride).map(|(n, s)| n * s)).collect();
            x = spread.reshape(&joined);
            for (a, (size, stride)) in sizes.iter().zip(&geometry.stride).enumerate() {
                let n = (size - 1) * stride + 1;
                x = x.slice(2 + a, ..n);
            }
        }
        let mut amounts = Vec::with_capacity(axes);
        for (a, &more) in output.iter().enumerate() {
            // In wide numbers, since any amount may be given.
            let reach = (w.sizes()[3 + a] as i128 - 1) * geometry.dilation[a] as i128;
            if more >= geometry.stride[a].max(geometry.dilation[a]) {
                return Err(Error::argument("output_padding must be smaller than the stride or the dilation"));
            }
            // Padding of the result cuts it: what is cut beyond the filter's reach is cut from the input.
            let (low, high) = geometry.amounts[a];
            let around = |cut: usize, added: usize| reach + added as i128 - cut as i128;
            let (before, after) = (around(low, 0), around(high, more));
            let n = x.sizes()[2 + a] as i128;
            if before.min(0) + after.min(0) + n < 0 {
                return Err(Error::shape("the padding cuts away more than there is"));
            }
            x = x.slice(2 + a, (-before).max(0)..n - (-after).max(0));
            let amount = |n: i128| usize::try_from(n.max(0)).map_err(|_| Error::too_large(w.sizes()));
            amounts.push((amount(before)?, amount(after)?));
        }
        let ones = vec![1; axes];
        let geometry = Geometry { stride: ones, amounts, ..geometry };
        let y = convolve(&x, &w, &geometry, dtype)?;
        finished(y, bias, single, axes, options.channels)
    }

    /// The convolution along one axis: input `[batch, channels, length]`, filters `[out, channels / groups, size]`, a bias for
    /// each of the `out` channels. See [`Conv`].
    #[track_caller]
    pub fn conv1d(&self, filters: &Tensor, bias: Option<&Tensor>, options: &Conv) -> Tensor {
        Tensor::build("conv1d", || self.convolution(filters, bias, options, 1))
    }

    /// The convolution of images: input `[batch, channels, height, width]`, filters `[out, channels / groups, height, width]`,
    /// a bias for each of the `out` channels. See [`Conv`].
    #[track_caller]
    pub fn conv2d(&self, filters: &Tensor, bias: Option<&Tensor>, options: &Conv) -> Tensor {
        Tensor::build("conv2d", || self.convolution(filters, bias, options, 2))
    }

    /// The convolution along three axes; see [`Tensor::conv2d`].
    #[track_caller]
    pub fn conv3d(&self, filters: &Tensor, bias: Option<&Tensor>, options: &Conv) -> Tensor {
        Tensor::build("conv3d", || self.convolution(filters, bias, options, 3))
    }

    /// The transposed convolution along one axis (the gradient of [`Tensor::conv1d`] by its input): filters
    /// `[channels, out / groups, size]`; the result has `(length - 1) * stride - before - after + dilation * (size - 1) +
    /// output_padding + 1` elements, where `before` and `after` are the padding.
    ///
    /// ```
    /// use millstream::{Conv, Tensor};
    /// let x = Tensor::from_shape(&[1, 1, 2], &[1.0f32, 2.0]);
    /// let w = Tensor::from_shape(&[1, 1, 3], &[1.0f32, 10.0, 100.0]);
    /// let y = x.conv_transpose1d(&w, None, &Conv::new().stride(2));
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 10.0, 102.0, 20.0, 200.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn conv_transpose1d(&self, filters: &Tensor, bias: Option<&Tensor>, options: &Conv) -> Tensor {
        Tensor::build("conv_transpose1d", || self.transposed_convolution(filters, bias, options, 1))
    }

    /// The transposed convolution of images; see [`Tensor::conv_transpose1d`].
    #[track_caller]
    pub fn conv_transpose2d(&self, filters: &Tensor, bias: Option<&Tensor>, options: &Conv) -> Tensor {
        Tensor::build("conv_transpose2d", || self.transposed_convolution(filters, bias, options, 2))
    }

    /// The transposed convolution along three axes; see [`Tensor::conv_transpose1d`].
    #[track_caller]
    pub fn conv_transpose3d(&self, filters: &Tensor, bias: Option<&Tensor>, options: &Conv) -> Tensor {
        Tensor::build("conv_transpose3d", || self.transposed_convolution(filters, bias, options, 3))
    }
}
