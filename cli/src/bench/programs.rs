//! Whole programs, each as a user of another library would write it: the heat equation, Game of Life, k-means, training of a small network
//! (one or a few steps of each), and decoding by a network of GPT-2's shape. `bench/programs.py` times the same in NumPy.

// The network of the library's example, which shows how it is written.
#[path = "../../../millstream/examples/decode/network.rs"]
mod network;

use std::time::Instant;

use millstream::{Conv, DType, Device, Tensor};

use super::NETWORK_BOUND;
use super::compute::{Build, Compute, Input, Shown, bytes, elementwise, rows};
use super::random::Source;
use super::row::{Clock, Rates, Row};
use super::timing::Timing;
use crate::failure::{Failure, Outcome};
use crate::interrupt;

/// How far heat spreads in a step.
const RATE: f64 = 0.1;
/// How far the weights move in a step of training.
const LEARNING: f64 = 0.05;
/// How many steps of training are one piece of work.
const STEPS: usize = 10;

/// The form of the names of decoding, for people.
pub const FORM: (&str, &str) = (
    "gpt2_f32_T",
    "T tokens, one after the other, by a network of GPT-2 small's shape over a cache that grows; the time of one, the first ten left out",
);

/// What lies beyond the edges of a plate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// The opposite edge.
    Wraps,
    /// Zeros.
    Zeros,
}

/// The element of a plate so many rows and columns away from one.
fn beside(of: &Source, sizes: &[usize], i: usize, (down, right): (isize, isize), edge: Edge) -> f64 {
    let (rows, columns) = (sizes[0] as isize, sizes[1] as isize);
    let (r, c) = (i as isize / columns + down, i as isize % columns + right);
    let inside = (0..rows).contains(&r) && (0..columns).contains(&c);
    let at = (r.rem_euclid(rows) * columns + c.rem_euclid(columns)) as usize;
    if inside || edge == Edge::Wraps { of.at(at) } else { 0.0 }
}

/// A step of the heat equation at an element of the plate.
fn heat(of: &Source, sizes: &[usize], i: usize, edge: Edge) -> f64 {
    let four = [(-1, 0), (1, 0), (0, -1), (0, 1)].map(|to| beside(of, sizes, i, to, edge));
    of.at(i) + RATE * (four.iter().sum::<f64>() - 4.0 * of.at(i))
}

/// The same of tensors: what stands above, below, left, right of each element, and the element itself.
fn spread([up, down, left, right, u]: [&Tensor; 5]) -> Tensor {
    u + (up + down + left + right - u * 4.0) * RATE
}

fn plate(dtype: DType, sizes: &[usize], build: Build) -> Compute {
    Compute { build, reach: 5, ..rows(dtype, sizes, 7) }
}

/// What shifted views of a matrix without its edges show: above, below, left, right, the elements themselves.
fn shifted(x: &Tensor) -> [Tensor; 5] {
    let [rows, columns] = [0, 1].map(|d| x.shape()[d]);
    let view =
        |r: usize, c: usize| x.slice(0, r..r + rows.saturating_sub(2)).slice(1, c..c + columns.saturating_sub(2));
    [view(0, 1), view(2, 1), view(1, 0), view(1, 2), view(1, 1)]
}

/// A step of the heat equation inside the plate, by slices.
pub fn heat_slices(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        elements: sizes.iter().map(|n| n.saturating_sub(2)).product(),
        expected: |of, sizes, i| {
            let (columns, inner) = (sizes[1], sizes[1] - 2);
            heat(&of[0], sizes, (i / inner + 1) * columns + i % inner + 1, Edge::Zeros)
        },
        ..plate(dtype, sizes, |x, _| spread(shifted(&x[0]).each_ref()))
    }
}

/// The same on a plate without edges, by rolling it.
pub fn heat_roll(dtype: DType, sizes: &[usize]) -> Compute {
    let build: Build = |x, _| {
        let u = &x[0];
        spread([&u.roll(1, 0), &u.roll(-1, 0), &u.roll(1, 1), &u.roll(-1, 1), u])
    };
    Compute { expected: |of, sizes, i| heat(&of[0], sizes, i, Edge::Wraps), ..plate(dtype, sizes, build) }
}

/// The same with zeros around the plate, by padding it.
pub fn heat_pad(dtype: DType, sizes: &[usize]) -> Compute {
    let build: Build = |x, _| spread(shifted(&x[0].pad(&[(1, 1), (1, 1)], 0.0)).each_ref());
    Compute { expected: |of, sizes, i| heat(&of[0], sizes, i, Edge::Zeros), ..plate(dtype, sizes, build) }
}

/// The same by a convolution.
pub fn heat_conv(dtype: DType, sizes: &[usize]) -> Compute {
    let build: Build = |x, sizes| {
        let filter = [0.0, RATE, 0.0, RATE, 1.0 - 4.0 * RATE, RATE, 0.0, RATE, 0.0].map(|w| w as f32);
        let filter = Tensor::from_shape([1, 1, 3, 3], &filter);
        let filter = x[0].device().map_or(filter.clone(), |device| filter.to(&device));
        let image = x[0].reshape([1, 1, sizes[0], sizes[1]]);
        image.conv2d(&filter, None, &Conv::new().padding(1)).reshape(sizes)
    };
    Compute { expected: |of, sizes, i| heat(&of[0], sizes, i, Edge::Zeros), ..plate(dtype, sizes, build) }
}

/// A generation of Game of Life on a field without edges, by rolling it.
pub fn life(dtype: DType, sizes: &[usize]) -> Compute {
    let build: Build = |x, _| {
        let alive = &x[0];
        let beside =
            [(-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1), (-1, 0)].map(|(r, c)| alive.roll([r, c], [0, 1]));
        let around = beside.iter().fold(alive.roll([-1, -1], [0, 1]), |sum, x| sum + x);
        (around.eq(3) | (around.eq(2) & alive.eq(1))).cast(DType::U8)
    };
    Compute {
        inputs: vec![Input::indices(sizes, 2)],
        expected: |of, sizes, i| {
            let all = (0..9).map(|k| beside(&of[0], sizes, i, (k / 3 - 1, k % 3 - 1), Edge::Wraps));
            let (alive, around) = (of[0].at(i), all.sum::<f64>() - of[0].at(i));
            f64::from(around == 3.0 || (around == 2.0 && alive == 1.0))
        },
        reach: 9,
        ..plate(dtype, sizes, build)
    }
}

/// A round of k-means over N points of D dimensions: each of K centres becomes the mean of the points nearest to it.
pub fn kmeans(dtype: DType, sizes: &[usize]) -> Compute {
    let (n, d, k) = (sizes[0], sizes[1], sizes[2]);
    Compute {
        sizes: sizes.to_vec(),
        inputs: vec![Input::normal(&[n, d]), Input::normal(&[k, d])],
        elements: k * d,
        build: |x, sizes| {
            let (points, centres) = (&x[0], &x[1]);
            let distances = (points.unsqueeze(1) - centres).square().sum(-1);
            let members = distances.argmin(1).one_hot(sizes[2], DType::F32);
            members.transpose().matmul(points) / members.sum(0).unsqueeze(1)
        },
        whole: Some(|of, sizes, values| {
            let (n, d, k) = (sizes[0], sizes[1], sizes[2]);
            let (points, centres) = (of[0].values(n * d), of[1].values(k * d));
            let (mut sums, mut counts) = (vec![0.0; k * d], vec![0.0; k]);
            for p in points.chunks(d) {
                let far = |c: usize| p.iter().zip(&centres[c * d..]).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
                let all: Vec<f64> = (0..k).map(far).collect();
                let nearest = (1..k).fold(0, |best, c| if all[c] < all[best] { c } else { best });
                counts[nearest] += 1.0;
                sums[nearest * d..][..d].iter_mut().zip(p).for_each(|(s, x)| *s += x);
            }
            let mut error = if values.len() == k * d { 0.0f64 } else { f64::INFINITY };
            for (i, value) in values.iter().enumerate().filter(|(i, _)| counts[i / d] > 0.0) {
                let off = (value - sums[i] / counts[i / d]).abs();
                error = if off <= error { error } else { off };
            }
            error
        }),
        // A point between two centres may go to either.
        bound: 1e-2,
        shown: Shown::Flop,
        flop: 3 * (n * d * k) as u64,
        bytes: bytes(dtype, &[2 * n * d, 2 * k * d]),
        ..elementwise(dtype, k * d, 2, 0)
    }
}

/// Steps of training of two layers on B rows of I numbers, H wide between, each with its loss read.
pub fn train(dtype: DType, sizes: &[usize]) -> Compute {
    let (b, i, h) = (sizes[0], sizes[1], sizes[2]);
    Compute {
        sizes: sizes.to_vec(),
        inputs: vec![Input::normal(&[b, i]), Input::normal(&[b, 1]), Input::normal(&[i, h]), Input::normal(&[h, 1])],
        elements: i * h,
        build: |x, sizes| {
            let (b, scale) = (sizes[0], |n: usize| 1.0 / (n as f64).sqrt());
            let (rows, target) = (&x[0], &x[1]);
            let (mut w1, mut w2) = (&x[2] * scale(sizes[1]), &x[3] * scale(sizes[2]));
            for _ in 0..STEPS {
                let hidden = rows.matmul(&w1).tanh();
                let off = hidden.matmul(&w2) - target;
                if off.square().mean(..).item::<f32>().is_err() {
                    // It carries the error.
                    return off;
                }
                let slope = &off * (2.0 / b as f64);
                let before = slope.matmul(&w2.transpose()) * (1.0 - hidden.square());
                w2 -= hidden.transpose().matmul(&slope) * LEARNING;
                w1 -= rows.transpose().matmul(&before) * LEARNING;
            }
            w1
        },
        whole: Some(trained),
        bound: 1e-3,
        shown: Shown::Flop,
        flop: (STEPS * 2 * b * h * (2 * i + 3)) as u64,
        bytes: bytes(dtype, &[b * (i + 1), 2 * h * (i + 1)]),
        ..elementwise(dtype, i * h, 4, 0)
    }
}

/// The same in double precision, and how far the weights are off it.
fn trained(of: &[Source], sizes: &[usize], values: &[f64]) -> f64 {
    let (b, i, h) = (sizes[0], sizes[1], sizes[2]);
    let (x, target) = (of[0].values(b * i), of[1].values(b));
    let scaled =
        |s: &Source, n: usize, by: usize| s.values(n).iter().map(|w| w / (by as f64).sqrt()).collect::<Vec<_>>();
    let (mut w1, mut w2) = (scaled(&of[2], i * h, i), scaled(&of[3], h, h));
    for _ in 0..STEPS {
        let (mut g1, mut g2) = (vec![0.0; i * h], vec![0.0; h]);
        for (row, target) in x.chunks(i).zip(&target) {
            let sums = row.iter().zip(w1.chunks(h)).fold(vec![0.0; h], |mut sums, (x, w)| {
                sums.iter_mut().zip(w).for_each(|(s, w)| *s += x * w);
                sums
            });
            let hidden: Vec<f64> = sums.into_iter().map(f64::tanh).collect();
            let slope = (hidden.iter().zip(&w2).map(|(a, w)| a * w).sum::<f64>() - target) * 2.0 / b as f64;
            g2.iter_mut().zip(&hidden).for_each(|(g, a)| *g += a * slope);
            let before: Vec<f64> = hidden.iter().zip(&w2).map(|(a, w)| slope * w * (1.0 - a * a)).collect();
            for (x, g) in row.iter().zip(g1.chunks_mut(h)) {
                g.iter_mut().zip(&before).for_each(|(g, d)| *g += x * d);
            }
        }
        w1.iter_mut().zip(g1).for_each(|(w, g)| *w -= g * LEARNING);
        w2.iter_mut().zip(g2).for_each(|(w, g)| *w -= g * LEARNING);
    }
    super::moves::difference(values, &w1)
}

/// How many tokens the case of that name decodes, if it is one.
pub fn parse(name: &str) -> Option<usize> {
    name.strip_prefix("gpt2_f32_")?.parse().ok().filter(|n| (12..=1024).contains(n))
}

/// Decodes a text, and holds the last token's values against those of the whole text read at once in double precision.
pub fn decode(name: &str, tokens: usize, device: &Device, seconds: f64) -> Outcome<Row> {
    let mut network = network::Network::new(network::small(tokens), device)?;
    let (mut times, mut passes) = (Vec::new(), 0);
    let (mut text, mut last) = (Vec::new(), None);
    let begin = Instant::now();
    while passes < 2 || begin.elapsed().as_secs_f64() < seconds {
        network.forget();
        text = vec![1];
        for t in 0..tokens {
            interrupt::check()?;
            let start = Instant::now();
            let scores = network.read(&text[t..]);
            let word = scores.argmax(1).item::<i64>()? as usize;
            // The first pass compiles and plans.
            if passes > 0 && t >= 10 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            text.push(word);
            last = Some(scores);
        }
        passes += 1;
    }
    let scores = last.ok_or_else(|| Failure::failed("no token was decoded"))?.to_vec::<f32>()?;
    let double = network.cast(DType::F64)?.read(&text[..tokens]);
    let double = double.slice(0, tokens - 1..tokens).to_vec::<f64>()?;
    let values: Vec<f64> = scores.into_iter().map(f64::from).collect();
    let error = super::moves::difference(&values, &double);
    if error > NETWORK_BOUND {
        return Err(Failure::failed(format!("wrong result: error {error:.2e}, bound {NETWORK_BOUND:.2e}")));
    }
    let elements = network.elements(tokens / 2);
    let rates = Rates { flop: 2 * elements, saving: 1, bytes: 4 * elements, shown: Shown::Bytes, dtype: DType::F32 };
    let row = Row::new(name, device, Timing::of(times)).with_rates(&rates, &*device.measure()?);
    Ok(Row { max_err: Some(error), clock: Some(Clock::Host), ..row })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_read_at_once_gives_what_it_gives_token_by_token() {
        let device = millstream::default_runtime().and_then(|r| r.device("cpu")).unwrap();
        let sizes = network::Sizes { width: 24, heads: 3, layers: 2, words: 50, tokens: 9 };
        let mut network = network::Network::new(sizes, &device).unwrap();
        let text = [1, 7, 3, 3, 49, 0, 12, 5, 8];
        let last = text.iter().map(|&word| network.read(&[word])).last().unwrap().to_vec::<f32>().unwrap();
        let whole = network.cast(DType::F64).unwrap().read(&text).to_vec::<f64>().unwrap();
        let values: Vec<f64> = last.into_iter().map(f64::from).collect();
        assert!(super::super::moves::difference(&values, &whole[8 * 50..]) < 1e-5);
        assert!(super::super::moves::difference(&values, &whole[7 * 50..8 * 50]) > 1e-2, "the rows differ");
    }
}
