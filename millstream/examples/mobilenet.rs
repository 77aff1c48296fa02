//! The forward pass of a network of MobileNetV2's shape: random weights, batch normalisation folded into the convolutions.
//!
//! `cargo run --release --example mobilenet [batch] [without]` prints the median time of a pass; `without` stores all intermediate values
//! with their channels where the program has them. `bench/mobilenet.py` times the same graph in ONNX Runtime.

use std::time::Instant;

use millstream::{Conv, DType, Device, Generator, Idea, Result, Tensor};

/// Stages: how many times channels are widened inside a block, channels, blocks, and the first block's stride.
const STAGES: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// Random numbers between -`scale` and `scale`, computed.
fn uniform(g: &mut Generator, shape: &[usize], scale: f64, device: &Device) -> Result<Tensor> {
    let w = ((g.uniform(shape, DType::F32) * 2.0 - 1.0) * scale).to(device);
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
    fn new(
        g: &mut Generator,
        (from, to): (usize, usize),
        (size, stride): (usize, usize),
        groups: usize,
        device: &Device,
    ) -> Result<Layer> {
        let scale = (3.0 / (from / groups * size * size) as f64).sqrt();
        let filters = uniform(g, &[to, from / groups, size, size], scale, device)?.keep()?;
        let how = Conv::new().stride(stride).padding(size / 2).groups(groups);
        Ok(Layer { filters, bias: uniform(g, &[to], 0.1, device)?, how })
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        x.conv2d(&self.filters, Some(&self.bias), &self.how)
    }
}

/// Channels are widened, each is filtered by itself, and they are brought together; a way around where shapes allow.
struct Block {
    widen: Option<Layer>,
    apart: Layer,
    join: Layer,
    around: bool,
}

struct Network {
    stem: Layer,
    blocks: Vec<Block>,
    head: Layer,
    last: Tensor,
}

impl Network {
    fn new(device: &Device) -> Result<Network> {
        let g = &mut Generator::new(1);
        let stem = Layer::new(g, (3, 32), (3, 2), 1, device)?;
        let mut blocks = Vec::new();
        let mut from = 32;
        for (times, to, count, first) in STAGES {
            for i in 0..count {
                let (wide, stride) = (from * times, if i == 0 { first } else { 1 });
                let widen = match times {
                    1 => None,
                    _ => Some(Layer::new(g, (from, wide), (1, 1), 1, device)?),
                };
                let apart = Layer::new(g, (wide, wide), (3, stride), wide, device)?;
                let join = Layer::new(g, (wide, to), (1, 1), 1, device)?;
                blocks.push(Block { widen, apart, join, around: stride == 1 && from == to });
                from = to;
            }
        }
        let head = Layer::new(g, (from, 1280), (1, 1), 1, device)?;
        Ok(Network { stem, blocks, head, last: uniform(g, &[1280, 1000], 0.03, device)?.keep()? })
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = self.stem.apply(x).relu6();
        for block in &self.blocks {
            let wide = block.widen.as_ref().map_or_else(|| x.clone(), |layer| layer.apply(&x).relu6());
            let y = block.join.apply(&block.apart.apply(&wide).relu6());
            x = if block.around { y + &x } else { y };
        }
        let x = self.head.apply(&x).relu6();
        x.adaptive_avg_pool2d(1).reshape(&[x.shape()[0], 1280]).matmul(&self.last)
    }
}

fn main() -> Result<()> {
    let batch: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let runtime = millstream::default_runtime()?;
    let device = runtime.default_device()?;
    let without = std::env::args().any(|a| a == "without");
    runtime.set_idea(Idea::Layout, !without);
    let network = Network::new(&device)?;
    let x = uniform(&mut Generator::new(2), &[batch, 3, 224, 224], 1.0, &device)?;
    let mut times = Vec::new();
    for _ in 0..41 {
        let start = Instant::now();
        network.forward(&x).eval()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let case = if without { "without layout" } else { "as planned" };
    println!("{{\"case\": \"mobilenet_f32_{batch}\", \"how\": \"{case}\", \"ms\": {:.2}}}", times[times.len() / 2]);
    Ok(())
}
