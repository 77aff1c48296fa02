//! The forward pass of a network of ResNet-50's shape: random weights, batch normalisation folded into the convolutions.
//!
//! `cargo run --release --example resnet50 [batch] [winograd]` prints the median time of a pass; `millstream bench resnet50_f32_1` times and
//! checks the same network. `bench/resnet50.py` times the same graph in ONNX Runtime and PyTorch.

#[path = "../shared/layers.rs"]
mod layers;
mod network;

use std::time::Instant;

use layers::images;
use millstream::{Accuracy, Result, compile};
use network::Network;

fn main() -> Result<()> {
    let batch: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let device = millstream::default_runtime()?.default_device()?;
    let winograd = std::env::args().any(|a| a == "winograd");
    let network = Network::new(&device, if winograd { Accuracy::Winograd } else { Accuracy::Full })?;
    let x = images(batch, &device)?;
    let pass = compile(move |x| network.forward(x));
    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        pass.call(&x)?.eval()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("{{\"case\": \"resnet50_f32_{batch}\", \"ms\": {:.2}}}", times[times.len() / 2]);
    Ok(())
}
