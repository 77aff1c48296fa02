//! The forward pass of a network of ResNet-50's shape: random weights, batch normalisation folded into the convolutions.
//!
//! `cargo run --release --example resnet50 [batch]` prints the median time of a pass. `bench/resnet50.py` times the same
//! graph in ONNX Runtime and PyTorch.

use std::time::Instant;

use millstream::{Conv, Pool, Result, Tensor};

/// Weights that look random and keep values near 1 through all layers.
struct Weights(u64);

impl Weights {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn tensor(&mut self, shape: &[usize], scale: f32) -> Tensor {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.next() * scale).collect();
        Tensor::from_shape(shape, &values)
    }
}

/// A convolution with its bias.
struct Layer {
    filters: Tensor,
    bias: Tensor,
    how: Conv,
}

impl Layer {
    fn new(w: &mut Weights, from: usize, to: usize, size: usize, stride: usize) -> Result<Layer> {
        let scale = (3.0 / (from * size * size) as f32).sqrt();
        let filters = w.tensor(&[to, from, size, size], scale).keep()?;
        let bias = w.tensor(&[to], 0.1);
        Ok(Layer { filters, bias, how: Conv::new().stride(stride).padding(size / 2) })
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        x.conv2d(&self.filters, Some(&self.bias), &self.how)
    }
}

/// Three convolutions and a way around them.
struct Block {
    layers: [Layer; 3],
    around: Option<Layer>,
}

struct Network {
    stem: Layer,
    blocks: Vec<Block>,
    last: Tensor,
    bias: Tensor,
}

impl Network {
    fn new() -> Result<Network> {
        let w = &mut Weights(1);
        let stem = Layer::new(w, 3, 64, 7, 2)?;
        let mut blocks = Vec::new();
        let mut from = 64;
        for (stage, (count, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
            for i in 0..count {
                let stride = if i == 0 && stage > 0 { 2 } else { 1 };
                let layers = [
                    Layer::new(w, from, width, 1, 1)?,
                    Layer::new(w, width, width, 3, stride)?,
                    Layer::new(w, width, 4 * width, 1, 1)?,
                ];
                let around = if i == 0 { Some(Layer::new(w, from, 4 * width, 1, stride)?) } else { None };
                blocks.push(Block { layers, around });
                from = 4 * width;
            }
        }
        let last = w.tensor(&[2048, 1000], 0.03).keep()?;
        let bias = w.tensor(&[1000], 0.1);
        Ok(Network { stem, blocks, last, bias })
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = self.stem.apply(x).relu().max_pool2d(&Pool::new(3).stride(2).padding(1));
        for block in &self.blocks {
            let [a, b, c] = &block.layers;
            let around = block.around.as_ref().map_or_else(|| x.clone(), |layer| layer.apply(&x));
            x = (c.apply(&b.apply(&a.apply(&x).relu()).relu()) + around).relu();
        }
        let features = x.adaptive_avg_pool2d(1).reshape(&[x.shape()[0], 2048]);
        features.matmul(&self.last) + &self.bias
    }
}

fn main() -> Result<()> {
    let batch: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let network = Network::new()?;
    let x = Weights(2).tensor(&[batch, 3, 224, 224], 1.0);
    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        network.forward(&x).eval()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("{{\"case\": \"resnet50_f32_{batch}\", \"ms\": {:.2}}}", times[times.len() / 2]);
    Ok(())
}
