//! Decoding by a transformer of GPT-2's shape: one token after the other, with a cache of keys and values that grows, written
//! as one writes it by hand.
//!
//! `cargo run --release --example decode [tokens] [width] [heads] [layers] [words]` prints the median time of a token (the first
//! ten are left out), and which share of all tokens' time went into everything but the steps of plans.

use std::time::Instant;

use millstream::{DType, Generator, Result, Tensor, default_runtime};

/// Weights that keep values near 1 through all layers.
fn weights(g: &mut Generator, shape: &[usize], scale: f64) -> Result<Tensor> {
    let w = (g.uniform(shape, DType::F32) * 2.0 - 1.0) * scale;
    w.eval()?;
    Ok(w)
}

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

struct Norm {
    scale: Tensor,
    shift: Tensor,
}

impl Norm {
    fn new(g: &mut Generator, width: usize) -> Result<Norm> {
        Ok(Norm { scale: weights(g, &[width], 1.0)?, shift: weights(g, &[width], 0.1)? })
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        x.layernorm(-1, 1e-5) * &self.scale + &self.shift
    }
}

struct Block {
    heads: usize,
    before: Norm,
    three: Linear,
    joined: Linear,
    between: Norm,
    wide: Linear,
    narrow: Linear,
    /// Keys and values of the tokens so far: `[heads, tokens, width / heads]`.
    past: Option<[Tensor; 2]>,
}

impl Block {
    fn new(g: &mut Generator, width: usize, heads: usize) -> Result<Block> {
        Ok(Block {
            heads,
            before: Norm::new(g, width)?,
            three: Linear::new(g, width, 3 * width)?,
            joined: Linear::new(g, width, width)?,
            between: Norm::new(g, width)?,
            wide: Linear::new(g, width, 4 * width)?,
            narrow: Linear::new(g, 4 * width, width)?,
            past: None,
        })
    }

    fn apply(&mut self, x: &Tensor) -> Tensor {
        let width = x.shape()[1];
        let d = width / self.heads;
        let three = self.three.apply(&self.before.apply(x)).reshape(&[3, self.heads, 1, d]);
        let [q, k, v] = [0, 1, 2].map(|i| three.select(0, i));
        let [k, v] = match &self.past {
            Some([keys, values]) => [Tensor::concat([keys, &k], 1), Tensor::concat([values, &v], 1)],
            None => [k, v],
        };
        self.past = Some([k.clone(), v.clone()]);
        let scores = q.matmul(&k.transpose()) / (d as f64).sqrt();
        let seen = scores.softmax(-1).matmul(&v).reshape(&[1, width]);
        let x = x + self.joined.apply(&seen);
        let wide = self.wide.apply(&self.between.apply(&x)).gelu_tanh();
        &x + self.narrow.apply(&wide)
    }
}

fn main() -> Result<()> {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let number = |n: usize, usual: usize| given.get(n).copied().unwrap_or(usual);
    let (tokens, width, heads, layers, words) =
        (number(0, 200), number(1, 768), number(2, 12), number(3, 12), number(4, 50257));
    let g = &mut Generator::new(1);
    let mut blocks = (0..layers).map(|_| Block::new(g, width, heads)).collect::<Result<Vec<_>>>()?;
    let last = Norm::new(g, width)?;
    let table = weights(g, &[words, width], 0.1)?;
    let places = weights(g, &[tokens, width], 0.1)?;
    let device = default_runtime()?.default_device()?;
    let mut word = 1;
    let mut times = Vec::new();
    for t in 0..tokens {
        let start = Instant::now();
        let (w, at) = (word as isize, t as isize);
        let mut x = table.slice(0, w..w + 1) + places.slice(0, at..at + 1);
        for block in &mut blocks {
            x = block.apply(&x);
        }
        let scores = last.apply(&x).matmul(&table.transpose());
        word = scores.argmax(1).item::<i64>()? as usize % words;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let mut times = times.split_off(10.min(tokens - 1));
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"case\":\"decode_f32_{layers}x{width}\",\"device\":\"{}\",\"tokens\":{tokens},\"ms\":{:.3},\"least\":{:.3},\"last\":{word}}}",
        device.name(),
        times[times.len() / 2],
        times[0],
    );
    Ok(())
}
