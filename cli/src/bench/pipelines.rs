//! Streams of items through pipelines: `pipeline_transfer_f32_N`, where the way from and to the host costs the most, and
//! `pipeline_resnet50_f32_B`, where the arithmetic does.
//!
//! The time is that of one item in a run of many, from the first that goes in to the last that comes out. Items lie in memory that the
//! device copies by itself (pinned), results come out into such; `_pageable` takes items from ordinary memory. `_sync` is the same with one
//! item in flight at a time: upload, computation and download one after the other. Some elements of every result are checked.

use std::time::{Duration, Instant};

use millstream::core::Buffer;
use millstream::pipeline::{Progress, Statistics};
use millstream::{Accuracy, DType, Device, Layout, Pipeline, Result, Tensor};

use super::compute::{self, Shown};
use super::networks::{self, Network, Shape};
use super::row::{Clock, Rates, Row};
use super::timing;
use crate::failure::{Failure, Outcome};
use crate::interrupt;

/// The forms of the names, for people.
pub const FORMS: [(&str, &str); 2] = [
    (
        "pipeline_transfer_f32_N",
        "a stream of N numbers up, the chain, N down, for each item; _pageable: from ordinary memory; _sync: one item at a time",
    ),
    ("pipeline_resnet50_f32_N", "a stream of N images each through ResNet-50's shape; _pageable and _sync as above"),
];

/// Items of one run.
pub const ITEMS: usize = 16;
/// Different items among them.
const KINDS: usize = 3;
/// Elements of each result that are compared.
const SAMPLES: usize = 64;
/// The largest relative difference from what the same functions give outside of a pipeline.
const BOUND: f64 = 1e-4;
/// More numbers than this at once are a slip of the pen.
const MOST: usize = 1 << 30;

/// What flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// So many numbers through a chain of functions.
    Numbers(usize),
    /// So many images through a network.
    Images(usize),
}

/// Where items lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// In memory that the device copies by itself, where it has such.
    Staged,
    /// In ordinary memory.
    Pageable,
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What flows.
    pub what: What,
    /// Where items lie.
    pub lies: Lies,
    /// Whether one item is in flight at a time.
    pub one_by_one: bool,
}

/// The case of that name, if it is one of these.
pub fn parse(name: &str) -> Option<Stream> {
    let (what, rest) = name.strip_prefix("pipeline_")?.split_once("_f32_")?;
    let (rest, one_by_one) = rest.strip_suffix("_sync").map_or((rest, false), |rest| (rest, true));
    let (size, lies) = rest.strip_suffix("_pageable").map_or((rest, Lies::Staged), |size| (size, Lies::Pageable));
    let size = size.parse().ok().filter(|n| (1..=MOST).contains(n))?;
    let what = match what {
        "transfer" => What::Numbers(size),
        "resnet50" if size <= networks::MOST_IMAGES => What::Images(size),
        _ => return None,
    };
    Some(Stream { what, lies, one_by_one })
}

/// Times a stream. `progress` is told of each item.
pub fn measure(
    name: &str,
    device: &Device,
    seconds: f64,
    stream: Stream,
    progress: &(dyn Fn() + Sync),
) -> Outcome<Row> {
    match stream.what {
        What::Numbers(n) => {
            let y = (Tensor::arange(0, n as i64).cast(DType::F32) * (1.0 / n as f32)).to(device);
            y.eval()?;
            let function = |x: &Tensor| (x * 1.5 + &y).tanh() * x.sigmoid() - y.abs().sqrt();
            let item = |kind: usize| Tensor::arange(0, n as i64).cast(DType::F32) * (kind as f32 + 1.0) / n as f32;
            // The cost of the chain as the case of that name says it, and the bytes of the way.
            let flop = compute::chain(DType::F32, &[n]).flop;
            let rates = Rates { flop, saving: 1, bytes: 8 * n as u64, shown: Shown::Bytes, dtype: DType::F32 };
            run(name, device, seconds, stream, &item, &function, &rates, progress)
        }
        What::Images(n) => {
            let network = Network::new(Shape::ResNet50(Accuracy::Full), device)?;
            let images = networks::images(n, &device.host())?;
            let item = |kind: usize| &images * (1.0 / (kind as f32 + 1.0));
            let function = |x: &Tensor| network.forward(x);
            let (work, pixels) = (network.work(), images.len() as u64);
            let (flop, bytes) = (n as u64 * work.flop, 4 * (work.weights + pixels));
            let rates = Rates { flop, saving: 1, bytes, shown: Shown::Flop, dtype: DType::F32 };
            run(name, device, seconds, stream, &item, &function, &rates, progress)
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn run(
    name: &str,
    device: &Device,
    seconds: f64,
    stream: Stream,
    item: &dyn Fn(usize) -> Tensor,
    function: &(dyn Fn(&Tensor) -> Tensor + Sync),
    rates: &Rates,
    progress: &(dyn Fn() + Sync),
) -> Outcome<Row> {
    let profile = device.measure()?;
    let host = device.host();
    let items: Vec<Tensor> = (0..KINDS)
        .map(|kind| match stream.lies {
            Lies::Staged => staged(&item(kind), device),
            Lies::Pageable => staged(&item(kind), &host),
        })
        .collect::<Result<_>>()?;
    let expected: Vec<Vec<f32>> =
        items.iter().map(|x| function(&x.to(device)).to_vec::<f32>()).collect::<Result<_>>()?;
    let pipeline = Pipeline::new(device, function).on_progress(|_: &Progress| progress());
    let pipeline = if stream.one_by_one { pipeline.depth(1) } else { pipeline };
    let mut worst = 0f64;
    let mut numbers: Option<Statistics> = None;
    let once = || -> Outcome<Duration> {
        let started = Instant::now();
        let mut run = pipeline.run((0..ITEMS).map(|i| items[i % KINDS].clone()))?;
        for (i, result) in run.by_ref().enumerate() {
            interrupt::check()?;
            worst = worst.max(error(&result.map_err(millstream::Error::from)?, &expected[i % KINDS], &host)?);
        }
        let elapsed = started.elapsed();
        numbers = Some(run.statistics());
        Ok(elapsed)
    };
    let timing = timing::repeat(seconds, 2000, once)?.per(ITEMS);
    if worst > BOUND {
        return Err(Failure::failed(format!("wrong result: error {worst:.2e}, bound {BOUND:.2e}")));
    }
    let row = Row::new(name, device, timing).with_rates(rates, &profile);
    let numbers = numbers.ok_or_else(|| Failure::failed("nothing was run"))?;
    Ok(Row {
        max_err: Some(worst),
        clock: Some(Clock::Host),
        // The limit of the device alone says nothing of the way to it.
        limit_fraction: row.limit_fraction.filter(|_| matches!(stream.what, What::Images(_))),
        suspect: row.suspect && matches!(stream.what, What::Images(_)),
        utilisation: Some(numbers.utilisation(device.name())),
        in_flight: Some(numbers.depth),
        waits_for: numbers.waits_for().map(str::to_string),
        ..row
    })
}

/// A tensor of the host, in memory that the device copies by itself.
fn staged(x: &Tensor, device: &Device) -> Result<Tensor> {
    let bytes = x.to_bytes()?;
    let buffer = Buffer::staged(device, bytes.len(), |room| {
        room.copy_from_slice(&bytes);
        Ok(())
    })?;
    Ok(Tensor::from_buffer(buffer, x.dtype(), Layout::contiguous(x.dims()?)?))
}

/// The largest difference of some elements, over the largest value among them.
fn error(result: &Tensor, expected: &[f32], host: &Device) -> Outcome<f64> {
    let number = |bytes: &[u8], i: usize| {
        bytes.get(4 * i..4 * i + 4).and_then(|b| b.try_into().ok()).map_or(f32::NAN, f32::from_ne_bytes)
    };
    let step = expected.len().div_ceil(SAMPLES).max(1);
    let at: Vec<usize> = (0..expected.len()).step_by(step).collect();
    let found: Vec<f32> = result.buffer()?.with_host(host, |bytes| at.iter().map(|&i| number(bytes, i)).collect())?;
    let largest = at.iter().fold(0f64, |most, &i| most.max(f64::from(expected[i].abs())));
    let differences = at.iter().zip(&found).map(|(&i, y)| (f64::from(*y) - f64::from(expected[i])).abs());
    // A maximum would leave NaN out.
    let worst = differences.fold(0f64, |most, e| if e <= most { most } else { e });
    Ok(if worst.is_finite() { worst / largest.max(f64::MIN_POSITIVE) } else { f64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_flows_and_how() {
        let stream = |what, lies, one_by_one| Some(Stream { what, lies, one_by_one });
        assert_eq!(parse("pipeline_transfer_f32_1024"), stream(What::Numbers(1024), Lies::Staged, false));
        assert_eq!(parse("pipeline_transfer_f32_8_sync"), stream(What::Numbers(8), Lies::Staged, true));
        assert_eq!(parse("pipeline_transfer_f32_8_pageable_sync"), stream(What::Numbers(8), Lies::Pageable, true));
        assert_eq!(parse("pipeline_resnet50_f32_8"), stream(What::Images(8), Lies::Staged, false));
        for name in ["pipeline_transfer_f32_0", "pipeline_resnet50_f32_100000", "pipeline_f32_8", "pipeline_x_f32_8"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn every_element_that_is_looked_at_counts() {
        let host = millstream::default_runtime().unwrap().host().unwrap();
        let expected: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let right = Tensor::from_slice(&expected);
        assert_eq!(error(&right, &expected, &host).unwrap_or_else(|f| panic!("{f}")), 0.0);
        assert!(error(&(&right * 1.01), &expected, &host).unwrap_or_else(|f| panic!("{f}")) > BOUND);
        assert_eq!(error(&(right / 0.0 * 0.0), &expected, &host).unwrap_or_else(|f| panic!("{f}")), f64::MAX);
    }
}
