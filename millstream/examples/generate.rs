//! Text from a transformer, letter by letter. Its weights are random, so the text means nothing; what matters is how it is written:
//! each layer keeps the keys and values of the letters so far, and a step computes the new letter alone.
//!
//! ```text
//! sfonjmjjmgqzwebbhzovrsdrrjisxonyedzfbbbxrssepsxosshmsskybbbb
//! Tensor(f32, [4, 60, 16], cpu)
//! ```

use millstream::{AttentionOptions, DType, Generator, NewAxis, Result, Tensor};

const LETTERS: &[u8; 27] = b" abcdefghijklmnopqrstuvwxyz";
const WIDTH: usize = 64;
const HEADS: usize = 4;

struct Layer {
    qkv: Tensor,
    out: Tensor,
    up: Tensor,
    down: Tensor,
}

/// Keys and values of the letters so far: heads, letters, width of a head.
#[derive(Clone)]
struct Cache {
    keys: Tensor,
    values: Tensor,
}

impl Layer {
    fn new(g: &mut Generator) -> Layer {
        let mut random = |from: usize, to: usize| g.normal([from, to], DType::F32) / (from as f64).sqrt();
        let (qkv, out) = (random(WIDTH, 3 * WIDTH), random(WIDTH, WIDTH));
        Layer { qkv, out, up: random(WIDTH, 4 * WIDTH), down: random(4 * WIDTH, WIDTH) }
    }

    /// One letter more: `x` is a row.
    fn apply(&self, x: &Tensor, cache: &mut Cache) -> Tensor {
        let qkv = x.layernorm(-1, 1e-5).matmul(&self.qkv).reshape((3, HEADS, 1, ()));
        cache.keys = Tensor::concat([&cache.keys, &qkv.i(1)], 1);
        cache.values = Tensor::concat([&cache.values, &qkv.i(2)], 1);
        let seen = qkv.i(0).attention(&cache.keys, &cache.values, &AttentionOptions::default());
        let x = x + seen.reshape([1, WIDTH]).matmul(&self.out);
        &x + x.layernorm(-1, 1e-5).matmul(&self.up).gelu().matmul(&self.down)
    }
}

fn main() -> Result<()> {
    let mut g = Generator::new(12);
    let embedding = g.normal([LETTERS.len(), WIDTH], DType::F32);
    let head = g.normal([WIDTH, LETTERS.len()], DType::F32) / 4;
    let layers: Vec<Layer> = (0..3).map(|_| Layer::new(&mut g)).collect();
    let weights = layers.iter().flat_map(|l| [&l.qkv, &l.out, &l.up, &l.down]);
    Tensor::eval_all(weights.chain([&embedding, &head]))?;

    let none = Tensor::zeros([HEADS, 0, WIDTH / HEADS], DType::F32);
    let mut caches = vec![Cache { keys: none.clone(), values: none }; layers.len()];
    let (mut letter, mut text) = (0, String::new());
    for _ in 0..60 {
        let mut x = embedding.i((letter, NewAxis));
        for (layer, cache) in layers.iter().zip(&mut caches) {
            x = layer.apply(&x, cache);
        }
        // A letter drawn with the probabilities softmax(logits): the largest of the logits with noise of Gumbel's distribution.
        let logits = x.layernorm(-1, 1e-5).matmul(&head);
        let noise = -(-g.uniform(logits.shape(), DType::F32).maximum(1e-9).log()).log();
        letter = (logits + noise).argmax(..).item::<i64>()? as usize;
        text.push(char::from(LETTERS[letter]));
    }
    println!("{text}");
    println!("{:?}", caches[0].keys);
    Ok(())
}
