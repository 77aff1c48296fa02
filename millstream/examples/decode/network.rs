//! A transformer of GPT-2's shape with random weights, and a cache of keys and values that grows, written as one writes it by hand.

use millstream::{DType, Device, Generator, Result, Tensor};

/// How large a network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Elements of what stands for a token.
    pub width: usize,
    /// Heads of each attention.
    pub heads: usize,
    /// How many blocks there are.
    pub layers: usize,
    /// How many words there are.
    pub words: usize,
    /// The most tokens of a text.
    pub tokens: usize,
}

/// Those of the small GPT-2, for texts of so many tokens.
pub fn small(tokens: usize) -> Sizes {
    Sizes { width: 768, heads: 12, layers: 12, words: 50257, tokens }
}

/// Random numbers between -`scale` and `scale`, computed.
fn weights(g: &mut Generator, shape: &[usize], scale: f64, device: &Device) -> Result<Tensor> {
    let w = ((g.uniform(shape, DType::F32) * 2.0 - 1.0) * scale).to(device);
    w.eval()?;
    Ok(w)
}

fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let t = t.cast(dtype);
    t.eval()?;
    Ok(t)
}

/// A matrix and what is added behind it.
struct Linear {
    matrix: Tensor,
    bias: Tensor,
}

impl Linear {
    fn new(g: &mut Generator, from: usize, to: usize, device: &Device) -> Result<Linear> {
        // Values stay near 1 through all layers.
        let scale = (3.0 / from as f64).sqrt();
        Ok(Linear { matrix: weights(g, &[from, to], scale, device)?, bias: weights(g, &[to], 0.1, device)? })
    }

    fn cast(&self, dtype: DType) -> Result<Linear> {
        Ok(Linear { matrix: cast(&self.matrix, dtype)?, bias: cast(&self.bias, dtype)? })
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
    fn new(g: &mut Generator, width: usize, device: &Device) -> Result<Norm> {
        Ok(Norm { scale: weights(g, &[width], 1.0, device)?, shift: weights(g, &[width], 0.1, device)? })
    }

    fn cast(&self, dtype: DType) -> Result<Norm> {
        Ok(Norm { scale: cast(&self.scale, dtype)?, shift: cast(&self.shift, dtype)? })
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
    fn new(g: &mut Generator, Sizes { width, heads, .. }: Sizes, device: &Device) -> Result<Block> {
        Ok(Block {
            heads,
            before: Norm::new(g, width, device)?,
            three: Linear::new(g, width, 3 * width, device)?,
            joined: Linear::new(g, width, width, device)?,
            between: Norm::new(g, width, device)?,
            wide: Linear::new(g, width, 4 * width, device)?,
            narrow: Linear::new(g, 4 * width, width, device)?,
            past: None,
        })
    }

    fn cast(&self, dtype: DType) -> Result<Block> {
        Ok(Block {
            heads: self.heads,
            before: self.before.cast(dtype)?,
            three: self.three.cast(dtype)?,
            joined: self.joined.cast(dtype)?,
            between: self.between.cast(dtype)?,
            wide: self.wide.cast(dtype)?,
            narrow: self.narrow.cast(dtype)?,
            past: None,
        })
    }

    fn apply(&mut self, x: &Tensor) -> Tensor {
        let (tokens, width) = (x.shape()[0], x.shape()[1]);
        let d = width / self.heads;
        let three = self.three.apply(&self.before.apply(x)).reshape([tokens, 3, self.heads, d]);
        let [q, k, v] = [0, 1, 2].map(|i| three.select(1, i).permute([1, 0, 2]));
        let [k, v] = match &self.past {
            Some([keys, values]) => [Tensor::concat([keys, &k], 1), Tensor::concat([values, &v], 1)],
            None => [k, v],
        };
        self.past = Some([k.clone(), v.clone()]);
        let mut scores = q.matmul(&k.transpose()) / (d as f64).sqrt();
        if tokens > 1 {
            // Each sees those up to its own.
            let all = k.shape()[1];
            let at = Tensor::arange((all - tokens) as i64, all as i64).unsqueeze(1);
            scores = Tensor::arange(0, all as i64).le(&at).where_(&scores, f64::NEG_INFINITY);
        }
        let seen = scores.softmax(-1).matmul(&v).permute([1, 0, 2]).reshape([tokens, width]);
        let x = x + self.joined.apply(&seen);
        let wide = self.wide.apply(&self.between.apply(&x)).gelu_tanh();
        &x + self.narrow.apply(&wide)
    }
}

/// The weights, and what is remembered of a text.
pub struct Network {
    sizes: Sizes,
    blocks: Vec<Block>,
    last: Norm,
    table: Tensor,
    places: Tensor,
    /// How many tokens were read.
    read: usize,
}

impl Network {
    /// Random weights on a device, always the same; nothing was read.
    pub fn new(sizes: Sizes, device: &Device) -> Result<Network> {
        let g = &mut Generator::new(1);
        Ok(Network {
            sizes,
            blocks: (0..sizes.layers).map(|_| Block::new(g, sizes, device)).collect::<Result<_>>()?,
            last: Norm::new(g, sizes.width, device)?,
            table: weights(g, &[sizes.words, sizes.width], 0.1, device)?,
            places: weights(g, &[sizes.tokens, sizes.width], 0.1, device)?,
            read: 0,
        })
    }

    /// The same network in another dtype, which has read nothing.
    #[allow(dead_code)] // What checks results needs it, the example does not.
    pub fn cast(&self, dtype: DType) -> Result<Network> {
        Ok(Network {
            sizes: self.sizes,
            blocks: self.blocks.iter().map(|b| b.cast(dtype)).collect::<Result<_>>()?,
            last: self.last.cast(dtype)?,
            table: cast(&self.table, dtype)?,
            places: cast(&self.places, dtype)?,
            read: 0,
        })
    }

    /// Forgets the text.
    #[allow(dead_code)] // As above.
    pub fn forget(&mut self) {
        self.read = 0;
        self.blocks.iter_mut().for_each(|b| b.past = None);
    }

    /// Reads more of a text: for each token, how well each word would follow.
    pub fn read(&mut self, text: &[usize]) -> Tensor {
        let rows: Vec<Tensor> = text.iter().map(|&w| self.table.slice(0, w..w + 1)).collect();
        let words = if let [one] = &rows[..] { one.clone() } else { Tensor::concat(&rows, 0) };
        let mut x = words + self.places.slice(0, self.read..self.read + text.len());
        self.read += text.len();
        for block in &mut self.blocks {
            x = block.apply(&x);
        }
        self.last.apply(&x).matmul(&self.table.transpose())
    }

    /// Elements that a token reads: all weights, and at least so many tokens' keys and values.
    #[allow(dead_code)] // As above.
    pub fn elements(&self, tokens: usize) -> u64 {
        let Sizes { width, layers, words, .. } = self.sizes;
        (layers * (12 * width * width + 13 * width + 2 * tokens * width) + words * width) as u64
    }
}
