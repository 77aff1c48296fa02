//! Decoding by a transformer of GPT-2's shape: one token after the other, with a cache of keys and values that grows.
//!
//! `cargo run --release --example decode [tokens] [width] [heads] [layers] [words]` prints the median time of a token in milliseconds
//! (the first ten are left out) and the least; `millstream bench gpt2_f32_200` times and checks the same network. `bench/programs.py`
//! times the same program in NumPy.

mod network;

use std::time::Instant;

use millstream::{Result, default_runtime};
use network::{Network, Sizes, small};

fn main() -> Result<()> {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let number = |n: usize, usual: usize| given.get(n).copied().unwrap_or(usual);
    let tokens = number(0, 200);
    let usual = small(tokens);
    let (width, heads, layers) = (number(1, usual.width), number(2, usual.heads), number(3, usual.layers));
    let sizes = Sizes { width, heads, layers, words: number(4, usual.words), tokens };
    let mut network = Network::new(sizes, &default_runtime()?.default_device()?)?;
    let (mut word, mut times) = (1, Vec::new());
    for _ in 0..tokens {
        let start = Instant::now();
        word = network.read(&[word]).argmax(1).item::<i64>()? as usize;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let mut times = times.split_off(10.min(tokens - 1));
    times.sort_by(f64::total_cmp);
    println!("{tokens} tokens, the last {word}: median {:.3} ms, least {:.3} ms", times[times.len() / 2], times[0]);
    Ok(())
}
