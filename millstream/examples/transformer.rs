//! The forward pass of a transformer of twelve layers: width 768, twelve heads, 256 tokens, f32, random weights.
//!
//! `cargo run --release --example transformer [batch]` prints the median time of a pass, and how much memory the first pass
//! takes beyond weights and input: at most in blocks of the device's pool, at most on the heap (which holds the scratch memory of
//! kernels and the graph itself), and by how much the process grew. `bench/transformer.py` measures the same graph in PyTorch.

#[path = "shared/heap.rs"]
mod heap;

use std::time::Instant;

use heap::status;
use millstream::{AttentionOptions, DType, Generator, Result, Tensor, default_runtime};

const LAYERS: usize = 12;
const WIDTH: usize = 768;
const HEADS: usize = 12;
const TOKENS: usize = 256;

/// Weights that keep values near 1 through all layers.
fn weights(g: &mut Generator, shape: &[usize], scale: f64) -> Result<Tensor> {
    let w = (g.uniform(shape, DType::F32) * 2.0 - 1.0) * scale;
    w.eval()?;
    Ok(w)
}

/// A matrix and what is added behind it.
struct Linear {
    matrix: Tensor,
    bias: Tensor,
}

impl Linear {
    fn new(g: &mut Generator, from: usize, to: usize) -> Result<Linear> {
        let scale = (3.0 / from as f64).sqrt();
        Ok(Linear { matrix: weights(g, &[from, to], scale)?, bias: weights(g, &[to], 0.1)? })
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.matrix) + &self.bias
    }
}

/// A normalisation with its scale and shift.
struct Norm {
    scale: Tensor,
    shift: Tensor,
}

impl Norm {
    fn new(g: &mut Generator) -> Result<Norm> {
        Ok(Norm { scale: weights(g, &[WIDTH], 1.0)?, shift: weights(g, &[WIDTH], 0.1)? })
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        x.layernorm(-1, 1e-5) * &self.scale + &self.shift
    }
}

struct Block {
    before: Norm,
    three: Linear,
    joined: Linear,
    between: Norm,
    wide: Linear,
    narrow: Linear,
}

impl Block {
    fn new(g: &mut Generator) -> Result<Block> {
        Ok(Block {
            before: Norm::new(g)?,
            three: Linear::new(g, WIDTH, 3 * WIDTH)?,
            joined: Linear::new(g, WIDTH, WIDTH)?,
            between: Norm::new(g)?,
            wide: Linear::new(g, WIDTH, 4 * WIDTH)?,
            narrow: Linear::new(g, 4 * WIDTH, WIDTH)?,
        })
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        let batch = x.shape()[0];
        let three = self.three.apply(&self.before.apply(x));
        let three = three.reshape([batch, TOKENS, 3, HEADS, WIDTH / HEADS]).permute([2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|i| three.select(0, i));
        let seen = q.attention(&k, &v, &AttentionOptions::default());
        let seen = seen.permute([0, 2, 1, 3]).reshape([batch, TOKENS, WIDTH]);
        let x = x + self.joined.apply(&seen);
        let wide = self.wide.apply(&self.between.apply(&x)).gelu();
        &x + self.narrow.apply(&wide)
    }
}

fn main() -> Result<()> {
    let batch: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(4);
    let g = &mut Generator::new(1);
    let blocks = (0..LAYERS).map(|_| Block::new(g)).collect::<Result<Vec<_>>>()?;
    let last = Norm::new(g)?;
    let x = weights(g, &[batch, TOKENS, WIDTH], 1.0)?;
    let forward = || last.apply(&blocks.iter().fold(x.clone(), |x, block| block.apply(&x)));

    let device = default_runtime()?.default_device()?;
    let in_use = device.pool().stats().in_use;
    let heap = heap::reset_peak();
    // Lets the system's mark of the largest size begin at the present one.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let resident = status("VmRSS");
    forward().eval()?;
    let grown = status("VmHWM").zip(resident).map(|(most, before)| most.saturating_sub(before));
    let pool = device.pool().stats().peak.saturating_sub(in_use);
    let heap = heap::peak().saturating_sub(heap);

    let mut times = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        forward().eval()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"case\":\"transformer_f32_{batch}x{TOKENS}x{WIDTH}\",\"device\":\"{}\",\"ms\":{:.2},\"peak_pool_bytes\":{pool},\
         \"peak_heap_bytes\":{heap},\"process_growth_bytes\":{}}}",
        device.name(),
        times[times.len() / 2],
        grown.map_or("null".to_string(), |bytes| bytes.to_string()),
    );
    Ok(())
}
