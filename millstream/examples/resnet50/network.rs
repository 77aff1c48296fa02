//! A network of ResNet-50's shape, with random weights and batch normalisation folded into the convolutions.

use millstream::{Accuracy, Conv, DType, Device, Generator, Pool, Result, Tensor};

/// Pixels of an image's side.
pub const SIDE: usize = 224;
/// Blocks of each stage, and the channels of their middle layers.
const STAGES: [(usize, usize); 4] = [(3, 64), (4, 128), (6, 256), (3, 512)];
/// Channels of the last stage, and classes.
const FEATURES: usize = 2048;
const CLASSES: usize = 1000;

/// Random numbers between -`scale` and `scale`, computed.
fn uniform(g: &mut Generator, shape: &[usize], scale: f64, device: &Device) -> Result<Tensor> {
    let w = ((g.uniform(shape, DType::F32) * 2.0 - 1.0) * scale).to(device);
    w.eval()?;
    Ok(w)
}

/// So many random images, computed.
pub fn images(count: usize, device: &Device) -> Result<Tensor> {
    uniform(&mut Generator::new(2), &[count, 3, SIDE, SIDE], 1.0, device)
}

/// A convolution with its bias.
struct Layer {
    filters: Tensor,
    bias: Tensor,
    how: Conv,
}

impl Layer {
    /// Windows of `size`, with a scale that keeps values near 1 through all layers.
    fn new(
        g: &mut Generator,
        (from, to): (usize, usize),
        size: usize,
        stride: usize,
        device: &Device,
    ) -> Result<Layer> {
        let scale = (3.0 / (from * size * size) as f64).sqrt();
        let filters = uniform(g, &[to, from, size, size], scale, device)?.keep()?;
        let bias = uniform(g, &[to], 0.1, device)?;
        Ok(Layer { filters, bias, how: Conv::new().stride(stride).padding(size / 2) })
    }

    fn within(self, accuracy: Accuracy) -> Layer {
        Layer { how: self.how.accuracy(accuracy), ..self }
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        x.conv2d(&self.filters, Some(&self.bias), &self.how)
    }

    fn cast(&self, dtype: DType) -> Result<Layer> {
        let cast = |t: &Tensor| t.cast(dtype).keep();
        Ok(Layer { filters: cast(&self.filters)?, bias: cast(&self.bias)?, how: self.how.clone() })
    }
}

/// Three convolutions and a way around them.
struct Block {
    layers: [Layer; 3],
    around: Option<Layer>,
}

/// The weights of all layers.
pub struct Network {
    stem: Layer,
    blocks: Vec<Block>,
    last: Tensor,
    bias: Tensor,
}

impl Network {
    /// Random weights on a device, always the same; convolutions of this accuracy.
    pub fn new(device: &Device, accuracy: Accuracy) -> Result<Network> {
        let g = &mut Generator::new(1);
        let stem = Layer::new(g, (3, 64), 7, 2, device)?;
        let mut blocks = Vec::new();
        let mut from = 64;
        for (stage, (count, width)) in STAGES.into_iter().enumerate() {
            for i in 0..count {
                let stride = if i == 0 && stage > 0 { 2 } else { 1 };
                let layers = [
                    Layer::new(g, (from, width), 1, 1, device)?,
                    Layer::new(g, (width, width), 3, stride, device)?.within(accuracy),
                    Layer::new(g, (width, 4 * width), 1, 1, device)?,
                ];
                let around = if i == 0 { Some(Layer::new(g, (from, 4 * width), 1, stride, device)?) } else { None };
                blocks.push(Block { layers, around });
                from = 4 * width;
            }
        }
        let last = uniform(g, &[FEATURES, CLASSES], 0.03, device)?.keep()?;
        let bias = uniform(g, &[CLASSES], 0.1, device)?;
        Ok(Network { stem, blocks, last, bias })
    }

    /// The same network in another dtype.
    #[allow(dead_code)] // What checks results needs it, the example does not.
    pub fn cast(&self, dtype: DType) -> Result<Network> {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let [a, b, c] = &block.layers;
            let layers = [a.cast(dtype)?, b.cast(dtype)?, c.cast(dtype)?];
            blocks.push(Block { layers, around: block.around.as_ref().map(|l| l.cast(dtype)).transpose()? });
        }
        let (last, bias) = (self.last.cast(dtype).keep()?, self.bias.cast(dtype).keep()?);
        Ok(Network { stem: self.stem.cast(dtype)?, blocks, last, bias })
    }

    /// The classes' values for images.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = self.stem.apply(x).relu().max_pool2d(&Pool::new(3).stride(2).padding(1));
        for block in &self.blocks {
            let [a, b, c] = &block.layers;
            let around = block.around.as_ref().map_or_else(|| x.clone(), |layer| layer.apply(&x));
            x = (c.apply(&b.apply(&a.apply(&x).relu()).relu()) + around).relu();
        }
        let features = x.adaptive_avg_pool2d(1).reshape(&[x.shape()[0], FEATURES]);
        features.matmul(&self.last) + &self.bias
    }

    /// Arithmetic operations of its convolutions and its product, and the weights' elements, for one image.
    #[allow(dead_code)] // As above.
    pub fn work() -> (u64, u64) {
        let (mut flop, mut weights) = (0, 0);
        let mut layer = |from: usize, to: usize, size: usize, side: usize| {
            let each = (from * to * size * size) as u64;
            weights += each + to as u64;
            flop += 2 * each * (side * side) as u64;
        };
        let mut side = SIDE / 2;
        layer(3, 64, 7, side);
        side /= 2;
        let mut from = 64;
        for (stage, (count, width)) in STAGES.into_iter().enumerate() {
            for i in 0..count {
                layer(from, width, 1, side);
                side /= if i == 0 && stage > 0 { 2 } else { 1 };
                layer(width, width, 3, side);
                layer(width, 4 * width, 1, side);
                if i == 0 {
                    layer(from, 4 * width, 1, side);
                }
                from = 4 * width;
            }
        }
        layer(FEATURES, CLASSES, 1, 1);
        (flop, weights)
    }
}
