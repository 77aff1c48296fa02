//! A network of MobileNetV2's shape, with random weights and batch normalisation folded into the convolutions.

use millstream::{DType, Device, Generator, Result, Tensor};

use super::layers::{CLASSES, Layer, SIDE, Work, uniform};

/// Stages: how many times channels are widened inside a block, channels, blocks, and the first block's stride.
const STAGES: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];
/// Channels of the last convolution.
const FEATURES: usize = 1280;

/// Channels are widened, each is filtered by itself, and they are brought together; a way around where shapes allow.
struct Block {
    widen: Option<Layer>,
    depthwise: Layer,
    join: Layer,
    around: bool,
}

/// The weights of all layers.
pub struct Network {
    stem: Layer,
    blocks: Vec<Block>,
    head: Layer,
    last: Tensor,
}

impl Network {
    /// Random weights on a device, always the same.
    pub fn new(device: &Device) -> Result<Network> {
        let g = &mut Generator::new(1);
        let stem = Layer::new(g, (3, 32), (3, 2), device)?;
        let mut blocks = Vec::new();
        let mut from = 32;
        for (times, to, count, first) in STAGES {
            for i in 0..count {
                let (wide, stride) = (from * times, if i == 0 { first } else { 1 });
                let widen = if times == 1 { None } else { Some(Layer::new(g, (from, wide), (1, 1), device)?) };
                let depthwise = Layer::depthwise(g, wide, (3, stride), device)?;
                let join = Layer::new(g, (wide, to), (1, 1), device)?;
                blocks.push(Block { widen, depthwise, join, around: stride == 1 && from == to });
                from = to;
            }
        }
        let head = Layer::new(g, (from, FEATURES), (1, 1), device)?;
        Ok(Network { stem, blocks, head, last: uniform(g, &[FEATURES, CLASSES], 0.03, device)?.keep()? })
    }

    /// The same network in another dtype.
    #[allow(dead_code)] // What checks results needs it, the example does not.
    pub fn cast(&self, dtype: DType) -> Result<Network> {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for Block { widen, depthwise, join, around } in &self.blocks {
            let widen = widen.as_ref().map(|l| l.cast(dtype)).transpose()?;
            blocks.push(Block { widen, depthwise: depthwise.cast(dtype)?, join: join.cast(dtype)?, around: *around });
        }
        let (stem, head) = (self.stem.cast(dtype)?, self.head.cast(dtype)?);
        Ok(Network { stem, blocks, head, last: self.last.cast(dtype).keep()? })
    }

    /// The classes' values for images.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = self.stem.apply(x).relu6();
        for block in &self.blocks {
            let wide = block.widen.as_ref().map_or_else(|| x.clone(), |layer| layer.apply(&x).relu6());
            let y = block.join.apply(&block.depthwise.apply(&wide).relu6());
            x = if block.around { y + &x } else { y };
        }
        let x = self.head.apply(&x).relu6();
        x.adaptive_avg_pool2d(1).reshape([x.shape()[0], FEATURES]).matmul(&self.last)
    }

    /// What it takes for one image.
    #[allow(dead_code)] // As above.
    pub fn work(&self) -> Work {
        let mut work = Work::default();
        let mut side = work.layer(&self.stem, SIDE);
        for Block { widen, depthwise, join, .. } in &self.blocks {
            side = widen.iter().chain([depthwise, join]).fold(side, |side, layer| work.layer(layer, side));
        }
        work.layer(&self.head, side);
        work.matmul(&self.last);
        work
    }
}
