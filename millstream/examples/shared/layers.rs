//! What networks of convolutions are made of: layers with random weights, images, and a count of the work.

#![allow(dead_code)] // Each program uses a part of it.

use millstream::{Accuracy, Conv, DType, Device, Generator, Result, Tensor};

/// Pixels of an image's side.
pub const SIDE: usize = 224;
/// Classes that images are told apart by.
pub const CLASSES: usize = 1000;

/// Random numbers between -`scale` and `scale`, computed.
pub fn uniform(g: &mut Generator, shape: &[usize], scale: f64, device: &Device) -> Result<Tensor> {
    let w = ((g.uniform(shape, DType::F32) * 2.0 - 1.0) * scale).to(device);
    w.eval()?;
    Ok(w)
}

/// So many random images, computed.
pub fn images(count: usize, device: &Device) -> Result<Tensor> {
    uniform(&mut Generator::new(2), &[count, 3, SIDE, SIDE], 1.0, device)
}

/// A convolution with its bias.
pub struct Layer {
    filters: Tensor,
    bias: Tensor,
    stride: usize,
    how: Conv,
}

impl Layer {
    /// Every result sees all channels, through windows of this size a stride apart.
    pub fn new(g: &mut Generator, channels: (usize, usize), window: (usize, usize), device: &Device) -> Result<Layer> {
        Layer::in_groups(g, channels, window, 1, device)
    }

    /// Every channel is filtered by itself.
    pub fn depthwise(g: &mut Generator, channels: usize, window: (usize, usize), device: &Device) -> Result<Layer> {
        Layer::in_groups(g, (channels, channels), window, channels, device)
    }

    /// Random weights, with a scale that keeps values near 1 through all layers.
    fn in_groups(
        g: &mut Generator,
        (from, to): (usize, usize),
        (size, stride): (usize, usize),
        groups: usize,
        device: &Device,
    ) -> Result<Layer> {
        let within = from / groups;
        let scale = (3.0 / (within * size * size) as f64).sqrt();
        let filters = uniform(g, &[to, within, size, size], scale, device)?.keep()?;
        let bias = uniform(g, &[to], 0.1, device)?;
        Ok(Layer { filters, bias, stride, how: Conv::new().stride(stride).padding(size / 2).groups(groups) })
    }

    /// The same layer, computed with this accuracy.
    pub fn within(self, accuracy: Accuracy) -> Layer {
        Layer { how: self.how.accuracy(accuracy), ..self }
    }

    /// The same layer in another dtype.
    pub fn cast(&self, dtype: DType) -> Result<Layer> {
        let cast = |t: &Tensor| t.cast(dtype).keep();
        Ok(Layer { filters: cast(&self.filters)?, bias: cast(&self.bias)?, stride: self.stride, how: self.how.clone() })
    }

    /// What it makes of images.
    pub fn apply(&self, x: &Tensor) -> Tensor {
        x.conv2d(&self.filters, Some(&self.bias), &self.how)
    }
}

/// What a network takes for one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Arithmetic operations of its convolutions and its matmuls.
    pub flop: u64,
    /// Elements of its weights.
    pub weights: u64,
}

/// Elements inside the image that the windows of so many pixels along one side have in all.
pub fn taps(side: usize, window: usize, stride: usize, padding: usize, pixels: usize) -> usize {
    let inside = |first: usize| (first + window).min(side + padding).saturating_sub(first.max(padding));
    (0..pixels).map(|pixel| inside(pixel * stride)).sum()
}

impl Work {
    /// Adds a layer over images of so many pixels a side, and gives the side of its result.
    pub fn layer(&mut self, layer: &Layer, side: usize) -> usize {
        let (window, stride) = (layer.filters.shape()[3], layer.stride);
        let (filters, result) = (layer.filters.len(), side.div_ceil(stride));
        // Multiplications by the zeros around the image need not be computed.
        let taps = taps(side, window, stride, window / 2, result);
        self.flop += (2 * filters / (window * window) * taps * taps) as u64;
        self.weights += (filters + layer.bias.len()) as u64;
        result
    }

    /// Adds the matmul of a row with a matrix.
    pub fn matmul(&mut self, matrix: &Tensor) {
        let elements = matrix.len() as u64;
        self.flop += 2 * elements;
        self.weights += elements;
    }
}
