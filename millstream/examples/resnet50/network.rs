//! A network of ResNet-50's shape, with random weights and batch normalisation folded into the convolutions.

use millstream::{Accuracy, DType, Device, Generator, Pool, Result, Tensor};

use super::layers::{CLASSES, Layer, SIDE, Work, uniform};

/// Blocks of each stage, and the channels of their middle layers.
const STAGES: [(usize, usize); 4] = [(3, 64), (4, 128), (6, 256), (3, 512)];
/// Channels of the last stage.
const FEATURES: usize = 2048;

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
        let stem = Layer::new(g, (3, 64), (7, 2), device)?;
        let mut blocks = Vec::new();
        let mut from = 64;
        for (stage, (count, width)) in STAGES.into_iter().enumerate() {
            for i in 0..count {
                let stride = if i == 0 && stage > 0 { 2 } else { 1 };
                let layers = [
                    Layer::new(g, (from, width), (1, 1), device)?,
                    Layer::new(g, (width, width), (3, stride), device)?.within(accuracy),
                    Layer::new(g, (width, 4 * width), (1, 1), device)?,
                ];
                let around = if i == 0 { Some(Layer::new(g, (from, 4 * width), (1, stride), device)?) } else { None };
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
        let features = x.adaptive_avg_pool2d(1).reshape([x.shape()[0], FEATURES]);
        features.matmul(&self.last) + &self.bias
    }

    /// What it takes for one image.
    #[allow(dead_code)] // As above.
    pub fn work(&self) -> Work {
        let mut work = Work::default();
        // The pool after the first layer halves the image, too.
        let mut side = work.layer(&self.stem, SIDE) / 2;
        for block in &self.blocks {
            if let Some(layer) = &block.around {
                work.layer(layer, side);
            }
            side = block.layers.iter().fold(side, |side, layer| work.layer(layer, side));
        }
        work.matmul(&self.last);
        work.weights += self.bias.len() as u64;
        work
    }
}
