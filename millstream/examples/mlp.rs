//! A small network learns which points lie in a ring. The gradients are written by hand, as Millstream has no automatic ones yet.
//!
//! ```text
//! step   0: loss 0.90, 55 % right
//! step 150: loss 0.57, 65 % right
//! step 300: loss 0.45, 71 % right
//! step 450: loss 0.21, 92 % right
//! step 600: loss 0.14, 96 % right
//! ```

use millstream::{DType, Generator, Result, Tensor};

const POINTS: usize = 512;
const WIDTH: usize = 32;
const RATE: f64 = 2.0;

fn main() -> Result<()> {
    let mut g = Generator::new(1);
    let x = g.uniform([POINTS, 2], DType::F32) * 2 - 1;
    let radius = x.square().sum_keepdim(1).sqrt();
    let y = (radius.gt(0.4) & radius.lt(0.8)).cast(DType::F32);
    Tensor::eval_all([&x, &y])?;

    let mut w1 = g.normal([2, WIDTH], DType::F32) * 2;
    let mut b1 = g.normal(WIDTH, DType::F32);
    let mut w2 = g.normal([WIDTH, 1], DType::F32) / (WIDTH as f64).sqrt();
    let mut b2 = Tensor::zeros(1, DType::F32);
    for step in 0..=600 {
        // Forward: two layers, and the probability that a point lies in the ring.
        let h = (x.matmul(&w1) + &b1).tanh();
        let logits = h.matmul(&w2) + &b2;
        let p = logits.sigmoid();
        if step % 150 == 0 {
            let loss = logits.bce_with_logits(&y, Default::default()).item::<f32>()?;
            let right = p.gt(0.5).eq(&y.gt(0.5)).cast(DType::F32).mean(..).item::<f32>()?;
            println!("step {step:3}: loss {loss:.2}, {:.0} % right", 100.0 * right);
        }
        // Backward, from the loss to the weights: the slope of the cross entropy of a sigmoid is p - y.
        let d_logits = (&p - &y) / POINTS;
        let d_h = d_logits.matmul(&w2.transpose()) * (1 - h.square());
        w2 -= RATE * h.transpose().matmul(&d_logits);
        b2 -= RATE * d_logits.sum(0);
        w1 -= RATE * x.transpose().matmul(&d_h);
        b1 -= RATE * d_h.sum(0);
        Tensor::eval_all([&w1, &b1, &w2, &b2])?;
    }
    Ok(())
}
