//! The forward pass of a network of MobileNetV2's shape: random weights, batch normalisation folded into the convolutions.
//!
//! `cargo run --release --example mobilenet [batch] [without]` prints the median time of a pass; `without` stores all intermediate values
//! with their channels where the program has them. `millstream bench mobilenet_f32_1` times and checks the same network, and
//! `bench/mobilenet.py` times the same graph in ONNX Runtime.

#[path = "../shared/layers.rs"]
mod layers;
mod network;

use std::time::Instant;

use layers::images;
use millstream::{Idea, Result, compile};
use network::Network;

fn main() -> Result<()> {
    let batch: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let runtime = millstream::default_runtime()?;
    let device = runtime.default_device()?;
    let without = std::env::args().any(|a| a == "without");
    runtime.set_idea(Idea::Layout, !without);
    let network = Network::new(&device)?;
    let x = images(batch, &device)?;
    let pass = compile(move |x| network.forward(x));
    let mut times = Vec::new();
    for _ in 0..41 {
        let start = Instant::now();
        pass.call(&x)?.eval()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let case = if without { "without layout" } else { "as planned" };
    println!("{{\"case\": \"mobilenet_f32_{batch}\", \"how\": \"{case}\", \"ms\": {:.2}}}", times[times.len() / 2]);
    Ok(())
}
