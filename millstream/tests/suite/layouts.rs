//! Graphs of convolutions whose intermediate values have their channels last give the same numbers as the same graphs without
//! that, and step by step. All numbers are small multiples of a power of two, so that no order of sums rounds
//! anything.

use crate::common::Random;
use millstream::core::Runtime;
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{Channels, Conv, Device, Idea, Pool, Tensor};

fn runtime() -> Runtime {
    Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build()
}

/// Integers from `-reach` to `reach`.
fn numbers(r: &mut Random, shape: &[usize], reach: usize, device: &Device) -> Tensor {
    let count = shape.iter().product();
    let data: Vec<f32> = (0..count).map(|_| r.below(2 * reach + 1) as f32 - reach as f32).collect();
    Tensor::from_shape(shape, &data).to(device)
}

/// A random network over `[batch, channels, height, width]`: each layer reads the one before it, and some read older ones. `each` sees every
/// layer's result.
fn network(seed: u64, device: &Device, each: &dyn Fn(&Tensor)) -> Vec<Tensor> {
    let r = &mut Random::new(seed);
    let (batch, mut channels) = (1 + r.below(3), 16 + r.below(20));
    let (height, width) = (12 + r.below(20), 12 + r.below(20));
    let mut x = numbers(r, &[batch, channels, height, width], 2, device);
    let mut more = Vec::new();
    for layer in 0..8 {
        let before = x.clone();
        // Depthwise layers decide where the channels are.
        match if layer % 2 == 0 { 0 } else { 1 + r.below(9) } {
            0 => {
                let size = 1 + 2 * r.below(2);
                let w = numbers(r, &[channels, 1, 3, size], 1, device);
                let how = Conv::new().padding([1, size / 2].as_slice()).groups(channels).stride(1 + r.below(2));
                x = x.conv2d(&w, Some(&numbers(r, &[channels], 3, device)), &how).relu();
            }
            1 | 2 => {
                let to = 16 + r.below(20);
                let w = numbers(r, &[to, channels, 1, 1], 1, device);
                x = x.conv2d(&w, None, &Conv::new()).clip(-8.0f32, 8.0f32);
                channels = to;
            }
            3 => {
                let w = numbers(r, &[channels, channels, 3, 3], 1, device);
                let y = x.conv2d(&w, None, &Conv::new().padding(1)) + &before;
                x = y.clip(-4.0f32, 4.0f32);
            }
            4 => x = x.max_pool2d(&Pool::new(3).stride(1 + r.below(2)).padding(1)),
            5 => x = x.avg_pool2d(&Pool::new(2)).clip(-4.0f32, 4.0f32),
            6 => {
                // The second part is no convolution's.
                let other = &x * 2.0f32;
                x = Tensor::concat(&[&x, &other], 1);
                channels *= 2;
            }
            7 => {
                // A factor for each channel, from all pixels.
                let factors = x.max_keepdim([2, 3]).clip(0.0f32, 2.0f32);
                x = x * factors;
            }
            8 => {
                let to = 16 + r.below(5);
                let w = numbers(r, &[channels, to, 2, 2], 1, device);
                x = x.conv_transpose2d(&w, None, &Conv::new().stride(2)).clip(-3.0f32, 3.0f32);
                channels = to;
            }
            // Read transposed, and a sum over channels: no order of channels helps here.
            _ => {
                more.push(x.sum(1));
                x = x.flip(3);
            }
        }
        x = x.clip(-4.0f32, 4.0f32);
        if x.shape()[2] < 5 || x.shape()[3] < 5 {
            x = x.pad(&[(0, 0), (0, 0), (2, 2), (2, 3)], 1.0f32);
        }
        each(&x);
    }
    if r.below(3) == 0 {
        more.push(x.reshape(&[batch, x.len() / batch]));
    }
    more.push(x.mean([2, 3]));
    more
}

#[test]
fn channels_last_inside_a_graph_changes_no_number() {
    let mut r = Random::fresh();
    let mut taken = 0;
    for _ in 0..40 {
        let seed = r.bits();
        println!("seed {seed}");
        let (with, without) = (runtime(), runtime());
        without.set_idea(Idea::Layout, false);
        let values = |outputs: Vec<Tensor>| -> Vec<Vec<f32>> {
            let all: Vec<&Tensor> = outputs.iter().collect();
            Tensor::eval_all(&all).unwrap();
            outputs.iter().map(|t| t.to_vec::<f32>().unwrap()).collect()
        };
        let (on, off) = (with.device("cpu").unwrap(), without.device("cpu").unwrap());
        let outputs = network(seed, &on, &|_| {});
        taken += usize::from(outputs.last().unwrap().explain().unwrap().contains("channels last"));
        let got = values(outputs);
        assert_eq!(got, values(network(seed, &off, &|_| {})), "without layouts");
        let stepwise = network(seed, &off, &|t| t.eval().unwrap());
        assert_eq!(got, values(stepwise), "step by step");
    }
    assert!(taken >= 6, "only {taken} of 40 graphs were computed with their channels last");
}

#[test]
fn a_result_that_is_wanted_keeps_its_order() {
    let runtime = runtime();
    let device = runtime.device("cpu").unwrap();
    let r = &mut Random::fresh();
    // Rows of three are too short for vectors of pixels, so that depthwise layers want their channels last.
    let x = numbers(r, &[2, 32, 3, 3], 2, &device);
    let wide = numbers(r, &[64, 32, 1, 1], 1, &device);
    let depthwise = numbers(r, &[64, 1, 3, 3], 1, &device);
    let narrow = numbers(r, &[32, 64, 1, 1], 1, &device);
    let first = x.conv2d(&wide, None, &Conv::new()).relu();
    let next = |first: &Tensor| {
        let second = first.conv2d(&depthwise, None, &Conv::new().padding(1).groups(64)).relu();
        second.conv2d(&narrow, None, &Conv::new()) + &x
    };
    let alone = next(&x.conv2d(&wide, None, &Conv::new()).relu());
    let text = alone.explain().unwrap();
    assert!(text.contains("channels last") && text.contains("depthwise channels"), "{text}");
    // The first is held, or wanted, too: it is stored as it is seen.
    let third = next(&first);
    assert!(!third.explain().unwrap().contains("channels last"));
    Tensor::eval_all(&[&first, &third]).unwrap();
    assert_eq!(first.to_vec::<f32>().unwrap(), {
        let again = x.conv2d(&wide, None, &Conv::new()).relu();
        again.to_vec::<f32>().unwrap()
    });
    let again = {
        let first = first.copy();
        first.eval().unwrap();
        let second = first.conv2d(&depthwise, None, &Conv::new().padding(1).groups(64)).relu();
        second.eval().unwrap();
        second.conv2d(&narrow, None, &Conv::new()) + &x
    };
    assert_eq!(third.to_vec::<f32>().unwrap(), again.to_vec::<f32>().unwrap());
}

#[test]
fn depthwise_layers_are_computed_by_kernels_of_their_own() {
    let runtime = runtime();
    let device = runtime.device("cpu").unwrap();
    let r = &mut Random::fresh();
    for (channels, side, stride) in [(32, 112, 1), (96, 112, 2), (192, 28, 2), (384, 14, 1), (960, 7, 1)] {
        let w = numbers(r, &[channels, 1, 3, 3], 1, &device);
        let bias = numbers(r, &[channels], 1, &device);
        let own = [
            (Channels::First, &["variant depthwise\n", "variant depthwise bundles"][..]),
            (Channels::Last, &["depthwise channels"]),
        ];
        for (order, kernels) in own {
            let shape = match order {
                Channels::First => [1, channels, side, side],
                Channels::Last => [1, side, side, channels],
            };
            let x = numbers(r, &shape, 1, &device);
            let how = Conv::new().padding(1).stride(stride).groups(channels).channels(order);
            let text = x.conv2d(&w, Some(&bias), &how).relu6().explain().unwrap();
            assert!(
                kernels.iter().any(|kernel| text.contains(kernel)),
                "{channels} channels, {side} a side, {order:?}:\n{text}"
            );
        }
    }
}
