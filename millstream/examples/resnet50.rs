//! The forward pass of a network of ResNet-50's shape: random weights, batch normalisation folded into the convolutions.
//!
//! `cargo run --release --example resnet50 [batch]` prints the median time of a pass. `bench/resnet50.py` times the same
//! graph in ONNX Runtime and PyTorch.

use std::time::Instant;

use millstream::{Conv, DType, Generator, Pool, Result, Tensor};

/// Weights that keep values near 1 through all layers.
fn weights(g: &mut Generator, shape: &[usize], scale: f64) -> Result<Tensor> {
    let w = (g.uniform(shape, DType::F32) * 2.0 - 1.0) * scale;
    w.eval()?;
    Ok(w)
}

/// A convolution with its bias.
struct Layer {
    filters: Tensor,
    bias: Tensor,
    how: Conv,
}

impl Layer {
    fn new(g: &mut Generator, from: usize, to: usize, size: usize, stride: usize) -> Result<Layer> {
        let scale = (3.0 / (from * size * size) as f64).sqrt();
        let filters = weights(g, &[to, from, size, size], scale)?.keep()?;
        let bias = weights(g, &[to], 0.1)?;
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
        let g = &mut Generator::new(1);
        let stem = Layer::new(g, 3, 64, 7, 2)?;
        let mut blocks = Vec::new();
        let mut from = 64;
        for (stage, (count, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
            for i in 0..count {
                let stride = if i == 0 && stage > 0 { 2 } else { 1 };
                let layers = [
                    Layer::new(g, from, width, 1, 1)?,
                    Layer::new(g, width, width, 3, stride)?,
                    Layer::new(g, width, 4 * width, 1, 1)?,
                ];
                let around = if i == 0 { Some(Layer::new(g, from, 4 * width, 1, stride)?) } else { None };
                blocks.push(Block { layers, around });
                from = 4 * width;
            }
        }
        let last = weights(g, &[2048, 1000], 0.03)?.keep()?;
        let bias = weights(g, &[1000], 0.1)?;
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
    let x = weights(&mut Generator::new(2), &[batch, 3, 224, 224], 1.0)?;
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
